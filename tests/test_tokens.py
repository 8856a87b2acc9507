"""Counting: rules in exact arithmetic, whole samples, and the fast engine held against the reference."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from curate import cache, chat, encoder, estimate, tokens
from curate.errors import CurateError, UsageError

SHARED = Path(__file__).resolve().parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the shared traces and tokenizers are not here")
TEMPLATE = (
    "<s> {% for m in messages %}<|{{ m['role'] }}|> {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))


def words(folder: Path, *, template: str | None = None, bos: bool = False, vocab: tuple[str, ...] = (), **extra: Any) -> Path:
    """A tokenizer of one token a word between blanks, saved as Hugging Face saves them."""
    special = ["[UNK]", "[PAD]", "<s>", "</s>", "<|user|>", "<|assistant|>"]
    added = [
        {"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, c in enumerate(special)
    ]
    post = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}},
    }
    model = {"type": "WordLevel", "vocab": {c: i for i, c in enumerate([*special, *vocab])}, "unk_token": "[UNK]"}
    data = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": post if bos else None,
        "decoder": None,
        "model": model,
        **extra,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(data))
    config: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>"}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def byte_level(path: Path, texts: list[str]) -> Path:
    """A byte-level BPE tokenizer trained on the spot, with think marks and control tokens, the kind that fastokens takes."""
    import tokenizers
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

    tok = tokenizers.Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(texts, trainer)
    tok.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    path.mkdir(parents=True, exist_ok=True)
    tok.save(str(path / "tokenizer.json"))
    return path


def reference(folder: Path, texts: list[str]) -> list[int]:
    """The oracle: Hugging Face tokenizers, one text at a time."""
    from tokenizers import Tokenizer

    tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tok.no_truncation()
    tok.no_padding()
    return [len(tok.encode(t, add_special_tokens=False).ids) for t in texts]


def test_a_rule_divides_once_and_rounds_down_in_whole_numbers() -> None:
    # 18 / 3.6 is 5; floating point says 4. Sample: (0 + 1 + 18) / 3.6 = 5.27 and (0 + 1) / 3.6 = 0.27.
    frame = pl.DataFrame({"trace": ["a" * 18, "a" * 17, " \n", None], "prompt": ["", None, "x", None]})
    got = tokens.rule("chars/3.6").count(frame)
    assert got["tokens"].to_list() == [5, 4, None, None]
    assert got["prompt_tokens"].to_list() == [0, 0, 0, 0]
    assert tokens.rule("chars/3.6", kind="trace").count(frame)["tokens"].to_list() == [5, 4, None, None]


def test_a_rule_counts_the_prompt_and_one_line_break_with_the_sample() -> None:
    # bytes: "é" is 2, "abcd" 4, one line break: 7 // 2 = 3, of which (2 + 1) // 2 = 1 before the trace.
    got = tokens.rule("bytes/2").count(pl.DataFrame({"trace": ["abcd"], "prompt": ["é"], "answer": ["abc"]}))
    assert got.row(0, named=True) == {"tokens": 3, "prompt_tokens": 1, "render": 0, "answer_tokens": 1}


@pytest.mark.parametrize("text", ["chars/0", "chars/-1", "words/3", "chars/", "chars/3.6.1", "chars/nan", "3.6", "chars/1e3"])
def test_a_bad_rule_is_refused_before_any_work(text: str) -> None:
    with pytest.raises(UsageError, match=r"chars/3\.6"):
        tokens.rule(text)


def test_an_empty_batch_has_the_columns_and_no_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame({"trace": [], "prompt": []}, schema={"trace": pl.String, "prompt": pl.String})
    exact = tokens.open_counter(tokenizer=words(tmp_path / "tok", template=TEMPLATE))
    for counter in (tokens.rule("chars/3.6"), tokens.open_counter(), exact):
        got = counter.count(frame)
        assert got.height == 0
        assert {"tokens", "prompt_tokens", "render"} <= set(got.columns)
        assert got.schema["tokens"] == pl.UInt32


def test_every_counter_keeps_the_contract(tmp_path: Path) -> None:
    for counter in (
        tokens.rule("bytes/4"),
        tokens.open_counter(),
        tokens.open_counter(tokenizer=words(tmp_path / "tok", template=TEMPLATE)),
    ):
        assert isinstance(counter, tokens.Counter)
        assert counter.low <= 1.0 <= counter.high
        assert counter.by and counter.key


def test_a_whole_sample_has_one_start_token(tmp_path: Path) -> None:
    # <s> <|user|> q q <|assistant|> a a a: 8 words; the post-processor of the file would add a second <s>.
    folder = words(tmp_path / "tok", template=TEMPLATE, bos=True)
    counter = tokens.open_counter(tokenizer=folder, messages=True)
    context = [[{"role": "user", "content": "q q"}]] * 2
    got = counter.count(pl.DataFrame({"trace": ["a a a", "a a a a"], "prompt": ["q q"] * 2, "context": context}))
    assert got["tokens"].to_list() == [8, 9]
    assert got["prompt_tokens"].to_list() == [5, 5]


def test_padding_and_truncation_of_the_file_are_switched_off(tmp_path: Path) -> None:
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 1, "pad_type_id": 0}
    truncation = {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    folder = words(tmp_path / "tok", padding={**padding, "pad_token": "[PAD]"}, truncation=truncation)
    counter = tokens.open_counter(tokenizer=folder, kind="trace")
    assert counter.count(pl.DataFrame({"trace": ["a b c", "a " * 7, "a " * 20]}))["tokens"].to_list() == [3, 7, 20]


def test_messages_without_a_template_are_a_sentence_that_names_the_way_out(tmp_path: Path) -> None:
    folder = words(tmp_path / "plain-tokenizer")
    with pytest.raises(CurateError, match=r"plain-tokenizer has no chat template.*--count trace"):
        tokens.open_counter(tokenizer=folder, messages=True)
    late = tokens.open_counter(tokenizer=folder)
    frame = pl.DataFrame({"trace": ["a b"], "prompt": ["q"], "context": [[{"role": "user", "content": "q"}]]})
    with pytest.raises(CurateError, match="--count trace"):
        late.count(frame)
    assert tokens.open_counter(tokenizer=folder, kind="trace").count(frame)["tokens"].to_list() == [2]


def test_prompt_and_trace_without_a_template_are_joined_by_a_line_break(tmp_path: Path) -> None:
    counter = tokens.open_counter(tokenizer=words(tmp_path / "tok"))
    got = counter.count(pl.DataFrame({"trace": ["a b", "c", None], "prompt": ["q r s", None, "t"]}))
    assert got["tokens"].to_list() == [5, 1, None]
    assert got["prompt_tokens"].to_list() == [3, 0, 0]


def test_a_trace_without_a_prompt_is_counted_alone(tmp_path: Path) -> None:
    counter = tokens.open_counter(tokenizer=words(tmp_path / "tok", template=TEMPLATE))
    assert counter.count(pl.DataFrame({"trace": ["a b"]}))["tokens"].to_list() == [2]


def test_a_prompt_that_is_rendered_already_gets_the_trace_appended(tmp_path: Path) -> None:
    counter = tokens.open_counter(tokenizer=words(tmp_path / "tok", template=TEMPLATE))
    prompts = ["<s> <|user|> q <|assistant|> ", "what is <|user|> for"]
    got = counter.count(pl.DataFrame({"trace": ["a b", "a b"], "prompt": prompts}))
    # The second only speaks of a token: <s> <|user|> what is <|user|> for <|assistant|> a b.
    assert got["tokens"].to_list() == [6, 9]
    assert got["prompt_tokens"].to_list() == [4, 7]


def test_a_template_that_drops_the_reasoning_is_flagged_row_by_row(tmp_path: Path) -> None:
    cut = TEMPLATE.replace("m['content']", "m['content'].split('</think>')[-1]")
    counter = tokens.open_counter(tokenizer=words(tmp_path / "tok", template=cut))
    got = counter.count(pl.DataFrame({"trace": ["<think> r r r </think> a", "a a"], "prompt": ["q", "q"]}))
    assert (got["render"] & tokens.RENDER_ALTERED).to_list() == [1, 0]
    assert got["tokens"].to_list() == [5, 6]


def test_control_tokens_in_a_trace_count_as_the_tokenizer_does_and_are_flagged(tmp_path: Path) -> None:
    folder = byte_level(tmp_path / "bpe", ["the file ends there " * 20])
    texts = ["<think>the<|endoftext|>file</think>x", "<think>the file</think>x", "< |endoftext| >", None]
    got = tokens.open_counter(tokenizer=folder, kind="trace").count(pl.DataFrame({"trace": texts}))
    assert got["tokens"].to_list() == [*reference(folder, [t for t in texts if t]), None]
    assert (got["render"] & tokens.RENDER_CONTROL).to_list() == [2, 0, 0, 0]


def test_reasoning_and_answer_are_counted_apart(tmp_path: Path) -> None:
    counter = tokens.open_counter(tokenizer=words(tmp_path / "tok"), kind="trace")
    frame = pl.DataFrame({"trace": ["a b c", "d"], "reasoning": ["a b", None], "answer": ["c", "d"]})
    got = counter.count(frame)
    assert got["reasoning_tokens"].to_list() == [2, None]
    assert got["answer_tokens"].to_list() == [1, 1]


def test_text_goes_on_behind_a_nul(tmp_path: Path) -> None:
    folder = byte_level(tmp_path / "bpe", ["before and after " * 20])
    text = "before\x00 and after"
    got = tokens.open_counter(tokenizer=folder, kind="trace").count(pl.DataFrame({"trace": [text]}))
    assert got["tokens"].to_list() == reference(folder, [text])
    assert tokens.rule("chars/1", kind="trace").count(pl.DataFrame({"trace": [text]}))["tokens"].to_list() == [17]


class TestEngine:
    """The fast engine: believed only when it agrees with the reference."""

    def test_it_counts_as_the_reference_does(self, tmp_path: Path) -> None:
        folder = byte_level(tmp_path / "bpe", [*encoder.PROBES, "Let me think about it. " * 50])
        notes: list[str] = []
        exact = encoder.Encoder(folder / "tokenizer.json", note=notes.append, small=0)
        texts = [*encoder.PROBES, "<think>\nx\n</think>" * 30, "e\u0301\u0327" * 9, "a" * 2000]
        assert exact.lengths(texts).tolist() == reference(folder, texts)
        assert (notes, exact.checked) == ([], True)
        assert exact.engine.startswith("fastokens ")

    def test_small_inputs_go_straight_to_the_reference(self, tmp_path: Path) -> None:
        folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
        exact = encoder.Encoder(folder / "tokenizer.json")
        assert exact.lengths(["a b c"]).tolist() == reference(folder, ["a b c"])
        assert exact.engine.startswith("tokenizers ")

    def test_a_difference_falls_back_loudly(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
        true = encoder._flat

        def off_by_one(engine: Any, texts: list[str]) -> Any:
            ids, lengths = true(engine, texts)
            return np.append(ids[1:], ids[-1:]), lengths

        monkeypatch.setattr(encoder, "_flat", off_by_one)
        notes: list[str] = []
        exact = encoder.Encoder(folder / "tokenizer.json", note=notes.append, small=0)
        assert exact.lengths(["a b c d e"]).tolist() == reference(folder, ["a b c d e"])
        assert len(notes) == 1
        assert re.search(r"fastokens .* differs from tokenizers on .*counting with tokenizers", notes[0])
        assert exact.checked is False

    def test_a_refusal_falls_back_loudly(self, tmp_path: Path) -> None:
        notes: list[str] = []
        folder = words(tmp_path / "tok")  # WordLevel: no model of the fast engine
        exact = encoder.Encoder(folder / "tokenizer.json", note=notes.append, small=0)
        assert exact.lengths(["a b", "a"]).tolist() == [2, 1]
        assert len(notes) == 1 and "refuses this tokenizer" in notes[0]

    def test_a_failure_in_the_middle_is_counted_by_the_reference(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
        notes: list[str] = []
        exact = encoder.Encoder(folder / "tokenizer.json", note=notes.append, small=0)
        exact.lengths(["a"])
        monkeypatch.setattr(encoder, "_flat", lambda *_: (_ for _ in ()).throw(RuntimeError("panic")))
        assert exact.lengths(["a b c", "b"]).tolist() == reference(folder, ["a b c", "b"])
        assert "panic" in notes[0]

    def test_the_gate_is_passed_once_for_a_tokenizer_and_version(self, tmp_path: Path) -> None:
        folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
        asked: list[str] = []
        kept: list[str] = []

        def seen(key: str) -> bool:
            asked.append(key)
            return key in kept

        for _ in range(2):
            exact = encoder.Encoder(folder / "tokenizer.json", seen=seen, remember=kept.append, small=0)
            exact.lengths(["a b"])
        assert len(kept) == 1
        assert exact.sha256 in kept[0] and "fastokens" in kept[0]
        assert asked == [kept[0], kept[0]]

    def test_the_engine_is_made_anew_when_its_memory_grows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
        exact = encoder.Encoder(folder / "tokenizer.json", small=0)
        exact.lengths(["a"])
        first, sizes = exact._fast, iter([0, encoder._GROWTH + 1, encoder._GROWTH, 0])
        monkeypatch.setattr(encoder, "_resident", lambda: next(sizes))
        assert exact.lengths(["a b c"]).tolist() == reference(folder, ["a b c"])
        assert exact._fast is not first
        assert exact._most == encoder._GROWTH

    def test_growth_that_is_not_the_engines_does_not_make_engines_over_and_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
        exact = encoder.Encoder(folder / "tokenizer.json", small=0)
        exact.lengths(["a"])
        grown = iter(range(0, 10**12, encoder._GROWTH + 1))
        monkeypatch.setattr(encoder, "_resident", lambda: next(grown))
        made = []
        true = encoder._load
        monkeypatch.setattr(encoder, "_load", lambda text: made.append(1) or true(text))
        for _ in range(12):
            exact.lengths(["a b c"])
        assert len(made) == 2  # at 1 and 1 + 4 times the bound; the next comes after 16 more

    def test_batches_are_bounded_by_text_not_by_rows(self) -> None:
        sizes = np.array([5, 5, 5, 20, 1, 1])
        assert list(encoder._batches(sizes, 10)) == [(0, 2), (2, 3), (3, 4), (4, 6)]


class TestFinding:
    def test_a_file_a_folder_and_their_faults(self, tmp_path: Path) -> None:
        folder = words(tmp_path / "mine", template=TEMPLATE)
        assert encoder.find_tokenizer(folder).name == "mine"
        assert encoder.find_tokenizer(folder / "tokenizer.json").name == "mine"
        (tmp_path / "empty").mkdir()
        with pytest.raises(CurateError, match=r"holds no tokenizer.json.*save_pretrained"):
            encoder.find_tokenizer(tmp_path / "empty")
        with pytest.raises(CurateError, match="no such file or folder"):
            encoder.find_tokenizer(tmp_path / "a" / "b" / "tokenizer.json")

    @pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"model": {"type": "none"}}'])
    def test_a_broken_tokenizer_is_a_sentence(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(CurateError, match=r"tokenizer\.json"):
            tokens.open_counter(tokenizer=tmp_path, kind="trace").count(pl.DataFrame({"trace": ["a"]}))

    def test_a_hub_id_is_fetched_file_by_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        folder = words(tmp_path / "tok", template=TEMPLATE)
        asked = []

        def download(repo: str, file: str, **_: object) -> str:
            asked.append((repo, file))
            if not (folder / file).exists():
                raise huggingface_hub.errors.EntryNotFoundError("404")
            return str(folder / file)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        monkeypatch.setattr(encoder, "_reachable", lambda name: True)
        found = encoder.find_tokenizer("org/name")
        assert (found.name, found.config["bos_token"]) == ("org/name", "<s>")
        assert [f for _, f in asked] == ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]

    def test_a_hub_id_without_tokenizer_json_or_network_is_a_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        def missing(repo: str, file: str, **_: object) -> str:
            raise huggingface_hub.errors.EntryNotFoundError("404")

        def offline(repo: str, file: str, **_: object) -> str:
            raise huggingface_hub.errors.LocalEntryNotFoundError("offline")

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", missing)
        monkeypatch.setattr(encoder, "_reachable", lambda name: True)
        with pytest.raises(CurateError, match=r"org/name has no tokenizer\.json"):
            encoder.find_tokenizer("org/name")
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
        with pytest.raises(CurateError, match="no network"):
            encoder.find_tokenizer("org/name")

    def test_a_template_needs_a_tokenizer(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="--tokenizer"):
            tokens.open_counter(chat_template=tmp_path / "t.jinja")

    def test_two_tokenizers_at_one_path_have_two_keys(self, tmp_path: Path) -> None:
        first = tokens.open_counter(tokenizer=words(tmp_path / "tok"), kind="trace").key
        second = tokens.open_counter(tokenizer=words(tmp_path / "tok", vocab=("new",)), kind="trace").key
        third = tokens.open_counter(tokenizer=words(tmp_path / "tok", template=TEMPLATE), kind="sample").key
        again = tokens.open_counter(tokenizer=words(tmp_path / "other"), kind="trace").key
        assert len({first, second, third}) == 3
        assert again == first


class TestEstimate:
    def test_features_are_what_they_say(self) -> None:
        got = estimate.features(pl.Series(["abc de\n\n12 ++  Ab \u2192", "", None]), whole=True)
        row = dict(zip(estimate.FEATURES, got[0].tolist(), strict=True))
        assert row == {
            "bytes": 21, "characters": 19, "spaces": 5, "newlines": 2, "digits": 2, "punctuation": 2, "words": 3,
            "capitals": 1, "punctuation_runs": 1, "blank_runs": 1, "symbols": 1,
        }  # fmt: skip
        assert got[1].tolist() == got[2].tolist() == [0.0] * len(estimate.FEATURES)

    def test_slices_of_an_even_text_say_what_the_whole_says(self) -> None:
        text = pl.Series(["one two, three 4. " * 3000])
        sliced, whole = estimate.features(text), estimate.features(text, whole=True)
        assert np.abs(sliced / np.maximum(whole, 1) - 1)[whole > 0].max() < 0.12

    def test_the_model_is_the_features_times_the_weights(self) -> None:
        texts = pl.Series(["x = 3 + 4;\n" * k for k in (1, 50, 3000)])
        model = estimate.model("deepseek")
        want = estimate.features(texts) @ np.array(model.weights)
        assert np.allclose(model.tokens(texts), want, rtol=1e-5)

    def test_ranges_and_parts_are_given_with_the_counts(self) -> None:
        counter = tokens.open_counter()
        frame = pl.DataFrame({"trace": ["some text " * 400, None], "prompt": ["why?", "why?"], "reasoning": ["a b", None]})
        got = counter.count(frame)
        n, low, high = got.select("tokens", "tokens_low", "tokens_high").row(0)
        assert low == int(n * counter.low) and low < n < high
        assert got["tokens"][1] is None and got["tokens_high"][1] is None
        assert got["reasoning_tokens"].to_list()[1] is None
        assert got["prompt_tokens"].to_list()[0] > 0

    def test_an_unknown_model_is_refused(self) -> None:
        with pytest.raises(UsageError, match=r"qwen.*Did you mean deepseek"):
            tokens.open_counter(estimate="deepsek")

    def test_the_shipped_range_came_from_many_sources(self) -> None:
        text = Path(estimate.__file__).with_name("estimate.json").read_text()
        for model in json.loads(text)["models"].values():
            assert model["range"]["sources"] >= 10
            assert model["range"]["median_error"] <= 0.05
            assert model["range"]["p95_error"] <= 0.12
            assert 0.8 < model["range"]["low"] < 1 < model["range"]["high"] < 1.25


@needs_shared
class TestShared:
    """Known answers from published files."""

    def test_prime_rl_counts_are_its_token_ids(self) -> None:
        samples = json.loads((SHARED / "traces/prime_rl/example_rewards.json").read_text())["samples"]
        # Generated by a relative of Qwen that ends a turn with DeepSeek's mark; Qwen3 has another, of one token too.
        texts = [s["completion"].replace("<｜end▁of▁sentence｜>", "<|im_end|>") for s in samples]
        counter = tokens.open_exact(SHARED / "tokenizers/qwen3", kind="trace", cached=False)
        got = counter.count(pl.DataFrame({"trace": texts}))["tokens"]
        assert got.to_list() == [len(s["completion_tokens"]) for s in samples]
        assert (got.sort()[55], got.sort()[100], got.max()) == (1963, 2012, 2014)

    @pytest.mark.parametrize(
        ("case", "column", "want"),
        [
            ("04-special-token-text-inside-trace", "generation", [20, 19, 21, 20]),
            ("52-nul-characters-inside-text", "generation", [15, 8]),
            ("58-very-long-run-without-a-break", "generation", [31250, 3906, 40000, 141]),
        ],
    )
    def test_cases_with_the_qwen3_tokenizer(self, case: str, column: str, want: list[int]) -> None:
        rows = [json.loads(x) for x in (SHARED / "cases" / case / "traces.jsonl").read_text().split("\n") if x]
        counter = tokens.open_exact(SHARED / "tokenizers/qwen3", kind="trace", cached=False)
        got = counter.count(pl.DataFrame({"trace": [r[column] for r in rows]}))
        assert got["tokens"].to_list() == want
        if case.startswith("04"):
            assert (got["render"] & tokens.RENDER_CONTROL > 0).sum() == 2

    @pytest.mark.parametrize("name", ["qwen3", "deepseek_v3"])
    def test_counts_equal_the_reference_on_real_traces(self, name: str) -> None:
        folder = SHARED / "tokenizers" / name
        rows = pl.read_parquet(SHARED / "traces/skythought/math500_runs.parquet").gather_every(50)
        frame = rows.select(prompt="question", trace="completion")
        sample = tokens.open_exact(folder, cached=False, total=10**9)
        assert sample.template is not None
        trace = tokens.ExactCounter(sample.encoder, name=name, kind="trace", total=10**9)
        pairs = zip(frame["prompt"], frame["trace"], strict=True)
        rendered = [sample.template.render([("user", p), ("assistant", t)]) for p, t in pairs]
        want = reference(folder, rendered + frame["trace"].to_list())
        assert sample.count(frame)["tokens"].to_list() + trace.count(frame)["tokens"].to_list() == want
        assert sample.engine.startswith("fastokens")


def test_the_gate_is_remembered_in_the_cache_folder(tmp_path: Path) -> None:
    folder = byte_level(tmp_path / "bpe", ["a b c " * 30])
    counter = tokens.open_exact(folder, kind="trace", total=10**9)
    counter.count(pl.DataFrame({"trace": ["a b"]}))
    assert [e.key.split()[0] for e in cache.entries()] == ["gate"]


def test_the_shapes_of_renders_do_not_change_lengths(tmp_path: Path) -> None:
    folder = words(tmp_path / "tok", template=TEMPLATE)
    counter = tokens.open_exact(folder, cached=False)
    traces = ["<think> r </think> a", " b ", "<think></think> c", "d </think> e", "x <think> y </think> z </think>", "</think>"]
    frame = pl.DataFrame({"trace": traces * 3, "prompt": ["q", " q\n", "q <think> q"] * 6})
    assert counter.template is not None
    want = [
        len(chat.whole(counter.template, [("user", p)], t).text.split())
        for p, t in zip(frame["prompt"], frame["trace"], strict=True)
    ]
    assert counter.count(frame)["tokens"].to_list() == want
