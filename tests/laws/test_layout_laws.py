"""Nested and flat rows of the same traces are the same traces; nothing is lost or invented on the way."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import tests.laws.strategies  # noqa: F401 - the profile of the laws
from curate import layout
from curate.layout import Columns

TEXT = st.none() | st.text("ab<>/ é\n\x00", max_size=5)
GROUP = st.tuples(st.text("pq", min_size=1, max_size=2), st.lists(st.tuples(TEXT, st.none() | st.booleans()), max_size=3))
TURN = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": TEXT})

FLAT = {"id": pl.String(), "generation": pl.String(), "passed": pl.Boolean()}
NESTED = {"id": pl.String(), "generations": pl.List(pl.String()), "correct": pl.List(pl.Boolean())}
RECORDS = {"id": pl.String(), "solutions": pl.List(pl.Struct({"solution": pl.String(), "passed": pl.Boolean()}))}


def taken(rows: list[dict[str, Any]], schema: dict[str, Any], **named: str) -> list[tuple[Any, ...]]:
    frame = pl.DataFrame(rows, schema=schema)
    found = layout.find(frame.schema, Columns(**named), frame)
    one = layout.traces(frame.select(found.columns), found)
    return one.select("row", "item", "bad", "problem", "trace", "passed").rows()


@given(st.lists(GROUP, max_size=4))
def test_flat_nested_and_records_are_one(groups: list[tuple[str, list[tuple[str | None, bool | None]]]]) -> None:
    nested = [{"id": p, "generations": [t for t, _ in g], "correct": [v for _, v in g]} for p, g in groups]
    records = [{"id": p, "solutions": [{"solution": t, "passed": v} for t, v in g]} for p, g in groups]
    flat = [{"id": p, "generation": t, "passed": v} for p, g in groups for t, v in g]
    expected = [(row, item, not g, p, t, v) for row, (p, g) in enumerate(groups) for item, (t, v) in enumerate(g or [(None, None)])]
    assert taken(nested, NESTED, passed="correct") == expected
    assert taken(records, RECORDS, trace="solutions[].solution", passed="passed") == expected
    alone = taken(flat, FLAT)
    assert [t[3:] for t in alone] == [t[3:] for t in expected if not t[2]]
    assert [t[:3] for t in alone] == [(i, 0, False) for i in range(len(flat))]


@given(st.lists(st.tuples(st.none() | st.lists(TEXT, max_size=3), st.none() | st.lists(st.booleans(), max_size=3)), max_size=5))
def test_lists_that_do_not_line_up_are_bad_and_counted(pairs: list[tuple[list[str | None] | None, list[bool] | None]]) -> None:
    rows = [{"id": "p", "generations": g, "correct": c} for g, c in pairs]
    frame = pl.DataFrame(rows, schema=NESTED)
    found = layout.find(frame.schema, Columns(passed="correct"), frame.clear())  # no probe: lists are taken to run along
    got = layout.traces(frame.select(found.columns), found)
    assert got.height == sum(max(1, len(g or [])) for g, _ in pairs)
    expected = [not g or (c is not None and len(c) != len(g)) for g, c in pairs for _ in range(max(1, len(g or [])))]
    assert got["bad"].to_list() == expected
    assert got.filter("bad")["trace"].null_count() == sum(expected)


@given(st.lists(st.none() | st.lists(TURN, max_size=4), max_size=4))
def test_turns_end_at_the_last_of_the_assistant(chats: list[list[dict[str, Any]] | None]) -> None:
    schema = {"id": pl.String(), "messages": pl.List(pl.Struct({"role": pl.String(), "content": pl.String()}))}
    frame = pl.DataFrame([{"id": "p", "messages": c} for c in chats], schema=schema)
    found = layout.find(frame.schema, Columns(), frame)
    got = layout.traces(frame.select(found.columns), found)
    for chat, trace, prompt, context in zip(chats, *(got[c].to_list() for c in ("trace", "prompt", "context")), strict=True):
        last = max((i for i, t in enumerate(chat or []) if t["role"] == "assistant"), default=None)
        before = (chat or [])[:last]
        assert trace == (None if last is None or chat is None else chat[last]["content"])
        assert (context or []) == before
        assert prompt == ("\n".join(t["content"] or "" for t in before) if before else None)
