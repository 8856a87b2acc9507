"""The command line: its commands in the order in which they are used, and the one error boundary; no logic.

Results go to stdout; progress, the mapping and warnings to stderr. Exit 0 done (also with nothing kept), 1 an error of the input, 2 an error
of the options. Heavy imports stay inside the commands: `curate --help` loads click alone.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from curate import commands_cost, commands_data, commands_out, commands_report
from curate.errors import CurateError, UsageError
from curate.options import (
    FILE,
    bar,
    bars,
    cluster_of,
    count_options,
    note_of,
    output_options,
    reading_of,
    request_of,
    rule_options,
    rules_of,
    show,
    source_options,
)
from curate.plain import safe

ENVIRONMENT: Final = {
    # The allocators of polars and Arrow, read when these are loaded. Batches of megabytes come and go: given back at once, as is their
    # way, the kernel clears the same memory again and again, a tenth of all processor time. Huge pages clear 2 MB where a part is used.
    "_RJEM_MALLOC_CONF": "narenas:2,background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0",
    "MIMALLOC_ALLOW_THP": "0",
    "OPENBLAS_NUM_THREADS": "1",  # numpy's threads for matrices, of which there are none here, spin
}


class Commands(click.Group):
    """Commands in the order in which they are used, and the one place where an error becomes a sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        gc.set_threshold(50_000, 20, 20)  # loading libraries makes many objects and no garbage
        try:
            return super().invoke(ctx)
        except CurateError as e:
            click.echo(f"Error: {safe(e)}", err=True)
            ctx.exit(2 if isinstance(e, UsageError) else 1)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(1)
        except OSError as e:
            where = f": {safe(e.filename)}" if e.filename else ""
            click.echo(f"Error: {e.strerror or e}{where}. Nothing was left half-written.", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("Stopped. Nothing was left half-written.", err=True)
            ctx.exit(130)


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


@main.command("inspect")
@click.option("--show", metavar="N", help="Read N traces from short to long, or `longest`, in a pager.")
@click.option("--against", multiple=True, metavar="FILE", help="A benchmark: how many prompts share 8 words in a row with it.")
@source_options
@count_options
@rule_options
@output_options
def inspect_(**o: Any) -> None:
    """What is this, and what is wrong with it.

    \b
    Examples:
      curate inspect traces.parquet --tokenizer Qwen/Qwen3-8B
      curate inspect traces.parquet --show 3
    """
    from curate import api, render_data, survey

    show_n, against = o.pop("show"), o.pop("against")
    if show_n is not None and show_n != "longest" and not (show_n.isdigit() and int(show_n)):
        raise UsageError(f"--show {show_n}: give a number of traces, or `longest`.")
    request = request_of(o, details=show_n is None)
    reading = reading_of(request, o["quiet"])
    if show_n is not None:
        click.echo_via_pager(render_data.trace(*found) for found in api.shown(reading, show_n))
        return
    facts = survey.facts(reading.ledger, reading.meta, rules_of(o)) | api.examine_of(reading, request, against=against)
    show(o["as_json"], facts, lambda: render_data.inspection(facts, reading.meta, spec=" ".join(request.sources)))


@main.command()
@source_options
@count_options
@rule_options
@output_options
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The ledger to write (Parquet).")
@click.option("--shard", metavar="I/N", help="Only this share of the rows, from 1; `curate merge` makes one ledger of all N.")
@commands_data.engine_option
def count(**o: Any) -> None:
    """Count the tokens of every trace into a ledger.

    \b
    Examples:
      curate count traces.parquet --tokenizer Qwen/Qwen3-8B -o ledger.parquet
      curate count traces --shard $SLURM_ARRAY_TASK_ID/64 -o part-$SLURM_ARRAY_TASK_ID.parquet
    """
    from curate import output, render_out, yields

    engine, shard = o.pop("engine"), o.pop("shard")
    if shard is not None:
        if engine != "local":
            raise UsageError("--shard and --engine both share out the work. Use one.")
        commands_data.part(o, shard)
        return
    output.claim_file(o["out"], what="ledger", ours=output.is_ledger_file)
    reading = reading_of(request_of(o, details=True), o["quiet"], engine=engine)
    facts = yields.facts(reading.ledger, reading.meta, rules_of(o))
    output.write_ledger(o["out"], reading.ledger, reading.meta)
    show(o["as_json"], {**facts, "out": str(o["out"])}, lambda: render_out.counted(facts, reading.meta, o["out"]))


@main.command("yield")
@click.option("--bounds", metavar="N,N", help="Bounds in tokens. Default: the standard lengths that matter here.")
@click.option("--by", metavar="COL", help="The same for each value of a column: source, tag, subject.")
@click.option("--model", metavar="M", help="With --gpu: what each card would keep of these problems.")
@click.option("--gpu", metavar="G,G", help="Cards by name, or GiB; with --model.")
@commands_cost.training_options
@source_options
@count_options
@rule_options
@output_options
def yield_(**o: Any) -> None:
    """What each length bound keeps: traces, problems, hard problems.

    \b
    Examples:
      curate yield traces.parquet --estimate chars/3.6
      curate yield traces.parquet --tokenizer Qwen/Qwen3-8B --bounds 8192,16384 --by source
    """
    from curate import api, render, render_cost

    bounds = _bounds(o.pop("bounds"))
    if bool(o["model"]) != bool(o["gpu"]):
        raise UsageError("--model and --gpu go together: a length that fits depends on both.")
    fits = commands_cost.fits_of(o) if o["model"] else []
    by, request = o.get("by"), request_of(o)
    reading = reading_of(request, o["quiet"])
    rules = rules_of(o)
    made, groups, cards = api.yields_of(reading, rules, bounds=bounds, by=by, fits=fits, sampled=request.sample is not None)
    beside = api.beside(reading, made)
    facts = made.json() | ({"by": {k: v.json() for k, v in groups.items()}} if by else {})
    facts |= beside | ({"cards": [row.json() for row in cards]} if fits else {})

    def text() -> str:
        screen = render.yields(made, reading.meta, groups=groups, by=by, bars=bars(), beside=beside)
        return screen + "\n\n" + render_cost.kept(cards).rstrip() if cards else screen

    show(o["as_json"], facts, text)


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
@click.option("--ledger", "from_ledger", type=FILE, metavar="FILE", help="One that `count` or `merge` made of the same SOURCE.")
@commands_data.engine_option
@click.option("--like", type=FILE, metavar="MANIFEST", help="Make the selection of a manifest.json again; other options change it.")
@click.option("--push-to", metavar="ORG/NAME", help="Push the output to the Hub afterwards (see `curate push`).")
@commands_out.push_options
@source_options
@count_options
@rule_options
@output_options
@click.pass_context
def select(ctx: click.Context, /, **o: Any) -> None:
    """Choose one passing trace of each problem and write them, whole.

    \b
    Example:
      curate select traces.parquet --shortest --max-tokens 8192 -o out
    """
    from curate import api, last, locate, render_out

    if o["like"]:
        o |= _like(ctx, o.pop("like"))
    push = {key: o.pop(key) for key in ("private", "revision", "create_pr", "commit_message", "token", "config")}
    repo = o.pop("push_to")
    if repo is None and any(push.values()):
        raise UsageError(f"--{next(k for k, v in push.items() if v).replace('_', '-')} goes with --push-to ORG/NAME.")
    policy = _policy(o.pop("shortest"), o.pop("policy"))
    request = request_of(o)
    rules = rules_of(
        o, policy=policy, max_tokens=o["max_tokens"], choose_first=o["choose_then_drop"], high=request.estimate is None
    )
    columns = tuple(c.strip() for c in (o["columns"] or "").split(",") if c.strip())
    shape = api.Shape(style=o["style"], columns=columns, num_shards=o["num_shards"], overwrite=o["overwrite"])
    out = o["out"] or Path("data") / locate.out_name(request.sources, policy, o["max_tokens"])
    if o["from_ledger"] and (request.tokenizer or request.estimate or request.columns.tokens):
        raise UsageError("--ledger holds counted lengths: --tokenizer, --estimate and --tokens have no part in it. Leave them out.")
    work: dict[str, Any] = {
        "from_ledger": o["from_ledger"],
        "cluster": cluster_of(o["engine"], request),
        "note": note_of(o["quiet"]),
    }
    with bar(o["quiet"], "Reading") as (total, progress):
        done = api.select(request, rules, out, shape=shape, progress=progress, total=total, **work)
    last.remember(request.sources)
    for text in done.written.notes:
        note_of(o["quiet"])(text)
    pushed = commands_out.pushed(out, repo, dry_run=False, quiet=o["quiet"], **push) if repo is not None else None

    def screen() -> str:
        trainer = api.trainer_line(done, rules)
        said = render_out.selection(done.facts, done.written, done.meta, rules, trainer=trainer, thinking=done.thinking)
        return f"{said}\n{pushed.url}" if pushed else said

    show(o["as_json"], done.facts | ({"push": pushed.json()} if pushed else {}), screen)
    if not done.facts["kept"]:
        click.echo(f"Warning: nothing was kept, 0 of {done.facts['traces']:,} traces; the files have zero rows.", err=True)


def _like(ctx: click.Context, manifest: Path) -> dict[str, Any]:
    """The options of an earlier selection, where the command line does not say otherwise."""
    from curate import check

    path = manifest / "manifest.json" if manifest.is_dir() else manifest
    asked = check.options_of(check.read_manifest(path.parent if path.name == "manifest.json" else path))
    tokenizer = asked.get("tokenizer")
    if tokenizer and "/" not in tokenizer and not Path(tokenizer).exists() and not ctx.params.get("tokenizer"):
        raise CurateError(f"{path} was made with a tokenizer on disk, {tokenizer}: say where it is with --tokenizer FOLDER.")
    asked["style"] = asked.pop("format", "auto")
    asked["columns"] = ",".join(asked.get("columns", []))
    asked["labels"] = ",".join(asked.get("labels", []))
    typed = {k for k in asked if ctx.get_parameter_source(k) not in (None, click.core.ParameterSource.DEFAULT)}
    if ctx.params.get("shortest"):
        typed.add("policy")
    paths: dict[str, Any] = {k: Path(asked[k]) for k in ("chat_template", "verdicts", "presets") if k in asked}
    return {k: v for k, v in (asked | paths).items() if k not in typed and k in ctx.params}


def _policy(shortest: bool, policy: str | None) -> Any:
    if shortest and policy not in (None, "shortest"):
        raise UsageError(f"--shortest and --policy {policy} contradict each other. Use one.")
    if not shortest and policy is None:
        raise UsageError("Say which passing trace to keep: --shortest, or --policy all, first, shortest, longest or random.")
    return policy or "shortest"


for module in (commands_data.early, commands_cost.commands, commands_report.commands, commands_out.commands, commands_data.late):
    for command in module:
        main.add_command(command)
