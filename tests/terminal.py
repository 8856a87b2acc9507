"""Command lines typed in a test, in this process: what stood on stdout and stderr, and the exit status."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from click.testing import CliRunner

from curate.cli import main

CHARS = ("--count", "trace", "--estimate", "chars/3.6")
"""The rule of the published figures: characters of the trace alone, divided by 3.6 and rounded down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    status: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        """The one object of ``--json``."""
        assert self.status == 0, self.err
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def curate(*words: object) -> Typed:
    """Type ``curate WORDS`` in the current folder."""
    done = CliRunner().invoke(main, [str(w) for w in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Typed(status=done.exit_code, out=done.stdout, err=done.stderr)


def facts(*words: object) -> dict[str, Any]:
    """The object that ``curate WORDS --json`` prints."""
    return curate(*words, "--json", "-q").facts


def at(found: dict[str, Any], bound: int | None) -> dict[str, Any]:
    """One bound of a yield."""
    [one] = [b for b in found["bounds"] if b["max_tokens"] == bound]
    assert isinstance(one, dict)
    return one


def texts(out: Path) -> list[str]:
    """The traces of an output of ``messages``: the last turn of each row, in order."""
    rows = pl.scan_parquet(out / "data").collect()
    return [turns[-1]["content"] for turns in rows["messages"]]


def listed(folder: Path) -> list[str]:
    """All files below a folder, relative to it."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
