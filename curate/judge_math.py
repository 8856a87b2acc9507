"""Compares the answer of a trace with the reference answer, through math-verify (extra ``[math]``).

Equal texts are equal without asking. Everything else goes to worker processes, each with a wall clock kept from outside: the
library hangs on some inputs in spite of its own timeouts, and in threads those do nothing. A comparison that never ends is
``unverifiable``, not wrong. About 200 answers a second and core.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import polars as pl

from curate.errors import CurateError
from curate.verdicts import Verdict, digest
from curate.verify import answers_of

WORKER: Final = Path(__file__).with_name("math_worker.py")
SECONDS: Final = 10.0
START_SECONDS: Final = 300.0
WINDOW: Final = 512
TAIL: Final = 600
"""Characters at the end of an answer without a box in which math-verify looks for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MathTask:
    """One trace to judge: the text behind its thinking, and the reference answer (null or blank: unverifiable)."""

    row: int
    item: int
    problem: str | None
    digest: str
    answer: str
    reference: str | None

    @property
    def tests_digest(self) -> str:
        """What the verdict was made by: a hash of the reference."""
        return str(digest(pl.Series([self.reference], dtype=pl.String), pl.Series([""]))[0])


def math_tasks(batch: pl.DataFrame, *, column: str) -> Iterator[MathTask]:
    """Tasks of a batch with ``row, item, problem, trace`` and the reference ``column``; null traces are left out."""
    answers = answers_of(batch)
    keys = digest(batch["problem"], batch["trace"])
    for row, answer, key in zip(batch.iter_rows(named=True), answers, keys, strict=True):
        if key is not None:
            reference = row[column]
            yield MathTask(
                row=row["row"],
                item=row["item"],
                problem=row["problem"],
                digest=key,
                answer=answer or "",
                reference=None if reference is None else str(reference),
            )


def boxed(text: str) -> str | None:
    r"""What stands in the last ``\boxed{}`` (or ``\fbox{}``), with its braces matched; None where there is none.

    >>> boxed(r"so \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    for start in reversed([m.end() for m in re.finditer(r"\\f?boxed\s*\{", text)]):
        depth = 1
        for at in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0) if text[at - 1] != "\\" else 0
            if depth == 0:
                return text[start:at].strip()
    return None


def reference_of(text: str) -> str:
    """The reference answer of a column that may hold a whole solution: its box, what follows ``####``, or the text itself."""
    inner = boxed(text)
    if inner is None:
        inner = text.rsplit("####", 1)[-1]
    return inner.strip().removeprefix("$").removesuffix("$").strip()


def plain(text: str) -> str:
    r"""A spelling in which equal answers are often equal texts: no spaces, no ``\left``, no ``\text``, no dollar signs.

    >>> plain(r"\text{(C)}"), plain(r"\dfrac{1}{2} "), plain("c")
    ('c', '\\frac{1}{2}', 'c')
    """
    text = re.sub(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\left|\\right|\\[,!;: ]|[\s$]", "", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").rstrip(".")
    letter = re.fullmatch(r"\(?([A-Za-z])\)?", text)
    return letter[1].lower() if letter else text


# --- workers ---


class _Worker:
    """One process; ``ask`` gives None when it had to be killed, and starts another."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def _start(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(p for p in sys.path if p)
        process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},
            start_new_session=True,
        )
        self.process = process
        if self._line(process, START_SECONDS) is None:
            self.stop()
            raise CurateError(
                "math-verify does not start: `python -c 'import math_verify'` shows why; `pip install trace-curate[math]`."
            )
        return process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """One line of its output; None when the time is up or it died."""
        assert process.stdout is not None
        end, line = perf_counter() + seconds, b""
        while not line.endswith(b"\n"):
            left = end - perf_counter()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return None
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return None
            line += part
        return line

    def ask(self, gold: str, answer: str, *, seconds: float) -> dict[str, Any] | None:
        process = self.process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"gold": gold, "answer": answer}).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, seconds)
        except BrokenPipeError:
            line = None
        if line is None:
            self.stop()
            return None
        said: dict[str, Any] = json.loads(line)
        return said

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(BrokenPipeError):
                self.process.communicate()
            self.process = None


def judge_math(
    tasks: Iterable[MathTask],
    *,
    workers: int,
    time_limit: float | None = None,
    progress: Callable[[Verdict], None] | None = None,
) -> Iterator[Verdict]:
    """One verdict a task, in order: passed, wrong_answer or unverifiable; ``tests`` is 1.

    Args:
        tasks: read lazily.
        workers: processes.
        time_limit: seconds of one comparison (10); what exceeds it is tried once more alone, with twice the time.
        progress: called with each verdict, in order.

    Raises:
        CurateError: math-verify is not installed.
    """
    if find_spec("math_verify") is None:
        raise CurateError("Judging answers needs math-verify: `pip install trace-curate[math]`.")
    seconds, waiting, local, started = time_limit or SECONDS, iter(tasks), threading.local(), []

    def attempt(task: MathTask, seconds: float) -> Verdict | None:
        if not hasattr(local, "worker"):
            local.worker = _Worker()
            started.append(local.worker)
        return _judge(task, local.worker, seconds=seconds)

    try:
        with ThreadPoolExecutor(max_workers=workers) as pool:
            while window := list(islice(waiting, WINDOW)):
                futures = [pool.submit(attempt, task, seconds) for task in window]
                for task, future in zip(window, futures, strict=True):
                    verdict = future.result()
                    if verdict is None:
                        for other in futures:
                            other.result()
                        verdict = attempt(task, 2 * seconds) or _verdict(
                            task, "unverifiable", seconds=2 * seconds, note="math-verify did not come to an end"
                        )
                    if progress is not None:
                        progress(verdict)
                    yield verdict
    finally:
        for worker in started:
            worker.stop()


def _judge(task: MathTask, worker: _Worker, *, seconds: float) -> Verdict | None:
    gold = reference_of(task.reference or "")
    if not gold:
        return _verdict(task, "unverifiable", note="no reference answer")
    inner = boxed(task.answer)
    if inner is None and not task.answer.strip():
        return _verdict(task, "wrong_answer", note="no answer")
    if inner is not None and plain(inner) == plain(gold):
        return _verdict(task, "passed")
    begun = perf_counter()
    answer = task.answer[-TAIL:] if inner is None else f"\\boxed{{{inner}}}"
    said = worker.ask(f"\\boxed{{{gold}}}", answer, seconds=seconds)
    if said is None:
        return None
    spent = perf_counter() - begun
    if "same" not in said:
        return _verdict(task, "unverifiable", seconds=spent, note=str(said.get("note", "")))
    return _verdict(task, "passed" if said["same"] else "wrong_answer", seconds=spent)


def _verdict(task: MathTask, found: str, *, seconds: float = 0.0, note: str = "") -> Verdict:
    judged = found != "unverifiable"
    return Verdict(
        row=task.row,
        item=task.item,
        problem=task.problem,
        digest=task.digest,
        verdict=found,
        tests=int(judged),
        failed_test=0 if found == "wrong_answer" else None,
        seconds=round(seconds, 3),
        kinds="answer=1" if judged else "",
        note=note,
        tests_digest=task.tests_digest,
    )


# --- how well it agrees ---


def agreement(judged: pl.DataFrame) -> tuple[float, pl.DataFrame]:
    """How often verdicts agree with labels that came with the data, and where they do not.

    Args:
        judged: ``label`` (Boolean), ``passed`` (Boolean), ``reference`` and ``answer`` (String).

    Returns:
        The share of rows that agree (an unverifiable row does not), and the others with their ``cause``.
    """
    differ = judged.filter(pl.col("label").ne_missing(pl.col("passed")))
    causes = [
        _cause(reference, answer, passed)
        for reference, answer, passed in differ.select("reference", "answer", "passed").iter_rows()
    ]
    share = 1 - differ.height / judged.height if judged.height else 1.0
    return share, differ.with_columns(pl.Series("cause", causes, dtype=pl.String))


def _cause(reference: str | None, answer: str | None, passed: bool | None) -> str:
    """The likely cause of a disagreement, from the two texts."""
    gold, mine = plain(reference_of(reference or "")), plain(answer or "")
    if passed is None:
        return "could not be judged"
    if not gold or not mine:
        return "reference or answer is empty, and the label says it is right"
    if passed:
        return "another spelling of the reference, which the label takes for wrong"
    if gold.translate(_BRACKETS) == mine.translate(_BRACKETS):
        return "an interval open in one and closed in the other"
    if mine.count("{") != mine.count("}") or "^{}" in mine:
        return "the answer is cut or holds half a LaTeX command"
    if mine.lower().lstrip("(").startswith(gold.lower()):
        return "the reference, and text behind it"
    return "the texts differ, and the label says it is right"


_BRACKETS: Final = str.maketrans("[]", "()")
