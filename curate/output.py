"""What ``select`` writes: an output folder that is whole or absent.

Everything is written into a folder beside the wanted one and moved at the end; ``manifest.json`` is the last file, so its presence
means that the rest is whole. The same input and options give the same bytes: no clock, no absolute path, no name of the output.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import platform
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate import formats, layout, survey
from curate.engine import Progress, Source, copy
from curate.errors import CurateError
from curate.ledger import Meta, is_ledger, to_bytes
from curate.rows import as_arrow, as_frame, as_numpy, unify
from curate.shards import WRITER, WRITERS, Shard, typed
from curate.shards import ends as shard_ends
from curate.stretches import Stretch
from curate.turns import is_turns

LONGEST: Final = 8
JOURNAL: Final = ".curate-replacing.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What lies in the output folder: file name to rows, bytes and SHA-256."""

    out: Path
    files: Mapping[str, Mapping[str, Any]]
    rewritten: int
    manifest: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def claim(out: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, an output folder that is not ours to write.

    Raises:
        CurateError: the folder holds files that ``curate`` did not write, or an output of ours that is not to be replaced.
    """
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise CurateError(f"{out} exists and is no folder. Name another with -o.")
    if not out.exists() or not any(out.iterdir()):
        parent = next(p for p in (out, *out.absolute().parents) if p.exists())
        if not os.access(parent, os.W_OK):
            raise CurateError(f"{parent} may not be written to. Name another folder with -o.")
        return
    if not (_ours(out) or (out / JOURNAL).exists()):
        raise CurateError(f"{out} holds files that curate did not write, and is left alone. Name another folder with -o.")
    if not overwrite and not (out / "manifest.json").exists():
        raise CurateError(f"{out} holds the remains of a run that was stopped. Use --overwrite to write it anew.")
    if not overwrite:
        raise CurateError(f"{out} holds an output already. Use --overwrite to replace it, or name another folder with -o.")


def _ours(out: Path) -> bool:
    try:
        return "curate" in json.loads((out / "manifest.json").read_text())
    except (OSError, ValueError, TypeError):
        return False


def write(
    out: Path,
    work: Path,
    sources: Sequence[Source],
    marked: pl.DataFrame,
    meta: Meta,
    *,
    style: formats.Style = "auto",
    columns: Sequence[str] = (),
    num_shards: int | None = None,
    overwrite: bool = True,
    aside: Callable[[int, int], Path] | None = None,
    copier: Copier | None = None,
    beside: Mapping[str, bytes] | None = None,
    manifest: Mapping[str, Any],
    card: Callable[[Mapping[str, Any]], str],
    progress: Progress | None = None,
) -> Written:
    """Write the kept traces of a marked ledger as an output folder.

    Args:
        work: a workspace (see ``workspace``) on the same disk.
        marked: the ledger with ``reason``; rows with a null reason are kept.
        style: the shape of rows, see ``formats``; ``auto`` gives ``messages`` where a prompt is known, else the source's columns.
        aside: the file with the candidates of a source's stretch, where ``engine.gather`` put them aside.
        copier: makes the rows on other machines; by default here, in several threads.
        overwrite: replace an older output; without it one that another run wrote meanwhile is left as it is.
        num_shards: so many Parquet files; more than rows are reduced to one a row.
        beside: further files by name.
        manifest: what it is to hold besides the files.
        card: makes README.md of the whole manifest.

    Raises:
        CurateError: the folder may not be written, the disk is full, or the input changed since it was read.
    """
    shape = Shape(sources, marked, [s["name"] for s in meta.sources], style, columns)
    ends = shard_ends(shape.kept["tokens"].to_numpy(), num_shards)
    notes = []
    if shape.rendered and shape.style in formats.PROMPTED and not shape.plain:
        notes.append(
            f"The prompts of {shape.rendered:,} kept traces hold a chat template's own tokens already; a trainer that renders these rows puts "
            "the template around them a second time. --format prompt-completion writes them as plain text."
        )
    if num_shards is not None and num_shards > max(1, shape.kept.height):
        notes.append(f"{shape.kept.height} rows give {max(1, shape.kept.height)} shards, not {num_shards}.")
    tmp = work / "whole"
    tmp.mkdir()
    _room(tmp, sources, marked)
    with _faults(out):
        workers = 0 if len(ends) > 1 else None  # several shards are written side by side
        files, longest = _shards(tmp, shape, ends, progress, copier or partial(copied, aside=aside, workers=workers))
        files["ledger.parquet"] = _ledger(tmp / "ledger.parquet", marked, meta)
        files["longest.parquet"] = _longest(tmp, shape, longest)
        for name, data in (beside or {}).items():
            (tmp / name).write_bytes(data)
            files[name] = _facts(tmp / name)
        whole = {**manifest, "format_of_rows": shape.style, "files": files}
        (tmp / "README.md").write_text(card(whole), encoding="utf-8")
        whole["files"] = dict(sorted({**files, "README.md": _facts(tmp / "README.md")}.items()))
        _durable(tmp / "manifest.json", json.dumps(whole, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
        with _locked(out.absolute().parent):
            _move(tmp, out, sorted(whole["files"]), overwrite=overwrite)
    return Written(out=out, files=whole["files"], rewritten=shape.rewritten, manifest=whole, notes=tuple(notes))


Copier = Callable[["Shape", int, Source, pl.DataFrame], Iterator[pa.Table]]
"""Makes the output rows of the kept traces of a source, in their order, wherever it likes."""


def copied(
    shape: Shape,
    number: int,
    source: Source,
    kept: pl.DataFrame,
    *,
    plan: Sequence[Stretch] | None = None,
    aside: Callable[[int, int], Path] | None = None,
    workers: int | None = None,
) -> Iterator[pa.Table]:
    """The output rows of a source's kept traces, made here; ``plan`` and ``workers`` as in ``engine.copy``, ``aside`` as in ``write``."""
    put = partial(aside, number) if aside else None
    return copy(source, kept, partial(shape.table, number), columns=shape.needed(source), plan=plan, aside=put, workers=workers)


class Shape:
    """How kept rows look: their style, their schema, and the table of some kept traces of a batch of source rows."""

    def __init__(
        self, sources: Sequence[Source], marked: pl.DataFrame, names: Sequence[str], style: formats.Style, columns: Sequence[str]
    ) -> None:
        self.sources, self.columns = sources, tuple(columns)
        self.changes: list[int] = []  # appended to from several threads
        prompted = all({"prompt", "messages"} & set(s.layout.roles) for s in sources)
        self.style: formats.Style = style if style != "auto" else ("messages" if prompted else "source")
        if self.style in formats.PROMPTED and not prompted:
            raise CurateError(f"--format {self.style} needs a prompt, and none is known. Name its column with --prompt.")
        for source in sources:
            taken = [c for c in columns if self.style in formats.PROMPTED and c in formats.NAMES]
            if taken:
                raise CurateError(
                    f"--columns {taken[0]}: the rows have a column of this name. Use --format source for the source's own."
                )
            missing = [c for c in columns if c not in source.layout.schema]
            if missing:
                raise CurateError(
                    f"{source.name} has no column {missing[0]} (--columns). Columns: {', '.join(source.layout.schema)}."
                )
        self.names = list(names)
        self.kept = marked.filter(pl.col("reason").is_null()).sort("source", "row", "item")
        self.rendered = survey.rendered(self.kept)
        self.plain = self.style == "prompt-completion" and 0 < self.rendered == self.kept.height
        if self.style == "prompt-completion" and 0 < self.rendered < self.kept.height:
            raise CurateError(
                f"{self.rendered:,} of the {self.kept.height:,} kept traces have a prompt that a chat template has rendered already, the others "
                "have not: one column cannot hold both. Select them apart with --where."
            )
        empty = [
            self.table(i, self.kept.clear().with_columns(at=pl.lit(0, dtype=pl.Int64)), _nothing(s)) for i, s in enumerate(sources)
        ]
        self.schema = unify([t.schema for t in empty])

    @property
    def rewritten(self) -> int:
        """Rows whose turns were changed to hold the chosen trace."""
        return sum(self.changes)

    def needed(self, source: Source) -> list[str] | None:
        """The source's columns that its output rows are made of; None is all."""
        return None if self.style == "source" else [*dict.fromkeys([*source.layout.columns, *self.columns])]

    def table(self, number: int, kept: pl.DataFrame, batch: pa.RecordBatch) -> pa.Table:
        """Output rows of some kept traces; ``at`` is their row within the batch."""
        source = self.sources[number]
        rows, inverse = np.unique(kept["at"].to_numpy(), return_inverse=True)
        mine = _rows(batch, rows)
        if self.style == "source":
            return self._own(source, kept, inverse, mine)
        one = layout.traces(as_frame(mine.select(source.layout.columns)), source.layout)
        wanted = pl.DataFrame({"row": inverse.astype(np.uint32), "item": kept["item"]})
        one = wanted.join(one, on=["row", "item"], how="left", maintain_order="left")
        kept = kept.with_columns(name=pl.lit(self.names[number]))
        made = formats.rows(one, kept, self.style, plain=self.plain)
        extra = [c for c in self.columns if c not in made.column_names]
        own = _elements(source, kept, inverse, mine.select(extra))
        for name in extra:
            made = made.append_column(own.schema.field(name), own.column(name))
        return made

    def _own(self, source: Source, kept: pl.DataFrame, at: np.ndarray[Any, Any], batch: pa.RecordBatch) -> pa.Table:
        """The source's own columns: lists that run along with the traces become their element, ``messages`` holds the chosen trace."""
        table = _elements(source, kept, at, batch)
        turns = next((c for c in ("messages", "conversations") if is_turns(source.layout.schema.get(c))), None)
        if turns is None or "messages" in source.layout.roles or kept.height == 0:
            return table
        one = layout.traces(as_frame(batch.select(source.layout.columns)), source.layout)
        wanted = pl.DataFrame({"row": at.astype(np.uint32), "item": kept["item"]})
        trace = wanted.join(one, on=["row", "item"], how="left", maintain_order="left")["trace"]
        column, changed = formats.with_trace(table.column(turns), trace)
        self.changes.append(changed)
        return table.set_column(table.schema.get_field_index(turns), table.schema.field(turns), column)


def _rows(batch: pa.RecordBatch, at: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """These rows of a batch; the batch itself, without a copy of its text, where that is all of them."""
    return batch if _every(at, batch.num_rows) else batch.take(as_arrow(at))


def _every(at: np.ndarray[Any, Any], rows: int) -> bool:
    return len(at) == rows and bool((at == np.arange(rows)).all())


def _nothing(source: Source) -> pa.RecordBatch:
    schema = source.table.schema
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _elements(source: Source, kept: pl.DataFrame, at: np.ndarray[Any, Any], batch: pa.RecordBatch) -> pa.Table:
    """Rows of a batch, once for each kept trace, with parallel lists replaced by the trace's own element."""
    item = kept["item"].to_numpy().astype(np.int64)
    columns, fields = [], []
    for f in batch.schema:
        column = batch.column(f.name)
        if f.name in source.layout.parallel:
            column = _element(column, at, item)
        elif not _every(at, batch.num_rows):
            column = column.take(as_arrow(at))
        columns.append(column)
        fields.append(pa.field(f.name, column.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _element(lists: pa.Array, at: np.ndarray[Any, Any], item: np.ndarray[Any, Any]) -> pa.Array:
    """``lists[at][item]`` row by row, null where the list is shorter."""
    begin, size = as_numpy(lists.offsets)[:-1], as_numpy(pc.list_value_length(lists))
    there = item < size[at]
    return lists.values.take(pa.array(np.where(there, begin[at] + item, 0), mask=~there))


# --- files ------------------------------------------------------------------------------------------------------------


def _shards(
    tmp: Path, shape: Shape, ends: Sequence[int], progress: Progress | None, copier: Copier
) -> tuple[dict[str, dict[str, Any]], list[pa.Table]]:
    """The Parquet files with their facts, and the longest rows, in falling order."""
    (tmp / "data").mkdir()
    places = shape.kept.with_row_index("place").sort(["tokens", "place"], descending=[True, False])
    top = places.head(LONGEST)["place"].to_list()
    stop = threading.Event()

    def one(number: int) -> tuple[str, dict[str, Any], dict[int, pa.Table]]:
        begin, end = ends[number - 1] if number else 0, ends[number]
        name = f"data/train-{number:05d}-of-{len(ends):05d}.parquet"
        longest: dict[int, pa.Table] = {}
        with Shard(tmp / name, shape.schema) as shard:
            for i, source in enumerate(shape.sources):
                for table in copier(shape, i, source, shape.kept[begin:end].filter(pl.col("source") == i)):
                    if stop.is_set():
                        raise _Stopped
                    at = begin + shard.rows
                    longest |= {p: table.slice(p - at, 1) for p in top if at <= p < at + table.num_rows}
                    shard.add(table)
                    if progress is not None:
                        progress(table.num_rows)
        if shard.rows != end - begin:
            raise CurateError(
                f"{shard.rows} of {end - begin} kept rows were found again: the input changed while it was read. Run the command again."
            )
        return name, _facts(tmp / name) | {"rows": shard.rows}, longest

    with ThreadPoolExecutor(WRITERS) as pool:
        under_way = [pool.submit(one, i) for i in range(len(ends))]
        try:
            wait(under_way, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    faults = [f.exception() for f in under_way if not f.cancelled()]
    for fault in faults:
        if fault is not None and not isinstance(fault, _Stopped):
            raise fault
    done = [f.result() for f in under_way]
    longest = {place: row for _, _, rows in done for place, row in rows.items()}
    return {name: facts for name, facts, _ in done}, [typed(longest[p], shape.schema) for p in top]


class _Stopped(Exception):
    """Another shard failed, or the user stopped the run."""


def _ledger(path: Path, marked: pl.DataFrame, meta: Meta) -> dict[str, Any]:
    path.write_bytes(to_bytes(marked.rechunk(), meta))
    return _facts(path) | {"rows": marked.height}


def _longest(tmp: Path, shape: Shape, rows: Sequence[pa.Table]) -> dict[str, Any]:
    """The longest kept rows, in falling order: what a first training step should be tried with."""
    table = pa.concat_tables(rows) if rows else shape.schema.empty_table()
    pq.write_table(typed(table, shape.schema), tmp / "longest.parquet", **WRITER)
    return _facts(tmp / "longest.parquet") | {"rows": table.num_rows}


def write_ledger(path: Path, ledger: pl.DataFrame, meta: Meta) -> None:
    """A ledger file, whole or absent."""
    write_file(path, to_bytes(ledger.rechunk(), meta))


def claim_file(path: Path, *, what: str, ours: Callable[[Path], bool]) -> None:
    """Refuse, before any work, to write over a file that ``curate`` did not make.

    Raises:
        CurateError: the file is a folder, or no ``what`` of ours.
    """
    if path.is_dir():
        raise CurateError(f"{path} is a folder. Name a file with -o.")
    if path.exists() and not ours(path):
        raise CurateError(f"{path} exists and is no {what} of curate; it is left alone. Name another file with -o.")


def is_ledger_file(path: Path) -> bool:
    try:
        return is_ledger(pq.read_schema(path).metadata)
    except (OSError, pa.ArrowException):
        return False


def write_file(path: Path, data: bytes) -> None:
    """A file, whole or absent.

    Raises:
        CurateError: its folder does not exist, or it cannot be written.
    """
    if not path.absolute().parent.is_dir():
        raise CurateError(f"{path.parent} does not exist. Make the folder first, or name another file with -o.")
    aside = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    except OSError as e:
        raise CurateError(f"{path} cannot be written: {e.strerror or e}. Name another file with -o.") from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
        os.fsync(f.fileno())
    return {"sha256": digest, "bytes": path.stat().st_size}


def _durable(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())


def _room(tmp: Path, sources: Sequence[Source], marked: pl.DataFrame) -> None:
    """Stop before any work when the disk cannot hold the kept rows' share of the input."""
    share = marked["reason"].null_count() / max(1, marked.height)
    need = int(share * sum(s.table.bytes for s in sources)) + (1 << 20)
    free = shutil.disk_usage(tmp).free
    if free < need:
        raise CurateError(
            f"{tmp.parent.parent} has {free / 1e9:,.1f} GB free; the output needs about {need / 1e9:,.1f} GB. Name another disk with -o."
        )


@contextlib.contextmanager
def workspace(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder beside ``out`` for the time of the work, after ``claim``; remains of killed runs are cleared, and so is this one."""
    beside = out.absolute().parent
    with _locked(beside):
        claim(out, overwrite=overwrite)
    stem = f".{out.absolute().name}.part-{platform.node()}-"  # a disk may be shared: only this machine knows its processes
    with _faults(out):
        beside.mkdir(parents=True, exist_ok=True)
        for old in beside.glob(glob.escape(stem) + "*"):
            pid = old.name.removeprefix(stem)
            if pid.isdigit() and not _alive(int(pid)):
                shutil.rmtree(old, ignore_errors=True)
        tmp = beside / f"{stem}{os.getpid()}"
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir()
    try:
        with _faults(out):
            yield tmp
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


@contextlib.contextmanager
def _faults(out: Path) -> Iterator[None]:
    """Faults of the disk as sentences."""
    try:
        yield
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CurateError(
                f"The disk of {out.parent} is full; nothing was written. Free some room, or name another disk with -o."
            ) from None
        if e.errno == errno.EFBIG:
            raise CurateError(
                f"The disk of {out.parent}, or a limit of this process, does not allow files as large; nothing was written. "
                "Name another disk with -o, or use --num-shards."
            ) from None
        if e.errno in (errno.EMFILE, errno.ENFILE):
            raise CurateError("This process may not open more files; nothing was written. Raise the limit (ulimit -n).") from None
        if e.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise CurateError(f"{out.parent} may not be written to. Name another folder with -o.") from None
        raise


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time looks at and moves outputs in a folder; the lock goes with the process, however it ends."""
    handle = None
    with contextlib.suppress(ImportError, OSError):  # a file system without locks, a folder yet to be made
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _move(tmp: Path, out: Path, names: list[str], *, overwrite: bool) -> None:
    """Put the finished folder in its place.

    An older output of ours that holds nothing else leaves by one renaming, and the new one comes by another. In a folder with files of
    others only ours are replaced, the manifest first and last, and a journal beside them says which those are.
    """
    old = {*_old_files(out), "manifest.json", JOURNAL}
    left = tmp.with_name("old")
    try:
        if not overwrite and out.exists() and any(out.iterdir()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(out))
        if out.exists() and any(out.iterdir()) and not (_files(out) <= old and _renamed(out, left)):
            _replace(tmp, out, names, old)
            return
        if out.exists():
            out.rmdir()
        tmp.rename(out)
    except OSError as e:
        if left.exists() and not out.exists():
            left.rename(out)
        if e.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise CurateError(f"{out} was written by another run meanwhile; nothing of this run was kept.") from None
        raise


def _files(out: Path) -> set[str]:
    return {str(f.relative_to(out)) for f in out.rglob("*") if f.is_symlink() or not f.is_dir()}


def _renamed(out: Path, aside: Path) -> bool:
    """Whether the folder could be moved away; one that is a mount cannot."""
    try:
        out.rename(aside)
    except OSError:
        return False
    return True


def _replace(tmp: Path, out: Path, names: list[str], old: set[str]) -> None:
    """File by file; ``data`` leaves and comes as one folder where nothing else lies in it, so that half of it is never there."""
    _durable(out / JOURNAL, json.dumps(sorted({*old, *names} - {JOURNAL})))
    (out / "manifest.json").unlink(missing_ok=True)
    data = out / "data"
    if data.is_dir() and not data.is_symlink() and {f"data/{f}" for f in _files(data)} <= old:
        _renamed(data, tmp.with_name("old-data"))
    for name in sorted(old - {JOURNAL}):
        target = out / name
        if target.resolve().is_relative_to(out.resolve()):
            target.unlink(missing_ok=True)
    for name in sorted(names, reverse=True):  # README, ledger and longest rows before data
        if not name.startswith("data/"):
            (tmp / name).replace(out / name)
    if not data.exists():
        (tmp / "data").rename(data)
    else:
        for name in names:
            if name.startswith("data/"):
                (tmp / name).replace(out / name)
    (tmp / "manifest.json").replace(out / "manifest.json")
    (out / JOURNAL).unlink()


def _old_files(out: Path) -> list[str]:
    listed: list[str] = []
    for name, pick in (("manifest.json", lambda m: list(m["files"])), (JOURNAL, list)):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            listed += pick(json.loads((out / name).read_text()))
    return [n for n in dict.fromkeys(listed) if n != "manifest.json"]
