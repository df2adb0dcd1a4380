"""Receptive field of a node's output element: the elements of its inputs that reach it.

    reach(node, (0, 3, 5, 5))        [Reach(input=0, axes=(range(0, 1), range(0, 3), range(4, 7), range(4, 7))), …]

It is a product of indices per axis: a window of a convolution, a row and a column of a matrix product, the slice that
a reduction runs over. Values are read only if they are indices, or weights that meet padding. Kernels of operators that
only move elements are run on flat indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.inspect.receptive_field import data_movement, windows
from onnx_workbench.exec.inspect.receptive_field.indices import (
    ElementReach,
    EvaluatedNode,
    aligned,
    at_index,
    point,
    quantized_by,
)
from onnx_workbench.model.schemas import traits


def reach(node: EvaluatedNode, index: Sequence[int]) -> list[ElementReach]:
    """Return the receptive field of an element; IndexError if the output has no such element.

    For an unknown operator all elements of each input, not exact.
    """
    shape = node.outputs[node.output]
    at = tuple(int(i) for i in index)
    if len(at) != len(shape) or any(not 0 <= i < d for i, d in zip(at, shape, strict=True)):
        msg = f"index {list(at)} of shape {list(shape)}"
        raise IndexError(msg)
    is_known = node.domain in _DOMAINS
    rule = _RULES.get(node.op_type) if is_known else None
    reached: list[ElementReach] | None = None
    if rule is not None:
        try:
            reached = rule(node, at, shape)
        except (IndexError, TypeError, ValueError, KeyError, ZeroDivisionError, MemoryError, KernelError):
            reached = (
                None  # attributes or shapes are inconsistent (the node ran by other rules), or too large to number
            )
    if reached is None and is_known and _is_elementwise(node, shape):
        reached = [aligned(i, s, at) for i in range(len(node.inputs)) if (s := node.shape(i)) is not None]
    if reached is None:
        return [_all(i, s, exact=False) for i in range(len(node.inputs)) if (s := node.shape(i)) is not None]
    return [r for r in reached if r.count]


def _all(position: int, shape: tuple[int, ...], *, exact: bool = True) -> ElementReach:
    return ElementReach(position, tuple(range(d) for d in shape), exact)


#: Domains whose operators are identified by name. In others the same name is another operator: com.microsoft.nchwc
#: stores elements in blocks, and names of model functions are arbitrary.
_DOMAINS = frozenset({"", "ai.onnx.ml", "com.microsoft"})


def _is_elementwise(node: EvaluatedNode, shape: tuple[int, ...]) -> bool:
    shapes = [s for i in range(len(node.inputs)) if (s := node.shape(i)) is not None]
    if not shapes or not traits.find(node.op_type, node.domain).is_elementwise:
        return False
    try:
        return np.broadcast_shapes(*shapes) == shape
    except ValueError:
        return False


def _old_broadcast(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Broadcast of opsets 1 to 6: the second input is aligned to an axis; of PRelu to the channel."""
    second = node.shape(1)
    is_old_slope = node.op_type == "PRelu" and node.version < 7
    if second is None or len(second) >= len(shape) or not (is_old_slope or node.attributes.get("broadcast", 0)):
        return None
    start = 1 if is_old_slope else _axis(node, "axis", len(shape) - len(second), len(shape))
    return [at_index(0, at), aligned(1, second, at[: start + len(second)] if prod(second) > 1 else at)]


def _axis(node: EvaluatedNode, name: str, default: int, rank: int) -> int:
    axis = int(node.attributes.get(name, default))
    return axis + rank if axis < 0 else axis


# --- products --------------------------------------------------------------------------------------------------


def _matmul(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    b_at = 3 if node.op_type == "QLinearMatMul" else 1
    a, b = node.shape(0), node.shape(b_at)
    if a is None or b is None:
        return None
    batch = at[: len(at) - (len(a) > 1) - (len(b) > 1)]
    row = (point(at[-1 - (len(b) > 1)]),) if len(a) > 1 else ()
    column = (point(at[-1]),) if len(b) > 1 else ()
    inner = range(a[-1])
    head_a = aligned(0, a[:-2], batch).axes if len(a) > 2 else ()
    head_b = aligned(0, b[:-2], batch).axes if len(b) > 2 else ()
    reached = [ElementReach(0, (*head_a, *row, inner)), ElementReach(b_at, (*head_b, inner, *column))]
    first, last = (at[-1 - (len(b) > 1)] if len(a) > 1 else 0), (at[-1] if len(b) > 1 else 0)
    for position, scale_axis in _MATMUL_SCALES.get(node.op_type, {}).items():
        reached += quantized_by(node, position, at, first if scale_axis == "row" else last)
    return reached


#: Positions of the scales and zero points of a product, and the axes along which they may vary.
_MATMUL_SCALES = {
    "QLinearMatMul": {1: "row", 2: "row", 4: "column", 5: "column", 6: "row", 7: "row"},
    "MatMulInteger": {2: "row", 3: "column"},
}


def _gemm(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    a, b, c = node.shape(0), node.shape(1), node.shape(2)
    if a is None or b is None:
        return None
    ta, tb = bool(node.attributes.get("transA", 0)), bool(node.attributes.get("transB", 0))
    inner = range(a[0 if ta else 1])
    row, column = point(at[0]), point(at[1])
    reached = [
        ElementReach(0, (inner, row) if ta else (row, inner)),
        ElementReach(1, (column, inner) if tb else (inner, column)),
    ]
    if c is not None:
        reached.append(aligned(2, c, at))
    return reached


def _einsum(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return for each operand the elements whose labels have the values of `at`; contracted labels take all values."""
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    if "->" not in equation:
        letters = [c for c in terms if c.isalpha()]
        result = ("..." if "..." in terms else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    fixed = dict(zip(_labels(result, len(at)), at, strict=True))
    reached = []
    for position, operand in enumerate(operands):
        shape = node.shape(position)
        if shape is None:
            return None
        labels = _labels(operand, len(shape))
        if len(set(labels)) < len(labels) and not set(labels) <= set(fixed):
            return None  # a contracted diagonal is no product of positions
        places = [fixed.get(label) for label in labels]
        axes = [range(d) if index is None else point(min(index, d - 1)) for index, d in zip(places, shape, strict=True)]
        reached.append(ElementReach(position, tuple(axes)))
    return reached


def _labels(term: str, rank: int) -> list[str]:
    """Return a label per axis; those of an ellipsis are numbered from the last."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(f"...{hidden - i}" for i in range(hidden)), *after]


# --- along axes ------------------------------------------------------------------------------------------------


def _along(position: int, shape: tuple[int, ...], at: Sequence[int], axes: Sequence[int]) -> ElementReach:
    return ElementReach(position, tuple(range(d) if i in axes else point(at[i]) for i, d in enumerate(shape)))


def _reduce(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    x = node.shape(0)
    if x is None:
        return None
    rank = len(x)
    if node.op_type.startswith("Arg"):
        axes = [int(node.attributes.get("axis", 0)) % rank]
    else:
        axis_numbers = node.numbers(1, "axes")
        if not axis_numbers and node.attributes.get("noop_with_empty_axes", 0):
            return [at_index(0, at)]
        axes = [a % rank for a in axis_numbers] if axis_numbers else list(range(rank))
    if node.attributes.get("keepdims", 1):
        return [_along(0, x, at, axes)]
    rest = iter(at)
    return [ElementReach(0, tuple(range(d) if i in axes else point(next(rest)) for i, d in enumerate(x)))]


def _softmax(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    if node.version < 13:  # everything from the axis on counts as one axis
        return [_along(0, shape, at, range(_axis(node, "axis", 1, len(shape)), len(shape)))]
    return [_along(0, shape, at, [_axis(node, "axis", -1, len(shape))])]


def _layer_norm(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    if node.output:
        return None
    first = _axis(node, "axis", -1, len(shape))
    reached = [_along(0, shape, at, range(first, len(shape)))]
    return reached + [aligned(i, s, at) for i in (1, 2) if (s := node.shape(i)) is not None]


def _channel_norm(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Normalised per channel: over the spatial axes, or with given statistics."""
    if node.output:
        return None
    axes: Sequence[int] = range(2, len(shape))
    index, given = at[1:2] or (0,), 5
    if node.op_type == "BatchNormalization":
        if node.version < 9 and not node.attributes.get("spatial", 1):
            index = at[1:]  # a statistic for each feature of a sample
        own = range(1, 1 + len(index))
        axes, given = ([i for i in range(len(shape)) if i not in own], 3) if _is_training(node) else ((), 5)
    first = _along(0, shape, at, axes)
    return [first, *(at_index(i, index) for i in range(1, given) if node.shape(i) is not None)]


def _is_training(node: EvaluatedNode) -> bool:
    if node.version >= 14:
        return bool(node.attributes.get("training_mode", 0))
    return any(node.outputs[1:]) and not node.attributes.get("is_test", 0)  # by the number of requested outputs


def _group_norm(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Normalised per group of channels; scale and bias are per channel, or in the first version per group."""
    size = shape[1] // int(node.attributes.get("num_groups", 1))
    group = at[1] // size
    channels = range(group * size, (group + 1) * size)
    axes = tuple(channels if i == 1 else point(at[0]) if not i else range(d) for i, d in enumerate(shape))
    index = at[1] if node.shape(1) == (shape[1],) else group
    return [ElementReach(0, axes), *(at_index(i, (index,)) for i in (1, 2) if node.shape(i) is not None)]


def _norm_along(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Normalised over one or several axes."""
    default = [0, 2, 3] if node.op_type == "MeanVarianceNormalization" else [int(node.attributes.get("axis", -1))]
    axes = [int(a) % len(shape) for a in node.attributes.get("axes", default)]
    return [_along(0, shape, at, axes)]


def _skip_norm(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Two inputs and a bias are added, then normalised along the last axis."""
    if node.output:
        return None
    bias = 4 if node.op_type == "SkipLayerNormalization" else 3
    reached = []
    for i in range(len(node.inputs)):
        its_shape = node.shape(i)
        if its_shape is not None:
            here = aligned(i, its_shape, at)
            reached.append(ElementReach(i, (*here.axes[:-1], range(shape[-1]))) if i in (0, 1, bias) else here)
    return reached


def _local_response(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Neighbouring channels."""
    size = int(node.attributes.get("size", 1))
    channels = range(max(0, at[1] - (size - 1) // 2), min(shape[1], at[1] + size // 2 + 1))
    return [ElementReach(0, tuple(channels if i == 1 else point(p) for i, p in enumerate(at)))]


def _recurrent(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return the part of the sequence read so far, in the direction, and the weights of that direction."""
    x = node.shape(0)
    if x is None or node.shape(4) is not None or node.attributes.get("layout", 0):
        return None
    direction, batch = at[-3], at[-2]
    is_reverse = direction == 1 or node.attributes.get("direction", "forward") == "reverse"
    whole = len(shape) == 3  # the last state
    steps = range(x[0]) if whole else range(at[0], x[0]) if is_reverse else range(at[0] + 1)
    reached = [ElementReach(0, (steps, point(batch), range(x[2])))]
    for i in (1, 2, 3, 5, 6, 7):
        its_shape = node.shape(i)
        if its_shape is not None:
            rest = tuple(range(d) for d in its_shape[1:])
            inner = (point(batch), *rest[1:]) if i in (5, 6) else rest
            reached.append(ElementReach(i, (point(direction), *inner), exact=i == 5))
    return reached


def _quantize(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return the element, and its scale and zero point: per tensor, per axis, or per block."""
    reached = [at_index(0, at)]
    for i in (1, 2):
        its_shape = node.shape(i)
        if its_shape is None:
            continue
        if not its_shape or its_shape == (1,):
            reached.append(at_index(i, [0] * len(its_shape)))
            continue
        axis = _axis(node, "axis", 1, len(shape))
        block = int(node.attributes.get("block_size", 0)) or 1
        reached.append(
            at_index(
                i, [at[axis]] if len(its_shape) == 1 else [p // block if d == axis else p for d, p in enumerate(at)]
            )
        )
    return reached


def _first(_node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    return [at_index(0, at)]


def _top_k(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    x = node.shape(0)
    return None if x is None else [_along(0, x, at, [_axis(node, "axis", -1, len(shape))])]


def _cum_sum(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    given = node.numbers(1)
    if not given:
        return None
    axis = given[0] % len(shape)
    out = int(bool(node.attributes.get("exclusive", 0)))
    backward = bool(node.attributes.get("reverse", 0))
    run = range(at[axis] + out, shape[axis]) if backward else range(at[axis] + 1 - out)
    return [ElementReach(0, tuple(run if i == axis else point(p) for i, p in enumerate(at)))]


def _shape_of(_node: EvaluatedNode, _at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    return []


Rule = Callable[[EvaluatedNode, tuple[int, ...], tuple[int, ...]], "list[ElementReach] | None"]

_RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*traits.names(lambda t: t.is_aligned_before_7), "PRelu"), _old_broadcast),
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "FusedConv"), windows.conv),
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), windows.channels_last),
    "ConvTranspose": windows.conv_transpose,
    **dict.fromkeys(traits.names(lambda t: t.work == "window"), windows.pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), windows.global_pool),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    "Gemm": _gemm,
    **dict.fromkeys(traits.names(lambda t: t.is_reduction), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _layer_norm),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channel_norm),
    "GroupNormalization": _group_norm,
    **dict.fromkeys(("LpNormalization", "MeanVarianceNormalization"), _norm_along),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
    "LRN": _local_response,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    "CastLike": _first,
    "TopK": _top_k,
    "CumSum": _cum_sum,
    **dict.fromkeys(data_movement.MOVED, data_movement.moved),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), data_movement.scattered),
    **dict.fromkeys(("Resize", "Upsample"), data_movement.resize),
    "Einsum": _einsum,
    **dict.fromkeys(traits.names(lambda t: t.is_about_shapes), _shape_of),
}  # fmt: skip
