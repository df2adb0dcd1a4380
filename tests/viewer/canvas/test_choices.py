"""What a user can choose to see: groups, shared constants, devices; and what is chosen for them at first."""

from __future__ import annotations

import numpy as np

from onnx_workbench.model.analysis.groups import scope_tree
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from onnx_workbench.viewer.canvas.scene.builder import build, initial_expansion
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions, Kind
from onnx_workbench.viewer.pictures.export import part_of
from onnx_workbench.viewer.program.settings import FOLD_SHARED, GROUPS
from tests.viewer.canvas.graphs import Graphs, long_chain
from tests.viewer.canvas.painting import wait


def titles(view):
    return [box.title for box in view.scene.boxes]


def nested(outer: str, parts: int, each: int) -> Graphs:
    g = Graphs()
    g.input("x", 1)
    previous = "x"
    for part in range(parts):
        for index in range(each):
            g.node("Relu", [previous], [f"v{part}_{index}"], name=f"/{outer}/block{part}/relu{index}")
            previous = f"v{part}_{index}"
    g.outputs(previous)
    return g


def test_a_group_of_nearly_everything_is_open_at_first(qapp):
    g = nested("model", parts=40, each=3)
    g.node("Exp", ["x"], ["start"], name="/start")
    graph = g.graph
    assert ((), ("model",)) in initial_expansion(scope_tree(graph))
    drawing = build(graph, DrawingOptions(groups=True), initial_expansion(scope_tree(graph)))
    assert sum(box.kind is Kind.GROUP for box in drawing.boxes) == 40


def test_a_prefix_of_all_names_is_no_group(qapp):
    drawing = build(nested("model", parts=4, each=3).graph, DrawingOptions(groups=True))
    assert [box.title for box in drawing.boxes if box.kind is Kind.GROUP] == ["block0", "block1", "block2", "block3"]


def test_grouping_is_switched_on_and_off(show, qtbot):
    view = show(nested("model", parts=3, each=4).model())
    assert not view.expansion.is_grouped
    view.expansion.set_grouped(True)
    wait(qtbot, view)
    assert view.expansion.is_grouped
    assert {"block0", "block1", "block2"} <= set(titles(view))
    assert "Relu" not in titles(view)
    view.expansion.set_grouped(False)
    wait(qtbot, view)
    assert titles(view).count("Relu") == 12


def test_the_preference_for_groups_goes_for_every_graph(show, qtbot):
    view = show(long_chain(12, scopes=3).model())
    view.workspace.settings.set(GROUPS, "always")
    wait(qtbot, view)
    assert {"part0", "part1", "part2"} <= set(titles(view))


def test_constants_that_several_nodes_use_can_be_nodes_of_their_own(show, qtbot):
    g = Graphs()
    g.input("x", 2)
    g.node("Constant", [], ["k"], value_float=1.5)
    g.node("Add", ["x", "k"], ["a"])
    g.node("Mul", ["a", "k"], ["b"])
    g.outputs("b")
    view = show(g.model())
    assert "Constant" not in titles(view)
    view.workspace.settings.set(FOLD_SHARED, False)
    wait(qtbot, view)
    assert "Constant" in titles(view)


def test_calls_of_the_models_functions_have_their_own_colour(show, branching_model):
    view = show(branching_model)
    categories = {box.title: box.category for box in view.scene.boxes}
    assert categories["Twice"] == "function"
    assert categories["Relu"] != "function"


def test_the_split_of_a_value_over_devices_is_beside_its_edge(show, small):
    model = small.model()
    relu = [*small.graph.nodes][1]
    spec = ShardingSpec("r", (0, 1), (), (ShardedDimension(0, ((None, 2),)),))
    SetField(model, "configurations", (DeviceConfiguration("pair", 2),)).apply()
    SetField(relu, "device_configurations", (NodeDeviceConfiguration("pair", (spec,), None),)).apply()
    view = show(model)
    assert "axis 0 ÷ 2" in {label.text for label in view.labels.in_rect(*view.scene.bounds)}
    view.node_colors.set_devices(shown=True)
    assert view.node_colors.shows_devices
    view.node_colors.set_overlay(dict.fromkeys(small.graph.nodes, 1.0), "time")
    assert not view.node_colors.shows_devices


def test_the_split_of_inputs_and_weights_is_on_their_rows(show, qtbot, small):
    model = small.model()
    conv = next(iter(small.graph.nodes))
    halves = (ShardedDimension(0, ((None, 2),)),)
    specs = (ShardingSpec("w", (0, 1), (), halves), ShardingSpec("x", (0, 1), (), ()))
    SetField(model, "configurations", (DeviceConfiguration("pair", 2),)).apply()
    view = show(model)
    with view.workspace.document.edit("Shard") as edit:
        edit.do(SetField(conv, "device_configurations", (NodeDeviceConfiguration("pair", specs, None),)))
    wait(qtbot, view)
    rows = {row.name: row.text for row in view.scene.boxes[titles(view).index("Conv")].rows}
    assert rows["W"] == "8×3×3×3 · axis 0 ÷ 2"
    assert rows["B"] == "8 values"
    assert "on every device" in view.scene.boxes[titles(view).index("x")].note


def test_a_picture_of_a_part_keeps_the_colours_of_an_overlay(show, small):
    view = show(small.model())
    nodes = [*small.graph.nodes]
    view.node_colors.set_overlay({node: float(number) for number, node in enumerate(nodes)}, "time")
    scene, _, colouring = part_of(view, "selection", nodes[1:])
    assert len(scene.boxes) == 2
    expected = [view.colouring.indices[view.scene.drawing.boxes_of(node)[0]] for node in nodes[1:]]
    assert np.array_equal(colouring.indices, expected)
    assert part_of(view, "all")[2] is view.colouring
