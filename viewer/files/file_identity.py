"""Identities of files, to detect that another program has written to them. Any thread, no Qt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.source import Identity
    from onnx_workbench.model.ir.graph import Model


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
