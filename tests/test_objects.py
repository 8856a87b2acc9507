"""Addresses in object stores, against an S3 server on loopback."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.fs
import pytest
from click.testing import CliRunner
from moto.server import ThreadedMotoServer

import curate
from curate import objects
from curate.cli import main
from curate.errors import CurateError


def parquet(*ids: str) -> bytes:
    rows = {"id": ids, "generation": [f"<think>about {i}</think> done" for i in ids], "passed": [True] * len(ids)}
    sink = io.BytesIO()
    pl.DataFrame(rows).write_parquet(sink)
    return sink.getvalue()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pyarrow.fs.FileSystem]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CURATE_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    found, _ = pyarrow.fs.FileSystem.from_uri("s3://traces?allow_bucket_creation=true")
    found.create_dir("traces")
    yield found
    server.stop()


def put(store: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    with store.open_output_stream(path) as out:
        out.write(content)


def test_a_file_a_pattern_and_a_folder(store: pyarrow.fs.FileSystem) -> None:
    put(store, "traces/set/data/train-00000.parquet", parquet("A", "B"))
    put(store, "traces/set/data/train-00001.parquet", parquet("C"))
    put(store, "traces/set/data/test-00000.parquet", parquet("D"))
    put(store, "traces/set/_logs/part.parquet", parquet("E"))
    for spec, problems in {
        "s3://traces/set/data/train-00001.parquet": ["C"],
        "s3://traces/set/data/train-*.parquet": ["A", "B", "C"],
        "s3://traces/set": ["A", "B", "C"],
        "s3://traces/set/": ["A", "B", "C"],
        "s3://traces/**/test-*.parquet": ["D"],
    }.items():
        assert curate.read(spec, estimate="chars/3.6").ledger["problem"].to_list() == problems, spec


def test_configs_of_the_readme_are_the_hubs(store: pyarrow.fs.FileSystem) -> None:
    put(store, "traces/set/README.md", b"---\nconfigs:\n- config_name: default\n  data_files: two.parquet\n---\n")
    put(store, "traces/set/one.parquet", parquet("A"))
    put(store, "traces/set/two.parquet", parquet("B"))
    assert [p.name for p in objects.fetch("s3://traces/set")] == ["two.parquet"]


def test_a_copy_stands_until_the_object_changes(store: pyarrow.fs.FileSystem) -> None:
    put(store, "traces/a.parquet", parquet("A"))
    (first,) = objects.fetch("s3://traces/a.parquet")
    stamp = first.stat().st_mtime_ns
    (again,) = objects.fetch("s3://traces/a.parquet")
    assert (again, again.stat().st_mtime_ns) == (first, stamp)
    put(store, "traces/a.parquet", parquet("A", "longer"))
    (anew,) = objects.fetch("s3://traces/a.parquet")
    assert anew != first and anew.read_bytes() == parquet("A", "longer")


def test_select_says_where_the_rows_are_from(store: pyarrow.fs.FileSystem, tmp_path: Path) -> None:
    put(store, "traces/a.parquet", parquet("A", "B"))
    out = tmp_path / "out"
    done = CliRunner().invoke(
        main, ["select", "s3://traces/a.parquet", "--shortest", "--estimate", "chars/3.6", "-o", str(out), "-q"]
    )
    assert done.exit_code == 0, done.output
    assert pl.read_parquet(out / "data/*.parquet").height == 2
    assert '"spec": "s3://traces/a.parquet"' in (out / "manifest.json").read_text()
    assert str(tmp_path) not in (out / "manifest.json").read_text() + (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("s3://nowhere/a.parquet", "s3://nowhere/a.parquet: There is no bucket nowhere."),
        ("s3://traces/none", "s3://traces/none: nothing is there."),
        ("s3://traces/x-*.parquet", "No data file matches s3://traces/x-*.parquet."),
    ],
)
def test_what_is_not_there_is_said(store: pyarrow.fs.FileSystem, spec: str, said: str) -> None:
    put(store, "traces/a.parquet", parquet("A"))
    with pytest.raises(CurateError) as fault:
        objects.fetch(spec)
    assert str(fault.value).startswith(said)


def test_a_store_that_is_down_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(CurateError, match="The store cannot be reached"):
        objects.fetch("s3://traces/a.parquet")


@pytest.mark.parametrize("spec", ["s3://", "s3:///a.parquet", "gs:///a.parquet"])
def test_an_address_without_a_bucket_is_refused(spec: str) -> None:
    with pytest.raises(CurateError, match=f"^{spec} names no bucket. Write {spec[:2]}://bucket/path.$"):
        objects.fetch(spec)


@pytest.mark.parametrize("spec", ["hf://datasets/", "hf://datasets/org", "hf://datasets/org/"])
def test_an_address_without_a_data_set_is_refused(spec: str) -> None:
    with pytest.raises(CurateError, match=f"^{spec} names no data set."):
        curate.read(spec)
