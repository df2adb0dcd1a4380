"""The graph view in the middle of the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)

from onnx_workbench.model.ir.graph import Graph, Value
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.canvas.expansion import NodeExpansion
from onnx_workbench.viewer.canvas.highlighter import Highlighter
from onnx_workbench.viewer.canvas.input_handler import EVENTS, InputHandler
from onnx_workbench.viewer.canvas.navigator import Navigator
from onnx_workbench.viewer.canvas.node_colors import NodeColors
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.minimap import Minimap
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.picker import Picker
from onnx_workbench.viewer.canvas.scene_controller import SceneController
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.edge_notes import EdgeNote


class GraphView(Surface):
    """Widget that shows the graph of a document and handles mouse and keys. GUI thread only.

    It paints (`Surface`: frames, viewport, zoom) and passes events to objects with one task each:

    - `scenes` (SceneController): the scene shown, rebuilt after edits, and the view's position in it
    - `expansion` (NodeExpansion): opens and closes groups, bodies and functions
    - `picker` (Picker): selects the objects of boxes and edges
    - `navigator` (Navigator): moves to objects, to the whole graph, from box to box, into bodies, back
    - `highlighter` (Highlighter): marks of model objects; `node_colors` (NodeColors): colours by number, word or device
    - `input_handler` (InputHandler): effects of mouse, wheel, keys and pinches; drags are `tools`
    - `minimap` (Minimap): the whole graph in a corner
    """

    trail_changed = Signal(object)  # list[Frame]: the open parts around the selection, see Navigator.trail

    def __init__(self, workspace: DocumentContext) -> None:
        super().__init__()
        self.workspace: DocumentContext = workspace
        self._is_read_only = False
        self._kept: tuple[float, float, float] | None = None  # see `keep_in_place`
        self.node_colors = NodeColors(self)
        self.highlighter = Highlighter(self)
        self.picker: Picker = Picker(self, workspace.selection)
        self.scenes: SceneController = SceneController(self, workspace, self.picker)
        self.expansion: NodeExpansion = NodeExpansion(self, self.scenes, workspace.grouping)
        self.navigator: Navigator = Navigator(self, workspace, self.picker, self.scenes, self.expansion)
        self.input_handler = InputHandler(self)
        self.minimap = Minimap(self)
        self.minimap.jumped.connect(self.navigator.to_point)
        self.type_of = self.scenes.type_of
        self.note_of = self._note_of
        self.set_read_only(read_only=False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.grabGesture(Qt.GestureType.PinchGesture)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMinimumSize(160, 120)
        self.setAccessibleName("Graph")
        self._listen()
        self.scenes.load(first=True)

    def _listen(self) -> None:
        workspace, highlights = self.workspace, self.workspace.highlights
        workspace.navigation.graph_shown.connect(self._on_graph_shown)
        highlights.marked.connect(self.highlighter.mark)
        highlights.unmarked.connect(self.highlighter.unmark)
        highlights.groups_changed.connect(self.node_colors.set_groups)
        highlights.overlay_changed.connect(self.node_colors.set_overlay)
        highlights.notes_changed.connect(self._on_notes)
        workspace.selection.changed.connect(self._on_selection)
        workspace.selection.hover_changed.connect(self._on_hover)
        self.scenes.scene_shown.connect(self._on_scene)

    @property
    def is_read_only(self) -> bool:
        """Whether the model is read-only, so that no wire can be drawn."""
        return self._is_read_only

    def set_read_only(self, *, read_only: bool) -> None:
        """Switch the drawing of wires off or on."""
        self._is_read_only = read_only
        self.hint = (
            "This graph has no nodes." if read_only else "This graph has no nodes. Press Ctrl+Shift+A to add one."
        )

    # -- changes of the document -----------------------------------------------------------------------------

    def _on_graph_shown(self, graph: Graph) -> None:
        if graph is not self.scenes.graph:
            self.picker.forget()
            self.navigator.forget()
            self.trail_changed.emit([])
            self.scenes.show(graph)

    def _on_scene(self) -> None:
        self._on_selection()
        self._on_hover()

    def _on_selection(self) -> None:
        """Mark the selection, and describe it and the shown graph for screen readers."""
        shown = plural(len(self.scene.boxes), "box", "boxes") if self.scene is not None else "nothing"
        selected = self.picker.selection_text()
        self.setAccessibleDescription(f"{shown} drawn; selected: {selected}" if selected else f"{shown} drawn")
        if selected and self.hasFocus():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, selected))
        self.trail_changed.emit(self.navigator.trail())
        self.highlighter.mark("selected", self.workspace.selection.items)

    def _on_hover(self) -> None:
        self.highlighter.mark_hovered(self.workspace.selection.hover)

    def _note_of(self, value: Value) -> EdgeNote | None:
        return self.workspace.highlights.note_of(value)  # looked up at each call: runs replace it

    def _on_notes(self, values: set[Value] | None) -> None:
        """Rewrite the notes of some values, or of all."""
        if values is None:
            self.repaint_labels()
        elif self.scene is not None and values:
            edges_of = self.scene.drawing.edges_of
            self.repaint_boxes((), {edge for value in values for edge in edges_of(value)})

    # -- painting --------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        tool, notice = self.input_handler.tool, self.scenes.notice
        if self.scene is None or tool is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if self.scene is None and notice:
                self.paint_notice(painter, notice)
            if tool is not None:
                tool.paint(painter)
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the middle and the selection in view; if the user has not moved the view, restore the initial one."""
        was_tiny = not event.oldSize().isValid() or event.oldSize().width() < 8
        is_untouched, is_kept = self.scenes.is_untouched, self._kept == self.viewport.position
        selected = self._selected_in_view()
        super().resizeEvent(event)
        self.minimap.place()
        is_held = self._is_pushed and (self.underMouse() or is_kept)
        if is_kept:
            self.keep_in_place()
        if self.scene is not None and (was_tiny or (is_untouched and not is_held)):
            self.scenes.restore_position()
        elif selected is not None and not is_held:
            self.show_area(selected, 8.0)

    def keep_in_place(self) -> None:
        """Keep everything where it is on the screen when panels open, until the user moves the view."""
        self._kept = self.viewport.position

    def _selected_in_view(self) -> Area | None:
        """Return the rectangle of the last selection if all of it is visible."""
        selected = self.workspace.selection.current
        if self.scene is None or selected is None:
            return None
        area, seen = self.scene.bounds_of(self.scene.drawing.boxes_for(selected)[:1]), self.viewport.area
        if area is None or area[0] < seen[0] or area[1] < seen[1] or area[2] > seen[2] or area[3] > seen[3]:
            return None
        return area

    # -- mouse and keys --------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Start a tool; the window handles the back and forward buttons."""
        if event.button() in (Qt.MouseButton.BackButton, Qt.MouseButton.ForwardButton):
            event.ignore()
        else:
            self.input_handler.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.input_handler.move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.input_handler.release(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.input_handler.double_click(event)

    def leaveEvent(self, event: QEvent) -> None:
        self.workspace.selection.set_hover(None)
        super().leaveEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.input_handler.wheel(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.input_handler.menu(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle a key of the canvas; shortcuts of the window take precedence."""
        if not self.input_handler.key(event):
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        if not self.input_handler.key_released(event):
            super().keyReleaseEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Cancel the interaction when the focus is lost, unless to a popup."""
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.input_handler.cancel()
        super().focusOutEvent(event)

    def event(self, event: QEvent) -> bool:
        """Handle events that have no event handler: pinches, tooltips, keys before they become shortcuts."""
        return (isinstance(event, EVENTS) and self.input_handler.event(event)) or super().event(event)
