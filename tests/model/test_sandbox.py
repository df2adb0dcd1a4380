import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_workbench.model import sandbox
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.inference.protocol import encode
from onnx_workbench.model.progress import Cancelled, Progress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the limits are POSIX ones")


def run(function, payload=b"", **limits):
    return sandbox.run_isolated(f"onnx_workbench.model.isolation_cases:{function}", payload, what="The test", **limits)


@pytest.fixture(autouse=True)
def _cases(monkeypatch, tmp_path):
    """A module of misbehaving functions that the child finds under model."""

    (tmp_path / "isolation_cases.py").write_text(
        "import os, signal, sys, time\n"
        "from onnx_workbench.model.errors import ModelError\n"
        "def echo(data): return data[::-1]\n"
        "def crash(data): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def spin(data):\n    while True: pass\n"
        "def sleep(data): time.sleep(100)\n"
        "def manners(data):\n    end = time.monotonic() + 30\n"
        "    while data and os.nice(0) == int(data) and time.monotonic() < end: time.sleep(0.01)\n"
        "    return str(os.nice(0)).encode()\n"
        "def grow(data): return bytes(1 << 40)\n"
        "def refuse(data): raise ModelError('Not so', 'because', 'here')\n"
        "def stumble(data): raise KeyError('oops')\n"
        "def break_off(data):\n    open(sys.argv[2] + '/error', 'w').close()\n    raise KeyError('oops')\n",
        "utf-8",
    )
    start = (
        f"import sys; from onnx_workbench import model; model.__path__.append({str(tmp_path)!r}); "
        "from onnx_workbench.model.sandbox_child import child_main; child_main(sys.argv[1:])"
    )
    monkeypatch.setattr(sandbox, "child_command", lambda: [sys.executable, "-P", "-c", start])


def test_bytes_go_in_and_come_out():
    assert run("echo", b"abc") == b"cba"


def test_a_crash_is_a_message():
    with pytest.raises(ModelError, match=r"The test crashed on this model: .*SIGSEGV"):
        run("crash")


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


def test_a_child_that_ends_while_it_says_why_has_failed():
    with pytest.raises(ModelError, match="The test failed on this model: KeyError"):
        run("break_off")


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
    assert sandbox.run_isolated("onnx_workbench.model.inference.protocol:encode", b"") == encode([])


def test_cancelling_kills_the_child():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        sandbox.run_isolated("model.isolation_cases:sleep", b"", progress=progress)


def test_only_our_own_functions_run():
    with pytest.raises(ModelError, match="os:system is not part of this program"):
        sandbox.run_isolated("os:system", b"true", what="The test")


def test_processes_that_run_and_that_ended_are_told_apart():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert sandbox.is_running(child.pid)
    assert sandbox.is_running(os.getpid())
    child.communicate(b"\n")
    assert not sandbox.is_running(child.pid)
    assert not sandbox.is_running(10**30)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells")
def test_a_later_process_of_the_same_number_does_not_pass_for_an_earlier_one():
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
def test_a_killed_process_does_not_run_although_nobody_asked_for_its_end():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not sandbox.is_running(child.pid)
    child.communicate()


def test_what_nobody_waits_for_stands_back():
    own = os.nice(0)
    assert run("manners") == str(own).encode()
    assert int(run("manners", str(own).encode(), in_background=True)) > own
