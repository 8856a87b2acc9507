"""How a source is cut for work: stretches that are done or not done, bundles of small tasks, several threads with results in order.

A stretch is what a stopped run loses at most, what the cache keeps, and what one machine of several does. A bundle is what one thread
reads in one go: ten thousand files of three rows cost as little a row as one file of thirty thousand.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl

from curate.sources import BATCH_BYTES, Rows, Table, Task

STRETCH_BYTES: Final = 128 << 20
"""Stored bytes after which a stretch ends: a few seconds of work; a quarter of it is enough where a file ends."""

BUNDLE_BYTES: Final = 2 << 20
"""Stored bytes after which a bundle ends: text unpacks to about four times that, one batch."""

BUNDLE_TASKS: Final = 512
WORKERS: Final = max(1, min(4, os.cpu_count() or 1))
AHEAD: Final = 1
_END: Final = object()

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tasks of a source: their place among its stretches, their first row and their number of rows."""

    number: int
    row: int
    rows: int
    bundles: tuple[tuple[Task, ...], ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that its rows lie in."""
        return tuple(Path(f) for f in dict.fromkeys(t.file for b in self.bundles for t in b))


def cut(table: Table, *, stored: int | None = None) -> tuple[Stretch, ...]:
    """A source's stretches, in order, of about ``stored`` bytes each; they depend on its files alone."""
    size, most = _sizes(table), stored or STRETCH_BYTES
    made: list[Stretch] = []
    bundles: list[tuple[Task, ...]] = []
    held: list[Task] = []
    bundle, stretch = 0.0, 0.0

    def close_bundle() -> None:
        nonlocal bundle, stretch
        if held:
            bundles.append(tuple(held))
            held.clear()
            stretch, bundle = stretch + bundle, 0.0

    def close() -> None:
        nonlocal stretch
        close_bundle()
        if bundles:
            rows = sum(t.rows for b in bundles for t in b)
            made.append(Stretch(len(made), bundles[0][0].row, rows, tuple(bundles)))
            bundles.clear()
            stretch = 0.0

    for task, after in itertools.zip_longest(table.tasks, table.tasks[1:]):
        held.append(task)
        bundle += size(task)
        if bundle >= BUNDLE_BYTES or len(held) >= BUNDLE_TASKS:
            close_bundle()
        ends = after is None or after.file != task.file
        if stretch + bundle >= (most / 4 if ends else most):
            close()
    close()
    return tuple(made)


def share(plan: Sequence[Stretch], i: int, n: int) -> tuple[Stretch, ...]:
    """The i-th (from 1) of n shares of a plan: consecutive stretches, of about as many rows as the others'."""
    total, at, mine = sum(s.rows for s in plan), 0, []
    for stretch in plan:
        if (i - 1) * total <= (at + stretch.rows / 2) * n < i * total:
            mine.append(stretch)
        at += stretch.rows
    return tuple(mine)


def _sizes(table: Table) -> Callable[[Task], float]:
    """Stored bytes of a task: its rows' share of its file."""
    rows: collections.Counter[str] = collections.Counter()
    for task in table.tasks:
        rows[task.file] += task.rows
    size: dict[str, int] = {}
    for file in rows:
        try:
            size[file] = Path(file).stat().st_size
        except OSError:
            size[file] = 0
    return lambda task: size[task.file] * task.rows / max(1, rows[task.file])


def frames(tasks: Sequence[Task], columns: Sequence[str]) -> Iterator[Rows]:
    """The rows of a bundle as frames of a few megabytes; small ones are put together."""
    if len(tasks) == 1:
        yield from tasks[0].frames(columns)
        return
    held: list[Rows] = []
    size = 0.0
    for task in tasks:
        for found in task.frames(columns):
            large = found.frame.estimated_size() >= BATCH_BYTES // 2
            if held and large:
                yield _joined(held)
                held, size = [], 0
            held.append(found)
            size += found.frame.estimated_size()
            del found
            if size >= BATCH_BYTES // 2:
                yield held.pop() if large else _joined(held)
                held, size = [], 0
    if held:
        yield _joined(held)


def pieces(found: Rows) -> Iterator[Rows]:
    """The same rows in slices of about ``BATCH_BYTES``: what is made of their texts on the way is as small."""
    size = max(1, int(found.rows * BATCH_BYTES / max(1, found.frame.estimated_size())))
    if size >= found.rows:
        yield found
        return
    for at in range(0, found.rows, size):
        yield Rows(found.row + at, min(size, found.rows - at), found.frame.slice(at, size))


def _joined(held: Sequence[Rows]) -> Rows:
    rows = sum(r.rows for r in held)
    frames = [r.frame.head(r.rows) for r in held]
    return Rows(held[0].row, rows, pl.concat(frames, how="vertical_relaxed", rechunk=True))


def streamed(work: Callable[[_In], Iterator[_Out]], tasks: Sequence[_In], *, workers: int | None = None) -> Iterator[_Out]:
    """What ``work`` yields for each task, in the tasks' order, from several threads.

    A thread that is ahead waits: at most ``AHEAD`` results of a task are held, so memory stays flat however large a task is.
    """
    stop = threading.Event()
    queues: collections.deque[queue.Queue[Any]] = collections.deque()
    workers = workers or WORKERS

    def put(q: queue.Queue[Any], item: Any) -> bool:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                q.put(item, timeout=0.1)
                return True
        return False

    def run(task: _In, q: queue.Queue[Any]) -> None:
        try:
            for item in work(task):
                if not put(q, (item, None)):
                    return
            put(q, (_END, None))
        except BaseException as e:
            put(q, (_END, e))

    with ThreadPoolExecutor(workers) as pool:
        waiting = iter(tasks)

        def start(n: int) -> None:
            for task in itertools.islice(waiting, n):
                queues.append(queue.Queue(AHEAD))
                pool.submit(run, task, queues[-1])

        try:
            start(workers + 1)
            while queues:
                item, fault = queues[0].get()
                if fault is not None:
                    raise fault
                if item is _END:
                    queues.popleft()
                    start(1)
                else:
                    yield item
        finally:
            stop.set()
