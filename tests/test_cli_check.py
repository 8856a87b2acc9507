"""``curate check`` as typed: an output that is sound, and each way in which it can be not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.terminal import curate, facts

T = ("--count", "trace", "--estimate", "chars/1")
SHARD = "data/train-00000-of-00001.parquet"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    traces = ["<think>" + "w" * n + "</think>a" for n in (30, 20, 900, 40)]
    frame = pl.DataFrame({"id": list("aabc"), "prompt": list("pppq"), "generation": traces, "passed": [True] * 4})
    frame.write_parquet("t.parquet")
    facts("select", "t.parquet", *T, "--shortest", "--max-tokens", "100", "-o", "out")


def test_what_select_wrote_is_sound_with_and_without_its_source() -> None:
    found = facts("check", "out")
    assert (found["ok"], found["trainer"]) == (True, None)
    assert all(c["ok"] for c in found["checks"])
    assert len(facts("check", "out", "--source", "t.parquet")["checks"]) == len(found["checks"]) + 1
    assert curate("check", "out").out.startswith("out is sound.")


def test_a_source_whose_text_changed_is_found() -> None:
    frame = pl.read_parquet("t.parquet")
    changed = frame.with_columns(generation=pl.col("generation").str.replace("wwww", "wwwv", literal=True))
    changed.write_parquet("changed.parquet")
    done = curate("check", "out", "--source", "changed.parquet")
    assert done.status == 1
    assert "no trace cut" in done.out


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda out: (out / SHARD).unlink(), SHARD),
        (lambda out: flip(out / SHARD), SHARD),
        (lambda out: (out / "ledger.parquet").unlink(), "ledger.parquet"),
        (lambda out: (out / "README.md").write_text("changed"), "README.md"),
        (lambda out: (out / "manifest.json").unlink(), "manifest.json"),
        (lambda out: (out / "manifest.json").write_text("{"), "manifest.json"),
        (
            lambda out: (out / "data" / "train-00001-of-00002.parquet").write_bytes((out / SHARD).read_bytes()),
            "train-00001-of-00002",
        ),
    ],
)
def test_each_harm_is_found_and_named(harm: Callable[[Path], object], named: str) -> None:
    harm(Path("out"))
    done = curate("check", "out")
    assert done.status == 1
    assert named in done.out.replace("\n      ", " ")
    assert "Traceback" not in done.err
    assert not json.loads(curate("check", "out", "--json").out)["ok"]


def test_a_folder_that_is_no_output_is_not_sound() -> None:
    Path("other").mkdir()
    for name in ("other", "nowhere"):
        assert curate("check", name).status == 1


def test_an_estimate_proves_nothing_to_a_trainer() -> None:
    done = curate("check", "out", "--trainer", "trl", "--max-length", "8192")
    assert done.status == 1
    assert "--tokenizer" in done.out


@pytest.mark.parametrize("trainer", ["trl", "axolotl", "llama-factory", "open-instruct", "prime-rl", "torchtune"])
def test_a_trainer_takes_every_row_by_its_own_rule_or_says_why_not(trainer: str) -> None:
    found = json.loads(curate("check", "out", "--trainer", trainer, "--max-length", "8192", "--json").out)
    proof = found["trainer"]
    assert (proof["trainer"], proof["max_length"], proof["rows"], proof["over"]) == (trainer, 8192, 2, 0)
    assert proof["because"]
    small = json.loads(curate("check", "out", "--trainer", trainer, "--max-length", "10", "--json").out)
    assert (small["ok"], small["trainer"]["proved"]) == (False, False)


def test_exact_counts_of_messages_prove_it_and_print_the_line(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    word = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    word.pre_tokenizer = pre_tokenizers.Whitespace()
    word.save("tokenizer.json")
    Path("tokenizer_config.json").write_text(
        json.dumps({"chat_template": "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"})
    )
    picked = curate("select", "t.parquet", "--tokenizer", "tokenizer.json", "--shortest", "--max-tokens", "100", "-o", "exact")
    assert "SFTConfig(max_length=100" in picked.out
    found = facts("check", "exact", "--trainer", "trl", "--max-length", "100")
    assert (found["ok"], found["trainer"]["proved"]) == (True, True)
    assert "max_length=100" in found["trainer"]["line"]
    # user p assistant < think > www </ think > a: ten words by white space and punctuation
    assert found["trainer"]["longest"] == pl.read_parquet("exact/data/*.parquet")["tokens"].max()


def test_prompts_that_are_rendered_already_are_said_and_prove_nothing() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    word = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "<|im_start|>": 2, "<|im_end|>": 3}, unk_token="[UNK]"))
    word.pre_tokenizer = pre_tokenizers.Whitespace()
    word.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    word.save("tokenizer.json")
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    Path("tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    prompt = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
    pl.DataFrame({"id": ["a"], "prompt": [prompt], "generation": ["<think>r</think>s"], "passed": [True]}).write_parquet(
        "r.parquet"
    )
    options = ("--tokenizer", "tokenizer.json", "--shortest", "--max-tokens", "100")
    done = curate("select", "r.parquet", *options, "-o", "turns")
    assert "hold a chat template's own tokens already" in done.err
    assert curate("check", "turns", "--trainer", "trl", "--max-length", "100").status == 1
    facts("select", "r.parquet", *options, "--format", "prompt-completion", "-o", "plain")
    row = pl.read_parquet("plain/data/*.parquet").to_dicts()[0]
    assert (row["prompt"], row["completion"]) == (prompt, "<think>r</think>s")
    assert row["tokens"] == len(word.encode(prompt + "<think>r</think>s", add_special_tokens=False).ids)
