"""What each length bound keeps, in traces, problems and tokens: every figure of ``yield`` from a ledger, at any number of bounds.

One grouping over the problems, then sorted vectors: a bound is a binary search in them, or one pass over the passing traces that
lie problem by problem. A million traces take about a second's half, so a second question costs next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl

from curate.errors import CurateError, UsageError
from curate.ledger import Meta
from curate.problems import MISSING, NONE, SHIFT, Keys, Layout, Lengths, lay_out, ordered, per_problem
from curate.selection import Passing, Rules, Thinking, allowed, in_order, source_name, thinking_required, usable, verdict_basis
from curate.skew import Skew, half_of_hardest, order_labels, skew_table

STANDARD: Final = (512, 1024, 2048, 4096, 8192, 16384, 24576, 32768, 65536, 131072)
"""Bounds people train with; those that keep 5 to 99.5 % of the problems that can be kept are shown."""

PERCENTILES: Final = (50, 90, 99)
Z: Final = 1.959963984540054
"""The normal deviate of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Problems reached at a bound: by any usable trace, the first passing one, a passing one picked blindly (mean), the shortest
    passing one (what ``select`` keeps), or only when the longest passing one fits too."""

    any: int
    first: int
    average: float
    shortest: int
    longest: int

    def json(self) -> dict[str, int | float]:
        return {
            "any": self.any,
            "first": self.first,
            "average": self.average,
            "shortest": self.shortest,
            "longest": self.longest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One row of the table; ``max_tokens`` None is no bound.

    ``traces``, ``share`` and ``tokens`` are of all traces within it, usable or not. ``train_*``: tokens of the set if each problem
    gives its shortest, a random (mean) or its longest passing trace that fits. ``lost_*``: problems that the bound keeps but
    that choosing before the drop loses, on average over picks and by the file's own first. ``fewest`` and ``most``: the
    problems again with all lengths at the two ends of an estimate's 95 % range. ``problems_share``: of all problems, those with
    a passing trace that fits; ``interval`` its 95 % interval when the rows are a sample.
    """

    max_tokens: int | None
    traces: int
    share: float | None
    tokens: int
    problems: Counts
    problems_share: float | None
    train_shortest: int
    train_random: float
    train_longest: int
    lost_average: float
    lost_first: int
    fewest: Counts | None
    most: Counts | None
    interval: tuple[float, float] | None
    skew: Skew | None

    def json(self) -> dict[str, Any]:
        return {
            "max_tokens": self.max_tokens,
            "traces": self.traces,
            "share": self.share,
            "tokens": self.tokens,
            "problems": self.problems.json(),
            "skew": self.skew.json() if self.skew else None,
            "problems_share": self.problems_share,
            "train": {"shortest": self.train_shortest, "random": self.train_random, "longest": self.train_longest},
            "lost": {"average": self.lost_average, "first": self.lost_first},
            "range": {"fewest": self.fewest.json(), "most": self.most.json()} if self.fewest and self.most else None,
            "interval": list(self.interval) if self.interval else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """What ``yield`` says; ``json`` gives its keys.

    ``needed``: percent of the problems with a passing trace -> the bound that keeps them; ``needed_hardest``: label of the
    hardest band and the bound for half of it. ``funnel``: every trace once, as ``passing`` or under the first thing in its
    way. ``choices``: passing traces per problem -> problems. ``unverified``: no source has a verdict, so every usable trace
    counts as passing. ``censored_above``: so many lengths were cut by the generator that no percentile of all lengths above
    this share is known. ``difficulty_conflicts``: problems whose traces disagree; the earliest trace is believed.
    """

    facts: Mapping[str, Any]
    bounds: tuple[Bound, ...]
    needed: Mapping[str, int | None]
    needed_hardest: tuple[str, int] | None
    with_passing: int
    choices: Mapping[str, int]
    funnel: Mapping[str, int]
    thinking: tuple[Thinking, ...]
    unverified: bool
    censored_above: float | None
    difficulty_conflicts: int

    @property
    def problems(self) -> int:
        return int(self.facts["problems"])

    @property
    def can_choose(self) -> bool:
        """Whether any problem has two passing traces; if not, shortest is first and choosing gains nothing."""
        return any(n != "1" for n in self.choices)

    def json(self) -> dict[str, Any]:
        hardest = self.needed_hardest
        return {
            **self.facts,
            "bounds": [bound.json() for bound in self.bounds],
            "needed": dict(self.needed),
            "needed_hardest": {"label": hardest[0], "50": hardest[1]} if hardest else None,
            "problems_with_passing": self.with_passing,
            "choices": dict(self.choices),
            "funnel": dict(self.funnel),
            "thinking": [
                {"source": t.name, "traces": t.traces, "thinking": t.thinking, "decision": t.decision} for t in self.thinking
            ],
            "unverified": self.unverified,
            "censored_above": self.censored_above,
            "difficulty_conflicts": self.difficulty_conflicts,
        }


def facts(ledger: pl.DataFrame, meta: Meta, rules: Rules | None = None) -> dict[str, Any]:
    """The keys that ``inspect``, ``count`` and ``yield`` share, in Python numbers; null where there is nothing to divide by.

    ``rows`` are source rows, also those whose list of generations is empty; ``unfinished`` and ``without_thinking`` are counted
    over traces with text, ``passing`` and ``difficulty`` over all traces. ``tokens.counted`` is the number of traces with a
    length. Percentiles are nearest-rank. ``tokens_passing`` follows ``rules``; with no verdict anywhere, every usable
    trace counts.
    """
    terms = _Terms.of(ledger, meta, rules)
    passing = ledger.filter(usable(terms.required) & allowed(terms.passing))["tokens"]
    sizes = ledger.lazy().filter(pl.col("problem").is_not_null()).group_by("problem").len("traces").collect()["traces"]
    return _facts(ledger, meta, terms.basis, sizes=sizes, lengths=_sorted(ledger["tokens"]), passing=_sorted(passing))


@dataclass(frozen=True, slots=True)
class _Terms:
    """What counts as passing, settled over the whole ledger before any part of it is looked at."""

    required: Mapping[int, Thinking]
    passing: Passing
    basis: str

    @classmethod
    def of(cls, ledger: pl.DataFrame, meta: Meta, rules: Rules | None) -> _Terms:
        rules, basis = rules or Rules(), verdict_basis(ledger, meta)
        passing: Passing = "finished" if basis == "none" else rules.passing
        return cls(thinking_required(ledger, meta, rules), passing, basis)


def yield_table(
    ledger: pl.DataFrame,
    meta: Meta,
    *,
    bounds: Sequence[int] | None = None,
    also: int | None = None,
    rules: Rules | None = None,
    sampled: bool = False,
) -> Yield:
    """Count what every bound keeps; the last row has no bound. ``bounds`` None takes the standard lengths that matter, and ``also``.

    A source that is mixed about thinking does not require it here. Of ``rules`` only what concerns passing is used: the
    bounds are ``bounds``, and every policy is shown. ``sampled`` says that the rows are a random sample: intervals then.
    """
    if bounds is not None and any(bound < 1 for bound in bounds):
        raise UsageError(f"A bound is a number of tokens from 1 up, not {min(bounds)}. Mend --bounds.")
    return _yield(ledger, meta, bounds, _Terms.of(ledger, meta, rules), sampled=sampled, also=also)


def by(
    ledger: pl.DataFrame,
    meta: Meta,
    *,
    bounds: Sequence[int] | None = None,
    rules: Rules | None = None,
    sampled: bool = False,
    top: int = 8,
) -> dict[str, Yield]:
    """``yield_table`` for each value of the column ``group``: the ``top`` by problems, then the rest pooled as ``other``.

    Same bounds and same rules of thinking and passing in all of them, decided over the whole ledger. Traces without a value
    are the group ``(none)``. A problem whose traces lie in two groups counts in both.
    """
    if "group" not in ledger.columns:
        raise CurateError("This ledger has no column `group`. Count it again from the source with --by COLUMN.")
    terms = _Terms.of(ledger, meta, rules)
    if bounds is None:
        bounds = standard_bounds(per_problem(ledger, terms.passing, terms.required))
    named = ledger.with_columns(group=pl.col("group").cast(pl.String).fill_null("(none)"))
    sizes = named.group_by("group").agg(problems=pl.col("problem").drop_nulls().n_unique(), traces=pl.len())
    order = sizes.sort(["problems", "traces", "group"], descending=[True, True, False])["group"].to_list()
    shown = [name for name in order if name != "other"][: top if len(order) > top else None]
    alone = replace(meta, sources=tuple({**s, "rows": None} for s in meta.sources), bad_lines=0)
    parts = {name: named.filter(pl.col("group") == name) for name in shown}
    if len(shown) < len(order):
        parts["other"] = named.filter(~pl.col("group").is_in(shown))
    return {name: _yield(part, alone, bounds, terms, sampled=sampled) for name, part in parts.items()}


def standard_bounds(problems: pl.DataFrame) -> list[int]:
    """The standard lengths that keep 5 to 99.5 % of the problems that have a passing trace."""
    shortest = _sorted(problems["shortest"])
    kept = np.searchsorted(shortest, STANDARD, side="right") * 1000
    return [b for b, k in zip(STANDARD, kept.tolist(), strict=True) if 50 * len(shortest) <= k <= 995 * len(shortest) and k]


def labels_of(ledger: pl.DataFrame, meta: Meta) -> dict[float, str]:
    """The name of each difficulty that has one: from the column ``label``, else from the ordered names in ``meta``."""
    if "label" in ledger.columns:
        named = ledger.select("difficulty", "label").drop_nulls().group_by("difficulty").agg(pl.col("label").min())
        return dict(named.iter_rows())
    return {value: label for label, value in order_labels(meta.labels).items()} if meta.labels else {}


def _yield(
    ledger: pl.DataFrame, meta: Meta, bounds: Sequence[int] | None, terms: _Terms, *, sampled: bool, also: int | None = None
) -> Yield:
    ledger = ordered(ledger)
    layout = lay_out(ledger, terms.passing, terms.required)
    problems, labels = layout.problems, labels_of(ledger, meta)
    own = {also} if also else set()
    listed = [*sorted({*(bounds if bounds is not None else standard_bounds(problems)), *own}), None]
    skews: Sequence[Skew | None] = skew_table(problems, listed, labels) or [None] * len(listed)
    curves = _Curves.of(ledger, layout)
    passing = np.sort(layout.tokens)
    facts = _facts(ledger, meta, terms.basis, sizes=problems["traces"], lengths=curves.traces, passing=passing)
    return Yield(
        facts=facts,
        bounds=tuple(_bound(curves, layout, bound, meta, skew, sampled=sampled) for bound, skew in zip(listed, skews, strict=True)),
        needed={str(q): _nearest_rank(curves.shortest, q) for q in PERCENTILES},
        needed_hardest=half_of_hardest(problems, labels),
        with_passing=len(curves.shortest),
        choices=_histogram(problems.filter(pl.col("passing") > 0)["passing"]),
        funnel=_funnel(ledger, terms),
        thinking=tuple(terms.required.values()),
        unverified=terms.basis == "none",
        censored_above=1 - facts["unfinished"] / len(curves.traces) if facts["unfinished"] else None,
        difficulty_conflicts=int(problems["conflict"].sum()),
    )


@dataclass(frozen=True, slots=True)
class _Curves:
    """Sorted lengths, so that a bound is a binary search: of all traces (with running totals), and one per problem and word."""

    traces: Lengths
    totals: Lengths
    height: int
    problems: int
    any: Lengths
    first: Lengths
    shortest: Lengths
    longest: Lengths

    @classmethod
    def of(cls, ledger: pl.DataFrame, layout: Layout) -> _Curves:
        traces = _sorted(ledger["tokens"])
        words = {word: _sorted(layout.problems[word]) for word in ("any", "first", "shortest", "longest")}
        totals = np.concatenate([[0], np.cumsum(traces)])
        return cls(traces=traces, totals=totals, height=ledger.height, problems=layout.problems.height, **words)


def _sorted(lengths: pl.Series) -> Lengths:
    return lengths.drop_nulls().sort().cast(pl.Int64).to_numpy()


def _bound(curves: _Curves, layout: Layout, bound: int | None, meta: Meta, skew: Skew | None, *, sampled: bool) -> Bound:
    limit = MISSING - 1 if bound is None else min(bound, MISSING - 1)
    counts, random = _counts(curves, layout, limit), _random(layout, limit)
    traces = int(np.searchsorted(curves.traces, limit, side="right"))
    low, high = (_scaled(bound, meta.tokens.get(end)) for end in ("low", "high"))
    return Bound(
        max_tokens=bound,
        traces=traces,
        share=traces / curves.height if curves.height else None,
        tokens=int(curves.totals[traces]),
        problems=counts,
        problems_share=counts.shortest / curves.problems if curves.problems else None,
        train_shortest=_chosen(layout, layout.short_key, limit),
        train_random=random,
        train_longest=_chosen(layout, layout.long_key, limit),
        lost_average=round(counts.shortest - counts.average, 2),
        lost_first=counts.shortest - counts.first,
        fewest=_counts(curves, layout, high) if low is not None and high is not None else None,
        most=_counts(curves, layout, low) if low is not None and high is not None else None,
        interval=wilson(counts.shortest, curves.problems) if sampled else None,
        skew=skew,
    )


def _scaled(bound: int | None, factor: float | None) -> int | None:
    """The longest estimate whose true length, ``estimate * factor``, is within the bound; exact, so that a bound met counts."""
    if bound is None or not factor:
        return None
    return math.floor(Fraction(bound) / Fraction(str(factor)))


def _counts(curves: _Curves, layout: Layout, limit: int) -> Counts:
    def within(lengths: Lengths) -> int:
        return int(np.searchsorted(lengths, limit, side="right"))

    fitting = np.add.reduceat(layout.tokens <= limit, layout.starts, dtype=np.int64)
    return Counts(
        any=within(curves.any),
        first=within(curves.first),
        average=round(_sum_of_ratios(fitting, layout.sizes), 2),
        shortest=within(curves.shortest),
        longest=within(curves.longest),
    )


def _sum_of_ratios(over: Lengths, under: Lengths) -> float:
    """Sum of ``over / under``, 0 where ``under`` is 0; summed by denominator, so that the order of problems changes no digit."""
    sums = np.bincount(under, weights=over)
    sizes = np.flatnonzero(sums)
    return math.fsum(sums[sizes] / np.maximum(sizes, 1))


def _random(layout: Layout, limit: int) -> float:
    """Expected tokens of a set with one passing trace that fits from each problem, all equally likely."""
    fit = layout.tokens <= limit
    many = np.add.reduceat(fit, layout.starts, dtype=np.int64)
    tokens = np.add.reduceat(np.where(fit, layout.tokens, 0), layout.starts)
    return round(_sum_of_ratios(tokens, many), 2)


def _chosen(layout: Layout, key: Keys, limit: int) -> int:
    """Tokens of a set that has, of the passing traces of each problem that fit, the one of the smallest key."""
    best = np.minimum.reduceat(np.where(layout.tokens <= limit, key, NONE), layout.starts)
    return int(layout.tokens[(best[best != NONE] % SHIFT).astype(np.int64)].sum())


def wilson(kept: int, total: int) -> tuple[float, float] | None:
    """95 % interval of a share (Wilson 1927): stays within 0 and 1 and holds for few problems, where the plain one does not.

    >>> [round(x, 4) for x in wilson(0, 10)]
    [0.0, 0.2775]
    """
    if not total:
        return None
    share, weight = kept / total, Z * Z / total
    middle = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / total + weight / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def _nearest_rank(rising: Lengths, percent: int) -> int | None:
    """The value below or at which ``percent`` lie: ``rising[ceil(q n) - 1]``."""
    return int(rising[-(-len(rising) * percent // 100) - 1]) if len(rising) else None


def _histogram(sizes: pl.Series) -> dict[str, int]:
    """{"1": how often 1 occurs, ...}, in numeric order."""
    values, counts = np.unique(sizes.to_numpy(), return_counts=True)
    return {str(v): n for v, n in zip(values.tolist(), counts.tolist(), strict=True)}


def _funnel(ledger: pl.DataFrame, terms: _Terms) -> dict[str, int]:
    """Every trace once: ``passing``, or the first thing in its way."""
    stations = {
        "bad_row": pl.col("tokens").is_null(),
        "no_problem": pl.col("problem").is_null(),
        "unfinished": ~pl.col("finished"),
        "no_thinking": ~usable(terms.required),
        "passing": allowed(terms.passing),
        "failed": pl.col("passed").is_not_null(),
        "unknown": pl.lit(True),
    }
    numbers = pl.coalesce(pl.when(holds).then(pl.lit(i, dtype=pl.Int8)) for i, holds in enumerate(stations.values()))
    counts = dict(ledger.select(at=numbers).group_by("at").len().iter_rows())
    return {name: counts.get(i, 0) for i, name in enumerate(stations)}


def _facts(ledger: pl.DataFrame, meta: Meta, basis: str, *, sizes: pl.Series, lengths: Lengths, passing: Lengths) -> dict[str, Any]:
    """The shared keys, given the traces of each problem and the rising lengths of all and of passing traces."""
    text = pl.col("tokens").is_not_null()
    counts = ledger.select(
        unfinished=(text & ~pl.col("finished")).sum(),
        without_thinking=(text & ~pl.col("thinking")).sum(),
        passed=pl.col("passed").sum(),
        failed=(~pl.col("passed")).sum(),
        unknown=pl.col("passed").null_count(),
        rated=pl.col("difficulty").is_finite().sum(),
    ).row(0, named=True)
    bad = _distinct_rows(ledger.filter(~text)) + meta.bad_lines
    rows = [s.get("rows") for s in meta.sources]
    known = [int(n) for n in rows if n is not None]
    return {
        "rows": sum(known) if known and len(known) == len(rows) else _distinct_rows(ledger),
        "traces": ledger.height,
        "problems": len(sizes),
        "traces_per_problem": _histogram(sizes),
        "bad_rows": bad,
        "rows_without_problem": _distinct_rows(ledger.filter(pl.col("problem").is_null())),
        "unfinished": counts["unfinished"],
        "without_thinking": counts["without_thinking"],
        "passing": {"basis": basis, **{key: counts[key] for key in ("passed", "failed", "unknown")}, **_bases(meta, basis)},
        "difficulty": {"rated": counts["rated"], "unrated": ledger.height - counts["rated"]},
        "tokens": _lengths(lengths, meta),
        "tokens_passing": _lengths(passing, meta),
    }


def _bases(meta: Meta, basis: str) -> dict[str, dict[str, str]]:
    """Where the basis is ``mixed``: the basis of each source."""
    if basis != "mixed":
        return {}
    return {"by_source": {source_name(meta, i): str(s.get("basis")) for i, s in enumerate(meta.sources)}}


def _distinct_rows(ledger: pl.DataFrame) -> int:
    source, row = pl.col("source"), pl.col("row")
    if in_order(ledger):
        return int(ledger.select(((source != source.shift()) | (row != row.shift())).fill_null(True).sum()).item())
    return ledger.select("source", "row").n_unique()


def _lengths(rising: Lengths, meta: Meta) -> dict[str, Any]:
    total = int(rising.sum())
    return {
        "counted": len(rising),
        "basis": meta.tokens.get("basis"),
        "by": meta.tokens.get("by"),
        "count": meta.tokens.get("count"),
        "mean": round(total / len(rising), 2) if len(rising) else None,
        **{f"p{q}": _nearest_rank(rising, q) for q in PERCENTILES},
        "max": int(rising[-1]) if len(rising) else None,
        "total": total,
    }
