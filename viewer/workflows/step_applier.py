"""Application of many edits one after the other, with event processing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document, Transaction
from onnx_workbench.model.history.steps import Role, Step, references_of
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.busy_cursor import busy_over
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.core.tasks import Task, TaskRunner

if TYPE_CHECKING:
    from onnx_workbench.model.recovery.journal import Journal
    from onnx_workbench.model.recovery.write_ahead import Recording

_AT_ONCE = 1_000  # steps that take some 10 ms, and that the journal writes within the turn
_MUCH = 1 << 20  # bytes of tensors, the same


class StepApplier(QObject):
    """Applies each entry, a title and its steps, as an edit of the document; then calls `done`. GUI thread only.

    Their write-ahead log is on file first, so that no crash loses what the user saw. Each entry is then applied in an
    event of its own: the cost is in the window's updates, not in the steps, so smaller parts would take longer in
    all. `done` is called with whether all were made: an edit or an undo in between ends it, as the steps no longer
    fit. `tasks` show it; if it is stopped there, nothing is made and `stopped` called, or if it is too late for that,
    the rest is made at once.
    """

    def __init__(
        self,
        document: Document,
        entries: Sequence[tuple[str, Sequence[Step]]],
        done: Callable[[bool], object],
        parent: QObject | None = None,
        *,
        recording: Recording | None = None,
        tasks: TaskRunner | None = None,
        stopped: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self._document = document
        self._entries = list(entries)
        self._done = done
        self._revision = document.revision
        self._is_begun = False
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._go_on)
        self._tasks, self._stopped = tasks, stopped
        self._task: Task[None] | None = None
        self._writing = Progress()
        self._ahead = None
        is_small = sum(len(steps) for _, steps in self._entries) <= _AT_ONCE
        is_much = recording is not None and recording.size > _MUCH
        if tasks is not None and self._entries and (is_much or not is_small):
            self._task = tasks.follow(self._entries[0][0], self._stop, makes="edit")
            self._writing = self._task.progress
        if recording is not None and (is_much or not is_small):
            self._ahead = recording.write_ahead(self._writing)
        if is_small and self._ahead is None:
            self._finish()
            self._end(all_made=True)
        else:
            self._timer.start()

    def stop(self) -> None:
        """Make nothing, or where it is too late for that, what is left in one go; `done` is not called."""
        if not self._is_begun:
            self._entries.clear()
            self._writing.cancel()
        self._finish()

    def _finish(self) -> None:
        self._timer.stop()
        self._leave()
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
        self._is_begun = True
        title, steps = self._entries.pop(0)
        ahead = self._ahead.making() if self._ahead else nullcontext()
        with busy_over(len(steps)), ahead, self._document.edit(title) as edit:
            edit.repeat(steps)
        self._revision = self._document.revision
        if not self._entries:
            self._leave()

    def _leave(self) -> None:
        task, self._task = self._task, None
        if task is not None and self._tasks is not None:
            self._tasks.leave(task)

    def _stop(self) -> None:
        if self._is_begun and self._tasks is not None and not self._tasks.is_closed:
            self._finish()
            self._end(all_made=not self._entries)
        else:
            self._timer.stop()
            self._leave()
            self._stopped()

    def _end(self, *, all_made: bool) -> None:
        self._timer.stop()
        self._writing.cancel()  # unless all was made, it fits no more
        self._leave()
        self._done(all_made)


def edit_ahead(
    workspace: DocumentContext,
    title: str,
    change: Callable[[Transaction], object],
    *,
    failed: Callable[[ModelError], object] | None = None,
    ended: Callable[[bool], object] = lambda _is_made: None,
) -> None:
    """Make an edit now, or once its tensor bytes are on file if they are large, without blocking the window.

    The status line then shows progress with Stop; if the model is edited meanwhile, `change` is called again. A
    refusal goes to `failed`, if that is given. `ended` is called with whether the edit was made.
    """
    document, journal = workspace.document, workspace.journal
    steps: list[Step] = []
    try:
        with document.edit(title) as edit:
            change(edit)
            if journal is not None and sum(tensor.nbytes for tensor in _brought(edit.steps)) > _MUCH:
                steps = edit.take_back()
    except ModelError as error:
        if failed is None:
            raise
        failed(error)
        ended(False)
        return
    if journal is None or not steps:
        ended(True)
        return
    again = partial(edit_ahead, workspace, title, change, failed=failed or workspace.messages.report, ended=ended)
    _write_first(workspace, journal, title, steps, again, ended)


def _write_first(
    workspace: DocumentContext,
    journal: Journal,
    title: str,
    steps: list[Step],
    again: Callable[[], object],
    ended: Callable[[bool], object],
) -> None:
    """Make an edit of these steps once the bytes that they bring are on file; `again` where it was edited meanwhile."""
    recording, owner = journal.recording(), QObject(workspace)
    recording.try_out(steps)

    def stopped() -> None:
        owner.deleteLater()
        ended(False)

    def done(all_made: bool) -> None:
        owner.deleteLater()
        if all_made:
            ended(True)
        else:
            again()

    entries = [(title, steps)]
    StepApplier(workspace.document, entries, done, owner, recording=recording, tasks=workspace.tasks, stopped=stopped)


#: Roles of the fields of steps in which tensors can come.
_BRINGING = frozenset({Role.NODE, Role.ATTRIBUTE, Role.TENSOR, Role.CONTENT})


def _brought(steps: Sequence[Step]) -> Iterator[Tensor | SparseTensor]:
    """The tensors that come with steps."""
    contents: list[Any] = []
    for step in steps:
        contents += [getattr(step, name) for name, role, *_ in references_of(type(step)) if role in _BRINGING]
    while contents:
        content = contents.pop()
        if isinstance(content, (Tensor, SparseTensor)):
            yield content
        elif isinstance(content, Attribute):
            contents.append(content.value)
        elif isinstance(content, Node):
            contents += content.attributes.values()
        elif isinstance(content, Function):
            contents.append(content.body)
        elif isinstance(content, Graph):
            contents += [value.initializer for value in content.initializers]
            contents += content.nodes
        elif isinstance(content, (tuple, list)):
            contents += content
