"""What was decided before: parts of the ledger kept in the user's cache, so that a second question reads no text and a stopped run goes on.

There is a part for each stretch of a source. It is known by the identity of the files that the stretch lies in, by its place, by the
layout, by the counter and by the options that shape a ledger; never by a path alone. A stretch with a file that cannot be trusted
(changed just now, or not a file) is not kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

import polars as pl

from curate import cache
from curate.engine import Source
from curate.opening import Request
from curate.settling import Tally
from curate.stretches import Stretch
from curate.tokens import Counter

VERSION: Final = 5
"""Raised when the facts of a trace are decided differently, so that older parts are not believed."""


class Shelf:
    """The parts of a request's sources (see ``engine.Shelf``)."""

    def __init__(self, sources: Sequence[Source], counter: Counter, request: Request) -> None:
        self._keys = {id(s): _key(s, counter, request) for s in sources}
        self._files = {f: cache.identity(f) for s in sources for f in s.table.files}

    def load(self, source: Source, stretch: Stretch) -> tuple[pl.DataFrame, Tally] | None:
        key = self._key(source, stretch)
        found = cache.lookup_with_meta(key) if key is not None else None
        if found is None:
            return None
        try:
            said = json.loads(found[1])
            return found[0], Tally(cut=said["cut"], crooked=tuple(said["crooked"]))
        except (ValueError, KeyError, TypeError):
            return None

    def save(self, source: Source, stretch: Stretch, frame: pl.DataFrame, tally: Tally) -> None:
        key = self._key(source, stretch)
        if key is not None:
            cache.store(key, frame, meta=json.dumps({"cut": dict(tally.cut), "crooked": tally.crooked}, sort_keys=True))

    def _key(self, source: Source, stretch: Stretch) -> str | None:
        """What a part is known by; a hash stands for the files, of which a stretch may hold thousands."""
        files = [self._files.get(f) for f in stretch.files]
        if not files or any(f is None for f in files):
            return None
        digest = hashlib.blake2b("\n".join(map(str, files)).encode(), digest_size=16).hexdigest()
        return json.dumps([self._keys[id(source)], digest, stretch.row, stretch.rows])


def _key(source: Source, counter: Counter, request: Request) -> str:
    layout = source.layout
    facts = [
        VERSION,
        layout.described(),
        layout.lists,
        layout.gathered,
        {c: str(source.table.schema.field(c).type) for c in layout.columns},
        source.rating,
        counter.key,
        [request.tokenizer is not None, request.estimate],
        request.details,
        request.verdicts is not None,
        len(source.table.bad_lines),
    ]
    drawn = [request.sample, request.seed, source.table.rows] if request.sample else []
    return json.dumps([*facts, *drawn], sort_keys=True, default=str)
