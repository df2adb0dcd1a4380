"""Replace symbolic dimensions (dynamic axes) by numbers and numbers by symbols, throughout a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.node_constants import tensor_of
from onnx_workbench.model.analysis.node_subset import roots
from onnx_workbench.model.analysis.symbolic import parse
from onnx_workbench.model.analysis.value_types import TypeOf, declared_type
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.edits.initializers import add_initializer, define_constant
from onnx_workbench.model.edits.interface import check_dimension, substitute_dimensions
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetInput
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import UNNAMED, TensorType, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray


def symbols(model: Model) -> dict[str, int]:
    """Return the symbols and how many values declare each; those of inputs first."""
    counts: dict[str, int] = {}
    values = (v for graph in model.graphs() for v in (*graph.inputs, *graph.outputs, *graph.declared))
    for value in dict.fromkeys(values):
        for dimension in _names_in(value.type):
            counts[dimension] = counts.get(dimension, 0) + 1
    return counts


def symbols_of(nodes: Collection[Node], model: Model, type_of: TypeOf = declared_type) -> list[str]:
    """Return the symbols that sizes of the nodes' inputs and outputs depend on."""
    values = dict.fromkeys(v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None)
    sizes = dict.fromkeys(size for value in values for size in _names_in(type_of(value)))
    return [name for name in symbols(model) if any(parse(size, {name: 1}) != parse(size) for size in sizes)]


def _names_in(kind: Type | None) -> Iterator[str]:
    for dimension in kind.shape.dims if isinstance(kind, TensorType) and kind.shape is not None else ():
        if isinstance(dimension, str) and dimension not in ("", UNNAMED):
            yield dimension


def freeze(
    edit: Transaction,
    sizes: Mapping[str, int],
    among: Collection[Node] | None = None,
    type_of: TypeOf = declared_type,
) -> ConversionReport:
    """Replace symbols by numbers in every declared type; ModelError for an undeclared symbol.

    With `among` also for a symbol that sizes at these nodes do not depend on. A symbol stands for one size, so it is
    replaced in the whole graph that contains the nodes.
    """
    report = ConversionReport()
    known = symbols(edit.model) if among is None else symbols_of(among, edit.model, type_of)
    for name, size in sizes.items():
        check_dimension(size)
        if name not in known:
            there = ", ".join(list(known)[:10]) or "none"
            whose, where = ("The model", "") if among is None else ("The selection", " at the selected nodes")
            raise ModelError(f"No dimension is named {name}{where}", f"{whose}'s names: {there}.")
    for root in edit.model.root_graphs() if among is None else roots(among):
        changed = substitute_dimensions(edit, root, sizes)
        if changed:
            text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            report.changed(f"{text} in {'1 type' if changed == 1 else f'{changed:,} types'}", root)
    return report


def constant_shape(node: Node) -> NDArray[Any] | None:
    """Return the shape input of a Reshape or Expand, if it is constant."""
    is_shaped = node.op_type in ("Reshape", "Expand") and node.domain == "" and len(node.inputs) > 1
    tensor = tensor_of(node.inputs[1]) if is_shaped else None
    if tensor is None or tensor.problem or not 0 < tensor.size <= _LONGEST:
        return None
    return tensor.numpy().reshape(-1)


def set_constant_shape(edit: Transaction, node: Node, sizes: Sequence[int]) -> None:
    """Set another constant shape for a Reshape or Expand; other users of the old one keep it."""
    import numpy as np

    shape, graph = node.inputs[1], node.graph
    assert shape is not None
    assert graph is not None
    tensor = ArrayTensor(np.array(sizes, np.int64), name=shape.name)
    if len(list(shape.uses)) > 1 or shape.is_input or shape.producer is not None or shape.graph is not graph:
        edit.do(SetInput(node, 1, add_initializer(edit, graph, tensor, f"{shape.name}_any_size")))
    else:
        define_constant(edit, graph, shape, tensor)


_LONGEST = 64
