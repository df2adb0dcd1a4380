"""Groups of a graph: its name scopes, and its repeated blocks where these are missing or hold too many boxes.

One object per document, so that canvas and outline show the same groups and each tree is built once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from shiboken6 import isValid

from onnx_workbench.model.analysis.name_scopes import Path, ScopeTree, known_stacks
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.document.model_signals import ModelSignals
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.tasks.threads import post

if TYPE_CHECKING:
    from onnx_workbench.model.analysis.groups import Blocks

#: Number of nodes up to which a tree is built on the GUI thread when the outline opens rows: 5 ms where blocks are in
#: scopes. At 4,000 nodes an inserted one cost 75 ms of that thread instead of 55, as each edit builds the tree.
AT_ONCE = 1000


class Grouping(QObject):
    """Caches the trees of graphs, and the blocks of each graph, which edits do not change.

    GUI thread only, except `tree` and `find`.
    """

    regrouped = Signal(object)  # Graph whose groups were computed, see `prepare`, or changed without an edit

    def __init__(self, changes: ModelSignals, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._blocks: dict[Graph, Blocks | None] = {}  # None: it has no worthwhile blocks
        self._asked: set[Graph] = set()  # graphs whose blocks are shown, worthwhile or not
        self._trees: dict[Graph, ScopeTree] = {}
        self._stacks: dict[Graph, dict[Path, Path]] = {}  # before the last edit
        self._making: dict[Graph, ModelReader] = {}
        self.destroyed.connect(self._trees.clear)
        changes.structure_changed.connect(self._forget)
        changes.nodes_changed.connect(lambda nodes: self._forget({node.graph for node in nodes}))

    # -- trees -----------------------------------------------------------------------------------------------

    def tree(self, graph: Graph, progress: Progress = SILENT) -> ScopeTree:
        """Return the current groups of a graph, cached. Reads the model; any thread."""
        tree = self._trees.get(graph)
        if tree is None:
            tree = self._trees[graph] = self._make(graph, progress)
        return tree

    def is_ready(self, graph: Graph) -> bool:
        """Return whether the tree is cached."""
        return graph in self._trees or len(graph.nodes) <= AT_ONCE

    def prepare(self, graph: Graph) -> None:
        """Build the tree of a graph in the background; emits `regrouped`."""
        if graph not in self._making:
            reader = self._making[graph] = ModelReader(self)
            reader.start(partial(self.tree, graph), partial(self._made, graph), failed=partial(self._failed, graph))

    def _make(self, graph: Graph, progress: Progress) -> ScopeTree:
        from onnx_workbench.model.analysis.groups import block_tree, scope_tree  # imports numpy

        blocks, stacks = self._blocks.get(graph), self._stacks.get(graph)
        if blocks is None:
            return scope_tree(graph, progress, stacks)
        return block_tree(graph, blocks, progress, stacks)

    def _made(self, graph: Graph, _tree: ScopeTree) -> None:
        self._making.pop(graph).deleteLater()
        self.regrouped.emit(graph)

    def _failed(self, graph: Graph, error: Exception) -> None:
        self._making.pop(graph).deleteLater()
        raise error

    def _forget(self, graphs: set[Graph | None]) -> None:
        """Invalidate the trees of edited graphs; restart those being prepared, the others are rebuilt on use."""
        for graph in graphs:
            if graph is None:
                continue
            tree = self._trees.pop(graph, None)
            if tree is not None:
                self._stacks[graph] = known_stacks(tree)
            if graph in self._making:
                self._making[graph].restart()

    # -- blocks ----------------------------------------------------------------------------------------------

    def has_blocks(self, graph: Graph) -> bool:
        """Return whether groups of a graph are blocks that were found, not only name scopes."""
        return self._blocks.get(graph) is not None

    def is_found(self, graph: Graph, *, asked: bool) -> bool:
        """Return whether the result of `find` is cached."""
        is_searched = graph in self._blocks and (self.has_blocks(graph) or not asked or graph in self._asked)
        return is_searched and self.is_ready(graph)

    def find(self, graph: Graph, progress: Progress, *, asked: bool) -> ScopeTree:
        """Return the current groups of a graph; searches for blocks where names define none, or too large ones.

        `asked`: the user requested groups, so any blocks are accepted. Reads the model; any thread.
        """
        tree = self.tree(graph, progress)
        if self.is_found(graph, asked=asked):
            return tree
        from onnx_workbench.model.analysis.groups import find_blocks  # imports numpy

        progress.report(0, 0, "Looking for blocks that repeat …")
        blocks = find_blocks(graph, tree, progress)
        if asked:
            self._asked.add(graph)
        if not blocks.are_shown(asked=asked):
            self._blocks[graph] = None
            return tree
        self._blocks[graph] = blocks
        self._trees.pop(graph, None)
        tree = self.tree(graph, progress)
        post(partial(self._notify, graph))
        return tree

    def _notify(self, graph: Graph) -> None:
        if isValid(self):
            self.regrouped.emit(graph)
