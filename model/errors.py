"""ModelError, the only error that a user can cause; any other exception is a bug, reported at process boundaries."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

#: Exceptions of a rule about operators: for an invalid node, which checks report, or from a bug in the rule.
RULE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class ModelError(ValueError):
    """An error in a model, a file or an input that the user can cause and should see.

    `title` is a short sentence for a heading, `detail` says what was found and what was expected, `place` is the
    location: a model object (Node, Value, Graph …) or a text such as ``byte 123 in model.graph.node[4]``.
    """

    def __init__(self, title: str, detail: str = "", place: Any = None) -> None:
        self.title = title
        self.detail = detail
        self.place = place
        super().__init__(title if not detail else f"{title}: {detail}")


def errors_to(
    answer: Callable[[Any], object], kind: type[BaseException] = Exception
) -> AbstractContextManager[None, bool]:
    """Pass any exception raised in the block to `answer`, and continue after the block.

    For boundaries where every error must become a message: the end of a job, another process, a kernel in a run.
    Elsewhere catch specific errors. `kind` is BaseException for a thread that must not end silently.
    """
    return _ErrorsTo(answer, kind)


def faults_to(answer: Callable[[Any], object]) -> AbstractContextManager[None, bool]:
    """`errors_to` for code of extensions: also what would end the thread or the program, but not the user's Ctrl+C."""
    return _FaultsTo(answer, BaseException)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception is the user's Ctrl+C: on the main thread, if nothing else handles it."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


class _ErrorsTo:
    """Context manager of `errors_to`; a generator would keep the exception and its frames alive on Python 3.13."""

    def __init__(self, answer: Callable[[Any], object], kind: type[BaseException]) -> None:
        self._answer = answer
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, self._kind):
            return False
        self._answer(error)
        return True


class _FaultsTo(_ErrorsTo):
    """Context manager of `faults_to`."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return error is not None and not is_interrupt(error) and super().__exit__(kind, error, traceback)
