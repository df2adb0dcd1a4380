"""How long frames take while a run is going: dragging the graph and typing an attribute, idle and while running.

    python -m tests.benchmarks.bench_live [MODEL.onnx …] [--seconds S] [--stacks MS]

A real window gets what hands give it, through its event loop: the pointer of a drag 60 times a second, and into a field
of the inspector 30 times a second (as a key that is held) F2, arrows, which are an edit each, digits and Enter. A frame
is what lies between when that is due and when all that it asked for is painted: what the window happens to be doing
when it is due counts, as does what the machine takes. Meanwhile Live is on, and the next run of everything is asked for
as soon as one has ended.

Printed is, in ms, the median frame with nothing running (the yardstick of the same process), while running, their
ratio, and of the frames while running the one that 99 of 100 are faster than and the slowest; the same of the processor
time that the GUI thread took for them; how late a program was at the same time that does next to nothing (the
yardstick of the machine: see bystander); and how many frames took longer than the bar of 16 ms, while running and idle.
Besides models of files a graph of 50,000 nodes is measured. `--stacks` tells what the frames while running were spent
on that took more processor time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["ONNX_WORKBENCH_STATE"] = tempfile.mkdtemp(prefix="onnx-workbench-bench-")


from onnx import TensorProto, helper
from PySide6.QtCore import QEvent, QEventLoop, QPointF, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget

from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.core.context import Workspace
from onnx_workbench.viewer.core.garbage_collection import Collector
from onnx_workbench.viewer.inspector.panel import InspectorPanel
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.property_tree.tree import PropertyTree
from tests.benchmarks.bystander import Bystander
from tests.benchmarks.stacks import Stacks

#: Attributes that any number fits, by operator.
TYPED = {"BatchNormalization": "epsilon", "LRN": "alpha", "LeakyRelu": "alpha", "Gemm": "beta", "Elu": "alpha"}

Hand = Iterator[float]  # does the next thing until it is painted, and says after how many seconds the next one is due


class Hands(NamedTuple):
    """What a person does, again and again."""

    what: str
    hand: Callable[[], Hand]


class Frame(NamedTuple):
    """One frame, in seconds."""

    taken: float  # by the clock, from when it was due
    worked: float  # processor time of the GUI thread, with that of the turn in which it fell due


def main() -> None:
    """Open each model, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of frames with nothing running, and as many while running"
    )
    parser.add_argument("--stacks", type=float, metavar="MS")
    wanted = parser.parse_args()
    folder = Path(__file__).parent.parent.parent.parent / "shared" / "models"
    names = wanted.models or [
        str(folder / name / "model.onnx") for name in ("onnx__light_resnet50", "onnx__light_densenet121")
    ]
    application = Application()
    window = application.start([])
    window.resize(1400, 900)
    titles = (
        "idle ms",
        "running ms",
        "ratio",
        "99 % · slowest",
        "processor",
        "bystander",
        "> 16 ms",
        "of those idle",
        "runs",
    )
    print(f"{'model':28}{'what':22}{''.join(f'{title:>16}' for title in titles)}")
    collector = Collector(application)  # as the program has it
    collector.start()
    bench = Bench(application, window, wanted.seconds, None if wanted.stacks is None else Stacks(wanted.stacks))
    with tempfile.TemporaryDirectory() as made:
        large = Path(made) / "50000 nodes" / "model.onnx"
        large.parent.mkdir()
        write_chain(large, 50_000)
        for name in [*(n for n in names if Path(n).is_file()), large]:
            bench.measure(Path(name))
    collector.stop()
    for tab in window.tabs():
        window.remove_tab(tab)
    window.close()


def write_chain(path: Path, count: int) -> None:
    """A graph whose nodes follow each other, each with next to nothing to compute."""
    operators = ("Neg", "Relu", "LeakyRelu", "Abs")
    nodes = [
        helper.make_node(
            operators[i % 4],
            [f"v{i - 1}" if i else "x"],
            [f"v{i}"],
            f"layer{i // 50}/node{i}",
            **({"alpha": 0.5} if i % 4 == 2 else {}),
        )
        for i in range(count)
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in ("x", f"v{count - 1}"))
    model = helper.make_model(
        helper.make_graph(nodes, "chain", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    path.write_bytes(model.SerializeToString())


class Bench:
    """A window with hands on it."""

    def __init__(self, application: Application, window: MainWindow, seconds: float, stacks: Stacks | None) -> None:
        self._application = application
        self._window = window
        self._seconds = seconds
        self._stacks = stacks
        self._due = QTimer(application, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        if stacks is not None:
            stacks.start()

    def measure(self, path: Path) -> None:
        """The rows of one model."""
        window = self._window
        count = len(window.tabs())
        window.files.open([path])
        self._wait(lambda: len(window.tabs()) > count and not window.tabs()[-1].view.is_busy)
        workspace = window.tabs()[-1].workspace
        runs: list[float] = []
        workspace.results.run_finished.connect(lambda: runs.append(time.perf_counter()))
        workspace.runs.run()
        self._wait(lambda: bool(runs) and not workspace.jobs.running)
        self._row(path.parent.name, workspace, Hands("drag", lambda: drag(window)), runs)
        node = next((n for n in workspace.graph.nodes if n.op_type in TYPED), None)
        if node is not None:
            workspace.reveal(node)
            self._wait(lambda: not window.tabs()[-1].view.is_busy and not workspace.jobs.running)
            typing = Hands(f"type {node.op_type}"[:21], lambda: type_into(window, node))
            self._row(path.parent.name, workspace, typing, runs)

    def _row(self, title: str, workspace: Workspace, hands: Hands, runs: list[float]) -> None:
        """One line."""
        idle = self._frames(hands.hand(), self._seconds)
        workspace.runs.set_live(True)
        again = QTimer(interval=20)
        again.timeout.connect(lambda: workspace.runs.is_running or workspace.runs.run(fresh=True))
        again.start()
        self._wait(lambda: workspace.runs.is_running)
        runs.clear()
        with Bystander() as bystander:
            busy = self._frames(hands.hand(), self._seconds, self._stacks)
        again.stop()
        report(title, hands.what, idle, busy, bystander.late, len(runs))
        if self._stacks is not None:
            self._stacks.tell()
        workspace.runs.set_live(False)
        workspace.runs.stop()
        self._wait(lambda: not workspace.runs.is_running)

    def _frames(self, hand: Hand, seconds: float, stacks: Stacks | None = None) -> list[Frame]:
        """Let a hand work; each frame."""
        taken: list[Frame] = []
        due = time.perf_counter()
        until = due + seconds
        while due < until:
            used = self._work_until(due, stacks)
            pause = next(hand)
            now, worked = time.perf_counter(), time.thread_time()
            if stacks is not None:
                stacks.end(1e3 * (worked - used))
            taken.append(Frame(now - due, worked - used))
            due = max(due + pause, now)  # hands wait for what they see
        hand.close()
        return taken

    def _work_until(self, due: float, stacks: Stacks | None = None) -> float:
        """Let the event loop work as it does; gives the processor time there was before its last turn."""
        used = time.thread_time()
        while (left := due - time.perf_counter()) > 0:
            if stacks is not None:
                stacks.begin()
            used = time.thread_time()
            self._due.start(int(1e3 * left))
            self._application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        return used

    def _wait(self, done: Callable[[], bool]) -> None:
        """Let the program work until something is so."""
        until = time.monotonic() + 60
        while not done():
            if time.monotonic() > until:
                msg = "the program did not get there within a minute"
                raise TimeoutError(msg)
            self._work_until(time.perf_counter() + 0.005)


def drag(window: MainWindow) -> Hand:
    """Move the graph with the middle button, down and up again."""
    view = window.tabs()[-1].view
    place = QPointF(view.width() / 2, view.height() / 2)
    _send(view, QEvent.Type.MouseButtonPress, place, Qt.MouseButton.MiddleButton)
    for index in itertools.count():
        place += QPointF(0.0, 9.0 if index // 30 % 2 == 0 else -9.0)
        _send(view, QEvent.Type.MouseMove, place, Qt.MouseButton.NoButton)
        yield 1 / 60


def _send(view: QWidget, kind: QEvent.Type, place: QPointF, button: Qt.MouseButton) -> None:
    held, none = Qt.MouseButton.MiddleButton, Qt.KeyboardModifier.NoModifier
    window = view.window()
    inside, outside = QPointF(view.mapTo(window, place)), view.mapToGlobal(place)
    _do(window, QMouseEvent(kind, inside, outside, button, held, none))


def type_into(window: MainWindow, node: Node) -> Hand:
    """Change an attribute in the inspector: arrows, digits, Enter; then look for as long as Live waits and a bit."""
    panel = window.docks.open("inspector")
    assert isinstance(panel, InspectorPanel)
    tree = panel.tree
    keys = (*[Qt.Key.Key_Up] * 5, Qt.Key.Key_End, Qt.Key.Key_1, Qt.Key.Key_Backspace)
    panel.edit_attribute(node.attributes[TYPED[node.op_type]])
    press(tree, Qt.Key.Key_Escape)
    while True:
        press(tree, Qt.Key.Key_F2)
        yield 1 / 30
        for key in keys:
            press(tree, key)
            yield 1 / 30
        press(tree, Qt.Key.Key_Enter)
        yield 0.25


def press(tree: PropertyTree, key: Qt.Key) -> None:
    """A key in the row, or in its field where that is open."""
    assert (tree.editor or tree).hasFocus()
    text = chr(key) if key < Qt.Key.Key_Escape else ""
    _do(tree.window(), QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier, text))


def _do(window: QWidget, event: QEvent) -> None:
    """Send it, and what is posted because of it: updates are."""
    QApplication.sendEvent(window.windowHandle(), event)
    QApplication.sendPostedEvents()


def report(title: str, what: str, idle: list[Frame], busy: list[Frame], others: list[float], runs: int) -> None:
    """One line."""
    quiet, loud = (1e3 * statistics.median(frame.taken for frame in some) for some in (idle, busy))
    late = (_late([frame.taken for frame in busy]), _late([frame.worked for frame in busy]), _late(others))
    slow = (f"{sum(frame.taken > 0.016 for frame in some)} of {len(some)}" for some in (busy, idle))
    cells = (f"{quiet:.2f}", f"{loud:.2f}", f"{loud / quiet:.2f}", *late, *slow, str(runs))
    print(f"{title[:27]:28}{what:22}{''.join(f'{cell:>16}' for cell in cells)}", flush=True)


def _late(seconds: list[float]) -> str:
    ordered = sorted(1e3 * one for one in seconds)
    return f"{ordered[99 * len(ordered) // 100]:.1f} · {ordered[-1]:.1f}"


if __name__ == "__main__":
    main()
