"""Fourier transforms, windows and the mel filter bank: DFT, STFT, HannWindow …, MelWeightMatrix."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axis, scalar_float, scalar_int
from onnx_workbench.exec.kernels.shared.blocks import by_pieces
from onnx_workbench.exec.kernels.shared.dtypes import cast, dtype_of, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size


def _complex_of(x: Array) -> Array:
    """Return the signal unchanged if real (last axis 1), as complex numbers if complex (last axis 2)."""
    wide = np.ascontiguousarray(widen(x))
    if not x.ndim or x.shape[-1] not in (1, 2):
        msg = f"input has shape {list(x.shape)}; expected a last axis of 1 (real) or 2 (complex)"
        raise KernelError(msg)
    if x.shape[-1] == 1:
        return wide[..., 0]
    return wide.view(np.complex64 if wide.itemsize == 4 else np.complex128)[..., 0]


def _pair_of(values: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return complex numbers as pairs in a last axis, in the real type `dtype`."""
    pairs = np.stack((values.real, values.imag), axis=-1)
    return narrow(pairs, dtype)


def _resized(signal: Array, length: int, axis: int) -> Array:
    """Truncate or zero-pad the signal to a length along an axis."""
    have = signal.shape[axis]
    if length <= have:
        return signal[(slice(None),) * axis + (slice(0, length),)]
    missing = [(0, 0)] * signal.ndim
    missing[axis] = (0, length - have)
    check_size((*signal.shape[:axis], length, *signal.shape[axis + 1 :]), signal.dtype)
    return np.pad(signal, missing)


def _dft(x: Array, dft_length: Array | None, axis: int, inverse: int, onesided: int) -> Array:
    signal = _complex_of(x)
    if axis in (-1, x.ndim - 1):
        msg = f"axis {axis} holds the real and imaginary parts; expected another one for rank {x.ndim}"
        raise KernelError(msg)
    axis = normal_axis(axis, x.ndim)
    half_spectrum = bool(inverse and onesided)
    default = 2 * (signal.shape[axis] - 1) if half_spectrum else signal.shape[axis]
    length = default if dft_length is None else scalar_int(dft_length, "dft_length")
    if length < 1:
        msg = f"dft_length is {length}; expected at least 1"
        raise KernelError(msg)
    check_size((*signal.shape[:axis], length, *signal.shape[axis + 1 :]), np.complex64)
    if half_spectrum:
        # The other half is the conjugate of this one; the result is real.
        real = np.fft.irfft(_resized(signal, length // 2 + 1, axis), length, axis)
        return narrow(real[..., np.newaxis], x.dtype)
    signal = _resized(signal, length, axis)
    if inverse or not onesided:
        return _pair_of((np.fft.ifft if inverse else np.fft.fft)(signal, axis=axis), x.dtype)
    if np.iscomplexobj(signal):
        whole = np.fft.fft(signal, axis=axis)
        return _pair_of(whole[(slice(None),) * axis + (slice(0, length // 2 + 1),)], x.dtype)
    return _pair_of(np.fft.rfft(signal, axis=axis), x.dtype)


@kernel("DFT", since=17)
def dft_17(x: Array, dft_length: Array | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Array:
    """Return the discrete Fourier transform along an axis; `axis` is an attribute."""
    return _dft(x, dft_length, axis, inverse, onesided)


@kernel("DFT", since=20)
def dft_20(
    x: Array, dft_length: Array | None = None, axis: Array | None = None, *, inverse: int = 0, onesided: int = 0
) -> Array:
    """`axis` is an input; by default the last but one axis."""
    return _dft(x, dft_length, -2 if axis is None else scalar_int(axis, "axis"), inverse, onesided)


@kernel("STFT", since=17)
def stft_17(
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    *,
    onesided: int = 1,
) -> Array:
    """Fourier transforms of overlapping frames: [batch, length, 1 or 2] to [batch, frames, bins, 2].

    A real signal of [batch, length] is taken too: the specification wants the last axis, ONNX Runtime does not.
    """
    if signal.ndim == 2:
        signal = signal[..., np.newaxis]
    if signal.ndim != 3:
        msg = f"signal has shape {list(signal.shape)}; expected [batch, length, 1 or 2]"
        raise KernelError(msg)
    values = _complex_of(signal)
    step = scalar_int(frame_step, "frame_step")
    if frame_length is not None:
        length = scalar_int(frame_length, "frame_length")
    elif window is not None:
        length = window.size
    else:
        msg = "neither window nor frame_length is given; one of them must tell the length of a frame"
        raise KernelError(msg)
    if step < 1 or not 1 <= length <= values.shape[1]:
        given = f"frames of {length} every {step} do not fit a signal of {values.shape[1]}"
        msg = f"{given}; expected a length within [1, {values.shape[1]}] and a step from 1"
        raise KernelError(msg)
    if window is not None and window.shape != (length,):
        msg = f"window has shape {list(window.shape)}; expected [{length}], the length of a frame"
        raise KernelError(msg)
    frames = np.lib.stride_tricks.sliding_window_view(values, length, axis=1)[:, ::step]
    check_size(frames.shape, np.complex64)
    if window is not None:
        frames = frames * widen(window)
    if onesided and not np.iscomplexobj(frames):
        return _pair_of(np.fft.rfft(frames), signal.dtype)
    spectrum = np.fft.fft(frames)
    return _pair_of(spectrum[..., : length // 2 + 1] if onesided else spectrum, signal.dtype)


# --- windows and mel bands -------------------------------------------------------------------------------------


def _cosine_window(size: Array, output_datatype: int, periodic: int, weights: tuple[float, ...]) -> Array:
    """Return the sum of weights[k]·cos(2πkn/N), N one less than the size for a symmetric window."""
    count = scalar_int(size, "size")
    if count < 0:
        msg = f"size is {count}; expected at least 0"
        raise KernelError(msg)
    check_size((count,), np.float64)
    step = 2 * np.pi / max(1, count if periodic else count - 1)
    kind = dtype_of(output_datatype)

    def piece(start: int, stop: int) -> Array:
        angle = np.arange(start, stop, dtype=np.float64) * step
        even_first = sorted(enumerate(weights), key=lambda term: term[0] % 2)  # so that 0.42 + 0.08 + 0.5 is exactly 1
        return cast(np.asarray(sum(weight * np.cos(k * angle) for k, weight in even_first)), kind)

    return by_pieces((count,), kind, piece)


@kernel("HannWindow", since=17)
def hann_window_17(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
    """Return the Hann window."""
    return _cosine_window(size, output_datatype, periodic, (0.5, -0.5))


@kernel("HammingWindow", since=17)
def hamming_window_17(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
    """Return the Hamming window, with the exact weights 25/46 and 21/46."""
    return _cosine_window(size, output_datatype, periodic, (25 / 46, -21 / 46))


@kernel("BlackmanWindow", since=17)
def blackman_window_17(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
    """Return the Blackman window."""
    return _cosine_window(size, output_datatype, periodic, (0.42, -0.5, 0.08))


@kernel("MelWeightMatrix", since=17)
def mel_weight_matrix_17(
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    *,
    output_datatype: int = 1,
) -> Array:
    """Triangular filters [dft_length // 2 + 1, num_mel_bins] that turn a spectrum into mel bands."""
    bands, length = scalar_int(num_mel_bins, "num_mel_bins"), scalar_int(dft_length, "dft_length")
    rate = scalar_int(sample_rate, "sample_rate")
    if bands < 1 or length < 1 or rate < 1:
        msg = f"num_mel_bins {bands}, dft_length {length} and sample_rate {rate} must be at least 1"
        raise KernelError(msg)
    check_size((length // 2 + 1, bands + 2), np.float64)
    low, high = (
        2595 * np.log10(1 + scalar_float(edge, name) / 700)
        for edge, name in ((lower_edge_hertz, "lower_edge_hertz"), (upper_edge_hertz, "upper_edge_hertz"))
    )
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    hertz = 700 * (np.power(10, mels / 2595) - 1)
    bins = np.floor((length + 1) * hertz / rate).astype(np.int64)
    lower, centre, upper = bins[:-2], bins[1:-1], bins[2:]
    kind = dtype_of(output_datatype)

    def rows(start: int, stop: int) -> Array:
        index = np.arange(start, stop)[:, np.newaxis]
        rising = (index - lower) / np.maximum(centre - lower, 1)
        falling = (upper - index) / np.maximum(upper - centre, 1)
        weights = np.where((index >= lower) & (index < centre), rising, 0)
        weights = np.where((index > centre) & (index < upper), falling, weights)
        weights[index == centre] = 1  # where edges and centre fall on one bin there are no sides
        return cast(weights, kind)

    return by_pieces((length // 2 + 1, bands), kind, rows)
