from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnx_workbench.model.edits import copy_paste, functions, nodes
from onnx_workbench.model.edits.properties import set_metadata, set_text
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInputs,
)
from onnx_workbench.model.io.reader import read
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.wire import encode_tag, encode_varint, schemas
from onnx_workbench.model.io.writer.export_graph import write_model
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage, StoragePlan
from onnx_workbench.model.ir.attributes import AttributeKind, make_attribute
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
)
from tests.model import builders
from tests.model.io.wire_messages import fields_of, models

TEXT = """
<ir_version: 10, opset_import: ["" : 21], doc_string: "a model">
agraph (float[N, 4] x) => (float[N, 4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[N, 4] a>
{
    [first] a = Mul (x, w)
    [second] b = Softmax <axis: int = 1> (a)
    [third] y = Concat <axis = 0> (b, b, a)
}
"""


@pytest.fixture
def proto():
    return builders.proto(TEXT)


@pytest.fixture
def model(proto):
    return load(proto.SerializeToString())


def written(model):
    return onnx.ModelProto.FromString(to_bytes(model))


def look_at_everything(model):
    for graph in model.graphs():
        for node in graph.nodes:
            _ = node.attributes, node.details
        for value in graph.values():
            _ = value.type, value.metadata


def with_unknown_fields(data, schema, counter):
    """A message with an unknown field appended to it and to every message inside it."""
    out = b""
    for field in fields_of(data):
        known = schema.fields.get(field.number)
        content = data[field.content : field.end]
        if field.wire_type == 2 and known is not None and known.message is not None:
            content = with_unknown_fields(content, known.message, counter)
            out += encode_tag(field.number, 2) + encode_varint(len(content)) + content
        else:
            out += data[field.start : field.end]
    counter.append(schema.name)
    mark = f"unknown {len(counter)}".encode()
    return out + encode_tag(1000, 2) + encode_varint(len(mark)) + mark


@pytest.mark.long
@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("whole", [1 << 30, 0])
def test_every_test_model_is_written_as_it_was_read(onnx_models, looked_at, whole, monkeypatch):
    monkeypatch.setattr(read, "PARSED_WHOLE", whole)
    for path in onnx_models:
        model = load(path)
        if looked_at:
            look_at_everything(model)
        assert to_bytes(model) == path.read_bytes(), path


def test_every_real_model_is_written_as_it_was_read(real_models, monkeypatch):
    monkeypatch.setattr(read, "PARSED_WHOLE", 0)
    for path in real_models.files():
        model = load(path)
        look_at_everything(model)
        assert to_bytes(model) == path.read_bytes(), path


@pytest.mark.long
@given(models(), st.booleans())
@example(b"\xca\x01\x06Z\x04\n\x00Z\x00", False)  # a default of a function that holds a graph
@example(b"\xa2\x01\x06\n\x04*\x00j\x00", False)  # an initializer and a declaration without a name
def test_any_message_is_written_as_the_runtime_would(data, looked_at):
    try:
        model = load(data)
    except ModelError:
        assume(False)
    assume(not model.source.truncation)
    assume(model.source.format.message == "ModelProto")
    if looked_at:
        look_at_everything(model)
    assert to_bytes(model) == onnx.ModelProto.FromString(data).SerializeToString()


def test_unknown_fields_survive_at_every_level_beside_an_edit(onnx_models, real_models):
    seen = set()
    for path in [*onnx_models[::7], *real_models.files()[::5]]:
        if path.stat().st_size > 300_000:
            continue
        counter = []
        data = with_unknown_fields(path.read_bytes(), schemas()["ModelProto"], counter)
        seen.update(counter)
        model = load(data)
        look_at_everything(model)
        assert to_bytes(model) == data
        for node in model.graph.nodes:
            SetField(node, "name", node.name + "_x").apply()
            SetField(node, "doc_string", "new").apply()
        SetField(model, "producer_name", "x").apply()
        after = to_bytes(model)
        assert all(f"unknown {number + 1}".encode() in after for number in range(len(counter)))
    assert {
        "ModelProto",
        "GraphProto",
        "NodeProto",
        "AttributeProto",
        "TensorProto",
        "ValueInfoProto",
        "TypeProto",
    } <= seen


def test_an_edit_changes_its_message_only(proto, model):
    SetField(model.graph.nodes[1], "name", "renamed").apply()
    proto.graph.node[1].name = "renamed"
    assert to_bytes(model) == proto.SerializeToString()


def test_a_renamed_value_is_renamed_everywhere(proto, model):
    SetField(model.graph.nodes[0].outputs[0], "name", "product").apply()
    SetField(model.graph.inputs[0], "name", "image").apply()
    SetField(model.graph.initializers[0], "name", "weight").apply()
    out = written(model).graph
    assert list(out.node[0].input) == ["image", "weight"]
    assert list(out.node[2].input) == ["b", "b", "product"]
    assert (out.input[0].name, out.initializer[0].name, out.value_info[0].name) == ("image", "weight", "product")
    assert out.value_info[0].type == proto.graph.value_info[0].type


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2, None), (2.5, None), ("text", None), ("\udcff", None), ((1, 2), None), ((1.5,), None), (("a", "b"), None),
        ((), AttributeKind.STRINGS), (TensorType(ElementType.FLOAT, Shape((1, "N"))), None),
        ((TensorType(ElementType.INT64),), AttributeKind.TYPE_PROTOS),
    ],
)  # fmt: skip
def test_attributes_of_plain_kinds_are_written(model, value, kind):
    node = model.graph.nodes[1]
    attribute = make_attribute("axis", value, kind)
    SetAttribute(node, "axis", attribute).apply()
    SetAttribute(node, "another", replace(attribute, name="another")).apply()
    found = load(to_bytes(model)).graph.nodes[1].attributes
    assert list(found) == ["axis", "another"]
    assert {(a.kind, a.value) for a in found.values()} == {(attribute.kind, attribute.value)}


def test_attributes_with_tensors_and_graphs_are_written(model):
    node = model.graph.nodes[1]
    tensor = ArrayTensor(np.arange(6, dtype=np.int16).reshape(2, 3), name="t")
    body = Graph("body")
    InsertNode(body, Node("Relu", (model.graph.inputs[0],), (Value("r"),))).apply()
    SetGraphOutputs(body, (body.nodes.first.outputs[0],)).apply()
    for name, value in {"t": tensor, "ts": (tensor, tensor), "g": body, "gs": (Graph("one"),)}.items():
        SetAttribute(node, name, make_attribute(name, value)).apply()
    found = load(to_bytes(model)).graph.nodes[1]
    assert found.attributes["t"].value.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert len(found.attributes["ts"].value) == 2
    assert [b.name for b in found.bodies] == ["body", "one"]
    assert found.bodies[0].nodes.first.inputs[0].name == "x"
    assert "axis" in found.attributes


WITH_BODIES = """
outer (bool c, float[N] x) => (float[N] y) {
    y = If (c) <
        then_branch = yes () => (float[N] p) { p = Relu (x) },
        else_branch = no () => (float[N] q) { q = Neg (x) }
    >
}
"""


def test_a_replaced_graph_attribute_leaves_nothing_behind():
    model = load(builders.proto(WITH_BODIES).SerializeToString())
    node = model.graph.nodes[0]
    SetAttribute(node, "then_branch", make_attribute("then_branch", Graph("new"))).apply()
    out = written(model).graph.node[0]
    assert [(len(a.g.node), a.g.name == "new") for a in out.attribute if a.name == "then_branch"] == [(0, True)]


def test_an_edit_inside_a_body_is_written():
    before = builders.proto(WITH_BODIES)
    model = load(before.SerializeToString())
    body = model.graph.nodes[0].bodies[0]
    SetField(body.nodes.first, "name", "inner").apply()
    after = written(model)
    nested = before.graph.node[0].attribute[0].g.node[0]
    nested.name = "inner"
    assert after == before


def test_an_attribute_becomes_a_reference_and_back(model):
    node = model.graph.nodes[1]
    old = node.attributes["axis"]
    SetAttribute(node, "axis", replace(old, value=None, reference="outer")).apply()
    out = written(model).graph.node[1].attribute[0]
    assert (out.ref_attr_name, out.HasField("i"), out.type) == ("outer", False, onnx.AttributeProto.INT)
    SetAttribute(node, "axis", old).apply()
    assert written(model) == builders.proto(TEXT)


def test_attributes_given_twice_are_kept_until_they_are_edited(proto):
    proto.graph.node[1].attribute.append(helper.make_attribute("axis", 7))
    model = load(proto.SerializeToString())
    node = model.graph.nodes[1]
    assert node.attributes["axis"].value == 1
    assert to_bytes(model) == proto.SerializeToString()


def test_inserting_and_removing_nodes(proto, model):
    graph = model.graph
    new = Node("Relu", (graph.inputs[0],), (Value("r"),), name="new", domain="d", overload="o")
    InsertNode(graph, new, graph.nodes[1]).apply()
    on_rollback = [SetInputs(node, ()).apply() for node in list(graph.nodes)[2:]]
    on_rollback.append(RemoveNode(graph.nodes[0]).apply())
    out = written(model).graph
    assert [node.name for node in out.node] == ["new", "second", "third"]
    assert (out.node[0].domain, out.node[0].overload) == ("d", "o")
    assert not out.value_info  # of the value that went with its node
    for step in reversed(on_rollback):
        step.apply()
    RemoveNode(new).apply()
    assert to_bytes(model) == proto.SerializeToString()


def test_inputs_left_out_are_written_as_empty_names(model):
    node = model.graph.nodes[2]
    SetInputs(node, (None, node.inputs[0])).apply()
    assert list(written(model).graph.node[2].input) == ["", "b"]


def test_types_found_out_later_are_declared(model):
    value = model.graph.nodes[1].outputs[0]
    SetField(value, "type", TensorType(ElementType.FLOAT, Shape((None, 4)))).apply()
    out = written(model).graph.value_info
    assert [info.name for info in out] == ["a", "b"]
    assert [d.WhichOneof("value") for d in out[1].type.tensor_type.shape.dim] == [None, "dim_value"]


def test_the_declared_type_of_an_initializer_is_written():
    text = "net (float[2] x) => (y) <float[2] w = {1, 2}> { y = Add (x, w) }"
    model = load(builders.proto(text).SerializeToString())
    (weight,) = model.graph.initializers
    assert not written(model).graph.value_info
    SetField(weight, "type", TensorType(ElementType.FLOAT, Shape(("N",)))).apply()
    (again,) = load(written(model).SerializeToString()).graph.initializers
    assert again.type == weight.type


def test_texts_of_values_without_a_type_are_written():
    text = """<ir_version: 10, opset_import: ["" : 21, "own": 1]>
        net (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = own.Two (x, w)  y = Neg (a) }
        <domain: "own", opset_import: ["" : 21]> Two (p, q) => (r) { s = Add (p, q)  r = Relu (s) }"""
    proto = builders.proto(text)
    model = load(proto.SerializeToString())
    function = model.functions[0]
    named = {v.name: v for graph in (model.graph, function.body) for v in graph.values()}
    described = [named[name] for name in "xwapqsr"]
    document = Document(model)
    for value in described:
        with document.edit("Describe") as edit:
            set_text(edit, value, "doc_string", f"{value.name} of the net")
            set_metadata(edit, value, "key", value.name)
    out = written(model)
    onnx.checker.check_model(out, full_check=True)
    again = load(out.SerializeToString())
    found = {v.name: v for graph in (again.graph, again.functions[0].body) for v in graph.values()}
    for value in described:
        assert (found[value.name].doc_string, found[value.name].metadata) == (value.doc_string, {"key": value.name})
    for _ in described:
        document.undo()
    assert to_bytes(model) == proto.SerializeToString()


@pytest.mark.parametrize(
    "new",
    [
        TensorType(ElementType.INT8, Shape((1, "M", None, 3), ("A", "", "", "B"))),
        TensorType(ElementType.FLOAT, None),
        TensorType(99, Shape(())),
        SparseTensorType(ElementType.FLOAT, Shape((2,))),
        SequenceType(TensorType(ElementType.FLOAT, Shape(("N",)), "inner"), "outer"),
        SequenceType(None),
        OptionalType(SequenceType(TensorType(ElementType.BOOL))),
        MapType(ElementType.STRING, TensorType(ElementType.FLOAT)),
        OpaqueType("d", "n", "x"),
        None,
    ],
)
def test_types_are_written(model, new):
    SetField(model.graph.inputs[0], "type", new).apply()
    assert load(to_bytes(model)).graph.inputs[0].type == new
    onnx.ModelProto.FromString(to_bytes(model))


def test_a_changed_dimension_leaves_the_rest_of_a_type(proto):
    proto.graph.input[0].type.denotation = "IMAGE"
    proto.graph.input[0].type.tensor_type.shape.dim[1].denotation = "DATA_CHANNEL"
    model = load(proto.SerializeToString())
    old = model.graph.inputs[0].type
    SetField(model.graph.inputs[0], "type", replace(old, shape=replace(old.shape, dims=(8, 4)))).apply()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
    assert to_bytes(model) == proto.SerializeToString()


def test_inputs_outputs_and_initializers_change(model):
    graph = model.graph
    tensor = ArrayTensor(np.array([1, 2], np.int64), doc_string="new one", metadata={"k": "v"})
    new = Value("n", TensorType(ElementType.INT64, Shape((2,))))
    SetInitializer(graph, new, tensor, 0).apply()
    SetGraphInputs(graph, (*graph.inputs, new)).apply()
    SetGraphOutputs(graph, (graph.nodes[1].outputs[0], graph.outputs[0])).apply()
    out = written(model).graph
    assert [t.name for t in out.initializer] == ["n", "w"]
    assert (out.initializer[0].doc_string, out.initializer[0].metadata_props[0].value) == ("new one", "v")
    assert [i.name for i in out.input] == ["x", "n"]
    assert [o.name for o in out.output] == ["b", "y"]
    assert out.input[1].type == helper.make_tensor_type_proto(TensorProto.INT64, [2])


def test_a_value_may_be_declared_differently_as_in_and_output():
    proto = builders.proto("g (float[N] x) => (float[4] x) <float[M] x> {}")
    model = load(proto.SerializeToString())
    look_at_everything(model)
    assert to_bytes(model) == proto.SerializeToString()
    SetField(model.graph.inputs[0], "name", "z").apply()
    out = written(model).graph
    assert [i.name for i in (*out.input, *out.output, *out.value_info)] == ["z"] * 3
    assert out.output[0].type == proto.graph.output[0].type


def test_edited_values_of_a_tensor_take_the_place_of_the_old(model):
    value = model.graph.initializers[0]
    old = value.initializer
    SetInitializer(model.graph, value, ArrayTensor(np.full(4, 9, np.float32), name="w", source=old.source)).apply()
    out = written(model).graph.initializer[0]
    assert onnx.numpy_helper.to_array(out).tolist() == [9.0] * 4
    assert not out.float_data


@pytest.mark.parametrize(
    "element_type", [e for e in ElementType if e is not ElementType.UNDEFINED], ids=lambda e: e.text
)
def test_new_tensors_of_every_type_are_written(model, element_type):
    if element_type is ElementType.STRING:
        array = np.array([["a", "ü"], ["\udcff", ""]], object)
    else:
        array = np.array([[1, 0 if element_type.is_int else 1], [1, 1]]).astype(element_type.numpy_dtype)
    SetInitializer(model.graph, Value("new"), ArrayTensor(array, element_type)).apply()
    found = load(to_bytes(model)).graph.initializers[1].initializer
    assert found.element_type is element_type
    assert found.numpy().tolist() == array.tolist()


def test_large_new_tensors_go_around_the_protobuf_runtime(model):
    array = np.arange(10_000, dtype=np.float32)
    SetInitializer(model.graph, Value("new"), ArrayTensor(array)).apply()
    placement = StoragePlan()
    assert len(write_model(model, placement).SerializeToString()) < 1000
    assert load(to_bytes(model)).graph.initializers[1].initializer.numpy().tolist() == array.tolist()


def test_stripped_models_keep_small_values_only(model):
    SetInitializer(model.graph, Value("new"), ArrayTensor(np.zeros(10_000, np.float32))).apply()
    data = to_bytes(model, Storage(DataLayout.STRIPPED, threshold=100))
    small, large = onnx.ModelProto.FromString(data).graph.initializer
    assert small.float_data
    assert (large.data_location, list(large.dims)) == (TensorProto.EXTERNAL, [10_000])


def test_header_fields_and_metadata(proto, model):
    for name, value in {
        "ir_version": 11,
        "producer_name": "p",
        "model_version": 7,
        "doc_string": "",
        "domain": "d",
    }.items():
        SetField(model, name, value).apply()
    SetField(model, "opset_imports", {"": 22, "ai.onnx.ml": 5}).apply()
    SetField(model, "metadata", {"b": "2", "a": "1"}).apply()
    SetField(model.graph, "metadata", {"g": "1"}).apply()
    SetField(model.graph.nodes[0], "metadata", {"n": "1"}).apply()
    SetField(model.graph.inputs[0], "metadata", {"v": "1"}).apply()
    out = written(model)
    assert (out.ir_version, out.producer_name, out.model_version, out.domain) == (11, "p", 7, "d")
    assert not out.HasField("doc_string")
    assert [(e.domain, e.version) for e in out.opset_import] == [("", 22), ("ai.onnx.ml", 5)]
    assert [(e.key, e.value) for e in out.metadata_props] == [("b", "2"), ("a", "1")]
    assert out.graph.metadata_props[0].key == "g"
    assert out.graph.node[0].metadata_props[0].key == "n"
    assert out.graph.input[0].metadata_props[0].key == "v"


def test_the_spelling_of_the_standard_domain_is_kept(proto):
    proto.opset_import[0].domain = "ai.onnx"
    proto.graph.node[0].domain = "ai.onnx"
    model = load(proto.SerializeToString())
    SetField(model, "opset_imports", {"": 22}).apply()
    out = written(model)
    assert [(e.domain, e.version) for e in out.opset_import] == [("ai.onnx", 22)]
    assert out.graph.node[0].domain == "ai.onnx"


def test_functions_are_written(onnx_models):
    proto = builders.proto("""
        <ir_version: 10, opset_import: ["" : 21, "d" : 1]> g (float[N] x) => (float[N] y) { y = d.f (x) }
        <domain: "d", opset_import: ["" : 21]> f <alpha: float = 1.0, beta> (a, b) => (c) { t = Add (a, b) c = Neg (t) }
    """)
    model = load(proto.SerializeToString())
    (function,) = model.functions
    assert to_bytes(model) == proto.SerializeToString()
    SetField(function.body.inputs[0], "name", "first").apply()
    SetField(function, "attributes", ("gamma",)).apply()
    SetField(function, "attribute_defaults", ()).apply()
    out = written(model).functions[0]
    assert (list(out.input), list(out.node[0].input)) == (["first", "b"], ["first", "b"])
    assert (list(out.attribute), len(out.attribute_proto)) == (["gamma"], 0)
    SetField(model, "functions", ()).apply()
    assert not written(model).functions


def test_device_configurations_are_written(model):
    sharding = ShardingSpec("x", (0, 1), ((-1, (0, 1)),), (ShardedDimension(0, (("N", 2), (4, 2), (None, 1))),))
    part = NodeDeviceConfiguration("two", (sharding,), 3)
    SetField(model, "configurations", (DeviceConfiguration("two", 2, ("a", "b")),)).apply()
    SetField(model.graph.nodes[0], "device_configurations", (part,)).apply()
    again = load(to_bytes(model))
    assert again.configurations == model.configurations
    assert again.graph.nodes[0].device_configurations == (part,)
    SetField(again.graph.nodes[0], "device_configurations", (replace(part, pipeline_stage=None),)).apply()
    assert load(to_bytes(again)).graph.nodes[0].device_configurations[0].pipeline_stage is None


def test_names_that_are_no_utf8_are_written_as_they_were(model):
    SetField(model.graph.inputs[0], "name", "n\udcff").apply()
    SetField(model.graph.nodes[0], "name", "\udcfe").apply()
    data = to_bytes(model)
    assert data.count(b"n\xff") == 2
    assert load(data).graph.nodes[0].name == "\udcfe"


def test_a_model_from_nothing_is_written():
    from onnx_workbench.model.ir.graph import Model

    model = Model(opset=21)
    x = Value("x", TensorType(ElementType.FLOAT, Shape(("N",))))
    SetField(model.graph, "name", "main").apply()
    SetGraphInputs(model.graph, (x,)).apply()
    InsertNode(model.graph, Node("Relu", (x,), (Value("y", TensorType(ElementType.FLOAT, Shape(("N",)))),))).apply()
    SetGraphOutputs(model.graph, model.graph.nodes.first.outputs).apply()
    onnx.checker.check_model(written(model), full_check=True)


def test_nodes_of_another_model_bring_their_weights(tmp_path, monkeypatch):
    """Payloads that are still in the file of a model from which something was pasted."""
    monkeypatch.setattr(read, "PARSED_WHOLE", 0)
    weights = np.arange(5000, dtype=np.float32)
    node = helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(weights, "c"))
    path = tmp_path / "other.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([node], "g", [], []), ir_version=10).SerializeToString())
    other = load(path)
    model = load(builders.proto(TEXT).SerializeToString())
    pasted = other.graph.nodes.first
    RemoveNode(pasted).apply()
    InsertNode(model.graph, pasted).apply()
    assert load(to_bytes(model)).graph.nodes[3].attributes["value"].value.numpy().tolist() == weights.tolist()


@pytest.mark.parametrize("looked_at", [False, True])
def test_values_of_another_model_keep_their_own_types(looked_at):
    here, other = (
        load(builders.proto(f"""
            <ir_version: 10, opset_import: ["" : 21]> g ({x} x, {x} z) => ({x} y) {{ a = Add (x, z) y = Neg (a) }}
        """).SerializeToString())
        for x in ("float[2]", "int64[3]")
    )  # fmt: skip
    if looked_at:
        look_at_everything(other)
    document = Document(here)
    builders.one_edit(document, copy_paste.merge, here.graph, other, {}, prefix="other_")
    saved = load(to_bytes(here)).graph
    types = {v.name: str(v.type) for v in (*saved.inputs, *saved.outputs)}
    assert {types[name] for name in ("x", "z", "y")} == {"float[2]"}
    assert {types[name] for name in ("other_x", "other_z", "other_y")} == {"int64[3]"}


def test_the_last_attribute_of_a_node_can_be_removed():
    from onnx_workbench.model.edits.attributes import remove_attribute
    from tests.model import builders

    document = builders.document()
    builders.one_edit(document, remove_attribute, builders.node(document, "fourth"), "axis")
    assert not onnx.load_from_string(to_bytes(document.model)).graph.node[3].attribute


def test_types_of_a_functions_inputs_and_outputs_are_kept():
    document = builders.document(builders.CHAIN)
    with document.edit("Extract") as edit:
        functions.extract_function(edit, [builders.node(document, "first"), builders.node(document, "second")], "f")
    body = document.model.functions[0].body
    SetField(body.inputs[0], "type", TensorType(ElementType.FLOAT, Shape(("N", 4)))).apply()
    again = load(to_bytes(document.model)).functions[0].body
    assert [v.type for v in again.inputs] == [v.type for v in body.inputs]
    assert again.inputs[0].type is not None
    assert [v.type for v in again.outputs] == [v.type for v in body.outputs]


def test_the_type_of_a_bodys_output_that_nothing_makes_is_kept():
    document = builders.document(builders.BRANCHES)
    body = builders.graph(document, "yes")
    output = body.outputs[0]
    builders.one_edit(document, nodes.delete, [output.producer])
    again = load(to_bytes(document.model))
    assert builders.graph(again, "yes").outputs[0].type == output.type is not None
