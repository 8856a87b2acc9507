"""Sentences that several screens say: how tokens were counted, what stands behind a verdict, what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curate.ledger import Meta
from curate.plain import n, plural, safe, wrap

REASON = {
    "kept": "kept",
    "not_chosen": "another fitting one chosen",
    "over_length": "over the bound",
    "not_passing": "failed or not checked",
    "no_thinking": "no thinking",
    "unfinished": "cut off or unfinished",
    "no_problem": "no problem id",
    "bad_row": "no text, or lists that do not line up",
}
"""Why a trace is not in the set, in a few words."""


def rows_of(facts: Mapping[str, Any]) -> str:
    return plural(facts["rows"], "row")


def synthetic(meta: Meta) -> list[str]:
    return [line for s in meta.sources if s.get("synthetic") for line in wrap(f"{safe(s['name'])}: {safe(s['synthetic'])}")]


def altered_by(altered: int, traces: int) -> list[str]:
    if not altered:
        return []
    text = (
        f"STOP  This chat template drops or changes a part of {n(altered)} of {n(traces)} traces: a trainer would see what is "
        "counted here, not the whole traces. Use --chat-template FILE with a training version (TRL and open-r1 publish such), "
        "or count the trace alone with --count trace."
    )
    return [*wrap(text, indent="      "), ""]


def counted_out(meta: Meta) -> list[str]:
    lines = []
    for s in meta.sources:
        if s.get("finish"):
            told = ", ".join(f"{safe(k)} {n(v)}" for k, v in list(s["finish"].items())[:5])
            lines += wrap(f"Finish: values that mean cut off in {safe(s['name'])}: {told}.")
        if s.get("excluded_rows"):
            lines += wrap(f"Where: {n(s['excluded_rows'])} of {n(s['rows'])} rows of {safe(s['name'])} left out by --where.")
        if s.get("bad_lines"):
            lines += wrap(
                f"Bad lines: {len(s['bad_lines'])} left out of {safe(s['name'])}: {'; '.join(safe(b) for b in s['bad_lines'][:3])}."
            )
    return lines


def counted_by(meta: Meta) -> str:
    """How tokens were counted, in a sentence."""
    t = meta.tokens
    what = "the trace alone" if t.get("count") == "trace" else "the whole sample"
    if t.get("basis") == "exact":
        return f"exact, {what}, by {safe(t.get('by'))}."
    if t.get("basis") == "column":
        return f"the publisher's count in {safe(t.get('by'))}, taken at its word."
    rule = safe(t.get("by"))
    if t.get("low") == t.get("high") == 1.0:
        return f"{rule} over {what}, an old rule and unchecked here: true lengths differ by text. --tokenizer counts exactly."
    return f"estimated over {what} ({rule}); true totals lie within {t.get('low'):.2f} to {t.get('high'):.2f} times of it in 95 % of sources. --tokenizer counts exactly."


def percentiles(facts: Mapping[str, Any]) -> str:
    """Lengths of all traces up to the share that ended by itself: a trace that was cut is longer than its length."""
    tokens, cut = facts["tokens"], facts["unfinished"]
    known = [q for q in (50, 90, 99) if not cut or q / 100 <= 1 - cut / max(1, facts["traces"])]
    shown = [f"{q} % within {n(tokens[f'p{q}'])}" for q in known] + [f"longest {n(tokens['max'])}"]
    rest = f" (at least: {n(cut)} were cut off or never ended)" if cut else ""
    return ", ".join(shown) + rest


def passing_by(passing: Mapping[str, Any], *, unverified: bool) -> str:
    """What stands behind a verdict, in a sentence."""
    basis = passing["basis"]
    counts = f"{n(passing['passed'])} true, {n(passing['failed'])} false, {n(passing['unknown'])} unknown"
    if basis == "none" or unverified:
        return "unknown: no trace has a verdict, so every finished trace counts here. `curate select` wants --passing finished for that."
    said = {
        "verdict": "the data's own verdicts",
        "judge": "a model's judgement",
        "verified": "verdicts computed by `curate verify`",
        "prefiltered": "the publisher kept only passing traces",
        "proxy": "a stand-in for a verdict, no verdict",
        "mixed": "verdicts of several kinds",
    }
    return f"{said.get(basis, basis)}: {counts}."
