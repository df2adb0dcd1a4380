"""Logic, reductions, quantization, generators and casts of all versions, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.exec.kernels.harness import check_against, ort_one_node

pytest.importorskip("onnxruntime")

rng = np.random.default_rng(6)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return rng.standard_normal(shape).astype(dtype)


def whole(*shape: int, dtype: str = "int32", low: int = -7, high: int = 8) -> Any:
    return rng.integers(max(low, 0) if dtype.startswith("u") else low, high, shape).astype(dtype)


def check(op_type: str, opset: int, *inputs: Any, outputs: int = 1, **attributes: Any) -> None:
    check_against(ort_one_node, op_type, inputs, opset=opset, outputs=outputs, rtol=2e-5, atol=2e-6, **attributes)


def test_equality_of_texts() -> None:
    a, b = np.array(["a", "b", "é"], object), np.array([["a"], ["é"]], object)
    check("Equal", 19, a, b)


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


def ties(dtype: str, *shape: int) -> Any:
    """Multiples of a half: quotients that lie exactly between two integers."""
    return (rng.integers(-600, 600, shape) / 2).astype(dtype)


@pytest.mark.parametrize(
    "x", [normal(5, 6), abs(normal(7)), -abs(normal(7)), np.zeros(3, np.float32), ties("float32", 40)]
)
def test_dynamic_quantize(x: Any) -> None:
    check("DynamicQuantizeLinear", 11, x, outputs=3)


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


def test_cast_of_special_floats_to_text() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 314.15926], np.float32)
    check("Cast", 13, x, to=TensorProto.STRING)


@pytest.mark.parametrize("ends", [(0, 1, 0.1), (0, 0.3, 0.1), (1, 0, -0.3), (-1, 1, 1 / 3), (2, 2.0000002, 1e-7)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_range_of_fractions(ends: tuple[float, float, float], dtype: str) -> None:
    check("Range", 11, *(np.array(v, dtype) for v in ends))
