"""Traits of the operators of the smaller domains of the specification."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_workbench.model.schemas.traits.definition import OperatorTraits, elementwise, product

AI_ONNX_ML: Mapping[str, OperatorTraits] = {
    "ArrayFeatureExtractor": OperatorTraits("ml"),
    "Binarizer": elementwise("ml"),
    "CastMap": OperatorTraits("ml"),
    "CategoryMapper": OperatorTraits("text"),
    "DictVectorizer": OperatorTraits("ml"),
    "FeatureVectorizer": OperatorTraits("ml"),
    "Imputer": elementwise("ml"),
    "LabelEncoder": elementwise("text"),
    "LinearClassifier": OperatorTraits("layer"),
    "LinearRegressor": OperatorTraits("layer"),
    "Normalizer": OperatorTraits("normalization", shape_of=0),
    "OneHotEncoder": OperatorTraits("ml"),
    "SVMClassifier": OperatorTraits("ml"),
    "SVMRegressor": OperatorTraits("ml"),
    "Scaler": elementwise("normalization"),
    "TreeEnsemble": OperatorTraits("ml"),
    "TreeEnsembleClassifier": OperatorTraits("ml"),
    "TreeEnsembleRegressor": OperatorTraits("ml"),
    "ZipMap": OperatorTraits("ml"),
}

PREVIEW: Mapping[str, OperatorTraits] = {
    "FlexAttention": product("attention"),
}

TRAINING: Mapping[str, OperatorTraits] = {
    "Adagrad": OperatorTraits("training"),
    "Adam": OperatorTraits("training"),
    "Gradient": OperatorTraits("training"),
    "Momentum": OperatorTraits("training"),
}
