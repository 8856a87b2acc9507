"""Runs the command line in forks of one warm process, each with one fault. Started by ``test_faults.py``; one JSON request a line.

A request: ``argv`` and ``cwd``; ``under``, the folder whose changes are counted (creating, writing, renaming, deleting; what Python does,
by its audit events); ``fault``: ``kill``, ``interrupt`` or an errno's name, which hits at change number ``at``; or ``signal`` after
``seconds``; ``limits``: resource limits by name; ``clock``: seconds by which the clock jumps at every look. The answer: exit status
(minus the signal), changes counted, stdout and stderr.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from curate import api, cli, output  # noqa: F401  warm before the fork

with contextlib.suppress(ImportError):
    import altair  # noqa: F401

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def watch(request: dict[str, Any], counted: int) -> None:
    """Count changes into the file ``counted``, and let the fault happen at its turn."""
    under, fault, at = str(request["under"]), request.get("fault"), request.get("at")
    number = itertools.count(1)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if not (isinstance(args[0], str) and args[0].startswith(under) and (args[2] or 0) & WRITING):
                return
        elif event not in CHANGES or not str(args[0]).startswith(under):
            return
        n = next(number)
        os.pwrite(counted, str(n).encode(), 0)
        if n == at and fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if n == at and fault == "interrupt":
            raise KeyboardInterrupt
        if at is not None and n >= at and fault in errno.errorcode.values():
            raise OSError(getattr(errno, fault), os.strerror(getattr(errno, fault)), args[0])

    sys.addaudithook(hook)


def child(request: dict[str, Any], counted: int) -> None:
    os.chdir(request["cwd"])
    for name, value in request.get("limits", {}).items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if jump := request.get("clock"):
        real, looks = time.time_ns, itertools.count()
        time.time_ns = lambda: real() + int(jump * 1e9) * next(looks)
    watch(request, counted)
    cli.main(request["argv"])


def run(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as counted:
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            status = 1
            try:
                child(request, counted.fileno())
            except SystemExit as e:
                status = int(e.code or 0)
            except BaseException:
                import traceback

                traceback.print_exc()
                status = 70
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        if "seconds" in request:
            until = time.monotonic() + request["seconds"]
            while time.monotonic() < until:
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                    break
                time.sleep(0.005)
            else:
                os.kill(pid, getattr(signal, request["signal"]))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = [os.pread(f.fileno(), 1 << 20, 0).decode() for f in (counted, out, err)]
        return {"status": status, "changes": int(texts[0] or 0), "out": texts[1], "err": texts[2]}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
