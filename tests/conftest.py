"""What holds for all tests: no cache of the user's, no network, and clients whose settings no single test fixes for the others."""

from __future__ import annotations

import os
import tempfile

# huggingface_hub reads these when it is imported first; a test that asks for offline mode must not decide for its worker
for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT", "HF_TOKEN", "HF_HOME", "HF_HUB_CACHE"):
    os.environ.pop(name, None)
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
os.environ["CURATE_CACHE"] = tempfile.mkdtemp(prefix="curate-tests-")

import huggingface_hub.constants  # noqa: E402, F401
