"""Answers against references: what is equal, what is not, and what a hanging library costs."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from curate import judge_math as jm
from curate import thinking
from curate.errors import CurateError
from curate.judge_math import MathTask, agreement, boxed, judge_math, math_tasks, plain, reference_of

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"


def answers(*pairs: tuple[str | None, str]) -> list[MathTask]:
    return [MathTask(row=n, item=0, problem="p", digest=str(n), answer=a, reference=g) for n, (g, a) in enumerate(pairs)]


def test_the_last_box_counts_with_its_braces_matched() -> None:
    assert boxed(r"\boxed{1} or \boxed{\frac{1}{\sqrt{2}}} done") == r"\frac{1}{\sqrt{2}}"
    assert boxed(r"\boxed{\{1, 2\}}") == r"\{1, 2\}"
    assert boxed(r"first \boxed{7}, then cut \boxed{\frac{1}{2") == "7"
    assert boxed("none") is None


def test_a_reference_may_be_an_answer_a_solution_or_a_marked_line() -> None:
    assert reference_of("$\\frac{1}{2}$") == "\\frac{1}{2}"
    assert reference_of("Thus $x = \\boxed{5}$.") == "5"
    assert reference_of("3 + 4 = 7\n#### 7") == "7"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (r"\text{(C)}", "C", True),
        (r"\dfrac{1}{2}", r"\frac{1}{2}", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})", True),
        ("x", "y", False),
        ("(1)", "1", False),
    ],
)
def test_plain_spelling(a: str, b: str, same: bool) -> None:
    assert (plain(a) == plain(b)) is same


def test_verdicts_of_answers() -> None:
    pairs = (
        ("1/2", r"so $\boxed{0.5}$"),
        (r"\frac{1}{2}", r"\boxed{\dfrac{1}{2}}"),
        ("5", r"\boxed{6}"),
        ("5", "The answer is 5."),
        ("5", ""),
        (None, r"\boxed{6}"),
        ("", r"\boxed{6}"),
        ("x+1", r"\boxed{1+x}"),
    )
    found = list(judge_math(answers(*pairs), workers=1))
    assert [v.verdict for v in found] == [
        *("passed", "passed", "wrong_answer", "passed", "wrong_answer", "unverifiable", "unverifiable", "passed"),
    ]
    assert [v.tests for v in found] == [1, 1, 1, 1, 1, 0, 0, 1]
    assert found[4].note == "no answer"
    assert found[5].note == "no reference answer"
    assert found[5].passed is None


HANGS = """
import json, sys, time
print("{}", flush=True)
for line in sys.stdin:
    if "hang" in line: time.sleep(1000)
    if "die" in line: sys.exit(1)
    print(json.dumps({"same": True}), flush=True)
"""


def test_a_library_that_hangs_or_dies_is_killed_and_gives_no_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(HANGS)
    monkeypatch.setattr(jm, "WORKER", worker)
    found = list(judge_math(answers(("1", "hang"), ("1", "x"), ("1", "die"), ("1", "x")), workers=1, time_limit=0.3))
    assert [v.verdict for v in found] == ["unverifiable", "passed", "unverifiable", "passed"]
    assert found[0].note == "math-verify did not come to an end"


def test_an_endless_power_ends_in_the_real_worker() -> None:
    [found] = judge_math(answers(("5", r"\boxed{9^{9^{9^{9}}}}")), workers=1, time_limit=2)
    assert found.verdict in ("wrong_answer", "unverifiable")


def test_without_math_verify_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jm, "find_spec", lambda name: None)
    with pytest.raises(CurateError, match=r"trace-curate\[math\]"):
        list(judge_math(answers(("1", "1")), workers=1))


def test_tasks_of_a_batch() -> None:
    batch = pl.DataFrame(
        {"row": [0, 1], "item": [0, 0], "problem": ["a", "b"], "trace": ["<think>x</think>\\boxed{2}", None], "gt": [2, 3]}
    )
    [task] = math_tasks(batch, column="gt")
    assert (task.answer, task.reference, task.problem) == ("\\boxed{2}", "2", "a")


def test_agreement_lists_each_difference_with_its_cause() -> None:
    judged = pl.DataFrame(
        {
            "label": [True, True, True, False, True],
            "passed": [True, False, None, True, False],
            "reference": ["1", "(2,\\infty)", "", "\\frac{639}{40}", "12"],
            "answer": ["1", "[2,\\infty)", "", "15\\frac{39}{40}", "12^{"],
        }
    )
    share, differ = agreement(judged)
    assert share == pytest.approx(0.2)
    assert differ["cause"].to_list() == [
        "an interval open in one and closed in the other",
        "could not be judged",
        "another spelling of the reference, which the label takes for wrong",
        "the answer is cut or holds half a LaTeX command",
    ]


def judged(rows: list[tuple[str, str, bool]]) -> tuple[float, pl.DataFrame]:
    found = list(judge_math(answers(*((g, a) for g, a, _ in rows)), workers=2))
    table = {
        "label": [label for _, _, label in rows],
        "passed": [v.passed for v in found],
        "reference": [g for g, _, _ in rows],
        "answer": [boxed(a) or a[-80:] for _, a, _ in rows],
    }
    return agreement(pl.DataFrame(table))


@pytest.mark.skipif(not TRACES.exists(), reason="the real traces are not beside this repository")
def test_math500_labels_are_met_in_99_of_100_and_the_rest_explained() -> None:
    runs = pl.read_parquet(TRACES / "skythought" / "math500_runs.parquet")
    rows = [(gt, f"\\boxed{{{pred}}}", correct) for gt, pred, correct in runs.select("gt", "pred", "correct").iter_rows()]
    share, differ = judged(rows)
    assert (len(rows), differ.height) == (1500, 14)
    assert share >= 0.97
    assert differ["cause"].null_count() == 0


@pytest.mark.skipif(not TRACES.exists(), reason="the real traces are not beside this repository")
def test_thought_anchors_labels_are_met_but_for_17_that_compare_texts() -> None:
    """All 17 are one way: the label calls "(1, 2)" wrong for "(1,2)", "62" for "62^\\circ", "6.2" for "r=6.2"."""
    rows = []
    for line in (TRACES / "thought_anchors" / "math_levels.jsonl").read_text(encoding="utf-8").splitlines():
        problem = json.loads(line)
        for solution in problem["solutions"] or []:
            text = thinking.split(pl.Series([solution["solution"]]))["answer"][0]
            rows.append((problem["gt_answer"], text, solution["is_correct"]))
    share, differ = judged(rows)
    assert len(rows) == 153
    assert differ.height == 17
    assert differ["passed"].to_list() == [True] * 17
    assert differ["cause"].unique().to_list() == ["another spelling of the reference, which the label takes for wrong"]
    assert share == pytest.approx(136 / 153)
