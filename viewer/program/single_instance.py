"""Single instance: a second start passes its files to the open window and ends. No Qt.

    if send_to_running_instance(["model.onnx"]): return            # before anything of Qt is imported

They communicate by a local socket (a named pipe on Windows) that only this user can access, one for each display;
the other side is `viewer.program.instance_listener`. A message is one line of JSON, the answer is ``ACCEPTED``.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_workbench.viewer.program.folders import state_folder

ACCEPTED = b"accepted\n"
#: Limit for the bytes of a message, including its line end; longer ones are rejected.
LARGEST = 1 << 16

_TIMEOUT_SECONDS = 3.0  # an instance without an answer by then hangs, and a separate window is opened
_LONGEST = 90  # limit for the bytes of a socket's path: some systems allow 104, and Qt adds a few


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """Files to open, as absolute paths.

    `token` is the desktop's activation token for raising a window, often empty; `goto` is the name of a node to show
    in the first file.
    """

    files: tuple[str, ...]
    token: str = ""
    goto: str = ""

    def to_bytes(self) -> bytes:
        """Return the message as one line."""
        return json.dumps({"open": self.files, "token": self.token, "goto": self.goto}).encode() + b"\n"

    @classmethod
    def from_bytes(cls, line: bytes) -> OpenMessage | None:
        """Parse a message; None if it is not in the form of `to_bytes`."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict):
            return None
        files, token, goto = message.get("open"), message.get("token"), message.get("goto", "")
        if not isinstance(files, list) or not isinstance(token, str) or not isinstance(goto, str) or not files:
            return None
        if not token.isascii() or (token and not token.isprintable()):
            return None
        if not all(isinstance(name, str) and _is_file_name(name) for name in files):
            return None
        return cls(tuple(files), token, goto)


def _is_file_name(name: str) -> bool:
    """Return whether a text may be an absolute file name on this system."""
    try:
        return b"\0" not in os.fsencode(name) and Path(name).is_absolute()
    except UnicodeEncodeError:
        return False


def address() -> str | None:
    """Return the socket address of this user's programs on this display; None without a private location."""
    meant = [
        str(state_folder()),
        *map(os.environ.get, ("WAYLAND_DISPLAY", "DISPLAY", "QT_QPA_PLATFORM", "SESSIONNAME")),
    ]
    name = "onnx-workbench-" + hashlib.sha256(repr(meant).encode()).hexdigest()[:16]
    if sys.platform == "win32":
        return rf"\\.\pipe\{name}"
    folder = _folder()
    if not _is_private(folder):
        return None
    path = str(folder / name)
    return path if len(os.fsencode(path)) <= _LONGEST else None


def _folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if "ONNX_WORKBENCH_STATE" in os.environ:
        return state_folder()
    if runtime:
        return Path(runtime)
    temporary = os.environ.get("TMPDIR") if sys.platform == "darwin" else None  # private to each user there
    return Path(temporary) if temporary else state_folder()


def _is_private(folder: Path) -> bool:
    """Return whether only this user can create a socket in a folder; creates the folder if it does not exist."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return False
    return sys.platform == "win32" or (
        status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def send_to_running_instance(names: Sequence[str], goto: str = "", timeout: float = _TIMEOUT_SECONDS) -> bool:
    """Make the running instance open files and show a node of the first; return False if there is none, or no answer.

    Takes some microseconds if there is none, and at most `timeout` seconds if it hangs.
    """
    where = address()
    if where is None or not Path(where).exists():
        return False
    token = os.environ.get("XDG_ACTIVATION_TOKEN", "")
    message = OpenMessage(tuple(str(Path(name).absolute()) for name in names), token, goto).to_bytes()
    if len(message) > LARGEST:
        return False
    answers: list[bytes] = []
    # A Windows pipe cannot be read with a timeout, so the thread is abandoned instead.
    talk = threading.Thread(target=_talk, args=(where, message, answers), daemon=True)
    talk.start()
    talk.join(timeout)
    return answers == [ACCEPTED]


def _talk(where: str, message: bytes, answers: list[bytes]) -> None:
    try:
        if sys.platform == "win32":
            with open(where, "r+b", buffering=0) as pipe:
                pipe.write(message)
                answers.append(pipe.read(len(ACCEPTED)))
        else:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(where)
                line.sendall(message)
                answers.append(line.recv(len(ACCEPTED)))
    except OSError:
        return  # the listener has ended
