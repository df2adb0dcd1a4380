"""Application of computed edits to a document, after their write-ahead log is on file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import Role, Step, references_of
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.tasks.threads import POLL_SECONDS, post_and_wait
from onnx_workbench.viewer.widgets.busy_cursor import busy_cursor

if TYPE_CHECKING:
    from onnx_workbench.model.recovery.write_ahead import Recording, WriteAheadLog

_LARGE = 1 << 20  # bytes of tensors: fewer are written by the journal while the edit is made, in some 10 ms


def apply_edits(
    workspace: DocumentContext,
    edits: Sequence[tuple[str, Sequence[Step]]],
    revision: int,
    recording: Recording | None,
    progress: Progress,
    applied: Callable[[], object] = lambda: None,
) -> bool:
    """Apply edits, each a title and its steps, in one event; return whether that was done. From a task.

    Their write-ahead log is written first, so that a crash does not lose changes that the user saw. Nothing is done if
    the model is no longer at `revision`, as the steps would not fit. `applied` is called in the same event, on the GUI
    thread.
    """
    document = workspace.document
    writing = Progress(progress.report)

    def write() -> WriteAheadLog | None:
        return recording.write_ahead(writing) if recording is not None and document.revision == revision else None

    def apply() -> bool:
        if document.revision != revision:
            return False
        with busy_cursor(sum(len(steps) for _, steps in edits)), workspace.changes.together():
            for title, steps in edits:
                with log.making() if log is not None else nullcontext(), document.edit(title) as edit:
                    edit.repeat(steps)
        applied()
        return True

    log = post_and_wait(write, progress)
    try:
        while log is not None and document.revision == revision and not log.wait(POLL_SECONDS):
            progress.check()
        return post_and_wait(apply, progress)
    finally:
        writing.cancel()  # unless the edits were applied, their log is of no use


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
            if journal is not None and sum(tensor.nbytes for tensor in _tensors_in(edit.steps)) > _LARGE:
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
    revision, recording = document.revision, journal.recording()
    recording.record(steps)

    def finished() -> None:
        if task.result is False and not task.cancelled:  # the model was edited meanwhile
            edit_ahead(workspace, title, change, failed=failed or workspace.messages.report, ended=ended)
        else:
            ended(task.result is True)

    task = workspace.tasks.start(
        title,
        lambda progress: apply_edits(workspace, [(title, steps)], revision, recording, progress),
        finished=finished,
        makes="edit",
    )


#: Roles of the fields of steps in which tensors can come.
_BRINGING = frozenset({Role.NODE, Role.ATTRIBUTE, Role.TENSOR, Role.CONTENT})


def _tensors_in(steps: Sequence[Step]) -> Iterator[Tensor | SparseTensor]:
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
        elif isinstance(content, (tuple, list)) and not isinstance(next(iter(content), None), (int, float, str, bytes)):
            contents += content  # else there may be a million numbers
