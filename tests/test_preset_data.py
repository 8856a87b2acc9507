"""The made data are what they claim: each preset's own schema, and the published quantiles."""

from __future__ import annotations

import statistics
from pathlib import Path

import polars as pl
import pytest

from curate import presets
from tests import preset_data

KNOWN = presets.known()


@pytest.mark.parametrize("name", KNOWN)
def test_the_made_files_have_the_schema_of_their_preset(name: str, tmp_path: Path) -> None:
    preset = KNOWN[name]
    expected = preset_data.make(preset, tmp_path)
    frame = preset_data.read(tmp_path, expected.files)
    assert frame.height == expected.rows
    assert set(frame.columns) == set(preset.columns)
    assert presets.differs(preset, frame.schema) == []
    assert expected.traces == expected.passed + expected.failed + expected.unknown == expected.rated + expected.unrated


def test_the_plan_is_the_one_of_the_docstring(tmp_path: Path) -> None:
    one = preset_data.make(KNOWN["solutions_py_decontaminated"], tmp_path / "one")
    assert (one.rows, one.problems, one.passed, one.failed, one.unknown, one.unfinished) == (5, 5, 3, 2, 0, 1)
    assert (one.rated, one.unrated, one.per_problem) == (3, 2, {"1": 5})
    many = preset_data.make(KNOWN["OpenR1-Math-220k"], tmp_path / "many")
    assert (many.rows, many.traces, many.passed, many.failed, many.unknown) == (5, 6, 4, 1, 1)
    assert many.per_problem == {"1": 4, "2": 1}
    triple = preset_data.make(KNOWN["DeepMath-103K"], tmp_path / "triple")
    assert (triple.rows, triple.traces, triple.per_problem) == (4, 12, {"3": 4})


def test_the_made_lengths_hold_the_published_counts_and_quantiles() -> None:
    lengths = preset_data.lengths()
    ordered = sorted(lengths)
    assert len(lengths) == 8133
    assert [sum(n <= bound for n in lengths) for bound in (5120, 8192, 16384, 24576)] == [1348, 2412, 4753, 7635]
    assert [ordered[4066], ordered[7319], ordered[8051]] == [13770, 23374, 27315]
    assert 2600 <= statistics.median(lengths[:25]) <= 2800
    assert not any(bound < n < bound + 40 for n in lengths for bound in preset_data.BOUNDS)


def test_a_made_row_has_the_characters_of_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preset_data, "lengths", lambda seed: [100, 5119, 5120, 8192])
    counts = preset_data.published(tmp_path)
    assert counts == {5120: 3, 8192: 4, 16384: 4, 24576: 4}
    frame = pl.read_parquet(tmp_path / "solutions_py_decontaminated" / "*.parquet")
    joined = pl.concat_str("prompt", "generation", separator="\n").str.len_chars().cast(pl.Int64)
    assert frame.select(joined * 10 // 36).to_series().to_list() == [100, 5119, 5120, 8192]
    assert presets.differs(KNOWN["solutions_py_decontaminated"], frame.schema) == []
    assert "lengths of these rows are made" in (tmp_path / "README.md").read_text(encoding="utf-8")
