"""The verbs as functions: what the command line calls and what ``import curate`` offers.

``read`` fills a ledger from sources; everything after that is a pure function of the ledger, until ``select`` copies the kept rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from curate import card, engine, joins, ledger, opening, output, selection, tokens, values, yields
from curate.engine import Source
from curate.errors import CurateError
from curate.ledger import Meta
from curate.opening import Request
from curate.selection import Rules

Note = Callable[[str], object]


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A filled ledger, what rows cannot say, and the sources (none when a ledger was read)."""

    ledger: pl.DataFrame
    meta: Meta
    sources: tuple[Source, ...] = ()
    name: str = "source"


def read(
    request: Request,
    *,
    progress: engine.Progress | None = None,
    total: Callable[[int], object] = lambda rows: None,
    note: Note = _silent,
) -> Reading:
    """Fill the ledger of the request's sources; one that is a ledger file is taken as it is.

    Args:
        progress: called with source rows done; ``total`` with their number, before.
        note: called with sentences about what was found or assumed.
    """
    opened = [opening.open_one(spec, request, note=note) for spec in request.sources]
    name = "-".join(dict.fromkeys(o.name for o in opened))
    if any(o.ledger for o in opened):
        return _taken(opened, name)
    found = tuple(o.source for o in opened if o.source is not None)
    for source in found:
        note(f"{source.name}: " + ", ".join(f"{role} = {text}" for role, text in source.layout.described().items()))
        for text in source.notes:
            note(text)
    counter = tokens.open_counter(
        tokenizer=request.tokenizer,
        chat_template=request.chat_template,
        estimate=None if request.tokenizer else request.estimate,
        kind=request.count,
        note=note,
    )
    total(sum(s.table.rows for s in found))
    frame, meta = engine.fill(found, counter, details=request.details, sample=request.sample, seed=request.seed, progress=progress)
    if request.difficulty_from:
        frame, meta = _rated(frame, meta, request, note)
    return Reading(ledger=frame, meta=meta, sources=found, name=name)


def _taken(opened: Sequence[opening.Opened], name: str) -> Reading:
    if len(opened) > 1:
        raise CurateError("A ledger cannot be pooled with other sources yet: give one ledger, or the sources themselves.")
    path = opened[0].ledger
    assert path is not None
    frame, meta = ledger.from_file(path)
    return Reading(ledger=frame, meta=meta, name=name)


def _rated(frame: pl.DataFrame, meta: Meta, request: Request, note: Note) -> tuple[pl.DataFrame, Meta]:
    assert request.difficulty_from is not None
    where, table = opening.table_of(request.difficulty_from, request)
    key, value = joins.columns_of(table.columns, where, value=request.columns.difficulty)
    done = joins.join_difficulty(frame, table, key=key, value=value, where=where)
    note(
        f"difficulty: {value} of {where}, joined by {key}: {done.matched:,} of {done.problems:,} problems found there, {done.rated:,} rated."
    )
    return engine.ranked(done.ledger, meta, request.labels)


def select(
    reading: Reading,
    rules: Rules,
    out: Path,
    *,
    style: output.Style = "auto",
    columns: Sequence[str] = (),
    num_shards: int | None = None,
    overwrite: bool = False,
    command: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    progress: engine.Progress | None = None,
) -> tuple[dict[str, Any], output.Written]:
    """Choose, then write the kept traces with their text into ``out``.

    Returns:
        What ``select --json`` prints, and what was written.
    """
    if not reading.sources:
        raise CurateError("A ledger holds no text to copy. Give the source itself to select from.")
    output.claim(out, overwrite=overwrite)
    marked = selection.choose(reading.ledger, reading.meta, rules)
    counts = selection.summary(marked)
    bounds = [rules.max_tokens] if rules.max_tokens else None
    facts = {
        "format": 1,
        "curate": version("trace-curate"),
        "command": list(command),
        "options": dict(options or {}),
        "rules": asdict(rules),
        "sources": [s for s in reading.meta.sources],
        "tokens": dict(reading.meta.tokens),
        "select": counts,
        "yield": yields.yield_table(reading.ledger, reading.meta, bounds=bounds, rules=rules).json(),
    }
    written = output.write(
        out,
        reading.sources,
        marked,
        reading.meta,
        style=style,
        columns=columns,
        num_shards=num_shards,
        overwrite=overwrite,
        manifest=facts,
        card=card.render,
        progress=progress,
    )
    return {**counts, "out": str(out)}, written


def options_of(request: Request, rules: Rules, style: str, columns: Sequence[str], num_shards: int | None) -> dict[str, Any]:
    """Every option that shapes a selection, for the manifest: ``select --like`` reads them back."""
    asked = {k: v for k, v in asdict(request).items() if k not in ("sources", "columns", "use_cache", "details", "skip_bad_rows")}
    asked |= request.columns.named()
    asked |= {"policy": rules.policy, "passing": rules.passing, "thinking": rules.thinking, "max_tokens": rules.max_tokens}
    asked |= {"choose_then_drop": rules.choose_first, "format": style, "columns": list(columns), "num_shards": num_shards}
    asked |= {"skip_bad_rows": request.skip_bad_rows}
    return {k: _plain(v) for k, v in asked.items() if v not in (None, False, (), [])}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name if value.is_absolute() else str(value)
    if isinstance(value, tuple):
        return list(value)
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def command_of(request: Request, options: Mapping[str, Any]) -> list[str]:
    """The command line that makes the same selection again, without ``-o`` and without absolute paths."""
    words = ["curate", "select", *(_plain(s) for s in request.sources)]
    default = {"split": "train", "count": "sample", "seed": 0, "passing": "known", "format": "auto"}
    for name, value in options.items():
        if default.get(name) == value:
            continue
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        else:
            words += [flag, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words
