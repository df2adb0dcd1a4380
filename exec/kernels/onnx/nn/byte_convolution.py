"""Convolutions of 8-bit integers by products of bytes: windows as rows, channels last, times constant weights."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_workbench.exec.kernels.onnx.nn.strategies import L2_BLOCK
from onnx_workbench.exec.kernels.shared.byte_products import ByteMatrix
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.shared.windows import Window, fill_padded, windows_of
from onnx_workbench.exec.kernels.threads import parallel_for
from onnx_workbench.exec.values.arrays import Array, empty

#: Channels × kernel from which this is faster than in float32: below, turning inputs and sums into the other layout
#: costs more than the product gains. 128 channels of 56 × 56, 1 × 1: 3.3 ms against 2.0; 64 of 64 × 64, 3 × 3: 4.7
#: against 5.8; 256 of 14 × 14, 3 × 3: 1.9 against 7.5.
_DEEP = 512


class ByteConvolution:
    """Constant weights (M, C, kernel…) of 8-bit integers less their zero point, of one group."""

    def __init__(self, w: Array, zero_point: Array | None) -> None:
        self._outputs = w.shape[0]
        rows = np.moveaxis(w, 1, -1).reshape(w.shape[0], -1)
        self._matrix = ByteMatrix(rows.T, zero_point)

    def pays(self, view: Window) -> bool:
        """Return whether this is faster than in float32."""
        return self._matrix.shape[0] >= _DEEP and self._matrix.packed(prod(view.output)) is not None

    def sums(self, x: Array, zero: int, view: Window, dtype: type[np.floating]) -> Array:
        """Return the sums over windows of x (N, C, spatial…) less its zero point, exact, as integers in a float type.

        What is outside of `x` has the value of the zero point.
        """
        codes = np.bitwise_xor(x, np.uint8(128)).view(np.int8) if x.dtype == np.uint8 else x
        shifted = np.array(zero - 128 if x.dtype == np.uint8 else zero, np.int8)
        images, channels = x.shape[:2]
        last = empty((images, *view.reach, channels), np.int8)
        whole = np.moveaxis(last, -1, 1)
        fill_padded(codes, view, whole, shifted.item())
        rank = view.rank
        windows = windows_of(whole, view).transpose(0, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank), 1)
        out = empty((images, self._outputs, *view.output), dtype)
        depth, rest = channels * prod(view.kernel), prod(view.output[1:])
        step = max(1, L2_BLOCK // max(1, depth * rest))
        slabs = -(-view.output[0] // step)

        def slab(index: int) -> None:
            image, at = divmod(index, slabs)
            part = windows[image, at * step : (at + 1) * step]
            patches = scratch("windows of bytes", part.shape, np.int8)
            np.copyto(patches, part)
            total = self._matrix.product(patches.reshape(-1, depth), shifted)
            target = out[image].reshape(self._outputs, -1)[:, at * step * rest :][:, : len(total)]
            np.copyto(target, total.T, casting="unsafe")

        parallel_for(slab, images * slabs, out.size * depth)
        return out
