"""What the report shows, as numbers: every figure at every stop of its slider, from a ledger alone.

A report has some fifty **stops** (bounds), so its size does not grow with the data. Figures of a stop are those of
``yields.yield_table`` at the same bound; what ``yield`` does not say (policies side by side, the long tail, shuffled lengths,
composition, padding) is counted here from the same layout. A million traces take about five seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from curate import padding
from curate.errors import CurateError
from curate.layout import SPAN
from curate.ledger import REASONS, Meta
from curate.memory import Fit
from curate.problems import MISSING, NONE, SHIFT, Keys, Layout, Lengths, lay_out, ordered
from curate.selection import Passing, Rules, allowed, body, mark, source_name, summary, thinking_required, usable, verdict_basis
from curate.skew import Shuffled, cut, name_bands, shuffled
from curate.yields import Yield, labels_of, standard_bounds, yield_table

STOPS: Final = 30
"""Bounds between the shortest and the longest trace, beside those people train with: steps of about 12 %."""

PADDED: Final = 1000
"""Kept traces whose batches are laid out for each stop, evenly spaced over the lengths; the error of a share is about a percent."""

MICRO_BATCH: Final = 4
GROUPS: Final = 8
POLICIES: Final = ("shortest", "random", "first", "longest")
THIRDS: Final = ("shortest third", "middle third", "longest third")
QUANTILES: Final = (10, 25, 50, 75, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Traces of ``low`` to below ``high`` tokens: finished ones, and those cut off or unfinished."""

    low: float
    high: float
    finished: int
    unfinished: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Nearest-rank quantiles of the lengths of a difficulty band's finished traces."""

    label: str
    traces: int
    p10: int
    p25: int
    p50: int
    p75: int
    p90: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A policy at a bound: problems and tokens if traces that do not fit are dropped before the choice, and after it.

    Random picks are means over all picks.
    """

    policy: str
    problems: float
    tokens: float
    problems_after: float
    tokens_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Passing traces at a bound: within it, over it with a passing sibling within, over it with none."""

    within: int
    replaced: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Judged traces of problems with at least two: observed pass rate, and the one expected if length did not matter."""

    third: str
    traces: int
    observed: float
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Problems with a trace of one source, tag or subject: all, those with a passing trace, those kept at each stop."""

    name: str
    problems: int
    with_passing: int
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Traces with one fate at a bound, and problems whose last obstacle it is."""

    reason: str
    traces: int
    problems: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Everything a report shows. Sequences named after a figure run along ``stops``; ``at`` is the stop to open with.

    ``made`` has one row for each stop and a last one without a bound. ``ends`` are, for each stop, the bounds in estimated tokens
    that the two ends of an estimate's 95 % range stand for (fewest, most); None where lengths are no estimate.
    """

    made: Yield
    meta: Meta
    stops: tuple[int, ...]
    at: int
    standard: tuple[int, ...]
    traces: tuple[int, ...]
    tokens: tuple[int, ...]
    ends: tuple[tuple[int, int], ...] | None
    traces_range: tuple[tuple[int, int], ...] | None
    tokens_range: tuple[tuple[int, int], ...] | None
    histogram: tuple[Bin, ...]
    spreads: tuple[Spread, ...]
    shuffled: tuple[Shuffled, ...]
    policies: tuple[tuple[Chosen, ...], ...]
    tails: tuple[Tail, ...]
    ranks: tuple[Rank, ...]
    by: str | None
    groups: tuple[Group, ...]
    padding: tuple[tuple[padding.Run, ...], ...]
    fits: tuple[Fit, ...]
    kept_safe: tuple[int, ...]
    kept_may: tuple[int, ...]
    funnel: tuple[tuple[Fate, ...], ...]


def collect(
    ledger: pl.DataFrame, meta: Meta, *, rules: Rules, bound: int | None = None, fits: Sequence[Fit] = (), by: str | None = None
) -> Data:
    """Count everything once. Of ``rules`` only what concerns passing and thinking is used.

    Args:
        bound: the stop to open with; by default 8,192 where that length matters, else the one that keeps nearest to half.
        fits: lengths that cards hold, marked on the curves.
        by: what the column ``group`` is called.

    Raises:
        CurateError: ``by`` is given and the ledger has no such column.
    """
    if by and "group" not in ledger.columns:
        raise CurateError("This ledger has no column `group`. Count it again from the source with --by COLUMN.")
    ledger = ordered(ledger)
    required = thinking_required(ledger, meta, rules)
    passing: Passing = "finished" if verdict_basis(ledger, meta) == "none" else rules.passing
    layout = lay_out(ledger, passing, required)
    passes = usable(required) & allowed(passing)
    problems, labels = layout.problems, labels_of(ledger, meta)
    standard = standard_bounds(problems)
    shortest = np.sort(problems["shortest"].drop_nulls().to_numpy())
    lengths = np.sort(ledger["tokens"].drop_nulls().cast(pl.Int64).to_numpy())
    asked = bound or _opening(standard, shortest)
    stops = _stops(shortest, lengths, [*standard, *(n for f in fits for n in (f.safe, f.may))], asked)
    made = yield_table(ledger, meta, bounds=stops, rules=rules)
    within = np.searchsorted(lengths, stops, side="right")
    totals = np.concatenate([[0], np.cumsum(lengths)])
    ends = _ends(stops, meta)
    group = _group_column(ledger, meta)
    return Data(
        made=made,
        meta=meta,
        stops=tuple(stops),
        at=stops.index(asked) if asked in stops else 0,
        standard=tuple(standard),
        traces=tuple(within.tolist()),
        tokens=tuple(totals[within].tolist()),
        ends=ends,
        traces_range=_ranged(ends, lambda limit: int(np.searchsorted(lengths, limit, side="right"))),
        tokens_range=_ranged(ends, lambda limit: int(totals[np.searchsorted(lengths, limit, side="right")])),
        histogram=_histogram(ledger),
        spreads=_spreads(ledger, problems, labels),
        shuffled=shuffled(problems, layout.tokens, stops, labels),
        policies=_policies(layout, made, stops),
        tails=_tails(layout, stops),
        ranks=_ranks(ledger, usable(required)),
        by=(by or "group") if group == "group" else "source" if group else None,
        groups=_groups(ledger, meta, group, passes, stops) if group else (),
        padding=tuple(_padding(shortest[shortest <= stop], stop) for stop in stops),
        fits=tuple(fits),
        kept_safe=tuple(int(np.searchsorted(shortest, f.safe, side="right")) for f in fits),
        kept_may=tuple(int(np.searchsorted(shortest, f.may, side="right")) for f in fits),
        funnel=_funnel(ledger, meta, replace(rules, passing=passing), made),
    )


def _opening(standard: Sequence[int], shortest: Lengths) -> int | None:
    """As the first sentence of ``yield`` has it: 8,192 where it is shown, else the bound that keeps nearest to half."""
    if 8192 in standard or not len(shortest):
        return 8192 if len(shortest) else None
    half = len(shortest) / 2
    return min(standard, key=lambda b: abs(int((shortest <= b).sum()) - half)) if standard else int(shortest[-1])


def _stops(shortest: Lengths, lengths: Lengths, also: Sequence[int], asked: int | None) -> list[int]:
    """Rising bounds: a geometric grid over the lengths, in steps of 64 tokens where these are finer than 3 %, and ``also``.

    The last keeps every trace; ``asked`` may lie beyond it.
    """
    if not len(shortest):
        return []
    low, high = max(1, int(shortest[len(shortest) // 100])), max(1, int(lengths[-1]))
    grid = np.geomspace(low, high, STOPS) if high > low else np.array([high])
    step = 64 if low > 64 * 30 else 1
    points = {int(-(-round(x) // step) * step) for x in grid.tolist()[:-1]}
    named = {x for x in also if 0 < x < high} | ({asked} if asked else set())
    # Two stops nearer than 2 % tell the same; those that people train with stay.
    return sorted({x for x in points if x < high and all(abs(x - y) * 50 > y for y in named)} | named | {high})


def _ends(stops: Sequence[int], meta: Meta) -> tuple[tuple[int, int], ...] | None:
    low, high = meta.tokens.get("low"), meta.tokens.get("high")
    if meta.tokens.get("basis") != "estimate" or not low or not high:
        return None
    ends = tuple((_scaled(stop, high), _scaled(stop, low)) for stop in stops)
    return ends if any(fewest != most for fewest, most in ends) else None


def _scaled(bound: int, factor: float) -> int:
    """The longest estimate whose true length, ``estimate * factor``, is within the bound; exact."""
    return math.floor(Fraction(bound) / Fraction(str(factor)))


def _ranged(ends: tuple[tuple[int, int], ...] | None, count: Callable[[int], int]) -> tuple[tuple[int, int], ...] | None:
    return None if ends is None else tuple((count(low), count(high)) for low, high in ends)


def _histogram(ledger: pl.DataFrame) -> tuple[Bin, ...]:
    """Four bins an octave, without gaps from the shortest to the longest."""
    known = ledger.select("tokens", "finished").filter(pl.col("tokens").is_not_null())
    if not known.height:
        return ()
    tokens = np.maximum(1, known["tokens"].cast(pl.Int64).to_numpy())
    done = known["finished"].fill_null(False).to_numpy()
    place = np.floor(4 * np.log2(tokens) + 1e-9).astype(np.int64)
    low = int(place.min())
    finished = np.bincount(place[done] - low, minlength=int(place.max()) - low + 1)
    every = np.bincount(place - low)
    return tuple(
        Bin(low=round(2 ** ((low + i) / 4), 1), high=round(2 ** ((low + i + 1) / 4), 1), finished=f, unfinished=n - f)
        for i, (f, n) in enumerate(zip(finished.tolist(), every.tolist(), strict=True))
    )


def _spreads(ledger: pl.DataFrame, problems: pl.DataFrame, labels: Mapping[float, str]) -> tuple[Spread, ...]:
    """The bands are those of the skew: cut over the rated problems."""
    rated = problems["difficulty"].drop_nulls().to_numpy()
    values, sizes = np.unique(rated[np.isfinite(rated)], return_counts=True)
    if not len(values):
        return ()
    edges = values[cut(sizes.tolist())]
    names = name_bands(edges.tolist(), len(values), labels)
    known = ledger.filter(pl.col("finished") & pl.col("tokens").is_not_null() & pl.col("difficulty").is_finite())
    band = np.searchsorted(edges, known["difficulty"].to_numpy(), side="right") - 1
    tokens = known["tokens"].cast(pl.Int64).to_numpy()
    spreads = []
    for i, name in enumerate(names):
        own = np.sort(tokens[band == i])
        if len(own):
            at = {f"p{q}": int(own[-(-len(own) * q // 100) - 1]) for q in QUANTILES}
            spreads.append(Spread(label=name, traces=len(own), **at))
    return tuple(spreads)


def _policies(layout: Layout, made: Yield, stops: Sequence[int]) -> tuple[tuple[Chosen, ...], ...]:
    if not len(layout.starts):
        return tuple(() for _ in stops)
    index = np.arange(len(layout.tokens), dtype=np.uint64)
    weight = np.repeat(1 / layout.sizes, layout.sizes)
    order = np.argsort(layout.tokens, kind="stable")
    ranked, spent = layout.tokens[order], np.concatenate([[0.0], np.cumsum((layout.tokens * weight)[order])])
    after = {
        name: _after(layout, key) for name, key in (("shortest", layout.short_key), ("first", index), ("longest", layout.long_key))
    }
    table = []
    for stop, row in zip(stops, made.bounds, strict=False):
        kept = row.problems.shortest
        first = np.minimum.reduceat(np.where(layout.tokens <= stop, index, NONE), layout.starts)
        before = {
            "shortest": row.train_shortest,
            "random": row.train_random,
            "first": int(layout.tokens[first[first != NONE].astype(np.int64)].sum()),
            "longest": row.train_longest,
        }
        late = {
            name: (int(n), int(total[n]))
            for name, (chosen, total) in after.items()
            if (n := np.searchsorted(chosen, stop, "right")) >= 0
        }
        random = round(float(spent[np.searchsorted(ranked, stop, side="right")]), 2)
        table.append(
            tuple(
                Chosen(
                    policy=name,
                    problems=kept,
                    tokens=before[name],
                    problems_after=row.problems.average if name == "random" else late[name][0],
                    tokens_after=random if name == "random" else late[name][1],
                )
                for name in POLICIES
            )
        )
    return tuple(table)


def _after(layout: Layout, key: Keys) -> tuple[Lengths, Lengths]:
    """Rising lengths of the traces chosen without a bound, and their running totals from 0."""
    best = np.minimum.reduceat(key, layout.starts)
    lengths = np.sort(layout.tokens[(best % SHIFT).astype(np.int64)])
    return lengths, np.concatenate([[0], np.cumsum(lengths)])


def _tails(layout: Layout, stops: Sequence[int]) -> tuple[Tail, ...]:
    if not len(layout.starts):
        return tuple(Tail(within=0, replaced=0, lost=0) for _ in stops)
    ranked = np.sort(layout.tokens)
    shortest = np.minimum.reduceat(layout.tokens, layout.starts)
    order = np.argsort(shortest, kind="stable")
    lost_after = np.concatenate([np.cumsum(layout.sizes[order][::-1])[::-1], [0]])
    tails = []
    for stop in stops:
        within = int(np.searchsorted(ranked, stop, side="right"))
        lost = int(lost_after[np.searchsorted(shortest[order], stop, side="right")])
        tails.append(Tail(within=within, replaced=len(ranked) - within - lost, lost=lost))
    return tuple(tails)


def _ranks(ledger: pl.DataFrame, able: pl.Expr) -> tuple[Rank, ...]:
    """Each problem's judged traces from short to long, in thirds: place r of k is in third floor(3 (2 r - 1) / 2 k)."""
    judged = (
        ledger.lazy()
        .filter(able & pl.col("passed").is_not_null())
        .select("problem", "passed", length=body())
        .group_by("problem")
        .agg(pl.col("passed").sort_by("length"), many=pl.len().cast(pl.Int64))
        .filter(pl.col("many") > 1)
        .select("passed", "many", rate=pl.col("passed").list.mean())
        .collect()
    )
    if not judged.height:
        return ()
    many = judged["many"].to_numpy()
    sizes = np.repeat(many, many)
    place = np.arange(len(sizes)) - np.repeat(np.cumsum(many) - many, many)
    third = 3 * (2 * place + 1) // (2 * sizes)
    passed = judged["passed"].explode(empty_as_null=False).to_numpy().astype(np.float64)
    rate = np.repeat(judged["rate"].to_numpy(), many)
    found = []
    for i, name in enumerate(THIRDS):
        own = third == i
        if n := int(own.sum()):
            observed, expected = float(passed[own].sum()) / n, math.fsum(rate[own]) / n
            found.append(Rank(third=name, traces=n, observed=observed, expected=round(expected, 9)))
    return tuple(found)


def _group_column(ledger: pl.DataFrame, meta: Meta) -> str | None:
    """The column of the composition: ``group`` where it says something, else the source where there are several."""
    if "group" in ledger.columns and ledger["group"].null_count() < ledger.height:
        return "group"
    return "source" if len(meta.sources) > 1 else None


def _groups(ledger: pl.DataFrame, meta: Meta, column: str, passes: pl.Expr, stops: Sequence[int]) -> tuple[Group, ...]:
    """The largest groups by problems, the rest pooled; a problem with traces in two groups counts in both."""
    named = ledger.lazy().filter(pl.col("problem").is_not_null())
    per = named.select(
        "problem",
        name=pl.col(column).cast(pl.String).fill_null("(none)"),
        tokens=pl.when(passes).then(pl.col("tokens").cast(pl.Int64)),
    )
    if column == "group" and ledger["group"].str.contains(SPAN, literal=True).any():  # several tags of a trace in one text
        per = per.with_columns(pl.col("name").str.split(SPAN)).explode("name")
    found = per.group_by("name", "problem").agg(pl.col("tokens").min()).collect()
    sizes = found.group_by("name").len("n").sort(["n", "name"], descending=[True, False])
    names = sizes["name"].to_list()
    shown = names if len(names) <= GROUPS else names[: GROUPS - 1]
    parts = {name: found.filter(pl.col("name") == name) for name in shown}
    if len(shown) < len(names):
        rest = found.filter(~pl.col("name").is_in(shown)).group_by("problem").agg(pl.col("tokens").min())
        parts[f"{len(names) - len(shown)} others"] = rest
    groups = []
    for name, part in parts.items():
        lengths = part["tokens"].drop_nulls().sort().to_numpy()
        kept = np.searchsorted(lengths, stops, side="right").tolist()
        said = source_name(meta, int(name)) if column == "source" and name.isdigit() else name
        groups.append(Group(name=said, problems=part.height, with_passing=len(lengths), kept=tuple(kept)))
    return tuple(groups)


def _padding(kept: npt.NDArray[Any], stop: int) -> tuple[padding.Run, ...]:
    """Policies on the kept traces at this bound: padded to it, to the longest of four, the same grouped, packed."""
    if len(kept) < MICRO_BATCH:
        return ()
    if len(kept) > PADDED:
        kept = kept[np.linspace(0, len(kept) - 1, PADDED).astype(np.int64)]
    done = padding.audit(np.maximum(1, kept), max_length=stop, micro_batch=MICRO_BATCH)
    return tuple(run for run in (done.use, *done.others) if run.max_length == stop)


def _funnel(ledger: pl.DataFrame, meta: Meta, rules: Rules, made: Yield) -> tuple[tuple[Fate, ...], ...]:
    """What ``selection.summary`` says after marking for the shortest at each stop: reasons before the bound are the same at all."""
    free = replace(rules, policy="all", max_tokens=None, choose_first=False, high=False)
    counts: dict[str, Any] = summary(mark(ledger, free, thinking_required(ledger, meta, free)))
    passing = made.facts["tokens_passing"]["counted"]
    fixed = [Fate(reason=r, traces=counts["dropped"][r], problems=counts["problems_lost"].get(r, 0)) for r in REASONS[:5]]
    within = _passing_within(ledger, meta, free, made)
    table = []
    for row, fit in zip(made.bounds[:-1], within, strict=True):
        kept = row.problems.shortest
        over = Fate(reason="over_length", traces=passing - fit, problems=made.with_passing - kept)
        other = Fate(reason="not_chosen", traces=fit - kept, problems=0)
        table.append((Fate(reason="kept", traces=kept, problems=0), other, over, *reversed(fixed)))
    return tuple(table)


def _passing_within(ledger: pl.DataFrame, meta: Meta, rules: Rules, made: Yield) -> list[int]:
    passes = usable(thinking_required(ledger, meta, rules)) & allowed(rules.passing)
    lengths = ledger.filter(passes)["tokens"].cast(pl.Int64).sort().to_numpy()
    return [int(np.searchsorted(lengths, b.max_tokens or MISSING, side="right")) for b in made.bounds[:-1]]
