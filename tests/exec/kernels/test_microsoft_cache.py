"""Attention whose past is a buffer longer than what it holds is that with a past of the right length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError
from tests.exec.kernels.harness import call

RNG = np.random.default_rng(0)
MICROSOFT = "com.microsoft"


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def buffer(past: Any, room: int) -> Any:
    """`past` (…, length, size) with room for more steps, filled with what nobody may see."""
    padded = np.full((*past.shape[:-2], past.shape[-2] + room, past.shape[-1]), np.nan, np.float32)
    padded[..., : past.shape[-2], :] = past
    return padded


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("length", [0, 3])
def test_attention_writes_into_its_past(length: int, unidirectional: int) -> None:
    x, weights, bias, past = f(2, 2, 6), f(6, 12), f(12), f(2, 2, 2, length, 2)
    report = {"num_heads": 2, "unidirectional": unidirectional}
    y, present = call("Attention", [x, weights, bias, None, past], opset=1, domain=MICROSOFT, outputs=2, **report)
    given = [x, weights, bias, None, buffer(past, 4), None, np.array([length], np.int32)]
    found, whole = call(
        "Attention", given, opset=1, domain=MICROSOFT, outputs=2, past_present_share_buffer=1, **report
    )  # fmt: skip
    np.testing.assert_allclose(found, y, rtol=1e-6)
    np.testing.assert_array_equal(whole[..., : length + 2, :], present)
    np.testing.assert_array_equal(whole[..., length + 2 :, :], np.full((2, 2, 2, 2, 2), np.nan))


def test_attention_of_several_heads_writes_into_its_past() -> None:
    q, k, v, key, value = f(2, 1, 8), f(2, 1, 8), f(2, 1, 8), f(2, 2, 3, 4), f(2, 2, 3, 4)
    common = {"opset": 1, "domain": MICROSOFT, "outputs": 3, "num_heads": 2}
    expected = call("MultiHeadAttention", [q, k, v, None, None, None, key, value], **common)
    given = [q, k, v, None, None, None, buffer(key, 2), buffer(value, 2), np.array(3, np.int32)]
    found = call("MultiHeadAttention", given, **common)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    for whole, present in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(whole[:, :, :4], present)
    swapped = np.array([[[1, 1, 1], [0, 0, 0]]], np.int32)  # each beam goes on from the other
    given = [q, k, v, None, None, None, key, value, None, swapped]
    found = call("MultiHeadAttention", given, **common)
    other = call("MultiHeadAttention", [q, k, v, None, None, None, key[::-1], value[::-1]], **common)
    np.testing.assert_allclose(found[0], other[0], rtol=1e-6)


@pytest.mark.parametrize("place", [None, np.array([4], np.int32), np.array([-1], np.int32)])
def test_a_buffer_without_room_or_place_is_refused(place: Any) -> None:
    given = [f(2, 2, 6), f(6, 12), f(12), None, f(2, 2, 2, 5, 2), None, place]
    with pytest.raises(KernelError):
        call("Attention", given, opset=1, domain=MICROSOFT, num_heads=2, past_present_share_buffer=1)
