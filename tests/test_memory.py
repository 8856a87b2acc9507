"""What fits on a card: the fitted constants, their error, and the answers per loss kernel."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from benchmarks import memory_model
from curate import memory, render_cost
from curate.errors import CurateError, UsageError


def longest(card: str, loss: str, attention: str = "flash", model: str = "qwen2.5-3b") -> memory.Fit:
    return memory.fit(model, card, loss=loss, attention=attention)


def test_the_constants_are_the_fit_on_the_published_points() -> None:
    used = [point for point in memory_model.points() if point["used"]]
    assert len(used) == 89
    logits = [memory.BYTES_PER_LOGIT[loss] for loss in memory_model.LOGITS]
    expected = [memory.OVERHEAD, memory.K_ATTENTION, memory.K_FFN, *logits]
    assert memory_model.fit(used) == pytest.approx(np.array(expected), rel=1e-3)


def test_leaving_each_source_out_errs_by_at_most_13_percent_in_the_median() -> None:
    left_out = memory_model.leave_one_out([point for point in memory_model.points() if point["used"]])
    assert len(left_out) == 6
    every = np.abs(np.concatenate(list(left_out.values())))
    assert every.size == 47
    assert float(np.median(every)) <= 0.13
    assert {
        "median": round(float(np.median(every)), 3),
        "p90": round(float(np.quantile(every, 0.9)), 3),
        "worst": round(float(every.max()), 3),
    } == memory.ERROR


def test_every_point_names_its_source_and_none_is_an_invented_card() -> None:
    for point in memory_model.points():
        assert point["source"]
        assert point["gib"] > 0
        memory.find_model(point["model"])


def test_the_measured_t4_run_is_met_within_ten_percent_without_having_been_fitted() -> None:
    (point,) = [point for point in memory_model.points() if point["gpu"] == "T4 16 GB"]
    assert not point["used"]
    assert point["gib"] == 6.31
    got = longest("t4", "fused").gib_at(8192)
    assert got == pytest.approx(6.31, rel=0.10)
    assert round(got, 1) == 6.2


def test_eight_thousand_on_16_gb_depends_on_the_loss_kernel() -> None:
    answers = {loss: (longest("t4", loss).safe >= 8192, longest("t4", loss).may >= 8192) for loss in memory.LOSSES}
    assert answers == {"full": (False, False), "in-place": (True, True), "fused": (True, True)}
    assert [longest("t4", loss).may for loss in memory.LOSSES] == pytest.approx([4_084, 14_385, 38_872], rel=0.01)
    assert [longest("p100", loss).may for loss in memory.LOSSES] == pytest.approx([4_614, 16_149, 43_637], rel=0.01)


def test_24_thousand_on_40_gb_fails_with_full_logits_and_with_eager_attention() -> None:
    card = "a100-40gb"
    answers = {loss: (longest(card, loss).safe >= 24_576, longest(card, loss).may >= 24_576) for loss in memory.LOSSES}
    assert answers == {"full": (False, False), "in-place": (True, True), "fused": (True, True)}
    assert [longest(card, loss).may for loss in memory.LOSSES] == pytest.approx([14_188, 48_026, 129_775], rel=0.01)
    assert round(longest(card, "full").gib_at(24_576)) == 65
    assert not any(longest(card, loss, "eager").may >= 24_576 for loss in memory.LOSSES)


def test_bytes_by_hand() -> None:
    shape = memory.Shape(
        name="toy",
        layers=2,
        hidden=8,
        heads=2,
        kv_heads=1,
        head_dim=4,
        ffn=16,
        vocab=100,
        tied=True,
        params=2_000,
    )
    assert (shape.q, shape.kv, shape.embedding) == (8, 4, 800)
    # Rank 1: (8+8) twice, (8+4) twice, (8+16) three times, in two layers.
    assert shape.lora_params(1) == 2 * (32 + 24 + 72)
    # 1,200 body at 2 bytes, 800 embedding at 2, adapters at 16.
    how = memory.setup(weights="bf16", lora=1)
    assert memory.static_bytes(shape, how) == 1_200 * 2 + 800 * 2 + 256 * 16
    # 4 bits: 0.55 a parameter; the float32 copy of the embedding comes with full logits only.
    assert memory.static_bytes(shape, memory.setup(lora=1)) == pytest.approx(1_200 * 0.55 + 800 * 2 + 256 * 16)
    full = memory.setup(lora=1, loss="full")
    assert memory.static_bytes(shape, full) == pytest.approx(1_200 * 0.55 + 800 * 4 + 256 * 16)
    # Full fine-tuning in float32: 4 for weights, 12 for gradient and Adam.
    everything = memory.setup(weights="fp32", lora=0)
    assert memory.static_bytes(shape, everything) == 2_000 * 16
    assert memory.terms(shape, how) == {"kept": 32.0, "attention": 40.0, "ffn": 32.0, "logits": 100.0}
    assert memory.terms(shape, memory.setup(checkpointing="none"))["ffn"] == 64.0
    assert memory.terms(shape, memory.setup(checkpointing="offloaded"))["kept"] == 0.0


def test_the_longest_length_is_where_the_estimate_meets_the_card() -> None:
    for attention in memory.ATTENTIONS:
        got = longest("rtx-4090", "in-place", attention)
        assert got.gib_at(got.may) <= got.gpu.usable_gib < got.gib_at(got.may + 1)
        assert got.gib_at(got.safe) * memory.SAFETY <= got.gpu.usable_gib
        assert got.safe % 100 == 0


def test_what_costs_memory_shortens_the_answer() -> None:
    def may(**settings: object) -> int:
        return memory.fit("qwen3-8b", "a100-80gb", **settings).may

    base = may()
    assert may(micro_batch=2) == pytest.approx(base / 2, rel=0.001)
    assert may(weights="8bit") < base > may(weights="bf16") > may(weights="fp32")
    assert may(checkpointing="none") < base < may(checkpointing="offloaded")
    assert may(loss="full") < may(loss="in-place") < base
    assert may(attention="eager") < base
    assert may(lora=256) < base
    assert may(weights="bf16", lora=0) < may(weights="bf16")
    assert may(weights="bf16", lora=0, optimizer="adamw-8bit") > may(weights="bf16", lora=0)
    assert memory.fit("qwen3-8b", "h200").may > base


def test_it_says_when_weights_alone_fill_the_card() -> None:
    got = memory.fit("qwen2.5-32b", "t4")
    assert got.full
    assert (got.safe, got.may) == (0, 0)
    text = render_cost.fit(memory.table("qwen2.5-32b", ["t4"]))
    assert text.startswith("qwen2.5-32b does not train safely on T4 16 GB: ")
    assert "no length can be promised" in " ".join(text.split())
    # 70B at 48 GB: published 12,106; the model only knows that it is tight.
    tight = memory.fit("llama-3.3-70b", 48, lora=32, checkpointing="offloaded")
    assert tight.full
    assert tight.safe == 0 < tight.may


def test_shapes_agree_with_published_parameter_counts() -> None:
    known = memory.models()
    assert len(known) >= 25
    for shape in known.values():
        experts = 3 * shape.ffn * max(1, shape.experts) + shape.experts
        body = shape.layers * shape.hidden * (2 * shape.q + 2 * shape.kv + experts)
        assert body + shape.embedding == pytest.approx(shape.params, rel=0.01), shape.name
        assert "/" in shape.hub


def test_the_models_and_cards_that_people_name_are_known() -> None:
    for name in ("Qwen/Qwen2.5-3B-Instruct", "qwen2.5-3b", "QWEN2.5-3B", "unsloth/Qwen2.5-3B"):
        assert memory.find_model(name).name == "qwen2.5-3b"
    assert memory.find_model("meta-llama/Llama-3.1-8B-Instruct").name == "llama-3.1-8b"
    assert memory.find_model("google/gemma-3-4b-it").name == "gemma-3-4b"
    assert memory.find_model("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B").name == "r1-distill-qwen-7b"
    for name in ("T4", "p100", "V100", "3090", "RTX_4090", "5090", "l4", "A10G", "a100-40gb", "A100-80", "H100", "h200"):
        memory.find_gpu(name)
    assert memory.find_gpu("b200").gib > 170
    assert memory.find_gpu("apple-64gb").usable_gib == 48.0
    assert memory.find_gpu(24).usable_gib == memory.find_gpu("24").usable_gib == 24.0


def test_unknown_names_offer_near_ones() -> None:
    with pytest.raises(CurateError, match=r"Unknown model 'qwen2.5-3c'. Did you mean qwen2.5-3b"):
        memory.fit("qwen2.5-3c", "t4")
    with pytest.raises(CurateError, match=r"Unknown GPU 'a100-44gb'. Did you mean a100-40gb"):
        memory.fit("qwen2.5-3b", "a100-44gb")
    with pytest.raises(UsageError, match=r"Unknown --loss 'fussed'. Did you mean fused\?"):
        memory.fit("qwen2.5-3b", "t4", loss="fussed")
    with pytest.raises(UsageError, match="Unknown --weights '3bit'"):
        memory.fit("qwen2.5-3b", "t4", weights="3bit")


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="Full fine-tuning of 4bit weights is not possible"):
        memory.fit("qwen2.5-3b", "t4", lora=0)
    with pytest.raises(UsageError, match="--micro-batch 0"):
        memory.fit("qwen2.5-3b", "t4", micro_batch=0)
    for gib in (0, -4, "nan"):
        with pytest.raises(UsageError, match="is not possible"):
            memory.find_gpu(gib)


def test_aliases_of_kernels_are_resolved() -> None:
    assert memory.setup(loss="chunked_nll", attention="sdpa") == memory.setup(loss="fused", attention="flash")


QWEN3_4B = {
    "model_type": "qwen3",
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


def test_a_hub_config_gives_the_shape_of_the_table() -> None:
    got = memory.read_config(QWEN3_4B, name="Qwen/Qwen3-4B")
    known = memory.find_model("qwen3-4b")
    assert (got.layers, got.hidden, got.q, got.kv, got.ffn, got.tied) == (36, 2560, 4096, 1024, 9728, True)
    assert got.params == pytest.approx(known.params, rel=0.001)
    assert memory.fit(got, "t4").may == pytest.approx(memory.fit(known, "t4").may, rel=0.01)


def test_a_hub_config_of_experts_and_of_a_multimodal_model() -> None:
    known = memory.find_model("qwen3-30b-a3b")
    experts = QWEN3_4B | {
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "tie_word_embeddings": False,
    }
    got = memory.read_config(experts)
    assert (got.ffn, got.experts, got.active) == (768, 128, 8)
    assert got.params == pytest.approx(known.params, rel=0.01)
    assert memory.read_config({"text_config": QWEN3_4B}).hidden == 2560


def test_a_config_without_sizes_or_with_latent_attention_is_refused() -> None:
    with pytest.raises(CurateError, match="has no num_hidden_layers"):
        memory.read_config({key: value for key, value in QWEN3_4B.items() if key != "num_hidden_layers"})
    with pytest.raises(CurateError, match="latent attention"):
        memory.read_config(QWEN3_4B | {"kv_lora_rank": 512})


def test_operations_per_token_and_per_squared_token_by_hand() -> None:
    linear, quadratic = memory.flops(memory.find_model("qwen2.5-3b"))
    matmul = 36 * (2048 * 2048 * 2 + 2 * 2048 * 256 + 3 * 2048 * 11008) + 2048 * 151936
    assert linear == 2 * matmul
    assert quadratic == 2 * 36 * 16 * 128


def test_the_table_shows_every_loss_and_attention_on_every_card() -> None:
    got = memory.table("qwen2.5-3b", ["t4", "a100-40gb"], lora=16)
    pairs = [(one.gpu.name, one.setup.attention, one.setup.loss) for one in got]
    losses = ("full", "in-place", "fused")
    assert pairs == [(c, a, x) for c in ("t4", "a100-40gb") for a in ("flash", "eager") for x in losses]
    text = render_cost.fit(got)
    assert text.index("safe up to") < text.index("may work to")
    assert "in the median and 26% at worst" in " ".join(text.split())
    assert "T4 16 GB: no FlashAttention-2" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_named_kernel_is_answered_first_and_the_others_stay_in_the_table() -> None:
    got = memory.table("qwen2.5-3b", ["t4"])
    best_and_worst = render_cost.fit(got)
    assert best_and_worst.startswith("qwen2.5-3b on T4 16 GB: safe up to 28,100 tokens, may work to 38,8")
    named = render_cost.fit(got, loss="in-place", attention="flash")
    assert named.startswith("qwen2.5-3b on T4 16 GB: safe up to 10,400 tokens, may work to 14,381, with")
    assert named[named.index("T4 16 GB (") :] == best_and_worst[best_and_worst.index("T4 16 GB (") :]


def test_names_of_the_table_are_told_from_others() -> None:
    assert memory.knows("Qwen/Qwen2.5-3B")
    assert not memory.knows("someone/own-model")


def test_which_card_or_kernel_buys_problems_back_is_one_table() -> None:
    shortest = pl.Series([2_000, 4_000, 9_000, 14_000, 30_000], dtype=pl.UInt32)
    fits = [longest("t4", loss) for loss in memory.LOSSES]
    rows = memory.kept_by_card(shortest, fits)
    # Safe 2,800, 10,400 and 28,100; may 4,085, 14,381 and 38,875.
    assert [(row.safe, row.may, row.problems) for row in rows] == [(1, 2, 5), (3, 4, 5), (4, 5, 5)]
    text = render_cost.kept(rows)
    assert "28,100     4  80%" in text
    assert render_cost.kept([]) == ""
    (of_ten,) = memory.kept_by_card(shortest, [longest("t4", "fused")], problems=10)
    assert "28,100     4  40%" in render_cost.kept([of_ten])


def test_json_holds_python_scalars_only() -> None:
    (row,) = memory.kept_by_card(pl.Series([5_000], dtype=pl.UInt32), [longest("t4", "fused")])
    got = row.json()
    assert json.loads(json.dumps(got)) == got
    assert (got["safe"], got["kept_safe"], got["static_fills"]) == (28_100, 1, False)
