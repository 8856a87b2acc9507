"""The main job against the least that could be done, side by side in one run: ratios, not seconds.

    python benchmarks/make_corpus.py corpus --gb 4
    python benchmarks/main_job.py corpus --reps 3

| line | is compared with |
|---|---|
| `curate --help` | `python -c 'import click'`: at most 2.5 times, and polars is not imported |
| `curate yield --estimate chars/3.6 --no-cache` | a polars scan of the text's length: at most 1.6 times |
| `curate select --shortest --max-tokens 8192` | that scan, and a bare write of the same rows from memory: at most 1.5 times |

Every command is a fresh process with its imports, and they take turns. Only the bare write is timed inside its process,
since the rows it writes must be in memory first. Peak memory is VmHWM, children included (`side_by_side.py`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import Failed, Sample, cpu, interleave, once, table, wall

LIMITS = {"help": 2.5, "yield": 1.6, "select": 1.5}
CURATE = [sys.executable, "-c", "from curate.cli import main; main()"]


def scan(folder: Path) -> None:
    """The yardstick: the number and the characters of the traces, by one streaming scan."""
    import polars as pl

    length = pl.col("generation").str.len_chars().cast(pl.Int64)
    print(
        pl.scan_parquet(folder)
        .select(length.count().alias("traces"), length.sum().alias("characters"))
        .collect(engine="streaming")
        .row(0)
    )


def write(folder: Path, chosen: Path) -> None:
    """Write the rows that ``select`` kept, from memory, with the settings of any Parquet writer; print the seconds."""
    import polars as pl

    rows = pl.read_parquet(chosen / "ledger.parquet").filter(pl.col("reason").is_null())["row"].implode()
    frame = pl.scan_parquet(folder, row_index_name="row").filter(pl.col("row").is_in(rows)).drop("row").collect()
    with tempfile.TemporaryDirectory(dir=chosen) as out:
        start = time.perf_counter()
        frame.write_parquet(Path(out) / "rows.parquet", compression="zstd", compression_level=3, row_group_size=1000)
        print(json.dumps({"seconds": time.perf_counter() - start, "rows": frame.height}))


def imports_polars() -> bool:
    """Whether ``curate --help`` loads polars."""
    probe = (
        "import sys\nfrom curate.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "print('polars' in sys.modules, file=sys.stderr)"
    )
    return "True" in subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stderr


def line(name: str, ratio: float, limit: float) -> str:
    return f"{name:<12} {ratio:5.2f} times, limit {limit}: {'ok' if ratio <= limit else 'OVER'}"


def measure(folder: Path, *, reps: int, bound: int, work: Path) -> dict[str, float]:
    """Run everything, print the table, return the ratios."""
    chosen = work / "chosen"
    size = sum(f.stat().st_size for f in folder.rglob("*.parquet"))
    me = [sys.executable, __file__]
    select = [*CURATE, "select", str(folder), "--shortest", "--max-tokens", str(bound), "--estimate", "chars/3.6"]
    select += ["--thinking", "optional", "--format", "source", "--no-cache", "-q", "--overwrite"]
    commands = {
        "polars scan": [*me, "--child", "scan", str(folder)],
        "curate yield": [*CURATE, "yield", str(folder), "--estimate", "chars/3.6", "--no-cache", "--json", "-q"],
        "curate select": [*select, "-o", str(chosen), "--json"],
    }
    told = once(commands["polars scan"]).out.strip()  # also warms the page cache
    print(f"{folder}: {size / 1e6:,.0f} MB of Parquet; traces, characters {told}")
    once(commands["curate select"])
    writes: list[float] = []
    found: dict[str, list[Sample]] = {name: [] for name in commands}
    for _ in range(reps):
        for name, samples in interleave(commands, reps=1).items():
            found[name] += samples
        last = json.loads(once([*me, "--child", "write", str(folder), "--chosen", str(chosen)]).out)
        writes.append(last["seconds"])
    bare = statistics.median(writes)
    print(table(found, base="polars scan"))
    print(f"bare write of the {last['rows']:,} kept rows: {bare:.3f} s")
    kept = json.loads(found["curate select"][-1].out)
    print(f"select kept {kept['kept']:,} of {kept['traces']:,} traces")
    return {
        "yield": wall(found["curate yield"]) / wall(found["polars scan"]),
        "select": wall(found["curate select"]) / (wall(found["polars scan"]) + bare),
    }


def main() -> None:
    """Measure, print ratios, and exit 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--bound", type=int, default=8192)
    parser.add_argument("--work", type=Path, help="where outputs go; a temporary folder if left out")
    parser.add_argument("--child", choices=["scan", "write"], help=argparse.SUPPRESS)
    parser.add_argument("--chosen", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child == "scan":
        return scan(args.folder)
    if args.child == "write":
        return write(args.folder, args.chosen)
    starts = interleave(
        {"import click": [sys.executable, "-c", "import click"], "curate --help": [*CURATE, "--help"]}, reps=max(7, args.reps)
    )
    print(table(starts, base="import click"))
    # The least of several runs: at a tenth of a second, whatever else runs only ever adds.
    least = {name: min(s.wall for s in samples) for name, samples in starts.items()}
    ratios = {"help": least["curate --help"] / least["import click"]}
    polars = imports_polars()
    print(f"curate --help imports polars: {'yes, OVER' if polars else 'no'}; CPU {cpu(starts['curate --help']):.2f} s\n")
    work = args.work or Path(tempfile.mkdtemp(prefix="main-job-"))
    try:
        ratios |= measure(args.folder, reps=args.reps, bound=args.bound, work=work)
    except Failed as e:
        raise SystemExit(f"{e}") from e
    finally:
        if args.work is None:
            shutil.rmtree(work, ignore_errors=True)
    for name, ratio in ratios.items():
        print(line(name, ratio, LIMITS[name]))
    raise SystemExit(polars or any(r > LIMITS[n] for n, r in ratios.items()))


if __name__ == "__main__":
    main()
