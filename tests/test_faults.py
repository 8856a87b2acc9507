"""Killed at a random moment: afterwards there is a whole output or none, and a second run gives the bytes of an undisturbed one.

Eight kills by default; ``CURATE_KILLS=200 pytest tests/test_faults.py`` for the long loop, ``CURATE_SEED`` for other moments.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

KILLS = int(os.environ.get("CURATE_KILLS", "8"))
SEED = int(os.environ.get("CURATE_SEED", "0"))
SHARDS, ROWS = 6, 120


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source of several shards, none of which compresses to nothing."""
    folder = tmp_path_factory.mktemp("faults")
    rng = random.Random(1)
    (folder / "source").mkdir()
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
        pl.DataFrame(rows).write_parquet(folder / "source" / f"part-{shard}.parquet")
    return folder


def command(home: Path, out: Path, *more: str) -> list[str]:
    program = [sys.executable, "-c", "from curate.cli import main; main()"]
    options = ["--shortest", "--estimate", "chars/3.6", "--num-shards", "4", "-q"]
    return [*program, "select", str(home / "source"), *options, "-o", str(out), *more]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}


def finish(home: Path, out: Path, *more: str) -> float:
    """Run to the end; the seconds it took."""
    start = time.monotonic()
    done = subprocess.run(command(home, out, *more), capture_output=True, text=True, env=environment(home), cwd=home, check=False)
    assert done.returncode == 0, done.stderr[-800:]
    return time.monotonic() - start


def kill_after(home: Path, out: Path, seconds: float, *more: str) -> None:
    """Start, and kill with no chance to clean up, unless it ends before."""
    process = subprocess.Popen(
        command(home, out, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(home), cwd=home
    )
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()


def content(out: Path) -> dict[str, str]:
    """Each file by its hash."""
    files = (f for f in out.rglob("*") if f.is_file())
    return {str(f.relative_to(out)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def assert_whole(out: Path) -> None:
    """What the manifest lists is there, with the hash it gives."""
    have = content(out)
    for name, facts in json.loads((out / "manifest.json").read_text())["files"].items():
        assert have.get(name) == facts["sha256"], f"{name} is not what the manifest says"


@pytest.fixture(scope="module")
def calm(home: Path) -> tuple[dict[str, str], float]:
    """What an undisturbed run writes, and how long it takes once files are warm."""
    finish(home, home / "calm")
    return content(home / "calm"), finish(home, home / "again")


@pytest.mark.parametrize("turn", range(KILLS))
def test_a_killed_select_leaves_a_whole_output_or_none(home: Path, calm: tuple[dict[str, str], float], turn: int) -> None:
    new, seconds = calm
    rng = random.Random(SEED * 10_007 + turn)
    out = home / f"out-{turn}"
    old: dict[str, str] = {}
    if turn % 2:  # every other time an older output stands there
        finish(home, out, "--max-tokens", "2000")
        old = content(out)
    # Most of the time goes into starting; the moments that matter come late.
    kill_after(home, out, seconds * rng.uniform(0.3, 1.05), "--overwrite")
    if (out / "manifest.json").exists():
        assert_whole(out)
        assert content(out) in (old, new), "neither the old output nor the new one"
    finish(home, out, "--overwrite")
    assert content(out) == new
    assert_whole(out)


def test_killed_runs_leave_nothing_beside_the_output(home: Path) -> None:
    out = home / "alone" / "out"
    out.parent.mkdir()
    seconds = finish(home, home / "alone" / "first")
    for part in (0.5, 0.7, 0.9):
        kill_after(home, out, seconds * part)
    finish(home, out, "--overwrite")
    assert sorted(f.name for f in out.parent.iterdir()) == ["first", "out"]
