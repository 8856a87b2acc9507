"""Chat templates: what is rendered, what is lost, and what a hostile one can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from curate import chat
from curate.errors import CurateError

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
CHATML += "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
# Splits at the closing mark, strips line breaks, writes its own marks, as published templates of reasoning models do.
THINKING = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}{% set c = m.content %}{% set r = '' %}{% if '</think>' in c %}
{%- set r = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}
{{- '<think>\\n' + r + '\\n</think>\\n\\n' + c }}{% else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
DROPPING = CHATML.replace("m.content", "m.content.split('</think>')[-1] if m.role == 'assistant' else m.content", 1)

TRACES = [
    "<think>\nfirst\n</think>\n\nanswer",
    "<think>first</think>answer",
    "\n<think>\n first \n</think>\n answer \n",
    "no marks at all",
    "only closed</think>answer",
    "<think>never closed",
    "<think></think>answer",
    "<think>a</think>b<think>c</think>d",
    "<think>quotes </think> inside</think>answer",
    "",
    "  ",
]
TURNS = [[("user", "q")], [("system", "s\n"), ("user", " q ")], [("user", "say <think>")], [("user", "")]]


@pytest.mark.parametrize("source", [CHATML, THINKING, DROPPING])
@pytest.mark.parametrize("turns", TURNS)
def test_a_render_by_shape_is_the_render_of_the_template(source: str, turns: list[chat.Turn]) -> None:
    template = chat.template(source, label="t")
    renderer = chat.Renderer(template)
    for _ in range(4):  # beyond the two renders of each shape that are compared
        for trace in TRACES:
            plain = "<think>" not in turns[-1][1]
            assert renderer.sample(turns, trace, plain=plain).text == template.render([*turns, ("assistant", trace)])
    assert renderer.verbatim


def test_the_prompt_ends_where_the_trace_begins_thinking_included() -> None:
    renderer = chat.Renderer(chat.template(THINKING, label="t"))
    for trace in ("<think>\nfirst\n</think>\n\nanswer", "<think>x<think>y</think>z"):
        made = renderer.sample([("user", "q")], trace)
        assert made.text[: made.start] == "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"


def test_reasoning_that_a_template_drops_is_seen_although_the_tag_survives() -> None:
    # A template that writes its own empty marks: looking for the tag would find it.
    source = CHATML.replace("{{ m.content }}", "{{ '<think></think>' + m.content.split('</think>')[-1] }}")
    renderer = chat.Renderer(chat.template(source, label="t"))
    assert renderer.sample([("user", "q")], "<think>r</think>a").altered
    assert not renderer.sample([("user", "q")], "a").altered


def test_reasoning_that_stands_in_the_prompt_too_is_still_missed() -> None:
    made = chat.whole(chat.template(DROPPING, label="t"), [("user", "say r")], "<think>r</think>a")
    assert made.altered


@pytest.mark.parametrize(
    ("trace", "altered"),
    [("<think>a</think>b<think>c</think>d", True), ("<think>a</think>b", False), ("<think> a\n\n</think>\n\n\nb", False)],
)
def test_a_middle_part_that_is_lost_counts_as_altered_and_blanks_do_not(trace: str, altered: bool) -> None:
    assert chat.whole(chat.template(THINKING, label="t"), [("user", "q")], trace).altered is altered


def test_a_template_that_edits_texts_is_rendered_row_by_row_and_said() -> None:
    source = CHATML.replace("{{ m.content }}", "{{ m.content|replace('e', '3') }}")
    notes: list[str] = []
    template = chat.template(source, label="leet")
    renderer = chat.Renderer(template, note=notes.append)
    assert renderer.tested == ["3", "e"]  # rows that hold one come with plain=False
    assert renderer.sample([("user", "q")], "tree", plain=False).altered
    upper = chat.Renderer(
        chat.template(CHATML.replace("m.content", "(m.content if m.content == m.content.lower() else 'X')"), label="u"),
        note=notes.append,
    )
    assert upper.sample([("user", "Q")], "Tree").text.count("X") == 2
    assert upper.sample([("user", "q")], "tree").text.endswith("assistant\ntree<|im_end|>\n")
    assert not upper.verbatim
    assert len(notes) == 1 and "row by row" in notes[0]


@pytest.mark.parametrize("content", ["m.content|tojson", "m.content[:5]", "m.content|length", "m.content|upper"])
def test_filters_that_look_inside_a_text_switch_shapes_off(content: str) -> None:
    assert not chat.Renderer(chat.template(CHATML.replace("m.content", content), label="t")).verbatim


def test_the_strings_a_template_tests_for_are_found() -> None:
    source = (
        "{% if m.content.startswith('<tool>') and 'zz' in m.content and m.role == 'user' %}{{ 'out' + ' x'.strip(' ') }}{% endif %}"
    )
    assert chat.Renderer(chat.template(source, label="t")).tested == ["<tool>", "zz"]


def test_a_prompt_counts_as_rendered_by_its_beginning_or_the_opening_of_the_answer() -> None:
    template = chat.template(CHATML, label="t")
    opening = chat.opening(template)
    assert opening == "<|im_start|>assistant"
    control = ["<|im_start|>", "<|im_end|>"]
    for prompt, want in {
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n": True,
        "Be brief.\n<|im_start|>assistant\n": True,
        "What does <|im_end|> mean?": False,
        "": False,
    }.items():
        assert chat.rendered_already(prompt, control=control, opening=opening) is want


class TestVerdict:
    def test_a_template_that_keeps_it(self) -> None:
        got = chat.verdict(chat.template(CHATML, label="t"))
        assert (got.keeps_reasoning, got.keeps_earlier, got.adds_empty_marks, got.remedy) == (True, True, False, None)

    def test_a_template_that_deletes_it_names_the_way_out(self) -> None:
        got = chat.verdict(chat.template(DROPPING, label="t"))
        assert (got.keeps_reasoning, got.keeps_earlier) == (False, False)
        assert "probe-reasoning" not in got.sees and "probe-answer" in got.sees
        assert "deletes the reasoning" in got.sentence
        assert got.remedy is not None and "--chat-template FILE" in got.remedy and "--count trace" in got.remedy

    def test_empty_marks_are_pointed_out(self) -> None:
        assert chat.verdict(chat.template(THINKING, label="t")).adds_empty_marks


class TestReading:
    def test_special_tokens_may_be_objects_or_null(self) -> None:
        config = {
            "bos_token": {"content": "<s>"}, "eos_token": None, "add_bos_token": True,
            "chat_template": "{{ bos_token }}{% if eos_token is defined %}!{% endif %}",
        }  # fmt: skip
        template = chat.read(config, None, label="t")
        assert template is not None
        assert template.render([("user", "q")]) == "<s>"

    def test_the_file_beats_the_configuration_and_the_option_beats_both(self, tmp_path: Path) -> None:
        config = {"chat_template": "config"}
        own = tmp_path / "own.jinja"
        own.write_text("own")
        (tmp_path / "config.json").write_text(json.dumps({"chat_template": [{"name": "default", "template": "listed"}]}))
        texts = [
            chat.read(config, None, label="t"),
            chat.read(config, "file", label="t"),
            chat.read(config, "file", label="t", override=own),
            chat.read(config, None, label="t", override=tmp_path / "config.json"),
        ]
        assert [t.source for t in texts if t] == ["config", "file", "own", "listed"]
        assert chat.read({}, None, label="t") is None

    def test_a_named_list_without_a_default_is_no_template(self) -> None:
        assert chat.read({"chat_template": [{"name": "tool_use", "template": "x"}]}, None, label="t") is None

    @pytest.mark.parametrize(("name", "text"), [("gone.jinja", None), ("c.json", "{}"), ("d.json", "[]"), ("e.json", "{")])
    def test_a_bad_file_is_a_sentence(self, tmp_path: Path, name: str, text: str | None) -> None:
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(CurateError, match="--chat-template"):
            chat.read({}, None, label="t", override=tmp_path / name)

    def test_digests_follow_the_source_and_the_special_tokens(self) -> None:
        one = chat.template("x", label="a").sha256
        assert one == chat.template("x", label="b").sha256
        assert one != chat.template("y", label="a").sha256
        assert one != chat.template("x", label="a", specials={"bos_token": "<s>"}).sha256


def test_the_dialect_is_that_of_transformers() -> None:
    source = (
        "{% for m in messages %}\n  {% if loop.first %}{% continue %}{% endif %}\n  {% generation %}{{ m.content|tojson }}"
        "{% endgeneration %}\n{% endfor %}{{ messages|map(attribute='role')|join(',') }}{{ strftime_now('%%') }}"
    )
    got = chat.template(source, label="t").render([("user", "q"), ("assistant", '<é"')])
    assert got == '"<é\\""user,assistant%'


HOSTILE = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "product": "{{ 'a' * 10**10 }}",
    "list": "{% set a = [1] * 10**12 %}",
    "power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "squares": "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "doubling": "{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "tilde": "{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "output": "{% for i in range(90000) %}{{ 'a' * 1000 }}{% endfor %}",
    "replace": "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
    "replace filter": "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
    "join": "{{ ''.join(['a' * 100000] * 100000) }}",
    "join filter": "{{ (['a' * 100000] * 100000)|join }}",
    "padding": "{{ 'a'.ljust(10**10) }}",
    "width": "{{ '%1000000000d' % 1 }}",
    "field": "{{ '{:1000000000}'.format(1) }}",
    "nested field": "{{ '{:{}}'.format(1, 10**9) }}",
    "star": "{{ '%*d'|format(10**9, 1) }}",
    "indent": "{{ messages|tojson(indent=1000000000) }}",
    "indent filter": "{{ 'a'|indent(10**10, first=true) }}",
    "class": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{{ messages.__class__.__base__.__subclasses__() }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/hostname' %}",
    "globals": "{{ raise_exception.__globals__.os }}",
    "names": "{{ lipsum(n=100000) }}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_ends_in_a_sentence(name: str) -> None:
    with pytest.raises(CurateError, match=r"chat template of evil (is not safe to run|fails on a sample)"):
        chat.template(HOSTILE[name], label="evil").render([("user", "a\nb")])


def test_a_template_that_refuses_or_does_not_parse_is_a_sentence_with_its_words() -> None:
    refusing = chat.template("{{ raise_exception('roles must alternate') }}", label="strict")
    with pytest.raises(CurateError, match=r"strict fails on a sample \(roles must alternate\).*--count trace"):
        refusing.render([("user", "q")])
    with pytest.raises(CurateError, match=r"broken does not parse \(line 1"):
        chat.template("{% for %}", label="broken")


def test_a_long_sample_is_within_the_bounds() -> None:
    long = "word " * 400_000
    text = chat.template(THINKING, label="t").render([("user", "q"), ("assistant", f"<think>{long}</think>{long}")])
    assert len(text) > 4_000_000


def test_published_facts_name_ways_out() -> None:
    keeps = {name for name, last, earlier in chat.PUBLISHED if last and earlier}
    assert "open-r1 OpenR1-Distill recipe" in keeps and "TRL training template for Qwen3" in keeps
    assert {name for name, last, _ in chat.PUBLISHED if not last} >= {"QwQ-32B", "DeepSeek-R1-Distill-Qwen"}
