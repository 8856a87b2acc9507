"""How results look on a terminal: the decision first, the table second, caveats last. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from curate.ledger import REASONS, Meta
from curate.plain import millions, n, percent, plural, safe, wrap
from curate.plain import table as table_of
from curate.selection import Rules
from curate.yields import Bound, Yield

SAID = {
    "kept": "kept",
    "not_chosen": "another fitting one chosen",
    "over_length": "over the bound",
    "not_passing": "failed or not checked",
    "no_thinking": "no thinking",
    "unfinished": "cut off or unfinished",
    "no_problem": "no problem id",
    "bad_row": "no text, or lists that do not line up",
}


def yields(
    made: Yield,
    meta: Meta,
    *,
    groups: Mapping[str, Yield] | None = None,
    by: str | None = None,
    bars: bool = False,
    beside: Mapping[str, Any] | None = None,
) -> str:
    """The screen of ``curate yield``."""
    beside = beside or {}
    if not made.facts["traces"]:
        return "\n".join([f"0 traces in {_rows(made.facts)}: there is nothing to count.", *_basis(made, meta)])
    altered = beside.get("render_altered", 0)
    lines = [*_synthetic(meta), *_altered(altered, made.facts["traces"]), *_decision(made), *_ceiling(made, meta), ""]
    lines += _bounds(made, bars=bars)
    lines += _needed(made)
    if made.bounds and made.bounds[0].skew is not None:
        lines += ["", *_skew(made)]
    for name, group in (groups or {}).items():
        lines += [
            "",
            f"{by} = {safe(name)}: {n(group.with_passing)} problems with a passing trace, {n(group.facts['traces'])} traces",
        ]
        lines += _bounds(group, bars=bars)
    lines += _old_rule(beside.get("old_rule"))
    lines += ["", *_funnel(made), *_basis(made, meta)]
    return "\n".join(lines)


def _altered(altered: int, traces: int) -> list[str]:
    if not altered:
        return []
    text = (
        f"STOP  This chat template drops or changes a part of {n(altered)} of {n(traces)} traces: a trainer would see what is "
        "counted here, not the whole traces. Use --chat-template FILE with a training version (TRL and open-r1 publish such), "
        "or count the trace alone with --count trace."
    )
    return [*wrap(text, indent="      "), ""]


def _old_rule(rows: Sequence[Mapping[str, Any]] | None) -> list[str]:
    if not rows:
        return []
    head = ["max tokens", "kept by the old rule", "of them over the bound", "dropped though they fit"]
    cells = [[n(r["max_tokens"]), n(r["kept"]), n(r["over"]), n(r["lost"])] for r in rows]
    return ["", "The old rule beside the exact count, in traces:", *table_of([head, *cells], left=0)]


def _rows(facts: Mapping[str, Any]) -> str:
    return plural(facts["rows"], "row")


def _synthetic(meta: Meta) -> list[str]:
    return [line for s in meta.sources if s.get("synthetic") for line in wrap(f"{safe(s['name'])}: {safe(s['synthetic'])}")]


def headline(made: Yield) -> Bound:
    """The bound that the first sentence speaks of: 8,192 where it is shown, else the one that keeps nearest to half."""
    real = [b for b in made.bounds if b.max_tokens is not None]
    if not real:
        return made.bounds[-1]
    asked = next((b for b in real if b.max_tokens == 8192), None)
    return asked or min(real, key=lambda b: abs(2 * b.problems.shortest - made.with_passing))


def _decision(made: Yield) -> list[str]:
    bound, all_ = headline(made), made.with_passing
    what = "a finished trace" if made.unverified else "a passing trace"
    if not all_:
        return wrap(f"No problem has {what}: {n(made.problems)} problems, {n(made.facts['traces'])} traces. See the reasons below.")
    if bound.max_tokens is None:
        said = f"All {n(all_)} problems with {what} are kept without a bound; no standard bound matters here."
        return wrap(said) + _choice(made, bound)
    reach = f"{n(bound.max_tokens)} tokens reach {n(bound.problems.shortest)} of {n(all_)} problems with {what} ({percent(bound.problems.shortest, all_)})"
    skew = bound.skew
    if skew and len(skew.bands) > 1:
        easy, hard = skew.bands[0], skew.bands[-1]
        reach += f": {percent(easy.kept, easy.with_passing)} of the easiest ({easy.label}), {percent(hard.kept, hard.with_passing)} of the hardest ({hard.label})"
    lines = wrap(reach + ".")
    if made.needed_hardest and skew and len(skew.bands) > 1:
        label, need = made.needed_hardest
        lines += wrap(f"Half of the hardest ({label}) that can be kept needs {n(need)} tokens.")
    return lines + _choice(made, bound)


def _ceiling(made: Yield, meta: Meta) -> list[str]:
    """Where further traces of the same problems are, when there is nothing to choose from."""
    siblings = list(dict.fromkeys(x for s in meta.sources for x in s.get("siblings", ())))
    names = {s.get("preset") for s in meta.sources}
    more = [x for x in siblings if x not in names]
    if made.can_choose or not more:
        return []
    hinted = " (made from prompts that held the editorial)" if all("editorial" in x for x in more) else ""
    return wrap(f"More traces of the same problems: pool with {', '.join(more)}{hinted}.")


def _choice(made: Yield, bound: Bound) -> list[str]:
    if set(made.facts["traces_per_problem"]) == {"1"}:
        return ["Choosing gains nothing: every problem has one trace, so shortest is first."]
    if not made.can_choose:
        return ["Choosing gains nothing: no problem has two passing traces, so shortest is first."]
    if bound.max_tokens is None or not (round(bound.lost_average) or bound.lost_first):
        return []
    return wrap(
        f"Drop long traces first, then choose: choosing first loses {n(bound.lost_average)} of these problems on average over picks, "
        f"{n(bound.lost_first)} by the file's own order. After the drop, the choice changes the tokens, not the problems."
    )


def _bounds(made: Yield, *, bars: bool) -> list[str]:
    total = made.with_passing
    what = "finished" if made.unverified else "passing"
    groups: list[tuple[str, list[tuple[str, Callable[[Bound], str]]]]] = [
        ("max", [("tokens", lambda b: n(b.max_tokens) if b.max_tokens else "all")]),
        (
            f"problems with a {what}",
            [("trace that fits", lambda b: n(b.problems.shortest)), ("", lambda b: percent(b.problems.shortest, total))],
        ),
    ]
    if bars:
        groups.append(("", [("", lambda b: ("#" * round(10 * b.problems.shortest / max(1, total))).ljust(10))]))
    if any(b.fewest and b.fewest != b.most for b in made.bounds):
        groups.append(("range of", [("the estimate", _range)]))
    if any(b.interval for b in made.bounds):
        groups.append(("share of all", [("problems, 95 %", _interval)]))
    groups.append(("traces", [("that fit", lambda b: n(b.traces))]))
    if made.can_choose:
        lost = [("average", lambda b: n(b.lost_average)), ("file order", lambda b: n(b.lost_first))]
        tokens = [
            ("shortest", lambda b: millions(b.train_shortest)),
            ("random", lambda b: millions(b.train_random)),
            ("longest", lambda b: millions(b.train_longest)),
        ]
        groups += [("lost if chosen first*", lost), ("tokens, choosing the", tokens)]
    columns = [column for _, part in groups for column in part]
    rows = [[title for title, _ in columns], *([cell(b) for _, cell in columns] for b in made.bounds)]
    lines = spanned([(title, len(part)) for title, part in groups], rows)
    if made.can_choose:
        lines.append("  * problems lost when the choice comes before the drop: averaged over picks, and by the file's own order")
    return lines


def spanned(groups: Sequence[tuple[str, int]], rows: list[list[str]]) -> list[str]:
    """A table under titles that each stand over so many of its columns, which are widened where a title needs it."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    above, at = "", 0
    for title, count in groups:
        width = sum(widths[at : at + count]) + 2 * (count - 1)
        widths[at] += max(0, len(title) - width)
        above += "  " + title.rjust(max(width, len(title)))
        at += count
    rows[0] = [cell.rjust(width) for cell, width in zip(rows[0], widths, strict=True)]
    return [above.rstrip(), *table_of(rows, left=0)]


def _range(bound: Bound) -> str:
    if not (bound.fewest and bound.most and bound.max_tokens):
        return ""
    return f"{n(bound.fewest.shortest)}-{n(bound.most.shortest)}"


def _interval(bound: Bound) -> str:
    return "-".join(percent(end) for end in bound.interval) if bound.interval else ""


def _needed(made: Yield) -> list[str]:
    if made.needed.get("50") is None:
        return []
    half, most, nearly = (n(made.needed[k]) for k in ("50", "90", "99"))
    return wrap(f"  Half of the problems need {half} tokens, 90 % need {most}, 99 % need {nearly}.", indent="  ")


def _skew(made: Yield) -> list[str]:
    skews = [(b, b.skew) for b in made.bounds if b.skew]
    first = skews[-1][1]
    labels = [band.label for band in first.bands]
    loose = first.unrated.problems > 0
    lines = [
        "Kept of each difficulty band, easy to hard, of its problems with a passing trace; share of the hardest band in the set:"
    ]
    head = ["tokens", *labels, *(["unrated"] if loose else []), "hardest in set"]
    rows = [
        [
            n(b.max_tokens) if b.max_tokens else "all",
            *(percent(band.kept, band.with_passing) for band in s.bands),
            *([percent(s.unrated.kept, s.unrated.with_passing)] if loose else []),
            percent(s.hard_share_kept),
        ]
        for b, s in skews
    ]
    sizes = ["problems", *(n(band.problems) for band in first.bands), *([n(first.unrated.problems)] if loose else []), ""]
    able = [
        "with passing",
        *(n(band.with_passing) for band in first.bands),
        *([n(first.unrated.with_passing)] if loose else []),
        "",
    ]
    lines += table_of([head, *rows, sizes, able], left=1)
    if made.difficulty_conflicts:
        lines += wrap(
            f"  {plural(made.difficulty_conflicts, 'problem')} with traces of different difficulty: the earliest given counts."
        )
    return lines


def _funnel(made: Yield) -> list[str]:
    f = made.funnel
    what = "finished" if made.unverified else "passing"
    parts = [f"{n(f['passing'])} {what}"]
    names = {
        "failed": "failed",
        "unfinished": "cut off or unfinished",
        "unknown": "not checked",
        "no_thinking": "without thinking",
        "no_problem": "without a problem id",
        "bad_row": "without text",
    }
    parts += [f"{n(f[k])} {word}" for k, word in names.items() if f.get(k)]
    lines = wrap(f"Traces   {n(made.facts['traces'])} read = " + " + ".join(parts), indent="         ")
    lines += wrap(_choices(made.choices), indent="         ") if made.can_choose else []
    tokens = made.facts["tokens"]
    shown = [(q, tokens[f"p{q}"]) for q in (50, 90, 99) if made.censored_above is None or q / 100 <= made.censored_above]
    if f.get("unfinished"):
        cut = f"{n(f['unfinished'])} were cut off or never ended: their lengths are at least this, so no percentile above {percent(made.censored_above)} is given."
    else:
        cut = ""
    if shown:
        told = ", ".join(f"{q} % within {n(v)}" for q, v in shown)
        lines += wrap(f"Lengths  of all traces: {told}, longest {n(tokens['max'])}. {cut}".rstrip(), indent="         ")
    elif cut:
        lines += wrap(f"Lengths  {cut}", indent="         ")
    return lines


def _choices(choices: Mapping[str, int]) -> str:
    total = sum(choices.values())
    parts = [f"{k} in {percent(v, total)}" for k, v in list(choices.items())[:4]]
    more = sum(list(choices.values())[4:])
    return "Choice   passing traces per problem: " + ", ".join(parts) + (f", more in {percent(more, total)}" if more else "") + "."


def _basis(made: Yield, meta: Meta) -> list[str]:
    lines = ["", *wrap("Tokens: " + counted_by(meta))]
    lines += wrap("Passing: " + passing_by(made.facts["passing"], unverified=made.unverified))
    for t in made.thinking:
        if t.decision == "mixed":
            lines += wrap(
                f"Thinking: {n(t.thinking)} of {n(t.traces)} traces of {safe(t.name)} think, so it is not required here. "
                "--thinking required or optional decides; `select` asks for it."
            )
    lines += _counted_out(meta)
    return lines


def _counted_out(meta: Meta) -> list[str]:
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


def counted(facts: Mapping[str, Any], meta: Meta, out: Path) -> str:
    """The screen of ``curate count``."""
    t = facts["tokens"]
    lines = wrap(
        f"{n(facts['traces'])} traces of {n(facts['problems'])} problems counted: {millions(t['total'])} tokens, written to {out}."
    )
    if t["counted"]:
        lines.append(f"  half within {n(t['p50'])}, 90 % within {n(t['p90'])}, 99 % within {n(t['p99'])}, longest {n(t['max'])}")
    lines += ["", *wrap("Tokens: " + counted_by(meta)), f"Next: curate yield {out}"]
    return "\n".join(lines)


def selection(facts: Mapping[str, Any], written: Any, meta: Meta, rules: Rules, *, trainer: str | None = None) -> str:
    """The screen of ``curate select``; ``trainer`` is a trainer's one line of configuration for these rows."""
    out, kept, bound = facts["out"], facts["kept"], rules.max_tokens
    one = ", one passing trace each" if rules.policy != "all" else ""
    lines = wrap(
        f"Ready: {out}/ holds {plural(facts['problems_kept'], 'problem')}{one}, {plural(kept, 'trace')}, "
        f"{millions(facts['tokens_kept'])} tokens, none cut."
    )
    lost = facts["problems"] - facts["problems_kept"]
    if lost:
        within = f" within {n(bound)} tokens" if bound else ""
        lines += wrap(f"Lost: {plural(lost, 'problem')} with no passing trace{within}.")
    rows = [["traces", "count", "problems lost"], [SAID["kept"], n(kept), ""]]
    for reason in reversed(REASONS):
        if facts["dropped"][reason]:
            said = f"over {n(bound)}, dropped whole" if reason == "over_length" and bound else SAID[reason]
            rows.append([said, n(facts["dropped"][reason]), n(facts["problems_lost"].get(reason, 0))])
    rows.append(["total read", n(facts["traces"]), n(lost)])
    lines += ["", *table_of(rows), "", *_easier(written.manifest["yield"], bound)]
    if written.rewritten:
        lines += wrap(
            f"messages rewritten in {plural(written.rewritten, 'row')}: the source's own held another trace than the chosen one."
        )
    lines += wrap("Tokens: " + counted_by(meta))
    if trainer:
        lines.append(f"TRL: {trainer}   (curate check {out} --trainer trl --max-length {bound})")
    lines.append(f"Test memory first with the longest rows: {out}/longest.parquet")
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
        f"({skew['bands'][-1]['label']}) are {percent(share['kept'])} of the set instead of {percent(share['with_passing'])}."
    )


def inspection(facts: Mapping[str, Any], meta: Meta, *, spec: str) -> str:
    """The screen of ``curate inspect``: what is wrong first, then what it is."""
    lines = [*_synthetic(meta), *_warnings(facts, meta), ""]
    for label, text in _described(facts, meta):
        lines += [("  " + label.ljust(13) if i == 0 else " " * 15) + line for i, line in enumerate(wrap(text, width=85))]
    lines += ["", *wrap("Tokens: " + counted_by(meta)), *_counted_out(meta)]
    steps = [f"curate yield {spec}", f"curate inspect {spec} --show 3"]
    if facts["passing"]["basis"] in ("none", "proxy") and any(s.get("tests") for s in meta.sources):
        steps.insert(1, f"curate verify {spec} -o verdicts.parquet")
    return "\n".join([*lines, "", *(("Next  " if i == 0 else "      ") + step for i, step in enumerate(steps))])


def _described(facts: Mapping[str, Any], meta: Meta) -> list[tuple[str, str]]:
    t, s, d = facts["tokens"], facts["structure"], facts["difficulty"]
    per = facts["traces_per_problem"]
    shown = ", ".join(f"{k} in {n(v)}" for k, v in list(per.items())[:6]) + (", ..." if len(per) > 6 else "")
    whole = facts["traces"] - facts["unfinished"] - facts["bad_rows"]
    thinking = facts["traces"] - facts["without_thinking"] - facts["bad_rows"]
    rows = [
        ("traces", f"{n(facts['traces'])} in {_rows(facts)}"),
        ("problems", f"{n(facts['problems'])}; traces per problem: {shown or '-'}"),
        ("finished", f"{n(whole)}; {n(facts['unfinished'])} cut off or unfinished"),
        (
            "reasoning",
            f"{n(thinking)} think; {n(s['complete'])} closed with an answer behind it; {n(s['opening_missing'])} without an "
            f"opening mark; {n(s['malformed'])} malformed; {n(s['control_text'])} with chat control tokens in the text",
        ),
        ("passing", passing_by(facts["passing"], unverified=facts["passing"]["basis"] == "none")),
        ("difficulty", f"{n(d['rated'])} traces rated, {n(d['unrated'])} unrated" if d["rated"] else "none"),
        ("length", f"half {n(t['p50'])} / 90 % {n(t['p90'])} / 99 % {n(t['p99'])} / longest {n(t['max'])} tokens"),
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
    out = _altered(facts["structure"]["render_altered"], facts["traces"])
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
        notes.append("Nobody has checked which traces pass.")
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
    if facts["bad_rows"]:
        notes.append(f"{plural(facts['bad_rows'], 'row')} without text, with lists that do not line up, or not readable.")
    if facts["rows_without_problem"]:
        notes.append(f"{plural(facts['rows_without_problem'], 'row')} without a problem id.")
    out += [line for note in notes for line in wrap("NOTE  " + note, indent="      ")]
    return out or ["Nothing wrong was found."]


def trace(fact: Mapping[str, Any], prompt: str, text: str) -> str:
    """One trace to read: what is known of it, its prompt, and all of its text."""
    verdict = {True: "passed", False: "failed", None: "not checked"}[fact["passed"]]
    ended = "finished" if fact["finished"] else "cut off or unfinished"
    head = (
        f"problem {safe(fact['problem'])}, row {fact['row']}, item {fact['item']}: {n(fact['tokens'])} tokens, {verdict}, {ended}"
    )
    body = "\n".join(safe(line) for line in f"{prompt}\n{'-' * 40}\n{text}".replace("\r\n", "\n").split("\n"))
    return f"{'=' * 100}\n{head}\n{'=' * 100}\n{body}\n\n"


def judged(facts: Mapping[str, Any], table: pl.DataFrame, sources: Sequence[str]) -> str:
    """The screen of ``curate verify``."""
    found = facts["verdicts"]
    known = facts["traces"] - found["unverifiable"]
    lines = wrap(
        f"{n(found['passed'])} of {n(known)} judged traces pass ({percent(found['passed'], known)}); "
        f"{n(found['unverifiable'])} could not be judged."
    )
    lines += ["", *table_of([[name, n(count)] for name, count in found.items() if count])]
    few = table.filter((pl.col("verdict") == "passed") & (pl.col("tests") <= 2)).height
    if few:
        lines += ["", f"{plural(few, 'pass', 'passes')} on one or two tests only: --min-tests 3 leaves them out."]
    return "\n".join([*lines, "", f"Next: curate select {' '.join(sources)} --shortest --verdicts {facts['out']}"])


def known(records: Sequence[Mapping[str, str]]) -> str:
    """The screen of ``curate sources``."""
    head = ["name", "source", "rows", "passing", "difficulty", "licence"]
    return "\n".join(table_of([head, *([r[h] for h in head] for r in records)], left=6)) + "\n\nMore of one: curate sources NAME"


def known_one(facts: Mapping[str, Any]) -> str:
    """What is known of one data set."""
    lines = [f"{facts['name']}: {facts['where']}, {facts['rows'] or 'rows not stated'}, {facts['licence']}", ""]
    lines += table_of([[role, safe(text)] for role, text in facts["columns"].items()], left=2)
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


def checked(facts: Mapping[str, Any], out: Path) -> str:
    """The screen of ``curate check``."""
    sound = all(c["ok"] for c in facts["checks"])
    lines = [f"{out} is {'sound' if sound else 'not sound'}.", ""]
    for c in facts["checks"]:
        lines += wrap(f"  {'ok ' if c['ok'] else 'NO '} {c['what']}" + (f": {c['fault']}" if c["fault"] else ""), indent="      ")
    proof = facts["trainer"]
    if proof:
        said = "takes every row whole" if proof["proved"] else "is not proved to take every row whole"
        if proof["over"]:
            said = f"would not take {n(proof['over'])} of {n(proof['rows'])} rows whole"
        lines += [
            "",
            *wrap(f"{proof['trainer']} at {n(proof['max_length'])} {said} (longest {n(proof['longest'])}). {proof['because']}"),
        ]
        lines += [line for f in (*proof["faults"], *proof["notes"]) for line in wrap(f"  {f}", indent="    ")]
        if proof["line"]:
            lines += ["", f"  {proof['line']}"]
    return "\n".join(lines)
