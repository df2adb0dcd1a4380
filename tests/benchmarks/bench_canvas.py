"""What the canvas costs: open to drawn, frames at every zoom, hits, rubber band, exports, memory.

    python -m tests.benchmarks.bench_canvas [NODES ...]        default: 10000 100000

CPU milliseconds of this process, offscreen, 1600×1000. Ratios are against one full repaint of the window by Qt alone
(the yardstick), measured in the same run, so that machines and loads compare.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

from tests.viewer.canvas.painting import finish_painting, is_painted

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from onnx_workbench.model import schemas
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import (
    InsertNode,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
)
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import SILENT
from onnx_workbench.viewer.canvas.graph_view import GraphView
from onnx_workbench.viewer.canvas.paint.surface import SETTLE_SECONDS
from onnx_workbench.viewer.pictures.export import export_scene
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import load_theme

WIDTH, HEIGHT = 1600, 1000
ZOOMS = (None, 0.02, 0.05, 0.08, 0.15, 0.25, 0.35, 0.5, 1.0, 2.0)  # None: the whole graph
_OPERATORS = ("Conv", "Relu", "Add", "BatchNormalization", "Concat", "MatMul", "Softmax", "Transpose", "Reshape")


def deep_model(nodes: int, seed: int = 0) -> Model:
    """A long network with branches, some long edges, constants and shapes, and no scopes."""
    chance = random.Random(seed)
    graph = Graph("deep")
    kind = TensorType(ElementType.FLOAT, Shape((1, 64, 56, 56)))
    weights = ArrayTensor(np.zeros((64, 64, 3, 3), np.float32), name="w")
    values = [Value("x", kind, graph)]
    SetGraphInputs(graph, (values[0],)).apply()
    for index in range(nodes):
        op_type = chance.choice(_OPERATORS)
        inputs = [values[-1 if chance.random() < 0.7 else -min(len(values), chance.randrange(1, 6))]]
        if op_type in ("Add", "Concat", "MatMul"):
            inputs.append(values[-min(len(values), chance.randrange(1, 8 if chance.random() < 0.97 else 200))])
        if op_type == "Conv":
            inputs.append(Value(f"w{index}", None, graph))
            SetInitializer(graph, inputs[-1], weights).apply()
        output = Value(f"v{index}", kind, graph)
        InsertNode(graph, Node(op_type, tuple(inputs), (output,), name=f"{op_type}_{index}")).apply()
        values.append(output)
    SetGraphOutputs(graph, (values[-1],)).apply()
    return Model(graph, opset=17)


def wide_model(nodes: int, branches: int = 300) -> Model:
    """Many parallel branches between one split and one sum: the whole graph fills the window."""
    graph = Graph("wide")
    kind = TensorType(ElementType.FLOAT, Shape((1, 64)))
    start = Value("x", kind, graph)
    SetGraphInputs(graph, (start,)).apply()
    ends = []
    for branch in range(branches):
        value = start
        for step in range(nodes // branches):
            output = Value(f"b{branch}_{step}", kind, graph)
            op_type = _OPERATORS[(branch + step) % 3 * 3 + 1]
            InsertNode(graph, Node(op_type, (value,), (output,), name=f"n{branch}_{step}")).apply()
            value = output
        ends.append(value)
    total = Value("y", kind, graph)
    InsertNode(graph, Node("Sum", tuple(ends), (total,), name="sum")).apply()
    SetGraphOutputs(graph, (total,)).apply()
    return Model(graph, opset=17)


class Clock:
    """CPU time of calls, in ms."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def run(self, call: Callable[[], object]) -> None:
        began = time.process_time()
        call()
        self.times.append((time.process_time() - began) * 1e3)

    @property
    def median(self) -> float:
        return float(np.median(self.times))

    @property
    def high(self) -> float:
        """95th percentile."""
        return float(np.percentile(self.times, 95))


def yardstick() -> float:
    """Qt alone: fill the window and draw 10,000 small rectangles, one call each way."""
    pixmap = QPixmap(WIDTH, HEIGHT)
    rects = [QRectF(i % 160 * 10, i // 160 * 10, 8, 4) for i in range(10_000)]
    clock = Clock()

    def paint() -> None:
        pixmap.fill(QColor("white"))
        painter = QPainter(pixmap)
        painter.setBrush(QColor("gray"))
        painter.drawRects(rects)
        painter.end()

    for _ in range(15):
        clock.run(paint)
    return clock.median


def memory() -> float:
    """Resident memory in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def peak_memory() -> float:
    """The most memory that was ever resident, in MB, of all models so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def wait(view: GraphView) -> None:
    """Until the scene is there and painted."""
    application = QApplication.instance()
    assert application is not None
    while view.scenes.is_busy or view.scene is None or not is_painted(view):
        application.processEvents()
        time.sleep(0.001)


def frames(view: GraphView, action: Callable[[int], None], count: int = 40) -> Clock:
    """Each action with its frame; then the frames that sharpen the picture."""
    clock = Clock()
    for index in range(count):

        def frame(index: int = index) -> None:
            action(index)
            view.repaint()

        clock.run(frame)
        if index % 5 == 4:
            time.sleep(SETTLE_SECONDS)
            while not is_painted(view):
                clock.run(view.repaint)
    return clock


def measure_frames(view: GraphView, unit: float) -> None:
    """Pan and zoom at every zoom, in the middle of the graph and where most edges meet."""
    scene = view.scene
    assert scene is not None
    print(
        f"  {'zoom':>8} {'around':>8}  {'pan median':>10} {'p95':>6}  {'zoom median':>11} {'p95':>6}   "
        "CPU ms, in () of the yardstick"
    )
    busiest = int(np.bincount(scene.drawing.edges.reshape(-1)).argmax())
    left, top, width, height = scene.rect(busiest)
    places = {"middle": (scene.width / 2, scene.height / 2), "busiest": (left + width / 2, top + height / 2)}
    for zoom, (place, point) in product(ZOOMS, places.items()):
        if zoom is None and place == "busiest":
            continue
        if zoom is None:
            view.fit()
        else:
            view.zoom_to(zoom)
            view.centre_on(*point)
        finish_painting(view)
        start = view.zoom
        pan = frames(view, lambda i: view.pan_by((-1) ** (i // 10) * 23, (-1) ** (i // 10) * 37))
        turn = frames(view, lambda i: view.zoom_at(1.2 if i % 10 < 5 else 1 / 1.2, WIDTH / 2, HEIGHT / 2))
        print(
            f"  {start:8.4f} {place:>8}  {pan.median:10.2f} {pan.high:6.2f}  {turn.median:11.2f} {turn.high:6.2f}   "
            f"({pan.high / unit:.1f}, {turn.high / unit:.1f})",
            flush=True,
        )


def measure_hits(view: GraphView, unit: float) -> None:
    """Hit tests on boxes and the rubber band over everything."""
    scene = view.scene
    assert scene is not None
    chance = np.random.default_rng(0)
    points = scene.rects[chance.integers(0, len(scene.rects), 500), :2] + [10.0, 10.0]
    scene.hit(0, 0)
    clock = Clock()
    clock.run(lambda: [scene.hit(x, y) for x, y in points.tolist()])
    print(f"  hit test {clock.median / len(points) * 1e3:.0f} µs ({clock.median / len(points) / unit:.4f})")
    clock = Clock()
    for share in (0.1, 0.5, 1.0):
        clock.run(lambda share=share: scene.boxes_in(0, 0, scene.width, scene.height * share))
    print(f"  rubber band over 10 %, 50 %, all: {', '.join(f'{t:.1f}' for t in clock.times)} ms")


def measure_exports(view: GraphView, unit: float) -> None:
    """SVG, PNG and PDF of everything."""
    assert view.scene is not None
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("svg", "png", "pdf"):
            path = Path(folder) / f"graph.{suffix}"
            clock = Clock()
            clock.run(lambda path=path: export_scene(view.scene, path, load_theme("light"), progress=SILENT))
            size = path.stat().st_size / 1e6
            print(f"  {suffix} {clock.median / 1e3:.2f} s, {size:.1f} MB ({clock.median / unit:.0f})")


def measure(name: str, model: Model, unit: float) -> None:
    """Everything for one model."""
    before = memory()
    began = time.process_time()
    workspace = Workspace(Document(model), title=name)
    view = GraphView(workspace)
    view.expansion.set_grouped(False)
    view.resize(WIDTH, HEIGHT)
    view.show()
    wait(view)
    spent = (time.process_time() - began) * 1e3
    scene = view.scene
    assert scene is not None
    print(
        f"{name}: {len(scene.boxes):,} boxes, {len(scene.drawing.edges):,} edges, "
        f"{scene.width:.0f}×{scene.height:.0f} px"
    )
    print(
        f"  open to drawn {spent / 1e3:.2f} s CPU ({spent / unit:.0f}), "
        f"{memory() - before:+.0f} MB, {memory():.0f} MB in all"
    )
    view.minimap.set_wanted(True)
    measure_frames(view, unit)
    measure_hits(view, unit)
    measure_exports(view, unit)
    print(f"  {memory():.0f} MB at the end, {peak_memory():.0f} MB at most")
    workspace.close()
    view.close()
    view.deleteLater()


def main() -> None:
    """Measure deep and wide graphs of the sizes named on the command line."""
    application = QApplication.instance() or QApplication(["bench_canvas"])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_WORKBENCH_STATE"] = folder
        schemas.preload()
        unit = yardstick()
        print(f"yardstick {unit:.2f} ms")
        for nodes in [int(argument) for argument in sys.argv[1:]] or [10_000, 100_000]:
            measure(f"deep {nodes:,}", deep_model(nodes), unit)
            measure(f"wide {nodes:,}", wide_model(nodes), unit)
    del application


if __name__ == "__main__":
    main()
