"""Child-process side of model.sandbox. Imports little, as every child takes the time."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress

IDLE_SECONDS = 60  # seconds after which an idle child ends
_GIB = 1 << 30
_LENGTH_BYTES = 8
_PARENT_SECONDS = 1.0  # seconds between checks that the program is running

#: Prefix of the modules whose functions may run in a child, whatever the caller passes.
_PACKAGE = "onnx_workbench."


def write_message(pipe: IO[bytes], header: dict[str, Any], content: bytes) -> None:
    """Write a header and bytes, each preceded by its length."""
    for part in (json.dumps(header).encode(), content):
        pipe.write(len(part).to_bytes(_LENGTH_BYTES, "little"))
        pipe.write(part)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Read what `write_message` wrote; EOFError where it ends early, ValueError for an invalid header."""
    header = json.loads(_read_part(pipe))
    return header, _read_part(pipe)


def _read_part(pipe: IO[bytes]) -> bytes:
    length = int.from_bytes(_read(pipe, _LENGTH_BYTES), "little")
    return _read(pipe, length)


def _read(pipe: IO[bytes], length: int) -> bytes:
    parts = []
    while length:
        part = pipe.read(min(length, 1 << 24))  # never allocate a length that is only claimed
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def child_main() -> None:
    """Entry point of the child: answer calls until its input ends, or none arrives for a minute."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    threading.Thread(target=_end_with_parent, name="watch", daemon=True).start()
    with suppress(OSError):  # Windows keeps the folder until this process has ended
        Path.cwd().rmdir()  # without its folder, no other interpreter can start there
    while True:
        idle = threading.Timer(IDLE_SECONDS, os._exit, (0,))
        idle.daemon = True
        idle.start()
        try:
            header, payload = read_message(calls)
        except EOFError:
            return
        idle.cancel()
        _limit(header["memory"], header["seconds"] * header["threads"])
        faulthandler.dump_traceback_later(header["seconds"] + 1, exit=True)  # works even while C++ code holds the GIL
        _end_with_input(calls, is_on=True)
        answer, content = _answer(header, payload, answers)
        _end_with_input(calls, is_on=False)
        faulthandler.cancel_dump_traceback_later()
        write_message(answers, answer, content)
        if "title" in answer:
            return


def _answer(header: dict[str, Any], payload: bytes, answers: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Return the memory used and the result of the function, or a header with the error."""

    def report(*news: float | str) -> None:
        write_message(answers, {"progress": news}, b"")

    try:
        function = _find(header["function"])
        result = function(payload, Progress(report)) if header["reports"] else function(payload)
        return {"memory": _memory()}, result
    except MemoryError:
        limit = f"The limit of {header['memory'] / _GIB:.1f} GiB was reached"
        return {"title": limit, "detail": "The model needs more memory than allowed.", "place": ""}, b""
    except ModelError as error:
        return {"title": error.title, "detail": error.detail, "place": str(error.place or "")}, b""


def _find(function: str) -> Callable[..., bytes]:
    module, _, name = function.partition(":")
    if not module.startswith(_PACKAGE):
        msg = f"{function} is not part of this program"
        raise ValueError(msg)
    found: Callable[..., bytes] = getattr(importlib.import_module(module), name)
    return found


def _memory() -> int:
    """Return the memory used by this process in bytes, 0 without /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _limit(memory: int, seconds: int) -> None:
    """Set the limits of one call; processor time is counted from now."""
    try:
        import resource
    except ImportError:  # Windows has no rlimits; the parent's wall-clock limit still applies
        return
    for what, amount in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(time.process_time()) + seconds + 1),
        (resource.RLIMIT_FSIZE, memory),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):
            _, hard = resource.getrlimit(what)
            resource.setrlimit(what, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))


if sys.platform == "win32":

    def _end_with_parent() -> None:
        """End this process when the program ends; while a library holds the GIL, only the call's time limit does."""
        import ctypes

        synchronize, for_ever = 0x0010_0000, 0xFFFF_FFFF
        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenProcess.restype = ctypes.c_void_p
        parent = kernel.OpenProcess(synchronize, False, os.getppid())
        if parent:
            kernel.WaitForSingleObject(ctypes.c_void_p(parent), for_ever)
        os._exit(1)

else:

    def _end_with_parent() -> None:
        """End this process when the program ends, unless a library holds the GIL: see `_end_with_input`."""
        parent = os.getppid()
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os._exit(1)


def _end_with_input(calls: IO[bytes], *, is_on: bool) -> None:
    """Make the system end this process when the other end of its input closes, as when the program is killed.

    The signal works while a library holds the GIL too. Where it is unavailable, as on Windows, the call's time limit
    ends the process. The program sends nothing while it waits for an answer.
    """
    try:
        import fcntl
    except ImportError:
        return
    if not hasattr(fcntl, "F_SETOWN"):
        return
    fcntl.fcntl(calls, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(calls, fcntl.F_GETFL)
    fcntl.fcntl(calls, fcntl.F_SETFL, flags | os.O_ASYNC if is_on else flags & ~os.O_ASYNC)
