"""The same bytes from one machine and from many, from one thread and from eight, here and in another time zone."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curate import api, engine, opening, shards, stretches
from curate.errors import CurateError, UsageError
from curate.opening import Request
from curate.selection import Rules

SHARDS, ROWS = 5, 90
RULES = Rules(max_tokens=3000)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several shards; problems that lie in more than one; difficulty in words; a cut-off trace here and there."""
    folder = tmp_path_factory.mktemp("machines") / "source"
    folder.mkdir()
    rng = random.Random(2)
    for shard in range(SHARDS):
        rows = [
            {
                "id": f"p{rng.randrange(120)}",
                "prompt": "What is it?",
                "generation": f"<think>\n{rng.randbytes(rng.randint(1_000, 8_000)).hex()}\n</think>\n\n{i}",
                "passed": rng.random() < 0.8,
                "finish_reason": rng.choice(["stop", "stop", "length"]),
                "difficulty": ["easy", "medium", "hard"][min(2, shard)],
            }
            for i in range(ROWS)
        ]
        pl.DataFrame(rows).write_parquet(folder / f"part-{shard}.parquet", row_group_size=40)
        os.utime(folder / f"part-{shard}.parquet", (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stretches of one row group, and a cache of one's own."""
    monkeypatch.setattr(stretches, "STRETCH_BYTES", 1)
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))


def request(source: Path, **more: Any) -> Request:
    return Request(sources=(str(source),), estimate="chars/3.6", **({"use_cache": False} | more))


def content(out: Path) -> dict[str, str]:
    files = (f for f in out.rglob("*") if f.is_file())
    return {str(f.relative_to(out)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.fixture(scope="module")
def one(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a single run writes."""
    out = tmp_path_factory.mktemp("one") / "out"
    done = api.select(request(source), RULES, out)
    assert 50 < done.facts["kept"] < SHARDS * ROWS
    return content(out)


@pytest.mark.parametrize("n", [1, 2, 3, SHARDS, SHARDS + 4])
def test_parts_of_any_number_make_the_ledger_of_one_machine(source: Path, tmp_path: Path, n: int) -> None:
    want = api.fill(request(source, details=True))
    paths = [tmp_path / f"{i}.parquet" for i in range(n)]
    for i, path in enumerate(paths, 1):
        api.part(request(source, details=True), (i, n), path)
    merged = api.merge(list(reversed(paths)))
    assert merged.ledger.equals(want.ledger) and merged.meta == want.meta
    assert merged.meta.labels == ("easy", "medium", "hard")


def test_a_merged_ledger_and_its_source_give_the_output_of_one_run(source: Path, one: dict[str, str], tmp_path: Path) -> None:
    from curate import output

    paths = [tmp_path / f"{i}.parquet" for i in (1, 2)]
    for i, path in enumerate(paths, 1):
        api.part(request(source, details=True), (i, 2), path)
    merged = api.merge(paths)
    output.write_ledger(tmp_path / "ledger.parquet", merged.ledger, merged.meta)
    api.select(Request(sources=(str(source),)), RULES, tmp_path / "out", from_ledger=tmp_path / "ledger.parquet")
    have, whole = content(tmp_path / "out"), dict(one)
    for command in ("manifest.json", "README.md"):  # they name the options of the run
        del have[command], whole[command]
    assert have == whole
    (source.parent / "other").mkdir(exist_ok=True)
    pl.read_parquet(source / "part-0.parquet").write_parquet(source.parent / "other" / "part-0.parquet")
    with pytest.raises(CurateError, match="was not made of other as it lies here"):
        api.select(Request(sources=(str(source.parent / "other"),)), RULES, tmp_path / "b", from_ledger=tmp_path / "ledger.parquet")


def test_parts_that_do_not_belong_together_are_refused(source: Path, tmp_path: Path) -> None:
    def part(name: str, share: tuple[int, int], **more: Any) -> Path:
        api.part(request(source, **more), share, tmp_path / name)
        return tmp_path / name

    a, b, c = part("a", (1, 3)), part("b", (2, 3)), part("c", (3, 3))
    with pytest.raises(CurateError, match=r"Of 3 parts 1 are missing: 2. Make them with --shard 2/3"):
        api.merge([a, c])
    with pytest.raises(CurateError, match="Part 2 of 3 is given twice"):
        api.merge([a, b, c, b])
    with pytest.raises(CurateError, match=r"one of 3 parts and .* one of 4"):
        api.merge([a, part("d", (4, 4))])
    with pytest.raises(CurateError, match="different sources or options"):
        api.merge([a, b, part("e", (3, 3), count="trace")])
    with pytest.raises(CurateError, match="is no part of a ledger"):
        api.merge([source / "part-0.parquet"])
    with pytest.raises(UsageError, match="counted from 1"):
        api.part(request(source), (0, 3), tmp_path / "f")


def test_bytes_do_not_depend_on_threads_cache_or_rows_put_aside(
    source: Path, one: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for workers in (1, 8):
        monkeypatch.setattr(stretches, "WORKERS", workers)
        for turn in ("fills the cache", "from the cache"):
            api.select(request(source, use_cache=True), RULES, tmp_path / f"{workers} {turn}")
            assert content(tmp_path / f"{workers} {turn}") == one, (workers, turn)
    monkeypatch.setattr(engine, "ROOM", 1 << 62)  # nothing is put aside
    api.select(request(source), RULES, tmp_path / "read twice")
    assert content(tmp_path / "read twice") == one


def test_bytes_do_not_depend_on_batches_and_stretches(
    source: Path, one: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "GROUP_BYTES", 50_000)
    monkeypatch.setattr(shards, "SHARD_TOKENS", 50_000)
    outputs = []
    for stored, bundle in ((1, 1), (1 << 40, 1 << 40), (100_000, 1)):
        monkeypatch.setattr(stretches, "STRETCH_BYTES", stored)
        monkeypatch.setattr(stretches, "BUNDLE_BYTES", bundle)
        out = tmp_path / f"{stored} {bundle}"
        api.select(request(source), RULES, out)
        outputs.append(content(out))
    assert outputs[0] == outputs[1] == outputs[2] != one
    assert sum(name.startswith("data/") for name in outputs[0]) > 2


def test_a_shard_that_cannot_be_written_stops_the_others_and_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_TOKENS", 5_000)
    added: list[str] = []
    add = shards.Shard.add

    def failing(self: shards.Shard, table: Any) -> None:
        added.append(self.path.name)
        if "-00003-of-" in self.path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        add(self, table)

    monkeypatch.setattr(shards.Shard, "add", failing)
    with pytest.raises(CurateError, match=r"The disk of .* is full; nothing was written"):
        api.select(request(source), RULES, tmp_path / "out")
    assert "-of-00026" in added[0]
    assert max(added) < "train-00008"  # those that come later were not begun
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "env",
    [
        {"TZ": "Pacific/Kiritimati", "POLARS_MAX_THREADS": "8"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "POLARS_MAX_THREADS": "1"},
    ],
    ids=["far east", "Turkish"],
)
def test_bytes_do_not_depend_on_time_zone_locale_and_threads_of_polars(
    source: Path, one: dict[str, str], tmp_path: Path, env: dict[str, str]
) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom curate import api, opening, selection, stretches\nstretches.STRETCH_BYTES = 1\n"
        "request = opening.Request(sources=(sys.argv[1],), estimate='chars/3.6', use_cache=False)\n"
        "api.select(request, selection.Rules(max_tokens=3000), Path(sys.argv[2]))\n"
    )
    argv = [sys.executable, "-c", program, str(source), str(tmp_path / "out")]
    subprocess.run(argv, check=True, env={**os.environ, **env, "PYTHONPATH": str(Path(__file__).parents[1])})
    assert content(tmp_path / "out") == one


def test_every_row_is_in_one_stretch_and_one_share(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opening.open_one(str(source), request(source), note=lambda text: None).source.table  # type: ignore[union-attr]
    for stored, n in ((1, 3), (100_000, 4), (1 << 40, 2)):
        monkeypatch.setattr(stretches, "STRETCH_BYTES", stored)
        plan = stretches.cut(table)
        rows = [r for s in plan for b in s.bundles for t in b for r in range(t.row, t.row + t.rows)]
        assert rows == list(range(table.rows)) and [s.number for s in plan] == list(range(len(plan)))
        assert [s for i in range(n) for s in stretches.share(plan, i + 1, n)] == list(plan)


# --- Ray --------------------------------------------------------------------------------------------------------------

RAY = """
import json, os, sys
from pathlib import Path
import ray
from curate import api, cluster, opening, selection, stretches
stretches.STRETCH_BYTES = 1
ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False, object_store_memory=200 << 20)
print("ready", flush=True)
request = opening.Request(sources=(sys.argv[1],), estimate="chars/3.6", use_cache=False)
try:
    done = api.select(request, selection.Rules(max_tokens=3000), Path(sys.argv[2]), cluster=cluster.Cluster(request))
    print(json.dumps({"kept": done.facts["kept"]}), flush=True)
except Exception as e:
    print(json.dumps({"error": f"{type(e).__name__}: {e}"}), flush=True)
"""


def on_ray(source: Path, out: Path, *, kill: bool) -> tuple[dict[str, Any], int]:
    """Select on two local workers; with ``kill``, one is killed while it works. What it said, and how many were killed."""
    pytest.importorskip("ray", reason="ray is not installed (the extra [ray])")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-c", RAY, str(source), str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    killed: list[int] = []

    def hunt() -> None:
        while process.poll() is None and not killed:
            for pid in descendants(process.pid):
                if command(pid).startswith(("ray::decide_stretch", "ray::copy_stretch")):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return

    hunter = threading.Thread(target=hunt)
    if kill:
        hunter.start()
    said, _ = process.communicate(timeout=300)
    if kill:
        hunter.join()
    answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return answer, len(killed)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    except OSError:
        pass
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_two_ray_workers_write_the_bytes_of_one_machine_while_one_of_them_is_killed(
    source: Path, one: dict[str, str], tmp_path: Path
) -> None:
    answer, killed = on_ray(source, tmp_path / "out", kill=True)
    assert "error" not in answer, answer
    assert killed == 1
    assert content(tmp_path / "out") == one


def test_an_error_on_a_ray_worker_names_its_rows_and_file(source: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in source.iterdir():
        data = bytearray(path.read_bytes())
        if path.name == "part-3.parquet":
            data[2_000:60_000] = bytes(58_000)
        (broken / path.name).write_bytes(data)
    answer, _ = on_ray(broken, tmp_path / "out", kill=False)
    assert "CurateError: In broken, rows 270 to 309" in answer["error"] and "part-3.parquet" in answer["error"]
    assert not (tmp_path / "out").exists()
