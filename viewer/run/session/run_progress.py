"""Progress of a run: its finished nodes and the values so far, reported on the GUI thread until its end."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.results.node_table import NodeTable
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.session.run_session import RunSession
from onnx_workbench.viewer.run.session.run_task import RunTask
from onnx_workbench.viewer.tasks.tasks import Task, TaskRunner

#: Milliseconds a run must take before its progress is shown, to avoid flicker, and between two reports.
_DELAY_MS = 300
_PACE_MS = 150
_MOST = 2000  # limit for the nodes reported at once, which takes much less than a frame
#: Seconds between two reads of the values so far.
_READ_PACE = 0.5
#: Limit for the share of time of reads, 1 / this, as they are expensive for large graphs.
_SHARE = 10
#: Bytes of values after which a run that keeps them all says so.
MUCH = 1 << 30

_NONE: NDArray[np.int64] = np.zeros(0, np.int64)
_Mask = NDArray[np.bool_]  # by slot


class RunProgress(QObject):
    """Reports the progress of the current run from `start` to `stop`."""

    finished = Signal(object)  # list[Node] that have been computed, also in calls of functions
    #: The values of a run have reached MUCH bytes: their bytes, the number of its nodes. Once per run.
    kept_much = Signal(object, int)
    #: RunTask, RunResult, and the set of values that are new since the last read or in bodies, whose values change with
    #: each iteration.
    read = Signal(object, object, object)

    def __init__(self, tasks: TaskRunner, session: RunSession, parent: QObject) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._session = session
        self._run: RunTask | None = None
        self._part: Task[Any] | None = None  # the run's task when it was started or resumed
        self._lock = threading.Lock()
        self._news: list[NDArray[np.int64]] = []  # numbers of unreported nodes
        self._count = 0  # finished nodes since the document was opened
        self._run_bytes = self._run_nodes = 0  # of the current run
        self._has_told = False
        self._known: _Mask = np.zeros(0, bool)  # slots computed at the last read
        self._counted: object = None  # result of `_state` at the last read
        self._is_reading = False
        self._next_read = 0.0
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._report)

    def start(self, run: RunTask) -> None:
        """Start reporting a run that starts or is resumed."""
        self._run, self._part = run, run.task
        self._known, self._counted, self._next_read = np.zeros(0, bool), None, 0.0
        self._timer.start(_DELAY_MS)

    def stop(self) -> None:
        """Stop: the run has ended or paused; unreported nodes and the result of a pending read are dropped."""
        self._run = self._part = None
        self._timer.stop()
        with self._lock:
            self._news.clear()
            self._run_bytes = self._run_nodes = 0
            self._has_told = False

    def observe(self, finished: NodeTable) -> None:
        """Collect finished nodes. Called on the thread of the run."""
        with self._lock:
            self._news.append(finished.keys.outermost())
            self._count += len(finished)
            self._run_bytes += int(finished.nbytes.sum())
            self._run_nodes += len(finished)

    def check_kept(self) -> None:
        """Report that much is kept, if it is."""
        with self._lock:
            size, done = self._run_bytes, self._run_nodes
        if size >= MUCH and not self._has_told:
            self._has_told = True
            self.kept_much.emit(size, done)

    def _report(self) -> None:
        """Report the nodes finished since the last report, up to a limit; the rest wait for the next one."""
        run = self._run
        if run is None:
            return
        self._timer.start(_PACE_MS)
        if isinstance(run.stepper, Stepper):
            run.stepper.notify()  # a worker does so periodically
        self.check_kept()
        with self._lock:
            news = np.concatenate(self._news) if self._news else _NONE
            numbers, self._news = news[:_MOST], [news[_MOST:]] if len(news) > _MOST else []
        nodes = map(self._session.node, dict.fromkeys(numbers.tolist()))
        finished = [node for node in nodes if node is not None]
        if finished:
            self.finished.emit(finished)
        self._read(run)

    def _state(self, run: RunTask) -> object:
        """Return a key that changes when a run has computed more; always, while it is in a node with bodies."""
        number = run.current_node
        node = None if number is None else self._session.node(number)
        return object() if node is not None and node.bodies else self._count

    def _read(self, run: RunTask) -> None:
        """Read the values so far in the background, if there are new ones and the last read was some time ago."""
        began, part, known, value_of = time.monotonic(), self._part, self._known, self._session.value
        if self._is_reading or began < self._next_read or (state := self._state(run)) == self._counted:
            return
        self._is_reading = True

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
                self._counted = state
                self.read.emit(run, result, fresh)

        def finished() -> None:
            self._is_reading = False
            ended = time.monotonic()
            self._next_read = ended + max(_READ_PACE, _SHARE * (ended - began))

        # Without a title, as it needs no progress bar.
        self._tasks.start("", read, done=show, finished=finished)
