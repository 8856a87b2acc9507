"""Why a trace was kept or dropped, and what changed between two runs: from ledgers alone, in words that name the rival.

``why`` follows one problem through the rules; ``diff`` compares which problems and which traces two outputs hold. Both take
ledgers whose reasons are filled (``OUT/ledger.parquet``), or rules to fill them with.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import polars as pl

from curate.errors import CurateError
from curate.ledger import Meta, Reason, from_file
from curate.selection import Rules, body, mark, source_name, thinking_required

NEAR: Final = 5000
"""So many ids are compared with a mistyped one: those that share most of its beginning."""

SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One trace of a problem: where it stands, its tokens (``length``: without the prompt), and its fate.

    ``reason`` None: kept. ``said`` gives the fate in words; ``rival`` is the (source, row, item) of the trace kept instead.
    """

    source: str
    row: int
    item: int
    tokens: int | None
    length: int | None
    tokens_high: int | None
    passed: bool | None
    finished: bool
    thinking: bool
    reason: str | None
    said: str
    rival: tuple[str, int, int] | None

    def json(self) -> dict[str, Any]:
        return asdict(self) | {"rival": list(self.rival) if self.rival else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """A problem and all its traces, in the order of the source. ``lost``: the last obstacle, where none is kept."""

    problem: str
    difficulty: float | None
    kept: int
    lost: str | None
    max_tokens: int | None
    policy: str
    traces: tuple[Trace, ...]

    def json(self) -> dict[str, Any]:
        """JSON values: the fields as they are."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"traces": [t.json() for t in self.traces]}


def rules_of(options: Mapping[str, Any]) -> Rules:
    """The rules that a manifest's ``options`` name (``OUT/manifest.json``); what they leave out is the default."""
    return Rules(
        max_tokens=options.get("max_tokens"),
        policy=options.get("policy", "all"),
        passing=options.get("passing", "known"),
        thinking=options.get("thinking"),
        seed=options.get("seed", 0),
        choose_first=bool(options.get("choose_then_drop", False)),
        # As `select` has it: without a rule of the user's own, the upper end of an estimate is held to the bound.
        high=options.get("estimate") is None,
    )


def read_out(out: Path) -> tuple[pl.DataFrame, Meta, Rules]:
    """Ledger, facts and rules of an output folder, or of a ledger with reasons (whose rules are not known).

    Raises:
        CurateError: there is no ledger with reasons at ``out``.
    """
    path = out / "ledger.parquet" if out.is_dir() else out
    if not path.exists():
        raise CurateError(f"{out} is no output of `curate select`: it has no ledger.parquet. Name the folder that -o named.")
    ledger, meta = from_file(path)
    try:
        options = json.loads((path.parent / "manifest.json").read_text(encoding="utf-8"))["options"]
    except (OSError, ValueError, KeyError, TypeError):
        options = None
    if options is None and ledger["reason"].null_count() == ledger.height:
        raise CurateError(f"{out} says of no trace why it was dropped: it was counted, not selected from. `curate select` decides.")
    return ledger, meta, rules_of(options or {})


def why(ledger: pl.DataFrame, meta: Meta, problem: str, rules: Rules | None = None, *, marked: bool = True) -> Why:
    """Every trace of one problem with its length, verdict, fate, and the rival that won.

    Args:
        rules: what was decided by; with ``marked`` the ledger's own reasons hold and the rules only lend words.
        marked: the ledger's reasons are filled; False fills them by ``rules``.

    Raises:
        CurateError: the ledger has no such problem; near ids are offered.
    """
    rules = rules or Rules()
    if not marked:
        ledger = mark(ledger, rules, thinking_required(ledger, meta, rules))
    own = ledger.filter(pl.col("problem") == problem).sort("source", "row", "item").with_columns(length=body())
    if not own.height:
        raise CurateError(f"The ledger has no problem {problem!r}.{_near(problem, ledger)}")
    rows = list(own.iter_rows(named=True))
    winners = [row for row in rows if row["reason"] is None]
    ranks = [row["reason"] for row in rows if row["reason"] is not None]
    order = Reason.categories.to_list()
    rated = [row["difficulty"] for row in rows if row["difficulty"] is not None]
    return Why(
        problem=problem,
        difficulty=rated[0] if rated else None,
        kept=len(winners),
        lost=None if winners else max(ranks, key=order.index),
        max_tokens=rules.max_tokens,
        policy=rules.policy,
        traces=tuple(_trace(row, winners, meta, rules) for row in rows),
    )


def _near(problem: str, ledger: pl.DataFrame) -> str:
    """A clause that offers ids nearest to a mistyped one: the same in another case, then those alike."""
    ids = ledger["problem"].drop_nulls().unique()
    if not len(ids):
        return " None of its traces has a problem id."
    same = ids.filter(ids.str.to_lowercase() == problem.lower()).sort().to_list()
    for length in range(len(problem), -1, -1):
        alike = ids.filter(ids.str.starts_with(problem[:length]))
        if len(alike) >= 20 or length == 0:
            break
    pool = alike.sort().head(NEAR).to_list()
    close = [*same, *(c for c in difflib.get_close_matches(problem, pool, n=SHOWN, cutoff=0.5) if c not in same)][:SHOWN]
    if close:
        return f" Did you mean {' or '.join(map(repr, close))}?"
    return f" It has {len(ids):,}, for example {', '.join(map(repr, ids.sort().head(SHOWN).to_list()))}."


def _trace(row: Mapping[str, Any], winners: list[dict[str, Any]], meta: Meta, rules: Rules) -> Trace:
    rival = winners[0] if winners and row["reason"] is not None else None
    return Trace(
        source=source_name(meta, row["source"]),
        row=row["row"],
        item=row["item"],
        tokens=row["tokens"],
        length=row["length"] if row["tokens"] is not None else None,
        tokens_high=row.get("tokens_high"),
        passed=row["passed"],
        finished=bool(row["finished"]),
        thinking=bool(row["thinking"]),
        reason=row["reason"],
        said=_said(row, rival, len(winners), rules),
        rival=(source_name(meta, rival["source"]), rival["row"], rival["item"]) if rival else None,
    )


def _said(row: Mapping[str, Any], rival: Mapping[str, Any] | None, kept: int, rules: Rules) -> str:
    """One trace's fate in words."""
    match row["reason"]:
        case None:
            return _winner(kept, rules)
        case "bad_row":
            return "its text is null or blank, or its row's lists do not line up"
        case "no_problem":
            return "its row has no problem id"
        case "unfinished":
            return "cut off, thinking not closed, or no answer after it"
        case "no_thinking":
            return "it has no reasoning, which traces of its source must have"
        case "not_passing":
            return "its verdict is false" if row["passed"] is False else "it has no verdict, and only true ones pass"
        case "over_length":
            return _over(row, rules)
        case _:
            return _beaten(row, rival, rules)


def _winner(kept: int, rules: Rules) -> str:
    fits = " that fit" if rules.max_tokens else ""
    if rules.policy == "all" or kept > 1:
        return f"kept: passing{' and within the bound' if rules.max_tokens else ''}"
    which = {"random": "drawn from the passing ones"}.get(rules.policy, f"the {rules.policy} of the passing ones")
    return f"kept: {which}" if rules.choose_first else f"kept: {which}{fits}"


def _over(row: Mapping[str, Any], rules: Rules) -> str:
    if rules.max_tokens is None:
        return "over the bound"
    high = row.get("tokens_high")
    if rules.high and high is not None and row["tokens"] <= rules.max_tokens:
        return f"it may have up to {high:,} tokens, {high - rules.max_tokens:,} over the bound"
    over = (high if rules.high and high is not None else row["tokens"]) - rules.max_tokens
    return f"{over:,} tokens over the bound"


def _beaten(row: Mapping[str, Any], rival: Mapping[str, Any] | None, rules: Rules) -> str:
    if rival is None:
        return "another trace was chosen, and that one is over the bound"
    where = f"row {rival['row']}" + (f", item {rival['item']}" if rival["item"] else "")
    gap = row["length"] - rival["length"]
    match rules.policy:
        case "first":
            return f"{where} comes earlier"
        case "random":
            return f"{where} was drawn"
        case "shortest" | "longest" if gap == 0:
            return f"{where} is as long and comes earlier"
        case "shortest":
            return f"{where} is {gap:,} tokens shorter"
        case "longest":
            return f"{where} is {-gap:,} tokens longer"
        case _:
            return f"{where} was chosen"


# --- two runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A problem whose kept traces differ. ``reason``: why A (gained) or B (lost, changed) drops what the other keeps.

    ``absent``: that run did not read it. Tokens are sums over the kept traces, None where the run keeps none.
    """

    problem: str
    kind: str
    reason: str | None
    tokens_a: int | None
    tokens_b: int | None

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run: traces read and kept, problems kept, tokens kept."""

    traces: int
    kept: int
    problems: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What B has gained, lost and changed against A; ``same``: problems of which both keep the same traces.

    ``estimated``: a ledger has the upper end of an estimate, which a bound may have been compared with.
    """

    a: Side
    b: Side
    same: int
    gained: tuple[Change, ...]
    lost: tuple[Change, ...]
    changed: tuple[Change, ...]
    estimated: bool = False

    def reasons(self, changes: tuple[Change, ...]) -> dict[str, int]:
        """Reason to number, most frequent first."""
        found: dict[str, int] = {}
        for change in changes:
            found[change.reason or "kept"] = found.get(change.reason or "kept", 0) + 1
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

    def json(self) -> dict[str, Any]:
        """Counts, reasons and every problem, as JSON values."""
        parts = {name: getattr(self, name) for name in ("gained", "lost", "changed")}
        return {
            "a": asdict(self.a),
            "b": asdict(self.b),
            "same": self.same,
            "estimated": self.estimated,
            **{name: len(changes) for name, changes in parts.items()},
            "reasons": {name: self.reasons(changes) for name, changes in parts.items()},
            "problems": {name: [c.json() for c in changes] for name, changes in parts.items()},
        }


def diff(a: pl.DataFrame, b: pl.DataFrame, *, meta_a: Meta | None = None, meta_b: Meta | None = None) -> Diff:
    """Compare two ledgers with reasons, problem by problem.

    A trace is the same in both by its ``digest`` where both ledgers hold one for every kept trace, else by source name, row and
    item. A lost problem's reason is its last obstacle in B (the trace that came furthest), a gained one's that in A; a
    changed one's is what B says of the trace that A keeps.
    """
    key = _key(a, b)
    left, right = _keyed(a, meta_a or Meta(), key), _keyed(b, meta_b or Meta(), key)
    problems = _kept(left).join(_kept(right), on="problem", how="full", coalesce=True, suffix="_b").sort("problem")
    both = pl.col("keys").is_not_null() & pl.col("keys_b").is_not_null()
    same = problems.filter(both & (pl.col("keys") == pl.col("keys_b")))
    changed = problems.filter(both & (pl.col("keys") != pl.col("keys_b")))
    return Diff(
        a=_side(a),
        b=_side(b),
        same=same.height,
        gained=_changes("gained", problems.filter(pl.col("keys").is_null()), _obstacle(left)),
        lost=_changes("lost", problems.filter(pl.col("keys_b").is_null()), _obstacle(right)),
        changed=_changes("changed", changed, _fate(left, right)),
        estimated=any("tokens_high" in side.columns and side["tokens_high"].null_count() < side.height for side in (a, b)),
    )


def _key(a: pl.DataFrame, b: pl.DataFrame) -> list[str]:
    kept = [side.filter(pl.col("reason").is_null()) for side in (a, b)]
    digests = all("digest" in side.columns and side["digest"].null_count() == 0 for side in kept)
    return ["digest"] if digests else ["name", "row", "item"]


def _keyed(ledger: pl.DataFrame, meta: Meta, key: list[str]) -> pl.DataFrame:
    """Problem, a text that tells the trace from others of its problem, tokens, reason."""
    names = {i: source_name(meta, i) for i in ledger["source"].unique().to_list()}
    named = ledger.filter(pl.col("problem").is_not_null()).with_columns(
        name=pl.col("source").replace_strict(names, return_dtype=pl.String)
    )
    text = pl.concat_str([pl.col(c).cast(pl.String) for c in key], separator="\x00")
    return named.select("problem", "tokens", "reason", key=text)


def _kept(keyed: pl.DataFrame) -> pl.DataFrame:
    kept = keyed.filter(pl.col("reason").is_null()).group_by("problem")
    return kept.agg(keys=pl.col("key").sort(), tokens=pl.col("tokens").cast(pl.Int64).sum())


def _obstacle(keyed: pl.DataFrame) -> pl.DataFrame:
    """Each problem's last obstacle."""
    last = keyed.filter(pl.col("reason").is_not_null()).group_by("problem").agg(at=pl.col("reason").to_physical().max())
    order = Reason.categories.to_list()
    return last.select("problem", reason=pl.col("at").replace_strict(dict(enumerate(order)), return_dtype=pl.String))


def _fate(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """What ``right`` says of the traces that ``left`` keeps, the furthest of each problem; null where it keeps them too."""
    kept = left.filter(pl.col("reason").is_null()).select("problem", "key")
    found = kept.join(right.select("problem", "key", "reason", here=True), on=["problem", "key"], how="left")
    absent = found.filter(pl.col("here").is_null()).select("problem", reason=pl.lit("absent"))
    dropped = found.filter(pl.col("reason").is_not_null())
    last = dropped.sort(pl.col("reason").to_physical()).group_by("problem").agg(pl.col("reason").last().cast(pl.String))
    return pl.concat([last, absent.unique()]).unique("problem", keep="first", maintain_order=True)


def _changes(kind: str, problems: pl.DataFrame, reasons: pl.DataFrame) -> tuple[Change, ...]:
    rows = problems.join(reasons, on="problem", how="left").sort("problem")
    missing = None if kind == "changed" else "absent"
    return tuple(
        Change(problem=problem, kind=kind, reason=reason or missing, tokens_a=tokens_a, tokens_b=tokens_b)
        for problem, reason, tokens_a, tokens_b in rows.select("problem", "reason", "tokens", "tokens_b").iter_rows()
    )


def _side(ledger: pl.DataFrame) -> Side:
    kept = ledger.filter(pl.col("reason").is_null())
    return Side(
        traces=ledger.height,
        kept=kept.height,
        problems=kept["problem"].n_unique(),
        tokens=int(kept["tokens"].cast(pl.Int64).sum()),
    )
