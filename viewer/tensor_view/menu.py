"""Menu of the shown tensor: editing, files, copying."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QBuffer
from PySide6.QtGui import QAction, QGuiApplication, QImage, QImageWriter
from PySide6.QtWidgets import QMenu, QWidget

from onnx_workbench.model.edits.tensor_expressions import HINT
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.array_files import npz_members
from onnx_workbench.model.io.writer.atomic_file import replacing
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.formatting import display, shape_text
from onnx_workbench.viewer.plots.focus import as_seen
from onnx_workbench.viewer.popups.file_dialogs import ask_file, ask_save
from onnx_workbench.viewer.tensor_view.editing import is_outside
from onnx_workbench.viewer.tensor_view.tensor_source import TensorSource
from onnx_workbench.viewer.tensor_view.value_tree import plane_text

if TYPE_CHECKING:
    from onnx_workbench.model.io.writer.targets import Kind
    from onnx_workbench.viewer.tensor_view.pane import TensorPane

_KINDS = tuple(kind for kind in ElementType if kind is not ElementType.UNDEFINED)
_EXPORTS = (
    "NumPy array (*.npy)", "NumPy archive (*.npz)", "ONNX tensor (*.pb)", "Raw bytes (*.raw)", "Table (*.csv)",
    "Picture (*.png)",
)  # fmt: skip


class TensorMenu(QMenu):
    """Context menu, rebuilt each time it opens."""

    def __init__(self, pane: TensorPane) -> None:
        super().__init__(pane)
        self._pane = pane
        self.aboutToShow.connect(self.build)

    def build(self) -> None:
        """Add the applicable entries."""
        self.clear()
        subject = self._pane.subject
        if subject is None:
            return
        self._build_editing(subject)
        if subject.kind in ("tensor", "sparse") and not subject.problem:
            self._add("E&xport…", self.ask_export, "To .npy, .npz, .pb, raw bytes, CSV or PNG")
        self.addSeparator()
        if subject.target.value is not None:
            trace = partial(self._pane.workspace.trigger, "run.trace_element")
            self._add("T&race Element", trace, "Which elements of its inputs reach it")
        self._add("&Copy Cells", self._pane.table.copy, "The selected cells; Ctrl+C in the table")
        self._add("Copy &as Text", self.copy_text, "The plane that is shown")
        if self._image() is not None:
            self._add("Copy P&icture", self.copy_picture, "In the displayed colours")
            self._add("Sa&ve Picture…", self.ask_save_picture, "In the displayed colours, to .png")
        if self._pane.stack.currentWidget() is self._pane.lines:
            self._add("Copy P&icture", self._pane.lines.copy_picture, "As displayed")
            self._add("Copy &Numbers", self._pane.lines.copy_numbers, "The lines as a table")
        if self._plot() is not None:
            self._add("Save Vie&w…", self.ask_save_view, "As displayed, with numbers and legend, to .png")
        if self._pane.facts.histogram.isVisible():
            self._add("Save Histo&gram…", self.ask_save_histogram, "As displayed, to .png")

    def _build_editing(self, subject: TensorSource) -> None:
        """Add the entries that change values of the model."""
        if not subject.editable or not isinstance(subject.held, (Tensor, SparseTensor)):
            return
        self._add("&Fill…", self.ask_fill)
        if subject.element_type is not ElementType.STRING:
            self._add("&Expression…", self.ask_expression, "x*0.5, clip(x, 0, 1), where(x < 0, 0, x)")
        self._add("Change &Shape…", self.ask_shape)
        types = self.addMenu("Change &Type")
        for kind in _KINDS:
            action = types.addAction(kind.text)
            action.setEnabled(kind != subject.element_type)
            action.triggered.connect(lambda _=False, k=kind: self.change_type(k))
        if isinstance(subject.held, Tensor):
            self._storage(subject.held)
        if isinstance(subject.held, SparseTensor):
            self._add("Make &Dense", self._pane.editing.make_dense)
        elif self._pane.editing.can_be_sparse():
            self._add("Make S&parse", self._pane.editing.make_sparse, "Stores no zeros")
        self.addSeparator()
        self._add("&Import…", self.ask_import, "From .npy, .npz, .pb, raw bytes, CSV or PNG")

    def _add(self, title: str, run: Any, tip: str = "") -> QAction:
        action = self.addAction(title)
        action.setToolTip(tip)
        action.triggered.connect(lambda _=False: run())
        return action

    def _storage(self, tensor: Tensor) -> None:
        if tensor.element_type is ElementType.STRING:
            return
        outside = is_outside(tensor)
        title = "Store in the &Model" if outside else "Store in a &Data File"
        self._add(title, lambda: self._pane.editing.store(external=not outside), "From the next save on")

    # -- asking ----------------------------------------------------------------------------------------------

    def _part(self) -> str:
        return "the selection" if self._pane.table.selected_regions() else "every element"

    def ask_fill(self, text: str = "") -> None:
        """Prompt for a value for the selected cells, or for all."""
        regions = self._pane.table.selected_regions()
        self._pane.ask.ask(
            f"Fill {self._part()} with", lambda t, refused: self._pane.editing.fill(regions, t, refused),
            text=text, hint="a value", verb="Fill",
        )  # fmt: skip

    def ask_expression(self) -> None:
        """Prompt for an expression for the selected cells, or for all."""
        regions = self._pane.table.selected_regions()
        self._pane.ask.ask(
            f"New value of {self._part()}:  x →", lambda t, refused: self._pane.editing.compute(regions, t, refused),
            hint="x*0.5   clip(x, 0, 1)   where(x < 0, 0, x)",
        )  # fmt: skip
        self._pane.ask.field.setToolTip(HINT)

    def ask_shape(self) -> None:
        """Prompt for another shape."""
        subject = self._pane.subject
        shape = shape_text(subject.shape) if subject is not None else ""
        self._pane.ask.ask(
            "New shape",
            self._pane.editing.reshape,
            text="" if shape == "scalar" else shape,
            hint="64×3×3; -1 is the remaining size",
        )

    def change_type(self, kind: ElementType) -> None:
        """Convert the element type, after a warning about loss."""
        ask = self._pane.ask
        self._pane.editing.retype(kind, lambda text, resume: ask.confirm(text, resume, "Change Type"))

    # -- files and clipboard ---------------------------------------------------------------------------------

    def ask_import(self) -> None:
        """Import values from a file."""
        filters = ("Tensors (*.npy *.npz *.pb *.raw *.bin *.csv *.png)", "All files (*)")
        path = ask_file(self._pane, self._pane.workspace.settings, "Import values", filters)
        if path is not None:
            self.import_file(path)

    def import_file(self, path: Path) -> None:
        """Import values from a file; prompts for one of several arrays of an archive."""
        pane = self._pane
        try:
            members = npz_members(path) if path.suffix.lower() == ".npz" else []
        except ModelError as error:
            pane.workspace.messages.report(error)
            return

        def confirm(text: str, resume: Callable[[], object]) -> None:
            pane.ask.confirm(text, resume, "Import")

        if len(members) < 2:
            pane.editing.import_file(path, "", confirm)
            return
        title = f"Array of {display(path.name, 40)}"
        likely = pane.subject.target.name if pane.subject is not None else ""
        pane.ask.ask_which(
            title, members, lambda member, refused: pane.editing.import_file(path, member, confirm, refused),
            text=likely, verb="Import",
        )  # fmt: skip

    def ask_export(self) -> None:
        """Export values to a file."""
        subject, workspace = self._pane.subject, self._pane.workspace
        if subject is None or subject.problem or subject.waiting:
            detail = "Select a value or an initializer that has numbers." if subject is None else subject.problem
            workspace.messages.show("info", "There is nothing to export", detail or "The value is being loaded.")
            return
        try:
            tensor = subject.tensor()
            path = self._ask_file("Export values", ".npy", _EXPORTS, "values")
            if path is not None:
                self._pane.editing.export(tensor, path, subject.target.location)
        except ModelError as error:
            workspace.messages.report(error)

    def _ask_file(self, title: str, suffix: str, filters: tuple[str, ...], kind: Kind) -> Path | None:
        """Ask for a file name, suggesting the tensor's."""
        pane = self._pane
        name = pane.subject.target.name if pane.subject is not None else ""
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:80] or "tensor"
        return ask_save(pane, pane.workspace.settings, title, Path(f"{safe}{suffix}"), filters, kind)

    def _image(self) -> QImage | None:
        """Return the shown image; None if something else is shown."""
        picture = self._pane.picture
        return None if self._pane.stack.currentWidget() is not picture or picture.image.isNull() else picture.image

    def _warn_no_picture(self, *others: str) -> None:
        views = ", ".join(("a heat map", "an image", "feature maps", *others))
        detail = f"Look at values as {views} or attention first."
        self._pane.workspace.messages.show("info", "There is no picture", detail)

    def copy_picture(self) -> None:
        """Copy the whole image, not only the visible part."""
        image = self._image()
        if image is None:
            self._warn_no_picture()
        else:
            QGuiApplication.clipboard().setImage(image)

    def ask_save_picture(self) -> None:
        """Save the complete image in its own resolution."""
        image = self._image()
        if image is None:
            self._warn_no_picture()
        else:
            self._ask_save(image)

    def _plot(self) -> QWidget | None:
        """Return the visible image or line plot; None if something else is shown."""
        pane = self._pane
        shown = pane.stack.currentWidget()
        return shown if self._image() is not None or shown is pane.lines else None

    def ask_save_view(self) -> None:
        """Save the visible part of an image or plot, with numbers and legend."""
        plot = self._plot()
        if plot is None:
            self._warn_no_picture("lines")
        else:
            self._ask_save(as_seen(plot))

    def ask_save_histogram(self) -> None:
        """Save the histogram shown next to the values."""
        histogram = self._pane.facts.histogram
        if histogram.isVisible():
            self._ask_save(as_seen(histogram))
        else:
            self._pane.workspace.messages.show(
                "info", "There is no histogram", "Select a value that has numbers first."
            )

    def _ask_save(self, image: QImage) -> None:
        messages = self._pane.workspace.messages
        path = self._ask_file("Save picture", ".png", ("Picture (*.png)",), "plot")
        if path is None:
            return
        data = QBuffer()
        if not QImageWriter(data, b"png").write(image):
            messages.show("error", "The picture was not written", "It is too large for a .png file.")
            return
        try:
            with replacing(path) as file:
                file.write(data.data().data())
        except ModelError as error:
            messages.report(error)
        else:
            messages.show("info", f"{display(path.name, 60)} was written", str(path))

    def copy_text(self) -> None:
        """Copy the shown plane as text."""
        subject, which = self._pane.subject, self._pane.slices.slice
        reader = self._pane.reader
        if subject is None or reader is None:
            detail = "Select a value or an initializer that has numbers."
            self._pane.workspace.messages.show("info", "There is nothing to copy", detail)
            return

        def done(text: str) -> None:
            QGuiApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))

        self._pane.workspace.tasks.start("Copying", lambda _: plane_text(reader, which), done=done)
