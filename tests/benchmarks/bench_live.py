"""How long frames take while a run is going: panning the graph and typing an attribute, idle and while running.

    python tests/benchmarks/bench_live.py [MODEL.onnx …] [--stacks MS]

Prints the median frame of panning and of typing with Live on, in ms, with nothing running (the yardstick of the same
process), while running and as a ratio; and of the frames while running the one that 99 of 100 are faster than and the
slowest: by the clock, by the clock without what the GUI thread waited for a processor, which on a busy machine others
have, and in its processor time alone. The bar: 16 ms a frame while a run is going. Besides models of files a graph of
50,000 nodes is measured. `--stacks` tells what the frames while running were spent on that took more processor time.
"""

from __future__ import annotations

import argparse
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


from onnx import TensorProto, helper

from model.edits.attributes import set_attribute
from model.graph import Node
from tests.benchmarks.stacks import Stacks
from viewer.app import Application
from viewer.garbage import Collector
from viewer.main_window import MainWindow
from viewer.workspace import Workspace

FRAMES = 120
SECONDS = 20.0
BUSY = 6.0  # seconds of frames while running, so that there are whole runs in them

Frame = tuple[float, float, float]  # seconds by the clock, without waits for a processor, and of processor time

#: Attributes that any number fits, by operator.
TYPED = {"BatchNormalization": "epsilon", "LRN": "alpha", "LeakyRelu": "alpha", "Gemm": "beta", "Elu": "alpha"}


def main() -> None:
    """Open each model, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--stacks", type=float, metavar="MS")
    wanted = parser.parse_args()
    stacks = None if wanted.stacks is None else Stacks(wanted.stacks)
    if stacks is not None:
        stacks.start()
    folder = Path(__file__).parent.parent.parent.parent / "shared" / "models"
    names = wanted.models or [
        str(folder / name / "model.onnx") for name in ("onnx__light_resnet50", "onnx__light_densenet121")
    ]
    application = Application()
    window = application.start([])
    window.resize(1400, 900)
    titles = ("idle ms", "running ms", "ratio", "99 % · slowest", "less waits", "cpu alone", "frames", "runs")
    print(f"{'model':28}{'what':22}{''.join(f'{title:>16}' for title in titles)}")
    collector = Collector(application)  # as the program has it
    collector.start()
    with tempfile.TemporaryDirectory() as made:
        large = Path(made) / "50000 nodes" / "model.onnx"
        large.parent.mkdir()
        write_chain(large, 50_000)
        for name in [*(n for n in names if Path(n).is_file()), large]:
            measure(application, window, Path(name), stacks)
    collector.stop()
    for tab in window.tabs():
        window.remove_tab(tab)
    window.close()


def write_chain(path: Path, count: int) -> None:
    """A graph whose nodes follow each other, each with next to nothing to compute."""
    operators = ("Neg", "Relu", "LeakyRelu", "Abs")
    nodes = [
        helper.make_node(operators[i % 4], [f"v{i - 1}" if i else "x"], [f"v{i}"], f"layer{i // 50}/node{i}")
        for i in range(count)
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in ("x", f"v{count - 1}"))
    model = helper.make_model(
        helper.make_graph(nodes, "chain", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    path.write_bytes(model.SerializeToString())


def measure(application: Application, window: MainWindow, path: Path, stacks: Stacks | None) -> None:
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
    pan_busy = frames(application, lambda i: (keep_running(workspace), pan(window, i)), BUSY, stacks)
    report(title, "pan", pan_idle, pan_busy, len(runs))
    if stacks is not None:
        stacks.tell()
    node = next((n for n in workspace.graph.nodes if n.op_type in TYPED), None)
    if node is None:
        return
    type_idle = frames(application, lambda i: type_into(workspace, node, i))
    workspace.runs.set_live(True)
    runs.clear()
    type_busy = frames(
        application, lambda i: (keep_running(workspace), type_into(workspace, node, FRAMES + i)), BUSY, stacks
    )
    report(title, f"type {node.op_type}"[:21], type_idle, type_busy, len(runs))
    if stacks is not None:
        stacks.tell()
    workspace.runs.set_live(False)


def frames(
    application: Application, act: Callable[[int], object], least: float = 0.0, stacks: Stacks | None = None
) -> list[Frame]:
    """Each frame: the act, and all that the event loop does for it until everything is painted."""
    taken: list[Frame] = []
    begun = time.perf_counter()
    index = 0
    while len(taken) < FRAMES or time.perf_counter() - begun < least:
        waited = waits()
        if stacks is not None:
            stacks.begin()
        start, used = time.perf_counter(), time.thread_time()
        act(index)
        application.processEvents()
        spent, worked = time.perf_counter() - start, time.thread_time() - used
        if stacks is not None:
            stacks.end(1e3 * worked)
        taken.append((spent, max(spent - (waits() - waited), worked), worked))
        time.sleep(0.004)
        index += 1
        if time.perf_counter() - begun > SECONDS:
            break
    return taken


def waits() -> float:
    """Seconds that this thread has waited for a processor so far; 0 where the system does not tell."""
    told = Path("/proc/thread-self/schedstat")
    return int(told.read_text().split()[1]) / 1e9 if told.exists() else 0.0


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


def report(title: str, what: str, idle: list[Frame], busy: list[Frame], runs: int) -> None:
    """One line."""
    quiet, loud = (1e3 * statistics.median(wall for wall, _, _ in some) for some in (idle, busy))
    columns = [sorted(1e3 * seconds for seconds in some) for some in zip(*busy, strict=True)]
    late = (f"{column[99 * len(column) // 100]:.1f} · {column[-1]:.1f}" for column in columns)
    cells = (f"{quiet:.2f}", f"{loud:.2f}", f"{loud / quiet:.2f}", *late, str(len(busy)), str(runs))
    print(f"{title[:27]:28}{what:22}{''.join(f'{cell:>16}' for cell in cells)}", flush=True)


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
