"""Quantized operators with 8-bit tensors: linear arithmetic, pooling, products, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.attention import self_attention, split_projections
from onnx_workbench.exec.kernels.microsoft.normalization import embed_layer_normalization_1
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, channels_first, channels_last, onnx
from onnx_workbench.exec.kernels.onnx.reduction import mean_over
from onnx_workbench.exec.kernels.registry import keeps, kernel
from onnx_workbench.exec.kernels.shared.axes import normal_axes
from onnx_workbench.exec.kernels.shared.byte_products import ByteMatrix, byte_matrix, kept_byte_matrix, to_int32
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.kernels.shared.windows import window
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.statistics import describe

Ints = Sequence[int] | None


def real(x: Array, scale: Array, zero_point: Array | None, axis: int | None = None) -> Array:
    """(x - zero_point) · scale in float32."""
    return np.asarray(onnx("DequantizeLinear", 13, x, _one(scale), _one(zero_point), axis=1 if axis is None else axis))


def quantized(x: Array, scale: Array, zero_point: Array | None, axis: int | None = None) -> Array:
    """round(x / scale) + zero_point, saturated, in the type of the zero point."""
    return np.asarray(onnx("QuantizeLinear", 13, x, _one(scale), _one(zero_point), axis=1 if axis is None else axis))


def _one(value: Array | None) -> Array | None:
    return value.reshape(()) if value is not None and value.size == 1 else value


@kernel("QuantizeLinear", since=1, domain=MICROSOFT)
def quantize_linear_1(x: Array, y_scale: Array, y_zero_point: Array | None = None, *, axis: int | None = None) -> Array:
    """As in the default domain, 16-bit types too."""
    scale = widen(y_scale)
    return quantized(widen(x), scale, y_zero_point, axis)


@kernel("DequantizeLinear", since=1, domain=MICROSOFT)
def dequantize_linear_1(
    x: Array, x_scale: Array, x_zero_point: Array | None = None, *, axis: int | None = None
) -> Array:
    """As in the default domain, 16-bit types too."""
    return real(x, x_scale, x_zero_point, axis)


# --- elementwise -----------------------------------------------------------------------------------------------


@kernel("QLinearAdd", since=1, domain=MICROSOFT)
def qlinear_add_1(
    a: Array,
    a_scale: Array,
    a_zero_point: Array | None,
    b: Array,
    b_scale: Array,
    b_zero_point: Array | None = None,
    c_scale: Array | None = None,
    c_zero_point: Array | None = None,
) -> Array:
    """(a_scale · (a - a_zero_point) + b_scale · (b - b_zero_point)) / c_scale + c_zero_point, rounded once."""
    scale = _output_scale(c_scale)
    left = real(a, np.asarray(a_scale / scale, np.float32), a_zero_point)
    right = real(b, np.asarray(b_scale / scale, np.float32), b_zero_point)
    return _rounded(plus(left, right), c_zero_point, a)


@kernel("QLinearMul", since=1, domain=MICROSOFT)
def qlinear_mul_1(
    a: Array,
    a_scale: Array,
    a_zero_point: Array | None,
    b: Array,
    b_scale: Array,
    b_zero_point: Array | None = None,
    c_scale: Array | None = None,
    c_zero_point: Array | None = None,
) -> Array:
    """(a - a_zero_point) · (b - b_zero_point) · a_scale · b_scale / c_scale + c_zero_point, rounded once."""
    unit = np.ones((), np.float32)
    product = np.asarray(onnx("Mul", 14, real(a, unit, a_zero_point), real(b, unit, b_zero_point)))
    ratio = np.asarray(a_scale * b_scale / _output_scale(c_scale), np.float32)
    return _rounded(product * _one(ratio), c_zero_point, a)


def _output_scale(scale: Array | None) -> Array:
    if scale is None:
        msg = "the scale of the output is missing; expected one number"
        raise KernelError(msg)
    return scale


def _requantized(x: Array, scale: Array | None, zero_point: Array | None, like: Array) -> Array:
    """round(x / scale) + zero_point, saturated, in the type of `like` where there is no zero point."""
    return quantized(x, _output_scale(scale), np.zeros((), like.dtype) if zero_point is None else zero_point)


def _rounded(x: Array, zero_point: Array | None, like: Array) -> Array:
    """round(x + zero_point), saturated: with an odd zero point, halves go to the other side than in `_requantized`."""
    zero = _one(np.zeros((), like.dtype) if zero_point is None else zero_point)
    limits = np.iinfo(like.dtype)
    return np.asarray(np.clip(np.rint(x + np.asarray(zero, np.float32)), limits.min, limits.max), like.dtype)


def _by_table(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None,
    function: Callable[[Array], Array],
) -> Array:
    """Apply a function of one 8-bit value by a lookup table of 256 entries."""
    if x.dtype.itemsize != 1:
        msg = f"input is {describe(x)}; expected uint8 or int8"
        raise KernelError(msg)
    codes = np.arange(256, dtype=np.uint8).view(x.dtype)
    table = _requantized(function(real(codes, x_scale, x_zero_point)), y_scale, y_zero_point, x)
    return table.take(x.view(np.uint8))


@kernel("QLinearSigmoid", since=1, domain=MICROSOFT)
def qlinear_sigmoid_1(
    x: Array, x_scale: Array, x_zero_point: Array | None, y_scale: Array, y_zero_point: Array | None = None
) -> Array:
    """Sigmoid, quantized."""
    return _by_table(x, x_scale, x_zero_point, y_scale, y_zero_point, lambda v: onnx("Sigmoid", 13, v))


@kernel("QLinearLeakyRelu", since=1, domain=MICROSOFT)
def qlinear_leaky_relu_1(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    alpha: float = 0.009999999776482582,
) -> Array:
    """LeakyRelu, quantized."""
    return _by_table(
        x, x_scale, x_zero_point, y_scale, y_zero_point, lambda v: np.where(v < 0, v * np.float32(alpha), v)
    )


@kernel("QLinearSoftmax", since=1, domain=MICROSOFT)
def qlinear_softmax_1(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array,
    *,
    axis: int = -1,
    opset: int,
) -> Array:
    """Softmax as it is at an operator set, quantized."""
    y = onnx("Softmax", 13 if opset >= 13 else 11, real(x, x_scale, x_zero_point), axis=axis)
    return _requantized(y, y_scale, y_zero_point, x)


@kernel("QLinearWhere", since=1, domain=MICROSOFT)
def qlinear_where_1(
    condition: Array,
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    y: Array,
    y_scale: Array,
    y_zero_point: Array,
    z_scale: Array,
    z_zero_point: Array,
) -> Array:
    """Where, with both sides requantized."""
    left, right = real(x, x_scale, x_zero_point), real(y, y_scale, y_zero_point)
    return _requantized(onnx("Where", 16, condition, left, right), z_scale, z_zero_point, x)


@kernel("QLinearConcat", since=1, domain=MICROSOFT)
def qlinear_concat_1(y_scale: Array, y_zero_point: Array, *inputs: Array, axis: int) -> Array:
    """Concat of tensors with scales and zero points (triples), requantized."""
    if not inputs or len(inputs) % 3:
        msg = f"{len(inputs)} inputs; expected tensors, scales and zero points in turn"
        raise KernelError(msg)
    parts = [
        x if scale == y_scale and zero == y_zero_point else _requantized(real(x, scale, zero), y_scale, y_zero_point, x)
        for x, scale, zero in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    ]
    return np.asarray(onnx("Concat", 13, *parts, axis=axis))


@kernel("QLinearReduceMean", since=1, domain=MICROSOFT)
def qlinear_reduce_mean_1(
    data: Array,
    data_scale: Array,
    data_zero_point: Array | None,
    reduced_scale: Array,
    reduced_zero_point: Array | None = None,
    *,
    axes: Sequence[int],
    keepdims: int,
) -> Array:
    """Return the mean over axes, quantized."""
    wide = real(data, data_scale, data_zero_point)
    places = normal_axes(axes, data.ndim) or tuple(range(data.ndim))
    mean = mean_over(wide, places)
    mean = mean if keepdims else mean.squeeze(places)
    return _requantized(mean, reduced_scale, reduced_zero_point, data)


@kernel("QLinearGlobalAveragePool", since=1, domain=MICROSOFT)
def qlinear_global_average_pool_1(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    *,
    channels_last: int = 0,
) -> Array:
    """Return the mean over the spatial axes, quantized."""
    places = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    mean = mean_over(real(x, x_scale, x_zero_point), places)
    return _requantized(mean, y_scale, y_zero_point, x)


@kernel("QLinearAveragePool", since=1, domain=MICROSOFT)
def qlinear_average_pool_1(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Sequence[int],
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    """AveragePool, quantized."""
    wide = real(x, x_scale, x_zero_point)
    source = np.ascontiguousarray(channels_first(wide)) if channels_last else wide
    if count_include_pad and ceil_mode:
        # ONNX Runtime divides by the size of the kernel where a window reaches beyond the padding too, as if padded.
        pads = _pads_to_reach(source.shape[2:], kernel_shape, strides, pads, auto_pad)
        ceil_mode, auto_pad = 0, "NOTSET"
    y = onnx(
        "AveragePool", 11, source, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    y = _rounded(np.asarray(y) / _one(y_scale), y_zero_point, x)
    return _last(y) if channels_last else y


def _pads_to_reach(
    sizes: Sequence[int], kernel: Sequence[int], strides: Ints, pads: Ints, auto_pad: str
) -> tuple[int, ...]:
    """Return pads that hold all windows of a pool with ceil_mode."""
    view = window(sizes, kernel, strides=strides, pads=pads, auto_pad=auto_pad, ceil_mode=1, may_overhang=True)
    ends = (reach - size - begin for reach, size, begin in zip(view.reach, view.sizes, view.begin, strict=True))
    return *view.begin, *(max(end, given) for end, given in zip(ends, view.end, strict=True))


def _last(x: Array) -> Array:
    return np.ascontiguousarray(channels_last(x))


@kernel("QLinearConv", since=1, domain=MICROSOFT)
def qlinear_conv_1(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    w: Array,
    w_scale: Array,
    w_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    channels_last: int = 0,
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Array:
    """QLinearConv, optionally channels-last; the weights are laid out as in Conv."""
    source = np.ascontiguousarray(channels_first(x)) if channels_last else x
    pairs = ((x, x_zero_point), (w, w_zero_point), (x, y_zero_point))
    zeros = [np.zeros((), value.dtype) if zero is None else zero for value, zero in pairs]
    y = onnx(
        "QLinearConv", 10, source, _one(x_scale), _one(zeros[0]), w, w_scale, zeros[1], _one(y_scale), _one(zeros[2]),
        b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return _last(y) if channels_last else np.asarray(y)


# --- products --------------------------------------------------------------------------------------------------


def _total(a: Array, b: Array | ByteMatrix, a_zero_point: Array | None, b_zero_point: Array | None) -> Array:
    """Return the product of 8-bit matrices less their zero points, as float32."""
    return to_int32(byte_matrix(b, b_zero_point).product(a, a_zero_point)).astype(np.float32)


@kernel("MatMulInteger16", since=1, domain=MICROSOFT)
def matmul_integer16_1(a: Array, b: Array) -> Array:
    """Return the product of 16-bit integers in 32 bits."""
    unsigned = a.dtype.kind == b.dtype.kind == "u"
    product: Array = np.matmul(a.astype(np.int64), b.astype(np.int64))
    return product.astype(np.uint32 if unsigned else np.int32)


@keeps(1, kept_byte_matrix, 5)
@kernel("MatMulIntegerToFloat", since=1, domain=MICROSOFT)
def matmul_integer_to_float_1(
    a: Array,
    b: Array | ByteMatrix,
    a_scale: Array,
    b_scale: Array,
    a_zero_point: Array | None = None,
    b_zero_point: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Return a product of 8-bit matrices, scaled, with a bias."""
    return _scaled(_total(a, b, a_zero_point, b_zero_point), a_scale, b_scale, bias)


def _scaled(total: Array, a_scale: Array, b_scale: Array, bias: Array | None) -> Array:
    """Return sums of integers times both scales, with a bias, in the type of the scales."""
    y = total * (widen(_one_or(a_scale)) * widen(_one_or(b_scale)))
    return plus(narrow(np.asarray(y), a_scale.dtype), bias)


def _one_or(value: Array) -> Array:
    return value.reshape(()) if value.size == 1 else value


@keeps(1, kept_byte_matrix, 3)
@kernel("DynamicQuantizeMatMul", since=1, domain=MICROSOFT)
def dynamic_quantize_matmul_1(
    a: Array, b: Array | ByteMatrix, b_scale: Array, b_zero_point: Array | None = None, bias: Array | None = None
) -> Array:
    """MatMulIntegerToFloat after A is quantized by its own range."""
    codes, scale, zero = onnx("DynamicQuantizeLinear", 11, a)
    return matmul_integer_to_float_1(codes, b, scale, b_scale, zero, b_zero_point, bias)


@keeps(3, kept_byte_matrix, 5)
@kernel("QGemm", since=1, domain=MICROSOFT)
def qgemm_1(
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array | ByteMatrix,
    b_scale: Array,
    b_zero_point: Array,
    c: Array | None = None,
    y_scale: Array | None = None,
    y_zero_point: Array | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """alpha · A' · B' + C, whose scale is alpha · a_scale · b_scale; quantized when y_scale is there."""
    left, right = a.T if transA else a, b.T if transB and not isinstance(b, ByteMatrix) else b
    y = _with_bias(_total(left, right, a_zero_point, b_zero_point), a_scale, b_scale, c, alpha)
    return y if y_scale is None else _requantized(y, y_scale, y_zero_point, a)


def _with_bias(total: Array, a_scale: Array, b_scale: Array, c: Array | None, alpha: float) -> Array:
    """Return alpha · (sums of integers + C) times both scales."""
    wide = total.astype(np.float64)
    if c is not None:
        wide += c
    return np.asarray(wide * (alpha * widen(_one_or(a_scale)) * widen(_one_or(b_scale))), np.float32)


@kernel("MulInteger", since=1, domain=MICROSOFT)
def mul_integer_1(a: Array, a_zero_point: Array | None, b: Array, b_zero_point: Array | None = None) -> Array:
    """Return the product of 8-bit values less their zero points, in 32 bits."""
    left, right = (
        x.astype(np.int32) - (0 if z is None else z.astype(np.int32)) for x, z in ((a, a_zero_point), (b, b_zero_point))
    )
    return np.asarray(onnx("Mul", 14, np.asarray(left), np.asarray(right)))


@kernel("ReduceSumInteger", since=1, domain=MICROSOFT)
def reduce_sum_integer_1(data: Array, *, axes: Sequence[int], keepdims: int) -> Array:
    """Return the sum of 8-bit values in 32 bits."""
    places = normal_axes(axes, data.ndim) or None
    dtype = np.uint32 if data.dtype.kind == "u" else np.int32
    total = np.asarray(data.sum(places, dtype=dtype, keepdims=True))
    return total if keepdims else total.squeeze(places)


@kernel("QEmbedLayerNormalization", since=1, domain=MICROSOFT)
def qembed_layer_normalization_1(
    input_ids: Array,
    segment_ids: Array | None,
    word_embedding_quant: Array,
    position_embedding_quant: Array,
    segment_embedding: Array | None,
    gamma_quant: Array,
    beta_quant: Array,
    mask: Array | None,
    word_embedding_scale: Array,
    position_embedding_scale: Array,
    segment_embedding_scale: Array | None,
    gamma_scale: Array,
    beta_scale: Array,
    word_embedding_zero_point: Array,
    position_embedding_zero_point: Array,
    segment_embedding_zero_point: Array | None,
    gamma_zero_point: Array,
    beta_zero_point: Array,
    *,
    epsilon: float = 9.999999960041972e-13,
) -> tuple[Array, Array]:
    """EmbedLayerNormalization of tables of 8 bits."""
    segments = None
    if segment_embedding is not None and segment_embedding_scale is not None:
        segments = real(segment_embedding, segment_embedding_scale, segment_embedding_zero_point)
    y, lengths, _ = embed_layer_normalization_1(
        input_ids,
        segment_ids,
        real(word_embedding_quant, word_embedding_scale, word_embedding_zero_point),
        real(position_embedding_quant, position_embedding_scale, position_embedding_zero_point),
        segments,
        real(gamma_quant, gamma_scale, gamma_zero_point),
        real(beta_quant, beta_scale, beta_zero_point),
        mask,
        epsilon=epsilon,
    )
    return y, lengths


@keeps(1, kept_byte_matrix, 7)
@kernel("QAttention", since=1, domain=MICROSOFT)
def qattention_1(
    x: Array,
    weight: Array | ByteMatrix,
    bias: Array,
    input_scale: Array,
    weight_scale: Array,
    mask_index: Array | None = None,
    input_zero_point: Array | None = None,
    weight_zero_point: Array | None = None,
    past: Array | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Array, Array]:
    """Attention whose projection is a product of 8-bit matrices."""
    if do_rotary or past_present_share_buffer or x.ndim != 3:
        msg = f"input of shape {x.shape}; expected three dimensions, and neither do_rotary nor a shared past buffer"
        raise KernelError(msg)
    total = _total(x, weight, input_zero_point, weight_zero_point)
    projected = _scaled(total, widen(input_scale), widen(weight_scale), widen(bias))
    q, k, v = split_projections(projected, num_heads)
    y, present = self_attention(
        q, k, v, mask=mask_index, past=past, attention_bias=None, unidirectional=unidirectional,
        mask_value=mask_filter_value, scale=scale,
    )  # fmt: skip
    return narrow(y, bias.dtype), narrow(present, bias.dtype)
