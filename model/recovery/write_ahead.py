"""Write-ahead log of edits: the changes that a tool made to a copy of a model, in the journal of the real one.

So the steps of an edit of a whole model are written without the window waiting, and once they are on file the edit
takes a short line, written in the event that it is made in.
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

_PART: Final = 64  # steps that are made text at a time: nothing else runs meanwhile, on whatever thread


class Recording:
    """The steps done to a copy of a model that is as the real one is, from the first on; on any thread.

    What they bring in has the ids that it will have in the model. Bytes of large tensors stay where they are until the
    journal is given this.
    """

    def __init__(self, journal: Journal, log: JournalLog) -> None:
        self._journal = journal
        self.log = log
        self.texts: list[str] = []
        self.payloads: list[Payload] = []
        self.steps = 0
        self.problem: Exception | None = None  # then it is of no use
        self.size = 0  # of the payloads together
        self._recorder = StepRecorder(WrittenIds(log.ids, set(log.known), log.source, self._keep))
        self._ends = [0]  # how many entries are written when so many steps are done
        self._brought: list[list[int]] = []  # ids of what comes in with each step

    def add(self, step: Step) -> None:
        """Write a step that is about to be applied to the copy."""
        self._recorder.add(step)
        self.steps += 1
        if len(self._recorder) >= _PART:
            self._put_part()

    def try_out(self, steps: Sequence[Step]) -> None:
        """Write one edit, whose steps are done for that and taken back: of the model itself, or of a copy."""
        inverses = []
        for step in steps:
            self.add(step)
            inverses.append(step.apply())
        for inverse in reversed(inverses):
            inverse.apply()
        self.end()

    def end(self) -> None:
        """All is done to the copy that is to be done."""
        self._put_part()

    def write_ahead(self, progress: Progress = SILENT) -> WriteAheadLog | None:
        """Have the journal write it, the model being as the copy was; on the thread that owns the model.

        None when the steps can be written only as they are made. `progress` hears how far it is, and can stop it.
        """
        return self._journal.write_ahead(self, progress)

    def written(self, start: int, count: int) -> tuple[int, list[int]]:
        """Return how many entries are written for so many steps, and the ids of the objects they add."""
        brought = chain.from_iterable(self._brought[start : start + count])
        return self._ends[start + count] - self._ends[start], list(brought)

    def _put_part(self) -> None:
        self.problem = self.problem or self._recorder.problem
        steps = self._recorder.drain()
        with errors_to(self._run_into):
            text = json_text([entry for entry, _ in steps if entry is not None], self._recorder.content)
            if text != "[]":
                self.texts.append(text[1:-1])
        for entry, brought in steps:
            self._ends.append(self._ends[-1] + (entry is not None))
            self._brought.append(brought)

    def _keep(self, payload: Payload) -> tuple[int, int]:
        offset, self.size = self.size, self.size + payload.length
        self.payloads.append(payload)
        return offset, payload.length

    def _run_into(self, error: Exception) -> None:
        self.problem = self.problem or error


def recording_of(copy: WorkingCopy) -> Recording | None:
    """Return what is recorded of a copy for the journal, if there is one."""
    return copy.recording if isinstance(copy.recording, Recording) else None


class WriteAheadLog:
    """A recording that is being written into a journal. On the thread that owns the model."""

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
        """Wait until all of it is on file or never will be; return whether that is so. Any thread."""
        return self._settled.wait(seconds)

    def is_on_file(self) -> bool:
        """Return whether its steps need not be written as they are made; waits until that is known."""
        self._settled.wait()
        return self._is_on_file

    @contextmanager
    def making(self) -> Iterator[None]:
        """Within it the next of its steps are made an edit of the document."""
        self._journal.ahead = self
        try:
            yield
        finally:
            self._journal.ahead = None

    def confirm(self, count: int) -> tuple[int, list[int]]:
        """The next steps, so many, were made: how many entries are written of them, and what came in with them."""
        start, self._made = self._made, self._made + count
        return self._recording.written(start, count)
