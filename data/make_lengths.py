"""Write data/lengths.parquet: a ledger of 12,000 made-up lengths with the quantiles that one training run published.

    python data/make_lengths.py data/lengths.parquet

Synthetic: median 509, p90 953, p99 1,080, longest 1,126, mean 529.9; only the lengths mean anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from curate import ledger, output

QUANTILES = ([0, 0.5, 0.9, 0.99, 1], [30.7, 509, 953, 1080, 1126])


def main(path: Path) -> None:
    count = 12_000
    lengths = np.interp(np.arange(1, count + 1) / count, *QUANTILES).round().astype(np.uint32)
    lengths = lengths[np.random.default_rng(0).permutation(count)]
    columns = {
        "source": np.zeros(count, dtype=np.uint16),
        "row": np.arange(count, dtype=np.uint32),
        "item": np.zeros(count, dtype=np.uint32),
        "problem": [str(row) for row in range(count)],
        "tokens": lengths,
        "prompt_tokens": np.zeros(count, dtype=np.uint32),
        "passed": [None] * count,
        "finished": [True] * count,
        "thinking": [False] * count,
        "difficulty": [None] * count,
        "reason": [None] * count,
    }
    frame = pl.DataFrame({name: pl.Series(values, dtype=ledger.SCHEMA[name]) for name, values in columns.items()})
    source = {
        "name": "lengths (synthetic)",
        "files": [],
        "rows": count,
        "mapping": {},
        "basis": "none",
        "thinking_required": False,
        "notes": [],
    }
    tokens = {"basis": "column", "by": "published quantiles", "count": "sample"}
    output.write_ledger(path, frame, ledger.Meta(sources=(source,), tokens=tokens))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
