"""JSON lines with rows that disagree, against a plain reading; and the same records through every format and cut."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.laws.strategies  # noqa: F401 - the profile of the laws
from curate import arrays, records, rows, sources
from curate.errors import CurateError

WORD = st.text('ab é"\\\n\x00\u2028<>', max_size=5)
SCALAR = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([2**53 + 1, 2**63, -(2**63)]) | st.floats(-4, 4) | WORD
NESTED = st.recursive(
    SCALAR, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from("xyz"), v, max_size=2), max_leaves=6
)
VALUE = NESTED | st.just(2**70)  # longer than 64 bits: exact as a column's own value, where ids are
RECORD = st.dictionaries(st.sampled_from("abcd"), VALUE, max_size=4)


@contextmanager
def file(name: str, data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def read(path: Path) -> list[dict[str, Any]]:
    table = sources.open_table("t", [path], skip_bad_rows=True)
    return [r for t in table.tasks for b in t.read(None) for r in b.data.to_pylist()]


def agrees(value: Any, got: Any) -> bool:
    """Whether ``got`` says what ``value`` says: itself, as text, as JSON, or as a list of one; missing fields are null."""
    if value is None:
        return got is None
    if isinstance(got, str) and not isinstance(value, str):
        if isinstance(value, float):
            return math.isclose(float(got), value)
        return got == json.dumps(value, ensure_ascii=False)
    if isinstance(got, list) and not isinstance(value, list):
        return len(got) == 1 and agrees(value, got[0])
    if isinstance(value, list):
        return isinstance(got, list) and len(got) == len(value) and all(map(agrees, value, got))
    if isinstance(value, dict):
        return isinstance(got, dict) and set(value) <= set(got) and all(agrees(value.get(k), v) for k, v in got.items())
    if isinstance(value, bool) or isinstance(got, bool):
        return value is got
    return bool(value == got)


@given(st.lists(RECORD, min_size=1, max_size=5))
def test_every_value_is_read_as_what_it_is_or_as_its_text(records: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()
    with file("a.jsonl", data) as path:
        if not any(records):
            return  # no column anywhere: refused elsewhere
        got = read(path)
    assert len(got) == len(records)
    names = list(dict.fromkeys(k for r in records for k in r))
    for record, row in zip(records, got, strict=True):
        assert list(row) == names
        assert all(agrees(record.get(k), row[k]) for k in names), (record, row)


@given(st.lists(RECORD, min_size=1, max_size=5), st.integers(1, 120))
def test_the_cut_into_blocks_changes_nothing(records: list[dict[str, Any]], block: int) -> None:
    data = "\r\n".join(json.dumps({"id": i, **r}) for i, r in enumerate(records)).encode()
    with file("a.jsonl", data) as path:
        whole = read(path)
        before = rows.BLOCK_BYTES
        try:
            rows.BLOCK_BYTES = block  # type: ignore[misc]
            assert read(path) == whole
        finally:
            rows.BLOCK_BYTES = before  # type: ignore[misc]


@given(st.lists(RECORD, min_size=1, max_size=4), st.integers(1, 60))
def test_a_document_and_its_lines_are_the_same_rows(records: list[dict[str, Any]], block: int) -> None:
    records = [{"id": i, **r} for i, r in enumerate(records)]
    with file("a.jsonl", "".join(json.dumps(r) + "\n" for r in records).encode()) as path:
        lines = read(path)
    with file("a.json", json.dumps(records, indent=1).encode()) as path:
        assert read(path) == lines
        with item_by_item(block):
            assert read(path) == lines
            assert rows.scan_array(path) is not None


@given(st.binary(max_size=40) | st.text('[]{},:"\\ a1\n', max_size=30).map(str.encode))
def test_any_bytes_are_a_document_or_the_same_fault_item_by_item(data: bytes) -> None:
    with file("a.json", b'[{"id": 1},' + data) as path:
        whole = said(path)
        with item_by_item(1):
            assert said(path) == whole


FIELD = st.sampled_from(["", "1", "2.5", "true", "False", "007", "x", "a b", "é", "1e3", " 1"]) | st.text('a",\n\r 1', max_size=4)


@given(
    st.lists(st.lists(FIELD, min_size=2, max_size=2), min_size=1, max_size=8),
    st.integers(1, 30),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([["a", "b"], ["", "b"], ["a", ""]]),  # pandas gives its index no name
)
def test_records_in_parts_are_those_of_the_whole_file(table: list[list[str]], size: int, end: str, names: list[str]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([names, *table])
    same_in_parts(text.getvalue().encode(), size)


@given(st.text('a,"\n\r1', max_size=30), st.integers(1, 12), st.booleans())
def test_any_text_is_records_or_the_same_fault_in_parts(text: str, size: int, bom: bool) -> None:
    same_in_parts(b"\xef\xbb\xbf" * bom + b"a,b\n1,2\n" + text.encode(), size)


def same_in_parts(data: bytes, size: int) -> None:
    with file("a.csv", data) as path:
        whole = said(path)
        with item_by_item(size), pytest.MonkeyPatch.context() as m:
            m.setattr(records, "CHUNK", max(4, size))
            assert said(path) == whole
            m.setattr(records, "HUGE", 1)
            assert said(path) == whole


def said(path: Path) -> list[dict[str, Any]] | str:
    try:
        return read(path)
    except CurateError as e:
        return str(e)


@contextmanager
def item_by_item(block: int) -> Iterator[None]:
    """Arrays of any size are cut into items, read in small steps."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(rows, "WHOLE_DOCUMENT", 0)
        m.setattr(rows, "BLOCK_BYTES", block)
        m.setattr(arrays, "CHUNK", block)
        yield


@given(st.lists(RECORD, min_size=1, max_size=4), st.integers(0, 4))
def test_a_pool_of_files_holds_what_one_file_holds(records: list[dict[str, Any]], cut: int) -> None:
    """As Arrow files of their own types, cut anywhere: the same number of rows, and every value reads as itself or as its text."""
    records = [{"id": i, **r} for i, r in enumerate(records)]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for k, part in enumerate((records[:cut], records[cut:])):
            if part:
                path = Path(folder) / f"{k}.jsonl"
                path.write_text("".join(json.dumps(r) + "\n" for r in part))
                one = sources.open_table("t", [path])
                files.append(path.with_suffix(".parquet"))
                pq.write_table(
                    pa.Table.from_batches([b.data for t in one.tasks for b in t.read(None)], schema=one.schema), files[-1]
                )
        try:
            table = sources.open_table("t", files)
        except CurateError:
            raise AssertionError(records) from None
        got = [r for t in table.tasks for b in t.read(None) for r in b.data.to_pylist()]
    assert [r["id"] for r in got] == list(range(len(records)))


@given(st.binary(max_size=60))
def test_any_bytes_are_rows_or_faults(data: bytes) -> None:
    with file("a.jsonl", data) as path:
        try:
            got = read(path)
        except CurateError as e:
            assert str(path) in str(e) or "holds no rows" in str(e)
            return
    assert all(isinstance(r, dict) for r in got)
