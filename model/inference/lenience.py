"""Inputs that the specification excludes though runtimes compute them: inferred results, and reasons to report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx_workbench.model.inference.node_call import NodeCall, broadcast
from onnx_workbench.model.ir.types import Dimension, Shape, TensorType, Type
from onnx_workbench.model.schemas import traits

_BROADCASTS_SINCE = 7  # PRelu


def acceptable(op_type: str, inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> Sequence[Type | None]:
    """Return input types with which onnx's inference gives the result of the runtimes."""
    call = NodeCall(inputs, attributes, 1)
    if op_type == "STFT" and _is_flat(call):
        return [_with_dims(inputs[0], (*(call.dims(0) or ()), 1)), *inputs[1:]]
    if op_type == "Concat" and (left_out := _ignored_concat_inputs(call)):
        first, axis, numbers = left_out
        dims = call.dims(first) or ()
        return [
            _with_dims(kind, (*dims[:axis], 0, *dims[axis + 1 :])) if number in numbers else kind
            for number, kind in enumerate(inputs)
        ]
    return inputs


def is_larger_slope(op_type: str, opset: int) -> bool:
    """Return whether onnx's inference gives the result the shape of the first input, though it may be larger."""
    return op_type == "PRelu" and opset >= _BROADCASTS_SINCE


def with_slope(x: Type | None, slope: Type | None) -> Type | None:
    """Return the result type of PRelu where each input is broadcast to the other."""
    if not isinstance(x, TensorType) or not isinstance(slope, TensorType):
        return None
    if x.shape is None or slope.shape is None:
        return replace(x, shape=None)
    dims = broadcast(x.shape.dims, slope.shape.dims)
    return replace(x, shape=None if dims is None else Shape(dims))


def excess(call: NodeCall, op_type: str) -> str:
    """Return which inputs of a standard node the specification excludes though runtimes compute them; "" if none."""
    rule = _RULES.get(op_type)
    return rule(call) if rule is not None else ""


def _with_dims(kind: Type | None, dims: Sequence[Dimension]) -> Type | None:
    return replace(kind, shape=Shape(tuple(dims))) if isinstance(kind, TensorType) else kind


def _is_flat(call: NodeCall) -> bool:
    return len(call.dims(0) or ()) == 2


def _ignored_concat_inputs(call: NodeCall) -> tuple[int, int, set[int]] | None:
    """Return the input of Concat that determines the sizes, the axis, and the empty inputs with other sizes."""
    shapes = [call.dims(number) for number in range(len(call.inputs))]
    axis = call.attribute("axis", 1)
    known = [dims for dims in shapes if dims is not None]
    rank = len(known[0]) if known else 0
    if len(known) < len(shapes) or any(len(dims) != rank for dims in known) or not -rank <= axis < rank:
        return None
    axis %= rank
    first = next((number for number, dims in enumerate(known) if dims[axis] != 0), 0)
    others = {n for n, dims in enumerate(known) if n != first and dims[axis] == 0 and _differ(dims, known[first], axis)}
    return (first, axis, others) if others else None


def _differ(a: Sequence[Dimension], b: Sequence[Dimension], axis: int) -> bool:
    pairs = [pair for number, pair in enumerate(zip(a, b, strict=True)) if number != axis]
    return any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs)


def _of_stft(call: NodeCall) -> str:
    return "The signal has two dimensions, expected [batch, length, 1 or 2]" if _is_flat(call) else ""


def _of_concat(call: NodeCall) -> str:
    return "A tensor without elements has other sizes; it is left out" if _ignored_concat_inputs(call) else ""


def _of_prelu(call: NodeCall) -> str:
    x, slope = call.dims(0), call.dims(1)
    if call.opset < _BROADCASTS_SINCE or x is None or slope is None:
        return ""
    aligned = zip(reversed(x), reversed(slope), strict=False)
    is_larger = len(slope) > len(x) or any(a == 1 and isinstance(b, int) and b != 1 for a, b in aligned)
    return "The slope is larger than the input, which is broadcast to it" if is_larger else ""


def _of_normalization(call: NodeCall) -> str:
    dims, axes = call.dims(0), call.attribute("axes", [0, 2, 3])
    if dims is None or all(axis < len(dims) for axis in axes):
        return ""
    return f"The input has {len(dims)} dimensions, axes are {axes}; those that it does not have are left out"


def _of_compress(call: NodeCall) -> str:
    dims, condition, axis = call.dims(0), call.dims(1), call.attribute("axis")
    if dims is None or condition is None or len(condition) != 1:
        return ""
    sizes = dims if axis is None else dims[axis : axis + 1 or None]
    length = 1
    for size in sizes:
        if not isinstance(size, int):
            return ""
        length *= size
    given = condition[0]
    is_longer = isinstance(given, int) and given > length and bool(sizes or axis is None)
    return f"The condition is longer than {length}; its tail is ignored" if is_longer else ""


def _of_pool(call: NodeCall) -> str:
    dims, kernel = call.dims(0), call.attribute("kernel_shape", [])
    if dims is None or len(dims) != len(kernel) + 2 or call.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return ""
    rank = len(kernel)
    pads = (
        call.attribute("pads", [0] * 2 * rank) if call.attribute("auto_pad", "NOTSET") == "NOTSET" else [0] * 2 * rank
    )
    strides, dilations = call.attribute("strides", [1] * rank), call.attribute("dilations", [1] * rank)
    if len(pads) != 2 * rank or len(strides) != rank or len(dilations) != rank:
        return ""
    rounds_up = call.attribute("ceil_mode", 0)
    for axis, size in enumerate(dims[2:]):
        if not isinstance(size, int):
            continue
        room = size + pads[axis] + pads[axis + rank] - (kernel[axis] - 1) * dilations[axis] - 1
        if -strides[axis] <= room < 0 and not (rounds_up and room > -strides[axis]):
            return f"The window is larger than axis {axis + 2} with its padding"
    return ""


_RULES: dict[str, Callable[[NodeCall], str]] = {
    "STFT": _of_stft,
    "Concat": _of_concat,
    "PRelu": _of_prelu,
    "MeanVarianceNormalization": _of_normalization,
    "Compress": _of_compress,
    **dict.fromkeys(traits.names(lambda t: t.work == "window"), _of_pool),
}
#: Operators that `excess` examines.
LENIENT = frozenset(_RULES)
