"""Types of PyTorch operators that an exporter kept as ATen nodes, selected by an attribute."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.symbolic import AnySize, read
from onnx_workbench.model.inference.node_call import NodeCall, Rule, at, broadcast, tensor, to_dimension
from onnx_workbench.model.ir.types import Dimension, ElementType, Type


def aten(call: NodeCall) -> Sequence[Type | None]:
    """Return the rule of the operator that the node represents."""
    rule = _RULES.get(call.attribute("operator", ""))
    return () if rule is None or call.tensor(0) is None else rule(call)


def _size(dim: Dimension) -> AnySize | None:
    return read(dim) if isinstance(dim, str) else dim


def _number(call: NodeCall, index: int) -> int | None:
    """Return a constant input of one number."""
    given = call.content(index)
    found = given[0] if given is not None and len(given) == 1 else None
    return found if isinstance(found, int) else None


def _kind(call: NodeCall) -> ElementType | int:
    data = call.tensor(0)
    return ElementType.UNDEFINED if data is None else data.element_type


def _embedding(call: NodeCall) -> Sequence[Type | None]:
    table, indices = call.dims(0), call.dims(1)
    return (tensor(_kind(call), None if table is None or indices is None else (*indices, *table[1:])),)


def _broadcast(call: NodeCall) -> Sequence[Type | None]:
    return (tensor(_kind(call), broadcast(call.dims(0), call.dims(1))),)


def _diagonal(call: NodeCall) -> Sequence[Type | None]:
    dims, offset, one, two = call.dims(0), *(_number(call, i) for i in (1, 2, 3))
    if dims is None:
        return (tensor(_kind(call), None),)
    if offset is None or one is None or two is None or len(dims) < 2:
        return (tensor(_kind(call), (None,) * max(len(dims) - 1, 0)),)
    one, two = one % len(dims), two % len(dims)
    rest = tuple(d for axis, d in enumerate(dims) if axis not in (one, two))
    height, width = _size(dims[one]), _size(dims[two])
    if height is None or width is None:
        return (tensor(_kind(call), (*rest, None)),)
    down, across = (height, width - offset) if offset >= 0 else (height + offset, width)
    length = symbolic.extreme(symbolic.extreme(down, across, largest=False), 0, largest=True)
    return (tensor(_kind(call), (*rest, to_dimension(length))),)


def _reduced(call: NodeCall) -> tuple[Dimension, ...] | None:
    """Return the dimensions without the one given as an input, or with it as 1."""
    dims, axis, keep = call.dims(0), _number(call, 1), _number(call, 2)
    if dims is None or keep is None:
        return None
    if axis is None:
        return (None,) * (len(dims) if keep else len(dims) - 1)
    axis %= len(dims)
    return (*dims[:axis], *((1,) if keep else ()), *dims[axis + 1 :])


def _extreme(call: NodeCall) -> Sequence[Type | None]:
    if len(call.inputs) == 1:
        return (tensor(_kind(call), ()),)
    return (tensor(_kind(call), _reduced(call)), tensor(ElementType.INT64, _reduced(call)))


def _argmax(call: NodeCall) -> Sequence[Type | None]:
    is_flat = len(call.inputs) < 2 or call.inputs[1] is None
    return (tensor(ElementType.INT64, () if is_flat else _reduced(call)),)


def _multinomial(call: NodeCall) -> Sequence[Type | None]:
    dims = call.dims(0)
    return (tensor(ElementType.INT64, None if dims is None else (*dims[:-1], _number(call, 1))),)


def _unfold(call: NodeCall) -> Sequence[Type | None]:
    return unfolded(call, _number(call, 1), _number(call, 2), _number(call, 3))


def unfolded(call: NodeCall, axis: int | None, size: int | None, step: int | None) -> Sequence[Type | None]:
    """Sliding windows along a dimension, each along a new last one."""
    dims = call.dims(0)
    if dims is None:
        return (tensor(_kind(call), None),)
    if axis is None or size is None or not step:
        return (tensor(_kind(call), (None,) * (len(dims) + 1)),)
    axis %= len(dims)
    whole = _size(dims[axis])
    steps = None if whole is None else symbolic.dimension(whole - size, step)
    count = None if steps is None else to_dimension(steps + 1)
    return (tensor(_kind(call), (*dims[:axis], count, *dims[axis + 1 :], size)),)


def _pooled(call: NodeCall) -> Sequence[Type | None]:
    dims = call.dims(0)
    found = None if dims is None else (*dims[:-2], None, None)
    return (tensor(_kind(call), found), tensor(ElementType.INT64, found))


def _transposed(call: NodeCall) -> Sequence[Type | None]:
    dims = call.dims(0)
    return (tensor(_kind(call), None if dims is None else tuple(reversed(dims))),)


def _group_norm(call: NodeCall) -> Sequence[Type | None]:
    statistics = tensor(_kind(call), (at(call.dims(0), 0), _number(call, 6)))
    return (call.inputs[0], statistics, statistics)


def _upsampled(call: NodeCall) -> Sequence[Type | None]:
    dims = call.dims(0)
    wanted = call.content(1)
    if dims is None:
        return (tensor(_kind(call), None),)
    return (tensor(_kind(call), (*dims[:2], *(wanted if wanted is not None else (None,) * (len(dims) - 2)))),)


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
