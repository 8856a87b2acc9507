"""How data look: the screens of ``inspect``, ``verify``, ``sources`` and ``cache``. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from curate.ledger import Meta
from curate.plain import n, percent, plural, safe, table, wrap
from curate.said import altered_by, counted_by, counted_out, passing_by, percentiles, rows_of, synthetic


def inspection(facts: Mapping[str, Any], meta: Meta, *, spec: str) -> str:
    """The screen of ``curate inspect``: what is wrong first, then what it is."""
    lines = [*synthetic(meta), *_warnings(facts, meta), ""]
    for label, text in _described(facts, meta):
        lines += [("  " + label.ljust(13) if i == 0 else " " * 15) + line for i, line in enumerate(wrap(text, width=85))]
    lines += ["", *wrap("Tokens: " + counted_by(meta)), *counted_out(meta)]
    steps = [f"curate yield {spec}", f"curate inspect {spec} --show 3"]
    if facts["passing"]["basis"] in ("none", "proxy") and any(s.get("tests") for s in meta.sources):
        steps.insert(1, f"curate verify {spec} -o verdicts.parquet")
    return "\n".join([*lines, "", *(("Next  " if i == 0 else "      ") + step for i, step in enumerate(steps))])


def _described(facts: Mapping[str, Any], meta: Meta) -> list[tuple[str, str]]:
    s, d = facts["structure"], facts["difficulty"]
    per = facts["traces_per_problem"]
    shown = ", ".join(f"{k} in {n(v)}" for k, v in list(per.items())[:6]) + (", ..." if len(per) > 6 else "")
    whole = facts["traces"] - facts["unfinished"] - facts["bad_rows"]
    thinking = facts["traces"] - facts["without_thinking"] - facts["bad_rows"]
    rows = [
        ("traces", f"{n(facts['traces'])} in {rows_of(facts)}"),
        ("problems", f"{n(facts['problems'])}; traces per problem: {shown or '-'}"),
        ("finished", f"{n(whole)}; {n(facts['unfinished'])} cut off or unfinished"),
        (
            "reasoning",
            f"{n(thinking)} think; {n(s['complete'])} closed with an answer behind it; {n(s['opening_missing'])} without an "
            f"opening mark; {n(s['malformed'])} malformed; {n(s['control_text'])} with chat control tokens in the text",
        ),
        ("passing", passing_by(facts["passing"], unverified=facts["passing"]["basis"] == "none")),
        ("difficulty", f"{n(d['rated'])} traces rated, {n(d['unrated'])} unrated" if d["rated"] else "none"),
        ("length", percentiles(facts)),
    ]
    parts = {k: v for k, v in facts["lengths"].items() if v and v["p50"] is not None}
    if parts:
        rows.append(("  of it", ", ".join(f"{k} {n(v['p50'])}" for k, v in parts.items()) + " (medians)"))
    own = next((s for s in meta.sources if s.get("own_tokens")), None)
    if own:
        rows.append(
            ("own count", f"{safe(own['own_tokens'])} ({safe(own.get('own_tokens_by', 'by the publisher'))}); --tokens uses it")
        )
    rows += _looked(facts)
    for source in meta.sources:
        rows.append(
            ("columns", safe(source["name"]) + ": " + ", ".join(f"{safe(k)} = {safe(v)}" for k, v in source["mapping"].items()))
        )
        known = [safe(x) for x in (source.get("licence"), source.get("revision") and f"revision {source['revision'][:12]}") if x]
        rows += [("licence", ", ".join(known))] if known else []
    return rows


def _looked(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was found by looking into the text."""
    rows = []
    sample = facts.get("sample")
    if sample:
        of = "all" if sample["looked_at"] >= sample["of"] else "a random sample of"
        exact = facts["duplicates"]
        rows.append(
            ("copies", f"{n(exact)} exact of all; {n(sample['near_copies'])} near copies among {of} {n(sample['looked_at'])}")
        )
        rows.append(
            ("loops", f"{n(sample['loops'])} of {of} {n(sample['looked_at'])} end in a loop: the same 8 words over and over")
        )
    if facts.get("overlap"):
        o = facts["overlap"]
        rows.append(
            (
                "overlap",
                f"{n(o['sharing'])} of {n(o['problems'])} problems share {o['n']} words in a row with the benchmark; {n(o['most'])} hold most of an item",
            )
        )
    return rows


def _warnings(facts: Mapping[str, Any], meta: Meta) -> list[str]:
    """What is wrong, worst first; the template before everything, since nothing else matters when it deletes the reasoning."""
    out = altered_by(facts["structure"]["render_altered"], facts["traces"])
    template = facts.get("template")
    if template and not template["keeps_reasoning"]:
        out = wrap(f"STOP  {template['sentence']} {template['remedy'] or ''}", indent="      ")
        out += wrap(f"A trainer would see: {safe(template['sees'])}", indent="      ")
    elif template:
        out.append(f"OK    {template['sentence']}")
    notes = []
    if facts["traces"] and set(facts["traces_per_problem"]) == {"1"}:
        notes.append("One trace per problem: shortest is first.")
    ids = facts.get("ids")
    if ids and ids["suspect"]:
        notes.insert(
            0, f"The id numbers rows: {n(ids['ids'])} ids for {n(ids['prompts'])} prompts. Group by the prompt: --problem prompt."
        )
    siblings = list(dict.fromkeys(x for s in meta.sources for x in s.get("siblings", ())))
    if siblings and notes:
        notes.append(f"More traces of the same problems: {', '.join(siblings)}.")
    if facts["passing"]["basis"] == "none":
        maybe = list(dict.fromkeys(c for s in meta.sources for c in s.get("maybe_verdicts", ())))
        told = f" Columns that may hold verdicts: {', '.join(map(safe, maybe))} (--passed)." if maybe else ""
        notes.append("Nobody has checked which traces pass." + told)
    if facts["traces"] and facts["unfinished"] * 20 > facts["traces"]:
        notes.append(f"{percent(facts['unfinished'], facts['traces'])} of the traces are cut off or unfinished.")
    order = facts.get("order")
    if order and order["misleading"]:
        notes.append(
            f"The file is in an order: its first {order['head']} traces have a median of {n(order['head_median'])} tokens, all have "
            f"{n(order['median'])}. Use --sample, not the head."
        )
    quotes = facts.get("quotes")
    if quotes:
        notes.append(
            f"These traces were made from prompts that held the {quotes['hint']}: {n(quotes['quoting'])} of {n(quotes['looked_at'])} looked at quote it."
        )
    notes += _shape_notes(facts)
    if facts["bad_rows"]:
        notes.append(f"{plural(facts['bad_rows'], 'row')} without text, with lists that do not line up, or not readable.")
    if facts["rows_without_problem"]:
        notes.append(f"{plural(facts['rows_without_problem'], 'row')} without a problem id.")
    out += [line for note in notes for line in wrap("NOTE  " + note, indent="      ")]
    return out or ["Nothing wrong was found."]


def _shape_notes(facts: Mapping[str, Any]) -> list[str]:
    """What is odd in the shape of prompts and traces."""
    notes: list[str] = []
    shape = facts["structure"]
    if shape["prompt_rendered"]:
        notes.append(
            f"The prompts of {plural(shape['prompt_rendered'], 'trace')} hold a chat template's own tokens already: a trainer that renders "
            "them again trains on two templates. `select --format prompt-completion` writes plain text."
        )
    if shape["control_text"] * 20 > facts["traces"]:
        notes.append(
            f"{plural(shape['control_text'], 'trace')} hold chat control tokens in their text: perhaps another model's end marks."
        )
    if shape["text_before"]:
        notes.append(
            f"{plural(shape['text_before'], 'trace')} have text before the opening mark (the prompt once more?): some templates drop it."
        )
    return notes


def trace(fact: Mapping[str, Any], prompt: str, text: str) -> str:
    """One trace to read: what is known of it, its prompt, and all of its text."""
    verdict = {True: "passed", False: "failed", None: "not checked"}[fact["passed"]]
    ended = "finished" if fact["finished"] else "cut off or unfinished"
    head = (
        f"problem {safe(fact['problem'])}, row {fact['row']}, item {fact['item']}: {n(fact['tokens'])} tokens, {verdict}, {ended}"
    )
    body = "\n".join(safe(line) for line in f"{prompt}\n{'-' * 40}\n{text}".replace("\r\n", "\n").split("\n"))
    return f"{'=' * 100}\n{head}\n{'=' * 100}\n{body}\n\n"


def judged(facts: Mapping[str, Any], verdicts: pl.DataFrame, sources: Sequence[str]) -> str:
    """The screen of ``curate verify``."""
    found = facts["verdicts"]
    known = facts["traces"] - found["unverifiable"]
    lines = wrap(
        f"{n(found['passed'])} of {n(known)} judged traces pass ({percent(found['passed'], known)}); "
        f"{n(found['unverifiable'])} could not be judged."
    )
    lines += ["", *table([[name, n(count)] for name, count in found.items() if count])]
    few = verdicts.filter((pl.col("verdict") == "passed") & (pl.col("tests") <= 2)).height
    if few and facts["what"] == "code":
        lines += ["", f"{plural(few, 'pass', 'passes')} on one or two tests only: --min-tests 3 leaves them out."]
    return "\n".join([*lines, "", f"Next: curate select {' '.join(sources)} --shortest --verdicts {facts['out']}"])


def known(records: Sequence[Mapping[str, str]]) -> str:
    """The screen of ``curate sources``."""
    head = ["name", "source", "rows", "passing", "difficulty", "licence"]
    return "\n".join(table([head, *([r[h] for h in head] for r in records)], left=6)) + "\n\nMore of one: curate sources NAME"


def known_one(facts: Mapping[str, Any]) -> str:
    """What is known of one data set."""
    lines = [f"{facts['name']}: {facts['where']}, {facts['rows'] or 'rows not stated'}, {facts['licence']}", ""]
    lines += table([[role, safe(text)] for role, text in facts["columns"].items()], left=2)
    lines += [""]
    for note in facts["notes"]:
        lines += wrap(f"- {note}", indent="  ")
    if facts["siblings"]:
        lines += wrap(f"Pool with {', '.join(facts['siblings'])}: further traces of the same problems.")
    return "\n".join([*lines, "", f"Next: curate yield {facts['name']}"])


def kept(facts: Mapping[str, Any]) -> str:
    """The screen of ``curate cache``."""
    if facts["cleared"]:
        return f"{plural(facts['cleared'], 'file')} deleted from {facts['folder']}."
    return f"{facts['folder']} holds {plural(facts['entries'], 'reading')}, {facts['bytes'] / 1e6:,.1f} MB. --clear deletes them."
