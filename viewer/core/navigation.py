"""Which graph of a document is shown, and going to objects, back and forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.viewer.core.model_signals import ModelSignals, is_in_model
from onnx_workbench.viewer.core.navigation_history import NavigationEntry, NavigationHistory
from onnx_workbench.viewer.core.selection import Item, Selection


class Navigation(QObject):
    """The graph shown, ways to others, and the positions visited. GUI thread only.

    The view of the document sets `view_position` and `is_drawn`.
    """

    graph_shown = Signal(object)  # Graph
    reveal_requested = Signal(object)  # Item: centre it; its graph is shown and it is selected
    scroll_requested = Signal(object)  # Item: as `reveal_requested`, at the present zoom
    parent_shown = Signal(object)  # Node: left by going up; keep it in view where the graph was seen last
    returned = Signal(object)  # what `view_position` returned once: bring that part of the graph into view again

    def __init__(
        self, model: Model, selection: Selection, changes: ModelSignals, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._selection = selection
        self._graph = _first_graph(model)
        self.view_position: Callable[[], object] = lambda: None  # the part of the graph in view, comparable by ==
        self.is_drawn: Callable[[Graph], bool] = lambda _graph: False  # the graph shown, or one open inside it
        self.history = NavigationHistory(self._position, self)
        changes.removed.connect(self._prune_removed)

    @property
    def graph(self) -> Graph:
        """The graph shown now: the main one, a body, a function's body or a training graph."""
        return self._graph

    def show(self, graph: Graph) -> None:
        """Show another graph; `go_back` returns to the position left."""
        if graph is not self._graph:
            with self.history.jump():
                self._show(graph)

    def reveal(self, item: Item, *, keeps_zoom: bool = False) -> None:
        """Show the graph an object lies in, select the object and bring it into view, in a readable size."""
        self.reveal_all([item], keeps_zoom=keeps_zoom)

    def reveal_all(self, items: Iterable[Item], *, keeps_zoom: bool = False) -> None:
        """Reveal several objects; those in the graph of the last one come into view.

        Nodes and values of a body or function that is open inside the graph shown are shown there. Deleted objects
        are left out: lists may hold them until they are rebuilt.
        """
        found = [(item, graph_of(item)) for item in items]
        there = {graph for graph in {graph for _, graph in found} if graph is not None and is_in_model(graph)}
        chosen = [item for item, graph in found if graph in there and not _is_gone(item)]
        if not chosen:
            return
        with self.history.jump():
            graph = graph_of(chosen[-1])
            if graph is not None and not (isinstance(chosen[-1], (Node, Value)) and self.is_drawn(graph)):
                self.show(graph)
            self._selection.set(chosen)
            (self.scroll_requested if keeps_zoom else self.reveal_requested).emit(chosen[-1])

    def go_back(self) -> None:
        """Return to the position left by the last jump: its graph, what was selected, and the part in view."""
        self._return_to(self.history.back())

    def go_forward(self) -> None:
        """Return to the position that `go_back` left."""
        self._return_to(self.history.forward())

    def go_up(self) -> None:
        """Go from a subgraph to the graph around it, from a function to the main graph, at their last positions.

        The node whose body is left is selected.
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
            self.history.prune(is_in_model)  # the graph that is gone is not gone forward to


def graph_of(item: Item) -> Graph | None:
    """Return the graph in which an object is seen: the body of a function, the main graph of a model."""
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
    """Return the graph shown first: the main graph, or the first function of a file that has functions alone."""
    graph = model.graph
    is_empty = not (graph.nodes.first or graph.inputs or graph.outputs or graph.initializers)
    return model.functions[0].body if is_empty and model.functions else graph


def _is_gone(item: Item) -> bool:
    """Return whether a graph no longer has a value, though the value refers to it; fast, as there may be very many."""
    if not isinstance(item, Value):
        return False
    maker = item.producer
    return maker.graph is None if maker is not None else not (item.is_defined or item.uses)
