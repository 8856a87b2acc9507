"""``curate inspect`` as typed: what is found in rows that were made to hold it, each once or a known number of times."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.terminal import curate, facts

T = ("--count", "trace", "--estimate", "chars/1")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def write(traces: list[str | None], name: str = "t.parquet", **more: list[object]) -> str:
    columns = {"id": [f"p{i}" for i in range(len(traces))], "generation": traces} | more
    pl.DataFrame(columns, strict=False).write_parquet(name)
    return name


def test_the_keys_and_the_structure_of_each_kind_of_trace() -> None:
    source = write(
        [
            "<think>a</think>b",  # complete
            "a</think>b",  # the opening mark is missing, which is fine
            "<think>a",  # never closed
            "<think>a</think>",  # no answer
            "no marks at all",  # finished, and does not think
            "<think>a</think>b<|im_end|>",  # chat control text
            "<think>a<think>b</think>c</think>d",  # several marks
            "   ",  # blank
            None,
        ],
        passed=[True, True, False, None, True, True, True, True, True],
        rating=[1, 2, None, float("nan"), float("inf"), 0, -5, 3, 4],
    )
    found = facts("inspect", source, *T)
    assert (found["rows"], found["traces"], found["problems"]) == (9, 9, 9)
    assert (found["bad_rows"], found["unfinished"], found["without_thinking"]) == (2, 2, 1)
    assert found["passing"] == {"basis": "verdict", "passed": 7, "failed": 1, "unknown": 1}
    assert found["difficulty"] == {"rated": 4, "unrated": 5}  # a rating of 0 or less is none
    structure = {"complete": 4, "opening_missing": 1, "malformed": 1, "control_text": 1, "render_altered": 0}
    assert found["structure"] | structure == found["structure"]
    assert set(found["lengths"]) == {"prompt", "reasoning", "answer"}
    assert found["tokens"]["counted"] == 7


def test_lengths_apart() -> None:
    body = "<think>" + "r" * 50 + "</think>" + "a" * 20
    write([body] * 3, prompt=["p" * 10] * 3)
    found = facts("inspect", "t.parquet", "--estimate", "chars/1")
    # the prompt with the line end that joins it; the marks belong to neither part
    assert [found["lengths"][part]["total"] for part in ("prompt", "reasoning", "answer")] == [33, 150, 60]
    assert found["lengths"]["answer"] == {"p50": 20, "p90": 20, "max": 20, "total": 60}
    assert found["tokens"]["total"] == 3 * (10 + 1 + 85)


def test_copies_and_loops_are_counted_on_all_and_on_a_sample() -> None:
    loop = "<think>" + "so we try the next one and then go on " * 60
    fine = [f"<think>{' '.join(str(i * k) for k in range(80))}</think>{i}" for i in range(10)]
    source = write([*fine, fine[0], fine[1], loop], id=["a"] * 13)
    found = facts("inspect", source, *T)
    assert found["duplicates"] == 2  # of the same problem, byte for byte
    assert (found["sample"]["looked_at"], found["sample"]["loops"]) == (13, 1)


def test_an_id_that_numbers_rows_while_prompts_repeat_is_pointed_out_first() -> None:
    write(["<think>a</think>b"] * 40, prompt=[f"q{i % 8}" for i in range(40)])
    done = curate("inspect", "t.parquet", *T)
    assert "40 ids for 8 prompts" in done.out
    assert done.out.index("--problem prompt") < done.out.index("One trace per problem")
    found = facts("inspect", "t.parquet", "--problem", "prompt", *T)
    assert found["traces_per_problem"] == {"5": 8}
    assert found["ids"] is None or not found["ids"]["suspect"]


def test_a_file_in_an_order_is_pointed_out() -> None:
    write(["<think>" + "w" * (10 + 20 * i) + "</think>b" for i in range(200)])
    found = facts("inspect", "t.parquet", *T)
    assert found["order"]["misleading"]
    assert "Use --sample, not the head" in curate("inspect", "t.parquet", *T).out.replace("\n      ", " ")


def test_overlap_with_a_benchmark() -> None:
    shared = "how many ways are there to tile this long strip of squares"
    write(
        ["<think>a</think>b"] * 3, prompt=[f"Tell me {shared} now.", "Something else entirely, with many other words in it.", "x"]
    )
    pl.DataFrame({"question": [f"Please say {shared}", "unrelated"]}).write_csv("bench.csv")
    found = facts("inspect", "t.parquet", "--against", "bench.csv", *T)
    assert (found["overlap"]["problems"], found["overlap"]["sharing"]) == (3, 1)


def test_show_pages_through_traces_from_short_to_long_whole() -> None:
    texts = ["<think>" + "w" * n + f"</think>answer {n}" for n in (500, 10, 90)]
    write(texts, prompt=["first?", "second?", "third?"])
    done = curate("inspect", "t.parquet", "--show", "3", *T)
    assert [done.out.index(t) for t in (texts[1], texts[2], texts[0])] == sorted(done.out.index(t) for t in texts)
    assert "second?" in done.out
    assert texts[0] in curate("inspect", "t.parquet", "--show", "longest", *T).out
    assert curate("inspect", "t.parquet", "--show", "1", *T).out.count("problem p") == 1


def test_control_characters_of_a_trace_do_not_reach_the_terminal() -> None:
    write(["<think>\x1b[31mred\x07</think>b"])
    done = curate("inspect", "t.parquet", "--show", "1", *T)
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", ""])
def test_show_of_no_number_is_refused_before_any_work(word: str) -> None:
    assert curate("inspect", "nothing-is-read", "--show", word).status == 2


def test_zero_rows_say_so() -> None:
    pl.DataFrame(schema={"id": pl.String, "generation": pl.String, "passed": pl.Boolean}).write_parquet("t.parquet")
    found = facts("inspect", "t.parquet", *T)
    assert (found["rows"], found["traces"], found["problems"], found["traces_per_problem"]) == (0, 0, 0, {})
    done = curate("inspect", "t.parquet", *T)
    assert (done.status, "nan" in done.out.lower()) == (0, False)


def test_the_mapping_is_printed_and_quiet_prints_none() -> None:
    write(["<think>a</think>b"], passed=[True], finish_reason=["stop"])
    said = curate("inspect", "t.parquet", *T).err
    assert "t: trace = generation, problem = id, passed = passed, finish = finish_reason" in said
    assert curate("inspect", "t.parquet", "-q", *T).err == ""


def test_a_template_that_deletes_reasoning_is_the_first_line(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    word = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    word.pre_tokenizer = pre_tokenizers.Whitespace()
    word.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    strip = "{% for m in messages %}{{ m.role }} {{ m.content.split('</think>')[-1] }} {% endfor %}"
    keep = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
    write(["<think>one two three</think>four"] * 2, prompt=["q"] * 2, passed=[True] * 2)
    for name, template, first in (("strip", strip, "STOP"), ("keep", keep, "OK")):
        (tmp_path / f"{name}.jinja").write_text(template)
        options = ("--tokenizer", tmp_path / "tokenizer.json", "--chat-template", tmp_path / f"{name}.jinja")
        done = curate("inspect", "t.parquet", *options)
        assert done.out.startswith(first), done.out + done.err
        found = facts("inspect", "t.parquet", *options)
        assert found["template"]["keeps_reasoning"] is (name == "keep")
        assert found["structure"]["render_altered"] == (2 if name == "strip" else 0)
        picked = curate("select", "t.parquet", "--shortest", *options, "-o", name)
        assert (picked.status, Path(name).exists()) == ((0, True) if name == "keep" else (1, False))
        if name == "strip":
            assert "--count trace" in picked.err
            assert "2 of 2 traces" in curate("yield", "t.parquet", *options).out.replace("\n      ", " ")
