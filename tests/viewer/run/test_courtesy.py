"""Who moves the graph or types while a model runs has a core for the window; who waits has all for the run."""

import os
import sys
import threading
from pathlib import Path

import onnx
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.viewer.core.precedence import acts
from onnx_workbench.viewer.core.settings import RUN_IN_PROCESS
from onnx_workbench.viewer.core.slices import Slices, serving
from tests.viewer.run.run_actions import idle, opened

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the cores of a process cannot be chosen")

ENDLESS = """<ir_version: 9, opset_import: ["" : 17]>
g (float[4] x, int64 n) => (float[4] y) {
    [leaky] q = LeakyRelu <alpha: float = 0.5> (x)
    yes = Constant <value = bool {1}> ()
    y = Loop (n, yes, q) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w)
        { d = Identity (c)  w = Identity (v) }>
}"""


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    path = tmp_path / "endless.onnx"
    onnx.save(onnx.parser.parse_model(ENDLESS), path)
    window.settings.set(RUN_IN_PROCESS, True)
    workspace = opened(window, qtbot, path)
    workspace.runs.inputs.set_source("x", Constant(1.0))
    workspace.runs.inputs.set_source("n", Constant(1 << 50))
    yield workspace
    workspace.runs.stop()
    idle(qtbot, workspace)


@pytest.fixture
def told(monkeypatch):
    """What the worker was told: whether to stand back."""
    told = []
    monkeypatch.setattr(WorkerSession, "stand_back", lambda _session, back: told.append(back))
    return told


def act(window):
    """Press a key that does nothing."""
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_Shift)


def run_on(window, qtbot, workspace):
    """Start a run that does not end, in the window that has the focus."""
    window.activateWindow()
    qtbot.waitUntil(lambda: QGuiApplication.focusWindow() is window.windowHandle())
    workspace.runs.run()
    qtbot.waitUntil(lambda: workspace.runs.session.at is not None, timeout=30_000)


def test_a_run_stands_back_while_a_person_acts_and_comes_forward_again(window, qtbot, workspace, told):
    act(window)
    run_on(window, qtbot, workspace)
    assert told == []
    act(window)
    act(window)
    assert told == [True]
    qtbot.waitUntil(lambda: told == [True, False], timeout=20_000)


def test_beside_a_run_the_window_comes_first(window, qtbot, workspace, monkeypatch):
    came_first = []
    monkeypatch.setattr(acts(), "come_first", lambda: came_first.append(True))
    act(window)
    assert came_first == []
    run_on(window, qtbot, workspace)
    act(window)
    assert came_first == [True]


def test_a_worker_that_stands_back_leaves_one_core(qtbot, workspace):
    whole = os.sched_getaffinity(0)
    workspace.runs.run()
    session = workspace.runs.session
    qtbot.waitUntil(lambda: session.at is not None, timeout=30_000)
    threads = Path(f"/proc/{session.start()._process.pid}/task")
    for back, left in ((True, max(len(whole) - 1, 1)), (False, len(whole))):
        session.stand_back(back=back)
        assert {len(os.sched_getaffinity(int(thread.name))) for thread in threads.iterdir()} == {left}


def test_the_other_threads_of_the_window_leave_its_core_to_it_too(window, qtbot, workspace):
    whole = len(os.sched_getaffinity(0))
    run_on(window, qtbot, workspace)
    act(window)
    assert cores_of_others() == {max(whole - 1, 1)}
    assert len(os.sched_getaffinity(0)) == whole
    qtbot.waitUntil(lambda: cores_of_others() == {whole}, timeout=20_000)


def test_so_do_threads_that_are_started_meanwhile(window, qtbot, workspace):
    free = threading.Event()
    run_on(window, qtbot, workspace)
    act(window)
    threading.Thread(target=free.wait).start()

    def act_on():
        act(window)
        return cores_of_others() == {max(len(os.sched_getaffinity(0)) - 1, 1)}

    try:
        qtbot.waitUntil(act_on, timeout=20_000)
    finally:
        free.set()


def test_a_thread_for_which_the_window_waits_keeps_all_cores(window, qtbot, workspace):
    """Beside a run on the one that is left its slices would take as long again as they may."""
    threads = []

    def work(progress):
        while not progress.cancelled:
            if threading.current_thread() is not threading.main_thread():
                threads[:] = [threading.get_native_id()]
            progress.check()

    slices = Slices(work, pytest.fail, pytest.fail)
    run_on(window, qtbot, workspace)
    qtbot.waitUntil(lambda: bool(threads), timeout=30_000)
    act(window)
    assert len(os.sched_getaffinity(threads[0])) == len(os.sched_getaffinity(0))
    slices.cancel()
    assert serving() == frozenset()


def cores_of_others():
    """How many cores the threads of this process may use that are not that of the window."""
    others = [thread.native_id for thread in threading.enumerate() if thread is not threading.current_thread()]
    return {len(os.sched_getaffinity(thread)) for thread in others if thread is not None}
