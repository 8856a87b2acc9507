"""The verbs as functions."""

from __future__ import annotations

import polars as pl
import pytest

import curate


def rows(*texts: str) -> pl.DataFrame:
    return pl.DataFrame({"id": ["A"] * len(texts), "generation": list(texts), "passed": [True] * len(texts)})


def test_two_frames_of_one_shape_are_not_taken_for_each_other(tmp_path, monkeypatch) -> None:
    """A frame in memory has no identity that a cache could know it by."""
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path))
    first = curate.read(rows("<think>a</think> b"), estimate="bytes/1").ledger["tokens"].to_list()
    second = curate.read(rows("<think>aaaa</think> b"), estimate="bytes/1").ledger["tokens"].to_list()
    assert (first, second) == ([18], [21])


def test_an_option_that_there_is_not_is_named_with_a_near_one() -> None:
    with pytest.raises(curate.UsageError, match=r"no option tokeniser\. Did you mean tokenizer"):
        curate.read(rows("a"), tokeniser="x")


def test_frames_are_pooled_by_problem() -> None:
    reading = curate.read(rows("<think>a</think> b"), rows("<think>aaaa</think> b"), estimate="bytes/1", use_cache=False)
    assert reading.ledger.select("source", "problem", "tokens").rows() == [(0, "A", 18), (1, "A", 21)]
    table = curate.yield_table(reading.ledger, reading.meta, bounds=[18, 21])
    assert [(b.problems.first, b.problems.shortest, b.problems.longest) for b in table.bounds] == [(1, 1, 0), (1, 1, 1), (1, 1, 1)]
