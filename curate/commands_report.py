"""Look instead of read: ``report``, ``why`` and ``diff``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from curate.commands_cost import fits_of, training_options
from curate.errors import UsageError
from curate.options import (
    FILE,
    count_options,
    output_options,
    reading_of,
    request_of,
    rule_options,
    rules_of,
    show,
    source_options,
)


@click.command()
@click.option("-q", "--quiet", is_flag=True, help="Neither progress nor notes on stderr.")
@click.option("-o", "--out", type=FILE, metavar="FILE", help="The file to write. Default: report.html; Markdown goes to stdout.")
@click.option(
    "--format", "style", type=click.Choice(["html", "markdown"]), help="Default: by the ending of -o (.md is Markdown), else html."
)
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="The bound that the report opens with.")
@click.option("--by", metavar="COL", help="Composition by this column: source, tag, subject.")
@click.option("--model", metavar="M", help="With --gpu: mark what each card holds.")
@click.option("--gpu", metavar="G,G", help="Cards by name, or GiB; with --model.")
@source_options
@count_options
@rule_options
@training_options
def report(**o: Any) -> None:
    """One HTML file to decide on a bound by.

    Curves, skew, choice, cost, and where every trace went.

    The HTML needs no network and can be mailed. Markdown is for a pull request.

    \b
    Examples:
      curate report traces.parquet -o report.html
      curate report traces.parquet --by tag --model qwen2.5-3b --gpu t4 -o report.html
      curate report traces.parquet --max-tokens 8192 --format markdown
    """
    from curate import output
    from curate import report as reports

    if bool(o["model"]) != bool(o["gpu"]):
        raise UsageError("--model and --gpu go together: a length that fits depends on both.")
    out: Path | None = o.pop("out")
    style = o.pop("style") or ("markdown" if out is not None and out.suffix in (".md", ".markdown") else "html")
    fits = fits_of(o) if o["model"] else []
    by, bound = o.get("by"), o.pop("max_tokens")
    output.claim_file(out or Path("report.html"), what="report", ours=reports.is_report)
    reading = reading_of(request_of(o), o["quiet"])
    words = ["curate", *(Path(w).name if w.startswith("/") else w for w in sys.argv[1:])]
    write = reports.markdown if style == "markdown" else reports.html
    text = write(reading.ledger, reading.meta, rules=rules_of(o), bound=bound, fits=fits, command=words, by=by)
    if style == "markdown" and out is None:
        click.echo(text, nl=False)
        return
    target = out or Path("report.html")
    output.write_file(target, text.encode())
    size = len(text.encode())
    click.echo(f"{target}: {f'{size / 1e6:.1f} MB' if size > 1e6 else f'{size / 1e3:.0f} kB'}, opens without a network.")


@click.command()
@click.argument("out", type=FILE)
@click.argument("problem")
@output_options
def why(out: Path, problem: str, as_json: bool, quiet: bool) -> None:
    """Why was a trace of this problem kept, and the others not.

    \b
    Example:
      curate why out 1438/E
    """
    from curate import explain, render_explain

    del quiet
    ledger, meta, rules = explain.read_out(out)
    found = explain.why(ledger, meta, problem, rules)
    show(as_json, found.json(), lambda: render_explain.why(found))


@click.command()
@click.argument("out_a", type=FILE)
@click.argument("out_b", type=FILE)
@output_options
def diff(out_a: Path, out_b: Path, as_json: bool, quiet: bool) -> None:
    """What changed between two selections, and why.

    \b
    Example:
      curate diff out-8192 out-16384
    """
    from curate import explain, render_explain

    del quiet
    (a, meta_a, _), (b, meta_b, _) = explain.read_out(out_a), explain.read_out(out_b)
    found = explain.diff(a, b, meta_a=meta_a, meta_b=meta_b)
    show(as_json, found.json(), lambda: render_explain.diff(found, a=str(out_a), b=str(out_b)))


commands = (report, why, diff)
