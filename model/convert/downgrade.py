"""Adapters from newer to older opset versions, where the older one can express the same.

The key is the operator and the version that is left. A version that only allows more needs no adapter: if the new
possibilities are used, the conversion is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_workbench.model.convert.rewriter import NodeRewriter, number_constant
from onnx_workbench.model.convert.upgrade import BROADCASTING, Adapter, cast_mask
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import Dimension, ElementType, TensorType


def _ints_back(rewriter: NodeRewriter, name: str, index: int) -> None:
    """Turn a constant input into an integer attribute; inputs behind it must be handled before."""
    if rewriter.has(index):
        rewriter.set(name, tuple(int(i) for i in rewriter.constant(index).reshape(-1)))
    rewriter.keep_inputs(index)


def _axes_back(rewriter: NodeRewriter) -> None:
    if rewriter.attribute("noop_with_empty_axes", 0) and not (rewriter.has(1) and rewriter.constant(1).size):
        raise rewriter.refuse("without axes it does nothing; before, it reduced all")
    rewriter.drop("noop_with_empty_axes")
    if rewriter.has(1) and not rewriter.constant(1).size:
        rewriter.keep_inputs(1)
    _ints_back(rewriter, "axes", 1)


def _split_from_18(rewriter: NodeRewriter) -> None:
    """Since 18 a number of parts may stand for sizes of which the last is smaller; before, all had to be equal."""
    import numpy as np

    count = len(rewriter.node.outputs)
    rewriter.drop("num_outputs")
    if rewriter.has(1):
        return
    axis, dims = rewriter.attribute("axis", 0), rewriter.dims(0)
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if not isinstance(size, int):
        rewriter.report.warn("Split needs a size that its number of parts divides", rewriter.node)
    elif size % count:
        each = -(-size // count)
        sizes = np.diff([min(each * part, size) for part in range(count + 1)])
        rewriter.give(1, sizes.astype(np.int64), "split")


def _split_from_13(rewriter: NodeRewriter) -> None:
    _ints_back(rewriter, "split", 1)


def _number(rewriter: NodeRewriter, index: int, name: str) -> None:
    if rewriter.has(index):
        rewriter.set(name, float(rewriter.constant(index).reshape(-1)[0]))


def _clip_from_11(rewriter: NodeRewriter) -> None:
    _number(rewriter, 1, "min")
    _number(rewriter, 2, "max")
    rewriter.keep_inputs(1)


def _pad_from_11(rewriter: NodeRewriter) -> None:
    _number(rewriter, 2, "value")
    _ints_back(rewriter, "pads", 1)


def _no_input(index: int, word: str) -> Adapter:
    def adapter(rewriter: NodeRewriter) -> None:
        if rewriter.has(index):
            raise rewriter.refuse(f"it has {word}, which do not exist there")
        rewriter.keep_inputs(index)

    return adapter


def _slice_from_10(rewriter: NodeRewriter) -> None:
    if rewriter.has(4) and (rewriter.constant(4) != 1).any():
        raise rewriter.refuse("its steps are not all 1")
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        if rewriter.has(index):
            rewriter.set(name, tuple(int(i) for i in rewriter.constant(index).reshape(-1)))
    rewriter.keep_inputs(1)


def _topk_from_10(rewriter: NodeRewriter) -> None:
    rewriter.set("k", int(rewriter.constant(1).reshape(-1)[0]))
    rewriter.keep_inputs(1)


def _dropout_from_12(rewriter: NodeRewriter) -> None:
    if rewriter.has(2) and bool(rewriter.constant(2).reshape(-1)[0]):
        raise rewriter.refuse("it is in training mode")
    rewriter.drop("seed")
    _number(rewriter, 1, "ratio")
    rewriter.keep_inputs(1)


def _single_axis(rewriter: NodeRewriter) -> None:
    """Both versions agree along the last axis; another axis is transposed to the end."""
    rank = rewriter.known_rank(0)
    axis = rewriter.attribute("axis", -1) % max(rank, 1)
    rewriter.set("axis", max(rank - 1, 0))
    if axis != rank - 1:
        order = [i for i in range(rank) if i != axis] + [axis]
        rewriter.set_inputs([rewriter.before("Transpose", [rewriter.input(0)], perm=order)])
        rewriter.after("Transpose", perm=[order.index(i) for i in range(rank)])


def _resize_from_13(rewriter: NodeRewriter) -> None:
    """Inputs that may be left out since then were empty tensors before."""
    import numpy as np

    for index, word in ((1, "roi"), (2, "scales")):
        if not rewriter.has(index):
            rewriter.give(index, np.zeros(0, np.float32), word)


def _resize_from_11(rewriter: NodeRewriter) -> None:
    mode = rewriter.attribute("mode", "nearest")
    wanted: dict[str, Any] = {"coordinate_transformation_mode": ("half_pixel", "asymmetric")}
    if mode == "nearest":
        wanted["nearest_mode"] = ("round_prefer_floor", "floor")
    for name, (default, needed) in wanted.items():
        if rewriter.attribute(name, default) != needed:
            raise rewriter.refuse(f"its {name} is not {needed}, the only way there")
    if mode == "cubic" or not rewriter.has(2) or rewriter.has(3):
        raise rewriter.refuse("only nearest and linear by scales exist there")
    names = (
        "coordinate_transformation_mode",
        "nearest_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "extrapolation_value",
    )
    rewriter.drop(*names)
    rewriter.set_inputs([rewriter.input(0), rewriter.input(2)])


def _normalization_from_14(rewriter: NodeRewriter) -> None:
    if rewriter.attribute("training_mode", 0):
        raise rewriter.refuse("it is in training mode")
    rewriter.drop("training_mode")


_SAMPLINGS = {"linear": "bilinear", "cubic": "bicubic"}


def _gridsample_from_20(rewriter: NodeRewriter) -> None:
    mode = rewriter.attribute("mode", "linear")
    rewriter.set("mode", _SAMPLINGS.get(mode, mode))


def _dft_from_20(rewriter: NodeRewriter) -> None:
    axis = int(rewriter.constant(2).reshape(-1)[0]) if rewriter.has(2) else -2
    if axis < 0:
        axis += rewriter.known_rank(0)
    rewriter.set("axis", axis)
    rewriter.keep_inputs(2)


def _reshape_from_14(rewriter: NodeRewriter) -> None:
    """Before, a 0 in the shape always copied the input's dimension, as without allowzero."""
    if rewriter.attribute("allowzero", 0):
        shape = rewriter.constant_or_none(1)
        if shape is not None and not shape.all():
            raise rewriter.refuse("it makes an empty tensor, which it could not before version 14")
        if shape is None:
            rewriter.report.warn(
                "A Reshape would copy the input's dimension where its shape is computed as 0", rewriter.node
            )
    rewriter.drop("allowzero")


def _shape_from_15(rewriter: NodeRewriter) -> None:
    """Express a part of the shape as a slice of the shape."""
    import numpy as np

    start, end = rewriter.attribute("start", 0), rewriter.attribute("end")
    rewriter.drop("start", "end")
    if start == 0 and end is None:
        return
    bounds = (np.array([n], np.int64) for n in (start, np.iinfo(np.int64).max if end is None else end))
    rewriter.after("Slice", [rewriter.make_constant(n, word) for n, word in zip(bounds, ("start", "end"), strict=True)])


def _constant_from_12(rewriter: NodeRewriter) -> None:
    """Before, a Constant held a tensor."""
    if "value" in rewriter.node.attributes or "sparse_value" in rewriter.node.attributes:
        return
    numbers = number_constant(rewriter.node)
    if numbers is None:
        raise rewriter.refuse("it holds texts, or what a function's caller gives, which it could not before version 12")
    rewriter.drop(*rewriter.node.attributes)
    rewriter.set("value", ArrayTensor(numbers))


def _constant_from_9(rewriter: NodeRewriter) -> None:
    """Before, a Constant held floats: other types are cast from them, unless they are too large."""
    import numpy as np

    attribute = rewriter.node.attributes.get("value")
    tensor = None if attribute is None else attribute.value
    if not isinstance(tensor, Tensor) or tensor.element_type in _FLOATS:
        return
    numbers = number_constant(rewriter.node)
    if numbers is None or numbers.dtype.kind not in "biu" or np.any(abs(numbers.astype(object)) > _EXACT):
        raise rewriter.refuse(
            "a constant could hold nothing but floating-point numbers there, which say not all of these"
        )
    rewriter.set("value", ArrayTensor(numbers.astype(np.float64)))
    rewriter.after("Cast", to=int(tensor.element_type))


_FLOATS = (ElementType.FLOAT16, ElementType.FLOAT, ElementType.DOUBLE)
_EXACT = 1 << 53  # integers up to here are exact in double precision


def _counted_from_start(rewriter: NodeRewriter) -> None:
    """Before version 11 axes could not be negative."""
    for name in ("axis", "axes"):
        given = rewriter.attribute(name)
        axes = given if isinstance(given, tuple) else () if given is None else (given,)
        if any(axis < 0 for axis in axes):
            # relative to the rank of the output
            added = len(axes) if rewriter.node.op_type in ("OneHot", "Unsqueeze") else 0
            rank = rewriter.known_rank(0) + added
            counted = tuple(axis % max(rank, 1) for axis in axes)
            rewriter.set(name, counted if isinstance(given, tuple) else counted[0])


def _one_hot_from_11(rewriter: NodeRewriter) -> None:
    _counted_from_start(rewriter)
    rewriter.report.warn(
        "OneHot took a negative index for none; since version 11 it counts from the end", rewriter.node
    )


def _only(name: str, default: str, *known: str) -> Adapter:
    """Refuse a value that the older version does not support."""

    def adapter(rewriter: NodeRewriter) -> None:
        chosen = rewriter.attribute(name, default)
        if chosen not in known:
            listed = ", ".join(known[:-1]) + " or " + known[-1] if known[1:] else known[0]
            raise rewriter.refuse(f"its {name} is {chosen}; there it can only be {listed}")

    return adapter


def _scatter_from_16(rewriter: NodeRewriter) -> None:
    _only("reduction", "none", "none")(rewriter)
    rewriter.drop("reduction")


def _roi_align_from_16(rewriter: NodeRewriter) -> None:
    """Coordinates had no half-pixel shift."""
    _only("coordinate_transformation_mode", "half_pixel", "output_half_pixel")(rewriter)
    rewriter.drop("coordinate_transformation_mode")


def _per_tensor(rewriter: NodeRewriter) -> None:
    """Quantization had a single scale per tensor."""
    dims = rewriter.dims(1)
    if dims is None or any(size != 1 for size in dims):
        raise rewriter.refuse("its scale is not known to be a single number, which it was before version 13")
    rewriter.drop("axis")


def _same_shapes(rewriter: NodeRewriter) -> None:
    """Sum, Max, Min and Mean did not broadcast."""
    shapes = [rewriter.dims(index) for index in range(len(rewriter.node.inputs))]
    if len(shapes) > 1 and (None in shapes or len(set(shapes)) > 1 or any(d is None for d in shapes[0] or ())):
        raise rewriter.refuse("its inputs are not known to have the same shape, which they needed before version 8")


def _broadcast_from_7(rewriter: NodeRewriter) -> None:
    """The second shape had to be a scalar or a suffix of the first, and broadcasting was an attribute."""
    first, second = rewriter.dims(0), rewriter.dims(1)
    if first is None or second is None or None in (*first, *second):
        raise rewriter.refuse("its shapes are not known, and before version 7 it had to be said how they meet")
    if first == second:
        return
    if len(second) > len(first) or (any(d != 1 for d in second) and second != first[len(first) - len(second) :]):
        raise rewriter.refuse(f"shapes {list(first)} and {list(second)} did not meet before version 7")
    rewriter.set("broadcast", 1)


def _slope_from_7(rewriter: NodeRewriter) -> None:
    if rewriter.dims(1) not in ((), (1,)):
        raise rewriter.refuse("its slope is not a single number; before version 7 others lay along channels")


def _set(name: str, value: int) -> Adapter:
    """Set an attribute that later versions do not need."""
    return lambda rewriter: rewriter.set(name, value)


def _reshape_from_5(rewriter: NodeRewriter) -> None:
    _ints_back(rewriter, "shape", 1)


def _cast_from_6(rewriter: NodeRewriter) -> None:
    rewriter.set("to", ElementType(rewriter.attribute("to", 1)).name)


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSumSquare",
)  # fmt: skip

_AXES_FROM_START = (
    "ArgMax", "ArgMin", "Concat", "Flatten", "Hardmax", "LogSoftmax", "ReduceSum", "Softmax", "Split",
    "Squeeze", "Unsqueeze", *_REDUCTIONS,
)  # fmt: skip


def _equal_branches(rewriter: NodeRewriter) -> None:
    """Branches of If had to give the same shapes."""
    for first, second in zip(*(body.outputs for body in rewriter.node.bodies), strict=False):
        dims = [_dims_of(rewriter, value) for value in (first, second)]
        if None in dims or dims[0] != dims[1] or None in (dims[0] or ()):
            if _may_be_equal(*dims):
                rewriter.report.warn("If needs branches that give the same shapes before version 11", rewriter.node)
            else:
                raise rewriter.refuse(f"its branches give other shapes ({first.name}, {second.name})")


def _dims_of(rewriter: NodeRewriter, value: Value) -> tuple[Dimension, ...] | None:
    if value.initializer is not None:
        return tuple(value.initializer.shape)
    kind = rewriter.conversion.type_of(value)
    return kind.shape.dims if isinstance(kind, TensorType) and kind.shape is not None else None


def _may_be_equal(a: tuple[Dimension, ...] | None, b: tuple[Dimension, ...] | None) -> bool:
    if a is None or b is None:
        return True
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(not (isinstance(x, int) and isinstance(y, int)) or x == y for x, y in pairs)


def _scan_from_9(rewriter: NodeRewriter) -> None:
    raise rewriter.refuse("before version 9 it goes through batches of sequences, and no other inputs")


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
    ("If", 11): _equal_branches,
    ("Split", 18): _split_from_18,
    ("Split", 13): _split_from_13,
    ("Clip", 11): _clip_from_11,
    ("Pad", 18): _no_input(3, "axes"),
    ("OneHot", 11): _one_hot_from_11,
    ("Pad", 11): _pad_from_11,
    ("Slice", 10): _slice_from_10,
    ("TopK", 10): _topk_from_10,
    ("Dropout", 10): lambda rewriter: cast_mask(rewriter, ElementType.BOOL),
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
