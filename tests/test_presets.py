"""Presets are data: every one parses, names itself once, reads only columns it declares, and says what it rests on."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from curate import presets
from curate.errors import CurateError

KNOWN = presets.known()
CODEFORCES_CONFIGS = {
    "solutions",
    "solutions_decontaminated",
    "solutions_py",
    "solutions_py_decontaminated",
    "solutions_short_and_long_decontaminated",
    "solutions_w_editorials",
    "solutions_w_editorials_decontaminated",
    "solutions_w_editorials_py",
    "solutions_w_editorials_py_decontaminated",
    "checker_interactor",
    "test_input_generator",
}


def test_thirty_eight_repositories_are_known() -> None:
    assert len({preset.repo for preset in KNOWN.values()}) == 38
    assert len(KNOWN) == 78


def test_every_config_of_codeforces_cots_is_known_by_its_own_name() -> None:
    assert {p.config for p in KNOWN.values() if p.repo == "open-r1/codeforces-cots"} == CODEFORCES_CONFIGS
    for config in CODEFORCES_CONFIGS:
        found = presets.find(config)
        assert found is not None
        assert (found.repo, found.config) == ("open-r1/codeforces-cots", config)


@pytest.mark.parametrize("name", KNOWN)
def test_a_preset_agrees_with_the_schema_it_declares(name: str) -> None:
    preset = KNOWN[name]
    assert presets.differs(preset, preset.columns) == []
    read = {column for columns in presets.needed(preset).values() for column in columns}
    assert read <= set(preset.columns)


@pytest.mark.parametrize("name", KNOWN)
def test_a_preset_finds_a_trace_names_its_card_and_its_siblings_exist(name: str) -> None:
    preset = KNOWN[name]
    assert preset.card.startswith("datasets/")
    assert set(preset.siblings) <= set(KNOWN)
    assert name not in preset.siblings
    assert (preset.passed is None) == (preset.passed_basis == "none")
    assert (preset.difficulty_kind == "label") == bool(preset.labels)
    assert (preset.hint is None) == (preset.hint_column is None)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("solutions_py_decontaminated", "solutions_py_decontaminated"),
        ("SOLUTIONS_PY", "solutions_py"),
        ("open-r1/codeforces-cots", "codeforces-cots"),
        ("codeforces-cots:solutions_py", "solutions_py"),
        ("open-r1/OpenR1-Math-220k:extended", "OpenR1-Math-220k-extended"),
        ("OpenR1-Math-220k", "OpenR1-Math-220k"),
        ("nvidia/OpenMathReasoning:tir", "OpenMathReasoning-tir"),
        ("deepmath-103k", "DeepMath-103K"),
        ("QuixiAI/dolphin-r1", "dolphin-r1"),
        ("am-r1-1.4m", "AM-DeepSeek-R1-Distilled-1.4M"),
    ],
)
def test_a_preset_is_found_by_short_name_repository_and_config(name: str, found: str) -> None:
    preset = presets.find(name)
    assert preset is not None
    assert preset.name == found


def test_an_unknown_name_is_no_preset_and_near_ones_are_offered() -> None:
    assert presets.find("someone/else") is None
    assert presets.near_names("solution_py_decontaminated").startswith(" Did you mean solutions_py_decontaminated")
    assert presets.near_names("OpenR1-Math-200k").startswith(" Did you mean OpenR1-Math-220k")
    assert presets.near_names("zzzzzz") == ""


def test_a_repository_of_problems_says_that_it_holds_no_traces() -> None:
    with pytest.raises(CurateError, match="no traces"):
        presets.find("open-r1/codeforces")


def test_a_missing_column_and_a_changed_type_are_one_sentence_each() -> None:
    preset = KNOWN["solutions_py_decontaminated"]
    met = dict(preset.columns)
    met["finish_reasons"] = met.pop("finish_reason")
    met["prompt"] = pl.List(pl.String())
    met["memory_limit"] = pl.Int64()  # not read: no matter
    sentences = presets.differs(preset, met)
    assert len(sentences) == 2
    assert "has column prompt as List(String), not String" in sentences[0]
    assert "no column finish_reason, which the preset solutions_py_decontaminated reads for passed and finish" in sentences[1]
    assert sentences[1].endswith("Did you mean finish_reasons?")
    with pytest.raises(CurateError, match="--presets FILE"):
        presets.require(preset, met)


def test_null_typed_columns_widths_and_categories_are_no_difference() -> None:
    preset = KNOWN["OpenR1-Math-220k"]
    met = dict(preset.columns)
    met["correctness_llama"] = pl.Null()
    met["finish_reasons"] = pl.List(pl.Categorical())
    met["uuid"] = pl.Int64()
    assert presets.differs(preset, met) == []


def test_turns_without_their_content_are_a_difference() -> None:
    preset = KNOWN["Mixture-of-Thoughts"]
    met = {**preset.columns, "messages": pl.List(pl.Struct({"role": pl.String(), "text": pl.String()}))}
    assert len(presets.differs(preset, met)) == 1


def test_an_expression_knows_its_columns() -> None:
    columns = ["solutions", "score", "a b", "Qwen/Qwen3-4B_responses", "messages"]
    assert presets.base_columns("solutions[].solution", columns) == ("solutions",)
    assert presets.base_columns("score >= 1", columns) == ("score",)
    assert presets.base_columns("a b", columns) == ("a b",)
    assert presets.base_columns("Qwen/Qwen3-4B_responses[]", columns) == ("Qwen/Qwen3-4B_responses",)
    assert presets.base_columns("messages[-1].content", columns) == ("messages",)
    assert presets.base_columns("TRUE", columns) == ()
    with pytest.raises(CurateError, match="neither a column, a path nor SQL"):
        presets.base_columns("score >= (", columns)


@pytest.mark.parametrize(
    ("verify", "llama", "passed"),
    [
        (True, False, True),
        (False, True, True),
        (False, None, False),
        (None, False, False),
        (None, True, True),
        (None, None, None),
    ],
)
def test_openr1_takes_the_judge_that_spoke(verify: bool | None, llama: bool | None, passed: bool | None) -> None:
    frame = pl.DataFrame(
        {"correctness_math_verify": [verify], "correctness_llama": [llama]},
        schema={"correctness_math_verify": pl.Boolean, "correctness_llama": pl.Boolean},
    )
    text = KNOWN["OpenR1-Math-220k"].passed
    assert text is not None
    assert frame.select(pl.sql_expr(text).alias("p")).item() is passed


@pytest.mark.parametrize(
    ("finish", "text", "passed"),
    [
        ("stop", "<think>a</think>\n```python\nx\n```", True),
        (None, "<think>a</think>\n```python\nx\n```", True),
        ("length", "<think>a</think>\n```python\nx\n```", False),
        ("stop", "<think>```python\nx\n```</think> no code after it", False),
        ("stop", "<think>never closed ```python", False),
    ],
)
def test_codeforces_proxy_wants_an_end_a_closing_mark_and_code_behind_it(finish: str | None, text: str, passed: bool) -> None:
    frame = pl.DataFrame({"finish_reason": [finish], "generation": [text]}, schema_overrides={"finish_reason": pl.String})
    expression = KNOWN["solutions_py"].passed
    assert expression is not None
    assert frame.select(pl.sql_expr(expression).alias("p")).item() is passed


def test_notes_say_the_evidence_the_basis_and_the_hint() -> None:
    said = " ".join(presets.notes(KNOWN["solutions_w_editorials_py"]))
    assert "only its card or file list was seen, no rows" in said
    assert "Passing (proxy)" in said
    assert "held the editorial" in said
    assert "from memory, unverified" in " ".join(presets.notes(KNOWN["LIMO-v2"]))


OWN = """
[[set]]
name = "mine"
path = "runs/*.parquet"
trace = "text"
passed = "ok"
passed_basis = "verdict"
bounds = [100]

[[set]]
repo = "me/two"
trace = "t"
[[set.part]]
name = "two-a"
config = "a"
[[set.part]]
name = "LIMO"
config = "b"
"""


def test_own_presets_are_added_and_win(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN, encoding="utf-8")
    merged = presets.merge(KNOWN, presets.load(file))
    assert len(merged) == len(KNOWN) + 2
    assert merged["LIMO"].repo == "me/two"
    assert merged["mine"].bounds == (100,)
    assert merged["mine"].where_from == "runs/*.parquet"
    found = presets.find("me/two:a", merged)
    assert found is not None
    assert found.name == "two-a"
    assert presets.differs(merged["mine"], {"text": pl.String(), "ok": pl.Boolean()}) == []
    assert len(presets.differs(merged["mine"], {"text": pl.String()})) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[set]\n", "no valid TOML"),
        ("", "holds no preset"),
        ('[[set]]\nrepo = "a/b"\ntrace = "t"', "has no name"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrase = "t"', "unknown key trase. Did you mean trace"),
        ('[[set]]\nname = "x"\nrepo = "a/b"', "names no trace"),
        ('[[set]]\nname = "x"\ntrace = "t"', "neither repo"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = 1', "it is a text"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = "t"\nbounds = ["8k"]', "a list of integers"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = "t"\npassed_basis = "sure"', "one of verdict"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = "t"\npassed_basis = "judge"', "no passed column"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = "t"\ncolumns = ["t text"]', "no column type"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = "t"\n[set.difficulty_from]\nrepo = "c/d"', "takes the keys"),
        ('[[set]]\nname = "x"\nrepo = "a/b"\ntrace = "t"\n[[set]]\nname = "X"\nrepo = "a/c"\ntrace = "t"', "rename one"),
    ],
)
def test_a_faulty_preset_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CurateError, match=message):
        presets.load(file)


def test_a_preset_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CurateError, match="--presets takes a TOML file"):
        presets.load(tmp_path / "none.toml")


def test_the_listing_has_a_line_per_preset() -> None:
    lines = presets.listing()
    assert len(lines) == len(KNOWN)
    line = next(entry for entry in lines if entry["name"] == "solutions_py_decontaminated")
    assert line == {
        "name": "solutions_py_decontaminated",
        "source": "open-r1/codeforces-cots:solutions_py_decontaminated",
        "rows": "8,133",
        "traces_per_problem": "1 (card)",
        "passing": "proxy",
        "difficulty": "rating",
        "licence": "cc-by-4.0",
        "seen": "card",
    }
