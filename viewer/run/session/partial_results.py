"""Periodic reads of the values of a running run, to show them before its end."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.session.node_progress import NodeProgress
from onnx_workbench.viewer.run.session.run_session import RunSession
from onnx_workbench.viewer.run.session.run_task import RunTask
from onnx_workbench.viewer.tasks.tasks import Task, TaskRunner

#: Milliseconds before the first read, and between two reads.
_INTERVAL_MS = 400
_PACE = 500
#: Limit for the share of time of reads, 1 / this, as they are expensive for large graphs.
_SHARE = 10

_Mask = NDArray[np.bool_]  # by slot


class PartialResults(QObject):
    """Periodic read of the results of a running run, in the background, from `start` to `stop`. GUI thread only."""

    #: RunTask, RunResult, and the set of values that are new since the last read or in bodies, whose values change with
    #: each iteration.
    read = Signal(object, object, object)

    def __init__(self, tasks: TaskRunner, session: RunSession, node_progress: NodeProgress, parent: QObject) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._session = session
        self._node_progress = node_progress
        self._run: RunTask | None = None
        self._part: Task[Any] | None = None  # the run's task when reading was started
        self._known: _Mask = np.zeros(0, bool)  # slots computed at the last read
        self._counted: object = None  # result of `_count` at the last read
        self._begun = 0.0
        self._is_reading = False
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._start_read)

    def start(self, run: RunTask) -> None:
        """Start reading a run that starts or is resumed."""
        self._run, self._part = run, run.task
        self._known, self._counted = np.zeros(0, bool), None
        self._timer.start(_INTERVAL_MS)

    def stop(self) -> None:
        """Stop: the run has ended or paused; the result of a pending read is not shown."""
        self._run = self._part = None
        self._timer.stop()

    def _count(self, run: RunTask) -> object:
        """Return a key that changes when a run has computed more; always, while it is in a node with bodies."""
        number = run.current_node
        node = None if number is None else self._session.node(number)
        return object() if node is not None and node.bodies else self._node_progress.count

    def _start_read(self) -> None:
        run, part = self._run, self._part
        if run is None:
            return
        count = self._count(run)
        if self._is_reading or count == self._counted:
            self._timer.start(_PACE)
            return
        self._is_reading = True
        self._begun = time.monotonic()
        known, value_of = self._known, self._session.value

        def read(progress: Progress) -> tuple[RunResult, _Mask, set[Value]] | None:
            result = run.partial_result()
            if result is None:
                return None
            computed = result.computed
            is_new = computed.copy()
            is_new[: len(known)] &= ~known
            table = result.layout.table
            progress.check()
            numbers = set(table.entries.numbers[is_new[table.slots]].tolist())
            numbers.update(*result.bodies.values())
            fresh = {value for number in progress.paced(numbers) if (value := value_of(number)) is not None}
            return result, computed, fresh

        def show(found: tuple[RunResult, _Mask, set[Value]] | None) -> None:
            if found is not None and self._part is part:
                result, self._known, fresh = found
                self._counted = count
                self.read.emit(run, result, fresh)

        # Without a title, as it needs no progress bar.
        self._tasks.start("", read, done=show, finished=self._finish_read)

    def _finish_read(self) -> None:
        self._is_reading = False
        if self._run is not None and not self._timer.isActive():
            took = 1000 * (time.monotonic() - self._begun)
            self._timer.start(max(_PACE, int(_SHARE * took)))
