"""Laws of the yield table and of skew, and plain-Python oracles written from the design's words."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.ledger import Meta
from curate.selection import Rules, mark, summary, thinking_required
from curate.skew import cut, skew_table
from curate.yields import by, facts, yield_table
from tests.laws.strategies import Row, is_passing, is_usable, ledger, place, rows, rules

BOUNDS = [1, 2, 3, 4, 5, 6, 7, 8, 9]
ESTIMATE = Meta(tokens={"basis": "estimate", "by": "chars/3.6", "count": "trace", "low": 0.7, "high": 1.25})


def settled(made: list[Row], rule: Rules) -> tuple[list[Row], list[Row]]:
    """Usable and passing traces, earliest first; with no verdict at all, every usable trace passes."""
    required = thinking_required(ledger(made), Meta(), rule)
    passing = "finished" if all(t["passed"] is None for t in made) else rule.passing
    earliest = sorted(made, key=place)
    return [t for t in earliest if is_usable(t, required)], [t for t in earliest if is_passing(t, required, passing)]


def lengths_by_problem(made: list[Row]) -> list[list[int]]:
    return [[t["tokens"] for t in made if t["problem"] == p] for p in {t["problem"] for t in made} - {None}]


def counts(able: list[Row], good: list[Row], fits: Any) -> dict[str, float]:
    """Problems at a bound, ``fits`` telling whether a length is within it."""
    groups = lengths_by_problem(good)
    return {
        "any": sum(any(map(fits, group)) for group in lengths_by_problem(able)),
        "first": sum(fits(group[0]) for group in groups),
        "average": round(float(sum((Fraction(sum(map(fits, g)), len(g)) for g in groups), Fraction())), 2),
        "shortest": sum(any(map(fits, group)) for group in groups),
        "longest": sum(all(map(fits, group)) for group in groups),
    }


def nearest_rank(lengths: list[int], percent: int) -> int | None:
    return sorted(lengths)[math.ceil(Fraction(percent, 100) * len(lengths)) - 1] if lengths else None


@given(rows(), rules())
def test_every_row_of_the_table_is_what_the_oracle_counts(made: list[Row], rule: Rules) -> None:
    able, good = settled(made, rule)
    told = yield_table(ledger(made), ESTIMATE, bounds=BOUNDS, rules=rule).json()
    assert [b["max_tokens"] for b in told["bounds"]] == [*BOUNDS, None]
    for row in told["bounds"]:
        limit = row["max_tokens"] or 10**9
        within = [t["tokens"] for t in made if t["tokens"] is not None and t["tokens"] <= limit]
        assert (row["traces"], row["tokens"]) == (len(within), sum(within))
        assert row["share"] == (len(within) / len(made) if made else None)
        assert row["problems"] == counts(able, good, lambda n, limit=limit: n <= limit)
        if row["max_tokens"]:
            assert row["range"]["fewest"] == counts(able, good, lambda n, limit=limit: n * Fraction("1.25") <= limit)
            assert row["range"]["most"] == counts(able, good, lambda n, limit=limit: n * Fraction("0.7") <= limit)
    shortest = [min(group) for group in lengths_by_problem(good)]
    assert told["needed"] == {str(q): nearest_rank(shortest, q) for q in (50, 90, 99)}


@given(rows(), rules())
def test_the_facts_are_what_the_oracle_counts(made: list[Row], rule: Rules) -> None:
    _, good = settled(made, rule)
    told = facts(ledger(made), Meta(bad_lines=2), rule)
    text = [t for t in made if t["tokens"] is not None]
    problems = Counter(t["problem"] for t in made if t["problem"] is not None)
    assert told["rows"] == len({(t["source"], t["row"]) for t in made})
    assert told["bad_rows"] == len({(t["source"], t["row"]) for t in made if t["tokens"] is None}) + 2
    assert told["rows_without_problem"] == len({(t["source"], t["row"]) for t in made if t["problem"] is None})
    assert (told["traces"], told["problems"]) == (len(made), len(problems))
    assert told["traces_per_problem"] == {str(k): n for k, n in Counter(problems.values()).items()}
    assert told["unfinished"] == sum(not t["finished"] for t in text)
    assert told["without_thinking"] == sum(not t["thinking"] for t in text)
    verdicts = Counter(t["passed"] for t in made)
    passing = told["passing"]
    assert (passing["passed"], passing["failed"], passing["unknown"]) == (verdicts[True], verdicts[False], verdicts[None])
    assert told["difficulty"]["rated"] == sum(t["difficulty"] is not None for t in made)
    for key, chosen in (("tokens", text), ("tokens_passing", good)):
        lengths = [t["tokens"] for t in chosen]
        assert told[key]["counted"] == len(lengths)
        assert told[key]["total"] == sum(lengths)
        assert told[key]["max"] == max(lengths, default=None)
        assert told[key]["mean"] == (round(sum(lengths) / len(lengths), 2) if lengths else None)
        assert [told[key][f"p{q}"] for q in (50, 90, 99)] == [nearest_rank(lengths, q) for q in (50, 90, 99)]


@given(rows(), rules())
def test_every_trace_is_in_the_funnel_once(made: list[Row], rule: Rules) -> None:
    _, good = settled(made, rule)
    funnel = yield_table(ledger(made), Meta(), rules=rule).funnel
    assert sum(funnel.values()) == len(made)
    assert funnel["passing"] == len(good)


@given(rows(), rules())
def test_the_yield_never_falls_as_the_bound_rises(made: list[Row], rule: Rules) -> None:
    table = yield_table(ledger(made), Meta(), bounds=BOUNDS, rules=rule).bounds
    for lower, higher in itertools.pairwise(table):
        assert lower.traces <= higher.traces
        assert lower.tokens <= higher.tokens
        assert lower.train_shortest <= higher.train_shortest
        for word, fewer in lower.problems.json().items():
            assert fewer <= higher.problems.json()[word]


@given(rows(), rules())
def test_a_better_choice_never_reaches_fewer_problems(made: list[Row], rule: Rules) -> None:
    for bound in yield_table(ledger(made), Meta(), bounds=BOUNDS, rules=rule).bounds:
        n = bound.problems
        assert n.any >= n.shortest >= n.average >= n.longest
        assert n.longest <= n.first <= n.shortest
        assert bound.lost_average == pytest.approx(n.shortest - n.average)
        assert bound.lost_first == n.shortest - n.first


@given(rows(), rules(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_no_digit(made: list[Row], rule: Rules, random: Any) -> None:
    other = ledger(random.sample(made, len(made)))
    assert yield_table(other, ESTIMATE, rules=rule, bounds=BOUNDS).json() == (
        yield_table(ledger(made), ESTIMATE, rules=rule, bounds=BOUNDS).json()
    )


@given(rows(), st.integers(1, 9), st.sampled_from(["known", "not-failed", "finished"]))
def test_yield_foretells_what_select_keeps(made: list[Row], bound: int, passing: Any) -> None:
    frame = ledger([*made, made[0] | {"source": 2, "passed": True}] if made else made)
    row = yield_table(frame, Meta(), bounds=[bound], rules=Rules(passing=passing)).bounds[0]
    for policy, tokens in (("shortest", row.train_shortest), ("longest", row.train_longest)):
        rule = Rules(policy=policy, max_tokens=bound, passing=passing)  # type: ignore[arg-type]
        kept = summary(mark(frame, rule, thinking_required(frame, Meta(), rule)))
        assert (kept["problems_kept"], kept["tokens_kept"]) == (row.problems.shortest, tokens)
    rule = Rules(policy="first", max_tokens=bound, passing=passing, choose_first=True)
    old = summary(mark(frame, rule, thinking_required(frame, Meta(), rule)))
    assert old["problems_kept"] == row.problems.first


@given(rows(), rules())
def test_a_random_choice_costs_the_mean_of_what_fits(made: list[Row], rule: Rules) -> None:
    _, good = settled(made, rule)
    for bound in yield_table(ledger(made), Meta(), bounds=BOUNDS, rules=rule).bounds:
        limit = bound.max_tokens or 10**9
        fitting = [[n for n in group if n <= limit] for group in lengths_by_problem(good)]
        mean = sum((Fraction(sum(group), len(group)) for group in fitting if group), Fraction())
        assert bound.train_random == round(float(mean), 2)


@given(rows(prompts=False), rules())
def test_tokens_to_train_on_rise_from_shortest_over_random_to_longest(made: list[Row], rule: Rules) -> None:
    for bound in yield_table(ledger(made), Meta(), bounds=BOUNDS, rules=rule).bounds:
        assert bound.train_shortest <= bound.train_random + 0.01
        assert bound.train_random <= bound.train_longest + 0.01


@given(rows(), rules(thinking="optional"), st.integers(1, 3))
def test_groups_share_out_every_trace(made: list[Row], rule: Rules, top: int) -> None:
    group = [t["difficulty"] and str(t["difficulty"]) for t in made]
    frame = ledger(made).with_columns(group=pl.Series(group, dtype=pl.String))
    whole = yield_table(frame, Meta(), bounds=BOUNDS, rules=rule)
    parts = by(frame, Meta(), bounds=BOUNDS, rules=rule, top=top)
    assert len(parts) <= top + 1
    for i, bound in enumerate(whole.bounds):
        assert sum(part.bounds[i].traces for part in parts.values()) == bound.traces
    assert sum(part.funnel["passing"] for part in parts.values()) == whole.funnel["passing"]


@given(st.lists(st.tuples(st.none() | st.integers(0, 30).map(float), st.none() | st.integers(1, 9)), max_size=30))
def test_skew_is_what_the_oracle_counts(made: list[tuple[float | None, int | None]]) -> None:
    problems = pl.DataFrame(made, schema={"difficulty": pl.Float64, "shortest": pl.Int64}, orient="row")
    rated = [(d, s) for d, s in made if d is not None]
    table = skew_table(problems, [3, 6, None])
    assert len(table) == (3 if rated else 0)
    for skew, limit in zip(table, (3, 6, 99), strict=False):
        able = [d for d, s in rated if s is not None]
        kept = [d for d, s in rated if s is not None and s <= limit]
        lost = [d for d, s in rated if s is not None and s > limit]
        assert sum(b.problems for b in skew.bands) == len(rated)
        assert sum(b.with_passing for b in skew.bands) == len(able)
        assert sum(b.kept for b in skew.bands) == len(kept)
        assert skew.unrated.problems == len(made) - len(rated)
        assert skew.kept_mean == (pytest.approx(sum(kept) / len(kept)) if kept else None)
        assert skew.all_median == median(able)
        assert skew.kept_median == median(kept)
        pairs = [(1.0 if harder > easier else 0.5 if harder == easier else 0.0) for harder in lost for easier in kept]
        assert skew.auc == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)
        assert skew.hard_share_kept == (skew.bands[-1].kept / len(kept) if kept else None)


def median(values: list[float]) -> float | None:
    ordered = sorted(values)
    half = len(ordered) // 2
    if not ordered:
        return None
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@given(st.lists(st.integers(1, 50), min_size=11, max_size=40))
def test_five_bands_of_whole_levels_none_of_them_empty(sizes: list[int]) -> None:
    starts = cut(sizes)
    assert len(starts) == 5
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    held = [sum(sizes[a:b]) for a, b in zip(starts, [*starts[1:], len(sizes)], strict=True)]
    assert sum(held) == sum(sizes)


@given(st.integers(11, 60), st.integers(1, 9))
def test_bands_of_equal_levels_differ_by_one_level_at_most(levels: int, size: int) -> None:
    starts = [*cut([size] * levels), levels]
    widths = [b - a for a, b in itertools.pairwise(starts)]
    assert max(widths) - min(widths) <= 1
