"""The operators of com.microsoft, and those that exporters and other tools add."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.inference.operators.aten import aten, unfolded
from onnx_workbench.model.inference.operators.attention import ATTENTION
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    Sized,
    at,
    axis_of,
    broadcast,
    divided,
    replaced,
    same_as,
)
from onnx_workbench.model.inference.operators.products import OTHERS, gemm_dims, loss, matmul, recurrent
from onnx_workbench.model.inference.operators.reshaping import RESHAPING, joined
from onnx_workbench.model.inference.operators.spatial import SPATIAL, convolution, last_channels_convolution
from onnx_workbench.model.ir.types import ElementType

E = ElementType


def _rotary(call: NodeCall) -> Sequence[Found]:
    """Like the input, which is last where an exporter made a function with position inputs."""
    return [*[call.tensor(1)] * (call.outputs - 1), call.tensor(0)]


def _internal_loss(call: NodeCall) -> Sequence[Found]:
    kind = call.integer("output_type")
    return tuple(Sized(E(kind), dims) for dims in loss(call)) if kind else loss(call)


def _gemm(kind: ElementType | None = None, second: int = 1, quantized: int | None = None) -> Rule:
    """A product of matrices; `quantized` is the zero point of a quantized result."""

    def rule(call: NodeCall) -> Sequence[Found]:
        element = kind or (call.kind(0) if quantized is None else call.kind(quantized) or E.FLOAT)
        dtype = call.integer("dtype")
        return (Sized(E(dtype) if dtype else element, gemm_dims(call, 0, second)),)

    return rule


def _qlinear_binary(call: NodeCall) -> Sequence[Found]:
    return (Sized(call.kind(0), broadcast(call.dims(0), call.dims(3))),)


def _qlinear_concat(call: NodeCall) -> Sequence[Found]:
    """Scale and zero point of the output, then parts, each with its own."""
    return (Sized(call.kind(1), joined(call, [call.dims(i) for i in range(2, len(call.node.inputs), 3)])),)


def _unique(call: NodeCall) -> Sequence[Found]:
    return (Sized(call.kind(0), (None,)), Sized(E.INT64, call.dims(0)), Sized(E.INT64, (None,)))


def _pre_mix(call: NodeCall) -> Sequence[Found]:
    """Branches are summed: parts of the last dimension, or the one before it."""
    data, dims, branches = call.tensor(0), call.dims(0), call.attribute("num_branches", 0)
    if data is None or dims is None or len(dims) < 2:
        return ()
    return (
        Sized(data.element_type, (*dims[:-1], divided(dims[-1], branches)) if branches else (*dims[:-2], dims[-1])),
    )


def _python_op(call: NodeCall) -> Sequence[Found]:
    """First the context for backward; then tensors whose ranks are attributes."""
    kinds, ranks = call.attribute("output_tensor_types", ()), call.attribute("output_tensor_ranks", ())
    tensors = (Sized(E(kind), (None,) * min(rank, 64)) for kind, rank in zip(kinds, ranks, strict=False))
    return (Sized(E.INT64, ()), *tensors)


def _skip_normalization(call: NodeCall) -> Sequence[Found]:
    data = call.tensor(0)
    if data is None:
        return ()
    statistics = Sized(E.FLOAT, None if data.dims is None else (*data.dims[:-1], 1))
    return (data, statistics, statistics, data)


def _matmul_nbits(call: NodeCall) -> Sequence[Found]:
    a, dims = call.tensor(0), call.dims(0)
    if a is None:
        return ()
    return (Sized(a.element_type, None if dims is None else (*dims[:-1], call.attribute("N"))),)


def _embed_layer_normalization(call: NodeCall) -> Sequence[Found]:
    ids, words = call.dims(0), call.dims(2)
    table = call.tensor(2)
    if ids is None or table is None:
        return ()
    out = Sized(table.element_type, (*ids, at(words, -1)))
    return (out, Sized(E.INT32, ids[:1]), out)


def _tokenizer(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    return (Sized(E.STRING, None if dims is None else (*dims, None)),)


def _quantized(index: int, default: ElementType) -> Rule:
    """Shape of the first input, type of another: the scale or the zero point."""

    def rule(call: NodeCall) -> Sequence[Found]:
        other = call.tensor(index)
        return (Sized(default if other is None else other.element_type, call.dims(0)),)

    return rule


def _bias_split_gelu(call: NodeCall) -> Sequence[Found]:
    """The halves of the last dimension are multiplied."""
    data, dims = call.tensor(0), call.dims(0)
    if data is None or not dims:
        return ()
    return (Sized(data.element_type, (*dims[:-1], divided(dims[-1], 2))),)


def _gather_block_quantized(call: NodeCall) -> Sequence[Found]:
    """Type of the scales; a byte may hold several elements, along the last dimension."""
    dims, indices, kind = call.dims(0), call.dims(1), call.kind(2)
    if not dims or indices is None:
        return (Sized(kind, None),)
    axis = axis_of(call.integer("gather_axis"), len(dims), "gather_axis")
    if call.kind(0) == E.UINT8:
        dims = (*dims[:-1], dims[-1] * (8 // max(call.integer("bits", 4), 1)))
    return (Sized(kind, replaced(dims, axis, *indices)),)


def _like_first(rule: Rule) -> Rule:
    """The shape that a rule finds, of the first input's type, with channels in their usual place."""

    def typed(call: NodeCall) -> Sequence[Found]:
        dims = call.dims(0)
        if call.integer("channels_last"):
            return (Sized(call.kind(0), None if dims is None else (None,) * len(dims)),)
        first = next(iter(rule(call)), None)
        return (Sized(call.kind(0), first if isinstance(first, tuple) else None),)

    return typed


def _crop_and_resize(call: NodeCall) -> Sequence[Found]:
    return (Sized(call.kind(0), (at(call.dims(1), 0), at(call.dims(0), 1), None, None)),)


def _qlinear_where(call: NodeCall) -> Sequence[Found]:
    return (Sized(call.kind(1), broadcast(call.dims(0), call.dims(1), call.dims(4))),)


def _hash(call: NodeCall) -> Sequence[Found]:
    return (Sized(E.UINT32 if call.integer("positive", 1) else E.INT32, call.dims(0)),)


#: Attributes of UnfoldTensor, with their defaults.
_UNFOLDING = (("dim", -1), ("size", None), ("step", 1))

MICROSOFT: dict[str, Rule] = {
    **dict.fromkeys(("AllReduce", "CumSum"), same_as(0)),
    **ATTENTION,
    **{name: OTHERS[name] for name in ("LayerNormalization", "SimplifiedLayerNormalization", "MatMulInteger")},
    **dict.fromkeys(("SoftmaxCrossEntropyLossInternal", "NegativeLogLikelihoodLossInternal"), _internal_loss),
    "ATen": aten,
    "SkipGroupNorm": lambda call: [call.tensor(0)] * 2,
    "ExpandDims": RESHAPING["ExpandDims"],
    "GatherND": RESHAPING["GatherND"],
    "RotaryEmbedding": _rotary,
    "HyperConnectionPreMix": _pre_mix,
    "DynamicTimeWarping": lambda _: (Sized(E.FLOAT, (2, None)),),
    "UnfoldTensor": lambda call: unfolded(call, *(call.attribute(n, d) for n, d in _UNFOLDING)),
    "PythonOp": _python_op,
    "BiasDropout": OTHERS["Dropout"],
    "SkipLayerNormalization": _skip_normalization,
    "SkipSimplifiedLayerNormalization": _skip_normalization,
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "GemmFastGelu"), matmul()),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), matmul()),
    "MatMulInteger16": matmul(kind=E.INT32),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), _matmul_nbits),
    "FusedGemm": _gemm(),
    "GemmFloat8": _gemm(),
    "QGemm": _gemm(second=3, quantized=8),
    "BiasSplitGelu": _bias_split_gelu,
    "NhwcConv": last_channels_convolution,
    "NhwcFusedConv": last_channels_convolution,
    "FusedConv": convolution(),
    "GatherBlockQuantized": _gather_block_quantized,
    "GridSample": _like_first(SPATIAL["GridSample"]),
    **{f"QLinear{name}": _like_first(SPATIAL[name]) for name in ("AveragePool", "GlobalAveragePool")},
    "CropAndResize": _crop_and_resize,
    "CDist": lambda call: (Sized(call.kind(0), (at(call.dims(0), 0), at(call.dims(1), 0))),),
    "MurmurHash3": _hash,
    "Range": lambda call: (Sized(call.kind(0), (None,)),),
    "QLinearWhere": _qlinear_where,
    "QLinearConcat": _qlinear_concat,
    "Unique": _unique,
    "QLinearAdd": _qlinear_binary,
    "QLinearMul": _qlinear_binary,
    "EmbedLayerNormalization": _embed_layer_normalization,
    "DynamicQuantizeLSTM": recurrent(2),
    "Tokenizer": _tokenizer,
    "DequantizeLinear": _quantized(1, E.FLOAT),
    "QuantizeLinear": _quantized(2, E.UINT8),
    "IsAllFinite": lambda _: (Sized(E.BOOL, ()),),
}

#: Operators that keep the shape of their input, by domain.
OTHER_DOMAINS: dict[str, dict[str, Rule]] = {
    "org.pytorch.aten": {"ATen": aten},
    "qonnx.custom_op.general": dict.fromkeys(("Quant", "BipolarQuant", "Trunc", "IntQuant"), same_as(0)),
    "finn.custom_op.general": dict.fromkeys(("Quant", "BipolarQuant", "Trunc"), same_as(0)),
}
