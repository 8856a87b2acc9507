"""What each of the 36 cases asks of the command line, as one function per case.

A case is a folder with inputs and the values they must give (``expected``, written by hand with the inputs). The functions
here type the commands, read ``--json`` and the files written, and return what they found beside what was expected. They
are used twice: on the project's own inputs (``make_inputs.py``) by ``test_cases.py``, and on any other folder of cases by
``benchmarks/run_cases.py``. Row numbers count from 1 and list positions from 0. What ``expected`` says a faulty tool would
give (``kept_if…``, ``…_wrong``, ``would_keep``) must not come out.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import pyarrow.parquet as pq

from curate.thinking import MALFORMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One finished command."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """The object on standard output; a command that failed has none, and says why."""
        if self.code:
            raise Wrong(f"exit {self.code}: {self.err.strip()[-300:]}")
        found: dict[str, Any] = json.loads(self.out, parse_constant=_no_constant)
        return found

    @property
    def said(self) -> str:
        """Everything a user sees, on one line: terminals wrap sentences."""
        return " ".join((self.out + " " + self.err).split())


def _no_constant(word: str) -> None:
    raise Wrong(f"{word} in the JSON")


class Wrong(Exception):
    """A command did something no value can be read from."""


class Runner(Protocol):
    """Runs ``curate ARGUMENTS`` with more environment variables, in a fresh process where ``fresh`` asks for one."""

    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None, fresh: bool = False) -> Result: ...


@dataclass(slots=True, kw_only=True)
class Case:
    """One case while it runs: where its inputs lie, what they must give, and what came out."""

    folder: Path
    work: Path
    expected: dict[str, Any]
    run: Runner
    tokenizer: Path | None = None
    hub: Callable[[], Any] | None = None
    rows: list[tuple[str, Any, Any, bool]] = field(default_factory=list)

    def __call__(self, name: str, expected: Any, got: Any) -> None:
        """Note one comparison."""
        self.rows.append((name, expected, got, expected == got))

    def never(self, name: str, wrong: Any, got: Any) -> None:
        """Note that the value of a faulty tool did not come out."""
        self.rows.append((name, f"not {wrong}", got, got != wrong))

    def says(self, name: str, result: Result, *words: str) -> None:
        """Note that a message holds every one of the words, whatever their case, and no traceback."""
        missing = [w for w in words if w.casefold() not in result.said.casefold()]
        clean = "Traceback" not in result.said and "RESOLVED" not in result.said
        self.rows.append((name, " + ".join(words), result.said[-300:], not missing and clean))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def tok(self) -> list[str]:
        return ["--tokenizer", self.path("tok"), "--count", "trace"]

    def json(self, *arguments: str) -> dict[str, Any]:
        return self.run(*arguments, "--json").json

    def ledger(self, *arguments: str) -> pl.DataFrame:
        """The ledger that ``count`` writes, in the order of the rows."""
        out = self.work / f"ledger-{len(list(self.work.iterdir()))}.parquet"
        result = self.run("count", *arguments, "-o", str(out))
        if result.code:
            raise Wrong(f"count: exit {result.code}: {result.err.strip()[-300:]}")
        return pl.read_parquet(out).sort("source", "row", "item")

    def select(self, *arguments: str) -> tuple[Path, dict[str, Any]]:
        """Select into a fresh folder; the folder and the object printed."""
        out = self.work / f"out-{len(list(self.work.iterdir()))}"
        return out, self.json("select", *arguments, "-o", str(out))


def kept(out: Path) -> pl.DataFrame:
    """The ledger rows of the kept traces, in order."""
    return pl.read_parquet(out / "ledger.parquet").filter(pl.col("reason").is_null()).sort("source", "row", "item")


def chosen(out: Path) -> dict[str, int]:
    """Problem to row number, from 1."""
    return {p: r + 1 for p, r in kept(out).select("problem", "row").iter_rows()}


def written(out: Path) -> pl.DataFrame:
    """The rows of the training set."""
    return pl.read_parquet(out / "data")


def at(found: Mapping[str, Any], bound: int) -> dict[str, Any]:
    """The entry of one bound."""
    (entry,) = [b for b in found["bounds"] if b["max_tokens"] == bound]
    return dict(entry)


def only(expected: Mapping[str, int]) -> tuple[int, int]:
    """The bound and the count of an entry such as ``{"10": 2}``."""
    ((bound, count),) = expected.items()
    return int(bound), count


ANY = ("--passing", "finished", "--thinking", "optional")


def case_02(c: Case) -> None:
    source, tok = c.path("messages.jsonl"), ["--tokenizer", c.path("tok")]
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within the bound", count, at(found, bound)["traces"])
    c("tokens", c.expected["sample_tokens"], c.ledger(source, *tok)["tokens"].to_list())
    c.never(
        "tokens with the start token twice",
        [n + 1 for n in c.expected["sample_tokens"]],
        c.ledger(source, *tok)["tokens"].to_list(),
    )


def case_04(c: Case) -> None:
    if c.tokenizer is None:
        raise Wrong("needs --qwen3 FOLDER")
    source, tok = c.path("traces.jsonl"), ["--tokenizer", str(c.tokenizer), "--count", "trace"]
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within the bound", count, at(found, bound)["traces"])
    c.never("within the bound, split", only(c.expected["kept_if_special_text_is_split"])[1], at(found, bound)["traces"])
    tokens = c.ledger(source, *tok)["tokens"].to_list()
    c("tokens", c.expected["tokens"], tokens)
    c.never("tokens, split", c.expected["tokens_if_special_text_is_split"], tokens)
    control = c.json("inspect", source, *tok)["structure"]["control_text"]
    c("traces with control text", c.expected["rows_with_control_token_text"], control)


def case_06(c: Case) -> None:
    source = c.path("traces.jsonl")
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within the bound", count, at(found, bound)["traces"])
    c("tokens", c.expected["tokens"], c.ledger(source, *c.tok)["tokens"].to_list())


def case_08(c: Case) -> None:
    source, out = c.path("messages.jsonl"), c.work / "never"
    result = c.run("yield", source, "--tokenizer", c.path("tok"), "--bounds", "10")
    c("yield fails", 1, result.code)
    c.says("names the tokenizer and the way out", result, "tok", "chat template", "--count trace")
    result = c.run("select", source, "--tokenizer", c.path("tok"), "--shortest", *ANY, "-o", str(out))
    c("select fails", 1, result.code)
    c("nothing written", False, out.exists())
    ledger = c.ledger(source, *c.tok)
    c("rows", c.expected["rows"], ledger.height)
    c("trace tokens", c.expected["trace_tokens"], ledger["tokens"].to_list())


def case_10(c: Case) -> None:
    source = c.path("traces.jsonl")
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within the bound", count, at(found, bound)["traces"])
    c("tokens", c.expected["tokens"], c.ledger(source, *c.tok)["tokens"].to_list())
    out, done = c.select(source, *c.tok, *ANY, "--policy", "all", "--max-tokens", str(bound))
    c("kept", count, done["kept"])
    c("ids", c.expected["kept_ids"], written(out)["id"].to_list())


def case_12(c: Case) -> None:
    source = c.path("problems.jsonl")
    bound, count = only(c.expected["traces_kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    c("problems", c.expected["problems"], found["problems"])
    c("traces", c.expected["traces"], found["traces"])
    c("traces within", count, at(found, bound)["traces"])
    c("problems within", only(c.expected["problems_kept"])[1], at(found, bound)["problems"]["shortest"])
    _, done = c.select(source, *c.tok, *ANY, "--shortest", "--max-tokens", str(bound))
    c("problems kept", only(c.expected["problems_kept"])[1], done["problems_kept"])


def case_14(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source, *c.tok)
    c("rows", c.expected["rows"], found["rows"])
    c("complete", c.expected["complete"], found["structure"]["complete"])
    c("opening missing", c.expected["opening_tag_missing"], found["structure"]["opening_missing"])
    c("unfinished", 0, found["unfinished"])
    ledger = c.ledger(source, *c.tok)
    c("reasoning tokens", c.expected["reasoning_tokens"], ledger["reasoning_tokens"].to_list())
    c("answer tokens", c.expected["answer_tokens"], ledger["answer_tokens"].to_list())


def case_16(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source, *c.tok)
    c("rows", c.expected["rows"], found["rows"])
    c("flagged", c.expected["rows_flagged"], found["structure"]["malformed"])
    ledger = c.ledger(source, *c.tok)
    c("tokens", c.expected["trace_tokens"], ledger["tokens"].to_list())
    c("flagged ids", c.expected["flagged_ids"], ledger.filter(pl.col("flags") & MALFORMED != 0)["problem"].to_list())


def case_18(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source, *c.tok)
    c("rows", c.expected["rows"], found["rows"])
    c("without thinking", c.expected["rows_without_reasoning"], found["without_thinking"])
    out = c.work / "never"
    result = c.run("select", source, *c.tok, "--shortest", "-o", str(out))
    c("a mixed source stops", (1, False), (result.code, out.exists()))
    thinking = c.expected["rows"] - c.expected["rows_without_reasoning"]
    c.says("with the counts", result, str(thinking), str(c.expected["rows"]), "--thinking")
    for option, name in (("required", "chosen_when_reasoning_is_required"), ("optional", "chosen_by_length_alone")):
        want = {k: v for k, v in c.expected[name].items() if v is not None}
        c(f"thinking {option}", want, chosen(c.select(source, *c.tok, "--shortest", "--thinking", option)[0]))


def case_20(c: Case) -> None:
    source = c.path("problems.parquet")
    out = c.work / "out-0"
    result = c.run("select", source, *c.tok, "--shortest", "-o", str(out))
    c("exit", 0, result.code)
    lists = pl.read_parquet(source)
    for bad in c.expected["bad_problems"]:
        row = lists.row(by_predicate=pl.col("id") == bad, named=True)
        lengths = len(row["generations"]), len(row["correctness_math_verify"])
        told = re.search(rf"\b{bad}\b.{{0,120}}\b{lengths[0]}\b.{{0,60}}\b{lengths[1]}\b", result.said)
        c.rows.append((f"names {bad} and both lengths", f"{bad}, {lengths}", result.said[-300:], told is not None))
    ledger = kept(out)
    c("chosen", c.expected["chosen_index"], dict(ledger.select("problem", "item").iter_rows()))
    found = c.json("inspect", source, *c.tok)
    c("problems", c.expected["problems"], found["problems"])
    c("bad rows", len(c.expected["bad_problems"]), found["bad_rows"])
    dropped = pl.read_parquet(out / "ledger.parquet").filter(pl.col("reason") == "bad_row")
    c("bad problems", c.expected["bad_problems"], dropped["problem"].unique().sort().to_list())


def case_22(c: Case) -> None:
    source = c.path("problems.parquet")
    for column in ("correctness_llama", "correctness_math_verify"):
        want = c.expected[f"by_{column}"]
        found = c.json("inspect", source, "--passed", column)
        c("problems", c.expected["problems"], found["problems"])
        passing = found["passing"]
        c(column, want, {"passing": passing["passed"], "unknown": passing["unknown"]})
    c("basis of a column of nulls", "none", c.json("inspect", source, "--passed", "correctness_llama")["passing"]["basis"])
    told = c.run("yield", source, "--passed", "correctness_llama")
    c.says("says so", told, "correctness_llama", "verdict")
    c("says that there is none", True, re.search(r"\b(no|holds no|without|not one) (trace has a )?verdict", told.said) is not None)
    c("and no 0 % passing", False, re.search(r"\b0 ?%\)? pass", told.said) is not None)


def case_24(c: Case) -> None:
    source, out = c.path("traces.parquet"), c.work / "never"
    result = c.run("select", source, "--shortest", "-o", str(out))
    c("fails, nothing written", (1, False), (result.code, out.exists()))
    c.says("lists the columns and the option", result, "id", "generation", "finish_reason", "--passing finished")
    c("rows", c.expected["rows"], c.json("inspect", source)["rows"])
    want = c.expected["chosen_when_every_finished_trace_is_accepted"]
    c("accepting finished traces", want, chosen(c.select(source, "--shortest", "--passing", "finished")[0]))


def case_26(c: Case) -> None:
    source = c.path("traces.parquet")
    for aliases, problems in (([], "problems_by_id"), (["--aliases", "aliases"], "problems_by_alias")):
        found = c.json("inspect", source, *c.tok, *aliases)
        c(problems, c.expected[problems], found["problems"])
    c("rows", c.expected["rows"], found["rows"])
    c("by id", c.expected["chosen_by_id"], chosen(c.select(source, *c.tok, "--shortest")[0]))
    by_alias = chosen(c.select(source, *c.tok, "--shortest", "--aliases", "aliases")[0])
    c("by alias", c.expected["chosen_by_alias"], sorted(by_alias.values()))


def case_28(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source)
    c("rows", c.expected["rows"], found["rows"])
    c("traces per problem", c.expected["traces_per_problem"], found["traces_per_problem"])
    counts = c.ledger(source).group_by("problem").len()
    c("ids as text", c.expected["traces_of_problem"], dict(counts.iter_rows()))


def case_30(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source, *c.tok)
    c("rows", c.expected["rows"], found["rows"])
    c("rows without id", c.expected["rows_without_id"], found["rows_without_problem"])
    c("problems", c.expected["problems"], found["problems"])
    out, done = c.select(source, *c.tok, "--shortest")
    c("chosen", c.expected["chosen"], chosen(out))
    c("dropped for it", c.expected["rows_without_id"], done["dropped"]["no_problem"])


def case_32(c: Case) -> None:
    source = c.path("traces.parquet")
    found = c.json("inspect", source, *c.tok)
    c("rows", c.expected["rows"], found["rows"])
    c("bad rows", c.expected["null_generations"] + c.expected["empty_generations"], found["bad_rows"])
    out, done = c.select(source, *c.tok, "--shortest")
    c("chosen", c.expected["chosen"], chosen(out))
    c("lost", {"bad_row": len(c.expected["problems_without_any"])}, {k: v for k, v in done["problems_lost"].items() if v})
    ledger = pl.read_parquet(out / "ledger.parquet")
    have = set(chosen(out))
    c("which", c.expected["problems_without_any"], sorted(set(ledger["problem"]) - have))
    c("no length", c.expected["null_generations"] + c.expected["empty_generations"], ledger["tokens"].null_count())


def case_34(c: Case) -> None:
    source = c.path("traces.parquet")
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    entry = at(found, bound)
    c("rows", c.expected["rows"], found["rows"])
    c("rated", {"rated": c.expected["rated"], "unrated": c.expected["unrated"]}, found["difficulty"])
    c("within", count, entry["traces"])
    skew = entry["skew"]
    c("kept rated", c.expected["kept_rated"], sum(b["kept"] for b in skew["bands"]))
    c("kept median", c.expected["kept_median"], skew["kept_median"])
    c("median of all", c.expected["all_median"], skew["all_median"])
    c("means are numbers", True, all(math.isfinite(skew[k]) for k in ("kept_mean", "all_mean")))
    rated = c.ledger(source, *c.tok)["difficulty"]
    c("no NaN", (c.expected["unrated"], 0), (rated.null_count(), rated.is_nan().sum()))


def case_36(c: Case) -> None:
    source = c.path("traces.parquet")
    joined = [*c.tok, "--difficulty-from", c.path("ratings.jsonl")]
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *joined, "--bounds", str(bound))
    c("traces", c.expected["rows"], found["traces"])
    c("within", count, at(found, bound)["traces"])
    want = {"rated": c.expected["rated_traces"], "unrated": c.expected["unrated_traces"]}
    c("rated", want, found["difficulty"])
    c("ratings", c.expected["ratings_by_row"], c.ledger(source, *joined)["difficulty"].to_list())


def case_38(c: Case) -> None:
    source = c.path("traces.parquet")
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within", count, at(found, bound)["traces"])
    out, done = c.select(source, *c.tok, "--shortest", "--thinking", "optional", "--format", "source")
    rows = written(out)
    c("by polars", c.expected["contest_type_values"], rows["contest_type"].cast(pl.String).to_list())
    table = pq.read_table(sorted((out / "data").glob("*.parquet"))[0])
    c("by pyarrow", c.expected["contest_type_values"], table["contest_type"].to_pylist())
    c("struct whole", pq.read_table(source)["api_metadata"].to_pylist(), table["api_metadata"].to_pylist())
    out, done = c.select(source, *c.tok, "--shortest", "--max-tokens", str(bound), "--format", "source")
    c("kept rows", (count, count), (done["kept"], written(out).height))


def case_40(c: Case) -> None:
    source = c.path("big.parquet")
    rule = ["--estimate", "chars/1", "--count", "trace"]
    found = c.json("yield", source, *rule, "--bounds", "1000", "--no-cache")
    c("rows", c.expected["rows"], found["rows"])
    c("within", c.expected["kept_rows"], at(found, 1000)["traces"])
    c("characters", c.expected["characters"], found["tokens"]["total"])


def case_42(c: Case) -> None:
    source = c.path("run")
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within", count, at(found, bound)["traces"])


def case_44(c: Case) -> None:
    source = c.path("traces.parquet")
    bound, count = only(c.expected["kept"])
    found = c.json("yield", source, *c.tok, "--bounds", str(bound))
    c("rows", c.expected["rows"], found["rows"])
    c("within", count, at(found, bound)["traces"])
    c.never("within, by the old column", c.expected["stale_column_would_keep"], at(found, bound)["traces"])
    c("tokens", c.expected["tokens"], c.ledger(source, *c.tok)["tokens"].to_list())
    out, done = c.select(source, *c.tok, "--shortest", "--max-tokens", str(bound))
    c("kept", count, done["kept"])
    (shard,) = (out / "data").glob("*.parquet")
    names = pq.read_schema(shard).names
    c("no name twice", len(set(names)), len(names))
    before = pl.read_parquet(source)
    stale = [n for n in ("n_tokens", "num_tokens", "token_count") if n in names]
    same = written(out).select(stale).equals(before.filter(pl.col("id").is_in(written(out)["id"])).select(stale)) if stale else True
    c("old columns as they were", True, same)


def case_46(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source)
    c("rows", c.expected["rows"], found["rows"])
    c("bad rows", 0, found["bad_rows"])
    out, _ = c.select(source, "--policy", "all", *ANY)
    texts = written(out)["generation"].to_list()
    c("last characters", c.expected["generation_last_character"], [t[-1] for t in texts])
    c("no carriage return", False, any("\r" in t for t in texts))


def case_48(c: Case) -> None:
    source, out = c.path("traces.jsonl"), c.work / "never"
    first, *_ = c.expected["bad_lines"]
    for result in (c.run("inspect", source), c.run("select", source, "--shortest", "-o", str(out))):
        c("fails", 1, result.code)
        c.says("names the line", result, "traces.jsonl", f"line {first}", "--skip-bad-rows")
    c("nothing written", False, out.exists())
    skipping = c.run("inspect", source, "--skip-bad-rows", "--json")
    c("rows", c.expected["rows_when_skipping"], skipping.json["rows"])
    c("bad rows", len(c.expected["bad_lines"]), skipping.json["bad_rows"])
    numbers = r"\b.{0,40}\b".join(map(str, c.expected["bad_lines"]))
    notes = " ".join(skipping.err.split())
    c.rows.append(
        ("skipped lines by number", c.expected["bad_lines"], notes[-300:], re.search(rf"\b{numbers}\b", notes) is not None)
    )
    out, _ = c.select(source, "--skip-bad-rows", "--shortest")
    c("ids", c.expected["ids_when_skipping"], written(out)["id"].to_list())


def case_50(c: Case) -> None:
    source = c.path("traces.jsonl")
    result = c.run("inspect", source)
    c("fails", 1, result.code)
    c.says("names line and byte", result, "traces.jsonl", f"line {c.expected['bad_line']}", "0xb2")
    skipping = c.json("inspect", source, "--skip-bad-rows")
    c("the others stay", (c.expected["rows"] - 1, 1), (skipping["rows"], skipping["bad_rows"]))


def case_52(c: Case) -> None:
    if c.tokenizer is None:
        raise Wrong("needs --qwen3 FOLDER")
    source, tok = c.path("traces.jsonl"), ["--tokenizer", str(c.tokenizer), "--count", "trace"]
    found = c.json("inspect", source, *tok)
    c("rows", c.expected["rows"], found["rows"])
    c("tokens", c.expected["tokens"], c.ledger(source, *tok)["tokens"].to_list())
    out, _ = c.select(source, *tok, "--policy", "all", "--passing", "finished")
    rows = written(out)
    c("characters", c.expected["generation_characters"], [len(t) for t in rows["generation"]])
    came = [json.loads(line)["generation"] for line in Path(source).read_text(encoding="utf-8").splitlines()]
    c("the same text", came, rows["generation"].to_list())


def case_54(c: Case) -> None:
    source = c.path("traces.jsonl")
    found = c.json("inspect", source)
    c("rows", c.expected["rows"], found["rows"])
    c("ratings", c.expected["ratings"], c.ledger(source)["difficulty"].to_list())
    out, _ = c.select(source, "--policy", "all", *ANY)
    c("columns", c.expected["columns"], written(out).columns)


def case_56(c: Case) -> None:
    source, out = c.path("traces.parquet"), c.work / "out"
    bound, count = only(c.expected["kept"])
    result = c.run("select", source, *c.tok, "--shortest", "--max-tokens", str(bound), "-o", str(out), "--json")
    c("ends well", 0, result.code)
    c("kept", (c.expected["rows"], count), (result.json["traces"], result.json["kept"]))
    loud = c.run("select", source, *c.tok, "--shortest", "--max-tokens", str(bound), "-o", str(c.work / "again"))
    c.says("a warning", loud, f"0 of {c.expected['rows']}")
    rows = written(out)
    c("rows", 0, rows.height)
    c("columns", c.expected["columns"], [n for n in rows.columns if n in c.expected["columns"]])
    c("type", c.expected["rating_type"], str(pq.read_schema(sorted((out / "data").glob("*.parquet"))[0]).field("rating").type))
    again = c.run("yield", str(out), *c.tok)
    c("yield on it", 0, again.code)
    c("no NaN", False, any(w in again.said.casefold().split() for w in ("nan", "nan%", "inf", "inf%")))
    found = c.json("yield", str(out), *c.tok, "--bounds", str(bound))
    c("no share", (0, None), (found["traces"], at(found, bound)["share"]))


def case_58(c: Case) -> None:
    if c.tokenizer is None:
        raise Wrong("needs --qwen3 FOLDER")
    source, tok = c.path("traces.jsonl"), ["--tokenizer", str(c.tokenizer), "--count", "trace", "--no-cache"]
    bounds = ",".join(c.expected["kept"])
    result = c.run("yield", source, *tok, "--bounds", bounds, "--json")
    c("rows", c.expected["rows"], result.json["rows"])
    c("within", c.expected["kept"], {b: at(result.json, int(b))["traces"] for b in c.expected["kept"]})
    c("within 60 s", True, result.seconds < 60)
    c("tokens", c.expected["tokens"], c.ledger(source, *tok)["tokens"].to_list())


def case_60(c: Case) -> None:
    source, out = c.path("shards"), c.work / "never"
    for result in (c.run("yield", source, *c.tok), c.run("select", source, *c.tok, "--shortest", "-o", str(out))):
        c("fails", 1, result.code)
        c.says("names the files", result, "part-1.parquet", "part-2.parquet")
    c("nothing written", False, out.exists())


def case_62(c: Case) -> None:
    source, out = c.path("traces.parquet"), c.work / "out"
    shutil.copytree(c.folder / "out", out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    options = [source, *c.tok, "--shortest", "--max-tokens", "5", "-o", str(out)]
    for more in ([], ["--overwrite"]):
        result = c.run("select", *options, *more)
        c(f"refuses {' '.join(more)}".strip(), True, result.code in (1, 2))
        c.says("and says why", result, "out")
        c("nothing touched", before, {p.name: p.read_bytes() for p in out.iterdir()})
    ours = c.work / "ours"
    wide = ["select", source, *c.tok, "--policy", "all", "--num-shards", "3", "-o", str(ours)]
    c("three shards", (0, 3), (c.run(*wide).code, len(list((ours / "data").iterdir()))))
    (ours / "notes.txt").write_text("keep me\n")
    refused = c.run(*wide)
    c.says("a second run names the option", refused, "--overwrite")
    again = c.run("select", source, *c.tok, "--shortest", "--max-tokens", "5", "-o", str(ours), "--overwrite")
    c("replaced", (0, c.expected["rows_expected_in_out"]), (again.code, written(ours).height))
    c.never("rows with old shards", c.expected["rows_if_old_shards_stay"], written(ours).height)
    c("the note stays", "keep me\n", (ours / "notes.txt").read_text())


def _hub(c: Case) -> Any:
    if c.hub is None:
        raise Wrong("needs the loopback Hub of the tests")
    return c.hub()


def _repo(c: Case, hub: Any, name: str) -> bool:
    """Make the repository that ``repo.json`` describes; whether it is private."""
    told = json.loads((c.folder / "repo.json").read_text())
    files = {f: told["readme"].encode() if f == "README.md" else b"PAR1" for f in told["files"]}
    hub.create(name, private=told["private"], files=files)
    return bool(told["private"])


def case_64(c: Case) -> None:
    import yaml

    with _hub(c) as hub:
        _repo(c, hub, "me/traces")
        result = c.run("push", c.path("new.parquet"), "me/traces", env=hub.env(c.work), fresh=True)
        c("exit", (0, ""), (result.code, "" if result.code == 0 else result.said[-300:]))
        files = hub.files("me/traces")
    c("files", c.expected["files_after"], sorted(f for f in files if f != ".gitattributes"))
    front = yaml.safe_load(files["README.md"].decode().split("---")[1])
    splits = [d["split"] for config in front["configs"] for d in config["data_files"]]
    c("splits in the card", c.expected["splits_in_card"], splits)


def case_66(c: Case) -> None:
    with _hub(c) as hub:
        c("private before", c.expected["private_before"], _repo(c, hub, "me/traces"))
        before = hub.files("me/traces")
        result = c.run("push", c.path("new.parquet"), "me/traces", "--private", env=hub.env(c.work), fresh=True)
        c("stops", 1, result.code)
        c.says("because it is public", result, "public", "me/traces")
        c("nothing uploaded", before, hub.files("me/traces"))
        sent = [p for method in ("PUT", "POST") for p in hub.paths(method) if "preupload" in p or "commit" in p or "lfs" in p]
        c("uploads before the check", c.expected["uploads_before_the_check"], len(sent))


def case_68(c: Case) -> None:
    source = c.path("traces.parquet")
    many = ["--policy", "all", *ANY, "--num-shards"]
    out, done = c.select(source, *c.tok, *many, "10")
    shards = sorted((out / "data").glob("*.parquet"))
    c("shards at most", True, 1 <= len(shards) <= c.expected["shards_at_most"])
    c(
        "rows written",
        (c.expected["rows_written"], c.expected["rows"]),
        (sum(pl.read_parquet(s).height for s in shards), done["kept"]),
    )
    for number in ("0", "-1"):
        result = c.run("select", source, *c.tok, *many, number, "-o", str(c.work / "never"))
        c(f"{number} shards", (2, False), (result.code, (c.work / "never").exists()))
    if c.hub is None:
        return
    with c.hub() as hub:
        hub.create("me/three", files={})
        result = c.run("push", str(out), "me/three", env=hub.env(c.work), fresh=True)
        files = hub.files("me/three")
    there = [f for f in files if f.startswith("data/")]
    rows = 0
    for name in there:
        (c.work / "back.parquet").write_bytes(files[name])
        rows += pl.read_parquet(c.work / "back.parquet").height
    c("rows on the Hub", (0, c.expected["rows_written"]), (result.code, rows))


def case_70(c: Case) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(c.work / "empty"), "HF_DATASETS_OFFLINE": "1"}
    result = c.run("yield", "someuser/some-set:solutions_py", env=offline, fresh=True)
    c("fails", 1, result.code)
    c.says("offline, not in the cache", result, "offline", "cache")
    c("no retries", False, "Retry" in result.err)
    bound, count = only(c.expected["kept"])
    found = c.run("yield", c.path("traces.parquet"), *c.tok, "--bounds", str(bound), "--json", env=offline, fresh=True).json
    c("rows", c.expected["rows"], found["rows"])
    c("within", count, at(found, bound)["traces"])


def case_72(c: Case) -> None:
    # A file changed in the last two seconds is not trusted by the cache: make it old, so that the cache is what is tested.
    source = c.work / "traces.jsonl"
    shutil.copyfile(c.path("traces.jsonl"), source)
    import os

    os.utime(source, (time.time() - 3600,) * 2)
    bound, count_a = only(c.expected["kept_a"])
    count_b = only(c.expected["kept_b"])[1]
    got = []
    for tok in ("tok_a", "tok_b", "tok_a"):
        options = [str(source), "--tokenizer", c.path(tok), "--count", "trace"]
        got.append(at(c.json("yield", *options, "--bounds", str(bound)), bound)["traces"])
        tokens = c.ledger(*options)["tokens"].to_list()
        c(f"tokens of {tok}", c.expected[f"tokens_{tok[-1]}"], tokens)
    c("within: a, b, a", [count_a, count_b, count_a], got)


CHECKS: dict[str, Callable[[Case], None]] = {
    name[-2:]: check for name, check in sorted(globals().items()) if name.startswith("case_")
}
"""The check of each case, by its two digits."""


def judge(case: Case, number: str) -> list[tuple[str, Any, Any, bool]]:
    """Run one case; a command that broke is one more row that is not ok."""
    try:
        CHECKS[number](case)
    except Wrong as e:
        case.rows.append(("runs", "a result", str(e), False))
    except (KeyError, ValueError, TypeError, OSError, pl.exceptions.PolarsError) as e:
        case.rows.append(("can be read", "a result", f"{type(e).__name__}: {e}"[:300], False))
    return case.rows
