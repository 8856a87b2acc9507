"""Make large synthetic corpora of reasoning traces, to measure on. Nothing in them is real but the shape.

    python benchmarks/make_corpus.py OUT --gb 4                       Parquet shards, zstd, one trace a row
    python benchmarks/make_corpus.py OUT --gb 1 --layout nested      lists of four traces a row
    python benchmarks/make_corpus.py OUT --gb 1 --layout jsonl
    python benchmarks/make_corpus.py OUT --gb 4 --wide               three awkward ones: OUT/one-group (a row group of 4 GB),
                                                                     OUT/many-shards (20,000 files), OUT/one-problem
                                                                     (a problem with 100,000 traces); --scale 0.01 shrinks them

Words are drawn from a vocabulary with the frequencies of language, mixed with numbers, formulas and code, so that zstd
reaches a ratio of about 3, as on real traces, and a tokenizer meets many different words. Lengths have the published shape
of ``solutions_py_decontaminated`` (open-r1/codeforces-cots) scaled to a mean of 30,000 characters (``--mean``). One in ten
traces is cut off, a few are empty or malformed, a tenth has no verdict. The same seed gives the same rows.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# (share of traces, tokens of 3.6 characters); straight lines between. Their mean is about 13,400 tokens, 48,000 characters.
QUANTILES = (
    (0, 700),
    (0.17, 5120),
    (0.30, 8192),
    (0.5, 13770),
    (0.58, 16384),
    (0.9, 23374),
    (0.94, 24576),
    (0.99, 27315),
    (1, 32000),
)
MEAN = sum((q - p) * (a + b) / 2 for (p, a), (q, b) in itertools.pairwise(QUANTILES)) * 3.6
POOL = 8_000_000  # characters of text made per process, then walked through in shuffled order; zstd looks back 2 MB at level 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One file to make."""

    path: Path
    index: int
    seed: int
    characters: int
    mean: float
    problems: int
    layout: str = "flat"
    row_group: int = 1000
    level: int = 3
    rows: int | None = None


@functools.lru_cache(maxsize=1)
def paragraphs(seed: int, *, characters: int) -> tuple[str, ...]:
    """Paragraphs of made-up text with the statistics of language: few frequent words, many rare ones. Made once a process."""
    rng = random.Random(seed)
    syllables = [c + v for c in "bcdfghlmnprstvw" for v in "aeiou"] + [
        "th",
        "st",
        "er",
        "in",
        "on",
        "al",
        "ing",
        "ent",
        "x",
        "≤",
        "²",
    ]
    vocabulary = ["".join(rng.choices(syllables, k=rng.choice((1, 1, 2, 2, 3, 3, 4)))) for _ in range(30_000)]
    weights, total = [], 0.0
    for rank in range(len(vocabulary)):
        total += 1 / (rank + 2.7)
        weights.append(total)
    made, found = 0, []
    while made < characters:
        words = rng.choices(vocabulary, cum_weights=weights, k=rng.randint(20, 120))
        for _ in range(len(words) // 8):
            words[rng.randrange(len(words))] = rng.choice(
                (
                    str(rng.randint(0, 99_999)),
                    f"x_{rng.randint(0, 9)} = {rng.randint(2, 999)}",
                    "wait,",
                    "so",
                    f"a[{rng.randint(0, 99)}]",
                    "\n",
                )
            )
        found.append(" ".join(words))
        made += len(found[-1]) + 2
    return tuple(found)


def walk(rng: random.Random, *, seed: int) -> Callable[[int], str]:
    """A function that gives text of about so many characters, never the same stretch twice in a row."""
    pool = list(paragraphs(seed, characters=POOL))
    at = len(pool)

    def text(characters: int) -> str:
        nonlocal at
        parts, made = [], 0
        while made < characters:
            if at == len(pool):
                rng.shuffle(pool)
                at = 0
            parts.append(pool[at])
            made += len(pool[at]) + 2
            at += 1
        return "\n\n".join(parts)[: max(characters, 1)]

    return text


def length(rng: random.Random, *, mean: float) -> int:
    """Characters of one trace."""
    u = rng.random()
    for (p, a), (q, b) in itertools.pairwise(QUANTILES):
        if u <= q:
            return max(60, int((a + (b - a) * (u - p) / (q - p)) * 3.6 * mean / MEAN))
    return int(mean)


def trace(rng: random.Random, text: Callable[[int], str], *, mean: float) -> tuple[str, str, bool]:
    """The text, its finish reason, and whether the opening mark stands in the prompt instead."""
    n, luck = length(rng, mean=mean), rng.random()
    answer = f"\n\n{text(min(1500, n // 10))}\n\n```python\nprint({rng.randint(0, 999)})\n```"
    body = text(max(1, n - len(answer) - 20))
    if luck < 0.10:
        return f"<think>\n{body}", "length", False
    if luck < 0.12:
        return f"<think>\n\n</think>{answer}", "stop", False
    if luck < 0.125:
        return f"<think>\n{body}\nit ends with `</think>`, right?\n</think>{answer}", "stop", False
    if luck < 0.20:
        return f"{body}\n</think>{answer}", "stop", True
    return f"<think>\n{body}\n</think>{answer}", "stop", False


def rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Rows of one file until its characters, or its number of rows, are reached."""
    rng = random.Random(plan.seed * 1_000_003 + plan.index)
    text = walk(rng, seed=plan.seed)
    per_row = 4 if plan.layout == "nested" else 1
    made = number = 0
    while number < plan.rows if plan.rows is not None else made < plan.characters:
        problem = rng.randrange(plan.problems)
        traces = [trace(rng, text, mean=plan.mean) for _ in range(per_row)]
        made += sum(len(t) for t, _, _ in traces)
        verdicts = [None if rng.random() < 0.1 else rng.random() < 0.65 for _ in traces]
        row: dict[str, Any] = {
            "id": f"{plan.index}-{number}",
            "problem_id": f"problem-{problem:07d}",
            "prompt": text(200 + problem % 400) + ("\n<think>\n" if traces[0][2] else ""),
            "rating": None if problem % 20 == 0 else 800 + 100 * (problem * 7919 % 28),
        }
        values = {"generation": [t for t, _, _ in traces], "passed": verdicts, "finish_reason": [f for _, f, _ in traces]}
        yield row | ({f"{k}s": v for k, v in values.items()} if per_row > 1 else {k: v[0] for k, v in values.items()})
        number += 1


def schema(layout: str) -> pa.Schema:
    """Columns of a Parquet file; texts are large strings, since a row group may hold more than 2 GiB."""
    head = [("id", pa.string()), ("problem_id", pa.string()), ("prompt", pa.string()), ("rating", pa.int64())]
    tail = [("generation", pa.large_string()), ("passed", pa.bool_()), ("finish_reason", pa.string())]
    if layout == "nested":
        tail = [(f"{name}s", pa.list_(kind)) for name, kind in tail]
    return pa.schema(head + tail)


def write(plan: Plan) -> tuple[str, int, int]:
    """Make one file; its name, rows and bytes."""
    plan.path.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    if plan.layout == "jsonl":
        with plan.path.open("w", encoding="utf-8") as sink:
            for row in rows(plan):
                sink.write(json.dumps(row, ensure_ascii=False) + "\n")
                number += 1
        return plan.path.name, number, plan.path.stat().st_size
    kind = schema(plan.layout)
    with pq.ParquetWriter(plan.path, kind, compression="zstd", compression_level=plan.level) as writer:
        held: list[pa.RecordBatch] = []
        for batch in batches(rows(plan), size=min(500, plan.row_group)):
            held.append(pa.RecordBatch.from_pylist(batch, schema=kind))
            number += len(batch)
            if sum(b.num_rows for b in held) >= plan.row_group:
                writer.write_table(pa.Table.from_batches(held), row_group_size=plan.row_group)
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held), row_group_size=plan.row_group)
    return plan.path.name, number, plan.path.stat().st_size


def batches(found: Iterable[dict[str, Any]], *, size: int) -> Iterator[list[dict[str, Any]]]:
    held: list[dict[str, Any]] = []
    for row in found:
        held.append(row)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held


def make(plans: list[Plan], *, jobs: int, quiet: bool = False) -> None:
    """Make files in ``jobs`` processes."""
    total = done = 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for name, number, size in pool.imap(write, plans, chunksize=max(1, len(plans) // 200)):
            total, done = total + size, done + number
            if not quiet:
                print(f"{name}: {number:,} rows, {size / 1e6:,.0f} MB", flush=True)
    print(f"{plans[0].path.parent}: {done:,} rows in {len(plans):,} files, {total / 1e6:,.0f} MB", flush=True)


def shards(out: Path, first: Plan, *, count: int) -> list[Plan]:
    """The same plan for each of ``count`` files."""
    end = "jsonl" if first.layout == "jsonl" else "parquet"
    each = first.characters // count
    return [replace(first, path=out / f"train-{i:05d}-of-{count:05d}.{end}", index=i, characters=each) for i in range(count)]


def wide(out: Path, first: Plan, *, scale: float, jobs: int) -> None:
    """Three shapes that break tools which hold a row group, a file handle for each shard, or a problem in memory."""
    big = replace(first, path=out / "one-group" / "train.parquet", characters=int(4e9 * scale), row_group=1 << 30)
    make([big], jobs=1)
    count = max(2, int(20_000 * scale))
    small = [
        replace(first, path=out / "many-shards" / f"{i % 100:02d}" / f"part-{i:05d}.parquet", index=i, rows=3, mean=3_000)
        for i in range(count)
    ]
    make(small, jobs=jobs, quiet=True)
    # Short traces: it is their number that matters here, not their length.
    one = replace(first, path=out / "one-problem" / "train.parquet", rows=max(2, int(100_000 * scale)), mean=2_000, problems=1)
    make([one], jobs=1)


def main() -> None:
    """Make a corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gb", type=float, default=0.5, help="10^9 characters of traces")
    parser.add_argument("--layout", choices=["flat", "nested", "jsonl"], default="flat")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the --wide shapes")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--row-group", type=int, default=1000)
    parser.add_argument("--mean", type=float, default=30_000, help="characters of a trace, on average")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    first = Plan(
        path=args.out,
        index=0,
        seed=args.seed,
        characters=int(args.gb * 1e9),
        mean=args.mean,
        problems=max(10, int(args.gb * 1e9 / args.mean / 3)),
        layout=args.layout,
        row_group=args.row_group,
    )
    if args.wide:
        wide(args.out, first, scale=args.scale, jobs=args.jobs)
    else:
        make(shards(args.out, first, count=args.shards), jobs=args.jobs)


if __name__ == "__main__":
    main()
