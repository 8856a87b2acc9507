"""How a yield looks on a terminal: the decision first, the table second, caveats last. Pure: facts in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curate.ledger import Meta
from curate.plain import millions, n, percent, plural, safe, table, wrap
from curate.said import altered_by, counted_by, counted_out, passing_by, rows_of, synthetic
from curate.yields import Bound, Yield


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
        return "\n".join([f"0 traces in {rows_of(made.facts)}: there is nothing to count.", *_basis(made, meta)])
    altered = beside.get("render_altered", 0)
    lines = [*synthetic(meta), *altered_by(altered, made.facts["traces"]), *_decision(made), *_ceiling(made, meta), ""]
    lines += _bounds(made, bars=bars)
    lines += _needed(made)
    if made.bounds and made.bounds[0].skew is not None and len(made.bounds[0].skew.bands) > 1:
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


def _old_rule(rows: Sequence[Mapping[str, Any]] | None) -> list[str]:
    if not rows:
        return []
    head = ["max tokens", "kept by the old rule", "of them over the bound", "dropped though they fit"]
    cells = [[n(r["max_tokens"]), n(r["kept"]), n(r["over"]), n(r["lost"])] for r in rows]
    return ["", "The old rule beside the exact count, in traces:", *table([head, *cells], left=0)]


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
        said = f"{plural(all_, 'problem')} with {what}, all kept without a bound; no standard bound matters here."
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
    groups.append(("all traces", [("that fit", lambda b: n(b.traces))]))
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
    return [above.rstrip(), *table(rows, left=0)]


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
        "Kept of each difficulty band, easy to hard, of its problems with a passing trace; share of the hardest band in what is kept:"
    ]
    head = ["tokens", *labels, *(["unrated"] if loose else []), "hardest, of rated"]
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
    lines += table([head, *rows, sizes, able], left=1)
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
    lines += counted_out(meta)
    return lines
