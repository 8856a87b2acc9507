"""Difficulty joined from a table of problems: never a trace more or less."""

from __future__ import annotations

import polars as pl
import pytest

from curate import joins
from curate.errors import CurateError

LEDGER = pl.DataFrame(
    {"problem": ["7", "7", "8", None, "9"], "difficulty": [None, None, 5.0, None, None]},
    schema_overrides={"difficulty": pl.Float64},
)


def join(table: dict[str, list[object]], **options: object) -> joins.Joined:
    return joins.join_difficulty(
        LEDGER, pl.DataFrame(table, strict=False), key="id", value="rating", where="ratings.csv", **options
    )  # type: ignore[arg-type]


def test_ids_of_any_type_and_rows_that_say_the_same_twice() -> None:
    got = join({"id": [7, 7, 8, 10, None], "rating": [1500, 1500, None, 900, 800]})
    assert got.ledger["problem"].to_list() == LEDGER["problem"].to_list()
    assert got.ledger["difficulty"].to_list() == [1500.0, 1500.0, None, None, None]
    assert (got.problems, got.matched, got.rated) == (3, 2, 1)
    assert got.ledger.columns == LEDGER.columns


def test_no_rating_at_or_below_zero_unless_it_is_no_rating() -> None:
    table = {"id": ["7.0"], "rating": [0]}
    assert join(table).rated == 0
    assert join({"id": [7.0], "rating": [0]}, rating=False).ledger["difficulty"].to_list()[:2] == [0.0, 0.0]


def test_two_values_of_one_problem_are_an_error() -> None:
    with pytest.raises(CurateError, match=r"ratings\.csv gives problem 7 two values of rating: 1\.0 and 2\.0\."):
        join({"id": [7, 7], "rating": [2, 1]})


def test_a_missing_value_beside_a_known_one_is_no_conflict() -> None:
    assert join({"id": [7, 7], "rating": [None, 3]}).rated == 1


def test_words_become_labels() -> None:
    got = join({"id": [7, 8], "rating": ["easy", "12"]})
    assert got.ledger["label"].to_list() == ["easy", "easy", None, None, None]
    assert got.ledger["difficulty"].to_list() == [None, None, 12.0, None, None]


def test_an_empty_table() -> None:
    got = join({"id": [], "rating": []})
    assert (got.matched, got.rated, got.ledger.height) == (0, 0, 5)


def test_which_columns_are_the_id_and_the_difficulty() -> None:
    assert joins.columns_of(["x", "id", "problem_id", "difficulty", "rating"], "t") == ("problem_id", "rating")
    assert joins.columns_of(["id", "stars"], "t", value="stars") == ("id", "stars")
    for names in (["id"], ["rating"], ["x", "y"]):
        with pytest.raises(CurateError, match=f"It has: {', '.join(names)}"):
            joins.columns_of(names, "t")
