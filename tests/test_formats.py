"""Every format holds the same texts, loads through ``datasets``, and renders to the counted length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate import formats
from curate.errors import CurateError

THOUGHT = "<think>\nTwo and two.\n</think>\n\nIt is 4."
ONE = pl.DataFrame(
    {
        "trace": [THOUGHT, "six", "lone"],
        "prompt": ["What is 2 + 2?", "Be brief.\n1 + 1?\n2\n3 + 3?", None],
        "context": [
            None,
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "1 + 1?"},
                {"role": "assistant", "content": "2"},
                {"role": "user", "content": "3 + 3?"},
            ],
            None,
        ],
    }
)
KEPT = pl.DataFrame(
    {
        "problem": ["a", "b", "c"],
        "tokens": pl.Series([19, 25, 4], dtype=pl.UInt32),
        "passed": [True, None, False],
        "difficulty": [None, 1800.0, None],
        "name": ["set", "set", "set"],
    }
)
FACTS = {"problem", "tokens", "passed", "difficulty", "source"}
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def rows(style: formats.Style, n: int = 3) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = formats.rows(ONE[:n], KEPT[:n], style).to_pylist()
    return made


def test_messages_are_the_turns_before_and_the_chosen_trace() -> None:
    made = rows("messages")
    assert made[0] == {
        "messages": [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": THOUGHT}],
        "problem": "a",
        "tokens": 19,
        "passed": True,
        "difficulty": None,
        "source": "set",
    }
    assert [t["role"] for t in made[1]["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert made[1]["messages"][-1]["content"] == "six"
    assert made[2]["messages"] == [{"role": "assistant", "content": "lone"}]


def test_prompt_completion_splits_before_the_trace() -> None:
    made = rows("prompt-completion")
    assert made[0]["prompt"] == [{"role": "user", "content": "What is 2 + 2?"}]
    assert made[0]["completion"] == [{"role": "assistant", "content": THOUGHT}]
    assert len(made[1]["prompt"]) == 4


def test_sharegpt_says_human_and_gpt() -> None:
    turns = rows("sharegpt")[1]["conversations"]
    assert [t["from"] for t in turns] == ["system", "human", "gpt", "human", "gpt"]
    assert turns[-1] == {"from": "gpt", "value": "six"}


def test_alpaca_puts_earlier_pairs_into_history() -> None:
    made = rows("alpaca", 2)
    assert {k: v for k, v in made[1].items() if k not in FACTS} == {
        "instruction": "3 + 3?",
        "input": "",
        "output": "six",
        "system": "Be brief.",
        "history": [["1 + 1?", "2"]],
    }
    assert made[0]["history"] == []
    assert made[0]["system"] == ""


def test_alpaca_refuses_turns_that_are_no_pairs() -> None:
    with pytest.raises(CurateError, match=r"problem c holds .*--format messages"):
        rows("alpaca")


@pytest.mark.parametrize("style", formats.PROMPTED)
def test_an_empty_batch_has_the_schema_of_a_full_one(style: formats.Style) -> None:
    full = formats.rows(ONE[:2], KEPT[:2], style)
    assert formats.rows(ONE.clear(), KEPT.clear(), style).schema == full.schema
    assert formats.rows(ONE[:2].drop("context"), KEPT[:2], style).schema == full.schema
    assert not any(pa.types.is_large_string(f.type) or pa.types.is_large_list(f.type) for f in full.schema)


@pytest.mark.parametrize("style", formats.PROMPTED)
def test_no_column_is_one_that_makes_a_trainer_take_another_path(style: formats.Style) -> None:
    taken = {"messages", "prompt", "completion", "conversations", "instruction", "input", "output", "system", "history"}
    tripping = {
        "text",
        "chosen",
        "rejected",
        "images",
        "tools",
        "tool_defs",
        "chat_template_kwargs",
        "input_ids",
        "labels",
        "dataset",
    }
    names = set(formats.rows(ONE[:2], KEPT[:2], style).column_names)
    assert names & tripping == set()
    assert names - taken == FACTS
    assert not {"messages", "prompt"} <= names


def tokenizer() -> Any:
    """A word tokenizer with a chat template, made here: a word, a mark or a line end is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = sorted({w for turns in (*rows("messages", 2),) for t in turns["messages"] for w in (*t["content"].split(), t["role"])})
    vocab = {w: i for i, w in enumerate(["<unk>", "<|im_start|>", "<|im_end|>", *words])}
    raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", additional_special_tokens=["<|im_start|>", "<|im_end|>"]
    )
    fast.chat_template = TEMPLATE
    return fast


def as_messages(row: dict[str, Any]) -> list[dict[str, str]]:
    """What a trainer makes of a row, by the rule of its format."""
    if "messages" in row:
        return list(row["messages"])
    if "completion" in row:
        return [*row["prompt"], *row["completion"]]
    if "conversations" in row:
        role = {"system": "system", "human": "user", "gpt": "assistant"}
        return [{"role": role[t["from"]], "content": t["value"]} for t in row["conversations"]]
    said = [{"role": "system", "content": row["system"]}] if row["system"] else []
    for question, answer in row["history"]:
        said += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    question = row["instruction"] + (f"\n{row['input']}" if row["input"] else "")
    return [*said, {"role": "user", "content": question}, {"role": "assistant", "content": row["output"]}]


@pytest.mark.parametrize("style", formats.PROMPTED)
def test_a_row_loaded_by_datasets_renders_to_the_counted_length(style: formats.Style, tmp_path: Path) -> None:
    # by hand, a turn is <|im_start|>, role, words, <|im_end|>:
    # (5 + 3) + (8 + 3) = 19; (2 + 3) + (3 + 3) + (1 + 3) + (3 + 3) + (1 + 3) = 25
    from datasets import load_dataset

    (tmp_path / "data").mkdir()
    pq.write_table(formats.rows(ONE[:2], KEPT[:2], style), tmp_path / "data" / "train-00000-of-00001.parquet")
    loaded = load_dataset(str(tmp_path), split="train", cache_dir=str(tmp_path / "cache"))
    fast = tokenizer()
    texts = [fast.apply_chat_template(as_messages(row), tokenize=False) for row in loaded]
    assert [len(fast(text, add_special_tokens=False)["input_ids"]) for text in texts] == loaded["tokens"][:] == [19, 25]
    assert THOUGHT in texts[0]


def test_the_last_assistant_turn_is_rewritten_and_counted() -> None:
    turn = pa.struct([("role", pa.string()), ("content", pa.string()), ("reasoning_content", pa.string())])
    column = pa.chunked_array(
        [
            pa.array(
                [
                    [
                        {"role": "assistant", "content": "first", "reasoning_content": "kept"},
                        {"role": "user", "content": "q", "reasoning_content": None},
                        {"role": "assistant", "content": "old", "reasoning_content": "gone"},
                    ],
                    None,
                ],
                type=pa.list_(turn),
            ),
            pa.array(
                [
                    [{"role": "user", "content": "q", "reasoning_content": None}],
                    [{"role": "Assistant", "content": "same", "reasoning_content": None}],
                    [{"role": "assistant", "content": "stays", "reasoning_content": None}],
                ],
                type=pa.list_(turn),
            ),
        ]
    )
    made, changed = formats.with_trace(column, pl.Series(["new", "x", "y", "same", None]))
    assert changed == 1
    assert made.type == column.type
    assert made.to_pylist()[0] == [
        {"role": "assistant", "content": "first", "reasoning_content": "kept"},
        {"role": "user", "content": "q", "reasoning_content": None},
        {"role": "assistant", "content": "new", "reasoning_content": None},
    ]
    assert made.to_pylist()[1:] == column.to_pylist()[1:]


def test_from_and_value_are_rewritten_too_and_a_slice_is_a_whole() -> None:
    column = pa.array([[{"from": "gpt", "value": "zero"}], [{"from": "human", "value": "q"}, {"from": "gpt", "value": "old"}]])
    made, changed = formats.with_trace(column[1:], pl.Series(["new"]))
    assert changed == 1
    assert made.to_pylist() == [[{"from": "human", "value": "q"}, {"from": "gpt", "value": "new"}]]


def test_typed_parts_are_not_rewritten() -> None:
    column = pa.array([[{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]])
    with pytest.raises(CurateError, match="typed parts"):
        formats.with_trace(column, pl.Series(["new"]))


def test_a_prompt_that_is_rendered_already_is_written_as_plain_text_when_asked() -> None:
    one = pl.DataFrame({"prompt": ["<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"], "trace": ["<think>a</think> b"]})
    kept = pl.DataFrame({"problem": ["A"], "tokens": [9], "passed": [True], "difficulty": [None], "name": ["s"]})
    made = formats.rows(one, kept, "prompt-completion", plain=True)
    assert made.select(["prompt", "completion"]).to_pylist() == [
        {"prompt": "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n", "completion": "<think>a</think> b"}
    ]
