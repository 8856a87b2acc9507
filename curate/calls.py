"""Inside the sandbox: calls one function of the program with JSON arguments and writes its JSON result; compares nothing.

Never imported by ``curate``; ``inside.py`` runs it in place of the program. stdin holds ``{"call": name, "args": [...]}``.
"""

import builtins
import json
import os
import sys
from typing import Any

# What the sites that ask for a function import for their users.
PRELUDE = "from typing import *\nfrom collections import *\nfrom functools import *\nfrom itertools import *\nfrom heapq import *\n"
PRELUDE += "from bisect import *\nfrom math import *\nimport collections, functools, itertools, heapq, bisect, math, re, string\n"


def plain(value: Any) -> Any:
    """JSON of what tests compare: a tuple is a list, a set is a sorted list."""
    return sorted(value) if isinstance(value, set | frozenset) else repr(value)


def find(space: dict[str, Any], name: str) -> Any:
    """The function, or the method of a class ``Solution``."""
    return space[name] if name in space else getattr(space["Solution"](), name)


def answer() -> None:
    request = json.loads(sys.stdin.read())
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the function prints is no result
    module = type(sys)("solution")
    module.__dict__["__builtins__"] = builtins
    sys.modules["solution"] = module
    exec(PRELUDE, module.__dict__)
    exec(LOAD(sys.argv[0]), module.__dict__)  # type: ignore[name-defined]  # noqa: F821 - put there by inside.py
    result = find(module.__dict__, request["call"])(*request["args"])
    data = json.dumps(result, default=plain).encode()
    while data:
        data = data[os.write(out, data) :]
    os._exit(0)


if "LOAD" in globals():
    answer()
