"""Symbolic shape inference: output dimensions where onnx's inference leaves them open, and contents of shape
tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis import symbolic, symbolic_floats
from onnx_workbench.model.analysis.element_types import inputs_of_same_type, result_type
from onnx_workbench.model.analysis.node_constants import constant_ints, content_of, ints, number
from onnx_workbench.model.analysis.slicing import CUTTING, slice_bounds
from onnx_workbench.model.analysis.spatial_shapes import MICROSOFT, SPATIAL
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.errors import RULE_ERRORS
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.schemas import traits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.model.analysis.values import Dims, KnownValues

_INT_CASTS = frozenset({ElementType.INT32, ElementType.INT64, ElementType.BOOL})
_CASTS = _INT_CASTS | {ElementType.FLOAT, ElementType.DOUBLE}

#: Whole numbers are exact below these bounds; an integer beyond its bound overflows.
_EXACT_BELOW = {
    ElementType.BOOL: 2,
    ElementType.INT32: 1 << 31,
    ElementType.INT64: 1 << 63,
    ElementType.FLOAT: symbolic_floats.LARGEST_EXACT,
    ElementType.DOUBLE: 1 << 53,
}


def contents_of(facts: KnownValues, node: Node, opset: int) -> Sequence[NDArray[Any] | None]:
    """Return the contents of a node's outputs, where they are small integer tensors and known."""
    rule = _CONTENTS.get(node.op_type)
    if rule is None:
        return ()
    kind = element_type_of_result(facts, node)
    limit = None if kind is None else _EXACT_BELOW.get(kind)
    if limit is None:
        return ()
    try:
        result = rule(facts, node, opset)
        results = result if isinstance(result, list) else [result]
        return [None if array is None or _may_overflow(array, limit) else array for array in results]
    except RULE_ERRORS:
        return ()


def element_type_of_result(facts: KnownValues, node: Node) -> ElementType | None:
    """Return the element type of the first output, also where inference failed: as the schema has it."""
    known = facts.element_type(node.outputs[0]) or result_type(node)
    return known or next(filter(None, map(facts.element_type, inputs_of_same_type(node))), None)


def _may_overflow(array: NDArray[Any], limit: int) -> bool:
    """Return whether an element may exceed the range of its element type, where its value is unknown."""
    return not all(_fits(element, limit) for element in array.reshape(-1).tolist())


def _fits(element: Any, limit: int) -> bool:
    if isinstance(element, int):
        return -limit <= element < limit
    if isinstance(element, symbolic.Size) and limit == 1 << 31:
        return symbolic.bound(element) < limit
    return True


def dims_of(facts: KnownValues, node: Node, opset: int) -> Sequence[Dims | None]:
    """Return the dimensions of a node's outputs, as far as the rules go."""
    inputs = [facts.dims(v) for v in node.inputs]
    known = traits.of(node)
    if known.shape_of is not None:
        return inputs[known.shape_of : known.shape_of + 1]
    if known.broadcasts:
        is_aligned = opset < 7 and (known.is_aligned_before_7 or node.op_type == "PRelu")
        return inputs[:1] if is_aligned else [_broadcast(inputs)]
    rule = MICROSOFT.get(node.op_type) if node.domain == "com.microsoft" else None
    if not node.domain:
        rule = _DIMS.get(node.op_type)
    if rule is None or not inputs or (inputs[0] is None and node.op_type != "Reshape"):
        return ()
    try:
        found = rule(facts, node, opset)
    except RULE_ERRORS:
        return ()
    return [dims if _can_be(dims) else None for dims in (found if isinstance(found, list) else [found])]


def _can_be(dims: Dims | None) -> bool:
    return dims is not None and all(0 <= d < 1 << 63 for d in dims if isinstance(d, int))


# -- dimensions ---------------------------------------------------------------------------------------------------


def _broadcast(inputs: Sequence[Dims | None]) -> Dims | None:
    known = [dims for dims in inputs if dims is not None]
    if len(known) < len(inputs) or not known:
        return None
    rank = max(map(len, known))
    result: list[AnySize] = []
    for column in zip(*[(1,) * (rank - len(dims)) + dims for dims in known], strict=True):
        larger = {d for d in column if d != 1}
        # Something sliced to another's size fits it only if nothing, or all but 1, was cut.
        larger -= {d for d in larger if any(symbolic.is_at_most(d, other) for other in larger)}
        fixed = [d for d in larger if symbolic.is_equal(d, 1) is False]
        if fixed:  # the other dimension is equal or 1
            result.append(min(fixed, key=lambda d: (isinstance(d, symbolic.Size), len(str(d)), str(d))))
        elif len(larger) == 1:
            result.append(larger.pop())
        elif not larger:
            result.append(1)
        else:  # one of them is the other, or is 1
            result.append(symbolic.undecided("broadcast", *sorted(larger, key=str)))
    return tuple(result)


def reshaped(
    have: Dims, wanted: Sequence[AnySize], *, allow_zero: bool, dimensions: Container[AnySize] = ()
) -> Dims | None:
    """Return the dimensions after Reshape; None when an entry might be -1.

    `dimensions` are sizes of some tensor, and therefore not negative.
    """
    result: list[AnySize | None] = []
    for axis, size in enumerate(wanted):
        if isinstance(size, int) and size == 0 and not allow_zero:
            if axis >= len(have):
                return None
            result.append(have[axis])
        elif isinstance(size, int) and size == -1:
            result.append(None)
        elif not symbolic.is_never_negative(size) and size not in dimensions:
            return None
        else:
            result.append(size)
    if not allow_zero:
        _copy_where_zero(have, result, dimensions)
    if None in result:
        others = tuple(d for d in result if d is not None)
        if len(others) != len(result) - 1:
            return None
        whole, rest = symbolic.product(have), symbolic.product(others)
        left = symbolic.divide(whole, rest)
        if left is None:
            return None
        if symbolic.least(left) is None:  # not divisible symbolically, but it is a size
            left = symbolic.quotient(whole, rest)
        result[result.index(None)] = left
    return tuple(d for d in result if d is not None)


def _copy_where_zero(have: Dims, result: list[AnySize | None], dimensions: Container[AnySize]) -> None:
    """Handle sizes that may be 0, as T // 2 for T = 1: such an entry copies the input's size.

    None stands for the inferred entry, which a single zero entry then is too. Several of them, without an inferred one,
    are kept: were one of them 0, the element counts would differ.
    """
    given = {name for d in have if isinstance(d, symbolic.Size) and len(d.terms) == 1 for name in d.terms[0][0]}
    places = {
        axis: size
        for axis, (size, copied) in enumerate(zip(result, have, strict=False))
        if size is not None and size != copied and size not in dimensions and symbolic.may_vanish(size, given)
    }
    if None in result:
        for axis, size in places.items():
            copied = have[axis]
            result[axis] = (
                symbolic.extreme(size, 1, largest=True) if copied == 1 else symbolic.undecided("0", size, copied)
            )
    elif len(places) == 1:
        result[min(places)] = None


def _reshape(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    have = facts.dims(node.inputs[0])
    wanted = content_of(facts, node, 1) if opset >= 5 else _vector(ints(node, "shape") or ())
    if wanted is None or wanted.ndim != 1:
        return None
    sizes, allow_zero = wanted.tolist(), bool(number(node, "allowzero"))
    found = None if have is None else reshaped(have, sizes, allow_zero=allow_zero, dimensions=facts.differences)
    if found is None:  # at least the rank is known
        return tuple(s if isinstance(s, int) and s > 0 else facts.unknown_size() for s in sizes)
    is_always_run = node.graph is not None and node.graph.root is node.graph
    if -1 in sizes and is_always_run and have is not None and not symbolic.may_vanish(symbolic.product(have)):
        facts.differences.add(found[sizes.index(-1)])  # an exact quotient, so not 0 where data has elements
    return found


def _expand(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    wanted = content_of(facts, node, 1)
    if wanted is None or wanted.ndim != 1:
        return None
    sizes = (facts.unknown_size() if symbolic.least(s) is None else s for s in wanted.tolist())
    return _broadcast([facts.dims(node.inputs[0]), tuple(sizes)])


def _transpose(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    dims = facts.dims(node.inputs[0]) or ()
    order = ints(node, "perm")
    order = tuple(reversed(range(len(dims)))) if order is None else order
    return tuple(dims[a] for a in order)


def _unsqueezed(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    axes, dims = axes_of(facts, node, opset), facts.dims(node.inputs[0])
    if axes is None or dims is None:
        return None
    rank = len(dims) + len(axes)
    new, left = {a % rank for a in axes}, iter(dims)
    return tuple(1 if a in new else next(left) for a in range(rank))


def _squeezed(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    axes, dims = axes_of(facts, node, opset), facts.dims(node.inputs[0])
    if axes is None or dims is None:
        return None
    gone = {a % len(dims) for a in axes}
    return tuple(d for a, d in enumerate(dims) if a not in gone)


def _concatenated(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    parts = [facts.dims(v) for v in node.inputs]
    known = [dims for dims in parts if dims is not None]
    if len(known) < len(parts):
        return None
    axis = number(node, "axis") % len(known[0])
    total = reduce(lambda a, b: a + b, (dims[axis] for dims in known))
    known = [dims for dims in known if dims[axis] != 0] or known[:1]  # without elements it may have other sizes
    result = list(known[0])
    for index in range(len(result)):  # all equal: take a number where one has it
        result[index] = next((d[index] for d in known if isinstance(d[index], int)), result[index])
    result[axis] = total
    return tuple(result)


def _gathered(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    data, indices = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if data is None or indices is None:
        return None
    axis = number(node, "axis") % len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def _multiplied(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    a, b = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    batch = _broadcast([a[:-2], b[:-2]])
    return None if batch is None else (*batch, a[-2], b[-1])


def _gemm(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    a, b = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    return a[1 if number(node, "transA") else 0], b[0 if number(node, "transB") else 1]


def _reduced(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    dims = facts.dims(node.inputs[0]) or ()
    is_arg = node.op_type in ("ArgMax", "ArgMin")
    axes = (number(node, "axis"),) if is_arg else ints(node, "axes") or constant_ints(facts, node, 1)
    if not axes:
        return None
    gone = {a % len(dims) for a in axes}
    if number(node, "keepdims"):
        return tuple(1 if a in gone else d for a, d in enumerate(dims))
    return tuple(d for a, d in enumerate(dims) if a not in gone)


def _counted(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    bounds = [content_of(facts, node, i) for i in range(3)]
    if any(b is None or b.size != 1 for b in bounds):
        return None
    start, limit, step = (b.reshape(-1)[0] for b in bounds if b is not None)
    if step != 1:
        return None
    count = limit - start
    return (count,) if symbolic.is_less(count, 0) is False else None


def _filled(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    wanted = content_of(facts, node, 0)
    return None if wanted is None else tuple(wanted.reshape(-1))


def _one_hot(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    dims, depth = facts.dims(node.inputs[0]), content_of(facts, node, 1)
    if dims is None or depth is None or depth.size != 1:
        return None
    axis = number(node, "axis") % (len(dims) + 1)
    return (*dims[:axis], depth.reshape(-1)[0], *dims[axis:])


def _flattened(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    dims, axis = facts.dims(node.inputs[0]) or (), number(node, "axis")
    return symbolic.product(dims[:axis]), symbolic.product(dims[axis:])


def _spread(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    block = number(node, "blocksize")
    batch, channels, height, width = facts.dims(node.inputs[0]) or ()
    fewer = symbolic.dimension(channels, block * block)
    return None if fewer is None else (batch, fewer, height * block, width * block)


def _stacked(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    block = number(node, "blocksize")
    batch, channels, height, width = facts.dims(node.inputs[0]) or ()
    lower, narrower = symbolic.dimension(height, block), symbolic.dimension(width, block)
    return None if lower is None or narrower is None else (batch, channels * (block * block), lower, narrower)


_DIMS: dict[str, Callable[[KnownValues, Node, int], Dims | list[Dims | None] | None]] = {
    **dict.fromkeys(traits.names(lambda t: t.is_reduction), _reduced),
    "Gemm": _gemm,
    "Range": _counted,
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueezed,
    "Squeeze": _squeezed,
    "Concat": _concatenated,
    "ConstantOfShape": _filled,
    "OneHot": _one_hot,
    "Flatten": _flattened,
    "DepthToSpace": _spread,
    "SpaceToDepth": _stacked,
    "Gather": _gathered,
    "MatMul": _multiplied,
    **CUTTING,
    **SPATIAL,
}


# -- contents -----------------------------------------------------------------------------------------------------


def _vector(values: Sequence[AnySize]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def axes_of(facts: KnownValues, node: Node, opset: int) -> tuple[int, ...] | None:
    """Return the axes of Squeeze or Unsqueeze; None when left out or unknown."""
    return constant_ints(facts, node, 1) if opset >= 13 else ints(node, "axes")


def _shape(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    dims = facts.dims(node.inputs[0])
    return None if dims is None else _vector(dims[slice(number(node, "start"), ints_end(node))])


def ints_end(node: Node) -> int | None:
    """Return the `end` of Shape; None at the end."""
    attribute = node.attributes.get("end")
    return attribute.value if attribute is not None and isinstance(attribute.value, int) else None


def _size(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    dims = facts.dims(node.inputs[0])
    return None if dims is None else _scalar(symbolic.product(dims))


def _scalar(size: AnySize) -> NDArray[Any]:
    array = np.empty((), object)
    array[()] = size
    return array


def _same(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    return content_of(facts, node, 0)


def _cast(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    return _converted(facts, node, number(node, "to"))


def _cast_like(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    return _converted(facts, node, facts.element_type(node.outputs[0]))


def _converted(facts: KnownValues, node: Node, to: int | None) -> NDArray[Any] | None:
    content = content_of(facts, node, 0)
    if content is None or to not in _CASTS:
        return None
    flat = [int(v) if isinstance(v, bool) else v for v in content.reshape(-1)]
    if to == ElementType.BOOL:
        flat = [v != 0 if isinstance(v, int) else None for v in flat]
    elif to in _INT_CASTS:
        flat = [symbolic_floats.rounded(v) for v in flat]
    elif facts.element_type(node.inputs[0]) != to:  # a product rounded to 32 bits is the same in 64
        flat = [v if not isinstance(v, symbolic_floats.SymbolicFloat) or v.factor == 1.0 else None for v in flat]
    return None if any(v is None for v in flat) else _shaped(flat, content.shape)


def _shaped(values: Sequence[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(shape, object)
    array.reshape(-1)[:] = list(values)
    return array


def _gather(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    content, indices = content_of(facts, node, 0), content_of(facts, node, 1)
    if content is None or indices is None or not all(isinstance(i, int) for i in indices.reshape(-1)):
        return None
    return _array(np.take(content, indices.astype(np.int64), axis=number(node, "axis")))


def _array(found: Any) -> NDArray[Any]:
    """Wrap the bare object that numpy returns for a result without dimensions."""
    return found if isinstance(found, np.ndarray) else _scalar(found)


def _slice(facts: KnownValues, node: Node, opset: int) -> NDArray[Any] | None:
    content, bounds = content_of(facts, node, 0), slice_bounds(facts, node, opset)
    if content is None or bounds is None or content.ndim != 1 or len(bounds) != 1:
        return None
    _, start, end, step = bounds[0]
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(step, int) or step == 0:
        return None
    length = len(content)
    start = max(start + length, 0) if start < 0 else start
    stop: int | None = end + length if end < 0 else end
    if stop is not None and stop < 0:
        stop = None if step < 0 else 0
    return content[start:stop:step]


def _concat(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    parts = [content_of(facts, node, i) for i in range(len(node.inputs))]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    return np.concatenate(known, axis=number(node, "axis"))


def _unsqueeze(facts: KnownValues, node: Node, opset: int) -> NDArray[Any] | None:
    content, axes = content_of(facts, node, 0), axes_of(facts, node, opset)
    return None if content is None or axes is None else np.expand_dims(content, axes)


def _squeeze(facts: KnownValues, node: Node, opset: int) -> NDArray[Any] | None:
    content = content_of(facts, node, 0)
    if content is None:
        return None
    given = ints(node, "axes") is not None if opset < 13 else len(node.inputs) > 1 and node.inputs[1] is not None
    axes = axes_of(facts, node, opset)
    if given and axes is None:
        return None
    return _array(np.squeeze(content, axis=axes))


def _reshape_content(facts: KnownValues, node: Node, opset: int) -> NDArray[Any] | None:
    content = content_of(facts, node, 0)
    wanted = constant_ints(facts, node, 1) if opset >= 5 else ints(node, "shape")
    if content is None or wanted is None or 0 in wanted:
        return None
    return content.reshape(wanted)


def _elementwise(operation: Callable[..., Any]) -> Callable[[KnownValues, Node, int], NDArray[Any] | None]:
    def rule(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
        parts = [content_of(facts, node, i) for i in range(len(node.inputs))]
        if not parts or any(p is None for p in parts):
            return None
        arrays = np.broadcast_arrays(*[p for p in parts if p is not None])
        columns = zip(*(a.reshape(-1) for a in arrays), strict=True)
        results = [operation(*column) if len(column) < 3 else reduce(operation, column) for column in columns]
        return None if any(r is None for r in results) else _shaped(results, arrays[0].shape)

    return rule


def _quotients(facts: KnownValues, node: Node, opset: int) -> NDArray[Any] | None:
    is_whole = facts.element_type(node.outputs[0]) in _INT_CASTS
    return _elementwise(symbolic.divide if is_whole else symbolic_floats.divide)(facts, node, opset)


def _remainders(facts: KnownValues, node: Node, opset: int) -> NDArray[Any] | None:
    is_signed = bool(number(node, "fmod"))
    return _elementwise(symbolic.signed_remainder if is_signed else symbolic.remainder)(facts, node, opset)


def _where(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    parts = [content_of(facts, node, i) for i in range(3)]
    if any(p is None for p in parts):
        return None
    condition, yes, no = np.broadcast_arrays(*[p for p in parts if p is not None])
    chosen = [
        (a if c else b) if isinstance(c, bool) else (a if a == b else None)
        for c, a, b in zip(condition.reshape(-1), yes.reshape(-1), no.reshape(-1), strict=True)
    ]
    return None if any(c is None for c in chosen) else _shaped(chosen, condition.shape)


def _reduce_prod(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    content = content_of(facts, node, 0)
    if content is None or content.ndim > 1:
        return None
    if number(node, "noop_with_empty_axes"):  # without axes it is an identity
        axes = constant_ints(facts, node, 1) if node.inputs[1:] and node.inputs[1] is not None else ()
        if not axes:
            return None if axes is None else content
    total = symbolic.product(tuple(content.reshape(-1)))
    return _shaped([total], (1,)) if number(node, "keepdims") and content.ndim else _scalar(total)


def _constant_of_shape(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    shape = constant_ints(facts, node, 0)
    attribute = node.attributes.get("value")
    tensor: Any = None if attribute is None else attribute.value
    if shape is None or tensor is None or tensor.element_type not in _INT_CASTS or tensor.size != 1:
        return None
    if any(d < 0 for d in shape) or math.prod(shape) > 64:
        return None
    return np.full(shape, tensor.numpy().reshape(-1)[0].item(), object)


def _range(facts: KnownValues, node: Node, _opset: int) -> NDArray[Any] | None:
    bounds = [constant_ints(facts, node, i) for i in range(3)]
    if any(b is None for b in bounds):
        return None
    numbers = range(*[b[0] for b in bounds if b is not None])
    return _vector(list(numbers)) if len(numbers) <= 64 else None


def _split_content(facts: KnownValues, node: Node, opset: int) -> list[NDArray[Any] | None] | None:
    content = content_of(facts, node, 0)
    if content is None or content.ndim != 1:
        return None
    lengths = constant_ints(facts, node, 1) if opset >= 13 else ints(node, "split")
    if lengths is None:
        count = len(node.outputs)
        size = -(-len(content) // count)
        lengths = tuple(max(min(size, len(content) - i * size), 0) for i in range(count))
    ends = np.cumsum(lengths)
    return [content[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def _extreme(largest: bool) -> Callable[[AnySize, AnySize], AnySize]:
    return lambda a, b: symbolic.extreme(a, b, largest=largest)


_CONTENTS: dict[str, Callable[[KnownValues, Node, int], Any]] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": _same,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape_content,
    "Add": _elementwise(symbolic_floats.add),
    "Sub": _elementwise(lambda a, b: symbolic_floats.add(a, b, -1)),
    "Mul": _elementwise(symbolic_floats.multiply),
    "Div": _quotients,
    "Floor": _elementwise(symbolic_floats.rounded),
    "Ceil": _elementwise(lambda a: symbolic_floats.rounded(a, up=True)),
    "Mod": _remainders,
    "Min": _elementwise(_extreme(largest=False)),
    "Max": _elementwise(_extreme(largest=True)),
    "Neg": _elementwise(lambda a: symbolic_floats.multiply(a, -1)),
    "Equal": _elementwise(symbolic.is_equal),
    "Less": _elementwise(symbolic.is_less),
    "Greater": _elementwise(lambda a, b: symbolic.is_less(b, a)),
    "Where": _where,
    "ReduceProd": _reduce_prod,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Split": _split_content,
}

#: Operators of the standard domain whose results may be known as sizes.
CONTENT_OPERATORS = frozenset(_CONTENTS)
