"""History of positions in one document, for back and forward.

A position is the shown graph, the selection, and the part of the graph in view. It is recorded by a jump (to a
match, a problem, a body, the whole graph) from it; panning and clicking record nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.viewer.document.selection import Item

_MOST = 200


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """One position. `view_position` is the part of the graph in view, opaque except to its view."""

    graph: Graph
    items: tuple[Item, ...] = ()
    view_position: object = None


class NavigationHistory(QObject):
    """Back and forward stacks of positions. `here` returns the current position. GUI thread only."""

    changed = Signal()  # `can_go_back` or `can_go_forward` has changed

    def __init__(self, here: Callable[[], NavigationEntry], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._here = here
        self._back: list[NavigationEntry] = []
        self._forward: list[NavigationEntry] = []
        self._jumping = False

    @property
    def can_go_back(self) -> bool:
        """Whether there is a position to go back to."""
        return bool(self._back)

    @property
    def can_go_forward(self) -> bool:
        """Whether there is a position to go forward to: `back` was used since the last jump."""
        return bool(self._forward)

    @contextmanager
    def jump(self) -> Iterator[None]:
        """Record the position before the block if the block changes it. Nested jumps are part of it."""
        if self._jumping:
            yield
            return
        left = self._here()
        self._jumping = True
        try:
            yield
        finally:
            self._jumping = False
            if self._here() != left:
                self._record(left)

    def _record(self, left: NavigationEntry) -> None:
        if not self._back or self._back[-1] != left:
            self._back.append(left)
            del self._back[:-_MOST]
        self._forward.clear()
        self.changed.emit()

    def back(self) -> NavigationEntry | None:
        """Go one position back and return it; None at the first."""
        return self._step(self._back, self._forward)

    def forward(self) -> NavigationEntry | None:
        """Go one position forward and return it; None at the last."""
        return self._step(self._forward, self._back)

    def _step(self, taken: list[NavigationEntry], left: list[NavigationEntry]) -> NavigationEntry | None:
        here = self._here()
        entry = None
        while taken and entry is None:
            entry = taken.pop()
            if entry == here:  # the user has returned to it by panning or clicking
                entry = None
        if entry is not None:
            left.append(here)
        self.changed.emit()
        return entry

    def prune(self, keep: Callable[[Item], bool]) -> None:
        """Remove entries and objects for which `keep` is false, as they were deleted from the model."""
        for entries in (self._back, self._forward):
            entries[:] = [
                replace(entry, items=tuple(item for item in entry.items if keep(item)))
                for entry in entries
                if keep(entry.graph)
            ]
        self.changed.emit()
