"""Text for a terminal: nothing that steers it, and numbers that are never rounded into a claim."""

from __future__ import annotations

import pytest

from curate import plain


@pytest.mark.parametrize("char", ["\x00", "\x07", "\n", "\r", "\t", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u2028", "\u200f"])
def test_no_character_steers_the_terminal(char: str) -> None:
    shown = plain.safe(f"a{char}b")
    assert char not in shown
    assert shown.encode().decode("unicode_escape") == f"a{char}b"


def test_other_text_is_left_alone() -> None:
    assert plain.safe("é 中文 😀 \\n") == "é 中文 😀 \\n"
    assert plain.safe(7) == "7"


@pytest.mark.parametrize(
    ("part", "whole", "digits", "shown"),
    [
        (1, 2, 0, "50%"),
        (999, 1000, 0, ">99%"),
        (1000, 1000, 0, "100%"),
        (1, 1000, 0, "<1%"),
        (0, 1000, 0, "0%"),
        (9999, 10_000, 1, ">99.9%"),
        (1, 10_000, 1, "<0.1%"),
        (1, 0, 0, "-"),
        (None, 1, 0, "-"),
        (0.25, 1.0, 0, "25%"),
    ],
)
def test_percent(part: float | None, whole: float, digits: int, shown: str) -> None:
    assert plain.percent(part, whole, digits=digits) == shown


def test_numbers() -> None:
    assert [plain.n(x) for x in (None, 0, 999, 1234567, 1.5, 2.5)] == ["-", "0", "999", "1,234,567", "2", "2"]
    assert [plain.millions(x) for x in (None, 0, 999, 1000, 34_200, 999_999, 1_234_567, 269e6, 1.5e9)] == [
        "-", "0", "999", "1.0k", "34.2k", "1.0M", "1.2M", "269M", "1.5B",
    ]  # fmt: skip
    assert plain.plural(1, "trace") == "1 trace"
    assert plain.plural(1000, "box", "boxes") == "1,000 boxes"


def test_columns_line_up() -> None:
    assert plain.table([["a", "1"], ["bbb", "100"], ["c", ""]], indent="") == ["a      1", "bbb  100", "c"]


def test_lines_of_a_readable_width() -> None:
    lines = plain.wrap("word " * 60, indent="  ")
    assert all(len(line) <= plain.WIDTH for line in lines)
    assert [line.startswith("  ") for line in lines] == [False, True, True, True][: len(lines)]
    assert plain.wrap("") == [""]
    assert plain.wrap("x" * 300) == ["x" * 300]  # a path is not broken
