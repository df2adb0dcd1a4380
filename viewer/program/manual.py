"""The manual's pages: HTML files made by docs/build.py, in the wheel or in the build folder of a checkout."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QWidget

from onnx_workbench import resources

#: Where the manual may be: in an installation, and where docs/build.py puts it in a checkout.
FOLDERS = (resources.path("manual"), resources.path("").parent / "build" / "manual" / "html")

#: Pages of widgets, by class name; the pages of panels are named by their ids.
_PAGES = {
    "ConvertDialog": "dialogs/convert",
    "CrashDialog": "dialogs/report",
    "CustomOperatorsDialog": "dialogs/custom-operators",
    "EditTextDialog": "dialogs/edit-message",
    "ExtractDialog": "dialogs/extract",
    "FindPlacesDialog": "dialogs/find-places",
    "FindReplaceDialog": "dialogs/find-replace",
    "GraphView": "panels/graph",
    "ImportWeightsDialog": "dialogs/import-weights",
    "MergeDialog": "dialogs/merge",
    "NewModelDialog": "dialogs/new-model",
    "PreferencesDialog": "dialogs/preferences",
    "QuantizeDialog": "dialogs/quantize",
    "RecoveredFilesDialog": "dialogs/recovered-files",
    "ReportDialog": "dialogs/report",
    "SaveOptionsDialog": "dialogs/save-options",
    "ShortcutsDialog": "dialogs/keyboard-and-mouse",
    "SimplifyDialog": "dialogs/simplify",
}
_PANEL = "panel."  # prefix of the names of docks


def manual_folder() -> Path | None:
    """Return the folder of the manual's HTML, or None if it was not built."""
    for folder in FOLDERS:
        if (folder / "index.html").exists():
            return folder
    return None


def page_name(widget: QWidget | None) -> str:
    """Return the manual's page about a widget or its parents, without suffix; the first page if there is none."""
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
    """Return the names of all pages of widgets, except panels."""
    return {*_PAGES.values(), "index"}
