"""Token lengths without a tokenizer: a linear model over cheap features of the text, and how far it may be off.

Bytes and characters are exact; the other features come from 32 slices of each text (2 KiB in all), scaled to its length:
lengths of real traces change by under 1 % against features of the whole text, and a long trace costs what a short one
does. Coefficients, their provenance and the 95 % range of a source's bias stand in ``estimate.json``, written by
``benchmarks/fit_estimate.py``. The model has no constant term, so lengths of parts add up.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import itertools
import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from curate.errors import UsageError, near

FEATURES: Final = (
    "bytes",
    "characters",
    "spaces",
    "newlines",
    "digits",
    "punctuation",
    "words",
    "capitals",
    "punctuation_runs",
    "blank_runs",
    "symbols",
)
"""Counts a text: bytes and code points, ASCII blanks and tabs, line breaks, ASCII digits and punctuation, runs of ASCII
letters, capital letters, runs of punctuation, blanks behind a blank, symbols of the blocks that begin with the bytes C2 and
E2 (mathematics, arrows, typographic marks)."""

SLICES: Final = 32
SLICE: Final = 64
_KINDS: Final = 9
_LOWER, _UPPER, _DIGIT, _SPACE, _NEWLINE, _PUNCT, _HIGH, _SYMBOL, _CONTROL = range(_KINDS)


def _kinds() -> np.ndarray[Any, np.dtype[np.uint8]]:
    table = np.full(256, _CONTROL, np.uint8)
    table[33:127] = _PUNCT
    table[48:58] = _DIGIT
    table[65:91] = _UPPER
    table[97:123] = _LOWER
    table[[32, 9]] = _SPACE
    table[[10, 13]] = _NEWLINE
    table[128:] = _HIGH
    table[[0xC2, 0xE2]] = _SYMBOL
    return table


_KIND: Final = _kinds()


def _weights() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Which pairs of (kind of the byte before, kind of this byte) each sliced feature counts: [81, features - 2]."""
    pairs = np.zeros((_KINDS, _KINDS, len(FEATURES) - 2))
    pairs[:, _SPACE, 0] = 1
    pairs[:, _NEWLINE, 1] = 1
    pairs[:, _DIGIT, 2] = 1
    pairs[:, _PUNCT, 3] = 1
    for letter in (_LOWER, _UPPER):
        pairs[:, letter, 4] = 1
        pairs[[[_LOWER], [_UPPER]], letter, 4] = 0
    pairs[:, _UPPER, 5] = 1
    pairs[:, _PUNCT, 6] = 1
    pairs[_PUNCT, _PUNCT, 6] = 0
    pairs[_SPACE, _SPACE, 7] = 1
    pairs[:, _SYMBOL, 8] = 1
    return pairs.reshape(_KINDS * _KINDS, -1)


_PAIR: Final = _weights()


def features(texts: pl.Series, *, whole: bool = False) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One row per text (String, null counts as empty), one column per name in ``FEATURES``, float64.

    ``whole``: look at every byte instead of the slices; for fitting and for tests.
    """
    text = texts.fill_null("")
    return np.column_stack([_sizes(text), _sums(text, _PAIR, whole=whole)])


def _sizes(text: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Bytes and characters of each text, exact."""
    return np.column_stack([text.str.len_bytes().cast(pl.Float64).to_numpy(), text.str.len_chars().cast(pl.Float64).to_numpy()])


def _sums(
    text: pl.Series, table: np.ndarray[Any, np.dtype[np.float64]], *, whole: bool = False
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Sums of ``table`` [81, columns] over the byte pairs of each text, from slices scaled to its length: [rows, columns]."""
    size = text.str.len_bytes().cast(pl.Int64).to_numpy()
    data, start = _bytes(text)
    looked = size if whole else np.minimum(size, SLICES * SLICE)
    out = np.zeros((len(text), table.shape[1]))
    for low, high in _runs(looked):
        out[low:high] = _add(data, start[low:high], size[low:high], looked[low:high], table.astype(np.float32))
    out *= (size / np.maximum(looked, 1))[:, None]
    return out


Ints = np.ndarray[Any, np.dtype[np.int64]]


def _bytes(text: pl.Series) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], Ints]:
    """The UTF-8 bytes of all texts in one array, and where each begins."""
    array = text.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    begins = np.frombuffer(offsets, np.int64, len(text) + 1, array.offset * 8)[:-1]
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), begins


def _runs(looked: Ints, limit: int = 2_000_000) -> list[tuple[int, int]]:
    """Row ranges of about ``limit`` bytes to look at: the index arrays take some 40 bytes for each."""
    at = np.cumsum(looked)
    cuts = np.searchsorted(at, np.arange(limit, int(at[-1]) if len(at) else 0, limit)).tolist()
    edges = sorted({0, *(c + 1 for c in cuts), len(looked)})
    return list(itertools.pairwise(edges))


def _add(
    data: np.ndarray[Any, np.dtype[np.uint8]],
    start: Ints,
    size: Ints,
    looked: Ints,
    table: np.ndarray[Any, np.dtype[np.float32]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    cut = looked < size
    # The middle of each of SLICES equal parts: ends of a trace are not like the rest of it.
    middle = size[:, None] * (2 * np.arange(SLICES) + 1) // (2 * SLICES) - SLICE // 2
    begins = (start[:, None] + np.where(cut[:, None], middle, 0)).ravel()
    lengths = np.where(cut[:, None], SLICE, np.where(np.arange(SLICES) == 0, looked[:, None], 0)).ravel()
    row, used = np.repeat(np.arange(len(start)), SLICES), lengths > 0
    begins, lengths, row = begins[used], lengths[used], row[used]
    if not len(row):
        return np.zeros((len(start), table.shape[1]))
    at = np.cumsum(lengths) - lengths
    kind = _KIND[data[np.repeat((begins - at).astype(np.int32), lengths) + np.arange(lengths.sum(), dtype=np.int32)]]
    before = np.empty_like(kind)
    before[1:] = kind[:-1]
    before[at] = np.where(cut[row], _KIND[data[begins - 1]], _NEWLINE)
    code = before * np.uint8(_KINDS) + kind
    sums = [np.add.reduceat(column[code], at, dtype=np.float64) for column in np.ascontiguousarray(table.T)]
    return np.column_stack([np.bincount(row, weights=s, minlength=len(start)) for s in sums])


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Tokens = features x ``weights``. ``low`` and ``high``: factors of the 95 % range of a source's bias."""

    vocabulary: str
    label: str
    weights: tuple[float, ...]
    low: float
    high: float
    digest: str

    def tokens(self, texts: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Estimated tokens of each text, not rounded."""
        text, weights = texts.fill_null(""), np.array(self.weights)
        # Linear in the features: one look-up a byte pair instead of nine.
        sliced = _sums(text, (_PAIR @ weights[2:])[:, None])[:, 0]
        estimate: np.ndarray[Any, np.dtype[np.float64]] = np.maximum(_sizes(text) @ weights[:2] + sliced, 0.0)
        return estimate


@functools.cache
def models() -> dict[str, Model]:
    """The models of ``estimate.json`` by vocabulary."""
    text = importlib.resources.files("curate").joinpath("estimate.json").read_text(encoding="utf-8")
    data = json.loads(text)
    if tuple(data["features"]) != FEATURES:
        raise AssertionError("estimate.json was fitted for other features: run benchmarks/fit_estimate.py")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {
        name: Model(
            vocabulary=name,
            label=m["label"],
            weights=tuple(m["weights"]),
            low=m["range"]["low"],
            high=m["range"]["high"],
            digest=digest,
        )
        for name, m in data["models"].items()
    }


DEFAULT: Final = "qwen"


def model(name: str = DEFAULT) -> Model:
    """The model of a vocabulary (``qwen``, ``deepseek``); raises ``UsageError`` for another name."""
    found = models().get(name)
    if found is None:
        raise UsageError(
            f"--estimate {name!r}: there is no such model or rule. Give {', '.join(models())}, chars/N or bytes/N."
            + near(name, models())
        )
    return found
