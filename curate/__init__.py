"""Choose which reasoning traces to fine-tune on: exact token counts, yield at every bound, the shortest passing trace, never cut.

    import curate

    reading = curate.read("traces.parquet", tokenizer="Qwen/Qwen3-8B")
    table = curate.yield_table(reading.ledger, reading.meta, bounds=[8192, 16384])
    print(table.bounds[0].problems.shortest, "of", table.with_passing)

Names are loaded when they are first used, so that ``import curate`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curate.api import Reading, Selected, Shape, read, select
    from curate.errors import CurateError, UsageError
    from curate.explain import diff as compare
    from curate.explain import why as why_kept
    from curate.layout import Columns
    from curate.ledger import Meta
    from curate.ledger import from_file as read_ledger
    from curate.opening import Request
    from curate.report import draw
    from curate.report import html as report_html
    from curate.report import markdown as report_markdown
    from curate.selection import Rules
    from curate.selection import choose as choose_traces
    from curate.selection import mark as mark_traces
    from curate.skew import Skew, skew_table
    from curate.yields import Yield, yield_table
    from curate.yields import by as yield_by_group

_PLACES = {
    "Columns": ("layout", "Columns"),
    "CurateError": ("errors", "CurateError"),
    "Meta": ("ledger", "Meta"),
    "Reading": ("api", "Reading"),
    "Request": ("opening", "Request"),
    "Rules": ("selection", "Rules"),
    "Selected": ("api", "Selected"),
    "Shape": ("api", "Shape"),
    "Skew": ("skew", "Skew"),
    "UsageError": ("errors", "UsageError"),
    "Yield": ("yields", "Yield"),
    "choose_traces": ("selection", "choose"),
    "compare": ("explain", "diff"),
    "draw": ("report", "draw"),
    "mark_traces": ("selection", "mark"),
    "read": ("api", "read"),
    "read_ledger": ("ledger", "from_file"),
    "report_html": ("report", "html"),
    "report_markdown": ("report", "markdown"),
    "select": ("api", "select"),
    "skew_table": ("skew", "skew_table"),
    "why_kept": ("explain", "why"),
    "yield_by_group": ("yields", "by"),
    "yield_table": ("yields", "yield_table"),
}

__all__ = [
    "Columns",
    "CurateError",
    "Meta",
    "Reading",
    "Request",
    "Rules",
    "Selected",
    "Shape",
    "Skew",
    "UsageError",
    "Yield",
    "choose_traces",
    "compare",
    "draw",
    "mark_traces",
    "read",
    "read_ledger",
    "report_html",
    "report_markdown",
    "select",
    "skew_table",
    "why_kept",
    "yield_by_group",
    "yield_table",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module, attribute = _PLACES[name]
        return getattr(import_module(f"curate.{module}"), attribute)
    raise AttributeError(f"module 'curate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
