"""The script that runs one program inside the sandbox: sets the limits, then becomes the program.

Never imported by ``curate``: ``sandbox.py`` hands this file to a bare interpreter (``python -S``), which is why it imports little
and is short (an interpreter with it starts in 9 ms, a usual one in 15 to 40). Nothing here decides a verdict: it holds no
expected output, and what it reports (an exit status) can only tell one failure from another.

    inside.py MODE PROGRAM STARTED_FD MEMORY_MIB CPU_SECONDS FILE_MIB PACKAGES

MODE is ``run`` (the program is a script), ``compile`` (is it Python at all?), or the path of a script that takes over
(``calls.py``).
"""

import builtins
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEMORY_STATUS = 86
SYNTAX_STATUS = 87


def confine(memory_mib: int, cpu_seconds: int, file_mib: int) -> None:
    """Limits that the program cannot raise again: soft and hard are the same, and it has no capability."""

    def limit(kind: int, value: int) -> None:
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 64)
    limit(resource.RLIMIT_FSIZE, file_mib << 20)
    limit(resource.RLIMIT_CPU, cpu_seconds)
    # Recursion through C (functools.lru_cache) needs stack; 120 MiB is what Linux leaves below the mappings at least.
    limit(resource.RLIMIT_STACK, 120 << 20)
    limit(resource.RLIMIT_AS, memory_mib << 20)


def source(path: str) -> bytes:
    """The program's text; `exit` and `quit`, which `-S` leaves out, are put back."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms a run
        return file.read()


def load(path: str) -> "Any":
    """The program's code."""
    return compile(source(path), path, "exec", dont_inherit=True)


def start() -> None:
    mode, program, started, memory, cpu, files, packages = sys.argv[1:8]
    confine(int(memory), int(cpu), int(files))
    os.write(int(started), b"1")
    os.close(int(started))
    sys.path.append(packages)
    if mode == "compile":
        try:
            load(program)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            sys.exit(SYNTAX_STATUS)
        return
    sys.argv = [program]
    module = type(sys)("__main__")  # the type of modules, without importing `types`
    module.__dict__.update(__builtins__=builtins, __file__=program)
    if mode == "run":
        code: Any = source(program)  # exec of text: `compile` would set up the syntax tree's types first, 1 ms
    else:
        module.__dict__["LOAD"] = load
        with open(mode, "rb") as file:  # noqa: PTH123
            code = compile(file.read(), mode, "exec", dont_inherit=True)
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except MemoryError:
        sys.exit(MEMORY_STATUS)


if __name__ == "__main__":
    start()
