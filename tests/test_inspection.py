"""Loops, copies, overlap, quotations: counted by hand on small texts, and against a plain loop."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate import inspection

SHARED = Path(__file__).resolve().parents[2] / "shared"
real = pytest.mark.skipif(not SHARED.exists(), reason="needs the real looping traces, which are not part of the repository")


def words(start: int, n: int) -> str:
    return " ".join(f"w{i}" for i in range(start, start + n))


def test_grams_do_not_cross_texts_and_ignore_case_and_white_space() -> None:
    found = inspection.grams(pl.Series(["A b  c", "a B\nc d", "a b", None]), n=3)
    assert found["row"].to_list() == [0, 1, 1]
    assert found["at"].to_list() == [0, 0, 1]
    assert found["gram"][0] == found["gram"][1] != found["gram"][2]


def test_a_cycle_of_ten_words_is_a_loop_from_its_third_round() -> None:
    # 700 words, 693 8-grams; those of the cycle stand for the third time from word 120 on, so the blocks of 64 from 128 on are
    # stuck: 693 - 128 = 565 of 693
    text = f"{words(0, 100)} {' '.join([words(1000, 10)] * 60)}"
    found = inspection.loops(pl.Series([text]))
    assert found["looping"].to_list() == [True]
    assert found["share"][0] == pytest.approx(565 / 693)


def test_a_loop_that_recovers_is_none_and_neither_is_a_program_told_twice() -> None:
    recovered = f"{' '.join([words(1000, 10)] * 60)} {words(0, 100)}"
    twice = f"{words(0, 400)} {words(5000, 300)} {words(5000, 300)}"
    found = inspection.loops(pl.Series([recovered, twice, words(0, 900), "", None]))
    assert found["looping"].to_list() == [False] * 5
    assert found["share"].to_list() == [0.0] * 5


def test_runs_without_a_break_and_chinese_loop_too() -> None:
    run = "a" * 9000
    chinese = "这个答案是正确的我们再检查一次" * 60
    assert inspection.loops(pl.Series([run, chinese]))["looping"].to_list() == [True, True]


def test_only_the_end_of_a_long_text_decides() -> None:
    text = f"{words(0, 9000)} {' '.join([words(90000, 10)] * 400)}"
    found = inspection.loops(pl.Series(["short", text]))
    assert found["looping"].to_list() == [False, True]
    assert 0.25 < found["share"][1] < 0.31  # 4,000 of 13,000 words, less two rounds and a block


def test_exact_and_near_copies() -> None:
    base = words(0, 400)
    near = base.replace("w200 ", "other ")  # 8 of 393 8-grams differ
    frame = pl.Series([base, words(1000, 400), f" {base}\n", near, None, "", ""])
    found = inspection.copies(frame)
    assert found.exact == 1
    assert found.near == 1
    assert found.pairs == ((0, 3),)


def test_no_texts_have_no_copies_and_no_loops() -> None:
    empty = pl.Series([], dtype=pl.String)
    assert inspection.copies(empty) == inspection.Copies(exact=0, near=0, pairs=())
    assert inspection.loops(empty).height == 0
    assert inspection.overlap(empty, empty).any == 0


def test_overlap_names_the_item_and_its_share() -> None:
    items = pl.Series([words(0, 20), words(100, 9), "too short"])
    prompts = pl.Series([f"Solve this: {words(0, 20)} Good luck.", words(500, 30), f"x {words(100, 8)} y", None])
    found = inspection.overlap(prompts, items)
    assert found.rows.to_dicts() == [{"row": 0, "item": 0, "share": 1.0}, {"row": 2, "item": 1, "share": 0.5}]
    assert (found.any, found.most, found.too_short) == (2, 2, 1)


def test_a_phrase_of_more_than_fifty_items_is_no_overlap() -> None:
    phrase = "please give the final answer in a box at the end"
    items = pl.Series([f"{phrase} {words(100 * i, 9)}" for i in range(51)])
    assert inspection.overlap(pl.Series([phrase]), items).any == 0
    assert inspection.overlap(pl.Series([phrase]), items[:50]).any == 1


def test_a_trace_quotes_twelve_words_of_the_editorial_not_of_the_statement() -> None:
    statement = words(0, 30)
    editorial = f"Recall {words(0, 30)}. Then {words(200, 30)}."
    traces = pl.Series([f"a {words(205, 12)} b", f"a {words(205, 11)} b", f"a {words(5, 20)} b", words(205, 12)])
    hints = pl.Series([editorial, editorial, editorial, None])
    assert inspection.quotes(traces, hints, pl.Series([statement] * 4)).to_list() == [True, False, False, None]
    assert inspection.quotes(traces, hints).to_list() == [True, False, True, None]


def test_ids_that_number_rows_while_prompts_repeat_are_suspect() -> None:
    prompts = pl.Series(["p", "p ", "q", "q"])
    assert inspection.ids(pl.Series([1, 2, 3, 4]), prompts) == inspection.Ids(rows=4, ids=4, prompts=2, suspect=True)
    assert not inspection.ids(pl.Series(["a", "a", "b", "b"]), prompts).suspect
    assert not inspection.ids(pl.Series(["a", "b", "c", "d"]), pl.Series(["p", "q", "r", "s"])).suspect
    assert not inspection.ids(pl.Series([None, None], dtype=pl.String), prompts[:2]).suspect


def test_a_sample_is_ascending_seeded_and_whole_when_small() -> None:
    assert inspection.sample(3, 10) == [0, 1, 2]
    some = inspection.sample(1000, 20, seed=1)
    assert some == sorted(set(some)) and len(some) == 20
    assert some == inspection.sample(1000, 20, seed=1) != inspection.sample(1000, 20, seed=2)


def test_a_summary_counts_within_the_sample() -> None:
    loop = " ".join([words(0, 10)] * 60)
    texts = pl.Series([loop, "a b c", "a b c", words(300, 50)])
    assert inspection.summary(texts) == {"looked_at": 4, "loops": 1, "exact_copies": 1, "near_copies": 0}
    assert inspection.summary(texts, size=2)["looked_at"] == 2


def looping_by_hand(text: str) -> float:
    """The same rule as a plain loop."""
    parts = text.split()
    seen: dict[tuple[str, ...], int] = {}
    again = []
    for at in range(len(parts) - inspection.LOOP_N + 1):
        gram = tuple(parts[at : at + inspection.LOOP_N])
        again.append(seen.get(gram, 0) >= 2)
        seen[gram] = seen.get(gram, 0) + 1
    blocks = [again[i : i + inspection.LOOP_BLOCK] for i in range(0, len(again), inspection.LOOP_BLOCK)]
    tail = 0
    while tail < len(blocks) and sum(blocks[-1 - tail]) / len(blocks[-1 - tail]) >= inspection.LOOP_STUCK:
        tail += 1
    return sum(map(len, blocks[len(blocks) - tail :])) / len(again) if tail >= inspection.LOOP_BLOCKS else 0.0


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(0, 60)), min_size=1, max_size=4))
def test_loops_agree_with_a_plain_loop(parts: list[tuple[int, int, int]]) -> None:
    texts = [f"{words(0, fresh)} {' '.join([words(100, cycle)] * rounds)}".strip() for fresh, cycle, rounds in parts]
    texts = [t for t in texts if len(t) <= inspection.END_CHARS]
    found = inspection.loops(pl.Series(texts, dtype=pl.String))["share"].to_list()
    assert found == pytest.approx([looping_by_hand(t) for t in texts])


@real
def test_real_loops_are_found_and_almost_none_of_them_is_right() -> None:
    frame = pl.read_parquet(SHARED / "traces" / "skythought" / "aime24_amc23_runs.parquet")
    some = frame[random.Random(0).sample(range(frame.height), 300)]
    found = inspection.loops(some["completion"])
    looping = some.filter(found["looping"])
    assert 40 <= looping.height <= 90  # 304 of all 1,470 rows loop
    assert looping["correct"].sum() <= 2
    longest = frame.sort(pl.col("completion").str.len_chars(), descending=True)[:3]
    assert inspection.loops(longest["completion"])["looping"].all()


@real
def test_real_exact_copies_are_as_a_group_by_counts_them() -> None:
    frame = pl.read_parquet(SHARED / "traces" / "skythought" / "aime24_amc23_runs.parquet").filter(pl.col("benchmark") == "aime24")
    plain = frame["completion"].str.replace_all(r"\s+", " ").str.strip_chars()
    assert inspection.copies(frame["completion"]).exact == frame.height - plain.n_unique()
