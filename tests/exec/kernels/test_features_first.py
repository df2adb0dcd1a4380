"""Chains of kernels on values whose last axis is the outermost in memory, as a transpose to channels last gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.onnx.math.arithmetic import add_7, mul_7, pow_7
from onnx_workbench.exec.kernels.onnx.math.functions import erf_9
from onnx_workbench.exec.kernels.onnx.nn.normalization import layer_normalization_17
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.kernels.shared.order import empty_features_first, features_first
from tests.examples import examples

load_kernels()


@pytest.fixture(autouse=True, scope="module")
def as_in_a_run() -> Iterator[None]:
    """Kernels run without numpy's warnings; BLAS may raise one for lanes that hold no element."""
    with np.errstate(all="ignore"):
        yield


def turned(x: Any) -> Any:
    """The same values with the last axis outermost in memory."""
    result = empty_features_first(x.shape, x.dtype)
    result[...] = x
    return result


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    shape = draw(st.lists(st.integers(2, 9), min_size=2, max_size=4))
    return np.random.default_rng(draw(st.integers(0, 1 << 30))).standard_normal(shape, np.float32)


@settings(max_examples=examples(40), deadline=None)
@given(tensors(), st.data())
def test_elementwise_kernels_keep_the_order_and_give_the_same(x: Any, data: st.DataObject) -> None:
    row = x[(0,) * (x.ndim - 1)]
    less = find("Less", 17, "").function
    for plain, other in (
        (add_7(x, row), add_7(turned(x), row)),
        (add_7(x, x), add_7(turned(x), turned(x))),
        (less(x, row), less(turned(x), row)),
        (mul_7(x, np.float32(3)), mul_7(turned(x), np.asarray(np.float32(3)))),
        (pow_7(x, np.asarray(np.float32(2))), pow_7(turned(x), np.asarray(np.float32(2)))),
        (erf_9(x), erf_9(turned(x))),
    ):
        assert features_first(other)
        assert other.dtype == plain.dtype
        np.testing.assert_array_equal(other, plain)
    tanh = find(data.draw(st.sampled_from(["Tanh", "Relu", "Sigmoid", "Exp", "Softplus"])), 17, "").function
    np.testing.assert_allclose(tanh(turned(x)), tanh(x), rtol=1e-6)


@settings(max_examples=examples(40), deadline=None)
@given(tensors(), st.booleans())
def test_of_two_orders_the_usual_one_goes_on(x: Any, is_first: bool) -> None:
    result = add_7(turned(x), x) if is_first else add_7(x, turned(x))
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, x + x)


@settings(max_examples=examples(40), deadline=None)
@given(tensors(), st.booleans(), st.booleans())
def test_layer_normalization(x: Any, shifted: bool, ones: bool) -> None:
    scale = np.linspace(0.5, 2, x.shape[-1], dtype=np.float32)
    scale = scale[None] if ones else scale
    shift = scale - 1 if shifted else None
    for plain, other in zip(
        layer_normalization_17(x, scale, shift), layer_normalization_17(turned(x), scale, shift), strict=True
    ):
        assert other.shape == plain.shape
        np.testing.assert_allclose(other, plain, rtol=2e-5, atol=2e-6)


def test_a_scale_that_varies_over_rows_is_no_scale_of_the_features() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5), np.float32)
    scale = np.arange(15, dtype=np.float32).reshape(3, 5)
    expected = layer_normalization_17(x, scale)[0]
    np.testing.assert_allclose(layer_normalization_17(turned(x), scale)[0], expected, rtol=2e-5, atol=2e-6)
