"""Numbers over all elements, and their histogram: the column at the left of the panel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from exec.inspection.distribution import PERCENTILES, Distribution, distribution
from model.errors import ModelError
from model.types import ElementType
from viewer.panels.tensor.readers import Reader, SparseReader
from viewer.text import number_text
from viewer.theme import monospace, themes
from viewer.widgets.plots.histogram import Histogram

if TYPE_CHECKING:
    from exec.inspection.statistics import Statistics
    from model.progress import Progress
    from viewer.jobs import Jobs

Rows = list[tuple[str, str, tuple[int, ...] | None]]


class Facts(QScrollArea):
    """Statistics as name and value; a position can be clicked to see the element."""

    element_wanted = Signal(object)  # index

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAccessibleName("Statistics")
        inner = QWidget()
        self.histogram = Histogram()
        self.logarithmic = QCheckBox("Logarithmic")
        self.logarithmic.setToolTip("Let bars be as tall as the logarithm of their count")
        self.logarithmic.toggled.connect(self.histogram.set_logarithmic)
        self._reader: Reader | None = None  # of what is shown, or being counted
        self._note = _label("")
        self._note.setObjectName("note")
        self._note.setWordWrap(True)
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
        self._colored: list[QLabel] = []
        themes().themeChanged.connect(self._color_links)

    def _color_links(self) -> None:
        """Links have the colour they were made with."""
        self._show_rows(self.rows)

    @property
    def note(self) -> str:
        """What stands below the numbers, or in their place."""
        return self._note.text()

    def count(self, reader: Reader, jobs: Jobs) -> None:
        """Go through all elements, in a job, and show what was found."""
        self.clear("Counting…")
        self._reader = reader

        def done(found: Distribution) -> None:
            if self._reader is reader:
                self.show_distribution(found, strings=reader.element_type is ElementType.STRING)
                if isinstance(reader, SparseReader):
                    self.add_note("All numbers but that of zeros are of the stored entries.")

        def failed(error: BaseException) -> None:
            if self._reader is reader and isinstance(error, ModelError):
                self.clear(error.detail)

        def finished() -> None:
            if self._reader is reader and job.cancelled:
                self.clear("This was stopped. The elements are counted when they are selected again.")

        job = jobs.start(
            "Statistics of a tensor", partial(counted, reader),
            done=done, failed=failed, finished=finished, lane="count", supersede=f"tensor {id(self)} count",
        )  # fmt: skip

    def clear(self, note: str = "") -> None:
        """Nothing is known, because of this."""
        self._reader = None
        self._show_rows([])
        self._tell(note)
        self.histogram.hide()
        self.logarithmic.hide()

    def show_distribution(self, found: Distribution, *, strings: bool = False) -> None:
        """Show what was found."""
        self.histogram.setVisible(bool(found.counts))
        self.logarithmic.setVisible(bool(found.counts))
        self.histogram.show_counts(found.counts, found.edges)
        self._show_rows(rows_of(found, strings=strings))
        note = ""
        if found.sampled:
            note = f"Percentiles, distinct values and histogram are of {number_text(found.sampled)} sampled elements."
        self._tell(note)

    def add_note(self, text: str) -> None:
        """One more remark below the numbers."""
        self._tell(" ".join(part for part in (self.note, text) if part))

    def _tell(self, note: str) -> None:
        self._note.setText(note)
        self._note.setVisible(bool(note))

    def _show_rows(self, rows: Rows) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self.rows = rows
        self._colored = []
        font = monospace()
        place = 0
        for name, text, index in rows:
            key, value = _label(name), _label(text)
            self._colored.append(key)
            value.setFont(font)
            value.setAccessibleName(f"{name}: {text}")
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._grid.addWidget(key, place, 0)
            self._grid.addWidget(value, place, 1)
            place += 1
            if index:
                where = _label(f'at <a href="#">{list(index)}</a>')
                where.setTextFormat(Qt.TextFormat.RichText)
                where.setFont(font)
                where.setToolTip("Show this element")
                where.setAccessibleName(f"{name} is at {list(index)}")
                where.setTextInteractionFlags(
                    Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
                )
                where.linkActivated.connect(lambda _link, i=index: self.element_wanted.emit(i))
                where.setIndent(12)
                self._grid.addWidget(where, place, 0, 1, 2)  # a place of many axes needs the whole width
                place += 1
        self._color()

    def _color(self) -> None:
        for label in self._colored:
            label.setForegroundRole(label.palette().ColorRole.PlaceholderText)


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def rows_of(found: Distribution, *, strings: bool = False) -> Rows:
    """Names, values and positions."""
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
    """The distribution of all elements; of a sparse tensor, of its entries, since the rest are zeros."""
    if not isinstance(reader, SparseReader):
        return distribution(reader.flat, reader.shape, reader.size, progress)
    positions, values = reader.entries()
    found = distribution(lambda start, stop: values[start:stop], (len(values),), len(values), progress)
    statistics = found.statistics

    def place(index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(int(positions[index[0]]), reader.shape)) if index else ()

    statistics = replace(
        statistics,
        size=reader.size,
        zeros=statistics.zeros + reader.size - len(values),
        minimum_index=place(statistics.minimum_index),
        maximum_index=place(statistics.maximum_index),
    )
    return replace(found, statistics=statistics)
