"""ModelError, the only error that a user can cause; any other exception is a bug, which process borders report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

#: Exceptions of a rule about operators for an invalid node, which checks report, or of a faulty rule.
RULE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class ModelError(ValueError):
    """Something about a model or file that the user can cause and should know.

    `title` is a short sentence for a heading, `detail` says what was found and what was expected,
    `place` is where: a model object (Node, Value, Graph …) or a text such as ``byte 123 in model.graph.node[4]``.
    """

    def __init__(self, title: str, detail: str = "", place: Any = None) -> None:
        self.title = title
        self.detail = detail
        self.place = place
        super().__init__(title if not detail else f"{title}: {detail}")


def errors_to(
    answer: Callable[[Any], object], kind: type[BaseException] = Exception
) -> AbstractContextManager[None, bool]:
    """Pass any exception raised in the block to `answer`, and continue behind it.

    For borders where any error at all must become a message: the end of a job, another process, a kernel in a run.
    Elsewhere say which errors. `kind` is BaseException for a thread that must not end without a word.
    """
    return _ErrorsTo(answer, kind)


class _ErrorsTo:
    """A class, as on Python 3.13 a generator keeps the exception it handled, and with it the frame that raised it."""

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
