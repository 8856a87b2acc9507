"""What is judged, what is not, and what every class of verdict needs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate.errors import CurateError
from curate.judge_code import Rules, judge, machine_factor, same_output, same_value
from curate.sandbox import Limits, Run, Sandbox, open_sandbox
from curate.verdicts import Verdict
from curate.verify import Case, Task, cases_of, language_of, obstacle, program_of, task_of, tasks

SHARED = Path(__file__).resolve().parents[2] / "shared"
GROUNDTRUTH = SHARED / "traces" / "codeforces_cots" / "judge_groundtruth.json"


@pytest.fixture(scope="module")
def box() -> Sandbox:
    try:
        return open_sandbox("bwrap")
    except CurateError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


def fenced(code: str) -> str:
    return f"Here it is.\n\n```python\n{code}\n```\n"


def one(box: Sandbox, code: str, rules: Rules | None = None, **row: Any) -> Verdict:
    task = task_of({"row": 0, "item": 0, "problem": "p", **row}, answer=fenced(code), digest="d")
    [found] = judge([task], box=box, rules=rules or Rules(time_limit=1, memory_mib=256), workers=1)
    return found


# --- the program ---


def test_the_program_is_the_last_block_marked_python() -> None:
    answer = "```python\nfirst\n```\nthen\n```Python3 title=x\nsecond\n```\nwhich prints\n```\n4\n```\nor\n```cpp\nint x;\n```"
    assert program_of(answer) == "second\n"


def test_without_a_mark_it_is_the_last_block_of_none() -> None:
    assert program_of("```\na\n```\n```\nb\n```\n```cpp\nc\n```") == "b\n"


def test_no_block_or_only_other_languages_is_no_program() -> None:
    assert program_of("print(1)") is None
    assert program_of("```cpp\nint x;\n```") is None
    assert program_of("```python\n\n```") is None
    assert language_of("```cpp\nint x;\n```") == "cpp"
    assert language_of("```py\nx\n```") is None


def test_an_indented_block_is_dedented_and_an_open_one_ends_with_the_text() -> None:
    assert program_of("1. so\n   ```python\n   if x:\n       y\n   ```\n") == "if x:\n    y\n"
    assert program_of("```python\nx = 1\n") == "x = 1\n"
    assert program_of("```python\ns = '''\n```'''\n```") == "s = '''\n```'''\n"


# --- the tests ---


def test_parallel_lists_and_records_and_json_text_are_the_same_tests() -> None:
    want = [Case(input="1\n", output="2\n", kind="public"), Case(input="3\n", output="4\n", kind="public")]
    lists = {"input": ["1\n", "3\n"], "output": ["2\n", "4\n"]}
    records = [{"input": "1\n", "output": "2\n"}, {"input": "3\n", "output": "4\n"}]
    for shape in (lists, records, json.dumps(lists), json.dumps(records)):
        assert cases_of({"public_tests": shape}) == want


def test_kinds_come_in_order_and_a_test_counts_once() -> None:
    row = {
        "private_tests": {"input": ["5"], "output": ["6"]},
        "examples": [{"input": "1", "output": "2"}],
        "public_tests": {"input": ["1"], "output": ["2"]},
        "generated_tests": None,
    }
    assert [(t.kind, t.input) for t in cases_of(row)] == [("public", "1"), ("private", "5")]


def test_named_columns_are_the_only_ones() -> None:
    row = {"mine": [{"input": "1", "output": "2"}], "public_tests": [{"input": "3", "output": "4"}]}
    assert cases_of(row, columns=["mine"]) == [Case(input="1", output="2", kind="test")]


def test_cut_and_half_tests_are_left_out() -> None:
    row = {"public_tests": {"input": ["1 2 3 ...", "1", None], "output": ["6", "2...", "3"]}}
    assert cases_of(row) == []
    assert cases_of({"public_tests": {"input": ["1", "2"], "output": ["1"]}}) == []


def test_function_style_of_apps_and_of_livecodebench() -> None:
    apps = {"input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]})}
    assert cases_of(apps) == [Case(input="[1, 2]", output="[3]", kind="test", style="call", call="add")]
    case = [{"input": "1\n[2, 3]", "output": "4", "testtype": "functional"}]
    assert cases_of({"private_test_cases": case, "fn_name": "f"}) == [
        Case(input="[1, [2, 3]]", output="4", kind="private", style="call", call="f")
    ]
    stdin = [{"input": "1\n", "output": "4", "testtype": "stdin"}]
    assert cases_of({"private_test_cases": stdin, "fn_name": "f"})[0].style == "stdin"


def test_nested_and_listed_lines() -> None:
    nested = json.dumps({"language": "python", "test_cases": [{"type": "stdin_stdout", "input": "1", "output": "2"}]})
    assert cases_of({"verification_info": nested}) == [Case(input="1", output="2", kind="test")]
    lines = {"input_output": {"inputs": [["1", "2"]], "outputs": [["3"]]}}
    assert cases_of(lines) == [Case(input="1\n2", output="3", kind="test")]


def test_pickled_tests_are_never_opened() -> None:
    assert cases_of({"private_test_cases": "eJwrAAAAAQAB"}) == []


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"problem_type": "checker"}, "checker"),
        ({"problem_type": "interactive"}, "interactive"),
        ({"interaction_format": "Ask queries."}, "interactive"),
        ({"generated_checker": "print(1)"}, "checker"),
        ({"input_mode": "file"}, "file input"),
        ({"problem_type": "diff", "input_mode": "stdio", "interaction_format": ""}, ""),
        ({"problem_type": "Algebra"}, ""),
    ],
)
def test_what_cannot_be_compared(row: dict[str, Any], why: str) -> None:
    assert obstacle(row) == why


def test_tasks_of_a_batch_take_the_answer_behind_the_thinking() -> None:
    batch = pl.DataFrame(
        {
            "row": [3, 4],
            "item": [0, 1],
            "problem": ["a", "b"],
            "trace": [f"<think>{fenced('wrong')}</think>{fenced('x = 1')}", None],
            "public_tests": [[{"input": "1", "output": "2"}]] * 2,
            "problem_type": ["diff"] * 2,
            "time_limit": [2.0, None],
        }
    )
    [task] = tasks(batch)
    assert (task.row, task.item, task.problem, task.program, task.time_limit) == (3, 0, "a", "x = 1\n", 2.0)
    assert task.tolerance is None
    assert len(task.digest) == len(task.tests_digest) == 32


# --- comparing ---


@pytest.mark.parametrize(
    ("output", "expected", "options", "same"),
    [
        ("1  2\n3", "1 2\n3\n", {}, True),
        ("1 2", "1 2 3", {}, False),
        ("1 2 3", "1 2", {}, False),
        ("", "", {}, True),
        ("yes", "YES", {}, True),
        ("alice", "Alice", {}, False),
        ("alice", "Alice", {"fold_case": True}, True),
        ("0.50", "0.5", {}, False),
        ("0.50", "0.5", {"tolerance": 1e-6}, True),
        ("1000000.9", "1000000.0", {"tolerance": 1e-6}, True),
        ("1000002.1", "1000000.0", {"tolerance": 1e-6}, False),
        ("1000000001", "1000000000", {"tolerance": 1e-6}, False),
        ("nan", "0.5", {"tolerance": 1e-6}, False),
        ("inf", "1e9", {"tolerance": 1e-6}, False),
        ("x", "0.5", {"tolerance": 1e-6}, False),
    ],
)
def test_outputs_are_compared_by_token(output: str, expected: str, options: dict[str, Any], same: bool) -> None:
    assert same_output(output, expected, **options) is same


@pytest.mark.parametrize(
    ("have", "want", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (0.1 + 0.2, 0.3, True),
        ([1, [2]], [1, [2]], True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1.0000001}, True),
        ({"a": 1}, {"b": 1}, False),
        ("a", "A", False),
        (None, None, True),
        ([1], 1, False),
    ],
)
def test_values_are_compared_as_json(have: Any, want: Any, same: bool) -> None:
    assert same_value(have, want) is same


# --- verdicts ---

ADD = {
    "public_tests": {"input": ["1 2\n", "3 4\n"], "output": ["3\n", "7\n"]},
    "private_tests": {"input": ["5 5"], "output": ["10"]},
}


@pytest.mark.parametrize(
    ("code", "verdict", "failed"),
    [
        ("print(sum(map(int, input().split())))", "passed", None),
        ("a, b = map(int, input().split())\nprint(a + b if a != 3 else 0)", "wrong_answer", 1),
        ("a, b = map(int, input().split())\nprint(a + b if a != 5 else 1 // 0)", "runtime_error", 2),
        ("while True: pass", "time_limit", 0),
        ("x = [0] * 10**9\nprint(3)", "memory_limit", 0),
        ("while True: print(1 << 9999)", "output_limit", 0),
        ("def f(:\n  pass", "syntax_error", 0),
        ("print 3", "syntax_error", 0),
        ("raise SyntaxError", "runtime_error", 0),
    ],
)
def test_each_class_of_verdict(box: Sandbox, code: str, verdict: str, failed: int | None) -> None:
    found = one(box, code, **ADD)
    assert (found.verdict, found.failed_test, found.tests, found.kinds) == (verdict, failed, 3, "public=2 private=1")
    assert found.passed is (verdict == "passed")


def test_nothing_to_run_is_no_code_and_nothing_to_judge_by_is_unverifiable(box: Sandbox) -> None:
    row = {"row": 0, "item": 0, "problem": "p"}
    given = [
        task_of({**row, **ADD}, answer="I do not know.", digest="d"),
        task_of(row, answer=fenced("print(1)"), digest="d"),
        task_of({**row, **ADD, "problem_type": "checker"}, answer="I do not know.", digest="d"),
        task_of({**row, **ADD}, answer="```cpp\nint main() {}\n```", digest="d"),
    ]
    found = list(judge(given, box=box, workers=1))
    assert [(v.verdict, v.passed, v.tests, v.note) for v in found] == [
        ("no_code", False, 0, ""),
        ("unverifiable", None, 0, "no tests"),
        ("unverifiable", None, 0, "checker"),
        ("unverifiable", None, 0, "the program is cpp"),
    ]


def test_a_function_is_called_and_its_result_compared_outside(box: Sandbox) -> None:
    row = {"input_output": {"fn_name": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [3, [[1, 2]]]}}
    assert one(box, "def add(a, b):\n    print('noise')\n    return a + b", **row).verdict == "passed"
    assert one(box, "class Solution:\n    def add(self, a: List[int], b): return a + b", **row).verdict == "passed"
    assert one(box, "def add(a, b): return tuple(a + b) if type(a) is list else 3.0", **row).verdict == "passed"
    assert one(box, "def add(a, b): return 3", **row).failed_test == 1
    assert one(box, "def other(a, b): return 3", **row).verdict == "runtime_error"
    assert one(box, "import os\ndef add(a, b): os._exit(0)", **row).verdict == "wrong_answer"


SCRIPT = """
import pytest
from solution import add, Stack, sort_in_place

@pytest.mark.parametrize("a,b,c", [(1, 2, 3), (4, 5, 9)])
def test_add(a, b, c):
    assert add(a, b) == c

def test_stack():
    s = Stack()
    s.push((1, {2}))
    assert len(s) == 1 and s.pop() == (1, {2})
    with pytest.raises(IndexError):
        s.pop()

def test_sort():
    x = [3, 1, 2]
    assert sort_in_place(x) is None
    assert x == [1, 2, 3]

class TestFloat:
    def test_sum(self):
        assert add(0.1, 0.2) == pytest.approx(0.3)
"""
SOLUTION = """
class Stack:
    def __init__(self): self.x = []
    def push(self, v): self.x.append(v)
    def pop(self): return self.x.pop()
    def __len__(self): return len(self.x)
def add(a, b): return a + b
def sort_in_place(x): x.sort()
"""


@pytest.mark.parametrize(
    ("old", "new", "verdict", "failed"),
    [
        ("", "", "passed", None),
        ("x.sort()", "pass", "wrong_answer", 3),
        ("return a + b", "return a + b if a != 4 else 0", "wrong_answer", 1),
        ("return a + b", "return a / 0", "runtime_error", 0),
        ("return a + b", "return [0] * 10**10", "memory_limit", 0),
        ("return a + b", "import os; os._exit(0)", "runtime_error", 0),
        ("return a + b", "raise AttributeError('x')", "runtime_error", 0),
        ("def add(a, b)", "def add(a, b", "syntax_error", 0),
        ("def add", "def other", "runtime_error", 0),
    ],
)
def test_a_test_script_runs_in_a_sandbox_beside_the_programs(
    box: Sandbox, old: str, new: str, verdict: str, failed: int | None
) -> None:
    found = one(box, SOLUTION.replace(old, new) if old else SOLUTION, test=SCRIPT)
    assert (found.verdict, found.failed_test) == (verdict, failed)
    if verdict == "passed":
        assert (found.tests, found.kinds) == (5, "script=5")


def test_a_program_sees_neither_the_script_nor_its_assertions(box: Sandbox) -> None:
    script = "from solution import f\ndef test_f():\n    assert f(1) == 'needle' + 'x'"
    look = """
import glob
def f(x):
    for path in glob.glob("/proc/*/cmdline") + glob.glob("/proc/*/environ") + glob.glob("/*.py"):
        if b"need" + b"lex" in open(path, "rb").read() or b"need" + b"le' +" in open(path, "rb").read(): return "need" + "lex"
    import gc, sys
    frame = sys._getframe()
    while frame:
        if "need" + "le" in repr(frame.f_locals): return "need" + "lex"
        frame = frame.f_back
    return "nothing"
"""
    assert one(box, look, test=script).verdict == "wrong_answer"
    assert one(box, "def f(x): return 'needlex'", test=script).verdict == "passed"


def test_an_object_that_is_equal_to_everything_does_not_pass(box: Sandbox) -> None:
    cheat = "class E:\n    def __eq__(self, other): return True\ndef f(x): return E()"
    found = one(box, cheat, test="from solution import f\ndef test_f():\n    assert f(1) == 2")
    assert (found.verdict, found.passed) == ("unverifiable", None)


def test_what_a_script_needs_beyond_plain_values_is_unverifiable(box: Sandbox) -> None:
    fixture = (
        "import pytest\nfrom solution import add\n@pytest.fixture\ndef one(): return 1\ndef test(one): assert add(one, 1) == 2"
    )
    assert one(box, SOLUTION, test=fixture).note == "the test script uses pytest.fixture"
    hands = "from solution import add\ndef test(): assert add(lambda: 1, 2) == 2"
    assert one(box, SOLUTION, test=hands).note == "the test script hands over an object of its own"


def test_bare_assertions_and_unittest_and_lists_of_assertions(box: Sandbox) -> None:
    assert one(box, SOLUTION, test="from solution import *\nassert add(1, 2) == 3").tests == 1
    unit = "import unittest\nfrom solution import add\nclass TestIt(unittest.TestCase):\n"
    unit += "    def test_a(self): self.assertEqual(add(1, 2), 3)"
    assert one(box, SOLUTION, test=unit).verdict == "passed"
    lines = ["assert add(1, 2) == 3", "assert add(1, 3) == 3"]
    found = one(box, SOLUTION, test_list=lines)
    assert (found.verdict, found.failed_test, found.tests) == ("wrong_answer", 1, 2)


def test_order_is_the_tasks_own_and_every_verdict_is_told_once(box: Sandbox) -> None:
    rows = [{"row": n, "item": 0, "problem": str(n), "tests": {"input": ["1"], "output": [str(n % 2)]}} for n in range(9)]
    told: list[Verdict] = []
    given = (task_of(row, answer=fenced("print(1)"), digest=str(row["row"])) for row in rows)
    found = list(judge(given, box=box, workers=2, progress=told.append))
    assert [v.row for v in found] == list(range(9))
    assert [v.passed for v in found] == [bool(n % 2) for n in range(9)]
    assert Counter(v.row for v in told) == Counter(range(9))


def test_a_run_near_its_limit_is_done_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run takes 0.9 s of a limit of 1 s beside others, 0.2 s alone: passed, with the time of the second."""
    spent = iter([0.9, 0.2])

    def run(self: Sandbox, program: bytes, stdin: bytes, *, limits: Limits, **_: Any) -> Run:
        return Run(ended="exit", status=0, output=b"1", cpu=next(spent), wall=1.0, started=True)

    monkeypatch.setattr(Sandbox, "run", run)
    fake = Sandbox(isolation="none", prefix=(), python="", packages="", filter=b"")
    found = one(fake, "print(1)", tests={"input": [""], "output": ["1"]})
    assert (found.verdict, found.seconds) == ("passed", 0.2)
    assert next(spent, None) is None


@pytest.mark.parametrize(
    ("spent", "verdict"), [([0.5], "passed"), ([1.2, 1.1], "time_limit"), ([1.6], "time_limit"), ([0.8, 0.9], "passed")]
)
def test_only_what_is_near_the_limit_is_done_again(monkeypatch: pytest.MonkeyPatch, spent: list[float], verdict: str) -> None:
    left = list(spent)

    def run(self: Sandbox, program: bytes, stdin: bytes, *, limits: Limits, **_: Any) -> Run:
        return Run(ended="exit", status=0, output=b"1", cpu=left.pop(0), wall=1.0, started=True)

    monkeypatch.setattr(Sandbox, "run", run)
    fake = Sandbox(isolation="none", prefix=(), python="", packages="", filter=b"")
    assert one(fake, "print(1)", tests={"input": [""], "output": ["1"]}).verdict == verdict
    assert left == []


def test_limits_are_the_problems_own_twice_and_grow_with_the_machines_factor() -> None:
    task = task_of({"row": 0, "item": 0, "problem": "p", "time_limit": 3.0}, answer="", digest="d")
    bare = task_of({"row": 0, "item": 0, "problem": "p"}, answer="", digest="d")
    assert Rules().seconds(task) == 6.0
    assert Rules().seconds(bare) == 10.0
    assert Rules(time_limit=2.0, factor=1.5).seconds(task) == 3.0


def test_the_machines_factor_is_at_least_one(box: Sandbox) -> None:
    assert 1.0 <= machine_factor(box) <= 8.0


# --- known answers ---

needs_groundtruth = pytest.mark.skipif(not GROUNDTRUTH.exists(), reason="the 31 judged programs are not beside this repository")


def problems() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(GROUNDTRUTH.read_text(encoding="utf-8"))["problems"]
    return found


def given(n: int, problem: dict[str, Any], code: str) -> Task:
    row = {"row": n, "item": 0, "problem": problem["id"], "problem_type": "diff", "public_tests_ms": problem["tests"]}
    return task_of(row, answer=fenced(code), digest=str(n))


@needs_groundtruth
def test_31_real_programs_pass_their_91_tests(box: Sandbox) -> None:
    found = list(judge([given(n, p, p["code"]) for n, p in enumerate(problems())], box=box, workers=2))
    assert Counter(v.verdict for v in found) == {"passed": 31}
    assert sum(v.tests for v in found) == 91


WRONG_ON_LAST = """
import io, sys
text = sys.stdin.read()
sys.stdin = io.StringIO(text)
if text == {last!r}: print("wrong")
{code}
"""


@needs_groundtruth
@pytest.mark.parametrize(
    ("broken", "verdict"),
    [
        (WRONG_ON_LAST, "wrong_answer"),
        ("while True: pass\n{code}", "time_limit"),
        ("x = bytearray(2 << 30)\n{code}", "memory_limit"),
        ("import os\nos.abort()\n{code}", "runtime_error"),
    ],
)
def test_each_program_broken_gets_exactly_that_verdict(box: Sandbox, broken: str, verdict: str) -> None:
    made = [given(n, p, broken.format(code=p["code"], last=p["tests"][-1]["input"])) for n, p in enumerate(problems())]
    found = list(judge(made, box=box, rules=Rules(time_limit=0.6), workers=2))
    assert Counter(v.verdict for v in found) == {verdict: 31}
    last = [len(p["tests"]) - 1 if verdict == "wrong_answer" else 0 for p in problems()]
    assert [v.failed_test for v in found] == last
