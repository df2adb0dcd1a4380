"""File dialogs for opening and saving."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from onnx_workbench.viewer.core.settings import LAST_FOLDER, Settings

_OPEN_FILTERS = (
    "ONNX models (*.onnx *.ort *.onnxtxt *.textproto *.pbtxt *.txtpb *.json *.pb *.onnxopset)",
    "All files (*)",
)


def ask_open(window: QWidget, settings: Settings) -> list[Path]:
    """Ask for files to open; empty if cancelled. The format is detected by content."""
    names, _ = QFileDialog.getOpenFileNames(window, "Open", settings.get(LAST_FOLDER), ";;".join(_OPEN_FILTERS))
    paths = [Path(name) for name in names]
    if paths:
        settings.set(LAST_FOLDER, str(paths[0].parent))
    return paths


def ask_another(window: QWidget, settings: Settings, title: str) -> Path | None:
    """Ask for a second model; None if cancelled."""
    return ask_file(window, settings, title, _OPEN_FILTERS)


def ask_file(window: QWidget, settings: Settings, title: str, filters: tuple[str, ...]) -> Path | None:
    """Ask for a file to read, starting in the last folder; None if cancelled."""
    name, _ = QFileDialog.getOpenFileName(window, title, settings.get(LAST_FOLDER), ";;".join(filters))
    if not name:
        return None
    settings.set(LAST_FOLDER, str(Path(name).parent))
    return Path(name)


def ask_folder(window: QWidget, settings: Settings, title: str) -> Path | None:
    """Ask for a folder; None if cancelled."""
    name = QFileDialog.getExistingDirectory(window, title, settings.get(LAST_FOLDER))
    if not name:
        return None
    settings.set(LAST_FOLDER, name)
    return Path(name)


def ask_save(
    window: QWidget, settings: Settings, title: str, suggestion: Path, filters: tuple[str, ...]
) -> Path | None:
    """Ask for a file to write; None if cancelled. The dialog confirms overwriting."""
    start = suggestion if suggestion.is_absolute() else Path(settings.get(LAST_FOLDER)) / suggestion
    name, chosen = QFileDialog.getSaveFileName(window, title, str(start), ";;".join(filters))
    if not name:
        return None
    path = Path(name)
    if not path.suffix:
        path = path.with_suffix(_first_suffix(chosen) or suggestion.suffix)
    settings.set(LAST_FOLDER, str(path.parent))
    return path


_SAVE_FILTERS = (
    "ONNX model (*.onnx)",
    "ONNX text (*.onnxtxt)",
    "Protocol buffer text (*.textproto)",
    "Protocol buffer JSON (*.json)",
)


def ask_save_model(window: QWidget, settings: Settings, suggestion: Path) -> Path | None:
    """Ask for a file to write a model to; its suffix determines the format."""
    return ask_save(window, settings, "Save as", suggestion, _SAVE_FILTERS)


def _first_suffix(chosen: str) -> str:
    """Return ``.svg`` of “Scalable image (*.svg)”."""
    _, _, patterns = chosen.partition("(*")
    return patterns.split(" ")[0].rstrip(")") if patterns.startswith(".") else ""
