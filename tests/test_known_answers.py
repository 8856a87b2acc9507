"""What the main job gives on real traces, as literal numbers: on committed extracts always, on the whole files where they are at hand.

The numbers of the extracts were counted by a plain loop over the texts (see ``tests/data/README.md``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.terminal import CHARS, at, curate, facts, texts

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"
MATH500 = ("--thinking", "optional", "--passed", "correct", "--difficulty", "level")
AIME24 = ("--where", "benchmark = 'aime24'", "--thinking", "optional")
whole = pytest.mark.skipif(
    not SHARED.exists(), reason="the whole files of ../shared/traces are not at hand; the extracts are tested"
)


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))


def row(found: dict[str, Any], bound: int) -> tuple[Any, ...]:
    """A bound's traces that fit, and its problems: any, first, average, shortest, longest."""
    b = at(found, bound)
    p = b["problems"]
    return b["traces"], p["any"], p["first"], pytest.approx(p["average"], abs=0.005), p["shortest"], p["longest"]


def bands(found: dict[str, Any], bound: int) -> list[tuple[int, int, int]]:
    return [(b["problems"], b["with_passing"], b["kept"]) for b in at(found, bound)["skew"]["bands"]]


def base(found: dict[str, Any]) -> tuple[int, ...]:
    keys = ("traces", "problems", "unfinished", "without_thinking")
    return (*(found[k] for k in keys), found["passing"]["passed"])


def lengths(found: dict[str, Any]) -> tuple[int, ...]:
    return tuple(found["tokens"][k] for k in ("p50", "p90", "max", "total"))


def test_an_extract_of_math500() -> None:
    found = facts("yield", DATA / "math500_extract.parquet", *MATH500, "--bounds", "1024,2048", *CHARS)
    assert base(found) == (90, 30, 11, 72, 54)
    assert lengths(found) == (456, 2683, 4578, 86884)
    assert row(found, 1024) == (64, 30, 14, 19.17, 22, 14)
    assert row(found, 2048) == (73, 30, 23, 23.67, 24, 23)
    assert [at(found, b)["tokens"] for b in (1024, 2048)] == [24317, 36749]
    assert bands(found, 1024) == [(3, 3, 3), (4, 4, 4), (4, 4, 4), (7, 7, 6), (12, 7, 5)]
    assert found["difficulty"] == {"rated": 90, "unrated": 0}


def test_an_extract_of_aime24() -> None:
    found = facts("yield", DATA / "aime24_amc23_extract.parquet", *AIME24, "--bounds", "1024,4096", *CHARS)
    assert base(found) == (72, 8, 27, 24, 15)
    assert lengths(found) == (4093, 33720, 44100, 896906)
    assert row(found, 1024) == (23, 8, 0, 0.33, 1, 0)
    assert row(found, 4096) == (36, 8, 2, 1.89, 2, 1)


@pytest.mark.parametrize("problem", [(), ("--problem", "prompt")])
def test_an_extract_of_prime_rl_whose_opening_mark_ends_the_prompt(problem: tuple[str, ...]) -> None:
    found = facts("yield", DATA / "prime_rl_extract.jsonl", "--passed", "task_reward", *problem, "--bounds", "1280", *CHARS)
    assert base(found) == (32, 4, 10, 0, 17)
    assert lengths(found) == (1436, 2072, 2155, 46603)
    assert row(found, 1280) == (13, 3, 3, 2.71, 3, 2)


def test_an_extract_of_amc23_with_its_generations_in_lists() -> None:
    found = facts("yield", DATA / "amc23_nested_extract.jsonl", "--thinking", "optional", "--bounds", "1024,4096", *CHARS)
    assert (found["rows"], found["traces_per_problem"]) == (4, {"12": 4})
    assert base(found) == (48, 4, 0, 10, 48)
    assert lengths(found) == (1059, 1595, 1765, 49714)
    assert row(found, 1024) == (18, 4, 0, 1.5, 4, 0)
    assert row(found, 4096) == (48, 4, 4, 4.0, 4, 4)


def test_an_extract_with_levels_in_words_and_a_problem_without_solutions() -> None:
    source = DATA / "math_levels_extract.jsonl"
    found = facts("yield", source, "--difficulty", "level", "--problem", "problem_id", "--bounds", "1000", *CHARS,
                  "--trace", "solutions[].solution", "--passed", "is_correct")  # fmt: skip
    # 805, 976, 570, 998 and 940 fit; 1713 failed; the problem without solutions is a bad row of one trace
    assert (found["rows"], found["bad_rows"], found["unfinished"]) == (11, 1, 0)
    assert (found["passing"]["passed"], found["passing"]["failed"]) == (9, 1)
    assert at(found, 1000)["problems"]["shortest"] == 5
    labels = [b["label"] for b in at(found, 1000)["skew"]["bands"]]
    assert labels == ["Level 2", "Level 3", "Level 4", "Level 5"]
    assert [(b["with_passing"], b["kept"]) for b in at(found, 1000)["skew"]["bands"]] == [(3, 2), (3, 3), (1, 0), (2, 0)]


@pytest.mark.parametrize(("policy", "kept"), [("first", 22), ("shortest", 22), ("longest", 22), ("random", 22)])
def test_drop_then_choose_keeps_the_same_problems_under_every_policy(policy: str, kept: int, tmp_path: Path) -> None:
    source = DATA / "math500_extract.parquet"
    found = facts("select", source, *MATH500, "--policy", policy, "--max-tokens", "1024", *CHARS, "-o", tmp_path / policy)
    assert (found["problems_kept"], found["kept"]) == (kept, kept)
    assert found["kept"] + sum(found["dropped"].values()) == found["traces"] == 90
    # 11 unfinished, 26 of the finished failed; of the 53 passing 47 fit
    assert found["dropped"]["unfinished"] == 11


@pytest.mark.parametrize(("policy", "kept"), [("first", 14), ("shortest", 22), ("longest", 14)])
def test_choose_then_drop_loses_problems(policy: str, kept: int, tmp_path: Path) -> None:
    source = DATA / "math500_extract.parquet"
    options = ("--choose-then-drop", "--policy", policy, "--max-tokens", "1024", *CHARS, "-o", tmp_path / policy)
    assert facts("select", source, *MATH500, *options)["problems_kept"] == kept


@pytest.mark.parametrize(
    ("name", "options", "bound", "column", "kept"),
    [
        ("math500_extract.parquet", MATH500, 1024, "completion", 22),
        ("aime24_amc23_extract.parquet", AIME24, 4096, "completion", 2),
        ("prime_rl_extract.jsonl", ("--passed", "task_reward"), 1280, "completion", 3),
    ],
)
def test_select_then_yield_agree_and_the_texts_are_the_sources_own(
    name: str, options: tuple[str, ...], bound: int, column: str, kept: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    picked = facts("select", DATA / name, *options, "--shortest", "--max-tokens", bound, *CHARS, "-o", out)
    assert picked["problems_kept"] == picked["kept"] == kept
    assert picked["kept"] + sum(picked["dropped"].values()) == picked["traces"]
    ledger = pl.read_parquet(out / "ledger.parquet")
    chosen = ledger.filter(pl.col("reason").is_null())
    assert (ledger.height, chosen.height) == (picked["traces"], kept)
    assert picked["tokens_kept"] == chosen["tokens"].sum()
    rows = rows_of(DATA / name)
    assert texts(out) == [rows[r][column] for r in chosen["row"]]
    again = facts("yield", out, "--thinking", "optional", "--bounds", bound, *CHARS)
    assert (again["traces"], again["problems"], again["passing"]["passed"]) == (kept, kept, kept)
    assert at(again, bound)["problems"] == {"any": kept, "first": kept, "average": kept, "shortest": kept, "longest": kept}
    assert again["tokens"]["total"] == picked["tokens_kept"]
    held = facts("yield", out / "ledger.parquet", "--thinking", "optional", "--bounds", bound)
    assert at(held, bound)["problems"]["shortest"] == kept


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_nested_rows_are_copied_as_their_chosen_trace(tmp_path: Path) -> None:
    source, out = DATA / "amc23_nested_extract.jsonl", tmp_path / "out"
    facts("select", source, "--thinking", "optional", "--shortest", *CHARS, "-o", out)
    rows = rows_of(source)
    shortest = [min(row["generations"], key=lambda text: len(text) * 10 // 36) for row in rows]
    assert texts(out) == shortest
    own = tmp_path / "own"
    facts("select", source, "--thinking", "optional", "--shortest", *CHARS, "--format", "source", "-o", own)
    kept = pl.read_parquet(own / "data" / "*.parquet")
    assert kept["generations"].to_list() == shortest
    assert kept["correctness_math_verify"].to_list() == [True] * 4
    assert kept["problem"].to_list() == [row["problem"] for row in rows]


@whole
def test_math500() -> None:
    source = SHARED / "skythought" / "math500_runs.parquet"
    found = facts("yield", source, *MATH500, "--bounds", "1024,2048,4096", *CHARS)
    assert base(found) == (1500, 500, 94, 1210, 1010)
    assert [found["tokens"][k] for k in ("p50", "p90", "p99", "max")] == [435, 2353, 4006, 19848]
    assert row(found, 1024) == (1154, 500, 255, 345.0, 398, 255)
    assert row(found, 2048) == (1308, 500, 392, 404.0, 412, 392)
    assert row(found, 4096) == (1490, 500, 416, 416.67, 417, 416)
    assert bands(found, 1024) == [(43, 41, 41), (90, 86, 84), (105, 99, 98), (128, 108, 100), (134, 83, 75)]


@whole
@pytest.mark.parametrize(("more", "kept"), [(("first",), 398), (("first", "--choose-then-drop"), 255), (("shortest", "--choose-then-drop"), 398),
                                            (("random",), 398), (("longest",), 398)])  # fmt: skip
def test_choosing_on_math500(more: tuple[str, ...], kept: int, tmp_path: Path) -> None:
    source = SHARED / "skythought" / "math500_runs.parquet"
    found = facts("select", source, *MATH500, "--max-tokens", "1024", *CHARS, "-o", tmp_path / "out", "--policy", *more)
    assert found["problems_kept"] == kept
    assert found["kept"] + sum(found["dropped"].values()) == 1500


@whole
def test_aime24() -> None:
    source = SHARED / "skythought" / "aime24_amc23_runs.parquet"
    found = facts("yield", source, *AIME24, "--bounds", "1024,4096", *CHARS)
    assert (found["traces"], found["problems"], found["unfinished"], found["passing"]["passed"]) == (990, 30, 292, 216)
    assert [found["tokens"][k] for k in ("p50", "p90", "max")] == [2471, 30455, 46512]
    assert row(found, 1024) == (380, 30, 3, 4.24, 10, 2)
    assert row(found, 4096) == (611, 30, 15, 14.55, 18, 8)


@whole
def test_prime_rl() -> None:
    source = SHARED / "prime_rl" / "rollouts.jsonl"
    found = facts("yield", source, "--passed", "task_reward", "--bounds", "1280", *CHARS)
    assert base(found) == (112, 14, 52, 0, 37)
    assert [found["tokens"][k] for k in ("p50", "p90")] == [1423, 1819]
    assert row(found, 1280) == (29, 8, 6, 5.05, 7, 3)


@whole
def test_nested_rows_give_what_flat_rows_give_but_for_the_order() -> None:
    bounds = ("--thinking", "optional", "--bounds", "1024,4096", *CHARS)
    nested = facts("yield", SHARED / "skythought" / "amc23_nested.jsonl", *bounds)
    flat = facts("yield", SHARED / "skythought" / "aime24_amc23_runs.parquet", "--where", "benchmark = 'amc23'", *bounds)
    assert base(nested) == base(flat) == (480, 40, 99, 92, 304)
    assert nested["tokens"] == flat["tokens"]
    for one, other in zip(nested["bounds"], flat["bounds"], strict=True):
        del one["problems"]["first"], other["problems"]["first"]
        assert one["problems"] == other["problems"]
        assert (one["traces"], one["tokens"]) == (other["traces"], other["tokens"])


@whole
def test_ids_of_codeforces_join_their_ratings_once_and_the_others_are_unrated(tmp_path: Path) -> None:
    programs = json.loads((SHARED / "codeforces_cots" / "judge_groundtruth.json").read_text(encoding="utf-8"))
    rows = programs if isinstance(programs, list) else next(v for v in programs.values() if isinstance(v, list))
    names = [next(str(v) for k, v in r.items() if "/" in str(v) and k in ("id", "problem_id", "key")) for r in rows]
    pl.DataFrame({"id": names, "generation": ["<think>a</think>b"] * len(names), "passed": [True] * len(names)}).write_parquet(
        tmp_path / "t.parquet"
    )
    pl.read_ndjson(SHARED / "codeforces_ratings" / "problems.jsonl").select(
        id=pl.concat_str(pl.col("contestId").cast(pl.String), pl.lit("/"), pl.col("index")), rating="rating"
    ).write_csv(tmp_path / "ratings.csv")
    done = curate("yield", tmp_path / "t.parquet", "--difficulty-from", tmp_path / "ratings.csv", "--json", *CHARS)
    assert done.facts["difficulty"] == {"rated": 1, "unrated": 30}
    assert at(done.facts, None)["skew"]["bands"] == [{"label": "3400", "problems": 1, "with_passing": 1, "kept": 1}]
