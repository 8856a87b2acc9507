"""Known data sets: which column holds what, whether it is a verdict, and what justifies saying so.

Presets are data (``presets.toml``); this module reads them, finds one by name and compares it with a schema that was met. It
reads no rows and knows no network. Reading the table takes about 10 ms.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from curate.errors import CurateError, near
from curate.ledger import VerdictBasis

if TYPE_CHECKING:
    from polars._typing import PolarsDataType

Seen = Literal["rows", "card", "copy", "code", "memory"]
DifficultyKind = Literal["rating", "rate", "scale", "label"]

_SEEN: Final = {
    "rows": "its rows were read",
    "card": "only its card or file list was seen, no rows",
    "copy": "its columns were seen on a copy that keeps them, not on itself",
    "code": "its columns are those that public code reads; neither card nor rows were seen",
    "memory": "its columns are from memory, unverified",
}
_PATH: Final = re.compile(r"""([^\[\]()'"=<>|\s.]+)((?:\[-?\d*\]|\.[^\[\]()'"=<>|\s.]+)*)""")
_TURN_FIELDS: Final = ("content", "role", "from", "value")
_SCALARS: Final[dict[str, pl.DataType]] = {
    "string": pl.String(),
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "bool": pl.Boolean(),
    "null": pl.Null(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyTable:
    """Where a difficulty that the rows lack is joined from; only ``columns`` of it are read."""

    repo: str
    key: str
    value: str
    columns: tuple[str, ...]
    config: str = "default"
    splits: tuple[str, ...] = ("train",)
    aliases: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One config of one data set.

    Roles (``problem`` to ``reference``) are column expressions: a column; a path (``generations[]`` is one trace per element,
    ``messages[-1].content``, ``a.b``); or polars SQL over the columns of one trace, after lists are exploded.
    """

    name: str
    aliases: tuple[str, ...] = ()
    repo: str | None = None
    path: str | None = None
    config: str | None = None
    split: str = "train"
    files: tuple[str, ...] = ()
    """Files of a repository that declares no configs; all data files where empty."""
    licence: str = "not stated"
    columns: Mapping[str, pl.DataType] = field(default_factory=dict)
    problem: str | None = None
    """Null: the problem is known by its prompt."""
    alias_column: str | None = None
    """Other ids of the same problem: ids are folded through them."""
    trace: str | None = None
    traces: tuple[str, ...] = ()
    """Several columns of one row that each hold a trace; items 0, 1, ... in this order."""
    parallel: tuple[str, ...] = ()
    """List columns that go along with the list of traces, element by element; unequal lengths make a bad row."""
    prompt: str | None = None
    """A text, or a list of turns that ends with the user's."""
    system: str | None = None
    messages: str | None = None
    reasoning: str | None = None
    answer: str | None = None
    passed: str | None = None
    passed_basis: VerdictBasis = "none"
    passed_note: str = ""
    finish: str | None = None
    difficulty: str | None = None
    difficulty_kind: DifficultyKind | None = None
    difficulty_from: DifficultyTable | None = None
    labels: tuple[str, ...] = ()
    """Names of a label difficulty, easy to hard."""
    where: str | None = None
    reference: str | None = None
    """The known answer, for ``verify``."""
    tests: tuple[str, ...] = ()
    tests_where: str | None = None
    language: str | None = None
    marks: str = ""
    tokens: str | None = None
    """The publisher's count; used only when named with --tokens."""
    tokens_by: str = ""
    bounds: tuple[int, ...] = ()
    rows: str = ""
    traces_per_problem: str = ""
    siblings: tuple[str, ...] = ()
    """Presets that hold further traces of the same problems: what gives a choice."""
    hint: str | None = None
    """What the prompt gave away when the traces were made (``editorial``), from ``hint_column``."""
    hint_column: str | None = None
    pitfalls: tuple[str, ...] = ()
    card: str = ""
    """Path of the card on the Hub."""
    seen: Seen = "card"

    @property
    def where_from(self) -> str:
        """``repo``, or ``repo:config`` when a config is meant, or the local path."""
        if self.repo is None:
            return str(self.path)
        return self.repo if self.config in {None, "default"} else f"{self.repo}:{self.config}"


def parse_type(text: str) -> pl.DataType:
    """The polars type that a schema text names.

    >>> parse_type("list<struct<content:string, role:string>>")
    List(Struct({'content': String, 'role': String}))
    """
    text = text.strip()
    if text in _SCALARS:
        return _SCALARS[text]
    kind, _, rest = text.partition("<")
    if not rest.endswith(">") or kind not in {"list", "struct"}:
        known = ", ".join([*_SCALARS, "list<...>", "struct<name:...>"])
        raise CurateError(f"{text!r} is no column type of a preset; write one of {known}.")
    if kind == "list":
        return pl.List(parse_type(rest[:-1]))
    members = (part.partition(":") for part in _split_fields(rest[:-1]))
    return pl.Struct({name.strip(): parse_type(dtype) for name, _, dtype in members})


def _split_fields(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


@cache
def known() -> dict[str, Preset]:
    """The presets that come with curate, by name, in the order of the file."""
    text = resources.files("curate").joinpath("presets.toml").read_text(encoding="utf-8")
    return _parse(text, "presets.toml")


@cache
def _tables() -> dict[str, str]:
    text = resources.files("curate").joinpath("presets.toml").read_text(encoding="utf-8")
    return {table["repo"].lower(): table["note"] for table in tomllib.loads(text)["table"]}


def load(path: Path) -> dict[str, Preset]:
    """The user's own presets (``--presets FILE``), in the form of ``presets.toml``."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CurateError(f"Cannot read the presets of {path}: {error}. --presets takes a TOML file.") from error
    return _parse(text, path.name)


def merge(base: Mapping[str, Preset], own: Mapping[str, Preset]) -> dict[str, Preset]:
    """Both tables; a preset of the user's own replaces one of the same name, and its names win."""
    taken = {key for preset in own.values() for key in _names(preset)}
    kept = {name: preset for name, preset in base.items() if name.lower() not in taken}
    return {**own, **kept}


def _parse(text: str, where: str) -> dict[str, Preset]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CurateError(f"{where} is no valid TOML: {error}.") from error
    found: dict[str, Preset] = {}
    owners: dict[str, str] = {}
    for record in document.get("set", []):
        shared = {key: value for key, value in record.items() if key != "part"}
        for part in record.get("part", [{}]):
            preset = _build({**shared, **part}, where)
            for key in _names(preset):
                if key in owners:
                    raise CurateError(f"{where} gives the name {key} to {owners[key]} and to {preset.name}; rename one.")
                owners[key] = preset.name
            found[preset.name] = preset
    if not found:
        raise CurateError(f'{where} holds no preset; each begins with [[set]] and name = "...".')
    return found


def _names(preset: Preset) -> set[str]:
    return {preset.name.lower(), *(alias.lower() for alias in preset.aliases)}


def _build(record: dict[str, Any], where: str) -> Preset:
    name = record.get("name")
    if not isinstance(name, str) or not name:
        raise CurateError(f'A preset of {where} has no name; add name = "...".')
    values = dict(record)
    declared = _columns([*values.pop("columns", []), *values.pop("retype", [])], values.pop("without", []), where)
    known_keys = {f.name for f in fields(Preset)}
    for key, value in values.items():
        if key not in known_keys:
            raise CurateError(f"{where}: preset {name} has an unknown key {key}.{near(key, known_keys)}")
        _check_value(key, value, f"{where}: preset {name}")
    table = values.pop("difficulty_from", None)
    frozen: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    if frozen.get("passed") == "":
        frozen["passed"] = None
    preset = Preset(columns=declared, difficulty_from=_table(table, name, where), **frozen)
    if preset.repo is None and preset.path is None:
        raise CurateError(f'{where}: preset {name} says neither repo = "org/name" nor path = "...".')
    if not (preset.trace or preset.traces or preset.messages or preset.reasoning):
        raise CurateError(f"{where}: preset {name} names no trace, traces, messages or reasoning column.")
    if preset.passed is None and preset.passed_basis not in {"none"}:
        raise CurateError(f"{where}: preset {name} has passed_basis {preset.passed_basis} but no passed column.")
    return preset


def _check_value(key: str, value: object, where: str) -> None:
    if key in {"passed_basis", "seen", "difficulty_kind"}:
        allowed = {
            "passed_basis": ("verdict", "judge", "verified", "prefiltered", "proxy", "none"),
            "seen": tuple(_SEEN),
            "difficulty_kind": ("rating", "rate", "scale", "label"),
        }[key]
        if value not in allowed:
            raise CurateError(f"{where} has {key} = {value!r}; it is one of {', '.join(allowed)}.")
    elif key == "difficulty_from":
        return
    elif key in {"aliases", "files", "traces", "parallel", "labels", "tests", "bounds", "siblings", "pitfalls"}:
        want = int if key == "bounds" else str
        if not isinstance(value, list) or not all(isinstance(v, want) for v in value):
            raise CurateError(f"{where} has {key} = {value!r}; it is a list of {'integers' if want is int else 'texts'}.")
    elif not isinstance(value, str):
        raise CurateError(f"{where} has {key} = {value!r}; it is a text.")


def _columns(declared: list[str], without: list[str], where: str) -> dict[str, pl.DataType]:
    found: dict[str, pl.DataType] = {}
    for text in declared:
        name, _, dtype = text.partition(" ")
        try:
            found[name] = parse_type(dtype)
        except CurateError as error:
            raise CurateError(f"{where}, column {name}: {error}") from error
    return {name: dtype for name, dtype in found.items() if name not in without}


def _table(record: dict[str, Any] | None, name: str, where: str) -> DifficultyTable | None:
    if record is None:
        return None
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
        return DifficultyTable(**values)
    except TypeError as error:
        keys = ", ".join(f.name for f in fields(DifficultyTable))
        raise CurateError(f"{where}: difficulty_from of preset {name} takes the keys {keys} ({error}).") from error


def find(name: str, presets: Mapping[str, Preset] | None = None) -> Preset | None:
    """The preset of a short name, a repository id, ``repo:config`` or ``repo:split``, in any case; None if unknown.

    A bare repository id means its first config. A repository that holds no traces is an error that says what it holds.
    """
    presets = known() if presets is None else presets
    index: dict[str, Preset] = {}
    for preset in presets.values():
        for key in _names(preset):
            index.setdefault(key, preset)
    for preset in presets.values():
        for key in _derived(preset):
            index.setdefault(key.lower(), preset)
    found = index.get(name.lower())
    if found is None and name.lower() in _tables():
        raise CurateError(_tables()[name.lower()])
    return found


def _derived(preset: Preset) -> Iterable[str]:
    if preset.repo is None:
        return
    for base in (preset.repo, preset.repo.rpartition("/")[2]):
        yield base
        if preset.config is not None:
            yield f"{base}:{preset.config}"
        yield f"{base}:{preset.split}"


def near_names(name: str, presets: Mapping[str, Preset] | None = None) -> str:
    """A clause that offers the known names nearest to an unknown one, or an empty string."""
    presets = known() if presets is None else presets
    spelled = {key.lower(): key for p in presets.values() for key in (*_derived(p), *p.aliases, p.name)}
    clause = near(name.lower(), spelled)
    return re.sub(r"[^\s?]+", lambda m: spelled.get(m.group(), m.group()), clause)


def base_columns(expression: str, columns: Iterable[str]) -> tuple[str, ...]:
    """The columns of the source that an expression reads; an exact column name beats a path, a path beats SQL.

    >>> base_columns("solutions[].solution", ["solutions"])
    ('solutions',)
    >>> base_columns("score >= 1.0", ["score"])
    ('score',)
    """
    names = set(columns)
    if expression in names:
        return (expression,)
    path = _PATH.fullmatch(expression)
    if path is not None and path.group(1) in names:
        return (path.group(1),)
    try:
        roots = tuple(dict.fromkeys(pl.sql_expr(expression).meta.root_names()))
    except pl.exceptions.PolarsError as error:
        if path is not None:
            return (path.group(1),)
        raise CurateError(f"{expression!r} is neither a column, a path nor SQL: {str(error).splitlines()[0]}.") from error
    return roots


_ROLES: Final = (
    "problem", "alias_column", "trace", "prompt", "system", "messages", "reasoning", "answer", "passed", "finish", "where"
)  # fmt: skip


def needed(preset: Preset) -> dict[str, tuple[str, ...]]:
    """The columns that each role reads, by role: what ``differs`` asks of a schema. Joined columns are left out."""
    roles = {role: getattr(preset, role) for role in _ROLES}
    if preset.difficulty_from is None:
        roles["difficulty"] = preset.difficulty
    asked = {role: base_columns(text, preset.columns) for role, text in roles.items() if text is not None}
    if preset.traces:
        asked["trace"] = preset.traces
    if preset.parallel:
        asked["parallel"] = preset.parallel
    return asked


def roles(preset: Preset) -> dict[str, str]:
    """Column names by role, as ``layout.Columns`` takes them: an answer beside its reasoning is the trace there.

    Roles that are missing are absent from the data: they are not to be guessed by name (an ``id`` may number rows).
    """
    said = {
        "problem": preset.problem,
        "trace": ", ".join(preset.traces) or preset.trace or preset.answer,
        "prompt": preset.prompt,
        "messages": preset.messages,
        "reasoning": preset.reasoning,
        "passed": preset.passed,
        "finish": preset.finish,
        "difficulty": None if preset.difficulty_from else preset.difficulty,
        "aliases": preset.alias_column,
        "where": preset.where,
        "system": preset.system,
    }
    return {role: text for role, text in said.items() if text is not None}


def differs(preset: Preset, schema: Mapping[str, pl.DataType]) -> list[str]:
    """One sentence for each column in which the data met differ from the preset; empty when they agree.

    Only columns that the preset reads count. Integers and floats agree, text and categories agree, a column of type null
    agrees with everything (it holds only nulls), and so do ids, verdicts and finish values of any scalar type.
    """
    roles: dict[str, list[str]] = {}
    for role, columns in needed(preset).items():
        for column in columns:
            roles.setdefault(column, []).append(role)
    sentences = []
    for column, used in roles.items():
        what = f"which the preset {preset.name} reads for {' and '.join(used)}"
        want = preset.columns.get(column)
        if column not in schema:
            have = ", ".join(sorted(schema))
            sentences.append(f"{preset.where_from} has no column {column}, {what}; it has {have}.{near(column, schema)}")
            continue
        scalar = all(role in {"problem", "passed", "finish"} and getattr(preset, role) == column for role in used)
        if want is not None and not _agree(want, schema[column], scalar=scalar):
            sentences.append(f"{preset.where_from} has column {column} as {schema[column]}, not {want}, {what}.")
    return sentences


def require(preset: Preset, schema: Mapping[str, pl.DataType]) -> None:
    """Stop with what differs and the way round it."""
    if sentences := differs(preset, schema):
        way = "Name the columns yourself (--trace, --problem, ...) or describe the set with --presets FILE."
        raise CurateError(" ".join([*sentences, way]))


def _agree(want: PolarsDataType, got: PolarsDataType, *, scalar: bool = False) -> bool:
    if pl.Null in (want, got):
        return True
    if isinstance(want, pl.List):
        return isinstance(got, pl.List | pl.Array) and _agree(want.inner, got.inner)
    if isinstance(want, pl.Struct):
        if not isinstance(got, pl.Struct):
            return False
        have = {f.name: f.dtype for f in got.fields}
        turns = [f for f in want.fields if f.name in _TURN_FIELDS]
        return all(f.name in have and _agree(f.dtype, have[f.name]) for f in turns)
    if got.is_nested():
        return False
    text = (pl.String, pl.Categorical, pl.Enum)
    same = got in text if want in text else (want.is_numeric() and got.is_numeric()) or want == got
    return scalar or same


def notes(preset: Preset) -> list[str]:
    """What has to be said when this preset is used, one sentence each: evidence, verdict, hints, pitfalls."""
    said = [f"{preset.name}: the preset follows {preset.card or 'your own file'}; {_SEEN[preset.seen]}."] if preset.card else []
    if preset.passed_basis != "verdict" or preset.passed_note:
        what = preset.passed_note or ("no verdict is stored" if preset.passed_basis == "none" else "see its card")
        said.append(f"Passing ({preset.passed_basis}): {what}.")
    if preset.hint is not None:
        said.append(f"The prompts of these traces held the {preset.hint}: a trace may lean on it or quote it.")
    return said + [f"{pitfall[0].upper()}{pitfall[1:]}." for pitfall in preset.pitfalls]


def listing(presets: Mapping[str, Preset] | None = None) -> list[dict[str, str]]:
    """One record per preset for ``curate sources``, all values text."""
    presets = known() if presets is None else presets
    return [
        {
            "name": preset.name,
            "source": preset.where_from + ("" if preset.split == "train" else f" ({preset.split})"),
            "rows": preset.rows,
            "traces_per_problem": preset.traces_per_problem,
            "passing": preset.passed_basis,
            "difficulty": preset.difficulty_kind or "",
            "licence": preset.licence,
            "seen": preset.seen,
        }
        for preset in presets.values()
    ]
