"""Editing by message and field: every plain field of a model with everything is set, saved, read again and undone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_workbench.model.edits.raw_fields import add_field, addable, can_remove, can_set, remove_field, set_field
from onnx_workbench.model.edits.raw_paths import path_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.raw_view import (
    RawField,
    RawPart,
    contents_of,
    fields,
    has_parts,
    part_source,
    parts,
    root,
    source_text,
)
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model import builders
from tests.model.snapshots import assert_linked


def proto() -> onnx.ModelProto:
    """Branches, a function with a default, training, devices with sharding, annotations, odd attributes."""
    made = onnx.parser.parse_model(builders.BRANCHES)
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
        elif has_parts(field):
            for part in parts(contents, field):
                yield (*steps, field.key, part.key), part


def rows(model):
    contents = contents_of(model)
    return contents, list(walk(contents, root(contents)))


def test_every_scalar_of_a_model_with_everything_is_edited_in_place(document):
    contents, found = rows(document.model)
    for steps, row in found:
        source = part_source(contents, row) if isinstance(row, RawPart) else source_text(contents, row)
        if source is not None:
            assert can_set(document.model, steps), steps


@pytest.mark.long
def test_whatever_can_be_removed_comes_back_with_undo(document):
    before = to_bytes(document.model)
    removed = 0
    for steps, _ in rows(document.model)[1]:
        if not can_remove(document.model, steps):
            continue
        try:
            with document.edit("Remove") as edit:
                remove_field(edit, steps)
        except ModelError:
            assert to_bytes(document.model) == before
            continue
        removed += to_bytes(document.model) != before
        assert_linked(document.model)
        while document.undo():
            pass
        assert to_bytes(document.model) == before
    assert removed > 100


@pytest.mark.long
def test_whatever_can_be_added_is_in_the_file_and_goes_with_undo(document):
    texts = {"name of a value": "w", "name of a configuration": "pair", "op_type": "Relu", "key = value": "NEW = w"}
    before = to_bytes(document.model)
    messages = [((), None), *((steps, row) for steps, row in rows(document.model)[1] if is_message(row))]
    added = 0
    for steps, _ in messages:
        for name, ask in addable(document.model, steps).items():
            had = len(rows(document.model)[1])
            try:
                with document.edit("Add") as edit:
                    add_field(edit, steps, name, texts.get(ask, "7"))
            except ModelError:
                assert to_bytes(document.model) == before
                continue
            after = to_bytes(document.model)
            assert to_bytes(load(after)) == after
            added += len(rows(document.model)[1]) > had
            document.undo()
            assert to_bytes(document.model) == before
    assert added > 100


def is_message(row):
    return isinstance(row, RawField) and row.message is not None


@pytest.fixture
def document() -> Document:
    return Document(load(proto().SerializeToString()))


def path(text: str):
    """``graph.node[1].name`` as a path."""
    parts = (part.partition("[") for part in text.split("."))
    return tuple((name, int(index.rstrip("]") or 0)) for name, _, index in parts)


def at(message, steps):
    for name, index in steps:
        message = getattr(message, name)
        if not isinstance(message, (str, bytes, int, float)) and hasattr(message, "__getitem__"):
            message = message[index]
    return message


NODE = "graph.node[0]"
INNER = f"{NODE}.attribute.type_protos[1].map_type.value_type"
W = "graph.initializer[1]"
TENSORS = f"{NODE}.attribute[1].tensors"
SPEC = f"{NODE}.device_configurations.sharding_spec"


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("configuration.name", "grid", "grid"),
        ("configuration.num_devices", "8", 8),
        ("configuration[1].device[1]", "cpu", "cpu"),
        ("opset_import[1].domain", "elsewhere", "elsewhere"),
        ("functions.attribute", "gain", "gain"),
        ("functions.attribute_proto.name", "offset", "offset"),
        ("functions.attribute_proto.f", "1.5", 1.5),
        ("functions.attribute_proto.doc_string", "other", "other"),
        ("functions.attribute_proto.type", "2", 2),
        ("functions.input", "operand", "operand"),
        ("functions.output", "result", "result"),
        ("functions.opset_import.domain", "my.domain", "my.domain"),
        (f"{NODE}.attribute.type", "6", 6),
        (f"{NODE}.attribute.type", "floats", 6),
        (f"{NODE}.attribute.type_protos.tensor_type.elem_type", "7", 7),
        (f"{NODE}.attribute.type_protos.tensor_type.shape.dim[1].dim_param", "M", "M"),
        (f"{NODE}.attribute.type_protos[1].map_type.key_type", "8", 8),
        (
            f"{NODE}.attribute.type_protos[1].map_type.value_type.sequence_type.elem_type.tensor_type.elem_type",
            "11",
            11,
        ),
        (f"{NODE}.device_configurations.configuration_id", "pair", "pair"),
        (f"{NODE}.device_configurations.pipeline_stage", "3", 3),
        (f"{SPEC}.tensor_name", "d", "d"),
        (f"{SPEC}.device", "1", 1),
        (f"{SPEC}.index_to_device_group_map.value[1]", "1", 1),
        (f"{SPEC}.sharded_dim.axis", "-1", -1),
        (f"{SPEC}.sharded_dim.simple_sharding.dim_param", "K", "K"),
        (f"{SPEC}.sharded_dim.simple_sharding.num_shards", "4", 4),
        ("graph.quantization_annotation.tensor_name", "d", "d"),
        ("graph.quantization_annotation.quant_parameter_tensor_names.key", "ZERO_POINT_TENSOR", "ZERO_POINT_TENSOR"),
        ("graph.quantization_annotation.quant_parameter_tensor_names.value", "x", "x"),
        ("training_info.update_binding.value", "w", "w"),
        ("graph.sparse_initializer.values.name", "sparse", "sparse"),
        ("graph.sparse_initializer.values.float_data", "2.5", 2.5),
        ("graph.sparse_initializer.indices.int64_data", "3", 3),
        ("graph.sparse_initializer.dims", "8", 8),
        (f"{W}.name", "weights", "weights"),
        (f"{W}.doc_string", "what it is", "what it is"),
        (f"{W}.dims", "2", 2),
        (f"{W}.data_type", "6", 6),
        (f"{W}.float_data[2]", "-0.5", -0.5),
        (f"{W}.external_data.value", "elsewhere.bin", "elsewhere.bin"),
        (f"{W}.metadata_props.key", "source", "source"),
        (f"{W}.segment.end", "9", 9),
        (f"{TENSORS}.raw_data", "00 01 02 03", b"\0\1\2\3"),
        (f"{TENSORS}[1].int32_data[1]", "-3", -3),
        (f"{TENSORS}[2].int64_data", str(-(1 << 63)), -(1 << 63)),
        (f"{TENSORS}[3].uint64_data", str((1 << 64) - 1), (1 << 64) - 1),
        (f"{TENSORS}[4].double_data[1]", "1e300", 1e300),
        (f"{TENSORS}[5].string_data[1]", "ümlaut", "ümlaut".encode()),
    ],
)
def test_a_field_is_set_and_taken_back(document, field, text, value):
    before = to_bytes(document.model)
    steps = path(field)
    assert can_set(document.model, steps)
    with document.edit("Set") as edit:
        set_field(edit, steps, text)
    after = to_bytes(document.model)
    assert at(onnx.ModelProto.FromString(after), steps) == value
    assert to_bytes(load(after)) == after
    document.undo()
    assert to_bytes(document.model) == before


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("configuration.name", "pair", "share a name"),
        ("configuration.num_devices", "many", "not a whole number"),
        ("opset_import[1].domain", "ai.onnx", "imported already"),
        (f"{NODE}.attribute.type", "99", "99 is not a AttributeType"),
        (f"{SPEC}.device", "9", "no device 9"),
        (f"{SPEC}.tensor_name", "nobody", "no input or output"),
        ("graph.quantization_annotation.tensor_name", "nobody", "no value"),
        ("training_info.update_binding.value", "nobody", "No output"),
        ("functions.attribute", "bias", "already"),
    ],
)
def test_what_does_not_fit_is_refused(document, field, text, said):
    before = to_bytes(document.model)
    with pytest.raises(ModelError, match=said), document.edit("Set") as edit:
        set_field(edit, path(field), text)
    assert to_bytes(document.model) == before


def test_dense_and_sparse_initializers_are_reported_apart(document):
    graph = document.model.graph
    wanted = (("initializer", 0), ("initializer", 1), ("sparse_initializer", 0))
    for value, step in zip(graph.initializers, wanted, strict=True):
        assert path_of(value) == (("graph", 0), step)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("graph.input[0].type.tensor_type.shape.dim[0].dim_value", str(1 << 63)),
        ("graph.input[0].type.tensor_type.elem_type", str(1 << 31)),
        ("graph.node[0].device_configurations[0].pipeline_stage", str(1 << 31)),
        ("configuration[0].num_devices", str(1 << 31)),
        ("functions[0].attribute_proto[0].f", "1e39"),
    ],
)
def test_numbers_that_are_too_large_for_their_field_are_refused(document, field, text):
    with pytest.raises(ModelError, match="too large"), document.edit("Set") as edit:
        set_field(edit, path(field), text)
    assert to_bytes(document.model) == to_bytes(load(proto().SerializeToString()))


def test_an_enum_is_no_place_for_half_a_character(document):
    with pytest.raises(ModelError, match="not a whole number"), document.edit("Set") as edit:
        set_field(edit, path("graph.initializer[0].data_type"), "\ud800")


def test_a_reference_names_something(document):
    where = path("functions[0].node[0].attribute[0]")
    with document.edit("Name nothing") as edit:
        set_field(edit, (*where, ("ref_attr_name", 0)), "")
    attribute = next(iter(document.model.functions[0].body.nodes.first.attributes.values()))
    assert (attribute.reference, attribute.value) == ("", 0.0)
    to_bytes(document.model)
    with pytest.raises(ModelError, match="refers to nothing"), document.edit("Add") as edit:
        add_field(edit, where, "ref_attr_name", "")
    assert not can_set(document.model, where)


@pytest.mark.parametrize("field", [f"{NODE}.attribute.type", "opset_import.domain", "graph.name", f"{W}.name", "graph"])
def test_what_a_message_needs_cannot_be_removed(document, field):
    assert not can_remove(document.model, path(field))
    with pytest.raises(ModelError, match="cannot be removed"), document.edit("Remove") as edit:
        remove_field(edit, path(field))


def test_a_pair_is_added_with_both_sides(document):
    with document.edit("Add") as edit:
        add_field(edit, path(W), "metadata_props", "made by = hand")
    added = at(onnx.ModelProto.FromString(to_bytes(document.model)), path(W)).metadata_props[-1]
    assert (added.key, added.value) == ("made by", "hand")
    with pytest.raises(ModelError, match="is not a pair"), document.edit("Add") as edit:
        add_field(edit, path(W), "metadata_props", "alone")


def test_unknown_fields_of_a_message_survive_an_edit_beside_them():
    data = proto()
    unknown = b"\xf8\x3e\x2a"
    for message in (data.configuration[0], data.graph.quantization_annotation[0]):
        message.MergeFromString(unknown)
    document = Document(load(data.SerializeToString()))
    with document.edit("Set") as edit:
        set_field(edit, path("configuration.num_devices"), "8")
        set_field(edit, path("graph.quantization_annotation.quant_parameter_tensor_names.key"), "ZERO_POINT_TENSOR")
    after = onnx.ModelProto.FromString(to_bytes(document.model))
    for message in (after.configuration[0], after.graph.quantization_annotation[0]):
        assert message.SerializeToString().endswith(unknown)
