"""``curate count``: a ledger that answers every later question as its source would, and that writes over nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from curate.ledger import OPTIONAL, SCHEMA
from tests.terminal import curate, facts, listed


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    lines = {
        "id": ["a", "a", "b", None, "c"],
        "prompt": ["pp"] * 5,
        "generation": ["<think>one</think>1", "<think>two", "<think>three</think>3", "<think>four</think>4", " "],
        "passed": [True, False, None, True, True],
        "rating": [800, 800, 1200, 900, None],
        "finish_reason": ["stop", "length", "stop", "stop", "stop"],
    }
    pl.DataFrame(lines).write_parquet("t.parquet")


def test_the_columns_and_the_values_of_a_ledger() -> None:
    found = facts("count", "t.parquet", "--estimate", "chars/1", "-o", "l.parquet")
    assert (found["rows"], found["traces"], found["problems"], found["out"]) == (5, 5, 3, "l.parquet")
    ledger = pl.read_parquet("l.parquet")
    assert [c for c in ledger.columns if c in SCHEMA] == list(SCHEMA)
    assert set(ledger.columns) <= {*SCHEMA, *OPTIONAL}
    assert {k: ledger.schema[k] for k in ("source", "row", "item", "tokens", "prompt_tokens", "difficulty")} == {
        "source": pl.UInt16, "row": pl.UInt32, "item": pl.UInt32, "tokens": pl.UInt32, "prompt_tokens": pl.UInt32,
        "difficulty": pl.Float64,
    }  # fmt: skip
    rows = ledger.select("row", "problem", "tokens", "prompt_tokens", "passed", "finished", "thinking", "difficulty", "reason")
    # prompt, line end and trace: 2 and 1, and 19, 10, 21, 20 characters
    assert rows.rows() == [
        (0, "a", 22, 3, True, True, True, 800.0, None),
        (1, "a", 13, 3, False, False, True, 800.0, None),
        (2, "b", 24, 3, None, True, True, 1200.0, None),
        (3, None, 23, 3, True, True, True, 900.0, None),
        (4, "c", None, 3, True, False, False, None, None),
    ]


def test_the_trace_alone_has_no_prompt_part() -> None:
    facts("count", "t.parquet", "--count", "trace", "--estimate", "chars/1", "-o", "l.parquet")
    ledger = pl.read_parquet("l.parquet")
    assert ledger["tokens"].to_list() == [19, 10, 21, 20, None]
    assert ledger["prompt_tokens"].fill_null(0).to_list() == [0] * 5


@pytest.mark.parametrize(("rule", "tokens"), [("chars/3.6", [5, 2, 5, 5]), ("bytes/4", [4, 2, 5, 5]), ("chars/19", [1, 0, 1, 1])])
def test_rules_are_rounded_down(rule: str, tokens: list[int]) -> None:
    facts("count", "t.parquet", "--count", "trace", "--estimate", rule, "-o", "l.parquet")
    assert pl.read_parquet("l.parquet")["tokens"].to_list() == [*tokens, None]


def test_the_rule_of_characters_is_exact_where_floating_point_is_not() -> None:
    pl.DataFrame({"id": ["a"], "generation": ["é" * 18], "passed": [True]}).write_parquet("e.parquet")
    facts("count", "e.parquet", "--count", "trace", "--estimate", "chars/3.6", "-o", "l.parquet")
    assert pl.read_parquet("l.parquet")["tokens"].to_list() == [5]
    facts("count", "e.parquet", "--count", "trace", "--estimate", "bytes/3.6", "-o", "l.parquet")
    assert pl.read_parquet("l.parquet")["tokens"].to_list() == [10]


def test_yield_of_the_ledger_is_yield_of_the_source() -> None:
    facts("count", "t.parquet", "--estimate", "chars/1", "-o", "l.parquet")
    held, own = (
        facts("yield", s, *o, "--bounds", "20,24") for s, o in (("l.parquet", ()), ("t.parquet", ("--estimate", "chars/1")))
    )
    assert held == own


def test_a_ledger_is_written_anew_over_a_ledger_and_over_nothing_else() -> None:
    facts("count", "t.parquet", "-o", "l.parquet")
    facts("count", "t.parquet", "--estimate", "chars/1", "-o", "l.parquet")
    before = Path("t.parquet").read_bytes()
    Path("notes.txt").write_text("mine")
    Path("folder").mkdir()
    for out in ("t.parquet", "notes.txt", "folder"):
        done = curate("count", "t.parquet", "-o", out)
        assert (done.status, done.out) == (1, ""), out
        assert done.err.splitlines()[-1].startswith("Error: ")
        assert out in done.err
    assert Path("t.parquet").read_bytes() == before
    assert Path("notes.txt").read_text() == "mine"


def test_a_place_that_is_not_there_is_a_sentence_before_any_reading() -> None:
    done = curate("count", "t.parquet", "-o", "nowhere/l.parquet")
    assert done.status == 1
    assert "nowhere" in done.err
    assert listed(Path()) == ["t.parquet"]


def test_the_same_ledger_twice() -> None:
    for name in ("one.parquet", "two.parquet"):
        facts("count", "t.parquet", "-o", name)
    assert Path("one.parquet").read_bytes() == Path("two.parquet").read_bytes()


def test_a_long_id_is_shortened_by_its_hash() -> None:
    import hashlib

    long = "x" * 65
    pl.DataFrame({"id": [long, "y" * 64], "generation": ["<think>a</think>b"] * 2, "passed": [True] * 2}).write_parquet("i.parquet")
    facts("count", "i.parquet", "-o", "l.parquet")
    assert pl.read_parquet("l.parquet")["problem"].to_list() == [
        "sha256:" + hashlib.sha256(long.encode()).hexdigest()[:32],
        "y" * 64,
    ]


def test_no_absolute_path_in_a_ledger(tmp_path: Path) -> None:
    facts("count", Path("t.parquet").resolve(), "-o", tmp_path / "l.parquet")
    assert str(tmp_path).encode() not in (tmp_path / "l.parquet").read_bytes()
