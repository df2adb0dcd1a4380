"""Bookmarks of a document: nodes and values to return to, each with a note. Not part of the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.viewer.document.highlights import Highlights
from onnx_workbench.viewer.document.model_signals import ModelSignals, is_in_model

MOST_BOOKMARKS = 1_000
LONGEST_NOTE = 2_000  # characters
#: Entry of the model's metadata in which "Store Bookmarks in the Model" keeps them, as JSON.
METADATA_KEY = "onnx_workbench.bookmarks"
_LONGEST_STATE = 4_000_000  # characters


class Bookmarks(QObject):
    """The bookmarked nodes and values with their notes, in the order they were added. GUI thread only.

    A bookmark of a deleted object is kept while the document is open, as undo may bring the object back.
    """

    changed = Signal()

    def __init__(
        self, model: Model, changes: ModelSignals, highlights: Highlights, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._highlights = highlights
        self.notes: dict[Node | Value, str] = {}
        changes.removed.connect(lambda _removed: self._changed() if self.notes else None)
        self.restore_stored()

    def toggle(self, elements: Iterable[Node | Value]) -> None:
        """Bookmark the elements; if all of them are bookmarked, remove these bookmarks."""
        chosen = list(elements)
        if all(element in self.notes for element in chosen):
            self.remove(chosen)
            return
        for element in chosen[: max(MOST_BOOKMARKS - len(self.notes), 0)]:
            self.notes.setdefault(element, "")
        self._changed()

    def set_note(self, element: Node | Value, text: str) -> None:
        """Set the note of a bookmark; add the bookmark if there is none."""
        self.notes[element] = text[:LONGEST_NOTE]
        self._changed()

    def remove(self, elements: Iterable[Node | Value]) -> None:
        """Remove bookmarks with their notes."""
        for element in elements:
            self.notes.pop(element, None)
        self._changed()

    def state(self) -> list[list[Any]]:
        """Return the bookmarks for a JSON file. A node is identified by its name or else by its first output."""
        roots = {root: number for number, root in enumerate(self._model.root_graphs())}
        rows = []
        for element, note in self.notes.items():
            graph = element.graph
            if graph is None or not is_in_model(element) or graph.root not in roots:
                continue
            output = (
                next((v.name for v in element.outputs if v is not None and v.name), "")
                if isinstance(element, Node)
                else element.name
            )
            kind = "node" if isinstance(element, Node) else "value"
            rows.append([roots[graph.root], kind, element.name, output, note])
        return rows

    def restore(self, state: object) -> None:
        """Restore bookmarks from the form of `state`, read from an untrusted file; drop those not found.

        Cost: one pass over the nodes of the model if there are any.
        """
        entries = [entry for entry in state[:MOST_BOOKMARKS] if _is_entry(entry)] if isinstance(state, list) else []
        for number, root in enumerate(self._model.root_graphs() if entries else ()):
            wanted = [entry for entry in entries if entry[0] == number]
            self.notes.update(_find(root, wanted))
        if self.notes:
            self._changed()

    def restore_stored(self) -> None:
        """Restore the bookmarks in the model's metadata, see METADATA_KEY."""
        text = self._model.metadata.get(METADATA_KEY, "")
        if text and len(text) <= _LONGEST_STATE:
            try:
                self.restore(json.loads(text))
            except (ValueError, RecursionError):
                return  # not written by this program

    def _changed(self) -> None:
        self._highlights.mark("bookmarks", self.notes)
        self.changed.emit()


def _is_entry(entry: object) -> bool:
    match entry:
        case [int(), "node" | "value", str(), str(), str()]:
            return True
    return False


def _find(root: Graph, entries: Sequence[Sequence[Any]]) -> dict[Node | Value, str]:
    """Find the objects of a graph and its subgraphs by names; in the order of the entries."""
    names = {name for _, _, name, output, _ in entries for name in (name, output) if name}
    nodes: dict[str, Node | None] = {}
    values: dict[str, Value] = {}
    for graph in root.walk() if entries else ():
        for value in (*graph.inputs, *graph.initializers):
            if value.name in names:
                values.setdefault(value.name, value)
        for node in graph.nodes:
            if node.name in names:
                nodes[node.name] = None if node.name in nodes else node  # a name of several nodes identifies none
            for value in node.outputs:
                if value is not None and value.name in names:
                    values.setdefault(value.name, value)
    found: dict[Node | Value, str] = {}
    for _, kind, name, output, note in entries:
        value = values.get(output)
        element = value if kind == "value" else nodes.get(name) or (value.producer if value is not None else None)
        if element is not None:
            found[element] = note[:LONGEST_NOTE]
    return found
