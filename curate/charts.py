"""The report's charts as Vega-Lite specifications: pure functions of nothing but names, so a test can read them.

A chart holds no numbers. It names two data sets, ``rows`` (the panel's table, one field a column) and ``bound`` (one row, the
slider's stop), which the page fills and fills again. Colours are names: a page maps them to CSS variables, so dark, light
and print need no second drawing; a picture maps them to values. Blue, orange and green are told apart by people
who do not see red and green alike, and differ in lightness as well (Okabe and Ito 2008).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
"""The name of the language; nothing asks for it."""

LIGHT: Final = {
    "ink": "#1c2126", "soft": "#5b6570", "grid": "#e3e6ea", "paper": "#ffffff",
    "blue": "#0b6bb0", "orange": "#d2691e", "green": "#11856a", "grey": "#8793a0", "faint": "#cfd6dc",
}  # fmt: skip
DARK: Final = {
    "ink": "#e6e9ec", "soft": "#a3adb8", "grid": "#2c333b", "paper": "#14181c",
    "blue": "#5cb3f0", "orange": "#f0944d", "green": "#46c9a4", "grey": "#6b7783", "faint": "#3d4751",
}  # fmt: skip
NAMED: Final = {name: f"var(--{name})" for name in LIGHT}

Spec = dict[str, Any]


def theme(colours: Mapping[str, str] = NAMED, *, font: str = "system-ui, sans-serif") -> Spec:
    """Vega-Lite's ``config`` in these colours."""
    text = {"labelColor": colours["soft"], "titleColor": colours["soft"], "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": "transparent",
        "font": font,
        "view": {"stroke": None},
        "axis": {
            **text,
            "titleFontWeight": "normal",
            "gridColor": colours["grid"],
            "domainColor": colours["grey"],
            "tickColor": colours["grey"],
            "labelLimit": 190,
            "labelOverlap": True,
            "titlePadding": 8,
        },
        "legend": {
            **text,
            "orient": "top",
            "title": None,
            "symbolType": "square",
            "symbolOpacity": 1,
            "labelLimit": 300,
            "columns": 0,
            "offset": 4,
        },
        "text": {"color": colours["ink"], "fontSize": 11},
    }


def _base(layer: Sequence[Spec], *, height: int | Spec, describe: str, **more: Any) -> Spec:
    return {
        "$schema": SCHEMA,
        "description": describe,
        "width": "container",
        "height": height,
        "datasets": {"rows": [], "bound": []},
        "data": {"name": "rows"},
        "layer": list(layer),
        **more,
    }


def sized(spec: Spec, rows: int) -> Spec:
    """The height of a chart with one line a row, in pixels: Vega-Lite cannot fit a width where the height is a step."""
    height = spec["height"]
    return spec | {"height": height["step"] * max(1, rows)} if isinstance(height, dict) else spec


def _log(field: str, title: str = "longest trace allowed, tokens") -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "nice": False},
        "axis": {"title": title, "format": ",", "grid": False, "labelFlush": True, "tickCount": 8},
    }


def _share(field: str, title: str | None, *, whole: bool = True) -> Spec:
    """A share on an axis from 0 to 100 %, or to what is there."""
    axis = {"title": title, "format": ".0%", "tickCount": 5}
    scale: Spec = {"domain": [0, 1], "clamp": True} if whole else {"zero": True, "nice": True}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def _tips(fields: Sequence[tuple[str, str, str]]) -> list[Spec]:
    """Tooltip rows from columns (field, heading, kind)."""
    formats = {"n": ",.0f", "share": ".1%", "x": ".2f", "tokens": ",.0f"}
    return [
        {"field": f, "title": title, "type": "quantitative", "format": formats[kind]}
        if kind in formats
        else {"field": f, "title": title}
        for f, title, kind in fields
        if kind != "hide"
    ]


def _rule(colours: Mapping[str, str], x: Spec) -> Spec:
    """The slider's bound, on the axis of ``x``."""
    return {
        "data": {"name": "bound"},
        "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [5, 3], "color": colours["ink"], "aria": False},
        "encoding": {"x": x | {"field": "bound"}},
    }


def ruled(layer: Spec) -> bool:
    """Whether a layer is the slider's bound."""
    return bool(layer.get("data") == {"name": "bound"})


def _colour(names: Sequence[tuple[str, str]], colours: Mapping[str, str]) -> Spec:
    return {"domain": [name for name, _ in names], "range": [colours[colour] for _, colour in names]}


def _series(name: str, scale: Spec) -> tuple[Spec, Spec]:
    """A layer's name as a constant field, and its colour: what a legend is made of."""
    named = {"transform": [{"calculate": json.dumps(name), "as": "series"}]}
    return named, {"field": "series", "type": "nominal", "scale": scale}


def curve(
    series: Sequence[tuple[str, str, str]],
    tips: Sequence[tuple[str, str, str]],
    *,
    describe: str,
    colours: Mapping[str, str] = NAMED,
    band: bool = False,
    marks: Sequence[tuple[str, float]] = (),
    height: int = 280,
) -> Spec:
    """Shares against the bound.

    Args:
        series: (field, name, colour); with ``band`` the fields ``<field>_low`` and ``<field>_high`` hold its range.
        marks: cards as (label, tokens), drawn as lines with their names on top.
    """
    scale = _colour([(name, colour) for _, name, colour in series], colours)
    layers: list[Spec] = []
    for field, name, _ in series:
        named, colour = _series(name, scale)
        if band:
            layers.append({
                **named,
                "mark": {"type": "area", "opacity": 0.18, "aria": False},
                "encoding": {"x": _log("bound"), "y": _share(f"{field}_low", None), "y2": {"field": f"{field}_high"}, "color": colour},
            })  # fmt: skip
        layers.append({
            **named,
            "mark": {"type": "line", "strokeWidth": 2.5, "aria": False},
            "encoding": {"x": _log("bound"), "y": _share(field, None), "color": colour},
        })  # fmt: skip
        layers.append({
            **named,
            "mark": {"type": "point", "size": 12, "filled": True, "opacity": 1, "aria": False},
            "encoding": {"x": _log("bound"), "y": _share(field, None), "color": colour},
        })  # fmt: skip
    layers += _marks(marks, colours)
    layers.append(_rule(colours, _log("bound")))
    layers.append(_zones(tips))
    return _base(layers, height=height, describe=describe)


def _zones(tips: Sequence[tuple[str, str, str]]) -> Spec:
    """A clear strip around each point, half way to its neighbours: its numbers show wherever the pointer is above or below it."""
    beside = [{"op": op, "field": "bound", "as": name} for op, name in (("lag", "before"), ("lead", "after"))]
    edges = [{"calculate": f"sqrt(datum.bound * (datum.{name} || datum.bound))", "as": name} for name in ("before", "after")]
    return {
        "transform": [{"window": beside, "sort": [{"field": "bound"}]}, *edges],
        "mark": {"type": "rect", "opacity": 0, "aria": False},
        "encoding": {"x": _log("before"), "x2": {"field": "after"}, "tooltip": _tips(tips)},
    }


def _marks(marks: Sequence[tuple[str, float]], colours: Mapping[str, str]) -> list[Spec]:
    if not marks:
        return []
    data = {"values": [{"at": at, "label": label} for label, at in marks]}
    x = {"field": "at", "type": "quantitative"}
    return [
        {"data": data, "mark": {"type": "rule", "color": colours["soft"], "strokeWidth": 1}, "encoding": {"x": x, "tooltip": _tips([("label", "card", "text"), ("at", "safe up to", "n")])}},
        {
            "data": data,
            "mark": {"type": "text", "angle": 270, "align": "right", "baseline": "bottom", "dx": -4, "dy": -3, "fontSize": 11, "limit": 240, "color": colours["soft"]},
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}},
        },
    ]  # fmt: skip


def histogram(tips: Sequence[tuple[str, str, str]], *, describe: str, colours: Mapping[str, str] = NAMED) -> Spec:
    """Traces by length: fields ``low``, ``high``, ``finished``, ``unfinished``; unfinished ones stand on the others."""
    scale = _colour([("finished", "blue"), ("cut off or unfinished", "orange")], colours)
    x = _log("low", "tokens of a trace") | {"bin": "binned"}

    def bars(low: str, high: str, name: str) -> Spec:
        return {
            **_series(name, scale)[0],
            "mark": {"type": "bar", "binSpacing": 1},
            "encoding": {
                "x": x,
                "x2": {"field": "high"},
                "y": {
                    "field": low,
                    "type": "quantitative",
                    "stack": None,
                    "axis": {"title": "traces", "tickCount": 5, "format": "~s"},
                },
                "y2": {"field": high},
                "color": _series(name, scale)[1],
                "tooltip": _tips(tips),
            },
        }

    both = {"calculate": "datum.finished + datum.unfinished", "as": "both"}
    zero = {"calculate": "0", "as": "zero"}
    layers = [
        bars("finished", "zero", "finished"),
        bars("both", "finished", "cut off or unfinished"),
        _rule(colours, _log("bound", "tokens of a trace")),
    ]
    return _base(layers, height=220, describe=describe, transform=[both, zero])


def spreads(tips: Sequence[tuple[str, str, str]], *, describe: str, colours: Mapping[str, str] = NAMED) -> Spec:
    """Lengths by band: fields ``label``, ``p10`` to ``p90``; a line for four fifths of the traces, a bar for half, a tick."""
    y = _label("label")
    title = "tokens (bar: half, line: 80 %)"

    def reach(low: str, high: str, mark: Spec) -> Spec:
        return {"mark": mark, "encoding": {"y": y, "x": _log(low, title), "x2": {"field": high}, "tooltip": _tips(tips)}}

    layers = [
        reach("p10", "p90", {"type": "rule", "strokeWidth": 1.5, "color": colours["blue"]}),
        reach("p25", "p75", {"type": "bar", "height": {"band": 0.55}, "color": colours["blue"], "opacity": 0.55}),
        {"mark": {"type": "tick", "thickness": 3, "bandSize": 18, "color": colours["ink"]}, "encoding": {"y": y, "x": _log("p50", title), "tooltip": _tips(tips)}},
        _rule(colours, _log("bound", title)),
    ]  # fmt: skip
    return _base(layers, height={"step": 30}, describe=describe)


def _label(field: str, *, title: str | None = None) -> Spec:
    axis = {"title": title, "ticks": False, "domain": False, "labelPadding": 8}
    return {"field": field, "type": "nominal", "sort": None, "axis": axis}


def nested(
    series: Sequence[tuple[str, str, str]],
    tips: Sequence[tuple[str, str, str]],
    *,
    label: str,
    axis: str,
    describe: str,
    colours: Mapping[str, str] = NAMED,
    step: int = 34,
) -> Spec:
    """Bars within bars, widest first: each (field, name, colour) is part of the one before."""
    scale = _colour([(name, colour) for _, name, colour in series], colours)
    heights = (0.86, 0.6, 0.34)
    layers = [
        {
            **_series(name, scale)[0],
            "mark": {"type": "bar", "height": {"band": heights[i]}},
            "encoding": {
                "y": _label(label),
                "x": {
                    "field": field,
                    "type": "quantitative",
                    "stack": None,
                    "axis": {"title": axis, "format": "~s", "tickCount": 6},
                },
                "color": _series(name, scale)[1],
                "tooltip": _tips(tips),
            },
        }
        for i, (field, name, _) in enumerate(series)
    ]
    return _base(layers, height={"step": step}, describe=describe)


def pairs(
    series: Sequence[tuple[str, str, str]],
    tips: Sequence[tuple[str, str, str]],
    *,
    label: str,
    describe: str,
    axis: str,
    colours: Mapping[str, str] = NAMED,
    whole: bool = True,
) -> Spec:
    """Two shares a row as points joined by a line: (field, name, colour) twice. ``whole``: the axis goes to 100 %."""
    scale = _colour([(name, colour) for _, name, colour in series], colours)
    (first, *_), (second, *_) = series
    x = {"x": _share(first, axis, whole=whole)}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "color": colours["faint"], "aria": False},
            "encoding": {"y": _label(label), **x, "x2": {"field": second}},
        }
    ]
    layers += [
        {
            **_series(name, scale)[0],
            "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1, "shape": shape},
            "encoding": {
                "y": _label(label),
                "x": _share(field, axis, whole=whole),
                "color": _series(name, scale)[1],
                "tooltip": _tips(tips),
            },
        }
        for (field, name, _), shape in zip(series, ("circle", "diamond"), strict=True)
    ]
    return _base(layers, height={"step": 32}, describe=describe)


def bars(
    field: str,
    tips: Sequence[tuple[str, str, str]],
    *,
    label: str,
    axis: str,
    describe: str,
    colours: Mapping[str, str] = NAMED,
    share: bool = False,
    good: str | None = None,
    upright: bool = False,
) -> Spec:
    """One bar a row; the row named ``good`` stands out."""
    colour: Spec = {"value": colours["blue"]}
    if good is not None:
        colour = {"condition": {"test": {"field": label, "equal": good}, "value": colours["blue"]}, "value": colours["grey"]}
    value = (
        _share(field, axis)
        if share
        else {"field": field, "type": "quantitative", "axis": {"title": axis, "format": "~s", "tickCount": 6}}
    )
    encoding = {"y": _label(label), "x": value, "color": colour, "tooltip": _tips(tips)}
    if upright:
        value = value | {"axis": {"title": "problems", "format": "~s", "tickCount": 5}}
        across = {"field": label, "type": "ordinal", "sort": None, "axis": {"title": axis, "labelAngle": 0, "ticks": False}}
        encoding = {"x": across, "y": value, "color": colour, "tooltip": _tips(tips)}
    mark = {"type": "bar", "height": {"band": 0.66}} if not upright else {"type": "bar", "width": {"band": 0.8}}
    layer = [{"mark": mark, "encoding": encoding}]
    return _base(layer, height=200 if upright else {"step": 28}, describe=describe)


def cards(tips: Sequence[tuple[str, str, str]], *, describe: str, colours: Mapping[str, str] = NAMED) -> Spec:
    """What fits: fields ``label``, ``safe``, ``may``; a bar to the safe length, a line to the one that may work."""
    y, title = _label("label"), "tokens of the longest trace"

    def to(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "axis": {"title": title, "format": ",.0f", "tickCount": 4}}

    layers = [
        {"mark": {"type": "rule", "strokeWidth": 2, "color": colours["grey"]}, "encoding": {"y": y, "x": to("safe"), "x2": {"field": "may"}, "tooltip": _tips(tips)}},
        {"mark": {"type": "bar", "height": {"band": 0.6}, "color": colours["green"]}, "encoding": {"y": y, "x": to("safe"), "tooltip": _tips(tips)}},
        _rule(colours, to("bound")),
    ]  # fmt: skip
    return _base(layers, height={"step": 30}, describe=describe)
