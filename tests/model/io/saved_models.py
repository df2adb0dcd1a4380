"""Models with weights inside and beside them, for tests of saving."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_workbench.model.history.steps import SetField


def weights(count=3, size=3000):
    generator = np.random.default_rng(0)
    return {f"w{i}": generator.standard_normal(size, np.float32) for i in range(count)}


def proto_of(arrays, external=""):
    names = list(arrays)
    nodes = [helper.make_node("Sum", ["x", *names], ["y"], "sum")]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xy"]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    if external:
        offset = 0
        for tensor in tensors:
            length = len(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in {"location": external, "offset": offset, "length": length}.items():
                tensor.external_data.add(key=key, value=str(value))
            offset += length
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], tensors)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def edit(model):
    SetField(model.graph.nodes.first, "name", "edited").apply()


def assert_holds(model, arrays=None):
    for (name, array), value in zip((arrays or weights()).items(), model.graph.initializers, strict=True):
        assert value.name == name
        np.testing.assert_array_equal(value.initializer.numpy(), array)


def debris(folder):
    return [p.name for p in folder.iterdir() if p.name.endswith(".saving")]
