"""The cache: keyed by content, never believed when it is broken."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from curate import cache

FRAME = pl.DataFrame({"tokens": pl.Series([1, None, 3], dtype=pl.UInt32), "problem": ["a", None, "b"]})
LATER = 10**10


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_stored_is_found_with_its_text_and_under_no_other_key() -> None:
    assert cache.lookup("k") is None
    assert cache.store("k", FRAME, meta='{"a": 1}')
    found = cache.lookup_with_meta("k")
    assert found is not None
    assert found[0].equals(FRAME) and found[0].schema == FRAME.schema
    assert found[1] == '{"a": 1}'
    assert cache.lookup("K") is None


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CURATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache.folder() == tmp_path / "x" / "curate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "curate"


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "foreign", "other key"])
def test_a_broken_file_is_no_entry_and_is_written_anew(folder: Path, damage: str) -> None:
    cache.store("k", FRAME)
    (file,) = folder.glob("*.parquet")
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "noise":
        file.write_bytes(b"PAR1" + b"\x00" * 200 + b"\xff\xff\xff\x7fPAR1")
    elif damage == "foreign":
        pq.write_table(FRAME.to_arrow(), file)
    else:
        cache.store("other", FRAME)
        next(p for p in folder.glob("*.parquet") if p != file).replace(file)
    assert cache.lookup("k") is None
    assert cache.store("k", FRAME)
    assert cache.lookup("k") is not None


def test_a_changed_byte_inside_is_noticed_or_harmless(folder: Path) -> None:
    cache.store("k", FRAME)
    (file,) = folder.glob("*.parquet")
    whole = bytearray(file.read_bytes())
    whole[6] ^= 0xFF
    file.write_bytes(whole)
    found = cache.lookup("k")
    assert found is None or found.equals(FRAME)


def test_an_interrupted_write_leaves_the_old_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("k", FRAME)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    assert cache.store("k", FRAME.head(1)) is False
    found = cache.lookup("k")
    assert found is not None and found.equals(FRAME)
    assert [p.suffix for p in folder.iterdir()] == [".parquet"]


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "file"))
    assert cache.store("k", FRAME) is False
    assert cache.lookup("k") is None
    assert cache.entries() == [] and cache.clear() == 0


def test_entries_are_listed_and_cleared_and_other_files_stay(folder: Path) -> None:
    cache.store("k", FRAME)
    cache.store("l", FRAME.head(1))
    (folder / "notes.txt").write_text("mine")
    (folder / "mine.parquet").write_bytes(b"mine")
    (folder / ".abc.part").write_bytes(b"half")
    assert {(e.key, e.rows) for e in cache.entries()} == {("k", 3), ("l", 1)}
    assert all(e.size > 0 and e.written > 0 for e in cache.entries())
    assert cache.clear() == 3
    assert sorted(p.name for p in folder.iterdir()) == ["mine.parquet", "notes.txt"]


class TestIdentity:
    def test_a_file_changed_just_now_is_not_trusted(self, tmp_path: Path) -> None:
        file = tmp_path / "a.parquet"
        FRAME.write_parquet(file)
        changed = max(file.stat().st_mtime_ns, file.stat().st_ctime_ns)
        assert cache.identity(file, now_ns=changed + cache.SETTLED_NS - 1) is None
        assert cache.identity(file, now_ns=changed + cache.SETTLED_NS) is not None
        assert cache.identity(file) is None
        assert cache.identity(tmp_path / "gone") is None
        assert cache.identity(tmp_path) is None

    def test_one_file_has_one_identity_and_a_copy_another(self, tmp_path: Path) -> None:
        file, copy, now = tmp_path / "a.parquet", tmp_path / "b.parquet", time.time_ns() + LATER
        FRAME.write_parquet(file)
        copy.write_bytes(file.read_bytes())
        assert cache.identity(file, now_ns=now) == cache.identity(file, now_ns=now)
        assert cache.identity(file, now_ns=now) != cache.identity(copy, now_ns=now)

    @pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
    def test_a_rewrite_in_place_with_the_old_size_and_time_is_seen(self, tmp_path: Path, suffix: str) -> None:
        file, now = tmp_path / f"a.{suffix}", time.time_ns() + LATER
        write = FRAME.write_parquet if suffix == "parquet" else FRAME.write_ndjson
        write(file)
        before, first = file.stat(), cache.identity(file, now_ns=now)
        other = pl.DataFrame({"tokens": pl.Series([1, None, 4], dtype=pl.UInt32), "problem": ["a", None, "c"]})
        (other.write_parquet if suffix == "parquet" else other.write_ndjson)(tmp_path / "new")
        file.write_bytes((tmp_path / "new").read_bytes())
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (file.stat().st_ino, file.stat().st_size, file.stat().st_mtime_ns) == (
            before.st_ino,
            before.st_size,
            before.st_mtime_ns,
        )
        assert cache.identity(file, now_ns=now) != first


def test_two_processes_at_once_leave_one_whole_entry(folder: Path) -> None:
    code = (
        "import polars as pl; from curate import cache\n"
        "f = pl.DataFrame({'x': range(2000)})\n"
        "for _ in range(30):\n"
        "    cache.store('k', f); g = cache.lookup('k'); assert g is not None and g.equals(f)\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "CURATE_CACHE": str(folder)}) for _ in range(2)]
    assert [r.wait() for r in runs] == [0, 0]
    assert [p.suffix for p in folder.iterdir()] == [".parquet"]
