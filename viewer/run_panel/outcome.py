"""Results in the Run panel: outputs, parameters, failures, test data, wrong declarations."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHeaderView, QPushButton, QSizePolicy, QTreeWidget, QTreeWidgetItem

from onnx_workbench.exec.inspect.expected_outputs import OutputCheck
from onnx_workbench.exec.inspect.overview import Contradiction, actual_type, contradictions, tensor_type
from onnx_workbench.exec.values.statistics import ValueInfo
from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.history.document import Change
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor, element_count
from onnx_workbench.model.ir.types import TensorType, Type, element_type_text
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import bytes_text, display, plural, shape_text, type_text
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.views.edge_notes import note_text
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.run_panel.controls import Section, muted
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.theme import theme, themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_MOST_ROWS = 60
_MOST_PARAMETERS = 5


class OutcomeSection(Section):
    """Outputs with their types, and failures; a click shows them on the graph."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__("Outcome")
        self._workspace = workspace
        self.tree = _Tree()
        self.tree.setAccessibleName("Outcome of the run")
        self.note = muted("")
        self.add(self.note)
        self.add(self.tree)
        self.tree.itemActivated.connect(self._go)
        self.tree.itemClicked.connect(self._go)
        self._is_behind = False  # runs ended or types were declared while it was hidden
        self.correct = QPushButton("Correct the declarations")
        self.correct.setToolTip("Declare what the run computed, as one edit")
        self.correct.clicked.connect(self.correct_declarations)
        self.add(self.correct)
        self._wrong: list[tuple[Value, Contradiction]] = []
        self._reader = ModelReader(self)  # of values that contradict their declaration, and of constants
        self._outputs: dict[Value, QTreeWidgetItem] = {}
        self._tested: QTreeWidgetItem | None = None  # the heading of the test data results
        workspace.results.changed.connect(self._on_results)
        workspace.results.summaries.read.connect(self._on_summaries)
        workspace.changes.changed.connect(self._on_change)
        workspace.runs.test_data.changed.connect(self._refresh)
        themes().themeChanged.connect(self._refresh)
        self._refresh()

    def _go(self, item: QTreeWidgetItem, _column: int = 0) -> None:
        target = item.data(0, Qt.ItemDataRole.UserRole)
        if isinstance(target, (Node, Value)):
            self._workspace.navigation.reveal(target)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_behind:
            self._refresh()

    def _on_results(self, values: object) -> None:
        if values is None and self.isVisible():
            self._refresh()
        elif values is None:
            self._is_behind = True

    def _on_change(self, change: Change) -> None:
        if self._tested is not None:
            self._tested.setText(0, self._verdict)
        self._name_again()
        if any(isinstance(step, SetField) and step.field == "type" for step in change.steps):
            self._on_results(None)

    def _refresh(self, then: Callable[[], object] = lambda: None) -> None:
        """Show the last run; call back when its declarations were checked."""
        results = self._workspace.results
        self._is_behind = False
        self._reader.stop()
        self.tree.clear()
        self._outputs = {}
        self._tested = None
        record = results.current
        verdicts = self._workspace.runs.test_data.verdicts
        self.note.setText("Running…" if results.is_running else "Press Run to see every value.")
        self.note.setVisible(record is None and not verdicts)
        self._wrong = []
        if verdicts:
            self._add_verdicts(verdicts)
        if record is not None:
            self._add_record(record)
        self._fit()
        self._read(record, then)

    def _fit(self) -> None:
        self.tree.setVisible(self.tree.topLevelItemCount() > 0)
        self.correct.setVisible(bool(self._wrong))
        self.tree.expandAll()
        self.tree.fit()

    @property
    def _verdict(self) -> str:
        """Describe how many outputs are as expected by the test data, and whether the model was edited since."""
        testing = self._workspace.runs.test_data
        passed = sum(not v.problem for v in testing.verdicts)
        when = "" if testing.state == self._workspace.document.current.id else ", before an edit"
        return f"Test data{when}: {passed} of {len(testing.verdicts)} as expected"

    def _add_verdicts(self, verdicts: list[OutputCheck]) -> None:
        branch = self._tested = self._branch(self._verdict, None)
        values = {v.name: v for v in self._workspace.model.graph.outputs}
        for one in verdicts[:_MOST_ROWS]:
            text = f"fail: {one.problem}" if one.problem else f"pass, error {one.error:.2g}"
            label = f"{one.output} · {one.data_set}".removeprefix(" · ")  # the number last: middles are elided
            item = QTreeWidgetItem(branch, [display(label, 60), display(text, 200)])
            item.setToolTip(0, plain_tip(display(label, 1000)))
            item.setData(0, Qt.ItemDataRole.UserRole, values.get(one.output))
            if one.problem:
                item.setForeground(1, theme().error)
            item.setToolTip(1, plain_tip(display(text, 1000)))

    def _add_record(self, record: RunRecord) -> None:
        results = self._workspace.results
        outputs = self._branch("Outputs", None)
        for value in self._workspace.model.graph.outputs[:_MOST_ROWS]:
            self._outputs[value] = self._add(outputs, value, self._about(value))
        failed = results.failed()
        if failed:
            failures = self._branch(f"Failed ({len(failed)})", theme().error)
            for node in failed[:_MOST_ROWS]:
                outcome = results.node_of(node)
                self._add(failures, node, outcome.failure.reason if outcome is not None and outcome.failure else "")
        for note in record.result.notes[:_MOST_ROWS]:
            QTreeWidgetItem(self.tree, [display(note, 200)]).setFirstColumnSpanned(True)

    def _on_summaries(self, values: AbstractSet[Value]) -> None:
        """Show the ranges of outputs when they are known."""
        if not values.isdisjoint(self._outputs):
            self._show_ranges()

    def _show_ranges(self) -> None:
        for value, item in self._outputs.items():
            item.setText(1, display(self._about(value), 200))
            item.setToolTip(1, plain_tip(item.text(1)))
        self.tree.share()

    def _read(self, record: RunRecord | None, then: Callable[[], object]) -> None:
        """Find and list contradicted declarations, in functions and subgraphs too, and the constants of the model."""
        graph = self._workspace.model.graph

        def work(progress: Progress) -> tuple[list[tuple[Value, Contradiction]], dict[Value, Tensor | SparseTensor]]:
            return [] if record is None else self._find_wrong(record, progress), _parameters(graph, progress)

        def show(wrong: list[tuple[Value, Contradiction]], parameters: Mapping[Value, Tensor | SparseTensor]) -> None:
            self._add_wrong(wrong)
            self._add_parameters(parameters)
            self._fit()
            then()

        self._reader.start(work, lambda contents: show(*contents))

    def _add_parameters(self, held: Mapping[Value, Tensor | SparseTensor]) -> None:
        """Add the constants of the model: number, size, and the largest."""
        if not held:
            return
        count = sum(element_count(t.shape) for t in held.values())
        nbytes = sum(t.nbytes for t in held.values())
        size = f", {bytes_text(nbytes)}" if nbytes else ""  # the size of strings is unknown
        elements = plural(count, "element")
        branch = self._branch(f"Parameters ({len(held):,}): {elements}{size}", None)
        for value, tensor in heapq.nlargest(_MOST_PARAMETERS, held.items(), key=lambda item: item[1].nbytes):
            size = f"   {bytes_text(tensor.nbytes)}" if tensor.nbytes else ""  # the size of strings is unknown
            text = f"{element_type_text(tensor.element_type)} {shape_text(tensor.shape)}{size}"
            self._add(branch, value, text)
        if len(held) > _MOST_PARAMETERS:
            item = QTreeWidgetItem(branch, [f"{len(held) - _MOST_PARAMETERS:,} more, none of them larger"])
            item.setFirstColumnSpanned(True)
            item.setForeground(0, theme().muted)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled)

    def _find_wrong(self, record: RunRecord, progress: Progress) -> list[tuple[Value, Contradiction]]:
        result = record.result
        there = (value for graph in self._workspace.model.graphs() for value in graph.values())
        typed = ((v, v.type) for v in progress.paced(there) if v.type is not None)
        declared = {value.id: (value, kind) for value, kind in typed}
        wrong = contradictions(result, {number: kind for number, (_, kind) in declared.items()}, progress)
        return [(declared[one.key[1]][0], one) for one in wrong]

    def _add_wrong(self, found: list[tuple[Value, Contradiction]]) -> None:
        self._wrong = found
        if found:
            branch = self._branch(f"Different from the declaration ({len(found)})", theme().warning)
            for value, one in found[:_MOST_ROWS]:
                self._add(branch, value, _describe(one))

    def correct_declarations(self) -> None:
        """Replace declared types that contradict the computed ones."""
        if self._is_behind or self._reader.running:
            self._refresh(self.correct_declarations)
            return
        record, wrong = self._workspace.results.current, self._wrong
        if not wrong or record is None:
            detail = "Every value has the type and shape declared for it, or none is declared."
            self._workspace.messages.show("info", "There is nothing to correct", detail)
            return
        type_of = self._workspace.types.type_of
        calls = record.result.in_calls
        types = {value: tensor_type(one.found, one.declared, type_of(value), calls(one.key[1])) for value, one in wrong}
        others = {value: one for value, one in wrong if types[value] is None}
        if not others:
            self._declare(types)
            return
        result = record.result

        def work(_progress: object) -> dict[Value, Type | None]:
            return {value: actual_type(result.value(one.key), one.declared) for value, one in others.items()}

        self._workspace.tasks.start(
            "Correct declared types",
            work,
            done=lambda found: self._declare(types | found),
            supersede="declarations",
            makes="edit",
        )

    def _declare(self, types: Mapping[Value, Type | None]) -> None:
        with self._workspace.document.edit("Correct declared types") as edit:
            for value, type_ in types.items():
                if type_ is not None and is_in_model(value):
                    set_type(edit, value, type_)

    def _about(self, value: Value) -> str:
        results = self._workspace.results
        info, summary = results.info_of(value), results.summaries.of(value)
        if info is None or info.kind == "none":  # an empty optional
            return "not computed" if info is None else "nothing"
        note = None if summary is None else note_text("range", summary, info.element_type)
        return _type_of(info) if note is None else f"{_type_of(info)}   {note.warning or note.text}"

    def _branch(self, text: str, color: Any) -> QTreeWidgetItem:
        item = QTreeWidgetItem(self.tree, [text])
        item.setFirstColumnSpanned(True)
        item.setForeground(0, color or theme().muted)
        item.setFlags(Qt.ItemFlag.ItemIsEnabled)
        return item

    def _name_again(self) -> None:
        """Update names after an edit; numbers stay."""
        for item in self.tree.findItems("", Qt.MatchFlag.MatchContains | Qt.MatchFlag.MatchRecursive):
            target = item.data(0, Qt.ItemDataRole.UserRole)
            if isinstance(target, (Node, Value)) and item.parent() is not self._tested:
                _name(item, target)

    def _add(self, branch: QTreeWidgetItem, target: Node | Value, text: str) -> QTreeWidgetItem:
        item = QTreeWidgetItem(branch, ["", display(text, 200)])
        item.setData(0, Qt.ItemDataRole.UserRole, target)
        _name(item, target)
        item.setToolTip(1, plain_tip(display(text, 1000, keep_lines=True)))
        return item


def _name(item: QTreeWidgetItem, target: Node | Value) -> None:
    item.setText(0, display(name_of(target), 60))
    item.setToolTip(0, plain_tip(display(name_of(target), 1000)))


def _parameters(graph: Graph, progress: Progress) -> dict[Value, Tensor | SparseTensor]:
    """Return the constants of a graph by their owner: initializers, and outputs of Constant nodes."""
    held = {v: v.initializer for v in progress.paced(graph.initializers) if v.initializer is not None}
    for node in progress.paced(graph.nodes):
        tensor = constant_tensor(node)
        if tensor is not None and node.outputs and node.outputs[0] is not None:
            held[node.outputs[0]] = tensor
    return held


def _type_of(info: ValueInfo) -> str:
    if info.kind != "tensor" or info.element_type is None:
        return str(info)
    return f"{element_type_text(info.element_type)} {shape_text(info.shape)}"


def _describe(one: Contradiction) -> str:
    """Format found and declared type; only the shapes if the element types are equal."""
    found, declared = one.found, one.declared
    if isinstance(declared, TensorType) and declared.element_type == found.element_type and declared.shape is not None:
        return f"{shape_text(found.shape)}, declared {shape_text(declared.shape)}"
    return f"{_type_of(found)}, declared {type_text(declared)}"


class _Tree(QTreeWidget):
    """Tree as high as its content, up to a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.setItemDelegate(WholeTextDelegate(self))
        self.setColumnCount(2)
        self.setHeaderHidden(True)
        self.setRootIsDecorated(False)
        self.setIndentation(10)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.header().setStretchLastSection(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.share()

    def share(self) -> None:
        """Divide the width of the columns: types and shapes in full if a third is left for names.

        Much longer texts, such as reasons of failures, are always elided.
        """
        width = self.viewport().width()
        most = width - width // 3
        items = [self.topLevelItem(i) for i in range(self.topLevelItemCount())]
        rows = [item.child(i) for item in items if item is not None for i in range(item.childCount())]
        wide = [self.sizeHintForIndex(self.indexFromItem(row, 1)).width() for row in rows if row]
        names = min(self.sizeHintForColumn(0) + 8, width - max((w for w in wide if w <= most), default=most))
        self.setColumnWidth(0, names)
        self.setColumnWidth(1, width - names)

    def fit(self) -> None:
        """Fit the height to the rows."""
        items = [self.topLevelItem(i) for i in range(self.topLevelItemCount())]
        rows = sum(1 + item.childCount() for item in items if item is not None)
        row = max(self.sizeHintForRow(0), 16)
        self.share()
        self.setFixedHeight(min(rows, 14) * row + 2 * self.frameWidth() + 2)
