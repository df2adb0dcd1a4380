"""Rows for the initializers of a graph: add as text, rename, go to and remove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from onnx_workbench.model.edits import initializers
from onnx_workbench.model.edits.constants import add_constant
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Value
from onnx_workbench.model.text.formatting import bytes_text, display, plural
from onnx_workbench.viewer.inspector.common import add_row, go, many, name_of, removing, rename_field, section
from onnx_workbench.viewer.inspector.tensors import tensor_text
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace


def initializers_section(workspace: Workspace, graph: Graph) -> PropertyRow:
    """Return the constants of a graph."""
    count = len(graph.initializers)

    def rows() -> Sequence[PropertyRow]:
        return many(count, lambda index: _row(workspace, graph, index), _add(graph))

    row = section("initializers", "Initializers", count, rows, expanded=False, common=False)
    tensors = [value.initializer for value in graph.initializers if value.initializer is not None]
    elements, size = sum(math.prod(tensor.shape) for tensor in tensors), sum(tensor.nbytes for tensor in tensors)
    row.text = f"{count:,} · {plural(elements, 'element')} · {bytes_text(size)}" if count else ""
    return row


def _row(workspace: Workspace, graph: Graph, index: int) -> PropertyRow:
    value = graph.initializers[index]
    row = PropertyRow(f"initializer {index}", display(value.name, 200), middle=True, tip=display(value.name, 400))
    tensor = value.initializer
    row.text = "" if tensor is None else tensor_text(tensor)
    row.mono = True
    row.label_field = rename_field(value)
    row.target = value
    row.actions = (removing_initializer(workspace, value), go(workspace, value))
    return row


def removing_initializer(workspace: Workspace, value: Value) -> RowAction:
    """Return the action that removes an initializer."""
    title, change = f"Remove initializer {name_of(value)}", partial(initializers.remove_initializer, value=value)
    return removing(workspace, title, change, "Remove initializer")


def _add(graph: Graph) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        add_constant(edit, graph, text)

    title = "Add Constant node" if isinstance(graph.owner, Function) else "Add initializer"
    return add_row(title, PropertyField(f"{title} to {name_of(graph)}", str, add, hint="name = 1, 2 or name: float[3]"))
