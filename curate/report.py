"""The report: one HTML file that asks nothing of a network, the same as Markdown.

Charts are Vega-Lite, whose runtime vl-convert bundles into the file (0.9 MB, made once for each version and kept in the cache). All
that comes from the data travels in one JSON block and reaches the page as text; a content security policy forbids every
request and every script but the two of the file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import polars as pl

from curate import cache, charts, report_choices, report_lengths
from curate.errors import CurateError
from curate.ledger import Meta
from curate.markdown import command as shell
from curate.markdown import md
from curate.memory import Fit
from curate.plain import millions, n, percent, plural, safe
from curate.report_data import Data, collect
from curate.report_panels import PARTS, Panel
from curate.said import counted_by, passing_by
from curate.selection import Rules

TEMPLATES: Final = Path(__file__).parent / "templates"
MISSING: Final = (
    'The report needs Vega-Lite, which is not installed: pip install "trace-curate[report]". `--format markdown` does without.'
)

LIMITS: Final = {"tables": 120, "columns": 120, "titles": 400, "kicker": 400, "title": 400, "headline": 400}
"""Longest text in characters by key of the document, so that no name makes the file large."""

SOURCES: Final = 40
"""So many sources are described one by one."""

# --- HTML -----------------------------------------------------------------------------------------------------------------


GENERATOR: Final = "curate report"
"""Stands in the head of every report, so that one of ours can be told from other files."""


def is_report(path: Path) -> bool:
    """Whether a file is a report of ours, in HTML or Markdown, or empty."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    markdown = head.startswith(b"# ") and b": traces against length\n" in head
    return not head or markdown or GENERATOR.encode() in head


def html(
    ledger: pl.DataFrame,
    meta: Meta,
    *,
    rules: Rules,
    bound: int | None = None,
    fits: Sequence[Fit] = (),
    command: Sequence[str] = (),
    by: str | None = None,
) -> str:
    """The report as one HTML document.

    Args:
        ledger: one row per trace; reasons in it are not used, every figure follows from ``rules`` and the slider.
        bound: where the slider stands at first; see ``report_data.collect``.
        fits: lengths that cards hold (``memory.table``).
        command: the words of the command line, shown at the end.
        by: what the ledger's column ``group`` is called.

    Raises:
        CurateError: the extra ``report`` is not installed.
    """
    bundle = runtime()
    data = collect(ledger, meta, rules=rules, bound=bound, fits=fits, by=by)
    return page(document(data, command=command), bundle)


def document(data: Data, *, command: Sequence[str] = ()) -> dict[str, Any]:
    """What the page is made of: JSON values only, text made visible (control and direction marks as escapes)."""
    made = data.made
    shown = panels(data)
    at = data.at
    parts = [{"name": name, "panels": [_panel(p) for p in shown if p.part == part]} for part, name in PARTS.items()]
    facts = made.facts
    whole: dict[str, Any] = {
        "title": f"{_names(data.meta)}: traces against length",
        "kicker": _names(data.meta),
        "headline": report_lengths.reach(data) + ".",
        "caveat": "\n".join(_caveats(data)),
        "figures": [
            ["problems", n(facts["problems"])],
            [f"with a {_word(data)}", n(made.with_passing)],
            ["traces", n(facts["traces"])],
            ["tokens", millions(facts["tokens"]["total"])],
        ],
        "facts": _facts(data),
        "command": shell(command).split("\n", 1)[1].rsplit("\n", 1)[0] if command else "",
        "stops": list(data.stops),
        "at": at,
        "picks": [b for b in data.standard if b in data.stops],
        "now": [_now(data, i) for i in range(len(data.stops))],
        "theme": charts.theme(),
        "parts": [part for part in parts if part["panels"]],
    }
    return dict(_visible(whole))


def panels(data: Data) -> list[Panel]:
    """Every panel, in the order of the page."""
    shown = [
        report_lengths.problems(data),
        report_lengths.amount(data),
        report_lengths.lengths(data),
        report_lengths.spreads(data),
        report_lengths.skew(data),
        report_lengths.mechanical(data),
    ]
    shown += [
        report_choices.choices(data),
        report_choices.policies(data),
        report_choices.tail(data),
        report_choices.ranks(data),
        report_choices.composition(data),
        report_choices.padded(data),
        report_choices.fits(data),
        report_choices.funnel(data),
    ]
    return [_drawn(panel, data) for panel in shown if panel is not None]


def _drawn(panel: Panel, data: Data) -> Panel:
    """The panel with its chart as high as its table is long, and without the slider's line where there is no slider."""
    if panel.chart is None:
        return panel
    spec = charts.sized(panel.chart, max(map(len, panel.tables)))
    if not data.stops:
        spec = spec | {"layer": [layer for layer in spec["layer"] if not charts.ruled(layer)]}
    return replace(panel, chart=spec)


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "key": panel.key,
        "about": panel.chart["description"] if panel.chart else panel.titles[0],
        "titles": panel.titles,
        "columns": panel.columns,
        "tables": panel.tables,
        "chart": panel.chart,
        "ruled": panel.chart is not None and any(map(charts.ruled, panel.chart["layer"])),
        "note": f"{panel.note} {panel.legend}".strip(),
    }


def _visible(value: Any, limit: int = 2000) -> Any:
    """Text of at most ``limit`` characters, without any that steer a reader; what repeats at every stop has a lower limit."""
    if isinstance(value, str):
        cut = value if len(value) <= limit else value[: limit - 1] + "…"
        return "\n".join(safe(line) for line in cut.split("\n"))
    if isinstance(value, Mapping):
        return {key: _visible(item, LIMITS.get(key, limit)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(item, limit) for item in value]
    return value


def page(whole: Mapping[str, Any], bundle: str) -> str:
    """The document with its parts put in; ``whole`` goes into the JSON block with ``<``, ``>`` and ``&`` escaped."""
    text = json.dumps(whole, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    inner = "\n" + script + "\n"
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    for name, colours in (("light", charts.LIGHT), ("dark", charts.DARK)):
        style = style.replace("{" + name + "}", " ".join(f"--{key}: {value};" for key, value in colours.items()))
    document = (TEMPLATES / "report.html").read_text(encoding="utf-8")
    parts = {"hashes": f"{_hash(bundle)} {_hash(inner)}", "style": style, "data": text, "runtime": bundle, "script": script}
    pieces = []
    for name, value in parts.items():
        before, document = document.split("{" + name + "}", 1)
        pieces += [before, value]
    return "".join([*pieces, document])


def _hash(script: str) -> str:
    """A script's name in the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def runtime() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; some seconds the first time, then from the cache.

    Raises:
        CurateError: vl-convert is not installed.
    """
    try:
        key = f"vega runtime of vl-convert {version('vl-convert-python')}"
    except PackageNotFoundError:
        raise CurateError(MISSING) from None
    kept = cache.lookup(key)
    if kept is not None:
        return str(kept["script"][0])
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    cache.store(key, pl.DataFrame({"script": [script]}))
    return script


def draw(
    ledger: pl.DataFrame,
    meta: Meta,
    *,
    rules: Rules | None = None,
    bound: int | None = None,
    fits: Sequence[Fit] = (),
    by: str | None = None,
) -> dict[str, Any]:
    """The report's charts at one bound as Altair charts, by name, in the report's order; a notebook shows each.

    Names: problems, amount, lengths, spreads, skew, mechanical, choices, policies, tail, ranks, composition, padding, fits, funnel;
    those that these data cannot fill are left out.

    Raises:
        CurateError: Altair is not installed.
    """
    data = collect(ledger, meta, rules=rules or Rules(), bound=bound, fits=fits, by=by)
    at = data.stops[data.at] if data.stops else None
    return {panel.key: chart(panel, stop=data.at, bound=at) for panel in panels(data) if panel.chart is not None}


def chart(panel: Panel, *, stop: int = 0, bound: int | None = None) -> Any:
    """A panel's chart as an Altair chart, which a notebook shows; None where there is nothing to draw.

    Raises:
        CurateError: Altair is not installed.
    """
    if panel.chart is None:
        return None
    try:
        import altair
    except ImportError:
        raise CurateError(MISSING) from None
    spec = _filled(panel, stop=stop, bound=bound, colours=charts.LIGHT)
    return altair.Chart.from_dict(spec | {"width": 560})


def _filled(panel: Panel, *, stop: int, bound: int | None, colours: Mapping[str, str]) -> dict[str, Any]:
    """The specification with its rows, and values for the names of colours: what works outside the page."""
    rows = panel.tables[stop if len(panel.tables) > 1 else 0]
    fields = [column[0] for column in panel.columns]
    text = json.dumps(panel.chart)
    for name, value in colours.items():
        text = text.replace(f"var(--{name})", value)
    spec = dict(json.loads(text))
    spec["datasets"] = {"rows": [dict(zip(fields, row, strict=True)) for row in rows], "bound": [{"bound": bound}] if bound else []}
    return spec | {"config": charts.theme(colours, font="sans-serif")}


# --- words ----------------------------------------------------------------------------------------------------------------


def _names(meta: Meta) -> str:
    names = [str(s["name"]) for s in meta.sources if s.get("name")]
    return " and ".join(names if len(names) < 4 else [*names[:2], plural(len(names) - 2, "other")]) or "a ledger"


def _word(data: Data) -> str:
    return "finished trace" if data.made.unverified else "passing trace"


def _now(data: Data, i: int) -> str:
    bound = data.made.bounds[i]
    kept = bound.problems.shortest
    said = f"{n(kept)} problems kept ({percent(kept, data.made.with_passing)}), {millions(bound.train_shortest)} tokens to train on"
    if bound.fewest and bound.most and bound.fewest != bound.most:
        said += f"; {n(bound.fewest.shortest)} to {n(bound.most.shortest)} over the range of the estimate"
    return said + "."


def _caveats(data: Data) -> list[str]:
    said = [f"{s['name']}: {s['synthetic']}" for s in data.meta.sources if s.get("synthetic")]
    if data.made.unverified:
        said.append("Nobody has checked which traces pass: every finished trace counts here as one that does.")
    if data.ends is not None:
        said.append("Lengths are an estimate, and figures have its 95 % range beside them. --tokenizer counts exactly.")
    return said


def _facts(data: Data) -> list[list[str]]:
    """Term and text: how tokens were counted, what passing rests on, what was read, with which versions."""
    meta, made = data.meta, data.made
    lines = [
        ["Tokens", counted_by(meta) if meta.tokens else "the ledger does not say how they were counted."],
        ["Passing", passing_by(made.facts["passing"], unverified=made.unverified)],
    ]
    if data.ends is not None:
        lines.append(
            ["Estimates", "curate select without a tokenizer holds the upper end of each estimate to the bound, so it keeps fewer."]
        )
    for t in made.thinking:
        if t.decision == "mixed":
            lines.append(["Thinking", f"{n(t.thinking)} of {n(t.traces)} traces of {t.name} think, so it is not required here."])
    for s in meta.sources[:SOURCES]:
        mapping = ", ".join(f"{role} = {column}" for role, column in (s.get("mapping") or {}).items())
        lines.append(["Source", str(s.get("name") or "?") + (f": {mapping}" if mapping else "")])
        lines.append(["Revision", str(s.get("revision") or "local files")])
        if s.get("licence"):
            licence = s["licence"]
            lines.append(["Licence", licence if isinstance(licence, str) else ", ".join(map(str, licence))])
    if len(meta.sources) > SOURCES:
        lines.append(["Sources", f"and {len(meta.sources) - SOURCES:,} more"])
    if made.facts["bad_rows"]:
        lines.append(
            ["Bad rows", f"{plural(made.facts['bad_rows'], 'row')} without text, with lists that do not line up, or not readable."]
        )
    lines.append(
        [
            "Versions",
            ", ".join(f"{name} {found}" for name in ("trace-curate", "polars", "vl-convert-python") if (found := _version(name))),
        ]
    )
    return lines


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# --- Markdown -------------------------------------------------------------------------------------------------------------


def markdown(
    ledger: pl.DataFrame,
    meta: Meta,
    *,
    rules: Rules,
    bound: int | None = None,
    fits: Sequence[Fit] = (),
    command: Sequence[str] = (),
    by: str | None = None,
) -> str:
    """The report as Markdown for a pull request: the same findings and tables at one bound, without charts."""
    data = collect(ledger, meta, rules=rules, bound=bound, fits=fits, by=by)
    shown = panels(data)
    lines = [f"# {md(_names(meta))}: traces against length", ""]
    lines += [line for said in _caveats(data) for line in (md(said, limit=1000), "")]
    for part, name in PARTS.items():
        own = [p for p in shown if p.part == part]
        lines += [f"## {name}", ""] if own else []
        for panel in own:
            lines += [f"### {md(panel.titles[data.at if len(panel.titles) > 1 else 0], limit=1000)}", ""]
            lines += [*_table(panel, data), ""] if panel.columns else []
            lines += [md(panel.note, limit=1000), ""] if panel.note else []
    lines += ["## How this was counted", ""]
    lines += [f"- {term}: {md(text, limit=1000)}" for term, text in _facts(data)]
    return "\n".join([*lines, *(["", shell(command)] if command else []), ""])


def _table(panel: Panel, data: Data) -> list[str]:
    columns = [(i, heading.strip(), kind) for i, (_, heading, kind) in enumerate(panel.columns) if kind != "hide"]
    rows = panel.tables[data.at if len(panel.tables) > 1 else 0]
    if panel.columns[0][0] == "bound":  # the bounds people train with, not every stop
        wanted = {*data.standard, data.stops[data.at], data.stops[-1]}
        rows = [row for row in rows if row[0] in wanted]
    lines = ["| " + " | ".join(md(heading) for _, heading, _ in columns) + " |"]
    lines.append("|" + "|".join("---" if kind == "text" else "---:" for *_, kind in columns) + "|")
    return lines + ["| " + " | ".join(_cell(row[i], kind) for i, _, kind in columns) + " |" for row in rows]


def _cell(value: Any, kind: str) -> str:
    if value is None:
        return "-"
    shown = {"n": "{:,.0f}", "share": "{:.1%}", "x": "{:.2f}"}
    return millions(value) if kind == "tokens" else shown[kind].format(value) if kind in shown else md(value)
