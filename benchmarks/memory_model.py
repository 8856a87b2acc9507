"""Fit the memory model on published points and print its error with each source left out.

    python -m benchmarks.memory_model

``memory_points.json`` holds 89 published measurements with their sources, and three kept out as checks. The constants of
``curate/memory.py`` are this fit; a test holds them to it. Random halves share sources, so their error flatters; leaving a
source out is the stricter figure. One source (42 points) cannot be left out, because its loss constant exists only there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from curate import memory

Point = dict[str, Any]
LOGITS = ("full", "in-place", "qwen-1")
ALONE = "QwenLM"


def points() -> list[Point]:
    """Published points: settings, ``tokens`` in a row, ``gib`` measured (or the card, where a longest length is given)."""
    return list(json.loads((Path(__file__).parent / "memory_points.json").read_text(encoding="utf-8")))


def features(point: Point) -> tuple[float, np.ndarray]:
    """Bytes that no constant scales, and the factors of the six constants."""
    shape = memory.find_model(point["model"])
    how = memory.Setup(**{key: point[key] for key in ("weights", "lora", "checkpointing", "loss", "micro_batch")})
    tokens = point["tokens"] * point["micro_batch"]
    part = memory.terms(shape, how)
    logits = [tokens * part["logits"] if point["loss"] == loss else 0.0 for loss in LOGITS]
    fixed = memory.static_bytes(shape, how) + tokens * part["kept"]
    return fixed, np.array([1.0, tokens * part["attention"], tokens * part["ffn"], *logits])


def fit(chosen: list[Point]) -> np.ndarray:
    """Non-negative least squares on relative errors, by dropping the most negative constant until none is."""
    pairs = [features(point) for point in chosen]
    weight = np.array([1 / (point["gib"] * memory.GIB) for point in chosen])
    left = np.array([pair[1] for pair in pairs]) * weight[:, None]
    right = 1 - np.array([pair[0] for pair in pairs]) * weight
    scale = np.abs(left).max(axis=0)
    scale[scale == 0] = 1
    active = list(range(left.shape[1]))
    while True:
        found = np.zeros(left.shape[1])
        found[active] = np.linalg.lstsq(left[:, active] / scale[active], right, rcond=None)[0] / scale[active]
        negative = [k for k in active if found[k] < 0]
        if not negative:
            return found
        active.remove(min(negative, key=lambda k: found[k]))


def predict(point: Point, constants: np.ndarray) -> float:
    """Peak in GiB."""
    fixed, factors = features(point)
    return float(fixed + factors @ constants) / memory.GIB


def errors(chosen: list[Point], constants: np.ndarray) -> np.ndarray:
    """Relative errors, positive where the model says more than was measured."""
    return np.array([predict(point, constants) / point["gib"] - 1 for point in chosen])


def leave_one_out(used: list[Point]) -> dict[str, np.ndarray]:
    """Errors on each source by a fit on the others."""
    sources = sorted({point["source"] for point in used if not point["source"].startswith(ALONE)})
    return {
        source: errors(
            [point for point in used if point["source"] == source],
            fit([point for point in used if point["source"] != source]),
        )
        for source in sources
    }


def main() -> None:
    used = [point for point in points() if point["used"]]
    constants = fit(used)
    names = ("overhead", "k_attention", "k_ffn", *LOGITS)
    print(f"{len(used)} points fitted: " + ", ".join(f"{n} {c:.5g}" for n, c in zip(names, constants, strict=True)))
    left_out = leave_one_out(used)
    for source, error in left_out.items():
        worst = error[np.abs(error).argmax()]
        print(f"  left out: {np.median(np.abs(error)):6.1%} median, {worst:+6.1%} worst, n {len(error):2}  {source}")
    every = np.abs(np.concatenate(list(left_out.values())))
    print(f"each source left out, {every.size} points: median {np.median(every):.3f}", end="")
    print(f", p90 {np.quantile(every, 0.9):.3f}, worst {every.max():.3f}")
    inside = np.abs(errors(used, constants))
    print(f"on the fitted points: median {np.median(inside):.3f}, worst {inside.max():.3f}")
    for point in points():
        if not point["used"]:
            says = predict(point, constants)
            print(f"  kept out: {says:6.2f} GiB said, {point['gib']:6.2f} measured or card  {point['kind']}  {point['source']}")


if __name__ == "__main__":
    main()
