"""Child-process side of loading a model's file with other programs. Imports little, as every child pays for it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from typing import Any

ONNX_RUNTIME, ONNX_CHECKER = "ONNX Runtime", "onnx.checker"

_LONGEST = 500  # characters of a message
#: File and function in a message of ONNX Runtime.
_NOISE = re.compile(r"/onnxruntime_src\S*:\d+ .*?\) (?=[A-Z])")


def load_in_child(data: bytes) -> bytes:
    """Return the child's side of loading a model: JSON with the message of each engine."""
    return _load(data)


def load_file_in_child(path: bytes) -> bytes:
    """Return the child's side of loading the file at a path, with its external data."""
    return _load(path.decode("utf-8", "surrogateescape"))


def _load(model: bytes | str) -> bytes:
    engines = {ONNX_CHECKER: _check}
    if importlib.util.find_spec("onnxruntime") is not None:
        engines = {ONNX_RUNTIME: _start_session} | engines
    found = {}
    for engine, load in engines.items():
        try:
            load(model)
            found[engine] = ""
        except Exception as error:  # noqa: BLE001 - theirs are not public, and each is a refusal
            found[engine] = _NOISE.sub("", " ".join(str(error).split()))[:_LONGEST] or type(error).__name__
    return json.dumps(found).encode()


def _check(model: bytes | str) -> None:
    checker: Any = importlib.import_module("onnx.checker")
    checker.check_model(model)


def _start_session(model: bytes | str) -> None:
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
