"""Convolutions in every way of computing them, compared with the definition, ONNX Runtime and hostile arguments."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.kernels.onnx.nn import strategies
from onnx_workbench.exec.kernels.onnx.nn.convolution import conv_1, prepare_conv
from onnx_workbench.exec.kernels.onnx.nn.depthwise import depthwise
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Window, window
from onnx_workbench.exec.kernels.threads import set_threads
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.limits import Limits, set_limits
from onnx_workbench.model.io.reader.read import load
from tests.examples import examples
from tests.exec.kernels.harness import call, check_against, ort_one_node


def naive(x: Any, w: Any, b: Any, view: Window, group: int) -> Any:
    """The definition: a sum over channels and taps for every output, in float64."""
    spatial = [(before, after) for before, after in zip(view.begin, view.end, strict=True)]
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *spatial])
    out = np.zeros((x.shape[0], w.shape[0], *view.output))
    each, outputs = w.shape[1], w.shape[0] // group
    for m in range(w.shape[0]):
        channels = slice(m // outputs * each, (m // outputs + 1) * each)
        for place in product(*(range(n) for n in view.output)):
            at = tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, s, k, d in zip(place, view.strides, view.kernel, view.dilations, strict=True)
            )
            out[(slice(None), m, *place)] = (padded[(slice(None), channels, *at)] * w[m]).sum(
                axis=tuple(range(1, x.ndim))
            )
    return out if b is None else out + b.reshape(-1, *(1,) * view.rank)


@st.composite
def convolutions(draw: Any, rank: int | None = None, kind: str = "any", way: str = "") -> Any:
    """(x, w, b, attributes, window): odd pads, strides, dilations, groups; fit for one way if it is named."""
    rank = draw(st.integers(1, 3)) if rank is None else rank
    axes = st.integers(1, 3 if rank == 3 else 4)
    kernel = [draw(axes) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [draw(st.integers(0, 3)) for _ in range(2 * rank)]
    sizes = [draw(st.integers(1, 9)) for _ in range(rank)]
    group = draw(st.integers(1, 3))
    each, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    if kind == "depthwise":
        group, each, outputs = draw(st.integers(1, 9)), 1, 1
    elif kind == "dense":
        group = 1
    if way == "pointwise":
        kernel, pads = [1] * rank, [0] * (2 * rank)
    elif way == "kw_stack":
        strides = [1] * rank
    batch = draw(st.integers(1 if way else 0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    for axis in range(rank):
        room = sizes[axis] + pads[axis] + pads[rank + axis]
        assume(room >= (kernel[axis] - 1) * dilations[axis] + 1)
    x = rng.standard_normal((batch, group * each, *sizes), np.float32)
    w = rng.standard_normal((group * outputs, each, *kernel), np.float32)
    b = rng.standard_normal(group * outputs, np.float32) if draw(st.booleans()) else None
    attributes = {"pads": tuple(pads), "strides": tuple(strides), "dilations": tuple(dilations), "group": group}
    view = window(sizes, kernel, strides=strides, dilations=dilations, pads=pads)
    return x, w, b, attributes, view


@settings(max_examples=examples(120), deadline=None)
@given(convolutions())
def test_conv_is_its_definition(case: Any) -> None:
    x, w, b, attributes, view = case
    result = call("Conv", [x, w, b], opset=13, **attributes)
    expected = naive(x, w, b, view, attributes["group"])
    assert result.dtype == x.dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, atol=2e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pointwise", "at_once", "im2col", "kw_stack"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_every_dense_way_gives_the_same(name: str, data: Any) -> None:
    x, w, b, _, view = data.draw(convolutions(2, "dense", name))
    out = np.full((x.shape[0], w.shape[0], *view.output), np.nan, np.float32)
    getattr(strategies, name)(w, b, view)(x, out)
    np.testing.assert_allclose(out, naive(x, w, b, view, 1), atol=2e-5)


def test_a_tiny_map_keeps_nothing_of_the_input_before() -> None:
    rng = np.random.default_rng(5)
    w, b = rng.standard_normal((3, 2, 3, 3), np.float32), rng.standard_normal(3, np.float32)
    view = window((4, 5), (3, 3), pads=(2, 0, 1, 7), strides=(1, 3))
    run = strategies.at_once(w, b, view)
    for images in (1, 20, 3):
        x = rng.standard_normal((images, 2, 4, 5), np.float32)
        out = np.full((images, 3, *view.output), np.nan, np.float32)
        run(x, out)
        np.testing.assert_allclose(out, naive(x, w, b, view, 1), atol=2e-5)


@settings(max_examples=examples(120), deadline=None)
@given(case=convolutions(2, "depthwise", "any"), block=st.sampled_from([1, 1000, 1 << 22]))
def test_a_depthwise_convolution_is_its_definition(case: Any, block: int) -> None:
    x, w, b, attributes, view = case
    out = np.full((x.shape[0], w.shape[0], *view.output), np.nan, np.float32)
    with patch("onnx_workbench.exec.kernels.onnx.nn.depthwise.BLOCK", block):
        depthwise(w, b, view)(x, out)
    np.testing.assert_allclose(out, naive(x, w, b, view, attributes["group"]), atol=2e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_what_is_not_finite_stays_in_its_windows(value: float) -> None:
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((2, 6, 14, 14), np.float32), rng.standard_normal((6, 1, 3, 3), np.float32)
    b = rng.standard_normal(6, np.float32)
    view = window(x.shape[2:], (3, 3), pads=(1, 1, 1, 1))
    run, expected, out = depthwise(w, b, view), np.empty_like(x), np.empty_like(x)
    run(x, expected)
    x[1, 3, 6, 5] = value
    with np.errstate(all="ignore"):
        run(x, out)
    reached = np.zeros(x.shape, bool)
    reached[1, 3, 5:8, 4:7] = True
    np.testing.assert_allclose(out[~reached], expected[~reached], atol=2e-5)
    assert np.isfinite(value) or not np.isfinite(out[reached]).any()


@pytest.mark.parametrize("shape", [(1, 64, 30, 31), (2, 32, 9, 65), (1, 96, 14, 14), (1, 8, 3, 300), (1, 64, 20, 96)])
def test_bands_of_large_maps_meet(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape, np.float32)
    w = rng.standard_normal((40, shape[1], 3, 3), np.float32) / 10
    view = window(shape[2:], (3, 3), pads=(1, 1, 1, 1))
    outs = []
    for name in ("im2col", "kw_stack"):
        out = np.full((shape[0], 40, *view.output), np.nan, np.float32)
        getattr(strategies, name)(w, None, view)(x, out)
        outs.append(out)
    for out in outs[1:]:
        np.testing.assert_allclose(out, outs[0], atol=2e-6 * np.abs(outs[0]).max())


@pytest.mark.parametrize("name", ["im2col", "kw_stack"])
@pytest.mark.parametrize("cores", [1, 3])
def test_of_a_small_map_each_core_reads_some_of_the_weights(
    name: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut by rows of the map, every core read all the weights, which are larger than the map."""
    shapes: list[tuple[int, ...]] = []

    product = np.matmul

    def noted(a: Any, b: Any, out: Any) -> None:
        shapes.append(a.shape)
        product(a, b, out=out)

    monkeypatch.setattr(strategies, "pieces", lambda _work: cores)
    monkeypatch.setattr(np, "matmul", noted)
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((2, 5, 4, 6), np.float32), rng.standard_normal((30, 5, 3, 3), np.float32)
    b = rng.standard_normal(30, np.float32)
    view = window((4, 6), (3, 3), pads=(1, 1, 1, 1))
    out = np.full((2, 30, 4, 6), np.nan, np.float32)
    getattr(strategies, name)(w, b, view)(x, out)
    monkeypatch.undo()
    np.testing.assert_allclose(out, naive(x, w, b, view, 1), atol=2e-5)
    assert [shape[0] for shape in shapes] == [30 // cores] * cores * 2


def test_a_kernel_of_many_columns_is_copied_in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shifted copies of the whole map were made at once: far more than a cache holds."""
    asked: list[int] = []

    def noted(slot: str, shape: tuple[int, ...], dtype: Any) -> Any:
        found = scratch(slot, shape, dtype)
        asked.append(found.nbytes)
        return found

    monkeypatch.setattr(strategies, "scratch", noted)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 8, 80, 264), np.float32)
    w = rng.standard_normal((8, 8, 3, 39), np.float32) / 30
    view = window(x.shape[2:], (3, 39), pads=(1, 19, 1, 19))
    out, expected = (np.full((1, 8, *view.output), np.nan, np.float32) for _ in range(2))
    strategies.kw_stack(w, None, view)(x, out)
    assert len(asked) > 1
    assert max(asked) < 6 << 20
    strategies.im2col(w, None, view)(x, expected)
    np.testing.assert_allclose(out, expected, atol=2e-6 * np.abs(expected).max())


def test_a_convolution_prepared_again_gives_the_same_bits() -> None:
    """Ways were timed on the first call, so that results differed from process to process by the timing."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 96, 14, 14), np.float32), rng.standard_normal((96, 96, 3, 3), np.float32)
    results = []
    for _ in range(3):
        prepared = prepare_conv([None, w], pads=(1, 1, 1, 1))
        assert prepared is not None
        results.append(prepared(x, w))
    assert all(np.array_equal(result, results[0]) for result in results)


@settings(max_examples=examples(25), deadline=None)
@given(convolutions())
def test_prepared_conv_equals_the_plain_one(case: Any) -> None:
    x, w, b, attributes, _ = case
    prepared = prepare_conv([None, w, b], **attributes) if b is not None else prepare_conv([None, w], **attributes)
    assert prepared is not None
    plain = call("Conv", [x, w, b], opset=13, **attributes)
    inputs = [x, w] if b is None else [x, w, b]
    for _ in range(3):  # with weights to set up, then twice as they are
        np.testing.assert_allclose(prepared(*inputs), plain, atol=2e-5)
    np.testing.assert_allclose(prepared(*[np.asfortranarray(x), *inputs[1:]]), plain, atol=2e-5)
    assert prepared(*[x.astype(np.float64), *[v.astype(np.float64) for v in inputs[1:]]]).dtype == np.float64


def test_threads_give_what_one_thread_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_workbench.exec.kernels.threads.WORTH", 1)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 32, 40, 40), np.float32)
    w = rng.standard_normal((48, 32, 3, 3), np.float32)
    d = rng.standard_normal((32, 1, 3, 3), np.float32)
    attributes = {"pads": (1, 1, 1, 1)}
    before = [call("Conv", [x, w], opset=13, **attributes), call("Conv", [x, d], opset=13, group=32, **attributes)]
    set_threads(3)
    try:
        after = [call("Conv", [x, w], opset=13, **attributes), call("Conv", [x, d], opset=13, group=32, **attributes)]
    finally:
        set_threads(1)
    for one, three in zip(before, after, strict=True):
        np.testing.assert_allclose(three, one, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ((1, 64, 55, 55), (16, 64, 1, 1), {}),
        ((1, 96, 7, 7), (64, 96, 1, 1), {}),
        ((1, 32, 41, 37), (48, 32, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((1, 3, 65, 65), (64, 3, 3, 3), {"strides": (2, 2)}),
        ((1, 16, 33, 33), (24, 16, 3, 3), {"dilations": (2, 2)}),
        ((1, 16, 33, 33), (24, 16, 1, 5), {"pads": (0, 2, 0, 2)}),
    ],
)
def test_the_number_of_threads_changes_no_bit_of_a_convolution(
    monkeypatch: pytest.MonkeyPatch, shape: Any, kernel: Any, attributes: dict[str, Any]
) -> None:
    monkeypatch.setattr("onnx_workbench.exec.kernels.threads.WORTH", 1)
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal(shape, np.float32), rng.standard_normal(kernel, np.float32)
    results = []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            results.append(call("Conv", [x, w], opset=13, **attributes))
    finally:
        set_threads(1)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.long
@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_auto_pad_agrees_with_onnxruntime(op_type: str, stride: int, auto_pad: str, opset: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 2, 9, 10), np.float32)
    w = rng.standard_normal((2, 2, 3, 4), np.float32)
    check_against(ort_one_node, op_type, [x, w], opset=opset, auto_pad=auto_pad, strides=(stride, stride))


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": (2, 3), "output_padding": (1, 2)},
        {"strides": (2, 2), "pads": (1, 0, 2, 1)},
        {"strides": (2, 2), "output_shape": (9, 11)},
        {"strides": (3, 3), "output_shape": (13, 12), "auto_pad": "SAME_UPPER"},
        {"dilations": (2, 3), "pads": (1, 2, 3, 4)},
        {"group": 2, "strides": (2, 1)},
        {"strides": (3, 3), "dilations": (2, 2)},
    ],
)
def test_conv_transpose_agrees_with_onnxruntime(attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    group = attributes.get("group", 1)
    x = rng.standard_normal((2, 4, 5, 6), np.float32)
    w = rng.standard_normal((4, 6 // group, 3, 2), np.float32)
    b = rng.standard_normal(6, np.float32)
    check_against(ort_one_node, "ConvTranspose", [x, w, b], opset=11, rtol=1e-4, atol=1e-5, **attributes)


@settings(max_examples=examples(60), deadline=None)
@given(convolutions(2))
def test_conv_transpose_is_the_gradient_of_conv(case: Any) -> None:
    # <Conv(x), y> = <x, ConvTranspose(y)> for every x and y
    x, w, _, attributes, view = case
    assume(x.shape[0])
    rng = np.random.default_rng(5)
    y = rng.standard_normal((x.shape[0], w.shape[0], *view.output)).astype(np.float32)
    back = call("ConvTranspose", [y, w], opset=11, output_shape=None, **_reaching(attributes, view))
    forward = call("Conv", [x, w], opset=11, **attributes)
    left = float((forward.astype(np.float64) * y).sum())
    right = float((x.astype(np.float64) * back).sum())
    assert left == pytest.approx(right, rel=1e-3, abs=1e-2)


def _reaching(attributes: dict[str, Any], view: Window) -> dict[str, Any]:
    """The attributes with an output_padding that restores inputs no window looked at."""
    extra = [
        size + b + e - reach for size, b, e, reach in zip(view.sizes, view.begin, view.end, view.reach, strict=True)
    ]
    return {**attributes, "output_padding": tuple(extra)}


@settings(max_examples=examples(40), deadline=None)
@given(convolutions(), st.sampled_from([np.uint8, np.int8]), st.integers(0, 1 << 20))
def test_conv_integer_is_exact(case: Any, dtype: Any, seed: int) -> None:
    x, w, _, attributes, view = case
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    xi = rng.integers(info.min, info.max, x.shape, dtype, endpoint=True)
    wi = rng.integers(-128, 127, w.shape, np.int8, endpoint=True)
    zero = np.array(rng.integers(info.min, info.max), dtype)
    result = call("ConvInteger", [xi, wi, zero, None], opset=10, **attributes)
    shifted = xi.astype(np.int64) - int(zero)
    expected = naive(shifted, wi.astype(np.int64), None, view, attributes["group"])
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv_agrees_with_onnxruntime(per_channel: bool) -> None:
    rng = np.random.default_rng(6)
    x = rng.integers(0, 255, (1, 8, 12, 12), np.uint8)
    w = rng.integers(-127, 127, (6, 8, 3, 3), np.int8)
    scales = rng.uniform(0.01, 0.03, 6 if per_channel else ()).astype(np.float32)
    zeros = np.zeros(6 if per_channel else (), np.int8)
    inputs = [
        *(x, np.array(0.02, np.float32), np.array(131, np.uint8), w, scales, zeros),
        *(np.array(0.6, np.float32), np.array(120, np.uint8), rng.integers(-500, 500, 6, np.int32)),
    ]
    ours = call("QLinearConv", inputs, opset=10, pads=(1, 1, 1, 1))
    (theirs,) = ort_one_node("QLinearConv", inputs, opset=10, pads=(1, 1, 1, 1))
    assert ours.dtype == theirs.dtype
    # One step where a value lies on the edge between two.
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
    assert (ours == theirs).mean() > 0.99


def test_low_precision_sums_in_float32() -> None:
    x = np.full((1, 4096, 1, 1), 1, np.float16)
    w = np.full((1, 4096, 1, 1), 1, np.float16)
    assert call("Conv", [x, w], opset=13).item() == 4096  # in float16 the sum would stop at 2048


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ([(1, 3, 8, 8), (4, 2, 3, 3)], {}),
        ([(1, 3, 8, 8), (4, 3, 3)], {}),
        ([(1, 3), (4, 3)], {}),
        ([(1, 4, 8, 8), (4, 2, 3, 3)], {"group": 0}),
        ([(1, 4, 8, 8), (4, 2, 3, 3)], {"group": -2}),
        ([(1, 3, 2, 2), (4, 3, 5, 5)], {}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"strides": (0, 1)}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"strides": (1,)}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"pads": (-1, 0, 0, 0)}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"pads": (1 << 40, 0, 0, 0)}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"dilations": (1 << 40, 1)}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"kernel_shape": (2, 2)}),
        ([(1, 3, 8, 8), (4, 3, 3, 3)], {"auto_pad": "AROUND"}),
        ([(1, 3, 8, 8), (4, 3, 3, 3), (5,)], {}),
    ],
)
def test_what_does_not_fit_is_named(inputs: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError, match=r"expected|does not fit|but W has"):
        call("Conv", [np.zeros(s, np.float32) for s in inputs], opset=13, **attributes)


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_giant_outputs_meet_the_limit(op_type: str) -> None:
    attributes = {"pads": (1 << 20,) * 4} if op_type == "Conv" else {"output_shape": (1 << 20, 1 << 20)}
    set_limits(Limits(max_bytes=1 << 30))
    try:
        with pytest.raises(LimitError):
            call(
                op_type,
                [np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 1, 3, 3), np.float32)],
                opset=11,
                **attributes,
            )
    finally:
        set_limits(None)


def test_causal_convolution_in_pieces_is_the_whole() -> None:
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((2, 3, 11), np.float32), rng.standard_normal((3, 1, 4), np.float32)
    whole, last = call("CausalConvWithState", [x, w], opset=27, outputs=2, activation="silu")
    first, state = call("CausalConvWithState", [x[:, :, :2], w], opset=27, outputs=2, activation="silu")
    rest, end = call("CausalConvWithState", [x[:, :, 2:], w, None, state], opset=27, outputs=2, activation="silu")
    np.testing.assert_allclose(np.concatenate([first, rest], axis=2), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(end, last)


@pytest.mark.parametrize(
    ("channels", "kernel", "attributes"),
    [
        (64, 3, {"pads": (1, 1, 1, 1)}),
        (64, 3, {"pads": (2, 2, 2, 2), "dilations": (2, 2)}),
        (100, 3, {"pads": (1, 1, 1, 1)}),
        (16, 1, {}),
        (24, 3, {"pads": (1, 1, 1, 1), "group": 24}),
        (24, 3, {"strides": (2, 2), "group": 3}),
    ],
)
@pytest.mark.parametrize("shift", [0, 3, 128])
def test_prepared_integer_weights_convolve_exactly(
    channels: int, kernel: int, attributes: dict[str, Any], shift: int
) -> None:
    random = np.random.default_rng(channels)
    x = random.integers(0, 256, (1, channels, 12, 12)).astype(np.uint8)
    w = random.integers(0, 256, (channels, channels // attributes.get("group", 1), kernel, kernel)).astype(np.uint8)
    zeros = np.array(shift, np.uint8), random.integers(0, 256, channels).astype(np.uint8)
    kernel = find("ConvInteger", 10)
    assert kernel.prepare is not None
    run = kernel.prepare([None, w, None, zeros[1]], **attributes)
    assert run is not None
    centred = [x.astype(np.float64) - shift, w.astype(np.float64) - zeros[1].reshape(-1, 1, 1, 1)]
    expected = call("Conv", centred, opset=11, **attributes).astype(np.int32)
    for function in (run, run, partial(kernel.function, **attributes)):  # the second time by what the first one kept
        np.testing.assert_array_equal(function(x, w, *zeros), expected, strict=True)


@pytest.mark.parametrize("group", [1, 2, 16])
@pytest.mark.parametrize(("strides", "pads"), [((1, 1), (1, 0, 1, 0)), ((2, 3), (0, 0, 2, 1))])
def test_a_single_column_is_convolved_as_over_one_axis(
    group: int, strides: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((2, 16, 90), np.float32), random.standard_normal((16, 16 // group, 5), np.float32)
    expected = call("Conv", [x, w], opset=11, group=group, strides=strides[:1], pads=(pads[0], pads[2]))
    column, attributes = [x[..., None], w[..., None]], {"group": group, "strides": strides, "pads": pads}
    run = prepare_conv([None, column[1]], **attributes)
    assert run is not None
    for result in call("Conv", column, opset=11, **attributes), run(*column), run(*column):
        np.testing.assert_allclose(result[..., 0], expected, atol=1e-5)


@pytest.mark.parametrize("attributes", [{"pads": (1, 1, 1, 1)}, {"group": 24, "strides": (2, 2)}])
@pytest.mark.parametrize("with_bias", [False, True])
def test_prepared_quantized_convolutions_give_the_same(attributes: dict[str, Any], with_bias: bool) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (2, 24, 12, 12)).astype(np.uint8)
    w = random.integers(-128, 128, (24, 24 // attributes.get("group", 1), 3, 3)).astype(np.int8)
    scales = np.array(0.02, np.float32), random.random(24).astype(np.float32), np.array(9, np.float32)
    bias = [random.integers(-1000, 1000, 24).astype(np.int32)] if with_bias else []
    inputs = [x, scales[0], np.array(7, np.uint8), w, scales[1], np.zeros(24, np.int8), scales[2]]
    inputs += [np.array(3, np.uint8), *bias]
    run = find("QLinearConv", 10).prepare([None, None, None, *inputs[3:]], **attributes)
    assert run is not None
    expected = call("QLinearConv", inputs, opset=10, **attributes)
    for _ in range(2):  # the second time by what the first one kept
        np.testing.assert_array_equal(run(*inputs), expected, strict=True)


@pytest.mark.parametrize("group", [1, 16])
def test_prepared_weights_of_16_bits_give_what_plain_ones_do(group: int) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 16, 20, 20)).astype(np.float16)
    w, b = random.standard_normal((16, 16 // group, 3, 3)).astype(np.float16), np.ones(16, np.float16)
    run = prepare_conv([None, w, b], group=group, pads=(1, 1, 1, 1))
    assert run is not None
    expected = conv_1(x, w, b, group=group, pads=(1, 1, 1, 1))
    for _ in range(2):
        found = run(x, w, b)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
    with pytest.raises(KernelError, match="same type"):
        run(x.astype(np.float32), w, b)


@pytest.mark.long
@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("case", ["infinite weight", "NaN weight", "weight near the limit", "infinite pixel"])
def test_what_is_not_finite_comes_from_what_it_is_multiplied_by(case, pads):
    """Transformed weights made NaN of infinities, and infinities of what is near the limit; padding made NaN."""
    rng = np.random.default_rng(0)
    x, w = (rng.random(shape, np.float32) * 0.1 for shape in ((1, 16, 24, 24), (16, 16, 3, 3)))
    if case == "infinite pixel":
        x[0, 2, 5, 7] = np.inf
    else:
        w[0, 1, 0, 0] = {"infinite weight": np.inf, "NaN weight": np.nan, "weight near the limit": 3e38}[case]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[pads] * 4)], "g", [info("x", 1, x.shape)],
        [info("y", 1, None)], [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    found = Session(load(model.SerializeToString())).run({"x": x}).outputs["y"]
    expected = np.zeros(found.shape)
    size = found.shape[2]
    with np.errstate(all="ignore"):
        for dy, dx, row, column in np.ndindex(3, 3, size, size):  # products with pixels alone
            at, beside = row + dy - pads, column + dx - pads
            if 0 <= at < 24 and 0 <= beside < 24:
                expected[0, :, row, column] += w[:, :, dy, dx].astype(np.float64) @ x[0, :, at, beside]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected.astype(np.float32)))
    fine = np.isfinite(expected)
    np.testing.assert_allclose(found[fine], expected[fine], rtol=1e-4)
