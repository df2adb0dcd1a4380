"""Types of PyTorch operators that an exporter kept as ATen nodes, selected by an attribute."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.output_sizes import window_count
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    Sized,
    at,
    axis_of,
    broadcast,
    replaced,
)
from onnx_workbench.model.ir.types import ElementType


def aten(call: NodeCall) -> Sequence[Found]:
    """Return the rule of the operator that the node represents."""
    rule = _RULES.get(call.attribute("operator", ""))
    return () if rule is None or call.tensor(0) is None else rule(call)


def _number(call: NodeCall, index: int) -> int | None:
    """Return a constant input of one number."""
    number = call.scalar(index)
    return number if isinstance(number, int) else None


def _like(call: NodeCall, dims: Sequence[AnySize | None] | None) -> Sized:
    return Sized(call.kind(0), dims)


def _embedding(call: NodeCall) -> Sequence[Found]:
    table, indices = call.dims(0), call.dims(1)
    return (_like(call, None if table is None or indices is None else (*indices, *table[1:])),)


def _broadcast(call: NodeCall) -> Sequence[Found]:
    return (_like(call, broadcast(call.dims(0), call.dims(1))),)


def _diagonal(call: NodeCall) -> Sequence[Found]:
    dims, offset, one, two = call.dims(0), *(_number(call, i) for i in (1, 2, 3))
    if dims is None:
        return (_like(call, None),)
    if offset is None or one is None or two is None or len(dims) < 2:
        return (_like(call, (None,) * max(len(dims) - 1, 0)),)
    one, two = axis_of(one, len(dims)), axis_of(two, len(dims))
    rest = tuple(d for axis, d in enumerate(dims) if axis not in (one, two))
    height, width = dims[one], dims[two]
    down, across = (height, width - offset) if offset >= 0 else (height + offset, width)
    length = symbolic.extreme(symbolic.extreme(down, across, largest=False), 0, largest=True)
    return (_like(call, (*rest, length)),)


def _reduced(call: NodeCall) -> tuple[AnySize | None, ...] | None:
    """Return the dimensions without the one given as an input, or with it as 1."""
    dims, axis, keep = call.dims(0), _number(call, 1), _number(call, 2)
    if dims is None or keep is None:
        return None
    if axis is None:
        return (None,) * (len(dims) if keep else len(dims) - 1)
    return replaced(dims, axis_of(axis, len(dims)), *((1,) if keep else ()))


def _extreme(call: NodeCall) -> Sequence[Found]:
    if len(call.node.inputs) == 1:
        return (_like(call, ()),)
    return (_like(call, _reduced(call)), Sized(ElementType.INT64, _reduced(call)))


def _argmax(call: NodeCall) -> Sequence[Found]:
    return (Sized(ElementType.INT64, () if call.input(1) is None else _reduced(call)),)


def _multinomial(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    return (Sized(ElementType.INT64, None if dims is None else (*dims[:-1], _number(call, 1))),)


def _unfold(call: NodeCall) -> Sequence[Found]:
    return unfolded(call, _number(call, 1), _number(call, 2), _number(call, 3))


def unfolded(call: NodeCall, axis: int | None, size: int | None, step: int | None) -> Sequence[Found]:
    """Sliding windows along a dimension, each along a new last one."""
    dims = call.dims(0)
    if dims is None:
        return (_like(call, None),)
    if axis is None or size is None or not step:
        return (_like(call, (None,) * (len(dims) + 1)),)
    axis = axis_of(axis, len(dims))
    count = window_count(dims[axis], size, step, 0, 0, rounds_up=False)
    return (_like(call, (*replaced(dims, axis, count), size)),)


def _pooled(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    found = None if dims is None else (*dims[:-2], None, None)
    return (_like(call, found), Sized(ElementType.INT64, found))


def _transposed(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    return (_like(call, None if dims is None else tuple(reversed(dims))),)


def _group_norm(call: NodeCall) -> Sequence[Found]:
    statistics = _like(call, (at(call.dims(0), 0), _number(call, 6)))
    return (call.tensor(0), statistics, statistics)


def _upsampled(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    wanted = call.content(1)
    if dims is None:
        return (_like(call, None),)
    return (_like(call, (*dims[:2], *(wanted.reshape(-1) if wanted is not None else (None,) * (len(dims) - 2)))),)


_RULES: dict[str, Rule] = {
    "embedding": _embedding,
    "bitwise_or": _broadcast,
    "diagonal": _diagonal,
    "max": _extreme,
    "min": _extreme,
    "argmax": _argmax,
    "multinomial": _multinomial,
    "unfold": _unfold,
    "numpy_T": _transposed,
    "native_group_norm": _group_norm,
    **dict.fromkeys(("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d"), _pooled),
    **dict.fromkeys(
        ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bicubic2d"), _upsampled
    ),
}
