"""What ``inspect`` says beyond the facts that ``yield`` needs: structure of the thinking, and lengths of its parts."""

from __future__ import annotations

from typing import Any

import polars as pl

from curate import thinking, yields
from curate.ledger import Meta
from curate.selection import Rules


def facts(ledger: pl.DataFrame, meta: Meta, rules: Rules) -> dict[str, Any]:
    """The keys of ``yields.facts`` with ``structure`` and ``lengths``; traces are the unit.

    ``structure``: ``complete`` (thinking closed, an answer behind it), ``opening_missing``, ``malformed`` (several marks of a kind, or in
    the wrong order), ``control_text``, ``render_altered`` (the chat template dropped or changed a part), ``prompt_rendered`` (the prompt
    holds a template's own tokens already), ``text_before`` (text before the first opening mark). ``lengths``: median
    tokens of prompt, reasoning and answer, null where they were not counted apart.
    """
    flags = pl.col("flags").fill_null(0) if "flags" in ledger.columns else pl.lit(0, dtype=pl.UInt16)

    def has(bit: int) -> pl.Expr:
        return (flags & bit) > 0

    counts = ledger.with_columns(_=0).select(
        complete=(has(thinking.CLOSED) & pl.col("finished")).sum(),
        opening_missing=has(thinking.OPENING_MISSING).sum(),
        malformed=has(thinking.MALFORMED).sum(),
        control_text=has(thinking.CONTROL_TEXT | thinking.RENDER * 2).sum(),
        render_altered=has(thinking.RENDER).sum(),
        prompt_rendered=has(thinking.RENDERED).sum(),
        text_before=has(thinking.TEXT_BEFORE).sum(),
    )
    lengths = {name: _median(ledger, column) for name, column in PARTS.items()}
    return {**yields.facts(ledger, meta, rules), "structure": counts.row(0, named=True), "lengths": lengths}


def altered(ledger: pl.DataFrame) -> int:
    """Traces whose reasoning the chat template dropped or changed."""
    if "flags" not in ledger.columns:
        return 0
    return int((ledger["flags"].fill_null(0) & thinking.RENDER > 0).sum())


def rendered(ledger: pl.DataFrame) -> int:
    """Traces whose prompt a chat template has rendered already."""
    if "flags" not in ledger.columns:
        return 0
    return int((ledger["flags"].fill_null(0) & thinking.RENDERED > 0).sum())


PARTS = {"prompt": "prompt_tokens", "reasoning": "reasoning_tokens", "answer": "answer_tokens"}


def _median(ledger: pl.DataFrame, column: str) -> dict[str, Any] | None:
    if column not in ledger.columns:
        return None
    values = ledger.filter(pl.col("tokens").is_not_null())[column].drop_nulls().cast(pl.Int64).sort()
    if len(values) == 0:
        return {"p50": None, "p90": None, "max": None, "total": 0}
    at = {f"p{q}": int(values[-(-len(values) * q // 100) - 1]) for q in (50, 90)}
    return {**at, "max": int(values[-1]), "total": int(values.sum())}
