"""ModelError, the only error that a user can cause; any other exception is a bug, which process borders report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class ModelError(ValueError):
    """Something about a model or file that the user can cause and should be told.

    `title` is a short sentence for a heading, `detail` says what was found and what was expected,
    `place` is where: a model object (Node, Value, Graph …) or a text such as ``byte 123 in model.graph.node[4]``.
    """

    def __init__(self, title: str, detail: str = "", place: Any = None) -> None:
        self.title = title
        self.detail = detail
        self.place = place
        super().__init__(title if not detail else f"{title}: {detail}")


@contextmanager
def errors_to(answer: Callable[[Any], object], kind: type[BaseException] = Exception) -> Iterator[None]:
    """Pass any exception raised in the block to `answer`, and continue behind it.

    For borders where any error at all must become a message: the end of a job, another process, a kernel in a run.
    Elsewhere say which errors. `kind` is BaseException for a thread that must not end without a word.
    """
    try:
        yield
    except kind as error:
        answer(error)
