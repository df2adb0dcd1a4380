"""Casts between all element types, and what is said about each type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.shared.dtypes import (
    cast,
    compute_dtype,
    decode,
    dtype_of,
    float_max,
    integer_limits,
    is_float,
    is_integer,
)
from onnx_workbench.model.ir.types import ElementType
from tests.examples import examples
from tests.exec.kernels.harness import call

NUMERIC = [e for e in ElementType if e not in (ElementType.UNDEFINED, ElementType.STRING) and not e.is_complex]
FLOAT8 = [
    ElementType.FLOAT8E4M3FN,
    ElementType.FLOAT8E4M3FNUZ,
    ElementType.FLOAT8E5M2,
    ElementType.FLOAT8E5M2FNUZ,
]


def name(e: ElementType) -> str:
    return e.text


@pytest.mark.parametrize("element_type", NUMERIC, ids=name)
def test_kinds_of_types(element_type: ElementType) -> None:
    dtype = element_type.numpy_dtype
    assert is_float(dtype) == element_type.is_float
    assert is_integer(dtype) == element_type.is_int
    if element_type.is_int:
        assert integer_limits(dtype)[1] - integer_limits(dtype)[0] == 2**element_type.bits - 1
    if element_type.is_float:
        assert np.asarray(float_max(dtype)).astype(dtype).astype(np.float64) == float_max(dtype)
        assert compute_dtype(dtype) in (np.float32, np.float64)


@pytest.mark.parametrize("source", NUMERIC, ids=name)
@pytest.mark.parametrize("target", NUMERIC, ids=name)
def test_small_values_survive_every_cast(source: ElementType, target: ElementType) -> None:
    """0 and 1 exist in every type except float8e8m0, which has no 0."""
    values = [1.0] if ElementType.FLOAT8E8M0 in (source, target) else [0.0, 1.0]
    for shape in ((), (len(values),), (1, len(values), 1)):
        x = np.array(values[-1] if shape == () else values, np.float32).reshape(shape)
        result = cast(cast(x, source.numpy_dtype), target.numpy_dtype)
        assert isinstance(result, np.ndarray)
        assert result.dtype == target.numpy_dtype
        assert result.shape == shape
        np.testing.assert_array_equal(result.astype(np.float32), x)


@pytest.mark.parametrize("source", [e for e in NUMERIC if e.bits <= 8], ids=name)
def test_all_part_a_small_type_survive_a_float_and_back(source: ElementType) -> None:
    if source is ElementType.BOOL:
        pytest.skip("a bool is one of two bytes")
    bits = 6 if source in (ElementType.FLOAT6E2M3, ElementType.FLOAT6E3M2) else source.bits
    codes = np.arange(2**bits, dtype=np.uint8)
    x = codes.view(source.numpy_dtype)
    many = np.tile(x, 16)
    wide = decode(many, np.float32)
    np.testing.assert_array_equal(wide, many.astype(np.float32))
    back = cast(wide, source.numpy_dtype, saturate=False)
    same = np.isnan(wide) | (wide.astype(np.float32) == back.astype(np.float32))
    assert same.all()


@pytest.mark.parametrize("target", FLOAT8, ids=name)
@pytest.mark.parametrize("source", ["float32", "float16", "float64", "int32", "bfloat16"])
def test_float8_saturates_or_overflows(target: ElementType, source: str) -> None:
    dtype = target.numpy_dtype
    limit = float_max(dtype)
    big = np.array([63000, -63000], np.float32).astype(getattr(ml_dtypes, source, source))
    assert cast(big, dtype).astype(float).tolist() == [limit, -limit]
    overflow = cast(big, dtype, saturate=False).astype(float)
    if target is ElementType.FLOAT8E5M2:
        assert overflow.tolist() == [np.inf, -np.inf]
    else:
        assert np.isnan(overflow).all()
    if source == "int32":
        return
    special = np.array([np.inf, -np.inf, np.nan], np.float32).astype(big.dtype)
    saturated = cast(special, dtype).astype(float)
    assert saturated[:2].tolist() == [limit, -limit]
    assert np.isnan(saturated[2])
    kept = cast(special, dtype, saturate=False).astype(float)
    if target is ElementType.FLOAT8E5M2:
        assert kept[:2].tolist() == [np.inf, -np.inf]
    else:
        assert np.isnan(kept).all()


@given(st.floats(-500, 500, width=32))
@settings(max_examples=examples(200), deadline=None)
def test_float8_rounds_to_the_nearest(value: float) -> None:
    for target in FLOAT8:
        dtype = target.numpy_dtype
        codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
        finite = codes[np.isfinite(codes)]
        result = float(cast(np.array(value, np.float32), dtype).astype(np.float64))
        assert abs(result - value) == np.abs(finite - value).min()


@given(st.integers(-(2**40), 2**40), st.sampled_from([e for e in NUMERIC if e.is_int]))
@settings(max_examples=examples(200), deadline=None)
def test_integers_keep_their_low_bits(value: int, target: ElementType) -> None:
    low, high = integer_limits(target.numpy_dtype)
    result = int(cast(np.array(value, np.int64), target.numpy_dtype).astype(np.int64)) if high < 2**63 else None
    if result is not None:
        assert low <= result <= high
        assert (result - value) % (high - low + 1) == 0


def test_floats_are_truncated_to_integers() -> None:
    x = np.array([1.9, -1.9, 0.5, -0.5], np.float32)
    for element_type in (ElementType.UINT8, ElementType.INT8, ElementType.INT64):
        positive = np.abs(x) if element_type is ElementType.UINT8 else x
        expected = np.trunc(positive).astype(int).tolist()
        assert cast(positive, element_type.numpy_dtype).astype(int).tolist() == expected


def test_floats_are_rounded_to_integers_of_4_and_2_bits() -> None:
    x = np.array([0.5, 1.4, 1.5, 2.5, 6.7, -0.5, -0.9, -1.5, -7.6], np.float32)
    assert cast(x, ElementType.INT4.numpy_dtype).astype(int).tolist() == [0, 1, 2, 2, 7, 0, -1, -2, -8]
    assert cast(x[:5], ElementType.UINT4.numpy_dtype).astype(int).tolist() == [0, 1, 2, 2, 7]
    small = np.array([0.4, 0.9, -1.6, -0.5], np.float32)
    assert cast(small, ElementType.INT2.numpy_dtype).astype(int).tolist() == [0, 1, -2, 0]


@pytest.mark.parametrize(
    ("value", "up", "down", "nearest"),
    [(1.0, 1, 1, 1), (1.1, 2, 1, 1), (1.5, 2, 1, 2), (1.75, 2, 1, 2), (3.0, 4, 2, 4), (0.3, 0.5, 0.25, 0.25),
     (1e-45, 2.0**-127, 2.0**-127, 2.0**-127), (3e38, 2.0**127, 2.0**127, 2.0**127)],
)  # fmt: skip
def test_float8e8m0_rounds_as_asked(value: float, up: float, down: float, nearest: float) -> None:
    x = np.array([value], np.float32)
    for mode, expected in (("up", up), ("down", down), ("nearest", nearest)):
        result = call("Cast", [x], opset=24, to=int(ElementType.FLOAT8E8M0), round_mode=mode)
        assert float(result.astype(np.float64)[0]) == expected


def test_float8e8m0_without_saturation() -> None:
    x = np.array([0, np.inf, np.nan, 3.3e38, 1e-45, 2], np.float32)
    result = cast(x, ElementType.FLOAT8E8M0.numpy_dtype, saturate=False, round_mode="nearest").astype(np.float32)
    assert np.isnan(result[[0, 1, 2, 3, 4]]).all()
    assert result[5] == 2
    saturated = cast(x, ElementType.FLOAT8E8M0.numpy_dtype).astype(np.float64)
    assert saturated[[0, 1, 3]].tolist() == [2.0**-127, 2.0**127, 2.0**127]
    assert np.isnan(saturated[2])


def texts(*values: str) -> Any:
    return np.array(values, object)


def test_text_to_numbers() -> None:
    big = str(2**63 - 1)
    assert cast(texts(big, "-7", "2.9", "1e3"), np.int64).tolist() == [2**63 - 1, -7, 2, 1000]
    assert cast(texts("300", "-1"), np.uint8).tolist() == [44, 255]
    np.testing.assert_array_equal(
        cast(texts("+INF", "-inf", "NaN", "1e-5"), np.float64), [np.inf, -np.inf, np.nan, 1e-5]
    )
    assert cast(texts("1.5"), ml_dtypes.bfloat16).astype(float).tolist() == [1.5]
    assert cast(texts("1e6"), ml_dtypes.float8_e4m3fn).astype(float).tolist() == [448]
    for target in (np.int32, np.float32):
        with pytest.raises(KernelError, match="Hello"):
            cast(texts("Hello"), target)
    with pytest.raises(KernelError):
        cast(texts("inf"), np.int32)


def test_numbers_to_text() -> None:
    assert cast(np.array([0.1, np.nan, np.inf, -np.inf], np.float32), object).tolist() == ["0.1", "NaN", "INF", "-INF"]
    assert cast(np.array([[1], [-2]], np.int8), object).tolist() == [["1"], ["-2"]]
    assert cast(np.array(2**63, np.uint64), object).item() == str(2**63)
    assert cast(np.array([3], ml_dtypes.int4), object).tolist() == ["3"]
    assert cast(np.array([0.5], ml_dtypes.bfloat16), object).tolist() == ["0.5"]


def test_a_cast_to_the_same_type_copies_nothing() -> None:
    x = np.arange(3, dtype=np.float32)
    assert cast(x, np.float32) is x


def test_cast_1_takes_the_name_of_the_type() -> None:
    assert call("Cast", [np.array([1.5], np.float32)], opset=1, to="INT32").dtype == np.int32
    with pytest.raises(KernelError, match="BLOB"):
        call("Cast", [np.array([1.5], np.float32)], opset=1, to="BLOB")


@pytest.mark.parametrize("number", [0, 29, -1, 10**9])
def test_unknown_types_are_refused(number: int) -> None:
    with pytest.raises(KernelError, match=str(number)):
        dtype_of(number)
    with pytest.raises(KernelError):
        call("Cast", [np.zeros(2, np.float32)], opset=13, to=number)
    with pytest.raises(KernelError):
        call("BitCast", [np.zeros(2, np.float32)], opset=26, to=number)


@pytest.mark.parametrize(
    ("source", "target"),
    [(ElementType.FLOAT, ElementType.UINT32), (ElementType.FLOAT16, ElementType.BFLOAT16),
     (ElementType.INT8, ElementType.FLOAT8E4M3FN), (ElementType.INT4, ElementType.UINT4),
     (ElementType.INT2, ElementType.UINT2), (ElementType.FLOAT4E2M1, ElementType.INT4),
     (ElementType.DOUBLE, ElementType.INT64)],
)  # fmt: skip
def test_bits_survive_there_and_back(source: ElementType, target: ElementType) -> None:
    x = np.array([0, 1, 1, 0], np.float32).astype(source.numpy_dtype)
    there = call("BitCast", [x], opset=26, to=int(target))
    assert there.dtype == target.numpy_dtype
    back = call("BitCast", [there], opset=26, to=int(source))
    assert back.tobytes() == x.tobytes()
    with pytest.raises(KernelError, match="width"):
        call("BitCast", [x], opset=26, to=int(ElementType.COMPLEX128))


def test_long_float16_is_looked_up_to_the_bits_of_numpy() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16).repeat(2).view(np.float16)
    expected = codes.astype(np.float32)
    for part in (codes, codes.reshape(256, 512), codes[:4096]):
        found = decode(part, np.float32)
        assert found.shape == part.shape
        assert found.tobytes() == expected[: part.size].tobytes()
    assert decode(codes[::2], np.float32).tobytes() == expected[::2].tobytes()
