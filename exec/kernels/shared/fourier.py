"""Fourier transforms in steps, so that those of very long signals can be cancelled."""

from __future__ import annotations

from math import isqrt

import numpy as np

from onnx_workbench.exec.kernels.shared.blocks import by_pieces
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint

#: Elements that numpy transforms at a time.
PART = 1 << 20


def transform(signal: Array, axis: int = -1, *, inverse: bool = False) -> Array:
    """Return the discrete Fourier transform along an axis; the inverse divides by the length."""
    x = np.moveaxis(signal, axis, -1)
    length = x.shape[-1]
    rows = x.reshape(-1, length)
    result = empty(rows.shape, np.result_type(x.dtype, np.complex64))
    step = max(1, PART // max(length, 1))
    for start in range(0, len(rows), step):
        checkpoint()
        part = rows[start : start + step]
        if length > PART:
            result[start] = _long(part[0], inverse)
        else:
            result[start : start + step] = np.fft.ifft(part) if inverse else np.fft.fft(part)
    return np.moveaxis(result.reshape(x.shape), -1, axis)


def half_transform(signal: Array, axis: int = -1) -> Array:
    """Return the first half of the transform of a real signal; the other is its conjugate."""
    length = signal.shape[axis]
    if length > PART:
        return transform(signal, axis)[(*(slice(None),) * (axis % signal.ndim), slice(0, length // 2 + 1))]
    x = np.moveaxis(signal, axis, -1)
    rows = x.reshape(-1, length)
    result = empty((len(rows), length // 2 + 1), np.result_type(x.dtype, np.complex64))
    step = max(1, PART // max(length, 1))
    for start in range(0, len(rows), step):
        checkpoint()
        result[start : start + step] = np.fft.rfft(rows[start : start + step])
    return np.moveaxis(result.reshape(*x.shape[:-1], length // 2 + 1), -1, axis)


def inverse_of_half(half: Array, length: int, axis: int = -1) -> Array:
    """Return the real signal of a length with this half transform."""
    if length <= PART:
        checkpoint()
        return np.fft.irfft(half, n=length, axis=axis)
    known = np.moveaxis(half, axis, -1)[..., : length // 2 + 1]
    whole = np.zeros((*known.shape[:-1], length), known.dtype)
    whole[..., : known.shape[-1]] = known
    whole[..., length // 2 + 1 :] = known[..., (length - 1) // 2 : 0 : -1].conj()
    return np.moveaxis(transform(whole, inverse=True).real, -1, axis)


def _long(x: Array, inverse: bool) -> Array:
    """Transform one long signal as a table (four-step FFT): columns, twiddle factors, then rows."""
    length = len(x)
    rows = next((n for n in range(isqrt(length), 1, -1) if length % n == 0), 1)
    if rows == 1:
        return _of_prime_length(x, inverse)
    columns = length // rows
    table = np.ascontiguousarray(transform(x.reshape(rows, columns), 0, inverse=inverse))
    for row in range(rows):
        checkpoint()
        table[row] *= _twiddle_factors(np.arange(columns) * row % length, length, inverse)
    return np.ascontiguousarray(transform(table, 1, inverse=inverse).T).reshape(-1)


def _twiddle_factors(steps: Array, count: int, inverse: bool) -> Array:
    """Return twiddle factors: complex numbers of length 1 at multiples of 1 / `count` of the circle."""
    return np.exp((2j if inverse else -2j) * np.pi / count * steps)


def _of_prime_length(x: Array, inverse: bool) -> Array:
    """Transform as a convolution with a chirp (Bluestein), whose length may be a power of two."""
    length = len(x)
    room = 1 << (2 * length - 2).bit_length()
    check_size((3, room), np.complex128)
    chirp = by_pieces(
        (length,), np.complex128,
        lambda start, stop: _twiddle_factors(np.arange(start, stop) ** 2 % (2 * length), 2 * length, inverse),
    )  # fmt: skip
    kernel = np.zeros(room, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[room - length + 1 :] = kernel[length - 1 : 0 : -1]
    padded = np.zeros(room, np.complex128)
    padded[:length] = x * chirp
    product = transform(padded) * transform(kernel)
    result = transform(product, inverse=True)[:length] * chirp
    return result / length if inverse else result
