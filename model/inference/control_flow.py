"""Types of subgraph inputs and of the outputs of nodes with subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx_workbench.model.inference.type_lattice import common
from onnx_workbench.model.io.reader.decode import bodies
from onnx_workbench.model.ir.types import Dimension, SequenceType, Shape, TensorType, Type


def formal_types(node: Any, body: Any, visible: Mapping[str, Type]) -> list[Type | None]:
    """Return types of subgraph inputs from those of the node's inputs."""
    actual = [visible.get(name) if name else None for name in node.input]
    match node.op_type:
        case "Scan":
            if _is_batched(node, body):
                actual = [_without(kind, 0) for kind in actual[1:]]
            states = len(actual) - _scanned(node)
            axes = _axes(node, "scan_input_axes", len(actual) - states)
            return [*actual[:states], *map(_without, actual[states:], axes)]
        case "SequenceMap":
            return [kind.element if isinstance(kind, SequenceType) else kind for kind in actual]
        case _:
            return [None] * len(body.input)


def _scanned(node: Any) -> int:
    """Return the number of scanned inputs of a Scan; they are its last."""
    return next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)


def _is_batched(node: Any, body: Any) -> bool:
    """Return whether it is the Scan of version 8: sequence lengths first, and a batch dimension everywhere."""
    return len(node.input) == len(body.input) + 1


def _axes(node: Any, name: str, count: int) -> list[int]:
    """Return the scan axes of inputs or outputs: 0 by default."""
    given = next((list(a.ints) for a in node.attribute if a.name == name), [])
    return (given + [0] * count)[:count]


def _without(kind: Type | None, axis: int) -> Type | None:
    if isinstance(kind, TensorType) and kind.shape is not None and -kind.shape.rank <= axis < kind.shape.rank:
        dims = list(kind.shape.dims)
        del dims[axis]
        return TensorType(kind.element_type, Shape(tuple(dims)))
    return kind


def joined(node: Any, results: list[list[Type | None]], visible: Mapping[str, Type]) -> Sequence[Type | None]:
    """Return types of a node's outputs from those of its subgraphs."""
    match node.op_type:
        case "If" if len(results) == 2:
            return [common(a, b) for a, b in zip(*results, strict=False)]
        case "Loop" if results:
            carried = max(len(node.input) - 2, 0)
            return [*results[0][1 : 1 + carried], *(_with(kind, 0, None) for kind in results[0][1 + carried :])]
        case "Scan" if results:
            is_batched = _is_batched(node, next(iter(bodies(node))))
            scanned = _scanned(node)
            states = len(node.input) - is_batched - scanned
            axes = _axes(node, "scan_output_axes", len(results[0]) - states)
            length = None if is_batched else _scan_length(node, scanned, visible)
            made = (_with(kind, axis, length) for kind, axis in zip(results[0][states:], axes, strict=True))
            joined = [*results[0][:states], *made]
            return [_with(kind, 0, None) for kind in joined] if is_batched else joined
        case "SequenceMap" if results:
            return [SequenceType(kind) for kind in results[0]]
        case _:
            return []


def _scan_length(node: Any, scanned: int, visible: Mapping[str, Type]) -> Dimension:
    """Return the trip count of a Scan: the length of its scanned axis."""
    axes = _axes(node, "scan_input_axes", scanned)
    for name, axis in zip(node.input[len(node.input) - scanned :], axes, strict=True):
        kind = visible.get(name)
        if isinstance(kind, TensorType) and kind.shape is not None and -kind.shape.rank <= axis < kind.shape.rank:
            return kind.shape.dims[axis]
    return None


def _with(kind: Type | None, axis: int, size: Dimension) -> Type | None:
    if isinstance(kind, TensorType) and kind.shape is not None:
        dims = list(kind.shape.dims)
        dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, size)
        return TensorType(kind.element_type, Shape(tuple(dims)))
    return kind
