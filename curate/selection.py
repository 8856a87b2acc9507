"""Which traces are kept, and why the others are not: rules mark, they never filter.

The first reason of ``ledger.REASONS`` that holds is the one a trace gets; a trace with none is kept. So kept + dropped =
traces read, always. Over-length traces are marked before the choice (**drop, then choose**): no problem is lost because a
trace was chosen that does not fit. ``choose_first`` is the old way, which loses every problem whose chosen trace is too
long although another one would have fitted. One window over the problems; a million traces take about a second's quarter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.errors import CurateError
from curate.ledger import REASONS, Meta, Reason

Policy = Literal["all", "first", "shortest", "longest", "random"]
Passing = Literal["known", "not-failed", "finished"]

MOSTLY: Final = 95
"""From so many percent of thinking traces a source requires it of all; at 100 - MOSTLY or fewer, of none."""

SHIFT: Final = 1 << 32
"""Two 32-bit numbers share one sortable 64-bit key: the length in the upper half, the position that breaks ties below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides: the bound in tokens, the policy of choice, which verdicts pass, whether thinking is required.

    ``thinking`` None lets every source decide for itself. ``high`` compares the upper end of an estimate
    (``tokens_high``, where the ledger has it) with the bound. ``seed`` serves the policy ``random``.
    """

    max_tokens: int | None = None
    policy: Policy = "shortest"
    passing: Passing = "known"
    thinking: Literal["required", "optional"] | None = None
    seed: int = 0
    choose_first: bool = False
    high: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """What one source says about thinking: ``thinking`` of its ``traces`` with text do; ``mixed`` decides nothing."""

    source: int
    name: str
    traces: int
    thinking: int
    decision: Literal["required", "optional", "mixed"]

    @property
    def required(self) -> bool:
        """Whether a trace of this source without thinking is dropped; a mixed source requires nothing."""
        return self.decision == "required"


def thinking_required(ledger: pl.DataFrame, meta: Meta, rules: Rules, *, strict: bool = False) -> dict[int, Thinking]:
    """Decide for each source whether its traces must think, from those of its traces that have text.

    At least 95 % think: required. At most 5 %: optional. Between: mixed, which ``strict`` (for ``select``) refuses with
    the counts and which otherwise requires nothing. ``rules.thinking`` overrides all sources.
    """
    counts = (
        ledger.lazy()
        .filter(pl.col("tokens").is_not_null())
        .group_by("source")
        .agg(traces=pl.len(), thinking=pl.col("thinking").sum())
        .sort("source")
        .collect()
    )
    found = {}
    for source, traces, thinking in counts.iter_rows():
        decision: Literal["required", "optional", "mixed"] = "mixed"
        if rules.thinking is not None:
            decision = rules.thinking
        elif thinking * 100 >= traces * MOSTLY:
            decision = "required"
        elif thinking * 100 <= traces * (100 - MOSTLY):
            decision = "optional"
        name = source_name(meta, source)
        found[source] = Thinking(source=source, name=name, traces=traces, thinking=thinking, decision=decision)
    mixed = [t for t in found.values() if t.decision == "mixed"]
    if strict and mixed:
        told = "; ".join(f"{t.thinking:,} of {t.traces:,} traces of {t.name} think" for t in mixed)
        raise CurateError(
            f"{told}: it is not clear whether a trace without thinking belongs in the set. "
            "Say --thinking required to drop those, or --thinking optional to accept them."
        )
    return found


def source_name(meta: Meta, source: int) -> str:
    """The name of a source as the user gave it, or its number where the ledger does not say."""
    known = meta.sources[source].get("name") if source < len(meta.sources) else None
    return str(known) if known else f"source {source}"


def verdict_basis(ledger: pl.DataFrame, meta: Meta) -> str:
    """How verdicts came about: the one basis of all sources, ``mixed``, or ``none`` where no trace has a verdict."""
    bases = {str(s["basis"]) for s in meta.sources if s.get("basis")}
    if ledger["passed"].null_count() == ledger.height and (ledger.height or not bases):
        return "none"
    return "verdict" if not bases else bases.pop() if len(bases) == 1 else "mixed"


def usable(required: Mapping[int, Thinking]) -> pl.Expr:
    """Boolean: text, problem, finished, and thinking where its source requires it."""
    return pl.col("tokens").is_not_null() & pl.col("problem").is_not_null() & _finished() & _thinks(required)


def allowed(passing: Passing) -> pl.Expr:
    """Boolean: the verdict lets the trace pass. ``known`` wants true, ``not-failed`` no false, ``finished`` asks nothing."""
    if passing == "finished":
        return pl.lit(True)
    return pl.col("passed").fill_null(passing == "not-failed")


def _finished() -> pl.Expr:
    return pl.col("finished").fill_null(False)


def _thinks(required: Mapping[int, Thinking]) -> pl.Expr:
    demanding = [source for source, t in required.items() if t.required]
    if not demanding:
        return pl.lit(True)
    return pl.col("thinking").fill_null(False) | ~pl.col("source").is_in(demanding)


def in_order(ledger: pl.DataFrame) -> bool:
    """Whether the rows stand in the order of (source, row, item), as a ledger is written."""
    source, row, item = (pl.col(c) for c in ("source", "row", "item"))
    later = (row > row.shift()) | ((row == row.shift()) & (item >= item.shift()))
    rising = (source > source.shift()) | ((source == source.shift()) & later)
    return bool(ledger.select(rising.fill_null(True).all()).item())


def position(ledger: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """Place of each trace in the order of (source, row, item), from 0; the order of the input does not matter."""
    at = np.arange(ledger.height, dtype=np.uint64)
    if in_order(ledger):
        return at
    order = ledger.select("source", "row", "item", at=at).sort("source", "row", "item", maintain_order=True)
    place = np.empty_like(at)
    place[order["at"].to_numpy()] = at
    return place


def mark(ledger: pl.DataFrame, rules: Rules, required: Mapping[int, Thinking]) -> pl.DataFrame:
    """Return the same rows with ``reason`` filled: null = kept, else the first reason of ``REASONS`` that holds.

    Equal lengths: the earliest (source, row, item) is chosen. ``shortest`` and ``longest`` rank by ``tokens -
    prompt_tokens``, so that a longer prompt does not punish a trace; the bound is compared with ``tokens``. ``random`` is a
    hash of seed and place, the same on every machine and in every version. ``all`` keeps whatever fits.

    >>> from curate.ledger import SCHEMA, Meta
    >>> same = {"source": 0, "item": 0, "problem": "A", "prompt_tokens": 0}
    >>> good = {"passed": True, "finished": True, "thinking": True}
    >>> ledger = pl.DataFrame([same | good | {"row": r, "tokens": t} for r, t in enumerate([9, 7, 12])], schema=SCHEMA)
    >>> rules = Rules(max_tokens=10)
    >>> mark(ledger, rules, thinking_required(ledger, Meta(), rules))["reason"].to_list()
    ['not_chosen', None, 'over_length']
    """
    passing = usable(required) & allowed(rules.passing)
    over = _over(ledger, rules)
    reason = (
        pl.when(pl.col("tokens").is_null())
        .then(pl.lit("bad_row"))
        .when(pl.col("problem").is_null())
        .then(pl.lit("no_problem"))
        .when(~_finished())
        .then(pl.lit("unfinished"))
        .when(~_thinks(required))
        .then(pl.lit("no_thinking"))
        .when(~allowed(rules.passing))
        .then(pl.lit("not_passing"))
        .when(over)
        .then(pl.lit("over_length"))
    )
    if rules.policy == "all":
        return ledger.with_columns(reason=reason.otherwise(None).cast(Reason))
    candidate = passing if rules.choose_first else passing & ~over
    key = pl.when(candidate).then(_rank(rules))
    chosen = key == key.min().over("problem")
    at = position(ledger)
    if rules.policy == "random":
        at += _hash(ledger, rules.seed) >> np.uint64(32) << np.uint64(32)
    return (
        ledger.with_columns(_at=at)
        .with_columns(reason=reason.when(~chosen).then(pl.lit("not_chosen")).otherwise(None).cast(Reason))
        .drop("_at")
    )


def choose(ledger: pl.DataFrame, meta: Meta, rules: Rules) -> pl.DataFrame:
    """What ``select`` does: refuse what cannot be decided (mixed thinking, no verdicts), then ``mark``."""
    if rules.passing == "known" and ledger.height and verdict_basis(ledger, meta) == "none":
        maybe = list(dict.fromkeys(c for s in meta.sources for c in s.get("maybe_verdicts", ())))
        told = f" Columns that may hold verdicts: {', '.join(maybe)}." if maybe else ""
        raise CurateError(
            "No trace here has a verdict, so none is known to pass. "
            "Say --passing finished to accept every finished trace, name the column that holds the verdicts with --passed, "
            f"or compute them with `curate verify`.{told}"
        )
    return mark(ledger, rules, thinking_required(ledger, meta, rules, strict=True))


LEADERS: Final = 100_000
"""Problems of which the best trace so far is remembered: some tens of megabytes at most."""


class Contest:
    """Which traces of a part of a ledger may be kept, as far as it and the parts seen before can tell, whatever their order.

    A superset of what ``mark`` keeps of the whole. Where the best of a problem is kept, a trace that loses to another one is out:
    whatever other parts hold, or problems that turn out to be one, it loses still. Traces with and without thinking do not compete,
    since that is decided over all parts. Many threads may ask at once.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.best: dict[tuple[str, bool], tuple[int, int, int, int]] = {}

    def possible(self, part: pl.DataFrame, source: int) -> pl.Series:
        """Boolean, one for each row of a part of the source of this number."""
        text = pl.col("tokens").is_not_null() & pl.col("problem").is_not_null() & _finished()
        able = part.select(able=text & allowed(self.rules.passing) & ~_over(part, self.rules))["able"]
        if self.rules.choose_first or self.rules.policy in ("all", "random"):
            return able
        sign = {"first": 0, "shortest": 1, "longest": -1}[self.rules.policy]
        rivals = (
            part.with_row_index("at")
            .filter(able)
            .select((body() * sign).alias("length"), "row", "item", "problem", "thinking", "at")
        )
        losers = []
        for length, row, item, problem, thinking, at in rivals.sort("length", "row", "item").iter_rows():
            mine, name = (length, source, row, item), (problem, thinking)
            best = self.best.get(name)
            if best is not None and best < mine:
                losers.append(at)
            elif best is not None or len(self.best) < LEADERS:
                self.best[name] = mine
        return able.scatter(losers, False) if losers else able


def _over(ledger: pl.DataFrame, rules: Rules) -> pl.Expr:
    if rules.max_tokens is None:
        return pl.lit(False)
    length = pl.col("tokens")
    if rules.high and "tokens_high" in ledger.columns:
        length = pl.coalesce("tokens_high", "tokens")
    return (length > rules.max_tokens).fill_null(False)


def _rank(rules: Rules) -> pl.Expr:
    """UInt64, unique in the ledger; the smallest of a problem is chosen. Needs ``_at``, the position (or a shuffled one)."""
    if rules.policy in ("first", "random"):
        return pl.col("_at")
    length = body().cast(pl.UInt64)
    return (length if rules.policy == "shortest" else SHIFT - 1 - length) * SHIFT + pl.col("_at")


def body() -> pl.Expr:
    """Int64: tokens of the trace without its prompt, what ``shortest`` and ``longest`` rank by."""
    return (pl.col("tokens").cast(pl.Int64) - pl.col("prompt_tokens").cast(pl.Int64).fill_null(0)).clip(lower_bound=0)


def _hash(ledger: pl.DataFrame, seed: int) -> npt.NDArray[np.uint64]:
    """A number that looks random and depends on seed, source, row and item alone: splitmix64, chained over the four."""
    state = np.full(ledger.height, seed % (1 << 64), dtype=np.uint64)
    for name in ("source", "row", "item"):
        state = splitmix64(state ^ ledger[name].cast(pl.UInt64).to_numpy())
    return state


def splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The next output of splitmix64 (Steele, Lea and Flood 2014) for each state; arithmetic modulo 2**64.

    >>> hex(splitmix64(np.zeros(1, np.uint64))[0])
    '0xe220a8397b1dcdaf'
    """
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def summary(marked: pl.DataFrame) -> dict[str, Any]:
    """Count what ``mark`` did, in Python numbers: the part of ``select --json`` that the ledger knows.

    A lost problem has one reason, the last obstacle: that of its trace that came furthest along ``REASONS``. With
    ``choose_first`` that can be ``not_chosen``: a trace would have fitted, and another was chosen.
    """
    rank = pl.col("reason").to_physical()
    counts = dict(marked.group_by("reason").len().iter_rows())
    problems = (
        marked.lazy()
        .filter(pl.col("problem").is_not_null())
        .group_by("problem")
        .agg(kept=pl.col("reason").is_null().any(), last=rank.max())
        .group_by("kept", "last")
        .len()
        .collect()
    )
    lost = dict(problems.filter(~pl.col("kept")).group_by("last").agg(pl.col("len").cast(pl.Int64).sum()).iter_rows())
    kept = marked.filter(pl.col("reason").is_null())
    return {
        "traces": marked.height,
        "kept": kept.height,
        "dropped": {reason: counts.get(reason, 0) for reason in REASONS},
        "problems": int(problems["len"].cast(pl.Int64).sum()),
        "problems_kept": int(problems.filter("kept")["len"].cast(pl.Int64).sum()),
        "problems_lost": {reason: lost[i] for i, reason in enumerate(REASONS) if lost.get(i)},
        "tokens_kept": int(kept["tokens"].cast(pl.Int64).sum()),
    }
