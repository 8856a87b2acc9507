"""Room for long rows: one is taken apart at a time, and what it took is given back to the system at once."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

LONG: Final = 4 << 20
"""Bytes of a row from which on it is long: worth a batch of its own, and more care than speed."""

_ALONE: Final = threading.Lock()


def alone(size: int) -> contextlib.AbstractContextManager[object]:
    """Held while a row of this size is taken apart: of long ones one at a time, whatever the number of threads."""
    return _alone() if size >= LONG else contextlib.nullcontext()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    with _ALONE:
        yield
        trim()


def trim() -> None:
    """Give freed memory back to the system, where the libraries that hold it can."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc's
