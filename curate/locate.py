"""What a SOURCE on the command line means on this disk: a file, a folder, a pattern, an output of ours.

A path that exists is never a pattern. A folder is read as the Hub would read it (``configs``): by the configs of its README, else by the
names of its files, with its sub-folders; names that begin with "." or "_" and files that are no data are left out.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from curate import configs
from curate.errors import CurateError, UsageError
from curate.sources import kind

_MAGIC: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Files of one SOURCE, sorted by path. ``manifest`` is set for an output of ours."""

    name: str
    files: tuple[Path, ...]
    manifest: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def local(spec: str, *, split: str = "train") -> Place | None:
    """The files that a SOURCE names on this disk, or None when it names none (it may be a known name or a Hub id).

    Raises:
        CurateError: a folder with no data, a pattern that matches nothing, a split or config that is not there.
    """
    if not spec.strip():
        raise UsageError("An empty SOURCE names nothing. Name a file, a folder, a known data set or a Hub id.")
    path = Path(spec)
    if path.exists():
        return _folder(spec, path, split) if path.is_dir() else _file(spec, path)
    if path.is_symlink():
        raise CurateError(f"{spec} is a link to {path.readlink()}, which does not exist.")
    folder, _, config = spec.rpartition(":")
    if folder and Path(folder).is_dir() and not _MAGIC.search(config):
        return _config(spec, Path(folder), config, split)
    if _MAGIC.search(spec):
        found = sorted(Path(p) for p in glob.glob(spec, recursive=True) if not Path(p).name.startswith((".", "_")))
        files = [f for f in found if f.is_file() and kind(f)]
        if not files:
            raise CurateError(
                f"No data file matches {spec}. Patterns are matched from the current folder; quote them from the shell."
            )
        return Place(name=short_name(spec), files=tuple(files))
    if "/" in spec and (spec.startswith((".", "/", "~")) or kind(path)):
        near = _sibling(path)
        raise CurateError(f"{spec} does not exist.{near}")
    return None


def _sibling(path: Path) -> str:
    import difflib

    if not path.parent.is_dir():
        return f" Nor does its folder {path.parent}."
    close = difflib.get_close_matches(path.name, [p.name for p in path.parent.iterdir()], n=1)
    return f" Did you mean {path.parent / close[0]}?" if close else ""


def short_name(spec: str) -> str:
    """A short name for an output folder: the path's last part without endings, in letters that every file system takes."""
    base = Path(spec.rstrip("/")).name or "source"
    base = re.sub(r"(\.(parquet|jsonl|ndjson|json|csv|arrow|gz|zst))+$", "", base)
    return re.sub(r"[^\w.\-]+", "-", base).strip("-.") or "source"


def out_name(specs: Sequence[str], policy: str, max_tokens: int | None) -> str:
    """The folder that ``select`` writes to when none is named: ``<source>-<policy>-<max_tokens>``."""
    return "-".join([*(short_name(s) for s in specs), policy, *([str(max_tokens)] if max_tokens else [])])


def _file(spec: str, path: Path) -> Place:
    if kind(path) is None:
        raise CurateError(
            f"{spec} is not a kind of file that is read here. Kinds: Parquet, JSON lines, JSON, CSV, Arrow (also .gz, .zst)."
        )
    return Place(name=short_name(spec), files=(path,))


def _folder(spec: str, path: Path, split: str) -> Place:
    manifest = _manifest(path)
    if manifest is not None:
        return Place(name=short_name(spec), files=tuple(sorted((path / "data").glob("*.parquet"))), manifest=manifest)
    if (path / "ledger.parquet").exists() and (path / "data").is_dir():
        raise CurateError(
            f"{spec} looks like an output that was not finished: it has no manifest.json. Select again with --overwrite."
        )
    saved = _saved(path, split)
    if saved:
        return Place(name=short_name(spec), files=saved)
    return _config(spec, path, None, split)


def _manifest(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((path / "manifest.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "curate" in found else None


def _saved(path: Path, split: str) -> tuple[Path, ...]:
    """Files of a folder that ``datasets`` saved with ``save_to_disk``, in its own order."""
    if (path / "dataset_dict.json").exists():
        splits = _listed(path / "dataset_dict.json", lambda said: [str(s) for s in said["splits"]])
        if split not in splits:
            raise CurateError(f"{path} has no split {split}. Splits: {', '.join(splits)}. Name one with --split.")
        path = path / split
    if not (path / "state.json").exists():
        return ()
    files = [path / name for name in _listed(path / "state.json", lambda said: [str(f["filename"]) for f in said["_data_files"]])]
    outside = next((f for f in files if not f.resolve().is_relative_to(path.resolve())), None)
    if outside is not None:
        raise CurateError(f"{path}/state.json names {outside.name} outside of the folder, which is not read.")
    return tuple(files)


def _listed(path: Path, pick: Callable[[Any], list[str]]) -> list[str]:
    try:
        return pick(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CurateError(f"{path} cannot be read as `datasets` writes it. Save the data set again, or name its files.") from None


def _walk(root: Path) -> list[str]:
    """Paths of all files below a folder, relative to it, with linked folders (each once)."""
    found: list[str] = []
    seen: set[str] = set()
    for folder, names, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            names.clear()
            continue
        seen.add(real)
        names[:] = sorted(n for n in names if not n.startswith((".", "_")))
        found += [(Path(folder) / f).relative_to(root).as_posix() for f in files if not f.startswith((".", "_"))]
    dead = next((f for f in found if not (root / f).exists()), None)
    if dead is not None:
        raise CurateError(f"{root / dead} is a link to nothing. Remove it, or name the files to read.")
    return sorted(found)


def _config(spec: str, folder: Path, config: str | None, split: str) -> Place:
    """The files of a folder as the Hub would choose them: by the configs of its README, else by the names of its files."""
    card = folder / "README.md"
    front = configs.front_matter(card.read_text(encoding="utf-8", errors="replace"), where=str(card))[0] if card.is_file() else {}
    paths = _walk(folder)
    picked = configs.pick(paths, front, where=str(folder), config=config, split=split)
    files = sorted(folder / f for f in picked.files)
    kinds = {kind(f) for f in files}
    left = sorted({Path(p).suffix for p in paths if kind(Path(p)) not in (None, *kinds) and Path(p).name not in configs.METADATA})
    notes: tuple[str, ...] = (f"{spec}: files of other formats were left out ({', '.join(left)}).",) if left else ()
    others = [s for s in picked.splits if s != picked.split]
    if others:
        notes += (f"{spec}: only the files of split {picked.split} are read; --split names another ({', '.join(others)}).",)
    return Place(name=short_name(spec.replace(":", "-")), files=tuple(files), notes=notes)
