"""Three steps over shards: decide (map, reads text), settle (reduce, no text), copy (map, reads the text of kept rows).

``decide`` turns a batch of source rows into a part of the ledger and needs nothing but that batch, so it may run anywhere and in any
order. ``settle`` joins the parts into one ledger. ``copy`` walks only the stretches of rows that hold kept traces. A few batches of
eight megabytes are in memory at a time, whatever the size of the file.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from curate import layout, stretches, thinking, values
from curate.errors import CurateError
from curate.layout import Columns, Layout
from curate.ledger import SCHEMA, Meta
from curate.room import HUGE, alone
from curate.rows import as_arrow, as_frame, as_numpy, conform
from curate.settling import CROOKED, Raw, Tally, settle
from curate.sources import BATCH_BYTES, Table, Task
from curate.stretches import Stretch, cut
from curate.tokens import Counter
from curate.verdicts import digest

PROBE_ROWS: Final = 100
ROW: Final = "\0row"
Progress = Callable[[int], object]
Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One SOURCE ready to be read: its rows, how they become traces, and what is known of it."""

    table: Table
    layout: Layout
    basis: str = "verdict"
    rating: bool = False
    revision: str | None = None
    licence: str | None = None
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    stamps: Mapping[Path, tuple[int, int, int, int] | None] = field(default_factory=dict)
    """Its files as they were when it was opened, see ``stamp``."""

    @property
    def name(self) -> str:
        return self.table.name


def open_source(table: Table, named: Columns, *, guess: bool = True, **known: Any) -> Source:
    """Find a table's layout from its schema and its first rows.

    Raises:
        CurateError: no rows, or columns that cannot be told apart (see ``layout.find``).
    """
    schema = schema_of(table)
    found = layout.find(schema, named, _probe(table), where=table.name, guess=guess)
    rated = found.roles.get("difficulty")
    rating = rated is not None and any(w in values.RATINGS for w in rated.text.replace(".", " ").split())
    basis = known.pop("basis", None) or ("verdict" if "passed" in found.roles else "none")
    stamps = {f: stamp(f) for f in table.files}
    return Source(table=table, layout=found, rating=known.pop("rating", rating), basis=basis, stamps=stamps, **known)


def schema_of(table: Table) -> pl.Schema:
    """The table's columns as polars has them."""
    return as_frame(pa.Table.from_batches([], table.schema)).schema


def _probe(table: Table) -> pl.DataFrame:
    flat = [f.name for f in table.schema if pa.types.is_nested(f.type)]
    for task in table.tasks if flat else ():
        for batch in task.read(flat):
            return as_frame(batch.data.slice(0, PROBE_ROWS))
    return pl.DataFrame()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the ledger with what is counted beside it."""

    ledger: pl.DataFrame
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How the facts of a trace are made.

    ``details``: also prompt, reasoning and answer apart, and control text (reads the text twice more). ``digests``: also the digest of
    problem and text, by which verdicts and copies are found. ``old``: an old rule held against the counter (``rule_tokens``).
    """

    counter: Counter
    details: bool = False
    digests: bool = False
    old: Counter | None = None


def decide(rows: pl.DataFrame, numbers: Numbers, source: Source, how: How) -> Part:
    """Facts of a batch of source rows, one ledger row per trace; pure, and needs no other batch.

    Args:
        rows: source rows with the layout's columns, and perhaps an empty row behind them (see ``sources.Rows``).
        numbers: the number of each of these rows in its source.
    """
    one = layout.traces(rows, source.layout)
    number = pl.Series("row", numbers.astype(np.uint32)) if len(numbers) == 0 or numbers[-1] < 2**32 else pl.Series("row", numbers)
    number = number.extend_constant(None, rows.height - len(numbers))
    text, prompt = one["trace"], one["prompt"]
    shape = thinking.structure(text, prompt)
    by_itself = thinking.finish(one["finish"]) if "finish" in one.columns else None
    finished = shape["finished"] if by_itself is None else shape["finished"] & by_itself.fill_null(True)
    wanted = [c for c in ("trace", "prompt", "context") if c in one.columns]
    frame = one.select(wanted)
    if how.details:
        frame = frame.with_columns(thinking.split(text, opened=thinking.opens(prompt)))
    counted = _column_tokens(one, source) if "tokens" in one.columns else how.counter.count(frame)
    if how.old is not None:
        counted = counted.with_columns(how.old.count(frame)["tokens"].alias("rule_tokens"))
    ident = values.problem_id(one["problem"]) if "problem" in one.columns else values.prompt_id(prompt)
    part = pl.DataFrame(
        {
            "row": number.gather(one["row"]),
            "item": one["item"],
            "problem": ident,
            "passed": _verdict(one, source, number.gather(one["row"])),
            "finished": finished,
            "thinking": shape["thinking"],
        }
    ).with_columns(counted)
    part = part.with_columns(_difficulty(one, source))
    flags = shape["flags"]
    if how.details:
        control = thinking.control_text(text)
        flags = flags | (control.cast(pl.UInt16) * thinking.CONTROL_TEXT)
    if "render" in part.columns:
        flags = flags | (part["render"].cast(pl.UInt16).fill_null(0) * thinking.RENDER)
        part = part.drop("render")
    flags = flags | (thinking.rendered(prompt).cast(pl.UInt16) * thinking.RENDERED)
    part = part.with_columns(flags.alias("flags"))
    if how.digests:
        part = part.with_columns(digest=digest(part["problem"], text))
    if "group" in one.columns:
        part = part.with_columns(_group(one["group"]))
    if "aliases" in one.columns:
        part = part.with_columns(values.alias_ids(one["aliases"]).alias("aliases"))
    crooked = layout.crooked(rows, source.layout, first=CROOKED) if one["bad"].any() else []
    said = tuple(f"row {numbers[at]}{_named(part, at, one)}: {text}" for at, text in crooked)
    return Part(part.filter(one["row"] < len(numbers)), Tally(cut=_cut(one, by_itself), crooked=said))


def _verdict(one: pl.DataFrame, source: Source, rows: pl.Series) -> pl.Series:
    if "passed" not in one.columns:
        return pl.Series("passed", [None], dtype=pl.Boolean).new_from_index(0, one.height)
    ref = source.layout.roles["passed"]
    return values.verdict(one["passed"], rows=rows, where=source.name, column=ref.text)


def _difficulty(one: pl.DataFrame, source: Source) -> list[pl.Series]:
    if "difficulty" not in one.columns:
        return [pl.Series("difficulty", [None], dtype=pl.Float64).new_from_index(0, one.height)]
    number, words = values.difficulty(one["difficulty"], rating=source.rating)
    return [number.alias("difficulty"), *([words.alias("label")] if words is not None else [])]


def _column_tokens(one: pl.DataFrame, source: Source) -> pl.DataFrame:
    raw, text = one["tokens"], source.layout.roles["tokens"].text
    if raw.dtype.is_nested() or not (raw.dtype.is_numeric() or raw.dtype == pl.String):
        raise CurateError(f"--tokens {text}: {source.name} holds {raw.dtype} there, not counts.")
    counts = raw.cast(pl.UInt32, strict=False)
    has_text = one["trace"].str.contains(r"\S").fill_null(False)
    missing = (counts.is_null() & has_text).sum()
    if missing:
        raise CurateError(
            f"--tokens {text}: {missing} traces of {source.name} without a count there. Count them with --tokenizer instead."
        )
    tokens = pl.DataFrame({"c": counts, "t": has_text}).select(pl.when("t").then("c"))["c"]
    return pl.DataFrame({"tokens": tokens, "prompt_tokens": pl.Series([0], dtype=pl.UInt32).new_from_index(0, len(tokens))})


def _group(raw: pl.Series) -> pl.Series:
    if isinstance(raw.dtype, pl.List):
        return raw.cast(pl.List(pl.String)).list.join(layout.SPAN).alias("group")
    return raw.cast(pl.String).alias("group")


def _named(part: pl.DataFrame, at: int, one: pl.DataFrame) -> str:
    problem = part["problem"].filter(one["row"] == at)
    return f" (problem {problem[0]})" if len(problem) and problem[0] else ""


def _cut(one: pl.DataFrame, by_itself: pl.Series | None) -> dict[str, int]:
    if by_itself is None:
        return {}
    cut = one["finish"].filter(~by_itself.fill_null(True)).cast(pl.String)
    return dict(cut.value_counts().iter_rows())


# --- fill -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Source rows to put aside while the ledger is filled, so that a choice among them needs no second reading of the source.

    ``wanted`` marks the ledger rows of a batch of a source, given by its number, that may be chosen; ``columns`` are the columns of
    the source rows to keep (None: all); ``folder`` gets one Arrow file a stretch. Costs a third of what reading zstd Parquet again costs, and disk for the rows kept: where
    less than ``ROOM`` is free, nothing is put aside.
    """

    folder: Path
    wanted: Callable[[pl.DataFrame, int], pl.Series]
    columns: Sequence[str] | None = None

    def path(self, number: int, stretch: int) -> Path:
        return self.folder / f"source-{number}-{stretch}.arrow"


HANDLES: Final = 64
"""Readers, an output, and what the libraries open for themselves: with 16 they abort, with 64 a selection runs through."""

ROOM: Final = 4 << 30
"""Free bytes that putting rows of a stretch aside asks for: a stretch unpacks to about a tenth of it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A stretch with its part of the ledger (without ``source``) and what was counted beside it."""

    stretch: Stretch
    ledger: pl.DataFrame
    tally: Tally


class Shelf(Protocol):
    """Keeps what was decided of a stretch: its part of the ledger and what was counted beside it."""

    def load(self, source: Source, stretch: Stretch) -> tuple[pl.DataFrame, Tally] | None: ...
    def save(self, source: Source, stretch: Stretch, frame: pl.DataFrame, tally: Tally) -> None: ...


class Decider(Protocol):
    """Decides stretches of the source of this number, in their order, wherever it likes."""

    def __call__(
        self,
        number: int,
        source: Source,
        plan: Sequence[Stretch],
        how: How,
        *,
        chosen: Numbers | None,
        keep: Keep | None,
        progress: Progress | None,
    ) -> Iterator[Decided]: ...


def fill(sources: Sequence[Source], counter: Counter, **more: Any) -> tuple[pl.DataFrame, Meta]:
    """The ledger of some sources, in the order (source, row, item), and what rows cannot say: ``gather``, then ``settle``."""
    return settle(gather(sources, How(counter=counter), **more))


def gather(
    sources: Sequence[Source],
    how: How,
    *,
    sample: int | None = None,
    seed: int = 0,
    keep: Keep | None = None,
    shelf: Shelf | None = None,
    progress: Progress | None = None,
    decider: Decider | None = None,
    share: tuple[int, int] = (1, 1),
) -> Raw:
    """Decide every trace of some sources.

    Args:
        sample: that many source rows of each source, drawn at random by ``seed``.
        keep: rows to put aside on the way.
        shelf: where parts that were decided before are kept; of their stretches no text is read and nothing put aside.
        progress: called with the number of rows done.
        decider: decides on other machines; by default in threads of this process.
        share: ``(i, n)``, only the i-th of n shares of the stretches of each source, counted from 1.
    """
    _handles()
    frames, tallies, known = [], [], []
    for i, source in enumerate(sources):
        chosen = _draw(source.table.rows, sample, seed)
        plan = stretches.share(cut(source.table), *share)
        parts = _parts(i, source, plan, how, chosen=chosen, keep=keep, shelf=shelf, progress=progress, decider=decider or decided)
        frames.append(_concat([p.ledger for p in parts], source, how).with_columns(source=pl.lit(i, dtype=pl.UInt16)))
        tallies.append(sum((p.tally for p in parts), Tally()))
        known.append(_known(source, source.table.rows if chosen is None else len(chosen)))
    ledger = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema=SCHEMA)
    labels = next((s.labels for s in sources if s.labels), ())
    return Raw(ledger=ledger, tallies=tuple(tallies), known=tuple(known), tokens=_counted_by(sources, how.counter), labels=labels)


def _handles() -> None:
    """Refuse to begin with too few file handles: libraries below abort where they run out of them."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= most < HANDLES:
        raise CurateError(f"This process may open only {most} files. Allow {HANDLES} at least: ulimit -n {HANDLES * 4}.")


def _parts(
    number: int,
    source: Source,
    plan: Sequence[Stretch],
    how: How,
    *,
    chosen: Numbers | None,
    keep: Keep | None,
    shelf: Shelf | None,
    progress: Progress | None,
    decider: Decider,
) -> list[Decided]:
    """All stretches of a source: those on the shelf as they are, the others decided and put there one by one."""
    known = {s.number: found for s in plan if shelf is not None and (found := shelf.load(source, s)) is not None}
    parts = [Decided(s, *known[s.number]) for s in plan if s.number in known]
    if progress is not None:
        progress(sum(p.stretch.rows for p in parts))
    missing = [s for s in plan if s.number not in known]
    for part in decider(number, source, missing, how, chosen=chosen, keep=keep, progress=progress) if missing else ():
        unchanged(source, part.stretch.files)
        if shelf is not None:
            shelf.save(source, part.stretch, part.ledger, part.tally)
        parts.append(part)
    return sorted(parts, key=lambda p: p.stretch.number)


def decided(
    number: int,
    source: Source,
    plan: Sequence[Stretch],
    how: How,
    *,
    chosen: Numbers | None = None,
    keep: Keep | None = None,
    progress: Progress | None = None,
) -> Iterator[Decided]:
    """Decide stretches here, in several threads; see ``Decider``."""
    columns, exact = source.layout.columns, how.counter.basis == "exact"
    reading = columns if keep is None else _kept_columns(source, keep)
    schema = pa.schema([source.table.schema.field(c) for c in reading])

    def work(item: tuple[int, tuple[Task, ...]]) -> Iterator[tuple[int, int, Part, pa.RecordBatch | None]]:
        place, bundle = item
        read = stretches.frames(bundle, reading)
        for found in itertools.chain.from_iterable(map(stretches.pieces, read)) if exact else read:
            numbers, rows = np.arange(found.row, found.row + found.rows, dtype=np.uint64), found.frame
            if chosen is not None:
                lo, hi = np.searchsorted(chosen, [found.row, found.row + found.rows])
                numbers = chosen[lo:hi].astype(np.uint64)
                rows = rows[(numbers - np.uint64(found.row)).tolist()] if found.rows == rows.height else rows
            del found
            if len(numbers):
                size = rows.estimated_size() if len(numbers) == 1 else 0
                with alone(int(size)):
                    part = decide(rows.select(columns), numbers, source, how)
                kept = _candidates(part, rows, numbers, number, keep, schema)
                del rows  # the next ones come before these names are given anew
                yield place, len(numbers), part, kept

    def closed(place: int) -> Decided:
        aside.close()
        done = Decided(plan[place], _concat([p.ledger for p in parts], source, how), sum((p.tally for p in parts), Tally()))
        parts.clear()
        return done

    items = [(i, b) for i, s in enumerate(plan) for b in s.bundles if chosen is None or any(_within(chosen, t) for t in b)]
    parts: list[Part] = []
    at = 0
    with contextlib.closing(_Aside(source, keep, number)) as aside:
        huge = any(t.longest >= HUGE for _, bundle in items for t in bundle)
        # An exact count gains nothing from a second thread, measured, and takes 200 MB more. Else one thread more than processors: each
        # waits for its turn now and then.
        workers = 1 if huge or exact else stretches.WORKERS + 1
        for place, rows, part, kept in stretches.streamed(work, items, workers=workers):
            while at < place:
                yield closed(at)
                at += 1
            parts.append(part)
            if kept is not None:
                aside.put(plan[place].number, kept)
            if progress is not None:
                progress(rows)
        while at < len(plan):
            yield closed(at)
            at += 1


def _candidates(
    part: Part, rows: pl.DataFrame, numbers: Numbers, number: int, keep: Keep | None, schema: pa.Schema
) -> pa.RecordBatch | None:
    if keep is None:
        return None
    wanted = np.unique(part.ledger["row"].filter(keep.wanted(part.ledger, number)).to_numpy()).astype(np.uint64)
    if len(wanted) == 0:
        return None
    mine = _taken(rows, np.searchsorted(numbers, wanted), schema)
    # not `append_column`, which looks at every byte of the text again
    return pa.RecordBatch.from_arrays([*mine.columns, as_arrow(wanted)], names=[*schema.names, ROW])


def _taken(rows: pl.DataFrame, at: Numbers, schema: pa.Schema) -> pa.RecordBatch:
    """Some rows of a frame as the source has them."""
    table = rows[at.tolist()].to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
    return conform(table.to_batches()[0], schema)


def _kept_columns(source: Source, keep: Keep) -> list[str]:
    if keep.columns is None:
        return list(source.table.schema.names)
    return list(dict.fromkeys([*source.layout.columns, *keep.columns]))


class _Aside:
    """Rows put aside, one Arrow file for each stretch that has some; a stretch has all of its rows there or no file."""

    def __init__(self, source: Source, keep: Keep | None, number: int) -> None:
        self.keep, self.number, self.stack = keep, number, contextlib.ExitStack()
        names = _kept_columns(source, keep) if keep is not None else []
        self.schema = pa.schema([*(source.table.schema.field(c) for c in names), pa.field(ROW, pa.uint64())])
        self.stretch = -1
        self.writer: pa.RecordBatchStreamWriter | None = None

    def put(self, stretch: int, batch: pa.RecordBatch) -> None:
        assert self.keep is not None
        if stretch != self.stretch:
            self.close()
            self.stretch = stretch
            if shutil.disk_usage(self.keep.folder).free >= ROOM:
                file = self.stack.enter_context(pa.OSFile(str(self.keep.path(self.number, stretch)), "wb"))
                options = pa.ipc.IpcWriteOptions(compression=None, unify_dictionaries=True)
                self.writer = self.stack.enter_context(pa.ipc.new_stream(file, self.schema, options=options))
        if self.writer is not None:
            step = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
            for at in range(0, batch.num_rows, step):
                self.writer.write_batch(batch.slice(at, step).select(self.schema.names))

    def close(self) -> None:
        self.stack.close()
        self.writer = None


def unchanged(source: Source, files: Sequence[Path]) -> None:
    """Stop when a file is not the one that was opened: facts of one version and texts of another do not go together.

    Raises:
        CurateError: it was written to, replaced or removed.
    """
    for file in files:
        if source.stamps.get(file) != stamp(file):
            raise CurateError(f"{file} changed while it was read. Run the command again when nobody writes to it.")


def stamp(file: Path) -> tuple[int, int, int, int] | None:
    """Device, inode, size and time of change; None where there is no such file."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _draw(rows: int, sample: int | None, seed: int) -> Numbers | None:
    if sample is None or sample >= rows:
        return None
    return np.sort(np.random.Generator(np.random.PCG64(seed)).choice(rows, sample, replace=False))


def _within(chosen: Numbers, task: Task) -> bool:
    return bool(np.searchsorted(chosen, task.row) < np.searchsorted(chosen, task.row + task.rows))


def _concat(parts: list[pl.DataFrame], source: Source, how: How) -> pl.DataFrame:
    if parts:
        return pl.concat(parts, how="diagonal_relaxed")
    nothing = as_frame(pa.Table.from_batches([], source.table.schema)).select(source.layout.columns)
    return decide(nothing, np.array([], dtype=np.uint64), source, how).ledger


def _known(source: Source, rows: int) -> dict[str, Any]:
    return {
        "name": source.name,
        "files": [{"path": f.name, "bytes": known[2]} for f, known in source.stamps.items() if known],
        "rows": rows,
        "table_rows": source.table.rows,
        "revision": source.revision,
        "licence": source.licence,
        "mapping": source.layout.described(),
        "maybe_verdicts": _maybe_verdicts(source),
        "basis": source.basis,
        "bad_lines": list(source.table.bad_lines),
        "excluded_rows": int("where" in source.layout.roles),
        "notes": list(source.notes),
        **source.facts,
    }


def _maybe_verdicts(source: Source) -> list[str]:
    """Columns that play no part and look like verdicts, to be named where there is none."""
    used = {c for ref in source.layout.roles.values() for c in ref.roots}
    likely = re.compile(r"reward|correct|pass|verdict|score|success|accepted", re.I)
    flat = [(c, t) for c, t in source.layout.schema.items() if c not in used and not t.is_nested()]
    return [c for c, t in flat if t == pl.Boolean or (likely.search(c) and (t.is_numeric() or t == pl.String))]


def _counted_by(sources: Sequence[Source], counter: Counter) -> dict[str, Any]:
    column = bool(sources) and "tokens" in sources[0].layout.roles
    own = [s.facts.get("own_counts") for s in sources]
    if column and own[0] and all(o == own[0] for o in own):
        return dict(own[0])
    return {
        "basis": "column" if column else counter.basis,
        "by": sources[0].layout.roles["tokens"].text if column else counter.by,
        "count": counter.kind,
        "low": 1.0 if column else counter.low,
        "high": 1.0 if column else counter.high,
        "checked": not column and counter.checked,
    }


def texts(source: Source, columns: Sequence[str] = (), *, rows: Numbers | None = None) -> Iterator[pl.DataFrame]:
    """Batches of a source's traces with their text, in order.

    Args:
        columns: further columns, those of them that the source has (as they are, once for each trace of the row).
        rows: only these source rows, ascending; stretches that hold none of them are not read.

    Returns:
        Frames with ``row``, ``item``, ``problem``, ``prompt``, ``trace`` and ``columns``.
    """
    extra = [c for c in columns if c in source.layout.schema]
    reading = [*source.layout.columns, *(c for c in extra if c not in source.layout.columns)]

    def work(task: Task) -> Iterator[pl.DataFrame]:
        for batch in task.read(reading):
            frame = as_frame(batch.data)
            one = layout.traces(frame.select(source.layout.columns), source.layout)
            ident = values.problem_id(one["problem"]) if "problem" in one.columns else values.prompt_id(one["prompt"])
            named = one.select("row", "item", "prompt", "trace").with_columns(ident.alias("problem"))
            own = [c for c in extra if c not in named.columns]
            beside = [frame.select(own)[one["row"]]] if own else []
            whole = pl.concat([named, *beside], how="horizontal").with_columns(row=pl.col("row").cast(pl.UInt32) + batch.row)
            yield whole if rows is None else whole.filter(pl.col("row").is_in(pl.Series(rows).cast(pl.UInt32).implode()))

    return stretches.streamed(work, source.table.tasks if rows is None else [t for t in source.table.tasks if _within(rows, t)])


# --- copy -------------------------------------------------------------------------------------------------------------


def copy(
    source: Source,
    kept: pl.DataFrame,
    transform: Callable[[pl.DataFrame, pa.RecordBatch], pa.Table],
    *,
    columns: Sequence[str] | None = None,
    plan: Sequence[Stretch] | None = None,
    aside: Callable[[int], Path] | None = None,
    workers: int | None = None,
) -> Iterator[pa.Table]:
    """The kept traces of one source as tables in the source's order, with their text.

    Args:
        kept: ledger rows of this source, sorted by row and item.
        transform: makes output rows of some ledger rows (with ``at``, the row within the batch) and the batch of source rows; called
            from several threads.
        columns: the source's columns that ``transform`` needs (None: all).
        plan: only these stretches.
        aside: the file in which ``fill`` put the candidates of a stretch aside; without one the source itself is read.
        workers: threads that read ahead, by default as many as there are processors; 0 reads in this one.

    Raises:
        CurateError: the source changed since it was opened.
    """
    numbers = kept["row"].to_numpy().astype(np.uint64)
    names = source.table.schema.names if columns is None else columns
    schema = pa.schema([source.table.schema.field(c) for c in names])

    def part(held: Numbers, data: pa.RecordBatch) -> Iterator[pa.Table]:
        lo, hi = np.searchsorted(numbers, [held[0], held[-1] + np.uint64(1)])
        if lo < hi:
            at = np.searchsorted(held, numbers[lo:hi])
            if not np.array_equal(held[at], numbers[lo:hi]):
                raise AssertionError("a kept row was not put aside")
            yield transform(kept[int(lo) : int(hi)].with_columns(at=pl.Series(at.astype(np.int64))), data)

    def work(item: Path | tuple[Task, ...]) -> Iterator[pa.Table]:
        if isinstance(item, Path):
            with (
                pa.OSFile(str(item)) as file,
                pa.ipc.open_stream(file) as found,
            ):  # mapped, a stretch would lie in memory as a whole
                for data in found:
                    yield from part(as_numpy(data.column(ROW)), data.drop_columns([ROW]))
            return
        for found in stretches.frames(item, names):
            lo, hi = np.searchsorted(numbers, [found.row, found.row + found.rows])
            if lo < hi:
                held = np.unique(numbers[lo:hi])
                mine = _taken(found.frame, held - np.uint64(found.row), schema)
                del found
                yield from part(held, mine)

    items: list[Path | tuple[Task, ...]] = []
    for stretch in cut(source.table) if plan is None else plan:
        if not np.diff(np.searchsorted(numbers, [stretch.row, stretch.row + stretch.rows])).any():
            continue
        put = aside(stretch.number) if aside is not None else None
        if put is not None and put.exists():
            items.append(put)
        else:
            items += [b for b in stretch.bundles if any(_within(numbers, t) for t in b)]
    yield from itertools.chain.from_iterable(map(work, items)) if workers == 0 else stretches.streamed(work, items, workers=workers)
    unchanged(source, list(source.stamps))
