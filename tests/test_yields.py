"""Yields worked out by hand, and the known answers on real traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate.errors import CurateError, UsageError
from curate.ledger import SCHEMA, Meta
from curate.problems import per_problem
from curate.selection import Rules, mark, summary, thinking_required
from curate.yields import by, facts, labels_of, standard_bounds, wilson, yield_table

GOOD = {"source": 0, "item": 0, "problem": "A", "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True}


def make(*changes: dict[str, Any]) -> pl.DataFrame:
    """A ledger of one good trace of problem A, 10 tokens, per argument, with these values changed."""
    rows = [GOOD | {"row": row, "tokens": 10} | change for row, change in enumerate(changes)]
    extra = {name: pl.String() for name in ("label", "group") if any(name in c for c in changes)}
    return pl.DataFrame(rows, schema=SCHEMA | extra)


THREE = make(
    {"tokens": 30, "difficulty": 2.0},
    {"tokens": 10, "difficulty": 2.0},
    {"problem": "B", "tokens": 20, "difficulty": 1.0},
    {"problem": "B", "tokens": 5, "passed": False},
    {"problem": "C", "tokens": 40, "passed": None},
    {"problem": "C", "tokens": 50, "finished": False},
)


def test_every_figure_of_one_row() -> None:
    row = yield_table(THREE, Meta(), bounds=[20]).bounds[0].json()
    skew = row.pop("skew")
    assert row == {
        "max_tokens": 20,
        "traces": 3,
        "share": 0.5,
        "tokens": 35,
        "problems": {"any": 2, "first": 1, "average": 1.5, "shortest": 2, "longest": 1},
        "problems_share": 2 / 3,
        "train": {"shortest": 30, "random": 30.0, "longest": 30},
        "lost": {"average": 0.5, "first": 1},
        "range": None,
        "interval": None,
    }
    assert [(b["label"], b["problems"], b["with_passing"], b["kept"]) for b in skew["bands"]] == [("1", 1, 1, 1), ("2", 1, 1, 1)]
    assert skew["unrated"] == {"label": "unrated", "problems": 1, "with_passing": 0, "kept": 0}


def test_the_rest_of_the_answer() -> None:
    told = yield_table(THREE, Meta(), bounds=[20])
    assert told.needed == {"50": 10, "90": 20, "99": 20}
    assert told.needed_hardest == ("2", 10)
    assert (told.problems, told.with_passing, told.choices) == (3, 2, {"1": 1, "2": 1})
    assert told.can_choose
    assert told.funnel == {
        "bad_row": 0,
        "no_problem": 0,
        "unfinished": 1,
        "no_thinking": 0,
        "passing": 3,
        "failed": 1,
        "unknown": 1,
    }
    assert told.censored_above == pytest.approx(5 / 6)
    assert not told.unverified


def test_a_random_pick_costs_the_mean_of_the_traces_that_fit() -> None:
    ledger = make({"tokens": 10}, {"tokens": 20}, {"tokens": 60}, {"problem": "B", "tokens": 7})
    at_20, at_all = yield_table(ledger, Meta(), bounds=[20]).bounds
    assert (at_20.train_shortest, at_20.train_random, at_20.train_longest) == (17, 22.0, 27)
    assert (at_all.train_shortest, at_all.train_random, at_all.train_longest) == (17, 37.0, 67)


def test_one_trace_per_problem_leaves_no_choice() -> None:
    told = yield_table(make({}, {"problem": "B"}), Meta())
    assert not told.can_choose
    assert told.facts["traces_per_problem"] == {"1": 2}
    assert told.censored_above is None


def test_bounds_are_sorted_once_each_and_end_with_none() -> None:
    assert [b.max_tokens for b in yield_table(THREE, Meta(), bounds=[20, 10, 20]).bounds] == [10, 20, None]
    with pytest.raises(UsageError, match="--bounds"):
        yield_table(THREE, Meta(), bounds=[0])


def test_default_bounds_keep_5_to_99_and_a_half_percent() -> None:
    shortest = pl.DataFrame({"shortest": [500] * 9 + [600] * 41 + [2000] * 149 + [9000] + [None] * 100})
    # Of 200: 9 within 512 (4.5 %), 50 within 1,024, 199 within 2,048 (99.5 %), all within 16,384.
    assert standard_bounds(shortest) == [1024, 2048, 4096, 8192]
    assert standard_bounds(pl.DataFrame({"shortest": pl.Series([None], dtype=pl.Int64)})) == []
    assert [b.max_tokens for b in yield_table(THREE, Meta()).bounds] == [None]


def test_without_any_verdict_every_usable_trace_counts() -> None:
    told = yield_table(make({"passed": None}, {"passed": None, "finished": False}), Meta(), bounds=[10])
    assert told.unverified
    assert told.facts["passing"] == {"basis": "none", "passed": 0, "failed": 0, "unknown": 2}
    assert told.bounds[0].problems.shortest == 1
    assert told.facts["tokens_passing"]["counted"] == 1


def test_pooled_bases_are_listed_by_source() -> None:
    meta = Meta(sources=({"name": "a", "basis": "verdict", "rows": 1}, {"name": "b", "basis": "judge", "rows": 4}))
    told = facts(make({}, {"source": 1}), meta)
    assert told["passing"]["basis"] == "mixed"
    assert told["passing"]["by_source"] == {"a": "verdict", "b": "judge"}
    assert told["rows"] == 5


def test_a_mixed_source_requires_no_thinking_and_says_so() -> None:
    told = yield_table(make({"thinking": False, "tokens": 5}, {"tokens": 9}), Meta(), bounds=[5])
    assert told.bounds[0].problems.shortest == 1
    assert told.json()["thinking"] == [{"source": "source 0", "traces": 2, "thinking": 1, "decision": "mixed"}]


def test_an_estimate_is_recounted_at_both_ends_of_its_range() -> None:
    """Lengths 80, 100 and 125 times 0.8 are 64, 80, 100, times 1.25 are 100, 125, 156: a length met exactly fits."""
    meta = Meta(tokens={"basis": "estimate", "by": "chars/3.6", "count": "sample", "low": 0.8, "high": 1.25})
    ledger = make({"tokens": 80}, {"problem": "B", "tokens": 100}, {"problem": "C", "tokens": 125})
    at_100, at_all = yield_table(ledger, meta, bounds=[100]).bounds
    assert at_100.fewest is not None
    assert at_100.most is not None
    assert (at_100.fewest.shortest, at_100.problems.shortest, at_100.most.shortest) == (1, 2, 3)
    assert at_all.fewest is None
    told = facts(ledger, meta)["tokens"]
    assert (told["basis"], told["by"], told["count"]) == ("estimate", "chars/3.6", "sample")


def test_intervals_only_for_a_sample() -> None:
    assert yield_table(THREE, Meta(), bounds=[20]).bounds[0].interval is None
    interval = yield_table(THREE, Meta(), bounds=[20], sampled=True).bounds[0].interval
    # Wilson's formula for 2 of 3 by hand: centre (2/3 + 0.64024) / 2.28049, half width 0.365 about.
    assert interval == pytest.approx((0.2077, 0.9385), abs=1e-4)
    assert wilson(3, 3) == pytest.approx((0.4385, 1.0), abs=1e-4)
    assert wilson(0, 0) is None


def test_bad_rows_are_source_rows() -> None:
    bad = {"tokens": None, "finished": False, "thinking": False}
    ledger = make({"row": 3, **bad}, {"row": 3, "item": 1, **bad}, {"row": 4, **bad}, {"row": 5, "problem": None})
    told = facts(ledger, Meta(bad_lines=10))
    assert (told["bad_rows"], told["rows_without_problem"], told["rows"]) == (12, 1, 3)
    assert (told["unfinished"], told["without_thinking"], told["tokens"]["counted"]) == (0, 0, 1)


def test_traces_that_disagree_about_difficulty_believe_the_earliest() -> None:
    ledger = make({"row": 7, "difficulty": 3.0}, {"row": 2, "difficulty": 9.0}, {"row": 1}, {"problem": "B", "difficulty": 1.0})
    told = yield_table(ledger, Meta())
    assert told.difficulty_conflicts == 1
    required = thinking_required(ledger, Meta(), Rules())
    assert per_problem(ledger, "known", required).select("problem", "difficulty", "conflict").rows() == [
        ("A", 9.0, True),
        ("B", 1.0, False),
    ]


def test_difficulties_are_shown_by_their_own_names() -> None:
    ledger = make({"difficulty": 1.0, "label": "Level 1"}, {"problem": "B", "difficulty": 2.0, "label": "Level 2"})
    (row,) = yield_table(ledger, Meta()).bounds
    assert row.skew is not None
    assert [band.label for band in row.skew.bands] == ["Level 1", "Level 2"]
    assert labels_of(ledger.drop("label"), Meta(labels=("easy", "hard"))) == {1.0: "easy", 2.0: "hard"}
    assert labels_of(ledger.drop("label"), Meta()) == {}


def test_groups_by_problems_then_the_rest() -> None:
    ledger = make(
        {"group": "x"},
        {"group": "x", "problem": "B"},
        {"group": "x", "problem": "C"},
        {"group": "y", "problem": "D"},
        {"group": "y", "problem": "E", "tokens": 30},
        {"group": "z", "problem": "F"},
        {"group": None, "problem": "G"},
    )
    told = by(ledger, Meta(sources=({"name": "a", "rows": 99},)), bounds=[10], top=2)
    assert {name: (t.facts["rows"], t.problems, t.bounds[0].problems.shortest) for name, t in told.items()} == {
        "x": (3, 3, 3),
        "y": (2, 2, 1),
        "other": (2, 2, 2),
    }
    assert list(by(ledger, Meta(), top=9)) == ["x", "y", "(none)", "z"]
    with pytest.raises(CurateError, match="--by"):
        by(THREE, Meta())


@pytest.mark.parametrize(
    "ledger",
    [make(), make({"tokens": None, "finished": False}), make({"problem": None}), make({"passed": False, "difficulty": 3.0})],
    ids=["no rows", "no text", "no problem", "nothing passes"],
)
def test_nothing_is_null_and_never_not_a_number(ledger: pl.DataFrame) -> None:
    told = yield_table(ledger, Meta(), bounds=[10], sampled=True).json()
    assert told["needed"] == {"50": None, "90": None, "99": None}
    assert told["tokens_passing"] | {"basis": None} == {
        "counted": 0,
        "basis": None,
        "by": None,
        "count": None,
        "mean": None,
        "p50": None,
        "p90": None,
        "p99": None,
        "max": None,
        "total": 0,
    }
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_no_rows_have_no_share() -> None:
    (row,) = yield_table(make(), Meta()).bounds
    assert (row.share, row.problems_share, row.traces, row.problems.average) == (None, None, 0, 0.0)


def test_totals_do_not_wrap_at_32_bits() -> None:
    told = yield_table(make(*({"problem": str(i), "tokens": 4_000_000_000} for i in range(3))), Meta())
    assert told.facts["tokens"]["total"] == told.bounds[-1].tokens == told.bounds[-1].train_longest == 12_000_000_000
    assert told.bounds[-1].train_random == 12e9


# Known answers on real traces.

SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"
real = pytest.mark.skipif(not SHARED.exists(), reason="the folder of real traces is not beside this clone")
MARKS = (("<|begin_of_thought|>", "<|end_of_thought|>"), ("<think>", "</think>"))


def judge(text: str, prompt: str) -> tuple[bool, bool]:
    """(finished, thinking) of a trace, by its marks."""
    opened = max(text.rfind(mark) for mark, _ in MARKS)
    closed, behind = max((text.rfind(mark), text.rfind(mark) + len(mark)) for _, mark in MARKS)
    if max(opened, closed) < 0 and not any(prompt.rstrip().endswith(mark) for mark, _ in MARKS):
        return bool(text.strip()), False
    return closed >= 0 and closed > opened and bool(text[behind:].strip()), True


def fill(traces: Iterator[dict[str, Any]]) -> pl.DataFrame:
    """A ledger by characters / 3.6 of the trace alone."""
    rows = []
    for trace in traces:
        text = trace.pop("text")
        finished, thinking = judge(text, trace.pop("prompt", ""))
        tokens = len(text) * 10 // 36 if text.strip() else None
        rows.append({"source": 0, "prompt_tokens": 0, "tokens": tokens, "finished": finished, "thinking": thinking} | trace)
    return pl.DataFrame(rows, schema=SCHEMA)


def skythought(name: str, benchmark: str) -> pl.DataFrame:
    rows = pl.read_parquet(SHARED / "skythought" / name).with_row_index("row").filter(pl.col("benchmark") == benchmark)
    return fill(
        {"row": r["row"], "item": 0, "problem": r["problem_id"], "text": r["completion"], "passed": r["correct"],
         "difficulty": r["level"]}
        for r in rows.iter_rows(named=True)
    )  # fmt: skip


OPTIONAL = Rules(thinking="optional")


def words(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["traces"], *(row["problems"][word] for word in ("any", "first", "average", "shortest", "longest"))


@real
def test_known_answers_on_math500() -> None:
    told = yield_table(skythought("math500_runs.parquet", "math500"), Meta(), bounds=[1024, 2048, 4096], rules=OPTIONAL).json()
    assert (told["traces"], told["problems"], told["passing"]["passed"], told["unfinished"]) == (1500, 500, 1010, 94)
    assert [told["tokens"][key] for key in ("p50", "p90", "p99", "max")] == [435, 2353, 4006, 19848]
    rows = told["bounds"]
    assert words(rows[0]) == (1154, 500, 255, 345.0, 398, 255)
    assert words(rows[1])[:1] + words(rows[1])[2:5] == (1308, 392, 404.0, 412)
    assert words(rows[2])[:1] + words(rows[2])[2:5] == (1490, 416, 416.67, 417)
    assert [(b["problems"], b["with_passing"], b["kept"]) for b in rows[0]["skew"]["bands"]] == [
        (43, 41, 41),
        (90, 86, 84),
        (105, 99, 98),
        (128, 108, 100),
        (134, 83, 75),
    ]


@real
def test_known_answers_on_aime24() -> None:
    told = yield_table(skythought("aime24_amc23_runs.parquet", "aime24"), Meta(), bounds=[1024, 4096], rules=OPTIONAL).json()
    assert (told["traces"], told["problems"], told["passing"]["passed"], told["unfinished"]) == (990, 30, 216, 292)
    assert [told["tokens"][key] for key in ("p50", "p90", "max")] == [2471, 30455, 46512]
    assert words(told["bounds"][0])[:1] + words(told["bounds"][0])[2:] == (380, 3, 4.24, 10, 2)
    assert words(told["bounds"][1])[:1] + words(told["bounds"][1])[2:] == (611, 15, 14.55, 18, 8)
    assert told["censored_above"] == pytest.approx(1 - 292 / 990)


@real
def test_known_answers_on_rollouts_whose_prompt_opens_the_thinking() -> None:
    lines = (SHARED / "prime_rl" / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    ledger = fill(
        {
            "row": i,
            "item": 0,
            "problem": r["prompt"],
            "prompt": r["prompt"],
            "text": r["completion"],
            "passed": bool(r["task_reward"]),
        }
        for i, r in enumerate(map(json.loads, lines))
    )
    told = yield_table(ledger, Meta(), bounds=[1280]).json()
    assert (told["traces"], told["problems"], told["passing"]["passed"], told["unfinished"]) == (112, 14, 37, 52)
    assert [told["tokens"][key] for key in ("p50", "p90")] == [1423, 1819]
    assert words(told["bounds"][0]) == (29, 8, 6, 5.05, 7, 3)


@real
def test_nested_generations_give_what_flat_rows_give_but_for_first() -> None:
    lines = (SHARED / "skythought" / "amc23_nested.jsonl").read_text(encoding="utf-8").splitlines()
    nested = fill(
        {"row": i, "item": k, "problem": f"amc23/{i}", "text": text, "passed": passed}
        for i, r in enumerate(map(json.loads, lines))
        for k, (text, passed) in enumerate(zip(r["generations"], r["correctness_math_verify"], strict=True))
    )
    flat = skythought("aime24_amc23_runs.parquet", "amc23")
    told = [yield_table(ledger, Meta(), bounds=[512, 1024, 4096], rules=OPTIONAL).json() for ledger in (nested, flat)]
    for one, other in zip(told[0]["bounds"], told[1]["bounds"], strict=True):
        assert {**one["problems"], "first": 0} == {**other["problems"], "first": 0}
        assert (one["traces"], one["tokens"], one["train"]) == (other["traces"], other["tokens"], other["train"])
    assert told[0]["tokens"] == told[1]["tokens"]
    assert told[0]["needed"] == told[1]["needed"]


@real
@pytest.mark.parametrize("policy", ["first", "shortest", "longest", "random"])
def test_known_answers_on_choosing(policy: Any) -> None:
    ledger = skythought("math500_runs.parquet", "math500")
    old = {"first": 255, "shortest": 398, "longest": 255}
    for choose_first, kept in ((False, 398), (True, old.get(policy))):
        rules = Rules(max_tokens=1024, policy=policy, thinking="optional", choose_first=choose_first)
        told = summary(mark(ledger, rules, thinking_required(ledger, Meta(), rules)))
        assert told["kept"] + sum(told["dropped"].values()) == 1500
        if kept is not None:
            assert told["problems_kept"] == kept
