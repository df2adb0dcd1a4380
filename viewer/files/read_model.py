"""Reading a model from a path, ``-`` for standard input, or the sample. Any thread, no Qt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.source import Identity
    from onnx_workbench.model.ir.graph import Model

STANDARD_INPUT = "-"


def sample_model() -> Path:
    """Return the path of the sample model."""
    from onnx_workbench import resources

    return resources.path("sample/digits.onnx")


def read(name: str | Path, progress: Progress = SILENT) -> Model:
    """Read a model without its weights; ModelError with the problem if that fails."""
    from onnx_workbench.model.io.reader.read import load

    return load(name, progress)


def identity_read(model: Model) -> Identity | None:
    """Return the identity of the file that a model was read from, which may have been replaced since."""
    source = model.source
    return None if source is None else source.identity


def missing_at(model: Model, path: Path) -> str:
    """Describe the missing part of the file at a path if it is the truncated file a model was read from; else ""."""
    source = model.source
    if source is None or not source.truncation or source.identity is None:
        return ""
    return source.truncation if identity_at(path) == source.identity else ""


def identity_at(path: Path) -> Identity | None:
    """Return the identity of the current file, which changes when it is replaced; None if there is none."""
    from onnx_workbench.model.io.reader.source import identity_of

    try:
        return identity_of(path.stat())
    except OSError:
        return None
