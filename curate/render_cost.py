"""What lengths cost and what fits, as plain monospaced text: the decision first, the table second, caveats last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from curate import memory
from curate.batching import configuration, published, round_up
from curate.memory import Fit, Kept
from curate.padding import PUBLISHED_RANGE, Audit, Removed, Run

WIDTH = 98


def _times(low: float, high: float) -> str:
    """A ratio or a range of ratios: two decimals below 2, one below 10."""
    digits = 2 if high < 2 else 1 if high < 10 else 0
    first, second = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return first if first == second else f"{first} to {second}"


def _share(part: float) -> str:
    return f"{part:.1%}" if part < 0.9995 else f"{part:.0%}"


def _table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Columns as wide as their widest cell; the first ``left`` are aligned to the left, all others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if k < left else cell.rjust(width) for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _wrap(text: str, *, indent: str = "") -> list[str]:
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def padding(audit: Audit, *, lengths: str = "") -> str:
    """The screen of ``curate padding``. ``lengths`` says how they were counted, where that is worth a line."""
    lines = [*_decision(audit), ""]
    use = audit.use
    head = [
        ("", "", "", "tokens a", "slowest", "less work", "less work, by"),
        ("policy", "padding", "steps", "step, rank", "/ mean", "by tokens", "operations"),
    ]
    rows = [_row(f"{audit.rule.name} at {use.max_length:,}, now", use, None)]
    rows += [_row(run.policy, run, audit.removed(run)) for run in audit.others]
    lines += _table([*head, *rows])
    lines += ["", *_bounds(audit), ""]
    return "\n".join([*lines, *_next(audit), "", *_caveats(audit, lengths)]) + "\n"


def _row(label: str, run: Run, removed: Removed | None) -> tuple[str, ...]:
    work = ("1", "1")
    if removed:
        work = (_times(removed.tokens, removed.tokens), _times(*sorted((removed.causal, removed.dense))))
    return (
        label,
        _share(run.padding),
        f"{run.steps:,}",
        f"{run.tokens_per_step_and_rank:,.0f}",
        f"{run.imbalance:.2f}",
        *work,
    )


def _decision(audit: Audit) -> list[str]:
    use, advice = audit.use, audit.advice
    first = (
        f"{use.max_length:,} tokens, {audit.rule.name}: {_share(use.padding)} of the work is padding. "
        f"{audit.traces:,} traces, half within {audit.p50:,}, the longest {audit.longest:,}."
    )
    lines = _wrap(first)
    lost = [
        f"{count:,} {word}"
        for count, word in (
            (use.cut, "cut short"),
            (use.split, "split"),
            (use.dropped, "dropped"),
            (use.refused, "over the bound, which stops the run"),
        )
        if count
    ]
    if lost:
        lines += _wrap(
            f"Of the traces {', '.join(lost)} ({use.lost_tokens:,} tokens lost). A trace cut short teaches to stop "
            f"mid-thought: drop whole ones before the trainer sees them, `curate select --max-tokens {use.max_length}`."
        )
    best = max(audit.others, key=lambda run: audit.removed(run).low, default=None)
    if best is None or audit.removed(best).high < 1.05:
        return [*lines, "Nothing here would make training cheaper by more than a twentieth."]
    parts = []
    for run in audit.others:
        gain = audit.removed(run)
        if run is best or run.max_length != use.max_length:
            nothing = ", cuts nothing" if run.max_length >= advice.longest else ""
            parts.append(f"{run.policy} ({_times(gain.low, gain.high)} times{nothing})")
    low, high = PUBLISHED_RANGE
    said = f"Less work: {'; '.join(parts)}. Measured cases came out at {low:g} to {high:g} times the ratio of tokens (below)."
    return [*lines, *_wrap(said)]


def _bounds(audit: Audit) -> list[str]:
    advice = audit.advice
    bounds = {
        audit.use.max_length: (audit.use.cut + audit.use.dropped + audit.use.refused + audit.use.split, "now"),
        advice.for_99: (advice.cuts_99, "99 % of traces"),
        advice.for_999: (advice.cuts_999, "99.9 % of traces"),
        advice.lossless: (0, f"every trace, rounded up to {advice.multiple}"),
    }
    rows = [("max tokens", "traces over", "padding if every row is filled", "keeps")]
    for bound in sorted(bounds):
        over, what = bounds[bound]
        # Exact for bounds that cut nothing; where some are cut, their cut length is the bound itself.
        filled = min(1.0, audit.mean / bound) if not over else None
        rows.append((f"{bound:,}", f"{over:,}", _share(1 - filled) if filled is not None else "-", what))
    lines = _table([(row[0], row[1], row[2]) for row in rows], left=0)
    lines = [f"{line}   {row[3]}" for line, row in zip(lines, rows, strict=True)]
    return [*lines, f"  Packed, rows of {advice.row:,} waste least: {advice.row_waste:.2%}."]


def _next(audit: Audit) -> list[str]:
    rule = audit.rule
    packs = rule.batching not in ("fixed", "longest", "grouped")
    wanted = audit.advice.row if packs else min(audit.advice.lossless, audit.use.max_length)
    bound = round_up(wanted, audit.settings.cp)
    best = max((audit.removed(run).high for run in audit.others), default=1.0)
    if best < 1.05:
        return [f"Keep  {configuration(rule, audit.use.max_length)}"]
    return [f"Set   {configuration(rule, bound)}", *_wrap(f"Time  20 steps of each on the same traces: {rule.time}")]


def _caveats(audit: Audit, counted: str) -> list[str]:
    rows = [("published", "predicted", "measured", "")]
    rows += [(str(c["case"]), _times(*c["predicted"]), _times(*c["measured"]), str(c["note"])) for c in published()]
    lines = _table([row[:3] for row in rows])
    width = max(map(len, lines))
    lines = [f"{line.ljust(width)}   {row[3]}".rstrip() for line, row in zip(lines, rows, strict=True)]
    said = f"Operations: {audit.cost.name} (--model), attention causal to dense, ranks in step. Lengths do not show kernels."
    lines += ["", *_wrap(said), *(_wrap(f"Lengths: {counted}.") if counted else ())]
    if audit.rule.source:
        lines += _wrap(f"Rule: {audit.rule.about}. Follows {audit.rule.source}.", indent="  ")
    return lines


def fit(fits: Sequence[Fit], *, loss: str | None = None, attention: str | None = None) -> str:
    """The screen of ``curate fit``: every loss and attention on each card, safe before may.

    ``loss`` and ``attention``, where the reader named them, say which answer comes first; the table shows all of them.
    """
    model, how = fits[0].model, fits[0].setup
    lines = [
        line for card in _cards(fits) for line in _wrap(_fit_decision([one for one in fits if one.gpu == card], loss, attention))
    ]
    method = f"LoRA {how.lora}" if how.lora else "full fine-tuning"
    traces = "1 trace" if how.micro_batch == 1 else f"{how.micro_batch} traces"
    lines += [
        "",
        f"{model.name}, {how.weights}, {method}, {how.optimizer}, checkpointing {how.checkpointing}, {traces} a micro-batch",
    ]
    for card in _cards(fits):
        rows = [(f"{card.label} ({card.usable_gib:g} GiB usable)", "safe up to", "may work to", "GiB at 8,192", "of it fixed")]
        rows += [
            (
                f"  {memory.LOSSES[one.setup.loss]}, {memory.ATTENTIONS[one.setup.attention]}",
                f"{one.safe:,}",
                f"{one.may:,}",
                f"{one.gib_at(8192):.1f}",
                f"{one.static / memory.GIB:.1f}",
            )
            for one in fits
            if one.gpu == card
        ]
        lines += ["", *_table(rows)]
    return "\n".join([*lines, "", *_fit_caveats(fits)]) + "\n"


def _cards(fits: Sequence[Fit]) -> list[memory.Gpu]:
    return list(dict.fromkeys(one.gpu for one in fits))


def _fit_decision(own: Sequence[Fit], loss: str | None, attention: str | None) -> str:
    """One card's answer: of the settings named, else of the best and the worst kernels."""
    card, model = own[0].gpu, own[0].model
    asked = [one for one in own if loss in (None, one.setup.loss) and attention in (None, one.setup.attention)]
    if all(one.full for one in asked):
        static = min(one.static for one in asked) / memory.GIB
        return (
            f"{model.name} does not train safely on {card.label}: {static:.1f} GiB are needed before the first token, of "
            f"{card.usable_gib:g} usable. Take smaller weights, a smaller model or a larger card; no length can be promised."
        )
    most, least = max(asked, key=lambda one: one.safe), min(asked, key=lambda one: one.safe)
    said = f"{model.name} on {card.label}: safe up to {most.safe:,} tokens, may work to {most.may:,}, with {_kernels(most)}"
    return f"{said}." if most is least else f"{said}; {least.safe:,} and {least.may:,} with {_kernels(least)}."


def _kernels(one: Fit) -> str:
    return f"{memory.LOSSES[one.setup.loss]} loss and {memory.ATTENTIONS[one.setup.attention]} attention"


def _fit_caveats(fits: Sequence[Fit]) -> list[str]:
    error = memory.ERROR
    notes = [
        f"Memory is a model: safe is its estimate times {memory.SAFETY:g}, may the estimate itself. On published points of "
        f"sources it was not fitted on it errs by {error['median']:.0%} in the median and {error['worst']:.0%} at worst. Try "
        "the longest rows first: OUT/longest.parquet.",
        "TRL's default loss is chunked; Unsloth's is fused. Hugging Face's own loss copies all logits to float32.",
    ]
    if any(one.full for one in fits):
        notes.append("0 or a small number: weights alone nearly fill the card, and the error of a length has no bound there.")
    if any(one.setup.attention == "eager" for one in fits):
        low, high = memory.EAGER_BYTES
        notes.append(f"Eager attention: {low:g} to {high:g} bytes for each score of a layer, an assumption, not fitted.")
    slow = [card.label for card in _cards(fits) if not card.flash]
    if slow:
        notes.append(
            f"{', '.join(slow)}: no FlashAttention-2; SDPA's memory-efficient kernel is meant. Make sure the library does not "
            "fall back to eager."
        )
    if any(one.model.params > 30e9 for one in fits):
        notes.append(
            "Over 30B: published longest lengths were up to 73 % off where weights fill the card; a 72B at 4 bits on 80 GB "
            "failed at 32K where this model says 83K."
        )
    if any(one.model.experts for one in fits):
        notes.append("Experts: no published point has any, and adapters are counted on attention alone.")
    if any(one.gpu.name.startswith("apple") for one in fits):
        notes.append("Apple: the constants come from NVIDIA cards, and 4-bit kernels differ there. Read it as an order of size.")
    return [line for note in notes for line in _wrap(note)]


def kept(rows: Iterable[Kept]) -> str:
    """What each card would keep, for ``curate yield --gpu --model``: one table over cards and kernels."""
    rows = list(rows)
    if not rows:
        return ""
    how, model = rows[0].fit.setup, rows[0].fit.model
    method = f"LoRA {how.lora}" if how.lora else "full"
    lines = [f"{model.name}, {how.weights}, {method}, {how.micro_batch} a micro-batch: problems kept at the length that fits"]
    cells = [("card, loss, attention", "safe up to", "kept", "", "may work to", "kept", "")]
    for row in rows:
        one, total = row.fit, max(1, row.problems)
        cells.append(
            (
                f"{one.gpu.label}, {memory.LOSSES[one.setup.loss]}, {memory.ATTENTIONS[one.setup.attention]}",
                f"{one.safe:,}",
                f"{row.safe:,}",
                f"{row.safe / total:.0%}",
                f"{one.may:,}",
                f"{row.may:,}",
                f"{row.may / total:.0%}",
            )
        )
    return "\n".join([*lines, *_table(cells)]) + "\n"
