"""How long edits take on a large model, until the window is painted again.

    python tests/benchmarks/bench_structural_edits.py [nodes [flat|wide]]      flat: without groups
                                                                             wide: all use one value

The aim is one attribute edit, undo and redo on 100,000 nodes in well under 16 ms each, repaint included; edits of
the structure may take about 50 ms before the layout, which runs in the background. "Until drawn" is all CPU time of
the program, other threads included, until the graph is shown as it is then; a "turn" is the longest time meanwhile
that the GUI thread did not look at what the person does. The yardstick is one pass over the nodes
that reads each name.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).parents[2]))

from PySide6.QtWidgets import QApplication

from onnx_workbench.model import schemas
from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.run.workspace import Workspace

_ROUNDS = 5


def chain(count: int) -> Model:
    """LeakyRelu after LeakyRelu, in scopes of a hundred."""
    graph = Graph("large")
    value = Value("x", TensorType(ElementType.FLOAT, Shape((1, 8))), graph)
    SetGraphInputs(graph, (value,)).apply()
    for index in range(count):
        output = Value(f"v{index}", None, graph)
        node = Node("LeakyRelu", (value,), (output,), name=f"/block{index // 100}/relu{index}")
        InsertNode(graph, node).apply()
        value = output
    SetGraphOutputs(graph, (value,)).apply()
    return Model(graph, opset=21)


def star(count: int) -> Model:
    """So many nodes that all use the output of one; edits are made on that one."""
    model = chain(1)
    first = model.graph.nodes.first
    assert first is not None
    for index in range(count):
        output = Value(f"w{index}", None, model.graph)
        node = Node("Neg", first.outputs, (output,), name=f"/block{index // 100}/neg{index}")
        InsertNode(model.graph, node).apply()
    return model


def settle(app: QApplication, tab: DocumentTab, seconds: float = 120.0) -> float:
    """Until the graph is drawn as it is now; the milliseconds of the longest turn of the GUI thread meanwhile."""
    end = time.perf_counter() + seconds
    longest = 0.0
    while (tab.view.scene is None or tab.view.scenes.is_busy) and time.perf_counter() < end:
        begin = time.thread_time()
        app.processEvents()
        longest = max(longest, time.thread_time() - begin)
    return longest * 1000


def measure(app: QApplication, tab: DocumentTab, act: Callable[[], object]) -> float:
    """Milliseconds the GUI thread works on an edit, the events it causes and one painted frame.

    Its own time, not the clock's: other programs of a busy machine do not count.
    """
    begin = time.thread_time()
    act()
    app.sendPostedEvents()
    tab.view.repaint()
    return (time.thread_time() - begin) * 1000


def main() -> None:
    """Print the median and the worst of each."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    schemas.preload()
    window = MainWindow()
    window.resize(1280, 800)
    window.show()
    wide = "wide" in sys.argv
    model = star(count) if wide else chain(count)
    begin = time.thread_time()
    names = [node.name for node in model.graph.nodes]
    yardstick = (time.thread_time() - begin) * 1000
    tab = DocumentTab(Workspace(Document(model), window.settings, title="large"))
    window.area.add_tab(tab)
    settle(app, tab)
    if "flat" in sys.argv:
        tab.view.expansion.set_grouped(False)
        settle(app, tab)
    document = tab.workspace.document
    node = list(model.graph.nodes)[0 if wide else len(names) // 2]
    tab.workspace.selection.set([node])
    settle(app, tab)
    print(f"{count:,} nodes; one pass over all names {yardstick:.1f} ms")

    def attribute(number: int) -> None:
        with document.edit("Set alpha") as edit:
            set_attribute(edit, node, "alpha", number / 7 + 0.1)

    def rename(number: int) -> None:
        value = node.outputs[0]
        assert value is not None
        with document.edit("Rename") as edit:
            values.rename_value(edit, value, f"name{number}")

    def duplicate(_number: int) -> None:
        with document.edit("Duplicate") as edit:
            nodes.duplicate(edit, [node])

    def insert(_number: int) -> None:
        value = node.outputs[0]
        assert value is not None
        with document.edit("Insert") as edit:
            nodes.insert_on_edge(edit, value, "Relu")

    def delete(number: int) -> None:
        victim = node if wide else list(model.graph.nodes)[number + 10]
        with document.edit("Delete") as edit:
            nodes.delete_and_bridge(edit, [victim])

    for title, act in (("attribute", attribute), ("rename", rename), ("duplicate", duplicate), ("insert", insert),
                       ("bridge", delete)):  # fmt: skip
        times: dict[str, list[float]] = {name: [] for name in ("edit", "undo", "redo", "edit until drawn", "turn")}
        for number in range(_ROUNDS):
            begin = time.process_time()
            times["edit"].append(measure(app, tab, partial(act, number)))
            times["turn"].append(settle(app, tab))
            times["edit until drawn"].append((time.process_time() - begin) * 1000)
            times["undo"].append(measure(app, tab, document.undo))
            settle(app, tab)
            times["redo"].append(measure(app, tab, document.redo))
            settle(app, tab)
            document.undo()  # so that each round finds the same
            settle(app, tab)
        row = "   ".join(f"{k} {statistics.median(v):6.2f} (worst {max(v):6.2f})" for k, v in times.items())
        print(f"{title:>10}: {row} ms   {statistics.median(times['edit']) / yardstick:.2f} × pass")
    for other in window.tabs():
        window.area.remove_tab(other)
    window.close()


if __name__ == "__main__":
    main()
