"""Logic, reductions, quantization, generators and casts of all versions, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.exec.kernels.harness import call, check_against, ort_one_node

pytest.importorskip("onnxruntime")

rng = np.random.default_rng(6)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return rng.standard_normal(shape).astype(dtype)


def whole(*shape: int, dtype: str = "int32", low: int = -7, high: int = 8) -> Any:
    return rng.integers(max(low, 0) if dtype.startswith("u") else low, high, shape).astype(dtype)


def check(op_type: str, opset: int, *inputs: Any, outputs: int = 1, **attributes: Any) -> None:
    check_against(ort_one_node, op_type, inputs, opset=opset, outputs=outputs, rtol=2e-5, atol=2e-6, **attributes)


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_logic(op_type: str) -> None:
    check(op_type, 7, normal(3, 1, 4) > 0, normal(5, 1) > 0)


@pytest.mark.parametrize(
    ("op_type", "opset"),
    [("Equal", 7), ("Equal", 11), ("Equal", 13), ("Equal", 19), ("Greater", 7), ("Greater", 9), ("Greater", 13),
     ("Less", 7), ("Less", 9), ("Less", 13), ("GreaterOrEqual", 12), ("GreaterOrEqual", 16), ("LessOrEqual", 12),
     ("LessOrEqual", 16)],
)  # fmt: skip
def test_comparison(op_type: str, opset: int) -> None:
    types = ["int32", "int64"] if opset == 7 and op_type == "Equal" else ["float32", "float64"]
    types += ["int32", "int64", "float32"] if opset > 10 else []
    for dtype in types:
        check(op_type, opset, whole(3, 1, 4, dtype=dtype, high=3), whole(5, 1, dtype=dtype, high=3))


def test_equality_of_texts() -> None:
    a, b = np.array(["a", "b", "é"], object), np.array([["a"], ["é"]], object)
    check("Equal", 19, a, b)


@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_bitwise(op_type: str, dtype: str) -> None:
    check(op_type, 18, whole(3, 4, dtype=dtype), whole(4, dtype=dtype))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_shift(direction: str, dtype: str) -> None:
    check("BitShift", 11, whole(3, 4, dtype=dtype, high=200), whole(4, dtype=dtype, high=7), direction=direction)


REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.long
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("opset", [1, 11, 12, 13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reduction(name: str, opset: int, keepdims: int) -> None:
    x = abs(normal(3, 4, 2, 5)) + np.float32(0.1)
    as_input = opset >= (13 if name == "Sum" else 18)
    for axes in (None, [0], [3], [1, 3], [2, 3], [0, 1, 2, 3]):
        if as_input:
            extra = [] if axes is None else [np.array(axes)]
            check(f"Reduce{name}", opset, x, *extra, keepdims=keepdims)
        else:
            check(f"Reduce{name}", opset, x, keepdims=keepdims, **({} if axes is None else {"axes": axes}))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction_over_nothing(name: str) -> None:
    x = abs(normal(3, 4)) + np.float32(0.1)
    axes = np.zeros(0, np.int64)
    opset = 13 if name == "Sum" else 18
    check(f"Reduce{name}", opset, x, axes, noop_with_empty_axes=0)
    if name in ("Sum", "Mean", "Max", "Min", "Prod"):  # ONNX Runtime leaves out the steps of the others
        check(f"Reduce{name}", opset, x, axes, noop_with_empty_axes=1)


@pytest.mark.parametrize("name", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "SumSquare"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_reduction_of_types(name: str, dtype: str) -> None:
    check(f"Reduce{name}", 11, whole(3, 4, dtype=dtype, low=1), axes=[1])


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [1, 11, 12, 13])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_positions(op_type: str, opset: int, keepdims: int, axis: int) -> None:
    if opset == 1 and axis < 0:
        pytest.skip("negative axes came with opset 11")
    x = np.round(normal(4, 5, 6), 0)
    check(op_type, opset, x, axis=axis, keepdims=keepdims)
    if opset >= 12:
        check(op_type, opset, x, axis=axis, keepdims=keepdims, select_last_index=1)


def ties(dtype: str, *shape: int) -> Any:
    """Multiples of a half: quotients that lie exactly between two integers."""
    return (rng.integers(-600, 600, shape) / 2).astype(dtype)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 128), ("uint8", 3), ("int8", 0), ("int8", -5)])
def test_quantize(opset: int, dtype: str, zero: int) -> None:
    scale, zero_point = np.array(1, np.float32), np.array(zero, dtype)
    check("QuantizeLinear", opset, ties("float32", 3, 4, 50), scale, zero_point)
    check("QuantizeLinear", opset, normal(3, 4, 50), np.array(0.0173, np.float32), zero_point)
    check(
        "DequantizeLinear", opset, whole(3, 40, dtype=dtype, low=-120, high=120), np.array(0.3, np.float32), zero_point
    )


@pytest.mark.parametrize("opset", [13, 19, 21])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_quantize_along_an_axis(opset: int, axis: int) -> None:
    x = normal(3, 4, 5)
    length = x.shape[axis]
    scale, zero = abs(normal(length)) + np.float32(0.01), whole(length, dtype="int8")
    check("QuantizeLinear", opset, x, scale, zero, axis=axis)
    check("DequantizeLinear", opset, whole(3, 4, 5, dtype="int8", low=-120, high=120), scale, zero, axis=axis)


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_quantize_to_16_bits(dtype: str) -> None:
    zero = np.array(3, dtype)
    check("QuantizeLinear", 21, normal(200) * 9, np.array(1e-4, np.float32), zero)
    check("DequantizeLinear", 21, whole(90, dtype=dtype, low=-30000, high=30000), np.array(0.1, np.float32), zero)


@pytest.mark.parametrize("block_size", [1, 2, 3, 5])
@pytest.mark.parametrize("axis", [0, 1])
def test_quantize_in_blocks(block_size: int, axis: int) -> None:
    x = normal(5, 6)
    shape = list(x.shape)
    shape[axis] = -(-shape[axis] // block_size)
    scale, zero = abs(normal(*shape)) + np.float32(0.01), whole(*shape, dtype="int8")
    check("QuantizeLinear", 21, x, scale, zero, axis=axis, block_size=block_size)
    check("DequantizeLinear", 21, whole(5, 6, dtype="int8"), scale, zero, axis=axis, block_size=block_size)


@pytest.mark.parametrize(
    "x", [normal(5, 6), abs(normal(7)), -abs(normal(7)), np.zeros(3, np.float32), ties("float32", 40)]
)
def test_dynamic_quantize(x: Any) -> None:
    check("DynamicQuantizeLinear", 11, x, outputs=3)


def test_quantize_without_zero_point_gives_uint8() -> None:
    check("QuantizeLinear", 10, normal(9), np.array(0.01, np.float32))


NUMBERS = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16, "bool": TensorProto.BOOL,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("target", NUMBERS)
@pytest.mark.parametrize("opset", [6, 13])
def test_cast(source: str, target: str, opset: int) -> None:
    unsigned = source.startswith("u") or target.startswith("u")
    x = (whole(40, low=0 if unsigned else -90, high=100) / np.float32(2)).astype(source)
    check("Cast", opset, x, to=NUMBERS[target])
    if source.startswith(("i", "u")) and target.startswith(("i", "u")):
        check("Cast", opset, np.array([-1, 200, 70000, 1 << 40]).astype(source), to=NUMBERS[target])


@pytest.mark.parametrize("target", NUMBERS)
def test_cast_from_text(target: str) -> None:
    if target == "bool":
        pytest.skip("what text is true is not specified")
    texts = ["1", "7", "0", "12"]
    if target.startswith("float"):
        texts += ["-2.5", "1e-5", "1E8" if target != "float16" else "1E3", "INF", "+INF", "-INF", "NaN", "inf", "nan"]
    check("Cast", 13, np.array(texts, object), to=NUMBERS[target])


@pytest.mark.parametrize("source", ["int32", "uint8", "int64"])
def test_cast_to_text(source: str) -> None:
    check("Cast", 13, whole(5, 4, dtype=source), to=TensorProto.STRING)


def test_cast_of_special_floats_to_text() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 314.15926], np.float32)
    check("Cast", 13, x, to=TensorProto.STRING)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32", "int64"])
@pytest.mark.parametrize("ends", [(0, 10, 1), (10, 4, -2), (3, 3, 1), (5, 1, 1), (-4, 7, 3), (1, 2, 5)])
def test_range(dtype: str, ends: tuple[int, int, int]) -> None:
    check("Range", 11, *(np.array(v, dtype) for v in ends))


@pytest.mark.parametrize("ends", [(0, 1, 0.1), (0, 0.3, 0.1), (1, 0, -0.3), (-1, 1, 1 / 3), (2, 2.0000002, 1e-7)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_range_of_fractions(ends: tuple[float, float, float], dtype: str) -> None:
    check("Range", 11, *(np.array(v, dtype) for v in ends))


@pytest.mark.parametrize("k", [-9, -2, 0, 1, 3, 9])
def test_eye_like(k: int) -> None:
    check("EyeLike", 9, normal(3, 5), k=k)
    check("EyeLike", 9, normal(5, 3), k=k, dtype=TensorProto.INT64)


def test_constant_of_shape() -> None:
    check("ConstantOfShape", 9, np.array([2, 0, 3]))
    check("ConstantOfShape", 9, np.array([2, 3]), value=np.array([7], np.int64))
    check("ConstantOfShape", 9, np.zeros(0, np.int64))


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"])
def test_random_outputs_have_the_same_type_and_shape(op_type: str) -> None:
    x = abs(normal(3, 4)) / 10
    opset = {"Bernoulli": 15, "Multinomial": 7}.get(op_type, 1)
    ours, theirs = call(op_type, [x], opset=opset), ort_one_node(op_type, [x], opset=opset)[0]
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
