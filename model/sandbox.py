"""Run code that may crash, hang or exhaust memory in a child process with limits (sandbox).

onnx's C++ helpers (checker, shape inference, version converter, inliner, text parser) do all three on small
hostile files, so none of them ever runs in the program's own process. The child gets bytes and returns bytes.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import SILENT, Progress

GIB = 1 << 30

#: Niceness of background children (see nice(2)): lower priority than a run of a model.
_MANNERS = 10
#: Seconds until a child that is wanted no longer is stopped.
_POLL = 0.02


def run_isolated(
    function: str,
    payload: bytes,
    *,
    what: str = "The helper",
    memory: int = 4 * GIB,
    seconds: int = 120,
    progress: Progress = SILENT,
    in_background: bool = False,
) -> bytes:
    """Call ``module:function`` with bytes in a child process and return its bytes.

    `what` begins the message when it fails: ModelError for a crash, a limit, or a ModelError raised inside.
    `memory` limits its address space, `seconds` its processor and wall time. `in_background`: nobody waits for it, so
    the window and runs come first. Blocks; not on the GUI thread.
    """
    folder = Path(tempfile.mkdtemp(prefix="onnx-workbench-"))
    try:
        (folder / "in").write_bytes(payload)
        process = subprocess.Popen(
            [*child_command(), function, str(folder), str(memory), str(seconds)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _running[process] = folder
        if in_background:
            _stand_back(process)
        try:
            stderr = _wait(process, seconds, what, progress)
        except BaseException:
            _kill(process)
            raise
        finally:
            _running.pop(process, None)
        return _result(folder, process.returncode, stderr, what)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


#: Running children and their folders: killed and removed when the program ends.
_running: dict[subprocess.Popen[bytes], Path] = {}


@atexit.register
def _end_children() -> None:
    for process, folder in list(_running.items()):
        _kill(process)
        shutil.rmtree(folder, ignore_errors=True)


def child_command() -> list[str]:
    """The command that starts this program as a child; arguments follow it."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--child"]
    start = "import sys; from onnx_workbench.model.sandbox_child import child_main; child_main(sys.argv[1:])"
    return [sys.executable, "-P", "-c", start]  # -P: a module in the working folder cannot take the place of ours


def _wait(process: subprocess.Popen[bytes], seconds: int, what: str, progress: Progress) -> bytes:
    """Wait for the end, checking for cancellation; returns what it wrote to standard error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _, stderr = process.communicate(timeout=_POLL)
            return stderr
        except subprocess.TimeoutExpired:
            progress.check()
            if time.monotonic() > deadline:
                raise ModelError(
                    f"{what} took longer than {seconds} s", "It was stopped; the model is as it was."
                ) from None


def _stand_back(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "setpriority"):
        with suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, process.pid, _MANNERS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _result(folder: Path, code: int, stderr: bytes, what: str) -> bytes:
    said = None
    with suppress(FileNotFoundError, ValueError):  # a child that ended while it wrote left a part of that
        said = json.loads((folder / "error").read_text("utf-8"))
    if said is not None:
        raise ModelError(said["title"], said["detail"], said["place"])
    if code == 0 and (folder / "out").exists():
        return (folder / "out").read_bytes()
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        raise ModelError(f"{what} crashed on this model", f"Its process ended with {name}; the model is as it was.")
    tail = stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {code}"]
    raise ModelError(f"{what} failed on this model", tail[0][:500])


def is_running(process: int, started: str = "") -> bool:
    """Return whether a process of this number exists on this computer; True where that is unknown.

    `started`: its result of `start_of`, to detect reuse of the number.
    """
    exists = process == os.getpid() or _exists(process)
    return exists and (not started or start_of(process) in ("", started))


def start_of(process: int) -> str:
    """Return the start time of a process, unique among processes of its number; "" where unknown, as without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").partition("-")[0]
        ticks = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except (OSError, ValueError, IndexError):
        return ""
    return f"{boot}-{int(ticks)}"


if sys.platform == "win32":  # where os.kill would end it

    def _exists(process: int) -> bool:
        import ctypes

        synchronize, no_such_process, still_waiting = 0x0010_0000, 87, 0x102
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(synchronize, False, process)
        if not handle:
            return ctypes.get_last_error() != no_such_process
        try:
            return bool(kernel.WaitForSingleObject(ctypes.c_void_p(handle), 0) == still_waiting)
        finally:
            kernel.CloseHandle(ctypes.c_void_p(handle))

else:

    def _exists(process: int) -> bool:
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:
            return True
        return not _is_dead(process)

    def _is_dead(process: int) -> bool:
        """Return whether it is a zombie process; determined where there is /proc."""
        try:
            status = Path(f"/proc/{process}/stat").read_bytes()
        except OSError:
            return False
        return status.rpartition(b")")[2].split()[:1] == [b"Z"]  # behind its name, which may hold anything
