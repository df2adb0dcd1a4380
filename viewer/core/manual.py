"""The manual's pages: HTML files made by docs/build.py, in the wheel or in the build folder of a checkout."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QWidget

from onnx_workbench import resources

#: Where the manual may be: in an installation, and where docs/build.py puts it in a checkout.
FOLDERS = (resources.path("manual"), resources.path("").parent / "build" / "manual" / "html")

#: Pages of widgets, by the names of their classes; panels have theirs by their ids.
_PAGES = {
    "ConvertDialog": "dialogs/convert",
    "CrashDialog": "dialogs/report",
    "CustomOperatorsDialog": "dialogs/custom-operators",
    "ExtractDialog": "dialogs/extract",
    "FindReplaceDialog": "dialogs/find-replace",
    "GraphView": "panels/graph",
    "ImportWeightsDialog": "dialogs/import-weights",
    "ListWindow": "panels/inspector",
    "MergeDialog": "dialogs/merge",
    "NewModelDialog": "dialogs/new-model",
    "PreferencesDialog": "dialogs/preferences",
    "ReportDialog": "dialogs/report",
    "SaveOptionsDialog": "dialogs/save-options",
    "ShortcutsDialog": "dialogs/keyboard-and-mouse",
    "SimplifyDialog": "dialogs/simplify",
}
_PANEL = "panel."  # what names of docks begin with


def manual_folder() -> Path | None:
    """Return the folder of the manual's HTML, or None where it was not built."""
    for folder in FOLDERS:
        if (folder / "index.html").exists():
            return folder
    return None


def page_name(widget: QWidget | None) -> str:
    """Return the manual's page about a widget or what it lies in, without its suffix; the first page for others."""
    while widget is not None:
        name = widget.objectName()
        if name.startswith(_PANEL):
            return f"panels/{name.removeprefix(_PANEL)}".replace("_", "-")
        page = _PAGES.get(type(widget).__name__)
        if page is not None:
            return page
        widget = widget.parentWidget()
    return "index"


def page_names() -> set[str]:
    """Return the names of all pages that widgets have, panels aside."""
    return {*_PAGES.values(), "index"}
