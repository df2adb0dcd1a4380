"""How long edits of every node, their undo and their redo hold the window.

    python -m tests.benchmarks.bench_large_edits [nodes]

The longest time that the GUI thread handled no event, in elapsed milliseconds; in brackets those of its processor,
which count on a busy machine. Budget: 250 ms at 100,000 nodes. Offscreen, 1280×800.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.core.garbage_collection import Collector
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.workflows.edit_many import change_each
from tests.attack.heartbeat import Heartbeat
from tests.benchmarks.large_models import write_nodes_model

_TIMEOUT_SECONDS = 600.0  # for one edit on a busy machine


def spin(condition: Callable[[], bool], seconds: float) -> None:
    """Run the event loop until a condition holds."""
    end = time.perf_counter() + seconds
    while not condition() and time.perf_counter() < end:
        QApplication.processEvents()
        time.sleep(0.001)


def measure(window: MainWindow, tab: DocumentTab) -> None:
    """Print the longest stall of each edit, its undo and its redo."""
    workspace, run = tab.workspace, window.actions_binding.run
    document, nodes = workspace.document, list(workspace.graph.nodes)
    heartbeat = Heartbeat()

    def report(title: str, act: Callable[[], object]) -> None:
        revision = document.revision
        heartbeat.reset()
        act()
        spin(lambda: document.revision != revision and not workspace.tasks.making("edit"), _TIMEOUT_SECONDS)
        spin(lambda: False, 3)  # what follows the edit
        worst = heartbeat.worst
        print(f"  {title:24} {1000 * worst.seconds:7.0f} ({1000 * worst.busy:5.0f}) ms", flush=True)

    def set_all() -> None:
        change_each(workspace, "Set", nodes, lambda edit, node: set_attribute(edit, node, "measured", 0.5))

    for title, act in (
        ("node names", lambda: run("model.node_names")),
        ("value names", lambda: run("model.value_names")),
        ("an attribute", set_all),
    ):
        report(title, act)
        report(f"{title}, undo", document.undo)
        report(f"{title}, redo", document.redo)
        document.undo()
        spin(lambda: False, 3)
    heartbeat.stop()


def main() -> None:
    """Measure a chain of so many nodes."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    application = Application()
    collector = Collector(application)
    collector.start()
    window = application.start([])
    window.resize(1280, 800)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.onnx")
        write_nodes_model(path, count)
        window.files.open([path])
        spin(lambda: window.tab is not None and window.tab.view.scene is not None, 120)
        assert window.tab is not None
        spin(lambda: False, 10)
        print(f"{count} nodes")
        measure(window, window.tab)
    sys.stdout.flush()
    os._exit(0)  # nothing to save; threads of the model need not end in order


if __name__ == "__main__":
    main()
