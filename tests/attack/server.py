"""Runs commands of the program, each in a process of its own with limits, and says how it ended.

Started once: what all commands import is there before the process of each is forked. Requests and answers are lines of
JSON on standard input and output.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from importlib import import_module
from typing import Any

from onnx_workbench.model.errors import errors_to

_MEMORY = 3 << 30  # of the address space; helpers have limits of their own
_TAIL = 3000


def main() -> None:
    """Answer until there is no more request."""
    from onnx_workbench.exec.kernels import load
    from onnx_workbench.model import schemas
    from onnx_workbench.viewer.cli.main import COMMANDS
    from onnx_workbench.viewer.cli.main import main as command

    load()  # and the rest, so that no child does it again
    schemas.find("Neg", 17, "")
    for name in COMMANDS:
        import_module(f"onnx_workbench.viewer.cli.{name}")
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_answer(command, asked["words"], asked["folder"], asked["seconds"])), flush=True)


def _answer(command: Any, words: list[str], folder: str, seconds: float) -> dict[str, Any]:
    started = time.monotonic()
    child = os.fork()
    if not child:
        _work(command, words, folder)
    code = None
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() - started > seconds:
            os.killpg(child, signal.SIGKILL)
            _, _, usage = os.wait4(child, 0)
            break
        time.sleep(0.005)
    texts = {}
    for name in ("out", "err"):
        with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
            texts[name] = file.read(1 << 22)
    texts["err"] = texts["err"][-_TAIL:]
    return {
        "code": code,
        "seconds": time.monotonic() - started,
        "busy": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss << 10,
        **texts,
    }


def _work(command: Any, words: list[str], folder: str) -> None:
    """The life of the child."""
    os.setpgid(0, 0)
    os.chdir(folder)
    for name, descriptor in (("out", 1), ("err", 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = 99
    try:
        with errors_to(traceback.print_exception):
            code = command(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
