"""What to judge: the program of an answer, the tests of a row, and whether the two can be judged at all.

Only what can be judged is judged. A problem with a checker, an interactor, file input or no whole test is ``unverifiable``: its
traces neither pass nor fail.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

from curate import thinking
from curate.verdicts import digest

Style = Literal["stdin", "call", "script"]

KINDS: Final = {
    "public_tests": "public",
    "public_tests_ms": "public",
    "examples": "example",
    "public_test_cases": "public",
    "official_tests": "official",
    "private_tests": "private",
    "private_test_cases": "private",
    "generated_tests": "generated",
    "input_output": "test",
    "test_cases": "test",
    "verification_info": "test",
    "test_code": "script",
    "test_list": "script",
    "tests": "test",
    "test": "test",
}
"""Test columns by name, in the order in which they are run; the kind says how strong a pass is."""

CONTEXT: Final = ("problem_type", "interaction_format", "input_mode", "generated_checker", "time_limit", "output_format", "fn_name")
"""Columns beside the tests that decide how a problem is judged; read where a source has them."""

ANSWERS: Final = ("answer", "gt_answer", "gt", "expected_answer", "final_answer", "reference_answer", "ground_truth")
"""Columns that hold the reference answer of a mathematical problem."""

PYTHON: Final = frozenset({"python", "python3", "py", "py3", "pypy", "pypy3"})

_FENCE: Final = re.compile(r"^[ \t]*```+[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*```+[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_ANY_CASE: Final = re.compile(r"in any (?:letter )?(?:case|register)|any letter case|case[- ]insensitive|upper or lower case", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test: text for stdin and the expected text, or JSON arguments of ``call`` and its JSON result, or a test script."""

    input: str
    output: str
    kind: str
    style: Style = "stdin"
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One trace to judge. ``note`` says why it cannot be; ``tolerance`` is null where output must agree to the letter."""

    row: int
    item: int
    problem: str | None
    digest: str
    program: str | None
    tests: tuple[Case, ...]
    tests_digest: str
    note: str = ""
    time_limit: float | None = None
    tolerance: float | None = None
    fold_case: bool = False

    @property
    def kinds(self) -> str:
        """Tests by kind: "public=3 private=12"."""
        return " ".join(f"{kind}={n}" for kind, n in Counter(t.kind for t in self.tests).items())


def program_of(answer: str) -> str | None:
    """The last fenced block marked as Python, else the last one without a mark; None where there is neither.

    >>> program_of("Use this:\\n```python\\nprint(1)\\n```\\nIt prints\\n```\\n1\\n```")
    'print(1)\\n'
    """
    blocks = [(mark.lower(), textwrap.dedent(body)) for mark, body in _FENCE.findall(answer) if body.strip()]
    marked = [body for mark, body in blocks if mark in PYTHON]
    bare = marked or [body for mark, body in blocks if not mark]
    return bare[-1] if bare else None


def language_of(answer: str) -> str | None:
    """The mark of the last fenced block, where it names another language than Python."""
    marks = [mark.lower() for mark, _ in _FENCE.findall(answer) if mark]
    return marks[-1] if marks and marks[-1] not in PYTHON else None


def cases_of(row: dict[str, Any], *, columns: Sequence[str] | None = None) -> list[Case]:
    """The tests of one row, each once, in the order of ``KINDS``.

    Args:
        row: the row's columns; test columns may be parallel lists, lists of records, or either as JSON text.
        columns: test columns to use; left out, those of ``KINDS`` that the row has.

    Tests that the publisher cut (Codeforces shows long ones with "..." at the end) and half tests are left out.
    """
    found: list[Case] = []
    for name in columns if columns is not None else [c for c in KINDS if c in row]:
        found += _read(row.get(name), kind=KINDS.get(name, "test"), call=_text(row.get("fn_name")))
    once = {(t.input, t.output, t.style): t for t in reversed(found)}
    return [t for t in dict.fromkeys(found) if once[(t.input, t.output, t.style)] is t]


def _read(value: Any, *, kind: str, call: str) -> list[Case]:
    if isinstance(value, str):
        text = value.strip()
        if text[:1] in "[{":
            try:
                return _read(json.loads(text), kind=kind, call=call)
            except ValueError:
                pass
        script = re.search(r"^\s*(?:assert\b|(?:async )?def test|class Test)", value, re.MULTILINE)
        return [Case(input=value, output="", kind="script", style="script")] if script else []
    if isinstance(value, dict):
        call = _text(value.get("fn_name") or value.get("function_name")) or call
        for nested in ("test_cases", "tests", "input_output"):
            if value.get(nested):
                return _read(value[nested], kind=kind, call=call)
        given = value.get("input", value.get("inputs"))
        wanted = value.get("output", value.get("outputs"))
        typed = _text(value.get("testtype") or value.get("type"))  # a record of one test names its type
        if isinstance(given, list) and isinstance(wanted, list) and not typed:
            return _pairs(given, wanted, kind=kind, call=call) if len(given) == len(wanted) else []
        return _pairs([given], [wanted], kind=kind, call="" if typed.startswith("stdin") else call)
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        body = "".join(f"def test_{n}():\n{textwrap.indent(line, '    ')}\n" for n, line in enumerate(value) if line.strip())
        return [Case(input=f"from solution import *\n{body}", output="", kind="script", style="script")] if "assert" in body else []
    return [t for v in value if isinstance(v, dict) for t in _read(v, kind=kind, call=call)] if isinstance(value, list) else []


def _pairs(given: Sequence[Any], wanted: Sequence[Any], *, kind: str, call: str) -> list[Case]:
    tests = []
    for i, o in zip(given, wanted, strict=True):
        if i is None or o is None:
            continue
        if call:
            tests.append(Case(input=_arguments(i), output=_json(o), kind=kind, style="call", call=call))
            continue
        left, right = _lines(i), _lines(o)
        if not (left.rstrip().endswith("...") or right.rstrip().endswith("...")):
            tests.append(Case(input=left, output=right, kind=kind))
    return tests


def _arguments(value: Any) -> str:
    """Arguments as a JSON list: a list as it is, text as one JSON value a line."""
    if isinstance(value, str):
        try:
            return json.dumps([json.loads(line) for line in value.splitlines() if line.strip()])
        except ValueError:
            return json.dumps([value])
    return json.dumps(value if isinstance(value, list) else [value])


def _json(value: Any) -> str:
    if isinstance(value, str):
        try:
            return json.dumps(json.loads(value))
        except ValueError:
            return json.dumps(value)
    return json.dumps(value)


def _lines(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def obstacle(row: dict[str, Any]) -> str:
    """Why the outputs of this problem cannot be compared, or an empty string."""
    kind = _text(row.get("problem_type")).lower()
    if kind in ("checker", "interactive"):
        return kind
    if _text(row.get("interaction_format")):
        return "interactive"
    if _text(row.get("generated_checker")):
        return "checker"
    return "file input" if _text(row.get("input_mode")).lower() == "file" else ""


def answers_of(batch: pl.DataFrame) -> pl.Series:
    """What stands behind the thinking of each ``trace``; empty where a trace that its ``prompt`` opened was never closed."""
    opened = thinking.opens(batch["prompt"]) if "prompt" in batch.columns else None
    return thinking.split(batch["trace"], opened=opened)["answer"]


def tasks(batch: pl.DataFrame, *, columns: Sequence[str] | None = None) -> Iterable[Task]:
    """Tasks of a batch with ``row, item, problem, trace``, test and ``CONTEXT`` columns; null traces are left out."""
    answers = answers_of(batch)
    keys = digest(batch["problem"], batch["trace"])
    for row, answer, key in zip(batch.iter_rows(named=True), answers, keys, strict=True):
        if key is not None:
            yield task_of(row, answer=answer or "", digest=key, columns=columns)


def task_of(row: dict[str, Any], *, answer: str, digest: str, columns: Sequence[str] | None = None) -> Task:
    """One task; see ``tasks``."""
    tests = tuple(cases_of(row, columns=columns))
    program = program_of(answer)
    note = obstacle(row) or ("" if tests else "no tests")
    other = language_of(answer)
    if not note and program is None and other:
        note = f"the program is {other}"
    exact = _text(row.get("problem_type")).lower() == "diff"
    limit = row.get("time_limit")
    return Task(
        row=row["row"],
        item=row["item"],
        problem=row["problem"],
        digest=digest,
        program=program,
        tests=tests,
        tests_digest=_hash(tests),
        note=note,
        time_limit=float(limit) if isinstance(limit, int | float) and 0 < limit <= 60 else None,
        tolerance=None if exact else 1e-6,
        fold_case=bool(_ANY_CASE.search(_text(row.get("output_format")))),
    )


def _hash(tests: Sequence[Case]) -> str:
    text = json.dumps([[t.style, t.call, t.input, t.output] for t in tests])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
