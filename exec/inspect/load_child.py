"""Child process that loads a model's file with other programs. Has few imports, for a quick start."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from typing import Any

ONNX_RUNTIME, ONNX_CHECKER = "ONNX Runtime", "onnx.checker"

_LONGEST = 500  # characters of a message
#: Source file and function in messages of ONNX Runtime, which are removed.
_NOISE = re.compile(r"/onnxruntime_src\S*:\d+ .*?\) (?=[A-Z])")


def load_file_in_child(path: bytes) -> bytes:
    """Load the file at a path, with its external data.

    Returns JSON with the error message of each program, empty where it accepts the model.
    """
    model = path.decode("utf-8", "surrogateescape")
    engines = {ONNX_CHECKER: _check}
    if importlib.util.find_spec("onnxruntime") is not None:
        engines = {ONNX_RUNTIME: _start_session} | engines
    found = {}
    for engine, load in engines.items():
        try:
            load(model)
            found[engine] = ""
        except Exception as error:  # noqa: BLE001 - their exception classes are not public; each one is a refusal
            found[engine] = _NOISE.sub("", " ".join(str(error).split()))[:_LONGEST] or type(error).__name__
    return json.dumps(found).encode()


def _check(model: str) -> None:
    checker: Any = importlib.import_module("onnx.checker")
    checker.check_model(model)


def _start_session(model: str) -> None:
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
