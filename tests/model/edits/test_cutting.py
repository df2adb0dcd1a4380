"""Parts as models of their own: complete, runnable, and put together again the model they came from."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exec.session import Session
from model.document import Document
from model.edits import cutting, subgraphs
from model.errors import ModelError
from model.io.read import load
from model.io.save import to_bytes
from model.passes.inference import infer
from model.queries.differences import compare
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


def parts(model, names):
    """Both sides of a cut at values, as models with all their types."""
    types = infer(model)
    values = [builders.value(model, name) for name in names]
    return [cutting.cut_out(model, cut, types.type_of) for cut in cutting.cut_in_two(values[0].graph, values)]


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


def test_an_output_that_is_computed_before_the_cut_stays_one_of_the_first_part():
    first, second = parts(builders.model(SKIPS), ["d", "early"])
    assert [v.name for v in first.graph.outputs] == ["d", "early"]
    assert [v.name for v in second.graph.outputs] == ["y"]


@pytest.mark.parametrize(("name", "reason"), [("x", "Nothing comes before"), ("y", "Nothing comes after")])
def test_cuts_with_nothing_on_one_side_are_refused(name, reason):
    model = builders.model(SKIPS.replace(", float[2] early) ", ")").replace("[early] early = Exp (a)", ""))
    with pytest.raises(ModelError, match=reason):
        cutting.cut_in_two(model.graph, [builders.value(model, name)])


def test_what_the_file_says_beside_what_is_computed_comes_back_too():
    proto = onnx.parser.parse_model(SKIPS)
    proto.domain, proto.model_version, proto.graph.doc_string = "org.example", 7, "skips nodes"
    onnx.helper.set_model_props(proto, {"author": "somebody"})
    proto.graph.value_info.extend(onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in "wa")
    proto.graph.value_info[0].metadata_props.add(key="from", value="a training run")
    annotation = proto.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    model = load(proto.SerializeToString())
    first, second = (load(to_bytes(part)) for part in parts(model, "a"))
    document = Document(first)
    with document.edit("Merge") as edit:
        subgraphs.merge(edit, first.graph, second, keep_outputs=False)
    assert_linked(first)
    assert compare(model, load(to_bytes(first))).differences == []


def _stands_before(merged, model):
    """Whether a file has all of the first part, inputs and nodes, before the second: then so has the merged model."""
    return all(
        [thing.name for thing in of(merged)] == [thing.name for thing in of(model)]
        for of in (lambda m: m.graph.nodes, lambda m: m.graph.inputs)
    )


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from("abcde"), min_size=1, max_size=3))
def test_cut_anywhere_and_merged_again_it_is_the_same_model(names):
    model = builders.model(SKIPS)
    values = [builders.value(model, name) for name in sorted(names)]
    first, second = (cutting.cut_out(model, cut) for cut in cutting.cut_in_two(model.graph, values))
    document = Document(first)
    with document.edit("Merge") as edit:
        subgraphs.merge(edit, first.graph, second, keep_outputs=False)
    assert_linked(first)
    told = compare(model, first).differences
    left_over = {f"output {v.name}" for v in first.graph.outputs} - {"output y", "output early"}  # of the cut itself
    moved = [d for d in told if d.aspect not in left_over]
    assert {d.kind for d in moved} <= {"moved"}, told  # the parts cannot know in which order both stood
    if _stands_before(first, model):
        assert moved == []
    feeds = {"x": np.array([0.5, 2], np.float32), "z": np.array([1, -1], np.float32)}
    ours, theirs = (Session(m).run(feeds, values="outputs").outputs for m in (model, first))
    assert all(np.array_equal(theirs[name], ours[name]) for name in ours)


def test_constant_nodes_come_along_like_initializers():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] y)
        { [k] k = Constant <value_float = 2.0> () [a] a = Mul (x, k) [b] b = Add (a, k) [c] y = Mul (b, k) }
    """)
    cut = cutting.cut_selection([builders.node(model, "b"), builders.node(model, "a")])
    assert [n.name for n in cut.nodes] == ["k", "a", "b"]
    assert ([v.name for v in cut.inputs], [v.name for v in cut.outputs]) == (["x"], ["b"])
    assert run(cutting.cut_out(model, cut, infer(model).type_of), {"x": np.ones(2, np.float32)})["b"].tolist() == [4, 4]
    assert [v.name for v in cutting.cut_selection([builders.node(model, "k")]).outputs] == ["k"]


def test_a_part_of_a_body_takes_what_the_body_captures():
    model = builders.model(builders.BRANCHES)
    cut = cutting.cut_selection([builders.node(model, "inner")])
    assert ([v.name for v in cut.inputs], [v.name for v in cut.constants]) == (["d"], ["w"])
    part = cutting.cut_out(model, cut, infer(model).type_of)
    assert run(part, {"d": np.ones(4, np.float32)})["yes_out"].tolist() == [1, 2, 3, 4]


def test_a_part_of_a_function_has_its_defaults_or_is_refused():
    model = builders.model(builders.BRANCHES)
    body = model.functions[0].body
    with pytest.raises(ModelError, match="depends on the caller"):
        cutting.extract(model, list(body.nodes))
    text = builders.BRANCHES.replace("scale <factor> (v)", "scale <factor: float = 5.0> (v)")
    model = builders.model(text)
    part = cutting.cut_out(model, cutting.cut_selection(list(model.functions[0].body.nodes)))
    assert next(iter(part.graph.nodes)).attributes["value_float"].value == 5.0


def test_inputs_and_outputs_have_the_types_that_are_known():
    model = builders.model(SKIPS)
    first, second = parts(model, "b")
    assert {str(v.type) for m in (first, second) for v in (*m.graph.inputs, *m.graph.outputs)} == {"float[2]"}


@pytest.mark.parametrize(("outputs", "said"), [(["a", "y"], "a is an input"), (["y", "w"], "w is a constant")])
def test_what_is_not_computed_cannot_come_out(outputs, said):
    model = builders.model()
    inputs = [builders.value(model, "a")]
    with pytest.raises(ModelError, match=said):
        cutting.cut_between(model.graph, inputs, [builders.value(model, name) for name in outputs])
