"""File dialogs for opening and saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.program.settings import LAST_FOLDER, Settings

if TYPE_CHECKING:
    from onnx_workbench.model.io.writer.targets import Kind
    from onnx_workbench.model.ir.graph import Model

_SUFFIXES = (".onnx", ".ort", ".onnxtxt", ".textproto", ".pbtxt", ".txtpb", ".json", ".pb", ".onnxopset")


def _open_filters() -> tuple[str, ...]:
    """Models in the program's formats and in those of extensions."""
    from onnx_workbench.model.io.reader.custom import suffixes

    return f"ONNX models ({' '.join(f'*{suffix}' for suffix in (*_SUFFIXES, *suffixes()))})", "All files (*)"


def ask_open(window: QWidget, settings: Settings) -> list[Path]:
    """Ask for files to open; empty if cancelled. The format is detected by content."""
    return ask_files(window, settings, "Open", _open_filters())


def ask_another(window: QWidget, settings: Settings, title: str) -> Path | None:
    """Ask for a second model; None if cancelled."""
    return ask_file(window, settings, title, _open_filters())


def ask_file(window: QWidget, settings: Settings, title: str, filters: tuple[str, ...]) -> Path | None:
    """Ask for a file to read, starting in the last folder; None if cancelled."""
    name, _ = QFileDialog.getOpenFileName(window, title, settings.get(LAST_FOLDER), ";;".join(filters))
    if not name:
        return None
    settings.set(LAST_FOLDER, str(Path(name).parent))
    return Path(name)


def ask_files(window: QWidget, settings: Settings, title: str, filters: tuple[str, ...]) -> list[Path]:
    """Ask for files to read, starting in the last folder; empty if cancelled."""
    names, _ = QFileDialog.getOpenFileNames(window, title, settings.get(LAST_FOLDER), ";;".join(filters))
    if names:
        settings.set(LAST_FOLDER, str(Path(names[0]).parent))
    return [Path(name) for name in names]


def ask_folder(window: QWidget, settings: Settings, title: str) -> Path | None:
    """Ask for a folder; None if cancelled."""
    name = QFileDialog.getExistingDirectory(window, title, settings.get(LAST_FOLDER))
    if not name:
        return None
    settings.set(LAST_FOLDER, name)
    return Path(name)


@runtime_checkable
class _HoldsModels(Protocol):
    """Protocol of what holds the open documents of a window."""

    def open_models(self) -> list[Model]:
        """The models of all open documents."""

    def report(self, error: ModelError) -> None:
        """Show an error."""


def ask_save(
    window: QWidget, settings: Settings, title: str, suggestion: Path, filters: tuple[str, ...], kind: Kind
) -> Path | None:
    """Ask for a file of this kind to write; None if cancelled, or if the file must not be replaced.

    The dialog confirms overwriting. Why a file must not be replaced (see `check_target`) is shown in the window.
    """
    start = suggestion if suggestion.is_absolute() else Path(settings.get(LAST_FOLDER)) / suggestion
    own = next((entry for entry in filters if suggestion.suffix and f"*{suggestion.suffix.lower()})" in entry), "")
    name, chosen = QFileDialog.getSaveFileName(window, title, str(start), ";;".join(filters), own)
    if not name:
        return None
    path = Path(name)
    if not path.suffix:
        path = path.with_suffix(_first_suffix(chosen) or suggestion.suffix)
    settings.set(LAST_FOLDER, str(path.parent))
    return path if kind == "model" or _may_replace(path, kind) else None


def _may_replace(path: Path, kind: Kind) -> bool:
    from onnx_workbench.model.io.writer.targets import check_target

    for area in QApplication.allWidgets():
        if isinstance(area, _HoldsModels):
            try:
                check_target(path, kind, others=area.open_models())
            except ModelError as error:
                area.report(error)
                return False
    return True


_SAVE_FILTERS = (
    "ONNX model (*.onnx)",
    "ONNX text (*.onnxtxt)",
    "Protocol buffer text (*.textproto)",
    "Protocol buffer JSON (*.json)",
)


def ask_save_model(window: QWidget, settings: Settings, suggestion: Path) -> Path | None:
    """Ask for a file to write a model to; its suffix determines the format. The save judges what may be replaced."""
    return ask_save(window, settings, "Save as", suggestion, _SAVE_FILTERS, "model")


def _first_suffix(chosen: str) -> str:
    """Return ``.svg`` of “Scalable image (*.svg)”."""
    _, _, patterns = chosen.partition("(*")
    return patterns.split(" ")[0].rstrip(")") if patterns.startswith(".") else ""
