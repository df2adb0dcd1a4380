"""Matrix products and convolutions with fused operations, and channels-last variants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.onnx_calls import (
    MICROSOFT,
    activate,
    activate_in_order,
    channels_first,
    channels_last,
    onnx,
)
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import integers, scalar_float
from onnx_workbench.exec.kernels.shared.dtypes import cast, dtype_of, narrow, widen
from onnx_workbench.exec.kernels.shared.windows import padded, window, windows_of
from onnx_workbench.exec.values.arrays import Array, check_size

Ints = Sequence[int] | None


def _laid_out(x: Array, transposed: int, batch_first: int) -> Array:
    """Return a factor of FusedMatMul as (batch …, rows, columns)."""
    if batch_first and x.ndim > 2:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if transposed and x.ndim > 1 else x


def fused_product(a: Array, b: Array, alpha: float, transposes: Sequence[int]) -> Array:
    """alpha · A' · B'; the flags are transA, transB, transBatchA, transBatchB."""
    trans_a, trans_b, batch_a, batch_b = transposes
    y = onnx("MatMul", 13, _laid_out(a, trans_a, batch_a), _laid_out(b, trans_b, batch_b))
    return np.asarray(y) if alpha == 1 else narrow(np.asarray(widen(y) * np.float32(alpha)), a.dtype)


@kernel("TransposeMatMul", since=1, domain=MICROSOFT, without=("transBatchA", "transBatchB"))
@kernel("FusedMatMul", since=1, domain=MICROSOFT)
def fused_matmul_1(
    a: Array,
    b: Array,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Array:
    """alpha · A' · B', where the factors may be transposed, or have their rows before the batch."""
    return fused_product(a, b, alpha, (transA, transB, transBatchA, transBatchB))


@kernel("FusedMatMulActivation", since=1, domain=MICROSOFT)
def fused_matmul_activation_1(
    a: Array,
    b: Array,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Array:
    """FusedMatMul and an activation."""
    y = fused_product(a, b, alpha, (transA, transB, transBatchA, transBatchB))
    if activation == "Softmax":
        return np.asarray(onnx("Softmax", 13, y, axis=-1 if activation_axis is None else activation_axis))
    return activate(y, activation, activation_alpha, activation_beta, activation_gamma)


@kernel("FusedGemm", since=1, domain=MICROSOFT)
def fused_gemm_1(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Gemm and an activation."""
    y = onnx("Gemm", 13, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activate(y, activation, activation_alpha, activation_beta, activation_gamma)


@kernel("GemmFloat8", since=1, domain=MICROSOFT)
def gemm_float8_1(
    a: Array,
    b: Array,
    c: Array | None = None,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    scale_y: Array | None = None,
    *,
    activation: str = "NONE",
    alpha: float = 1.0,
    beta: float = 0.0,
    dtype: int = 1,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Gemm of float8 or other floats times their scales, an activation, the scale of the result, and its type."""
    if activation not in ("NONE", "RELU", "GELU"):
        msg = f"activation is {activation!r}; expected NONE, RELU or GELU"
        raise KernelError(msg)
    left, right = (
        widen(x) if scale is None else widen(x) * np.float32(scalar_float(scale, name))
        for x, scale, name in ((a, scale_a, "scaleA"), (b, scale_b, "scaleB"))
    )
    added = None if c is None else widen(c)
    y = onnx("Gemm", 13, left, right, added, alpha=alpha, beta=beta, transA=transA, transB=transB)
    if activation == "RELU":
        y = np.maximum(y, 0)
    elif activation == "GELU":
        y = onnx("Gelu", 20, y, approximate="tanh")
    if scale_y is not None:
        y = y * np.float32(scalar_float(scale_y, "scaleY"))
    return cast(np.asarray(y), dtype_of(dtype))


@kernel("FusedConv", since=1, domain=MICROSOFT)
def fused_conv_1(
    x: Array,
    w: Array,
    b: Array | None = None,
    z: Array | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    """Conv, a sum with `z`, and an activation."""
    y = onnx(
        "Conv", 11, x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return activate_in_order(plus(y, z), activation, activation_params or ())


@kernel("NhwcConv", since=1, domain=MICROSOFT, without=("activation", "activation_params", "z"))
@kernel("NhwcFusedConv", since=1, domain=MICROSOFT)
def nhwc_fused_conv_1(
    x: Array,
    w: Array,
    b: Array | None = None,
    z: Array | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    """FusedConv of (N, H, W, C); the weights are laid out as in Conv."""
    y = fused_conv_1(
        np.ascontiguousarray(channels_first(x)), w, b, None if z is None else channels_first(z), activation=activation,
        activation_params=activation_params, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return np.ascontiguousarray(channels_last(y))


@kernel("NhwcMaxPool", since=1, domain=MICROSOFT)
def nhwc_max_pool_1(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = None,
    kernel_shape: Sequence[int],
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    """MaxPool of (N, H, W, C), of 8-bit integers too."""
    y = onnx(
        "MaxPool", 12, np.ascontiguousarray(channels_first(x)), auto_pad=auto_pad, ceil_mode=ceil_mode,
        dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return np.ascontiguousarray(channels_last(y[0] if isinstance(y, tuple) else y))


@kernel("MaxpoolWithMask", since=1, domain=MICROSOFT)
def maxpool_with_mask_1(
    x: Array,
    m: Array,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: Ints = None,
    pads: Ints = None,
    _storage_order: int = 0,  # is about indices, which are not returned
    strides: Ints = None,
) -> Array:
    """MaxPool with a mask: along the last axis of a window nothing counts from the first masked element on."""
    if x.ndim < 3 or m.ndim != x.ndim or m.shape[2:] != x.shape[2:] or not m.size or not kernel_shape:
        msg = f"X {x.shape}, mask {m.shape}, kernel_shape {kernel_shape}; expected them to have the same spatial axes"
        raise KernelError(msg)
    view = window(x.shape[2:], kernel_shape, strides=strides, pads=pads, auto_pad=auto_pad)
    planes = x.shape[0] * x.shape[1]
    check_size((planes, *view.kernel, *view.output), x.dtype)
    # The mask of a plane is defined only by ONNX Runtime, which begins at an offset into all masks. Over several axes
    # its first element always counts, and so do elements outside.
    size = prod(x.shape[2:])
    starts = np.arange(planes) * size % (m.shape[0] * m.shape[1])
    seen = m.reshape(-1)[starts[:, None] + np.arange(size)] != 0
    seen[:, 0] |= view.rank > 1
    seen = seen.reshape(planes, 1, *x.shape[2:])
    counted = np.logical_and.accumulate(windows_of(padded(seen, view, 1), view), axis=1 + view.rank)
    lowest = np.finfo(x.dtype).min
    values = windows_of(padded(x.reshape(planes, 1, *x.shape[2:]), view, lowest), view)
    largest = np.where(counted, values, lowest).max(tuple(range(2, 2 + view.rank)))
    return np.asarray(largest.reshape(*x.shape[:2], *view.output), x.dtype)


@kernel("ConvTransposeWithDynamicPads", since=1, domain=MICROSOFT)
def conv_transpose_with_dynamic_pads_1(
    x: Array,
    w: Array,
    pads: Array | None = None,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    output_padding: Ints = None,
    strides: Ints = None,
) -> Array:
    """ConvTranspose with the pads as an input."""
    widths = None if pads is None else tuple(integers(pads, "Pads"))
    return np.asarray(
        onnx(
            "ConvTranspose", 11, x, w, b, auto_pad=auto_pad, dilations=dilations, group=group,
            kernel_shape=kernel_shape, output_padding=output_padding, pads=widths, strides=strides,
        )
    )  # fmt: skip


@kernel("WordConvEmbedding", since=1, domain=MICROSOFT)
def word_conv_embedding_1(
    sequence: Array,
    w: Array,
    b: Array,
    c: Array,
    *,
    _char_embedding_size: int | None = None,  # given by the tables, as the others
    _conv_window_size: int | None = None,
    _embedding_size: int | None = None,
) -> Array:
    """For each word (a row of characters, zero-padded) the largest tanh of a convolution over them."""
    if sequence.ndim != 2 or w.ndim != 4 or w.shape[1] != 1 or c.shape[1:] != w.shape[3:] or (
        b.shape != w.shape[:1] or w.shape[2] < 1
    ):  # fmt: skip
        msg = f"Sequence {sequence.shape}, W {w.shape}, B {b.shape}, C {c.shape}; expected (words, characters), "
        msg += "(size, 1, window, depth), (size,) and (characters, depth)"
        raise KernelError(msg)
    width = w.shape[2]
    count = max(sequence.shape[1], width)
    letters = np.zeros((len(sequence), count), np.int64)
    letters[:, : sequence.shape[1]] = sequence
    check_size((len(sequence), count, max(w.shape[0], width * c.shape[1])), np.float32)
    lengths = np.count_nonzero(letters > 0, 1)
    windows = np.lib.stride_tricks.sliding_window_view(onnx("Gather", 13, c, letters), width, 1)
    y = np.tanh(np.tensordot(windows, w[:, 0], ((2, 3), (2, 1))) + b)
    inside = np.arange(y.shape[1]) <= np.maximum(lengths - width, 0)[:, None]
    largest = np.where(inside[:, :, None], y, -1).max(1)
    return np.asarray(np.where(lengths[:, None] > 0, largest, 0), w.dtype)


@kernel("Inverse", since=1, domain=MICROSOFT)
def inverse_1(x: Array) -> Array:
    """Return the inverse of square matrices."""
    try:
        return narrow(np.asarray(np.linalg.inv(widen(x))), x.dtype)
    except np.linalg.LinAlgError:
        msg = f"input has shape {x.shape}; expected square matrices in the last two axes, none of them singular"
        raise KernelError(msg) from None


@kernel("CDist", since=1, domain=MICROSOFT)
def cdist_1(a: Array, b: Array, *, metric: str = "sqeuclidean") -> Array:
    """Distances between the rows of A and of B."""
    if metric not in ("sqeuclidean", "euclidean") or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        msg = f"metric {metric!r} of shapes {a.shape} and {b.shape}; expected (sq)euclidean and rows of one length"
        raise KernelError(msg)
    squares = (a * a).sum(1)[:, None] - 2 * onnx("MatMul", 13, a, b.T) + (b * b).sum(1)
    squares = np.maximum(squares, 0).astype(a.dtype)
    return np.asarray(squares if metric == "sqeuclidean" else np.sqrt(squares))
