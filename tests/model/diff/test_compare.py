"""Comparing: nothing for equal models, exactly the edit for edited ones, whatever names and order do."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.diff import compare, compare_constants
from onnx_workbench.model.edits import attributes, functions, initializers, interface, nodes, properties, values
from onnx_workbench.model.edits.apply_difference import apply_differences
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetField, SetGraphOutputs, SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import Cancelled, Progress
from tests.examples import examples
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot

BOTH = (builders.CHAIN, builders.BRANCHES)


def facts(comparison):
    """Differences without the objects."""
    return [
        (d.kind, d.subject, getattr(d.place, "name", ""), d.aspect, d.before, d.after) for d in comparison.differences
    ]


def edited(change, text=builders.CHAIN):
    """What the comparison of a model and its edited copy tells."""
    document = builders.document(text)
    builders.one_edit(document, change, document)
    return facts(compare(builders.model(text), document.model))


def test_training_graphs_use_values_of_the_main_graph():
    def trained():
        model = builders.model()
        weight = Value("weight")
        SetInitializer(model.graph, weight, ArrayTensor(np.ones(3, np.float32))).apply()
        step = Graph("step")
        InsertNode(step, Node("Neg", (weight,), (Value("down"),), name="descend")).apply()
        SetField(model, "training_info", (TrainingInfo(algorithm=step),)).apply()
        return model

    assert facts(compare(trained(), trained())) == []


def test_attribute():
    found = edited(lambda e, d: attributes.set_attribute(e, builders.node(d, "fourth"), "axis", 0))
    assert found == [("changed", "node", "fourth", "attribute axis", "1", "0")]


def test_attribute_that_comes_and_goes():
    assert edited(lambda e, d: attributes.remove_attribute(e, builders.node(d, "fourth"), "axis")) == [
        ("removed", "node", "fourth", "attribute axis", "1", "")
    ]
    assert edited(lambda e, d: attributes.set_attribute(e, builders.node(d, "first"), "a", 0.5)) == [
        ("added", "node", "first", "attribute a", "", "0.5")
    ]


def test_not_a_number_is_equal_to_itself():
    document, other = builders.document(), builders.document()
    for one in (document, other):
        builders.one_edit(one, attributes.set_attribute, builders.node(one, "first"), "a", float("nan"))
    assert not compare(document.model, other.model)


def test_names_of_nodes_and_values():
    assert edited(lambda e, d: nodes.rename_node(e, builders.node(d, "second"), "other")) == [
        ("renamed", "node", "other", "name", "second", "other")
    ]
    assert edited(lambda e, d: values.rename_value(e, builders.value(d, "r"), "other")) == [
        ("renamed", "value", "other", "name", "r", "other")
    ]
    assert edited(lambda e, d: values.rename_value(e, builders.value(d, "w"), "weight")) == [
        ("renamed", "value", "weight", "name", "w", "weight")
    ]


def test_inserted_node_and_the_wire_that_leads_to_it():
    found = edited(lambda e, d: nodes.insert_on_edge(e, builders.value(d, "r"), "Neg"))
    assert [f[:2] for f in found] == [("added", "node"), ("changed", "node")]
    assert found[1][2:5] == ("third", "input 0", "r")


def test_a_wire_from_another_node_of_the_name_is_reported():
    """Both sides read alike, as if nothing differed."""

    def put_between(edit, document):
        nodes.insert_on_edge(edit, builders.value(document, "r"), "Neg")
        made = builders.node(document, "third").inputs[0]
        values.rename_value(edit, builders.value(document, "r"), "before")
        values.rename_value(edit, made, "r")

    assert ("changed", "node", "third", "input 0", "r from Relu second", "r from Neg Neg") in edited(put_between)


def test_an_output_that_another_node_gives_is_changed():
    found = edited(lambda e, d: nodes.insert_on_edge(e, builders.value(d, "y"), "Neg"))
    assert ("changed", "graph", "chain", "output y", "from Softmax fourth", "from Neg Neg") in found
    assert ("added", "node", "Neg", "", "", "") in found
    assert {kind for kind, subject, *_ in found if subject == "value"} == {"renamed"}
    assert len(found) == 3


def test_deleted_node():
    assert edited(lambda e, d: nodes.delete(e, [builders.node(d, "second")])) == [
        ("removed", "node", "second", "", "", "")
    ]


def test_bridged_node():
    found = edited(lambda e, d: nodes.delete_and_bridge(e, [builders.node(d, "second")]))
    assert found == [("removed", "node", "second", "", "", ""), ("changed", "node", "third", "input 0", "r", "a")]


def test_another_operator():
    found = edited(lambda e, d: nodes.change_operator(e, builders.node(d, "second"), "Neg"))
    assert found == [("changed", "node", "second", "operator", "Relu", "Neg")]


def test_another_operator_without_names():
    first, second = (
        builders.model(f"g (float[N] x) => (float[N] y) {{ {body} }}")
        for body in ("a = Exp(x) b = Relu(a) y = Neg(b)", "k = Exp(x) m = Tanh(k) y = Neg(m)")
    )
    assert [f for f in facts(compare(first, second)) if f[0] != "renamed"] == [
        ("changed", "node", "", "operator", "Relu", "Tanh")
    ]


def test_types_metadata_opsets_and_the_interface():
    def change(edit, document):
        properties.set_opset(edit, edit.model, "", 22)
        properties.set_metadata(edit, edit.model, "author", "me")
        values.set_type(edit, builders.value(document, "x"), TensorType(ElementType.FLOAT, Shape((1, 4))))
        interface.remove_input(edit, document.model.graph, builders.value(document, "unused"))
        interface.add_output(edit, document.model.graph, builders.value(document, "r"))

    assert set(edited(change)) == {
        ("changed", "model", "", "opset ai.onnx", "21", "22"),
        ("added", "model", "", "metadata author", "", "me"),
        ("changed", "value", "x", "type", "float[N,4]", "float[1,4]"),
        ("removed", "graph", "chain", "input unused", "float[4]", ""),
        ("added", "graph", "chain", "output r", "", ""),
    }


def test_bodies_and_functions():
    def change(edit, document):
        attributes.set_attribute(edit, builders.node(document, "inner"), "extra", 1)
        body = document.model.functions[0].body
        nodes.change_operator(edit, body.nodes[1], "Div")

    assert edited(change, builders.BRANCHES) == [
        ("added", "node", "inner", "attribute extra", "", "1"),
        ("changed", "node", "", "operator", "Mul", "Div"),
    ] or set(edited(change, builders.BRANCHES)) == {
        ("added", "node", "inner", "attribute extra", "", "1"),
        ("changed", "node", "", "operator", "Mul", "Div"),
    }


def test_functions_that_come_and_go():
    document = builders.document(builders.BRANCHES)
    builders.do(document, SetField(document.model, "functions", ()))
    assert facts(compare(builders.model(builders.BRANCHES), document.model)) == [
        ("removed", "function", "scale", "", "", "")
    ]


def test_a_renamed_function_reports_no_change_of_its_calls():
    document = builders.document(builders.BRANCHES)
    with document.edit("Rename") as edit:
        functions.rename_function(edit, document.model.functions[0], name="stretch", domain="mine")
        nodes.rename_node(edit, builders.node(document, "call"), "other")
    comparison = compare(builders.model(builders.BRANCHES), document.model)
    assert ("renamed", "function", "stretch", "name", "local::scale", "mine::stretch") in facts(comparison)
    rest = [f for f in facts(comparison) if f[1] != "function"]
    assert rest == [
        ("added", "model", "", "opset mine", "", "1"),
        ("renamed", "node", "other", "name", "call", "other"),
    ]
    (renamed,) = (d for d in comparison.differences if d.subject == "function")
    with document.edit("Take over") as edit:
        assert not apply_differences(edit, comparison, [renamed], "new")
    assert builders.node(document, "other").op_type == "scale"
    assert builders.node(document, "other").domain == "local"


FUNCTIONS = """
<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
g (float[4] x) => (float[4] y) { a = f.%(first)s (x) y = f.%(second)s (a) }
<domain: "f", opset_import: ["" : 21]> %(first)s (v) => (o) { a = Exp (v) b = Neg (a) c = Sin (b) o = %(extra)s (c) }
<domain: "f", opset_import: ["" : 21, "f": 1]> %(second)s (v) => (o) { a = Abs (v) b = f.%(first)s (a) o = Log (b) }
"""


def test_functions_that_differ_in_name_and_content_are_apart():
    old = builders.model(FUNCTIONS % {"first": "one", "second": "two", "extra": "Cos"})
    new = builders.model(FUNCTIONS % {"first": "alpha", "second": "beta", "extra": "Tan"})
    assert sorted(facts(compare(old, new))) == [
        ("changed", "node", "", "operator", "Cos", "Tan"),
        ("renamed", "function", "alpha", "name", "f::one", "f::alpha"),
        ("renamed", "function", "beta", "name", "f::two", "f::beta"),
    ]


def test_order_of_nodes_is_reported_for_the_fewest():
    text = "g (float[N] x) => (float[N] a, float[N] b, float[N] c) { %s }"
    ordered = builders.model(text % "[n1] a = Exp(x) [n2] b = Relu(x) [n3] c = Neg(x)")
    other = builders.model(text % "[n3] c = Neg(x) [n1] a = Exp(x) [n2] b = Relu(x)")
    assert facts(compare(ordered, other)) == [("moved", "node", "n3", "place", "2", "0")]


def test_a_constant_that_changes():
    document = builders.document()
    with document.edit("Set") as edit:
        tensor = ArrayTensor(np.array([1.0, 2.0, 3.0, 6.0], np.float32))
        edit.do(SetInitializer(document.model.graph, builders.value(document, "w"), tensor))
    (difference,) = compare(builders.model(), document.model).differences
    assert (difference.kind, difference.aspect) == ("changed", "values")
    numbers = difference.numbers
    assert (numbers.unequal, numbers.size, numbers.max_abs, numbers.mean_abs) == (1, 4, 2.0, 0.5)
    a, b = np.array([1, 2, 3, 4.0]), np.array([1, 2, 3, 6.0])
    assert numbers.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert not compare(builders.model(), document.model, weights=False)


def test_a_constant_of_another_shape_or_type():
    a = ArrayTensor(np.zeros((2, 3), np.float32))
    assert "float 3×2 instead of float 2×3" in compare_constants(a, ArrayTensor(np.zeros((3, 2), np.float32))).problem
    assert "double" in compare_constants(a, ArrayTensor(np.zeros((2, 3)))).problem


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint64", "bool", "complex64", "complex128"]
)
def test_constants_of_every_width(dtype):
    a = np.zeros(5, dtype)
    b = a.copy()
    b[3] = 1
    assert compare_constants(ArrayTensor(a), ArrayTensor(a.copy())) is None
    assert compare_constants(ArrayTensor(a), ArrayTensor(b)).unequal == 1


def test_long_and_odd_constants():
    a = np.arange(3_000_000, dtype=np.float32)
    b = a.copy()
    b[[5, 2_500_000]] += 8
    found = compare_constants(ArrayTensor(a), ArrayTensor(b))
    assert (found.unequal, found.max_abs) == (2, 8.0)
    nan = ArrayTensor(np.array([np.nan, 1], np.float32))
    assert compare_constants(nan, ArrayTensor(np.array([np.nan, 1], np.float32))) is None
    assert compare_constants(nan, ArrayTensor(np.array([0, 1], np.float32))).max_abs == np.inf
    strings = [ArrayTensor(np.array(t, object)) for t in (["a", "b"], ["a", "c"])]
    assert compare_constants(*strings).unequal == 1
    sparse = [SparseTensor(strings[i], ArrayTensor(np.array([0, 1])), (9,)) for i in (0, 1)]
    assert compare_constants(*sparse).unequal == 1
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        compare_constants(ArrayTensor(a), ArrayTensor(b), progress)


def blocks(count: int, number=lambda i: i, extra: int = -1) -> Model:
    """A model of equal residual blocks whose nodes and values are counted; `extra` has a Tanh too many."""
    graph = Graph("blocks")
    x = Value("x", TensorType(ElementType.FLOAT, Shape(("N", 4))), graph)
    graph.inputs = (x,)
    serial = iter(range(10**9))
    weights = np.random.default_rng(1)

    def add(op_type, *inputs):
        i = number(next(serial))
        node = Node(op_type, inputs, (Value(f"v{i}"),), name=f"{op_type}_{i}")
        InsertNode(graph, node).apply()
        return node.outputs[0]

    current = x
    for block in range(count):
        weight = Value(f"w{block}")
        SetInitializer(graph, weight, ArrayTensor(weights.random((4, 4)).astype(np.float32))).apply()
        inner = add("Relu", add("MatMul", current, weight))
        if block == extra:
            inner = add("Tanh", inner)
        current = add("Add", inner, current)
    SetGraphOutputs(graph, (current,)).apply()
    return Model(graph, opset=21)


def test_one_more_node_whose_followers_are_all_counted_anew():
    """Names lie here: every node after the new one has the name of its predecessor's place."""
    comparison = compare(blocks(40), blocks(40, extra=20))
    report = [d for d in comparison.differences if d.kind != "renamed"]
    assert [(d.kind, d.subject, d.aspect) for d in report] == [("added", "node", ""), ("changed", "node", "input 0")]
    assert report[0].new.op_type == "Tanh"


def test_other_names_and_another_order_are_nothing_but_that():
    old, new = blocks(30), blocks(30)
    rng = random.Random(3)
    for number, value in enumerate(new.graph.values()):
        value.name = f"other{number}"
    for node in new.graph.nodes:
        node.name = f"n{rng.random()}"
    order = list(new.graph.nodes)
    for node in rng.sample(order, 10):
        RemoveNode(node).apply()
        InsertNode(new.graph, node, rng.choice([n for n in order if n.graph is not None])).apply()
    comparison = compare(old, new)
    assert {d.kind for d in comparison.differences} == {"renamed", "moved"}
    for node in old.graph.nodes:
        assert comparison.partner(node).op_type == node.op_type
        assert comparison.partner(comparison.partner(node)) is node


TOWERS = 6


def towers(order=range(TOWERS), name="w{}") -> Model:
    """Equal towers on one input, which differ in their weights alone."""
    graph = Graph("towers")
    x = Value("x", TensorType(ElementType.FLOAT, Shape(("N", 4))), graph)
    graph.inputs = (x,)
    weights = []
    for tower in range(TOWERS):
        weights.append(Value(name.format(tower)))
        SetInitializer(graph, weights[-1], ArrayTensor(np.full((4, 4), tower, np.float32))).apply()
    ends = {}
    for place, tower in enumerate(order):
        current = x
        for block in range(3):
            for op_type in ("MatMul", "Relu"):
                inputs = (current, weights[tower]) if op_type == "MatMul" else (current,)
                node = Node(op_type, inputs, (Value(f"v{place}_{block}_{op_type}_{name}"),))
                InsertNode(graph, node).apply()
                current = node.outputs[0]
        ends[tower] = current
    InsertNode(graph, Node("Sum", tuple(ends[tower] for tower in range(TOWERS)), (Value("y"),))).apply()
    SetGraphOutputs(graph, (graph.nodes.last.outputs[0],)).apply()
    return Model(graph, opset=21)


@pytest.mark.parametrize("name", ["w{}", "other_{}"])
def test_towers_that_differ_only_in_weights_are_reported_apart(name):
    """Whatever the order of the nodes, and whether weights kept their names or not."""
    comparison = compare(towers(), towers([3, 5, 0, 1, 4, 2], name))
    assert {d.kind for d in comparison.differences} <= {"renamed", "moved"}


def test_nothing_in_common():
    a, b = builders.model(), Model(Graph("empty"), opset=21)
    assert {d.kind for d in compare(a, b).differences} >= {"removed", "renamed"}
    assert {d.kind for d in compare(b, a).differences} >= {"added", "renamed"}


def test_real_models_do_not_differ_from_themselves(real_models):
    for path in real_models.files()[::6]:
        assert not compare(load(path), load(path)), path


pick = st.integers(0, 1 << 16)
CHANGES = ("attribute", "rename node", "rename value", "type", "metadata", "weights", "delete", "add", "opset", "doc")


@settings(max_examples=examples(60))
@given(text=st.sampled_from(BOTH), plan=st.lists(st.tuples(st.sampled_from(CHANGES), pick), min_size=1, max_size=5))
def test_edits_and_nothing_else_are_reported(text, plan):
    """Every object a difference is about was touched by an edit, and taking all edits back leaves nothing to tell."""
    original = builders.model(text)
    document = builders.document(text)
    touched: set[str] = set()
    for number, (what, where) in enumerate(plan):
        all_nodes = [n for g in document.model.graphs() for n in g.nodes]
        all_values = [v for g in document.model.graphs() for v in g.values()]
        if not all_nodes:
            break
        try:
            touched |= _do(
                document, what, all_nodes[where % len(all_nodes)], all_values[where % len(all_values)], number
            )
        except ModelError:
            continue
    comparison = compare(original, document.model)
    for difference in comparison.differences:
        named = {getattr(o, "name", "") for o in (difference.old, difference.new) if o is not None}
        described = {difference.before, difference.after, *difference.aspect.split(), *named}
        assert described & touched or difference.subject == "model", (difference, touched)
    assert bool(comparison) == bool(compare(document.model, original))
    while document.undo():
        pass
    assert not compare(original, document.model)


def _do(document: Document, what: str, node: Node, value: Value, number: int) -> set[str]:
    """Do one edit; the names of what it touches. Nameless nodes are known by the names of their outputs."""
    about = {node.name, *(v.name for v in node.outputs if v is not None)}
    near = {n.name for v in node.outputs if v is not None for n in v.consumers}
    with document.edit("Edit") as edit:
        match what:
            case "attribute":
                edit.do(_extra(node, number))
                return about
            case "rename node":
                nodes.rename_node(edit, node, f"node{number}")
                return about | {f"node{number}"}
            case "rename value":
                old = value.name
                values.rename_value(edit, value, f"value{number}")
                return {old, f"value{number}"}
            case "type":
                values.set_type(edit, value, TensorType(ElementType.INT8, Shape((number,))))
                return {value.name}
            case "metadata":
                properties.set_metadata(edit, node, "key", str(number))
                return about
            case "weights":
                found = next((v for v in document.model.graph.initializers), None)
                if found is None:
                    return set()
                edit.do(SetInitializer(document.model.graph, found, ArrayTensor(np.array([number + 7.5]))))
                return {found.name}
            case "delete":
                nodes.delete(edit, [node])
                bodies = {n.name for g in node.bodies for n in g.nodes}
                captured = {v.name for v in node.inputs if v is not None}
                return about | near | bodies | captured
            case "add":
                made = nodes.add_node(edit, node.graph, "Identity", [node.outputs[0]])
                return {made.name, *(v.name for v in made.outputs), *about}
            case "opset":
                properties.set_opset(edit, document.model, "", 10 + number)
                return set()
            case _:
                properties.set_text(edit, node, "doc_string", f"text {number}")
                return about


def _extra(node: Node, number: int):
    from onnx_workbench.model.history.steps import SetAttribute

    return SetAttribute(node, "extra", make_attribute("extra", number))


def test_initializers_that_become_nodes():
    found = edited(lambda e, d: initializers.initializer_to_constant(e, builders.value(d, "w")))
    assert {(f[0], f[1]) for f in found} == {("added", "node"), ("removed", "value")}


@settings(max_examples=examples(60))
@given(text=st.sampled_from(BOTH), plan=st.lists(st.tuples(st.sampled_from(CHANGES), pick), min_size=1, max_size=5))
def test_what_differs_can_be_taken_over(text, plan):
    """Copying all differences into the original makes it like the edited model, and one undo takes them back."""
    document, original = builders.document(text), builders.document(text)
    for number, (what, where) in enumerate(plan):
        all_nodes = [n for g in document.model.graphs() for n in g.nodes]
        all_values = [v for g in document.model.graphs() for v in g.values()]
        if all_nodes:
            with contextlib.suppress(ModelError):
                _do(document, what, all_nodes[where % len(all_nodes)], all_values[where % len(all_values)], number)
    comparison = compare(original.model, document.model)
    before = snapshot(original.model)
    refused = builders.one_edit(original, apply_differences, comparison, comparison.differences, "old")
    assert_linked(original.model)
    assert not refused
    left = compare(original.model, document.model).differences
    assert all(d.aspect == "place" for d in left), left
    original.go_to(original.root)
    assert snapshot(original.model) == before
