"""What stands next to each reported fault: the same kind of input, one step on."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cases.checks import Result, at
from tests.cases.make_inputs import lines, parquet, thought, tokenizer, words
from tests.cases.runner import run

ROW = {"id": "p", "generation": thought(4), "passed": True}
EASY = ("--passing", "finished", "--thinking", "optional")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a cache and a Hub folder of its own for each test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def told(*arguments: str) -> dict[str, object]:
    return run(*arguments, "--json").json


def refused(result: Result, *said: str) -> None:
    """One sentence that holds the words, and nothing of the machinery."""
    assert result.code == 1, result.said[-500:]
    for word in said:
        assert word in result.said
    assert "Traceback" not in result.said
    assert "PLAN" not in result.said


def ledger(source: str | Path, *options: str) -> pl.DataFrame:
    assert run("count", str(source), *options, "-o", "ledger.parquet").code == 0
    return pl.read_parquet("ledger.parquet").sort("source", "row", "item")


# --- lines ----------------------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    file = tmp_path / "bom.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(json.dumps(ROW | {"id": i}) for i in ("p", "q")).encode())
    assert ledger(file)["problem"].to_list() == ["p", "q"]


def test_gzip_members_joined_are_one_file(tmp_path: Path) -> None:
    file = tmp_path / "joined.jsonl.gz"
    members = [json.dumps(ROW | {"id": i}).encode() + b"\n" for i in ("p", "q", "r")]
    file.write_bytes(gzip.compress(members[0]) + gzip.compress(members[1] + members[2]))
    assert ledger(file)["problem"].to_list() == ["p", "q", "r"]


def test_a_gzip_file_cut_short_is_named(tmp_path: Path) -> None:
    file = tmp_path / "short.jsonl.gz"
    whole = gzip.compress(b"".join(json.dumps(ROW | {"id": str(i), "n": os.urandom(9).hex()}).encode() + b"\n" for i in range(400)))
    file.write_bytes(whole[: len(whole) // 2])
    refused(run("yield", str(file)), "short.jsonl.gz")


@pytest.mark.parametrize(("broken", "number"), [(0, 1), (2, 3), (4, 5)])
def test_the_broken_line_is_named_wherever_it_is(tmp_path: Path, broken: int, number: int) -> None:
    rows = [json.dumps(ROW | {"id": f"p{i}"}) for i in range(5)]
    rows[broken] = rows[broken][:-9]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    refused(run("yield", str(tmp_path / "t.jsonl")), "t.jsonl", f"line {number}", "--skip-bad-rows")
    found = told("yield", str(tmp_path / "t.jsonl"), "--skip-bad-rows")
    assert (found["rows"], found["bad_rows"]) == (4, 1)


@pytest.mark.parametrize("line", ["[1, 2]", "17", '"text"', "null"])
def test_a_line_that_is_json_but_no_row_is_a_bad_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(ROW)}\n{line}\n{json.dumps(ROW)}\n")
    refused(run("yield", str(tmp_path / "t.jsonl")), "line 2")
    assert told("yield", str(tmp_path / "t.jsonl"), "--skip-bad-rows")["rows"] == 2


def test_a_lone_surrogate_does_not_end_the_program(tmp_path: Path) -> None:
    row = '{"id": "p", "generation": "a \\ud83d b", "passed": true}'
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(ROW)}\n{row}\n")
    result = run("yield", str(tmp_path / "t.jsonl"))
    assert result.code == 0 or "line 2" in result.said
    assert "Traceback" not in result.said


def test_a_utf16_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "wide.jsonl").write_text(json.dumps(ROW), encoding="utf-16")
    refused(run("yield", str(tmp_path / "wide.jsonl")), "wide.jsonl", "line 1")


def test_nul_in_an_id_is_part_of_the_id(tmp_path: Path) -> None:
    lines(tmp_path / "t.jsonl", [ROW | {"id": "p\0a"}, ROW | {"id": "p\0b"}, ROW])
    assert ledger(tmp_path / "t.jsonl")["problem"].to_list() == ["p\0a", "p\0b", "p"]


# --- files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b'{"id": 1}\n'])
def test_what_only_claims_to_be_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    parquet(tmp_path / "shards" / "a.parquet", {k: [v] for k, v in ROW.items()})
    (tmp_path / "shards" / "b.parquet").write_bytes(content)
    refused(run("yield", str(tmp_path / "shards")), "b.parquet")


@pytest.mark.parametrize("name", ["a[1].parquet", "two words.parquet", "Übung ?.parquet", "star*.parquet", "#hash.parquet"])
def test_a_path_that_exists_is_never_a_pattern(tmp_path: Path, name: str) -> None:
    parquet(tmp_path / "odd [x] *" / name, {k: [v] for k, v in ROW.items()})
    parquet(tmp_path / "odd [x] *" / "a1.parquet", {k: [v, v] for k, v in ROW.items()})
    assert told("yield", str(tmp_path / "odd [x] *" / name))["rows"] == 1
    assert told("yield", str(tmp_path / "odd [x] *"))["rows"] == 3


def test_a_link_to_a_file_is_read_and_a_loop_of_folders_ends(tmp_path: Path) -> None:
    parquet(tmp_path / "real" / "a.parquet", {k: [v] for k, v in ROW.items()})
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "b.parquet").symlink_to(tmp_path / "real" / "a.parquet")
    (tmp_path / "set" / "again").symlink_to(tmp_path / "set")
    assert told("yield", str(tmp_path / "set"))["rows"] == 1


def test_an_empty_folder_and_a_missing_file_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    refused(run("yield", str(tmp_path / "empty")), "empty")
    refused(run("yield", str(tmp_path / "gone.parquet")), "gone.parquet")


def test_a_column_that_comes_late_or_changes_its_type_between_shards(tmp_path: Path) -> None:
    parquet(tmp_path / "s" / "a.parquet", {"id": [1, 2], "generation": [thought(3)] * 2, "passed": [True] * 2})
    late = {
        "id": ["2", "x"],
        "generation": pa.array([thought(4)] * 2).dictionary_encode(),
        "passed": [True] * 2,
        "rating": [900.0, 1200.0],
    }
    parquet(tmp_path / "s" / "b.parquet", late)
    got = ledger(tmp_path / "s")
    assert got["problem"].to_list() == ["1", "2", "2", "x"]
    assert got["difficulty"].to_list() == [None, None, 900.0, 1200.0]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_every_way_to_store_text(tmp_path: Path, kind: pa.DataType) -> None:
    texts = (
        pa.array([thought(3), None, thought(5)]).cast(kind)
        if not pa.types.is_dictionary(kind)
        else pa.array([thought(3), None, thought(5)]).dictionary_encode()
    )
    parquet(tmp_path / "t.parquet", {"id": ["p", "q", "r"], "generation": texts, "passed": [True] * 3})
    found = told("yield", str(tmp_path / "t.parquet"))
    assert (found["rows"], found["bad_rows"], found["problems"]) == (3, 1, 3)


def test_zero_rows_are_zero_of_zero(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("generation", pa.string()), ("passed", pa.bool_())])
    pq.write_table(schema.empty_table(), tmp_path / "none.parquet")
    found = told("yield", str(tmp_path / "none.parquet"), "--bounds", "100")
    assert (found["traces"], at(found, 100)["traces"], at(found, 100)["share"]) == (0, 0, None)
    result = run("select", str(tmp_path / "none.parquet"), "--shortest", *EASY, "-o", "out")
    assert result.code == 0
    assert pl.read_parquet("out/data").height == 0


# --- rows -----------------------------------------------------------------------------------------------------------------


def test_ids_of_every_json_type_are_text(tmp_path: Path) -> None:
    ids = [12345678901234567890, -5, "-5", 2.5, "2.5", 1e3, 1000]
    lines(tmp_path / "t.jsonl", [ROW | {"id": i} for i in ids])
    assert ledger(tmp_path / "t.jsonl")["problem"].to_list() == ["12345678901234567890", "-5", "-5", "2.5", "2.5", "1000", "1000"]


def test_lists_that_do_not_line_up_in_every_way(tmp_path: Path) -> None:
    rows = [
        {"id": "null verdicts", "generations": ["a", "b"], "passed": None},
        {"id": "no generations", "generations": [], "passed": []},
        {"id": "null generations", "generations": None, "passed": [True]},
        {"id": "too many", "generations": ["a"], "passed": [True, True]},
        {"id": "good", "generations": ["a", "b"], "passed": [False, True]},
    ]
    lines(tmp_path / "t.jsonl", rows)
    out = told("select", str(tmp_path / "t.jsonl"), "--shortest", "--thinking", "optional", "-o", "out")
    kept = pl.read_parquet("out/ledger.parquet").filter(pl.col("reason").is_null())
    assert kept.select("problem", "item").rows() == [("good", 1)]
    assert out["traces"] == out["kept"] + sum(out["dropped"].values())  # type: ignore[attr-defined,operator]


def test_conflicting_ratings_of_one_problem_stop(tmp_path: Path) -> None:
    lines(tmp_path / "t.jsonl", [ROW, ROW | {"id": 7}])
    lines(tmp_path / "r.jsonl", [{"id": "p", "rating": 900}, {"id": "7", "rating": 1500}, {"id": "p", "rating": 1000}])
    refused(run("yield", str(tmp_path / "t.jsonl"), "--difficulty-from", str(tmp_path / "r.jsonl")), "p", "900", "1000")


def test_ratings_join_whatever_the_type_of_the_id(tmp_path: Path) -> None:
    lines(tmp_path / "t.jsonl", [ROW | {"id": 7}, ROW | {"id": "8"}])
    parquet(tmp_path / "r.parquet", {"id": [8.0, 7.0], "rating": [1500, 900]})
    got = ledger(tmp_path / "t.jsonl", "--difficulty-from", str(tmp_path / "r.parquet"))
    assert got["difficulty"].to_list() == [900.0, 1500.0]


def test_ratings_of_zero_and_below_are_no_ratings(tmp_path: Path) -> None:
    rows = [ROW | {"id": f"p{i}", "rating": r} for i, r in enumerate((0, -1, 1, 3500))]
    lines(tmp_path / "t.jsonl", rows)
    assert ledger(tmp_path / "t.jsonl")["difficulty"].to_list() == [None, None, 1.0, 3500.0]


def test_terminal_escapes_and_line_ends_of_an_id_never_reach_the_terminal(tmp_path: Path) -> None:
    rows = [
        {"id": "\x1b[31mred\nx", "generations": ["a", "b"], "passed": [True]},
        {"id": "q", "generations": ["a"], "passed": [True]},
    ]
    lines(tmp_path / "t.jsonl", rows)
    for command in (("inspect",), ("yield",), ("select", "--shortest", "--thinking", "optional", "-o", "out")):
        result = run(command[0], str(tmp_path / "t.jsonl"), *command[1:])
        assert result.code == 0, result.said
        assert "\x1b" not in result.out + result.err


# --- bounds, caches, outputs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [("--bounds", "0"), ("--bounds", "ten"), ("--bounds", "5,-1"), ("--estimate", "words/2")])
def test_impossible_options_are_refused_before_any_work(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = run("yield", str(tmp_path / "not read.parquet"), *options)
    assert result.code == 2
    assert "not read" not in result.said


def test_a_tokenizer_that_changed_in_place_counts_anew(tmp_path: Path) -> None:
    lines(tmp_path / "t.jsonl", [{"id": f"p{n}", "generation": " ".join(["x+y"] * n)} for n in (2, 3)])
    os.utime(tmp_path / "t.jsonl", (time.time() - 3600,) * 2)  # old enough for the cache to trust
    options = ("--tokenizer", str(tmp_path / "tok"), "--count", "trace")
    tokenizer(tmp_path / "tok")
    assert ledger(tmp_path / "t.jsonl", *options)["tokens"].to_list() == [2, 3]
    tokenizer(tmp_path / "tok", specials=["+"])
    assert ledger(tmp_path / "t.jsonl", *options)["tokens"].to_list() == [6, 9]


def test_data_that_changed_in_place_are_counted_anew(tmp_path: Path) -> None:
    tokenizer(tmp_path / "tok")
    options = ("--tokenizer", str(tmp_path / "tok"), "--count", "trace")
    for n in (3, 8):
        lines(tmp_path / "t.jsonl", [{"id": "p", "generation": words(n)}])
        os.utime(tmp_path / "t.jsonl", (time.time() - 3600 + n,) * 2)
        assert ledger(tmp_path / "t.jsonl", *options)["tokens"].to_list() == [n]


def test_an_output_that_is_a_file_or_the_source_itself_is_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "set" / "a.parquet", {k: [v] for k, v in ROW.items()})
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "set"):
        result = run("select", str(tmp_path / "set"), "--shortest", *EASY, "-o", str(out), "--overwrite")
        assert result.code in (1, 2)
    assert (tmp_path / "file").read_text() == "mine"
    assert [f.name for f in (tmp_path / "set").iterdir()] == ["a.parquet"]


def test_the_same_input_and_options_give_the_same_bytes(tmp_path: Path) -> None:
    parquet(
        tmp_path / "a.parquet", {"id": ["p", "p", "q"], "generation": [thought(9), thought(4), thought(5)], "passed": [True] * 3}
    )
    for name in ("one", "two"):
        assert run("select", str(tmp_path / "a.parquet"), "--shortest", "-o", name).code == 0
    one, two = ({f.relative_to(r): f.read_bytes() for f in sorted(Path(r).rglob("*")) if f.is_file()} for r in ("one", "two"))
    assert one == two
