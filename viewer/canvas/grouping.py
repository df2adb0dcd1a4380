"""Which groups a graph is drawn in: its name scopes, or, where names tell none, the blocks it repeats."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from model.graph import Graph
from model.queries.blocks import Blocks, block_tree, find_blocks
from model.queries.scopes import ScopeTree, scope_tree
from viewer.slices import Slices

_MOST_NODES = 40_000  # of larger graphs blocks are looked for when somebody asks for them: it takes seconds


class Grouping(QObject):
    """Finds the blocks of each graph once, and keeps them: no group comes or goes by an edit. GUI thread only."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._blocks: dict[Graph, Blocks | None] = {}  # None: it has name scopes, or blocks were not worth it
        self._asked: set[Graph] = set()  # graphs whose blocks are shown, worthwhile or not
        self._search: Slices[Blocks] | None = None

    @property
    def is_searching(self) -> bool:
        """Whether blocks are being looked for."""
        return self._search is not None

    def tree(self, graph: Graph) -> ScopeTree:
        """The groups of a graph as it is now."""
        blocks = self._blocks.get(graph)
        return scope_tree(graph) if blocks is None else block_tree(graph, blocks)

    def prepare(self, graph: Graph, *, asked: bool, ready: Callable[[], object]) -> bool:
        """Look for blocks where that is still to be done; then `ready` is called. False: `tree` is right already.

        `asked`: a person wants groups, so that whatever is found will do, however long it takes.
        """
        if graph in self._blocks and (self._blocks[graph] is not None or not asked or graph in self._asked):
            return False
        if scope_tree(graph).root.children or (len(graph.nodes) > _MOST_NODES and not asked):
            self._blocks[graph] = None
            return False

        def done(blocks: Blocks) -> None:
            self._search = None
            self._blocks[graph] = blocks if asked or blocks.are_worthwhile else None
            if asked:
                self._asked.add(graph)
            ready()

        def failed(error: Exception) -> None:
            self._search = None
            self._blocks[graph] = None
            ready()
            raise error

        self.stop()
        self._search = Slices(lambda progress: find_blocks(graph, progress), done, failed, self)
        return True

    def stop(self) -> None:
        """Give up a search: before an edit, or when nobody waits for it any more."""
        if self._search is not None:
            self._search.cancel()
            self._search = None
