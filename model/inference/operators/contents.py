"""Contents of small integer tensors: sizes that flow from Shape through arithmetic to Reshape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis import symbolic, symbolic_floats
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.facts import LARGEST_CONTENTS
from onnx_workbench.model.inference.operators.cutting import slice_bounds
from onnx_workbench.model.inference.operators.node_call import NodeCall
from onnx_workbench.model.inference.operators.reshaping import axes_of, vector
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray

Contents = Callable[["NodeCall"], Any]

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


def contents_of(call: NodeCall) -> Sequence[NDArray[Any] | None]:
    """Return the contents of a node's outputs, where they are small integer tensors and known."""
    rule = CONTENTS.get(call.node.op_type)
    kind = None if rule is None else _result(call)
    limit = None if kind is None else _EXACT_BELOW.get(kind)
    if rule is None or limit is None:
        return ()
    result = rule(call)
    results = result if isinstance(result, list) else [result]
    return [None if array is None or _may_overflow(array, limit) else array for array in results]


def _result(call: NodeCall) -> ElementType | None:
    return call.facts.element_type(call.node.outputs[0])


def _may_overflow(array: NDArray[Any], limit: int) -> bool:
    """Return whether an element may exceed the range of its element type, where its value is unknown."""
    return not all(_fits(element, limit) for element in array.reshape(-1).tolist())


def _fits(element: Any, limit: int) -> bool:
    if isinstance(element, int):
        return -limit <= element < limit
    if isinstance(element, symbolic.Size) and limit == 1 << 31:
        return symbolic.bound(element) < limit
    return True


def _shape(call: NodeCall) -> NDArray[Any] | None:
    dims = call.dims(0)
    return None if dims is None else vector(dims[slice(call.integer("start"), ints_end(call.node))])


def ints_end(node: Node) -> int | None:
    """Return the `end` of Shape; None at the end."""
    attribute = node.attributes.get("end")
    return attribute.value if attribute is not None and isinstance(attribute.value, int) else None


def _size(call: NodeCall) -> NDArray[Any] | None:
    dims = call.dims(0)
    return None if dims is None else _scalar(symbolic.product(dims))


def _scalar(size: AnySize) -> NDArray[Any]:
    array = np.empty((), object)
    array[()] = size
    return array


def _same(call: NodeCall) -> NDArray[Any] | None:
    return call.content(0)


def _cast(call: NodeCall) -> NDArray[Any] | None:
    content, to = call.content(0), _result(call)
    if content is None or to not in _CASTS:
        return None
    flat = [int(v) if isinstance(v, bool) else v for v in content.reshape(-1)]
    if to == ElementType.BOOL:
        flat = [v != 0 if isinstance(v, int) else None for v in flat]
    elif to in _INT_CASTS:
        flat = [symbolic_floats.rounded(v) for v in flat]
    elif call.kind(0) != to:  # a product rounded to 32 bits is the same in 64
        flat = [v if not isinstance(v, symbolic_floats.SymbolicFloat) or v.factor == 1.0 else None for v in flat]
    return None if any(v is None for v in flat) else _shaped(flat, content.shape)


def _shaped(values: Sequence[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(shape, object)
    array.reshape(-1)[:] = list(values)
    return array


def _gather(call: NodeCall) -> NDArray[Any] | None:
    content, indices = call.content(0), call.content(1)
    if content is None or indices is None or not all(isinstance(i, int) for i in indices.reshape(-1)):
        return None
    return _array(np.take(content, indices.astype(np.int64), axis=call.integer("axis")))


def _array(found: Any) -> NDArray[Any]:
    """Wrap the bare object that numpy returns for a result without dimensions."""
    return found if isinstance(found, np.ndarray) else _scalar(found)


def _slice(call: NodeCall) -> NDArray[Any] | None:
    content, bounds = call.content(0), slice_bounds(call)
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


def _concat(call: NodeCall) -> NDArray[Any] | None:
    parts = [call.content(i) for i in range(len(call.node.inputs))]
    present = [p for p in parts if p is not None]
    if len(present) < len(parts):
        return None
    return np.concatenate(present, axis=call.integer("axis"))


def _unsqueeze(call: NodeCall) -> NDArray[Any] | None:
    content, axes = call.content(0), axes_of(call)
    return None if content is None or axes is None else np.expand_dims(content, axes)


def _squeeze(call: NodeCall) -> NDArray[Any] | None:
    content = call.content(0)
    if content is None:
        return None
    has_axes = call.integers("axes") is not None if call.opset < 13 else call.input(1) is not None
    axes = axes_of(call)
    if has_axes and axes is None:
        return None
    return _array(np.squeeze(content, axis=axes))


def _reshape_content(call: NodeCall) -> NDArray[Any] | None:
    content = call.content(0)
    wanted = call.numbers(1) if call.opset >= 5 else call.integers("shape")
    if content is None or wanted is None or 0 in wanted:
        return None
    return content.reshape(wanted)


def _elementwise(operation: Callable[..., Any]) -> Contents:
    def rule(call: NodeCall) -> NDArray[Any] | None:
        contents = call.facts.contents
        parts = [contents[value] for value in call.node.inputs if value in contents]
        if not parts or len(parts) < len(call.node.inputs):
            return None
        arrays = _broadcast(parts)
        columns = zip(*(a.reshape(-1) for a in arrays), strict=True)
        results = [operation(*column) if len(column) < 3 else reduce(operation, column) for column in columns]
        return None if any(r is None for r in results) else _shaped(results, arrays[0].shape)

    return rule


def _broadcast(arrays: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    """Broadcast arrays to each other; ValueError for more elements than are kept."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if math.prod(shape) > LARGEST_CONTENTS:
        raise ValueError(shape)
    return [np.broadcast_to(array, shape) for array in arrays]


def _quotients(call: NodeCall) -> Any:
    is_whole = _result(call) in _INT_CASTS
    return _elementwise(symbolic.divide if is_whole else symbolic_floats.divide)(call)


def _remainders(call: NodeCall) -> Any:
    is_signed = bool(call.integer("fmod"))
    return _elementwise(symbolic.signed_remainder if is_signed else symbolic.remainder)(call)


def _where(call: NodeCall) -> NDArray[Any] | None:
    parts = [call.content(i) for i in range(3)]
    if any(p is None for p in parts):
        return None
    condition, yes, no = _broadcast([p for p in parts if p is not None])
    chosen = [
        (a if c else b) if isinstance(c, bool) else (a if a == b else None)
        for c, a, b in zip(condition.reshape(-1), yes.reshape(-1), no.reshape(-1), strict=True)
    ]
    return None if any(c is None for c in chosen) else _shaped(chosen, condition.shape)


def _reduce_prod(call: NodeCall) -> NDArray[Any] | None:
    content = call.content(0)
    if content is None or content.ndim > 1:
        return None
    if call.integer("noop_with_empty_axes"):  # without axes it is an identity
        axes = call.numbers(1) if call.input(1) is not None else ()
        if not axes:
            return None if axes is None else content
    total = symbolic.product(tuple(content.reshape(-1)))
    return _shaped([total], (1,)) if call.integer("keepdims") and content.ndim else _scalar(total)


def _constant_of_shape(call: NodeCall) -> NDArray[Any] | None:
    shape = call.numbers(0)
    attribute = call.node.attributes.get("value")
    tensor: Any = None if attribute is None else attribute.value
    if shape is None or tensor is None or tensor.element_type not in _INT_CASTS or tensor.size != 1:
        return None
    if any(d < 0 for d in shape) or math.prod(shape) > LARGEST_CONTENTS:
        return None
    return np.full(shape, tensor.numpy().reshape(-1)[0].item(), object)


def _range(call: NodeCall) -> NDArray[Any] | None:
    bounds = [call.numbers(i) for i in range(3)]
    if any(b is None for b in bounds):
        return None
    numbers = range(*[b[0] for b in bounds if b is not None])
    return vector(list(numbers)) if len(numbers) <= LARGEST_CONTENTS else None


def _split_content(call: NodeCall) -> list[NDArray[Any] | None] | None:
    content = call.content(0)
    if content is None or content.ndim != 1:
        return None
    lengths = call.numbers(1) if call.opset >= 13 else call.integers("split")
    if lengths is None:
        count = call.outputs
        size = -(-len(content) // count)
        lengths = tuple(max(min(size, len(content) - i * size), 0) for i in range(count))
    ends = np.cumsum(lengths)
    return [content[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def _extreme(largest: bool) -> Callable[[AnySize, AnySize], AnySize]:
    return lambda a, b: symbolic.extreme(a, b, largest=largest)


#: Rules by operator of the standard domain.
CONTENTS: dict[str, Contents] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": _same,
    "Cast": _cast,
    "CastLike": _cast,
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
