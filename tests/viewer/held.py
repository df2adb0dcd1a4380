"""Work that a test holds up, or lets go on."""

from threading import Event

from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.shifts import Shift


def until_stopped(began):
    """Stands in for work that takes a `Progress`: says that it began, and goes on until it is stopped."""

    def work(*given, **named):
        began.set()
        progress = next(one for one in (*given, *named.values()) if isinstance(one, Progress))
        while True:
            progress.check()

    return work


def hold_up(monkeypatch, owner, name):
    """Have a method wait until the event that this gives is set."""
    free, method = Event(), getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: free.wait(30) and method(*given, **named))
    return free


def turns_by_hand(monkeypatch, module):
    """Give the shifts of a module no turns but those that calling the result gives them, one each."""
    waiting = []

    class HeldShift(Shift):
        def start(self):
            waiting.append(self)

        def stop(self):
            waiting[:] = [shift for shift in waiting if shift is not self]

    def turn():
        for shift in waiting:
            shift.work()

    monkeypatch.setattr(module, "Shift", HeldShift)
    return turn


def let_take_turns(qtbot, count=4):
    """Wait until everybody who works in turns has had so many."""
    taken = []
    shift = Shift(lambda: taken.append(1))  # takes turns with all others
    shift.start()
    qtbot.waitUntil(lambda: len(taken) > count)
    shift.stop()


def job_of(qtbot, jobs, title):
    """The job of a title, once it runs."""

    def found():
        return [job for job in jobs.running if job.title == title]

    qtbot.waitUntil(lambda: bool(found()))
    return found()[0]
