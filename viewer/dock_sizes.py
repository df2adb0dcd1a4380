"""Sizes of the docks: the graph keeps half of the window's width and height, and the rest of it first.

In a small window the docks at the left give way first, then those at the right. All get their sizes back when the
window grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QStyle, QWidget

_LEFT, _RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
_BOTTOM = Qt.DockWidgetArea.BottomDockWidgetArea
_ACROSS, _UP = Qt.Orientation.Horizontal, Qt.Orientation.Vertical


class DockSizes(QObject):
    """Fits the docks of a window to its size. Wanted are their first sizes, or those that the user dragged to."""

    def __init__(
        self, window: QMainWindow, docks: Iterable[QDockWidget], widths: Mapping[Qt.DockWidgetArea, int]
    ) -> None:
        super().__init__(window)
        self._window = window
        self._docks = list(docks)
        self._wanted = dict(widths)
        self._gone: list[QDockWidget] = []  # gave way, the one in front last
        self._is_fitting = False
        self.graph: QWidget | None = None  # what keeps its room; None: the central widget
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._fit_now)
        self._may_hide = False
        window.setAnimated(False)
        for dock in self._docks:
            dock.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Remember sizes that the user drags docks to; fit again after one was shown."""
        if event.type() == QEvent.Type.Show:
            self._later.start()
        is_dragged = bool(QApplication.mouseButtons() & Qt.MouseButton.LeftButton)
        if (
            event.type() == QEvent.Type.Resize
            and is_dragged
            and not self._is_fitting
            and isinstance(watched, QDockWidget)
        ):
            area = self._window.dockWidgetArea(watched)
            if watched in self._in(area):
                self._wanted[area] = watched.height() if area == _BOTTOM else watched.width()
        return super().eventFilter(watched, event)

    def adopt(self) -> None:
        """Take the present sizes for the wanted ones: they were restored from the last start."""
        self._gone.clear()
        for area in (_LEFT, _RIGHT):
            if docks := self._in(area):
                self._wanted[area] = docks[0].width()

    def fit(self, *, may_hide: bool = False) -> None:
        """Give the graph half of the window. `may_hide`: docks at the left may hide; the user opened none now."""
        if self._is_fitting:
            return
        self._is_fitting = True
        if may_hide:
            self._hide_or_return()
        for area, size in self._sizes().items():
            docks = self._in(area)
            self._window.resizeDocks(docks[:1], [size], _UP if area == _BOTTOM else _ACROSS)
        self._is_fitting = False

    def fit_soon(self) -> None:
        """Fit docks that the program shows once they are laid out."""
        self._may_hide = True
        self._later.start()

    def _fit_now(self) -> None:
        self.fit(may_hide=self._may_hide)
        self._may_hide = False

    def give_back(self) -> None:
        """Show the docks that gave way, so that the layout can be saved."""
        for dock in self._gone:
            dock.show()
            dock.raise_()
        self._gone.clear()

    def _hide_or_return(self) -> None:
        """Hide the docks at the left if there is no room for them, and show them when there is."""
        room = self._room() - self._taken(_RIGHT)
        docks = self._in(_LEFT)
        if docks and room < docks[0].minimumSizeHint().width():
            self._gone = sorted((d for d in self._docks if self._is_docked(d, _LEFT)), key=_is_in_front)
            for dock in self._gone:
                dock.hide()
        elif self._gone and room >= self._gone[0].minimumSizeHint().width():
            self.give_back()

    def _sizes(self) -> dict[Qt.DockWidgetArea, int]:
        """Return the size of each area with open docks."""
        sizes: dict[Qt.DockWidgetArea, int] = {}
        room = self._room()
        for area in (_RIGHT, _LEFT):
            if docks := self._in(area):
                sizes[area] = max(min(self._wanted[area], room), docks[0].minimumSizeHint().width())
                room -= sizes[area] + self._separator()
        if docks := self._in(_BOTTOM):
            wanted = self._wanted.get(_BOTTOM, docks[0].sizeHint().height())
            around = self._window.height() - docks[0].height() - self._graph().height()
            sizes[_BOTTOM] = max(min(wanted, self._window.height() // 2 - around), docks[0].minimumSizeHint().height())
        return sizes

    def _room(self) -> int:
        """Return the px that all docks at the sides may take."""
        return self._window.width() // 2 - self._separator()

    def _taken(self, area: Qt.DockWidgetArea) -> int:
        docks = self._in(area)
        return max(docks[0].minimumSizeHint().width(), min(self._wanted[area], self._room())) if docks else 0

    def _graph(self) -> QWidget:
        graph, central = self.graph, self._window.centralWidget()
        assert central is not None
        return graph if graph is not None and graph.isVisible() else central

    def _in(self, area: Qt.DockWidgetArea) -> list[QDockWidget]:
        """Return the docks of an area that are open, the one in front first."""
        return sorted((dock for dock in self._docks if self._is_docked(dock, area)), key=_is_in_front, reverse=True)

    def _is_docked(self, dock: QDockWidget, area: Qt.DockWidgetArea) -> bool:
        return not dock.isHidden() and not dock.isFloating() and self._window.dockWidgetArea(dock) == area

    def _separator(self) -> int:
        style = self._window.style()
        return style.pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent, None, self._window)


def _is_in_front(dock: QDockWidget) -> bool:
    return not dock.visibleRegion().isEmpty()
