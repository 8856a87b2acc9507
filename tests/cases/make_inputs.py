"""The project's own inputs for the 36 cases: small files made in code, and the values they must give.

``MAKERS[number](folder)`` writes the inputs of one case into ``folder`` and returns what must come out. Lengths are counted
by a tokenizer made here, one token for each word between blanks, so every number can be redone by hand. The public reports
behind each case are named beside its maker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

Expected = dict[str, Any]

TALK = (
    "first",
    "we",
    "add",
    "both",
    "sides",
    "then",
    "compare",
    "the",
    "parity",
    "of",
    "each",
    "term",
    "and",
    "divide",
    "by",
    "two",
)
ANSWER = ("so", "the", "result", "is", "seven")

TEMPLATE = (
    "<s> {% for m in messages %}<|{{ m['role'] }}|> {{ m['content'] }} {% if m['role'] == 'assistant' %}<|stop|> {% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|> {% endif %}"
)


def words(n: int, of: Sequence[str] = TALK) -> str:
    """``n`` words: ``n`` tokens."""
    return " ".join(islice(cycle(of), n))


def thought(n: int, answer: int = 2) -> str:
    """A finished trace of ``n`` words of thinking; its marks are two more tokens."""
    return f"<think> {words(n)} </think> {words(answer, ANSWER)}"


def tokenizer(
    folder: Path, *, specials: Sequence[str] = (), template: str | None = None, bos: bool = False, padding: bool = False
) -> None:
    """A tokenizer with one token per word between blanks, as Hugging Face files."""
    vocabulary = {t: i for i, t in enumerate(["[UNK]", "[PAD]", "<s>", "</s>"])}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = WhitespaceSplit()
    made.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in ["<s>", "</s>", *specials]])
    if bos:
        made.post_processor = TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", vocabulary["<s>"])])
    if padding:
        made.enable_padding(pad_id=1, pad_token="[PAD]")
    _save(made, folder, template=template)


def _save(made: Tokenizer, folder: Path, *, template: str | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config | ({"chat_template": template} if template else {})))


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """JSON lines."""
    path.write_bytes(b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in rows))


def parquet(path: Path, columns: dict[str, Any], schema: pa.Schema | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, schema=schema), path)


def chat(question: int, answer: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": words(question, ANSWER)}, {"role": "assistant", "content": words(answer)}]


def make_02(at: Path) -> Expected:  # deepseek-ai/DeepSeek-R1#151; huggingface/open-r1#462
    tokenizer(at / "tok", template=TEMPLATE, bos=True, specials=["<|user|>", "<|assistant|>", "<|stop|>"])
    lines(at / "messages.jsonl", [{"id": f"m{n}", "messages": chat(3, n)} for n in (6, 7, 8, 9)])
    # <s>, two roles, <|stop|> and the question's 3 words are 7 more; with <s> twice 8 more, and 15 would lose its row
    return {"rows": 4, "sample_tokens": [13, 14, 15, 16], "kept": {"15": 3}}


def make_04(at: Path) -> Expected:  # huggingface/transformers#26468, #25081
    tokenizer(at / "tok", specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"])
    texts = [
        "<think> the file stops<|endoftext|>there </think> print 1",  # think the file stops E there /think print 1
        "<think> the file stops over there </think> print 1",
        "<think> a turn is<|im_start|>text<|im_end|>here </think> print 2",
        "<think> write < | endoftext | > by hand </think> print 3",
    ]
    lines(at / "traces.jsonl", [{"id": f"s{i}", "generation": t} for i, t in enumerate(texts)])
    return {
        "rows": 4, "tokens": [9, 9, 11, 12], "tokens_if_special_text_is_split": [7, 9, 7, 12],
        "kept": {"9": 2}, "kept_if_special_text_is_split": {"9": 3}, "rows_with_control_token_text": 2,
    }  # fmt: skip


def make_06(at: Path) -> Expected:  # daulet/tokenizers#30
    tokenizer(at / "tok", padding=True)
    lines(at / "traces.jsonl", [{"id": f"n{n}", "generation": words(n)} for n in (33, 4, 11, 12)])
    return {"rows": 4, "tokens": [33, 4, 11, 12], "kept": {"11": 2}}


def make_08(at: Path) -> Expected:  # huggingface/transformers#33246; axolotl-ai-cloud/axolotl#2398
    tokenizer(at / "tok")
    lines(at / "messages.jsonl", [{"id": f"m{n}", "messages": chat(4, n)} for n in (3, 9, 5)])
    return {"rows": 3, "trace_tokens": [3, 9, 5]}


def make_10(at: Path) -> Expected:  # huggingface/trl#467, #446
    tokenizer(at / "tok")
    lines(at / "traces.jsonl", [{"id": f"n{i}", "generation": words(n)} for i, n in enumerate((13, 12, 11, 12, 40))])
    return {"rows": 5, "tokens": [13, 12, 11, 12, 40], "kept": {"12": 3}, "kept_ids": ["n1", "n2", "n3"]}


def make_12(at: Path) -> Expected:  # huggingface/trl#1850, #5075
    tokenizer(at / "tok")
    rows = [
        {"id": "north", "generations": [words(7), words(7, ANSWER), words(7)], "passed": [True, True, True]},
        {"id": "south", "generations": [words(30)], "passed": [True]},
        {"id": "east", "generations": [words(9), words(2)], "passed": [True, True]},
        {"id": "west", "generations": [words(8), words(10)], "passed": [True, True]},
    ]
    lines(at / "problems.jsonl", rows)
    return {"problems": 4, "traces": 8, "traces_kept": {"8": 5}, "problems_kept": {"8": 3}}


def make_14(at: Path) -> Expected:  # deepseek-ai/DeepSeek-R1#526; huggingface/trl#7141
    tokenizer(at / "tok", specials=["<think>", "</think>"])
    rows = [
        {"id": "q1", "prompt": "how many", "generation": thought(5, 3), "finish_reason": "stop"},
        {
            "id": "q2",
            "prompt": "how many <think>",
            "generation": words(14) + " </think> " + words(1, ANSWER),
            "finish_reason": "stop",
        },
        {
            "id": "q3",
            "prompt": "how long\n<think>\n",
            "generation": words(6) + " </think> " + words(4, ANSWER),
            "finish_reason": "stop",
        },
        {"id": "q4", "prompt": "how long", "generation": thought(9, 5), "finish_reason": "stop"},
    ]
    lines(at / "traces.jsonl", rows)
    return {"rows": 4, "complete": 4, "reasoning_tokens": [5, 14, 6, 9], "answer_tokens": [3, 1, 4, 5], "opening_tag_missing": 2}


def make_16(at: Path) -> Expected:  # ggml-org/llama.cpp#27661; modelscope/ms-swift#7171
    tokenizer(at / "tok", specials=["<think>", "</think>"])
    texts = [
        thought(6, 2),
        f"<think> they print </think> when done and {words(3)} </think> {words(2)}",
        f"</think> {words(4)} <think> {words(5)}",
        thought(3, 4),
    ]
    lines(at / "traces.jsonl", [{"id": f"t{i}", "generation": t} for i, t in enumerate(texts)])
    return {"rows": 4, "trace_tokens": [10, 13, 11, 9], "rows_flagged": 2, "flagged_ids": ["t1", "t2"]}


def make_18(at: Path) -> Expected:  # ollama/ollama#8837
    tokenizer(at / "tok", specials=["<think>", "</think>"])
    rows = [
        {"id": "sum", "generation": thought(20, 3), "passed": True},
        {"id": "sum", "generation": "<think>\n   \n</think>\n" + words(4, ANSWER), "passed": True},
        {"id": "sum", "generation": thought(12, 3), "passed": True},
        {"id": "gcd", "generation": words(5, ANSWER), "passed": True},
        {"id": "gcd", "generation": thought(7, 2), "passed": False},
    ]
    lines(at / "traces.jsonl", rows)
    return {
        "rows": 5, "rows_without_reasoning": 2, "chosen_when_reasoning_is_required": {"sum": 3, "gcd": None},
        "chosen_by_length_alone": {"sum": 2, "gcd": 4},
    }  # fmt: skip


def make_20(at: Path) -> Expected:  # pola-rs/polars#23447; card of open-r1/OpenR1-Math-220k
    tokenizer(at / "tok")
    columns = {
        "id": ["one", "two", "three", "four"],
        "generations": [[words(8), words(6)], [words(3)], [words(9), words(2), words(4)], [words(5), words(7)]],
        "correctness_math_verify": [[True, True], [True, True], [False, False, True], [False, True]],
    }
    parquet(at / "problems.parquet", columns)
    return {"problems": 4, "bad_problems": ["two"], "chosen_index": {"one": 1, "three": 2, "four": 1}}


def make_22(at: Path) -> Expected:  # card of riddickz/OpenR1-Math-46923; pola-rs/polars#8260
    verdicts = pa.array([[True, None], [False], [True], [None]], pa.list_(pa.bool_()))
    texts = pa.array([[words(3), words(4)], [words(2)], [words(5)], [words(6)]])
    table = pa.table(
        {"id": ["a", "b", "c", "d"], "generations": texts, "correctness_math_verify": verdicts, "correctness_llama": pa.nulls(4)}
    )
    pq.write_table(table, at / "problems.parquet")
    return {
        "problems": 4, "by_correctness_llama": {"passing": 0, "unknown": 5},
        "by_correctness_math_verify": {"passing": 2, "unknown": 2},
    }  # fmt: skip


def make_24(at: Path) -> Expected:  # card of open-r1/codeforces-cots
    columns = {
        "id": ["x", "x", "y", "y", "y"],
        "generation": [thought(4), f"<think> {words(2)}", thought(11), thought(10), thought(12)],
        "finish_reason": ["stop", "length", "stop", "stop", "stop"],
    }
    parquet(at / "traces.parquet", columns)
    return {"rows": 5, "chosen_when_every_finished_trace_is_accepted": {"x": 1, "y": 4}}


def make_26(at: Path) -> Expected:  # aropan/clist#430; card of open-r1/codeforces-cots
    tokenizer(at / "tok")
    columns = {
        "id": ["50/A", "51/C", "52/A", "60/B", "51/C"],
        "aliases": pa.array([["51/C"], [], ["51/C"], [], ["50/A"]], pa.list_(pa.string())),  # 52/A joins through 51/C
        "generation": [words(9), words(5), words(3), words(6), words(4)],
        "passed": [True, True, False, True, True],
    }
    parquet(at / "traces.parquet", columns)
    return {
        "rows": 5, "problems_by_id": 4, "problems_by_alias": 2, "chosen_by_id": {"50/A": 1, "51/C": 5, "60/B": 4},
        "chosen_by_alias": [4, 5],
    }  # fmt: skip


def make_28(at: Path) -> Expected:  # huggingface/datasets#6106, #7322
    ids = ["12", 12, 12.0, "012", 3, "3", "x"]
    lines(at / "traces.jsonl", [{"id": i, "generation": words(3), "passed": True} for i in ids])
    return {
        "rows": 7, "traces_of_problem": {"12": 3, "012": 1, "3": 2, "x": 1}, "traces_per_problem": {"1": 2, "2": 1, "3": 1},
    }  # fmt: skip


def make_30(at: Path) -> Expected:  # pola-rs/polars#9738; narwhals-dev/narwhals#3307
    tokenizer(at / "tok")
    rows: list[dict[str, Any]] = [
        {"generation": words(1), "passed": True},
        {"id": "p", "generation": words(6), "passed": True},
        {"id": "", "generation": words(2), "passed": True},
        {"id": "q", "generation": words(4), "passed": True},
        {"id": None, "generation": words(3), "passed": True},
        {"id": "p", "generation": words(5), "passed": True},
    ]
    lines(at / "traces.jsonl", rows)
    return {"rows": 6, "rows_without_id": 3, "problems": 2, "chosen": {"p": 6, "q": 4}}


def make_32(at: Path) -> Expected:  # pola-rs/polars#26918; camel-ai/camel#1324
    tokenizer(at / "tok")
    texts = [words(4), None, "  \n\t ", "", words(7), None, words(6)]
    parquet(at / "traces.parquet", {"id": ["p", "p", "q", "q", "r", "r", "r"], "generation": texts, "passed": [True] * 7})
    return {"rows": 7, "null_generations": 2, "empty_generations": 2, "chosen": {"p": 1, "r": 7}, "problems_without_any": ["q"]}


def make_34(at: Path) -> Expected:  # CodeforcesContestHelper/CCHv2#110
    tokenizer(at / "tok")
    ratings = [float("nan"), 800.0, 1000.0, float("inf"), 1400.0, 2600.0, None]
    columns = {
        "id": [f"p{i}" for i in range(7)],
        "rating": pa.array(ratings, pa.float64()),
        "generation": [words(n) for n in (2, 3, 3, 3, 9, 30, 8)],
        "passed": [True] * 7,
    }
    parquet(at / "traces.parquet", columns)
    # rated 800, 1000, 1400, 2600: median 1200; within 7 are p0 to p3, of which 800 and 1000 are rated
    return {"rows": 7, "rated": 4, "unrated": 3, "all_median": 1200.0, "kept": {"7": 4}, "kept_rated": 2, "kept_median": 900.0}


def make_36(at: Path) -> Expected:  # pola-rs/polars#9738; mloda-ai/mloda#834
    tokenizer(at / "tok")
    columns = {"id": ["a", "b", "a", None, "c"], "generation": [words(n) for n in (3, 8, 6, 2, 7)], "passed": [True] * 5}
    parquet(at / "traces.parquet", columns)
    table = [{"id": "a", "rating": 900}, {"id": "b", "rating": 2100}, {"id": "a", "rating": 900}, {"id": None, "rating": 3000}]
    lines(at / "ratings.jsonl", table)
    return {
        "rows": 5, "kept": {"6": 3}, "rated_traces": 3, "unrated_traces": 2,
        "ratings_by_row": [900, 2100, 900, None, None],
    }  # fmt: skip


def make_38(at: Path) -> Expected:  # pola-rs/polars#17795, #8260, #20017
    tokenizer(at / "tok")
    struct = pa.struct([("details", pa.null()), ("spent", pa.int64()), ("more", pa.struct([("nothing", pa.null())]))])
    meta = [{"details": None, "spent": n, "more": {"nothing": None}} for n in (1, 2, 3)] + [None]
    columns = {
        "id": ["p", "q", "r", "s"],
        "api_metadata": pa.array(meta, struct),
        "contest_type": pa.array([None, "ICPC", None, "IOI"]).dictionary_encode(),
        "generation": [words(n) for n in (12, 6, 5, 2)],
        "passed": [True] * 4,
    }
    parquet(at / "traces.parquet", columns)
    return {"rows": 4, "kept": {"6": 3}, "contest_type_values": [None, "ICPC", None, "IOI"]}


def make_40(at: Path) -> Expected:  # pandas-dev/pandas#55606; apache/arrow#44164
    big, small = "<think> " + "z" * (33_000_000 - 8 - 11) + " </think> 7", "<think> " + "y" * 81 + " </think> 7"
    texts = pa.array([small] * 3 + [big] * 68 + [small] * 4, pa.large_string())
    table = pa.table({"id": [f"p{i}" for i in range(75)], "generation": texts})
    pq.write_table(table, at / "big.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30, store_schema=False)
    return {"rows": 75, "kept_rows": 7, "characters": 68 * 33_000_000 + 7 * 100}


def make_42(at: Path) -> Expected:  # pola-rs/polars#14377, #21762; ray-project/ray#57704
    tokenizer(at / "tok")
    run = at / "run"
    parquet(run / "a.parquet", {"id": ["p", "q", "r"], "generation": [words(2), words(7), words(8)], "passed": [True] * 3})
    parquet(run / "deeper" / "b.parquet", {"id": ["s", "t"], "generation": [words(6), words(9)], "passed": [True] * 2})
    (run / "_SUCCESS").touch()
    (run / "_metadata").write_bytes(b"PAR1")
    (run / ".b.parquet.crc").write_bytes(b"crc")
    (run / "deeper" / ".c.parquet").write_bytes((run / "a.parquet").read_bytes()[:300])
    (run / "README.md").write_text("# notes\n")
    return {"rows": 5, "kept": {"7": 3}}


def make_44(at: Path) -> Expected:  # NVIDIA-NeMo/DataDesigner#158; pola-rs/polars#27399
    tokenizer(at / "tok")
    columns = {
        "id": ["p", "q", "r", "s"], "generation": [words(n) for n in (6, 2, 12, 4)], "n_tokens": [2, 2, 2, 2],
        "num_tokens": [1, 1, 1, 1], "token_count": [3, 3, 3, 3], "tokens": [2, 2, 2, 2], "passed": [True] * 4,
    }  # fmt: skip
    parquet(at / "traces.parquet", columns)
    return {"rows": 4, "tokens": [6, 2, 12, 4], "kept": {"5": 2}, "stale_column_would_keep": 4}


def make_46(at: Path) -> Expected:  # pola-rs/polars#5783; seattleflu/id3c#314
    rows = [{"id": "p", "generation": "one\n\n"}, {"id": "q", "generation": "two."}, {"id": "r", "generation": thought(3) + "!"}]
    first, second, third = (json.dumps(r) for r in rows)
    (at / "traces.jsonl").write_bytes(f"{first}\r\n\r\n\t\r\n{second}\r\n \r\n\r\n{third}".encode())
    return {"rows": 3, "generation_last_character": ["\n", ".", "!"]}


def make_48(at: Path) -> Expected:  # pola-rs/polars#13768, #27647; NVIDIA-NeMo/Automodel#1694
    good = [json.dumps({"id": f"p{i}", "generation": thought(i + 2), "passed": True}) for i in range(4)]
    (at / "traces.jsonl").write_text("\n".join([good[0], good[1], '{"id": "x", "gener', good[2], "{oops}", good[3]]) + "\n")
    return {"lines": 6, "bad_lines": [3, 5], "rows_when_skipping": 4, "ids_when_skipping": ["p0", "p1", "p2", "p3"]}


def make_50(at: Path) -> Expected:  # pola-rs/polars#17841, #23172
    good = b'{"id": "p", "generation": "fine"}\n'
    (at / "traces.jsonl").write_bytes(good * 2 + b'{"id": "q", "generation": "10 \xb2 is 100"}\n' + good)
    return {"rows": 4, "bad_line": 3}


def make_52(at: Path) -> Expected:  # duckdb/duckdb#1942; apache/doris#68244
    tokenizer(at / "tok")
    texts = ["<think>\nbefore\0after the end\n</think>\n9", "\0 <think>\nlong\0\0 enough\n</think>\n\0 12"]
    lines(at / "traces.jsonl", [{"id": f"z{i}", "generation": t} for i, t in enumerate(texts)])
    # <think> before0after the end </think> 9; 0 <think> long00 enough </think> 0 12
    return {"rows": 2, "generation_characters": [39, 37], "tokens": [6, 7]}


def make_54(at: Path) -> Expected:  # huggingface/datasets#6106, #6460; RUC-NLPIR/FlashRAG#132
    rows = [
        {"id": "p", "generation": words(2), "rating": "800", "tags": ["graphs"]},
        {"id": "q", "generation": words(3), "rating": 2100.0, "tags": None},
        {"id": "r", "generation": words(4), "rating": None, "tags": "greedy"},
        {"id": "s", "generation": words(5), "rating": 1300, "tags": {"main": "dp"}},
        {"id": "t", "generation": words(6)},
    ]
    lines(at / "traces.jsonl", rows)
    return {"rows": 5, "ratings": [800, 2100, None, 1300, None], "columns": ["id", "generation", "rating", "tags"]}


def make_56(at: Path) -> Expected:  # huggingface/datasets#2600, #7779, #8388
    tokenizer(at / "tok")
    columns = {
        "id": ["p", "q", "r"], "generation": [words(n) for n in (9, 4, 6)], "passed": [True] * 3,
        "rating": pa.array([None, 1100, 1900], pa.int64()),
    }  # fmt: skip
    parquet(at / "traces.parquet", columns)
    return {"rows": 3, "kept": {"3": 0}, "columns": ["id", "generation", "passed", "rating"], "rating_type": "int64"}


def make_58(at: Path) -> Expected:  # openai/tiktoken#195; openai/harmony#151
    doubled = ["a" * 2**i for i in range(5)]
    vocabulary = {t: i for i, t in enumerate(["[UNK]", "[PAD]", "<s>", "</s>", " ", "b", *doubled])}
    _save(Tokenizer(BPE(vocabulary, [(t, t) for t in doubled[:-1]], unk_token="[UNK]")), at / "tok")
    texts = ["a" * 240_000, "b" * 3_000, "aaaa aaaa", "a" * 80_000]
    lines(at / "traces.jsonl", [{"id": f"p{i}", "generation": t} for i, t in enumerate(texts)])
    return {"rows": 4, "tokens": [15_000, 3_000, 3, 5_000], "kept": {"4096": 2, "8192": 3}}


def make_60(at: Path) -> Expected:  # apache/parquet-java#3069; astronomy-commons/hats-import#634
    tokenizer(at / "tok")
    for k in range(4):
        columns = {"id": [f"p{k}", f"q{k}"], "generation": [words(4 + k), words(6)], "passed": [True] * 2}
        parquet(at / "shards" / f"part-{k}.parquet", columns)
    for k, part in ((1, slice(None, -1)), (2, slice(None, 40))):
        shard = at / "shards" / f"part-{k}.parquet"
        shard.write_bytes(shard.read_bytes()[part])
    return {"good_files": 2, "bad_files": 2}


def make_62(at: Path) -> Expected:  # huggingface/dataset-viewer#1613; huggingface/datasets#8367
    tokenizer(at / "tok")
    columns = {"id": ["p", "q", "r", "s"], "generation": [words(n) for n in (8, 2, 3, 5)], "passed": [True] * 4}
    parquet(at / "traces.parquet", columns)
    for k in range(3):
        old = {"id": [f"old{k}", f"older{k}"], "generation": ["past", "past"], "passed": [True, True]}
        parquet(at / "out" / f"train-0000{k}-of-00003.parquet", old)
    (at / "out" / "notes.txt").write_text("mine\n")
    return {"rows": 4, "rows_expected_in_out": 3, "old_rows_in_out": 6, "rows_if_old_shards_stay": 9}


def make_64(at: Path) -> Expected:  # huggingface/datasets#8367
    parquet(at / "new.parquet", {"id": ["p", "q"], "generation": [thought(4), thought(5)]})
    card = (
        "---\nlicense: apache-2.0\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n"
        "  - split: validation\n    path: data/validation-*\n---\n# Old\n"
    )
    files = ["README.md", "data/train-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet"]
    (at / "repo.json").write_text(json.dumps({"private": True, "files": files, "readme": card}))
    return {"files_after": ["README.md", "data/train-00000-of-00001.parquet"], "splits_in_card": ["train"]}


def make_66(at: Path) -> Expected:  # huggingface/transformers#33511; huggingface/lerobot#3713
    parquet(at / "new.parquet", {"id": ["p"], "generation": [thought(4)]})
    (at / "repo.json").write_text(json.dumps({"private": False, "files": ["README.md"], "readme": "# before\n"}))
    return {"private_before": False, "uploads_before_the_check": 0}


def make_68(at: Path) -> Expected:  # huggingface/datasets#8044, #7443, #8433
    tokenizer(at / "tok")
    columns = {"id": ["p", "q", "r", "s"], "generation": [words(n) for n in (3, 9, 2, 6)], "passed": [True] * 4}
    parquet(at / "traces.parquet", columns)
    return {"rows": 4, "rows_written": 4, "shards_at_most": 4}


def make_70(at: Path) -> Expected:  # huggingface/datasets#7359, #8216, #6837
    tokenizer(at / "tok")
    columns = {"id": ["p", "q", "r", "s"], "generation": [words(n) for n in (6, 7, 5, 9)], "passed": [True] * 4}
    parquet(at / "traces.parquet", columns)
    return {"rows": 4, "kept": {"6": 2}}


def make_72(at: Path) -> Expected:  # allenai/open-instruct#1518; axolotl-ai-cloud/axolotl#33
    tokenizer(at / "tok_a")
    tokenizer(at / "tok_b", specials=["+"])
    lines(at / "traces.jsonl", [{"id": f"p{n}", "generation": " ".join(["x+y"] * n + ["z"])} for n in (1, 2, 3, 4)])
    # by blanks n + 1; with + cut out 3 n + 1
    return {"rows": 4, "tokens_a": [2, 3, 4, 5], "tokens_b": [4, 7, 10, 13], "kept_a": {"4": 3}, "kept_b": {"4": 1}}


MAKERS: dict[str, Callable[[Path], Expected]] = {
    name[-2:]: make for name, make in sorted(globals().items()) if name.startswith("make_")
}
"""The maker of each case, by its two digits."""
