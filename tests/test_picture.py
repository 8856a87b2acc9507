"""The card's picture: lines through the right places, nothing where nothing can be drawn, the same bytes each time."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from curate import picture


def yielded(bounds: list[tuple[int | None, int, int, int]], *, problems: int = 10, choices: str = "2") -> dict[str, Any]:
    return {
        "bounds": [{"max_tokens": b, "problems": {"shortest": s, "first": f, "longest": n}} for b, s, f, n in bounds],
        "problems_with_passing": problems,
        "choices": {choices: problems},
    }


FOUR = yielded([(1024, 2, 1, 0), (2048, 5, 4, 1), (4096, 10, 7, 5), (None, 10, 10, 10)])


def lines(drawn: str | None) -> list[str]:
    assert drawn is not None
    return re.findall(r'<polyline points="([^"]+)"', drawn)


def test_the_lines_go_through_the_shares_on_a_logarithmic_axis() -> None:
    # The axis runs from x = 52 (1,024) to 672 (4,096), so 2,048 lies in the middle; shares from y = 296 (none) to 56 (all).
    longest, first, shortest = lines(picture.svg(FOUR))
    assert shortest == "52.0,248.0 362.0,176.0 672.0,56.0"
    assert first == "52.0,272.0 362.0,200.0 672.0,128.0"
    assert longest == "52.0,296.0 362.0,272.0 672.0,176.0"


def test_the_bound_is_marked_where_the_axis_reaches_it() -> None:
    drawn = picture.svg(FOUR, bound=2048) or ""
    assert '<line x1="362.0" y1="56.0" x2="362.0" y2="296.0"' in drawn
    assert "stroke-dasharray" in drawn
    assert "stroke-dasharray" not in (picture.svg(FOUR, bound=8192) or "")


def test_one_trace_a_problem_leaves_one_line() -> None:
    assert len(lines(picture.svg(yielded([(1, 1, 1, 1), (2, 2, 2, 2)], problems=2, choices="1")))) == 1


def test_the_title_counts_problems() -> None:
    assert "Problems kept, of 10 problems with a passing trace" in (picture.svg(FOUR) or "")
    assert "of 1 problem with" in (picture.svg(yielded([(1, 0, 0, 0), (2, 1, 1, 1)], problems=1)) or "")


def test_numbers_that_would_touch_are_left_out_and_the_last_stays() -> None:
    close = yielded([(b, 1, 1, 1) for b in (1000, 1001, 1002, 64000, 65536)])
    assert re.findall(r">([\d,]+)</text>", picture.svg(close) or "") == ["1,000", "65,536"]


def test_nothing_is_drawn_of_one_bound_or_no_problem() -> None:
    assert picture.svg(yielded([(1024, 2, 1, 0), (None, 10, 10, 10)])) is None
    assert picture.png(yielded([(1, 0, 0, 0), (2, 0, 0, 0)], problems=0)) is None


def test_the_bytes_are_the_same_each_time() -> None:
    pytest.importorskip("vl_convert", reason="the extra [report] draws it")
    first = picture.png(FOUR, bound=2048)
    assert first is not None
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    assert first == picture.png(FOUR, bound=2048)
    assert len(first) < 150_000


def test_without_the_extra_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert picture.png(FOUR) is None
