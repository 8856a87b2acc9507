"""Laws of counting: exactness against the reference, additivity, and renders that lose nothing unseen."""

from __future__ import annotations

import functools
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from curate import chat, encoder, estimate, tokens

PIECES = st.sampled_from(
    [
        "<think>", "</think>", "<think>\n", "\n</think>\n\n", "<|im_start|>", "<|im_end|>", "<|endoftext|>",
        "<|im_", "end|>",
        " ", "  ", "\n", "\n\n\n", "\t", "\r\n", "e\u0301", "\u1100\u1161\u11a8", "ﬁ", "١٢", "²", "👩‍👩‍👧",
        "\ufeff", "\x00", "x", "don't",
        "3.14", "12345", "----", "中文", "\u0c5c’s", "\u0345\u1dfa", "\ue0001\ue001", "a" * 70,
    ]
)  # fmt: skip
TEXT = st.lists(PIECES | st.text(max_size=12), max_size=12).map("".join)
SOME = st.none() | TEXT
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TRIMS = CHATML.replace("m.content", "m.content|trim")
SPLITS = """{% for m in messages %}<|im_start|>{{ m.role }}
{% set c = m.content %}{% if m.role == 'assistant' %}{% if '</think>' in c %}
{%- set r = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{{- '<think>\\n' + r.strip('\\n') + '\\n</think>\\n\\n' + c.split('</think>')[-1].lstrip('\\n') }}{% else %}
{{- '<think>\\n\\n</think>\\n\\n' + c }}{% endif %}{% else %}{{ c }}{% endif %}<|im_end|>
{% endfor %}"""


@functools.cache
def engines() -> tuple[encoder.Encoder, Any]:
    """A tokenizer trained here, behind the fast engine, and the reference."""
    import tokenizers

    from tests.test_tokens import byte_level

    folder = byte_level(Path(tempfile.mkdtemp()), [*encoder.PROBES, "Let me think about it again. " * 99])
    notes: list[str] = []
    fast = encoder.Encoder(folder / "tokenizer.json", note=notes.append, small=0)
    fast.lengths(["warm"])
    assert fast.checked and not notes
    return fast, tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


@given(st.lists(TEXT, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_exact_lengths_equal_the_reference_on_any_text(texts: list[str]) -> None:
    fast, true = engines()
    assert fast.lengths(texts).tolist() == [len(true.encode(t, add_special_tokens=False).ids) for t in texts]


@given(st.lists(st.tuples(SOME, SOME), min_size=1, max_size=6), st.sampled_from(["chars", "bytes"]), st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_a_rule_is_the_floor_of_an_exact_fraction(rows: list[tuple[str | None, str | None]], unit: str, tenths: int) -> None:
    divisor = Fraction(tenths, 10)
    got = tokens.rule(f"{unit}/{tenths / 10:.1f}").count(
        pl.DataFrame(rows, schema={"prompt": pl.String, "trace": pl.String}, orient="row")
    )
    for (prompt, trace), n, before in zip(rows, got["tokens"], got["prompt_tokens"], strict=True):
        size = {"chars": len, "bytes": lambda t: len(t.encode())}[unit]
        head = 0 if prompt is None else size(prompt) + 1
        assert before == head // divisor
        if n is None:
            assert trace is None or not trace.strip()
        else:
            assert trace is not None
            assert n == (head + size(trace)) // divisor


@given(st.lists(TEXT, min_size=1, max_size=6), st.sampled_from(["qwen", "deepseek"]))
@settings(max_examples=60, deadline=None)
def test_features_count_each_byte_as_a_plain_loop_does(texts: list[str], vocabulary: str) -> None:
    got = estimate.features(pl.Series(texts), whole=True)
    for text, row in zip(texts, got.tolist(), strict=True):
        raw, at = text.encode(), dict(zip(estimate.FEATURES, row, strict=True))
        letters = [chr(b).isascii() and chr(b).isalpha() for b in raw]
        assert (at["bytes"], at["characters"]) == (len(raw), len(text))
        assert at["digits"] == sum(chr(b) in "0123456789" for b in raw)
        assert at["spaces"] == sum(b in b" \t" for b in raw)
        assert at["words"] == sum(a and not b for a, b in zip(letters, [False, *letters], strict=False))
    model = estimate.model(vocabulary)
    assert np.allclose(model.tokens(pl.Series(texts)), np.maximum(got @ np.array(model.weights), 0), atol=1e-3)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), st.sampled_from([CHATML, TRIMS, SPLITS]))
@settings(max_examples=150, deadline=None)
def test_a_render_by_shape_is_the_render_of_the_template(rows: list[tuple[str, str]], source: str) -> None:
    template = chat.template(source, label="t")
    renderer = chat.Renderer(template)
    for prompt, trace in rows * 4:
        plain = "<think>" not in prompt and "</think>" not in prompt
        made = renderer.sample([("user", prompt)], trace, plain=plain)
        assert made == chat.whole(template, [("user", prompt)], trace)
    assert renderer.verbatim


@given(TEXT, st.sampled_from([CHATML, TRIMS]))
@settings(max_examples=60, deadline=None)
def test_a_template_that_copies_texts_alters_nothing(trace: str, source: str) -> None:
    assert not chat.whole(chat.template(source, label="t"), [("user", "q")], trace).altered


@given(st.text(alphabet="ab \n", min_size=1, max_size=8), st.text(alphabet="ab \n", min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_dropped_reasoning_is_seen_whatever_stands_in_the_prompt(reasoning: str, answer: str) -> None:
    source = CHATML.replace("m.content", "m.content.split('</think>')[-1] if m.role == 'assistant' else m.content")
    made = chat.whole(chat.template(source, label="t"), [("user", reasoning)], f"<think>{reasoning}</think>{answer}")
    assert made.altered is bool(reasoning.strip())
