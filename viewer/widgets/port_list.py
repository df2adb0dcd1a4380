"""One side of a patch bay: ports below headings, in a list with hit tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.style.tooltips import plain_tip

Side = Literal["left", "right"]
_PORT = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Port:
    """An output or input. Names are unique per side and direction."""

    side: Side
    name: str
    gives: bool
    note: str = field(default="", compare=False)  # its type, as far as known


class PortList(QTreeWidget):
    """Ports with their types, below headings that cannot be selected."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: dict[Port, QTreeWidgetItem] = {}
        self.setAccessibleName(title)
        self.setColumnCount(2)
        self.setHeaderLabels([title, "Type"])
        self.setRootIsDecorated(False)
        self.setIndentation(12)
        self.setUniformRowHeights(True)
        self.setItemsExpandable(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.header().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)

    def sizeHint(self) -> QSize:
        return QSize(300, 260)

    def show_ports(self, sections: Iterable[tuple[str, Sequence[Port]]]) -> None:
        """Show ports below the titles of their sections; the current port stays current."""
        current = self.port(self.currentItem())
        self.clear()
        self._items = {}
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        for title, ports in sections:
            if not ports:
                continue
            heading = QTreeWidgetItem([title])
            heading.setFlags(Qt.ItemFlag.ItemIsEnabled)
            heading.setFont(0, bold)
            self.addTopLevelItem(heading)
            heading.setFirstColumnSpanned(True)
            heading.setExpanded(True)
            for port in ports:
                item = QTreeWidgetItem([display(port.name, 100), port.note])
                item.setData(0, _PORT, port)
                item.setToolTip(0, plain_tip(display(port.name, 400)))
                item.setToolTip(1, plain_tip(port.note))
                heading.addChild(item)
                self._items[port] = item
        self.select(current if current in self._items else next(iter(self._items), None))

    @property
    def ports(self) -> Sequence[Port]:
        """Return all ports, from the top."""
        return tuple(self._items)

    @property
    def current(self) -> Port | None:
        """Return the current port."""
        return self.port(self.currentItem())

    def select(self, port: Port | None) -> None:
        """Make a port current."""
        item = self._items.get(port) if port is not None else None
        if item is not None:
            self.setCurrentItem(item)

    def port(self, item: QTreeWidgetItem | None) -> Port | None:
        """Return the port of a row; None for a heading."""
        found: Port | None = None if item is None else item.data(0, _PORT)
        return found

    def port_at(self, point: QPoint) -> Port | None:
        """Return the port at a point of the viewport."""
        return self.port(self.itemAt(point))

    def level(self, port: Port) -> tuple[int, bool] | None:
        """Return the vertical position of a port in the viewport, and whether it is visible; None when it is not
        listed.
        """
        item = self._items.get(port)
        if item is None:
            return None
        y = self.visualItemRect(item).center().y()
        height = self.viewport().height()
        return min(max(y, 0), height - 1), 0 <= y < height
