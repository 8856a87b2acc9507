"""The verbs as functions: what the command line calls and what ``import curate`` offers.

``fill`` (``read``, with options as keywords) makes a ledger of sources; everything after that is a pure function of the ledger, until
``select`` copies the kept rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from curate import (
    cache,
    card,
    engine,
    examine,
    formats,
    joins,
    layout,
    ledger,
    memory,
    opening,
    output,
    parts,
    picture,
    presets,
    problems,
    selection,
    settling,
    shelves,
    survey,
    thinking,
    tokens,
    trainers,
    verdicts,
    yields,
)
from curate.engine import Source
from curate.errors import CurateError, UsageError, near
from curate.layout import Columns
from curate.ledger import Meta
from curate.opening import Request
from curate.selection import Rules

Note = Callable[[str], None]


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A filled ledger, what rows cannot say, and the sources (none when a ledger was read)."""

    ledger: pl.DataFrame
    meta: Meta
    sources: tuple[Source, ...] = ()
    name: str = "source"
    aside: engine.Keep | None = None
    counter: tokens.Counter | None = None


def read(*sources: str | Path | pl.DataFrame, note: Note = _silent, **options: Any) -> Reading:
    """Fill the ledger of some sources: ``curate yield`` without its screen.

    Args:
        sources: what the command line takes (a path, a pattern, a known name, a Hub id, a ledger file), or frames of rows.
        options: fields of ``Request`` (``tokenizer``, ``estimate``, ``count``, ``sample``, ``difficulty_from``, ...) and of
            ``layout.Columns`` (``problem``, ``trace``, ``passed``, ``difficulty``, ``where``, ...).

    Returns:
        The ledger (one row per trace, see ``ledger.SCHEMA``) with what its rows cannot say.

    Raises:
        CurateError: a source cannot be read; the sentence says what to do.
        UsageError: options that contradict each other, or an option that there is not.

    >>> rows = pl.DataFrame({"id": ["A", "A"], "generation": ["<think>so</think> 4", "<think>so, so</think> 4"], "passed": [True, True]})
    >>> read(rows, estimate="chars/3.6", use_cache=False).ledger.select("problem", "tokens", "passed").rows()
    [('A', 5, True), ('A', 6, True)]
    """
    names = {f for f in Columns.__dataclass_fields__ if f != "tokens"} | {"tokens"}
    columns = Columns(**{k: options.pop(k) for k in list(options) if k in names})
    unknown = next((k for k in options if k not in Request.__dataclass_fields__), None)
    if unknown:
        raise UsageError(f"There is no option {unknown}.{near(unknown, [*names, *Request.__dataclass_fields__])}")
    frames = {f"frame-{i}": s for i, s in enumerate(sources) if isinstance(s, pl.DataFrame)}
    specs = tuple(f"frame-{i}" if isinstance(s, pl.DataFrame) else str(s) for i, s in enumerate(sources))
    return fill(Request(sources=specs, columns=columns, frames=frames, **options), note=note)


def fill(
    request: Request,
    *,
    progress: engine.Progress | None = None,
    total: Callable[[int], object] = lambda rows: None,
    note: Note = _silent,
    keep: Callable[[], engine.Keep] | None = None,
    cluster: Cluster | None = None,
) -> Reading:
    """Fill the ledger of the request's sources; one that is a ledger file is taken as it is.

    Args:
        progress: called with source rows done; ``total`` with their number, before.
        note: called with sentences about what was found or assumed.
        keep: asked, when text has to be read, which source rows to put aside on the way (for ``select``).
        cluster: machines that do the reading instead of this one.
    """
    opened = [opening.open_one(spec, request, note=note) for spec in request.sources]
    name = "-".join(dict.fromkeys(o.name for o in opened))
    if any(o.ledger for o in opened):
        reading = _taken(opened, name, request)
        frame, meta = _rated(reading.ledger, reading.meta, request, opened, note)
        if request.verdicts:
            frame, meta = _verified(frame, meta, request, note)
        return replace(reading, ledger=frame, meta=meta)
    found = tuple(o.source for o in opened if o.source is not None)
    for source in found:
        note(f"{source.name}: " + ", ".join(f"{role} = {text}" for role, text in source.layout.described().items()))
        for text in source.notes:
            note(f"  {text}")
    how = opening.how(request, found, note=note)
    total(sum(s.table.rows for s in found))
    aside = keep() if keep is not None and cluster is None else None
    raw = _gathered(found, how, request, keep=aside, progress=progress, decider=cluster.decide if cluster else None)
    frame, meta = settling.settle(raw)
    counter = how.counter
    _tell_bad(frame, meta, note)
    frame, meta = _rated(frame, meta, request, opened, note)
    if request.verdicts:
        frame, meta = _verified(frame, meta, request, note)
    return Reading(ledger=frame, meta=meta, sources=found, name=name, aside=aside, counter=counter)


class Cluster(Protocol):
    """Machines that decide and copy stretches of sources."""

    @property
    def decide(self) -> engine.Decider: ...
    @property
    def copy(self) -> output.Copier: ...


def _gathered(found: Sequence[Source], how: engine.How, request: Request, **more: Any) -> settling.Raw:
    shelf = shelves.Shelf(found, how.counter, request) if request.use_cache else None
    return engine.gather(found, how, sample=request.sample, seed=request.seed, shelf=shelf, **more)


def part(
    request: Request, share: tuple[int, int], out: Path, *, progress: engine.Progress | None = None, note: Note = _silent
) -> dict[str, Any]:
    """Decide the i-th of n shares of some sources and write it as a part of a ledger (see ``merge``)."""
    i, n = share
    if not 1 <= i <= n:
        raise UsageError(f"--shard {i}/{n}: shares are counted from 1, for example 1/{max(1, n)}.")
    if request.difficulty_from or request.verdicts:
        raise UsageError(
            "--shard writes what the rows say. Give --difficulty-from and --verdicts to the command that reads the merged ledger."
        )
    opened = [opening.open_one(spec, request, note=note) for spec in request.sources]
    if any(o.source is None for o in opened):
        raise CurateError("A ledger is decided already: there is nothing to share out.")
    found = tuple(o.source for o in opened if o.source is not None)
    raw = _gathered(found, opening.how(request, found, note=note), request, progress=progress, share=share)
    output.write_file(out, parts.to_bytes(raw, share))
    return {"traces": raw.ledger.height, "shard": [i, n], "out": str(out)}


def merge(paths: Sequence[Path], *, note: Note = _silent) -> Reading:
    """One ledger of the parts that ``count --shard`` wrote, as one machine would have made it."""
    raw = parts.merge(paths)
    frame, meta = settling.settle(raw)
    known = presets.known()
    opened = [opening.Opened(name=k["name"], preset=presets.find(str(k.get("preset")), known)) for k in raw.known]
    _tell_bad(frame, meta, note)
    frame, meta = _rated(frame, meta, Request(sources=()), opened, note)
    return Reading(ledger=frame, meta=meta, name="-".join(k["name"] for k in raw.known))


def _tell_bad(frame: pl.DataFrame, meta: Meta, note: Note) -> None:
    """Lines that were left out and rows that cannot be used, by name: the first few of each."""
    for number, source in enumerate(meta.sources):
        bad = source["bad_lines"]
        if bad:
            numbers = ", ".join(re.findall(r" line (\d+): ", " ".join(bad[:20]))) + (", ..." if len(bad) > 20 else "")
            note(f"{source['name']}: {len(bad):,} lines left out ({numbers}); the first: {bad[0]}")
        missing = frame.filter((pl.col("source") == number) & pl.col("problem").is_null()).height
        whole = frame.filter(pl.col("source") == number).height
        if missing * 20 > whole and "prompt" in source["mapping"]:
            column = source["mapping"].get("problem", "problem")
            note(
                f"{source['name']}: {missing:,} of {whole:,} traces have no value in {column}; --problem {source['mapping']['prompt']} groups by the prompt"
            )
        for text in source["crooked"]:
            note(f"{source['name']}: {text}; the row is left out (bad_row)")


def _taken(opened: Sequence[opening.Opened], name: str, request: Request) -> Reading:
    if len(opened) > 1:
        raise CurateError("A ledger cannot be pooled with other sources: give one ledger, or the sources themselves.")
    path = opened[0].ledger
    assert path is not None
    frame, meta = ledger.from_file(path)
    asked = {"tokenizer": request.tokenizer, "estimate": request.estimate, "sample": request.sample, **request.columns.named()}
    if request.count != "sample" and request.count != meta.tokens.get("count"):
        asked["count"] = request.count
    if "group" in frame.columns or not asked.get("group"):
        asked.pop("group", None)
    told = next((k for k, v in asked.items() if v), None)
    if told:
        option = {"group": "by"}.get(told, told)
        raise CurateError(f"{path} is a ledger, filled already: --{option} has no part in it. Give the source itself.")
    return Reading(ledger=frame, meta=meta, name=name)


def _rated(
    frame: pl.DataFrame, meta: Meta, request: Request, opened: Sequence[opening.Opened], note: Note
) -> tuple[pl.DataFrame, Meta]:
    """Difficulty from beside the rows: from the table that the user names, else from the ones that presets name."""
    if request.difficulty_from:
        where, table = opening.table_of(request.difficulty_from, request)
        key, value = joins.columns_of(table.columns, where, value=request.columns.difficulty)
        done = joins.join_difficulty(frame, table, key=key, value=value, where=where)
        _told(note, done, value, where, key)
        return settling.ranked(done.ledger, meta, request.labels)
    tables = {o.preset.difficulty_from for o in opened if o.preset and o.preset.difficulty_from and not request.columns.difficulty}
    if not tables:
        return frame, meta
    frames = [opening.difficulties(t, cache=cache.folder() / "tables") for t in sorted(tables, key=lambda t: t.repo)]
    for wanted, (where, table, commit) in zip(sorted(tables, key=lambda t: t.repo), frames, strict=True):
        rating = any(o.preset.difficulty_kind == "rating" for o in opened if o.preset and o.preset.difficulty_from == wanted)
        folded = joins.through_aliases(table, key=wanted.key, aliases=wanted.aliases)
        done = joins.join_difficulty(frame, folded, key=wanted.key, value=wanted.value, where=where, rating=rating)
        _told(note, done, wanted.value, f"{where}@{commit[:8]}", wanted.key)
        frame = done.ledger
        joined = {"from": where, "revision": commit, "column": wanted.value}
        meta = replace(meta, sources=tuple({**s, "difficulty_from": joined} for s in meta.sources))
    labels = next((o.preset.labels for o in opened if o.preset and o.preset.labels), ())
    return settling.ranked(frame, meta, request.labels or labels)


def _verified(frame: pl.DataFrame, meta: Meta, request: Request, note: Note) -> tuple[pl.DataFrame, Meta]:
    """The verdicts of ``curate verify`` in place of the data's own; with ``min_tests`` a pass that stands on fewer is unknown."""
    assert request.verdicts is not None
    table, settings = verdicts.read(request.verdicts)
    done = verdicts.apply(frame, table)
    frame = done.ledger
    note(
        f"verdicts: {done.matched:,} of {frame.height:,} traces are judged in {request.verdicts.name} "
        f"({settings.get('what', 'code')}, isolation {settings.get('isolation', 'none needed')})."
    )
    if request.min_tests:
        weak = pl.col("passed") & (pl.col("tests") < request.min_tests)
        note(f"{frame.filter(weak).height:,} passes stand on fewer than {request.min_tests} tests: unknown here (--min-tests).")
        frame = frame.with_columns(passed=pl.when(~weak.fill_null(False)).then("passed"))
    else:
        few = frame.filter(pl.col("passed") & (pl.col("tests") <= 2)).height
        if few:
            note(
                f"{few:,} passes stand on one or two tests; choosing the shortest favours false passes. --min-tests 3 leaves them out."
            )
    return frame, replace(meta, sources=tuple({**s, "basis": "verified", "verified": settings} for s in meta.sources))


def texts(request: Request, columns: Sequence[str], *, note: Note = _silent) -> Iterator[pl.DataFrame]:
    """Batches of traces with their text: ``row``, ``item``, ``problem``, ``prompt``, ``trace``, and those of ``columns`` a source has."""
    for spec in request.sources:
        opened = opening.open_one(spec, request, note=note)
        if opened.source is None:
            raise CurateError(f"{spec} is a ledger, which holds no text. Give the source itself.")
        yield from engine.texts(opened.source, columns)


def _told(note: Note, done: joins.Joined, value: str, where: str, key: str) -> None:
    note(
        f"difficulty: {value} of {where}, joined by {key}: {done.matched:,} of {done.problems:,} problems found there, "
        f"{done.rated:,} rated."
    )


def yields_of(
    reading: Reading,
    rules: Rules,
    *,
    bounds: Sequence[int] | None = None,
    by: str | None = None,
    fits: Sequence[memory.Fit] = (),
    sampled: bool = False,
) -> tuple[yields.Yield, dict[str, yields.Yield], list[memory.Kept]]:
    """The yield of a reading, of each of its groups, and what each card would keep.

    A preset's own bounds are shown where none are asked for. A trace with several tags counts in the group of each.
    """
    own = sorted({b for s in reading.meta.sources for b in s.get("bounds", ())})
    made = yields.yield_table(reading.ledger, reading.meta, bounds=bounds or own or None, rules=rules, sampled=sampled)
    groups: dict[str, yields.Yield] = {}
    if by:
        apart = reading.ledger.with_columns(pl.col("group").str.split(layout.SPAN)).explode("group")
        groups = yields.by(apart, reading.meta, bounds=bounds or own or None, rules=rules)
    kept: list[memory.Kept] = []
    if fits:
        required = {t.source: t for t in made.thinking}
        passing = "finished" if made.unverified else rules.passing
        shortest = problems.per_problem(reading.ledger, passing, required)["shortest"].drop_nulls()
        kept = list(memory.kept_by_card(shortest, fits, problems=made.with_passing))
    return made, groups, kept


def beside(reading: Reading, made: yields.Yield) -> dict[str, Any]:
    """What a yield says beside its table: traces that the chat template alters, and an old rule held against the exact count.

    ``old_rule``: per bound, how many traces the rule keeps that are really over it, and how many it drops that really fit.
    """
    facts: dict[str, Any] = {"render_altered": survey.altered(reading.ledger), "old_rule": None}
    if "rule_tokens" in reading.ledger.columns:
        rule, real = pl.col("rule_tokens"), pl.col("tokens")
        rows = []
        for bound in (b.max_tokens for b in made.bounds if b.max_tokens):
            kept, over, lost = reading.ledger.select(
                kept=(rule <= bound).sum(),
                over=((rule <= bound) & (real > bound)).sum(),
                lost=((rule > bound) & (real <= bound)).sum(),
            ).row(0)
            rows.append({"max_tokens": bound, "kept": kept, "over": over, "lost": lost})
        facts["old_rule"] = rows
    return facts


def shown(reading: Reading, which: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Traces to read, with their facts, prompt and text: ``longest``, or so many from short to long."""
    if not reading.sources:
        raise CurateError("A ledger holds no text to show. Give the source itself.")
    return examine.shown(reading.sources, reading.ledger, which)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How ``select`` writes: the rows' style, source columns to add, the number of files, whether an old output is replaced."""

    style: formats.Style = "auto"
    columns: tuple[str, ...] = ()
    num_shards: int | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What ``select`` did: the facts of ``--json``, what was written, the facts of the sources, and how many kept traces think."""

    facts: dict[str, Any]
    written: output.Written
    meta: Meta
    thinking: int


def select(
    request: Request,
    rules: Rules,
    out: Path,
    *,
    shape: Shape | None = None,
    progress: engine.Progress | None = None,
    total: Callable[[int], object] = lambda rows: None,
    note: Note = _silent,
    cluster: Cluster | None = None,
    from_ledger: Path | None = None,
) -> Selected:
    """Read, choose, and write the kept traces with their text into ``out``; whole or absent.

    The text is read once where a bound leaves few candidates: they are put aside while the ledger is filled. ``from_ledger`` is one that
    ``count`` or ``merge`` made of the same sources: the text of kept rows alone is read then.
    """
    shape = shape or Shape()
    with output.workspace(out, overwrite=shape.overwrite) as work:
        keep = partial(_keep, work, request, rules, shape) if rules.max_tokens else None
        if from_ledger is not None:
            reading = _of_ledger(request, from_ledger, note)
        else:
            reading = fill(request, progress=progress, total=total, note=note, keep=keep, cluster=cluster)
        if not reading.sources:
            raise CurateError("A ledger holds no text to copy. Give the source itself to select from.")
        marked = selection.choose(reading.ledger, reading.meta, rules)
        _whole(marked)
        thinking = int(marked.select((pl.col("reason").is_null() & pl.col("thinking")).sum()).item())
        counts = selection.summary(marked)
        options = options_of(request, rules, shape)
        made = yields.yield_table(reading.ledger, reading.meta, also=rules.max_tokens, rules=rules)
        manifest = {
            "format": 1,
            "curate": version("trace-curate"),
            "command": command_of(request, options),
            "options": options,
            "sources": list(reading.meta.sources),
            "tokens": dict(reading.meta.tokens),
            "select": counts,
            "yield": _as_kept(made, reading, rules),
        }
        drawn = picture.png(made.json(), bound=rules.max_tokens)
        written = output.write(
            out,
            work,
            reading.sources,
            marked,
            reading.meta,
            style=shape.style,
            columns=shape.columns,
            num_shards=shape.num_shards,
            overwrite=shape.overwrite,
            aside=reading.aside.path if reading.aside else None,
            copier=cluster.copy if cluster else None,
            beside={"yield.png": drawn} if drawn else {},
            manifest=manifest,
            card=card.render,
            progress=None,
        )
    return Selected(facts={**counts, "out": str(out)}, written=written, meta=reading.meta, thinking=thinking)


def _as_kept(made: yields.Yield, reading: Reading, rules: Rules) -> dict[str, Any]:
    """The yield as the card tells it: at the selection's own bound the skew of what was kept, by the upper end of an estimate too."""
    said = made.json()
    if not (rules.high and rules.max_tokens and "tokens_high" in reading.ledger.columns):
        return said
    upper = reading.ledger.with_columns(tokens=pl.coalesce("tokens_high", "tokens"))
    own = yields.yield_table(upper, reading.meta, bounds=[rules.max_tokens], rules=rules).json()["bounds"][0]
    for bound in said["bounds"]:
        if bound["max_tokens"] == rules.max_tokens:
            bound["skew"] = own["skew"]
    return said


def _whole(marked: pl.DataFrame) -> None:
    """Stop when the chat template would drop or change the reasoning of a trace that is to be kept."""
    altered = survey.altered(marked.filter(pl.col("reason").is_null()))
    if altered:
        raise CurateError(
            f"This chat template drops or changes a part of {altered:,} of the kept traces: a trainer would see something else. "
            "Use --chat-template FILE with a training version (TRL and open-r1 publish such), or count the trace alone with --count trace."
        )


def examine_of(reading: Reading, request: Request, *, against: Sequence[str] = ()) -> dict[str, Any]:
    """What ``inspect`` finds in the text itself; empty for a ledger, which has none."""
    if not reading.sources or reading.counter is None:
        return {}
    items = [_items(spec, request) for spec in against]
    return examine.facts(
        reading.sources, reading.ledger, reading.counter, seed=request.seed, against=pl.concat(items) if items else None
    )


def _items(spec: str, request: Request) -> pl.Series:
    """The questions of a benchmark file."""
    where, table = opening.table_of(spec, request)
    column = next((c for c in ("problem", "question", "prompt", "text", "instruction") if c in table.columns), None)
    if column is None:
        raise CurateError(f"--against {where} has no column problem, question, prompt or text. It has: {', '.join(table.columns)}.")
    return table[column].cast(pl.String).alias("item")


def _of_ledger(request: Request, path: Path, note: Note) -> Reading:
    """A ledger that was made before, with the sources of which it was made, so that their text can be copied."""
    frame, meta = ledger.from_file(path)
    opened = [opening.open_one(spec, request, note=note) for spec in request.sources]
    found = tuple(o.source for o in opened if o.source is not None)
    if len(found) != len(opened) or len(found) != len(meta.sources):
        raise CurateError(f"{path} was made of {len(meta.sources)} sources. Name the same ones, in the same order.")
    for source, said in zip(found, meta.sources, strict=True):
        have = [{"path": f.name, "bytes": stamp[2]} for f, stamp in source.stamps.items() if stamp]
        if have != said["files"] or source.table.rows != said["table_rows"] or source.layout.described() != said["mapping"]:
            raise CurateError(
                f"{path} was not made of {source.name} as it lies here: other files, rows or columns. "
                "Name the source and the columns that `curate count` was given."
            )
    # what only `count` finds out is left out, so that the output is the one that a single run writes
    details = [c for c in ("reasoning_tokens", "answer_tokens", *(() if request.verdicts else ("digest",))) if c in frame.columns]
    if details:
        frame = frame.drop(details).with_columns(pl.col("flags") & ~pl.lit(thinking.CONTROL_TEXT, dtype=pl.UInt16))
    frame, meta = _rated(frame, meta, request, opened, note)
    if request.verdicts:
        frame, meta = _verified(frame, meta, request, note)
    return Reading(ledger=frame, meta=meta, sources=found, name="-".join(dict.fromkeys(o.name for o in opened)))


def _keep(work: Path, request: Request, rules: Rules, shape: Shape) -> engine.Keep:
    folder = work / "rows"
    folder.mkdir()
    # verdicts come after the reading: until then each finished trace may be the best
    later = replace(rules, passing="finished", policy="all") if request.verdicts else rules
    columns = None if shape.style in ("auto", "source") else shape.columns
    return engine.Keep(folder=folder, wanted=selection.Contest(later).possible, columns=columns)


def kept_texts(out: Path, source: str) -> Iterator[str]:
    """The kept traces of an output as a source has them, in the order of the output's rows."""
    marked, meta = ledger.from_file(out / "ledger.parquet")
    if len(meta.sources) != 1:
        raise CurateError(f"{out} was made of {len(meta.sources)} sources; its texts can be compared with one source only.")
    kept = marked.filter(pl.col("reason").is_null()).select("row", "item")
    roles = {k: v for k, v in dict(meta.sources[0]["mapping"]).items() if k != "by"}
    request = Request(sources=(source,), columns=Columns(**{k: v for k, v in roles.items() if k in Columns.__dataclass_fields__}))
    for batch in texts(request, ()):
        mine = batch.with_columns(pl.col("row").cast(kept["row"].dtype)).join(
            kept, on=["row", "item"], how="semi", maintain_order="left"
        )
        yield from (t or "" for t in mine["trace"])


def trainer_line(done: Selected, rules: Rules) -> str | None:
    """The line of TRL's configuration that takes these rows at their bound; None without a bound, or for rows it does not read."""
    style = str(done.written.manifest["format_of_rows"])
    if done.meta.tokens.get("count") != "sample" or not done.facts["kept"]:
        return None
    if rules.max_tokens is None or style not in ("messages", "prompt-completion"):
        return None
    return trainers.line("trl", style=style, max_length=rules.max_tokens, out=done.facts["out"])


def proof(out: Path, trainer: str, max_length: int) -> dict[str, Any]:
    """Whether a trainer takes every row of an output uncut, by its own rule."""
    return asdict(trainers.check(out, trainer, max_length=max_length))


def options_of(request: Request, rules: Rules, shape: Shape) -> dict[str, Any]:
    """Every option that shapes a selection, for the manifest: ``select --like`` reads them back."""
    asked = {
        k: v
        for k, v in asdict(replace(request, frames={})).items()
        if k not in ("sources", "columns", "use_cache", "details", "skip_bad_rows", "frames")
    }
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
