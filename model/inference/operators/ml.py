"""The operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.operators.node_call import Found, NodeCall, Rule, Sized, product, same_as
from onnx_workbench.model.ir.types import ElementType, MapType, SequenceType, Shape, TensorType

E = ElementType


def _rows(call: NodeCall) -> AnySize | None:
    dims = call.dims(0)
    if dims is None:
        return None
    return dims[0] if len(dims) > 1 else 1


def _classifier(call: NodeCall) -> Sequence[Found]:
    strings = call.attribute("classlabels_strings")
    integers = call.attribute("classlabels_int64s") or call.attribute("classlabels_ints")
    labels = strings or integers
    rows = _rows(call)
    return (
        Sized(E.STRING if strings else E.INT64, (rows,)),
        Sized(E.FLOAT, (rows, max(len(labels), 2) if labels else None)),
    )


def _regressor(attribute: str) -> Rule:
    return lambda call: (Sized(E.FLOAT, (_rows(call), call.attribute(attribute, 1))),)


def _tree_ensemble(call: NodeCall) -> Sequence[Found]:
    return ((_rows(call), call.attribute("n_targets")),)


def _label_encoder(call: NodeCall) -> Sequence[Found]:
    if call.opset < 2:
        return _category_mapper(call)
    values = call.attribute("values_tensor")
    kinds = {"values_strings": E.STRING, "values_int64s": E.INT64, "values_floats": E.FLOAT}
    kind = next((kind for name, kind in kinds.items() if name in call.node.attributes), None)
    return (Sized(values.element_type if values is not None else kind, call.dims(0)),)


def _one_hot_encoder(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    categories = call.attribute("cats_int64s") or call.attribute("cats_strings") or ()
    return (Sized(E.FLOAT, None if dims is None else (*dims, len(categories))),)


def _zip_map(call: NodeCall) -> Sequence[Found]:
    key = E.STRING if call.attribute("classlabels_strings") else E.INT64
    return (SequenceType(MapType(key, TensorType(E.FLOAT, Shape()))),)


def _category_mapper(call: NodeCall) -> Sequence[Found]:
    """Texts become numbers and numbers texts."""
    kind = call.kind(0)
    return (Sized(None if kind is None else E.INT64 if kind is E.STRING else E.STRING, call.dims(0)),)


def _dict_vectorizer(call: NodeCall) -> Sequence[Found]:
    words = call.attribute("string_vocabulary") or call.attribute("int64_vocabulary") or ()
    held = call.type(0)
    value = held.value if isinstance(held, MapType) else None
    kind = value.element_type if isinstance(value, TensorType) else E.FLOAT
    return (Sized(kind if isinstance(kind, ElementType) else None, (1, len(words))),)


def _feature_vectorizer(call: NodeCall) -> Sequence[Found]:
    sizes = call.attribute("inputdimensions")
    return (Sized(E.FLOAT, (_rows(call), sum(sizes) if sizes else None)),)


def _array_feature_extractor(call: NodeCall) -> Sequence[Found]:
    dims, picked = call.dims(0), call.dims(1)
    if dims is None:
        return ()
    count = None if picked is None else product(*picked)  # indices may be in a table too
    return ((*dims[:-1], count) if len(dims) > 1 else (1, count),)


def _cast_map(call: NodeCall) -> Sequence[Found]:
    kind = {"TO_FLOAT": E.FLOAT, "TO_STRING": E.STRING, "TO_INT64": E.INT64}.get(call.text("cast_to", "TO_FLOAT"))
    length = call.integer("max_map", 1) if call.text("map_form", "DENSE") == "SPARSE" else None
    return (Sized(kind, (1, length)),)


ML: dict[str, Rule] = {
    "Scaler": same_as(0, E.FLOAT),
    "Normalizer": same_as(0, E.FLOAT),
    "Imputer": same_as(0),
    "Binarizer": same_as(0),
    "LabelEncoder": _label_encoder,
    "OneHotEncoder": _one_hot_encoder,
    "TreeEnsembleClassifier": _classifier,
    "LinearClassifier": _classifier,
    "SVMClassifier": _classifier,
    "TreeEnsembleRegressor": _regressor("n_targets"),
    "LinearRegressor": _regressor("targets"),
    "SVMRegressor": lambda call: (Sized(E.FLOAT, (_rows(call), 1)),),
    "TreeEnsemble": _tree_ensemble,
    "ZipMap": _zip_map,
    "CastMap": _cast_map,
    "CategoryMapper": _category_mapper,
    "DictVectorizer": _dict_vectorizer,
    "FeatureVectorizer": _feature_vectorizer,
    "ArrayFeatureExtractor": _array_feature_extractor,
}
