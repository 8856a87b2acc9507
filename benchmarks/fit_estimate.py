"""Fit the estimate of token lengths and report how far it is off on sources it has not seen.

    python benchmarks/fit_estimate.py --traces DIR --tokenizer qwen=DIR --tokenizer deepseek=DIR [--write]

DIR of --traces holds the published traces named in SOURCES. Each source is left out in turn, together with its group (rows
of one data set), the model is fitted on the rest, and the source's bias, its errors trace by trace, and its yield at four
bounds are compared with the exact counts. --write puts coefficients, range and provenance into curate/estimate.json.
"""

from __future__ import annotations

import argparse
import json
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from curate import estimate
from curate.encoder import Encoder

RIDGE = 1e-3
"""Pull towards the prior, as a share of the mean square of a feature: it matters only where the sources say little."""
FIRM = 10.0
"""The same for WIDE: in these sources nearly every byte beyond one a character belongs to a symbol, which has its feature."""
WIDE = 0.3
"""Prior tokens for each byte beyond one a character: Chinese and Bengali text take 0.6 to 0.8 tokens a character of three
bytes in both vocabularies; the sources hold little of either. Every other feature is pulled towards zero."""
MOST = 400
"""Traces taken of one source, the first ones: no source outweighs the others by its size."""
BOUNDS = (1024, 4096, 8192, 16384)


def prime_rl(root: Path) -> Iterator[tuple[str, str, str]]:
    for s in json.loads((root / "prime_rl/example_rewards.json").read_text())["samples"]:
        yield "prime_rl", "prime_rl maths", s["completion"]


def skythought(root: Path) -> Iterator[tuple[str, str, str]]:
    for name in ("aime24_amc23_runs", "math500_runs"):
        frame = pl.read_parquet(root / f"skythought/{name}.parquet", columns=["benchmark", "run", "completion"])
        for benchmark, run, text in frame.iter_rows():
            family = re.sub(r"[/@].*", "", run)
            yield f"skythought {benchmark}", f"skythought {benchmark} {family}", text
    for path in sorted((root / "skythought/raw").glob("*AIME_train*.json")):
        for row in json.loads(path.read_text()).values():
            for response in row["responses"].values():
                yield "skythought AIME train", f"skythought AIME train {path.stem[-14:]}", response["content"]


def thought_anchors(root: Path) -> Iterator[tuple[str, str, str]]:
    nested = pl.read_parquet(root / "thought_anchors/reasoning_nested.parquet", columns=["topic", "solutions"])
    for topic, solutions in nested.iter_rows():
        for s in solutions:
            yield "thought_anchors", f"thought_anchors {topic}", s["solution"]
    for line in (root / "thought_anchors/math_levels.jsonl").read_text().splitlines():
        for s in json.loads(line)["solutions"] or []:
            yield "thought_anchors maths", "thought_anchors MATH", s["solution"]


def llamafactory(root: Path) -> Iterator[tuple[str, str, str]]:
    for line in (root / "llamafactory/reason_tool_use_demo_50.jsonl").read_text().splitlines():
        for message in json.loads(line)["messages"]:
            if message["role"] == "assistant":
                yield "llamafactory", "llamafactory tool use", "\n".join(c["value"] for c in message["content"])


def programs(root: Path) -> Iterator[tuple[str, str, str]]:
    """Code: the published programs of codeforces_cots, and modules of Python's own library."""
    data = json.loads((root / "codeforces_cots/judge_groundtruth.json").read_text())
    for row in data if isinstance(data, list) else next(v for v in data.values() if isinstance(v, list)):
        code = max((v for v in row.values() if isinstance(v, str)), key=len)
        yield "codeforces_cots", "codeforces_cots programs", code
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:MOST]:
        yield "Python library", "Python library", path.read_text(encoding="utf-8", errors="replace")


SOURCES = (prime_rl, skythought, thought_anchors, llamafactory, programs)


def load(root: Path) -> pl.DataFrame:
    """``group``, ``source``, ``text``: at most MOST rows a source, blank and repeated texts left out."""
    rows = [r for source in SOURCES for r in source(root)]
    frame = pl.DataFrame(rows, schema=["group", "source", "text"], orient="row")
    frame = frame.filter(pl.col("text").str.strip_chars() != "").unique(["source", "text"], keep="first", maintain_order=True)
    return frame.filter(pl.int_range(pl.len()).over("source") < MOST)


def fit(x: np.ndarray[Any, Any], n: np.ndarray[Any, Any], group: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Relative least squares: each trace counts by its share that is wrong, each group as much as another."""
    _, index, sizes = np.unique(group, return_inverse=True, return_counts=True)
    weight = np.sqrt(1.0 / sizes[index])
    basis = np.eye(x.shape[1])
    basis[0, 0], basis[1, 0], basis[0, 1], basis[1, 1] = 1, -1, 0, 1  # (bytes - characters, characters)
    scaled = x @ basis / np.maximum(n, 16)[:, None] * weight[:, None]
    target = n / np.maximum(n, 16) * weight
    prior = np.zeros(x.shape[1])
    prior[0] = WIDE
    strength = np.full(x.shape[1], RIDGE)
    strength[0] = FIRM
    pull = np.diag(np.sqrt(strength * (scaled**2).sum(axis=0)))
    solution = np.linalg.lstsq(np.vstack([scaled, pull]), np.concatenate([target, pull @ prior]), rcond=None)[0]
    weights: np.ndarray[Any, Any] = basis @ solution
    return weights


def needed(guess: np.ndarray[Any, Any], true: np.ndarray[Any, Any]) -> float:
    """The smallest |log factor| whose range holds this source's bias and its yield at every bound."""
    f = abs(float(np.log(true.sum() / guess.sum())))
    while not all(yields_hold(guess, true, float(np.exp(-f)), float(np.exp(f)))):
        f += 0.001
    return f


def yields_hold(guess: np.ndarray[Any, Any], true: np.ndarray[Any, Any], low: float, high: float) -> list[bool]:
    return [bool((guess * high <= b).mean() <= (true <= b).mean() <= (guess * low <= b).mean()) for b in BOUNDS]


def ranges(factors: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The 95 % range from what each source left out needed: the rank that leaves 5 % of a next one outside."""
    rank = min(len(factors), int(np.ceil(0.95 * (len(factors) + 1))))
    f = float(np.sort(factors)[rank - 1])
    return float(np.exp(-f)), float(np.exp(f))


def held_out(x: np.ndarray[Any, Any], n: np.ndarray[Any, Any], frame: pl.DataFrame) -> dict[str, np.ndarray[Any, Any]]:
    """Estimates of each source by a model that has not seen its group."""
    group, source = frame["group"].to_numpy(), frame["source"].to_numpy()
    out = {}
    for name in dict.fromkeys(source.tolist()):
        own = source == name
        out[name] = x[own] @ fit(x[group != group[own][0]], n[group != group[own][0]], group[group != group[own][0]])
    return out


def report(name: str, x: np.ndarray[Any, Any], n: np.ndarray[Any, Any], frame: pl.DataFrame) -> dict[str, Any]:
    source, guesses = frame["source"].to_numpy(), held_out(x, n, frame)
    bias = {s: float(n[source == s].sum() / g.sum()) for s, g in guesses.items()}
    need = {s: needed(g, n[source == s]) for s, g in guesses.items()}
    print(f"\n{name}\n  {'source left out':42s} traces   bias  median error    p95   yields inside the range of the others")
    inside = []
    for s, g in guesses.items():
        true, error = n[source == s], np.abs(g / n[source == s] - 1)
        holds = yields_hold(g, true, *ranges(np.array([f for o, f in need.items() if o != s])))
        inside.append(all(holds))
        print(f"  {s:42s} {len(g):6d} {bias[s]:6.3f} {np.median(error):12.1%} ", end="")
        print(f"{np.quantile(error, 0.95):7.1%}   {sum(holds)} of {len(BOUNDS)}")
    every = np.concatenate([np.abs(g / n[source == s] - 1) for s, g in guesses.items()])
    low, high = ranges(np.array(list(need.values())))
    figures = {"median_error": float(np.median(every)), "p95_error": float(np.quantile(every, 0.95))}
    print(f"  all traces: median error {figures['median_error']:.1%}, 95th percentile {figures['p95_error']:.1%}; ", end="")
    print(f"range {low:.3f} to {high:.3f} holds the yield of {sum(inside)} of {len(inside)} sources at every bound")
    return {"low": round(low, 4), "high": round(high, 4), "sources": len(bias), **{k: round(v, 4) for k, v in figures.items()}}


def sky_check(root: Path, weights: np.ndarray[Any, Any]) -> None:
    """Qwen2.5's own counts of SkyThought's MATH500 files: never used for the fit."""
    for path in sorted((root / "skythought/raw").glob("*MATH500*.json")):
        rows = list(json.loads(path.read_text()).values())
        texts = pl.Series([r["responses"][t]["content"] for r in rows for t in r["responses"]])
        true = np.array([r["token_usages"][t]["completion_tokens"] for r in rows for t in r["responses"]], float)
        guess = estimate.features(texts) @ weights
        error = np.abs(guess / true - 1)
        print(f"  {path.stem[-16:]}: {len(true)} published counts, bias {true.sum() / guess.sum():.3f}, ", end="")
        print(f"median error {np.median(error):.1%}, 95th percentile {np.quantile(error, 0.95):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--tokenizer", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    frame = load(options.traces)
    x = estimate.features(frame["text"])
    models = {}
    for name, folder in (t.split("=", 1) for t in options.tokenizer):
        encoder = Encoder(Path(folder) / "tokenizer.json", note=print)
        n = encoder.lengths(frame["text"].to_list()).astype(float)
        figures = report(name, x, n, frame)
        weights = fit(x, n, frame["group"].to_numpy())
        if name == "qwen":
            sky_check(options.traces, weights)
        print("  ", {f: round(float(w), 4) for f, w in zip(estimate.FEATURES, weights, strict=True)})
        models[name] = {
            "label": Path(folder).name,
            "tokenizer_sha256": encoder.sha256,
            "weights": [round(float(w), 6) for w in weights],
            "range": figures,
        }
    if options.write:
        data = {
            "about": "Written by benchmarks/fit_estimate.py. Tokens = features x weights. Range: factors that hold the bias and "
            "the yields of 95 % of sources left out of the fit.",
            "features": list(estimate.FEATURES),
            "fitted_on": frame.group_by("source", maintain_order=True).len("traces").to_dicts(),
            "models": models,
        }
        Path(estimate.__file__).with_name("estimate.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
