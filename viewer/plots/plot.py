"""A pyqtgraph plot in the colours of the theme: round ticks, zoom, pan, a cursor and a line of text below."""

from __future__ import annotations

from math import floor, log10
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.plots.focus import as_seen, paint_focus
from onnx_workbench.viewer.style.theme import monospace, theme, themes

_LARGE, _SMALL = 1e100, 1e-100  # beyond these, numbers are divided by a power of ten before Qt transforms them
_MOST_ZOOM = 1e6
_DRAG_DISTANCE = 4  # px that the mouse moves without meaning to drag
_KEYS_ZOOM = 0.8  # of the range that is left when + is pressed


def load_pyqtgraph() -> Any:
    """Import pyqtgraph, which takes 0.3 s: a task that makes data for a plot does it off the GUI thread."""
    import pyqtgraph  # type: ignore[import-untyped]  # it ships no types

    return pyqtgraph


def unit_of(low: float, high: float) -> float:
    """A power of ten by which to divide numbers of a range, so that sums and products of them stay finite; mostly 1."""
    most, span = max(abs(low), abs(high)), high / 2 - low / 2
    if most > _LARGE or 0 < span < _SMALL:
        return 10.0 ** max(floor(log10(most)), -323)
    return 1.0


class Plot(QWidget):
    """Base of plots: wheel zooms, dragging pans, double-click shows all; + − 0 do it from the keyboard.

    The pointer, or left and right, mark one of the points along the x axis; a click, or Enter, chooses it. The
    pyqtgraph widget is made when the first data is shown: its import takes 0.3 s. Subclasses draw into `area`, a
    pyqtgraph.PlotItem.
    """

    wheel_needs_control = False  # in something that scrolls by wheel

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.column = QVBoxLayout(self)
        self.column.setSpacing(0)
        self._view: Any = None
        self.units = (1.0, 1.0)  # by which numbers along x and y are divided before they are drawn
        self._all = (0.0, 1.0), (0.0, 1.0)
        self._pressed = QPointF()
        self._cursor: Any = None
        self.at: int | None = None  # the marked point
        self._fit_margins()
        themes().themeChanged.connect(self._on_theme)

    # -- to be overridden ------------------------------------------------------------------------------------

    def text_below(self) -> tuple[str, bool]:
        """Return the text below the plot, and whether it describes the data at the pointer."""
        return "", False

    def point_count(self) -> int:
        """The number of points that can be marked."""
        return 0

    def point_near(self, x: float) -> int:
        """The number of the point at a position on the x axis; may be out of range."""
        return round(x)

    def show_marker(self) -> None:
        """Show which point is marked."""

    def choose(self) -> None:
        """Choose the marked point."""

    def restyle(self) -> None:
        """Apply the colours of the theme."""

    def numbers(self) -> str:
        """The plotted data as lines of numbers with tabs between them, the first one the names of the columns."""
        return ""

    def left_texts(self, values: list[float], spacing: float) -> list[str]:
        """The numbers along the left axis."""
        return self.tick_texts(values, spacing, self.units[1])

    def bottom_texts(self, values: list[float], spacing: float) -> list[str]:
        """The numbers along the bottom axis."""
        return self.tick_texts(values, spacing, self.units[0])

    # -- the plot --------------------------------------------------------------------------------------------

    @property
    def area(self) -> Any:
        """The pyqtgraph.PlotItem."""
        return self.view.getPlotItem()

    @property
    def view(self) -> Any:
        """The pyqtgraph.PlotWidget."""
        if self._view is None:
            self._make()
        return self._view

    def _make(self) -> None:
        pg = load_pyqtgraph()
        self._view = view = pg.PlotWidget(self)
        view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        view.viewport().installEventFilter(self)
        area = view.getPlotItem()
        area.setMenuEnabled(False)
        area.hideButtons()
        for side in ("left", "bottom"):
            axis = area.getAxis(side)
            axis.enableAutoSIPrefix(False)
            axis.setStyle(tickLength=-4, tickFont=self.small_font(), maxTickLevel=0)
        area.getAxis("left").tickStrings = lambda values, _, spacing: self.left_texts(values, spacing)
        area.getAxis("bottom").tickStrings = lambda values, _, spacing: self.bottom_texts(values, spacing)
        self._cursor = pg.InfiniteLine(angle=90)
        self._cursor.setZValue(10)
        self._cursor.hide()
        area.addItem(self._cursor, ignoreBounds=True)
        self.column.addWidget(view)
        self._on_theme()

    def _on_theme(self) -> None:
        if self._view is not None:
            colors = theme()
            self._view.setBackground(colors.panel)
            for side in ("left", "bottom"):
                axis = self.area.getAxis(side)
                axis.setPen(QPen(colors.border, 1))
                axis.setTextPen(QPen(colors.muted, 1))
                axis.setTickPen(QPen(colors.border, 1))
            pen = QPen(colors.accent, 1, Qt.PenStyle.DashLine)
            pen.setCosmetic(True)
            self._cursor.setPen(pen)
            self.restyle()
        self.update()

    def name_axes(self, bottom: str, left: str) -> None:
        """Set the titles of the axes."""
        size = f"{self.small_font().pointSizeF():g}pt"
        color = theme().muted.name()
        self.area.setLabel("bottom", bottom, **{"font-size": size, "color": color})
        self.area.setLabel("left", left, **{"font-size": size, "color": color})

    def limit(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Limit zoom and pan to ranges in the plot's coordinates, and show all of them."""
        box = self.area.getViewBox()
        box.setLimits(
            xMin=x[0], xMax=x[1], yMin=y[0], yMax=y[1],
            minXRange=(x[1] - x[0]) / _MOST_ZOOM, minYRange=(y[1] - y[0]) / _MOST_ZOOM,
        )  # fmt: skip
        self._all = x, y
        self.fit()

    def fit(self) -> None:
        """Show all."""
        x, y = self._all
        self.area.getViewBox().setRange(xRange=x, yRange=y, padding=0)

    def move_cursor(self, x: float | None) -> None:
        """Move the vertical line to the pointer, or hide it."""
        if self._cursor is not None:
            self._cursor.setVisible(x is not None)
            if x is not None:
                self._cursor.setValue(x)
        self.setAccessibleDescription(self.text_below()[0])
        self.update()

    def tick_texts(self, values: list[float], spacing: float, unit: float) -> list[str]:
        """Return the numbers at ticks, with enough digits to differ."""
        most = max(map(abs, values), default=0.0)
        digits = min(max(4, floor(log10(most / spacing)) + 2), 17) if most else 4
        return [number_text(0.0 if abs(v) < spacing * 1e-6 else v * unit, digits) for v in values]

    def small_font(self) -> QFont:
        """Return the font of numbers."""
        return monospace(max(self.font().pointSizeF() - 1, 8))

    # -- mouse and keys --------------------------------------------------------------------------------------

    def mark(self, point: int) -> None:
        """Mark a point, or the last one in its direction."""
        if self.point_count():
            self.at = min(max(point, 0), self.point_count() - 1)
            self.show_marker()

    def hide_marker(self) -> None:
        """Mark no point."""
        self.at = None
        self.show_marker()

    def choose_at(self, x: float, _y: float) -> None:
        """Choose the point at data coordinates."""
        self.mark(self.point_near(x))
        self.choose()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if self._view is not None and watched is self._view.viewport():
            if isinstance(event, QWheelEvent):
                if self.wheel_needs_control and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                    event.ignore()
                    return True
                self.area.getViewBox().updateMatrix()  # the range may have changed since it was painted
            elif event.type() == QEvent.Type.Leave:
                self.hide_marker()
            elif isinstance(event, QMouseEvent):
                self._on_mouse(event)
        return super().eventFilter(watched, event)

    def _on_mouse(self, event: QMouseEvent) -> None:
        x, y = self.data_at(event.position())
        if event.type() == QEvent.Type.MouseMove:
            self.mark(self.point_near(x))
        elif event.type() == QEvent.Type.MouseButtonPress:
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            self._pressed = event.position()
        elif event.type() == QEvent.Type.MouseButtonDblClick:
            self.fit()
        elif event.type() == QEvent.Type.MouseButtonRelease and event.button() == Qt.MouseButton.LeftButton:
            moved = (event.position() - self._pressed).manhattanLength()
            if moved < _DRAG_DISTANCE:
                self.choose_at(x, y)

    def data_at(self, point: QPointF) -> tuple[float, float]:
        """Data coordinates of a point of the plot's viewport."""
        data = self.area.getViewBox().mapSceneToView(self.view.mapToScene(point.toPoint()))
        return float(data.x()), float(data.y())

    def point_of(self, x: float, y: float) -> QPointF:
        """Return data coordinates as a point of the plot's viewport."""
        scene = self.area.getViewBox().mapViewToScene(QPointF(x, y))
        return QPointF(self.view.mapFromScene(scene))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for title, run in (
            ("Copy &Picture", self.copy_picture), ("Copy &Numbers", self.copy_numbers), ("Show &All", self.fit),
        ):  # fmt: skip
            menu.addAction(title).triggered.connect(run)
        menu.popup(event.globalPos())
        event.accept()

    def copy_picture(self) -> None:
        """Copy the plot as a picture."""
        QGuiApplication.clipboard().setImage(as_seen(self))

    def copy_numbers(self) -> None:
        """Copy the plotted data as a table."""
        QGuiApplication.clipboard().setText(self.numbers())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_numbers()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self.point_count():
            step = 1 if event.key() == Qt.Key.Key_Right else -1
            self.mark(0 if self.at is None else self.at + step)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.choose()
        elif self._view is not None and event.text() in ("+", "=", "-"):
            factor = _KEYS_ZOOM if event.text() != "-" else 1 / _KEYS_ZOOM
            self.area.getViewBox().scaleBy((factor, 1.0))
        elif self._view is not None and event.text() == "0":
            self.fit()
        else:
            super().keyPressEvent(event)

    # -- painting --------------------------------------------------------------------------------------------

    def _fit_margins(self) -> None:
        self.column.setContentsMargins(1, 1, 1, round(QFontMetricsF(self.small_font()).height()) + 5)

    def shown_text(self) -> str:
        """Return the part of the text below the plot that fits."""
        metrics = QFontMetricsF(self.small_font())
        return metrics.elidedText(self.text_below()[0], Qt.TextElideMode.ElideRight, self.width() - 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        colors = theme()
        painter.fillRect(self.rect(), colors.panel)
        painter.setFont(self.small_font())
        height = self.column.contentsMargins().bottom()
        below = QRectF(6, self.height() - height, self.width() - 12, height - 2)
        self.paint_below(painter, below)
        paint_focus(painter, self)

    def paint_below(self, painter: QPainter, room: QRectF) -> None:
        """Paint the text below."""
        painter.setPen(theme().text if self.text_below()[1] else theme().muted)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.shown_text())
