"""Which column plays which part, and how rows become traces, in every layout that data sets come in."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from curate import layout
from curate.errors import CurateError
from curate.layout import Columns

T, U, V = "<think>a</think>b", "<think>c</think>d", "<think>e"


def taken(rows: dict[str, Any] | pl.DataFrame, **named: str) -> list[dict[str, Any]]:
    frame = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows, strict=False)
    found = layout.find(frame.schema, Columns(**named), frame)
    return layout.traces(frame.select(found.columns), found).to_dicts()


def column(rows: list[dict[str, Any]], *names: str) -> list[Any]:
    return [r[names[0]] if len(names) == 1 else tuple(r[n] for n in names) for r in rows]


def test_one_trace_a_row() -> None:
    got = taken(
        {
            "problem_id": [1, 1],
            "prompt": ["q", "q"],
            "generation": [T, None],
            "passed": [True, None],
            "finish_reason": ["stop", "length"],
        }
    )
    assert got[0] == {"row": 0, "item": 0, "bad": False, "trace": T, "prompt": "q", "problem": 1, "passed": True, "finish": "stop"}
    assert got[1]["trace"] is None


def test_a_list_of_generations_with_parallel_lists() -> None:
    got = taken({
        "id": ["a", "b", "c", "d", "e"],
        "generations": [[T, U], [V], [], None, [T, None]],
        "correct": [[True, False], [None], [], None, [True]],
    })  # fmt: skip
    assert column(got, "row", "item") == [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1)]
    assert column(got, "trace") == [T, U, V, None, None, None, None]
    assert column(got, "bad") == [False, False, False, True, True, True, True]
    assert column(got, "passed") == [True, False, None, None, None, None, None]
    assert column(got, "problem") == ["a", "a", "b", "c", "d", "e", "e"]


def test_a_list_of_records() -> None:
    rows = {"id": ["a"], "solutions": [[{"solution": T, "passed": True, "n": 1}, {"solution": U, "passed": False, "n": 2}]]}
    for named in ({}, {"trace": "solutions[].solution"}):
        assert column(taken(rows, **named), "trace") == [T, U]
    got = taken(rows, passed="passed")
    assert column(got, "trace", "passed") == [(T, True), (U, False)]
    assert column(taken(rows, passed="n > 1"), "passed") == [False, True]
    assert column(taken(rows, passed="solutions[].passed", where="n = 2"), "trace", "passed") == [(U, False)]


def test_chat_turns() -> None:
    turns = [
        [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": T}],
        [
            {"role": "user", "content": "q1"},
            {"role": "assistant", "content": "a1"},
            {"role": "user", "content": "q2"},
            {"role": "assistant", "content": U},
        ],
        [{"role": "user", "content": "only a question"}],
        [],
        None,
    ]
    got = taken({"id": list("abcde"), "messages": turns})
    assert column(got, "trace") == [T, U, None, None, None]
    assert column(got, "prompt") == ["s\nq", "q1\na1\nq2", "only a question", None, None]
    assert got[1]["context"] == turns[1][:3] if turns[1] else None


def test_from_and_value_with_names_in_any_case() -> None:
    turns = [[{"from": "Human", "value": "q"}, {"from": "GPT", "value": T}]]
    got = taken({"id": ["a"], "conversations": turns})
    assert column(got, "trace", "prompt") == [(T, "q")]
    assert got[0]["context"] == [{"role": "user", "content": "q"}]


def test_typed_parts_and_a_field_of_reasoning() -> None:
    parts = [
        [
            {"role": "user", "content": [{"type": "text", "text": "q"}]},
            {"role": "assistant", "content": [{"type": "thinking", "text": "r"}, {"type": "text", "text": "a"}]},
        ]
    ]
    assert column(taken({"id": ["a"], "messages": parts}), "trace", "prompt") == [("<think>\nr\n</think>\n\na", "q")]
    fields = [
        [
            {"role": "user", "content": "q", "reasoning_content": None},
            {"role": "assistant", "content": "a", "reasoning_content": "r"},
        ]
    ]
    assert column(taken({"id": ["a"], "messages": fields}), "trace") == ["<think>\nr\n</think>\n\na"]


def test_reasoning_in_a_column_of_its_own() -> None:
    got = taken({"id": ["a", "b"], "response": ["x", "y"], "reasoning": ["r", None]})
    assert column(got, "trace") == ["<think>\nr\n</think>\n\nx", "y"]


def test_several_columns_each_hold_a_trace() -> None:
    got = taken({"id": ["a", "b"], "r1": [T, U], "r2": [None, V]}, trace="r1,r2")
    assert column(got, "row", "item", "trace", "bad") == [(0, 0, T, False), (0, 1, None, False), (1, 0, U, False), (1, 1, V, False)]


def test_an_exact_name_beats_a_path_and_a_path_beats_sql() -> None:
    frame = pl.DataFrame({"a.b": ["x"], "a": [{"b": "y", "c d": "z"}], "n": [3], "select": ["s"], "generation": [T]})
    assert column(taken(frame, problem="a.b"), "problem") == ["x"]
    assert column(taken(frame, problem="a.c d"), "problem") == ["z"]
    assert column(taken(frame, problem="select"), "problem") == ["s"]
    assert column(taken(frame, problem="n * 2"), "problem") == [6]
    assert column(taken(frame, problem="CASE WHEN n > 2 THEN 'many' ELSE 'few' END"), "problem") == ["many"]


def test_steps_into_lists() -> None:
    rows = {"id": ["a"], "m": [[{"t": T}, {"t": U}]]}
    assert column(taken(rows, trace="m[0].t"), "trace") == [T]
    assert column(taken(rows, trace="m[-1].t"), "trace") == [U]
    assert column(taken(rows, trace="m[7].t"), "trace") == [None]
    assert column(taken(rows, trace="m[].t"), "trace") == [T, U]


def test_names_of_our_own_in_the_input() -> None:
    own = {
        n: ["mine", "mine"]
        for n in ("row", "item", "bad", "trace", "at", "tokens", "reason", "source", "__row", "__item", "__bad", "__n")
    }
    flat = taken({"id": ["a", "b"], "generation": [T, U], **own}, trace="generation")
    assert column(flat, "row", "item", "trace") == [(0, 0, T), (1, 0, U)]
    nested = taken(
        {"id": ["a", "b"], "generations": [[T, U], [V]], **own},
        trace="generations",
        where="\"__item\" = 'mine' AND \"row\" = 'mine'",
    )
    assert column(nested, "row", "item", "trace", "bad") == [(0, 0, T, False), (0, 1, U, False), (1, 0, V, False)]


def test_where_keeps_rows_that_are_true() -> None:
    rows = {"id": ["a", "b", "c"], "generation": [T, U, V], "n": [1, None, 3]}
    assert column(taken(rows, where="n > 1"), "row") == [2]
    assert column(taken(rows, where="n > 1 OR n IS NULL"), "row") == [1, 2]
    assert column(taken(rows, where="true"), "row") == [0, 1, 2]
    assert column(taken(rows, where="false"), "row") == []
    assert column(taken(rows, where="n IN (1, 3)"), "row") == [0, 2]


@pytest.mark.parametrize(
    ("rows", "named", "why"),
    [
        ({"id": ["a"], "x": ["t"]}, {}, "no column that is known to hold traces. .*Text is in: id, x"),
        ({"id": ["a"], "generation": [T], "response": [T]}, {}, "2 columns that could be the trace: generation and response. Name one with --trace"),
        ({"generation": [T], "n": [1]}, {}, "no problem id and no prompt"),
        ({"id": ["a"], "generation": [T]}, {"passed": "pased"}, r"no column pased \(--passed\)"),
        ({"id": ["a"], "generation": [T], "rating": [1]}, {"difficulty": "raitng"}, "Did you mean rating"),
        ({"id": ["a"], "m": [{"b": T}]}, {"trace": "m.c"}, "no field c in m"),
        ({"id": ["a"], "m": [T]}, {"trace": "m[0]"}, "not a list"),
        ({"id": ["a"], "m": [[[T]]]}, {"trace": "m[][]"}, "only the outermost list"),
        ({"id": ["a"], "m": [[T]]}, {"trace": "m[-]"}, "neither a column of the source nor an SQL expression"),
        ({"id": ["a"], "m": [[T]]}, {"trace": "m[" + "9" * 5000 + "]"}, "m.9+.* (cannot be evaluated|neither a column)"),
        ({"id": ["a"], "generation": [T], "c": [[True]]}, {"passed": "c[]"}, "the trace of .* is not in a list"),
        ({"id": ["a"], "generation": [T], "n": [1]}, {"where": "AVG(n) > 1"}, "looks at several rows"),
        ({"id": ["a"], "generation": [T], "n": [1]}, {"where": "ROW_NUMBER() OVER () = 1"}, "looks at several rows"),
        ({"id": ["a"], "generation": [T], "n": [1]}, {"where": "n >"}, "neither a column of the source nor an SQL expression"),
        ({"id": ["a"], "generation": [T], "n": [1]}, {"where": "n"}, "not true or false"),
        ({"id": ["a"], "generation": [T], "s": ["x"]}, {"where": "s + 1 > 1"}, "cannot be evaluated"),
        ({"id": ["a"], "generations": [[{"a": T, "b": T}]]}, {}, r"Name the trace with --trace, one of: generations\[\]\.a, generations\[\]\.b"),
    ],
)  # fmt: skip
def test_what_cannot_be_found_is_said(rows: dict[str, Any], named: dict[str, str], why: str) -> None:
    with pytest.raises(CurateError, match=why) as caught:
        taken(rows, **named)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rows", [{"generation": [], "id": []}, {"generations": [], "id": []}, {"messages": [], "id": []}])
def test_zero_rows(rows: dict[str, Any]) -> None:
    types = {"generation": pl.String(), "generations": pl.List(pl.String()), "id": pl.String()}
    types["messages"] = pl.List(pl.Struct({"role": pl.String(), "content": pl.String()}))
    assert taken(pl.DataFrame(rows, schema={k: types[k] for k in rows})) == []


def test_rows_that_pairs_of_lists_have_in_common_decide_what_runs_along() -> None:
    rows = {"id": ["a", "b"], "generations": [[T, U], [V, T]], "correct": [[True], [False]], "tags": [["x", "y"], ["z"]]}
    frame = pl.DataFrame(rows)
    found = layout.find(frame.schema, Columns(), frame)
    assert found.lists == ("generations",)
    assert found.parallel == ("generations",)
