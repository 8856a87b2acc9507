"""Ids, verdicts and difficulties of every type that files hold."""

from __future__ import annotations

import datetime
import decimal
import hashlib
from typing import Any

import polars as pl
import pytest

from curate import values
from curate.errors import CurateError


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        (pl.Series([7, 0, None]), ["7", "0", None]),
        (pl.Series(["7", "", " 7", "07", None]), ["7", None, " 7", "07", None]),
        (pl.Series([7.0, 7.5, -0.0, float("nan"), float("inf"), 2.0**53]), ["7", "7.5", "0", None, "inf", "9007199254740992.0"]),
        (pl.Series([7.0, 7.5], dtype=pl.Float32), ["7", "7.5"]),
        (pl.Series([decimal.Decimal("7.00"), decimal.Decimal("7.50"), decimal.Decimal("700")]), ["7", "7.5", "700"]),
        (pl.Series([True, None]), ["true", None]),
        (pl.Series(["a", ""], dtype=pl.Categorical), ["a", None]),
        (pl.Series([datetime.date(2024, 5, 6)]), ["2024-05-06"]),
        (pl.Series([b"ab", b"a\xff", b""]), ["ab", "61ff", None]),
        (pl.Series([2**63], dtype=pl.UInt64), ["9223372036854775808"]),
        (pl.Series([None, None]), [None, None]),
        (pl.Series([["a", 1], None], strict=False), ["['a', '1']", None]),
        (pl.Series([], dtype=pl.String), []),
    ],
)
def test_ids_of_every_type(raw: pl.Series, ids: list[str | None]) -> None:
    got = values.problem_id(raw)
    assert got.dtype == pl.String
    assert got.to_list() == ids


def test_an_id_over_64_bytes_is_a_hash() -> None:
    stays, goes, wide = "x" * 64, "x" * 65, "é" * 33
    got = values.problem_id(pl.Series([stays, goes, wide, goes])).to_list()
    short = "sha256:" + hashlib.sha256(goes.encode()).hexdigest()[:32]
    assert got == [stays, short, "sha256:" + hashlib.sha256(wide.encode()).hexdigest()[:32], short]


def test_the_id_of_a_prompt_folds_white_space() -> None:
    same = "sha256:" + hashlib.sha256(b"a b").hexdigest()[:32]
    got = values.prompt_id(pl.Series(["a b", " a\t\n b\u3000", "a  b ", "ab", None, "", " \n", "\x1c"])).to_list()
    assert got == [same, same, same, "sha256:" + hashlib.sha256(b"ab").hexdigest()[:32], None, None, None, None]


def test_other_ids_of_a_problem() -> None:
    long = "x" * 65
    assert values.alias_ids(pl.Series([["b", None, ""], [], None])).to_list() == [["b"], [], []]
    assert values.alias_ids(pl.Series([2.0, None])).to_list() == [["2"], []]
    assert values.alias_ids(pl.Series([[long]])).to_list() == [values.problem_id(pl.Series([long])).to_list()]
    assert values.alias_ids(pl.Series([[None], []], dtype=pl.List(pl.Null))).to_list() == [[], []]
    assert values.alias_ids(pl.Series([], dtype=pl.List(pl.String))).to_list() == []


@pytest.mark.parametrize(
    ("raw", "verdicts"),
    [
        (
            pl.Series(["true", " TRUE ", "Yes", "1", "1.0", "false", "no", "0", "0.0", "", None]),
            [True] * 5 + [False] * 4 + [None] * 2,
        ),
        (pl.Series([1, 0, None]), [True, False, None]),
        (pl.Series([1.0, 0.0, float("nan"), None]), [True, False, None, None]),
        (pl.Series([True, None]), [True, None]),
        (pl.Series([None]), [None]),
        (pl.Series(["True"], dtype=pl.Categorical), [True]),
        (pl.Series([], dtype=pl.String), []),
    ],
)
def test_verdicts(raw: pl.Series, verdicts: list[bool | None]) -> None:
    got = values.verdict(raw)
    assert got.dtype == pl.Boolean
    assert got.to_list() == verdicts


def test_another_word_is_an_error_with_its_row() -> None:
    words = pl.Series(["yes", "maybe"])
    with pytest.raises(CurateError, match=r"Column ok of set holds 'maybe' in row 11, .* --passed \"ok = 'maybe'\""):
        values.verdict(words, first_row=10, where="set", column="ok")
    with pytest.raises(CurateError, match="in row 40,"):
        values.verdict(words, rows=pl.Series([7, 40]))
    with pytest.raises(CurateError, match="'2' in row 0"):
        values.verdict(pl.Series([2]))
    with pytest.raises(CurateError, match=r"holds List\(Boolean\), not verdicts"):
        values.verdict(pl.Series([[True]]))


@pytest.mark.parametrize(
    ("raw", "rating", "numbers", "words"),
    [
        (pl.Series([1, None, -3]), False, [1.0, None, -3.0], None),
        (pl.Series([1, 0, -1]), True, [1.0, None, None], None),
        (pl.Series([float("nan"), float("inf"), 0.0]), False, [None, None, 0.0], None),
        (pl.Series(["1500", " 2.5 ", "", None, "nan"]), False, [1500.0, 2.5, None, None, None], None),
        (pl.Series(["easy", "2", ""]), False, [None, 2.0, None], ["easy", None, None]),
        (pl.Series(["Level 5"], dtype=pl.Categorical), False, [None], ["Level 5"]),
        (pl.Series([None]), True, [None], None),
    ],
)
def test_difficulties(raw: pl.Series, rating: bool, numbers: list[float | None], words: list[str | None] | None) -> None:
    number, said = values.difficulty(raw, rating=rating)
    assert number.dtype == pl.Float64
    assert (number.to_list(), None if said is None else said.to_list()) == (numbers, words)


@pytest.mark.parametrize("raw", [[["hard"]], [{"level": 1}]])
def test_a_difficulty_of_lists_or_records_is_refused(raw: list[Any]) -> None:
    with pytest.raises(CurateError, match="not a number or a word"):
        values.difficulty(pl.Series(raw), rating=False)
