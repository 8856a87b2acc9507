"""The report: its numbers by hand, what it says when there is nothing to show, and that no text of the data becomes code."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from curate import charts, memory, report, yields
from curate.errors import CurateError
from curate.ledger import SCHEMA, Meta
from curate.report_data import collect
from curate.selection import Rules

ROOT = Path(__file__).resolve().parents[1]
GOOD = {"source": 0, "item": 0, "problem": "A", "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True}
HOSTILE = "</script><img src=x onerror=alert(1)>\"'`|=1+1\u202eevil\x00"
ESTIMATE = Meta(tokens={"basis": "estimate", "by": "rule", "low": 0.5, "high": 2.0})


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for the whole file, so that the runtime is bundled once."""
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path_factory.getbasetemp() / "report-cache"))


def make(*changes: dict[str, Any]) -> pl.DataFrame:
    """A ledger of one good trace of problem A, 10 tokens, per argument, with these values changed."""
    rows = [GOOD | {"row": row, "tokens": 10} | change for row, change in enumerate(changes)]
    extra = {"group": pl.String()} if any("group" in c for c in changes) else {}
    return pl.DataFrame(rows, schema=SCHEMA | extra)


SIX = make(
    {"tokens": 300, "difficulty": 2.0, "group": "x"},
    {"tokens": 100, "difficulty": 2.0, "group": "x"},
    {"problem": "B", "tokens": 200, "difficulty": 1.0, "group": "y"},
    {"problem": "B", "tokens": 50, "passed": False, "group": "y"},
    {"problem": "C", "tokens": 400, "passed": None, "group": "y"},
    {"problem": "C", "tokens": 500, "finished": False, "group": "y"},
)


def block(page: str) -> dict[str, Any]:
    """The data of a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return dict(json.loads(found[1]))


def panels(page: str) -> dict[str, dict[str, Any]]:
    return {panel["key"]: panel for part in block(page)["parts"] for panel in part["panels"]}


def test_figures_of_one_stop_by_hand() -> None:
    data = collect(SIX, Meta(), rules=Rules(), bound=200)
    i = data.stops.index(200)
    assert data.at == i
    assert {f.reason: (f.traces, f.problems) for f in data.funnel[i] if f.traces} == {
        "kept": (2, 0), "over_length": (1, 0), "not_passing": (2, 1), "unfinished": (1, 0),
    }  # fmt: skip
    assert (data.tails[i].within, data.tails[i].replaced, data.tails[i].lost) == (2, 1, 0)
    first = next(c for c in data.policies[i] if c.policy == "first")
    assert (first.problems, first.tokens, first.problems_after, first.tokens_after) == (2, 300, 1, 200)
    random = next(c for c in data.policies[i] if c.policy == "random")
    assert (random.problems_after, random.tokens_after) == (1.5, 250.0)  # A gives 100 in half of the picks, B always 200
    assert [(g.name, g.problems, g.with_passing, g.kept[i]) for g in data.groups] == [("y", 2, 1, 1), ("x", 1, 1, 1)]
    assert [(r.third, r.traces, r.observed, r.expected) for r in data.ranks] == [
        ("shortest third", 2, 0.5, 0.75), ("longest third", 2, 1.0, 0.75),
    ]  # fmt: skip
    assert sum(b.finished for b in data.histogram) == 5
    assert sum(b.unfinished for b in data.histogram) == 1


def test_the_range_of_an_estimate_is_a_band() -> None:
    data = collect(SIX, ESTIMATE, rules=Rules(), bound=200)
    i = data.stops.index(200)
    assert data.ends is not None
    assert data.ends[i] == (100, 400)
    assert data.traces_range is not None
    assert data.traces_range[i] == (2, 5)  # of 50, 100, 200, 300, 400 and 500: within 100, and within 400
    exact = collect(SIX, Meta(tokens={"basis": "exact", "by": "t"}), rules=Rules())
    assert exact.ends is None
    assert exact.traces_range is None


def test_stops_hold_the_asked_bound_the_standard_ones_and_the_longest() -> None:
    lengths = np.geomspace(600, 30_000, 400).astype(int).tolist()
    frame = make(*({"problem": str(i), "tokens": t} for i, t in enumerate(lengths)))
    data = collect(frame, Meta(), rules=Rules(), bound=7777)
    assert set(data.stops) >= {1024, 2048, 4096, 8192, 16384, 24576, 7777, 30_000}
    assert data.stops[data.at] == 7777
    assert len(data.stops) < 70
    assert list(data.stops) == sorted(set(data.stops))
    # The same bound asked of `yield` gives the same counts.
    again = yields.yield_table(frame, Meta(), bounds=[7777]).bounds[0]
    assert data.made.bounds[data.at] == again


def test_the_bound_may_lie_beyond_every_trace() -> None:
    data = collect(SIX, Meta(), rules=Rules(), bound=100_000)
    assert data.stops[data.at] == 100_000
    assert data.made.bounds[data.at].problems.shortest == 2


def test_several_tags_of_a_trace_count_each() -> None:
    data = collect(make({"group": "x\x1fy"}, {"problem": "B", "group": "y"}), Meta(), rules=Rules(), by="tags")
    assert [(g.name, g.problems) for g in data.groups] == [("y", 2), ("x", 1)]
    assert data.by == "tags"


def test_sources_are_composition_where_no_group_is_named() -> None:
    meta = Meta(sources=({"name": "left"}, {"name": "right"}))
    data = collect(make({}, {"source": 1, "problem": "B"}), meta, rules=Rules())
    assert [g.name for g in data.groups] == ["left", "right"]
    assert data.by == "source"


CASES = {
    "nothing": make(),
    "one trace": make({}),
    "one problem": make({"tokens": 90}, {"tokens": 40}, {"tokens": 700, "passed": False}),
    "zero kept": make({"passed": False}, {"problem": "B", "passed": False, "tokens": 30}),
    "no difficulty": make({"tokens": 90}, {"problem": "B", "tokens": 40}),
    "no text": make({"tokens": None}),
    "zero tokens": make({"tokens": 0}, {"problem": "B", "tokens": 0}),
    "no verdict": make({"passed": None, "difficulty": 3.0}, {"problem": "B", "passed": None, "tokens": 70}),
    "one band": make({"difficulty": 3.0}, {"problem": "B", "difficulty": 3.0, "tokens": 60}),
}


@pytest.mark.parametrize("name", CASES)
def test_small_data_leave_no_empty_axes(name: str) -> None:
    page = report.html(CASES[name], Meta(), rules=Rules(), fits=memory.table("qwen2.5-3b", ["t4"]))
    whole = block(page)
    for panel in panels(page).values():
        assert all(panel["titles"]), panel["key"]
        if panel["chart"]:
            assert all(panel["tables"]), panel["key"]
            assert any(isinstance(v, int | float) and v > 0 for row in panel["tables"][0] for v in row), panel["key"]
    assert whole["headline"]
    assert "nan" not in page.split('id="data">')[1][:200_000].lower().split("</script>")[0].split()
    assert report.markdown(CASES[name], Meta(), rules=Rules())


def test_what_cannot_be_shown_is_said() -> None:
    found = panels(report.html(CASES["no difficulty"], Meta(), rules=Rules()))
    assert found["skew"]["chart"] is None
    assert "No trace here has a difficulty" in found["skew"]["note"]
    assert found["composition"]["chart"] is None
    assert "policies" not in found  # no problem has a choice
    lost = panels(report.html(CASES["zero kept"], Meta(), rules=Rules()))
    assert lost["problems"]["titles"] == ["No problem has a passing trace, so no length keeps any"]
    assert lost["funnel"]["tables"] == [[["failed", 2, 1.0, None]]]
    unknown = panels(report.html(CASES["no verdict"], Meta(), rules=Rules()))
    assert "unknown" in unknown["ranks"]["titles"][0]


def test_hostile_text_stays_text() -> None:
    frame = make({"problem": HOSTILE, "group": HOSTILE}, {"problem": "B", "tokens": 90, "group": "b"})
    meta = Meta(sources=({"name": HOSTILE, "mapping": {"trace": HOSTILE}, "revision": HOSTILE, "licence": HOSTILE},))
    page = report.html(frame, meta, rules=Rules(), command=["curate", "report", HOSTILE], by=HOSTILE)
    clean = report.html(make({}, {"problem": "B", "tokens": 90}), Meta(), rules=Rules())
    assert page.count("</script") == clean.count("</script") == 3
    assert page.count("<img") == clean.count("<img")  # the runtime's own code names one
    assert "onerror=alert(1)>" not in page
    assert "\x00" not in page
    assert "\u202e" not in page
    assert [row[0] for row in panels(page)["composition"]["tables"][0]] == [
        "</script><img src=x onerror=alert(1)>\"'`|=1+1\\u202eevil\\x00", "b",
    ]  # fmt: skip
    text = report.markdown(frame, meta, rules=Rules(), command=["curate", "report", HOSTILE], by=HOSTILE)
    body, fence = text.split("```", 1)
    assert "<" not in body
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "`|" not in body.replace("\\`\\|", "")
    assert fence.count("\n```") == 1


def test_nothing_outside_is_named_and_only_two_scripts_may_run() -> None:
    page = report.html(SIX, Meta(), rules=Rules())
    head = page.split("</head>")[0]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', head)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert policy[1].count("'sha256-") == 2
    assert "unsafe-eval" not in policy[1]
    shell = page.replace(report.runtime(), "")
    outside = set(re.findall(r"""(?:src|href|action|url\()\s*=?\s*["']?(https?:)?//""", shell))
    assert not outside
    assert set(re.findall(r"https?://[^\"'\\ ]+", shell)) == {charts.SCHEMA}


def test_a_large_set_gives_a_small_file() -> None:
    n = 60_000
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            **{k: [v] * n for k, v in GOOD.items()},
            "row": np.arange(n),
            "problem": [f"p{i // 3}" for i in range(n)],
            "tokens": np.exp(rng.normal(9, 0.8, n)).astype(int),
            "difficulty": rng.integers(8, 35, n) * 100.0,
            "group": [f"tag {i % 500}" for i in range(n)],
            "reason": [None] * n,
        },
        schema=SCHEMA | {"group": pl.String()},
    )
    page = report.html(frame, ESTIMATE, rules=Rules(), fits=memory.table("qwen2.5-3b", ["t4", "h100"]))
    assert len(page.encode()) < 2_000_000
    assert max(len(table) for panel in panels(page).values() for table in panel["tables"]) <= 100
    assert [row[0] for row in panels(page)["composition"]["tables"][0]][-1] == "493 others"


def test_no_name_and_no_number_of_sources_makes_it_large() -> None:
    long = "x" * 100_000
    frame = make(*({"problem": f"{long}{i}", "group": f"{i}{long}", "tokens": 100 + 50 * i, "source": i} for i in range(60)))
    meta = Meta(sources=tuple({"name": f"{long}{i}", "mapping": {"trace": long}} for i in range(300)))
    page = report.html(frame, meta, rules=Rules(), by=long)
    assert len(page.encode()) < 2_000_000
    assert ["Sources", "and 260 more"] in block(page)["facts"]


def test_composition_is_that_of_yield_by() -> None:
    groups = {g.name: g for g in collect(SIX, Meta(), rules=Rules(), bound=200).groups}
    data = collect(SIX, Meta(), rules=Rules(), bound=200)
    for name, made in yields.by(SIX, Meta(), bounds=[200]).items():
        assert (groups[name].problems, groups[name].with_passing) == (made.problems, made.with_passing)
        assert groups[name].kept[data.at] == made.bounds[0].problems.shortest


def test_every_chart_is_valid_vega_lite_and_shows_in_a_notebook() -> None:
    drawn = report.draw(SIX, ESTIMATE, bound=200, fits=memory.table("qwen2.5-3b", ["t4"]), by="kind")
    assert list(drawn) == [
        "problems", "amount", "lengths", "spreads", "skew", "mechanical", "choices", "policies", "tail", "ranks", "composition",
        "fits", "funnel",
    ]  # fmt: skip
    for key, chart in drawn.items():
        shown = chart.to_dict()  # Altair holds it against the schema of the language
        assert shown["datasets"]["rows"], key
        assert "var(--" not in json.dumps(shown), key
        assert "text/html" in chart._repr_mimebundle_() or "application/vnd.vegalite.v6+json" in chart._repr_mimebundle_(), key
    assert drawn["skew"].to_dict()["datasets"]["rows"][0]["kept"] == 1
    assert report.draw(CASES["nothing"], Meta()) == {}


def test_a_column_that_the_ledger_does_not_have_is_named() -> None:
    with pytest.raises(CurateError, match="--by COLUMN"):
        report.html(CASES["one problem"], Meta(), rules=Rules(), by="tag")


def test_without_the_extra_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> str:
        raise report.PackageNotFoundError(name)

    monkeypatch.setattr(report, "version", gone)
    with pytest.raises(CurateError, match=r"trace-curate\[report\]"):
        report.html(SIX, Meta(), rules=Rules())


def test_the_runtime_comes_from_the_cache_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    script = report.runtime()
    assert len(script) > 500_000
    assert "</script" not in script
    import vl_convert

    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda *a: pytest.fail("bundled again"))
    assert report.runtime() == script


def test_markdown_has_the_findings_and_numbers_of_the_page() -> None:
    frame, rules = SIX, Rules()
    text = report.markdown(frame, ESTIMATE, rules=rules, bound=200, command=["curate", "report", "x y"], by="kind")
    assert text.startswith("# a ledger: traces against length\n")
    assert (
        "### Within 200 tokens, dropping before the choice keeps 2 problems, choosing the file's first and then dropping 1;" in text
    )
    assert "| kept | 2 | 33.3% | 0 |" in text
    assert "| failed or not checked | 2 | 33.3% | 1 |" in text
    assert text.endswith("```sh\ncurate report 'x y'\n```\n")
    assert "Shaded" not in text


def test_the_sample_report_is_what_make_makes() -> None:
    spec = importlib.util.spec_from_file_location("make_report", ROOT / "reports" / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made, kept = block(module.make()), block((ROOT / "reports" / "sample.html").read_text(encoding="utf-8"))
    for one in (made, kept):
        one["facts"] = [pair for pair in one["facts"] if pair[0] != "Versions"]
    assert made == kept, "run `python reports/make.py`"
