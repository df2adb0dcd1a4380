"""Layer normalization as ONNX Runtime fuses it: simplified, with a skip connection, after embeddings, in groups."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, channels_first, channels_last, onnx
from onnx_workbench.exec.kernels.onnx.reduction import mean_over
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis
from onnx_workbench.exec.kernels.shared.broadcast import unidirectional
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size


@kernel("SimplifiedLayerNormalization", since=1)
def simplified_layer_normalization_1(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = 9.999999747378752e-06, stash_type: int = 1
) -> tuple[Array, Array]:
    """x over its root mean square; also the inverse of that. ONNX Runtime writes it in the default domain."""
    if stash_type != 1:
        msg = f"stash_type is {stash_type}; expected 1 (float)"
        raise KernelError(msg)
    return over_root_mean_square(x, scale, normal_axis(axis, x.ndim), epsilon)


def over_root_mean_square(x: Array, scale: Array, axis: int, epsilon: float) -> tuple[Array, Array]:
    """x from `axis` on over its root mean square times a scale; also the inverse of that root."""
    wide = widen(x)
    axes = tuple(range(axis, x.ndim))
    inverse = 1 / np.sqrt(mean_over(np.square(wide), axes) + wide.dtype.type(epsilon))
    y = wide * inverse
    np.multiply(y, unidirectional(widen(scale), y.shape), out=y)
    return narrow(y, x.dtype), np.asarray(inverse, wide.dtype)


@kernel("SkipLayerNormalization", since=1, domain=MICROSOFT)
def skip_layer_normalization_1(
    x: Array,
    skip: Array,
    gamma: Array,
    beta: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = 9.999999960041972e-13,
) -> tuple[Array, Array, Array, Array]:
    """Return the last axis of x + skip + bias normalized; also mean, 1/deviation and that sum."""
    total = _wide_sum(x, skip, bias)
    last = None if beta is None else widen(beta)
    y, mean, inverse = onnx("LayerNormalization", 17, total, widen(gamma), last, axis=-1, epsilon=epsilon)
    return narrow(y, x.dtype), mean, inverse, narrow(total, x.dtype)


@kernel("SkipSimplifiedLayerNormalization", since=1, domain=MICROSOFT)
def skip_simplified_layer_normalization_1(
    x: Array, skip: Array, gamma: Array, bias: Array | None = None, *, epsilon: float = 9.999999960041972e-13
) -> tuple[Array, None, Array, Array]:
    """As before over the root mean square; there is no mean."""
    total = _wide_sum(x, skip, bias)
    y, inverse = over_root_mean_square(total, gamma, total.ndim - 1, epsilon)
    return narrow(y, x.dtype), None, inverse, narrow(total, x.dtype)


def _wide_sum(x: Array, skip: Array, bias: Array | None) -> Array:
    """x + skip + bias, not rounded to a type of 16 bits."""
    return plus(plus(widen(x), widen(skip)), None if bias is None else widen(bias))


@kernel("EmbedLayerNormalization", since=1, domain=MICROSOFT)
def embed_layer_normalization_1(
    input_ids: Array,
    segment_ids: Array | None,
    word_embedding: Array,
    position_embedding: Array,
    segment_embedding: Array | None,
    gamma: Array,
    beta: Array,
    mask: Array | None = None,
    position_ids: Array | None = None,
    *,
    epsilon: float = 9.999999960041972e-13,
    mask_index_type: int | None = None,
) -> tuple[Array, Array, Array]:
    """Word, position and segment embeddings added and normalized; also the mask's lengths and that sum."""
    if input_ids.ndim != 2:
        msg = f"input_ids of shape {input_ids.shape}; expected (batch, sequence)"
        raise KernelError(msg)
    batch, length = input_ids.shape
    places = np.arange(length) if position_ids is None else position_ids
    total = plus(onnx("Gather", 13, word_embedding, input_ids), onnx("Gather", 13, position_embedding, places))
    if segment_ids is not None and segment_embedding is not None:
        total = plus(total, onnx("Gather", 13, segment_embedding, segment_ids))
    y, _, _ = onnx("LayerNormalization", 17, total, gamma, beta, axis=-1, epsilon=epsilon)
    lengths = np.zeros(batch, np.int32)
    if mask is not None and mask_index_type != 0:
        lengths = mask.sum(1, dtype=np.int32)
    return y, lengths, total


@kernel("GroupNorm", since=1, domain=MICROSOFT)
def group_norm_1(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 9.999999747378752e-06,
    groups: int,
) -> Array:
    """Each group of channels normalized in float32, then SiLU where `activation` is 1."""
    return _group_norm(x, gamma, beta, activation, channels_last, epsilon, groups)


@kernel("SkipGroupNorm", since=1, domain=MICROSOFT)
def skip_group_norm_1(
    x: Array,
    gamma: Array,
    beta: Array,
    skip: Array,
    bias: Array | None = None,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 9.999999747378752e-06,
    groups: int,
) -> tuple[Array, Array]:
    """Of x + skip + bias; also that sum."""
    if skip.ndim == 2:
        skip = skip[:, None, None, :]
    total = plus(plus(x, skip), bias)
    return _group_norm(total, gamma, beta, activation, channels_last, epsilon, groups), total


def _group_norm(x: Array, gamma: Array, beta: Array, activation: int, last: int, epsilon: float, groups: int) -> Array:
    check_size(x.shape, np.float32)
    first = channels_first(x) if last else x
    wide = np.ascontiguousarray(widen(first))
    scale, shift = widen(gamma).astype(wide.dtype), widen(beta).astype(wide.dtype)
    y = onnx("GroupNormalization", 21, wide, scale, shift, epsilon=epsilon, num_groups=groups)
    if activation == 1:
        y = onnx("Swish", 24, y)
    return narrow(np.ascontiguousarray(channels_last(y)) if last else y, x.dtype)
