"""Regular expressions from the user, with a time limit against catastrophic backtracking."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TypeVar

from onnx_workbench.model.errors import ModelError

T = TypeVar("T")

#: CPU time of the main thread that one text may take.
LIMIT_SECONDS = 0.5


class RegularExpression:
    """A compiled regular expression; ModelError for a malformed one, and during matching on timeout.

    Python's `re` has no time limit, but checks for signals. Without SIGVTALRM (Windows) and off the main thread there
    is no limit.
    """

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a FutureWarning: later Pythons may read it differently
                self._pattern = re.compile(text, re.IGNORECASE if ignores_case else 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise ModelError(f"/{text}/ is not a regular expression", str(error)) from error

    def is_in(self, text: str) -> bool:
        """Return whether any part of a text matches."""
        return _within_limit(self._pattern.search, text) is not None

    def replacing(self, template: str, *, whole: bool = False) -> Callable[[str], str]:
        r"""Return the function that substitutes a template (``\1`` is a group) for each match, or only for a full
        match.
        """
        try:
            self._pattern.sub(template, "")
        except (re.error, IndexError) as error:
            raise ModelError(f"The replacement {template!r} does not work", str(error)) from error

        def of_whole(text: str) -> str:
            match = _within_limit(self._pattern.fullmatch, text)
            return text if match is None else match.expand(template)

        return of_whole if whole else lambda text: _within_limit(partial(self._pattern.sub, template), text)


class _Limit:
    """Timer that interrupts matching in the main thread only.

    The timer counts CPU time of all threads, and a signal may arrive late; so each signal checks whether matching is in
    progress, and how long this thread took.
    """

    def __init__(self) -> None:
        self._end = inf  # CPU time of the main thread

    def __call__(self, look: Callable[[str], T], text: str) -> T:
        if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
            return look(text)
        if signal.getsignal(signal.SIGVTALRM) != self._on_signal:
            signal.signal(signal.SIGVTALRM, self._on_signal)
        self._end = time.thread_time() + LIMIT_SECONDS
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS, LIMIT_SECONDS / 10)
        try:
            return look(text)
        finally:
            self._end = inf
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _on_signal(self, *_: object) -> None:
        if time.thread_time() >= self._end:
            raise ModelError(
                "The regular expression takes too long",
                "Stopped: one of the texts takes too many steps to match, often because of nested repetitions such as "
                "(a+)+.",
            )


_within_limit = _Limit()
