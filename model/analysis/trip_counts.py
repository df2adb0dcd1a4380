"""Trip counts of control flow: how often subgraphs run."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_workbench.model.analysis.macs import ShapeOf
from onnx_workbench.model.analysis.node_constants import ints, number, tensor_of
from onnx_workbench.model.analysis.symbolic import AnySize, is_too_long
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value


@dataclass(frozen=True, slots=True)
class TripCounts:
    """A number of iterations; without `is_sure` it is unknown, and its content is counted once."""

    count: AnySize = 1
    is_sure: bool = True

    def __mul__(self, other: TripCounts) -> TripCounts:
        count = self.count * other.count
        return TripCounts(is_sure=False) if is_too_long(count) else TripCounts(count, self.is_sure and other.is_sure)

    def __add__(self, other: TripCounts) -> TripCounts:
        return TripCounts(self.count + other.count, self.is_sure and other.is_sure)


def trip_counts(node: Node, shape_of: ShapeOf) -> TripCounts:
    """Return how often the subgraphs of a node run per execution: at most, where a Loop may end early; once for a
    branch.
    """
    if node.domain:
        return TripCounts(is_sure=False)
    match node.op_type:
        case "If":
            return TripCounts()
        case "Loop":
            count = _number_in(node.inputs[0]) if node.inputs else None
            return TripCounts(is_sure=False) if count is None else TripCounts(max(count, 0))
        case "Scan":
            return _scanned(node, shape_of)
    return TripCounts(is_sure=False)


def _scanned(node: Node, shape_of: ShapeOf) -> TripCounts:
    """Return the length of the scanned axis."""
    scans, index = number(node, "num_scan_inputs"), len(node.inputs) - number(node, "num_scan_inputs")
    shape = shape_of(node.inputs[index]) if 0 < scans <= len(node.inputs) else None
    axis = next(iter(ints(node, "scan_input_axes") or ()), 0)
    if not shape or not -len(shape) <= axis < len(shape):
        return TripCounts(is_sure=False)
    length = shape[axis]
    return TripCounts(is_sure=False) if length is None else TripCounts(length)


def _number_in(value: Value | None) -> int | None:
    """Return the only element of a small constant."""
    tensor = tensor_of(value)
    if tensor is None or tensor.size != 1 or tensor.problem:
        return None
    try:
        return int(tensor.numpy().reshape(-1)[0])
    except (ModelError, OSError, ValueError, TypeError):
        return None
