"""Weights in block quantization with 2, 4 and 8 bits and a scale per block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.axes import normal_axis
from onnx_workbench.exec.kernels.shared.broadcast import unidirectional
from onnx_workbench.exec.kernels.shared.dtypes import is_float, is_narrow, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.statistics import describe

#: Values of the codes of bitsandbytes: 0 for FP4, 1 for NF4.
_BNB4 = (
    np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4], np.float32),
    np.array(
        [
            -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
        ],
        np.float32,
    ),
)  # fmt: skip


def unpacked(codes: Array, bits: int, count: int) -> Array:
    """Unpack `count` unsigned codes from bytes along the last axis, the low bits first."""
    if bits not in (2, 4, 8):
        msg = f"bits is {bits}; expected 2, 4 or 8"
        raise KernelError(msg)
    codes = codes.view(np.uint8)
    per_byte = 8 // bits
    if codes.shape[-1] * per_byte < count:
        given = f"{codes.shape[-1]} bytes hold fewer than {count} codes of {bits} bits"
        msg = f"{given}; expected {-(-count // per_byte)} or more"
        raise KernelError(msg)
    result = empty((*codes.shape, per_byte), np.uint8)
    for index in range(per_byte):
        np.right_shift(codes, index * bits, out=result[..., index])
    result &= np.uint8((1 << bits) - 1)
    return result.reshape(*codes.shape[:-1], codes.shape[-1] * per_byte)[..., :count]


def _weights(b: Array, scales: Array, zero_points: Array | None, g_idx: Array | None, a: dict[str, int]) -> Array:
    """Dequantize the matrix [N, K] to float32."""
    rows, depth, size, bits = a["N"], a["K"], a["block_size"], a["bits"]
    if rows < 1 or depth < 1 or size < 1:
        msg = f"N {rows}, K {depth}, block_size {size}; expected numbers from 1"
        raise KernelError(msg)
    blocks = -(-depth // size)
    check_size((rows, blocks * size), np.float32)
    if b.size * 8 != rows * blocks * size * bits or scales.size != rows * blocks:
        given = f"{b.size} bytes and {scales.size} scales for {rows} × {blocks} blocks of {size} × {bits} bits"
        msg = f"{given}; expected {rows * blocks * size * bits // 8} and {rows * blocks}"
        raise KernelError(msg)
    codes = unpacked(b.reshape(rows, blocks, -1), bits, size)
    zero = _zero_points(zero_points, rows, blocks, bits)
    factor = widen(scales).reshape(rows, blocks)
    if g_idx is not None:
        return _by_group(codes.reshape(rows, -1)[:, :depth], factor, zero, g_idx[:depth].astype(np.int64))
    wide = codes.astype(np.float32)
    wide -= zero[..., None]
    wide *= factor[..., None]
    return wide.reshape(rows, -1)[:, :depth]


def _zero_points(zero_points: Array | None, rows: int, blocks: int, bits: int) -> Array:
    if zero_points is None:
        return np.full((rows, blocks), 1 << (bits - 1), np.float32)
    if zero_points.dtype.kind == "u":
        if zero_points.size % rows:
            msg = f"{zero_points.size} bytes of zero points for {rows} rows; expected as many for each row"
            raise KernelError(msg)
        return unpacked(zero_points.reshape(rows, -1), bits, blocks).astype(np.float32)
    if zero_points.size != rows * blocks:
        msg = f"{zero_points.size} zero points; expected {rows * blocks}"
        raise KernelError(msg)
    return widen(zero_points).reshape(rows, blocks)


def _by_group(codes: Array, factor: Array, zero: Array, groups: Array) -> Array:
    """Dequantize columns by the scale and zero point of the group that each one names."""
    if groups.shape != (codes.shape[1],) or not 0 <= int(groups.min()) <= int(groups.max()) < factor.shape[1]:
        msg = f"g_idx of shape {groups.shape}; expected a group below {factor.shape[1]} for each of {codes.shape[1]}"
        raise KernelError(msg)
    return np.asarray((codes.astype(np.float32) - zero[:, groups]) * factor[:, groups])


def _multiplied(a: Array, weights: Array, bias: Array | None) -> Array:
    """a · weightsᵀ + bias in the type of `a`."""
    if not a.ndim or a.shape[-1] != weights.shape[1]:
        msg = f"A has shape {a.shape}; expected {weights.shape[1]} columns"
        raise KernelError(msg)
    y = onnx("MatMul", 13, widen(a), weights.T.astype(widen(a).dtype, copy=False))
    return narrow(plus(y, None if bias is None else widen(bias)), a.dtype)


@kernel("MatMulNBits", since=1, domain=MICROSOFT)
def matmul_nbits_1(
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Array | None = None,
    g_idx: Array | None = None,
    bias: Array | None = None,
    *,
    K: int,
    N: int,
    _accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Array:
    """Return a times the transpose of a matrix [N, K] of few bits.

    `accuracy_level` allows less accuracy; ONNX Runtime, and so this, makes use of it for constant weights alone.
    """
    if weight_prepacked:
        msg = "weight_prepacked is set: the weights are laid out for one kind of GPU; expected 0"
        raise KernelError(msg)
    sizes = {"N": N, "K": K, "bits": bits, "block_size": block_size}
    return _multiplied(a, _weights(b, scales, zero_points, g_idx, sizes), bias)


@prepares(matmul_nbits_1)
def prepare_matmul_nbits(constants: Sequence[Array | None], **attributes: Any) -> Callable[..., Array] | None:
    """Dequantize constant weights once.

    With accuracy level 4 and codes of 4 or 8 bits the rows of A are quantized to 8 bits in the blocks of the weights.
    """
    padded = [*constants, *(None,) * 6][:6]
    b, scales = padded[1], padded[2]
    optional = [constants[i] if i < len(constants) else None for i in (3, 4)]
    if b is None or scales is None or attributes.get("weight_prepacked"):
        return None
    sizes = {name: attributes.get(name, 4) for name in ("N", "K", "bits", "block_size")}
    expanded: list[Array] = []
    in_bytes = attributes.get("accuracy_level") == 4 and sizes["bits"] in (4, 8)

    def run(
        a: Array,
        b: Array,
        scales: Array,
        zero_points: Array | None = None,
        g_idx: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        changed = zero_points is not optional[0] or g_idx is not optional[1]
        if changed:
            return _multiplied(a, _weights(b, scales, zero_points, g_idx, sizes), bias)
        if not expanded:
            expanded.append(_weights(b, scales, zero_points, g_idx, sizes))
        rows = a
        is_plain = g_idx is None and (zero_points is None or zero_points.dtype == np.uint8)
        if in_bytes and is_plain and a.dtype == np.float32 and a.ndim and a.shape[-1] == sizes["K"]:
            rows = _in_bytes(a, sizes["block_size"])
        return _multiplied(rows, expanded[0], bias)

    return run


def _in_bytes(a: Array, size: int) -> Array:
    """Round `a` to 127 steps up to the largest magnitude of each block of its last axis."""
    depth = a.shape[-1]
    blocks = np.zeros((a.size // max(1, depth), -(-depth // size), size), a.dtype)
    blocks.reshape(len(blocks), -1)[:, :depth] = a.reshape(-1, depth)
    step = np.abs(blocks).max(-1, keepdims=True) / a.dtype.type(127)
    inverse = np.divide(1, step, out=np.zeros_like(step), where=step != 0)
    np.multiply(blocks, inverse, out=blocks)
    np.rint(blocks, out=blocks)
    np.multiply(blocks, step, out=blocks)
    return blocks.reshape(len(blocks), -1)[:, :depth].reshape(a.shape)


@kernel("MatMulFpQ4", since=1, domain=MICROSOFT)
def matmul_fp_q4_1(a: Array, b: Array, b_shape: Array, *, blk_quant_type: int = 1) -> Array:
    """A times a matrix [K, N] whose columns are blocks of 32 values: scale, zero point unless it is 8, 4-bit codes.

    The sixteen bytes of codes hold the first half of the block in their low bits, the second in the high ones.
    """
    if blk_quant_type not in (0, 1) or b_shape.shape != (2,) or b.dtype != np.uint8 or int(b_shape.min()) < 1:
        msg = f"blk_quant_type {blk_quant_type}, B_shape {b_shape.tolist()}; expected 0 or 1, and two numbers from 1"
        raise KernelError(msg)
    depth, columns = (int(n) for n in b_shape)
    blocks, size = -(-depth // 32), 20 + blk_quant_type
    if b.size != columns * blocks * size:
        msg = f"B has {b.size} bytes; expected {columns} × {blocks} blocks of {size}"
        raise KernelError(msg)
    check_size((columns, blocks * 32), np.float32)
    parts = b.reshape(columns, blocks, size)
    scales, packed = parts[..., :4].copy().view(np.float32), parts[..., -16:]
    zero = parts[..., 4:5].astype(np.float32) if blk_quant_type else np.float32(8)
    codes = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32)
    return _multiplied(a, ((codes - zero) * scales).reshape(columns, -1)[:, :depth], None)


@kernel("MatMulBnb4", since=1, domain=MICROSOFT)
def matmul_bnb4_1(
    a: Array,
    b: Array,
    absmax: Array,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    _training_mode: int = 0,  # only affects data kept for a backward pass
    transB: int = 1,
) -> Array:
    """Return a times a matrix [N, K] in the 4-bit codes of bitsandbytes, transposed by default."""
    if quant_type not in (0, 1) or N < 1 or K < 1 or block_size < 1:
        msg = f"quant_type {quant_type}, N {N}, K {K}, block_size {block_size}; expected 0 or 1 and numbers from 1"
        raise KernelError(msg)
    count = N * K
    check_size((count,), np.float32)
    blocks = -(-count // block_size)
    if b.size * 2 < count or absmax.size < blocks:
        given = f"{b.size} bytes and {absmax.size} scales for {N} × {K} codes in blocks of {block_size}"
        msg = f"{given}; expected at least {-(-count // 2)} and {blocks}"
        raise KernelError(msg)
    flat = b.reshape(-1)
    codes = np.stack([flat >> 4, flat & 15], 1).reshape(-1)[:count]  # the high half first
    table = _BNB4[quant_type]
    table = table if len(table) == 16 else np.concatenate([table, -table])
    values = table[codes]
    values *= np.repeat(widen(absmax).reshape(-1)[:blocks], min(block_size, count))[:count]
    weights = values.reshape(N, K) if transB else values.reshape(K, N).T
    return _multiplied(a, weights, None)


@kernel("GatherBlockQuantized", since=1, domain=MICROSOFT)
def gather_block_quantized_1(
    data: Array,
    indices: Array,
    scales: Array,
    zero_points: Array | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Array:
    """Slices of a block-quantized tensor, dequantized; zeros for indices out of range."""
    gathered, along = normal_axis(gather_axis, data.ndim), normal_axis(quantize_axis, data.ndim)
    inside = (indices >= -data.shape[gathered]) & (indices < data.shape[gathered])
    places = np.where(inside, indices % max(1, data.shape[gathered]), 0)
    shift = indices.ndim - 1 if gathered < along else 0
    if is_narrow(data.dtype) and is_float(data.dtype):
        if zero_points is not None or scales.ndim != data.ndim:
            msg = f"scales of shape {scales.shape} for {describe(data)}; expected as many axes, no zero points"
            raise KernelError(msg)
        block_size = block_size or max(1, data.shape[along])
        scales = unidirectional(scales, (*data.shape[:along], scales.shape[along], *data.shape[along + 1 :]))
    codes = _codes(data, places, bits, gathered, along)

    def per_element(values: Array) -> Array:
        """Return one value per element of the slices from one per block."""
        if gathered == along:
            if block_size < 1 or values.shape[along] * block_size < data.shape[along]:
                _refuse_blocks(values, data, block_size, along)
            return np.asarray(onnx("Gather", 13, values, places // block_size, axis=along))
        return _per_element(onnx("Gather", 13, values, places, axis=gathered), along + shift, block_size, codes)

    factor = per_element(scales)
    wide = codes.astype(np.float32)
    if zero_points is not None:
        zero = zero_points
        if zero.dtype == np.uint8 and bits < 8:
            zero = unpacked(zero, bits, scales.shape[-1])
        wide -= per_element(zero).astype(np.float32)
    elif data.dtype == np.uint8:
        wide -= np.float32(1 << (bits - 1))
    result = np.asarray(wide * widen(factor))
    result[(slice(None),) * gathered + (~inside,)] = 0
    return narrow(result, scales.dtype)


def _codes(data: Array, indices: Array, bits: int, gathered: int, along: int) -> Array:
    """Return slices of the codes, one per element: bytes hold several."""
    if data.dtype != np.uint8:
        return np.asarray(onnx("Gather", 13, data, indices, axis=gathered))
    if along != data.ndim - 1 or gathered == along:
        msg = f"codes in blocks along axis {along} gathered along {gathered}; packed bytes need the last and another"
        raise KernelError(msg)
    packed = onnx("Gather", 13, data, indices, axis=gathered)
    return unpacked(packed, bits, packed.shape[-1] * (8 // bits))


def _refuse_blocks(values: Array, codes: Array, block_size: int, axis: int) -> NoReturn:
    given = f"{values.shape} scales for {codes.shape} codes in blocks of {block_size}"
    msg = f"{given}; expected one for each block along axis {axis}"
    raise KernelError(msg)


def _per_element(values: Array, axis: int, block_size: int, codes: Array) -> Array:
    """Expand one value per block to one per element."""
    if block_size < 1 or values.ndim != codes.ndim or values.shape[axis] * block_size < codes.shape[axis]:
        _refuse_blocks(values, codes, block_size, axis)
    spread = np.repeat(values, min(block_size, codes.shape[axis]), axis)
    return spread[(slice(None),) * axis + (slice(0, codes.shape[axis]),)]
