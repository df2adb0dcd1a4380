"""Sizes frozen, changed and made free, with all that follows from them; texts and types taken away."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_workbench.model.analysis.name_scopes import scope_paths
from onnx_workbench.model.convert import change_batch, free_dimensions, freeze, strip, symbols
from onnx_workbench.model.edits.properties import set_metadata, set_text
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model import builders
from tests.model.convert.conversions import fed, made, outputs
from tests.model.snapshots import snapshot


def test_names_become_numbers_everywhere():
    document = builders.document()
    assert symbols(document.model) == {"N": 2}
    builders.one_edit(document, freeze, {"N": 3})
    assert {str(v.type) for v in (builders.value(document, "x"), builders.value(document, "y"))} == {"float[3,4]"}
    with pytest.raises(ModelError, match="No dimension is named N"), document.edit("Freeze") as edit:
        freeze(edit, {"N": 1})


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("(float[1,2,3] x) => (float[1,6] y) <int64[2] s = {1,6}>", "y = Reshape(x, s)"),
        ("(float[1,2,3] x, int64[2] s) => (float[1,6] y) <int64[2] s = {1,6}>", "y = Reshape(x, s)"),
        ("(float[1,2,3] x) => (float[1,6] y)", "s = Constant<value_ints=[1,6]>() y = Reshape(x, s)"),
        ("(float[1,2,3] x) => (float[1,6] y) <int64[2] s = {1,-1}>", "y = Reshape(x, s)"),
        ("(float[1,2,3] x) => (float[1,6] y) <int64[2] s = {1,-1}>", "y = Reshape<allowzero=1>(x, s)"),
        ("(float[1,2,3] x) => (float[1,2,3] y) <int64[3] s = {1,0,3}>", "y = Reshape(x, s)"),
        ("(float[1,2,3] x) => (float[1,6] y) <int64[2] s = {1,6}>", "z = Reshape(x, s) u = Reshape(z, s) y = Relu(u)"),
    ],
)
def test_a_batch_is_changed_and_shapes_in_constants_follow(head, body):
    document = made(21, f"g {head} {{ {body} }}", 10)
    report = builders.one_edit(document, change_batch, document.model.graph, 5)
    assert not report.warnings
    assert str(builders.value(document, "x").type) == "float[5,2,3]"
    found = outputs(document.model, {"x": np.zeros((5, 2, 3), np.float32)})["y"]
    assert found.shape == tuple(builders.value(document, "y").type.shape.dims)


HEADS = """
g (float[2,8,12] x) => (float[2,8,12] y)
<int64[4] heads = {2,8,3,4}, int64[3] back = {2,8,12}, int64[2] flat = {16,12}, int64[3] same = {2,8,1}>
"""
FREED = [
    "a = Reshape(x, heads) b = Transpose<perm=[0,2,1,3]>(a) c = Transpose<perm=[0,2,1,3]>(b) y = Reshape(c, back)",
    "a = Reshape(x, flat) b = Relu(a) y = Reshape(b, back)",
    "a = ReduceMean<axes=[2]>(x) b = Expand(a, same) y = Mul(x, b)",
]


@pytest.mark.parametrize("names", [{0: "N"}, {1: "T"}])
@pytest.mark.parametrize("body", FREED)
def test_any_size_becomes_free_and_shapes_follow(body, names):
    document = made(17, f"{HEADS} {{ {body} }}")
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    with document.edit("Free") as edit:
        types = infer(document.model).type_of
        report = free_dimensions(edit, document.model.graph, {("x", axis): n for axis, n in names.items()}, types)
    assert not report.warnings
    y = builders.value(document, "y").type
    assert [d for d in y.shape.dims if isinstance(d, str)] == list(names.values())
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    np.testing.assert_array_equal(outputs(document.model, feeds)["y"], before["y"])
    wider = tuple(5 if axis in names else size for axis, size in enumerate((2, 8, 12)))
    assert outputs(document.model, {"x": np.zeros(wider, np.float32)})["y"].shape == wider


def test_two_sizes_that_one_shape_cannot_leave_open_are_reported():
    document = made(17, f"{HEADS} {{ {FREED[1]} }}")
    with document.edit("Free") as edit:
        types = infer(document.model).type_of
        report = free_dimensions(edit, document.model.graph, {("x", 0): "N", ("x", 1): "T"}, types)
    assert [remark.place.op_type for remark in report.warnings] == ["Reshape"]


@pytest.mark.parametrize("body", ["y = Mul(x, w)", "y = MatMul(x, m)"])
def test_a_free_size_that_a_weight_fixes_is_reported(body):
    weights = "<float[3] w = {1.0,2.0,3.0}, float[3,1] m = {1.0,2.0,3.0}>"
    document = made(17, f"g (float[2,3] x) => (float[2,k] y) {weights} {{ {body} }}")
    report = builders.one_edit(document, free_dimensions, document.model.graph, {("x", 1): "N"})
    assert [remark.text.split(" ", 1)[1] for remark in report.warnings] == ["needs N to be 3"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({("z", 0): "N"}, "There is no input z"),
        ({("x", 3): "N"}, "no axis 3"),
        ({("x", 0): "N", ("x", 1): "N"}, "several sizes"),
        ({}, "No input has a dimension"),
    ],
)
def test_sizes_that_cannot_be_free_are_refused(wanted, reason):
    document = made(17, f"{HEADS} {{ {FREED[0]} }}")
    before = snapshot(document.model)
    with pytest.raises(ModelError, match=reason), document.edit("Free") as edit:
        free_dimensions(edit, document.model.graph, wanted)
    assert snapshot(document.model) == before


def test_texts_and_types_go():
    document = builders.document()
    with document.edit("Texts") as edit:
        for item in (document.model, builders.node(document, "first"), builders.value(document, "x")):
            set_text(edit, item, "doc_string", "text")
            set_metadata(edit, item, "key", "text")
    report = builders.one_edit(document, strip, ["doc", "metadata", "producer", "types"])
    assert dict(report.summary())["description removed"] == 3
    assert dict(report.summary())["metadata removed"] == 3
    assert not builders.node(document, "first").doc_string
    assert builders.value(document, "x").type is not None
    with pytest.raises(ModelError, match="no part 'nodes'"), document.edit("Strip") as edit:
        strip(edit, ["nodes"])


def test_traces_of_python_go_and_scopes_stay():
    document = builders.document()
    traces = {"pkg.torch.onnx.stack_trace": "File", "pkg.torch.onnx.fx_node": "%relu", "mine": "text"}
    scopes = {"namespace": ": M/a: A/relu: aten.relu", "pkg.torch.onnx.name_scopes": "['', 'a', 'relu']"}
    first, second = list(document.model.graph.nodes)[:2]
    with document.edit("Texts") as edit:
        edit.do(SetField(first, "metadata", traces | scopes))
        edit.do(SetField(second, "metadata", {"namespace": scopes["namespace"]}))
    before = scope_paths(document.model.graph)
    report = builders.one_edit(document, strip, ["traces"])
    assert report.summary() == [("trace removed", 1)]
    assert set(first.metadata) == {"mine", "pkg.torch.onnx.name_scopes"}
    assert scope_paths(document.model.graph) == before
    assert before[first] == before[second] == ("a",)


def test_sizes_that_are_both_called_a_question_mark_are_two():
    """Some exporters write it for every size they do not know; the parser of texts takes it for one left open."""
    proto = builders.proto("g (float[a,b] x, float[a] z) => (float[a,b] y) { y = Relu(x) }")
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = "?"
    document = Document(load(proto.SerializeToString()))
    builders.one_edit(document, free_dimensions, document.model.graph, {("x", 0): "batch"})
    shapes = {name: builders.value(document, name).type.shape.dims for name in "xyz"}
    assert shapes == {"x": ("batch", "?"), "y": ("batch", "?"), "z": ("?",)}
    with document.edit("Freeze") as edit, pytest.raises(ModelError, match="No dimension is named"):
        freeze(edit, {"?": 3})


def test_a_size_of_minus_one_is_open():
    proto = builders.proto("g (float[a,2] x) => (float[a,2] y) { y = Relu(x) }")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    document = Document(load(proto.SerializeToString()))
    builders.one_edit(document, change_batch, document.model.graph, "N", infer(document.model).type_of)
    assert [builders.value(document, name).type.shape.dims for name in "xy"] == [("N", 2)] * 2


def test_a_new_batch_is_declared_only_where_it_follows():
    document = builders.document("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[1,4] x) => (float[1,1] s, float[1,4] y, float[1,4] z) <float[1,1] k = {2}> {
            cc = Concat <axis = 1> (x, k) s = ReduceSum (cc) y = Neg (x) z = my.own.Magic (x)
        }""")
    builders.one_edit(document, change_batch, document.model.graph, "N")
    declared = {value.name: value.type.shape.dims for value in document.model.graph.outputs}
    assert declared == {"s": (1, 1), "y": ("N", 4), "z": (None, None)}
