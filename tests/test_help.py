"""Help of every command: it is there, its examples parse, every option says what it does, and it costs no heavy import."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from curate.cli import main

COMMANDS = list(main.commands)


def test_the_commands_of_the_design_are_there() -> None:
    wanted = {
        "inspect",
        "count",
        "yield",
        "select",
        "verify",
        "padding",
        "fit",
        "report",
        "why",
        "diff",
        "check",
        "push",
        "sources",
        "cache",
    }
    assert wanted <= set(COMMANDS)


def test_the_list_of_commands_has_a_sentence_for_each() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    for name, command in main.commands.items():
        assert re.search(rf"^  {name} +\S", shown.stdout, re.MULTILINE), name
        assert command.get_short_help_str(limit=200).endswith("."), name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(name: str) -> None:
    for flag in ("--help", "-h"):
        shown = CliRunner().invoke(main, [name, flag])
        assert (shown.exit_code, shown.stderr) == (0, "")
    command = main.commands[name]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.opts[0]}"
            assert option.help.strip()[-1] in ".!?)", f"{name} {option.opts[0]}: {option.help}"
            assert option.opts[-1] in shown.stdout


@pytest.mark.parametrize("name", [n for n in COMMANDS if n != "cache"])
def test_a_command_shows_an_example(name: str) -> None:
    assert examples(main.commands[name].help or ""), name


def examples(text: str) -> list[str]:
    return re.findall(r"^ +(curate .+)$", text, re.MULTILINE)


@pytest.mark.parametrize("line", sorted({line for c in [main, *main.commands.values()] for line in examples(c.help or "")}))
def test_an_example_parses(line: str) -> None:
    words = shlex.split(line)[1:]
    command = main.commands[words[0]]
    with command.make_context(words[0], words[1:], resilient_parsing=False) as context:
        assert context.params


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["select", "--help"], ["sources", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    heavy = ["polars", "pyarrow", "numpy", "datasets", "transformers", "tokenizers", "huggingface_hub", "pandas", "altair", "tqdm"]
    code = (
        f"import sys; sys.argv = ['curate', *{words!r}]\n"
        "from curate.cli import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("words", [["nothing"], ["select", "--nothing"], ["yield", "--count", "words"]])
def test_what_is_no_command_or_option_is_status_2(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stdout) == (2, "")
