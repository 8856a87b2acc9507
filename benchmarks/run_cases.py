"""Run the 36 cases of a folder through the command line and print a table: case, what, expected, got, ok.

    python benchmarks/run_cases.py FOLDER                       case.json and inputs, one folder a case
    python benchmarks/run_cases.py FOLDER --only 48,60 --all    some cases, every comparison
    python benchmarks/run_cases.py                              the project's own inputs

Each command is a fresh process, as a user starts it. The three cases that speak of the Qwen3 tokenizer look for it in
``FOLDER/../tokenizers/qwen3`` or where ``--qwen3`` says. Exit 1 when a comparison fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.cases.checks import CHECKS, Case, Result, judge  # noqa: E402
from tests.cases.make_inputs import MAKERS  # noqa: E402
from tests.hub_server import LoopbackHub  # noqa: E402


class Process:
    """Runs ``curate`` in fresh processes with a cache and a Hub folder of its own."""

    def __init__(self, home: Path, work: Path) -> None:
        self.work = work
        self.env = os.environ | {"XDG_CACHE_HOME": str(home / "cache"), "HF_HOME": str(home / "hub"), "COLUMNS": "200"}

    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None, fresh: bool = False) -> Result:
        del fresh  # every process here is
        start = time.monotonic()
        command = [sys.executable, "-c", "from curate.cli import main; main()", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**self.env, **(env or {})}, check=False, cwd=self.work, timeout=900
        )
        return Result(code=done.returncode, out=done.stdout, err=done.stderr, seconds=time.monotonic() - start)


def short(value: Any, width: int = 60) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def one(number: str, folder: Path | None, *, qwen3: Path) -> tuple[str, list[tuple[str, Any, Any, bool]], float]:
    """The name of a case, its comparisons and its seconds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (work := home / "work").mkdir()
        if folder is None:
            (inputs := home / "inputs").mkdir()
            expected, title, tokenizer = MAKERS[number](inputs), number, inputs / "tok"
        else:
            told = json.loads((folder / "case.json").read_text(encoding="utf-8"))
            inputs, expected, title, tokenizer = folder, told["expected"], folder.name, qwen3
        case = Case(
            folder=inputs,
            work=work,
            expected=expected,
            run=Process(home, work),
            tokenizer=tokenizer if (tokenizer / "tokenizer.json").exists() else None,
            hub=LoopbackHub,
        )
        rows = judge(case, number)
    return title, rows, time.monotonic() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="two-digit numbers, comma between")
    parser.add_argument("--all", action="store_true", help="print the comparisons that hold, too")
    parser.add_argument("--qwen3", type=Path)
    args = parser.parse_args()
    folders = {p.name[:2]: p.resolve() for p in sorted(args.folder.iterdir()) if (p / "case.json").exists()} if args.folder else {}
    numbers = [n for n in args.only.split(",") if n] or list(CHECKS)
    qwen3 = args.qwen3 or (args.folder.resolve().parent / "tokenizers" / "qwen3" if args.folder else Path("none"))
    bad = 0
    for number in numbers:
        if args.folder and number not in folders:
            print(f"{number:<48} no such case in {args.folder}")
            bad += 1
            continue
        title, rows, seconds = one(number, folders.get(number), qwen3=qwen3)
        failed = [r for r in rows if not r[3]]
        bad += bool(failed)
        print(
            f"{title:<48} {len(rows) - len(failed):>2} of {len(rows):>2}  {seconds:5.1f} s  {'FAILED' if failed else 'ok'}",
            flush=True,
        )
        for what, expected, got, ok in rows if args.all else failed:
            print(
                f"    {'ok ' if ok else '** '} {short(what, 40):<40} expected {short(expected)}\n        got {short(got, 300)}",
                flush=True,
            )
    print(f"{len(numbers) - bad} of {len(numbers)} cases ok")
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main()
