"""All 36 cases made after public bug reports, on the project's own inputs, through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from curate.cli import main
from tests.cases.checks import CHECKS, Case, Result, judge
from tests.cases.make_inputs import MAKERS

OWN_TOKENIZER = {"04", "52", "58"}  # the cases that elsewhere speak of a real one


def run(*arguments: str, env: Mapping[str, str] | None = None, fresh: bool = False) -> Result:
    """In this process, which saves a second of imports for each of some hundred commands; in a fresh one where asked."""
    start = time.monotonic()
    if fresh:
        command = [sys.executable, "-c", "from curate.cli import main; main()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
        return Result(code=done.returncode, out=done.stdout, err=done.stderr, seconds=time.monotonic() - start)
    came = CliRunner(env=env).invoke(main, list(arguments))
    if came.exception is not None and not isinstance(came.exception, SystemExit):
        raise came.exception
    return Result(code=came.exit_code, out=came.stdout, err=came.stderr, seconds=time.monotonic() - start)


def test_every_case_has_inputs_and_a_check() -> None:
    assert list(MAKERS) == list(CHECKS) == [f"{n:02d}" for n in range(2, 73, 2)]


@pytest.mark.parametrize("number", CHECKS)
def test_case(number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.hub_server import LoopbackHub

    folder, work = tmp_path / "inputs", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    expected = MAKERS[number](folder)
    tokenizer = folder / "tok" if number in OWN_TOKENIZER else None
    case = Case(folder=folder, work=work, expected=expected, run=run, tokenizer=tokenizer, hub=LoopbackHub)
    rows = judge(case, number)
    assert rows
    assert [r[:3] for r in rows if not r[3]] == []
