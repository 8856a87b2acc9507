"""What a SOURCE on the command line means on this disk: a file, a folder, a pattern, an output of ours.

A path that exists is never a pattern. A folder is read with its sub-folders; names that begin with "." or "_" and files that are no data
are left out; where a folder has several formats the first of Parquet, Arrow, JSON lines, CSV, JSON is read.
"""

from __future__ import annotations

import glob
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from curate.errors import CurateError
from curate.sources import kind

ORDER: Final = ("parquet", "arrow", "jsonl", "csv", "json")
SPLITS: Final = {
    "train": ("train", "training"),
    "test": ("test", "testing", "eval", "evaluation"),
    "validation": ("validation", "valid", "val", "dev"),
}
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
    path = Path(spec)
    if path.exists():
        return _folder(spec, path, split) if path.is_dir() else _file(spec, path)
    if path.is_symlink():
        raise CurateError(f"{spec} is a link to {path.readlink()}, which does not exist.")
    folder, _, config = spec.rpartition(":")
    if folder and Path(folder).is_dir():
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
    """A short name for an output folder: the last part of the path without its endings, with letters that every file system takes."""
    base = Path(spec.rstrip("/")).name or "source"
    base = re.sub(r"(\.(parquet|jsonl|ndjson|json|csv|arrow|gz|zst))+$", "", base)
    return re.sub(r"[^\w.\-]+", "-", base).strip("-.") or "source"


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
    configs = card_configs(path)
    if configs:
        return _config(spec, path, "", split, configs)
    files, left = _walk(path)
    files = _of_split(files, path, split, spec)
    if not files:
        raise CurateError(
            f"{spec} holds no data file. Looked for Parquet, Arrow, JSON lines, CSV and JSON in it and its sub-folders."
        )
    notes = (
        (f"{spec}: {len(left)} files of other formats left out ({', '.join(sorted({f.suffix for f in left}))}).",) if left else ()
    )
    return Place(name=short_name(spec), files=tuple(files), notes=notes)


def _manifest(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((path / "manifest.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "curate" in found else None


def _saved(path: Path, split: str) -> tuple[Path, ...]:
    """Files of a folder that ``datasets`` saved with ``save_to_disk``, in its own order."""
    if (path / "dataset_dict.json").exists():
        splits = json.loads((path / "dataset_dict.json").read_text())["splits"]
        if split not in splits:
            raise CurateError(f"{path} has no split {split}. Splits: {', '.join(splits)}. Name one with --split.")
        path = path / split
    if not (path / "state.json").exists():
        return ()
    state = json.loads((path / "state.json").read_text())
    return tuple(path / f["filename"] for f in state.get("_data_files", []))


def _walk(root: Path) -> tuple[list[Path], list[Path]]:
    """Data files of the first format there is, sorted by path, and data files of other formats."""
    found: dict[str, list[Path]] = {}
    seen: set[str] = set()
    for folder, names, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        names[:] = sorted(n for n in names if not n.startswith((".", "_"))) if real not in seen else []
        if real in seen:
            continue
        seen.add(real)
        for name in files:
            path = Path(folder) / name
            what = None if name.startswith((".", "_")) else kind(path)
            if what:
                found.setdefault(what, []).append(path)
    best = next((k for k in ORDER if k in found), None)
    if best is None:
        return [], []
    return sorted(found.pop(best)), [f for fs in found.values() for f in fs]


def split_of(path: Path, root: Path) -> str | None:
    """The split that a file's name or folder names (``train-00000.parquet``, ``test/x.jsonl``), or None."""
    parts = [*path.relative_to(root).parts[:-1], re.split(r"[-_.]", path.name)[0]]
    words = {w: s for s, ws in SPLITS.items() for w in ws}
    return next((words[p.lower()] for p in reversed(parts) if p.lower() in words), None)


def _of_split(files: list[Path], root: Path, split: str, spec: str) -> list[Path]:
    by = {f: split_of(f, root) for f in files}
    named = {s for s in by.values() if s}
    if not named:
        return files
    wanted = [f for f in files if by[f] == split or (by[f] is None and split == "train")]
    if not wanted:
        raise CurateError(f"{spec} has no split {split}. Splits by file name: {', '.join(sorted(named))}. Name one with --split.")
    return wanted


def card_configs(folder: Path) -> list[dict[str, Any]]:
    """The ``configs`` of a folder's README.md, as the Hub reads them; empty where there is none."""
    import yaml

    card = folder / "README.md"
    if not card.is_file():
        return []
    match = re.match(r"---\r?\n(.*?)\r?\n---", card.read_text(encoding="utf-8", errors="replace"), re.S)
    try:
        found = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError:
        return []
    configs = found.get("configs") if isinstance(found, dict) else None
    return [c for c in configs if isinstance(c, dict) and c.get("data_files")] if isinstance(configs, list) else []


def _config(spec: str, folder: Path, name: str, split: str, configs: list[dict[str, Any]] | None = None) -> Place:
    configs = card_configs(folder) if configs is None else configs
    names = [str(c.get("config_name", "default")) for c in configs]
    if not name:
        default = next((n for c, n in zip(configs, names, strict=True) if c.get("default")), None)
        name = default or ("default" if "default" in names else names[0] if len(names) == 1 else "")
        if not name:
            raise CurateError(f"{folder} has several configs: {', '.join(names)}. Name one: {folder}:{names[0]}.")
    if name not in names:
        raise CurateError(f"{folder} has no config {name}. Configs: {', '.join(names) or 'none'}.")
    patterns = patterns_of(configs[names.index(name)]["data_files"])
    if split not in patterns:
        raise CurateError(f"{folder}:{name} has no split {split}. Splits: {', '.join(patterns)}. Name one with --split.")
    files = sorted(
        {Path(p) for pattern in patterns[split] for p in glob.glob(f"{glob.escape(str(folder))}/{pattern}", recursive=True)}
    )
    files = [f for f in files if f.is_file() and kind(f) and f.resolve().is_relative_to(folder.resolve())]
    if not files:
        raise CurateError(f"The README of {folder} lists {', '.join(patterns[split])} for {name}, but no such file is there.")
    return Place(name=short_name(spec.replace(":", "-")), files=tuple(files))


def patterns_of(data_files: Any) -> dict[str, list[str]]:
    """``data_files`` of a config in any of the ways the Hub allows, as split to patterns."""
    if isinstance(data_files, str):
        return {"train": [data_files]}
    if isinstance(data_files, dict):
        return {str(k): [v] if isinstance(v, str) else list(v) for k, v in data_files.items()}
    out: dict[str, list[str]] = {}
    for item in data_files:
        if isinstance(item, str):
            out.setdefault("train", []).append(item)
        else:
            path = item.get("path", [])
            out.setdefault(str(item.get("split", "train")), []).extend([path] if isinstance(path, str) else path)
    return out
