"""Rows into Parquet files, some at a time; where files and row groups end depends on the rows alone."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.rows import as_numpy, conform

SHARD_TOKENS: Final = 32 << 20
"""Tokens of a shard, about 128 MB of text: small enough for two to be written, and several to be read, side by side."""

GROUP_BYTES: Final = 8 << 20
"""Arrow bytes of a row group: small enough to read in little memory, large enough to compress well."""

WRITER: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 3,
    "use_content_defined_chunking": True,
    "write_page_index": True,
}
WRITERS: Final = 2
"""Shards written at a time, each by a thread that reads and one that compresses."""


def ends(tokens: Sequence[int] | np.ndarray[Any, Any], count: int | None) -> list[int]:
    """Where shards end, as numbers of rows: ``count`` shards, or one for each ``SHARD_TOKENS``; of as many rows each, and at least one.

    Where there are several, none is left for one writer alone.

    >>> ends([5] * 10, 3), ends([SHARD_TOKENS] * 6, None), ends([SHARD_TOKENS // 2] * 6, None), ends([], 4)
    ([3, 6, 10], [1, 2, 3, 4, 5, 6], [1, 3, 4, 6], [0])
    """
    rows = len(tokens)
    wanted = -(-int(np.sum(tokens, dtype=np.int64)) // SHARD_TOKENS)
    if wanted > 1:
        wanted = -(-wanted // WRITERS) * WRITERS
    n = max(1, min(wanted if count is None else count, rows))
    return [rows * (i + 1) // n for i in range(n)]


class Shard:
    """One Parquet file, with row groups by bytes."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.schema = path, schema
        self.writer = pq.ParquetWriter(path, schema, **WRITER)
        self.held: list[pa.Table] = []
        self.held_bytes = self.rows = 0
        self.pool = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None  # compressing takes as long as reading: both at once

    def add(self, table: pa.Table) -> None:
        """Append rows. Where row groups end depends on the rows alone, not on how they come in batches."""
        table = typed(table, self.schema)
        until = np.cumsum(row_bytes(table))
        at, before = 0, 0
        while at < table.num_rows:
            room = GROUP_BYTES - self.held_bytes
            n = int(np.searchsorted(until[at:], before + room)) + 1  # the row that fills a group belongs to it
            piece = table.slice(at, n)
            at += piece.num_rows
            self.held.append(piece)
            self.held_bytes += int(until[at - 1]) - before
            self.rows += piece.num_rows
            before = int(until[at - 1])
            if self.held_bytes >= GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        self._written()
        if self.held:
            self.writing = self.pool.submit(_write_group, self.writer, self.held)
            self.held, self.held_bytes = [], 0

    def _written(self) -> None:
        """Wait for the row group under way, and raise what stopped it."""
        if self.writing is not None:
            writing, self.writing = self.writing, None
            writing.result()

    def close(self) -> None:
        """Write what is held, and the footer."""
        self._flush()
        self._written()
        self.writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Finish the file, or after a fault let go of it, whatever state it is in."""
        try:
            if kind is None:
                self.close()
        finally:
            self.pool.shutdown(wait=True)
            with contextlib.suppress(Exception):
                self.writer.close()


def _write_group(writer: pq.ParquetWriter, held: list[pa.Table]) -> None:
    # in one piece: where the chunker cuts depends on how a column comes in pieces
    table = pa.concat_tables(held).combine_chunks()
    held.clear()
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
        size: np.ndarray[Any, Any] = as_numpy(pc.list_value_length(values)).astype(np.int64)
        ends = np.cumsum(size)
        inner = np.concatenate([[0], np.cumsum(_value_bytes(values.flatten()))])
        width += inner[ends] - inner[ends - size]
    sized = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_it(dtype) for is_it in sized):
        width += as_numpy(pc.binary_length(values))
    return width


def typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly this schema: what a source lacks is null, numbers are widened."""
    if table.schema.equals(schema):
        return table
    return pa.Table.from_batches([conform(b, schema) for b in table.to_batches()], schema=schema)
