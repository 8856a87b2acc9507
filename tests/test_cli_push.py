"""``curate push`` and ``select --push-to`` as typed, in processes of their own, to a Hub on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.hub_server import LoopbackHub
from tests.terminal import facts, listed

CURATE = Path(sys.executable).with_name("curate")
T = ("--count", "trace", "--estimate", "chars/1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source and what ``select`` made of it."""
    here = tmp_path_factory.mktemp("push")
    traces = ["<think>" + "w" * n + "</think>a" for n in (30, 20, 900, 40)]
    frame = pl.DataFrame({"id": list("aabc"), "prompt": list("pppq"), "generation": traces, "passed": [True] * 4})
    frame.write_parquet(here / "t.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURATE_CACHE", str(here / "cache"))
        facts("select", here / "t.parquet", *T, "--shortest", "--max-tokens", "100", "-o", here / "out")
    return here


@pytest.fixture
def hub(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with LoopbackHub() as served:
        for name, value in served.env(tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_HUB_CACHE", raising=False)
        monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
        monkeypatch.chdir(place)
        yield served


def typed(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(CURATE), *words], capture_output=True, text=True, check=False, env=os.environ | env, timeout=120)


def test_a_push_prints_the_address_of_its_one_commit(hub: LoopbackHub) -> None:
    done = typed("push", "out", "me/set")
    assert done.returncode == 0, done.stderr
    [_, commit] = hub.history("me/set")
    assert done.stdout == f"{hub.url}/datasets/me/set/commit/{commit.oid}\n"
    assert sorted(hub.files("me/set")) == listed(Path("out"))
    again = json.loads(typed("push", "out", "me/set", "--json").stdout)
    assert (again["committed"], len(hub.history("me/set"))) == (False, 2)


def test_a_dry_run_prints_files_and_card_and_sends_nothing(hub: LoopbackHub) -> None:
    done = typed("push", "out", "me/set", "--dry-run")
    assert done.returncode == 0, done.stderr
    for name in listed(Path("out")):
        assert name in done.stdout
    assert "The shortest passing trace of t" in done.stdout
    assert ("dataset", "me/set") not in hub.repos
    assert {r.method for r in hub.log} <= {"GET", "HEAD"}
    found = json.loads(typed("push", "out", "me/set", "--dry-run", "--json").stdout)
    assert (found["dry_run"], found["committed"]) == (True, False)


def test_select_pushes_to_where_it_is_told(hub: LoopbackHub, tmp_path: Path) -> None:
    words = ("select", "t.parquet", *T, "--shortest", "-o", str(tmp_path / "new"), "--push-to", "me/new", "--private")
    done = typed(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # stdout holds one object
    assert hub.history("me/new")[-1].oid in json.dumps(found)
    assert hub.repos["dataset", "me/new"].private
    assert sorted(hub.files("me/new")) == listed(tmp_path / "new")
    card = hub.files("me/new")["README.md"].decode()
    assert str(tmp_path) not in card


def test_a_pull_request(hub: LoopbackHub) -> None:
    hub.create("lab/theirs", files={"README.md": "# Theirs\n"})
    done = typed("push", "out", "lab/theirs", "--create-pr", "--commit-message", "Short traces")
    assert done.returncode == 0, done.stderr
    assert "/discussions/" in done.stdout
    assert sorted(hub.files("lab/theirs")) == ["README.md"]


@pytest.mark.parametrize(
    ("words", "env", "named"),
    [
        (("push", "out", "me/set"), {"HF_TOKEN": ""}, "hf auth login"),
        (("push", "out", "me/set"), {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
        (("push", "out", "other/set"), {}, "other"),
        (("push", "out", "me/public", "--private"), {}, "public"),
        (("push", "out", "me/set", "--token", "hf_reader"), {}, "me/set"),
        (("push", "out", "no-name"), {}, "no-name"),
        (("push", "nowhere", "me/set"), {}, "nowhere"),
        (("push", "cache", "me/set"), {}, "cache"),
    ],
)
def test_what_cannot_be_pushed_is_one_sentence(hub: LoopbackHub, words: tuple[str, ...], env: dict[str, str], named: str) -> None:
    hub.create("me/public", files={"a.txt": "mine"})
    done = typed(*words, **env)
    assert (done.returncode in (1, 2), done.stdout) == (True, ""), done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: "), done.stderr
    assert named in done.stderr.splitlines()[-1]
    assert "hf_" not in done.stderr
    assert "Traceback" not in done.stderr
    assert hub.files("me/public") == {"a.txt": b"mine"}
    assert len(hub.repos) == 1


def test_an_output_with_a_changed_file_is_not_pushed(hub: LoopbackHub, place: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree("out", tmp_path / "harmed")
    (tmp_path / "harmed" / "ledger.parquet").write_bytes(b"harmed")
    done = typed("push", str(tmp_path / "harmed"), "me/set")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ledger.parquet" in done.stderr
    assert not any(r.method in ("POST", "PUT") for r in hub.log)
