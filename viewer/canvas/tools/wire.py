"""Tool that connects ports by dragging, and shows during the drag whether the drop is allowed and why not.

A drag from an output or the pill of an input makes a new wire. A drag from a wired input moves its end to another
input or another source. A drop on a node connects a free input; a drop on the canvas offers operators that accept the
value for a new wire, and disconnects a moved end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QAction, QColor, QPainter, QPainterPath, QPen
from PySide6.QtWidgets import QMenu

from onnx_workbench.model.analysis.scoping import is_visible, nodes_upstream
from onnx_workbench.model.edits.interface import redirect_output
from onnx_workbench.model.edits.values import connect, disconnect, why_not_connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.name_index import ancestor_in
from onnx_workbench.model.ir.types import TensorType, Type
from onnx_workbench.model.text.formatting import display, shape_text, type_text
from onnx_workbench.viewer.canvas.scene.builder import inner_graph
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.canvas.scene.scene import REACH, Hit
from onnx_workbench.viewer.canvas.tools.tool import Press, Tool
from onnx_workbench.viewer.popups.connect import free_inputs, input_name, misfit
from onnx_workbench.viewer.style.theme import theme

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.popups.operator_palette import OperatorEntry

_PORT = 5.0
_SNAP = 14.0  # px on screen within which the wire snaps to a port
_MOST_MARKED = 400  # limit for the nodes in view whose ports are marked
_MARKED_FROM = 0.35  # zoom
_WIDEST = 420.0  # of the text
_OFFSET = 18.0  # of the text from the pointer


@dataclass(frozen=True, slots=True)
class WireTarget:
    """Effect of a drop at the pointer: `drop` is None if it would do nothing or is refused."""

    text: str
    drop: Callable[[], object] | None = None
    refused: bool = False
    doubtful: bool = False  # allowed, but the types do not fit
    point: tuple[float, float] | None = None  # of the port, in the scene


class WireTool(Tool):
    """One wire, from press to drop."""

    def __init__(self, view: GraphView, press: Press) -> None:
        super().__init__(view, press)
        value, taken = _grip(view, press)
        assert value is not None
        self.value = value
        self.taken = taken  # the input whose end is moved
        self.target = WireTarget("")
        self.text_box = QRectF()  # area of the text that describes the drop
        self._position = press.position
        self._dragging = False
        self._above: set[Node] | None = None
        self._fits: dict[tuple[Node, int], bool] = {}

    @classmethod
    def wants(cls, view: GraphView, press: Press) -> bool:
        """Accept a press of the left button on a port, or on the side of an input's pill where its wires start."""
        if view.is_read_only:
            return False
        plain = not press.modifiers & Qt.KeyboardModifier.ShiftModifier
        return press.button == Qt.MouseButton.LeftButton and plain and _grip(view, press)[0] is not None

    def move(self, position: QPointF) -> None:
        """Determine and show the effect of a drop at the pointer."""
        if not self._dragging:
            if not self.moved(position):
                return
            self._dragging = True
            self.view.setCursor(Qt.CursorShape.CrossCursor)
        self._position = position
        self.target = self._find_target(position)
        self.view.update()

    def end(self, position: QPointF) -> None:
        """Apply the drop; a refusal is shown as a message."""
        self.view.unsetCursor()
        if not self._dragging:
            extend = bool(self.press.modifiers & Qt.KeyboardModifier.ControlModifier)
            self.view.picker.click(self.press.hit, extend=extend)
            return
        self._position = position
        target = self._find_target(position)
        if target.refused:
            self.view.workspace.messages.show("error", "That cannot be connected", target.text)
        elif target.drop is not None:
            try:
                target.drop()
            except ModelError as error:
                self.view.workspace.messages.report(error)

    def cancel(self) -> None:
        self.view.unsetCursor()

    # -- what is under the pointer ---------------------------------------------------------------------------

    def _find_target(self, position: QPointF) -> WireTarget:
        scene = self.view.scene
        if scene is None:
            return WireTarget("")
        near = self._near_port(position)
        hit = near or self.view.hit(position)
        if hit is None or hit.box < 0 or self.view.picker.is_background(hit):
            return self._in_the_open(position)
        subject = scene.boxes[hit.box].subject
        kind = scene.boxes[hit.box].kind
        if self.taken is not None and (hit.part == "output" or kind in (Kind.INPUT, Kind.OUTER)):
            source = subject if isinstance(subject, Value) else scene.value_at(hit)
            return self._source(source) if source is not None else WireTarget("")
        if kind is Kind.OUTPUT and isinstance(subject, Value):
            return self._output(subject, self._graph_of_pill(hit.box))
        if kind is not Kind.NODE or not isinstance(subject, Node):
            return WireTarget("")
        if hit.part == "input":
            point = next((p for index, p in scene.inputs(hit.box) if index == hit.port), None)
            return self._input(subject, hit.port, point)
        return self._node(subject)

    def _near_port(self, position: QPointF) -> Hit | None:
        """Return the nearest input port within reach of a wire, which is farther than that of a click."""
        scene = self.view.scene
        assert scene is not None
        x, y = self.view.viewport.to_scene(position.x(), position.y())
        reach = _SNAP / self.view.viewport.scale
        best: tuple[float, Hit] | None = None
        for box in scene.box_grid.at(x, y, reach):
            if scene.is_well_inside(box, x, y, REACH / self.view.viewport.scale):
                continue  # the pointer is on the node itself
            for index, (px, py) in scene.inputs(box) if scene.boxes[box].kind is Kind.NODE else ():
                gap = max(abs(px - x), abs(py - y))
                if gap <= reach and (best is None or gap < best[0]):
                    best = gap, Hit(box=box, part="input", port=index)
        return best[1] if best is not None else None

    def _input(self, node: Node, index: int, point: tuple[float, float] | None = None) -> WireTarget:
        if (node, index) == self.taken:
            return WireTarget("No change", point=point)
        reason = self._refusal(node)
        where = f"{display(node.title, 40)} · {display(input_name(node, index), 30)}"
        if reason:
            return WireTarget(reason, refused=True, point=point)
        doubt = misfit(self.view.workspace, node, index, self.value) or self._shape_differs(node, index)
        text = f"{where}: {doubt}" if doubt else f"{self._verb} {where}"
        return WireTarget(text, partial(self._connect, node, index), doubtful=bool(doubt), point=point)

    @property
    def _verb(self) -> str:
        return "Connect to" if self.taken is None else "Move to"

    def _refusal(self, node: Node) -> str:
        """Return why the value must not feed a node, or empty. Ancestors of the value are collected once per drag."""
        if node.graph is None or not is_visible(self.value, node.graph):
            return _label_text(why_not_connect(node, self.value))
        if self._above is None:
            producer = self.value.producer
            self._above = set() if producer is None else nodes_upstream([producer], self.value.graph)
        anchor = ancestor_in(node, self.value.graph) if self.value.graph is not None else None
        return _label_text(why_not_connect(node, self.value)) if anchor in self._above else ""

    def _shape_differs(self, node: Node, index: int) -> str:
        """Describe how the value's shape differs from the one it would replace; empty if it does not."""
        present = node.inputs[index] if index < len(node.inputs) else None
        if present is None:
            return ""
        types = self.view.workspace.types
        old, new = types.type_of(present), types.type_of(self.value)
        if not (isinstance(old, TensorType) and isinstance(new, TensorType) and old.shape and new.shape):
            return ""
        pairs = zip(old.shape.dims, new.shape.dims, strict=False)
        differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
        if old.shape.rank == new.shape.rank and not differs:
            return ""
        return f"{shape_text(new.shape)} instead of {shape_text(old.shape)}"

    def _node(self, node: Node) -> WireTarget:
        """Return the target for a drop on a node: a free input, preferably one whose type fits."""
        if self.taken is not None and self.taken[0] is node:
            return WireTarget("No change")
        reason = self._refusal(node)
        if reason:
            return WireTarget(reason, refused=True)
        free = free_inputs(node)
        fitting = [index for index in free if not misfit(self.view.workspace, node, index, self.value)]
        indices = fitting or free or list(range(len(node.inputs)))
        if not indices:
            return WireTarget(f"{display(node.title, 40)} takes no inputs.", refused=True)
        if len(indices) == 1:
            return self._input(node, indices[0])
        names = ", ".join(display(input_name(node, index), 20) for index in indices[:4])
        return WireTarget(
            f"{self._verb} {display(node.title, 40)}: choose {names}", partial(self._show_input_menu, node, indices)
        )

    def _source(self, value: Value) -> WireTarget:
        assert self.taken is not None
        node, index = self.taken
        if value is self.value:
            return WireTarget("No change")
        reason = _label_text(why_not_connect(node, value))
        if reason:
            return WireTarget(reason, refused=True)
        doubt = misfit(self.view.workspace, node, index, value)
        name = display(value.name, 40)
        return WireTarget(
            f"{name}: {doubt}" if doubt else f"Use {name} instead", partial(self._feed, value), doubtful=bool(doubt)
        )

    def _graph_of_pill(self, box: int) -> Graph:
        """Return the graph whose output a pill is: the one shown, or a body that is open in it."""
        assert self.view.scene is not None
        match self.view.scene.boxes[box].key:
            case (*_, Graph() as body), _, _:
                return body
        return self.view.workspace.graph

    def _output(self, output: Value, graph: Graph) -> WireTarget:
        if output not in graph.outputs or output is self.value:
            return WireTarget("")
        if self.value in graph.outputs:
            return WireTarget(f"{display(self.value.name, 40)} is an output already.", refused=True)
        if not is_visible(self.value, graph):
            return WireTarget(f"{display(self.value.name, 40)} is not visible here.", refused=True)
        return WireTarget(f"Return it as {display(output.name, 40)}", partial(self._return_as, output, graph))

    def _in_the_open(self, position: QPointF) -> WireTarget:
        if self.taken is not None:
            return WireTarget("Disconnect", self._disconnect)
        return WireTarget("Add an operator…", partial(self._open_palette, self._graph_at(position)))

    def _graph_at(self, position: QPointF) -> Graph:
        """Return the graph under the pointer if the value is visible there, else the value's own graph."""
        scene, graph = self.view.scene, self.view.workspace.graph
        assert scene is not None
        around = scene.container_at(*self.view.viewport.to_scene(position.x(), position.y()))
        if around is not None:
            graph = inner_graph(scene.boxes[around.box].subject, graph.model) or graph
        return graph if is_visible(self.value, graph) else self.value.graph or graph

    # -- effects of a drop -----------------------------------------------------------------------------------

    def _edit(self, title: str, change: Callable[[Transaction], object]) -> None:
        with self.view.workspace.document.edit(title) as edit:
            change(edit)

    def _connect(self, node: Node, index: int) -> None:
        def change(edit: Transaction) -> None:
            connect(edit, node, index, self.value)
            if self.taken is not None:
                disconnect(edit, *self.taken)

        self._edit(f"Connect {display(self.value.name, 40)} to {display(node.title, 40)}", change)

    def _feed(self, value: Value) -> None:
        assert self.taken is not None
        node, index = self.taken
        self._edit(
            f"Connect {display(value.name, 40)} to {display(node.title, 40)}",
            lambda edit: connect(edit, node, index, value),
        )

    def _return_as(self, output: Value, graph: Graph) -> None:
        index = graph.outputs.index(output)
        title = f"Return {display(self.value.name, 40)} as {display(output.name, 40)}"
        self._edit(title, lambda edit: redirect_output(edit, graph, index, self.value))

    def _disconnect(self) -> None:
        assert self.taken is not None
        node, index = self.taken
        title = f"Disconnect {display(self.value.name, 40)} from {display(node.title, 40)}"
        self._edit(title, lambda edit: disconnect(edit, node, index))

    def _show_input_menu(self, node: Node, indices: list[int]) -> None:
        """Open a menu of several inputs next to the pointer."""
        menu = QMenu(self.view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        workspace = self.view.workspace

        def chosen(index: int) -> None:
            try:
                self._connect(node, index)
            except ModelError as error:
                workspace.messages.report(error)

        for index in indices:
            present = node.inputs[index] if index < len(node.inputs) else None
            doubt = misfit(workspace, node, index, self.value)
            says = doubt or (f"instead of {display(present.name, 40)}" if present is not None else "")
            title = display(input_name(node, index), 40).replace("&", "&&")
            action = QAction(f"{title}  –  {says.replace('&', '&&')}" if says else title, menu)
            action.triggered.connect(partial(chosen, index))
            menu.addAction(action)
        menu.popup(self.view.mapToGlobal(self._position.toPoint()))

    def _open_palette(self, graph: Graph) -> None:
        from onnx_workbench.viewer.workflows.insert_operator import add_fed_by, operator_palette

        workspace, value = self.view.workspace, self.value
        known = workspace.types.type_of(value)

        def chosen(operator: OperatorEntry, _shift: bool) -> None:
            add_fed_by(workspace, operator, value, graph)

        palette = operator_palette(self.view.window(), workspace, [value])
        palette.choose_for(
            graph,
            chosen,
            caption=f"Operator for {display(value.name, 40)} ({type_text(known)})",
            why_not=lambda operator: "" if operator.takes(known) else f"No input accepts {type_text(known)}.",
            at=self.view.mapToGlobal(self._position.toPoint()),
        )

    # -- painting --------------------------------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """Draw the ports that accept the wire, the wire, and the effect of a drop next to the pointer."""
        if not self._dragging:
            return
        self._paint_ports(painter)
        color = self._color()
        end = self._position
        if self.target.point is not None:
            end = QPointF(*self.view.viewport.to_widget(*self.target.point))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        pen = QPen(color, 2.0)
        if self.target.drop is None or self.target.refused:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.drawPath(self._path(self._start(), end))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawEllipse(end, _PORT - 1, _PORT - 1)
        self._paint_text(painter, color)

    def _color(self) -> QColor:
        colors = theme()
        if self.target.refused:
            return colors.error
        return colors.warning if self.target.doubtful else colors.accent

    def _start(self) -> QPointF:
        """Return the position of the value's source on screen."""
        scene = self.view.scene
        if scene is None:
            return self.press.position
        producer = self.value.producer
        for box in scene.drawing.boxes_of(producer if producer is not None else self.value):
            point = next((p for index, p in scene.outputs(box) if index == self.value.index), None)
            if point is None and scene.kinds[box] in (Kind.INPUT, Kind.OUTER, Kind.GROUP):
                point = _exit(self.view, box)
            if point is not None:
                return QPointF(*self.view.viewport.to_widget(*point))
        return self.press.position

    def _path(self, start: QPointF, end: QPointF) -> QPainterPath:
        path = QPainterPath(start)
        if self.view.scenes.options.direction == "down":
            bend = QPointF(0, max(abs(end.y() - start.y()) / 2, 24.0))
        else:
            bend = QPointF(max(abs(end.x() - start.x()) / 2, 24.0), 0)
        path.cubicTo(start + bend, end - bend, end)
        return path

    def _visible_nodes(self) -> Iterator[tuple[int, Node]]:
        scene = self.view.scene
        if scene is None or self.view.viewport.scale < _MARKED_FROM:
            return
        for box in scene.box_grid.in_rect(*self.view.viewport.area)[:_MOST_MARKED].tolist():
            subject = scene.boxes[box].subject
            if scene.boxes[box].kind is Kind.NODE and isinstance(subject, Node):
                yield box, subject

    def _paint_ports(self, painter: QPainter) -> None:
        colors, scene = theme(), self.view.scene
        assert scene is not None
        for box, node in self._visible_nodes():
            if self._may(node, -1):
                for index, point in scene.inputs(box):
                    fits = self._may(node, index)
                    painter.setPen(QPen(colors.accent if fits else colors.muted, 1.5))
                    painter.setBrush(colors.accent if fits else colors.node)
                    painter.drawEllipse(QPointF(*self.view.viewport.to_widget(*point)), _PORT, _PORT)
            else:
                left, top, width, height = scene.rect(box)
                veil = QColor(colors.canvas)
                veil.setAlpha(140)
                corner = QPointF(*self.view.viewport.to_widget(left, top))
                scale = self.view.viewport.scale
                painter.fillRect(QRectF(corner.x(), corner.y(), width * scale, height * scale), veil)

    def _may(self, node: Node, index: int) -> bool:
        """Return whether an input accepts the value; index -1: whether the node may depend on it at all. Cached."""
        may = self._fits.get((node, index))
        if may is None:
            if index < 0:
                may = not self._refusal(node)
            else:
                may = not misfit(self.view.workspace, node, index, self.value)
            self._fits[node, index] = may
        return may

    def _paint_text(self, painter: QPainter, color: QColor) -> None:
        if not self.target.text:
            return
        colors = theme()
        painter.setFont(self.view.font())
        metrics = painter.fontMetrics()
        most = min(max(self.view.width() * 0.6, 120.0), _WIDEST)
        source = f"{display(self.value.name, 40)}  {type_text(self._type())}".rstrip(" ?")
        source = metrics.elidedText(source, Qt.TextElideMode.ElideRight, int(most))
        wrap = int(Qt.TextFlag.TextWordWrap)
        says = metrics.boundingRect(QRect(0, 0, int(most), 1000), wrap, self.target.text)
        width = max(says.width(), metrics.horizontalAdvance(source)) + 16.0
        height = says.height() + metrics.height() + 10.0
        box = self.text_box = self._beside_pointer(width, height)
        left, top = box.left(), box.top()
        painter.setPen(QPen(color, 1.0))
        painter.setBrush(colors.panel)
        painter.drawRoundedRect(box, 4, 4)
        painter.setPen(color if self.target.refused or self.target.doubtful else colors.text)
        painter.drawText(QRectF(left + 8, top + 5, width - 14, says.height() + 1.0), wrap, self.target.text)
        painter.setPen(colors.muted)
        painter.drawText(QPointF(left + 8, top + 5 + metrics.ascent() + says.height()), source)

    def _beside_pointer(self, width: float, height: float) -> QRectF:
        """Return the rectangle for the text, within the canvas and not below the minimap."""
        left = min(self._position.x() + _OFFSET, self.view.width() - width - 4.0)
        top = min(self._position.y() + _OFFSET, self.view.height() - height - 4.0)
        box, overview = QRectF(left, top, width, height), self.view.minimap
        place = QRectF(overview.geometry())
        if overview.isVisible() and box.intersects(place):
            if place.left() - width > 4.0:
                box.moveRight(place.left() - 4.0)
            else:
                box.moveLeft(place.right() + 4.0)
        return box

    def _type(self) -> Type | None:
        return self.view.workspace.types.type_of(self.value)


def _label_text(reason: str) -> str:
    """Return a reason as safe text for a label, as it may contain names from the file."""
    return display(reason, 240)


def _grip(view: GraphView, press: Press) -> tuple[Value | None, tuple[Node, int] | None]:
    """Return the value that a press starts to drag, and the input whose end it moves, if any."""
    hit, scene = press.hit, view.scene
    if hit is None or hit.box < 0 or scene is None:
        return None, None
    box = scene.boxes[hit.box]
    if isinstance(box.subject, Node) and hit.part in ("input", "output"):
        taken = (box.subject, hit.port) if hit.part == "input" else None
        return scene.value_at(hit), taken
    if box.kind in (Kind.INPUT, Kind.OUTER) and isinstance(box.subject, Value):
        x, y = view.viewport.to_scene(press.position.x(), press.position.y())
        exit_x, exit_y = _exit(view, hit.box)
        reach = 1.5 * REACH / view.viewport.scale
        if abs(x - exit_x) <= 2 * reach and abs(y - exit_y) <= reach:
            return box.subject, None
    return None, None


def _exit(view: GraphView, box: int) -> tuple[float, float]:
    """Return the point where wires leave a pill or group."""
    assert view.scene is not None
    left, top, width, height = view.scene.rect(box)
    if view.scenes.options.direction == "down":
        return left + width / 2, top + height
    return left + width, top + height / 2
