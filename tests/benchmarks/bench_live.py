"""How long frames take while a run is going: panning the graph and typing an attribute, idle and while running.

    python tests/benchmarks/bench_live.py [MODEL.onnx …]

Prints the median and the slowest frame of panning and of typing with Live on, in ms, and as a ratio to the same
with nothing running (the yardstick of the same process). The bar: 16 ms a frame while a run is going.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["ONNX_WORKBENCH_STATE"] = tempfile.mkdtemp(prefix="onnx-workbench-bench-")


from model.edits.attributes import set_attribute
from model.graph import Node
from viewer.app import Application
from viewer.main_window import MainWindow
from viewer.workspace import Workspace

FRAMES = 120
SECONDS = 20.0

#: Attributes that any number fits, by operator.
TYPED = {"BatchNormalization": "epsilon", "LRN": "alpha", "LeakyRelu": "alpha", "Gemm": "beta", "Elu": "alpha"}


def main() -> None:
    """Open each model, measure, print."""
    folder = Path(__file__).parent.parent.parent.parent / "shared" / "models"
    names = sys.argv[1:] or [
        str(folder / name / "model.onnx") for name in ("onnx__light_resnet50", "onnx__light_densenet121")
    ]
    application = Application()
    window = application.start([])
    window.resize(1400, 900)
    print(f"{'model':28}{'what':22}{'idle ms':>9}{'running ms':>12}{'slowest ms':>12}{'ratio':>8}{'runs':>6}")
    for name in [n for n in names if Path(n).is_file()]:
        measure(application, window, Path(name))
    for tab in window.tabs():
        window.remove_tab(tab)
    window.close()


def measure(application: Application, window: MainWindow, path: Path) -> None:
    """The rows of one model."""
    count = len(window.tabs())
    window.files.open([path])
    wait(application, lambda: len(window.tabs()) > count and not window.tabs()[-1].view.is_busy)
    workspace = window.tabs()[-1].workspace
    runs: list[float] = []
    workspace.results.run_finished.connect(lambda: runs.append(time.perf_counter()))
    workspace.runs.run()
    wait(application, lambda: bool(runs) and not workspace.jobs.running)
    title = path.parent.name
    pan_idle = frames(application, lambda i: pan(window, i))
    runs.clear()
    pan_busy = frames(application, lambda i: (keep_running(workspace), pan(window, i)))
    report(title, "pan", pan_idle, pan_busy, len(runs))
    node = next((n for n in workspace.graph.nodes if n.op_type in TYPED), None)
    if node is None:
        return
    type_idle = frames(application, lambda i: type_into(workspace, node, i))
    workspace.runs.set_live(True)
    runs.clear()
    type_busy = frames(application, lambda i: (keep_running(workspace), type_into(workspace, node, FRAMES + i)))
    report(title, f"type {node.op_type}"[:21], type_idle, type_busy, len(runs))
    workspace.runs.set_live(False)


def frames(application: Application, act: Callable[[int], object]) -> list[float]:
    """Seconds of each frame: the act, and all that the event loop does for it until everything is painted."""
    taken = []
    begun = time.perf_counter()
    for index in range(FRAMES):
        start = time.perf_counter()
        act(index)
        application.processEvents()
        taken.append(time.perf_counter() - start)
        time.sleep(0.004)
        if time.perf_counter() - begun > SECONDS:
            break
    return taken


def pan(window: MainWindow, index: int) -> None:
    """Move the graph as a drag does, and paint."""
    view = window.tabs()[-1].view
    step = 9.0 if index // 30 % 2 == 0 else -9.0
    view.pan_by(0.0, -step)
    view.repaint()


def keep_running(workspace: Workspace) -> None:
    """Start the next run as soon as one has ended."""
    if not workspace.runs.is_running:
        workspace.runs.run(fresh=True)


def type_into(workspace: Workspace, node: Node, index: int) -> None:
    """One key press in a field of the inspector."""
    with workspace.document.edit("Set a number", merge="typing") as edit:
        set_attribute(edit, node, TYPED[node.op_type], 0.001 * (index + 1))


def report(title: str, what: str, idle: list[float], busy: list[float], runs: int) -> None:
    """One line."""
    quiet, loud = statistics.median(idle) * 1e3, statistics.median(busy) * 1e3
    print(f"{title:28}{what:22}{quiet:9.2f}{loud:12.2f}{max(busy) * 1e3:12.2f}{loud / quiet:8.2f}{runs:6}")


def wait(application: Application, done: Callable[[], bool]) -> None:
    """Let the program work until something is so."""
    until = time.monotonic() + 60
    while not done():
        if time.monotonic() > until:
            msg = "the program did not get there within a minute"
            raise TimeoutError(msg)
        application.processEvents()
        time.sleep(0.005)


if __name__ == "__main__":
    main()
