"""Marks and colours on the graph of one document, by model object; set by panels, runs and actions, drawn by views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.document.edge_notes import NoteOf, no_note

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.node_data import Matched, NodeValues


class Highlights(QObject):
    """Marks by kind, colours of nodes, and notes beside edges. GUI thread only."""

    marked = Signal(str, object)  # kind and list of objects, see `mark`
    unmarked = Signal(str, object)  # kind and list[Node], see `unmark`
    overlay_changed = Signal(object, str)  # numbers or texts by node or None, title; see `set_overlay`
    groups_changed = Signal(object, str, object)  # Mapping[Node, str] or None, title, own colours; see `set_groups`
    notes_changed = Signal(object)  # set[Value] whose `note_of` has changed; None: any

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: dict[str, list[object]] = {}  # marked objects by kind; without kinds from which some were unmarked
        self.overlay: tuple[NodeValues | None, str] = (None, "")  # numbers and title, see `set_overlay`
        self.data: Matched | None = None  # node data, which stand in the boxes and in the node table
        self.note_of: NoteOf = no_note  # returns the note beside the edges of a value; set by runs

    def mark(self, kind: str, items: Iterable[object]) -> None:
        """Mark objects on the graph: "matches", "errors", "stale", "changed" or "traced"; no items: unmark all."""
        marked = list(items)
        self.marks[kind] = marked
        self.marked.emit(kind, marked)

    def unmark(self, kind: str, nodes: Iterable[Node]) -> None:
        """Remove marks of a kind from some nodes; cheap even if many are marked."""
        self.marks.pop(kind, None)
        self.unmarked.emit(kind, list(nodes))

    def set_overlay(self, numbers: NodeValues | None, title: str = "", data: Matched | None = None) -> None:
        """Colour the nodes of the graph by numbers or texts, with a legend; None removes the colours.

        `data` has these numbers or texts if they are to be shown in the boxes too, with further columns.
        """
        self.data = data
        self.overlay = numbers, title
        self.overlay_changed.emit(numbers, title)

    def set_groups(
        self, keys: Mapping[Node, str] | None, title: str = "", own: Mapping[str, str] | None = None
    ) -> None:
        """Colour the nodes of the graph by words, with a legend; `own` has fixed colours of words."""
        self.groups_changed.emit(keys, title, own)
