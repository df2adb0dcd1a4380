"""From a key or button until what follows of it is painted, everything else waits: threads, their news, turns."""

import threading
import time
from operator import methodcaller

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.edits.nodes import delete_and_bridge
from onnx_workbench.viewer.core import precedence
from onnx_workbench.viewer.core.jobs import Jobs, post
from onnx_workbench.viewer.core.precedence import acts, is_next_due, let_pass
from onnx_workbench.viewer.core.shifts import Shift
from tests.viewer.inspector.inspector_actions import relu, row, shown


class Canvas(QWidget):
    """Says when it is painted."""

    def __init__(self, told):
        super().__init__()
        self._told = told

    def paintEvent(self, _event):
        self._told.append("painted")


@pytest.fixture(autouse=True)
def _patient(qapp, monkeypatch):
    """However long the machine takes from one line to the next, no frame is given up and no peace is over."""
    monkeypatch.setattr(precedence, "_LONGEST", 60.0)
    monkeypatch.setattr(precedence, "_CALM", 60.0)
    yield
    acts()._calm_until = precedence._wait.next = 0.0


class Clock:
    """Goes on when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def told():
    return []


@pytest.fixture
def canvas(qtbot, told):
    canvas = Canvas(told)
    qtbot.addWidget(canvas)
    with qtbot.waitExposed(canvas):
        canvas.show()
    canvas.activateWindow()
    qtbot.waitUntil(lambda: QGuiApplication.focusWindow() is canvas.windowHandle() and bool(told))
    told.clear()
    return canvas


def act(canvas):
    """What follows of an act is to come first, and something to be painted."""
    acts().come_first()
    canvas.update()


def mouse(canvas, kind, buttons):
    place, none = QPointF(5, 5), Qt.KeyboardModifier.NoModifier
    event = QMouseEvent(kind, place, canvas.mapToGlobal(place), Qt.MouseButton.LeftButton, buttons, none)
    QApplication.sendEvent(canvas.windowHandle(), event)


def wheel(canvas):
    place, none = QPointF(5, 5), Qt.MouseButton.NoButton
    event = QWheelEvent(
        place, canvas.mapToGlobal(place), QPoint(), QPoint(0, 120), none, Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(canvas.windowHandle(), event)


LEFT = Qt.MouseButton.LeftButton


@pytest.mark.parametrize(
    ("do", "is_act"),
    [
        (lambda canvas: QTest.keyPress(canvas.windowHandle(), Qt.Key.Key_Up), True),
        (lambda canvas: mouse(canvas, QEvent.Type.MouseButtonPress, LEFT), True),
        (lambda canvas: mouse(canvas, QEvent.Type.MouseMove, LEFT), True),
        (lambda canvas: mouse(canvas, QEvent.Type.MouseMove, Qt.MouseButton.NoButton), False),
        (wheel, True),
    ],
    ids=["key", "button", "drag", "hover", "wheel"],
)
def test_what_a_person_does_is_told_before_anything_follows(canvas, heard, do, is_act):
    acted = heard(acts().acted)
    do(canvas)
    assert bool(acted) == is_act


def test_it_is_told_of_whichever_window_has_the_focus(canvas, qtbot, heard):
    other = QWidget()
    qtbot.addWidget(other)
    with qtbot.waitExposed(other):
        other.show()
    other.activateWindow()
    qtbot.waitUntil(lambda: QGuiApplication.focusWindow() is other.windowHandle())
    acted = heard(acts().acted)
    wheel(other)
    assert len(acted) == 1


def test_news_of_jobs_and_turns_come_after_the_frame_and_in_order(canvas, qtbot, told):
    jobs = Jobs()
    shift = Shift(lambda: (told.append("turn"), shift.stop()))
    shift.start()
    act(canvas)
    for number in range(3):
        post(lambda number=number: told.append(number))
    qtbot.waitUntil(lambda: len(told) == 5)
    assert told[0] == "painted"
    assert [word for word in told if isinstance(word, int)] == [0, 1, 2]
    jobs.close()


def test_news_go_on_behind_a_dialog_that_some_open(canvas, qtbot, told):
    act(canvas)
    post(lambda: qtbot.waitUntil(lambda: "after" in told))
    post(lambda: told.append("after"))
    qtbot.waitUntil(lambda: "after" in told)


def test_a_thread_waits_for_a_turn_in_which_the_window_works_while_a_person_acts(canvas, qtbot, told):
    act(canvas)
    qtbot.waitUntil(lambda: told == ["painted"] and not acts().is_painting)
    thread = threading.Thread(target=lambda: (let_pass(), told.append("passed")))
    assert acts().is_calm
    with acts().turn():
        thread.start()
        told.append("worked")
    thread.join()
    assert told == ["painted", "worked", "passed"]


def test_a_thread_does_not_wait_for_a_window_that_does_not_paint(canvas, told, monkeypatch):
    monkeypatch.setattr(precedence, "_LONGEST", 0.04)
    act(canvas)
    thread = threading.Thread(target=let_pass)
    thread.start()
    thread.join(30)  # as this one may wait for it
    assert not thread.is_alive()
    assert told == []


@pytest.mark.parametrize(
    "wait",
    [lambda _progress: let_pass(), methodcaller("check"), methodcaller("pause")],
    ids=["let_pass", "check", "pause"],
)
def test_jobs_wait_for_the_frame_where_they_look_whether_to_stop(canvas, qtbot, told, wait):
    jobs = Jobs()
    begun, go = threading.Event(), threading.Event()

    def work(progress):
        begun.set()
        go.wait(30)
        wait(progress)
        told.append("worked")

    jobs.start("", work)
    begun.wait(30)
    act(canvas)
    go.set()
    qtbot.waitUntil(lambda: "worked" in told)
    assert told == ["painted", "worked"]
    jobs.close()


def test_work_that_the_window_itself_waits_for_waits_for_nothing(qtbot, told, monkeypatch):
    monkeypatch.setattr("onnx_workbench.viewer.core.jobs.let_pass", lambda: told.append("waited"))
    jobs = Jobs()
    job = jobs.follow("Followed", lambda: None)
    job.progress.report(1, 2)
    job.progress.check()
    job.progress.pause()
    assert told == []
    jobs.leave(job)
    jobs.close()


def test_work_that_goes_on_to_its_end_is_not_stopped_where_it_pauses(qtbot):
    jobs, ended = Jobs(), []

    def work(progress):
        progress.cancel()
        progress.pause()
        ended.append(True)

    jobs.start("", work)
    qtbot.waitUntil(lambda: bool(ended))
    jobs.close()


def test_quiet_is_over_a_moment_after_the_last_act(qtbot, monkeypatch):
    acts().come_first()
    assert acts().is_calm
    monkeypatch.setattr(precedence, "_CALM", 0.15)
    acts().come_first()
    qtbot.waitUntil(lambda: not acts().is_calm)


@pytest.mark.parametrize(("period", "free", "due"), [(1 / 30, 0.02, 0.028), (1 / 40, 0.01, 0.018), (0.1, 0.09, 0.095)])
def test_the_next_act_of_a_row_is_expected_a_moment_before_it_comes_and_no_longer(qapp, monkeypatch, period, free, due):
    clock = Clock()
    monkeypatch.setattr(precedence, "time", clock)
    monkeypatch.setattr(precedence, "_CALM", 0.15)
    acts().come_first()
    assert not is_next_due()
    start = clock.now = clock.now + period
    acts().come_first()
    for after, is_due in ((0.0, False), (free, False), (due, True), (period + 0.001, True), (period + 0.003, False)):
        clock.now = start + after
        assert is_next_due() == is_due
    clock.now = start + 1.0
    acts().come_first()  # a person who only presses it again
    clock.now += 0.999
    assert not is_next_due()


@pytest.mark.parametrize("period", [1 / 60, 1 / 125, 1 / 1000])
def test_a_pointer_that_is_dragged_leaves_others_their_time(qapp, monkeypatch, period):
    clock = Clock()
    monkeypatch.setattr(precedence, "time", clock)
    for _ in range(3):
        acts().come_first()
        clock.now += period
    for _ in range(10):
        assert not is_next_due()
        clock.now += period / 10


def test_what_would_still_go_on_then_comes_after_the_next_act_of_a_row(canvas, qtbot, told, monkeypatch):
    monkeypatch.setattr(precedence, "_AHEAD", 60.0)
    precedence._wait.next = time.monotonic() + 30.0

    def act_again():
        told.append("act")
        precedence._wait.next = 0.0

    jobs = Jobs()
    shift = Shift(lambda: (told.append("turn"), shift.stop()))
    shift.start()
    post(lambda: told.append("news"))
    QTimer.singleShot(50, act_again)
    qtbot.waitUntil(lambda: len(told) == 3)
    assert told[0] == "act"
    jobs.close()


def test_a_thread_waits_until_the_next_act_of_a_row_should_have_come(qapp, monkeypatch):
    monkeypatch.setattr(precedence, "_AHEAD", 60.0)
    due = precedence._wait.next = time.monotonic() + 0.05
    thread = threading.Thread(target=let_pass)
    thread.start()
    thread.join(30)
    assert due <= time.monotonic()
    assert not thread.is_alive()


def test_the_inspector_follows_what_is_typed_in_it_after_the_frame(qtbot, workspace):
    node = relu(workspace)
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])

    def type_alpha(value):
        with workspace.document.edit("Set alpha") as edit:
            set_attribute(edit, node, "alpha", value)

    type_alpha(0.25)
    assert row(panel, "attributes", "alpha").text == "0.25"
    acts().come_first()
    type_alpha(0.75)
    assert row(panel, "attributes", "alpha").text == "0.25"
    qtbot.waitUntil(lambda: row(panel, "attributes", "alpha").text == "0.75")


def test_what_is_gone_is_followed_at_once(qtbot, workspace):
    node = relu(workspace)
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert node in panel.items
    acts().come_first()
    with workspace.document.edit("Delete") as edit:
        delete_and_bridge(edit, [node])
    assert node not in panel.items
    assert acts().is_painting
