"""The verbs as functions: what the command line calls and what ``import curate`` offers.

``read`` fills a ledger from sources; everything after that is a pure function of the ledger, until ``select`` copies the kept rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from curate import card, engine, joins, ledger, opening, output, selection, tokens, yields
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
    keep: engine.Keep | None = None,
) -> Reading:
    """Fill the ledger of the request's sources; one that is a ledger file is taken as it is.

    Args:
        keep: source rows to put aside on the way, for ``select``.
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
    frame, meta = engine.fill(
        found, counter, details=request.details, sample=request.sample, seed=request.seed, keep=keep, progress=progress
    )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How ``select`` writes: the rows' style, source columns to add, the number of files, whether an old output is replaced."""

    style: output.Style = "auto"
    columns: tuple[str, ...] = ()
    num_shards: int | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What ``select`` did: the facts of ``--json``, what was written, and the facts of the sources."""

    facts: dict[str, Any]
    written: output.Written
    meta: Meta


def select(
    request: Request,
    rules: Rules,
    out: Path,
    *,
    shape: Shape | None = None,
    progress: engine.Progress | None = None,
    total: Callable[[int], object] = lambda rows: None,
    note: Note = _silent,
) -> Selected:
    """Read, choose, and write the kept traces with their text into ``out``; whole or absent.

    The text is read once where a bound leaves few candidates: they are put aside while the ledger is filled.
    """
    shape = shape or Shape()
    with output.workspace(out, overwrite=shape.overwrite) as work:
        keep = _keep(work, request, rules, shape)
        reading = read(request, progress=progress, total=total, note=note, keep=keep)
        if not reading.sources:
            raise CurateError("A ledger holds no text to copy. Give the source itself to select from.")
        marked = selection.choose(reading.ledger, reading.meta, rules)
        counts = selection.summary(marked)
        options = options_of(request, rules, shape)
        made = yields.yield_table(
            reading.ledger, reading.meta, bounds=[rules.max_tokens] if rules.max_tokens else None, rules=rules
        )
        manifest = {
            "format": 1,
            "curate": version("trace-curate"),
            "command": command_of(request, options),
            "options": options,
            "sources": list(reading.meta.sources),
            "tokens": dict(reading.meta.tokens),
            "select": counts,
            "yield": made.json(),
        }
        written = output.write(
            out,
            work,
            reading.sources,
            marked,
            reading.meta,
            style=shape.style,
            columns=shape.columns,
            num_shards=shape.num_shards,
            aside=keep.path if keep else None,
            manifest=manifest,
            card=card.render,
            progress=None,
        )
    return Selected(facts={**counts, "out": str(out)}, written=written, meta=reading.meta)


def _keep(work: Path, request: Request, rules: Rules, shape: Shape) -> engine.Keep | None:
    if rules.max_tokens is None:
        return None
    folder = work / "rows"
    folder.mkdir()
    later = replace(rules, passing="finished") if request.verdicts else rules
    columns = None if shape.style in ("auto", "source") else shape.columns
    return engine.Keep(folder=folder, wanted=partial(selection.possible, rules=later), columns=columns)


def options_of(request: Request, rules: Rules, shape: Shape) -> dict[str, Any]:
    """Every option that shapes a selection, for the manifest: ``select --like`` reads them back."""
    asked = {k: v for k, v in asdict(request).items() if k not in ("sources", "columns", "use_cache", "details", "skip_bad_rows")}
    asked |= request.columns.named()
    asked |= {"policy": rules.policy, "passing": rules.passing, "thinking": rules.thinking, "max_tokens": rules.max_tokens}
    asked |= {
        "choose_then_drop": rules.choose_first,
        "format": shape.style,
        "columns": list(shape.columns),
        "num_shards": shape.num_shards,
    }
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
