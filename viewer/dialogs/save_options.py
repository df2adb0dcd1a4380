"""Save dialog with options: file, format, and where the weights go, each explained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.scan import MESSAGE_LIMIT
from onnx_workbench.model.io.reader.sniff import FileForm
from onnx_workbench.model.io.writer.storage_plan import UNMOVED, DataLayout, Storage, may_be_external
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import bytes_text, plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.files.save import Save, SaveOptions
from onnx_workbench.viewer.popups.file_dialogs import ask_save_model
from onnx_workbench.viewer.program.settings import Settings
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.plain_label import plain_label

_FORMS: tuple[tuple[str, FileForm | None, str], ...] = (
    ("From the file name", None, "by its extension"),
    ("ONNX (binary)", FileForm.BINARY, ".onnx"),
    ("ONNX text", FileForm.ONNX_TEXT, ".onnxtxt"),
    ("Protocol buffer text", FileForm.PROTOBUF_TEXT, ".textproto"),
    ("Protocol buffer JSON", FileForm.JSON, ".json"),
)
_LAYOUTS: tuple[tuple[str, DataLayout, str], ...] = (
    (
        "Unchanged",
        DataLayout.KEEP,
        "Each tensor stays in the model or in its data file.",
    ),
    ("All in the model", DataLayout.INLINE, "One file holds everything. Other programs read at most 2 GiB of it."),
    ("In one data file beside it", DataLayout.ONE_FILE, "The model stays small; both files must be kept together."),
    (
        "One data file per tensor",
        DataLayout.FILE_PER_TENSOR,
        "Each large tensor can be replaced separately, but there are many files.",
    ),
)


class _Size(NamedTuple):
    """Bytes of a tensor, and whether it may go to a data file."""

    nbytes: int
    may_move: bool


class Begin(Protocol):
    """Starts a save."""

    def __call__(
        self, options: SaveOptions, *, prepared: Callable[[], object], refused: Callable[[ModelError], object]
    ) -> Save:
        """Start a save; one of `prepared` and `refused` is called unless it is cancelled."""


class SaveOptionsDialog(QDialog):
    """`save` gets the options and may refuse them; the error is shown here. Closes when they are accepted."""

    def __init__(
        self,
        window: QWidget,
        settings: Settings,
        workspace: Workspace,
        suggestion: Path,
        save: Begin,
        *,
        copy: bool = False,
        selected: Collection[Tensor] = (),
    ) -> None:
        super().__init__(window)
        self.setWindowTitle("Save with options")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumWidth(560)
        self._settings = settings
        self._save = save
        self._workspace = workspace
        self._sizes: list[_Size] | None = None  # of all weights; None while they are counted
        self._counting = ModelReader(self)
        self._selected = frozenset(selected)
        self._running: Save | None = None
        self.path = QLineEdit(str(suggestion))
        self.path.setAccessibleName("File")
        self._make_choices()
        self.copy = QCheckBox("Save a copy and keep working on the file that is open")
        self.copy.setChecked(copy)
        self._make_explanation()
        self.error = ErrorLabel()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel)
        without_icons(self.buttons.buttons())
        self.buttons.accepted.connect(self.try_save)
        self.buttons.rejected.connect(self.reject)
        self.rejected.connect(self._stop)
        self._lay_out()
        self.layout_choice.currentIndexChanged.connect(self._explain)
        self.scope.currentIndexChanged.connect(self._explain)
        self.threshold.valueChanged.connect(self._explain)
        workspace.changes.changed.connect(self._count)
        self._count()

    def _count(self) -> None:
        model = self._workspace.model
        self._sizes = None
        self._explain()
        self._counting.start(partial(_sizes, model), self._use_sizes)

    def _use_sizes(self, sizes: list[_Size]) -> None:
        self._sizes = sizes
        self._explain()

    def _make_explanation(self) -> None:
        self.explanation = plain_label()
        self.explanation.setMinimumHeight(3 * self.fontMetrics().height())
        self.explanation.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.explanation.setForegroundRole(self.palette().ColorRole.PlaceholderText)

    def _make_choices(self) -> None:
        self.form = QComboBox()
        self.form.setAccessibleName("File format")
        for title, form_kind, extension in _FORMS:
            self.form.addItem(title if form_kind is None else f"{title} ({extension})", form_kind)
        self.layout_choice = QComboBox()
        self.layout_choice.setAccessibleName("Location of the weights")
        for title, layout, _ in _LAYOUTS:
            self.layout_choice.addItem(title, layout)
        self.scope = QComboBox()
        self.scope.setAccessibleName("Tensors to move")
        self.scope.addItems(["the whole model", f"the selection ({plural(len(self._selected), 'tensor')})"])
        self.scope.setEnabled(bool(self._selected))
        self.threshold = QSpinBox()
        self.threshold.setAccessibleName("Smallest tensor to move to a data file")
        self.threshold.setRange(0, 1 << 30)
        self.threshold.setValue(UNMOVED.threshold)
        self.threshold.setSuffix(" bytes or more")

    def _lay_out(self) -> None:
        browse = QPushButton("Browse…")
        browse.clicked.connect(self._browse)
        file = QHBoxLayout()
        file.addWidget(self.path, 1)
        file.addWidget(browse)
        form = QFormLayout()
        form.addRow("File:", file)
        form.addRow("File format:", self.form)
        form.addRow("Weights:", self.layout_choice)
        form.addRow("Tensors:", self.scope)
        form.addRow("Minimum size:", self.threshold)
        form.addRow("", self.explanation)
        form.addRow("", self.copy)
        self._choices = QWidget()
        form.setContentsMargins(0, 0, 0, 0)
        self._choices.setLayout(form)
        layout = QVBoxLayout(self)
        layout.addWidget(self._choices)
        layout.addWidget(self.error)
        layout.addWidget(self.buttons)

    def _browse(self) -> None:
        path = ask_save_model(self, self._settings, Path(self.path.text()))
        if path is not None:
            self.path.setText(str(path))

    def _explain(self, *_: object) -> None:
        index = self.layout_choice.currentIndex()
        layout, text = _LAYOUTS[index][1:]
        outside = layout in (DataLayout.ONE_FILE, DataLayout.FILE_PER_TENSOR)
        self.threshold.setEnabled(outside)
        self.scope.setEnabled(bool(self._selected) and layout is not DataLayout.KEEP)
        among = self.among()
        sizes = self._sizes if among is None else [_size(tensor) for tensor in among]
        if sizes is None:
            self.explanation.setText(f"{text}\nCounting the tensors…")
            return
        total = sum(size.nbytes for size in sizes)
        sizes_text = f"{plural(len(sizes), 'tensor')}, {bytes_text(total)}."
        if outside:
            moved = [size.nbytes for size in sizes if size.may_move and size.nbytes >= self.threshold.value()]
            sizes_text = f"To data files: {plural(len(moved), 'tensor')}, {bytes_text(sum(moved))}."
        elif layout is DataLayout.INLINE and total > MESSAGE_LIMIT:
            sizes_text += " This is too large for one file."
        self.explanation.setText(f"{text}\n{sizes_text}")

    def among(self) -> frozenset[Tensor] | None:
        """Return the tensors that the storage option applies to; None: all."""
        is_part = self.scope.isEnabled() and self.scope.currentIndex() == 1
        return self._selected if is_part else None

    def options(self) -> SaveOptions:
        """Return the chosen options; ModelError without a file name."""
        text = self.path.text().strip()
        if not text:
            raise ModelError("Write a file name", "The model is saved under it.")
        return SaveOptions(
            Path(text).expanduser().absolute(),
            self.form.currentData(),
            Storage(self.layout_choice.currentData(), self.threshold.value(), self.among()),
            self.copy.isChecked(),
        )

    def try_save(self) -> None:
        """Start the save; the dialog stays open with the error if it is refused."""
        try:
            options = self.options()
        except ModelError as error:
            self.error.show_error(error)
            return
        self._set_preparing(True)
        self._running = self._save(options, prepared=self.accept, refused=self._on_refused)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def _on_refused(self, error: ModelError) -> None:
        self._set_preparing(False)
        self.error.show_error(error)

    def _set_preparing(self, preparing: bool) -> None:
        self._choices.setEnabled(not preparing)
        self.buttons.button(QDialogButtonBox.StandardButton.Save).setEnabled(not preparing)


def _size(tensor: Tensor) -> _Size:
    return _Size(tensor.nbytes, may_be_external(tensor))


def _sizes(model: Model, progress: Progress) -> list[_Size]:
    sizes: list[_Size] = []
    for weight in _weights(model, progress):
        tensors = (weight.values, weight.indices) if isinstance(weight, SparseTensor) else (weight,)
        sizes.extend(_size(tensor) for tensor in tensors)
    return sizes


def _weights(model: Model, progress: Progress) -> Iterator[Tensor | SparseTensor]:
    """Return initializers and values of Constants; tensors in other attributes are too rare to read all for them."""
    for graph in model.graphs():
        for value in graph.initializers:
            progress.check()
            if value.initializer is not None:
                yield value.initializer
        for node in graph.nodes:
            progress.check()
            if node.op_type == "Constant":
                values = (attribute.value for attribute in node.attributes.values())
                yield from (value for value in values if isinstance(value, (Tensor, SparseTensor)))
