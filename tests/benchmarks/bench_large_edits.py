"""How long edits of every node, their undo and their redo hold the window.

    python -m tests.benchmarks.bench_large_edits [nodes …]

The longest time that the GUI thread handled no event, in elapsed milliseconds; in brackets those of its processor,
which count on a busy machine. Budget: 250 ms at 100,000 nodes. Offscreen, 1280×800.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.workflows.edit_many import change_each
from tests.attack.heartbeat import Heartbeat
from tests.benchmarks.bench_budget import in_window, spin

_TIMEOUT_SECONDS = 600.0  # for one edit on a busy machine


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


if __name__ == "__main__":
    in_window(measure, 100_000)
