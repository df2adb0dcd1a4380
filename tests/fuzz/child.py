"""A function in a child process, for libraries that crash or hang."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from onnx_workbench.model.budget import limit_memory
from onnx_workbench.model.errors import ModelError, errors_to


class Child:
    """A function in a process of its own with a limit of memory, started again where it crashed or hung.

    It is asked many times, as starting a process takes a hundred times as long as most answers.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._process: Any = None
        self._pipe: Connection | None = None
        self._lock = threading.Lock()  # tasks of the window ask from pool threads

    def ask(self, question: object, seconds: float = 120) -> Any:
        """The answer; ModelError where there is none."""
        with self._lock:
            return self._ask(question, seconds)

    def _ask(self, question: object, seconds: float) -> Any:
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._function), daemon=True)
            self._process.start()
            theirs.close()
        assert self._pipe is not None
        try:
            self._pipe.send(question)
            if not self._pipe.poll(seconds):
                raise EOFError
            is_answer, answer = self._pipe.recv()
        except (EOFError, OSError):
            self.close()
            raise ModelError("The child process crashed, or took too long") from None
        if is_answer:
            return answer
        raise answer if isinstance(answer, ModelError) else ModelError(f"{type(answer).__name__}: {answer}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    limit_memory(8 << 30)
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        errors: list[Exception] = []  # those of ONNX Runtime are not public, and all are answers
        with errors_to(errors.append):
            pipe.send((True, function(question)))
        for error in errors:
            pipe.send((False, error if isinstance(error, ModelError) else ModelError(str(error)[:300] or "refused")))
