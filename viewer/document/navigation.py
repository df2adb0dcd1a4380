"""Navigation in a document: the shown graph, jumps to objects, back and forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.viewer.document.model_signals import ModelSignals, is_in_model
from onnx_workbench.viewer.document.navigation_history import NavigationEntry, NavigationHistory
from onnx_workbench.viewer.document.selection import Item, Selection


class Navigation(QObject):
    """The shown graph, navigation to others, and the history of positions. GUI thread only.

    The view of the document sets `view_position` and `is_drawn`.
    """

    graph_shown = Signal(object)  # Graph
    reveal_requested = Signal(object)  # Item to centre, after its graph was shown and it was selected
    area_requested = Signal()  # the selection is to be brought into view, closed groups as they are
    scroll_requested = Signal(object)  # Item: as `reveal_requested`, at the current zoom
    parent_shown = Signal(object)  # Node whose body was left by `go_up`; keep it in view at the graph's last position
    returned = Signal(object)  # an earlier result of `view_position`: restore that part of the graph

    def __init__(
        self, model: Model, selection: Selection, changes: ModelSignals, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._selection = selection
        self._graph = _first_graph(model)
        self.view_position: Callable[[], object] = lambda: None  # the part of the graph in view, comparable by ==
        self.is_drawn: Callable[[Graph], bool] = lambda _graph: False  # the shown graph, or one open inside it
        self.history = NavigationHistory(self._position, self)
        changes.removed.connect(self._prune_removed)

    @property
    def graph(self) -> Graph:
        """The shown graph: the main graph, a body, a function's body or a training graph."""
        return self._graph

    def show(self, graph: Graph) -> None:
        """Show another graph; `go_back` returns to the previous position."""
        if graph is not self._graph:
            with self.history.jump():
                self._show(graph)

    def reveal(self, item: Item, *, keeps_zoom: bool = False) -> None:
        """Show the graph of an object, select the object and bring it into view in a readable size."""
        self.reveal_all([item], keeps_zoom=keeps_zoom)

    def reveal_all(self, items: Iterable[Item], *, keeps_zoom: bool = False) -> None:
        """Reveal several objects; those in the graph of the last one are brought into view.

        Objects of a body or function that is open inside the shown graph are shown there. Deleted objects, which lists
        may hold until they are rebuilt, are left out.
        """
        placed = [(item, graph_of(item)) for item in items]
        there = {graph for graph in {graph for _, graph in placed} if graph is not None and is_in_model(graph)}
        chosen = [item for item, graph in placed if graph in there and not _is_removed(item)]
        if not chosen:
            return
        with self.history.jump():
            graph = graph_of(chosen[-1])
            if graph is not None and not (isinstance(chosen[-1], (Node, Value)) and self.is_drawn(graph)):
                self.show(graph)
            self._selection.set(chosen)
            (self.scroll_requested if keeps_zoom else self.reveal_requested).emit(chosen[-1])

    def show_all(self, items: Iterable[Item]) -> None:
        """Select several objects of one graph and bring them into view together; closed groups stay closed."""
        chosen = [item for item in items if not _is_removed(item)]
        graph = graph_of(chosen[-1]) if chosen else None
        if graph is None or not is_in_model(graph):
            return
        with self.history.jump():
            if not self.is_drawn(graph):
                self.show(graph)
            self._selection.set(chosen)
            self.area_requested.emit()

    def go_back(self) -> None:
        """Return to the position before the last jump: its graph, selection, and the part in view."""
        self._return_to(self.history.back())

    def go_forward(self) -> None:
        """Return to the position before `go_back`."""
        self._return_to(self.history.forward())

    def go_up(self) -> None:
        """Go from a subgraph to its outer graph, from a function to the main graph, at their last positions.

        The node that owns the body is selected.
        """
        owner = self._graph.owner
        if isinstance(owner, Node) and owner.graph is not None:
            with self.history.jump():
                self._show(owner.graph)
                self._selection.set([owner])
                self.parent_shown.emit(owner)
        elif self._graph is not self._model.graph:
            self.show(self._model.graph)

    def _position(self) -> NavigationEntry:
        return NavigationEntry(self._graph, self._selection.items, self.view_position())

    def _return_to(self, entry: NavigationEntry | None) -> None:
        if entry is None:
            return
        if entry.graph is not self._graph:
            self._show(entry.graph)
        self._selection.set(entry.items)
        self.returned.emit(entry.view_position)

    def _show(self, graph: Graph) -> None:
        self._graph = graph
        self.graph_shown.emit(graph)

    def _prune_removed(self, _removed: object) -> None:
        self._selection.prune(is_in_model)
        self.history.prune(is_in_model)
        if not is_in_model(self._graph):
            self._return_to(self.history.back() or NavigationEntry(self._model.graph))
            self.history.prune(is_in_model)  # `go_forward` must not show the deleted graph


def graph_of(item: Item) -> Graph | None:
    """Return the graph in which an object is shown: for a function its body, for a model the main graph."""
    match item:
        case Node() | Value():
            return item.graph
        case Graph():
            return item
        case Function():
            return item.body
        case Model():
            return item.graph


def _first_graph(model: Model) -> Graph:
    """Return the graph shown initially: the main graph, or the first function of a file that has only functions."""
    graph = model.graph
    is_empty = not (graph.nodes.first or graph.inputs or graph.outputs or graph.initializers)
    return model.functions[0].body if is_empty and model.functions else graph


def _is_removed(item: Item) -> bool:
    """Return whether a value was removed from the graph it refers to; fast, as there may be very many."""
    if not isinstance(item, Value):
        return False
    maker = item.producer
    return maker.graph is None if maker is not None else not (item.is_defined or item.uses)
