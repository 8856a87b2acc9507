"""``curate select`` as typed: what is kept, what is written, that it is whole, and that it can be made again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import rows
from tests.terminal import at, curate, facts, listed, texts

T = ("--count", "trace", "--estimate", "chars/1")


def text(length: int, mark: str = "w") -> str:
    """A finished trace of so many characters."""
    return f"<think>\n{mark * (length - 20)}</think>\n\nok"


ROWS = [
    # problem, length, passed, rating
    ("b", 500, True, 2),
    ("a", 100, True, 1),
    ("a", 40, True, 1),
    ("a", 40, True, 1),
    ("b", 90, True, 2),
    ("c", 200, None, 3),
    ("d", 60, False, 3),
    ("g", 700, True, 3),
]
REASONS = ("bad_row", "no_problem", "unfinished", "no_thinking", "not_passing", "over_length", "not_chosen")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    frame(ROWS).write_parquet("traces.parquet")
    return Path("traces.parquet")


def frame(rows: list[Any]) -> pl.DataFrame:
    """Traces whose filler differs from row to row, and a ``messages`` column that holds another text."""
    made = [text(r[1], "abcdefghijklmnop"[i]) for i, r in enumerate(rows)]
    return pl.DataFrame(
        {
            "id": [r[0] for r in rows],
            "prompt": [f"What is {r[0]}?" for r in rows],
            "generation": made,
            "passed": [r[2] for r in rows],
            "rating": [r[3] for r in rows],
            "tag": [f"t{i}" for i in range(len(rows))],
            "messages": [[{"role": "user", "content": "old"}, {"role": "assistant", "content": "another"}]] * len(rows),
        }
    )


def generations(*rows: int) -> list[str]:
    return [text(ROWS[i][1], "abcdefghijklmnop"[i]) for i in rows]


def test_the_shortest_that_fit_in_the_sources_order_with_messages_of_the_chosen_trace(source: Path) -> None:
    found = facts("select", source, *T, "--shortest", "--max-tokens", "100", "-o", "out")
    dropped = dict.fromkeys(REASONS, 0) | {"not_passing": 2, "over_length": 2, "not_chosen": 2}
    assert found == {
        "traces": 8, "kept": 2, "dropped": dropped, "problems": 5, "problems_kept": 2,
        "problems_lost": {"not_passing": 2, "over_length": 1}, "tokens_kept": 130, "out": "out",
    }  # fmt: skip
    rows = pl.scan_parquet("out/data").collect()
    assert [c for c in rows.columns if c in ("messages", "problem", "tokens", "passed", "difficulty", "source")] == rows.columns
    assert rows["messages"].to_list() == [
        [{"role": "user", "content": f"What is {ROWS[i][0]}?"}, {"role": "assistant", "content": t}]
        for i, t in zip((2, 4), generations(2, 4), strict=True)
    ]
    assert rows.select("problem", "tokens", "passed", "difficulty").rows() == [("a", 40, True, 1.0), ("b", 90, True, 2.0)]
    written = ["README.md", "data/train-00000-of-00001.parquet", "ledger.parquet", "longest.parquet", "manifest.json"]
    assert [name for name in listed(Path("out")) if name != "yield.png"] == written  # the picture is made where altair is installed


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (("--policy", "shortest"), (2, 4, 7)),
        (("--policy", "first"), (0, 1, 7)),
        (("--policy", "longest"), (0, 1, 7)),
        (("--policy", "all"), (0, 1, 2, 3, 4, 7)),
        (("--policy", "first", "--max-tokens", "100"), (1, 4)),
        (("--policy", "longest", "--max-tokens", "100"), (1, 4)),
        (("--policy", "first", "--max-tokens", "100", "--choose-then-drop"), (1,)),
        (("--policy", "longest", "--max-tokens", "99", "--choose-then-drop"), ()),
        (("--shortest", "--max-tokens", "90"), (2, 4)),
        (("--shortest", "--max-tokens", "89"), (2,)),
        (("--shortest", "--passing", "not-failed"), (2, 4, 5, 7)),
        (("--shortest", "--passing", "finished"), (2, 4, 5, 6, 7)),
    ],
)
def test_which_rows_a_policy_keeps(source: Path, options: tuple[str, ...], rows: tuple[int, ...]) -> None:
    found = facts("select", source, *T, *options, "-o", "out")
    assert texts(Path("out")) == generations(*rows)
    assert found["kept"] == len(rows)
    assert found["kept"] + sum(found["dropped"].values()) == 8
    ledger = pl.read_parquet("out/ledger.parquet")
    assert ledger.filter(pl.col("reason").is_null())["row"].to_list() == list(rows)
    assert ledger.height == 8


def test_random_is_the_same_for_a_seed_and_keeps_one_a_problem(source: Path) -> None:
    made = {}
    for seed in ("0", "0", "1", "2", "3"):
        found = facts("select", source, *T, "--policy", "random", "--seed", seed, "-o", f"out{len(made)}-{seed}", "--overwrite")
        assert found["kept"] == 3
        rows = tuple(texts(Path(found["out"])))
        assert made.setdefault(seed, rows) == rows
    assert len(set(made.values())) > 1


def test_the_longer_prompt_does_not_punish_a_trace(source: Path) -> None:
    rows = frame([("a", 50, True, 1), ("a", 40, True, 1)]).with_columns(prompt=pl.Series(["q", "q" * 100]))
    rows.drop("messages").write_parquet("p.parquet")
    facts("select", "p.parquet", "--estimate", "chars/1", "--shortest", "-o", "out")
    assert pl.read_parquet("out/data/*.parquet")["tokens"].to_list() == [141]  # 100 of the prompt, a line end, 40 of the trace
    facts("select", "p.parquet", "--estimate", "chars/1", "--shortest", "--max-tokens", "140", "-o", "within")
    assert pl.read_parquet("within/data/*.parquet")["tokens"].to_list() == [52]


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in listed(out)}


def test_the_same_bytes_twice_wherever_it_is_written_and_however_it_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (*T, "--shortest", "--max-tokens", "100")
    facts("select", source, *options, "-o", "one")
    facts("select", source, *options, "-o", tmp_path / "far" / "two")
    facts("select", source, *options, "--no-cache", "-o", "three")
    assert digests(Path("one")) == digests(tmp_path / "far" / "two") == digests(Path("three"))
    for name in listed(Path("one")):
        data = Path("one", name).read_bytes()
        assert str(tmp_path).encode() not in data, name
        assert b"far" not in data or b"two" not in data
    manifest = json.loads(Path("one/manifest.json").read_text())
    named = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    assert named == {name: digest for name, digest in digests(Path("one")).items() if name != "manifest.json"}


def test_no_absolute_path_where_the_source_was_named_by_one(source: Path, tmp_path: Path) -> None:
    template = tmp_path / "secret" / "t.jinja"
    template.parent.mkdir()
    pl.DataFrame({"id": ["a"], "rating": [5]}).write_csv(tmp_path / "secret" / "ratings.csv")
    where = source.resolve()
    joined = ("--difficulty-from", tmp_path / "secret" / "ratings.csv")
    facts("select", where, *T, "--shortest", *joined, "-o", tmp_path / "secret" / "out")
    for name in listed(tmp_path / "secret" / "out"):
        assert str(tmp_path).encode() not in (tmp_path / "secret" / "out" / name).read_bytes(), name


def test_the_output_loads_with_datasets_and_with_polars(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    facts("select", source, *T, "--shortest", "-o", "out")
    rows = datasets.load_dataset("out", split="train", cache_dir=str(tmp_path / "hf"))
    assert rows["problem"][:] == ["a", "b", "g"]
    assert [turns[-1]["content"] for turns in rows["messages"]] == generations(2, 4, 7)
    assert pl.scan_parquet("out/data").select(pl.len()).collect().item() == 3


def test_select_then_yield_agree(source: Path) -> None:
    picked = facts("select", source, *T, "--shortest", "--max-tokens", "100", "-o", "out")
    again = facts("yield", "out", *T, "--bounds", "40,100")
    assert (again["traces"], again["problems"]) == (picked["kept"], picked["problems_kept"])
    assert [b["problems"]["shortest"] for b in again["bounds"]] == [1, 2, 2]
    assert again["tokens"]["total"] == picked["tokens_kept"]
    assert again["difficulty"] == {"rated": 2, "unrated": 0}
    whole = facts("yield", "out/ledger.parquet", "--bounds", "100")
    assert at(whole, 100)["problems"]["shortest"] == picked["problems_kept"]


def test_selecting_from_an_output_changes_nothing(source: Path) -> None:
    facts("select", source, *T, "--shortest", "--max-tokens", "100", "-o", "out")
    facts("select", "out", *T, "--shortest", "--max-tokens", "100", "-o", "again")
    assert texts(Path("again")) == texts(Path("out"))


@pytest.mark.parametrize("style", ["source", "messages", "prompt-completion", "sharegpt", "alpaca"])
def test_every_format_holds_the_whole_trace(source: Path, style: str) -> None:
    facts("select", source, *T, "--shortest", "--format", style, "-o", "out")
    rows = pl.read_parquet("out/data/*.parquet")
    held = {
        "source": lambda r: r["generation"],
        "messages": lambda r: r["messages"][-1]["content"],
        "prompt-completion": lambda r: r["completion"][-1]["content"] if isinstance(r["completion"], list) else r["completion"],
        "sharegpt": lambda r: r["conversations"][-1]["value"],
        "alpaca": lambda r: r["output"],
    }[style]
    assert [held(r) for r in rows.to_dicts()] == generations(2, 4, 7)
    if style == "source":
        assert rows.columns == ["id", "prompt", "generation", "passed", "rating", "tag", "messages"]
        assert [turns[-1]["content"] for turns in rows["messages"]] == generations(2, 4, 7)  # they held another trace


def test_columns_are_added_and_shards_are_many(source: Path) -> None:
    facts("select", source, *T, "--policy", "all", "--columns", "tag,rating", "--num-shards", "3", "-o", "out")
    assert [n for n in listed(Path("out")) if n.startswith("data/")] == [f"data/train-0000{i}-of-00003.parquet" for i in range(3)]
    rows = pl.read_parquet("out/data/*.parquet")
    assert rows["tag"].to_list() == ["t0", "t1", "t2", "t3", "t4", "t7"]
    done = curate("select", source, *T, "--shortest", "--num-shards", "50", "-o", "few")
    assert "3 rows give 3 shards, not 50" in done.err
    assert len(list(Path("few/data").iterdir())) == 3


def test_the_longest_rows_are_put_aside_for_memory(source: Path) -> None:
    frame([(f"p{i}", 30 + i, True, 1) for i in range(16)]).write_parquet("many.parquet")
    facts("select", "many.parquet", *T, "--shortest", "-o", "out")
    assert sorted(pl.read_parquet("out/longest.parquet")["tokens"].to_list()) == [38 + i for i in range(8)]


def test_nothing_kept_is_a_warning_and_files_of_zero_rows_with_the_full_schema(source: Path) -> None:
    done = curate("select", source, *T, "--shortest", "--max-tokens", "10", "-o", "out", "--json")
    assert (done.facts["kept"], done.facts["problems_kept"], done.facts["tokens_kept"]) == (0, 0, 0)
    assert "Warning: nothing was kept, 0 of 8 traces" in done.err
    full = facts("select", source, *T, "--shortest", "-o", "full")
    assert full["kept"] == 3
    assert pl.read_parquet_schema("out/data/train-00000-of-00001.parquet") == pl.read_parquet_schema(
        "full/data/train-00000-of-00001.parquet"
    )
    assert "nan" not in Path("out/README.md").read_text().lower()
    assert facts("yield", "out", *T)["traces"] == 0
    assert facts("inspect", "out", *T)["traces"] == 0


def test_an_output_is_replaced_only_on_demand_and_foreign_files_are_left_alone(source: Path) -> None:
    facts("select", source, *T, "--policy", "all", "--num-shards", "4", "-o", "out")
    Path("out/notes.txt").write_text("mine")
    before = digests(Path("out"))
    done = curate("select", source, *T, "--shortest", "-o", "out")
    assert (done.status, done.out, digests(Path("out"))) == (1, "", before)
    assert "--overwrite" in done.err
    facts("select", source, *T, "--shortest", "-o", "out", "--overwrite")
    assert Path("out/notes.txt").read_text() == "mine"
    assert [n for n in listed(Path("out")) if n.startswith("data/")] == ["data/train-00000-of-00001.parquet"]
    Path("mine").mkdir()
    Path("mine/a.txt").write_text("mine")
    done = curate("select", source, *T, "--shortest", "-o", "mine", "--overwrite")
    assert (done.status, listed(Path("mine"))) == (1, ["a.txt"])


def test_like_makes_the_selection_again(source: Path) -> None:
    options = (*T, "--policy", "longest", "--max-tokens", "100", "--columns", "tag", "--passing", "not-failed")
    facts("select", source, *options, "-o", "out")
    facts("select", source, "--like", "out/manifest.json", "-o", "again")
    assert digests(Path("again")) == digests(Path("out"))
    found = facts("select", source, "--like", "out", "--max-tokens", "40", "-o", "less")
    assert found["kept"] == 1
    recorded = json.loads(Path("out/manifest.json").read_text())["command"]
    assert recorded[:3] == ["curate", "select", "traces.parquet"]
    facts(*recorded[1:], "-o", "typed")
    assert digests(Path("typed")) == digests(Path("out"))


def test_like_without_a_source_takes_the_one_it_was_made_of(source: Path) -> None:
    facts("select", source, *T, "--shortest", "-o", "out")
    frame(ROWS[:2]).write_parquet("other.parquet")
    facts("yield", "other.parquet", *T)  # the last source of this folder is now another
    facts("select", "--like", "out/manifest.json", "-o", "again")
    assert digests(Path("again")) == digests(Path("out"))


def test_the_default_folder_and_the_last_source(source: Path) -> None:
    facts("yield", source, *T)
    found = facts("select", *T, "--shortest", "--max-tokens", "100")
    assert found["out"] == "data/traces-shortest-100"
    assert facts("select", *T, "--policy", "first")["out"] == "data/traces-first"
    assert Path("data/traces-shortest-100/manifest.json").exists()


def test_no_verdicts_stop_and_name_the_option(source: Path) -> None:
    frame(ROWS).drop("passed").write_parquet("bare.parquet")
    done = curate("select", "bare.parquet", *T, "--shortest", "-o", "out")
    assert (done.status, done.out, Path("out").exists()) == (1, "", False)
    assert "--passing finished" in done.err
    assert facts("select", "bare.parquet", *T, "--shortest", "--passing", "finished", "-o", "out")["problems_kept"] == 5
    frame(ROWS).with_columns(passed=None).write_parquet("null.parquet")
    assert curate("select", "null.parquet", *T, "--shortest", "-o", "no").status == 1


def test_mixed_thinking_stops_and_shows_the_counts(source: Path) -> None:
    half = frame(ROWS).with_columns(
        generation=pl.when(pl.col("tag").is_in(["t0", "t1"])).then(pl.lit("plain")).otherwise("generation")
    )
    half.write_parquet("half.parquet")
    done = curate("select", "half.parquet", *T, "--shortest", "-o", "out")
    assert (done.status, Path("out").exists()) == (1, False)
    assert "6 of 8 traces of half think" in done.err
    assert "--thinking required" in done.err
    found = facts("select", "half.parquet", *T, "--shortest", "--thinking", "required", "-o", "out")
    assert found["dropped"]["no_thinking"] == 2


def test_the_default_estimate_is_held_to_its_upper_end(source: Path) -> None:
    found = facts("select", source, "--shortest", "--max-tokens", "60", "-o", "out")
    ledger = pl.read_parquet("out/ledger.parquet")
    assert {"tokens_low", "tokens_high"} <= set(ledger.columns)
    kept = ledger.filter(pl.col("reason").is_null())
    assert found["kept"] == kept.height
    assert (kept["tokens_high"].fill_null(0) <= 60).all()


def test_lists_of_generations_become_their_chosen_element(source: Path) -> None:
    lines = [
        {"id": "a", "problem": "qa", "generations": [text(90, "x"), text(50, "y")], "passed": [True, True], "n": 1},
        {"id": "b", "problem": "qb", "generations": [text(30, "z"), text(60, "u")], "passed": [False, True], "n": 2},
        {"id": "c", "problem": "qc", "generations": [], "passed": [], "n": 3},
        {"id": "d", "problem": "qd", "generations": [text(30, "v")], "passed": [True, True], "n": 4},
    ]
    Path("nested.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = facts("select", "nested.jsonl", *T, "--shortest", "--format", "source", "-o", "out")
    assert (found["kept"], found["dropped"]["not_passing"], found["dropped"]["not_chosen"]) == (2, 1, 1)
    assert found["kept"] + sum(found["dropped"].values()) == found["traces"]
    rows = pl.read_parquet("out/data/*.parquet")
    assert rows.columns == ["id", "problem", "generations", "passed", "n"]
    assert rows.select("generations", "passed", "n").rows() == [(text(50, "y"), True, 1), (text(60, "u"), True, 2)]


def test_other_ids_of_a_problem_are_folded_into_one(source: Path) -> None:
    rows = frame([("1149/C", 90, True, 1), ("1150/E", 50, True, 1), ("9/Z", 60, True, 1)])
    rows.with_columns(aliases=pl.Series([["1150/E"], ["1149/C"], []])).write_parquet("a.parquet")
    found = facts("select", "a.parquet", *T, "--shortest", "--aliases", "aliases", "-o", "out")
    assert (found["problems"], found["kept"]) == (2, 2)
    assert texts(Path("out")) == [text(50, "b"), text(60, "c")]


def test_unicode_and_line_ends_are_kept_byte_for_byte(source: Path) -> None:
    bodies = ["<think>\r\nä\u2028\u00a0\ud83d</think>".encode("utf-16", "ignore").decode("utf-16", "ignore") + " \t😀\n\n"]
    bodies += ["<think>e\u0301\x00\x1b[0m</think>\r\rend "]
    pl.DataFrame({"id": ["a", "b"], "prompt": ["p\r\n", " q"], "generation": bodies, "passed": [True] * 2}).write_parquet(
        "u.parquet"
    )
    facts("select", "u.parquet", *T, "--shortest", "-o", "out")
    assert texts(Path("out")) == bodies
    assert [t[0]["content"] for t in pl.read_parquet("out/data/*.parquet")["messages"]] == ["p\r\n", " q"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_a_column_without_a_name_keeps_its_values(source: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index that pandas writes; read as a whole and part by part, put aside on the way and read again."""
    table = frame([("a", 50, True, 1), ("b", 60, True, 1)]).drop("messages")
    table = table.with_columns(pl.Series("", [7, 8]), column_0=pl.Series([1, 2]))
    lines = [json.dumps(r) for r in table.to_dicts()]
    written = {"jsonl": "\n".join(lines), "json": f"[{','.join(lines)}]", "csv": table.write_csv()}
    if ending == "parquet":
        table.write_parquet("index.parquet")
    else:
        Path(f"index.{ending}").write_text(written[ending])
    for document in (0, 16 << 20):
        monkeypatch.setattr(rows, "WHOLE_DOCUMENT", document)
        for _ in ("put aside", "from the cache"):
            facts("select", f"index.{ending}", *T, "--shortest", "--format", "source", "-o", "out", "--overwrite")
            kept = pl.read_parquet("out/data/*.parquet")
            assert (kept[""].to_list(), kept["column_0"].to_list()) == ([7, 8], [1, 2])
