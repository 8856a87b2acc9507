"""A process that compares mathematical answers through math-verify, one JSON line in, one out.

Never imported by ``curate``: ``judge_math.py`` starts it and kills it by the clock, because the library is known to hang in spite
of its own timeouts (they rest on signals, which a long C call ignores). It has a memory limit for the same reason: ``9**9**9``.

In: ``{"gold": text, "answer": text}``; out: ``{"same": true | false}`` or ``{"note": why nothing can be said}``.
"""

import json
import logging
import resource
import sys


def compare(gold: str, answer: str) -> dict[str, object]:
    from math_verify import parse, verify

    want = parse(gold, parsing_timeout=None)
    if not want:
        return {"note": "the reference answer cannot be read"}
    have = parse(answer, parsing_timeout=None)
    return {"same": bool(have) and bool(verify(want, have, timeout_seconds=None))}


def serve() -> None:
    logging.disable(logging.CRITICAL)  # "timeout is disabled": it is kept by whoever started this process
    import math_verify  # noqa: F401 - the slow import, before the clock starts

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    out, sys.stdout = sys.stdout, sys.stderr
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said = compare(asked["gold"], asked["answer"])
        except MemoryError:
            said = {"note": "math-verify ran out of memory"}
        except Exception as error:  # whatever the library trips over is no verdict
            said = {"note": f"math-verify failed: {type(error).__name__}"}
        print(json.dumps(said), file=out, flush=True)


if __name__ == "__main__":
    serve()
