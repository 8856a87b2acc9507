"""Exact token counts from a ``tokenizer.json``: a fast engine, checked against the reference before it is believed.

``fastokens`` counts 100-300 MB/s on two cores and loads in about 1 s; Hugging Face ``tokenizers``, the reference, counts
1-4 MB/s and loads in 0.4 s. So inputs under ``SMALL`` bytes go straight to the reference. Ids are never kept: each call
of the engine holds those of at most ``BATCH`` bytes of text, unless one text alone is longer.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from curate import room
from curate.errors import CurateError
from curate.room import Long

SMALL: Final = 3_000_000
BATCH: Final = 8_000_000
_REFERENCE_BATCH: Final = 1_000_000
_SAMPLE_ROWS: Final = 32
_SAMPLE_CHARS: Final = 16_000
_GROWTH: Final = 160 << 20
"""Resident bytes a process may grow while the engine counts: its word cache is dropped then. Real traces stay under 60 MB."""

Lengths = np.ndarray[Any, np.dtype[np.uint32]]
Note = Callable[[str], None]

PROBES: Final[tuple[str, ...]] = (
    "",
    " ",
    "a",
    "\n\n\n",
    " \t \r\n  x",
    "Let me think. 12345 + 67890 = 80235, so x = 3.14159e-10.",
    "<think>\nOkay, so I need to find $\\frac{a}{b}$.\n</think>\n\n**Answer:** \\boxed{42}",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<|endoftext|>",
    "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜></think>ok<｜end▁of▁sentence｜>",
    "<s>[INST] hi [/INST]</s><|eot_id|><think><think></think></think>< think >",
    "def f(n):\n    return [x**2 for x in range(n) if x % 2 == 0]  # even\n\tpass\r\n",
    '#include <bits/stdc++.h>\nint main(){long long n;std::cin>>n;for(int i=0;i<n;++i)puts("");}',
    "don't I'LL we’re they'Ve it's",
    "Ünïcödé e\u0301 \u1e9b\u0323 ﬁ Ǆ ß İ",
    "\u1100\u1161\u11a8 한국어 日本語テキスト 中文，标点。 ไทย العربية עברית हिन्दी বাংলা",
    "١٢٣ ⅷ ² ½ 𝟘 ٠",
    "👩‍👩‍👧‍👦 🇩🇪 ✅ \ufe0f \u200d \u200b \ufeff \u00a0 \u2028",
    "\x00\x01 nul\x00inside \x7f",
    "a" * 300 + " " * 300 + "-" * 300 + "\n" * 50,
    "0123456789abcdef" * 40,
    "CamelCaseHTTPServer snake_case_name SCREAMING kebab-case-word",
    "∀ε>0 ∃δ: |x−a|<δ ⇒ |f(x)−L|<ε; Σ_{i=1}^n i² = n(n+1)(2n+1)/6",
)
"""Texts on which engines are known to differ: marks, control tokens, blanks, digits, scripts, combining marks, long runs."""


class Encoder:
    """Counts the tokens of texts with the tokenizer of one ``tokenizer.json``. Threads may share it.

    ``seen`` and ``remember`` make the gate's verdict outlive the process: ``seen(key)`` is true when this tokenizer,
    engine and version have met before and agreed.
    """

    def __init__(
        self,
        path: Path,
        *,
        note: Note | None = None,
        seen: Callable[[str], bool] | None = None,
        remember: Callable[[str], None] | None = None,
        small: int = SMALL,
    ) -> None:
        self.path, self.small = path, small
        self._note = note or (lambda _: None)
        self._seen, self._remember = seen or (lambda _: False), remember or (lambda _: None)
        self._text = _read(path)
        self.sha256 = hashlib.sha256(self._text).hexdigest()
        self._added, self._cuttable = _added_tokens(self._text, path)
        self._lock = threading.RLock()
        self._fast: Any = None
        self._slow: Any = None
        self._refused = False
        self._grew, self._most = 0, _GROWTH
        self.checked = False

    @property
    def engine(self) -> str:
        """Name and version of the engine that counts now."""
        name = "tokenizers" if self._fast is None else "fastokens"
        return f"{name} {importlib.metadata.version(name)}"

    def control_tokens(self) -> list[str]:
        """Texts of the added tokens that are control tokens: special ones, and others between ``<|`` and ``|>``."""
        return [t["content"] for t in self._added if t.get("special") or t["content"].startswith(("<|", "<｜"))]

    def lengths(self, texts: Sequence[str | Long], *, total: int | None = None) -> Lengths:
        """Tokens of each text, no special tokens added, marks and control tokens in the text counted as such.

        ``total``: bytes of text to come in all, where known; it decides whether loading the fast engine pays.
        """
        out = np.zeros(len(texts), np.uint32)
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        if not len(texts):
            return out
        if self._fast is None and not self._refused and max(int(sizes.sum()), total or 0) >= self.small:
            self._open_fast(texts)
        limit = BATCH if self._fast is not None else _REFERENCE_BATCH
        for start, stop in _batches(sizes, limit):
            one = texts[start]
            if stop - start == 1 and self._cuttable and len(one) > _PIECE:
                long = one if isinstance(one, Long) else Long(one.encode())
                out[start] = sum(int(self._measured([piece.decode()])[0]) for piece in _pieces(long))
            else:
                out[start:stop] = self._measured([str(t) for t in texts[start:stop]])
        return out

    def _measured(self, part: list[str]) -> Lengths:
        before = _resident()
        counts = self._count(part)
        self._grew += _resident() - before
        if self._grown():
            self._renew()
        return counts

    def _count(self, part: list[str]) -> Lengths:
        with self._lock:  # a fresh engine may be on its way: the reference would take longer than that
            fast = self._fast
        if fast is not None:
            try:
                return _flat(fast, part)[1]
            except BaseException as fault:  # a Rust panic is no Exception
                if isinstance(fault, KeyboardInterrupt | SystemExit | MemoryError):
                    raise
                self._refuse(f"failed on a text ({fault})")
        # The reference keeps some 100 bytes a token until its batch is counted.
        return np.concatenate(
            [
                np.array([len(e) for e in self._encode(part[a:b])], np.uint32)
                for a, b in _batches(np.array([len(t) for t in part], np.int64), _REFERENCE_BATCH)
            ]
        )

    def _encode(self, part: list[str]) -> list[Any]:
        out: list[Any] = self._reference().encode_batch_fast(part, add_special_tokens=False)
        return out

    def _reference(self) -> Any:
        with self._lock:
            if self._slow is None:
                from tokenizers import Tokenizer

                try:
                    self._slow = Tokenizer.from_buffer(self._text)
                except Exception as fault:
                    raise CurateError(f"{self.path} is not a tokenizer.json that tokenizers can read ({fault}).") from fault
                self._slow.no_truncation()
                self._slow.no_padding()
            return self._slow

    def _open_fast(self, texts: Sequence[str | Long]) -> None:
        """Load the fast engine and pass it through the gate; on any difference stay with the reference, and say so."""
        with self._lock:  # to the end: a second thread would load a second engine
            if self._fast is not None or self._refused:
                return
            room.trim()
            try:
                fast = _load(self._text)
            except BaseException as fault:
                if isinstance(fault, KeyboardInterrupt | SystemExit | MemoryError):
                    raise
                self._refuse(f"refuses this tokenizer ({fault})")
                return
            key = f"{self.sha256} fastokens {importlib.metadata.version('fastokens')}"
            if not self._seen(key):
                if (why := self._difference(fast, texts)) is not None:
                    self._refuse(why)
                    return
                self._remember(key)
                self._slow = None
            gc.collect()
            room.trim()
            self._fast, self.checked, self._grew = fast, True, 0

    def _difference(self, fast: Any, texts: Sequence[str | Long]) -> str | None:
        """Where the ids of the two engines differ on the probes or on a sample of the user's rows; None if nowhere."""
        step = max(1, len(texts) // _SAMPLE_ROWS)
        own = [t.head(_SAMPLE_CHARS) if isinstance(t, Long) else t[:_SAMPLE_CHARS] for t in texts[::step][:_SAMPLE_ROWS]]
        marks = [f"x{t} {t}\n{t}" for t in self.control_tokens()[:64]]
        probes = [*PROBES, *marks, *own]
        try:
            ids, lengths = _flat(fast, probes)
        except BaseException as fault:
            if isinstance(fault, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            return f"failed on a probe ({fault})"
        ends = np.cumsum(lengths)
        for probe, end, n, true in zip(probes, ends, lengths, self._encode(probes), strict=True):
            if ids[end - n : end].tolist() != true.ids:
                return f"differs from tokenizers on {probe[:40]!r}"
        return None

    def _refuse(self, why: str) -> None:
        self._fast, self._refused, self.checked = None, True, False
        version = importlib.metadata.version("fastokens")
        self._note(f"fastokens {version} {why}: counting with tokenizers instead, exact but some 50 times slower.")

    def _grown(self) -> bool:
        return self._fast is not None and self._grew > self._most

    def _renew(self) -> None:
        """A fresh engine, without the words it has cached: random text would fill the memory with them."""
        with self._lock:
            if not self._grown():  # another thread has done it
                return
            before = _resident()
            self._fast = None  # the old one must go before the new one comes
            gc.collect()
            room.trim()
            if before - _resident() < self._most // 2:
                self._most *= 4  # the memory was not the engine's: another engine each batch would cost a second for nothing
            self._fast = _load(self._text)
            self._grew = 0


def _flat(engine: Any, texts: list[str]) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], Lengths]:
    ids, offsets = engine.encode_batch_flat(texts)
    return np.frombuffer(ids, np.uint32), np.diff(np.frombuffer(offsets, np.uint64)).astype(np.uint32)


def _load(text: bytes) -> Any:
    import fastokens

    engine = fastokens.Tokenizer.from_json_str(text.decode())
    engine.no_truncation()
    engine.no_padding()
    return engine


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise CurateError(f"{path} cannot be read ({fault.strerror}). --tokenizer takes a tokenizer.json.") from fault


def _added_tokens(text: bytes, path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The added tokens, and whether long texts may be counted in pieces (``_cuttable``); a sentence where ``text`` is no tokenizer.

    The vocabulary is not kept: 60 MB as objects.
    """
    try:
        parsed = json.loads(text)
    except ValueError as fault:
        raise CurateError(f"{path} is not JSON ({fault}). --tokenizer takes a tokenizer.json.") from fault
    if not isinstance(parsed, dict) or "model" not in parsed:
        raise CurateError(f"{path} is no tokenizer.json: it has no model. --tokenizer takes a tokenizer.json.")
    added = [t for t in parsed.get("added_tokens") or [] if isinstance(t.get("content"), str)]
    return added, _is_cuttable(parsed, added)


_PIECE: Final = 1 << 20
_CUT: Final = re.compile(rb"(?:(?<=[A-Za-z])|(?<=[\xe5-\xe8][\x80-\xbf]{2}))(?= (?:[A-Za-z]|[\xe5-\xe8]))|(?<=\n)(?=[A-Za-z])")
"""Where a word ends for certain, in UTF-8: between a letter (Latin, or Chinese from U+5000 to U+8FFF) and a blank before a letter, and
between a line end and a letter."""

_PATTERNS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
"""Patterns by which tokenizers cut text into words: Qwen 2 and 3; Llama 3 and GPT-4; the three of DeepSeek-V3."""


def _is_cuttable(parsed: dict[str, Any], added: Sequence[dict[str, Any]]) -> bool:
    """Whether the tokens of a text are those of its pieces between ``_CUT``, by the tokenizer's own rules.

    BPE works on words, so it is enough that a word ends at every cut whatever stands around it. No match of ``_PATTERNS`` goes on from
    a letter to a blank, or from a line end to a letter, and none looks further than one blank ahead; NFC joins nothing there; and no
    added token may lie across. Any other tokenizer is given its texts whole.
    """
    steps, normal = parsed.get("pre_tokenizer") or {}, parsed.get("normalizer")
    *splits, last = steps.get("pretokenizers") or [{}]
    known = all(
        s.get("type") == "Split"
        and s.get("pattern", {}).get("Regex") in _PATTERNS
        and s.get("behavior") == "Isolated"
        and s.get("invert") is False
        for s in splits
    )
    by_bytes = last.get("type") == "ByteLevel" and last.get("add_prefix_space") is False and last.get("use_regex") is False
    reaches = any(t.get("single_word") or t.get("lstrip") or t.get("rstrip") or re.search(r"\s", t["content"]) for t in added)
    return (
        parsed["model"].get("type") == "BPE"
        and normal in (None, {"type": "NFC"}, {"type": "Sequence", "normalizers": []})
        and steps.get("type") == "Sequence"
        and bool(splits)
        and known
        and by_bytes
        and not reaches
    )


def _pieces(text: Long) -> Iterator[bytes]:
    """A long text in pieces of about ``_PIECE`` bytes, cut at ``_CUT``; longer ones where there is no such place."""
    held = b""  # from the last cut on: a part's end is none
    for part in text.parts:
        start = 0
        while len(part) - start > _PIECE and (found := _CUT.search(part, start + _PIECE)) is not None:
            yield held + part[start : found.start()]
            held, start = b"", found.start()
        held += part[start:]
    yield held


def _batches(sizes: np.ndarray[Any, np.dtype[np.int64]], limit: int) -> Iterator[tuple[int, int]]:
    """Runs of texts of at most ``limit`` characters in all, at least one text each."""
    start, size = 0, 0
    for i, n in enumerate(sizes.tolist()):
        if i > start and size + n > limit:
            yield start, i
            start, size = i, 0
        size += n
    yield start, len(sizes)


def _resident() -> int:
    """Resident bytes of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a tokenizer: its name for people, tokenizer.json, the parsed configuration, chat_template.jinja."""

    name: str
    tokenizer: Path
    config: dict[str, Any]
    jinja: str | None


_NAMES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def find_tokenizer(where: str | Path) -> Files:
    """The tokenizer at ``where``: a tokenizer.json, a folder that holds one, or a Hub id (fetched through huggingface_hub).

    Raises ``CurateError``, one sentence, when there is none.
    """
    path = Path(where)
    if path.is_file():
        found = {"tokenizer.json": path, **{n: path.parent / n for n in _NAMES[1:]}}
        name = path.parent.name if path.name == "tokenizer.json" and path.parent.name else path.name
    elif path.is_dir():
        found, name = {n: path / n for n in _NAMES}, path.resolve().name
        if not found["tokenizer.json"].is_file():
            raise CurateError(f"{where} holds no tokenizer.json. {_CONVERT}")
    elif re.fullmatch(r"[\w.-]+(?:/[\w.-]+)?", str(where)) and not str(where).endswith(".json"):
        found, name = _download(str(where)), str(where)
    else:
        raise CurateError(f"--tokenizer {where}: there is no such file or folder. Give a tokenizer.json or a Hub id.")
    config: Any = {}
    if (file := found.get("tokenizer_config.json")) is not None and file.is_file():
        try:
            config = json.loads(file.read_bytes())
        except ValueError as fault:
            raise CurateError(f"{file} is not JSON ({fault}). Fetch the tokenizer again.") from fault
    jinja = found.get("chat_template.jinja")
    text = jinja.read_text(encoding="utf-8") if jinja is not None and jinja.is_file() else None
    return Files(name=name, tokenizer=found["tokenizer.json"], config=config if isinstance(config, dict) else {}, jinja=text)


_CONVERT: Final = "curate counts with a tokenizer.json: save one with AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER)."


def _reachable(name: str) -> bool:
    """Whether the Hub answers at all: asked once, since the client tries a download five times before it gives up."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub import errors as hub
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # the client's own, whatever its name

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        HfApi().model_info(name, timeout=10)
    except (hub.HfHubHTTPError, hub.HFValidationError):
        return True  # it answered; the download says what is wrong
    except (httpx.HTTPError, OSError):
        return False
    return True


def _download(name: str) -> dict[str, Path]:
    """The files of a Hub id; honours HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE as huggingface_hub does."""
    from huggingface_hub import errors as hub
    from huggingface_hub import hf_hub_download

    found: dict[str, Path] = {}
    near = not _reachable(name)
    for file in _NAMES:
        try:
            found[file] = Path(hf_hub_download(name, file, local_files_only=near))
        except (hub.EntryNotFoundError, hub.LocalEntryNotFoundError) as fault:
            if file != "tokenizer.json":
                continue
            if isinstance(fault, hub.LocalEntryNotFoundError):
                raise CurateError(
                    f"The tokenizer {name} cannot be fetched (no network, or offline mode) and is not in the cache. "
                    "Give a folder or a tokenizer.json that is on this machine."
                ) from fault
            raise CurateError(f"{name} has no tokenizer.json on the Hub. {_CONVERT}") from fault
        except hub.GatedRepoError as fault:
            raise CurateError(f"{name} is gated: accept its terms on its page and set HF_TOKEN.") from fault
        except (hub.RepositoryNotFoundError, hub.HFValidationError) as fault:
            raise CurateError(
                f"There is no file, folder or Hub repository {name} (or it is private and HF_TOKEN is not set)."
            ) from fault
        except (OSError, hub.HfHubHTTPError) as fault:
            raise CurateError(
                f"The tokenizer {name} cannot be fetched ({type(fault).__name__}). "
                "Give a folder or a tokenizer.json that is on this machine."
            ) from fault
    return found
