"""What is joined to a ledger from beside it: difficulty from a table of problems.

A join never changes the number of traces: a table that lists a problem twice with one value counts once, with two values it is an
error; a null id matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from curate import values
from curate.errors import CurateError

KEYS: Final = ("problem_id", "id", "problem", "uuid")
VALUES: Final = ("rating", "difficulty", "elo", "level")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A ledger with its difficulty joined, and how many problems of it were found in the table, and of these rated."""

    ledger: pl.DataFrame
    problems: int
    matched: int
    rated: int


def join_difficulty(
    ledger: pl.DataFrame, table: pl.DataFrame, *, key: str, value: str, where: str, rating: bool | None = None
) -> Joined:
    """Fill ``difficulty`` (and ``label``, where values are words) from a table of problems.

    Args:
        table: columns ``key`` (ids as in the ledger, of any type) and ``value``; other columns are not read.
        where: the table's name, for errors.
        rating: whether values at or below zero mean unrated; by default where the column is called rating or elo.

    Raises:
        CurateError: a problem has two different values.
    """
    rating = value in values.RATINGS if rating is None else rating
    number, words = values.difficulty(table[value], rating=rating)
    given = pl.DataFrame({"problem": values.problem_id(table[key]), "difficulty": number})
    given = given.with_columns(words.alias("label") if words is not None else pl.lit(None, dtype=pl.String).alias("label"))
    given = given.filter(pl.col("problem").is_not_null()).unique()
    listed = given.select("problem").unique()
    given = given.filter(pl.any_horizontal(pl.col("difficulty", "label").is_not_null()))
    twice = given.filter(pl.col("problem").is_duplicated()).sort("problem", "difficulty", "label")
    if twice.height:
        problem, a = twice.row(0)[0], twice.row(0)
        b = twice.row(1)
        raise CurateError(
            f"{where} gives problem {problem} two values of {value}: {a[2] or a[1]} and {b[2] or b[1]}. Leave one in, or name another table with --difficulty-from."
        )
    old = [c for c in ("difficulty", "label") if c in ledger.columns]
    out = ledger.drop(old).join(given, on="problem", how="left", maintain_order="left", nulls_equal=False)
    problems = ledger.select("problem").drop_nulls().unique()
    matched = problems.join(listed, on="problem", how="semi").height
    rated = problems.join(given, on="problem", how="semi").height
    out = out if words is not None else out.drop("label")
    return Joined(
        ledger=out.select([c for c in ledger.columns if c in out.columns] + [c for c in out.columns if c not in ledger.columns]),
        problems=problems.height,
        matched=matched,
        rated=rated,
    )


def through_aliases(table: pl.DataFrame, *, key: str, aliases: str | None) -> pl.DataFrame:
    """The table with a further row for each alias of a problem that is not itself a problem of the table."""
    if aliases is None or aliases not in table.columns:
        return table
    other = table.select(pl.col(aliases).alias(key), pl.exclude(key, aliases)).explode(key).drop_nulls(key)
    other = other.with_columns(pl.col(key).cast(table[key].dtype)).join(table, on=key, how="anti").unique(key, keep="none")
    return pl.concat([table.drop(aliases), other.select(table.drop(aliases).columns)])


def columns_of(names: list[str], where: str, *, value: str | None = None) -> tuple[str, str]:
    """Which columns of a table of problems are the id and the difficulty.

    Raises:
        CurateError: it has neither of the known names.
    """
    key = next((k for k in KEYS if k in names), None)
    found = value if value in names else next((v for v in VALUES if v in names), None)
    if key is None or found is None or key == found:
        raise CurateError(
            f"{where} needs a column for the problem ({', '.join(KEYS)}) and one for the difficulty ({', '.join(VALUES)}). It has: {', '.join(names)}."
        )
    return key, found
