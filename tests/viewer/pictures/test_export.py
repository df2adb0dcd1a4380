from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Cancelled, Progress
from onnx_workbench.viewer.canvas.layout import layout
from onnx_workbench.viewer.canvas.paint.painter import frame_colors
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.pictures import export
from onnx_workbench.viewer.pictures.export import export_scene, in_columns, part_of, render_graph
from onnx_workbench.viewer.pictures.png import PngWriter
from onnx_workbench.viewer.style.theme import load_theme, operator_category, theme
from tests.model import builders
from tests.viewer.canvas.graphs import HOSTILE_NAMES, Graphs, long_chain, residual

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application

SVG = "{http://www.w3.org/2000/svg}"


def scene_of(graph, options=None) -> Scene:
    drawing = build(graph, options or DrawingOptions())
    return Scene(drawing, layout(request(drawing)))


def texts(path: Path) -> list[str]:
    return ["".join(element.itertext()) for element in ET.parse(path).getroot().iter(f"{SVG}text")]


def pixels(path: Path) -> np.ndarray:
    Image.MAX_IMAGE_PIXELS = None
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_svg_holds_every_text(small, tmp_path):
    path = tmp_path / "graph.svg"
    result = render_graph(small.model().graph, path)
    assert {"Conv", "Relu", "Add", "x", "y", "kernel_shape", "[3, 3]", "8×3×3×3"} <= set(texts(path))
    root = ET.parse(path).getroot()
    assert (float(root.get("width")), float(root.get("height"))) == (result.width, result.height)
    assert len(list(root.iter(f"{SVG}polygon"))) == 5


def test_each_thing_in_an_svg_has_one_class_that_says_all_about_it(branching_model, tmp_path):
    """There are readers that know one class of an element only: to them, edges from outside a body were filled."""
    path = tmp_path / "graph.svg"
    closed = build(branching_model.graph)
    inside = {box.key for box in closed.boxes if box.title == "If"}
    drawing = build(branching_model.graph, expanded=inside)
    assert drawing.dashed.any()
    export_scene(Scene(drawing, layout(request(drawing))), path, load_theme("dark"))
    root = ET.parse(path).getroot()
    rules = dict(re.findall(r"\.(\w+)\{([^}]*)\}", root.find(f"{SVG}style").text))
    classes = {element.get("class") for element in root.iter() if element.get("class")}
    assert classes <= set(rules)
    dashed = [rules[name] for name in classes if "dasharray" in rules[name]]
    assert len(dashed) == 1
    assert rules["e"] in dashed[0]
    text = path.read_text("utf-8")
    assert text.rindex("<polygon") < text.index(">then_branch<")  # no edge strikes through the title of a body
    assert len([e for e in root.iter(f"{SVG}path") if rules.get(e.get("class")) == dashed[0]]) == drawing.dashed.sum()


def test_nested_bodies_have_the_shades_of_the_canvas_in_an_svg(branching_model, tmp_path):
    colors = load_theme("light")
    keys = {box.key for box in build(branching_model.graph).boxes if box.title == "If"}
    drawing = build(branching_model.graph, expanded=keys)
    scene = Scene(drawing, layout(request(drawing)))
    containers = [box for box, kind in enumerate(scene.kinds) if kind == Kind.CONTAINER]
    assert {scene.depths[box] % 2 for box in containers} == {0, 1}
    path = tmp_path / "graph.svg"
    export_scene(scene, path, colors)
    root = ET.parse(path).getroot()
    rules = dict(re.findall(r"\.(\w+)\{([^}]*)\}", root.find(f"{SVG}style").text))
    frames = [e for e in root.iter(f"{SVG}rect") if colors.group_border.name() in rules.get(e.get("class"), "")]
    shades = [re.search("fill:(#\\w+)", rules[frame.get("class")])[1] for frame in frames]
    assert shades == [frame_colors(colors)[scene.depths[box] % 2].name() for box in containers]
    operators = [scene.boxes[box].category for box in containers if scene.boxes[box].category]
    assert operators
    for category in operators:
        assert rules[f"k{category}"] == f"fill:{colors.header(category).name()}"


@pytest.mark.parametrize("options", [DrawingOptions(), DrawingOptions(names=True), DrawingOptions(groups=True)])
def test_svg_of_hostile_names_is_well_formed(options, tmp_path):
    g = Graphs()
    g.input("x", "<dim>")
    for number, name in enumerate(HOSTILE_NAMES):
        g.node(name or "Relu", ["x"], [f"{name}{number}"], name=f"{name}/{number}", a=name or "&")
    g.outputs(*[f"{name}{number}" for number, name in enumerate(HOSTILE_NAMES)])
    path = tmp_path / "graph.svg"
    export_scene(scene_of(g.model().graph, options), path, load_theme("light"))
    found = texts(path)
    assert found
    assert not re.search(r"[\x00-\x08\x1b\u202e]", "".join(found))


def test_png_shows_the_graph_in_the_themes_colours(small, tmp_path):
    for name in ("light", "dark"):
        theme = load_theme(name)
        path = tmp_path / f"{name}.png"
        result = render_graph(small.model().graph, path, theme=name)
        image = pixels(path)
        assert image.shape == (result.height, result.width, 3)
        assert tuple(image[0, 0]) == theme.canvas.getRgb()[:3]
        header = np.array(theme.header("layer").getRgb()[:3])
        assert (image == header).all(2).sum() > 500


def test_png_made_in_bands_is_the_same(small, tmp_path, monkeypatch):
    scene = scene_of(small.model().graph)
    export_scene(scene, tmp_path / "whole.png", load_theme("light"))
    monkeypatch.setattr(export, "_BAND_PIXELS", 20_000)
    export_scene(scene, tmp_path / "bands.png", load_theme("light"))
    whole, bands = pixels(tmp_path / "whole.png"), pixels(tmp_path / "bands.png")
    assert np.abs(whole.astype(int) - bands).max() <= 40  # antialiasing rounds differently at borders of bands
    assert (whole != bands).any(2).mean() < 0.001


def test_a_huge_graph_is_shrunk_to_the_cap(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "PNG_SIDE", 400)
    result = render_graph(long_chain(60).model().graph, tmp_path / "tall.png")
    assert result.height <= 400
    assert result.scale < 1
    assert pixels(tmp_path / "tall.png").shape[0] == result.height
    percent = round(result.scale * 100)
    assert result.loss == (f"It was shrunk to {percent} % to fit into a PNG, too small to read. An SVG has no limit.")


def test_a_long_graph_is_whole_and_vectors_in_a_pdf(tmp_path):
    """Longer than a page may be: every box is drawn, none of it as an image."""
    path = tmp_path / "long.pdf"
    scene = scene_of(long_chain(700).model().graph, DrawingOptions(direction="right"))
    result = export_scene(scene, path, load_theme("light"))
    assert result.scale < 1
    assert "zooming in" in result.loss
    streams = re.findall(rb"stream\r?\n(.*?)endstream", path.read_bytes(), re.DOTALL)
    content = b"".join(_inflated(stream) for stream in streams)
    assert content.count(b"\nBT\n") > 700, "a title each, as text"
    assert b"/Subtype /Image" not in path.read_bytes()


def _inflated(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.parametrize("direction", ["down", "right"])
def test_pdf_is_one_page_of_the_graphs_shape(small, tmp_path, direction):
    path = tmp_path / "graph.pdf"
    result = render_graph(small.model().graph, path, direction=direction)
    data = path.read_bytes()
    assert data.startswith(b"%PDF")
    boxes = re.findall(rb"/MediaBox \[([^\]]+)\]", data)
    assert len(boxes) == 1
    size = [float(number) for number in boxes[0].split()]
    assert size[2] == pytest.approx(result.width, abs=1)
    assert size[3] == pytest.approx(result.height, abs=1)
    assert (result.width > result.height) == (direction == "right")


def test_an_area_and_a_selection(small, tmp_path):
    scene = scene_of(small.model().graph)
    conv = [box.title for box in scene.boxes].index("Conv")
    left, top, right, bottom = scene.corners[conv].tolist()
    area = (left - 10, top - 10, right + 10, bottom + 10)
    result = export_scene(scene, tmp_path / "view.svg", load_theme("light"), area=area)
    assert (result.width, result.height) == (round(right - left + 20), round(bottom - top + 20))
    export_scene(scene.only(np.array([conv])), tmp_path / "selection.svg", load_theme("light"))
    assert "Relu" not in texts(tmp_path / "selection.svg")
    assert "Conv" in texts(tmp_path / "selection.svg")


def test_what_cannot_be_done_is_said(small, tmp_path):
    scene = scene_of(small.model().graph)
    theme = load_theme("light")
    with pytest.raises(ModelError, match=r"\.png, \.svg, \.pdf"):
        export_scene(scene, tmp_path / "graph.bmp", theme)
    for suffix in export.SUFFIXES:
        with pytest.raises(ModelError, match="cannot be written"):
            export_scene(scene, tmp_path / "no" / "folder" / f"graph{suffix}", theme)
    with pytest.raises(ModelError, match="nothing to draw"):
        export_scene(scene_of(Graphs().model().graph), tmp_path / "empty.svg", theme)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_cancelled_export_leaves_the_old_file(small, tmp_path, suffix):
    path = tmp_path / f"graph{suffix}"
    path.write_text("old")
    scene = scene_of(long_chain(1200).model().graph)
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        export_scene(scene, path, load_theme("light"), progress=progress)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_picture_does_not_replace_a_pipe(small, tmp_path, suffix):
    path = tmp_path / f"graph{suffix}"
    os.mkfifo(path)
    with pytest.raises(ModelError, match="is a device or a pipe"):
        export_scene(scene_of(long_chain(3).model().graph), path, load_theme("light"))
    assert path.is_fifo()


def test_png_bands_must_add_up(tmp_path):
    with open(tmp_path / "x.png", "wb") as file:
        writer = PngWriter(file, 4, 3)
        writer.write(np.zeros((2, 4, 3), np.uint8))
        with pytest.raises(ValueError, match="2 rows written; expected 3"):
            writer.close()
        with pytest.raises(ValueError, match="expected 12"):
            writer.write(np.zeros((1, 5, 3), np.uint8))


def test_png_rows_come_back(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)
    with open(tmp_path / "x.png", "wb") as file:
        writer = PngWriter(file, 5, 7)
        for start in (0, 3, 4):
            writer.write(rows[start : {0: 3, 3: 4, 4: 7}[start]])
        writer.close()
    assert (pixels(tmp_path / "x.png") == rows).all()


def test_a_real_model_is_rendered(real_models, tmp_path):
    from onnx_workbench.model.io.reader.read import load

    graph = load(real_models / "bert_mini_functions" / "model.onnx").graph
    render_graph(graph, tmp_path / "bert.svg", direction="right", theme="dark")
    assert texts(tmp_path / "bert.svg").count("MatMul") > 10


def test_parts_of_a_canvas(show, small):
    view = show(small.model())
    assert part_of(view, "all") == (view.scene, None, None)
    assert part_of(view, "view") == (view.scene, view.viewport.area, None)
    part, area, _ = part_of(view, "selection", [small.values["c"]])
    assert sorted(box.title for box in part.boxes) == ["Add", "Conv", "Relu"]
    assert area is None
    with pytest.raises(ModelError, match="Nothing in this graph is selected"):
        part_of(view, "selection")


def test_an_export_runs_in_a_thread(qtbot, show, small, tmp_path):
    view = show(small.model())
    scene = view.scene
    for suffix in export.SUFFIXES:
        path = tmp_path / f"graph{suffix}"
        with qtbot.waitSignal(view.workspace.tasks.ended):
            view.workspace.tasks.start("Export", lambda progress, path=path: export_scene(scene, path, theme()))
        assert path.stat().st_size > 500


@pytest.mark.parametrize(("groups", "cards"), [(None, 0), (True, 3), (False, 0)])
def test_a_graph_without_scopes_can_be_drawn_as_its_blocks(tmp_path, groups, cards):
    path = tmp_path / "blocks.svg"
    render_graph(residual(3).model().graph, path, groups=groups)
    text = path.read_text("utf-8")
    assert text.count("Exp-Relu-Tanh") == cards
    assert ("Softmax" in text, ">Tanh</text>" in text) == (True, not cards)


def test_a_large_graph_is_drawn_as_its_blocks(tmp_path):
    path = tmp_path / "blocks.svg"
    render_graph(residual(14).model().graph, path)
    assert "Exp-Relu-Tanh" not in path.read_text("utf-8")  # small
    render_graph(residual(501).model().graph, path)
    text = path.read_text("utf-8")
    assert text.count("Exp-Relu-Tanh") == 1
    assert "Exp-Relu-Tanh ×501" in text
    assert "501 × 4 nodes" in text


def test_labels_wider_than_the_boxes_are_whole(tmp_path):
    """The value between two narrow nodes has a long type."""
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    g (x) => (y) <float[batch_of_many, sequence_of_words] m> { m = Relu (x)  y = Relu (m) }
    """
    path = tmp_path / "narrow.png"
    render_graph(builders.model(text).graph, path)
    drawn = pixels(path)
    ground = drawn[0, 0]
    assert (drawn[:, :4] == ground).all()
    assert (drawn[:, -4:] == ground).all()


def test_the_whole_of_a_slender_graph_is_exported_in_columns():
    scene = scene_of(long_chain(200).model().graph)
    folded = in_columns(scene)
    assert folded.width > 3 * scene.width
    assert folded.height < scene.height / 3
    assert [box.key for box in folded.boxes] == [box.key for box in scene.boxes]
    assert len(np.unique(folded.rects[:, :2], axis=0)) == len(scene.boxes)
    assert in_columns(folded) is folded
    short = scene_of(residual(2).model().graph)
    assert in_columns(short) is short
    across = scene_of(long_chain(200).model().graph, DrawingOptions(direction="right"))
    assert in_columns(across).width < across.width / 3


@pytest.mark.long
def test_a_picture_of_a_slender_graph_can_be_read_and_has_every_box(tmp_path):
    graph = long_chain(200).model().graph
    for suffix in ("png", "pdf"):
        written = render_graph(graph, tmp_path / f"graph.{suffix}")
        assert written.scale >= 1
        assert written.height < 3 * written.width
    color = load_theme("light").header(operator_category("", "Relu"))
    image = pixels(tmp_path / "graph.png")
    is_header = (image == (color.red(), color.green(), color.blue())).all(2)
    height, width = scene_of(graph).corners[1, 2:] - scene_of(graph).corners[1, :2]
    boxes = is_header.sum() / (height * width * render_graph(graph, tmp_path / "graph.png").scale ** 2)
    assert boxes == pytest.approx(200, rel=0.25)  # the titles are of another colour


def test_an_svg_has_each_box_once_and_each_edge_whole(tmp_path):
    scene = in_columns(scene_of(long_chain(300).model().graph))
    whole = export_scene(scene, tmp_path / "graph.svg", load_theme("light"))
    picture = export_scene(scene, tmp_path / "graph.pdf", load_theme("light"))
    assert whole.width / whole.height == pytest.approx(picture.width / picture.height, rel=0.02)
    root = ET.parse(tmp_path / "graph.svg").getroot()
    assert sum(text == "Relu" for text in texts(tmp_path / "graph.svg")) == 300
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "e"]) == len(scene.drawing.edges)
