"""Marks of thinking: what is finished, what thinks, what is odd, and where the text is cut."""

from __future__ import annotations

import polars as pl
import pytest

from curate import thinking
from curate.errors import CurateError
from curate.thinking import CLOSED, MALFORMED, OPENING_MISSING

# trace, ends the prompt in an opening mark?, finished, thinking, flags
STRUCTURES = [
    ("<think>a</think>b", False, True, True, CLOSED),
    ("<think>a</think>", False, False, True, CLOSED),
    ("<think>a</think> \n", False, False, True, CLOSED),
    ("<think>a", False, False, True, 0),
    ("a</think>b", False, True, True, CLOSED | OPENING_MISSING),
    ("a</think>b", True, True, True, CLOSED | OPENING_MISSING),
    ("a", True, False, True, 0),
    ("a", False, True, False, 0),
    (" \n", False, False, False, 0),
    ("", False, False, False, 0),
    ("", True, False, False, 0),
    ("<think></think>b", False, True, False, CLOSED),
    ("<think>\n\n</think>\n\nb", False, True, False, CLOSED),
    ("</think>b", False, True, False, CLOSED | OPENING_MISSING),
    ("<think>a</think>b<think>c", False, False, True, CLOSED | MALFORMED),
    ("<think>a</think>b<think>c</think>d", False, True, True, CLOSED | MALFORMED),
    ("<think>it says </think> here</think>b", False, True, True, CLOSED | MALFORMED),
    ("<think>a</think>b", True, True, True, CLOSED | MALFORMED),
    ("b <think>", False, False, True, thinking.TEXT_BEFORE),
    ("a</think>b<think>", False, False, True, CLOSED | MALFORMED | thinking.TEXT_BEFORE),
    ("[THINK]a[/THINK]b", False, True, True, CLOSED),
    ("<|begin_of_thought|>a<|end_of_thought|>b", False, True, True, CLOSED),
    ("<reasoning>a</thought>b", False, True, True, CLOSED),
    ("<THINK>a</THINK>b", False, True, False, 0),
    ("<think >a</think >b", False, True, False, 0),
    ("x\n<think>a</think>b", False, True, True, CLOSED | thinking.TEXT_BEFORE),
    ("<think>a</think>\x00", False, True, True, CLOSED),
]


@pytest.mark.parametrize(("trace", "opened", "finished", "thinks", "flags"), STRUCTURES)
def test_structure_of_a_trace(trace: str, opened: bool, finished: bool, thinks: bool, flags: int) -> None:
    prompt = pl.Series(["q <think>\n" if opened else "q"])
    got = thinking.structure(pl.Series([trace]), prompt)
    assert got.row(0) == (finished, thinks, flags)


def test_a_missing_text_is_neither_finished_nor_thinking() -> None:
    got = thinking.structure(pl.Series([None, "b"], dtype=pl.String), pl.Series([None, None], dtype=pl.String))
    assert got.rows() == [(False, False, 0), (True, False, 0)]
    assert got.schema == {"finished": pl.Boolean, "thinking": pl.Boolean, "flags": pl.UInt16}


def test_no_rows_are_no_rows() -> None:
    none = pl.Series([], dtype=pl.String)
    assert thinking.structure(none, none).height == 0
    assert thinking.split(none).height == 0
    assert len(thinking.finish(none)) == 0


@pytest.mark.parametrize("name", ["think", "thinking", "thought", "reasoning"])
def test_every_name_opens_a_prompt_and_closes_a_trace(name: str) -> None:
    prompt = pl.Series([f"q\n<{name}>\n", f"q </{name}>", f"<{name}> q"])
    assert thinking.opens(prompt).to_list() == [True, False, False]
    assert thinking.split(pl.Series([f"<{name}>a</{name}>b"])).row(0) == ("a", "b")


@pytest.mark.parametrize(
    ("trace", "opened", "reasoning", "answer"),
    [
        ("<think>a</think> b", False, "a", "b"),
        ("a</think>b", False, "a", "b"),
        ("a", True, "a", ""),
        ("a", False, "", "a"),
        ("<think>a", False, "a", ""),
        ("<think>1</think>2</think>3", False, "1</think>2", "3"),
        ("<think>a</think>", False, "a", ""),
        ("é<think>ü</think>ß", False, "é<think>ü", "ß"),
        (" \n<think> x </think>\n", False, "x", ""),
        ("", False, "", ""),
    ],
)
def test_reasoning_and_answer(trace: str, opened: bool, reasoning: str, answer: str) -> None:
    assert thinking.split(pl.Series([trace]), opened=pl.Series([opened])).row(0) == (reasoning, answer)


def test_the_parts_of_a_missing_text_are_missing() -> None:
    assert thinking.split(pl.Series([None, "a"], dtype=pl.String)).rows() == [(None, None), ("", "a")]


def test_composed_of_two_columns() -> None:
    frame = pl.DataFrame({"r": ["r", " ", None, "r", None], "a": ["a", "a", "a", None, None]})
    got = frame.select(t=thinking.compose(pl.col("r"), pl.col("a")))["t"].to_list()
    assert got == ["<think>\nr\n</think>\n\na", "a", "a", "<think>\nr\n</think>\n\n", None]


def test_typed_parts_are_one_text() -> None:
    parts = [{"type": "reasoning", "text": "r"}, {"type": "text", "text": "a"}, {"type": "image", "url": "u"}, "b", None]
    assert thinking.parts_text(parts) == "<think>\nr\n</think>\n\nab"
    assert thinking.parts_text([{"type": "thinking", "thinking": " "}, {"type": "text", "text": "a"}]) == "a"
    assert thinking.parts_text([]) == ""


def test_control_tokens_in_a_text() -> None:
    texts = pl.Series(["a <|im_end|> b", "[INST]", "<|im_en d|>", None], dtype=pl.String)
    assert thinking.control_text(texts).to_list() == [True, True, False, False]


def test_finish_words() -> None:
    words = pl.Series(["stop", " EOS ", "end_turn", "TRUE", "length", "error", "", None, "tool_calls"])
    assert thinking.finish(words).to_list() == [True, True, True, True, False, False, None, None, False]
    assert thinking.finish(pl.Series([True, False, None])).to_list() == [True, False, None]
    assert thinking.finish(pl.Series(["stop", "length"], dtype=pl.Categorical)).to_list() == [True, False]
    assert thinking.finish(pl.Series([None], dtype=pl.Null)).to_list() == [None]


def test_a_finish_column_of_lists_is_refused() -> None:
    with pytest.raises(CurateError, match=r"not words\. Name one value of it with --finish"):
        thinking.finish(pl.Series([["stop"]]))


def test_a_prompt_that_ends_in_a_templates_own_header_was_rendered_already() -> None:
    prompts = [
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n",
        "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "[INST] q [/INST]",
        "What does <|im_start|>assistant mean?",
        "q",
        None,
    ]
    assert thinking.rendered(pl.Series(prompts)).to_list() == [True, True, True, True, False, False, False]
