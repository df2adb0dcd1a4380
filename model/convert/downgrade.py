"""Adapters from newer to older opset versions, where the older one can express the same.

The key is the operator and the version that is left. A version that only allows more needs no adapter: if the new
possibilities are used, the conversion is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_workbench.model.convert.rewriter import NodeRewriter, number_constant
from onnx_workbench.model.convert.upgrade import BROADCASTING, Adapter, cast_mask
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import ElementType


def _ints_back(hands: NodeRewriter, name: str, index: int) -> None:
    """Turn a constant input into an integer attribute; inputs behind it must be handled before."""
    if hands.has(index):
        hands.set(name, tuple(int(i) for i in hands.constant(index).reshape(-1)))
    hands.keep_inputs(index)


def _axes_back(hands: NodeRewriter) -> None:
    if hands.attribute("noop_with_empty_axes", 0) and not (hands.has(1) and hands.constant(1).size):
        raise hands.refuse("without axes it does nothing; before, it reduced all")
    hands.drop("noop_with_empty_axes")
    if hands.has(1) and not hands.constant(1).size:
        hands.keep_inputs(1)
    _ints_back(hands, "axes", 1)


def _split_from_18(hands: NodeRewriter) -> None:
    """Since 18 a number of parts may stand for sizes of which the last is smaller; before, all had to be equal."""
    import numpy as np

    count = len(hands.node.outputs)
    hands.drop("num_outputs")
    if hands.has(1):
        return
    axis, dims = hands.attribute("axis", 0), hands.dims(0)
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if not isinstance(size, int):
        hands.report.warn("Split needs a size that its number of parts divides", hands.node)
    elif size % count:
        each = -(-size // count)
        sizes = np.diff([min(each * part, size) for part in range(count + 1)])
        hands.give(1, sizes.astype(np.int64), "split")


def _split_from_13(hands: NodeRewriter) -> None:
    _ints_back(hands, "split", 1)


def _number(hands: NodeRewriter, index: int, name: str) -> None:
    if hands.has(index):
        hands.set(name, float(hands.constant(index).reshape(-1)[0]))


def _clip_from_11(hands: NodeRewriter) -> None:
    _number(hands, 1, "min")
    _number(hands, 2, "max")
    hands.keep_inputs(1)


def _pad_from_11(hands: NodeRewriter) -> None:
    _number(hands, 2, "value")
    _ints_back(hands, "pads", 1)


def _no_input(index: int, word: str) -> Adapter:
    def adapter(hands: NodeRewriter) -> None:
        if hands.has(index):
            raise hands.refuse(f"it has {word}, which do not exist there")
        hands.keep_inputs(index)

    return adapter


def _slice_from_10(hands: NodeRewriter) -> None:
    if hands.has(4) and (hands.constant(4) != 1).any():
        raise hands.refuse("its steps are not all 1")
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        if hands.has(index):
            hands.set(name, tuple(int(i) for i in hands.constant(index).reshape(-1)))
    hands.keep_inputs(1)


def _topk_from_10(hands: NodeRewriter) -> None:
    hands.set("k", int(hands.constant(1).reshape(-1)[0]))
    hands.keep_inputs(1)


def _dropout_from_12(hands: NodeRewriter) -> None:
    if hands.has(2) and bool(hands.constant(2).reshape(-1)[0]):
        raise hands.refuse("it is in training mode")
    hands.drop("seed")
    _number(hands, 1, "ratio")
    hands.keep_inputs(1)


def _single_axis(hands: NodeRewriter) -> None:
    """Both versions agree along the last axis; another axis is transposed to the end."""
    rank = hands.known_rank(0)
    axis = hands.attribute("axis", -1) % max(rank, 1)
    hands.set("axis", max(rank - 1, 0))
    if axis != rank - 1:
        order = [i for i in range(rank) if i != axis] + [axis]
        hands.set_inputs([hands.before("Transpose", [hands.input(0)], perm=order)])
        hands.after("Transpose", perm=[order.index(i) for i in range(rank)])


def _resize_from_13(hands: NodeRewriter) -> None:
    """Inputs that may be left out since then were empty tensors before."""
    import numpy as np

    for index, word in ((1, "roi"), (2, "scales")):
        if not hands.has(index):
            hands.give(index, np.zeros(0, np.float32), word)


def _resize_from_11(hands: NodeRewriter) -> None:
    mode = hands.attribute("mode", "nearest")
    wanted: dict[str, Any] = {"coordinate_transformation_mode": ("half_pixel", "asymmetric")}
    if mode == "nearest":
        wanted["nearest_mode"] = ("round_prefer_floor", "floor")
    for name, (default, needed) in wanted.items():
        if hands.attribute(name, default) != needed:
            raise hands.refuse(f"its {name} is not {needed}, the only way there")
    if mode == "cubic" or not hands.has(2) or hands.has(3):
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


def _normalization_from_14(hands: NodeRewriter) -> None:
    if hands.attribute("training_mode", 0):
        raise hands.refuse("it is in training mode")
    hands.drop("training_mode")


_SAMPLINGS = {"linear": "bilinear", "cubic": "bicubic"}


def _gridsample_from_20(hands: NodeRewriter) -> None:
    mode = hands.attribute("mode", "linear")
    hands.set("mode", _SAMPLINGS.get(mode, mode))


def _dft_from_20(hands: NodeRewriter) -> None:
    axis = int(hands.constant(2).reshape(-1)[0]) if hands.has(2) else -2
    if axis < 0:
        axis += hands.known_rank(0)
    hands.set("axis", axis)
    hands.keep_inputs(2)


def _reshape_from_14(hands: NodeRewriter) -> None:
    """Before, a 0 in the shape always copied the input's dimension, as without allowzero."""
    if hands.attribute("allowzero", 0):
        shape = hands.constant_or_none(1)
        if shape is not None and not shape.all():
            raise hands.refuse("it makes an empty tensor, which it could not before version 14")
        if shape is None:
            hands.report.warn("A Reshape would copy the input's dimension where its shape is computed as 0", hands.node)
    hands.drop("allowzero")


def _shape_from_15(hands: NodeRewriter) -> None:
    """Express a part of the shape as a slice of the shape."""
    import numpy as np

    start, end = hands.attribute("start", 0), hands.attribute("end")
    hands.drop("start", "end")
    if start == 0 and end is None:
        return
    bounds = (np.array([n], np.int64) for n in (start, np.iinfo(np.int64).max if end is None else end))
    hands.after("Slice", [hands.make_constant(n, word) for n, word in zip(bounds, ("start", "end"), strict=True)])


def _constant_from_12(hands: NodeRewriter) -> None:
    """Before, a Constant held a tensor."""
    if "value" in hands.node.attributes or "sparse_value" in hands.node.attributes:
        return
    numbers = number_constant(hands.node)
    if numbers is None:
        raise hands.refuse("it holds texts, or what a function's caller gives, which it could not before version 12")
    hands.drop(*hands.node.attributes)
    hands.set("value", ArrayTensor(numbers))


def _constant_from_9(hands: NodeRewriter) -> None:
    """Before, a Constant held floats: other types are cast from them, unless they are too large."""
    import numpy as np

    attribute = hands.node.attributes.get("value")
    tensor = None if attribute is None else attribute.value
    if not isinstance(tensor, Tensor) or tensor.element_type in _FLOATS:
        return
    numbers = number_constant(hands.node)
    if numbers is None or numbers.dtype.kind not in "biu" or np.any(abs(numbers.astype(object)) > _EXACT):
        raise hands.refuse("a constant could hold nothing but floating-point numbers there, which say not all of these")
    hands.set("value", ArrayTensor(numbers.astype(np.float64)))
    hands.after("Cast", to=int(tensor.element_type))


_FLOATS = (ElementType.FLOAT16, ElementType.FLOAT, ElementType.DOUBLE)
_EXACT = 1 << 53  # integers up to here are exact in double precision


def _counted_from_start(hands: NodeRewriter) -> None:
    """Before version 11 axes could not be negative."""
    for name in ("axis", "axes"):
        given = hands.attribute(name)
        axes = given if isinstance(given, tuple) else () if given is None else (given,)
        if any(axis < 0 for axis in axes):
            # relative to the rank of the output
            added = len(axes) if hands.node.op_type in ("OneHot", "Unsqueeze") else 0
            rank = hands.known_rank(0) + added
            counted = tuple(axis % max(rank, 1) for axis in axes)
            hands.set(name, counted if isinstance(given, tuple) else counted[0])


def _one_hot_from_11(hands: NodeRewriter) -> None:
    _counted_from_start(hands)
    hands.report.warn("OneHot took a negative index for none; since version 11 it counts from the end", hands.node)


def _only(name: str, default: str, *known: str) -> Adapter:
    """Refuse a value that the older version does not support."""

    def adapter(hands: NodeRewriter) -> None:
        chosen = hands.attribute(name, default)
        if chosen not in known:
            listed = ", ".join(known[:-1]) + " or " + known[-1] if known[1:] else known[0]
            raise hands.refuse(f"its {name} is {chosen}; there it can only be {listed}")

    return adapter


def _scatter_from_16(hands: NodeRewriter) -> None:
    _only("reduction", "none", "none")(hands)
    hands.drop("reduction")


def _roi_align_from_16(hands: NodeRewriter) -> None:
    """Coordinates had no half-pixel shift."""
    _only("coordinate_transformation_mode", "half_pixel", "output_half_pixel")(hands)
    hands.drop("coordinate_transformation_mode")


def _per_tensor(hands: NodeRewriter) -> None:
    """Quantization had a single scale per tensor."""
    dims = hands.dims(1)
    if dims is None or any(size != 1 for size in dims):
        raise hands.refuse("its scale is not known to be a single number, which it was before version 13")
    hands.drop("axis")


def _same_shapes(hands: NodeRewriter) -> None:
    """Sum, Max, Min and Mean did not broadcast."""
    shapes = [hands.dims(index) for index in range(len(hands.node.inputs))]
    if len(shapes) > 1 and (None in shapes or len(set(shapes)) > 1 or any(d is None for d in shapes[0] or ())):
        raise hands.refuse("its inputs are not known to have the same shape, which they needed before version 8")


def _broadcast_from_7(hands: NodeRewriter) -> None:
    """The second shape had to be a scalar or a suffix of the first, and broadcasting was an attribute."""
    first, second = hands.dims(0), hands.dims(1)
    if first is None or second is None or None in (*first, *second):
        raise hands.refuse("its shapes are not known, and before version 7 it had to be said how they meet")
    if first == second:
        return
    if len(second) > len(first) or (any(d != 1 for d in second) and second != first[len(first) - len(second) :]):
        raise hands.refuse(f"shapes {list(first)} and {list(second)} did not meet before version 7")
    hands.set("broadcast", 1)


def _slope_from_7(hands: NodeRewriter) -> None:
    if hands.dims(1) not in ((), (1,)):
        raise hands.refuse("its slope is not a single number; before version 7 others lay along channels")


def _set(name: str, value: int) -> Adapter:
    """Set an attribute that later versions do not need."""
    return lambda hands: hands.set(name, value)


def _reshape_from_5(hands: NodeRewriter) -> None:
    _ints_back(hands, "shape", 1)


def _cast_from_6(hands: NodeRewriter) -> None:
    hands.set("to", ElementType(hands.attribute("to", 1)).name)


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSumSquare",
)  # fmt: skip

_AXES_FROM_START = (
    "ArgMax", "ArgMin", "Concat", "Flatten", "Hardmax", "LogSoftmax", "ReduceSum", "Softmax", "Split",
    "Squeeze", "Unsqueeze", *_REDUCTIONS,
)  # fmt: skip


def _scan_from_9(hands: NodeRewriter) -> None:
    raise hands.refuse("before version 9 it goes through batches of sequences, and no other inputs")


DOWNWARD: Mapping[tuple[str, int], Adapter] = {
    **{(name, 11): _counted_from_start for name in _AXES_FROM_START},
    **{(name, 8): _same_shapes for name in ("Max", "Mean", "Min", "Sum")},
    **{(name, 7): _broadcast_from_7 for name in BROADCASTING},
    **{(name, 7): _set("output_sequence", 1) for name in ("GRU", "LSTM", "RNN")},
    **{(name, 7): _set("is_test", 1) for name in ("BatchNormalization", "Dropout")},
    **{(name, 13): _per_tensor for name in ("DequantizeLinear", "QuantizeLinear")},
    **{(name, 16): _scatter_from_16 for name in ("ScatterElements", "ScatterND")},
    **{(name, 18): _only("reduction", "none", "none", "add", "mul") for name in ("ScatterElements", "ScatterND")},
    **{(name, 18): _axes_back for name in _REDUCTIONS},
    **{(name, 13): _axes_back for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _single_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    ("Split", 18): _split_from_18,
    ("Split", 13): _split_from_13,
    ("Clip", 11): _clip_from_11,
    ("Pad", 18): _no_input(3, "axes"),
    ("OneHot", 11): _one_hot_from_11,
    ("Pad", 11): _pad_from_11,
    ("Slice", 10): _slice_from_10,
    ("TopK", 10): _topk_from_10,
    ("Dropout", 10): lambda hands: cast_mask(hands, ElementType.BOOL),
    ("Dropout", 12): _dropout_from_12,
    ("Pad", 19): _only("mode", "constant", "constant", "reflect", "edge"),
    ("Resize", 19): _only(
        "coordinate_transformation_mode", "half_pixel",
        "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    ),
    ("Resize", 13): _resize_from_13,
    ("Resize", 11): _resize_from_11,
    ("RoiAlign", 16): _roi_align_from_16,
    ("Gemm", 7): _set("broadcast", 1),
    ("PRelu", 7): _slope_from_7,
    ("Reshape", 5): _reshape_from_5,
    ("Cast", 6): _cast_from_6,
    ("BatchNormalization", 14): _normalization_from_14,
    ("GridSample", 20): _gridsample_from_20,
    ("DFT", 20): _dft_from_20,
    ("Reshape", 14): _reshape_from_14,
    ("Shape", 15): _shape_from_15,
    ("Constant", 12): _constant_from_12,
    ("Constant", 9): _constant_from_9,
    ("Scan", 9): _scan_from_9,
}  # fmt: skip
