"""A folder as ``select`` writes it, made by hand so that tests of what comes after need no selection."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl

from curate import card
from curate.ledger import SCHEMA


def manifest(**changes: Any) -> dict[str, Any]:
    """Ten traces of five problems; three kept within 8,192 tokens."""
    dropped = {
        "bad_row": 1,
        "no_problem": 0,
        "unfinished": 1,
        "no_thinking": 0,
        "not_passing": 2,
        "over_length": 1,
        "not_chosen": 2,
    }
    skew = {
        "bands": [
            {"label": "800-1200", "problems": 2, "with_passing": 2, "kept": 2},
            {"label": "1300-3000", "problems": 2, "with_passing": 2, "kept": 1},
        ],
        "unrated": {"label": "unrated", "problems": 1, "with_passing": 0, "kept": 0},
        "kept_mean": 1000.0, "all_mean": 1500.0, "kept_median": 900.0, "all_median": 1250.0,
        "hard_share": {"all": 0.5, "with_passing": 0.5, "kept": 0.3333}, "auc": 0.8333,
    }  # fmt: skip
    bounds = [
        {"max_tokens": 8192, "traces": 8, "share": 0.8, "tokens": 20000, "skew": skew,
         "problems": {"any": 5, "first": 2, "average": 2.5, "shortest": 3, "longest": 1}},
        {"max_tokens": None, "traces": 9, "share": 0.9, "tokens": 30000, "skew": None,
         "problems": {"any": 5, "first": 4, "average": 4.0, "shortest": 4, "longest": 4}},
    ]  # fmt: skip
    return {
        "format": 1,
        "curate": "0.1.0",
        "command": ["curate", "select", "lab/cots:py", "--shortest", "--max-tokens", "8192"],
        "options": {"policy": "shortest", "max_tokens": 8192, "passing": "known"},
        "sources": [
            {"name": "lab/cots:py", "revision": "a" * 40, "licence": "cc-by-4.0", "basis": "verdict",
             "mapping": {"trace": "generation"}, "files": []}
        ],
        "tokens": {"basis": "estimate", "by": "chars/3.6", "count": "sample", "low": 0.9, "high": 1.2},
        "select": {"traces": 10, "kept": 3, "dropped": dropped, "problems": 5, "problems_kept": 3,
                   "problems_lost": {"not_passing": 1, "over_length": 1}, "tokens_kept": 12345},
        "yield": {"bounds": bounds},
        "files": {},
    } | changes  # fmt: skip


def write(out: Path, *, rows: int = 3, shards: int = 1, tag: str = "x", bound: int = 8192, **changes: Any) -> dict[str, Any]:
    """Write ``out``: ``rows`` kept traces in ``shards`` files, ledger, longest, card, and the manifest last."""
    (out / "data").mkdir(parents=True)
    made = manifest(**changes)
    tokens = [100 + i for i in range(rows)]
    frame = pl.DataFrame(
        {
            "messages": [
                [{"role": "user", "content": f"problem {tag}{i}"}, {"role": "assistant", "content": f"<think>{tag}</think> {i}"}]
                for i in range(rows)
            ],
            "problem": [f"{tag}{i}" for i in range(rows)],
            "tokens": tokens,
        },
        schema_overrides={"tokens": pl.UInt32},
    )
    step = -(-rows // shards) if rows else 1
    for number in range(shards):
        frame[number * step : (number + 1) * step].write_parquet(out / f"data/train-{number:05d}-of-{shards:05d}.parquet")
    over = {"row": [rows], "tokens": [bound + 1], "reason": ["over_length"]}
    ledger = pl.DataFrame(
        {
            "row": [*range(rows), *over["row"]],
            "problem": [*frame["problem"], "lost"],
            "tokens": [*tokens, *over["tokens"]],
            "reason": [None] * rows + over["reason"],
        }
    )
    filled = {"source": 0, "item": 0, "prompt_tokens": 0, "passed": True, "finished": True, "thinking": True, "difficulty": None}
    ledger = ledger.with_columns(**{k: pl.lit(v) for k, v in filled.items()}).select(
        pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()
    )
    ledger.write_parquet(out / "ledger.parquet")
    frame.tail(8).write_parquet(out / "longest.parquet")
    made["select"] = made["select"] | {"kept": rows}
    heights = {f"data/{p.name}": pl.read_parquet(p).height for p in sorted((out / "data").iterdir())}
    made["files"] = {name: entry(out / name) | {"rows": height} for name, height in heights.items()}
    made["files"] |= {name: entry(out / name) for name in ("ledger.parquet", "longest.parquet")}
    (out / "README.md").write_text(card.render(made))
    made["files"]["README.md"] = entry(out / "README.md")
    (out / "manifest.json").write_text(json.dumps(made, indent=1))
    return made


def entry(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
