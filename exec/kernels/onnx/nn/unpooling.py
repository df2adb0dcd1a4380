"""MaxUnpool, and MaxRoiPool with its windows from regions of interest."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, zeros
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.model.analysis.output_sizes import transposed_size


@kernel("MaxUnpool", since=9)
def max_unpool_9(
    x: Array,
    i: Array,
    output_shape: Array | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Write each value back to MaxPool's position (flat indices into the whole output), zeros elsewhere.

    Indices refer to the shape that the attributes give; a larger `output_shape` adds zeros at the end.
    """
    rank = x.ndim - 2
    strides = strides or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    if rank < 1 or x.shape != i.shape or len(kernel_shape) != rank or len(strides) != rank or len(pads) != 2 * rank:
        msg = (
            f"X has shape {x.shape}, I {i.shape}, kernel_shape is {kernel_shape}, strides {strides}, pads {pads}; "
            f"expected equal shapes and one entry per spatial axis"
        )
        raise KernelError(msg)
    inferred = [
        transposed_size(n, k, s, pads[a], pads[rank + a], 0)
        for a, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    shape = (*x.shape[:2], *inferred)
    wanted = shape if output_shape is None else tuple(int(v) for v in output_shape.reshape(-1))
    if len(wanted) != x.ndim or min((*wanted, *shape)) < 0:
        msg = f"output_shape is {wanted}, expected {x.ndim} numbers not below 0"
        raise KernelError(msg)
    if any(w < s for w, s in zip(wanted, shape, strict=True)):
        shape = wanted  # smaller than inferred: the indices can only refer to the requested shape
    flat = zeros((prod(shape),), x.dtype)
    indices = i.reshape(-1)
    if indices.size and (indices.min() < 0 or indices.max() >= flat.size):
        msg = f"I has indices from {indices.min()} to {indices.max()}, expected 0 to {flat.size - 1}"
        raise KernelError(msg)
    flat[indices] = x.reshape(-1)
    result = flat.reshape(shape)
    if wanted == shape:
        return result
    framed = zeros(wanted, x.dtype)
    framed[tuple(slice(n) for n in shape)] = result
    return framed


@kernel("MaxRoiPool", since=1)
def max_roi_pool_1(x: Array, rois: Array, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0) -> Array:
    """The largest value in each of pooled_shape cells of each region [batch, x1, y1, x2, y2], both ends included."""
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5 or len(pooled_shape) != 2 or min(pooled_shape) < 1:
        given = f"X has shape {x.shape}, rois {rois.shape}, pooled_shape is {pooled_shape}"
        msg = f"{given}; expected (N, C, H, W), (regions, 5) and two sizes from 1"
        raise KernelError(msg)
    source = widen(x)
    high, wide = pooled_shape
    out = zeros((rois.shape[0], x.shape[1], high, wide), source.dtype)
    regions = widen(rois).astype(np.float64)
    for number, (batch, *corners) in enumerate(regions):
        checkpoint()
        if not 0 <= batch < x.shape[0] or not np.isfinite(corners).all():
            given = f"region {number} is {regions[number].tolist()}, but there are {x.shape[0]} images"
            msg = f"{given}; expected an image within [0, {x.shape[0] - 1}] and finite corners"
            raise KernelError(msg)
        left, top, right, bottom = (int(np.floor(c * spatial_scale + 0.5)) for c in corners)
        rows = _cells(top, bottom, high, x.shape[2])
        columns = _cells(left, right, wide, x.shape[3])
        image = source[int(batch)]
        for r, (y0, y1) in enumerate(rows):
            if y1 <= y0:
                continue
            line = image[:, y0:y1].max(axis=1)
            for c, (x0, x1) in enumerate(columns):
                if x1 > x0:
                    out[number, :, r, c] = line[:, x0:x1].max(axis=1)
    return narrow(out, x.dtype)


def _cells(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    """Return the bounds of `count` cells of the range first … last, clipped to range(size)."""
    step = max(last - first + 1, 1) / count
    return [
        (
            min(max(int(np.floor(i * step)) + first, 0), size),
            min(max(int(np.ceil((i + 1) * step)) + first, 0), size),
        )
        for i in range(count)
    ]
