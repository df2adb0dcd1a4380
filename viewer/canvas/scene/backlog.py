"""Queue for updating the picture after an edit of very many objects, in chunks between events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.document.model_signals import ChangeSet
from onnx_workbench.viewer.tasks.event_loop import CHUNK_SECONDS

_PIECE = 100  # objects between two reads of the clock


class Backlog(QObject):
    """Queue of objects passed to `look` in chunks, except while `is_busy`.

    Objects may have been changed again or deleted by then: `look` reads their current state. GUI thread only.
    """

    def __init__(
        self, look: Callable[[ChangeSet], object], is_busy: Callable[[], bool], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._look = look
        self._is_busy = is_busy
        self._objects: dict[Node | Value, None] = {}
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._work)

    def add(self, objects: Iterable[Node | Value]) -> None:
        """Add objects, without duplicates, unordered."""
        self._objects.update(dict.fromkeys(objects))
        self._timer.start()

    def clear(self) -> None:
        """Empty the queue: everything is redrawn, or nothing is shown."""
        self._objects = {}
        self._timer.stop()

    def _work(self) -> None:
        end = time.perf_counter() + CHUNK_SECONDS
        while self._objects and not self._is_busy() and time.perf_counter() < end:
            piece = ChangeSet()
            for _ in range(min(_PIECE, len(self._objects))):
                one, _ = self._objects.popitem()
                if isinstance(one, Node):
                    piece.nodes.add(one)
                else:
                    piece.values.add(one)
            self._look(piece)
        if not self._objects:
            self._timer.stop()
