"""Options that several commands share, and what they are made into: a request, rules, a progress bar, one printed result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from curate.plain import safe

if TYPE_CHECKING:
    from curate.api import Reading
    from curate.cluster import Cluster
    from curate.opening import Request

F = TypeVar("F", bound=Callable[..., Any])
FILE: Final = click.Path(path_type=Path)
ROLES: Final = (
    "problem",
    "trace",
    "prompt",
    "messages",
    "reasoning",
    "passed",
    "finish",
    "difficulty",
    "tokens",
    "aliases",
    "where",
)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(f: F) -> F:
        for option in reversed(options):
            f = option(f)
        return f

    return decorate


source_options = together(
    click.argument("sources", nargs=-1, metavar="[SOURCE]..."),
    click.option(
        "--problem", metavar="COL", help="Column of the problem's id. Default: problem_id, id, uuid, problem; else the prompt."
    ),
    click.option(
        "--trace", metavar="COL", help="Column of the trace, or of a list of traces: a path such as solutions[].solution."
    ),
    click.option("--prompt", metavar="COL", help="Column of the prompt."),
    click.option("--messages", metavar="COL", help="Column of chat turns; the trace is the last assistant turn."),
    click.option("--reasoning", metavar="COL", help="Column of the reasoning, where the trace holds the answer alone."),
    click.option("--passed", metavar="COL", help="Column of verdicts, or an SQL expression that says when a trace passes."),
    click.option("--finish", metavar="COL", help="Column that says how generation ended (stop, length, ...)."),
    click.option(
        "--difficulty", metavar="COL", help="Column of difficulty, larger is harder; or words such as easy, medium, hard."
    ),
    click.option("--labels", metavar="A,B,C", help="The words of the difficulty, easy to hard, where their order is not known."),
    click.option("--difficulty-from", metavar="TABLE", help="File with problem ids and difficulties to join."),
    click.option("--aliases", metavar="COL", help="List column of other ids of the same problem: they are folded into one."),
    click.option("--verdicts", type=FILE, metavar="FILE", help="Verdicts that `curate verify` wrote."),
    click.option("--min-tests", type=click.IntRange(min=1), metavar="N", help="With --verdicts: a pass on fewer tests is unknown."),
    click.option("--presets", type=FILE, metavar="FILE", help="Your own known data sets (TOML), beside the built-in ones."),
    click.option("--where", metavar="EXPR", help="Read only traces for which this SQL expression holds."),
    click.option("--split", default="train", show_default=True, help="Which split to read."),
    click.option("--skip-bad-rows", is_flag=True, help="Leave lines that cannot be parsed out, and count them."),
    click.option("--sample", type=int, metavar="N", help="Read N rows of each source, drawn at random (see --seed)."),
    click.option("--seed", type=int, default=0, show_default=True, help="For --sample and the policy random."),
)
count_options = together(
    click.option("--tokenizer", metavar="NAME", help="Count exactly: a Hub id, a folder, or a tokenizer.json."),
    click.option("--chat-template", type=FILE, metavar="FILE", help="A chat template instead of the tokenizer's own."),
    click.option("--estimate", metavar="RULE", help="Estimate: chars/3.6 or bytes/4, rounded down."),
    click.option("--tokens", metavar="COL", help="Use the publisher's counts in this column."),
    click.option(
        "--count",
        type=click.Choice(["sample", "trace"]),
        default="sample",
        show_default=True,
        help="Count the whole sample, or the trace alone.",
    ),
    click.option("--no-cache", is_flag=True, help="Neither use nor keep counted lengths."),
)
rule_options = together(
    click.option(
        "--passing",
        type=click.Choice(["known", "not-failed", "finished"]),
        default="known",
        show_default=True,
        help="Which traces pass: a true verdict; no false one; any finished trace.",
    ),
    click.option(
        "--thinking", type=click.Choice(["required", "optional"]), help="Whether a trace must think. Default: the data decide."
    ),
)
output_options = together(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text."),
    click.option("-q", "--quiet", is_flag=True, help="Neither progress nor notes on stderr."),
)


def request_of(o: dict[str, Any], *, details: bool = False) -> Request:
    from curate import last
    from curate.layout import Columns
    from curate.opening import Request

    roles = {k: o.pop(k, None) for k in ROLES}
    group = o.pop("by", None)
    return Request(
        sources=last.resolve(o.pop("sources"), note=note_of(o["quiet"])),
        columns=Columns(**roles, group=group),
        split=o.pop("split"),
        tokenizer=o.pop("tokenizer", None),
        chat_template=o.pop("chat_template", None),
        estimate=o.pop("estimate", None),
        count=o.pop("count", "sample"),
        difficulty_from=o.pop("difficulty_from"),
        labels=tuple(w.strip() for w in (o.pop("labels") or "").split(",") if w.strip()),
        verdicts=o.pop("verdicts"),
        min_tests=o.pop("min_tests"),
        presets=o.pop("presets"),
        skip_bad_rows=o.pop("skip_bad_rows"),
        sample=o.pop("sample"),
        seed=o.get("seed", 0),
        use_cache=not o.pop("no_cache", False),
        details=details,
    )


def note_of(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else (lambda text: click.echo(safe(text), err=True))


@contextmanager
def bar(quiet: bool, what: str) -> Iterator[tuple[Callable[[int], object], Callable[[int], object]]]:
    """A progress bar on stderr where that is a terminal: functions that set its total and move it on."""
    from tqdm import tqdm

    with tqdm(total=0, unit=" rows", desc=what, disable=True if quiet else None, leave=False, file=sys.stderr) as shown:

        def total(n: int) -> None:
            shown.total = n
            shown.refresh()

        yield total, shown.update


def cluster_of(engine: str, request: Request) -> Cluster | None:
    """The workers that ``--engine`` names; None for this machine alone."""
    if engine == "local":
        return None
    from curate import cluster

    return cluster.Cluster(request)


def reading_of(request: Request, quiet: bool, *, engine: str = "local") -> Reading:
    from curate import api, last

    with bar(quiet, "Reading") as (total, progress):
        workers = cluster_of(engine, request)
        reading = api.fill(request, progress=progress, total=total, note=note_of(quiet), cluster=workers)
    last.remember(request.sources)
    return reading


def rules_of(o: dict[str, Any], **more: Any) -> Any:
    from curate.selection import Rules

    return Rules(passing=o["passing"], thinking=o["thinking"], seed=o["seed"], **more)


def show(as_json: bool, facts: dict[str, Any], text: Callable[[], str]) -> None:
    click.echo(json.dumps(facts, ensure_ascii=False) if as_json else text())


def bars() -> bool:
    """Whether a table may have bars: stdout is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
