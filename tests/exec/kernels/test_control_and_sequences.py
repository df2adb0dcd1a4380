"""If, Loop, Scan, sequences, optionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.values.limits import Limits, set_limits
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import Cancelled, Progress
from tests.exec.kernels.harness import assert_same, call


class Body:
    """A Python function in the place of a subgraph."""

    def __init__(self, function: Callable[..., Sequence[Any]], inputs: int, outputs: int, types: Any = ()) -> None:
        self.function = function
        self.input_names = tuple(f"i{n}" for n in range(inputs))
        self.output_names = tuple(f"o{n}" for n in range(outputs))
        self.output_types = tuple(types) or (None,) * outputs

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return list(self.function(*inputs))

    def loop(self, state: Any) -> AbstractContextManager[Any]:
        return nullcontext(state)


def true(value: bool = True) -> Any:
    return np.array(value)


def test_loop_counts_trips_and_stacks() -> None:
    body = Body(lambda i, c, total: (c, np.asarray(total + i), np.asarray(total + i)), 3, 3)
    total, stacked = call("Loop", [np.array(200), true(), np.array(0)], opset=13, body=body)
    assert total == 199 * 200 // 2
    assert_same(stacked, np.cumsum(np.arange(200)))


def test_loop_as_while_and_as_for() -> None:
    body = Body(lambda _i, _c, x: (np.array(x < 5), x + 1), 3, 2)
    assert call("Loop", [None, true(), np.array(0)], opset=13, body=body) == (6,)
    # With a trip count alone the body's condition is ignored.
    assert call("Loop", [np.array(9), None, np.array(0)], opset=13, body=body) == (9,)
    assert call("Loop", [np.array(9), true(False), np.array(0)], opset=13, body=body) == (0,)


def test_loop_without_a_turn_gives_outputs_of_the_declared_type() -> None:
    declared = TensorType(ElementType.INT64, Shape((3, "n")))
    body = Body(lambda i, c: (c, i), 2, 2, [None, declared])
    (stacked,) = call("Loop", [np.array(0), None], opset=13, body=body)
    assert (stacked.dtype, stacked.shape) == (np.int64, (0, 3, 0))


def test_loop_carries_sequences_and_empty_optionals() -> None:
    def turn(i: Any, c: Any, seen: list[Any], last: Any) -> Sequence[Any]:
        return c, [*seen, i], i

    body = Body(turn, 4, 3)
    assert call("Loop", [np.array(3), None, [], None], opset=16, body=body) == ([0, 1, 2], 2)


def test_loop_refuses_outputs_of_changing_shape() -> None:
    body = Body(lambda i, c: (c, np.zeros(int(i))), 2, 2)
    with pytest.raises(KernelError, match="iteration 1"):
        call("Loop", [np.array(2), None], opset=13, body=body)


def test_loop_allocates_by_turns_made_not_by_trips_claimed() -> None:
    body = Body(lambda i, _: (np.array(i < 2), np.zeros(1000)), 2, 2)
    set_limits(Limits(max_bytes=1 << 20))
    try:
        (stacked,) = call("Loop", [np.array(2**62), true()], opset=13, body=body)
        endless = Body(lambda _, c: (c, np.zeros(1000)), 2, 2)
        with pytest.raises(LimitError):
            call("Loop", [np.array(2**62), true()], opset=13, body=endless)
    finally:
        set_limits(None)
    assert stacked.shape == (3, 1000)


def test_loop_can_be_cancelled_on_every_turn() -> None:
    class Stop(Progress):
        def check(self) -> None:
            raise Cancelled

    body = Body(lambda _, c: (c,), 2, 1)
    set_limits(Limits(progress=Stop()))
    try:
        with pytest.raises(Cancelled):
            call("Loop", [None, true()], opset=13, body=body)
    finally:
        set_limits(None)


def test_scan_8_scans_each_batch_entry_to_its_own_length() -> None:
    x = np.arange(12.0).reshape(2, 3, 2)
    body = Body(lambda s, x: (s + x, s + x), 2, 2)
    final, sums = call("Scan", [np.array([3, 1]), np.zeros((2, 2)), x], opset=8, body=body, num_scan_inputs=1)
    assert_same(final, np.array([x[0].sum(0), x[1, 0]]))
    assert_same(sums[0], np.cumsum(x[0], 0))
    assert_same(sums[1], np.array([x[1, 0], [0, 0], [0, 0]]))


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("prepend", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scan_9_follows_axes_and_directions(back: int, prepend: int, axis: int) -> None:
    x = np.arange(6.0).reshape(2, 3)
    body = Body(lambda s, x: (s + x.sum(), x * 2), 2, 2)
    total, doubled = call(
        "Scan", [np.array(0.0), x], opset=11, body=body, num_scan_inputs=1, scan_input_axes=(axis,),
        scan_input_directions=(back,), scan_output_axes=(axis,), scan_output_directions=(prepend,),
    )  # fmt: skip
    assert total == x.sum()
    assert_same(doubled, 2 * (np.flip(x, axis) if back != prepend else x))


def test_scan_without_steps_gives_the_initial_state() -> None:
    body = Body(lambda s, x: (s, x), 2, 2, [None, TensorType(ElementType.DOUBLE, Shape((2,)))])
    state, stacked = call("Scan", [np.array(7.0), np.zeros((0, 2))], opset=11, body=body, num_scan_inputs=1)
    assert (state, stacked.shape, stacked.dtype) == (7.0, (0, 2), np.float64)


@pytest.mark.parametrize(
    "inputs",
    [[np.zeros((2, 3)), np.zeros((3, 3))], [np.zeros(())], []],
    ids=["lengths differ", "no axis", "nothing"],
)
def test_scan_refuses_what_cannot_be_scanned(inputs: list[Any]) -> None:
    with pytest.raises(KernelError):
        call("Scan", inputs, opset=11, body=Body(lambda *a: a, 2, 2), num_scan_inputs=len(inputs))


def test_conditions_must_be_one_boolean() -> None:
    body = Body(lambda: [1], 0, 1)
    with pytest.raises(KernelError):
        call("If", [np.array([True, False])], opset=13, then_branch=body, else_branch=body)
    assert call("If", [np.array([True])], opset=13, then_branch=body, else_branch=body) == (1,)


def test_sequences_are_edited_as_copies() -> None:
    a, b, c = (np.array([n]) for n in range(3))
    values = [a, b]
    assert call("SequenceInsert", [values, c], opset=11) == [a, b, c]
    assert call("SequenceInsert", [values, c, np.array(-1)], opset=11) == [a, c, b]
    assert call("SequenceErase", [values, np.array(0)], opset=11) == [b]
    assert call("SequenceErase", [values], opset=11) == [a]
    assert call("SequenceAt", [values, np.array(-2)], opset=11) is a
    assert values == [a, b]


def test_concat_from_sequence_joins_or_stacks() -> None:
    values = [np.ones((2, 3)), np.zeros((2, 3))]
    assert_same(call("ConcatFromSequence", [values], opset=11, axis=1), np.concatenate(values, 1))
    assert_same(call("ConcatFromSequence", [values], opset=11, axis=-1, new_axis=1), np.stack(values, -1))


def test_split_to_sequence_divides_with_a_shorter_rest() -> None:
    x = np.arange(10).reshape(5, 2)
    assert [p.shape for p in call("SplitToSequence", [x, np.array(2)], opset=11)] == [(2, 2), (2, 2), (1, 2)]
    assert [p.shape for p in call("SplitToSequence", [x, np.array([1, 4])], opset=11)] == [(1, 2), (4, 2)]
    assert [p.shape for p in call("SplitToSequence", [x], opset=11, keepdims=0, axis=1)] == [(5,), (5,)]
    assert call("SplitToSequence", [x[:0]], opset=11) == []


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("SequenceAt", [[np.zeros(1)], np.array(1)], {}),
        ("SequenceAt", [np.zeros(1), np.array(0)], {}),
        ("SequenceInsert", [[], np.zeros(1), np.array(1)], {}),
        ("SequenceErase", [[]], {}),
        ("ConcatFromSequence", [[]], {"axis": 0}),
        ("ConcatFromSequence", [[np.zeros(2), np.zeros(3)]], {"axis": 0, "new_axis": 1}),
        ("SplitToSequence", [np.zeros(3), np.array(0)], {}),
        ("SplitToSequence", [np.zeros(3), np.array([1, 1])], {}),
        ("OptionalGetElement", [None], {}),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: Any) -> None:
    with pytest.raises(KernelError):
        call(op_type, inputs, opset=18, **attributes)


def test_optionals_are_the_value_or_none() -> None:
    assert call("Optional", [], opset=15) is None
    assert call("OptionalHasElement", [None], opset=18) == np.array(False)
    assert call("OptionalGetElement", [[1]], opset=18) == [1]
