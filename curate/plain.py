"""Text for a terminal: numbers with separators, columns that line up, lines of a readable width, no byte that steers a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 100
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(text: object) -> str:
    """Text of unknown origin for one line: control and direction characters become visible escapes.

    >>> safe("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _UNPRINTABLE.sub(lambda m: m[0].encode("unicode_escape").decode(), str(text))


def n(count: float | None) -> str:
    """A number with separators, rounded to a whole; a dash for none."""
    return "-" if count is None else f"{round(count):,}"


def percent(part: float | None, whole: float | None = 1.0, *, digits: int = 0) -> str:
    """A share in percent, never rounded up to 100 or down to 0; a dash where there is nothing to divide.

    >>> percent(999, 1000), percent(1, 1000), percent(1, 0)
    ('>99%', '<1%', '-')
    """
    if part is None or not whole:
        return "-"
    share = 100 * part / whole
    shown = f"{share:.{digits}f}"
    if share < 100 and float(shown) >= 100:
        return f">{100 - 10**-digits:.{digits}f}%"
    if share > 0 and float(shown) == 0:
        return f"<{10**-digits:.{digits}f}%"
    return shown + "%"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "trace"), plural(2, "trace")
    ('1 trace', '2 traces')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def millions(count: float | None) -> str:
    """Tokens of a set, three figures: 269M, 1.2M, 34k."""
    if count is None:
        return "-"
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:  # 999,999 is 1.0M, not 1000k
            value = count / size
            return f"{value:.0f}{unit}" if value >= 100 else f"{value:.1f}{unit}"
    return f"{count:.0f}"


def table(rows: Sequence[Sequence[str]], *, left: int = 1, indent: str = "  ") -> list[str]:
    """Lines with columns as wide as their widest cell; the first ``left`` aligned to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        (
            indent + "  ".join(c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        ).rstrip()
        for row in rows
    ]


def wrap(text: str, *, indent: str = "", width: int = WIDTH) -> list[str]:
    """Lines of at most ``width`` characters; ``indent`` before all but the first."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
