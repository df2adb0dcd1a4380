"""Operators that ONNX dropped before its first release, which ONNX Runtime still supports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.tensor.slicing import slice_axes
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import integers
from onnx_workbench.exec.values.arrays import Array


@kernel("Affine", since=1)
def affine_1(x: Array, *, alpha: float = 1.0, beta: float = 0.0) -> Array:
    """alpha · x + beta."""
    return np.asarray(x * x.dtype.type(alpha) + x.dtype.type(beta))


@kernel("Scale", since=1)
def scale_1(x: Array, *, scale: float = 1.0) -> Array:
    """scale · x."""
    return np.asarray(x * x.dtype.type(scale))


@kernel("ImageScaler", since=1)
def image_scaler_1(x: Array, *, bias: Sequence[float] | None = None, scale: float = 1.0) -> Array:
    """scale · x + bias, with a bias per channel of (N, C, H, W)."""
    if x.ndim != 4 or (bias is not None and len(bias) != x.shape[1]):
        msg = f"input of shape {x.shape} with {len(bias or ())} biases; expected (N, C, H, W) and one per channel"
        raise KernelError(msg)
    result: Array = x * x.dtype.type(scale)
    if bias is not None:
        result += np.array(bias, x.dtype).reshape(-1, 1, 1)
    return result


@kernel("Crop", since=1)
def crop_1(x: Array, *, border: Sequence[int] | None = None, scale: Sequence[int] | None = None) -> Array:
    """Return a view without the border (left, top, right, bottom), or of the size `scale` from its left and top on."""
    edges = list(border or ())
    if x.ndim != 4 or len(edges) != 4 or min(edges) < 0 or (scale is not None and len(scale) != 2):
        msg = f"input of shape {x.shape}, border {edges}, scale {scale}; expected (N, C, H, W), four and two numbers"
        raise KernelError(msg)
    left, top, right, bottom = edges
    height, width = x.shape[2:]
    end_row, end_column = (top + scale[0], left + scale[1]) if scale else (height - bottom, width - right)
    if not (top <= end_row <= height and left <= end_column <= width):
        given = f"rows {top} to {end_row} and columns {left} to {end_column} of a picture of {height} × {width}"
        msg = f"{given}; expected them inside it, in rising order"
        raise KernelError(msg)
    return x[:, :, top:end_row, left:end_column]


@kernel("ParametricSoftplus", since=1)
def parametric_softplus_1(x: Array, *, alpha: float, beta: float) -> Array:
    """alpha · log(1 + exp(beta · x))."""
    return np.asarray(x.dtype.type(alpha) * np.logaddexp(0, x.dtype.type(beta) * x), x.dtype)


@kernel("ScaledTanh", since=1)
def scaled_tanh_1(x: Array, *, alpha: float, beta: float) -> Array:
    """alpha · tanh(beta · x)."""
    return np.asarray(x.dtype.type(alpha) * np.tanh(x.dtype.type(beta) * x))


@kernel("DynamicSlice", since=1)
def dynamic_slice_1(data: Array, starts: Array, ends: Array, axes: Array | None = None) -> Array:
    """Slice as it came to be in opset 10."""
    places = None if axes is None else integers(axes, "axes")
    return slice_axes(data, integers(starts, "starts"), integers(ends, "ends"), places, None)
