"""Edits written down before they are made: what a tool did to a copy of a model, in the journal of the real one.

So the steps of an edit of a whole model are written without the window waiting, and once they are on file the edit
takes a short line, written within the turn that it is made in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.history.step_codec import encode_in_place
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.recovery.journal_files import JournalFiles, json_text
from onnx_workbench.model.recovery.object_ids import ObjectIds

if TYPE_CHECKING:
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.model.io.reader.source import Source
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.recovery.journal import Journal

_PART: Final = 64  # steps that are made text at a time: nothing else runs meanwhile, on whatever thread


class Recording:
    """The steps done to a copy of a model that is as the real one is, from the first on; on any thread.

    They have numbers of their own, so that it does not matter what the journal meets meanwhile. Bytes of large tensors
    stay where they are until the journal is given this.
    """

    def __init__(self, journal: Journal, copy: Model, base: Source | None) -> None:
        self._journal = journal
        self.base = base  # what the journal is begun on
        self.texts: list[str] = []
        self.payloads: list[Payload] = []
        self.steps = 0
        self.problem: Exception | None = None  # then it is of no use
        self.size = 0  # of the payloads together
        self._numbers = ObjectIds(copy, base, self._keep)
        self._part: list[dict[str, Any]] = []
        self._ends = [0]  # how much is written when so many steps are done

    def begin_edit(self, steps: Sequence[Step]) -> None:
        """These steps follow, as one edit of the copy."""
        with errors_to(self._run_into):
            self._numbers.begin_edit(steps)

    def add(self, step: Step) -> None:
        """Write a step that is about to be applied to the copy."""
        if self.problem is not None:
            return
        with errors_to(self._run_into):
            written = encode_in_place(step, self._numbers)
            self._part += written
            self.steps += 1
            self._ends.append(self._ends[-1] + len(written))
            if len(self._part) >= _PART:
                self._put_part()

    def try_out(self, steps: Sequence[Step]) -> None:
        """Write one edit, whose steps are done for that and taken back: of the model itself, or of a copy."""
        inverses = []
        self.begin_edit(steps)
        for step in steps:
            self.add(step)
            inverses.append(step.apply())
        for inverse in reversed(inverses):
            inverse.apply()
        self.end()

    def end(self) -> None:
        """All is done to the copy that is to be done."""
        if self._part:
            with errors_to(self._run_into):
                self._put_part()

    def write_ahead(self, progress: Progress = SILENT) -> WriteAheadLog | None:
        """Have the journal write it, the model being as the copy was; on the thread that owns the model.

        None when the steps can be written only as they are made. `progress` hears how far it is, and can stop it.
        """
        return self._journal.write_ahead(self, progress)

    def written(self, start: int, count: int) -> int:
        """How much is written of so many steps."""
        return self._ends[start + count] - self._ends[start]

    def _put_part(self) -> None:
        part, self._part = self._part, []
        self.texts.append(json_text(part)[1:-1])

    def _keep(self, payload: Payload) -> tuple[int, int]:
        offset, self.size = self.size, self.size + payload.length
        self.payloads.append(payload)
        return offset, payload.length

    def _run_into(self, error: Exception) -> None:
        self.problem = error


class WriteAheadLog:
    """A recording that is on its way into a journal. On the thread that owns the model."""

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

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to wait for: all of it is on file, or never will be."""
        return self._settled.is_set()

    def is_on_file(self) -> bool:
        """Whether its steps need not be written as they are made; waits until that is known."""
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

    def confirm(self, count: int) -> int:
        """The next steps, so many, were made: how much was written of them."""
        start, self._made = self._made, self._made + count
        return self._recording.written(start, count)
