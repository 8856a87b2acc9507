"""Where reasoning begins and ends: is a trace finished, does it think, is its structure sound.

One regular expression over whole columns finds the marks, at 10 GB/s a core; anchored ones cost nothing, and everything else is read off
the few marks found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from curate.errors import CurateError
from curate.room import LONG, characters, memory

NAMES: Final = ("think", "thinking", "thought", "reasoning")
OPEN: Final = r"(?:<(?:think|thinking|thought|reasoning)>|<\|begin_of_thought\|>|\[THINK\])"
CLOSE: Final = r"(?:</(?:think|thinking|thought|reasoning)>|<\|end_of_thought\|>|\[/THINK\])"

CLOSING: Final = (*(f"</{name}>" for name in NAMES), "<|end_of_thought|>", "[/THINK]")

FINISHED_WORDS: Final = ("stop", "eos", "end_turn", "true")
"""Values of a finish column that say that the generator ended by itself; every other value says that it did not."""

CONTROL: Final = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|start|>",
    "<|channel|>",
    "<|return|>",
    "[INST]",
    "[/INST]",
)
"""Control tokens of common chat formats. In a trace they are text that a tokenizer takes for structure."""

OPENING_MISSING: Final = 1
MALFORMED: Final = 2
CONTROL_TEXT: Final = 4
CLOSED: Final = 8
RENDER: Final = 16
RENDERED: Final = 64
TEXT_BEFORE: Final = 128
"""Bits of the ledger's ``flags``; from ``RENDER`` on, what the chat template did (1 altered the reasoning, 2 control tokens),
``RENDERED``: the prompt holds a chat template's own tokens already; ``TEXT_BEFORE``: text stands before the first opening mark."""


def compose(reasoning: pl.Expr, answer: pl.Expr) -> pl.Expr:
    """One trace from a reasoning column and an answer column: ``<think>\\nR\\n</think>\\n\\nA``; the answer alone where R is blank."""
    has = reasoning.str.contains(r"\S").fill_null(False)
    return pl.when(has).then(pl.format("<think>\n{}\n</think>\n\n{}", reasoning, answer.fill_null(""))).otherwise(answer)


PART_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
PART_TEXT: Final = ("text", "value", "content", "thinking", "reasoning")


def parts_text(parts: Sequence[object]) -> str:
    """A message made of typed parts as one text: reasoning parts become ``<think>``, other parts are joined by nothing.

    >>> parts_text([{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}])
    '<think>\\na\\n</think>\\n\\nb'
    """
    reasoning: list[str] = []
    answer: list[str] = []
    for part in parts:
        if isinstance(part, dict):
            value = next((part[k] for k in PART_TEXT if isinstance(part.get(k), str)), "")
            (reasoning if str(part.get("type")) in PART_REASONING else answer).append(value)
        elif isinstance(part, str):
            answer.append(part)
    inner, body = "".join(reasoning), "".join(answer)
    return f"<think>\n{inner}\n</think>\n\n{body}" if inner.strip() else body


def structure(trace: pl.Series, prompt: pl.Series | None = None) -> pl.DataFrame:
    """Facts of structure, one row per trace.

    Args:
        trace: String, null where there is no text.
        prompt: String, what stands before the trace; it may end in an opening mark.

    Returns:
        ``finished`` and ``thinking`` (Boolean, false for a null trace) and ``flags`` (UInt16, see the bits above).

    >>> structure(pl.Series(["<think>a</think>b", "<think>a", "a</think>b", "<think></think>b", "b"]))["finished"].to_list()
    [True, False, True, True, True]
    """
    t = pl.col("t")
    facts = (
        trace.rename("t")
        .to_frame()
        .select(
            # one search of the text; what follows reads the few marks that it found
            marks=t.str.extract_all(rf"{OPEN}|{CLOSE}").list.join(" "),
            starts=t.str.contains(rf"^\s*{OPEN}"),
            ends=t.str.contains(rf"{CLOSE}\s*\z"),
            empty=t.str.contains(rf"^\s*(?:{OPEN})?\s*(?:{CLOSE}|\z)"),
            blank=~t.str.contains(r"\S"),
        )
    )
    marks = pl.col("marks").str
    facts = facts.select(
        "starts",
        "ends",
        "empty",
        "blank",
        opens=marks.count_matches(OPEN),
        closes=marks.count_matches(CLOSE),
        reopened=marks.contains(rf"{OPEN}\z"),
        by_prompt=pl.lit(False) if prompt is None else opens(prompt),
    )
    closed, opened = pl.col("closes") > 0, (pl.col("opens") > 0) | pl.col("by_prompt")
    marked = closed | opened
    answered = closed & ~pl.col("reopened") & ~pl.col("ends")
    malformed = (pl.col("opens") + pl.col("by_prompt").cast(pl.UInt32) > 1) | (pl.col("closes") > 1) | (closed & pl.col("reopened"))
    return facts.select(
        finished=pl.when(marked).then(answered).otherwise(~pl.col("blank")).fill_null(False),
        thinking=(marked & ~pl.col("empty")).fill_null(False),
        flags=(
            pl.when(closed & (pl.col("opens") == 0)).then(OPENING_MISSING).otherwise(0)
            + pl.when(malformed).then(MALFORMED).otherwise(0)
            + pl.when(closed).then(CLOSED).otherwise(0)
            + pl.when((pl.col("opens") > 0) & ~pl.col("starts")).then(TEXT_BEFORE).otherwise(0)
        )
        .fill_null(0)
        .cast(pl.UInt16),
    )


def control_text(trace: pl.Series) -> pl.Series:
    """Boolean: the text holds a control token of a common chat format (``CONTROL``)."""
    return trace.str.contains_any(list(CONTROL)).fill_null(False)


def opens(prompt: pl.Series) -> pl.Series:
    """Boolean: the prompt ends in an opening mark, so that the trace begins inside the reasoning."""
    return prompt.str.contains(rf"{OPEN}\s*\z").fill_null(False)


def rendered(prompt: pl.Series) -> pl.Series:
    """Boolean: the prompt ends in a chat template's own assistant header (and perhaps an opening mark): it was rendered already."""
    header = "|".join(
        [
            r"<\|im_start\|>\s*assistant",
            r"<｜Assistant｜>",
            r"<\|start_header_id\|>assistant<\|end_header_id\|>",
            r"\[/INST\]",
            r"<start_of_turn>model",
            r"<\|assistant\|>",
            r"<\|start\|>assistant(?:<\|channel\|>\w+<\|message\|>)?",
        ]
    )
    return prompt.str.contains(rf"(?:{header})\s*(?:{OPEN})?\s*\z").fill_null(False)


def split(trace: pl.Series, *, opened: pl.Series | None = None) -> pl.DataFrame:
    """``reasoning`` and ``answer`` (String): the text before the last closing mark without its opening one, and behind it.

    A trace with no closing mark is all reasoning where it opens with a mark (or ``opened`` says that its prompt does), else all
    answer. White space at the cut is left out.

    >>> split(pl.Series(["<think>a</think> b", "a </think>b", "b"])).rows()
    [('a', 'b'), ('a', 'b'), ('', 'b')]
    """
    before = pl.Series([False]).new_from_index(0, len(trace)) if opened is None else opened
    if len(trace) > 1 and trace.null_count() == len(trace) - 1 and (trace.str.len_bytes()[0] or 0) >= LONG:
        return _split_one(trace, bool(before[0]))
    t = pl.col("t")
    frame = pl.DataFrame({"t": trace, "before": before}).with_columns(
        at=t.str.find_many(list(CLOSING)).list.max(), inside=t.str.contains(rf"^\s*{OPEN}") | pl.col("before")
    )
    raw, closed = t.cast(pl.Binary), pl.col("at").is_not_null()
    # a literal search and two cuts: capture groups over long texts are a hundred times slower
    head = raw.bin.slice(0, pl.col("at")).cast(pl.String)
    tail = raw.bin.slice(pl.col("at")).cast(pl.String).str.replace(rf"\A{CLOSE}", "")
    inner = pl.when(closed).then(head).when("inside").then(t).when(t.is_not_null()).then(pl.lit(""))
    answer = pl.when(closed).then(tail).when("inside").then(pl.lit("")).otherwise(t)
    return frame.select(
        reasoning=inner.str.replace(rf"^\s*{OPEN}", "").str.strip_chars(),
        answer=answer.str.strip_chars(),
    )


def _split_one(trace: pl.Series, before: bool) -> pl.DataFrame:
    """``split`` of a long text with nothing but nulls behind it: cuts by numbers of characters known beforehand copy nothing."""
    at = trace.str.find_many(list(CLOSING)).list.max()[0]
    nothing = trace.str.slice(0, 0)
    if at is not None:
        n = characters(memory(trace, 0)[:at])
        inner, answer = trace.str.slice(0, n), _behind(trace.str.slice(n), rf"\A{CLOSE}")
    elif before or trace.str.contains(rf"^\s*{OPEN}")[0]:
        inner, answer = trace, nothing
    else:
        inner, answer = nothing, trace
    return pl.DataFrame({"reasoning": _stripped(_behind(inner, rf"^\s*{OPEN}")), "answer": _stripped(answer)})


def _behind(text: pl.Series, beginning: str) -> pl.Series:
    return text.str.slice(text.str.extract(beginning, 0).str.len_chars()[0] or 0)


def _stripped(text: pl.Series) -> pl.Series:
    text = _behind(text, r"^\s+")
    return text.str.slice(0, text.str.len_chars()[0] - (text.str.extract(r"\s+\z", 0).str.len_chars()[0] or 0))


def finish(values: pl.Series) -> pl.Series:
    """Boolean of a finish column: ``FINISHED_WORDS`` in any case are true, other values false, null and "" unknown (null).

    Raises:
        CurateError: the column holds lists or records.
    """
    if values.dtype.is_nested():
        raise CurateError(f"The finish column is {values.dtype}, not words. Name one value of it with --finish.")
    if values.dtype == pl.Boolean:
        return values
    word = values.cast(pl.String, strict=False).str.strip_chars().str.to_lowercase()
    return word.to_frame("w").select(pl.when(pl.col("w") != "").then(pl.col("w").is_in(list(FINISHED_WORDS))))["w"]
