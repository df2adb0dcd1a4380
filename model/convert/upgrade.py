"""Adapters from older to newer opset versions: one for each change that would alter the meaning of a node.

The key is the operator and the version that changed it. Changes that only allow more need no adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx_workbench.model.convert.node_editor import NodeEditor
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import Dimension, ElementType
from onnx_workbench.model.schemas import traits

Adapter = Callable[[NodeEditor], None]


def to_inputs(*names: str, kind: str = "int64") -> Adapter:
    """Turn attributes into the inputs behind the first one, of a numpy type."""

    def adapter(editor: NodeEditor) -> None:
        import numpy as np

        for index, name in enumerate(names, 1):
            value = editor.attribute(name)
            editor.drop(name)
            if value is not None:
                editor.give(index, np.array(value, kind), name)

    return adapter


def setting(name: str, value: Any) -> Adapter:
    """Set an attribute that the other version did not need."""
    return lambda editor: editor.set(name, value)


def without(name: str) -> Adapter:
    """Remove an attribute that had no effect."""
    return lambda editor: editor.drop(name)


def renamed(op_type: str) -> Adapter:
    """Change the name of the operator."""
    return lambda editor: editor.rename(op_type)


def respelled(name: str, **spellings: str) -> Adapter:
    """Change the spelling of values of an attribute."""

    def adapter(editor: NodeEditor) -> None:
        value = editor.attribute(name)
        if value in spellings:
            editor.set(name, spellings[value])

    return adapter


def _concat_to_4(editor: NodeEditor) -> None:
    """The axis was 1 where it was left out; now it is required."""
    editor.set("axis", editor.attribute("axis", 1))


def _split_1_to_2(editor: NodeEditor) -> None:
    """Version 1 could take the sizes as an input, of the type of the data, instead of the attribute."""
    if editor.has(1):
        editor.set("split", tuple(int(size) for size in editor.constant(1).reshape(-1)))
    editor.keep_inputs(1)


def _tile_to_6(editor: NodeEditor) -> None:
    """Version 1 repeated along one axis; both numbers were inputs of the type of the data."""
    import numpy as np

    tiles, axis = (int(editor.constant(index).reshape(-1)[0]) for index in (1, 2))
    repeats = np.ones(editor.known_rank(0), np.int64)
    repeats[axis] = tiles
    editor.set_inputs([editor.input(0), editor.make_constant(repeats, "repeats")])


def _split_to_18(editor: NodeEditor) -> None:
    """Without sizes the number of outputs is now an attribute."""
    if not editor.has(1):
        editor.set("num_outputs", len(editor.node.outputs))


def _clip_to_11(editor: NodeEditor) -> None:
    import numpy as np

    dtype = editor.dtype(0)
    for index, name in ((1, "min"), (2, "max")):
        value = editor.attribute(name)
        editor.drop(name)
        if value is not None and np.isfinite(value) and abs(value) < _OPEN:
            editor.give(index, np.array(value, dtype), name)


#: The default limits of Clip-6: the largest float, which is no limit.
_OPEN = 3.402823e38


def _pad_1_to_2(editor: NodeEditor) -> None:
    pads = editor.attribute("paddings")
    editor.drop("paddings")
    if pads is not None:
        editor.set("pads", pads)


def _pad_to_11(editor: NodeEditor) -> None:
    import numpy as np

    pads, value = editor.attribute("pads", ()), editor.attribute("value", 0.0)
    editor.drop("pads", "value")
    dtype = editor.dtype(0) if value else None
    editor.give(1, np.array(pads, np.int64), "pads")
    if dtype is not None:
        editor.give(2, np.array(value, dtype), "value")


def _topk_to_10(editor: NodeEditor) -> None:
    import numpy as np

    k = editor.attribute("k", 1)
    editor.drop("k")
    editor.give(1, np.array([k], np.int64), "k")


def _dropout_to_7(editor: NodeEditor) -> None:
    if not editor.attribute("is_test", 0):
        editor.report.warn("Dropout was in training mode; it does nothing when run now", editor.node)
    editor.drop("is_test")


def cast_mask(editor: NodeEditor, expected: ElementType) -> None:
    """Cast the mask of Dropout, whose type differs between versions, to the type that the model expects."""
    mask = editor.node.outputs[1] if len(editor.node.outputs) > 1 else None
    if mask is not None and mask.uses:
        editor.after("Cast", output=1, to=int(expected))
    else:
        editor.keep_first_output()


def _dropout_to_10(editor: NodeEditor) -> None:
    if len(editor.node.outputs) > 1:
        cast_mask(editor, ElementType.from_numpy(editor.dtype(0)))


def _cast_to_6(editor: NodeEditor) -> None:
    name = editor.attribute("to", "FLOAT")
    if isinstance(name, str):
        try:
            editor.set("to", int(ElementType[name.upper()]))
        except KeyError:
            raise editor.refuse(f"it casts to {name!r}, which is not an element type") from None


def _broadcast_to_7(editor: NodeEditor) -> None:
    """Unsqueeze a second input aligned to `axis` of the first; now shapes broadcast from their ends."""
    axis = editor.attribute("axis")
    is_broadcast = editor.attribute("broadcast", 0)
    editor.drop("axis", "broadcast")
    if not is_broadcast or axis is None:
        return
    first, second = editor.known_rank(0), editor.known_rank(1)
    missing = first - (axis % max(first, 1)) - second
    if missing > 0:
        axes = tuple(range(second, second + missing))
        editor.set_inputs([editor.input(0), editor.before("Unsqueeze", [editor.input(1)], axes=axes)])


def _slope_to_7(editor: NodeEditor) -> None:
    """Unsqueeze a slope per channel, which was aligned to axis 1; now shapes broadcast from their ends."""
    if editor.rank(1) == 1 and editor.known_rank(0) > 2:
        axes = tuple(range(1, editor.known_rank(0) - 1))
        editor.set_inputs([editor.input(0), editor.before("Unsqueeze", [editor.input(1)], axes=axes)])


def _normalization_to_7(editor: NodeEditor) -> None:
    if not editor.attribute("is_test", 0) and len([v for v in editor.node.outputs if v is not None and v.uses]) > 1:
        raise editor.refuse("it is in training mode, whose outputs have changed")
    editor.drop("is_test")
    editor.keep_first_output()


def _normalization_to_9(editor: NodeEditor) -> None:
    if editor.attribute("spatial", 1) == 0:
        raise editor.refuse("spatial=0 no longer exists")
    editor.drop("spatial")


def _coerced_axis(editor: NodeEditor) -> None:
    """Softmax and its variants flattened to two dimensions at `axis`; now they work along one axis."""
    axis = editor.attribute("axis", 1)
    rank = editor.rank(0)
    if axis == -1 or (rank is not None and axis == rank - 1):
        editor.set("axis", -1)
        return
    source, dims = editor.input(0), editor.dims(0)
    shape = editor.before("Shape", [source])
    flat = editor.before("Flatten", [source], axis=axis)
    editor.set_inputs([flat])
    editor.set("axis", -1)
    if not _may_copy_wrong_size(dims, axis):
        editor.after("Reshape", [shape])
    elif editor.conversion.version >= 14:
        editor.after("Reshape", [shape], allowzero=1)
    else:
        editor.after("Reshape", [shape])
        editor.report.warn(f"{editor.node.op_type} may fail for sizes of 0; opset 14 can express them", editor.node)


def _axis_within_rank(editor: NodeEditor) -> None:
    """The axis may not be the rank any more, as its default is for one dimension."""
    if editor.rank(0) == editor.attribute("axis", 1):
        _coerced_axis(editor)


def _may_copy_wrong_size(dims: Sequence[Dimension] | None, axis: int) -> bool:
    """Return whether a 0 in the new shape, which makes Reshape copy an input size, could copy a wrong size.

    Flattened at `axis`, sizes of 0 are at 0 if one is before the axis, and at 1 if one is behind.
    """
    if dims is None:
        return True
    axis += len(dims) if axis < 0 else 0
    right = {0: axis > 0, 1: axis < 2}
    return any(not right.get(i) and (size == 0 or not isinstance(size, int)) for i, size in enumerate(dims))


def _upsample_to_7(editor: NodeEditor) -> None:
    height, width = editor.attribute("height_scale", 1.0), editor.attribute("width_scale", 1.0)
    editor.drop("height_scale", "width_scale")
    editor.set("scales", (1.0, 1.0, float(height), float(width)))
    if editor.attribute("mode") == "bilinear":
        editor.set("mode", "linear")


def _resize_to_11(editor: NodeEditor) -> None:
    """Version 10 had one coordinate transformation only."""
    scales = editor.input(1)
    editor.set_inputs([editor.input(0), None, scales])
    if editor.constant_or_none(2) is None:
        editor.report.warn("Resize now computes its scales; sizes may round differently", editor.node)
    editor.set("coordinate_transformation_mode", "asymmetric")
    if editor.attribute("mode", "nearest") == "nearest":
        editor.set("nearest_mode", "floor")
    import numpy as np

    inputs = list(editor.node.inputs)
    inputs[1] = editor.make_constant(np.zeros(0, np.float32), "roi")
    editor.set_inputs(inputs)


def _pool_norm_to_2(editor: NodeEditor) -> None:
    power = editor.attribute("p")
    if power is not None:
        if power != int(power):
            raise editor.refuse(f"its exponent {power} is not a whole number, which it must be now")
        editor.set("p", int(power))


def _dft_to_20(editor: NodeEditor) -> None:
    import numpy as np

    axis = editor.attribute("axis", 1)
    editor.drop("axis")
    editor.give(2, np.array(axis, np.int64), "axis")


def _one_hot_to_11(editor: NodeEditor) -> None:
    editor.report.warn(
        "OneHot counts negative indices from the end; before version 11 they selected no class", editor.node
    )


def _group_normalization_to_21(editor: NodeEditor) -> None:
    """Scale and bias had one number per group; now one per channel."""
    import numpy as np

    dims, groups = editor.dims(0), editor.attribute("num_groups", 1)
    channels = dims[1] if dims is not None and len(dims) > 1 else None
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise editor.refuse(f"its {channels} channels are not divided into {groups} groups of one size")
    inputs = list(editor.node.inputs)
    for index, word in ((1, "scale"), (2, "bias")):
        constant = editor.constant_or_none(index) if isinstance(channels, int) else None
        if constant is None:
            inputs[index] = _repeated_by_nodes(editor, index, channels, groups)
        else:
            inputs[index] = editor.make_constant(np.repeat(constant, channels // groups), word)
    editor.set_inputs(inputs)


def _repeated_by_nodes(editor: NodeEditor, index: int, channels: Dimension, groups: int) -> Value:
    """Insert nodes that repeat each number of an input for the channels of its group."""

    def ints(word: str, *numbers: int) -> Value:
        import numpy as np

        return editor.make_constant(np.array(numbers, np.int64), word)

    if isinstance(channels, int):
        shape = ints("repeats", 1, channels // groups)
    else:
        sizes = editor.before("Shape", [editor.input(0)])
        size = editor.before("Slice", [sizes, ints("start", 1), ints("end", 2)])
        each = editor.before("Div", [size, ints("groups", groups)])
        shape = editor.before("Concat", [ints("one", 1), each], axis=0)
    column = editor.before("Reshape", [editor.input(index), ints("column", groups, 1)])
    repeated = editor.before("Expand", [column, shape])
    return editor.before("Reshape", [repeated, ints("flat", -1)])


def _scan_to_9(editor: NodeEditor) -> None:
    """Version 8 worked on batches, which no later one does; a batch of one is squeezed and unsqueezed."""
    if editor.node.inputs[0] is not None:
        raise editor.refuse("it has sequence lengths, which later versions do not support")
    data = range(1, len(editor.node.inputs))
    if any((editor.dims(index) or (0,))[0] != 1 for index in data):
        raise editor.refuse("version 8 works on batches, and no later one does; only a batch of one can be expressed")
    directions = editor.attribute("directions")
    editor.drop("directions")
    if directions is not None:
        editor.set("scan_input_directions", directions)
    editor.set_inputs([editor.before("Squeeze", [editor.input(index)], axes=(0,)) for index in data])
    for index, value in enumerate(editor.node.outputs):
        if value is not None:
            editor.after("Unsqueeze", output=index, axes=(0,))


def _mean_variance_to_13(editor: NodeEditor) -> None:
    """From version 13 on onnx defines it by a function body, which needs explicit axes inside a function."""
    if "axes" not in editor.node.attributes:
        editor.set("axes", (0, 2, 3))


#: Reductions whose axes became an input in version 18; of ReduceSum they did before.
REDUCTIONS = tuple(set(traits.names(lambda t: t.is_reduction)) - {"ArgMax", "ArgMin", "ReduceSum"})
#: Operators with explicit broadcasting before version 7.
BROADCASTING = traits.names(lambda t: t.is_aligned_before_7)

UPWARD: Mapping[tuple[str, int], Adapter] = {
    **{(name, 18): to_inputs("axes") for name in REDUCTIONS},
    **{(name, 7): _broadcast_to_7 for name in BROADCASTING},
    **{(name, 13): to_inputs("axes") for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _coerced_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(name, 11): _axis_within_rank for name in ("Softmax", "LogSoftmax", "Hardmax")},
    ("Concat", 4): _concat_to_4,
    ("Split", 2): _split_1_to_2,
    ("Split", 13): to_inputs("split"),
    ("Split", 18): _split_to_18,
    ("Clip", 11): _clip_to_11,
    ("Pad", 2): _pad_1_to_2,
    ("Pad", 11): _pad_to_11,
    ("Slice", 10): to_inputs("starts", "ends", "axes"),
    ("TopK", 10): _topk_to_10,
    ("Dropout", 7): _dropout_to_7,
    ("Dropout", 10): _dropout_to_10,
    ("Dropout", 12): to_inputs("ratio", kind="float32"),  # the only mode of earlier versions is inference
    ("Reshape", 5): to_inputs("shape"),
    ("Cast", 6): _cast_to_6,
    ("Gemm", 7): without("broadcast"),
    ("PRelu", 7): _slope_to_7,
    ("BatchNormalization", 7): _normalization_to_7,
    ("BatchNormalization", 9): _normalization_to_9,
    ("BatchNormalization", 14): NodeEditor.keep_first_output,
    ("Upsample", 7): _upsample_to_7,
    ("Upsample", 9): to_inputs("scales", kind="float32"),
    ("Upsample", 10): renamed("Resize"),
    ("Resize", 11): _resize_to_11,
    ("Scatter", 11): renamed("ScatterElements"),
    ("LpPool", 2): _pool_norm_to_2,
    ("GlobalLpPool", 2): _pool_norm_to_2,
    ("OneHot", 11): _one_hot_to_11,
    ("RoiAlign", 16): setting("coordinate_transformation_mode", "output_half_pixel"),
    **{(name, 7): without("output_sequence") for name in ("GRU", "LSTM", "RNN")},
    ("DFT", 20): _dft_to_20,
    ("GridSample", 20): respelled("mode", bilinear="linear", bicubic="cubic"),
    ("GroupNormalization", 21): _group_normalization_to_21,
    ("Scan", 9): _scan_to_9,
    ("MeanVarianceNormalization", 13): _mean_variance_to_13,
    ("Tile", 6): _tile_to_6,
    ("GRU", 3): respelled("direction", foward="forward"),
}
