"""Which files belong to which config and split, against hand-made cards and against ``datasets`` itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from curate import configs
from curate.errors import CurateError


def said(card: dict[str, object], paths: list[str], **kwargs: str) -> str:
    with pytest.raises(CurateError) as caught:
        configs.pick(paths, card, where="lab/cots", **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "data", "body"),
    [
        ("---\nlicense: mit\n---\n# A\n", {"license": "mit"}, "# A\n"),
        ("---\r\nlicense: mit\r\n---\r\n# A", {"license": "mit"}, "# A"),
        ("---\nlicense: mit\n---", {"license": "mit"}, ""),
        ("---\n---\n# A\n", {}, "# A\n"),
        ("# A\n---\nb: 1\n---\n", {}, "# A\n---\nb: 1\n---\n"),
        ("", {}, ""),
    ],
)
def test_front_matter_stands_between_the_first_two_rules(text: str, data: dict[str, str], body: str) -> None:
    assert configs.front_matter(text, where="x") == (data, body)


def test_broken_front_matter_is_one_sentence_with_its_line() -> None:
    with pytest.raises(CurateError, match=r"The front matter of README\.md is broken YAML in line 3; mend it"):
        configs.front_matter("---\na: 1\nb: [\n---\n", where="README.md")
    with pytest.raises(CurateError, match="is no mapping"):
        configs.front_matter("---\n- a\n---\n", where="README.md")


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("data/train-*", ["data/train-0.parquet"]),
        ("*.parquet", ["a.parquet"]),
        ("**/*.parquet", ["a.parquet", "data/deep/b.parquet", "data/train-0.parquet"]),
        ("data/**", ["data/deep/b.parquet", "data/train-0.parquet"]),
        ("./a.parquet", ["a.parquet"]),
        (".hidden/c.parquet", [".hidden/c.parquet"]),
        ("data/[!t]*/b.parquet", ["data/deep/b.parquet"]),
    ],
)
def test_a_star_stays_within_its_folder_and_hidden_files_must_be_asked_for(pattern: str, want: list[str]) -> None:
    paths = ["a.parquet", "data/train-0.parquet", "data/deep/b.parquet", ".hidden/c.parquet", "__cache__/d.parquet"]
    assert configs.match(paths, pattern) == want


@pytest.mark.parametrize(
    "files",
    [
        ["train.jsonl", "test.jsonl"],
        ["data/train-00000-of-00001.parquet", "data/extra-00000-of-00001.parquet", "other.parquet"],
        ["train/a.parquet", "validation/b.parquet", "train.csv"],
        ["my-train-file.jsonl", "dev.jsonl", "eval-2.jsonl"],
        ["training/a.jsonl", "valid_set/b.jsonl"],
        ["a.parquet", "b.parquet"],
        ["deep/er/train_1.jsonl", "deep/er/testing.jsonl"],
        ["constrain.jsonl", "latest.jsonl"],
    ],
)
def test_splits_by_name_are_those_of_datasets(files: list[str], tmp_path: Path) -> None:
    from datasets.data_files import DataFilesDict, get_data_patterns

    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    theirs = DataFilesDict.from_patterns(get_data_patterns(str(tmp_path)), base_path=str(tmp_path))
    want = {str(s): sorted(str(Path(f).relative_to(tmp_path)) for f in found) for s, found in theirs.items()}
    assert configs.guess(files) == want


def test_a_card_may_give_a_string_a_list_or_a_folder() -> None:
    paths = ["a.parquet", "b.parquet", "sub/train/c.parquet", "sub/train/d.parquet"]
    for entry, want in [
        ({"data_files": "a.parquet"}, ("a.parquet",)),
        ({"data_files": ["b.parquet", "a.parquet"]}, ("b.parquet", "a.parquet")),
        ({"data_dir": "sub"}, ("sub/train/c.parquet", "sub/train/d.parquet")),
        ({"data_dir": "sub", "data_files": "train/d.*"}, ("sub/train/d.parquet",)),
    ]:
        card = {"configs": [{"config_name": "x"} | entry]}
        assert configs.pick(paths, card, where="lab/cots").files == want


def test_what_select_wrote_beside_its_rows_is_no_data() -> None:
    paths = ["data/train-00000-of-00001.parquet", "ledger.parquet", "longest.parquet", "manifest.json"]
    assert configs.data_like(paths) == ["data/train-00000-of-00001.parquet"]


def test_of_several_formats_the_commonest_is_read() -> None:
    paths = ["a.parquet", "a.json", "b.json"]
    assert configs.pick(paths, {}, where="x").files == ("a.json", "b.json")
    assert configs.pick(paths[:2], {}, where="x").files == ("a.parquet",)


def test_faulty_cards_are_one_sentence() -> None:
    assert said({"configs": "x"}, []) == "The README of lab/cots has `configs` that are no list; its owner has to mend them."
    assert said({"configs": [{"data_files": "x"}]}, []).startswith("The README of lab/cots lists a config without a config_name")
    assert said({"configs": [{"config_name": "a", "data_files": [{"split": "train"}]}]}, []).endswith(
        "data_files of config a that name no split and path."
    )
    outside = {"configs": [{"config_name": "a", "data_files": "hf://datasets/x/y/z.parquet"}]}
    assert "points to hf://datasets/x/y/z.parquet, outside of it" in said(outside, [])


def test_a_config_of_a_set_without_configs_is_refused() -> None:
    assert said({}, ["a.parquet"], config="py") == ("lab/cots has no config py: its README lists none. Leave :py out.")
