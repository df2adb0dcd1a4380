"""Find panel: a query, all matches in all graphs, highlighted on the graph."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt, QTimer
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPalette
from PySide6.QtWidgets import (
    QHeaderView,
    QLineEdit,
    QStyle,
    QStyleOptionViewItem,
    QVBoxLayout,
)

from onnx_workbench.model.analysis.search import parse, search
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.text.formatting import count_text, display, plural
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.icons import dot, icon
from onnx_workbench.viewer.style.theme import categories, node_category, theme
from onnx_workbench.viewer.style.tooltips import for_role
from onnx_workbench.viewer.style.type_texts import short_type, whole_type
from onnx_workbench.viewer.tables.outline_rows import graph_title
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.tasks.event_loop import ChunkedIteration
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.undo_forwarding import forward_undo
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Index = QModelIndex | QPersistentModelIndex

_HELP = 'words · "exact" · op:Conv · name:/regex/ · attr:group=1 · shape:1,?,224,* · dtype:float16 · is:output'

_SPACE = "  "  # between name and type
_MOST_BESIDE = 0.65  # limit for the share of the width next to a name


class MatchModel(QAbstractListModel):
    """The matches found so far."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.items: list[Node | Value] = []

    def clear(self) -> None:
        self.beginResetModel()
        self.items = []
        self.endResetModel()

    def extend(self, items: list[Node | Value]) -> None:
        """Append matches."""
        if items:
            self.beginInsertRows(QModelIndex(), len(self.items), len(self.items) + len(items) - 1)
            self.items.extend(items)
            self.endInsertRows()

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.items)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        item = self.items[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return _line(item)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            where = f" in {display(graph_title(item.graph))}" if item.graph is not None else ""
            return for_role(f"{_line(item, 1000)}{where}", role)
        if role == Qt.ItemDataRole.UserRole:
            return item
        if role == Qt.ItemDataRole.DecorationRole:
            if isinstance(item, Node):
                return dot(categories()[node_category(item)].color)
            return icon("initializers" if item.initializer is not None else "value", theme().muted)
        return None


def _line(item: Node | Value, limit: int = 120, prefix: str | None = None) -> str:
    first, second = _parts(item, limit, prefix)
    return f"{first}{_SPACE}{second}" if second else first


def _parts(item: Node | Value, limit: int, prefix: str | None) -> tuple[str, str]:
    """Return operator and name of a node, name and type of a value, short without a prefix of dimensions, or whole."""
    if isinstance(item, Node):
        return (
            (display(item.op_type, 60), display(item.name, limit)) if item.name else (f"[{display(item.op_type)}]", "")
        )
    type_ = declared_type(item)
    return display(item.name, limit), whole_type(type_) if prefix is None else short_type(type_, prefix)


class MatchDelegate(WholeTextDelegate):
    """Elides the middle of the name if a row is too narrow, not the text next to it."""

    def __init__(self, context: DocumentContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        item = index.data(Qt.ItemDataRole.UserRole)
        style = option.widget.style()
        room = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, option, option.widget).width()
        margin = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin, option, option.widget) + 1
        option.text = fitted(item, option.fontMetrics, room - 2 * margin, self._context.dimension_prefix)


def fitted(item: Node | Value, metrics: QFontMetrics, room: int, prefix: str = "") -> str:
    """Elide a match to a width in px: the name first, operator and type last."""
    line = _line(item, prefix=prefix)
    if metrics.horizontalAdvance(line) <= room:
        return line
    first, second = _parts(item, 120, prefix)
    name, beside = (second, first) if isinstance(item, Node) else (first, second)
    beside = metrics.elidedText(beside, Qt.TextElideMode.ElideRight, int(_MOST_BESIDE * room)) if name else beside
    left = room - metrics.horizontalAdvance(f"{beside}{_SPACE}")
    name = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, left)
    return _SPACE.join(part for part in ((beside, name) if isinstance(item, Node) else (name, beside)) if part)


class FindPanel(Panel):
    """Ctrl+F. Results arrive incrementally; arrows move, Enter opens, Esc returns to the graph."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.box = QLineEdit(self)
        self.box.setPlaceholderText("Find nodes and values")
        self.box.setToolTip(_HELP)
        self.box.setAccessibleName("Find")
        self.box.setClearButtonEnabled(True)
        forward_undo(self.box)
        self.matches = MatchModel(self)
        self.list = RowTable(self.matches, "Matches", self)  # a list view measures every row when there are more
        self.list.horizontalHeader().hide()
        self.list.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.list.setIconSize(QSize(16, 16))  # of the dots: so that rows align
        self.list.setItemDelegate(MatchDelegate(workspace, self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.status = plain_label(_HELP, self)
        self.status.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.setSpacing(4)
        for widget in (self.box, self.status, self.list):
            layout.addWidget(widget)
        self.entry = self.box
        self._is_in_front = True
        self._search: ChunkedIteration[Node | Value] = ChunkedIteration(self._on_found, self, self._on_failed)
        self._delay = QTimer(self, singleShot=True, interval=120)
        self._delay.timeout.connect(self.start)
        self.box.textChanged.connect(lambda _text: self._delay.start())
        self.box.installEventFilter(self)
        self.list.installEventFilter(self)
        self.list.selectionModel().currentChanged.connect(self._on_current)
        self.list.activated.connect(self._on_opened)
        workspace.changes.changed.connect(self._on_change)  # a method: Qt ends it with the panel
        workspace.types.changed.connect(self._on_change)

    def _on_change(self, _change: object = None) -> None:
        self._search.stop()  # it was searching a model that has changed, or by other types
        if self.box.text():
            self._delay.start()

    def activate(self) -> None:
        """Focus the field with the last query selected."""
        self.box.setFocus()
        self.box.selectAll()

    def start(self) -> None:
        """Start the search."""
        self._delay.stop()
        self.matches.clear()
        text = self.box.text()
        try:
            query = parse(text, self.workspace.types.type_of)
        except ModelError as error:
            self.status.setText(str(error))
            self._search.stop()
            return
        self._search.start(search(self.workspace.model, query))
        if not text.strip():
            self._search.next_chunk()

    def _on_found(self, batch: list[Node | Value], finished: bool) -> None:
        self.matches.extend(batch)
        count = len(self.matches.items)
        if self.box.text().strip():
            more = "" if finished else " so far"
            self.status.setText(f"{plural(count, 'match', 'matches')}{more}")
        else:
            self.status.setText(_HELP)
        if finished:
            self._mark()

    def _on_failed(self, error: ModelError) -> None:
        """Keep the matches found so far."""
        count = len(self.matches.items)
        self.status.setText(f"{error} {count_text(count)} found before." if count else str(error))
        self._mark()

    def _mark(self) -> None:
        """Mark the matches on the graph while the search is in view."""
        shown = self.matches.items if self._is_in_front and self.box.text().strip() else ()
        self.workspace.highlights.mark("matches", shown)

    def set_in_front(self, *, in_front: bool) -> None:
        """Take the marks away with the search, and bring them back with it."""
        self._is_in_front = in_front
        self._mark()

    def _on_current(self, index: QModelIndex) -> None:
        if index.isValid():
            self.workspace.navigation.reveal(self.matches.items[index.row()])

    def _on_opened(self, index: QModelIndex) -> None:
        self._on_current(index)
        self.workspace.trigger("panel.inspector")

    def step(self, by: int) -> None:
        """Go to the next or, with -1, the previous match, wrapping around; search first if needed."""
        if self._delay.isActive() or (self.box.text() and not self.matches.items):
            self.start()
            self._search.next_chunk()
        count = len(self.matches.items)
        if not count:
            self.activate()
            return
        row = self.list.currentIndex().row()
        row = (row + by) % count if row >= 0 else (0 if by > 0 else count - 1)
        self.list.setCurrentIndex(self.matches.index(row))
        if not self._search.running:
            self._mark()

    def _focus_graph(self) -> None:
        """Return to the graph, keeping the selection; the query stays for the next time."""
        self._delay.stop()
        self._search.stop()
        self.workspace.highlights.mark("matches", ())
        self.workspace.trigger("go.graph")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move from the field into the list by Down and back by Up, as in Netron."""
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return super().eventFilter(watched, event)
        key = event.key()
        if watched is self.box and key in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._delay.isActive():
                self.start()
                self._search.next_chunk()
            if self.matches.items:
                self.list.setFocus()
                if not self.list.currentIndex().isValid():
                    self.list.setCurrentIndex(self.matches.index(0))
            return True
        if key == Qt.Key.Key_Escape and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self._focus_graph()
            return True
        if watched is self.list and key == Qt.Key.Key_Up and self.list.currentIndex().row() <= 0:
            self.box.setFocus()
            return True
        return super().eventFilter(watched, event)
