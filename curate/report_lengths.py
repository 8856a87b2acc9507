"""Panels about lengths: what each bound keeps, how long the traces are, and which problems go."""

from __future__ import annotations

from collections.abc import Sequence

from curate import charts
from curate.plain import n, percent, plural
from curate.report_data import Data
from curate.report_panels import Column, Panel, Row, in_tokens, nothing, share_of, what

# --- what each length keeps -----------------------------------------------------------------------------------------------


def problems(data: Data) -> Panel:
    """Problems by the shortest, the first and the longest passing trace, against the bound."""
    made, word = data.made, what(data)
    if not made.with_passing:
        said = f"{plural(made.problems, 'problem')} and {plural(made.facts['traces'], 'trace')} were read; the last table says where each went."
        return nothing("problems", "yield", f"No problem has a {word}, so no length keeps any", said)
    choose = made.can_choose
    names = [("shortest", "shortest fits", "blue")]
    if choose:
        names += [("first", "first fits", "orange"), ("longest", "even longest fits", "green")]
    columns: list[Column] = [
        ("bound", "tokens", "n"),
        ("kept", f"problems with a {word} that fits", "n"),
        ("shortest", "of those that can be kept", "share"),
    ]
    if choose:
        columns += [
            ("kept_first", "by the first", "n"),
            ("first", "", "hide"),
            ("kept_longest", "by the longest", "n"),
            ("longest", "", "hide"),
        ]
    ranged = data.ends is not None
    if ranged:
        columns += [("fewest", "at least, 95 %", "n"), ("most", "at most, 95 %", "n")]
        columns += [(f"{f}_{end}", "", "hide") for f, _, _ in names for end in ("low", "high")]
    total = made.with_passing
    rows = []
    for bound in made.bounds[:-1]:
        p = bound.problems
        row: Row = [bound.max_tokens, p.shortest, share_of(p.shortest, total)]
        if choose:
            row += [p.first, share_of(p.first, total), p.longest, share_of(p.longest, total)]
        if ranged:
            low, high = bound.fewest or p, bound.most or p
            row += [low.shortest, high.shortest]
            row += [share_of(getattr(end, f), total) for f, _, _ in names for end in (low, high)]
        rows.append(row)
    tips = [
        (f, heading or {a: b for a, b, _ in names}.get(f, f), k) for f, heading, k in columns if not f.endswith(("_low", "_high"))
    ]
    chart = (
        charts.curve(
            names,
            tips,
            describe=f"Share of problems kept against the longest trace allowed, {len(rows)} bounds",
            band=ranged,
            marks=_marks(data),
        )
        if len(rows) > 1
        else None
    )
    return Panel(
        key="problems",
        part="yield",
        titles=[_half(data)],
        columns=columns,
        tables=[rows],
        chart=chart,
        note=_problems_note(data),
        legend=_legend(data),
    )


def _half(data: Data) -> str:
    needed, total = data.made.needed, plural(data.made.with_passing, "problem")
    if data.made.with_passing == 1:
        return f"The one problem that can be kept needs {n(needed['50'])} tokens"
    return f"Half of the {total} with a {what(data)} need {n(needed['50'])} tokens, 90 % need {n(needed['90'])} and 99 % need {n(needed['99'])}"


def reach(data: Data) -> str:
    """The decision at the bound that the report opens with."""
    if not data.stops:
        return problems(data).titles[0]
    i = data.at
    made, bound = data.made, data.made.bounds[i]
    kept, total = bound.problems.shortest, made.with_passing
    said = f"{in_tokens(data.stops[i])} reach {n(kept)} of {plural(total, 'problem')} with a {what(data)} ({percent(kept, total)})"
    lost = bound.lost_first
    return f"{said}; choosing before dropping loses {n(lost)} of them" if lost else said


def _problems_note(data: Data) -> str:
    made = data.made
    word = what(data)
    said = [f"A problem counts where its shortest, its first or its longest {word} fits."] if made.can_choose else []
    if not made.can_choose:
        said.append("No problem has two traces to choose from, so the shortest is the first.")
    return " ".join(said)


def _legend(data: Data) -> str:
    band = "Shaded: the 95 % range of the estimate of lengths." if data.ends is not None else ""
    return f"{band} {'Upright lines: lengths that are safe on a card.' if _marks(data) else ''}".strip()


def _marks(data: Data) -> list[tuple[str, float]]:
    """One line for each length within the plot: kernels of a card that hold equally much share it."""
    top = data.stops[-1]
    named: dict[tuple[str, int], list[str]] = {}
    for fit in data.fits:
        if data.stops[0] <= fit.safe <= top and fit.setup.attention == "flash":
            named.setdefault((fit.gpu.label, fit.safe), []).append(fit.setup.loss)
    return [(f"{card}, {' or '.join(losses)} loss", float(safe)) for (card, safe), losses in named.items()]


def amount(data: Data) -> Panel | None:
    """Traces and tokens within each bound, usable or not."""
    if not data.stops:
        return None
    count, total = data.made.facts["tokens"]["counted"], data.made.facts["tokens"]["total"]
    columns: list[Column] = [
        ("bound", "tokens", "n"),
        ("traces", "traces", "n"),
        ("of_traces", "of all traces", "share"),
        ("tokens", "tokens in them", "tokens"),
        ("of_tokens", "of all tokens", "share"),
    ]
    ranged = data.traces_range is not None and data.tokens_range is not None
    if ranged:
        columns += [("traces_low", "traces at least", "n"), ("traces_high", "traces at most", "n")]
        columns += [(f"of_{f}_{end}", "", "hide") for f in ("traces", "tokens") for end in ("low", "high")]
    rows = []
    for i, stop in enumerate(data.stops):
        row: Row = [stop, data.traces[i], share_of(data.traces[i], count), data.tokens[i], share_of(data.tokens[i], total)]
        if data.traces_range is not None and data.tokens_range is not None:
            row += [
                *data.traces_range[i],
                *(share_of(x, count) for x in data.traces_range[i]),
                *(share_of(x, total) for x in data.tokens_range[i]),
            ]
        rows.append(row)
    titles = [
        f"{percent(t, count)} of all traces lie within {in_tokens(s)}, and {percent(k, total)} of all tokens"
        for s, t, k in zip(data.stops, data.traces, data.tokens, strict=True)
    ]
    series = [("of_traces", "traces", "blue"), ("of_tokens", "tokens", "green")]
    tips = [c for c in columns if c[2] != "hide"]
    chart = (
        charts.curve(series, tips, describe="Share of traces and of tokens within each bound", band=ranged, height=200)
        if len(rows) > 1
        else None
    )
    return Panel(
        key="amount",
        part="yield",
        titles=titles,
        columns=columns,
        tables=[rows],
        chart=chart,
        note="Every trace with a length counts here, also those that fail or are unfinished.",
    )


# --- how long the traces are ------------------------------------------------------------------------------------------------


def lengths(data: Data) -> Panel | None:
    """Traces by length, unfinished ones apart."""
    made = data.made
    if not data.histogram:
        return nothing("lengths", "lengths", "No trace has a length", "Every trace read is blank or missing.")
    columns: list[Column] = [
        ("low", "from tokens", "n"),
        ("high", "to below", "n"),
        ("finished", "finished", "n"),
        ("unfinished", "cut off or unfinished", "n"),
    ]
    rows: list[Row] = [[b.low, b.high, b.finished, b.unfinished] for b in data.histogram]
    t, unfinished = made.facts["tokens"], made.facts["unfinished"]
    title = f"Half of the traces have at most {n(t['p50'])} tokens, one in ten more than {n(t['p90'])}"
    if t["counted"] == 1:
        title = f"The one trace has {in_tokens(t['max'])}"
    if unfinished:
        title += f"; {percent(unfinished, t['counted'])} are cut off or unfinished"
    note = "Who was cut off would have gone on: the true length of such a trace is unknown and longer." if unfinished else ""
    chart = (
        charts.histogram(columns, describe="Traces by length on a logarithmic axis, unfinished ones on top")
        if t["counted"] > 1
        else None
    )
    return Panel(key="lengths", part="lengths", titles=[title], columns=columns, tables=[rows], chart=chart, note=note)


def spreads(data: Data) -> Panel | None:
    """Lengths of finished traces by difficulty band."""
    if not data.spreads:
        return None
    columns: list[Column] = [
        ("label", "difficulty", "text"),
        ("traces", "finished traces", "n"),
        ("p10", "10 %", "n"),
        ("p25", "25 %", "n"),
        ("p50", "half", "n"),
        ("p75", "75 %", "n"),
        ("p90", "90 %", "n"),
    ]
    rows: list[Row] = [[s.label, s.traces, s.p10, s.p25, s.p50, s.p75, s.p90] for s in data.spreads]
    easy, hard = data.spreads[0], data.spreads[-1]
    if len(rows) > 1 and easy.p50:
        title = f"The median trace of the hardest problems has {hard.p50 / easy.p50:.1f} times the tokens of the easiest: {n(hard.p50)} against {n(easy.p50)}"
    else:
        title = f"All rated traces are of difficulty {easy.label}; their median is {n(easy.p50)} tokens"
    chart = charts.spreads(columns, describe="Quantiles of trace length for each difficulty band")
    return Panel(key="spreads", part="lengths", titles=[title], columns=columns, tables=[rows], chart=chart)


# --- which problems go --------------------------------------------------------------------------------------------------------


def skew(data: Data) -> Panel:
    """Problems of each band: all, with a passing trace, kept."""
    made = data.made
    if not made.bounds or made.bounds[-1].skew is None:
        return nothing(
            "skew",
            "skew",
            "Nothing is known about which problems a bound loses",
            "No trace here has a difficulty. Name its column with --difficulty, or join a table with --difficulty-from.",
        )
    if not data.stops:
        return nothing("skew", "skew", "No rated problem can be kept at any bound", f"None has a {what(data)}.")
    columns: list[Column] = [
        ("label", "difficulty", "text"), ("problems", "problems", "n"), ("with_passing", f"with a {what(data)}", "n"), ("kept", "kept", "n"),
        ("share", "of those that can be", "share"), ("in_set", "of the set", "share"),
    ]  # fmt: skip
    tables, titles = [], []
    for stop, bound in zip(data.stops, made.bounds, strict=False):
        s = bound.skew
        assert s is not None
        total = sum(b.kept for b in s.bands)
        rows: list[Row] = [
            [b.label, b.problems, b.with_passing, b.kept, share_of(b.kept, b.with_passing), share_of(b.kept, total)]
            for b in s.bands
        ]
        if s.unrated.problems:
            u = s.unrated
            rows.append([u.label, u.problems, u.with_passing, u.kept, share_of(u.kept, u.with_passing), None])
        tables.append(rows)
        easy, hard = s.bands[0], s.bands[-1]
        title = f"{in_tokens(stop)} keep {percent(easy.kept, easy.with_passing)} of the easiest problems ({easy.label})"
        if len(s.bands) > 1:
            title += f" and {percent(hard.kept, hard.with_passing)} of the hardest ({hard.label})"
            if s.hard_share_kept is not None:
                title += f", which make up {percent(s.hard_share_kept)} of the set"
        titles.append(title)
    series = [("problems", "problems", "faint"), ("with_passing", f"with a {what(data)}", "grey"), ("kept", "kept", "blue")]
    chart = charts.nested(
        series,
        columns,
        label="label",
        axis="problems",
        describe="Problems of each difficulty band: all, with a passing trace, kept",
    )
    return Panel(key="skew", part="skew", titles=titles, columns=columns, tables=tables, chart=chart, note=_skew_note(data))


def _skew_note(data: Data) -> str:
    made = data.made
    said = []
    if made.needed_hardest:
        label, need = made.needed_hardest
        said.append(f"Half of the hardest that can be kept ({label}) comes back at {in_tokens(need)}.")
    if made.difficulty_conflicts:
        said.append(f"Traces of {plural(made.difficulty_conflicts, 'problem')} disagree about its difficulty: the earliest counts.")
    return " ".join(said)


def mechanical(data: Data) -> Panel | None:
    """Kept shares beside those with lengths dealt anew among all passing traces."""
    if not data.shuffled or len(data.shuffled[0].bands) < 2:
        return None
    columns: list[Column] = [
        ("label", "difficulty", "text"),
        ("share", "kept", "share"),
        ("dealt", "kept if lengths were shuffled", "share"),
        ("kept", "problems kept", "n"),
        ("expected", "if shuffled", "x"),
    ]
    tables, titles = [], []
    for bound, dealt in zip(data.made.bounds, data.shuffled, strict=False):
        s = bound.skew
        assert s is not None
        kept = [share_of(b.kept, b.with_passing) for b in s.bands]
        expected = [share_of(b.kept, b.with_passing) for b in dealt.bands]
        rows = zip(s.bands, kept, expected, dealt.bands, strict=True)
        tables.append([[b.label, k, e, b.kept, round(d.kept, 2)] for b, k, e, d in rows])
        titles.append(_mechanical_title(kept, expected))
    series = [("share", "kept", "blue"), ("dealt", "kept if lengths were shuffled", "orange")]
    chart = charts.pairs(
        series,
        columns,
        label="label",
        axis="of the problems that can be kept",
        describe="Share kept of each band, and with lengths shuffled",
    )
    note = "Easy problems have more passing traces to choose from, so a bound favours them even where length and difficulty are unrelated: that part is what remains when lengths are shuffled."
    return Panel(key="mechanical", part="skew", titles=titles, columns=columns, tables=tables, chart=chart, note=note)


def _mechanical_title(kept: Sequence[float | None], dealt: Sequence[float | None]) -> str:
    if None in (kept[0], kept[-1], dealt[0], dealt[-1]):
        return "How much of the skew is mechanical"
    gap, expected = 100 * (kept[0] - kept[-1]), 100 * (dealt[0] - dealt[-1])  # type: ignore[operator]
    return f"From easy to hard the share kept falls by {gap:.0f} points; having fewer traces to choose from accounts for {expected:.0f} of them"
