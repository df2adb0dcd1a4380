"""Context menu of the raw messages: edit, add a field, remove."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QMenu

from onnx_workbench.model.edits.raw_fields import (
    add_field,
    add_unknown_field,
    addable,
    can_remove,
    place_of,
    remove_field,
)
from onnx_workbench.model.edits.raw_paths import plain_path
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.message_fields import Path
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.dialogs.text_prompt import PromptField, TextPrompt

if TYPE_CHECKING:
    from onnx_workbench.viewer.panels.raw_messages import RawMessagesPanel

_TENSOR_FIELDS = frozenset({"t", "tensors", "sparse_tensor", "sparse_tensors"})


class RawMenu(QMenu):
    """Rebuilt each time it opens, for the row under the mouse. On the tree, Delete removes and F2 edits."""

    def __init__(self, panel: RawMessagesPanel) -> None:
        super().__init__(panel)
        self._panel = panel
        panel.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        panel.tree.customContextMenuRequested.connect(self._open)
        panel.tree.installEventFilter(self)

    def _open(self, position: QPoint) -> None:
        index = self._panel.tree.indexAt(position)
        if index.isValid():
            self._panel.tree.setCurrentIndex(index)
        self.build(index)
        self.popup(self._panel.tree.viewport().mapToGlobal(position))

    def build(self, index: QModelIndex) -> None:
        """Add the entries for a row; without a row, those for the model itself."""
        self.clear()
        model = self._panel.workspace.model
        path: Path = index.data(Qt.ItemDataRole.UserRole) if index.isValid() else ()
        value = index.siblingAtColumn(2)
        if index.isValid():
            editing = self.addAction("&Edit Value", partial(self._edit, QPersistentModelIndex(index)))
            editing.setEnabled(bool(value.flags() & Qt.ItemFlag.ItemIsEditable))
        message = self._panel.model.message_path(index)
        fields = addable(model, message)
        adding = self.addMenu("&Add Field")
        for name, ask in fields.items():
            title = f"{name}…" if ask else name
            adding.addAction(title, partial(self.add, message, name, ask))
        adding.addSeparator()
        adding.addAction("Unknown &Field…", partial(self.add_unknown, message))
        if index.isValid():
            self.addAction("&Remove Field", partial(self.remove, path)).setEnabled(can_remove(model, path))
            self.addSeparator()
            if self._is_tensor(path):
                self.addAction("Edit as &Tensor", partial(self._open_tensor, path))
            self.addAction("&Copy Value", lambda: QGuiApplication.clipboard().setText(self._text(value)))

    def _text(self, index: QModelIndex) -> str:
        return self._panel.model.source(index) or str(index.data() or "")

    def _is_tensor(self, path: Path) -> bool:
        location = place_of(self._panel.workspace.model, path)
        if location is None:
            return False
        inside = isinstance(location.target, Node) and any(name in _TENSOR_FIELDS for name, _ in location.rest)
        return inside or location.field.endswith("initializer")

    def _open_tensor(self, path: Path) -> None:
        with self._panel.telling():
            self._panel.require_current()
            self._reveal_tensor(path)

    def _reveal_tensor(self, path: Path) -> None:
        location = place_of(self._panel.workspace.model, path)
        if location is not None and isinstance(location.target, (Node, Value)):
            self._panel.workspace.navigation.reveal(location.target)
            self._panel.workspace.trigger("panel.tensor")

    # -- changing --------------------------------------------------------------------------------------------

    def add(self, path: Path, name: str, ask: str) -> None:
        """Add a field to the message at a path, prompting for its text if it has one."""
        if not ask:
            self._add(path, name, "")
            return
        message = path[-1][0] if path else "the model"
        target = self._target(path)
        dialog = TextPrompt(
            self._panel,
            f"Add {name}",
            [PromptField(ask[0].upper() + ask[1:])],
            lambda texts: self._change(
                self._panel.title("Add", name, path),
                partial(add_field, path=path, name=name, text=texts[0]),
                self._same(path, target),
            ),
            explanation=f"To {display(message)}.",
            button="Add",
        )
        dialog.open()

    def add_unknown(self, path: Path) -> None:
        """Add a field unknown to onnx.proto, prompting for number and content."""
        message = path[-1][0] if path else "the model"
        target = self._target(path)
        dialog = TextPrompt(
            self._panel,
            "Add Unknown Field",
            [PromptField("Field number"), PromptField("Value", placeholder="42, or bytes 0a ff")],
            lambda texts: self._change(
                self._panel.title("Add", f"field {texts[0]}", path),
                partial(add_unknown_field, path=path, number=texts[0], text=texts[1]),
                self._same(path, target),
            ),
            explanation=f"To {display(message)}.",
            button="Add",
        )
        dialog.open()

    def _add(self, path: Path, name: str, text: str) -> None:
        with self._panel.telling():
            self._change(self._panel.title("Add", name, path), partial(add_field, path=path, name=name, text=text))

    def remove(self, path: Path) -> None:
        """Remove the field from its message, or show the error."""
        plain = plain_path(path)
        if plain:
            with self._panel.telling():
                title = self._panel.title("Remove", plain[-1][0], plain[:-1])
                self._change(title, partial(remove_field, path=path))

    def _target(self, path: Path) -> object:
        location = place_of(self._panel.workspace.model, path)
        return None if location is None else location.target

    def _same(self, path: Path, target: object) -> bool:
        """Return whether a path still leads to the same object as when a dialog opened."""
        return self._target(path) is target

    def _change(self, title: str, change: partial[None], is_same: bool = True) -> None:
        self._panel.require_current()
        if not is_same:
            raise ModelError("The message was moved", "The model was changed since this was opened.")
        with self._panel.workspace.document.edit(title) as edit:
            change(edit)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Handle Delete for the field instead of the graph's selection, and F2 in any column."""
        kinds = (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
        if event.type() not in kinds or not isinstance(event, QKeyEvent):
            return super().eventFilter(watched, event)
        act = {Qt.Key.Key_Delete: self._delete, Qt.Key.Key_F2: self._edit}.get(Qt.Key(event.key()))
        if act is None:
            return super().eventFilter(watched, event)
        event.accept()
        index = self._panel.tree.currentIndex()
        if event.type() == QEvent.Type.KeyPress and index.isValid():
            act(index)
        return True

    def _edit(self, index: QModelIndex | QPersistentModelIndex) -> None:
        with self._panel.telling():
            self._panel.require_current()
            self._panel.values.edit_cell(index.sibling(index.row(), 2))

    def _delete(self, index: QModelIndex) -> None:
        path: Path = index.data(Qt.ItemDataRole.UserRole)
        if can_remove(self._panel.workspace.model, path):
            self.remove(path)
        else:
            self._panel.error.show_error(ModelError(f"{path[-1][0]} cannot be removed", "The message needs it."))
