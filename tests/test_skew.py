"""Bands, shares and orders worked out by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest

from curate.errors import CurateError
from curate.skew import cut, half_of_hardest, name_bands, order_labels, shuffled, skew_table


def problems(*rows: tuple[float | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"difficulty": pl.Float64, "shortest": pl.Int64}, orient="row")


FIVE = problems((1.0, 10), (1.0, 20), (2.0, 15), (3.0, 30), (3.0, None), (None, 5), (None, None))


def test_every_figure_at_one_bound() -> None:
    (skew,) = skew_table(FIVE, [15])
    assert skew.json() == {
        "bands": [
            {"label": "1", "problems": 2, "with_passing": 2, "kept": 1},
            {"label": "2", "problems": 1, "with_passing": 1, "kept": 1},
            {"label": "3", "problems": 2, "with_passing": 1, "kept": 0},
        ],
        "kept_mean": 1.5,
        "all_mean": 1.75,
        "kept_median": 1.5,
        "all_median": 1.5,
        "hard_share": {"all": 0.4, "with_passing": 0.25, "kept": 0.0},
        # Lost 1 and 3, kept 1 and 2: ties and wins are 1/2 and 0, 1 and 1.
        "auc": 0.625,
        "unrated": {"label": "unrated", "problems": 2, "with_passing": 1, "kept": 1},
    }


def test_no_bound_loses_nothing_and_a_small_one_keeps_nothing() -> None:
    none_lost, none_kept = skew_table(FIVE, [None, 9])
    assert none_lost.auc is None
    assert none_lost.kept_mean == none_lost.all_mean == 1.75
    assert none_kept.auc is None
    assert none_kept.kept_mean is None
    assert none_kept.kept_median is None
    assert none_kept.hard_share_kept is None


def test_without_difficulty_there_is_no_skew() -> None:
    assert skew_table(problems((None, 5)), [10]) == ()
    assert skew_table(problems(), [10]) == ()
    assert half_of_hardest(problems((None, 5))) is None


def test_not_a_number_and_infinity_are_unrated() -> None:
    (skew,) = skew_table(problems((float("nan"), 5), (float("inf"), 5), (2.0, 5)), [10])
    assert [band.label for band in skew.bands] == ["2"]
    assert skew.unrated.problems == 2
    assert skew.all_mean == 2.0


def test_ten_values_are_bands_and_eleven_are_five_bands() -> None:
    ten, eleven = (problems(*((float(v) * 100, 5) for v in range(8, 8 + n))) for n in (10, 11))
    assert [b.label for b in skew_table(ten, [9])[0].bands] == [str(v * 100) for v in range(8, 18)]
    (skew,) = skew_table(eleven, [9])
    assert [(b.label, b.problems) for b in skew.bands] == [("<1000", 2), ("<1200", 2), ("<1500", 3), ("<1700", 2), (">=1700", 2)]


@pytest.mark.parametrize(
    ("sizes", "starts"),
    [
        ([3, 1, 4], [0, 1, 2]),
        ([10] * 15, [0, 3, 6, 9, 12]),
        ([100] + [1] * 10, [0, 1, 2, 3, 4]),
        ([1] * 10 + [100], [0, 7, 8, 9, 10]),
        ([1] * 5 + [50] + [1] * 6, [0, 5, 6, 7, 8]),
    ],
)
def test_cuts_are_near_the_fifths_and_split_no_value(sizes: list[int], starts: list[int]) -> None:
    assert cut(sizes) == starts


def test_labels_name_their_values() -> None:
    assert name_bands([1.0, 2.0], 2, {1.0: "Level 1", 2.0: "Level 2"}) == ("Level 1", "Level 2")
    assert name_bands([0.25, 0.5], 2, {}) == ("0.25", "0.5")


def test_half_of_the_hardest_band_is_of_those_with_a_passing_trace() -> None:
    rated = problems((1.0, 1), (2.0, 40), (2.0, 10), (2.0, 30), (2.0, 20), (2.0, None))
    assert half_of_hardest(rated) == ("2", 20)
    assert half_of_hardest(rated, {2.0: "hard"}) == ("hard", 20)
    assert half_of_hardest(problems((1.0, 1), (2.0, None))) is None


def test_shuffled_is_the_mean_over_all_shuffles() -> None:
    """Five passing traces, dealt to problems with 3, 1 and 1 of them in each of the 120 ways."""
    lengths, choices, bound = [10, 20, 30, 40, 50], [3, 1, 1], 20
    kept = np.zeros(3)
    for deal in itertools.permutations(lengths):
        hands = (deal[:3], deal[3:4], deal[4:])
        kept += [min(hand) <= bound for hand in hands]
    kept /= 120
    frame = pl.DataFrame({"difficulty": [1.0, 2.0, 2.0, 2.0], "passing": [*choices, 0]})
    chance, everything = shuffled(frame, np.array(lengths), [bound, None])
    assert [band.kept for band in chance.bands] == pytest.approx([kept[0], kept[1] + kept[2]])
    assert [band.with_passing for band in chance.bands] == [1, 2]
    assert chance.hard_share == pytest.approx((kept[1] + kept[2]) / kept.sum())
    assert [band.kept for band in everything.bands] == [1.0, 2.0]


def test_shuffled_with_nothing_to_shuffle() -> None:
    frame = pl.DataFrame({"difficulty": [1.0], "passing": [0]})
    (chance,) = shuffled(frame, np.array([], dtype=np.int64), [10])
    assert [band.kept for band in chance.bands] == [0.0]
    assert chance.hard_share is None
    assert shuffled(frame.with_columns(difficulty=pl.lit(None, pl.Float64)), np.array([1]), [10]) == ()


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["Level 5", "Level 1", None, "Level 3"], {"Level 1": 1.0, "Level 3": 3.0, "Level 5": 5.0}),
        (["Level 2", "Level ?"], {"Level 2": 2.0}),
        (["10", "9", "2.5"], {"2.5": 2.5, "9": 9.0, "10": 10.0}),
        (["L2", "L10"], {"L2": 2.0, "L10": 10.0}),
        (["2 stars", "1 stars"], {"1 stars": 1.0, "2 stars": 2.0}),
        (["hard", "easy", "medium"], {"easy": 1.0, "medium": 2.0, "hard": 3.0}),
        (["Hard", "HARD", "Easy"], {"Easy": 1.0, "HARD": 2.0, "Hard": 2.0}),
        (["MEDIUM_HARD", "VERY_HARD", "EASY", "HARD", "MEDIUM", "UNKNOWN_DIFFICULTY"],
         {"EASY": 1.0, "MEDIUM": 2.0, "MEDIUM_HARD": 3.0, "HARD": 4.0, "VERY_HARD": 5.0}),
        (["very easy", "trivial", "easy"], {"trivial": 1.0, "very easy": 2.0, "easy": 3.0}),
        (["competition", "interview", "introductory"], {"introductory": 1.0, "interview": 2.0, "competition": 3.0}),
        (["low", "high", "medium"], {"low": 1.0, "medium": 2.0, "high": 3.0}),
        ([None, "", "unknown"], {}),
        ([], {}),
    ],
)  # fmt: skip
def test_labels_are_ordered_from_easy_to_hard(labels: list[Any], order: dict[str, float]) -> None:
    assert order_labels(labels) == order
    assert list(order_labels(labels)) == list(order)


@pytest.mark.parametrize("labels", [["A", "B", "F"], ["easy", "zany"], ["Level 1", "Grade 2"], ["10-12", "13-15"], ["easy", "3"]])
def test_an_unknown_order_is_asked_for(labels: list[str]) -> None:
    with pytest.raises(CurateError, match="--difficulty"):
        order_labels(labels)
