"""The longest trace that trains on a card: peak memory from a model's shape and the settings, fitted on published points.

With T tokens in a micro-batch, h hidden, q and kv the widths of queries and keys, f of the feed-forward part, L layers, V
vocabulary, peak memory in bytes is

    overhead + weights + trainable + [2 h L T if layer inputs stay on the GPU]
    + 2 T (3.84 (h + q + kv) + 5.09 f) (L without checkpointing, else 1) + c T V [+ eager scores]

where c is 15.4 with full logits (Hugging Face's float32 copy), 3.3 in place, 0 fused or chunked. Six constants were fitted
by relative least squares on 89 published measurements (benchmarks/memory_model.py, which prints the error with each source
left out). The loss kernel and the attention decide more than the card, so ``table`` shows all of them. Every answer is two
lengths: **safe** (the estimate times 1.25 fits) and **may** (the estimate fits). Where weights alone nearly fill the card
the error of a length has no bound.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.errors import CurateError, UsageError, near

GIB: Final = 2**30
SAFETY: Final = 1.25
"""Memory is taken times this for the safe length: the worst error of a source left out is 26 %."""

OVERHEAD: Final = 1.6607e9
"""Bytes: CUDA context, kernels' workspaces, fragmentation. This and the next constants: least squares, see above."""
K_ATTENTION: Final = 3.8359
K_FFN: Final = 5.0918
BYTES_PER_LOGIT: Final[dict[str, float]] = {"full": 15.418, "in-place": 3.284, "fused": 0.0, "qwen-1": 11.075}
"""``qwen-1``: the code of the first Qwen models, which 42 of the points measured."""
EAGER_BYTES: Final = (10.0, 16.0)
"""Bytes for each score of one layer, low and high: not fitted; ``may`` takes the low end, ``safe`` the high one."""

ERROR: Final[dict[str, float]] = {"median": 0.093, "p90": 0.163, "worst": 0.259}
"""Relative error of memory, each source predicted by a fit on the others."""

LOSSES: Final = {
    "full": "full logits, fp32",
    "in-place": "logits in place",
    "fused": "fused or chunked",
}
_LOSS_ALIASES: Final = {"chunked": "fused", "chunked_nll": "fused", "liger": "fused", "cce": "fused", "inplace": "in-place"}
ATTENTIONS: Final = {"flash": "flash or SDPA", "eager": "eager"}
_ATTENTION_ALIASES: Final = {"sdpa": "flash", "flash-attention-2": "flash", "fa2": "flash", "fa3": "flash", "flex": "flash"}
CHECKPOINTING: Final = ("none", "layer", "offloaded")
WEIGHTS: Final[dict[str, float]] = {"4bit": 0.55, "8bit": 1.06, "bf16": 2.0, "fp32": 4.0}
"""Bytes per parameter of the body, quantisation constants included; embeddings and head keep 2 (fp32: 4)."""
OPTIMIZERS: Final[dict[str, tuple[float, float, float]]] = {
    "adamw": (16.0, 12.0, 6.0),
    "adamw-8bit": (10.0, 6.0, 4.0),
    "adafactor": (8.0, 4.0, 2.0),
    "sgd": (8.0, 4.0, 2.0),
}
"""Bytes per trained parameter: LoRA (float32 weight, gradient, state), full over float32, full over bfloat16 weights
(gradient and state; the weights are counted apart)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A decoder's sizes. ``ffn`` is one expert's width; ``active`` of ``experts`` run for a token (1 and 0: dense)."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    params: int
    experts: int = 0
    active: int = 1
    hub: str = ""

    @property
    def q(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def embedding(self) -> int:
        """Parameters of embeddings and head."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    def lora_params(self, rank: int) -> int:
        """Adapter parameters on every linear layer; with experts on attention alone, as PEFT does on fused experts."""
        h, q, kv, f = self.hidden, self.q, self.kv, self.ffn
        return self.layers * rank * (2 * (h + q) + 2 * (h + kv) + (0 if self.experts else 3 * (h + f)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A card: ``gib`` in all, ``usable_gib`` by one training process; ``flash``: FlashAttention-2 runs on it."""

    name: str
    label: str
    gib: float
    usable_gib: float
    flash: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a model is trained. ``lora``: the rank, or None for full fine-tuning. Names are checked by ``setup``."""

    weights: str = "4bit"
    lora: int | None = 16
    optimizer: str = "adamw"
    checkpointing: str = "layer"
    attention: str = "flash"
    loss: str = "fused"
    micro_batch: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Longest trace in tokens on a card: ``safe`` (in hundreds) first, ``may`` second; 0 where not one token fits.

    Bytes at length s: ``static + token * s + square * s**2``; ``square`` is the low end for eager attention.
    """

    model: Shape
    gpu: Gpu
    setup: Setup
    safe: int
    may: int
    static: float
    token: float
    square: float

    @property
    def full(self) -> bool:
        """The part that does not depend on length alone fills the card, or would with the safety factor."""
        return self.static * SAFETY >= self.gpu.usable_gib * GIB

    def gib_at(self, length: int) -> float:
        """Estimated peak in GiB at a trace length."""
        return (self.static + self.token * length + self.square * length**2) / GIB

    def json(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "gpu": self.gpu.name,
            "usable_gib": self.gpu.usable_gib,
            **asdict(self.setup),
            "safe": self.safe,
            "may": self.may,
            "static_gib": round(self.static / GIB, 3),
            "static_fills": self.full,
            "error": dict(ERROR),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Problems whose shortest trace fits a card: at the safe length, and at the length that may work."""

    fit: Fit
    problems: int
    safe: int
    may: int

    def json(self) -> dict[str, Any]:
        return self.fit.json() | {"problems": self.problems, "kept_safe": self.safe, "kept_may": self.may}


@cache
def _read(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def models() -> dict[str, Shape]:
    """Models known by name, each with the Hub repository its shape comes from."""
    return {
        name: Shape(name=name, **{key: value for key, value in entry.items() if key != "aliases"})
        for name, entry in _read("models.toml").items()
    }


def gpus() -> dict[str, Gpu]:
    """Cards known by name."""
    return {
        name: Gpu(name=name, **{key: value for key, value in entry.items() if key != "aliases"})
        for name, entry in _read("gpus.toml").items()
    }


def _find(name: str, table: str) -> str | None:
    """The table's own name for ``name``: case, underscores and an organisation before a slash do not matter."""
    wanted = name.strip().lower().replace("_", "-")
    entries = _read(table)
    for form in (wanted, wanted.rsplit("/", maxsplit=1)[-1]):
        for plain in (form, form.removesuffix("-instruct").removesuffix("-it")):
            for known, entry in entries.items():
                same = (known, *entry.get("aliases", ()), str(entry.get("hub", "/")).lower().rsplit("/", maxsplit=1)[-1])
                if plain in same:
                    return known
    return None


def knows(model: str) -> bool:
    """Whether ``models.toml`` has this name or Hub id."""
    return _find(model, "models.toml") is not None


def find_model(model: str | Shape) -> Shape:
    """A shape by name or Hub id; near names are offered for an unknown one."""
    if isinstance(model, Shape):
        return model
    name = _find(model, "models.toml")
    if name is None:
        known = models()
        raise CurateError(
            f"Unknown model {model!r}.{near(model.lower(), known)} Known: {', '.join(known)}; or give a Hub id, whose "
            "config.json is read."
        )
    return models()[name]


def find_gpu(gpu: str | float | Gpu) -> Gpu:
    """A card by name, or so many GiB that one process may use, taken at its word."""
    if isinstance(gpu, Gpu):
        return gpu
    try:
        gib = float(gpu)
    except ValueError:
        name = _find(str(gpu), "gpus.toml")
        if name is None:
            known = gpus()
            raise CurateError(
                f"Unknown GPU {gpu!r}.{near(str(gpu).lower(), known)} Known: {', '.join(known)}; or give GiB, such as 24."
            ) from None
        return gpus()[name]
    if not 0 < gib < 10_000:
        raise UsageError(f"A GPU of {gpu} GiB is not possible. Give the memory one process may use, such as 24.")
    return Gpu(name=f"{gib:g}gib", label=f"{gib:g} GiB", gib=gib, usable_gib=gib, flash=True)


def read_config(config: Mapping[str, Any], *, name: str = "config.json") -> Shape:
    """A shape from a Hub ``config.json``; of multimodal models the text part. Parameters are counted from the shape.

    Raises ``CurateError`` where a size is missing or the architecture is outside the model (latent attention).
    """
    text = config.get("text_config")
    part: Mapping[str, Any] = text if isinstance(text, Mapping) else config
    if part.get("kv_lora_rank"):
        raise CurateError(
            f"{name} has latent attention (kv_lora_rank), which the memory model has no points for. Try its longest rows "
            "on the card: `curate select` writes longest.parquet."
        )

    def size(*keys: str, default: int | None = None) -> int:
        for key in keys:
            value = part.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        if default is None:
            raise CurateError(f"{name} has no {keys[0]}: it is not the config.json of a decoder. Name a known model instead.")
        return default

    hidden, heads = size("hidden_size", "n_embd"), size("num_attention_heads", "n_head")
    experts = size("num_experts", "num_local_experts", "n_routed_experts", default=1)
    ffn = size(*(("moe_intermediate_size",) if experts > 1 else ()), "intermediate_size")
    shape = Shape(
        name=name,
        layers=size("num_hidden_layers", "n_layer"),
        hidden=hidden,
        heads=heads,
        kv_heads=size("num_key_value_heads", default=heads),
        head_dim=size("head_dim", default=max(1, hidden // heads)),
        ffn=ffn,
        vocab=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", part.get("tie_word_embeddings", False))),
        params=0,
        experts=experts if experts > 1 else 0,
        active=size("num_experts_per_tok", "experts_per_token", default=1) if experts > 1 else 1,
        hub=name if "/" in name else "",
    )
    h, experts_width = shape.hidden, 3 * shape.ffn * max(1, shape.experts) + shape.experts
    body = shape.layers * h * (2 * shape.q + 2 * shape.kv + experts_width)
    return Shape(**(asdict(shape) | {"params": body + shape.embedding}))


def flops(shape: Shape) -> tuple[float, float]:
    """Forward operations of a model: per token (head included), and per squared token of a causal attention block."""
    matmul = shape.layers * shape.hidden * (2 * shape.q + 2 * shape.kv + 3 * shape.ffn * shape.active)
    return 2.0 * (matmul + shape.hidden * shape.vocab), 2.0 * shape.layers * shape.q


def setup(
    *,
    weights: str = "4bit",
    lora: int | None = 16,
    optimizer: str = "adamw",
    checkpointing: str = "layer",
    attention: str = "flash",
    loss: str = "fused",
    micro_batch: int = 1,
) -> Setup:
    """Checked settings; aliases (chunked, liger, sdpa, fa2) are resolved. ``lora`` 0 or None: full fine-tuning."""
    chosen = Setup(
        weights=_known("weights", weights, WEIGHTS),
        lora=lora or None,
        optimizer=_known("optimizer", optimizer, OPTIMIZERS),
        checkpointing=_known("checkpointing", checkpointing, CHECKPOINTING),
        attention=_known("attention", _ATTENTION_ALIASES.get(attention, attention), ATTENTIONS),
        loss=_known("loss", _LOSS_ALIASES.get(loss, loss), LOSSES),
        micro_batch=micro_batch,
    )
    if micro_batch < 1 or (lora or 0) < 0:
        raise UsageError(f"--micro-batch {micro_batch} with --lora {lora or 0} is not possible: at least 1, and at least 0.")
    if chosen.lora is None and chosen.weights in ("4bit", "8bit"):
        raise UsageError(
            f"Full fine-tuning of {chosen.weights} weights is not possible: they take no gradient. Use --weights bf16 or "
            "fp32, or give a LoRA rank."
        )
    return chosen


def _known(option: str, value: str, known: Iterable[str]) -> str:
    names = list(known)
    if value not in names:
        raise UsageError(f"Unknown --{option} {value!r}.{near(value, names)} Known: {', '.join(names)}.")
    return value


def static_bytes(shape: Shape, how: Setup) -> float:
    """Bytes of weights, adapters or gradients, and optimizer state, without the fitted overhead."""
    body = shape.params - shape.embedding
    quantised = how.weights in ("4bit", "8bit")
    # PEFT's prepare_model_for_kbit_training turns unquantised weights to float32; Hugging Face's full-logits path uses it.
    wide = how.weights == "fp32" or (quantised and how.loss == "full")
    weights = body * WEIGHTS[how.weights] + shape.embedding * (4 if wide else 2)
    adapter, over_fp32, over_bf16 = OPTIMIZERS[how.optimizer]
    if how.lora is not None:
        return weights + shape.lora_params(how.lora) * adapter
    return weights + shape.params * (over_fp32 if how.weights == "fp32" else over_bf16)


def terms(shape: Shape, how: Setup) -> dict[str, float]:
    """What one token of a micro-batch adds: ``kept`` in bytes; ``attention``, ``ffn``, ``logits`` times a fitted constant."""
    layers = shape.layers if how.checkpointing == "none" else 1
    return {
        "kept": 2.0 * shape.hidden * shape.layers if how.checkpointing == "layer" else 0.0,
        "attention": 2.0 * (shape.hidden + shape.q + shape.kv) * layers,
        "ffn": 2.0 * shape.ffn * shape.active * layers,
        "logits": float(shape.vocab),
    }


def fit(model: str | Shape, gpu: str | float | Gpu, **settings: Any) -> Fit:
    """The longest trace that trains: ``settings`` as in ``setup``. Unknown names raise ``CurateError`` with near ones."""
    return _fit(find_model(model), find_gpu(gpu), setup(**settings))


def _fit(shape: Shape, card: Gpu, how: Setup) -> Fit:
    part = terms(shape, how)
    token = part["kept"] + K_ATTENTION * part["attention"] + K_FFN * part["ffn"]
    token = how.micro_batch * (token + BYTES_PER_LOGIT[how.loss] * part["logits"])
    scores = 0.0
    if how.attention == "eager":
        scores = float(how.micro_batch * shape.heads * (shape.layers if how.checkpointing == "none" else 1))
    static = OVERHEAD + static_bytes(shape, how)
    room = card.usable_gib * GIB
    return Fit(
        model=shape,
        gpu=card,
        setup=how,
        safe=_hundreds(_longest(room / SAFETY - static, token, scores * EAGER_BYTES[1])),
        may=_longest(room - static, token, scores * EAGER_BYTES[0]),
        static=static,
        token=token,
        square=scores * EAGER_BYTES[0],
    )


def _longest(room: float, token: float, square: float) -> int:
    """The largest whole s with token * s + square * s**2 <= room."""
    if room <= 0:
        return 0
    if not square:
        return int(room / token)
    return int(2 * room / (token + sqrt(token * token + 4 * square * room)))


def _hundreds(tokens: int) -> int:
    """A safe length rounded down: its last digits mean nothing."""
    return tokens // 100 * 100 if tokens >= 1000 else tokens


def table(model: str | Shape, cards: Sequence[str | float | Gpu], **settings: Any) -> list[Fit]:
    """Every loss and attention side by side on each card: losses from the hungriest, flash before eager."""
    free = {key: value for key, value in settings.items() if key not in ("loss", "attention")}
    return [
        fit(model, card, loss=loss, attention=attention, **free) for card in cards for attention in ATTENTIONS for loss in LOSSES
    ]


def kept_by_card(
    lengths: pl.Series | Sequence[int] | npt.NDArray[Any], fits: Iterable[Fit], *, problems: int | None = None
) -> list[Kept]:
    """What each card would keep. ``lengths``: tokens of the shortest passing trace of each problem that has one.

    ``problems``: how many there are in all, where some have no passing trace; shares are of these.
    """
    shortest = np.asarray(lengths)
    return [
        Kept(
            fit=one,
            problems=int(shortest.size) if problems is None else problems,
            safe=int((shortest <= one.safe).sum()),
            may=int((shortest <= one.may).sum()),
        )
        for one in fits
    ]
