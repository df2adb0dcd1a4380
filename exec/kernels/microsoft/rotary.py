"""Rotary embedding by three positions per token (Qwen-VL), and by given angles (Gemma)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.attention import check_places, merge_heads, split_heads, turned
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import widen
from onnx_workbench.exec.values.arrays import Array


@kernel("MRotaryEmbedding", since=1, domain=MICROSOFT)
def m_rotary_embedding_1(
    x: Array,
    position_ids: Array,
    cos_cache: Array,
    sin_cache: Array,
    *,
    interleaved: int | None = None,
    _is_packed_batching: int | None = None,  # is about scratch memory
    mrope_layout: int | None = None,
    mrope_section: Sequence[int],
    num_heads: int | None = None,
    _rotary_embedding_dim: int | None = None,  # the caches give it
    scale: float | None = None,
) -> Array:
    """Rotate pairs by angles of a token's time, row or column; a layout assigns one of them to each pair."""
    if scale not in (None, 1.0):
        msg = f"scale is {scale}; expected 1"
        raise KernelError(msg)
    if x.ndim not in (3, 4):
        msg = f"input of shape {x.shape}; expected 3 or 4 dimensions"
        raise KernelError(msg)
    check_places(position_ids, cos_cache, sin_cache)
    half = cos_cache.shape[1]
    heads = x
    if x.ndim == 3:
        heads = split_heads(x, num_heads or x.shape[2] // max(2 * half, 1), "input")
    if position_ids.shape != (3, heads.shape[0], heads.shape[2]):
        msg = f"position_ids have shape {position_ids.shape}; expected (3, {heads.shape[0]}, {heads.shape[2]})"
        raise KernelError(msg)
    stream = _streams(mrope_section, half, mrope_layout or 0)
    places = np.moveaxis(position_ids[stream], 0, -1)  # (B, S, half)
    columns = np.arange(half)
    cos, sin = (cache[places, columns] for cache in (cos_cache, sin_cache))
    y = turned(heads, cos, sin, bool(interleaved))
    return merge_heads(y) if x.ndim == 3 else y


def _streams(section: Sequence[int], half: int, layout: int) -> Array:
    """Return which of the three positions each pair uses."""
    if len(section) != 3 or min(section) < 0 or sum(section) != half or layout not in (0, 1):
        msg = f"mrope_section {list(section)}, mrope_layout {layout}; expected 3 counts that sum to {half}, and 0 or 1"
        raise KernelError(msg)
    if layout == 0:
        return np.repeat(np.arange(3), section)
    stream = np.zeros(half, np.int64)
    for axis in (1, 2):
        stream[axis : section[axis] * 3 : 3] = axis
    return stream


@kernel("GemmaRotaryEmbedding", since=1, domain=MICROSOFT)
def gemma_rotary_embedding_1(emb: Array, q: Array, q_rot: Array, k: Array, k_rot: Array) -> tuple[Array, Array]:
    """q · cos(emb) + q_rot · sin(emb), and so for k, with cosines and sines rounded to their type first."""
    if emb.ndim != 3:
        msg = f"emb has shape {emb.shape}; expected (batch, sequence, size)"
        raise KernelError(msg)
    wide = widen(emb)[:, None]
    cos, sin = np.cos(wide).astype(q.dtype), np.sin(wide).astype(q.dtype)
    y, z = (
        np.asarray(onnx("Add", 14, onnx("Mul", 14, x, cos), onnx("Mul", 14, turned_half, sin)))
        for x, turned_half in ((q, q_rot), (k, k_rot))
    )
    return y, z
