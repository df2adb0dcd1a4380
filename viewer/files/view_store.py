"""Last view of each file, stored between starts: the shown graph, its open parts, the part in view, bookmarks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onnx_workbench.viewer.program.folders import state_folder
from onnx_workbench.viewer.program.settings import RESTORE_VIEW

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.document_tab import DocumentTab

_MOST = 200


class ViewStore:
    """Stores views by file. Read on first use; a broken store is treated as empty."""

    def __init__(self) -> None:
        self._file = state_folder() / "views.json"
        self._views: dict[str, Any] | None = None

    def remember(self, tab: DocumentTab) -> None:
        """Store the view of a document."""
        if tab.path is not None:
            view = tab.view
            is_first = view.scenes.is_untouched or (view.is_fitted and view.is_legible)  # in any window size
            views = self._load()
            views.pop(str(tab.path), None)
            views[str(tab.path)] = {
                "graph": tab.graph_number(),
                "view": {} if is_first else view.scenes.view_state(),
                "open": view.scenes.open_parts(),
                "bookmarks": tab.workspace.bookmarks.state(),
            }

    def restore(self, tab: DocumentTab) -> None:
        """Restore the bookmarks of a document and, if wanted, its last view."""
        entry = None if tab.path is None else self._load().get(str(tab.path))
        if not isinstance(entry, dict):
            return
        tab.workspace.bookmarks.restore(entry.get("bookmarks"))
        if isinstance(entry.get("graph"), int) and tab.workspace.settings.get(RESTORE_VIEW):
            tab.show_graph_number(entry["graph"])
            tab.view.scenes.restore_open_parts(entry.get("open"))
            tab.view.scenes.restore_view_state(entry.get("view"))

    def save(self) -> None:
        """Write the views; errors are ignored."""
        if self._views is None:
            return
        newest = dict(list(self._views.items())[-_MOST:])
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(newest), encoding="utf-8")
        except OSError:
            return

    def _load(self) -> dict[str, Any]:
        if self._views is None:
            try:
                found = json.loads(self._file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                found = {}
            self._views = found if isinstance(found, dict) else {}
        return self._views
