"""What ``check`` finds in a folder of ``select``: each promise broken in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import card, check
from curate.errors import CurateError
from tests import made_out

SHARD = "data/train-00000-of-00001.parquet"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    made_out.write(tmp_path / "out")
    return tmp_path / "out"


def rewrite(out: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change a Parquet file, and the manifest so that the hashes hold."""
    frame = change(pl.read_parquet(out / name))
    frame.write_parquet(out / name)
    manifest = json.loads((out / "manifest.json").read_text())
    rows = {"rows": frame.height} if name.startswith("data/") else {}
    manifest["files"][name] = made_out.entry(out / name) | rows
    (out / "manifest.json").write_text(json.dumps(manifest))


def faults(out: Path, **options: Any) -> dict[str, str | None]:
    return {found.what: found.fault for found in check.check_out(out, **options)}


TEXTS = [f"<think>x</think> {i}" for i in range(3)]


def test_what_select_wrote_passes(out: Path) -> None:
    assert faults(out, texts=TEXTS) == {
        "whole, unchanged, card and manifest agree": None,
        "one schema": None,
        "number of rows": None,
        "every row within the bound": None,
        "no trace cut": None,
    }
    assert check.check_out(out)[0].json() == {"what": "whole, unchanged, card and manifest agree", "ok": True, "fault": None}


def test_a_folder_that_is_not_whole_ends_the_check(out: Path) -> None:
    (out / SHARD).unlink()
    [found] = check.check_out(out)
    assert found.fault == f"{out} lacks {SHARD}; run `curate select` again with --overwrite."


def test_a_row_over_the_bound_is_found_by_the_recorded_count(out: Path) -> None:
    rewrite(out, "ledger.parquet", lambda f: f.with_columns(tokens=pl.lit(8193, pl.UInt32)))
    assert faults(out)["every row within the bound"] == "3 rows are over the bound of 8,192 tokens, the longest has 8,193."
    rewrite(out, "ledger.parquet", lambda f: f.with_columns(tokens=pl.lit(8192, pl.UInt32)))
    assert faults(out)["every row within the bound"] == "The column tokens of the rows is not what the ledger counted."


def test_a_row_that_the_ledger_does_not_keep_is_found(out: Path) -> None:
    rewrite(out, "ledger.parquet", lambda f: f.tail(3))
    assert faults(out)["every row within the bound"] == "The ledger keeps 2 traces, the files hold 3 rows."


def test_rows_that_the_manifest_does_not_count_are_found(out: Path) -> None:
    rewrite(out, SHARD, lambda f: f.head(2))
    assert faults(out)["number of rows"] == "The files hold 2 rows, the manifest says 3."


def test_shards_of_two_schemas_are_found(tmp_path: Path) -> None:
    made_out.write(tmp_path / "two", shards=2)
    rewrite(tmp_path / "two", "data/train-00001-of-00002.parquet", lambda f: f.with_columns(more=1))
    assert faults(tmp_path / "two")["one schema"] == (
        "train-00001-of-00002.parquet has another schema than train-00000-of-00002.parquet."
    )


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        ([*TEXTS[:2], TEXTS[2] + " and more"], "Row 2 differs from its source: 18 characters here, 27 there."),
        (TEXTS[:2], "The source has 2 kept traces, the files hold more."),
        ([*TEXTS, "x"], "The source has more kept traces than the files hold."),
    ],
)
def test_a_text_that_is_not_the_source_s_is_found(out: Path, texts: list[str], want: str) -> None:
    assert faults(out, texts=texts)["no trace cut"] == want


@pytest.mark.parametrize(
    "column",
    [
        pl.DataFrame({"conversations": [[{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]]}),
        pl.DataFrame({"prompt": ["q"], "completion": ["a"]}),
        pl.DataFrame({"completion": [[{"role": "assistant", "content": "a"}]]}),
        pl.DataFrame({"instruction": ["q"], "output": ["a"]}),
        pl.DataFrame({"id": ["q"], "generation": ["a"]}),
    ],
)
def test_the_trace_is_found_in_every_written_format(tmp_path: Path, column: pl.DataFrame) -> None:
    column.write_parquet(tmp_path / "x.parquet")
    assert list(check.traces_of([tmp_path / "x.parquet"], made_out.manifest())) == ["a"]


def test_rows_without_a_trace_are_an_error(tmp_path: Path) -> None:
    pl.DataFrame({"id": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(CurateError, match=r"No column of .* holds the trace; it has id\."):
        list(check.traces_of([tmp_path / "x.parquet"], made_out.manifest()))


def test_a_card_that_says_something_else_is_found_and_text_outside_of_its_marks_is_not(out: Path) -> None:
    text = (out / "README.md").read_text()
    (out / "README.md").write_text("# Mine\n" + text.split("---\n", 2)[2])
    assert "does not say what the manifest says" in str(check.check_out(out)[0].fault)
    (out / "README.md").write_text(text + "\nMine.\n")
    assert check.check_out(out)[0].fault is None
    (out / "README.md").unlink()
    assert "has no README.md" in str(check.check_out(out)[0].fault)


def test_a_config_from_the_hub_finds_its_card_one_folder_up(tmp_path: Path) -> None:
    made = made_out.write(tmp_path / "py")
    (tmp_path / "py/README.md").unlink()
    (tmp_path / "README.md").write_text(card.render(made, config="py", existing="# Mine\n"))
    assert check.check_out(tmp_path / "py")[0].fault is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{", "is no whole JSON"),
        ("[]", "is no manifest of `curate select`"),
        ('{"files": {}, "format": 2}', "has format 2, this curate reads 1; update curate."),
        ('{"files": {"../x": {}}, "format": 1}', "lists ../x, which lies outside of the folder"),
        ('{"files": {"/etc/x": {}}, "format": 1}', "lists /etc/x, which lies outside of the folder"),
    ],
)
def test_a_manifest_that_is_none_is_refused(out: Path, text: str, want: str) -> None:
    (out / "manifest.json").write_text(text)
    with pytest.raises(CurateError) as caught:
        check.verify_out(out)
    assert want in str(caught.value)


def test_the_options_of_a_run_come_back_with_their_sources_pinned() -> None:
    sources = [
        {"name": "lab/cots:py", "revision": "a" * 40},
        {"name": "lab/x@v1", "revision": "b" * 40},
        {"name": "local", "spec": "local.jsonl", "revision": None},
    ]
    assert check.options_of(made_out.manifest(sources=sources)) == {
        "policy": "shortest",
        "max_tokens": 8192,
        "passing": "known",
        "sources": [f"lab/cots:py@{'a' * 40}", f"lab/x@{'b' * 40}", "local.jsonl"],
    }
