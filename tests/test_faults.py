"""Whatever happens to a run, afterwards there is a whole output or none, and a second run gives the bytes of an undisturbed one.

Kills hit before a change in the output's folder, each of them in turn, or at a random moment. Twelve by default;
``CURATE_KILLS=200 pytest tests/test_faults.py`` for the long loop, ``CURATE_SEED`` for other moments.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import cache, engine, opening, output, stretches, tokens
from curate.errors import CurateError

KILLS = int(os.environ.get("CURATE_KILLS", "12"))
SEED = int(os.environ.get("CURATE_SEED", "0"))
SHARDS, ROWS = 6, 60
CHANGED = r"changed while it was read|cannot be read|promises"
FOREIGN = "data/notes of mine.txt"


class Runner:
    """Runs ``curate`` in forks of one warm process (``fault_runner.py``); several may be asked at a time."""

    def __init__(self, home: Path) -> None:
        env = {**os.environ, "CURATE_CACHE": str(home / "cache"), "PYTHONPATH": str(Path(__file__).parents[1])}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fault_runner.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.home = home

    def ask(self, *argv: str, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"argv": argv, "cwd": str(self.home), "under": str(self.home / "work"), **request}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "Traceback" not in answer["err"], answer["err"]
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source of several shards, none of which compresses to nothing."""
    folder = tmp_path_factory.mktemp("faults")
    rng = random.Random(1)
    (folder / "source").mkdir()
    (folder / "work").mkdir()
    for shard in range(SHARDS):
        rows = [
            {
                "id": f"p{rng.randrange(200)}",
                "prompt": f"What is {shard} + {i}?",
                "generation": f"<think>\n{rng.randbytes(rng.randint(2_000, 9_000)).hex()}\n</think>\n\n{shard + i}",
                "passed": rng.random() < 0.8,
            }
            for i in range(ROWS)
        ]
        path = folder / "source" / f"part-{shard}.parquet"
        pl.DataFrame(rows).write_parquet(path)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture(scope="module")
def runner(home: Path) -> Iterator[Runner]:
    runner = Runner(home)
    yield runner
    runner.close()


def select(home: Path, out: Path, *more: str) -> list[str]:
    options = ["--shortest", "--max-tokens", "4000", "--estimate", "chars/3.6", "--num-shards", "4", "--json", "-q"]
    return ["select", str(home / "source"), *options, "-o", str(out), *more]


def content(out: Path) -> dict[str, str]:
    """Each file by its hash, but for a file of somebody else's and the journal of a replacement that was stopped."""
    files = (f for f in out.rglob("*") if f.is_file() and f.name not in (Path(FOREIGN).name, output.JOURNAL))
    return {str(f.relative_to(out)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def assert_whole_or_none(out: Path, *wholes: dict[str, str]) -> None:
    """With a manifest, one of these outputs; without one, nothing that is read as an output (a reader of ``data`` alone included)."""
    have = content(out)
    if "manifest.json" in have:
        assert have in wholes
        for name, facts in json.loads((out / "manifest.json").read_text())["files"].items():
            assert have.get(name) == facts["sha256"], f"{name} is not what the manifest says"
        return
    data = {k: v for k, v in have.items() if k.startswith("data/")}
    parts = [{k: v for k, v in whole.items() if k.startswith("data/")} for whole in wholes]
    assert not data or data in parts or (out / FOREIGN).exists()


@pytest.fixture(scope="module")
def new(home: Path, runner: Runner) -> dict[str, str]:
    """What an undisturbed run writes."""
    assert runner.ask(*select(home, home / "calm"))["status"] == 0
    return content(home / "calm")


def prepared(home: Path, runner: Runner, out: Path, kind: int) -> dict[str, str]:
    """Nothing, an older output, or an older output with a file of somebody else's in it."""
    if kind == 0:
        return {}
    assert runner.ask(*select(home, out, "--max-tokens", "2000"))["status"] == 0
    if kind == 2:
        (out / FOREIGN).write_text("keep me")
    return content(out)


@pytest.mark.parametrize("turn", range(KILLS))
def test_a_killed_select_leaves_a_whole_output_or_none(home: Path, runner: Runner, new: dict[str, str], turn: int) -> None:
    rng = random.Random(SEED * 10_007 + turn)
    out = home / "work" / f"{turn}" / "out"
    out.parent.mkdir()
    old = prepared(home, runner, out, turn % 3)
    cached = [] if rng.random() < 0.5 else ["--no-cache"]
    moment: dict[str, Any] = {"fault": "kill", "at": turn // 3 % 30 + 1} if turn % 5 else {"signal": "SIGKILL"}
    if "signal" in moment:
        moment["seconds"] = rng.uniform(0.02, 1.0)
    answer = runner.ask(*select(home, out, "--overwrite", *cached), **moment)
    assert answer["status"] in (0, -9)
    assert_whole_or_none(out, old, new)
    assert runner.ask(*select(home, out, "--overwrite"))["status"] == 0
    assert content(out) == new
    assert turn % 3 != 2 or (out / FOREIGN).read_text() == "keep me"
    assert [f.name for f in out.parent.iterdir()] == ["out"], "remains of the killed run"


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("fault", ["ENOSPC", "EACCES", "EIO", "interrupt"])
def test_a_fault_of_the_disk_or_ctrl_c_at_any_change_leaves_nothing_half_written(
    home: Path, runner: Runner, new: dict[str, str], fault: str, kind: int
) -> None:
    rng = random.Random(f"{fault} {kind}")
    out = home / "work" / f"{fault}-{kind}" / "out"
    out.parent.mkdir()
    old = prepared(home, runner, out, kind)
    for at in sorted(rng.sample(range(1, 26), 3)):
        answer = runner.ask(*select(home, out, "--overwrite", "--no-cache"), fault=fault, at=at)
        assert answer["status"] in ((0, 130) if fault == "interrupt" else (0, 1)), answer
        if answer["status"] == 1:
            assert answer["err"].startswith("Error: ") and answer["err"].count("\n") == 1
        assert_whole_or_none(out, old, new)
    assert runner.ask(*select(home, out, "--overwrite"))["status"] == 0
    assert content(out) == new
    assert [f.name for f in out.parent.iterdir()] == ["out"]


def test_ctrl_c_leaves_the_folder_clean(home: Path, runner: Runner, new: dict[str, str]) -> None:
    out = home / "work" / "ctrl-c" / "out"
    out.parent.mkdir()
    for seconds in (0.1, 0.3, 0.6):
        answer = runner.ask(*select(home, out, "--overwrite", "--no-cache"), signal="SIGINT", seconds=seconds)
        assert answer["status"] in (0, 130)
        assert [f.name for f in out.parent.iterdir()] == (["out"] if out.exists() else [])
        assert_whole_or_none(out, new)


@pytest.mark.parametrize("limit", [3_000, 200_000, 700_000])
def test_files_that_may_not_grow_are_a_sentence(home: Path, runner: Runner, limit: int) -> None:
    out = home / "work" / f"grow-{limit}" / "out"
    out.parent.mkdir()
    answer = runner.ask(*select(home, out, "--no-cache", "--num-shards", "1"), limits={"RLIMIT_FSIZE": limit})
    assert answer["status"] == 1 and "does not allow files as large" in answer["err"]
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("limit", [10, 20, 63, 64])
def test_too_few_file_handles_are_a_sentence(home: Path, runner: Runner, new: dict[str, str], limit: int) -> None:
    out = home / "work" / f"handles-{limit}" / "out"
    out.parent.mkdir()
    answer = runner.ask(*select(home, out, "--no-cache"), limits={"RLIMIT_NOFILE": limit})
    if limit < 64:
        assert answer["status"] == 1 and answer["err"].startswith(f"Error: This process may open only {limit} files.")
        assert list(out.parent.iterdir()) == []
    else:
        assert answer["status"] == 0 and content(out) == new


def test_a_clock_that_runs_backwards_changes_nothing(home: Path, runner: Runner, new: dict[str, str]) -> None:
    out = home / "work" / "clock" / "out"
    out.parent.mkdir()
    for jump in (-1e6, -2e9, 1e6):
        assert runner.ask(*select(home, out, "--overwrite"), clock=jump)["status"] == 0
        assert content(out) == new


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_two_runs_into_one_folder_leave_one_whole_output(home: Path, new: dict[str, str], kind: int) -> None:
    out = home / "work" / f"two-{kind}" / "out"
    out.parent.mkdir()
    runners = [Runner(home) for _ in range(3)]
    prepared(home, runners[0], out, kind)
    more = ["--overwrite"] if kind else []
    with ThreadPoolExecutor(len(runners)) as pool:
        answers = list(pool.map(lambda r: r.ask(*select(home, out, *more)), runners))
    for r in runners:
        r.close()
    assert 0 in [a["status"] for a in answers]
    for answer in answers:
        assert answer["status"] == 0 or "written by another run" in answer["err"] or "holds an output already" in answer["err"]
    assert content(out) == new
    assert [f.name for f in out.parent.iterdir()] == ["out"]


def test_a_damaged_cache_heals(home: Path, runner: Runner, new: dict[str, str]) -> None:
    out = home / "work" / "heals" / "out"
    out.parent.mkdir()
    kept = sorted((home / "cache").glob("*.parquet"))
    assert kept
    for damage in (b"", b"PAR1", None):
        for entry in kept:
            whole = entry.read_bytes()
            entry.write_bytes(whole[: len(whole) // 2] + whole[len(whole) // 2 + 7 :] if damage is None else damage)
        assert runner.ask(*select(home, out, "--overwrite"))["status"] == 0
        assert content(out) == new


def read(path: Path, **more: Any) -> engine.Source:
    request = opening.Request(sources=(str(path),), **more)
    source = opening.open_one(str(path), request, note=lambda text: None).source
    assert source is not None
    return source


@pytest.mark.parametrize("how", ["grown", "replaced", "removed"])
def test_a_file_that_changes_while_it_is_read_is_refused(home: Path, tmp_path: Path, how: str) -> None:
    """Facts of one version and texts of another must not meet: not in the ledger, and not in the copy."""
    rows = pl.read_parquet(home / "source" / "part-0.parquet")
    path = tmp_path / "rows.parquet"
    rows.write_parquet(path)
    source = read(path)
    counter = tokens.rule("chars/3.6")
    ledger, _ = engine.fill([source], counter)

    def change() -> None:
        other = rows.with_columns(pl.col("generation") + "x")
        if how == "removed":
            path.unlink()
        elif how == "replaced":
            other.write_parquet(tmp_path / "other.parquet")
            (tmp_path / "other.parquet").replace(path)
        else:
            pl.concat([other, other]).write_parquet(path)

    made = engine.copy(source, ledger, lambda kept, data: data.num_rows)  # type: ignore[arg-type,return-value]
    change()
    with pytest.raises(CurateError, match=CHANGED):
        list(made)
    with pytest.raises(CurateError, match=CHANGED):
        engine.fill([source], counter)


def test_a_folder_that_may_not_be_written_to_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(CurateError, match="may not be written to"):
        output.claim(tmp_path / "out", overwrite=False)


CURATE = [sys.executable, "-P", "-c", "from curate.cli import main; main()"]
HERE = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


@pytest.mark.parametrize("there", [False, True])
def test_a_disk_that_is_read_only(home: Path, tmp_path: Path, there: bool) -> None:
    """A real one, mounted by bubblewrap: root may not write there either."""
    locked = tmp_path / "locked"
    options = ["--shortest", "--estimate", "chars/3.6", "-q", "--no-cache", "--max-tokens", "2000"]
    locked.mkdir()
    if there:
        subprocess.run([*CURATE, "select", home / "source", *options, "-o", locked / "out"], check=True, env=HERE)
    before = content(locked)
    mounted = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(locked), str(locked)]
    if shutil.which("bwrap") is None or subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs bubblewrap, which mounts the folder read-only")
    again = [*CURATE, "select", home / "source", *options, "--overwrite", "-o", locked / "out"]
    done = subprocess.run([*mounted, *again], capture_output=True, text=True, check=False, env=HERE)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and "may not be written to" in done.stderr and done.stderr.count("\n") == 1
    assert content(locked) == before


def test_a_verify_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    source, out = tmp_path / "t.parquet", tmp_path / "v.parquet"
    programs = [f"import time\ntime.sleep(0.1)\nprint(int(input()) * {2 + i % 3 // 2})" for i in range(60)]
    rows = {
        "id": [f"p{i}" for i in range(60)],
        "generation": [f"<think>\n{i}\n</think>\n\n```python\n{p}\n```" for i, p in enumerate(programs)],
        "official_tests": [[{"input": "2\n", "output": "4\n"}]] * 60,
    }
    pl.DataFrame(rows).write_parquet(source)
    command = [*CURATE, "verify", source, "--isolation", "none", "--workers", "2", "-q", "-o"]
    subprocess.run([*command, tmp_path / "calm.parquet"], check=True, env=HERE)
    killed = subprocess.Popen([*command, out], env=HERE)
    partial = out.with_name("v.parquet.partial")
    until = time.monotonic() + 60
    while time.monotonic() < until and not (partial.exists() and partial.read_bytes().count(b"\n") > 10):
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert not out.exists()
    kept = partial.read_bytes().count(b"\n") - 1  # the first line says by what options
    assert 10 <= kept < 60
    trace = "import json, sys; from curate import judging, judge_code; was = judging.judge\n"
    trace += "def judge(tasks, **k):\n    tasks = list(tasks); print(len(tasks), file=sys.stderr); return was(iter(tasks), **k)\n"
    trace += "judging.judge = judge; from curate.cli import main; main()"
    again = [sys.executable, "-P", "-c", trace, *command[4:-1], "--resume", "-o", out]
    done = subprocess.run(again, check=True, env=HERE, capture_output=True, text=True)
    judged = [int(line) for line in done.stderr.split()]
    assert 60 - kept - 1 <= sum(judged) <= 60 - kept  # one line may have been cut
    want = pl.read_parquet(tmp_path / "calm.parquet").drop("seconds")
    assert pl.read_parquet(out).drop("seconds").equals(want)
    assert want["verdict"].cast(pl.String).value_counts().sort("count").rows() == [("wrong_answer", 20), ("passed", 40)]
    assert not partial.exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "disk .* is full"),
        (errno.EROFS, "may not be written to"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EDQUOT, "is full"),
    ],
)
def test_errors_of_the_disk_are_sentences(tmp_path: Path, number: int, said: str) -> None:
    with pytest.raises(CurateError, match=said), output.workspace(tmp_path / "out", overwrite=False):
        raise OSError(number, os.strerror(number))
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_reading_goes_on_where_it_stopped(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stretch that was decided is kept; only the others are read again, and the ledger is the same."""
    from curate import shelves

    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stretches, "STRETCH_BYTES", 1)
    source, counter = read(home / "source"), tokens.rule("chars/3.6")
    request = opening.Request(sources=("source",))
    monkeypatch.setattr(cache, "SETTLED_NS", 0)
    read_rows: list[int] = []
    want = engine.fill([source], counter, progress=read_rows.append)[0]
    assert len(stretches.cut(source.table)) == SHARDS and sum(read_rows) == SHARDS * ROWS

    def stopped(rows: int) -> None:
        read_rows.append(rows)
        if sum(read_rows) >= 3 * ROWS:
            raise KeyboardInterrupt

    read_rows.clear()
    with pytest.raises(KeyboardInterrupt):
        engine.fill([source], counter, shelf=shelves.Shelf([source], counter, request), progress=stopped)
    assert len(list((tmp_path / "cache").glob("*.parquet"))) == 2
    read_rows.clear()
    shelf = shelves.Shelf([source], counter, request)
    assert engine.fill([source], counter, shelf=shelf, progress=read_rows.append)[0].equals(want)
    assert read_rows[0] == 2 * ROWS and sum(read_rows) == SHARDS * ROWS
    assert len(list((tmp_path / "cache").glob("*.parquet"))) == SHARDS
