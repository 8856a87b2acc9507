"""The yield curve as a small static picture for a card: SVG written here, drawn as PNG by vl-convert's resvg.

Not by Vega-Lite, which draws the report: it takes a second and a half of processor time and 150 MB for this one picture, as much as
compressing the rows of a selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

from curate.charts import LIGHT
from curate.plain import plural

WIDTH, HEIGHT = 683, 340
LEFT, RIGHT, TOP, BOTTOM = 52, 672, 56, 296
LETTER: Final = 5.6
"""Pixels of a letter of the legend, about."""
SERIES: Final = (
    ("shortest", "the shortest passing trace fits", "blue"),
    ("first", "the first fits", "orange"),
    ("longest", "even the longest fits", "green"),
)


def png(yielded: Mapping[str, Any], *, bound: int | None = None) -> bytes | None:
    """The picture of what ``yield --json`` says; the same bytes for the same facts and version of vl-convert.

    None where nothing can be drawn (see ``svg``), or the extra [report] is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        return None
    drawn = svg(yielded, bound=bound)
    return None if drawn is None else bytes(vl_convert.svg_to_png(drawn, scale=1.5))


def svg(yielded: Mapping[str, Any], *, bound: int | None = None) -> str | None:
    """Share of problems kept against the bound, on a logarithmic axis; ``bound`` is marked where the axis reaches it.

    None with fewer than two bounds, or with no problem that can be kept.
    """
    rows = [row for row in yielded["bounds"] if row["max_tokens"] is not None]
    total = yielded["problems_with_passing"]
    if len(rows) < 2 or not total:
        return None
    choosing = any(key != "1" for key in yielded["choices"])
    series = SERIES if choosing else SERIES[:1]
    low, high = (math.log2(rows[i]["max_tokens"]) for i in (0, -1))

    def x(tokens: int) -> float:
        return LEFT + (math.log2(tokens) - low) / (high - low) * (RIGHT - LEFT)

    def y(share: float) -> float:
        return BOTTOM - share * (BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="Liberation Sans" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{LIGHT["paper"]}"/>',
        _text(
            14, 24, f"Problems kept, of {plural(total, 'problem')} with a passing trace", "ink", 'font-size="14" font-weight="bold"'
        ),
    ]
    at = float(LEFT)
    for _, name, colour in series:
        parts += [f'<rect x="{at:.1f}" y="38" width="11" height="11" fill="{LIGHT[colour]}"/>', _text(at + 16, 48, name, "soft")]
        at += 16 + LETTER * len(name) + 12
    for fifth in range(6):
        parts += [_line(LEFT, y(fifth / 5), RIGHT, y(fifth / 5), "grid" if fifth else "grey")]
        parts += [_text(LEFT - 7, y(fifth / 5) + 4, f"{20 * fifth}%", "soft", 'text-anchor="end"')]
    parts += [_line(LEFT, TOP, LEFT, BOTTOM, "grey"), *_ticks([row["max_tokens"] for row in rows], x)]
    parts += [_text((LEFT + RIGHT) / 2, BOTTOM + 36, "longest trace allowed, tokens", "soft", 'text-anchor="middle"')]
    if bound and low <= math.log2(bound) <= high:
        parts += [_line(x(bound), TOP, x(bound), BOTTOM, "ink", 'stroke-width="1.5" stroke-dasharray="5,3"')]
    for key, _, colour in reversed(series):  # the shortest lies on top
        points = [(x(row["max_tokens"]), y(row["problems"][key] / total)) for row in rows]
        joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{LIGHT[colour]}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.2" fill="{LIGHT[colour]}"/>' for a, b in points]
    return "\n".join([*parts, "</svg>"])


def _ticks(bounds: list[int], x: Callable[[int], float]) -> list[str]:
    """A mark at each bound, with its number where that does not touch the one before or the last."""
    parts, free = [], -math.inf
    last = x(bounds[-1]) - LETTER * len(f"{bounds[-1]:,}")
    for i, tokens in enumerate(bounds):
        here, half = x(tokens), LETTER * len(f"{tokens:,}") / 2
        parts.append(_line(here, BOTTOM, here, BOTTOM + 5, "grey"))
        ends = i == len(bounds) - 1
        begin = last if ends else here if i == 0 else here - half
        if ends or (begin >= free and begin + 2 * half + 8 <= last):
            anchor = "end" if ends else "start" if i == 0 else "middle"
            parts.append(_text(here, BOTTOM + 18, f"{tokens:,}", "soft", f'text-anchor="{anchor}"'))
            free = begin + 2 * half + 8
    return parts


def _text(x: float, y: float, text: str, colour: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{LIGHT[colour]}" {more}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{LIGHT[colour]}" {more}/>'
