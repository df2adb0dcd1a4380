"""Sequences: Python lists of tensors, never changed in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Body
from onnx_workbench.exec.kernels.onnx.tensor.slicing import concat, split_axis
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import integers, normal_axis, scalar_int
from onnx_workbench.exec.values.arrays import Array, RuntimeValue, check_size
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe


@kernel("SequenceEmpty", since=11)
def sequence_empty_11(*, _dtype: int | None = None) -> list[RuntimeValue]:
    """Return a sequence without elements; a list keeps no type of them."""
    return []


@kernel("SequenceConstruct", since=11)
def sequence_construct_11(*inputs: Array) -> list[RuntimeValue]:
    """Return a sequence of the inputs."""
    return list(inputs)


@kernel("SequenceAt", since=11)
def sequence_at_11(input_sequence: list[RuntimeValue], position: Array) -> RuntimeValue:
    """Return the element at a position, negative ones counted from the end."""
    values = _sequence(input_sequence)
    return values[_position(position, len(values), len(values) - 1)]


@kernel("SequenceInsert", since=11)
def sequence_insert_11(
    input_sequence: list[RuntimeValue], tensor: RuntimeValue, position: Array | None = None
) -> list[RuntimeValue]:
    """Return the sequence with a tensor inserted before a position, at the end without one."""
    values = _sequence(input_sequence)
    index = len(values) if position is None else _position(position, len(values), len(values))
    return [*values[:index], tensor, *values[index:]]


@kernel("SequenceErase", since=11)
def sequence_erase_11(input_sequence: list[RuntimeValue], position: Array | None = None) -> list[RuntimeValue]:
    """Return the sequence without the element at a position, the last without one."""
    values = _sequence(input_sequence)
    index = _position(np.array(-1) if position is None else position, len(values), len(values) - 1)
    return [*values[:index], *values[index + 1 :]]


@kernel("SequenceLength", since=11)
def sequence_length_11(input_sequence: list[RuntimeValue]) -> Array:
    """Return the number of elements."""
    return np.array(len(_sequence(input_sequence)), np.int64)


@kernel("SequenceMap", since=17)
def sequence_map_17(
    input_sequence: list[RuntimeValue], *additional_inputs: RuntimeValue, body: Body
) -> tuple[list[RuntimeValue], ...]:
    """Return the body's outputs for each element; other sequences are iterated too, tensors passed unchanged."""
    values = _sequence(input_sequence)
    for other in additional_inputs:
        if isinstance(other, list) and len(other) != len(values):
            msg = f"a sequence of {len(other)} beside one of {len(values)}; expected the same length"
            raise KernelError(msg)
    empty: tuple[list[RuntimeValue], ...] = tuple([] for _ in body.output_names)
    with body.loop(empty) as results:
        for i in range(len(results[0]) if results else 0, len(values)):
            checkpoint()
            beside = [other[i] if isinstance(other, list) else other for other in additional_inputs]
            for result, output in zip(results, body([values[i], *beside]), strict=True):
                result.append(output)
    return results


@kernel("SplitToSequence", since=11)
def split_to_sequence_11(
    x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[RuntimeValue]:
    """Split along an axis; `keepdims` applies only without `split`, where every part has length 1."""
    axis = normal_axis(axis, x.ndim)
    length = x.shape[axis]
    if split is None:
        parts = split_axis(x, axis, [1] * length, length) if length else ()
        return list(parts) if keepdims else [p.reshape(x.shape[:axis] + x.shape[axis + 1 :]) for p in parts]
    lengths = integers(split, "split")
    if split.ndim == 0:
        size = lengths[0]
        if size < 1:
            msg = f"split is {size}; expected a length from 1"
            raise KernelError(msg)
        lengths = [min(size, length - start) for start in range(0, length, size)]
    return list(split_axis(x, axis, lengths, len(lengths))) if lengths else []


@kernel("ConcatFromSequence", since=11)
def concat_from_sequence_11(input_sequence: list[Array], *, axis: int, new_axis: int = 0) -> Array:
    """Return the elements joined along an axis, or stacked along a new one."""
    values: Sequence[Array] = _sequence(input_sequence)
    if not new_axis:
        return concat(values, axis)
    if not values or any(v.shape != values[0].shape for v in values):
        msg = f"{len(values)} tensors of shapes {[v.shape for v in values[:8]]}; expected one or more of one shape"
        raise KernelError(msg)
    check_size((len(values), *values[0].shape), values[0].dtype)
    return np.stack(values, normal_axis(axis, values[0].ndim + 1))


def _sequence(value: RuntimeValue) -> list[RuntimeValue]:
    if not isinstance(value, list):
        msg = f"the input is {describe(value)}; expected a sequence"
        raise KernelError(msg)
    return value


def _position(position: Array, length: int, last: int) -> int:
    index = scalar_int(position, "position")
    if not -length <= index <= last:
        msg = f"position is {index}; expected within [{-length}, {last}] for a sequence of {length}"
        raise KernelError(msg)
    return index + length if index < 0 else index
