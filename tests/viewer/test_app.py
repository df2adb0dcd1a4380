"""Starting, stopping on request, and costing nothing while nothing happens."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from onnx_workbench.viewer.app import handling_signals
from onnx_workbench.viewer.files.open_model import sample_model
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.panel_list import PANELS
from onnx_workbench.viewer.program.settings import Settings
from tests.viewer.activity import activity_in


class Loop(QEventLoop):
    """Stands in for the application, which the other tests still need."""

    asked = False

    def quit(self):
        self.asked = True
        super().quit()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not sent this way on Windows")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_quits_though_nothing_else_happens(qapp, name):
    number = getattr(signal, name)
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    loop = Loop()
    at_last = QTimer(singleShot=True, interval=20_000)
    at_last.timeout.connect(super(Loop, loop).quit)
    at_last.start()
    try:
        with handling_signals(loop):
            assert not loop.findChildren(QTimer)
            threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
            loop.exec()
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
    assert loop.asked
    assert at_last.isActive()


@pytest.mark.long
def test_no_timer_runs_while_nothing_happens(qtbot):
    window = MainWindow(Settings())
    window.resize(1200, 800)
    with qtbot.waitExposed(window):
        window.show()
    with qtbot.waitSignal(window.files.opened):
        window.files.open([sample_model()])
    for panel in PANELS:
        window.docks.open(panel.id)
    window.tab.view.setFocus()  # a text cursor blinks

    qtbot.waitUntil(lambda: not activity_in(window))
    qtbot.wait(100)
    assert activity_in(window) == set()
    window.close()
    qtbot.waitUntil(lambda: not isValid(window))


@pytest.mark.long
def test_nothing_of_a_closed_document_stays(qtbot):
    window = MainWindow(Settings())
    with qtbot.waitExposed(window):
        window.show()
    kept, widgets = [], []
    for _ in range(3):
        window.files.open([sample_model()])
        qtbot.waitUntil(lambda: bool(window.tabs()))
        for panel in PANELS:
            window.docks.open(panel.id)
        tab = window.tab
        qtbot.waitUntil(lambda tab=tab: not tab.view.scenes.is_busy and not tab.workspace.tasks.running)
        tab.workspace.selection.set([next(iter(tab.workspace.graph.nodes))])
        kept.append([weakref.ref(thing) for thing in (tab, tab.workspace, tab.workspace.document)])
        window.files.close(tab)
        qtbot.waitUntil(lambda tab=tab: not isValid(tab) and not activity_in(window))
        del tab
        widgets.append(len(window.findChildren(QWidget)))

    def all_gone():  # tasks that were cancelled end some time later, and what Qt lets go of late holds other things
        gc.collect()
        return [[thing() is None for thing in things] for things in kept] == [[True] * 3] * 3

    qtbot.waitUntil(all_gone)
    assert widgets[2] == widgets[1]
    window.close()
    qtbot.waitUntil(lambda: not isValid(window))


PAINTING = """
import os
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from onnx_workbench.viewer.app import Application

application = Application()
before = len(os.listdir("/proc/self/task"))
image = QImage(2000, 2000, QImage.Format.Format_ARGB32_Premultiplied)
painter = QPainter(image)
painter.fillRect(QRectF(0, 0, 2000, 2000), QColor(10, 20, 30, 130))
painter.end()
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells of threads this way")
def test_painting_starts_no_threads_that_a_frame_would_wait_for():
    environment = {**os.environ}
    environment.pop("QT_NO_GUI_THREADPOOL", None)
    painted = subprocess.run(
        [sys.executable, "-c", PAINTING], capture_output=True, text=True, env=environment, check=False
    )
    assert painted.stdout.split() == ["0"], painted.stderr
