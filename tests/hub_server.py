"""A Hub on loopback, for tests: standard library and PyYAML only, no network, nothing mocked below HTTP.

It speaks as much of the Hub's HTTP interface as the real ``huggingface_hub`` and ``datasets`` clients use for data
sets: accounts, repositories, revisions, trees, Git LFS uploads with a hash check, atomic commits with a parent,
branches, tags, pull requests, files with ranges, and a redirect of large files to another host name. No Git, no Xet, no
viewer.

    with LoopbackHub() as hub:
        hub.create("me/set", files={"data/train.parquet": b"..."})
        subprocess.run([...], env=os.environ | hub.env(tmp_path))      # before the clients are imported
        hub.fail("POST", "/commit/", status=412)                        # the next commit is refused once
        hub.files("me/set")                                             # {path: bytes} at main
        hub.log                                                         # every request, in order
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import yaml

TOKEN = "hf_test"
"""The token of user ``me``; ``hf_other`` is another user, ``hf_reader`` is ``me`` without the right to write."""

ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
LFS_OVER = 10 << 20
LFS_NAMES = (".parquet", ".arrow", ".bin", ".safetensors", ".zst", ".gz")
PAGE = 1000


@dataclass(frozen=True)
class Blob:
    """One file at one commit; ``sha256`` is set when it lives in LFS."""

    data: bytes
    lfs: bool

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def oid(self) -> str:
        """The Git blob id: of the content, or of the pointer when the content lives in LFS."""
        data = self.data
        if self.lfs:
            data = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(data)}\n".encode()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.oid


@dataclass(frozen=True)
class Commit:
    oid: str
    title: str
    files: dict[str, Blob]
    parent: str | None
    date: str


@dataclass
class Repo:
    type: str
    id: str
    private: bool = False
    gated: bool = False
    refs: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)


@dataclass(frozen=True)
class User:
    name: str
    role: str = "write"
    orgs: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Repositories that exist and that this token may not see, as a fine-grained one."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    status: int
    sent: int
    """Bytes of the body that were sent back."""
    range: str | None
    token: str | None


@dataclass
class Fault:
    method: str
    part: str
    status: int
    times: int
    skip: int
    headers: Mapping[str, str]
    cut: Literal["before", "after", "body"] | None
    call: Callable[[], None] | None = None


class Refused(Exception):
    def __init__(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, headers


class LoopbackHub:
    """The state of the Hub and the thread that serves it on ``127.0.0.1``, at a free port."""

    def __init__(self) -> None:
        self.users = {TOKEN: User("me", orgs=("lab",)), "hf_other": User("other"), "hf_reader": User("me", role="read")}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.store: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.log: list[Request] = []
        self.on_request: Callable[[int, str, str], None] | None = None
        """Called with the 1-based number, method and path of each request before it is handled."""
        self.on_answer: Callable[[int, str, str], None] | None = None
        """The same, after it was handled and before the answer leaves."""
        self.count = 0
        self.lock = threading.RLock()
        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.httpd.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.httpd.server_port}"
        # Another host name, as on the real Hub: a client reads a large file's facts off the redirect itself.
        self.cdn = f"http://localhost:{self.httpd.server_port}"
        self._thread = threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()
        self._thread.join()

    def env(self, home: Path, *, token: str | None = TOKEN) -> dict[str, str]:
        """The settings of a client of this Hub; its cache and token file live below ``home``."""
        quiet = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_UPDATE_CHECK")
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_TOKEN": token or "",
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
            **dict.fromkeys(quiet, "1"),
        }

    def create(
        self,
        repo_id: str,
        *,
        files: Mapping[str, bytes | str] | None = None,
        type: str = "dataset",  # noqa: A002
        private: bool = False,
        gated: bool = False,
    ) -> Repo:
        """A repository as the Hub makes it, with ``files`` in a second commit."""
        with self.lock:
            repo = self.repos[type, repo_id] = Repo(type, repo_id, private, gated)
            self.commit(repo, "main", "initial commit", {".gitattributes": Blob(ATTRIBUTES, lfs=False)})
            if files:
                self.put(repo_id, files, type=type)
            return repo

    def put(
        self,
        repo_id: str,
        files: Mapping[str, bytes | str],
        *,
        type: str = "dataset",  # noqa: A002
        revision: str = "main",
        delete: Iterable[str] = (),
        title: str = "by hand",
    ) -> str:
        """Commit ``files`` from outside, as somebody else would; the commit's id."""
        with self.lock:
            repo = self.repos[type, repo_id]
            new = dict(repo.commits[repo.refs[revision]].files) if revision in repo.refs else self._main(repo)
            for path, data in files.items():
                content = data.encode() if isinstance(data, str) else data
                blob = Blob(content, lfs=is_lfs(path, content))
                if blob.lfs:
                    self.store[blob.sha256] = content
                new[path] = blob
            for path in delete:
                del new[path]
            return self.commit(repo, revision, title, new).oid

    def _main(self, repo: Repo) -> dict[str, Blob]:
        return dict(repo.commits[repo.refs["main"]].files)

    def files(self, repo_id: str, *, type: str = "dataset", revision: str = "main") -> dict[str, bytes]:  # noqa: A002
        """Path to content at a revision, without the Hub's own ``.gitattributes``."""
        with self.lock:
            repo = self.repos[type, repo_id]
            blobs = repo.commits[self.resolve(repo, revision)].files
            return {path: blob.data for path, blob in sorted(blobs.items()) if path != ".gitattributes"}

    def history(self, repo_id: str, *, type: str = "dataset", revision: str = "main") -> list[Commit]:  # noqa: A002
        """Commits from the first to the newest."""
        with self.lock:
            repo = self.repos[type, repo_id]
            oid: str | None = self.resolve(repo, revision)
            found = []
            while oid:
                found.append(repo.commits[oid])
                oid = repo.commits[oid].parent
            return found[::-1]

    def fail(
        self,
        method: str,
        part: str,
        *,
        status: int = 503,
        times: int = 1,
        skip: int = 0,
        headers: Mapping[str, str] | None = None,
        cut: Literal["before", "after", "body"] | None = None,
        call: Callable[[], None] | None = None,
    ) -> None:
        """Let the next ``times`` requests (after ``skip``) of that method, with ``part`` in their path, go wrong.

        ``cut="before"`` drops the connection unhandled, ``"after"`` does the work and drops the answer, ``"body"``
        sends half of the body. ``call`` runs something instead of failing: the request is then handled as usual.
        """
        with self.lock:
            self.faults.append(Fault(method, part, status, times, skip, headers or {}, cut, call))

    def paths(self, method: str, part: str = "") -> list[str]:
        """The logged paths of one method that hold ``part``."""
        return [r.path for r in self.log if r.method == method and part in r.path]

    def resolve(self, repo: Repo, revision: str) -> str:
        name = revision.removeprefix("refs/heads/")
        found = repo.refs.get(name) or repo.tags.get(name) or (name if name in repo.commits else None)
        if found is None:
            raise Refused(404, f"Revision not found: {revision}", "RevisionNotFound")
        return found

    def commit(self, repo: Repo, ref: str, title: str, files: dict[str, Blob], parent: str | None = None) -> Commit:
        """Add a commit and move ``ref`` to it: the only place where a repository changes."""
        parent = parent or repo.refs.get(ref)
        seed = json.dumps([repo.id, ref, title, parent, len(repo.commits), sorted((p, b.oid) for p, b in files.items())])
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        made = Commit(hashlib.sha1(seed.encode()).hexdigest(), title, files, parent, now)
        repo.commits[made.oid] = made
        repo.refs[ref] = made.oid
        return made

    def due(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method == method and fault.part in path:
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None


def is_lfs(path: str, content: bytes) -> bool:
    return path.endswith(LFS_NAMES) or len(content) > LFS_OVER or b"\0" in content[:512]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LoopbackHub
    content: bytes
    query: dict[str, list[str]]
    cut: str | None
    number: int

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: ``hub.log`` holds the requests."""

    # Plumbing

    def answer(self) -> None:
        self.content = self.read_body()
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        with self.hub.lock:
            self.hub.count += 1
            self.number = self.hub.count
        if self.hub.on_request is not None:
            self.hub.on_request(self.number, self.command, url.path)
        fault = self.hub.due(self.command, url.path)
        self.cut = fault.cut if fault else None
        if fault and fault.call:
            fault.call()
        elif self.cut == "before":
            return self.drop(0)
        elif fault and self.cut is None:
            return self.reply({"error": "injected"}, fault.status, dict(fault.headers))
        try:
            self.dispatch(url.path)
        except Refused as refused:
            headers = dict(refused.headers) | {"X-Error-Message": refused.message}
            if refused.code:
                headers["X-Error-Code"] = refused.code
            self.reply({"error": refused.message}, refused.status, headers)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def dispatch(self, path: str) -> None:
        for method, pattern, name in ROUTES:
            if self.command == method or (self.command, method) == ("HEAD", "GET"):
                found = pattern.fullmatch(path)
                if found:
                    named = {k: unquote(v) if v else "" for k, v in found.groupdict().items()}
                    return getattr(self, name)(**named)
        raise Refused(404, f"no route {self.command} {path}")

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, body: Any = b"", status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Content-Type": "application/json", "Content-Length": str(len(data)), "X-Request-Id": "loopback"}
        if self.hub.on_answer is not None:
            self.hub.on_answer(self.number, self.command, urlsplit(self.path).path)
        if self.cut == "after":
            return self.drop(status)
        sent = b"" if self.command == "HEAD" else data
        if self.cut == "body":
            sent = sent[: len(sent) // 2]
        self.note(status, len(sent))
        try:
            self.send_response(status)
            for name, value in (head | dict(headers or {})).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)
        except (BrokenPipeError, ConnectionResetError):  # the client was killed: that is what some tests do
            self.close_connection = True
            return
        if self.cut == "body":
            self.hang_up()

    def note(self, status: int, sent: int) -> None:
        request = Request(self.command, self.path, status, sent, self.headers.get("Range"), self.token)
        with self.hub.lock:
            self.hub.log.append(request)

    def drop(self, status: int) -> None:
        self.note(status if self.cut == "after" else 0, 0)
        self.hang_up()

    def hang_up(self) -> None:
        self.close_connection = True
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    # Who asks

    @property
    def token(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    @property
    def user(self) -> User | None:
        return self.hub.users.get(self.token or "")

    def known_user(self) -> User:
        if self.user is None:
            raise Refused(401, "Invalid username or password.")
        return self.user

    def owns(self, namespace: str) -> bool:
        return self.user is not None and namespace in (self.user.name, *self.user.orgs)

    def repo(self, kind: str, repo_id: str, *, write: bool = False) -> Repo:
        namespace = repo_id.split("/", maxsplit=1)[0]
        found = self.hub.repos.get((kind, repo_id))
        hidden = self.user is not None and repo_id in self.user.hidden
        if found is None or hidden or (found.private and not self.owns(namespace)):
            # As on the Hub, a stranger cannot tell a private repository from a missing one.
            raise Refused(404 if self.user else 401, "Repository not found", "RepoNotFound")
        if write:
            self.may_write(namespace)
        return found

    def may_write(self, namespace: str) -> None:
        if self.known_user().role != "write" or not self.owns(namespace):
            raise Refused(403, f"You don't have the rights to write to {namespace}")

    def at(self, kind: str, repo_id: str, revision: str) -> Commit:
        repo = self.repo(kind, repo_id)
        return repo.commits[self.hub.resolve(repo, revision)]

    # Accounts and repositories

    def whoami(self) -> None:
        user = self.known_user()
        access = {"displayName": "test", "role": user.role}
        orgs = [{"name": name, "type": "org"} for name in user.orgs]
        self.reply({"type": "user", "id": user.name, "name": user.name, "fullname": user.name, "orgs": orgs,
                    "auth": {"type": "access_token", "accessToken": access}})  # fmt: skip

    def create_repo(self) -> None:
        asked = json.loads(self.content)
        namespace = asked.get("organization") or self.known_user().name
        self.may_write(namespace)
        kind, repo_id = asked.get("type", "model"), f"{namespace}/{asked['name']}"
        url = self.page(kind, repo_id)
        with self.hub.lock:
            if (kind, repo_id) in self.hub.repos:
                return self.reply({"error": "You already created this repo", "url": url}, 409)
            private = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.hub.create(repo_id, type=kind, private=private)
        self.reply({"url": url, "name": repo_id, "id": repo_id})

    def page(self, kind: str, repo_id: str) -> str:
        return f"{self.hub.url}/{'' if kind == 'model' else kind + 's/'}{repo_id}"

    def validate_yaml(self) -> None:
        text = json.loads(self.content)["content"]
        found = re.match(r"---\r?\n(.*?)\r?\n---(\r?\n|$)", text, re.S)
        try:
            yaml.safe_load(found[1] if found else "")
        except yaml.YAMLError as fault:
            return self.reply({"errors": [{"message": str(fault)}], "warnings": []}, 400)
        self.reply({"errors": [], "warnings": []})

    def info(self, kind: str, repo_id: str, revision: str = "main") -> None:
        repo, commit = self.repo(kind, repo_id), self.at(kind, repo_id, revision or "main")
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        self.reply({"_id": repo_id, "id": repo_id, "author": repo_id.split("/", maxsplit=1)[0], "sha": commit.oid,
                    "private": repo.private, "gated": "auto" if repo.gated else False, "disabled": False,
                    "downloads": 0, "likes": 0, "tags": [], "lastModified": commit.date, "createdAt": commit.date,
                    "siblings": siblings})  # fmt: skip

    def refs(self, kind: str, repo_id: str) -> None:
        repo = self.repo(kind, repo_id)
        pulls = [n for n in repo.refs if n.startswith("refs/pr/")]
        converts = [n for n in repo.refs if n.startswith("refs/convert/")]
        heads = [n for n in repo.refs if not n.startswith("refs/")]

        def listed(names: Iterable[str], where: str, table: dict[str, str]) -> list[dict[str, str]]:
            return [{"name": n, "ref": where + n, "targetCommit": table[n]} for n in names]

        answer = {
            "branches": listed(heads, "refs/heads/", repo.refs),
            "tags": listed(repo.tags, "refs/tags/", repo.tags),
            "converts": listed(converts, "", repo.refs),
        }
        if "include_prs" in self.query:
            answer["pullRequests"] = listed(pulls, "", repo.refs)
        self.reply(answer)

    def commits(self, kind: str, repo_id: str, revision: str) -> None:
        self.at(kind, repo_id, revision)
        newest_first = self.hub.history(repo_id, type=kind, revision=revision)[::-1]
        self.reply([{"id": c.oid, "title": c.title, "message": "", "date": c.date, "authors": [{"user": "me"}]}
                    for c in newest_first])  # fmt: skip

    def branch(self, kind: str, repo_id: str, name: str) -> None:
        repo = self.repo(kind, repo_id, write=True)
        with self.hub.lock:
            if name in repo.refs:
                raise Refused(409, f"Reference already exists: refs/heads/{name}")
            start = json.loads(self.content or b"{}").get("startingPoint") or "main"
            repo.refs[name] = self.hub.resolve(repo, start)
        self.reply({}, 201)

    def tag(self, kind: str, repo_id: str, revision: str) -> None:
        repo = self.repo(kind, repo_id, write=True)
        with self.hub.lock:
            name = json.loads(self.content)["tag"]
            if name in repo.tags:
                raise Refused(409, f"Tag already exists: {name}")
            repo.tags[name] = self.hub.resolve(repo, revision)
        self.reply({}, 201)

    # Reading

    def tree(self, kind: str, repo_id: str, revision: str, sub: str = "") -> None:
        commit = self.at(kind, repo_id, revision)
        prefix = sub.rstrip("/") + "/" if sub else ""
        recursive = self.query.get("recursive", ["false"])[0].lower() in ("true", "1")
        rows: dict[str, dict[str, Any]] = {}
        for path, blob in sorted(commit.files.items()):
            if path.startswith(prefix):
                parts = path.removeprefix(prefix).split("/")
                for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
                    folder = prefix + "/".join(parts[:depth])
                    rows.setdefault(folder, entry(folder, None))
                if recursive or len(parts) == 1:
                    rows[path] = entry(path, blob)
        if sub and not rows:
            raise Refused(404, f"{sub} does not exist on {revision}", "EntryNotFound")
        start = int(self.query.get("cursor", ["0"])[0])
        headers = {}
        if start + PAGE < len(rows):
            base = self.hub.url + urlsplit(self.path).path
            headers["Link"] = f'<{base}?recursive={recursive}&cursor={start + PAGE}>; rel="next"'
        self.reply(list(rows.values())[start : start + PAGE], 200, headers)

    def paths_info(self, kind: str, repo_id: str, revision: str) -> None:
        if "json" in self.headers.get("Content-Type", ""):
            paths = json.loads(self.content)["paths"]
        else:
            paths = [value for key, value in parse_qsl(self.content.decode()) if key == "paths"]
        files = self.at(kind, repo_id, revision).files
        rows = []
        for path in (p.strip("/") for p in paths):
            if path in files:
                rows.append(entry(path, files[path]))
            elif any(name.startswith(path + "/") for name in files):
                rows.append(entry(path, None))
        self.reply(rows)

    def file(self, kind: str, repo_id: str, revision: str, path: str) -> None:
        kind = kind.rstrip("s/") or "model"
        repo, commit = self.repo(kind, repo_id), self.at(kind, repo_id, revision)
        if repo.gated and not self.owns(repo_id.split("/", maxsplit=1)[0]):
            raise Refused(403 if self.user else 401, f"Access to dataset {repo_id} is restricted.", "GatedRepo")
        blob = commit.files.get(path)
        if blob is None:
            raise Refused(404, "Entry not found", "EntryNotFound", **{"X-Repo-Commit": commit.oid})
        headers = {"X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes", "ETag": f'"{blob.etag}"'}
        if blob.lfs:
            linked = {"X-Linked-Size": str(len(blob.data)), "X-Linked-ETag": f'"{blob.sha256}"'}
            return self.reply(b"", 302, headers | linked | {"Location": f"{self.hub.cdn}/_cdn/{blob.sha256}"})
        self.ranged(blob.data, headers)

    def cdn_file(self, sha: str) -> None:
        if sha not in self.hub.store:
            raise Refused(404, "no such object")
        self.ranged(self.hub.store[sha], {"ETag": f'"{sha}"', "Accept-Ranges": "bytes"})

    def ranged(self, data: bytes, headers: dict[str, str]) -> None:
        headers = {"Content-Type": "application/octet-stream", **headers}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        low, high, status = 0, len(data), 200
        if asked and (asked[1] or asked[2]) and data:
            low = int(asked[1]) if asked[1] else max(len(data) - int(asked[2]), 0)
            high = min(int(asked[2]) + 1, len(data)) if asked[1] and asked[2] else len(data)
            if low >= high:
                return self.reply(b"", 416, {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            headers["Content-Range"] = f"bytes {low}-{high - 1}/{len(data)}"
        self.reply(data[low:high], status, headers)

    # Writing

    def preupload(self, kind: str, repo_id: str, revision: str) -> None:
        repo = self.repo(kind, repo_id, write="create_pr" not in self.query)
        self.known_user()
        files = repo.commits[self.hub.resolve(repo, revision)].files
        ignored = files[".gitignore"].data.decode().split() if ".gitignore" in files else []
        rows = []
        for asked in json.loads(self.content)["files"]:
            path, sample = asked["path"], base64.b64decode(asked.get("sample", ""))
            large = asked["size"] > LFS_OVER or is_lfs(path, sample)
            have = files.get(path)
            rows.append({"path": path, "uploadMode": "lfs" if large else "regular", "oid": have.etag if have else None,
                         "shouldIgnore": any(path.startswith(i.strip("/")) for i in ignored)})  # fmt: skip
        self.reply({"files": rows})

    def lfs_batch(self, kind: str, repo_id: str) -> None:
        self.repo(kind.rstrip("s/") or "model", repo_id)
        self.known_user()
        rows = []
        for asked in json.loads(self.content)["objects"]:
            row = {"oid": asked["oid"], "size": asked["size"], "authenticated": True}
            if asked["oid"] not in self.hub.store:
                put = {"href": f"{self.hub.url}/_lfs/{asked['oid']}", "header": {}}
                row["actions"] = {"upload": put, "verify": {"href": f"{self.hub.url}/_lfs-verify", "header": {}}}
            rows.append(row)
        self.reply({"transfer": "basic", "objects": rows})

    def lfs_put(self, sha: str) -> None:
        if hashlib.sha256(self.content).hexdigest() != sha:
            raise Refused(422, "the content does not have this hash")
        with self.hub.lock:
            self.hub.store[sha] = self.content
        self.reply()

    def lfs_verify(self) -> None:
        asked = json.loads(self.content)
        if len(self.hub.store.get(asked["oid"], b"")) != asked["size"]:
            raise Refused(404, "object not found or of another size")
        self.reply({})

    def commit_files(self, kind: str, repo_id: str, revision: str) -> None:
        lines = [json.loads(line) for line in self.content.splitlines() if line.strip()]
        head = next(line["value"] for line in lines if line["key"] == "header")
        pull = self.query.get("create_pr") == ["1"]
        repo = self.repo(kind, repo_id, write=not pull)
        self.known_user()
        with self.hub.lock:
            if revision not in repo.refs:
                raise Refused(404, f"Revision not found: {revision}", "RevisionNotFound")
            base = repo.refs[revision]
            if head.get("parentCommit", base) != base and not pull:
                raise Refused(412, "A commit has happened since. Please refresh and try again.")
            base = head.get("parentCommit", base)
            files = dict(repo.commits[base].files)
            for line in lines:
                self.apply(line["key"], line.get("value", {}), files)
            number = sum(name.startswith("refs/pr/") for name in repo.refs) + 1
            ref = f"refs/pr/{number}" if pull else revision
            made = self.hub.commit(repo, ref, head.get("summary", ""), files, base)
        page = self.page(kind, repo_id)
        self.reply({"success": True, "commitOid": made.oid, "commitUrl": f"{page}/commit/{made.oid}", "hookOutput": "",
                    "pullRequestUrl": f"{page}/discussions/{number}" if pull else None})  # fmt: skip

    def apply(self, key: str, value: dict[str, Any], files: dict[str, Blob]) -> None:
        path = value.get("path", "")
        if key == "file":
            content = value["content"]
            data = base64.b64decode(content) if value.get("encoding") == "base64" else content.encode()
            files[path] = Blob(data, lfs=False)
        elif key == "lfsFile":
            if value["oid"] not in self.hub.store:
                raise Refused(400, f"the content of {path} was never uploaded")
            files[path] = Blob(self.hub.store[value["oid"]], lfs=True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise Refused(400, f"cannot delete {path}: it is not there")
        elif key != "header":
            raise Refused(400, f"unknown operation {key}")


def entry(path: str, blob: Blob | None) -> dict[str, Any]:
    """A line of a tree listing."""
    if blob is None:
        return {"type": "directory", "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0, "path": path}
    row = {"type": "file", "oid": blob.oid, "size": len(blob.data), "path": path}
    return row | ({"lfs": {"oid": blob.sha256, "size": len(blob.data), "pointerSize": 134}} if blob.lfs else {})


_KIND, _ID = r"(?P<kind>model|dataset|space)s", r"(?P<repo_id>[\w.-]+/[\w.-]+)"
_REV = r"(?P<revision>refs/(?:pr|convert|heads)/[^/]+|[^/]+)"
_API = rf"/api/{_KIND}/{_ID}"
_PAGE = rf"/(?P<kind>datasets/|spaces/)?{_ID}"
ROUTES = [
    (method, re.compile(pattern), name)
    for method, pattern, name in [
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/repos/create", "create_repo"),
        ("POST", r"/api/validate-yaml", "validate_yaml"),
        ("GET", _API, "info"),
        ("GET", rf"{_API}/revision/{_REV}", "info"),
        ("GET", rf"{_API}/refs", "refs"),
        ("GET", rf"{_API}/commits/{_REV}", "commits"),
        ("POST", rf"{_API}/branch/(?P<name>.+)", "branch"),
        ("POST", rf"{_API}/tag/{_REV}", "tag"),
        ("GET", rf"{_API}/tree/{_REV}(?:/(?P<sub>.+?))?/?", "tree"),
        ("POST", rf"{_API}/paths-info/{_REV}", "paths_info"),
        ("POST", rf"{_API}/preupload/{_REV}", "preupload"),
        ("POST", rf"{_API}/commit/{_REV}", "commit_files"),
        ("POST", rf"{_PAGE}\.git/info/lfs/objects/batch", "lfs_batch"),
        ("PUT", r"/_lfs/(?P<sha>[0-9a-f]{64})", "lfs_put"),
        ("POST", r"/_lfs-verify", "lfs_verify"),
        ("GET", r"/_cdn/(?P<sha>[0-9a-f]{64})", "cdn_file"),
        ("GET", rf"{_PAGE}/resolve/{_REV}/(?P<path>.+)", "file"),
    ]
]
