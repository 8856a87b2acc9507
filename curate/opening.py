"""From the words a user types to sources that can be read: a path, a pattern, a known name, a Hub id, a ledger.

A path that exists is a path; then a known name; then a Hub id. What a preset says of columns yields to what the user says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curate import engine, ledger, locate, objects, presets, remote, sources, tokens
from curate.errors import CurateError, UsageError
from curate.layout import Columns
from curate.rows import as_frame

Note = Callable[[str], None]

_HUB = "hf://datasets/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to read: SOURCEs and the options that all commands share."""

    sources: tuple[str, ...]
    columns: Columns = field(default_factory=Columns)
    split: str = "train"
    tokenizer: str | None = None
    chat_template: Path | None = None
    estimate: str | None = None
    count: Literal["sample", "trace"] = "sample"
    difficulty_from: str | None = None
    labels: tuple[str, ...] = ()
    verdicts: Path | None = None
    min_tests: int | None = None
    presets: Path | None = None
    skip_bad_rows: bool = False
    sample: int | None = None
    seed: int = 0
    use_cache: bool = True
    details: bool = False
    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Frames in memory by the name that ``sources`` gives them."""

    def __post_init__(self) -> None:
        counts = {"--tokenizer": self.tokenizer, "--tokens": self.columns.tokens}
        given = [name for name, value in counts.items() if value]
        if len(given) > 1 or (self.estimate and self.columns.tokens):
            raise UsageError(f"{' and '.join([*given, '--estimate'][:2])} both say how to count. Use one.")
        if self.presets:
            presets.load(self.presets)  # a file that cannot be read is said before any work
        if self.estimate:
            tokens.open_counter(estimate=self.estimate)  # a rule that is none is refused before any work
        if self.chat_template and not self.tokenizer:
            raise UsageError("--chat-template needs --tokenizer: a template is rendered and counted together.")
        if self.chat_template and self.count == "trace":
            raise UsageError("--chat-template has no part in --count trace, which counts the trace alone. Leave one out.")
        if self.columns.messages and self.columns.trace:
            raise UsageError("--messages and --trace both say where the trace is. Use one.")
        if self.min_tests is not None and self.verdicts is None:
            raise UsageError("--min-tests goes with --verdicts: only `curate verify` says how many tests stand behind a pass.")
        if self.sample is not None and self.sample < 1:
            raise UsageError(f"--sample {self.sample}: a sample has at least one row.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One SOURCE: either a source of rows or the path of a ledger; with its preset where it is known by name."""

    name: str
    source: engine.Source | None = None
    ledger: Path | None = None
    preset: presets.Preset | None = None


def open_one(spec: str, request: Request, *, note: Note) -> Opened:
    """Open one SOURCE: a path, a pattern, a known name or a Hub id, in this order.

    Raises:
        CurateError: nothing of that name is here or known, or it cannot be read; the sentence says what to do.
    """
    if spec in request.frames:
        table = sources.of_frame(spec, request.frames[spec])
        return Opened(name=spec, source=engine.open_source(table, request.columns, labels=request.labels, facts={"spec": spec}))
    place = _place(spec, split=request.split)
    if place is not None:
        return _local(spec, place, request, note)
    known = presets.merge(presets.known(), presets.load(request.presets)) if request.presets else presets.known()
    if spec.startswith(_HUB):
        return _hub(spec, None, None, request, note)
    bare, _, revision = spec.partition("@")
    preset = presets.find(bare, known)
    if preset is not None and preset.path is not None:
        found = locate.local(preset.path, split=preset.split)
        if found is None:
            raise CurateError(f"{spec}: the preset's path {preset.path} does not exist.")
        return _preset(
            spec,
            preset,
            sources.open_table(preset.name, found.files, skip_bad_rows=request.skip_bad_rows, cached=request.use_cache),
            request,
            note,
        )
    if preset is None and remote.parse(spec) is None:
        raise CurateError(
            f"{spec} is no file or folder here, and no known data set.{presets.near_names(bare, known)} "
            "`curate sources` lists the known ones; a Hub data set is org/name."
        )
    return _hub(spec, preset, revision or None, request, note)


def how(request: Request, found: Sequence[engine.Source], *, note: Note) -> engine.How:
    """How the traces of some sources are counted, and what else is found out about them."""
    counter = tokens.open_counter(
        tokenizer=request.tokenizer,
        chat_template=request.chat_template,
        estimate=None if request.tokenizer else request.estimate,
        kind=request.count,
        messages=any("messages" in s.layout.roles for s in found),
        cached=request.use_cache,
        note=note,
    )
    old = tokens.rule(request.estimate, kind=request.count) if request.tokenizer and request.estimate else None
    digests = request.verdicts is not None or request.details
    return engine.How(counter=counter, details=request.details, digests=digests, old=old)


def _place(spec: str, *, split: str) -> locate.Place | None:
    """Files on this disk, or copied to it from an object store."""
    if spec.startswith(_HUB):
        return None
    if objects.is_url(spec):
        return locate.Place(name=locate.short_name(spec), files=tuple(objects.fetch(spec, split=split)))
    return locate.local(spec, split=split)


def _local(spec: str, place: locate.Place, request: Request, note: Note) -> Opened:
    for text in place.notes:
        note(text)
    if len(place.files) == 1 and (path := place.files[0]).suffix == ".parquet" and _is_ledger(path):
        return Opened(name=place.name, ledger=path)
    table = sources.open_table(place.name, place.files, skip_bad_rows=request.skip_bad_rows, cached=request.use_cache)
    facts: dict[str, Any] = {"spec": portable(spec)}
    synthetic = (table.metadata or {}).get(b"curate.synthetic", b"").decode()
    if synthetic:
        facts["synthetic"] = synthetic
    if place.manifest is not None:
        facts["output_of"] = [s.get("name") for s in place.manifest.get("sources", [])]
    columns = request.columns
    if place.manifest is not None and _takes_own_counts(request, place.manifest, table):
        columns, facts["own_counts"] = columns.over(Columns(tokens="tokens")), place.manifest["tokens"]
        note(f"{spec}: lengths are those that it was selected by ({place.manifest['tokens'].get('by')}); --tokenizer counts anew.")
    return Opened(name=place.name, source=engine.open_source(table, columns, labels=request.labels, facts=facts))


def _takes_own_counts(request: Request, manifest: Mapping[str, Any], table: sources.Table) -> bool:
    """Whether an output of ours is asked for in the way it was counted: then its ``tokens`` are the lengths."""
    asked = request.tokenizer or request.estimate or request.columns.named()
    counted = manifest.get("tokens") or {}
    return (
        not asked and "tokens" in table.schema.names and counted.get("count") == request.count and counted.get("basis") == "exact"
    )


def _address(spec: str) -> tuple[str, str]:
    """``hf://datasets/org/name[@revision][/path]`` as the data set's name and the path inside it."""
    org, _, rest = spec.removeprefix(_HUB).partition("/")
    name, _, inside = rest.partition("/")
    if not (org and name):
        raise CurateError(f"{spec} names no data set. Write {_HUB}org/name, or {_HUB}org/name/path of a file or folder.")
    return f"{org}/{name}", inside


def _hub(spec: str, preset: presets.Preset | None, revision: str | None, request: Request, note: Note) -> Opened:
    """Files from the Hub at one commit; a preset says which config and what its columns mean."""
    if spec.startswith(_HUB):
        repo, inside = _address(spec)
        found = remote.resolve(repo, split=request.split, files=(inside, f"{inside.rstrip('/')}/**") if inside else ())
    elif preset is None:
        found = remote.resolve(spec, split=request.split)
    else:
        assert preset.repo is not None
        split = preset.split if request.split == "train" else request.split
        found = remote.resolve(preset.repo, config=preset.config, split=split, revision=revision, files=preset.files)
    name = preset.name if preset is not None else spec.partition("@")[0].replace("/", "-").replace(":", "-")
    paths = remote.download(found)
    table = sources.open_table(name, paths, skip_bad_rows=request.skip_bad_rows, cached=request.use_cache)
    facts = {"spec": spec, "repo": found.repo, "config": found.config, "split": found.split, "configs": list(found.configs)}
    known: dict[str, Any] = {"revision": found.revision, "licence": ", ".join(found.licence) or None, "facts": facts}
    if preset is not None:
        return _preset(spec, preset, table, request, note, **known)
    source = engine.open_source(table, request.columns, labels=request.labels, **known)
    return Opened(name=name, source=source)


def _preset(spec: str, preset: presets.Preset, table: sources.Table, request: Request, note: Note, **known: Any) -> Opened:
    """A known data set: its columns as the preset says, unless the user says otherwise."""
    presets.require(preset, engine.schema_of(table))
    said = Columns(**presets.roles(preset))
    if request.columns.messages:
        said = replace(said, trace=None, prompt=None, reasoning=None, system=None)
    elif request.columns.trace:
        said = replace(said, messages=None, reasoning=None)
    known.setdefault("facts", {"spec": portable(spec)})
    known["facts"] = {**known["facts"], **_told(preset)}
    known["licence"] = known.get("licence") or preset.licence
    source = engine.open_source(
        table,
        request.columns.over(said),
        guess=False,
        basis="verdict" if request.columns.passed else preset.passed_basis,
        rating=preset.difficulty_kind == "rating" if not request.columns.difficulty else None,
        labels=request.labels or preset.labels,
        notes=tuple(presets.notes(preset)),
        **known,
    )
    return Opened(name=preset.name, source=source, preset=preset)


def _told(preset: presets.Preset) -> dict[str, Any]:
    """What screens and cards say of a known data set."""
    facts: dict[str, Any] = {"preset": preset.name, "siblings": list(preset.siblings), "hint": preset.hint, "card": preset.card}
    facts |= {
        "bounds": list(preset.bounds),
        "own_tokens": preset.tokens,
        "own_tokens_by": preset.tokens_by,
        "tests": list(preset.tests),
    }
    return {k: v for k, v in facts.items() if v}


def portable(spec: str) -> str:
    """The SOURCE as typed, or only its last part where it is an absolute path: files that travel name no machine."""
    return Path(spec).name if Path(spec).is_absolute() else spec


def _is_ledger(path: Path) -> bool:
    try:
        return ledger.is_ledger(pq.read_schema(path).metadata)
    except (OSError, ValueError):
        return False


def difficulties(wanted: presets.DifficultyTable, *, cache: Path) -> tuple[str, pl.DataFrame, str]:
    """The table of problems that a preset joins its difficulty from: its name, its columns, the commit they were read at."""
    table, commit = remote.read_table(wanted.repo, wanted.columns, config=wanted.config, splits=wanted.splits, cache=cache)
    return wanted.repo, table, commit


def table_of(spec: str, request: Request) -> tuple[str, pl.DataFrame]:
    """A small table of problems (``--difficulty-from``), read as a whole: a file or folder here, or a data set on the Hub."""
    place = _place(spec, split=request.split)
    if place is None:
        if remote.parse(spec) is None:
            raise CurateError(f"--difficulty-from {spec}: there is no such file or folder.")
        place = locate.Place(name=spec, files=tuple(remote.download(remote.resolve(spec))))
    table = sources.open_table(place.name, place.files)
    flat = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    frames = [as_frame(b.data) for t in table.tasks for b in t.read(flat)]
    empty = as_frame(pa.Table.from_batches([], table.schema)).select(flat)
    return spec, pl.concat([empty, *frames], how="vertical_relaxed")
