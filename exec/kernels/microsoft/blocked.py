"""Convolutions and pools in ONNX Runtime's blocked channel layout (NCHWc), as it writes them when it saves a model.

Between ReorderInput and ReorderOutput channels are padded to whole blocks; here values stay (N, C, …), since their
memory layout is not observable. Weights are stored in blocks whose size depends on the processor that wrote the file:
as in ONNX Runtime, it is assumed to be this one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import channels_first, onnx
from onnx_workbench.exec.kernels.microsoft.products import fused_conv_1
from onnx_workbench.exec.kernels.registry import keeps, kernel
from onnx_workbench.exec.values.arrays import Array, zeros

NCHWC = "com.microsoft.nchwc"


@cache
def block_size() -> int:
    """Channels per block in ONNX Runtime on this processor: 16 with AVX-512, else 8."""
    settings: Any = np.show_config(mode="dicts")
    extensions = settings.get("SIMD Extensions", {})
    names = {*extensions.get("baseline", ()), *extensions.get("found", ())}
    return 16 if names & {"X86_V4", "AVX512F", "AVX512_SKX"} else 8


def _unblocked(weights: Array) -> Array:
    """Unpack weights (M, C/group, kernel…) from blocks of outputs, and of inputs too where there are enough of them."""
    outputs, inputs, *kernel_shape = weights.shape
    size = block_size() if outputs % block_size() == 0 else 8
    if outputs % size or (inputs >= size and inputs % size):
        msg = f"weights have shape {weights.shape}; expected channels in blocks of {size}"
        raise KernelError(msg)
    rank = len(kernel_shape)
    if inputs < size:
        blocks = weights.reshape(outputs // size, inputs, *kernel_shape, size)
        return np.moveaxis(blocks, -1, 1).reshape(weights.shape)
    blocks = weights.reshape(outputs // size, inputs // size, *kernel_shape, size, size)
    return blocks.transpose(0, rank + 3, 1, rank + 2, *range(2, rank + 2)).reshape(weights.shape)


class _Plain(NamedTuple):
    """Weights that are in no blocks any more."""

    weights: Array


@keeps(1, lambda w, _zero_point, _attributes: _Plain(_unblocked(w)))
@kernel("Conv", since=1, domain=NCHWC)
def conv_1(
    x: Array,
    w: Array | _Plain,
    b: Array | None = None,
    sum_: Array | None = None,
    *,
    activation: str | None = None,
    activation_params: tuple[float, ...] | None = None,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Convolution, plus an optional summand, and an activation."""
    weights = w.weights if isinstance(w, _Plain) else _unblocked(w)
    return fused_conv_1(
        x, weights, b, sum_, activation=activation, activation_params=activation_params, auto_pad=auto_pad,
        dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip


@kernel("MaxPool", since=1, domain=NCHWC)
def max_pool_1(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    _storage_order: int = 0,  # of positions, which are not returned
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Return the largest element of each window."""
    y, _ = onnx(
        "MaxPool", 12, x, auto_pad=auto_pad, ceil_mode=ceil_mode, dilations=dilations, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    return np.asarray(y)


@kernel("AveragePool", since=1, domain=NCHWC)
def average_pool_1(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Return the mean of each window."""
    y = onnx(
        "AveragePool", 19, x, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return np.asarray(y)


@kernel("GlobalAveragePool", since=1, domain=NCHWC)
def global_average_pool_1(x: Array) -> Array:
    """Return the mean of each channel."""
    return np.asarray(onnx("GlobalAveragePool", 1, x))


@kernel("GlobalMaxPool", since=1, domain=NCHWC)
def global_max_pool_1(x: Array) -> Array:
    """Return the largest element of each channel."""
    return np.asarray(onnx("GlobalMaxPool", 1, x))


@kernel("Upsample", since=1, domain=NCHWC)
def upsample_1(
    x: Array, *, coordinate_transformation_mode: str = "asymmetric", mode: str = "nearest", scales: tuple[int, ...]
) -> Array:
    """Enlarge an image by integer factors."""
    y = onnx(
        "Resize", 13, x, None, np.array(scales, np.float32), mode=mode, nearest_mode="floor",
        coordinate_transformation_mode=coordinate_transformation_mode,
    )  # fmt: skip
    return np.asarray(y)


@kernel("ReorderInput", since=1, domain=NCHWC)
def reorder_input_1(x: Array, *, channels_last: int = 0) -> Array:
    """Pad channels with zeros to whole blocks, from the second axis or the last."""
    rows = channels_first(x) if channels_last else x
    if rows.ndim < 2:
        msg = f"input has shape {x.shape}; expected channels"
        raise KernelError(msg)
    count = rows.shape[1]
    filled = zeros((rows.shape[0], -(-count // block_size()) * block_size(), *rows.shape[2:]), x.dtype)
    filled[:, :count] = rows
    return filled


@kernel("ReorderOutput", since=1, domain=NCHWC)
def reorder_output_1(x: Array, *, channels: int = 0, channels_last: int = 0) -> Array:
    """Return the first channels, at the second axis or the last."""
    if x.ndim < 2 or not 0 < channels <= x.shape[1]:
        msg = f"input has shape {x.shape}, channels is {channels}; expected (N, C, …) and from 1 to C"
        raise KernelError(msg)
    rows = x[:, :channels]
    return np.ascontiguousarray(np.moveaxis(rows, 1, -1) if channels_last else rows)
