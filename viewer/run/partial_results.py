"""Periodic reads of the values of a running run, so that they are visible before its end."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer

from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.tasks import TaskRunner

#: Milliseconds a run may take before it is looked at, and between two looks.
_PATIENCE = 400
_PACE = 500
#: Looks may take one part in this many of the time: those at a hundred thousand nodes are not for nothing.
_SHARE = 10

Look = Callable[[Progress], RunResult | None]  # off the GUI thread
Show = Callable[[RunResult, set[Value]], object]
Find = Callable[[int], Value | None]  # the value with a number; any thread
_Mask = NDArray[np.bool_]  # by slot
_Seen = tuple[RunResult, _Mask, set[Value]]  # all that was computed, and what is new of it


class PartialResults(QObject):
    """Periodic read of the results of a running run, in the background, from `start` to `stop`. GUI thread only.

    `show` gets the results, and the values that are new since the last read or that belong to bodies, where they are
    those of the last iteration. While `count` is unchanged there is nothing to read: it is the number of finished
    nodes.
    """

    def __init__(self, tasks: TaskRunner, find: Find, parent: QObject) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._find = find
        self._look: Look = lambda _progress: None
        self._show: Show = lambda _result, _fresh: None
        self._count: Callable[[], object] = lambda: 0
        self._counted: object = None
        self._known: _Mask = np.zeros(0, bool)
        self._begun = 0.0
        self._is_looking = False
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._start_look)

    def start(self, look: Look, show: Show, count: Callable[[], object]) -> None:
        """Start reading this run: it begins or continues."""
        self._look, self._show, self._count = look, show, count
        self._known, self._counted = np.zeros(0, bool), None
        self._timer.start(_PATIENCE)

    def stop(self) -> None:
        """Stop: the run has ended or waits; the result of a pending read is not shown."""
        self._look = lambda _progress: None
        self._timer.stop()

    def _start_look(self) -> None:
        count = self._count()
        if self._is_looking or count == self._counted:  # still at the run before this one, or at what was seen
            self._timer.start(_PACE)
            return
        self._is_looking = True
        self._begun = time.monotonic()
        look, known, find = self._look, self._known, self._find

        def work(progress: Progress) -> _Seen | None:
            result = look(progress)
            if result is None:
                return None
            now = result.computed
            is_new = now.copy()
            is_new[: len(known)] &= ~known
            table = result.layout.table
            progress.check()
            numbers = set(table.entries.numbers[is_new[table.slots]].tolist())
            numbers.update(*result.bodies.values())
            return result, now, {value for number in progress.paced(numbers) if (value := find(number)) is not None}

        def done(found: _Seen | None) -> None:
            if found is not None and look is self._look:
                result, self._known, fresh = found
                self._counted = count
                self._show(result, fresh)

        # Without a title: not worth a progress bar.
        self._tasks.start("", work, done=done, finished=lambda: self._looked(look))

    def _looked(self, look: Look) -> None:
        self._is_looking = False
        if look is self._look:
            took = 1000 * (time.monotonic() - self._begun)
            self._timer.start(max(_PACE, int(_SHARE * took)))
