"""Edits of chosen objects: at once, or if they are very many on a copy, without blocking the window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.workflows.apply_edits import edit_ahead

if TYPE_CHECKING:
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.viewer.workflows.background_edit import EditOutcome

T = TypeVar("T")
Changed = TypeVar("Changed", Node, Value)

#: Fewer are changed directly, in about a frame: a copy takes 8 to 20 µs a node of the whole model, 2 s at 100,000.
MANY = 2_000
_WIRES = 8  # inputs and outputs that take as long to change as a node


def size_of(nodes: Iterable[Node]) -> int:
    """Return how many nodes of the usual size these are, as one may have 100,000 outputs or a body of as many nodes."""
    count = 0
    for node in nodes:
        count += 1 + (len(node.inputs) + len(node.outputs)) // _WIRES
        count += sum(len(graph.nodes) for body in node.bodies for graph in body.walk())
    return count


class CopyOf(Protocol):
    """Maps a part of the open model to the object to change."""

    def __call__(self, thing: T, /) -> T:
        """Return the part itself, or a copy of it."""


#: Makes the change, and returns the objects to reveal; on any thread.
Change = Callable[[Transaction, CopyOf, Progress], Sequence[Item]]


def edit_many(
    workspace: DocumentContext,
    title: str,
    count: int,
    change: Change,
    *,
    failed: Callable[[BaseException], object] | None = None,
    ended: Callable[[bool], object] = lambda _is_made: None,
    once: bool = False,
) -> None:
    """Change many objects of the model as one edit; `change` gets a function that maps each to the one to change.

    A refusal goes to `failed`, if that is given. `ended` is called last with whether the model was changed. `once`:
    an edit meanwhile refuses it, as the objects were chosen by their content.
    """
    if count > MANY:
        _change_copy(workspace, title, change, failed, ended, once=once)
        return
    places: Sequence[Item] = ()

    def change_now(edit: Transaction) -> None:
        nonlocal places
        places = change(edit, _itself, SILENT)

    def made(is_made: bool) -> None:
        if is_made and places:
            workspace.navigation.reveal_all(places)
        ended(is_made)

    edit_ahead(workspace, title, change_now, failed=failed, ended=made)


def change_nodes(
    workspace: DocumentContext,
    title: str,
    chosen: Sequence[Node],
    change: Callable[[Transaction, Sequence[Node]], object],
) -> None:
    """Change nodes of the model as one edit."""

    def change_these(edit: Transaction, copy_of: CopyOf, _progress: Progress) -> Sequence[Item]:
        change(edit, [copy_of(node) for node in chosen if node.graph is not None])  # some may be deleted by now
        return ()

    edit_many(workspace, title, size_of(chosen), change_these)


def change_each(
    workspace: DocumentContext,
    title: str,
    chosen: Sequence[Changed],
    change: Callable[[Transaction, Changed], object],
) -> None:
    """Change nodes or values of the model, one after the other, as one edit; what that returns is revealed."""

    def change_these(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        left = [thing for thing in chosen if thing.graph is not None]  # some may be deleted by now
        made = [change(edit, copy_of(thing)) for thing in progress.paced(left, of=len(left))]
        return [thing for thing in made if isinstance(thing, (Node, Value))]

    edit_many(workspace, title, len(chosen), change_these)


def _itself(thing: T, /) -> T:
    return thing


def _change_copy(
    workspace: DocumentContext,
    title: str,
    change: Change,
    failed: Callable[[BaseException], object] | None,
    ended: Callable[[bool], object],
    *,
    once: bool,
) -> None:
    from onnx_workbench.viewer.workflows.background_edit import EditOutcome, edit_in_background

    revision = workspace.document.revision

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        if once and workspace.document.revision != revision:
            raise ModelError("The model has changed in the meantime", f"{title}: nothing was changed.")
        with copy.document.edit(title) as edit:
            places = change(edit, copy.copy_of, progress)
        progress.check()
        return EditOutcome(copy.steps(), places=[*map(copy.original, places)])

    edit_in_background(workspace, title, work, failed=failed, ended=ended)
