"""Which elements of a node's inputs reach one element of its output.

    reach(node, (0, 3, 5, 5))        [Reach(input=0, axes=(range(0, 1), range(0, 3), range(4, 7), range(4, 7))), …]

What reaches an element is a product of indices per axis: a window of a convolution, a row and a column of a matrix
product, the slice a reduction runs over. Nothing is computed; values are looked at only where they are indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from exec.arrays import Array

#: Positions along an axis.
Positions = range | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements of one input: the product of `axes`. `exact`: each of them matters, and no other one."""

    input: int
    axes: tuple[Positions, ...]
    exact: bool = True

    @property
    def count(self) -> int:
        """How many elements."""
        return prod(len(a) for a in self.axes)

    def take(self, array: Array) -> Array:
        """The elements, in the shape of the product. A copy."""
        if not self.axes:
            return array
        return array[
            np.ix_(*[np.arange(a.start, a.stop, a.step) if isinstance(a, range) else list(a) for a in self.axes])
        ]

    def index(self, position: Sequence[int]) -> tuple[int, ...]:
        """The index in the input of an element of what `take` gives."""
        return tuple(axis[p] for axis, p in zip(self.axes, position, strict=True))

    def __str__(self) -> str:
        return f"[{', '.join(map(_axis_text, self.axes))}]"


def _axis_text(axis: Positions) -> str:
    if len(axis) == 1:
        return str(axis[0])
    if isinstance(axis, range) and len(axis):
        return f"{axis.start}:{axis[-1] + 1}" + (f":{axis.step}" if axis.step != 1 else "")
    return "{" + ", ".join(map(str, axis[:6])) + ("…" if len(axis) > 6 else "") + "}"


@dataclass(frozen=True, slots=True)
class Called:
    """A node as it was called. `inputs` are the values (None: left out or no tensor); attributes plain Python."""

    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Array | None]
    outputs: Sequence[tuple[int, ...]]  # shapes
    output: int = 0
    version: int = 99  # of the operator set

    def shape(self, position: int) -> tuple[int, ...] | None:
        """The shape of an input; None where there is none."""
        array = self.inputs[position] if position < len(self.inputs) else None
        return None if array is None else array.shape

    def numbers(self, position: int, attribute: str = "") -> list[int] | None:
        """Whole numbers of an input, or of the attribute that older versions have instead."""
        array = self.inputs[position] if position < len(self.inputs) else None
        if array is not None:
            return [int(x) for x in array.reshape(-1)]
        given = self.attributes.get(attribute)
        return None if given is None else [int(given)] if isinstance(given, int) else [int(x) for x in given]


def reach(node: Called, index: Sequence[int]) -> list[Reach]:
    """What reaches an element; IndexError when the output has no such element.

    Where the operator is not known, everything of each input, not exact.
    """
    shape = node.outputs[node.output]
    at = tuple(int(i) for i in index)
    if len(at) != len(shape) or any(not 0 <= i < d for i, d in zip(at, shape, strict=True)):
        msg = f"index {list(at)} of shape {list(shape)}"
        raise IndexError(msg)
    rule = _RULES.get(node.op_type)
    found: list[Reach] | None = None
    if rule is not None:
        try:
            found = rule(node, at, shape)
        except (IndexError, TypeError, ValueError, KeyError, ZeroDivisionError):
            found = None  # attributes or shapes that do not belong together: the node ran by other rules
    if found is None and _is_elementwise(node, shape):
        found = [_aligned(i, s, at) for i in range(len(node.inputs)) if (s := node.shape(i)) is not None]
    if found is None:
        return [_all(i, s, exact=False) for i in range(len(node.inputs)) if (s := node.shape(i)) is not None]
    return [r for r in found if r.count]


def _point(i: int) -> range:
    return range(i, i + 1)


def _all(position: int, shape: tuple[int, ...], *, exact: bool = True) -> Reach:
    return Reach(position, tuple(range(d) for d in shape), exact)


def _at(position: int, index: Sequence[int]) -> Reach:
    return Reach(position, tuple(_point(i) for i in index))


def _aligned(position: int, shape: tuple[int, ...], at: tuple[int, ...]) -> Reach:
    """The element that is broadcast to an output element."""
    tail = at[len(at) - len(shape) :]
    return _at(position, [0 if d == 1 else i for d, i in zip(shape, tail, strict=True)])


#: Operators of which an element is made of those that are broadcast to it. Shapes do not tell: a normalisation, a
#: product of square matrices or a scatter keeps them although elements meet each other.
_ELEMENTWISE = frozenset({
    # one input
    "Abs", "Acos", "Acosh", "Affine", "Asin", "Asinh", "Atan", "Atanh", "Binarizer", "BitwiseNot", "Cast", "Ceil",
    "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "Imputer",
    "IsInf", "IsNaN", "LabelEncoder", "LeakyRelu", "Log", "Mish", "Neg", "Not", "ParametricSoftplus", "QuickGelu",
    "Reciprocal", "Relu", "Round", "Scaler", "ScaledTanh", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    # several, broadcast
    "Add", "And", "BiasAdd", "BiasGelu", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Clip", "Div", "Dropout",
    "Equal", "FastGelu", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or",
    "PRelu", "Pow", "QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "Sub", "Sum", "Xor",
})  # fmt: skip


def _is_elementwise(node: Called, shape: tuple[int, ...]) -> bool:
    shapes = [s for i in range(len(node.inputs)) if (s := node.shape(i)) is not None]
    if not shapes or node.op_type not in _ELEMENTWISE:
        return False
    try:
        return np.broadcast_shapes(*shapes) == shape
    except ValueError:
        return False


def _axis(node: Called, name: str, default: int, rank: int) -> int:
    axis = int(node.attributes.get(name, default))
    return axis + rank if axis < 0 else axis


# --- windows ---------------------------------------------------------------------------------------------------


def _windows(node: Called, at: tuple[int, ...], spatial: Sequence[int], kernel: Sequence[int]) -> list[Positions]:
    """For each spatial axis the positions in the input that are used."""
    rank = len(spatial)
    strides = list(node.attributes.get("strides") or [1] * rank)
    dilations = list(node.attributes.get("dilations") or [1] * rank)
    outs = node.outputs[0][2:]
    pads = _pads(node, spatial, kernel, strides, dilations, outs)
    found: list[Positions] = []
    for d in range(rank):
        start = at[2 + d] * strides[d] - pads[d]
        inside = [i for k in range(kernel[d]) if 0 <= (i := start + k * dilations[d]) < spatial[d]]
        found.append(range(inside[0], inside[-1] + 1, dilations[d]) if inside else ())
    return found


def _pads(
    node: Called,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    outs: Sequence[int],
) -> list[int]:
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return list(node.attributes.get("pads") or [0] * (2 * len(spatial)))[: len(spatial)]
    total = [
        max(0, (o - 1) * s + (k - 1) * d + 1 - n)
        for o, s, k, d, n in zip(outs, strides, kernel, dilations, spatial, strict=True)
    ]
    return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]


def _conv(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    quantized = node.op_type == "QLinearConv"
    x_at, w_at, b_at = (0, 3, 8) if quantized else (0, 1, 2)
    x, w = node.shape(x_at), node.shape(w_at)
    if x is None or w is None:
        return None
    group = int(node.attributes.get("group", 1))
    per_group = w[0] // group
    first = at[1] // per_group * w[1]
    windows = _windows(node, at, x[2:], w[2:])
    found = [
        Reach(x_at, (_point(at[0]), range(first, first + w[1]), *windows)),
        # All of the kernel: what meets padding is multiplied by zero, which a NaN survives.
        Reach(w_at, (_point(at[1]), *map(range, w[1:]))),
    ]
    if node.op_type != "ConvInteger" and node.shape(b_at) is not None:
        found.append(_at(b_at, at[1:2]))
    if node.op_type in _FUSED and node.shape(3) is not None:
        found.append(_at(3, at))
    return found


#: Convolutions that add a fourth input to their result.
_FUSED = frozenset({"FusedConv", "NhwcFusedConv"})


def _channels_last(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    """A convolution of (N, H, W, C); the weights are laid out as in Conv."""
    inputs = [np.moveaxis(a, -1, 1) if a is not None and i in (0, 3) else a for i, a in enumerate(node.inputs)]
    moved = replace(node, inputs=inputs, outputs=[(s[0], s[-1], *s[1:-1]) for s in node.outputs])
    found = _conv(moved, (at[0], at[-1], *at[1:-1]), ())
    return found and [replace(r, axes=(r.axes[0], *r.axes[2:], r.axes[1])) if r.input in (0, 3) else r for r in found]


def _conv_transpose(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    x, w = node.shape(0), node.shape(1)
    if x is None or w is None:
        return None
    rank = len(x) - 2
    group = int(node.attributes.get("group", 1))
    strides = list(node.attributes.get("strides") or [1] * rank)
    dilations = list(node.attributes.get("dilations") or [1] * rank)
    extra = list(node.attributes.get("output_padding") or [0] * rank)
    pads = list(node.attributes.get("pads") or [0] * (2 * rank))
    if "output_shape" in node.attributes or node.attributes.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        for d in range(rank):
            total = strides[d] * (x[2 + d] - 1) + extra[d] + (w[2 + d] - 1) * dilations[d] + 1 - shape[2 + d]
            upper = node.attributes.get("auto_pad") == "SAME_UPPER"
            pads[d] = total // 2 if upper else total - total // 2
    channels, own = x[1] // group, at[1] // w[1]
    inside: list[tuple[int, ...]] = []
    taps: list[tuple[int, ...]] = []
    for d in range(rank):
        pairs = [
            ((at[2 + d] + pads[d] - k * dilations[d]) // strides[d], k)
            for k in range(w[2 + d])
            if (at[2 + d] + pads[d] - k * dilations[d]) % strides[d] == 0
        ]
        pairs = sorted((i, k) for i, k in pairs if 0 <= i < x[2 + d])
        inside.append(tuple(i for i, _ in pairs))
        taps.append(tuple(sorted(k for _, k in pairs)))
    first = range(own * channels, (own + 1) * channels)
    found = [
        Reach(0, (_point(at[0]), first, *inside)),
        Reach(1, (first, _point(at[1] % w[1]), *taps)),
    ]
    if node.shape(2) is not None:
        found.append(_at(2, at[1:2]))
    return found


def _pool(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    if x is None:
        return None
    windows = _windows(node, at, x[2:], node.attributes["kernel_shape"])
    return [Reach(0, (_point(at[0]), _point(at[1]), *windows))]


def _global_pool(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    return None if x is None else [Reach(0, (_point(at[0]), _point(at[1]), *map(range, x[2:])))]


# --- products --------------------------------------------------------------------------------------------------


def _matmul(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    b_at = 3 if node.op_type == "QLinearMatMul" else 1
    a, b = node.shape(0), node.shape(b_at)
    if a is None or b is None:
        return None
    batch = at[: len(at) - (len(a) > 1) - (len(b) > 1)]
    row = (_point(at[-1 - (len(b) > 1)]),) if len(a) > 1 else ()
    column = (_point(at[-1]),) if len(b) > 1 else ()
    inner = range(a[-1])
    head_a = _aligned(0, a[:-2], batch).axes if len(a) > 2 else ()
    head_b = _aligned(0, b[:-2], batch).axes if len(b) > 2 else ()
    return [Reach(0, (*head_a, *row, inner)), Reach(b_at, (*head_b, inner, *column))]


def _gemm(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    a, b, c = node.shape(0), node.shape(1), node.shape(2)
    if a is None or b is None:
        return None
    ta, tb = bool(node.attributes.get("transA", 0)), bool(node.attributes.get("transB", 0))
    inner = range(a[0 if ta else 1])
    row, column = _point(at[0]), _point(at[1])
    found = [Reach(0, (inner, row) if ta else (row, inner)), Reach(1, (column, inner) if tb else (inner, column))]
    if c is not None:
        found.append(_aligned(2, c, at))
    return found


# --- along axes ------------------------------------------------------------------------------------------------


def _along(position: int, shape: tuple[int, ...], at: Sequence[int], axes: Sequence[int]) -> Reach:
    return Reach(position, tuple(range(d) if i in axes else _point(at[i]) for i, d in enumerate(shape)))


def _reduce(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    if x is None:
        return None
    rank = len(x)
    if node.op_type.startswith("Arg"):
        axes = [int(node.attributes.get("axis", 0)) % rank]
    else:
        given = node.numbers(1, "axes")
        if not given and node.attributes.get("noop_with_empty_axes", 0):
            return [_at(0, at)]
        axes = [a % rank for a in given] if given else list(range(rank))
    if node.attributes.get("keepdims", 1):
        return [_along(0, x, at, axes)]
    rest = iter(at)
    return [Reach(0, tuple(range(d) if i in axes else _point(next(rest)) for i, d in enumerate(x)))]


def _softmax(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    if node.version < 13:  # everything from the axis on counts as one axis
        return [_along(0, shape, at, range(_axis(node, "axis", 1, len(shape)), len(shape)))]
    return [_along(0, shape, at, [_axis(node, "axis", -1, len(shape))])]


def _layer_norm(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    if node.output:
        return None
    first = _axis(node, "axis", -1, len(shape))
    found = [_along(0, shape, at, range(first, len(shape)))]
    return found + [_aligned(i, s, at) for i in (1, 2) if (s := node.shape(i)) is not None]


def _channel_norm(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    """Normalised per channel: over the spatial axes, or with given statistics."""
    if node.output:
        return None
    first = _at(0, at) if node.op_type == "BatchNormalization" else _along(0, shape, at, range(2, len(shape)))
    return [first, *(_at(i, at[1:2]) for i in range(1, 5) if node.shape(i) is not None)]


def _quantize(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    """The element, and its scale and zero point: of the tensor, of its place along the axis, or of its block."""
    found = [_at(0, at)]
    for i in (1, 2):
        given = node.shape(i)
        if given is None:
            continue
        if not given or given == (1,):
            found.append(_at(i, [0] * len(given)))
            continue
        axis = _axis(node, "axis", 1, len(shape))
        block = int(node.attributes.get("block_size", 0)) or 1
        found.append(
            _at(i, [at[axis]] if len(given) == 1 else [p // block if d == axis else p for d, p in enumerate(at)])
        )
    return found


def _first(_node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    return [_at(0, at)]


def _top_k(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    return None if x is None else [_along(0, x, at, [_axis(node, "axis", -1, len(shape))])]


def _cum_sum(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    given = node.numbers(1)
    if not given:
        return None
    axis = given[0] % len(shape)
    out = int(bool(node.attributes.get("exclusive", 0)))
    backward = bool(node.attributes.get("reverse", 0))
    run = range(at[axis] + out, shape[axis]) if backward else range(at[axis] + 1 - out)
    return [Reach(0, tuple(run if i == axis else _point(p) for i, p in enumerate(at)))]


# --- moved elements --------------------------------------------------------------------------------------------


def _reshape(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    if x is None or prod(x) != prod(shape):
        return None
    flat = int(np.ravel_multi_index(at, shape)) if shape else 0
    return [_at(0, [int(i) for i in np.unravel_index(flat, x)] if x else [])]


def _transpose(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    order = list(node.attributes.get("perm") or range(len(shape))[::-1])
    source = [0] * len(order)
    for position, axis in enumerate(order):
        source[axis] = at[position]
    return [_at(0, source)]


def _concat(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    axis = _axis(node, "axis", 1, len(shape))
    position = at[axis]
    for i in range(len(node.inputs)):
        size = (node.shape(i) or ())[axis]
        if position < size:
            return [_at(i, (*at[:axis], position, *at[axis + 1 :]))]
        position -= size
    return None


def _split(node: Called, at: tuple[int, ...], shape: tuple[int, ...]) -> list[Reach] | None:
    axis = _axis(node, "axis", 0, len(shape))
    start = sum(s[axis] for s in node.outputs[: node.output])
    return [_at(0, (*at[:axis], at[axis] + start, *at[axis + 1 :]))]


def _slice(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    starts, ends = node.numbers(1, "starts"), node.numbers(2, "ends")
    if x is None or starts is None or ends is None:
        return None
    axes = node.numbers(3, "axes") or list(range(len(starts)))
    steps = node.numbers(4) or [1] * len(starts)
    source = list(at)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        where = axis % len(x)
        first = slice(start, end, step).indices(x[where])[0]
        source[where] = first + at[where] * step
    return [_at(0, source)]


def _pad(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    pads = node.numbers(1, "pads") or node.numbers(1, "paddings")
    if x is None or pads is None:
        return None
    axes = node.numbers(3) or list(range(len(x)))
    axes = [a % len(x) for a in axes]
    source = list(at)
    for position, axis in enumerate(axes):
        source[axis] -= pads[position]
    mode = node.attributes.get("mode", "constant")
    for axis, size in enumerate(x):
        i = source[axis]
        if 0 <= i < size:
            continue
        if mode == "constant":
            return [_at(2, ())] if node.shape(2) == () else []
        if mode == "edge":
            i = min(max(i, 0), size - 1)
        elif mode == "wrap":
            i %= size
        else:
            period = max(1, 2 * (size - 1))
            i = abs((i + period) % period)
            i = period - i if i >= size else i
        source[axis] = i
    return [_at(0, source)]


def _tile(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    return None if x is None else [_at(0, [i % d for i, d in zip(at, x, strict=True)])]


def _expand(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x = node.shape(0)
    return None if x is None else [_aligned(0, x, at)]


def _gather(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x, indices = node.shape(0), node.inputs[1]
    if x is None or indices is None:
        return None
    axis = _axis(node, "axis", 0, len(x))
    where = at[axis : axis + indices.ndim]
    row = int(indices[where]) % x[axis]
    return [_at(0, (*at[:axis], row, *at[axis + indices.ndim :])), _at(1, where)]


def _gather_elements(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x, indices = node.shape(0), node.inputs[1]
    if x is None or indices is None:
        return None
    axis = _axis(node, "axis", 0, len(x))
    return [_at(0, (*at[:axis], int(indices[at]) % x[axis], *at[axis + 1 :])), _at(1, at)]


def _gather_nd(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x, indices = node.shape(0), node.inputs[1]
    if x is None or indices is None:
        return None
    batch = int(node.attributes.get("batch_dims", 0))
    where = at[: indices.ndim - 1]
    chosen = [int(i) % d for i, d in zip(indices[where], x[batch:], strict=False)]
    return [
        _at(0, (*at[:batch], *chosen, *at[indices.ndim - 1 :])),
        Reach(1, (*map(_point, where), range(indices.shape[-1]))),
    ]


def _depth_to_space(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x, size = node.shape(0), int(node.attributes["blocksize"])
    if x is None:
        return None
    n, c, h, w = at
    depth = x[1] // size**2
    row, column = h % size, w % size
    block = row * size + column
    channel = block * depth + c if node.attributes.get("mode", "DCR") == "DCR" else c * size**2 + block
    return [_at(0, (n, channel, h // size, w // size))]


def _space_to_depth(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    x, size = node.shape(0), int(node.attributes["blocksize"])
    if x is None:
        return None
    n, c, h, w = at
    block, channel = divmod(c, x[1])
    return [_at(0, (n, channel, h * size + block // size, w * size + block % size))]


def _where(node: Called, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    """The condition, and of the two others the one it chooses."""
    condition = node.inputs[0]
    if condition is None:
        return None
    first = _aligned(0, condition.shape, at)
    chosen = 1 if bool(first.take(condition).reshape(-1)[0]) else 2
    shape = node.shape(chosen)
    return None if shape is None else [first, _aligned(chosen, shape, at)]


def _shape_of(_node: Called, _at: tuple[int, ...], _shape: tuple[int, ...]) -> list[Reach] | None:
    return []


Rule = Callable[[Called, tuple[int, ...], tuple[int, ...]], "list[Reach] | None"]

_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "FusedConv"), _conv),
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), _channels_last),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), _global_pool),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    "Gemm": _gemm,
    **dict.fromkeys((
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceSumSquare", "ArgMax", "ArgMin",
    ), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _layer_norm),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channel_norm),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    "CastLike": _first,
    "TopK": _top_k,
    "CumSum": _cum_sum,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
    "Expand": _expand,
    "Where": _where,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys((
        "Shape", "Size", "ConstantOfShape", "EyeLike", "RandomNormalLike", "RandomUniformLike",
    ), _shape_of),
}  # fmt: skip
