"""The items of a JSON array one by one, however large the file is: their bytes are cut out here, and parsed elsewhere.

Where an item ends is told by quotes, backslashes and brackets alone, which numpy finds in a few steps a megabyte. What stands inside an
item is not looked at: whoever parses it sees whether it is sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np

CHUNK: Final = 1 << 18
MAX_ITEM: Final = 1 << 30
MAX_BLANK: Final = 1 << 20
BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = b" \t\r\n"
_QUOTE, _OPEN, _CLOSE = 1, 2, 3
_KIND: Final = bytes.maketrans(
    bytes(range(256)), bytes({34: _QUOTE, 91: _OPEN, 123: _OPEN, 93: _CLOSE, 125: _CLOSE}.get(b, 0) for b in range(256))
)
"""What each byte is: ``"``, ``[`` or ``{``, ``]`` or ``}``."""


class NoArray(Exception):
    """The file is no array of objects, or it is cut short."""


class _Depth:
    """How deep a text is nested, carried from chunk to chunk."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._in_text = False
        self._escaped = False  # a backslash at the last chunk's end escapes the first byte of this one

    def edges(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Brackets that open or close the array or one of its items: place, and how deep it is behind them."""
        if self._escaped:
            chunk = b"x" + chunk[1:]
        plain = chunk.replace(b"\\\\", b"xx")  # pairs first, from the left: a backslash that remains escapes what follows it
        self._escaped = plain.endswith(b"\\")
        kinds = np.frombuffer(plain.replace(b'\\"', b"xx").translate(_KIND), np.uint8)
        at = np.flatnonzero(kinds != 0)
        kind = kinds[at]
        quotes = at[kind == _QUOTE]
        brackets = kind >= _OPEN
        at, kind = at[brackets], kind[brackets]
        outside = (np.searchsorted(quotes, at) + self._in_text) % 2 == 0
        at, step = at[outside], np.where(kind[outside] == _OPEN, 1, -1)
        behind = self.depth + np.cumsum(step)
        self._in_text = bool((len(quotes) + self._in_text) % 2)
        if len(at):
            self.depth = int(behind[-1])
        edge = np.minimum(behind, behind - step) <= 1
        return zip(at[edge].tolist(), behind[edge].tolist(), strict=True)


def items(file: BinaryIO, *, inside: bool = False) -> Iterator[tuple[int, bytes | bytearray]]:
    """Each object of an array, with the number of bytes read to its end.

    Args:
        inside: the file stands behind an item already, not before the array.

    Raises:
        NoArray: something else than objects and commas is found, or the end is missing.
    """
    state = _Depth(int(inside))
    base = n = 0
    between, item = bytearray(), bytearray()
    done = False
    while chunk := file.read(CHUNK):
        at = 0
        for place, depth in [] if done else state.edges(chunk):
            opens = chunk[place] in b"[{"
            if opens and not item:
                between += chunk[at:place]
                if depth == 1:
                    _expect(chunk[place] == ord("[") and bytes(between).removeprefix(BOM).strip(BLANK) == b"")
                    at = place + 1
                else:
                    _expect(chunk[place] == ord("{") and bytes(between).strip(BLANK) == (b"," if n or inside else b""))
                    item += b"{"
                    at = place + 1
                between.clear()
            elif depth == 1:
                item += chunk[at : place + 1]
                at, n = place + 1, n + 1
                held, item = [item], bytearray()
                yield base + at, held.pop()
            else:
                between += chunk[at:place]
                _expect(depth == 0 and chunk[place] == ord("]") and not between.strip(BLANK))
                between.clear()
                at, done = place + 1, True
                break
        (item if item else between).extend(memoryview(chunk)[at:])
        _expect(len(between) <= MAX_BLANK and len(item) <= MAX_ITEM and not (done and between.strip(BLANK)))
        if done:
            between.clear()
        base += len(chunk)
    _expect(done)


def _expect(holds: bool) -> None:
    if not holds:
        raise NoArray
