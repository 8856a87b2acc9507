"""The verdict file and what it gives to a ledger."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from curate import ledger as contract
from curate.errors import CurateError
from curate.verdicts import (
    SCHEMA,
    Store,
    Verdict,
    apply,
    counts,
    difficulty_from_pass_rate,
    digest,
    frame,
    pass_rate_by_length_rank,
    read,
)

SETTINGS = {"isolation": "bwrap", "time_limit": None, "memory_mib": 1024}


def verdict(row: int, key: str, found: str = "passed", tests: int = 3, tests_digest: str = "t") -> Verdict:
    return Verdict(row=row, item=0, problem="p", digest=key, verdict=found, tests=tests, tests_digest=tests_digest)


def ledger(**columns: list[object]) -> pl.DataFrame:
    n = len(next(iter(columns.values())))
    base = {
        "source": [0] * n,
        "row": list(range(n)),
        "item": [0] * n,
        "problem": ["p"] * n,
        "tokens": [10] * n,
        "prompt_tokens": [0] * n,
    }
    base |= {"passed": [None] * n, "finished": [True] * n, "thinking": [True] * n, "difficulty": [None] * n, "reason": [None] * n}
    schema = {**contract.SCHEMA, **{k: v for k, v in contract.OPTIONAL.items() if k in columns}}
    return pl.DataFrame(base | columns, schema=schema)


def test_the_digest_is_blake2b_of_problem_nul_trace() -> None:
    found = digest(pl.Series(["7", None, "7"]), pl.Series(["yes", "ünï", None]))
    assert found.to_list() == [
        hashlib.blake2b(b"7\0yes", digest_size=16).hexdigest(),
        hashlib.blake2b(b"\0" + "ünï".encode(), digest_size=16).hexdigest(),
        None,
    ]
    assert len(found[0]) == 32


def test_counts_name_every_class() -> None:
    found = counts(frame([verdict(0, "a"), verdict(1, "b", "wrong_answer"), verdict(2, "c")]))
    assert {k: v for k, v in found.items() if v} == {"passed": 2, "wrong_answer": 1}
    assert len(found) == 9


def test_passed_is_null_where_nothing_could_be_judged() -> None:
    table = frame([verdict(1, "b", "unverifiable"), verdict(0, "a", "time_limit"), verdict(2, "c")])
    assert table["passed"].to_list() == [False, None, True]
    assert table.schema == pl.Schema(SCHEMA)


def test_a_store_writes_whole_files_and_reads_them(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "v.parquet"
    store = Store(out, settings=SETTINGS, resume=False)
    store.add(verdict(0, "a"))
    store.finish([verdict(0, "a")])
    assert [p.name for p in out.parent.iterdir()] == ["v.parquet"]
    table, settings = read(out)
    assert settings == SETTINGS
    assert table["digest"].to_list() == ["a"]


def test_an_interrupted_run_goes_on_by_content(tmp_path: Path) -> None:
    out = tmp_path / "v.parquet"
    store = Store(out, settings=SETTINGS, resume=False)
    store.add(verdict(0, "a", "wrong_answer"))
    store.add(verdict(1, "b"))
    store.close()
    partial = tmp_path / "v.parquet.partial"
    partial.write_text(partial.read_text() + '{"row": 2, "item')  # cut while writing
    with pytest.raises(CurateError, match="unfinished run: add --resume"):
        Store(out, settings=SETTINGS, resume=False)
    again = Store(out, settings=SETTINGS, resume=True)
    found = again.find("a", "t")
    assert found is not None
    assert found.verdict == "wrong_answer"
    assert again.find("a", "other tests") is None
    assert again.find("c", "t") is None
    again.add(verdict(2, "c"))
    again.close()
    assert [json.loads(line)["digest"] for line in partial.read_text().splitlines()[1:]] == ["a", "b", "c"]


def test_a_finished_file_is_resumed_too_and_other_limits_are_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "v.parquet"
    Store(out, settings=SETTINGS, resume=False).finish([verdict(0, "a")])
    with Store(out, settings=SETTINGS, resume=True) as store:
        assert store.find("a", "t") == verdict(0, "a")
    (tmp_path / "v.parquet.partial").unlink()
    with pytest.raises(CurateError, match="memory_mib 1024, now 256"):
        Store(out, settings=SETTINGS | {"memory_mib": 256}, resume=True)


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "mine.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(out)
    with pytest.raises(CurateError, match="holds no verdicts"):
        Store(out, settings=SETTINGS, resume=False)
    out.write_text("text")
    with pytest.raises(CurateError, match="cannot be read as Parquet"):
        read(out)


def test_verdicts_reach_the_traces_of_the_same_text() -> None:
    given = ledger(digest=["a", "b", "x", None], passed=[False, True, True, True], tests=[None] * 4)
    found = apply(given, frame([verdict(0, "a"), verdict(1, "b", "unverifiable", tests=0)]))
    assert (found.matched, found.unmatched) == (2, 2)
    assert found.ledger["passed"].to_list() == [True, None, None, None]
    assert found.ledger["tests"].to_list() == [3, 0, None, None]
    assert found.ledger.columns == given.columns


def test_a_text_judged_on_two_test_sets_passes_only_if_it_passed_both() -> None:
    both = frame([verdict(0, "a", tests_digest="t"), verdict(1, "a", "wrong_answer", tests=2, tests_digest="u")])
    found = apply(ledger(digest=["a"]), both)
    assert found.ledger.select("passed", "tests").row(0) == (False, 2)


def test_a_ledger_without_digests_is_refused() -> None:
    with pytest.raises(CurateError, match="has no digests"):
        apply(ledger(row=[0]), frame([]))


def test_pass_rate_by_length_rank() -> None:
    """Problem a: lengths 5 (pass), 9 (fail), 7 (pass). Problem b: 1 (fail), 2 (pass). c has one trace, d no second verdict."""
    given = ledger(
        problem=["a", "a", "a", "b", "b", "c", "d", "d"],
        tokens=[15, 9, 7, 1, 2, 3, 4, 5],
        prompt_tokens=[10, 0, 0, 0, 0, 0, 0, 0],
        passed=[True, False, True, False, True, True, True, None],
    )
    found = pass_rate_by_length_rank(given)
    assert found.rows() == [(1, 2, 1, 0.5), (2, 2, 2, 1.0), (3, 1, 0, 0.0)]


def test_difficulty_from_the_pass_rate_leaves_the_trace_itself_out() -> None:
    """Eight of problem a: six pass. For a passing one 5 of the 7 others pass, for a failing one 6 of 7."""
    given = ledger(problem=["a"] * 9 + ["b"] * 7, passed=[True] * 6 + [False] * 2 + [None] + [True] * 7)
    found = difficulty_from_pass_rate(given)["difficulty"].to_list()
    assert found[0] == pytest.approx(2 / 7)
    assert found[6] == pytest.approx(1 / 7)
    assert found[8] == pytest.approx(2 / 8)  # not judged itself: all eight count
    assert found[9:] == [None] * 7
