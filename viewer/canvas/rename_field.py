"""Line edit over a node's title or a value's label on the graph, to rename it in place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRect, Qt
from PySide6.QtGui import QFocusEvent

from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.canvas.scene.drawing import HEADER, Kind
from onnx_workbench.viewer.property_tree.editors import FieldError, LineField
from onnx_workbench.viewer.property_tree.rows import PropertyField

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Document, Transaction
    from onnx_workbench.viewer.canvas.graph_view import GraphView

_NARROWEST = 180
_LONGEST_SHOWN = 80  # most characters of a name for which the field is widened
_MARGINS = 24


class RenameField(LineField):
    """Enter commits, Esc cancels; an invalid name stays open with the error below it."""

    def __init__(self, view: GraphView, item: Node | Value, document: Document, drawn: Node | Value) -> None:
        title = f"Rename {display(item.name or 'node', 60)}"
        super().__init__(PropertyField(title, lambda: item.name, partial(_rename, item), hint="no name"), view)
        self._view = view
        self._item = item
        self._document = document
        self._drawn = drawn
        self._left = False
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName(f"Name of {display(item.title if isinstance(item, Node) else item.name, 60)}")
        self.error = FieldError(view)
        self.destroyed.connect(self.error.deleteLater)
        self.set_text(item.name)
        self._shown = self.text_now()  # a line edit replaces line breaks in a name
        self._wanted = self.fontMetrics().horizontalAdvance(display(self.text(), _LONGEST_SHOWN)) + _MARGINS
        self.setGeometry(_field_rect(view, drawn, self._wanted))
        view.viewport_changed.connect(self._reposition)
        view.workspace.navigation.graph_shown.connect(self.close_field)
        self.commit_requested.connect(self.commit)
        self.cancel_requested.connect(self.close_field)
        self.textEdited.connect(self.error.hide)
        self.show()
        self.setFocus()

    def commit(self) -> None:
        """Apply the name; if it is refused, show the error."""
        name = self.text_now()
        if name == self._shown or self._item.graph is None:  # deleted while its name was typed
            self.close_field()
            return
        try:
            with self._document.edit(self.field.title) as edit:
                self.field.apply(edit, name)
        except ModelError as error:
            self.error.show_error(error, self)
            return
        self.close_field()

    def _reposition(self) -> None:
        self.setGeometry(_field_rect(self._view, self._drawn, self._wanted))
        self.error.hide()

    def close_field(self, *_: object) -> None:
        """Close the field and return the focus to the graph."""
        if self._left:
            return
        self._left = True
        self._view.viewport_changed.disconnect(self._reposition)
        self._view.workspace.navigation.graph_shown.disconnect(self.close_field)
        self.error.hide()
        had_focus = self.hasFocus()
        self.close()
        if had_focus:
            self._view.setFocus()

    def event(self, event: QEvent) -> bool:
        """Accept keys as text that are shortcuts on the graph."""
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().event(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Commit when the focus moves elsewhere; a refused name is discarded."""
        super().focusOutEvent(event)
        if self._left or event.reason() == Qt.FocusReason.PopupFocusReason:
            return
        self.commit()
        self.close_field()


def _rename(item: Node | Value, edit: Transaction, name: str) -> None:
    if isinstance(item, Node):
        nodes.rename_node(edit, item, name)
    else:
        values.rename_value(edit, item, name)


def _field_rect(view: GraphView, item: Node | Value, wanted: int) -> QRect:
    """Return the field's rectangle: over the drawn name, the middle of an edge, or the middle of the view.

    Its width is `wanted`, limited to the view.
    """
    scene, viewport = view.scene, view.viewport
    height = view.fontMetrics().height() + 8
    width = float(max(_NARROWEST, min(wanted, view.width() - 8)))
    left, top = view.width() / 2 - width / 2, view.height() / 2
    if scene is not None:
        boxes = scene.drawing.boxes_of(item)
        edges = scene.drawing.edges_of(item) if isinstance(item, Value) else []
        if boxes:
            x, y, wide, high = scene.rect(boxes[0])
            high = HEADER if scene.kinds[boxes[0]] == Kind.NODE else high
            left, middle = viewport.to_widget(x, y + high / 2)
            top, width = middle - height / 2, max(wide * viewport.scale, width)
        elif edges:
            pieces = scene.pieces[scene.pieces_of(edges[0])]
            if len(pieces):
                point = QPointF(*viewport.to_widget(*pieces[len(pieces) // 2].mean(0).tolist()))
                left, top = point.x() - width / 2, point.y() - height / 2
    room_x, room_y = max(view.width() - width - 4, 4.0), max(view.height() - height - 4.0, 4.0)
    return QRect(round(min(max(left, 4), room_x)), round(min(max(top, 4), room_y)), round(width), height)


def rename(view: GraphView, item: Node | Value, document: Document, drawn: Node | Value) -> RenameField:
    """Open the field for an object of a document, over its drawing in the view."""
    return RenameField(view, item, document, drawn)
