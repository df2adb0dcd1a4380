"""Outline panel: graphs, groups and nodes of the model as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from PySide6.QtCore import QEvent, QItemSelection, QItemSelectionModel, QModelIndex, QObject, QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QTreeView

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tables.expand_all import ExpandAll
from onnx_workbench.viewer.tables.marking_tree import MarkingTree
from onnx_workbench.viewer.tables.outline_model import ObjectRole, OutlineModel
from onnx_workbench.viewer.tables.outline_rows import Stretch
from onnx_workbench.viewer.tables.two_tone import TwoToneDelegate
from onnx_workbench.viewer.widgets.flow_layout import in_a_column

_MEASURED = 100  # rows measured for the width
_MARGINS = 8  # px around the text of a row
#: With more selected nodes none of them is scrolled to.
_MOST_POINTED_AT = 1000
#: Keys with the same meaning as on the graph.
_KEYS = {
    "F2": "edit.rename",
    "Del": "edit.delete",
    "Shift+Del": "edit.delete_and_bridge",
    "Ctrl+X": "edit.cut",
    "Ctrl+C": "edit.copy",
    "Ctrl+V": "edit.paste",
}


class OutlinePanel(Panel):
    """Follows the selection and sets it; a chosen node comes into view, expanding a row shows another graph.

    The rows of all selected objects are marked; so is a group whose nodes are all selected.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.model = OutlineModel(workspace.model, workspace.grouping, self)
        self.tree = MarkingTree(self._is_marked, self)
        self.tree.setModel(self.model)
        self.opening = ExpandAll(self.tree)
        self.tree.setAccessibleName("Outline")
        self.tree.setUniformRowHeights(True)
        self.tree.setIndentation(12)  # groups within groups leave room for names
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.tree.setItemDelegate(TwoToneDelegate(self.tree))
        self.tree.setFrameShape(QTreeView.Shape.NoFrame)
        self.tree.setHeaderHidden(True)
        self.tree.header().setStretchLastSection(False)
        self.tree.header().setResizeContentsPrecision(_MEASURED)
        self.tree.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._widening = QTimer(self, singleShot=True, interval=0)
        self._widening.timeout.connect(self._widen)
        self._room = 0  # largest measured width of a row in px, since rows were closed or replaced
        self.tree.expanded.connect(lambda _index: None if self.opening.running else self._widening.start())
        self.opening.ended.connect(self._widening.start)  # once for thousands of rows
        self.tree.collapsed.connect(self._measure_again)
        self.model.modelReset.connect(self._measure_again)
        self.model.rowsRemoved.connect(self._measure_again)
        self.tree.verticalScrollBar().valueChanged.connect(self._widening.start)
        in_a_column(self, self.tree)
        self.entry = self.tree
        self.tree.expand(self.model.index(0, 0))
        self._following = False
        self._whole: dict[Scope | Stretch, bool] = {}  # groups examined since the last change
        self.model.filled.connect(self._on_filled)

        self.tree.installEventFilter(self)
        self.tree.viewport().installEventFilter(self)
        self.tree.selectionModel().selectionChanged.connect(self._on_chosen)
        self.tree.activated.connect(self._on_opened)
        self.tree.doubleClicked.connect(self._on_opened)
        self.tree.customContextMenuRequested.connect(self._on_menu)
        self.tree.setContextMenuPolicy(self.contextMenuPolicy().CustomContextMenu)
        workspace.selection.changed.connect(self.refresh_when_visible)
        workspace.changes.nodes_changed.connect(self._on_nodes)
        workspace.changes.values_changed.connect(self._on_values)
        workspace.changes.model_changed.connect(self._on_model)
        self.refresh_when_visible()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._widen()

    def refresh(self) -> None:
        """Mirror the selection made elsewhere."""
        self._whole.clear()
        if not self._following:
            self._show_selection()

    def _widen(self) -> None:
        """Widen the column for the longest row, which can be scrolled to sideways."""
        self._room = max(self._room, self.tree.sizeHintForColumn(0))
        self._fill()

    def _fill(self) -> None:
        self.tree.header().resizeSection(0, max(self._room, self.tree.viewport().width()))

    def _measure_again(self) -> None:
        self._room = 0
        self._widening.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Handle the graph's keys for the selected rows, and follow the width of the tree."""
        if watched is self.tree.viewport() and event.type() == QEvent.Type.Resize:
            self._fill()
        if watched is self.tree and event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Asterisk:
                self.opening.start(self.tree.currentIndex())
                return True
            action = _KEYS.get(QKeySequence(event.keyCombination()).toString(QKeySequence.SequenceFormat.PortableText))
            if action is not None:
                self.workspace.trigger(action)
                return True
        return super().eventFilter(watched, event)

    def _on_filled(self, anew: bool) -> None:
        if anew:
            self._widen()
        self.refresh_when_visible()

    def _on_nodes(self, nodes: set[Node]) -> None:
        if self.workspace.changes.touched.is_inside:
            return
        self._following = True  # Qt chooses another current row when it is removed
        self.model.update_nodes(nodes)
        if self.workspace.selection.current is None:
            self.tree.clearSelection()
        self._following = False
        self.refresh_when_visible()
        advance = self.tree.fontMetrics().horizontalAdvance
        names = (f"{display(n.op_type, 200)}  {display(n.name, 200)}" for n in islice(nodes, _MEASURED))
        needed = _MARGINS + max(map(advance, names), default=0)
        if needed > self._room:  # measuring all rows takes longer than most edits
            self._room = needed
            self._widening.start()

    def _on_values(self, values: set[Value]) -> None:
        producers = {value.producer for value in values}  # one may have 100,000 outputs
        self.model.rename(node for node in producers if node is not None and not node.name)

    def _on_model(self) -> None:
        graphs = [self.model.index(i, 0).data(ObjectRole) for i in range(self.model.rowCount())]
        if graphs != list(self.workspace.model.root_graphs()):
            self.model.rebuild()
            self.tree.expand(self.model.index(0, 0))
        else:
            self.model.retitle()

    def _show_selection(self) -> None:
        index = self._index_to_show()
        self._following = True
        if not index.isValid():
            self.tree.clearSelection()  # else the row could not be selected again
        elif not self.tree.selectionModel().isSelected(index) or index != self.tree.currentIndex():
            flags = QItemSelectionModel.SelectionFlag  # plainly, though Ctrl is held as for Ctrl+V
            self.tree.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
            self.tree.scrollTo(index)
        self._following = False
        self.tree.mark()

    def _index_to_show(self) -> QModelIndex:
        """Return the row of the object selected last; none after a bulk selection of very many or all."""
        current, nodes = self.workspace.selection.current, self.workspace.selection.nodes
        if isinstance(current, Value):
            current = current.producer
        if isinstance(current, Node) and current.graph is not None and len(nodes) > 1:
            pointed_at = len(nodes) < min(len(current.graph.nodes), _MOST_POINTED_AT)
            return self.model.index_of(current) if pointed_at else QModelIndex()
        return self.model.index_of(current) if isinstance(current, (Node, Graph)) else QModelIndex()

    def _is_marked(self, index: QModelIndex) -> bool:
        selection, subject = self.workspace.selection, index.data(ObjectRole)
        if isinstance(subject, (Scope, Stretch)):
            if subject not in self._whole:
                self._whole[subject] = selection.has_all(subject.all_nodes())
            return self._whole[subject]
        return subject in selection or (isinstance(subject, Node) and any(v in selection for v in subject.outputs))

    def _on_chosen(self, chosen: QItemSelection, given_up: QItemSelection) -> None:
        if self._following or self.tree.is_marking:
            return
        selection = self.workspace.selection
        rows = chosen.indexes() if self.tree.adds else self.tree.selectionModel().selectedIndexes()
        items: dict[Item, None] = dict.fromkeys(_items_of(rows))
        if self.tree.adds:
            gone: set[object] = set(_items_of(given_up.indexes()))
            gone.update(value for node in list(gone) if isinstance(node, Node) for value in node.outputs)
            items = {item: None for item in selection.items if item not in gone and item not in items} | items
        elif not items:
            return
        self._following = True
        only = rows[0].data(ObjectRole) if len(rows) == 1 and not self.tree.adds else None
        if isinstance(only, Node):
            self.workspace.navigation.reveal(only)
        elif isinstance(only, (Scope, Stretch)):
            self.workspace.navigation.show_all(items)
        else:
            selection.set(items)
        self._following = False
        self.tree.mark_soon()

    def _on_opened(self, index: QModelIndex) -> None:
        subject = index.data(ObjectRole)
        self._following = True
        if isinstance(subject, (Scope, Stretch)):
            self.workspace.navigation.reveal_all(list(subject.all_nodes()))
        elif subject is not None:
            self.workspace.navigation.reveal(subject)
        self._following = False

    def _on_menu(self, position: QPoint) -> None:
        subject = self.tree.indexAt(position).data(ObjectRole)
        if subject is not None:
            kind = "node" if isinstance(subject, (Node, Scope, Stretch)) else "graph"
            self.workspace.open_menu(self.tree.viewport().mapToGlobal(position), kind)


def _items_of(rows: Iterable[QModelIndex]) -> Iterator[Node | Graph]:
    for index in rows:
        subject = index.data(ObjectRole)
        yield from subject.all_nodes() if isinstance(subject, (Scope, Stretch)) else (subject,)
