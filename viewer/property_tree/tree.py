"""Tree view of a property list: rows with fields, edited with F2, Enter, a double-click or by typing."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QStyleOptionViewItem, QTreeView, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.property_tree.delegate import PropertyDelegate, button_rects
from onnx_workbench.viewer.property_tree.editors import Editor
from onnx_workbench.viewer.property_tree.model import PropertyModel
from onnx_workbench.viewer.property_tree.reorder import RowReordering
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import theme

_CHEVRON = 10
_SHIFT = Qt.KeyboardModifier.ShiftModifier
_SPLIT_REACH = 3  # pixels to either side of the boundary between labels and values
_KEYS = {
    (Qt.Key.Key_Delete, Qt.KeyboardModifier.NoModifier): "remove",
    (Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier): "up",
    (Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier): "down",
    (Qt.Key.Key_Insert, Qt.KeyboardModifier.NoModifier): "add",
    (Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier): "go",
}
_OWN_KEYS = {
    *_KEYS,
    (Qt.Key.Key_F2, Qt.KeyboardModifier.NoModifier),
    (Qt.Key.Key_F2, Qt.KeyboardModifier.ShiftModifier),
    (Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier),
    (Qt.Key.Key_Enter, Qt.KeyboardModifier.NoModifier),
    (Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier),
}
_KEY_TEXTS = {"remove": "Del", "up": "Alt+Up", "down": "Alt+Down", "add": "Ins", "go": "Shift+Return"}


class PropertyTree(QTreeView):
    """Shows rows and edits their fields in the given document.

    F2, Enter or a double-click edits the value, typing replaces it, Shift+F2 edits the label; a value without a text
    form, such as a tensor, opens. Del, Alt+Up, Alt+Down, Ins and Shift+Enter run the row's action of that kind; the
    menu key lists all. Rows of an ordered list can be dragged.
    """

    current_row_changed = Signal(object)  # Row | None
    refused = Signal(object)  # ModelError of an action, or of a typed text whose editor had to close

    def __init__(self, document: Document, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.document = document
        self.rows = PropertyModel(self)
        self._open: dict[tuple[str, ...], bool] = {}  # expansion set by the user, by path
        self._updating = False
        self._split = 0.4  # share of the width for labels
        self._splitting = False
        self._reorder = RowReordering(self)
        self.setModel(self.rows)
        self.rows.many_changed.connect(self.viewport().update)
        self.fields = PropertyDelegate(self)
        self.setItemDelegate(self.fields)
        self.setHeaderHidden(True)
        self.setUniformRowHeights(True)  # else all rows, perhaps ten thousand, are measured
        self.setIndentation(14)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setExpandsOnDoubleClick(False)
        self.setFrameShape(QTreeView.Shape.NoFrame)
        header = self.header()
        header.setStretchLastSection(True)
        header.setMinimumSectionSize(60)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.expanded.connect(lambda index: self._remember(index, opened=True))
        self.collapsed.connect(lambda index: self._remember(index, opened=False))
        self.selectionModel().currentRowChanged.connect(lambda *_: self._on_current())
        self.selectionModel().currentRowChanged.connect(self._paint_rows)

    # -- contents --------------------------------------------------------------------------------------------

    def set_rows(self, rows: Sequence[PropertyRow]) -> None:
        """Show these rows, keeping the current row, expansion and editor."""
        current = self.currentIndex()
        before, position, column = self.rows.path(current), current.row(), max(0, current.column())
        self._updating = True
        if self.rows.set_rows(rows):
            self._collapse()
            self._expand(QModelIndex())
        self._updating = False
        if not before or self.rows.path(self.currentIndex()) != before:
            among = self.rows.find(*before[:-1]).siblingAtColumn(0)
            same = QModelIndex() if self.rows.is_lazy(among) else self.rows.find(*before)
            self.set_current(same.siblingAtColumn(column) if same.isValid() else self._near(before, position, column))
        self._on_current()

    @property
    def is_updating(self) -> bool:
        """Whether rows are being replaced."""
        return self._updating

    def _near(self, path: tuple[str, ...], position: int, column: int) -> QModelIndex:
        """Return the nearest remaining index for a path that was renamed or removed."""
        parent = self.rows.find(*path[:-1]).siblingAtColumn(0)
        if not path or (len(path) > 1 and not parent.isValid()):
            return self.rows.index(0, 1)
        return self.rows.index(max(0, min(position, self.rows.rowCount(parent) - 1)), column, parent)

    def _collapse(self) -> None:
        """Collapse rows expanded for another object: a section of the same name may have very many rows here."""
        for position in range(self.rows.rowCount()):
            index = self.rows.index(position, 0)
            row = self.rows.row(index)
            if row is not None and row.children is not None and self.isExpanded(index):
                self.setExpanded(index, self._open.get(self.rows.path(index), row.expanded))

    def _expand(self, parent: QModelIndex) -> None:
        for position in range(self.rows.rowCount(parent)):
            index = self.rows.index(position, 0, parent)
            row = self.rows.row(index)
            if row is None or row.children is None:
                continue
            if not parent.isValid() and row.style == "section" and not self.isFirstColumnSpanned(position, parent):
                self.setFirstColumnSpanned(position, parent, True)
            wanted = self._open.get(self.rows.path(index), row.expanded)
            if self.isExpanded(index) != wanted:
                self.setExpanded(index, wanted)
            if wanted and not self.rows.is_lazy(index):
                self._expand(index)

    def _remember(self, index: QModelIndex, *, opened: bool) -> None:
        if not self._updating:
            self._open[self.rows.path(index)] = opened

    def _on_current(self) -> None:
        if not self._updating:
            self.current_row_changed.emit(self.rows.row(self.currentIndex()))

    def _paint_rows(self, *indices: QModelIndex) -> None:
        """Repaint whole rows: the view alone repaints only the previous and the new current cell."""
        for index in indices:
            area = self.visualRect(index)
            self.viewport().update(0, area.top(), self.viewport().width(), area.height())

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Repaint the current row only: Qt would repaint all rows whenever a field opens or closes."""
        if not self.currentIndex().isValid():
            super().focusInEvent(event)  # makes a row current
        self._paint_rows(self.currentIndex())

    def focusOutEvent(self, _event: QFocusEvent) -> None:
        self._paint_rows(self.currentIndex())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_split()

    def _place_split(self) -> None:
        self.setColumnWidth(0, max(60, int(self.viewport().width() * self._split)))

    def drawRow(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        colors = theme()
        rect = QRect(option.rect)
        rect.setLeft(0)
        rect.setWidth(self.viewport().width())
        row = self.rows.row(index)
        if row is not None and row.style == "section":
            painter.fillRect(rect, colors.window)
        if self.currentIndex().siblingAtColumn(0) == index.sibling(index.row(), 0):
            painter.fillRect(rect, colors.hover if self.hasFocus() else colors.alternate)
            if self.hasFocus():
                painter.fillRect(QRect(0, rect.top(), 3, rect.height()), colors.accent)
        super().drawRow(painter, option, index)

    def drawBranches(self, painter: QPainter, rect: QRect, index: QModelIndex | QPersistentModelIndex) -> None:
        first = index.sibling(index.row(), 0)
        if not self.rows.hasChildren(first):
            return
        left, top = rect.right() - _CHEVRON - 1, rect.center().y() - _CHEVRON // 2
        painter.save()
        if self.isExpanded(first):
            painter.translate(left + _CHEVRON / 2, top + _CHEVRON / 2)
            painter.rotate(90)
            painter.translate(-(left + _CHEVRON / 2), -(top + _CHEVRON / 2))
        icon("chevron", theme().muted).paint(painter, left, top, _CHEVRON, _CHEVRON)
        painter.restore()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._reorder.is_dragging:
            painter = QPainter(self.viewport())
            self._reorder.paint(painter)
            painter.end()

    # -- editing ---------------------------------------------------------------------------------------------

    @property
    def editor(self) -> Editor | None:
        """Return the open editor, or None."""
        return self.fields.editor

    def begin_edit(self, index: QModelIndex) -> bool:
        """Open the editor of a value (column 1) or label (column 0); return False if there is none."""
        kept_index = QPersistentModelIndex(index)
        if self._field_at(index) is None or not self.fields.commit_and_close():
            return False
        index = kept_index.sibling(kept_index.row(), kept_index.column())  # a commit elsewhere may have moved the row
        field = self._field_at(index)
        if field is None:
            return False
        self.set_current(index)
        if field.open is not None:
            field.open()
        else:
            self.scrollTo(index)
            self.edit(index)
        return True

    def _field_at(self, index: QModelIndex) -> PropertyField | None:
        row = self.rows.row(index)
        return None if row is None else row.label_field if index.column() == 0 else row.field

    def edit_at(self, *path: str) -> None:
        """Show the value at a path of keys and open its editor, if it has one."""
        index = self.rows.find(*path)
        if index.isValid():
            self.expand(index.parent())
            if not self.begin_edit(index):
                self.set_current(index)

    def edit_next(self, index: QModelIndex, direction: int) -> None:
        """Open the next editor in a direction, as Tab does."""
        current = index.siblingAtColumn(0)
        while True:
            current = self.indexBelow(current) if direction > 0 else self.indexAbove(current)
            if not current.isValid():
                return
            row = self.rows.row(current)
            if row is not None and row.field is not None and row.field.open is None:
                self.begin_edit(current.siblingAtColumn(1))
                return

    def finish(self) -> None:
        """Commit the open editor before other rows are shown; report an error."""
        if not self.fields.commit_and_close() and self.editor is not None:
            typed, reason = display(self.editor.text_now(), 60), self.fields.error_text
            self.refused.emit(ModelError(f"{typed} was not accepted: {self.editor.field.title}", reason))
            self.fields.cancel()

    def run(self, action: RowAction) -> None:
        """Run an action of a row."""
        if not action.enabled:
            return
        try:
            action.run()
        except ModelError as error:
            self.refused.emit(error)

    def _run_of(self, index: QModelIndex, action_id: str) -> bool:
        row = self.rows.row(index)
        while row is not None:
            for action in row.actions:
                if action.id == action_id:
                    self._run_at(index, action)
                    return True
            if action_id != "add":
                return False
            index = index.siblingAtColumn(0).parent()
            row = self.rows.row(index)
        return False

    def _run_at(self, index: QModelIndex, action: RowAction) -> None:
        """Run an action of a row; keep a moved row current, so that it can be moved again."""
        outer, row = self.rows.path(index.parent()), index.row()
        self.run(action)
        if action.enabled and action.id in ("up", "down"):
            self.go_to(outer, row + (1 if action.id == "down" else -1))

    def go_to(self, outer: tuple[str, ...], row: int) -> None:
        """Make the row at an index among the children of a path current."""
        parent = self.rows.find(*outer).siblingAtColumn(0)
        self.set_current(self.rows.index(row, max(0, self.currentIndex().column()), parent))

    def set_current(self, index: QModelIndex) -> None:
        """Make an index current without changing the selection."""
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)

    # -- keys and mouse --------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Accept keys of the list before they trigger shortcuts of the window."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
            if (Qt.Key(event.key()), modifiers) in _OWN_KEYS:
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._reorder.is_dragging:
            self._reorder.cancel()
            return
        index = self.currentIndex()
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        action_id = _KEYS.get((Qt.Key(event.key()), modifiers))
        if action_id is not None and self._run_of(index, action_id):
            return
        plain = modifiers == Qt.KeyboardModifier.NoModifier
        if event.key() == Qt.Key.Key_F2 and modifiers == _SHIFT:
            self.begin_edit(index.siblingAtColumn(0))
        elif event.key() == Qt.Key.Key_F2 and plain:
            self._edit_row(index)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and plain:
            self._open_row(index)
        elif event.key() == Qt.Key.Key_C and modifiers == Qt.KeyboardModifier.ControlModifier:
            self._copy(index)
        elif not self._type_into(index, event):
            super().keyPressEvent(event)

    def _type_into(self, index: QModelIndex, event: QKeyEvent) -> bool:
        """Start editing with a typed character, as in a table; return False if nothing is typed or editable."""
        field = self._field_at(index.siblingAtColumn(1))
        shift_alone = not event.modifiers() & ~(_SHIFT | Qt.KeyboardModifier.KeypadModifier)
        if not (shift_alone and event.text().isprintable() and event.text().strip()):
            return False
        if field is None or field.open is not None or not self.begin_edit(index.siblingAtColumn(1)):
            return False
        if self.editor is not None:
            QCoreApplication.sendEvent(self.editor, event)
        return True

    def _open_row(self, index: QModelIndex) -> None:
        """Edit the value, else follow the row, else edit the label, else toggle expansion."""
        if self.begin_edit(index.siblingAtColumn(1)) or self._run_of(index, "go"):
            return
        first = index.siblingAtColumn(0)
        if not self.begin_edit(first) and self.rows.hasChildren(first):
            self.setExpanded(first, not self.isExpanded(first))

    def _edit_row(self, index: QModelIndex) -> None:
        """Edit the value, else the label; never follow the row."""
        if not self.begin_edit(index.siblingAtColumn(1)):
            self.begin_edit(index.siblingAtColumn(0))

    def _copy(self, index: QModelIndex) -> None:
        row = self.rows.row(index)
        if row is not None:
            text = row.field.source() if row.field is not None and row.field.open is None else row.whole or row.text
            QGuiApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))

    def _is_on_split(self, point: QPoint) -> bool:
        return abs(point.x() - self.columnWidth(0)) <= _SPLIT_REACH

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Start moving the boundary between labels and values, or dragging a row of an ordered list."""
        point = event.position().toPoint()
        self._splitting = event.button() == Qt.MouseButton.LeftButton and self._is_on_split(point)
        if self._splitting:
            return
        super().mousePressEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and self._button_at(point) is None:
            self._reorder.press(self.indexAt(point), point)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._splitting:
            self._split = min(0.8, max(0.15, event.position().x() / max(1, self.viewport().width())))
            self._place_split()
            return
        if event.buttons() & Qt.MouseButton.LeftButton and self._reorder.drag(event.position().toPoint()):
            return
        wanted = Qt.CursorShape.SplitHCursor if self._is_on_split(event.position().toPoint()) else None
        if wanted is not None:
            self.viewport().setCursor(wanted)
        else:
            self.viewport().unsetCursor()
        super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Trigger buttons at the end of a row; Ctrl+click follows it."""
        if self._splitting:
            self._splitting = False
            return
        super().mouseReleaseEvent(event)
        if event.button() != Qt.MouseButton.LeftButton or self._reorder.release() or self.editor is not None:
            return
        index = self.indexAt(event.position().toPoint())
        action = self._button_at(event.position().toPoint())
        if action is not None:
            self._run_at(index, action)
        elif index.isValid() and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._run_of(index, "go")

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        point = event.position().toPoint()
        index = self.indexAt(point)
        if not index.isValid() or self._button_at(point) is not None:
            return
        if not self.begin_edit(index):
            self._open_row(index)

    def _button_at(self, point: QPoint) -> RowAction | None:
        index = self.indexAt(point)
        row = self.rows.row(index)
        if row is None:
            return None
        for action, rect in self.buttons(index):
            if rect.adjusted(-3, -3, 3, 3).contains(point):
                return action
        return None

    def buttons(self, index: QModelIndex) -> list[tuple[RowAction, QRect]]:
        """Return the buttons of a row and their rectangles in the viewport."""
        row = self.rows.row(index)
        if row is None:
            return []
        if row.style == "section":
            area = self.visualRect(index.siblingAtColumn(0))
            area.setRight(self.viewport().width() - 1)
            return button_rects(area.adjusted(2, 0, -6, 0), row)
        return button_rects(self.visualRect(index.siblingAtColumn(1)).adjusted(4, 0, -4, 0), row)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        keyboard = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if keyboard else self.indexAt(event.pos())
        if index.isValid():
            self.set_current(index)
            position = self.visualRect(index).center() if keyboard else event.pos()
            self.menu(index).popup(self.viewport().mapToGlobal(position))

    def menu(self, index: QModelIndex) -> QMenu:
        """Return the context menu of a row."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        row = self.rows.row(index)
        if row is None:
            return menu
        if row.field is not None:
            self._add(menu, RowAction("Edit", lambda: self.begin_edit(index.siblingAtColumn(1))), "F2")
        if row.label_field is not None:
            self._add(menu, RowAction("Rename", lambda: self.begin_edit(index.siblingAtColumn(0))), "Shift+F2")
        self._add(menu, RowAction("Copy", lambda: self._copy(index)), "Ctrl+C")
        if row.actions:
            menu.addSeparator()
        for action in row.actions:
            self._add(menu, action, _KEY_TEXTS.get(action.id, ""))
        return menu

    def _add(self, menu: QMenu, action: RowAction, keys: str = "") -> None:
        title = display(action.title, 80).replace("&", "&&")
        item = QAction(f"{title}\t{keys}" if keys else title, menu)
        item.setEnabled(action.enabled)
        item.triggered.connect(lambda: self.run(action))
        menu.addAction(item)
