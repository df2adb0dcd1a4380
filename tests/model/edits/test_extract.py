"""Parts as models of their own: complete, runnable, and put together again the model they came from."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.session import Session
from onnx_workbench.model.diff import compare
from onnx_workbench.model.edits import copy_paste, extract, initializers, nodes, split_metadata, split_remainder
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save, to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, TensorType
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


def test_an_output_that_is_computed_before_the_cut_stays_one_of_the_first_part():
    first, second = parts(builders.model(SKIPS), ["d", "early"])
    assert [v.name for v in first.graph.outputs] == ["d", "early"]
    assert [v.name for v in second.graph.outputs] == ["y"]


@pytest.mark.parametrize(("name", "reason"), [("x", "Nothing comes before"), ("y", "Nothing comes after")])
def test_cuts_with_nothing_on_one_side_are_refused(name, reason):
    model = builders.model(SKIPS.replace(", float[2] early) ", ")").replace("[early] early = Exp (a)", ""))
    with pytest.raises(ModelError, match=reason):
        extract.cut_in_two(model.graph, [builders.value(model, name)])


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
    assert compare(model, load(to_bytes(merged(first, second)))).differences == []


def merged(first, second, **options):
    """The second part brought into the first, which is returned; what feeds another part is no output any more."""
    document = Document(first)
    with document.edit("Merge") as edit:
        copy_paste.merge(edit, first.graph, second, keep_outputs=False, **options)
    assert_linked(first)
    return first


def bare(model):
    """A model without what its parts remember, which a test must not need."""
    model.metadata = {key: text for key, text in model.metadata.items() if key != split_metadata.KEY}
    return model


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from("abcde"), min_size=1, max_size=3))
def test_cut_anywhere_and_merged_again_it_is_the_same_model(names):
    """Order of nodes, inputs and outputs, and types that only the cut declared, included."""
    model = builders.model(SKIPS)
    first, second = (load(to_bytes(part)) for part in quick_parts(model, sorted(names)))
    whole = merged(first, second)
    assert compare(model, whole).differences == []
    assert not whole.metadata


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from("abcde"), min_size=2, max_size=2, unique=True), st.booleans())
def test_a_part_cut_again_is_merged_in_either_order(names, inner_first):
    model = builders.model(SKIPS)
    first, second = quick_parts(model, names[:1])
    halves = next((half for half in (first, second) if names[1] in {v.name for v in half.graph.values()}), None)
    try:
        pieces = quick_parts(halves, names[1:])
    except ModelError:  # the other value is at the very border of the part
        return
    others = [half for half in (first, second) if half is not halves]
    ordered = [*pieces, *others] if halves is first else [*others, *pieces]
    if inner_first and halves is second:
        whole = merged(ordered[0], merged(ordered[1], ordered[2]))
    else:
        whole = merged(merged(ordered[0], ordered[1]), ordered[2])
    assert compare(model, whole).differences == []


@settings(max_examples=20, deadline=None)
@given(st.sampled_from("abcde"))
def test_extracted_before_and_after_a_value_it_is_merged_to_the_same_model(name):
    model = builders.model(SKIPS)
    types = infer(model)
    value = builders.value(model, name)
    first, rest = extract.cut_in_two(model.graph, [value])
    ahead = extract.cut_between(model.graph, model.graph.inputs, first.outputs)
    after = extract.cut_between(model.graph, rest.inputs, [v for v in model.graph.outputs if v not in first.outputs])
    whole = merged(*(extract.cut_out(model, cut, types.type_of) for cut in (ahead, after)))
    assert compare(model, whole).differences == []


def test_a_first_part_that_comes_in_stands_where_it_stood():
    """The second part is the one that is open, and its inputs are fed."""
    model = builders.model(SKIPS)
    first, second = parts(model, "c")
    whole = merged(second, first, connections={}, feeding={"c": "c", "a": "a"})
    assert compare(model, whole).differences == []


def test_parts_without_what_they_remember_still_compute_the_same():
    model = builders.model(SKIPS)
    whole = merged(*(bare(part) for part in parts(model, "c")))
    feeds = {"x": np.array([0.5, 2], np.float32), "z": np.array([1, -1], np.float32)}
    ours, theirs = run(model, feeds), run(whole, feeds)
    assert all(np.array_equal(theirs[name], ours[name]) for name in ours)
    assert {d.kind for d in compare(model, whole).differences} == {"moved", "added"}


def test_an_edited_part_is_merged_with_its_edit():
    """What came into a part is in the whole, before all that uses it, whatever the places remembered say."""
    model = builders.model(SKIPS)
    first, second = parts(model, "a")
    document = Document(first)
    with document.edit("Insert") as edit:
        for kind in ("Cos", "Sin", "Abs"):
            nodes.insert_on_edge(edit, first.graph.outputs[0], kind)
    whole = merged(first, second)
    feeds = {"x": np.array([0.5, 2], np.float32), "z": np.array([1, -1], np.float32)}
    assert np.allclose(run(whole, feeds)["early"], np.exp(np.abs(np.sin(np.cos(feeds["x"] * [3, 4])))))


def test_what_nothing_uses_and_initializers_that_are_inputs_come_back():
    model = builders.model("""
        <ir_version: 3, opset_import: ["" : 7, "com.example" : 1]>
        g (float[2] x, float[2] w, float[2] idle, float[2] b) => (float[2] y, float[2] m)
        <float[2] w = {1, 2}, float[2] b = {3, 4}, float[2] spare = {5, 6}>
        { m = Mul (x, w) y = Add (m, b) }
    """)
    pieces = parts(model, "m")
    assert [[v.name for v in part.graph.inputs] for part in pieces] == [["x", "idle", "w"], ["m", "b"]]
    assert compare(model, merged(*(load(to_bytes(part)) for part in pieces))).differences == []


def test_outputs_that_nobody_uses_stay_inside():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[1,1,4,4] x) => (float[1,1,2,2] y)
        { m, where = MaxPool <kernel_shape = [3, 3]> (x) y = Neg (m) }
    """)
    first, second = parts(model, "m")
    assert [v.name for v in first.graph.outputs] == ["m"]
    assert compare(model, merged(first, second)).differences == []


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", '{"nodes": Infinity}', "[" * 100_000, '{"nodes": 1, "inputs": 3}']
)
def test_an_entry_that_cannot_be_understood_is_like_none(text):
    model = builders.model(SKIPS)
    model.metadata = {split_metadata.KEY: text}
    assert split_metadata.origin_of(model) is None


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
        assert compare(model, whole).differences == [], name


IDLE = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[2] x) => (float[2] y) { a = Exp (x) b = Abs (a) y = local.Used (b) }
<domain: "local", opset_import: ["" : 21, "local" : 1]> Idle (p) => (q) { q = local.Inner (p) }
<domain: "local", opset_import: ["" : 21]> Used (p) => (q) { q = Neg (p) }
<domain: "local", opset_import: ["" : 21]> Inner (p) => (q) { q = Relu (p) }
"""


def saved(model):
    return load(to_bytes(model))


def halves(model, name):
    """Both sides of a value, extracted one by one."""
    types, graph = infer(model), model.graph
    value, unused = builders.value(model, name), [v for v in graph.inputs if not v.uses]
    cuts = (
        extract.cut_between(graph, [v for v in graph.inputs if v not in unused], [value]),
        extract.cut_between(graph, [value], graph.outputs),
    )
    return [extract.cut_out(model, cut, types.type_of) for cut in cuts]


@pytest.mark.parametrize("cut", [parts, halves])
def test_functions_that_nothing_calls_are_in_no_part_and_come_back(cut):
    model = builders.model(IDLE)
    first, second = cut(model, "b")
    assert [[f.name for f in part.functions] for part in (first, second)] == [[], ["Used"]]
    whole = merged(saved(first), saved(second))
    assert compare(model, whole).differences == []
    assert [f.name for f in whole.functions] == ["Idle", "Used", "Inner"]
    assert not whole.metadata


@pytest.mark.parametrize("cut", [parts, halves])
def test_training_is_in_no_part_and_comes_back(cut):
    model = builders.document(trained=True).model
    name = next(n.outputs[0].name for n in model.graph.nodes if n.outputs[0] not in model.graph.outputs)
    first, second = (saved(part) for part in cut(model, name))
    assert not first.training_info
    assert not second.training_info
    for part in (first, second):
        onnx.checker.check_model(to_bytes(part), full_check=True)
    whole = merged(first, second)
    assert compare(model, whole).differences == []
    assert compare(model, saved(whole)).differences == []
    training = whole.training_info[0]
    assert training.model is whole
    used = {v for node in training.algorithm.nodes for v in node.inputs}
    assert used.intersection(whole.graph.values())


@pytest.mark.parametrize("cut", [parts, halves])
def test_what_is_too_large_to_be_remembered_is_named(cut, monkeypatch):
    model = builders.model(IDLE)
    remembered = cut(model, "b")
    assert split_metadata.lost_by_split(model, remembered) == []
    monkeypatch.setattr(split_remainder, "_LARGEST", 10)
    first, second = (saved(part) for part in cut(model, "b"))
    assert split_metadata.lost_by_split(model, [first, second]) == ["function Idle", "function Inner"]
    assert [f.name for f in merged(first, second).functions] == ["Used"]
    trained = builders.document(trained=True).model
    name = next(n.outputs[0].name for n in trained.graph.nodes if n.outputs[0] not in trained.graph.outputs)
    assert split_metadata.lost_by_split(trained, cut(trained, name))[0] == "training graphs"


def test_real_models_with_training_and_idle_functions_come_back(real_models):
    for name in ("bert_mini_functions", "onnx__light_squeezenet"):
        proto = onnx.load(real_models / name / "model.onnx")
        weight = next(t.name for t in proto.graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
        training = proto.training_info.add()
        training.algorithm.name = "step"
        training.algorithm.node.add(op_type="Neg", input=[weight], output=["better weight"])
        training.algorithm.output.add(name="better weight")
        training.update_binding.add(key=weight, value="better weight")
        proto.functions.append(
            onnx.helper.make_function("idle", "Idle", ["p"], ["q"], [onnx.helper.make_node("Neg", ["p"], ["q"])], [])
        )
        model = load(proto.SerializeToString())
        middle = list(model.graph.nodes)[len(model.graph.nodes) // 2].outputs[0].name
        whole = saved(merged(*(saved(part) for part in parts(model, [middle]))))
        assert compare(model, whole).differences == [], name
        assert len(whole.training_info) == 1


def test_training_comes_back_after_an_undo_too():
    model = builders.document(trained=True).model
    name = next(n.outputs[0].name for n in model.graph.nodes if n.outputs[0] not in model.graph.outputs)
    first, second = (saved(part) for part in parts(model, name))
    document = Document(first)
    with document.edit("Merge") as edit:
        copy_paste.merge(edit, first.graph, second, keep_outputs=False)
    document.undo()
    assert not first.training_info
    document.redo()
    assert compare(model, first).differences == []


@pytest.mark.parametrize("is_there", [True, False])
def test_what_nothing_uses_may_lie_in_another_file(tmp_path, is_there):
    model = builders.model(SKIPS)
    with Document(model).edit("Add") as edit:
        initializers.add_initializer(edit, model.graph, ArrayTensor(np.arange(900.0)), "idle")
    save(model, tmp_path / "whole.onnx", Storage(DataLayout.ONE_FILE))
    model = load(tmp_path / "whole.onnx")
    if not is_there:
        next(path for path in tmp_path.iterdir() if path.name != "whole.onnx").unlink()
    ahead = [node for node in model.graph.nodes if node.name in "abcd"]
    behind = [node for node in model.graph.nodes if node not in ahead]
    chosen = [extract.cut_selection(nodes) for nodes in (ahead, behind)]
    parts = [extract.cut_out(model, cut, lambda v: v.type or model.graph.outputs[0].type) for cut in chosen]
    (tmp_path / "elsewhere").mkdir()
    paths = [tmp_path / "elsewhere" / name for name in ("first.onnx", "second.onnx")]
    for part, path in zip(parts, paths, strict=True):
        save(part, path)
    whole = merged(*map(load, paths))
    found = {v.name: v.initializer for v in whole.graph.initializers}
    if is_there:
        assert found["idle"].numpy()[899] == 899
    else:
        with pytest.raises(ModelError):
            found["idle"].numpy()


@pytest.mark.parametrize("apart", ["", "no base64", "AAAA", "eJwDAAAAAAE="])
def test_what_is_told_to_be_apart_is_ignored_where_it_cannot_be_read(apart):
    model = builders.model(IDLE)
    first, second = parts(model, "b")
    for part in (first, second):
        told = json.loads(part.metadata[split_metadata.KEY])
        part.metadata = part.metadata | {split_metadata.KEY: json.dumps(told | {"apart": apart})}
    assert [f.name for f in merged(first, second).functions] == ["Used"]


def test_constant_nodes_come_along_like_initializers():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 21]>
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


def test_what_is_declared_without_a_shape_has_the_one_that_is_known_until_it_is_merged_again():
    model = builders.model(SKIPS)
    loose = builders.value(model, "b")
    SetField(loose, "type", TensorType(ElementType.FLOAT, None)).apply()
    first, second = (load(to_bytes(part)) for part in parts(model, "b"))
    assert {str(v.type) for m in (first, second) for v in (*m.graph.inputs, *m.graph.outputs)} == {"float[2]"}
    whole = merged(first, second)
    assert compare(model, whole).differences == []
    assert not whole.metadata


@pytest.mark.parametrize(("outputs", "said"), [(["a", "y"], "a is an input"), (["y", "w"], "w is a constant")])
def test_what_is_not_computed_cannot_come_out(outputs, said):
    model = builders.model()
    inputs = [builders.value(model, "a")]
    with pytest.raises(ModelError, match=said):
        extract.cut_between(model.graph, inputs, [builders.value(model, name) for name in outputs])


SHARED = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x) => (float[2] y)
{
    [k] k = Constant <value = float[2] {3, 4}> ()
    [a] a = Add (x, k) [b] b = Mul (a, k) [y] y = Neg (b)
}
"""


@pytest.mark.parametrize("second_first", [False, True])
def test_a_constant_used_on_both_sides_is_in_both_parts_and_once_in_the_whole(second_first):
    model = builders.model(SHARED)
    first, second = parts(model, "a")
    assert [v.name for v in first.graph.outputs] == [v.name for v in second.graph.inputs] == ["a"]
    assert [n.op_type for n in second.graph.nodes] == ["Constant", "Mul", "Neg"]
    feeds = {"x": np.array([0.5, 2], np.float32)}
    assert np.array_equal(run(second, {"a": run(first, feeds)["a"]})["y"], run(model, feeds)["y"])
    whole = merged(second, first, connections={}, feeding={"a": "a"}) if second_first else merged(first, second)
    assert compare(model, whole).differences == []
    assert_linked(whole)


@pytest.mark.parametrize("last", [1.0, 2.0])
def test_a_large_weight_used_on_both_sides_is_once_in_the_whole_unless_it_was_changed(last):
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
    assert (compare(model, whole).differences == []) == (last == 1.0)


def test_a_constant_at_which_a_model_is_cut_goes_across():
    first, second = parts(builders.model(SHARED), "k")
    assert [n.op_type for n in first.graph.nodes] == ["Constant"]
    assert "k" in [v.name for v in second.graph.inputs]
