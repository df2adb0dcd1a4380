"""Constants: add, replace, convert, and move between initializer, Constant node and attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.analysis.scoping import names_taken, node_names, unique_name
from onnx_workbench.model.edits.nodes import import_operators, replace_uses
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetInitializer,
)
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The IR version from which on an initializer need not be an input.
INITIALIZERS_ALONE_SINCE = 4


def add_initializer(edit: Transaction, graph: Graph, tensor: Tensor, name: str = "") -> Value:
    """Add a constant to a graph under a free name."""
    value = Value(unique_name(name or tensor.name or "constant", names_taken(graph)))
    define_constant(edit, graph, value, tensor)
    return value


def define_constant(edit: Transaction, graph: Graph, value: Value, tensor: Tensor | SparseTensor) -> None:
    """Make a new value of a graph constant: an initializer, or in a function, which has none, a Constant node.

    Before IR version 4, where initializers had to be inputs, it becomes an input too.
    """
    if isinstance(graph.owner, Function):
        edit.do(InsertNode(graph, _constant_node(graph, value, tensor), graph.nodes.first))
        return
    edit.do(SetInitializer(graph, value, tensor))
    if isinstance(graph.owner, Model) and graph.owner.ir_version < INITIALIZERS_ALONE_SINCE and not value.is_input:
        if value.type is None:
            edit.do(SetField(value, "type", tensor.type))
        edit.do(SetGraphInputs(graph, (*graph.inputs, value)))


def _constant_node(graph: Graph, output: Value, tensor: Tensor | SparseTensor) -> Node:
    attribute = _value_attribute(tensor)
    name = unique_name(f"Constant_{output.name}", node_names(graph))
    return Node("Constant", (), (output,), name=name, attributes={attribute.name: attribute})


def remove_initializer(edit: Transaction, value: Value) -> None:
    """Remove an initializer; ModelError while it is used, unless it is a graph input too."""
    graph = _graph_of(value)
    if value.uses and not value.is_input:
        raise ModelError(f"{value.name} is used", "Disconnect it first, or make it a graph input.", value)
    edit.do(SetInitializer(graph, value, None))


def _graph_of(value: Value) -> Graph:
    if value.initializer is None or value.graph is None:
        raise ModelError(f"{value.name} is not an initializer", "", value)
    return value.graph


def set_tensor(edit: Transaction, value: Value, tensor: Tensor | SparseTensor) -> None:
    """Replace the tensor of an initializer; its declared type follows if it no longer fits."""
    graph = _graph_of(value)
    edit.do(SetInitializer(graph, value, tensor))
    fit_type(edit, value, tensor)


def fit_type(edit: Transaction, value: Value, tensor: Tensor | SparseTensor) -> None:
    """Declare the type of a tensor where the declared one does not fit it."""
    declared = value.type
    if isinstance(declared, TensorType):
        dims = declared.shape.dims if declared.shape is not None else tensor.shape
        fits = len(dims) == len(tensor.shape) and all(
            not isinstance(d, int) or d == n for d, n in zip(dims, tensor.shape, strict=True)
        )
        if declared.element_type != tensor.element_type or not fits:
            edit.do(SetField(value, "type", TensorType(tensor.element_type, Shape(tensor.shape), declared.denotation)))


@dataclass(frozen=True, slots=True)
class RoundingReport:
    """Loss of a change of element type."""

    total: int
    changed: int  # no longer equal after conversion
    overflowed: int  # became infinite, NaN or saturated
    largest_error: float

    def with_piece(self, piece: RoundingReport) -> RoundingReport:
        """Return the loss of this part of a tensor and of the next."""
        return RoundingReport(
            self.total + piece.total,
            self.changed + piece.changed,
            self.overflowed + piece.overflowed,
            max(self.largest_error, piece.largest_error),
        )


def convert(
    tensor: Tensor, element_type: ElementType, cast: Callable[[NDArray[Any], ElementType], NDArray[Any]]
) -> tuple[ArrayTensor, RoundingReport]:
    """Return the tensor in another element type, and the loss.

    `cast` is the ONNX cast of exec, passed in because model knows no kernels. Reads the values, in pieces: not on the
    GUI thread for large tensors.
    """
    import numpy as np

    from onnx_workbench.model.io.tensors.mapped_arrays import array_of

    report = RoundingReport(0, 0, 0, 0.0)

    def converted() -> Iterator[NDArray[Any]]:
        nonlocal report
        for old in tensor.pieces():
            with np.errstate(all="ignore"):
                new = cast(old, element_type)
                report = report.with_piece(_report(old, new, element_type))
            yield new

    array = array_of(converted(), element_type.numpy_dtype, tuple(tensor.shape))
    copy = ArrayTensor(
        array, element_type, name=tensor.name, doc_string=tensor.doc_string, metadata=dict(tensor.metadata)
    )
    return copy, report


def _report(old: NDArray[Any], new: NDArray[Any], kind: ElementType) -> RoundingReport:
    import numpy as np

    if old.dtype == object or new.dtype == object:
        changed = int(np.count_nonzero(old.astype(str) != new.astype(str)))
        return RoundingReport(old.size, changed, 0, 0.0)
    wide = np.complex128 if old.dtype.kind == "c" or new.dtype.kind == "c" else np.float64
    before, after = old.astype(wide).reshape(-1), new.astype(wide).reshape(-1)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    error = np.abs(before - after)
    finite = np.isfinite(error)
    overflowed = int(np.count_nonzero(np.isfinite(before) & ~np.isfinite(after)))
    if kind is ElementType.BOOL:
        ends = np.zeros_like(same)  # every number converts to bool
    elif kind.is_int:
        ends = finite & (error >= 1)  # smaller errors are truncated fractions
    else:
        ends = np.isfinite(after) & (np.abs(before) > 1) & (np.abs(after) < np.abs(before) / 2)
    return RoundingReport(
        old.size,
        int(old.size - np.count_nonzero(same)),
        overflowed + int(np.count_nonzero(ends)),
        float(error[finite].max()) if finite.any() else 0.0,
    )


def constant_to_initializer(edit: Transaction, node: Node) -> Value:
    """Turn a Constant node into an initializer of the same name."""
    return constants_to_initializers(edit, [node])[0]


def constants_to_initializers(edit: Transaction, nodes: Iterable[Node], progress: Progress = SILENT) -> list[Value]:
    """Turn Constant nodes into initializers; linear, where one by one would be quadratic."""
    value_by_output = dict(_constant_to_initializer(edit, node) for node in progress.paced(nodes))
    _replace_uses(edit, value_by_output)
    return list(value_by_output.values())


def _constant_to_initializer(edit: Transaction, node: Node) -> tuple[Value, Value]:
    """Return the removed output, and the value that replaces it."""
    tensor = constant_tensor(node)
    output = node.outputs[0] if node.outputs else None
    graph = node.graph
    if graph is not None and isinstance(graph.owner, Function):
        raise ModelError("Functions have no initializers", "A constant in a function is a Constant node.", node)
    if tensor is None or output is None or graph is None:
        detail = "A Constant node has one attribute that holds its value, and one output."
        raise ModelError(f"{node.title} is not a Constant with a known value", detail, node)
    if output in graph.outputs:
        raise ModelError(
            f"{output.name} is a graph output", "A graph output needs a node; keep the Constant node.", node
        )
    value = Value(output.name, output.type)
    edit.do(RemoveNode(node))
    define_constant(edit, graph, value, tensor)
    return output, value


def initializer_to_constant(edit: Transaction, value: Value) -> Node:
    """Turn an initializer into a Constant node at the front of its graph."""
    return initializers_to_constants(edit, [value])[0]


def initializers_to_constants(edit: Transaction, values: Iterable[Value], progress: Progress = SILENT) -> list[Node]:
    """Turn initializers into Constant nodes; linear, where one by one would be quadratic."""
    constant_by_value = {value: _initializer_to_constant(edit, value) for value in progress.paced(values)}
    _replace_uses(edit, {value: output for value, (_, output) in constant_by_value.items()})
    return [node for node, _ in constant_by_value.values()]


def _initializer_to_constant(edit: Transaction, value: Value) -> tuple[Node, Value]:
    """Return the node and its output, which replaces the value."""
    graph = _graph_of(value)
    if value.is_input:
        raise ModelError(f"{value.name} is a graph input", "Remove it from the inputs first.", value)
    tensor = value.initializer
    assert tensor is not None
    output = Value(value.name, value.type)
    node = _constant_node(graph, output, tensor)
    import_operators(edit, graph)
    edit.do(SetInitializer(graph, value, None))
    edit.do(InsertNode(graph, node, graph.nodes.first))
    return node, output


def _replace_uses(edit: Transaction, instead: Mapping[Value, Value]) -> None:
    """Replace removed values by values of the same names in all uses, declarations and annotations."""
    graphs: dict[Graph, None] = {}
    for old, new in instead.items():
        graph = old.graph or new.graph
        assert graph is not None
        graphs[graph] = None
        replace_uses(edit, old, new)
        for field, text in (("doc_string", old.doc_string), ("metadata", old.metadata)):
            if text:
                edit.do(SetField(new, field, text))
    for graph in graphs:
        declared = tuple(instead.get(value, value) for value in graph.declared)
        if declared != graph.declared:
            edit.do(SetField(graph, "declared", declared))
        for level in graph.walk():
            have = level.quantization_annotations
            changed = tuple(_annotated_instead(annotation, instead) for annotation in have)
            if changed != have:
                edit.do(SetField(level, "quantization_annotations", changed))


def _annotated_instead(annotation: QuantizationAnnotation, instead: Mapping[Value, Value]) -> QuantizationAnnotation:
    parameters = tuple((key, instead.get(value, value)) for key, value in annotation.parameters)
    return replace(annotation, value=instead.get(annotation.value, annotation.value), parameters=parameters)


def set_constant_tensor(edit: Transaction, node: Node, tensor: Tensor | SparseTensor) -> None:
    """Replace the value of a Constant node; `value` or `sparse_value` replaces the attribute that held it."""
    for name in list(node.attributes):
        if name.startswith("value") or name == "sparse_value":
            edit.do(SetAttribute(node, name, None))
    attribute = _value_attribute(tensor)
    edit.do(SetAttribute(node, attribute.name, attribute))


def _value_attribute(tensor: Tensor | SparseTensor) -> Attribute:
    if isinstance(tensor, SparseTensor):
        return Attribute("sparse_value", AttributeKind.SPARSE_TENSOR, tensor)
    return Attribute("value", AttributeKind.TENSOR, tensor)
