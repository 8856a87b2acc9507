"""Rows that trainers take as they are: the prompt's turns and the chosen trace, in one of four shapes.

======================  ==================================================  ====================================================
``messages``            ``messages`` [{role, content}]                      TRL, Axolotl, open-instruct, prime-rl, torchtune;
                                                                            LLaMA-Factory with tags (``trainer_rules.toml``)
``prompt-completion``   ``prompt`` [{role, content}], ``completion``        TRL (loss on the completion only), prime-rl
``sharegpt``            ``conversations`` [{from, value}], human and gpt    LLaMA-Factory, torchtune, Axolotl with mappings
``alpaca``              ``instruction, input, output, system, history``     LLaMA-Factory
======================  ==================================================  ====================================================

Beside them stand ``problem, tokens, passed, difficulty, source``: no trainer reads columns of these names. The reasoning stays
inside the content, because most chat templates ignore a ``reasoning_content`` key. Nothing is cut, and no text is changed.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from curate.errors import CurateError
from curate.rows import as_numpy

Style = Literal["auto", "source", "messages", "prompt-completion", "sharegpt", "alpaca"]
STYLES: Final[tuple[str, ...]] = get_args(Style)
PROMPTED: Final = ("messages", "prompt-completion", "sharegpt", "alpaca")
"""Styles that need a prompt."""

NAMES: Final = (
    *("messages", "prompt", "completion", "conversations", "instruction", "input", "output", "system", "history"),
    *("problem", "tokens", "passed", "difficulty", "source"),
)
"""Columns that rows of these styles may have."""

_TURN: Final = pl.Struct({"role": pl.String(), "content": pl.String()})
_FROM: Final = {"system": "system", "user": "human", "assistant": "gpt"}
_PAIRS: Final = r"^(system )?(user assistant )*user $"
_REASONING: Final = ("reasoning_content", "reasoning", "thinking")


def rows(one: pl.DataFrame, kept: pl.DataFrame, style: Style, *, plain: bool = False) -> pa.Table:
    """Training rows of some kept traces, in their order; the schema is the same for every batch, an empty one too.

    Args:
        one: a row per trace: ``trace`` String, ``prompt`` String?, optionally ``context`` List[Struct{role, content}]?, the turns
            before the trace; where it is null the prompt is one user turn, and none where that is null too.
        kept: the same traces' ``problem``, ``tokens``, ``passed``, ``difficulty`` of the ledger, and ``name``, their source.
        style: one of ``PROMPTED``.
        plain: for ``prompt-completion``: two texts instead of turns, for prompts that a chat template has rendered already.

    Raises:
        CurateError: ``alpaca``, and the turns before a trace are not pairs of question and answer.
    """
    frame = pl.DataFrame(
        {
            "turns": _turns(one),
            "text": one["prompt"],
            "trace": one["trace"],
            **{name: kept[name] for name in ("problem", "tokens", "passed", "difficulty")},
        }
    ).with_columns(source=kept["name"].cast(pl.String))
    if plain:
        shaped = frame.select(prompt=pl.col("text").fill_null(""), completion="trace")
    else:
        shaped = {"messages": _messages, "prompt-completion": _completion, "sharegpt": _sharegpt, "alpaca": _alpaca}[style](frame)
    facts = frame.select(
        pl.col("problem").cast(pl.String),
        pl.col("tokens").cast(pl.Int64),
        pl.col("passed").cast(pl.Boolean),
        pl.col("difficulty").cast(pl.Float64),
        "source",
    )
    table = pl.concat([shaped, facts], how="horizontal").to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema]))


def _plain(dtype: pa.DataType) -> pa.DataType:
    """The type without 64-bit offsets: a batch of rows is far below 2 GiB, and plain types are what every reader knows."""
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_large_list(dtype):
        return pa.list_(_plain(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([(f.name, _plain(f.type)) for f in dtype])
    return dtype


def _turns(one: pl.DataFrame) -> pl.Series:
    """The turns before the trace, as records of role and content."""
    asked = pl.concat_list(pl.struct(role=pl.lit("user"), content=pl.col("prompt"))).cast(pl.List(_TURN))
    prompt = pl.when(pl.col("prompt").is_not_null()).then(asked).otherwise(pl.lit([], dtype=pl.List(_TURN)))
    if "context" not in one.columns:
        return one.select(turns=prompt)["turns"]
    record = pl.struct(role=pl.element().struct.field("role"), content=pl.element().struct.field("content").fill_null(""))
    told = pl.col("context").list.eval(record).cast(pl.List(_TURN))
    return one.select(turns=pl.when(pl.col("context").list.len() > 0).then(told).otherwise(prompt))["turns"]


def _reply() -> pl.Expr:
    return pl.concat_list(pl.struct(role=pl.lit("assistant"), content=pl.col("trace"))).cast(pl.List(_TURN))


def _messages(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(messages=pl.concat_list("turns", _reply()))


def _completion(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(prompt="turns", completion=_reply())


def _sharegpt(frame: pl.DataFrame) -> pl.DataFrame:
    turn = pl.element().struct
    record = pl.struct(turn.field("role").replace(_FROM).alias("from"), turn.field("content").alias("value"))
    every = pl.concat_list("turns", _reply())
    return frame.select(conversations=every.list.eval(record))


def _alpaca(frame: pl.DataFrame) -> pl.DataFrame:
    roles = pl.col("turns").list.eval(pl.element().struct.field("role")).list.join(" ") + " "
    odd = frame.with_row_index("at").filter(~roles.str.contains(_PAIRS))
    if odd.height:
        raise CurateError(
            f"--format alpaca holds questions and answers in turn, and the prompt of problem {odd['problem'][0]} holds "
            f"{odd.select(roles.str.strip_chars())['turns'][0]}. Use --format messages."
        )
    first = pl.col("turns").list.first().struct
    system = pl.when(first.field("role") == "system").then(first.field("content")).otherwise(pl.lit(""))
    said = pl.col("turns").list.eval(pl.element().struct.field("content"))
    talk = pl.when(first.field("role") == "system").then(said.list.slice(1)).otherwise(said)
    pairs = [_pairs(turns) for turns in frame.select(talk=talk)["talk"]]
    return frame.select(
        instruction=talk.list.last(),
        input=pl.lit(""),
        output="trace",
        system=system,
        history=pl.Series(pairs, dtype=pl.List(pl.List(pl.String)), strict=True),
    )


def _pairs(turns: pl.Series) -> list[list[str]]:
    """Earlier questions with their answers; almost always none."""
    said = turns.to_list()
    return [said[i : i + 2] for i in range(0, len(said) - 1, 2)]


def with_trace(column: pa.ChunkedArray | pa.Array, trace: pl.Series) -> tuple[pa.Array, int]:
    """A column of chat turns whose last assistant turn holds the chosen trace, and how many rows that changed.

    ``column``: list of records with role (or from) and content (or value), one per trace. Other fields and turns stay; a
    reasoning field of the changed turn becomes null, since the trace holds the reasoning. Rows without an assistant turn, or
    without a trace, stay as they are.
    """
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    sizes = as_numpy(pc.list_value_length(lists))
    values = lists.flatten()
    names = [f.name for f in values.type]
    role, content = ("role" if "role" in names else "from"), ("content" if "content" in names else "value")
    said = values.field(names.index(content))
    if not (pa.types.is_string(said.type) or pa.types.is_large_string(said.type) or pa.types.is_string_view(said.type)):
        raise CurateError("The turns hold typed parts, which cannot be rewritten in place. Use --format messages.")
    who = pc.utf8_lower(values.field(names.index(role)).cast(pa.string())).to_numpy(zero_copy_only=False)
    last = np.full(len(lists), -1, dtype=np.int64)
    at = np.flatnonzero(np.isin(who, ["assistant", "gpt", "model", "bot", "chatgpt"]))
    last[np.repeat(np.arange(len(lists)), sizes)[at]] = at
    mine = np.flatnonzero((last >= 0) & trace.is_not_null().to_numpy())
    chosen = trace.to_arrow().cast(said.type).take(pa.array(mine))
    changed = int(pc.sum(pc.fill_null(pc.not_equal(said.take(pa.array(last[mine])), chosen), True)).as_py() or 0)
    source = np.arange(len(said))
    source[last[mine]] = len(said) + np.arange(len(mine))
    arrays: list[Any] = [values.field(i) for i in range(len(names))]
    arrays[names.index(content)] = pa.concat_arrays([said, chosen]).take(pa.array(source))
    for name in set(_REASONING) & set(names):
        keep = np.ones(len(said), dtype=bool)
        keep[last[mine]] = False
        field = arrays[names.index(name)]
        arrays[names.index(name)] = pc.if_else(pa.array(keep), field, pa.scalar(None, field.type))
    turns = pa.StructArray.from_arrays(arrays, fields=list(values.type), mask=values.is_null())
    offsets = pa.array(
        np.concatenate([[0], np.cumsum(sizes)]), type=pa.int64() if pa.types.is_large_list(lists.type) else pa.int32()
    )
    made = (pa.LargeListArray if pa.types.is_large_list(lists.type) else pa.ListArray).from_arrays(
        offsets, turns, type=lists.type, mask=lists.is_null()
    )
    return made, changed
