"""Where rows come from: files of many formats as numbered batches of whole rows, flat in memory.

Every format becomes the same thing: ``Table`` with a schema, a row count and tasks; a task reads one stretch of rows (a Parquet row
group, a block of JSON lines) and yields Arrow batches of a few megabytes with the number of their first row. Row numbers run over the
files of a source sorted by path, so a ledger row finds its text again. Parquet costs nothing beyond its decoding; JSON lines are
read twice, because a type is known only when the last line has been seen.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curate import cache, records, rows
from curate.errors import CurateError
from curate.room import LONG

BATCH_BYTES: Final = 8 << 20
"""Decoded text of a batch: enough to hide the cost of a call, small enough that a few in flight do not matter."""

PIECE_ROWS: Final = 1024
"""Rows unpacked at a time: a thousand long traces are 30 MB, and a thousand short rows cost no more than the call."""

WHOLE_BYTES: Final = 64 << 20
"""Row groups up to this size, as their footer has it, are read in one call."""

DATA: Final = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".arrow")
PACKED: Final = (".gz", ".zst")
LEDGER_KEY: Final = b"curate"


FAULTS: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises of a damaged file; the last where its own message quotes bytes of it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole source rows and the number of the first of them."""

    row: int
    data: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Rows:
    """Whole source rows as a frame, the number of the first of them, and how many they are.

    A long row alone has an empty row behind it in its frame, which is not counted: polars keeps a frame of one row as single values
    and copies their text at every step, a dozen times in all.
    """

    row: int
    rows: int
    frame: pl.DataFrame


def _framed(batch: Batch) -> Rows:
    data = batch.data
    if data.num_rows == 1 and data.nbytes >= LONG:
        data = pa.RecordBatch.from_arrays(list(map(_lengthened, data.columns)), schema=data.schema)
    return Rows(batch.row, batch.data.num_rows, rows.as_frame(data))


def _lengthened(column: pa.Array) -> pa.Array:
    """A column of one row with a null behind it; a text stays where it is."""
    width = {pa.string(): np.int32, pa.large_string(): np.int64}.get(column.type)
    if width is None or column.null_count:
        return pa.concat_arrays([column, pa.nulls(1, column.type)])
    _, offsets, data = column.buffers()
    start, end = np.frombuffer(offsets, width, 2, column.offset * np.dtype(width).itemsize)
    ends = pa.py_buffer(np.array([start, end, end], width))
    return pa.Array.from_buffers(column.type, 2, [pa.py_buffer(b"\x01"), ends, data])


@dataclass(frozen=True, slots=True)
class Task:
    """A stretch of rows of one file that can be read by itself, in any order and by any worker."""

    file: str
    row: int
    rows: int
    read: Callable[[Sequence[str] | None], Iterator[Batch]]
    whole: Callable[[Sequence[str]], pl.DataFrame | None] | None = None
    """Reads some columns of all rows at once, where that is small and faster; None where it cannot, and ``read`` has to."""
    longest: int = 0
    """Bytes of its longest row, as far as that is known."""

    def frames(self, columns: Sequence[str]) -> Iterator[Rows]:
        """The rows as frames of a few megabytes."""
        frame = self.whole(columns) if self.whole is not None else None
        if frame is not None:
            yield Rows(self.row, frame.height, frame)
            return
        yield from map(_framed, self.read(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One SOURCE as it lies on disk."""

    name: str
    files: tuple[Path, ...]
    schema: pa.Schema
    rows: int
    tasks: tuple[Task, ...]
    bad_lines: tuple[str, ...] = ()
    metadata: dict[bytes, bytes] | None = None

    @property
    def bytes(self) -> int:
        return sum(f.stat().st_size for f in self.files if f.exists())


def kind(path: Path) -> str | None:
    """``parquet``, ``jsonl``, ``json``, ``csv``, ``arrow``, or None for a file that holds no data we read."""
    name = path.name.lower()
    for pack in PACKED:
        if name.endswith(pack) and not name.endswith((".parquet" + pack, ".arrow" + pack)):
            name = name.removesuffix(pack)
    ending = next((e for e in DATA if name.endswith(e)), None)
    return None if ending is None else ending[1:].replace("ndjson", "jsonl")


def open_table(name: str, files: Sequence[Path], *, skip_bad_rows: bool = False, cached: bool = True) -> Table:
    """Open files as one table. Reads footers of Parquet, and JSON lines once for their types.

    Args:
        skip_bad_rows: leave out lines that are no rows, instead of stopping at the first.
        cached: take the types and places of JSON lines from an earlier reading of the same file.

    Raises:
        CurateError: a file is missing, empty of data, cut short or broken; the sentence names file and line.
    """
    parts = [_open_file(f, skip_bad_rows=skip_bad_rows, cached=cached) for f in files]
    broken = [p for p in parts if isinstance(p, CurateError)]
    if broken:
        raise CurateError(" ".join(str(e) for e in broken[:5]) + (f" And {len(broken) - 5} more files." if len(broken) > 5 else ""))
    good = [p for p in parts if isinstance(p, Table)]
    schema = rows.unify([p.schema for p in good])
    bad = tuple(b for p in good for b in p.bad_lines)
    if not schema.names and bad:
        raise CurateError(f"No line of {name} can be read: {bad[0]}. Name another SOURCE.")
    if not schema.names:
        raise CurateError(
            f"{name} holds no rows: {_listed(files)} {'is' if len(files) == 1 else 'are'} empty. Name another SOURCE."
        )
    tasks, at = [], 0
    for part in good:
        for task in part.tasks:
            tasks.append(_shifted(task, at, schema, part.schema))
        at += part.rows
    metadata = good[0].metadata if len(good) == 1 else None
    return Table(name=name, files=tuple(files), schema=schema, rows=at, tasks=tuple(tasks), bad_lines=bad, metadata=metadata)


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(str(f) for f in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _plain(path: Path, schema: pa.Schema) -> pa.Schema:
    """A file's schema with types that every later step can hold (see ``rows.plain``).

    Raises:
        CurateError: two columns have one name, or a name that is no text.
    """
    rows.check_names(path, schema)
    twice = next((n for i, n in enumerate(schema.names) if n in schema.names[:i]), None)
    if twice is not None:
        raise CurateError(f"{path} has two columns called {twice}. Rename one of them.")
    return pa.schema([pa.field(f.name, rows.plain(f.type)) for f in schema])


def _shifted(task: Task, at: int, schema: pa.Schema, file: pa.Schema) -> Task:
    """The same stretch, numbered over the pool and with the pool's types."""

    def read(columns: Sequence[str] | None) -> Iterator[Batch]:
        want = schema if columns is None else pa.schema([schema.field(c) for c in columns])
        have = None if columns is None else [c for c in columns if c in file.names] or file.names[:1]

        def moved(batch: Batch) -> Batch:
            return Batch(batch.row + at, rows.conform(batch.data, want))

        yield from map(moved, task.read(have))  # a loop would hold each batch while the next one is read

    same = {f.name for f in file if schema.field(f.name).type.equals(f.type)}

    def whole(columns: Sequence[str]) -> pl.DataFrame | None:
        return task.whole(columns) if task.whole is not None and same.issuperset(columns) else None

    return Task(task.file, task.row + at, task.rows, read, whole, task.longest)


def _open_file(path: Path, *, skip_bad_rows: bool, cached: bool) -> Table | CurateError:
    if kind(path) in ("jsonl", "json") and cached and (found := _known_lines(path, skip_bad_rows)) is not None:
        return _of_lines(path, found)
    reader = {"parquet": _parquet, "jsonl": _jsonl, "json": _json, "csv": _csv, "arrow": _arrow}[kind(path) or "jsonl"]
    try:
        return reader(path, skip_bad_rows)
    except CurateError as e:
        return e
    except FileNotFoundError:
        return CurateError(f"{path} does not exist any more.")
    except PermissionError:
        return CurateError(f"{path} may not be read: permission denied.")
    except OSError as e:
        return CurateError(f"{path} cannot be read: {e.strerror or e}.")


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _parquet(path: Path, skip_bad_rows: bool) -> Table:
    """One task a row group. Nothing here asks for the facts of a column: pyarrow 26 aborts the process where a footer lies in them."""
    del skip_bad_rows
    try:
        meta = pq.read_metadata(path)
        typed = meta.schema.to_arrow_schema()
        schema = _plain(path, typed)
    except FAULTS as e:
        if isinstance(e, PermissionError | FileNotFoundError):
            raise
        raise CurateError(f"{path} is not a whole Parquet file ({_why_parquet(path)}). Copy or download it again.") from None
    tasks, at = [], 0
    most = PIECE_ROWS // 16 if _coded(typed) else PIECE_ROWS
    for g in range(meta.num_row_groups):
        n, size = meta.row_group(g).num_rows, meta.row_group(g).total_byte_size
        if n:
            piece = max(1, min(n, most, int(BATCH_BYTES * n / max(1, size))))
            # the size is that of pages: a text that many rows share lies there once, so many rows are never taken at once
            small = size <= WHOLE_BYTES and n <= 2 * PIECE_ROWS and (n > 1 or size < LONG)
            whole = _group_frame(path, at, n, schema) if small else None
            tasks.append(Task(str(path), at, n, _group_reader(path, g, at, n, piece, schema), whole, size // n))
        at += n
    if at != meta.num_rows:
        raise CurateError(f"{path} promises {meta.num_rows:,} rows in all and {at:,} in its row groups. Copy or download it again.")
    return Table(name=path.name, files=(path,), schema=schema, rows=at, tasks=tuple(tasks), metadata=meta.metadata)


def _why_parquet(path: Path) -> str:
    size = path.stat().st_size
    if size < 12:
        return f"it has only {size} bytes"
    with path.open("rb") as f:
        head = f.read(4)
        f.seek(-4, 2)
        tail = f.read(4)
    if head == b"PAR1" and tail != b"PAR1":
        return "its end is missing: it was cut short"
    return "its footer cannot be read" if head == b"PAR1" else "it does not begin as one"


def _group_reader(
    path: Path, group: int, first: int, n: int, piece: int, schema: pa.Schema
) -> Callable[[Sequence[str] | None], Iterator[Batch]]:
    def read(columns: Sequence[str] | None) -> Iterator[Batch]:
        want = schema if columns is None else pa.schema([schema.field(c) for c in columns])
        try:
            # pages are streamed: `pre_buffer` would hold the whole row group in memory
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 17) as file:
                at = first
                pieces = file.iter_batches(piece, row_groups=[group], columns=columns, use_threads=False)
                for data in _gathered(map(partial(rows.conform, schema=want), _checked(path, pieces, first))):
                    at += data.num_rows
                    yield Batch(at - data.num_rows, data)
                    del data
        except FAULTS as e:
            raise CurateError(
                f"{path} cannot be read in row group {group}: {str(e).splitlines()[0].rstrip('.')}. Copy or download it again."
            ) from None
        if at != first + n:
            raise CurateError(
                f"{path} promises {n:,} rows in row group {group} and holds {at - first:,}. Copy or download it again."
            )

    return read


def _group_frame(path: Path, first: int, n: int, schema: pa.Schema) -> Callable[[Sequence[str]], pl.DataFrame | None]:
    """A small row group in one call: polars decodes it with a fifth less work and half the memory of the pages one by one."""

    def whole(columns: Sequence[str]) -> pl.DataFrame | None:
        if not all(_simple(schema.field(c).type) for c in columns):
            return None
        try:
            frame = pl.scan_parquet(path, glob=False).slice(first, n).select(columns).collect(engine="in-memory")
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            return None  # the reader of pages knows what is wrong, and says it
        return frame if frame.height == n else None

    return whole


def _simple(dtype: pa.DataType) -> bool:
    """Types that polars and Arrow agree on to the letter."""
    if pa.types.is_struct(dtype):
        return all(_simple(f.type) for f in dtype)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _simple(dtype.value_type)
    known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return any(is_it(dtype) for is_it in known) and not pa.types.is_float16(dtype)


def _checked(path: Path, pieces: Iterator[pa.RecordBatch], row: int) -> Iterator[pa.RecordBatch]:
    """The same pieces, or an error: other libraries abort on text that is no UTF-8, and on offsets that point outside.

    Costs 7 % of the decoding of zstd Parquet.
    """
    for piece in pieces:
        try:
            piece.validate(full=True)
        except pa.ArrowInvalid as e:
            found = _NOT_UTF8.match(str(e))
            what = (
                f"row {row + int(found[2])}, column {piece.schema.names[int(found[1])]}: the text is not UTF-8"
                if found
                else f"damaged near row {row} ({str(e).splitlines()[0]})"
            )
            raise CurateError(f"{path} {what}. Write the file again, or leave it out.") from None
        row += piece.num_rows
        yield piece
        del piece  # or it is in memory still while the next one is unpacked


_NOT_UTF8: Final = re.compile(r"In column (\d+): Invalid: Invalid UTF8 sequence at string index (\d+)")


def _gathered(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pieces put together to at least half of ``BATCH_BYTES``: one of nearly that size is passed on without a copy.

    The footer tells the size of pages, not of what they unpack to: a text that stands in a thousand rows lies there once. So rows
    are unpacked in small pieces, whatever the footer says.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += piece.nbytes
        del piece
        if size >= BATCH_BYTES // 2:
            yield pa.concat_batches(held) if len(held) > 1 else held.pop()
            held, size = [], 0
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


# --- JSON lines, JSON, CSV --------------------------------------------------------------------------------------------


def _jsonl(path: Path, skip_bad_rows: bool) -> Table:
    before = cache.identity(path)
    return _indexed(path, rows.scan_lines(path, skip_bad_rows=skip_bad_rows), before, skip_bad_rows)


def _indexed(path: Path, index: rows.Lines, before: str | None, skip_bad_rows: bool) -> Table:
    """A file of lines or items as a table; where they lie is kept for the next time, unless the file changed meanwhile."""
    if before is not None and before == cache.identity(path):
        said = {"schema": base64.b64encode(index.schema.serialize().to_pybytes()).decode(), "rows": index.rows, "bad": index.bad}
        said["array"] = index.array
        cache.store(_lines_key(before, skip_bad_rows), pl.DataFrame(index.blocks, schema=_BLOCK), meta=json.dumps(said))
    return _of_lines(path, index)


_BLOCK: Final = {f.name: pl.Int64 for f in fields(rows.Block)}
LINES_VERSION: Final = 2
"""Raised when the types or places of lines are found differently."""


def _lines_key(identity: str, skip_bad_rows: bool) -> str:
    return f"lines {LINES_VERSION} {skip_bad_rows} {identity}"


def _known_lines(path: Path, skip_bad_rows: bool) -> rows.Lines | None:
    """Types and places of the lines of a file as an earlier reading found them, or None."""
    identity = cache.identity(path)
    found = None if identity is None else cache.lookup_with_meta(_lines_key(identity, skip_bad_rows))
    if found is None:
        return None
    try:
        said = json.loads(found[1])
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"])))
        blocks = tuple(rows.Block(*row) for row in found[0].select(list(_BLOCK)).iter_rows())
        return rows.Lines(schema, int(said["rows"]), blocks, {int(k): str(v) for k, v in said["bad"].items()}, bool(said["array"]))
    except (ValueError, KeyError, TypeError, pa.ArrowException, pl.exceptions.PolarsError):
        return None


def _of_lines(path: Path, index: rows.Lines) -> Table:
    tasks = tuple(Task(str(path), b.row, b.rows, _line_reader(path, b, index), longest=b.longest) for b in index.blocks if b.rows)
    bad = tuple(f"{path} line {n}: {why}" for n, why in index.bad.items())
    return Table(name=path.name, files=(path,), schema=index.schema, rows=index.rows, tasks=tasks, bad_lines=bad)


def _line_reader(path: Path, block: rows.Block, index: rows.Lines) -> Callable[[Sequence[str] | None], Iterator[Batch]]:
    def read(columns: Sequence[str] | None) -> Iterator[Batch]:
        want = index.schema if columns is None else pa.schema([index.schema.field(c) for c in columns])
        at = block.row
        for data in rows.read_block(path, block, want, array=index.array):
            at += data.num_rows
            yield Batch(at - data.num_rows, data)
            del data

    return read


def _json(path: Path, skip_bad_rows: bool) -> Table:
    before = cache.identity(path)
    if rows.rough_size(path) >= rows.WHOLE_DOCUMENT and (index := rows.scan_array(path)) is not None:
        return _indexed(path, index, before, skip_bad_rows)
    items = rows.read_json(path)
    if items is None:
        return _jsonl(path, skip_bad_rows)
    return _in_memory(path, items, rows.schema_of(items, path))


def _in_memory(path: Path, items: list[dict[str, Any]], schema: pa.Schema) -> Table:
    size = max(1, min(len(items), int(len(items) * BATCH_BYTES / max(1, rows.rough_size(path)))))

    def reader(at: int) -> Callable[[Sequence[str] | None], Iterator[Batch]]:
        def read(columns: Sequence[str] | None) -> Iterator[Batch]:
            want = schema if columns is None else pa.schema([schema.field(c) for c in columns])
            yield Batch(at, rows.to_arrow(items[at : at + size], want))

        return read

    tasks = tuple(Task(str(path), at, min(size, len(items) - at), reader(at)) for at in range(0, len(items), size))
    return Table(name=path.name, files=(path,), schema=schema, rows=len(items), tasks=tasks)


def _csv(path: Path, skip_bad_rows: bool) -> Table:
    del skip_bad_rows
    if rows.rough_size(path) < rows.WHOLE_DOCUMENT or (found := records.scan(path)) is None:
        return replace(of_frame(path.name, records.read_whole(path)), files=(path,))
    together = [found.blocks] if rows.packed(path) else [(b,) for b in found.blocks]
    tasks = tuple(_record_task(path, found, blocks) for blocks in together)
    return Table(name=path.name, files=(path,), schema=found.schema, rows=found.rows, tasks=tasks)


def _record_task(path: Path, found: records.Records, blocks: Sequence[rows.Block]) -> Task:
    def read(columns: Sequence[str] | None) -> Iterator[Batch]:
        want = found.schema if columns is None else pa.schema([found.schema.field(c) for c in columns])
        at = blocks[0].row
        for data in records.read(path, found, blocks, want):
            at += data.num_rows
            yield Batch(at - data.num_rows, data)
            del data

    longest = max(b.longest for b in blocks)
    return Task(str(path), blocks[0].row, sum(b.rows for b in blocks), read, longest=longest)


def of_frame(name: str, frame: pl.DataFrame) -> Table:
    """A frame in memory as a table without files."""
    whole = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    size = max(1, int(whole.num_rows * BATCH_BYTES / max(1, whole.nbytes)))

    def reader(at: int) -> Callable[[Sequence[str] | None], Iterator[Batch]]:
        def read(columns: Sequence[str] | None) -> Iterator[Batch]:
            part = whole.slice(at, size) if columns is None else whole.slice(at, size).select(list(columns))
            yield Batch(at, part.combine_chunks().to_batches()[0])

        return read

    starts = range(0, whole.num_rows, size)
    tasks = tuple(Task(name, at, min(size, whole.num_rows - at), reader(at)) for at in starts)
    return Table(name=name, files=(), schema=whole.schema, rows=whole.num_rows, tasks=tasks)


# --- Arrow ------------------------------------------------------------------------------------------------------------

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"


def _arrow(path: Path, skip_bad_rows: bool) -> Table:
    """Arrow files and streams (``save_to_disk`` writes streams), mapped into memory; one task a record batch.

    Each batch is visited once for its number of rows: free where it is not compressed, and never more than one is unpacked.
    """
    del skip_bad_rows
    try:
        with pa.memory_map(str(path)) as source:
            whole = source.read(6) == b"ARROW1"
            source.seek(0)
            schema, places = _file_places(source) if whole else _stream_places(source)
    except FAULTS as e:
        if isinstance(e, PermissionError | FileNotFoundError):
            raise
        raise CurateError(f"{path} is not a whole Arrow file. Copy or download it again.") from None
    tasks, at = [], 0
    for place, n in places:
        if n:
            tasks.append(Task(str(path), at, n, _record_reader(path, place, at, schema, whole)))
        at += n
    return Table(name=path.name, files=(path,), schema=_plain(path, schema), rows=at, tasks=tuple(tasks))


def _file_places(source: pa.NativeFile) -> tuple[pa.Schema, list[tuple[int, int]]]:
    reader = pa.ipc.open_file(source)
    return reader.schema, [(i, reader.get_batch(i).num_rows) for i in range(reader.num_record_batches)]


def _stream_places(source: pa.NativeFile) -> tuple[pa.Schema, list[tuple[int, int]]]:
    """Byte offsets of the batches of a stream, and their rows; a stream with dictionaries has one place, its beginning."""
    size = source.size()
    source.seek(max(0, size - len(_END_OF_STREAM)))
    if source.read() != _END_OF_STREAM:
        raise pa.ArrowInvalid("the end of the stream is missing")
    source.seek(0)
    reader, places = pa.ipc.open_stream(source), []
    while True:
        at = source.tell()
        try:
            places.append((at, reader.read_next_batch().num_rows))
        except StopIteration:
            break
    if _coded(reader.schema):
        places = [(0, sum(n for _, n in places))]
    return reader.schema, places


def _coded(schema: pa.Schema) -> bool:
    """Whether a column, or a field of one, is stored as codes of a dictionary: small here, large when decoded."""

    def types(dtype: pa.DataType) -> Iterator[pa.DataType]:
        yield dtype
        for i in range(dtype.num_fields):
            yield from types(dtype.field(i).type)

    return any(pa.types.is_dictionary(t) for f in schema for t in types(f.type))


def _record_reader(
    path: Path, place: int, first: int, schema: pa.Schema, whole: bool
) -> Callable[[Sequence[str] | None], Iterator[Batch]]:
    most = PIECE_ROWS // 16 if _coded(schema) else PIECE_ROWS

    def batches(source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        if whole:
            yield pa.ipc.open_file(source).get_batch(place)
        elif place == 0:
            yield from pa.ipc.open_stream(source)
        else:
            source.seek(place)
            yield pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)

    def pieces(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as source:
            for data in batches(source):
                mine = data if columns is None else data.select(list(columns))
                size = max(1, min(most, int(mine.num_rows * BATCH_BYTES / max(1, mine.nbytes))))
                yield from (mine.slice(i, size) for i in range(0, mine.num_rows, size))

    def read(columns: Sequence[str] | None) -> Iterator[Batch]:
        want = _plain(path, schema if columns is None else pa.schema([schema.field(c) for c in columns]))
        at = first
        try:
            for data in _gathered(map(partial(rows.conform, schema=want), _checked(path, pieces(columns), first))):
                at += data.num_rows
                yield Batch(at - data.num_rows, data)
                del data
        except FAULTS as e:
            raise CurateError(f"{path} cannot be read from row {at} on: {str(e).splitlines()[0]}") from None

    return read
