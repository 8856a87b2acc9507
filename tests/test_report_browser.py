"""The report in a real browser with the network refused: it draws, moves, speaks, prints, asks for nothing and runs nothing foreign."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import memory, report, yields
from curate.ledger import SCHEMA, Meta, to_bytes
from curate.selection import Rules

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium with chromedriver here")

ROOT = Path(__file__).resolve().parents[1]
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1400,1000",
)  # fmt: skip
GOOD = {"source": 0, "item": 0, "problem": "A", "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True}
HOSTILE = "</script><img src=x onerror=window.hit=1>\"'`\u202e\x00"
MARKS = """
return [...document.querySelectorAll('.chart')].map(chart => [
  chart.closest('figure').id,
  [...chart.querySelectorAll('svg .role-mark path, svg .role-mark line, svg .role-mark text')].filter(
    m => m.tagName !== 'path' || (m.getAttribute('d') || '').length > 3).length,
  chart.getBoundingClientRect().height]);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.execute_cdp_cmd("Network.enable", {})
    yield driver
    driver.quit()


Open = Callable[..., list[str]]


@pytest.fixture
def load(browser: Any, tmp_path: Path) -> Open:
    """Open a page, wait until its charts are drawn, and return what it asked for besides itself; the console must be silent."""

    def load(page: str, *, width: int = 1400, dark: bool = False, media: str = "") -> list[str]:
        from selenium.webdriver.support.ui import WebDriverWait

        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for log in ("performance", "browser"):
            browser.get_log(log)
        browser.get(path.as_uri())
        drawn = "return document.documentElement.dataset.drawn"
        WebDriverWait(browser, 60).until(lambda d: d.execute_script(drawn))
        assert browser.execute_script(drawn) == "yes"
        assert browser.get_log("browser") == []
        return [url for url in requests(browser) if url != path.as_uri()]

    return load


def requests(browser: Any) -> list[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def make(*changes: dict[str, Any]) -> pl.DataFrame:
    rows = [GOOD | {"row": row, "tokens": 10} | change for row, change in enumerate(changes)]
    return pl.DataFrame(rows, schema=SCHEMA | {"group": pl.String()})


def many() -> pl.DataFrame:
    """240 traces of 80 problems, harder ones longer, one in eight failing."""
    rows = []
    for i in range(240):
        problem = i // 3
        length = 900 + 190 * problem + 700 * (i % 3)
        more = {"problem": f"p{problem}", "tokens": length, "passed": i % 8 != 0, "finished": i % 11 != 0}
        rows.append(more | {"difficulty": 800.0 + 100 * (problem // 4), "group": "even" if problem % 2 == 0 else "odd"})
    return make(*rows)


META = Meta(
    sources=({"name": "made", "basis": "verdict"},),
    tokens={"basis": "estimate", "by": "rule", "low": 0.9, "high": 1.15, "count": "sample"},
)


@pytest.fixture(scope="module")
def page() -> str:
    return report.html(
        many(), META, rules=Rules(), fits=memory.table("qwen2.5-3b", ["t4"]), command=["curate", "report", "made"], by="parity"
    )


def cells(browser: Any, figure: str) -> list[dict[str, str]]:
    """The rows of a figure's table, by field."""
    script = """return [...document.querySelectorAll('#' + arguments[0] + ' tbody tr')].map(
        row => Object.fromEntries([...row.cells].map(cell => [cell.dataset.field, cell.textContent])))"""
    return list(browser.execute_script(script, figure))


def test_every_chart_draws_marks_and_nothing_is_asked_for(browser: Any, load: Open, page: str) -> None:
    asked = load(page)
    assert [url for url in asked if not url.startswith("data:")] == []
    marks = browser.execute_script(MARKS)
    assert len(marks) == 14
    assert all(count > 0 and height > 60 for _, count, height in marks), marks


def test_the_slider_moves_everything_and_agrees_with_yield(browser: Any, load: Open, page: str, tmp_path: Path) -> None:
    from click.testing import CliRunner
    from selenium.webdriver.common.keys import Keys

    from curate.cli import main

    load(page)
    before = {
        key: browser.execute_script("return document.getElementById(arguments[0]).querySelector('.chart svg').outerHTML", key)
        for key in ("skew", "padding", "funnel", "composition", "tail")
    }
    browser.find_element("css selector", "#stop").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    bound = int(browser.find_element("css selector", "#tokens").text.split()[0].replace(",", ""))
    assert bound > 8192
    (tmp_path / "ledger.parquet").write_bytes(to_bytes(many(), META))
    ran = CliRunner().invoke(main, ["yield", str(tmp_path / "ledger.parquet"), "--bounds", str(bound), "--json", "-q"])
    assert ran.exit_code == 0, ran.output
    row = json.loads(ran.stdout)["bounds"][0]
    here = next(r for r in cells(browser, "problems") if r["bound"] == f"{bound:,}")
    assert here["kept"] == f"{row['problems']['shortest']:,}"
    assert here["kept_first"] == f"{row['problems']['first']:,}"
    assert here["fewest"] == f"{row['range']['fewest']['shortest']:,}"
    shown = [(r["label"], r["problems"], r["with_passing"], r["kept"]) for r in cells(browser, "skew")]
    assert shown == [tuple(str(b[k]) for k in ("label", "problems", "with_passing", "kept")) for b in row["skew"]["bands"]]
    assert cells(browser, "funnel")[0]["traces"] == str(row["problems"]["shortest"])
    assert f"{bound:,} tokens" in browser.find_element("css selector", "#skew h3").text
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    for key, old in before.items():
        now = browser.execute_script("return document.getElementById(arguments[0]).querySelector('.chart svg').outerHTML", key)
        assert now != old, key
    assert browser.get_log("browser") == []


def test_a_preset_bound_is_one_click(browser: Any, load: Open, page: str) -> None:
    load(page)
    pick = next(b for b in browser.find_elements("css selector", "#picks button") if b.text == "4,096")
    pick.click()
    assert browser.find_element("css selector", "#tokens").text == "4,096 tokens"
    assert pick.get_attribute("aria-pressed") == "true"
    made = yields.yield_table(many(), META, bounds=[4096]).bounds[0]
    assert browser.find_element("css selector", "#now").text.startswith(f"{made.problems.shortest} problems kept")


def test_hovering_shows_the_numbers(browser: Any, load: Open, page: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    load(page)
    chart = browser.find_element("css selector", "#problems .chart svg")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    ActionChains(browser).move_to_element(chart).perform()
    ActionChains(browser).move_by_offset(1, 10).perform()
    tip = WebDriverWait(browser, 10).until(lambda d: d.find_element("css selector", "#vg-tooltip-element").text)
    assert "problems with a passing trace that fits" in tip


@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_is_as_wide_as_the_window(browser: Any, load: Open, page: str, width: int) -> None:
    load(page, width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    over = """return [...document.querySelectorAll('.chart svg')].filter(s => s.getBoundingClientRect().right > innerWidth + 1).length"""
    assert browser.execute_script(over) == 0


def test_dark_and_light_reach_the_charts(browser: Any, load: Open, page: str) -> None:
    look = """
    const text = document.querySelector('#problems .chart svg .role-axis-label text');
    return [getComputedStyle(document.body).backgroundColor, getComputedStyle(text).fill];"""
    seen = []
    for dark in (False, True):
        load(page, dark=dark)
        seen.append(browser.execute_script(look))
    (paper, ink), (night, chalk) = seen
    assert (paper, night) == ("rgb(255, 255, 255)", "rgb(20, 24, 28)")
    assert (ink, chalk) == ("rgb(91, 101, 112)", "rgb(163, 173, 184)")


def test_it_prints_light_with_its_tables_and_without_its_controls(browser: Any, load: Open, page: str) -> None:
    load(page, dark=True, media="print")
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script("return document.querySelectorAll('details:not([open])').length") == 0
    assert not browser.find_element("css selector", "#stop").is_displayed()
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script("return document.querySelectorAll('details:not([open])').length") > 0


def test_keyboard_and_screen_reader_find_everything(browser: Any, load: Open, page: str) -> None:
    load(page)
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [(n.get("role", {}).get("value"), n.get("name", {}).get("value", "")) for n in tree if not n.get("ignored")]
    sliders = [name for role, name in named if role == "slider"]
    assert sliders == ["Longest trace allowed"]
    charts = [name for role, name in named if role in ("graphics-document", "GraphicsDocument", "image", "img") and name]
    assert len(charts) >= 13
    assert "Problems of each difficulty band: all, with a passing trace, kept" in charts
    headings = [name for role, name in named if role == "heading"]
    assert len(headings) > 14
    assert not [pair for pair in named if pair[0] == "button" and not pair[1]]
    # Every table opens from the keyboard, by its summary.
    from selenium.webdriver.common.keys import Keys

    summary = browser.find_element("css selector", "#skew summary")
    summary.send_keys(Keys.ENTER)
    assert browser.find_element("css selector", "#skew table").is_displayed()


def test_hostile_names_are_shown_and_run_nothing(browser: Any, load: Open) -> None:
    frame = make({"problem": HOSTILE, "group": HOSTILE, "tokens": 40}, {"problem": "B", "tokens": 90, "group": "b"})
    meta = Meta(
        sources=({"name": HOSTILE, "mapping": {HOSTILE: HOSTILE}, "revision": HOSTILE},), tokens={"basis": "column", "by": HOSTILE}
    )
    load(report.html(frame, meta, rules=Rules(), command=["curate", HOSTILE], by=HOSTILE))
    assert browser.execute_script(
        "return [window.hit ?? null, document.querySelectorAll('main img, header img, footer img').length]"
    ) == [None, 0]
    shown = HOSTILE.replace("\u202e", "\\u202e").replace("\x00", "\\x00")
    assert browser.execute_script("return document.getElementById('kicker').textContent") == shown
    assert shown in [r["name"] for r in cells(browser, "composition")]


SMALL = {
    "nothing": make(),
    "one trace": make({}),
    "one problem": make({"tokens": 90}, {"tokens": 40}, {"tokens": 700, "passed": False}),
    "zero kept": make({"passed": False}, {"problem": "B", "passed": False, "tokens": 30}),
    "no difficulty": make({"tokens": 90}, {"problem": "B", "tokens": 40}),
    "zero tokens": make({"tokens": 0}, {"problem": "B", "tokens": 0}),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_data_draw_no_empty_axes(browser: Any, load: Open, name: str) -> None:
    load(report.html(SMALL[name], META, rules=Rules()))
    assert all(count > 0 for _, count, _ in browser.execute_script(MARKS))
    assert browser.find_element("css selector", "h1").text
    empty = "return [...document.querySelectorAll('figure')].filter(f => !f.querySelector('.chart') && !f.querySelector('tbody tr') && !f.querySelector('.note')).length"
    assert browser.execute_script(empty) == 0


def test_the_sample_report_opens(browser: Any, load: Open) -> None:
    load((ROOT / "reports" / "sample.html").read_text(encoding="utf-8"))
    assert len(browser.execute_script(MARKS)) == 14
