"""A panel of the report: a finding, a table, a note, and the chart of that table; what cannot be shown is said instead.

A panel that moves with the slider has one title and one table for each stop. HTML and Markdown are made from the same panels, so
they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from curate import charts
from curate.report_data import Data

Column = tuple[str, str, str]
"""Field, heading, and kind: ``text``, ``n`` (a count), ``share``, ``tokens`` (a large count), ``x`` (two decimals), ``hide``."""

Row = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One finding. ``titles`` and ``tables`` have one element, or one for each stop; ``chart`` None where nothing can be drawn."""

    key: str
    part: str
    titles: list[str]
    columns: list[Column]
    tables: list[list[Row]]
    chart: charts.Spec | None = None
    note: str = ""
    legend: str = ""
    """Words about what the chart draws, of no use without it."""

    @property
    def moves(self) -> bool:
        return len(self.tables) > 1 or len(self.titles) > 1


PARTS = {
    "yield": "What each length keeps",
    "lengths": "How long the traces are",
    "skew": "Which problems go",
    "choice": "Which trace to choose",
    "composition": "What the set is made of",
    "cost": "What it costs",
    "funnel": "Where every trace went",
}
"""Headings of the page, in its order."""


def nothing(key: str, part: str, title: str, note: str) -> Panel:
    """A panel that says what it cannot show."""
    return Panel(key=key, part=part, titles=[title], columns=[], tables=[[]], note=note)


def what(data: Data) -> str:
    return "finished trace" if data.made.unverified else "passing trace"


def share_of(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def in_tokens(stop: int) -> str:
    return f"{stop:,} tokens"
