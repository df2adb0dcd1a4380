"""The time budget of the window: frames, and the reaction to an edit, with nothing running and beside a reader.

    python -m tests.benchmarks.bench_budget [nodes …]

A frame is one notch of the mouse wheel until it is painted. An edit is setting an attribute until the picture is right
again; beside a reader, or while a save is prepared, it first waits for that. Budget: frames within 16 ms (95 %) with
nothing running, 40 ms beside a reader; edits within 100 ms up to 5,000 nodes, 250 ms at 100,000. Elapsed
milliseconds, offscreen, 1280×800; in brackets the processor time of the GUI thread, which counts on a busy machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.viewer.canvas.painting import is_painted

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.core.garbage_collection import Collector
from onnx_workbench.viewer.core.readers import ModelReader
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.main_window import MainWindow
from tests.benchmarks.large_models import write_nodes_model


def spin(condition: Callable[[], bool], seconds: float) -> None:
    """Run the event loop until a condition holds."""
    end = time.perf_counter() + seconds
    while not condition() and time.perf_counter() < end:
        QApplication.processEvents()


def timed(act: Callable[[], object], tab: DocumentTab) -> tuple[float, float]:
    """Milliseconds from an act until the picture is right, and those of the GUI thread's processor."""
    began, worked = time.perf_counter(), time.thread_time()
    act()
    QApplication.processEvents()
    spin(lambda: is_painted(tab.view) and not tab.view.scenes.is_busy, 10)
    return 1000 * (time.perf_counter() - began), 1000 * (time.thread_time() - worked)


def report(title: str, times: list[tuple[float, float]]) -> None:
    """Print the median and the 95th percentile."""
    elapsed, worked = (sorted(column) for column in zip(*times, strict=True))
    half, most = len(times) // 2, int(0.95 * (len(times) - 1))
    middle, slow = f"{elapsed[half]:6.1f} ({worked[half]:5.1f})", f"{elapsed[most]:6.1f} ({worked[most]:5.1f})"
    print(f"  {title:28} median {middle}  95 % {slow}")


def measure(window: MainWindow, tab: DocumentTab) -> None:
    """Print what frames and edits take."""
    document = tab.workspace.document
    nodes = tab.workspace.graph.nodes
    tab.workspace.navigation.reveal(nodes[50])
    tab.view.zoom_to(1.0)
    spin(lambda: False, 1)

    def notch(down: int) -> None:
        position = QPointF(400, 300)
        wheel = QWheelEvent(
            position, tab.view.mapToGlobal(position), QPoint(0, 0), QPoint(0, -120 * down),
            Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(tab.view, wheel)

    def set_to(number: int) -> None:
        with document.edit("Set") as edit:
            edit.do(SetAttribute(nodes[50], "measured", make_attribute("measured", number)))

    def read(progress: Progress) -> None:
        while True:
            for node in progress.paced(nodes):
                assert node.attributes is not None

    reader = ModelReader(tab)
    for beside in ("nothing running", "beside a reader"):
        if beside == "beside a reader":
            reader.start(read, lambda _: None)
            spin(lambda: False, 0.2)
        report(f"frames, {beside}", [timed(lambda n=n: notch(1 if n % 40 < 20 else -1), tab) for n in range(80)])
        edits = []
        for number in range(10):
            edits.append(timed(lambda n=number: set_to(n), tab))
            spin(lambda: False, 0.3)
        report(f"edits, {beside}", edits)
    reader.stop()
    edits = []
    for number in range(5):
        window.files.saver.save(tab)
        spin(lambda: False, 0.1)
        edits.append(timed(lambda n=number: set_to(100 + n), tab))
        spin(lambda: not window.files.saver.is_writing(tab), 30)
    report("edits, a save is prepared", edits)


def in_window(measure: Callable[[MainWindow, DocumentTab], object], *default_sizes: int) -> None:
    """Measure chains of the sizes given, each opened in the program's window, and end the process."""
    sizes = [int(text) for text in sys.argv[1:]] or default_sizes
    application = Application()
    collector = Collector(application)
    collector.start()
    window = application.start([])
    window.resize(1280, 800)
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            print(f"{size} nodes")
            path = Path(folder, f"{size}.onnx")
            write_nodes_model(path, size)
            window.files.open([path])
            spin(lambda: window.tab is not None and window.tab.view.scene is not None, 120)
            tab = window.tab
            assert tab is not None
            spin(lambda: False, 10)  # what follows opening
            measure(window, tab)
            tab.workspace.document.mark_saved()
            window.files.close(tab)
    sys.stdout.flush()
    os._exit(0)  # nothing to save; threads of the last model need not end in order


if __name__ == "__main__":
    in_window(measure, 5_000, 100_000)
