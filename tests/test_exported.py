"""``import curate``: every public name is there, documented, cheap to import, and does not coincide with a module."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import curate


def test_the_names_that_are_promised() -> None:
    assert {"read", "select", "yield_table", "CurateError"} <= set(curate.__all__)
    assert curate.__all__ == sorted(curate.__all__)
    assert set(dir(curate)) >= set(curate.__all__)
    assert set(curate._PLACES) == set(curate.__all__)


@pytest.mark.parametrize("name", curate.__all__)
def test_a_public_name_is_documented(name: str) -> None:
    thing = getattr(curate, name)
    assert inspect.getdoc(thing), name
    if inspect.isfunction(thing):
        signature = inspect.signature(thing)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_no_public_name_is_a_module() -> None:
    modules = {m.name for m in pkgutil.iter_modules(curate.__path__)}
    assert not set(curate.__all__) & modules


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(curate.__path__) if not m.name.startswith("__")])
def test_a_module_says_what_it_is_for(module: str) -> None:
    assert (importlib.import_module(f"curate.{module}").__doc__ or "").strip()


def test_import_costs_nothing_and_unknown_names_are_errors() -> None:
    code = "import sys, curate; print([m for m in ('polars', 'click', 'pyarrow', 'datasets') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        curate.nothing


def test_the_verbs_do_what_the_command_line_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    rows = pl.DataFrame(
        {
            "id": ["a", "a", "b"],
            "generation": ["<think>long</think>1", "<think>s</think>2", "<think>only</think>3"],
            "passed": [True, True, False],
            "rating": [1, 1, 2],
        }
    )
    rows.write_parquet(tmp_path / "t.parquet")
    for source in (rows, tmp_path / "t.parquet", str(tmp_path / "t.parquet")):
        reading = curate.read(source, estimate="chars/1", count="trace")
        assert reading.ledger["tokens"].to_list() == [20, 17, 20]
        table = curate.yield_table(reading.ledger, reading.meta, bounds=[17, 20])
        assert [b.problems.shortest for b in table.bounds] == [1, 1, 1]
        assert table.json()["needed"] == {"50": 17, "90": 17, "99": 17}
        marked = curate.choose_traces(reading.ledger, reading.meta, curate.Rules(max_tokens=20))
        assert marked["reason"].to_list() == ["not_chosen", None, "not_passing"]
    request = curate.Request(sources=(str(tmp_path / "t.parquet"),), estimate="chars/1", count="trace")
    done = curate.select(request, curate.Rules(max_tokens=20), tmp_path / "out")
    assert (done.facts["kept"], done.facts["tokens_kept"]) == (1, 17)
    again, meta = curate.read_ledger(tmp_path / "out" / "ledger.parquet")
    assert again.height == 3
    assert [s["name"] for s in meta.sources] == ["t"]


def test_wrong_options_are_usage_errors_with_near_names() -> None:
    frame = pl.DataFrame({"id": ["a"], "generation": ["<think>a</think>b"]})
    with pytest.raises(curate.UsageError, match="Did you mean"):
        curate.read(frame, tokenzier="x")
    with pytest.raises(curate.CurateError, match="no column"):
        curate.read(frame, passed="nothing")
