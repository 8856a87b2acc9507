"""What ``inspect`` looks for in the text itself, on a random sample: loops, copies, quoted hints, overlap with benchmarks.

The sample is drawn by seed from randomly chosen stretches of the files, so its cost does not grow with them; a number that comes from a
sample says so. Copies are exact over all traces, by digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from curate import chat, engine, inspection, presets
from curate.engine import Source
from curate.tokens import Counter

SIZE: Final = 2000
"""Traces looked at; loops and copies of so many long traces take some seconds."""

HEAD: Final = 25
"""Rows that people look at first: where their median is far from the whole, the file is in an order."""


def facts(
    sources: Sequence[Source], ledger: pl.DataFrame, counter: Counter, *, seed: int, against: pl.Series | None
) -> dict[str, Any]:
    """The keys ``template``, ``sample``, ``duplicates``, ``ids``, ``order``, ``quotes`` and ``overlap`` of ``inspect``."""
    some = pl.concat([_sampled(s, seed) for s in sources], how="diagonal_relaxed")
    text = some["trace"].drop_nulls()
    return {
        "template": _template(counter),
        "sample": inspection.summary(text, size=SIZE, seed=seed) | {"of": ledger.height},
        "duplicates": _duplicates(ledger),
        "ids": _ids(sources, some),
        "order": _order(ledger),
        "quotes": _quotes(sources, some),
        "overlap": _overlap(some, against),
    }


def _sampled(source: Source, seed: int) -> pl.DataFrame:
    """About ``SIZE`` traces of a source: whole stretches in random order until there are enough rows, then rows at random."""
    tasks = source.table.tasks
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(tasks))
    rows: list[np.ndarray[Any, Any]] = []
    for i in order:
        rows.append(np.arange(tasks[i].row, tasks[i].row + tasks[i].rows))
        if sum(map(len, rows)) >= 2 * SIZE:
            break
    pool = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    chosen = np.sort(pool[inspection.sample(len(pool), SIZE, seed=seed)])
    preset = _preset(source)
    extra = [c for c in (preset.hint_column, "description") if c] if preset is not None and preset.hint_column else []
    frames = list(engine.texts(source, extra, rows=chosen))
    empty = pl.DataFrame(
        schema={"row": pl.UInt32, "item": pl.UInt32, "prompt": pl.String, "trace": pl.String, "problem": pl.String}
    )
    return pl.concat([empty, *frames], how="diagonal_relaxed").head(SIZE)


def _preset(source: Source) -> presets.Preset | None:
    name = source.facts.get("preset")
    return presets.known().get(str(name)) if name else None


def _template(counter: Counter) -> dict[str, Any] | None:
    template = getattr(counter, "template", None)
    if template is None or counter.kind == "trace":
        return None
    found = chat.verdict(template)
    return {
        "keeps_reasoning": found.keeps_reasoning,
        "keeps_earlier": found.keeps_earlier,
        "sentence": found.sentence,
        "remedy": found.remedy,
        "sees": found.sees[:400],
    }


def _duplicates(ledger: pl.DataFrame) -> int | None:
    """Traces that repeat an earlier one of the same problem, byte for byte."""
    if "digest" not in ledger.columns:
        return None
    known = ledger.filter(pl.col("tokens").is_not_null())["digest"].drop_nulls()
    return len(known) - known.n_unique()


def _ids(sources: Sequence[Source], some: pl.DataFrame) -> dict[str, Any] | None:
    if len(sources) != 1 or "problem" not in sources[0].layout.roles or some["prompt"].null_count() == some.height:
        return None
    first = some.filter(pl.col("item") == 0)
    found = inspection.ids(first["problem"], first["prompt"])
    return {"rows": found.rows, "ids": found.ids, "prompts": found.prompts, "suspect": found.suspect}


def _order(ledger: pl.DataFrame) -> dict[str, Any] | None:
    """Medians of the first rows and of all: a file in an order is misread from its head."""
    tokens = ledger.sort("source", "row", "item")["tokens"].drop_nulls()
    if len(tokens) < 4 * HEAD:
        return None
    head, whole = tokens.head(HEAD).sort(), tokens.sort()
    first, every = int(head[(HEAD + 1) // 2 - 1]), int(whole[(len(whole) + 1) // 2 - 1])
    return {"head": HEAD, "head_median": first, "median": every, "misleading": not 0.5 <= first / max(1, every) <= 2}


def _quotes(sources: Sequence[Source], some: pl.DataFrame) -> dict[str, Any] | None:
    preset = next((p for s in sources if (p := _preset(s)) is not None and p.hint), None)
    if preset is None or preset.hint_column is None or preset.hint_column not in some.columns:
        return None
    statements = some["description"] if "description" in some.columns else None
    found = inspection.quotes(some["trace"], some[preset.hint_column].cast(pl.String), statements)
    return {"hint": preset.hint, "looked_at": found.len() - found.null_count(), "quoting": int(found.sum() or 0)}


def _overlap(some: pl.DataFrame, against: pl.Series | None) -> dict[str, Any] | None:
    if against is None:
        return None
    prompts = some.unique("problem", keep="first", maintain_order=True)["prompt"]
    found = inspection.overlap(prompts, against)
    return {"problems": len(prompts), "sharing": found.any, "most": found.most, "n": inspection.OVERLAP_N}


def shown(sources: Sequence[Source], ledger: pl.DataFrame, which: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Traces to read: ``longest``, or so many from short to long. Each with its ledger facts, its prompt and its text."""
    known = ledger.filter(pl.col("tokens").is_not_null()).sort("tokens", "source", "row", "item")
    if which == "longest":
        at = list(range(max(0, known.height - 3), known.height))[::-1]
    else:
        n = min(int(which), known.height)
        at = sorted({round(i * (known.height - 1) / max(1, n - 1)) if n > 1 else (known.height - 1) // 2 for i in range(n)})
    for fact in known[at].iter_rows(named=True):
        source = sources[fact["source"]]
        for batch in engine.texts(source, rows=np.array([fact["row"]])):
            for row in batch.filter(pl.col("item") == fact["item"]).iter_rows(named=True):
                yield fact, row["prompt"] or "", row["trace"] or ""
