"""Type rules for operators that onnx's inference leaves open: com.microsoft, ai.onnx.ml, and user-declared ones.

A rule takes a `NodeCall` and returns the types of the outputs, as many as it knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.inference.aten import aten, unfolded
from onnx_workbench.model.inference.attention import ATTENTION
from onnx_workbench.model.inference.node_call import (
    NodeCall,
    Rule,
    broadcast,
    divided,
    matmul_dims,
    product,
    same_as,
    swapped,
    tensor,
)
from onnx_workbench.model.ir.types import Dimension, ElementType, MapType, SequenceType, Shape, TensorType, Type
from onnx_workbench.model.schemas import traits

E = ElementType


def _dropout(call: NodeCall) -> Sequence[Type | None]:
    data = call.tensor(0)
    if data is None:
        return ()
    mask = E.BOOL if call.opset >= 10 else data.element_type
    return (data, TensorType(mask, data.shape))


def _normalization(call: NodeCall) -> Sequence[Type | None]:
    """Like the input; mean and deviation have 1 where it was normalized, in 32 bits at least."""
    data, dims = call.tensor(0), call.dims(0)
    if data is None:
        return ()
    axis = call.attribute("axis", -1)
    axis = axis % len(dims) if dims else 0
    kind = E.FLOAT if data.element_type in (E.FLOAT16, E.BFLOAT16) else data.element_type
    statistics = tensor(kind, None if dims is None else (*dims[:axis], *(1 for _ in dims[axis:])))
    return (data, statistics, statistics)


def _rotary(call: NodeCall) -> Sequence[Type | None]:
    """Like the input, which is last where an exporter made a function with position inputs."""
    return [*list(call.inputs[1:2]) * (call.outputs - 1), *call.inputs[:1]]


def _expand_dims(call: NodeCall) -> Sequence[Type | None]:
    data, dims, axis = call.tensor(0), call.dims(0), next(iter(call.content(1) or ()), None)
    if data is None:
        return ()
    if dims is None or not isinstance(axis, int):
        return (tensor(data.element_type, None if dims is None else (None,) * (len(dims) + 1)),)
    axis = axis % (len(dims) + 1)
    return (tensor(data.element_type, (*dims[:axis], 1, *dims[axis:])),)


def _loss(call: NodeCall) -> Sequence[Type | None]:
    scores, labels = call.tensor(0), call.dims(1)
    if scores is None:
        return ()
    kind = call.attribute("output_type") or scores.element_type
    loss = tensor(kind, labels if call.attribute("reduction", "mean") == "none" else ())
    return (loss, TensorType(kind, scores.shape))


def _pre_mix(call: NodeCall) -> Sequence[Type | None]:
    """Branches are summed: parts of the last dimension, or the one before it."""
    data, dims, branches = call.tensor(0), call.dims(0), call.attribute("num_branches", 0)
    if data is None or dims is None or len(dims) < 2:
        return ()
    return (
        tensor(data.element_type, (*dims[:-1], divided(dims[-1], branches)) if branches else (*dims[:-2], dims[-1])),
    )


def _python_op(call: NodeCall) -> Sequence[Type | None]:
    """First the context for backward; then tensors whose ranks are attributes."""
    kinds, ranks = call.attribute("output_tensor_types", ()), call.attribute("output_tensor_ranks", ())
    made = (tensor(kind, (None,) * min(rank, 64)) for kind, rank in zip(kinds, ranks, strict=False))
    return (tensor(E.INT64, ()), *made)


def _skip_normalization(call: NodeCall) -> Sequence[Type | None]:
    data = call.tensor(0)
    if data is None:
        return ()
    statistics = tensor(E.FLOAT, None if data.shape is None else (*data.shape.dims[:-1], 1))
    return (data, statistics, statistics, data)


def _matmul(element_type: ElementType | None = None) -> Rule:
    def rule(call: NodeCall) -> Sequence[Type | None]:
        a = call.tensor(0)
        if a is None:
            return ()
        left = swapped(call.dims(0), bool(call.attribute("transA", 0)))
        right = swapped(call.dims(1), bool(call.attribute("transB", 0)))
        return (tensor(element_type or a.element_type, matmul_dims(left, right)),)

    return rule


def _matmul_nbits(call: NodeCall) -> Sequence[Type | None]:
    a, dims = call.tensor(0), call.dims(0)
    if a is None:
        return ()
    return (tensor(a.element_type, None if dims is None else (*dims[:-1], call.attribute("N"))),)


def _gemm(call: NodeCall) -> Sequence[Type | None]:
    a, left, right = call.tensor(0), call.dims(0), call.dims(1)
    if a is None:
        return ()
    if left is None or right is None or len(left) != 2 or len(right) != 2:
        return (tensor(a.element_type, (None, None)),)
    return (
        tensor(
            a.element_type,
            (left[1 if call.attribute("transA", 0) else 0], right[0 if call.attribute("transB", 0) else 1]),
        ),
    )


def _elementwise(call: NodeCall) -> Sequence[Type | None]:
    a = call.tensor(0)
    return () if a is None else (tensor(a.element_type, broadcast(call.dims(0), call.dims(1))),)


def _qlinear_binary(call: NodeCall) -> Sequence[Type | None]:
    a = call.tensor(0)
    return () if a is None else (tensor(a.element_type, broadcast(call.dims(0), call.dims(3))),)


def _embed_layer_normalization(call: NodeCall) -> Sequence[Type | None]:
    ids, words = call.dims(0), call.dims(2)
    table = call.tensor(2)
    if ids is None or table is None:
        return ()
    out = tensor(table.element_type, (*ids, words[-1] if words else None))
    return (out, tensor(E.INT32, ids[:1]), out)


def _dynamic_quantize_lstm(call: NodeCall) -> Sequence[Type | None]:
    data, dims = call.tensor(0), call.dims(0)
    if data is None:
        return ()
    directions = 2 if call.attribute("direction", "forward") == "bidirectional" else 1
    hidden = call.attribute("hidden_size")
    length, batch = (dims[0], dims[1]) if dims is not None and len(dims) == 3 else (None, None)
    state = tensor(data.element_type, (directions, batch, hidden))
    return (tensor(data.element_type, (length, directions, batch, hidden)), state, state)


def _tokenizer(call: NodeCall) -> Sequence[Type | None]:
    dims = call.dims(0)
    return (tensor(E.STRING, None if dims is None else (*dims, None)),)


def _fused_conv(call: NodeCall) -> Sequence[Type | None]:
    data, dims, weights = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None:
        return ()
    return (tensor(data.element_type, (dims[0], weights[0] if weights else None, *([None] * (len(dims) - 2)))),)


def _quantized(index: int, default: ElementType) -> Rule:
    """Shape of the first input, type of another: the scale or the zero point."""

    def rule(call: NodeCall) -> Sequence[Type | None]:
        other = call.tensor(index)
        return (tensor(default if other is None else other.element_type, call.dims(0)),)

    return rule


def _gemm_float8(call: NodeCall) -> Sequence[Type | None]:
    return tuple(
        TensorType(E(call.attribute("dtype", E.FLOAT)), found.shape) if isinstance(found, TensorType) else None
        for found in _gemm(call)
    )


def _bias_split_gelu(call: NodeCall) -> Sequence[Type | None]:
    """The halves of the last dimension are multiplied."""
    data, dims = call.tensor(0), call.dims(0)
    if data is None or not dims:
        return ()
    return (tensor(data.element_type, (*dims[:-1], dims[-1] // 2 if isinstance(dims[-1], int) else None)),)


def _nhwc_conv(call: NodeCall) -> Sequence[Type | None]:
    data, dims, weights = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None or len(dims) < 2:
        return ()
    return (tensor(data.element_type, (dims[0], *([None] * (len(dims) - 2)), weights[0] if weights else None)),)


def _gather_block_quantized(call: NodeCall) -> Sequence[Type | None]:
    """Type of the scales; a byte may hold several elements, along the last dimension."""
    data, dims, indices, scales = call.tensor(0), call.dims(0), call.dims(1), call.tensor(2)
    if data is None or scales is None:
        return ()
    if not dims or indices is None:
        return (tensor(scales.element_type, None),)
    axis = call.attribute("gather_axis", 0) % len(dims)
    if data.element_type == E.UINT8:
        dims = (*dims[:-1], product(dims[-1], 8 // max(call.attribute("bits", 4), 1)))
    return (tensor(scales.element_type, (*dims[:axis], *indices, *dims[axis + 1 :])),)


# -- ai.onnx.ml -----------------------------------------------------------------------------------------------


def _rows(call: NodeCall) -> Dimension:
    dims = call.dims(0)
    if dims is None:
        return None
    return dims[0] if len(dims) > 1 else 1


def _classifier(call: NodeCall) -> Sequence[Type | None]:
    strings = call.attribute("classlabels_strings")
    integers = call.attribute("classlabels_int64s") or call.attribute("classlabels_ints")
    labels = strings or integers
    rows = _rows(call)
    return (
        tensor(E.STRING if strings else E.INT64, (rows,)),
        tensor(E.FLOAT, (rows, max(len(labels), 2) if labels else None)),
    )


def _regressor(attribute: str) -> Rule:
    return lambda call: (tensor(E.FLOAT, (_rows(call), call.attribute(attribute, 1))),)


def _tree_ensemble(call: NodeCall) -> Sequence[Type | None]:
    data = call.tensor(0)
    return () if data is None else (tensor(data.element_type, (_rows(call), call.attribute("n_targets"))),)


def _label_encoder(call: NodeCall) -> Sequence[Type | None]:
    if call.opset < 2:
        given = call.tensor(0)
        to_number = given is not None and given.element_type is E.STRING
        return (tensor(E.INT64 if to_number else E.STRING, call.dims(0)),)
    for name, kind in (("values_strings", E.STRING), ("values_int64s", E.INT64), ("values_floats", E.FLOAT)):
        if call.attribute(name) is not None:
            return (tensor(kind, call.dims(0)),)
    return ()


def _one_hot_encoder(call: NodeCall) -> Sequence[Type | None]:
    dims = call.dims(0)
    categories = call.attribute("cats_int64s") or call.attribute("cats_strings") or ()
    return (tensor(E.FLOAT, None if dims is None else (*dims, len(categories))),)


def _zip_map(call: NodeCall) -> Sequence[Type | None]:
    key = E.STRING if call.attribute("classlabels_strings") else E.INT64
    return (SequenceType(MapType(key, TensorType(E.FLOAT, Shape()))),)


def _category_mapper(call: NodeCall) -> Sequence[Type | None]:
    given = call.tensor(0)
    if given is None:
        return ()
    return (tensor(E.INT64 if given.element_type is E.STRING else E.STRING, call.dims(0)),)


def _dict_vectorizer(call: NodeCall) -> Sequence[Type | None]:
    words = call.attribute("string_vocabulary") or call.attribute("int64_vocabulary") or ()
    given = call.inputs[0] if call.inputs else None
    value = given.value if isinstance(given, MapType) else None
    kind = value.element_type if isinstance(value, TensorType) else E.FLOAT
    return (tensor(kind, (1, len(words))),)


def _feature_vectorizer(call: NodeCall) -> Sequence[Type | None]:
    sizes = call.attribute("inputdimensions")
    return (tensor(E.FLOAT, (_rows(call), sum(sizes) if sizes else None)),)


def _array_feature_extractor(call: NodeCall) -> Sequence[Type | None]:
    data, dims, picked = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None:
        return ()
    count = None if picked is None else product(*picked)  # indices may be in a table too
    return (tensor(data.element_type, (*dims[:-1], count) if len(dims) > 1 else (1, count)),)


def _quantized_gemm(call: NodeCall) -> Sequence[Type | None]:
    """A, its scale and zero point, B and its; then C, and scale and zero point of a quantized result."""
    a, b, zero = _swapped_gemm(call, 0, "transA"), _swapped_gemm(call, 3, "transB"), call.tensor(8)
    dims = None if a is None or b is None else (a[0], b[1])
    return (tensor(E.FLOAT if zero is None else zero.element_type, dims),)


def _swapped_gemm(call: NodeCall, index: int, name: str) -> tuple[Dimension, ...] | None:
    dims = swapped(call.dims(index), bool(call.attribute(name, 0)))
    return dims if dims is not None and len(dims) == 2 else None


#: Attributes of UnfoldTensor, with their defaults.
_UNFOLDING = (("dim", -1), ("size", None), ("step", 1))

_MS = "com.microsoft"
_ML = "ai.onnx.ml"


#: (domain, operator) → rule.
RULES: dict[tuple[str, str], Rule] = {
    ("", "Dropout"): _dropout,
    ("", "SimplifiedLayerNormalization"): _normalization,
    ("", "LayerNormalization"): _normalization,
    ("", "GroupNormalization"): same_as(0),
    ("", "MeanVarianceNormalization"): same_as(0),
    **{("", name): same_as(0) for name in ("MemcpyFromHost", "MemcpyToHost")},
    **{(_MS, n): same_as(t.shape_of) for n, t in traits.TABLES[_MS].items() if t.shape_of is not None},
    **{(_MS, name): same_as(0) for name in ("AllReduce", "CumSum")},
    **{(_MS, name): rule for name, rule in ATTENTION.items()},
    **{(_MS, name): _normalization for name in ("LayerNormalization", "SimplifiedLayerNormalization")},
    **{(_MS, name): _loss for name in ("SoftmaxCrossEntropyLossInternal", "NegativeLogLikelihoodLossInternal")},
    **{(domain, "ATen"): aten for domain in ("org.pytorch.aten", _MS)},
    (_MS, "SkipGroupNorm"): lambda call: list(call.inputs[:1]) * 2,
    (_MS, "ExpandDims"): _expand_dims,
    (_MS, "RotaryEmbedding"): _rotary,
    (_MS, "HyperConnectionPreMix"): _pre_mix,
    (_MS, "DynamicTimeWarping"): lambda _: (tensor(E.FLOAT, (2, None)),),
    (_MS, "UnfoldTensor"): lambda call: unfolded(call, *(call.attribute(n, d) for n, d in _UNFOLDING)),
    (_MS, "PythonOp"): _python_op,
    (_MS, "BiasDropout"): _dropout,
    (_MS, "SkipLayerNormalization"): _skip_normalization,
    (_MS, "SkipSimplifiedLayerNormalization"): _skip_normalization,
    (_MS, "FusedMatMul"): _matmul(),
    (_MS, "TransposeMatMul"): _matmul(),
    (_MS, "FusedMatMulActivation"): _matmul(),
    (_MS, "DynamicQuantizeMatMul"): _matmul(E.FLOAT),
    (_MS, "MatMulIntegerToFloat"): _matmul(E.FLOAT),
    (_MS, "MatMulInteger16"): _matmul(E.INT32),
    (_MS, "MatMulNBits"): _matmul_nbits,
    (_MS, "MatMulBnb4"): _matmul_nbits,
    (_MS, "FusedGemm"): _gemm,
    (_MS, "GemmFloat8"): _gemm_float8,
    (_MS, "GemmFastGelu"): _matmul(),
    (_MS, "BiasSplitGelu"): _bias_split_gelu,
    (_MS, "NhwcConv"): _nhwc_conv,
    (_MS, "GatherBlockQuantized"): _gather_block_quantized,
    (_MS, "FusedConv"): _fused_conv,
    (_MS, "QGemm"): _quantized_gemm,
    (_MS, "QLinearAdd"): _qlinear_binary,
    (_MS, "QLinearMul"): _qlinear_binary,
    (_MS, "EmbedLayerNormalization"): _embed_layer_normalization,
    (_MS, "DynamicQuantizeLSTM"): _dynamic_quantize_lstm,
    (_MS, "Tokenizer"): _tokenizer,
    (_MS, "DequantizeLinear"): _quantized(1, E.FLOAT),
    (_MS, "QuantizeLinear"): _quantized(2, E.UINT8),
    (_MS, "IsAllFinite"): lambda _: (tensor(E.BOOL, ()),),
    (_ML, "Scaler"): same_as(0, E.FLOAT),
    (_ML, "Normalizer"): same_as(0, E.FLOAT),
    (_ML, "Imputer"): same_as(0),
    (_ML, "Binarizer"): same_as(0),
    (_ML, "LabelEncoder"): _label_encoder,
    (_ML, "OneHotEncoder"): _one_hot_encoder,
    (_ML, "TreeEnsembleClassifier"): _classifier,
    (_ML, "LinearClassifier"): _classifier,
    (_ML, "SVMClassifier"): _classifier,
    (_ML, "TreeEnsembleRegressor"): _regressor("n_targets"),
    (_ML, "LinearRegressor"): _regressor("targets"),
    (_ML, "SVMRegressor"): lambda call: (tensor(E.FLOAT, (_rows(call), 1)),),
    (_ML, "TreeEnsemble"): _tree_ensemble,
    (_ML, "ZipMap"): _zip_map,
    (_ML, "CategoryMapper"): _category_mapper,
    (_ML, "DictVectorizer"): _dict_vectorizer,
    (_ML, "FeatureVectorizer"): _feature_vectorizer,
    (_ML, "ArrayFeatureExtractor"): _array_feature_extractor,
    **{("qonnx.custom_op.general", name): same_as(0) for name in ("Quant", "BipolarQuant", "Trunc", "IntQuant")},
    **{("finn.custom_op.general", name): same_as(0) for name in ("Quant", "BipolarQuant", "Trunc")},
}  # fmt: skip


def user_rule(text: str) -> Rule | None:
    """Parse a user rule for an unknown operator: ``same as input 0`` (any input); None if malformed."""
    words = text.lower().split()
    if words[:3] == ["same", "as", "input"] and len(words) == 4 and words[3].isdecimal():
        index = int(words[3])
        return lambda call: (call.inputs[index],) * call.outputs if index < len(call.inputs) else ()
    return None
