"""What lengths cost: ``padding`` and ``fit``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.errors import CurateError
from curate.options import count_options, output_options, reading_of, request_of, show, source_options, together

if TYPE_CHECKING:
    from curate.memory import Fit, Shape

training_options = together(
    click.option("--weights", default="4bit", show_default=True, help="Weights in memory: 4bit, 8bit, bf16, fp32."),
    click.option("--lora", type=click.IntRange(min=0), default=16, show_default=True, help="LoRA rank; 0: full fine-tuning."),
    click.option("--optimizer", default="adamw", show_default=True, help="adamw, adamw-8bit, adafactor, sgd."),
    click.option("--checkpointing", default="layer", show_default=True, help="Gradient checkpointing: none, layer, offloaded."),
    click.option("--micro-batch", type=click.IntRange(min=1), default=1, show_default=True, help="Traces in a micro-batch."),
)


def shape_of(model: str) -> Shape:
    """A model of the table, a folder or file with a config.json, or a Hub id whose config.json is read."""
    from curate import memory, remote

    path = Path(model)
    if memory.knows(model) or not (path.exists() or model.count("/") == 1):
        return memory.find_model(model)
    if not path.exists():
        path = remote.config_json(model)
    file = path / "config.json" if path.is_dir() else path
    try:
        return memory.read_config(json.loads(file.read_text(encoding="utf-8")), name=model)
    except (OSError, ValueError) as e:
        raise CurateError(f"{file} cannot be read as a model's config.json ({e}). Name a known model instead.") from None


def training_of(o: dict[str, Any]) -> dict[str, Any]:
    return {key: o[key] for key in ("weights", "lora", "optimizer", "checkpointing", "micro_batch")}


def fits_of(o: dict[str, Any]) -> list[Fit]:
    """What each card named holds, for every loss and attention kernel."""
    from curate import memory

    cards = [card.strip() for card in o["gpu"].split(",") if card.strip()]
    return list(memory.table(shape_of(o["model"]), cards, **training_of(o)))


@click.command()
@click.option("--max-length", type=click.IntRange(min=1), required=True, metavar="N", help="The trainer's bound, in tokens.")
@click.option("--batching", metavar="B", help="fixed, longest, grouped, bfd, next-fit or wrapped. Default: fixed.")
@click.option("--trainer", metavar="T", help="A trainer's own rule: prime-rl, auto-antislop, trl, axolotl, llama-factory, ...")
@click.option(
    "--micro-batch", type=click.IntRange(min=1), default=1, show_default=True, help="Traces, or packed rows, in a micro-batch."
)
@click.option(
    "--accumulate", type=click.IntRange(min=1), default=1, show_default=True, help="Micro-batches of a step on each rank."
)
@click.option("--dp", type=click.IntRange(min=1), default=1, show_default=True, help="Data-parallel groups.")
@click.option("--cp", type=click.IntRange(min=1), default=1, show_default=True, help="Context-parallel ranks that share a row.")
@click.option(
    "--pad-to-multiple", type=click.IntRange(min=1), default=1, show_default=True, help="Rows are rounded up to a multiple of this."
)
@click.option("--model", default="qwen2.5-3b", show_default=True, metavar="M", help="Whose attention weighs the work.")
@source_options
@count_options
@output_options
def padding(**o: Any) -> None:
    """What padding and packing cost on these lengths.

    And waiting ranks; and what removes it.

    \b
    Examples:
      curate padding traces.parquet --max-length 8192 --trainer trl
      curate padding ledger.parquet --max-length 4000 --batching fixed --model gemma-3-4b
    """
    from curate import batching, memory, render_cost, said
    from curate import padding as costs

    keys = ("max_length", "batching", "trainer", "micro_batch", "accumulate", "dp", "cp", "pad_to_multiple")
    options = {key: o.pop(key) for key in keys}
    batching.find_rule(options["batching"], options["trainer"])  # contradictions first, before any reading
    shape = shape_of(o.pop("model"))
    linear, quadratic = memory.flops(shape)
    cost = costs.Cost(linear=linear, quadratic=quadratic, name=shape.name)
    reading = reading_of(request_of(o), o["quiet"])
    audit = costs.audit(costs.lengths_of(reading.ledger), cost=cost, **options)
    how = said.counted_by(reading.meta).rstrip(".")
    show(o["as_json"], audit.json(), lambda: render_cost.padding(audit, lengths=how).rstrip())


@click.command()
@training_options
@output_options
@click.option("--model", required=True, metavar="M", help="A model by name, a Hub id, or a config.json.")
@click.option("--gpu", default="t4,rtx-4090,a100-40gb,h100", show_default=True, metavar="G,G", help="Cards by name, or GiB.")
@click.option("--loss", metavar="L", help="full, in-place, fused (chunked): answered first; the table shows all.")
@click.option("--attention", metavar="A", help="flash (sdpa), eager: answered first; the table shows all.")
def fit(**o: Any) -> None:
    """The longest trace that trains on a card.

    For each loss and attention kernel, which matter more than the card.

    \b
    Example:
      curate fit --model qwen2.5-3b --gpu t4,a100-40gb
    """
    from curate import memory, render_cost

    named = {key: o[key] for key in ("loss", "attention") if o[key]}
    how = memory.setup(**training_of(o), **named)
    fits = fits_of(o)
    said = {"loss": how.loss if o["loss"] else None, "attention": how.attention if o["attention"] else None}
    show(o["as_json"], {"fits": [one.json() for one in fits]}, lambda: render_cost.fit(fits, **said).rstrip())


commands = (padding, fit)
