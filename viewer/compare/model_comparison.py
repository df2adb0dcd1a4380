"""Comparison of two open documents: the differences, kept up to date, and synchronized navigation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.model.analysis.call_graph import Operator, callers
from onnx_workbench.model.diff import compare
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.viewer.compare.difference_text import SIGNS, WORDS
from onnx_workbench.viewer.compare.registry import comparison_of, set_comparison
from onnx_workbench.viewer.workflows.apply_edits import edit_ahead
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.model.diff import Comparison, Difference
    from onnx_workbench.model.diff.union import Union
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.document.context import DocumentContext
    from onnx_workbench.viewer.tasks.tasks import Task
from onnx_workbench.viewer.run.workspace import Workspace

_DELAY_MS = 400  # after the last edit

#: Headers of the nodes on the graph: amber, red, green, blue and grey, under white text.
COLORS = dict(zip(WORDS.values(), ("#7d5c00", "#a8331a", "#00735a", "#00629b", "#4d5763"), strict=True))
#: A node with several differences is shown as the first of these.
_WEIGHT = ("added", "removed", "changed", "moved", "renamed")


class ModelComparison(QObject):
    """The comparison of two workspaces. Ends when either closes. GUI thread; the work is done in tasks.

    Selection in one is mirrored and brought into view in the other, and both graphs are coloured.
    """

    changed = Signal()  # another result
    chosen_changed = Signal()
    closed = Signal()

    def __init__(self, old: Workspace, new: Workspace) -> None:
        super().__init__()
        self.old, self.new = old, new
        self.result: Comparison | None = None
        self.union: Union | None = None  # both as one graph, if requested; see set_builds_union
        self.kinds: tuple[dict[Node, str], dict[Node, str]] = ({}, {})  # marks of nodes of either side
        self._wants_union = False
        self.hidden: frozenset[str] = frozenset()  # kinds that are neither listed nor marked
        self.chosen: tuple[Difference, ...] = ()  # differences to copy; the last one is in view
        self._about: dict[object, list[Difference]] = {}  # shown differences, by the objects of either side
        self._is_syncing = False
        self._choosing = False
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.refresh)
        self._endings: list[Callable[[], None]] = []
        self._task: Task[Any] | None = None
        for workspace in (old, new):
            earlier = comparison_of(workspace)
            if earlier is not None:
                earlier.close()
            set_comparison(workspace, self)
            workspace.closed.connect(self.close)
            workspace.highlights.set_overlay(None)  # an overlay replaces the marks of differences
            self._endings.append(workspace.document.subscribe(lambda _change: self._delay.start()))
        old.selection.changed.connect(self._sync_from_old)
        new.selection.changed.connect(self._sync_from_new)
        self.refresh()

    def close(self) -> None:
        """Stop comparing and restore both documents."""
        self._delay.stop()
        if self._task is not None:
            self._task.cancel()
        for end in self._endings:
            end()
        self._endings.clear()
        self.old.selection.changed.disconnect(self._sync_from_old)
        self.new.selection.changed.disconnect(self._sync_from_new)
        for workspace in (self.old, self.new):
            workspace.highlights.set_groups(None)
            for sign in SIGNS.values():
                workspace.highlights.mark(sign, [])
            workspace.closed.disconnect(self.close)
            set_comparison(workspace, None)
        self.closed.emit()

    def other(self, workspace: Workspace) -> Workspace:
        """Return the document on the other side."""
        return self.new if workspace is self.old else self.old

    def side(self, workspace: Workspace) -> Literal["old", "new"]:
        """Return the side of a document."""
        return "old" if workspace is self.old else "new"

    # -- finding out ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Compare again, on copies, so that editing may continue."""
        workspaces, with_union = (self.old, self.new), self._wants_union

        def work(progress: Progress) -> tuple[tuple[int, ...], Comparison, Union | None]:
            (old, new), revisions = zip(*(copy_model(w, progress) for w in workspaces), strict=True)
            return revisions, *_compare(old, new, progress, with_union=with_union)

        def done(found: tuple[tuple[int, ...], Comparison, Union | None]) -> None:
            revisions, comparison, union = found
            if revisions == self._revisions():
                self.union = union
                self._set_result(comparison)

        self._task = self.new.tasks.start("Comparing models", work, done=done, supersede="compare models")

    def set_builds_union(self, *, wanted: bool) -> None:
        """Set whether `union` is built with each comparison; it is available at the next `changed`."""
        if wanted and not self._wants_union:
            self._wants_union = True
            self.refresh()
        elif not wanted:
            self._wants_union = False
            self.union = None

    @property
    def shown(self) -> list[Difference]:
        """Return the differences of visible kinds."""
        return [d for d in self.result.differences if d.kind not in self.hidden] if self.result is not None else []

    def hide(self, kind: str, *, hidden: bool) -> None:
        """Hide or show a kind of differences in lists and graphs."""
        kinds = self.hidden | {kind} if hidden else self.hidden - {kind}
        if kinds != self.hidden:
            self.hidden = kinds
            if self.result is not None:
                self._set_result(self.result)

    def _set_result(self, result: Comparison) -> None:
        result.differences.sort(key=lambda d: d.kind == "renamed")  # names last: they may be many
        self.result = result
        before = set(self.chosen)
        self.chosen = tuple(d for d in self.shown if d in before)
        self._about.clear()
        for difference in self.shown:
            for item in {difference.old, difference.new} - {None}:
                self._about.setdefault(item, []).append(difference)
        self._colour()
        self.changed.emit()
        self.chosen_changed.emit()

    def _revisions(self) -> tuple[int, int]:
        return self.old.document.revision, self.new.document.revision

    def _colour(self) -> None:
        kinds = node_kinds(self.shown, self.old.model, self.new.model)
        for workspace, found in zip((self.old, self.new), kinds, strict=True):
            mark_kinds(workspace, found)
        self.kinds = kinds

    # -- navigation ----------------------------------------------------------------------------------------------

    def choose(self, differences: Sequence[Difference]) -> None:
        """Choose the differences to copy, and show the last one on both sides."""
        chosen = tuple(differences)
        if chosen == self.chosen:
            return
        self._set_chosen(chosen)
        self._choosing = True
        try:
            for workspace, item in ((self.old, chosen[-1].old), (self.new, chosen[-1].new)) if chosen else ():
                if isinstance(item, (Node, Value, Graph, Function, Model)):
                    workspace.navigation.reveal(item)
        finally:
            self._choosing = False

    def _set_chosen(self, chosen: tuple[Difference, ...]) -> None:
        if chosen != self.chosen:
            self.chosen = chosen
            self.chosen_changed.emit()

    def _choose_selected(self, workspace: Workspace) -> None:
        """Choose the differences of the selected nodes and values, and of the nodes' outputs and contents."""
        differences: dict[Difference, None] = {}
        for item in workspace.selection.items:
            near: list[object] = [item]
            if isinstance(item, Node):
                near += item.outputs
                near += [v for v in item.inputs if v is not None and v.initializer is not None]
            for thing in near:
                differences.update(dict.fromkeys(self._about.get(thing, ())))
        self._set_chosen(tuple(differences))

    def step(self, by: int) -> None:
        """Select the next (1) or previous (−1) difference, wrapping around."""
        differences = self.shown
        if differences:
            at = differences.index(self.chosen[-1]) if self.chosen else (-1 if by > 0 else 0)
            self.choose([differences[(at + by) % len(differences)]])

    # -- copying -------------------------------------------------------------------------------------------------

    def copy_into(self, differences: Sequence[Difference], into: Workspace) -> None:
        """Copy differences into one document, as one edit of it; show a message about those that cannot be copied."""
        from onnx_workbench.model.edits.apply_difference import apply_differences

        result = self.result
        refused: list[tuple[Difference, ModelError]] = []
        if result is None or not differences:
            return

        def copy(edit: Transaction) -> None:
            if self.result is not result:  # compared again meanwhile: the differences may no longer exist
                raise ModelError("The models have changed in the meantime", f"{title}: nothing was changed.")
            refused[:] = apply_differences(edit, result, differences, self.side(into))

        def ended(_is_made: bool) -> None:
            if refused:
                error = refused[0][1]
                more = f" ({len(refused) - 1:,} more were left out.)" if len(refused) > 1 else ""
                into.messages.show("warning", error.title, f"{error.detail}{more}", error.place)
            self.refresh()

        title = "Copy a change" if len(differences) == 1 else f"Copy {len(differences):,} changes"
        edit_ahead(into, f"{title} from {self.other(into).label}", copy, ended=ended)

    # -- synchronized navigation ---------------------------------------------------------------------------------

    def _sync_from_old(self) -> None:
        self._sync_selection(self.old, self.new)

    def _sync_from_new(self) -> None:
        self._sync_selection(self.new, self.old)

    def _sync_selection(self, leader: Workspace, follower: Workspace) -> None:
        if self._is_syncing or self.result is None:
            return
        partners: list[Any] = [self.result.partner(item) for item in leader.selection.items]
        objects = [p for p in partners if isinstance(p, (Node, Value, Graph, Function, Model))]
        self._is_syncing = True
        try:
            if objects:
                follower.navigation.reveal_all(objects)
        finally:
            self._is_syncing = False
        if not self._choosing:
            self._choose_selected(leader)


def node_kinds(differences: Iterable[Difference], old: Model, new: Model) -> tuple[dict[Node, str], dict[Node, str]]:
    """Return the mark of each node of either model that differs, contains a difference, or calls such a function."""
    kinds: tuple[dict[Node, str], dict[Node, str]] = ({}, {})
    calling = callers(old), callers(new)
    for difference in differences:
        for side, item in enumerate((difference.old, difference.new)):
            whole = not difference.aspect and isinstance(item, Node)
            kind: str = difference.kind if whole or difference.kind in ("moved", "renamed") else "changed"
            for node in _nodes_of(item):
                note_kind(kinds[side], node, kind)
                beyond = _owners_of(node, calling[side])
                if whole and node.op_type == "Constant" and not node.domain:  # it may be drawn in its consumers
                    beyond += [user for value in node.outputs if value is not None for user in value.consumers]
                for other in beyond:
                    note_kind(kinds[side], other, "changed")
    return kinds


def mark_kinds(
    workspace: DocumentContext, kinds: Mapping[Node, str], more: Mapping[str, Iterable[object]] | None = None
) -> None:
    """Colour nodes by their kind of difference, and mark them; `more`: other marked objects, by kind."""
    workspace.highlights.set_groups({n: WORDS[kind] for n, kind in kinds.items()}, "Compared", COLORS)
    for kind, sign in SIGNS.items():
        workspace.highlights.mark(sign, [*(n for n, k in kinds.items() if k == kind), *(more or {}).get(kind, ())])


def _nodes_of(item: object) -> list[Node]:
    """Return the nodes that show a difference of an object: itself, or the producer or consumers of a value."""
    match item:
        case Node():
            return [item]
        case Value() if item.producer is not None:
            return [item.producer]
        case Value():
            return list(item.consumers)
        case _:
            return []


def note_kind(kinds: dict[Node, str], node: Node, kind: str) -> None:
    """Set the kind of a node, unless it has a more important one."""
    before = kinds.get(node)
    if before is None or _WEIGHT.index(kind) < _WEIGHT.index(before):
        kinds[node] = kind


def _owners_of(node: Node, calling: Mapping[Operator, list[Node]]) -> list[Node]:
    """Return the nodes that contain a node in a subgraph, from inside to outside, or call its function."""
    owners = []
    graph = node.graph
    while graph is not None and isinstance(graph.owner, Node):
        owners.append(graph.owner)
        graph = graph.owner.graph
    if graph is not None and isinstance(graph.owner, Function):
        owners += calling[graph.owner.key]
    return owners


def _compare(
    old: WorkingCopy, new: WorkingCopy, progress: Progress, *, with_union: bool
) -> tuple[Comparison, Union | None]:
    """Compare copies, and map the result to the documents' own objects."""
    from dataclasses import replace

    from onnx_workbench.model.diff.union import build_union

    result = compare(old.document.model, new.document.model, progress)
    union = build_union(result, progress) if with_union else None
    if union is not None:
        union.sides = {made: (old.original(a), new.original(b)) for made, (a, b) in union.sides.items()}
        union.of = {side: made for made, sides in union.sides.items() for side in sides if side is not None}
    result.differences = [replace(d, old=old.original(d.old), new=new.original(d.new)) for d in result.differences]
    result.matching.new_of = {old.original(a): new.original(b) for a, b in result.matching.new_of.items()}
    result.matching.old_of = {b: a for a, b in result.matching.new_of.items()}
    return result, union
