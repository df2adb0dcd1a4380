"""Many edits made one after the other, with a look at what the person does in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from model.document import Document
from model.steps import Step
from viewer.shifts import Shift

if TYPE_CHECKING:
    from model.recording.ahead import Recording

_AT_ONCE = 1_000  # steps that take some 10 ms, and that the journal writes within the turn


class Applying(QObject):
    """Makes each entry, a title and its steps, an edit of the document; then calls `done`. GUI thread only.

    What was recorded of them is on file first, so that no crash takes what the person saw done. Each then has a turn of
    the event loop: what takes time is what the window does about a change, not the steps, so that smaller parts would
    take longer in all. `done` is told whether all were made: an edit or an undo by somebody else ends it, as the steps
    fit no more.
    """

    def __init__(
        self,
        document: Document,
        entries: Sequence[tuple[str, Sequence[Step]]],
        done: Callable[[bool], object],
        parent: QObject | None = None,
        *,
        recording: Recording | None = None,
    ) -> None:
        super().__init__(parent)
        self._document = document
        self._entries = list(entries)
        self._done = done
        self._revision = document.revision
        self._shift = Shift(self._go_on, self)
        is_small = sum(len(steps) for _, steps in self._entries) <= _AT_ONCE
        has_weights = recording is not None and bool(recording.payloads)
        self._ahead = None if recording is None or (is_small and not has_weights) else recording.write_ahead()
        if is_small and self._ahead is None:
            self.finish()
            self._end(all_made=True)
        else:
            self._shift.start()

    def finish(self) -> None:
        """Make what is left in one go; `done` is not called."""
        self._shift.stop()
        if self._document.revision == self._revision:
            while self._entries:
                self._make_one()

    def _go_on(self) -> None:
        if self._document.revision != self._revision:
            self._end(all_made=False)
        elif not self._entries:
            self._end(all_made=True)
        elif self._ahead is None or self._ahead.is_settled:
            self._make_one()

    def _make_one(self) -> None:
        title, steps = self._entries.pop(0)
        with self._ahead.making() if self._ahead else nullcontext(), self._document.edit(title) as edit:
            edit.repeat(steps)
        self._revision = self._document.revision

    def _end(self, *, all_made: bool) -> None:
        self._shift.stop()
        self._done(all_made)
