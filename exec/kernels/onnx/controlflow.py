"""If, Loop and Scan: subgraphs run by a condition, a trip count, or along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Body
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis, scalar_int
from onnx_workbench.exec.values.arrays import Array, RuntimeValue, check_size, empty, zeros
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.ir.types import ElementType, TensorType

#: Initial capacity of a stack, whatever trip count a model claims; it doubles when full.
_FIRST_ROOM = 64
_NO_LIMIT = 2**63


@kernel("If", since=1)
def if_1(cond: Array, *, else_branch: Body, then_branch: Body) -> tuple[RuntimeValue, ...]:
    """Return the outputs of the branch that the condition selects."""
    return tuple((then_branch if _truth(cond) else else_branch)([]))


@kernel("Loop", since=1)
def loop_1(
    m: Array | None = None, cond: Array | None = None, *v_initial: RuntimeValue, body: Body
) -> tuple[RuntimeValue, ...]:
    """Final values of the loop-carried variables, then the scan outputs stacked along a new first axis."""
    trips = _NO_LIMIT if m is None else scalar_int(m, "M")
    goes_on = cond is None or _truth(cond)
    # The specification ignores the body's condition when the input is absent; without a trip count as well that loop
    # would never end, so then the condition is used.
    heeds_body = cond is not None or m is None
    condition = np.array(True) if cond is None else cond
    count = len(v_initial)
    stacks = [_Stack(trips) for _ in range(len(body.output_names) - 1 - count)]
    with body.loop(_Iterations([condition, *v_initial], stacks)) as iterations:
        while iterations.done < trips and goes_on:
            checkpoint()
            iterations.store(_outputs(body, [np.array(iterations.done, np.int64), *iterations.carried]))
            if heeds_body:
                goes_on = _truth(iterations.carried[0])
    return (*iterations.carried[1:], *_stacked(iterations.stacks, body, 1 + count))


@kernel("Scan", since=8)
def scan_8(
    sequence_lens: Array | None = None,
    *initial_state_and_scan_inputs: Array,
    body: Body,
    directions: Sequence[int] | None = None,
    num_scan_inputs: int,
) -> tuple[RuntimeValue, ...]:
    """Axis 0 is the batch, axis 1 the sequence; scan outputs are filled with zeros past a sequence's end."""
    state, scanned = _divide(initial_state_and_scan_inputs, num_scan_inputs)
    if not scanned or any(x.ndim < 2 or x.shape[:2] != scanned[0].shape[:2] for x in scanned):
        msg = f"scan inputs of shapes {[x.shape for x in scanned]}; expected the same batch and sequence axes"
        raise KernelError(msg)
    batch, longest = scanned[0].shape[:2]
    lengths = [longest] * batch if sequence_lens is None else sequence_lens.tolist()
    if len(lengths) != batch or any(not 0 <= n <= longest for n in lengths):
        msg = f"sequence_lens is {lengths}; expected {batch} lengths within [0, {longest}]"
        raise KernelError(msg)
    per_entry = []
    for entry, length in enumerate(lengths):
        inputs = [x[entry, :length] for x in scanned]
        axes = [0] * len(inputs)
        final, stacks = _scan([v[entry] for v in state], inputs, body, axes, directions)
        outputs = _stacked(stacks, body, len(state))
        per_entry.append((*final, *(_filled(o, longest) for o in outputs)))
    return tuple(np.stack(values) for values in zip(*per_entry, strict=True))


def _filled(x: Array, length: int) -> Array:
    if x.shape[0] == length:
        return x
    result = zeros((length, *x.shape[1:]), x.dtype)
    result[: x.shape[0]] = x
    return result


@kernel("Scan", since=9)
def scan_9(
    *initial_state_and_scan_inputs: RuntimeValue,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> tuple[RuntimeValue, ...]:
    """Any axis may be scanned, forwards or backwards, and stacked, appending or prepending."""
    state, scanned = _divide(initial_state_and_scan_inputs, num_scan_inputs)
    axes = _flags(scan_input_axes, num_scan_inputs, "scan_input_axes")
    axes = [normal_axis(a, x.ndim, "scan_input_axes") for a, x in zip(axes, scanned, strict=True)]
    final, stacks = _scan(state, scanned, body, axes, scan_input_directions)
    out_axes = _flags(scan_output_axes, len(stacks), "scan_output_axes")
    prepend = _flags(scan_output_directions, len(stacks), "scan_output_directions")
    outputs = []
    for i, stacked in enumerate(_stacked(stacks, body, len(state))):
        ordered = stacked[::-1] if prepend[i] else stacked
        axis = normal_axis(out_axes[i], ordered.ndim, "scan_output_axes")
        outputs.append(np.moveaxis(ordered, 0, axis))
    return (*final, *outputs)


def _divide(values: Sequence[RuntimeValue], num_scan_inputs: int) -> tuple[list[RuntimeValue], list[Array]]:
    if not 0 < num_scan_inputs <= len(values):
        msg = f"num_scan_inputs is {num_scan_inputs} of {len(values)} inputs; expected one or more"
        raise KernelError(msg)
    count = len(values) - num_scan_inputs
    return list(values[:count]), list(values[count:])


def _flags(values: Sequence[int] | None, count: int, name: str) -> list[int]:
    if values is None:
        return [0] * count
    if len(values) != count:
        msg = f"{name} has {len(values)} entries; expected {count}"
        raise KernelError(msg)
    return list(values)


def _scan(
    state: list[RuntimeValue],
    scanned: Sequence[Array],
    body: Body,
    axes: Sequence[int],
    directions: Sequence[int] | None,
) -> tuple[list[RuntimeValue], list[_Stack]]:
    """Run the body along the axes; returns the final state and a stack per scan output."""
    backwards = _flags(directions, len(scanned), "scan input directions")
    lengths = {x.shape[a] for x, a in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        msg = f"scanned axes have lengths {sorted(lengths)}; expected the same"
        raise KernelError(msg)
    length = lengths.pop()
    scanned = [np.moveaxis(x, a, 0) for x, a in zip(scanned, axes, strict=True)]
    scanned = [x[::-1] if back else x for x, back in zip(scanned, backwards, strict=True)]
    stacks = [_Stack(length) for _ in range(len(body.output_names) - len(state))]
    with body.loop(_Iterations(state, stacks)) as iterations:
        while iterations.done < length:
            checkpoint()
            iterations.store(_outputs(body, [*iterations.carried, *(x[iterations.done, ...] for x in scanned)]))
    return iterations.carried, iterations.stacks


def _outputs(body: Body, inputs: list[RuntimeValue]) -> list[RuntimeValue]:
    if len(inputs) != len(body.input_names):
        msg = f"the body has {len(body.input_names)} inputs; expected {len(inputs)}"
        raise KernelError(msg)
    return body(inputs)


def _truth(cond: Array) -> bool:
    if not isinstance(cond, np.ndarray) or cond.size != 1 or cond.dtype.kind != "b":
        msg = f"the condition is {describe(cond)}; expected one boolean"
        raise KernelError(msg)
    return bool(cond.reshape(-1)[0])


class _Stack:
    """Tensors of one shape stacked in a buffer that grows by doubling and is checked against the memory limit."""

    __slots__ = ("_buffer", "_most", "count")

    def __init__(self, most: int) -> None:
        self._buffer: Array | None = None
        self._most = most  # maximum number of iterations
        self.count = 0

    def append(self, value: RuntimeValue) -> None:
        """Append one iteration's tensor; KernelError when its type or shape differs from the first."""
        if not isinstance(value, np.ndarray):
            msg = f"a scan output is {describe(value)}; expected a tensor"
            raise KernelError(msg)
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = empty((min(self._most, _FIRST_ROOM), *value.shape), value.dtype)
        if value.shape != buffer.shape[1:] or value.dtype != buffer.dtype:
            msg = f"scan output {describe(value)} at iteration {self.count}; expected {describe(buffer[0])} as before"
            raise KernelError(msg)
        if self.count == len(buffer):
            grown = empty((min(self._most, 2 * len(buffer)), *value.shape), value.dtype)
            grown[: self.count] = buffer
            buffer = self._buffer = grown
        buffer[self.count] = value
        self.count += 1

    def array(self) -> Array | None:
        """Return the stacked tensors; None without an iteration."""
        return None if self._buffer is None else self._buffer[: self.count]


@dataclass(slots=True)
class _Iterations:
    """Progress of a loop: its carried values and stacks."""

    carried: list[RuntimeValue]
    stacks: list[_Stack]
    done: int = 0

    def store(self, results: list[RuntimeValue]) -> None:
        """Store the results of an iteration: first the carried values, then the scan outputs."""
        count = len(self.carried)
        for stack, value in zip(self.stacks, results[count:], strict=True):
            stack.append(value)
        self.carried = results[:count]
        self.done += 1


def _stacked(stacks: Sequence[_Stack], body: Body, first: int) -> list[Array]:
    """Return the scan outputs; without an iteration, empty ones of the types that the body declares."""
    arrays = [stack.array() for stack in stacks]
    return [_declared(body, first + i) if array is None else array for i, array in enumerate(arrays)]


def _declared(body: Body, index: int) -> Array:
    declared = body.output_types[index]
    dtype, dims = ElementType.FLOAT.numpy_dtype, []
    if isinstance(declared, TensorType):
        if isinstance(declared.element_type, ElementType) and declared.element_type != ElementType.UNDEFINED:
            dtype = declared.element_type.numpy_dtype
        if declared.shape is not None:
            # An unknown dimension is 0 too, as in ONNX Runtime.
            dims = [d if isinstance(d, int) and d > 0 else 0 for d in declared.shape.dims]
    check_size((0, *dims), dtype)
    return np.empty((0, *dims), dtype)
