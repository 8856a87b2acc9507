"""Reads back what ``select`` wrote: is it whole, and does it hold what its card says.

``verify_out`` is what ``push`` asks before a byte leaves: every file there, unchanged, and none beside them. ``check_out`` goes
on: one schema, the number of rows, every row within its bound by the recorded count, no text cut. Hashing reads every byte
once (about 1 GB a second); texts are compared batch by batch, so memory stays flat.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import polars as pl

from curate import card, readme
from curate.errors import CurateError

FORMAT: Final = 1
"""The ``format`` of ``manifest.json`` that this version reads."""

ANSWERS: Final = ("messages", "conversations", "completion", "output")
"""Columns that hold the trace in the formats that ``select`` writes, the first one present wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at; ``fault`` is None when it holds."""

    what: str
    fault: str | None

    def json(self) -> dict[str, Any]:
        return {"what": self.what, "ok": self.fault is None, "fault": self.fault}


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a folder that ``select`` finished.

    Raises:
        CurateError: There is none, it is no whole JSON, or it is of another format.
    """
    path = out / "manifest.json"
    if not out.exists():
        raise CurateError(f"There is no {out}. Name a folder that `curate select` wrote.")
    if not path.is_file():
        raise CurateError(
            f"{out} has no manifest.json, so no `curate select` finished there; "
            "run it again with --overwrite, or name a finished folder."
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise CurateError(f"{path} is no whole JSON; run `curate select` again with --overwrite.") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise CurateError(f"{path} is no manifest of `curate select`; name the folder that it wrote.")
    if manifest.get("format") != FORMAT:
        raise CurateError(f"{path} has format {manifest.get('format')}, this curate reads {FORMAT}; update curate.")
    return manifest


def verify_out(out: Path) -> dict[str, Any]:
    """Check that the folder is whole and unchanged; its manifest.

    The card may hold more than ``select`` wrote, outside of its marks; every other file is as it was, byte for byte.

    Raises:
        CurateError: A file is missing, changed or foreign; at most three are named.
    """
    manifest = read_manifest(out)
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise CurateError(f"{out / 'manifest.json'} lists {name}, which lies outside of the folder; select again.")
    data = [name for name in files if name.startswith("data/")]
    foreign = sorted(f"data/{p.name}" for p in (out / "data").glob("*") if f"data/{p.name}" not in files)
    missing = [name for name in files if name != "README.md" and not (out / name).is_file()]
    if missing:
        raise CurateError(f"{out} lacks {_some(missing)}; run `curate select` again with --overwrite.")
    if foreign or not data:
        what = f"holds {_some(foreign)}, which its manifest does not list" if foreign else "holds no rows at all"
        raise CurateError(f"{out} {what}; move that away, or run `curate select` again with --overwrite.")
    changed = [name for name in files if name != "README.md" and not _same(out / name, files[name])]
    if changed:
        raise CurateError(f"{out} was changed after `curate select`: {_some(changed)}; run it again with --overwrite.")
    fault = card_fault(out, manifest)
    if fault:
        raise CurateError(f"{fault} Write outside of its marks, or run `curate select` again with --overwrite.")
    return manifest


def check_out(out: Path, *, texts: Iterable[str] | None = None) -> tuple[Finding, ...]:
    """Everything that ``curate check OUT`` looks at, in order; a folder that is not whole, or of two schemas, ends it.

    Args:
        out: A folder that ``select`` wrote, or such a folder downloaded from the Hub.
        texts: The kept traces as the source has them, in the order of the rows. None leaves the comparison out.
    """
    try:
        manifest = verify_out(out)
    except CurateError as fault:
        return (Finding(what="whole, unchanged, card and manifest agree", fault=str(fault)),)
    found = [Finding(what="whole, unchanged, card and manifest agree", fault=None)]
    shards = [out / name for name in sorted(manifest["files"]) if name.startswith("data/")]
    schema = _schema_fault(shards)
    found.append(Finding(what="one schema", fault=schema))
    found.append(Finding(what="number of rows", fault=_rows_fault(shards, manifest)))
    if schema is not None:
        return tuple(found)
    found.append(Finding(what="every row within the bound", fault=_bound_fault(out, shards, manifest)))
    if texts is not None:
        found.append(Finding(what="no trace cut", fault=_text_fault(shards, manifest, texts)))
    return tuple(found)


def options_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the run that wrote a manifest, as ``select --like`` needs them.

    ``sources`` holds one SOURCE each, pinned to its commit where it has one; the other keys are those of ``options``.
    """
    sources = []
    for source in manifest["sources"]:
        name, revision = str(source.get("spec") or source["name"]), source.get("revision")
        # A tag or branch that was typed may have moved since; the commit has not.
        sources.append(f"{name.split('@', maxsplit=1)[0]}@{revision}" if revision else name)
    return {**manifest["options"], "sources": sources}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def card_fault(out: Path, manifest: Mapping[str, Any]) -> str | None:
    """Why the card does not say what the manifest says; None when it does.

    In a folder downloaded from the Hub the card of a config other than ``default`` stands one folder up.
    """
    path, config = out / "README.md", "default"
    above = out.parent / "README.md"
    if not path.is_file() and above.is_file():
        path, config = above, out.name
    if not path.is_file():
        return f"{out} has no README.md."
    listed = manifest["files"].get("README.md")
    if listed and _same(path, listed):
        return None
    text = path.read_text(encoding="utf-8")
    try:
        agrees = card.render(manifest, config=config, existing=text) == text
        agrees = agrees and config in readme.marked(text)
    except CurateError as fault:
        return str(fault)
    return None if agrees else f"{path} does not say what the manifest says."


def _same(path: Path, entry: Mapping[str, Any]) -> bool:
    return bool(path.stat().st_size == entry["bytes"] and sha256(path) == entry["sha256"])


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _schema_fault(shards: list[Path]) -> str | None:
    schemas = [pl.read_parquet_schema(shard) for shard in shards]
    other = next((s.name for s, schema in zip(shards, schemas, strict=True) if schema != schemas[0]), None)
    return f"{other} has another schema than {shards[0].name}." if other else None


def _rows_fault(shards: list[Path], manifest: Mapping[str, Any]) -> str | None:
    rows = _height(shards)
    kept = int(manifest["select"]["kept"])
    return None if rows == kept else f"The files hold {rows:,} rows, the manifest says {kept:,}."


def _height(shards: list[Path]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(shard).num_rows for shard in shards)


def _bound_fault(out: Path, shards: list[Path], manifest: Mapping[str, Any]) -> str | None:
    """Compare the ledger's kept lengths with the bound, and with the lengths that the rows carry."""
    kept = (
        pl.scan_parquet(out / "ledger.parquet")
        .filter(pl.col("reason").is_null())
        .sort("source", "row", "item")
        .select(pl.col("tokens").cast(pl.Int64))
        .collect()["tokens"]
    )
    rows = _height(shards)
    if len(kept) != rows:
        return f"The ledger keeps {len(kept):,} traces, the files hold {rows:,} rows."
    bound = manifest["options"].get("max_tokens")
    if bound is not None:
        lengths = [n for n in kept.to_list() if n is None or n > bound]
        if lengths:
            longest = max(n or 0 for n in lengths)
            return f"{len(lengths):,} rows are over the bound of {bound:,} tokens, the longest has {longest:,}."
    if "tokens" in pl.read_parquet_schema(shards[0]):
        told = pl.scan_parquet(shards).select(pl.col("tokens").cast(pl.Int64)).collect()["tokens"]
        if not told.equals(kept, null_equal=True):
            return "The column tokens of the rows is not what the ledger counted."
    return None


def _text_fault(shards: list[Path], manifest: Mapping[str, Any], texts: Iterable[str]) -> str | None:
    wanted = iter(texts)
    for row, text in enumerate(traces_of(shards, manifest)):
        want = next(wanted, None)
        if want is None:
            return f"The source has {row:,} kept traces, the files hold more."
        if text != want:
            have, full = len(text or ""), len(want)
            return f"Row {row:,} differs from its source: {have:,} characters here, {full:,} there."
    return "The source has more kept traces than the files hold." if next(wanted, None) is not None else None


def traces_of(shards: Iterable[Path], manifest: Mapping[str, Any]) -> Iterator[str | None]:
    """The trace of each row, in order, whatever ``--format`` wrote it.

    Raises:
        CurateError: No column holds it: neither one of the written formats nor the source's own.
    """
    import pyarrow.parquet as pq

    for shard in shards:
        file = pq.ParquetFile(shard)
        names = file.schema_arrow.names
        own = [str(s["mapping"]["trace"]) for s in manifest["sources"] if (s.get("mapping") or {}).get("trace") in names]
        column = next((c for c in (*ANSWERS, *own) if c in names), None)
        if column is None:
            raise CurateError(f"No column of {shard} holds the trace; it has {', '.join(names)}. Select again with --format auto.")
        for batch in file.iter_batches(batch_size=256, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield _answer(value)


def _answer(value: Any) -> str | None:
    """A text as it is; of a list of turns the last one's text."""
    if isinstance(value, list):
        turn = value[-1] if value else {}
        value = turn.get("content", turn.get("value"))
    return None if value is None else str(value)
