"""Parts of a ledger that several machines made (``count --shard i/n``), and one ledger of them (``merge``).

A part is a Parquet file of raw facts with what rows cannot say under the key ``curate-part``. Parts of the same sources and options
give the ledger that one machine makes, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curate.errors import CurateError
from curate.settling import Raw, Tally

KEY: Final = b"curate-part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Share ``i`` of ``n``, as it lies in a file."""

    path: Path
    i: int
    n: int
    raw: Raw


def to_bytes(raw: Raw, share: tuple[int, int]) -> bytes:
    """A part as Parquet."""
    said = {
        "format": 1,
        "share": share,
        "known": raw.known,
        "tallies": [{"cut": dict(t.cut), "crooked": t.crooked} for t in raw.tallies],
        "tokens": raw.tokens,
        "labels": raw.labels,
    }
    table = raw.ledger.to_arrow(compat_level=pl.CompatLevel.oldest())
    table = table.replace_schema_metadata({KEY: json.dumps(said, sort_keys=True, ensure_ascii=False)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def read(path: Path) -> Part:
    """A part from its file.

    Raises:
        CurateError: the file is none.
    """
    try:
        said: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[KEY])
        frame = pl.read_parquet(path, glob=False)
    except (KeyError, ValueError, OSError, pa.ArrowException, pl.exceptions.PolarsError):
        raise CurateError(f"{path} is no part of a ledger. `curate count SOURCE --shard 1/4 -o FILE` writes one.") from None
    tallies = tuple(Tally(cut=t["cut"], crooked=tuple(t["crooked"])) for t in said["tallies"])
    raw = Raw(ledger=frame, tallies=tallies, known=tuple(said["known"]), tokens=said["tokens"], labels=tuple(said["labels"]))
    return Part(path=path, i=said["share"][0], n=said["share"][1], raw=raw)


def merge(paths: Sequence[Path]) -> Raw:
    """All parts as one, whatever the order in which they are given.

    Raises:
        CurateError: a part is missing or there twice, or parts are not of the same sources and options.
    """
    parts = sorted((read(p) for p in paths), key=lambda p: p.i)
    first = parts[0]
    for part in parts[1:]:
        if part.n != first.n:
            raise CurateError(f"{first.path} is one of {first.n} parts and {part.path} one of {part.n}. Merge parts of one run.")
        if (part.raw.known, part.raw.tokens, part.raw.labels) != (first.raw.known, first.raw.tokens, first.raw.labels):
            raise CurateError(f"{first.path} and {part.path} were made of different sources or options. Merge parts of one run.")
    have = [p.i for p in parts]
    missing = sorted(set(range(1, first.n + 1)) - set(have))
    if missing:
        listed = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise CurateError(
            f"Of {first.n} parts {len(missing)} are missing: {listed}. Make them with --shard {missing[0]}/{first.n}."
        )
    if len(have) != len(set(have)):
        raise CurateError(f"Part {next(i for i in have if have.count(i) > 1)} of {first.n} is given twice. Name each part once.")
    ledger = pl.concat([p.raw.ledger for p in parts], how="diagonal_relaxed").sort("source", maintain_order=True)
    tallies = tuple(sum(of_source, Tally()) for of_source in zip(*(p.raw.tallies for p in parts), strict=True))
    return Raw(ledger=ledger, tallies=tallies, known=first.raw.known, tokens=first.raw.tokens, labels=first.raw.labels)
