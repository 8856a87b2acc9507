"""Data sets on the Hub: which files, at which commit, read through ``huggingface_hub``.

A name is resolved to one commit first, and everything afterwards is read at that commit, so that the recorded revision is the
revision that was read. Only the files of the asked split are downloaded, into the cache that ``HF_HOME`` names; a download that
was cut goes on where it stopped. A few columns of a table too large to download are read by range requests: ``id`` and ``rating``
of a 244 GB repository cost its Parquet footers and those two columns.

``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME``, ``HF_HUB_CACHE`` and ``HF_HUB_OFFLINE`` are read at each call. Nothing is taken from the
cache behind the user's back: a Hub that cannot be reached is an error that names ``HF_HUB_OFFLINE``.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import polars as pl

from curate import configs
from curate.errors import CurateError, near

_NAME = re.compile(r"(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(?::(?P<config>[^@:/]+))?(?:@(?P<revision>[\w./-]+))?")
CONVERTED: Final = "refs/convert/parquet"
"""The branch where the Hub keeps Parquet made from data sets that came with a loading script or in another format."""

_LOGIN = "log in with `hf auth login`, or set HF_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """``org/name[:config][@revision]`` taken apart."""

    repo: str
    config: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the Hub is and how it is reached, as the environment says at the moment of asking."""

    endpoint: str
    token: str | None
    cache: Path
    offline: bool

    def options(self) -> dict[str, Any]:
        """Keyword arguments that the functions of ``huggingface_hub`` share."""
        # False, not None: with None the client would look for a token again, in places fixed when it was imported.
        return {"endpoint": self.endpoint, "token": self.token or False}

    def store(self) -> dict[str, Any]:
        """The same, with the folder of the cache."""
        return self.options() | {"cache_dir": self.cache}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One split of one config at one commit."""

    repo: str
    revision: str
    """The commit, 40 hexadecimal digits."""
    config: str
    split: str
    files: tuple[str, ...]
    sizes: tuple[int, ...]
    """Bytes of each file."""
    configs: tuple[str, ...]
    """All configs of the data set, for those who look for siblings."""
    splits: tuple[str, ...]
    licence: tuple[str, ...]
    """As the card has it; empty where it says nothing."""
    card: dict[str, Any]
    """The front matter of the README."""
    converted: bool = False
    """True when the files are the Hub's own Parquet conversion, and ``revision`` a commit of that branch."""


def parse(name: str) -> Name | None:
    """Take ``org/name[:config][@revision]`` apart; None when it is no such name.

    >>> parse("open-r1/codeforces-cots:solutions_py@main")
    Name(repo='open-r1/codeforces-cots', config='solutions_py', revision='main')
    """
    found = _NAME.fullmatch(name)
    return Name(**found.groupdict()) if found else None


def access(token: str | None = None) -> Access:
    """The settings of the environment now; ``token`` wins over ``HF_TOKEN`` and over the saved one."""
    from huggingface_hub import constants, get_token

    home = os.environ.get("HF_HOME")
    cache = os.environ.get("HF_HUB_CACHE") or (Path(home) / "hub" if home else constants.HF_HUB_CACHE)
    # The client fixes the place of its token file when it is imported; HF_HOME may have changed since.
    saved = Path(home).expanduser() / "token" if home else None
    text = saved.read_text(encoding="utf-8").strip() if saved and saved.is_file() else None
    offline = any(_is_true(os.environ.get(name)) for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))
    return Access(
        endpoint=(os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/"),
        token=token or os.environ.get("HF_TOKEN") or text or (None if home else get_token()),
        cache=Path(cache).expanduser(),
        offline=offline,
    )


def resolve(
    name: str,
    *,
    split: str = "train",
    config: str | None = None,
    revision: str | None = None,
    files: Sequence[str] = (),
    token: str | None = None,
) -> Remote:
    """Find the files of one split and pin the commit; three requests, or none offline.

    Args:
        name: ``org/name[:config][@revision]``; what it says wins over ``config`` and ``revision``.
        split: Name of the split.
        config: None means the default one.
        revision: A branch, tag or commit; None means main.
        files: Globs of the files meant, for a repository that declares no configs; ``config`` is then a name for them.
        token: Instead of the one of the environment.

    Raises:
        CurateError: The data set is missing, private, gated, not cached (offline) or unreachable, or has no such revision,
            config or split.
    """
    parsed = parse(name)
    if parsed is None:
        raise CurateError(f"{name} is no name of a data set on the Hub; write org/name, org/name:config or org/name@revision.")
    repo, asked = parsed.repo, parsed.revision or revision or "main"
    config = parsed.config or config
    at = access(token)
    snapshot, sizes = _snapshot(repo, asked, at)
    card = _card(snapshot, repo)
    converted = False
    if not configs.data_like(sizes) and asked == "main":
        found = _converted(repo, at)
        if found is not None:
            snapshot, sizes, converted = *found, True
    entries = {"configs": _converted_configs(sizes)} if converted else card
    if files:
        named = tuple(dict.fromkeys(f for pattern in files for f in configs.match(sizes, pattern)))
        if not named:
            raise CurateError(f"{repo} has no file {' or '.join(files)} at {snapshot.name[:12]}; name its files another way.")
        picked = configs.Pick(config=config or "default", split=split, files=named, configs=(), splits=(split,))
    else:
        picked = configs.pick(sizes, entries, where=repo, config=config, split=split)
    return Remote(
        repo=repo,
        revision=snapshot.name,
        config=picked.config,
        split=picked.split,
        files=picked.files,
        sizes=tuple(sizes[p] for p in picked.files),
        configs=picked.configs,
        splits=picked.splits,
        licence=_licence(card),
        card=card,
        converted=converted,
    )


def download(remote: Remote, *, token: str | None = None) -> list[Path]:
    """The files of ``remote`` on disk, in its order; what the cache holds already is not asked for again.

    The client shows its progress on stderr (``HF_HUB_DISABLE_PROGRESS_BARS`` turns that off), fetches eight files at a time and
    continues a file that an earlier run left unfinished.

    Raises:
        CurateError: As ``resolve``; offline, when a file is not in the cache.
    """
    at = access(token)
    # The client's patterns are globs: a file called `a[1].parquet` must match itself.
    wanted = [glob.escape(path) for path in remote.files]
    folder = _fetch(remote.repo, remote.revision, wanted, at)
    missing = [path for path in remote.files if not (folder / path).is_file()]
    if missing:
        raise _not_cached(remote.repo, at, f"{len(missing)} of its {len(remote.files)} files are missing, first {missing[0]}")
    return [folder / path for path in remote.files]


def read_columns(
    repo: str,
    path: str | Sequence[str],
    columns: Sequence[str],
    *,
    revision: str | None = None,
    token: str | None = None,
    cache: Path | None = None,
) -> tuple[pl.DataFrame, str]:
    """Read some columns of remote Parquet by range requests: footers and those column chunks, nothing else.

    Args:
        repo: ``org/name``.
        path: A file, several, or a glob such as ``data/train-*.parquet``; files of a glob are read in the order of their names.
        columns: Names of columns, in the order wanted.
        revision: A branch, tag or commit; None means main.
        token: Instead of the one of the environment.
        cache: A folder that keeps the result for later runs at the same commit, and for runs offline.

    Returns:
        The rows of all files with ``columns``, types as stored, and the commit they were read at.

    Raises:
        CurateError: As ``resolve``; a column or the file is missing; the file is no Parquet.
    """
    at = access(token)
    paths = [path] if isinstance(path, str) else list(path)
    key = hashlib.sha256("\n".join([repo, revision or "main", *paths, "", *columns]).encode()).hexdigest()[:32]
    kept = cache / f"{key}.parquet" if cache is not None else None
    have = pl.read_parquet_metadata(kept).get("revision") if kept is not None and kept.is_file() else None
    if at.offline:
        if kept is None or have is None:
            raise _not_cached(repo, at, f"columns {', '.join(columns)} of {paths[0]} were not read before")
        return pl.read_parquet(kept), have
    with _sentences(repo, revision, at):
        commit = _commit(repo, revision, at)
        if kept is not None and have == commit:
            return pl.read_parquet(kept), commit
        frame = _read_ranges(repo, paths, columns, commit, at)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        frame.write_parquet(aside, metadata={"revision": commit})
        aside.replace(kept)
    return frame, commit


def read_table(
    repo: str,
    columns: Sequence[str],
    *,
    config: str | None = None,
    splits: Sequence[str] = ("train",),
    revision: str | None = None,
    token: str | None = None,
    cache: Path | None = None,
) -> tuple[pl.DataFrame, str]:
    """``read_columns`` of the splits of a config, one after the other: a table of difficulties to join, say.

    Raises:
        CurateError: As ``resolve`` and ``read_columns``; the table is no Parquet, whose columns alone can be read apart.
    """
    files: list[str] = []
    commit = revision
    for split in splits:
        found = resolve(repo, split=split, config=config, revision=commit, token=token)
        other = [f for f in found.files if configs.file_format(f) != "parquet"]
        if other:
            raise CurateError(f"{other[0]} of {repo} is no Parquet, so its columns cannot be read apart; download it and name it.")
        files += found.files
        commit = found.revision
    return read_columns(repo, files, columns, revision=commit, token=token, cache=cache)


def config_json(repo: str, *, token: str | None = None) -> Path:
    """The ``config.json`` of a model on the Hub, for its shape.

    Raises:
        CurateError: there is no such model, or it has no such file, or the Hub cannot be reached.
    """
    from huggingface_hub import errors, hf_hub_download

    at = access(token)
    try:
        with _sentences(repo, None, at):
            return Path(hf_hub_download(repo, "config.json", local_files_only=at.offline, **at.store()))
    except (errors.EntryNotFoundError, errors.LocalEntryNotFoundError):
        raise CurateError(
            f"{repo} has no config.json that can be read. Name a known model, or a config.json on this disk."
        ) from None


def _read_ranges(repo: str, paths: Sequence[str], columns: Sequence[str], commit: str, at: Access) -> pl.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from huggingface_hub import HfFileSystem

    fs = HfFileSystem(**at.options(), skip_instance_cache=True)
    root = f"datasets/{repo}@{quote(commit, safe='')}/"
    files: list[str] = []
    for path in paths:
        found = sorted(fs.glob(root + path))
        if not found:
            raise CurateError(f"{repo} has no file {path} at {commit[:12]}; look at its file list for the new name.")
        files += found
    tables = []
    for file in files:
        name = file.removeprefix(root)
        # Without a cache each read is the range that Parquet asks for; read-ahead would fetch 5 MB around every one.
        with fs.open(file, cache_type="none") as handle:
            try:
                table = pq.ParquetFile(handle)
            except pa.ArrowInvalid:
                raise CurateError(f"{name} of {repo} is no whole Parquet file; tell its owner.") from None
            known = table.schema_arrow.names
            for column in columns:
                if column not in known:
                    hint = near(column, known)
                    raise CurateError(f"{name} of {repo} has no column {column}; it has {', '.join(known)}.{hint}")
            tables.append(table.read(columns=list(columns)).select(list(columns)))
    frame = pl.from_arrow(pa.concat_tables(tables, promote_options="permissive"))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _snapshot(repo: str, revision: str, at: Access) -> tuple[Path, dict[str, int]]:
    """The cache's folder of the commit, with its README, and every path of the commit with its bytes."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    if not at.offline:
        with _sentences(repo, revision, at):
            # `snapshot_download` would fall back to the cache when this fails.
            _commit(repo, revision, at)
    # .gitattributes is always there; a pattern that matches nothing makes the client warn.
    folder = _fetch(repo, revision, ["README.md", ".gitattributes"], at, bar=False)
    try:
        tree = get_cached_repo_tree(repo, repo_type="dataset", revision=folder.name, cache_dir=at.cache)
    except CachedRepoTreeNotFoundError:
        raise _not_cached(repo, at, "its list of files is missing") from None
    return folder, {file.path: file.size for file in tree}


def _fetch(repo: str, revision: str, patterns: Sequence[str], at: Access, *, bar: bool = True) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from tqdm.auto import tqdm

    class NoBar(tqdm):  # type: ignore[type-arg]
        """A card takes no time worth a bar."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **(options | {"disable": True}))

    with _sentences(repo, revision, at):
        try:
            folder = snapshot_download(
                repo,
                repo_type="dataset",
                revision=revision,
                allow_patterns=list(patterns),
                local_files_only=at.offline,
                tqdm_class=None if bar else NoBar,
                **at.store(),
            )
        except LocalEntryNotFoundError as fault:
            if at.offline:
                raise _not_cached(repo, at, f"revision {revision} is not there, or not whole") from None
            raise fault.__cause__ or ConnectionError(str(fault)) from None
    return Path(folder)


def _commit(repo: str, revision: str | None, at: Access) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    for wait in (1, 3, None):
        try:
            return str(HfApi(**at.options()).dataset_info(repo, revision=revision).sha)
        except HfHubHTTPError as fault:
            # the client tries other requests again by itself, this one not
            if wait is None or fault.response.status_code not in (429, 500, 502, 503, 504):
                raise
            time.sleep(wait)
    raise AssertionError("unreachable")


def _converted(repo: str, at: Access) -> tuple[Path, dict[str, int]] | None:
    """The Hub's Parquet conversion of a data set without files that can be read, if it has made one."""
    try:
        return _snapshot(repo, CONVERTED, at)
    except CurateError:
        return None


def _converted_configs(paths: Sequence[str] | dict[str, int]) -> list[dict[str, Any]]:
    """``configs`` of the conversion, whose files are named ``config/split/0000.parquet`` (``partial-split`` when cut)."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(p for p in paths if p.count("/") == 2 and p.endswith(".parquet")):
        config, split, _ = path.split("/")
        found.setdefault(config, {})[split] = f"{glob.escape(f'{config}/{split}')}/*.parquet"
    return [
        {"config_name": config, "data_files": [{"split": s, "path": p} for s, p in splits.items()]}
        for config, splits in found.items()
    ]


def _card(snapshot: Path, repo: str) -> dict[str, Any]:
    readme = snapshot / "README.md"
    if not readme.is_file():
        return {}
    text = readme.read_text(encoding="utf-8", errors="replace")
    return configs.front_matter(text, where=f"{repo}/README.md")[0]


def _licence(card: dict[str, Any]) -> tuple[str, ...]:
    said = card.get("license") or ()
    if said == "other" and isinstance(card.get("license_name"), str):
        said = card["license_name"]
    return (said,) if isinstance(said, str) else tuple(str(item) for item in said)


def _is_true(value: str | None) -> bool:
    return (value or "").upper() in ("1", "ON", "YES", "TRUE")


def _not_cached(repo: str, at: Access, what: str) -> CurateError:
    if not at.offline:
        return CurateError(f"The download of {repo} is not whole ({what}); run the command again.")
    prefix = f"datasets--{repo.replace('/', '--')}"
    cached = at.cache / prefix / "snapshots"
    commits = sorted(p.name[:12] for p in cached.iterdir()) if cached.is_dir() else []
    have = f"not whole in the cache ({what}; commits in the cache: {', '.join(commits)})"
    if not commits:
        have = "not in the cache (cached: none)"
    return CurateError(
        f"Offline mode is on (HF_HUB_OFFLINE) and {repo} is {have}; set HF_HUB_OFFLINE=0 to download it, or pass a local file."
    )


@contextmanager
def _sentences(repo: str, revision: str | None, at: Access) -> Iterator[None]:
    """Turn what the client raises into one sentence with the next step."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # the client's own, whatever its name

    try:
        yield
    except (httpx.HTTPError, ConnectionError, HFValidationError) as fault:
        raise explain(fault, repo=repo, revision=revision, at=at) from None


def explain(fault: Exception, *, repo: str, at: Access, revision: str | None = None) -> CurateError:
    """One sentence for an error of the client: what, where, next step. It never holds the token."""
    from huggingface_hub import errors

    if isinstance(fault, errors.GatedRepoError):
        step = f"{_LOGIN} first" if at.token is None else "then run the command again"
        return CurateError(f"{repo} is gated: accept its terms at {at.endpoint}/datasets/{repo} with your account; {step}.")
    if isinstance(fault, errors.RevisionNotFoundError):
        return CurateError(f"{repo} has no revision {revision}; leave @{revision} out for main, or name a branch, tag or commit.")
    if isinstance(fault, errors.RepositoryNotFoundError):
        step = f"check the name, and {_LOGIN} if it is private"
        if at.token is not None:
            step = "check the name, and that your token may read it if it is private"
        return CurateError(f"There is no data set {repo} at {at.endpoint} that you may see: {step}.")
    if isinstance(fault, errors.HFValidationError):
        return CurateError(f"{repo} is no name that the Hub takes; write org/name.")
    if isinstance(fault, errors.HfHubHTTPError):
        return _status(fault.response.status_code, repo, at)
    reason = str(fault).split("\n", maxsplit=1)[0] or type(fault).__name__
    return CurateError(
        f"Cannot reach the Hub at {at.endpoint} ({reason}); check the network and HF_ENDPOINT, "
        "or set HF_HUB_OFFLINE=1 to use what is cached."
    )


def _status(status: int, repo: str, at: Access) -> CurateError:
    if status == 401:
        return CurateError(f"The Hub does not know this token (status 401); {_LOGIN}.")
    if status == 403:
        return CurateError(f"Your token has no right to do this to {repo} (status 403); use one that has, or another name.")
    if status == 429:
        return CurateError(f"The Hub asks to wait: too many requests for {repo} (status 429). Try again in a few minutes.")
    return CurateError(f"The Hub at {at.endpoint} failed on {repo} (status {status}); try again later.")
