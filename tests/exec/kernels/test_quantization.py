"""Operators of the specification's folder quantization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.kernels.shared.dtypes import cast, float_max, integer_limits
from onnx_workbench.model.ir.types import ElementType
from tests.examples import examples
from tests.exec.kernels.harness import assert_same, call

INTEGERS = [ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.UINT16, ElementType.INT4,
            ElementType.UINT4, ElementType.INT2, ElementType.UINT2]  # fmt: skip
FLOATS = [ElementType.FLOAT8E4M3FN, ElementType.FLOAT8E4M3FNUZ, ElementType.FLOAT8E5M2, ElementType.FLOAT8E5M2FNUZ,
          ElementType.FLOAT4E2M1, ElementType.FLOAT6E2M3, ElementType.FLOAT6E3M2]  # fmt: skip
few = settings(max_examples=examples(60), deadline=None)


@st.composite
def layouts(draw: st.DrawFn) -> Any:
    """A shape, the attributes that describe a granularity, and per element the index of its scale."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    place = axis % len(shape)
    match draw(st.sampled_from(["tensor", "axis", "block"])):
        case "tensor":
            return shape, (), {}, np.zeros(shape, int)
        case "axis":
            index = np.indices(shape)[place]
            return shape, (shape[place],), {"axis": axis}, index
    block = draw(st.integers(1, shape[place] + 1))
    scales = (*shape[:place], -(-shape[place] // block), *shape[place + 1 :])
    indices = np.indices(shape)
    indices[place] //= block
    return shape, scales, {"axis": axis, "block_size": block}, np.ravel_multi_index(tuple(indices), scales)


@few
@given(layout=layouts(), target=st.sampled_from(INTEGERS), seed=st.integers(0, 999))
def test_integers_of_every_width_and_granularity(layout: Any, target: ElementType, seed: int) -> None:
    shape, scales, attributes, index = layout
    rng = np.random.default_rng(seed)
    low, high = integer_limits(target.numpy_dtype)
    scale = rng.choice([0.25, 0.5, 3.0], scales).astype(np.float32)
    zero = rng.integers(low, high + 1, scales).astype(target.numpy_dtype)
    x = (rng.integers(-40, 40, shape) / 8).astype(np.float32)
    each_scale = scale.reshape(-1)[index].astype(np.float64)
    each_zero = zero.reshape(-1)[index].astype(np.int64)
    expected = np.clip(np.rint(x / each_scale) + each_zero, low, high)
    result = call("QuantizeLinear", [x, scale, zero], opset=25, **attributes)
    assert_same(result, expected.astype(np.int64).astype(target.numpy_dtype), rtol=0, atol=0)
    back = call("DequantizeLinear", [result, scale, zero], opset=25, **attributes)
    assert_same(back, ((expected - each_zero) * each_scale).astype(np.float32), rtol=0, atol=0)


@pytest.mark.long
@pytest.mark.parametrize("target", FLOATS, ids=lambda e: e.text)
@few
@given(layout=layouts(), seed=st.integers(0, 999))
def test_small_floats_of_every_granularity(target: ElementType, layout: Any, seed: int) -> None:
    shape, scales, attributes, index = layout
    rng = np.random.default_rng(seed)
    limit = float_max(target.numpy_dtype)
    scale = rng.choice([0.25, 0.5, 2.0], scales).astype(np.float32)
    x = (rng.standard_normal(shape) * limit).astype(np.float32)
    quotient = (x / scale.reshape(-1)[index]).astype(np.float32)
    expected = cast(quotient, target.numpy_dtype)
    result = call("QuantizeLinear", [x, scale], opset=28, output_dtype=int(target), **attributes)
    assert_same(result, expected, rtol=0, atol=0)
    back = call("DequantizeLinear", [result, scale], opset=28, **attributes)
    assert_same(back, expected.astype(np.float32) * scale.reshape(-1)[index], rtol=0, atol=0)


def test_the_division_is_a_division() -> None:
    """Multiplying by the reciprocal of the scale moves some quotients across a rounding boundary."""
    scale = np.array(0.023528477, np.float32)
    x = (np.arange(-128, 128) + 0.5).astype(np.float32) * scale
    result = call("QuantizeLinear", [x, scale, np.array(0, np.int8)], opset=13)
    assert result.tolist() == np.clip(np.rint(x / scale), -128, 127).tolist()


ZERO_POINTS = {
    "uint8": [0, 1, 2, 7, 128, 255], "int8": [0, 1, -3, 2, 127, -128], "uint16": [0, 1, 2, 32768, 65535],
    "int16": [0, -1, -2, 7, 32767, -32768],
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "zero"), [(d, z) for d, zeros in ZERO_POINTS.items() for z in zeros])
@pytest.mark.parametrize("shape", [(), (3000,)])
def test_ties_and_ends_for_every_zero_point(dtype: str, zero: int, shape: Any) -> None:
    low, high = integer_limits(np.dtype(dtype))
    rng = np.random.default_rng(zero & 0xFF)
    x = np.array(rng.integers(-600, 600, shape) / 2, np.float32)
    if shape:
        x[:6] = [1e30, -1e30, np.inf, -np.inf, high + 0.5, low - 0.5]
    expected = np.clip(np.rint(x.astype(np.float64)) + zero, low, high).astype(dtype)
    result = call("QuantizeLinear", [x, np.array(1, np.float32), np.array(zero, dtype)], opset=21)
    assert_same(result, np.asarray(expected), rtol=0, atol=0)


def test_precision_rounds_the_quotient() -> None:
    x, scale = np.array([2.4990234375], np.float32), np.array(1, np.float32)
    zero = np.array(0, np.int8)
    assert call("QuantizeLinear", [x + 0.00048, scale, zero], opset=23).tolist() == [2]
    halves = np.array([2.50001], np.float32)
    assert call("QuantizeLinear", [halves, scale, zero], opset=23).tolist() == [3]
    # In float16 the quotient is exactly 2.5, and goes to the even neighbour.
    rounded = call("QuantizeLinear", [halves, scale, zero], opset=23, precision=int(ElementType.FLOAT16))
    assert rounded.tolist() == [2]
    as_scale = call("QuantizeLinear", [halves, scale.astype(np.float16), zero], opset=23)
    assert as_scale.tolist() == [2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_scales_give_short_results(dtype: str) -> None:
    kind = ElementType[dtype.upper()].numpy_dtype
    x, scale = np.arange(-100, 100, dtype=np.int8), np.array(0.1).astype(kind)
    result = call("DequantizeLinear", [x, scale], opset=23)
    assert_same(result, (x.astype(np.float32) * scale.astype(np.float32)).astype(kind), rtol=0, atol=0)
    wide = call("DequantizeLinear", [x, scale], opset=23, output_dtype=int(ElementType.FLOAT))
    assert_same(wide, x.astype(np.float32) * scale.astype(np.float32), rtol=0, atol=0)


def test_power_of_two_scales() -> None:
    scale = np.array([1, 2], np.float32).astype(ElementType.FLOAT8E8M0.numpy_dtype)
    x = np.array([[3.0, 5.0]], np.float32)
    result = call("QuantizeLinear", [x, scale], opset=24, output_dtype=int(ElementType.INT8), axis=1)
    assert result.tolist() == [[3, 2]]
    back = call("DequantizeLinear", [result, scale], opset=24, axis=1, output_dtype=int(ElementType.FLOAT))
    assert back.tolist() == [[3, 4]]


def test_large_tensors_are_quantized_piece_by_piece() -> None:
    x = np.linspace(-5, 5, 100_001).astype(np.float32)
    scale, zero = np.array(0.04, np.float32), np.array(100, np.uint8)
    result = call("QuantizeLinear", [x, scale, zero], opset=13)
    assert_same(result, np.clip(np.rint(x / scale) + 100, 0, 255).astype(np.uint8), rtol=0, atol=0)
    back = call("DequantizeLinear", [result, scale, zero], opset=13)
    assert_same(back, (result.astype(np.float32) - 100) * scale, rtol=0, atol=0)


def test_dynamic_quantization_of_zeros_and_of_nothing() -> None:
    for x in (np.zeros(3, np.float32), np.zeros(0, np.float32)):
        y, scale, zero = call("DynamicQuantizeLinear", [x], opset=11, outputs=3)
        assert y.shape == x.shape
        assert (scale.item(), zero.item(), y.any()) == (1, 0, False)
