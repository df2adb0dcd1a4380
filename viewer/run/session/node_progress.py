"""Progress of a run by node: finished nodes are collected on its thread and reported on the GUI thread."""

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
    from onnx_workbench.viewer.run.session.run_task import RunTask

#: Milliseconds between two reports.
_PACE = 80
_MOST = 2000  # limit for the nodes reported at once, which takes much less than a frame
#: Bytes of values after which a run that keeps them all says so.
MUCH = 1 << 30
_NONE: NDArray[np.int64] = np.zeros(0, np.int64)


class NodeProgress(QObject):
    """Reports the finished nodes of the current run, from `start` to `stop`; not those left at its end.

    `node_of` returns the node with a number in runs.
    """

    finished = Signal(object)  # list[Node] that have been computed, also in calls of functions
    #: The values of a run have reached MUCH bytes: their bytes, the number of its nodes. Once per run.
    kept_much = Signal(object, int)

    def __init__(self, node_of: Callable[[int], Node | None], parent: QObject) -> None:
        super().__init__(parent)
        self._node_of = node_of
        self._run: RunTask | None = None
        self._news: list[NDArray[np.int64]] = []  # numbers of unreported nodes
        self._lock = threading.Lock()
        self._timer = QTimer(self, interval=_PACE)
        self._timer.timeout.connect(self.report)
        self.count = 0  # finished nodes since the document was opened; read on any thread
        self._run_bytes = self._run_nodes = 0  # of the current run
        self._has_told = False

    def start(self, run: RunTask) -> None:
        """Start reporting a run that starts or continues."""
        self._run = run
        self._timer.start()

    def stop(self) -> None:
        """Stop: the run has ended or paused, and unreported nodes are dropped."""
        self._run = None
        self._timer.stop()
        with self._lock:
            self._news.clear()
            self._run_bytes = self._run_nodes = 0
            self._has_told = False

    def observe(self, finished: NodeTable) -> None:
        """Collect finished nodes. Called on the thread of the run."""
        with self._lock:
            self._news.append(finished.keys.outermost())
            self.count += len(finished)
            self._run_bytes += int(finished.nbytes.sum())
            self._run_nodes += len(finished)

    def report(self) -> None:
        """Report the nodes finished since the last call, up to a limit; the rest wait for the next call."""
        stepper = None if self._run is None else self._run.stepper
        if isinstance(stepper, Stepper):
            stepper.notify()  # a worker does so periodically
        with self._lock:
            news = np.concatenate(self._news) if self._news else _NONE
            numbers, self._news = news[:_MOST], [news[_MOST:]] if len(news) > _MOST else []
            size, done = self._run_bytes, self._run_nodes
        if size >= MUCH and not self._has_told:
            self._has_told = True
            self.kept_much.emit(size, done)
        nodes = [node for number in dict.fromkeys(numbers.tolist()) if (node := self._node_of(number)) is not None]
        if nodes:
            self.finished.emit(nodes)
