"""Free names for new values and nodes."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_workbench.model.analysis.scoping import TakenNames, names_taken, node_names, unique_name
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.ir.graph import Graph, Value


class FreshNames:
    """Free names in a model, each reserved when it is returned. A name is free in the whole tree around a graph."""

    def __init__(self) -> None:
        self._taken: dict[Graph, tuple[TakenNames, TakenNames]] = {}
        self._last: dict[tuple[TakenNames, str], str] = {}  # name returned for a wish, whose number the next one raises

    def value(self, graph: Graph, wanted: str) -> str:
        """Return a free name for a value."""
        return self._reserve(self._of(graph)[0], wanted)

    def node(self, graph: Graph, wanted: str) -> str:
        """Return a free name for a node."""
        return self._reserve(self._of(graph)[1], wanted)

    def reserve(self, graph: Graph, names: Iterable[str]) -> None:
        """Never return these for values."""
        for name in names:
            self._of(graph)[0].add(name)

    def cloner(self, graph: Graph, values: dict[Value, Value | None] | None = None) -> Cloner:
        """Return a cloner whose copies get free names in a graph; nodes without a name stay without."""
        return Cloner(
            dict(values or {}),
            rename=lambda name: self.value(graph, name),
            rename_node=lambda name: self.node(graph, name) if name else name,
        )

    def _of(self, graph: Graph) -> tuple[TakenNames, TakenNames]:
        root = graph.root
        if root not in self._taken:
            self._taken[root] = names_taken(root), node_names(root)
        return self._taken[root]

    def _reserve(self, taken: TakenNames, wanted: str) -> str:
        name = unique_name(self._last.get((taken, wanted), wanted), taken)
        self._last[taken, wanted] = name
        taken.add(name)
        return name
