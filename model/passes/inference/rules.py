"""Types of operators that onnx's own inference leaves open: com.microsoft, ai.onnx.ml, and what a person declared.

A rule takes a `Call` and returns the types of the outputs, as many as it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.types import Dimension, ElementType, MapType, SequenceType, Shape, TensorType, Type

E = ElementType


@dataclass(frozen=True, slots=True)
class Call:
    """A node as a rule sees it: types of its inputs (None: unknown or left out), attributes as Python values."""

    inputs: Sequence[Type | None]
    attributes: Mapping[str, Any]
    outputs: int
    opset: int = 1
    values: Sequence[Sequence[Dimension] | None] = ()  # contents of small integer inputs, where known

    def tensor(self, index: int) -> TensorType | None:
        """The type of an input if it is a known tensor."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found if isinstance(found, TensorType) else None

    def dims(self, index: int) -> tuple[Dimension, ...] | None:
        """The dimensions of an input, None when its rank is not known."""
        found = self.tensor(index)
        return found.shape.dims if found is not None and found.shape is not None else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value or the default."""
        return self.attributes.get(name, default)


Rule = Callable[[Call], Sequence[Type | None]]


def tensor(element_type: ElementType | int, dims: Sequence[Dimension] | None) -> TensorType:
    """A tensor type from dimensions, or of unknown rank."""
    return TensorType(element_type, None if dims is None else Shape(tuple(dims)))


def same_as(index: int, element_type: ElementType | None = None) -> Rule:
    """First output like an input, in another element type if one is given."""

    def rule(call: Call) -> Sequence[Type | None]:
        given = call.inputs[index] if index < len(call.inputs) else None
        if element_type is None or not isinstance(given, TensorType):
            return (given,)
        return (TensorType(element_type, given.shape),)

    return rule


def _all_same(call: Call) -> Sequence[Type | None]:
    return (call.inputs[0],) * call.outputs if call.inputs else ()


def _dropout(call: Call) -> Sequence[Type | None]:
    data = call.tensor(0)
    if data is None:
        return ()
    mask = E.BOOL if call.opset >= 10 else data.element_type
    return (data, TensorType(mask, data.shape))


def _skip_normalization(call: Call) -> Sequence[Type | None]:
    data = call.tensor(0)
    if data is None:
        return ()
    statistics = tensor(E.FLOAT, None if data.shape is None else (*data.shape.dims[:-1], 1))
    return (data, statistics, statistics, data)


def broadcast(*shapes: tuple[Dimension, ...] | None) -> tuple[Dimension, ...] | None:
    """The dimensions of an elementwise result under numpy broadcasting; None when a rank is unknown."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max((len(s) for s in known), default=0)
    result: list[Dimension] = []
    for axis in range(rank):
        dims = {s[axis - rank + len(s)] for s in known if axis - rank + len(s) >= 0} - {1}
        result.append(1 if not dims else next(iter(dims)) if len(dims) == 1 else _one_number(dims))
    return tuple(result)


def _one_number(dims: set[Dimension]) -> Dimension:
    numbers = {d for d in dims if isinstance(d, int)}
    return next(iter(numbers)) if len(numbers) == 1 else None


def matmul_dims(a: tuple[Dimension, ...] | None, b: tuple[Dimension, ...] | None) -> tuple[Dimension, ...] | None:
    """The dimensions of numpy.matmul of two tensors."""
    if a is None or b is None or not a or not b:
        return None
    batch = broadcast(a[:-2], b[:-2])
    if batch is None:
        return None
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return (*batch, *rows, *columns)


def _swapped(dims: tuple[Dimension, ...] | None, swap: bool) -> tuple[Dimension, ...] | None:
    return (*dims[:-2], dims[-1], dims[-2]) if swap and dims is not None and len(dims) > 1 else dims


def _matmul(element_type: ElementType | None = None) -> Rule:
    def rule(call: Call) -> Sequence[Type | None]:
        a = call.tensor(0)
        if a is None:
            return ()
        left = _swapped(call.dims(0), bool(call.attribute("transA", 0)))
        right = _swapped(call.dims(1), bool(call.attribute("transB", 0)))
        return (tensor(element_type or a.element_type, matmul_dims(left, right)),)

    return rule


def _matmul_nbits(call: Call) -> Sequence[Type | None]:
    a, dims = call.tensor(0), call.dims(0)
    if a is None:
        return ()
    return (tensor(a.element_type, None if dims is None else (*dims[:-1], call.attribute("N"))),)


def _gemm(call: Call) -> Sequence[Type | None]:
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


def _elementwise(call: Call) -> Sequence[Type | None]:
    a = call.tensor(0)
    return () if a is None else (tensor(a.element_type, broadcast(call.dims(0), call.dims(1))),)


def _qlinear_binary(call: Call) -> Sequence[Type | None]:
    a = call.tensor(0)
    return () if a is None else (tensor(a.element_type, broadcast(call.dims(0), call.dims(3))),)


def _attention(call: Call) -> Sequence[Type | None]:
    data, dims, weights = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None or len(dims) != 3:
        return ()
    sizes = call.attribute("qkv_hidden_sizes")
    width: Dimension = sizes[-1] if sizes else None
    if width is None and weights is not None and isinstance(weights[-1], int):
        width = weights[-1] // 3
    heads = call.attribute("num_heads")
    head = width // heads if isinstance(width, int) and heads else None
    return (tensor(data.element_type, (*dims[:2], width)), tensor(data.element_type, (2, dims[0], heads, None, head)))


def _multi_head_attention(call: Call) -> Sequence[Type | None]:
    query, dims, value = call.tensor(0), call.dims(0), call.dims(2)
    if query is None or dims is None:
        return ()
    if len(dims) == 5:  # packed: batch, length, heads, 3, head size
        width = dims[2] * dims[4] if isinstance(dims[2], int) and isinstance(dims[4], int) else None
        return (tensor(query.element_type, (dims[0], dims[1], width)),)
    wide = value[-1] if value is not None and len(value) == 3 else dims[-1]
    return (tensor(query.element_type, (*dims[:2], wide)),)


def _embed_layer_normalization(call: Call) -> Sequence[Type | None]:
    ids, words = call.dims(0), call.dims(2)
    table = call.tensor(2)
    if ids is None or table is None:
        return ()
    out = tensor(table.element_type, (*ids, words[-1] if words else None))
    return (out, tensor(E.INT32, ids[:1]), out)


def _dynamic_quantize_lstm(call: Call) -> Sequence[Type | None]:
    data, dims = call.tensor(0), call.dims(0)
    if data is None:
        return ()
    directions = 2 if call.attribute("direction", "forward") == "bidirectional" else 1
    hidden = call.attribute("hidden_size")
    length, batch = (dims[0], dims[1]) if dims is not None and len(dims) == 3 else (None, None)
    state = tensor(data.element_type, (directions, batch, hidden))
    return (tensor(data.element_type, (length, directions, batch, hidden)), state, state)


def _tokenizer(call: Call) -> Sequence[Type | None]:
    dims = call.dims(0)
    return (tensor(E.STRING, None if dims is None else (*dims, None)),)


def _fused_conv(call: Call) -> Sequence[Type | None]:
    data, dims, weights = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None:
        return ()
    return (tensor(data.element_type, (dims[0], weights[0] if weights else None, *([None] * (len(dims) - 2)))),)


def _gemm_float8(call: Call) -> Sequence[Type | None]:
    return tuple(
        TensorType(E(call.attribute("dtype", E.FLOAT)), found.shape) if isinstance(found, TensorType) else None
        for found in _gemm(call)
    )


def _bias_split_gelu(call: Call) -> Sequence[Type | None]:
    """The halves of the last dimension are multiplied."""
    data, dims = call.tensor(0), call.dims(0)
    if data is None or not dims:
        return ()
    return (tensor(data.element_type, (*dims[:-1], dims[-1] // 2 if isinstance(dims[-1], int) else None)),)


def _relative_position_bias(call: Call) -> Sequence[Type | None]:
    """A table of buckets and heads, and how many queries and keys there are."""
    table, dims = call.tensor(0), call.dims(0)
    if table is None:
        return ()
    lengths = [next(iter(given or ()), None) for given in (*call.values, None, None)[1:3]]
    return (tensor(table.element_type, (1, dims[1] if dims is not None and len(dims) == 2 else None, *lengths)),)


def _nhwc_conv(call: Call) -> Sequence[Type | None]:
    data, dims, weights = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None or len(dims) < 2:
        return ()
    return (tensor(data.element_type, (dims[0], *([None] * (len(dims) - 2)), weights[0] if weights else None)),)


def _gather_block_quantized(call: Call) -> Sequence[Type | None]:
    """In the type of the scales; of bytes that hold two elements each the last dimension is another."""
    data, dims, indices, scales = call.tensor(0), call.dims(0), call.dims(1), call.tensor(2)
    if data is None or scales is None:
        return ()
    if not dims or indices is None:
        return (tensor(scales.element_type, None),)
    axis = call.attribute("gather_axis", 0) % len(dims)
    last = (None,) if data.element_type == E.UINT8 else dims[-1:]
    dims = (*dims[:-1], *last)
    return (tensor(scales.element_type, (*dims[:axis], *indices, *dims[axis + 1 :])),)


# -- ai.onnx.ml -----------------------------------------------------------------------------------------------


def _rows(call: Call) -> Dimension:
    dims = call.dims(0)
    if dims is None:
        return None
    return dims[0] if len(dims) > 1 else 1


def _classifier(call: Call) -> Sequence[Type | None]:
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


def _tree_ensemble(call: Call) -> Sequence[Type | None]:
    data = call.tensor(0)
    return () if data is None else (tensor(data.element_type, (_rows(call), call.attribute("n_targets"))),)


def _label_encoder(call: Call) -> Sequence[Type | None]:
    if call.opset < 2:
        given = call.tensor(0)
        to_number = given is not None and given.element_type is E.STRING
        return (tensor(E.INT64 if to_number else E.STRING, call.dims(0)),)
    for name, kind in (("values_strings", E.STRING), ("values_int64s", E.INT64), ("values_floats", E.FLOAT)):
        if call.attribute(name) is not None:
            return (tensor(kind, call.dims(0)),)
    return ()


def _one_hot_encoder(call: Call) -> Sequence[Type | None]:
    dims = call.dims(0)
    categories = call.attribute("cats_int64s") or call.attribute("cats_strings") or ()
    return (tensor(E.FLOAT, None if dims is None else (*dims, len(categories))),)


def _zip_map(call: Call) -> Sequence[Type | None]:
    key = E.STRING if call.attribute("classlabels_strings") else E.INT64
    return (SequenceType(MapType(key, TensorType(E.FLOAT, Shape()))),)


def _category_mapper(call: Call) -> Sequence[Type | None]:
    given = call.tensor(0)
    if given is None:
        return ()
    return (tensor(E.INT64 if given.element_type is E.STRING else E.STRING, call.dims(0)),)


def _dict_vectorizer(call: Call) -> Sequence[Type | None]:
    words = call.attribute("string_vocabulary") or call.attribute("int64_vocabulary") or ()
    given = call.inputs[0] if call.inputs else None
    value = given.value if isinstance(given, MapType) else None
    kind = value.element_type if isinstance(value, TensorType) else E.FLOAT
    return (tensor(kind, (1, len(words))),)


def _feature_vectorizer(call: Call) -> Sequence[Type | None]:
    sizes = call.attribute("inputdimensions")
    return (tensor(E.FLOAT, (_rows(call), sum(sizes) if sizes else None)),)


def _array_feature_extractor(call: Call) -> Sequence[Type | None]:
    data, dims, picked = call.tensor(0), call.dims(0), call.dims(1)
    if data is None or dims is None:
        return ()
    count = picked[-1] if picked else None
    return (tensor(data.element_type, (*dims[:-1], count) if len(dims) > 1 else (1, count)),)


def _quantized_gemm(call: Call) -> Sequence[Type | None]:
    """A, its scale and zero point, B and its; then C, and scale and zero point of a result that stays quantized."""
    a, b, zero = _swapped_gemm(call, 0, "transA"), _swapped_gemm(call, 3, "transB"), call.tensor(8)
    dims = None if a is None or b is None else (a[0], b[1])
    return (tensor(E.FLOAT if zero is None else zero.element_type, dims),)


def _swapped_gemm(call: Call, index: int, name: str) -> tuple[Dimension, ...] | None:
    dims = _swapped(call.dims(index), bool(call.attribute(name, 0)))
    return dims if dims is not None and len(dims) == 2 else None


def _group_query_attention(call: Call) -> Sequence[Type | None]:
    """Like the queries; and keys and values so far, which become longer."""
    past = call.tensor(3)
    if past is None or past.shape is None or past.shape.rank != 4:
        return (call.inputs[0],) if call.inputs else ()
    batch, heads, _, size = past.shape.dims
    present = tensor(past.element_type, (batch, heads, None, size))
    return (call.inputs[0], present, present)


_MS = "com.microsoft"
_ML = "ai.onnx.ml"
_LIKE_FIRST = (
    "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "BiasAdd", "BiasSoftmax", "QLinearSigmoid", "QLinearLeakyRelu",
    "QLinearSoftmax", "RotaryEmbedding", "GroupNorm", "SkipGroupNorm", "MoE", "QMoE",
    "SimplifiedLayerNormalization", "PackedAttention", "DecoderMaskedSelfAttention", "GemmaRotaryEmbedding",
    "Trilu", "RestorePadding", "NGramRepeatBlock", "LongformerAttention", "PagedAttention",
)  # fmt: skip

#: (domain, operator) → rule.
RULES: dict[tuple[str, str], Rule] = {
    ("", "Dropout"): _dropout,
    ("", "SimplifiedLayerNormalization"): same_as(0),
    **{("", name): same_as(0) for name in ("MemcpyFromHost", "MemcpyToHost")},
    **{(_MS, name): same_as(0) for name in _LIKE_FIRST},
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
    (_MS, "RelativePositionBias"): _relative_position_bias,
    (_MS, "NhwcConv"): _nhwc_conv,
    (_MS, "GatherBlockQuantized"): _gather_block_quantized,
    (_MS, "DecoderMaskedMultiHeadAttention"): _multi_head_attention,
    (_MS, "FusedConv"): _fused_conv,
    (_MS, "QGemm"): _quantized_gemm,
    (_MS, "GroupQueryAttention"): _group_query_attention,
    (_MS, "QLinearAdd"): _qlinear_binary,
    (_MS, "QLinearMul"): _qlinear_binary,
    (_MS, "Attention"): _attention,
    (_MS, "QAttention"): _attention,
    (_MS, "MultiHeadAttention"): _multi_head_attention,
    (_MS, "EmbedLayerNormalization"): _embed_layer_normalization,
    (_MS, "DynamicQuantizeLSTM"): _dynamic_quantize_lstm,
    (_MS, "Tokenizer"): _tokenizer,
    (_MS, "DequantizeLinear"): same_as(0, E.FLOAT),
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
    """A rule a person wrote for an operator nobody knows: ``same as input 0`` (any input); None if it is no rule."""
    words = text.lower().split()
    if words[:3] == ["same", "as", "input"] and len(words) == 4 and words[3].isdecimal():
        index = int(words[3])
        return lambda call: (call.inputs[index],) * call.outputs if index < len(call.inputs) else ()
    return None
