"""Fates worked out by hand on a few traces."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from curate.errors import CurateError
from curate.ledger import SCHEMA, Meta
from curate.selection import Rules, choose, mark, position, summary, thinking_required, verdict_basis

GOOD = {"source": 0, "item": 0, "problem": "A", "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True}


def make(*changes: dict[str, Any]) -> pl.DataFrame:
    """A ledger of one good trace of problem A, 10 tokens, per argument, with these values changed."""
    rows = [GOOD | {"row": row, "tokens": 10} | change for row, change in enumerate(changes)]
    extra = {name: pl.UInt32() for name in ("tokens_low", "tokens_high") if any(name in c for c in changes)}
    return pl.DataFrame(rows, schema=SCHEMA | extra)


def fates(ledger: pl.DataFrame, **rules: Any) -> list[str | None]:
    rule = Rules(**{"thinking": "required", **rules})
    return mark(ledger, rule, thinking_required(ledger, Meta(), rule))["reason"].to_list()


def test_the_first_reason_that_holds_is_given() -> None:
    everything = {"tokens": None, "problem": None, "finished": False, "thinking": False, "passed": False}
    steps = []
    for repaired in [{}, {"tokens": 99}, {"problem": "A"}, {"finished": True}, {"thinking": True}, {"passed": True}]:
        everything = everything | repaired
        steps.append(everything)
    assert fates(make(*steps, {"tokens": 8}, {}), max_tokens=50) == [
        "bad_row", "no_problem", "unfinished", "no_thinking", "not_passing", "over_length", None, "not_chosen"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("passing", "kept"),
    [("known", [True, False, False]), ("not-failed", [True, True, False]), ("finished", [True, True, True])],
)
def test_which_verdicts_pass(passing: str, kept: list[bool]) -> None:
    ledger = make({"passed": True}, {"passed": None}, {"passed": False})
    assert [fate is None for fate in fates(ledger, policy="all", passing=passing)] == kept


@pytest.mark.parametrize(("policy", "chosen"), [("first", 0), ("shortest", 1), ("longest", 3)])
def test_each_policy_takes_the_earliest_of_equals(policy: str, chosen: int) -> None:
    ledger = make({"tokens": 20}, {"tokens": 10}, {"tokens": 10}, {"tokens": 30}, {"tokens": 30})
    assert fates(ledger, policy=policy).index(None) == chosen
    assert fates(ledger, policy=policy).count("not_chosen") == 4


def test_all_keeps_everything_that_fits() -> None:
    assert fates(make({"tokens": 20}, {"tokens": 10}, {"tokens": 11}), policy="all", max_tokens=11) == ["over_length", None, None]


def test_a_trace_of_exactly_the_bound_fits() -> None:
    assert fates(make({"tokens": 10}, {"tokens": 11, "problem": "B"}), max_tokens=10) == [None, "over_length"]


def test_drop_then_choose_saves_the_problem_that_choose_then_drop_loses() -> None:
    ledger = make({"tokens": 20}, {"tokens": 10})
    assert fates(ledger, policy="first", max_tokens=15) == ["over_length", None]
    assert fates(ledger, policy="first", max_tokens=15, choose_first=True) == ["over_length", "not_chosen"]


def test_a_longer_prompt_does_not_punish_a_trace() -> None:
    ledger = make({"tokens": 20, "prompt_tokens": 1}, {"tokens": 25, "prompt_tokens": 15})
    assert fates(ledger, policy="shortest") == ["not_chosen", None]
    assert fates(ledger, policy="longest") == [None, "not_chosen"]
    assert fates(ledger, policy="shortest", max_tokens=20) == [None, "over_length"]


def test_the_upper_end_of_an_estimate_is_compared_when_asked() -> None:
    ledger = make({"tokens_high": 12}, {"problem": "B", "tokens_high": 11}, {"problem": "C", "tokens": 12, "tokens_high": None})
    assert fates(ledger, max_tokens=11) == [None, None, "over_length"]
    assert fates(ledger, max_tokens=11, high=True) == ["over_length", None, "over_length"]
    assert fates(ledger.drop("tokens_high"), max_tokens=11, high=True) == [None, None, "over_length"]


def test_traces_without_a_problem_are_not_one_problem() -> None:
    ledger = make({"problem": None}, {"problem": None}, {})
    assert fates(ledger) == ["no_problem", "no_problem", None]


def test_random_is_the_same_everywhere() -> None:
    """Literal: a later version that chooses otherwise breaks every published `--seed`."""
    ledger = make(*({"problem": p} for p in "AAAABBBBCCCC"))
    chosen = {seed: [i for i, fate in enumerate(fates(ledger, policy="random", seed=seed)) if fate is None] for seed in (0, 1, 2)}
    assert chosen == {0: [0, 5, 9], 1: [1, 6, 11], 2: [0, 4, 8]}


def test_random_takes_every_trace_about_equally_often() -> None:
    ledger = make(*({"problem": str(p), "item": i, "row": p} for p in range(3000) for i in range(3)))
    kept = ledger.filter(pl.Series([fate is None for fate in fates(ledger, policy="random", seed=7)]))
    assert kept.height == 3000
    # Three sigma of a binomial of 3,000 draws at one in three are 77.
    assert all(abs(n - 1000) < 77 for n in kept["item"].value_counts()["count"])


def test_position_is_the_place_in_source_row_item() -> None:
    ledger = make({"row": 5}, {"row": 2, "item": 1}, {"row": 2, "item": 0}, {"source": 1, "row": 0})
    assert position(ledger).tolist() == [2, 1, 0, 3]


@pytest.mark.parametrize(
    ("thinking", "decision"), [(20, "required"), (19, "required"), (18, "mixed"), (2, "mixed"), (1, "optional"), (0, "optional")]
)
def test_95_and_5_percent_decide_whether_thinking_is_required(thinking: int, decision: str) -> None:
    ledger = make(*({"thinking": i < thinking} for i in range(20)), {"tokens": None, "thinking": False, "finished": False})
    (found,) = thinking_required(ledger, Meta(), Rules()).values()
    assert (found.decision, found.thinking, found.traces) == (decision, thinking, 20)
    assert found.required == (decision == "required")


def test_each_source_decides_for_itself() -> None:
    ledger = make({}, {"source": 1, "problem": "B", "thinking": False}, {"source": 1, "problem": "C", "thinking": False})
    assert fates(ledger, thinking=None) == [None, None, None]
    assert fates(ledger, thinking="required") == [None, "no_thinking", "no_thinking"]


def test_select_refuses_a_mixed_source_and_shows_the_counts() -> None:
    ledger = make({}, {"thinking": False})
    meta = Meta(sources=({"name": "runs.parquet"},))
    with pytest.raises(CurateError, match=r"1 of 2 traces of runs\.parquet think.*--thinking required.*--thinking optional"):
        choose(ledger, meta, Rules())
    assert choose(ledger, meta, Rules(thinking="optional"))["reason"].to_list() == [None, "not_chosen"]


def test_select_refuses_data_without_a_verdict() -> None:
    ledger = make({"passed": None}, {"passed": None, "tokens": 9})
    with pytest.raises(CurateError, match="--passing finished"):
        choose(ledger, Meta(), Rules())
    assert choose(ledger, Meta(), Rules(passing="finished"))["reason"].to_list() == ["not_chosen", None]


@pytest.mark.parametrize(
    ("bases", "passed", "basis"),
    [
        ([], True, "verdict"),
        ([], None, "none"),
        (["judge"], True, "judge"),
        (["judge"], None, "none"),
        (["judge", "judge"], True, "judge"),
        (["judge", "none"], True, "mixed"),
    ],
)
def test_the_basis_of_verdicts(bases: list[str], passed: bool | None, basis: str) -> None:
    meta = Meta(sources=tuple({"basis": b} for b in bases))
    assert verdict_basis(make({"passed": passed}, {"passed": None}), meta) == basis


def test_the_summary_names_the_last_obstacle_of_a_lost_problem() -> None:
    ledger = make(
        {"tokens": 8},
        {"tokens": 9},
        {"problem": "B", "tokens": 40},
        {"problem": "B", "passed": False},
        {"problem": "C", "passed": False},
        {"problem": "C", "finished": False},
        {"problem": "D", "tokens": None},
        {"problem": None},
    )
    rules = Rules(max_tokens=10)
    assert summary(choose(ledger, Meta(), rules)) == {
        "traces": 8,
        "kept": 1,
        "dropped": {
            "bad_row": 1,
            "no_problem": 1,
            "unfinished": 1,
            "no_thinking": 0,
            "not_passing": 2,
            "over_length": 1,
            "not_chosen": 1,
        },
        "problems": 4,
        "problems_kept": 1,
        "problems_lost": {"over_length": 1, "not_passing": 1, "bad_row": 1},
        "tokens_kept": 8,
    }


def test_a_problem_lost_to_the_old_way_is_lost_to_the_choice() -> None:
    ledger = make({"tokens": 20}, {"tokens": 10})
    old = summary(choose(ledger, Meta(), Rules(policy="first", max_tokens=15, choose_first=True)))
    assert old["problems_lost"] == {"not_chosen": 1}


def test_totals_do_not_wrap_at_32_bits() -> None:
    ledger = make(*({"problem": str(i), "tokens": 3_000_000_000} for i in range(3)))
    assert summary(choose(ledger, Meta(), Rules()))["tokens_kept"] == 9_000_000_000


@pytest.mark.parametrize("policy", ["all", "first", "shortest", "longest", "random"])
def test_no_rows_are_no_trouble(policy: str) -> None:
    empty = make()
    rules = Rules(policy=policy, max_tokens=5)  # type: ignore[arg-type]
    chosen = choose(empty, Meta(), rules)
    assert dict(chosen.schema) == SCHEMA
    assert summary(chosen)["problems_lost"] == {}
    assert summary(chosen)["tokens_kept"] == 0
