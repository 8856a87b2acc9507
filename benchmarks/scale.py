"""Does the main job stay linear in time and flat in memory: ratios of one run, no seconds of another machine.

    python benchmarks/make_corpus.py corpus --gb 4 --shards 8
    python benchmarks/make_corpus.py wide --wide
    python benchmarks/scale.py corpus --wide wide

The first table takes one, two, four and eight of the shards (links to them) and compares each with as many times the first. The second
holds the three shapes that break other tools against a plain polars scan of the same text: a row group of 4 GB, 20,000 small files, a
problem with 100,000 traces. Peak memory is VmHWM, children included (``side_by_side.py``); the limit is 600 MB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from side_by_side import Sample, interleave, once

CURATE = [sys.executable, "-c", "from curate.cli import main; main()"]
COMMON = ["--estimate", "chars/3.6", "--thinking", "optional", "--no-cache", "--json", "-q"]
LIMIT_MB = 600
LINEAR = 1.25
"""Times the first size, for as many times the data: page cache and neighbours blur the rest."""


def commands(folder: Path, out: Path) -> dict[str, list[str]]:
    select = ["select", str(folder), "--shortest", "--max-tokens", "8192", "--overwrite", "-o", str(out)]
    return {"yield": [*CURATE, "yield", str(folder), *COMMON], "select": [*CURATE, *select, *COMMON]}


def scan(folder: Path) -> list[str]:
    """A plain streaming scan of the text's length."""
    program = (
        "import polars as pl, sys\n"
        "n = pl.col('generation').str.len_chars().cast(pl.Int64).sum()\n"
        "print(pl.scan_parquet(sys.argv[1] + '/**/*.parquet').select(n).collect(engine='streaming').item())"
    )
    return [sys.executable, "-c", program, str(folder)]


def growing(folder: Path, work: Path, *, reps: int) -> bool:
    """One to all of the shards; whether time was linear and memory within the limit."""
    shards = sorted(folder.glob("*.parquet"))
    sizes = [k for k in (1, 2, 4, 8, 16) if k <= len(shards)]
    found: dict[int, dict[str, list[Sample]]] = {}
    for k in sizes:
        some = work / f"{k}-shards"
        some.mkdir()
        for shard in shards[:k]:
            (some / shard.name).symlink_to(shard.resolve())
        once(scan(some))  # into the page cache
        found[k] = interleave(commands(some, work / f"out-{k}"), reps=reps)
    good = True
    print(f"{'shards':>6} {'MB stored':>10} {'command':>8} {'wall s':>8} {'cpu s':>8} {'x linear':>9} {'peak MB':>8}")
    for k in sizes:
        stored = sum(s.stat().st_size for s in shards[:k]) / 1e6
        share = stored / (shards[0].stat().st_size / 1e6)
        for name, samples in found[k].items():
            best, first = min(s.wall for s in samples), min(s.wall for s in found[sizes[0]][name])
            peak, linear = max(s.peak_mb for s in samples), best / (share * first)
            good &= peak <= LIMIT_MB and linear <= LINEAR
            print(f"{k:6} {stored:10,.0f} {name:>8} {best:8.2f} {min(s.cpu for s in samples):8.2f} {linear:9.2f} {peak:8.0f}")
    return good


def awkward(folder: Path, work: Path) -> bool:
    """The three shapes; whether memory was within the limit."""
    good = True
    print(f"\n{'shape':<14} {'command':>8} {'wall s':>8} {'cpu s':>8} {'x scan (cpu)':>13} {'peak MB':>8}")
    for shape in ("one-group", "many-shards", "one-problem"):
        plain = once(scan(folder / shape))
        print(f"{shape:<14} {'scan':>8} {plain.wall:8.2f} {plain.cpu:8.2f} {1:13.2f} {plain.peak_mb:8.0f}")
        for name, command in commands(folder / shape, work / shape).items():
            sample = once(command)
            good &= sample.peak_mb <= LIMIT_MB
            ratio = sample.cpu / plain.cpu
            print(f"{shape:<14} {name:>8} {sample.wall:8.2f} {sample.cpu:8.2f} {ratio:13.2f} {sample.peak_mb:8.0f}")
    return good


def main() -> None:
    """Measure, and exit 1 when time is not linear or memory not within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="shards of equal size")
    parser.add_argument("--wide", type=Path, help="what make_corpus.py --wide made")
    parser.add_argument("--reps", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="scale-") as work:
        good = growing(args.folder, Path(work), reps=args.reps)
        if args.wide is not None:
            good &= awkward(args.wide, Path(work))
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
