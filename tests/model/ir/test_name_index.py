"""What is known of a tree of graphs: names and order, kept right by the steps, compared with looking through it."""

import random

import pytest

from onnx_workbench.model.analysis.scoping import makes_cycle, names_taken, nodes_upstream, unique_name
from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.history.steps import InsertNode, MoveUses, RemoveNode, SetAttribute, SetField, SetInput
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.name_index import NameIndex
from tests.model import builders
from tests.model.snapshots import assert_known, is_sorted


def chain(count: int) -> Model:
    graph = Graph("g")
    value = Value("x", None, graph)
    for number in range(count):
        node = Node("Relu", (value,), (Value(f"v_{number}"),), name=f"n_{number}")
        InsertNode(graph, node).apply()
        value = node.outputs[0]
    return Model(graph, opset=21)


def test_names_of_branches_are_known_and_freed_by_renaming():
    document = builders.document(builders.BRANCHES)
    assert_known(document.model)
    value = next(v for g in document.model.graph.walk() for n in g.nodes for v in n.outputs)
    old = value.name
    builders.one_edit(document, values.rename_value, value, "another")
    assert old not in names_taken(document.model.graph)
    assert_known(document.model)
    document.undo()
    assert_known(document.model)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nodes_of_one_name_or_of_none_cost_no_more_than_others():
    graph = Graph("g")
    for number in range(120_000):
        InsertNode(graph, Node("Relu", name="same" if number % 10 == 0 else "")).apply()
    assert NameIndex.of(graph).node("same") is graph.nodes.first
    assert NameIndex.of(graph).node("other") is None


def test_a_body_edited_while_outside_brings_its_new_names():
    model = builders.document(builders.BRANCHES).model
    holder = next(n for n in model.graph.nodes if n.bodies)
    assert_known(model)
    name, attribute = next((k, a) for k, a in holder.attributes.items() if a.graphs)
    back = SetAttribute(holder, name, None).apply()
    assert_known(model)
    body = attribute.graphs[0]
    NameIndex.of(body)  # someone asks of the body while it stands alone
    InsertNode(body, Node("Relu", (), (Value("made_outside"),), name="outside")).apply()
    back.apply()
    assert_known(model)
    assert NameIndex.of(body).node("outside")


@pytest.mark.parametrize("at", [0, 1, 50, 99])
def test_places_stay_in_order_however_many_come_to_one_spot(at):
    graph = chain(100).graph
    first = graph.nodes.first
    graph.nodes.place(first)
    spot = graph.nodes[at]
    for number in range(100):
        InsertNode(graph, Node("A", name=f"a{number}"), spot).apply()
        following = spot.next
        InsertNode(graph, Node("B", name=f"b{number}"), following).apply()
    places = [graph.nodes.place(node) for node in graph.nodes]
    assert len(places) == 300
    assert places == sorted(set(places))


def test_a_cycle_is_found_in_order_and_out_of_order():
    model = chain(40)
    graph = model.graph
    order = list(graph.nodes)
    assert makes_cycle(order[3], order[30].outputs[0])
    assert makes_cycle(order[3], order[3].outputs[0])
    assert not makes_cycle(order[30], order[3].outputs[0])
    node = order[30]
    RemoveNode(node).apply()
    InsertNode(graph, node, order[0]).apply()  # the file's order is broken now, its wires are not
    assert not NameIndex.of(graph).is_sorted
    assert makes_cycle(order[3], order[35].outputs[0])
    assert not makes_cycle(order[35], order[3].outputs[0])


def test_connecting_within_order_looks_only_between_the_two():
    graph = chain(1000).graph
    order = list(graph.nodes)
    assert NameIndex.of(graph).is_sorted
    loose = Node("Abs", (None,), (Value("loose"),), name="loose")
    InsertNode(graph, loose, order[500]).apply()
    needed = nodes_upstream([order[502]], graph, start=loose)
    assert needed == {order[500], order[501], order[502]}
    assert not makes_cycle(loose, order[502].outputs[0])
    SetInput(order[502], 0, loose.outputs[0]).apply()
    assert makes_cycle(loose, order[502].outputs[0])


def test_a_reconnected_node_moves_with_what_it_needs_only():
    model = chain(50)
    order = list(model.graph.nodes)
    document = builders.Document(model)
    with document.edit("Add") as edit:
        side = nodes.add_node(edit, model.graph, "Add", [order[0].outputs[0]], before=order[10])
        values.connect(edit, side, 1, order[12].outputs[0])
    assert NameIndex.of(model.graph).is_sorted
    assert is_sorted(model.graph)
    found = list(model.graph.nodes)
    assert found.index(side) == 13
    document.undo()
    assert list(model.graph.nodes) == order


@pytest.mark.parametrize("kind", ["node", "value"])
def test_the_name_of_what_came_is_known_to_who_asks_for_it_first(kind):
    graph = chain(3).graph
    known, node = NameIndex.of(graph), Node("Abs", (None,), (Value("made"),), name="made")
    back = InsertNode(graph, node).apply()
    if kind == "node":
        assert known.node("made") is node
    else:
        assert known.value("made") is node.outputs[0]
    back.apply()
    assert known.node("made") is known.value("made") is None


@pytest.mark.parametrize("seed", range(20))
def test_names_and_order_are_right_after_many_unasked_steps(seed):
    rng = random.Random(seed)
    model = chain(12)
    graph = model.graph
    assert_known(model)
    everything, inverses = list(graph.nodes), []
    for number in range(200):
        inside = list(graph.nodes)
        kind = rng.choice(["remove", "insert", "wire", "move", "name", "undo"])
        step = None
        if kind == "remove" and len(inside) > 4:
            step = RemoveNode(rng.choice(inside))
        elif kind == "insert" and (out := [node for node in everything if node.graph is None]):
            step = InsertNode(graph, rng.choice(out), rng.choice([*inside, None]))
        elif kind == "wire":
            step = SetInput(rng.choice(everything), 0, rng.choice(everything).outputs[0])
        elif kind == "move":
            source, target = (rng.choice(everything).outputs[0] for _ in range(2))
            step = MoveUses(source, target, tuple(source.uses))
        elif kind == "name":
            step = SetField(rng.choice(everything), "name", f"named_{number}")
        elif kind == "undo" and inverses:
            for _ in range(rng.randrange(len(inverses))):
                inverses.pop().apply()
        if step is not None:
            inverses.append(step.apply())
        if rng.random() < 0.15:
            assert_known(model)
    assert_known(model)


def test_a_free_name_is_found_in_a_crowd():
    asked = []

    class Crowd:
        def __contains__(self, name):
            asked.append(name)
            return int(name.rpartition("_")[2]) <= 100_000

    assert unique_name("Relu_1", Crowd()) == "Relu_100001"
    assert len(asked) < 80
