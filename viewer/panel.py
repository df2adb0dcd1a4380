"""Base class of the panels in docks."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, in_a_column


class Panel(QWidget):
    """Content of a dock for one open document, made when the dock is first shown.

    A panel gets nothing but the workspace: it listens to its selection, changes and navigation, and acts through
    actions, navigation and edits of the document.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        #: Where the focus goes first. No focus proxy: Tab would jump to it, past the controls before it.
        self.entry: QWidget = self
        self._is_behind = False  # to be refreshed once it can be seen

    def lay_out(self, content: QWidget, message: QWidget, *controls: QWidget, whole: bool = False) -> None:
        """Fill the panel with its content under a bar of a text and controls.

        The text gets the width that the controls leave. `whole`: it gets the width it needs, and the controls that do
        not fit continue in a new line.
        """
        bar = FlowLayout()
        bar.setContentsMargins(6, 4, 6, 4)
        add = bar.addWidget if whole else bar.add_filling
        add(message)
        for control in controls:
            bar.addWidget(control)
        in_a_column(self, bar, content)
        self.entry = content

    def serves(self, workspace: Workspace) -> bool:
        """Whether the panel shows another document too, and so stays when that comes to the front."""
        return workspace is self.workspace

    def set_in_front(self, *, in_front: bool) -> None:
        """Called when the panel comes to the front of its dock's tabs, and when it goes: behind them, or closed."""

    def refresh(self) -> None:
        """Show the present state. Panels that are costly to fill do it here."""

    def refresh_when_visible(self, *_: object) -> None:
        """Refresh now or, while nobody sees the panel, once it is shown. Any signal can be connected to it."""
        self._is_behind = not self.isVisible()
        if not self._is_behind:
            self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_behind:
            self.refresh_when_visible()

    def activate(self) -> None:
        """Focus the main widget: the user opened the panel by shortcut or menu."""
        self.entry.setFocus(Qt.FocusReason.ShortcutFocusReason)
