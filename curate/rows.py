"""Rows of JSON lines, JSON and CSV as Arrow, with one type a column whatever the rows disagree on.

Types are merged over all rows before any is converted: a column that is a number here and text there is text; one that is text here
and a list of text there is a list; what has nothing in common is JSON text; a field that appears late is null before. Lines are parsed
by orjson; what it refuses (NaN) or rounds (integers beyond 64 bits) goes to the standard parser; what both refuse is a bad line, named
by its number.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from curate.arrays import NoArray, items
from curate.errors import CurateError
from curate.room import LONG, alone
from curate.thinking import parts_text

BLOCK_BYTES: Final = 8 << 20
_STEP: Final = 1 << 20
MAX_LINE: Final = 1 << 30
"""A longer line is refused: no trace is a gibibyte long, but a decompression bomb is."""

WHOLE_DOCUMENT: Final = 16 << 20
"""A JSON array or a CSV file up to this size is read as a whole; a larger one part by part, as lines are."""

MAX_DOCUMENT: Final = 2 << 30
"""Documents of another kind are held in memory as a whole, so larger ones are refused: objects, and what cannot be cut for certain."""

MAX_DEPTH: Final = 32
MAX_FIELDS: Final = 512
"""Records nested deeper or wider than this are kept as JSON text: they are maps, not columns."""

MAX_COLUMNS: Final = 10_000
MAX_NESTING: Final = 256
"""A deeper line is refused: no trace is nested so, and writers recurse. orjson itself stops at 1,024."""

EXACT: Final = 1 << 53
BOM: Final = b"\xef\xbb\xbf"

Kind = Any
"""``None`` (only nulls), a word (``bool int big uint float str mixed``), ``["list", kind]`` or ``{name: kind}``."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file: byte offset and length, number of the first line (from 1), first row, number of rows, the longest one."""

    offset: int
    size: int
    line: int
    row: int
    rows: int
    longest: int


@dataclass(frozen=True, slots=True)
class Lines:
    schema: pa.Schema
    rows: int
    blocks: tuple[Block, ...]
    bad: dict[int, str]
    array: bool = False
    """The rows are the items of a JSON array, not lines; a block's ``line`` counts items."""


def packed(path: Path) -> str | None:
    """``gzip`` or ``zstd`` by the file's name, None for a plain file."""
    name = path.name.lower()
    return "gzip" if name.endswith(".gz") else "zstd" if name.endswith(".zst") else None


def open_bytes(path: Path) -> BinaryIO:
    """A file for reading, unpacked on the way when its name ends in .gz or .zst.

    Joined members and frames are read as one. Arrow's decoders, because they notice a stream that was cut short (Python's zstandard
    takes the cut for the end) and unpack gzip twice as fast; they never unpack more than they are asked for.
    """
    how = packed(path)
    if how is None:
        return path.open("rb", buffering=1 << 20)
    raw = pa.CompressedInputStream(pa.OSFile(str(path)), how)
    return io.BufferedReader(raw, 1 << 20)


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes | bytearray]:
    """The lines of a file; none is held here while the caller has it."""
    try:
        while (held := [_line(file)])[0]:
            if len(held[0]) > MAX_LINE:
                raise CurateError(f"{path} has a line of over {MAX_LINE:,} bytes; no trace is that long. Is it JSON lines at all?")
            yield held.pop()
    except (OSError, pa.ArrowException) as e:
        if packed(path) is None:
            raise
        raise CurateError(f"{path} cannot be unpacked: it is damaged or cut short ({e}). Copy or download it again.") from None


def _line(file: BinaryIO) -> bytes | bytearray:
    """The next line, empty at the end; a long one grows in one place, where ``readline`` would join pieces and have it twice."""
    line = file.readline(_STEP)
    if len(line) < _STEP or line.endswith(b"\n"):
        return line
    long = bytearray(line)
    while len(long) <= MAX_LINE and (more := file.readline(_STEP)):
        long += more
        if more.endswith(b"\n"):
            break
    return long


def whole(path: Path) -> bytes:
    """A document's bytes, unpacked; refused over ``MAX_DOCUMENT``."""
    size, parts = 0, []
    with open_bytes(path) as file:
        for line in _lines(path, file):
            size += len(line)
            if size > MAX_DOCUMENT:
                raise CurateError(
                    f"{path} holds over {MAX_DOCUMENT >> 30} GiB in one document, which is read as a whole. Write it as JSON lines."
                )
            parts.append(line)
    return b"".join(parts)


def exactly(file: BinaryIO, size: int) -> bytearray:
    """So many bytes of a file, or what there is; never held twice."""
    out = bytearray()
    while len(out) < size and (more := file.read(min(_STEP, size - len(out)))):
        out += more
    return out


def scan_lines(path: Path, *, skip_bad_rows: bool) -> Lines:
    """Read all lines once for their types and places.

    Raises:
        CurateError: at the first line that is no JSON object, unless bad lines are to be skipped.
    """
    kind: Kind = {}
    blocks: list[Block] = []
    bad: dict[int, str] = {}
    offset = start = rows_before = n = longest = 0
    first_line, at = 1, 0
    with open_bytes(path) as file:
        for line in _lines(path, file):
            at += 1
            offset += len(line)
            longest = max(longest, len(line))
            row = parse_line(line, first=at == 1)
            del line  # a long line and its row are gone before the next is read
            if isinstance(row, str):
                if not skip_bad_rows:
                    raise CurateError(f"{path} line {at}: {row}. Mend the line, or use --skip-bad-rows to leave such lines out.")
                bad[at] = row
            elif row is not None:
                kind = _with_row(kind, row, path)
                n += 1
            del row
            if offset - start >= BLOCK_BYTES:
                blocks.append(Block(start, offset - start, first_line, rows_before, n - rows_before, longest))
                start, first_line, rows_before, longest = offset, at + 1, n, 0
    if offset > start:
        blocks.append(Block(start, offset - start, first_line, rows_before, n - rows_before, longest))
    if packed(path) and blocks:
        blocks = [Block(0, offset, 1, 0, n, max(b.longest for b in blocks))]
    return Lines(_schema(kind, path), n, tuple(blocks), bad)


def scan_array(path: Path) -> Lines | None:
    """Types and places of the items of a JSON array, as ``scan_lines`` finds those of lines.

    None where the file is anything but a whole array of sound objects: ``read_json`` knows what else it may be, or what is wrong.
    """
    kind: Kind = {}
    blocks: list[Block] = []
    start = before = n = end = longest = 0
    with open_bytes(path) as file:
        try:
            for end, item in items(file):
                longest = max(longest, len(item))
                row = parse_line(item)
                del item
                if not isinstance(row, dict):
                    return None
                kind = _with_row(kind, row, path)
                del row
                n += 1
                if end - start >= BLOCK_BYTES:
                    blocks.append(Block(start, end - start, before + 1, before, n - before, longest))
                    start, before, longest = end, n, 0
        except (NoArray, OSError, pa.ArrowException):
            return None
    if n > before:
        blocks.append(Block(start, end - start, before + 1, before, n - before, longest))
    if packed(path) and blocks:
        blocks = [Block(0, end, 1, 0, n, max(b.longest for b in blocks))]
    return Lines(_schema(kind, path), n, tuple(blocks), {}, array=True) if n else None


def parse_line(line: bytes | bytearray, *, first: bool = False) -> dict[str, Any] | str | None:
    """One line: its object, what is wrong with it (text), or None for a blank line."""
    if first and line.startswith(BOM):
        line = line.removeprefix(BOM)
    try:
        value = orjson.loads(line)
    except ValueError as e:
        if not line.strip():
            return None
        value = _second_try(line, e)
        if isinstance(value, _Fault):
            return value.text
    if not isinstance(value, dict):
        return f"holds {_word(value)}, not an object with columns"
    if line.count(b"[") + line.count(b"{") > MAX_NESTING and _deep(value):
        return TOO_DEEP
    record: dict[str, Any] = json.loads(line) if _rounded(value) else value
    return record


def _rounded(record: dict[str, Any]) -> bool:
    """Whether orjson may have rounded a long integer: two ids must not become one by it."""
    return any(isinstance(v, float) and abs(v) >= 2**63 for v in record.values())


_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
TOO_DEEP: Final = f"is nested more than {MAX_NESTING} deep"


def _deep(value: Any) -> bool:
    """Whether lists and objects are nested deeper than ``MAX_NESTING``; no recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_NESTING):
        level = [v for c in level for v in (c.values() if isinstance(c, dict) else c) if isinstance(v, dict | list)]
        if not level:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with a text, and how many line ends stand before it."""

    text: str
    line: int = 0


def _second_try(line: bytes | bytearray, why: ValueError) -> Any:
    """What orjson refuses and the standard parser takes (NaN, Infinity, long integers), or what is wrong."""
    end = len(line)
    while line[end - 1 : end] in (b"\r", b"\n"):
        end -= 1
    try:
        text = str(memoryview(line)[:end], "utf-8")
    except UnicodeDecodeError as e:
        lines = line[: e.start].split(b"\n")
        return _Fault(f"the byte 0x{line[e.start]:02X} at byte {len(lines[-1]) + 1} of the line is not UTF-8", len(lines) - 1)
    try:
        value = json.loads(text)
        if _HALF.search(line):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _Fault("holds half of a surrogate pair, which is no character")
    except RecursionError:
        return _Fault(TOO_DEEP)
    except ValueError as e:
        if isinstance(e, json.JSONDecodeError):
            return _Fault(f"is not valid JSON ({e.msg}, column {e.colno})", e.lineno - 1)
        return _Fault(f"is not valid JSON ({why})")
    return value


def _word(value: Any) -> str:
    words = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return words.get(type(value), "a number")


def read_block(path: Path, block: Block, schema: pa.Schema, *, array: bool = False) -> Iterator[pa.RecordBatch]:
    """The good rows of a block, a few megabytes at a time; lines found bad at the first reading are passed over again.

    A long row comes alone, and in one form only: as its line, then as its row, then as Arrow.
    """
    with open_bytes(path) as file:
        if array and block.longest < LONG and packed(path) is None:
            file.seek(block.offset)
            if (together := _parsed_together(file, block)) is not None:
                yield _moved(together, schema)
                return
        if block.offset or (array and packed(path) is None):
            file.seek(block.offset)
        left, size, seen, at = block.size, 0, 0, block.line
        out: list[dict[str, Any]] = []
        for line in _items_of(path, file, block) if array else _lines(path, file):
            left -= len(line)
            long = len(line) >= LONG
            if long and out:
                yield _moved(out, schema)
                size = 0
            with alone(len(line)):
                size += len(line)
                row = parse_line(line, first=at == 1)
                del line
                if isinstance(row, dict):
                    out.append(row)
                    seen += 1
                del row
                done = [_moved(out, schema)] if out and (long or size >= BLOCK_BYTES) else []
            if done:
                yield done.pop()
                size = 0
            at += 1
            if left <= 0 or (array and seen == block.rows):
                break
        if seen != block.rows:
            raise CurateError(f"{path} changed while it was read. Run the command again when it is written.")
        if out:
            yield _moved(out, schema)


def _parsed_together(file: BinaryIO, block: Block) -> list[dict[str, Any]] | None:
    """All items of a block at once, a third of the work; None where one needs the standard parser."""
    data = exactly(file, block.size).lstrip(BOM + b" \t\r\n,[")
    try:
        found: list[dict[str, Any]] = orjson.loads(b"".join((b"[", data, b"]")))
    except ValueError:
        return None
    sound = len(found) == block.rows and not any(not isinstance(r, dict) or _rounded(r) for r in found)
    return found if sound else None


def _items_of(path: Path, file: BinaryIO, block: Block) -> Iterator[bytes | bytearray]:
    try:
        yield from map(itemgetter(1), items(file, inside=block.offset > 0))
    except NoArray:
        raise CurateError(f"{path} changed while it was read. Run the command again when it is written.") from None


def _moved(found: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as Arrow; the list is empty afterwards, so that no text is in memory twice."""
    batch = to_arrow(found, schema)
    found.clear()
    return batch


def check_names(path: Path, fields: Iterable[pa.Field]) -> None:
    """Refuse names of columns and fields that other libraries abort on, or cut short.

    Raises:
        CurateError: a name is not UTF-8, or holds the character NUL.
    """
    try:
        bad = next((n for n in _names(fields) if "\0" in n), None)
    except UnicodeDecodeError:
        raise CurateError(f"{path} has a column or field whose name is not UTF-8. Write it again with names in UTF-8.") from None
    if bad is not None:
        raise CurateError(
            f"{path} has a column or field whose name holds the character NUL: {bad!r}. Rename it; is the file damaged?"
        )


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """Names of columns and of all fields within them."""
    for f in fields:
        yield f.name
        yield from _names(f.type.field(i) for i in range(f.type.num_fields))


# --- types ------------------------------------------------------------------------------------------------------------


def kind_of(value: Any, depth: int = 0) -> Kind:
    """The type of one JSON value."""
    if value is None or isinstance(value, bool):
        return None if value is None else "bool"
    if isinstance(value, str):
        return "str"
    if isinstance(value, int):
        if -EXACT <= value <= EXACT:
            return "int"
        return "big" if -(2**63) <= value < 2**63 else "uint" if 0 <= value < 2**64 else "mixed"
    if isinstance(value, float):
        return "float"
    if depth >= MAX_DEPTH:
        return "mixed"
    if isinstance(value, list):
        inner: Kind = None
        for v in value:
            inner = merge(inner, kind_of(v, depth + 1))
        return ["list", inner]
    if len(value) > MAX_FIELDS:
        return "mixed"
    return {k: kind_of(v, depth + 1) for k, v in value.items()}


_WIDER: Final = {
    frozenset(("int", "float")): "float",
    frozenset(("int", "big")): "big",
}


def _with_row(kind: Kind, row: dict[str, Any], path: Path) -> Kind:
    """The types of the columns with one more row; columns are not limited as fields are, but they are in number."""
    new = {k: kind_of(v) for k, v in row.items()}
    if kind.keys() == new.keys():
        return kind if kind == new else {k: merge(kind[k], new[k]) for k in kind}
    kind = {k: merge(kind.get(k), new.get(k)) for k in (*kind, *(k for k in new if k not in kind))}
    if len(kind) > MAX_COLUMNS:
        raise CurateError(
            f"{path} has over {MAX_COLUMNS:,} different columns: its rows are maps, not records. Write their keys as values."
        )
    return kind


def merge(a: Kind, b: Kind) -> Kind:
    """The type that holds both: the wider number, the union of fields, text where they have nothing in common.

    >>> merge("int", "float"), merge("int", "str"), merge({"a": "int"}, {"b": None}), merge("str", ["list", "str"])
    ('float', 'mixed', {'a': 'int', 'b': None}, ['list', 'str'])
    """
    if a == b or b is None:
        return a
    if a is None:
        return b
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() == b.keys() and all(a[k] == b[k] or b[k] is None for k in b):
            return a
        both = {k: merge(a.get(k), b.get(k)) for k in (*a, *(k for k in b if k not in a))}
        return both if len(both) <= MAX_FIELDS else "mixed"
    if isinstance(a, list) and isinstance(b, list):
        return ["list", merge(a[1], b[1])]
    if isinstance(a, list) or isinstance(b, list):
        many, one = (a, b) if isinstance(a, list) else (b, a)
        # a single value is a list of one, unless the list holds something else (text here and typed parts there)
        return ["list", merge(many[1], one)] if many[1] is None or isinstance(many[1], str) == isinstance(one, str) else "mixed"
    if isinstance(a, str) and isinstance(b, str):
        return _WIDER.get(frozenset((a, b)), "mixed")
    return "mixed"


def _arrow_type(kind: Kind) -> pa.DataType:
    if isinstance(kind, dict):
        return pa.struct([pa.field(k, _arrow_type(v)) for k, v in kind.items()]) if kind else pa.string()
    if isinstance(kind, list):
        return pa.list_(_arrow_type(kind[1]))
    simple = {None: pa.null(), "bool": pa.bool_(), "int": pa.int64(), "big": pa.int64(), "uint": pa.uint64(), "float": pa.float64()}
    return simple.get(kind, pa.string())


def _schema(kind: Kind, path: Path) -> pa.Schema:
    schema = pa.schema([pa.field(k, _arrow_type(v)) for k, v in (kind if isinstance(kind, dict) else {}).items()])
    check_names(path, schema)
    return schema


def schema_of(items: Iterable[dict[str, Any]], path: Path) -> pa.Schema:
    kind: Kind = {}
    for item in items:
        kind = _with_row(kind, item, path)
    return _schema(kind, path)


def to_arrow(items: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as Arrow of exactly these types."""
    return pa.RecordBatch.from_arrays([_column([r.get(f.name) for r in items], f.type) for f in schema], schema=schema)


def _column(values: list[Any], dtype: pa.DataType) -> pa.Array:
    if len(values) == 1 and isinstance(values[0], str) and len(values[0]) >= LONG and pa.types.is_string(dtype):
        data = values[0].encode()  # Arrow's builder takes twice the room
        return pa.StringArray.from_buffers(1, pa.array([0, len(data)], pa.int32()).buffers()[1], pa.py_buffer(data))
    try:
        if any(_lone(v, dtype) for v in values):
            raise TypeError("a single value where lists are")
        return pa.array(values, dtype)
    except (pa.ArrowException, TypeError, OverflowError):
        return pa.array([_fit(v, dtype) for v in values], dtype)


def _lone(value: Any, dtype: pa.DataType) -> bool:
    """Whether a single value stands where the type has a list; Arrow takes "" for an empty list."""
    if value is None or not pa.types.is_nested(dtype):
        return False
    if pa.types.is_list(dtype):
        inner = dtype.value_type
        return not isinstance(value, list) or (pa.types.is_nested(inner) and any(_lone(v, inner) for v in value))
    return any(_lone(value.get(f.name), f.type) for f in dtype) if isinstance(value, dict) else True


def _fit(value: Any, dtype: pa.DataType) -> Any:
    """A value in the shape of a type that was merged from several: text where the type is text."""
    if value is None or pa.types.is_null(dtype):
        return None
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return value if isinstance(value, str) else _text(value)
    if pa.types.is_struct(dtype):
        return {f.name: _fit(value.get(f.name), f.type) for f in dtype}
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return [_fit(v, dtype.value_type) for v in (value if isinstance(value, list) else [value])]
    return float(value) if pa.types.is_floating(dtype) else value


def _text(value: Any) -> str | None:
    """A value as text: 7.0 as 7 (ids), NaN as nothing, bytes as UTF-8, typed parts of a message as their text, else JSON."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < EXACT else str(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list) and value and all(isinstance(v, dict) and "type" in v for v in value):
        return parts_text(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def unify(schemas: Sequence[pa.Schema], names: Sequence[str] = ()) -> pa.Schema:
    """One schema for several files: the wider number, the union of fields, text where types have nothing in common."""
    del names
    if all(s.equals(schemas[0]) for s in schemas):
        return schemas[0] if schemas else pa.schema([])
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for f in schema:
            types[f.name] = f.type if f.name not in types else _wider(types[f.name], f.type)
    return pa.schema(list(types.items()))


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if a.equals(b):
        return a
    if _is_list(a) != _is_list(b) and not pa.types.is_null(a) and not pa.types.is_null(b):
        many, one = (a, b) if _is_list(a) else (b, a)
        if many.value_type.equals(one) or pa.types.is_null(many.value_type):
            return pa.list_(one)
        return pa.list_(pa.large_string()) if _is_text(many.value_type) and _is_text(one) else pa.string()
    kinds = {pa.types.is_uint64(t) for t in (a, b)}, {pa.types.is_integer(t) for t in (a, b)}, {_is_text(t) for t in (a, b)}
    if kinds[0] == {True, False} and kinds[1] == {True} and any(pa.types.is_signed_integer(t) for t in (a, b)):
        return pa.string()  # no integer holds both
    if kinds[2] == {True, False} and not pa.types.is_null(a) and not pa.types.is_null(b):
        return pa.large_string()
    try:
        both = [pa.schema([("c", t)]) for t in (a, b)]
        return pa.unify_schemas(both, promote_options="permissive").field("c").type
    except pa.ArrowException:
        return pa.string()


def _is_list(t: pa.DataType) -> bool:
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t))


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def plain(dtype: pa.DataType) -> pa.DataType:
    """The type a column is read as: views as what they view, run lengths and dictionaries as their values, and what polars cannot hold as text."""
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return plain(dtype.storage_type)
    if t.is_string_view(dtype) or t.is_binary_view(dtype):
        return pa.large_string() if t.is_string_view(dtype) else pa.large_binary()
    if t.is_run_end_encoded(dtype) or t.is_dictionary(dtype):
        return plain(dtype.value_type)
    if t.is_struct(dtype):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in dtype]) if dtype.num_fields else pa.null()
    if t.is_fixed_size_list(dtype):
        return pa.list_(plain(dtype.value_type), dtype.list_size)
    if t.is_large_list(dtype) or t.is_large_list_view(dtype):
        return pa.large_list(plain(dtype.value_type))
    if t.is_list(dtype) or t.is_list_view(dtype):
        return pa.list_(plain(dtype.value_type))
    if t.is_union(dtype) or t.is_interval(dtype):
        return pa.string()
    return dtype


def as_frame(data: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    """Arrow as a frame with the same names: polars calls a column without a name (the index that pandas writes) ``column_N``."""
    names = data.schema.names
    if "" not in names:
        return pl.DataFrame(pl.from_arrow(data))
    frame = pl.DataFrame(pl.from_arrow(data.rename_columns([str(i) for i in range(len(names))])))
    frame.columns = names
    return frame


def as_arrow(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Numbers as Arrow, by way of polars: pyarrow's own way loads pandas wherever that is installed, a quarter of a second."""
    array: pa.Array = pl.Series(numbers).to_arrow()
    return array


def as_numpy(numbers: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers as numpy, nulls as 0, the same way."""
    return pl.Series(numbers).fill_null(0).to_numpy()


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly this schema: columns in order, missing ones null, types widened, no metadata (it may be any bytes)."""
    if batch.schema.equals(schema):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    out = []
    for f in schema:
        at = batch.schema.get_field_index(f.name)
        if at < 0:
            out.append(pa.nulls(batch.num_rows, f.type))
            continue
        column = batch.column(at)
        out.append(column if column.type.equals(f.type) else _cast(column, f.type))
    return pa.RecordBatch.from_arrays(out, schema=schema)


def _cast(column: pa.Array, dtype: pa.DataType) -> pa.Array:
    text = _is_text(dtype) and not _is_text(column.type)
    try:
        if text and (pa.types.is_floating(column.type) or pa.types.is_nested(column.type)):
            raise pa.ArrowInvalid("by value")
        return column.cast(dtype)
    except (pa.ArrowException, TypeError):
        return pa.array([_fit(v, dtype) for v in column.to_pylist()], dtype)


# --- JSON and CSV -----------------------------------------------------------------------------------------------------


def read_json(path: Path) -> list[dict[str, Any]] | None:
    """Rows of a JSON document: an array, an object keyed by problem, an object with one list, or one record.

    None when the file holds JSON lines after all. Held in memory as a whole.
    """
    if _is_lines(path):
        return None
    data = whole(path).removeprefix(BOM)
    if not data.strip():
        return []
    try:
        value = orjson.loads(data)
    except ValueError as e:
        value = _second_try(data, e)
    if not isinstance(value, _Fault) and _deep(value):
        value = _Fault(TOO_DEEP)
    if isinstance(value, _Fault):
        place = f" line {value.line + 1}" if b"\n" in data.strip() else ""
        raise CurateError(f"{path}{place}: {value.text}. Mend it or write it again; a file cut short ends in the middle.")
    found = _records(path, value)
    return _records(path, json.loads(data)) if any(map(_rounded, found)) else found


def _is_lines(path: Path) -> bool:
    """Whether a file named .json begins with two lines that each begin an object, the first of them whole."""
    with open_bytes(path) as file:
        lines = (line for line in _lines(path, file) if line.strip())
        head = next(lines, b"").removeprefix(BOM)
        return isinstance(parse_line(head), dict) and next(lines, b"").lstrip()[:1] == b"{"


def _records(path: Path, value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        bad = next((i for i, v in enumerate(value) if not isinstance(v, dict)), None)
        if bad is not None:
            raise CurateError(f"{path}: item {bad} of the list is {_word(value[bad])}, not an object with columns.")
        return value
    if not isinstance(value, dict):
        raise CurateError(f"{path} holds {_word(value)}, not rows.")
    lists = {k: v for k, v in value.items() if isinstance(v, list) and v and all(isinstance(i, dict) for i in v)}
    if len(lists) == 1:
        return next(iter(lists.values()))
    if len(lists) > 1:
        raise CurateError(f"{path} holds several lists of rows: {', '.join(lists)}. Keep one in a file of its own.")
    if value and all(isinstance(v, dict) for v in value.values()):
        name = "key" if any("problem" in v for v in value.values()) else "problem"
        return [{name: k, **v} for k, v in value.items()]
    return [value]


def rough_size(path: Path) -> int:
    return path.stat().st_size * (5 if packed(path) else 1)
