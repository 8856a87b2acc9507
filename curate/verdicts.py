"""The verdict record: one row per judged trace, keyed by what was judged, so that it survives re-pooling.

A verdict belongs to a text, not to a place in a file: ``digest`` is a 128-bit hash of problem and trace. Whoever pools,
filters or renames later finds the same verdict again; whoever changes one character does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from curate.errors import CurateError
from curate.room import Long, texts

CLASSES: Final = (
    "passed",
    "wrong_answer",
    "runtime_error",
    "time_limit",
    "memory_limit",
    "output_limit",
    "no_code",
    "syntax_error",
    "unverifiable",
)

SCHEMA: Final[dict[str, pl.DataType]] = {
    "row": pl.UInt32(),
    "item": pl.UInt32(),
    "problem": pl.String(),
    "digest": pl.String(),
    "verdict": pl.Enum(list(CLASSES)),
    "passed": pl.Boolean(),
    "tests": pl.UInt32(),
    "failed_test": pl.UInt32(),
    "seconds": pl.Float64(),
    "kinds": pl.String(),
    "note": pl.String(),
    "tests_digest": pl.String(),
}
"""``tests``: how many stand behind the verdict (strength), by kind in ``kinds`` ("public=3 private=12"). ``failed_test``: 0-based
position of the first test that failed. ``seconds``: processor time of the longest test. ``note``: why it could not be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found out about one trace; the fields are the columns of ``SCHEMA``."""

    row: int
    item: int
    problem: str | None
    digest: str
    verdict: str
    tests: int = 0
    failed_test: int | None = None
    seconds: float = 0.0
    kinds: str = ""
    note: str = ""
    tests_digest: str = ""

    @property
    def passed(self) -> bool | None:
        """True, false, or None where nothing could be judged."""
        return None if self.verdict == "unverifiable" else self.verdict == "passed"


def digest(problem: pl.Series, trace: pl.Series) -> pl.Series:
    """32 hexadecimal digits per row: BLAKE2b-128 of the problem, a NUL and the trace (UTF-8); null where the trace is null.

    A problem that is null hashes as "". About 250 MB/s.

    >>> digest(pl.Series(["7"]), pl.Series(["yes"]))[0]
    '6229ee20792c9092dbc09ad356e4a0ea'
    """

    def one(p: str | None, t: str | Long | None) -> str | None:
        if t is None:
            return None
        state = hashlib.blake2b(f"{p or ''}\0".encode(), digest_size=16)
        for part in t.parts if isinstance(t, Long) else (t.encode(),):
            state.update(part)
        return state.hexdigest()

    return pl.Series("digest", map(one, problem, texts(trace)), dtype=pl.String)


def frame(verdicts: Iterable[Verdict]) -> pl.DataFrame:
    """The verdicts as a table of ``SCHEMA``, by row and item."""
    rows = [asdict(v) | {"passed": v.passed} for v in verdicts]
    return pl.DataFrame(rows, schema=SCHEMA).sort("row", "item", maintain_order=True)


def counts(verdicts: pl.DataFrame) -> dict[str, int]:
    """Traces by class, every class named.

    >>> counts(frame([Verdict(row=0, item=0, problem="a", digest="d", verdict="passed")]))["passed"]
    1
    """
    found = dict(verdicts["verdict"].value_counts().iter_rows())
    return {name: int(found.get(name, 0)) for name in CLASSES}


# --- the file ---


class Store:
    """What has been judged so far, on disk as it goes: ``OUT.partial``, one JSON line a verdict, and at the end OUT.

    An interrupted run loses at most the verdicts that were being written. The first line holds the settings; verdicts found
    under other limits or another isolation are not mixed.
    """

    def __init__(self, out: Path, *, settings: dict[str, Any], resume: bool) -> None:
        """Open ``out`` for judging.

        Raises:
            CurateError: an unfinished run is there and ``resume`` is off, its settings differ, or ``out`` is not ours.
        """
        self.out, self.settings = out, settings
        self.partial = out.with_name(out.name + ".partial")
        self.known: dict[tuple[str, str], Verdict] = {}
        if out.exists():
            theirs = read(out)[1]
            if resume:
                self._same(theirs, out)
                self._keep(_verdicts(read(out)[0]))
        if self.partial.exists():
            if not resume:
                raise CurateError(f"{self.partial} holds an unfinished run: add --resume to go on, or delete it to begin again.")
            lines = self.partial.read_text(encoding="utf-8").splitlines()
            if lines:
                self._same(json.loads(lines[0]), self.partial)
                self._keep(_parse(lines[1:]))
        out.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps(settings, sort_keys=True)
        body = [json.dumps(asdict(v)) for v in self.known.values()]
        _replace(self.partial, ("\n".join([head, *body]) + "\n").encode())
        self._file = self.partial.open("a", encoding="utf-8")

    def _same(self, theirs: dict[str, Any], where: Path) -> None:
        other = sorted(k for k in self.settings.keys() | theirs.keys() if self.settings.get(k) != theirs.get(k))
        if other:
            said = ", ".join(f"{k} {theirs.get(k)}, now {self.settings.get(k)}" for k in other)
            raise CurateError(f"{where} was judged otherwise ({said}): use the same options with --resume, or another -o.")

    def _keep(self, verdicts: Iterable[Verdict]) -> None:
        self.known |= {(v.digest, v.tests_digest): v for v in verdicts}

    def find(self, digest: str, tests_digest: str) -> Verdict | None:
        """The verdict of the same trace on the same tests, if there is one."""
        return self.known.get((digest, tests_digest))

    def add(self, verdict: Verdict) -> None:
        """Keep one verdict; it is on disk when this returns, short of a power cut."""
        self.known[(verdict.digest, verdict.tests_digest)] = verdict
        self._file.write(json.dumps(asdict(verdict)) + "\n")
        self._file.flush()

    def finish(self, verdicts: Iterable[Verdict]) -> pl.DataFrame:
        """Write OUT whole (aside, then renamed), delete the partial file, return the table."""
        import io

        table = frame(verdicts)
        data = io.BytesIO()
        table.write_parquet(data, metadata={"curate": json.dumps({"verdicts": self.settings}, sort_keys=True)})
        _replace(self.out, data.getvalue())
        self._file.close()
        self.partial.unlink()
        return table

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the partial file for ``--resume``."""
        self._file.close()


def read(path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    """A file of verdicts and the settings it was judged under (isolation, limits).

    Raises:
        CurateError: it is no such file.
    """
    try:
        said = pl.read_parquet_metadata(path).get("curate")
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise CurateError(
            f"{path} cannot be read as Parquet ({type(error).__name__}): `curate verify SOURCE -o FILE` writes one."
        ) from error
    settings = json.loads(said).get("verdicts") if said else None
    if not isinstance(settings, dict) or any(c not in table.columns for c in ("digest", "verdict", "passed", "tests")):
        raise CurateError(f"{path} holds no verdicts of `curate verify`: give the file that `curate verify SOURCE -o FILE` wrote.")
    return table, settings


def _replace(path: Path, data: bytes) -> None:
    aside = path.with_name(path.name + ".new")
    aside.write_bytes(data)
    aside.replace(path)


def _parse(lines: Sequence[str]) -> list[Verdict]:
    """Verdicts of a partial file; a last line cut by the interruption is left out."""
    found = []
    for line in lines:
        try:
            found.append(Verdict(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            break
    return found


def _verdicts(table: pl.DataFrame) -> list[Verdict]:
    return [Verdict(**{k: v for k, v in row.items() if k != "passed"}) for row in table.select(list(SCHEMA)).to_dicts()]


# --- what verdicts are for ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A ledger with verdicts, and how many of its traces had one."""

    ledger: pl.DataFrame
    matched: int
    unmatched: int


def apply(ledger: pl.DataFrame, verdicts: pl.DataFrame) -> Applied:
    """Give the ledger the verdicts of the same text (basis ``verified``).

    Args:
        ledger: with ``digest`` (String).
        verdicts: a table of ``SCHEMA``. Where one text was judged on several test sets, it passes if it passed all.

    Returns:
        The ledger in its order, ``passed`` and ``tests`` replaced; both are null for a trace that nobody judged: an older
        verdict of another basis is not mixed in.
    """
    if "digest" not in ledger.columns:
        raise CurateError("This ledger has no digests, which verdicts are found by: run `curate count SOURCE -o FILE` again.")
    one = verdicts.group_by("digest").agg(
        passed=pl.col("passed").min(), tests=pl.col("tests").min().cast(pl.UInt32), judged=pl.lit(True)
    )
    bare = ledger.drop("passed", "tests", strict=False)
    joined = bare.join(one, on="digest", how="left", maintain_order="left", nulls_equal=False)
    matched = int(joined["judged"].fill_null(False).sum())
    columns = [*ledger.columns, *(c for c in ("tests",) if c not in ledger.columns)]
    return Applied(ledger=joined.select(columns), matched=matched, unmatched=ledger.height - matched)


def pass_rate_by_length_rank(ledger: pl.DataFrame) -> pl.DataFrame:
    """Do shorter traces of a problem pass more often? Over problems with at least two traces of known verdict and length.

    Returns:
        ``rank`` (1 = a problem's shortest), ``traces``, ``passed``, ``pass_rate``. Higher ranks have fewer problems behind them.
    """
    length = pl.col("tokens").cast(pl.Int64) - pl.col("prompt_tokens").cast(pl.Int64)
    known = ledger.filter(pl.col("passed").is_not_null() & pl.col("tokens").is_not_null() & pl.col("problem").is_not_null())
    ranked = (
        known.with_columns(_length=length)
        .filter(pl.len().over("problem") >= 2)
        .sort("problem", "_length", "source", "row", "item")
        .with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).over("problem"))
    )
    table = ranked.group_by("rank").agg(traces=pl.len().cast(pl.Int64), passed=pl.col("passed").cast(pl.Int64).sum())
    return table.with_columns(pass_rate=pl.col("passed") / pl.col("traces")).sort("rank")


MIN_TRACES: Final = 8
"""Below that a pass rate has steps of more than 1/7 and an error too wide to rank problems by."""


def difficulty_from_pass_rate(ledger: pl.DataFrame, *, min_traces: int = MIN_TRACES) -> pl.DataFrame:
    """``difficulty`` = the share of a problem's **other** traces that fail, so that a chosen trace does not rate its own problem.

    Null where fewer than ``min_traces`` traces of the problem have a verdict. Larger is harder, 0 to 1; the ledger in its order.
    """
    known = pl.col("passed").is_not_null()
    total = known.cast(pl.Int64).sum().over("problem")
    passed = pl.col("passed").cast(pl.Int64).sum().over("problem")
    others = total - known.cast(pl.Int64)
    rate = (passed - pl.col("passed").fill_null(False).cast(pl.Int64)) / others
    enough = (total >= min_traces) & pl.col("problem").is_not_null()
    return ledger.with_columns(difficulty=pl.when(enough).then(1 - rate))
