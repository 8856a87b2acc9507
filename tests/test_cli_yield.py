"""``curate yield`` as typed: every number of its table, on twelve traces that are worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.terminal import CHARS, at, curate, facts

T = ("--count", "trace", "--estimate", "chars/1")
"""One token a character, so that a length can be read off."""
OPEN, CLOSE = "<think>", "</think>"


def text(length: int, *, ended: bool = True, thinks: bool = True) -> str:
    """A trace of so many characters."""
    if not thinks:
        return "a" * length
    head, tail = (OPEN, CLOSE + "ok") if ended else (OPEN, "")
    return head + "w" * (length - len(head) - len(tail)) + tail


ROWS: list[tuple[str | None, int, bool | None, float | None, str | None]] = [
    # problem, length, verdict, difficulty, text where it is not the usual one
    ("a", 100, True, 1, None),
    ("a", 40, True, 1, None),
    ("a", 300, False, 1, None),
    ("b", 500, True, 2, None),
    ("b", 90, True, 2, None),
    ("c", 200, None, 3, None),
    ("d", 60, False, 3, None),
    ("e", 400, True, None, None),
    ("f", 80, True, 3, text(80, ended=False)),
    ("g", 700, True, 3, None),
    (None, 50, True, 1, None),
    ("h", 0, True, 2, "   "),
]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "traces.parquet")


def write(path: Path, rows: list[Any] = ROWS) -> Path:
    frame = pl.DataFrame(
        {
            "id": [r[0] for r in rows],
            "generation": [text(r[1]) if r[4] is None else r[4] for r in rows],
            "passed": [r[2] for r in rows],
            "rating": pl.Series([r[3] for r in rows], dtype=pl.Float64),
            "tag": ["x" if i % 2 else "y" for i in range(len(rows))],
        }
    )
    frame.write_parquet(path)
    return path


def test_every_key_and_number(source: Path) -> None:
    found = facts("yield", source, *T, "--bounds", "100,400")
    assert (found["rows"], found["traces"], found["problems"]) == (12, 12, 8)
    assert found["traces_per_problem"] == {"1": 6, "2": 1, "3": 1}
    assert (found["bad_rows"], found["rows_without_problem"], found["unfinished"], found["without_thinking"]) == (1, 1, 1, 0)
    assert found["passing"] == {"basis": "verdict", "passed": 9, "failed": 2, "unknown": 1}
    assert found["difficulty"] == {"rated": 11, "unrated": 1}
    # sorted: 40 50 60 80 90 100 200 300 400 500 700; the blank one has no length
    tokens = {"counted": 11, "p50": 100, "p90": 500, "p99": 700, "max": 700, "total": 2520, "mean": 229.09}
    assert {k: found["tokens"][k] for k in tokens} == tokens
    assert (found["tokens"]["basis"], found["tokens"]["by"]) == ("estimate", "chars/1")
    # passing: a 100 and 40, b 500 and 90, e 400, g 700
    passing = {"counted": 6, "p50": 100, "p90": 700, "p99": 700, "max": 700, "total": 1830, "mean": 305.0}
    assert {k: found["tokens_passing"][k] for k in passing} == passing
    assert [b["max_tokens"] for b in found["bounds"]] == [100, 400, None]
    low, high, last = found["bounds"]
    # within 100: 100, 40, 90, 60, 80 and 50
    assert (low["traces"], low["share"], low["tokens"]) == (6, 0.5, 420)
    assert low["problems"] == {"any": 3, "first": 1, "average": 1.5, "shortest": 2, "longest": 1}
    assert (high["traces"], high["tokens"]) == (9, 1320)
    assert high["share"] == 0.75
    # any: a, b, c, d, e; first: a and e (b's first is 500); average: a 1 + b 1/2 + e 1
    assert high["problems"] == {"any": 5, "first": 2, "average": 2.5, "shortest": 3, "longest": 2}
    assert (last["traces"], last["tokens"]) == (11, 2520)
    assert last["problems"] == {"any": 6, "first": 4, "average": 4.0, "shortest": 4, "longest": 4}
    # shortest of each: a 40, b 90, e 400, g 700
    assert found["needed"] == {"50": 90, "90": 700, "99": 700}


def test_the_skew_of_each_bound(source: Path) -> None:
    low, high, last = facts("yield", source, *T, "--bounds", "100,400")["bounds"]
    # difficulty 1: a; 2: b and h; 3: c, d, f and g; e is unrated
    assert low["skew"]["bands"] == [
        {"label": "1", "problems": 1, "with_passing": 1, "kept": 1},
        {"label": "2", "problems": 2, "with_passing": 1, "kept": 1},
        {"label": "3", "problems": 4, "with_passing": 1, "kept": 0},
    ]
    assert (low["skew"]["kept_mean"], low["skew"]["all_mean"]) == (1.5, 2.0)
    assert (low["skew"]["kept_median"], low["skew"]["all_median"]) == (1.5, 2.0)
    share = low["skew"]["hard_share"]
    assert (round(share["all"], 4), round(share["with_passing"], 4), share["kept"]) == (0.5714, 0.3333, 0.0)
    assert low["skew"]["auc"] == 1.0  # g, which is lost, is harder than a and b
    assert high["skew"]["auc"] == 1.0
    assert last["skew"]["auc"] is None
    assert last["skew"]["kept_mean"] == 2.0


def test_without_difficulty_there_is_no_skew(source: Path) -> None:
    pl.read_parquet(source).drop("rating").write_parquet("plain.parquet")
    found = facts("yield", "plain.parquet", *T, "--bounds", "100")
    assert [b["skew"] for b in found["bounds"]] == [None, None]
    assert found["difficulty"] == {"rated": 0, "unrated": 12}


@pytest.mark.parametrize(
    ("passing", "counted", "shortest"),
    [("known", 6, 4), ("not-failed", 7, 5), ("finished", 9, 6)],
)
def test_which_traces_pass(source: Path, passing: str, counted: int, shortest: int) -> None:
    found = facts("yield", source, *T, "--passing", passing, "--bounds", "100")
    assert found["tokens_passing"]["counted"] == counted
    assert at(found, None)["problems"]["shortest"] == shortest


def test_where_columns_of_other_roles_stay(source: Path) -> None:
    found = facts("yield", source, *T, "--where", "rating >= 2 AND passed", "--bounds", "100")
    # b 500 and 90, f, g and the blank h
    assert (found["traces"], found["passing"]["passed"]) == (5, 5)
    assert found["difficulty"] == {"rated": 5, "unrated": 0}
    assert [b["label"] for b in at(found, 100)["skew"]["bands"]] == ["2", "3"]


def test_by_a_column_that_has_a_role_too(source: Path) -> None:
    found = facts("yield", source, *T, "--by", "rating", "--bounds", "100")
    assert found["difficulty"] == {"rated": 11, "unrated": 1}
    assert {k: v["traces"] for k, v in found["by"].items()} == {"1.0": 4, "2.0": 3, "3.0": 4, "(none)": 1}


def test_by_a_column_the_parts_add_up(source: Path) -> None:
    found = facts("yield", source, *T, "--by", "tag", "--bounds", "100")
    assert sorted(found["by"]) == ["x", "y"]
    assert [found["by"][k]["traces"] for k in "xy"] == [6, 6]
    # y holds rows 0, 2, 4, 6, 8, 10: a 100, a 300 failed, b 90, c, f, and one without a problem
    assert at(found["by"]["y"], 100)["problems"]["shortest"] == 2
    assert at(found["by"]["x"], 100)["problems"]["shortest"] == 1  # a 40; b 500 is over it


def test_the_screen_says_the_decision_first_and_prints_no_nan(source: Path) -> None:
    done = curate("yield", source, *T, "--bounds", "100,400")
    assert done.status == 0
    assert done.out.startswith("100 tokens reach 2 of 4 problems with a passing trace (50%): 100% of the easiest (1), 0% of the")
    assert "nan" not in done.out.lower()
    assert "an old rule and unchecked here" in done.out.replace("\n", " ")
    assert "traces: trace = generation, problem = id" in done.err


def test_one_trace_a_problem_cannot_be_chosen_from(source: Path) -> None:
    write(source, [("a", 50, True, 1, None), ("b", 60, True, 1, None)])
    assert "every problem has one trace, so shortest is first" in curate("yield", source, *T).out


def test_default_bounds_are_standard_lengths_and_all(source: Path) -> None:
    bounds = [b["max_tokens"] for b in facts("yield", "traces.parquet", *T)["bounds"]]
    assert bounds[-1] is None
    standard = {512, 1024, 2048, 4096, 8192, 16384, 24576, 32768, 65536, 131072}
    assert set(bounds[:-1]) <= standard


@pytest.mark.parametrize("thinks", [95, 94, 50, 6, 5])
def test_whether_thinking_is_required_is_decided_by_its_share(source: Path, thinks: int) -> None:
    rows = [(f"p{i}", 50, True, 1, None if i < thinks else text(50, thinks=False)) for i in range(100)]
    write(source, rows)
    found = facts("yield", source, *T, "--bounds", "100")
    assert found["without_thinking"] == 100 - thinks
    assert at(found, 100)["problems"]["shortest"] == (95 if thinks == 95 else 100)
    said = curate("yield", source, *T).out
    assert (f"{thinks} of 100 traces of traces think" in said) == (5 < thinks < 95)
    assert at(facts("yield", source, *T, "--thinking", "required"), None)["problems"]["shortest"] == thinks


def test_ids_of_any_type_are_one_and_blank_ones_are_none(source: Path) -> None:
    ids = [7, "7", 7.0, "", None, "x" * 70, True]
    lines = [json.dumps({"id": i, "generation": text(50), "passed": True}) for i in ids]
    Path("mixed.jsonl").write_text("\n".join(lines) + "\n")
    found = facts("yield", "mixed.jsonl", *T)
    assert (found["problems"], found["rows_without_problem"]) == (3, 2)
    assert found["traces_per_problem"] == {"1": 2, "3": 1}


def test_several_sources_are_pooled_by_problem(source: Path) -> None:
    write(Path("more.parquet"), [("a", 30, True, 1, None), ("z", 99, True, 9, None)])
    found = facts("yield", source, "more.parquet", *T, "--bounds", "35")
    assert (found["traces"], found["problems"]) == (14, 9)
    assert at(found, 35)["problems"] == {"any": 1, "first": 0, "average": 0.33, "shortest": 1, "longest": 0}


def test_verdict_words_and_an_unknown_one_is_an_error_with_its_row(source: Path) -> None:
    words = ["true", "TRUE", "1", "yes", "Yes", "false", "0", "NO", "", None]
    pl.DataFrame({"id": [str(i) for i in range(10)], "generation": [text(50)] * 10, "passed": words}).write_parquet("w.parquet")
    assert facts("yield", "w.parquet", *T)["passing"] == {"basis": "verdict", "passed": 5, "failed": 3, "unknown": 2}
    pl.DataFrame({"id": ["a", "b"], "generation": [text(50)] * 2, "passed": ["yes", "maybe"]}).write_parquet("w.parquet")
    done = curate("yield", "w.parquet", *T)
    assert (done.status, done.out) == (1, "")
    assert "maybe" in done.err
    assert "row 1" in done.err


def test_finish_values_and_the_open_mark(source: Path) -> None:
    finish = ["stop", "EOS", "end_turn", "true", "length", "tool_calls", None, None]
    bodies = [text(50)] * 6 + [text(50), text(50, ended=False)]
    frame = pl.DataFrame({"id": [str(i) for i in range(8)], "generation": bodies, "passed": [True] * 8, "finish_reason": finish})
    frame.write_parquet("f.parquet")
    found = facts("yield", "f.parquet", *T)
    assert found["unfinished"] == 3
    said = curate("yield", "f.parquet", *T).out
    assert "length 1, tool_calls 1" in said


def test_a_ledger_answers_as_its_source_does(source: Path) -> None:
    facts("count", source, *T, "-o", "l.parquet")
    own = facts("yield", source, *T, "--bounds", "100,400")
    held = facts("yield", "l.parquet", "--bounds", "100,400")
    assert held == own


@pytest.mark.parametrize("options", [("--tokenizer", "x"), ("--estimate", "chars/3"), ("--where", "tokens > 3"), ("--problem", "tag"),
                                     ("--by", "tag"), ("--sample", "3"), ("--count", "trace", "--estimate", "bytes/4")])  # fmt: skip
def test_a_ledger_refuses_what_needs_the_text(source: Path, options: tuple[str, ...]) -> None:
    facts("count", source, "-o", "l.parquet")
    done = curate("yield", "l.parquet", *options)
    assert (done.status in (1, 2), done.out) == (True, "")
    assert "ledger" in done.err


def test_a_sample_gives_an_interval_and_whole_data_none(source: Path) -> None:
    write(source, [(f"p{i}", 50 + i, True, 1, None) for i in range(200)])
    part = curate("yield", source, *T, "--sample", "50", "--bounds", "100")
    assert "95 %" in part.out
    assert facts("yield", source, *T, "--sample", "50")["traces"] == 50
    assert "95 %" not in curate("yield", source, *T, "--bounds", "100").out


def test_cards_of_a_model_beside_the_bounds(source: Path) -> None:
    found = facts("yield", source, *T, "--model", "qwen2.5-3b", "--gpu", "t4,a100-40gb")
    assert {card["gpu"] for card in found["cards"]} == {"t4", "a100-40gb"}
    assert {(card["problems"], card["kept_safe"]) for card in found["cards"]} == {(4, 4)}  # 700 tokens fit on every card


def test_a_column_of_counts_is_taken_when_it_is_named(source: Path) -> None:
    frame = pl.read_parquet(source).with_columns(n=pl.lit(5))
    frame.write_parquet("n.parquet")
    found = facts("yield", "n.parquet", "--tokens", "n", "--bounds", "4,5")
    assert (at(found, 4)["traces"], at(found, 5)["traces"]) == (0, 11)
    assert (found["tokens"]["basis"], found["tokens"]["by"]) == ("column", "n")


def test_a_second_question_reads_no_text(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    past = 1_700_000_000
    os.utime(source, (past, past))
    from curate import cache

    monkeypatch.setattr(cache, "SETTLED_NS", 0)
    first = facts("yield", source, *CHARS, "--bounds", "20")
    assert json.loads(curate("cache", "--json").out)["entries"] >= 1
    again = facts("yield", source, *CHARS, "--bounds", "20,30")
    assert at(again, 20) == at(first, 20)


def test_a_folder_with_configs_a_pattern_and_files_that_are_no_data(source: Path) -> None:
    rows: list[Any] = [("a", 50, True, 1, None)]
    for name in (
        "set/one/train-0.parquet",
        "set/two/train-0.parquet",
        "set/_hidden/x.parquet",
        "plain/sub/b.parquet",
        "plain/.git/c.parquet",
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        write(Path(name), rows if "two" not in name else [("b", 60, True, 1, None), ("c", 70, True, 1, None)])
    Path("plain/_SUCCESS").write_text("")
    Path("plain/notes.txt").write_text("mine")
    write(Path("plain/a[1].parquet"), [("z", 99, True, 1, None)])
    configs = "".join(f"- config_name: {n}\n  data_files:\n  - split: train\n    path: {n}/*\n" for n in ("one", "two"))
    Path("set/README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    assert facts("yield", "set:two", *T)["traces"] == 2
    assert facts("yield", "set:one", "set:two", *T)["traces"] == 3
    assert curate("yield", "set", *T).status == 1
    assert facts("yield", "plain", *T)["traces"] == 2  # the hidden folder and the notes are left out
    assert facts("yield", "plain/a[1].parquet", *T)["problems"] == 1  # a path that exists is no pattern
    assert facts("yield", "set/*/train-*.parquet", *T)["traces"] == 3


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst", "t.json", "t.csv", "t.arrow"])
def test_every_kind_of_file_gives_the_same_numbers(source: Path, name: str) -> None:
    import gzip

    import pyarrow as pa
    import zstandard

    frame = pl.read_parquet(source).drop("tag").with_columns(id=pl.col("id").fill_null("")).filter(pl.col("id") != "")
    lines = frame.write_ndjson().encode()
    if name == "t.csv":
        frame.write_csv(name)
    elif name == "t.arrow":
        with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, frame.to_arrow().schema) as writer:
            writer.write_table(frame.to_arrow())
    elif name == "t.json":
        Path(name).write_text(json.dumps(frame.to_dicts()))
    else:
        packed = gzip.compress(lines) if name.endswith("gz") else zstandard.compress(lines) if name.endswith("zst") else lines
        Path(name).write_bytes(packed)
    frame.write_parquet("same.parquet")
    found, same = (facts("yield", n, *T, "--bounds", "100,400") for n in (name, "same.parquet"))
    del found["thinking"], same["thinking"]  # they name the source
    assert found == same
    assert at(found, 100)["problems"]["shortest"] == 2


def test_paths_expressions_and_case(source: Path) -> None:
    lines = [
        {
            "id": 1,
            "info": {"verdict": "Yes", "end": "STOP"},
            "solutions": [{"solution": text(50), "score": 1.0}, {"solution": text(70), "score": 0.2}],
        },
        {"id": 2, "info": {"verdict": "No", "end": "length"}, "solutions": [{"solution": text(60), "score": 0.9}]},
    ]
    Path("deep.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--trace", "solutions[].solution", *T, "--bounds", "55")
    found = facts("yield", "deep.jsonl", *options, "--passed", "info.verdict", "--finish", "info.end")
    assert (found["traces"], found["unfinished"]) == (3, 1)
    assert found["passing"] == {"basis": "verdict", "passed": 2, "failed": 1, "unknown": 0}
    found = facts("yield", "deep.jsonl", *options, "--passed", "score >= 0.5")
    assert (found["passing"]["passed"], at(found, 55)["problems"]["shortest"]) == (2, 1)
    assert facts("yield", "deep.jsonl", *options, "--passed", "score >= 0.5", "--where", "score < 0.95")["traces"] == 2
