"""Adapters from older to newer opset versions: one for each change that would alter the meaning of a node.

The key is the operator and the version that changed it. Changes that only allow more need no adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx_workbench.model.convert.rewriter import NodeRewriter
from onnx_workbench.model.ir.types import ElementType

Adapter = Callable[[NodeRewriter], None]


def _ints(rewriter: NodeRewriter, name: str, index: int) -> None:
    """Turn an integer attribute into an input."""
    import numpy as np

    value = rewriter.attribute(name)
    rewriter.drop(name)
    if value is not None:
        rewriter.give(index, np.array(value, np.int64), name)


def axes_to_input(rewriter: NodeRewriter) -> None:
    """Squeeze, Unsqueeze, Reduce*: axes."""
    _ints(rewriter, "axes", 1)


def _split_2_to_13(rewriter: NodeRewriter) -> None:
    _ints(rewriter, "split", 1)


def _split_to_18(rewriter: NodeRewriter) -> None:
    """Without sizes the number of outputs is now an attribute."""
    if not rewriter.has(1):
        rewriter.set("num_outputs", len(rewriter.node.outputs))


def _clip_to_11(rewriter: NodeRewriter) -> None:
    import numpy as np

    dtype = rewriter.dtype(0)
    for index, name in ((1, "min"), (2, "max")):
        value = rewriter.attribute(name)
        rewriter.drop(name)
        if value is not None and np.isfinite(value) and abs(value) < _OPEN:
            rewriter.give(index, np.array(value, dtype), name)


#: The default limits of Clip-6: the largest float, which is no limit.
_OPEN = 3.402823e38


def _pad_1_to_2(rewriter: NodeRewriter) -> None:
    pads = rewriter.attribute("paddings")
    rewriter.drop("paddings")
    if pads is not None:
        rewriter.set("pads", pads)


def _pad_to_11(rewriter: NodeRewriter) -> None:
    import numpy as np

    pads, value = rewriter.attribute("pads", ()), rewriter.attribute("value", 0.0)
    rewriter.drop("pads", "value")
    dtype = rewriter.dtype(0) if value else None
    rewriter.give(1, np.array(pads, np.int64), "pads")
    if dtype is not None:
        rewriter.give(2, np.array(value, dtype), "value")


def _slice_to_10(rewriter: NodeRewriter) -> None:
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        _ints(rewriter, name, index)


def _topk_to_10(rewriter: NodeRewriter) -> None:
    import numpy as np

    k = rewriter.attribute("k", 1)
    rewriter.drop("k")
    rewriter.give(1, np.array([k], np.int64), "k")


def _dropout_to_7(rewriter: NodeRewriter) -> None:
    if not rewriter.attribute("is_test", 0):
        rewriter.report.warn("Dropout was in training mode; it does nothing when run now", rewriter.node)
    rewriter.drop("is_test")


def cast_mask(rewriter: NodeRewriter, expected: ElementType) -> None:
    """Cast the mask of Dropout, whose type differs between versions, to the type that the model expects."""
    mask = rewriter.node.outputs[1] if len(rewriter.node.outputs) > 1 else None
    if mask is not None and mask.uses:
        rewriter.after("Cast", output=1, to=int(expected))
    else:
        rewriter.drop_outputs(1)


def _dropout_to_10(rewriter: NodeRewriter) -> None:
    if len(rewriter.node.outputs) > 1:
        cast_mask(rewriter, ElementType.from_numpy(rewriter.dtype(0)))


def _dropout_to_12(rewriter: NodeRewriter) -> None:
    """In inference, all that version knew, the ratio has no effect; it is kept."""
    import numpy as np

    ratio = rewriter.attribute("ratio")
    rewriter.drop("ratio")
    if ratio is not None:
        rewriter.give(1, np.array(ratio, np.float32), "ratio")


def _reshape_to_5(rewriter: NodeRewriter) -> None:
    _ints(rewriter, "shape", 1)


def _cast_to_6(rewriter: NodeRewriter) -> None:
    name = rewriter.attribute("to", "FLOAT")
    if isinstance(name, str):
        try:
            rewriter.set("to", int(ElementType[name.upper()]))
        except KeyError:
            raise rewriter.refuse(f"it casts to {name!r}, which is no element type") from None


def _broadcast_to_7(rewriter: NodeRewriter) -> None:
    """Before, the second input was aligned to `axis` of the first; now shapes broadcast from their ends."""
    axis = rewriter.attribute("axis")
    is_broadcast = rewriter.attribute("broadcast", 0)
    rewriter.drop("axis", "broadcast")
    if not is_broadcast or axis is None:
        return
    first, second = rewriter.known_rank(0), rewriter.known_rank(1)
    missing = first - (axis % max(first, 1)) - second
    if missing > 0:
        axes = tuple(range(second, second + missing))
        rewriter.set_inputs([rewriter.input(0), rewriter.before("Unsqueeze", [rewriter.input(1)], axes=axes)])


def _slope_to_7(rewriter: NodeRewriter) -> None:
    """One slope per channel was aligned to axis 1; now shapes broadcast from their ends."""
    if rewriter.rank(1) == 1 and rewriter.known_rank(0) > 2:
        axes = tuple(range(1, rewriter.known_rank(0) - 1))
        rewriter.set_inputs([rewriter.input(0), rewriter.before("Unsqueeze", [rewriter.input(1)], axes=axes)])


def _gemm_to_7(rewriter: NodeRewriter) -> None:
    rewriter.drop("broadcast")


def _normalization_to_7(rewriter: NodeRewriter) -> None:
    if not rewriter.attribute("is_test", 0) and len([v for v in rewriter.node.outputs if v is not None and v.uses]) > 1:
        raise rewriter.refuse("it is in training mode, whose outputs have changed")
    rewriter.drop("is_test")
    rewriter.drop_outputs(1)


def _normalization_to_9(rewriter: NodeRewriter) -> None:
    if rewriter.attribute("spatial", 1) == 0:
        raise rewriter.refuse("spatial=0 does not exist any more")
    rewriter.drop("spatial")


def _normalization_to_14(rewriter: NodeRewriter) -> None:
    rewriter.drop_outputs(1)


def _coerced_axis(rewriter: NodeRewriter) -> None:
    """Softmax and its variants flattened to two dimensions at `axis`; now they work along one axis."""
    axis = rewriter.attribute("axis", 1)
    rank = rewriter.rank(0)
    if rank is not None and axis % max(rank, 1) == rank - 1:
        rewriter.set("axis", -1)
        return
    source = rewriter.input(0)
    shape = rewriter.before("Shape", [source])
    flat = rewriter.before("Flatten", [source], axis=axis)
    rewriter.set_inputs([flat])
    rewriter.set("axis", -1)
    rewriter.after("Reshape", [shape])


def _upsample_to_7(rewriter: NodeRewriter) -> None:
    height, width = rewriter.attribute("height_scale", 1.0), rewriter.attribute("width_scale", 1.0)
    rewriter.drop("height_scale", "width_scale")
    rewriter.set("scales", (1.0, 1.0, float(height), float(width)))


def _upsample_to_9(rewriter: NodeRewriter) -> None:
    import numpy as np

    scales = rewriter.attribute("scales", ())
    rewriter.drop("scales")
    rewriter.give(1, np.array(scales, np.float32), "scales")


def _upsample_to_10(rewriter: NodeRewriter) -> None:
    if rewriter.attribute("mode") == "bilinear":
        rewriter.set("mode", "linear")
    rewriter.rename("Resize")


def _resize_to_11(rewriter: NodeRewriter) -> None:
    """Version 10 had one coordinate transformation only."""
    scales = rewriter.input(1)
    rewriter.set_inputs([rewriter.input(0), None, scales])
    if rewriter.constant_or_none(2) is None:
        rewriter.report.warn("Resize computes its scales; sizes may round otherwise", rewriter.node)
    rewriter.set("coordinate_transformation_mode", "asymmetric")
    if rewriter.attribute("mode", "nearest") == "nearest":
        rewriter.set("nearest_mode", "floor")
    import numpy as np

    inputs = list(rewriter.node.inputs)
    inputs[1] = rewriter.make_constant(np.zeros(0, np.float32), "roi")
    rewriter.set_inputs(inputs)


def _scatter_to_11(rewriter: NodeRewriter) -> None:
    rewriter.rename("ScatterElements")


def _pool_norm_to_2(rewriter: NodeRewriter) -> None:
    power = rewriter.attribute("p")
    if power is not None:
        if power != int(power):
            raise rewriter.refuse(f"its exponent {power} is not a whole number, which it must be now")
        rewriter.set("p", int(power))


def _dft_to_20(rewriter: NodeRewriter) -> None:
    import numpy as np

    axis = rewriter.attribute("axis", 1)
    rewriter.drop("axis")
    rewriter.give(2, np.array(axis, np.int64), "axis")


def _one_hot_to_11(rewriter: NodeRewriter) -> None:
    rewriter.report.warn(
        "OneHot counts negative indices from the end; before version 11 they stood for none", rewriter.node
    )


def _roi_align_to_16(rewriter: NodeRewriter) -> None:
    """Coordinates had no half-pixel shift, which is now an explicit attribute."""
    rewriter.set("coordinate_transformation_mode", "output_half_pixel")


def _recurrent_to_7(rewriter: NodeRewriter) -> None:
    rewriter.drop("output_sequence")


_SAMPLINGS = {"bilinear": "linear", "bicubic": "cubic"}


def _gridsample_to_20(rewriter: NodeRewriter) -> None:
    rewriter.set("mode", _SAMPLINGS.get(rewriter.attribute("mode", "bilinear"), "nearest"))


def _group_normalization_to_21(rewriter: NodeRewriter) -> None:
    """Scale and bias had one number per group; now one per channel."""
    import numpy as np

    kind = rewriter.conversion.type_of(rewriter.input(0))
    shape = getattr(kind, "shape", None)
    channels = shape.dims[1] if shape is not None and shape.rank > 1 else None
    groups = rewriter.attribute("num_groups", 1)
    if not isinstance(channels, int) or not groups or channels % groups:
        raise rewriter.unable("the number of channels must be known to repeat its scale and bias")
    inputs = list(rewriter.node.inputs)
    for index, word in ((1, "scale"), (2, "bias")):
        inputs[index] = rewriter.make_constant(np.repeat(rewriter.constant(index), channels // groups), word)
    rewriter.set_inputs(inputs)


def _scan_to_9(rewriter: NodeRewriter) -> None:
    """Version 8 worked on batches, which no later one does; a batch of one is squeezed and unsqueezed."""
    if rewriter.node.inputs[0] is not None:
        raise rewriter.refuse("its sequences have lengths of their own, which no later version knows")
    data = range(1, len(rewriter.node.inputs))
    if any((rewriter.dims(index) or (0,))[0] != 1 for index in data):
        raise rewriter.refuse("version 8 works on batches, and no later one does; only a batch of one can be said")
    directions = rewriter.attribute("directions")
    rewriter.drop("directions")
    if directions is not None:
        rewriter.set("scan_input_directions", directions)
    rewriter.set_inputs([rewriter.before("Squeeze", [rewriter.input(index)], axes=(0,)) for index in data])
    for index, value in enumerate(rewriter.node.outputs):
        if value is not None:
            rewriter.after("Unsqueeze", output=index, axes=(0,))


def _unknown(reason: str) -> Adapter:
    def adapter(rewriter: NodeRewriter) -> None:
        raise rewriter.unable(reason)

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
