"""The card: each fact of the manifest in its place, hostile strings shown as they are, hand-written text kept."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from curate import card, configs, markdown, readme
from curate.errors import CurateError
from tests.made_out import manifest

FILES = {"data/train-00000-of-00001.parquet": {"rows": 3, "bytes": 1, "sha256": "0" * 64}}


def made(**changes: Any) -> dict[str, Any]:
    return manifest(files=FILES, **changes)


def parts(text: str) -> tuple[dict[str, Any], str]:
    return configs.front_matter(text, where="card")


def source(**changes: Any) -> dict[str, Any]:
    return {"name": "lab/cots:py", "revision": "a" * 40, "licence": "cc-by-4.0", "basis": "verdict"} | changes


def test_the_front_matter_is_what_the_hub_reads() -> None:
    assert parts(card.render(made()))[0] == {
        "license": "cc-by-4.0",
        "task_categories": ["text-generation"],
        "size_categories": ["n<1K"],
        "source_datasets": ["lab/cots"],
        "tags": ["reasoning", "chain-of-thought", "curate"],
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*"}]}],
    }


def test_the_text_says_every_fact_of_the_manifest() -> None:
    text = card.render(made())
    for line in [
        "# The shortest passing trace of lab/cots:py, at most 8,192 tokens",
        "3 reasoning traces for 3 problems: the shortest passing trace of each problem, each of at most 8,192 tokens.",
        "They were chosen from 10 traces of lab/cots:py; every trace is whole, none was cut to fit.",
        "curate select lab/cots:py --shortest --max-tokens 8192",
        f"| lab/cots:py | `{'a' * 40}` | cc-by-4.0 |",
        "| read | 10 |\n| usable | 8 |\n| passing | 6 |\n| within the bound | 5 |\n| chosen | 3 |",
        "3 of 5 problems are here (60%). They hold 12,345 tokens.",
        "| **8,192** | 8 | 3 | 2 | 2.5 |\n| no bound | 9 | 4 | 4 | 4.0 |",
        "| 800-1200 | 2 | 2 | 2 (100%) |\n| 1300-3000 | 2 | 2 | 1 (50%) |\n| unrated | 1 | 0 | 0 |",
        "Problems lost to the bound are harder than those kept: a lost one is the harder of two with probability 0.83.",
        "Median difficulty is 900 within the bound and 1250 among all rated problems with a passing trace.",
        "The hardest band is 33.3% of the kept and 50.0% of those with a passing trace.",
        "Estimated by `chars/3.6` from the whole sample, prompt included; no tokenizer was run.",
        "True totals lie between 0.90 and 1.20 times the estimate in 95 % of sources.",
        "A trace passes when its verdict is true; one without a verdict does not.",
        "- lab/cots:py: the publisher's verdict on each trace.",
        "| 1 | 1 | longer than the bound: left out whole |\n| 2 | 0 | another trace of the same problem was chosen |",
        "- Rows come from lab/cots:py, under cc-by-4.0.",
    ]:
        assert line in text


@pytest.mark.parametrize(
    ("tokens", "want"),
    [
        (
            {"basis": "exact", "by": "qwen3", "count": "trace"},
            "Exactly, with `qwen3`: the trace alone.",
        ),
        (
            {"basis": "column", "by": "api_metadata.completion_tokens"},
            "By the publisher: column `api_metadata.completion_tokens` of the source was taken as it is and not counted again.",
        ),
        ({"basis": "estimate", "by": "bytes/4", "count": "sample"}, "no tokenizer was run. Its error is not known."),
    ],
)
def test_how_tokens_were_counted_is_said(tokens: dict[str, Any], want: str) -> None:
    assert want in card.render(made(tokens=tokens))


@pytest.mark.parametrize(
    ("auc", "want"),
    [(0.6, "are harder than"), (0.55, "are about as hard as"), (0.5, "are about as hard as"), (0.44, "are easier than"),
     (None, "so there is no skew to speak of.")],
)  # fmt: skip
def test_skew_is_said_in_words(auc: float | None, want: str) -> None:
    assert want in card.skew_words({"auc": auc, "hard_share": {}})


def test_choosing_before_dropping_turns_the_last_two_steps_round() -> None:
    text = card.render(made(options={"policy": "first", "max_tokens": 8192, "choose_then_drop": True}))
    assert "| passing | 6 |\n| chosen | 4 |\n| within the bound | 3 |" in text


def test_a_table_that_counts_more_than_there_is_says_why() -> None:
    fewer = made(select=made()["select"] | {"problems_kept": 2})
    assert "rows were held to its upper end, so 1 problem fewer is here." in card.render(fewer)
    assert "upper end" not in card.render(made())
    exact = {"basis": "exact", "by": "t", "count": "sample"}
    assert "upper end" not in card.render(fewer | {"tokens": exact})


def test_what_is_not_known_is_said_and_not_made_up() -> None:
    text = card.render(made(sources=[source(licence=None, revision=None, basis="none")], **{"yield": {"bounds": []}}))
    data, _ = parts(text)
    assert "license" not in data
    assert "source_datasets" not in data
    assert "| lab/cots:py | local files | not stated |" in text
    assert "which states no licence: ask its owner before you pass rows on" in text
    assert "- lab/cots:py: nothing: nobody has checked these traces." in text
    assert "The source gives no difficulty" in text
    assert "No table of bounds was recorded." in text


@pytest.mark.parametrize(
    ("licences", "want"),
    [
        (["cc-by-4.0"], {"license": "cc-by-4.0"}),
        (["Apache-2.0"], {"license": "apache-2.0"}),
        (["mit", "cc-by-4.0"], {"license": ["mit", "cc-by-4.0"]}),
        (["mit", "mit"], {"license": "mit"}),
        (["My own: terms"], {"license": "other", "license_name": "My own: terms"}),
        ([["mit", "odc-by"]], {"license": ["mit", "odc-by"]}),
    ],
)
def test_licences_of_all_sources_are_carried_over(licences: list[Any], want: dict[str, Any]) -> None:
    data, _ = parts(card.render(made(sources=[source(licence=licence) for licence in licences])))
    assert {k: v for k, v in data.items() if k.startswith("license")} == want


def test_a_local_path_is_no_source_data_set() -> None:
    sources = [source(name="runs/today", revision=None), source(name="lab/a@v1"), source(name="short", repo="lab/b")]
    assert parts(card.render(made(sources=sources)))[0]["source_datasets"] == ["lab/a", "lab/b"]


@pytest.mark.parametrize(
    ("rows", "want"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (9_999, "1K<n<10K"), (10**8, "100M<n<1B"), (10**9, "n>1B")],
)
def test_size_categories_begin_at_their_lower_end(rows: int, want: str) -> None:
    assert card.size_category(rows) == want


def test_a_config_of_its_own_has_its_own_folder() -> None:
    text = card.render(made(), config="py")
    assert parts(text)[0]["configs"] == [{"config_name": "py", "data_files": [{"split": "train", "path": "py/data/train-*"}]}]
    assert "curate select --like py/manifest.json" in text


def test_the_entry_of_a_config_is_replaced_in_its_place_and_others_stay() -> None:
    other = {"config_name": "b", "data_files": "b.parquet", "features": [{"name": "id", "dtype": "string"}]}
    old = {
        "license": "mit",
        "pretty_name": "Mine",
        "tags": ["math"],
        "configs": [{"config_name": "a", "default": True, "data_files": "x/*"}, other],
        "dataset_info": [{"config_name": "a", "features": []}, {"config_name": "b", "features": [1]}],
    }
    existing = f"---\n{yaml.safe_dump(old, sort_keys=False)}---\n# Mine\n"
    data, body = parts(card.render(made(), config="a", existing=existing))
    assert data["license"] == "mit"
    assert data["pretty_name"] == "Mine"
    assert data["tags"] == ["math", "reasoning", "chain-of-thought", "curate"]
    path = {"split": "train", "path": "a/data/train-*"}
    assert data["configs"] == [{"config_name": "a", "default": True, "data_files": [path]}, other]
    assert data["dataset_info"] == [{"config_name": "b", "features": [1]}]
    assert body.startswith("# Mine\n\n<!-- curate: begin a -->\n")


def test_alone_in_its_repository_a_config_replaces_licence_size_and_source() -> None:
    old = card.render(made(sources=[source(name="lab/old", licence="mit")], select=made()["select"] | {"kept": 5000}))
    data, _ = parts(card.render(made(), existing=old))
    assert (data["license"], data["size_categories"], data["source_datasets"]) == ("cc-by-4.0", ["n<1K"], ["lab/cots"])


def test_text_around_the_marks_is_kept_byte_for_byte() -> None:
    first = card.render(made())
    start, end = readme.marked(first)["default"]
    around = first[:start] + "Before.\r\n\r\n" + first[start:end] + "\n\n  After <!-- note -->\t\n"
    second = card.render(made(select=made()["select"] | {"tokens_kept": 99}), existing=around)
    start, end = readme.marked(around)["default"]
    new_start, new_end = readme.marked(second)["default"]
    assert second[:new_start] == around[:start]
    assert second[new_end:] == around[end:]
    assert "They hold 99 tokens." in second


def test_a_second_block_follows_the_first() -> None:
    both = card.render(made(), config="py", existing=card.render(made()))
    assert list(readme.marked(both)) == ["default", "py"]
    assert both.endswith(readme.HINT)


@pytest.mark.parametrize(
    "body",
    [
        "<!-- curate: begin a -->\n",
        "<!-- curate: end a -->\n",
        "<!-- curate: begin a -->\n<!-- curate: begin b -->\n<!-- curate: end b -->\n<!-- curate: end a -->\n",
        "<!-- curate: begin a -->\n<!-- curate: end b -->\n",
        "<!-- curate: begin a -->\n<!-- curate: end a -->\n<!-- curate: begin a -->\n<!-- curate: end a -->\n",
    ],
)
def test_a_mark_without_its_partner_is_an_error(body: str) -> None:
    with pytest.raises(CurateError, match=r"mend or remove its marks\."):
        readme.marked(body)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a_b __c", "a_b \\_\\_c"),
        ("line\nbreak\tand  space", "line break and space"),
        ("<!-- curate: end default -->", "&lt;!-- curate: end default --&gt;"),
        ("[x](javascript:y)", "\\[x\\](javascript:y)"),
        ("see http://x.y @all", "see http:&#47;&#47;x.y &#64;all"),
        ("a|b", "a\\|b"),
        ("$x$ `y` *z*", "\\$x\\$ \\`y\\` \\*z\\*"),
        ("\u202etxt\x1b[31m", "txt \\[31m"),
        ("é中", "é中"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_hostile_text_is_shown_and_does_nothing(text: str, want: str) -> None:
    assert markdown.md(text).strip() == want


def test_a_command_line_cannot_leave_its_fence() -> None:
    assert markdown.command(["curate", "select", "a b", "it's"]) == "```sh\ncurate select 'a b' 'it'\"'\"'s'\n```"
    hostile = markdown.command(["curate", "x```\n<!-- curate: end default -->"])
    assert hostile.splitlines() == ["````sh", "curate $'x```\\n<!-- curate: end default -->'", "````"]


def test_a_bare_card_says_what_it_does_not_know() -> None:
    text = card.render_bare({"data/train-00000-of-00001.parquet": 3, "data/test-00000-of-00001.parquet": 1}, version="1.2")
    assert "4 rows in 2 Parquet files, pushed as they are with curate 1.2." in text
    assert [f["split"] for f in parts(text)[0]["configs"][0]["data_files"]] == ["train", "test"]
