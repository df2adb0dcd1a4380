"""Receptive fields of operators that move or blend elements, found by running their kernels.

Operators that only move elements run on flat indices; Resize runs on inputs in which one element is marked.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.inspect.receptive_field.indices import (
    ElementReach,
    EvaluatedNode,
    aligned,
    at_index,
    point,
    wider,
)
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import Limits, current_limits, set_limits
from onnx_workbench.model.schemas import traits

#: Elements along an axis up to which the weights of resizing are computed.
_MOST_ALONG = 2048
#: Weights up to this count as zero, for rounding errors.
_ROUNDING = 1e-6
#: Limit for the listed updates of one element.
_MOST_ROWS = 1000
#: Limit for the numbered elements of inputs and output together: half a gigabyte of int64.
_MOST_ELEMENTS = 1 << 26
#: Operator set that has the gathering operators, with all of their attributes.
_GATHERS_SINCE = 13

At = tuple[int, ...]


#: Operators that only move elements.
MOVED = traits.names(lambda t: t.moves is not None)


def moved(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """Return the input element that is moved to `at`, by running the kernel on flat indices, and what selected it."""
    inputs, starts, total = list(node.inputs), [], 1  # 0 is what comes from no input: a border, the other triangle
    for position in traits.find(node.op_type, node.domain).moves or range(len(inputs)):
        given = node.shape(position)
        if given is not None:
            starts.append((total, position, given))
            total += prod(given)
    if total + prod(shape) > _MOST_ELEMENTS:
        return None
    for start, position, given in starts:
        inputs[position] = np.arange(start, start + prod(given), dtype=np.int64).reshape(given)
    attributes = {name: value for name, value in node.attributes.items() if name != "value"}  # the border of old Pads
    result = _run(replace(node, inputs=inputs, attributes=attributes))
    number = int(result[at]) if result.shape == shape else -1
    if number < 0:
        return None
    reached = _selecting(node, at, shape)
    for start, position, given in starts:
        if start <= number < start + prod(given):
            reached.append(at_index(position, [int(i) for i in np.unravel_index(number - start, given)]))
    return sorted(reached, key=lambda one: one.input)


def _selecting(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach]:
    """Return the indices, lengths or conditions that select the element to move."""
    second, axis = node.shape(1) or (), int(node.attributes.get("axis", -1 if node.op_type == "OneHot" else 0))
    match node.op_type:
        case "Gather":
            start = axis % len(node.shape(0) or ())
            return [at_index(1, at[start : start + len(second)])]
        case "GatherElements":
            return [at_index(1, at)]
        case "GatherND":
            return [ElementReach(1, (*map(point, at[: len(second) - 1]), range(second[-1])))]
        case "ReverseSequence":
            return [at_index(1, (at[int(node.attributes.get("batch_axis", 1))],))]
        case "Where":
            return [aligned(0, node.shape(0) or (), at)]
        case "OneHot":
            return [at_index(0, (*at[: axis % len(shape)], *at[axis % len(shape) + 1 :]))]
    return []


def scattered(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """Return the updates written to `at`: those for which gathering by the same indices returns the element.

    Without updates, or with a reduction, also the original element; without a reduction only the last update.
    """
    indices, updates = node.inputs[1], node.shape(2)
    if indices is None or updates is None or prod(shape) + prod(updates) > _MOST_ELEMENTS:
        return None
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    gather = replace(
        node,
        op_type="GatherND" if node.op_type == "ScatterND" else "GatherElements",
        version=_GATHERS_SINCE,
        inputs=[numbers, indices],
        attributes={name: value for name, value in node.attributes.items() if name == "axis"},
    )
    places = _run(gather)
    if places.shape != updates:
        return None
    writers = np.flatnonzero(places == numbers[at])
    reduces = node.attributes.get("reduction", "none") != "none"
    original = [at_index(0, at)] if reduces or not writers.size else []
    rows = np.unravel_index(writers if reduces else writers[-1:], updates)
    axes = tuple(tuple(np.unique(row).tolist()) for row in rows)
    if prod(map(len, axes)) == (writers.size if reduces else min(writers.size, 1)):
        return [*original, ElementReach(2, axes)] if writers.size else original
    if writers.size > _MOST_ROWS:
        return None
    return [*original, *(at_index(2, [int(i) for i in row]) for row in zip(*rows, strict=True))]


def _run(node: EvaluatedNode) -> Array:
    """Run the kernel of a node whose inputs are flat indices; MemoryError if the result is too large."""
    load()
    kernel = find(node.op_type, node.version, node.domain)
    wanted = [True] * len(node.outputs)
    leading = (Context(node.op_type, node.version, domain=node.domain, wanted=wanted),) if kernel.takes_context else ()
    attributes = {name: value for name, value in node.attributes.items() if name in kernel.attributes}
    outer = current_limits()
    set_limits(Limits(max_bytes=_MOST_ELEMENTS * 8, progress=outer.progress))
    try:
        result = kernel.function(*leading, *kernel.arguments(node.inputs), **attributes)
    finally:
        set_limits(outer)
    return result[node.output] if isinstance(result, tuple) else np.asarray(result)


def resize(node: EvaluatedNode, at: At, shape: At) -> list[ElementReach] | None:
    """Return the neighbours that are interpolated, or the nearest one, along each axis, found by running the kernel."""
    x, array = node.shape(0), node.inputs[0]
    crops = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    fits = node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch"
    if x is None or array is None or len(x) < 2 or crops or fits or max(x) > _MOST_ALONG:
        return None
    met, every = _from(node, x, shape, at, 1.0), _from(node, x, shape, at, np.nan)
    return None if met is None or every is None else [wider(met, every, array)]


def _from(node: EvaluatedNode, x: At, shape: At, at: At, mark: float) -> ElementReach | None:
    """Return the input elements that contribute to the output `at`, found by setting them to `mark`."""
    axes = []
    for axis in range(len(x)):
        positions = _blended(node, x, shape, axis, at[axis], mark)
        if positions is None:
            return None
        axes.append(positions)
    return ElementReach(0, tuple(axes))


def _blended(node: EvaluatedNode, x: At, shape: At, axis: int, at: int, mark: float) -> tuple[int, ...] | range | None:
    """Return the positions along an axis that contribute to an output when that axis alone is resized."""
    length = x[axis]
    chosen = [int(a) % len(x) for a in node.attributes.get("axes", range(len(x)))]
    if axis not in chosen or (length == shape[axis] and not _is_scaled(node, chosen.index(axis))):
        return point(at)
    other = 1 if axis == 0 else 0  # each row has one marked element
    probe = np.zeros([length if i in (axis, other) else 1 for i in range(len(x))], np.float32)
    rows: Any = tuple(np.arange(length) if i in (axis, other) else 0 for i in range(len(x)))
    probe[rows] = mark
    result = _resized_along(node, probe, chosen, axis)
    if result is None:
        return None
    weights = np.moveaxis(result, (other, axis), (0, 1)).reshape(length, -1)[:, at]
    return tuple(np.flatnonzero(~(np.abs(weights) <= _ROUNDING)).tolist())


def _is_scaled(node: EvaluatedNode, index: int) -> bool:
    scales = _scales(node)
    return scales is not None and scales[index] != 1


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
    scales, index = _scales(node), chosen.index(axis)
    attributes = {name: value for name, value in node.attributes.items() if name != "scales"}
    if scales is not None:
        alone = [scales[index] if number == axis else 1.0 for number in chosen]
        if "scales" in node.attributes:
            return np.asarray(kernel.function(probe, scales=tuple(alone), **attributes))
        given = np.array(alone, np.float32)
        arguments = (given,) if node.op_type == "Upsample" or node.version < 11 else (None, given)
        return np.asarray(kernel.function(probe, *arguments, **attributes))
    sizes = node.numbers(3)
    if sizes is None:
        return None
    kept = [sizes[index] if number == axis else probe.shape[number] for number in chosen]
    return np.asarray(kernel.function(probe, None, None, np.array(kept, np.int64), **attributes))
