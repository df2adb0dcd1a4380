"""Whatever the onnx package and the shared folder hold can be drawn, laid out, hit and written."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from onnx_workbench.model.io.reader.read import load
from onnx_workbench.viewer.canvas.layout import layout
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.pictures.export import export_scene
from onnx_workbench.viewer.style.theme import load_theme

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application


def check(graph, tmp_path) -> None:
    closed = build(graph, DrawingOptions(direction="right", names=True))
    opened = build(graph, expanded={box.key for box in closed.boxes if box.buttons})
    for drawing in (closed, opened):
        scene = Scene(drawing, layout(request(drawing)))
        for index in range(0, len(scene.boxes), 11):
            left, top, width, height = scene.rect(index)
            hit = scene.hit(left + width / 2, top + height / 2)
            assert hit is not None
            assert hit.box == index or scene.kinds[index] == Kind.CONTAINER
    if scene.boxes:
        export_scene(scene, tmp_path / "graph.svg", load_theme("light"))
        ET.parse(tmp_path / "graph.svg")


@pytest.mark.long
def test_models_of_the_onnx_package(onnx_models, tmp_path):
    for path in onnx_models[::4]:
        for graph in load(path).graphs():
            check(graph, tmp_path)


def test_models_of_the_shared_folder(real_models, tmp_path):
    for path in real_models.files():
        graph = load(path).graph
        if len(graph.nodes) < 500:
            check(graph, tmp_path)
