"""Push to the Hub: one commit that holds everything, or none.

Large files go up first and stay invisible; then one commit places shards, ledger, manifest and card and deletes the shards of the
push before, on top of the commit that was looked at. ``upload_folder`` splits a folder into several commits and
``Dataset.push_to_hub`` does not retry a conflict (huggingface_hub 2.4, datasets 5.2), so neither is used. When the answer to a
commit is lost, the history is read before anything is sent again. An interrupted push is continued by running it again: what was
uploaded is not sent twice, and a push that changes nothing makes no commit.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from curate import payload, plan, readme, remote
from curate.check import verify_out
from curate.errors import CurateError, UsageError

__all__ = ["Push", "describe", "push", "verify_out"]

TRIES: Final = 6
"""Looks at the repository before a push gives up: with the waits below, about a minute."""

RETRY: Final = frozenset({408, 409, 412, 429, 500, 502, 503, 504})
"""Conflict, moved head, too many requests, and a server that may be back in a moment."""

LONGEST_WAIT: Final = 300.0
"""Seconds; a Hub that asks for more is not waited for."""

PULLS_SEEN: Final = 3
"""Newest pull requests that are looked at for one that holds this push already."""

_CONFIG = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What a push did, or with ``dry_run`` would do. Sizes in bytes; paths are those in the repository."""

    repo: str
    url: str
    """Of the commit or pull request; of the data set when nothing was to change, or nothing was done."""
    committed: bool
    commit: str | None
    dry_run: bool
    created: bool
    """Whether the repository is new."""
    files: Mapping[str, int]
    """What the commit adds or replaces."""
    unchanged: tuple[str, ...]
    deletions: tuple[str, ...]
    card: str
    bare: bool
    """Whether it was Parquet without a ledger and a manifest."""

    def json(self) -> dict[str, Any]:
        return {
            "repo": self.repo,
            "url": self.url,
            "committed": self.committed,
            "commit": self.commit,
            "dry_run": self.dry_run,
            "created": self.created,
            "files": dict(self.files),
            "bytes": sum(self.files.values()),
            "unchanged": list(self.unchanged),
            "deletions": list(self.deletions),
            "bare": self.bare,
        }


def describe(done: Push) -> str:
    """What a push did or would do, for people: files with their bytes, deletions, and in a dry run the card."""
    verb = "would add or replace" if done.dry_run else "added or replaced"
    lines = [f"{verb} {len(done.files):,} files, {sum(done.files.values()):,} bytes; {len(done.unchanged):,} are there already"]
    lines += [f"  {size:>15,}  {path}" for path, size in done.files.items()]
    lines += [f"  {'delete':>15}  {path}" for path in done.deletions]
    if done.bare:
        lines.append("no ledger and no manifest: these rows are published as they are")
    if done.dry_run:
        lines += ["", done.card.rstrip()]
    return "\n".join(lines)


def push(
    out: Path,
    repo: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    commit_message: str | None = None,
    token: str | None = None,
    dry_run: bool = False,
    config: str | None = None,
    notify: Callable[[str], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Push:
    """Publish a folder of ``select``, or a bare Parquet file or folder, as one config of a data set.

    Args:
        out: The folder or file.
        repo: ``org/name``; made when it does not exist.
        private: True asks for a private repository and stops, before any upload, at a public one. None leaves it as it is.
        revision: A branch, made from main when it does not exist, or ``refs/pr/N``. None means main.
        create_pr: Open a pull request instead of committing.
        commit_message: First line of the commit.
        token: Instead of the one of the environment.
        dry_run: Say what would happen; nothing is sent.
        config: Name of the config; None means ``default``, whose rows lie in ``data/``.
        notify: Takes sentences about progress and retries.
        sleep: Waits between tries, in seconds.

    Raises:
        UsageError: ``repo``, ``config`` or ``revision`` is no name.
        CurateError: The folder is not whole, the Hub refuses, or the repository holds what must not be harmed.
    """
    name = config or "default"
    _check_names(repo, name, revision, create_pr)
    at = remote.access(token)
    wanted = payload.load(out)
    if at.offline:
        raise CurateError("HF_HUB_OFFLINE is on, so nothing can be pushed; set HF_HUB_OFFLINE=0.")
    if at.token is None:
        raise CurateError("There is no token to push with: log in with `hf auth login`, set HF_TOKEN, or pass --token.")
    session = _Session(
        repo=repo,
        config=name,
        wanted=wanted,
        at=at,
        private=private,
        revision=revision,
        create_pr=create_pr,
        message=commit_message or _message(wanted, name),
        dry_run=dry_run,
        notify=notify or (lambda _: None),
    )
    return _try(session, sleep)


def _check_names(repo: str, config: str, revision: str | None, create_pr: bool) -> None:
    parsed = remote.parse(repo)
    if parsed is None or parsed.config or parsed.revision:
        raise UsageError(f"{repo} is no repository; write org/name, and --config and --revision beside it.")
    # `data` would put its rows where those of `default` are.
    if not _CONFIG.fullmatch(config) or config == "data":
        raise UsageError(f"{config} is no name for a config; use letters, digits, '.', '-' and '_', and not `data`.")
    if create_pr and (revision or "").startswith("refs/pr/"):
        raise UsageError(f"--create-pr opens a new pull request; leave it out to push to {revision}.")


def _message(wanted: plan.Payload, config: str) -> str:
    beside = "" if config == "default" else f", config {config}"
    rows = sum(wanted.rows.values())
    chosen = "rows, as they are" if wanted.manifest is None else "traces"
    return f"{rows:,} {chosen}{beside} (curate {metadata.version('trace-curate')})"


def _try(session: _Session, sleep: Callable[[float], None]) -> Push:
    """Look, upload, commit; look again after whatever may pass, at most ``TRIES`` times."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # the client's own, whatever its name

    for attempt in range(1, TRIES + 1):
        try:
            return session.run()
        except HFValidationError as fault:
            raise session.explain(fault) from None
        except (HfHubHTTPError, httpx.TransportError) as fault:
            status = fault.response.status_code if isinstance(fault, HfHubHTTPError) else None
            wait = _wait(fault, attempt)
            passing = status in RETRY if status else session.reached
            if not passing or attempt == TRIES or wait > LONGEST_WAIT:
                raise session.explain(fault) from None
            what = f"status {status}" if status else "the connection was lost"
            session.notify(f"{what}; looking again in {wait:.0f} s ({attempt} of {TRIES - 1})")
            sleep(wait)
    raise AssertionError("the last try returns or raises")


def _wait(fault: BaseException, attempt: int) -> float:
    """Seconds until the next try: what the Hub asks for, else 1, 2, 4, 8, 16."""
    headers = getattr(getattr(fault, "response", None), "headers", {})
    asked = headers.get("Retry-After") or next(iter(re.findall(r"\bt=(\d+)", headers.get("RateLimit", ""))), "")
    return float(asked) if asked.isdigit() else float(2 ** (attempt - 1))


@dataclass(slots=True, kw_only=True)
class _Session:
    """One push across its tries: what was asked, and what is known to have happened."""

    repo: str
    config: str
    wanted: plan.Payload
    at: remote.Access
    private: bool | None
    revision: str | None
    create_pr: bool
    message: str
    dry_run: bool
    notify: Callable[[str], None]
    hashes: plan.Hashes = field(default_factory=plan.Hashes)
    reached: bool = False
    created: bool = False
    sent_onto: str | None = None
    """The parent of a commit that was sent and may have landed."""

    @property
    def api(self) -> Any:
        from huggingface_hub import HfApi

        return HfApi(**self.at.options())

    def run(self) -> Push:
        state, branch = self._look()
        if state is None:
            self._refuse_other_kind()
            if self.dry_run:
                made = self._plan(plan.EMPTY)
                return self._result(made, url=self._page(), committed=False)
            state = self._create()
        self._refuse_public(state)
        made = self._plan(state)
        done = self._landed(state, made)
        if done is not None:
            return done
        if not self.dry_run and not branch:
            self.api.create_branch(self.repo, repo_type="dataset", branch=self.revision, revision=state.commit, exist_ok=True)
        if self.dry_run or made.empty:
            return self._result(made, url=self._page(), committed=False)
        return self._commit(made, state)

    # Looking

    def _look(self) -> tuple[plan.State | None, bool]:
        """The repository now, and whether the branch exists (if not, main stands for it)."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        try:
            try:
                info, branch = self.api.dataset_info(self.repo, revision=self.revision), True
            except RevisionNotFoundError:
                if (self.revision or "").startswith("refs/") or self.create_pr:
                    raise
                info, branch = self.api.dataset_info(self.repo), False
        except RepositoryNotFoundError:
            self.reached = True
            return None, True
        self.reached = True
        return self._state(str(info.sha), bool(info.private)), branch

    def _state(self, commit: str, private: bool) -> plan.State:
        from huggingface_hub.hf_api import RepoFile

        tree = self.api.list_repo_tree(self.repo, repo_type="dataset", recursive=True, revision=commit)
        files = {
            f.path: (f.size, f.lfs.sha256 if f.lfs is not None else f.blob_id)
            for f in tree
            if isinstance(f, RepoFile) and f.path != ".gitattributes"
        }
        text = self._text(commit, "README.md") if "README.md" in files else None
        path = readme.folder(self.config) + "manifest.json"
        manifest = payload.ours(self._text(commit, path)) if path in files else None
        return plan.State(commit=commit, private=private, files=files, readme=text, manifest=manifest)

    def _text(self, commit: str, path: str) -> str:
        found = self.api.hf_hub_download(self.repo, path, repo_type="dataset", revision=commit, cache_dir=self.at.cache)
        with Path(found).open(encoding="utf-8", errors="replace", newline="") as file:
            return file.read()

    def _plan(self, state: plan.State) -> plan.Plan:
        return plan.make(self.wanted, state, repo=self.repo, config=self.config, hashes=self.hashes)

    def _landed(self, state: plan.State, made: plan.Plan) -> Push | None:
        """This push where it is already: a commit whose answer was lost, or a pull request that holds the same."""
        if made.empty and self.sent_onto is None:
            return None
        if self.create_pr:
            refs = self.api.list_repo_refs(self.repo, repo_type="dataset", include_pull_requests=True).pull_requests or []
            newest = sorted(refs, key=lambda r: int(r.ref.rsplit("/", 1)[-1]), reverse=True)[:PULLS_SEEN]
            for ref in newest:
                left = self._plan(self._state(ref.target_commit, state.private))
                if left.empty:
                    landed = self.sent_onto is not None
                    url = f"{self._page()}/discussions/{ref.ref.rsplit('/', 1)[-1]}"
                    return self._result(made if landed else left, url=url, committed=landed, commit=ref.target_commit)
        elif self.sent_onto is not None and state.commit != self.sent_onto:
            for item in self.api.list_repo_commits(self.repo, repo_type="dataset", revision=state.commit):
                if item.commit_id == self.sent_onto:
                    break
                if self._plan(self._state(item.commit_id, state.private)).empty:
                    url = f"{self._page()}/commit/{item.commit_id}"
                    return self._result(made, url=url, committed=True, commit=item.commit_id)
        return None

    # Changing

    def _create(self) -> plan.State:
        self.api.create_repo(self.repo, repo_type="dataset", private=self.private, exist_ok=True)
        state, _ = self._look()
        if state is None:
            raise CurateError(f"The name {self.repo} is taken by something that your token may not see; choose another name.")
        self.created = True
        self.notify(f"made {'private ' if state.private else 'public '}data set {self.repo}")
        return state

    def _refuse_other_kind(self) -> None:
        for kind in ("model", "space"):
            if self.api.repo_exists(self.repo, repo_type=kind):
                raise CurateError(f"{self.repo} is a {kind}, not a data set; choose another name.")

    def _refuse_public(self, state: plan.State) -> None:
        if self.private and not state.private:
            raise CurateError(
                f"{self.repo} is public and --private was asked for; nothing was uploaded. "
                "Make it private in its settings, or choose another name."
            )

    def _commit(self, made: plan.Plan, state: plan.State) -> Push:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        additions = [CommitOperationAdd(path, content) for path, content in made.add.items()]
        where = {"repo_type": "dataset", "revision": self.revision, "create_pr": self.create_pr}
        size = sum(_size(content) for content in made.add.values())
        self.notify(f"uploading {len(additions):,} files, {size:,} bytes; deleting {len(made.delete):,}")
        self._upload(additions, where)
        ignored = [a.path_in_repo for a in additions if a._should_ignore]
        if ignored:
            raise CurateError(f"The .gitignore of {self.repo} leaves {ignored[0]} out; take that line from it, then push again.")
        operations = [*additions, *(CommitOperationDelete(path, is_folder=False) for path in made.delete)]
        self.sent_onto = state.commit
        done = self._send(operations, where | {"commit_message": self.message, "parent_commit": state.commit})
        self._verify(done.oid, state)
        return self._result(made, url=str(done.pr_url or done.commit_url), committed=True, commit=str(done.oid))

    def _upload(self, additions: list[Any], where: Mapping[str, Any]) -> None:
        """Send the large files; the client hides what went wrong with one behind a RuntimeError."""
        from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

        try:
            self.api.preupload_lfs_files(self.repo, additions, **where)
        except (RuntimeError, OSError) as fault:
            known = next((f for f in (fault, fault.__cause__) if isinstance(f, httpx.HTTPError)), None)
            if known is not None:
                raise known from None
            reason = str(fault)[:200]
            raise CurateError(f"The upload to {self.repo} stopped ({reason}); push again, it goes on where it was.") from None

    def _send(self, operations: list[Any], options: Mapping[str, Any]) -> Any:
        """Commit. Before it the client asks the Hub about the card, and raises a ValueError when the Hub minds."""
        from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

        try:
            return self.api.create_commit(self.repo, operations, **options)
        except json.JSONDecodeError as fault:
            raise httpx.RemoteProtocolError("an answer that is no JSON") from fault
        except ValueError as fault:
            if isinstance(fault, httpx.HTTPError):
                raise
            reason = " ".join(str(fault).split())[:300]
            raise CurateError(
                f"The Hub refuses the card of {self.repo} ({reason}); mend the README there, then push again."
            ) from None

    def _verify(self, commit: str, state: plan.State) -> None:
        """Look at the new commit: what is not there was not published."""
        left = self._plan(self._state(commit, state.private))
        if not left.empty:
            some = next(iter((*left.add, *left.delete)))
            raise CurateError(f"The commit {commit[:12]} of {self.repo} is not what was sent ({some}); look at its file list.")

    # Saying

    def _page(self) -> str:
        return f"{self.at.endpoint}/datasets/{self.repo}"

    def _result(self, made: plan.Plan, *, url: str, committed: bool, commit: str | None = None) -> Push:
        return Push(
            repo=self.repo,
            url=url,
            committed=committed,
            commit=commit,
            dry_run=self.dry_run,
            created=self.created,
            files={path: _size(content) for path, content in sorted(made.add.items())},
            unchanged=made.unchanged,
            deletions=made.delete,
            card=made.card,
            bare=self.wanted.manifest is None,
        )

    def explain(self, fault: Exception) -> CurateError:
        from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

        status = fault.response.status_code if isinstance(fault, HfHubHTTPError) else None
        if isinstance(fault, RevisionNotFoundError):
            return CurateError(f"{self.repo} has no {self.revision} to push to; make it first, or leave --revision out.")
        if status in (409, 412):
            return CurateError(
                f"Somebody else keeps changing {self.repo}: each of {TRIES} tries met a newer commit (status {status}). "
                "Nothing was published; push again later."
            )
        return remote.explain(fault, repo=self.repo, revision=self.revision, at=self.at)


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
