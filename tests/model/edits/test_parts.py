import numpy as np
import onnx
import pytest

from onnx_workbench.exec.kernels.shared.dtypes import cast
from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import copy_paste, extract, functions, initializers, interface, properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.devices import DeviceConfiguration
from onnx_workbench.model.ir.graph import QuantizationAnnotation, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders
from tests.model.checking import legal
from tests.model.snapshots import assert_linked, snapshot

pytestmark = pytest.mark.usefixtures("undo_restores")

# -- constants ------------------------------------------------------------------------------------------------


def test_an_initializer_becomes_a_constant_and_back(chain):
    w = builders.value(chain, "w")
    node = builders.one_edit(chain, initializers.initializer_to_constant, w)
    assert chain.model.graph.nodes.first is node
    assert builders.node(chain, "first").inputs[1] is node.outputs[0]
    assert legal(chain.model)
    value = builders.one_edit(chain, initializers.constant_to_initializer, node)
    assert value.name == "w"
    assert value.initializer.numpy().tolist() == [1, 2, 3, 4]
    assert legal(chain.model)


ML = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 1%s]>
g (float[2,3] x) => (float[2,3] y, float[2,3] z) <float[2,3] w = {1.0,2.0,3.0,4.0,5.0,6.0}>
{ y = ai.onnx.ml.Normalizer(w) z = %s(x) }"""


def test_a_constant_node_imports_the_default_domain():
    document = builders.document(ML % ("", "ai.onnx.ml.Normalizer"))
    builders.one_edit(document, initializers.initializer_to_constant, builders.value(document, "w"))
    assert document.model.opset_imports == {"ai.onnx.ml": 1, "": 13}
    assert legal(document.model)


def test_an_inlined_call_that_returns_its_input_imports_identity():
    function = (
        '<domain: "one.local", opset_import: ["ai.onnx.ml" : 1]> Same (a) => (a) { b = ai.onnx.ml.Normalizer(a) }'
    )
    document = builders.document(ML % (', "one.local" : 1', "one.local.Same") + function)
    builders.one_edit(document, functions.inline_call, builders.value(document, "z").producer)
    assert document.model.opset_imports[""] == 13


def test_a_constant_that_moves_keeps_its_texts_and_annotations(chain):
    graph, w = chain.model.graph, builders.value(chain, "w")
    annotated = builders.value(chain, "a")
    with chain.edit("Describe") as edit:
        properties.set_text(edit, w, "doc_string", "the scale")
        properties.set_metadata(edit, w, "from", "training")
        made = (QuantizationAnnotation(w, ()), QuantizationAnnotation(annotated, (("SCALE_TENSOR", w),)))
        properties.set_quantization_annotations(edit, graph, made)
    with chain.edit("To constant") as edit:
        output = initializers.initializer_to_constant(edit, w).outputs[0]
    for value in (output, None):
        if value is None:
            value = builders.one_edit(chain, initializers.constant_to_initializer, output.producer)
        assert (value.doc_string, value.metadata) == ("the scale", {"from": "training"})
        own, other = graph.quantization_annotations
        assert own.value is value
        assert (other.value, other.parameters) == (annotated, (("SCALE_TENSOR", value),))
    chain.undo()
    chain.undo()
    assert graph.quantization_annotations == made


def test_an_initializer_becomes_an_input(chain):
    w = builders.value(chain, "w")
    builders.one_edit(chain, interface.initializer_to_input, chain.model.graph, w)
    assert w in chain.model.graph.inputs
    assert w.initializer is None
    assert w.type == TensorType(ElementType.FLOAT, Shape((4,)))
    assert legal(chain.model)


def test_replacing_values_keeps_the_declared_type_true(chain):
    w = builders.value(chain, "w")
    builders.one_edit(chain, initializers.set_tensor, w, ArrayTensor(np.ones((1,), np.float32)))
    assert w.initializer.shape == (1,)
    assert w.type is None or w.type.shape.dims == (1,)


def test_conversion_reports_what_is_lost():
    tensor = ArrayTensor(np.array([0.1, 1.0, 1e10, np.nan], np.float32))
    copy, report = initializers.convert(tensor, ElementType.FLOAT16, lambda a, t: a.astype(t.numpy_dtype))
    assert copy.element_type is ElementType.FLOAT16
    assert (report.total, report.changed, report.overflowed) == (4, 2, 1)
    assert 0 < report.largest_error < 1e-3


@pytest.mark.parametrize(
    ("values", "kind", "out"),
    [
        ([0.4, -0.9, 127.9, 128.5, -300.0], ElementType.INT8, 2),
        ([0.4, -1.0, 255.0, 256.0], ElementType.UINT8, 2),
        ([7.4, 7.5, -9.0], ElementType.INT4, 2),
        ([1e-9, 400.0, 1e4], ElementType.FLOAT8E4M3FN, 1),
        ([1e-9, 0.3, 100.0], ElementType.FLOAT4E2M1, 1),
        ([0.5, 300.0], ElementType.BOOL, 0),
    ],
)
def test_only_what_lies_beyond_a_type_is_out_of_its_range(values, kind, out):
    tensor = ArrayTensor(np.array(values, np.float32))
    _, report = initializers.convert(tensor, kind, lambda a, k: cast(a, k.numpy_dtype))
    assert report.overflowed == out


def test_a_used_constant_cannot_just_go(chain):
    with pytest.raises(ModelError, match="w is used"), chain.edit("Remove") as edit:
        initializers.remove_initializer(edit, builders.value(chain, "w"))


# -- functions ------------------------------------------------------------------------------------------------


def test_a_selection_becomes_a_function_and_back(chain):
    before = snapshot(chain.model)
    chosen = [builders.node(chain, "second"), builders.node(chain, "third")]
    call = builders.one_edit(chain, functions.extract_function, chosen, "block")
    assert [v.name for v in call.inputs] == ["a", "b"]
    assert [v.name for v in call.outputs] == ["c"]
    assert legal(chain.model)
    assert_linked(chain.model)
    builders.one_edit(chain, functions.inline_all)
    assert chain.model.functions == ()
    assert [n.op_type for n in chain.model.graph.nodes] == ["Mul", "Relu", "Add", "Softmax"]
    assert legal(chain.model)
    chain.undo()
    chain.undo()
    assert snapshot(chain.model) == before


def test_constants_come_along_into_a_function_and_stay_for_others():
    document = builders.document("""
        g (float[2] x) => (float[2] y) {
            [k] k = Constant <value = float[2] {1, 2}> ()
            [own] own = Constant <value = float[2] {3, 4}> ()
            [a] a = Add (x, k) [b] b = Mul (a, own) [y] y = Sub (b, k)
        }""")
    before = snapshot(document.model)
    call = builders.one_edit(document, functions.extract_function, [builders.node(document, n) for n in "ab"], "block")
    assert [v.name for v in call.inputs] == ["x"]
    body = document.model.functions[0].body
    assert [n.op_type for n in body.nodes] == ["Constant", "Constant", "Add", "Mul"]
    assert [n.name for n in document.model.graph.nodes] == ["k", "block", "y"]
    assert_linked(document.model)
    assert legal(document.model)
    document.undo()
    assert snapshot(document.model) == before


@pytest.mark.parametrize("change", [
    lambda edit: functions.add_function(edit, "new", "fresh"),
    lambda edit: functions.rename_function(edit, functions.add_function(edit, "new"), domain="other"),
    lambda edit: functions.extract_function(edit, list(edit.model.functions[0].body.nodes), "inner", "nested"),
])  # fmt: skip
def test_the_model_imports_the_domain_of_each_function(branches, change):
    builders.one_edit(branches, change)
    assert legal(branches.model)


def test_a_selection_with_a_detour_is_refused(chain):
    chosen = [builders.node(chain, "first"), builders.node(chain, "third")]
    with pytest.raises(ModelError, match="second lies between"), chain.edit("Extract") as edit:
        functions.extract_function(edit, chosen, "block")


def test_inlining_fills_in_attributes(branches):
    constant, mul = builders.one_edit(branches, functions.inline_call, builders.node(branches, "call"))
    assert constant.attributes["value_float"].value == 2.0
    assert not constant.attributes["value_float"].reference
    assert mul.outputs[0] is branches.model.graph.outputs[0]
    assert legal(branches.model)


def test_a_part_of_a_function_still_gets_its_attributes(branches):
    body = branches.model.functions[0].body
    call = builders.one_edit(branches, functions.extract_function, list(body.nodes), "inner")
    assert [(a.name, a.reference) for a in call.attributes.values()] == [("factor", "factor")]
    assert legal(branches.model)
    builders.one_edit(branches, functions.inline_all)
    assert legal(branches.model)
    constant = next(n for n in branches.model.graph.nodes if n.op_type == "Constant")
    assert constant.attributes["value_float"].value == 2.0


def test_a_body_given_to_a_function_is_copied_to_each_place():
    document = builders.document("""
        <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
        g (bool c, float[2] x) => (float[2] y) { y = l.f <b: graph = body () => (float[2] z) { z = Neg (x) }> (c) }
        <domain: "l", opset_import: ["" : 21]>
        f <b> (k) => (o) { o = If <then_branch: graph = @b, else_branch: graph = @b> (k) }
    """)
    (choice,) = builders.one_edit(document, functions.inline_call, document.model.graph.nodes[0])
    first, second = choice.bodies
    assert first is not second
    assert {body.owner for body in choice.bodies} == {choice}
    assert first.nodes[0].inputs == second.nodes[0].inputs == (builders.value(document, "x"),)
    assert first.outputs[0].name != second.outputs[0].name
    assert_linked(document.model)


def test_recursive_functions_are_refused(branches):
    inner = branches.model.functions[0].body.nodes.last
    with branches.edit("Recurse") as edit:
        edit.do(SetField(inner, "op_type", "scale"))
        edit.do(SetField(inner, "domain", "local"))
    with pytest.raises(ModelError, match="calls itself"), branches.edit("Inline") as edit:
        functions.inline_all(edit)


def test_a_called_function_stays(branches):
    with pytest.raises(ModelError, match="scale is in use"), branches.edit("Remove") as edit:
        functions.remove_function(edit, branches.model.functions[0])


def test_functions_that_call_only_each_other_go_together():
    document = builders.document(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]> g (float x) => (float y) { y = Relu (x) }
        <domain: "local", opset_import: ["" : 20, "local" : 1]> inner (a) => (b) { b = Relu (a) }
        <domain: "local", opset_import: ["" : 20, "local" : 1]> outer (a) => (b) { b = local.inner (a) }"""
    )
    inner, outer = document.model.functions
    with pytest.raises(ModelError, match="inner is in use"), document.edit("Remove") as edit:
        functions.remove_functions(edit, [inner])
    builders.one_edit(document, functions.remove_functions, [inner, outer])
    assert document.model.functions == ()
    document.undo()
    assert document.model.functions == (inner, outer)


def test_a_function_that_calls_itself_can_be_removed():
    document = builders.document(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]> g (float x) => (float y) { y = Relu (x) }
        <domain: "local", opset_import: ["" : 20, "local" : 1]> again (a) => (b) { b = local.again (a) }"""
    )
    builders.one_edit(document, functions.remove_function, document.model.functions[0])
    assert document.model.functions == ()
    document.undo()
    assert_linked(document.model)


def test_a_function_is_found_by_what_it_is_called_by_now(branches):
    model = branches.model
    function = model.functions[0]
    old = function.key
    builders.one_edit(branches, functions.rename_function, function, name="other")
    assert (model.function(*old), model.function(old[0], "other")) == (None, function)
    branches.undo()
    assert (model.function(*old), model.function(old[0], "other")) == (function, None)


def test_an_input_that_is_returned_stops_being_both():
    document = builders.document("g (float[2] x, float[2] z) => (float[2] x, float[2] y) { y = Neg (x) }")
    graph = document.model.graph
    x, z = graph.inputs
    builders.one_edit(document, interface.remove_values, [x, z])
    assert (list(graph.inputs), [v.name for v in graph.outputs]) == ([x], ["x", "y"])  # the wire alone
    builders.one_edit(document, interface.remove_values, [x])
    assert (list(graph.inputs), [v.name for v in graph.outputs]) == ([], ["y"])
    document.undo()
    document.undo()
    assert_linked(document.model)


def test_a_changed_signature_changes_its_calls(branches):
    function = branches.model.functions[0]
    extra = Value("extra")
    builders.one_edit(branches, functions.set_signature, function, inputs=(extra, *function.body.inputs))
    call = builders.node(branches, "call")
    assert [v and v.name for v in call.inputs] == [None, "z"]
    assert_linked(branches.model)


@pytest.mark.parametrize("name", ["bert_mini_functions"])
def test_functions_of_a_real_model_inline(real_models, name):
    from onnx_workbench.model.history.document import Document

    document = Document(load(real_models / name / "model.onnx"))
    with document.edit("Inline") as edit:
        assert functions.inline_all(edit) > 0
    assert legal(document.model)
    assert_linked(document.model)
    document.undo()
    assert legal(document.model)


# -- parts ----------------------------------------------------------------------------------------------------


def test_an_extracted_part_stands_alone(chain):
    part = extract.extract(chain.model, [builders.node(chain, "second"), builders.node(chain, "third")])
    assert [v.name for v in part.graph.inputs] == ["a"]
    assert [v.name for v in part.graph.outputs] == ["c"]
    assert [v.name for v in part.graph.initializers] == ["b"]
    assert_linked(part)


def test_everything_between_two_values(chain):
    a, c, r = (builders.value(chain, n) for n in "acr")
    part = extract.cut_out(chain.model, extract.cut_between(chain.model.graph, [a], [c]))
    assert [n.op_type for n in part.graph.nodes] == ["Relu", "Add"]
    with pytest.raises(ModelError, match="Also needed: x"):
        extract.cut_between(chain.model.graph, [r], [a])


def test_merging_resolves_clashes_by_prefix(chain):
    other = builders.model()
    builders.one_edit(chain, copy_paste.merge, chain.model.graph, other, {"x": "y"}, prefix="second/")
    names = [n.name for n in chain.model.graph.nodes]
    assert names[4:] == ["second/first", "second/second", "second/third", "second/fourth"]
    assert builders.node(chain, "second/first").inputs[0].name == "y"
    assert legal(chain.model)


PREPARE = """
    prepare (float[N, 4] raw) => (float[N, 4] ready, float[N, 4] spare) { ready = Neg (raw)  spare = Abs (raw) }
"""


def test_what_comes_in_may_feed_inputs_here(chain):
    graph = chain.model.graph
    with chain.edit("Merge") as edit:
        copy_paste.merge(edit, graph, builders.model(PREPARE), {}, feeding={"x": "ready"}, keep_outputs=False)
    assert [v.name for v in graph.inputs] == ["unused", "raw"]
    assert [v.name for v in graph.outputs] == ["y", "spare"]
    assert builders.node(chain, "first").inputs[0].producer.op_type == "Neg"
    assert legal(chain.model)


def test_outputs_that_feed_the_other_side_stay_when_asked(chain):
    graph, other = chain.model.graph, builders.model(PREPARE)
    builders.one_edit(chain, copy_paste.merge, graph, other, {"raw": "y"}, keep_outputs=False)
    assert [v.name for v in graph.outputs] == ["ready", "spare"]
    chain.undo()
    builders.one_edit(chain, copy_paste.merge, graph, other, {"raw": "y"})
    assert [v.name for v in graph.outputs] == ["y", "ready", "spare"]


def test_a_ring_of_two_models_is_refused(chain):
    other = builders.model(PREPARE)
    with pytest.raises(ModelError, match="cannot feed x") as refused, chain.edit("Merge") as edit:
        copy_paste.merge(edit, chain.model.graph, other, {"raw": "y"}, feeding={"x": "ready"})
    assert "cycle" in refused.value.detail
    for feeding in ({"nowhere": "ready"}, {"x": "nothing"}):
        with pytest.raises(ModelError, match="There is no"), chain.edit("Merge") as edit:
            copy_paste.merge(edit, chain.model.graph, other, {}, feeding=feeding)


def test_operators_of_another_meaning_are_refused(chain):
    other = builders.model("""
        <ir_version: 8, opset_import: ["" : 12]>
        g (float[2, 3] p) => (float[2, 3] q) { q = Softmax (p) }
    """)
    with pytest.raises(ModelError, match="Softmax is different here"), chain.edit("Merge") as edit:
        copy_paste.merge(edit, chain.model.graph, other)


# -- properties -----------------------------------------------------------------------------------------------


def test_documentation_is_removed_but_for_the_models_own(chain):
    model, graph = chain.model, chain.model.graph
    node, value = graph.nodes[0], graph.inputs[0]
    with chain.edit("Describe") as edit:
        for thing in (model, graph, node, value):
            properties.set_text(edit, thing, "doc_string", "exported by /home/me/train.py")
            properties.set_metadata(edit, thing, "trace", "line 3")
    with chain.edit("Remove documentation") as edit:
        assert properties.remove_documentation(edit, model) == 3
    assert [(thing.doc_string, dict(thing.metadata)) for thing in (graph, node, value)] == [("", {})] * 3
    assert (model.doc_string, model.metadata) == ("exported by /home/me/train.py", {"trace": "line 3"})
    chain.undo()
    assert (value.doc_string, node.metadata) == ("exported by /home/me/train.py", {"trace": "line 3"})


def test_properties_of_the_model(chain):
    model = chain.model
    with chain.edit("Properties") as edit:
        properties.set_ir_version(edit, 11)
        properties.set_opset(edit, model, "ai.onnx", 22)
        properties.set_opset(edit, model, "my.own", 3)
        properties.set_opset(edit, model, "my.own", None)
        properties.set_text(edit, model, "producer_name", "me")
        properties.set_metadata(edit, model, "author", "x")
        properties.rename_metadata(edit, model, "author", "writer")
        properties.set_metadata(edit, model.graph, "key", "text")
        properties.set_configurations(edit, (DeviceConfiguration("pair", 2, ("a", "b")),))
    assert model.opset_imports == {"": 22}
    assert model.metadata == {"writer": "x"}
    assert model.configurations[0].devices == ("a", "b")
    for wrong in (
        lambda e: properties.set_ir_version(e, 0),
        lambda e: properties.set_opset(e, model, "", 0),
        lambda e: properties.set_metadata(e, model, "", "x"),
        lambda e: properties.set_configurations(e, (DeviceConfiguration("c", 2, ("a",)),)),
        lambda e: properties.set_model_version(e, 1 << 64),
    ):
        with pytest.raises(ModelError), chain.edit("Wrong") as edit:
            wrong(edit)


def test_bindings_name_what_is_there():
    model = load(_training_model())
    from onnx_workbench.model.history.document import Document

    document = Document(model)
    training = model.training_info[0]
    with pytest.raises(ModelError, match="No output 'nothing'"), document.edit("Bind") as edit:
        properties.set_bindings(edit, training, update={"w": "nothing"})
    builders.one_edit(document, properties.set_bindings, training, update={})
    assert training.update_binding == ()
    document.undo()
    assert training.update_binding == (("w", "w_new"),)


def _training_model():
    proto = builders.proto(builders.CHAIN)
    step = proto.training_info.add()
    step.algorithm.CopyFrom(
        onnx.parser.parse_graph("step (float[4] g) => (float[4] w_new) { w_new = Sub (w, g) }"),
    )
    binding = step.update_binding.add()
    binding.key, binding.value = "w", "w_new"
    return proto.SerializeToString()


def test_a_training_graph_goes_with_its_bindings(chain):
    from onnx_workbench.model.ir.graph import Graph, TrainingInfo

    training = TrainingInfo()
    with chain.edit("Training") as edit:
        properties.add_training(edit, training)
        properties.set_training_graph(edit, training, "algorithm", Graph("step"))
        interface.add_output(edit, training.algorithm, interface.add_input(edit, training.algorithm, "new"))
        properties.set_bindings(edit, training, update={"w": "new"})
    builders.one_edit(chain, properties.set_training_graph, training, "algorithm", None)
    assert (training.algorithm, training.update_binding) == (None, ())
    chain.undo()
    assert training.update_binding == (("w", "new"),)
    assert training.algorithm.model is chain.model


FAR = """
    <ir_version: 10, opset_import: ["" : 21, "far" : 1]>
    other (float[4] p) => (float[4] s) <float[4] w = {1.0, 2.0, 3.0, 9.0}>
    { [n1] d = Mul (p, w)  [n2] s = far.f (d) }
    <domain: "far", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
"""


@pytest.mark.parametrize("where", ["main", "body", "function"])
@pytest.mark.parametrize("how", ["paste", "merge"])
def test_parts_come_whole_into_any_graph(branches, where, how):
    model = branches.model
    graph = {"main": model.graph, "body": builders.graph(branches, "yes"), "function": model.functions[0].body}[where]
    before, other = to_bytes(model), builders.model(FAR)
    with branches.edit("Bring") as edit:
        if how == "paste":
            mul, call = copy_paste.paste(edit, graph, copy_paste.copy(list(other.graph.nodes)))
        else:
            feeding = next(v for v in graph.values() if v.is_defined)
            mul, call = copy_paste.merge(edit, graph, other, {"p": feeding.name})
            assert mul.inputs[0] is feeding
    constant = mul.inputs[1].initializer or constant_tensor(mul.inputs[1].producer)
    assert constant.numpy().tolist() == [1.0, 2.0, 3.0, 9.0]
    assert call.inputs[0] is mul.outputs[0]
    names = [v.name for g in graph.root.walk() for v in g.values()]
    assert len(set(names)) == len(names)
    left_out = {"input-missing"} if how == "paste" else {"body"} if where == "body" else set()  # a branch gives more
    assert {p.rule for p in check_model(model) if p.severity == "error"} == left_out
    assert_linked(model)
    assert to_bytes(load(to_bytes(model))) == to_bytes(model)
    branches.undo()
    assert to_bytes(model) == before


def test_a_call_takes_the_place_of_nodes_given_in_any_order(chain):
    graph = chain.model.graph
    second, third = (builders.node(chain, name) for name in ("second", "third"))
    inputs, outputs = functions.boundary([second, third])
    function = functions.function_of(graph, [second, third], inputs, outputs, ("local", "pair"))
    with chain.edit("Call") as edit:
        edit.do(SetField(chain.model, "functions", (function,)))
        call = functions.call_instead(edit, graph, [third, second], function, inputs, outputs)
    assert [node.title for node in graph.nodes] == ["first", call.title, "fourth"]
    assert_linked(chain.model)
    chain.undo()


def test_inlining_without_end_is_refused_beforehand():
    levels, calls = 9, 10
    lines = ['<domain: "d", opset_import: ["" : 17]> F0 (x) => (y) { y = Neg (x) }']
    for level in range(1, levels):
        body = " ".join(f"v{i + 1} = d.F{level - 1} (v{i})" for i in range(calls))
        lines.append(f'<domain: "d", opset_import: ["" : 17, "d" : 1]> F{level} (v0) => (v{calls}) {{ {body} }}')
    text = f'<ir_version: 8, opset_import: ["" : 17, "d" : 1]> g (float x) => (float y) {{ y = d.F{levels - 1} (x) }}'
    document = builders.document(" ".join([text, *lines]))
    with pytest.raises(ModelError, match="111,111,111 calls make 100,000,000 nodes"), document.edit("Inline") as edit:
        functions.inline_all(edit)
    assert not document.modified
