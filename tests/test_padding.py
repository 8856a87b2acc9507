"""What lengths cost: each trainer's rule worked out by hand, and the answers that published runs give."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from curate import memory, packing, padding, render_cost
from curate.batching import PLAIN, Rule, Settings, configuration, plan, published, trainers
from curate.errors import CurateError, UsageError

SEED_CASE = ([0, 0.5, 0.9, 0.99, 1], [30.7, 509, 953, 1080, 1126])
"""Quantiles of the FTPO run's 12,000 lengths: median 509, p90 953, p99 1,080, longest 1,126; from 30 up, mean 529.9."""
R1_CODE = (
    [0, 0.166, 0.297, 0.5, 0.585, 0.9, 0.94, 0.99, 1],
    [300, 5120, 8192, 13770, 16384, 23374, 24576, 27315, 30000],
)
"""Quantiles of solutions_py_decontaminated's lengths, which the published policy table was simulated on."""


def seed_case() -> np.ndarray:
    rank = np.arange(1, 12_001) / 12_000
    return np.interp(rank, *SEED_CASE).round().astype(np.int64)


def r1_code(count: int = 8_122) -> np.ndarray:
    return np.maximum(1, np.interp(np.random.default_rng(0).random(count), *R1_CODE)).astype(np.int64)


def cost_of(model: str) -> padding.Cost:
    linear, quadratic = memory.flops(memory.find_model(model))
    return padding.Cost(linear=linear, quadratic=quadratic, name=model)


def in_order(rule: Rule) -> Rule:
    """The rule without its shuffles, so that rows can be worked out on paper."""
    return replace(rule, order="file", deal="traces" if rule.deal == "traces" else "in-order")


SEVEN = [4, 7, 3, 5, 12, 6, 2]
HAND = {
    # dp 2. Cut to 10: rank 0 takes 4 3 | 10 | 2, rank 1 takes 7 | 5 | 6. Padding joins the row's last trace: 4, 3 + 3.
    "prime-rl": (SEVEN, 10, Settings(dp=2), [10] * 6, [7, 7, 10, 5, 2, 6], [52, 100, 100, 100, 100, 100], {"cut": 1}, 2),
    # The same rows rounded up to cp 2: 4, 3 + 1 is 8 tokens.
    "prime-rl-pad-to-cp": (
        SEVEN,
        10,
        Settings(dp=2, cp=2),
        [8, 8, 10, 6, 2, 6],
        [7, 7, 10, 5, 2, 6],
        [32, 64, 100, 36, 4, 36],
        {"cut": 1},
        2,
    ),
    # Micro-batches of two: 4 7 | 3 5 | 10 6 | 2, every trace padded to 10.
    "auto-antislop": (
        SEVEN,
        10,
        Settings(micro_batch=2),
        [20, 20, 20, 10],
        [11, 8, 16, 2],
        [200, 200, 200, 100],
        {"cut": 1},
        2,
    ),
    # Best fit of 10 7 6 5 4 3 2: 10 | 7 3 | 6 4 | 5 2.
    "trl": (SEVEN, 10, Settings(), [10, 10, 10, 7], [10, 10, 10, 7], [100, 58, 52, 29], {"cut": 1}, 2),
    # 12 becomes 10 and 2: 10 | 7 3 | 6 4 | 5 2 2.
    "trl-split": (SEVEN, 10, Settings(), [10, 10, 10, 9], [10, 10, 10, 9], [100, 58, 52, 33], {"split": 1}, 0),
    # 39 tokens joined, ends at 10, 20, 30 fall into the traces 7 and 12 (twice); each row is one block.
    "trl-wrapped": (SEVEN, 10, Settings(), [10, 10, 10, 9], [10, 10, 10, 9], [100, 100, 100, 81], {"split": 2}, 0),
    # 4 7 | 3 5 | 10 6 | 2, each micro-batch padded to its longest.
    "trl-padded": (
        SEVEN,
        10,
        Settings(micro_batch=2),
        [14, 10, 20, 2],
        [11, 8, 16, 2],
        [98, 50, 200, 4],
        {"cut": 1},
        2,
    ),
    # 70 is dropped. First fit in order: 30 20 10 | 40 | 30 34; rows filled to 64, padding a block of its own.
    "axolotl": (
        [30, 40, 20, 70, 30, 10, 34],
        64,
        Settings(),
        [64, 64, 64],
        [60, 40, 64],
        [900 + 400 + 100 + 16, 1600 + 576, 900 + 1156],
        {"dropped": 1},
        70,
    ),
    # Nine tokens of ten are used: 9 | 7 2 | 6 3 | 5 4, each closed by one padding token.
    "llama-factory": (SEVEN, 10, Settings(), [10] * 4, [9] * 4, [82, 54, 46, 42], {"cut": 1}, 3),
    # 12 stops the run; the others in order: 4 | 7 3 | 5 | 6 2.
    "torchtune": (SEVEN, 10, Settings(), [10] * 4, [4, 10, 5, 8], [52, 58, 50, 44], {"refused": 1}, 12),
    # First fit in order of 20 14 10 32 12 8: 20 10 | 14 12 | 32 | 8, rounded up to 16.
    "nemo": (
        [20, 14, 10, 40, 12, 8],
        32,
        Settings(),
        [32, 32, 32, 16],
        [30, 26, 32, 8],
        [900, 676 + 0, 1024, 64],
        {"cut": 1},
        8,
    ),
    # Best fit over all of 16 9 7 6 5 3: 16 | 9 7 | 6 5 3, filled to 16.
    "olmo-core": ([9, 7, 6, 5, 20, 3], 16, Settings(), [16] * 3, [16, 16, 14], [256, 130, 74], {"cut": 1}, 4),
}
# Squares of nemo's rows: blocks and padding apart.
HAND["nemo"] = (*HAND["nemo"][:5], [400 + 100 + 4, 196 + 144 + 36, 1024, 64 + 64], *HAND["nemo"][6:])


@pytest.mark.parametrize("name", HAND)
def test_a_trainers_rule_makes_the_rows_worked_out_by_hand(name: str) -> None:
    lengths, max_length, settings, tokens, real, squares, losses, lost = HAND[name]
    got = plan(lengths, in_order(trainers()[name]), max_length=max_length, settings=settings)
    assert got.tokens.tolist() == tokens
    assert got.real.tolist() == real
    assert got.squares.tolist() == squares
    zero = dict.fromkeys(("cut", "split", "dropped", "refused"), 0)
    assert {key: getattr(got, key) for key in zero} == zero | losses
    assert got.lost_tokens == lost


def test_every_trainer_has_a_hand_worked_example_and_cites_file_and_commit() -> None:
    assert set(HAND) == set(trainers())
    for rule in trainers().values():
        assert rule.repository.count("/") == 1
        assert rule.file.endswith(".py")
        assert len(rule.commit) >= 7
        int(rule.commit, 16)
        assert "{max_length}" in rule.config
        assert "20" in rule.time


def test_axolotl_and_prime_rl_make_one_row_of_a_micro_batch() -> None:
    lengths = [30, 40, 20, 30, 10, 34]
    two = Settings(micro_batch=2)
    # 30 40 20 30 is 120 of 128, so 10 and 34 open a row; in order 30 40 20 30 closes at 10.
    assert plan(lengths, in_order(trainers()["axolotl"]), max_length=64, settings=two).real.tolist() == [120, 44]
    assert plan(lengths, in_order(trainers()["prime-rl"]), max_length=64, settings=two).real.tolist() == [120, 44]
    # prime-rl holds a trace to the row, so 100 is whole; axolotl holds it to sequence_len and drops it.
    assert plan([100, 5], trainers()["prime-rl"], max_length=64, settings=two).cut == 0
    assert plan([100, 5], trainers()["axolotl"], max_length=64, settings=two).dropped == 1


def test_axolotl_puts_at_most_200_traces_in_a_row() -> None:
    got = plan([1] * 450, trainers()["axolotl"], max_length=1024)
    assert got.real.tolist() == [200, 200, 50]


def test_trl_packs_each_thousand_on_its_own() -> None:
    # 999 traces of 10 fill a row each; the last of the window and the first of the next would share one, but may not.
    lengths = [10] * 999 + [5] + [5] + [10] * 999
    got = plan(lengths, in_order(trainers()["trl"]), max_length=10)
    assert sorted(got.real.tolist()) == [5, 5, *[10] * 1998]


def test_plain_policies_by_hand() -> None:
    def tokens(name: str, lengths: list[int], **settings: int) -> list[int]:
        rule = in_order(PLAIN[name])
        return plan(lengths, rule, max_length=10, settings=Settings(**settings)).tokens.tolist()

    assert tokens("fixed", [4, 7, 3], micro_batch=2) == [20, 10]
    assert tokens("longest", [4, 7, 3, 1], micro_batch=2, pad_to_multiple=4) == [16, 8]
    # Sixteen traces, two a micro-batch: mega-batches of four, 9 8 | 2 1 and 7 6 | 4 3, twice.
    assert tokens("grouped", [1, 9, 2, 8, 3, 7, 4, 6] * 2, micro_batch=2) == [18, 4, 14, 8, 18, 4, 14, 8]
    assert tokens("next-fit", [4, 7, 3, 5]) == [10, 10, 10]
    assert tokens("bfd", [4, 7, 3, 5]) == [10, 9]
    assert tokens("bfd", [4, 7, 3, 5], micro_batch=2, pad_to_multiple=8) == [24]
    assert tokens("wrapped", [4, 7, 3, 5]) == [10, 9]


def test_imbalance_and_steps_by_hand() -> None:
    # Two ranks, one micro-batch a step: (8, 4) and (2, 6); by tokens the slower has 8 of 6 and 6 of 4 on average.
    batches = plan([8, 4, 2, 6, 5], in_order(PLAIN["longest"]), max_length=8)
    run = padding.measure(
        batches,
        "longest",
        max_length=8,
        settings=Settings(dp=2),
        cost=padding.Cost(linear=1, quadratic=0, name="tokens"),
    )
    assert run.steps == 2
    assert run.imbalance_tokens == pytest.approx((8 / 6 + 6 / 4) / 2)
    assert run.tokens_per_step_and_rank == 5.0
    assert run.causal == pytest.approx((8 + 6) * 2 / 20)  # lockstep: both ranks spend what the slower one does
    squared = padding.Cost(linear=0, quadratic=1, name="pairs")
    run = padding.measure(batches, "longest", max_length=8, settings=Settings(dp=2), cost=squared)
    assert run.causal == pytest.approx((64 + 36) * 2 / 20)
    assert run.dense == pytest.approx(2 * (64 + 36) * 2 / 20)


def test_the_seed_case_is_found_by_its_utilisation() -> None:
    lengths = seed_case()
    ranked = np.sort(lengths)
    assert (round(float(lengths.mean()), 1), int(ranked[5999]), int(ranked[10799]), int(ranked[11879])) == (
        529.9,
        509,
        953,
        1080,
    )
    got = padding.audit(lengths, max_length=4000, trainer="auto-antislop", accumulate=16, cost=cost_of("gemma-3-4b"))
    assert f"{got.utilisation:.1%}" == "13.2%"
    assert (got.p50, got.p90, got.p99, got.longest) == (509, 953, 1080, 1126)
    assert got.advice.lossless == 1152
    assert got.use.steps == 750
    cost = cost_of("gemma-3-4b")
    same = padding.audit(lengths, max_length=1280, trainer="auto-antislop", accumulate=16, cost=cost)
    both = padding.audit(lengths, max_length=4000, trainer="auto-antislop", accumulate=16, cost=cost, also=[1280])
    assert [run.policy for run in both.others][:2] == ["auto-antislop at 1,280", "auto-antislop at 1,152"]
    low, high = both.removed(both.others[0]).low, both.removed(both.others[0]).high
    assert (round(low, 1), round(high, 1)) == (3.1, 3.4)
    assert round(same.use.padding, 2) == 0.59
    removed = got.removed(same.use)
    assert removed.tokens == 3.125
    assert (round(removed.causal, 2), round(removed.dense, 2)) == (3.27, 3.42)
    by_name = {run.policy: got.removed(run) for run in got.others}
    assert by_name["auto-antislop at 1,152"].causal == pytest.approx(3.65, abs=0.01)
    assert by_name["longest"].causal == pytest.approx(7.97, rel=0.01)


def test_the_seed_cases_screen_says_what_was_measured_and_what_the_model_cannot_see() -> None:
    got = padding.audit(seed_case(), max_length=4000, trainer="auto-antislop", cost=cost_of("gemma-3-4b"))
    text = render_cost.padding(got, lengths="exact, by the tokenizer")
    assert "\nLengths: exact, by the tokenizer.\n" in text
    assert "86.8% of the work is padding" in text.splitlines()[0]
    assert "finetune_max_seq_length: 1152" in text
    assert "4.0 to 4.6   eager attention exceeds it" in text
    assert "0.9 to 1.4 times" in text
    assert "lengths hide crowded experts" in text
    assert "core/ftpo_trainer.py 4b31cae" in text
    assert max(map(len, text.splitlines())) <= 100


def test_published_cases_lie_within_the_range_that_is_printed() -> None:
    low, high = padding.PUBLISHED_RANGE
    for case in published():
        middle = sum(case["measured"]) / 2
        assert low <= middle / case["by_tokens"] <= high, case["case"]


@pytest.mark.parametrize(("share", "ratio"), [(0.198, 1.247), (0.073, 1.079), (0.197, 1.245)])
def test_padding_of_packed_rows_gives_the_published_ratio_of_tokens(share: float, ratio: float) -> None:
    # A row of 1,000 whose real part is 1 - share, against the same row unpadded.
    real = round(1000 * (1 - share))
    rule = in_order(PLAIN["next-fit"])
    full = padding.measure(plan([real] * 4, rule, max_length=1000), "a", max_length=1000, settings=Settings())
    bare = padding.measure(plan([real] * 4, PLAIN["bfd"], max_length=1000), "b", max_length=1000, settings=Settings())
    assert round(full.per_real / bare.per_real, 3) == ratio


GLM_8L = padding.Cost(linear=5_435_293_696.0, quadratic=196_608.0, name="GLM-4.5-Air, 8 layers")


def glm(median: int, sigma: float) -> tuple[float, padding.Removed]:
    """Padding of prime-rl's rows on log-normal lengths, and the work that padding to cp removes."""
    draw = np.random.default_rng(2).lognormal(np.log(median), sigma, 40_000)
    lengths = np.clip(draw, 64, 4 * 131_072).astype(np.int64)
    settings = Settings(dp=4, cp=2)

    def run(name: str) -> padding.Run:
        batches = plan(lengths, trainers()[name], max_length=131_072, settings=settings)
        return padding.measure(batches, name, max_length=131_072, settings=settings, cost=GLM_8L)

    use, other = run("prime-rl"), run("prime-rl-pad-to-cp")
    removed = padding.Removed(tokens=use.per_real / other.per_real, causal=use.causal / other.causal, dense=use.dense / other.dense)
    return use.padding, removed


@pytest.mark.parametrize(("median", "sigma"), [(16_605, 0.3), (12_526, 0.5), (7_690, 0.8), (2_840, 1.1)])
def test_the_maths_workload_is_predicted_at_1_11_to_1_13(median: int, sigma: float) -> None:
    share, removed = glm(median, sigma)
    assert share == pytest.approx(0.073, abs=0.01)
    assert 1.11 <= round(removed.causal, 2) <= 1.13  # measured 1.12


def test_a_heavy_tail_reproduces_the_software_workload() -> None:
    share, removed = glm(15_691, 1.3)
    assert share == pytest.approx(0.197, abs=0.01)
    assert round(removed.causal, 2) == 1.13
    assert removed.tokens > 1.2  # tokens alone would promise more


# policy, settings: padding, micro-batches, imbalance by cost, speed-up for each real token against fixed padding.
TABLE: list[tuple[str, dict[str, int], float, int, float, float]] = [
    ("fixed", {}, 0.585, 8122, 1.00, 1.00),
    ("longest", {}, 0.0, 8122, 1.99, 1.56),
    ("longest", {"micro_batch": 4}, 0.366, 2031, 1.34, 1.33),
    ("grouped", {"micro_batch": 4}, 0.016, 2031, 1.38, 2.27),
    ("prime-rl", {}, 0.272, 4480, 1.13, 1.76),
    ("prime-rl-pad-to-cp", {"cp": 8}, 0.0, 4480, 1.33, 2.29),
    ("torchtune", {}, 0.267, 4595, 1.09, 2.09),
    ("next-fit", {}, 0.267, 4595, 1.09, 2.09),
    ("axolotl", {}, 0.026, 3459, 1.07, 2.76),
    ("trl", {}, 0.0, 3410, 1.08, 2.79),
    ("trl-split", {}, 0.0, 3410, 1.08, 2.79),
    ("trl-wrapped", {}, 0.0, 3374, 1.00, 2.41),
    ("wrapped", {}, 0.0, 3374, 1.00, 2.41),
    ("llama-factory", {}, 0.011, 3404, 1.07, 2.79),
    ("nemo", {}, 0.0, 3459, 1.08, 2.79),
    ("bfd", {}, 0.0, 3370, 1.07, 2.81),
    ("olmo-core", {}, 0.001, 3370, 1.07, 2.81),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_policy_table_on_8122_lengths_dp_8_and_32768(row: tuple[str, dict[str, int], float, int, float, float]) -> None:
    name, extra, share, batches, imbalance, speedup = row
    lengths = r1_code()
    settings = Settings(dp=8, **extra)
    rule = (PLAIN | trainers())[name]
    got = padding.measure(plan(lengths, rule, max_length=32_768, settings=settings), name, max_length=32_768, settings=settings)
    fixed = padding.measure(plan(lengths, PLAIN["fixed"], max_length=32_768), "fixed", max_length=32_768, settings=Settings(dp=8))
    assert got.padding == pytest.approx(share, abs=0.001)
    assert got.micro_batches == pytest.approx(batches, rel=0.01)
    assert got.imbalance == pytest.approx(imbalance, rel=0.01)
    assert fixed.causal / got.causal == pytest.approx(speedup, rel=0.01)


def test_removing_padding_can_save_nothing_when_ranks_wait() -> None:
    lengths = r1_code()
    use = padding.audit(lengths, max_length=8192, trainer="prime-rl", dp=8)
    bare = padding.audit(lengths, max_length=8192, trainer="prime-rl-pad-to-cp", dp=8, cp=8)
    assert use.use.padding == pytest.approx(0.107, abs=0.001)
    assert use.removed(bare.use).causal == pytest.approx(1.0, abs=0.005)


def test_advice_names_bounds_and_how_many_traces_they_cut() -> None:
    got = padding.advise([100] * 990 + [300] * 9 + [1000], multiple=128)
    assert (got.longest, got.lossless, got.for_999, got.cuts_999, got.for_99, got.cuts_99) == (1000, 1024, 384, 1, 128, 10)
    assert got.padding_lossless == pytest.approx(1 - (99_000 + 2_700 + 1_000) / 1000 / 1024)
    assert padding.advise([5, 5, 3, 2], multiple=1).row == 5  # rows of 5 waste nothing; 8 and more gain nothing
    assert padding.advise([600] * 100, multiple=1).row == 600


def test_the_packed_row_is_the_shortest_that_wastes_least() -> None:
    got = padding.advise(seed_case())
    assert got.row == 1152
    assert got.row_waste < 0.001
    # Rows of 640 hold one trace each; 1,024 hold 600 and 400 with 2.3 % to spare, as longer ones would.
    assert padding.advise([600, 400] * 500, multiple=128).row == 1024


def test_configuration_fills_in_the_bound() -> None:
    assert configuration(trainers()["llama-factory"], 4096) == "cutoff_len: 4096, packing: true, neat_packing: true"


def test_json_holds_python_scalars_only() -> None:
    got = padding.audit(pl.Series([3, 9, 4, 8, 2, 12], dtype=pl.UInt32), max_length=10, trainer="trl").json()
    assert json.loads(json.dumps(got)) == got
    assert got["use"]["cut"] == 1
    assert got["use"]["lost_tokens"] == 2
    assert got["policy"]["source"].startswith("huggingface/trl trl/data_utils.py f2cd5771")


def test_a_long_trace_is_reported_as_the_trainer_would_treat_it() -> None:
    lengths = [3, 9, 4, 8, 2, 12]
    losses = {}
    for name in ("trl", "trl-split", "axolotl", "torchtune"):
        use = padding.audit(lengths, max_length=10, trainer=name).use
        losses[name] = (use.cut, use.split, use.dropped, use.refused)
    assert losses == {
        "trl": (1, 0, 0, 0),
        "trl-split": (0, 1, 0, 0),
        "axolotl": (0, 0, 1, 0),
        "torchtune": (0, 0, 0, 1),
    }
    text = render_cost.padding(padding.audit(lengths, max_length=10, trainer="trl"))
    assert "1 cut short (2 tokens lost)" in text
    assert "curate select --max-tokens 10" in text


BAD: list[tuple[dict[str, Any], list[Any], str]] = [
    ({}, [5, 0, 3], "1 of 3 lengths are below one token, the first at position 1"),
    ({}, [], "There are no lengths"),
    ({}, [1.5, 2.0], "whole numbers of tokens, not float64"),
    ({"cp": 3}, [5], "--cp 3 does not divide --max-length 10"),
    ({"dp": 8}, [5, 4], "2 micro-batches, fewer than one step of dp 8"),
    ({"dp": 8, "trainer": "prime-rl"}, [5, 4], "--dp 8 is more than the 2 traces"),
    ({"trainer": "axolotl"}, [11, 12], "All 2 traces are over 10 tokens and axolotl would drop them"),
    ({"trainer": "axolot"}, [5], "Unknown trainer 'axolot'. Did you mean axolotl?"),
    ({"batching": "longst"}, [5], "Unknown batching 'longst'. Did you mean longest?"),
]


@pytest.mark.parametrize(("options", "lengths", "sentence"), BAD)
def test_bad_input_is_a_sentence(options: dict[str, Any], lengths: list[Any], sentence: str) -> None:
    with pytest.raises(CurateError) as caught:
        padding.audit(lengths, max_length=10, **options)
    assert sentence in str(caught.value)


def test_contradictions_are_refused_as_usage() -> None:
    with pytest.raises(UsageError, match="Give one of them"):
        padding.audit([5], max_length=10, batching="fixed", trainer="trl")
    with pytest.raises(UsageError, match="--micro-batch 0 is not possible"):
        padding.audit([5], max_length=10, micro_batch=0)
    with pytest.raises(UsageError, match="multiple of 0"):
        padding.advise([5], multiple=0)


def test_packing_refuses_what_cannot_be_packed() -> None:
    with pytest.raises(CurateError, match=r"1 of 3 traces are over the row of 10 tokens \(the longest has 11\)"):
        packing.pack([4, 11, 5], 10)
    with pytest.raises(CurateError, match="hold none of the 2 traces: the shortest has 7"):
        packing.pack([9, 7], 6)
    with pytest.raises(CurateError, match="2 of 3 lengths are null"):
        packing.pack(pl.Series([4, None, None]), 10)


def test_packing_keeps_rows_and_fills_by_hand() -> None:
    got = packing.pack([6, 5, 4, 3, 2], 10)
    assert got.row_of is not None
    assert got.row_of.tolist() == [0, 1, 0, 1, 1]
    assert (got.rows, got.bound, got.tokens, got.waste) == (2, 2, 20, 0.0)
    assert packing.pack([6, 6, 6], 10, assign=False).fills.tolist() == [6, 6, 6]
    assert packing.lower_bound([6, 6, 6], 10) == 3  # two items over half never share a row; tokens alone say 2
    # A bound that is no power of two packs too (TRL issue 3887).
    assert packing.pack([50, 49, 30, 21], 101).rows == 2


def test_packing_is_within_a_fifth_of_a_thousandth_of_the_bound_on_long_inputs() -> None:
    lengths = r1_code(1_000_000)
    got = packing.pack(lengths, 32_768, assign=False)
    assert got.rows <= got.bound * 1.0002
    assert int(got.fills.sum()) == int(lengths.sum())
    assert int(got.fills.max()) <= 32_768


def test_a_ledger_with_reasons_gives_its_kept_traces_in_order() -> None:
    ledger = pl.DataFrame(
        {
            "source": [0, 0, 0, 0],
            "row": [3, 1, 2, 0],
            "item": [0, 0, 0, 0],
            "tokens": pl.Series([30, 10, None, 40], dtype=pl.UInt32),
            "reason": [None, None, None, "over_length"],
        }
    )
    assert padding.lengths_of(ledger).to_list() == [10, 30]
    assert padding.lengths_of(ledger.drop("reason")).to_list() == [40, 10, 30]


def test_costs_of_lengths_start_no_heavy_import() -> None:
    code = (
        "import sys; from curate import padding, memory, render_cost;"
        "heavy = {'datasets', 'transformers', 'tokenizers', 'huggingface_hub', 'torch', 'click', 'tqdm', 'pandas'};"
        "found = heavy & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_trls_rules_are_trls_own_rows_where_trl_is_installed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TRL's and its libraries' warnings are not ours
        data_utils = pytest.importorskip("trl.data_utils", reason="TRL is no dependency; `pip install --no-deps trl` runs this")
        datasets = pytest.importorskip("datasets")
        lengths = np.random.default_rng(3).integers(1, 71, 2_119)
        rows = datasets.Dataset.from_dict({"input_ids": [[1] * n for n in lengths.tolist()]})
        for name, strategy in (("trl", "bfd"), ("trl-split", "bfd_split"), ("trl-wrapped", "wrapped")):
            packed = data_utils.pack_dataset(rows, 45, strategy)
            got = plan(lengths, in_order(trainers()[name]), max_length=45)
            assert got.real.tolist() == [len(row) for row in packed["input_ids"]]
            if strategy != "wrapped":
                assert got.squares.tolist() == [sum(n * n for n in row) for row in packed["seq_lengths"]]
