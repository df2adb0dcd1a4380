"""How long the longest turn of the event loop is, by kind of work.

    python -m tests.benchmarks.bench_turns [nodes]

A turn is what the window does between two looks at keyboard and mouse. Printed is its CPU time, that of work in slices
included, for which the GUI thread waits: of the turn in which something is asked for, of the longest until all that
follows is done, and how many of those took longer than half a frame of 16 ms.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["ONNX_WORKBENCH_STATE"] = tempfile.mkdtemp(prefix="onnx-workbench-bench-")

from tests.benchmarks.bench_live import TYPED, type_into, write_chain
from viewer.app import Application
from viewer.garbage import Collector
from viewer.main_window import MainWindow

_HALF_MS = 8.0
_CALM = 0.8  # seconds without work, after which what was asked for is done
_MOST = 120.0


def main() -> None:
    """Measure what is done to a chain of nodes."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    application = Application()
    window = application.start([])
    window.resize(1400, 900)
    collector = Collector(application)  # as the program has it
    collector.start()
    print(f"{f'{count:,} nodes':28}{'first ms':>10}{'longest ms':>12}{'> 8 ms':>8}{'turns':>8}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chain.onnx")
        write_chain(path, count)
        drive(application, window, "open", lambda: window.files.open([path]))
        measure(application, window)
    sys.stdout.flush()
    os._exit(0)  # nothing to save


def measure(application: Application, window: MainWindow) -> None:
    """All kinds of work on the document that is open."""
    workspace = window.tabs()[-1].workspace
    document, runs = workspace.document, workspace.runs
    node = next(n for n in workspace.graph.nodes if n.op_type in TYPED)

    def do(kind: str, act: Callable[[], object]) -> None:
        drive(application, window, kind, act)

    do("edit", lambda: type_into(workspace, node, 1))
    do("undo", document.undo)
    do("select all", partial(workspace.trigger, "edit.select_all"))
    do("select nothing", partial(workspace.trigger, "edit.clear_selection"))
    do("write types", partial(workspace.trigger, "model.write_types"))
    do("undo", document.undo)
    do("run", runs.run)
    do("run anew", lambda: runs.run(fresh=True))
    runs.set_live(True)
    do("edit, Live", lambda: type_into(workspace, node, 2))
    do("undo, Live", document.undo)
    for kind in ("time", "size", "range", "none"):
        do(f"colour by {kind}", partial(workspace.trigger, f"run.colour_{kind}"))
    for panel in ("node_table", "profile", "statistics"):
        do(f"open {panel}", partial(window.docks.open, panel))
        do(f"edit, Live, {panel}", lambda: type_into(workspace, node, 3))
        do("undo", document.undo)
        window.docks.toggle(panel)


def drive(application: Application, window: MainWindow, kind: str, act: Callable[[], object]) -> None:
    """Print how long turns are from an act until nothing goes on any more."""
    turns: list[float] = []
    end = time.monotonic() + _MOST
    calm = time.monotonic()
    while time.monotonic() < end and time.monotonic() - calm < _CALM:
        begun = spent()
        if not turns:
            act()
        application.processEvents()
        turns.append(1e3 * (spent() - begun))
        if turns[-1] > 1 or is_busy(window):
            calm = time.monotonic()
        time.sleep(0.0005)
    late = sum(turn > _HALF_MS for turn in turns)
    print(f"{kind:28}{turns[0]:10.1f}{max(turns):12.1f}{late:8}{len(turns):8}", flush=True)


def spent() -> float:
    """Seconds that this thread and those it lends the model to have used of a processor."""
    lent = [t.ident for t in threading.enumerate() if t.name == "slices" and t.ident is not None]
    return time.thread_time() + sum(time.clock_gettime(time.pthread_getcpuclockid(ident)) for ident in lent)


def is_busy(window: MainWindow) -> bool:
    """Whether something is still on its way."""
    tabs = window.tabs()
    return not tabs or any(
        tab.view.is_busy or tab.workspace.jobs.running or (tab.workspace.has_runs and tab.workspace.runs.is_running)
        for tab in tabs
    )


if __name__ == "__main__":
    main()
