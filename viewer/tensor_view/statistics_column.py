"""Statistics over all elements, and their histogram: the column at the left of the panel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import hypot, sqrt
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QCheckBox, QFrame, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from onnx_workbench.exec.inspect.distribution import PERCENTILES, Distribution, distribution
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.plots.histogram import Histogram
from onnx_workbench.viewer.plots.plot import load_pyqtgraph
from onnx_workbench.viewer.style.theme import monospace, themes
from onnx_workbench.viewer.tensor_view.readers import Reader, SparseReader
from onnx_workbench.viewer.widgets.plain_label import plain_label

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from onnx_workbench.exec.values.statistics import Statistics
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.tasks.tasks import TaskRunner

Rows = list[tuple[str, str, tuple[int, ...] | None]]

_SLOW = 300  # ms after which outdated numbers are removed while newer ones are computed


class StatisticsPane(QScrollArea):
    """Statistics as name and value; a click on a position shows the element."""

    element_wanted = Signal(object)  # index

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAccessibleName("Statistics")
        inner = QWidget()
        self.histogram = Histogram()
        self.logarithmic = QCheckBox("Logarithmic")
        self.logarithmic.setToolTip("Show the logarithms of the counts")
        self.logarithmic.toggled.connect(self.histogram.set_logarithmic)
        self._reader: Reader | None = None  # of the shown statistics, or those being computed
        self._shown: Hashable = None  # the subject of the visible numbers
        self._slow = QTimer(self, singleShot=True, interval=_SLOW)
        self._slow.timeout.connect(lambda: self._blank("Counting…"))
        self._note = plain_label()
        self._note.setObjectName("note")
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(10)
        self._grid.setVerticalSpacing(1)
        self._grid.setColumnStretch(1, 1)
        column = QVBoxLayout(inner)
        column.setContentsMargins(8, 6, 8, 6)
        column.setSpacing(4)
        column.addWidget(self.histogram)
        column.addWidget(self.logarithmic)
        column.addLayout(self._grid)
        column.addWidget(self._note)
        column.addStretch(1)
        self.setWidget(inner)
        self.setMinimumWidth(150)
        self.rows: Rows = []
        self._lines: list[_Line] = []  # created once: doing so for each update takes longer than a frame
        themes().themeChanged.connect(self._color_links)

    def _color_links(self) -> None:
        rows = self.rows
        self._show_rows([])
        self._show_rows(rows)

    @property
    def note(self) -> str:
        """Return the text below the numbers, or in their place."""
        return self._note.text()

    def count(self, reader: Reader, tasks: TaskRunner, of: Hashable) -> None:
        """Compute the statistics in a task, and show them; outdated numbers `of` the same subject stay till then."""
        if of == self._shown:
            self._slow.start()
        else:
            self._blank("Counting…")
        self._reader, self._shown = reader, of

        def done(found: Distribution) -> None:
            if self._reader is reader:
                self.show_distribution(found, strings=reader.element_type is ElementType.STRING)
                if isinstance(reader, SparseReader):
                    self.add_note(
                        "The histogram and the percentiles are of the stored entries, without the other zeros."
                    )

        def failed(error: BaseException) -> None:
            if self._reader is reader and isinstance(error, ModelError):
                self.clear(error.detail)

        def finished() -> None:
            if self._reader is reader and task.cancelled:
                self.clear("Stopped. Select the value again to compute its statistics.")

        task = tasks.start(
            "Computing statistics", partial(counted, reader),
            done=done, failed=failed, finished=finished, lane="count", supersede=f"tensor {id(self)} count",
        )  # fmt: skip

    def clear(self, note: str = "") -> None:
        self._reader = self._shown = None
        self._blank(note)

    def _blank(self, note: str) -> None:
        self._slow.stop()
        self._show_rows([])
        self._set_note(note)
        self.histogram.hide()
        self.logarithmic.hide()

    def show_distribution(self, found: Distribution, *, strings: bool = False) -> None:
        """Show the result."""
        self._slow.stop()
        self.histogram.setVisible(bool(found.counts))
        self.logarithmic.setVisible(bool(found.counts))
        self.histogram.show_counts(found.counts, found.edges)
        self._show_rows(rows_of(found, strings=strings))
        note = ""
        if found.sampled:
            note = f"Percentiles, distinct values and histogram are of {number_text(found.sampled)} sampled elements."
        self._set_note(note)

    def add_note(self, text: str) -> None:
        """Add a remark below the numbers."""
        self._set_note(" ".join(part for part in (self.note, text) if part))

    def _set_note(self, note: str) -> None:
        self._note.setText(note)
        self._note.setVisible(bool(note))

    def _show_rows(self, rows: Rows) -> None:
        self.rows = rows
        while len(self._lines) < len(rows):
            self._lines.append(_Line(self._grid, 2 * len(self._lines), self.element_wanted.emit))
        for line, row in zip_longest(self._lines, rows):
            line.show_row(row)


class _Line:
    """The labels of one number: name, value, and below that its position."""

    def __init__(self, grid: QGridLayout, index: int, go: Callable[[tuple[int, ...]], None]) -> None:
        self._name, self._value, self._where = (plain_label(wraps=False) for _ in range(3))
        self._index: tuple[int, ...] = ()
        self._name.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._value.setFont(monospace())
        self._value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._where.setTextFormat(Qt.TextFormat.RichText)
        self._where.setFont(monospace())
        self._where.setToolTip("Show this element")
        self._where.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self._where.linkActivated.connect(lambda _link: go(self._index))
        self._where.setIndent(12)
        grid.addWidget(self._name, index, 0)
        grid.addWidget(self._value, index, 1)
        grid.addWidget(self._where, index + 1, 0, 1, 2)  # an index of many axes needs the whole width

    def show_row(self, row: tuple[str, str, tuple[int, ...] | None] | None) -> None:
        """Show this, or nothing."""
        name, text, index = row or ("", "", None)
        self._index = index or ()
        where = str(list(self._index)) if index else ""
        _set_label(self._name, name, name)
        _set_label(self._value, text, f"{name}: {text}")
        _set_label(self._where, f'at <a href="#">{where}</a>' if where else "", f"{name} is at {where}")


def _set_label(label: QLabel, text: str, accessible: str) -> None:
    """Set a label's text and accessible name; an empty one takes no room."""
    if accessible != label.accessibleName():
        label.setText(text)
        label.setAccessibleName(accessible)
    label.setVisible(bool(text))


def rows_of(found: Distribution, *, strings: bool = False) -> Rows:
    """Return names, values and positions."""
    statistics = found.statistics
    rows: Rows = []
    if statistics.minimum is not None and statistics.maximum is not None:
        rows.append(("min", number_text(statistics.minimum), statistics.minimum_index))
        rows.append(("max", number_text(statistics.maximum), statistics.maximum_index))
        rows.append(("mean", number_text(statistics.mean or 0.0), None))
        rows.append(("std", number_text(statistics.deviation or 0.0), None))
    rows.extend(_counts(statistics, strings=strings))
    if found.distinct is not None:
        text = number_text(found.distinct)
        rows.append(("distinct", f"at least {text}" if found.sampled else text, None))
    for percent, value in zip(PERCENTILES, found.percentiles, strict=False):
        rows.append(("median" if percent == 50 else f"{percent} %", number_text(value), None))
    return rows


def _counts(statistics: Statistics, *, strings: bool) -> Rows:
    share = f" ({statistics.zeros / statistics.size:.1%})" if statistics.size and statistics.zeros else ""
    rows: Rows = [("empty" if strings else "zeros", number_text(statistics.zeros) + share, None)]
    for name, count in (
        ("NaN", statistics.nan), ("inf", statistics.positive_infinity), ("−inf", statistics.negative_infinity),
    ):  # fmt: skip
        if count:
            rows.append((name, number_text(count), None))
    return rows


def counted(reader: Reader, progress: Progress) -> Distribution:
    """Return the distribution of all elements; the bars and percentiles of a sparse tensor are of its entries alone."""
    load_pyqtgraph()  # here rather than when the histogram is first shown, on the GUI thread
    if not isinstance(reader, SparseReader):
        return distribution(reader.flat, reader.shape, reader.size, progress)
    positions, values = reader.entries()
    entries = distribution(lambda start, stop: values[start:stop], (len(values),), len(values), progress)
    statistics = _with_zeros(entries.statistics, reader, positions)
    more = statistics.zeros > 0 and not entries.statistics.zeros
    return replace(
        entries, statistics=statistics, distinct=None if entries.distinct is None else entries.distinct + more
    )


def _with_zeros(entries: Statistics, reader: SparseReader, positions: NDArray[np.int64]) -> Statistics:
    """Return the statistics of a sparse tensor from those of its entries."""

    def index(position: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(position, reader.shape))

    added = reader.size - entries.size
    whole = replace(
        entries,
        size=reader.size,
        zeros=entries.zeros + added,
        minimum_index=index(int(positions[entries.minimum_index[0]])) if entries.minimum_index else (),
        maximum_index=index(int(positions[entries.maximum_index[0]])) if entries.maximum_index else (),
    )
    if not added or reader.element_type is ElementType.STRING or reader.element_type.is_complex:
        return whole
    first_zero = index(int(np.argmax(np.append(positions, -1) != np.arange(len(positions) + 1))))
    finite = entries.size - entries.non_finite
    if entries.minimum is None or entries.maximum is None or entries.mean is None or entries.deviation is None:
        zero = 0.0 if reader.element_type.is_float else 0
        return replace(
            whole,
            minimum=zero,
            minimum_index=first_zero,
            maximum=zero,
            maximum_index=first_zero,
            mean=0.0,
            deviation=0.0,
        )
    if entries.minimum > 0:
        whole = replace(whole, minimum=type(entries.minimum)(0), minimum_index=first_zero)
    if entries.maximum < 0:
        whole = replace(whole, maximum=type(entries.maximum)(0), maximum_index=first_zero)
    share = finite / (finite + added)
    return replace(
        whole,
        mean=entries.mean * share,
        deviation=hypot(entries.deviation, entries.mean * sqrt(1 - share)) * sqrt(share),
    )
