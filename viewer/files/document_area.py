"""The open documents of a window: one tab each, a start page, and messages above them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QApplication, QStackedWidget, QTabBar, QToolButton, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.files.view_store import ViewStore
from onnx_workbench.viewer.program.garbage_collection import delete_widget, free_model
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.document_tabs import DocumentTabs
from onnx_workbench.viewer.widgets.flow_layout import in_a_column
from onnx_workbench.viewer.widgets.message_bar import MessageBar

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.run.workspace import Workspace
    from onnx_workbench.viewer.tasks.tasks import Task

_MOST_POPUPS = 8  # limit for nested popups


class DocumentArea(QWidget):
    """Tabs of open documents and the current one. Independent of files, docks and actions."""

    front_changed = Signal()  # another document is current, or none
    titles_changed = Signal()
    tab_added = Signal(object)  # DocumentTab, before it is shown
    tab_removed = Signal(object)  # DocumentTab, before its tasks are stopped
    view_added = Signal(object)  # GraphView: the graph of a tab, or the merged graph of two
    close_requested = Signal(object)  # DocumentTab

    def __init__(self, start_page: QWidget) -> None:
        super().__init__()
        self.views = ViewStore()
        self.message_bar = MessageBar()
        self._tabs = DocumentTabs()
        self._tabs.currentChanged.connect(self._show_front)
        self._tabs.tabBarClicked.connect(self._focus_front, Qt.ConnectionType.QueuedConnection)  # after the change
        self._stack = QStackedWidget()
        self._stack.addWidget(start_page)
        self._stack.addWidget(self._tabs)
        in_a_column(self, self.message_bar, self._stack, fills=self._stack)
        themes().themeChanged.connect(self._color)

    # -- open tabs and the current one -----------------------------------------------------------------------

    @property
    def tab(self) -> DocumentTab | None:
        """The current tab, of two side by side the one clicked last; None on the start page."""
        page = cast("DocumentTab | None", self._tabs.currentWidget())
        return None if page is None else page.front

    @property
    def workspace(self) -> Workspace | None:
        """The current document, or None on the start page."""
        tab = self.tab
        return None if tab is None else tab.workspace

    def open_models(self) -> list[Model]:
        """Return the models of all open documents."""
        return [tab.workspace.model for tab in self.tabs()]

    def tabs(self) -> list[DocumentTab]:
        """Return the open documents, from left to right."""
        pages = (self._tabs.widget(index) for index in range(self._tabs.count()))
        return [cast("DocumentTab", page) for page in pages if page is not None]  # None: is being removed

    def activate(self, tab: DocumentTab) -> None:
        """Make a document current."""
        self._tabs.setCurrentWidget(tab)

    def activate_next(self, by: int) -> None:
        """Make the next or previous tab current, wrapping around."""
        self._tabs.setCurrentIndex((self._tabs.currentIndex() + by) % max(self._tabs.count(), 1))

    def _show_front(self, *_: object) -> None:
        self._stack.setCurrentIndex(0 if self.tab is None else 1)
        self._show_titles()
        self.front_changed.emit()

    def _focus_front(self) -> None:
        """Focus the graph of a tab that was clicked."""
        if self.tab is not None:
            self.tab.view.setFocus()

    # -- adding and removing ---------------------------------------------------------------------------------

    def add_tab(self, tab: DocumentTab) -> None:
        """Add a document, in the order of requests; make it current unless a later one is open."""
        later = (index for index, other in enumerate(self.tabs()) if other.number > tab.number)
        index = next(later, self._tabs.count())
        self._insert(index, tab, in_front=index == self._tabs.count())
        self.views.restore(tab)

    def replace_tab(self, old: DocumentTab, fresh: DocumentTab) -> None:
        """Replace a document by a reloaded one, in the same tab, showing the same graph."""
        index = self._tabs.indexOf(old)
        self.views.remember(old)
        self._insert(index, fresh)
        self.views.restore(fresh)
        self.remove_tab(old)

    def _insert(self, index: int, tab: DocumentTab, *, in_front: bool = True) -> None:
        tab.workspace.changes.state_changed.connect(self._show_titles)
        for signal in (tab.workspace.tasks.started, tab.workspace.tasks.ended):
            signal.connect(self._on_task)
        self.tab_added.emit(tab)
        self.view_added.emit(tab.view)
        self._tabs.insertTab(index, tab, "")
        self._tabs.tabBar().setTabButton(index, QTabBar.ButtonPosition.RightSide, self._close_button(tab))
        if in_front:
            self._tabs.setCurrentWidget(tab)
            tab.view.setFocus()
        self._show_titles()

    def _on_task(self, task: Task[Any]) -> None:
        """Update the title, as a pending edit counts as a change."""
        if task.makes == "edit":
            self._show_titles()

    def remove_tab(self, tab: DocumentTab) -> None:
        """Remove a document from the window without asking."""
        _close_popups()
        if tab.beside is not None:
            tab.beside.comparing.close()  # first: it shows the document in front, and panels would be made for this one
        self.views.remember(tab)
        self.tab_removed.emit(tab)
        tab.close_workspace()
        self._tabs.removeTab(self._tabs.indexOf(tab))
        tab.destroyed.connect(partial(free_model, tab.workspace.model))
        delete_widget(tab)
        self._show_titles()  # another file of the same name may no longer need its folder

    def compare(self, old: DocumentTab, new: DocumentTab) -> None:
        """Compare two open documents in one tab, with the list of differences."""
        from onnx_workbench.viewer.compare.model_comparison import ModelComparison
        from onnx_workbench.viewer.files.side_by_side import SideBySide

        if new not in self.tabs() or old not in self.tabs():
            return  # one was closed while the other was read
        beside = SideBySide(old, new, ModelComparison(old.workspace, new.workspace))
        beside.front_changed.connect(self._show_front)
        beside.view_made.connect(self.view_added)
        if beside.merged is not None and beside.merged.view is not None:
            self.view_added.emit(beside.merged.view)
        self._tabs.setCurrentWidget(beside.right)
        beside.move_to(beside.right)
        self._show_front()
        new.workspace.trigger("panel.differences")

    # -- messages --------------------------------------------------------------------------------------------

    def show_message(self, message: Message) -> None:
        """Show a message that does not belong to an open document."""
        self.message_bar.show_message(message)

    def report(self, error: ModelError, topic: str = "") -> None:
        """Show an error of the user's last action, at the current document."""
        message = Message("error", error.title, error.detail, error.place, topic=topic)
        tab = self.tab
        (self.message_bar if tab is None else tab.message_bar).show_message(message)

    def close_message(self) -> bool:
        """Close the newest message; return False if none is shown."""
        tab = self.tab
        return (tab is not None and tab.message_bar.close_newest()) or self.message_bar.close_newest()

    # -- titles ----------------------------------------------------------------------------------------------

    def _close_button(self, tab: DocumentTab) -> QToolButton:
        """Return the close button of a tab; that of the style may be red, which is for errors."""
        button = QToolButton()
        button.setAutoRaise(True)
        button.setIconSize(QSize(10, 10))
        button.setIcon(icon("close"))
        button.setToolTip("Close (Ctrl+W)")
        button.setAccessibleName(f"Close {tab.workspace.title}")
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.clicked.connect(lambda: self.close_requested.emit(tab))
        return button

    def _color(self) -> None:
        for index in range(self._tabs.count()):
            button = self._tabs.tabBar().tabButton(index, QTabBar.ButtonPosition.RightSide)
            if isinstance(button, QToolButton):
                button.setIcon(icon("close"))

    def _show_titles(self) -> None:
        # Otherwise it would get the focus by Tab even if hidden.
        several = self._tabs.count() > 1
        self._tabs.tabBar().setFocusPolicy(Qt.FocusPolicy.TabFocus if several else Qt.FocusPolicy.NoFocus)
        for index, tab in enumerate(self.tabs()):
            workspace = tab.workspace
            title = display(workspace.label, 60).replace("&", "&&")
            title = f"{title} •" if tab.modified else title
            if title != self._tabs.tabText(index):  # setting it lays out and paints all tabs again
                self._tabs.setTabText(index, title)
            read_only = " (read-only)" if tab.is_read_only else ""
            tip = plain_tip(display(str(tab.path or workspace.title), 500) + read_only)
            self._tabs.setTabToolTip(index, tip)
        self.titles_changed.emit()


def _close_popups() -> None:
    """Close menus and popups: they may refer to a document that is being closed or reloaded."""
    for _ in range(_MOST_POPUPS):
        popup = QApplication.activePopupWidget()
        if popup is None:
            return
        popup.close()
