"""A proof says yes only where the trainer's own rule keeps every row whole."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from curate import formats, trainers
from curate.errors import CurateError, UsageError
from curate.ledger import SCHEMA, Meta, to_bytes

NAMES = ("trl", "axolotl", "llama-factory", "open-instruct", "prime-rl", "torchtune")
ROWS = ("messages", "problem", "tokens", "passed", "difficulty", "source")


def lengths(*tokens: int | None, unmarked: bool = False, basis: str = "exact", count: str = "sample") -> trainers.Lengths:
    return trainers.Lengths(
        tokens=pl.Series(tokens, dtype=pl.UInt32),
        unmarked=pl.Series([unmarked] * len(tokens), dtype=pl.Boolean),
        basis=basis,
        count=count,
        by="chars/3.6",
    )


def prove(name: str, made: trainers.Lengths, n: int, style: str = "messages", columns: tuple[str, ...] = ROWS) -> trainers.Proof:
    return trainers.prove(trainers.find(name), made, max_length=n, style=style, columns=columns, out="out")


def test_six_trainers_are_known_each_with_the_code_that_was_read() -> None:
    assert tuple(trainers.rules()) == NAMES
    for rule in trainers.rules().values():
        assert len(rule.commit) == 7
        assert "/" in rule.repository and ".py" in rule.file
        assert "messages" in rule.config


@pytest.mark.parametrize("name", NAMES)
def test_rows_well_below_the_bound_are_proved_whole(name: str) -> None:
    proof = prove(name, lengths(10, 90), 100)
    assert proof.proved
    assert (proof.rows, proof.longest, proof.over, proof.faults) == (2, 90, 0, ())
    assert proof.line is not None and "100" in proof.line
    assert trainers.find(name).commit in proof.because


@pytest.mark.parametrize(
    ("name", "longest"),
    [("trl", 100), ("axolotl", 100), ("llama-factory", 99), ("open-instruct", 100), ("prime-rl", 100), ("torchtune", 98)],
)
def test_the_longest_row_that_is_safe_at_one_hundred(name: str, longest: int) -> None:
    assert prove(name, lengths(longest), 100).proved
    proof = prove(name, lengths(longest + 1, 5), 100)
    assert not proof.proved
    assert proof.over == 1
    assert f"--max-tokens {longest}" in proof.faults[0]


def test_axolotl_drops_and_trl_cuts() -> None:
    assert "would be dropped" in prove("axolotl", lengths(101), 100).faults[0]
    assert "would be cut" in prove("trl", lengths(101), 100).faults[0]


def test_llama_factory_may_add_an_empty_think_block_of_19_bytes() -> None:
    assert prove("llama-factory", lengths(80, unmarked=True), 100).proved
    assert not prove("llama-factory", lengths(81, unmarked=True), 100).proved
    assert any("no think mark" in note for note in prove("llama-factory", lengths(80, unmarked=True), 100).notes)


def test_an_estimate_or_a_trace_alone_proves_nothing() -> None:
    assert "proves nothing" in prove("trl", lengths(1, basis="estimate"), 100).faults[0]
    assert "--count sample" in prove("trl", lengths(1, count="trace"), 100).faults[0]
    assert not prove("trl", lengths(1, None), 100).proved


def test_a_format_that_a_trainer_does_not_take_is_named() -> None:
    columns = ("conversations", *ROWS[1:])
    proof = prove("trl", lengths(1), 100, style="sharegpt", columns=columns)
    assert not proof.proved
    assert proof.line is None
    assert "--format messages or prompt-completion" in proof.faults[0]


def test_a_prompt_column_beside_messages_trips_trl_only() -> None:
    columns = ("messages", "prompt", "tokens")
    assert "column prompt" in prove("trl", lengths(1), 100, columns=columns).faults[0]
    assert prove("prime-rl", lengths(1), 100, columns=columns).proved
    assert "columns tools, labels" in prove("trl", lengths(1), 100, columns=("messages", "tools", "labels")).faults[0]


def test_source_rows_are_judged_by_their_columns() -> None:
    assert prove("trl", lengths(1), 100, style="source", columns=("id", "messages")).proved
    assert prove("trl", lengths(1), 100, style="source", columns=("id", "prompt", "completion")).proved
    assert not prove("trl", lengths(1), 100, style="source", columns=("id", "generation")).proved


def test_one_line_of_configuration_each() -> None:
    said = {name: trainers.line(name, style="messages", max_length=8192, out="out") for name in NAMES}
    assert said == {
        "trl": "SFTConfig(max_length=8192)",
        "axolotl": "{sequence_len: 8192, excess_length_strategy: raise, "
        "datasets: [{path: out, type: chat_template, field_messages: messages}]}",
        "llama-factory": "cutoff_len: 8192",
        "open-instruct": "--max_seq_length 8192",
        "prime-rl": "[data] seq_len = 8192",
        "torchtune": "tokenizer.max_seq_len=8192 dataset.conversation_column=messages dataset.conversation_style=openai",
    }
    assert all("\n" not in line for line in said.values())
    with pytest.raises(UsageError, match="does not take --format alpaca"):
        trainers.line("trl", style="alpaca", max_length=8192)


def test_an_unknown_trainer_offers_near_ones() -> None:
    with pytest.raises(UsageError, match="Did you mean axolotl"):
        trainers.find("axolot")


def test_axolotl_s_line_is_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    for style in ("messages", "sharegpt"):
        config = yaml.safe_load(trainers.line("axolotl", style=style, max_length=64, out="out"))
        assert config["sequence_len"] == 64
        assert config["datasets"][0]["path"] == "out"


def test_llama_factory_s_side_file_names_the_columns_that_are_written() -> None:
    assert trainers.dataset_info("messages") == {
        "curated": {
            "file_name": "OUT/data",
            "formatting": "sharegpt",
            "columns": {"messages": "messages"},
            "tags": {
                "role_tag": "role",
                "content_tag": "content",
                "user_tag": "user",
                "assistant_tag": "assistant",
                "system_tag": "system",
            },
        }
    }
    assert trainers.dataset_info("sharegpt")["curated"]["columns"] == {"messages": "conversations"}
    assert trainers.dataset_info("alpaca")["curated"]["columns"]["prompt"] == "instruction"
    with pytest.raises(UsageError):
        trainers.dataset_info("prompt-completion")


def test_a_folder_is_checked_by_its_own_ledger(tmp_path: Path) -> None:
    values = {
        "source": [0, 0],
        "row": [0, 1],
        "item": [0, 0],
        "problem": ["a", "b"],
        "tokens": [100, 900],
        "prompt_tokens": [1, 1],
        "passed": [True, True],
        "finished": [True, True],
        "thinking": [True, True],
        "difficulty": [None, None],
        "reason": [None, "over_length"],
    }
    frame = pl.DataFrame(values, schema=SCHEMA)
    (tmp_path / "data").mkdir()
    (tmp_path / "ledger.parquet").write_bytes(to_bytes(frame, Meta(tokens={"basis": "exact", "by": "t", "count": "sample"})))
    said = [[{"role": "user", "content": "q"}, {"role": "assistant", "content": "<|begin_of_thought|>t<|end_of_thought|>a"}]]
    pl.DataFrame({"messages": said, "tokens": [100]}).write_parquet(tmp_path / "data" / "train.parquet")
    (tmp_path / "manifest.json").write_text(json.dumps({"curate": "0", "format_of_rows": "messages"}))
    assert trainers.check(tmp_path, "trl", max_length=100).proved
    proof = trainers.check(tmp_path, "trl", max_length=99)
    assert (proof.proved, proof.rows, proof.longest, proof.over) == (False, 1, 100, 1)
    assert not trainers.check(tmp_path, "llama-factory", max_length=119).proved  # 100 + 1, and 19 for marks it does not know
    assert trainers.check(tmp_path, "llama-factory", max_length=120).proved
    (tmp_path / "data" / "train.parquet").unlink()
    with pytest.raises(CurateError, match="holds no data"):
        trainers.check(tmp_path, "trl", max_length=99)
    with pytest.raises(CurateError, match="no manifest"):
        trainers.check(tmp_path / "none", "trl", max_length=99)


@pytest.mark.parametrize("style", ["messages", "prompt-completion", "sharegpt", "alpaca", "source"])
def test_think_marks_are_looked_for_in_the_reply_of_every_format(style: str, tmp_path: Path) -> None:
    trace = pl.Series(["<think>t</think>a", "t</think>a", "plain", "<thinking>t</thinking>a"])
    one = pl.DataFrame({"trace": trace, "prompt": ["<think> in the question"] * 4})
    kept = pl.DataFrame({"problem": ["p"] * 4, "tokens": [1] * 4, "passed": [True] * 4, "difficulty": [1.0] * 4, "name": ["s"] * 4})
    path = tmp_path / "rows.parquet"
    if style == "source":
        pl.DataFrame({"id": [1, 2, 3, 4], "generation": trace}).write_parquet(path)
        assert trainers._unmarked([path]).to_list() == [True] * 4
        return
    pq.write_table(formats.rows(one, kept, style), path)  # type: ignore[arg-type]
    assert trainers._unmarked([path]).to_list() == [False, False, True, True]
