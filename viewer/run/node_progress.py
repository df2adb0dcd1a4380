"""Progress of a run by node: finished nodes are gathered on its thread and reported on the GUI thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.results.node_table import NodeTable
from onnx_workbench.model.ir.graph import Node

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.run_task import RunTask

#: Milliseconds between two reports.
_PACE = 80
_MOST = 2000  # nodes reported at once, which takes far less than a frame
_NONE: NDArray[np.int64] = np.zeros(0, np.int64)


class NodeProgress(QObject):
    """Finished nodes of one run after the other, from `start` to `stop`. Those overtaken by its end are not
    reported.

    `node_of` is the node with a number in runs.
    """

    finished = Signal(object)  # list[Node] that have been computed, be it in calls of functions among them

    def __init__(self, node_of: Callable[[int], Node | None], parent: QObject) -> None:
        super().__init__(parent)
        self._node_of = node_of
        self._run: RunTask | None = None
        self._news: list[NDArray[np.int64]] = []  # their numbers
        self._lock = threading.Lock()
        self._timer = QTimer(self, interval=_PACE)
        self._timer.timeout.connect(self.report)
        self.count = 0  # since the document was opened; read on any thread

    def start(self, run: RunTask) -> None:
        """Start following a run that begins or continues."""
        self._run = run
        self._timer.start()

    def stop(self) -> None:
        """Stop: the run has ended or waits, so unreported nodes no longer matter."""
        self._run = None
        self._timer.stop()
        with self._lock:
            self._news.clear()

    def observe(self, finished: NodeTable) -> None:
        """Nodes have finished. On the thread of the run."""
        with self._lock:
            self._news.append(finished.keys.outermost())
            self.count += len(finished)

    def report(self) -> None:
        """Report the nodes finished since the last call, up to a limit; the rest wait for the next call."""
        stepper = None if self._run is None else self._run.stepper
        if isinstance(stepper, Stepper):
            stepper.notify()  # a worker does so unasked
        with self._lock:
            news = np.concatenate(self._news) if self._news else _NONE
            numbers, self._news = news[:_MOST], [news[_MOST:]] if len(news) > _MOST else []
        nodes = [node for number in dict.fromkeys(numbers.tolist()) if (node := self._node_of(number)) is not None]
        if nodes:
            self.finished.emit(nodes)
