"""Flags, output and the one error boundary; no logic.

Results go to stdout; progress, the mapping and warnings to stderr. Exit 0 done (also with nothing kept), 1 an error of the input, 2 an
error of the options. Heavy imports stay inside the commands: `curate --help` loads click alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from curate.errors import CurateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from curate.api import Reading
    from curate.opening import Request

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path)


class Commands(click.Group):
    """Commands in the order in which they are used, and the one place where an error becomes a sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CurateError as e:
            click.echo(f"Error: {e}", err=True)
            ctx.exit(2 if isinstance(e, UsageError) else 1)
        except KeyboardInterrupt:
            click.echo("Stopped. Nothing was left half-written.", err=True)
            ctx.exit(130)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="trace-curate", prog_name="curate")
def main() -> None:
    """Choose which reasoning traces to fine-tune on.

    SOURCE is a file (Parquet, JSON lines, JSON, CSV, Arrow), a folder, a pattern, a known data set, a Hub id or a ledger; several
    are pooled by problem. Left out, it is the last one used in this folder.

    \b
    Examples:
      curate inspect traces.parquet
      curate yield traces.parquet --bounds 8192,16384
      curate select traces.parquet --shortest --max-tokens 8192 -o out
    """


# --- shared options ---------------------------------------------------------------------------------------------------


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(f: F) -> F:
        for option in reversed(options):
            f = option(f)
        return f

    return decorate


source_options = _all(
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
    click.option("--where", metavar="EXPR", help="Read only traces for which this SQL expression holds."),
    click.option("--split", default="train", show_default=True, help="Which split to read."),
    click.option("--skip-bad-rows", is_flag=True, help="Leave lines that cannot be parsed out, and count them."),
    click.option("--sample", type=int, metavar="N", help="Read N rows of each source, drawn at random (see --seed)."),
    click.option("--seed", type=int, default=0, show_default=True, help="For --sample and the policy random."),
)
count_options = _all(
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
rule_options = _all(
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
output_options = _all(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text."),
    click.option("-q", "--quiet", is_flag=True, help="Neither progress nor notes on stderr."),
)


def _request(o: dict[str, Any], *, details: bool = False) -> Request:
    from curate import last
    from curate.layout import Columns
    from curate.opening import Request

    roles = {
        k: o.pop(k)
        for k in (
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
    }
    group = o.pop("by", None)
    return Request(
        sources=last.resolve(o.pop("sources"), note=_note(o["quiet"])),
        columns=Columns(**roles, group=group),
        split=o.pop("split"),
        tokenizer=o.pop("tokenizer"),
        chat_template=o.pop("chat_template"),
        estimate=o.pop("estimate"),
        count=o.pop("count"),
        difficulty_from=o.pop("difficulty_from"),
        labels=tuple(w.strip() for w in (o.pop("labels") or "").split(",") if w.strip()),
        verdicts=o.pop("verdicts"),
        skip_bad_rows=o.pop("skip_bad_rows"),
        sample=o.pop("sample"),
        seed=o.get("seed", 0),
        use_cache=not o.pop("no_cache"),
        details=details,
    )


def _note(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else (lambda text: click.echo(text, err=True))


@contextmanager
def _bar(quiet: bool, what: str) -> Iterator[tuple[Callable[[int], object], Callable[[int], object]]]:
    """A progress bar on stderr where that is a terminal: functions that set its total and move it on."""
    from tqdm import tqdm

    with tqdm(total=0, unit=" rows", desc=what, disable=True if quiet else None, leave=False, file=sys.stderr) as bar:

        def total(n: int) -> None:
            bar.total = n
            bar.refresh()

        yield total, bar.update


def _read(request: Request, quiet: bool) -> Reading:
    from curate import api, last

    with _bar(quiet, "Reading") as (total, progress):
        reading = api.read(request, progress=progress, total=total, note=_note(quiet))
    last.remember(request.sources)
    return reading


def _rules(o: dict[str, Any], **more: Any) -> Any:
    from curate.selection import Rules

    return Rules(passing=o["passing"], thinking=o["thinking"], seed=o["seed"], **more)


def _print(as_json: bool, facts: dict[str, Any], text: Callable[[], str]) -> None:
    click.echo(json.dumps(facts, ensure_ascii=False) if as_json else text())


# --- commands ---------------------------------------------------------------------------------------------------------


@main.command("inspect")
@source_options
@count_options
@rule_options
@output_options
def inspect_(**o: Any) -> None:
    """What is this, and what is wrong with it.

    \b
    Example:
      curate inspect traces.parquet --tokenizer Qwen/Qwen3-8B
    """
    from curate import render, survey

    reading = _read(_request(o, details=True), o["quiet"])
    facts = survey.facts(reading.ledger, reading.meta, _rules(o))
    _print(o["as_json"], facts, lambda: render.inspection(facts, reading.meta))


@main.command()
@source_options
@count_options
@rule_options
@output_options
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The ledger to write (Parquet).")
def count(**o: Any) -> None:
    """Count the tokens of every trace into a ledger.

    \b
    Example:
      curate count traces.parquet --tokenizer Qwen/Qwen3-8B -o ledger.parquet
    """
    from curate import output, render, yields

    reading = _read(_request(o, details=True), o["quiet"])
    facts = yields.facts(reading.ledger, reading.meta, _rules(o))
    output.write_ledger(o["out"], reading.ledger, reading.meta)
    _print(o["as_json"], {**facts, "out": str(o["out"])}, lambda: render.counted(facts, reading.meta, o["out"]))


@main.command("yield")
@source_options
@count_options
@rule_options
@output_options
@click.option("--bounds", metavar="N,N", help="Bounds in tokens. Default: the standard lengths that matter here.")
@click.option("--by", metavar="COL", help="The same for each value of a column: source, tag, subject.")
def yield_(**o: Any) -> None:
    """What each length bound keeps: traces, problems, hard problems.

    \b
    Examples:
      curate yield traces.parquet --estimate chars/3.6
      curate yield traces.parquet --tokenizer Qwen/Qwen3-8B --bounds 8192,16384 --by source
    """
    from curate import render, yields

    bounds = _bounds(o.pop("bounds"))
    by = o.get("by")
    request = _request(o)
    reading = _read(request, o["quiet"])
    rules = _rules(o)
    made = yields.yield_table(reading.ledger, reading.meta, bounds=bounds, rules=rules, sampled=request.sample is not None)
    groups = yields.by(reading.ledger, reading.meta, bounds=bounds, rules=rules) if by else {}
    facts = made.json() | ({"by": {k: v.json() for k, v in groups.items()}} if by else {})
    _print(o["as_json"], facts, lambda: render.yields(made, reading.meta, groups=groups, by=by))


def _bounds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        bounds = sorted({int(b.replace("_", "").strip()) for b in text.split(",") if b.strip()})
    except ValueError:
        raise UsageError(f"--bounds {text!r}: give whole numbers separated by commas, for example 8192,16384.") from None
    if not bounds or bounds[0] < 1:
        raise UsageError(f"--bounds {text!r}: a bound is at least one token.")
    return bounds


@main.command()
@source_options
@count_options
@rule_options
@output_options
@click.option("--shortest", is_flag=True, help="Keep the shortest passing trace of each problem: --policy shortest.")
@click.option(
    "--policy",
    type=click.Choice(["all", "first", "shortest", "longest", "random"]),
    help="Which passing trace of a problem to keep.",
)
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="Drop traces of more tokens, whole.")
@click.option("--choose-then-drop", is_flag=True, help="The old way: choose first, then drop what does not fit.")
@click.option("-o", "--out", type=FILE, metavar="OUT", help="Folder to write. Default: data/<source>-<policy>-<max_tokens>.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["auto", "source", "messages", "prompt-completion", "sharegpt", "alpaca"]),
    default="auto",
    show_default=True,
    help="The shape of the rows.",
)
@click.option("--columns", metavar="A,B", help="Source columns to add to the rows.")
@click.option(
    "--num-shards", type=click.IntRange(min=1), metavar="N", help="Number of Parquet files. Default: one for each 500 MB."
)
@click.option("--overwrite", is_flag=True, help="Replace an output that curate wrote.")
def select(**o: Any) -> None:
    """Choose one passing trace of each problem and write them, whole.

    \b
    Example:
      curate select traces.parquet --shortest --max-tokens 8192 -o out
    """
    from curate import api, last, locate, render

    policy = _policy(o.pop("shortest"), o.pop("policy"))
    request = _request(o)
    rules = _rules(o, policy=policy, max_tokens=o["max_tokens"], choose_first=o["choose_then_drop"], high=request.estimate is None)
    columns = tuple(c.strip() for c in (o["columns"] or "").split(",") if c.strip())
    shape = api.Shape(style=o["style"], columns=columns, num_shards=o["num_shards"], overwrite=o["overwrite"])
    out = o["out"] or Path("data") / "-".join(
        [*(locate.short_name(s) for s in request.sources), policy, *([str(o["max_tokens"])] if o["max_tokens"] else [])]
    )
    with _bar(o["quiet"], "Reading") as (total, progress):
        done = api.select(request, rules, out, shape=shape, progress=progress, total=total, note=_note(o["quiet"]))
    last.remember(request.sources)
    for text in done.written.notes:
        _note(o["quiet"])(text)
    _print(o["as_json"], done.facts, lambda: render.selection(done.facts, done.written, done.meta, rules))
    if not done.facts["kept"]:
        click.echo("Warning: nothing was kept; the files have zero rows.", err=True)


def _policy(shortest: bool, policy: str | None) -> Any:
    if shortest and policy not in (None, "shortest"):
        raise UsageError(f"--shortest and --policy {policy} contradict each other. Use one.")
    if not shortest and policy is None:
        raise UsageError("Say which passing trace to keep: --shortest, or --policy all, first, shortest, longest or random.")
    return policy or "shortest"
