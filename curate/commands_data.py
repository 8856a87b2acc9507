"""Verdicts, and what is known and kept: ``verify``, ``sources``, ``cache``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.errors import UsageError
from curate.options import FILE, bar, note_of, output_options, request_of, show, source_options

if TYPE_CHECKING:
    from curate.verdicts import Verdict


engine_option = click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="ray: read on a Ray cluster (RAY_ADDRESS, else a local one; needs the extra [ray]).",
)


def part(o: dict[str, Any], shard: str) -> None:
    """``count --shard``: a part of a ledger instead of a whole one."""
    from curate import api, last

    out, quiet, as_json = o["out"], o["quiet"], o["as_json"]
    i, _, n = shard.partition("/")
    if not (i.isdecimal() and n.isdecimal()):
        raise UsageError(f"--shard {shard}: give the share and the number of shares, for example 3/64.")
    request = request_of(o, details=True)
    with bar(quiet, "Reading") as (_, progress):
        facts = api.part(request, (int(i), int(n)), out, progress=progress, note=note_of(quiet))
    last.remember(request.sources)
    show(
        as_json, facts, lambda: f"{out} holds part {i} of {n}: {facts['traces']:,} traces. With all: curate merge PARTS... -o FILE"
    )


@click.command()
@click.argument("parts", nargs=-1, required=True, type=FILE)
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The ledger to write (Parquet).")
@output_options
def merge(parts: tuple[Path, ...], out: Path, as_json: bool, quiet: bool) -> None:
    """One ledger of the parts that `curate count --shard` wrote.

    \b
    Example:
      curate merge part-*.parquet -o ledger.parquet
    """
    from curate import api, output

    output.claim_file(out, what="ledger", ours=output.is_ledger_file)
    reading = api.merge(parts, note=note_of(quiet))
    output.write_ledger(out, reading.ledger, reading.meta)
    facts = {"parts": len(parts), "traces": reading.ledger.height, "out": str(out)}
    show(as_json, facts, lambda: f"{out} holds {reading.ledger.height:,} traces of {len(parts)} parts. Next  curate yield {out}")


@click.command()
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The verdicts to write (Parquet).")
@click.option("--tests", metavar="COL", help="Column of tests. Default: public_tests, private_tests, examples, ...")
@click.option("--answer", metavar="COL", help="Column of reference answers: judge mathematics (needs the extra [math]).")
@click.option(
    "--isolation",
    type=click.Choice(["bwrap", "none"]),
    default="bwrap",
    show_default=True,
    help="none: programs run with your own rights; recorded in the output.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Processor seconds a test. Default: twice the problem's own limit, at least 4; 10 where it has none.",
)
@click.option("--memory", type=click.IntRange(min=64), default=1024, show_default=True, metavar="MIB", help="Of one program.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Programs at a time. Default: one for each core.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished or finished file.")
@source_options
@output_options
def verify(**o: Any) -> None:
    """Find out which traces pass.

    Programs are run on the problem's tests in a sandbox; mathematical answers are compared with the reference.

    \b
    Examples:
      curate verify solutions_py_decontaminated -o verdicts.parquet
      curate select solutions_py_decontaminated --shortest --verdicts verdicts.parquet -o out
    """
    from tqdm import tqdm

    from curate import api, judging, render_data, verdicts

    keys = ("out", "tests", "answer", "isolation", "time_limit", "memory", "workers", "resume")
    v = {key: o.pop(key) for key in keys}
    if v["tests"] and v["answer"]:
        raise UsageError("--tests judges programs and --answer judges mathematics: give one of them.")
    request = request_of(o)
    wanted = tuple(dict.fromkeys((*judging.WANTED, *(c for c in (v["tests"], v["answer"]) if c))))
    seen: Counter[str] = Counter()
    with tqdm(unit=" traces", disable=o["quiet"] or None, file=sys.stderr) as bar:

        def tell(verdict: Verdict) -> None:
            seen[verdict.verdict] += 1
            bar.set_postfix(dict(seen), refresh=False)
            bar.update()

        table = judging.run(
            api.texts(request, wanted, note=note_of(o["quiet"])),
            out=v["out"],
            tests=v["tests"],
            answer=v["answer"],
            isolation=v["isolation"],
            time_limit=v["time_limit"],
            memory_mib=v["memory"],
            workers=v["workers"] or len(os.sched_getaffinity(0)),
            resume=v["resume"],
            progress=tell,
        )
    facts = {"traces": table.height, "verdicts": verdicts.counts(table), "isolation": v["isolation"], "out": str(v["out"])}
    facts["what"] = "math" if table["kinds"].fill_null("").str.contains("answer").any() else "code"
    show(o["as_json"], facts, lambda: render_data.judged(facts, table, request.sources))


@click.command()
@click.option("--presets", type=FILE, metavar="FILE", help="Your own known data sets (TOML), beside the built-in ones.")
@click.argument("name", required=False)
@output_options
def sources(name: str | None, presets: Path | None, as_json: bool, quiet: bool) -> None:
    """The data sets that are known by name, or what is known of one.

    \b
    Example:
      curate sources solutions_py_decontaminated
    """
    from curate import presets as known
    from curate import render_data
    from curate.errors import CurateError

    del quiet
    table = known.merge(known.known(), known.load(presets)) if presets else known.known()
    if name is None:
        records = known.listing(table)
        show(as_json, {"sources": records}, lambda: render_data.known(records))
        return
    found = known.find(name, table)
    if found is None:
        raise CurateError(f"{name} is no known data set.{known.near_names(name, table)} `curate sources` lists them.")
    facts = {"name": found.name, "where": found.where_from, "columns": known.roles(found), "notes": known.notes(found)}
    facts |= {"basis": found.passed_basis, "licence": found.licence, "rows": found.rows, "siblings": list(found.siblings)}
    show(as_json, facts, lambda: render_data.known_one(facts))


@click.command()
@click.option("--clear", is_flag=True, help="Delete what is kept.")
@output_options
def cache(clear: bool, as_json: bool, quiet: bool) -> None:
    """What is kept of earlier readings, where, and how to be rid of it."""
    from curate import cache as kept
    from curate import render_data

    del quiet
    entries = kept.entries()
    facts = {"folder": str(kept.folder()), "entries": len(entries), "bytes": sum(e.size for e in entries)}
    facts["cleared"] = kept.clear() if clear else 0
    show(as_json, facts, lambda: render_data.kept(facts))


early = (verify,)
late = (sources, cache, merge)
