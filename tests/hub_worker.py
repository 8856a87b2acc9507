"""A real client process that tests can start often and kill: it imports once and forks for every job.

Run as ``python -m tests.hub_worker`` with the environment of a client. Each line on stdin is a job, ``{"do": "push", ...}`` or
``{"do": "load", ...}``; the answers on stdout are the job's ``pid``, its result or ``error``, and its ``exit`` status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Worker:
    """The test's side of one worker process."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hub_worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | dict(env),
        )  # fmt: skip

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate("", timeout=60)

    def start(self, **job: Any) -> int:
        """Send a job; the pid of the process that does it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self._line()["pid"])

    def wait(self) -> dict[str, Any]:
        """What the job answered; ``{"exit": -9}`` when it was killed."""
        answer: dict[str, Any] = {}
        while "exit" not in answer:
            answer |= self._line()
        return answer

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def push(self, out: Path, repo: str, **options: Any) -> dict[str, Any]:
        self.start(do="push", out=str(out), repo=repo, **options)
        return self.wait()

    def load(self, *names: str, **options: Any) -> dict[str, Any]:
        self.start(do="load", names=names, **options)
        return self.wait()


def push(job: dict[str, Any]) -> dict[str, Any]:
    from curate import hub
    from curate.errors import CurateError

    waits: list[float] = []
    said: list[str] = []
    out, repo = Path(job.pop("out")), job.pop("repo")
    try:
        done = hub.push(out, repo, sleep=waits.append, notify=said.append, **job)
    except CurateError as fault:
        return {"error": str(fault), "kind": type(fault).__name__, "waits": waits, "said": said}
    return {**done.json(), "card": done.card, "waits": waits, "said": said}


def load(job: dict[str, Any]) -> dict[str, Any]:
    """``load_dataset`` as a stranger calls it: rows and features of every split."""
    import datasets

    found = datasets.load_dataset(*job["names"], revision=job.get("revision"))
    return {split: {"rows": rows.num_rows, "features": sorted(rows.features)} for split, rows in found.items()}


def main() -> None:
    import datasets  # noqa: F401
    import huggingface_hub  # noqa: F401

    from curate import hub  # noqa: F401

    jobs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"push": push, "load": load}
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            print(json.dumps({"pid": os.getpid()}), flush=True)
            time.sleep = lambda _: None  # the client's own waits between tries
            print(json.dumps(jobs[job.pop("do")](job)), flush=True)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        print(json.dumps({"exit": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
