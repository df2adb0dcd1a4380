"""From what a person names (a file, ``-`` for standard input, the sample) to a model. Any thread, no Qt."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from model.progress import SILENT, Progress

if TYPE_CHECKING:
    from model.graph import Model
    from model.io.source import Identity

STANDARD_INPUT = "-"


def sample_model() -> Path:
    """The model that comes with the program."""
    import resources

    return resources.path("sample/digits.onnx")


def read(name: str | Path, progress: Progress = SILENT) -> Model:
    """Read a model; ModelError says what is wrong with it. Reads no weights."""
    from model import load

    return load(name, progress)


def import_view() -> None:
    """Import what a document needs (numpy among it), and the panels around it, so that the GUI thread need not."""
    for name in ("viewer.document_tab", "viewer.canvas.view", "model.recording.journal"):
        import_module(name)
    for info in import_module("viewer.panels").PANELS:
        if info.open_at_first:
            info.load()


def import_runs() -> None:
    """Import what running a model and looking at its values need, and the other panels, see import_view."""
    import_module("viewer.runs.control")
    for info in import_module("viewer.panels").PANELS:
        info.load()


def identity_read(model: Model) -> Identity | None:
    """That of the file that a model was read from, which may be another than the one at its place by now."""
    source = model.source
    return None if source is None else source.identity


def identity_at(path: Path) -> Identity | None:
    """What tells the file there is now from what it was or will be; None when there is none to look at."""
    from model.io.source import identity_of

    try:
        return identity_of(path.stat())
    except OSError:
        return None
