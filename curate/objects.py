"""Data in object stores: ``s3://bucket/path`` and ``gs://bucket/path``, read through Arrow's own clients.

A file is copied whole into the cache and read from there: text that is read twice, and a run that goes on where one stopped, ask the
store once. A copy stands for the object's address, size and time of change; an object that was replaced is fetched anew. Credentials
and endpoints are those of the stores' own tools (``AWS_*``, ``AWS_ENDPOINT_URL``, ``~/.aws``; ``GOOGLE_APPLICATION_CREDENTIALS``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from curate import cache, configs
from curate.errors import CurateError

SCHEMES: Final = ("s3://", "gs://")
_CHUNK: Final = 8 << 20
_GLOB: Final = re.compile(r"[*?\[]")


def is_url(spec: str) -> bool:
    """Whether a SOURCE is an address in an object store."""
    return spec.startswith(SCHEMES)


def fetch(url: str, *, split: str = "train") -> list[Path]:
    """The files that an address names, on this disk: a file, a pattern, or a folder as the Hub would read it.

    Raises:
        CurateError: the store cannot be reached or refuses, nothing is there, or the folder has no such split.
    """
    scheme, _, place = url.partition("://")
    if place.startswith("/") or not place:
        raise CurateError(f"{url} names no bucket. Write {scheme}://bucket/path.")
    with _store(url):
        root = url if not _GLOB.search(url) else url[: _GLOB.search(url).start()].rpartition("/")[0]  # type: ignore[union-attr]
        store, base = fs.FileSystem.from_uri(root.rstrip("/"))
        found = {i.path: i for i in _listed(store, base)}
        if not found:
            raise CurateError(f"{url}: nothing is there. Name a file, a folder or a pattern that exists.")
        files = _picked(url, root, base, found, store, split)
        return [_copied(store, found[path], url.partition("://")[0]) for path in files]


def _listed(store: fs.FileSystem, base: str) -> list[fs.FileInfo]:
    one = store.get_file_info(base)
    if one.type == fs.FileType.File:
        return [one]
    try:
        inside = store.get_file_info(fs.FileSelector(base, recursive=True))
    except FileNotFoundError:
        return []
    return [i for i in inside if i.type == fs.FileType.File]


def _picked(url: str, root: str, base: str, found: Mapping[str, Any], store: fs.FileSystem, split: str) -> list[str]:
    if list(found) == [base]:
        return [base]
    inside = {path.removeprefix(f"{base}/"): path for path in found}
    if _GLOB.search(url):
        matched = [p for p in configs.match(inside, url.removeprefix(f"{root}/")) if configs.file_format(p)]
        if not matched:
            raise CurateError(f"No data file matches {url}. * stays within a folder; ** does not.")
        return [inside[p] for p in matched]
    card: dict[str, Any] = {}
    if "README.md" in inside:
        with store.open_input_stream(inside["README.md"]) as file:
            card = configs.front_matter(file.read().decode("utf-8", errors="replace"), where=f"{url}/README.md")[0]
    seen = [p for p in inside if not any(part.startswith((".", "_")) for part in p.split("/"))]
    return [inside[p] for p in configs.pick(seen, card, where=url, split=split).files]


def _copied(store: fs.FileSystem, info: fs.FileInfo, scheme: str) -> Path:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    stands = f"{scheme}|{endpoint}|{info.path}|{info.size}|{info.mtime_ns}"
    folder = cache.folder() / cache.OBJECTS / hashlib.sha256(stands.encode()).hexdigest()[:40]
    path: Path = folder / info.base_name
    if path.is_file() and path.stat().st_size == info.size:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, store.open_input_stream(info.path) as file:
            while chunk := file.read(_CHUNK):
                out.write(chunk)
        size = aside.stat().st_size
        if size != info.size:
            raise CurateError(f"{scheme}://{info.path} has {info.size:,} bytes, {size:,} came. Was it replaced while it was read?")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


@contextlib.contextmanager
def _store(url: str) -> Iterator[None]:
    """What a store answers, as a sentence."""
    scheme = url.partition("://")[0]
    bucket = url.partition("://")[2].split("/")[0]
    try:
        yield
    except (OSError, pa.ArrowException) as e:
        said = str(e)
        if "NO_SUCH_BUCKET" in said or "NoSuchBucket" in said:
            why = f"There is no bucket {bucket}."
        elif re.search(r"ACCESS_DENIED|AccessDenied|HTTP status 403|INVALID_ACCESS_KEY|SIGNATURE", said):
            why = "The store refuses these credentials."
        elif re.search(r"NETWORK_CONNECTION|Could not connect|resolve host", said):
            why = "The store cannot be reached."
        else:
            why = f"{said.splitlines()[0].rstrip('.')}."
        keys = "AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL" if scheme == "s3" else "GOOGLE_APPLICATION_CREDENTIALS"
        raise CurateError(f"{url}: {why} The store's own settings are read ({keys}).") from None
