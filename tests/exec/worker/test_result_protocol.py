"""Results as the worker sends them: what arrives is what was sent, and large ones are compact."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.server import _tables
from onnx_workbench.model.io.reader.read import load
from tests.exec.texts import parse

X = np.ones(3, np.float32)


def sent(session: Session, feeds: dict[str, Any]) -> Any:
    stepper = session.steps(feeds)
    stepper.resume()
    result = stepper.result()
    return result, pickle.loads(pickle.dumps(_tables(result, stepper)))


def test_a_result_arrives_as_it_was() -> None:
    text = """g (float[3] x, bool c) => (float[3] y, float[3] z) {
      k = Constant <value_float = 1.0> ()
      y = If (c) < then_branch = t () => (float[3] a) { a = Add(x, k) },
                   else_branch = e () => (float[3] b) { b = Neg(x) } >
      bad = Reshape(x, x) z = Abs(bad)
    }"""
    result, found = sent(Session(parse(text)), {"x": X, "c": np.array(True)})
    assert dict(found.slots.items()) == dict(result.layout.slots.items())
    assert (found.outputs, list(found.steps)) == (result.layout.outputs, list(result.layout.steps))
    rows = [replace(row, operator="", title="") for row in result.nodes]
    assert list(found.nodes) == rows
    assert [row.state for row in rows] == [State.CONSTANT, State.DONE, State.FAILED, State.SKIPPED]
    assert [replace(row, operator="", title="") for row in result.inner] == list(found.inner)
    assert found.inner_labels == (("Add", "Add"),)
    assert {slot: str(summary.info) for slot, summary in found.infos.items() if slot} == {
        slot: str(result.info(key)) for key, slot in result.layout.slots.items() if result.info(key) is not None
    }


@pytest.mark.long
def test_the_result_of_many_nodes_is_compact() -> None:
    count = 5000
    nodes = [helper.make_node("Neg", [f"v{n}"], [f"v{n + 1}"]) for n in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = Session(load(model.SerializeToString()))
    stepper = session.steps({"v0": X})
    stepper.resume()
    assert len(pickle.dumps(_tables(stepper.result(), stepper))) < 110 * count
