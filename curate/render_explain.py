"""How ``why`` and ``diff`` look on a terminal: the decision first, the table second."""

from __future__ import annotations

from curate.explain import Change, Diff, Trace, Why
from curate.plain import millions, n, plural, safe, table, wrap
from curate.said import REASON as SAID
from curate.skew import plain

SHOWN = 10


def why(found: Why) -> str:
    """The screen of ``curate why``."""
    within = f" within {n(found.max_tokens)} tokens" if found.max_tokens else ""
    rated = f", difficulty {plain(found.difficulty)}" if found.difficulty is not None else ""
    name = safe(found.problem)
    if found.kept:
        kept = plural(found.kept, "trace")
        lines = wrap(f"Problem {name}{rated}: {kept} of {len(found.traces):,} kept{within} (policy {found.policy}).")
    else:
        lines = wrap(f"Problem {name}{rated}: lost{within}. {_lost(found)}")
    rows = [["", "source", "row", "item", "tokens", "verdict", "why"]]
    several = len({t.source for t in found.traces}) > 1
    items = any(t.item for t in found.traces)
    rows += [_row(trace) for trace in found.traces]
    drop = {k for k, shown in ((1, several), (3, items)) if not shown}
    cells = [[cell for k, cell in enumerate(row) if k not in drop] for row in rows]
    words = [row.pop() for row in cells]
    told = table(cells, left=2 if several else 1)
    width = max(map(len, told))
    return "\n".join([*lines, "", *(f"{line.ljust(width)}  {word}" for line, word in zip(told, words, strict=True))])


def _lost(found: Why) -> str:
    if found.lost == "over_length":
        need = min(t.tokens for t in found.traces if t.reason == "over_length" and t.tokens is not None)
        if found.max_tokens is not None and need <= found.max_tokens:
            return f"Its shortest passing trace is estimated at {n(need)} tokens, and the upper end of that is over the bound."
        return f"Its shortest passing trace needs {n(need)} tokens."
    return f"Its last obstacle: {SAID[found.lost or 'kept']}."


def _row(trace: Trace) -> list[str]:
    verdict = {True: "passed", False: "failed", None: "unknown"}[trace.passed]
    mark = "*" if trace.reason is None else "-"
    return [mark, safe(trace.source), str(trace.row), str(trace.item), n(trace.tokens), verdict, trace.said]


def diff(found: Diff, *, a: str, b: str) -> str:
    """The screen of ``curate diff``."""
    lines = wrap(
        f"{safe(b)} against {safe(a)}: {plural(len(found.gained), 'problem')} gained, {n(len(found.lost))} lost, "
        f"{n(len(found.changed))} with another trace, {n(found.same)} the same."
    )
    rows = [["", safe(a), safe(b)]]
    for label, field in (("traces read", "traces"), ("traces kept", "kept"), ("problems kept", "problems")):
        rows.append([label, n(getattr(found.a, field)), n(getattr(found.b, field))])
    rows.append(["tokens kept", millions(found.a.tokens), millions(found.b.tokens)])
    lines += ["", *table(rows)]
    for title, changes, where in (
        ("Gained", found.gained, f"why {safe(a)} lacks them"),
        ("Lost", found.lost, f"why {safe(b)} lacks them"),
        ("Another trace", found.changed, f"what became of the one that {safe(a)} keeps"),
    ):
        if changes:
            lines += ["", f"{title} ({where}):", *_changes(found, changes)]
    if found.estimated and (found.gained or found.lost or found.changed):
        lines += ["", *wrap("Lengths are estimates: a trace near the bound is over it when the upper end of its estimate is.")]
    return "\n".join(lines)


def _changes(found: Diff, changes: tuple[Change, ...]) -> list[str]:
    words = SAID | {"absent": "not read there", "kept": "kept, with others"}
    lines = [f"{n(count):>8}  {words[reason]}" for reason, count in found.reasons(changes).items()]
    for change in changes[:SHOWN]:
        tokens = " -> ".join("none" if t is None else n(t) for t in (change.tokens_a, change.tokens_b))
        lines.append(f"          {safe(change.problem)}: {tokens} tokens, {words[change.reason or 'kept']}")
    more = len(changes) - SHOWN
    return [*lines, f"          and {n(more)} more (--json lists all)"] if more > 0 else lines
