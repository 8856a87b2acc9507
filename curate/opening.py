"""From the words a user types to sources that can be read: a path, a pattern, a known name, a Hub id, a ledger.

A path that exists is a path; then a known name; then a Hub id. What a preset says of columns yields to what the user says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow.parquet as pq

from curate import engine, ledger, locate, sources
from curate.errors import CurateError, UsageError
from curate.layout import Columns

Note = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to read: SOURCEs and the options that all commands share."""

    sources: tuple[str, ...]
    columns: Columns = field(default_factory=Columns)
    split: str = "train"
    tokenizer: str | None = None
    chat_template: Path | None = None
    estimate: str | None = None
    count: Literal["sample", "trace"] = "sample"
    difficulty_from: str | None = None
    labels: tuple[str, ...] = ()
    verdicts: Path | None = None
    presets: Path | None = None
    skip_bad_rows: bool = False
    sample: int | None = None
    seed: int = 0
    use_cache: bool = True
    details: bool = False

    def __post_init__(self) -> None:
        counts = {"--tokenizer": self.tokenizer, "--tokens": self.columns.tokens}
        given = [name for name, value in counts.items() if value]
        if len(given) > 1 or (self.estimate and self.columns.tokens):
            raise UsageError(f"{' and '.join([*given, '--estimate'][:2])} both say how to count. Use one.")
        if self.chat_template and not self.tokenizer:
            raise UsageError("--chat-template needs --tokenizer: a template is rendered and counted together.")
        if self.chat_template and self.count == "trace":
            raise UsageError("--chat-template has no part in --count trace, which counts the trace alone. Leave one out.")
        if self.columns.messages and self.columns.trace:
            raise UsageError("--messages and --trace both say where the trace is. Use one.")
        if self.sample is not None and self.sample < 1:
            raise UsageError(f"--sample {self.sample}: a sample has at least one row.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One SOURCE: either a source of rows or the path of a ledger."""

    name: str
    source: engine.Source | None = None
    ledger: Path | None = None
    synthetic: str | None = None


def open_one(spec: str, request: Request, *, note: Note) -> Opened:
    """Open one SOURCE.

    Raises:
        CurateError: nothing of that name is here or known, or it cannot be read; the sentence says what to do.
    """
    place = locate.local(spec, split=request.split)
    if place is None:
        raise CurateError(f"{spec} is no file or folder here, and no known data set. `curate sources` lists the known ones.")
    for text in place.notes:
        note(text)
    if len(place.files) == 1 and (path := place.files[0]).suffix == ".parquet" and _is_ledger(path):
        return Opened(name=place.name, ledger=path)
    table = sources.open_table(place.name, place.files, skip_bad_rows=request.skip_bad_rows)
    synthetic = (table.metadata or {}).get(b"curate.synthetic", b"").decode() or None
    facts: dict[str, Any] = {"spec": _portable(spec)}
    if synthetic:
        facts["synthetic"] = synthetic
    if place.manifest is not None:
        facts["output_of"] = [s.get("name") for s in place.manifest.get("sources", [])]
    source = engine.open_source(table, request.columns, labels=request.labels, facts=facts)
    return Opened(name=place.name, source=source, synthetic=synthetic)


def _portable(spec: str) -> str:
    """The SOURCE as typed, or only its last part where it is an absolute path: files that travel name no machine."""
    return Path(spec).name if Path(spec).is_absolute() else spec


def _is_ledger(path: Path) -> bool:
    try:
        return ledger.is_ledger(pq.read_schema(path).metadata)
    except (OSError, ValueError):
        return False


def table_of(spec: str, request: Request, columns: list[str] | None = None) -> tuple[str, pl.DataFrame]:
    """A small table of problems (``--difficulty-from``), read as a whole."""
    place = locate.local(spec, split=request.split)
    if place is None:
        raise CurateError(f"--difficulty-from {spec}: there is no such file or folder.")
    table = sources.open_table(place.name, place.files)
    names = columns or table.schema.names
    frames = [pl.DataFrame(pl.from_arrow(b.data)) for t in table.tasks for b in t.read(names)]
    empty = pl.DataFrame(pl.from_arrow(table.schema.empty_table())).select(names)
    return spec, pl.concat([empty, *frames], how="vertical_relaxed")
