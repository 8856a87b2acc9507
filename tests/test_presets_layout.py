"""Every preset, put to made data in its exact schema, gives the traces, problems, verdicts and difficulty worked out by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from curate import layout, presets, thinking, values
from curate.errors import CurateError
from tests import preset_data

KNOWN = presets.known()


@pytest.mark.parametrize("name", KNOWN)
def test_a_preset_reads_made_data_as_worked_out_by_hand(name: str, tmp_path: Path) -> None:
    preset = KNOWN[name]
    expected = preset_data.make(preset, tmp_path)
    rows = preset_data.read(tmp_path, expected.files)
    found = layout.find(rows.schema, layout.Columns(**presets.roles(preset)), rows, where=name, guess=False)
    one = layout.traces(rows, found)
    assert tuple(one["trace"]) == expected.texts
    unknown = pl.Series([None] * one.height, dtype=pl.Boolean)
    passed = values.verdict(one["passed"]) if "passed" in one.columns else unknown
    assert (passed.sum(), (~passed).sum(), passed.null_count()) == (expected.passed, expected.failed, expected.unknown)
    problem = values.problem_id(one["problem"]) if "problem" in one.columns else values.prompt_id(one["prompt"])
    assert problem.null_count() == 0
    assert problem.value_counts()["count"].sort().to_list() == sorted(
        int(n) for n, k in expected.per_problem.items() for _ in range(k)
    )
    if preset.difficulty_from is None and preset.difficulty is not None:
        number, words = values.difficulty(one["difficulty"], rating=preset.difficulty_kind == "rating")
        known = number.is_not_null() if words is None else number.is_not_null() | words.is_not_null()
        assert known.sum() == expected.rated
    ended = thinking.structure(one["trace"], one["prompt"])["finished"]
    assert (~ended).sum() == expected.unfinished
    if preset.system is not None:
        assert one["context"][0][0] == {"role": "system", "content": "Think first."}


def test_a_prompt_of_several_turns_keeps_them_all() -> None:
    preset = KNOWN["Llama-Nemotron-chat"]
    turns = [{"role": r, "content": c} for r, c in (("user", "q1"), ("assistant", "a1"), ("user", "q2"))]
    row = {"input": turns, "output": "<think>\nt\n</think>\n\na2", "reasoning": "on", "system_prompt": ""}
    rows = pl.DataFrame([row], schema={c: preset.columns[c] for c in row})
    found = layout.find(rows.schema, layout.Columns(**presets.roles(preset)), rows, guess=False)
    assert layout.traces(rows, found)["context"].to_list() == [turns]


def test_a_decimal_in_an_expression_is_no_fault_and_an_aggregate_is_one() -> None:
    rows = pl.DataFrame({"id": ["a"], "generation": ["t"], "score": [0.9]})
    found = layout.find(rows.schema, layout.Columns(passed="score >= 0.8"), rows)
    assert layout.traces(rows, found)["passed"].to_list() == [True]
    for text in ("score >= AVG(score) + 0.1", "COUNT(*) > 1", "SUM(score) > 0", "score > MAX(score) OVER (PARTITION BY id)"):
        with pytest.raises(CurateError, match="looks at several rows"):
            layout.find(rows.schema, layout.Columns(passed=text), rows)
