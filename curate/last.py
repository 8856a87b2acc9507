"""The last source used in a folder: what a command means that names none."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from curate import cache
from curate.errors import UsageError


def _place() -> Path:
    return cache.folder() / "last" / hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:32]


def remember(sources: Sequence[str]) -> None:
    """Keep the sources of this folder; a cache that cannot be written is no fault."""
    with contextlib.suppress(OSError):
        path = _place()
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        aside.write_text(json.dumps(list(sources)))
        aside.replace(path)


def resolve(sources: Sequence[str], *, note: Callable[[str], object]) -> tuple[str, ...]:
    """The sources given, or the last ones used in this folder, which ``note`` is told.

    Raises:
        UsageError: none given, and none used here before.
    """
    if sources:
        return tuple(sources)
    try:
        found = tuple(str(s) for s in json.loads(_place().read_text()))
    except (OSError, ValueError, TypeError):
        found = ()
    if not found:
        raise UsageError(
            "Name a SOURCE: a file, a folder, a pattern, a known data set or a Hub id. None was used in this folder before."
        )
    note(f"Source: {' '.join(found)} (the last one used in this folder)")
    return found
