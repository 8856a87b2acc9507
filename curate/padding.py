"""What lengths cost before any GPU is rented: padding, ranks that wait, traces cut, and what would remove it.

From token lengths alone. ``audit`` simulates how a trainer makes rows (``trainers.toml`` holds each rule with the file and
commit it follows) and weighs the work of that policy against a few others; ``advise`` names the smallest bound that cuts
nothing. A micro-batch is reduced to three numbers: tokens processed, real tokens, and the sum of squared attention
blocks; its forward work is ``linear * tokens + quadratic * squares``. Passes, recomputation and batch size multiply both
terms alike, so they cancel in every ratio printed. A step costs what its slowest rank costs, micro-batch by micro-batch,
as FSDP and ZeRO run. Published cases came out at 0.9 to 1.4 times these ratios: a range is printed, never one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from curate import packing
from curate.batching import PLAIN, Lengths, Plan, Rule, Settings, check, find_rule, plan, published, round_up
from curate.errors import CurateError, UsageError
from curate.packing import Ints, as_lengths

PUBLISHED_RANGE: Final = (0.9, 1.4)
"""Measured over predicted by tokens in the published cases of trainers.toml: 0.91, 1.04, 1.28 and 1.38 (at its middle, 4.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Forward operations of a model: ``linear`` per token, ``quadratic`` per squared token of a causal block."""

    linear: float
    quadratic: float
    name: str


QWEN25_3B: Final = Cost(linear=6_171_918_336.0, quadratic=147_456.0, name="qwen2.5-3b")
"""36 layers, hidden 2,048, 16 heads of 128, 2 KV heads, FFN 11,008, vocabulary 151,936, head included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy on these lengths, over one epoch.

    ``padding``: share of processed tokens. ``imbalance``: cost of the slowest rank over the mean, mean over steps.
    ``per_real``: tokens processed for each real one. ``causal``, ``dense``: operations for each real token with ranks in
    step, attention skipping what the mask hides, or not.
    """

    policy: str
    max_length: int
    micro_batches: int
    steps: int
    real_tokens: int
    processed_tokens: int
    padding: float
    tokens_per_step_and_rank: float
    imbalance: float
    imbalance_tokens: float
    cut: int
    split: int
    dropped: int
    refused: int
    lost_tokens: int
    per_real: float
    causal: float
    dense: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """How many times less work a policy is than the one in use, for each real token."""

    tokens: float
    causal: float
    dense: float

    @property
    def low(self) -> float:
        return min(self.tokens, self.causal, self.dense)

    @property
    def high(self) -> float:
        return max(self.tokens, self.causal, self.dense)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Bounds for these lengths, in tokens, rounded up to ``multiple``; ``cuts_*`` are traces over the bound."""

    multiple: int
    longest: int
    lossless: int
    for_999: int
    cuts_999: int
    for_99: int
    cuts_99: int
    padding_lossless: float
    row: int
    row_waste: float

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The policy in use, others beside it, and advice. ``removed(run)`` compares; ``json()`` holds Python scalars only."""

    traces: int
    tokens: int
    mean: float
    p50: int
    p90: int
    p99: int
    longest: int
    utilisation: float
    rule: Rule
    settings: Settings
    cost: Cost
    use: Run
    others: tuple[Run, ...]
    advice: Advice

    def removed(self, run: Run) -> Removed:
        """Work of the policy in use over work of ``run``, for each real token; above 1 means ``run`` is cheaper."""
        use = self.use
        return Removed(tokens=use.per_real / run.per_real, causal=use.causal / run.causal, dense=use.dense / run.dense)

    def json(self) -> dict[str, Any]:
        removed = {run.policy: asdict(self.removed(run)) for run in self.others}
        keep = {name: getattr(self, name) for name in ("traces", "tokens", "mean", "p50", "p90", "p99", "longest")}
        return {
            **keep,
            "utilisation": self.utilisation,
            "policy": {"name": self.rule.name, "about": self.rule.about, "source": self.rule.source},
            "settings": asdict(self.settings),
            "model": self.cost.name,
            "use": asdict(self.use),
            "others": [asdict(run) | {"removed": removed[run.policy]} for run in self.others],
            "advice": self.advice.json(),
            "published_range": list(PUBLISHED_RANGE),
            "published": published(),
        }


def lengths_of(ledger: pl.DataFrame) -> pl.Series:
    """Tokens (UInt32) of the traces to train on, in the order of source, row and item.

    Traces with a reason were not kept by ``select`` and those without a length are blank: both are left out. A ledger that
    was never selected from has no reasons, so all its counted traces are taken.
    """
    kept = ledger.filter(pl.col("tokens").is_not_null())
    if "reason" in ledger.columns:
        kept = kept.filter(pl.col("reason").is_null())
    return kept.sort("source", "row", "item")["tokens"]


def audit(
    values: Lengths,
    *,
    max_length: int,
    batching: str | None = None,
    trainer: str | None = None,
    micro_batch: int = 1,
    accumulate: int = 1,
    dp: int = 1,
    cp: int = 1,
    pad_to_multiple: int = 1,
    cost: Cost = QWEN25_3B,
    also: Sequence[int] = (),
    seed: int = 0,
) -> Audit:
    """Simulate a policy on token lengths ``[traces]`` in row order and weigh others against it.

    ``batching`` names a plain policy (default fixed), ``trainer`` a known trainer; not both. ``cost`` weighs attention
    against the rest; ``also`` names more bounds for the same policy. The same lengths and ``seed`` give the same numbers.
    Raises ``CurateError`` for settings that no run can have (cp that does not divide the row, more ranks than
    micro-batches) and for a bound that leaves no trace.
    """
    rule = find_rule(batching, trainer)
    settings = Settings(micro_batch=micro_batch, accumulate=accumulate, dp=dp, cp=cp, pad_to_multiple=pad_to_multiple)
    for bound in (max_length, *also):
        check(bound, settings)
    lengths = as_lengths(values)
    use = measure(
        plan(lengths, rule, max_length=max_length, settings=settings, seed=seed),
        rule.name,
        max_length=max_length,
        settings=settings,
        cost=cost,
    )
    advice = advise(lengths, at_most=max_length)
    # An alternative has to keep cp: its bound stays a multiple.
    lossless = round_up(advice.lossless, settings.cp)
    choices = [(PLAIN[name], max_length) for name in ("longest", "grouped", "bfd") if name != rule.name]
    bounds = {*also, lossless} if rule.batching == "fixed" and lossless < max_length else set(also)
    choices = [*((rule, bound) for bound in sorted(bounds - {max_length}, reverse=True)), *choices]
    if micro_batch == 1:
        choices = [choice for choice in choices if choice[0].name != "grouped"]  # nothing to group
    others = []
    for other, bound in choices:
        batches = plan(lengths, other, max_length=bound, settings=settings, seed=seed)
        if batches.tokens.size >= dp * accumulate:
            name = other.name if bound == max_length else f"{other.name} at {bound:,}"
            others.append(measure(batches, name, max_length=bound, settings=settings, cost=cost))
    ranked = np.sort(lengths)
    return Audit(
        traces=lengths.size,
        tokens=int(lengths.sum()),
        mean=float(lengths.mean()),
        p50=_rank(ranked, 50, 100),
        p90=_rank(ranked, 90, 100),
        p99=_rank(ranked, 99, 100),
        longest=int(ranked[-1]),
        utilisation=float(np.minimum(lengths, max_length).mean()) / max_length,
        rule=rule,
        settings=settings,
        cost=cost,
        use=use,
        others=tuple(others),
        advice=advice,
    )


def advise(values: Lengths, *, multiple: int = 128, at_most: int | None = None) -> Advice:
    """The smallest bounds that cut nothing, 0.1 % and 1 % of the traces, and the packed row that wastes least.

    Rows tried: the lossless bound and the three powers of two from the longest trace on; of those within 0.1 % of the least
    waste the shortest is named, because a longer row costs memory and attention and gains nothing. None is longer than ``at_most``,
    the bound in use: it is there because no more fits; traces over it are left out of the packing then.
    """
    lengths = as_lengths(values)
    if multiple < 1:
        raise UsageError(f"A bound cannot be rounded to a multiple of {multiple}. Use 1 or more.")
    ranked = np.sort(lengths)
    longest = int(ranked[-1])
    bounds = {part: round_up(_rank(ranked, part, 1000), multiple) for part in (1000, 999, 990)}
    power = 1 << (longest - 1).bit_length()
    rows = sorted(r for r in {bounds[1000], power, 2 * power, 4 * power} if at_most is None or r <= at_most) or [at_most or longest]
    fitting = lengths[lengths <= rows[0]]
    waste = {row: packing.pack(fitting, row, assign=False).waste if len(fitting) else 0.0 for row in rows}
    row = next(row for row in rows if waste[row] <= min(waste.values()) + 0.001)
    return Advice(
        multiple=multiple,
        longest=longest,
        lossless=bounds[1000],
        for_999=bounds[999],
        cuts_999=int((lengths > bounds[999]).sum()),
        for_99=bounds[990],
        cuts_99=int((lengths > bounds[990]).sum()),
        padding_lossless=1 - float(lengths.mean()) / bounds[1000],
        row=row,
        row_waste=waste[row],
    )


def _rank(ranked: Ints, part: int, whole: int) -> int:
    """Nearest-rank percentile in integer arithmetic: the value at ceil(part / whole * n)."""
    return int(ranked[max(0, -(-part * ranked.size // whole) - 1)])


def measure(batches: Plan, name: str, *, max_length: int, settings: Settings, cost: Cost = QWEN25_3B) -> Run:
    """Padding, steps, imbalance and work of a plan. Micro-batch i goes to rank i % dp; a last part step is left out of the
    per-step figures and of the work, as trainers that drop the last batch do."""
    tokens, real = batches.tokens, batches.real
    wide = settings.dp * settings.accumulate
    steps = tokens.size // wide
    if not steps:
        raise CurateError(
            f"{name} makes {tokens.size:,} micro-batches, fewer than one step of dp {settings.dp} x accumulate "
            f"{settings.accumulate} = {wide:,}. Lower --dp, --accumulate or --micro-batch."
        )
    shape = (steps, settings.accumulate, settings.dp)
    used = tokens[: steps * wide].reshape(shape)
    squares = batches.squares[: steps * wide].reshape(shape)
    causal = cost.linear * used + cost.quadratic * squares
    dense = cost.linear * used + 2 * cost.quadratic * squares
    real_used = float(real[: steps * wide].sum())
    by_rank, cost_by_rank = used.sum(axis=1), causal.sum(axis=1)
    return Run(
        policy=name,
        max_length=max_length,
        micro_batches=tokens.size,
        steps=steps,
        real_tokens=int(real.sum()),
        processed_tokens=int(tokens.sum()),
        padding=1 - float(real.sum()) / float(tokens.sum()),
        tokens_per_step_and_rank=float(by_rank.mean()) / settings.cp,
        imbalance=float((cost_by_rank.max(axis=1) / cost_by_rank.mean(axis=1)).mean()),
        imbalance_tokens=float((by_rank.max(axis=1) / by_rank.mean(axis=1)).mean()),
        cut=batches.cut,
        split=batches.split,
        dropped=batches.dropped,
        refused=batches.refused,
        lost_tokens=batches.lost_tokens,
        per_real=float(tokens.sum()) / float(real.sum()),
        causal=float(causal.max(axis=2).sum()) * settings.dp / real_used,
        dense=float(dense.max(axis=2).sum()) * settings.dp / real_used,
    )
