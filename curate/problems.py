"""From traces to problems: one grouping, after which every figure of a problem is a reduction over neighbours.

A ledger of a million traces is laid out in about a third of a second, strings and all; what follows (yields at any bound, skew, a
report) works on integer vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.selection import Passing, Thinking, allowed, body, in_order, usable

SHIFT: Final = np.uint64(1 << 32)
"""Length in the upper half of a key, place in the lower: the smallest key is the shortest trace, the earliest of equals."""

NONE: Final = np.uint64(2**64 - 1)
"""Larger than every key."""

MISSING: Final = 1 << 62
"""Stands for no length in vectors of lengths: over every bound."""

Lengths = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def per_problem(ledger: pl.DataFrame, passing: Passing, required: Mapping[int, Thinking]) -> pl.DataFrame:
    """One row per problem, sorted by it.

    ``problem``; ``traces`` and how many of them are ``passing``; in tokens, null where no trace qualifies, ``any`` (the shortest
    usable one), ``first``, ``shortest`` and ``longest`` (of the passing ones); ``difficulty`` (Float64, the earliest given) and
    ``conflict`` (the traces disagree about it).
    """
    return lay_out(ordered(ledger), passing, required).problems.sort("problem")


def ordered(ledger: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order of (source, row, item): by far most ledgers already are."""
    return ledger if in_order(ledger) else ledger.sort("source", "row", "item", maintain_order=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Problems, and their passing traces side by side, earliest first: ``starts`` has the first one of each problem that has any.

    The smallest ``short_key`` (``long_key``) of some traces of a problem belongs to the shortest (longest), the earliest of equals;
    its lower half is the trace's index in ``tokens``.
    """

    problems: pl.DataFrame
    tokens: Lengths
    starts: Lengths
    short_key: Keys
    long_key: Keys

    @property
    def sizes(self) -> Lengths:
        return np.diff(self.starts, append=len(self.tokens))


def lay_out(ledger: pl.DataFrame, passing: Passing, required: Mapping[int, Thinking]) -> Layout:
    """Group the traces, which must be in order, once; every figure of a problem is then a reduction over neighbours."""
    traces = ledger.select(
        "problem",
        tokens=pl.col("tokens").cast(pl.Int64).fill_null(MISSING),
        body=body().cast(pl.UInt64).fill_null(0),
        difficulty=pl.col("difficulty").cast(pl.Float64).fill_null(np.nan),
        usable=usable(required),
        passing=usable(required) & allowed(passing),
    )
    # polars keeps the order of rows within a group, whatever the order of the groups: the earliest trace comes first.
    groups = (
        traces.lazy()
        .select("problem", at=pl.int_range(pl.len(), dtype=pl.Int64))
        .filter(pl.col("problem").is_not_null())
        .group_by("problem")
        .agg("at", traces=pl.len())
        .collect()
    )
    order = groups["at"].explode(empty_as_null=False).to_numpy()
    sizes = groups["traces"].cast(pl.Int64).to_numpy()
    starts = np.cumsum(sizes) - sizes
    tokens, bodies, difficulty, able, passes = (traces[c].to_numpy()[order] for c in traces.columns[1:])
    many = np.add.reduceat(passes, starts, dtype=np.int64)
    index = np.arange(len(order))
    first = np.minimum.reduceat(np.where(passes, index, MISSING), starts)
    rated = np.minimum.reduceat(np.where(np.isfinite(difficulty), index, MISSING), starts)
    problems = pl.DataFrame(
        {
            "problem": groups["problem"],
            "traces": sizes,
            "passing": many,
            "any": _known(np.minimum.reduceat(np.where(able, tokens, MISSING), starts)),
            "first": _known(_take(tokens, first, MISSING)),
            "shortest": _known(np.minimum.reduceat(np.where(passes, tokens, MISSING), starts)),
            "longest": _known(np.maximum.reduceat(np.where(passes, tokens, -1), starts)),
            "difficulty": pl.Series(_take(difficulty, rated, np.nan), nan_to_null=True),
            "conflict": np.fmin.reduceat(difficulty, starts) < np.fmax.reduceat(difficulty, starts),
        }
    )
    place = np.arange(int(many.sum()), dtype=np.uint64)
    length = bodies[passes]
    return Layout(
        problems=problems,
        tokens=tokens[passes],
        starts=(np.cumsum(many) - many)[many > 0],
        short_key=length * SHIFT + place,
        long_key=(SHIFT - np.uint64(1) - length) * SHIFT + place,
    )


def _known(lengths: Lengths) -> pl.Series:
    """Lengths with the marks for none (-1 and ``MISSING``) as nulls."""
    series = pl.Series(lengths)
    return series.set(pl.Series((lengths < 0) | (lengths == MISSING)), None)


def _take(values: npt.NDArray[Any], index: Lengths, otherwise: float) -> npt.NDArray[Any]:
    """``values[index]``, and ``otherwise`` where the index is ``MISSING``."""
    return np.append(values, np.array([otherwise], dtype=values.dtype))[np.minimum(index, len(values))]
