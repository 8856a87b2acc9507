"""JSON lines, JSON and CSV: one type a column whatever the rows disagree on, and what is wrong by its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import zstandard

from curate import rows, sources
from curate.errors import CurateError


def read(path: Path, **options: bool) -> list[dict[str, Any]]:
    table = sources.open_table(path.name, [path], **options)  # type: ignore[arg-type]
    return [row for task in table.tasks for batch in task.read(None) for row in batch.data.to_pylist()]


def lines(path: Path, *texts: str) -> Path:
    path.write_text("".join(t + "\n" for t in texts), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ([1, 2.5], [1.0, 2.5]),
        ([1, "a"], ["1", "a"]),
        ([1.0, "a", 1.5, 2.0**60], ["1", "a", "1.5", "1.152921504606847e+18"]),
        ([True, "a", None], ["true", "a", None]),
        ([True, 1], ["true", "1"]),
        ([2**53, 2**53 + 1], [2**53, 2**53 + 1]),
        ([2**53 + 1, 0.5], ["9007199254740993", "0.5"]),
        ([2**64 - 1], [2**64 - 1]),
        ([2**64 - 1, 1], ["18446744073709551615", "1"]),
        ([2**70, 5], ["1180591620717411303424", "5"]),
        (["a", ["b", "c"]], [["a"], ["b", "c"]]),
        (["a", []], [["a"], []]),
        ([["a"], None, [None]], [["a"], None, [None]]),
        ([[1], ["a"]], [["1"], ["a"]]),
        ([{"x": 1}, {"y": "b"}], [{"x": 1, "y": None}, {"x": None, "y": "b"}]),
        ([{"x": 1}, "a"], ['{"x": 1}', "a"]),
        ([{"x": {"y": None}}, {"x": {"y": [1]}}], [{"x": {"y": None}}, {"x": {"y": [1]}}]),
        ([{}, None], ["{}", None]),
        ([[], []], [[], []]),
        ([None, None], [None, None]),
        (["a", [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]], ["a", "bc"]),
        ([[{"type": "thinking", "thinking": "r"}], "a"], ["<think>\nr\n</think>\n\n", "a"]),
        ([{"a": "é"}, 1], ['{"a": "é"}', "1"]),
    ],
)
def test_values_that_disagree(tmp_path: Path, given: list[Any], read_as: list[Any]) -> None:
    path = lines(tmp_path / "a.jsonl", *(json.dumps({"v": v}) for v in given))
    assert [r["v"] for r in read(path)] == read_as


def test_a_late_column_is_null_before(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", '{"a": 1}', '{"b": [2], "a": null}', '{"c": NaN}')
    got = read(path)
    assert [list(r) for r in got] == [["a", "b", "c"]] * 3
    assert [(r["a"], r["b"]) for r in got] == [(1, None), (None, [2]), (None, None)]
    assert got[2]["c"] != got[2]["c"]  # NaN


def test_nan_among_texts_is_nothing(tmp_path: Path) -> None:
    assert [r["id"] for r in read(lines(tmp_path / "a.jsonl", '{"id": NaN}', '{"id": "x"}'))] == [None, "x"]


def test_bom_crlf_blank_lines_and_odd_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": "x\\u0000y"}\r\n\r\n  \n{"a": "\xe2\x80\xa8"}\r\n{"a": "no line end"}')
    assert [r["a"] for r in read(path)] == ["x\0y", "\u2028", "no line end"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"a": ', "line 2: is not valid JSON (Expecting value, column 7)"),
        (b"[1]", "line 2: holds a list, not an object with columns"),
        (b"null", "line 2: holds null, not an object"),
        (b'"a"', "line 2: holds text, not an object"),
        (b"7", "line 2: holds a number, not an object"),
        (b"true", "line 2: holds true or false, not an object"),
        (b'{"a": "\xff"}', "line 2: the byte 0xFF at byte 8 of the line is not UTF-8"),
        (b'{"a": "\\ud83d"}', "line 2: holds half of a surrogate pair"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "line 2: is nested more than 256 deep"),
        (b'{"a": ' + b"[" * 1010 + b"]" * 1010 + b"}", "line 2: is nested more than 256 deep"),
        (b'{"a": ' + b"[" * 100_000, "line 2: is nested more than 256 deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "line 2: is not valid JSON"),
    ],
)
def test_a_bad_line_is_named_or_left_out(tmp_path: Path, line: bytes, why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 2}\n')
    with pytest.raises(CurateError) as caught:
        read(path)
    assert f"{path} {why}" in str(caught.value)
    assert "--skip-bad-rows" in str(caught.value)
    assert read(path, skip_bad_rows=True) == [{"a": 1}, {"a": 2}]
    assert sources.open_table("a", [path], skip_bad_rows=True).bad_lines[0].startswith(f"{path} {why}")


def test_nesting_within_the_limit_is_text_from_32_on(tmp_path: Path) -> None:
    deep = "[" * 200 + "]" * 200
    got = read(lines(tmp_path / "a.jsonl", '{"a": ' + deep + "}"))[0]["a"]
    for _ in range(31):
        assert isinstance(got, list)
        got = got[0]
    assert got == ["[" * (200 - 32) + "]" * (200 - 32)] or got == "[" * (200 - 31) + "]" * (200 - 31)


def test_many_columns_are_columns_and_more_are_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "a.jsonl", *(json.dumps({"id": i, f"c{i}": i}) for i in range(600)))
    assert len(read(path)[0]) == 601
    wide = lines(tmp_path / "b.jsonl", json.dumps({"v": {f"c{i}": 1 for i in range(513)}}))
    assert json.loads(read(wide)[0]["v"])["c512"] == 1
    monkeypatch.setattr(rows, "MAX_COLUMNS", 100)
    with pytest.raises(CurateError, match="has over 100 different columns: its rows are maps"):
        read(path)


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_LINE", 100)
    with pytest.raises(CurateError, match="has a line of over 100 bytes"):
        read(lines(tmp_path / "a.jsonl", json.dumps({"a": "x" * 200})))


def test_blocks_cut_between_lines_and_keep_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BLOCK_BYTES", 40)
    path = lines(tmp_path / "a.jsonl", *(json.dumps({"a": i}) if i % 5 else "" for i in range(50)))
    table = sources.open_table("a", [path])
    assert len(table.tasks) > 5
    assert sum(t.rows for t in table.tasks) == table.rows == 40
    for task in table.tasks:
        at = task.row
        for batch in task.read(["a"]):
            assert batch.row == at
            at += batch.data.num_rows
        assert at == task.row + task.rows
    assert [r["a"] for r in read(path)] == [i for i in range(50) if i % 5]


def test_a_file_that_changed_meanwhile_is_an_error(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", '{"a": 1}', '{"a": 2}')
    table = sources.open_table("a", [path])
    lines(path, '{"a": 1}', "")
    with pytest.raises(CurateError, match="changed while it was read"):
        list(table.tasks[0].read(None))


# --- packed -----------------------------------------------------------------------------------------------------------

BODY = b"".join(json.dumps({"a": i}).encode() + b"\n" for i in range(1000))


def packed(how: str, data: bytes) -> bytes:
    return gzip.compress(data) if how == "gz" else zstandard.compress(data)


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_packed_lines_joined_members_and_endings_in_capitals(tmp_path: Path, how: str) -> None:
    path = tmp_path / f"A.JSONL.{how.upper()}"
    path.write_bytes(packed(how, BODY[:500]) + packed(how, b"") + packed(how, BODY[500:]))
    assert [r["a"] for r in read(path)] == list(range(1000))


@pytest.mark.parametrize("how", ["gz", "zst"])
@pytest.mark.parametrize("cut", [-1, -4, -8, -30, 20])
def test_packed_files_cut_short_are_never_read_as_whole(tmp_path: Path, how: str, cut: int) -> None:
    path = tmp_path / f"a.jsonl.{how}"
    path.write_bytes(packed(how, BODY)[:cut])
    with pytest.raises(CurateError, match="cannot be unpacked: it is damaged or cut short"):
        read(path)


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_packed_files_that_are_damaged(tmp_path: Path, how: str) -> None:
    for i, data in enumerate((b"plain text", packed(how, BODY) + b"garbage")):
        path = tmp_path / f"{i}.jsonl.{how}"
        path.write_bytes(data)
        with pytest.raises(CurateError, match="cannot be unpacked"):
            read(path)
    for at in range(10, 200, 7):
        data = bytearray(packed(how, BODY))
        data[at] ^= 0xFF
        path = tmp_path / f"flip{at}.jsonl.{how}"
        path.write_bytes(bytes(data))
        try:
            read(path, skip_bad_rows=True)
        except CurateError:
            continue
        assert how == "zst"  # zstandard writes no checksum unless it is asked to


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('{"p1": {"t": "x"}, "p2": {"t": "y"}}', [{"problem": "p1", "t": "x"}, {"problem": "p2", "t": "y"}]),
        ('{"k": {"problem": "q", "t": "x"}}', [{"key": "k", "problem": "q", "t": "x"}]),
        ('{"version": 1, "data": [{"a": 1}]}', [{"a": 1}]),
        ('{"id": 1, "t": "x"}', [{"id": 1, "t": "x"}]),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('\ufeff\n[\n{"a": NaN}\n]\n'.replace("NaN", "1"), [{"a": 1}]),
    ],
)
def test_documents(tmp_path: Path, text: str, found: list[dict[str, Any]]) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    assert read(path) == found


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'[\n{"a": 1},\n{"a": ', " line 3: is not valid JSON (Expecting value, column 7)"),
        (b'[\n{"a": "\xff"}]', " line 2: the byte 0xFF at byte 8 of the line is not UTF-8"),
        (b"[1, 2]", ": item 0 of the list is a number, not an object"),
        (b'"text"', " holds text, not rows"),
        (b'{"a": [{"x": 1}], "b": [{"x": 1}]}', " holds several lists of rows: a, b"),
        (b'[{"a": ' + b"[" * 400 + b"]" * 400 + b"}]", ": is nested more than 256 deep"),
    ],
)
def test_documents_that_are_wrong(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(CurateError) as caught:
        read(path)
    assert f"{path}{why}" in str(caught.value)


def test_a_document_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_DOCUMENT", 1000)
    for name in ("bomb.json.gz", "bomb.csv.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b"[\n" + b'{"a": 1},\n' * 1000))
        with pytest.raises(CurateError, match="in one document, which is read as a whole"):
            read(path)


# --- CSV --------------------------------------------------------------------------------------------------------------


def test_csv_keeps_what_numbers_would_lose(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'\xef\xbb\xbfid,n,f,ok,t,none,big\r\n007,1,1.5,True,"a\r\nb ""q""",,9007199254740993\r\n7,-2,1e3,false,x,,1\r\n,,,,,,\r\n'
    )
    assert read(path) == [
        {"id": "007", "n": 1, "f": 1.5, "ok": True, "t": 'a\r\nb "q"', "none": None, "big": 9007199254740993},
        {"id": "7", "n": -2, "f": 1000.0, "ok": False, "t": "x", "none": None, "big": 1},
        dict.fromkeys(["id", "n", "f", "ok", "t", "none", "big"]),
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a,b\n1,2\n3\n4,5,6\n", "line 4 has 3 fields, the header has 2|line 3 has 1 fields, the header has 2"),
        (b"a,b\n1,\xff\n", "line 2: the byte 0xFF is not UTF-8"),
        (b'a,b\n1,"' + b"x" * 200_000 + b'"\n2,3,4\n', "line 3 has 3 fields, the header has 2"),
        (b'a,b\n1,"open\n2,x\n', "line 3: unexpected end of data"),
    ],
)
def test_csv_that_is_wrong(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(CurateError, match=why):
        read(path)


# --- several files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.int64(), pa.string(), pa.large_string()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.bool_(), pa.int64(), pa.string()),
        (pa.int64(), pa.uint64(), pa.string()),
        (pa.uint32(), pa.int64(), pa.int64()),
        (pa.null(), pa.list_(pa.string()), pa.list_(pa.string())),
        (pa.string(), pa.list_(pa.string()), pa.list_(pa.string())),
        (pa.large_string(), pa.list_(pa.string()), pa.list_(pa.large_string())),
        (pa.struct([("x", pa.int64())]), pa.string(), pa.large_string()),
        (pa.list_(pa.null()), pa.list_(pa.string()), pa.list_(pa.string())),
        (pa.binary(), pa.string(), pa.large_string()),
    ],
)
def test_one_type_for_two_files(a: pa.DataType, b: pa.DataType, both: pa.DataType) -> None:
    for first, second in ((a, b), (b, a)):
        assert rows.unify([pa.schema([("v", first)]), pa.schema([("v", second)])]).field("v").type == both


def test_records_of_two_files_have_the_fields_of_both() -> None:
    types = [pa.struct([("x", pa.int64()), ("z", pa.null())]), pa.struct([("y", pa.int64()), ("z", pa.string())])]
    got = rows.unify([pa.schema([("v", t)]) for t in types]).field("v").type
    assert {f.name: f.type for f in got} == {"x": pa.int64(), "y": pa.int64(), "z": pa.string()}


@pytest.mark.parametrize(
    ("values", "dtype", "read_as"),
    [
        ([7.0, 7.5, float("nan"), None], pa.large_string(), ["7", "7.5", None, None]),
        ([7, None], pa.string(), ["7", None]),
        ([True], pa.string(), ["true"]),
        (["a", None], pa.list_(pa.string()), [["a"], None]),
        ([{"x": 1}], pa.string(), ['{"x": 1}']),
        ([{"x": 1}], pa.struct([("y", pa.string()), ("x", pa.float64())]), [{"y": None, "x": 1.0}]),
        ([[{"x": 1}]], pa.list_(pa.struct([("x", pa.float64()), ("y", pa.string())])), [[{"x": 1.0, "y": None}]]),
        ([b"a", b"\xff"], pa.large_string(), ["a", "\ufffd"]),
        ([None], pa.list_(pa.string()), [None]),
    ],
)
def test_a_batch_takes_the_type_of_the_pool(values: list[Any], dtype: pa.DataType, read_as: list[Any]) -> None:
    batch = pa.RecordBatch.from_pydict({"v": pa.array(values), "gone": pa.array(values)})
    got = rows.conform(batch, pa.schema([("new", pa.int64()), ("v", dtype)]))
    assert got.schema.types == [pa.int64(), dtype]
    assert got.to_pydict() == {"new": [None] * len(values), "v": read_as}


def test_types_that_polars_cannot_hold_are_read_as_others() -> None:
    odd = {
        pa.string_view(): pa.large_string(),
        pa.list_(pa.string_view()): pa.list_(pa.large_string()),
        pa.dictionary(pa.int8(), pa.string()): pa.string(),
        pa.list_(pa.dictionary(pa.int8(), pa.string())): pa.list_(pa.string()),
        pa.run_end_encoded(pa.int32(), pa.int64()): pa.int64(),
        pa.struct([("x", pa.binary_view())]): pa.struct([("x", pa.large_binary())]),
        pa.month_day_nano_interval(): pa.string(),
        pa.struct([]): pa.null(),
        pa.uuid(): pa.binary(16),
        pa.int64(): pa.int64(),
    }
    assert {t: rows.plain(t) for t in odd} == odd
    for dtype in odd.values():
        pl.DataFrame(pl.from_arrow(pa.schema([("v", dtype)]).empty_table()))
