"""ONNX Runtime as an oracle: where it is installed, and for what the installed version knows."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import onnx
import pytest
from onnx import helper


def make_session(model: onnx.ModelProto | bytes) -> Any:
    """An InferenceSession on one thread that runs the model as it is, without optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def session_or_skip(model: onnx.ModelProto | bytes) -> Any:
    """Like `make_session`; skips the test where ONNX Runtime is not installed or is too old for the model's opset."""
    pytest.importorskip("onnxruntime")
    proto = onnx.load_from_string(model) if isinstance(model, bytes) else model
    if not is_loaded(smallest_model_like(proto).SerializeToString()):
        pytest.skip("ONNX Runtime does not know the operator sets or the IR version")
    return make_session(model)


@lru_cache
def is_loaded(data: bytes) -> bool:
    """Whether ONNX Runtime is installed and loads the model."""
    if find_spec("onnxruntime") is None:
        return False
    with suppress(Exception):  # its exception classes are not public
        make_session(data)
        return True
    return False


def smallest_model_like(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of one node with the same operator sets and IR version: what refuses it does not know these."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "smallest", [x], [y])
    versions = {"": 13} | {opset.domain: opset.version for opset in model.opset_import}
    imports = [helper.make_opsetid(*version) for version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=model.ir_version)
