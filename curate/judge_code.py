"""Runs programs on their tests and says what each did: one verdict a task, in the order of the tasks.

Verdicts do not depend on how busy the machine is: what counts is processor time, limits grow by the measured factor of a slow
machine, and a run that came near its limit is done again alone, with nothing else of ours running, before it counts. Expected
outputs never enter the sandbox: they are compared here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from curate.sandbox import MEMORY_STATUS, SYNTAX_STATUS, Limits, Run, Sandbox
from curate.verdicts import Verdict
from curate.verify import Case, Task

CALLS: Final = Path(__file__).with_name("calls.py")
MEMORY_MIB: Final = 1024
OUTPUT_MIB: Final = 16
NEAR: Final = 0.75
"""From this share of the limit on, a run is done again alone."""
OVER: Final = 1.5
"""A run that used so many limits of processor time is over, however busy the machine: contention does not cost a half."""
WINDOW: Final = 512

SPIN: Final = b"x = 0\nfor i in range(2_000_000):\n    x += i * i % 7\nprint(x)\n"
SPIN_SECONDS: Final = 0.25
"""Processor time of ``SPIN`` on a 3 GHz x86 core of 2023 under CPython 3.11, the interpreter's start with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Limits of a whole run; ``time_limit`` None: twice the problem's own, at least 4 s, and 10 s where it has none.

    Codeforces' limits are met by PyPy as well as by CPython, which this judge runs: hence twice.
    """

    time_limit: float | None = None
    memory_mib: int = MEMORY_MIB
    factor: float = 1.0

    def seconds(self, task: Task) -> float:
        """The limit of one task's tests, in seconds of processor time."""
        own = max(4.0, 2 * task.time_limit) if task.time_limit else 10.0
        return (self.time_limit or own) * self.factor


def machine_factor(box: Sandbox) -> float:
    """How much slower than the reference this machine is, 1 to 8: the best of three runs of a fixed loop."""
    limits = Limits(cpu=30, wall=60, memory_mib=512, output_bytes=100)
    best = min(box.run(SPIN, b"", limits=limits).cpu for _ in range(3))
    return round(min(8.0, max(1.0, best / SPIN_SECONDS)), 2)


def judge(
    tasks: Iterable[Task],
    *,
    box: Sandbox,
    rules: Rules | None = None,
    workers: int,
    progress: Callable[[Verdict], None] | None = None,
) -> Iterator[Verdict]:
    """One verdict a task, in order.

    Args:
        tasks: read lazily, ``WINDOW`` at a time.
        box: where programs run.
        rules: limits.
        workers: runs at the same time; the number of cores is the most that keeps times true.
        progress: called with each verdict as soon as it stands, in no order.
    """
    rules, waiting = rules or Rules(), iter(tasks)
    tell = progress or (lambda _: None)
    with ThreadPoolExecutor(max_workers=workers) as pool:

        def attempt(task: Task) -> Verdict | None:
            verdict = _judge(task, box, rules, alone=False)
            if verdict is not None:
                tell(verdict)
            return verdict

        while window := list(islice(waiting, WINDOW)):
            futures = [pool.submit(attempt, task) for task in window]
            try:
                first = [f.result() for f in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            for task, found in zip(window, first, strict=True):
                if found is not None:
                    yield found
                    continue
                again = _judge(task, box, rules, alone=True)  # nothing else of ours runs now
                assert again is not None
                tell(again)
                yield again


def _judge(task: Task, box: Sandbox, rules: Rules, *, alone: bool) -> Verdict | None:
    """The verdict; None where a run came near its limit and was not alone."""
    if task.note or task.program is None:
        return _verdict(task, "unverifiable" if task.note else "no_code", tests=0)
    limit, longest = rules.seconds(task), 0.0
    program = task.program.encode("utf-8", "surrogatepass")
    if any(t.style == "script" for t in task.tests):
        return _judge_scripts(task, box, program, limit=limit, memory_mib=rules.memory_mib, alone=alone)
    for number, test in enumerate(task.tests):
        run = _run(box, program, test, limit=limit, memory_mib=rules.memory_mib)
        if not alone and _near(run, limit):
            return None
        longest = max(longest, run.cpu if run.ended != "wall" else run.wall)
        found = _class(run, limit=limit) or ("" if _agrees(run, test, task) else "wrong_answer")
        if found == "runtime_error" and _syntax(box, program):
            found = "syntax_error"
        if found:
            return _verdict(task, found, failed=number, seconds=longest)
    return _verdict(task, "passed", seconds=longest)


def _judge_scripts(task: Task, box: Sandbox, program: bytes, *, limit: float, memory_mib: int, alone: bool) -> Verdict | None:
    """The same for test scripts: one limit for a whole script. Tests are counted by the script's own functions and cases."""
    limits = Limits(cpu=limit * OVER, wall=2 * limit * OVER + 1, memory_mib=memory_mib, output_bytes=1 << 20)
    longest, count = 0.0, 0
    for test in task.tests:
        tested, run = box.pair(program, test.input.encode("utf-8", "surrogatepass"), limits=limits)
        if not alone and (_near(run, limit) or _near(tested, limit)):
            return None
        longest = max(longest, run.cpu)
        report = _report(tested)
        number, error = count + (report.get("failed") or 0), report.get("error")
        count += int(report.get("tests") or 1)
        found = _class(run, limit=limit) or ("time_limit" if tested.ended == "wall" else "")
        if not found and error == "UnsupportedError":
            return _verdict(replace(task, note=str(report.get("text", ""))), "unverifiable", tests=0)
        if not found and error:
            found = {"AssertionError": "wrong_answer", "MemoryError": "memory_limit"}.get(error, "runtime_error")
        if found == "runtime_error" and _syntax(box, program):
            found = "syntax_error"
        if found:
            return replace(_verdict(task, found, failed=number, seconds=longest, tests=count), kinds=f"script={count}")
    return replace(_verdict(task, "passed", seconds=longest, tests=count), kinds=f"script={count}")


def _report(tested: Run) -> dict[str, Any]:
    try:
        report = json.loads(tested.output)
    except ValueError:
        report = None
    return report if isinstance(report, dict) else {"error": "UnsupportedError", "text": "the test script did not end by itself"}


def _verdict(task: Task, found: str, *, failed: int | None = None, seconds: float = 0.0, tests: int | None = None) -> Verdict:
    count = len(task.tests) if tests is None else tests
    return Verdict(
        row=task.row,
        item=task.item,
        problem=task.problem,
        digest=task.digest,
        verdict=found,
        tests=count,
        failed_test=failed,
        seconds=round(seconds, 3),
        kinds=task.kinds if count else "",
        note=task.note,
        tests_digest=task.tests_digest,
    )


def _run(box: Sandbox, program: bytes, test: Case, *, limit: float, memory_mib: int) -> Run:
    room = (OUTPUT_MIB << 20) + 2 * len(test.output)
    # The wall clock is wide, so that on a busy machine an endless loop still ends by its processor time, which needs no second run.
    limits = Limits(cpu=limit * OVER, wall=2 * limit * OVER + 1, memory_mib=memory_mib, output_bytes=room)
    if test.style == "call":
        given = json.dumps({"call": test.call, "args": json.loads(test.input)})
        return box.run(program, given.encode(), limits=limits, mode=CALLS.name, extra=(CALLS,))
    return box.run(program, test.input.encode("utf-8", "surrogatepass"), limits=limits)


def _near(run: Run, limit: float) -> bool:
    """Neither clearly within the limit nor clearly over it."""
    if run.ended == "output":
        return False
    return run.ended == "wall" or NEAR * limit < run.cpu < OVER * limit - 0.1


def _class(run: Run, *, limit: float) -> str:
    """How a run failed, or an empty string.

    By its exit status a program may choose **which** failure it is, never that it is none.
    """
    if run.ended == "output":
        return "output_limit"
    if run.ended == "wall" or run.cpu > limit:
        return "time_limit"
    if run.status == MEMORY_STATUS:
        return "memory_limit"
    return "runtime_error" if run.status else ""


def _syntax(box: Sandbox, program: bytes) -> bool:
    """Is the program no Python at all? Compiled in the sandbox, without running it."""
    limits = Limits(cpu=10, wall=20, memory_mib=MEMORY_MIB, output_bytes=100)
    return box.run(program, b"", limits=limits, mode="compile").status == SYNTAX_STATUS


# --- comparing ---


def _agrees(run: Run, test: Case, task: Task) -> bool:
    text = run.output.decode("utf-8", "replace")
    if test.style == "stdin":
        return same_output(text, test.output, tolerance=task.tolerance, fold_case=task.fold_case)
    try:
        value, wanted = json.loads(text), json.loads(test.output)
    except (ValueError, RecursionError):
        return False
    # A list of one is how some sets write a single result.
    return same_value(value, wanted) or (isinstance(wanted, list) and len(wanted) == 1 and same_value(value, wanted[0]))


def same_output(output: str, expected: str, *, tolerance: float | None = None, fold_case: bool = False) -> bool:
    """Token by token, white space aside.

    Args:
        output: what the program wrote.
        expected: what the test wants.
        tolerance: absolute or relative error allowed where the expected token is a decimal fraction (1e-6 is the usual one);
            None: to the letter.
        fold_case: letters without case. Words of yes and no never have case, as on Codeforces.

    >>> same_output("yes 0.3333333", "YES 0.33333333", tolerance=1e-6)
    True
    """
    have, want = output.split(), expected.split()
    if have == want:
        return True
    return len(have) == len(want) and all(
        h == w
        or ((fold_case or w.lower() in ("yes", "no")) and h.lower() == w.lower())
        or (tolerance is not None and _close(h, w, tolerance))
        for h, w in zip(have, want, strict=True)
    )


def _close(have: str, want: str, tolerance: float) -> bool:
    if not any(c in want for c in ".eE"):
        return False
    try:
        a, b = float(have), float(want)
    except ValueError:
        return False
    return math.isfinite(a) and abs(a - b) <= tolerance * max(1.0, abs(b))


def same_value(have: Any, want: Any) -> bool:
    """Equal as JSON; numbers within 1e-6 where one is a fraction, truth values only with truth values."""
    if isinstance(have, bool) or isinstance(want, bool):
        return have is want
    if isinstance(have, int | float) and isinstance(want, int | float):
        fraction = isinstance(have, float) or isinstance(want, float)
        return have == want or (fraction and abs(have - want) <= 1e-6 * max(1.0, abs(want)))
    if isinstance(have, list) and isinstance(want, list):
        return len(have) == len(want) and all(map(same_value, have, want))
    if isinstance(have, dict) and isinstance(want, dict):
        return have.keys() == want.keys() and all(same_value(have[k], want[k]) for k in have)
    return bool(have == want)
