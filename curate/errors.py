"""What a user can act on: one sentence that says what, where, and the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CurateError(Exception):
    """A fault of the input or of the request, never of the program.

    The message is one or two sentences: what is wrong, where (file, line, column), and what to do next. The command line
    prints it after ``Error:`` and exits with 1; a library user catches it. A bug keeps its traceback.
    """


class UsageError(CurateError):
    """Options that contradict each other or name nothing: refused before any work, exit 2."""


def near(word: str, known: Iterable[str], *, n: int = 3) -> str:
    """A clause that offers the names nearest to a mistyped one, or an empty string.

    >>> near("raitng", ["rating", "id"])
    ' Did you mean rating?'
    """
    close = difflib.get_close_matches(word, list(known), n=n, cutoff=0.6)
    return f" Did you mean {' or '.join(close)}?" if close else ""
