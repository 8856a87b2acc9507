"""Counted lengths on disk: a second question at another bound reads no text.

Entries are Parquet files under the user's cache folder, one per key. A key is made of what was counted (``identity`` of the
data) and how (``Counter.key``), never of a path alone. Files are written aside and renamed, and hold their own key: a
corrupt, half-written or foreign file is no entry, and is written anew. Two runs at once write the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

_FORMAT: Final = b"1"
_SUFFIX: Final = ".parquet"
OBJECTS: Final = "objects"
"""Below it lie copies of files of object stores (``objects``)."""

SETTLED_NS: Final = 2_000_000_000
"""A file changed more recently is not trusted: two writes within the clock's grain can share one time stamp."""


def folder() -> Path:
    """``CURATE_CACHE``, else ``curate`` under ``XDG_CACHE_HOME``, else under the user's ``.cache``."""
    if own := os.environ.get("CURATE_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "curate"


def identity(path: Path, *, now_ns: int | None = None) -> str | None:
    """What this file's content is known by, or None when it cannot be trusted (missing, or changed just now).

    Device, inode, size and modification time in nanoseconds, and for Parquet a hash of the footer (row counts, offsets and
    statistics of every column). Copies and rewrites in place with a kept time stamp change at least one of them.
    """
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            footer = _footer(file.fileno(), stat.st_size)
    except OSError:
        return None
    now = time.time_ns() if now_ns is None else now_ns
    if now - max(stat.st_mtime_ns, stat.st_ctime_ns) < SETTLED_NS:
        return None
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{footer}"


def _footer(descriptor: int, size: int) -> str:
    """A hash of the Parquet footer; of the last 4 KiB for other files."""
    tail = os.pread(descriptor, 8, max(0, size - 8))
    length = int.from_bytes(tail[:4], "little") + 8 if tail[4:] == b"PAR1" else 4096
    length = min(length, size)
    return hashlib.blake2b(os.pread(descriptor, length, size - length), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One cached frame: its ``key``, size in bytes, rows, and when it was written (seconds since 1970)."""

    path: Path
    key: str
    size: int
    rows: int
    written: float


def _path(key: str) -> Path:
    return folder() / (hashlib.sha256(key.encode()).hexdigest()[:40] + _SUFFIX)


def lookup(key: str) -> pl.DataFrame | None:
    """The frame stored under ``key``, or None. Whatever is wrong with a file, it is then no entry."""
    found = lookup_with_meta(key)
    return None if found is None else found[0]


def lookup_with_meta(key: str) -> tuple[pl.DataFrame, str] | None:
    """The frame and the text stored with it."""
    path = _path(key)
    try:
        meta = pq.read_metadata(path).metadata or {}
        if meta.get(b"curate-cache") != _FORMAT or meta.get(b"curate-key") != key.encode():
            return None
        frame = pl.read_parquet(path)
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError):
        return None
    return frame, meta.get(b"curate-meta", b"").decode()


def store(key: str, frame: pl.DataFrame, *, meta: str = "") -> bool:
    """Keep ``frame`` and a text under ``key``; False where the folder cannot be written (a cache is no duty)."""
    path = _path(key)
    metadata = {"curate-cache": _FORMAT.decode(), "curate-key": key, "curate-meta": meta}
    aside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        os.close(descriptor)
        frame.write_parquet(aside, compression="zstd", compression_level=1, metadata=metadata)
        Path(aside).replace(path)
    except OSError:
        if aside is not None:
            with contextlib.suppress(OSError):
                Path(aside).unlink()
        return False
    return True


def entries() -> list[Entry]:
    """What the cache holds, newest first; files that are no entries are left out."""
    found = []
    for path in sorted(folder().glob(f"*{_SUFFIX}")):
        try:
            parquet = pq.read_metadata(path)
            meta, stat = parquet.metadata or {}, path.stat()
        except (OSError, pa.ArrowException):
            continue
        if meta.get(b"curate-cache") == _FORMAT:
            key = meta.get(b"curate-key", b"").decode()
            found.append(Entry(path=path, key=key, size=stat.st_size, rows=parquet.num_rows, written=stat.st_mtime))
    return sorted(found, key=lambda e: (-e.written, e.key))


def clear() -> int:
    """Delete every entry, and what an interrupted run left; how many files went. Other files are left alone."""
    gone = 0
    named = [p for p in folder().glob(f"*{_SUFFIX}") if len(p.stem) == 40 and set(p.stem) <= set("0123456789abcdef")]
    for path in [*named, *folder().glob(".*.part")]:
        with contextlib.suppress(OSError):
            path.unlink()
            gone += 1
    for path in (folder() / OBJECTS).glob("*/*"):
        with contextlib.suppress(OSError):
            path.unlink()
            gone += 1
            path.parent.rmdir()
    return gone
