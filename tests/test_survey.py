"""What ``inspect`` adds: structure of the thinking and lengths of the parts."""

from __future__ import annotations

import polars as pl

from curate import survey, thinking
from curate.ledger import SCHEMA, Meta
from curate.selection import Rules


def ledger(flags: list[int | None], finished: list[bool], **more: list[int | None]) -> pl.DataFrame:
    n = len(flags)
    base = {
        "source": [0] * n,
        "row": list(range(n)),
        "item": [0] * n,
        "problem": ["p"] * n,
        "tokens": [10] * n,
        "prompt_tokens": [0] * n,
        "passed": [None] * n,
        "finished": finished,
        "thinking": [True] * n,
        "difficulty": [None] * n,
        "reason": [None] * n,
    }
    extra = {"flags": pl.Series(flags, dtype=pl.UInt16), **{k: pl.Series(v, dtype=pl.UInt32) for k, v in more.items()}}
    return pl.DataFrame(base, schema=SCHEMA).with_columns(**extra)


META = Meta(sources=({"name": "s", "rows": 6, "basis": "none"},), tokens={"basis": "estimate", "by": "chars/3.6", "count": "trace"})


def test_structure_counts_bits() -> None:
    bits = [
        thinking.CLOSED,
        thinking.CLOSED | thinking.OPENING_MISSING,
        thinking.CLOSED | thinking.MALFORMED,
        thinking.CONTROL_TEXT,
        thinking.RENDER | thinking.CLOSED,
        None,
    ]
    got = survey.facts(ledger(bits, [True, True, False, False, True, True]), META, Rules())
    assert got["structure"] == {
        "complete": 3,
        "opening_missing": 1,
        "malformed": 1,
        "control_text": 1,
        "render_altered": 1,
        "prompt_rendered": 0,
        "text_before": 0,
    }
    assert got["traces"] == 6


def test_lengths_of_parts_are_nearest_rank() -> None:
    got = survey.facts(ledger([0] * 4, [True] * 4, prompt_tokens=[1, 2, 3, 100], reasoning_tokens=[5, None, 7, 9]), META, Rules())[
        "lengths"
    ]
    assert got["prompt"] == {"p50": 2, "p90": 100, "max": 100, "total": 106}
    assert got["reasoning"] == {"p50": 7, "p90": 9, "max": 9, "total": 21}
    assert got["answer"] is None


def test_no_traces() -> None:
    got = survey.facts(ledger([], []), META, Rules())
    assert set(got["structure"].values()) == {0}
    assert got["lengths"]["prompt"] == {"p50": None, "p90": None, "max": None, "total": 0}
