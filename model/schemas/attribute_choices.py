"""Allowed values of string and number attributes that the specification lists only in prose."""

from __future__ import annotations

_AUTO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_DIRECTION = ("forward", "reverse", "bidirectional")
_REDUCTION = ("none", "add", "mul", "max", "min")
_LOSS = ("none", "mean", "sum")
_AGGREGATE = ("AVERAGE", "SUM", "MIN", "MAX")
_POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_ROUNDING = ("up", "down", "nearest")
_BOOLEAN = (0, 1)

#: By attribute name, for every operator with it that is not listed more specifically below.
_BY_ATTRIBUTE: dict[str, tuple[str | int, ...]] = {
    "auto_pad": _AUTO_PAD,
    "keepdims": _BOOLEAN,
    "noop_with_empty_axes": _BOOLEAN,
    "ceil_mode": _BOOLEAN,
    "count_include_pad": _BOOLEAN,
    "align_corners": _BOOLEAN,
    "post_transform": _POST,
    "aggregate_function": _AGGREGATE,
    "exclude_outside": _BOOLEAN,
    "transA": _BOOLEAN,
    "transB": _BOOLEAN,
    "training_mode": _BOOLEAN,
    "saturate": _BOOLEAN,
    "largest": _BOOLEAN,
    "sorted": _BOOLEAN,
    "allowzero": _BOOLEAN,
    "fmod": _BOOLEAN,
    "exclusive": _BOOLEAN,
    "linear_before_reset": _BOOLEAN,
    "input_forget": _BOOLEAN,
    "is_causal": _BOOLEAN,
    "upper": _BOOLEAN,
    "center_point_box": _BOOLEAN,
    "case_change_action": ("NONE", "LOWER", "UPPER"),
    "is_case_sensitive": _BOOLEAN,
    "coordinate_transformation_mode": (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "pixel_format": ("RGB", "BGR", "Grayscale"),
    "kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID"),
}  # fmt: skip

#: Integers with these names are element types, in every operator that has them.
ELEMENT_TYPES = frozenset({
    "to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision", "precision", "to_type",
})  # fmt: skip

_BY_OPERATOR: dict[tuple[str, str], tuple[str | int, ...]] = {
    ("RNN", "direction"): _DIRECTION,
    ("GRU", "direction"): _DIRECTION,
    ("LSTM", "direction"): _DIRECTION,
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("Upsample", "mode"): ("nearest", "linear"),
    ("GridSample", "mode"): ("linear", "nearest", "cubic"),
    ("TensorScatter", "mode"): ("linear", "circular"),
    ("SpaceToDepth", "mode"): ("DCR", "CRD"),
    ("Momentum", "mode"): ("nesterov", "standard"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("TfIdfVectorizer", "mode"): ("TF", "IDF", "TFIDF"),
    ("Gelu", "approximate"): ("none", "tanh"),
    ("ScatterElements", "reduction"): _REDUCTION,
    ("ScatterND", "reduction"): _REDUCTION,
    ("NegativeLogLikelihoodLoss", "reduction"): _LOSS,
    ("SoftmaxCrossEntropyLoss", "reduction"): _LOSS,
    ("Normalizer", "norm"): ("MAX", "L1", "L2"),
    ("Cast", "round_mode"): _ROUNDING,
    ("CastLike", "round_mode"): _ROUNDING,
    ("LinearAttention", "update_rule"): ("linear", "gated", "delta", "gated_delta"),
    ("CausalConvWithState", "activation"): ("silu", "swish", "none"),
    ("TreeEnsemble", "aggregate_function"): (0, 1, 2, 3),
    ("TreeEnsemble", "post_transform"): (0, 1, 2, 3, 4),
    ("CastMap", "cast_to"): ("TO_FLOAT", "TO_STRING", "TO_INT64"),
    ("CastMap", "map_form"): ("DENSE", "SPARSE"),
}


#: Values allowed before a version of the operator.
_EARLIER: dict[tuple[str, str], tuple[int, tuple[str | int, ...]]] = {
    ("GridSample", "mode"): (20, ("bilinear", "nearest", "bicubic")),
    ("Upsample", "mode"): (7, ("nearest", "bilinear")),
    ("GRU", "direction"): (3, ("foward", *_DIRECTION)),  # as the default was spelled then
}


def choices(op_type: str, attribute: str, since: int) -> tuple[str | int, ...]:
    """Return the allowed values of an attribute in the operator version of opset `since`; empty: any."""
    until, earlier = _EARLIER.get((op_type, attribute), (0, ()))
    if since < until:
        return earlier
    return _BY_OPERATOR.get((op_type, attribute)) or _BY_ATTRIBUTE.get(attribute, ())
