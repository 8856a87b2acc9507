"""Run commands interleaved, each in a fresh process, and compare medians: ratios of one run survive a busy machine.

    python benchmarks/side_by_side.py --reps 5 -- "curate --help" "python -c 'import click'"

Wall seconds and CPU seconds are those of the whole process with its children. Peak memory is VmHWM of the process and of
its children, read while they live (every 20 ms) and added up: the kernel's own high-water mark, which unlike
``ru_maxrss`` is not inherited from the parent. Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of one command."""

    wall: float
    cpu: float
    peak_mb: float
    out: str


class Failed(Exception):
    """A command that should be measured did not end well."""


def _tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += _tree(int(child))
    return found


def _high_water(pid: int) -> int:
    told = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(told[1]) if told else 0


def _watch(pid: int, peaks: dict[int, int], done: threading.Event) -> None:
    while not done.is_set():
        try:
            for one in _tree(pid):
                peaks[one] = max(peaks.get(one, 0), _high_water(one))
        except OSError:  # it ended between two looks
            pass
        done.wait(0.02)


def once(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Sample:
    """Run a command to its end and measure it; raises `Failed` with its last words when it exits with an error."""
    peaks: dict[int, int] = {}
    done = threading.Event()
    before = os.times()
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}, cwd=cwd
    )
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, done), daemon=True)
    watcher.start()
    out, err = process.communicate()
    wall = time.perf_counter() - start
    done.set()
    watcher.join()
    after = os.times()
    if process.returncode:
        raise Failed(f"exit {process.returncode}: {shlex.join(command)[:300]}\n{(err or out)[-800:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Sample(wall=wall, cpu=cpu, peak_mb=sum(peaks.values()) / 1024, out=out)


def interleave(
    commands: Mapping[str, Sequence[str]], *, reps: int, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> dict[str, list[Sample]]:
    """Run each command ``reps`` times, taking turns, so that a slow minute of the machine hits all of them."""
    found: dict[str, list[Sample]] = {name: [] for name in commands}
    for _ in range(reps):
        for name, command in commands.items():
            found[name].append(once(command, env=env, cwd=cwd))
    return found


def wall(samples: Sequence[Sample]) -> float:
    """Median wall seconds."""
    return statistics.median(s.wall for s in samples)


def cpu(samples: Sequence[Sample]) -> float:
    """Median CPU seconds."""
    return statistics.median(s.cpu for s in samples)


def table(found: Mapping[str, Sequence[Sample]], *, base: str) -> str:
    """One line a command: medians, and ratios to ``base``."""
    lines = [f"{'':<44} {'wall s':>8} {'x':>6} {'cpu s':>8} {'x':>6} {'peak MB':>8}"]
    for name, samples in found.items():
        w, u = wall(samples), cpu(samples)
        peak = max(s.peak_mb for s in samples)
        lines.append(
            f"{name[:44]:<44} {w:8.3f} {w / wall(found[base]):6.2f} {u:8.3f} {u / max(cpu(found[base]), 1e-9):6.2f} {peak:8.0f}"
        )
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return "\n".join([*lines, f"load {load}; median of {len(found[base])} runs, taking turns"])


def main() -> None:
    """Compare commands given on the command line with the first of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("commands", nargs="+")
    args = parser.parse_args()
    print(table(interleave({c: shlex.split(c) for c in args.commands}, reps=args.reps), base=args.commands[0]))


if __name__ == "__main__":
    main()
