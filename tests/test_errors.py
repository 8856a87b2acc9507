"""Every bad input: the exit status, one sentence that names what is wrong and the next step, nothing written, no traceback, no plan."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.terminal import curate, facts, listed

GOOD = {"id": "a", "prompt": "q", "generation": "<think>a</think>b", "passed": True, "rating": 5}
T = ("--count", "trace", "--estimate", "chars/1")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    pl.DataFrame([GOOD, GOOD | {"id": "b", "passed": False}]).write_parquet("t.parquet")
    lines = [json.dumps(GOOD).encode(), b'{"id": "b", "generation": ', json.dumps(GOOD | {"id": "c"}).encode()]
    Path("broken.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    Path("latin.jsonl").write_bytes(
        lines[0] + b"\n" + json.dumps(GOOD | {"id": "\u00e9"}, ensure_ascii=False).encode("latin-1") + b"\n"
    )
    Path("cut.parquet").write_bytes(Path("t.parquet").read_bytes()[:-20])
    Path("cut.jsonl.gz").write_bytes(gzip.compress(lines[0] + b"\n" + b"x" * 5000)[:-30])
    Path("text.parquet").write_text("no parquet")
    Path("empty.jsonl").write_text("")
    Path("array.json").write_text('[{"id": "a"')
    Path("notes.txt").write_text("mine")
    Path("none").mkdir()
    pl.DataFrame([{"id": "a", "other": 1}]).write_parquet("no-trace.parquet")
    pl.DataFrame([{"generation": "<think>a</think>b", "passed": True}]).write_parquet("no-problem.parquet")
    pl.DataFrame([GOOD | {"difficulty": "tough"}, GOOD | {"difficulty": "mild"}]).drop("rating").write_parquet("words.parquet")


READING = [
    (("yield", "nowhere.parquet"), ["nowhere.parquet"]),
    (("yield", "./nowhere.parquet"), ["nowhere.parquet does not exist"]),
    (("yield", "./t.parqet"), ["t.parqet", "Did you mean t.parquet"]),
    (("yield", "nothing*.parquet"), ["nothing*.parquet"]),
    (("yield", "none"), ["none"]),
    (("yield", "notes.txt"), ["notes.txt", "Parquet"]),
    (("yield", ""), ["SOURCE"]),
    (("yield", "broken.jsonl"), ["broken", "line 2", "--skip-bad-rows"]),
    (("yield", "latin.jsonl"), ["latin", "line 2", "UTF-8"]),
    (("yield", "cut.parquet"), ["cut.parquet"]),
    (("yield", "cut.jsonl.gz"), ["cut.jsonl.gz"]),
    (("yield", "text.parquet"), ["text.parquet"]),
    (("yield", "array.json"), ["array.json"]),
    (("yield", "no-trace.parquet"), ["no-trace", "--trace"]),
    (("yield", "no-problem.parquet"), ["no-problem", "--problem"]),
    (("yield", "words.parquet"), ["--labels"]),
    (("yield", "words.parquet", "--labels", "mild"), ["tough"]),
    (("yield", "t.parquet", "--problem", "idd"), ["idd", "Did you mean id"]),
    (("yield", "t.parquet", "--trace", "nothing"), ["nothing", "generation"]),
    (("yield", "t.parquet", "--passed", "nothing = 1"), ["nothing"]),
    (("yield", "t.parquet", "--passed", "MAX(rating) = rating"), ["several rows"]),
    (("yield", "t.parquet", "--passed", "rating >"), ["rating >"]),
    (("yield", "t.parquet", "--passed", "prompt"), ["prompt", "q"]),
    (("yield", "t.parquet", "--where", "id"), ["--where", "true or false"]),
    (("yield", "t.parquet", "--by", "nothing"), ["nothing"]),
    (("yield", "t.parquet", "--tokens", "prompt"), ["prompt"]),
    (("yield", "t.parquet", "--tokens", "nothing"), ["nothing"]),
    (("yield", "t.parquet", "--difficulty-from", "nowhere.csv"), ["nowhere.csv"]),
    (("yield", "t.parquet", "--difficulty-from", "no-problem.parquet"), ["no-problem"]),
    (("yield", "t.parquet", "--verdicts", "nowhere.parquet"), ["nowhere.parquet"]),
    (("yield", "t.parquet", "--verdicts", "t.parquet"), ["t.parquet"]),
    (("yield", "t.parquet", "--presets", "nowhere.toml"), ["nowhere.toml"]),
    (("yield", "t.parquet", "--tokenizer", "./nowhere"), ["nowhere"]),
    (("yield", "t.parquet", "--tokenizer", "none"), ["none", "tokenizer.json"]),
    (("yield", "t.parquet", "--tokenizer", "org/nowhere"), ["org/nowhere"]),
    (("yield", "t.parquet", "--model", "qwen9", "--gpu", "t4"), ["qwen9", "Did you mean"]),
    (("yield", "t.parquet", "--model", "qwen2.5-3b", "--gpu", "t44"), ["t44", "Did you mean t4"]),
    (("yield", "org/nowhere"), ["org/nowhere"]),
    (("yield", "solutions_py_decontaminate"), ["Did you mean solutions_py_decontaminated"]),
    (("inspect", "t.parquet", "--against", "nowhere.csv"), ["nowhere.csv"]),
    (("inspect", "t.parquet", "--against", "no-trace.parquet"), ["no-trace.parquet"]),
    (("count", "t.parquet", "-o", "t.parquet"), ["t.parquet"]),
    (("count", "t.parquet", "-o", "nowhere/l.parquet"), ["nowhere"]),
    (("verify", "t.parquet", "-o", "t.parquet"), ["-"]),
    (("verify", "t.parquet", "-o", "v.parquet"), ["--tests"]),
    (("report", "t.parquet", "-o", "notes.txt"), ["notes.txt"]),
    (("padding", "t.parquet", "--max-length", "8", "--trainer", "nothing"), ["nothing"]),
    (("padding", "t.parquet", "--max-length", "8", "--batching", "nothing"), ["nothing"]),
    (("padding", "empty.jsonl", "--max-length", "8"), ["empty"]),
    (("fit", "--model", "nothing-9b"), ["nothing-9b"]),
    (("fit", "--model", "qwen2.5-3b", "--gpu", "t44"), ["t44", "Did you mean t4"]),
    (("fit", "--model", "notes.txt"), ["notes.txt"]),
    (("sources", "solutions_py_decontaminate"), ["Did you mean"]),
    (("push", "nowhere", "me/set"), ["nowhere"]),
    (("push", "none", "me/set"), ["none"]),
    (("why", "none", "a"), ["none"]),
    (("why", "nowhere", "a"), ["nowhere"]),
    (("diff", "none", "nowhere"), ["none"]),
]
SELECTING = [
    (("select", "t.parquet", "--shortest", "-o", "notes.txt"), ["notes.txt"]),
    (("select", "t.parquet", "--shortest", "-o", "notes.txt/out"), ["notes.txt"]),
    (("select", "t.parquet", "--shortest", "-o", "."), ["curate did not write"]),
    (("select", "t.parquet", "--shortest", "-o", "/proc/nothing"), ["/proc"]),
    (("select", "t.parquet", "--shortest", "-o", "out", "--columns", "nothing"), ["nothing"]),
    (("select", "t.parquet", "--shortest", "-o", "out", "--like", "nowhere"), ["nowhere"]),
    (("select", "t.parquet", "--shortest", "-o", "out", "--like", "notes.txt"), ["notes.txt"]),
    (("select", "t.parquet", "--shortest", "-o", "out", "--verdicts", "nowhere"), ["nowhere"]),
    (("select", "broken.jsonl", "--shortest", "-o", "out"), ["line 2"]),
    (("select", "latin.jsonl", "--shortest", "-o", "out"), ["line 2"]),
    (("select", "cut.parquet", "--shortest", "-o", "out"), ["cut.parquet"]),
]
OPTIONS = [
    ("yield",),
    ("yield", "t.parquet", "--bounds", "0"),
    ("yield", "t.parquet", "--bounds", "-5"),
    ("yield", "t.parquet", "--bounds", "many"),
    ("yield", "t.parquet", "--bounds", "1.5"),
    ("yield", "t.parquet", "--bounds", ""),
    ("yield", "t.parquet", "--estimate", "chars/0"),
    ("yield", "t.parquet", "--estimate", "chars/-1"),
    ("yield", "t.parquet", "--estimate", "chars/nan"),
    ("yield", "t.parquet", "--estimate", "chars"),
    ("yield", "t.parquet", "--estimate", "words/2"),
    ("yield", "t.parquet", "--tokenizer", "x", "--tokens", "rating"),
    ("yield", "t.parquet", "--estimate", "chars/4", "--tokens", "rating"),
    ("yield", "t.parquet", "--chat-template", "x.jinja"),
    ("yield", "t.parquet", "--tokenizer", "x", "--chat-template", "x.jinja", "--count", "trace"),
    ("yield", "t.parquet", "--messages", "prompt", "--trace", "generation"),
    ("yield", "t.parquet", "--min-tests", "2"),
    ("yield", "t.parquet", "--sample", "0"),
    ("yield", "t.parquet", "--sample", "x"),
    ("yield", "t.parquet", "--passing", "always"),
    ("yield", "t.parquet", "--count", "words"),
    ("yield", "t.parquet", "--model", "qwen2.5-3b"),
    ("yield", "t.parquet", "--gpu", "t4"),
    ("inspect", "t.parquet", "--show", "0"),
    ("count", "t.parquet"),
    ("select", "t.parquet"),
    ("select", "t.parquet", "--shortest", "--policy", "first"),
    ("select", "t.parquet", "--shortest", "--max-tokens", "0"),
    ("select", "t.parquet", "--shortest", "--num-shards", "0"),
    ("select", "t.parquet", "--shortest", "--private"),
    ("select", "t.parquet", "--shortest", "--format", "yaml"),
    ("verify", "t.parquet"),
    ("verify", "t.parquet", "-o", "v", "--tests", "a", "--answer", "b"),
    ("verify", "t.parquet", "-o", "v", "--time-limit", "0"),
    ("padding", "t.parquet"),
    ("padding", "t.parquet", "--max-length", "0"),
    ("padding", "t.parquet", "--max-length", "8", "--trainer", "trl", "--batching", "bfd"),
    ("padding", "t.parquet", "--max-length", "8", "--dp", "0"),
    ("fit",),
    ("fit", "--model", "qwen2.5-3b", "--loss", "nothing"),
    ("check", "t.parquet", "--trainer", "trl"),
    ("check", "t.parquet", "--max-length", "8"),
    ("report", "t.parquet", "--model", "qwen2.5-3b"),
]


@pytest.mark.parametrize(("words", "named"), [*READING, *SELECTING])
def test_a_bad_input_is_one_sentence_and_nothing_is_written(words: tuple[str, ...], named: list[str]) -> None:
    before = {name: Path(name).read_bytes() for name in listed(Path())}
    done = curate(*words)
    assert (done.status in (1, 2), done.out) == (True, ""), done.err
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("Error: "), done.err
    assert [word for word in named if word not in last] == [], last
    assert not re.search(r"Traceback|polars\.|LazyFrame|PLAN|SELECT \[|\bpyarrow\b|Error\(", done.err), done.err
    assert {name: Path(name).read_bytes() for name in listed(Path())} == before
    assert not any(p.is_dir() and p.name != "none" for p in Path().iterdir())


@pytest.mark.parametrize("words", OPTIONS)
def test_wrong_options_are_status_2_before_any_work(words: tuple[str, ...]) -> None:
    before = listed(Path())
    done = curate(*words)
    assert (done.status, done.out) == (2, ""), done.err
    assert "Error: " in done.err
    assert "t: trace" not in done.err  # nothing was read
    assert listed(Path()) == before


def test_bad_lines_are_left_out_and_counted_when_asked() -> None:
    for name in ("broken.jsonl", "latin.jsonl"):
        found = facts("yield", name, *T, "--skip-bad-rows")
        assert (found["traces"], found["bad_rows"]) == ((2, 1) if name == "broken.jsonl" else (1, 1))
    done = curate("yield", "broken.jsonl", *T, "--skip-bad-rows")
    assert "broken.jsonl line 2" in done.out.replace("\n", " ")
    picked = facts("select", "broken.jsonl", *T, "--skip-bad-rows", "--shortest", "-o", "out")
    assert (picked["traces"], picked["kept"]) == (2, 2)


def test_what_rows_lack_is_counted() -> None:
    rows = [
        GOOD,
        GOOD | {"id": None},
        GOOD | {"id": ""},
        GOOD | {"id": "x", "generation": None},
        GOOD | {"id": "y", "generation": " \n"},
    ]
    Path("lacking.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = facts("select", "lacking.jsonl", *T, "--shortest", "-o", "out")
    assert {k: v for k, v in found["dropped"].items() if v} == {"bad_row": 2, "no_problem": 2}
    assert (found["traces"], found["kept"]) == (5, 1)


def test_lists_that_do_not_line_up_are_counted() -> None:
    rows = [
        {"id": "a", "generations": ["<think>a</think>b"] * 2, "passed": [True, False]},
        {"id": "b", "generations": ["<think>a</think>b"] * 2, "passed": [True]},
        {"id": "c", "generations": [], "passed": []},
        {"id": "d", "generations": ["<think>a</think>b"], "passed": [True]},
    ]
    Path("crooked.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = facts("yield", "crooked.jsonl", *T)
    assert found["bad_rows"] == 2
    assert facts("select", "crooked.jsonl", *T, "--shortest", "-o", "out")["problems_kept"] == 2


def test_two_columns_of_equal_rank_are_an_error_that_lists_them() -> None:
    row = {"id": "a", "generation": "<think>a</think>b", "completion": "x", "passed": True, "correct": False, "is_correct": True}
    pl.DataFrame([row]).write_parquet("two.parquet")
    done = curate("yield", "two.parquet", *T)
    assert (done.status, done.out) == (1, "")
    assert "generation and completion. Name one with --trace" in done.err
    assert "passed = passed" in curate("yield", "two.parquet", "--trace", "generation", *T).err  # passed ranks before correct
    pl.DataFrame([row]).drop("passed").write_parquet("two.parquet")
    assert "correct and is_correct" in curate("yield", "two.parquet", "--trace", "generation", *T).err


def test_an_empty_file_has_no_columns_and_a_table_without_rows_is_no_fault() -> None:
    done = curate("yield", "empty.jsonl", *T)
    assert (done.status, done.out) == (1, "")
    assert "empty.jsonl is empty" in done.err
    pl.read_parquet("t.parquet").clear().write_parquet("zero.parquet")
    assert facts("yield", "zero.parquet", *T)["traces"] == 0
    assert facts("select", "zero.parquet", *T, "--shortest", "-o", "out")["kept"] == 0


def test_an_error_of_a_process_of_its_own_has_no_traceback_and_keeps_stdout_empty() -> None:
    program = str(Path(sys.executable).with_name("curate"))
    for words, status in ((["yield", "broken.jsonl"], 1), (["select", "t.parquet"], 2), (["yield", "nowhere.csv"], 1)):
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (status, "")
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("Error: ")
