"""Parts as models of their own: complete, runnable, and put together again what the model computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.session import Session
from onnx_workbench.model.diff import compare
from onnx_workbench.model.edits import copy_paste, extract, initializers, nodes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, TensorType
from tests.examples import examples
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot

SKIPS = """
<ir_version: 10, opset_import: ["" : 21], producer_name: "exporter", producer_version: "3", doc_string: "skipping">
skips (float[2] x, float[2] z) => (float[2] y, float[2] early)
<float[2] w = {3, 4}>
{
    [a] a = Mul (x, w) [early] early = Exp (a) [b] b = Neg (a) [c] c = Sin (b)
    [d] d = Add (c, a) [e] e = Sub (d, z) [y] y = Mul (e, w)
}
"""

IDLE = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[2] x) => (float[2] y) { a = Exp (x) b = Abs (a) y = local.Used (b) }
<domain: "local", opset_import: ["" : 21, "local" : 1]> Idle (p) => (q) { q = local.Inner (p) }
<domain: "local", opset_import: ["" : 21]> Used (p) => (q) { q = Neg (p) }
<domain: "local", opset_import: ["" : 21]> Inner (p) => (q) { q = Relu (p) }
"""


def parts(model, names):
    """Both sides of a cut at values, as models with all their types."""
    types = infer(model)
    values = [builders.value(model, name) for name in names]
    return [extract.cut_out(model, cut, types.type_of) for cut in extract.cut_in_two(values[0].graph, values)]


def quick_parts(model, names):
    """The same for SKIPS, where all that is inside is of one type."""
    values = [builders.value(model, name) for name in names]
    cuts = extract.cut_in_two(model.graph, values)
    return [extract.cut_out(model, cut, lambda v: v.type or model.graph.outputs[0].type) for cut in cuts]


def run(model, feeds):
    content = to_bytes(model)
    onnx.checker.check_model(content, full_check=True)
    result = Session(load(content)).run(feeds, values="outputs")
    assert not result.failures, result.failures
    return result.outputs


def test_what_crosses_the_cut_beside_the_value_is_passed_on():
    model = builders.model(SKIPS)
    before = snapshot(model)
    first, second = parts(model, "c")
    assert [v.name for v in first.graph.outputs] == ["c", "a"]
    assert [v.name for v in second.graph.inputs] == ["c", "a", "z"]
    assert [v.name for v in second.graph.outputs] == ["y", "early"]
    assert snapshot(model) == before
    feeds = {"x": np.array([0.5, 2], np.float32), "z": np.array([1, -1], np.float32)}
    whole, half = run(model, feeds), run(first, {"x": feeds["x"]})
    rest = run(second, {**half, "z": feeds["z"]})
    assert all(np.array_equal(rest[name], whole[name]) for name in ("y", "early"))


def test_an_output_computed_before_the_cut_stays_in_part_one():
    first, second = parts(builders.model(SKIPS), ["d", "early"])
    assert [v.name for v in first.graph.outputs] == ["d", "early"]
    assert [v.name for v in second.graph.outputs] == ["y"]


@pytest.mark.parametrize(("name", "reason"), [("x", "Nothing comes before"), ("y", "Nothing comes after")])
def test_cuts_with_nothing_on_one_side_are_refused(name, reason):
    model = builders.model(SKIPS.replace(", float[2] early) ", ")").replace("[early] early = Exp (a)", ""))
    with pytest.raises(ModelError, match=reason):
        extract.cut_in_two(model.graph, [builders.value(model, name)])


def test_what_the_file_says_beside_what_is_computed_comes_back_too():
    proto = builders.proto(SKIPS)
    proto.domain, proto.model_version, proto.graph.doc_string = "org.example", 7, "skips nodes"
    onnx.helper.set_model_props(proto, {"author": "somebody"})
    proto.graph.value_info.extend(onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in "wa")
    proto.graph.value_info[0].metadata_props.add(key="from", value="a training run")
    annotation = proto.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    model = load(proto.SerializeToString())
    first, second = (load(to_bytes(part)) for part in parts(model, "a"))
    assert compare(model, load(to_bytes(merged(first, second)))).differences == []


def merged(first, second, **options):
    """The second part merged into the first, which is returned; what feeds another part is no output any more."""
    document = Document(first)
    builders.one_edit(document, copy_paste.merge, first.graph, second, keep_outputs=False, **options)
    assert_linked(first)
    return first


def computed(model):
    """What is computed, whatever the order: nodes by their outputs, with their inputs; the ends; constants."""
    graph = model.graph
    nodes = {tuple(v and v.name for v in n.outputs): (n.op_type, [v and v.name for v in n.inputs]) for n in graph.nodes}
    ends = [sorted(v.name for v in values) for values in (graph.inputs, graph.outputs, graph.initializers)]
    return nodes, ends, {f.name for f in model.functions}


@settings(max_examples=examples(30), deadline=None)
@given(st.sets(st.sampled_from("abcde"), min_size=1, max_size=1))
def test_cut_anywhere_and_merged_again_it_computes_the_same(names):
    model = builders.model(SKIPS)
    first, second = (load(to_bytes(part)) for part in quick_parts(model, sorted(names)))
    whole = merged(first, second)
    assert computed(whole) == computed(model)
    onnx.checker.check_model(to_bytes(whole), full_check=True)


def test_parts_have_no_metadata_but_that_of_the_model():
    model = builders.model(SKIPS)
    model.metadata = {"author": "somebody"}
    assert [dict(part.metadata) for part in parts(model, "c")] == [{"author": "somebody"}] * 2


@pytest.mark.parametrize("text", [SKIPS, IDLE])
def test_what_is_in_no_part_is_named(text):
    model = builders.model(text)
    left = extract.left_out(model, model.graph, parts(model, "b"))
    assert left == (["function Idle", "function Inner"] if text is IDLE else [])


def test_training_graphs_are_in_no_part():
    model = builders.document(trained=True).model
    name = next(n.outputs[0].name for n in model.graph.nodes if n.outputs[0] not in model.graph.outputs)
    pieces = parts(model, name)
    assert not any(part.training_info for part in pieces)
    assert extract.left_out(model, model.graph, pieces)[0] == "training graphs"


def test_the_second_part_may_be_the_one_that_is_open():
    model = builders.model(SKIPS)
    first, second = parts(model, "c")
    whole = merged(second, first, connections={}, feeding={"c": "c", "a": "a"})
    assert computed(whole) == computed(model)


def test_an_edited_part_is_merged_with_its_edit():
    """What came into a part is in the whole, before all that uses it."""
    model = builders.model(SKIPS)
    first, second = parts(model, "a")
    document = Document(first)
    with document.edit("Insert") as edit:
        for kind in ("Cos", "Sin", "Abs"):
            nodes.insert_on_edge(edit, first.graph.outputs[0], kind)
    whole = merged(load(to_bytes(first)), second)
    feeds = {"x": np.array([0.5, 2], np.float32), "z": np.array([1, -1], np.float32)}
    assert np.allclose(run(whole, feeds)["early"], np.exp(np.abs(np.sin(np.cos(feeds["x"] * [3, 4])))))


def test_unused_values_and_initializer_inputs_come_back():
    model = builders.model("""
        <ir_version: 3, opset_import: ["" : 7, "com.example" : 1]>
        g (float[2] x, float[2] w, float[2] idle, float[2] b) => (float[2] y, float[2] m)
        <float[2] w = {1, 2}, float[2] b = {3, 4}, float[2] spare = {5, 6}>
        { m = Mul (x, w) y = Add (m, b) }
    """)
    pieces = parts(model, "m")
    assert [[v.name for v in part.graph.inputs] for part in pieces] == [["x", "idle", "w"], ["m", "b"]]
    nodes, ends, functions = computed(model)
    ends[1].remove("m")  # it feeds the other part
    assert computed(merged(*(load(to_bytes(part)) for part in pieces))) == (nodes, ends, functions)


def test_outputs_that_nobody_uses_stay_inside():
    model = builders.model("""
        g (float[1,1,4,4] x) => (float[1,1,2,2] y)
        { m, where = MaxPool <kernel_shape = [3, 3]> (x) y = Neg (m) }
    """)
    first, second = parts(model, "m")
    assert [v.name for v in first.graph.outputs] == ["m"]
    assert computed(merged(first, second)) == computed(model)


def test_parts_of_other_models_are_merged_as_ever():
    first, _ = parts(builders.model(SKIPS), "c")
    _, other = parts(
        builders.model(SKIPS.replace("float[2] early)", "float[2] e)").replace("[early] early = Exp (a)", "")), "c"
    )
    whole = merged(first, other)
    assert [node.name for node in whole.graph.nodes] == ["a", "b", "c", "d", "e", "y"]


def test_real_models_cut_and_merged_are_the_same(real_models):
    for name in (
        "bert_mini_functions",
        "onnx__light_squeezenet",
        "rapidocr-onnxruntime__ch_ppocr_mobile_v2.0_cls_infer",
    ):
        model = load(real_models / name / "model.onnx")
        middle = list(model.graph.nodes)[len(model.graph.nodes) // 2].outputs[0].name
        whole = merged(*(load(to_bytes(part)) for part in parts(model, [middle])))
        assert computed(whole) == computed(model), name


def test_constant_nodes_come_along_like_initializers():
    model = builders.model("""
        g (float[2] x) => (float[2] y)
        { [k] k = Constant <value_float = 2.0> () [a] a = Mul (x, k) [b] b = Add (a, k) [c] y = Mul (b, k) }
    """)
    cut = extract.cut_selection([builders.node(model, "b"), builders.node(model, "a")])
    assert [n.name for n in cut.nodes] == ["k", "a", "b"]
    assert ([v.name for v in cut.inputs], [v.name for v in cut.outputs]) == (["x"], ["b"])
    assert run(extract.cut_out(model, cut, infer(model).type_of), {"x": np.ones(2, np.float32)})["b"].tolist() == [4, 4]
    assert [v.name for v in extract.cut_selection([builders.node(model, "k")]).outputs] == ["k"]


def test_a_part_of_a_body_takes_what_the_body_captures():
    model = builders.model(builders.BRANCHES)
    cut = extract.cut_selection([builders.node(model, "inner")])
    assert ([v.name for v in cut.inputs], [v.name for v in cut.constants]) == (["d"], ["w"])
    part = extract.cut_out(model, cut, infer(model).type_of)
    assert run(part, {"d": np.ones(4, np.float32)})["yes_out"].tolist() == [1, 2, 3, 4]


def test_a_part_of_a_function_has_its_defaults_or_is_refused():
    model = builders.model(builders.BRANCHES)
    body = model.functions[0].body
    with pytest.raises(ModelError, match="depends on the caller"):
        extract.extract(model, list(body.nodes))
    text = builders.BRANCHES.replace("scale <factor> (v)", "scale <factor: float = 5.0> (v)")
    model = builders.model(text)
    part = extract.cut_out(model, extract.cut_selection(list(model.functions[0].body.nodes)))
    assert next(iter(part.graph.nodes)).attributes["value_float"].value == 5.0


def test_inputs_and_outputs_have_the_types_that_are_known():
    model = builders.model(SKIPS)
    first, second = parts(model, "b")
    assert {str(v.type) for m in (first, second) for v in (*m.graph.inputs, *m.graph.outputs)} == {"float[2]"}


def test_what_is_declared_without_a_shape_has_the_one_that_is_known():
    model = builders.model(SKIPS)
    loose = builders.value(model, "b")
    SetField(loose, "type", TensorType(ElementType.FLOAT, None)).apply()
    first, second = (load(to_bytes(part)) for part in parts(model, "b"))
    assert {str(v.type) for m in (first, second) for v in (*m.graph.inputs, *m.graph.outputs)} == {"float[2]"}
    whole = merged(first, second)
    assert computed(whole) == computed(model)


@pytest.mark.parametrize(("outputs", "said"), [(["a", "y"], "a is an input"), (["y", "w"], "w is a constant")])
def test_what_is_not_computed_cannot_come_out(outputs, said):
    model = builders.model()
    inputs = [builders.value(model, "a")]
    with pytest.raises(ModelError, match=said):
        extract.cut_between(model.graph, inputs, [builders.value(model, name) for name in outputs])


SHARED = """
g (float[2] x) => (float[2] y)
{
    [k] k = Constant <value = float[2] {3, 4}> ()
    [a] a = Add (x, k) [b] b = Mul (a, k) [y] y = Neg (b)
}
"""


@pytest.mark.parametrize("second_first", [False, True])
def test_a_constant_used_on_both_sides_is_one_in_the_whole(second_first):
    model = builders.model(SHARED)
    first, second = parts(model, "a")
    assert [v.name for v in first.graph.outputs] == [v.name for v in second.graph.inputs] == ["a"]
    assert [n.op_type for n in second.graph.nodes] == ["Constant", "Mul", "Neg"]
    feeds = {"x": np.array([0.5, 2], np.float32)}
    assert np.array_equal(run(second, {"a": run(first, feeds)["a"]})["y"], run(model, feeds)["y"])
    whole = merged(second, first, connections={}, feeding={"a": "a"}) if second_first else merged(first, second)
    assert computed(whole) == computed(model)
    assert_linked(whole)


@pytest.mark.parametrize("last", [1.0, 2.0])
def test_a_shared_large_weight_is_one_again_unless_changed(last):
    """Above a million elements it was there twice after merging the files of the parts."""
    model = builders.model(SHARED.replace("float[2] x", "float[N] x").replace("float[2] y", "float[N] y"))
    large = ArrayTensor(np.ones((1 << 20) + 1, np.float32))
    document = Document(model)
    with document.edit("Larger") as edit:
        weight = initializers.constant_to_initializer(edit, builders.node(model, "k"))
        edit.do(SetInitializer(model.graph, weight, large))
    first, second = (load(to_bytes(part, Storage(DataLayout.INLINE))) for part in parts(model, "a"))
    changed = large.numpy().copy()
    changed[-1] = last
    with Document(second).edit("Change") as edit:
        edit.do(SetInitializer(second.graph, builders.value(second, weight.name), ArrayTensor(changed)))
    whole = merged(first, second)
    assert len(whole.graph.initializers) == (1 if last == 1.0 else 2)
    assert (computed(whole) == computed(model)) == (last == 1.0)


def test_a_constant_at_which_a_model_is_cut_goes_across():
    first, second = parts(builders.model(SHARED), "k")
    assert [n.op_type for n in first.graph.nodes] == ["Constant"]
    assert "k" in [v.name for v in second.graph.inputs]
