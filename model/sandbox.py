"""Run code that may crash, hang or exhaust memory in a child process with limits (sandbox).

onnx's C++ helpers (checker, shape inference, inliner, text parser) do all three on small hostile
files, so none of them ever runs in the program's own process. The child receives and returns bytes through its standard
input and output, and ends when its input is closed, hence with the program. Starting one takes a quarter of a second of
processor time, so a child that has answered is kept for later calls.
"""

from __future__ import annotations

import atexit
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnx_workbench.model.budget import HELPER_MEMORY, HELPER_SECONDS
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox_child import IDLE_SECONDS, read_message, write_message

GIB = 1 << 30
#: Prefix of the names of temporary folders; the number of the owning process follows.
PREFIX = "onnx-workbench-"

_NICENESS = 10  # added for background children, see nice(2): lower priority than a run of a model
_POLL = 0.02  # seconds between cancellation checks
_MOST_CALLS = 200  # per child, in case a library leaks memory
_LARGE = 256 << 20  # bytes of memory above which a child is not kept


def run_isolated(
    function: str,
    payload: bytes,
    *,
    what: str = "The helper",
    memory: int = HELPER_MEMORY,
    seconds: int = HELPER_SECONDS,
    threads: int = 1,
    progress: Progress = SILENT,
    reports: bool = False,
    in_background: bool = False,
) -> bytes:
    """Call ``module:function`` with bytes in a child process and return its bytes.

    `what` is the subject of error messages: ModelError for a crash, a limit, or a ModelError raised inside. `memory`
    limits its address space, `seconds` its wall time and the processor time of each of `threads` threads. A function
    that `reports` is called with a Progress too, whose reports arrive here.
    `in_background` lowers its priority below the window and runs. Blocks; not on the GUI thread.
    """
    header = {"function": function, "memory": memory, "seconds": seconds, "threads": threads, "reports": reports}
    key = (*child_command(), function, str(in_background))
    child = _idle_child(key) or _Child(key, in_background=in_background)
    try:
        answer, content = child.call(header, payload, seconds, what, progress)
        if "title" in answer:
            raise ModelError(answer["title"], answer["detail"], answer["place"])
        if answer["memory"] < _LARGE:
            child.keep()
        return content
    finally:
        if not child.is_kept:
            child.kill()


class _Child:
    """A child process, used by one thread at a time."""

    def __init__(self, key: tuple[str, ...], *, in_background: bool) -> None:
        self._key = key
        self._folder = make_own_folder()  # its working folder, where relative paths of a model find nothing
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `kill`
        self._process = subprocess.Popen(
            child_command(),
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        if in_background and hasattr(os, "setpriority"):
            with suppress(OSError):  # the child has ended
                os.setpriority(os.PRIO_PROCESS, self._process.pid, os.nice(0) + _NICENESS)  # capped at 19 by the system
        self._calls = 0
        self._idle_until = 0.0
        self.is_kept = False
        _started.add(self)

    def call(
        self, header: dict[str, Any], payload: bytes, seconds: int, what: str, progress: Progress
    ) -> tuple[dict[str, Any], bytes]:
        """Send one call and return its answer; ModelError when the child ends or the time limit is exceeded."""
        answers: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None] = queue.SimpleQueue()
        threading.Thread(target=self._exchange, args=(header, payload, answers), daemon=True).start()
        self._calls += 1
        deadline = time.monotonic() + seconds
        while True:
            progress.check()
            if time.monotonic() >= deadline:
                raise ModelError(f"{what} took longer than {seconds} s", "It was stopped; the model is unchanged.")
            with suppress(queue.Empty):
                answer = answers.get(timeout=_POLL)
                if answer is None:
                    raise self._failure(what)
                if "progress" not in answer[0]:
                    return answer
                progress.report(*answer[0]["progress"])

    def _exchange(
        self, header: dict[str, Any], payload: bytes, answers: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None]
    ) -> None:
        """Send a call, pass on reports and the answer; None when the child ended. On a thread, since pipes block."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            write_message(self._process.stdin, header, payload)
            is_over = False
            while not is_over:
                message = read_message(self._process.stdout)
                is_over = "progress" not in message[0]
                answers.put(message)
        except (OSError, EOFError, ValueError):
            answers.put(None)

    def _failure(self, what: str) -> ModelError:
        """Return the error that describes how the process ended."""
        code = self._process.wait()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return ModelError(
                f"{what} crashed on this model", f"Its process ended with {name}; the model is unchanged."
            )
        self._stderr.seek(0)
        lines = self._stderr.read(1 << 20).decode("utf-8", "replace").strip().splitlines()
        return ModelError(f"{what} failed on this model", (lines or [f"exit code {code}"])[-1][:500])

    def keep(self) -> None:
        """Keep the child for the next call, unless another idle child of its kind is kept already."""
        self._idle_until = time.monotonic() + IDLE_SECONDS - 5
        with _lock:
            if self._calls < _MOST_CALLS and self._key not in _idle:
                _idle[self._key] = self
                self.is_kept = True

    def can_be_used(self) -> bool:
        """Return whether an idle child can take one more call."""
        return time.monotonic() < self._idle_until and self._process.poll() is None

    def kill(self) -> None:
        """End the process and release what it holds."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with suppress(OSError):  # unsent data in the buffer
                    pipe.close()
        with suppress(OSError):
            self._folder.rmdir()
        _started.discard(self)


_started: set[_Child] = set()
_idle: dict[tuple[str, ...], _Child] = {}  # by command, function and priority
_lock = threading.Lock()  # for both sets


def _idle_child(key: tuple[str, ...]) -> _Child | None:
    """Return an idle child for a call of the same kind, if there is one.

    Children are not shared between functions: memory that one has mapped may exceed the limit of another.
    """
    with _lock:
        child = _idle.pop(key, None)
    if child is None:
        return None
    child.is_kept = False
    if child.can_be_used():
        return child
    child.kill()
    return None


def make_own_folder(base: Path | None = None) -> Path:
    """Create a private folder for temporary files, with this process's number in its name, in `base` or the default
    one.

    Folders of processes that were killed are removed.
    """
    temporary = Path(tempfile.gettempdir())
    for folder in {base or temporary, temporary}:
        _remove_stale(folder)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))


def _remove_stale(base: Path) -> None:
    for folder in base.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not is_running(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _end_children() -> None:
    for child in list(_started):
        child.kill()


def child_command() -> list[str]:
    """Return the command that starts this program as a child."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--child"]
    start = "from onnx_workbench.model.sandbox_child import child_main; child_main()"
    return [sys.executable, "-P", "-c", start]  # -P: a module in the working folder cannot shadow ours


def is_running(process: int, started: str = "") -> bool:
    """Return whether a process of this number exists on this computer; True where that is unknown.

    `started` is its earlier result of `start_of`, to detect reuse of the number.
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


if sys.platform == "win32":  # where os.kill would terminate it

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
        """Return whether it is a zombie process; False without /proc."""
        try:
            status = Path(f"/proc/{process}/stat").read_bytes()
        except OSError:
            return False
        return status.rpartition(b")")[2].split()[:1] == [b"Z"]  # after the process name, which may contain anything
