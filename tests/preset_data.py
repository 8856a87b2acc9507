"""Small made-up data in the exact schema of each preset, with what a reader must find in it.

Six problems at most, the same for every set, so that the expectations can be worked out by hand:

    A  two passing traces (one where the set holds one trace per problem)
    B  one failing trace            C  one trace whose verdict is unknown
    D  one passing trace            E  one trace that never ended (not where no mark would tell)

A set without verdicts knows none of them; one filtered by its publisher passes all; a proxy fails E as well. Nothing here was
copied from a real set. ``published`` makes the 8,133 rows whose lengths follow the published quantiles: those lengths are made too.
"""

from __future__ import annotations

import io
import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import zstandard

from curate.presets import Preset, base_columns, known

PROBLEMS = ("A", "B", "C", "D", "E")
RATINGS = {"1/A": 800, "2/B": 2400, "33/X": 1500, "4/D": None}
"""A rates itself, C is rated as 33/X, its alias; D is listed without a rating, E is not listed; B is rated."""
BOUNDS = {5120: 1348, 8192: 2412, 16384: 4753, 24576: 7635}
"""Rows of ``published`` within a bound: the figures published for this config, by characters / 3.6 over prompt and trace."""
QUANTILES = {4067: 13770, 7320: 23374, 8052: 27315}
"""Nearest-rank 50 %, 90 % and 99 % of the same figures, as rank (from 1): tokens."""


@dataclass(frozen=True, slots=True)
class Trace:
    problem: str
    text: str
    reasoning: str
    answer: str
    passed: bool | None
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must be found. Counts are of traces unless they say otherwise."""

    rows: int
    traces: int
    problems: int
    passed: int
    failed: int
    unknown: int
    unfinished: int
    rated: int
    unrated: int
    per_problem: dict[str, int]
    texts: tuple[str, ...]
    """The traces in order of row and item."""
    files: tuple[str, ...] = field(default=())


def plan(preset: Preset) -> list[Trace]:
    """The traces of a set, in order of row and item."""
    triple = bool(preset.traces)
    single = preset.traces_per_problem.startswith(("1", "mostly 1"))
    found = []
    for problem in PROBLEMS:
        if problem == "E" and preset.marks in ("none", "</think>"):
            continue
        copies = 3 if triple else 2 if problem == "A" and not single else 1
        for copy in range(copies):
            ended = problem != "E"
            reasoning = f"Let us think about {problem}, attempt {copy + 1}. " + "step " * (9 - 4 * copy)
            code = f"```python\nprint({copy})\n```" if problem != "B" else "unknown to me."  # B fails the proxy for want of code
            answer = f"So the answer to {problem} is\n{code}" if ended else ""
            found.append(
                Trace(problem, _text(preset, reasoning, answer), reasoning, answer, _verdict(preset, problem, ended), ended)
            )
    return found


def _text(preset: Preset, reasoning: str, answer: str) -> str:
    if preset.marks == "none":
        return f"{reasoning}\n{answer}"
    if preset.marks == "reasoning column":
        return f"<think>\n{reasoning}\n</think>\n\n{answer}"
    if preset.marks == "<|begin_of_thought|>":
        tail = f"\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\n\n{answer}\n\n<|end_of_solution|>" if answer else ""
        return f"<|begin_of_thought|>\n\n{reasoning}{tail}"
    opening = "" if preset.marks == "</think>" else "<think>\n"
    return f"{opening}{reasoning}" + (f"\n</think>\n\n{answer}" if answer else "")


def _verdict(preset: Preset, problem: str, ended: bool) -> bool | None:
    if preset.passed_basis == "none":
        return None
    if preset.passed_basis == "prefiltered":
        return True
    if preset.passed_basis == "proxy":
        return ended and problem != "B"
    return {"B": False, "C": None}.get(problem, True)


def make(preset: Preset, folder: Path) -> Expected:
    """Write the set below ``folder`` as its repository would look, with a second config that must not be read."""
    traces = plan(preset)
    per_row = [[t for t in traces if t.problem == p] for p in PROBLEMS] if _nested(preset) else [[t] for t in traces]
    rows = [_row(preset, group) for group in per_row if group]
    if preset.where is not None:
        rows.insert(1, {**rows[0], "reasoning": "off"})
    files = _write(preset, folder, rows)
    count = {problem: sum(t.problem == problem for t in traces) for problem in PROBLEMS}
    sizes = [n for n in count.values() if n]
    rated = sum(_rated(preset, t.problem) for t in traces)
    return Expected(
        rows=len(rows),
        traces=len(traces),
        problems=len(sizes),
        passed=sum(t.passed is True for t in traces),
        failed=sum(t.passed is False for t in traces),
        unknown=sum(t.passed is None for t in traces),
        unfinished=sum(not t.ended for t in traces),
        rated=rated,
        unrated=len(traces) - rated,
        per_problem={str(n): sizes.count(n) for n in sorted(set(sizes))},
        texts=tuple(t.text for t in traces),
        files=files,
    )


def _nested(preset: Preset) -> bool:
    return bool(preset.traces) or (preset.trace or "").endswith("[]")


def _rated(preset: Preset, problem: str) -> bool:
    if preset.difficulty is None:
        return False
    return problem in "ABC" if preset.difficulty_from is not None else problem != "C"


def identity(problem: str) -> str:
    """The id of a problem in the manner of Codeforces: A is 1/A, B is 2/B."""
    return f"{PROBLEMS.index(problem) + 1}/{problem}"


def _row(preset: Preset, group: list[Trace]) -> dict[str, Any]:
    problem = group[0].problem
    row = {column: _filler(dtype) for column, dtype in preset.columns.items()}
    _identify(preset, row, problem)
    _prompt(preset, row, f"Question {problem}: what comes next?", group[0])
    if preset.system is not None:
        row[preset.system] = "Think first."
    if preset.reasoning is not None:
        column = base_columns(preset.reasoning, preset.columns)[0]
        lines = preset.columns[column] == pl.List(pl.String)
        row[column] = [group[0].reasoning] if lines else group[0].reasoning
        row[str(preset.answer)] = group[0].answer
    for column, trace in zip(preset.traces, group, strict=False):
        row[column] = trace.text
    if preset.trace is not None and "[" not in preset.trace:
        row[preset.trace] = group[0].text
    elif (preset.trace or "").endswith("[]"):
        row[str(preset.trace).removesuffix("[]")] = [t.text for t in group]
    _difficulty(preset, row, problem)
    _passed(preset, row, group)
    if preset.where is not None:
        row["reasoning"] = "on"
    return row


def _filler(dtype: Any) -> Any:
    """A harmless value: no column is empty throughout, unless its type is null."""
    if dtype == pl.Null:
        return None
    if isinstance(dtype, pl.List):
        return [] if dtype.inner == pl.Null else [_filler(dtype.inner)]
    if isinstance(dtype, pl.Struct):
        return {f.name: _filler(f.dtype) for f in dtype.fields}
    if dtype == pl.Boolean:
        return False
    return 1 if dtype == pl.Int64 else 1.5 if dtype == pl.Float64 else "x"


def _identify(preset: Preset, row: dict[str, Any], problem: str) -> None:
    number = PROBLEMS.index(problem) + 1
    if preset.name == "ioi-cots":
        row["problem_id"], row["target_subtask"] = "boxes", f"0{number}"
    elif preset.name == "OpenCodeReasoning-split_1":
        row["dataset"], row["split"], row["index"] = "taco", "train", str(number)
    elif preset.problem is not None:
        row[preset.problem] = identity(problem)
    if preset.alias_column is not None:
        row[preset.alias_column] = ["33/X"] if problem == "C" else []


def _prompt(preset: Preset, row: dict[str, Any], question: str, trace: Trace) -> None:
    """Put the question, and where the turns hold it the trace, where the preset looks for them."""
    for role in (preset.messages, preset.prompt, preset.trace):
        if role is None or (role not in preset.columns and "[" not in role):
            continue
        column = base_columns(role, preset.columns)[0]
        dtype: Any = preset.columns[column]
        if role == preset.prompt and dtype == pl.String:
            row[column] = question
        elif isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct):
            alone = role in (preset.prompt,) and role == column
            row[column] = _turns(preset, dtype.inner, [] if column == "completion" else [question], None if alone else trace.text)


def _turns(preset: Preset, record: Any, questions: list[str], answer: str | None) -> list[dict[str, Any]]:
    empty = {f.name: _filler(f.dtype) for f in record.fields}
    role, content = ("role", "content") if "role" in empty else ("from", "value")
    user, assistant = ("human", "gpt") if preset.name == "OpenThoughts3-1.2M" else ("user", "assistant")
    said = [(user, q) for q in questions] + ([] if answer is None else [(assistant, answer)])
    return [{**empty, role: who, content: text} for who, text in said]


def _difficulty(preset: Preset, row: dict[str, Any], problem: str) -> None:
    if preset.difficulty is None or preset.difficulty_from is not None:
        return
    column = base_columns(preset.difficulty, preset.columns)[0]
    at = PROBLEMS.index(problem)
    dtype = preset.columns[column]
    if preset.labels:
        row[column] = [*preset.labels, *preset.labels][at] if problem != "C" else None
    elif dtype == pl.String:
        row[column] = "n/a" if problem == "C" else str(0.25 * at)
    else:
        value = 0.25 * at if preset.difficulty_kind == "rate" else at + 1
        row[column] = None if problem == "C" else float(value) if dtype == pl.Float64 else int(value)


WORDS: dict[str, tuple[Any, Any, Any]] = {
    "correct": (True, False, None),
    "deepseek_grade": ("Yes", "No", None),
    "gemini_grade": ("Yes", "No", None),
    "judgement": ("right", "wrong", ""),
    "r1_correctness": ("True", "False", None),
    "reward": (1.0, 0.0, None),
}
"""What a verdict column holds for true, false and unknown."""


def _passed(preset: Preset, row: dict[str, Any], group: list[Trace]) -> None:
    def word(passed: bool | None, words: tuple[Any, Any, Any]) -> Any:
        return words[2] if passed is None else words[0] if passed else words[1]

    verdicts = [t.passed for t in group]
    if "finish_reason" in row:
        row["finish_reason"] = "stop" if group[0].ended else "length"
    if preset.name == "ioi-cots":
        row["code_compiles"] = True
        row["target_subtask_status"] = word(verdicts[0], ("AC", "WA", None))
        row["target_subtask_score"] = word(verdicts[0], (1.0, 0.0, None))
    elif preset.passed is not None and "correctness_math_verify" in row:
        # the second trace of A passes by the judge alone
        row["correctness_math_verify"] = [v if i == 0 else False for i, v in enumerate(verdicts)]
        if "correctness_llama" in row:
            row["correctness_llama"] = [None if i == 0 else v for i, v in enumerate(verdicts)]
            row["is_reasoning_complete"] = [t.ended for t in group]
            row["finish_reasons"] = [None if i else "stop" for i, _ in enumerate(group)]
        else:
            row["correctness_math_verify"] = verdicts
    elif preset.name.startswith("SYNTHETIC-2") and "_avg_reward" in str(preset.passed):
        column = str(preset.trace).replace("_responses[]", "_avg_reward")
        row[column] = word(verdicts[0], (1.0, 0.0, 0.5))
    elif "score" in row and preset.passed is not None:
        row["score"] = word(verdicts[0], (9, 3, None) if preset.columns["score"] == pl.Int64 else (1.0, 0.0, None))
    else:
        for column, words in WORDS.items():
            if column in row and column in str(preset.passed):
                row[column] = word(verdicts[0], words)


def _write(preset: Preset, folder: Path, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    if preset.files:
        name = preset.files[0]
        text = json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)
        data = zstandard.compress(text.encode()) if name.endswith(".zst") else text.encode()
        (folder / name).write_bytes(data)
        other = folder / f"other-{name}"
        other.write_bytes(zstandard.compress(b"{}\n") if name.endswith(".zst") else b"[]")
        return (name,)
    config = preset.config or "default"
    base = "data" if config == "default" else config
    half = (len(rows) + 1) // 2
    names = []
    for i, part in enumerate((rows[:half], rows[half:])):
        name = f"{base}/{preset.split}-{i:05d}-of-00002.parquet"
        _parquet(part, preset.columns, folder / name)
        names.append(name)
    _parquet([rows[0]] * 9, preset.columns, folder / "other" / f"{preset.split}-00000-of-00001.parquet")
    (folder / "README.md").write_text(_card(preset, config, base), encoding="utf-8")
    return tuple(names)


def _card(preset: Preset, config: str, base: str) -> str:
    def entry(name: str, path: str) -> str:
        lines = [f"- config_name: {name}", "  data_files:", f"  - split: {preset.split}", f"    path: {path}/{preset.split}-*"]
        return "\n".join(lines)

    licence = preset.licence.split()[0]
    return f"---\nlicense: {licence}\nconfigs:\n{entry('other', 'other')}\n{entry(config, base)}\n---\n\nMade for a test.\n"


def _parquet(rows: list[dict[str, Any]], columns: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pl.DataFrame(rows, schema=dict(columns)).to_arrow(), path, compression="zstd")


def ratings(folder: Path) -> None:
    """The problem table that the Codeforces sets join, with a heavy column that nobody needs to read."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(
        {
            "id": list(RATINGS),
            "aliases": [[], [], ["3/C"], []],
            "rating": pl.Series(list(RATINGS.values()), dtype=pl.Int64),
            "tags": [["math"], ["dp"], [], None],
            "official_tests": [[{"input": str(i), "output": "1" * 5000}] for i in range(4)],
        }
    )
    pq.write_table(frame[:3].to_arrow(), folder / "data" / "train-00000-of-00001.parquet")
    pq.write_table(frame[3:].to_arrow(), folder / "data" / "test-00000-of-00001.parquet")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n"
        "  - split: test\n    path: data/test-*\n---\n",
        encoding="utf-8",
    )


def lengths(seed: int = 0) -> list[int]:
    """8,133 lengths in tokens (prompt and trace, ``chars/3.6``) that meet BOUNDS and QUANTILES, in the set's order.

    Between two fixed ranks they are spread evenly; none lies within 40 tokens above a bound, so a rule that leaves the prompt
    out, or joins it otherwise, gives the same counts. The order is easy first with noise: the first 25 have a median near 2,700.
    """
    ranks = {
        1: 1200,
        **{n: b - 1 for b, n in BOUNDS.items()},
        **{n + 1: b + 40 for b, n in BOUNDS.items()},
        **QUANTILES,
        8133: 31000,
    }
    fixed = sorted(ranks.items())
    found: list[int] = []
    for (low, a), (high, b) in itertools.pairwise(fixed):
        found += [a + (b - a) * i // (high - low) for i in range(high - low)]
    found.append(fixed[-1][1])
    chance = random.Random(seed)
    head = found[:1100:44]
    rest = sorted((n for n in _without(found, head)), key=lambda n: n + chance.gauss(0, 9000))
    return head + rest


def _without(values: list[int], taken: list[int]) -> list[int]:
    rest = list(values)
    for value in taken:
        rest.remove(value)
    return rest


def published(folder: Path, *, seed: int = 0, shard_rows: int = 512) -> dict[int, int]:
    """``solutions_py_decontaminated`` in its schema with made lengths; returns the rows within each bound."""
    preset = known()["solutions_py_decontaminated"]
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(3000)]
    base = " ".join(chance.choices(words, k=40000))
    tail = "\n</think>\n\n```python\nprint(input())\n```\n"
    sizes = lengths(seed)
    shards = -(-len(sizes) // shard_rows)
    for shard in range(shards):
        rows = []
        for at in range(shard * shard_rows, min((shard + 1) * shard_rows, len(sizes))):
            row = {column: _filler(dtype) for column, dtype in preset.columns.items()}
            prompt = f"Problem {at}."
            chars = -(-sizes[at] * 36 // 10)  # the smallest number of characters of that many tokens
            body = chars - len(prompt) - 1 - len("<think>\n") - len(tail)
            start = chance.randrange(len(base) - body)
            text = "<think>\n" + base[start : start + body] + tail
            row |= {"id": f"{at}/A", "aliases": [], "prompt": prompt, "generation": text, "finish_reason": "stop"}
            row["messages"] = [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}]
            rows.append(row)
        name = f"solutions_py_decontaminated/train-{shard:05d}-of-{shards:05d}.parquet"
        _parquet(rows, preset.columns, folder / name)
    card = _card(preset, "solutions_py_decontaminated", "solutions_py_decontaminated")
    card = card.replace("- config_name: other\n  data_files:\n  - split: train\n    path: other/train-*\n", "")
    (folder / "README.md").write_text(card.replace("Made for a test", "The lengths of these rows are made"), encoding="utf-8")
    return {bound: sum(n <= bound for n in sizes) for bound in BOUNDS}


def as_files(folder: Path) -> dict[str, bytes]:
    """A folder as the loopback Hub takes it: path to content."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def read(folder: Path, names: tuple[str, ...]) -> pl.DataFrame:
    """The rows of the files of one set, in their order."""
    frames = []
    for name in names:
        data = (folder / name).read_bytes()
        if name.endswith(".parquet"):
            frames.append(pl.from_arrow(pq.read_table(io.BytesIO(data))))
            continue
        text = (zstandard.decompress(data) if name.endswith(".zst") else data).decode()
        items = json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
        frames.append(pl.DataFrame(items, infer_schema_length=None))
    return pl.concat([f for f in frames if isinstance(f, pl.DataFrame)], how="vertical_relaxed")
