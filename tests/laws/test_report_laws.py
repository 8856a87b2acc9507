"""Laws of the report: what the slider shows is what `select` would do at that bound."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given

from curate.ledger import Meta
from curate.report_data import collect
from curate.selection import Rules, allowed, mark, summary, thinking_required, usable
from tests.laws.strategies import Row, ledger, rows

RULES = Rules(thinking="optional", passing="not-failed")


def _marked(frame: pl.DataFrame, **more: Any) -> dict[str, Any]:
    rules = Rules(thinking="optional", passing="finished" if frame["passed"].null_count() == frame.height else "not-failed", **more)
    return summary(mark(frame, rules, thinking_required(frame, Meta(), rules)))


@given(rows(prompts=False))
def test_the_funnel_of_a_stop_is_the_selection_at_that_bound(made: list[Row]) -> None:
    frame = ledger(made)
    data = collect(frame, Meta(), rules=RULES, bound=5)
    for stop, fates in zip(data.stops, data.funnel, strict=True):
        counts = _marked(frame, max_tokens=stop)
        assert {f.reason: f.traces for f in fates} == counts["dropped"] | {"kept": counts["kept"]}
        assert {f.reason: f.problems for f in fates if f.problems} == counts["problems_lost"]


@given(rows())
def test_policies_are_selections_dropping_before_or_after_the_choice(made: list[Row]) -> None:
    frame = ledger(made)
    data = collect(frame, Meta(), rules=RULES, bound=5)
    for stop, chosen in zip(data.stops, data.policies, strict=True):
        for one in chosen:
            if one.policy == "random":
                continue
            before, after = (_marked(frame, max_tokens=stop, policy=one.policy, choose_first=late) for late in (False, True))
            assert (one.problems, one.tokens) == (before["problems_kept"], before["tokens_kept"])
            assert (one.problems_after, one.tokens_after) == (after["problems_kept"], after["tokens_kept"])


@given(rows())
def test_every_passing_trace_is_within_replaced_or_lost(made: list[Row]) -> None:
    frame = ledger(made)
    passing = "finished" if frame["passed"].null_count() == frame.height else "not-failed"
    required = thinking_required(frame, Meta(), RULES)
    own = frame.filter(usable(required) & allowed(passing)).select("problem", "tokens").rows()
    data = collect(frame, Meta(), rules=RULES)
    for stop, tail in zip(data.stops, data.tails, strict=True):
        fits = {problem for problem, tokens in own if tokens <= stop}
        over = [problem for problem, tokens in own if tokens > stop]
        assert tail.within == len(own) - len(over)
        assert tail.replaced == sum(problem in fits for problem in over)
        assert tail.lost == len(over) - tail.replaced


@given(rows())
def test_a_pass_rate_by_rank_splits_the_judged_traces(made: list[Row]) -> None:
    frame = ledger(made)
    judged = frame.filter(usable({}) & pl.col("passed").is_not_null())
    several = judged.filter(pl.len().over("problem") > 1) if judged.height else judged
    ranks = collect(frame, Meta(), rules=RULES).ranks
    assert sum(r.traces for r in ranks) == several.height
    # Passing traces are the same whether they are counted as they are or spread evenly over each problem.
    observed, expected = (sum(getattr(r, kind) * r.traces for r in ranks) for kind in ("observed", "expected"))
    assert abs(observed - expected) < 1e-6
    assert abs(observed - several["passed"].sum()) < 1e-6
