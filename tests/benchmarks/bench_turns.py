"""How long the longest turn of the event loop is, by kind of work.

    python -m tests.benchmarks.bench_turns [--nodes N] [--shape chain|blocks|wide] [--part edits|window]
                                           [--only WORD ...] [--stacks]

A turn is what the window does between two looks at keyboard and mouse. Printed is its CPU time, that of work in slices
included, for which the GUI thread waits: of the turn in which something is asked for, of the longest until all that
follows is done, how many of those took longer than half a frame of 16 ms and how many longer than a frame, and after
how many seconds by the clock the last turn with work in it was over. `--stacks` tells what the turns above a frame were
spent on.

    chain    nodes that follow each other, named in groups of 50
    blocks   the same with a branch around every fifth, without names, so that all nodes are drawn
    wide     300 parallel chains between one split and one sum
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["ONNX_WORKBENCH_STATE"] = tempfile.mkdtemp(prefix="onnx-workbench-bench-")

from onnx import NodeProto, TensorProto, helper
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.core.context import Workspace
from onnx_workbench.viewer.core.garbage_collection import Collector
from onnx_workbench.viewer.dialogs.find_replace import FindReplaceDialog
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.panels import PANELS
from onnx_workbench.viewer.panels.find import FindPanel
from onnx_workbench.viewer.panels.node_table import NodeTablePanel
from onnx_workbench.viewer.panels.outline import OutlinePanel
from tests.benchmarks.bench_live import TYPED, write_chain
from tests.benchmarks.stacks import Stacks

_HALF_MS = 8.0
_FRAME_MS = 16.0
_CALM = 0.8  # seconds without work, after which what was asked for is done
_MOST = 120.0
_BRANCHES = 300
_OPERATORS = ("Neg", "Relu", "LeakyRelu", "Abs")


def main() -> None:
    """Measure what is done to one graph."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--shape", choices=("chain", "blocks", "wide"), default="chain")
    parser.add_argument("--part", choices=("edits", "window"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--stacks", action="store_true")
    wanted = parser.parse_args()
    application = Application()
    window = application.start([])
    window.resize(1400, 900)
    collector = Collector(application)  # as the program has it
    collector.start()
    title = f"{wanted.nodes:,} nodes, {wanted.shape}"
    print(f"{title:32}{'first ms':>10}{'longest ms':>12}{'> 8 ms':>8}{'> 16 ms':>8}{'turns':>8}{'until s':>9}")
    bench = Bench(application, window, wanted.only, tells_stacks=wanted.stacks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{wanted.shape}.onnx")
        write = {"chain": write_chain, "blocks": write_blocks, "wide": write_wide}[wanted.shape]
        write(path, wanted.nodes)
        bench.do("open", lambda: window.files.open([path]))
        if wanted.part != "window":
            measure_edits(bench)
        if wanted.part != "edits":
            measure_window(bench, path)
    sys.stdout.flush()
    os._exit(0)  # nothing to save


def set_number(workspace: Workspace, node: Node, number: float) -> None:
    """An edit as one of the inspector."""
    with workspace.document.edit("Set a number") as edit:
        set_attribute(edit, node, TYPED[node.op_type], number)


def write_blocks(path: Path, count: int) -> None:
    """A chain with branches."""
    nodes: list[NodeProto] = []
    for index in range(count):
        before = f"v{index - 1}" if index else "x"
        if index % 5 == 4:
            nodes.append(helper.make_node("Add", [before, f"v{index - 4}"], [f"v{index}"], f"node{index}"))
        else:
            nodes.append(helper.make_node(_OPERATORS[index % 4], [before], [f"v{index}"], f"node{index}"))
    _write(path, nodes, f"v{count - 1}")


def write_wide(path: Path, count: int) -> None:
    """Many chains side by side."""
    nodes = [
        helper.make_node(
            _OPERATORS[(branch + step) % 4],
            [f"b{branch}_{step - 1}" if step else "x"],
            [f"b{branch}_{step}"],
            f"n{branch}_{step}",
        )
        for branch in range(_BRANCHES)
        for step in range(count // _BRANCHES)
    ]
    nodes.append(
        helper.make_node("Sum", [f"b{branch}_{count // _BRANCHES - 1}" for branch in range(_BRANCHES)], ["y"], "sum")
    )
    _write(path, nodes, "y")


def _write(path: Path, nodes: list[NodeProto], output: str) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in ("x", output))
    graph = helper.make_graph(nodes, "bench", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())


class Bench:
    """Does things to the document in front, and prints how long the turns are until nothing goes on any more."""

    def __init__(
        self, application: Application, window: MainWindow, only: list[str], *, tells_stacks: bool = False
    ) -> None:
        self.application = application
        self.window = window
        self._only = only
        self._stacks = Stacks(_FRAME_MS) if tells_stacks else None
        if self._stacks is not None:
            self._stacks.start()

    def do(self, kind: str, act: Callable[[], object]) -> None:
        """One line."""
        turns: list[float] = []
        start = calm = time.monotonic()
        while time.monotonic() < start + _MOST and time.monotonic() - calm < _CALM:
            with self._sampled(turns):
                if not turns:
                    act()
                self.application.processEvents()
            if turns[-1] > 1 or is_busy(self.window):
                calm = time.monotonic()
            time.sleep(0.0005)
        if self._only and not any(word in kind for word in self._only):
            return
        late, later = (sum(turn > bar for turn in turns) for bar in (_HALF_MS, _FRAME_MS))
        print(
            f"{kind:32}{turns[0]:10.1f}{max(turns):12.1f}{late:8}{later:8}{len(turns):8}{calm - start:9.1f}",
            flush=True,
        )
        if self._stacks is not None:
            self._stacks.tell()

    @contextmanager
    def _sampled(self, turns: list[float]) -> Iterator[None]:
        if self._stacks is not None:
            self._stacks.begin()
        begun = spent()
        yield
        turns.append(1e3 * (spent() - begun))
        if self._stacks is not None:
            self._stacks.end(turns[-1])


def measure_edits(bench: Bench) -> None:
    """Edits and runs of the document that is open."""
    window = bench.window
    workspace = window.tabs()[-1].workspace
    document, runs, do = workspace.document, workspace.runs, bench.do
    node = next(n for n in workspace.graph.nodes if n.op_type in TYPED)
    do("edit", lambda: set_number(workspace, node, 1))
    do("undo", document.undo)
    do("select all", partial(workspace.trigger, "edit.select_all"))
    do("select nothing", partial(workspace.trigger, "edit.clear_selection"))
    do("write types", partial(workspace.trigger, "model.write_types"))
    do("undo", document.undo)
    do("run", runs.run)
    do("run anew", lambda: runs.run(fresh=True))
    runs.set_live(True)
    do("edit, Live", lambda: set_number(workspace, node, 2))
    do("undo, Live", document.undo)
    for kind in ("time", "size", "range", "none"):
        do(f"colour by {kind}", partial(workspace.trigger, f"run.colour_{kind}"))
    for panel in ("node_table", "profile", "statistics"):
        do(f"open {panel}", partial(window.docks.open, panel))
        do(f"edit, Live, {panel}", lambda: set_number(workspace, node, 3))
        do("undo", document.undo)
        window.docks.toggle(panel)
    runs.set_live(False)
    document.undo()


def measure_window(bench: Bench, path: Path) -> None:
    """What a person does to the window and to everything at once."""
    window, do = bench.window, bench.do
    workspace = window.tabs()[-1].workspace
    trigger = workspace.trigger
    for kind, action in (
        ("select all", "edit.select_all"),
        ("invert to nothing", "edit.invert_selection"),
        ("invert to all", "edit.invert_selection"),
        ("deselect", "edit.clear_selection"),
        ("dark theme", "view.theme.dark"),
        ("light theme", "view.theme.light"),
        ("zoom to all", "view.fit"),
        ("dark theme, all in view", "view.theme.dark"),
        ("light theme, all in view", "view.theme.light"),
        ("select all, all in view", "edit.select_all"),
        ("deselect, all in view", "edit.clear_selection"),
        ("100 %", "view.actual_size"),
        ("collapse all groups", "view.collapse_all"),
        ("expand all groups", "view.expand_all"),
    ):
        do(kind, partial(trigger, action))
    do("groups off", lambda: window.tabs()[-1].view.set_option_groups(False))
    do("zoom to all, drawn flat", partial(trigger, "view.fit"))
    do("100 %, drawn flat", partial(trigger, "view.actual_size"))
    do("select all, drawn flat", partial(trigger, "edit.select_all"))
    do("dark theme, drawn flat", partial(trigger, "view.theme.dark"))
    do("light theme, drawn flat", partial(trigger, "view.theme.light"))
    do("deselect, drawn flat", partial(trigger, "edit.clear_selection"))
    do("resize", lambda: window.resize(1000, 700))
    do("resize", lambda: window.resize(1400, 900))
    measure_panels(bench)
    measure_many(bench)
    do("open another", lambda: window.files.open([_small(path)]))
    do("switch tabs", partial(trigger, "go.previous_tab"))
    do("switch tabs", partial(trigger, "go.next_tab"))


def measure_panels(bench: Bench) -> None:
    """Each panel, and what finds and lists many things."""
    window, do = bench.window, bench.do
    find = window.docks.open("find")
    assert isinstance(find, FindPanel)
    do("find half of all", partial(find.box.setText, "op:Relu or op:Abs"))
    do("find all", partial(find.box.setText, "is:node"))
    do("find nothing", partial(find.box.setText, ""))
    outline = window.docks.open("outline")
    assert isinstance(outline, OutlinePanel)
    outline.tree.setCurrentIndex(outline.model.index(0, 0))
    do("open all of the outline", partial(QTest.keyClick, outline.tree, Qt.Key.Key_Asterisk))
    do("close the outline", partial(outline.tree.collapse, outline.model.index(0, 0)))
    do("open it again", partial(outline.tree.expand, outline.model.index(0, 0)))
    table = window.docks.open("node_table")
    assert isinstance(table, NodeTablePanel)
    do("node table", lambda: None)
    for column in (0, 1):
        do("sort it", partial(table.table.sortByColumn, column, Qt.SortOrder.AscendingOrder))
    do("filter it", partial(table.filter.setText, "1"))
    do("filter it no more", partial(table.filter.setText, ""))
    for panel in PANELS:
        was_open = window.docks.is_open(panel.id)
        do(f"open {panel.id}", partial(window.docks.open, panel.id))
        if not was_open:
            do(f"close {panel.id}", partial(window.docks.toggle, panel.id))


def measure_many(bench: Bench) -> None:
    """Edits of very many nodes."""
    window, do = bench.window, bench.do
    workspace = window.tabs()[-1].workspace
    document, trigger, selection = workspace.document, workspace.trigger, workspace.selection
    dialog = FindReplaceDialog.show_for(window, workspace)
    for kind in dialog.kinds.values():
        kind.setChecked(kind is dialog.kinds["node names"])
    do("list all names to replace", lambda: (dialog.pattern.setText("n"), dialog.replacement.setText("m")))
    do("replace all names", dialog.apply)
    do("close find and replace", dialog.close)
    do("undo", document.undo)
    do("redo", document.redo)
    do("undo", document.undo)
    do("select half", lambda: selection.set([*workspace.graph.nodes][::2]))
    do("delete half", partial(trigger, "edit.delete"))
    do("undo", document.undo)
    do("redo", document.redo)
    do("undo", document.undo)
    do("deselect", partial(trigger, "edit.clear_selection"))


def _small(path: Path) -> Path:
    small = path.with_name("small.onnx")
    write_chain(small, 20)
    return small


#: Of each thread, of those that ended too: else a turn in which one did costs less than none.
_lent: dict[threading.Thread, float] = {}


def spent() -> float:
    """Seconds that this thread and those it lends the model to have used of a processor."""
    for thread in threading.enumerate():
        if thread.name == "slices" and thread.ident is not None:
            _lent[thread] = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return time.thread_time() + sum(_lent.values())


def is_busy(window: MainWindow) -> bool:
    """Whether something is still on its way."""
    tabs = window.tabs()
    return not tabs or any(
        tab.view.is_busy or tab.workspace.jobs.running or (tab.workspace.has_runs and tab.workspace.runs.is_running)
        for tab in tabs
    )


if __name__ == "__main__":
    main()
