"""Will this trainer cut a row? Proved from the rule in its own code, before it runs.

``trainer_rules.toml`` holds each rule with the file and commit it was read from. The proof needs exact lengths of whole samples:
an estimate proves nothing, and the answer then says so.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import polars as pl

from curate import ledger
from curate.errors import CurateError, UsageError, near
from curate.survey import rendered

_TAGS: Final = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one trainer does with a row over its bound. Fields as explained at the top of ``trainer_rules.toml``."""

    name: str
    repository: str
    file: str
    commit: str
    rule: str
    unset: str
    over: str
    refuses: tuple[str, ...]
    assumes: str
    config: Mapping[str, str]
    extra: int = 0
    extra_unmarked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Rendered lengths of the rows that a trainer will read. ``tokens``: one per row; ``unmarked``: no think mark in its reply."""

    tokens: pl.Series
    unmarked: pl.Series
    basis: str
    count: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether no row is lost. ``line`` is the trainer's one line of configuration; ``faults`` say what stands against it."""

    trainer: str
    max_length: int
    rows: int
    longest: int
    over: int
    proved: bool
    line: str | None
    because: str
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


@cache
def rules() -> dict[str, Rule]:
    """The trainers whose rule is known, by name."""
    table = tomllib.loads(resources.files("curate").joinpath("trainer_rules.toml").read_text(encoding="utf-8"))
    found = {}
    for name, entry in table.items():
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
        found[name] = Rule(name=name, **values)
    return found


def find(name: str) -> Rule:
    """The rule of a trainer.

    Raises:
        UsageError: no rule of that name; near names are offered.
    """
    known = rules()
    if name not in known:
        raise UsageError(f"--trainer {name} is not known.{near(name, known)} Known: {', '.join(known)}.")
    return known[name]


def line(name: str, *, style: str, max_length: int, out: str = "OUT") -> str:
    """The one line of configuration that sets a trainer's bound to ``max_length``.

    >>> line("llama-factory", style="messages", max_length=8192)
    'cutoff_len: 8192'
    """
    config = find(name).config
    if style not in config:
        raise UsageError(f"{name} does not take --format {style}. It takes {' or '.join(config)}.")
    return config[style].format(n=max_length, out=out)


def prove(rule: Rule, lengths: Lengths, *, max_length: int, style: str, columns: Sequence[str], out: str = "OUT") -> Proof:
    """Whether a trainer with the bound ``max_length`` keeps every row whole.

    Args:
        style: the rows' format; ``source`` is judged by its columns.
        columns: the names of the rows' columns.
    """
    style = _style(style, columns)
    add = pl.select(pl.when(lengths.unmarked).then(rule.extra + rule.extra_unmarked).otherwise(rule.extra)).to_series()
    need = lengths.tokens.cast(pl.Int64).fill_null(max_length + 1) + add
    over = int((need > max_length).sum())
    faults = _faults(rule, lengths, style, columns)
    if over:
        most, lost = int(need.max() or 0), "dropped" if rule.over == "drop" else "cut"  # type: ignore[arg-type]
        faults.append(
            f"{over:,} of {len(need):,} rows may need more than {max_length:,} tokens (up to {most:,}) and would be {lost}. "
            f"`curate select --max-tokens {max_length - rule.extra}` leaves them out whole."
        )
    return Proof(
        trainer=rule.name,
        max_length=max_length,
        rows=len(need),
        longest=int(lengths.tokens.max() or 0),  # type: ignore[arg-type]
        over=over,
        proved=not faults,
        line=rule.config[style].format(n=max_length, out=out) if style in rule.config else None,
        because=f"{rule.name} {rule.rule} ({rule.repository}, {rule.file}, {rule.commit}).",
        faults=tuple(faults),
        notes=_notes(rule, lengths),
    )


def _style(style: str, columns: Sequence[str]) -> str:
    if style != "source":
        return style
    names = set(columns)
    for known, needs in (
        ("messages", {"messages"}),
        ("prompt-completion", {"prompt", "completion"}),
        ("sharegpt", {"conversations"}),
        ("alpaca", {"instruction", "output"}),
    ):
        if needs <= names:
            return known
    return "source"


def _faults(rule: Rule, lengths: Lengths, style: str, columns: Sequence[str]) -> list[str]:
    faults = []
    if style not in rule.config:
        faults.append(f"{rule.name} does not take rows of the format {style}. Write them with --format {' or '.join(rule.config)}.")
    tripping = [c for c in columns if c in rule.refuses]
    if rule.name == "trl" and style == "messages" and "prompt" in columns:
        tripping.append("prompt")  # tokenize_fn takes the prompt-completion branch wherever a prompt column stands
    if tripping:
        faults.append(
            f"{rule.name} reads the column{'s' * (len(tripping) > 1)} {', '.join(tripping)} as something else. Write without."
        )
    if lengths.basis != "exact":
        faults.append(
            f"The lengths are an {lengths.basis} ({lengths.by}), which proves nothing. Select with --tokenizer for exact ones."
        )
    if lengths.count != "sample":
        faults.append("Only the traces were counted, without prompt and template. Select with --count sample.")
    missing = lengths.tokens.null_count()
    if missing:
        faults.append(f"{missing:,} rows have no length.")
    return faults


def _notes(rule: Rule, lengths: Lengths) -> tuple[str, ...]:
    notes = [f"Rests on: {rule.assumes}.", f"Where no bound is set, {rule.unset}."]
    if rule.extra_unmarked and lengths.unmarked.any():
        notes.append(f"{int(lengths.unmarked.sum()):,} replies hold no think mark: it may put an empty think block before them.")
    return tuple(notes)


def check(out: Path, trainer: str, *, max_length: int) -> Proof:
    """The proof for a folder that ``select`` wrote: its manifest, its ledger's kept rows and its columns.

    Raises:
        CurateError: the folder is not whole. UsageError: the trainer is not known.
    """
    rule = find(trainer)
    try:
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise CurateError(
            f"{out} is no output of curate: it has no manifest.json. `curate select SOURCE -o {out}` writes one."
        ) from None
    frame, meta = ledger.from_file(out / "ledger.parquet")
    kept = frame.filter(pl.col("reason").is_null()).sort("source", "row", "item")
    files = sorted((out / "data").glob("*.parquet"))
    if not files:
        raise CurateError(f"{out} holds no data/*.parquet. `curate select SOURCE -o {out} --overwrite` writes it again.")
    lengths = Lengths(
        tokens=kept["tokens"],
        unmarked=_unmarked(files) if rule.extra_unmarked else pl.repeat(False, kept.height, eager=True),
        basis=str(meta.tokens.get("basis", "unknown")),
        count=str(meta.tokens.get("count", "sample")),
        by=str(meta.tokens.get("by", "")),
    )
    columns = list(pl.read_parquet_schema(files[0]))
    style = str(manifest.get("format_of_rows", "source"))
    proof = prove(rule, lengths, max_length=max_length, style=style, columns=columns, out=out.name)
    twice = rendered(kept)
    if twice and "prompt" not in columns:
        fault = (
            f"{twice:,} prompts hold a chat template's own tokens already, and the trainer renders them a second time: rows are longer "
            "than counted. Select again with --format prompt-completion."
        )
        proof = replace(proof, proved=False, faults=(*proof.faults, fault))
    if twice and "prompt" in columns and proof.longest + 1 > max_length:
        fault = "Plain text gets an end token from the trainer, one more than was counted: the longest row would be cut."
        proof = replace(proof, proved=False, faults=(*proof.faults, fault))
    return proof


def _unmarked(files: Sequence[Path]) -> pl.Series:
    """Whether the reply of each row holds neither <think> nor </think>; other marks are none to a trainer that looks for these."""
    rows = pl.scan_parquet(list(files))
    names = rows.collect_schema().names()
    turns = next((c for c in ("messages", "completion", "conversations") if c in names), None)
    if turns is not None:
        reply = pl.col(turns).list.last().struct.field("value" if turns == "conversations" else "content")
    elif "output" in names:
        reply = pl.col("output")
    else:
        return pl.repeat(True, rows.select(pl.len()).collect().item(), eager=True)
    marked = reply.str.contains_any(["<think>", "</think>"], ascii_case_insensitive=False)
    return rows.select(unmarked=~marked.fill_null(False)).collect(engine="streaming")["unmarked"]


def dataset_info(style: str, *, name: str = "curated", folder: str = "OUT/data") -> dict[str, Any]:
    """The entry of LLaMA-Factory's ``dataset_info.json`` for rows of a format (hiyouga/LLaMA-Factory, data/README.md, ff6d4d1)."""
    entry: dict[str, Any] = {"file_name": folder}
    if style == "messages":
        entry |= {"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": dict(_TAGS)}
    elif style == "sharegpt":
        tags = {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt", "system_tag": "system"}
        entry |= {"formatting": "sharegpt", "columns": {"messages": "conversations"}, "tags": tags}
    elif style == "alpaca":
        columns = {"prompt": "instruction", "query": "input", "response": "output", "system": "system", "history": "history"}
        entry |= {"formatting": "alpaca", "columns": columns}
    else:
        raise UsageError(f"LLaMA-Factory does not take --format {style}. It takes messages, sharegpt or alpaca.")
    return {name: entry}
