"""Runs a program that nobody has read: no network, no files but its own, no second process, killed at its limits.

``bwrap`` (bubblewrap, Linux) gives each run its own user, process, network, IPC and host name spaces, a read-only system of the
interpreter and ``/usr`` alone, and an empty ``/tmp`` in memory. On top of that a seccomp filter refuses new processes,
sockets, tracing and memory that no limit counts. One process is then all there is: the address-space limit bounds the whole
program, and when it ends (or curate does) nothing is left. The program gets its input on stdin and nothing else: expected
outputs stay in the parent, which compares.

Cost: 9 ms of processor time a run beside a bare interpreter start of 12 ms (bwrap 0.8). ``none`` has the limits of time, memory
and output, and ends the process group, but no isolation: only for programs that you would run by hand.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import py_compile
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, cast

from curate.errors import CurateError

Isolation = Literal["bwrap", "none"]
Ended = Literal["exit", "wall", "output"]

PROXY: Final = Path(__file__).with_name("proxy.py")
INSIDE: Final = Path(__file__).with_name("inside.py")
MEMORY_STATUS: Final = 86
SYNTAX_STATUS: Final = 87
FILE_MIB: Final = 64
"""What a program may write: the size of its /tmp, and of a single file."""

INSTALL: Final = (
    "Install bubblewrap (Debian, Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`), or say "
    "`--isolation none` to run these programs with your own rights."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use. ``cpu`` is kept by the kernel to whole seconds (rounded up), ``wall`` from outside."""

    cpu: float
    wall: float
    memory_mib: int
    output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a run ended: by itself (``exit``), or killed for the ``wall`` clock or its ``output``; a signal N is status 128 + N."""

    ended: Ended
    status: int
    output: bytes
    cpu: float
    wall: float
    started: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A way to run programs: ``prefix`` is the command in front of the interpreter."""

    isolation: Isolation
    prefix: tuple[str, ...]
    python: str
    packages: str
    filter: bytes

    def run(self, program: bytes, stdin: bytes, *, limits: Limits, mode: str = "run", extra: tuple[Path, ...] = ()) -> Run:
        """Run ``program`` (Python source) once on ``stdin``.

        Args:
            program: UTF-8 source, seen inside as ``main.py``.
            stdin: what it reads.
            mode: ``run``, ``compile``, or the name of a script of ``extra`` that takes over.
            extra: scripts of this package to lay beside the program.

        Raises:
            CurateError: the sandbox itself did not start, twice.
        """
        for attempt in range(2):
            result = _run(self, program, stdin, limits=limits, mode=mode, extra=extra)
            if result.started or result.ended != "exit":
                return result
            time.sleep(0.05 * attempt)
        raise CurateError(_BROKEN.format(status=result.status))

    def pair(self, program: bytes, script: bytes, *, limits: Limits) -> tuple[Run, Run]:
        """Run a test ``script`` and the ``program`` that it tests, each in its own sandbox, joined by two pipes (``proxy.py``).

        Returns:
            The run of the script, whose output is its report, and that of the program.
        """
        ask, answer = os.pipe(), os.pipe()
        with ThreadPoolExecutor(1) as pool:
            wire = Wire(stdin=ask[0], stdout=answer[1])
            served = pool.submit(_run, self, program, wire, limits=limits, mode=PROXY.name, extra=(PROXY,))
            wire = Wire(stdin=answer[0], requests=ask[1])
            tested = _run(self, script, wire, limits=limits, mode=PROXY.name, extra=(PROXY,))
            run = served.result()
        if (tested.started and run.started) or "wall" in (tested.ended, run.ended):
            return tested, run
        raise CurateError(_BROKEN.format(status=tested.status or run.status))


_BROKEN: Final = (
    "The sandbox did not start (status {status}). Fewer --workers may help where processes are limited; "
    "`bwrap --version` and `bwrap --ro-bind / / true` show whether bubblewrap works here."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Descriptors that join two runs; whoever starts a process on them closes them here."""

    stdin: int
    stdout: int | None = None
    requests: int | None = None


def open_sandbox(isolation: Isolation = "bwrap") -> Sandbox:
    """The sandbox of this machine, tried out once.

    Raises:
        CurateError: bubblewrap is missing or may not make name spaces here; the message says how to install it.
    """
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if isolation == "none":
        return Sandbox(isolation="none", prefix=(), python=python, packages=_site(), filter=b"")
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise CurateError(f"Programs are judged in a sandbox, and bubblewrap is not installed. {INSTALL}")
    said = ""
    for prefix in _prefixes(bwrap):
        box = Sandbox(isolation="bwrap", prefix=prefix, python=python, packages="/packages", filter=_seccomp(platform.machine()))
        result, said = _try(box)
        if result:
            return box
    reason = said.strip().splitlines()[-1] if said.strip() else "no message"
    raise CurateError(
        f"bubblewrap is installed but cannot isolate here ({reason}): user name spaces may be switched off. {INSTALL}"
    )


def _try(box: Sandbox) -> tuple[bool, str]:
    limits = Limits(cpu=10, wall=20, memory_mib=512, output_bytes=100)
    with tempfile.TemporaryFile() as err:
        result = _run(box, b"print(input())", b"ready\n", limits=limits, mode="run", extra=(), stderr=err.fileno())
        err.seek(0)
        return result.output == b"ready\n", err.read().decode(errors="replace")


# --- bubblewrap's command line ---


def _prefixes(bwrap: str) -> Iterator[tuple[str, ...]]:
    """Commands from strict to what a container may force: root without user name spaces, no fresh /proc."""
    user = ("--unshare-user", "--uid", "65534", "--gid", "65534")
    for who in (user, ()):
        for proc in (("--proc", "/proc"), ()):
            yield (bwrap, *who, *_SPACES, *_system(), *proc, *_FOLDERS)


_SPACES: Final = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    # The program is process 1: its end is the end of the name space, and the parent is told its CPU time.
    *("--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
)
_FOLDERS: Final = (
    # Not `--dev`, whose dozen mounts cost 2 ms a run.
    *("--dev-bind", "/dev/null", "/dev/null", "--symlink", "/proc/self/fd/0", "/dev/stdin"),
    *("--size", str(FILE_MIB << 20), "--tmpfs", "/tmp", "--chdir", "/tmp"),
)


@cache
def _system() -> tuple[str, ...]:
    """Read-only binds: /usr, the loader's folders, the interpreter's own prefix, numpy, the script of this package."""
    args = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/lib", "/lib64", "/lib32"):
        path = Path(name)
        if path.is_symlink():
            args += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            args += ["--ro-bind", name, name]
    for prefix in sorted({os.path.realpath(sys.base_prefix), os.path.realpath(sys.base_exec_prefix), sys.base_prefix}):
        if not Path(prefix).is_relative_to("/usr"):
            args += ["--ro-bind", prefix, prefix]
    for package in _packages():
        args += ["--ro-bind", str(package), f"/packages/{package.name}"]
    return (*args, "--ro-bind", _compiled(), "/inside.pyc")


@cache
def _compiled() -> str:
    """``inside.py`` as byte code, which starts 2 ms sooner; gone when this process ends."""
    folder = tempfile.mkdtemp(prefix="curate-inside-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = str(Path(folder) / "inside.pyc")
    py_compile.compile(str(INSIDE), cfile=path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    return path


def _packages() -> list[Path]:
    """numpy, which judged programs may import as they may on the judges they were written for."""
    spec = find_spec("numpy")
    where = Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None
    return [p for p in (where, where.with_name("numpy.libs")) if p.is_dir()] if where else []


def _site() -> str:
    found = _packages()
    return str(found[0].parent) if found else "/nonexistent"


# --- the filter ---

_NEW_PROCESS: Final = {"x86_64": (57, 58), "aarch64": ()}
_CLONE: Final = {"x86_64": (56, 435), "aarch64": (220, 435)}
_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED: Final = {
    # socket connect bind | ptrace process_vm_readv _writev | memfd_create memfd_secret shmget msgget semget mq_open
    # | unshare setns mount umount2 pivot_root open_by_handle_at name_to_handle_at | add_key request_key keyctl
    # | bpf perf_event_open userfaultfd io_uring_setup | init_module finit_module delete_module kexec_load
    "x86_64": (
        *(41, 42, 49, 101, 310, 311, 319, 447, 29, 68, 64, 240, 272, 308, 165, 166, 155, 304, 303, 248, 249, 250),
        *(321, 298, 323, 425, 175, 313, 176, 246),
    ),
    "aarch64": (
        *(198, 203, 200, 117, 270, 271, 279, 447, 194, 186, 190, 180, 97, 268, 40, 39, 41, 265, 264, 217, 218, 219),
        *(280, 241, 282, 425, 105, 273, 106, 104),
    ),
}
"""System call numbers from the kernel's tables (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h)."""


def _seccomp(machine: str) -> bytes:
    """A classic BPF program: EPERM for the calls above and for clone without CLONE_THREAD, ENOSYS for clone3, else allowed."""
    if machine not in _ARCH:
        raise CurateError(
            f"The sandbox knows the system calls of x86_64 and aarch64, not of {machine}. `--isolation none` is left."
        )
    load, jump, more, bits, give = 0x20, 0x15, 0x35, 0x45, 0x06  # LD_W_ABS, JEQ, JGE, JSET, RET
    allow, kill, eperm, enosys = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
    clone, clone3 = _CLONE[machine]

    def op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    program = op(load, 4) + op(jump, _ARCH[machine], 1, 0) + op(give, kill) + op(load, 0)
    program += op(more, 0x40000000, 0, 1) + op(give, eperm)  # the x32 calls of x86_64
    for number in (*_REFUSED[machine], *_NEW_PROCESS[machine]):
        program += op(jump, number, 0, 1) + op(give, eperm)
    program += op(jump, clone3, 0, 1) + op(give, enosys)  # the C library then falls back to clone
    program += op(jump, clone, 0, 3) + op(load, 16) + op(bits, 0x10000, 1, 0) + op(give, eperm)
    return program + op(give, allow)


# --- one run ---


def _run(
    box: Sandbox,
    program: bytes,
    stdin: bytes | Wire,
    *,
    limits: Limits,
    mode: str,
    extra: tuple[Path, ...],
    stderr: int | None = None,
) -> Run:
    with contextlib.ExitStack() as stack:
        source = _sealed(stack, program)
        wire = stdin if isinstance(stdin, Wire) else Wire(stdin=_sealed(stack, stdin))
        started, start = os.pipe()
        stack.callback(os.close, started)
        closing = stack.enter_context(contextlib.ExitStack())
        for number in (start, *((wire.stdin, wire.stdout, wire.requests) if wire is stdin else ())):
            if number is not None:
                closing.callback(os.close, number)
        numbers = (str(start), str(limits.memory_mib), str(-int(-limits.cpu // 1)), str(FILE_MIB))
        passed, cwd, more = [start], None, {}
        if wire.requests is not None:
            passed, more = [start, wire.requests], {"WIRE": str(wire.requests)}
        if box.isolation == "bwrap":
            rules = _sealed(stack, box.filter)
            passed += [source, rules]
            laid = [a for path in extra for a in ("--ro-bind", str(path), f"/{path.name}")]
            head = (*box.prefix, *laid, "--file", str(source), "/main.py", "--remount-ro", "/", "--seccomp", str(rules))
            files = ("/inside.pyc", mode if mode in ("run", "compile") else f"/{mode}", "/main.py")
        else:
            cwd = stack.enter_context(tempfile.TemporaryDirectory(prefix="curate-"))
            (Path(cwd) / "main.py").write_bytes(program)
            over = {path.name: str(path) for path in extra}
            head, files = (), (_compiled(), over.get(mode, mode), f"{cwd}/main.py")
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*head, box.python, "-S", "-s", "-P", "-B", "-X", "utf8", *files, *numbers, box.packages],
            stdin=wire.stdin,
            stdout=subprocess.PIPE if wire.stdout is None else wire.stdout,
            stderr=subprocess.DEVNULL if stderr is None else stderr,
            env=_ENVIRONMENT | more | {"HOME": cwd or "/tmp", "TMPDIR": cwd or "/tmp"},
            cwd=cwd or "/",
            pass_fds=passed,
            start_new_session=True,
        )
        closing.close()
        ended, output, status, usage = _watch(process, limits, begun)
        return Run(
            ended=ended,
            status=status,
            output=output,
            cpu=usage.ru_utime + usage.ru_stime,
            wall=time.perf_counter() - begun,
            started=bool(select.select([started], [], [], 0)[0] and os.read(started, 1)),
        )


_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the same order of sets in every run: the same verdict
    "OPENBLAS_NUM_THREADS": "1",
}


def _sealed(stack: contextlib.ExitStack, data: bytes) -> int:
    """A descriptor that reads ``data`` and, on Linux, can no longer be written through any path."""
    if not hasattr(os, "memfd_create"):
        plain = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        plain.write(data)
        plain.seek(0)
        return plain.fileno()
    import fcntl

    number = os.memfd_create("curate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, number)
    with open(number, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(number, 0, os.SEEK_SET)
    fcntl.fcntl(number, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return number


def _watch(process: subprocess.Popen[bytes], limits: Limits, begun: float) -> tuple[Ended, bytes, int, resource.struct_rusage]:
    """Read its output until it ends or breaks a limit; then end whatever is left of it."""
    # The output of a program on a wire goes to the other end: nothing to read here.
    with contextlib.ExitStack() as stack:
        pipe = process.stdout or stack.enter_context(Path(os.devnull).open("rb", buffering=0))
        return _watch_pipe(process, pipe.fileno(), limits, begun)


def _watch_pipe(
    process: subprocess.Popen[bytes], out: int, limits: Limits, begun: float
) -> tuple[Ended, bytes, int, resource.struct_rusage]:
    ended = "exit"
    os.set_blocking(out, False)
    chunks: list[bytes] = []
    over = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    poll = select.poll()
    for number in (out, over):
        if number is not None:
            poll.register(number, select.POLLIN)
    size, running, tick = 0, True, float("inf") if over is not None else 0.01
    while running:
        left = limits.wall - (time.perf_counter() - begun)
        if left <= 0:
            ended = "wall"
            break
        ready = {number for number, _ in poll.poll(max(1, min(left, tick) * 1000))}
        running = over not in ready and (over is not None or os.waitid(os.P_PID, process.pid, _PEEK) is None)
        chunk = _read(out) if out in ready or not running else None
        while chunk:
            chunks.append(chunk)
            size += len(chunk)
            chunk = _read(out) if not running and size <= limits.output_bytes else None
        if chunk == b"" and running:
            poll.unregister(out)
        if size > limits.output_bytes:
            ended = "output"
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _, state, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(state)
    if ended != "exit":
        _gone(out)
    if over is not None:
        os.close(over)
    if process.stdout is not None:
        process.stdout.close()
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return cast(Ended, ended), b"".join(chunks), status, usage


_PEEK: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT


def _gone(out: int) -> None:
    """Wait until nobody holds the pipe: bwrap has died first, and the kernel is killing what was inside (a matter of 1 ms)."""
    until = time.perf_counter() + 5
    while time.perf_counter() < until and _read(out) != b"":
        select.select([out], [], [], 0.1)


def _read(number: int) -> bytes | None:
    """What a pipe holds now: empty at its end, None when there is nothing yet."""
    try:
        return os.read(number, 1 << 20)
    except BlockingIOError:
        return None
