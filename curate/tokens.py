"""Token lengths of traces: what a trainer will see, by a tokenizer, a rule, or a model of it.

Every way to count is a ``Counter``: batches of text in, narrow columns out. Nothing here keeps text or ids.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
import polars as pl

from curate import cache, chat, room
from curate.encoder import Encoder, find_tokenizer
from curate.errors import CurateError, UsageError
from curate.estimate import DEFAULT, FEATURES, Model, model
from curate.room import Long

Kind = Literal["sample", "trace"]
Note = Callable[[str], None]

RENDER_ALTERED: Final = 1
"""``render``: the chat template dropped or altered the reasoning (or another part of the trace)."""
RENDER_CONTROL: Final = 2
"""``render``: the text holds a control token's text (think marks are not meant)."""


@runtime_checkable
class Counter(Protocol):
    """One way to count. ``low`` and ``high``: factors of an estimate's 95 % range, 1.0 where lengths are exact.

    ``by`` names the way for people and files; ``key`` is its identity: equal keys give equal lengths of equal text, so
    a cache may be keyed by it. ``checked``: an engine has been compared with the reference (or needs no check).
    """

    @property
    def basis(self) -> Literal["exact", "estimate", "column"]: ...
    @property
    def by(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def checked(self) -> bool: ...

    def count(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Lengths of a batch, one row per trace, in its order.

        ``frame``: ``trace`` String?, ``prompt`` String? (contents of the turns before, joined by a line break; null
        without a prompt), optionally ``context`` List[Struct{role, content}]? (those turns), ``reasoning`` and
        ``answer`` String?.
        Returns ``tokens`` UInt32? (null where the trace is null or blank), ``prompt_tokens`` UInt32 (0 with kind
        ``trace``), ``render`` UInt8 (bits RENDER_*), and where they apply ``tokens_low``, ``tokens_high``,
        ``reasoning_tokens``, ``answer_tokens`` UInt32?.
        """
        ...


def blank(text: pl.Expr) -> pl.Expr:
    """True where there is no text: null, empty or white space only."""
    return ~text.str.contains(r"\S").fill_null(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCounter:
    """Characters or bytes divided by a constant, rounded down: an old rule, taken at its word."""

    unit: Literal["chars", "bytes"]
    divisor: Fraction
    by: str
    kind: Kind = "sample"
    basis: Literal["exact", "estimate", "column"] = "estimate"
    low: float = 1.0
    high: float = 1.0
    checked: bool = True

    @property
    def key(self) -> str:
        return f"rule {self.unit}/{self.divisor} {self.kind}"

    def _length(self, column: str) -> pl.Expr:
        text = pl.col(column).str
        # UInt32 by default: 4e9 / 10 characters would wrap in the product below.
        return (text.len_chars() if self.unit == "chars" else text.len_bytes()).cast(pl.Int64)

    def _tokens(self, length: pl.Expr) -> pl.Expr:
        # n / 3.6 in floating point puts 18 characters at 4 tokens; n * 10 // 36 is exact.
        return (length * self.divisor.denominator // self.divisor.numerator).cast(pl.UInt32)

    def count(self, frame: pl.DataFrame) -> pl.DataFrame:
        """See ``Counter.count``. The sample is the contents joined by line breaks, then one division."""
        if self.kind == "sample" and "prompt" in frame.columns:
            before = (self._length("prompt") + 1).fill_null(0)
        else:
            before = pl.lit(0, dtype=pl.Int64)
        columns = [
            pl.when(~blank(pl.col("trace"))).then(self._tokens(before + self._length("trace"))).alias("tokens"),
            self._tokens(before).alias("prompt_tokens"),
            pl.lit(0, dtype=pl.UInt8).alias("render"),
        ]
        columns += [
            self._tokens(self._length(part)).alias(f"{part}_tokens") for part in ("reasoning", "answer") if part in frame.columns
        ]
        # with_columns, not select: literals must get the frame's height, also when it is zero.
        names = [c.meta.output_name() for c in columns]
        return frame.with_columns(columns).select(names)


_RULE: Final = re.compile(r"(chars|bytes)/(\d+(?:\.\d+)?|\.\d+)")


def rule(text: str, *, kind: Kind = "sample") -> RuleCounter:
    """The counter of a rule such as ``chars/3.6`` or ``bytes/4``; raises ``UsageError`` for anything else."""
    match = _RULE.fullmatch(text.strip())
    divisor = Fraction(match[2]) if match else Fraction(0)
    if match is None or divisor <= 0:
        raise UsageError(
            f"--estimate {text!r} is no rule: give chars/N or bytes/N, N above 0, for example chars/3.6, "
            "or the name of a vocabulary (qwen, deepseek)."
        )
    return RuleCounter(unit="chars" if match[1] == "chars" else "bytes", divisor=divisor, by=f"{match[1]}/{match[2]}", kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateCounter:
    """Lengths by the model of a vocabulary, with the 95 % range of a source's bias beside each."""

    model: Model
    kind: Kind = "sample"
    basis: Literal["exact", "estimate", "column"] = "estimate"
    checked: bool = False

    @property
    def by(self) -> str:
        return f"a model of {self.model.label} tokens"

    @property
    def key(self) -> str:
        return f"estimate {self.model.vocabulary} {self.model.digest} {self.kind}"

    @property
    def low(self) -> float:
        return self.model.low

    @property
    def high(self) -> float:
        return self.model.high

    def count(self, frame: pl.DataFrame) -> pl.DataFrame:
        """See ``Counter.count``. The sample is the contents joined by line breaks; the model adds up."""
        length = self.model.tokens(frame["trace"])
        before = np.zeros(frame.height)
        if self.kind == "sample" and "prompt" in frame.columns:
            prompt = frame["prompt"]
            before = np.where(prompt.is_not_null().to_numpy(), self.model.tokens(prompt) + self.model.weights[_NEWLINE], 0.0)
        present = frame.select(~blank(pl.col("trace"))).to_series()
        # Text that is there is one token at least.
        total = np.maximum(np.rint(length), 1) + np.rint(before)
        made = {
            "tokens": total,
            "prompt_tokens": np.rint(before),
            "tokens_low": np.floor(total * self.low),
            "tokens_high": np.ceil(total * self.high),
        }
        counts = pl.DataFrame({name: values.astype(np.uint32) for name, values in made.items()})
        counts = counts.with_columns(pl.when(present).then(pl.col(c)).alias(c) for c in ("tokens", "tokens_low", "tokens_high"))
        parts = [
            pl.Series(f"{p}_tokens", np.rint(self.model.tokens(frame[p])).astype(np.uint32)).set(frame[p].is_null(), None)
            for p in ("reasoning", "answer")
            if p in frame.columns
        ]
        return counts.with_columns(pl.lit(0, dtype=pl.UInt8).alias("render"), *parts)


_NEWLINE: Final = FEATURES.index("newlines")


class ExactCounter:
    """Lengths by a tokenizer; whole samples through its chat template.

    ``control`` are the tokenizer's control tokens; rows whose trace holds one as text are flagged.
    """

    basis: Literal["exact", "estimate", "column"] = "exact"
    low = high = 1.0

    def __init__(
        self,
        encoder: Encoder,
        *,
        name: str,
        kind: Kind = "sample",
        template: chat.ChatTemplate | None = None,
        total: int | None = None,
        note: Note | None = None,
    ) -> None:
        self.encoder, self.kind, self.template, self.name = encoder, kind, template, name
        self._total, self._note = total, note
        self._control = [t for t in encoder.control_tokens() if not chat.MARKS.fullmatch(t)]
        self._local = threading.local()
        self._opening = chat.opening(template) if template is not None and kind == "sample" else ""
        written = "" if template is None else template.source + "".join(template.specials.values())
        self._template_control = [t for t in self._control if t in written]

    @property
    def by(self) -> str:
        how = "the trace alone" if self.kind == "trace" else "chat template" if self.template else "no chat template"
        return f"{self.name} sha256:{self.encoder.sha256[:8]}, {how}"

    @property
    def key(self) -> str:
        template = self.template.sha256 if self.template is not None and self.kind == "sample" else "none"
        return f"exact {_RULES} {self.encoder.sha256} {template} {self.kind}"

    @property
    def checked(self) -> bool:
        return self.encoder.checked

    @property
    def engine(self) -> str:
        """The engine that counts, for a file's metadata: lengths do not depend on it."""
        return self.encoder.engine

    def count(self, frame: pl.DataFrame) -> pl.DataFrame:
        """See ``Counter.count``. Raises ``CurateError`` for messages without a template, or a template that fails."""
        present = frame.select(~blank(pl.col("trace"))).to_series().to_numpy()
        texts, starts, altered = self._texts(frame, present)
        tokens = np.zeros(frame.height, np.uint32)
        tokens[present] = self.encoder.lengths(texts, total=self._total)
        before = np.zeros(frame.height, np.uint32)
        before[present] = self._prefixes(texts, starts)
        render = np.zeros(frame.height, np.uint8)
        render[present] = altered * RENDER_ALTERED
        render |= holds_any(frame["trace"], self._control).to_numpy() * np.uint8(RENDER_CONTROL)
        out = pl.DataFrame({"tokens": tokens, "prompt_tokens": before, "render": render})
        out = out.with_columns(pl.when(pl.Series(present)).then("tokens").alias("tokens"))
        parts = [self._part(frame[p], f"{p}_tokens") for p in ("reasoning", "answer") if p in frame.columns]
        return out.with_columns(parts)

    def _part(self, texts: pl.Series, name: str) -> pl.Series:
        counts = self.encoder.lengths([t or "" for t in room.texts(texts)], total=self._total)
        return pl.select(pl.when(texts.is_not_null()).then(pl.Series(counts)).alias(name)).to_series()

    def _prefixes(self, texts: list[str | Long], starts: list[int]) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Tokens before the trace; traces of one problem share the text, so each is counted once."""
        if not any(starts):
            return np.zeros(len(texts), np.uint32)
        where: dict[str, int] = {}
        heads = (t.head(s) if isinstance(t, Long) else t[:s] for t, s in zip(texts, starts, strict=True))
        index = [where.setdefault(head, len(where)) for head in heads]
        counts = self.encoder.lengths(list(where), total=self._total)
        return counts[np.array(index, np.int64)] if index else counts

    def _texts(
        self, frame: pl.DataFrame, present: np.ndarray[Any, np.dtype[np.bool_]]
    ) -> tuple[list[str | Long], list[int], np.ndarray[Any, np.dtype[np.uint8]]]:
        """The string of each present row, where its trace begins, and 1 where the template altered it."""
        traces = [t for t, there in zip(room.texts(frame["trace"]), present, strict=True) if there and t is not None]
        zero = np.zeros(len(traces), np.uint8)
        rows = frame.drop("trace").filter(pl.Series(present))
        turns = None if self.kind == "trace" else _turns(rows)
        if turns is None:
            return traces, [0] * len(traces), zero
        if self.template is None:
            if "context" in rows.columns and rows["context"].null_count() < rows.height:
                raise no_template(self.name)
            return self._joined(rows["prompt"].to_list(), traces)
        plain = self._plain(rows, holds_any(frame["trace"], self._renderer().tested).filter(pl.Series(present)))
        starts = [0] * len(traces)
        for i, (before, verbatim) in enumerate(zip(turns, plain, strict=True)):
            made = self._sample(before, traces[i], plain=verbatim)
            traces[i], starts[i], zero[i] = made.text, made.start, made.altered
        return traces, starts, zero

    def _joined(
        self, prompts: list[str | None], traces: list[str | Long]
    ) -> tuple[list[str | Long], list[int], np.ndarray[Any, np.dtype[np.uint8]]]:
        texts = [t if p is None else _behind(f"{p}\n", t) for p, t in zip(prompts, traces, strict=True)]
        return texts, [0 if p is None else len(p) + 1 for p in prompts], np.zeros(len(texts), np.uint8)

    def _sample(self, turns: list[chat.Turn] | None, trace: str | Long, *, plain: bool) -> chat.Rendered:
        if turns is None:
            return chat.Rendered(text=trace, start=0, altered=False)
        if len(turns) == 1 and turns[0][0] == "user":
            prompt = turns[0][1]
            if chat.rendered_already(prompt, control=self._template_control, opening=self._opening):
                return chat.Rendered(text=_behind(prompt, trace), start=len(prompt), altered=False)
        return self._renderer().sample(turns, trace, plain=plain)

    def _renderer(self) -> chat.Renderer:
        if not hasattr(self._local, "renderer"):
            assert self.template is not None
            self._local.renderer = chat.Renderer(self.template, note=self._note)
        renderer: chat.Renderer = self._local.renderer
        return renderer

    def _plain(self, rows: pl.DataFrame, odd: pl.Series) -> list[bool]:
        """False for a row whose trace (``odd``) or prompt holds a string which the template tests for: it is rendered whole."""
        tested = self._renderer().tested
        before = pl.Series([None] * rows.height, dtype=pl.String)
        if "context" in rows.columns:
            before = rows.select(
                pl.col("context").list.eval(pl.element().struct.field("content").fill_null("")).list.join("\n")
            ).to_series()
        elif "prompt" in rows.columns:
            before = rows["prompt"]
        return (~(odd | holds_any(before, [*tested, chat.OPEN, chat.CLOSE]))).to_list()


def _behind(before: str, text: str | Long) -> str | Long:
    return Long(before.encode(), *text.parts) if isinstance(text, Long) else before + text


_RULES: Final = 1
"""Raised when the string that is counted changes: cached lengths of older rules are then not believed."""


def no_template(name: str) -> CurateError:
    """The error of whole samples asked for where the tokenizer has no chat template."""
    return CurateError(
        f"{name} has no chat template, so whole samples cannot be counted: "
        "count the trace alone with --count trace, or give a template with --chat-template FILE."
    )


def holds_any(texts: pl.Series, strings: list[str]) -> pl.Series:
    """True where a text holds one of ``strings``; false for null. One search, led by the strings' common beginnings."""
    if not strings:
        return pl.select(pl.repeat(False, len(texts), dtype=pl.Boolean)).to_series()
    if len(strings) == 1:
        return texts.str.contains(strings[0], literal=True).fill_null(False)
    groups: dict[str, list[str]] = {}
    for s in sorted(strings):
        groups.setdefault(s[:2], []).append(re.escape(s[2:]))
    pattern = "|".join(f"{re.escape(head)}(?:{'|'.join(tails)})" for head, tails in groups.items())
    return texts.str.contains(pattern).fill_null(False)


def _turns(rows: pl.DataFrame) -> list[list[chat.Turn] | None] | None:
    """The turns before each trace: the source's own, else the prompt as a user's; None without any."""
    if "context" in rows.columns and rows["context"].null_count() < rows.height:
        return [None if c is None else [(t["role"] or "", t["content"] or "") for t in c] for c in rows["context"].to_list()]
    if "prompt" not in rows.columns or rows["prompt"].null_count() == rows.height:
        return None
    return [None if p is None else [("user", p)] for p in rows["prompt"].to_list()]


def open_exact(
    tokenizer: str | Path,
    *,
    chat_template: Path | None = None,
    kind: Kind = "sample",
    messages: bool = False,
    total: int | None = None,
    cached: bool = True,
    note: Note | None = None,
) -> ExactCounter:
    """The counter of a tokenizer. ``messages``: the data are messages, which need a chat template to be counted whole.

    ``total``: bytes of text to come, where known (small inputs skip the fast engine). ``cached``: remember in the cache
    folder that the engine has been compared with the reference for this tokenizer.
    """
    files = find_tokenizer(tokenizer)
    template = None
    if kind == "sample":
        template = chat.read(files.config, files.jinja, label=files.name, override=chat_template)
        if template is None and messages:
            raise no_template(files.name)
    encoder = Encoder(
        files.tokenizer,
        note=note,
        seen=(lambda k: cache.lookup(f"gate {k}") is not None) if cached else None,
        remember=(lambda k: _remember(f"gate {k}")) if cached else None,
    )
    return ExactCounter(encoder, name=files.name, kind=kind, template=template, total=total, note=note)


def _remember(key: str) -> None:
    cache.store(key, pl.DataFrame({"agreed": [True]}))


def open_counter(
    *,
    tokenizer: str | Path | None = None,
    chat_template: Path | None = None,
    estimate: str | None = None,
    kind: Kind = "sample",
    messages: bool = False,
    total: int | None = None,
    cached: bool = True,
    note: Note | None = None,
) -> Counter:
    """The counter that the options ask for: a tokenizer, else a rule, else the default estimate. See ``open_exact``."""
    if tokenizer is not None:
        return open_exact(
            tokenizer,
            chat_template=chat_template,
            kind=kind,
            messages=messages,
            total=total,
            cached=cached,
            note=note,
        )
    if chat_template is not None:
        raise UsageError("--chat-template needs --tokenizer: a template's tokens are counted by a tokenizer.")
    if estimate is None or re.fullmatch(r"\w+", estimate):
        return EstimateCounter(model=model(estimate or DEFAULT), kind=kind)
    return rule(estimate, kind=kind)
