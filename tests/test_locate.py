"""What a SOURCE on the command line means on this disk."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate import locate
from curate.errors import CurateError


def put(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def found(spec: Path | str, root: Path, **options: str) -> list[str]:
    place = locate.local(str(spec), **options)
    assert place is not None
    return [str(f.relative_to(root)) for f in place.files]


@pytest.mark.parametrize("name", ["a [1].parquet", "b*.parquet", "q?.parquet", "{a,b}.parquet", "é ☃.parquet", "x:y.parquet", "d[e]/f.parquet", "-a.parquet"])  # fmt: skip
def test_a_path_that_exists_is_never_a_pattern(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, "b1.parquet", "qq.parquet", "a 1.parquet")
    assert found(tmp_path / name, tmp_path) == [name]


def test_a_folder_whose_name_is_a_pattern(tmp_path: Path) -> None:
    put(tmp_path, "d[x]/a.parquet", "dx/b.parquet")
    assert found(tmp_path / "d[x]", tmp_path) == ["d[x]/a.parquet"]


def test_a_pattern(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", "b.parquet", "c.txt", ".d.parquet", "s/e.parquet")
    assert found(tmp_path / "*.parquet", tmp_path) == ["a.parquet", "b.parquet"]
    assert found(tmp_path / "**" / "*.parquet", tmp_path) == ["a.parquet", "b.parquet", "s/e.parquet"]
    with pytest.raises(CurateError, match="No data file matches"):
        locate.local(str(tmp_path / "*.arrow"))


def test_a_folder_leaves_markers_and_hidden_files_out(tmp_path: Path) -> None:
    put(tmp_path, "b.parquet", "a.parquet", "s/c.parquet", "_SUCCESS", ".a.parquet.crc", ".h.parquet", "_tmp/x.parquet", ".git/y.parquet", "notes.txt", "README.txt")  # fmt: skip
    assert found(tmp_path, tmp_path) == ["a.parquet", "b.parquet", "s/c.parquet"]


def test_links_are_followed_and_circles_are_not(tmp_path: Path) -> None:
    put(tmp_path, "one/a.parquet", "two/b.parquet")
    (tmp_path / "one" / "again").symlink_to(tmp_path / "one")
    (tmp_path / "one" / "other").symlink_to(tmp_path / "two")
    assert found(tmp_path / "one", tmp_path / "one") == ["a.parquet", "other/b.parquet"]


def test_a_link_to_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").symlink_to(tmp_path / "gone.parquet")
    for spec in (tmp_path / "a.parquet", tmp_path):
        with pytest.raises(CurateError, match="link to"):
            locate.local(str(spec))


def test_what_is_not_there(tmp_path: Path) -> None:
    put(tmp_path, "traces.parquet", "notes.txt")
    with pytest.raises(CurateError, match=r"does not exist\. Did you mean .*traces\.parquet\?"):
        locate.local(str(tmp_path / "trace.parquet"))
    with pytest.raises(CurateError, match="Nor does its folder"):
        locate.local(str(tmp_path / "no" / "a.parquet"))
    with pytest.raises(CurateError, match="not a kind of file that is read here"):
        locate.local(str(tmp_path / "notes.txt"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CurateError, match="empty"):
        locate.local(str(tmp_path / "empty"))
    assert locate.local("some-name") is None
    assert locate.local("org/name") is None


def test_splits_by_name(tmp_path: Path) -> None:
    put(tmp_path, "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet")
    assert found(tmp_path, tmp_path) == ["data/train-00000-of-00001.parquet"]
    assert found(tmp_path, tmp_path, split="test") == ["data/test-00000-of-00001.parquet"]
    with pytest.raises(CurateError, match="no split validation"):
        locate.local(str(tmp_path), split="validation")


def test_configs_of_a_readme(tmp_path: Path) -> None:
    put(tmp_path, "a/x.parquet", "b/y.parquet", "b/z.parquet")
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: a\n  data_files: a/*.parquet\n- config_name: b\n  data_files:\n"
        "  - split: train\n    path: b/y.parquet\n  - split: test\n    path: [b/z.parquet]\n---\n"
    )
    assert found(f"{tmp_path}:a", tmp_path) == ["a/x.parquet"]
    assert found(f"{tmp_path}:b", tmp_path, split="test") == ["b/z.parquet"]
    for spec, why in ((str(tmp_path), "2 configs: a, b"), (f"{tmp_path}:c", "no config c")):
        with pytest.raises(CurateError, match=why):
            locate.local(spec)


@pytest.mark.parametrize("configs", ["configs: 5", "configs:\n- config_name: a\n  data_files: 5", "configs:\n- config_name: a\n  data_files: [[1]]", "configs: [1]", "x: [", "- 1"])  # fmt: skip
def test_a_readme_that_is_wrong_never_ends_in_a_traceback(tmp_path: Path, configs: str) -> None:
    put(tmp_path, "a.parquet")
    (tmp_path / "README.md").write_text(f"---\n{configs}\n---\n")
    try:
        assert found(tmp_path, tmp_path) == ["a.parquet"]
    except CurateError as e:
        assert "README" in str(e)


def test_a_readme_that_points_outside_of_its_folder(tmp_path: Path) -> None:
    put(tmp_path, "in/a.parquet", "secret.parquet")
    for path in ("../secret.parquet", str(tmp_path / "secret.parquet"), "../*.parquet"):
        (tmp_path / "in" / "README.md").write_text(f"---\nconfigs:\n- config_name: a\n  data_files: {path}\n---\n")
        with pytest.raises(CurateError):
            locate.local(str(tmp_path / "in"))


def saved(folder: Path, state: object) -> Path:
    folder.mkdir()
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps(state))
    table = pa.table({"a": [1]})
    for name in ("data-1.arrow", "data-0.arrow", "cache-x.arrow"):
        with pa.OSFile(str(folder / name), "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
            w.write_table(table)
    return folder


def test_a_saved_folder_has_the_files_that_its_state_names(tmp_path: Path) -> None:
    files = [{"filename": "data-1.arrow"}, {"filename": "data-0.arrow"}]
    folder = saved(tmp_path / "set", {"_data_files": files})
    assert found(folder, folder) == ["data-1.arrow", "data-0.arrow"]
    both = tmp_path / "both"
    both.mkdir()
    (both / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    saved(both / "train", {"_data_files": files[:1]})
    saved(both / "test", {"_data_files": files[1:]})
    assert found(both, both) == ["train/data-1.arrow"]
    assert found(both, both, split="test") == ["test/data-0.arrow"]
    with pytest.raises(CurateError, match="no split val"):
        locate.local(str(both), split="val")


@pytest.mark.parametrize("state", [[], 5, {"_data_files": 5}, {"_data_files": [5]}, {"_data_files": [{"filename": "../x.arrow"}]}])
def test_a_saved_folder_that_is_wrong(tmp_path: Path, state: object) -> None:
    put(tmp_path, "x.arrow")
    with pytest.raises(CurateError, match=r"state\.json"):
        locate.local(str(saved(tmp_path / "set", state)))


def test_an_output_of_ours_is_its_data(tmp_path: Path) -> None:
    for name in ("data/train-00000-of-00001.parquet", "ledger.parquet", "longest.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": [1]}), tmp_path / name)
    with pytest.raises(CurateError, match="not finished"):
        locate.local(str(tmp_path))
    (tmp_path / "manifest.json").write_text('{"curate": "1"}')
    assert found(tmp_path, tmp_path) == ["data/train-00000-of-00001.parquet"]


@pytest.mark.parametrize(
    ("spec", "name"),
    [("a/b c.jsonl.gz", "b-c"), ("org/name", "name"), ("data/", "data"), ("x*.parquet", "x"), ("é.parquet", "é"), ("///", "source"), ("..", "source")],
)  # fmt: skip
def test_short_names(spec: str, name: str) -> None:
    assert locate.short_name(spec) == name
