"""What a push would change: a pure comparison of what shall be published with what a repository holds.

A push owns the files of its config and no others. It replaces the shards that an earlier push of that config left (its manifest
or the card lists them), adds a config to the card beside those that are there, and refuses what it cannot do without harm:
rows of somebody else under the name of its config, a pattern of another config that would take its rows in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from curate import card, configs, readme
from curate.errors import CurateError

OWN: Final = ("ledger.parquet", "longest.parquet", "manifest.json")
"""What ``select`` writes beside ``data/`` and the card."""

_SHARD = re.compile(r"(?:.*/)?[\w.]+-\d{5}-of-\d{5}\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What shall be published: files by their path within the config's folder, without the card.

    ``manifest`` is None for bare Parquet; ``rows`` has the rows of each ``data/`` file.
    """

    files: Mapping[str, Path]
    rows: Mapping[str, int]
    manifest: Mapping[str, Any] | None
    version: str
    readme: str | None = None
    """The local card, for hand-written text outside of its marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A repository at one commit. ``files``: path to bytes and hash (SHA-256 in LFS, else the Git blob id)."""

    commit: str
    private: bool
    files: Mapping[str, tuple[int, str]]
    readme: str | None = None
    manifest: Mapping[str, Any] | None = None
    """The manifest of an earlier push of the same config; None when there is none, or it is not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Paths in the repository: ``add`` has only what differs, ``delete`` the stale shards."""

    add: Mapping[str, Path | bytes]
    delete: tuple[str, ...]
    unchanged: tuple[str, ...]
    card: str

    @property
    def empty(self) -> bool:
        return not self.add and not self.delete


EMPTY: Final = State(commit="", private=False, files={})


@dataclass(slots=True)
class Hashes:
    """Hashes of local files, each read once however often a push has to look again."""

    known: dict[Path, tuple[str, str]] = field(default_factory=dict)

    def of(self, content: Path | bytes) -> tuple[str, str]:
        """SHA-256 of the content, and its Git blob id."""
        if isinstance(content, bytes):
            return hashlib.sha256(content).hexdigest(), _blob(content)
        if content not in self.known:
            size = content.stat().st_size
            plain, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
            with content.open("rb") as file:
                while piece := file.read(1 << 20):
                    plain.update(piece)
                    blob.update(piece)
            self.known[content] = plain.hexdigest(), blob.hexdigest()
        return self.known[content]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What the refusals look at: the new files, the state, the card's configs, and who is pushing where."""

    files: Mapping[str, Path | bytes]
    state: State
    entries: Mapping[str, Mapping[str, Any]]
    repo: str
    config: str

    def listed(self, name: str, paths: Iterable[str]) -> list[str]:
        """Those of ``paths`` that the card reads as config ``name``."""
        splits = configs.split_patterns(self.entries.get(name, {}), where=self.repo).values()
        return [p for globs in splits for g in globs if "://" not in g for p in configs.match(paths, g)]


def make(payload: Payload, state: State, *, repo: str, config: str, hashes: Hashes) -> Plan:
    """What has to change so that ``config`` of the repository is ``payload`` and nothing else changes.

    Raises:
        CurateError: Rows of somebody else would be overwritten, hidden or mixed with these; the card there is broken.
    """
    root = readme.folder(config)
    meta, _ = configs.front_matter(state.readme or "", where=f"the README.md of {repo}")
    files: dict[str, Path | bytes] = {root + name: path for name, path in payload.files.items()}
    look = _Look(files=files, state=state, entries=configs.declared(meta, where=repo), repo=repo, config=config)
    earlier = {root + name for name in (*state.manifest["files"], "manifest.json")} if state.manifest else set()
    ours = earlier | {p for p in look.listed(config, state.files) if _SHARD.fullmatch(p)}
    _refuse_foreign(look, ours)
    others = {p for name in look.entries if name != config for p in look.listed(name, state.files)}
    stale = (ours & set(state.files)) - set(files) - others - {"README.md"}
    _refuse_mixing(look, stale, card.splits_of(payload.rows))
    text = _card(payload, look)
    new = files | {"README.md": text.encode()}
    add = {p: content for p, content in new.items() if not _same(content, state.files.get(p), hashes)}
    unchanged = tuple(sorted(set(new) - set(add)))
    return Plan(add=add, delete=tuple(sorted(stale)), unchanged=unchanged, card=text)


def _card(payload: Payload, look: _Look) -> str:
    beside: dict[str, list[str]] = {}
    if not look.entries and look.config != "default":
        # Without a list of configs these rows are the default config; the first list would hide them.
        beside = {split: list(files) for split, files in configs.guess(look.state.files).items()}
    existing = look.state.readme if look.state.readme is not None else payload.readme
    if payload.manifest is not None:
        return card.render(payload.manifest, config=look.config, existing=existing, beside=beside)
    return card.render_bare(payload.rows, version=payload.version, config=look.config, existing=existing, beside=beside)


def _refuse_foreign(look: _Look, ours: set[str]) -> None:
    """Stop before rows that curate did not write are overwritten, or no longer read by the config that read them."""
    there = look.state.files
    read = look.listed(look.config, there)
    if not look.entries and look.config == "default":
        read = [p for found in configs.guess(there).values() for p in found]
    theirs = sorted({p for p in (*read, *look.files) if p in there} - ours)
    if theirs:
        raise CurateError(
            f"{look.repo} holds {_some(theirs)}, which no earlier push wrote; choose another --config NAME to live beside "
            "that, or another repository."
        )


def _refuse_mixing(look: _Look, stale: set[str], splits: Iterable[str]) -> None:
    """Stop when a config would read rows of another one afterwards, whichever way round."""
    parquet = [p for p in look.files if p.endswith(".parquet")]
    for name in look.entries:
        if name != look.config and (taken := look.listed(name, parquet)):
            raise CurateError(
                f"Config {name} of {look.repo} would read {taken[0]} too, by its own pattern; "
                "narrow that pattern in the README first, or choose another --config NAME."
            )
    after = (set(look.state.files) - stale) | set(look.files)
    for split in splits:
        pattern = f"{readme.folder(look.config)}data/{split}-*"
        mixed = [p for p in configs.match(after, pattern) if p not in look.files]
        if mixed:
            raise CurateError(
                f"{_some(mixed)} of {look.repo} would be read as rows of config {look.config}; move that away, "
                "or choose another --config NAME."
            )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _same(content: Path | bytes, there: tuple[int, str] | None, hashes: Hashes) -> bool:
    if there is None:
        return False
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    return there[0] == size and there[1] in hashes.of(content)


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
