"""Choice of the shown plane: an axis for rows, one for columns, and an index for each of the others."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QComboBox, QSpinBox, QWidget

from onnx_workbench.viewer.tensor_view.readers import TensorSlice, first_slice
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, clear_layout, labelled

_MOST = (1 << 31) - 1


class SliceBar(QWidget):
    """Boxes for a tensor of rank 3 and more; of rank 2 only the axes; nothing below."""

    changed = Signal(object)  # Slice: the user chose another

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = FlowLayout()
        self.setLayout(self._row)
        self._shape: tuple[int, ...] = ()
        self._slice = TensorSlice()
        self.spins: dict[int, QSpinBox] = {}
        self.axes: list[QComboBox] = []
        self._rebuild()

    @property
    def slice(self) -> TensorSlice:
        """Return the shown plane."""
        return self._slice

    def show_shape(self, shape: tuple[int, ...], which: TensorSlice | None = None) -> TensorSlice:
        """Set the shape whose planes can be chosen; the current plane stays if it is valid."""
        wanted = which or self._slice
        if not _fits(wanted, shape):
            wanted = first_slice(shape)
        same = shape == self._shape and (wanted.rows, wanted.columns) == (self._slice.rows, self._slice.columns)
        self._shape, self._slice = shape, wanted
        if same:
            self._show_positions()
            self.setVisible(len(shape) >= 2)
        else:
            self._rebuild()
        return wanted

    def set_slice(self, which: TensorSlice) -> None:
        """Show another plane, without a signal."""
        self.show_shape(self._shape, which)

    def show_whole(self, axis: int | None) -> None:
        """Hide the index of an axis of which the view shows all positions."""
        for other, spin in self.spins.items():
            spin.setVisible(other != axis)

    def _rebuild(self) -> None:
        clear_layout(self._row)
        self.spins, self.axes = {}, []
        which = self._slice
        if len(self._shape) >= 2:
            for word, chosen in (("Rows", which.rows), ("Columns", which.columns)):
                self._row.addWidget(labelled(word, self._axis_box(word, chosen)))
        for axis, size in enumerate(self._shape):
            if len(self._shape) >= 2 and size > 1 and axis not in (which.rows, which.columns):
                self._row.addWidget(self._spin(axis, size))
        self.setVisible(len(self._shape) >= 2)

    def _axis_box(self, word: str, chosen: int | None) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(f"Axis of the {word.lower()}")
        for axis, size in enumerate(self._shape):
            box.addItem(f"axis {axis}  ({size})", axis)
        box.setCurrentIndex(0 if chosen is None else chosen)
        box.activated.connect(self._on_axes)
        self.axes.append(box)
        return box

    def _spin(self, axis: int, size: int) -> QSpinBox:
        spin = QSpinBox()
        spin.setAccessibleName(f"Position along axis {axis}")
        spin.setRange(0, max(min(size - 1, _MOST), 0))
        spin.setPrefix(f"axis {axis}:  ")
        spin.setSuffix(f"  of {size}")
        spin.setWrapping(True)
        spin.setValue(self._slice.fixed[axis])
        spin.valueChanged.connect(self._on_position)
        self.spins[axis] = spin
        return spin

    def _show_positions(self) -> None:
        for axis, spin in self.spins.items():
            with QSignalBlocker(spin):
                spin.setValue(self._slice.fixed[axis])

    def _on_position(self) -> None:
        fixed = list(self._slice.fixed)
        for axis, spin in self.spins.items():
            fixed[axis] = spin.value()
        self._slice = TensorSlice(tuple(fixed), self._slice.rows, self._slice.columns)
        self.changed.emit(self._slice)

    def _on_axes(self) -> None:
        rows, columns = (box.currentData() for box in self.axes)
        if rows == columns:  # the other one gives way
            if rows != self._slice.rows:
                columns = self._slice.rows
            else:
                rows = self._slice.columns
        self._slice = TensorSlice(self._slice.fixed, rows, columns)
        focused = next((number for number, box in enumerate(self.axes) if box.hasFocus()), None)
        self._rebuild()
        if focused is not None:
            self.axes[focused].setFocus()
        self.changed.emit(self._slice)


def _fits(which: TensorSlice, shape: tuple[int, ...]) -> bool:
    if len(which.fixed) != len(shape) or any(i >= max(d, 1) for i, d in zip(which.fixed, shape, strict=True)):
        return False
    if len(shape) == 1:
        return which.wrap == first_slice(shape).wrap
    return not which.wrap and (len(shape) < 2 or (which.rows is not None and which.columns is not None))
