"""Two open documents held against each other: what differs, kept up to date, and going through both at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from model.graph import Function, Graph, Model, Node, Value

if TYPE_CHECKING:
    from model.passes.rehearsal import Rehearsal
    from model.progress import Progress
    from model.queries.differences import Comparison, Difference
    from viewer.workspace import Workspace

_DELAY_MS = 400  # after the last edit

#: What nodes are coloured by, and in which order the colours go.
ORDER = ("changed", "removed", "added")


class Comparing(QObject):
    """The comparison of two workspaces. It ends when either closes. GUI thread; the work is done in jobs.

    What is selected in one is selected and brought into view in the other, and both graphs are coloured.
    """

    changed = Signal()

    def __init__(self, old: Workspace, new: Workspace) -> None:
        super().__init__()
        self.old, self.new = old, new
        self.result: Comparison | None = None
        self._following = False
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.refresh)
        self._endings: list[Callable[[], None]] = []
        for workspace in (old, new):
            if workspace.comparing is not None:
                workspace.comparing.close()
            workspace.set_comparing(self)
            self._endings.append(workspace.document.subscribe(lambda _change: self._delay.start()))
        old.selection.changed.connect(self._follow_old)
        new.selection.changed.connect(self._follow_new)
        self.refresh()

    def close(self) -> None:
        """Stop comparing; both documents are as any other again."""
        self._delay.stop()
        for end in self._endings:
            end()
        self._endings.clear()
        self.old.selection.changed.disconnect(self._follow_old)
        self.new.selection.changed.disconnect(self._follow_new)
        for workspace in (self.old, self.new):
            workspace.group(None)
            workspace.set_comparing(None)

    def other(self, workspace: Workspace) -> Workspace:
        """The document on the other side."""
        return self.new if workspace is self.old else self.old

    def side(self, workspace: Workspace) -> Literal["old", "new"]:
        """Which side a document is."""
        return "old" if workspace is self.old else "new"

    # -- finding out ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Compare anew, on copies, so that editing may go on meanwhile."""
        from model.passes.rehearsal import Rehearsal

        copies = Rehearsal(self.old.model), Rehearsal(self.new.model)
        revisions = self._revisions()

        def done(result: Comparison) -> None:
            if revisions == self._revisions() and self._endings:
                self.result = result
                self._colour()
                self.changed.emit()

        self.new.jobs.start(
            "Comparing models", lambda progress: _compare(*copies, progress), done=done, supersede="compare models"
        )

    def _revisions(self) -> tuple[int, int]:
        return self.old.document.revision, self.new.document.revision

    def _colour(self) -> None:
        assert self.result is not None
        keys: tuple[dict[Node, str], dict[Node, str]] = ({}, {})
        for difference in self.result.differences:
            for side, item in enumerate((difference.old, difference.new)):
                for node in _nodes_of(item):
                    word = difference.kind if not difference.aspect and isinstance(item, Node) else "changed"
                    if keys[side].get(node) not in ("added", "removed"):
                        keys[side][node] = word
        for workspace, words in zip((self.old, self.new), keys, strict=True):
            workspace.group(words, "Compared", ORDER)

    # -- copying -------------------------------------------------------------------------------------------------

    def take_over(self, differences: Sequence[Difference], into: Workspace) -> None:
        """Make one document like the other in these respects, as one edit of it; tells what could not be copied."""
        from model.edits.takeover import take_over_all

        if self.result is None or not differences:
            return
        title = "Copy a change" if len(differences) == 1 else f"Copy {len(differences):,} changes"
        with into.document.edit(f"{title} from {self.other(into).title}") as edit:
            refused = take_over_all(edit, self.result, differences, self.side(into))
        if refused:
            error = refused[0][1]
            more = f" ({len(refused) - 1:,} more were left out too.)" if len(refused) > 1 else ""
            into.message("warning", error.title, f"{error.detail}{more}", error.place)
        self.refresh()

    # -- going together ------------------------------------------------------------------------------------------

    def _follow_old(self) -> None:
        self._follow(self.old, self.new)

    def _follow_new(self) -> None:
        self._follow(self.new, self.old)

    def _follow(self, leader: Workspace, follower: Workspace) -> None:
        if self._following or self.result is None:
            return
        partners: list[Any] = [self.result.partner(item) for item in leader.selection.items]
        found = [p for p in partners if isinstance(p, (Node, Value, Graph, Function, Model))]
        self._following = True
        try:
            if found:
                follower.reveal_all(found)
        finally:
            self._following = False


def _nodes_of(item: object) -> list[Node]:
    """The nodes that show a difference of an object: itself, or who gives or uses a value."""
    match item:
        case Node():
            return [item]
        case Value() if item.producer is not None:
            return [item.producer]
        case Value():
            return list(item.consumers)
        case _:
            return []


def _compare(old: Rehearsal, new: Rehearsal, progress: Progress) -> Comparison:
    """Compare copies, and tell in terms of the documents' own objects."""
    from dataclasses import replace

    from model.queries.differences import compare

    result = compare(old.document.model, new.document.model, progress)
    result.differences = [replace(d, old=old.original(d.old), new=new.original(d.new)) for d in result.differences]
    result.matching.new_of = {old.original(a): new.original(b) for a, b in result.matching.new_of.items()}
    result.matching.old_of = {b: a for a, b in result.matching.new_of.items()}
    return result
