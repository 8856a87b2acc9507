"""Why a trace was kept, and what changed between two runs; worked out by hand on a few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import render_explain
from curate.errors import CurateError
from curate.explain import diff, read_out, rules_of, why
from curate.ledger import SCHEMA, Meta, to_bytes
from curate.selection import Rules, mark, thinking_required

GOOD = {"source": 0, "item": 0, "problem": "A", "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True}
META = Meta(sources=({"name": "left"}, {"name": "right"}))


def make(*changes: dict[str, Any]) -> pl.DataFrame:
    """A ledger of one good trace of problem A, 10 tokens, per argument, with these values changed."""
    rows = [GOOD | {"row": row, "tokens": 10} | change for row, change in enumerate(changes)]
    extra = {
        name: dtype for name, dtype in (("digest", pl.String()), ("tokens_high", pl.UInt32())) if any(name in c for c in changes)
    }
    return pl.DataFrame(rows, schema=SCHEMA | extra)


def marked(frame: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    return mark(frame, rules, thinking_required(frame, META, rules))


MANY = make(
    {"tokens": 30, "prompt_tokens": 5, "difficulty": 1200.0},
    {"tokens": 20},
    {"tokens": 8, "passed": False},
    {"tokens": 7, "passed": None},
    {"tokens": 6, "finished": False},
    {"tokens": 20, "item": 1},
    {"tokens": None},
    {"tokens": 5, "thinking": False},
    {"tokens": 12, "problem": "B"},
)


def test_every_fate_in_words_with_the_rival_that_won() -> None:
    rules = Rules(max_tokens=25, thinking="required")
    found = why(marked(MANY, rules), META, "A", rules)
    assert [(t.reason, t.said) for t in found.traces] == [
        ("over_length", "5 tokens over the bound"),
        (None, "kept: the shortest of the passing ones that fit"),
        ("not_passing", "its verdict is false"),
        ("not_passing", "it has no verdict, and only true ones pass"),
        ("unfinished", "cut off, thinking not closed, or no answer after it"),
        ("not_chosen", "row 1 is as long and comes earlier"),
        ("bad_row", "its text is null or blank, or its row's lists do not line up"),
        ("no_thinking", "it has no reasoning, which traces of its source must have"),
    ]
    assert found.traces[0].rival == ("left", 1, 0)
    assert found.traces[1].rival is None
    assert (found.kept, found.lost, found.difficulty, found.max_tokens) == (1, None, 1200.0, 25)
    assert [(t.tokens, t.length) for t in found.traces[:2]] == [(30, 25), (20, 20)]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(policy="first"), ["kept: the first of the passing ones", "row 0 comes earlier", "row 0 comes earlier"]),
        (Rules(policy="longest"), ["row 2 is 20 tokens longer", "row 2 is 10 tokens longer", "kept: the longest of the passing ones"]),
        (Rules(policy="all", max_tokens=25), ["kept: passing and within the bound"] * 2 + ["5 tokens over the bound"]),
        (Rules(policy="longest", max_tokens=25, choose_first=True), ["another trace was chosen, and that one is over the bound"] * 2 + ["5 tokens over the bound"]),
    ],
)  # fmt: skip
def test_policies_have_their_own_words(rules: Rules, said: list[str]) -> None:
    frame = make({"tokens": 10}, {"tokens": 20}, {"tokens": 30})
    assert [t.said for t in why(frame, META, "A", rules, marked=False).traces] == said


def test_the_upper_end_of_an_estimate_is_named() -> None:
    rules = Rules(max_tokens=25, high=True)
    found = why(make({"tokens": 20, "tokens_high": 28}), META, "A", rules, marked=False)
    assert found.traces[0].said == "it may have up to 28 tokens, 3 over the bound"
    assert found.lost == "over_length"
    assert "estimated at 20 tokens, and the upper end" in " ".join(render_explain.why(found).split())


def test_a_lost_problem_has_its_last_obstacle() -> None:
    rules = Rules(max_tokens=25)
    found = why(make({"tokens": 40}, {"tokens": 30}, {"passed": False}), META, "A", rules, marked=False)
    assert (found.kept, found.lost) == (0, "over_length")
    assert all(t.rival is None for t in found.traces)
    assert (
        render_explain.why(found).splitlines()[0] == "Problem A: lost within 25 tokens. Its shortest passing trace needs 30 tokens."
    )


def test_an_unknown_problem_offers_near_ids() -> None:
    frame = make({"problem": "1900/A"}, {"problem": "1900/B"}, {"problem": "7"})
    for asked, offered in (
        ("1900/a", "'1900/A'"),
        ("1900/C", "'1900/A'"),
        ("zzz", "It has 3, for example '1900/A', '1900/B', '7'."),
    ):
        with pytest.raises(CurateError) as error:
            why(frame, META, asked)
        assert offered in str(error.value)
    with pytest.raises(CurateError, match="None of its traces has a problem id"):
        why(make({"problem": None}), META, "A")


def test_json_holds_json_values() -> None:
    rules = Rules(max_tokens=25, thinking="required")
    facts = why(marked(MANY, rules), META, "A", rules).json()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["traces"][0] == {
        "source": "left", "row": 0, "item": 0, "tokens": 30, "length": 25, "tokens_high": None, "passed": True, "finished": True,
        "thinking": True, "reason": "over_length", "said": "5 tokens over the bound", "rival": ["left", 1, 0],
    }  # fmt: skip


def test_the_screen_shows_hostile_ids_and_sources_as_text() -> None:
    meta = Meta(sources=({"name": "a\x1b[31m"}, {"name": "b\u202e"}))
    text = render_explain.why(why(make({"problem": "\x1b[2J"}, {"problem": "\x1b[2J", "source": 1}), meta, "\x1b[2J"))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "a\\x1b[31m" in text


def test_rules_come_back_from_a_manifest() -> None:
    options = {"policy": "longest", "max_tokens": 8192, "passing": "finished", "choose_then_drop": True, "estimate": "chars/3.6"}
    assert rules_of(options) == Rules(max_tokens=8192, policy="longest", passing="finished", choose_first=True, high=False)
    assert rules_of({"policy": "shortest"}) == Rules(high=True)


def test_an_output_folder_is_read_with_its_rules(tmp_path: Path) -> None:
    frame = marked(MANY, Rules(max_tokens=25))
    (tmp_path / "ledger.parquet").write_bytes(to_bytes(frame, META))
    (tmp_path / "manifest.json").write_text(json.dumps({"options": {"max_tokens": 25, "policy": "shortest"}}))
    ledger, meta, rules = read_out(tmp_path)
    assert ledger.equals(frame)
    assert meta == META
    assert (rules.max_tokens, rules.policy) == (25, "shortest")
    assert read_out(tmp_path / "ledger.parquet")[2].max_tokens == 25


def test_what_is_no_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CurateError, match="no output of `curate select`"):
        read_out(tmp_path)
    (tmp_path / "ledger.parquet").write_bytes(to_bytes(MANY, META))
    with pytest.raises(CurateError, match="counted, not selected from"):
        read_out(tmp_path)


# Rows of two runs: A keeps the shortest within 25, B the longest within 40.
PAIR = make(
    {"tokens": 10},
    {"tokens": 20},  # A: another trace
    {"problem": "B", "tokens": 30},  # gained
    {"problem": "C", "tokens": 15},  # same
    {"problem": "D", "tokens": 50},  # in neither
)


def test_gained_lost_changed_and_same() -> None:
    a, b = marked(PAIR, Rules(max_tokens=25)), marked(PAIR, Rules(max_tokens=40, policy="longest"))
    forth, back = diff(a, b), diff(b, a)
    assert forth.same == back.same == 1
    assert [c.json() for c in forth.gained] == [
        {"problem": "B", "kind": "gained", "reason": "over_length", "tokens_a": None, "tokens_b": 30}
    ]
    assert [(c.problem, c.reason, c.tokens_a, c.tokens_b) for c in forth.changed] == [("A", "not_chosen", 10, 20)]
    assert forth.lost == ()
    assert [(c.problem, c.reason) for c in back.lost] == [("B", "over_length")]
    assert (forth.a.kept, forth.a.tokens, forth.b.kept, forth.b.tokens) == (2, 25, 3, 65)
    facts = forth.json()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["gained"], facts["lost"], facts["changed"], facts["reasons"]["gained"]) == (1, 0, 1, {"over_length": 1})


def test_a_run_against_itself_changes_nothing() -> None:
    a = marked(PAIR, Rules(max_tokens=25))
    found = diff(a, a)
    assert (found.gained, found.lost, found.changed, found.same) == ((), (), (), 2)


def test_sources_match_by_name_whatever_their_number() -> None:
    a = make({"source": 0}, {"source": 1, "problem": "B"})
    b = make({"source": 1}, {"source": 0, "problem": "B"})
    turned = Meta(sources=({"name": "right"}, {"name": "left"}))
    assert diff(a, b, meta_a=META, meta_b=turned).same == 2
    assert len(diff(a, b, meta_a=META, meta_b=META).changed) == 2


def test_digests_tell_a_trace_wherever_its_row_went() -> None:
    a, b = make({"digest": "x"}), make({"problem": "B", "digest": "y"}, {"digest": "x"})
    found = diff(a, b)
    assert (found.same, len(found.changed), len(found.gained)) == (1, 0, 1)


def test_what_a_run_never_read_is_absent() -> None:
    found = diff(make({}), make({"problem": "B"}))
    assert [(c.problem, c.reason) for c in (*found.gained, *found.lost)] == [("B", "absent"), ("A", "absent")]
    other = diff(make({"row": 5, "tokens": 9}), make({"tokens": 9}))
    assert [(c.problem, c.reason) for c in other.changed] == [("A", "absent")]


def test_more_kept_traces_of_a_problem_are_a_change_without_a_drop() -> None:
    found = diff(marked(PAIR, Rules(max_tokens=15)), marked(PAIR, Rules(policy="all", max_tokens=25)))
    assert [(c.problem, c.reason, c.tokens_a, c.tokens_b) for c in found.changed] == [("A", None, 10, 30)]


def test_the_screen_of_a_difference() -> None:
    a, b = marked(PAIR, Rules(max_tokens=25)), marked(PAIR, Rules(max_tokens=40, policy="longest"))
    text = render_explain.diff(diff(a, b), a="out8", b="out\x1b9")
    lines = text.splitlines()
    assert lines[0] == "out\\x1b9 against out8: 1 problem gained, 0 lost, 1 with another trace, 1 the same."
    assert "  problems kept     2         3" in lines
    assert "       1  over the bound" in lines
    assert "          B: none -> 30 tokens, over the bound" in lines
    assert "          A: 10 -> 20 tokens, another fitting one chosen" in lines


def test_estimates_are_said_where_their_upper_end_may_have_decided() -> None:
    a = marked(make({"tokens": 20, "tokens_high": 28}), Rules(max_tokens=25, high=True))
    b = marked(make({"tokens": 20, "tokens_high": 28}), Rules(max_tokens=30, high=True))
    assert render_explain.diff(diff(a, b), a="a", b="b").endswith("over it when the upper end of its estimate is.")
    assert diff(a, b).json()["estimated"] is True
    assert diff(PAIR, PAIR).json()["estimated"] is False


def test_empty_runs_compare() -> None:
    nothing = make()
    assert diff(nothing, nothing).json()["same"] == 0
    assert diff(nothing, make({})).gained[0].reason == "absent"
