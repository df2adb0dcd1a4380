"""Normalisations: every version of BatchNormalization by its own rules, the others against definitions in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.nn.normalization import prepare_batch_normalization
from tests.examples import examples
from tests.exec.kernels.harness import call

shapes = st.lists(st.integers(1, 6), min_size=2, max_size=5).map(tuple)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def statistics(channels: int) -> list[Any]:
    return [normal(channels), normal(channels) + 1, normal(channels) / 3, np.abs(normal(channels)) + 0.5]


def expected_batch(x: Any, scale: Any, b: Any, mean: Any, var: Any) -> Any:
    shape = (1, -1, *(1,) * (x.ndim - 2))
    scale, b, mean, var = (np.asarray(v, np.float64).reshape(shape) for v in (scale, b, mean, var))
    return (x - mean) / np.sqrt(var + 1e-5) * scale + b


@settings(max_examples=examples(40), deadline=None)
@given(shapes, st.sampled_from([1, 6, 7, 9, 14, 15]))
def test_batch_normalization_for_inference(shape: tuple[int, ...], opset: int) -> None:
    x, parts = normal(*shape), statistics(shape[1])
    attributes = {"is_test": 1} if opset < 7 else {}
    result = call("BatchNormalization", [x, *parts], opset=opset, **attributes)
    np.testing.assert_allclose(result[0], expected_batch(x, *parts), rtol=1e-4, atol=1e-5)
    prepared = prepare_batch_normalization([None, *parts], **attributes)
    assert prepared is not None
    for _ in range(2):
        np.testing.assert_allclose(prepared(x, *parts)[0], result[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("side", [9, 400])
@pytest.mark.parametrize("turned", [False, True])
def test_batch_normalization_of_maps_within_a_block_and_beyond(side: int, turned: bool) -> None:
    x, parts = normal(2, 3, side, side), statistics(3)
    expected = expected_batch(x, *parts)
    given = np.asfortranarray(x) if turned else x
    prepared = prepare_batch_normalization([None, *parts])
    assert prepared is not None
    for result in (call("BatchNormalization", [given, *parts], opset=15)[0], prepared(given, *parts)[0]):
        assert result.flags.c_contiguous
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [1, 6, 7, 9])
def test_old_batch_normalization_trains_when_all_outputs_are_wanted(opset: int) -> None:
    x, parts = normal(4, 3, 5, 2), statistics(3)
    y, mean, var, saved_mean, saved_var = call("BatchNormalization", [x, *parts], opset=opset, outputs=5, momentum=0.8)
    now = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    np.testing.assert_allclose(y, expected_batch(x, parts[0], parts[1], *now), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(mean, parts[2] * 0.8 + now[0] * 0.2, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(var, parts[3] * 0.8 + now[1] * 0.2, rtol=1e-4)
    np.testing.assert_allclose(saved_mean, now[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(saved_var, now[1], rtol=1e-4)


@pytest.mark.parametrize("opset", [1, 6, 7])
def test_statistics_per_feature(opset: int) -> None:
    x = normal(2, 3, 4)
    parts = [normal(3, 4), normal(3, 4) + 1, normal(3, 4) / 2, np.abs(normal(3, 4)) + 1]
    attributes = {"is_test": 1} if opset < 7 else {}
    result = call("BatchNormalization", [x, *parts], opset=opset, spatial=0, **attributes)[0]
    expected = (x - parts[2]) / np.sqrt(parts[3] + 1e-5) * parts[0] + parts[1]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=examples(40), deadline=None)
@given(shapes, st.integers(-5, 4), st.booleans())
def test_layer_normalization(shape: tuple[int, ...], axis: int, with_bias: bool) -> None:
    axis = axis % len(shape)
    x, scale = normal(*shape), normal(*shape[axis:])
    b = normal(*shape[axis:]) + 1 if with_bias else None
    y, mean, inverse = call("LayerNormalization", [x, scale, b], opset=17, outputs=3, axis=axis)
    along = tuple(range(axis, len(shape)))
    wide = x.astype(np.float64)
    expected_mean = wide.mean(axis=along, keepdims=True)
    expected_inverse = 1 / np.sqrt(wide.var(axis=along, keepdims=True) + 1e-5)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(inverse, expected_inverse, rtol=1e-3)
    expected = (wide - expected_mean) * expected_inverse * scale + (0 if b is None else b)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization"])
def test_a_scale_that_varies_over_the_other_axes(op_type: str) -> None:
    x, scale = normal(2, 3, 4), normal(3, 1)
    opset = 17 if op_type == "LayerNormalization" else 23
    result = call(op_type, [x, scale], opset=opset)
    plain = call(op_type, [x, np.ones(4, np.float32)], opset=opset)
    result, plain = (r[0] if isinstance(r, tuple) else r for r in (result, plain))
    np.testing.assert_allclose(result, plain * scale, rtol=1e-5, atol=1e-6)


def test_large_rows_go_through_in_blocks() -> None:
    x, scale = normal(700, 333), normal(333)
    y = call("LayerNormalization", [x, scale], opset=17)[0]
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)
    z = call("RMSNormalization", [x, scale], opset=23)
    np.testing.assert_allclose(z, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * scale, rtol=1e-4, atol=1e-6)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.booleans())
def test_group_and_instance_normalization(batch: int, groups: int, each: int, inner: int, half: bool) -> None:
    channels = groups * each
    x = normal(batch, channels, inner).astype(np.float16 if half else np.float32)
    scale, bias = normal(channels).astype(x.dtype), normal(channels).astype(x.dtype)
    result = call("GroupNormalization", [x, scale, bias], opset=21, num_groups=groups)
    wide = x.astype(np.float64).reshape(batch, groups, each * inner)
    plain = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    expected = plain.reshape(x.shape) * scale[:, None].astype(float) + bias[:, None].astype(float)
    assert result.dtype == x.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-2 if half else 1e-3, atol=1e-2 if half else 1e-4)
    if groups == channels:
        same = call("InstanceNormalization", [x, scale, bias], opset=6)
        np.testing.assert_allclose(same, expected, rtol=1e-2 if half else 1e-3, atol=1e-2 if half else 1e-4)


def test_group_normalization_18_scales_groups() -> None:
    x, scale, bias = normal(2, 6, 5), np.array([2, 3], np.float32), np.array([0, 1], np.float32)
    old = call("GroupNormalization", [x, scale, bias], opset=18, num_groups=2)
    new = call("GroupNormalization", [x, scale.repeat(3), bias.repeat(3)], opset=21, num_groups=2)
    np.testing.assert_allclose(old, new, rtol=1e-5)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 9), st.integers(1, 60), st.sampled_from([0.5, 0.75, 1.0, 0.6]))
def test_lrn_is_its_definition(channels: int, size: int, beta: float) -> None:
    x = normal(2, channels, 3, 4)
    result = call("LRN", [x], opset=13, size=size, alpha=0.3, beta=beta, bias=2.0)
    squares = x.astype(np.float64) ** 2
    total = np.zeros_like(squares)
    for c in range(channels):
        low, high = max(0, c - (size - 1) // 2), min(channels - 1, c + size // 2)
        total[:, c] = squares[:, low : high + 1].sum(axis=1)
    np.testing.assert_allclose(result, x / (2 + 0.3 / size * total) ** beta, rtol=1e-4)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_lp_normalization(p: int, axis: int) -> None:
    x = normal(3, 4)
    norm = np.linalg.norm(x.astype(np.float64), p, axis=axis, keepdims=True)
    np.testing.assert_allclose(call("LpNormalization", [x], opset=1, p=p, axis=axis), x / norm, rtol=1e-5)
    assert not call("LpNormalization", [np.zeros((2, 2), np.float32)], opset=22, p=p).any()


def test_mean_variance_normalization_over_other_axes() -> None:
    x = normal(2, 3, 4)
    result = call("MeanVarianceNormalization", [x], opset=9, axes=(-1, 0))
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axis=(0, 2), keepdims=True)) / wide.std(axis=(0, 2), keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes"),
    [
        ("BatchNormalization", 15, [(2, 3, 4), (3,), (3,), (3,), (4,)], {}),
        ("BatchNormalization", 15, [(2, 3, 4), (4,), (4,), (4,), (4,)], {}),
        ("GroupNormalization", 21, [(2, 6, 4), (6,), (6,)], {"num_groups": 4}),
        ("GroupNormalization", 21, [(2, 6, 4), (6,), (6,)], {"num_groups": 0}),
        ("GroupNormalization", 18, [(2, 6, 4), (6,), (6,)], {"num_groups": 2}),
        ("InstanceNormalization", 6, [(2, 6, 4), (5,), (6,)], {}),
        ("LayerNormalization", 17, [(2, 6), (6,)], {"axis": 2}),
        ("LayerNormalization", 17, [(2, 6), (5,)], {}),
        ("LRN", 13, [(2, 6)], {"size": 0}),
        ("LpNormalization", 1, [(2, 6)], {"p": 3}),
        ("LpNormalization", 1, [(2, 6)], {"axis": 5}),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises((KernelError, ValueError)):
        call(op_type, [np.ones(s, np.float32) for s in inputs], opset=opset, **attributes)
