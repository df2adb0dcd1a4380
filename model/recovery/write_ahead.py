"""Write-ahead log: steps that a tool applied to a copy of the model are journaled before they reach the document.

The steps of a large edit are thus written in the background; applying them to the document adds only a short line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.recovery.journal_files import JournalFiles, json_text
from onnx_workbench.model.recovery.object_ids import WrittenIds
from onnx_workbench.model.recovery.step_recorder import StepRecorder

if TYPE_CHECKING:
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.model.recovery.journal import Journal
    from onnx_workbench.model.recovery.log import JournalLog

_PART: Final = 64  # steps encoded at a time: encoding holds the interpreter lock


class Recording:
    """Encoded steps that were applied to an exact copy of a document's model. Any thread.

    Added objects have the ids that they will have in the document. Bytes of large tensors are copied only when the
    journal writes the recording.
    """

    def __init__(self, journal: Journal, log: JournalLog) -> None:
        self._journal = journal
        self.log = log
        self.texts: list[str] = []
        self.payloads: list[Payload] = []
        self.steps = 0
        self.problem: Exception | None = None  # the recording is then unusable
        self.size = 0  # bytes of all payloads
        self._recorder = StepRecorder(WrittenIds(log.ids, set(log.known), log.source, self._store_payload))
        self._ends = [0]  # number of entries written after each number of steps
        self._new_ids: list[list[int]] = []  # ids of the objects that each step adds

    def add(self, step: Step) -> None:
        """Record a step that is about to be applied to the copy."""
        self._recorder.add(step)
        self.steps += 1
        if len(self._recorder) >= _PART:
            self._write_part()

    def record(self, steps: Sequence[Step]) -> None:
        """Record the steps of one edit by applying and undoing them, on the model itself or on a copy."""
        inverses = []
        for step in steps:
            self.add(step)
            inverses.append(step.apply())
        for inverse in reversed(inverses):
            inverse.apply()
        self.end()

    def end(self) -> None:
        """Finish the recording: no step follows."""
        self._write_part()

    def write_ahead(self, progress: Progress = SILENT) -> WriteAheadLog | None:
        """Write the recording to the journal in the background. On the thread that owns the model.

        The model must be in the state that the copy had. None when the steps can only be written as they are applied.
        `progress` gets reports and can cancel.
        """
        return self._journal.write_ahead(self, progress)

    def written(self, start: int, count: int) -> tuple[int, list[int]]:
        """Return the number of entries written for `count` steps, and the ids of the objects that these add."""
        new_ids = chain.from_iterable(self._new_ids[start : start + count])
        return self._ends[start + count] - self._ends[start], list(new_ids)

    def _write_part(self) -> None:
        self.problem = self.problem or self._recorder.problem
        steps = self._recorder.drain()
        with errors_to(self._stop_on_error):
            text = json_text([entry for entry, _ in steps if entry is not None], self._recorder.content)
            if text != "[]":
                self.texts.append(text[1:-1])
        for entry, new_ids in steps:
            self._ends.append(self._ends[-1] + (entry is not None))
            self._new_ids.append(new_ids)

    def _store_payload(self, payload: Payload) -> tuple[int, int]:
        offset, self.size = self.size, self.size + payload.length
        self.payloads.append(payload)
        return offset, payload.length

    def _stop_on_error(self, error: Exception) -> None:
        self.problem = self.problem or error


def recording_of(copy: WorkingCopy) -> Recording | None:
    """Return the journal recording of a working copy, if it has one."""
    return copy.recording if isinstance(copy.recording, Recording) else None


class WriteAheadLog:
    """A recording that is being written to the journal. On the thread that owns the model."""

    def __init__(self, journal: Journal, store: JournalFiles, recording: Recording, progress: Progress) -> None:
        self.store = store
        self._journal = journal
        self._recording = recording
        self._made = 0
        self._is_on_file = False
        self._settled = threading.Event()
        self.number = store.ahead(recording.texts, recording.payloads, progress, self._settle)

    def _settle(self, is_on_file: bool) -> None:
        self._is_on_file = is_on_file
        self._settled.set()

    def wait(self, seconds: float) -> bool:
        """Wait until the write has succeeded or failed; return whether it ended in time. Any thread."""
        return self._settled.wait(seconds)

    def is_on_file(self) -> bool:
        """Wait for the write to end; return whether it succeeded, so that the steps need not be written again."""
        self._settled.wait()
        return self._is_on_file

    @contextmanager
    def making(self) -> Iterator[None]:
        """Context in which the next of the recorded steps are applied to the document as an edit."""
        self._journal.ahead = self
        try:
            yield
        finally:
            self._journal.ahead = None

    def confirm(self, count: int) -> tuple[int, list[int]]:
        """Confirm that the next `count` steps were applied; return how many entries they have and the added ids."""
        start, self._made = self._made, self._made + count
        return self._recording.written(start, count)
