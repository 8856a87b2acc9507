"""Panels about the set: which trace to choose, what the set is made of, what it costs, and where every trace went."""

from __future__ import annotations

from curate import charts
from curate.plain import millions, n, percent, plural
from curate.report_data import MICRO_BATCH, Data
from curate.report_panels import Column, Panel, Row, in_tokens, nothing, share_of, what
from curate.said import REASON as SAID

# --- which trace to choose --------------------------------------------------------------------------------------------------


def choices(data: Data) -> Panel | None:
    """Problems by how many passing traces they have."""
    made = data.made
    if not made.with_passing:
        return None
    counts = {int(k): v for k, v in made.choices.items()}
    top = 12
    many = range(1, min(top, max(counts)) + 1)
    rows: list[Row] = [[str(k), counts.get(k, 0), share_of(counts.get(k, 0), made.with_passing)] for k in many]
    if more := sum(v for k, v in counts.items() if k > top):
        rows.append([f"over {top}", more, share_of(more, made.with_passing)])
    columns: list[Column] = [
        ("passing", f"{what(data)}s of a problem", "text"),
        ("problems", "problems", "n"),
        ("share", "of those with any", "share"),
    ]
    several = made.with_passing - counts.get(1, 0)
    title = f"{percent(several, made.with_passing)} of the problems have two {what(data)}s or more to choose from"
    if not several:
        title = f"There is nothing to choose: every problem has one {what(data)}"
    chart = (
        charts.bars(
            "problems",
            columns,
            label="passing",
            axis=f"{what(data)}s of a problem",
            describe="Problems by number of passing traces",
            upright=True,
        )
        if len(rows) > 1
        else None
    )
    return Panel(key="choices", part="choice", titles=[title], columns=columns, tables=[rows], chart=chart)


def policies(data: Data) -> Panel | None:
    """Problems and tokens by policy, dropping before or after the choice."""
    if not data.made.can_choose:
        return None
    columns: list[Column] = [
        ("policy", "choose the", "text"), ("problems", "problems: drop, then choose", "n"), ("problems_after", "choose, then drop", "n"),
        ("before", "", "hide"), ("after", "", "hide"), ("tokens", "tokens: drop, then choose", "tokens"), ("tokens_after", "choose, then drop ", "tokens"),
    ]  # fmt: skip
    total = data.made.with_passing
    tables, titles = [], []
    for stop, chosen in zip(data.stops, data.policies, strict=True):
        tables.append(
            [
                [
                    c.policy,
                    c.problems,
                    round(c.problems_after),
                    share_of(c.problems, total),
                    share_of(c.problems_after, total),
                    round(c.tokens),
                    round(c.tokens_after),
                ]
                for c in chosen
            ]
        )
        first = next(c for c in chosen if c.policy == "first")
        short, long = (next(c for c in chosen if c.policy == p) for p in ("shortest", "longest"))
        title = f"Within {in_tokens(stop)}, dropping before the choice keeps {plural(int(first.problems), 'problem')}, choosing the file's first and then dropping {n(first.problems_after)}"
        if short.tokens:
            title += f"; the longest cost {long.tokens / short.tokens:.2f} times the tokens of the shortest"
        titles.append(title)
    series = [("before", "drop, then choose", "blue"), ("after", "choose, then drop", "orange")]
    tips = [c for c in columns if c[2] != "hide"]
    chart = charts.pairs(
        series,
        tips,
        label="policy",
        axis="of the problems that can be kept",
        describe="Problems kept by each policy, dropping before or after the choice",
    )
    return Panel(
        key="policies",
        part="choice",
        titles=titles,
        columns=columns,
        tables=tables,
        chart=chart,
        note="Random picks are means over all picks.",
    )


def tail(data: Data) -> Panel | None:
    """Passing traces over the bound: those whose problem another trace keeps, and those whose problem is lost."""
    if not data.stops:
        return None
    columns: list[Column] = [("fate", f"{what(data)}s", "text"), ("traces", "traces", "n"), ("share", "of all", "share")]
    tables, titles = [], []
    for stop, t in zip(data.stops, data.tails, strict=True):
        total, over = t.within + t.replaced + t.lost, t.replaced + t.lost
        named = (
            ("within the bound", t.within),
            ("over, a sibling fits", t.replaced),
            ("over, no sibling fits", t.lost),
        )
        tables.append([[name, count, share_of(count, total)] for name, count in named])
        titles.append(
            f"A shorter sibling stands in for {percent(t.replaced, over)} of the {plural(over, what(data))} over {in_tokens(stop)}"
            if over
            else f"No {what(data)} is longer than {in_tokens(stop)}"
        )
    chart = charts.bars(
        "traces",
        columns,
        label="fate",
        axis="traces",
        describe="Passing traces within the bound, replaced and lost",
        good="within the bound",
    )
    return Panel(key="tail", part="choice", titles=titles, columns=columns, tables=tables, chart=chart)


def ranks(data: Data) -> Panel | None:
    """Pass rate of short and long traces of the same problem."""
    if not data.ranks:
        if data.made.unverified:
            return nothing(
                "ranks",
                "choice",
                "Whether shorter traces pass more often is unknown",
                "No trace here has a verdict. The command curate verify can make them for problems with tests.",
            )
        return None
    columns: list[Column] = [
        ("third", "of a problem's traces", "text"),
        ("traces", "judged traces", "n"),
        ("observed", "pass", "share"),
        ("expected", "expected if length did not matter", "share"),
    ]
    rows: list[Row] = [[r.third, r.traces, round(r.observed, 6), round(r.expected, 6)] for r in data.ranks]
    short, long = data.ranks[0], data.ranks[-1]
    gain = 100 * ((short.observed - short.expected) - (long.observed - long.expected))
    word = "about as often as" if abs(gain) < 2 else "more often than" if gain > 0 else "less often than"
    title = (
        f"Of one problem's traces the shortest pass {word} the longest: {percent(short.observed)} against {percent(long.observed)}"
    )
    series = [("observed", "pass", "blue"), ("expected", "expected if length did not matter", "orange")]
    chart = charts.pairs(
        series, columns, label="third", axis="of judged traces", describe="Pass rate by length rank within a problem"
    )
    return Panel(
        key="ranks",
        part="choice",
        titles=[title],
        columns=columns,
        tables=[rows],
        chart=chart,
        note="Usable traces with a verdict, of problems that have two or more of them.",
    )


# --- composition, cost, funnel ------------------------------------------------------------------------------------------------


def composition(data: Data) -> Panel:
    """Kept problems against the pool, by group."""
    if data.by is None or not data.groups:
        return nothing(
            "composition",
            "composition",
            "No source, tag or subject was named to compare",
            "Name a column with --by, for example --by tag.",
        )
    if not data.stops:
        return nothing(
            "composition",
            "composition",
            f"Nothing is kept, so there is no set to compare by {data.by}",
            f"No problem has a {what(data)}.",
        )
    columns: list[Column] = [
        ("name", data.by, "text"),
        ("problems", "problems", "n"),
        ("with_passing", f"with a {what(data)}", "n"),
        ("kept", "kept", "n"),
        ("pool", "of the pool", "share"),
        ("set", "of the set", "share"),
    ]
    pool = sum(g.problems for g in data.groups)
    tables, titles = [], []
    for i, stop in enumerate(data.stops):
        total = sum(g.kept[i] for g in data.groups)
        rows: list[Row] = [
            [g.name, g.problems, g.with_passing, g.kept[i], share_of(g.problems, pool), share_of(g.kept[i], total)]
            for g in data.groups
        ]
        tables.append(rows)
        moved = [r for r in rows if r[5] is not None]
        most = max(moved, key=lambda r: abs(r[5] - r[4]), default=None)
        if most is None or abs(most[5] - most[4]) < 0.005:
            titles.append(
                f"Within {in_tokens(stop)} the set has the pool's composition by {data.by}"
                if moved
                else f"Nothing is kept within {in_tokens(stop)}"
            )
        else:
            titles.append(
                f"Within {in_tokens(stop)}, {most[0]} goes from {percent(most[4])} of the pool to {percent(most[5])} of the set"
            )
    series = [("set", "of the set", "blue"), ("pool", "of the pool", "orange")]
    chart = (
        charts.pairs(
            series,
            columns,
            label="name",
            axis="of the problems",
            describe=f"Share of the pool and of the kept set by {data.by}",
            whole=False,
        )
        if len(data.groups) > 1
        else None
    )
    return Panel(key="composition", part="composition", titles=titles, columns=columns, tables=tables, chart=chart)


PADS = {
    "fixed": "padded to the bound",
    "longest": f"padded to the longest of {MICRO_BATCH}",
    "grouped": f"the same, {MICRO_BATCH} of like length",
    "bfd": "packed (best fit)",
}


def padded(data: Data) -> Panel | None:
    """Padding of the common policies on the kept traces."""
    if not any(data.padding):
        return None
    columns: list[Column] = [
        ("policy", "micro-batches", "text"),
        ("padding", "padding", "share"),
        ("per_real", "tokens processed for each real one", "x"),
    ]
    tables, titles = [], []
    for stop, runs in zip(data.stops, data.padding, strict=True):
        tables.append([[PADS[r.policy], round(r.padding, 4), round(r.per_real, 3)] for r in runs])
        if not runs:
            titles.append(f"Too few traces fit within {in_tokens(stop)} to lay out batches")
            continue
        worst, best = max(runs, key=lambda r: r.per_real), min(runs, key=lambda r: r.per_real)
        titles.append(
            f"Within {in_tokens(stop)}, padding every trace to the bound wastes {percent(worst.padding)} of the work; packing wastes {percent(best.padding)}"
            if worst.policy == "fixed" and best.policy == "bfd"
            else f"Padding wastes {percent(best.padding)} to {percent(worst.padding)} of the work"
        )
    chart = charts.bars(
        "padding", columns, label="policy", axis="of processed tokens", describe="Share of padding by batching policy", share=True
    )
    note = f"The shortest {what(data)} of each problem that fits, {MICRO_BATCH} in a micro-batch. The command curate padding knows trainers, ranks and packing in detail."
    return Panel(key="padding", part="cost", titles=titles, columns=columns, tables=tables, chart=chart, note=note)


def fits(data: Data) -> Panel | None:
    """What cards hold."""
    if not data.fits:
        return None
    columns: list[Column] = [
        ("label", "card, loss, attention", "text"),
        ("safe", "safe up to", "n"),
        ("kept_safe", "problems kept", "n"),
        ("may", "may work to", "n"),
        ("kept_may", "problems kept ", "n"),
        ("fits", "this bound", "text"),
    ]
    tables, titles = [], []
    for stop in data.stops or (0,):
        rows: list[Row] = []
        for fit, safe, may in zip(data.fits, data.kept_safe, data.kept_may, strict=True):
            word = "fits" if stop <= fit.safe else "may fit" if stop <= fit.may else "too long"
            rows.append([f"{fit.gpu.label}, {fit.setup.loss} loss, {fit.setup.attention}", fit.safe, safe, fit.may, may, word])
        tables.append(rows)
        safe_ = sum(r[5] == "fits" for r in rows)
        titles.append(
            f"Training {data.fits[0].model.name} on {in_tokens(stop)} is safe with {safe_} of {plural(len(rows), 'setting')}"
        )
    setup = data.fits[0].setup
    how = f"LoRA {setup.lora}" if setup.lora else "full fine-tuning"
    note = f"{setup.weights} weights, {how}, {setup.micro_batch} a micro-batch. Memory is a model fitted on published runs."
    chart = charts.cards(columns, describe="Longest trace that fits each card")
    return Panel(
        key="fits",
        part="cost",
        titles=titles,
        columns=columns,
        tables=tables,
        chart=chart,
        note=note,
        legend="Bars are safe lengths, lines go on to where it may work.",
    )


def funnel(data: Data) -> Panel:
    """Every trace once, and the problems that each reason costs."""
    columns: list[Column] = [
        ("reason", "traces", "text"),
        ("traces", "count", "n"),
        ("share", "of all", "share"),
        ("problems", "problems lost", "n"),
    ]
    total, made = data.made.facts["traces"], data.made
    if not total:
        return nothing("funnel", "funnel", "No trace was read", "The source has no rows, or --where left none of them.")
    if not data.stops:
        order = [(k, v) for k, v in made.funnel.items() if v]
        said = {"failed": "failed", "unknown": "not checked", "passing": "passing"}
        rows: list[Row] = [[said.get(k) or SAID[k], v, share_of(v, total), None] for k, v in order]
        return Panel(
            key="funnel",
            part="funnel",
            titles=[f"Of {plural(total, 'trace')} none is kept at any length"],
            columns=columns,
            tables=[rows],
        )
    used = {f.reason for table in data.funnel for f in table if f.traces} | {"kept"}
    tables = [
        [[SAID[f.reason], f.traces, share_of(f.traces, total), f.problems] for f in table if f.reason in used]
        for table in data.funnel
    ]
    titles = []
    for stop, table in zip(data.stops, data.funnel, strict=True):
        lost = made.problems - table[0].traces
        titles.append(
            f"Of {plural(total, 'trace')} read, {n(table[0].traces)} are kept within {in_tokens(stop)}, one for each problem; {plural(lost, 'problem')} {'is' if lost == 1 else 'are'} lost"
        )
    chart = charts.bars("traces", columns, label="reason", axis="traces", describe="Traces by fate", good=SAID["kept"])
    note = "The first reason that holds counts for a trace; a lost problem counts under its last obstacle." + (
        f" {millions(made.facts['tokens']['total'])} tokens were read." if total else ""
    )
    return Panel(key="funnel", part="funnel", titles=titles, columns=columns, tables=tables, chart=chart, note=note)
