"""Packing speed: best fit decreasing over the histogram, item by item, and TRL's own packer, side by side in one run.

    python -m benchmarks.packing [--traces 1000000] [--large 10000000] [--capacity 32768]

TRL is no dependency: where it is installed its packer is timed on the same lengths, up to the moment where it starts to
move tokens, so that both sides do the same work. ``pip install --no-deps trl`` is enough.
Lengths follow the quantiles published for solutions_py_decontaminated. Each line: seconds, rows, rows over the lower bound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from curate import packing

QUANTILES = (
    [0, 0.166, 0.297, 0.5, 0.585, 0.9, 0.94, 0.99, 1],
    [300, 5120, 8192, 13770, 16384, 23374, 24576, 27315, 30000],
)


def draw(count: int) -> np.ndarray:
    """Token lengths of ``count`` traces, seeded."""
    return np.maximum(1, np.interp(np.random.default_rng(0).random(count), *QUANTILES)).astype(np.int64)


def timed(label: str, lengths: np.ndarray, capacity: int, run: Callable[[], int]) -> float:
    """Run once, print a line, return the seconds."""
    start = time.perf_counter()
    rows = run()
    seconds = time.perf_counter() - start
    bound = -(-int(lengths.sum()) // capacity)
    print(f"  {label:58} {seconds:9.3f} s  {rows:>9,} rows  {rows / bound:.5f} x bound", flush=True)
    return seconds


class _Binned(Exception):
    """TRL's packer has binned its lengths and is about to move tokens."""


class _LengthsOnly:
    """``pyarrow.compute`` for TRL's packer, with the two calls that touch tokens left out.

    ``list_slice`` has nothing to cut, because no length is over the capacity, and ``take`` is where binning is done.
    """

    def __init__(self, compute: Any) -> None:
        self._compute = compute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compute, name)

    def list_slice(self, column: Any, *_: Any) -> Any:
        return column

    def filter(self, column: Any, *_: Any) -> Any:
        return column  # no trace is empty

    def take(self, *_: Any) -> Any:
        raise _Binned


def trl_binning(lengths: np.ndarray) -> Callable[[int], int]:
    """TRL's own ``_pack_bfd`` on these lengths up to the moment where it moves tokens, which is left out in its favour."""
    import pyarrow as pa
    from trl import data_utils

    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    table = pa.table({"input_ids": pa.LargeListArray.from_arrays(pa.array(offsets), pa.nulls(int(offsets[-1])))})

    def run(capacity: int) -> int:
        compute = data_utils.pc
        data_utils.pc = _LengthsOnly(compute)
        try:
            data_utils._pack_bfd(table, capacity)
        except _Binned as done:
            trace = done.__traceback__
            while trace and trace.tb_frame.f_code.co_name != "_pack_bfd":
                trace = trace.tb_next
            return len(trace.tb_frame.f_locals["bins"]) if trace else 0
        finally:
            data_utils.pc = compute
        raise RuntimeError("TRL's packer no longer ends in pyarrow.compute.take: look at trl/data_utils.py.")

    return run


def compare(count: int, capacity: int) -> None:
    """All packers on the same lengths, then the ratios."""
    lengths = draw(count)
    print(f"{count:,} lengths, rows of {capacity:,}")

    def items() -> int:
        return int(packing.best_fit(lengths, capacity).max()) + 1

    ours = min(timed("histogram, rows assigned", lengths, capacity, lambda: packing.pack(lengths, capacity).rows) for _ in range(3))
    counts = timed("histogram, counts only", lengths, capacity, lambda: packing.pack(lengths, capacity, assign=False).rows)
    plain = timed("item by item (sorted list of rooms)", lengths, capacity, items)
    print(f"  item by item takes {plain / ours:.1f} times the histogram with rows, {plain / counts:.1f} times its counts")
    if find_spec("trl") is None:
        print("  TRL is not installed: no ratio to its packer. `pip install --no-deps trl` adds it.")
        return
    binning = trl_binning(lengths)
    theirs = timed("TRL's _pack_bfd, binning alone", lengths, capacity, lambda: binning(capacity))
    print(f"  TRL takes {theirs / ours:.1f} times the histogram with rows, {theirs / counts:.1f} times its counts")


def large(count: int, capacity: int) -> None:
    """The histogram alone."""
    lengths = draw(count)
    print(f"{count:,} lengths, rows of {capacity:,}")
    for assign in (False, True):
        label = "histogram, rows assigned" if assign else "histogram, counts only"
        timed(label, lengths, capacity, partial(_rows, lengths, capacity, assign=assign))


def _rows(lengths: np.ndarray, capacity: int, *, assign: bool) -> int:
    return packing.pack(lengths, capacity, assign=assign).rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1_000_000, help="lengths for the comparison")
    parser.add_argument("--large", type=int, nargs="*", default=[10_000_000], help="histogram alone")
    parser.add_argument("--capacity", type=int, default=32_768)
    args = parser.parse_args()
    compare(args.traces, args.capacity)
    for count in args.large:
        large(count, args.capacity)


if __name__ == "__main__":
    main()
