"""Ledgers for the laws: small numbers, so that ties, nulls and empty groups happen all the time."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from curate.ledger import SCHEMA
from curate.selection import Rules, Thinking

# Laws are about values: a busy machine breaks none of them.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

Row = dict[str, Any]

DIFFICULTIES = (None, 1.0, 2.0, 2.5, 800.0)


@st.composite
def traces(draw: st.DrawFn) -> Row:
    """One trace without its place: four problems or none, at most nine tokens or no text."""
    tokens = draw(st.none() | st.integers(1, 9))
    return {
        "problem": draw(st.sampled_from(["A", "B", "C", "D", None])),
        "tokens": tokens,
        "prompt_tokens": draw(st.integers(0, tokens or 0)),
        "passed": draw(st.sampled_from([True, True, False, None])),
        "finished": tokens is not None and draw(st.sampled_from([True, True, False])),
        "thinking": tokens is not None and draw(st.sampled_from([True, True, False])),
        "difficulty": draw(st.sampled_from(DIFFICULTIES)),
        "reason": None,
    }


@st.composite
def rows(draw: st.DrawFn, *, prompts: bool = True, max_size: int = 14) -> list[Row]:
    """Traces of two sources, each at a place of its own, in any order; without ``prompts`` every trace is counted alone."""
    made = draw(st.lists(traces(), max_size=max_size))
    places = draw(
        st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 3)),
            min_size=len(made),
            max_size=len(made),
            unique=True,
        )
    )
    for trace, (source, row, item) in zip(made, places, strict=True):
        trace |= {"source": source, "row": row, "item": item}
        if not prompts:
            trace["prompt_tokens"] = 0
    return made


def ledger(made: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(made, schema=SCHEMA)


def rules(**fixed: Any) -> st.SearchStrategy[Rules]:
    """Any rules, those named in ``fixed`` set."""
    free: dict[str, st.SearchStrategy[Any]] = {
        "max_tokens": st.none() | st.integers(1, 10),
        "policy": st.sampled_from(["all", "first", "shortest", "longest", "random"]),
        "passing": st.sampled_from(["known", "not-failed", "finished"]),
        "thinking": st.sampled_from([None, "required", "optional"]),
        "seed": st.integers(0, 3),
        "choose_first": st.booleans(),
    }
    return st.builds(Rules, **{name: st.just(fixed[name]) if name in fixed else made for name, made in free.items()})


def place(trace: Row) -> tuple[int, int, int]:
    return trace["source"], trace["row"], trace["item"]


def is_usable(trace: Row, required: dict[int, Thinking]) -> bool:
    """The design's words, one after the other."""
    if trace["tokens"] is None or trace["problem"] is None or not trace["finished"]:
        return False
    return trace["thinking"] or not required[trace["source"]].required


def is_passing(trace: Row, required: dict[int, Thinking], passing: str) -> bool:
    if not is_usable(trace, required):
        return False
    return {"known": trace["passed"] is True, "not-failed": trace["passed"] is not False, "finished": True}[passing]
