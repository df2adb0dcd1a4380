"""Contrib operators that move, select, hash or transform tensors."""

from __future__ import annotations

from typing import Literal

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.onnx.nn.sampling import grid_sample_16
from onnx_workbench.exec.kernels.onnx.tensor.indexing import gather_nd_12
from onnx_workbench.exec.kernels.onnx.tensor.padding import pad
from onnx_workbench.exec.kernels.onnx.tensor.shapes import unsqueeze
from onnx_workbench.exec.kernels.onnx.tensor.slicing import trilu_14
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import integers, one_element, scalar_int
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, SparseArray, check_size, empty, full
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe

# As in the default domain.
kernel("Trilu", since=1, domain=MICROSOFT)(trilu_14)
kernel("GatherND", since=1, domain=MICROSOFT, without=("batch_dims",))(gather_nd_12)
kernel("GridSample", since=1, domain=MICROSOFT)(grid_sample_16)


@kernel("Pad", since=1, domain=MICROSOFT)
def pad_1(data: Array, pads: Array, value: Array | None = None, *, mode: str = "constant") -> Array:
    """Pad by an input of [2·rank] or [1, 2·rank]."""
    fill = 0 if value is None or not value.size else value.reshape(-1)[0]
    return pad(data, integers(pads.reshape(-1), "pads"), mode, fill)


@kernel("Unique", since=1, domain=MICROSOFT)
def unique_1(x: Array) -> tuple[Array, Array, Array]:
    """Distinct values in order of appearance, the index of each element among them, and their counts."""
    values, _, inverse, counts = onnx("Unique", 11, x.reshape(-1), sorted=0)
    return values, inverse, counts


@kernel("MemcpyFromHost", since=1)
@kernel("MemcpyToHost", since=1)
def memcpy_1(x: Array) -> Array:
    """Identity: ONNX Runtime inserts these into models saved for a GPU, to copy between memories."""
    return x


@kernel("ExpandDims", since=1, domain=MICROSOFT)
def expand_dims_1(x: Array, axis: Array) -> Array:
    """Return a new axis of length 1."""
    return unsqueeze(x, [scalar_int(axis, "axis")])


@kernel("Range", since=1, domain=MICROSOFT)
def range_1(start: Array, limit: Array, delta: Array | None = None) -> Array:
    """As in the default domain, with steps of 1 if delta is omitted."""
    step = np.ones((), start.dtype) if delta is None else one_element(delta, "delta")
    return np.asarray(onnx("Range", 11, one_element(start, "start"), one_element(limit, "limit"), step))


@kernel("SampleOp", since=1, domain=MICROSOFT)
def sample_op_1(x: Array) -> Array:
    """Return the input."""
    return x


@kernel("IsAllFinite", since=1, domain=MICROSOFT)
def is_all_finite_1(*inputs: Array, isinf_only: int = 0, isnan_only: int = 0) -> Array:
    """Return whether no input holds an infinity or NaN."""
    tests = [np.isnan] if isnan_only else [np.isinf] if isinf_only else [np.isnan, np.isinf]
    return np.array(not any(test(widen(x)).any() for x in inputs for test in tests))


@kernel("TorchEmbedding", since=1, domain=MICROSOFT)
def torch_embedding_1(
    weight: Array,
    indices: Array,
    _padding_idx: Array | None = None,  # is about gradients, as the next one
    _scale_grad_by_freq: Array | None = None,
) -> Array:
    """Rows of the weight by index."""
    return np.asarray(onnx("Gather", 13, weight, indices))


@kernel("UnfoldTensor", since=1, domain=MICROSOFT)
def unfold_tensor_1(x: Array, *, dim: int = -1, size: int, step: int = 1) -> Array:
    """All windows along an axis, their elements along a new last one."""
    if not -x.ndim <= dim < x.ndim or not 0 < size <= x.shape[dim] or step < 1:
        given = f"windows of {size} in steps of {step} along axis {dim} of shape {x.shape}"
        msg = f"{given}; expected an axis of X, a size within it and steps from 1"
        raise KernelError(msg)
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    index = [slice(None)] * windows.ndim
    index[dim % x.ndim] = slice(None, None, step)
    check_size(windows[tuple(index)].shape, x.dtype)
    return np.ascontiguousarray(windows[tuple(index)])


# --- Fourier transforms ----------------------------------------------------------------------------------------


@kernel("Rfft", since=1, domain=MICROSOFT)
def rfft_1(x: Array, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Array:
    """Return the transform of real signals over the last axes, (…, frequencies, 2)."""
    axes = _signal_axes(x.ndim, signal_ndim)
    wide = widen(x)
    transform = np.fft.rfftn if onesided else np.fft.fftn
    spectrum = transform(wide, axes=axes, norm="ortho" if normalized else None)
    return narrow(np.stack([spectrum.real, spectrum.imag], -1).astype(wide.dtype), x.dtype)


@kernel("Irfft", since=1, domain=MICROSOFT)
def irfft_1(x: Array, *, normalized: int = 0, onesided: int = 1, signal_ndim: int) -> Array:
    """Return the real signals of (…, frequencies, 2)."""
    if not x.ndim or x.shape[-1] != 2:
        msg = f"input of shape {x.shape}; expected pairs of real and imaginary parts last"
        raise KernelError(msg)
    axes = _signal_axes(x.ndim - 1, signal_ndim)
    wide = widen(x)
    values = wide[..., 0] + 1j * wide[..., 1]
    norm: Literal["ortho"] | None = "ortho" if normalized else None
    signals = (
        np.fft.irfftn(values, axes=axes, norm=norm) if onesided else np.fft.ifftn(values, axes=axes, norm=norm).real
    )
    return narrow(signals.astype(wide.dtype), x.dtype)


def _signal_axes(rank: int, count: int) -> tuple[int, ...]:
    if not 1 <= count <= min(3, rank):
        msg = f"signal_ndim is {count} for {rank} axes; expected 1 to 3, and no more than there are"
        raise KernelError(msg)
    return tuple(range(rank - count, rank))


@kernel("ComplexMul", since=1, domain=MICROSOFT)
def complex_mul_1(a: Array, b: Array) -> Array:
    """Return the product of complex numbers given as pairs along the last axis."""
    return _complex_product(a, b, conjugate=False)


@kernel("ComplexMulConj", since=1, domain=MICROSOFT)
def complex_mul_conj_1(a: Array, b: Array) -> Array:
    """Return the product with the conjugate of the second."""
    return _complex_product(a, b, conjugate=True)


def _complex_product(a: Array, b: Array, *, conjugate: bool) -> Array:
    if not a.ndim or not b.ndim or a.shape[-1] != 2 or b.shape[-1] != 2:
        msg = f"inputs of shapes {a.shape} and {b.shape}; expected pairs of real and imaginary parts last"
        raise KernelError(msg)
    left, right = widen(a), widen(b)
    imaginary = -right[..., 1] if conjugate else right[..., 1]
    real = left[..., 0] * right[..., 0] - left[..., 1] * imaginary
    return narrow(np.stack([real, left[..., 0] * imaginary + left[..., 1] * right[..., 0]], -1), a.dtype)


# --- pictures --------------------------------------------------------------------------------------------------


@kernel("CropAndResize", since=1, domain=MICROSOFT)
def crop_and_resize_1(
    x: Array,
    rois: Array,
    batch_indices: Array,
    crop_size: Array,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Array:
    """Parts of pictures, given by corners from 0 to 1, at one size; (rois, C, height, width)."""
    sizes = integers(crop_size, "crop_size")
    if x.ndim != 4 or rois.shape != (len(rois), 4) or len(sizes) != 2 or mode not in ("bilinear", "nearest"):
        msg = f"X {x.shape}, rois {rois.shape}, crop_size {sizes}, mode {mode!r}; expected NCHW, (n, 4), 2 numbers"
        raise KernelError(msg)
    if len(batch_indices) != len(rois) or (len(rois) and not 0 <= batch_indices.min() <= batch_indices.max() < len(x)):
        given = f"batch_indices {batch_indices.tolist()[:20]} for {len(rois)} rois of {len(x)} pictures"
        msg = f"{given}; expected one for each, within [0, {len(x) - 1}]"
        raise KernelError(msg)
    result = full((len(rois), x.shape[1], *sizes), extrapolation_value, x.dtype)
    for index, (top, left, bottom, right) in enumerate(rois.tolist()):
        checkpoint()
        rows = _places(top, bottom, sizes[0], x.shape[2])
        columns = _places(left, right, sizes[1], x.shape[3])
        inside = [np.flatnonzero((p >= 0) & (p <= n - 1)) for p, n in ((rows, x.shape[2]), (columns, x.shape[3]))]
        picture = x[int(batch_indices[index])]
        values = _interpolated(picture, rows[inside[0]], columns[inside[1]], mode)
        result[index][:, inside[0][:, None], inside[1]] = values
    return result


def _places(first: float, last: float, count: int, length: int) -> Array:
    if count > 1:
        return np.asarray(first * (length - 1) + np.arange(count) * (last - first) * (length - 1) / (count - 1))
    return np.array([0.5 * (first + last) * (length - 1)])


def _interpolated(x: Array, rows: Array, columns: Array, mode: str) -> Array:
    if mode == "nearest":
        down, across = (np.floor(p + 0.5).astype(int) for p in (rows, columns))  # halves go up
        return x[:, down[:, None], across]
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    bottom, right = np.ceil(rows).astype(int), np.ceil(columns).astype(int)
    down = (rows - top).astype(np.float32)[:, None]
    across = (columns - left).astype(np.float32)
    upper = x[:, top[:, None], left] + (x[:, top[:, None], right] - x[:, top[:, None], left]) * across
    lower = x[:, bottom[:, None], left] + (x[:, bottom[:, None], right] - x[:, bottom[:, None], left]) * across
    return np.asarray(upper + (lower - upper) * down, x.dtype)


# --- sequences and hashes --------------------------------------------------------------------------------------


@kernel("NGramRepeatBlock", since=1, domain=MICROSOFT)
def ngram_repeat_block_1(input_ids: Array, scores: Array, *, ngram_size: int) -> Array:
    """Scores with -inf for each token that would repeat an n-gram of its sequence."""
    if input_ids.ndim != 2 or scores.ndim != 2 or len(input_ids) != len(scores) or ngram_size < 1:
        msg = f"input_ids {input_ids.shape}, scores {scores.shape}, ngram_size {ngram_size}; expected as many rows"
        raise KernelError(msg)
    result = scores.copy()
    length = input_ids.shape[1]
    if length < ngram_size:
        return result
    before = ngram_size - 1
    for row, ids in enumerate(input_ids):
        windows = np.lib.stride_tricks.sliding_window_view(ids, ngram_size)
        repeated = windows[(windows[:, :before] == ids[length - before :]).all(1), before]
        if repeated.size and not 0 <= repeated.min() <= repeated.max() < scores.shape[1]:
            given = f"a token is {repeated.min()} or {repeated.max()}; there are {scores.shape[1]} scores"
            msg = f"{given}; expected within [0, {scores.shape[1] - 1}]"
            raise KernelError(msg)
        result[row, repeated] = -np.inf
    return result


@kernel("MurmurHash3", since=1, domain=MICROSOFT)
def murmur_hash3_1(x: Array, *, positive: int = 1, seed: int = 0) -> Array:
    """MurmurHash3 (32 bits) of each element's bytes, unsigned where `positive` is 1."""
    if x.dtype.kind == "O":
        codes = [_hash_bytes(text.encode(), seed) for text in x.reshape(-1).tolist()]
        hashes = np.array(codes, np.uint32)
    elif x.dtype.itemsize in (4, 8):
        words = np.ascontiguousarray(x).reshape(-1, 1).view(np.uint32)
        hashes = _hash_words(words, seed)
    else:
        msg = f"input is {describe(x)}; expected 4 or 8 bytes per element, or strings"
        raise KernelError(msg)
    return hashes.reshape(x.shape).view(np.uint32 if positive else np.int32)


_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def _turned(x: Array, bits: int) -> Array:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _mixed(words: Array) -> Array:
    return _turned(words * _FIRST, 15) * _SECOND


def _finished(state: Array, length: int) -> Array:
    state = state ^ np.uint32(length & 0xFFFFFFFF)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.asarray(state ^ (state >> np.uint32(16)))


def _hash_words(words: Array, seed: int) -> Array:
    """Hash rows of whole words."""
    state = full((len(words),), seed & 0xFFFFFFFF, np.uint32)
    for column in range(words.shape[1]):
        state = _turned(state ^ _mixed(words[:, column]), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return _finished(state, 4 * words.shape[1])


def _hash_bytes(data: bytes, seed: int) -> int:
    whole = len(data) // 4 * 4
    state = np.array([seed & 0xFFFFFFFF], np.uint32)
    for word in np.frombuffer(data[:whole], "<u4").reshape(-1, 1):
        state = _turned(state ^ _mixed(word), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    rest = data[whole:]
    if rest:
        state = state ^ _mixed(np.array([int.from_bytes(rest, "little")], np.uint32))
    return int(_finished(state, len(data))[0])


@kernel("SparseToDenseMatMul", since=1, domain=MICROSOFT)
def sparse_to_dense_matmul_1(
    a: SparseArray | Array,
    b: Array,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Return the product of a sparse and a dense matrix, either of them transposed."""
    left = a.dense() if isinstance(a, SparseArray) else a
    if left.ndim != 2 or b.ndim < 2:
        msg = f"matrices of shape {left.shape} and {b.shape}; expected two dimensions"
        raise KernelError(msg)
    y = onnx("MatMul", 13, left.T if transA else left, np.swapaxes(b, -1, -2) if transB else b)
    return y if alpha == 1 else np.asarray(y * y.dtype.type(alpha))


@kernel("RemovePadding", since=1, domain=MICROSOFT)
def remove_padding_1(x: Array, sequence_token_count: Array) -> tuple[Array, Array, Array, Array]:
    """Concatenate the tokens of all sequences; also their offsets, the cumulative lengths, and the longest."""
    counts = sequence_token_count.astype(np.int64).reshape(-1)
    if x.ndim != 3 or len(counts) != len(x) or (len(counts) and not 0 <= counts.min() <= counts.max() <= x.shape[1]):
        msg = f"input of shape {x.shape} with counts {counts.tolist()[:20]}; expected (batch, sequence, hidden)"
        raise KernelError(msg)
    kept = (np.arange(x.shape[1]) < counts[:, None]).reshape(-1)
    places = np.concatenate([np.flatnonzero(kept), np.flatnonzero(~kept)]).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    largest = np.array([counts.max(initial=0)], np.int32)
    tokens = x.reshape(-1, x.shape[2])[kept]
    return tokens, places.reshape(x.shape[:2]), ends, largest


@kernel("RestorePadding", since=1, domain=MICROSOFT)
def restore_padding_1(x: Array, token_offset: Array) -> Array:
    """Restore the padded sequences, zeros between."""
    count = len(x)
    places = token_offset.reshape(-1)
    if x.ndim != 2 or token_offset.ndim != 2 or count > places.size or (
        count and not 0 <= places.min() <= places.max() < places.size
    ):  # fmt: skip
        given = f"{count} tokens of shape {x.shape} and offsets of shape {token_offset.shape} do not fit"
        msg = f"{given}; expected (tokens, width) and (batch, length)"
        raise KernelError(msg)
    result = empty((places.size, x.shape[1]), x.dtype)
    result[...] = 0
    result[places[:count]] = x
    return result.reshape(*token_offset.shape, x.shape[1])
