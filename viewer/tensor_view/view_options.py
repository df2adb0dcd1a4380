"""Display options of a tensor: plane, number format, colour range and channel order."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QCheckBox, QSpinBox, QWidget

from onnx_workbench.viewer.tensor_view.pictures import CHANNEL_ORDERS, NORMALISATIONS, PictureRequest
from onnx_workbench.viewer.tensor_view.slicing import SliceBar
from onnx_workbench.viewer.tensor_view.small_widgets import add_choices, combo
from onnx_workbench.viewer.tensor_view.tensor_model import FORMATS
from onnx_workbench.viewer.tensor_view.view_kinds import View
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout


class ViewOptions(QWidget):
    """The bar above a view; shows the options that apply to it."""

    option_changed = Signal()  # the user changed an option
    weight_chosen = Signal(int, int)  # query and key of an attention
    format_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slices = SliceBar()
        self.same_range = QCheckBox("Same range")
        self.same_range.setChecked(True)
        self.same_range.setToolTip("Colour all planes by one range; else each by its own")
        self.same_range.toggled.connect(lambda _: self.option_changed.emit())
        self.log = QCheckBox("Logarithmic")
        self.log.setAccessibleName("Logarithmic lines")
        self.log.setToolTip("Draw the logarithms of positive values")
        self.page = QSpinBox()
        self.page.setAccessibleName("Page")
        self.page.setPrefix("page ")
        self.page.setKeyboardTracking(False)
        self.page.valueChanged.connect(lambda _: self.option_changed.emit())
        self.head = _number_box("Head", -1, self.option_changed.emit)
        self.head.setSpecialValueText("all heads")
        self.query = _number_box("Query", 0, self._choose_weight)
        self.key = _number_box("Key", 0, self._choose_weight)
        self.order_box = combo("Channels", lambda _: self.option_changed.emit())
        add_choices(self.order_box, CHANNEL_ORDERS)
        self.range_box = combo("Range of the values", lambda _: self.option_changed.emit())
        add_choices(self.range_box, NORMALISATIONS)
        self.format_box = combo("Number format", lambda _: self.format_chosen.emit(self.format_box.currentData()))
        add_choices(self.format_box, FORMATS)
        self._row = FlowLayout(8)
        self.setLayout(self._row)
        self._row.setContentsMargins(8, 0, 6, 3)
        option: QWidget
        for option in (
            self.slices,
            self.page,
            self.head,
            self.query,
            self.key,
            self.log,
            self.same_range,
            self.order_box,
            self.range_box,
            self.format_box,
        ):
            self._row.addWidget(option)
        self.show_pages(1)
        self.show_heads(None)

    def _choose_weight(self) -> None:
        self.weight_chosen.emit(self.query.value(), self.key.value())

    def add(self, widget: QWidget) -> None:
        """Append a widget, which shows itself where it is needed."""
        self._row.addWidget(widget)

    def show_for(self, view: View | None, *, numbers: bool) -> None:
        """Show the options for a view; `numbers`: the values are numeric."""
        self.format_box.setVisible(view == "Table" and numbers)
        self.same_range.setVisible(view == "Feature maps")
        if view != "Feature maps":
            self.show_pages(1)
        self.log.setVisible(view == "Lines" and numbers)
        self.order_box.setVisible(view == "Image")
        self.range_box.setVisible(view == "Image")

    def show_pages(self, count: int) -> None:
        """Set the number of pages."""
        with QSignalBlocker(self.page):
            self.page.setRange(1, count)
        self.page.setSuffix(f" of {count:,}")
        self.page.setVisible(count > 1)

    def show_heads(self, counts: tuple[int, int, int] | None) -> None:
        """Set the number of heads of an attention, and of queries and keys of the head that is shown alone."""
        head, query, key = self.head, self.query, self.key
        for box, count in zip((head, query, key), counts or (0, 0, 0), strict=True):
            with QSignalBlocker(box):
                box.setMaximum(max(count - 1, box.minimum()))
        head.setVisible(counts is not None and counts[0] > 0)
        is_lone = head.isVisibleTo(self) and head.value() >= 0
        query.setVisible(is_lone)
        key.setVisible(is_lone)

    def copy_from(self, other: ViewOptions) -> None:
        """Copy the options of another bar."""
        self.same_range.setChecked(other.same_range.isChecked())
        self.log.setChecked(other.log.isChecked())
        for ours, theirs in ((self.order_box, other.order_box), (self.range_box, other.range_box)):
            ours.setCurrentIndex(theirs.currentIndex())
        self.format_box.setCurrentIndex(other.format_box.currentIndex())
        self.format_chosen.emit(self.format_box.currentData())

    def request(self, *, differences: bool) -> PictureRequest:
        """Return the options for images."""
        is_lone = self.head.isVisibleTo(self) and self.head.value() >= 0
        return PictureRequest(
            plane=self.head.value() if is_lone else None,
            page=self.page.value() - 1,
            same_range=self.same_range.isChecked(),
            order=self.order_box.currentData(),
            normalisation=self.range_box.currentData(),
            differences=differences,
        )


def _number_box(name: str, least: int, changed: Callable[[], object]) -> QSpinBox:
    box = QSpinBox()
    box.setAccessibleName(name)
    box.setPrefix(f"{name.lower()} ")
    box.setKeyboardTracking(False)
    box.setMinimum(least)
    box.setValue(least)
    box.valueChanged.connect(lambda _: changed())
    return box
