"""The README shows what the program prints: its console blocks are run and compared, its Python block too.

`python tests/test_readme.py` writes the outputs anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```console\n\$ (curate [^\n]+)\n(.*?)```", re.S)


def printed(command: str, folder: Path) -> str:
    """What a command prints on stdout, run in a folder that has the project's ``data``."""
    from curate.cli import main

    before = Path.cwd()
    try:
        os.chdir(folder)
        result = CliRunner().invoke(
            main, shlex.split(command)[1:], env={"CURATE_CACHE": str(folder / "cache")}, catch_exceptions=False
        )
    finally:
        os.chdir(before)
    assert result.exit_code == 0, result.output
    return result.stdout


def place(folder: Path) -> Path:
    (folder / "data").symlink_to(ROOT / "data")
    return folder


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("command", "shown"), blocks(), ids=[c for c, _ in blocks()])
def test_the_readme_shows_what_the_command_prints(command: str, shown: str, tmp_path: Path) -> None:
    assert printed(command, place(tmp_path)) == shown


def test_the_readme_has_the_two_commands_of_a_newcomer() -> None:
    commands = [c for c, _ in blocks()]
    assert "curate yield data/sample.parquet" in commands
    assert any(c.startswith("curate select data/sample.parquet --shortest") for c in commands)


def test_the_python_example_prints_what_its_comments_say() -> None:
    code = re.search(r"<!-- python -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert code is not None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code[1], {})  # the README's own text
    assert out.getvalue().splitlines() == [line[2:] for line in code[1].splitlines() if line.startswith("# ")]


if __name__ == "__main__":
    import tempfile

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for asked, old in BLOCK.findall(text):
        with tempfile.TemporaryDirectory() as there:
            new = printed(asked, place(Path(there)))
        text = text.replace(f"$ {asked}\n{old}```", f"$ {asked}\n{new}```")
    (ROOT / "README.md").write_text(text, encoding="utf-8")
    sys.stdout.write("README.md written\n")
