"""Speed and memory of counting, as ratios measured in one run.

    python benchmarks/counting.py --tokenizer DIR FILE.parquet [--column C] [--prompt C] [--mb 50] [--peer-mb 4] [--hostile]

Needs a tokenizer.json and text. Each line says what is compared; rates are MB (1e6 bytes of UTF-8) a second. The peers
count --peer-mb of the same text, because they need minutes for all of it; figures are then per MB.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from curate import tokens
from curate.encoder import Encoder


def timed(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall seconds, CPU seconds, result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def best(action: Callable[[], Any], *, repeats: int = 3) -> tuple[float, float]:
    """The least wall and CPU seconds of several runs: what other jobs disturb least."""
    runs = [timed(action)[:2] for _ in range(repeats)]
    return min(w for w, _ in runs), min(c for _, c in runs)


def read(path: Path, *, column: str, prompt: str | None, mb: float) -> list[pl.DataFrame]:
    """Batches of about 8 MB of text, up to ``mb`` in all."""
    names = {"trace": column, **({"prompt": prompt} if prompt else {})}
    frame = pl.scan_parquet(path).select(**{k: pl.col(v) for k, v in names.items()}).drop_nulls("trace").collect()
    size = frame["trace"].str.len_bytes().cast(pl.Int64)
    if size.sum() < mb * 1e6:
        print(f"# the file holds {size.sum() / 1e6:.0f} MB only: repeated with a mark of its own in front of each text")
        times = int(mb * 1e6 // size.sum()) + 1
        frame = pl.concat([frame.with_columns(pl.lit(f"{k} ") + pl.col("trace")) for k in range(times)])
        size = frame["trace"].str.len_bytes().cast(pl.Int64)
    at = size.cum_sum()
    frame, at = frame.filter(at <= mb * 1e6), at.filter(at <= mb * 1e6)
    return frame.with_columns((at // 8_000_000).alias("batch")).partition_by("batch", maintain_order=True, include_key=False)


def megabytes(batches: list[pl.DataFrame]) -> float:
    return sum(int(b["trace"].str.len_bytes().cast(pl.Int64).sum()) for b in batches) / 1e6


def steady(folder: Path, batches: list[pl.DataFrame], peer_mb: float) -> None:
    """Engine loaded: curate against the bare engine and against the reference; the estimate against exact counting."""
    import fastokens
    from tokenizers import Tokenizer

    mb = megabytes(batches)
    counter = tokens.open_exact(folder, kind="trace", cached=False, total=10**9)
    counter.count(batches[0].head(1))
    engine = fastokens.Tokenizer.from_file(str(folder / "tokenizer.json"))
    engine.no_truncation()
    engine.no_padding()

    def bare(batch: pl.DataFrame) -> Any:
        return np.diff(np.frombuffer(engine.encode_batch_flat(batch["trace"].to_list())[1], np.uint64))

    cold_bare, cold = timed(lambda: [bare(b) for b in batches]), timed(lambda: [counter.count(b) for b in batches])
    assert [int(b.sum()) for b in cold_bare[2]] == [int(f["tokens"].cast(pl.Int64).sum()) for f in cold[2]]
    wall_bare, cpu_bare = best(lambda: [bare(b) for b in batches])
    wall, cpu = best(lambda: [counter.count(b) for b in batches])
    print(f"exact, first pass over {mb:.0f} MB: {mb / cold[0]:.0f} MB/s wall, {mb / cold[1]:.0f} MB a CPU second")
    print(f"curate over the bare engine, same text: {cold[0] / cold_bare[0]:.2f} times its wall time the first time, ", end="")
    print(f"{wall / wall_bare:.2f} again ({cpu / cpu_bare:.2f} of CPU)")
    if "prompt" in batches[0].columns:
        whole = tokens.open_exact(folder, cached=False, total=10**9)
        whole.count(batches[0].head(1))
        print(
            f"whole samples through the chat template: {best(lambda: [whole.count(b) for b in batches])[0] / wall:.2f} times the trace alone"
        )
    estimate = tokens.open_counter(kind="trace")
    wall_estimate, cpu_estimate = best(lambda: [estimate.count(b) for b in batches])
    print(f"default estimate against exact, same text: {wall_estimate / cold[0]:.2f} times its wall time the first time, ", end="")
    print(f"{wall_estimate / wall:.2f} again ({cpu_estimate / cpu:.2f} of CPU), {mb / wall_estimate:.0f} MB/s")
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    few = pl.concat(batches).gather_every(max(1, int(mb / peer_mb)))["trace"].to_list()
    size = sum(len(t.encode()) for t in few) / 1e6

    def peer() -> int:
        return sum(
            len(e) for k in range(0, len(few), 64) for e in reference.encode_batch_fast(few[k : k + 64], add_special_tokens=False)
        )

    wall_peer, cpu_peer, _ = timed(peer)
    less_cpu, less_wall = cpu_peer / size / (cold[1] / mb), wall_peer / size / (cold[0] / mb)
    print(f"exact against tokenizers.encode_batch_fast ({size:.1f} MB of it): {less_cpu:.0f} times less CPU time, ", end="")
    print(f"{less_wall:.0f} times less wall time")


WHOLE = """
import sys, polars as pl
from pathlib import Path
from curate import tokens
c = tokens.open_exact(Path(sys.argv[1]), kind="trace", cached=False, total=10**9)
n = 0
for b in pl.scan_parquet(sys.argv[2]).select("trace").collect_batches(chunk_size=int(sys.argv[3]), maintain_order=True):
    n += int(c.count(b)["tokens"].cast(pl.Int64).sum())
print(n)
"""
PEER = """
import sys
from pathlib import Path
from datasets import load_dataset
from transformers import PreTrainedTokenizerFast
t = PreTrainedTokenizerFast(tokenizer_file=str(Path(sys.argv[1]) / "tokenizer.json"))
d = load_dataset("parquet", data_files=sys.argv[2], split="train")
f = lambda b: {"n": [len(x) for x in t(b["trace"], add_special_tokens=False, return_attention_mask=False)["input_ids"]]}
print(sum(d.map(f, batched=True, batch_size=64, num_proc=2, remove_columns=d.column_names, load_from_cache_file=False)["n"]))
"""


def command(code: str, *arguments: str) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout.split()[-1]


def whole_command(folder: Path, batches: list[pl.DataFrame], peer_mb: float) -> None:
    """Loading and reading included, cold cache, against ``datasets.map`` with the same tokenizer in two processes."""
    with tempfile.TemporaryDirectory() as where:
        everything = pl.concat(batches).select("trace")
        everything.write_parquet(f"{where}/all.parquet")
        few = everything.gather_every(max(1, int(megabytes(batches) / peer_mb)))
        few.write_parquet(f"{where}/few.parquet")
        mb, small = megabytes(batches), megabytes([few])
        rows = str(max(1, int(8 / mb * everything.height)))
        wall, _ = command(WHOLE, str(folder), f"{where}/all.parquet", rows)
        _, total = command(WHOLE, str(folder), f"{where}/few.parquet", rows)
        empty = few.head(2)
        empty.write_parquet(f"{where}/two.parquet")
        start, _ = command(PEER, str(folder), f"{where}/two.parquet")
        peer, peer_total = command(PEER, str(folder), f"{where}/few.parquet")
        assert total == peer_total, (total, peer_total)
        guess = start + (peer - start) / small * mb
        print(f"whole process, {mb:.0f} MB: {wall:.1f} s; datasets.map, 2 processes: {peer:.1f} s for {small:.1f} MB ", end="")
        print(f"({start:.1f} s of it to start), {guess:.0f} s at its rate for all: {guess / wall:.0f} times")


def hostile(folder: Path) -> None:
    """Long runs and random words: seconds, and how far memory grew."""
    draw = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    exact = Encoder(folder / "tokenizer.json", small=0)
    exact.lengths(["warm"])
    words = [" ".join("".join(draw.choices(letters, k=9)) for _ in range(100_000)) for _ in range(16)]
    cases = {
        "1 MB of one character": ["a" * 10**6],
        "1 MB of spaces": [" " * 10**6],
        "1 MB of line breaks": ["\n" * 10**6],
        "1 MB of hex": ["".join(draw.choices("0123456789abcdef", k=10**6))],
        "16 MB of random words": words,
        "50 MB in one row": [" ".join(words)[:15_000_000] * 3 + "x" * 5_000_000],
    }
    for name, texts in cases.items():
        wall, _, n = timed(lambda texts=texts: exact.lengths(texts))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name}: {int(n.sum()):,} tokens in {wall:.2f} s; peak memory of the process so far {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--column", default="completion")
    parser.add_argument("--prompt")
    parser.add_argument("--mb", type=float, default=50)
    parser.add_argument("--peer-mb", type=float, default=4)
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    if options.hostile:
        hostile(options.tokenizer)
        return
    batches = read(options.file, column=options.column, prompt=options.prompt, mb=options.mb)
    steady(options.tokenizer, batches, options.peer_mb)
    whole_command(options.tokenizer, batches, options.peer_mb)


if __name__ == "__main__":
    main()
