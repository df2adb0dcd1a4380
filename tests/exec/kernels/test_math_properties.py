"""Mathematical operators on random shapes, types and attributes, against float64 or plain numpy formulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.kernels.shared.blocks import PIECE
from tests.examples import examples
from tests.exec.kernels.harness import assert_same, call

FLOATS = ["float32", "float64", "float16", "bfloat16"]
EPSILON = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 2e-2}
few = settings(max_examples=examples(40), deadline=None)


def dtype_named(name: str) -> Any:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


@st.composite
def tensors(draw: st.DrawFn, dtype: str | None = None, low: float = -8, high: float = 8) -> Any:
    """A tensor of up to four axes, of any memory order, empty ones included."""
    name = dtype or draw(st.sampled_from(FLOATS))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    seed = draw(st.integers(0, 2**32 - 1))
    x = np.random.default_rng(seed).uniform(low, high, shape).astype(dtype_named(name))
    order = draw(st.permutations(range(x.ndim)))
    return x.transpose(order)


def close(actual: Any, expected: Any, dtype: Any, scale: float = 1.0) -> None:
    """`actual` has the type, and is within a few units in the last place of the float64 result."""
    epsilon = EPSILON[dtype.name] * scale
    assert_same(actual.astype(np.float64), np.asarray(expected, np.float64), rtol=epsilon, atol=epsilon)
    assert actual.dtype == dtype


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


UNARY = {
    ("Abs", 13): np.abs, ("Neg", 13): np.negative, ("Ceil", 13): np.ceil, ("Floor", 13): np.floor,
    ("Round", 22): np.rint, ("Exp", 13): np.exp, ("Sin", 22): np.sin, ("Atan", 22): np.arctan,
    ("Tanh", 13): np.tanh, ("Sigmoid", 13): sigmoid, ("Relu", 14): lambda x: np.maximum(x, 0),
    ("Erf", 13): np.vectorize(math.erf, otypes=[float]), ("Gelu", 20): gelu,
    ("Softplus", 22): lambda x: np.log1p(np.exp(x)), ("Softsign", 22): lambda x: x / (1 + abs(x)),
    ("Mish", 22): lambda x: x * np.tanh(np.log1p(np.exp(x))), ("Swish", 24): lambda x: x * sigmoid(x),
    ("Elu", 22): lambda x: np.where(x < 0, np.expm1(x), x), ("HardSwish", 22): lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    ("Celu", 28): lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("op_type", "opset"), UNARY)
@few
@given(x=tensors())
def test_functions(op_type: str, opset: int, x: Any) -> None:
    before = x.copy()
    result = call(op_type, [x], opset=opset)
    close(result, UNARY[op_type, opset](x.astype(np.float64)), x.dtype, 4)
    assert_same(x, before, rtol=0, atol=0)


@pytest.mark.parametrize("size", [1, 1000, PIECE - 1, PIECE + 1, 3 * PIECE])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pieces_join_without_gaps(size: int, dtype: str) -> None:
    x = np.linspace(-6, 6, size).astype(dtype_named(dtype))
    close(call("Sigmoid", [x], opset=13), sigmoid(x.astype(np.float64)), x.dtype, 4)
    close(call("Swish", [x], opset=24, alpha=-0.5), x.astype(float) * sigmoid(-0.5 * x.astype(float)), x.dtype, 4)


@pytest.mark.long
@pytest.mark.parametrize("op_type", ["Abs", "Relu", "Sigmoid", "Sqrt", "Tanh"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_arrays_of_16_bits_give_what_short_ones_do(op_type: str, dtype: str) -> None:
    codes = np.random.default_rng(0).permutation(np.tile(np.arange(1 << 16, dtype=np.uint16), 5))
    x = codes.view(dtype_named(dtype)).reshape(5, 2, -1)
    with np.errstate(all="ignore"):
        short = np.stack([np.stack([call(op_type, [part], opset=13) for part in row]) for row in x])
        assert_same(call(op_type, [x], opset=13), short, rtol=EPSILON[dtype], atol=0)
        assert_same(call(op_type, [x[:, ::-1]], opset=13), short[:, ::-1], rtol=EPSILON[dtype], atol=0)


def test_erf_is_exact_to_a_few_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-6, 6, 200001), np.logspace(-30, 1, 5000)]).astype(np.float32)
    exact = np.array([math.erf(v) for v in x.astype(float)])
    error = np.abs(call("Erf", [x], opset=13) - exact)
    assert error.max() < 2.5e-7
    assert (error / np.maximum(abs(exact), 1e-300)).max() < 1e-6
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-45], np.float32)
    result = call("Erf", [special], opset=13)
    np.testing.assert_array_equal(result[:7], np.array([1, -1, np.nan, 0, 0, 1, -1], np.float32))
    np.testing.assert_array_equal(np.signbit(result[3:5]), [False, True])


@pytest.mark.parametrize("op_type", ["Sigmoid", "Softplus", "Mish", "Swish", "Gelu", "Elu", "Softsign", "HardSwish"])
def test_activations_at_the_ends(op_type: str) -> None:
    opset = {"Swish": 24, "Mish": 18, "Gelu": 20}.get(op_type, 14)
    x = np.array([1e4, 100, -100, -1e4, np.nan], np.float32)
    result = call(op_type, [x], opset=opset)
    assert np.isfinite(result[:4]).all()
    assert np.isnan(result[4])
    expected = {"Sigmoid": [1, 0], "Softsign": [1, -1], "Elu": [1e4, -1]}.get(op_type, [1e4, 0])
    np.testing.assert_allclose(result[[0, 3]], expected, atol=1e-3)


@st.composite
def broadcastable(draw: st.DrawFn) -> Any:
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=5, min_side=0)).input_shapes
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [rng.uniform(0.5, 4, s) for s in shapes]


@pytest.mark.long
@pytest.mark.parametrize(("op_type", "function"), [
    ("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide), ("Pow", np.power),
    ("Max", np.maximum), ("Min", np.minimum),
])  # fmt: skip
@few
@given(pair=broadcastable(), dtype=st.sampled_from(FLOATS))
def test_arithmetic_broadcasts(op_type: str, function: Any, pair: Any, dtype: str) -> None:
    a, b = (x.astype(dtype_named(dtype)) for x in pair)
    expected = function(a.astype(np.float64), b.astype(np.float64))
    close(call(op_type, [a, b], opset=15), expected, a.dtype, 4)


@few
@given(
    a=hnp.arrays(st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint32"]), 20),
    b=st.integers(-9, 9).filter(bool),
)
def test_integer_division_and_remainder_belong_together(a: Any, b: int) -> None:
    divisor = np.array(abs(b) if a.dtype.kind == "u" else b, a.dtype)
    quotient, remainder = call("Div", [a, divisor], opset=14), call("Mod", [a, divisor], opset=13, fmod=1)
    for value, q, r in zip(a.tolist(), quotient.tolist(), remainder.tolist(), strict=True):
        if (value, int(divisor)) == (np.iinfo(a.dtype).min, -1):
            continue  # overflows
        size = abs(value) // abs(int(divisor))
        assert q == (size if (value < 0) == (divisor < 0) else -size)
        assert q * int(divisor) + r == value
    floored = call("Mod", [a, divisor], opset=13)
    assert floored.tolist() == [v % int(divisor) for v in a.tolist()]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(
    ("shape", "axis", "broadcast_to"),
    [((), None, (1, 1, 1, 1)), ((1, 1), None, (1, 1, 1, 1)), ((5,), None, (1, 1, 1, 5)),
     ((4, 5), None, (1, 1, 4, 5)), ((3, 4), 1, (1, 3, 4, 1)), ((2,), 0, (2, 1, 1, 1)), ((4,), -2, (1, 1, 4, 1))],
)  # fmt: skip
@pytest.mark.parametrize("opset", [1, 6])
def test_broadcasting_before_opset_7(op_type: str, shape: Any, axis: int | None, broadcast_to: Any, opset: int) -> None:
    a = np.arange(1, 121, dtype=np.float32).reshape(2, 3, 4, 5)
    b = np.arange(2, 2 + math.prod(shape), dtype=np.float32).reshape(shape)
    function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op_type]
    given_axis = {} if axis is None else {"axis": axis}
    result = call(op_type, [a, b], opset=opset, broadcast=1, **given_axis)
    assert_same(result, function(a, b.reshape(broadcast_to)), rtol=0, atol=0)


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor", "Equal", "Greater", "Less"])
def test_logic_before_opset_7(op_type: str) -> None:
    dtype = np.int32 if op_type == "Equal" else np.float32 if op_type in ("Greater", "Less") else np.bool_
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    b = np.array([0, 5, 9]).astype(dtype)
    functions = {
        "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater,
        "Less": np.less,
    }  # fmt: skip
    result = call(op_type, [a, b], opset=1, broadcast=1, axis=1)
    assert_same(result, functions[op_type](a, b.reshape(3, 1)), rtol=0, atol=0)


def test_prelu_before_opset_7_has_a_slope_per_channel() -> None:
    x = -np.ones((2, 3, 4), np.float32)
    slope = np.array([1, 2, 3], np.float32)
    assert_same(call("PRelu", [x, slope], opset=6), x * slope.reshape(3, 1), rtol=0, atol=0)
    assert_same(call("PRelu", [x, slope[1:2]], opset=1), x * 2, rtol=0, atol=0)


@pytest.mark.parametrize("slope", [0.25, 1.0, -0.5, 2.0])
def test_prelu_of_what_is_not_finite(slope: float) -> None:
    x = np.array([-np.inf, -2, -0.0, 0, 3, np.inf, np.nan], np.float32)
    expected = np.where(x < 0, np.float32(slope) * x, x)
    assert_same(call("PRelu", [x, np.array([slope], np.float32)], opset=16), expected, rtol=0, atol=0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_leaky_relu_keeps_infinity(alpha: float) -> None:
    x = np.array([np.inf, 3, -2], np.float32)
    assert call("LeakyRelu", [x], opset=16, alpha=alpha).tolist() == [np.inf, 3, -2 * alpha]


def test_selu_constants_of_opset_1_differ() -> None:
    x = np.array([-30.0, 1.0], np.float32)
    np.testing.assert_allclose(call("Selu", [x], opset=1), [-1.6732 * 1.0507, 1.0507], rtol=1e-6)
    np.testing.assert_allclose(call("Selu", [x], opset=6), [-1.7580993, 1.0507010], rtol=1e-6)


# --- matrices --------------------------------------------------------------------------------------------------


@few
@given(data=st.data(), dtype=st.sampled_from([*FLOATS, "int32", "int64", "uint32", "uint64"]))
def test_matmul(data: st.DataObject, dtype: str) -> None:
    m, k, n = (data.draw(st.integers(0, 6)) for _ in range(3))
    leading = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3)).input_shapes
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    a = rng.integers(0, 9, (*leading[0], m, k)).astype(dtype_named(dtype))
    b = rng.integers(0, 9, (*leading[1], k, n)).astype(dtype_named(dtype))
    if data.draw(st.booleans()):
        a = np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2)
    if data.draw(st.booleans()):
        b = np.repeat(b, 2, axis=-1)[..., ::2]
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    assert_same(call("MatMul", [a, b], opset=13), expected, rtol=0, atol=0)


def test_products_of_large_integers_wrap() -> None:
    a, b = np.full((2, 3), 1 << 62, np.int64), np.full((3, 2), 3, np.int64)
    # 9·2⁶² modulo 2⁶⁴ is 2⁶².
    assert_same(call("MatMul", [a, b], opset=13), np.full((2, 2), 1 << 62, np.int64), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_weights_prepared_once_give_the_same(dtype: str) -> None:

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((4, 4)).astype(dtype_named(dtype)) for _ in range(2))
    for op_type in ("MatMul", "Gemm"):
        prepared = find(op_type, 13).prepare
        assert prepared is not None
        constants = (None, b) if op_type == "MatMul" else (None, b, None)
        attributes = {"transB": 1} if op_type == "Gemm" else {}
        run = prepared(constants, **attributes)
        assert run is not None
        assert_same(run(a, b), call(op_type, [a, b], opset=13, **attributes), rtol=0, atol=0)
        assert prepared((None,) * len(constants), **attributes) is None


@pytest.mark.long
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 700, 600), (20, 768, 512), (60, 768, 512), (20, 4000, 80)])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_prepared_integer_weights_give_the_same_in_any_size(rows: int, depth: int, columns: int, kind: str) -> None:
    random = np.random.default_rng(depth)
    a = random.integers(0, 256, (rows, depth)).astype(np.uint8)
    b, zeros = random.integers(0, 256, (depth, columns)).astype(kind), [np.array(9, np.uint8), np.array(7, kind)]
    run = find("MatMulInteger", 10).prepare((None, b, None, zeros[1]))
    assert run is not None
    whole = (a.astype(np.int64) - 9) @ (b.astype(np.int64) - 7)
    np.testing.assert_array_equal(run(a, b, *zeros), whole.astype(np.int32), strict=True)


@pytest.mark.parametrize("depth", [40, 3000])  # the second in double, without weights that were prepared
@pytest.mark.parametrize("per_column", [False, True])
def test_prepared_quantized_products_give_the_same(depth: int, per_column: bool) -> None:
    random = np.random.default_rng(depth)
    a, b = (random.integers(0, 256, shape).astype(np.uint8) for shape in ((5, depth), (depth, 30)))
    scale = (random.random(30) if per_column else np.array(0.01)).astype(np.float32)
    b_zero = random.integers(0, 256, scale.shape).astype(np.uint8)
    left, result = (np.array(0.02, np.float32), np.array(7, np.uint8)), (np.array(9, np.float32), np.array(3, np.int8))
    inputs = [a, *left, b, scale, b_zero, *result]
    run = find("QLinearMatMul", 10).prepare((None, None, None, *inputs[3:]))
    assert run is not None
    assert_same(run(*inputs), call("QLinearMatMul", inputs, opset=10), rtol=0, atol=0)


# --- order and running totals ----------------------------------------------------------------------------------


@few
@given(
    x=hnp.arrays(
        st.sampled_from(["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "uint64"]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=40),
        elements=st.integers(0, 6),
    ),
    data=st.data(),
)
def test_top_k_orders_by_value_then_position(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    k = data.draw(st.integers(0, x.shape[axis]))
    largest = data.draw(st.integers(0, 1))
    if x.dtype.kind != "u":
        x = x - np.asarray(3, x.dtype)
    values, indices = call("TopK", [x, np.array([k])], opset=11, outputs=2, axis=axis, largest=largest)
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    expected = [sorted(range(len(r)), key=lambda i, r=r: (-r[i] if largest else r[i], i))[:k] for r in rows.tolist()]
    assert np.moveaxis(indices, axis, -1).reshape(len(rows), k).tolist() == expected
    assert_same(values, np.take_along_axis(x, indices, axis), rtol=0, atol=0)


def test_top_k_of_special_values() -> None:
    x = np.array([-np.inf, 1, np.nan, np.inf, 0.0, -0.0, -np.inf, -3], np.float32)
    _, indices = call("TopK", [x, np.array([8])], opset=11, outputs=2)
    assert indices.tolist() == [2, 3, 1, 4, 5, 7, 0, 6]
    many = np.concatenate([x, np.full(92, -np.inf, np.float32)])
    assert call("TopK", [many, np.array([8])], opset=11, outputs=2)[1].tolist() == [2, 3, 1, 4, 5, 7, 0, 6]
    _, indices = call("TopK", [x, np.array([8])], opset=11, outputs=2, largest=0)
    assert indices.tolist() == [0, 6, 7, 4, 5, 1, 3, 2]


@few
@given(x=tensors(low=0.5, high=1.5), data=st.data())
def test_running_totals(x: Any, data: st.DataObject) -> None:
    if not x.ndim:
        return
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    flags = {"exclusive": data.draw(st.integers(0, 1)), "reverse": data.draw(st.integers(0, 1))}
    for op_type, opset, accumulate, identity in (("CumSum", 14, np.cumsum, 0), ("CumProd", 26, np.cumprod, 1)):
        wide = np.moveaxis(x.astype(np.float64), axis, -1)
        wide = wide[..., ::-1] if flags["reverse"] else wide
        if flags["exclusive"]:
            wide = np.concatenate([np.full((*wide.shape[:-1], 1), identity), wide], -1)[..., : wide.shape[-1]]
        expected = accumulate(wide, -1)
        expected = np.moveaxis(expected[..., ::-1] if flags["reverse"] else expected, -1, axis)
        close(call(op_type, [x, np.array(axis)], opset=opset, **flags), expected, x.dtype, 8)


@pytest.mark.parametrize("flags", [{}, {"exclusive": 1}, {"reverse": 1}])
def test_running_totals_across_long_rows(flags: dict[str, int]) -> None:
    x = np.arange(3 * 5 * 200, dtype=np.float32).reshape(3, 5, 200)
    turned = np.ascontiguousarray(np.moveaxis(x, 1, -1))  # the last axis, along which rows are summed one by one
    across = call("CumSum", [x, np.array(1)], opset=14, **flags)
    along = call("CumSum", [turned, np.array(-1)], opset=14, **flags)
    assert_same([np.moveaxis(across, 1, -1)], [along])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("size", [5, 5000])
def test_extremes_with_one_number(dtype: str, size: int) -> None:
    x = np.linspace(-9, 9, size).astype(dtype)
    bound = np.array(2, dtype)
    if dtype != "int32":
        x[:4] = np.nan, np.inf, -np.inf, -0.0
    assert_same([call("Max", [x, bound], opset=13)], [np.maximum(x, bound)])
    assert_same([call("Min", [bound, x], opset=13)], [np.minimum(x, bound)])
    assert_same([call("Relu", [x], opset=14)], [np.maximum(x, np.array(0, dtype))])
    if dtype != "int32":
        assert_same([call("Max", [x, np.array(np.nan, dtype)], opset=13)], [np.full_like(x, np.nan)])


# --- signals ---------------------------------------------------------------------------------------------------


@few
@given(length=st.integers(1, 12), dft_length=st.integers(1, 16), parts=st.sampled_from([1, 2]), seed=st.integers(0, 99))
def test_dft_and_its_inverse(length: int, dft_length: int, parts: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((2, length, 3, parts))
    size = np.array(dft_length)
    signal = np.zeros((2, dft_length, 3), complex)
    kept = x[:, :dft_length]
    signal[:, :length] = kept[..., 0] + (1j * kept[..., 1] if parts == 2 else 0)
    matrix = np.exp(-2j * np.pi * np.outer(range(dft_length), range(dft_length)) / dft_length)
    expected = np.einsum("kn,bnc->bkc", matrix, signal)
    result = call("DFT", [x, size, np.array(1)], opset=20)
    np.testing.assert_allclose(result[..., 0] + 1j * result[..., 1], expected, atol=1e-9)
    half = call("DFT", [x, size, np.array(1)], opset=20, onesided=1)
    np.testing.assert_allclose(half, result[:, : dft_length // 2 + 1], atol=1e-9)
    back = call("DFT", [result, size, np.array(1)], opset=20, inverse=1)
    np.testing.assert_allclose(back[..., 0] + 1j * back[..., 1], signal, atol=1e-9)
    if parts == 1:
        real = call("DFT", [half, size, np.array(1)], opset=20, inverse=1, onesided=1)
        np.testing.assert_allclose(real[..., 0], signal.real, atol=1e-9)


def test_log_softmax_of_one_element_is_exactly_0() -> None:
    """It was off by the rounding of exp and log, of which a further Log made a finite number or NaN."""
    x = np.linspace(-3, 3, 97, dtype=np.float32).reshape(-1, 1)
    assert not np.any(call("LogSoftmax", [x], opset=13))


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes"),
    [
        ("HardSwish", 14, {}),
        ("Gelu", 20, {}),
        ("Gelu", 20, {"approximate": "tanh"}),
        ("Swish", 24, {}),
        ("Mish", 18, {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_largest_numbers_pass_a_gate_as_they_are(
    op_type: str, opset: int, attributes: dict[str, Any], dtype: Any
) -> None:
    largest = np.finfo(dtype).max
    found = call(op_type, [np.array([largest, -largest], dtype)], opset=opset, **attributes)
    np.testing.assert_allclose(found, [largest, 0], rtol=1e-6)
