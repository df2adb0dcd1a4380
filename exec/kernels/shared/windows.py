"""Sliding windows of convolutions and pools: output sizes, padding, and the inputs of each tap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import Array, empty
from onnx_workbench.model.analysis.output_sizes import window_count

#: Models decide these attributes; larger values are treated as an attack on the arithmetic.
_LARGEST = 1 << 31

#: Taps of windows up to this size are cached: computing them takes longer than pooling a small map.
_FEW_TAPS = 16


@dataclass(frozen=True, slots=True)
class Window:
    """A window sliding over spatial axes; every tuple has one entry per axis.

    `begin` and `end` are the paddings of the attributes. With ceil_mode the last window may reach past `end`.
    """

    sizes: tuple[int, ...]  # of the input
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    @property
    def reach(self) -> tuple[int, ...]:
        """Padded sizes that contain every window."""
        return tuple(
            (o - 1) * s + (k - 1) * d + 1
            for o, s, k, d in zip(self.output, self.strides, self.kernel, self.dilations, strict=True)
        )

    @property
    def is_plain(self) -> bool:
        """Whether the windows are single points that cover every input once."""
        ones = (1,) * self.rank
        return self.kernel == ones and self.strides == ones and not any(self.begin) and not any(self.end)

    def taps(self, axis: int) -> Sequence[Tap]:
        """Return for each tap along an axis the outputs that see an input there, and those inputs."""
        return _known_taps(self, axis) if self.kernel[axis] <= _FEW_TAPS else self.find_taps(axis)

    def find_taps(self, axis: int) -> list[Tap]:
        """Compute what `taps` caches."""
        size, count, stride = self.sizes[axis], self.output[axis], self.strides[axis]
        dilation, before = self.dilations[axis], self.begin[axis]
        # Only these can meet the input: a kernel as large as a hostile model claims is never iterated.
        first_tap = max(0, -((count - 1) * stride - before) // dilation)
        last_tap = min(self.kernel[axis] - 1, (before + size - 1) // dilation)
        result = []
        for k in range(first_tap, last_tap + 1):
            offset = k * dilation - before
            low = max(0, -(offset // stride))
            high = min(count, (size - 1 - offset) // stride + 1)
            if low < high:
                first = low * stride + offset
                source = slice(first, first + (high - low - 1) * stride + 1, stride)
                result.append(Tap(k, low, high, source))
        return result

    def counts(self, axis: int, *, padding: bool) -> Array:
        """Return how many taps of each output along an axis meet the input (with padding: input or declared
        padding).
        """
        low, high = 0, self.sizes[axis]
        if padding:
            low, high = -self.begin[axis], high + self.end[axis]
        start = np.arange(self.output[axis]) * self.strides[axis] - self.begin[axis]
        dilation = self.dilations[axis]
        first = np.maximum(-((start - low) // dilation), 0)  # ceil((low - start) / dilation)
        last = np.minimum((high - 1 - start) // dilation, self.kernel[axis] - 1)
        counts: Array = np.maximum(last - first + 1, 0)
        return counts


@dataclass(frozen=True, slots=True)
class Tap:
    """One position inside a window along one axis: outputs low … high meet the inputs of `source`."""

    index: int
    low: int
    high: int
    source: slice


@lru_cache(maxsize=512)
def _known_taps(view: Window, axis: int) -> tuple[Tap, ...]:
    return tuple(view.find_taps(axis))


def window(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    may_overhang: bool = False,
) -> Window:
    """Return the window that the attributes of a convolution or pool describe; KernelError for invalid ones.

    SAME_UPPER and SAME_LOWER give ceil(size / stride) outputs and pad as much as that takes, VALID pads nothing. With
    ceil_mode a window may stick out at the end, but never start behind the input and its padding before it.
    With `may_overhang` (pools) a window may be larger than the input: the count is then rounded towards zero, as in
    ONNX Runtime, and is 1 where the window reaches out by less than a stride.
    """
    lists = (None if each is None else tuple(each) for each in (strides, dilations, pads))
    return _window(tuple(sizes), tuple(kernel), *lists, auto_pad, ceil_mode, may_overhang)


@lru_cache(maxsize=512)  # making it takes longer than going over a small map
def _window(
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    auto_pad: str,
    ceil_mode: int,
    may_overhang: bool,
) -> Window:
    rank = len(sizes)
    strides = _attribute("strides", strides, rank, 1)
    dilations = _attribute("dilations", dilations, rank, 1)
    kernel = _attribute("kernel_shape", kernel, rank, 1)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    match auto_pad:
        case "NOTSET" | "":
            begin, end = _pads(pads, rank)
        case "VALID":
            begin = end = (0,) * rank
        case "SAME_UPPER" | "SAME_LOWER":
            begin, end = _same(sizes, extents, strides, upper=auto_pad == "SAME_UPPER")
        case _:
            msg = f"auto_pad is {auto_pad!r}, expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"
            raise KernelError(msg)
    axes = zip(sizes, extents, strides, begin, end, strict=True)
    output = [_count(*axis, is_up=bool(ceil_mode), may_overhang=may_overhang) for axis in axes]
    return Window(sizes, kernel, strides, dilations, begin, end, tuple(output))


def _count(size: int, extent: int, stride: int, before: int, after: int, *, is_up: bool, may_overhang: bool) -> int:
    count = window_count(size, extent, stride, before, after, rounds_up=is_up, may_overhang=may_overhang)
    if not isinstance(count, int):
        given = f"a window of {extent} (kernel with dilation) does not fit an axis of {size}"
        msg = f"{given} padded by {before} and {after}; expected {extent} or more in all"
        raise KernelError(msg)
    return count


def padded(x: Array, w: Window, value: float = 0) -> Array:
    """Return x (N, C, spatial…) padded to the window's reach with `value`, cropped where no window reaches."""
    reach = w.reach
    if not any(w.begin) and all(r <= s for r, s in zip(reach, w.sizes, strict=True)):
        cut: Array = x[_trailing(slice(r) for r in reach)]
        return cut
    result = empty((*x.shape[: x.ndim - w.rank], *reach), x.dtype)
    fill_padded(x, w, result, value)
    return result


def fill_padded(x: Array, w: Window, out: Array, value: float = 0) -> None:
    """Write x padded with `value` into `out`, whose trailing axes are at least as long as the padding before."""
    inner = []
    for axis in range(w.rank):
        before = w.begin[axis]
        length = min(w.sizes[axis], out.shape[out.ndim - w.rank + axis] - before)
        index = [slice(None)] * out.ndim
        index[out.ndim - w.rank + axis] = slice(0, before)
        out[tuple(index)] = value
        index[out.ndim - w.rank + axis] = slice(before + max(length, 0), None)
        out[tuple(index)] = value
        inner.append((before, max(length, 0)))
    target = out[_trailing(slice(before, before + length) for before, length in inner)]
    target[...] = x[_trailing(slice(length) for _, length in inner)]


def windows_of(x: Array, w: Window) -> Array:
    """Return a view of a padded array as (N, C, kernel…, output…); nothing is copied."""
    spatial = x.strides[x.ndim - w.rank :]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[: x.ndim - w.rank], *w.kernel, *w.output),
        (
            *x.strides[: x.ndim - w.rank],
            *(s * d for s, d in zip(spatial, w.dilations, strict=True)),
            *(s * t for s, t in zip(spatial, w.strides, strict=True)),
        ),
        writeable=False,
    )


def _trailing(parts: Iterable[slice]) -> tuple[Any, ...]:
    """Return an index of the last axes."""
    return (..., *parts)


def _same(
    sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], *, upper: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    total = [
        max((-(-size // stride) - 1) * stride + extent - size, 0)
        for size, extent, stride in zip(sizes, extents, strides, strict=True)
    ]
    less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return (less, more) if upper else (more, less)


def _attribute(name: str, values: Sequence[int] | None, rank: int, default: int) -> tuple[int, ...]:
    if values is None:
        return (default,) * rank
    if len(values) != rank:
        msg = f"{name} has {len(values)} entries, expected {rank}, one per spatial axis"
        raise KernelError(msg)
    if not all(0 < v < _LARGEST for v in values):
        msg = f"{name} is {tuple(values)}, expected positive numbers"
        raise KernelError(msg)
    return tuple(int(v) for v in values)


def _pads(pads: Sequence[int] | None, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if pads is None:
        return (0,) * rank, (0,) * rank
    if len(pads) != 2 * rank:
        msg = f"pads has {len(pads)} entries, expected {2 * rank}: begin and end of each spatial axis"
        raise KernelError(msg)
    if not all(0 <= p < _LARGEST for p in pads):
        msg = f"pads is {tuple(pads)}, expected numbers not below 0"
        raise KernelError(msg)
    return tuple(int(p) for p in pads[:rank]), tuple(int(p) for p in pads[rank:])


def positions(w: Window) -> int:
    """Return the number of outputs over all axes."""
    return prod(w.output)
