"""Laws of the card: rendering twice changes nothing, foreign text survives, and no string from data gets out of its place."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from curate import card, configs, readme
from curate.errors import CurateError
from tests.made_out import manifest

FILES = {"data/train-00000-of-00001.parquet": {"rows": 3, "bytes": 1, "sha256": "0" * 64}}
PIECES = ["---", "\n", "\r\n", "# A", "license: mit", "tags: [a]", "configs:", " ", "<!-- curate: begin default -->",
          "<!-- curate: end default -->", "<!-- curate: begin b -->", "<!-- curate: end b -->", "|", "`", "text", "é"]  # fmt: skip
existing_texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
hostile = st.text(max_size=40) | st.lists(st.sampled_from([*PIECES, "<", ">", "*/", "```", "${x}", "'"]), max_size=8).map("".join)


def made(**changes: Any) -> dict[str, Any]:
    return manifest(files=FILES, **changes)


@given(existing_texts, st.sampled_from(["default", "b", "py"]))
def test_rendering_twice_is_rendering_once(existing: str, config: str) -> None:
    try:
        once = card.render(made(), config=config, existing=existing)
    except CurateError:
        assume(False)
    assert card.render(made(), config=config, existing=once) == once


@given(existing_texts, st.sampled_from(["default", "b", "py"]))
def test_text_that_is_not_ours_is_kept(existing: str, config: str) -> None:
    try:
        once = card.render(made(), config=config, existing=existing)
        _, old = configs.front_matter(existing, where="x")
    except CurateError:
        assume(False)
    _, new = configs.front_matter(once, where="x")
    spans = readme.marked(old)
    start, end = spans.get(config, (len(old), len(old)))
    if config in spans or not spans:
        assert new.startswith(old[:start].rstrip())
        assert new.endswith(old[end:])
    for name, (start, end) in spans.items():
        if name != config:
            assert old[start:end] in new


@given(hostile, hostile, hostile, hostile)
def test_no_string_from_data_gets_out_of_its_place(name: str, licence: str, label: str, word: str) -> None:
    facts = made()
    facts["sources"] = [{"name": name, "revision": None, "licence": licence, "basis": label}]
    facts["command"] = ["curate", "select", word]
    facts["tokens"]["by"] = label
    facts["yield"]["bounds"][0]["skew"]["bands"][0]["label"] = label
    text = card.render(facts)
    data, body = configs.front_matter(text, where="x")
    assert list(readme.marked(body)) == ["default"]
    assert [c["config_name"] for c in data["configs"]] == ["default"]
    plain = card.render(made(sources=[{"name": "n", "revision": None, "licence": "l", "basis": "verdict"}]))
    # Lines are only ever filled, never added: a name cannot open a section, a table row or a mark.
    assert len(body.splitlines()) == len(configs.front_matter(plain, where="x")[1].splitlines())
