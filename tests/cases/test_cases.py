"""All 36 cases made after public bug reports, on the project's own inputs, through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.checks import CHECKS, Case, judge
from tests.cases.make_inputs import MAKERS
from tests.cases.runner import run

OWN_TOKENIZER = {"04", "52", "58"}  # the cases that elsewhere speak of a real one


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
