"""What someone must know before using a data set, beyond the ledger: loops, copies, overlap with a benchmark, quoted hints.

All of it looks at n-grams of words as 64-bit hashes, on whole columns: about 5 MB of text a second and core; loops and copies
look at 16,000 characters of a text. Costs are bounded by a seeded sample (``sample``); the answers then are of the sample. The
chance that two of a million different n-grams share a hash is below 1e-7.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

WORDS: Final = r"\p{Han}|\w{1,16}|[^\w\s]"
"""A word, a punctuation mark, a Chinese character; runs without a break are taken in pieces of 16, so none is one huge word."""
LOOP_N: Final = 8
LOOP_BLOCK: Final = 64
LOOP_STUCK: Final = 0.7
LOOP_BLOCKS: Final = 4
"""A block of 64 n-grams is stuck when 70 % of them stand in the text for the third time or more; a text loops when it ends in at
least four stuck blocks, about 256 words. Third, not second: an answer often repeats the program that the reasoning ended with."""
END_CHARS: Final = 16_000
HEAD_CHARS: Final = 16_000
OVERLAP_N: Final = 8
"""As in open-r1's decontamination (huggingface/open-r1, scripts/decontaminate.py, --ngram_size 8)."""
QUOTE_N: Final = 12
NEAR: Final = 0.8
SKETCH: Final = 64
CROWD: Final = 50
"""An n-gram in more texts than this is boilerplate, and says nothing about two of them."""
CHUNK_CHARS: Final = 4 << 20
_ODD: Final = 0x9E3779B97F4A7C15


def sample(rows: int, size: int, *, seed: int = 0) -> list[int]:
    """Row numbers of a random sample, ascending; all rows where there are no more than ``size``. A seed gives the same rows."""
    return list(range(rows)) if rows <= size else sorted(random.Random(seed).sample(range(rows), size))


def grams(texts: pl.Series, *, n: int) -> pl.DataFrame:
    """The n-grams of texts in order: ``row`` UInt32 (position in ``texts``), ``at`` UInt32 (position in the text), ``gram`` UInt64.

    Case and white space do not count. A text of fewer than ``n`` words has none.
    """
    words = texts.cast(pl.String).fill_null("").str.to_lowercase().str.extract_all(WORDS)
    sizes = words.list.len().to_numpy().astype(np.int64)
    flat = words.filter(words.list.len() > 0).explode().hash(0).to_numpy() if sizes.any() else np.zeros(0, dtype=np.uint64)
    row = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
    at = np.arange(len(flat)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    whole = at + n <= np.repeat(sizes, sizes)
    rolled = _rolled(flat.astype(np.uint64), n)
    return pl.DataFrame({"row": row[whole], "at": at[whole].astype(np.uint32), "gram": rolled[whole]})


def _rolled(words: npt.NDArray[np.uint64], n: int) -> npt.NDArray[np.uint64]:
    """A polynomial of each word's hash and the n - 1 after it, modulo 2**64; ends of the array hold nonsense and are masked."""
    out = np.zeros(len(words), dtype=np.uint64)
    for k in range(min(n, len(words))):
        out[: len(words) - k] *= np.uint64(_ODD)
        out[: len(words) - k] += words[k:]
    return out


def _chunks(texts: pl.Series) -> Iterator[pl.Series]:
    """Stretches of about CHUNK_CHARS, so that the words of all texts never lie in memory at once."""
    sizes = texts.str.len_chars().fill_null(0).cast(pl.Int64).cum_sum().to_numpy()
    start = 0
    while start < len(texts):
        base = int(sizes[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(sizes, base + CHUNK_CHARS, side="right")))
        yield texts[start:end]
        start = end


def loops(texts: pl.Series) -> pl.DataFrame:
    """Where texts begin to repeat themselves and never stop.

    The last END_CHARS characters are looked at first, and the whole text only where they loop; a cycle of more than about 2,000
    words is not found.

    Returns:
        One row per text: ``looping`` Boolean, ``share`` Float64 (of its n-grams, in the stuck end; 0 where it does not loop).
    """
    ends = texts.cast(pl.String).str.tail(END_CHARS)
    stuck = np.concatenate([np.zeros(0), *(_stuck(chunk) for chunk in _chunks(ends))])
    at = np.flatnonzero(stuck > 0)
    share = np.zeros(len(texts))
    share[at] = np.concatenate([np.zeros(0), *(_stuck(chunk) for chunk in _chunks(texts.gather(at)))])
    return pl.DataFrame({"looping": share > 0, "share": share}, schema={"looping": pl.Boolean, "share": pl.Float64})


def _stuck(texts: pl.Series) -> npt.NDArray[np.float64]:
    """Share of each text's n-grams that lie in stuck blocks at its end; 0 where there are fewer than LOOP_BLOCKS of them."""
    found = grams(texts, n=LOOP_N)
    found = found.with_columns(again=_third(found["row"].to_numpy(), found["gram"].to_numpy()), block=pl.col("at") // LOOP_BLOCK)
    blocks = found.group_by("row", "block").agg(stuck=pl.col("again").mean() >= LOOP_STUCK, size=pl.len())
    last = blocks.filter(~pl.col("stuck")).group_by("row").agg(last=pl.col("block").max().cast(pl.Int64))
    end = pl.col("block").cast(pl.Int64) > pl.col("last").fill_null(-1)
    tails = (
        blocks.join(last, on="row", how="left")
        .group_by("row")
        .agg(blocks=end.sum(), grams=pl.col("size").filter(end).sum(), all=pl.col("size").sum())
        .filter(pl.col("blocks") >= LOOP_BLOCKS)
    )
    share = np.zeros(len(texts))
    share[tails["row"].to_numpy()] = (tails["grams"] / tails["all"]).to_numpy()
    return share


def _third(row: npt.NDArray[np.uint32], gram: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Whether each n-gram has stood in its text at least twice before. One stable sort: half the time of a window function."""
    key = gram ^ (row.astype(np.uint64) * np.uint64(_ODD))
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    fresh = np.ones(len(key), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    place = np.arange(len(key))
    again = np.empty(len(key), dtype=bool)
    again[order] = place - np.maximum.accumulate(np.where(fresh, place, 0)) >= 2
    return again


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Traces that stand in the data again. ``exact`` and ``near`` count copies beyond the first; pairs are positions."""

    exact: int
    near: int
    pairs: tuple[tuple[int, int], ...]


def copies(texts: pl.Series, *, near: float = NEAR) -> Copies:
    """Exact copies (white space aside), and texts that share at least ``near`` of their 8-grams with an earlier one.

    Near copies are judged by the first HEAD_CHARS characters, and found by the 64 smallest n-gram hashes of each text (bottom-k
    sketches): the shared part is an estimate with a standard error of about 0.05.
    """
    plain = texts.cast(pl.String).str.replace_all(r"\s+", " ").str.strip_chars()
    frame = (
        pl.DataFrame({"at": pl.int_range(len(texts), dtype=pl.UInt32, eager=True), "text": plain})
        .drop_nulls()
        .filter(pl.col("text") != "")
    )
    first = frame.unique("text", keep="first", maintain_order=True)
    sketch = _sketches(first)
    popular = sketch.group_by("gram").len().filter(pl.col("len").is_between(2, CROWD)).select("gram")
    rare = sketch.join(popular, on="gram", how="semi")
    pairs = rare.join(rare, on="gram", suffix="_2").filter(pl.col("row") < pl.col("row_2"))
    sizes = sketch.group_by("row").len("size")
    shared = (
        pairs.group_by("row", "row_2")
        .agg(shared=pl.len().cast(pl.Int64))
        .join(sizes, on="row")
        .join(sizes.rename({"row": "row_2", "size": "size_2"}), on="row_2")
        # of two sketches of k values that share s, the union's k smallest hold about s of both: Jaccard is s / (2 k - s)
        .with_columns(of=pl.col("size").cast(pl.Int64) + pl.col("size_2").cast(pl.Int64) - pl.col("shared"))
        .filter(pl.col("shared") / pl.col("of") >= near)
        .sort("row", "row_2")
    )
    return Copies(
        exact=frame.height - first.height,
        near=shared["row_2"].n_unique(),
        pairs=tuple(zip(shared["row"].to_list(), shared["row_2"].to_list(), strict=True)),
    )


def _sketches(frame: pl.DataFrame) -> pl.DataFrame:
    parts = []
    start = 0
    for chunk in _chunks(frame["text"].str.head(HEAD_CHARS)):
        at = frame["at"][start : start + len(chunk)]
        start += len(chunk)
        found = grams(chunk, n=LOOP_N).select("row", "gram").unique()
        least = found.group_by("row").agg(pl.col("gram").bottom_k(SKETCH)).explode("gram")
        parts.append(least.select(row=pl.lit(at).gather(pl.col("row")), gram="gram"))
    return pl.concat(parts) if parts else pl.DataFrame(schema={"row": pl.UInt32, "gram": pl.UInt64})


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Problems that a benchmark holds too. ``rows``: per prompt ``row``, the ``item`` of the benchmark nearest to it, and the
    ``share`` of that item's n-grams that the prompt holds. ``too_short``: items of fewer than n words, which cannot be found."""

    rows: pl.DataFrame
    any: int
    most: int
    too_short: int


def overlap(prompts: pl.Series, against: pl.Series, *, n: int = OVERLAP_N) -> Overlap:
    """Which prompts share an n-gram with a benchmark's items, and which hold most of one (``most``: at least half of it).

    One shared n-gram is a reason to look, not a finding: standard phrases are shared by many problems. N-grams that stand in
    more than ``CROWD`` items are left out.
    """
    known = _numbered(against, n)
    known = known.select(item="row", gram="gram").unique()
    crowd = known.group_by("gram").len().filter(pl.col("len") > CROWD).select("gram")
    sizes = known.group_by("item").len("size")
    known = known.join(crowd, on="gram", how="anti")
    mine = _numbered(prompts, n).select("row", "gram").unique()
    best = (
        mine.join(known, on="gram")
        .group_by("row", "item")
        .agg(hits=pl.len())
        .join(sizes, on="item")
        .with_columns(share=pl.col("hits") / pl.col("size"))
        .sort("row", "share", "item", descending=[False, True, False])
        .unique("row", keep="first", maintain_order=True)
        .select("row", "item", "share")
    )
    texts = against.cast(pl.String).fill_null("").str.extract_all(WORDS).list.len()
    return Overlap(rows=best, any=best.height, most=best.filter(pl.col("share") >= 0.5).height, too_short=int((texts < n).sum()))


def _numbered(texts: pl.Series, n: int) -> pl.DataFrame:
    """``grams`` of many texts, a chunk at a time."""
    parts, start = [grams(texts[:0], n=n)], 0
    for chunk in _chunks(texts):
        parts.append(grams(chunk, n=n).with_columns(pl.col("row") + pl.lit(start, dtype=pl.UInt32)))
        start += len(chunk)
    return pl.concat(parts)


def quotes(traces: pl.Series, hints: pl.Series, statements: pl.Series | None = None, *, n: int = QUOTE_N) -> pl.Series:
    """Whether each trace repeats ``n`` words in a row of the hint that its prompt held; null where there is no hint.

    ``statements``: the problem without the hint; what the hint has from there is no quotation.
    """
    row_gram = ["row", "gram"]
    hint = _numbered(hints, n).select(row_gram).unique()
    if statements is not None:
        hint = hint.join(_numbered(statements, n).select(row_gram), on=row_gram, how="anti")
    found = _numbered(traces, n).select(row_gram).join(hint, on=row_gram, how="semi")["row"].unique()
    has = hints.cast(pl.String).str.contains(r"\S").fill_null(False)
    at = pl.DataFrame({"row": pl.int_range(len(traces), dtype=pl.UInt32, eager=True), "has": has})
    quoted = at.select(q=pl.when("has").then(pl.col("row").is_in(found.implode())))["q"]
    return quoted.alias("quotes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Whether the id column tells problems apart. ``suspect``: an id of its own on every row, while prompts repeat."""

    rows: int
    ids: int
    prompts: int
    suspect: bool


def ids(problem: pl.Series, prompt: pl.Series) -> Ids:
    """An id that is unique per row while prompts repeat numbers rows, not problems: traces should be grouped by their prompt."""
    pair = pl.DataFrame({"id": problem.cast(pl.String), "prompt": prompt.cast(pl.String)}).drop_nulls()
    plain = pair["prompt"].str.replace_all(r"\s+", " ").str.strip_chars()
    rows, known, prompts = pair.height, pair["id"].n_unique() if pair.height else 0, plain.n_unique() if pair.height else 0
    return Ids(rows=rows, ids=known, prompts=prompts, suspect=rows > 1 and known == rows and prompts < rows)


def summary(texts: pl.Series, *, size: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Loops and copies of a sample, as counts: ``looked_at``, ``loops``, ``exact_copies``, ``near_copies``."""
    some = texts.gather(sample(len(texts), size, seed=seed)) if len(texts) > size else texts
    found = copies(some)
    return {
        "looked_at": len(some),
        "loops": int(loops(some)["looping"].sum()),
        "exact_copies": found.exact,
        "near_copies": found.near,
    }
