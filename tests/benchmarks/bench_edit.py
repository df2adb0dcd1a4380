"""What one attribute edit, its undo and its redo cost in the window, repaint included.

    python -m tests.benchmarks.bench_edit [nodes …]

CPU time of the GUI thread from the edit until the picture is right again, next to what one frame at 60 Hz allows
(16.7 ms). Types and problems are worked out afterwards; the longest of these turns is printed too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.viewer.canvas.painting import is_painted

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.viewer.core.settings import Settings
from onnx_workbench.viewer.main_window import MainWindow
from tests.benchmarks.large_models import write_nodes_model

FRAME_MS = 16.7


def spin(condition: Callable[[], bool], seconds: float) -> float:
    """Run the event loop until a condition holds; the CPU milliseconds of the longest turn."""
    end, longest = time.perf_counter() + seconds, 0.0
    while not condition() and time.perf_counter() < end:
        began = time.thread_time()
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 0)
        longest = max(longest, time.thread_time() - began)
        time.sleep(0.0005)
    return longest * 1000


def measure(window: MainWindow, path: Path) -> None:
    """Open a model, edit one node of it, and print."""
    window.files.open([path])
    spin(lambda: window.tab is not None and window.tab.view.scene is not None, 60)
    tab = window.tab
    assert tab is not None
    view, workspace, document = tab.view, tab.workspace, tab.workspace.document
    spin(lambda: False, 8)
    node = next(node for place, node in enumerate(workspace.graph.nodes) if place == 50)
    workspace.navigation.reveal(node)
    view.zoom_to(1.0)

    def set_to(number: int) -> None:
        with document.edit("Set") as edit:
            edit.do(SetAttribute(node, "measured", make_attribute("measured", number)))

    def settled() -> bool:
        return is_painted(view) and not view.scenes.is_busy

    set_to(1)
    spin(lambda: False, 4)
    spent: dict[str, list[float]] = {"edit": [], "undo": [], "redo": []}
    later = 0.0
    for number in range(2, 7):
        for title, act in (("edit", lambda n=number: set_to(n)), ("undo", document.undo), ("redo", document.redo)):
            began = time.thread_time()
            act()
            QApplication.processEvents()  # what is beside the graph is painted even where that stays as it is
            spin(settled, 30)
            spent[title].append((time.thread_time() - began) * 1000)
            later = max(later, spin(lambda: False, 0.5))
    later = max(later, spin(lambda: False, 3))
    for title, values in spent.items():
        print(f"  {title}: {median(values):6.1f} ms, {median(values) / FRAME_MS:5.2f} of a frame")
    print(f"  longest turn afterwards: {later:6.1f} ms, {later / FRAME_MS:5.2f} of a frame")
    document.mark_saved()  # closing asks nothing then
    window.files.close(tab)


def main() -> None:
    """Measure chains of the sizes given."""
    sizes = [int(text) for text in sys.argv[1:]] or [1_000, 10_000, 100_000]
    application = QApplication([])
    with tempfile.TemporaryDirectory() as folder:
        window = MainWindow(Settings(file=Path(folder, "settings.ini")))
        window.resize(1280, 800)
        window.show()
        for size in sizes:
            print(f"{size} nodes")
            path = Path(folder, f"{size}.onnx")
            write_nodes_model(path, size)
            measure(window, path)
    sys.stdout.flush()
    del application
    os._exit(0)  # nothing to save; threads of the last model need not end in order


if __name__ == "__main__":
    main()
