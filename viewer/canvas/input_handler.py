"""Mouse, wheel, keys, pinch and tooltips of the canvas, translated to calls of the view's methods.

The `tools` decide what a press starts.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QHelpEvent, QKeyEvent, QMouseEvent, QNativeGestureEvent, QWheelEvent
from PySide6.QtWidgets import QGestureEvent, QPinchGesture, QToolTip

from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.viewer.canvas.tools import TOOLS, Press, Tool
from onnx_workbench.viewer.canvas.tooltip_text import tip_of
from onnx_workbench.viewer.program.settings import WHEEL_ZOOMS
from onnx_workbench.viewer.style.tooltips import wrapped

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView

_STEP = 60.0  # px, one notch of the wheel
_NOTCH = 120.0  # Qt's angle of one notch

#: Events that `InputHandler.event` handles.
EVENTS = (QNativeGestureEvent, QGestureEvent, QHelpEvent, QKeyEvent)


class InputHandler:
    """Translates mouse, keys, wheel and pinches to calls of the parts of one view."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self.tool: Tool | None = None
        self._fits = False  # release of the space bar fits the graph, unless something was dragged meanwhile

    def press(self, event: QMouseEvent) -> None:
        """Start the tool for the press."""
        view = self._view
        self._fits = False
        if self.tool is not None or view.scene is None:
            return
        press = Press(event.position(), event.button(), event.modifiers(), view.hit(event.position()))
        kind = next((kind for kind in TOOLS if kind.wants(view, press)), None)
        if kind is not None:
            self.tool = kind(view, press)

    def move(self, event: QMouseEvent) -> None:
        """Pass a mouse move to the active tool, or update the hover."""
        if self.tool is not None:
            self.tool.move(event.position())
        else:
            self._hover(event.position())

    def _hover(self, position: QPointF) -> None:
        view = self._view
        hit = view.hit(position)
        items = [] if hit is None or view.picker.is_background(hit) else view.picker.items_of(hit)
        view.workspace.selection.set_hover(items[0] if len(items) == 1 else None)
        if hit is not None and hit.button is not None:
            view.setCursor(Qt.CursorShape.PointingHandCursor)
        elif hit is not None and hit.part in ("input", "output") and not view.is_read_only:
            view.setCursor(Qt.CursorShape.CrossCursor)
        else:
            view.unsetCursor()

    def release(self, event: QMouseEvent) -> None:
        """End the tool."""
        if self.tool is not None and event.button() == self.tool.press.button:
            tool, self.tool = self.tool, None
            tool.end(event.position())
            self._view.update()

    def cancel(self) -> bool:
        """Cancel the active tool; return False if there is none."""
        self._fits = False
        tool, self.tool = self.tool, None
        if tool is None:
            return False
        tool.cancel()
        self._view.update()
        return True

    def double_click(self, event: QMouseEvent) -> None:
        """Open the object that was hit."""
        hit = self._view.hit(event.position())
        if hit is None or event.button() != Qt.MouseButton.LeftButton:
            return
        if hit.button is not None:
            self._view.navigator.push(hit)
        elif not self._view.picker.is_background(hit):
            self._view.navigator.open(hit)

    def wheel(self, event: QWheelEvent) -> None:
        """Scroll, or zoom at the pointer, depending on Ctrl, Shift and the settings."""
        view = self._view
        zoom_keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        turned = event.angleDelta()
        if bool(event.modifiers() & zoom_keys) or view.workspace.settings.get(WHEEL_ZOOMS):
            notches = (turned.y() or turned.x()) / _NOTCH
            view.zoom_at(1.2**notches, event.position().x(), event.position().y())
        elif not event.pixelDelta().isNull():
            view.pan_by(-event.pixelDelta().x(), -event.pixelDelta().y())
        else:
            view.pan_by(-turned.x() / _NOTCH * _STEP, -turned.y() / _NOTCH * _STEP)
        event.accept()

    def event(self, event: QEvent) -> bool:
        """Handle an event that has no event handler; return False if it is ignored."""
        match event:
            case QNativeGestureEvent():
                return self._pinch_pad(event)
            case QGestureEvent():
                return self._pinch_screen(event)
            case QHelpEvent() if event.type() == QEvent.Type.ToolTip:
                self._tip(event)
                return True
            case QKeyEvent() if event.type() == QEvent.Type.ShortcutOverride and _is_space(event):
                event.accept()  # else the window's shortcut would act on the press: see `key_released`
                return True
        return False

    def _pinch_pad(self, event: QNativeGestureEvent) -> bool:
        """Handle a pinch on a trackpad."""
        position = event.position()
        match event.gestureType():
            case Qt.NativeGestureType.ZoomNativeGesture:
                self._view.zoom_at(1.0 + event.value(), position.x(), position.y())
            case Qt.NativeGestureType.SmartZoomNativeGesture:
                self._view.navigator.to_whole()
            case _:
                return False
        return True

    def _pinch_screen(self, event: QGestureEvent) -> bool:
        """Handle a pinch on a touch screen."""
        gesture = event.gesture(Qt.GestureType.PinchGesture)
        if not isinstance(gesture, QPinchGesture):
            return False
        self.cancel()  # the first finger has started a drag
        if gesture.changeFlags() & QPinchGesture.ChangeFlag.ScaleFactorChanged:
            centre = self._view.mapFromGlobal(gesture.hotSpot() if gesture.hasHotSpot() else gesture.centerPoint())
            self._view.zoom_at(gesture.scaleFactor(), centre.x(), centre.y())
        event.accept(gesture)
        return True

    def menu(self, event: QContextMenuEvent) -> None:
        """Select the object under the pointer, unless it is selected, and request the context menu."""
        view = self._view
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            self._menu_at_current()
            return
        hit = view.hit(QPointF(event.pos()))
        items = [] if hit is None or view.picker.is_background(hit) else view.picker.items_of(hit)
        selection = view.workspace.selection
        if not items:
            selection.clear()
        elif not all(item in selection for item in items):
            view.picker.click(hit)
        view.workspace.open_menu(event.globalPos(), _menu_kind(items))

    def _menu_at_current(self) -> None:
        view = self._view
        box = view.picker.current_box()
        position = QPoint(view.width() // 2, view.height() // 2)
        if box >= 0 and view.scene is not None:
            left, top, _, height = view.scene.rect(box)
            position = QPointF(*view.viewport.to_widget(left, top + height)).toPoint()
        view.workspace.open_menu(view.mapToGlobal(position), _menu_kind(view.workspace.selection.items))

    def key(self, event: QKeyEvent) -> bool:
        """Handle a key press; return False if the key has no function here."""
        if _is_space(event):
            self._fits = self._fits or not event.isAutoRepeat()
            return True
        action = _KEYS.get((event.key(), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier))
        if action is not None:
            action(self._view)
            return True
        return event.key() == Qt.Key.Key_Escape and self._escape()

    def key_released(self, event: QKeyEvent) -> bool:
        """Fit the graph on release of the space bar, which users also hold to drag. Return False for other keys."""
        if not _is_space(event) or event.isAutoRepeat():
            return False
        if self._fits:
            self._fits = False
            self._view.navigator.to_whole()
        return True

    def _escape(self) -> bool:
        """Cancel the first of these that is present: the interaction, a trace, the selection."""
        selection = self._view.workspace.selection
        if self.cancel():
            return True
        if self._view.highlighter.is_traced:
            self._view.highlighter.mark("traced", ())
            return True
        if not len(selection):
            return False
        selection.clear()
        return True

    def _tip(self, event: QHelpEvent) -> None:
        """Show the tooltip of the object under the pointer."""
        view = self._view
        hit = view.hit(QPointF(event.pos()))
        text = tip_of(view.scene, hit, view.type_of) if view.scene is not None and hit is not None else ""
        if text:
            # Escaped, so that a name with angle brackets is not rendered as HTML.
            QToolTip.showText(
                event.globalPos(), f"<qt>{html.escape(wrapped(text)).replace(chr(10), '<br>')}</qt>", view
            )
        else:
            QToolTip.hideText()


def _is_space(event: QKeyEvent) -> bool:
    """Return whether it is the space bar without modifiers."""
    return event.key() == Qt.Key.Key_Space and event.modifiers() == _NONE


def _menu_kind(items: Iterable[object]) -> str:
    for item in items:
        return {Node: "node", Value: "value", Graph: "graph", Function: "function"}.get(type(item), "canvas")
    return "canvas"


_NONE = Qt.KeyboardModifier.NoModifier
_SHIFT = Qt.KeyboardModifier.ShiftModifier
_KEYS: Mapping[tuple[int, Qt.KeyboardModifier], Callable[[GraphView], object]] = {
    (Qt.Key.Key_F, _NONE): lambda view: view.navigator.to_selection(),
    (Qt.Key.Key_Backspace, _SHIFT): lambda view: view.zoom_to(1.0),
    (Qt.Key.Key_Up, _SHIFT): lambda view: view.zoom_in(),
    (Qt.Key.Key_Down, _SHIFT): lambda view: view.zoom_out(),
    (Qt.Key.Key_Up, _NONE): lambda view: view.navigator.walk("up"),
    (Qt.Key.Key_Down, _NONE): lambda view: view.navigator.walk("down"),
    (Qt.Key.Key_Left, _NONE): lambda view: view.navigator.walk("left"),
    (Qt.Key.Key_Right, _NONE): lambda view: view.navigator.walk("right"),
    (Qt.Key.Key_Backspace, _NONE): lambda view: view.workspace.navigation.go_up(),
    (Qt.Key.Key_Return, _NONE): lambda view: view.expansion.toggle(view.picker.current_box()),
    (Qt.Key.Key_L, _NONE): lambda view: view.scenes.relayout(),
    (Qt.Key.Key_Home, _NONE): lambda view: view.navigator.to_beginning(),
    (Qt.Key.Key_End, _NONE): lambda view: view.navigator.to_end(),
    (Qt.Key.Key_E, _NONE): lambda view: view.navigator.step_edge(1),
    (Qt.Key.Key_E, _SHIFT): lambda view: view.navigator.step_edge(-1),
}
