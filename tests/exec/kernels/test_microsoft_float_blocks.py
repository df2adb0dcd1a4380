"""Products of com.microsoft with weights of float8, float4 and bytes in blocks, and 16 bits rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from onnx_workbench.exec.kernels.shared.dtypes import cast
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.exec.kernels.harness import assert_same
from tests.exec.kernels.test_microsoft import f, ours, u8


@pytest.mark.parametrize("activation", ["NONE", "RELU", "GELU"])
def test_products_of_eight_bits_with_a_fraction_are_scaled(activation: str) -> None:
    kind = ml_dtypes.float8_e4m3fn
    a, b, c = cast(f(4, 6), kind), cast(f(3, 6), kind), f(3)
    scales = [np.array([v], np.float32) for v in (0.5, 3, 0.25)]
    report = {"transB": 1, "alpha": 2.0, "beta": 0.5, "activation": activation}
    (found,) = ours("GemmFloat8", [a, b, c, *scales], dtype=TensorProto.FLOAT8E4M3FN, **report)
    plain = 2 * (a.astype(np.float64) * 0.5) @ (b.astype(np.float64) * 3).T + c / 2
    made = {
        "NONE": plain,
        "RELU": np.maximum(plain, 0),
        "GELU": plain / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (plain + 0.044715 * plain**3))),
    }[activation]
    assert found.dtype == kind
    np.testing.assert_allclose(found.astype(np.float64), made / 4, rtol=0.07, atol=0.01)
    (found,) = ours("GemmFloat8", [f(4, 6), f(6, 3)])
    assert (found.dtype, found.shape) == (np.float32, (4, 3))


@pytest.mark.parametrize("scale", [None, 0.5])
def test_products_with_blocks_of_float8(scale: float | None) -> None:
    kind = ml_dtypes.float8_e4m3fn
    a, b, scales, bias = f(2, 3, 40).astype(np.float16), cast(f(5, 40), kind), f(5, 3), f(5).astype(np.float16)
    given = a.astype(np.float32)
    if scale is not None:
        given = cast(given / np.float32(scale), kind).astype(np.float32) * scale
    weights = b.astype(np.float32) * np.repeat(scales, 16, 1)[:, :40]
    a_scale = None if scale is None else np.float32(scale).reshape(1)
    (found,) = ours("MatMulBlockQuantizedFp8Weight", [a, b, scales, a_scale, bias], block_size=16)
    assert_same(found, (given @ weights.T + bias.astype(np.float32)).astype(np.float16), rtol=2e-3, atol=2e-3)


def test_products_with_blocks_of_float4() -> None:
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    a, packed = f(3, 40).astype(np.float16), u8(5, 20)
    scales = cast(np.abs(f(5, 3)) + 1, ml_dtypes.float8_e4m3fn)
    weights = values[np.stack([packed & 15, packed >> 4], -1).reshape(5, 40)]
    weights = weights * np.repeat(scales.astype(np.float32), 16, 1)[:, :40] * 0.25
    (found,) = ours("MatMulBlockQuantizedFp4Weight", [a, packed, scales.view(np.uint8), np.array([0.25], np.float32)])
    assert_same(found, (a.astype(np.float32) @ weights.T).astype(np.float16), rtol=2e-3, atol=2e-2)


def test_blocks_larger_than_all_there_is_take_no_more_room() -> None:
    report = {"K": 16, "N": 4, "quant_type": 0}
    given = [f(2, 16), u8(32), f(1)]
    set_limits(Limits(max_bytes=1 << 20))
    (found,) = ours("MatMulBnb4", given, block_size=1 << 40, **report)
    set_limits(None)
    assert_same(found, ours("MatMulBnb4", given, block_size=64, **report)[0], rtol=0, atol=0)


def test_sixteen_bits_are_rounded_once() -> None:
    half = np.float16
    for op_type, wide, attributes in (
        ("Attention", [f(2, 6, 8), f(8, 24), f(24)], {"num_heads": 2}),
        ("SkipLayerNormalization", [f(2, 3, 8) * 30, f(2, 3, 8) * 30, f(8), f(8), f(8)], {}),
        ("SkipSimplifiedLayerNormalization", [f(2, 3, 8) * 30, f(2, 3, 8) * 30, f(8), f(8)], {}),
    ):
        narrow = [x.astype(half) for x in wide]
        exact = ours(op_type, [x.astype(np.float32) for x in narrow], **attributes)[0]
        assert_same(ours(op_type, narrow, **attributes)[0], exact.astype(half), rtol=1e-3, atol=1e-4)


def test_eight_bit_float_weights_are_gathered_and_scaled() -> None:
    data = cast(f(5, 32), ml_dtypes.float8_e4m3fn)
    scales, indices = f(5, 2), np.array([4, 7, -5])
    (found,) = ours("GatherBlockQuantized", [data, indices, scales], block_size=16)
    expected = (data.astype(np.float32) * np.repeat(scales, 16, 1))[[4, 0, 0]]
    expected[1] = 0  # out of range
    assert_same(found, expected, rtol=1e-6)
    (found,) = ours("GatherBlockQuantized", [data, indices[:1], scales[:1, :1]], block_size=0)
    assert_same(found, data[[4]].astype(np.float32) * scales[0, 0], rtol=1e-6)
