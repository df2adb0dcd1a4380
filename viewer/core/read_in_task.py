"""Reading of open models by a background task."""

from __future__ import annotations

import threading
from typing import TypeVar

from PySide6.QtCore import QCoreApplication

from onnx_workbench.model.progress import Cancelled, Progress
from onnx_workbench.viewer.core.tasks import ModelReader, Work, post

T = TypeVar("T")

_POLL_SECONDS = 0.05  # between two looks whether to stop


def read_model(work: Work[T], progress: Progress) -> T:
    """Return what `work(progress)` reads of open models, see `ModelReader`, or raise what it raises. From a task."""
    readers: list[ModelReader] = []
    results: list[T] = []
    errors: list[Exception] = []
    ended = threading.Event()

    def start() -> None:
        application = QCoreApplication.instance()
        assert application is not None
        readers.append(ModelReader(application))
        readers[0].start(work, take, failed=fail, report=progress.report)

    def take(result: T) -> None:
        results.append(result)
        end()

    def fail(error: Exception) -> None:
        errors.append(error)
        end()

    def end() -> None:
        for reader in readers:
            reader.stop()
            reader.deleteLater()
        ended.set()

    post(start)
    while not ended.wait(_POLL_SECONDS):
        if progress.cancelled:
            post(end)
            raise Cancelled
    if errors:
        raise errors[0]
    return results[0]
