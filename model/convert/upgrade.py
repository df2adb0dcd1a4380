"""Adapters from older to newer opset versions: one for each change that would alter the meaning of a node.

The key is the operator and the version that changed it. Changes that only allow more need no adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx_workbench.model.convert.rewriter import NodeRewriter
from onnx_workbench.model.ir.types import ElementType

Adapter = Callable[[NodeRewriter], None]


def _ints(hands: NodeRewriter, name: str, index: int) -> None:
    """Turn an integer attribute into an input."""
    import numpy as np

    value = hands.attribute(name)
    hands.drop(name)
    if value is not None:
        hands.give(index, np.array(value, np.int64), name)


def axes_to_input(hands: NodeRewriter) -> None:
    """Squeeze, Unsqueeze, Reduce*: axes."""
    _ints(hands, "axes", 1)


def _split_2_to_13(hands: NodeRewriter) -> None:
    _ints(hands, "split", 1)


def _split_to_18(hands: NodeRewriter) -> None:
    """Without sizes the number of outputs is now an attribute."""
    if not hands.has(1):
        hands.set("num_outputs", len(hands.node.outputs))


def _clip_to_11(hands: NodeRewriter) -> None:
    import numpy as np

    dtype = hands.dtype(0)
    for index, name in ((1, "min"), (2, "max")):
        value = hands.attribute(name)
        hands.drop(name)
        if value is not None and np.isfinite(value) and abs(value) < _OPEN:
            hands.give(index, np.array(value, dtype), name)


#: The default limits of Clip-6: the largest float, which is no limit.
_OPEN = 3.402823e38


def _pad_1_to_2(hands: NodeRewriter) -> None:
    pads = hands.attribute("paddings")
    hands.drop("paddings")
    if pads is not None:
        hands.set("pads", pads)


def _pad_to_11(hands: NodeRewriter) -> None:
    import numpy as np

    pads, value = hands.attribute("pads", ()), hands.attribute("value", 0.0)
    hands.drop("pads", "value")
    dtype = hands.dtype(0) if value else None
    hands.give(1, np.array(pads, np.int64), "pads")
    if dtype is not None:
        hands.give(2, np.array(value, dtype), "value")


def _slice_to_10(hands: NodeRewriter) -> None:
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        _ints(hands, name, index)


def _topk_to_10(hands: NodeRewriter) -> None:
    import numpy as np

    k = hands.attribute("k", 1)
    hands.drop("k")
    hands.give(1, np.array([k], np.int64), "k")


def _dropout_to_7(hands: NodeRewriter) -> None:
    if not hands.attribute("is_test", 0):
        hands.report.warn("Dropout was in training mode; it does nothing when run now", hands.node)
    hands.drop("is_test")


def cast_mask(hands: NodeRewriter, expected: ElementType) -> None:
    """Cast the mask of Dropout, whose type differs between versions, to the type that the model expects."""
    mask = hands.node.outputs[1] if len(hands.node.outputs) > 1 else None
    if mask is not None and mask.uses:
        hands.after("Cast", output=1, to=int(expected))
    else:
        hands.drop_outputs(1)


def _dropout_to_10(hands: NodeRewriter) -> None:
    if len(hands.node.outputs) > 1:
        cast_mask(hands, ElementType.from_numpy(hands.dtype(0)))


def _dropout_to_12(hands: NodeRewriter) -> None:
    """In inference, all that version knew, the ratio has no effect; it is kept."""
    import numpy as np

    ratio = hands.attribute("ratio")
    hands.drop("ratio")
    if ratio is not None:
        hands.give(1, np.array(ratio, np.float32), "ratio")


def _reshape_to_5(hands: NodeRewriter) -> None:
    _ints(hands, "shape", 1)


def _cast_to_6(hands: NodeRewriter) -> None:
    name = hands.attribute("to", "FLOAT")
    if isinstance(name, str):
        try:
            hands.set("to", int(ElementType[name.upper()]))
        except KeyError:
            raise hands.refuse(f"it casts to {name!r}, which is no element type") from None


def _broadcast_to_7(hands: NodeRewriter) -> None:
    """Before, the second input was aligned to `axis` of the first; now shapes broadcast from their ends."""
    axis = hands.attribute("axis")
    is_broadcast = hands.attribute("broadcast", 0)
    hands.drop("axis", "broadcast")
    if not is_broadcast or axis is None:
        return
    first, second = hands.known_rank(0), hands.known_rank(1)
    missing = first - (axis % max(first, 1)) - second
    if missing > 0:
        axes = tuple(range(second, second + missing))
        hands.set_inputs([hands.input(0), hands.before("Unsqueeze", [hands.input(1)], axes=axes)])


def _slope_to_7(hands: NodeRewriter) -> None:
    """One slope per channel was aligned to axis 1; now shapes broadcast from their ends."""
    if hands.rank(1) == 1 and hands.known_rank(0) > 2:
        axes = tuple(range(1, hands.known_rank(0) - 1))
        hands.set_inputs([hands.input(0), hands.before("Unsqueeze", [hands.input(1)], axes=axes)])


def _gemm_to_7(hands: NodeRewriter) -> None:
    hands.drop("broadcast")


def _normalization_to_7(hands: NodeRewriter) -> None:
    if not hands.attribute("is_test", 0) and len([v for v in hands.node.outputs if v is not None and v.uses]) > 1:
        raise hands.refuse("it is in training mode, whose outputs have changed")
    hands.drop("is_test")
    hands.drop_outputs(1)


def _normalization_to_9(hands: NodeRewriter) -> None:
    if hands.attribute("spatial", 1) == 0:
        raise hands.refuse("spatial=0 does not exist any more")
    hands.drop("spatial")


def _normalization_to_14(hands: NodeRewriter) -> None:
    hands.drop_outputs(1)


def _coerced_axis(hands: NodeRewriter) -> None:
    """Softmax and its variants flattened to two dimensions at `axis`; now they work along one axis."""
    axis = hands.attribute("axis", 1)
    rank = hands.rank(0)
    if rank is not None and axis % max(rank, 1) == rank - 1:
        hands.set("axis", -1)
        return
    source = hands.input(0)
    shape = hands.before("Shape", [source])
    flat = hands.before("Flatten", [source], axis=axis)
    hands.set_inputs([flat])
    hands.set("axis", -1)
    hands.after("Reshape", [shape])


def _upsample_to_7(hands: NodeRewriter) -> None:
    height, width = hands.attribute("height_scale", 1.0), hands.attribute("width_scale", 1.0)
    hands.drop("height_scale", "width_scale")
    hands.set("scales", (1.0, 1.0, float(height), float(width)))


def _upsample_to_9(hands: NodeRewriter) -> None:
    import numpy as np

    scales = hands.attribute("scales", ())
    hands.drop("scales")
    hands.give(1, np.array(scales, np.float32), "scales")


def _upsample_to_10(hands: NodeRewriter) -> None:
    if hands.attribute("mode") == "bilinear":
        hands.set("mode", "linear")
    hands.rename("Resize")


def _resize_to_11(hands: NodeRewriter) -> None:
    """Version 10 had one coordinate transformation only."""
    scales = hands.input(1)
    hands.set_inputs([hands.input(0), None, scales])
    if hands.constant_or_none(2) is None:
        hands.report.warn("Resize computes its scales; sizes may round otherwise", hands.node)
    hands.set("coordinate_transformation_mode", "asymmetric")
    if hands.attribute("mode", "nearest") == "nearest":
        hands.set("nearest_mode", "floor")
    import numpy as np

    inputs = list(hands.node.inputs)
    inputs[1] = hands.make_constant(np.zeros(0, np.float32), "roi")
    hands.set_inputs(inputs)


def _scatter_to_11(hands: NodeRewriter) -> None:
    hands.rename("ScatterElements")


def _pool_norm_to_2(hands: NodeRewriter) -> None:
    power = hands.attribute("p")
    if power is not None:
        if power != int(power):
            raise hands.refuse(f"its exponent {power} is not a whole number, which it must be now")
        hands.set("p", int(power))


def _dft_to_20(hands: NodeRewriter) -> None:
    import numpy as np

    axis = hands.attribute("axis", 1)
    hands.drop("axis")
    hands.give(2, np.array(axis, np.int64), "axis")


def _one_hot_to_11(hands: NodeRewriter) -> None:
    hands.report.warn("OneHot counts negative indices from the end; before version 11 they stood for none", hands.node)


def _roi_align_to_16(hands: NodeRewriter) -> None:
    """Coordinates had no half-pixel shift, which is now an explicit attribute."""
    hands.set("coordinate_transformation_mode", "output_half_pixel")


def _recurrent_to_7(hands: NodeRewriter) -> None:
    hands.drop("output_sequence")


_SAMPLINGS = {"bilinear": "linear", "bicubic": "cubic"}


def _gridsample_to_20(hands: NodeRewriter) -> None:
    hands.set("mode", _SAMPLINGS.get(hands.attribute("mode", "bilinear"), "nearest"))


def _group_normalization_to_21(hands: NodeRewriter) -> None:
    """Scale and bias had one number per group; now one per channel."""
    import numpy as np

    kind = hands.conversion.type_of(hands.input(0))
    shape = getattr(kind, "shape", None)
    channels = shape.dims[1] if shape is not None and shape.rank > 1 else None
    groups = hands.attribute("num_groups", 1)
    if not isinstance(channels, int) or not groups or channels % groups:
        raise hands.unable("the number of channels must be known to repeat its scale and bias")
    inputs = list(hands.node.inputs)
    for index, word in ((1, "scale"), (2, "bias")):
        inputs[index] = hands.make_constant(np.repeat(hands.constant(index), channels // groups), word)
    hands.set_inputs(inputs)


def _scan_to_9(hands: NodeRewriter) -> None:
    """Version 8 worked on batches, which no later one does; a batch of one is squeezed and unsqueezed."""
    if hands.node.inputs[0] is not None:
        raise hands.refuse("its sequences have lengths of their own, which no later version knows")
    data = range(1, len(hands.node.inputs))
    if any((hands.dims(index) or (0,))[0] != 1 for index in data):
        raise hands.refuse("version 8 works on batches, and no later one does; only a batch of one can be said")
    directions = hands.attribute("directions")
    hands.drop("directions")
    if directions is not None:
        hands.set("scan_input_directions", directions)
    hands.set_inputs([hands.before("Squeeze", [hands.input(index)], axes=(0,)) for index in data])
    for index, value in enumerate(hands.node.outputs):
        if value is not None:
            hands.after("Unsqueeze", output=index, axes=(0,))


def _unknown(reason: str) -> Adapter:
    def adapter(hands: NodeRewriter) -> None:
        raise hands.unable(reason)

    return adapter


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSumSquare",
)  # fmt: skip
#: Operators with explicit broadcasting before version 7.
BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")

UPWARD: Mapping[tuple[str, int], Adapter] = {
    **{(name, 18): axes_to_input for name in _REDUCTIONS},
    **{(name, 7): _broadcast_to_7 for name in BROADCASTING},
    **{(name, 13): axes_to_input for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _coerced_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    ("Split", 2): _unknown("version 1 took its sizes as an input of another kind"),
    ("Split", 13): _split_2_to_13,
    ("Split", 18): _split_to_18,
    ("Clip", 11): _clip_to_11,
    ("Pad", 2): _pad_1_to_2,
    ("Pad", 11): _pad_to_11,
    ("Slice", 10): _slice_to_10,
    ("TopK", 10): _topk_to_10,
    ("Dropout", 7): _dropout_to_7,
    ("Dropout", 10): _dropout_to_10,
    ("Dropout", 12): _dropout_to_12,
    ("Reshape", 5): _reshape_to_5,
    ("Cast", 6): _cast_to_6,
    ("Gemm", 7): _gemm_to_7,
    ("PRelu", 7): _slope_to_7,
    ("BatchNormalization", 7): _normalization_to_7,
    ("BatchNormalization", 9): _normalization_to_9,
    ("BatchNormalization", 14): _normalization_to_14,
    ("Upsample", 7): _upsample_to_7,
    ("Upsample", 9): _upsample_to_9,
    ("Upsample", 10): _upsample_to_10,
    ("Resize", 11): _resize_to_11,
    ("Scatter", 11): _scatter_to_11,
    ("LpPool", 2): _pool_norm_to_2,
    ("GlobalLpPool", 2): _pool_norm_to_2,
    ("OneHot", 11): _one_hot_to_11,
    ("RoiAlign", 16): _roi_align_to_16,
    **{(name, 7): _recurrent_to_7 for name in ("GRU", "LSTM", "RNN")},
    ("DFT", 20): _dft_to_20,
    ("GridSample", 20): _gridsample_to_20,
    ("GroupNormalization", 21): _group_normalization_to_21,
    ("Scan", 9): _scan_to_9,
    ("Tile", 6): _unknown("version 1 repeats along one axis only"),
}
