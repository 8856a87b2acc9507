"""What a push takes: a folder of ``select`` that is whole, or Parquet as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from curate import configs
from curate.check import FORMAT, verify_out
from curate.errors import CurateError
from curate.plan import Payload


def load(out: Path) -> Payload:
    """The files to publish, checked.

    Raises:
        CurateError: Nothing is there, a folder of ``select`` is not whole, no rows, or a file is no Parquet.
    """
    if not out.exists():
        raise CurateError(f"There is no {out}; name a folder that `curate select` wrote, or a Parquet file or folder.")
    if out.is_dir() and ((out / "manifest.json").is_file() or (out / "ledger.parquet").is_file()):
        return _selected(out)
    return _bare(out)


def ours(text: str) -> Mapping[str, Any] | None:
    """A manifest that an earlier push left; None when the file is something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_ours = isinstance(found, dict) and found.get("format") == FORMAT and isinstance(found.get("files"), dict)
    return found if is_ours else None


def _selected(out: Path) -> Payload:
    manifest = verify_out(out)
    if not manifest["select"]["kept"]:
        raise CurateError(f"{out} holds no rows, so there is nothing to push; select with a larger bound or another rule.")
    names = [name for name in manifest["files"] if name != "README.md"]
    card = out / "README.md"
    return Payload(
        files={name: out / name for name in (*names, "manifest.json")},
        rows={name: int(manifest["files"][name]["rows"]) for name in names if name.startswith("data/")},
        manifest=manifest,
        version=str(manifest["curate"]),
        readme=card.read_text(encoding="utf-8") if card.is_file() else None,
    )


def _bare(out: Path) -> Payload:
    if out.is_file():
        inside = {out.name: out}
    else:
        inside = {str(p.relative_to(out).as_posix()): p for p in sorted(out.rglob("*")) if p.is_file()}
    splits = configs.guess(p for p in inside if p.endswith(".parquet"))
    if not splits:
        raise CurateError(f"{out} holds no Parquet file; name a folder that `curate select` wrote, or Parquet.")
    files: dict[str, Path] = {}
    rows: dict[str, int] = {}
    for split, names in splits.items():
        _same_columns([inside[name] for name in names])
        for number, name in enumerate(names):
            path = f"data/{split}-{number:05d}-of-{len(names):05d}.parquet"
            files[path] = inside[name]
            rows[path] = _height(inside[name])
    if not sum(rows.values()):
        raise CurateError(f"{out} holds no rows, so there is nothing to push.")
    return Payload(files=files, rows=rows, manifest=None, version=metadata.version("trace-curate"))


def _same_columns(paths: list[Path]) -> None:
    import pyarrow.parquet as pq

    _height(paths[0])
    first = pq.read_schema(paths[0])
    for path in paths[1:]:
        _height(path)
        if not pq.read_schema(path).equals(first):
            raise CurateError(f"{path} has other columns or types than {paths[0]}; push them as two configs with --config.")


def _height(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError):
        raise CurateError(f"{path} is no whole Parquet file; write it again.") from None
