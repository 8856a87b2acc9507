"""Pushes by the real clients, in processes of their own, to a Hub on loopback; nothing is mocked below HTTP."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import card, hub
from curate.errors import CurateError, UsageError
from tests import made_out
from tests.hub_server import LoopbackHub, User
from tests.hub_worker import Worker


@pytest.fixture(scope="module")
def served() -> Iterator[LoopbackHub]:
    with LoopbackHub() as running:
        yield running


@pytest.fixture(scope="module")
def worker(served: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(served.env(tmp_path_factory.mktemp("home"))) as process:
        yield process


@pytest.fixture
def loop(served: LoopbackHub) -> Iterator[LoopbackHub]:
    """The Hub of the module, emptied."""
    yield served
    served.on_request = served.on_answer = None
    served.faults.clear()
    served.log.clear()
    served.repos.clear()
    served.store.clear()


@pytest.fixture(scope="module")
def outs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``big``: five rows in three shards; ``small``: two rows in one."""
    root = tmp_path_factory.mktemp("outs")
    made_out.write(root / "big", rows=5, shards=3, tag="b")
    made_out.write(root / "small", rows=2, tag="s")
    return {"big": root / "big", "small": root / "small"}


def local(out: Path, *, root: str = "") -> dict[str, bytes]:
    """The files of a folder as a push places them, without the card."""
    paths = [p for p in sorted(out.rglob("*")) if p.is_file() and p.name != "README.md"]
    return {root + p.relative_to(out).as_posix(): p.read_bytes() for p in paths}


def without_card(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if path != "README.md"}


def parquet(**columns: list[Any]) -> bytes:
    sink = io.BytesIO()
    pl.DataFrame(columns).write_parquet(sink)
    return sink.getvalue()


def test_a_first_push_is_one_commit_with_everything_and_loads_at_once(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    done = worker.push(outs["big"], "me/set")
    assert loop.files("me/set") == local(outs["big"]) | {"README.md": (outs["big"] / "README.md").read_bytes()}
    assert [c.title for c in loop.history("me/set")] == ["initial commit", "5 traces (curate 0.1.0)"]
    assert done["url"] == f"{loop.url}/datasets/me/set/commit/{loop.history('me/set')[-1].oid}"
    assert (done["committed"], done["created"], done["deletions"]) == (True, True, [])
    loaded = worker.load("me/set")
    assert loaded == {"train": {"rows": 5, "features": ["messages", "problem", "tokens"]}, "exit": 0}


def test_large_files_go_up_before_the_commit_and_the_commit_is_sent_once(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    worker.push(outs["big"], "me/set")
    writes = [r.path.split("/")[1] for r in loop.log if r.method == "PUT" or "/commit/" in r.path]
    assert writes == ["_lfs"] * 5 + ["api"]


def test_a_push_that_changes_nothing_makes_no_commit(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["big"], "me/set")
    loop.log.clear()
    again = worker.push(outs["big"], "me/set")
    assert (again["committed"], again["files"], again["url"]) == (False, {}, f"{loop.url}/datasets/me/set")
    assert len(again["unchanged"]) == 7
    assert len(loop.history("me/set")) == 2
    assert {r.method for r in loop.log} <= {"GET", "HEAD"}


def test_a_second_push_with_fewer_shards_deletes_those_left_over_in_the_same_commit(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    worker.push(outs["big"], "me/set")
    loop.put("me/set", {"notes.txt": "mine", "data/notes.txt": "mine too"})
    done = worker.push(outs["small"], "me/set")
    assert done["deletions"] == [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]
    kept = {"notes.txt": b"mine", "data/notes.txt": b"mine too"}
    assert without_card(loop.files("me/set")) == local(outs["small"]) | kept
    assert len(loop.history("me/set")) == 4
    assert worker.load("me/set")["train"]["rows"] == 2


def test_a_second_config_lives_beside_the_first_and_harms_it_at_no_push(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    worker.push(outs["big"], "me/set")
    worker.push(outs["big"], "me/set", config="py")
    worker.push(outs["small"], "me/set", config="py")
    assert without_card(loop.files("me/set")) == local(outs["big"]) | local(outs["small"], root="py/")
    assert worker.load("me/set")["train"]["rows"] == 5
    assert worker.load("me/set", "py")["train"]["rows"] == 2
    worker.push(outs["small"], "me/set")
    assert worker.load("me/set")["train"]["rows"] == 2
    assert worker.load("me/set", "py")["train"]["rows"] == 2


def test_a_config_beside_rows_that_no_card_listed_keeps_them_the_default(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    loop.create("me/old", files={"train.parquet": parquet(id=[1, 2, 3, 4]), "README.md": "# Mine\n"})
    worker.push(outs["small"], "me/old", config="short")
    assert worker.load("me/old")["train"]["rows"] == 4
    assert worker.load("me/old", "short")["train"]["rows"] == 2
    assert "# Mine" in loop.files("me/old")["README.md"].decode()


def test_hand_written_text_of_the_card_survives_a_push(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["big"], "me/set")
    text = loop.files("me/set")["README.md"].decode()
    edited = text.replace("tags:\n", "language:\n- en\ntags:\n") + "\n## How to cite\n\nAsk me.\n"
    edited = edited.replace("<!-- curate: begin default -->", "Read this first.\n\n<!-- curate: begin default -->")
    loop.put("me/set", {"README.md": edited})
    worker.push(outs["small"], "me/set")
    after = loop.files("me/set")["README.md"].decode()
    assert "\nlanguage:\n- en\n" in after
    assert "\nRead this first.\n\n<!-- curate: begin default -->\n" in after
    assert after.endswith("\n## How to cite\n\nAsk me.\n")
    assert "2 reasoning traces for" in after
    assert "5 reasoning traces for" not in after


def test_a_pull_request_leaves_main_alone_and_is_opened_once(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["big"], "me/set")
    done = worker.push(outs["small"], "me/set", create_pr=True, commit_message="shorter")
    assert done["url"] == f"{loop.url}/datasets/me/set/discussions/1"
    assert without_card(loop.files("me/set")) == local(outs["big"])
    assert without_card(loop.files("me/set", revision="refs/pr/1")) == local(outs["small"])
    assert loop.history("me/set", revision="refs/pr/1")[-1].title == "shorter"
    again = worker.push(outs["small"], "me/set", create_pr=True)
    assert (again["committed"], again["url"], again["files"]) == (False, done["url"], {})
    assert worker.load("me/set", revision="refs/pr/1")["train"]["rows"] == 2


def test_anybody_may_open_a_pull_request_with_a_token_of_his_own(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["big"], "me/set")
    assert worker.push(outs["small"], "me/set", create_pr=True, token="hf_other")["committed"]
    refused = worker.push(outs["small"], "me/set", token="hf_other")
    assert refused["error"] == ("Your token has no right to do this to me/set (status 403); use one that has, or another name.")
    assert without_card(loop.files("me/set")) == local(outs["big"])


def test_a_push_to_a_branch_makes_it_and_leaves_main_alone(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["big"], "me/set")
    worker.push(outs["small"], "me/set", revision="short")
    assert without_card(loop.files("me/set")) == local(outs["big"])
    assert without_card(loop.files("me/set", revision="short")) == local(outs["small"])
    missing = worker.push(outs["small"], "me/set", revision="refs/pr/7")
    assert missing["error"] == "me/set has no refs/pr/7 to push to; make it first, or leave --revision out."


def test_a_new_branch_is_made_even_when_nothing_has_to_change(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["big"], "me/set")
    assert not worker.push(outs["big"], "me/set", revision="v1", dry_run=True)["committed"]
    assert list(loop.repos["dataset", "me/set"].refs) == ["main"]
    assert not worker.push(outs["big"], "me/set", revision="v1")["committed"]
    assert loop.history("me/set", revision="v1") == loop.history("me/set")


def test_private_is_made_private_before_the_first_byte(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    worker.push(outs["small"], "me/secret", private=True)
    assert loop.repos["dataset", "me/secret"].private
    worker.push(outs["small"], "me/open")
    assert not loop.repos["dataset", "me/open"].private
    assert worker.push(outs["big"], "me/secret", private=True)["committed"]
    assert worker.push(outs["small"], "me/secret")["committed"]
    assert loop.repos["dataset", "me/secret"].private


def test_private_asked_for_and_a_public_repository_stops_before_any_upload(
    loop: LoopbackHub, worker: Worker, tmp_path: Path
) -> None:
    loop.create("me/public", files={"README.md": "# old\n"})
    (tmp_path / "new.parquet").write_bytes(parquet(id=[1, 2]))
    refused = worker.push(tmp_path / "new.parquet", "me/public", private=True)
    assert refused["error"] == (
        "me/public is public and --private was asked for; nothing was uploaded. "
        "Make it private in its settings, or choose another name."
    )
    assert {r.method for r in loop.log} <= {"GET", "HEAD"}
    assert loop.files("me/public") == {"README.md": b"# old\n"}


def test_a_bare_file_replaces_a_config_whole_and_its_card_names_only_splits_that_are_there(
    loop: LoopbackHub, worker: Worker, tmp_path: Path
) -> None:
    text = (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n"
        "  - split: test\n    path: data/test-*\n---\n"
    )
    old = {f"data/{split}-00000-of-00001.parquet": parquet(id=[9]) for split in ("train", "test")}
    loop.create("me/cots", private=True, files={"README.md": text, **old})
    (tmp_path / "new.parquet").write_bytes(parquet(id=[1, 2, 3]))
    done = worker.push(tmp_path / "new.parquet", "me/cots")
    assert sorted(loop.files("me/cots")) == ["README.md", "data/train-00000-of-00001.parquet"]
    assert (done["bare"], done["deletions"]) == (True, ["data/test-00000-of-00001.parquet"])
    assert "There is no ledger and no manifest" in " ".join(done["card"].split())
    assert worker.load("me/cots") == {"train": {"rows": 3, "features": ["id"]}, "exit": 0}


def test_a_stale_shard_that_another_config_reads_stays(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    shared = "data/test-00000-of-00001.parquet"
    text = (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*\n"
        f"- config_name: eval\n  data_files: {shared}\n---\n"
    )
    loop.create("me/cots", files={"README.md": text, shared: parquet(id=[7])})
    assert worker.push(outs["small"], "me/cots")["deletions"] == []
    assert worker.load("me/cots", "eval")["train"] == {"rows": 1, "features": ["id"]}


def test_a_bare_folder_keeps_its_splits(loop: LoopbackHub, worker: Worker, tmp_path: Path) -> None:
    for name, ids in {"train-a": [1], "train-b": [2, 3], "test": [4]}.items():
        (tmp_path / f"{name}.parquet").write_bytes(parquet(id=ids))
    worker.push(tmp_path, "me/bare")
    assert sorted(without_card(loop.files("me/bare"))) == [
        "data/test-00000-of-00001.parquet",
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
    ]
    loaded = worker.load("me/bare")
    assert (loaded["train"]["rows"], loaded["test"]["rows"]) == (3, 1)


def test_bare_rows_over_a_selection_take_its_ledger_and_manifest_away(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], tmp_path: Path
) -> None:
    worker.push(outs["big"], "me/set")
    (tmp_path / "new.parquet").write_bytes(parquet(id=[1]))
    worker.push(tmp_path / "new.parquet", "me/set")
    assert sorted(loop.files("me/set")) == ["README.md", "data/train-00000-of-00001.parquet"]


def test_a_dry_run_says_everything_and_changes_nothing(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    new = worker.push(outs["small"], "me/new", dry_run=True)
    assert (new["committed"], new["dry_run"]) == (False, True)
    assert loop.repos == {}
    worker.push(outs["big"], "me/set")
    before = loop.files("me/set")
    loop.log.clear()
    plan = worker.push(outs["small"], "me/set", dry_run=True)
    assert sorted(plan["files"]) == [
        "README.md",
        "data/train-00000-of-00001.parquet",
        "ledger.parquet",
        "longest.parquet",
        "manifest.json",
    ]
    assert plan["files"]["ledger.parquet"] == (outs["small"] / "ledger.parquet").stat().st_size
    assert plan["deletions"] == [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]
    assert plan["card"].startswith("---\nlicense: cc-by-4.0\n")
    assert {r.method for r in loop.log} <= {"GET", "HEAD"}
    assert loop.files("me/set") == before


# Faults


@pytest.mark.parametrize("status", [409, 412, 429, 500, 502, 503, 504])
def test_a_commit_refused_once_is_tried_again_and_made_once(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], status: int
) -> None:
    loop.fail("POST", "/commit/", status=status)
    done = worker.push(outs["small"], "me/set")
    assert done["waits"] == [1.0]
    assert f"status {status}; looking again in 1 s (1 of 5)" in done["said"]
    assert len(loop.history("me/set")) == 2
    assert without_card(loop.files("me/set")) == local(outs["small"])


@pytest.mark.parametrize("headers", [{"Retry-After": "7"}, {"RateLimit": '"api";r=0;t=7'}])
def test_the_hub_s_own_waiting_time_is_kept(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], headers: dict[str, str]
) -> None:
    loop.fail("POST", "/commit/", status=429, headers=headers)
    assert worker.push(outs["small"], "me/set")["waits"] == [7.0]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (412, "Somebody else keeps changing me/set: each of 6 tries met a newer commit (status 412). Nothing was published; "
              "push again later."),
        (429, "The Hub asks to wait: too many requests for me/set (status 429). Try again in a few minutes."),
        (503, "The Hub at {url} failed on me/set (status 503); try again later."),
    ],
)  # fmt: skip
def test_tries_are_bounded_and_nothing_is_published(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], status: int, want: str
) -> None:
    loop.fail("POST", "/commit/", status=status, times=99)
    refused = worker.push(outs["small"], "me/set")
    assert refused["error"] == want.format(url=loop.url)
    assert refused["waits"] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert len(loop.paths("POST", "/commit/")) == 6
    assert loop.files("me/set") == {}


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_commit_refused_for_good_is_not_tried_again(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], status: int
) -> None:
    loop.fail("POST", "/commit/", status=status, times=99)
    refused = worker.push(outs["small"], "me/set")
    assert f"{status}" in refused["error"] or "no data set" in refused["error"]
    assert (refused["waits"], len(loop.paths("POST", "/commit/"))) == ([], 1)
    assert loop.files("me/set") == {}


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("GET", "/api/datasets/me/set"),
        ("GET", "/tree/"),
        ("POST", "/preupload/"),
        ("POST", "/objects/batch"),
        ("PUT", "/_lfs/"),
        ("POST", "/api/validate-yaml"),
        ("POST", "/api/repos/create"),
    ],
)
@pytest.mark.parametrize("cut", [None, "before", "after"])
def test_a_fault_at_any_other_request_is_overcome(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], *, method: str, part: str, cut: Any
) -> None:
    # The first look of all must answer: a Hub that cannot be reached at all is an error at once.
    loop.fail(method, part, status=503, cut=cut, skip=int(part == "/api/datasets/me/set"))
    worker.push(outs["small"], "me/set")
    assert len(loop.history("me/set")) == 2
    assert without_card(loop.files("me/set")) == local(outs["small"])


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("create_pr", [False, True])
def test_after_a_lost_answer_the_history_is_read_before_anything_is_sent_again(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], cut: Any, create_pr: bool
) -> None:
    worker.push(outs["big"], "me/set")
    loop.log.clear()
    loop.fail("POST", "/commit/", cut=cut)
    done = worker.push(outs["small"], "me/set", create_pr=create_pr)
    assert done["committed"]
    assert len(loop.paths("POST", "/commit/")) == (1 if cut == "after" else 2)
    ref = "refs/pr/1" if create_pr else "main"
    assert list(loop.repos["dataset", "me/set"].refs) == (["main", "refs/pr/1"] if create_pr else ["main"])
    assert len(loop.history("me/set", revision=ref)) == 3
    assert without_card(loop.files("me/set", revision=ref)) == local(outs["small"])
    end = "discussions/1" if create_pr else f"commit/{loop.history('me/set')[-1].oid}"
    assert done["url"] == f"{loop.url}/datasets/me/set/{end}"


def test_a_lost_answer_below_somebody_s_newer_commit_is_still_found(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    worker.push(outs["big"], "me/set")

    def land_and_move(number: int, method: str, path: str) -> None:
        if "/commit/" in path and "py/x.txt" not in loop.files("me/set"):
            loop.put("me/set", {"README.md": "# gone\n", "py/x.txt": "y"})

    loop.on_answer = land_and_move
    loop.fail("POST", "/commit/", cut="after")
    done = worker.push(outs["small"], "me/set")
    assert [c.title for c in loop.history("me/set")][2:] == ["2 traces (curate 0.1.0)", "by hand"]
    assert done["url"].endswith(loop.history("me/set")[2].oid)


@pytest.mark.parametrize("when", ["request", "answer"])
@pytest.mark.parametrize("before", [None, "big"])
def test_killed_at_each_request_in_turn_a_push_never_shows_a_half_state_and_ends_with_the_same_bytes(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], when: str, before: str | None
) -> None:
    if before:
        worker.push(outs[before], "me/set")
    old = local(outs[before]) if before else {}
    new = local(outs["small"])
    commits = 3 if before else 2
    for at in range(1, 40):
        first, known, pid = loop.count, threading.Event(), 0

        def kill(number: int, method: str, path: str) -> None:
            if number - first == at:  # noqa: B023
                known.wait(30)  # noqa: B023
                os.kill(pid, signal.SIGKILL)  # noqa: B023

        setattr(loop, f"on_{when}", kill)
        pid = worker.start(do="push", out=str(outs["small"]), repo="me/set")
        known.set()
        done = worker.wait()
        setattr(loop, f"on_{when}", None)
        shown = without_card(loop.files("me/set")) if ("dataset", "me/set") in loop.repos else {}
        assert shown in (old, new), f"a half state after request {at}"
        if done["exit"] == 0:
            break
        assert done == {"exit": -9}
    assert at > 5
    assert done["exit"] == 0
    assert without_card(loop.files("me/set")) == new
    assert len(loop.history("me/set")) == commits


def test_what_an_interrupted_push_uploaded_is_not_sent_again(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    loop.fail("POST", "/commit/", status=403, times=1)
    assert "error" in worker.push(outs["big"], "me/set")
    assert len(loop.paths("PUT", "/_lfs/")) == 5
    worker.push(outs["big"], "me/set")
    assert len(loop.paths("PUT", "/_lfs/")) == 5
    assert without_card(loop.files("me/set")) == local(outs["big"])


def test_two_pushes_at_once_both_arrive_whole(loop: LoopbackHub, worker: Worker, outs: dict[str, Path], tmp_path: Path) -> None:
    loop.create("me/set")
    meet = threading.Barrier(2, timeout=120)
    seen: list[str] = []

    def together(number: int, method: str, path: str) -> None:
        if "/commit/" in path:
            seen.append(path)
            if len(seen) <= 2:
                meet.wait()

    loop.on_request = together
    with Worker(loop.env(tmp_path)) as other:
        worker.start(do="push", out=str(outs["big"]), repo="me/set")
        other.start(do="push", out=str(outs["small"]), repo="me/set", config="py")
        ends = [worker.wait(), other.wait()]
    assert [end["committed"] for end in ends] == [True, True]
    assert sorted(end["waits"] for end in ends) == [[], [1.0]]
    assert without_card(loop.files("me/set")) == local(outs["big"]) | local(outs["small"], root="py/")
    assert len(loop.history("me/set")) == 3
    assert worker.load("me/set")["train"]["rows"] == 5
    assert worker.load("me/set", "py")["train"]["rows"] == 2


def test_a_push_is_described_for_people() -> None:
    done = hub.Push(
        repo="me/set", url="u", committed=False, commit=None, dry_run=True, created=False, files={"data/a.parquet": 1234567},
        unchanged=("x",), deletions=("data/b.parquet",), card="# Card\n", bare=True,
    )  # fmt: skip
    assert hub.describe(done).splitlines() == [
        "would add or replace 1 files, 1,234,567 bytes; 1 are there already",
        "        1,234,567  data/a.parquet",
        "           delete  data/b.parquet",
        "no ledger and no manifest: these rows are published as they are",
        "",
        "# Card",
    ]


# Refusals: one sentence, nothing changed


def test_rows_of_somebody_else_are_never_touched(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    theirs: dict[str, bytes | str] = {"data/train-00000-of-00001.parquet": parquet(id=[1]), "notes.md": "x"}
    loop.create("me/theirs", files=theirs)
    before = loop.files("me/theirs")
    refused = worker.push(outs["small"], "me/theirs")
    assert refused["error"] == (
        "me/theirs holds data/train-00000-of-00001.parquet, which no earlier push wrote; "
        "choose another --config NAME to live beside that, or another repository."
    )
    assert loop.files("me/theirs") == before
    assert worker.push(outs["small"], "me/theirs", config="mine")["committed"]
    assert {p: d for p, d in loop.files("me/theirs").items() if p in before} == before


def test_files_without_rows_are_neither_in_the_way_nor_deleted(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    loop.create("me/mixed", files={"script.py": "pass", "images/a.png": b"\0", "LICENSE": "mit"})
    before = loop.files("me/mixed")
    assert worker.push(outs["small"], "me/mixed")["deletions"] == []
    assert {p: d for p, d in loop.files("me/mixed").items() if p in before} == before


def test_a_pattern_of_another_config_that_would_take_the_rows_in_is_named(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    text = "---\nconfigs:\n- config_name: all\n  data_files: '**/*.parquet'\n---\n"
    loop.create("me/wide", files={"README.md": text, "a/b.parquet": parquet(id=[1])})
    refused = worker.push(outs["small"], "me/wide", config="py")
    assert refused["error"] == (
        "Config all of me/wide would read py/data/train-00000-of-00001.parquet too, by its own pattern; "
        "narrow that pattern in the README first, or choose another --config NAME."
    )
    assert len(loop.history("me/wide")) == 2


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("---\na: [\n---\n# x\n", "The front matter of the README.md of me/broken is broken YAML in line 2; mend it"),
        ("<!-- curate: begin default -->\n", "has no end for the mark <!-- curate: begin default -->"),
        ("---\nconfigs: x\n---\n", "The README of me/broken has `configs` that are no list"),
    ],
)
def test_a_broken_card_is_left_as_it_is(loop: LoopbackHub, worker: Worker, outs: dict[str, Path], text: str, want: str) -> None:
    loop.create("me/broken", files={"README.md": text})
    assert want in worker.push(outs["small"], "me/broken")["error"]
    assert loop.files("me/broken") == {"README.md": text.encode()}


def test_a_gitignore_that_would_leave_rows_out_is_an_error(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    loop.create("me/ignoring", files={".gitignore": "data/\n"})
    refused = worker.push(outs["small"], "me/ignoring")
    assert refused["error"] == (
        "The .gitignore of me/ignoring leaves data/train-00000-of-00001.parquet out; take that line from it, then push again."
    )
    assert sorted(loop.files("me/ignoring")) == [".gitignore"]


def test_a_name_that_is_a_model_or_taken_or_not_one_s_own_is_refused(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path]
) -> None:
    loop.create("me/model", type="model")
    assert worker.push(outs["small"], "me/model")["error"] == "me/model is a model, not a data set; choose another name."
    assert worker.push(outs["small"], "stranger/set")["error"] == (
        "Your token has no right to do this to stranger/set (status 403); use one that has, or another name."
    )
    loop.create("lab/set", private=True)
    loop.users["hf_fine"] = User("me", orgs=("lab",), hidden=("lab/set",))
    assert worker.push(outs["small"], "lab/set", token="hf_fine")["error"] == (
        "The name lab/set is taken by something that your token may not see; choose another name."
    )
    assert list(loop.repos) == [("model", "me/model"), ("dataset", "lab/set")]
    assert loop.files("lab/set") == {}


def test_a_token_that_may_not_write_or_is_unknown_is_refused(loop: LoopbackHub, worker: Worker, outs: dict[str, Path]) -> None:
    loop.create("me/set")
    assert "has no right to do this to me/set" in worker.push(outs["small"], "me/set", token="hf_reader")["error"]
    unknown = worker.push(outs["small"], "me/new", token="hf_wrong")["error"]
    assert unknown == "The Hub does not know this token (status 401); log in with `hf auth login`, or set HF_TOKEN."
    assert loop.files("me/set") == {}


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Push in this process where it must end before the first request; what it said."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv("HF_DATASETS_OFFLINE", raising=False)

    def push(out: Path, repo: str = "me/set", kind: type[CurateError] = CurateError, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            hub.push(out, repo, sleep=lambda _: None, **options)
        return str(caught.value)

    return push


def test_no_token_offline_and_an_unreachable_hub_are_said_at_once(
    calm: Callable[..., str], outs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calm(outs["small"]).startswith("Cannot reach the Hub at http://127.0.0.1:9 (")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert calm(outs["small"]) == "HF_HUB_OFFLINE is on, so nothing can be pushed; set HF_HUB_OFFLINE=0."
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_TOKEN", "")
    assert calm(outs["small"]) == ("There is no token to push with: log in with `hf auth login`, set HF_TOKEN, or pass --token.")


@pytest.mark.parametrize(
    ("repo", "options", "want"),
    [
        ("set", {}, "set is no repository; write org/name"),
        ("me/set:py", {}, "me/set:py is no repository; write org/name"),
        ("me/set", {"config": "data"}, "data is no name for a config"),
        ("me/set", {"config": "../x"}, "../x is no name for a config"),
        ("me/set", {"create_pr": True, "revision": "refs/pr/2"}, "--create-pr opens a new pull request"),
    ],
)
def test_names_that_are_none_are_refused_before_any_work(
    calm: Callable[..., str], tmp_path: Path, repo: str, options: dict[str, Any], want: str
) -> None:
    assert calm(tmp_path / "nothing", repo, UsageError, **options).startswith(want)


def test_a_folder_that_is_not_whole_is_refused(calm: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert calm(out).startswith(f"There is no {out};")
    made_out.write(out)
    (out / "manifest.json").rename(tmp_path / "kept.json")
    assert "has no manifest.json, so no `curate select` finished there" in calm(out)
    (tmp_path / "kept.json").rename(out / "manifest.json")
    shard = out / "data/train-00000-of-00001.parquet"
    body = shard.read_bytes()
    shard.write_bytes(body[:-1] + b"x")
    assert "was changed after `curate select`: data/train-00000-of-00001.parquet;" in calm(out)
    shard.unlink()
    assert "lacks data/train-00000-of-00001.parquet;" in calm(out)
    shard.write_bytes(body)
    (out / "data/train-00000-of-00002.parquet").write_bytes(body)
    assert "holds data/train-00000-of-00002.parquet, which its manifest does not list" in calm(out)
    (out / "data/train-00000-of-00002.parquet").unlink()
    text = (out / "README.md").read_text()
    (out / "README.md").write_text(text.replace("3 reasoning traces", "4 reasoning traces"))
    assert "does not say what the manifest says" in calm(out)
    (out / "README.md").write_text(text + "\nMine.\n")
    assert calm(out).startswith("Cannot reach the Hub")


def test_a_set_without_rows_is_refused(calm: Callable[..., str], tmp_path: Path) -> None:
    made_out.write(tmp_path / "out", rows=0)
    assert "holds no rows, so there is nothing to push" in calm(tmp_path / "out")
    (tmp_path / "empty.parquet").write_bytes(parquet(id=[]))
    assert "holds no rows, so there is nothing to push" in calm(tmp_path / "empty.parquet")


def test_bare_files_must_be_parquet_of_one_kind(calm: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet(id=[1]))
    (tmp_path / "b.parquet").write_bytes(parquet(id=["x"]))
    assert "b.parquet has other columns or types than" in calm(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    assert "b.parquet is no whole Parquet file; write it again." in calm(tmp_path)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes.txt").write_text("x")
    assert "holds no Parquet file" in calm(tmp_path / "c")


def test_the_manifest_that_was_pushed_describes_the_files_beside_it(
    loop: LoopbackHub, worker: Worker, outs: dict[str, Path], tmp_path: Path
) -> None:
    worker.push(outs["small"], "me/set", config="py")
    for path, data in loop.files("me/set").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    manifest = hub.verify_out(tmp_path / "py")
    assert manifest == json.loads((outs["small"] / "manifest.json").read_text())
    assert "py/manifest.json" in card.render(manifest, config="py")
