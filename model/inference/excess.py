"""Inputs that the specification excludes though runtimes compute them: reasons to report."""

from __future__ import annotations

from collections.abc import Callable

from onnx_workbench.model.inference.operators.node_call import NodeCall, axis_of
from onnx_workbench.model.inference.operators.reshaping import ignored_concat_inputs
from onnx_workbench.model.schemas import traits

_BROADCASTS_SINCE = 7  # PRelu


def excess(call: NodeCall) -> str:
    """Return which inputs of a standard node the specification excludes though runtimes compute them; "" if none."""
    rule = _RULES.get(call.node.op_type)
    return rule(call) if rule is not None else ""


def _of_stft(call: NodeCall) -> str:
    is_flat = len(call.dims(0) or ()) == 2
    return "The signal has two dimensions, expected [batch, length, 1 or 2]" if is_flat else ""


def _of_concat(call: NodeCall) -> str:
    parts = [call.dims(index) for index in range(len(call.node.inputs))]
    rank = len(parts[0] or ()) if parts else 0
    axis = call.integer("axis", 1)
    is_left_out = -rank <= axis < rank and ignored_concat_inputs(parts, axis_of(axis, rank))
    return "A tensor without elements has other sizes; it is left out" if is_left_out else ""


def _of_prelu(call: NodeCall) -> str:
    x, slope = call.dims(0), call.dims(1)
    if call.opset < _BROADCASTS_SINCE or x is None or slope is None:
        return ""
    aligned = zip(reversed(x), reversed(slope), strict=False)
    is_larger = len(slope) > len(x) or any(a == 1 and isinstance(b, int) and b != 1 for a, b in aligned)
    return "The slope is larger than the input, which is broadcast to it" if is_larger else ""


def _of_normalization(call: NodeCall) -> str:
    dims, axes = call.dims(0), call.integers("axes") or (0, 2, 3)
    if dims is None or all(axis < len(dims) for axis in axes):
        return ""
    return f"The input has {len(dims)} dimensions, axes are {list(axes)}; those that it does not have are left out"


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
    length_given = condition[0]
    is_longer = isinstance(length_given, int) and length_given > length and bool(sizes or axis is None)
    return f"The condition is longer than {length}; its tail is ignored" if is_longer else ""


def _of_pool(call: NodeCall) -> str:
    dims, kernel = call.dims(0), call.integers("kernel_shape") or ()
    padding = call.text("auto_pad", "NOTSET")
    if dims is None or len(dims) != len(kernel) + 2 or padding not in ("NOTSET", "VALID"):
        return ""
    rank = len(kernel)
    pads = (call.integers("pads") if padding == "NOTSET" else None) or (0,) * (2 * rank)
    strides, dilations = call.integers("strides") or (1,) * rank, call.integers("dilations") or (1,) * rank
    rounds_up = call.integer("ceil_mode")
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
