"""Background work that a test pauses, delays or waits for."""

from threading import Event

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.tasks.readers import ModelReader


def until_stopped(began):
    """Stands in for work that takes a `Progress`: says that it began, and goes on until it is stopped."""

    def work(*given, **named):
        began.set()
        progress = next(one for one in (*given, *named.values()) if isinstance(one, Progress))
        while True:
            progress.check()

    return work


def pause_reader(monkeypatch, owner, name):
    """Have a method that takes a `Progress` wait: the events that it was called, and that it may go on."""
    began, free, method = Event(), Event(), getattr(owner, name)

    def paused(*given, **named):
        began.set()
        progress = next((one for one in (*given, *named.values()) if isinstance(one, Progress)), SILENT)
        while not free.wait(0.005):
            progress.check()
        return method(*given, **named)

    monkeypatch.setattr(owner, name, paused)
    return began, free


def wait_for_readers(qtbot, rounds=3):
    """Wait until readers that were started before have ended, and those that they start: one runs at a time."""
    for _ in range(rounds):
        done, owner = [], QObject()
        ModelReader(owner).start(lambda _progress: True, done.append)
        qtbot.waitUntil(lambda done=done: bool(done))


def delay(monkeypatch, owner, name):
    """Have a method wait until the event that this gives is set."""
    free, method = Event(), getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: free.wait(30) and method(*given, **named))
    return free


def wait_for_background_work(qtbot, count=4):
    """Wait until readers have ended, and timers with a timeout of zero have expired so many times."""
    wait_for_readers(qtbot)
    taken = []
    timer = QTimer(interval=0)
    timer.timeout.connect(lambda: taken.append(1))
    timer.start()
    qtbot.waitUntil(lambda: len(taken) > count)
    timer.stop()


def task_of(qtbot, tasks, title):
    """The task of a title, once it runs."""

    def found():
        return [task for task in tasks.running if task.title == title]

    qtbot.waitUntil(lambda: bool(found()))
    return found()[0]
