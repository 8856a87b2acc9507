"""Packing token lengths into rows of a fixed capacity: best fit decreasing over the histogram, and what trainers do instead.

``pack`` works on the histogram: all equal lengths go into all equally full rows at once, so its cost follows the number of
distinct lengths, not of traces (a million lengths at 32,768: some 0.3 s for counts, 2 s with the assignment). It leaves the
same rows and the same fills as best fit decreasing item by item ("Fewer Truncations Improve Language Modeling", appendix
B), within 0.02 % of the lower bound on long inputs: an exact solver has nothing left to gain. The other functions pack
as named trainers do; they are worse on purpose.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.errors import CurateError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Rows of at most ``capacity`` tokens that hold every token once.

    ``fills``: Int64 ``[rows]``, tokens in each row; by row number where ``row_of`` is known, else ascending.
    ``row_of``: Int64 ``[traces]``, the row of each trace in input order, or None for counts only.
    """

    capacity: int
    rows: int
    tokens: int
    fills: Ints
    row_of: Ints | None

    @property
    def bound(self) -> int:
        """The fewest rows any packing can have by its tokens alone: ceil(tokens / capacity)."""
        return -(-self.tokens // self.capacity)

    @property
    def waste(self) -> float:
        """Share of the rows' room that stays empty, 0 to 1."""
        return 1 - self.tokens / (self.rows * self.capacity)


def as_lengths(values: pl.Series | Sequence[int] | npt.NDArray[Any]) -> Ints:
    """Token lengths as a contiguous Int64 array ``[traces]``, refused when empty, null, fractional or below one."""
    if isinstance(values, pl.Series) and values.null_count():
        raise CurateError(
            f"{values.null_count():,} of {len(values):,} lengths are null: these traces were not counted or are blank. "
            "Leave them out (`curate select` marks them bad_row), then ask again."
        )
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise CurateError("There are no lengths: no trace is left to batch. Loosen the selection, or name another source.")
    if array.dtype.kind not in "iu":
        raise CurateError(f"Lengths must be whole numbers of tokens, not {array.dtype}. Count first: `curate count SOURCE`.")
    short = np.flatnonzero(array < 1)
    if short.size:
        raise CurateError(
            f"{short.size:,} of {array.size:,} lengths are below one token, the first at position {short[0]:,}: a trace "
            "without text cannot be trained on. Drop these traces (`curate select` does), then ask again."
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def pack(values: pl.Series | Sequence[int] | npt.NDArray[Any], capacity: int, *, assign: bool = True) -> Packing:
    """Best fit decreasing of ``values`` (tokens) into rows of ``capacity`` tokens.

    ``assign=False`` gives rows and fills only and is several times faster. Raises ``CurateError`` when a length is below
    one or above ``capacity``.

    >>> pack([6, 5, 4, 3, 2], 10).fills.tolist()
    [10, 10]
    """
    lengths = as_lengths(values)
    _refuse_long(lengths, capacity)
    counts = np.bincount(lengths, minlength=1)
    tokens = int(lengths.sum())
    rows, fills, placements = _fill(counts, capacity, assign)
    if not assign:
        return Packing(capacity=capacity, rows=rows, tokens=tokens, fills=fills, row_of=None)
    # A stable sort of 16-bit keys is a radix sort: four times faster at ten million lengths.
    keys = (capacity - lengths).astype(np.uint16 if capacity < 1 << 16 else np.uint32)
    order = np.argsort(keys, kind="stable")
    starts, many, each = np.array(placements, dtype=np.int64).reshape(-1, 3).T
    ends = np.cumsum(many)
    rows_used = np.repeat(starts - (ends - many), many) + np.arange(int(ends[-1]))
    ordered = np.repeat(rows_used, np.repeat(each, many))
    row_of = np.empty(lengths.size, dtype=np.int64)
    row_of[order] = ordered
    fills = np.bincount(row_of, weights=lengths, minlength=rows).astype(np.int64)
    return Packing(capacity=capacity, rows=rows, tokens=tokens, fills=fills, row_of=row_of)


def _refuse_long(lengths: Ints, capacity: int) -> None:
    longest = int(lengths.max())
    if capacity < int(lengths.min()):
        raise CurateError(
            f"Rows of {capacity:,} tokens hold none of the {lengths.size:,} traces: the shortest has {int(lengths.min()):,}. "
            f"The longest has {longest:,}: take at least that."
        )
    if longest > capacity:
        over = int((lengths > capacity).sum())
        raise CurateError(
            f"{over:,} of {lengths.size:,} traces are over the row of {capacity:,} tokens (the longest has {longest:,}). "
            f"Drop them first (`curate select --max-tokens {capacity}`), or take rows of {longest:,}."
        )


def _fill(counts: Ints, capacity: int, assign: bool) -> tuple[int, Ints, list[int]]:
    """Rows, fills (ascending) and placements (first row, rows, items in each, flat) for items from long to short.

    A row is open under its free room; ``keys`` are the rooms in use, ascending. Equal items always go to the same room
    until it is too small, so ``room // length`` items go to each of many equal rows in one step.
    """
    keys: list[int] = []
    open_rows: dict[int, list[list[int]]] = {}
    placements: list[int] = []
    rows = full = 0
    for length in np.flatnonzero(counts)[::-1].tolist():
        left = int(counts[length])
        while left:
            at = bisect.bisect_left(keys, length)
            fresh = at == len(keys)
            room = capacity if fresh else keys[at]
            available, start = (left, rows) if fresh else open_rows[room][-1]
            each = room // length
            many = min(available, left // each)
            if not many:
                many, each = 1, left  # the last of this length share one row
            left -= many * each
            if assign:
                placements += (start, many, each)
            if fresh:
                rows += many
            elif many == available:
                open_rows[room].pop()
                if not open_rows[room]:
                    del open_rows[room]
                    del keys[at]
            else:
                open_rows[room][-1] = [available - many, start + many]
            rest = room - each * length
            if not rest:
                full += many
            elif rest not in open_rows:
                open_rows[rest] = [[many, start]]
                bisect.insort(keys, rest)
            elif assign:
                open_rows[rest].append([many, start])
            else:
                open_rows[rest][0][0] += many  # without row numbers equal rows are one heap
    levels = np.array([*(capacity - key for key in reversed(keys)), capacity], dtype=np.int64)
    sizes = np.array([*(sum(part[0] for part in open_rows[key]) for key in reversed(keys)), full], dtype=np.int64)
    return rows, np.repeat(levels, sizes), placements


def lower_bound(values: pl.Series | Sequence[int] | npt.NDArray[Any], capacity: int) -> int:
    """No packing has fewer rows: the better of ceil(tokens / capacity) and Martello and Toth's L2 over 65 thresholds.

    L2 matters where most items exceed half a row (two of them never share one).
    """
    lengths = as_lengths(values)
    best = -(-int(lengths.sum()) // capacity)
    half = lengths * 2 > capacity
    for threshold in np.unique(np.linspace(0, capacity // 2, 65, dtype=np.int64)).tolist():
        alone = lengths > capacity - threshold
        big = ~alone & half
        small = ~half & (lengths >= threshold)
        room = int(big.sum()) * capacity - int(lengths[big].sum())
        extra = max(0, int(lengths[small].sum()) - room)
        best = max(best, int(alone.sum()) + int(big.sum()) - (-extra // capacity))
    return best


def best_fit(lengths: Ints, capacity: int) -> Ints:
    """Best fit decreasing item by item: the row of each trace. Among equal rooms the one that has waited longest.

    This is the order in which TRL's packer takes rows (a first-in first-out queue for each room); cheaper than ``pack``
    below some ten thousand traces, where a histogram saves nothing.
    """
    row_of = np.empty(lengths.size, dtype=np.int64)
    rooms: list[tuple[int, int, int]] = []
    rows = 0
    order = np.argsort(-lengths, kind="stable")
    for turn, (index, length) in enumerate(zip(order.tolist(), lengths[order].tolist(), strict=True)):
        at = bisect.bisect_left(rooms, (length,))
        if at < len(rooms):
            room, _, row = rooms.pop(at)
        else:
            room, row = capacity, rows
            rows += 1
        row_of[index] = row
        if room > length:
            bisect.insort(rooms, (room - length, turn, row))
    return row_of


def first_fit(lengths: Ints, capacity: int, *, max_items: int = 0) -> Ints:
    """First fit in the order given, at most ``max_items`` to a row (0: any number): the row of each trace.

    A segment tree over rows holds the largest room below each node, so a trace costs log2(rows) steps.
    """
    size = 64
    tree = [capacity] * (2 * size)
    held = [0] * lengths.size
    row_of = np.empty(lengths.size, dtype=np.int64)
    for index, length in enumerate(lengths.tolist()):
        if tree[1] < length:
            tree = _grow(tree, capacity)
            size *= 2
        at = 1
        while at < size:
            at *= 2
            if tree[at] < length:
                at += 1
        row = at - size
        row_of[index] = row
        held[row] += 1
        tree[at] = 0 if held[row] == max_items else tree[at] - length
        at >>= 1
        while at:
            largest = max(tree[2 * at], tree[2 * at + 1])
            if tree[at] == largest:
                break
            tree[at] = largest
            at >>= 1
    return row_of


def _grow(tree: list[int], capacity: int) -> list[int]:
    size = len(tree)
    grown = [0] * size + tree[size // 2 :] + [capacity] * (size // 2)
    for at in range(size - 1, 0, -1):
        grown[at] = max(grown[2 * at], grown[2 * at + 1])
    return grown


def next_fit(lengths: Ints, capacity: int) -> Ints:
    """Next fit in the order given: a trace that does not fit closes the row. The row of each trace."""
    rows = []
    row = used = 0
    for length in lengths.tolist():
        if used + length > capacity:
            row, used = row + 1, 0
        used += length
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def knapsack(lengths: Ints, capacity: int) -> Ints:
    """Fill one row after the other with the longest trace that still fits: the row of each trace."""
    order = np.argsort(lengths, kind="stable")
    waiting, indices = lengths[order].tolist(), order.tolist()
    row_of = np.empty(lengths.size, dtype=np.int64)
    row = 0
    while waiting:
        room = capacity
        while at := bisect.bisect_right(waiting, room):
            room -= waiting.pop(at - 1)
            row_of[indices.pop(at - 1)] = row
        row += 1
    return row_of


def in_windows(lengths: Ints, capacity: int, edges: Sequence[int], packer: Callable[[Ints, int], Ints]) -> Ints:
    """Apply ``packer`` between consecutive ``edges`` on their own, rows numbered on: the row of each trace."""
    parts = []
    rows = 0
    for start, stop in pairwise(edges):
        part = packer(lengths[start:stop], capacity) + rows
        rows = int(part.max()) + 1
        parts.append(part)
    return np.concatenate(parts)
