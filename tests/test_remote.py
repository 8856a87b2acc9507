"""The real ``huggingface_hub`` against a Hub on loopback: names, configs, splits, downloads, columns and every refusal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from curate import remote
from curate.errors import CurateError
from tests.hub_server import LoopbackHub

ROOT = Path(__file__).resolve().parents[1]
CARD = """---
license: cc-by-4.0
configs:
- config_name: solutions
  default: true
  data_files:
  - split: train
    path: solutions/train-*
- config_name: solutions_py
  data_files:
  - split: train
    path: solutions_py/train-*
  - split: test
    path: solutions_py/test-*
---
# Made up
"""


def parquet(**columns: list[object]) -> bytes:
    sink = io.BytesIO()
    pl.DataFrame(columns).write_parquet(sink)
    return sink.getvalue()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with LoopbackHub() as served:
        for name, value in served.env(tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_HUB_CACHE", raising=False)
        monkeypatch.delenv("HF_DATASETS_OFFLINE", raising=False)
        monkeypatch.setattr("time.sleep", lambda _: None)
        yield served


@pytest.fixture
def cots(hub: LoopbackHub) -> LoopbackHub:
    hub.create(
        "lab/cots",
        files={
            "README.md": CARD,
            "solutions/train-00000-of-00001.parquet": parquet(id=["a"]),
            "solutions_py/train-00000-of-00002.parquet": parquet(id=["b", "c"]),
            "solutions_py/train-00001-of-00002.parquet": parquet(id=["d"]),
            "solutions_py/test-00000-of-00001.parquet": parquet(id=["e"]),
        },
    )
    return hub


def said(call: object, *args: object, **kwargs: object) -> str:
    assert callable(call)
    with pytest.raises(CurateError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("org/name", remote.Name(repo="org/name")),
        ("org/name:py", remote.Name(repo="org/name", config="py")),
        ("org/name@v1.0", remote.Name(repo="org/name", revision="v1.0")),
        ("org/name:py@refs/pr/3", remote.Name(repo="org/name", config="py", revision="refs/pr/3")),
        ("name", None),
        ("a/b/c", None),
        ("../name", None),
        ("org/name:", None),
    ],
)
def test_a_name_is_taken_apart(text: str, want: remote.Name | None) -> None:
    assert remote.parse(text) == want


def test_the_readme_says_which_files_a_config_has_and_the_commit_is_pinned(cots: LoopbackHub) -> None:
    found = remote.resolve("lab/cots:solutions_py")
    assert found.files == ("solutions_py/train-00000-of-00002.parquet", "solutions_py/train-00001-of-00002.parquet")
    assert found.revision == cots.history("lab/cots")[-1].oid
    assert found.configs == ("solutions", "solutions_py")
    assert found.splits == ("train", "test")
    assert found.licence == ("cc-by-4.0",)
    assert found.sizes[1] == len(cots.files("lab/cots")["solutions_py/train-00001-of-00002.parquet"])


def test_without_a_config_the_one_marked_default_is_taken(cots: LoopbackHub) -> None:
    assert remote.resolve("lab/cots").files == ("solutions/train-00000-of-00001.parquet",)


def test_only_the_files_of_the_config_are_downloaded_and_only_once(cots: LoopbackHub) -> None:
    found = remote.resolve("lab/cots:solutions_py")
    paths = remote.download(found)
    assert pl.concat([pl.read_parquet(p) for p in paths])["id"].to_list() == ["b", "c", "d"]
    assert len(cots.paths("GET", "/_cdn/")) == 2
    assert remote.download(found) == paths
    assert len(cots.paths("GET", "/_cdn/")) == 2


def test_a_pinned_revision_is_read_after_main_has_moved(cots: LoopbackHub) -> None:
    old = cots.history("lab/cots")[-1].oid
    cots.put("lab/cots", {"solutions/train-00000-of-00001.parquet": parquet(id=["new"])})
    [path] = remote.download(remote.resolve(f"lab/cots@{old}"))
    assert pl.read_parquet(path)["id"].to_list() == ["a"]
    [path] = remote.download(remote.resolve("lab/cots"))
    assert pl.read_parquet(path)["id"].to_list() == ["new"]


def test_a_download_that_was_cut_goes_on_where_it_stopped(hub: LoopbackHub) -> None:
    body = os.urandom(24 << 20)
    hub.create("me/large", files={"train.parquet": body})
    hub.fail("GET", "/_cdn/", cut="body")
    [path] = remote.download(remote.resolve("me/large"))
    assert path.read_bytes() == body
    asked = [r for r in hub.log if "/_cdn/" in r.path]
    # The client keeps whole pieces of 10 MiB: 12 MiB had come.
    assert [r.range for r in asked] == [None, "bytes=10485760-"]


def test_names_alone_tell_splits_where_the_readme_lists_none(hub: LoopbackHub) -> None:
    hub.create("me/flat", files={"train.jsonl": '{"id": 1}\n', "dev.jsonl": '{"id": 2}\n', "notes.md": "x"})
    assert remote.resolve("me/flat").files == ("train.jsonl",)
    assert remote.resolve("me/flat", split="validation").files == ("dev.jsonl",)


def test_a_set_with_a_loading_script_is_read_from_the_hub_s_own_conversion(hub: LoopbackHub) -> None:
    hub.create("me/script", files={"script.py": "raise SystemExit\n"})
    hub.put("me/script", {"py/train/0000.parquet": parquet(id=[1])}, revision="refs/convert/parquet", delete=["script.py"])
    found = remote.resolve("me/script")
    assert (found.config, found.files, found.converted) == ("py", ("py/train/0000.parquet",), True)
    assert pl.read_parquet(remote.download(found)[0])["id"].to_list() == [1]


def test_a_set_without_rows_says_what_it_holds(hub: LoopbackHub) -> None:
    hub.create("me/pictures", files={"a.png": b"\0", "b.png": b"\0"})
    assert said(remote.resolve, "me/pictures") == ("me/pictures holds no Parquet, JSON, CSV or Arrow file with rows (it has .png).")


def test_wrong_configs_and_splits_name_what_there_is(cots: LoopbackHub) -> None:
    assert said(remote.resolve, "lab/cots:solution_py") == (
        "lab/cots has no config solution_py; it has solutions, solutions_py. Did you mean solutions_py or solutions?"
    )
    assert said(remote.resolve, "lab/cots", split="test") == (
        "Config solutions of lab/cots has no split test, only train; add --split train."
    )
    cots.put("lab/cots", {"README.md": CARD.replace("  default: true\n", "")})
    assert said(remote.resolve, "lab/cots") == (
        "lab/cots has 2 configs: solutions, solutions_py. Name one, as in lab/cots:solutions."
    )


def test_a_pattern_of_the_card_that_matches_nothing_is_named(cots: LoopbackHub) -> None:
    cots.put("lab/cots", {}, delete=["solutions_py/test-00000-of-00001.parquet"])
    assert said(remote.resolve, "lab/cots:solutions_py", split="test") == (
        "lab/cots, config solutions_py, split test: no file with rows matches solutions_py/test-*, which its README names."
    )


def test_a_missing_set_and_a_private_one_of_somebody_else_read_the_same(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("other/secret", private=True, files={"train.jsonl": "{}"})
    ends = f"at {hub.url} that you may see: check the name, and that your token may read it if it is private."
    assert said(remote.resolve, "other/secret") == f"There is no data set other/secret {ends}"
    assert said(remote.resolve, "other/nothing") == f"There is no data set other/nothing {ends}"
    monkeypatch.setenv("HF_TOKEN", "")
    assert said(remote.resolve, "other/secret").endswith(
        "check the name, and log in with `hf auth login`, or set HF_TOKEN if it is private."
    )


def test_a_private_set_of_one_s_own_is_read_with_the_saved_token(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create("me/secret", private=True, files={"train.jsonl": '{"id": 1}\n'})
    monkeypatch.setenv("HF_TOKEN", "")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("hf_test\n")
    assert remote.resolve("me/secret").files == ("train.jsonl",)


def test_a_gated_set_names_the_page_where_its_terms_are_accepted(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("other/gated", gated=True, files={"README.md": "# x", "train.jsonl": "{}"})
    page = f"{hub.url}/datasets/other/gated"
    assert said(remote.resolve, "other/gated") == (
        f"other/gated is gated: accept its terms at {page} with your account; then run the command again."
    )
    monkeypatch.setenv("HF_TOKEN", "")
    assert said(remote.resolve, "other/gated").endswith("log in with `hf auth login`, or set HF_TOKEN first.")


def test_a_missing_revision_is_named(cots: LoopbackHub) -> None:
    assert said(remote.resolve, "lab/cots@v9") == (
        "lab/cots has no revision v9; leave @v9 out for main, or name a branch, tag or commit."
    )


def test_a_hub_that_refuses_the_connection_is_not_replaced_by_the_cache(cots: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.download(remote.resolve("lab/cots"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    text = said(remote.resolve, "lab/cots")
    assert text.startswith("Cannot reach the Hub at http://127.0.0.1:9 (")
    assert text.endswith("; check the network and HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to use what is cached.")


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (429, "The Hub asks to wait: too many requests for lab/cots (status 429). Try again in a few minutes."),
        (500, "The Hub at {url} failed on lab/cots (status 500); try again later."),
        (403, "Your token has no right to do this to lab/cots (status 403); use one that has, or another name."),
    ],
)
def test_each_status_is_one_sentence(cots: LoopbackHub, status: int, want: str) -> None:
    cots.fail("GET", "/revision/", status=status, times=9)
    cots.fail("GET", "/api/datasets/lab/cots", status=status, times=9)
    assert said(remote.resolve, "lab/cots") == want.format(url=cots.url)


def test_offline_what_was_downloaded_is_found_without_one_request(cots: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    first = remote.resolve("lab/cots:solutions_py")
    paths = remote.download(first)
    before = len(cots.log)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert remote.resolve("lab/cots:solutions_py") == first
    assert remote.download(first) == paths
    assert len(cots.log) == before


def test_offline_a_config_that_was_not_downloaded_is_an_error_and_never_a_part_of_it(
    cots: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = remote.resolve("lab/cots:solutions_py")
    remote.download(found)
    (remote.download(found)[1]).unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = said(remote.download, found)
    assert text.startswith("Offline mode is on (HF_HUB_OFFLINE) and lab/cots is not whole in the cache (")
    assert f"commits in the cache: {found.revision[:12]}" in text


def test_offline_with_an_empty_cache_says_so_at_once(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert said(remote.resolve, "someuser/some-set:solutions_py") == (
        "Offline mode is on (HF_HUB_OFFLINE) and someuser/some-set is not in the cache (cached: none); "
        "set HF_HUB_OFFLINE=0 to download it, or pass a local file."
    )
    assert hub.log == []


def test_some_columns_of_a_large_table_cost_a_fraction_of_it(hub: LoopbackHub) -> None:
    rows = 3000
    body = parquet(
        id=[f"{i}/A" for i in range(rows)],
        statement=[os.urandom(300).hex() for _ in range(rows)],
        rating=[800 + i for i in range(rows)],
    )
    hub.create("lab/ratings", files={"data/train-00000-of-00001.parquet": body})
    frame, commit = remote.read_columns("lab/ratings", "data/train-*.parquet", ["rating", "id"])
    assert frame.columns == ["rating", "id"]
    assert frame.row(7) == (807, "7/A")
    assert frame.height == rows
    assert commit == hub.history("lab/ratings")[-1].oid
    sent = sum(r.sent for r in hub.log if "/_cdn/" in r.path)
    assert len(body) > 900_000
    assert 0 < sent < len(body) / 8
    assert all(r.range for r in hub.log if "/_cdn/" in r.path and r.method == "GET")


def test_columns_once_read_are_kept_for_the_same_commit_and_for_offline(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create("lab/ratings", files={"r.parquet": parquet(id=["a"], rating=[800])})
    first, _ = remote.read_columns("lab/ratings", "r.parquet", ["id", "rating"], cache=tmp_path / "kept")
    ranges = len(hub.paths("GET", "/_cdn/"))
    again, _ = remote.read_columns("lab/ratings", "r.parquet", ["id", "rating"], cache=tmp_path / "kept")
    assert again.equals(first)
    assert len(hub.paths("GET", "/_cdn/")) == ranges
    hub.put("lab/ratings", {"r.parquet": parquet(id=["a"], rating=[900])})
    moved, commit = remote.read_columns("lab/ratings", "r.parquet", ["id", "rating"], cache=tmp_path / "kept")
    assert moved["rating"].to_list() == [900]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline, at = remote.read_columns("lab/ratings", "r.parquet", ["id", "rating"], cache=tmp_path / "kept")
    assert (offline["rating"].to_list(), at) == ([900], commit)
    text = said(remote.read_columns, "lab/ratings", "r.parquet", ["id"], cache=tmp_path / "kept")
    assert text.startswith("Offline mode is on (HF_HUB_OFFLINE) and lab/ratings is not in the cache")


def test_a_table_of_several_splits_is_read_at_one_commit(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = {"train": ["a", "b"], "test": ["c"]}
    files = {f"data/{s}-00000-of-00001.parquet": parquet(id=ids, rating=[800] * len(ids)) for s, ids in splits.items()}
    hub.create("lab/ratings", files=files)
    frame, commit = remote.read_table("lab/ratings", ["id"], splits=("train", "test"), cache=tmp_path / "kept")
    assert frame["id"].to_list() == ["a", "b", "c"]
    assert commit == hub.history("lab/ratings")[-1].oid
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert remote.read_table("lab/ratings", ["id"], splits=("train", "test"), cache=tmp_path / "kept")[0].equals(frame)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    hub.create("lab/lines", files={"train.jsonl": "{}"})
    assert "train.jsonl of lab/lines is no Parquet" in said(remote.read_table, "lab/lines", ["id"])


def test_a_missing_column_or_file_of_a_table_is_named(hub: LoopbackHub) -> None:
    hub.create("lab/ratings", files={"r.parquet": parquet(id=["a"], rating=[800]), "half.parquet": b"PAR1 and no more"})
    assert said(remote.read_columns, "lab/ratings", "r.parquet", ["raitng"]) == (
        "r.parquet of lab/ratings has no column raitng; it has id, rating. Did you mean rating?"
    )
    assert said(remote.read_columns, "lab/ratings", "q.parquet", ["id"]).startswith("lab/ratings has no file q.parquet at ")
    assert said(remote.read_columns, "lab/ratings", "half.parquet", ["id"]) == (
        "half.parquet of lab/ratings is no whole Parquet file; tell its owner."
    )


def test_no_error_ever_holds_the_token(hub: LoopbackHub) -> None:
    for name in ("other/nothing", "a/b@c"):
        assert "hf_test" not in said(remote.resolve, name)


def test_offline_in_a_fresh_process_is_an_error_without_a_connection(hub: LoopbackHub, tmp_path: Path) -> None:
    code = "from curate import errors, remote\ntry: remote.resolve('someuser/some-set')\nexcept errors.CurateError as e: print(e)"
    env = os.environ | hub.env(tmp_path / "fresh") | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Offline mode is on (HF_HUB_OFFLINE) and someuser/some-set is not in the cache")
    assert done.stderr == ""
    assert hub.log == []


def test_in_a_fresh_process_the_environment_alone_decides(cots: LoopbackHub, tmp_path: Path) -> None:
    code = (
        "import json, sys; from curate import remote; r = remote.resolve(sys.argv[1]); "
        "print(json.dumps([str(p) for p in remote.download(r)]))"
    )
    env = os.environ | cots.env(tmp_path / "fresh")
    done = subprocess.run([sys.executable, "-c", code, "lab/cots"], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    [path] = json.loads(done.stdout)
    assert Path(path).is_relative_to(tmp_path / "fresh" / "hub")
