"""onnx's version converter in a sandboxed child process: it crashes on some files."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.schemas.compiled_library import library


def run(payload: bytes) -> bytes:
    """Convert models to a version; one answer each: the converted model, or the reason for refusal."""
    version, models = json.loads(payload)
    return json.dumps([_converted(b64decode(model), version) for model in models]).encode()


def _converted(model: bytes, version: int) -> dict[str, str]:
    answer: dict[str, str] = {}

    def refuse(error: BaseException) -> None:
        answer["refused"] = str(error)

    with errors_to(refuse):
        answer["model"] = b64encode(library().version_converter.convert_version(model, version)).decode()
    return answer
