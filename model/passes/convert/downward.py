"""From a newer operator set to an older one, where the older can say the same.

The key is the operator and the version that is left. What needs no adapter is a version that only allows more: what
of that is used is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.passes.convert.hands import Hands, number_constant
from model.passes.convert.upward import Adapter
from model.tensors import ArrayTensor


def _ints_back(hands: Hands, name: str, index: int) -> None:
    """A constant input becomes an attribute of integers; inputs behind it must be handled before."""
    if hands.has(index):
        hands.set(name, tuple(int(i) for i in hands.constant(index).reshape(-1)))
    hands.keep_inputs(index)


def _axes_back(hands: Hands) -> None:
    if hands.attribute("noop_with_empty_axes", 0) and not (hands.has(1) and hands.constant(1).size):
        raise hands.refuse("without axes it does nothing; before, it reduced all")
    hands.drop("noop_with_empty_axes")
    if hands.has(1) and not hands.constant(1).size:
        hands.keep_inputs(1)
    _ints_back(hands, "axes", 1)


def _split_from_18(hands: Hands) -> None:
    hands.drop("num_outputs")


def _split_from_13(hands: Hands) -> None:
    _ints_back(hands, "split", 1)


def _number(hands: Hands, index: int, name: str) -> None:
    if hands.has(index):
        hands.set(name, float(hands.constant(index).reshape(-1)[0]))


def _clip_from_11(hands: Hands) -> None:
    _number(hands, 1, "min")
    _number(hands, 2, "max")
    hands.keep_inputs(1)


def _pad_from_11(hands: Hands) -> None:
    _number(hands, 2, "value")
    _ints_back(hands, "pads", 1)


def _no_input(index: int, word: str) -> Adapter:
    def adapter(hands: Hands) -> None:
        if hands.has(index):
            raise hands.refuse(f"it has {word}, which do not exist there")
        hands.keep_inputs(index)

    return adapter


def _slice_from_10(hands: Hands) -> None:
    if hands.has(4) and (hands.constant(4) != 1).any():
        raise hands.refuse("its steps are not all 1")
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        if hands.has(index):
            hands.set(name, tuple(int(i) for i in hands.constant(index).reshape(-1)))
    hands.keep_inputs(1)


def _topk_from_10(hands: Hands) -> None:
    hands.set("k", int(hands.constant(1).reshape(-1)[0]))
    hands.keep_inputs(1)


def _dropout_from_12(hands: Hands) -> None:
    if hands.has(2) and bool(hands.constant(2).reshape(-1)[0]):
        raise hands.refuse("it is in training mode")
    hands.drop("seed")
    _number(hands, 1, "ratio")
    hands.keep_inputs(1)


def _single_axis(hands: Hands) -> None:
    """Along the last axis both mean the same; another one is moved there."""
    rank = hands.known_rank(0)
    axis = hands.attribute("axis", -1) % max(rank, 1)
    hands.set("axis", max(rank - 1, 0))
    if axis != rank - 1:
        order = [i for i in range(rank) if i != axis] + [axis]
        hands.set_inputs([hands.before("Transpose", [hands.input(0)], perm=order)])
        hands.after("Transpose", perm=[order.index(i) for i in range(rank)])


def _resize_from_11(hands: Hands) -> None:
    mode = hands.attribute("mode", "nearest")
    wanted: dict[str, Any] = {"coordinate_transformation_mode": ("half_pixel", "asymmetric")}
    if mode == "nearest":
        wanted["nearest_mode"] = ("round_prefer_floor", "floor")
    for name, (default, needed) in wanted.items():
        if hands.attribute(name, default) != needed:
            raise hands.refuse(f"its {name} is not {needed}, the only way there")
    if mode == "cubic" or not hands.has(2):
        raise hands.refuse("only nearest and linear by scales exist there")
    names = (
        "coordinate_transformation_mode",
        "nearest_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "extrapolation_value",
    )
    hands.drop(*names)
    hands.set_inputs([hands.input(0), hands.input(2)])


def _normalization_from_14(hands: Hands) -> None:
    if hands.attribute("training_mode", 0):
        raise hands.refuse("it is in training mode")
    hands.drop("training_mode")


_SAMPLINGS = {"linear": "bilinear", "cubic": "bicubic"}


def _gridsample_from_20(hands: Hands) -> None:
    mode = hands.attribute("mode", "linear")
    hands.set("mode", _SAMPLINGS.get(mode, mode))


def _dft_from_20(hands: Hands) -> None:
    axis = int(hands.constant(2).reshape(-1)[0]) if hands.has(2) else -2
    if axis < 0:
        axis += hands.known_rank(0)
    hands.set("axis", axis)
    hands.keep_inputs(2)


def _reshape_from_14(hands: Hands) -> None:
    """A 0 in the shape then copies the input's dimension, as without allowzero."""
    if hands.attribute("allowzero", 0):
        shape = hands.constant_or_none(1)
        if shape is not None and not shape.all():
            raise hands.refuse("it makes an empty tensor, which it could not before version 14")
        if shape is None:
            hands.report.warn("A Reshape would copy the input's dimension where its shape is computed as 0", hands.node)
    hands.drop("allowzero")


def _shape_from_15(hands: Hands) -> None:
    """A part of the shape is the shape, sliced."""
    import numpy as np

    start, end = hands.attribute("start", 0), hands.attribute("end")
    hands.drop("start", "end")
    if start == 0 and end is None:
        return
    bounds = (np.array([n], np.int64) for n in (start, np.iinfo(np.int64).max if end is None else end))
    hands.after("Slice", [hands.make_constant(n, word) for n, word in zip(bounds, ("start", "end"), strict=True)])


def _constant_from_12(hands: Hands) -> None:
    """Before, a Constant held a tensor."""
    if "value" in hands.node.attributes or "sparse_value" in hands.node.attributes:
        return
    numbers = number_constant(hands.node)
    if numbers is None:
        raise hands.refuse("it holds texts, or what a function's caller gives, which it could not before version 12")
    hands.drop(*hands.node.attributes)
    hands.set("value", ArrayTensor(numbers))


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSumSquare",
)  # fmt: skip

DOWNWARD: Mapping[tuple[str, int], Adapter] = {
    **{(name, 18): _axes_back for name in _REDUCTIONS},
    **{(name, 13): _axes_back for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _single_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    ("Split", 18): _split_from_18,
    ("Split", 13): _split_from_13,
    ("Clip", 11): _clip_from_11,
    ("Pad", 18): _no_input(3, "axes"),
    ("Pad", 11): _pad_from_11,
    ("Slice", 10): _slice_from_10,
    ("TopK", 10): _topk_from_10,
    ("Dropout", 12): _dropout_from_12,
    ("Resize", 11): _resize_from_11,
    ("BatchNormalization", 14): _normalization_from_14,
    ("GridSample", 20): _gridsample_from_20,
    ("DFT", 20): _dft_from_20,
    ("Reshape", 14): _reshape_from_14,
    ("Shape", 15): _shape_from_15,
    ("Constant", 12): _constant_from_12,
}
