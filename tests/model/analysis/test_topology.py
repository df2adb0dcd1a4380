from __future__ import annotations

from onnx_workbench.model.analysis.topology import downstream, outer_values, upstream
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Graph, Node, Value


def diamond():
    """x → a → (b, c) → d, and an If that uses b's output inside its body."""
    graph = Graph("main")
    values = {name: Value(name, None, graph) for name in "xabcd"}
    SetGraphInputs(graph, (values["x"],)).apply()
    nodes = {}
    for name, inputs in (("a", "x"), ("b", "a"), ("c", "a"), ("d", "bc")):
        nodes[name] = Node("Sum", tuple(values[i] for i in inputs), (values[name],), name=name)
        InsertNode(graph, nodes[name]).apply()
    body = Graph("body")
    inside = Value("inside", None, body)
    InsertNode(body, Node("Neg", (values["b"],), (inside,), name="neg")).apply()
    SetGraphOutputs(body, (inside,)).apply()
    result = Value("e", None, graph)
    owner = Node("If", (), (result,), name="e", attributes={"then": Attribute("then", AttributeKind.GRAPH, body)})
    InsertNode(graph, owner).apply()
    nodes["e"] = owner
    return nodes, values


def names(things):
    return {thing.name for thing in things if isinstance(thing, Node)}


def test_upstream_is_what_a_node_depends_on():
    nodes, values = diamond()
    assert names(upstream([nodes["b"]])) == {"a", "b"}
    assert names(upstream([nodes["d"]])) == {"a", "b", "c", "d"}
    assert names(upstream([values["a"]])) == {"a"}
    assert values["x"] in upstream([nodes["d"]])


def test_upstream_sees_through_bodies():
    nodes, values = diamond()
    assert names(upstream([nodes["e"]])) == {"a", "b", "e"}
    assert outer_values(nodes["e"]) == [values["b"]]
    assert outer_values(nodes["a"]) == []


def test_downstream_is_what_depends_on_it():
    nodes, values = diamond()
    assert names(downstream([nodes["c"]])) == {"c", "d"}
    assert names(downstream([values["x"]])) == {"a", "b", "c", "d", "e", "neg"}
    assert names(downstream([nodes["b"]])) == {"b", "d", "e", "neg"}
    assert downstream([]) == {}


def test_cycles_end():
    graph = Graph("main")
    a, b = Value("a", None, graph), Value("b", None, graph)
    one, two = Node("Neg", (b,), (a,), name="one"), Node("Neg", (a,), (b,), name="two")
    for node in (one, two):
        InsertNode(graph, node).apply()
    assert names(upstream([one])) == names(downstream([one])) == {"one", "two"}
