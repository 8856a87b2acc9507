"""Files of every format as numbered batches: whole, in order, in bounded memory, or refused in a sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate import rows, sources
from curate.errors import CurateError

ROWS = pa.table({"id": [str(i) for i in range(10)], "text": [f"t{i}" for i in range(10)], "n": list(range(10))})


def read(table: sources.Table, columns: list[str] | None = None) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = []
    for task in table.tasks:
        assert task.row == len(got)
        for batch in task.read(columns):
            assert batch.row == len(got)
            got += batch.data.to_pylist()
        assert len(got) == task.row + task.rows
    assert len(got) == table.rows
    return got


def write_arrow(path: Path, table: pa.Table, *, stream: bool, batch: int = 3, compression: str | None = None) -> Path:
    kind = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as f, kind(f, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as w:
        for part in table.to_batches(batch):
            w.write_batch(part)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.parquet", "parquet"),
        ("A.PARQUET", "parquet"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson.gz", "jsonl"),
        ("a.json.zst", "json"),
        ("a.csv.GZ", "csv"),
        ("a.arrow", "arrow"),
        ("a.parquet.gz", None),
        ("a.arrow.zst", None),
        ("a.txt", None),
        ("parquet", None),
        ("a.jsonl.bak", None),
    ],
)
def test_kinds_by_name(name: str, kind: str | None) -> None:
    assert sources.kind(Path(name)) == kind


@pytest.mark.parametrize("groups", [1, 3, 10])
def test_parquet_row_groups_are_tasks(tmp_path: Path, groups: int) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet", row_group_size=groups)
    table = sources.open_table("a", [tmp_path / "a.parquet"])
    assert len(table.tasks) == -(-10 // groups)
    assert read(table) == ROWS.to_pylist()
    assert read(table, ["n"]) == ROWS.select(["n"]).to_pylist()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_batches_are_tasks(tmp_path: Path, stream: bool, compression: str | None) -> None:
    path = write_arrow(tmp_path / "a.arrow", ROWS, stream=stream, compression=compression)
    table = sources.open_table("a", [path])
    assert [t.rows for t in table.tasks] == [3, 3, 3, 1]
    assert read(table) == ROWS.to_pylist()
    assert read(table, ["text"]) == ROWS.select(["text"]).to_pylist()
    assert next(iter(table.tasks[2].read(["n"]))).data.to_pydict() == {"n": [6, 7, 8]}  # a task needs no other before it


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_dictionaries_are_decoded(tmp_path: Path, stream: bool) -> None:
    coded = ROWS.set_column(1, "text", ROWS["text"].dictionary_encode())
    table = sources.open_table("a", [write_arrow(tmp_path / "a.arrow", coded, stream=stream, batch=10)])
    assert table.schema.field("text").type == pa.string()
    assert read(table) == ROWS.to_pylist()


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_cut_short(tmp_path: Path, stream: bool) -> None:
    path = write_arrow(tmp_path / "a.arrow", ROWS, stream=stream)
    whole = path.read_bytes()
    for cut in (0, 5, len(whole) // 2, len(whole) - 8, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(CurateError, match="is not a whole Arrow file"):
            sources.open_table("a", [path])


def test_parquet_cut_short_or_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS, path)
    whole = path.read_bytes()
    for data, why in (
        (whole[:-5], "its end is missing: it was cut short"),
        (whole[: len(whole) // 2], "its end is missing: it was cut short"),
        (b"", "it has only 0 bytes"),
        (b"{}\n" * 10, "it does not begin as one"),
        (whole[:4] + b"\0" * 100 + whole[-4:], "its footer cannot be read"),
    ):
        path.write_bytes(data)
        with pytest.raises(CurateError) as caught:
            sources.open_table("a", [path])
        assert str(caught.value) == f"{path} is not a whole Parquet file ({why}). Copy or download it again."


def test_the_first_broken_files_are_all_named(tmp_path: Path) -> None:
    files = []
    for i in range(7):
        files.append(tmp_path / f"{i}.parquet")
        files[-1].write_bytes(b"")
    with pytest.raises(CurateError) as caught:
        sources.open_table("a", files)
    assert all(str(f) in str(caught.value) for f in files[:5])
    assert str(caught.value).endswith("And 2 more files.")


def test_footers_that_lie_end_in_a_sentence_and_never_in_an_abort(tmp_path: Path) -> None:
    """In a process of its own: a footer can make the library abort. Every byte of the footer is broken once."""
    script = (
        "import sys, pathlib\n"
        "from curate import sources\n"
        "from curate.errors import CurateError\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "whole = path.read_bytes()\n"
        "start = len(whole) - 8 - int.from_bytes(whole[-8:-4], 'little')\n"
        "ended = {'read': 0, 'refused': 0}\n"
        "for at in range(start, len(whole) - 8):\n"
        "    data = bytearray(whole)\n"
        "    data[at] ^= 0x15\n"
        "    path.write_bytes(bytes(data))\n"
        "    try:\n"
        "        table = sources.open_table('a', [path])\n"
        "        rows = sum(b.data.num_rows for t in table.tasks for b in t.read(None))\n"
        "        assert rows == table.rows\n"
        "        ended['read'] += 1\n"
        "    except CurateError as e:\n"
        "        assert str(path) in str(e)\n"
        "        ended['refused'] += 1\n"
        "print(ended['read'] > 0, ended['refused'] > 0)\n"
    )
    pq.write_table(ROWS.slice(0, 4), tmp_path / "a.parquet", row_group_size=2)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a.parquet")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr[-2000:]


def test_text_that_is_not_utf8_is_named_by_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    bad = pa.array([b"good", b"b\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": ["a", "b"], "text": bad}), path)
    table = sources.open_table("a", [path])
    with pytest.raises(CurateError, match="row 1, column text: the text is not UTF-8"):
        list(table.tasks[0].read(None))
    assert [b.data.to_pydict() for b in table.tasks[0].read(["id"])] == [{"id": ["a", "b"]}]


def test_metadata_of_any_bytes_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS.replace_schema_metadata({b"\xff\xfe": b"\xff"}), path)
    table = sources.open_table("a", [path])
    assert next(iter(table.tasks[0].read(None))).data.schema.metadata is None
    assert table.schema.metadata is None


def test_repeated_texts_are_unpacked_piece_by_piece(tmp_path: Path) -> None:
    """Ten texts of 20,000 characters stand in 20,000 rows: 400 MB of text in a file of a few kilobytes."""
    texts = pa.array([chr(97 + i) * 20_000 for i in range(10)])
    codes = pa.array([i % 10 for i in range(20_000)], pa.int32())
    pq.write_table(pa.table({"t": pa.DictionaryArray.from_arrays(codes, texts)}), tmp_path / "a.parquet", row_group_size=20_000)
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    table = sources.open_table("a", [tmp_path / "a.parquet"])
    sizes = [(b.data.num_rows, b.data.nbytes) for b in table.tasks[0].read(None)]
    assert sum(n for n, _ in sizes) == 20_000
    assert max(size for _, size in sizes) < 32 << 20
    assert len(list(table.tasks[0].frames(["t"]))) == len(sizes)


def test_short_rows_come_in_large_batches(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(50_000))}), tmp_path / "a.parquet")
    table = sources.open_table("a", [tmp_path / "a.parquet"])
    assert [b.data.num_rows for b in table.tasks[0].read(None)] == [50_000]


def test_one_table_of_shards_that_disagree(tmp_path: Path) -> None:
    shards = [
        {"id": [7], "text": ["a"], "ok": [True]},
        {"text": ["b"], "id": ["7"], "ok": ["no"]},
        {"id": [7.0], "text": ["c"], "late": [1]},
        {"id": pa.nulls(1), "text": pa.array(["d"]).dictionary_encode()},
    ]
    files = []
    for i, shard in enumerate(shards):
        files.append(tmp_path / f"{i}.parquet")
        pq.write_table(pa.table(shard), files[-1])
    table = sources.open_table("a", files)
    assert table.schema.names == ["id", "text", "ok", "late"]
    assert read(table) == [
        {"id": "7", "text": "a", "ok": "true", "late": None},
        {"id": "7", "text": "b", "ok": "no", "late": None},
        {"id": "7", "text": "c", "ok": None, "late": 1},
        {"id": None, "text": "d", "ok": None, "late": None},
    ]


@pytest.mark.parametrize(
    "odd",
    [
        pa.array(["x"], pa.string_view()),
        pa.array([["x"]], pa.list_(pa.string_view())),
        pa.array([b"x"], pa.binary_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"])),
        pa.array([pa.MonthDayNano([1, 2, 3])]),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.array([{}], pa.struct([])),
        pa.array([b"1" * 16], pa.uuid()),
        pa.array([["x"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ],
    ids=lambda a: str(a.type)[:20],
)
def test_types_that_others_cannot_hold_do_not_end_a_run(tmp_path: Path, odd: pa.Array) -> None:
    import polars as pl

    path = write_arrow(tmp_path / "a.arrow", pa.table({"id": ["a"], "odd": odd}), stream=False)
    table = sources.open_table("a", [path])
    (batch,) = table.tasks[0].read(None)
    frame = pl.DataFrame(pl.from_arrow(batch.data.slice(0, 1)))
    assert frame["id"].to_list() == ["a"]
    assert batch.data.take(pa.array([0])).num_rows == 1


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])
    path = write_arrow(tmp_path / "a.arrow", table, stream=True)
    with pytest.raises(CurateError, match=r"a\.arrow has two columns called x"):
        sources.open_table("a", [path])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"a,b\0c\n1,2\n"),
        ("a.csv", b"aPA\0\0\0\0\xf6\x86\xdd\xf825\n"),
        ("a.jsonl", b'{"a": 1, "b\\u0000c": 2, "b\\u0000d": 3}\n'),
        ("a.json", b'[{"a": [{"x\\u0000": "y"}]}]'),
    ],
)
@pytest.mark.parametrize("large", [0, 16 << 20])
def test_a_name_with_the_character_nul_is_refused(
    tmp_path: Path, name: str, data: bytes, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "WHOLE_DOCUMENT", large)  # read part by part, or as a whole
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CurateError, match="whose name holds the character NUL"):
        sources.open_table("a", [tmp_path / name])


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_name_that_is_not_utf8_or_holds_nul_is_refused(tmp_path: Path, ending: str) -> None:
    def written(name: str) -> Path:
        path, table = tmp_path / f"a.{ending}", pa.table({"n": pa.array([[{name: "x"}]])})
        pq.write_table(table, path) if ending == "parquet" else write_arrow(path, table, stream=True)
        return path

    path = written("generation")
    for name in (b"generation", b"item"):  # the second is Arrow's name for what is in a list
        if ending == "arrow":  # Parquet keeps Arrow's schema encoded, and its own beside it
            path.write_bytes(path.read_bytes().replace(name, b"\xf4" + name[1:]))
            with pytest.raises(CurateError, match="whose name is not UTF-8"):
                sources.open_table("a", [path])
    with pytest.raises(CurateError, match="whose name holds the character NUL"):
        sources.open_table("a", [written("b\0c")])


@pytest.mark.parametrize("data", [b"8", b" 7\n\n", b'"x"', b"true", b"null", b"[]"])
def test_a_json_document_that_is_no_rows(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(CurateError, match=r"not rows|holds no rows"):
        sources.open_table("a", [tmp_path / "a.json"])


def test_a_fault_that_pyarrow_tells_in_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a"], "generation": ["x"]}), path)
    path.write_bytes(path.read_bytes().replace(b"\x18\x02id", b"\x18\x02\x89d"))
    with pytest.raises(UnicodeDecodeError):
        pq.read_metadata(path).schema.to_arrow_schema()
    with pytest.raises(CurateError, match="is not a whole Parquet file"):
        sources.open_table("a", [path])


def test_nothing_in_any_file(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.csv", "c.json"):
        (tmp_path / name).write_bytes(b"")
    files = sorted(tmp_path.iterdir())
    with pytest.raises(CurateError, match=r"set holds no rows: .*a\.jsonl, .* are empty"):
        sources.open_table("set", files)
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n')
    assert read(sources.open_table("set", [*files, tmp_path / "d.jsonl"])) == [{"a": 1}]


def test_zero_rows_have_their_columns(tmp_path: Path) -> None:
    pq.write_table(ROWS.slice(0, 0), tmp_path / "a.parquet")
    write_arrow(tmp_path / "b.arrow", ROWS.slice(0, 0), stream=True)
    (tmp_path / "c.csv").write_text("id,text,n\n")
    for name in ("a.parquet", "b.arrow", "c.csv"):
        table = sources.open_table("a", [tmp_path / name])
        assert (table.rows, table.tasks, table.schema.names) == (0, (), ["id", "text", "n"])


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.jsonl", "a.csv", "a.json", "a.arrow", "a.jsonl.gz"):
        with pytest.raises(CurateError, match="does not exist any more"):
            sources.open_table("a", [tmp_path / name])


def test_a_file_removed_while_it_is_read(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    table = sources.open_table("a", [tmp_path / "a.parquet"])
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(CurateError, match=r"a\.parquet cannot be read in row group 0"):
        list(table.tasks[0].read(None))


def test_types_and_places_of_lines_are_read_once_and_a_changed_file_is_read_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources.cache, "SETTLED_NS", 0)
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n\n{"id": "x", "late": [1]}\n')
    first = sources.open_table("a", [path])
    with monkeypatch.context() as m:
        m.setattr(sources.rows, "scan_lines", lambda *a, **k: pytest.fail("the lines were read again"))
        again = sources.open_table("a", [path])
        with pytest.raises(pytest.fail.Exception):
            sources.open_table("a", [path], cached=False)
    assert (again.schema, again.rows) == (first.schema, 2)
    read = [b.data.to_pylist() for t in again.tasks for b in t.read(None)]
    assert read == [[{"id": "1", "late": None}, {"id": "x", "late": [1]}]]
    path.write_text('{"id": 1}\n{"id": 2}\n{"id": 3}\n')
    assert sources.open_table("a", [path]).rows == 3
