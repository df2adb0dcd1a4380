import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onnx_workbench.model import sandbox
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Cancelled, Progress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the limits are POSIX ones")


def run(function, payload=b"", **limits):
    return sandbox.run_isolated(f"onnx_workbench.model.isolation_cases:{function}", payload, what="The test", **limits)


@pytest.fixture(autouse=True)
def _cases(monkeypatch, tmp_path):
    """A module of misbehaving functions that the child finds under model."""

    (tmp_path / "isolation_cases.py").write_text(
        "import ctypes, os, signal, sys, time\n"
        "from onnx_workbench.model.errors import ModelError\n"
        "def echo(data): return data[::-1]\n"
        "def count(data, progress):\n"
        "    for done in range(3): progress.report(done, 2, data.decode())\n    return b'counted'\n"
        "def crash(data): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def announce(data):\n    if data:\n        with open(data, 'w') as file: file.write(str(os.getpid()))\n"
        "def spin(data):\n    announce(data)\n    while True: pass\n"
        "def block_the_interpreter(data):\n    announce(data)\n    ctypes.PyDLL(None).sleep(100)\n"
        "def other_number(data): return number(data)\n"
        "def slow_number(data):\n    time.sleep(1)\n    return number(data)\n"
        "def sleep(data): time.sleep(100)\n"
        "def manners(data):\n    end = time.monotonic() + 30\n"
        "    while data and os.nice(0) == int(data) and time.monotonic() < end: time.sleep(0.01)\n"
        "    return str(os.nice(0)).encode()\n"
        "def allocate(data):\n    bytes(int(data))\n    return number(b'')\n"
        "def grow(data): return bytes(1 << 40)\n"
        "def refuse(data): raise ModelError('Not so', 'because', 'here')\n"
        "def stumble(data): raise KeyError('oops')\n"
        "def leave(data): os._exit(0)\n"
        "def number(data):\n    if data: refuse(data)\n    return str(os.getpid()).encode()\n"
        "def folder(data): return str(os.path.isdir('.') and os.listdir('.')).encode()\n"
        "def chatter(data):\n    print(sys.stdin.read(), flush=True)\n    os.write(1, b'more')\n    return data\n",
        "utf-8",
    )
    start = (
        f"from onnx_workbench import model; model.__path__.append({str(tmp_path)!r}); "
        "from onnx_workbench.model.sandbox_child import child_main; child_main()"
    )
    monkeypatch.setattr(sandbox, "child_command", lambda: [sys.executable, "-P", "-c", start])


def test_progress_of_a_function_arrives_before_its_answer():
    reports = []
    progress = Progress(lambda *news: reports.append(news))
    assert run("count", b"steps", reports=True, progress=progress) == b"counted"
    assert reports[-1] == (2, 2, "steps")


def test_a_crash_is_a_message():
    with pytest.raises(ModelError, match=r"The test crashed on this model: .*SIGSEGV"):
        run("crash")


@pytest.mark.long
@pytest.mark.parametrize("function", ["spin", "sleep"])
def test_a_hang_ends_at_the_time_limit(function):
    with pytest.raises(ModelError, match=r"longer than 1 s|SIG"):
        run(function, seconds=1)


def test_memory_is_limited():
    with pytest.raises(ModelError, match=r"limit of 1\.0 GiB"):
        run("grow", memory=sandbox.GIB)


def test_an_error_inside_comes_out_as_it_was():
    with pytest.raises(ModelError) as caught:
        run("refuse")
    assert (caught.value.title, caught.value.detail, caught.value.place) == ("Not so", "because", "here")


def test_any_other_error_names_itself():
    with pytest.raises(ModelError, match="The test failed on this model: KeyError: 'oops'"):
        run("stumble")


def test_a_child_that_ends_without_an_answer_has_failed():
    with pytest.raises(ModelError, match="The test failed on this model: exit code 0"):
        run("leave")


def test_a_child_that_has_answered_is_kept_for_the_next_call():
    assert len({run("number") for _ in range(4)}) == 1
    assert run("number") != run("number", in_background=True)


def test_a_child_that_has_failed_is_not_kept():
    before = run("number")
    with pytest.raises(ModelError):
        run("number", b"refuse")
    assert run("number") != before


def test_each_function_has_a_child_of_its_own():
    assert run("number") != run("other_number")


def test_a_kept_child_that_has_died_is_replaced():
    before = run("number")
    os.kill(int(before), signal.SIGKILL)
    os.waitid(os.P_PID, int(before), os.WEXITED | os.WNOWAIT)
    assert run("number") != before


@pytest.mark.long
def test_calls_at_the_same_time_have_children_of_their_own():
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(lambda _: run("slow_number"), range(3)))) == 3


def test_limits_are_those_of_each_call():
    before = run("allocate", str(1 << 27).encode(), memory=2 * sandbox.GIB)
    with pytest.raises(ModelError, match=r"limit of 1\.0 GiB"):
        run("allocate", str(1 << 31).encode(), memory=sandbox.GIB)
    assert run("allocate", str(1 << 27).encode()) != before


def test_what_a_library_prints_is_not_taken_for_the_answer():
    assert run("chatter", b"abc") == b"abc"


def test_nothing_lies_in_the_working_folder_of_a_child():
    assert run("folder") in (b"[]", b"False")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells")
@pytest.mark.parametrize("function", ["spin", "block_the_interpreter"])
def test_a_child_ends_with_a_program_that_is_killed(tmp_path, function):
    program = tmp_path / "program.py"
    started = tmp_path / "started"
    program.write_text(
        "from onnx_workbench.model import sandbox\n"
        f"sandbox.child_command = lambda: {sandbox.child_command()!r}\n"
        f"sandbox.run_isolated('onnx_workbench.model.isolation_cases:{function}', {str(started)!r}.encode())\n"
    )
    with subprocess.Popen(
        [sys.executable, program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ) as one:
        while not (started.exists() and started.read_text()):
            assert one.poll() is None
            time.sleep(0.01)
        child = int(started.read_text())
        one.kill()
    while sandbox.is_running(child):
        time.sleep(0.01)


@pytest.mark.long
def test_a_frozen_program_starts_itself_as_the_child(monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.frozen = True\n"
        "from onnx_workbench.__main__ import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    monkeypatch.undo()  # starts children as the program does
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(program))
    assert sandbox.run_isolated("onnx_workbench.model.inference.onnx_comparison:run", b"?") == b""


def test_cancelling_kills_the_child():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        sandbox.run_isolated("model.isolation_cases:sleep", b"", progress=progress)


def test_only_our_own_functions_run():
    with pytest.raises(ModelError, match="os:system is not part of this program"):
        sandbox.run_isolated("os:system", b"true", what="The test")


def test_processes_that_run_and_that_ended_are_reported_apart():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert sandbox.is_running(child.pid)
    assert sandbox.is_running(os.getpid())
    child.communicate(b"\n")
    assert not sandbox.is_running(child.pid)
    assert not sandbox.is_running(10**30)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells")
def test_a_later_process_of_the_same_number_is_another():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = sandbox.start_of(child.pid)
    assert started not in ("", sandbox.start_of(os.getpid()))
    assert sandbox.is_running(child.pid, started)
    assert not sandbox.is_running(child.pid, sandbox.start_of(os.getpid()))
    assert not sandbox.is_running(os.getpid(), started)
    child.communicate(b"\n")
    assert not sandbox.is_running(child.pid, started)
    assert sandbox.start_of(child.pid) == ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells")
def test_a_killed_process_that_nobody_waited_for_is_not_running():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not sandbox.is_running(child.pid)
    child.communicate()


def test_what_nobody_waits_for_stands_back():
    own = os.nice(0)
    assert run("manners") == str(own).encode()
    assert int(run("manners", str(own).encode(), in_background=True)) == min(own + 10, 19)


def test_folders_of_killed_programs_are_removed():
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    program.kill()
    program.communicate()
    left = Path(tempfile.mkdtemp(prefix=f"{sandbox.PREFIX}{program.pid}-"))
    kept = Path(tempfile.mkdtemp(prefix=f"{sandbox.PREFIX}{os.getpid()}-"))
    assert run("echo", b"abc") == b"cba"
    assert (left.exists(), kept.exists()) == (False, True)
    kept.rmdir()


@pytest.mark.skipif(sys.platform == "win32", reason="starts the child by a shell")
def test_a_child_that_starts_late_has_its_working_folder(monkeypatch):
    """On a busy machine the folder was gone before the interpreter had started, which then ended."""
    command = sandbox.child_command()
    monkeypatch.setattr(sandbox, "child_command", lambda: ["sh", "-c", 'sleep 0.3; exec "$@"', "sh", *command])
    assert run("echo", b"abc") == b"cba"
