"""The time budget of the window: frames and edits, with nothing running, beside a reader and while a file is saved.

    python -m tests.benchmarks.bench_window [nodes …]

A frame is one notch of the mouse wheel until it is painted. An edit, its undo and its redo last until the picture is
right again; beside a reader, or while a save is prepared, an edit first waits for that. For edits of every node it is
the longest time that the GUI thread handled no event. Budget: frames within 16 ms (95 %) with nothing running, 40 ms
beside a reader; edits within 100 ms up to 5,000 nodes, 250 ms at 100,000. Elapsed milliseconds, offscreen, 1280×800;
in brackets the processor time of the GUI thread, which counts on a busy machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.viewer.canvas.painting import is_painted

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.program.garbage_collection import Collector
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.workflows.edit_many import change_each
from tests.attack.heartbeat import Heartbeat
from tests.benchmarks.large_models import write_nodes_model

_TIMEOUT_SECONDS = 600.0  # for one edit on a busy machine


def spin(condition: Callable[[], bool], seconds: float) -> None:
    """Run the event loop until a condition holds."""
    end = time.perf_counter() + seconds
    while not condition() and time.perf_counter() < end:
        QApplication.processEvents()
        time.sleep(0.001)  # waiting is no work of the GUI thread


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
    print(f"  {title:34} median {middle}  95 % {slow}")


def measure(window: MainWindow, tab: DocumentTab) -> None:
    """Print what frames and edits take."""
    node = tab.workspace.graph.nodes[50]
    tab.workspace.navigation.reveal(node)
    tab.view.zoom_to(1.0)
    spin(lambda: False, 1)
    measure_frames(tab, "nothing running")
    measure_edits(tab, node)
    reader = ModelReader(tab)
    reader.start(lambda progress: _read_forever(tab, progress), lambda _: None)
    spin(lambda: False, 0.2)
    measure_frames(tab, "beside a reader")
    report("an attribute, beside a reader", [timed(_setting(tab, node, number), tab) for number in range(10)])
    reader.stop()
    times = []
    for number in range(5):
        window.files.saver.save(tab)
        spin(lambda: False, 0.1)
        times.append(timed(_setting(tab, node, 100 + number), tab))
        spin(lambda: not window.files.saver.is_writing(tab), 30)
    report("an attribute, while saving", times)
    measure_edits_of_all(window, tab)


def measure_frames(tab: DocumentTab, beside: str) -> None:
    """Print what a notch of the mouse wheel takes."""

    def notch(down: int) -> None:
        position = QPointF(400, 300)
        wheel = QWheelEvent(
            position, tab.view.mapToGlobal(position), QPoint(0, 0), QPoint(0, -120 * down),
            Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(tab.view, wheel)

    report(f"frames, {beside}", [timed(partial(notch, 1 if n % 40 < 20 else -1), tab) for n in range(80)])


def measure_edits(tab: DocumentTab, node: Node) -> None:
    """Print what edits of one node, their undo and their redo take, each on the same model."""
    document, output = tab.workspace.document, node.outputs[0]
    assert output is not None
    kinds: dict[str, Callable[[Transaction], object]] = {
        "an attribute": lambda edit: set_attribute(edit, node, "measured", 0.5),
        "a value's name": lambda edit: values.rename_value(edit, output, "measured"),
        "a node inserted": lambda edit: nodes.insert_on_edge(edit, output, "Relu"),
        "a node taken out": lambda edit: nodes.delete_and_bridge(edit, [node]),
    }
    for title, change in kinds.items():
        times: dict[str, list[tuple[float, float]]] = {"": [], ", undo": [], ", redo": []}

        def act(change: Callable[[Transaction], object] = change) -> None:
            with document.edit("Measure") as edit:
                change(edit)

        for _ in range(5):
            for name, step in (("", act), (", undo", document.undo), (", redo", document.redo)):
                times[name].append(timed(step, tab))
                spin(lambda: False, 0.3)
            document.undo()
            spin(lambda: False, 0.3)
        for name, found in times.items():
            report(f"{title}{name}", found)


def measure_edits_of_all(window: MainWindow, tab: DocumentTab) -> None:
    """Print the longest stall of edits of every node, their undo and their redo."""
    workspace, run = tab.workspace, window.actions_binding.run
    document, every = workspace.document, list(workspace.graph.nodes)
    heartbeat = Heartbeat()

    def stall(title: str, act: Callable[[], object]) -> None:
        revision = document.revision
        heartbeat.reset()
        act()
        spin(lambda: document.revision != revision and not workspace.tasks.making("edit"), _TIMEOUT_SECONDS)
        spin(lambda: False, 3)  # what follows the edit
        worst = heartbeat.worst
        print(f"  {title:34} longest {1000 * worst.seconds:6.0f} ({1000 * worst.busy:5.0f})", flush=True)

    def set_all() -> None:
        change_each(workspace, "Set", every, lambda edit, node: set_attribute(edit, node, "of_all", 0.5))

    for title, act in (
        ("all names of nodes", lambda: run("model.node_names")),
        ("all names of values", lambda: run("model.value_names")),
        ("an attribute of all nodes", set_all),
    ):
        stall(title, act)
        stall(f"{title}, undo", document.undo)
        stall(f"{title}, redo", document.redo)
        document.undo()
        spin(lambda: False, 3)
    heartbeat.stop()


def _setting(tab: DocumentTab, node: Node, number: int) -> Callable[[], None]:
    def act() -> None:
        with tab.workspace.document.edit("Set") as edit:
            set_attribute(edit, node, "measured", number)

    return act


def _read_forever(tab: DocumentTab, progress: Progress) -> None:
    while True:
        for node in progress.paced(tab.workspace.graph.nodes):
            assert node.attributes is not None


def main() -> None:
    """Measure chains of the sizes given, each opened in the program's window, and end the process."""
    sizes = [int(text) for text in sys.argv[1:]] or (5_000, 100_000)
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
    main()
