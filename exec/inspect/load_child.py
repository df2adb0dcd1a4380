"""Child process that loads a model's file with other programs. Has few imports, for a quick start."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Callable
from typing import Any

from onnx_workbench.model.errors import errors_to

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
    return json.dumps({engine: _refusal(load, model) for engine, load in engines.items()}).encode()


def _refusal(load: Callable[[str], None], model: str) -> str:
    """Return why a program does not load a model; empty if it does. Its exception classes are not public."""
    errors: list[Exception] = []
    with errors_to(errors.append):
        load(model)
    return "".join(_NOISE.sub("", " ".join(str(e).split()))[:_LONGEST] or type(e).__name__ for e in errors)


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
