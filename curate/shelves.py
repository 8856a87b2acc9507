"""What was decided before: parts of the ledger kept in the user's cache, so that a second question reads no text.

A part is known by the identity of the source's files, by the layout, by the counter and by the options that shape a ledger; never by a
path alone. A source with a file that cannot be trusted (changed just now, or not a file) is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import polars as pl

from curate import cache
from curate.engine import Source, Tally
from curate.opening import Request
from curate.tokens import Counter

VERSION: Final = 2
"""Raised when the facts of a trace are decided differently, so that older parts are not believed."""


class Shelf:
    """The parts of a request's sources (see ``engine.Shelf``)."""

    def __init__(self, sources: Sequence[Source], counter: Counter, request: Request) -> None:
        self._keys = {id(s): _key(s, counter, request) for s in sources}

    def has(self, source: Source) -> bool:
        """Whether a part of this source lies in the cache."""
        return self.load(source) is not None

    def load(self, source: Source) -> tuple[pl.DataFrame, Tally] | None:
        key = self._keys[id(source)]
        found = cache.lookup_with_meta(key) if key is not None else None
        if found is None:
            return None
        try:
            said = json.loads(found[1])
            return found[0], Tally(cut=said["cut"], crooked=tuple(said["crooked"]))
        except (ValueError, KeyError, TypeError):
            return None

    def save(self, source: Source, frame: pl.DataFrame, tally: Tally) -> None:
        key = self._keys[id(source)]
        if key is not None:
            cache.store(key, frame, meta=json.dumps({"cut": dict(tally.cut), "crooked": tally.crooked}, sort_keys=True))


def _key(source: Source, counter: Counter, request: Request) -> str | None:
    files = [cache.identity(f) for f in source.table.files]
    if not files or any(f is None for f in files):
        return None  # a frame in memory has no identity
    layout = source.layout
    facts = [
        VERSION,
        files,
        layout.described(),
        layout.lists,
        layout.gathered,
        source.rating,
        counter.key,
        request.details,
        request.verdicts is not None,
    ]
    return json.dumps([*facts, request.sample, request.seed, len(source.table.bad_lines)], sort_keys=True, default=str)
