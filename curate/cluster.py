"""Ray as the machines that read: ``decide`` and ``copy`` run there stretch by stretch, everything else here (extra ``[ray]``).

A task names a stretch by its number; the worker opens the sources itself, so the files must lie where every machine sees them under the
same path. Lost workers are retried, and results are taken in the order of the stretches, so the bytes are those of one machine.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from curate import engine, opening, output, stretches
from curate.engine import Decided, How, Keep, Numbers, Progress, Source
from curate.errors import CurateError
from curate.opening import Request
from curate.settling import Tally
from curate.stretches import Stretch

RETRIES: Final = 3


class Cluster:
    """Workers of a Ray cluster: the one at ``RAY_ADDRESS``, else a new one on this machine.

    Raises:
        CurateError: ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, request: Request) -> None:
        try:
            import ray
        except ImportError:
            raise CurateError("--engine ray needs ray. Install it with: pip install 'trace-curate[ray]'") from None
        self.ray: Any = ray
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first is raised here, in a sentence
        if not ray.is_initialized():
            try:
                ray.init(
                    address=os.environ.get("RAY_ADDRESS"), log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR
                )
            except (ConnectionError, RuntimeError) as e:
                raise CurateError(f"The Ray cluster cannot be reached: {str(e).splitlines()[0]}") from None
        whole = replace(request, sources=tuple(_absolute(s) for s in request.sources))
        self.request = ray.put(pickle.dumps(whole))
        self.decide_task = ray.remote(max_retries=RETRIES)(decide_stretch)
        self.copy_task = ray.remote(max_retries=RETRIES)(copy_stretch)

    def decide(
        self,
        number: int,
        source: Source,
        plan: Sequence[Stretch],
        how: How,
        *,
        chosen: Numbers | None,
        keep: Keep | None,
        progress: Progress | None,
    ) -> Iterator[Decided]:
        """See ``engine.Decider``; nothing is put aside."""
        del how, keep
        tasks = [(s, (self.request, number, (s.number, stretches.STRETCH_BYTES), chosen)) for s in plan]
        for stretch, (frame, tally) in self._mapped(self.decide_task, tasks, source):
            if progress is not None:
                progress(stretch.rows)
            yield Decided(stretch, frame, tally)

    def copy(self, shape: output.Shape, number: int, source: Source, kept: pl.DataFrame) -> Iterator[pa.Table]:
        """See ``output.Copier``."""
        tasks = []
        for stretch in stretches.cut(source.table):
            mine = kept.filter(pl.col("row").is_between(stretch.row, stretch.row + stretch.rows, closed="left"))
            if mine.height:
                place = (stretch.number, stretches.STRETCH_BYTES)
                tasks.append((stretch, (self.request, number, place, mine, shape.names, shape.style, shape.columns)))
        for _, (tables, rewritten) in self._mapped(self.copy_task, tasks, source):
            shape.changes.append(rewritten)
            yield from tables
        engine.unchanged(source, list(source.stamps))

    def _mapped(self, task: Any, tasks: Sequence[tuple[Stretch, tuple[Any, ...]]], source: Source) -> Iterator[tuple[Stretch, Any]]:
        """Results in order, with as many tasks under way as twice the processors of the cluster."""
        waiting, under_way = deque(tasks), deque[tuple[Stretch, Any]]()
        most = max(2, int(2 * dict(self.ray.cluster_resources()).get("CPU", 1)))
        while waiting or under_way:
            while waiting and len(under_way) < most:
                stretch, arguments = waiting.popleft()
                under_way.append((stretch, task.remote(*arguments)))
            stretch, reference = under_way.popleft()
            try:
                found = self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as e:
                raise CurateError(f"In {_named(source, stretch)}: {e.cause}") from None
            except self.ray.exceptions.RayError as e:
                raise CurateError(
                    f"The workers that read {_named(source, stretch)} were lost {RETRIES + 1} times: {str(e).splitlines()[0]} "
                    "Give them more memory, or fewer processors each."
                ) from None
            yield stretch, found


def _named(source: Source, stretch: Stretch) -> str:
    files = stretch.files
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    return f"{source.name}, rows {stretch.row:,} to {stretch.row + stretch.rows - 1:,} ({files[0] if files else source.name}{more})"


def _absolute(spec: str) -> str:
    """A path as every worker finds it, whatever its working directory; other SOURCEs as they are."""
    return spec if "://" in spec or not (Path(spec).exists() or any(c in spec for c in "*?[")) else str(Path(spec).absolute())


@lru_cache(maxsize=4)
def _opened(pickled: bytes) -> tuple[tuple[Source, ...], How]:
    """The sources of a request and how they are counted, once in the life of a worker."""
    request: Request = pickle.loads(pickled)
    found = [opening.open_one(s, request, note=_silent).source for s in request.sources]
    sources = tuple(s for s in found if s is not None)
    return sources, opening.how(request, sources, note=_silent)


def _stretch(source: Source, place: tuple[int, int]) -> Stretch:
    """A stretch by its number, cut as it was where the work was planned."""
    number, stored = place
    return stretches.cut(source.table, stored=stored)[number]


def _silent(text: str) -> None:
    del text


def decide_stretch(request: bytes, number: int, place: tuple[int, int], chosen: Numbers | None) -> tuple[pl.DataFrame, Tally]:
    """The part of the ledger of one stretch, on a worker."""
    sources, how = _opened(request)
    source = sources[number]
    (part,) = engine.decided(number, source, [_stretch(source, place)], how, chosen=chosen)
    engine.unchanged(source, part.stretch.files)
    return part.ledger, part.tally


def copy_stretch(
    request: bytes, number: int, place: tuple[int, int], kept: pl.DataFrame, names: list[str], style: Any, columns: tuple[str, ...]
) -> tuple[list[pa.Table], int]:
    """The output rows of one stretch's kept traces, on a worker, and how many of them were rewritten."""
    sources, _ = _opened(request)
    shape = output.Shape(sources, kept, names, style, columns)
    plan = [_stretch(sources[number], place)]
    tables = list(output.copied(shape, number, sources[number], kept, plan=plan))
    return tables, shape.rewritten
