"""onnx's inference as an oracle: over its own cases ours says as much or more, and nothing else."""

from collections import defaultdict
from itertools import zip_longest

import numpy as np
import onnx
import pytest

from onnx_workbench.model.inference import infer
from onnx_workbench.model.inference.onnx_comparison import compare_with_onnx
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.types import TensorType
from tests.exec.test_backend_suite import node_cases
from tests.model import builders

#: Operators of the cases in which ours differs, and the sentence of the specification.
KNOWN = {
    "GroupNormalization": "The output tensor of the same shape as X; onnx says that it has no dimensions in version 18",
    "Scan": "In version 8 all have a batch; onnx says that results have no dimensions where it is a name",
    "Attention": "Sizes divided by heads; onnx says 0 where they are names",
    "Loop": "Values may grow with what is sliced, or be none; onnx takes the types before the first iteration",
    "Constant": "The expansion of LinearAttention divides sizes of Shape, which onnx takes from its input past_state",
}


def made_symbolic(case, *, keeps):
    """The case with names for sizes, equal ones for equal numbers; inputs for which `keeps` holds are constants."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    feeds = case.data_sets[0][0] if case.data_sets else []
    inputs = []
    for index, (value, feed) in enumerate(zip_longest(model.graph.input, feeds)):
        if isinstance(feed, np.ndarray) and feed.dtype.kind in "iubf" and feed.size < 1000 and keeps(index, feed):
            model.graph.initializer.append(onnx.numpy_helper.from_array(feed, value.name))
            continue
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_value > 1:
                dim.dim_param = f"s{dim.dim_value}"
        inputs.append(value)
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def is_list(index, array):
    return index > 0 and array.dtype.kind in "iub" and array.ndim < 2


WAYS = {
    "numbers": lambda case: case.model,
    "lists as constants": lambda case: made_symbolic(case, keeps=is_list),
    "all but the first as constants": lambda case: made_symbolic(case, keeps=lambda index, _: index > 0),
}


def theirs(proto):
    """What onnx says of the values of the main graph, without looking at declarations of results."""
    bare = onnx.ModelProto.FromString(proto.SerializeToString())
    for output in bare.graph.output:
        output.ClearField("type")
    try:
        found = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return {}
    return {info.name: info.type.tensor_type for info in (*found.graph.value_info, *found.graph.output)
            if info.type.WhichOneof("value") == "tensor_type"}  # fmt: skip


def less_or_other(ours, kind):
    """How our type contradicts onnx's, or says less; empty where it does neither."""
    if kind.elem_type and (not isinstance(ours, TensorType) or ours.element_type != kind.elem_type):
        return "element type"
    if not kind.HasField("shape"):
        return ""
    if ours.shape is None or ours.shape.rank != len(kind.shape.dim):
        return "rank"
    for mine, dim in zip(ours.shape.dims, kind.shape.dim, strict=True):
        is_named = dim.dim_param and not dim.dim_param.startswith("unk__")
        if (dim.HasField("dim_value") and mine != dim.dim_value) or (is_named and mine is None):
            return "size"
    return ""


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_ours_is_as_good_over_all_cases(way):
    found = defaultdict(list)
    for name, case in node_cases().items():
        proto = WAYS[way](case)
        report = theirs(proto)
        model = load(proto.SerializeToString())
        inferred = infer(model)
        wrong = [f"{m.node.op_type}: {m.reason}" for m in inferred.misfits if m.is_sure and not m.is_computed]
        if wrong and "expanded" not in name:
            found["misfits"].append((name, wrong))
        for value in model.graph.values():
            if value.name in report and value.producer is not None:
                message = less_or_other(inferred.types.get(value), report[value.name])
                if message and case.model.graph.node[0].op_type not in KNOWN:
                    found[message].append((name, value.name, str(inferred.types.get(value)), report[value.name]))
    assert not found


@pytest.mark.long
def test_what_they_say_differently_is_listed():
    model = builders.model("""
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 1] x, float[3] s) => (float[a, b] y) { t = PRelu (x, s) y = Relu (t) }
    """)
    found = compare_with_onnx(model, infer(model))
    assert [(d.value.name, str(d.ours), str(d.theirs), d.contradicts) for d in found] == [
        ("t", "float[N,3]", "float[N,1]", True),
        ("y", "float[N,3]", "float[N,1]", True),
    ]


def test_nothing_is_listed_where_they_agree(real_models):
    model = load(real_models / "rapidocr-onnxruntime__ch_ppocr_mobile_v2.0_cls_infer" / "model.onnx")
    assert compare_with_onnx(model, infer(model)) == []
