"""The README of a data set as two parts: front matter for machines, and text in which some blocks are ours.

What curate writes stands between two marks, one pair for each config; text outside of them belongs to whoever wrote it and is
kept byte for byte. Of the front matter only what has to change does: the entry of the own config, and lists that are added to.
Merging twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from curate import configs
from curate.errors import CurateError
from curate.markdown import printable

TAGS: Final = ("reasoning", "chain-of-thought", "curate")
TASK: Final = "text-generation"
HINT: Final = "<!-- Text outside of the marks is yours: curate keeps it. -->\n"
_MARK = re.compile(r"^<!-- curate: (?P<edge>begin|end) (?P<config>[\w.-]+) -->[ \t]*\r?$", re.M)
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


def folder(config: str) -> str:
    """Where a config lives in its repository, with a slash at the end; empty for ``default``."""
    return "" if config == "default" else f"{config}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the front matter says of one config.

    ``size`` is a name of the Hub's ``size_categories``. ``beside`` names files (split to globs) that are read as the default
    config only because no config is listed yet: they get an entry, or the first list of configs would hide them.
    """

    splits: Sequence[str]
    size: str
    licences: Sequence[str] = ()
    source_datasets: Sequence[str] = ()
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)


def merge(text: str, facts: Facts, *, config: str, existing: str | None) -> str:
    """``text`` and ``facts`` of one config, merged into the README that is there.

    Raises:
        CurateError: The existing front matter is broken, or a mark lost its partner.
    """
    old, body = configs.front_matter(existing or "", where="the existing README.md")
    data = _merge_yaml(facts, old, config)
    block = f"<!-- curate: begin {config} -->\n{text.rstrip()}\n<!-- curate: end {config} -->"
    unchanged = existing is not None and data == old
    head = existing[: len(existing) - len(body)] if unchanged and existing else _front(data)
    return head + _place(body, block, config)


def _front(data: Mapping[str, Any]) -> str:
    import yaml

    return f"---\n{yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=1000)}---\n"


def _merge_yaml(facts: Facts, old: Mapping[str, Any], config: str) -> dict[str, Any]:
    entries = configs.declared(old, where="the existing README.md")
    alone = not set(entries) - {config} and not facts.beside
    data = dict(old)
    licence = _licence_yaml(facts.licences)
    if licence and (alone or "license" not in data):
        data = licence | {k: v for k, v in data.items() if k not in ("license", "license_name", "license_link")}
    data["task_categories"] = _union(data.get("task_categories"), [TASK])
    data["size_categories"] = _union(None if alone else data.get("size_categories"), [facts.size])
    if facts.source_datasets:
        data["source_datasets"] = _union(None if alone else data.get("source_datasets"), facts.source_datasets)
    data["tags"] = _union(data.get("tags"), TAGS)
    data["configs"] = _entries(entries, facts, config)
    # Features that an earlier writer noted for this config would contradict the new files, and loading would fail.
    info = _other_infos(data.pop("dataset_info", None), config)
    return data | ({"dataset_info": info} if info else {})


def _entries(entries: Mapping[str, Mapping[str, Any]], facts: Facts, config: str) -> list[dict[str, Any]]:
    """The list of configs: others as they are, the own one in its place or at the end."""
    table = {name: dict(entry) for name, entry in entries.items()}
    if facts.beside:
        files = [{"split": s, "path": list(globs)} for s, globs in facts.beside.items()]
        table["default"] = {"config_name": "default", "data_files": files}
    default = {"default": True} if table.get(config, {}).get("default") else {}
    files = [{"split": s, "path": f"{folder(config)}data/{s}-*"} for s in facts.splits]
    table[config] = {"config_name": config, **default, "data_files": files}
    return list(table.values())


def _other_infos(info: object, config: str) -> object:
    if isinstance(info, Mapping):
        return None if info.get("config_name", "default") == config else info
    if isinstance(info, list):
        return [i for i in info if not (isinstance(i, Mapping) and i.get("config_name", "default") == config)]
    return None


def _licence_yaml(names: Sequence[str]) -> dict[str, Any]:
    """``license`` as the Hub takes it: its identifiers are lower-case slugs, anything else is ``other`` with a name."""
    if not names:
        return {}
    slugs = [n.lower() for n in names]
    if all(_LICENCE.fullmatch(s) for s in slugs):
        return {"license": slugs[0] if len(slugs) == 1 else slugs}
    return {"license": "other", "license_name": ", ".join(" ".join(printable(n).split()) for n in names)[:100]}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def _union(have: object, more: Iterable[str]) -> list[Any]:
    items = _list(have)
    return items + [m for m in more if m not in items]


def _place(body: str, block: str, config: str) -> str:
    """``body`` with ``block`` where this config's block was, else after the last block, else at the end."""
    spans = marked(body)
    if config in spans:
        start, end = spans[config]
        return body[:start] + block + body[end:]
    if spans:
        end = max(end for _, end in spans.values())
        return f"{body[:end]}\n\n{block}{body[end:]}"
    if not body.strip():
        return f"\n{block}\n\n{HINT}"
    return f"{body.rstrip()}\n\n{block}\n"


def marked(body: str) -> dict[str, tuple[int, int]]:
    """Config to the span of its block, marks included.

    Raises:
        CurateError: A mark has no partner, or blocks overlap.
    """
    spans: dict[str, tuple[int, int]] = {}
    opened: re.Match[str] | None = None
    for mark in _MARK.finditer(body):
        fits = opened is None if mark["edge"] == "begin" else opened is not None and opened["config"] == mark["config"]
        if not fits or (mark["edge"] == "begin" and mark["config"] in spans):
            raise CurateError(f"The existing README.md has a mark out of place: {mark[0].strip()}; mend or remove its marks.")
        if mark["edge"] == "begin":
            opened = mark
        elif opened is not None:
            spans[mark["config"]] = (opened.start(), mark.start() + len(mark[0].rstrip()))
            opened = None
    if opened is not None:
        raise CurateError(f"The existing README.md has no end for the mark {opened[0].strip()}; mend or remove its marks.")
    return spans
