"""When a window has nothing more to do."""

from PySide6.QtCore import QTimer

from onnx_workbench.viewer.core.jobs import Jobs
from onnx_workbench.viewer.core.shifts import Shift


def at_work(window):
    """What still goes on in a window, in words: jobs, work that has its turns, and timers."""
    timers = (timer for timer in window.findChildren(QTimer) if timer.isActive())
    found = {f"{type(timer.parent()).__name__}, every {timer.interval()} ms" for timer in timers}
    found |= {f"turns of {type(shift.parent()).__name__}" for shift in window.findChildren(Shift) if shift.is_on}
    return found | {job.title for jobs in window.findChildren(Jobs) for job in jobs.running}
