"""Rows of 50 MB: memory within the limit, by the kernel's own high-water mark; and the same counts as in one piece."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate import chat, encoder, room, rows, thinking, tokens, verdicts
from tests.cases.make_inputs import tokenizer

LIMIT_MB = 600
ROW = "so we have it \u6240\u4ee5 \U0001f389 " * 1_950_000
PROGRAM = """
import re, sys
from pathlib import Path
from curate.cli import main
try:
    main(sys.argv[1:], standalone_mode=False)
finally:
    told = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
    print(int(told[1]) // 1024, file=sys.stderr)
"""


def peak_mb(*command: str) -> tuple[int, dict[str, Any]]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command, "--json", "-q", "--no-cache"], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return int(run.stderr.split()[-1]), json.loads(run.stdout)


def byte_level(folder: Path) -> Path:
    """A tokenizer of Qwen's rules with one token for each byte, and a template that copies texts."""
    letters = sorted(bytes_to_letters().values())
    folder.mkdir()
    split = {"type": "Split", "pattern": {"Regex": encoder._PATTERNS[0]}, "behavior": "Isolated", "invert": False}
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    made = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, by_bytes]},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(letters)}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(made))
    template = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | trim }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def bytes_to_letters() -> dict[int, str]:
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + n) for n, b in enumerate(others)}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the high-water mark is Linux's")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_row_of_50_mb_is_counted_within_the_limit(tmp_path: Path, form: str) -> None:
    where = byte_level(tmp_path / "tokenizer")
    row = {"id": "a", "prompt": "why", "generation": f"<think>\n{ROW}\n</think>\n\n7", "passed": True}
    path = tmp_path / f"a.{form}"
    if form == "jsonl":
        path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)
    peak, facts = peak_mb("count", str(path), "--tokenizer", str(where), "-o", str(tmp_path / "ledger.parquet"))
    assert facts["traces"] == 1
    ledger = pl.read_parquet(tmp_path / "ledger.parquet")
    # 26 bytes 1,950,000 times; 20 of <user>why<assistant>, 8 and 11 of the marks with their line ends, 1 of the answer
    assert ledger["tokens"].to_list() == [50_700_040]
    assert peak < LIMIT_MB


def texts(n: int, seed: int) -> list[str]:
    """Texts of words, marks and odd characters; a few marks stand where they should not."""
    rng = random.Random(seed)
    parts = [
        "aa",
        "b",
        " word",
        "  ",
        "\n",
        "\r\n",
        "é",
        "所",
        "以",
        " 所",
        "1",
        "12",
        "'s",
        ".",
        "\t",
        "\u0301",
        "\u00a0",
        "{",
        "😀",
    ]
    odd = ["<think>", "</think>", "<|im_end|>"]

    def some(most: int) -> str:
        return "".join(rng.choices([*parts, *odd], [5.0] * len(parts) + [0.05] * 3, k=rng.randint(0, most)))

    opening, closing = ["<think>\n", "<think>", ""], ["\n</think>\n\n", "</think>", "", "</think>  "]
    return [rng.choice(opening) + some(60) + rng.choice(closing) + some(20) for _ in range(n)]


@pytest.mark.parametrize("kind", ["sample", "trace"])
def test_long_texts_count_as_short_ones_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tokens.Kind) -> None:
    counter = tokens.open_exact(byte_level(tmp_path / "t"), kind=kind, cached=False)
    frame = pl.DataFrame({"trace": texts(400, 1), "prompt": ["why", " what \n", None, "p <think> q"] * 100})
    short = counter.count(frame)
    monkeypatch.setattr(room, "LONG", 30)
    monkeypatch.setattr(encoder, "_PIECE", 7)
    monkeypatch.setattr(chat, "_KEPT", 12)
    assert counter.count(frame).equals(short)


def test_a_long_sample_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tokens.open_exact(byte_level(tmp_path / "t"), cached=False)
    assert counter.template is not None
    monkeypatch.setattr(chat, "_KEPT", 4)
    data = memoryview("<think>\nlong enough to be cut é\n</think>\n\nand the answer ".encode())
    made = chat.Renderer(counter.template).sample([("user", "why")], room.Long(data))
    assert isinstance(made.text, room.Long)
    assert str(made.text) == "<user>why<assistant><think>\nlong enough to be cut é\n</think>\n\nand the answer"
    assert (made.start, made.altered) == (20, False)


@pytest.mark.parametrize("trace", ["<think>a</think>b</think>c", "x<think>a</think>b", "<think>a", "a<think>"])
def test_a_long_trace_of_odd_marks_is_rendered_whole(tmp_path: Path, trace: str) -> None:
    counter = tokens.open_exact(byte_level(tmp_path / "t"), cached=False)
    assert counter.template is not None
    made = chat.Renderer(counter.template).sample([], room.Long(memoryview(trace.encode())))
    assert made == chat.whole(counter.template, [], trace)


def test_only_tokenizers_whose_words_end_at_the_cuts_are_given_pieces(tmp_path: Path) -> None:
    known = json.loads((byte_level(tmp_path / "known") / "tokenizer.json").read_text())
    assert encoder._is_cuttable(known, [])
    assert not encoder._is_cuttable(known, [{"content": "a b"}])
    assert not encoder._is_cuttable(known, [{"content": "a", "rstrip": True}])
    assert not encoder._is_cuttable(known | {"normalizer": {"type": "Lowercase"}}, [])
    assert not encoder._is_cuttable(known | {"pre_tokenizer": None}, [])
    steps = known["pre_tokenizer"]["pretokenizers"]
    other = {"type": "Sequence", "pretokenizers": [steps[0] | {"pattern": {"Regex": r"\w+ \w+"}}, steps[1]]}
    assert not encoder._is_cuttable(known | {"pre_tokenizer": other}, [])
    tokenizer(tmp_path / "words")
    assert not encoder._is_cuttable(json.loads((tmp_path / "words" / "tokenizer.json").read_text()), [])


def test_pieces_are_the_text_and_end_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "_PIECE", 4)
    text = room.Long(b"one tw", memoryview("o three\nfour 所以 五六 1 2 3".encode()))
    assert [p.decode() for p in encoder._pieces(text)] == ["one two three\n", "four", " 所以 五六 1 2 3"]
    assert str(text) == "one two three\nfour 所以 五六 1 2 3"


def test_a_long_text_is_split_and_hashed_as_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = ["<thinking>", "[/THINK]", " \u00a0", "\u2003", "\x1c", "\x85"]
    rng = random.Random(2)
    for text in texts(300, 3):
        trace = pl.Series([rng.choice(marks) + text + rng.choice(marks) + " and some more", None])
        opened = pl.Series([rng.random() < 0.3, False])
        with monkeypatch.context() as m:
            m.setattr(thinking, "LONG", 1)
            m.setattr(room, "LONG", 13)
            long = thinking.split(trace, opened=opened), verdicts.digest(pl.Series(["p", None]), trace)
        assert long[0].equals(thinking.split(trace, opened=opened))
        assert long[1].equals(verdicts.digest(pl.Series(["p", None]), trace))


def test_long_lines_come_alone_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONG", 100)
    monkeypatch.setattr(rows, "_STEP", 64)
    path = tmp_path / "a.jsonl"
    values = ["a", "b", "c" * 200, "é", "d" * 300, "e" * 63, "f"]
    path.write_text("".join(json.dumps({"v": v}) + "\n" for v in values), encoding="utf-8")
    index = rows.scan_lines(path, skip_bad_rows=False)
    found = [b.column(0).to_pylist() for b in rows.read_block(path, index.blocks[0], index.schema)]
    assert found == [["a", "b"], ["c" * 200], ["é"], ["d" * 300], ["e" * 63, "f"]]
