"""What becomes of an output: ``check`` and ``push``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.errors import UsageError
from curate.options import FILE, note_of, output_options, show, together

if TYPE_CHECKING:
    from curate.hub import Push

push_options = together(
    click.option("--private", is_flag=True, help="Make the repository private; stop when it exists and is public."),
    click.option("--revision", metavar="BRANCH", help="The branch to push to; made where it is missing."),
    click.option("--create-pr", is_flag=True, help="Open a pull request instead of committing."),
    click.option("--commit-message", metavar="TEXT", help="The commit's title."),
    click.option("--token", metavar="TOKEN", help="Default: HF_TOKEN, or the one of `hf auth login`."),
    click.option("--config", metavar="NAME", help="Live beside other configs under this name."),
)


@click.command()
@click.argument("out", type=FILE)
@click.option(
    "--trainer",
    metavar="T",
    help="Prove that this trainer cuts no row: trl, axolotl, llama-factory, open-instruct, prime-rl, torchtune.",
)
@click.option("--max-length", type=click.IntRange(min=1), metavar="N", help="With --trainer: its bound in tokens.")
@click.option("--source", metavar="SOURCE", help="Compare every kept trace with this source's, byte for byte.")
@output_options
def check(out: Path, trainer: str | None, max_length: int | None, source: str | None, as_json: bool, quiet: bool) -> None:
    """Is an output whole; does a trainer take it uncut.

    \b
    Examples:
      curate check out
      curate check out --trainer trl --max-length 8192
    """
    from curate import api, render_out
    from curate import check as checks

    if (trainer is None) != (max_length is None):
        raise UsageError("--trainer and --max-length go together: a bound is a trainer's.")
    del quiet
    found = checks.check_out(out, texts=api.kept_texts(out, source) if source else None)
    proof = api.proof(out, trainer, max_length) if trainer and max_length else None
    facts = {"ok": all(f.fault is None for f in found) and (proof is None or proof["proved"]), "checks": [f.json() for f in found]}
    facts["trainer"] = proof
    show(as_json, facts, lambda: render_out.checked(facts, out))
    if not facts["ok"]:
        click.get_current_context().exit(1)


@click.command()
@click.argument("out", type=FILE)
@click.argument("repo", metavar="ORG/NAME")
@click.option("--dry-run", is_flag=True, help="Print files, sizes, deletions and the card; send nothing.")
@push_options
@output_options
def push(out: Path, repo: str, dry_run: bool, as_json: bool, quiet: bool, **o: Any) -> None:
    """Publish an output on the Hub in one commit, with its card.

    \b
    Examples:
      curate push out org/name --private
      curate push out org/name --dry-run
    """
    from curate import hub

    done = pushed(out, repo, dry_run=dry_run, quiet=quiet, **o)
    show(as_json, done.json(), lambda: hub.describe(done) if dry_run else done.url)


def pushed(out: Path, repo: str, *, dry_run: bool, quiet: bool, **o: Any) -> Push:
    """Push, with progress on stderr."""
    from curate import hub

    if quiet:
        from huggingface_hub import utils

        utils.disable_progress_bars()  # type: ignore[attr-defined]
    return hub.push(out, repo, private=o.pop("private") or None, dry_run=dry_run, notify=note_of(quiet), **o)


commands = (check, push)
