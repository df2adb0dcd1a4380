"""Named dimensions made numbers, and numbers made names, everywhere in a model at once."""

from __future__ import annotations

from collections.abc import Mapping

from model.document import Transaction
from model.edits.interface import check_dimension, set_batch, substitute_dimensions
from model.errors import ModelError
from model.graph import Graph, Model, Node
from model.passes.convert.report import Report
from model.steps import SetInitializer
from model.tensors import ArrayTensor, Tensor
from model.types import TensorType


def symbols(model: Model) -> dict[str, int]:
    """The names that stand for dimensions, with how many values declare them; those of inputs first."""
    found: dict[str, int] = {}
    values = (v for graph in model.graphs() for v in (*graph.inputs, *graph.outputs, *graph.declared))
    for value in dict.fromkeys(values):
        kind = value.type
        for dimension in kind.shape.dims if isinstance(kind, TensorType) and kind.shape is not None else ():
            if isinstance(dimension, str) and dimension:
                found[dimension] = found.get(dimension, 0) + 1
    return found


def freeze(edit: Transaction, sizes: Mapping[str, int]) -> Report:
    """Give named dimensions numbers in every declared type; ModelError for a name that nothing declares."""
    report = Report()
    known = symbols(edit.model)
    for name, size in sizes.items():
        check_dimension(size)
        if name not in known:
            there = ", ".join(list(known)[:10]) or "none"
            raise ModelError(f"No dimension is called {name}", f"The model's names: {there}.")
    for root in edit.model.root_graphs():
        changed = substitute_dimensions(edit, root, sizes)
        if changed:
            told = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            report.changed(f"{told} in {changed:,} types", root)
    return report


def free_batch(edit: Transaction, name: str = "batch") -> Report:
    """Let the first dimension of all inputs and outputs be any number, under one name.

    Reshapes to a constant shape that begins with the old number ask for the rest instead (-1), which gives the same
    for that number.
    """
    report = Report()
    graph = edit.model.graph
    check_dimension(name, graph)
    old = _batch_of(graph)
    changed = set_batch(edit, graph, name)
    report.changed(f"{name} is the first dimension of {changed:,} values", graph)
    if old is not None:
        for node in list(graph.nodes):
            if node.op_type == "Reshape" and node.domain == "" and len(node.inputs) > 1:
                _loosen(edit, node, old, report)
    return report


def _batch_of(graph: Graph) -> int | None:
    """The number all inputs begin with, if they agree on one."""
    found = set()
    for value in graph.inputs:
        kind = value.type
        if value.initializer is None and isinstance(kind, TensorType) and kind.shape is not None and kind.shape.dims:
            found.add(kind.shape.dims[0])
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, int) else None


def _loosen(edit: Transaction, node: Node, batch: int, report: Report) -> None:
    import numpy as np

    shape = node.inputs[1]
    tensor = shape.initializer if shape is not None else None
    if shape is None or not isinstance(tensor, Tensor) or tensor.problem or tensor.size > _LONGEST or not tensor.size:
        if shape is not None and tensor is None and shape.producer is not None and shape.producer.op_type == "Constant":
            report.warn("A Reshape has its shape in a Constant node; look whether it holds the batch", node)
        return
    sizes = tensor.numpy().reshape(-1)
    if int(sizes[0]) != batch:
        return
    if (sizes[1:] == -1).any() or (sizes[1:] == 0).any():
        report.warn("A Reshape holds the batch and another open size; look at its shape", node)
        return
    if len(list(shape.uses)) > 1 or shape.is_input or shape.graph is None:
        report.warn("A Reshape shares the constant that holds its batch; look at its shape", node)
        return
    loosened = np.concatenate([np.array([-1], np.int64), sizes[1:]])
    edit.do(SetInitializer(shape.graph, shape, ArrayTensor(loosened, name=tensor.name)))
    report.changed("a Reshape takes any batch", node)


_LONGEST = 64


__all__ = ["free_batch", "freeze", "symbols"]
