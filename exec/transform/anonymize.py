"""Make a reduced model fit for a bug report: weights that need little space, and names that tell nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import RemoveNode, SetField, SetInitializer
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, with_sizes
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALL = 64  # elements of a weight that stays: as many as the shape and the operator in its place need
_CONSTANT_OF_SHAPE = 9  # opset


def with_small_weights(
    model: Model, still_fails: Callable[[Model], bool], progress: Progress = SILENT
) -> tuple[Model, int, int]:
    """Return a copy whose weights are constants of one number, made by ConstantOfShape, wherever it still fails then;
    with how many are, and how many are not.

    Zero, the first number and the mean are tried. Weights of up to 64 elements stay.
    """
    document = WorkingCopy(model, progress).document
    if document.model.opset_imports.get("", _CONSTANT_OF_SHAPE) < _CONSTANT_OF_SHAPE:
        return document.model, 0, len(list(_large(document.model)))
    small = large = 0
    for value, tensor in sorted(_large(document.model), key=lambda pair: -pair[1].nbytes):
        for number in _numbers(tensor):
            with document.edit("Weight") as edit:
                _fill(edit, value, tensor, number)
            if still_fails(document.model):
                small += 1
                break
            document.undo()
        else:
            large += 1
    return document.model, small, large


def _large(model: Model) -> Iterator[tuple[Value, Tensor]]:
    """Yield the constants of the graph and its subgraphs that take more space than an operator that makes them."""
    for graph in model.graph.walk():
        for value in graph.initializers:
            if isinstance(value.initializer, Tensor) and not value.is_input and not value.is_output:
                yield from _if_large(value, value.initializer)
        for node in graph.nodes:
            tensor = constant_tensor(node) if node.op_type == "Constant" and not node.domain else None
            if isinstance(tensor, Tensor) and node.outputs[0] is not None:
                yield from _if_large(node.outputs[0], tensor)


def _if_large(value: Value, tensor: Tensor) -> Iterator[tuple[Value, Tensor]]:
    kind = tensor.element_type
    is_number = isinstance(kind, ElementType) and kind not in (ElementType.STRING, ElementType.UNDEFINED)
    if is_number and tensor.size > _SMALL and not tensor.problem:
        yield value, tensor


def _numbers(tensor: Tensor) -> list[NDArray[Any]]:
    """Return the constants that are tried in place of a weight, each [1] of its type."""
    flat = tensor.numpy().reshape(-1)
    numbers = [np.zeros(1, flat.dtype), flat[:1]]
    if isinstance(tensor.element_type, ElementType) and tensor.element_type.is_float:
        numbers.append(np.asarray([flat.astype(np.float64).mean()]).astype(flat.dtype))
    return [one for index, one in enumerate(numbers) if all((one != other).all() for other in numbers[:index])]


def _fill(edit: Transaction, value: Value, tensor: Tensor, number: NDArray[Any]) -> None:
    graph = value.graph
    assert graph is not None
    if value.producer is not None:
        edit.do(RemoveNode(value.producer))
    else:
        edit.do(SetInitializer(graph, value, None))
    shape = np.array(tensor.shape, np.int64)
    rewriter = GraphRewriter(edit)
    kind = tensor.element_type
    content = ArrayTensor(number, kind if isinstance(kind, ElementType) else None)
    first = graph.nodes.first
    rewriter.add_node(graph, "ConstantOfShape", [shape], {"value": content}, before=first, outputs=[value])


def with_neutral_names(model: Model) -> tuple[Model, dict[str, str]]:
    """Return a copy without names, texts and metadata of the author, and the new names of the inputs by the old ones.

    Operators, domains, functions and attributes keep their names.
    """
    document = WorkingCopy(model).document
    copy = document.model
    inputs = {value: value.name for value in copy.graph.inputs}
    with document.edit("Neutral names") as edit:
        for field in ("producer_name", "producer_version", "domain", "doc_string"):
            edit.do(SetField(copy, field, ""))
        edit.do(SetField(copy, "metadata", {}))
        _rename(edit, copy.graph)
    return copy, {old: value.name for value, old in inputs.items()}


def _rename(edit: Transaction, root: Graph) -> None:
    """Number the nodes, values and named sizes of a graph and its subgraphs, in their order."""
    graphs = list(root.walk())
    values = dict.fromkeys(value for graph in graphs for value in graph.values())
    sizes: dict[str, str] = {}

    def size(dim: int | str | None) -> int | str | None:
        return sizes.setdefault(dim, f"size_{len(sizes) + 1}") if isinstance(dim, str) and dim else dim

    for number, value in enumerate(values, 1):
        _forget_texts(edit, value, f"{_kind(value)}_{number}")
        if value.type is not None:
            edit.do(SetField(value, "type", with_sizes(value.type, size)))
    for number, graph in enumerate(graphs, 1):
        _forget_texts(edit, graph, f"graph_{number}")
    for number, node in enumerate((node for graph in graphs for node in graph.nodes), 1):
        _forget_texts(edit, node, f"{node.op_type}_{number}")


def _kind(value: Value) -> str:
    if value.is_input:
        return "input"
    return "weight" if value.initializer is not None else "value"


def _forget_texts(edit: Transaction, target: Node | Value | Graph, name: str) -> None:
    for field, content in (("name", name), ("doc_string", ""), ("metadata", {})):
        edit.do(SetField(target, field, content))
