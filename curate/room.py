"""Room for long rows: one is taken apart at a time, its text is not copied, and what it took is given back to the system at once."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

LONG: Final = 4 << 20
"""Bytes of a row from which on it is long: worth a batch of its own, and more care than speed."""

HUGE: Final = 32 << 20
"""Bytes of a row from which on a source is read by one thread: each further one would hold such a row while it waits."""

_STEP: Final = 1 << 20
_ALONE: Final = threading.Lock()


def alone(size: int) -> contextlib.AbstractContextManager[object]:
    """Held while a row of this size is taken apart: of long ones one at a time, whatever the number of threads."""
    return _alone() if size >= LONG else contextlib.nullcontext()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    with _ALONE:
        trim()
        yield
        trim()


def trim() -> None:
    """Give freed memory back to the system, where the libraries that hold it can."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc's


class Long:
    """A long text as UTF-8 that lies elsewhere: parts that follow one another. As text of Python's own it would take up to four times that."""

    def __init__(self, *parts: memoryview | bytes) -> None:
        self.parts = parts

    def __len__(self) -> int:
        """In bytes."""
        return sum(map(len, self.parts))

    def __str__(self) -> str:
        return b"".join(self.parts).decode()

    def head(self, characters: int) -> str:
        """Its first characters."""
        most = 4 * characters  # of UTF-8's bytes a character has four at most
        return b"".join(bytes(p[:most]) for p in self.parts)[:most].decode(errors="ignore")[:characters]


def texts(values: pl.Series) -> list[str | Long | None]:
    """The texts of a column; long ones are left where they are."""
    long = (values.str.len_bytes() >= LONG).fill_null(False)
    if not long.any():
        return list(values.to_list())
    shorter = values.to_frame("v").select(pl.when(~pl.lit(long)).then("v"))["v"]
    found: list[str | Long | None] = shorter.to_list()
    for i in long.arg_true():
        found[i] = Long(memory(values, i))
    return found


def memory(values: pl.Series, row: int) -> memoryview:
    """The UTF-8 of a long text where it lies; what else gives it copies it."""
    held = values.to_arrow(compat_level=pl.CompatLevel.newest())
    _, views, *data = held.buffers()
    # Arrow's view of a text of over 12 bytes: its length, its first four bytes, the number of a buffer, and where it begins in it
    size, _, buffer, start = np.frombuffer(views, np.int32, 4, 16 * (held.offset + row)).tolist()
    return memoryview(data[buffer])[start : start + size]


def characters(text: memoryview) -> int:
    """Characters of UTF-8, counted a little at a time: every byte but those that go on with a character."""
    parts = (np.frombuffer(text[at : at + _STEP], np.uint8) for at in range(0, len(text), _STEP))
    return sum(int(np.count_nonzero((part & 0xC0) != 0x80)) for part in parts)
