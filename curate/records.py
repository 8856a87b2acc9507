"""A CSV file in parts of whole records, however large it is; what a record holds is parsed elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np

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


def header(part: bytearray) -> bytes:
    """The first record that is not blank, with all before it."""
    end = -1
    while (end := part.find(b"\n", end + 1)) >= 0:
        found = bytes(part[: end + 1])
        if found.count(b'"') % 2 == 0 and found.removeprefix(_BOM).strip():
            return found
    return bytes(part)
