"""A model with every message of onnx.proto, and its messages as a tree."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser

from onnx_workbench.model.io.raw_view import fields
from onnx_workbench.model.io.wire import schemas
from tests.model import builders
from tests.model.io.writer.test_export_graph import with_unknown_fields


def proto() -> onnx.ModelProto:
    """Branches, a function with a default, training, devices with sharding, annotations, odd attributes."""
    made = builders.proto(builders.BRANCHES)
    made.ir_version = 11
    made.configuration.add(name="mesh", num_devices=4)
    made.configuration.add(name="pair", num_devices=2, device=["cuda:0", "cuda:1"])
    node = made.graph.node[0]
    part = node.device_configurations.add(configuration_id="mesh", pipeline_stage=1)
    spec = part.sharding_spec.add(tensor_name="x", device=[0, -1])
    spec.index_to_device_group_map.add(key=-1, value=[2, 3])
    spec.sharded_dim.add(axis=0).simple_sharding.add(dim_param="N", num_shards=2)
    annotation = made.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    training = made.training_info.add()
    training.algorithm.CopyFrom(onnx.helper.make_graph([onnx.helper.make_node("Neg", ["w"], ["w1"])], "step", [], []))
    training.algorithm.output.add(name="w1")
    training.algorithm.output.add(name="w")
    training.update_binding.add(key="w", value="w1")
    default = made.functions[0].attribute_proto.add(name="bias", type=onnx.AttributeProto.FLOAT, f=0.5)
    default.doc_string = "how much"
    types = node.attribute.add(name="types", type=onnx.AttributeProto.TYPE_PROTOS)
    types.type_protos.add().CopyFrom(onnx.helper.make_tensor_type_proto(1, [1, "N"]))
    floats = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(1, []))
    types.type_protos.add().CopyFrom(onnx.helper.make_map_type_proto(7, floats))
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "sp")
    indices = onnx.numpy_helper.from_array(np.zeros(1, np.int64))
    values, indices = typed(values), typed(indices)
    made.graph.sparse_initializer.add().CopyFrom(onnx.helper.make_sparse_tensor(values, indices, [4]))
    made.graph.initializer.append(odd_tensor())
    tensors = node.attribute.add(name="tensors", type=onnx.AttributeProto.TENSORS)
    tensors.tensors.extend(every_form())
    return made


def typed(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """The same with its values in the typed field."""
    return onnx.helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, onnx.numpy_helper.to_array(tensor))


def odd_tensor() -> onnx.TensorProto:
    """Every field but raw data; what says that its values are elsewhere is not in force."""
    made = onnx.helper.make_tensor("odd", onnx.TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    made.doc_string = "odd"
    made.external_data.add(key="location", value="nowhere.bin")
    made.metadata_props.add(key="k", value="v")
    made.segment.begin, made.segment.end = 0, 3
    return made


def every_form() -> list[onnx.TensorProto]:
    """A tensor in each field that values can be in."""
    kinds = onnx.TensorProto
    return [
        onnx.numpy_helper.from_array(np.zeros(1, np.float32), "raw"),
        onnx.helper.make_tensor("int32", kinds.INT32, [2], [1, -2]),
        onnx.helper.make_tensor("int64", kinds.INT64, [1], [1 << 40]),
        onnx.helper.make_tensor("uint64", kinds.UINT64, [1], [1 << 63]),
        onnx.helper.make_tensor("double", kinds.DOUBLE, [2], [0.5, 0.25]),
        onnx.helper.make_tensor("string", kinds.STRING, [2], [b"a", b"b"]),
    ]


def walk(contents, parent, steps=()):
    """Every row of the raw view with its path."""
    for field in fields(contents, parent):
        yield (*steps, field.key), field
        if field.message is not None:
            yield from walk(contents, field, (*steps, field.key))


def everything() -> bytes:
    """The same, its messages with an unknown text each, with a tensor too large to go through protobuf."""
    made = proto()
    made.graph.initializer.append(onnx.helper.make_tensor("large", 1, [100, 100], bytes(40_000), raw=True))
    return with_unknown_fields(made.SerializeToString(), schemas()["ModelProto"], [])
