"""Versions and types of mathematical operators the onnx cases leave out, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.kernels.registry import find
from tests.exec.kernels.harness import assert_same, call, check_against, ort_one_node

pytest.importorskip("onnxruntime")

rng = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return rng.standard_normal(shape).astype(dtype)


def whole(*shape: int, dtype: str = "int32", low: int = -7, high: int = 8) -> Any:
    return rng.integers(max(low, 0) if dtype.startswith("u") else low, high, shape).astype(dtype)


def check(op_type: str, opset: int, *inputs: Any, outputs: int = 1, **attributes: Any) -> None:
    half = any(x is not None and x.dtype == np.float16 for x in inputs)
    tolerances = {"rtol": 4e-3, "atol": 2e-3} if half else {"rtol": 2e-5, "atol": 2e-6}
    check_against(ort_one_node, op_type, inputs, opset=opset, outputs=outputs, **tolerances, **attributes)


UNARY = {
    "Abs": (6, 13), "Neg": (6, 13), "Sign": (9, 13), "Ceil": (6, 13), "Floor": (6, 13), "Round": (11, 22),
    "Sqrt": (6, 13), "Exp": (6, 13), "Log": (6, 13), "Reciprocal": (6, 13), "Erf": (9, 13), "Sin": (7, 22),
    "Cos": (7, 22), "Tan": (7,), "Asin": (7,), "Acos": (7,), "Atan": (7,), "Sinh": (9,), "Cosh": (9,),
    "Asinh": (9,), "Acosh": (9,), "Atanh": (9,), "Relu": (6, 13, 14), "Sigmoid": (6, 13), "Tanh": (6, 13),
    "Elu": (6, 22), "Selu": (6, 22), "Softplus": (1, 22), "Softsign": (1, 22), "LeakyRelu": (6, 16),
    "HardSigmoid": (6, 22), "HardSwish": (14,), "ThresholdedRelu": (10,), "Celu": (12,), "Mish": (18,),
    "Gelu": (20,), "Softmax": (1, 11, 13), "LogSoftmax": (1, 11, 13), "Hardmax": (1, 11, 13),
}  # fmt: skip


@pytest.mark.parametrize(("op_type", "opset"), [(op, v) for op, versions in UNARY.items() for v in versions])
def test_function_of_one_tensor(op_type: str, opset: int) -> None:
    x = normal(2, 3, 40) * 3
    if op_type in ("Sqrt", "Log"):
        x = abs(x)
    if op_type in ("Asin", "Acos", "Atanh"):
        x = np.tanh(x)
    if op_type == "Acosh":
        x = abs(x) + 1
    check(op_type, opset, x)
    check(op_type, opset, x.reshape(6, 40)[::2, ::3])


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [1, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2])
def test_softmax_axes(op_type: str, opset: int, axis: int) -> None:
    if opset == 1 and axis < 0:
        pytest.skip("negative axes came with opset 11")
    check(op_type, opset, normal(2, 3, 4, 5), axis=axis)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shift", [-1e4, -200, 0, 59, 61, 200, 1e4])
def test_softmax_of_large_and_small_values(op_type: str, shift: float) -> None:
    x = normal(7, 300) * 20 + np.float32(shift)
    x[0, :150] = -np.inf
    x[1] = -3.4e38
    x[1, 3] = shift
    check(op_type, 13, x)
    check(op_type, 13, x, axis=0)


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("opset", [6, 8, 13])
def test_any_number_of_inputs(op_type: str, opset: int) -> None:
    x = [normal(3, 4), normal(3, 4), normal(3, 4)]
    check(op_type, opset, *x)
    check(op_type, opset, x[0])
    if opset >= 8:
        check(op_type, opset, normal(3, 1), normal(4), normal(2, 1, 1))


@pytest.mark.parametrize("opset", [7, 12, 13, 15])
@pytest.mark.parametrize("exponent", [2.0, 3.0, 4.0, 1.0, 0.5, -1.0, -2.0, 0.0, 2.5])
def test_power(opset: int, exponent: float) -> None:
    check("Pow", opset, abs(normal(3, 4)) + np.float32(0.1), np.array(exponent, np.float32))
    check("Pow", opset, np.float32([0.0, 2.0, 9.0]), np.full((2, 1), exponent, np.float32))


@pytest.mark.parametrize(("base", "exponent"), [
    ("float32", "int64"), ("float32", "float64"), ("int32", "int32"), ("int64", "float32"), ("int32", "int64"),
    ("float64", "float32"),
])  # fmt: skip
def test_power_of_mixed_types(base: str, exponent: str) -> None:
    check("Pow", 15, whole(3, 4, dtype=base, low=1), whole(4, dtype=exponent, low=0, high=5))


@pytest.mark.parametrize("depth", [3, 300, 2000])
@pytest.mark.parametrize(("a_type", "b_type"), [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
def test_matmul_integer(depth: int, a_type: str, b_type: str) -> None:
    def extreme(dtype: str, *shape: int) -> Any:
        info = np.iinfo(dtype)
        return rng.choice([info.min, info.max, 3], shape).astype(dtype)

    # Not against ONNX Runtime, which saturates sums of uint8 × int8 in 16 bits on processors without VNNI.
    a, b = extreme(a_type, 5, depth), extreme(b_type, depth, 4)
    for zeros in (
        (),
        (np.array(3, a_type), np.array([5], b_type)),
        (np.array(3, a_type), np.array([1, 2, 3, 4], b_type)),
        (np.arange(5, dtype=a_type), np.array(0, b_type)),
    ):
        left, right = a.astype(np.int64), b.astype(np.int64)
        if zeros:
            left, right = left - zeros[0].reshape(-1, 1).astype(np.int64), right - zeros[1].astype(np.int64)
        expected = (left @ right).astype(np.int32)
        prepare = find("MatMulInteger", 10).prepare
        assert prepare is not None
        prepared = prepare((None, b, None, zeros[1]) if zeros else (None, b))
        assert prepared is not None
        assert_same(call("MatMulInteger", (a, b, *zeros), opset=10), expected, rtol=0, atol=0)
        assert_same(prepared(a, b, *zeros), expected, rtol=0, atol=0)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij->ji", "ii->i", "bij,bjk->bik", "...ij,...jk->...ik", "ij->",
                                      "i,j->ij", "ij,kj,lk->il", "ij, jk", "bhqd,bhkd->bhqk"])  # fmt: skip
def test_einsum(equation: str) -> None:
    terms = equation.replace(" ", "").split("->")[0].split(",")
    sizes = dict(zip("bhijklqd", (2, 3, 4, 4, 4, 4, 5, 6), strict=True))
    shapes = [[2, 3] * ("..." in t) + [sizes[c] for c in t.replace("...", "")] for t in terms]
    check("Einsum", 12, *(normal(*s) for s in shapes), equation=equation)


@pytest.mark.parametrize("opset", [1, 10, 11])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(opset: int, axis: int) -> None:
    x = np.round(normal(6, 70, 6), 1)
    if opset == 1:
        check("TopK", 1, x, outputs=2, axis=axis, k=4)
        return
    for k in (1, 4, 6):
        check("TopK", opset, x, np.array([k]), outputs=2, axis=axis)
    if opset == 11:
        check("TopK", 11, x, np.array([4]), outputs=2, axis=axis, largest=0)


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_the_middle_of_a_window_is_exactly_one(op_type: str) -> None:
    """Which a type of integers would otherwise make 0."""
    for size in (2, 6, 10, 100):
        window = call(op_type, [np.array(size)], opset=17, output_datatype=2)
        assert window.tolist() == [int(n == size // 2) for n in range(size)]


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided: int) -> None:
    check("STFT", 17, normal(2, 50, 1), np.array(7), normal(16), onesided=onesided)
    check("STFT", 17, normal(2, 50, 1), np.array(7), None, np.array(16), onesided=onesided)
