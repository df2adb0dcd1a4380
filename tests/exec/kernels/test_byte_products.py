"""Products of 8-bit integers are the same bits whether NumKong or numpy multiplies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.kernels import threads
from onnx_workbench.exec.kernels.onnx.nn import byte_convolution
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.kernels.shared import byte_products
from onnx_workbench.exec.kernels.shared.byte_products import ByteMatrix, NumKong, numkong, to_int32
from tests.examples import examples
from tests.exec.kernels.harness import load

load()
MICROSOFT = "com.microsoft"


@contextmanager
def multiplied_by(name: str) -> Iterator[None]:
    """Let one of the two compute every product of bytes."""
    if name == "NumKong" and numkong().library is None:
        pytest.skip(numkong().text)
    with pytest.MonkeyPatch.context() as patch:
        most = byte_products._MOST_DEPTH
        patch.setattr(NumKong, "pays", lambda _self, _rows, depth, _columns: name == "NumKong" and depth <= most)
        yield


def both(compute: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what NumKong and numpy make of the same."""
    with multiplied_by("NumKong"):
        quick = compute()
    with multiplied_by("numpy"):
        return quick, compute()


def assert_same_bits(quick: Any, plain: Any) -> None:
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (quick, plain)), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


@st.composite
def codes(draw: st.DrawFn, shape: tuple[int, ...], dtype: Any) -> Any:
    """Bytes with the extremes among them, perhaps a strided or transposed view."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    layout = draw(st.sampled_from(["plain", "transposed", "strided"]))
    whole = (*shape[:-2], *(shape[-2:][::-1] if layout == "transposed" else shape[-2:]))
    whole = (*whole[:-1], 2 * whole[-1]) if layout == "strided" else whole
    values = rng.integers(low, high + 1, whole).astype(dtype)
    if draw(st.booleans()):
        values = np.where(rng.random(whole) < 0.5, low, high).astype(dtype)
    if layout == "transposed":
        return values.swapaxes(-1, -2) if len(shape) > 1 else values
    return values[..., ::2] if layout == "strided" else values


TYPES = st.sampled_from([np.uint8, np.int8])


@pytest.mark.long
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_products_less_their_zero_points(data: st.DataObject) -> None:
    rows, depth, columns = (data.draw(st.integers(1, most)) for most in (40, 300, 40))
    depth = data.draw(st.sampled_from([depth, depth, depth, 4000]))
    lead = data.draw(st.sampled_from([(), (), (2,), (1, 3)]))
    left, right = data.draw(TYPES), data.draw(TYPES)
    a, b = data.draw(codes((*lead, rows, depth), left)), data.draw(codes((depth, columns), right))
    zeros = (None, (), (1,))
    a_zero, b_zero = (
        None if shape is None else data.draw(codes(shape, dtype)) if shape else dtype(data.draw(st.integers(0, 127)))
        for dtype, shape in (
            (left, data.draw(st.sampled_from(zeros))),
            (right, data.draw(st.sampled_from([*zeros, (columns,)]))),
        )
    )
    a_zero, b_zero = (None if z is None else np.asarray(z) for z in (a_zero, b_zero))
    quick, plain = both(lambda: to_int32(ByteMatrix(b, b_zero).product(a, a_zero)))
    assert_same_bits(quick, plain)
    expected = (a.astype(np.int64) - (0 if a_zero is None else a_zero)) @ (
        b.astype(np.int64) - (0 if b_zero is None else b_zero)
    )
    np.testing.assert_array_equal(quick, expected)


def test_sums_that_could_overflow_are_left_to_numpy() -> None:
    a, b = np.full((2, 40_000), 255, np.uint8), np.full((40_000, 3), 255, np.uint8)
    quick, plain = both(lambda: to_int32(ByteMatrix(b, None).product(a, None)))
    assert_same_bits(quick, plain)
    np.testing.assert_array_equal(quick, np.int32(40_000 * 255 * 255 - (1 << 32)))


def test_products_in_pieces_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((150, 300), (300, 70)))
    monkeypatch.setattr(byte_products, "LONGEST", 1000)
    monkeypatch.setattr(threads, "WORTH", 1)
    assert_same_bits(*both(lambda: to_int32(ByteMatrix(b, np.array(3, np.uint8)).product(a, np.array(9, np.uint8)))))


def test_a_zero_point_per_row_and_odd_ranks_are_left_to_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (3, 20)).astype(np.uint8), rng.integers(0, 256, (20, 4)).astype(np.uint8)
    zero = np.array([1, 2, 3], np.uint8)
    assert_same_bits(*both(lambda: to_int32(ByteMatrix(b, None).product(a, zero))))
    assert_same_bits(*both(lambda: to_int32(ByteMatrix(b, None).product(a[0], None))))
    stacked = np.stack([b, b])
    assert_same_bits(*both(lambda: to_int32(ByteMatrix(stacked, None).product(a, None))))


def prepared(op_type: str, inputs: list[Any], constant: set[int], domain: str, opset: int, **attributes: Any) -> Any:
    """Return what the prepared kernel computes where the inputs of these indices are constants."""
    kernel = find(op_type, opset, domain)
    assert kernel.prepare is not None
    run = kernel.prepare(tuple(x if i in constant else None for i, x in enumerate(inputs)), **attributes)
    assert run is not None
    return run(*inputs)


def number(value: float, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


@pytest.mark.parametrize("columns", [5, 64])
@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "op_type", ["MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm"]
)
def test_operators_with_constant_matrices(op_type: str, right: Any, rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows + columns)
    a = rng.integers(0, 256, (rows, 130)).astype(np.uint8)
    b = rng.integers(np.iinfo(right).min, np.iinfo(right).max + 1, (130, columns)).astype(right)
    a_zero, b_zero, each = number(131, np.uint8), number(3, right), rng.random(columns).astype(np.float32)
    inputs, constant, attributes = {
        "MatMulInteger": ([a, b, a_zero, b_zero], {1, 3}, {}),
        "QLinearMatMul": (
            [a, number(0.1), a_zero, b, each, b_zero, number(3.0), number(100, np.uint8)], {3, 4, 5}, {},
        ),
        "MatMulIntegerToFloat": ([a, b, number(0.1), each, a_zero, b_zero, each], {1, 5}, {}),
        "DynamicQuantizeMatMul": ([a.astype(np.float32) * 0.03 - 2, b, each, b_zero, each], {1, 3}, {}),
        "QGemm": (
            [a, number(0.1), a_zero, np.ascontiguousarray(b.T), each, b_zero, np.arange(columns, dtype=np.int32)],
            {3, 5},
            {"alpha": 0.5, "transB": 1},
        ),
    }[op_type]  # fmt: skip
    domain, opset = ("", 10) if op_type in ("MatMulInteger", "QLinearMatMul") else (MICROSOFT, 1)
    quick, plain = both(lambda: prepared(op_type, inputs, constant, domain, opset, **attributes))
    assert_same_bits(quick, plain)
    assert_same_bits(plain, find(op_type, opset, domain).function(*inputs, **attributes))


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_convolutions_with_constant_weights(data: st.DataObject) -> None:
    draw, left, right = data.draw, data.draw(TYPES), data.draw(TYPES)
    rank = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    sizes = [draw(st.integers(5, 9)) for _ in range(rank)]
    channels, outputs, images = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 2))
    attributes = {
        "strides": [draw(st.integers(1, 2)) for _ in range(rank)],
        "dilations": [draw(st.integers(1, 2)) for _ in range(rank)],
        "pads": [draw(st.integers(0, 2)) for _ in range(2 * rank)],
    }
    x, w = draw(codes((images, channels, *sizes), left)), draw(codes((outputs, channels, *kernel), right))
    w_zero = draw(codes((outputs,) if draw(st.booleans()) else (1,), right))
    x_zero = number(draw(st.integers(0, 127)), left)
    kind = draw(st.sampled_from(["ConvInteger", "QLinearConv"]))
    inputs, constant = [x, w, x_zero, w_zero], {1, 3}
    if kind == "QLinearConv":
        inputs = [x, number(0.1), x_zero, w, number(0.2), w_zero, number(3.1), number(7, left)]
        inputs.append(draw(st.sampled_from([np.arange(outputs), np.full(outputs, (1 << 30) + 1)])).astype(np.int32))
        constant = {3, 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_convolution, "_DEEP", 1)
        quick, plain = both(lambda: prepared(kind, inputs, constant, "", 10, **attributes))
    assert_same_bits(quick, plain)
    assert_same_bits(plain, find(kind, 10).function(*inputs, **attributes))


def test_attention_with_constant_weights() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.integers(0, 256, (2, 5, 16)).astype(np.uint8), rng.integers(-128, 128, (16, 24)).astype(np.int8)
    bias = rng.standard_normal(24).astype(np.float32)
    inputs = [x, weight, bias, number(0.01), number(0.02), None, number(120, np.uint8), number(0, np.int8)]
    quick, plain = both(lambda: prepared("QAttention", inputs, {1, 7}, MICROSOFT, 1, num_heads=2))
    assert_same_bits(quick, plain)
    assert_same_bits(plain, find("QAttention", 1, MICROSOFT).function(*inputs, num_heads=2))


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("activations", [None, ("Sigmoid", "Tanh", "Relu")])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 24), (3, 64), (2, 192)])
def test_recurrent_layers(batch: int, hidden: int, activations: Any, per_column: bool) -> None:
    rng = np.random.default_rng(hidden)
    x = rng.standard_normal((6, batch, 10)).astype(np.float32)
    w, r = (rng.integers(0, 255, (1, rows, 4 * hidden)).astype(np.uint8) for rows in (10, hidden))
    shape = (1, 4 * hidden) if per_column else (1,)
    scales = [(rng.random(shape) * 0.01).astype(np.float32) for _ in range(2)]
    zeros = [np.full(shape, 127, np.uint8) for _ in range(2)]
    inputs = [x, w, r, rng.standard_normal((1, 8 * hidden)).astype(np.float32), None, None, None, None]
    inputs += [scales[0], zeros[0], scales[1], zeros[1]]
    attributes = {"hidden_size": hidden} | ({"activations": activations} if activations else {})
    constant = {1, 2, 8, 9, 10, 11}
    assert_same_bits(*both(lambda: prepared("DynamicQuantizeLSTM", inputs, constant, MICROSOFT, 1, **attributes)))


def fake(name: str = "numkong", **parts: Any) -> Any:
    return SimpleNamespace(__name__=name, __version__="7.8.6", **parts)


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (None, "not installed"),
        (fake(get_capabilities=lambda: {"serial": True, "icelake": False}), "no kernels for this processor"),
        (
            fake(
                get_capabilities=lambda: {"haswell": True},
                dots_pack=lambda b: b,
                dots_packed=lambda a, b: a.astype(np.int32) @ b.T.astype(np.int32) + np.int32(1),
            ),
            "computed a wrong product",
        ),
    ],
    ids=["missing", "no instructions", "wrong"],
)
def test_numpy_multiplies_where_numkong_may_not(library: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numkong", library)
    found = numkong.__wrapped__()
    assert said in found.text
    assert not found.pays(1, 4096, 4096)


def test_few_rows_alone_gain_without_instructions_for_bytes() -> None:
    slow, quick = NumKong("", object()), NumKong("", object(), has_byte_instructions=True)
    assert slow.pays(4, 768, 768)
    assert not slow.pays(8, 768, 768)
    assert not slow.pays(1, 64, 64)
    assert not slow.pays(64, 768, 768)
    assert quick.pays(64, 768, 768)
    assert not quick.pays(64, 64, 768)
