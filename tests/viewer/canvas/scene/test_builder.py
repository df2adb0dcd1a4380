from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Hashable, Iterator

import numpy as np
import pytest

from onnx_workbench.model.analysis.groups import scope_tree
from onnx_workbench.model.analysis.scoping import captured
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.graph import Function, Graph, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.canvas.paint.fonts import Style, canvas_fonts
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.builder import Ids, build, initial_expansion, inner_graph
from onnx_workbench.viewer.canvas.scene.drawing import WIDEST, Drawing, DrawingOptions, Kind
from tests.viewer.canvas.graphs import HOSTILE_NAMES, Graphs, long_chain, nested

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application


def titles(drawing: Drawing) -> list[str]:
    return [box.title for box in drawing.boxes]


def edges(drawing: Drawing) -> set[tuple[str, str]]:
    return {(drawing.boxes[a].title, drawing.boxes[b].title) for a, b in drawing.edges.tolist()}


def test_nodes_pills_and_edges(small):
    drawing = build(small.model().graph)
    assert titles(drawing) == ["x", "Conv", "Relu", "Add", "y"]
    assert edges(drawing) == {("x", "Conv"), ("Conv", "Relu"), ("Relu", "Add"), ("Conv", "Add"), ("Add", "y")}
    assert [Kind(kind) for kind in drawing.kinds] == [Kind.INPUT, Kind.NODE, Kind.NODE, Kind.NODE, Kind.OUTPUT]


def test_constants_are_rows_named_as_in_the_signature(small):
    conv = build(small.model().graph).boxes[1]
    assert [(row.name, row.text) for row in conv.rows] == [
        ("W", "8×3×3×3"),
        ("B", "8 values"),
        ("kernel_shape", "[3, 3]"),
    ]
    assert conv.rows[0].subject is small.values["w"]


def test_rows_can_be_switched_off(small):
    graph = small.model().graph
    assert [row.name for row in build(graph, DrawingOptions(initializers=False)).boxes[1].rows] == ["kernel_shape"]
    assert [row.name for row in build(graph, DrawingOptions(attributes=False)).boxes[1].rows] == ["W", "B"]
    assert build(graph, DrawingOptions(names=True)).boxes[1].title == "/block/conv"


def test_boxes_have_room_for_their_texts(small):
    fonts = canvas_fonts()
    for box in build(small.model().graph).boxes:
        assert fonts.width(box.title, Style.NAME) < box.width
        for row in box.rows:
            assert box.names_width + fonts.width(row.text, Style.ROW) < box.width


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_no_name_makes_a_box_too_wide_or_unreadable(name):
    g = Graphs()
    g.input(name, name)
    g.node(name, [name], [name + "1"], name=name, domain=name, a=name)
    g.outputs(name + "1")
    for options in (DrawingOptions(), DrawingOptions(names=True), DrawingOptions(groups=True)):
        for box in build(g.model().graph, options).boxes:
            assert box.width <= max(WIDEST, 500)
            texts = [box.title, box.note, *(row.text for row in box.rows), *(row.name for row in box.rows)]
            assert all(text.isprintable() for text in texts)


def test_a_constant_is_folded_into_its_consumer():
    g = Graphs()
    g.input("x", 2)
    constant = g.node("Constant", [], ["two"], value_float=2.0)
    g.node("Mul", ["x", "two"], ["y"])
    g.outputs("y")
    drawing = build(g.model().graph)
    assert titles(drawing) == ["x", "Mul", "y"]
    assert [(row.name, row.text) for row in drawing.boxes[1].rows] == [("B", "2")]
    assert drawing.boxes_of(constant) == [1]


def test_shared_constants_are_folded_or_shown():
    g = Graphs()
    g.input("x", 2)
    g.node("Constant", [], ["two"], value_float=2.0)
    g.node("Mul", ["x", "two"], ["a"])
    g.node("Add", ["a", "two"], ["y"])
    g.outputs("y")
    graph = g.model().graph
    assert "Constant" not in titles(build(graph))
    shown = build(graph, DrawingOptions(fold_shared_constants=False))
    assert {("Constant", "Mul"), ("Constant", "Add")} <= edges(shown)


def test_a_constant_that_is_an_output_stays_a_node():
    g = Graphs()
    g.node("Constant", [], ["two"], value_float=2.0)
    g.outputs("two")
    assert edges(build(g.model().graph)) == {("Constant", "two")}


def test_an_undefined_input_is_shown_as_not_defined():
    g = Graphs()
    node = g.node("Relu", ["nowhere"], ["y"])
    node.inputs[0].graph = None
    drawing = build(g.model().graph)
    pill = drawing.boxes[1]
    assert (pill.kind, pill.title, pill.note) == (Kind.OUTER, "nowhere", "not defined")


def edges_into(drawing: Drawing, title: str) -> list[int]:
    return [index for index, (_, target) in enumerate(drawing.edges.tolist()) if drawing.boxes[target].title == title]


def test_ports_follow_the_order_of_inputs(small):
    small.node("Sub", ["r", "c"], ["difference"])
    drawing = build(small.model().graph)
    into = edges_into(drawing, "Sub")
    assert [drawing.values[index].name for index in into] == ["r", "c"]
    ports = drawing.target_ports[into]
    assert 0 < ports[0] < ports[1] < drawing.boxes[4].width


def test_inputs_that_may_change_places_have_no_ports(small):
    small.node("Mul", ["r", "r"], ["square"])
    small.node("Add", ["r", "c"], ["other"], domain="custom")
    drawing = build(small.model().graph)
    given = {box: not np.isnan(drawing.target_ports[drawing.edges[:, 1] == box]).any() for box in (3, 4, 5)}
    assert [drawing.boxes[box].title for box in (3, 4, 5)] == ["Add", "Mul", "Add"]
    assert given == {3: False, 4: True, 5: True}  # a value that arrives twice needs two places


def test_bodies_are_closed_at_first_and_show_what_they_capture(branching_model):
    drawing = build(branching_model.graph)
    assert ("Relu", "If") in edges(drawing)
    captured = [index for index, dashed in enumerate(drawing.dashed) if dashed]
    assert [drawing.values[index].name for index in captured] == ["r"]
    branch = drawing.boxes[titles(drawing).index("If")]
    assert branch.buttons == ("+",)


def test_an_expanded_node_holds_its_bodies(branching_model):
    closed = build(branching_model.graph)
    key = closed.boxes[titles(closed).index("If")].key
    drawing = build(branching_model.graph, expanded={key})
    frame = titles(drawing).index("If")
    assert drawing.boxes[frame].kind is Kind.CONTAINER
    bodies = [index for index, box in enumerate(drawing.boxes) if box.parent == frame]
    assert [drawing.boxes[index].title for index in bodies] == ["then_branch", "else_branch"]
    inner = {box.title for box in drawing.boxes if box.parent in bodies}
    assert {"Neg", "Abs"} <= inner
    dashed = {
        (drawing.boxes[a].title, drawing.boxes[b].title)
        for (a, b), is_dashed in zip(drawing.edges.tolist(), drawing.dashed, strict=True)
        if is_dashed
    }
    assert dashed == {("Relu", "Neg"), ("Relu", "Abs")}


def _uses(graph: Graph, expanded: Collection[Hashable], instance: Hashable = ()) -> Counter[tuple[Value, object]]:
    """Count the uses that edges are drawn for: each input and output, and each captured value of a closed node."""
    found: Counter[tuple[Value, object]] = Counter((value, value) for value in graph.outputs)
    for node in graph.nodes:
        found.update((value, node) for value in node.inputs)
        if (instance, node) in expanded:
            for body in node.bodies:
                found += _uses(body, expanded, (instance, node, body))
        else:
            found.update((value, node) for value in set(captured(node)) - set(node.inputs))
    return found


def _expandable(graph: Graph, instance: Hashable = ()) -> Iterator[Hashable]:
    for node in graph.nodes:
        if node.bodies:
            yield (instance, node)
        for body in node.bodies:
            yield from _expandable(body, (instance, node, body))


@pytest.mark.parametrize("seed", range(60))
def test_every_use_of_a_value_is_an_edge(seed):
    graph = nested(seed).model().graph
    expanded = {key for key in _expandable(graph) if random.Random(seed).random() < 0.5}
    drawing = build(graph, DrawingOptions(fold_nodes=False), expanded)
    targets = [drawing.boxes[target].subject for target in drawing.edges[:, 1]]
    assert Counter(zip(drawing.values, targets, strict=True)) == _uses(graph, expanded)
    assert all(
        drawing.boxes[source].subject in (value, value.producer)
        for source, value in zip(drawing.edges[:, 0], drawing.values, strict=True)
    )


def test_an_edge_sharing_its_value_with_another_is_drawn():
    g = Graphs()
    for name in ("x", "w", "flag"):
        g.input(name, 2)
    body = Graphs("then_branch", outer=g)
    body.node("Add", ["x", "w"], ["sum"])
    body.outputs("sum")
    g.node("Relu", ["x"], ["r"])
    g.node("If", ["flag"], ["y"], then_branch=body.graph)
    g.outputs("r", "y")
    assert {("x", "If"), ("w", "If"), ("flag", "If")} <= edges(build(g.model().graph))


def test_an_expanded_function_is_drawn_in_place_each_time(branching_model):
    g = branching_model.graph
    closed = build(g)
    call = next(box for box in closed.boxes if box.title == "Twice")
    assert call.buttons == ("ƒ", "+")
    drawing = build(g, expanded={call.key})
    frame = titles(drawing).index("Twice")
    assert [box.title for box in drawing.boxes if box.parent == frame] == ["a", "Add", "b"]


def test_a_body_on_its_own_shows_outer_values_as_pills(branching_model):
    body = inner_graph(next(node for node in branching_model.graph.nodes if node.bodies), branching_model)
    drawing = build(body)
    assert [(box.title, box.kind) for box in drawing.boxes if box.kind is Kind.OUTER] == [("r", Kind.OUTER)]
    assert drawing.dashed.tolist().count(True) == 1


def test_all_that_a_value_from_outside_is_used_for_is_dashed():
    g = Graphs()
    for output in ("a", "b", "c"):
        g.node("Relu", ["nowhere"], [output])
    assert build(g.model().graph).dashed.all()


def test_a_function_that_calls_itself_opens_one_level_per_key():
    inner = Graphs("Loop")
    inner.input("a")
    inner.node("Loop", ["a"], ["b"], domain="local")
    inner.outputs("b")
    g = Graphs()
    g.input("x")
    g.node("Loop", ["x"], ["y"], domain="local")
    g.outputs("y")
    graph = g.model(Function("Loop", "local", body=inner.graph)).graph
    expanded = set()
    for depth in range(1, 4):
        drawing = build(graph, expanded=expanded)
        assert [box.kind for box in drawing.boxes].count(Kind.CONTAINER) == depth - 1
        expanded.add(next(box.key for box in drawing.boxes if box.title == "Loop" and box.kind is Kind.NODE))


def test_groups_stand_for_their_nodes():
    graph = long_chain(40, scopes=4).model().graph
    drawing = build(graph, DrawingOptions(groups=True))
    groups = [box for box in drawing.boxes if box.kind is Kind.GROUP]
    assert [box.title for box in groups] == ["part0", "part1", "part2", "part3"]
    assert [row.text for row in groups[0].rows] == ["10 nodes", "Relu 10"]
    assert len(drawing.edges) == 5
    for node in graph.nodes:
        assert [drawing.boxes[index].kind for index in drawing.boxes_of(node)] == [Kind.GROUP]
    opened = build(graph, DrawingOptions(groups=True), expanded={groups[1].key})
    frame = titles(opened).index("part1")
    assert opened.boxes[frame].kind is Kind.CONTAINER
    assert sum(box.parent == frame for box in opened.boxes) == 10


def test_edges_of_a_group_are_merged_and_still_found_by_value():
    g = Graphs()
    g.input("x")
    for index in range(3):
        g.node("Relu", ["x"], [f"a{index}"], name=f"/one/relu{index}")
    g.node("Sum", ["a0", "a1", "a2"], ["b"], name="/two/sum")
    g.node("Relu", ["b"], ["y"], name="/two/relu")
    g.outputs("y")
    drawing = build(g.model().graph, DrawingOptions(groups=True))
    between = drawing.edges_of(g.values["a1"])
    assert len(between) == 1
    assert drawing.multiplicity[between[0]] == 3


def test_small_graphs_are_flat_and_large_ones_grouped():
    graph = long_chain(40, scopes=4).model().graph
    assert Kind.GROUP not in build(graph).kinds
    assert Kind.GROUP in build(graph, DrawingOptions(many=30)).kinds


def test_a_large_model_opens_as_its_blocks():
    g = Graphs()
    g.input("v0")
    for index in range(120):
        g.node("Relu", [f"v{index}"], [f"v{index + 1}"], name=f"/model/encoder/layer{index // 10}/relu{index}")
    g.outputs("v120")
    graph = g.model().graph
    drawing = build(graph, DrawingOptions(groups=True), expanded=initial_expansion(scope_tree(graph)))
    groups = [box.title for box in drawing.boxes if box.kind is Kind.GROUP]
    assert groups == [f"layer{index}" for index in range(12)]


def test_drawing_again_keeps_numbers_and_cards(small):
    graph = small.model().graph
    ids, cards = Ids(), BoxFactory(canvas_fonts(), DrawingOptions())
    first = build(graph, ids=ids, measure=cards)
    small.node("Neg", ["y"], ["z"])
    second = build(graph, ids=ids, measure=cards)
    assert len(set(second.box_ids.tolist())) == len(second.boxes)
    assert set(first.box_ids.tolist()) <= set(second.box_ids.tolist())
    for box, number in zip(first.boxes, first.box_ids, strict=True):
        again = second.boxes[second.box_ids.tolist().index(number)]
        assert again.subject is box.subject


def test_a_changed_node_is_looked_at_anew(small):
    graph = small.model().graph
    cards = BoxFactory(canvas_fonts(), DrawingOptions())
    conv = next(iter(graph.nodes))
    build(graph, measure=cards)
    SetAttribute(conv, "kernel_shape", None).apply()
    cards.forget([conv])
    assert [row.name for row in build(graph, measure=cards).boxes[1].rows] == ["W", "B"]


def test_building_pauses_often():
    from onnx_workbench.model.analysis.value_types import declared_type
    from onnx_workbench.viewer.canvas.scene.builder import DrawingBuilder

    graph = long_chain(3000).model().graph
    builder = DrawingBuilder(
        graph, DrawingOptions(), (), Ids(), BoxFactory(canvas_fonts(), DrawingOptions()), declared_type
    )
    assert sum(1 for _ in builder.steps()) >= 10
    assert len(builder.drawing.boxes) == 3002
    assert np.isfinite(builder.drawing.source_ports).all()


def test_constants_of_a_call_take_the_functions_input_names(qapp):
    body = Graphs("Scale")
    body.input("a")
    body.input("factor")
    body.node("Mul", ["a", "factor"], ["b"])
    body.outputs("b")
    g = Graphs()
    g.input("x", 2)
    g.constant("layer.0.weight", np.ones(200, np.float32))
    g.node("Scale", ["x", "layer.0.weight"], ["y"], domain="local")
    g.outputs("y")
    drawing = build(g.model(Function("Scale", "local", body=body.graph)).graph)
    (index,) = drawing.boxes_of(g.values["y"].producer)
    assert [(row.name, row.text) for row in drawing.boxes[index].rows] == [("factor", "200 values")]


def stacked_layers(sizes: list[int]) -> Graphs:
    """x, then a MatMul and a Relu in a layer for each size, between two other groups."""
    g = Graphs()
    g.input("x", 1, sizes[0])
    last = "x"
    for part, count in (("start", 4), ("end", 4)):
        for number in range(count):
            g.node("Exp", [last], [f"{part}{number}"], name=f"/{part}/exp{number}")
            last = f"{part}{number}"
        for layer, size in enumerate(sizes if part == "start" else ()):
            g.constant(f"w{layer}", np.zeros((sizes[max(layer - 1, 0)], size), np.float32))
            g.node("MatMul", [last, f"w{layer}"], [f"m{layer}"], name=f"/layer.{layer}/matmul")
            g.node("Relu", [f"m{layer}"], [f"r{layer}"], name=f"/layer.{layer}/relu")
            last = f"r{layer}"
    g.outputs(last)
    return g


def test_a_stack_says_how_many_layers_it_has_and_what_differs():
    graph = stacked_layers([8, 8, 16, 16, 32, 32]).model().graph
    tree = scope_tree(graph)
    drawing = build(graph, DrawingOptions(groups=True), initial_expansion(tree))
    assert titles(drawing) == ["x", "start", "layer ×6", "end", "end3"]
    assert edges(drawing) == {("x", "start"), ("start", "layer ×6"), ("layer ×6", "end"), ("end", "end3")}
    assert [row.text for row in drawing.boxes[2].rows] == ["6 × 2 nodes", "MatMul 6 · Relu 6", "MatMul 8×8 … 32×32"]
    opened = build(graph, DrawingOptions(groups=True), {drawing.boxes[2].key})
    assert [box.title for box in opened.boxes if box.kind is Kind.GROUP][1:7] == [f"layer.{n}" for n in range(6)]
    alike = build(stacked_layers([8] * 6).model().graph, DrawingOptions(groups=True))
    assert alike.boxes[2].rows[2].text == "all of the same sizes"


def test_a_stack_too_large_to_compare_claims_only_its_ends():
    sizes = [8] * 2100  # two nodes each: every second layer is looked at, and the last
    other = stacked_layers([*sizes, 16]).model().graph
    box = build(other, DrawingOptions(groups=True)).boxes[2]
    assert [row.text for row in box.rows] == ["2101 × 2 nodes", "MatMul 2101 · Relu 2101", "MatMul 8×8 … 8×16"]
    box = build(stacked_layers([*sizes, 8]).model().graph, DrawingOptions(groups=True)).boxes[2]
    assert [row.text for row in box.rows] == ["2101 × 2 nodes", "MatMul 2101 · Relu 2101"]


@pytest.mark.parametrize("as_nodes", [False, True])
def test_a_stack_names_differing_attributes_and_weights(as_nodes):
    g = Graphs()
    g.input(last := "v0", 1, 2, 64, 64)
    for layer, stride in enumerate([1, 2, 1, 1, 2, 1]):
        weight, size = f"w{layer}", 3 if as_nodes and layer > 2 else 1
        array = np.zeros((2, 2, size, size), np.float32)
        if as_nodes:
            g.node("Constant", [], [weight], name=f"/layer.{layer}/w", value=ArrayTensor(array))
        else:
            g.constant(weight, array)
        g.node("Conv", [last, weight], [f"c{layer}"], name=f"/layer.{layer}/conv", strides=[stride, 1])
        g.node("Relu", [f"c{layer}"], [last := f"r{layer}"], name=f"/layer.{layer}/relu")
    g.node("Exp", [last], ["y"])
    g.outputs("y")
    drawing = build(g.model().graph, DrawingOptions(groups=True))
    (text,) = [box.rows[2].text for box in drawing.boxes if box.title == "layer ×6"]
    assert text == ("Conv 2×2×1×1 … 2×2×3×3" if as_nodes else "Conv strides [1, 1] … [2, 1]")


def test_a_level_shows_neither_one_box_nor_hundreds():
    g = Graphs()
    g.input("x", 1)
    g.node("Exp", ["x"], ["v0"], name="/before")
    for index in range(400):
        g.node(
            "Relu", [f"v{index}"], [f"v{index + 1}"], name=f"/net/{'abcd'[index // 100]}/part{index // 10}/relu{index}"
        )
    g.outputs("v400")
    graph = g.model().graph
    drawing = build(graph, DrawingOptions(groups=True), initial_expansion(scope_tree(graph)))
    assert 5 <= sum(box.kind in (Kind.GROUP, Kind.NODE) for box in drawing.boxes) <= 60
