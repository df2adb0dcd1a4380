"""Inspector dock: header, rows, and documentation of the current row."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QTextDocument
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QTextBrowser, QToolButton, QWidget
from shiboken6 import isValid

from onnx_workbench.model import schemas
from onnx_workbench.model.checks import Problem
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.dialogs.edit_attribute import edit_attribute
from onnx_workbench.viewer.dialogs.opset_question import ask_about_opset
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.inspector.graphs import graph_rows
from onnx_workbench.viewer.inspector.models import function_rows, model_rows
from onnx_workbench.viewer.inspector.multi_selection import MOST, many_rows
from onnx_workbench.viewer.inspector.nodes import MOST_WITH_RUNS, node_rows
from onnx_workbench.viewer.inspector.problems import problem_rows, problems_of
from onnx_workbench.viewer.inspector.run_rows import run_rows
from onnx_workbench.viewer.inspector.tensors import TensorNumbers
from onnx_workbench.viewer.inspector.values import owner_text, value_rows
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.property_tree.rows import Help, PropertyRow
from onnx_workbench.viewer.property_tree.tree import PropertyTree
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import node_category, theme, themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tasks.event_loop import Debounce
from onnx_workbench.viewer.widgets.flow_layout import in_a_column
from onnx_workbench.viewer.widgets.plain_label import plain_label

_MOST_BACK = 10
_LONGEST_HELP = 200_000


class InspectorPanel(Panel):
    """Shows the selection, or the graph when nothing is selected; several objects by their common rows."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._items: tuple[Item, ...] = ()
        self._back: list[tuple[Item, ...]] = []
        self._going_back = False
        self._is_connected_to_runs = False
        self._problems: list[Problem] = []
        self._told: list[tuple[str, ...]] | None = None  # of run results
        self.numbers = TensorNumbers(workspace.tasks, self.refresh_soon)
        self.head = _Head(self)
        self.tree = PropertyTree(workspace.document, self)
        self.tree.refused.connect(workspace.messages.report)
        self.tree.setAccessibleName("Fields of the selection")
        self.help = _HelpView(self)
        splitter = self.splitter = QSplitter(Qt.Orientation.Vertical, self)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(self.tree)
        splitter.addWidget(self.help)
        splitter.setStretchFactor(0, 3)
        splitter.setStretchFactor(1, 1)
        splitter.setSizes([420, 150])
        in_a_column(self, self.head, splitter, fills=splitter)
        self.entry = self.tree
        self._soon = Debounce(self.refresh_when_visible, self)
        self._connect()
        self._load_schemas()
        self.refresh()

    def _connect(self) -> None:
        workspace = self.workspace
        self.head.back.clicked.connect(self.go_back)
        self.head.graph.clicked.connect(self._show_graph)
        self.head.model.clicked.connect(self._show_model)
        self.head.documentation.toggled.connect(self.help.setVisible)
        self.tree.current_row_changed.connect(self._show_help)
        workspace.selection.changed.connect(self._on_selection)
        workspace.navigation.graph_shown.connect(self._on_selection)
        workspace.changes.changed.connect(self.refresh_when_visible)
        workspace.types.changed.connect(self.refresh_soon)
        workspace.runs_changed.connect(self._connect_runs)
        self._connect_runs()
        workspace.problems.changed.connect(self._on_problems)
        themes().themeChanged.connect(self._color)

    def _connect_runs(self) -> None:
        """Follow run results once a run was made; accessing them earlier would import the executor."""
        if self.workspace.has_runs and not self._is_connected_to_runs:
            self._is_connected_to_runs = True
            self.workspace.results.changed.connect(self._on_values)
            self.workspace.results.summaries.read.connect(self._on_values)

    def _on_values(self, values: set[Value] | None) -> None:
        """Handle new values; None: any."""
        is_about_these = values is None or not values.isdisjoint(self._computed)
        if not self.isVisible() or (is_about_these and self._run_texts() != self._told):
            self.refresh_soon()

    @property
    def _computed(self) -> list[Value]:
        """Return the run results of the shown objects."""
        item = self._items[0] if self._items else None
        values = [item] if isinstance(item, Value) else item.outputs[:MOST_WITH_RUNS] if isinstance(item, Node) else ()
        return [value for value in values if value is not None]

    def _run_texts(self) -> list[tuple[str, ...]]:
        rows = (row for value in self._computed for row in run_rows(self.workspace, value))
        return [(row.text, row.note, row.style) for row in rows]

    def _load_schemas(self) -> None:
        if not schemas.is_loaded():
            self.workspace.tasks.start(
                "Loading operator signatures", lambda _: schemas.preload(), done=lambda _: self.refresh_soon()
            )

    # -- content ---------------------------------------------------------------------------------------------

    @property
    def items(self) -> tuple[Item, ...]:
        """Return what is shown: the selection, else the graph; for a function body the function, which has its
        texts.
        """
        chosen = self.workspace.selection.items or (self.workspace.graph,)
        if len(chosen) > MOST:
            return chosen  # not functions: a model never has so many
        return tuple(
            item.owner if isinstance(item, Graph) and isinstance(item.owner, Function) else item for item in chosen
        )

    def _show_graph(self) -> None:
        self.workspace.selection.set([self.workspace.graph])

    def _show_model(self) -> None:
        self.workspace.selection.set([self.workspace.model])

    def _on_selection(self) -> None:
        items = self.items
        if items != self._items:
            self.tree.finish()
        if max(len(items), len(self._items)) > MOST:
            self.refresh_soon()  # they are painted as selected first
        else:
            self.refresh_when_visible()

    def refresh_soon(self) -> None:
        """Refresh at the next event-loop iteration (coalesced); safe after the panel is deleted."""
        if isValid(self):
            self._soon.request()

    def _on_problems(self) -> None:
        if len(self._items) == 1 and problems_of(self.workspace, self._items[0]) != self._problems:
            self.refresh_soon()

    def refresh(self) -> None:
        """Update the rows; unchanged rows keep focus, expansion and editor."""
        items = self.items
        if items != self._items:
            if self._items and not self._going_back:
                self._back = [*self._back[-_MOST_BACK:], self._items]
            self._items = items
            self.numbers.forget()
        self._back = [seen for seen in self._back if any(map(is_in_model, seen[:MOST]))]
        self.head.show_item(items, can_go_back=bool(self._back))
        self.tree.set_rows(self._rows(items))
        self._told = self._run_texts()

    def _rows(self, items: Sequence[Item]) -> Sequence[PropertyRow]:
        if len(items) == 1:
            self._problems = problems_of(self.workspace, items[0])
            return [*problem_rows(self.workspace, self._problems), *self.rows_of(items[0])]
        self._problems = []
        return many_rows(self.workspace, items, self.rows_of)

    def rows_of(self, item: Item) -> Sequence[PropertyRow]:
        """Return the rows of one object."""
        match item:
            case Node():
                return node_rows(self.workspace, item, self.numbers, self._open_list)
            case Value():
                return value_rows(self.workspace, item, self.numbers)
            case Graph():
                return graph_rows(self.workspace, item)
            case Function():
                return function_rows(self.workspace, item, self._ask_opset)
            case Model():
                return model_rows(self.workspace, item, self._ask_opset)

    def go_back(self) -> None:
        """Select the previously shown object."""
        if self._back:
            seen = self._back.pop()
            self._going_back = True
            self.workspace.navigation.reveal_all(item for item in seen if is_in_model(item))
            self._going_back = False
            self.refresh()

    def activate(self) -> None:
        """Focus the rows."""
        self.tree.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def edit_attribute(self, attribute: Attribute) -> None:
        """Open the editor of an attribute, if it belongs to the selected node: a comparison shows others."""
        self.refresh()
        item = self.items[0] if len(self.items) == 1 else None
        if isinstance(item, Node) and item.attributes.get(attribute.name) is attribute:
            self.tree.edit_at("attributes", attribute.name)

    def _open_list(self, node: Node, attribute: Attribute) -> None:
        edit_attribute(self.window(), self.workspace, node, attribute)

    def _ask_opset(self, target: Model | Function, domain: str, version: int, changed: Sequence[Node]) -> None:
        ask_about_opset(self.window(), self.workspace, target, domain, version, changed)

    # -- documentation ---------------------------------------------------------------------------------------

    def _show_help(self, row: PropertyRow | None) -> None:
        """Show documentation of the row, else of the operator."""
        text = None if row is None else row.help
        if text is None:
            first = self.tree.rows.row(self.tree.rows.find("op_type"))
            text = None if first is None else first.help
        self.head.documentation.setEnabled(text is not None)
        self.help.setVisible(text is not None and self.head.documentation.isChecked())
        self.help.show_help(text)

    def _color(self) -> None:
        self.head.color()
        self.help.color()
        self.tree.viewport().update()


class _Head(QWidget):
    """Kind and title of the shown object, with links back, to the graph and to the model."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.back = _button(self, "Back to what was shown before")
        self.graph = _button(self, "Show the graph")
        self.model = _button(self, "Show the model")
        self.documentation = _button(self, "Documentation")
        self.documentation.setCheckable(True)
        self.documentation.setChecked(True)
        self.chip = _Chip(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 4, 4, 4)
        row.setSpacing(4)
        row.addWidget(self.back)
        row.addWidget(self.chip, 1)
        row.addWidget(self.documentation)
        row.addWidget(self.graph)
        row.addWidget(self.model)
        self.color()

    def color(self) -> None:
        """Apply the theme's colours."""
        for button, name in (
            (self.back, "back"),
            (self.graph, "group"),
            (self.model, "info"),
            (self.documentation, "help"),
        ):
            button.setIcon(icon(name))
        self.chip.update()

    def show_item(self, items: Sequence[Item], *, can_go_back: bool) -> None:
        """Show the kind and title of items."""
        self.back.setEnabled(can_go_back)
        kind, title, category = _called(items)
        self.chip.set(kind, title, category)


class _Chip(QWidget):
    """A coloured kind and a title next to it, elided in the middle."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._kind, self._title, self._category = "", "", ""
        self.setMinimumHeight(24)

    def set(self, kind: str, title: str, category: str) -> None:
        """Set a kind (an operator's in its category's colour) and a title."""
        looks = display(kind, 60), display(title, 200), category
        if looks == (self._kind, self._title, self._category):
            return
        self._kind, self._title, self._category = looks
        self.setToolTip(plain_tip(display(f"{kind} {title}", 400)))
        self.setAccessibleName(f"{self._kind} {self._title}")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(80, 24)

    def paintEvent(self, _event: QPaintEvent) -> None:
        colors = theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        metrics = painter.fontMetrics()
        kind = metrics.elidedText(self._kind, Qt.TextElideMode.ElideMiddle, max(40, self.width() * 2 // 3))
        area = self.rect()
        chip = area.adjusted(0, 2, 0, -2)
        chip.setWidth(metrics.horizontalAdvance(kind) + 14)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.header(self._category) if self._category else colors.endpoint)
        painter.drawRoundedRect(chip, 4, 4)
        painter.setPen(colors.header_text if self._category else colors.text)
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, kind)
        painter.setFont(self.font())
        painter.setPen(colors.text)
        area.setLeft(chip.right() + 8)
        title = painter.fontMetrics().elidedText(self._title, Qt.TextElideMode.ElideMiddle, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, title)
        painter.end()


class _HelpView(QWidget):
    """Documentation: markdown of the onnx package without HTML, everything else as plain text."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._help: Help | None = None
        self.title = plain_label(parent=self)
        font = QFont(self.title.font())
        font.setWeight(QFont.Weight.DemiBold)
        self.title.setFont(font)
        self.title.setContentsMargins(8, 6, 8, 2)
        self.text = QTextBrowser(self)
        self.text.setOpenLinks(False)
        self.text.document().setIndentWidth(14)
        self.text.document().setDocumentMargin(8)
        self.text.setFrameShape(QTextBrowser.Shape.NoFrame)
        self.text.setAccessibleName("Documentation")
        self.setMinimumHeight(60)
        in_a_column(self, self.title, self.text, fills=self.text)
        self.color()

    def color(self) -> None:
        """Apply the theme's colours."""
        self.setAutoFillBackground(True)
        shown, self._help = self._help, None
        self.show_help(shown)

    def show_help(self, found: Help | None) -> None:
        """Show a text, if it differs from the one shown."""
        if found == self._help:
            return
        self._help = found
        self.title.setText("" if found is None else display(found.title, 300))
        text = "" if found is None else display(found.text, _LONGEST_HELP, elide="end", keep_lines=True)
        if found is not None and found.markdown:
            features = QTextDocument.MarkdownFeature
            self.text.document().setMarkdown(text, features.MarkdownDialectGitHub | features.MarkdownNoHTML)
        else:
            self.text.setPlainText(text)


def _button(parent: QWidget, title: str) -> QToolButton:
    button = QToolButton(parent)
    button.setAutoRaise(True)
    button.setIconSize(QSize(16, 16))
    button.setToolTip(title)
    button.setAccessibleName(title)
    return button


def _called(items: Sequence[Item]) -> tuple[str, str, str]:
    if len(items) > 1:
        nodes = (item for item in items if isinstance(item, Node))
        op_type = next((node.op_type for node in nodes), "")
        return f"{len(items):,} selected", op_type if all(node.op_type == op_type for node in nodes) else "", ""
    match items[0]:
        case Node() as node:
            return node.op_type, node.name or "(unnamed)", node_category(node)
        case Value() as value:
            return _value_kind(value), value.name, ""
        case Graph() as graph:
            return "Graph", graph.name or owner_text(graph), ""
        case Function() as function:
            return "Function", function.title, ""
        case Model():
            return "Model", "", ""


def _value_kind(value: Value) -> str:
    if value.is_input:
        return "Input"
    return "Initializer" if value.initializer is not None else "Value"
