"""Readers of the model poll often, so that an edit, which cancels them, never waits long for their next poll.

Counted, not timed: between two polls there may be so many calls of functions, whatever the size of the model.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import pytest

from onnx_workbench.exec.transform.convert import ConvertOptions
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.panel_list import PANELS
from onnx_workbench.viewer.tasks import threads
from onnx_workbench.viewer.workflows.background_edit import convert_in_background
from tests.benchmarks.large_models import write_nodes_model
from tests.viewer.background_work import wait_for_readers

_NODES = 12_000
_MOST_CALLS = 20_000  # of functions and generators, some 3 ms of work
_READERS = {"Saver._write", "TypeInference", "copy_model", "SortedRowModel", "StatisticsPanel"}


class CallCounter:
    """Counts the function calls between polls of each reader, by the qualified name of its work."""

    def __init__(self):
        self.most = defaultdict(int)
        self._calls = 0

    def run(self, call):
        """Stands in for the method that does the work of a reader."""
        work = getattr(call._work, "func", call._work)
        name, check = f"{work.__module__.rpartition('.')[2]}.{work.__qualname__}", call._progress.check
        self._calls = 0

        def poll():
            self.most[name] = max(self.most[name], self._calls)
            self._calls = 0
            check()

        call._progress.check = poll
        sys.setprofile(self._count)
        try:
            self._run(call)
        finally:
            sys.setprofile(None)
        self.most[name] = max(self.most[name], self._calls)

    def install(self, monkeypatch):
        """Count from now on."""
        self._run = threads.Call._run
        counter = self

        def run(call):
            if call._threads == "model":
                counter.run(call)
            else:
                counter._run(call)

        monkeypatch.setattr(threads.Call, "_run", run)

    def _count(self, _frame, event, _argument):
        self._calls += event in ("call", "c_call")


@pytest.fixture
def calls(monkeypatch):
    counter = CallCounter()
    counter.install(monkeypatch)
    return counter.most


@pytest.mark.slow
def test_readers_poll_after_a_bounded_number_of_calls(calls, make_window, qtbot, tmp_path):
    path = tmp_path / "large.onnx"
    write_nodes_model(path, _NODES)
    window = make_window()
    window.files.open([path])
    qtbot.waitUntil(lambda: window.tab is not None and window.tab.view.scene is not None)
    workspace = window.tab.workspace

    def settle():
        wait_for_readers(qtbot)
        qtbot.waitUntil(lambda: not workspace.tasks.running)

    for info in PANELS:
        window.actions_binding.run(f"panel.{info.id}")
        settle()
    with workspace.document.edit("Rename") as edit:
        edit.do(SetField(workspace.graph.nodes[7], "name", "other"))
    settle()
    convert_in_background(workspace, "Rename all", ConvertOptions(rename=["nodes"]))
    qtbot.waitUntil(lambda: workspace.document.undo_title == "Rename all")
    settle()
    window.actions_binding.run("file.save")
    qtbot.waitUntil(lambda: not workspace.document.modified)
    settle()
    seen = " ".join(calls)
    assert not [reader for reader in _READERS if reader not in seen], seen
    assert {name: most for name, most in calls.items() if most > _MOST_CALLS} == {}
