"""Dialog that imports weights from a file: what matches by name, how it differs, then one edit."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.shared.dtypes import cast
from onnx_workbench.model.edits.initializers import set_tensor
from onnx_workbench.model.edits.weight_matching import (
    WeightMatch,
    WeightMatches,
    match_weights,
    read_all_weights,
    read_weights,
)
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.weight_files import WeightFile
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, number_text, plural, shape_text
from onnx_workbench.viewer.dialogs.preview import PreviewDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tables.row_model import Column, Index, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.widgets.plain_label import plain_label

_COLUMNS = (
    Column("Initializer"),
    Column("In the file"),
    Column("Shape", 14),
    Column("Fit", 22),
    Column("Largest |Δ|", 14, "The largest change of an element"),
)


class WeightModel(RowModel[WeightMatch, Column]):
    """The initializers that the file has arrays for; `differences` are filled in as they are computed."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(_COLUMNS, parent)
        self.differences: dict[WeightMatch, float] = {}

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole and not self.rows[index.row()].can_import:
            return theme().muted
        return super().data(index, role)

    def texts(self, row: WeightMatch) -> tuple[str, ...]:
        difference = self.differences.get(row)
        return (
            row.value.name,
            row.array.name,
            shape_text(tuple(row.old.shape)),
            fit_text(row),
            "" if difference is None else "equal" if not difference else number_text(difference, 5),
        )


def fit_text(match: WeightMatch) -> str:
    """Describe how an array goes with its initializer; empty where it fits as it is."""
    match match.fit:
        case "fits":
            return ""
        case "transposed":
            return "will be transposed"
        case "other shape":
            return f"the file has {shape_text(match.array.shape)}"
        case "other type":
            return f"the file has {match.array.type_name}"
    return match.array.problem or "cannot be read"


class ImportWeightsDialog(PreviewDialog):
    """Lists the matches, compares them in the background, and replaces the initializers when accepted."""

    def __init__(self, workspace: Workspace, weights: WeightFile, parent: QWidget) -> None:
        super().__init__(workspace, f"Import Weights from {display(weights.path.name, 60)}", parent)
        self.resize(860, 520)
        self._weights = weights
        self._found: WeightMatches = match_weights(workspace.model, weights.arrays)
        self.model = WeightModel(self)
        self.table = RowTable(self.model, "Weights")
        self.table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.table.set_widths(_COLUMNS)
        self.summary = plain_label()
        self.differing = QCheckBox("Show only what &differs")
        layout = QVBoxLayout(self)
        for part in (self.summary, self.table, self.differing, self.state, self.error, self.bar, self.buttons):
            layout.addWidget(part)
        self.differing.toggled.connect(lambda _on: self._show())
        self.table.activated.connect(lambda index: workspace.navigation.reveal(self.model.rows[index.row()].value))
        self.preview()

    @property
    def _importable(self) -> list[WeightMatch]:
        return [match for match in self._found.matches if match.can_import]

    def _show(self) -> None:
        known, found = self.model.differences, self._found
        rows = [m for m in found.matches if not self.differing.isChecked() or known.get(m, 1.0) != 0]
        self.model.set_rows(rows)
        count = len(self._importable)
        replaced, unused = plural(count, "initializer"), plural(len(found.unused), "array")
        misfits, missing = f"{len(found.matches) - count:,}", f"{len(found.missing):,}"
        self.summary.setText(
            f"To be replaced: {replaced}, of another shape or type: {misfits}, not in the file: {missing}, "
            f"not used of the file: {unused}."
        )
        self.ok.setText(f"Import {plural(count, 'tensor')}")
        self.ok.setEnabled(bool(count))  # without waiting for the comparison

    def preview(self) -> None:
        """Compare the arrays of the file with the initializers."""
        matches, weights = self._importable, self._weights

        def work(progress: Progress) -> dict[WeightMatch, float]:
            differences: dict[WeightMatch, float] = {}
            for number, (match, tensor) in enumerate(read_weights(matches, weights, _cast)):
                progress.report(number, len(matches))
                differences[match] = largest_difference(match, tensor)
            return differences

        def done(found: dict[WeightMatch, float]) -> None:
            self.model.differences = found
            self.state.clear()
            self._show()

        self._start("Comparing weights…", "Comparing weights", work, done)
        self._show()

    def apply(self) -> None:
        """Read the arrays in the background, then replace the initializers in one edit and close."""
        workspace, weights, matches = self.workspace, self._weights, self._importable
        title = f"Import weights from {display(weights.path.name, 60)}"

        def work(progress: Progress) -> list[tuple[WeightMatch, Tensor]]:
            return read_all_weights(matches, weights, _cast, progress)

        def done(read: list[tuple[WeightMatch, Tensor]]) -> None:
            if any(match.value.initializer is not match.old for match in matches):
                self._failed(ModelError("The model has been edited in the meantime", "Import the file again."))
                return
            with workspace.document.edit(title) as edit:
                for match, tensor in read:
                    set_tensor(edit, match.value, tensor)
            workspace.messages.show("info", f"{plural(len(read), 'initializer')} replaced")
            self.accept()

        self._start("Reading the arrays…", title, work, done, lane="mutate", makes="edit")

    def _failed(self, error: BaseException) -> None:
        is_known = isinstance(error, ModelError)
        super()._failed(error if is_known else ModelError("The weights cannot be imported", str(error)))
        self.ok.setEnabled(bool(self._importable))


def largest_difference(match: WeightMatch, tensor: Tensor) -> float:
    """Return the largest change of an element; NaN where one of them is not a number. Reads both; any thread."""
    old = match.old
    if not isinstance(old, Tensor) or old.problem:
        return float("nan")
    largest = [0.0]
    with np.errstate(all="ignore"):
        for ours, theirs in zip(old.pieces(), tensor.pieces(), strict=True):
            if not np.array_equal(ours, theirs):
                largest.append(float(np.abs(theirs.astype(np.float64) - ours.astype(np.float64)).max()))
    return float(np.max(largest))


def _cast(array: np.ndarray[Any, Any], kind: ElementType) -> np.ndarray[Any, Any]:
    try:
        return cast(array, kind.numpy_dtype)
    except KernelError as error:
        raise ModelError(f"The values cannot become {kind.text}", str(error)) from error
