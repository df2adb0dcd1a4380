"""Traits of operators against what their kernels compute."""

import numpy as np
import pytest

from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import all_kernels
from onnx_workbench.model import schemas
from onnx_workbench.model.schemas import traits
from tests.exec.kernels.harness import call

OPSET = 21
NUMBERS = np.array([[-2.5, -1.0, -0.5, 0.0], [0.25, 1.0, 1.5, 3.0]], np.float32)
LOGICAL = {"And", "Or", "Xor"}
BITWISE = {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}


def compute(op_type, *inputs):
    found = call(op_type, inputs, opset=OPSET)
    return found[0] if isinstance(found, tuple) else found


def operands(op_type):
    numbers = NUMBERS > 0 if op_type in LOGICAL else NUMBERS.astype(np.int32) if op_type in BITWISE else NUMBERS
    return numbers, numbers[::-1].copy()


def test_each_operator_that_is_computed_has_traits():
    load()
    computed = {(kernel.domain, kernel.op_type) for kernel in all_kernels() if kernel.domain in traits.TABLES}
    assert {(d, n) for d, n in computed if n not in traits.TABLES[d]} == set()


@pytest.mark.parametrize("name", traits.names(lambda t: t.is_commutative))
def test_inputs_of_commutative_operators_change_places(name):
    a, b = operands(name)
    assert np.array_equal(compute(name, a, b), compute(name, b, a))


@pytest.mark.parametrize("name", traits.names(lambda t: t.is_idempotent))
def test_idempotent_operators_change_nothing_a_second_time(name):
    once = compute(name, NUMBERS)
    assert np.array_equal(compute(name, once), once)


@pytest.mark.parametrize("name", traits.names(lambda t: t.is_never_negative))
def test_what_is_never_negative(name):
    assert (compute(name, NUMBERS) >= 0).all()


@pytest.mark.parametrize("name", traits.names(lambda t: t.is_increasing))
def test_increasing_operators_keep_the_order_along_their_axis(name):
    result = compute(name, NUMBERS)
    assert (np.diff(result, axis=-1) > 0).all()


@pytest.mark.parametrize("name", traits.names(lambda t: t.neutral))
def test_neutral_elements_change_nothing(name):
    numbers, _ = operands(name)
    element, places = traits.find(name).neutral
    for place in places:
        other = np.full((), element, numbers.dtype)
        assert np.array_equal(compute(name, *((numbers, other) if place else (other, numbers))), numbers)


def elementwise_of_numbers():
    """Elementwise operators of this opset with one required input of numbers or truths, and its element type."""
    for name in traits.names(lambda t: t.is_elementwise and t.shape_of == 0):
        schema = schemas.find(name, OPSET)
        if schema is None or schema.min_inputs > 1 or any(a.required for a in schema.attributes.values()):
            continue
        kinds = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(int32)": np.int32}
        yield name, next(kind for text, kind in kinds.items() if text in schema.inputs[0].types)


@pytest.mark.parametrize(("name", "kind"), [*elementwise_of_numbers()])
def test_elementwise_operators_commute_with_a_transpose(name, kind):
    numbers = NUMBERS.astype(kind)
    result = compute(name, numbers)
    assert result.shape == numbers.shape
    assert np.array_equal(compute(name, numbers.T.copy()), result.T, equal_nan=result.dtype.kind == "f")
