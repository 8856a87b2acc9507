"""CSV: a file as a whole, or in parts of whole records, however large it is; text is numbers only if nothing is lost by it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import polars as pl
import pyarrow as pa

from curate import rows
from curate.errors import CurateError
from curate.room import HUGE, LONG, alone
from curate.rows import Block

CHUNK: Final = 1 << 18
_QUOTE, _COMMA, _LINE, _RETURN = b'",\n\r'
_BOM: Final = b"\xef\xbb\xbf"


class NoRecords(Exception):
    """Quotes stand where they do not belong, so nobody can tell where records end; or the last record is open."""


def parts(file: BinaryIO, size: int) -> Iterator[bytearray]:
    """The file in parts of at least ``size`` bytes and a rest, each of whole records.

    It is cut behind a line end outside quotes, with no blank line on either side: what a parser makes of those may depend on what
    stands around them.

    Raises:
        NoRecords: a quote opens in the middle of a field, or a field goes on behind its closing quote.
    """
    held = bytearray()
    inside = closing = False
    last = _LINE
    while chunk := file.read(CHUNK):
        data = np.frombuffer(chunk, np.uint8)
        before = np.append(np.uint8(last), data)
        if not held and chunk.startswith(_BOM):
            before[len(_BOM)] = _LINE
        quotes = np.flatnonzero(data == _QUOTE)
        opens, closes = quotes[int(inside) :: 2], quotes[1 - int(inside) :: 2]
        behind = data[closes[closes + 1 < len(data)] + 1]
        if closing:
            behind = np.append(behind, data[0])
        if not np.isin(before[opens], (_COMMA, _LINE, _QUOTE)).all():
            raise NoRecords
        if not np.isin(behind, (_COMMA, _LINE, _RETURN, _QUOTE)).all():
            raise NoRecords
        closing = bool(len(closes)) and int(closes[-1]) == len(data) - 1
        ends = np.flatnonzero(data == _LINE)
        outside = (np.searchsorted(quotes, ends) + inside) % 2 == 0
        inside = bool((len(quotes) + inside) % 2)
        last = chunk[-1]
        base = len(held)
        held += chunk
        if len(held) >= size:
            cut = next((c for e in ends[outside][::-1].tolist() if _between_records(held, c := base + e)), None)
            if cut is not None:
                rest = held[cut + 1 :]
                del held[cut + 1 :]
                done, held = [held], rest
                yield done.pop()
    if inside:
        raise NoRecords
    if held:
        yield held


def _between_records(data: bytearray, end: int) -> bool:
    """Whether a record ends at this line end and another begins behind it, no blank line among them."""
    start = end - 1 if data[end - 1 : end] == b"\r" else end
    return start > 0 and end + 1 < len(data) and data[start - 1] not in (_LINE, _RETURN) and data[end + 1] not in (_LINE, _RETURN)


def _header(part: bytearray) -> bytes:
    """The first record that is not blank, with all before it."""
    end = -1
    while (end := part.find(b"\n", end + 1)) >= 0:
        found = bytes(part[: end + 1])
        if found.count(b'"') % 2 == 0 and found.removeprefix(_BOM).strip():
            return found
    return bytes(part)


def read_whole(path: Path) -> pl.DataFrame:
    """A CSV file with a header, held in memory as a whole. A column is numbers or truth values only if nothing is lost by it.

    Text is text where one value is no number, and where numbers would lose something: ids such as 007.
    """
    data = rows.whole(path)
    if not data.strip():
        return pl.DataFrame()
    try:
        frame = pl.read_csv(io.BytesIO(data), infer_schema=False)
    except pl.exceptions.PolarsError as e:
        raise CurateError(f"{path} {_fault(data, e)}") from None
    rows.check_names(path, (pa.field(c, pa.string()) for c in frame.columns))
    return frame.with_columns(_typed(frame[c]) for c in frame.columns)


Kinds = frozenset[str]
UNKNOWN: Final[Kinds] = frozenset(("nothing", "int", "float", "bool"))
"""What the texts of a column may all be, as long as none was seen."""


def _typed(text: pl.Series) -> pl.Series:
    return _as_kind(text, _narrowed(text, UNKNOWN))


def _narrowed(text: pl.Series, kinds: Kinds) -> Kinds:
    """What all texts seen may be, with some more of them: numbers and truth values only if nothing is lost by it."""
    present = text.drop_nulls() if kinds else text
    if not kinds or len(present) == 0:
        return kinds
    tests = {"int": _are_ints, "float": _are_floats, "bool": _are_bools}
    return frozenset(k for k in kinds if k in tests and tests[k](present))


def _narrowed_behind(text: pl.Series, kinds: Kinds) -> Kinds:
    """``_narrowed`` of all texts but the first."""
    long = len(text) == 2 and (text.str.len_bytes()[1] or 0) >= LONG
    if long and text.str.contains(r"[^-+.\w\s]|\w\s+\w")[1]:
        return frozenset()  # no number, whatever it is
    return _narrowed(text.slice(1), kinds)


def _are_ints(text: pl.Series) -> bool:
    whole = text.cast(pl.Int64, strict=False)
    return whole.null_count() == 0 and bool((whole.cast(pl.String) == text).all())


def _are_floats(text: pl.Series) -> bool:
    return not text.str.contains(r"^\s*[+-]?0\d").any() and text.cast(pl.Float64, strict=False).null_count() == 0


def _are_bools(text: pl.Series) -> bool:
    return bool((text.str.len_bytes() <= 5).all()) and bool(text.str.to_lowercase().is_in(["true", "false"]).all())


def _as_kind(text: pl.Series, kinds: Kinds) -> pl.Series:
    if not kinds or "nothing" in kinds:
        return text
    if "bool" in kinds:
        return text.str.to_lowercase() == "true"
    return text.cast(pl.Int64 if "int" in kinds else pl.Float64, strict=False)


@dataclass(frozen=True, slots=True)
class Records:
    """Where the records of a large CSV file lie, what its columns are, and its header."""

    schema: pa.Schema
    rows: int
    blocks: tuple[Block, ...]
    kinds: dict[str, Kinds]
    header: bytes


def scan(path: Path) -> Records | None:
    """Types and places of the records of a CSV file, read part by part.

    None where ``read_whole`` has to read it as a whole, or to say what is wrong with it.
    """
    kinds: dict[str, Kinds] = {}
    blocks: list[Block] = []
    offset = n = 0
    head = b""
    with rows.open_bytes(path) as file:
        try:
            for part in parts(file, rows.BLOCK_BYTES):
                size = len(part)
                # a long record gets the header before it as a record: a frame of one row is copied at every step
                beside = int(size >= HUGE)
                with alone(size * beside):
                    head = head or _header(part).removeprefix(_BOM)
                    frame = _frame(part, head * (int(offset > 0) + beside))
                    del part
                    kinds = kinds or dict.fromkeys(frame.columns, UNKNOWN)
                    if list(kinds) != frame.columns or any("\0" in c for c in kinds):
                        return None
                    narrowed = _narrowed_behind if beside else _narrowed
                    kinds = {c: narrowed(frame[c], k) for c, k in kinds.items()}
                    count = frame.height - beside
                    del frame
                blocks.append(Block(offset, size, 0, n, count, size * beside))
                offset, n = offset + size, n + count
        except (NoRecords, pl.exceptions.PolarsError, OSError, pa.ArrowException):
            return None
    nothing = pl.DataFrame({c: _as_kind(pl.Series([], dtype=pl.String), k) for c, k in kinds.items()})  # a name may be empty
    return Records(nothing.to_arrow(compat_level=pl.CompatLevel.oldest()).schema, n, tuple(blocks), kinds, head) if n else None


def read(path: Path, found: Records, blocks: Sequence[Block], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of some blocks, consecutive ones, as Arrow of these columns."""
    with rows.open_bytes(path) as file:
        if blocks[0].offset:
            file.seek(blocks[0].offset)
        for block in blocks:
            with alone(block.longest):
                beside = int(block.longest > 0)  # as in scan
                frame = _frame(rows.exactly(file, block.size), found.header * (int(block.offset > 0) + beside))
                if frame.height != block.rows + beside:
                    raise CurateError(f"{path} changed while it was read. Run the command again when it is written.")
                frame = frame.select(_as_kind(frame[c], found.kinds[c]) for c in schema.names)
                table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
                del frame
                batches = (table.slice(1) if beside else table.combine_chunks()).to_batches()
                del table
            while batches:
                yield rows.conform(batches.pop(0), schema)


def _frame(part: bytearray, head: bytes) -> pl.DataFrame:
    data = b"".join((head, part))
    part.clear()
    return pl.read_csv(data, infer_schema=False)


def _fault(data: bytes, why: Exception) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        return f"line {line}: the byte 0x{data[e.start]:02X} is not UTF-8. Save the file as UTF-8."
    limit = csv.field_size_limit(sys.maxsize)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        width = len(next(reader, []))
        for record in reader:
            if record and len(record) != width:
                return f"line {reader.line_num} has {len(record)} fields, the header has {width}. Mend the line."
    except csv.Error as e:
        return f"line {reader.line_num}: {e}. Mend the line."
    finally:
        csv.field_size_limit(limit)
    return f"cannot be read as CSV: {str(why).strip().splitlines()[0]}."
