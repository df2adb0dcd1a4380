"""Opens files in a window as a user does, and edits what is in them."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from onnx_workbench.model.history.steps import SetField


def opened(window, qtbot, *paths):
    """Open files and wait for their tabs and drawings."""
    count = len(window.tabs())
    window.files.open(paths)
    qtbot.waitUntil(lambda: len(window.tabs()) == count + len(paths) and not window.files.pending)
    settled(window, qtbot)
    return window.tabs()[-1]


def added(window, qtbot, model, title="new"):
    """Show a model that is in no file, once it is on file for recovery."""
    with qtbot.waitSignal(window.files.opened):
        window.files.add_new(model, title)
    return window.tab


def settled(window, qtbot):
    """Wait until every graph is drawn."""
    qtbot.waitUntil(lambda: all(not tab.view.scenes.is_busy for tab in window.tabs()))


def rename(tab, name):
    with tab.workspace.document.edit("Rename node") as edit:
        edit.do(SetField(next(iter(tab.workspace.graph.nodes)), "name", name))


def run(window, action_id):
    window.actions_binding.run(action_id)


def titles(tab):
    return [message.title for message in tab.message_bar.messages]


def choose(qtbot, tab, text):
    """Press a button of a message."""
    (button,) = [b for b in tab.message_bar.findChildren(QPushButton) if b.text() == text and b.isVisible()]
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
