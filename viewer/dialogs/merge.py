"""Merge dialog: connect the outputs and inputs of two models by wires, with a preview of the result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.analysis.scoping import names_taken, visible_values
from onnx_workbench.model.edits.copy_paste import merge
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference.infer import compatible
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.schemas.schema import type_text as signature_text
from onnx_workbench.model.text.formatting import display, plural, type_text
from onnx_workbench.viewer.core.tasks import Task
from onnx_workbench.viewer.dialogs.patch_bay import PatchBay
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.port_list import Port, Side
from onnx_workbench.viewer.workflows.background_edit import EditOutcome, edit_in_background

_MOST_INNER = 500  # listed values that are neither inputs nor outputs


class MergeDialog(QDialog):
    """Ports of this model on the left, of the merged model on the right."""

    def __init__(self, window: QWidget, workspace: Workspace, graph: Graph, other: Model, title: str) -> None:
        super().__init__(window)
        self.setWindowTitle(f"Merge {display(title, 60)}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(820, 620)
        self._workspace, self._graph, self._other, self._title = workspace, graph, other, title
        self._here = visible_values(graph)
        self._types: dict[Port, Type | None] = {}
        self.bay = PatchBay((display(workspace.label, 60), display(title, 60)), self._why_not)
        self.bay.message.connect(self._show_hint)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Find a value of this model")
        self.search.setAccessibleName("Find a value of this model")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._show_here)
        self.prefix = QLineEdit("")
        self.prefix.setAccessibleName("Prefix for names that clash")
        self.prefix.setPlaceholderText("empty: a number is added")
        self.keep = QCheckBox("Outputs that feed the other model &stay outputs")
        self.preview, self.hint = _label(), _label()
        self.hint.setMinimumHeight(self.hint.fontMetrics().height())
        self.error = ErrorLabel()
        self._lay_out()
        self._show_here()
        self._show_other()
        self._connect_first()
        workspace.types.changed.connect(self._show_here)
        self.bay.changed.connect(self._show_preview)
        self.prefix.textChanged.connect(self._show_preview)
        self.keep.toggled.connect(self._show_preview)
        self._show_preview()
        self._merging: Task[bool] | None = None
        self.finished.connect(self._cancel_merge)
        self.bay.lists["right"].setFocus()

    def _lay_out(self) -> None:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.ok.setText("Merge")
        without_icons(buttons.buttons())
        buttons.accepted.connect(self.try_merge)
        buttons.rejected.connect(self.reject)
        intro = _label()
        intro.setText("Drag an output onto an input. Enter chooses by name, Del disconnects.")
        form = QFormLayout()
        form.addRow("Prefix:", self.prefix)
        layout = QVBoxLayout(self)
        layout.addWidget(intro)
        layout.addWidget(self.search)
        layout.addWidget(self.bay, 1)
        layout.addWidget(self.hint)
        layout.addLayout(form)
        layout.addWidget(self.keep)
        layout.addWidget(self.preview)
        layout.addWidget(self.error)
        layout.addWidget(buttons)

    # -- ports -----------------------------------------------------------------------------------------------

    def _port(self, side: Side, value: Value, *, gives: bool) -> Port:
        known = self._workspace.types.type_of(value) if side == "left" else value.type
        port = Port(side, value.name, gives, type_text(known))
        self._types[port] = known
        return port

    def _inputs(self, side: Side, graph: Graph) -> list[Port]:
        return [self._port(side, v, gives=False) for v in graph.required_inputs]

    def _givers(self, side: Side, values: Iterable[Value]) -> list[Port]:
        return [self._port(side, value, gives=True) for value in dict.fromkeys(values)]

    def _show_here(self) -> None:
        """List this model's ports: outputs, then inputs, then the matches of the search among all values."""
        words = self.search.text().lower()
        fed = {giver.name for giver in self.bay.wires.values() if giver.side == "left"}
        found = [v for name, v in self._here.items() if words in name.lower() or name in fed]
        found.sort(key=lambda v: v.initializer is not None)  # constants last
        outputs = self._givers("left", (v for v in self._graph.outputs if words in v.name.lower()))
        inner = [p for p in self._givers("left", found[:_MOST_INNER]) if p not in outputs]
        inputs = self._inputs("left", self._graph)
        self.bay.show_ports("left", (("Outputs", outputs), ("Inputs", inputs), ("All values", inner)))

    def _show_other(self) -> None:
        graph = self._other.graph
        outputs = self._givers("right", graph.outputs)
        self.bay.show_ports("right", (("Inputs", self._inputs("right", graph)), ("Outputs", outputs)))

    def _why_not(self, giver: Port, taker: Port) -> str:
        """Refuse other element types; other dimensions are allowed, since a later edit may fix them."""
        gives, takes = (signature_text(self._types.get(port)) for port in (giver, taker))
        if gives is None or takes is None or gives == takes:
            return ""
        return f"{giver.name} is {giver.note}, {taker.name} expects {taker.note}."

    def _fits(self, giver: Port, taker: Port) -> bool:
        """Return whether the known types are compatible, dimensions included."""
        gives, takes = self._types.get(giver), self._types.get(taker)
        return not self.bay.refusal(giver, taker) and (gives is None or takes is None or compatible(gives, takes))

    def _connect_first(self) -> None:
        """Connect inputs to values of the same name, else to the outputs at the same positions."""
        takers = [port for port in self.bay.lists["right"].ports if not port.gives]
        outputs = [port for port in self.bay.lists["left"].ports if port.gives]
        by_name = {port.name: port for port in outputs}
        own = [by_name[v.name] for v in self._graph.outputs if v.name in by_name]
        for index, taker in enumerate(takers):
            giver = by_name.get(taker.name)
            if giver is None and len(own) == len(takers):
                giver = own[index]
            if giver is not None and self._fits(giver, taker):
                self.bay.connect_ports(giver, taker)

    def connections(self) -> dict[str, str]:
        """Map names of its inputs to names of the values here that feed them."""
        return {taker.name: giver.name for taker, giver in self.bay.wires.items() if taker.side == "right"}

    def feeding(self) -> dict[str, str]:
        """Map names of inputs here to names of its outputs that feed them."""
        return {taker.name: giver.name for taker, giver in self.bay.wires.items() if taker.side == "left"}

    # -- outcome ---------------------------------------------------------------------------------------------

    def _show_hint(self, text: str, refused: bool) -> None:
        self.hint.setStyleSheet(f"color: {theme().error.name()};" if refused else "")
        self.hint.setText(text)

    def _show_preview(self, *_: object) -> None:
        self.error.show_error(None)
        part = self._other.graph
        connected, feeding = self.connections(), self.feeding()
        taken = names_taken(self._graph)
        alike = [v.name for v in part.initializers if self._may_be_here(v) and v.name not in connected]
        passed = {*connected, *alike}
        clashes = [v.name for v in part.values() if v.name in taken and v.name not in passed]
        takers = [port for port in self.bay.lists["right"].ports if not port.gives]
        lines = [
            f"Adds: {plural(len(part.nodes), 'node')}, {plural(len(part.initializers), 'initializer')}.",
            f"Inputs: {len(connected)} connected, {len(takers) - len(connected):,} new.",
        ]
        if self._other.training_info:
            lines.append(self._unmerged_parts())
        if feeding:
            shown = ", ".join(display(name, 30) for name in [*feeding][:6])
            lines.append(f"Replaces inputs: {shown}{' …' if len(feeding) > 6 else ''}.")
        inner = set() if self.keep.isChecked() else {*feeding.values()}
        outputs = [v.name for v in part.outputs if v.name not in inner]
        if outputs:
            shown = ", ".join(display(name, 40) for name in outputs[:6])
            lines.append(f"Adds outputs: {shown}{' …' if outputs[6:] else ''}.")
        for taker, giver in self.bay.wires.items():
            if not self._fits(giver, taker):
                lines.append(f"Their dimensions differ: {giver.name} is {giver.note}, {taker.name} is {taker.note}.")
        if alike:
            shown = ", ".join(display(name, 30) for name in alike[:5])
            lines.append(f"Shared constants, added once: {shown}{' …' if alike[5:] else ''}")
        if clashes:
            shown = ", ".join(display(name, 30) for name in clashes[:5])
            how = f"the prefix {self.prefix.text()!r}" if self.prefix.text() else "a number"
            lines.append(f"Names in use, changed by {how}: {shown}{' …' if clashes[5:] else ''}")
        self.preview.setText("\n".join(lines))

    def _unmerged_parts(self) -> str:
        """Return the parts of the other model that cannot be merged."""
        count = sum(graph is not None for t in self._other.training_info for graph in (t.initialization, t.algorithm))
        return f"Not merged: {plural(count, 'training graph')}."

    def _may_be_here(self, value: Value) -> bool:
        """Return whether this graph may have the same constant, by name, type and shape; equality would take longer."""
        here = self._here.get(value.name)
        ours, theirs = (here and here.initializer), value.initializer
        if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
            return False
        return (ours.element_type, ours.shape) == (theirs.element_type, theirs.shape)

    def try_merge(self) -> None:
        """Merge as one edit, or show the error."""
        graph, other, title = self._graph, self._other, f"Merge {display(self._title, 60)}"
        wishes: dict[str, Any] = {"feeding": self.feeding(), "prefix": self.prefix.text()}
        wishes |= {"connections": self.connections(), "keep_outputs": self.keep.isChecked()}
        detail = self._unmerged_parts() if other.training_info else ""

        def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
            with copy.document.edit(title) as edit:
                nodes = merge(edit, copy.copy_of(graph), other, progress=progress, **wishes)
            steps = copy.steps()
            merged = f"{plural(len(nodes), 'node')} added"
            return EditOutcome(steps, merged, detail, places=[*map(copy.original, nodes)])

        self._lock(True)
        self.error.show_error(None)
        self._merging = edit_in_background(self._workspace, title, work, failed=self._refuse, ended=self._end)

    def _lock(self, is_merging: bool) -> None:
        for part in (self.search, self.bay, self.prefix, self.keep, self.ok):
            part.setEnabled(not is_merging)

    def _refuse(self, error: BaseException) -> None:
        if isinstance(error, ModelError):
            self.error.show_error(error)

    def _end(self, is_made: bool) -> None:
        self._merging = None
        self._lock(False)
        if is_made:
            self.accept()

    def _cancel_merge(self, *_: object) -> None:
        if self._merging is not None:
            self._merging.cancel()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._cancel_merge()
        super().closeEvent(event)


def _label() -> QLabel:
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    return label
