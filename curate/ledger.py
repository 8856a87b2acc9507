"""The contract between every step: one row per trace, no long text.

The ledger is filled once from the text (``engine.fill``); everything after it is a pure function of this table, so a second
question costs no second reading. About 40 bytes a trace in memory, 10 on disk.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
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
    "rule_tokens": pl.UInt32(),
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
    labels: tuple[str, ...] = ()
    """A difficulty's own names from easy to hard, where it has names."""


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
        if want is not None and dtype not in (want, pl.Null()):
            raise CurateError(f"This is no ledger: column {name} is {dtype}, not {want}. `curate count SOURCE -o FILE` writes one.")
    return frame


KEY: Final = "curate"


def to_bytes(ledger: pl.DataFrame, meta: Meta) -> bytes:
    """A ledger as Parquet, with ``meta`` as JSON under the key ``curate``; equal ledgers give equal bytes."""
    import pyarrow.parquet as pq

    text = json.dumps({"format": 1, **asdict(meta)}, sort_keys=True, ensure_ascii=False)
    table = ledger.to_arrow(compat_level=pl.CompatLevel.oldest()).replace_schema_metadata({KEY: text})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=1 << 20)
    return sink.getvalue()


def from_file(path: Any) -> tuple[pl.DataFrame, Meta]:
    """A ledger that ``curate count`` or ``select`` wrote.

    Raises:
        CurateError: the file is no ledger.
    """
    import pyarrow.parquet as pq

    try:
        raw = (pq.read_schema(path).metadata or {})[KEY.encode()]
        facts = json.loads(raw)
    except (KeyError, ValueError, OSError):
        raise CurateError(f"{path} is no ledger. `curate count SOURCE -o FILE` writes one.") from None
    facts = {k: v for k, v in facts.items() if k in Meta.__dataclass_fields__}  # what another version says beside is not needed
    facts["sources"] = tuple(facts.get("sources", ()))
    facts["labels"] = tuple(facts.get("labels", ()))
    frame = pl.read_parquet(path)
    return check(frame.with_columns(pl.col("reason").cast(pl.String).cast(Reason))), Meta(**facts)


def is_ledger(metadata: dict[bytes, bytes] | None) -> bool:
    """Whether a Parquet file's key-value metadata is a ledger's."""
    return bool(metadata) and KEY.encode() in (metadata or {})
