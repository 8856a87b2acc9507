"""Chat turns: which of them is the trace, and what stands before it."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from curate import thinking

ASSISTANT: Final = ("assistant", "gpt", "model", "bot", "chatgpt")
ROLES: Final = {"human": "user", **dict.fromkeys(ASSISTANT, "assistant")}
TURN_REASONING: Final = ("reasoning_content", "reasoning", "thinking")


def is_turns(dtype: pl.DataType | None) -> bool:
    """Whether a type is a list of chat turns: records with role or from, and content or value."""
    if not isinstance(dtype, pl.List) or not isinstance(dtype.inner, pl.Struct):
        return False
    names = {f.name for f in dtype.inner.fields}
    return bool(names & {"role", "from"}) and bool(names & {"content", "value"})


def turns(messages: pl.Series, *, keep_question: bool = False) -> tuple[pl.Series, pl.Series]:
    """The last assistant turn's content, and the turns before it as records of role and content.

    A turn's own reasoning field and typed content parts are put into the content (``<think>``). Rows with no assistant turn have a
    null trace. With ``keep_question`` all turns are context where the last one is not the assistant's.
    """
    names = [f.name for f in messages.dtype.inner.fields]  # type: ignore[attr-defined]
    role, content = "role" if "role" in names else "from", "content" if "content" in names else "value"
    sizes = messages.list.len().fill_null(0)
    flat = messages.filter(sizes > 0).explode(empty_as_null=False)
    who = flat.struct.field(role).cast(pl.String).str.strip_chars().str.to_lowercase()
    said = flat.struct.field(content)
    said = said.cast(pl.String, strict=False) if not said.dtype.is_nested() else parts(said)
    for name in TURN_REASONING:
        if name in names and flat.struct.field(name).dtype == pl.String:
            pair = pl.DataFrame({"r": flat.struct.field(name), "a": said})
            said = pair.select(t=thinking.compose(pl.col("r"), pl.col("a")))["t"]
    each = pl.DataFrame(
        {
            "row": pl.int_range(len(messages), dtype=pl.UInt32, eager=True)
            .repeat_by(sizes)
            .filter(sizes > 0)
            .explode(empty_as_null=False),
            "role": who.replace(ROLES),
            "content": said,
        }
    ).with_columns(at=pl.int_range(pl.len(), dtype=pl.UInt32).over("row"))
    last = each.filter(pl.col("role") == "assistant").group_by("row").agg(last=pl.col("at").max())
    each = each.join(last, on="row", how="left", maintain_order="left")
    every = pl.DataFrame({"row": pl.int_range(len(messages), dtype=pl.UInt32, eager=True)})
    text = every.join(each.filter(pl.col("at") == pl.col("last")), on="row", how="left", maintain_order="left")["content"]
    asked = pl.col("at").max().over("row") > pl.col("last") if keep_question else pl.lit(False)
    keep = each.filter(pl.col("last").is_null() | (pl.col("at") < pl.col("last")) | asked)
    context = keep.group_by("row", maintain_order=True).agg(context=pl.struct("role", "content"))
    joined = every.join(context, on="row", how="left", maintain_order="left")["context"]
    return text.alias("trace"), joined.alias("context")


def joined(context: pl.Series) -> pl.Series:
    return context.list.eval(pl.element().struct.field("content").fill_null("")).list.join("\n").alias("prompt")


def parts(content: pl.Series) -> pl.Series:
    """Typed parts as one text (see ``thinking.parts_text``). Rare, so row by row."""

    def text(given: Any) -> str | None:
        if given is None or isinstance(given, str):
            return given
        return thinking.parts_text([given] if isinstance(given, dict) else list(given))

    return pl.Series(content.name, [text(p) for p in content.to_list()], dtype=pl.String)


def instructed(system: pl.Series, before: list[pl.Series]) -> list[pl.Series]:
    """A system column's text as the first turn before the trace; a blank one is none."""
    turn = pl.Struct({"role": pl.String(), "content": pl.String()})
    frame = pl.DataFrame([system.cast(pl.String).alias("system"), *before])
    asked = pl.concat_list(pl.struct(role=pl.lit("user"), content=pl.col("prompt"))).cast(pl.List(turn))
    context = pl.col("context") if "context" in frame.columns else pl.lit(None, dtype=pl.List(turn))
    told = pl.coalesce(context, pl.when(pl.col("prompt").is_not_null()).then(asked))
    first = pl.concat_list(pl.struct(role=pl.lit("system"), content=pl.col("system"))).cast(pl.List(turn))
    has = pl.col("system").str.contains(r"\S").fill_null(False)
    made = frame.select(
        context=pl.when(has).then(pl.concat_list(first, pl.coalesce(told, pl.lit([], dtype=pl.List(turn))))).otherwise(told)
    )["context"]
    return [joined(made), made]
