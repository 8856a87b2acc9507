"""The string a trainer sees: a tokenizer's chat template, rendered for whole batches, checked to keep the reasoning.

Rendering costs about 50 microseconds a row in jinja2. Most rows of a data set differ in their words only, so the template
runs once for each shape (roles, blanks at the ends of each text, marks) with private-use place holders, and the texts are
put back. That is exact where a template copies texts verbatim and looks at no more than their ends and marks. Rows whose
texts hold any other string that the template tests for are rendered whole, and so are two rows of each shape and every
64th row, to compare: one difference, and the whole template is rendered row by row from then on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jinja2 import nodes

from curate.errors import CurateError
from curate.jinja import Environment, Render, compile_template
from curate.room import Long

Turn = tuple[str, str]
"""(role, content)."""

OPEN: Final = "<think>"
CLOSE: Final = "</think>"
_HOLE: Final = ("\ue000{}\ue001", re.compile("\ue000(\\d+)\ue001"))
_EVERY: Final = 64
MARKS: Final = re.compile(r"</?(?:think|thinking|thought|reasoning)>|<\|(?:begin|end)_of_(?:thought|solution)\|>|\[/?THINK\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """A chat template with the special tokens it may write. ``label`` names it in messages."""

    source: str
    label: str
    specials: Mapping[str, str] = field(default_factory=dict)
    _render: Render = field(repr=False, compare=False)

    @property
    def sha256(self) -> str:
        """Of the source and the special tokens: two templates with one digest render alike."""
        return hashlib.sha256(json.dumps([self.source, dict(self.specials)], sort_keys=True).encode()).hexdigest()

    def render(self, turns: Sequence[Turn], *, generation_prompt: bool = False) -> str:
        """The conversation as text, special tokens written out. Raises ``CurateError`` when the template fails."""
        messages = [{"role": role, "content": content} for role, content in turns]
        variables = {"messages": messages, "add_generation_prompt": generation_prompt, **self.specials}
        return self._render(variables, sum(len(c) for _, c in turns))


def template(source: str, *, label: str, specials: Mapping[str, str] | None = None) -> ChatTemplate:
    """A template from its text; raises ``CurateError`` when it does not parse."""
    return ChatTemplate(source=source, label=label, specials=dict(specials or {}), _render=compile_template(source, label=label))


def read(config: Mapping[str, Any], jinja: str | None, *, label: str, override: Path | None = None) -> ChatTemplate | None:
    """The template of a tokenizer: ``override``, else chat_template.jinja, else the one in tokenizer_config.json.

    ``config`` is the parsed tokenizer_config.json (its special tokens are used in any case). None without a template.
    """
    specials = {k: text for k, v in config.items() if k.endswith("_token") and (text := _token_text(v))}
    if override is not None:
        return template(_from_file(override), label=str(override), specials=specials)
    source = jinja if jinja is not None else _default(config.get("chat_template"))
    return None if source is None else template(source, label=label, specials=specials)


def _token_text(value: Any) -> str | None:
    if isinstance(value, Mapping):  # an AddedToken as JSON
        value = value.get("content")
    return value if isinstance(value, str) else None


def _default(value: Any) -> str | None:
    """Older configurations hold a list of named templates; ``default`` is the one that trainers take."""
    if isinstance(value, list):
        named = {v["name"]: v["template"] for v in value}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _from_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise CurateError(f"--chat-template {path} cannot be read ({fault}). Give a .jinja file.") from fault
    if not text.lstrip().startswith('{"') and path.suffix != ".json":
        return text
    try:
        source = _default(json.loads(text).get("chat_template"))
    except (ValueError, AttributeError, KeyError, TypeError):
        source = None
    if source is None:
        raise CurateError(f"--chat-template {path} is JSON without a chat_template. Give a .jinja file.")
    return source


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """One sample as text. ``start``: where the trace begins (think mark included); ``altered``: parts of it are gone."""

    text: str | Long
    start: int
    altered: bool


class Renderer:
    """Renders samples of one template; remembers shapes. Not for two threads at once: one renderer each."""

    def __init__(self, chat: ChatTemplate, *, note: Callable[[str], None] | None = None) -> None:
        self.chat = chat
        self.tested, self.verbatim = _tested(chat.source)
        self._shapes: dict[Any, list[Any] | None] = {}
        self._seen: dict[Any, int] = {}
        self._note = note
        self._row = 0

    def sample(self, turns: Sequence[Turn], trace: str | Long, *, plain: bool = True) -> Rendered:
        """The sample of the turns before and the trace. ``plain`` false: a text holds a string of ``tested``."""
        if isinstance(trace, Long):
            made = self._long(turns, trace) if plain and self.verbatim else None
            return made or whole(self.chat, turns, str(trace))
        self._row += 1
        if not (plain and self.verbatim):
            return whole(self.chat, turns, trace)
        key, cores = _shape(turns, trace)
        if key is None:
            return whole(self.chat, turns, trace)
        pieces = self._pieces(key, turns, trace)
        if pieces is None:
            return whole(self.chat, turns, trace)
        made = _fill(pieces, cores)
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if seen <= 2 or self._row % _EVERY == 0:
            true = whole(self.chat, turns, trace)
            if true != made:
                self.verbatim = False
                if self._note:
                    self._note(f"The chat template of {self.chat.label} edits texts: rendering row by row, slower.")
                return true
        return made

    def _long(self, turns: Sequence[Turn], trace: Long) -> Rendered | None:
        """The sample of a long trace: that of a short one with the same ends, and the true texts in its holes; None where not verbatim.

        It is the short one that is compared with the template's own render.
        """
        found = _shortened(memoryview(trace.parts[0]))
        if found is None:
            return None
        short, texts = found
        key, cores = _shape(turns, short)
        made = self.sample(turns, short)
        pieces = self._pieces(key, turns, short) if key is not None and self.verbatim else None
        if pieces is None:
            return None
        _, _, *written = pieces
        filled = [core.encode() for core in cores[: len(cores) - len(texts)]] + texts
        parts = [written[0].encode()]
        for core, text in zip(filled, written[1:], strict=True):
            parts += (core, text.encode())
        return Rendered(text=Long(*parts), start=made.start, altered=made.altered)

    def _pieces(self, key: Any, turns: Sequence[Turn], trace: str) -> list[Any] | None:
        if key not in self._shapes:
            if len(self._shapes) > 4096:
                self._shapes.clear()
                self._seen.clear()
            self._shapes[key] = _cut(self.chat, turns, trace)
        return self._shapes[key]


def _ends(text: str) -> tuple[str, str, str]:
    core = text.strip()
    if not core:
        return text, "", ""
    left = len(text) - len(text.lstrip())
    return text[:left], core, text[left + len(core) :]


def _split(trace: str) -> list[str] | None:
    """A trace as [text] or ['<think>' or '', reasoning, answer]; None where marks repeat or stand elsewhere."""
    before, close, after = trace.partition(CLOSE)
    opened = before.startswith(OPEN)
    before = before[len(OPEN) :] if opened else before
    if OPEN in before or CLOSE in after or OPEN in after:
        return None
    if close:
        return [OPEN if opened else "", before, after]
    return None if opened else [trace]


_KEPT: Final = 1 << 14


def _shortened(trace: memoryview) -> tuple[str, list[memoryview | bytes]] | None:
    """A long trace (UTF-8) with the middles of its parts left out, and the parts themselves without the blanks at their ends.

    None where marks repeat or stand elsewhere, as in ``_split``, or where a part's ends are blank for long.
    """
    marks = list(itertools.islice(re.finditer(rb"</?think>", trace), 3))
    words = [bytes(m[0]).decode() for m in marks]
    opened = words[:1] == [OPEN] and marks[0].start() == 0
    if words != [OPEN] * opened + [CLOSE] * bool(marks):
        return None
    start = len(OPEN) if opened else 0
    spans = [(start, marks[-1].start()), (marks[-1].end(), len(trace))] if marks else [(0, len(trace))]
    short: list[str] = []
    texts: list[memoryview | bytes] = []
    for a, b in spans:
        ends = [bytes(trace[a : a + _KEPT]), bytes(trace[b - _KEPT : b])] if b - a > 2 * _KEPT else [bytes(trace[a:b])]
        kept = [e.decode(errors="ignore") for e in ends]  # a character may be cut where the middle is
        if len(kept) == 2 and not (kept[0].strip() and kept[1].strip()):
            return None
        left, core, right = _ends("".join(kept))
        short.append(left + core + right)
        if core:
            texts.append(trace[a + len(left.encode()) : b - len(right.encode())])
    made = OPEN * opened + CLOSE.join(short)
    return (made, texts) if len(re.findall(r"</?think>", made)) == len(marks) else None


def _shape(turns: Sequence[Turn], trace: str) -> tuple[Any, list[str]]:
    parts = _split(trace)
    if parts is None:
        return None, []
    texts = [_ends(c) for _, c in turns] + [_ends(p) for p in parts[-2:]]
    key = (
        tuple(role for role, _ in turns),
        parts[0] if len(parts) == 3 else None,
        tuple((left, right, bool(core)) for left, core, right in texts),
    )
    return key, [core for _, core, _ in texts if core]


def _cut(chat: ChatTemplate, turns: Sequence[Turn], trace: str) -> list[Any] | None:
    """The render of this shape cut at its holes: [start, text, hole, text, hole, ... text]; None where not verbatim."""
    n = 0

    def hollow(text: str) -> str:
        nonlocal n
        left, core, right = _ends(text)
        if not core:
            return text
        n += 1
        return left + _HOLE[0].format(n - 1) + right

    asked = [(role, hollow(content)) for role, content in turns]
    before = n
    head = _HOLE[1].split(chat.render([*asked, ("assistant", _standard(trace, n))]))
    parts = _split(trace) or []
    made = parts[0] + hollow(parts[1]) + CLOSE + hollow(parts[2]) if len(parts) == 3 else hollow(parts[0])
    pieces = _HOLE[1].split(chat.render([*asked, ("assistant", made)]))
    numbers = list(map(str, range(n)))
    if n == before or pieces[1::2] != numbers or head[1::2] != numbers[: before + 1]:
        return None
    opened = _unopened(head[2 * before])
    if head[: 2 * before : 2] != pieces[: 2 * before : 2] or not pieces[2 * before].startswith(opened):
        return None
    return [before, len(opened), *pieces[::2]]


def _standard(trace: str, hole: int) -> str:
    """A short assistant turn with the marks of ``trace``: what stands before it is what stands before the trace."""
    text = _HOLE[0].format(hole)
    return f"{OPEN}\n{text}\n{CLOSE}\n\nx" if CLOSE in trace else text


def _unopened(head: str) -> str:
    """``head`` without an opening mark at its end (the mark is the trace's) and the blanks behind it."""
    return head[: -len(m[0])] + m[1] if (m := re.search(r"(\s*)<think>\s*\Z", head)) else head


def _fill(pieces: list[Any], cores: list[str]) -> Rendered:
    before, offset, *texts = pieces
    start = offset + sum(map(len, texts[:before])) + sum(map(len, cores[:before]))
    out = [texts[0]]
    for core, text in zip(cores, texts[1:], strict=True):
        out += (core, text)
    return Rendered(text="".join(out), start=start, altered=False)


def whole(chat: ChatTemplate, turns: Sequence[Turn], trace: str) -> Rendered:
    """The sample rendered by the template itself, and whether the trace is still in it, part for part."""
    text = chat.render([*turns, ("assistant", trace)])
    head, found, _ = chat.render([*turns, ("assistant", _standard(trace, 0))]).partition(_HOLE[0].format(0))
    head = _unopened(head) if found else ""
    if not text.startswith(head) or not found:
        # The template drops the reasoning, or changes with it: the prompt as it stands before a generation.
        head = chat.render(turns, generation_prompt=True) if turns else ""
        head = _common(_unopened(head), text)
    dropped = not found and bool(MARKS.sub("", trace.partition(CLOSE)[0]).strip())
    return Rendered(text=text, start=len(head), altered=dropped or not holds(text[len(head) :], trace))


def _common(a: str, b: str) -> str:
    """The longest text that both begin with."""
    n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:n]


def holds(text: str, trace: str) -> bool:
    """True if every part of ``trace`` between think marks stands in ``text``, in order; blanks at their ends may differ.

    It is the text that is compared, not the marks: a template may write its own.
    """
    at = 0
    for part in MARKS.split(trace):
        core = part.strip()
        if core:
            found = text.find(core, at)
            if found < 0:
                return False
            at = found + len(core)
    return True


def opening(chat: ChatTemplate) -> str:
    """What the template writes between a user's turn and the assistant's text, blanks stripped; may be empty."""
    turns = [("user", "x")]
    try:
        asked, answering = chat.render(turns), chat.render(turns, generation_prompt=True)
    except CurateError:
        return ""
    return answering.removeprefix(asked).strip().removesuffix(OPEN).strip() if answering.startswith(asked) else ""


def rendered_already(prompt: str, *, control: Sequence[str], opening: str) -> bool:
    """True for a prompt that a template has already turned into text.

    It begins with a control token that the template writes, or holds the opening of the assistant's turn. A prompt that
    only speaks of a control token in its middle is plain text.
    """
    text = prompt.lstrip()
    return text.startswith(tuple(control)) or (any(c in opening for c in control) and opening in text)


def _tested(source: str) -> tuple[list[str], bool]:
    """The strings that a template may look for inside a text, and whether it may copy texts verbatim at all.

    A string constant counts unless it is only written out, compared with a role, or a set of blanks to strip. A filter
    or slice on a content (its length, its JSON, its first line) makes the second answer false.
    """
    tree = Environment().parse(source)
    verbatim = not any(_reads_inside(n) for n in tree.find_all((nodes.Filter, nodes.Getitem)))
    found: set[str] = set()
    for node in tree.find_all((nodes.Compare, nodes.Call, nodes.Test, nodes.Filter)):
        operands = _operands(node)
        found |= {c.value for c in operands if isinstance(c, nodes.Const) and isinstance(c.value, str) and c.value}
    keys = {"tool_calls", "reasoning_content", OPEN, CLOSE}
    return sorted(found - keys), verbatim


def _operands(node: nodes.Node) -> list[nodes.Node]:
    """What a comparison, call, test or filter holds a text against; nothing where it is a role, or blanks to strip."""
    if isinstance(node, nodes.Compare):
        return [] if _is_role(node.expr) else [node.expr, *(o.expr for o in node.ops)]
    if isinstance(node, nodes.Call):
        name = node.node.attr if isinstance(node.node, nodes.Getattr) else ""
        blanks = all(isinstance(a, nodes.Const) and not str(a.value).strip() for a in node.args)
        return [] if (name.endswith("strip") and blanks) or not name else list(node.args)
    assert isinstance(node, nodes.Test | nodes.Filter)
    return list(node.args) if isinstance(node, nodes.Test) or node.name == "replace" else []


def _is_role(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Getattr):
        return node.attr == "role"
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == "role"


def _reads_inside(node: nodes.Node) -> bool:
    """A filter or slice that looks into a content, other than one that trims it or passes it on."""
    if isinstance(node, nodes.Filter):
        if node.name in ("trim", "string", "safe", "default", "d"):
            return False
        subject = node.node
    else:
        assert isinstance(node, nodes.Getitem)
        if not isinstance(node.arg, nodes.Slice):
            return False
        subject = node.node
    if subject is None:
        return True
    names = [n.name for n in subject.find_all(nodes.Name)] + [n.attr for n in subject.find_all(nodes.Getattr)]
    names += [str(c.value) for c in subject.find_all(nodes.Const)]
    names += [getattr(subject, "name", ""), getattr(subject, "attr", "")]
    return any("content" in n or "reasoning" in n for n in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a template does to reasoning in ``<think>`` marks, found by rendering a probe."""

    keeps_reasoning: bool
    """The last assistant turn, alone in its conversation, still holds its reasoning: what a sample of this tool is."""
    keeps_earlier: bool
    """So does an assistant turn that is followed by others."""
    adds_empty_marks: bool
    """A turn without reasoning gets an empty pair of marks, which a trainer then learns."""
    sees: str
    """The assistant's turn of the probe as a trainer sees it."""
    sentence: str
    remedy: str | None


REMEDY: Final = (
    "--chat-template FILE with a training template that keeps it (open-r1's OpenR1-Distill recipe, TRL's Qwen3 training "
    "template), or --count trace"
)

_PROBE: Final = ("user", "probe-question"), ("assistant", "<think>\nprobe-reasoning\n</think>\n\nprobe-answer")


def verdict(chat: ChatTemplate) -> Verdict:
    """Render a probe and say what is left of it. Raises ``CurateError`` when the template refuses a plain conversation."""
    asked, answered = _PROBE
    text = chat.render([asked, answered])
    sees = text.partition(asked[1])[2].strip()
    keeps = "probe-reasoning" in text
    last = chat.render([asked, answered, ("user", "second"), ("assistant", "short")])
    bare = chat.render([asked, ("assistant", "probe-answer")])
    if keeps and "probe-answer" in text:
        sentence, remedy = "This chat template keeps the reasoning.", None
    elif not keeps:
        sentence, remedy = "This chat template deletes the reasoning: a trainer would see answers only.", REMEDY
    else:
        sentence, remedy = "This chat template deletes the answer behind the reasoning.", REMEDY
    return Verdict(
        keeps_reasoning=keeps,
        keeps_earlier="probe-reasoning" in last,
        adds_empty_marks=re.search(r"<think>\s*</think>", bare) is not None,
        sees=sees,
        sentence=sentence,
        remedy=remedy,
    )


PUBLISHED: Final[tuple[tuple[str, bool, bool], ...]] = (
    ("open-r1 OpenR1-Distill recipe", True, True),
    ("open-r1 edited DeepSeek template", True, True),
    ("TRL training template for Qwen3", True, True),
    ("TRL training template for Qwen3.5", True, True),
    ("TRL training template for Qwen3.6", True, True),
    ("Qwen2.5", True, True),
    ("Qwen3-Instruct-2507", True, True),
    ("gpt-oss (reads a key `thinking`, not marks)", True, True),
    ("Qwen3", True, False),
    ("Qwen3.5", True, False),
    ("Qwen3.6", True, False),
    ("GLM-4-MoE", True, False),
    ("Nemotron-3", True, False),
    ("LFM2.5", True, False),
    ("DeepSeek-V3 (as bundled in TRL)", False, False),
    ("DeepSeek-R1-Distill-Qwen", False, False),
    ("QwQ-32B", False, False),
)
"""Published chat templates: (name, keeps the last turn's reasoning, keeps it in earlier turns too).

Each was rendered with the jinja2 environment of transformers 5.24.0; the TRL ones are those bundled with TRL.
"""
