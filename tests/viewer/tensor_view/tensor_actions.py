"""What tests do with the tensor panel."""

import numpy as np
from PySide6.QtCore import QTimer

from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.viewer.tensor_view.panel import TensorPanel


def opened(qtbot, workspace):
    panel = TensorPanel(workspace)
    qtbot.addWidget(panel)
    panel.resize(1100, 400)
    panel.show()
    return panel


def put(workspace, array, kind=None, name="t"):
    tensor = array if isinstance(array, (ArrayTensor, SparseTensor)) else ArrayTensor(np.asarray(array), kind)
    with workspace.document.edit("Add") as edit:
        return add_initializer(edit, workspace.model.graph, tensor, name)


def select(qtbot, panel, item):
    """Select something and wait for its numbers."""
    panel.workspace.selection.set([item])
    settled(qtbot, panel)


def panel_of(qtbot, window, item):
    """The panel of a window, with the numbers of something in the document in front."""
    panel = window.docks.open("tensor")
    select(qtbot, panel, item)
    return panel


def settled(qtbot, panel):
    """Wait until the panel has nothing more to begin, and nothing is being worked out."""

    def is_idle():
        return not panel.workspace.tasks.running and not any(timer.isActive() for timer in panel.findChildren(QTimer))

    qtbot.waitUntil(is_idle)


def look(qtbot, panel, view, widget):
    """Choose a view in its box and wait until it is shown."""
    box = panel.pane.view_box
    box.setCurrentText(view)
    assert box.currentText() == view
    box.activated.emit(box.currentIndex())
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is widget and not panel.workspace.tasks.running)


def facts(panel):
    """What the panel tells of the tensor, by name."""
    return {name: text for name, text, _ in panel.pane.facts.rows}
