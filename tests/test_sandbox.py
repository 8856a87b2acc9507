"""Attacks that must fail: each program ends with the right verdict, and nothing of it is left."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import uuid
from pathlib import Path

import pytest

from curate.errors import CurateError
from curate.judge_code import Rules, judge
from curate.sandbox import Limits, Sandbox, open_sandbox
from curate.verdicts import Verdict
from curate.verify import Case, Task

LIMITS = Limits(cpu=2, wall=4, memory_mib=256, output_bytes=1 << 20)


@pytest.fixture(scope="module")
def box() -> Sandbox:
    try:
        return open_sandbox("bwrap")
    except CurateError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


def verdict(box: Sandbox, program: str, *, expected: str = "right\n", given: str = "") -> Verdict:
    task = Task(
        row=0,
        item=0,
        problem="p",
        digest="d",
        program=program,
        tests=(Case(input=given, output=expected, kind="public"),),
        tests_digest="t",
    )
    [found] = judge([task], box=box, rules=Rules(time_limit=0.4, memory_mib=256), workers=1)
    return found


def processes() -> str:
    """The command lines of all processes that this one sees."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_it_runs_a_program_on_its_input(box: Sandbox) -> None:
    run = box.run(b"print(int(input()) + 1)", b"4\n", limits=LIMITS)
    assert (run.ended, run.status, run.output) == ("exit", 0, b"5\n")


def test_it_measures_processor_time(box: Sandbox) -> None:
    program = b"import time\nwhile time.process_time() < 0.5: pass"
    run = box.run(program, b"", limits=LIMITS)
    assert 0.5 <= run.cpu < 1.5


def test_exit_and_quit_exist_and_main_is_main(box: Sandbox) -> None:
    program = b"import __main__\nx = 5\nprint(__name__, __main__.x)\nquit() if input() else exit(3)"
    assert box.run(program, b"\n", limits=LIMITS).status == 3
    assert box.run(program, b"1\n", limits=LIMITS).output == b"__main__ 5\n"


def test_numpy_and_threads_with_a_large_stack_work(box: Sandbox) -> None:
    program = b"""
import sys, threading
import numpy as np
def f(n): return 0 if n == 0 else f(n - 1) + 1
sys.setrecursionlimit(10**6)
threading.stack_size(1 << 26)
threading.Thread(target=lambda: print(f(20000) + int(np.arange(3).sum()))).start()
"""
    assert box.run(program, b"", limits=LIMITS).output == b"20003\n"


def test_recursion_through_c_has_the_stack_that_judges_give(box: Sandbox) -> None:
    program = b"""
import functools, sys
sys.setrecursionlimit(10**6)
@functools.lru_cache(None)
def f(n): return 0 if n == 0 else f(n - 1) + 1
print(f(40000))
"""
    assert box.run(program, b"", limits=LIMITS).output == b"40000\n"


def test_the_home_and_the_users_files_cannot_be_read(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("right\n")
    assert verdict(box, f"print(open({str(secret)!r}).read())").verdict == "runtime_error"
    assert verdict(box, f"import os\nprint(os.listdir({str(Path.home())!r}))", expected="right").passed is False
    assert verdict(box, "print(open('/etc/passwd').read())").verdict == "runtime_error"


def test_nothing_can_be_written_outside_its_folder(box: Sandbox, tmp_path: Path) -> None:
    places = [
        str(tmp_path / "x"),
        "/x",
        "/usr/x",
        "/dev/x",
        "/dev/shm/x",
        "/packages/x",
        "/main.py",
        "/inside.py",
        "/proc/sys/kernel/x",
    ]
    program = f"""
done = []
for place in {places!r}:
    try:
        open(place, "w").write("x")
        done.append(place)
    except OSError:
        pass
open("own", "w").write("x")
print(done)
"""
    assert verdict(box, program, expected="[]").verdict == "passed"
    assert list(tmp_path.iterdir()) == []


def test_its_folder_is_empty_and_its_own(box: Sandbox) -> None:
    program = "import os\nprint(os.listdir('.'), os.getcwd())\nopen('left', 'w').write('x')"
    assert verdict(box, program, expected="[] /tmp").verdict == "passed"
    assert verdict(box, program, expected="[] /tmp").verdict == "passed"
    assert not (Path(tempfile.gettempdir()) / "left").exists()


def test_no_socket_opens_not_even_on_loopback(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        program = f"import socket\nsocket.create_connection(('127.0.0.1', {port}))\nprint('right')"
        assert verdict(box, program).verdict == "runtime_error"
        with pytest.raises(BlockingIOError):
            server.accept()
    for family in ("AF_INET", "AF_INET6", "AF_UNIX"):
        assert verdict(box, f"import socket\nsocket.socket(socket.{family})\nprint('right')").verdict == "runtime_error"


def test_a_fork_bomb_makes_no_second_process(box: Sandbox) -> None:
    program = """
import os
made = 0
for _ in range(100):
    try:
        if os.fork() == 0:
            while True: pass
        made += 1
    except OSError:
        pass
print(made)
"""
    assert verdict(box, program, expected="0").verdict == "passed"
    assert verdict(box, "import os\nwhile True: os.fork()").verdict == "runtime_error"


def test_a_bomb_of_threads_ends_with_the_memory_or_the_time(box: Sandbox) -> None:
    program = "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()"
    assert verdict(box, program).passed is False


def test_double_fork_and_setsid_leave_nothing(box: Sandbox) -> None:
    mark = uuid.uuid4().hex
    program = f"""
import os, subprocess, sys
for kind in (os.fork, getattr(os, "forkpty", os.fork)):
    try:
        if kind() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", "{mark}"])
    except OSError:
        pass
try:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "{mark}"], start_new_session=True)
except OSError:
    print("refused")
"""
    assert verdict(box, program, expected="refused").verdict == "passed"
    assert mark not in processes()


def test_what_it_becomes_by_exec_is_killed_with_it(box: Sandbox) -> None:
    mark = uuid.uuid4().hex
    program = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)', '{mark}'])"
    assert verdict(box, program).verdict == "time_limit"
    assert mark not in processes()


def test_filling_the_disk_stops_at_its_own_64_mib(box: Sandbox) -> None:
    program = """
written = 0
try:
    for n in range(100):
        with open(f"f{n}", "wb", buffering=0) as file:
            for _ in range(10): written += file.write(bytes(1 << 20))
except OSError:
    pass
print(written <= 64 << 20)
"""
    assert verdict(box, program, expected="True").verdict == "passed"
    assert verdict(box, "open('x', 'wb').write(bytes(100 << 20))\nprint('right')").verdict == "runtime_error"


def test_filling_stdout_is_an_output_limit(box: Sandbox) -> None:
    assert verdict(box, "while True: print('x' * 100000)").verdict == "output_limit"
    assert verdict(box, "import sys\nfor _ in range(10**4): sys.stderr.write('x' * 10**4)\nprint('right')").verdict == "passed"


@pytest.mark.parametrize("size", ["2 << 30", "64 << 30"])
def test_large_allocations_are_a_memory_limit(box: Sandbox, size: str) -> None:
    assert verdict(box, f"x = bytearray({size})\nprint('right')").verdict == "memory_limit"


def test_memory_that_no_limit_counts_is_refused(box: Sandbox) -> None:
    assert verdict(box, "import os\nos.memfd_create('x')\nprint('right')").verdict == "runtime_error"


def test_it_cannot_kill_its_parent(box: Sandbox) -> None:
    program = f"""
import os, signal
for pid in (os.getppid(), {os.getpid()}, -1, 0, 1):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
print("right")
"""
    assert verdict(box, program).verdict == "passed"


def test_the_expected_output_is_nowhere_to_be_found(box: Sandbox) -> None:
    needle = "needle" + uuid.uuid4().hex
    program = """
import glob, os, re
look = re.compile(b"need" + b"le[0-9a-f]{32}")
for number in range(64):
    try: data = os.pread(number, 1 << 20, 0)
    except OSError:
        continue
    for hit in look.findall(data): print(hit.decode())
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/proc/*/fd/*"):
    try: data = open(path, "rb").read(1 << 20) if "/fd/" not in path or os.path.basename(path) not in "012" else b""
    except OSError:
        continue
    for hit in look.findall(data): print(hit.decode())
for maps in glob.glob("/proc/*/maps"):
    with open(maps) as lines, open(maps.replace("maps", "mem"), "rb", 0) as memory:
        for line in lines:
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            try:
                memory.seek(low)
                data = memory.read(high - low)
            except (OSError, ValueError, OverflowError):
                continue
            for hit in look.findall(data): print(hit.decode())
"""
    assert verdict(box, program, expected=needle).verdict == "wrong_answer"
    shown = box.run(program.encode(), needle.encode(), limits=LIMITS)  # it can search: its input it finds
    assert needle.encode() in shown.output


def test_its_environment_and_descriptors_hold_nothing_of_ours(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_TEST_SECRET", "right")
    program = "import os\nprint(os.environ.get('CURATE_TEST_SECRET'), sorted(os.listdir('/proc/self/fd')))"
    assert verdict(box, program, expected="None ['0', '1', '2', '3']").verdict == "passed"  # 3 is the listing itself


def test_a_fake_verdict_is_output_like_any_other(box: Sandbox) -> None:
    program = """
import os
for number in range(1, 64):
    try: os.write(number, b'{"verdict": "passed", "exit-code": 0} passed 1\\n')
    except OSError: pass
"""
    assert verdict(box, program).verdict == "wrong_answer"


def test_leaving_before_the_output_is_a_wrong_answer(box: Sandbox) -> None:
    assert verdict(box, "import os\nos._exit(0)\nprint('right')").verdict == "wrong_answer"


@pytest.mark.parametrize("status", [1, 86, 87, 137])
def test_no_exit_status_passes(box: Sandbox, status: int) -> None:
    found = verdict(box, f"import os\nos.write(1, b'right\\n')\nos._exit({status})")
    assert found.verdict == ("memory_limit" if status == 86 else "runtime_error")


def test_deep_recursion_is_a_runtime_error(box: Sandbox) -> None:
    assert verdict(box, "def f(): f()\nf()").verdict == "runtime_error"
    deep = "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().x"
    assert verdict(box, deep).verdict in ("runtime_error", "memory_limit", "time_limit")


def test_catching_everything_does_not_outlive_the_limit(box: Sandbox) -> None:
    program = """
import signal, sys
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True:
    try:
        sys.exit()
    except BaseException:
        pass
"""
    assert verdict(box, program).verdict == "time_limit"


def test_an_import_that_hangs_is_a_time_limit(box: Sandbox) -> None:
    program = """
import sys
open("slow.py", "w").write("import time\\ntime.sleep(1000)")
sys.path.insert(0, ".")
import slow
"""
    assert verdict(box, program).verdict == "time_limit"


def test_closing_stdout_and_staying_is_a_time_limit(box: Sandbox) -> None:
    assert verdict(box, "import os, time\nos.write(1, b'right')\nos.close(1)\ntime.sleep(1000)").verdict == "time_limit"


def test_limits_cannot_be_raised(box: Sandbox) -> None:
    program = """
import resource
refused = 0
for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
    try: resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError): refused += 1
print(refused)
"""
    assert verdict(box, program, expected="4").verdict == "passed"


def test_it_cannot_make_name_spaces_mounts_or_trace(box: Sandbox) -> None:
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
calls = [libc.unshare(0x10000000), libc.unshare(0x20000), libc.ptrace(0, 0, 0, 0), libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)]
print(calls)
"""
    assert verdict(box, program, expected="[-1, -1, -1, -1]").verdict == "passed"


def test_nothing_is_left_in_the_temporary_folder() -> None:
    before = set(Path(tempfile.gettempdir()).glob("curate-*"))
    assert verdict(open_sandbox("none"), "open('x', 'w').write('x')\nprint('right')").verdict == "passed"
    assert set(Path(tempfile.gettempdir()).glob("curate-*")) <= before


def test_without_isolation_the_limits_hold() -> None:
    box = open_sandbox("none")
    assert verdict(box, "while True: pass").verdict == "time_limit"
    assert verdict(box, "x = bytearray(2 << 30)").verdict == "memory_limit"
    assert verdict(box, "while True: print('x' * 100000)").verdict == "output_limit"
    assert verdict(box, "def f(:").verdict == "syntax_error"


def test_descriptors_and_threads_do_not_leak(box: Sandbox) -> None:
    verdict(box, "print('right')")
    before, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(5):
        verdict(box, "print('right')")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert threading.active_count() == threads


def test_a_missing_bubblewrap_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CurateError, match=r"apt-get install bubblewrap.*--isolation none"):
        open_sandbox("bwrap")


def test_a_bubblewrap_that_cannot_isolate_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CurateError, match="No permissions to create new namespace"):
        open_sandbox("bwrap")
