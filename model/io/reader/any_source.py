"""Models from whatever a caller has: a path, bytes, a stream, a message of the onnx package, or a model already."""

from __future__ import annotations

import os
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Progress


def read_source(source: Any, *, salvage: bool = False, progress: Progress = SILENT) -> Model:
    """Read a model from a path (``-`` is standard input), bytes, a binary stream or an onnx.ModelProto.

    TypeError for anything else. ModelError: not ONNX, damaged, or incomplete without `salvage`.
    """
    if hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    if not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)) and not hasattr(source, "read"):
        raise TypeError(
            f"{source!r:.200} is not a model; expected a path, bytes, a binary stream or an onnx.ModelProto"
        )
    model = load(source, progress)
    truncation = "" if salvage or model.source is None else model.source.truncation
    if truncation:
        raise ModelError(
            "The file is incomplete",
            f"{truncation.rstrip('.')}. To work with what is left of it, salvage it (--salvage, or salvage=True).",
            model.source.name if model.source is not None else None,
        )
    return model


def as_model(target: Any) -> Model:
    """Return the model itself, that of a document, or one read from a path, bytes or an onnx.ModelProto."""
    if isinstance(target, Model):
        return target
    of_document = getattr(target, "model", None)  # commands that only look do not import what edits
    if isinstance(of_document, Model):
        return of_document
    if isinstance(target, (str, os.PathLike, bytes)) or hasattr(target, "SerializeToString"):
        return read_source(target)
    raise TypeError(
        f"{target!r:.200} is not a model; expected a Model or a Document, a path, bytes or an onnx.ModelProto"
    )
