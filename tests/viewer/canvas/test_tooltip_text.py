from __future__ import annotations

import pytest

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import NodeDeviceConfiguration, ShardedDimension, ShardingSpec
from onnx_workbench.viewer.canvas.layout import layout
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.coloring import device_keys
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions
from onnx_workbench.viewer.canvas.scene.scene import Hit, Scene, request
from onnx_workbench.viewer.canvas.tooltip_text import sharding_lines, tip_of
from tests.viewer.canvas.graphs import long_chain

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application


def scene_of(graph, **options) -> Scene:
    drawing = build(graph, DrawingOptions(**options))
    return Scene(drawing, layout(request(drawing)))


def tip(scene, hit) -> list[str]:
    return tip_of(scene, hit, lambda value: value.type).splitlines()


def test_boxes_edges_rows_and_buttons_say_what_they_are(small):
    scene = scene_of(small.model().graph)
    conv = [box.title for box in scene.boxes].index("Conv")
    assert tip(scene, Hit(box=conv, part="header")) == ["Conv", "/block/conv"]
    weights, _, kernel = scene.boxes[conv].rows
    assert tip(scene, Hit(box=conv, part="row", row=weights)) == ["w", "float 8×3×3×3", "8×3×3×3, 864 B"]
    assert tip(scene, Hit(box=conv, part="row", row=kernel)) == ["kernel_shape = [3, 3]", "ints"]
    assert tip(scene, Hit(edge=scene.drawing.edges_of(small.values["x"])[0])) == ["x", "float 1×3×8×8"]
    assert tip(scene, Hit(box=conv, part="button", button="+")) == ["Open in place"]
    assert tip(scene, Hit()) == []


def test_a_group_lists_its_operators():
    scene = scene_of(long_chain(20, scopes=2).model().graph, groups=True)
    assert tip(scene, Hit(box=1, part="header")) == ["part0", "10 nodes: Relu 10"]


def test_sharding_is_reported_on_the_value(small):
    small.model()
    relu = list(small.graph.nodes)[1]
    spec = ShardingSpec("r", devices=(0, 1), dimensions=(ShardedDimension(1, ((None, 2),)),))
    configuration = NodeDeviceConfiguration("two", (spec,), pipeline_stage=1)
    SetField(relu, "device_configurations", (configuration,)).apply()
    assert sharding_lines(small.values["r"]) == ["two: devices 0, 1: axis 1 in 2"]
    assert sharding_lines(small.values["c"]) == []
    assert device_keys([relu]) == {relu: "stage 1"}
