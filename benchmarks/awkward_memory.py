"""Rows of 50 MB: the peak of memory of every command on every format, against the limit of 600 MB.

    python benchmarks/awkward_memory.py --tokenizer Qwen/Qwen3-8B [--rows 1 8] [--texts ascii mixed wide] [--formats jsonl csv ...]

Files of one and of several rows whose trace alone is 50 MB are made in a temporary folder; then each command runs on each in a fresh
process. Peak memory is VmHWM (``side_by_side.py``). ``ascii`` is plain text; ``mixed`` has Chinese, quotes and line breaks, which JSON
and CSV escape; ``wide`` has one emoji among plain letters, for which Python takes four bytes a character. Exits with 1 where a peak is
over the limit. Linux only.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from side_by_side import once

LIMIT_MB = 600
ROW_BYTES = 50_000_000
CURATE = [sys.executable, "-c", "from curate.cli import main; main()"]
FORMATS = ("jsonl", "jsonl.gz", "jsonl.zst", "json", "csv", "parquet", "arrow")
TEXTS = ("ascii", "mixed", "wide")
WORDS = {
    "ascii": "so we add both sides and compare: x = 3.14 * (n - 1), then 42 is even; hence the parity of each term\n",
    "mixed": '所以 we add 两边 and "compare"\\n: x = 3.14 * (n − 1), 因此每一项的奇偶性 \t the parity of each term\n',
}


def text(kind: str, seed: int, size: int = ROW_BYTES) -> str:
    """A trace of ``size`` bytes; sentences of shuffled words, so that it is no repetition of one."""
    rng = random.Random(seed)
    words = WORDS["ascii" if kind == "wide" else kind].split(" ")
    parts = [" ".join(rng.sample(words, len(words))) for _ in range(2000)]
    body, at = ["<think>\n"], 0
    for part in itertools.cycle(parts):
        body.append(part)
        at += len(part.encode()) + 1
        if at >= size:
            break
        body.append(f" {at} ")
        at += len(body[-1]) - 1
    end = "\n</think>\n\nSo the answer is 42" + (" 🎉" if kind == "wide" else "")
    return "".join(body) + end


def records(kind: str, rows: int) -> Iterator[dict[str, object]]:
    for i in range(rows):
        yield {"id": f"p{i // 2}", "prompt": "Is the sum even?", "generation": text(kind, i), "passed": True, "difficulty": i + 1.0}


def make(folder: Path, form: str, kind: str, rows: int) -> Path:
    """One source of ``rows`` rows, written row by row."""
    path = folder / f"{kind}-{rows}.{form}"
    made = records(kind, rows)
    if form.startswith("jsonl"):
        _lines(path, made)
    elif form == "json":
        with path.open("w", encoding="utf-8") as file:
            for i, record in enumerate(made):
                file.write(("[" if i == 0 else ",\n") + json.dumps(record, ensure_ascii=False))
            file.write("]\n")
    elif form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            for i, record in enumerate(made):
                table = csv.DictWriter(file, list(record))
                if i == 0:
                    table.writeheader()
                table.writerow(record)
    else:
        _columns(path, form, made)
    return path


def _lines(path: Path, made: Iterator[dict[str, object]]) -> None:
    import zstandard

    packed = {".gz": partial(gzip.open, compresslevel=1), ".zst": zstandard.open}
    with packed.get(path.suffix, open)(path, "wb") as file:
        for record in made:
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _columns(path: Path, form: str, made: Iterator[dict[str, object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = (pa.RecordBatch.from_pylist([r]) for r in made)
    first = next(batches)
    if form == "parquet":  # one row group of all rows, as most writers make them
        pq.write_table(pa.Table.from_batches([first, *batches]), path, compression="zstd")
        return
    path.mkdir()
    with pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as file, pa.ipc.new_stream(file, first.schema) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}))
    (path / "dataset_info.json").write_text("{}")


def commands(path: Path, tokenizer: str, work: Path) -> dict[str, list[str]]:
    plain = ["--json", "-q", "--no-cache"]
    ledger = str(work / "ledger.parquet")
    made = {"yield estimate": [*CURATE, "yield", str(path), *plain]}
    for count in ("trace", "sample"):
        exact = ["--tokenizer", tokenizer, "--count", count, *plain]
        made[f"yield {count}"] = [*CURATE, "yield", str(path), *exact]
        made[f"count {count}"] = [*CURATE, "count", str(path), *exact, "-o", ledger]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--texts", nargs="+", default=["ascii", "mixed"], choices=TEXTS)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--only", help="only commands whose name holds this")
    args = parser.parse_args()
    worst = 0.0
    print(f"{'rows':>4} {'text':<6} {'format':<10} {'command':<15} {'cpu s':>7} {'peak MB':>8}", flush=True)
    for rows, kind, form in itertools.product(args.rows, args.texts, args.formats):
        with tempfile.TemporaryDirectory(prefix="awkward-") as work:
            path = make(Path(work), form, kind, rows)
            for name, command in commands(path, args.tokenizer, Path(work)).items():
                if args.only and args.only not in name:
                    continue
                sample = once(command)
                (Path(work) / "ledger.parquet").unlink(missing_ok=True)
                worst = max(worst, sample.peak_mb)
                over = "  over" if sample.peak_mb > LIMIT_MB else ""
                print(f"{rows:4} {kind:<6} {form:<10} {name:<15} {sample.cpu:7.1f} {sample.peak_mb:8.0f}{over}", flush=True)
    print(f"\nThe highest peak is {worst:.0f} MB; the limit is {LIMIT_MB} MB.")
    raise SystemExit(worst > LIMIT_MB)


if __name__ == "__main__":
    main()
