"""Two compared documents as one merged graph: common objects once, with marked differences.

The graph is drawn from a union model that is not edited; the selection is mirrored to the documents, to which
actions apply. After an edit the union is rebuilt, keeping the same part in view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from onnx_workbench.model.analysis.topology import Connection
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.viewer.canvas.graph_view import GraphView
from onnx_workbench.viewer.canvas.view_state import ViewPosition
from onnx_workbench.viewer.compare.model_comparison import mark_kinds, note_kind
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.navigation import graph_of
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.widgets.breadcrumb import Breadcrumb

if TYPE_CHECKING:
    from onnx_workbench.model.diff.union import Sides, Union
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.document.selection import Item


#: Highlights of the documents that are shown here too: search matches and problems.
_MIRRORED = ("matches", "errors")


class MergedComparison(QWidget):
    """The graph view of the union. GUI thread only; exists while it is shown."""

    view_made = Signal(object)  # GraphView: another one is shown
    chosen = Signal(object)  # Workspace: the last selection was in this document

    def __init__(self, comparing: ModelComparison, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._comparing = comparing
        self.view: GraphView | None = None
        self._union: Union | None = None
        self._breadcrumb: Breadcrumb | None = None
        self._front = comparing.new
        self._following = False
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(0)
        comparing.changed.connect(self._show_union)
        for workspace in (comparing.old, comparing.new):
            # Methods, so that Qt disconnects them with this object.
            workspace.types.changed.connect(self._show_types)
            workspace.highlights.marked.connect(self._on_marked)
            workspace.highlights.overlay_changed.connect(self._overlay)
        comparing.old.selection.changed.connect(self._select_old)
        comparing.new.selection.changed.connect(self._select_new)
        comparing.old.navigation.reveal_requested.connect(self._reveal)
        comparing.new.navigation.reveal_requested.connect(self._reveal)
        comparing.old.navigation.graph_shown.connect(self._go)
        comparing.new.navigation.graph_shown.connect(self._go)
        comparing.set_builds_union(wanted=True)

    def close_view(self) -> None:
        """Close the view and drop the union model."""
        self._comparing.set_builds_union(wanted=False)
        self._drop_view()

    def drawn(self, item: Item) -> Any:
        """Return the union's object for an object of either document; None if there is none yet."""
        return self._union.of.get(item) if self._union is not None else None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.view is not None:
            self.view.setFocus()

    # -- making it -----------------------------------------------------------------------------------------------

    def _show_union(self) -> None:
        union = self._comparing.union
        if union is None:
            return
        if union is not self._union:
            self._make_view(union)
        self._mark()

    def _make_view(self, union: Union) -> None:
        comparing = self._comparing
        position = self._position()
        had_focus = self.view is not None and self.view.hasFocus()
        self._drop_view()
        self._union = union
        title = f"{comparing.old.label} and {comparing.new.label}"
        workspace = DocumentContext(Document(union.model), comparing.new.settings, self, title=title)
        shown = union.of.get(self._front.graph)
        if isinstance(shown, Graph):
            workspace.navigation.show(shown)
        self.view = view = GraphView(workspace)
        view.set_read_only(read_only=True)
        view.scenes.set_types(self._type_of)
        self._breadcrumb = Breadcrumb(workspace)
        view.trail_changed.connect(self._breadcrumb.set_frames)
        self._layout.addWidget(self._breadcrumb)
        self._layout.addWidget(view, 1)
        view.show()
        self._layout.activate()  # gives the view a size before the part in view is chosen
        self._mirror_selection(self._front)
        workspace.selection.changed.connect(self._on_selection)
        workspace.navigation.graph_shown.connect(self._on_graph)
        workspace.menu_requested.connect(self._open_menu)
        self._return_to(position)
        self.view_made.emit(view)
        if had_focus:
            view.setFocus()

    def _drop_view(self) -> None:
        view, self.view, self._union = self.view, None, None
        for widget in (view, self._breadcrumb):
            if widget is not None:
                self._layout.removeWidget(widget)
                widget.hide()
                widget.deleteLater()
        self._breadcrumb = None
        if view is not None:
            view.workspace.close()
            view.workspace.deleteLater()

    def _type_of(self, value: Value) -> Type | None:
        """Return the type of the original value: the current one, if it still exists."""
        if self._union is None:
            return value.type
        old, new = self._union.sides.get(value, (None, None))
        return self._comparing.new.types.type_of(new) if new is not None else self._comparing.old.types.type_of(old)

    def _show_types(self) -> None:
        if self.view is not None:
            self.view.scenes.set_types(self._type_of)

    def _mark(self) -> None:
        """Highlight nodes as in the documents, and edges, inputs and outputs that only one side has."""
        union, view = self._union, self.view
        assert union is not None
        assert view is not None
        kind_by_node: dict[Node, str] = {}
        for kinds in self._comparing.kinds:
            for node, kind in kinds.items():
                merged = union.of.get(node)
                if merged is not None:
                    note_kind(kind_by_node, merged, kind)
        hidden = self._comparing.hidden
        lone = {"added": union.added, "removed": union.removed}
        pills = {kind: [v for v in items if isinstance(v, Value)] for kind, items in lone.items() if kind not in hidden}
        mark_kinds(view.workspace, kind_by_node, pills)
        for mark, kind in (("came", "added"), ("went", "removed")):
            wires = [w for w in lone[kind] if isinstance(w, Connection)]
            view.workspace.highlights.mark(mark, [] if "changed" in hidden and kind in hidden else wires)
        for kind in _MIRRORED:
            self._mirror(kind)
        self._overlay()

    def _on_marked(self, kind: str, _items: list[object]) -> None:
        if kind in _MIRRORED:
            self._mirror(kind)

    def _mirror(self, kind: str) -> None:
        """Mirror a highlight of either document."""
        union, view = self._union, self.view
        if union is not None and view is not None:
            items = (item for side in self._sides() for item in side.highlights.marks.get(kind, ()))
            view.workspace.highlights.mark(kind, dict.fromkeys(union.of[item] for item in items if item in union.of))

    def _overlay(self, *_: object) -> None:
        """Mirror the overlay of the documents; that of the new one if both have one."""
        union, view = self._union, self.view
        if union is None or view is None:
            return
        numbers: dict[Node, Any] = {}  # numbers or texts
        legend = ""
        for side in self._sides():
            own, title = side.highlights.overlay
            if own is not None:
                numbers.update((made, number) for node, number in own.items() if (made := union.of.get(node)))
                legend = title
        if numbers or view.workspace.highlights.overlay[0] is not None:
            view.workspace.highlights.set_overlay(numbers or None, legend)

    def _sides(self) -> tuple[Workspace, Workspace]:
        return self._comparing.old, self._comparing.new

    # -- position ------------------------------------------------------------------------------------------------

    def _position(self) -> tuple[ViewPosition, object] | None:
        """Return the part in view, and a document's object near it."""
        view, union = self.view, self._union
        position = view.navigator.position() if view is not None else None
        if position is None or union is None or view is None or view.scene is None:
            return None
        box = view.scene.drawing.box_with(position.key)
        old, new = union.sides.get(view.scene.boxes[box].subject, (None, None)) if box >= 0 else (None, None)
        return position, new if new is not None else old

    def _return_to(self, kept: tuple[ViewPosition, object] | None) -> None:
        view, union = self.view, self._union
        assert view is not None
        assert union is not None

        def go() -> None:
            scene = view.scene
            if kept is not None and scene is not None:
                position, item = kept
                boxes = scene.drawing.boxes_of(union.of.get(item))
                x, y = position.centre_beside(scene, boxes[0]) if boxes else position.centre
                view.scenes.restore_view_state({"scale": position.scale, "x": x, "y": y})
            elif view.workspace.selection.current is not None:
                view.navigator.reveal(view.workspace.selection.current)

        if view.scene is not None:
            go()
        else:
            view.scenes.scene_shown.connect(go, Qt.ConnectionType.SingleShotConnection)

    # -- one selection -------------------------------------------------------------------------------------------

    def _on_selection(self) -> None:
        """Mirror the selection here to the documents."""
        union, view = self._union, self.view
        if self._following or union is None or view is None:
            return
        pairs = [union.sides[item] for item in view.workspace.selection.items if item in union.sides]
        self._following = True
        try:
            self._activate_document(pairs)
            side = 1 if self._front is self._comparing.new else 0
            self._front.selection.set(pair[side] for pair in pairs if pair[side] is not None)
        finally:
            self._following = False

    def _activate_document(self, pairs: Sequence[Sides]) -> None:
        """Activate the document with the last selected object, the new one if both have it."""
        if pairs:
            self._front = self._comparing.new if pairs[-1][1] is not None else self._comparing.old
            self.chosen.emit(self._front)

    def _open_menu(self, position: QPoint, kind: str) -> None:
        self._front.open_menu(position, kind)

    def _select_old(self) -> None:
        self._mirror_selection(self._comparing.old)

    def _select_new(self) -> None:
        self._mirror_selection(self._comparing.new)

    def _mirror_selection(self, workspace: Workspace) -> None:
        """Mirror the selection of a document here."""
        union, view = self._union, self.view
        if self._following or union is None or view is None:
            return
        self._following = True
        try:
            items = [union.of[item] for item in workspace.selection.items if item in union.of]
            view.workspace.selection.set(items)
            self._activate_document([union.sides[item] for item in items])
        finally:
            self._following = False

    def _reveal(self, item: Item) -> None:
        shown = self.drawn(item)
        if shown is None or self.view is None or self._following:
            return
        graph = graph_of(shown)
        if graph is not None:
            self.view.workspace.navigation.show(graph)
        self.view.navigator.reveal(shown)

    def _on_graph(self, graph: Graph) -> None:
        """Show the current graph in the documents."""
        if self._union is None:
            return
        for workspace, side in zip((self._comparing.old, self._comparing.new), self._union.sides[graph], strict=True):
            if side is not None:
                workspace.navigation.show(side)

    def _go(self, graph: Graph) -> None:
        shown = self.drawn(graph)
        if shown is not None and self.view is not None and not self._following:
            self.view.workspace.navigation.show(shown)
