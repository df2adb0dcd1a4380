"""Extract or split dialog: previews the boundary on the graph; the parts open in tabs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QComboBox,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.exec.transform.extract import checked_parts
from onnx_workbench.model.analysis import topology
from onnx_workbench.model.edits.extract import Extraction, cut_between, cut_in_two, cut_selection, left_out
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.text.formatting import display, plural, type_text
from onnx_workbench.viewer.dialogs.preview import PreviewDialog
from onnx_workbench.viewer.document.navigation import graph_of
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tasks.readers import read_model
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Way = Literal["selection", "between", "ends", "split"]

WAYS: dict[Way, str] = {
    "selection": "the selected nodes",
    "between": "everything between what is selected",
    "ends": "selected values as inputs and outputs",
    "split": "both sides of the selected values",
}
_DELAY_MS = 150
_MOST_LISTED = 500
_PlaceRole = Qt.ItemDataRole.UserRole


class ExtractDialog(PreviewDialog):
    """Follows the selection; inputs of the part are green on the graph, outputs red and dashed.

    `done` gets the new models with title suffixes, and what is in none of them.
    """

    def __init__(
        self,
        workspace: Workspace,
        way: Way,
        done: Callable[[Sequence[tuple[Model, str]], Sequence[str]], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(workspace, "Extract as new model", parent)
        self.resize(460, 380)
        self._opened = done
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.preview)
        self._arrange(way)
        self.way.currentIndexChanged.connect(self.preview)
        workspace.selection.changed.connect(self._delay.start)
        workspace.changes.changed.connect(self._on_change)  # a method: Qt ends it with the dialog
        workspace.types.changed.connect(self._delay.start)
        self._show_graph()
        self.preview()

    def _arrange(self, way: Way) -> None:
        self.way = QComboBox()
        self.way.setAccessibleName("What to extract")
        for one, title in WAYS.items():
            self.way.addItem(title[0].upper() + title[1:], one)
        self.way.setCurrentIndex(list(WAYS).index(way))
        self.list = self._make_list()
        self.ok.setText("Extract")
        layout = QVBoxLayout(self)
        for widget in (self.way, self.state, self.list, self.error, self.bar, self.buttons):
            layout.addWidget(widget, int(widget is self.list))

    def _on_change(self, _change: object) -> None:
        if self._task is not None:
            self._task.cancel()
        self._delay.start()

    def _make_list(self) -> QListWidget:
        boundary = QListWidget()
        boundary.setItemDelegate(WholeTextDelegate(boundary))
        boundary.setAccessibleName("Inputs and outputs")
        boundary.setUniformItemSizes(True)
        boundary.itemClicked.connect(self._go)
        boundary.itemActivated.connect(self._go)
        return boundary

    def cuts(self) -> list[Extraction]:
        """Return the chosen extraction; ModelError if it is impossible."""
        items = self.workspace.selection.items
        nodes = [item for item in items if isinstance(item, Node)]
        values = [item for item in items if isinstance(item, Value)]
        if self.way.currentData() == "selection":
            if not nodes:
                raise ModelError("No node is selected", "Select the nodes to extract on the graph.")
            return [cut_selection(nodes)]
        if self.way.currentData() == "between":
            return [cut_selection(_between(items))]
        first_outputs = [v for node in nodes for v in node.outputs[:1] if v is not None]
        chosen = list(dict.fromkeys([*values, *first_outputs]))
        graph = _only_graph(chosen)
        if self.way.currentData() == "split":
            return list(cut_in_two(graph, chosen))
        return [cut_between(graph, *_first_and_last(chosen))]

    def _show_graph(self) -> None:
        """Show the graph of the selection, which may have been made in a list, so that the boundary is visible."""
        items = self.workspace.selection.items
        if items and graph_of(items[-1]) is not self.workspace.graph:
            self.workspace.navigation.reveal_all(items)

    def preview(self) -> None:
        """Show the boundary; it stays during the extraction."""
        if self._is_busy:
            return
        self._lock(False)
        self.list.clear()
        self.error.show_error(None)
        try:
            cuts = self.cuts()
        except ModelError as error:
            cuts = []
            self.error.show_error(error)
        self.ok.setEnabled(bool(cuts))
        lines = []
        for number, cut in enumerate(cuts, 1):
            head = f"Part {number}: " if len(cuts) > 1 else ""
            lines.append(f"{head}{plural(len(cut.nodes), 'node')}, {plural(len(cut.constants), 'constant')}")
            self._list_boundary(cut, head)
        self.state.setText("\n".join(lines))
        self._mark(cuts)

    def _list_boundary(self, cut: Extraction, head: str) -> None:
        colors = theme()
        rows = [(v, "in", colors.changed) for v in cut.inputs] + [(v, "out", colors.edited) for v in cut.outputs]
        for value, word, color in rows[:_MOST_LISTED]:
            kind = type_text(self.workspace.types.type_of(value))
            item = QListWidgetItem(f"{head}{word}   {display(value.name, 80)}   {kind}")
            item.setForeground(color)
            item.setData(_PlaceRole, value)
            self.list.addItem(item)

    def _mark(self, cuts: Sequence[Extraction]) -> None:
        """For a split, mark values that one side produces and the other consumes as the cut."""
        outputs = {v for cut in cuts for v in cut.outputs}
        self.workspace.highlights.mark("taken", [v for cut in cuts for v in cut.inputs if v not in outputs])
        self.workspace.highlights.mark("given", list(outputs))

    def _go(self, item: QListWidgetItem) -> None:
        value = item.data(_PlaceRole)
        if isinstance(value, Value) and value.graph is not None:
            self.workspace.navigation.reveal_requested.emit(value)

    def apply(self) -> None:
        """Create the models and pass them on."""
        try:
            cuts = self.cuts()
        except ModelError as error:
            self.error.show_error(error)
            return
        self._lock(True)
        model, rules = self.workspace.model, dict(self.workspace.types.rules)
        self._start(
            "Extracting…",
            "Extracting",
            partial(read_model, lambda progress: checked_parts(model, cuts, rules, progress)),
            partial(self._open_parts, cuts[0].graph),
        )

    def _lock(self, is_working: bool) -> None:
        super()._lock(is_working)
        for part in (self.way, self.list):
            part.setEnabled(not is_working)

    def _start_over(self, text: str) -> None:
        """Show the boundary of what is selected now."""
        super()._start_over(text)
        self.preview()

    def _open_parts(self, graph: Graph, models: Sequence[Model]) -> None:
        lost = left_out(self.workspace.model, graph, models) if len(models) > 1 else []
        self.accept()
        self._opened(list(zip(models, _suffixes(len(models)), strict=True)), lost)

    def done(self, result: int) -> None:
        """Remove the marks, too."""
        self._mark(())
        super().done(result)


def _suffixes(count: int) -> Iterator[str]:
    yield from (str(number) for number in range(1, count + 1)) if count > 1 else ("part",)


def _only_graph(values: Sequence[Value]) -> Graph:
    graphs = {value.graph for value in values}
    graph = next(iter(graphs)) if len(graphs) == 1 else None
    if graph is None:
        raise ModelError("Select values of one graph", f"The selection spans {len(graphs)} graphs.")
    return graph


def _between(items: Sequence[object]) -> list[Node]:
    """Return the nodes on paths between the selected ones; their other inputs come from outside."""
    between = topology.between(items)
    if len(items) < 2 or not between:
        raise ModelError("No nodes in between", "There is no path between the selected nodes or values.")
    return between


def _first_and_last(values: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Return the values that others depend on, and those that depend on them."""
    first: list[Value] = []
    last: list[Value] = []
    for value in values:
        below = topology.downstream([value])
        (first if any(other in below for other in values if other is not value) else last).append(value)
    if not first:
        raise ModelError("No nodes in between", "There is no path between the selected values.")
    return first, last
