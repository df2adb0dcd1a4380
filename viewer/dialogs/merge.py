"""Merge another model in: which of its inputs are fed by which values here, with names and outputs as they will be."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from model.edits.subgraphs import merge
from model.errors import ModelError
from model.graph import Graph, Model, Value
from model.queries.scope import names_taken, visible_values
from model.schemas.schema import type_text as signature_text
from viewer.dialogs.ask_text import ErrorLabel
from viewer.dialogs.buttons import without_icons
from viewer.text import display, plural, type_text
from viewer.theme import theme
from viewer.workspace import Workspace

_NEW = "(becomes an input here)"
_MOST_OFFERED = 2000


class MergeDialog(QDialog):
    """One row for each input of the other model; the preview below follows every choice."""

    def __init__(self, window: QWidget, workspace: Workspace, graph: Graph, other: Model, title: str) -> None:
        super().__init__(window)
        self.setWindowTitle(f"Merge {display(title, 60)}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(680, 520)
        self._workspace, self._graph, self._other, self._title = workspace, graph, other, title
        self._here = visible_values(graph)
        self.prefix = QLineEdit("")
        self.prefix.setAccessibleName("Prefix for names that clash")
        self.prefix.setPlaceholderText("none: names that clash get a number")
        self.choices: dict[str, QComboBox] = {}
        self.table = self._table()
        self.preview = QLabel()
        self.preview.setTextFormat(Qt.TextFormat.PlainText)
        self.preview.setWordWrap(True)
        self.error = ErrorLabel()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        buttons.button(QDialogButtonBox.StandardButton.Ok).setText("Merge")
        without_icons(buttons.buttons())
        buttons.accepted.connect(self.try_merge)
        buttons.rejected.connect(self.reject)
        form = QFormLayout()
        form.addRow("Prefix:", self.prefix)
        intro = QLabel("What feeds each input of the model that comes in:")
        layout = QVBoxLayout(self)
        layout.addWidget(intro)
        layout.addWidget(self.table, 1)
        layout.addLayout(form)
        layout.addWidget(self.preview)
        layout.addWidget(self.error)
        layout.addWidget(buttons)
        self.prefix.textChanged.connect(self._show_preview)
        self._show_preview()

    def _table(self) -> QTableWidget:
        fed = [value for value in self._other.graph.inputs if value.initializer is None]
        table = QTableWidget(len(fed), 3)
        table.setAccessibleName("Inputs of the model that comes in")
        table.setHorizontalHeaderLabels(["Its input", "Type", "Fed by"])
        table.verticalHeader().hide()
        table.setShowGrid(False)
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        table.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        for row, value in enumerate(fed):
            for column, text in enumerate((display(value.name, 100), type_text(value.type))):
                item = QTableWidgetItem(text)
                item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
                table.setItem(row, column, item)
            box = self._choice(value, row, len(fed))
            self.choices[value.name] = box
            table.setCellWidget(row, 2, box)
        table.resizeRowsToContents()
        return table

    def _choice(self, value: Value, row: int, count: int) -> QComboBox:
        """Values here whose type fits; chosen: the one of the same name, else the output in the same place."""
        box = QComboBox()
        box.setAccessibleName(f"What feeds {display(value.name, 60)}")
        box.setEditable(True)
        box.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        wanted = signature_text(value.type)
        offered = [v for v in (*self._graph.outputs, *self._here.values()) if self._fits(v, wanted)]
        names = list(dict.fromkeys([_NEW, *(v.name for v in offered)]))[:_MOST_OFFERED]
        box.addItems(names)
        completer = QCompleter(names, box)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        box.setCompleter(completer)
        outputs = [v for v in self._graph.outputs if self._fits(v, wanted)]
        if value.name in self._here:
            box.setCurrentText(value.name)
        elif len(outputs) == count:
            box.setCurrentText(outputs[row].name)
        else:
            box.setCurrentText(_NEW)
        box.currentTextChanged.connect(partial(self._show_preview))
        return box

    def _fits(self, value: Value, wanted: str | None) -> bool:
        known = signature_text(self._workspace.types.type_of(value))
        return wanted is None or known is None or known == wanted

    def connections(self) -> dict[str, str]:
        """Names of its inputs to names of values here."""
        return {name: box.currentText() for name, box in self.choices.items() if box.currentText() not in ("", _NEW)}

    def _show_preview(self, *_: object) -> None:
        self.error.show_error(None)
        part = self._other.graph
        connected = self.connections()
        wrong = [name for name in connected.values() if name not in self._here]
        taken = names_taken(self._graph)
        clashes = [v.name for v in part.values() if v.name in taken and v.name not in connected]
        lines = [
            f"{plural(len(part.nodes), 'node')} and {plural(len(part.initializers), 'initializer')} come in.",
            f"{plural(len(connected), 'input')} connected, {len(self.choices) - len(connected)} become inputs here.",
            f"Its outputs become outputs here: {', '.join(display(v.name, 40) for v in part.outputs[:6])}.",
        ]
        if clashes:
            shown = ", ".join(display(name, 30) for name in clashes[:5])
            how = f"the prefix {self.prefix.text()!r}" if self.prefix.text() else "a number"
            lines.append(f"{plural(len(clashes), 'name')} taken here get {how}: {shown}{' …' if clashes[5:] else ''}")
        if wrong:
            lines.append(f"There is no value {display(wrong[0], 60)} here.")
        self.preview.setStyleSheet(f"color: {theme().error.name()};" if wrong else "")
        self.preview.setText("\n".join(lines))

    def try_merge(self) -> None:
        """Do it as one edit, or say why not."""
        try:
            with self._workspace.document.edit(f"Merge {display(self._title, 60)}") as edit:
                nodes = merge(edit, self._graph, self._other, self.connections(), prefix=self.prefix.text())
        except ModelError as error:
            self.error.show_error(error)
            return
        self.accept()
        self._workspace.reveal_all(nodes)
