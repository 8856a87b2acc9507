"""Coverage-guided fuzzing of what reads other people's bytes: JSON lines, other files, think marks, the finding of columns.

    python benchmarks/fuzz.py SECONDS [lines|files|marks|layout] [--corpus FOLDER]

Needs the extra [fuzz] (atheris, libFuzzer for Python). Each target may raise `CurateError` and nothing else, and holds what it returns to a
law; an input that breaks one is written to the corpus folder as `crash-*` and becomes a test. Without a target, the time is shared.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["curate"]):
    from curate import layout, rows, sources, thinking
    from curate.errors import CurateError

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

MARKS = [*thinking.CLOSING, *(m.replace("/", "").replace("end_", "begin_") for m in thinking.CLOSING)]
NAMES = [
    "problem_id",
    "id",
    "problem",
    "generation",
    "generations",
    "messages",
    "solution",
    "correct",
    "passed",
    "rating",
    "a.b",
    "",
    "x",
]
TYPES = [
    pl.String(),
    pl.Int64(),
    pl.Float64(),
    pl.Boolean(),
    pl.Null(),
    pl.List(pl.String()),
    pl.List(pl.Boolean()),
    pl.List(pl.Struct({"role": pl.String(), "content": pl.String()})),
    pl.List(pl.Struct({"text": pl.String(), "passed": pl.Boolean()})),
    pl.Struct({"b": pl.String(), "c": pl.List(pl.String())}),
    pl.List(pl.List(pl.String())),
]


def lines(data: bytes) -> None:
    """Every line is a record, blank, or a fault in words; a file of them is read to as many rows as there are records."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(data)
        found = [rows.parse_line(line, first=i == 0) for i, line in enumerate(data.splitlines(keepends=True)) if b"\r" not in data]
        try:
            table = sources.open_table("a", [path], skip_bad_rows=True)
        except CurateError:
            return
        read = sum(b.data.num_rows for t in table.tasks for b in t.read(None))
        assert read == table.rows
        if found and not any(c in data for c in b"\x0b\x0c\x1c\x1d\x1e\x85"):
            assert read == sum(isinstance(r, dict) for r in found)
        with contextlib.suppress(CurateError):
            rows.read_json(path)


ENDINGS = (".parquet", ".csv", ".json", ".arrow", ".jsonl.gz", ".jsonl.zst")


def files(data: bytes) -> None:
    """A file of any format, by its first byte, is read to as many rows as it promises, or refused in words; small and large alike."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("a" + ENDINGS[data[0] % len(ENDINGS)] if data else "a")
        path.write_bytes(data[1:])
        read = _read(path)
        rows.WHOLE_DOCUMENT, rows.BLOCK_BYTES = 0, 16  # JSON and CSV part by part
        try:
            assert _read(path) == read
        finally:
            rows.WHOLE_DOCUMENT, rows.BLOCK_BYTES = WHOLE


WHOLE = rows.WHOLE_DOCUMENT, rows.BLOCK_BYTES


def _read(path: Path) -> str:
    """The types and rows of a file, or what is wrong with it."""
    found: list[dict[str, object]] = []
    try:
        table = sources.open_table("a", [path], skip_bad_rows=True, cached=False)
        for task in table.tasks:
            if path.suffix == ".parquet":  # page by page: polars ends the process at some damaged pages, which no caller can catch
                found += [row for batch in task.read(None) for row in batch.data.to_pylist()]
            else:
                found += [row for f in task.frames(table.schema.names) for row in f.frame.head(f.rows).to_dicts()]
    except CurateError as e:
        return str(e)
    assert len(found) == table.rows
    return f"{table.schema} {found}"


def _stored() -> list[bytes]:
    """A small file of each format, behind the byte that names it."""
    table = pa.table({"id": ["a", "b"], "generation": ["<think>x</think>y", None], "passed": [[True], []]})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet, compression="none")
    with pa.ipc.new_stream(arrow, table.schema) as out:
        out.write_table(table)
    line = b'{"a": [1, "x"], "b": null}\n'
    zst = pa.compress(line, codec="zstd", asbytes=True)
    made = [
        parquet.getvalue(),
        b'a,b\n1,"x\ny"\n2,\n',
        b'[{"a": 1}, {"a": "x"}]',
        arrow.getvalue(),
        gzip.compress(line, mtime=0),
        zst,
    ]
    return [bytes([i]) + data for i, data in enumerate(made)]


def marks(data: bytes) -> None:
    """Facts of structure agree with the cut; nothing of the text is lost by it but marks and white space."""
    text = "".join(MARKS[b % len(MARKS)] if b >= 0xC0 else chr(b) for b in data)
    trace = pl.Series([text, None, text[: len(text) // 2]], dtype=pl.String)
    facts, parts = thinking.structure(trace, trace), thinking.split(trace)
    assert facts.height == parts.height == 3
    assert facts.row(1) == (False, False, 0)
    assert parts.row(1) == (None, None)
    alone = thinking.structure(trace[:1], trace[:1])
    assert alone.row(0) == facts.row(0)
    reasoning, answer = parts.row(0)
    assert reasoning in text
    assert answer in text


def columns(data: bytes) -> None:
    """Whatever the columns are and are called, a layout is found or refused; one that is found reads its own empty rows."""
    give = atheris.FuzzedDataProvider(data)
    schema = pl.Schema({give.PickValueInList(NAMES): give.PickValueInList(TYPES) for _ in range(give.ConsumeIntInRange(0, 6))})
    roles = ["problem", "trace", "prompt", "messages", "passed", "finish", "difficulty", "aliases", "where"]
    named = {give.PickValueInList(roles): give.ConsumeUnicodeNoSurrogates(24) for _ in range(give.ConsumeIntInRange(0, 2))}
    rows_ = pl.DataFrame(schema=schema)
    rows_ = pl.concat([rows_, pl.DataFrame({n: [None] for n in schema}, schema=schema)]) if schema else rows_
    try:
        found = layout.find(schema, layout.Columns(**{k: v or None for k, v in named.items()}), rows_)
        got = layout.traces(rows_.select(found.columns), found)
    except CurateError:
        return
    assert {"row", "item", "bad", "trace", "prompt"} <= set(got.columns)
    assert got.schema["trace"] == pl.String


TARGETS: dict[str, Callable[[bytes], None]] = {"lines": lines, "files": files, "marks": marks, "layout": columns}
LONGEST = {"files": 4000}  # bytes; a Parquet file has a thousand at least
SEEDS: dict[str, list[bytes]] = {
    "lines": [
        b"".join(json.dumps(r).encode() + b"\n" for r in ({"a": 1, "b": [{"c": "x"}]}, {"a": "y"}, {"b": "z", "d": 0.5})),
        b'\xef\xbb\xbf{"a": NaN}\n\n[1]\n{"a": 18446744073709551615}\n{"a": 1180591620717411303424}\n{"a": "\\ud83d"}\n',
    ],
    "files": _stored(),
    "marks": [b"\xc8a\xc1b", b"\xc1", b" \xc8\n\xc1 ", b"\xcda\xc6b\xcd"],
    "layout": [b"\x05\x01\x03\x05\x02\x06generation.b", b"\x03\x00\x04[]. text problem_id = 'x'"],
}


def main() -> None:
    seconds = int(sys.argv[1])
    folder = Path(sys.argv[sys.argv.index("--corpus") + 1]) if "--corpus" in sys.argv else Path(tempfile.mkdtemp())
    wanted = [t for t in TARGETS if t in sys.argv[2:]]
    if len(wanted) != 1:
        each = max(1, seconds // len(TARGETS))
        codes = [
            subprocess.run([sys.executable, __file__, str(each), t, "--corpus", str(folder)], check=False).returncode
            for t in TARGETS
        ]
        sys.exit(max(map(abs, codes)))
    own = folder / wanted[0]
    own.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(SEEDS[wanted[0]]):
        (own / f"seed-{i}").write_bytes(seed)
    pa.set_cpu_count(1)
    flags = [
        f"-max_total_time={seconds}",
        f"-artifact_prefix={own}/crash-",
        f"-max_len={LONGEST.get(wanted[0], 400)}",
        "-rss_limit_mb=4096",
        "-timeout=20",
    ]
    atheris.Setup([sys.argv[0], *flags, str(own)], TARGETS[wanted[0]])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
