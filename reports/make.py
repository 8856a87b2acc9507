"""Make ``sample.html``, the report of the synthetic sample: `python reports/make.py`."""

from __future__ import annotations

from pathlib import Path

from curate import api, memory, report
from curate.layout import Columns
from curate.opening import Request
from curate.selection import Rules

HERE = Path(__file__).parent
COMMAND = (
    "curate",
    "report",
    "data/sample.parquet",
    "--by",
    "tag",
    "--model",
    "qwen2.5-3b",
    "--gpu",
    "t4",
    "-o",
    "reports/sample.html",
)


def make() -> str:
    """The report as HTML; lengths are the default estimate, so that its range shows."""
    request = Request(sources=(str(HERE.parent / "data" / "sample.parquet"),), columns=Columns(group="tag"), use_cache=False)
    reading = api.fill(request)
    fits = memory.table("qwen2.5-3b", ["t4"])
    return report.html(reading.ledger, reading.meta, rules=Rules(), fits=fits, command=COMMAND, by="tag")


if __name__ == "__main__":
    (HERE / "sample.html").write_text(make(), encoding="utf-8")
