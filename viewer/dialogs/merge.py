"""Merge dialog: where another model goes, and what each input is fed by, with a preview of the result."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QComboBox,
    QFormLayout,
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
from onnx_workbench.viewer.dialogs.preview import PreviewDialog
from onnx_workbench.viewer.property_tree.field_delegate import CellDelegate
from onnx_workbench.viewer.property_tree.rows import Suggestion
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tables.row_model import Column, Index, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.workflows.background_edit import EditOutcome

_MOST_OFFERED = 1000  # values listed for an input
_COLUMNS = (Column("Input", 28), Column("Type", 34), Column("Fed By"))
_FED_BY = 2


class Place(enum.Enum):
    """Where the other model goes."""

    AFTER = "After this model"
    BEFORE = "Before this model"
    BESIDE = "Beside this model"


@dataclass(slots=True)
class _Row:
    """An input, and the name of the value that feeds it; empty: it stays an input."""

    value: Value
    known: Type | None
    giver: str = ""


class MergeDialog(PreviewDialog):
    """A table of the inputs that can be fed: the other model's, or this one's where the other comes before it."""

    def __init__(self, window: QWidget, workspace: Workspace, graph: Graph, other: Model, title: str) -> None:
        super().__init__(workspace, f"Merge {display(title, 60)}", window)
        self.resize(820, 520)
        self._graph, self._other = graph, other
        self._here = visible_values(graph)
        self.place = QComboBox()
        self.place.setAccessibleName("Place of the other model")
        for place in Place:
            self.place.addItem(place.value, place)
        self.intro = plain_label()
        self.inputs = _InputModel(self)
        self.table = RowTable(self.inputs, "Inputs and what feeds them")
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.AllEditTriggers)
        self.table.setItemDelegateForColumn(_FED_BY, CellDelegate(self.table, self._offers))
        self.table.set_widths(_COLUMNS)
        self.prefix = QLineEdit("")
        self.prefix.setAccessibleName("Prefix for names that clash")
        self.prefix.setPlaceholderText("empty: a number is added")
        self.keep = QCheckBox("Outputs that feed the other model &stay outputs")
        self._lay_out()
        self.set_place(self._likely_place())
        self.place.currentIndexChanged.connect(self._show_inputs)
        workspace.types.changed.connect(self._update_types)
        self.inputs.chosen.connect(self.preview)
        self.prefix.textChanged.connect(self.preview)
        self.keep.toggled.connect(self.preview)
        self.place.setFocus()

    def _lay_out(self) -> None:
        self.ok.setText("Merge")
        place = QFormLayout()
        place.addRow("&Place:", self.place)
        names = QFormLayout()
        names.addRow("Prefi&x:", self.prefix)
        choices = QVBoxLayout(self.form)
        choices.setContentsMargins(0, 0, 0, 0)
        choices.addLayout(place)
        choices.addWidget(self.intro)
        choices.addWidget(self.table, 1)
        choices.addLayout(names)
        choices.addWidget(self.keep)
        layout = QVBoxLayout(self)
        for part in (self.form, self.state, self.error, self.bar, self.buttons):
            layout.addWidget(part, int(part is self.form))

    # -- inputs and what feeds them ----------------------------------------------------------------------------

    def set_place(self, place: Place) -> None:
        """Choose where the other model goes, and what feeds each input there."""
        self.place.setCurrentIndex(self.place.findData(place))
        self._show_inputs()

    def _chosen_place(self) -> Place:
        place: Place = self.place.currentData()
        return place

    def _likely_place(self) -> Place:
        """Return where most inputs are fed by outputs of their types; beside where none is."""
        outputs = {Place.AFTER: self._graph.outputs, Place.BEFORE: self._other.graph.outputs}
        fed = {
            place: len({row.giver for row in self._rows(place)} & {v.name for v in values})
            for place, values in outputs.items()
        }
        best = max(fed, key=lambda place: fed[place])
        return best if fed[best] else Place.BESIDE

    def _rows(self, place: Place) -> list[_Row]:
        """Return the inputs that can be fed, with what most likely feeds them."""
        takers = (self._graph if place is Place.BEFORE else self._other.graph).required_inputs
        rows = [_Row(value, self.type_of(value)) for value in takers]
        givers = list(self._likely_givers(place))
        by_name = (self._here if place is Place.AFTER else {}) | {giver.name: giver for giver in givers}
        free = dict.fromkeys(givers)
        for row in rows:
            giver = by_name.get(row.value.name)
            if giver is not None and self._fits(giver, row):
                row.giver = giver.name
                free.pop(giver, None)
        if place is not Place.BESIDE:
            for row in rows:
                giver = next((one for one in free if not row.giver and self._fits(one, row)), None)
                if giver is not None:
                    row.giver = giver.name
                    free.pop(giver)
        return rows

    def _likely_givers(self, place: Place) -> Iterable[Value]:
        match place:
            case Place.AFTER:
                return dict.fromkeys(self._graph.outputs)
            case Place.BEFORE:
                return dict.fromkeys(self._other.graph.outputs)
            case Place.BESIDE:
                return self._graph.required_inputs

    def offered(self, row: _Row) -> list[Value]:
        """Return the values that may feed an input, the likely ones first, constants last."""
        place = self._chosen_place()
        inner = sorted(self._here.values(), key=lambda v: v.initializer is not None) if place is Place.AFTER else ()
        fitting = (
            value for value in dict.fromkeys((*self._likely_givers(place), *inner)) if self._may_feed(value, row)
        )
        return [value for value, _ in zip(fitting, range(_MOST_OFFERED), strict=False)]

    def _offers(self, index: Index) -> list[Suggestion]:
        values = self.offered(self.inputs.rows[index.row()])
        return [Suggestion("", "nothing"), *(Suggestion(v.name, type_text(self.type_of(v))) for v in values)]

    def type_of(self, value: Value) -> Type | None:
        """Return the type of a value of either model, as far as known."""
        is_here = value.name in self._here and self._here[value.name] is value
        return self.workspace.types.type_of(value) if is_here else value.type

    def _may_feed(self, giver: Value, row: _Row) -> bool:
        """Return whether the element types are the same; other dimensions are allowed, a later edit may fix them."""
        gives, takes = signature_text(self.type_of(giver)), signature_text(row.known)
        return gives is None or takes is None or gives == takes

    def _fits(self, giver: Value, row: _Row) -> bool:
        """Return whether the known types are compatible, dimensions included."""
        gives = self.type_of(giver)
        return gives is None or row.known is None or compatible(gives, row.known)

    def _show_inputs(self, *_: object) -> None:
        place = self._chosen_place()
        self.inputs.set_rows(self._rows(place))
        self.intro.setText(
            "Choose what feeds each input of this model. Inputs that nothing feeds stay inputs."
            if place is Place.BEFORE
            else "Choose what feeds each input of the other model. Inputs that nothing feeds become inputs of this one."
        )
        self.keep.setVisible(place is not Place.BESIDE)
        self.preview()

    def _update_types(self) -> None:
        """Show types that were inferred meanwhile; what was chosen stays."""
        for row in self.inputs.rows:
            row.known = self.type_of(row.value)
        self.inputs.refresh()
        self.preview()

    def givers(self) -> Mapping[str, Value]:
        """Return all values that can feed an input, by name."""
        is_before = self._chosen_place() is Place.BEFORE
        return {value.name: value for value in self._other.graph.outputs} if is_before else self._here

    def _giver(self, row: _Row) -> Value:
        return self.givers()[row.giver]

    def feed(self, name: str, giver: str) -> None:
        """Choose what feeds the input of this name; an empty giver: nothing."""
        row = next(number for number, row in enumerate(self.inputs.rows) if row.value.name == name)
        self.inputs.write(self.inputs.index(row, _FED_BY), giver)

    def _fed(self) -> dict[str, str]:
        return {row.value.name: row.giver for row in self.inputs.rows if row.giver}

    def connections(self) -> dict[str, str]:
        """Map names of its inputs to names of the values here that feed them."""
        return {} if self._chosen_place() is Place.BEFORE else self._fed()

    def feeding(self) -> dict[str, str]:
        """Map names of inputs here to names of its outputs that feed them."""
        return self._fed() if self._chosen_place() is Place.BEFORE else {}

    # -- outcome ---------------------------------------------------------------------------------------------

    def preview(self, *_: object) -> None:
        """Say what merging would do."""
        if self._is_busy:
            return
        self.error.show_error(None)
        part = self._other.graph
        connected, feeding = self.connections(), self.feeding()
        taken = names_taken(self._graph)
        alike = [v.name for v in part.initializers if self._may_be_here(v) and v.name not in connected]
        passed = {*connected, *alike}
        clashes = [v.name for v in part.values() if v.name in taken and v.name not in passed]
        interface = {v.name for v in (*part.inputs, *part.outputs)}
        clashes.sort(key=lambda name: name not in interface)  # first what users of the model call by name
        lines = [
            f"Adds: {plural(len(part.nodes), 'node')}, {plural(len(part.initializers), 'initializer')}.",
            f"Inputs: {len(connected)} connected, {len(part.required_inputs) - len(connected):,} new.",
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
        for row in self.inputs.rows:
            if row.giver and not self._fits(self._giver(row), row):
                type_ = type_text(self.type_of(self._giver(row)))
                lines.append(
                    f"Their dimensions differ: {row.giver} is {type_}, {row.value.name} is {type_text(row.known)}."
                )
        if alike:
            shown = ", ".join(display(name, 30) for name in alike[:5])
            lines.append(f"Shared constants, added once: {shown}{' …' if alike[5:] else ''}")
        if clashes:
            shown = ", ".join(display(name, 30) for name in clashes[:5])
            how = f"the prefix {self.prefix.text()!r}" if self.prefix.text() else "a number"
            lines.append(f"Names in use, changed by {how}: {shown}{' …' if clashes[5:] else ''}")
        self.state.setText("\n".join(lines))

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

    def apply(self) -> None:
        """Merge as one edit."""
        graph, other, title = self._graph, self._other, self.windowTitle()
        wishes: dict[str, Any] = {"feeding": self.feeding(), "prefix": self.prefix.text()}
        wishes |= {"connections": self.connections(), "keep_outputs": self.keep.isChecked()}
        detail = self._unmerged_parts() if other.training_info else ""

        def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
            with copy.document.edit(title) as edit:
                nodes = merge(edit, copy.copy_of(graph), other, progress=progress, **wishes)
            steps = copy.steps()
            merged = f"{plural(len(nodes), 'node')} added"
            return EditOutcome(steps, merged, detail, places=[*map(copy.original, nodes)])

        self._edit(title, work)

    def _start_over(self, text: str) -> None:
        super()._start_over(text)
        self.preview()


class _InputModel(RowModel[_Row, Column]):
    """The inputs with their types; what feeds one is edited by its name."""

    chosen = Signal()

    def __init__(self, dialog: MergeDialog) -> None:
        super().__init__(_COLUMNS, dialog)
        self._dialog = dialog

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() == _FED_BY else flags

    def texts(self, row: _Row) -> tuple[str, str, str]:
        return row.value.name, type_text(row.known), f"{row.giver or 'nothing'}  ▾"

    def source(self, index: Index) -> str:
        """Return the name of what feeds an input."""
        return self.rows[index.row()].giver

    def write(self, index: Index, text: str) -> None:
        """Choose what feeds an input, by name."""
        if text and text not in self._dialog.givers():
            raise ModelError("There is no value of that name", "Choose one of the list.")
        self.rows[index.row()].giver = text
        self.dataChanged.emit(index, index)
        self.chosen.emit()

    def refresh(self) -> None:
        """Show types that have changed."""
        if self.rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, len(self.columns) - 1))
