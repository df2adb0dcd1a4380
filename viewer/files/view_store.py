"""Last view of each file: the graph shown, and the part of it in view. Kept between starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onnx_workbench.viewer.core.folders import state_folder
from onnx_workbench.viewer.core.settings import RESTORE_VIEW

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.document_tab import DocumentTab

_MOST = 200


class ViewStore:
    """Remembers views by file. Reads its own file on first use; a broken one counts as empty."""

    def __init__(self) -> None:
        self._file = state_folder() / "views.json"
        self._views: dict[str, Any] | None = None

    def remember(self, tab: DocumentTab) -> None:
        """Note where a document is now."""
        if tab.path is not None:
            views = self._load()
            views.pop(str(tab.path), None)
            views[str(tab.path)] = {"graph": tab.graph_number(), "view": tab.view.scenes.view_state()}

    def restore(self, tab: DocumentTab) -> None:
        """Bring a document back to where it was left, if that is known and wanted."""
        if tab.path is None or not tab.workspace.settings.get(RESTORE_VIEW):
            return
        entry = self._load().get(str(tab.path))
        if isinstance(entry, dict) and isinstance(entry.get("graph"), int):
            tab.show_graph_number(entry["graph"])
            tab.view.scenes.restore_view_state(entry.get("view"))

    def save(self) -> None:
        """Write what is known; a folder that cannot be written to costs only the views."""
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
