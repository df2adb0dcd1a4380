"""Summaries of the values of runs, computed in the process that holds the values when someone needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.exec.inspect.value_summary import ValueSummary, summarize
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.results import Results
    from onnx_workbench.viewer.run.results.run_record import RunRecord
    from onnx_workbench.viewer.tasks.tasks import TaskRunner

#: Milliseconds in which the requests of one frame are collected.
_GATHER_MS = 20
#: Values read at once, so that a newer run need not wait for long.
_BATCH = 32


class ValueSummaries(QObject):
    """The summaries of values of one document's runs; kept in its record, so undo shows them at once. GUI thread only.

    What views request at about the same time is read by one task.
    """

    read = Signal(object)  # set[Value] for which `of` has new summaries

    def __init__(self, results: Results, tasks: TaskRunner) -> None:
        super().__init__(results)
        self._results = results
        self._tasks = tasks
        self._wanted: dict[Value, None] = {}  # the newest last
        self._is_reading = False
        self._gather = QTimer(self, singleShot=True, interval=_GATHER_MS)
        self._gather.timeout.connect(self._read_next)

    def of(self, value: Value) -> ValueSummary | None:
        """Return the summary of a value in the shown run, or None and request it: `read` follows. Cheap."""
        record = self._results.current
        key = None if record is None else record.key(value)
        if record is None or key is None or record.result.info(key) is None:
            return None
        if key not in record.summaries:
            self._wanted.pop(value, None)
            self._wanted[value] = None
            if not self._is_reading and not self._gather.isActive():  # continuous painting must not restart it
                self._gather.start()
        return record.summaries.get(key)

    def awaits(self, value: Value) -> bool:
        """Return whether `of` may have a summary of the shown run later."""
        record = self._results.current
        key = None if record is None else record.key(value)
        if record is None or key is None or key in record.summaries:
            return False
        return record.unfinished or record.result.info(key) is not None

    def collect(
        self, record: RunRecord, keys: Iterable[ValueKey], then: Callable[[], object], supersede: str = ""
    ) -> None:
        """Read the summaries of some values of a run, then call back: at once if all of them are known."""
        asked = [key for key in dict.fromkeys(keys) if key not in record.summaries]
        if not asked:
            then()
            return
        result = record.result

        def work(progress: Progress) -> list[ValueSummary | None]:
            read: list[ValueSummary | None] = []
            for start in range(0, len(asked), _BATCH):
                progress.report(start, len(asked))
                read += _summaries(result, asked[start : start + _BATCH])
            return read

        def done(read: list[ValueSummary | None]) -> None:
            record.summaries.update(zip(asked, read, strict=True))
            then()

        self._tasks.start("Reading values", work, done=done, lane="count", supersede=supersede)

    def _read_next(self) -> None:
        record, asked = self._results.current, dict[ValueKey, Value]()
        while record is not None and self._wanted and len(asked) < _BATCH:
            value, _ = self._wanted.popitem()
            key = record.key(value)
            if key is not None and key not in record.summaries:  # undo may have brought a run back
                asked[key] = value
        if record is None or not asked:
            self._wanted.clear()
            return
        self._is_reading = True
        result, keys = record.result, list(asked)

        def done(read: list[ValueSummary | None]) -> None:
            record.summaries.update(zip(keys, read, strict=True))

        def finished() -> None:
            self._is_reading = False
            if record is self._results.current:
                self.read.emit(set(asked.values()))
            if self._wanted:
                self._gather.start()

        def work(_progress: Progress) -> list[ValueSummary | None]:
            return _summaries(result, keys)

        self._tasks.start("Reading values", work, done=done, finished=finished)


def _summaries(result: RunResult, keys: Sequence[ValueKey]) -> list[ValueSummary | None]:
    """Return summaries of values; None for values lost with the worker. Off the GUI thread."""
    try:
        return result.apply(summarize, keys)
    except (LookupError, ModelError):
        return [None] * len(keys)
