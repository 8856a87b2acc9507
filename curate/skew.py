"""What a length bound does to difficulty: which problems go, band by band.

Hard problems have longer traces, so a bound takes the hard ones first; a yield of 90 % can be 99 % of the easiest band and 60 % of
the hardest. The unit is the problem, the population the problems that have a difficulty; problems without one stand apart. All
of it is counting over the distinct difficulties, linear in the problems for each bound. Nothing here says why traces are long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.errors import CurateError

VALUES: Final = 10
"""Up to so many distinct difficulties are shown as they are."""

BANDS: Final = 5
"""More are joined into so many bands."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Problems of neighbouring difficulty: how many, how many have a passing trace, how many have one within the bound.

    ``kept`` is a whole number when counted, and a mean when it is the expectation of ``shuffled``.
    """

    label: str
    problems: int
    with_passing: int
    kept: float

    def json(self) -> dict[str, Any]:
        return {"label": self.label, "problems": self.problems, "with_passing": self.with_passing, "kept": self.kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """The rated problems at one bound. ``all`` means rated with a passing trace; a share of nothing is None.

    ``auc``: probability that a problem lost to the bound is harder than a kept one, ties half; 0.5 is no skew, None when
    none is lost or none kept.
    """

    bands: tuple[Band, ...]
    unrated: Band
    kept_mean: float | None
    all_mean: float | None
    kept_median: float | None
    all_median: float | None
    hard_share_all: float | None
    hard_share_with_passing: float | None
    hard_share_kept: float | None
    auc: float | None

    def json(self) -> dict[str, Any]:
        """The keys of the design, and ``unrated`` beside them."""
        return {
            "bands": [band.json() for band in self.bands],
            "kept_mean": self.kept_mean,
            "all_mean": self.all_mean,
            "kept_median": self.kept_median,
            "all_median": self.all_median,
            "hard_share": {
                "all": self.hard_share_all,
                "with_passing": self.hard_share_with_passing,
                "kept": self.hard_share_kept,
            },
            "auc": self.auc,
            "unrated": self.unrated.json(),
        }


@dataclass(frozen=True, slots=True)
class _Levels:
    """Distinct difficulties in rising order, the level of each rated problem, and the first level of each band."""

    values: Floats
    of: Ints
    rated: npt.NDArray[np.bool_]
    starts: Ints
    names: tuple[str, ...]

    def count(self, chosen: npt.NDArray[np.bool_]) -> Ints:
        """Chosen rated problems on each level."""
        return np.bincount(self.of[chosen[self.rated]], minlength=len(self.values)).astype(np.int64)

    def banded(self, counts: npt.NDArray[Any]) -> list[Any]:
        return list(np.add.reduceat(counts, self.starts).tolist())


def skew_table(problems: pl.DataFrame, bounds: Sequence[int | None], labels: Mapping[float, str] | None = None) -> tuple[Skew, ...]:
    """One ``Skew`` per bound (None: no bound), in the order of ``bounds``; empty when no problem has a difficulty.

    ``problems`` has one row per problem: ``difficulty`` (Float64, null = unrated) and ``shortest`` (tokens of its shortest passing
    trace, null = none passes). ``labels`` names difficulties that have names.

    >>> problems = pl.DataFrame({"difficulty": [1.0, 2.0, 3.0, None], "shortest": [10, 20, None, 5]})
    >>> at_15, = skew_table(problems, [15])
    >>> [(b.label, b.problems, b.with_passing, b.kept) for b in at_15.bands], at_15.auc
    ([('1', 1, 1, 1), ('2', 1, 1, 0), ('3', 1, 0, 0)], 1.0)
    """
    levels = _levels(problems["difficulty"], labels or {})
    if levels is None:
        return ()
    shortest = problems["shortest"].cast(pl.Float64).fill_null(math.inf).to_numpy()
    passing = shortest < math.inf
    everyone, able = levels.count(np.ones_like(passing)), levels.count(passing)
    table = []
    for bound in bounds:
        kept = passing if bound is None else passing & (shortest <= bound)
        apart = _unrated(levels, passing, kept)
        table.append(_skew(levels, everyone, able, levels.count(kept), apart))
    return tuple(table)


def _unrated(levels: _Levels, passing: npt.NDArray[np.bool_], kept: npt.NDArray[np.bool_]) -> Band:
    apart = ~levels.rated
    return Band(
        label="unrated",
        problems=int(apart.sum()),
        with_passing=int((apart & passing).sum()),
        kept=int((apart & kept).sum()),
    )


def _levels(difficulty: pl.Series, labels: Mapping[float, str]) -> _Levels | None:
    given = difficulty.cast(pl.Float64).fill_null(math.nan).to_numpy()
    rated = np.isfinite(given)
    if not rated.any():
        return None
    values, of = np.unique(given[rated], return_inverse=True)
    starts = cut(np.bincount(of).tolist())
    edges = [float(values[i]) for i in starts]
    return _Levels(values, of.astype(np.int64), rated, np.array(starts), name_bands(edges, len(values), labels))


def cut(sizes: Sequence[int]) -> list[int]:
    """First level of each band, given the problems on each level: every level alone when there are at most ten, else five bands.

    Each of the four cuts goes to the level nearest to its fifth of the problems, and leaves a level for every later band, so bands
    are as equal as whole levels allow and never empty.

    >>> cut([1] * 20)
    [0, 4, 8, 12, 16]
    >>> cut([90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    [0, 1, 2, 3, 4]
    """
    if len(sizes) <= VALUES:
        return list(range(len(sizes)))
    before = np.concatenate([[0], np.cumsum(sizes)])
    total = int(before[-1])
    starts = [0]
    for band in range(1, BANDS):
        options = range(starts[-1] + 1, len(sizes) - (BANDS - 1 - band))
        starts.append(min(options, key=lambda level: abs(int(before[level]) * BANDS - total * band)))
    return starts


def name_bands(edges: Sequence[float], levels: int, labels: Mapping[float, str]) -> tuple[str, ...]:
    """``1``, ``Level 3``, or for joined levels ``<1200`` (up to the next band) and ``>=2400`` for the hardest.

    >>> name_bands([800.0, 1200.0, 1500.0], 28, {})
    ('<1200', '<1500', '>=1500')
    """
    shown = [labels.get(edge) or plain(edge) for edge in edges]
    if levels == len(edges):
        return tuple(shown)
    return (*(f"<{name}" for name in shown[1:]), f">={shown[-1]}")


def plain(value: float) -> str:
    """A number as people write it: 1200, 0.5."""
    return str(int(value)) if value == int(value) else repr(value)


def _skew(levels: _Levels, everyone: Ints, able: Ints, kept: Ints, unrated: Band) -> Skew:
    columns = (levels.banded(everyone), levels.banded(able), levels.banded(kept))
    bands = tuple(
        Band(label=name, problems=n, with_passing=p, kept=k) for name, n, p, k in zip(levels.names, *columns, strict=True)
    )
    share_all, share_able, share_kept = (column[-1] / sum(column) if sum(column) else None for column in columns)
    return Skew(
        bands=bands,
        unrated=unrated,
        kept_mean=_mean(levels.values, kept),
        all_mean=_mean(levels.values, able),
        kept_median=_median(levels.values, kept),
        all_median=_median(levels.values, able),
        hard_share_all=share_all,
        hard_share_with_passing=share_able,
        hard_share_kept=share_kept,
        auc=auc(kept, able - kept),
    )


def _mean(values: Floats, counts: Ints) -> float | None:
    total = int(counts.sum())
    return math.fsum(values * counts) / total if total else None


def _median(values: Floats, counts: Ints) -> float | None:
    """Midpoint median of ``counts[i]`` copies of ``values[i]``."""
    total = int(counts.sum())
    if not total:
        return None
    at = np.searchsorted(np.cumsum(counts), [(total - 1) // 2, total // 2], side="right")
    return float(values[at].sum() / 2)


def auc(kept: Ints, lost: Ints) -> float | None:
    """P(a lost problem is harder than a kept one) + half P(equally hard), from counts on rising levels.

    The area under the ROC curve as a rank statistic (Mann and Whitney 1947); exact in integers up to the division.

    >>> auc(np.array([2, 1]), np.array([1, 2]))
    0.6666666666666666
    """
    n_kept, n_lost = int(kept.sum()), int(lost.sum())
    if not n_kept or not n_lost:
        return None
    harder = n_lost - np.cumsum(lost)
    return int(kept @ (2 * harder + lost)) / (2 * n_kept * n_lost)


def half_of_hardest(problems: pl.DataFrame, labels: Mapping[float, str] | None = None) -> tuple[str, int] | None:
    """Label of the hardest band, and the bound that keeps half of its problems that have a passing trace; None without any."""
    levels = _levels(problems["difficulty"], labels or {})
    if levels is None:
        return None
    rated = problems.filter(pl.Series(levels.rated))["shortest"]
    lengths = rated.filter(pl.Series(levels.of >= levels.starts[-1])).drop_nulls().sort()
    return (levels.names[-1], int(lengths[-(-len(lengths) // 2) - 1])) if len(lengths) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """What a bound would keep of each band if length had nothing to do with the problem, on average over all shuffles."""

    bands: tuple[Band, ...]
    hard_share: float | None


def shuffled(
    problems: pl.DataFrame,
    lengths: npt.NDArray[np.integer[Any]],
    bounds: Sequence[int | None],
    labels: Mapping[float, str] | None = None,
) -> tuple[Shuffled, ...]:
    """``skew_table`` with lengths dealt anew among all passing traces: the part of a skew that is mechanical.

    Easy problems have more passing traces to choose from, so a bound keeps more of them even when length and difficulty are
    unrelated. This is the exact mean over all shuffles, no draw: with K of N passing lengths within the bound, a problem with m
    passing traces is lost with probability C(N-K, m) / C(N, m). ``problems`` needs ``difficulty`` and ``passing`` (how many
    of its traces pass); ``lengths`` holds the tokens of all N passing traces. ``hard_share`` is a ratio of the means.
    """
    levels = _levels(problems["difficulty"], labels or {})
    if levels is None:
        return ()
    choices = problems["passing"].cast(pl.Int64).to_numpy()
    everyone = levels.banded(levels.count(np.ones(len(choices), dtype=np.bool_)))
    able = levels.banded(levels.count(choices > 0))
    sizes, size_of = np.unique(choices[levels.rated], return_inverse=True)
    total = len(lengths)
    table = []
    for bound in bounds:
        within = total if bound is None else int((lengths <= bound).sum())
        chance = np.array([1.0 - _none_of(int(m), total, within) for m in sizes])
        expected = levels.banded(np.bincount(levels.of, weights=chance[size_of], minlength=len(levels.values)))
        bands = tuple(
            Band(label=name, problems=n, with_passing=p, kept=k)
            for name, n, p, k in zip(levels.names, everyone, able, expected, strict=True)
        )
        table.append(Shuffled(bands=bands, hard_share=expected[-1] / sum(expected) if sum(expected) else None))
    return tuple(table)


def _none_of(drawn: int, total: int, within: int) -> float:
    """Probability that none of ``drawn`` lengths, of ``total`` of which ``within`` fit, fits; hypergeometric."""
    over = total - within
    if drawn > over:
        return 0.0
    lost = math.lgamma(over + 1) - math.lgamma(over - drawn + 1)
    return math.exp(lost - math.lgamma(total + 1) + math.lgamma(total - drawn + 1))


SCALES: Final = (
    (
        ("trivial",),
        ("very easy",),
        ("easy", "simple"),
        ("medium easy", "easy medium"),
        ("medium", "moderate", "normal"),
        ("medium hard", "hard medium"),
        ("hard", "difficult"),
        ("very hard", "very difficult"),
        ("extreme", "extremely hard"),
    ),
    (("low",), ("mid", "middle", "medium"), ("high",)),
    (("introductory",), ("interview",), ("competition",)),
    (("beginner", "novice"), ("elementary", "basic"), ("intermediate",), ("advanced",), ("expert",)),
)
"""Words for difficulty from easy to hard. One data set's labels are of one scale: TACO's of the first, APPS's of the third."""

SILENT: Final = frozenset({"", "?", "-", "unknown", "unknown difficulty", "none", "null", "nan", "n/a", "na", "unrated", "level ?"})
"""Labels that say nothing: unrated."""

_NUMBER: Final = re.compile(r"(?P<before>\D*?)(?P<number>[-+]?\d+(?:\.\d+)?)(?P<after>\D*)")


def order_labels(values: Iterable[str | None]) -> dict[str, float]:
    """Difficulty of each label: larger is harder.

    Numbers and numbered words of one kind ("1200", "Level 3", "5 stars") stand for their number; words of one known scale for
    their rank among those present, from 1. Null and labels that say nothing ("unknown", "Level ?") are left out: unrated.
    Anything else is an error, because a guess would turn the skew around.

    >>> order_labels(["Hard", "Easy", "Medium", None])
    {'Easy': 1.0, 'Medium': 2.0, 'Hard': 3.0}
    >>> order_labels(["Level 5", "Level 1", "Level ?"])
    {'Level 1': 1.0, 'Level 5': 5.0}
    """
    known = {value: key for value in values if value is not None and (key := _key(value)) not in SILENT}
    found = _numbered(known) or _ranked(known)
    if found is None:
        words = ", ".join(repr(label) for label in sorted(known)[:8])
        raise CurateError(
            f"No order is known for the difficulties {words}. Say it with --labels, easy to hard: --labels {','.join(sorted(known))[:60]}; "
            "or name a column of numbers with --difficulty."
        )
    return dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))


def _key(label: str) -> str:
    return " ".join(re.sub(r"[\s_-]+", " ", label).split()).casefold() if not _is_number(label) else label.strip()


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False


def _numbered(known: Mapping[str, str]) -> dict[str, float] | None:
    if all(_is_number(key) for key in known.values()):
        return {label: float(key) for label, key in known.items()}
    matches = {label: _NUMBER.fullmatch(key) for label, key in known.items()}
    kinds = {(m["before"].strip(), m["after"].strip()) if m else None for m in matches.values()}
    if len(kinds) != 1 or None in kinds:
        return None
    return {label: float(m["number"]) for label, m in matches.items() if m}


def _ranked(known: Mapping[str, str]) -> dict[str, float] | None:
    for scale in SCALES:
        place = {word: i for i, words in enumerate(scale) for word in words}
        if all(key in place for key in known.values()):
            ranks = {p: float(rank) for rank, p in enumerate(sorted({place[key] for key in known.values()}), start=1)}
            return {label: ranks[place[key]] for label, key in known.items()}
    return None
