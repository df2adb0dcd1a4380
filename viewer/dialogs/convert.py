"""Convert dialog: opset, precision or dimension sizes, with a preview and an equivalence test, as one edit."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.exec.transform.convert import RENAMED, ConvertOptions, Trial, attempt, counted
from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.symbolic import is_name
from onnx_workbench.model.checks.models import NEWEST_IR_VERSION
from onnx_workbench.model.convert import OF_THE_MODEL, PARTS, PRECISIONS, inputs_of, symbols, symbols_of
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.preview import PreviewDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import without_mnemonic
from onnx_workbench.viewer.style.tooltips import plain_tip, wrapped
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.flow_layout import in_a_row
from onnx_workbench.viewer.widgets.scope_box import ScopeBox
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.equivalence import Equivalence

_DELAY_MS = 400
OLDEST_OPSET = 7
_OLDEST_IR = 3
_NAMED = {
    "nodes": ("Nodes", "by operator and number"),
    "unnamed": ("Unnamed nodes", "by operator and number, only nodes without a name"),
    "initializers": ("Initializers", "after the first node that uses them"),
    "values": ("Values", "after the node that makes them"),
}
_STRIPPED = {
    "doc": "Descriptions",
    "metadata": "Metadata",
    "traces": "Python traces",
    "producer": "Producer",
    "types": "Intermediate types",
    "inputs": "Unused inputs",
    "defaults": "Inputs with defaults",
}
_PlaceRole = Qt.ItemDataRole.UserRole


class ConvertDialog(PreviewDialog):
    """Converts a working copy and lists the changes; Convert compares outputs and makes it one edit of the document.

    Where the result cannot change, the dialog closes with the edit; else it stays to show the comparison. `opset` is
    the initial choice. With a `purpose`, of which conversion is the first step, it closes in any case, and a message
    reports the comparison.
    """

    converted = Signal()  #: and closed; not if the dialog was closed before

    def __init__(
        self, workspace: Workspace, parent: QWidget | None = None, *, opset: int | None = None, purpose: str = ""
    ) -> None:
        super().__init__(workspace, "Convert", parent)
        self.resize(560, 620)
        self._purpose = purpose
        self._trial: Trial | None = None
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.preview)
        layout = QVBoxLayout(self)
        self._make_form(self.form)
        layout.addWidget(self.form)
        self.state.setText("Choose what to convert.")
        self.list = QListWidget()
        self.list.setItemDelegate(WholeTextDelegate(self.list))
        self.list.setAccessibleName("Changes")
        self.list.setUniformItemSizes(True)
        self.list.itemActivated.connect(self._go)
        self.list.itemClicked.connect(self._go)
        layout.addWidget(self.state)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.error)
        layout.addWidget(self.bar)
        self._make_buttons()
        layout.addWidget(self.buttons)
        workspace.changes.changed.connect(self._on_change)
        if opset is not None:
            self.opset.setCurrentIndex(max(self.opset.findData(opset), 0))

    def keep_nodes(self, names: Iterable[str]) -> None:
        """Leave nodes of these names unchanged, and choose float16 for the others where no precision is chosen."""
        patterns = (glob.escape(name).replace(",", "?") for name in names)  # a comma is between two patterns
        self.keep.setText(", ".join(filter(None, (self.keep.text(), *patterns))))
        if self.precision.currentData() is None:
            self.precision.setCurrentIndex(self.precision.findData("float16"))
        self._on_choice()

    def _make_buttons(self) -> None:
        self.ok.setText(f"Convert and {self._purpose}".replace("&", "&&") if self._purpose else "Convert")
        self.ok.setEnabled(False)
        self.weights = self.buttons.addButton("&Weights…", QDialogButtonBox.ButtonRole.ActionRole)
        self.weights.setToolTip("Save with weights in data files or in the model")
        self.weights.clicked.connect(lambda: self.workspace.trigger("file.save_options"))
        without_icons(self.buttons.buttons())

    def _make_fields(self) -> None:
        self.scope = ScopeBox(self.workspace)
        self.opset = self._make_opset()
        self.precision = QComboBox()
        self.precision.addItem("unchanged", None)
        for name in PRECISIONS:
            self.precision.addItem(name, name)
        self.keep = QLineEdit()
        self.keep.setPlaceholderText("Softmax, */attention/*")
        self.keep.setToolTip(wrapped("Operators, or patterns of node names, that are left unchanged"))
        self.keep_interface = QCheckBox("Inputs and outputs keep their type")
        self.keep_interface.setChecked(True)
        self.freeze = QLineEdit()
        self.free = QLineEdit()
        self.free.setToolTip(
            wrapped("A name for the first dimension of all inputs and outputs, or INPUT:AXIS=NAME for one")
        )

    def _make_form(self, holder: QWidget) -> None:
        self._form = form = QFormLayout(holder)
        form.setContentsMargins(0, 0, 0, 0)
        self._make_fields()
        for title, field in (
            ("Con&vert:", self.scope),
            ("&Opset:", self.opset),
            ("&Precision:", self.precision),
            ("&Keep:", self.keep),
            ("", self.keep_interface),
            ("&Freeze dimensions:", self.freeze),
            ("Fr&ee dimensions:", self.free),
        ):
            form.addRow(title, field)
            field.setAccessibleName(without_mnemonic(title).rstrip(":") or self.keep_interface.text())
        self.more = QToolButton(autoRaise=True, arrowType=Qt.ArrowType.RightArrow)
        self.more.setText("&More")
        self.more.setCheckable(True)
        self.more.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.more.setToolTip("Clean-up, functions, names, order and IR version")
        self.more.toggled.connect(self._show_more)
        form.addRow(self.more)
        first = form.rowCount()
        form.addRow("Remove:", self._make_strip())
        self._add_functions_and_names(form)
        self._rare_rows = range(first, form.rowCount())
        self._show_more(shown=False)
        for combo in (self.opset, self.precision, self.functions, self.ir_version):
            combo.currentIndexChanged.connect(self._on_choice)
        for line in (self.keep, self.freeze, self.free):
            line.textEdited.connect(self._on_choice)
        self.keep_interface.toggled.connect(self._on_choice)
        self.scope.changed.connect(self._on_choice)
        self._enable()

    def _show_more(self, shown: bool) -> None:
        self.more.setArrowType(Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow)
        for row in self._rare_rows:
            self._form.setRowVisible(row, shown)

    def _suggest(self) -> None:
        """Set the hints of the dimension field, with symbols and an input of this model."""
        model, nodes = self.workspace.model, self.scope.nodes
        named = symbols(model) if nodes is None else symbols_of(nodes, model, self.workspace.types.type_of)
        sizes = ", ".join(f"{display(name, 30)}=1" for name in list(filter(is_name, named))[:3])
        self.freeze.setPlaceholderText(sizes or "no named dimensions")
        self.freeze.setEnabled(bool(named) or bool(self.freeze.text()))
        inputs = [display(value.name, 30) for value in inputs_of(model.graph, nodes)]
        self.free.setPlaceholderText(f"batch, or {inputs[0]}:0=batch" if inputs else "no inputs")

    def _make_opset(self) -> QComboBox:
        versions = QComboBox()
        model = self.workspace.model
        current = model.opset_imports.get("")
        versions.addItem(f"unchanged ({current})" if current else "unchanged", None)
        if current is not None:
            have = {current, *(function.opset_imports.get("", current) for function in model.functions)}
            for version in range(schemas.newest_opset(), OLDEST_OPSET - 1, -1):
                if have != {version}:  # functions may import another version than the model
                    versions.addItem(str(version), version)
        return versions

    def _make_strip(self) -> QWidget:
        self.strip = {part: self._box(_STRIPPED[part], PARTS[part]) for part in PARTS}
        return in_a_row(*self.strip.values(), is_left=True)

    def _add_functions_and_names(self, form: QFormLayout) -> None:
        model = self.workspace.model
        self.functions = QComboBox()
        self.functions.setToolTip(
            wrapped("Replace calls by the nodes of their functions, or repeated blocks by calls of a function")
        )
        for title, choice in (
            ("unchanged", None), ("inline calls", "inline"), ("repeated blocks become functions", "extract"),
        ):  # fmt: skip
            self.functions.addItem(title, choice)
        self.renamed = {what: self._box(*_NAMED[what]) for what in RENAMED}
        self.sort = self._box("Topologically", "each node after the nodes it depends on")
        self.ir_version = QComboBox()
        self.ir_version.setToolTip("The number in the file only; contents are not converted")
        self.ir_version.addItem(f"unchanged ({model.ir_version})", None)
        for version in range(NEWEST_IR_VERSION, _OLDEST_IR - 1, -1):
            if version != model.ir_version:
                self.ir_version.addItem(str(version), version)
        for title, field in (
            ("F&unctions:", self.functions),
            ("New names for:", in_a_row(*self.renamed.values(), is_left=True)),
            ("Sort:", self.sort),
            ("&IR version:", self.ir_version),
        ):
            form.addRow(title, field)
            field.setAccessibleName(without_mnemonic(title).rstrip(":"))

    def _box(self, title: str, tip: str) -> QCheckBox:
        box = QCheckBox(title)
        box.setToolTip(tip[0].upper() + tip[1:])
        box.toggled.connect(self._on_choice)
        return box

    # -- preview -------------------------------------------------------------------------------------------------

    def _on_choice(self, *_: object) -> None:
        self._enable()
        self._on_change()

    def _enable(self) -> None:
        for field in (self.keep, self.keep_interface):
            self._form.setRowVisible(field, self.precision.currentData() is not None)
        for whole in (self.ir_version, self.sort, *(self.strip[part] for part in OF_THE_MODEL)):
            whole.setEnabled(self.scope.nodes is None)
        self._suggest()

    def _on_change(self, *_: object) -> None:
        """Cancel the outdated preview; its result must not be shown."""
        if not self._is_done:
            if self._task is not None:
                self._task.cancel()
            self.ok.setEnabled(False)
            self._delay.start()

    def options(self) -> ConvertOptions:
        """Return what was chosen."""
        keep = [part.strip() for part in self.keep.text().split(",") if part.strip()]
        return ConvertOptions(
            opset=self.opset.currentData(),
            precision=self.precision.currentData(),
            keep=[*keep, *(["inputs-outputs"] if self.keep_interface.isChecked() else [])],
            freeze=[part.strip() for part in self.freeze.text().split(",") if part.strip()],
            free=[part.strip() for part in self.free.text().split(",") if part.strip()],
            strip=[part for part, box in self.strip.items() if box.isChecked() and box.isEnabledTo(self.form)],
            functions=self.functions.currentData(),
            rename=[what for what, box in self.renamed.items() if box.isChecked()],
            sort=self.sort.isChecked() and self.sort.isEnabledTo(self.form),
            ir_version=self.ir_version.currentData() if self.ir_version.isEnabledTo(self.form) else None,
        )

    def preview(self) -> None:
        """Convert a working copy in the background."""
        options = self.options()
        self.error.show_error(None)
        self.list.clear()
        self.form.setEnabled(True)
        if self._task is not None:
            self._task.cancel()
        self._trial = self._task = None
        if not options.converts_anything:
            self.bar.hide()
            self.state.setText("Choose what to convert.")
            return
        workspace, nodes = self.workspace, self.scope.nodes

        def convert(progress: Progress) -> tuple[Trial, int]:
            copy, revision = copy_model(workspace, progress)
            return attempt(copy, options, progress, nodes), revision

        self._start("Preparing the preview…", "Preparing the preview", convert, self._show, supersede="convert")

    def _ended(self) -> None:
        """If the user stopped it, restore the choices; if the dialog cancelled it, a new preview follows."""
        if not self._delay.isActive():
            super()._ended()

    def _show(self, tried: tuple[Trial, int]) -> None:
        trial, revision = tried
        if revision != self.workspace.document.revision:
            self.preview()
            return
        self._trial, self._revision = trial, revision
        reports, steps = trial.reports, trial.steps
        for report in reports:
            for remark in report.warnings:
                self._add(f"Warning: {remark.text}", remark.place)
            places = {remark.text: remark.place for remark in reversed(report.changes)}
            for text, count in report.summary():
                self._add(counted(text, count), places[text])
        warnings = sum(len(report.warnings) for report in reports)
        noted = f" · {plural(warnings, 'warning')}" if warnings else ""
        self.state.setText((f"{plural(len(steps), 'change')} to the model{noted}") if steps else "Nothing changes.")
        self.ok.setEnabled(bool(steps))

    def _add(self, text: str, place: object) -> None:
        item = QListWidgetItem(display(text, 300, elide="end"))
        item.setToolTip(plain_tip(display(text, 1000)))
        item.setData(_PlaceRole, place)
        self.list.addItem(item)

    def _failed(self, error: BaseException) -> None:
        is_choice = self.form.isEnabled()  # which cannot be tried; it is locked while a conversion is applied
        super()._failed(error)
        if is_choice:
            self.state.setText("Cannot be converted.")
            self.ok.setEnabled(False)

    def _go(self, item: QListWidgetItem) -> None:
        place = item.data(_PlaceRole)
        is_object = isinstance(place, (Node, Value, Graph, Function, Model))
        if is_object and getattr(place, "graph", None) is not None:
            with self.scope.display_only():
                self.workspace.navigation.reveal(place)

    # -- doing it ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply the previewed conversion as one edit, if outputs agree; afterwards the button closes the dialog."""
        trial, self._trial = self._trial, None
        if self._is_done:
            self.accept()
        elif trial is None or self.workspace.document.revision != self._revision:
            self.preview()
        elif trial.before is None:
            self._change(self.title(), trial.steps, trial.recording, self._close_converted)
        else:
            self._lock(True)
            self._start(
                "Comparing outputs…",
                self.title(),
                lambda progress: trial.compare(progress=progress),
                lambda agreement: self._compared(trial, agreement),
                supersede="convert",
                makes="edit",
            )

    def _compared(self, trial: Trial, agreement: Equivalence) -> None:
        if self.workspace.document.revision != self._revision:
            self.preview()
            return
        text = display(str(agreement), 300)
        if trial.is_refused_by(agreement):
            self.form.setEnabled(True)
            self.state.setText(f"Nothing was changed, because after the conversion {text}.")
            return
        self._change(self.title(), trial.steps, trial.recording, lambda: self._show_agreement(text))

    def _close_converted(self) -> None:
        self.accept()
        self.converted.emit()

    def _show_agreement(self, text: str) -> None:
        if self._purpose:
            self.workspace.messages.show("info", self.title().replace("Convert", "Converted", 1), f"{text}.")
            self._close_converted()
            return
        self._show_done(f"Converted; {text}.")

    def title(self) -> str:
        """Return the title of the edit in the history."""
        options = self.options()
        parts = [
            f"opset {options.opset}" if options.opset else "",
            options.precision or "",
            ", ".join(options.freeze),
            ", ".join(f"any {text.rpartition('=')[2]}" for text in options.free),
            "without unused parts" if options.strip else "",
            {"inline": "inlined functions", "extract": "functions"}.get(options.functions or "", ""),
            "new names" if options.rename else "",
            "sorted nodes" if options.sort else "",
            f"IR version {options.ir_version}" if options.ir_version else "",
        ]
        nodes = self.scope.nodes
        what = "Convert" if nodes is None else f"Convert {plural(len(nodes), 'node')}"
        return f"{what} to " + ", ".join(part for part in parts if part)
