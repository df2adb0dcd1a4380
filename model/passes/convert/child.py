"""onnx's version converter, in a limited child process: it crashes on some files."""

from __future__ import annotations

from model.passes.inference.library import library


def run(payload: bytes) -> bytes:
    """From a line with the version to convert to and a model to the model that it becomes.

    Raises errors of onnx's own where it refuses.
    """
    version, _, data = payload.partition(b"\n")
    converted: bytes = library().version_converter.convert_version(data, int(version))
    return converted
