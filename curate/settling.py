"""From facts of traces to one ledger: no text, and no matter where or in how many parts the facts were found."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from curate.errors import CurateError
from curate.ledger import OPTIONAL, SCHEMA, Meta, check
from curate.skew import order_labels

CROOKED: Final = 5
"""So many rows whose lists do not line up are named; the ledger counts all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What is counted beside a ledger: ``cut``, finish values that mean cut off with their counts; ``crooked``, the first rows whose
    lists do not line up, in words."""

    cut: Mapping[str, int] = field(default_factory=dict)
    crooked: tuple[str, ...] = ()

    def __add__(self, other: Tally) -> Tally:
        cut = collections.Counter(self.cut) + collections.Counter(other.cut)
        return Tally(cut=dict(cut), crooked=(self.crooked + other.crooked)[:CROOKED])


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """What was decided, not yet settled: rows of a ledger, and of each source what they cannot say.

    ``ledger`` may hold ``aliases`` (List of String) and words of difficulty beside the contract's columns; ``known`` are facts of the
    sources that hold for any part of them.
    """

    ledger: pl.DataFrame
    tallies: tuple[Tally, ...]
    known: tuple[dict[str, Any], ...]
    tokens: dict[str, Any]
    labels: tuple[str, ...] = ()


def _described(known: Mapping[str, Any], frame: pl.DataFrame, tally: Tally) -> dict[str, Any]:
    """The facts of a source, with those that only all of its traces tell."""
    judged = frame["passed"].null_count() < frame.height
    return {
        **known,
        "basis": known["basis"] if known["basis"] in ("prefiltered", "proxy") or judged else "none",
        "excluded_rows": known["rows"] - frame["row"].n_unique() if known["excluded_rows"] else 0,
        "crooked": list(tally.crooked),
        "finish": dict(sorted(tally.cut.items(), key=lambda kv: (-kv[1], kv[0]))),
    }


def settle(raw: Raw) -> tuple[pl.DataFrame, Meta]:
    """One ledger of what was decided: aliases folded, words of difficulty in order, columns as the contract has them."""
    ledger = raw.ledger
    mine = [ledger.filter(pl.col("source") == i) if len(raw.known) > 1 else ledger for i in range(len(raw.known))]
    described = [_described(k, f, t) for k, f, t in zip(raw.known, mine, raw.tallies, strict=True)]
    if "aliases" in ledger.columns:
        ledger = fold_aliases(ledger)
    ledger = ledger.with_columns(pl.lit(None, dtype=SCHEMA["reason"]).alias("reason"))
    ledger = ledger.select([c for c in (*SCHEMA, *OPTIONAL) if c in ledger.columns])
    bad = sum(len(k["bad_lines"]) for k in raw.known)
    meta = Meta(sources=tuple(described), tokens=raw.tokens, bad_lines=bad)
    ledger, meta = ranked(ledger, meta, raw.labels)
    return check(ledger), meta


def ranked(ledger: pl.DataFrame, meta: Meta, labels: Sequence[str]) -> tuple[pl.DataFrame, Meta]:
    """Difficulties that are words as numbers, easy to hard: in the order given, else in the order the words are known to have."""
    if "label" not in ledger.columns or ledger["label"].null_count() == ledger.height:
        return ledger.drop("label", strict=False), meta
    words = ledger["label"].drop_nulls().unique().sort().to_list()
    order = {w: float(i) for i, w in enumerate(labels, 1)} if labels else order_labels(words)
    unknown = [w for w in words if w not in order]
    if labels and unknown:
        raise CurateError(
            f"The order given has no place for {unknown[0]!r}. Name all of: {', '.join(words)} (--labels, easy to hard)."
        )
    number = pl.col("label").replace_strict(order, default=None, return_dtype=pl.Float64)
    ledger = ledger.with_columns(difficulty=pl.coalesce(number, "difficulty"))
    return ledger, replace(meta, labels=tuple(sorted(order, key=order.__getitem__)))


def fold_aliases(ledger: pl.DataFrame) -> pl.DataFrame:
    """Give problems that name each other as aliases one id: the smallest of their connected group."""
    pairs = ledger.select("problem", "aliases").explode("aliases").drop_nulls().unique().sort("problem", "aliases")
    parent: dict[str, str] = {}

    def root(x: str) -> str:
        while parent.setdefault(x, x) != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for a, b in pairs.iter_rows():
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return ledger.with_columns(problem=pl.col("problem").replace({x: root(x) for x in list(parent)})).drop("aliases")
