"""Known data sets by name, as a user types them: real processes and real clients against a Hub on loopback, nothing mocked below HTTP.

One process per command line where the process is what is tested; every preset in this process, for speed.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import presets
from tests import preset_data
from tests.hub_server import LoopbackHub
from tests.terminal import at, curate, facts, texts

KNOWN = presets.known()
NAME = "solutions_py_decontaminated"
COTS = "open-r1/codeforces-cots"
CURATE = Path(sys.executable).with_name("curate")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with LoopbackHub() as served:
        for name, value in served.env(tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        for name in ("HF_HUB_CACHE", "HF_DATASETS_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("time.sleep", lambda _: None)
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        yield served


def serve(hub: LoopbackHub, name: str, folder: Path) -> preset_data.Expected:
    """The made data of one preset, and the ratings that it joins."""
    preset = KNOWN[name]
    expected = preset_data.make(preset, folder / name)
    assert preset.repo is not None
    files = preset_data.as_files(folder / name)
    if ("dataset", preset.repo) in hub.repos:
        hub.put(preset.repo, files)
    else:
        hub.create(preset.repo, files=files)
    if preset.difficulty_from is not None and ("dataset", "open-r1/codeforces") not in hub.repos:
        preset_data.ratings(folder / "ratings")
        hub.create("open-r1/codeforces", files=preset_data.as_files(folder / "ratings"))
    return expected


def typed(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command line in a process of its own, with the environment of this test."""
    words = line.split()
    assert words[0] == "curate"
    return subprocess.run([str(CURATE), *words[1:]], capture_output=True, text=True, check=False, env=os.environ | env, timeout=240)


@pytest.mark.parametrize("name", KNOWN)
def test_a_set_loads_by_its_short_name_with_verdicts_problems_and_difficulty_as_worked_out(
    name: str, hub: LoopbackHub, tmp_path: Path
) -> None:
    expected = serve(hub, name, tmp_path)
    found = facts("yield", name)
    assert (found["rows"], found["traces"], found["problems"]) == (expected.rows, expected.traces, expected.problems)
    assert found["traces_per_problem"] == expected.per_problem
    counts = found["passing"]
    assert (counts["passed"], counts["failed"], counts["unknown"]) == (expected.passed, expected.failed, expected.unknown)
    assert counts["basis"] == (KNOWN[name].passed_basis if expected.unknown < expected.traces else "none")
    assert found["unfinished"] == expected.unfinished
    assert found["difficulty"] == {"rated": expected.rated, "unrated": expected.unrated}
    assert (found["bad_rows"], found["rows_without_problem"]) == (0, 0)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """8,133 rows whose made lengths hold the published quantiles."""
    folder = tmp_path_factory.mktemp("published")
    assert preset_data.published(folder) == {5120: 1348, 8192: 2412, 16384: 4753, 24576: 7635}
    return preset_data.as_files(folder)


def test_the_users_own_command_lines_on_8133_rows(hub: LoopbackHub, published: dict[str, bytes], tmp_path: Path) -> None:
    hub.create(COTS, files=published)
    preset_data.ratings(tmp_path / "ratings")
    hub.create("open-r1/codeforces", files=preset_data.as_files(tmp_path / "ratings"))
    plain = typed("curate yield solutions_py_decontaminated")
    assert plain.returncode == 0, plain.stderr
    assert "every problem has one trace, so shortest is first" in plain.stdout
    assert "solutions_w_editorials_py_decontaminated" in plain.stdout  # where more traces of the same problems are
    old = json.loads(typed("curate yield solutions_py_decontaminated --estimate chars/3.6 --json").stdout)
    assert (old["rows"], old["traces"], old["problems"], old["traces_per_problem"]) == (8133, 8133, 8133, {"1": 8133})
    assert [b["max_tokens"] for b in old["bounds"]] == [5120, 8192, 16384, 24576, None]  # the preset's own bounds
    assert [b["traces"] for b in old["bounds"]] == [1348, 2412, 4753, 7635, 8133]
    assert [round(100 * b["share"]) for b in old["bounds"]] == [17, 30, 58, 94, 100]
    assert [b["problems"]["shortest"] for b in old["bounds"]] == [1348, 2412, 4753, 7635, 8133]
    assert (old["tokens"]["p50"], old["tokens"]["p90"], old["tokens"]["p99"]) == (13770, 23374, 27315)
    assert (old["passing"]["basis"], old["passing"]["passed"]) == ("proxy", 8133)
    picked = typed("curate select --shortest --max-tokens 8192 --estimate chars/3.6 --json")
    assert "Source: solutions_py_decontaminated (the last one used in this folder)" in picked.stderr
    assert json.loads(picked.stdout) | {"problems_lost": 0} == {
        "traces": 8133, "kept": 2412, "problems": 8133, "problems_kept": 2412, "problems_lost": 0,
        "dropped": {"bad_row": 0, "no_problem": 0, "unfinished": 0, "no_thinking": 0, "not_passing": 0,
                    "over_length": 5721, "not_chosen": 0},
        "tokens_kept": at(old, 8192)["tokens"], "out": "data/solutions_py_decontaminated-shortest-8192",
    }  # fmt: skip
    kept = pl.scan_parquet("data/solutions_py_decontaminated-shortest-8192/data").select("problem", "tokens").collect()
    assert (kept.height, kept["problem"].n_unique(), kept["tokens"].max()) == (2412, 2412, 8191)
    card = Path("data/solutions_py_decontaminated-shortest-8192/README.md").read_text()
    assert hub.history(COTS)[-1].oid in card
    assert "cc-by-4.0" in card


def test_the_users_two_command_lines_exactly_as_typed(hub: LoopbackHub, tmp_path: Path) -> None:
    expected = serve(hub, NAME, tmp_path)
    first = typed("curate yield solutions_py_decontaminated")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("8,192 tokens reach 3 of 3 problems with a passing trace (100%)")
    second = typed("curate select --shortest --max-tokens 8192")
    assert second.returncode == 0, second.stderr
    out = Path("data") / "solutions_py_decontaminated-shortest-8192"
    assert texts(out) == [expected.texts[0], expected.texts[2], expected.texts[3]]  # A, C and D: B has no code, E never ended
    again = typed("curate select --shortest --max-tokens 8192")
    assert (again.returncode, again.stdout) == (1, "")
    assert "--overwrite" in again.stderr


def test_two_configs_are_pooled_by_problem_and_the_shortest_of_both_is_kept(hub: LoopbackHub, tmp_path: Path) -> None:
    other = "solutions_w_editorials_py_decontaminated"
    one, two = serve(hub, NAME, tmp_path), serve(hub, other, tmp_path)
    # Both folders brought a README: the one that lists both configs is written by hand, as the real repository has it.
    card = "---\nlicense: cc-by-4.0\nconfigs:\n" + "".join(
        f"- config_name: {n}\n  data_files:\n  - split: train\n    path: {n}/train-*\n" for n in (NAME, other)
    )
    hub.put(COTS, {"README.md": card + "---\n"})
    found = facts("yield", NAME, other)
    assert (found["rows"], found["traces"], found["problems"]) == (one.rows + two.rows, one.traces + two.traces, 5)
    assert found["passing"]["passed"] == one.passed + two.passed
    picked = facts("select", NAME, other, "--shortest", "-o", "out")
    assert (picked["problems_kept"], picked["kept"]) == (3, 3)
    assert picked["kept"] + sum(picked["dropped"].values()) == one.traces + two.traces
    lengths = {p: min(len(t) for t in (*one.texts, *two.texts) if f"about {p}, " in t) for p in "ACD"}
    assert [len(t) for t in sorted(texts(Path("out")), key=lambda t: t[20:40])] == [lengths[p] for p in "ACD"]


def test_only_the_shards_of_the_config_are_downloaded_and_the_commit_is_recorded(hub: LoopbackHub, tmp_path: Path) -> None:
    serve(hub, NAME, tmp_path)
    facts("select", NAME, "--shortest", "-o", "out")
    read = {r.path.split("?")[0].rsplit("/resolve/", 1)[-1].split("/", 1)[-1] for r in hub.log if "/resolve/" in r.path}
    assert not any(path.startswith("other/") for path in read)
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["sources"][0]["revision"] == hub.history(COTS)[-1].oid
    assert manifest["sources"][0]["licence"] == "cc-by-4.0"


def test_difficulty_is_read_by_ranges_and_a_rerun_offline_gives_the_same(hub: LoopbackHub, tmp_path: Path) -> None:
    serve(hub, NAME, tmp_path)
    first = typed(f"curate yield {NAME} --json")
    found = json.loads(first.stdout)
    assert found["difficulty"] == {"rated": 3, "unrated": 2}
    # A 800 and C 1500 (under the other id of its problem) have a finished trace with code; B 2400 has none
    bands = [(b["label"], b["problems"], b["with_passing"]) for b in found["bounds"][-1]["skew"]["bands"]]
    assert bands == [("800", 1, 1), ("1500", 1, 1), ("2400", 1, 0)]
    assert "joined by id: 4 of 5 problems found there, 3 rated" in first.stderr
    requests = len(hub.log)
    for options in ("", " --no-cache"):
        offline = typed(f"curate yield {NAME} --json{options}", HF_HUB_OFFLINE="1")
        assert (offline.returncode, json.loads(offline.stdout)) == (0, found), offline.stderr
    assert len(hub.log) == requests


def parquet(**columns: list[Any]) -> bytes:
    sink = io.BytesIO()
    pl.DataFrame(columns).write_parquet(sink)
    return sink.getvalue()


@pytest.fixture
def lab(hub: LoopbackHub) -> LoopbackHub:
    """A set without a preset: two configs, and a commit before the last."""
    card = "---\nconfigs:\n" + "".join(
        f"- config_name: {n}\n  data_files:\n  - split: train\n    path: {n}/train-*\n" for n in ("one", "two")
    )

    def files(mark: str) -> dict[str, bytes | str]:
        rows = {n: [f"<think>{mark}</think>{n}{i}" for i in range(k)] for n, k in (("one", 1), ("two", 2))}
        return {
            "README.md": card + "---\n",
            **{
                f"{n}/train-00000-of-00001.parquet": parquet(
                    id=[*range(len(t))], prompt=["q"] * len(t), generation=t, passed=[True] * len(t)
                )
                for n, t in rows.items()
            },
        }

    hub.create("lab/set", files=files("old"))
    hub.put("lab/set", files("new"))
    return hub


def test_a_set_without_a_preset_by_config_and_revision(lab: LoopbackHub) -> None:
    old = lab.history("lab/set")[-2].oid
    for spec, mark, at_commit in (("lab/set:two", "new", lab.history("lab/set")[-1].oid), (f"lab/set:two@{old}", "old", old)):
        done = typed(f"curate select {spec} --shortest -o {mark} --json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["kept"] == 2
        assert texts(Path(mark)) == [f"<think>{mark}</think>two0", f"<think>{mark}</think>two1"]
        assert json.loads(Path(mark, "manifest.json").read_text())["sources"][0]["revision"] == at_commit


def test_an_address_as_datasets_and_polars_write_it(lab: LoopbackHub) -> None:
    old = lab.history("lab/set")[-2].oid
    for spec, n in {
        "hf://datasets/lab/set/one/train-00000-of-00001.parquet": 1,
        f"hf://datasets/lab/set@{old}/two/train-*.parquet": 2,
        "hf://datasets/lab/set/two": 2,
    }.items():
        assert facts("yield", spec)["traces"] == n, spec
    done = curate("yield", "hf://datasets/lab/set/three/*.parquet")
    assert (done.status, done.out) == (1, "")
    assert "lab/set has no file three/*.parquet" in done.err


@pytest.mark.parametrize(
    ("line", "env", "words"),
    [
        ("curate yield lab/set", {}, ["lab/set", "one", "two"]),
        ("curate yield lab/set:three", {}, ["three", "one", "two"]),
        ("curate yield lab/set:one --split test", {}, ["test", "train"]),
        ("curate yield lab/set:one@nowhere", {}, ["nowhere"]),
        ("curate yield lab/sett", {}, ["lab/sett"]),
        ("curate yield lab/secret", {"HF_TOKEN": "hf_other"}, ["lab/secret", "token may read it if it is private"]),
        ("curate yield lab/secret", {"HF_TOKEN": ""}, ["lab/secret", "hf auth login", "if it is private"]),
        ("curate yield lab/gated", {"HF_TOKEN": "hf_other"}, ["gated", "terms"]),
        ("curate yield lab/set:one", {"HF_HUB_OFFLINE": "1"}, ["HF_HUB_OFFLINE"]),
        ("curate yield lab/set:one", {"HF_ENDPOINT": "http://127.0.0.1:9"}, ["HF_HUB_OFFLINE"]),
        ("curate yield solutions_py_decontaminate", {}, ["Did you mean solutions_py_decontaminated"]),
        ("curate yield solutions_py_decontaminated", {}, ["open-r1/codeforces-cots"]),
        ("curate yield org/name/more", {}, ["org/name/more"]),
    ],
)
def test_what_cannot_be_had_is_one_sentence_with_the_next_step(
    lab: LoopbackHub, line: str, env: dict[str, str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.create("lab/secret", files={"train.parquet": parquet(id=["a"])}, private=True)
    lab.create("lab/gated", files={"train.parquet": parquet(id=["a"])}, gated=True)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    done = curate(*line.split()[1:])
    assert (done.status, done.out) == (1, "")
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert [word for word in words if word not in last] == []
    assert "Traceback" not in done.err
    assert not any(Path.cwd().iterdir())


def test_a_preset_that_disagrees_with_the_data_stops_with_what_differs(hub: LoopbackHub, tmp_path: Path) -> None:
    preset_data.make(KNOWN["LIMO"], tmp_path / "limo")
    files = preset_data.as_files(tmp_path / "limo")
    renamed = {}
    for path, data in files.items():
        renamed[path] = data
        if path.endswith(".parquet"):
            sink = io.BytesIO()
            pl.read_parquet(data).rename({"solution": "worked"}).write_parquet(sink)
            renamed[path] = sink.getvalue()
    hub.create("GAIR/LIMO", files=renamed)
    done = curate("yield", "LIMO")
    assert done.status == 1
    assert "solution" in done.err.splitlines()[-1]


def test_a_download_that_was_cut_goes_on(hub: LoopbackHub, tmp_path: Path) -> None:
    serve(hub, "LIMO", tmp_path)
    hub.fail("GET", "/_cdn/", cut="body")
    assert facts("inspect", "LIMO")["traces"] == 4


def test_like_reads_the_commit_that_was_read(lab: LoopbackHub) -> None:
    facts("select", "lab/set:two", "--shortest", "-o", "first")
    lab.put(
        "lab/set",
        {"two/train-00000-of-00001.parquet": parquet(id=[9], prompt=["q"], generation=["<think>x</think>y"], passed=[True])},
    )
    facts("select", "--like", "first/manifest.json", "-o", "again")
    assert texts(Path("again")) == texts(Path("first")) == ["<think>new</think>two0", "<think>new</think>two1"]
    facts("select", "lab/set:two", "--shortest", "-o", "now")
    assert texts(Path("now")) == ["<think>x</think>y"]


def test_an_output_names_its_commit_in_the_command_of_its_card(lab: LoopbackHub) -> None:
    commit = lab.history("lab/set")[-1].oid
    facts("select", "lab/set:two", "--shortest", "-o", "out")
    card = Path("out/README.md").read_text()
    assert f"lab/set:two@{commit}" in card or commit[:12] in card
