"""What a report costs: fresh processes that make it from a ledger, with and without Vega's runtime in the cache.

    python benchmarks/report.py [--rows 1000000] [--repeats 3]

The ledger is that of ``query.py``: three traces per problem, verdicts, ratings, lengths that rise with the rating; 300 groups are
added. Prints medians of wall and of CPU time, the peak of memory, and the size of the file.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORK = ("html, runtime not cached", "html", "markdown")


def make(rows: int, path: Path) -> None:
    import polars as pl
    from query import make as make_ledger  # the neighbour in this folder

    from curate.ledger import Meta, to_bytes

    make_ledger(rows, path)
    frame = pl.read_parquet(path).with_columns(group=pl.format("tag {}", pl.col("row") // 3 % 300))
    meta = Meta(
        sources=({"name": "made", "rows": rows, "basis": "verdict"},),
        tokens={"basis": "estimate", "by": "made", "low": 0.9, "high": 1.15},
    )
    path.write_bytes(to_bytes(frame, meta))


def work(name: str, path: Path) -> None:
    from curate import ledger, memory, report
    from curate.selection import Rules

    frame, meta = ledger.from_file(path)
    write = report.markdown if name == "markdown" else report.html
    text = write(frame, meta, rules=Rules(), fits=memory.table("qwen2.5-3b", ["t4"]), by="tag")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(len(text.encode()), used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)


def child(name: str, path: Path, cache: Path) -> tuple[float, float, float, float]:
    """Wall seconds, bytes of the report, peak MB and CPU seconds of a fresh process."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as fresh:
        env = {**os.environ, "CURATE_CACHE": fresh if "not cached" in name else str(cache)}
        command = [sys.executable, __file__, "--child", name, str(path)]
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    size, peak, cpu = map(float, run.stdout.split())
    return time.perf_counter() - start, size, peak, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        work(args.child[0], Path(args.child[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder) / "ledger.parquet", Path(folder) / "cache"
        make(args.rows, path)
        child("html", path, cache)  # fills the cache
        seen = {name: [child(name, path, cache) for _ in range(args.repeats)] for name in WORK}
    print(f"{args.rows:,} traces, {args.repeats} runs of each")
    for name, runs in seen.items():
        wall, size, peak, cpu = (statistics.median(figures) for figures in zip(*runs, strict=True))
        print(f"{name:26} wall {wall:5.2f} s   cpu {cpu:5.2f} s   {size / 1e6:4.2f} MB   peak {peak:5.0f} MB")


if __name__ == "__main__":
    main()
