"""From batches to a file of verdicts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from curate import judging
from curate.errors import CurateError
from curate.judging import Plan, plan, run
from curate.verdicts import Verdict, read

ADD = "```python\nprint(sum(map(int, input().split())))\n```"
WRONG = "```python\nprint(0)\n```"


def batch(first: int, traces: list[str | None]) -> pl.DataFrame:
    n = len(traces)
    tests = [[{"input": "1 2", "output": "3"}, {"input": "3 4", "output": "7"}]] * n
    return pl.DataFrame(
        {"row": range(first, first + n), "item": [0] * n, "problem": ["p"] * n, "trace": traces, "public_tests": tests},
        schema_overrides={"trace": pl.String},
    )


def test_tests_come_before_answers_and_names_before_both() -> None:
    assert plan(["a", "public_tests", "answer", "examples"]) == Plan(what="code", columns=("public_tests", "examples"))
    assert plan(["answer", "gt"]) == Plan(what="math", columns=("answer",))
    assert plan(["public_tests", "gt"], answer="gt") == Plan(what="math", columns=("gt",))
    assert plan(["public_tests", "mine"], tests="mine") == Plan(what="code", columns=("mine",))


def test_a_wrong_name_or_nothing_to_judge_by_is_said() -> None:
    with pytest.raises(CurateError, match=r"--tests public_test: .* Did you mean public_tests"):
        plan(["public_tests"], tests="public_test")
    with pytest.raises(CurateError, match=r"neither tests .* nor a reference answer"):
        plan(["id", "text"])
    with pytest.raises(CurateError, match="no rows"):
        run([], out=Path("never"))


def test_a_file_of_verdicts_has_one_row_a_trace_and_its_settings(tmp_path: Path) -> None:
    out = tmp_path / "v.parquet"
    told: list[Verdict] = []
    table = run(
        [batch(0, [ADD, WRONG, None]), batch(3, ["none", ADD])], out=out, isolation="none", time_limit=2, progress=told.append
    )
    assert table.select("row", "verdict", "passed", "tests", "failed_test").rows() == [
        (0, "passed", True, 2, None),
        (1, "wrong_answer", False, 2, 0),
        (3, "no_code", False, 0, None),
        (4, "passed", True, 2, None),
    ]
    assert sorted(v.row for v in told) == [0, 1, 3, 4]
    assert read(out)[1] == {"what": "code", "columns": ["public_tests"], "time_limit": 2, "isolation": "none", "memory_mib": 1024}
    assert read(out)[0].equals(table)


def test_an_interrupted_run_judges_only_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, judged = tmp_path / "v.parquet", []
    real = judging.judge

    def counted(tasks, **options):  # type: ignore[no-untyped-def]
        for verdict in real(tasks, **options):
            judged.append(verdict.digest)
            yield verdict

    def interrupted():  # type: ignore[no-untyped-def]
        yield batch(0, [ADD, WRONG])
        yield batch(2, [ADD] * judging.WINDOW["code"])
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "judge", counted)
    with pytest.raises(KeyboardInterrupt):
        run(interrupted(), out=out, isolation="none", time_limit=2)
    assert len(judged) == 2  # a text is judged once, however often it is pooled
    table = run([batch(0, [WRONG, ADD, "no program"])], out=out, isolation="none", time_limit=2, resume=True)
    assert table["verdict"].to_list() == ["wrong_answer", "passed", "no_code"]
    assert len(judged) == 3


def test_mathematics_by_the_reference_column(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"row": [0, 1], "item": [0, 0], "problem": ["a", "a"], "trace": ["\\boxed{2}", "\\boxed{3}"], "gt": ["2", "2"]}
    )
    table = run([frame], out=tmp_path / "v.parquet")
    assert table["passed"].to_list() == [True, False]
