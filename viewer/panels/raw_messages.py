"""Raw messages panel: the model as the protobuf messages that saving it would write, linked with the selection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QLabel, QTreeView, QVBoxLayout, QWidget

from onnx_workbench.model.convert.changed_nodes import nodes_changed_by_opset
from onnx_workbench.model.edits import properties
from onnx_workbench.model.edits.raw_fields import place_of, set_field
from onnx_workbench.model.edits.raw_paths import path_of, plain_path
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.message_fields import Path
from onnx_workbench.model.io.raw_view import Branches, RawContents, contents_of, long_branches
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.attributes import parse_int
from onnx_workbench.model.text.formatting import bytes_text
from onnx_workbench.viewer.core.readers import ModelReader
from onnx_workbench.viewer.dialogs.opset_question import ask_about_opset
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.panels.raw_menu import RawMenu
from onnx_workbench.viewer.property_tree.validating_delegate import ValidatingDelegate
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.tables.raw_message_model import RawMessageModel

_DELAY_MS = 300
_MUTED_MS = 400  # delay in ms after which old rows are greyed while reading
_KEPT_OPEN = 100  # most branches reopened after an edit: finding each is a search among its siblings


class RawMessagesPanel(Panel):
    """Choosing a field selects its object on the graph, and vice versa.

    Read only while visible, in the background. Meanwhile the rows of the previous state are shown read-only: a path in
    them may lead to another message by now.
    """

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(workspace, parent)
        self.model = RawMessageModel(self)
        self.tree = QTreeView(self)
        self.tree.setModel(self.model)
        self.values = ValidatingDelegate(self.tree)
        self.tree.setItemDelegateForColumn(2, self.values)
        self.tree.setUniformRowHeights(True)
        self.tree.setAccessibleName("Raw messages")
        self.tree.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed | QAbstractItemView.EditTrigger.DoubleClicked
        )
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
        for column, sample in ((0, "quantization_annotation[0]"), (1, "Number"), (3, "1,000,000…1,000,000")):
            header.resizeSection(column, self.fontMetrics().horizontalAdvance(sample) + 24)
        self.status = QLabel("", self)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setContentsMargins(6, 3, 6, 3)
        self.error = ErrorLabel(self)
        self.error.setContentsMargins(6, 3, 6, 0)
        self._lay_out()
        self.entry = self.tree
        self.menu = RawMenu(self)
        self._stale = True
        self._reading = ModelReader(self)
        self._chosen: tuple[Path, object] | None = None  # the current row and its object when it was chosen
        self._following = False
        self._open: dict[Path, None] = {}  # in the order in which they were expanded
        self.tree.expanded.connect(lambda index: self._open.setdefault(index.data(Qt.ItemDataRole.UserRole)))
        self.tree.collapsed.connect(lambda index: self._open.pop(index.data(Qt.ItemDataRole.UserRole), None))
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self._start_encoding)
        self._muting = QTimer(self, singleShot=True, interval=_MUTED_MS)
        self._muting.timeout.connect(self._mute)
        self.model.edited.connect(self._edit)
        self.tree.selectionModel().currentChanged.connect(self._on_current)
        workspace.changes.changed.connect(self._on_change)
        workspace.selection.changed.connect(self._show_selection)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for widget in (self.tree, self.error, self.status):
            layout.addWidget(widget)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale and not self._reading.running:
            self._start_encoding()

    def _on_change(self, _change: object) -> None:
        self._reading.stop()
        self._stale = self.model.is_outdated = True
        if self.isVisible():
            self._delay.start()

    def _start_encoding(self) -> None:
        """Encode the messages incrementally."""
        if self.values.editor is not None:  # reading again would close the editor and lose the typed text
            self._delay.start()
            return
        model = self.workspace.model

        def work(progress: Progress) -> tuple[RawContents, Branches]:
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

    def _show_read(self, read: tuple[RawContents, Branches]) -> None:
        if self.values.editor is not None:  # edited again with the refused text
            self._delay.start()
            return
        self._muting.stop()
        contents, branches = read
        current = self.tree.currentIndex()
        path: Path = current.data(Qt.ItemDataRole.UserRole) if current.isValid() else ()
        shown = self._is_shown(current)
        self._stale = False
        self._following = True
        scrolled = self.tree.verticalScrollBar().value()
        self.model.set_contents(contents, self.workspace.model, branches)
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
        """Return whether all ancestors of a row are expanded."""
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
        location = place_of(self.workspace.model, index.data(Qt.ItemDataRole.UserRole))
        return None if location is None else location.target

    def _edit(self, path: Path, text: str) -> None:
        """Set a field, or show the error."""
        name = (plain_path(path) or path)[-1][0]
        with self.telling():
            if self._stale and not self._is_unchanged(path):
                self.model.is_outdated = False  # or the editor could not be reopened with the typed text
                raise ModelError("The message has changed", "Press Esc to show its current value.")
            if self._asks_about_opset(path, text):
                return
            with self.workspace.document.edit(self.title("Set", name, path)) as edit:
                set_field(edit, path, text)

    def _asks_about_opset(self, path: Path, text: str) -> bool:
        """Ask whether to convert, where another number of an opset import changes what nodes mean."""
        location = place_of(self.workspace.model, path)
        names = () if location is None else tuple(name for name, _ in location.rest)
        if (
            location is None
            or names != ("opset_import", "version")
            or not isinstance(location.target, (Model, Function))
        ):
            return False
        target = location.target
        domain = list(target.opset_imports)[location.rest[0][1]]
        version = parse_int(text)
        properties.check_opset_version(version, target)
        changed = nodes_changed_by_opset(target, domain, version)
        if changed:
            ask_about_opset(self.window(), self.workspace, target, domain, version, changed)
        return bool(changed)

    def title(self, verb: str, name: str, path: Path) -> str:
        """Return the history title of an edit of a field, with the object that it belongs to."""
        location = place_of(self.workspace.model, path)
        return f"{verb} {name}" if location is None else f"{verb} {name} of {name_of(location.target)}"

    def _is_unchanged(self, path: Path) -> bool:
        """Return whether an edited field still has the same path and content."""
        location, plain = place_of(self.workspace.model, path), plain_path(path)
        if location is None or plain is None or self._chosen != (path, location.target):
            return False
        return self.model.is_same_in(contents_of(self.workspace.model), path, len(plain) - len(location.rest))

    def require_current(self) -> None:
        """Raise ModelError while the rows are those of the previous state."""
        if self._stale:
            raise ModelError("The messages are being read again", "Try again in a moment.")

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Show the error of an edit in the block, below the rows and at the open editor."""
        self.error.show_error(None)
        try:
            yield
        except ModelError as error:
            self.error.show_error(error)
            self.model.refuse(f"{error.title}\n{error.detail}")
