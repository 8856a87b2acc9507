"""Rows into Parquet files one after the other; where files and row groups end depends on the rows alone."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.rows import conform

SHARD_BYTES: Final = 500 << 20
"""Arrow bytes of a shard, as ``datasets`` cuts them."""
GROUP_BYTES: Final = 32 << 20
"""Arrow bytes of a row group: small enough to read in little memory, large enough to compress well."""
WRITER: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 3,
    "use_content_defined_chunking": True,
    "write_page_index": True,
}


class Shards:
    """Parquet files one after the other, cut by bytes or at given numbers of rows; row groups by bytes."""

    def __init__(self, folder: Path, schema: pa.Schema, ends: list[int] | None) -> None:
        self.folder, self.schema, self.ends = folder, schema, ends
        self.writer: pq.ParquetWriter | None = None
        self.held: list[pa.Table] = []
        self.held_bytes = self.shard_bytes = self.rows = self.shard_rows = 0
        self.done: list[int] = []
        self.pool = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None  # compressing takes as long as reading: both at once

    def add(self, table: pa.Table) -> None:
        """Append rows. Where files and row groups end depends on the rows alone, not on how they come in batches."""
        table = typed(table, self.schema)
        ends = np.cumsum(row_bytes(table))
        at, before = 0, 0
        while at < table.num_rows:
            room = min(GROUP_BYTES - self.held_bytes, SHARD_BYTES - self.shard_bytes if self.ends is None else GROUP_BYTES)
            n = int(np.searchsorted(ends[at:], before + room)) + 1  # the row that fills a group belongs to it
            if self.ends is not None:
                n = min(n, self.ends[len(self.done)] - self.rows)
            piece = table.slice(at, n)
            at += piece.num_rows
            self._hold(piece, int(ends[at - 1]) - before)
            before = int(ends[at - 1])

    def _hold(self, piece: pa.Table, size: int) -> None:
        self.held.append(piece)
        self.held_bytes += size
        self.shard_bytes += size
        self.rows += piece.num_rows
        self.shard_rows += piece.num_rows
        place = len(self.done)
        full = (
            self.shard_bytes >= SHARD_BYTES if self.ends is None else self.rows == self.ends[place] and place + 1 < len(self.ends)
        )
        if full:
            self._next()
        elif self.held_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.folder / f"{len(self.done):05d}.part", self.schema, **WRITER)
        if self.held:
            self._written()
            self.writing = self.pool.submit(_write_group, self.writer, self.held)
            self.held, self.held_bytes = [], 0

    def _written(self) -> None:
        """Wait for the row group under way, and raise what stopped it."""
        if self.writing is not None:
            writing, self.writing = self.writing, None
            writing.result()

    def _next(self) -> None:
        self._flush()
        self._written()
        assert self.writer is not None
        self.writer.close()
        self.done.append(self.shard_rows)
        self.writer, self.shard_bytes, self.shard_rows = None, 0, 0

    def close(self) -> list[int]:
        if self.shard_rows or not self.done:
            self._next()
        return self.done

    def abort(self) -> None:
        self.pool.shutdown(wait=True)
        if self.writer is not None:
            with contextlib.suppress(Exception):
                self.writer.close()


def _write_group(writer: pq.ParquetWriter, held: list[pa.Table]) -> None:
    table = pa.concat_tables(held).combine_chunks()
    writer.write_table(table, row_group_size=table.num_rows)


def row_bytes(table: pa.Table) -> np.ndarray[Any, Any]:
    """Int64, about the Arrow bytes of each row; a function of its values alone, however the table is sliced or chunked."""
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        sizes += np.concatenate([_value_bytes(c) for c in column.chunks]) if column.num_chunks else 0
    return sizes


def _value_bytes(values: pa.Array) -> np.ndarray[Any, Any]:
    dtype, width = values.type, np.full(len(values), 8, np.int64)
    inner: np.ndarray[Any, Any]
    if pa.types.is_struct(dtype):
        return sum((_value_bytes(child) for child in values.flatten()), np.zeros(len(values), np.int64))
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        size: np.ndarray[Any, Any] = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        ends = np.cumsum(size)
        inner = np.concatenate([[0], np.cumsum(_value_bytes(values.flatten()))])
        width += inner[ends] - inner[ends - size]
    sized = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_it(dtype) for is_it in sized):
        width += pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return width


def typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly this schema: what a source lacks is null, numbers are widened."""
    if table.schema.equals(schema):
        return table
    return pa.Table.from_batches([conform(b, schema) for b in table.to_batches()], schema=schema)
