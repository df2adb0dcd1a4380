"""Receptive fields of operators that move or blend elements: scatters, sorts, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_workbench.exec.inspect.receptive_field.indices import ElementReach, EvaluatedNode, at_index, point, wider
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.allocation import Array
from onnx_workbench.exec.kernels.registry import find

#: Elements along an axis up to which the weights of resizing are computed.
_MOST_ALONG = 2048
#: Weights up to this count as zero, for rounding errors.
_ROUNDING = 1e-6
#: Most rows of indices that are listed.
_MOST_ROWS = 1000

At = tuple[int, ...]


def trilu(node: EvaluatedNode, at: At, _shape: At) -> list[ElementReach]:
    """The element itself, inside the kept triangle."""
    k = (node.numbers(1) or [0])[0]
    offset = at[-1] - at[-2] - k
    stays = offset >= 0 if int(node.attributes.get("upper", 1)) else offset <= 0
    return [at_index(0, at)] if stays else []


def reverse_sequence(node: EvaluatedNode, at: At, _shape: At) -> list[ElementReach] | None:
    """The element at the mirrored position of its sequence."""
    lengths = node.numbers(1)
    if lengths is None:
        return None
    time, batch = int(node.attributes.get("time_axis", 0)), int(node.attributes.get("batch_axis", 1))
    length = lengths[at[batch]]
    source = list(at)
    if at[time] < length:
        source[time] = length - 1 - at[time]
    return [at_index(0, source), at_index(1, (at[batch],))]


def compress(node: EvaluatedNode, at: At, _shape: At) -> list[ElementReach] | None:
    """The element that the condition selected."""
    x, chosen = node.shape(0), node.inputs[1]
    if x is None or chosen is None:
        return None
    kept = np.flatnonzero(chosen)
    axis = node.attributes.get("axis")
    if axis is None:
        return [at_index(0, tuple(int(i) for i in np.unravel_index(kept[at[0]], x)))]
    source = list(at)
    source[int(axis) % len(x)] = int(kept[at[int(axis) % len(x)]])
    return [at_index(0, source)]


def one_hot(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """The index, and which of the two values it selects."""
    indices, depth = node.inputs[0], node.numbers(1)
    if indices is None or depth is None:
        return None
    axis = int(node.attributes.get("axis", -1)) % len(shape)
    place = (*at[:axis], *at[axis + 1 :])
    index = int(indices[place])
    is_on = -depth[0] <= index < depth[0] and index % depth[0] == at[axis]
    return [at_index(0, place), at_index(2, (int(is_on),))]


def scatter_elements(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """The updates with this index; without any, or with a reduction, also the original element."""
    indices = node.inputs[1]
    if indices is None:
        return None
    axis = int(node.attributes.get("axis", 0)) % len(shape)
    if any(i >= d for position, (i, d) in enumerate(zip(at, indices.shape, strict=True)) if position != axis):
        return [at_index(0, at)]
    along: Any = tuple(slice(None) if position == axis else i for position, i in enumerate(at))
    found = np.flatnonzero(indices[along] % shape[axis] == at[axis]).tolist()
    reduces, found = _of_updates(node, found)
    updates = ElementReach(2, tuple(tuple(found) if position == axis else point(i) for position, i in enumerate(at)))
    return [*([at_index(0, at)] if reduces or not found else []), *([updates] if found else [])]


def scatter_nd(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """The updates whose row of indices points here; without any, or with a reduction, also the original element."""
    indices = node.inputs[1]
    if indices is None:
        return None
    width = indices.shape[-1]
    rows = indices.reshape(-1, width) % np.array(shape[:width], np.int64)
    reduces, found = _of_updates(node, np.flatnonzero((rows == np.array(at[:width], np.int64)).all(1)).tolist())
    if len(found) > _MOST_ROWS:
        return None
    places = [np.unravel_index(row, indices.shape[:-1]) for row in found]
    updates = [at_index(2, (*map(int, place), *at[width:])) for place in places]
    return [*([at_index(0, at)] if reduces or not updates else []), *updates]


def _of_updates(node: EvaluatedNode, found: list[int]) -> tuple[bool, list[int]]:
    """Return whether updates are combined with the original, and the effective ones: without a reduction the last
    alone.
    """
    reduces = node.attributes.get("reduction", "none") != "none"
    return reduces, found if reduces else found[-1:]


def resize(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """The neighbours that are interpolated, or the nearest one, along each axis; computed by the kernel itself."""
    x, array = node.shape(0), node.inputs[0]
    crops = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    fits = node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch"
    if x is None or array is None or len(x) < 2 or crops or fits or max(x) > _MOST_ALONG:
        return None
    met, every = _from(node, x, shape, at, 1.0), _from(node, x, shape, at, np.nan)
    return None if met is None or every is None else [wider(met, every, array)]


def _from(node: EvaluatedNode, x: At, shape: At, at: At, mark: float) -> ElementReach | None:
    """Return the elements that would appear at an output if they alone were `mark`."""
    axes = []
    for axis in range(len(x)):
        positions = _blended(node, x, shape, axis, at[axis], mark)
        if positions is None:
            return None
        axes.append(positions)
    return ElementReach(0, tuple(axes))


def _blended(node: EvaluatedNode, x: At, shape: At, axis: int, at: int, mark: float) -> tuple[int, ...] | range | None:
    """Return the positions along an axis whose `mark` appears at an output when that axis alone is resized."""
    length = x[axis]
    chosen = [int(a) % len(x) for a in node.attributes.get("axes", range(len(x)))]
    if axis not in chosen or (length == shape[axis] and not _is_scaled(node, chosen.index(axis))):
        return point(at)
    other = 1 if axis == 0 else 0  # each element alone in a row of its own
    probe = np.zeros([length if i in (axis, other) else 1 for i in range(len(x))], np.float32)
    rows: Any = tuple(np.arange(length) if i in (axis, other) else 0 for i in range(len(x)))
    probe[rows] = mark
    result = _resized_along(node, probe, chosen, axis)
    if result is None:
        return None
    weights = np.moveaxis(result, (other, axis), (0, 1)).reshape(length, -1)[:, at]
    return tuple(np.flatnonzero(~(np.abs(weights) <= _ROUNDING)).tolist())


def _is_scaled(node: EvaluatedNode, place: int) -> bool:
    scales = _scales(node)
    return scales is not None and scales[place] != 1


def _scales(node: EvaluatedNode) -> list[float] | None:
    given = node.attributes.get("scales")
    if given is None:
        position = 1 if node.op_type == "Upsample" or node.version < 11 else 2
        array = node.inputs[position] if position < len(node.inputs) else None
        given = None if array is None or not array.size else array.reshape(-1).tolist()
    return None if given is None else [float(scale) for scale in given]


def _resized_along(node: EvaluatedNode, probe: Array, chosen: list[int], axis: int) -> Array | None:
    """Run the probe through the node's own kernel, resized along one axis alone."""
    load()
    kernel = find(node.op_type, node.version, node.domain)
    scales, place = _scales(node), chosen.index(axis)
    attributes = {name: value for name, value in node.attributes.items() if name != "scales"}
    if scales is not None:
        alone = [scales[place] if number == axis else 1.0 for number in chosen]
        if "scales" in node.attributes:
            return np.asarray(kernel.function(probe, scales=tuple(alone), **attributes))
        given = np.array(alone, np.float32)
        arguments = (given,) if node.op_type == "Upsample" or node.version < 11 else (None, given)
        return np.asarray(kernel.function(probe, *arguments, **attributes))
    sizes = node.numbers(3)
    if sizes is None:
        return None
    kept = [sizes[place] if number == axis else probe.shape[number] for number in chosen]
    return np.asarray(kernel.function(probe, None, None, np.array(kept, np.int64), **attributes))
