"""Text of unknown origin in Markdown: shown as it is, unable to end a mark, a table, a code block or a line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence


def md(text: object, *, limit: int = 200) -> str:
    """Text of unknown origin as Markdown that shows it literally, on one line, also within a table.

    >>> md("a|b <script> *x*")
    'a\\\\|b &lt;script&gt; \\\\*x\\\\*'
    """
    line = " ".join(printable(str(text)).split())
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([\\`*\[\]|~$])", r"\\\1", line)
    # Within a word an underscore is only an underscore.
    line = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", line)
    # The Hub turns bare addresses and @names into links.
    return line.replace("://", ":&#47;&#47;").replace("@", "&#64;").replace("www.", "www&#46;")


def code(text: object, *, limit: int = 200) -> str:
    """Text of unknown origin as inline code, also within a table.

    >>> code("a`b")
    '``a`b``'
    """
    line = " ".join(printable(str(text)).split()).replace("|", "\\|")[:limit] or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def command(words: Sequence[str]) -> str:
    """A command line as one line of a shell, in a fence that nothing in it can close."""
    line = " ".join(_shell(word) for word in words)
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence}sh\n{line}\n{fence}"


def _shell(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def printable(text: str) -> str:
    """Without control characters and without those that change the direction of writing."""
    return "".join(c if c.isprintable() or c.isspace() else " " for c in text)
