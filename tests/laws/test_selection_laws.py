"""Laws of choosing, and a plain-Python oracle that marks one trace at a time."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from curate.ledger import REASONS, SCHEMA, Meta
from curate.selection import Contest, Rules, Thinking, mark, summary, thinking_required
from tests.laws.strategies import Row, is_passing, is_usable, ledger, place, rows, rules

Place = tuple[int, int, int]


def marked(made: list[Row], rule: Rules) -> pl.DataFrame:
    frame = ledger(made)
    return mark(frame, rule, thinking_required(frame, Meta(), rule))


def reasons(frame: pl.DataFrame) -> dict[Place, str | None]:
    return {place(row): row["reason"] for row in frame.iter_rows(named=True)}


def requirement(made: list[Row], rule: Rules) -> dict[int, Thinking]:
    return thinking_required(ledger(made), Meta(), rule)


def splitmix(state: int) -> int:
    """splitmix64 in whole numbers."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def preference(trace: Row, rule: Rules) -> Any:
    body = trace["tokens"] - trace["prompt_tokens"]
    if rule.policy == "random":
        state = rule.seed
        for part in place(trace):
            state = splitmix(state ^ part)
        return state >> 32, place(trace)
    return {"first": 0, "shortest": body, "longest": -body}[rule.policy], place(trace)


def oracle(made: list[Row], rule: Rules) -> dict[Place, str | None]:
    """Reasons from the design's words: problem by problem, trace by trace."""
    required = requirement(made, rule)
    fates: dict[Place, str | None] = {}
    for trace in made:
        over = rule.max_tokens is not None and (trace["tokens"] or 0) > rule.max_tokens
        fate = None
        if trace["tokens"] is None:
            fate = "bad_row"
        elif trace["problem"] is None:
            fate = "no_problem"
        elif not trace["finished"]:
            fate = "unfinished"
        elif not is_usable(trace, required):
            fate = "no_thinking"
        elif not is_passing(trace, required, rule.passing):
            fate = "not_passing"
        elif over:
            fate = "over_length"
        fates[place(trace)] = fate
    if rule.policy == "all":
        return fates
    for problem in {trace["problem"] for trace in made}:
        able = [None, "over_length"] if rule.choose_first else [None]
        rivals = [t for t in made if t["problem"] == problem and fates[place(t)] in able]
        if not rivals:
            continue
        best = min(rivals, key=lambda t: preference(t, rule))
        for trace in rivals:
            if trace is not best and fates[place(trace)] is None:
                fates[place(trace)] = "not_chosen"
    return fates


@given(rows(), rules())
def test_every_trace_gets_the_fate_the_oracle_gives_it(made: list[Row], rule: Rules) -> None:
    assert reasons(marked(made, rule)) == oracle(made, rule)


@given(rows(), rules())
def test_rules_mark_and_never_filter_or_change_anything_else(made: list[Row], rule: Rules) -> None:
    assert_frame_equal(marked(made, rule).drop("reason"), ledger(made).drop("reason"))


@given(rows(), rules())
def test_kept_and_dropped_are_all_traces_and_all_problems(made: list[Row], rule: Rules) -> None:
    told = summary(marked(made, rule))
    assert told["kept"] + sum(told["dropped"].values()) == told["traces"] == len(made)
    assert told["problems_kept"] + sum(told["problems_lost"].values()) == told["problems"]


@given(rows(), rules())
def test_the_summary_counts_what_the_oracle_counts(made: list[Row], rule: Rules) -> None:
    fates = oracle(made, rule)
    kept = [t for t in made if fates[place(t)] is None]
    problems = {t["problem"] for t in made} - {None}
    lost: dict[str, int] = {}
    for problem in problems - {t["problem"] for t in kept}:
        last = max((fates[place(t)] or "" for t in made if t["problem"] == problem), key=REASONS.index)
        lost[last] = lost.get(last, 0) + 1
    assert summary(marked(made, rule)) == {
        "traces": len(made),
        "kept": len(kept),
        "dropped": {reason: list(fates.values()).count(reason) for reason in REASONS},
        "problems": len(problems),
        "problems_kept": len({t["problem"] for t in kept}),
        "problems_lost": lost,
        "tokens_kept": sum(t["tokens"] for t in kept),
    }


@given(rows(), rules(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(made: list[Row], rule: Rules, random: Any) -> None:
    other = random.sample(made, len(made))
    assert reasons(marked(other, rule)) == reasons(marked(made, rule))


@given(rows(), rules(thinking="optional"))
def test_choosing_again_from_what_was_chosen_keeps_all_of_it(made: list[Row], rule: Rules) -> None:
    fates = reasons(marked(made, rule))
    kept = [t for t in made if fates[place(t)] is None]
    assert set(reasons(marked(kept, rule)).values()) <= {None}


@given(rows(prompts=False), rules(policy="shortest", choose_first=False, max_tokens=5))
def test_dropping_and_choosing_the_shortest_commute(made: list[Row], rule: Rules) -> None:
    then = Rules(max_tokens=5, passing=rule.passing, thinking=rule.thinking, choose_first=True)
    before, after = marked(made, rule), marked(made, then)
    assert before["reason"].is_null().to_list() == after["reason"].is_null().to_list()


@given(rows(), rules(choose_first=False), rules(choose_first=False))
def test_a_dropped_trace_loses_no_problem_under_any_policy(made: list[Row], one: Rules, two: Rules) -> None:
    same = {"max_tokens": one.max_tokens, "passing": one.passing, "thinking": one.thinking}
    first = summary(marked(made, Rules(policy=one.policy, seed=one.seed, **same)))
    other = summary(marked(made, Rules(policy=two.policy, seed=two.seed, **same)))
    assert first["problems_kept"] == other["problems_kept"]
    assert first["problems_lost"] == other["problems_lost"]


@given(rows(), rules(policy="random"))
def test_a_random_choice_does_not_depend_on_other_problems(made: list[Row], rule: Rules) -> None:
    rule = Rules(policy="random", seed=rule.seed, max_tokens=rule.max_tokens, passing=rule.passing, thinking="required")
    whole = reasons(marked(made, rule))
    alone = reasons(marked([t for t in made if t["problem"] == "A"], rule))
    assert alone == {key: whole[key] for key in alone}


@given(rows(), rules(), st.integers(1, 4), st.booleans(), st.randoms(use_true_random=False))
def test_what_is_kept_was_possible_in_its_part_whatever_the_other_parts_hold(
    made: list[Row], rule: Rules, size: int, folded: bool, rng: Random
) -> None:
    frame = ledger(made).sort("source", "row", "item")
    contest = Contest(rule)
    slices = [(s, part) for (s,), of in frame.group_by("source", maintain_order=True) for part in of.iter_slices(size)]
    rng.shuffle(slices)
    parts = [part.with_columns(able=contest.possible(part, s)) for s, part in slices]
    if folded:  # two problems turn out to be one
        frame = frame.with_columns(problem=pl.col("problem").replace("B", "A"))
    kept = mark(frame, rule, thinking_required(frame, Meta(), rule)).filter(pl.col("reason").is_null())
    if kept.height:
        able = pl.concat(parts).filter("able").select("source", "row", "item")
        assert kept.join(able, on=["source", "row", "item"], how="anti").height == 0


def test_a_trace_that_loses_in_its_part_is_not_put_aside() -> None:
    same = {"source": 0, "item": 0, "prompt_tokens": 0, "passed": True, "finished": True}
    three = [("A", 9, True), ("A", 7, True), ("A", 3, False), ("B", 8, True), ("B", 20, True)]
    part = pl.DataFrame(
        [same | {"row": r, "problem": p, "tokens": t, "thinking": h} for r, (p, t, h) in enumerate(three)], schema=SCHEMA
    )
    assert Contest(Rules(max_tokens=10)).possible(part, 0).to_list() == [False, True, True, True, False]
    assert Contest(Rules(max_tokens=10, policy="longest")).possible(part, 0).to_list() == [True, False, True, True, False]
    assert Contest(Rules(max_tokens=10, policy="all")).possible(part, 0).to_list() == [True, True, True, True, False]
    assert Contest(Rules(max_tokens=10, choose_first=True)).possible(part, 0).to_list() == [True, True, True, True, False]


def test_a_trace_that_loses_to_an_earlier_part_is_not_put_aside() -> None:
    same = {"source": 0, "item": 0, "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True, "problem": "A"}

    def part(tokens: int, row: int) -> pl.DataFrame:
        return pl.DataFrame([same | {"row": row, "tokens": tokens}], schema=SCHEMA)

    contest = Contest(Rules(max_tokens=10))
    # 7 leads, 9 loses to it, 6 leads, another 6 loses by its place, an earlier one does not
    asked = [
        contest.possible(part(t, row), source).item() for t, row, source in ((7, 5, 1), (9, 6, 1), (6, 7, 1), (6, 8, 1), (6, 9, 0))
    ]
    assert asked == [True, False, True, False, True]
    longest = Contest(Rules(max_tokens=10, policy="longest"))
    assert [longest.possible(part(t, row), 0).item() for t, row in ((7, 0), (6, 1), (9, 2), (11, 3))] == [True, False, True, False]
