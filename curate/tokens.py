"""Token lengths of traces: what a trainer will see, by a tokenizer, a rule, or a model of it.

Every way to count is a ``Counter``: batches of text in, narrow columns out. Nothing here keeps text or ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

import polars as pl

from curate.errors import UsageError

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
    return text.str.strip_chars().fill_null("") == ""


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
            self._tokens(self._length(part)).alias(f"{part}_tokens")
            for part in ("reasoning", "answer")
            if part in frame.columns
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
        raise UsageError(f"--estimate {text!r} is no rule: give chars/N or bytes/N, N above 0, for example chars/3.6.")
    return RuleCounter(
        unit="chars" if match[1] == "chars" else "bytes", divisor=divisor, by=f"{match[1]}/{match[2]}", kind=kind
    )


def open_counter(
    *,
    tokenizer: str | Path | None = None,
    chat_template: Path | None = None,
    estimate: str | None = None,
    kind: Kind = "sample",
    note: Note | None = None,
) -> Counter:
    """The counter that the options ask for: a tokenizer, else a rule, else the default estimate."""
    return rule(estimate or "chars/3.6", kind=kind)
