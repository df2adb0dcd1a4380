"""How long selecting takes to show in the inspector, and an edit, undo and redo with it open, by size of the model.

The yardstick is the same on a graph of 1,000 nodes: neither may grow with the model.
"""

from __future__ import annotations

import os
import statistics
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from onnx_workbench.model import schemas
from onnx_workbench.model.edits import attributes
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.viewer.inspector.panel import InspectorPanel
from onnx_workbench.viewer.run.workspace import Workspace


def chain(count: int) -> Model:
    """A chain of alternating operators with attributes."""
    graph = Graph("chain")
    value = Value("x")
    SetGraphInputs(graph, (value,)).apply()
    for number in range(count):
        output = Value(f"v{number}")
        op_type = "Elu" if number % 2 else "Softmax"
        given = make_attribute("alpha", 0.5) if number % 2 else make_attribute("axis", 1)
        node = Node(op_type, (value,), (output,), name=f"node {number}", attributes={given.name: given})
        InsertNode(graph, node).apply()
        value = output
    return Model(graph, opset=18)


def milliseconds(work, rounds: int = 40) -> float:
    """The median of several runs; the first is left out."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])


def measure(application: QApplication, count: int) -> dict[str, float]:
    """Figures for a chain of so many nodes."""
    workspace = Workspace(Document(chain(count)), title="chain")
    panel = InspectorPanel(workspace)
    panel.resize(380, 800)
    panel.show()
    application.processEvents()
    nodes = [node for node, _ in zip(workspace.model.graph.nodes, range(1000), strict=False)]
    others = iter(nodes * 10)

    def select() -> None:
        workspace.selection.set([next(others)])
        panel.tree.viewport().repaint()

    found = {"select a node": milliseconds(select)}
    elu = nodes[1]
    workspace.selection.set([elu])
    numbers = iter(range(10_000))

    def edit() -> None:
        with workspace.document.edit("Set alpha") as transaction:
            attributes.set_attribute(transaction, elu, "alpha", next(numbers) / 7.0)
        panel.tree.viewport().repaint()

    def undo_redo() -> None:
        workspace.document.undo()
        workspace.document.redo()
        panel.tree.viewport().repaint()

    found["edit an attribute"] = milliseconds(edit)
    found["undo and redo it"] = milliseconds(undo_redo)
    graph, model = workspace.model.graph, workspace.model

    def graph_and_model() -> None:
        workspace.selection.set([graph])
        workspace.selection.set([model])

    found["show graph, then model"] = milliseconds(graph_and_model, 10)
    found["select 1,000 nodes"] = milliseconds(
        lambda: (workspace.selection.set(nodes[:1]), workspace.selection.set(nodes)), 3
    )
    workspace.close()
    return found


def main() -> None:
    """Print milliseconds for a small and a large model, and their ratio."""
    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    schemas.preload()
    small, large = measure(application, 1_000), measure(application, 100_000)
    print(f"{'':28}{'1,000 nodes':>12}{'100,000':>12}{'ratio':>8}")
    for name, value in small.items():
        print(f"{name:28}{value:9.2f} ms{large[name]:9.2f} ms{large[name] / value:8.2f}")


if __name__ == "__main__":
    main()
