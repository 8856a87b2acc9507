"""From batches of traces to a file of verdicts: what is known is not judged again, what is judged is kept at once.

Code where the source has tests, mathematics where it has reference answers. Two traces of the same text and tests are judged once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import polars as pl

from curate.errors import CurateError, near
from curate.judge_code import MEMORY_MIB, Rules, judge, machine_factor
from curate.judge_math import MathTask, judge_math, math_tasks
from curate.sandbox import Isolation, open_sandbox
from curate.verdicts import Store, Verdict
from curate.verify import ANSWERS, CONTEXT, KINDS, Task, tasks

WANTED: Final = (*KINDS, *CONTEXT, *ANSWERS)
"""Columns to ask a reader for, where the source has them."""

WINDOW: Final = {"code": 512, "math": 8192}
"""Tasks held at a time: tests may be megabytes each, answers are short."""
AnyTask = TypeVar("AnyTask", Task, MathTask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to judge by: test columns (``code``) or one reference column (``math``)."""

    what: Literal["code", "math"]
    columns: tuple[str, ...]


def plan(columns: Sequence[str], *, tests: str | None = None, answer: str | None = None) -> Plan:
    """What the columns of a source allow; tests are preferred to a reference answer.

    Raises:
        CurateError: a named column is not there, or nothing is there to judge by.
    """
    for option, name in (("--tests", tests), ("--answer", answer)):
        if name is not None and name not in columns:
            raise CurateError(f"{option} {name}: the source has no such column.{near(name, columns)} It has {', '.join(columns)}.")
    if answer is not None:
        return Plan(what="math", columns=(answer,))
    found = (tests,) if tests else tuple(name for name in KINDS if name in columns)
    if found:
        return Plan(what="code", columns=found)
    reference = next((name for name in ANSWERS if name in columns), None)
    if reference is None:
        raise CurateError(
            f"Nothing to judge by: the source has neither tests ({', '.join(KINDS)}) nor a reference answer ({', '.join(ANSWERS)}). "
            "Name a column with --tests or --answer."
        )
    return Plan(what="math", columns=(reference,))


def run(
    batches: Iterable[pl.DataFrame],
    *,
    out: Path,
    tests: str | None = None,
    answer: str | None = None,
    isolation: Isolation = "bwrap",
    time_limit: float | None = None,
    memory_mib: int = MEMORY_MIB,
    workers: int = 1,
    resume: bool = False,
    progress: Callable[[Verdict], None] | None = None,
) -> pl.DataFrame:
    """Judge every trace and write ``out``.

    Args:
        batches: frames with ``row, item, problem, trace`` (strings null where there is none) and the columns of ``WANTED`` that
            the source has, or those named.
        out: the file; ``out.partial`` beside it holds what is judged until all is.
        tests: the one test column to use.
        answer: the reference column of mathematical problems.
        isolation: recorded in the file, with the limits.
        time_limit: seconds a test or comparison; None: see ``judge_code.Rules``, 10 for answers.
        memory_mib: of one program.
        workers: at the same time.
        resume: go on with an unfinished or a finished file; the same options are demanded.
        progress: called with every verdict as soon as it stands, also those known before; one call at a time.

    Returns:
        The table of ``verdicts.SCHEMA``.
    """
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        raise CurateError("The source has no rows: nothing to judge.")
    how = plan(first.columns, tests=tests, answer=answer)
    settings: dict[str, Any] = {"what": how.what, "columns": list(how.columns), "time_limit": time_limit}
    tell = progress or (lambda _: None)
    stream = chain([first], stream)
    if how.what == "math":
        with Store(out, settings=settings, resume=resume) as store:
            given = (t for batch in stream for t in math_tasks(batch, column=how.columns[0]))
            return store.finish(
                _judged(given, store, partial(judge_math, workers=workers, time_limit=time_limit), tell, window=WINDOW["math"])
            )
    box = open_sandbox(isolation)
    with Store(out, settings=settings | {"isolation": isolation, "memory_mib": memory_mib}, resume=resume) as store:
        rules = Rules(time_limit=time_limit, memory_mib=memory_mib, factor=machine_factor(box))
        programs = (t for batch in stream for t in tasks(batch, columns=how.columns))
        return store.finish(
            _judged(programs, store, partial(judge, box=box, rules=rules, workers=workers), tell, window=WINDOW["code"])
        )


def _judged(
    given: Iterable[AnyTask],
    store: Store,
    judge: Callable[..., Iterator[Verdict]],
    tell: Callable[[Verdict], None],
    *,
    window: int,
) -> Iterator[Verdict]:
    """Verdicts in the order of the tasks; only texts that the store does not know reach the judge, and each is kept at once."""
    waiting, lock, told = iter(given), threading.Lock(), set()

    def keep(verdict: Verdict) -> None:
        with lock:
            store.add(verdict)
            told.add((verdict.row, verdict.item))
            tell(verdict)

    while held := list(islice(waiting, window)):
        new: dict[tuple[str, str], AnyTask] = {}
        for task in held:
            if store.find(task.digest, task.tests_digest) is None:
                new.setdefault((task.digest, task.tests_digest), task)
        for _ in judge(iter(new.values()), progress=keep):
            pass
        for task in held:
            known = store.find(task.digest, task.tests_digest)
            assert known is not None
            found = replace(known, row=task.row, item=task.item, problem=task.problem)
            if (task.row, task.item) not in told:
                tell(found)
            yield found
