"""The marks of a trace against a plain reading of its text, one mark after the other."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import tests.laws.strategies  # noqa: F401 - the profile of the laws
from curate import thinking

NAMES = ("think", "thinking", "thought", "reasoning")
OPENING = [*(f"<{n}>" for n in NAMES), "<|begin_of_thought|>", "[THINK]"]
CLOSING = [*(f"</{n}>" for n in NAMES), "<|end_of_thought|>", "[/THINK]"]
BLANK = " \t\n\v\f\r\x85\xa0\u2003\u2028\u3000"
PIECES = [*OPENING, *CLOSING, "a", "é", "<", ">", "/", "<think", "think>", "\n", " ", "\u3000", "\x00", "<<think>", "</"]
TEXT = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


def marks(text: str) -> list[tuple[int, str]]:
    """Every mark with its place, in order. No mark holds another, so a plain search finds each once."""
    found = [(i, mark) for mark in (*OPENING, *CLOSING) for i in range(len(text)) if text.startswith(mark, i)]
    return sorted(found)


def blank(text: str) -> bool:
    return not text.strip(BLANK)


def expected(trace: str | None, prompt: str | None) -> tuple[bool, bool, int]:
    if trace is None:
        return False, False, 0
    opened = prompt is not None and any(prompt.rstrip(BLANK).endswith(mark) for mark in OPENING)
    found = marks(trace)
    opens = [m for m in found if m[1] in OPENING]
    closes = [m for m in found if m[1] in CLOSING]
    if not opens and not closes and not opened:
        return not blank(trace), False, 0
    reopened = bool(opens) and found[-1][1] in OPENING
    answer = trace[closes[-1][0] + len(closes[-1][1]) :] if closes else ""
    finished = bool(closes) and not reopened and not blank(answer)
    rest = trace.lstrip(BLANK)
    first = next((m for m in OPENING if rest.startswith(m)), "")
    rest = rest[len(first) :].lstrip(BLANK)
    thinks = bool(rest) and not any(rest.startswith(m) for m in CLOSING)
    flags = 8 * bool(closes) + 1 * (bool(closes) and not opens)
    flags += 2 * (len(opens) + opened > 1 or len(closes) > 1 or (bool(closes) and reopened))
    flags += 128 * (bool(opens) and not first)
    return finished, thinks, flags


@given(st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT), max_size=5))
def test_structure_reads_the_marks_as_a_person_does(pairs: list[tuple[str | None, str | None]]) -> None:
    trace, prompt = (pl.Series([p[k] for p in pairs], dtype=pl.String) for k in (0, 1))
    assert thinking.structure(trace, prompt).rows() == [expected(*p) for p in pairs]


@given(st.lists(st.tuples(TEXT, st.booleans()), max_size=5))
def test_split_cuts_at_the_last_closing_mark(pairs: list[tuple[str, bool]]) -> None:
    def parts(text: str, opened: bool) -> tuple[str, str]:
        last = max(CLOSING, key=text.rfind)
        head, mark, tail = text.rpartition(last)
        if not mark:
            starts = any(text.lstrip(BLANK).startswith(m) for m in OPENING)
            head, tail = (tail, "") if starts or opened else ("", tail)
        inner = head.lstrip(BLANK)
        own = next((m for m in OPENING if inner.startswith(m)), None)
        return (inner[len(own) :] if own else head).strip(BLANK), tail.strip(BLANK)

    trace, opened = pl.Series([p[0] for p in pairs], dtype=pl.String), pl.Series([p[1] for p in pairs], dtype=pl.Boolean)
    assert thinking.split(trace, opened=opened).rows() == [parts(*p) for p in pairs]


@given(TEXT, TEXT)
def test_a_batch_gives_what_each_of_its_rows_gives_alone(a: str, b: str) -> None:
    both = thinking.structure(pl.Series([a, None, b]), None)
    alone = [thinking.structure(pl.Series([t], dtype=pl.String), None).row(0) for t in (a, None, b)]
    assert both.rows() == alone


@given(st.text("ab \n", max_size=9), st.text("cd \n", max_size=9))
def test_what_is_composed_is_taken_apart_again(reasoning: str, answer: str) -> None:
    one = pl.DataFrame({"r": [reasoning], "a": [answer]}).select(t=thinking.compose(pl.col("r"), pl.col("a")))["t"]
    assert thinking.split(one).row(0) == (reasoning.strip(), answer.strip())
