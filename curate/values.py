"""Single values as the ledger wants them: problem ids as text, verdicts as true, false or unknown, difficulty as a number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import polars as pl

from curate.errors import CurateError

LONG_ID: Final = 64
"""Bytes; a longer id is replaced by a hash, so that a ledger of millions of rows stays narrow."""

TRUE: Final = ("true", "1", "yes", "1.0")
FALSE: Final = ("false", "0", "no", "0.0")
RATINGS: Final = ("rating", "elo")
"""Columns in which values at or below zero mean that nobody has rated the problem."""


def short(text: str) -> str:
    """``sha256:`` and the first 32 hex digits.

    >>> short("a")
    'sha256:ca978112ca1bbdcafac231b39a23dc4d'
    """
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:32]


def problem_id(raw: pl.Series) -> pl.Series:
    """Ids as text: 7 and "7" are one, integral floats lose ".0", "" and NaN are null, over 64 bytes a hash.

    >>> problem_id(pl.Series([7.0, 7.5, float("nan"), None])).to_list()
    ['7', '7.5', None, None]
    """
    if raw.dtype.is_float():
        raw = raw.fill_nan(None)
        whole = raw.is_finite() & (raw == raw.floor()) & (raw.abs() < 2.0**53)
        text = raw.to_frame("v").select(
            pl.when(whole).then(pl.col("v").cast(pl.Int64, strict=False).cast(pl.String)).otherwise(pl.col("v").cast(pl.String))
        )["v"]
    elif raw.dtype.is_nested():
        text = pl.Series(raw.name, [None if v is None else repr(v) for v in raw.to_list()], dtype=pl.String)
    elif raw.dtype == pl.Binary:
        text = pl.Series(raw.name, [None if v is None else _decoded(v) for v in raw.to_list()], dtype=pl.String)
    elif raw.dtype.is_decimal():
        text = raw.cast(pl.String).str.replace(r"\.0*$", "").str.replace(r"(\.\d*?)0+$", "$1")
    else:
        text = raw.cast(pl.String)
    text = text.to_frame("v").select(pl.when(pl.col("v") != "").then("v"))["v"]
    return _map_unique(text, text.str.len_bytes() > LONG_ID, short)


def alias_ids(raw: pl.Series) -> pl.Series:
    """A column of other ids of the same problem (one, or a list of them) as lists of ids, made as ``problem_id`` makes them.

    >>> alias_ids(pl.Series([[7.0, None], None])).to_list()
    [['7'], []]
    """
    many = raw if isinstance(raw.dtype, pl.List) else raw.to_frame("v").select(pl.concat_list("v"))["v"]
    flat = pl.DataFrame({"at": pl.int_range(len(raw), eager=True), "v": many}).explode("v", empty_as_null=True)
    flat = flat.with_columns(problem_id(flat["v"]).alias("v"))
    return flat.group_by("at", maintain_order=True).agg(pl.col("v").drop_nulls())["v"].alias(raw.name)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.hex()


def prompt_id(prompt: pl.Series) -> pl.Series:
    """An id for problems that have none: a hash of the prompt with white space folded; null where the prompt is null or blank."""

    def hashed(text: str) -> str | None:
        folded = " ".join(text.split())
        return short(folded) if folded else None

    return _map_unique(prompt, prompt.is_not_null(), hashed, keep=False)


def _map_unique(text: pl.Series, mask: pl.Series, f: Callable[[str], str | None], *, keep: bool = True) -> pl.Series:
    """Apply a Python function to the masked values, once for each distinct one; the others stay, or become null."""
    frame = pl.DataFrame({"v": text, "m": mask.fill_null(False)})
    distinct = frame.filter("m")["v"].unique()
    if len(distinct) == 0:
        return text if keep else pl.Series(text.name, [None] * len(text), dtype=pl.String)
    table = pl.DataFrame({"v": distinct, "new": [f(t) for t in distinct]}, schema_overrides={"new": pl.String})
    joined = frame.join(table, on="v", how="left", maintain_order="left")
    other = pl.col("v") if keep else pl.lit(None, dtype=pl.String)
    return joined.select(pl.when("m").then("new").otherwise(other).alias(text.name))[text.name]


def verdict(
    raw: pl.Series, *, rows: pl.Series | None = None, first_row: int = 0, where: str = "the source", column: str = "passed"
) -> pl.Series:
    """True, false or unknown: booleans, 0 and 1, and true/1/yes, false/0/no in any case; null, NaN and "" are unknown.

    Args:
        rows: the source row of each value, for errors; by default they are numbered from ``first_row``.

    Raises:
        CurateError: another word or number, with the row (from 0) that holds it.
    """
    if raw.dtype == pl.Boolean:
        return raw
    if raw.dtype == pl.Null:
        return raw.cast(pl.Boolean)
    if raw.dtype.is_nested():
        raise CurateError(f"Column {column} of {where} holds {raw.dtype}, not verdicts. Name another with --passed.")
    raw = raw.fill_nan(None) if raw.dtype.is_float() else raw
    word = raw.cast(pl.String, strict=False).str.strip_chars().str.to_lowercase()
    out = word.to_frame("w").select(
        v=pl.when(pl.col("w").is_in(list(TRUE))).then(True).when(pl.col("w").is_in(list(FALSE))).then(False),
        bad=~pl.col("w").is_in([*TRUE, *FALSE, ""]) & pl.col("w").is_not_null(),
    )
    if out["bad"].any():
        at = int(out["bad"].arg_true()[0])
        value = str(raw[at])
        raise CurateError(
            f"Column {column} of {where} holds {value[:60]!r} in row {first_row + at if rows is None else rows[at]}, which is neither true nor false. "
            f'Say when a trace passes, e.g. --passed "{column} {_compared(raw, value)}".'
        )
    return out["v"]


def _compared(raw: pl.Series, value: str) -> str:
    return f">= {value}" if raw.dtype.is_numeric() else f"= '{value[:40]}'"


def difficulty(raw: pl.Series, *, rating: bool) -> tuple[pl.Series, pl.Series | None]:
    """Numbers (Float64, larger is harder) and, where some values are words, the words (String).

    NaN and infinities are null; so are values at or below zero of a rating. Numbers written as text are numbers.

    Raises:
        CurateError: the column holds lists or records.
    """
    if raw.dtype.is_nested():
        raise CurateError(f"The difficulty is {raw.dtype}, not a number or a word. Name one value of it with --difficulty.")
    if raw.dtype.is_numeric() or raw.dtype == pl.Null:
        number, words = raw.cast(pl.Float64), None
    else:
        text = raw.cast(pl.String, strict=False).str.strip_chars()
        number = text.cast(pl.Float64, strict=False)
        words = text.to_frame("t").select(pl.when((pl.col("t") != "") & pl.lit(number).is_null()).then("t"))["t"]
        words = None if words.null_count() == len(words) else words
    good = pl.col("d").is_finite() & (pl.col("d") > 0) if rating else pl.col("d").is_finite()
    return number.to_frame("d").select(pl.when(good).then("d"))["d"], words
