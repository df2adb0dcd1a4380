"""Live: every edit of the model or its inputs starts a run of the affected nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.results import Results

#: Debounce between an edit and the run it starts, in milliseconds.
_DELAY = 120


class LiveRuns(QObject):
    """Debounced request of a run after each edit while Live is on. GUI thread only."""

    due = Signal()  # a run should start now

    def __init__(self, results: Results, parent: QObject) -> None:
        super().__init__(parent)
        self._results = results
        self.is_on = False
        self._timer = QTimer(self, singleShot=True, interval=_DELAY)
        self._timer.timeout.connect(self.due)

    @property
    def is_waiting(self) -> bool:
        """Whether a run is about to start, unless another edit follows."""
        return self._timer.isActive()

    def set_on(self, on: bool) -> None:
        """Turn Live on, which runs pending edits, or off."""
        self.is_on = on
        if not on:
            self.cancel()
        elif not self._results.is_up_to_date:
            self._timer.start(0)

    def on_edit(self, *, is_known: bool = True) -> bool:
        """Request a run after an edit; return whether one follows: not if it would only repeat the shown results.

        `is_known`: the results for the new inputs are known from an earlier run.
        """
        lacks_values = self._results.shows_part or not self._results.is_up_to_date
        if self.is_on and (lacks_values or not is_known):
            self._timer.start(_DELAY)
        else:
            self.cancel()
        return self.is_waiting

    def cancel(self) -> None:
        """Cancel the run that is about to start."""
        self._timer.stop()
