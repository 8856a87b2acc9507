"""From files to a ledger: every trace once, in order, with the facts that its text and columns state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate import engine, sources, stretches, tokens
from curate.errors import CurateError
from curate.layout import Columns
from curate.ledger import Meta

T = "<think>a</think>b"  # 17 characters
COUNTER = tokens.rule("chars/1", kind="trace")


def opened(path: Path, **named: str) -> engine.Source:
    return engine.open_source(sources.open_table(path.stem, [path]), Columns(**named))


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def filled(*found: engine.Source, **options: Any) -> tuple[pl.DataFrame, Meta]:
    return engine.fill(list(found), COUNTER, **options)


ROWS = [
    {"id": 7, "generation": T, "passed": "yes", "rating": 1500, "finish_reason": "stop"},
    {"id": "7", "generation": "<think>a", "passed": None, "rating": 0, "finish_reason": None},
    {"id": None, "generation": "", "passed": "no", "rating": None, "finish_reason": "stop"},
    {"id": "", "generation": T + "x", "passed": 1, "rating": "NaN", "finish_reason": "length"},
]


def test_the_facts_of_every_trace(tmp_path: Path) -> None:
    ledger, meta = filled(opened(jsonl(tmp_path / "a.jsonl", ROWS)))
    assert ledger.select("source", "row", "item", "problem", "tokens", "passed", "finished", "thinking", "difficulty").rows() == [
        (0, 0, 0, "7", 17, True, True, True, 1500.0),
        (0, 1, 0, "7", 8, None, False, True, None),
        (0, 2, 0, None, None, False, False, False, None),
        (0, 3, 0, None, 18, True, False, True, None),
    ]
    assert ledger["reason"].null_count() == 4
    (source,) = meta.sources
    assert (source["name"], source["rows"], source["basis"], source["finish"]) == ("a", 4, "verdict", {"length": 1})
    assert source["mapping"]["problem"] == "id"


def test_the_same_ledger_through_every_format_and_cut(tmp_path: Path) -> None:
    rows = [{"id": f"p{i % 7}", "generation": T + "x" * i, "passed": i % 3 == 0} for i in range(50)]
    table = pa.Table.from_pylist(rows)
    jsonl(tmp_path / "a.jsonl", rows)
    (tmp_path / "b.json").write_text(json.dumps(rows))
    pl.DataFrame(rows).write_csv(tmp_path / "c.csv")
    pq.write_table(table, tmp_path / "d.parquet")
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=3)
    pl.DataFrame(rows).write_ipc(tmp_path / "f.arrow", compat_level=pl.CompatLevel.newest())
    ledgers = [filled(opened(path))[0] for path in sorted(tmp_path.iterdir())]
    assert len(ledgers) == 6
    for other in ledgers[1:]:
        assert other.equals(ledgers[0])
    assert ledgers[0]["tokens"].to_list() == [17 + i for i in range(50)]


def test_several_sources_are_pooled_in_their_order(tmp_path: Path) -> None:
    one = opened(jsonl(tmp_path / "one.jsonl", [{"id": 1, "generation": T}]))
    two = opened(jsonl(tmp_path / "two.jsonl", [{"id": "1", "generations": [T, T], "correct": [True, None], "difficulty": 2}]))
    ledger, meta = filled(one, two)
    assert ledger.select("source", "row", "item", "problem", "passed", "difficulty").rows() == [
        (0, 0, 0, "1", None, None),
        (1, 0, 0, "1", True, 2.0),
        (1, 0, 1, "1", None, 2.0),
    ]
    assert [s["basis"] for s in meta.sources] == ["none", "verdict"]


def test_no_id_means_the_prompt(tmp_path: Path) -> None:
    rows = [{"question": q, "generation": T} for q in ("a  b", " a b\n", "c", None)]
    ids = filled(opened(jsonl(tmp_path / "a.jsonl", rows)))[0]["problem"].to_list()
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] is None
    assert ids[0] is not None and ids[0].startswith("sha256:")


def test_a_sample_is_drawn_by_its_seed_and_keeps_its_places(tmp_path: Path) -> None:
    source = opened(jsonl(tmp_path / "a.jsonl", [{"id": i, "generation": T} for i in range(100)]))
    first, again, other = (filled(source, sample=10, seed=s)[0] for s in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    assert first.height == 10
    assert first["problem"].to_list() == [str(r) for r in first["row"].to_list()] == sorted(first["problem"].to_list(), key=int)
    whole, meta = filled(source, sample=1000)
    assert whole.height == 100
    assert filled(source, sample=10)[1].sources[0]["rows"] == 10
    assert meta.sources[0]["rows"] == 100


def test_rows_left_out_are_counted(tmp_path: Path) -> None:
    source = opened(jsonl(tmp_path / "a.jsonl", [{"id": i, "generation": T, "n": i} for i in range(10)]), where="n >= 7")
    ledger, meta = filled(source)
    assert ledger["row"].to_list() == [7, 8, 9]
    assert meta.sources[0]["excluded_rows"] == 7


def test_other_names_of_a_problem_are_one_problem(tmp_path: Path) -> None:
    long = "x" * 80
    rows = [
        {"id": "b", "generation": T, "al": ["a"]},
        {"id": "c", "generation": T, "al": ["b", None]},
        {"id": "d", "generation": T, "al": []},
        {"id": long, "generation": T, "al": None},
        {"id": "e", "generation": T, "al": [long]},
    ]
    ids = filled(opened(jsonl(tmp_path / "a.jsonl", rows), aliases="al"))[0]["problem"].to_list()
    assert ids[0] == ids[1] == "a"
    assert ids[2] == "d"
    assert ids[3] == ids[4] == "e"


@pytest.mark.parametrize("al", ["2", 2, 2.0])
def test_a_single_other_name(tmp_path: Path, al: object) -> None:
    rows = [{"id": 1, "generation": T, "al": al}, {"id": 2, "generation": T, "al": None}]
    assert filled(opened(jsonl(tmp_path / "a.jsonl", rows), aliases="al"))[0]["problem"].to_list() == ["1", "1"]


def test_a_verdict_that_is_none_is_named_by_its_row_of_the_source(tmp_path: Path) -> None:
    rows = [{"id": i, "generations": [T, T], "correct": ["yes", "maybe" if i == 8 else "no"], "n": i} for i in range(10)]
    path = jsonl(tmp_path / "a.jsonl", rows)
    for named in ({}, {"where": "n > 5"}):
        with pytest.raises(CurateError, match="Column correct of a holds 'maybe' in row 8,"):
            filled(opened(path, **named))


def test_the_publishers_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "generation": [T, None], "n": [5, None], "bad": [None, 1], "s": ["x", "y"]}), path)
    ledger, meta = filled(opened(path, tokens="n"))
    assert ledger["tokens"].to_list() == [5, None]
    assert (meta.tokens["basis"], meta.tokens["by"]) == ("column", "n")
    for name in ("bad", "s"):
        with pytest.raises(CurateError, match=f"--tokens {name}: 1 trace"):
            filled(opened(path, tokens=name))


def test_words_of_difficulty_have_an_order(tmp_path: Path) -> None:
    rows = [{"id": i, "generation": T, "difficulty": d} for i, d in enumerate(["hard", "easy", "medium", None])]
    ledger, meta = filled(opened(jsonl(tmp_path / "a.jsonl", rows)))
    by = dict(zip(ledger["problem"].to_list(), ledger["difficulty"].to_list(), strict=True))
    assert by["1"] < by["2"] < by["0"]
    assert by["3"] is None
    assert meta.labels == ("easy", "medium", "hard")


def test_zero_rows_make_an_empty_ledger(tmp_path: Path) -> None:
    for name, dtype in (("generation", pa.string()), ("generations", pa.list_(pa.string()))):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"id": pa.array([], pa.string()), name: pa.array([], dtype)}), path)
        ledger, meta = filled(opened(path))
        assert ledger.height == 0
        assert meta.sources[0]["basis"] == "none"


def test_streamed_results_keep_the_order_and_raise_the_fault() -> None:
    def work(n: int) -> Any:
        if n == 7:
            raise CurateError("seven")
        yield from range(n * 10, n * 10 + n)

    assert list(stretches.streamed(work, range(5), workers=3)) == [10, 20, 21, 30, 31, 32, 40, 41, 42, 43]
    got = []
    with pytest.raises(CurateError, match="seven"):
        for item in stretches.streamed(work, range(9), workers=3):
            got.append(item)
    assert got == [n * 10 + k for n in range(7) for k in range(n)]


def test_a_consumer_that_stops_early_ends_the_workers() -> None:
    def work(n: int) -> Any:
        while True:
            yield n

    stream = stretches.streamed(work, range(3), workers=2)
    assert [next(stream) for _ in range(5)] == [0] * 5
    stream.close()  # type: ignore[attr-defined]
