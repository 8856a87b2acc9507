"""How traces become rows and micro-batches: plain policies, and trainers as their code has them.

``trainers.toml`` holds each trainer's rule as data, with the file and commit it follows; ``plan`` carries a rule out on token
lengths. A micro-batch is reduced to three numbers: tokens processed, real tokens, and the sum of squared attention
blocks. All shuffles are seeded, so the same lengths give the same plan.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from curate import packing
from curate.errors import CurateError, UsageError, near
from curate.packing import Ints, as_lengths

Lengths = pl.Series | Sequence[int] | npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one trainer, or one plain policy, turns traces into rows. Fields as explained at the top of trainers.toml."""

    name: str
    batching: Literal["fixed", "longest", "grouped", "bfd", "next-fit", "first-fit", "knapsack", "wrapped"]
    over: Literal["cut", "split", "drop", "refuse"]
    pad: Literal["row", "cp", "longest", "none"]
    block: Literal["own", "last", "whole"]
    order: Literal["file", "shuffled"]
    deal: Literal["rows", "in-order", "traces"]
    bound: Literal["max_length", "row"] = "max_length"
    window: int = 0
    max_items: int = 0
    multiple: int = 1
    reserve: int = 0
    flat: bool = False
    about: str = ""
    config: str = "max_length: {max_length}"
    time: str = "train 20 steps"
    repository: str = ""
    file: str = ""
    commit: str = ""
    reference: str = ""

    @property
    def source(self) -> str:
        """Where the rule was read: repository, file, commit and function, or an empty string for a plain policy."""
        return f"{self.repository} {self.file} {self.commit} ({self.reference})" if self.repository else ""


def _plain() -> dict[str, Rule]:
    whole = Rule(name="fixed", batching="fixed", over="cut", pad="row", block="whole", order="file", deal="in-order")
    batch = replace(whole, name="longest", batching="longest", pad="longest", order="shuffled")
    rows = replace(whole, name="next-fit", batching="next-fit", block="own", deal="rows")
    rules = (
        replace(whole, about="every trace padded to max_length"),
        replace(batch, about="each micro-batch padded to its longest trace"),
        replace(batch, name="grouped", batching="grouped", about="as longest, traces of like length together"),
        replace(rows, name="bfd", batching="bfd", pad="none", about="packed best fit decreasing, rows not padded"),
        replace(rows, about="packed in the data's order, rows padded to max_length"),
        replace(
            batch,
            name="wrapped",
            batching="wrapped",
            over="split",
            deal="rows",
            window=1000,
            about="joined and cut every max_length tokens within each 1,000 traces",
        ),
    )
    return {rule.name: rule for rule in rules}


PLAIN: Final = _plain()
"""The policies of ``--batching``; longest and grouped as transformers' collator and LengthGroupedSampler have them."""


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "trainers.toml").read_text(encoding="utf-8"))


def trainers() -> dict[str, Rule]:
    """The trainers known by name, each with the file and commit its rule follows."""
    return {name: Rule(name=name, **entry) for name, entry in _table().items() if name != "published"}


def published() -> list[dict[str, Any]]:
    """Published speed-ups beside what lengths predict for them: ``case``, ``predicted``, ``measured``, ``note``, ``source``."""
    return list(_table()["published"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``dp`` data-parallel groups of ``cp`` ranks that share a row; a step is ``accumulate`` micro-batches on each group."""

    micro_batch: int = 1
    accumulate: int = 1
    dp: int = 1
    cp: int = 1
    pad_to_multiple: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Micro-batches in the order in which ranks take them, Int64 ``[micro-batches]`` (``squares`` Float64), and losses."""

    tokens: Ints
    real: Ints
    squares: npt.NDArray[np.float64]
    cut: int = 0
    split: int = 0
    dropped: int = 0
    refused: int = 0
    lost_tokens: int = 0


def find_rule(batching: str | None, trainer: str | None) -> Rule:
    """The rule of a plain policy or of a trainer; names near a mistyped one are offered."""
    if batching and trainer:
        raise UsageError("--batching and --trainer both say how rows are made. Give one of them.")
    known = trainers() if trainer else PLAIN
    name = trainer or batching or "fixed"
    if name not in known:
        kind = "trainer" if trainer else "batching"
        raise CurateError(f"Unknown {kind} {name!r}.{near(name, known)} Known: {', '.join(known)}.")
    return known[name]


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is at least ``number``."""
    return -(-number // multiple) * multiple


def check(max_length: int, settings: Settings) -> None:
    for name, value in {"max_length": max_length, **asdict(settings)}.items():
        if value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value} is not possible: it must be 1 or more.")
    if max_length % settings.cp:
        raise CurateError(
            f"--cp {settings.cp} does not divide --max-length {max_length:,}: ranks that share a row take equal parts of it. "
            f"Use --max-length {round_up(max_length, settings.cp):,}, or another cp."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Rows before padding: tokens, sum of squared blocks, length of the last block; ``[rows]`` each."""

    fill: Ints
    squares: Floats
    last: Ints

    def take(self, order: Ints) -> _Rows:
        return _Rows(fill=self.fill[order], squares=self.squares[order], last=self.last[order])


def plan(values: Lengths, rule: Rule, *, max_length: int, settings: Settings | None = None, seed: int = 0) -> Plan:
    """The micro-batches ``rule`` makes of token lengths ``[traces]``, in the order in which ranks take them.

    Every token is in one micro-batch or among the losses, but for the last rows of ranks that got more than the rank with
    the fewest (``deal = "traces"``). Raises ``CurateError`` when no trace is left or some rank would get none.
    """
    settings = settings or Settings()
    check(max_length, settings)
    lengths = as_lengths(values)
    row = max_length * (settings.micro_batch if rule.flat else 1)
    capacity = row - rule.reserve
    bound = capacity if rule.bound == "row" else max_length - rule.reserve
    shuffle = np.random.default_rng(seed).permutation
    if rule.order == "shuffled" and rule.over != "drop":
        lengths = lengths[shuffle(lengths.size)]
    pieces, edges, losses = _over(lengths, rule, bound)
    if not pieces.size:
        raise CurateError(
            f"All {lengths.size:,} traces are over {bound:,} tokens and {rule.name} would {rule.over} them: the shortest has "
            f"{int(lengths.min()):,}. Raise --max-length."
        )
    if rule.order == "shuffled" and rule.over == "drop":  # dropped while preparing, before the sampler shuffles
        pieces = pieces[shuffle(pieces.size)]
    if rule.deal == "traces":
        rows = _deal_traces(pieces, capacity, settings.dp)
    elif rule.batching == "wrapped":
        rows, losses["split"] = _wrap(pieces, edges, capacity)
    elif rule.batching in ("fixed", "longest", "grouped"):
        if rule.batching == "grouped":
            pieces = _group(pieces, settings.micro_batch * settings.accumulate)
        rows = _Rows(fill=pieces, squares=pieces.astype(np.float64) ** 2, last=pieces)
    else:
        rows = _sum_rows(pieces, _pack(pieces, edges, capacity, rule))
    if rule.deal == "rows":
        rows = rows.take(np.random.default_rng(seed + 1).permutation(rows.fill.size))
    tokens, real, squares = _batches(rows, rule, settings, row)
    return Plan(tokens=tokens, real=real, squares=squares, **losses)


def _over(lengths: Ints, rule: Rule, bound: int) -> tuple[Ints, list[int], dict[str, int]]:
    """Pieces of traces that remain, the ends of each packing window among them, and what was lost."""
    long = lengths > bound
    many = int(long.sum())
    losses = {"cut": 0, "split": 0, "dropped": 0, "refused": 0, "lost_tokens": 0}
    per_trace = np.ones(lengths.size, dtype=np.int64)
    if rule.batching == "wrapped":
        pieces = lengths
    elif rule.over == "cut":
        pieces = np.minimum(lengths, bound)
        losses |= {"cut": many, "lost_tokens": int((lengths[long] - bound).sum())}
    elif rule.over == "split":
        per_trace = -(-lengths // bound)
        pieces = np.full(int(per_trace.sum()), bound, dtype=np.int64)
        pieces[np.cumsum(per_trace) - 1] = lengths - (per_trace - 1) * bound
        losses["split"] = many
    else:
        pieces, per_trace = lengths[~long], per_trace[~long]
        losses["dropped" if rule.over == "drop" else "refused"] = many
        losses["lost_tokens"] = int(lengths[long].sum())
    ends = np.cumsum(per_trace)
    window = rule.window or max(1, per_trace.size)
    edges = [0, *ends[window - 1 :: window].tolist()]
    if edges[-1] != pieces.size:
        edges.append(pieces.size)
    return pieces, edges, losses


def _group(pieces: Ints, batch: int) -> Ints:
    """Traces of like length together: mega-batches of up to 50 batches, each from long to short (LengthGroupedSampler)."""
    size = max(1, min(pieces.size // (batch * 4), 50)) * batch
    return np.concatenate([np.sort(pieces[at : at + size])[::-1] for at in range(0, pieces.size, size)])


def _wrap(pieces: Ints, edges: list[int], capacity: int) -> tuple[_Rows, int]:
    """Rows of joined traces, each one attention block, and how many traces a row's end falls into."""
    parts, split = [], 0
    for start, stop in pairwise(edges):
        ends = np.cumsum(pieces[start:stop])
        split += int(((ends - 1) // capacity != (ends - pieces[start:stop]) // capacity).sum())
        total = int(ends[-1])
        parts.append(np.minimum(capacity, total - np.arange(0, total, capacity)))
    fill = np.concatenate(parts)
    return _Rows(fill=fill, squares=fill.astype(np.float64) ** 2, last=fill), split


def _pack(pieces: Ints, edges: list[int], capacity: int, rule: Rule) -> Ints:
    if rule.batching == "bfd" and not rule.window:
        row_of = packing.pack(pieces, capacity).row_of
        assert row_of is not None  # pack assigns by default
        return row_of
    packers: dict[str, Callable[[Ints, int], Ints]] = {
        "bfd": packing.best_fit,
        "next-fit": packing.next_fit,
        "first-fit": partial(packing.first_fit, max_items=rule.max_items),
        "knapsack": packing.knapsack,
    }
    return packing.in_windows(pieces, capacity, edges, packers[rule.batching])


def _sum_rows(pieces: Ints, row_of: Ints) -> _Rows:
    fill = np.bincount(row_of, weights=pieces).astype(np.int64)
    squares = np.bincount(row_of, weights=pieces.astype(np.float64) ** 2).astype(np.float64)
    last = np.zeros(fill.size, dtype=np.int64)
    last[row_of] = pieces  # of several values for one row NumPy keeps the last, which is the row's last trace
    return _Rows(fill=fill, squares=squares, last=last)


def _deal_traces(pieces: Ints, capacity: int, dp: int) -> _Rows:
    """Trace i to rank i % dp, each rank packs its own; rows interleaved, cut to the rank with the fewest."""
    if pieces.size < dp:
        raise CurateError(f"--dp {dp} is more than the {pieces.size:,} traces: some ranks would have none. Lower --dp.")
    ranks = [_sum_rows(own, packing.next_fit(own, capacity)) for own in (pieces[rank::dp] for rank in range(dp))]
    fewest = min(rows.fill.size for rows in ranks)
    return _Rows(
        fill=np.stack([rows.fill[:fewest] for rows in ranks], axis=1).ravel(),
        squares=np.stack([rows.squares[:fewest] for rows in ranks], axis=1).ravel(),
        last=np.stack([rows.last[:fewest] for rows in ranks], axis=1).ravel(),
    )


def _batches(rows: _Rows, rule: Rule, settings: Settings, row: int) -> tuple[Ints, Ints, Floats]:
    """Pad rows and join them to micro-batches: tokens, real tokens and squares of each."""
    size = 1 if rule.flat else settings.micro_batch
    fill, squares = rows.fill, rows.squares
    starts = np.arange(0, fill.size, size)
    multiple = lcm(rule.multiple, settings.pad_to_multiple, settings.cp)
    real = np.add.reduceat(fill, starts)
    if rule.pad == "none":  # flattened into one row, so padding comes once
        tokens = -(-real // multiple) * multiple
        return tokens, real, np.add.reduceat(squares, starts) + (tokens - real) ** 2.0
    if rule.pad == "row":
        goal = np.full(fill.size, round_up(row, rule.multiple), dtype=np.int64)
    elif rule.pad == "cp":
        goal = -(-fill // settings.cp) * settings.cp
    else:
        longest = -(-np.maximum.reduceat(fill, starts) // multiple) * multiple
        goal = np.repeat(longest, np.diff(np.append(starts, fill.size)))
    pad = (goal - fill).astype(np.float64)
    if rule.block == "whole":
        squares = goal.astype(np.float64) ** 2
    elif rule.block == "last":
        squares = squares + (rows.last + pad) ** 2 - rows.last.astype(np.float64) ** 2
    else:
        squares = squares + pad**2
    return np.add.reduceat(goal, starts), real, np.add.reduceat(squares, starts)


def configuration(rule: Rule, max_length: int) -> str:
    """One line of configuration for the trainer, with the bound filled in."""
    return rule.config.format(max_length=max_length)
