"""Nodes as rows of a spreadsheet: their names and attributes, to be edited one by one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from PySide6.QtCore import QObject, Qt

from onnx_workbench.exec.inspect.node_data import Matched
from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.analysis.signatures import operator_for, signature_of
from onnx_workbench.model.edits.attributes import expected_kind, remove_attribute, set_attribute
from onnx_workbench.model.edits.function_attributes import refer_as_written
from onnx_workbench.model.edits.nodes import change_operator, rename_node
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document, Transaction
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import AttributeSchema
from onnx_workbench.model.text.attributes import attribute_source, has_text, parse_any, parse_attribute
from onnx_workbench.model.text.formatting import display, number_text, plural
from onnx_workbench.viewer.canvas.scene.node_text import attribute_text
from onnx_workbench.viewer.document.grouping import Grouping
from onnx_workbench.viewer.property_tree.rows import LONGEST_TEXT
from onnx_workbench.viewer.style.labels import first_output, trail
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.row_model import Column, Index, SortedRowModel
from onnx_workbench.viewer.tables.sorting import Key

NAME, OPERATOR, GRAPH, GROUP = "Name", "Operator", "Graph", "Group"
_LOOKED_AT = 2000  # nodes whose attributes determine the columns
_SHOWN = 32  # elements of a list
_MOST_TEXT = 4096  # elements of a list that are offered for editing

# cached, as headers query the flags of every cell when all are selected
_READ_ONLY = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemNeverHasChildren
_EDITABLE = _READ_ONLY | Qt.ItemFlag.ItemIsEditable


@dataclass(frozen=True)
class AttributeColumn(Column):
    """A column: the name, the operator, the graph, (`attribute`) an attribute, or (`values`) data from elsewhere."""

    attribute: str = ""
    values: Mapping[Node, float] | Mapping[Node, str] | None = field(default=None, compare=False)


#: A node, a column, and the text to write there.
Cell = tuple[Node, AttributeColumn, str]


class NodeTableModel(SortedRowModel[Node, AttributeColumn]):
    """Table of nodes with the attributes their operators have."""

    finds_columns = True

    def __init__(self, document: Document, grouping: Grouping, parent: QObject | None = None) -> None:
        super().__init__([AttributeColumn(NAME)], parent)
        self._document = document
        self._grouping = grouping
        self.node_data: Matched | None = None  # shown in columns of their own for the rows that are set next
        self._row_of: dict[Node, int] = {}  # of shown nodes; filled on first use

    def sort_key(self, rows: Sequence[Node], column: AttributeColumn, _section: int) -> Callable[[int], Key]:
        return lambda graph_column: _key(rows[graph_column], column)

    def find_columns(self, rows: Sequence[Node], progress: Progress) -> Sequence[AttributeColumn]:
        columns = _columns(rows, progress)
        data = [] if self.node_data is None else _data_columns(self.node_data, rows, self._grouping, progress)
        return [columns[0], *data, *columns[1:]]

    def on_order(self) -> None:
        self._row_of.clear()

    def touch(self, nodes: Iterable[Node]) -> None:
        """Update the rows of changed nodes."""
        self._row_of = self._row_of or {node: row for row, node in enumerate(self.rows)}
        rows = [self._row_of[node] for node in nodes if node in self._row_of]
        if rows:
            self.update_rows(min(rows), max(rows))

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return the flags: cells with tensors, graphs and the graph of a node are not editable."""
        return _EDITABLE if self._is_editable(index) else _READ_ONLY

    def _is_editable(self, index: Index) -> bool:
        column = self.columns[index.column()]
        if column.values is not None or (column.title == GRAPH and not column.attribute):
            return False
        if not column.attribute:
            return True
        attribute = self.rows[index.row()].attributes.get(column.attribute)
        if attribute is None:
            kind = expected_kind(self.rows[index.row()], column.attribute)
            return kind is None or has_text(kind)
        if not has_text(attribute.kind):
            return False
        if isinstance(attribute.value, str):
            return len(attribute.value) <= LONGEST_TEXT
        return not isinstance(attribute.value, tuple) or len(attribute.value) <= _MOST_TEXT

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the data of a cell; values not stored in the node, such as defaults, are muted."""
        node, column = self.rows[index.row()], self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return display(self._shown(node, column), 200, elide="end")
            case Qt.ItemDataRole.EditRole:
                return self.source(index)
            case Qt.ItemDataRole.ForegroundRole if self._is_stand_in(node, column):
                return theme().muted
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(display(self._shown(node, column), 1000)) or None
        return None

    def _is_stand_in(self, node: Node, column: AttributeColumn) -> bool:
        """Return whether a cell shows a value that is not stored in the node."""
        return column.attribute not in node.attributes if column.attribute else column.title == NAME and not node.name

    def _shown(self, node: Node, column: AttributeColumn) -> str:
        """Return the text of a cell; for a node without a name a distinguishing title."""
        text = _text(node, column, _SHOWN)
        return text if text or column.title != NAME or column.attribute else first_output(node)

    def source(self, index: Index) -> str:
        """Return the text of a cell for editing and copying: empty if the attribute is omitted."""
        return _source(self.rows[index.row()], self.columns[index.column()])

    # -- editing ---------------------------------------------------------------------------------------------

    def cells(self, texts: Iterable[tuple[int, int, str]]) -> list[Cell]:
        """Return the cells to write, from rows, columns and texts."""
        return [(self.rows[row], self.columns[column], text) for row, column, text in texts]

    def write(self, index: Index, text: str) -> None:
        """Write a text into a cell, as one edit; ModelError where it is refused."""
        cells = self.cells([(index.row(), index.column(), text)])
        with self._document.edit(title_of(cells)) as edit:
            write_cells(edit, cells)


def _text(node: Node, column: AttributeColumn, limit: int | None) -> str:
    if column.values is not None:
        value = column.values.get(node, "")
        return value if isinstance(value, str) else number_text(value, 6 if limit else 17)
    if column.attribute:
        attribute = node.attributes.get(column.attribute)
        if attribute is None:
            formal = _formal(node, column.attribute)
            return "" if formal is None or formal.default is None else attribute_source(formal.default, limit)
        return f"@{attribute.reference}" if attribute.reference else _written(attribute, limit)
    if column.title == NAME:
        return node.name
    if column.title == OPERATOR:
        return f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return trail(node.graph) if node.graph is not None else ""


def _key(node: Node, column: AttributeColumn) -> Key:
    """Return a sort key: numbers as numbers, texts as texts."""
    if column.values is not None:
        return column.values.get(node, "")
    text = _text(node, column, _SHOWN)
    try:
        return float(text)
    except ValueError:
        return text


def _source(node: Node, column: AttributeColumn) -> str:
    if column.attribute and column.attribute not in node.attributes:
        return ""
    return _text(node, column, None)


def title_of(cells: Sequence[Cell]) -> str:
    """Return the title of an edit of cells."""
    names = {column.title for _, column, _ in cells}
    what = display(names.pop(), 40) if len(names) == 1 else plural(len(cells), "cell")
    nodes = {node for node, _, _ in cells}
    where = display(next(iter(nodes)).title, 60) if len(nodes) == 1 else plural(len(nodes), "node")
    return f"Set {what} of {where}"


def write_cells(edit: Transaction, cells: Sequence[Cell], progress: Progress = SILENT) -> None:
    """Write texts into cells, all or none; unchanged cells are skipped. Any thread.

    Names are written last, so that errors refer to the current names.
    """
    ordered = sorted(cells, key=lambda cell: cell[1].title == NAME and not cell[1].attribute)
    for node, column, text in progress.paced(ordered, of=len(ordered)):
        if text != _source(node, column):
            _write(edit, node, column, text)


def _write(edit: Transaction, node: Node, column: AttributeColumn, text: str) -> None:
    if column.values is not None:
        raise ModelError("Node data cannot be edited", "They come from a file and are not part of the model.", node)
    if not column.attribute:
        if column.title == NAME:
            rename_node(edit, node, text)
        elif column.title == OPERATOR:
            change_operator(edit, node, *operator_for(node, text))
        else:
            raise ModelError("The graph of a node cannot be edited", "Cut the node and paste it there.", node)
        return
    name = column.attribute
    present = node.attributes.get(name)
    if not text.strip() and not (present is not None and present.kind is AttributeKind.STRING and text):
        if present is not None:
            remove_attribute(edit, node, name)
        return
    if present is not None and not has_text(present.kind):
        raise ModelError(f"{name} of {node.title} cannot be edited as text", "Open it in the inspector.", node)
    kind = expected_kind(node, name) or (present.kind if present is not None else None)
    if refer_as_written(edit, node, name, text, kind):
        return
    value, kind = parse_any(text) if kind is None else (parse_attribute(text, kind), kind)
    set_attribute(edit, node, name, value, kind)


def _written(attribute: Attribute, limit: int | None) -> str:
    return attribute_source(attribute, limit) if has_text(attribute.kind) else attribute_text(attribute)


def _formal(node: Node, name: str) -> AttributeSchema | None:
    schema = signature_of(node)
    return None if schema is None else schema.attributes.get(name)


def _data_columns(
    data: Matched, nodes: Sequence[Node], grouping: Grouping, progress: Progress
) -> list[AttributeColumn]:
    """Return the columns of node data, then each node's group and the sum over the nodes of that."""
    columns = [AttributeColumn(display(one.title, 60), values=one.values) for one in data.columns]
    numbers = {node: value for node, value in data.values.items() if not isinstance(value, str)}
    groups: dict[Node, Scope] = {}
    for graph in {node.graph for node in nodes}:
        if graph is not None:
            groups |= grouping.tree(graph, progress).of
    names = {node: display("/".join(scope.path), 400) for node, scope in groups.items() if scope.path}
    if not numbers or not names:
        return columns
    sums: dict[Scope, float] = {}
    for node, number in numbers.items():
        if node in names:
            sums[groups[node]] = sums.get(groups[node], 0.0) + number
    return [
        *columns,
        AttributeColumn(GROUP, tip="The innermost group of the node", values=names),
        AttributeColumn(
            f"{columns[0].title}, sum of the group",
            tip="The sum over all nodes directly in the group of the node",
            values={node: sums[groups[node]] for node in names if groups[node] in sums},
        ),
    ]


def _columns(nodes: Sequence[Node], progress: Progress) -> list[AttributeColumn]:
    """Return a column for every attribute in the operators' signatures, then for others of the first nodes."""
    tips: dict[str, str] = {}
    operators: dict[tuple[str, str], Node] = {}
    graphs = set[Graph | None]()
    for node in progress.paced(nodes):
        operators.setdefault((node.domain, node.op_type), node)
        graphs.add(node.graph)
    for node in islice(operators.values(), 50):
        schema = signature_of(node)
        for name, formal in schema.attributes.items() if schema is not None else ():
            tips.setdefault(name, " ".join(formal.doc.split())[:400])
    for node in nodes[:_LOOKED_AT]:
        for name in node.attributes:
            tips.setdefault(name, "")
    several = [AttributeColumn(OPERATOR)] if len(operators) > 1 else []
    graph_column = [AttributeColumn(GRAPH)] if len(graphs) > 1 else []
    return [
        AttributeColumn(NAME),
        *several,
        *(AttributeColumn(display(n, 60), tip=display(tip, 400), attribute=n) for n, tip in tips.items()),
        *graph_column,
    ]
