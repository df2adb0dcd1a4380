"""Adapters from newer to older opset versions, where the older one can express the same.

The key is the operator and the version that is left. A version that only allows more needs no adapter: if the new
possibilities are used, the conversion is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_workbench.model.analysis.value_types import dims_of
from onnx_workbench.model.convert.node_editor import NodeEditor, numbers_of
from onnx_workbench.model.convert.upgrade import BROADCASTING, REDUCTIONS, Adapter, cast_mask, respelled, setting
from onnx_workbench.model.history.steps import SetField, SetOutputs
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import Dimension, ElementType, TensorType


def _from_inputs(*names: str) -> Adapter:
    """Turn the constant inputs behind the first one into integer attributes; those behind must be handled before."""

    def adapter(editor: NodeEditor) -> None:
        for index, name in enumerate(names, 1):
            if editor.has(index):
                editor.set(name, tuple(int(i) for i in editor.constant(index).reshape(-1)))
        editor.keep_inputs(1)

    return adapter


def _axes_back(editor: NodeEditor) -> None:
    if editor.attribute("noop_with_empty_axes", 0) and not (editor.has(1) and editor.constant(1).size):
        raise editor.refuse("without axes it is a no-op; earlier versions reduce all axes")
    editor.drop("noop_with_empty_axes")
    if editor.has(1) and not editor.constant(1).size:
        editor.keep_inputs(1)
    _from_inputs("axes")(editor)


def _split_from_18(editor: NodeEditor) -> None:
    """Write out unequal sizes where a number of parts does not divide the axis, which opset 18 introduced."""
    import numpy as np

    count = len(editor.node.outputs)
    editor.drop("num_outputs")
    if editor.has(1):
        return
    axis, dims = editor.attribute("axis", 0), editor.dims(0)
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if not isinstance(size, int):
        editor.report.warn("Split needs a size that its number of parts divides", editor.node)
    elif size % count:
        each = -(-size // count)
        sizes = np.diff([min(each * part, size) for part in range(count + 1)])
        editor.give(1, sizes.astype(np.int64), "split")


def _number(editor: NodeEditor, index: int, name: str) -> None:
    if editor.has(index):
        editor.set(name, float(editor.constant(index).reshape(-1)[0]))


def _clip_from_11(editor: NodeEditor) -> None:
    _number(editor, 1, "min")
    _number(editor, 2, "max")
    editor.keep_inputs(1)


def _pad_from_11(editor: NodeEditor) -> None:
    _number(editor, 2, "value")
    _from_inputs("pads")(editor)


def _no_input(index: int, word: str) -> Adapter:
    def adapter(editor: NodeEditor) -> None:
        if editor.has(index):
            raise editor.refuse(f"it has {word}, which do not exist there")
        editor.keep_inputs(index)

    return adapter


def _slice_from_10(editor: NodeEditor) -> None:
    if editor.has(4) and (editor.constant(4) != 1).any():
        raise editor.refuse("its steps are not all 1")
    _from_inputs("starts", "ends", "axes")(editor)


def _topk_from_10(editor: NodeEditor) -> None:
    editor.set("k", int(editor.constant(1).reshape(-1)[0]))
    editor.keep_inputs(1)


def _dropout_from_12(editor: NodeEditor) -> None:
    if editor.has(2) and bool(editor.constant(2).reshape(-1)[0]):
        raise editor.refuse("it is in training mode")
    editor.drop("seed")
    _number(editor, 1, "ratio")
    editor.keep_inputs(1)


def _single_axis(editor: NodeEditor) -> None:
    """Transpose the axis to the end, where both versions agree."""
    rank = editor.known_rank(0)
    if not rank:
        raise editor.refuse("its input has no axis, which it needed before version 13")
    axis = editor.attribute("axis", -1) % rank
    editor.set("axis", rank - 1)
    if axis != rank - 1:
        order = [i for i in range(rank) if i != axis] + [axis]
        editor.set_inputs([editor.before("Transpose", [editor.input(0)], perm=order)])
        editor.after("Transpose", perm=[order.index(i) for i in range(rank)])


def _resize_from_13(editor: NodeEditor) -> None:
    """Give omitted inputs as empty tensors, which were required before."""
    import numpy as np

    for index, word in ((1, "roi"), (2, "scales")):
        if not editor.has(index):
            editor.give(index, np.zeros(0, np.float32), word)


def _resize_from_11(editor: NodeEditor) -> None:
    mode = editor.attribute("mode", "nearest")
    wanted: dict[str, Any] = {"coordinate_transformation_mode": ("half_pixel", "asymmetric")}
    if mode == "nearest":
        wanted["nearest_mode"] = ("round_prefer_floor", "floor")
    for name, (default, needed) in wanted.items():
        if editor.attribute(name, default) != needed:
            raise editor.refuse(f"its {name} is not {needed}, the only one supported there")
    if mode == "cubic" or not editor.has(2) or editor.has(3):
        raise editor.refuse("only nearest and linear by scales exist there")
    names = (
        "coordinate_transformation_mode",
        "nearest_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "extrapolation_value",
    )
    editor.drop(*names)
    editor.set_inputs([editor.input(0), editor.input(2)])


def _resize_from_10(editor: NodeEditor) -> None:
    """Upsample, the name of Resize before, can only enlarge."""
    scales = editor.constant_or_none(1)
    if scales is None or (scales < 1).any():
        raise editor.refuse("its scales are not known to be at least 1, and there it can only enlarge")
    editor.rename("Upsample")


def _upsample_from_9(editor: NodeEditor) -> None:
    editor.set("scales", tuple(float(scale) for scale in editor.constant(1).reshape(-1)))
    editor.keep_inputs(1)


def _upsample_from_7(editor: NodeEditor) -> None:
    scales = editor.attribute("scales", ())
    if len(scales) != 4 or tuple(scales[:2]) != (1.0, 1.0):
        raise editor.refuse("there it can only enlarge height and width")
    editor.drop("scales")
    editor.set("height_scale", scales[2])
    editor.set("width_scale", scales[3])
    if editor.attribute("mode") == "linear":
        editor.set("mode", "bilinear")


def _scatter_elements_from_11(editor: NodeEditor) -> None:
    """The name before was Scatter, whose indices do not count from the end."""
    indices = editor.constant_or_none(1)
    if indices is None:
        editor.report.warn("Scatter takes no negative indices, which ScatterElements counts from the end", editor.node)
    elif (indices < 0).any():
        raise editor.refuse("its negative indices count from the end, which they do not there")
    editor.rename("Scatter")


def _normalization_from_14(editor: NodeEditor) -> None:
    if editor.attribute("training_mode", 0):
        raise editor.refuse("it is in training mode")
    editor.drop("training_mode")


def _dft_from_20(editor: NodeEditor) -> None:
    axis = int(editor.constant(2).reshape(-1)[0]) if editor.has(2) else -2
    if axis < 0:
        axis += editor.known_rank(0)
    editor.set("axis", axis)
    editor.keep_inputs(2)


def _reshape_from_14(editor: NodeEditor) -> None:
    """Refuse a literal 0 in the shape: before opset 14 a 0 always copied the input's dimension."""
    if editor.attribute("allowzero", 0):
        shape = editor.constant_or_none(1)
        if shape is not None and not shape.all():
            raise editor.refuse("it makes an empty tensor, which it could not before version 14")
        if shape is None:
            editor.report.warn(
                "A Reshape would copy the input's dimension where its shape is computed as 0", editor.node
            )
    editor.drop("allowzero")


def _shape_from_15(editor: NodeEditor) -> None:
    """Express a part of the shape as a slice of the shape."""
    import numpy as np

    start, end = editor.attribute("start", 0), editor.attribute("end")
    editor.drop("start", "end")
    if start == 0 and end is None:
        return
    bounds = (np.array([n], np.int64) for n in (start, np.iinfo(np.int64).max if end is None else end))
    editor.after("Slice", [editor.make_constant(n, word) for n, word in zip(bounds, ("start", "end"), strict=True)])


def _constant_from_12(editor: NodeEditor) -> None:
    """Store the value as a tensor, the only form before opset 12."""
    if "value" in editor.node.attributes or "sparse_value" in editor.node.attributes:
        return
    numbers = numbers_of(editor.node.outputs[0])
    if numbers is None:
        raise editor.refuse("it refers to a function attribute, which needs opset 12")
    editor.drop(*editor.node.attributes)
    editor.set("value", ArrayTensor(numbers))


def _constant_from_9(editor: NodeEditor) -> None:
    """Cast constants of other types from floats, the only types before opset 9, unless they are too large."""
    import numpy as np

    attribute = editor.node.attributes.get("value")
    tensor = None if attribute is None else attribute.value
    if not isinstance(tensor, Tensor) or tensor.element_type in _FLOATS:
        return
    numbers = numbers_of(editor.node.outputs[0])
    if numbers is None or numbers.dtype.kind not in "biu" or np.any(abs(numbers.astype(object)) > _EXACT):
        raise editor.refuse("constants are floating-point there, which cannot represent all of these values")
    editor.set("value", ArrayTensor(numbers.astype(np.float64)))
    editor.after("Cast", to=int(tensor.element_type))


_FLOATS = (ElementType.FLOAT16, ElementType.FLOAT, ElementType.DOUBLE)
_EXACT = 1 << 53  # integers up to here are exact in double precision


def _counted_from_start(editor: NodeEditor) -> None:
    """Make negative axes non-negative, as required before opset 11."""
    for name in ("axis", "axes"):
        value = editor.attribute(name)
        axes = value if isinstance(value, tuple) else () if value is None else (value,)
        if any(axis < 0 for axis in axes):
            # relative to the rank of the output
            added = len(axes) if editor.node.op_type in ("OneHot", "Unsqueeze") else 0
            rank = editor.known_rank(0) + added
            counted = tuple(axis % max(rank, 1) for axis in axes)
            editor.set(name, counted if isinstance(value, tuple) else counted[0])


def _one_hot_from_11(editor: NodeEditor) -> None:
    """Handle negative indices, which count from the end and were not allowed before opset 11."""
    import numpy as np

    _counted_from_start(editor)
    constant = editor.constant_or_none(0)
    if editor.dtype(0).kind == "u" or (constant is not None and (constant >= 0).all()):
        return
    indices, depth = (editor.before("Cast", [editor.input(i)], to=int(ElementType.INT64)) for i in (0, 1))
    depth = editor.before("Reshape", [depth, editor.make_constant(np.zeros(0, np.int64), "scalar")])
    zero = editor.make_constant(np.zeros((), np.int64), "zero")
    counted = editor.before("Add", [indices, depth])
    counted = editor.before("Where", [editor.before("Less", [indices, zero]), counted, indices])
    counted = editor.before("Where", [editor.before("Less", [counted, zero]), depth, counted])  # beyond: no element
    editor.set_inputs([counted, *editor.node.inputs[1:]])
    editor.report.changed("Negative indices were counted from the start, as OneHot takes none there", editor.node)


def _only(name: str, default: str, *known: str, drops: bool = False) -> Adapter:
    """Refuse a value that the older version does not support; drop the attribute if that version has none."""

    def adapter(editor: NodeEditor) -> None:
        chosen = editor.attribute(name, default)
        if chosen not in known:
            listed = ", ".join(known[:-1]) + " or " + known[-1] if known[1:] else known[0]
            raise editor.refuse(f"its {name} is {chosen}; there it can only be {listed}")
        if drops:
            editor.drop(name)

    return adapter


def _per_tensor(editor: NodeEditor) -> None:
    """Require a single scale per tensor, as before opset 13."""
    dims = editor.dims(1)
    if dims is None or any(size != 1 for size in dims):
        raise editor.refuse("its scale is not known to be a single number, which it was before version 13")
    editor.drop("axis")


def _same_shapes(editor: NodeEditor) -> None:
    """Require equal shapes: Sum, Max, Min and Mean did not broadcast before opset 8."""
    shapes = [editor.dims(index) for index in range(len(editor.node.inputs))]
    if len(shapes) > 1 and (None in shapes or len(set(shapes)) > 1 or any(d is None for d in shapes[0] or ())):
        raise editor.refuse("its inputs are not known to have the same shape, which they needed before version 8")


def _broadcast_from_7(editor: NodeEditor) -> None:
    """Broadcast by attributes, as before opset 7: the second shape must be a scalar or a suffix of the first."""
    first, second = editor.dims(0), editor.dims(1)
    if first is None or second is None or None in (*first, *second):
        raise editor.refuse("its shapes are not known, and before version 7 it had to be stated how they are aligned")
    if first == second:
        return
    if len(second) > len(first) or (any(d != 1 for d in second) and second != first[len(first) - len(second) :]):
        raise editor.refuse(f"shapes {list(first)} and {list(second)} did not broadcast before version 7")
    editor.set("broadcast", 1)


def _slope_from_7(editor: NodeEditor) -> None:
    if editor.dims(1) not in ((), (1,)):
        raise editor.refuse("its slope is not a single number; before version 7 other slopes were per channel")


def _power_from_2(editor: NodeEditor) -> None:
    editor.set("p", float(editor.attribute("p", 2)))


def _dropout_from_7(editor: NodeEditor) -> None:
    """Leave training to an attribute, with which the "output is not filled" that is the mask."""
    editor.keep_first_output()
    editor.set("is_test", 1)


def _gru_from_3(editor: NodeEditor) -> None:
    """Name the last state too, which is not optional there."""
    first, last = (*editor.node.outputs, None, None)[:2]
    if last is None:
        last = Value(editor.rewriter.names.value(editor.graph, f"{editor.node.name or 'GRU'}_Y_h"))
        editor.edit.do(SetOutputs(editor.node, (first, last)))


def _cast_from_6(editor: NodeEditor) -> None:
    """Name the type, and declare the output's: no schema before 6 infers it, and ONNX Runtime refuses it without."""
    kind = ElementType(editor.attribute("to", 1))
    editor.set("to", kind.name)
    (output,) = editor.node.outputs
    if output is not None and output.type is None:
        known = editor.conversion.type_of(output)
        shape = known.shape if isinstance(known, TensorType) else None
        editor.edit.do(SetField(output, "type", TensorType(kind, shape)))


_AXES_FROM_START = (
    "ArgMax", "ArgMin", "Concat", "Flatten", "Hardmax", "LogSoftmax", "ReduceSum", "Softmax", "Split",
    "Squeeze", "Unsqueeze", *REDUCTIONS,
)  # fmt: skip


def _equal_branches(editor: NodeEditor) -> None:
    """Require equal shapes from the branches of If, as before opset 11."""
    for first, second in zip(*(body.outputs for body in editor.node.bodies), strict=False):
        dims = [dims_of(value, editor.conversion.type_of) for value in (first, second)]
        if None in dims or dims[0] != dims[1] or None in (dims[0] or ()):
            if _may_be_equal(*dims):
                editor.report.warn("If needs branches that give the same shapes before version 11", editor.node)
            else:
                raise editor.refuse(f"its branches give other shapes ({first.name}, {second.name})")


def _may_be_equal(a: tuple[Dimension, ...] | None, b: tuple[Dimension, ...] | None) -> bool:
    if a is None or b is None:
        return True
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(not (isinstance(x, int) and isinstance(y, int)) or x == y for x, y in pairs)


def _scan_from_9(editor: NodeEditor) -> None:
    raise editor.refuse("before version 9 it scans batches of sequences only")


DOWNWARD: Mapping[tuple[str, int], Adapter] = {
    **{(name, 11): _counted_from_start for name in _AXES_FROM_START},
    **{(name, 8): _same_shapes for name in ("Max", "Mean", "Min", "Sum")},
    **{(name, 7): _broadcast_from_7 for name in BROADCASTING},
    **{(name, 2): _power_from_2 for name in ("GlobalLpPool", "LpPool")},
    **{(name, 7): setting("output_sequence", 1) for name in ("GRU", "LSTM", "RNN")},
    ("BatchNormalization", 7): setting("is_test", 1),
    ("Dropout", 7): _dropout_from_7,
    **{(name, 13): _per_tensor for name in ("DequantizeLinear", "QuantizeLinear")},
    **{(name, 16): _only("reduction", "none", "none", drops=True) for name in ("ScatterElements", "ScatterND")},
    **{(name, 18): _only("reduction", "none", "none", "add", "mul") for name in ("ScatterElements", "ScatterND")},
    **{(name, 18): _axes_back for name in REDUCTIONS},
    **{(name, 13): _axes_back for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _single_axis for name in ("Softmax", "LogSoftmax", "Hardmax")},
    ("GRU", 3): _gru_from_3,
    ("If", 11): _equal_branches,
    ("Split", 18): _split_from_18,
    ("Split", 13): _from_inputs("split"),
    ("Clip", 11): _clip_from_11,
    ("Pad", 18): _no_input(3, "axes"),
    ("OneHot", 11): _one_hot_from_11,
    ("Pad", 11): _pad_from_11,
    ("Slice", 10): _slice_from_10,
    ("TopK", 10): _topk_from_10,
    ("Dropout", 10): lambda editor: cast_mask(editor, ElementType.BOOL),
    ("Dropout", 12): _dropout_from_12,
    ("Pad", 19): _only("mode", "constant", "constant", "reflect", "edge"),
    ("Resize", 19): _only(
        "coordinate_transformation_mode", "half_pixel",
        "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    ),
    ("Resize", 13): _resize_from_13,
    ("Resize", 11): _resize_from_11,
    ("Resize", 10): _resize_from_10,
    ("Upsample", 9): _upsample_from_9,
    ("Upsample", 7): _upsample_from_7,
    ("ScatterElements", 11): _scatter_elements_from_11,
    ("RoiAlign", 16): _only("coordinate_transformation_mode", "half_pixel", "output_half_pixel", drops=True),
    ("Gemm", 7): setting("broadcast", 1),
    ("PRelu", 7): _slope_from_7,
    ("Reshape", 5): _from_inputs("shape"),
    ("Cast", 6): _cast_from_6,
    ("BatchNormalization", 6): setting("consumed_inputs", (0, 0, 0, 1, 1)),  # as was required; nothing does
    ("BatchNormalization", 14): _normalization_from_14,
    ("GridSample", 20): respelled("mode", linear="bilinear", cubic="bicubic"),
    ("DFT", 20): _dft_from_20,
    ("Reshape", 14): _reshape_from_14,
    ("Shape", 15): _shape_from_15,
    ("Constant", 12): _constant_from_12,
    ("Constant", 9): _constant_from_9,
    ("Scan", 9): _scan_from_9,
}  # fmt: skip
