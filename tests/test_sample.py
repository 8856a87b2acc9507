"""The committed sample: what it is, what it weighs, and that its lengths follow the published distribution."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "data" / "sample.parquet"


@pytest.fixture(scope="module")
def sample() -> pl.DataFrame:
    return pl.read_parquet(SAMPLE)


@pytest.fixture(scope="module")
def lengths(sample: pl.DataFrame) -> list[int]:
    """Sorted tokens: characters of prompt, line break and trace, divided by 3.6 and rounded down, in whole numbers."""
    pairs = zip(sample["prompt"], sample["generation"], strict=True)
    return sorted((len(prompt) + 1 + len(trace)) * 10 // 36 for prompt, trace in pairs)


def test_a_small_file_that_says_in_its_metadata_that_it_is_synthetic() -> None:
    assert SAMPLE.stat().st_size <= 3_000_000
    told = pq.ParquetFile(SAMPLE).schema_arrow.metadata or pq.ParquetFile(SAMPLE).metadata.metadata
    assert told[b"curate.synthetic"].startswith(b"Synthetic sample made by data/make_sample.py")
    assert b"no model wrote these traces" in told[b"curate.synthetic"]


def test_columns_and_types(sample: pl.DataFrame) -> None:
    assert dict(sample.schema) == {
        "id": pl.String,
        "prompt": pl.String,
        "generation": pl.String,
        "passed": pl.Boolean,
        "finish_reason": pl.String,
        "rating": pl.Int64,
        "tag": pl.String,
    }


def test_330_problems_with_one_to_five_traces_each(sample: pl.DataFrame) -> None:
    assert sample.height == 772
    counts = sample.group_by("id").len()["len"].value_counts().sort("len")
    assert counts.rows() == [(1, 100), (2, 100), (3, 70), (4, 38), (5, 22)]
    per_problem = sample.group_by("id").agg(pl.col("prompt", "rating", "tag").n_unique())
    assert per_problem.select(pl.col("prompt", "rating", "tag").max()).row(0) == (1, 1, 1)
    assert sample["prompt"].n_unique() > 300
    assert sample["prompt"].str.len_chars().max() <= 300


def test_lengths_are_the_published_quantiles(lengths: list[int]) -> None:
    def nearest_rank(share: float) -> int:
        return lengths[math.ceil(share * len(lengths)) - 1]

    assert nearest_rank(0.50) == pytest.approx(13_770, rel=0.005)
    assert nearest_rank(0.90) == pytest.approx(23_374, rel=0.005)
    assert nearest_rank(0.99) == pytest.approx(27_315, rel=0.005)


@pytest.mark.parametrize(("bound", "percent"), [(5_120, 17), (8_192, 30), (16_384, 58), (24_576, 94)])
def test_shares_are_the_published_whole_percents(lengths: list[int], bound: int, percent: int) -> None:
    assert round(100 * sum(n <= bound for n in lengths) / len(lengths)) == percent


def test_harder_problems_have_longer_traces_and_pass_less_often(sample: pl.DataFrame) -> None:
    assert (sample["rating"].min(), sample["rating"].max()) == (800, 3500)
    assert sample.filter(pl.col("rating").is_null())["id"].n_unique() == 20  # 6 % of 330
    thirds = (
        sample.filter(pl.col("rating").is_not_null())
        .with_columns(third=(pl.col("rating") >= 1700).cast(int) + (pl.col("rating") >= 2600).cast(int))
        .group_by("third")
        .agg(length=pl.col("generation").str.len_chars().median(), passing=pl.col("passed").mean())
        .sort("third")
    )
    easy, middle, hard = thirds["length"]
    assert easy * 1.4 < middle < hard / 1.2
    assert thirds["passing"].is_sorted(descending=True)


def test_passing_failing_unknown_and_cut_off_traces(sample: pl.DataFrame) -> None:
    verdicts = dict(sample["passed"].value_counts().iter_rows())
    assert verdicts == {True: 532, False: 216, None: 24}
    cut = sample.filter(pl.col("finish_reason") == "length")
    assert cut.height == 6  # below 1 %: the 99th percentile is the length of a finished trace
    assert not cut["generation"].str.contains("</think>", literal=True).any()
    assert cut["passed"].to_list() == [False] * 6
    whole = sample.filter(pl.col("finish_reason") == "stop")["generation"]
    assert whole.len() == 766
    assert all(re.fullmatch(r"<think>\n.*\n</think>\n\n.*\S.*", text, re.DOTALL) for text in whole)
    assert sample["generation"].str.contains(r"^<think>\s*</think>").sum() == 5


def test_traces_are_all_different_and_read_like_reasoning(sample: pl.DataFrame) -> None:
    assert sample["generation"].n_unique() == 772
    sentences = {s for text in sample["generation"].head(40) for s in re.split(r"(?<=[.?:])\s", text)}
    assert len(sentences) > 1000
    assert sample["generation"].str.contains(r"\b(Wait|Hmm|Let me|Alternatively)\b").all()


def test_the_generator_gives_the_committed_rows_again(sample: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("make_sample", ROOT / "data" / "make_sample.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_sample", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    assert module.make(seed=0).equals(sample)
    assert module._length(0.30) == 8192


def test_the_lengths_are_those_of_the_script_and_have_the_published_quantiles(tmp_path: Path) -> None:
    import subprocess
    import sys

    from curate import ledger

    root = Path(__file__).resolve().parents[1]
    subprocess.run([sys.executable, root / "data" / "make_lengths.py", tmp_path / "again.parquet"], check=True, cwd=root)
    made, _ = ledger.from_file(tmp_path / "again.parquet")
    kept, meta = ledger.from_file(root / "data" / "lengths.parquet")
    assert made.equals(kept)
    assert meta.sources[0]["name"] == "lengths (synthetic)"
    tokens = kept["tokens"].sort()
    assert [tokens[len(tokens) * q // 100 - 1] for q in (50, 90, 99, 100)] == [509, 953, 1080, 1126]
