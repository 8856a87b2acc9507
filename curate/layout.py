"""From a source's own columns to one row per trace: which column plays which part, and how lists become rows.

Layouts: one trace a row; a list of generations a row with parallel lists; ``messages`` or ``conversations`` (the trace is the last
assistant turn); prompt and completion; contents made of typed parts; reasoning in a column of its own.
Texts move as views: nothing here copies a trace, except where reasoning and answer are put together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any, Final

import polars as pl

from curate import thinking
from curate.errors import CurateError, near
from curate.turns import instructed, is_turns, joined, parts, turns

RANKS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "problem": (("problem_id",), ("id",), ("uuid",), ("problem",), ("question_id", "task_id"), ("unique_id",)),
    "trace": (
        ("generation", "generations", "completion", "completions", "response", "responses", "trace", "traces"),
        ("messages", "conversations", "conversation"),
        ("output", "outputs", "text"),
        ("solutions",),
    ),
    "prompt": (
        ("prompt",),
        ("question",),
        ("problem",),
        ("instruction",),
        ("input",),
        ("query",),
        ("problem_statement",),
    ),
    "passed": (("passed",), ("correct", "is_correct"), ("correctness",), ("correctness_math_verify",)),
    "finish": (("finish_reason", "finish_reasons"), ("stop_reason",), ("finished",)),
    "difficulty": (("rating",), ("elo",), ("difficulty",), ("level",)),
    "reasoning": (("reasoning_content",), ("reasoning",), ("thinking",)),
}
"""Names by rank, best first; names in one tuple are equals, and two equals in one source are an error."""

GATHERED: Final = "\0traces"
ROW: Final = "\0row"
ITEM: Final = "\0item"
BAD: Final = "\0bad"
SIZE: Final = "\0size"
"""Columns of our own beside the source's: no column of a file begins with NUL."""
SPAN: Final = "\x1f"
"""Joins the values of a list in a ledger's ``group``: a trace may carry several tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the user or a preset names, role by role: a column, a path (``solutions[].solution``) or an SQL expression."""

    problem: str | None = None
    trace: str | None = None
    prompt: str | None = None
    messages: str | None = None
    reasoning: str | None = None
    passed: str | None = None
    finish: str | None = None
    difficulty: str | None = None
    tokens: str | None = None
    aliases: str | None = None
    group: str | None = None
    where: str | None = None
    system: str | None = None

    def over(self, other: Columns) -> Columns:
        """These names, and where there is none the other's."""
        return Columns(**{f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)})

    def named(self) -> dict[str, str]:
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of one trace: its text as named, the top-level columns it reads, and the expression after lists are exploded."""

    text: str
    roots: tuple[str, ...]
    expr: pl.Expr
    exploded: str | None = None
    dtype: pl.DataType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How one source's rows become traces. ``lists`` are exploded together; the first of them holds the traces.

    ``parallel`` are all list columns that run along with the traces, also those that play no part: in an output of the source's own
    columns each becomes its element.
    """

    roles: dict[str, Ref] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    """Columns that each hold a trace: together they are the list ``GATHERED`` of one row."""
    schema: dict[str, pl.DataType] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Top-level columns to read, in the source's order."""
        want = {c for r in self.roles.values() for c in r.roots} | set(self.lists) | set(self.extra) | set(self.gathered)
        return [c for c in self.schema if c in want]

    def described(self) -> dict[str, str]:
        return {role: ref.text for role, ref in self.roles.items()}


_STEP = re.compile(r"\[((?:-?[0-9]{1,9})?)\]|\.([^.\[\]]+)")


def find(schema: pl.Schema, named: Columns, probe: pl.DataFrame, *, where: str = "the source", guess: bool = True) -> Layout:
    """The layout of a source.

    Args:
        schema: its columns.
        named: what the user or a preset says; the rest is found by ``RANKS``.
        probe: its first rows, to tell parallel lists from other lists.
        where: the source's name, for errors.
        guess: whether roles that nobody named are looked for; a preset names all there are (an ``id`` may number rows).

    Raises:
        CurateError: a named column does not exist, two candidates are equals, or no trace or problem can be found.
    """
    odd = next((c for c in schema if c == "*" or (c.startswith("^") and c.endswith("$"))), None)
    if odd is not None:
        raise CurateError(f"{where} has a column called {odd!r}, which stands for many columns in an expression. Rename it.")
    finder = _Finder(dict(schema), probe, where)
    roles = {role: finder.ref(text, role) for role, text in named.named().items()}
    if "trace" not in roles and "messages" not in roles:
        _find_trace(finder, roles)
    if guess:
        _find_rest(finder, roles)
    lists = _lists(finder, roles)
    if "problem" not in roles and "prompt" not in roles and "messages" not in roles:
        raise CurateError(
            f"{where} has no problem id and no prompt, so its traces cannot be grouped. Columns: {', '.join(schema)}. "
            "Name one with --problem."
        )
    return Layout(
        roles=roles,
        lists=lists,
        parallel=_along(finder, lists),
        schema=dict(schema),
        gathered=roles["trace"].roots if lists[:1] == (GATHERED,) else (),
    )


class _Finder:
    """Column names and types of one source, and the ways to name a value in them."""

    def __init__(self, schema: dict[str, pl.DataType], probe: pl.DataFrame, where: str) -> None:
        self.schema, self.probe, self.where = schema, probe, where

    def ranked(self, role: str, *, accept: Any = None) -> str | None:
        for rank in RANKS[role]:
            have = [c for c in rank if c in self.schema and (accept is None or accept(self.schema[c]))]
            if len(have) > 1:
                raise CurateError(
                    f"{self.where} has {len(have)} columns that could be the {role}: {' and '.join(have)}. Name one with --{role}."
                )
            if have:
                return have[0]
        return None

    def ref(self, text: str, role: str) -> Ref:
        """An exact column name beats a path, a path beats SQL."""
        if text in self.schema:
            return self._column(text, role)
        several = tuple(c.strip() for c in text.split(","))
        if role == "trace" and len(several) > 1 and all(self.schema.get(c) in (pl.String(), pl.Null()) for c in several):
            return Ref(text, several, pl.col(GATHERED), GATHERED, pl.String())
        holder = next((c for c in self.schema if text in self._fields(c)), None)
        path = self._path(f"{holder}[].{text}" if holder else text)
        return path if path is not None else self._sql(text, role)

    def _column(self, name: str, role: str) -> Ref:
        dtype = self.schema[name]
        if role == "trace" and isinstance(dtype, pl.List) and not is_turns(dtype):
            return self._element(name, dtype)
        return Ref(name, (name,), pl.col(name), dtype=dtype)

    def _element(self, name: str, dtype: pl.List) -> Ref:
        inner: Any = dtype.inner
        if not isinstance(inner, pl.Struct):
            return Ref(name, (name,), pl.col(name), name, inner)
        texts = [f.name for f in inner.fields if f.dtype == pl.String]
        known = [n for rank in (*RANKS["trace"], ("solution", "content")) for n in rank if n in texts] or texts
        if len(known) != 1:
            options = ", ".join(f"{name}[].{n}" for n in known or [f.name for f in inner.fields])
            raise CurateError(f"Column {name} of {self.where} holds records. Name the trace with --trace, one of: {options}.")
        return Ref(f"{name}[].{known[0]}", (name,), pl.col(name).struct.field(known[0]), name, pl.String())

    def _path(self, text: str) -> Ref | None:
        roots = sorted((c for c in self.schema if text.startswith(c) and text[len(c) : len(c) + 1] in (".", "[")), key=len)
        if not roots:
            return None
        root = roots[-1]
        rest, at, expr = text[len(root) :], 0, pl.col(root)
        dtype: Any = self.schema[root]
        exploded = None
        while at < len(rest):
            step = _STEP.match(rest, at)
            if step is None:
                return None
            if step[2] is not None:
                if not isinstance(dtype, pl.Struct):
                    return None
                known = [f.name for f in dtype.fields]
                name = max(
                    (n for n in known if rest.startswith(n, at + 1) and rest[at + 1 + len(n) :][:1] in ("", ".", "[")),
                    key=len,
                    default=None,
                )
                if name is None:
                    raise CurateError(
                        f"{self.where} has no field {step[2]} in {text[: len(root) + at]}.{near(step[2], known)} Fields: {', '.join(known)}."
                    )
                expr, dtype = expr.struct.field(name), dict(dtype)[name]
                at += 1 + len(name)
                continue
            if not isinstance(dtype, pl.List):
                raise CurateError(f"{text[: len(root) + at]} in {self.where} is {dtype}, not a list: {text} cannot be read.")
            if step[1] == "":
                if exploded is not None or at:
                    raise CurateError(f"{text}: only the outermost list can be taken apart with [].")
                exploded = root
            else:
                expr = expr.list.get(int(step[1]), null_on_oob=True)
            dtype, at = dtype.inner, step.end()
        return Ref(text, (root,), expr, exploded, dtype)

    def _sql(self, text: str, role: str) -> Ref:
        known = self.known()
        if re.fullmatch(r"[\w\-]+", text) and text.upper() not in ("TRUE", "FALSE", "NULL"):
            raise CurateError(
                f"{self.where} has no column {text} (--{role}).{near(text, known)} Columns: {', '.join(self.schema)}."
            )
        try:
            expr = pl.sql_expr(text)
        except Exception as e:
            raise CurateError(
                f"--{role} {text!r} is neither a column of {self.where} nor an SQL expression: {_first_line(e)}"
            ) from None
        roots = tuple(dict.fromkeys(expr.meta.root_names()))
        missing = [c for c in roots if c not in known]
        if missing:
            raise CurateError(
                f"{self.where} has no column {missing[0]} (--{role} {text!r}).{near(missing[0], known)} Columns: {', '.join(self.schema)}."
            )
        if not _alone(expr):
            raise CurateError(
                f"--{role} {text!r} looks at several rows; only an expression over the columns of one trace can be used."
            )
        top = tuple(c if c in self.schema else self._holder(c) for c in roots)
        return Ref(text, top, expr, next((c for c in top if isinstance(self.schema[c], pl.List)), None))

    def known(self) -> list[str]:
        return [*self.schema, *(f for c in self.schema for f in self._fields(c) if f not in self.schema)]

    def _fields(self, column: str) -> list[str]:
        dtype: Any = self.schema[column]
        return [f.name for f in dtype.inner.fields] if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct) else []

    def _holder(self, name: str) -> str:
        return next(c for c in self.schema if name in self._fields(c))


def _alone(expr: pl.Expr) -> bool:
    """Whether a row's value depends on that row alone.

    Asked of every part, because polars 2.1 answers for the outermost step only (``AVG(a) > 1`` would pass); it answers at all only
    where a step needs no types: those that do (decimals, IN) work on one row.
    """
    try:
        own = expr.meta.is_row_separable() or expr.meta.is_literal()
    except pl.exceptions.ColumnNotFoundError:
        own = True
    except pl.exceptions.PolarsError:
        return False
    return own and all(_alone(part) for part in expr.meta.pop())


def _find_trace(finder: _Finder, roles: dict[str, Ref]) -> None:
    def text(dtype: pl.DataType) -> bool:
        inner = dtype.inner if isinstance(dtype, pl.List) else dtype
        return not isinstance(dtype, pl.Struct) and (  # a record: which of its texts is meant has to be said
            dtype in (pl.String, pl.Categorical, pl.Null)
            or isinstance(dtype, pl.Enum)
            or inner == pl.String
            or isinstance(inner, pl.Struct)
        )

    name = finder.ranked("trace", accept=text)
    if name is None:
        texts = [p for c, t in finder.schema.items() for p in _text_paths(c, t)]
        raise CurateError(
            f"{finder.where} has no column that is known to hold traces. Name it with --trace or --messages. "
            f"Text is in: {', '.join(texts[:24]) or 'no column'}{', …' if len(texts) > 24 else ''}."
        )
    role = "messages" if is_turns(finder.schema[name]) and name in RANKS["trace"][1] else "trace"
    roles[role] = finder.ref(name, role)


def _text_paths(path: str, dtype: pl.DataType) -> list[str]:
    """Every place in a column that holds text, written as ``--trace`` takes it."""
    if dtype == pl.String:
        return [path]
    if isinstance(dtype, pl.Struct):
        return [p for f in dtype.fields for p in _text_paths(f"{path}.{f.name}", f.dtype)]  # type: ignore[arg-type]
    if isinstance(dtype, pl.List) and "[]" not in path:
        return _text_paths(f"{path}[]", dtype.inner)  # type: ignore[arg-type]
    return []


def _find_rest(finder: _Finder, roles: dict[str, Ref]) -> None:
    # only a text is used up: a column may be the id and the prompt at once, a condition or a group takes nothing away
    used = {c for k, r in roles.items() if k in ("trace", "messages", "reasoning", "system", "tokens") for c in r.roots}
    for role in ("problem", "prompt", "passed", "finish", "difficulty", "reasoning"):
        if role in roles or (role in ("prompt", "reasoning") and "messages" in roles):
            continue
        name = finder.ranked(role, accept=_ACCEPT.get(role))
        if name is None or (name in used and role != "problem"):
            continue
        roles[role] = finder.ref(name, role)
    if "prompt" not in roles and "messages" not in roles:
        turns = next((c for c in RANKS["trace"][1] if is_turns(finder.schema.get(c))), None)
        if turns is not None:
            roles["prompt"] = finder.ref(turns, "prompt")


def _scalar(dtype: pl.DataType) -> bool:
    return not dtype.is_nested()


def _scalars(dtype: pl.DataType) -> bool:
    return _scalar(dtype.inner if isinstance(dtype, pl.List) else dtype)  # type: ignore[arg-type]


_ACCEPT: Final[dict[str, Any]] = {
    "problem": _scalar,
    "prompt": lambda t: t == pl.String or is_turns(t),
    "passed": _scalars,
    "finish": _scalars,
    "difficulty": _scalar,
    "reasoning": lambda t: t == pl.String or (isinstance(t, pl.List) and t.inner == pl.String),
}


def _lists(finder: _Finder, roles: dict[str, Ref]) -> tuple[str, ...]:
    """The lists to take apart together: the traces' own first, then those that roles read side by side with it."""
    own = roles["trace"].exploded if "trace" in roles else None
    others = {r.exploded: r.text for k, r in roles.items() if r.exploded and r.exploded != own and k != "trace"}
    if own is None:
        for column, text in others.items():
            if column is not None and f"{column}[]" in text:
                raise CurateError(f"{text} takes a list apart, but the trace of {finder.where} is not in a list. Use {column}[0].")
        return ()
    parallel = {
        c
        for k, r in roles.items()
        if k not in ("trace", "prompt", "messages", "problem", "aliases")
        for c in r.roots
        if isinstance(finder.schema[c], pl.List) and c != own and (r.exploded == c or _parallel(finder.probe, own, c))
    }
    return (own, *sorted(parallel))


def _parallel(probe: pl.DataFrame, own: str, other: str) -> bool:
    """Whether a list runs along the traces' list in most of the first rows; where it does not, the row is marked bad."""
    if own == GATHERED:
        return False
    if own not in probe or other not in probe or probe.height == 0:
        return True
    same = probe.select(pl.col(own).list.len() == pl.col(other).list.len()).to_series().drop_nulls()
    return len(same) == 0 or bool(same.mean() >= 0.5)  # type: ignore[operator]


def _along(finder: _Finder, lists: tuple[str, ...]) -> tuple[str, ...]:
    if not lists:
        return ()
    own, probe = lists[0], finder.probe
    many = own in probe and bool((probe[own].list.len() > 1).any())
    others = [c for c, t in finder.schema.items() if isinstance(t, pl.List) and c not in lists and not is_turns(t)]
    along = [c for c in others if many and bool(probe.select((pl.col(own).list.len() == pl.col(c).list.len()).all()).item())]
    return (*lists, *along)


def traces(batch: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """One row per trace of a batch of source rows, in the source's order.

    Returns:
        ``row`` (UInt32, within the batch), ``item`` (UInt32), ``bad`` (Boolean: an empty list, or parallel lists that do not line
        up), ``trace`` (String), ``prompt`` (String: contents of the turns before the trace, joined by a line end), ``context``
        (list of role and content, where the source has turns), and the raw ``problem``, ``passed``, ``finish``, ``difficulty``,
        ``tokens``, ``aliases``, ``group`` where the layout has them.
    """
    one = _explode(batch.with_row_index(ROW), layout)
    roles = layout.roles
    out = one.select(row=ROW, item=ITEM, bad=BAD)
    values = {
        k: _evaluate(one, r, k)
        for k, r in roles.items()
        if k not in ("trace", "messages", "prompt", "reasoning", "where", "system")
    }
    text, before = _texts(one, roles)
    if "system" in roles:
        before = instructed(_text(_evaluate(one, roles["system"], "system"), roles["system"], "system"), before)
    out = out.with_columns(text.alias("trace"), *before)
    out = out.with_columns(v.alias(k) for k, v in values.items())
    if layout.lists:
        out = out.with_columns(trace=pl.when(~pl.col("bad")).then("trace"))
    if "where" in roles:
        holds = _evaluate(one, roles["where"], "where")
        if holds.dtype not in (pl.Boolean(), pl.Null()):
            raise CurateError(f"--where {roles['where'].text!r} gives {holds.dtype}, not true or false. Compare it with something.")
        out = out.filter(holds.cast(pl.Boolean).fill_null(False))
    return out


def crooked(rows: pl.DataFrame, layout: Layout, *, first: int) -> list[tuple[int, str]]:
    """The first rows whose lists do not line up, with what is wrong: row within the batch, and the lengths in words."""
    own, *others = layout.lists
    sizes = rows.select(pl.col(c).list.len().alias(c) for c in (own, *others) if c in rows.columns).with_row_index(ROW)
    out = []
    for row in sizes.iter_rows(named=True):
        n, odd = row.get(own), {c: row[c] for c in others if row[c] is not None and row[c] != row.get(own)}
        if n and odd:
            out.append((row[ROW], f"{own} has {n} items, " + ", ".join(f"{c} has {m}" for c, m in odd.items())))
        if len(out) == first:
            break
    return out


def _explode(rows: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    if not layout.lists:
        return rows.with_columns(pl.lit(0, dtype=pl.UInt32).alias(ITEM), pl.lit(False).alias(BAD))
    own, *others = layout.lists
    if layout.gathered:
        rows = rows.with_columns(pl.concat_list(layout.gathered).alias(GATHERED))
    types: dict[str, Any] = {**layout.schema, GATHERED: pl.List(pl.String())}
    n = pl.col(own).list.len().fill_null(0)
    rows = rows.with_columns(n.alias(SIZE))
    fits = [pl.col(c).is_null() | (pl.col(c).list.len() == pl.col(SIZE)) for c in others]
    crooked = ~pl.all_horizontal(fits) if fits else pl.lit(False)
    rows = rows.with_columns((crooked | (pl.col(SIZE) == 0)).alias(BAD))
    size = pl.max_horizontal(pl.col(SIZE), pl.lit(1, dtype=pl.UInt32))

    def aligned(c: str) -> pl.Expr:
        return (
            pl.when(pl.col(c).list.len() == size)
            .then(pl.col(c))
            .otherwise(pl.lit(None, dtype=types[c].inner).repeat_by(size))
            .alias(c)
        )

    rows = rows.with_columns(*(aligned(c) for c in layout.lists), pl.int_ranges(0, size, dtype=pl.UInt32).alias(ITEM))
    rows = rows.drop(SIZE).explode([*layout.lists, ITEM])
    inner = types[own].inner
    if isinstance(inner, pl.Struct):
        free = [f.name for f in inner.fields if f.name not in rows.columns]
        rows = rows.with_columns(pl.col(own).struct.field(f) for f in free)
    return rows


def _evaluate(one: pl.DataFrame, ref: Ref, role: str) -> pl.Series:
    try:
        out = one.select(ref.expr.alias("v"))["v"]
    except pl.exceptions.PolarsError as e:
        raise CurateError(f"--{role} {ref.text!r} cannot be evaluated: {_first_line(e)}") from None
    return out.new_from_index(0, one.height) if len(out) == 1 != one.height else out


def _texts(one: pl.DataFrame, roles: dict[str, Ref]) -> tuple[pl.Series, list[pl.Series]]:
    """The trace, and what stands before it: ``prompt`` and, where there are turns, ``context``."""
    if "messages" in roles and "trace" not in roles:
        said = _evaluate(one, roles["messages"], "messages")
        if not is_turns(said.dtype):
            raise CurateError(
                f"--messages {roles['messages'].text}: {said.dtype} is no list of chat turns (records with role and content, or "
                "from and value). Name another column."
            )
        text, context = turns(said)
        return text, [joined(context), context]
    text = _evaluate(one, roles["trace"], "trace")
    if is_turns(text.dtype):
        text, _ = turns(text)
    if text.dtype != pl.String:
        text = text.cast(pl.String, strict=False) if not text.dtype.is_nested() else parts(text)
    if "reasoning" in roles:
        reasoning = _text(_evaluate(one, roles["reasoning"], "reasoning"), roles["reasoning"], "reasoning")
        text = pl.DataFrame({"r": reasoning, "a": text}).select(t=thinking.compose(pl.col("r"), pl.col("a")))["t"]
    before = roles.get("prompt") or roles.get("messages")
    if before is None:
        return text, [pl.Series("prompt", [None], dtype=pl.String).new_from_index(0, one.height)]
    prompt = _evaluate(one, before, "prompt")
    if not is_turns(prompt.dtype):
        return text, [_text(prompt, before, "prompt").alias("prompt")]
    _, context = turns(prompt, keep_question=True)
    return text, [joined(context), context]


def _text(values: pl.Series, ref: Ref, role: str) -> pl.Series:
    if values.dtype.is_nested():
        raise CurateError(f"--{role} {ref.text}: {values.dtype} is no text. Name another column.")
    return values.cast(pl.String, strict=False)


def _first_line(e: Exception) -> str:
    return str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
