"""``curate verify`` as typed, and what its verdicts do to ``yield`` and ``select``."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.terminal import curate, facts, texts

ISOLATION = ("--isolation", "bwrap" if shutil.which("bwrap") else "none", "--workers", "2")
T = ("--count", "trace", "--estimate", "chars/1")
PROGRAMS = {
    "right": "print(int(input()) * 2)",
    "right, longer": "n = int(input())\nprint(n * 2)",
    "wrong": "print(1)",
    "crash": "raise SystemExit(3)",
    "syntax": "print(",
}


def answer(code: str | None) -> str:
    return f"<think>\nt\n</think>\n\n```python\n{code}\n```\n" if code is not None else "<think>\nt\n</think>\n\nNo program."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with six traces of three problems, judged once."""
    here = tmp_path_factory.mktemp("verify")
    bodies = [answer(PROGRAMS["right, longer"]), answer(PROGRAMS["right"]), answer(PROGRAMS["wrong"]), answer(PROGRAMS["crash"])]
    bodies += [answer(PROGRAMS["syntax"]), answer(None)]
    frame = pl.DataFrame(
        {
            "id": ["a", "a", "a", "b", "b", "c"],
            "prompt": ["Double it."] * 6,
            "generation": bodies,
            "official_tests": [[{"input": "2\n", "output": "4\n"}, {"input": "5\n", "output": "10\n"}]] * 6,
        }
    )
    frame.write_parquet(here / "t.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURATE_CACHE", str(here / "cache"))
        found = facts("verify", here / "t.parquet", *ISOLATION, "-o", here / "v.parquet")
    assert found["traces"] == 6
    counts = {k: n for k, n in found["verdicts"].items() if n}
    assert counts == {"passed": 2, "wrong_answer": 1, "runtime_error": 1, "syntax_error": 1, "no_code": 1}
    return here


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(place / "cache"))
    monkeypatch.chdir(place)


def test_the_table_of_verdicts() -> None:
    table = pl.read_parquet("v.parquet")
    assert set(table.columns) >= {"row", "item", "problem", "digest", "verdict", "passed", "tests", "failed_test", "seconds"}
    verdicts = ["passed", "passed", "wrong_answer", "runtime_error", "syntax_error", "no_code"]
    assert table.sort("row")["verdict"].cast(pl.String).to_list() == verdicts
    assert table.sort("row")["passed"].to_list() == [True, True, False, False, False, False]
    assert table.sort("row")["tests"].to_list()[:2] == [2, 2]
    assert table.sort("row")["failed_test"].to_list()[2] == 0


def test_a_named_column_of_tests_gives_the_same() -> None:
    facts("verify", "t.parquet", *ISOLATION, "--tests", "official_tests", "-o", "named.parquet")
    same = pl.read_parquet("named.parquet").drop("seconds").equals(pl.read_parquet("v.parquet").drop("seconds"))
    assert same


def test_a_second_run_with_resume_judges_nothing_again() -> None:
    shutil.copy("v.parquet", "again.parquet")
    facts("verify", "t.parquet", *ISOLATION, "--resume", "-o", "again.parquet")
    assert pl.read_parquet("again.parquet").equals(pl.read_parquet("v.parquet"))


def test_verdicts_decide_what_passes_and_say_their_basis() -> None:
    bare = curate("select", "t.parquet", *T, "--shortest", "-o", "bare")
    assert bare.status == 1
    found = facts("yield", "t.parquet", *T, "--verdicts", "v.parquet")
    assert found["passing"] == {"basis": "verified", "passed": 2, "failed": 4, "unknown": 0}
    assert found["bounds"][-1]["problems"]["shortest"] == 1
    picked = facts("select", "t.parquet", *T, "--shortest", "--verdicts", "v.parquet", "-o", "out")
    assert (picked["kept"], picked["dropped"]["not_passing"], picked["dropped"]["not_chosen"]) == (1, 4, 1)
    assert texts(Path("out")) == [answer(PROGRAMS["right"])]


def test_a_pass_on_few_tests_is_warned_about_and_left_out_when_asked() -> None:
    said = curate("yield", "t.parquet", *T, "--verdicts", "v.parquet").err
    assert "2 passes stand on one or two tests" in said
    found = facts("yield", "t.parquet", *T, "--verdicts", "v.parquet", "--min-tests", "3")
    assert found["passing"] == {"basis": "verified", "passed": 0, "failed": 4, "unknown": 2}


def test_verdicts_survive_another_order_and_pooling() -> None:
    pl.read_parquet("t.parquet").reverse().write_parquet("back.parquet")
    found = facts("yield", "back.parquet", *T, "--verdicts", "v.parquet")
    assert (found["passing"]["passed"], found["passing"]["failed"]) == (2, 4)


def test_verdicts_are_not_written_over_data() -> None:
    before = Path("t.parquet").read_bytes()
    done = curate("verify", "t.parquet", *ISOLATION, "-o", "t.parquet")
    assert (done.status, done.out) == (1, "")
    assert Path("t.parquet").read_bytes() == before


def test_mathematics_by_a_reference_answer() -> None:
    pytest.importorskip("math_verify")
    pl.DataFrame(
        {
            "id": ["a", "b", "c"],
            "prompt": ["q"] * 3,
            "generation": [f"<think>t</think>The answer is {x}." for x in (r"\boxed{\frac{1}{2}}", r"\boxed{3}", "unclear")],
            "answer": ["0.5", "4", "1"],
        }
    ).write_parquet("m.parquet")
    facts("verify", "m.parquet", "--answer", "answer", "--workers", "1", "-o", "mv.parquet")
    assert pl.read_parquet("mv.parquet").sort("row")["passed"].to_list()[:2] == [True, False]
