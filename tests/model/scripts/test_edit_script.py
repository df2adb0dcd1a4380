"""Scripts: what was done is done again by name."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.edits import attributes, functions, initializers, interface, nodes, properties, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetInitializer,
    SetInput,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
)
from onnx_workbench.model.scripts import edit_script
from onnx_workbench.model.scripts.object_names import ObjectNames
from onnx_workbench.model.scripts.three_way_merge import adapted
from tests.model import builders
from tests.model.recovery.recorded_work import work
from tests.model.snapshots import assert_linked, snapshot

HEADER = '{"format": "onnx-workbench edit script", "version": 1}\n'


def line(do, **step):
    """One line of a script with one step."""
    return json.dumps({"edit": "x", "steps": [{"do": do, **step}]})


def nested(depth):
    kind = None
    for _ in range(depth):
        kind = {"sequence": kind}
    return kind


def test_a_script_does_the_same_to_the_same_model():
    document, again = builders.document(), builders.document()
    work(document)
    text = edit_script.export(document)
    assert document.undo_title == "Function"
    assert edit_script.replay(again, text) == 5
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)
    assert [e.title for e in again.entries()] == [e.title for e in document.entries()]
    again.go_to(again.root)
    assert snapshot(again.model) == snapshot(builders.model())


def test_a_script_fits_the_next_export_by_names():
    document = builders.document()
    builders.one_edit(document, attributes.set_attribute, builders.node(document, "fourth"), "axis", 0)
    text = edit_script.export(document)
    newer = builders.document(
        builders.CHAIN.replace("[first] a = Mul (x, w)", "[extra] e = Abs (x) [first] a = Mul (e, w)")
    )
    edit_script.replay(newer, text)
    assert builders.node(newer, "fourth").attributes["axis"].value == 0


NEWER = """
<ir_version: 10, opset_import: ["" : 21, "custom" : 3], metadata_props: ["trained": "today", "old": "2"]>
main (float[2] more, float[2] x) => (float[2] side, float[2] y, float[2] last)
{
    [first] y = Relu (x)
    [other] side = Abs (more)
    [third] last = Neg (side)
}
"""
OLDER = """
<ir_version: 10, opset_import: ["" : 21], metadata_props: ["trained": "once", "old": "2", "gone": "3"]>
main (float[2] x, float[2] unused) => (float[2] y, float[2] last)
{
    [first] y = Relu (x)
    [third] last = Neg (x)
}
"""


def test_what_a_newer_export_has_besides_stays():
    """An output, input or metadata that was added there was lost when a script added another."""
    document = builders.document(OLDER)
    graph = document.model.graph
    with document.edit("Interface") as edit:
        added = interface.add_input(edit, graph, "extra", TensorType(ElementType.FLOAT, Shape((2,))))
        interface.add_output(edit, graph, added)
        interface.remove_output(edit, graph, builders.value(document, "last"))
        interface.remove_input(edit, graph, builders.value(document, "unused"))
    with document.edit("Model") as edit:
        properties.set_metadata(edit, document.model, "old", None)
        properties.set_metadata(edit, document.model, "by", "hand")
        properties.set_opset(edit, document.model, "mine", 1)
    newer = builders.document(NEWER)
    assert edit_script.replay(newer, edit_script.export(document)) == 2
    model = newer.model
    assert [v.name for v in model.graph.inputs] == ["more", "x", "extra"]
    assert [v.name for v in model.graph.outputs] == ["side", "y", "extra"]
    assert model.metadata == {"trained": "today", "by": "hand"}
    assert model.opset_imports == {"": 21, "custom": 3, "mine": 1}
    assert_linked(model)


@given(*[st.lists(st.sampled_from("abcdef"), unique=True)] * 3)
def test_lists_are_merged_by_what_the_edit_changed(was, to, now):
    entry = {"do": "set attributes", "function": "f::Gate", "was": was, "to": to}
    document = builders.document(builders.BRANCHES)
    function = document.model.functions[0]
    function.attributes = tuple(now)
    names = ObjectNames(document.model)
    entry["function"] = names.of(function)
    merged = adapted(entry, names)["to"]
    assert set(merged) == (set(now) - (set(was) - set(to))) | (set(to) - set(was))
    assert len(merged) == len(set(merged))
    assert [item for item in merged if item in to] == [item for item in to if item in merged]
    if now == was:
        assert merged == to
    if to == was:
        assert merged == now or set(was) & set(now)


JOINED = """
g (float[2] x) => (float[n] y)
{
    [a] a = Relu (x)
    [c] c = Abs (x)
    [join] y = Concat <axis = 0> (%s)
}
"""


@pytest.mark.parametrize(("taken", "wanted"), [
    ("a, a, x", "a, c, a, x"), ("x, a, a", "x, a, c, a"), ("a", "a, c"), ("", "c"), ("a, a, a", "a, c, a, a"),
])  # fmt: skip
def test_what_a_newer_export_joins_besides_stays(taken, wanted):
    """A Concat had an input more there, which was lost when a script added or took away another."""

    def names(text):
        return [name for name in text.split(", ") if name]

    document, newer = builders.document(JOINED % "a, a"), builders.document(JOINED % "a, c, a")
    with document.edit("Join") as edit:
        inputs = tuple(builders.value(document, name) for name in names(taken))
        edit.do(SetInputs(builders.node(document, "join"), inputs))
    edit_script.replay(newer, edit_script.export(document))
    assert [v.name for v in builders.node(newer, "join").inputs] == names(wanted)
    assert_linked(newer.model)


BODY = """
g (bool f, float[2] x) => (float[2] y)
<float[2] w = {1, 2}>
{
    [choose] y = If (f) <
        then_branch: graph = t () => (float[2] u) { [inner] u = Add (x, w) },
        else_branch: graph = e () => (float[2] v) { v = Neg (w) }
    >
}
"""


def to_constant_node(edit, document):
    initializers.initializer_to_constant(edit, builders.value(document, "w"))


def to_another_value(edit, document):
    graph, x = document.model.graph, builders.value(document, "x")
    edit.do(SetGraphInputs(graph, graph.inputs[:1]))
    edit.do(MoveUses(x, builders.value(document, "w"), tuple(x.uses)))


@pytest.mark.parametrize("change", [to_constant_node, to_another_value])
def test_what_only_bodies_use_is_known_while_it_changes(change):
    """A constant that became a Constant node had no name meanwhile, and its script did not apply."""
    document, again = builders.document(BODY), builders.document(BODY)
    builders.one_edit(document, change, document)
    edit_script.replay(again, edit_script.export(document))
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


def delete_what_a_body_uses(edit, document):
    nodes.delete(edit, [builders.node(document, "before")])


def define_it_anew(edit, document):
    (user,) = builders.graph(document, "t").nodes
    left = user.inputs[0]
    edit.do(SetInput(user, 0, document.model.graph.inputs[1]))
    edit.do(SetField(left, "name", "other"))
    edit.do(SetInput(user, 0, left))


def take_away_and_wire_again(edit, document):
    """Between the steps nothing in the model says what the value was."""
    node, (user,) = builders.node(document, "before"), builders.graph(document, "t").nodes
    (given,) = node.outputs
    edit.do(SetOutputs(node, ()))
    edit.do(SetInput(user, 0, None))
    edit.do(SetField(given, "name", "again"))
    edit.do(SetInput(user, 0, given))
    edit.do(SetOutputs(node, (given,)))


def change_what_is_out_of_the_model(edit, document):
    graph, node = document.model.graph, Node("Relu", (document.model.graph.inputs[1],), (Value("r"),))
    edit.do(SetField(node, "name", "made"))
    edit.do(InsertNode(graph, node))


USED_IN_A_BODY = """
    g (bool f, float[2] x) => (float[2] y)
    {
        [before] c = Abs (x)
        [choose] y = If (f) <
            then_branch: graph = t () => (float[2] u) { [inner] u = Relu (c) },
            else_branch: graph = e () => (float[2] v) { v = Neg (x) }
        >
    }
"""


@pytest.mark.parametrize("changes", [
    [delete_what_a_body_uses, define_it_anew], [take_away_and_wire_again], [change_what_is_out_of_the_model],
])  # fmt: skip
def test_what_leaves_the_model_and_comes_back_is_the_same(changes):
    """What only a body used, with nothing that gives it, had no name: such scripts did not apply."""
    document, again = builders.document(USED_IN_A_BODY), builders.document(USED_IN_A_BODY)
    for change in changes:
        builders.one_edit(document, change, document)
    edit_script.replay(again, edit_script.export(document))
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


def test_an_undefined_value_keeps_one_name_through_undo():
    """It was that of another graph once a node that gave it was taken back."""
    text = USED_IN_A_BODY.replace("v = Neg (x)", "")
    document, again = builders.document(text), builders.document(text)
    body = builders.graph(document, "e")
    builders.do(document, InsertNode(body, Node("Neg", (builders.value(document, "x"),), (body.outputs[0],))))
    edit_script.replay(again, edit_script.export(document))
    assert snapshot(again.model) == snapshot(document.model)


def test_names_that_look_like_others_are_reported_apart():
    documents = [builders.document(USED_IN_A_BODY) for _ in range(2)]
    for document in documents:
        graph, inner = document.model.graph, builders.graph(document, "t")
        inner.nodes.first.outputs[0].name = "u"
        graph.outputs[0].name = "main/choose.then_branch: u"
        first = graph.nodes.first
        for name, output in (("new 1", "new 1"), ("new 1", "new 1"), ("new 1#2", "new 2"), ("", "a: b")):
            InsertNode(graph, Node("Abs", first.inputs, (Value(output),), name=name), first).apply()
    document, again = documents
    for number, node in enumerate([*document.model.graph.nodes, *builders.graph(document, "t").nodes]):
        with document.edit("Change") as edit:
            edit.do(SetField(node, "doc_string", str(number)))
            edit.do(SetField(node.outputs[0], "doc_string", str(number)))
            edit.do(InsertNode(document.model.graph, Node("Relu", node.outputs, (Value(f"r{number}"),))))
    edit_script.replay(again, edit_script.export(document))
    assert snapshot(again.model) == snapshot(document.model)


def test_a_script_is_readable():
    document = builders.document()
    with document.edit("Set axis of fourth") as edit:
        attributes.set_attribute(edit, builders.node(document, "fourth"), "axis", 0)
    line = json.loads(edit_script.export(document).splitlines()[1])
    line["steps"][0].pop("at", None)
    assert line == {
        "edit": "Set axis of fourth",
        "steps": [
            {"do": "set attribute", "node": "fourth", "name": "axis", "to": {"name": "axis", "kind": "INT", "value": 0}}
        ],
    }


def test_a_script_that_does_not_fit_changes_nothing():
    document = builders.document()
    work(document)
    text = edit_script.export(document)
    other = builders.document(builders.CHAIN.replace("[fourth]", "[last]"))
    before = snapshot(other.model)
    with pytest.raises(ModelError, match="Line 3 does not apply: There is no node 'fourth'"):
        edit_script.replay(other, text)
    assert snapshot(other.model) == before
    assert not other.modified


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "nonsense",
        '{"format": "onnx-workbench edit script", "version": 99}',
        HEADER + "[]",
        HEADER + '{"edit": "x", "steps": [{"do": "explode"}]}',
        HEADER + '{"edit": "x", "steps": [{"do": "set attribute"}]}',
        HEADER + line("set attribute", node="fourth", name="a", to={"name": "a", "kind": "INT", "value": "one"}),
        HEADER + line("set attribute", node="fourth", name="a", to={"name": "a", "kind": "INTS", "value": [1 << 65]}),
        HEADER + line("set metadata", model="model", to={"key": 1}),
        HEADER + line("set opset_imports", model="model", to={"": "new"}),
        HEADER + line("set opset_imports", model="model", was=1, to={"": 22}),
        HEADER + line("set metadata", was={}, to={"key": "value"}),
        HEADER + line("set graph outputs", graph="nowhere", was=[], to=[]),
        HEADER + line("set type", value="x", to=nested(900)),
        HEADER + "[" * 100000,
    ],
)  # fmt: skip
def test_damaged_scripts_are_refused_with_the_line(text):
    document = builders.document()
    with pytest.raises(ModelError):
        edit_script.replay(document, text)
    assert not document.modified


def test_bodies_and_functions_are_named_by_their_path():
    document, again = (builders.document(builders.BRANCHES) for _ in range(2))
    for owner in (document,):
        with owner.edit("Deep") as edit:
            nodes.rename_node(edit, builders.node(owner, "inner"), "innermost")
            unnamed = builders.graph(owner, "no").nodes.first
            attributes.set_attribute(edit, unnamed, "note", "text")
            constant = owner.model.functions[0].body.nodes.first
            nodes.rename_node(edit, constant, "factor")
            nodes.duplicate(edit, [builders.node(owner, "choose")])
    text = edit_script.export(document)
    assert "main/choose.then_branch: inner" in text
    assert "function local::scale: => f" in text
    edit_script.replay(again, text)
    assert snapshot(again.model) == snapshot(document.model)


def test_a_value_used_in_a_body_follows_its_new_producer():
    text = """
        g (float[4] x, bool flag) => (float[4] y)
        {
            [double] d = Add (x, x)
            [choose] y = If (flag) <
                then_branch: graph = yes () => (float[4] yes_out) { yes_out = Abs (d) },
                else_branch: graph = no () => (float[4] no_out) { no_out = Neg (x) }
            >
        }
    """
    document = builders.document(text)
    builders.one_edit(document, functions.extract_function, [builders.node(document, "double")], "f")
    builders.one_edit(document, values.rename_value, builders.value(document, "d"), "e")
    again = builders.document(text)
    edit_script.replay(again, edit_script.export(document))
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


@pytest.mark.parametrize("element_type", [e for e in ElementType if e])
def test_tensors_of_every_element_type_are_kept(element_type):
    from onnx_workbench.model.io.tensors.packing import unpack

    for count in (3, 100):
        if element_type is ElementType.STRING:
            array = np.array(["ä", "", "<b>"] * 40, object)[:count]
        else:
            length = (count * element_type.bits + 7) // 8
            array = unpack((bytes(range(1, 64)) * 30)[:length], element_type, count)
        document, again = builders.document(), builders.document()
        builders.do(document, SetInitializer(document.model.graph, Value("t"), ArrayTensor(array, element_type)))
        edit_script.replay(again, edit_script.export(document))
        assert snapshot(again.model) == snapshot(document.model)


EVERY_TYPE = [
    TensorType(ElementType.FLOAT, Shape((1, "N", None), ("", "DATA_BATCH", ""))),
    SparseTensorType(ElementType.INT8),
    SequenceType(OptionalType(TensorType(ElementType.STRING, Shape()))),
    MapType(ElementType.INT64, TensorType(ElementType.DOUBLE)),
    OpaqueType("domain", "name", "denotation"),
    TensorType(77),
]


def test_every_kind_of_content_is_kept():
    document, again = (builders.document(builders.BRANCHES) for _ in range(2))
    node = builders.node(document, "double")
    sparse = SparseTensor(ArrayTensor(np.array([1.5], np.float32)), ArrayTensor(np.array([2])), (4,))
    kinds = [
        make_attribute("f", float("inf")),
        make_attribute("fs", [0.1, float("nan")]),
        make_attribute("s", "\udcff text"),
        make_attribute("ss", ["a", "b"]),
        make_attribute("t", ArrayTensor(np.zeros((2, 2), np.int64))),
        Attribute("st", AttributeKind.SPARSE_TENSOR, sparse),
        Attribute("tps", AttributeKind.TYPE_PROTOS, tuple(EVERY_TYPE)),
        Attribute("empty", AttributeKind.INTS, (), "doc"),
    ]
    with document.edit("All") as edit:
        for attribute in kinds:
            edit.do(SetAttribute(node, attribute.name, attribute))
        for kind in EVERY_TYPE:
            edit.do(SetField(builders.value(document, "d"), "type", kind))
        edit.do(SetInitializer(document.model.graph, Value("sparse"), sparse))
        properties.set_metadata(edit, node, "key", "value")
    edit_script.replay(again, edit_script.export(document))
    assert snapshot(again.model) == snapshot(document.model)


def test_an_export_moves_nothing_in_the_history():
    document = builders.document()
    for number in range(3):
        builders.one_edit(document, properties.set_model_version, number + 1)
    document.undo()
    before, revision, news = snapshot(document.model), document.revision, []
    document.subscribe(news.append)
    text = edit_script.export(document)
    assert text.count('"edit"') == 2
    assert (snapshot(document.model), document.revision, news) == (before, revision, [])
    assert document.redo()
    while document.undo():
        pass
    assert document.model.model_version == 0
