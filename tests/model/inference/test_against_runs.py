"""Kernels and inference have one size of each output: compared over operators, attributes and versions."""

import random

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.session import Session
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.types import ElementType, TensorType
from tests.exec.test_backend_suite import node_cases, runtime_value
from tests.fuzz.sweeps import changed_case, drawn_case


def disagreement(proto, feeds):
    """How the type of an output differs from that of its value in a run; empty where no run gives one.

    What is fed is a constant for inference, so that sizes in it are known.
    """
    given = onnx.ModelProto.FromString(proto.SerializeToString())
    for value in (*given.graph.output, *given.graph.value_info):
        value.ClearField("type")
    for name, array in feeds.items():
        if isinstance(array, np.ndarray) and array.dtype.kind in "iubf" and array.size < 100:
            given.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = load(given.SerializeToString())
    result = Session(load(proto.SerializeToString())).run(feeds, time_limit=20)
    if not result.ok or result.stopped:
        return ""
    inferred = infer(model)
    wrong = [m for m in inferred.misfits if m.is_sure and not m.is_computed]
    if wrong:  # kernels take more types than operators
        return "" if wrong[0].is_type else f"{wrong[0].node.op_type}: {wrong[0].reason}"
    for value in model.graph.outputs:
        array, kind = result.outputs.get(value.name), inferred.types.get(value)
        if not isinstance(array, np.ndarray) or kind is None:
            continue
        if not isinstance(kind, TensorType) or kind.element_type != ElementType.from_numpy(array.dtype):
            return f"{value.name} is {array.dtype}, inferred {kind}"
        if kind.shape is None:
            continue
        sizes = zip(kind.shape.dims, array.shape, strict=False)
        if kind.shape.rank != array.ndim or any(isinstance(a, int) and a != b for a, b in sizes):
            return f"{value.name} has shape {array.shape}, inferred {kind}"
    return ""


def test_over_onnx_cases():
    found = {}
    for name, case in node_cases().items():
        if case.data_sets and "expanded" not in name:
            names = [value.name for value in case.model.graph.input]
            feeds = {n: runtime_value(v) for n, v in zip(names, case.data_sets[0][0], strict=True)}
            if message := disagreement(case.model, feeds):
                found[name] = message
    assert not found


@pytest.mark.long
@pytest.mark.parametrize("make", [drawn_case, changed_case])
def test_over_operators_with_other_attributes_and_versions(make):
    found = {}
    for number in range(250):
        made = make(random.Random(f"sizes:{number}"))
        if made is not None and (message := disagreement(*made)):
            found[number] = f"{made[0].graph.node[-1].op_type}: {message}"
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("make", [drawn_case, changed_case])
def test_over_very_many(make):
    seed = random.randrange(1 << 30)
    for number in range(5000):
        made = make(random.Random(f"{seed}:{number}"))
        message = "" if made is None else disagreement(*made)
        assert not message, f"{seed}:{number} {made[0].graph.node[-1].op_type}: {message}"
