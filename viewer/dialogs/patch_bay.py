"""Two lists of ports connected by wires, drawn by mouse or by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPainterPath, QPainterPathStroker, QPaintEvent, QPen
from PySide6.QtWidgets import QApplication, QHBoxLayout, QSizePolicy, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.port_list import Port, PortList, Side

_GAP = 130  # between the lists
_DOT = 3.5
_REACH = 10  # width of wires and dots for hit tests

#: Why an output must not feed an input; empty if it may.
WhyNot = Callable[[Port, Port], str]


class PatchBay(QWidget):
    """Outputs opposite inputs.

    Drag from port to port, or from dot to dot, to connect; drag a wire's end away, or press Del at a port, to
    disconnect; Enter at a port chooses its other end by name. `message` is a remark for the line below: what would be
    connected, or why not.
    """

    changed = Signal()
    message = Signal(str, bool)  # text, whether it is an error

    def __init__(self, titles: tuple[str, str], why_not: WhyNot, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.wires: dict[Port, Port] = {}  # input to output
        self._why_not = why_not
        self.lists: dict[Side, PortList] = {"left": PortList(titles[0]), "right": PortList(titles[1])}
        self.gap = _Gap(self)
        for area in self._areas():
            area.installEventFilter(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.lists["left"], 1)
        layout.addWidget(self.gap)
        layout.addWidget(self.lists["right"], 1)
        self.dragged: Port | None = None  # where a wire is being drawn from
        self.pointer = QPoint()  # in the gap's coordinates
        self._pressed: tuple[Port, QPoint] | None = None
        for ports in self.lists.values():
            ports.installEventFilter(self)
            ports.verticalScrollBar().valueChanged.connect(self.gap.update)
            ports.itemSelectionChanged.connect(self.gap.update)

    def show_ports(self, side: Side, sections: Iterable[tuple[str, Sequence[Port]]]) -> None:
        """Show the ports of a side; wires of unlisted ports stay."""
        self.lists[side].show_ports(sections)
        self.gap.update()

    def connect_ports(self, one: Port, other: Port) -> None:
        """Connect two ports in either order; ModelError if refused."""
        giver, taker = (one, other) if one.gives else (other, one)
        reason = self.refusal(giver, taker)
        if reason:
            raise ModelError(f"{giver.name} cannot feed {taker.name}", reason)
        self.wires[taker] = giver
        self.message.emit("", False)
        self._change()

    def disconnect_port(self, port: Port) -> None:
        """Remove every wire of a port."""
        kept = {taker: giver for taker, giver in self.wires.items() if port not in (taker, giver)}
        if kept != self.wires:
            self.wires = kept
            self._change()

    def _change(self) -> None:
        self.gap.update()
        self.changed.emit()

    def refusal(self, one: Port, other: Port) -> str:
        """Return why two ports must not be connected; empty if they may."""
        if one.side == other.side:
            return "Both belong to the same model."
        if one.gives == other.gives:
            return (
                "Both are outputs. Connect an output to an input."
                if one.gives
                else "Both are inputs. Connect an output to an input."
            )
        return self._why_not(one, other) if one.gives else self._why_not(other, one)

    # -- mouse and keys --------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind in (QEvent.Type.KeyPress, QEvent.Type.ShortcutOverride) and watched in self.lists.values():
            return self._key(cast("PortList", watched), cast("QKeyEvent", event))
        area = next((one for one in self._areas() if watched is one), None)
        if area is None or kind not in _MOUSE:
            return False
        mouse = cast("QMouseEvent", event)
        point = area.mapTo(self, mouse.position().toPoint())
        if kind == QEvent.Type.MouseButtonPress and mouse.button() == Qt.MouseButton.LeftButton:
            return self._press(point)
        if kind == QEvent.Type.MouseMove and self._pressed is not None:
            if self.dragged is None and (point - self._pressed[1]).manhattanLength() < QApplication.startDragDistance():
                return True
            self.dragged = self._pressed[0]
            self._drag(point)
            return True
        if kind == QEvent.Type.MouseButtonRelease and self._pressed is not None:
            self._pressed = None
            if self.dragged is not None:
                self._drop(point)
                return True
        elif kind == QEvent.Type.MouseButtonDblClick and (port := self.port_at(point)) is not None:
            self.choose(port)
            return True
        return False

    def _areas(self) -> tuple[QWidget, ...]:
        """Return the areas of the lists, and of the gap with the ports' dots."""
        return self.lists["left"].viewport(), self.gap, self.lists["right"].viewport()

    def _press(self, point: QPoint) -> bool:
        """Start a possible drag. In the gap, only a dot takes the press away from the wires."""
        port = self.port_at(point)
        self._pressed = None if port is None else (port, point)
        if port is None or not self.gap.geometry().contains(point):
            return False
        self.lists[port.side].select(port)
        self.lists[port.side].setFocus(Qt.FocusReason.MouseFocusReason)
        return True

    def _key(self, ports: PortList, event: QKeyEvent) -> bool:
        """Handle Enter (choose), Del (disconnect) and Esc (end a drag) before the dialog does."""
        key, port = event.key(), ports.current
        if key == Qt.Key.Key_Escape and self.dragged is not None:
            if event.type() == QEvent.Type.KeyPress:
                self._end()
            event.accept()
            return True
        if port is None or key not in (*_CHOOSE, Qt.Key.Key_Delete):
            return False
        if event.type() == QEvent.Type.KeyPress:
            if key == Qt.Key.Key_Delete:
                self.disconnect_port(port)
            else:
                self.choose(port)
        event.accept()
        return True

    def port_at(self, point: QPoint) -> Port | None:
        """Return the port at a point of the bay, its dot beside the list included."""
        for ports in self.lists.values():
            local, shown = ports.viewport().mapFrom(self, point), ports.viewport().rect()
            if self.gap.geometry().contains(point) and ports.geometry().adjusted(-_REACH, 0, _REACH, 0).contains(point):
                local.setX(shown.center().x())
            if shown.contains(local):
                return ports.port_at(local)
        return None

    def _drag(self, point: QPoint) -> None:
        self.pointer = self.gap.mapFrom(self, point)
        self.setCursor(Qt.CursorShape.CrossCursor)
        target, dragged = self.port_at(point), self.dragged
        if target is None or dragged is None or target == dragged:
            self.message.emit("", False)
        else:
            reason = self.refusal(dragged, target)
            giver, taker = (dragged, target) if dragged.gives else (target, dragged)
            self.message.emit(reason or f"{_port_text(giver)} feeds {_port_text(taker)}.", bool(reason))
        self.gap.update()

    def _drop(self, point: QPoint) -> None:
        """Connect the dragged wire; dropped in the gap, an existing wire is removed."""
        dragged, target = self.dragged, self.port_at(point)
        self._end()
        if dragged is None or target == dragged:
            return
        if target is None:
            if not dragged.gives and self.gap.geometry().contains(point):
                self.disconnect_port(dragged)
            return
        try:
            self.connect_ports(dragged, target)
        except ModelError as error:
            self.message.emit(f"{error.title}: {error.detail}", True)

    def _end(self) -> None:
        self.dragged = self._pressed = None
        self.unsetCursor()
        self.message.emit("", False)
        self.gap.update()

    def choose(self, port: Port | None) -> ChoicePopup | None:
        """Open a menu of the other ends for a port's wire, by name."""
        if port is None:
            return None
        others = self.lists["right" if port.side == "left" else "left"].ports
        choices = [
            Choice(
                title=display(other.name, 80),
                note=other.note,
                reason=self.refusal(port, other),
                run=partial(self._chosen, port, other),
            )
            for other in others
            if other.gives != port.gives
        ]
        if any(port in wire for wire in self.wires.items()):
            choices.append(Choice(title="Nothing", detail="Disconnect it.", run=lambda _: self.disconnect_port(port)))
        popup = ChoicePopup(self, "Port", lambda error: self.message.emit(f"{error.title}: {error.detail}", True))
        what = "Connect {} to which input?" if port.gives else "Connect which output to {}?"
        popup.open(choices, caption=what.format(display(port.name, 60)), placeholder="Name")
        return popup

    def _chosen(self, port: Port, other: Port, _shift: bool) -> None:
        self.connect_ports(port, other)


class _Gap(QWidget):
    """The area of the wires. A click on one makes its input port current."""

    def __init__(self, bay: PatchBay) -> None:
        super().__init__(bay)
        self._bay = bay
        self.setFixedWidth(_GAP)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)

    def _end(self, port: Port) -> tuple[QPointF, bool] | None:
        """Return the end of a port's wire at the border of the gap, and whether the port is visible."""
        ports = self._bay.lists[port.side]
        level = ports.level(port)
        if level is None:
            return None
        y = self.mapFrom(self._bay, ports.viewport().mapTo(self._bay, QPoint(0, level[0]))).y()
        return QPointF(_DOT + 1 if port.side == "left" else self.width() - _DOT - 1, y), level[1]

    def path(self, taker: Port) -> QPainterPath | None:
        """Return the wire to a port; None when one of its ends is not listed."""
        start, end = self._end(self._bay.wires[taker]), self._end(taker)
        return None if start is None or end is None else _curve(start[0], end[0])

    def paintEvent(self, _event: QPaintEvent) -> None:
        bay, colors = self._bay, theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        current = {ports.current for ports in bay.lists.values() if ports.hasFocus()}
        for taker, giver in bay.wires.items():
            path = self.path(taker)
            chosen = taker in current or giver in current
            if path is not None and bay.dragged != taker:
                painter.strokePath(path, QPen(colors.accent if chosen else colors.edge, 2 if chosen else 1.4))
        painter.setPen(QPen(colors.edge, 1))
        ends = {*bay.wires, *bay.wires.values()}
        for ports in bay.lists.values():
            for port in ports.ports:
                found = self._end(port)
                if found is not None and found[1]:
                    painter.setBrush(colors.edge if port in ends else colors.panel)
                    painter.drawEllipse(found[0], _DOT, _DOT)
        if bay.dragged is not None and (start := self._end(bay.dragged)) is not None:
            x = min(max(bay.pointer.x(), 0), self.width())
            painter.strokePath(_curve(start[0], QPointF(x, bay.pointer.y())), QPen(colors.accent, 2))
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        stroker = QPainterPathStroker()
        stroker.setWidth(_REACH)
        for taker in self._bay.wires:
            path = self.path(taker)
            if path is not None and stroker.createStroke(path).contains(event.position()):
                ports = self._bay.lists[taker.side]
                ports.select(taker)
                ports.setFocus(Qt.FocusReason.MouseFocusReason)
                return


_MOUSE = (
    QEvent.Type.MouseButtonPress,
    QEvent.Type.MouseMove,
    QEvent.Type.MouseButtonRelease,
    QEvent.Type.MouseButtonDblClick,
)
_CHOOSE = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F2)


def _port_text(port: Port) -> str:
    return f"{display(port.name, 60)} {port.note}".rstrip()


def _curve(start: QPointF, end: QPointF) -> QPainterPath:
    path = QPainterPath(start)
    middle = (start.x() + end.x()) / 2
    path.cubicTo(QPointF(middle, start.y()), QPointF(middle, end.y()), end)
    return path
