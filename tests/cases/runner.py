"""How the cases run ``curate``: in this process where they can, in a fresh one where they must."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from click.testing import CliRunner

from curate.cli import main
from tests.cases.checks import Result


def run(*arguments: str, env: Mapping[str, str] | None = None, fresh: bool = False) -> Result:
    """In this process, which saves a second of imports for each of some hundred commands; in a fresh one where asked."""
    start = time.monotonic()
    if fresh:
        command = [sys.executable, "-c", "from curate.cli import main; main()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
        return Result(code=done.returncode, out=done.stdout, err=done.stderr, seconds=time.monotonic() - start)
    came = CliRunner(env=env).invoke(main, list(arguments))
    if came.exception is not None and not isinstance(came.exception, SystemExit):
        raise came.exception
    return Result(code=came.exit_code, out=came.stdout, err=came.stderr, seconds=time.monotonic() - start)
