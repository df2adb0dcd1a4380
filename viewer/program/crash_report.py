"""Handler of unexpected errors: writes them to a log file and shows a dialog; the window stays usable."""

from __future__ import annotations

import contextlib
import datetime as dt
import faulthandler
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from onnx_workbench.model.errors import errors_to
from onnx_workbench.viewer.program.folders import make_state_folder
from onnx_workbench.viewer.tasks.threads import post

_LOG_LIMIT = 1 << 20
_log = logging.getLogger("onnx_workbench")
_show: Callable[[str], object] = str  # shows a report to the user; set by `install`
_last_errors: deque[str] = deque(maxlen=1)
_open_files: list[TextIO] = []  # faulthandler needs its file to stay open


def install(show: Callable[[str], object]) -> None:
    """Report uncaught errors of any thread. GUI thread, once, before the first window.

    `show` is called on the GUI thread with the text of each report.
    """
    global _show  # noqa: PLW0603 - Python's hooks are global too
    _show = show
    _open_logs()
    sys.excepthook = handle
    threading.excepthook = _handle_thread


def last_error() -> str:
    """Return the traceback of the last error reported in this process, or empty. Any thread."""
    return _last_errors[-1] if _last_errors else ""


def report_text(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """Return the text for developers: versions and the traceback."""
    from onnx_workbench.viewer.program.version import versions  # slow to import and rarely needed

    about = "\n".join(f"{name} {version}" for name, version in versions().items())
    return f"{about}\n\n{''.join(traceback.format_exception(kind, error, trace))}"


def handle(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write an uncaught error to the log and standard error and show it in a dialog; never raises."""
    if issubclass(kind, KeyboardInterrupt):
        _quit()
        return
    _last_errors.append("".join(traceback.format_exception(kind, error, trace)))
    text = report_text(kind, error, trace)
    _log.error("%s", text)
    with contextlib.suppress(Exception):  # a windowed program on Windows has no standard error
        print(text, file=sys.stderr)
    with errors_to(lambda second: _log.error("could not show the error: %r", second)):
        _show(text)


def _handle_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is None:
        return

    error, trace = arguments.exc_value, arguments.exc_traceback
    post(lambda: handle(type(error), error, trace))


def _quit() -> None:
    from PySide6.QtWidgets import QApplication

    QApplication.quit()


def _open_logs() -> None:
    try:
        folder = make_state_folder()
        log = folder / "log.txt"
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(folder / "log.old.txt")
        handler = logging.FileHandler(log, encoding="utf-8", delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        _log.addHandler(handler)
        faults = (folder / "fault.txt").open("a", encoding="utf-8")
        _open_files.append(faults)
        if (folder / "fault.txt").stat().st_size > _LOG_LIMIT:
            faults.truncate(0)
        started = dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds")
        faults.write(f"started {started}\n")
        faults.flush()
        faulthandler.enable(faults)
    except OSError:
        # A read-only home must not keep the program from starting; errors still go to standard error.
        if sys.stderr is not None:
            faulthandler.enable()
