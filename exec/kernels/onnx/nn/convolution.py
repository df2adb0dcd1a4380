"""Conv, ConvInteger, QLinearConv and CausalConvWithState."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.nn import strategies
from onnx_workbench.exec.kernels.onnx.nn.byte_convolution import ByteConvolution
from onnx_workbench.exec.kernels.onnx.nn.depthwise import depthwise
from onnx_workbench.exec.kernels.registry import keeps, kernel, prepares
from onnx_workbench.exec.kernels.shared.broadcast import check_one_type
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, narrow, widen
from onnx_workbench.exec.kernels.shared.windows import Window, positions, window
from onnx_workbench.exec.values.arrays import Array, empty

#: Gives inputs, weights or outputs two spatial axes; a view.
_Flatten = Callable[[Array], Array]


@kernel("Conv", since=1)
def conv_1(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Sum over each window of (N, C, spatial…) with weights (M, C/group, kernel…) and bias (M,)."""
    check_one_type(x, w)
    view = conv_window(x, w, group, kernel_shape, b, auto_pad, dilations, pads, strides)
    return convolve(x, w, b, view, group)


@prepares(conv_1)
def prepare_conv(constants: Sequence[Array | None], **attributes: Any) -> Callable[..., Array] | None:
    """Keep weights in the form that the quickest way for the shape reads."""
    w, b = constants[1], constants[2] if len(constants) > 2 else None
    if w is None or (len(constants) > 2 and constants[2] is None) or w.dtype.char not in "fde":
        return None
    convolution = _convolution(widen(w), None if b is None else widen(b), attributes)

    def run(x: Array, weights: Array, _bias: Array | None = None) -> Array:
        if x.dtype != w.dtype:
            check_one_type(x, weights)
        return convolution(x)

    def run_half(x: Array, weights: Array, _bias: Array | None = None) -> Array:
        check_one_type(x, weights)
        return narrow(convolution(widen(x)), x.dtype)

    return run_half if w.dtype.char == "e" else run


def _convolution(w: Array, b: Array | None, attributes: dict[str, Any]) -> Callable[[Array], Array]:
    """Return a function that convolves inputs of the type of the weights, the quickest way for their shape."""
    group = attributes.get("group", 1)
    known: dict[tuple[int, ...], tuple[tuple[int, ...], _Flatten, strategies.Runner]] = {}

    def run(x: Array) -> Array:
        prepared = known.get(x.shape)
        if prepared is None:
            return first(x)
        shape, flat, runner = prepared
        out = empty(shape, x.dtype)
        x = x if x.flags.c_contiguous else np.ascontiguousarray(x)
        runner(flat(x), flat(out))
        return out

    def first(x: Array) -> Array:
        view = _window_of(x, w, b, attributes)
        flat, flat_view = _flattened(view)
        if not (x.size and w.size and positions(view)):
            return convolve(x, w, b, view, group)
        out = empty((x.shape[0], w.shape[0], *view.output), x.dtype)
        x = np.ascontiguousarray(x)
        if np.isfinite(w).all():
            runner = _quickest(flat(w), flat_view, group, x.shape[1])(flat(w), b, flat_view)
        else:
            runner = _taps(flat(w), b, flat_view, group)
        runner(flat(x), flat(out))
        if len(known) < _KEPT_SHAPES:
            known[x.shape] = out.shape, flat, runner
        return out

    return run


def _taps(w: Array, bias: Array | None, view: Window, group: int) -> strategies.Runner:
    """Return a runner that multiplies each weight by the pixels it meets: none by the zeros of the padding.

    For weights that are not finite, of which a product with 0 is NaN: these only, as it takes several times as long.
    """
    outputs, channels = w.shape[0] // group, w.shape[1]

    def run(x: Array, out: Array) -> None:
        out[...] = 0 if bias is None else bias.reshape(-1, *(1,) * view.rank)
        for tap in np.ndindex(*view.kernel):
            here, there = zip(*(_met(view, axis, at) for axis, at in enumerate(tap)), strict=True)
            pixels = x[(slice(None), slice(None), *there)]
            target = out[(slice(None), slice(None), *here)]
            columns = pixels.reshape(len(x), group, channels, -1)
            matrices = w[(slice(None), slice(None), *tap)].reshape(group, outputs, channels)
            np.add(target, np.matmul(matrices, columns).reshape(target.shape), out=target)

    return run


def _met(view: Window, axis: int, tap: int) -> tuple[slice, slice]:
    """Return the outputs whose window has a pixel at a tap, not padding, and these pixels."""
    step, offset = view.strides[axis], tap * view.dilations[axis] - view.begin[axis]
    first = max(0, -(offset // step))
    last = min(view.output[axis], (view.sizes[axis] - 1 - offset) // step + 1)
    last = max(first, last)
    start = first * step + offset
    return slice(first, last), slice(start, start + (last - first) * step, step)


#: Prepared weights are cached for this many input shapes of one node (dynamic axes give many).
_KEPT_SHAPES = 4


def _window_of(x: Array, w: Array, b: Array | None, attributes: dict[str, Any]) -> Window:
    return conv_window(
        x,
        w,
        attributes.get("group", 1),
        attributes.get("kernel_shape"),
        b,
        attributes.get("auto_pad", "NOTSET"),
        attributes.get("dilations"),
        attributes.get("pads"),
        attributes.get("strides"),
    )


def conv_window(
    x: Array,
    w: Array,
    group: int,
    kernel_shape: tuple[int, ...] | None,
    b: Array | None,
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> Window:
    """Return the window of a convolution, after checking that its inputs fit together."""
    if x.ndim < 3 or w.ndim != x.ndim:
        msg = f"X has shape {x.shape} and W {w.shape}, expected the same rank of at least 3"
        raise KernelError(msg)
    if group < 1 or w.shape[0] % group or w.shape[1] * group != x.shape[1]:
        msg = (
            f"X has {x.shape[1]} channels, W {w.shape[0]} outputs of {w.shape[1]} channels and group is {group}; "
            f"expected {x.shape[1]} = {w.shape[1]} × group, and outputs divisible by group"
        )
        raise KernelError(msg)
    if b is not None and b.shape != (w.shape[0],):
        msg = f"B has shape {b.shape}, expected ({w.shape[0]},)"
        raise KernelError(msg)
    if kernel_shape is not None and tuple(kernel_shape) != w.shape[2:]:
        msg = f"kernel_shape is {tuple(kernel_shape)}; expected {w.shape[2:]} as W has"
        raise KernelError(msg)
    return window(x.shape[2:], w.shape[2:], strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad)


def convolve(x: Array, w: Array, b: Array | None, view: Window, group: int) -> Array:
    """The convolution of weights that may differ in every call; any float or integer type, any number of axes."""
    dtype = compute_dtype(x.dtype)
    source = np.ascontiguousarray(widen(x))
    weights = widen(w).astype(dtype, copy=False)
    bias = None if b is None else widen(b).astype(dtype, copy=False)
    out = empty((x.shape[0], w.shape[0], *view.output), dtype)
    if not out.size:
        return narrow(out, x.dtype)
    if not source.size or not weights.size:
        out[...] = 0 if bias is None else bias.reshape(-1, *(1,) * view.rank)
        return narrow(out, x.dtype)
    flat, flat_view = _flattened(view)
    make = _quickest(flat(weights), flat_view, group, x.shape[1])
    make(flat(weights), bias, flat_view)(flat(source), flat(out))
    return narrow(out, x.dtype)


def _quickest(w: Array, view: Window, group: int, channels: int) -> strategies.Maker:
    """Return the maker of the quickest way."""
    if view.rank == 2 and group == 1:
        return strategies.quickest(w.shape, view)
    if view.rank == 2 and group == channels == w.shape[0] and np.isfinite(w).all():
        return depthwise  # leaves out rows of padding, whose zeros make NaN of weights that are not finite
    return partial(strategies.im2col, group=group)


def _flattened(view: Window) -> tuple[_Flatten, Window]:
    """Return a convolution over one axis, or over a single column, as one over a row, which is copied in long pieces.

    That is a view for its inputs, weights and outputs, and the window over two axes.
    """
    if view.rank == 1:
        one, none = (1,), (0,)
        row = Window(
            one + view.sizes,
            one + view.kernel,
            one + view.strides,
            one + view.dilations,
            none + view.begin,
            none + view.end,
            one + view.output,
        )
        return lambda x: x[:, :, None], row
    if view.rank == 2 and view.sizes[1] == view.kernel[1] == view.output[1] == 1 and not view.begin[1]:
        return lambda x: x.swapaxes(2, 3), Window(*(getattr(view, part.name)[::-1] for part in fields(view)))
    return _as_it_is, view


def _as_it_is(x: Array) -> Array:
    return x


# Quantized


#: Exact sums of (x - zero) (w - zero) for x and its zero point, as integers in a float array, as BLAS has no integers.
_Sums = Callable[[Array, "Array | None"], Array]


def _integer_sums(w: Array, w_zero: Array | None, attributes: dict[str, Any]) -> _Sums:
    """Return the sums of some weights.

    float32 is exact up to 2²⁴, float64 up to 2⁵³: the shorter type is used when no sum can exceed it.
    """
    weights, longest = _centred_weights(w, w_zero)
    by_bytes = ByteConvolution(w, w_zero) if attributes.get("group", 1) == 1 and w.ndim > 2 and w.size else None
    made: dict[type, Callable[[Array], Array]] = {}

    def sums(x: Array, x_zero: Array | None) -> Array:
        if by_bytes is not None and x.size:
            view = _window_of(x, w, None, attributes)
            if positions(view) and by_bytes.pays(view):
                shift, dtype = _exact_type(x, x_zero, longest)
                return by_bytes.sums(x, shift, view, dtype)
        source, dtype = _centred_input(x, x_zero, longest)
        if dtype not in made:
            made[dtype] = _convolution(weights.astype(dtype, copy=False), None, attributes)
        return made[dtype](source)

    return sums


def _kept_sums(w: Array, w_zero: Array | None, attributes: dict[str, Any]) -> _Sums | None:
    return None if w.ndim < 3 else _integer_sums(w, w_zero, attributes)


@keeps(1, _kept_sums, 3)
@kernel("ConvInteger", since=10)
def conv_integer_10(
    x: Array,
    w: Array | _Sums,
    x_zero_point: Array | None = None,
    w_zero_point: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Conv of 8-bit integers minus their zero points, exact in int32; padding has the value of the zero point."""
    sums = _integer_sums(w, w_zero_point, locals()) if isinstance(w, np.ndarray) else w
    return sums(x, x_zero_point).astype(np.int32)


@keeps(3, _kept_sums, 5)
@kernel("QLinearConv", since=10)
def qlinear_conv_10(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array | _Sums,
    w_scale: Array,
    w_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Quantized Conv: exact integer sums, plus the int32 bias, scaled to y, rounded half to even, saturated."""
    sums = _integer_sums(w, w_zero_point, locals()) if isinstance(w, np.ndarray) else w
    return _requantized(sums(x, x_zero_point), x_scale, w_scale, y_scale, y_zero_point, b)


def _requantized(
    total: Array, x_scale: Array, w_scale: Array, y_scale: Array, y_zero_point: Array, b: Array | None
) -> Array:
    """Return sums of integers, plus the bias, in the scale and type of y; overwrites `total`."""
    per_output = (-1, *(1,) * (total.ndim - 2))
    if b is not None:
        if b.shape != total.shape[1:2]:
            msg = f"B has shape {b.shape}, expected {total.shape[1:2]}"
            raise KernelError(msg)
        total += b.reshape(per_output).astype(total.dtype)
    scale = np.float32(x_scale.reshape(())) * w_scale.astype(np.float32) / np.float32(y_scale.reshape(()))
    scaled = total.astype(np.float32, copy=False)
    np.multiply(scaled, scale.reshape(per_output) if scale.size > 1 else scale.reshape(()), out=scaled)
    np.rint(scaled, out=scaled)
    scaled += np.float32(y_zero_point.reshape(()))
    limits = np.iinfo(y_zero_point.dtype)
    np.clip(scaled, limits.min, limits.max, out=scaled)
    return scaled.astype(y_zero_point.dtype)


def _centred_weights(w: Array, zero: Array | None) -> tuple[Array, float]:
    """Return weights less their zero points in float32, and the largest sum of their absolute values in one output."""
    weights: Array = w.astype(np.float32)
    if zero is not None and zero.any():
        weights -= zero.astype(np.float32).reshape((-1, *(1,) * (w.ndim - 1)) if zero.size > 1 else ())
    return weights, float(np.abs(weights).sum(axis=tuple(range(1, w.ndim))).max(initial=0))


def _centred_input(x: Array, zero: Array | None, longest: float) -> tuple[Array, type[np.float32 | np.float64]]:
    """Return x less its zero point in the shorter type in which sums with such weights are exact, and that type."""
    shift, dtype = _exact_type(x, zero, longest)
    source: Array = x.astype(dtype)
    if shift:
        source -= dtype(shift)
    return source, dtype


def _exact_type(x: Array, zero: Array | None, longest: float) -> tuple[int, type[np.float32 | np.float64]]:
    """Return the zero point of x, and the shorter type in which sums of x less it with such weights are exact."""
    shift, limits = 0 if zero is None else int(zero.reshape(-1)[0]), np.iinfo(x.dtype)
    largest = max(abs(int(limits.min) - shift), abs(int(limits.max) - shift))
    return shift, np.float32 if longest * largest < 1 << 24 else np.float64


# Stateful


@kernel("CausalConvWithState", since=27)
def causal_conv_with_state_27(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    *,
    activation: str = "none",
) -> tuple[Array, Array]:
    """Depthwise causal convolution over (N, C, L); also the last k-1 inputs for the next call."""
    if x.ndim != 3 or weight.ndim != 3 or weight.shape[:2] != (x.shape[1], 1) or not weight.shape[2]:
        msg = f"input has shape {x.shape} and weight {weight.shape}, expected (N, C, L) and (C, 1, k) with k from 1"
        raise KernelError(msg)
    if activation not in ("none", "silu", "swish"):
        msg = f"activation is {activation!r}, expected none, silu or swish"
        raise KernelError(msg)
    keep = weight.shape[2] - 1
    if past_state is None:
        past_state = np.zeros((*x.shape[:2], keep), x.dtype)
    if past_state.shape != (*x.shape[:2], keep):
        msg = f"past_state has shape {past_state.shape}, expected {(*x.shape[:2], keep)}"
        raise KernelError(msg)
    sequence = np.concatenate([past_state, x], axis=2)
    view = window(sequence.shape[2:], weight.shape[2:])
    dtype = compute_dtype(x.dtype)
    total = convolve(widen(sequence), widen(weight), None if bias is None else widen(bias), view, x.shape[1])
    if activation != "none":
        total = total / (1 + np.exp(-total, dtype=dtype))
    return narrow(total, x.dtype), sequence[:, :, sequence.shape[2] - keep :]
