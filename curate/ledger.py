"""The contract between every step: one row per trace, no long text.

The ledger is filled once from the text (``engine.fill``); everything after it is a pure function of this table, so a second
question costs no second reading. About 40 bytes a trace in memory, 10 on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import polars as pl

from curate.errors import CurateError

REASONS: Final = (
    "bad_row",
    "no_problem",
    "unfinished",
    "no_thinking",
    "not_passing",
    "over_length",
    "not_chosen",
)
"""Why a trace is dropped; where several hold, the first of this order is the one given. Null means kept."""

Reason = pl.Enum(list(REASONS))

SCHEMA: Final[dict[str, pl.DataType]] = {
    "source": pl.UInt16(),
    "row": pl.UInt32(),
    "item": pl.UInt32(),
    "problem": pl.String(),
    "tokens": pl.UInt32(),
    "prompt_tokens": pl.UInt32(),
    "passed": pl.Boolean(),
    "finished": pl.Boolean(),
    "thinking": pl.Boolean(),
    "difficulty": pl.Float64(),
    "reason": Reason,
}

OPTIONAL: Final[dict[str, pl.DataType]] = {
    "tokens_low": pl.UInt32(),
    "tokens_high": pl.UInt32(),
    "reasoning_tokens": pl.UInt32(),
    "answer_tokens": pl.UInt32(),
    "digest": pl.String(),
    "flags": pl.UInt16(),
    "tests": pl.UInt32(),
    "label": pl.String(),
    "group": pl.String(),
}

Basis = Literal["exact", "estimate", "column"]
VerdictBasis = Literal["verdict", "judge", "verified", "prefiltered", "proxy", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What rows cannot say; stored as JSON under the Parquet key ``curate``.

    ``sources`` holds one mapping per SOURCE: ``name``, ``files``, ``rows``, ``revision``, ``licence``, ``mapping`` (role to
    column), ``basis`` (of the verdict), ``thinking_required`` (true, false, or null when the data are mixed), ``notes``.
    ``tokens`` says how lengths came about: ``basis``, ``by``, ``count`` (``sample`` or ``trace``), and for an estimate
    ``low`` and ``high``, the factors of its 95 % range.
    """

    sources: tuple[dict[str, Any], ...] = ()
    tokens: dict[str, Any] = field(default_factory=dict)
    bad_lines: int = 0
    empty_rows: int = 0
    labels: tuple[str, ...] = ()
    """A difficulty's own names from easy to hard, where it has names."""
    bands: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def check(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` unchanged, or raise when a column is missing, foreign or of another type. Reads no data."""
    have = dict(frame.schema)
    missing = [c for c in SCHEMA if c not in have and c != "reason"]
    if missing:
        raise CurateError(f"This is no ledger: it has no column {', '.join(missing)}. `curate count SOURCE -o FILE` writes one.")
    for name, dtype in have.items():
        want = SCHEMA.get(name) or OPTIONAL.get(name)
        if name == "row" and dtype == pl.UInt64:
            continue
        if want is not None and dtype != want and dtype != pl.Null:
            raise CurateError(f"This is no ledger: column {name} is {dtype}, not {want}. `curate count SOURCE -o FILE` writes one.")
    return frame
