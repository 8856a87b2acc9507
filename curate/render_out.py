"""How an output looks: the screens of ``count``, ``select`` and ``check``. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curate.ledger import REASONS, Meta
from curate.plain import millions, n, percent, plural, table, wrap
from curate.said import REASON, counted_by, percentiles
from curate.selection import Rules


def counted(facts: Mapping[str, Any], meta: Meta, out: Path) -> str:
    """The screen of ``curate count``."""
    t = facts["tokens"]
    lines = wrap(
        f"{n(facts['traces'])} traces of {n(facts['problems'])} problems counted: {millions(t['total'])} tokens, written to {out}."
    )
    if t["counted"]:
        lines.append("  " + percentiles(facts))
    lines += ["", *wrap("Tokens: " + counted_by(meta)), f"Next: curate yield {out}"]
    return "\n".join(lines)


def selection(
    facts: Mapping[str, Any], written: Any, meta: Meta, rules: Rules, *, trainer: str | None = None, thinking: int | None = None
) -> str:
    """The screen of ``curate select``; ``trainer`` is a trainer's one line of configuration for these rows, ``thinking`` how many
    of the kept traces think."""
    out, kept, bound = facts["out"], facts["kept"], rules.max_tokens
    one = ", one passing trace each" if rules.policy != "all" else ""
    if not kept:
        lines = wrap(f"Nothing was kept: {out}/ holds zero rows, with their schema. The reasons stand below.")
    else:
        lines = wrap(
            f"Ready: {out}/ holds {plural(facts['problems_kept'], 'problem')}{one}, {plural(kept, 'trace')}, "
            f"{millions(facts['tokens_kept'])} tokens, none cut."
        )
    if thinking is not None and thinking < kept:
        lines += wrap(
            f"Of them {n(thinking)} think: choosing the shortest favours traces without reasoning. --thinking required keeps these alone."
        )
    lost = facts["problems"] - facts["problems_kept"]
    if lost:
        within = f" within {n(bound)} tokens" if bound else ""
        lines += wrap(f"Lost: {plural(lost, 'problem')} with no passing trace{within}.")
    rows = [["traces", "count", "problems lost"], [REASON["kept"], n(kept), ""]]
    for reason in reversed(REASONS):
        if facts["dropped"][reason]:
            said = f"over {n(bound)}, dropped whole" if reason == "over_length" and bound else REASON[reason]
            rows.append([said, n(facts["dropped"][reason]), n(facts["problems_lost"].get(reason, 0))])
    rows.append(["total read", n(facts["traces"]), n(lost)])
    lines += ["", *table(rows), "", *_easier(written.manifest["yield"], bound)]
    if written.rewritten:
        lines += wrap(
            f"messages rewritten in {plural(written.rewritten, 'row')}: the source's own held another trace than the chosen one."
        )
    lines += wrap("Tokens: " + counted_by(meta))
    if rules.high and bound and meta.tokens.get("high", 1.0) > 1.0:
        lines += wrap("A trace was kept where the upper end of its estimate fits, so fewer are here than `yield` shows.")
    if trainer:
        lines.append(f"TRL: {trainer}   (curate check {out} --trainer trl --max-length {bound})")
    lines.append(f"Test memory first with the longest rows: {out}/longest.parquet")
    if kept:
        lines += [f'Next  load_dataset("{out}")', f"      curate yield {out}", f"      curate push {out} ORG/NAME"]
    return "\n".join(lines)


def _easier(made: Mapping[str, Any], bound: int | None) -> list[str]:
    """What the bound did to the difficulty of the set, where difficulty is known."""
    skew = next((b["skew"] for b in made["bounds"] if b["max_tokens"] == bound), None)
    if not skew or len(skew["bands"]) < 2 or skew["kept_median"] is None:
        return []
    share = skew["hard_share"]
    return wrap(
        f"Difficulty: median {skew['kept_median']:,g} of the kept problems, {skew['all_median']:,g} of all with a passing trace; the hardest "
        f"({skew['bands'][-1]['label']}) are {percent(share['kept'])} of the rated ones instead of {percent(share['with_passing'])}."
    )


def checked(facts: Mapping[str, Any], out: Path) -> str:
    """The screen of ``curate check``."""
    sound = all(c["ok"] for c in facts["checks"])
    proof = facts["trainer"]
    but = f", but {proof['trainer']} is not proved to take it whole" if sound and proof and not proof["proved"] else ""
    lines = [f"{out} is {'sound' if sound else 'not sound'}{but}.", ""]
    for c in facts["checks"]:
        lines += wrap(f"  {'ok ' if c['ok'] else 'NO '} {c['what']}" + (f": {c['fault']}" if c["fault"] else ""), indent="      ")
    if proof:
        said = "takes every row whole" if proof["proved"] else "is not proved to take every row whole"
        if proof["over"]:
            said = f"would not take {n(proof['over'])} of {n(proof['rows'])} rows whole"
        lines += [
            "",
            *wrap(f"{proof['trainer']} at {n(proof['max_length'])} {said} (longest {n(proof['longest'])}). {proof['because']}"),
        ]
        lines += [line for f in (*proof["faults"], *proof["notes"]) for line in wrap(f"  {f}", indent="    ")]
        if proof["line"] and proof["proved"]:
            lines += ["", f"  {proof['line']}"]
    return "\n".join(lines)
