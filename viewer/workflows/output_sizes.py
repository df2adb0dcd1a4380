"""Offer to declare a size that became symbolic in an input in the outputs, too."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject

from onnx_workbench.model.edits.values import set_types
from onnx_workbench.model.history.document import Change
from onnx_workbench.model.history.steps import SetField, Step
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import TensorType, Type
from onnx_workbench.model.text.formatting import display, plural, type_text
from onnx_workbench.viewer.document.context import DocumentContext

_TOPIC = "output-sizes"
_MOST_LISTED = 6


class OutputSizes(QObject):
    """After an edit that turns a size of a graph input into a symbol, waits for the inferred types. GUI thread only.

    Outputs whose declared numbers are inferred as symbols are offered in a message, and declared as one edit. The offer
    is withdrawn when nothing is stale any more.
    """

    def __init__(self, workspace: DocumentContext) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._is_watching = False
        workspace.closed.connect(workspace.document.subscribe(self._on_change))
        workspace.types.changed.connect(self._offer)

    def _on_change(self, change: Change) -> None:
        if change.kind == "edit":
            inputs = self._workspace.model.graph.inputs
            pairs = zip(change.steps, change.inverses, strict=True)
            self._is_watching |= any(_is_new_symbol(step, inverse, inputs) for step, inverse in pairs)

    def _offer(self) -> None:
        if not self._is_watching:
            return
        stale = self._stale()
        self._is_watching = bool(stale)
        self._workspace.messages.withdraw(_TOPIC)
        if stale:
            lines = [f"{display(v.name, 60)}: inferred {display(type_text(t), 80)}" for v, t in stale.items()]
            if len(lines) > _MOST_LISTED:
                lines[_MOST_LISTED:] = [f"and {len(lines) - _MOST_LISTED} more"]
            title = f"{plural(len(stale), 'output')} still declared with fixed sizes"
            declare = "Declare as inferred", self._declare
            self._workspace.messages.show("info", title, "\n".join(lines), choices=(declare,), topic=_TOPIC)

    def _stale(self) -> Mapping[Value, Type]:
        from onnx_workbench.model.edits.declare_types import size_names, stale_sizes

        inferred, model = self._workspace.types.inferred, self._workspace.model
        return {} if inferred is None else stale_sizes(model.graph.outputs, inferred, size_names(model))

    def _declare(self) -> None:

        with self._workspace.document.edit("Declare symbolic sizes of outputs") as edit:
            set_types(edit, self._stale())


def _is_new_symbol(step: Step, inverse: Step, inputs: tuple[Value, ...]) -> bool:
    """Return whether a step turns a number in the declared shape of an input into a symbol."""
    if not (isinstance(step, SetField) and isinstance(inverse, SetField) and step.field == "type"):
        return False
    new, old = step.value, inverse.value
    if not any(step.target is value for value in inputs) or not isinstance(new, TensorType):
        return False
    if not isinstance(old, TensorType) or new.shape is None or old.shape is None:
        return False
    pairs = zip(old.shape.dims, new.shape.dims, strict=False)
    return any(isinstance(before, int) and isinstance(after, str) for before, after in pairs)
