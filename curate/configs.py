"""Which files of a data set belong to which config and split.

A pure function of a list of paths and of the front matter of its ``README.md``, for a repository on the Hub and for a
folder alike. The rules are those of ``datasets`` 5.2 (``data_files.py``): ``configs`` of the card where it has them; else
shards named ``data/<split>-00000-of-00001``, else a split's name in a folder's name, else in a file's name, else everything
is ``train``. Only files with rows are looked at; hidden ones, those below ``__name`` folders and metadata are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from curate.errors import CurateError, near

FORMATS: Final = {
    ".parquet": "parquet",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".arrow": "arrow",
}
"""Extensions of files with rows; ``.gz`` and ``.zst`` may follow."""

METADATA: Final = frozenset({"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
OURS: Final = frozenset({"manifest.json", "ledger.parquet", "longest.parquet"})
"""What ``select`` writes beside the rows: never rows themselves."""

KEYWORDS: Final = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SHARD = re.compile(r"data/(?P<split>\w+(?:\.\w+)*)-\d{5}-of-\d{5}[^/]*\.[^/]*")
_SPLIT = re.compile(r"\w+(\.\w+)*")
_FRONT = re.compile(r"\A\s*---[ \t]*\r?\n(?P<yaml>.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """One split of one config: its files, and what else there is to choose from."""

    config: str
    split: str
    files: tuple[str, ...]
    configs: tuple[str, ...]
    splits: tuple[str, ...]


def front_matter(text: str, *, where: str) -> tuple[dict[str, Any], str]:
    """Split a card into its YAML mapping and the text below it.

    Raises:
        CurateError: The front matter is no YAML, or no mapping.
    """
    import yaml

    found = _FRONT.match(text)
    if found is None:
        return {}, text
    try:
        data = yaml.safe_load(found["yaml"])
    except (yaml.YAMLError, ValueError) as fault:
        mark = getattr(fault, "problem_mark", None)
        line = f" in line {mark.line + 2}" if mark is not None else ""
        raise CurateError(f"The front matter of {where} is broken YAML{line}; mend it between its two --- lines.") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise CurateError(f"The front matter of {where} is no mapping of keys to values; mend it between its two --- lines.")
    return data, text[found.end() :]


def file_format(path: str) -> str | None:
    """``parquet``, ``json``, ``csv`` or ``arrow``; None for a file without rows.

    >>> file_format("data/train.jsonl.zst"), file_format("notes.md")
    ('json', None)
    """
    name = path.rsplit("/", 1)[-1].lower()
    name = re.sub(r"\.(gz|zst)$", "", name)
    return next((kind for ending, kind in FORMATS.items() if name.endswith(ending)), None)


def match(paths: Iterable[str], pattern: str) -> list[str]:
    """The paths that a glob of a card matches: ``*`` stays within a folder, ``**`` does not; sorted."""
    from fsspec.utils import glob_translate  # type: ignore[import-untyped, unused-ignore]

    pattern = pattern.removeprefix("./")
    regex = re.compile(glob_translate(pattern))
    return sorted(p for p in paths if regex.match(p) and (p == pattern or _visible(p, pattern)))


def pick(
    paths: Iterable[str],
    card: Mapping[str, Any],
    *,
    where: str,
    config: str | None = None,
    split: str = "train",
) -> Pick:
    """The files of one split of one config, sorted by path within each pattern.

    Args:
        paths: Paths of the repository or folder, ``/`` between the parts.
        card: The front matter of its README; empty when it has none.
        where: What to call it in an error: ``org/name`` or a folder.
        config: None means the card's default, or the only one.
        split: Name of the split.

    Raises:
        CurateError: There is no such config or split, several configs and no default, a pattern that matches no file,
            or no file with rows.
    """
    known = list(dict.fromkeys(paths))
    entries = declared(card, where=where)
    chosen = _choose(entries, config, where) if entries else _only_default(config, where)
    names = tuple(entries) or ("default",)
    patterns, auto = _splits(entries.get(chosen, {}), known, where=where, config=chosen)
    if split not in patterns:
        of = f"Config {chosen} of {where}" if entries else where
        have = ", ".join(patterns)
        raise CurateError(f"{of} has no split {split}, only {have}; add --split {next(iter(patterns))}.")
    files = patterns[split] if auto else _expand(patterns[split], known, f"{where}, config {chosen}, split {split}")
    return Pick(
        config=chosen,
        split=split,
        files=tuple(_one_format(files)),
        configs=names,
        splits=tuple(patterns),
    )


def declared(card: Mapping[str, Any], *, where: str) -> dict[str, dict[str, Any]]:
    """The ``configs`` of a card by name; empty when it lists none."""
    listed = card.get("configs") or []
    if not isinstance(listed, list):
        raise CurateError(f"The README of {where} has `configs` that are no list; its owner has to mend them.")
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(entry.get("config_name"), str):
            raise CurateError(f"The README of {where} lists a config without a config_name; its owner has to mend it.")
    return {entry["config_name"]: entry for entry in listed}


def split_patterns(entry: Mapping[str, Any], *, where: str) -> dict[str, list[str]]:
    """Split to globs of one entry of ``configs``, relative to the root; empty when it names no ``data_files``."""
    given = entry.get("data_files")
    base = str(entry.get("data_dir") or "").strip("/")
    if given is None:
        return {}
    if isinstance(given, str):
        given = [given]
    if isinstance(given, list) and all(isinstance(item, str) for item in given):
        given = [{"split": "train", "path": given}]
    found: dict[str, list[str]] = {}
    for item in given if isinstance(given, list) else [None]:
        path = item.get("path") if isinstance(item, dict) else None
        globs = [path] if isinstance(path, str) else path
        if not isinstance(item, dict) or "split" not in item or not isinstance(globs, list):
            name = entry.get("config_name")
            raise CurateError(f"The README of {where} has data_files of config {name} that name no split and path.")
        found[str(item["split"])] = [f"{base}/{glob}" if base else str(glob) for glob in globs]
    return found


def _choose(entries: Mapping[str, Mapping[str, Any]], config: str | None, where: str) -> str:
    if config is not None:
        if config not in entries:
            have = ", ".join(entries)
            raise CurateError(f"{where} has no config {config}; it has {have}.{near(config, entries)}")
        return config
    marked = [name for name, entry in entries.items() if entry.get("default")]
    if marked:
        return marked[0]
    if "default" in entries or len(entries) == 1:
        return "default" if "default" in entries else next(iter(entries))
    first = next(iter(entries))
    raise CurateError(f"{where} has {len(entries)} configs: {', '.join(entries)}. Name one, as in {where}:{first}.")


def _only_default(config: str | None, where: str) -> str:
    if config not in (None, "default"):
        raise CurateError(f"{where} has no config {config}: its README lists none. Leave :{config} out.")
    return "default"


def _splits(entry: Mapping[str, Any], paths: Sequence[str], *, where: str, config: str) -> tuple[dict[str, list[str]], bool]:
    """Split to globs as the card gives them, or to files as their names give them (then the flag is true)."""
    given = split_patterns(entry, where=where)
    if given:
        return given, False
    base = str(entry.get("data_dir") or "").strip("/")
    prefix = base + "/" if base else ""
    inside = {p.removeprefix(prefix): p for p in paths if p.startswith(prefix)}
    found = guess(inside)
    if not found:
        kinds = ", ".join(name for name, _ in Counter(_ending(p) for p in paths).most_common(4) if name)
        below = f" below {base}" if base else ""
        raise CurateError(
            f"{where} holds no Parquet, JSON, CSV or Arrow file with rows{below}" + (f" (it has {kinds})." if kinds else ".")
        )
    return {split: [inside[p] for p in files] for split, files in found.items()}, True


def data_like(paths: Iterable[str]) -> list[str]:
    """The paths that may hold rows: by their ending, not hidden, not metadata."""
    return [p for p in paths if _has_rows(p)]


def guess(paths: Iterable[str]) -> dict[str, list[str]]:
    """Split to sorted files where no card says it, by the names alone.

    >>> guess(["data/test-00000-of-00001.parquet", "data/train-00000-of-00001.parquet", "notes.md"])
    {'train': ['data/train-00000-of-00001.parquet'], 'test': ['data/test-00000-of-00001.parquet']}
    """
    rows = sorted(data_like(paths))
    shards: dict[str, list[str]] = {}
    for path in rows:
        found = _SHARD.fullmatch(path)
        if found:
            shards.setdefault(found["split"], []).append(path)
    if shards:
        order = [s for s in KEYWORDS if s in shards] + sorted(set(shards) - set(KEYWORDS))
        return {split: shards[split] for split in order}
    for part in (_folders, _file_name):
        named = {s: [p for p in rows if any(_is_named(n, words) for n in part(p))] for s, words in KEYWORDS.items()}
        if any(named.values()):
            return {split: files for split, files in named.items() if files}
    return {"train": rows} if rows else {}


def _expand(patterns: Sequence[str], paths: Sequence[str], what: str) -> list[str]:
    files: list[str] = []
    for pattern in patterns:
        if "://" in pattern:
            raise CurateError(f"{what}: its README points to {pattern}, outside of it; download that file and pass its path.")
        found = [p for p in match(paths, pattern) if _has_rows(p) or p == pattern]
        if not found:
            raise CurateError(f"{what}: no file with rows matches {pattern}, which its README names.")
        files += [p for p in found if p not in files]
    return files


def _one_format(files: Sequence[str]) -> list[str]:
    """The files of the commonest format; among equals, Parquet comes first."""
    kinds = Counter(file_format(p) for p in files)
    order = ["parquet", "json", "csv", "arrow", None]
    best = min(kinds, key=lambda kind: (-kinds[kind], order.index(kind)))
    return [p for p in files if file_format(p) == best]


def _has_rows(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return file_format(path) is not None and name not in METADATA and name not in OURS and _visible(path, "")


def _visible(path: str, pattern: str) -> bool:
    """Hidden parts and ``__name`` folders count only where the pattern asks for as many of them."""

    def hidden(text: str) -> tuple[int, int]:
        parts = text.split("/")
        return sum(p.startswith(".") for p in parts), sum(p.startswith("__") for p in parts[:-1])

    return hidden(path) == hidden(pattern)


def _folders(path: str) -> list[str]:
    return path.split("/")[:-1]


def _file_name(path: str) -> list[str]:
    return [path.rsplit("/", 1)[-1]]


def _is_named(name: str, words: Iterable[str]) -> bool:
    """Whether one of ``words`` stands in ``name`` between its ends, digits, spaces and ``-._``."""
    return any(re.search(rf"(^|[-._ 0-9]){word}($|[-._ 0-9])", name) for word in words)


def _ending(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return "." + name.rsplit(".", 1)[-1] if "." in name.lstrip(".") else ""
