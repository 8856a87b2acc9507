"""What judging costs beside running the programs bare.

    python benchmarks/judging.py [PROGRAMS] [--workers N] [--isolation bwrap|none]

Makes PROGRAMS programs (8,000 is the whole set) of four short tests each, runs a sample of them bare (`python program.py`, one at a
time per worker, no limits, no comparison) and judges all of them. Prints one JSON object: seconds, runs a second, and the ratio of
the judge's cost to the bare cost of the same runs, by the clock and by processor time (the one to believe on a busy machine);
`python` is the interpreter as it stands on this machine, `clean` the same one in an empty virtual environment (no start-up hooks of
installed packages), `python -S` one without site packages, which is what the judge itself starts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from curate.judge_code import Rules, judge, machine_factor
from curate.sandbox import open_sandbox
from curate.verify import Case, Task

SIEVE = """
import sys
n = int(sys.stdin.read())
s = [True] * (n + 1)
for i in range(2, n + 1):
    if s[i]:
        for j in range(i * i, n + 1, i):
            s[j] = False
print(sum(s[2:]))
"""
HEAP = """
import collections, heapq
n = int(input())
h = [(i * 7919) % 10007 for i in range(n)]
heapq.heapify(h)
print(h[0])
"""
SHAPES: tuple[tuple[str, Callable[[int], int]], ...] = (
    ("n = int(input())\nprint(n * (n + 1) // 2)\n", lambda n: n * (n + 1) // 2),
    ("print(sum(i for i in range(int(input())) if i % 3 == 0))\n", lambda n: sum(range(0, n, 3))),
    (HEAP, lambda n: min((i * 7919) % 10007 for i in range(n))),
    (SIEVE, lambda n: sum(all(k % d for d in range(2, int(k**0.5) + 1)) for k in range(2, n + 1))),
)


def made(programs: int) -> Iterator[Task]:
    """Generated tasks, the same for the same number: one in twenty wrong, one in fifty crashing."""
    draw = random.Random(6)
    for row in range(programs):
        code, answer = SHAPES[row % len(SHAPES)]
        if row % 20 == 7:
            code = code.replace("print(", "print(1 + ")
        if row % 50 == 11:
            code = "import sys\nsys.exit(1)\n"
        inputs = [draw.randrange(1000, 5000) for _ in range(4)]
        tests = tuple(Case(input=f"{n}\n", output=f"{answer(n)}\n", kind="public") for n in inputs)
        yield Task(row=row, item=0, problem=str(row), digest=str(row), program=code, tests=tests, tests_digest="")


def processor() -> float:
    """Seconds of processor time of this process and of all that it has waited for."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def bare(python: list[str], runs: list[tuple[str, str]], workers: int) -> tuple[float, float]:
    """Wall and processor seconds of a run, `workers` at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        paths = []
        for n, (program, given) in enumerate(runs):
            path = Path(folder) / f"{n}.py"
            path.write_text(program)
            paths.append((path, given))
        begun, used = time.perf_counter(), processor()
        list(pool.map(lambda p: subprocess.run([*python, str(p[0])], input=p[1].encode(), capture_output=True, check=False), paths))
        return (time.perf_counter() - begun) / len(runs), (processor() - used) / len(runs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="?", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--isolation", default="bwrap")
    given = parser.parse_args()
    box = open_sandbox(given.isolation)
    tasks = list(made(given.programs))
    factor = machine_factor(box)
    begun, used = time.perf_counter(), processor()
    verdicts = list(judge(tasks, box=box, rules=Rules(factor=factor), workers=given.workers))
    spent, worked = time.perf_counter() - begun, processor() - used
    # What ran: every test up to the first that failed.
    ran = [
        (t.program or "", c.input)
        for t, v in zip(tasks, verdicts, strict=True)
        for c in t.tests[: (3 if v.failed_test is None else v.failed_test) + 1]
    ]
    sample = random.Random(6).sample(ran, min(len(ran), 400))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([box.python, "-m", "venv", "--without-pip", folder], check=True)
        commands = {"python": [box.python], "clean": [f"{folder}/bin/python"], "python -S": [box.python, "-S", "-s", "-P"]}
        per = {name: bare(command, sample, given.workers) for name, command in commands.items()}
    found = {
        "programs": given.programs,
        "runs": len(ran),
        "workers": given.workers,
        "isolation": given.isolation,
        "factor": factor,
        "seconds": round(spent, 2),
        "ms_per_run": round(1000 * spent * given.workers / len(ran), 2),
        "verdicts": dict(Counter(v.verdict for v in verdicts)),
        "processor_ms_per_run": round(1000 * worked / len(ran), 2),
        "bare_processor_ms_per_run": {name: round(1000 * cpu, 2) for name, (_, cpu) in per.items()},
        "ratio": {name: round(spent / len(ran) / wall, 3) for name, (wall, _) in per.items()},
        "processor_ratio": {name: round(worked / len(ran) / cpu, 3) for name, (_, cpu) in per.items()},
        "minutes_for_8000": round(spent / given.programs * 8000 / 60, 1),
        "python": sys.version.split()[0],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
