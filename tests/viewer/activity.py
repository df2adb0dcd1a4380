"""What a window is still doing."""

from PySide6.QtCore import QTimer

from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.tasks.tasks import TaskRunner


def activity_in(window):
    """What still goes on in a window, in words: tasks, readers and timers."""
    timers = (timer for timer in window.findChildren(QTimer) if timer.isActive())
    found = {f"{type(timer.parent()).__name__}, every {timer.interval()} ms" for timer in timers}
    found |= {
        f"reader of {type(reader.parent()).__name__}" for reader in window.findChildren(ModelReader) if reader.running
    }
    return found | {task.title for tasks in window.findChildren(TaskRunner) for task in tasks.running}
