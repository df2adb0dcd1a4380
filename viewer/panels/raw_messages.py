"""Raw messages panel: the model as the protobuf messages that saving it would write, linked with the selection."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPoint, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTreeView

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.raw_view import (
    Branches,
    Path,
    contents_of,
    long_branches,
    object_at,
    path_of,
)
from onnx_workbench.model.io.reader.payloads import JoinedPieces
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import bytes_text
from onnx_workbench.viewer.dialogs.edit_message import edit_message
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tables.raw_message_model import RawMessageModel
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.widgets.flow_layout import in_a_column
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_DELAY_MS = 300
_MUTED_MS = 400  # delay in ms after which old rows are greyed while reading
_TENSOR_FIELDS = frozenset({"t", "tensors", "sparse_tensor", "sparse_tensors", "initializer", "sparse_initializer"})
_KEPT_OPEN = 100  # most branches reopened after an edit: finding each is a search among its siblings


class RawMessagesPanel(Panel):
    """Choosing a field selects its object on the graph, and vice versa; a double-click edits the message around it.

    Read only while visible, in the background. Meanwhile the rows of the previous state are shown: a path in them may
    lead to another message by now.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.model = RawMessageModel(self)
        self.tree = QTreeView(self)
        self.tree.setItemDelegate(WholeTextDelegate(self.tree))
        self.tree.setModel(self.model)
        self.tree.setUniformRowHeights(True)
        self.tree.setAccessibleName("Raw messages")
        self.tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.tree.setExpandsOnDoubleClick(False)
        self.tree.activated.connect(self.edit)
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._open_menu)
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
        for column, sample in ((0, "quantization_annotation[0]"), (1, "Number"), (3, "1,000,000…1,000,000")):
            header.resizeSection(column, self.fontMetrics().horizontalAdvance(sample) + 24)
        self.status = plain_label(parent=self, wraps=False)
        self.status.setContentsMargins(6, 3, 6, 3)
        self.error = ErrorLabel(self)
        self.error.setContentsMargins(6, 3, 6, 0)
        in_a_column(self, self.tree, self.error, self.status)
        self.entry = self.tree
        self.menu = QMenu(self)
        self._stale = True
        self._reading = ModelReader(self)
        self._chosen: tuple[Path, object] | None = None  # the current row and its object when it was chosen
        self._following = False
        self._open: dict[Path, None] = {}  # in the order in which they were expanded
        self.tree.expanded.connect(lambda index: self._open.setdefault(index.data(Qt.ItemDataRole.UserRole)))
        self.tree.collapsed.connect(lambda index: self._open.pop(index.data(Qt.ItemDataRole.UserRole), None))
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.refresh_when_visible)
        self._muting = QTimer(self, singleShot=True, interval=_MUTED_MS)
        self._muting.timeout.connect(self._mute)
        self.tree.selectionModel().currentChanged.connect(self._on_current)
        workspace.changes.changed.connect(self._on_change)
        workspace.selection.changed.connect(self._show_selection)
        self.refresh_when_visible()

    def _on_change(self, _change: object) -> None:
        self._reading.stop()
        self._stale = True
        self._delay.start()

    def refresh(self) -> None:
        """Encode the messages in the background; until then the previous rows stay."""
        model = self.workspace.model

        def work(progress: Progress) -> tuple[JoinedPieces, Branches]:
            contents = contents_of(model, progress)
            return contents, long_branches(contents, progress)

        self._reading.start(work, self._show_read, failed=self._on_failed)
        self._muting.start()

    def _mute(self) -> None:
        """Grey the rows while reading takes long."""
        if self._stale:
            self.status.setText("Reading the messages…")
            self.model.mute()
            self.tree.viewport().update()

    def _on_failed(self, error: Exception) -> None:
        if not isinstance(error, ModelError):
            raise error
        self._muting.stop()
        self.status.setText(str(error))

    def _show_read(self, read: tuple[JoinedPieces, Branches]) -> None:
        self._muting.stop()
        contents, branches = read
        current = self.tree.currentIndex()
        path: Path = current.data(Qt.ItemDataRole.UserRole) if current.isValid() else ()
        shown = self._is_shown(current)
        self._stale = False
        self._following = True
        scrolled = self.tree.verticalScrollBar().value()
        self.model.set_contents(contents, branches)
        self._open_again()
        if shown:
            self._show_path(path or (("graph", 0),))
        else:
            self._choose_hidden(path)
        if path:
            self.tree.verticalScrollBar().setValue(scrolled)
        self._following = False
        self.status.setText(f"{bytes_text(contents.size)} if the model were saved now")
        self._show_selection()

    def _open_again(self) -> None:
        """Expand the branches that were expanded before reading, if they still exist."""
        kept = list(self._open)[-_KEPT_OPEN:]
        self._open.clear()
        for path in sorted(kept, key=len):
            index = self.model.index_of(path)
            if index.data(Qt.ItemDataRole.UserRole) == path:
                self.tree.setExpanded(index, True)

    def _is_shown(self, index: QModelIndex) -> bool:
        around = index.parent()
        while around.isValid() and self.tree.isExpanded(around):
            around = around.parent()
        return not around.isValid()

    def _choose_hidden(self, path: Path) -> None:
        """Make a row current again without expanding what the user collapsed."""
        self.tree.setAutoScroll(False)
        self.tree.setCurrentIndex(self.model.index_of(path))
        self.tree.setAutoScroll(True)
        self.tree.doItemsLayout()  # or there is nothing to scroll yet

    def _show_path(self, path: Path) -> None:
        index = self.model.index_of(path)
        if index.isValid():
            self.tree.setCurrentIndex(index)
            self.tree.scrollTo(index)

    def _show_selection(self) -> None:
        current = self.workspace.selection.current
        if self._following or self._stale or current is None or not self.isVisible():
            return
        path = None if self._target() is current else path_of(current)  # which is linear in the position in its list
        if path:
            self._following = True
            self._show_path(path)
            self._following = False

    def _on_current(self, index: QModelIndex) -> None:
        self.error.show_error(None)  # the message belongs to another row
        self._chosen = None
        if not index.isValid() or self._stale:
            return
        target = self._target_at(index)
        self._chosen = index.data(Qt.ItemDataRole.UserRole), target
        if self._following:
            return
        self._following = True
        if isinstance(target, (Node, Value)):
            self.workspace.navigation.reveal(target)
        elif isinstance(target, (Graph, Function, Model)):
            self.workspace.selection.set([target])
        self._following = False

    def _target(self) -> object:
        """Return the object of the current row; None if it cannot be selected."""
        return None if self._chosen is None else self._chosen[1]

    def _target_at(self, index: QModelIndex) -> object:
        return object_at(self.workspace.model, index.data(Qt.ItemDataRole.UserRole))[0]

    # -- the message of a row --------------------------------------------------------------------------------

    def _open_menu(self, position: QPoint) -> None:
        index = self.tree.indexAt(position)
        if index.isValid():
            self.tree.setCurrentIndex(index)
        self.build_menu(index)
        self.menu.popup(self.tree.viewport().mapToGlobal(position))

    def build_menu(self, index: QModelIndex) -> None:
        """Fill the context menu for a row; without a row, for the model itself."""
        self.menu.clear()
        self.menu.addAction("Edit Messa&ge…", lambda: self.edit(index))
        if not index.isValid():
            return
        target = self._target_at(index)
        names = {name for name, _ in index.data(Qt.ItemDataRole.UserRole)}
        if isinstance(target, (Node, Value)) and names & _TENSOR_FIELDS:
            self.menu.addAction("Edit as &Tensor", lambda: self._open_tensor(target))
        text = str(index.siblingAtColumn(2).data() or "")
        self.menu.addAction("&Copy Value", lambda: QGuiApplication.clipboard().setText(text))

    def _open_tensor(self, target: Node | Value) -> None:
        self.workspace.navigation.reveal(target)
        self.workspace.trigger("panel.tensor")

    def edit(self, index: QModelIndex) -> None:
        """Open the message of the object that a row belongs to as text, or show why it has none."""
        self.error.show_error(None)
        path: Path = index.data(Qt.ItemDataRole.UserRole) if index.isValid() else ()
        try:
            if self._stale:
                raise ModelError("The messages are being read again", "Try again in a moment.")
            target, field = object_at(self.workspace.model, path)
            edit_message(self.window(), self.workspace, target, field)
        except ModelError as error:
            self.error.show_error(error)
