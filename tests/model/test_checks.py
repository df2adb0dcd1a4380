import pkgutil
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest

from onnx_workbench.exec import kernels
from onnx_workbench.exec.kernels.registry import all_kernels
from onnx_workbench.model import schemas
from onnx_workbench.model.checks import Checker, check_model
from onnx_workbench.model.checks.nodes import RUN_BEYOND_STANDARD
from onnx_workbench.model.edits import properties
from onnx_workbench.model.edits.interface import remove_values
from onnx_workbench.model.edits.values import disconnect
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInput,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, MapType, SequenceType, Shape, TensorType
from tests.model import builders
from tests.model.checking import assert_agrees
from tests.model.edits.rich_models import rich_bytes
from tests.model.snapshots import snapshot


def errors(model):
    return [p for p in check_model(model) if p.severity == "error"]


def rules(model):
    return [p.rule for p in errors(model)]


@pytest.mark.long
def test_a_sharding_names_devices_of_its_configuration():
    document = builders.document(FIRST)
    node = builders.node(document, "first")
    SetField(document.model, "configurations", (DeviceConfiguration("c", 2),)).apply()
    for devices, groups, count in (
        ((0, 1), (), 0),
        ((2,), (), 1),
        ((5,), ((5, (0, 1)),), 0),
        ((5,), ((5, (0, 2)),), 1),
    ):
        spec = ShardingSpec(node.inputs[0].name, devices, groups)
        SetField(node, "device_configurations", (NodeDeviceConfiguration("c", (spec,)),)).apply()
        problems = [p.message for p in check_model(document.model) if p.rule == "sharding"]
        assert problems == [f"{node.title} puts {spec.tensor_name} on device 2 of c"] * count


def test_legal_models_raise_no_false_alarm(onnx_models):
    for path in onnx_models:
        assert errors(load(path)) == [], path


@pytest.mark.long
def test_real_models_raise_no_false_alarm(real_models):
    for path in real_models.files():
        found = errors(load(path))
        if path.parent.name == "onnxruntime__mul_1":  # IR 3 with an initializer that is no input, as it says
            assert [p.rule for p in found] == ["initializer-input"]
        else:
            assert found == [], path


@pytest.fixture
def document():
    return builders.document()


def test_order_is_checked_and_can_be_fixed(document):
    graph, node = document.model.graph, builders.node(document, "first")
    with document.edit("Move") as edit:
        edit.do(RemoveNode(node))
        edit.do(InsertNode(graph, node))
    (problem,) = errors(document.model)
    assert problem.rule == "order"
    assert problem.place is builders.node(document, "second")
    with document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    assert errors(document.model) == []


def test_cycles_are_named(document):
    SetInput(builders.node(document, "first"), 1, builders.value(document, "c")).apply()
    (problem,) = errors(document.model)
    assert problem.rule == "cycle"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda d: SetAttribute(builders.node(d, "fourth"), "axis", make_attribute("axis", 1.0)), "attribute-kind"),
        (lambda d: SetAttribute(builders.node(d, "fourth"), "axes", make_attribute("axes", 1)), "attribute-unknown"),
        (lambda d: SetField(builders.node(d, "second"), "op_type", "Relo"), "operator"),
        (lambda d: SetField(builders.node(d, "second"), "op_type", "Upsample"), "operator-deprecated"),
        (lambda d: SetField(builders.node(d, "second"), "domain", "com.microsoft"), "opset-import"),
        (lambda d: SetField(builders.node(d, "second"), "op_type", "Concat"), "attribute-missing"),
        (lambda d: SetField(d.model, "opset_imports", {"": 5}), None),
        (lambda d: SetField(d.model, "opset_imports", {}), "opset-import"),
        (lambda d: SetField(d.model, "ir_version", 0), "ir-version"),
        (lambda d: SetField(d.model.graph, "name", ""), "graph-name"),
        (lambda d: SetField(builders.value(d, "x"), "type", None), "interface-type"),
        (lambda d: SetField(builders.value(d, "r"), "name", "a"), "duplicate-value"),
        (lambda d: SetInput(builders.node(d, "third"), 0, None), "input-missing"),
        (lambda d: SetInputs(builders.node(d, "second"), ()), "arity"),
        (lambda d: SetInput(builders.node(d, "third"), 0, Value("ghost")), "undefined-value"),
    ],
)
def test_each_broken_rule_is_found(document, change, rule):
    change(document).apply()
    found = rules(document.model)
    if rule is None:
        assert found == []
    else:
        assert rule in found


def test_a_gelu_needs_its_opset(document):
    SetField(builders.node(document, "second"), "op_type", "Gelu").apply()
    SetField(document.model, "opset_imports", {"": 19}).apply()
    (problem,) = errors(document.model)
    assert problem.rule == "operator-version"
    assert "since version 20" in problem.detail


@pytest.mark.parametrize(("version", "wanted"), [(14, []), (20, []), (13, ["opset-disagreement"])])
def test_a_function_should_import_what_its_model_imports(version, wanted):
    text = f"""
        <ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        g (float[2] x) => (float[2] y) {{ y = own.Twice (x) }}
        <domain: "own", opset_import: ["" : {version}]>
        Twice (a) => (b) {{ b = Add (a, a) }}
    """
    assert [p.rule for p in check_model(builders.model(text)) if p.severity != "info"] == wanted
    with pytest.raises(onnx.checker.ValidationError) if wanted else nullcontext():
        onnx.checker.check_model(builders.proto(text))


def test_types_that_disagree_are_found():
    model = builders.model("""
        g (float[2] x, int64[2] i) => (float[2] y) { y = Add (x, i) }
    """)
    (problem,) = errors(model)
    assert problem.rule == "type"
    assert "tensor(int64)" in problem.message


def test_bodies_are_checked():
    document = builders.document(builders.BRANCHES)
    body = builders.graph(document, "yes")
    with document.edit("Return twice") as edit:
        from onnx_workbench.model.history.steps import SetGraphOutputs

        edit.do(SetGraphOutputs(body, ()))
    assert "body" in rules(document.model)


def test_problems_of_functions_are_found():
    document = builders.document(builders.BRANCHES)
    function = document.model.functions[0]
    constant = next(iter(function.body.nodes))
    attribute = replace(constant.attributes["value_float"], reference="nonsense")
    SetAttribute(constant, "value_float", attribute).apply()
    assert rules(document.model) == ["attribute-reference"]
    SetField(document.model, "opset_imports", {"": 21}).apply()
    assert "opset-import" in rules(document.model)


def test_outputs_whose_nodes_are_gone_are_removed_but_for_the_last():
    document = builders.document(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] a, float[2] b, float[2] c) { a = Neg(x) b = Exp(x) c = Abs(x) }"""
    )
    model = document.model

    def lose(name):
        builders.do(document, RemoveNode(next(n for n in model.graph.nodes if n.outputs[0].name == name)))

    lose("a")
    lose("b")
    found = [p for p in check_model(model) if p.rule == "undefined-output"]
    assert [p.message for p in found] == ["Output a is not computed", "Output b is not computed"]
    for problem in found:
        with document.edit(problem.fix.title) as edit:
            problem.fix.apply(edit)
    assert [v.name for v in model.graph.outputs] == ["c"]
    assert errors(model) == []
    lose("c")
    assert [p.fix for p in check_model(model) if p.rule == "undefined-output"] == [None]


def test_every_fix_of_a_broken_model_fixes_what_it_says():
    text = """
        <ir_version: 3, opset_import: ["" : 9]>
        g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}, float[2] idle = {1.0, 2.0}>
        { [n] y = Add (x, w) [n] z = Relu (x) }
    """
    document = builders.document(text)
    for _ in range(20):
        fixable = [p for p in check_model(document.model) if p.fix]
        if not fixable:
            break
        before = snapshot(document.model)
        with document.edit(fixable[0].fix.title) as edit:
            fixable[0].fix.apply(edit)
        assert fixable[0] not in check_model(document.model)
        document.undo()
        assert snapshot(document.model) == before
        document.redo()
    assert check_model(document.model) == []
    onnx.checker.check_model(builders.proto(builders.CHAIN))


FIRST = "g (float[2] x) => (float[2] y) { [first] y = Relu (x) }"
CALLS = """
    <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    g (float[2] x) => (float[2] y) { [call] y = l.f <scale = 2> (x) }
    <domain: "l", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
"""


def first(document):
    return document.model.graph.nodes[0]


def only(*changes):
    """Changes of a model of one node or call, each a function of the document that returns a step."""
    return changes


@pytest.mark.parametrize(
    ("text", "changes", "rule", "mended"),
    [
        (FIRST, only(lambda d: SetField(d.model.graph.inputs[0], "name", "")), "value-name", "Name it"),
        (
            FIRST,
            only(lambda d: SetGraphInputs(d.model.graph, d.model.graph.inputs * 2)),
            "duplicate-input",
            "List each input once",
        ),
        (
            "g (float[2] x) => (float[2] y) { [first] y = Softmax <axis = 1.0> (x) }",
            only(),
            "attribute-kind",
            "Make axis of first INT: 1",
        ),
        (
            "g (float[2] x) => (float[2] y) { [first] y = Softmax <axis = 1.5> (x) }",
            only(),
            "attribute-kind",
            None,
        ),
        (
            'g (float[1,1,4] x) => (float[1,1,4] y) { [first] y =MaxPool <kernel_shape = [1], auto_pad = "valid">(x)}',
            only(),
            "attribute-value",
            "Write auto_pad of first as VALID",
        ),
        (FIRST, only(lambda d: SetField(d.model, "ir_version", 0)), "ir-version", "Set the IR version to 4"),
        (
            FIRST,
            only(lambda d: SetOutputs(first(d), (*first(d).outputs, Value("spare")))),
            "arity",
            "Drop unused outputs of first",
        ),
        (
            FIRST,
            only(lambda d: SetField(first(d), "device_configurations", (NodeDeviceConfiguration("gone"),))),
            "device-configuration",
            "Remove gone from first",
        ),
        (
            FIRST,
            only(lambda d: SetField(d.model, "configurations", (DeviceConfiguration("c", 1, ("a", "b")),))),
            "device-configuration",
            "Set num_devices of c to 2",
        ),
        (
            FIRST,
            only(
                lambda d: SetField(d.model, "configurations", (DeviceConfiguration("c", 1),)),
                lambda d: SetField(
                    first(d),
                    "device_configurations",
                    (NodeDeviceConfiguration("c", (ShardingSpec("elsewhere", (0,)),)),),
                ),
            ),
            "sharding",
            "Remove the sharding of elsewhere there",
        ),
        (
            CALLS,
            only(lambda d: SetInputs(first(d), (*first(d).inputs, None))),
            "arity",
            "Drop empty inputs of call",
        ),
        (CALLS, only(), "attribute-unknown", "Remove scale of call"),
        (
            CALLS,
            only(lambda d: SetField(d.model.functions[0], "attributes", ("scale", "scale"))),
            "function-attribute",
            "List each attribute of f once",
        ),
        (
            CALLS,
            only(lambda d: SetField(d.model, "functions", (*d.model.functions, Function("f", "l")))),
            "duplicate-function",
            "Remove the second f, which nothing calls",
        ),
        (
            CALLS,
            only(lambda d: SetInitializer(d.model.functions[0].body, Value("w"), ArrayTensor(np.float32([1])))),
            "initializer",
            "Make them Constant nodes",
        ),
        (CALLS, only(lambda d: SetField(d.model, "ir_version", 7)), "ir-version-contents", "Set the IR version to 8"),
        (
            FIRST,
            only(lambda d: SetField(d.model.graph.inputs[0], "type", TensorType(ElementType.FLOAT))),
            "interface-shape",
            None,
        ),
        (
            FIRST,
            only(lambda d: SetField(first(d).outputs[0], "type", TensorType(ElementType.UNDEFINED, Shape((2,))))),
            "value-type",
            None,
        ),
        (
            FIRST,
            only(
                lambda d: SetField(
                    d.model.graph.inputs[0], "type", MapType(ElementType.FLOAT, TensorType(ElementType.FLOAT))
                )
            ),
            "value-type",
            None,
        ),
        (
            FIRST,
            only(lambda d: SetField(d.model.graph.inputs[0], "type", SequenceType(None))),
            "value-type",
            None,
        ),
        (FIRST, only(lambda d: InsertNode(d.model.graph, Node("Own", (), (), domain="l"))), "arity", None),
    ],
)
def test_what_is_wrong_is_found_at_once_and_fixed_where_that_is_safe(text, changes, rule, mended):
    document = builders.document(text)
    checker = Checker(document)
    checker.run()
    for change in changes:
        builders.do(document, change(document))
    assert_agrees(checker, document)
    found = [p for p in check_model(document.model) if p.rule == rule]
    assert found, check_model(document.model)
    if mended is None:
        assert all(p.fix is None for p in found)
        return
    before = snapshot(document.model)
    fix = found[0].fix
    with document.edit(fix.title) as edit:
        fix.apply(edit)
    assert fix.title == mended
    assert rule not in [p.rule for p in check_model(document.model)]
    assert_agrees(checker, document)
    document.undo()
    assert snapshot(document.model) == before


def test_what_speaks_of_values_that_are_gone_is_reported_and_fixed():
    document = Document(load(rich_bytes()))
    first, before = builders.node(document, "first"), to_bytes(document.model)
    a, b, w = (builders.value(document, name) for name in "abw")
    scale, zero = ("SCALE_TENSOR", b), ("ZERO_POINT_TENSOR", w)
    notes = tuple(QuantizationAnnotation(value, (scale, zero)) for value in (a, w))
    with document.edit("Remove") as edit:
        properties.set_quantization_annotations(edit, document.model.graph, notes)
        disconnect(edit, first, 1)
        remove_values(edit, [w])
    found = [p for p in check_model(document.model) if p.rule in ("sharding", "training-binding", "quantization")]
    assert {p.rule for p in found} == {"sharding", "training-binding", "quantization"}
    with document.edit("Fix all") as edit:
        for problem in found:
            problem.fix.apply(edit)
    assert not [p for p in check_model(document.model) if p.rule in {p.rule for p in found}]
    (training,) = document.model.training_info
    assert (training.initialization_binding, training.update_binding) == ((), ())
    (note,) = document.model.graph.quantization_annotations
    assert (note.value, note.parameters) == (a, (scale,))
    assert not first.device_configurations[0].sharding
    document.undo()
    document.undo()
    assert to_bytes(document.model) == before


def test_fixes_of_one_check_do_not_undo_each_other():
    """As "Fix all" applies them: of several imports that nothing uses only the last went."""
    document = builders.document("""
        <ir_version: 3, opset_import: ["" : 21, "a" : 1, "b" : 1, "c" : 1]>
        g (float[2] x, bfloat16[2] w) => (float[2] y, bfloat16[2] v) <bfloat16[2] w = {1, 2}>
        { [first] s = l.f (x) [second] y = k.f (s) v = Neg (w) }
        <domain: "l", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
        <domain: "k", opset_import: ["" : 21]> f (v) => (o) { o = Abs (v) }
    """)
    gone = tuple(NodeDeviceConfiguration(name) for name in ("here", "there"))
    SetField(builders.node(document, "first"), "device_configurations", gone).apply()
    with document.edit("Fix all") as edit:
        for problem in check_model(document.model):
            if problem.fix is not None:
                problem.fix.apply(edit)
    assert check_model(document.model) == []
    assert document.model.ir_version == 8
    assert document.model.opset_imports.keys() == {"", "l", "k"}


def test_value_info_that_lists_a_value_twice_is_reported_and_fixed():
    text = "g (float[2] x) => (float[2] y) { m = Relu (x) y = Neg (m) }"
    document = builders.document(text)
    graph = document.model.graph
    middle = graph.nodes.first.outputs[0]
    checker = Checker(document)
    builders.do(document, SetField(graph, "declared", (middle, middle)))
    (problem,) = checker.run()
    assert (problem.rule, problem.place) == ("duplicate-declaration", middle)
    assert_agrees(checker, document)
    builders.one_edit(document, problem.fix.apply)
    assert list(graph.declared) == [middle]
    assert not checker.run()
    builders.do(document, SetField(middle, "type", TensorType(ElementType.FLOAT, Shape(("2*n",)))))
    assert [p.message for p in checker.run()] == ["The size 2*n is not named by a C identifier"]
    assert_agrees(checker, document)


def test_names_that_are_no_identifiers_are_reported_in_one_note():
    document = builders.document(FIRST)
    checker = Checker(document)
    assert checker.run() == []
    node = first(document)
    for target, name in ((node, "/a/b"), (node.outputs[0], "y:0"), (document.model.graph.inputs[0], "größe")):
        builders.do(document, SetField(target, "name", name))
    with document.edit("Measure") as edit:
        batch = TensorType(ElementType.FLOAT, Shape(("n + 1", "m")))
        edit.do(SetField(document.model.graph.inputs[0], "type", batch))
    notes = [p.message for p in checker.run()]
    assert notes == ["3 names of g are not C identifiers", "The size n + 1 is not named by a C identifier"]
    assert_agrees(checker, document)
    document.undo()
    document.undo()
    assert [p.message for p in checker.run()] == ["2 names of g are not C identifiers"]
    assert_agrees(checker, document)


def test_a_model_without_a_domain_is_remarked():
    """The specification asks for one, which few exporters write: nothing to warn of."""
    document = builders.document()
    checker = Checker(document)
    assert checker.run() == []
    builders.one_edit(document, properties.set_text, document.model, "domain", "")
    assert [(p.rule, p.severity, p.place) for p in checker.run()] == [("model-domain", "info", document.model)]
    assert_agrees(checker, document)


def test_a_node_named_for_a_cycle_is_on_it():
    graph = Graph("g")
    first, second, after = (Node("Relu", (None,), (Value(n),), name=n) for n in "abc")
    for node in (after, first, second):
        InsertNode(graph, node).apply()
    SetInput(after, 0, second.outputs[0]).apply()
    SetInput(first, 0, second.outputs[0]).apply()
    SetInput(second, 0, first.outputs[0]).apply()
    SetGraphOutputs(graph, (after.outputs[0],)).apply()
    (cycle,) = [p for p in check_model(Model(graph, opset=21)) if p.rule == "cycle"]
    assert cycle.place in (first, second)


def test_functions_that_call_each_other_are_found_in_chains_too():
    header = '<domain: "l", opset_import: ["" : 21, "l" : 1]>'
    main = '<ir_version: 10, opset_import: ["" : 21, "l" : 1]> g (float[2] x) => (float[2] y) { y = l.f0 (x) }'
    chain = "".join(f"{header} f{n} (v) => (o) {{ o = l.f{n + 1} (v) }}\n" for n in range(50))
    ends = f"{header} f50 (v) => (o) {{ o = Abs (v) }}"
    returns = f"{header} f50 (v) => (o) {{ o = l.f48 (v) }}"
    assert errors(builders.model(main + chain + ends)) == []
    assert {p.place.name for p in errors(builders.model(main + chain + returns))} == {f"f{n}" for n in range(51)}


def test_a_single_part_in_a_file_is_complete_for_its_kind(tmp_path):
    add = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    function = onnx.helper.make_function("my.domain", "Twice", ["x"], ["y"], [add], [onnx.helper.make_opsetid("", 18)])
    tensor = onnx.numpy_helper.from_array(np.zeros((2, 3), np.float32))
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([add], "g", ends[:1], ends[1:])
    for name, part in {"function": function, "tensor": tensor, "node": add, "graph": graph}.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(part.SerializeToString())
        model = load(path)
        document = Document(model)
        checker = Checker(document)
        assert check_model(model) == checker.run() == [], name
        with document.edit("Say what the model is for") as edit:
            edit.do(SetField(model, "doc_string", "Doubles."))  # only a whole model has one
        assert checker.run() == check_model(model), name
        assert {p.rule for p in checker.problems} >= {"opset-import"}, name


def test_a_lone_function_must_import_what_its_nodes_need(tmp_path):
    node = onnx.helper.make_node("Other", ["x"], ["y"], domain="elsewhere")
    function = onnx.helper.make_function("my.domain", "Twice", ["x"], ["y"], [node], [onnx.helper.make_opsetid("", 18)])
    (tmp_path / "f.onnx").write_bytes(function.SerializeToString())
    model = load(tmp_path / "f.onnx")
    assert [(p.rule, p.place) for p in check_model(model) if p.severity == "error"] == [
        ("opset-import", model.functions[0].body.nodes.first)
    ]


def test_an_unused_constant_says_what_it_takes_where_that_is_known():
    document = builders.document("""
    g (float[2] x) => (float[2] y)
    <float[2] numbers = {1, 2}, string[2] texts = {"a", "b"}>
    { y = Relu (x) }
    """)
    found = [(p.message, p.detail) for p in check_model(document.model)]
    assert found == [("Initializer numbers is not used", "8 bytes."), ("Initializer texts is not used", "")]


def test_of_two_versions_of_an_operator_set_the_highest_counts():
    """As the specification binds nodes; 18 stood after 21 and was taken."""
    proto = builders.proto(builders.CHAIN)
    highest = proto.opset_import[0].version
    proto.opset_import.add(domain="", version=highest - 3)
    model = load(proto.SerializeToString())
    assert model.opset_imports[""] == highest
    assert to_bytes(model) == proto.SerializeToString()


@pytest.mark.parametrize(("opset", "count"), [(9, 1), (9, 2), (9, 4), (9, 5), (15, 1), (15, 2), (15, 3)])
def test_batch_normalization_gives_all_of_its_statistics_or_none(opset, count):
    """As the onnx package has it, which refuses numbers of outputs in between."""
    names = ["y", "mean", "var", "saved_mean", "saved_var"][:count]
    node = onnx.helper.make_node("BatchNormalization", list("xsbmv"), names, training_mode=1)
    if opset < 14:
        del node.attribute[:]
    tensors = [onnx.helper.make_tensor_value_info(name, 1, [2, 2] if name == "x" else [2]) for name in "xsbmv"]
    outputs = [onnx.helper.make_tensor_value_info("y", 1, [2, 2])]
    graph = onnx.helper.make_graph([node], "g", tensors, outputs)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError:
        assert "arity" in rules(load(proto.SerializeToString()))
    else:
        assert "arity" not in rules(load(proto.SerializeToString()))


def test_a_dead_node_goes_with_the_dead_ones_that_use_it():
    """Alone it left them without their inputs: a remark was mended and an error was there."""
    document = builders.document("""g (float[2] x, bool c) => (float[2] y) {
        a = Abs (x)
        b = If (c) <then_branch = t () => (o) { o = Neg (a) }, else_branch = e () => (p) { p = Exp (x) }>
        d = Neg (b)
        y = Sqrt (x)
    }""")
    before = snapshot(document.model)
    dead = [p for p in check_model(document.model) if p.rule == "dead-node"]
    assert [p.place.op_type for p in dead] == ["Abs", "If", "Neg"]
    for chosen, left in ((dead[1:2], ["Abs", "Sqrt"]), (dead[:1], ["Sqrt"]), (dead, ["Sqrt"])):
        with document.edit("Mend") as edit:
            for problem in chosen:
                problem.fix.apply(edit)
        assert [node.op_type for node in document.model.graph.nodes] == left
        assert not errors(document.model)
        document.undo()
        assert snapshot(document.model) == before


@pytest.mark.parametrize(("op_type", "opset", "rule"), [
    ("SimplifiedLayerNormalization", 17, "operator"), ("LayerNormalization", 12, "operator-version"),
])  # fmt: skip
def test_operators_that_only_one_runtime_has_are_warned_of(op_type, opset, rule):
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,4] x, float[4] s) => (float[2,4] y)'
    (problem,) = check_model(builders.model(f"{text} {{ y = {op_type}(x, s) }}"))
    assert (problem.severity, problem.rule) == ("warning", rule)
    errors = check_model(builders.model(f"{text} {{ y = Gelu(x) z = Foo(s) }}"))
    assert [problem.rule for problem in errors if problem.severity == "error"] == ["operator-version", "operator"]


def test_they_are_those_of_which_there_are_kernels():
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        import_module(module.name)
    lacking = {k.op_type for k in all_kernels() if not k.domain and schemas.find(k.op_type, k.since) is None}
    assert lacking == RUN_BEYOND_STANDARD
