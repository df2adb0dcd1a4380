"""What only a file can hold: two of what there may be one of."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import attributes, properties
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model import builders


def errors(model):
    return [problem for problem in check_model(model) if problem.severity == "error"]


def test_an_attribute_is_found_twice_until_the_node_is_edited():
    proto = builders.proto(builders.CHAIN)
    node = next(n for n in proto.graph.node if n.name == "fourth")
    node.attribute.add().CopyFrom(node.attribute[0])
    document = Document(load(proto.SerializeToString()))
    fourth = builders.node(document, "fourth")
    assert [(p.rule, p.place) for p in errors(document.model)] == [("duplicate-attribute", fourth)]
    builders.one_edit(document, attributes.set_attribute, fourth, "more", 1)
    assert [p.rule for p in errors(document.model)] == ["attribute-unknown"]


def fix(document):
    """Apply the fix of the only error; undone, the file is the same again, redone it is fixed."""
    before = to_bytes(document.model)
    (problem,) = errors(document.model)
    with document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    after = to_bytes(document.model)
    document.undo()
    assert to_bytes(document.model) == before
    assert errors(document.model) == [problem]
    document.redo()
    assert to_bytes(document.model) == after
    assert errors(document.model) == []
    assert errors(load(after)) == []
    return onnx.ModelProto.FromString(after)


def with_fourth(change):
    """The chain with something done to its fourth node, as a document."""
    proto = builders.proto(builders.CHAIN)
    change(next(node for node in proto.graph.node if node.name == "fourth"))
    return Document(load(proto.SerializeToString()))


def attributes_of(proto, name):
    (node,) = [node for node in proto.graph.node if node.name == name]
    return [(a.name, onnx.helper.get_attribute_value(a)) for a in node.attribute]


def test_of_an_attribute_that_a_file_has_twice_the_first_is_kept():
    def change(node):
        node.attribute.add().CopyFrom(node.attribute[0])
        node.attribute[1].i = 7

    document = with_fourth(change)
    (problem,) = errors(document.model)
    assert problem.fix.title == "Keep the first axis of fourth only"
    assert "The first one, 1, counts" in problem.detail
    assert attributes_of(fix(document), "fourth") == [("axis", 1)]


def test_a_duplicate_attribute_stays_reported_after_an_edit():
    document = with_fourth(lambda node: node.attribute.add().CopyFrom(node.attribute[0]))
    builders.one_edit(document, attributes.set_attribute, builders.node(document, "fourth"), "axis", 0)
    assert [p.rule for p in errors(document.model)] == ["duplicate-attribute"]
    assert attributes_of(fix(document), "fourth") == [("axis", 0)]


def test_a_body_that_a_file_has_twice_is_kept_once():
    proto = builders.proto(builders.BRANCHES)
    (node,) = [node for node in proto.graph.node if node.op_type == "If"]
    node.attribute.add().CopyFrom(node.attribute[0])
    document = Document(load(proto.SerializeToString()))
    bodies = builders.node(document, node.name).bodies
    fixed = fix(document)
    assert builders.node(document, node.name).bodies == bodies
    assert [[a.name for a in n.attribute] for n in fixed.graph.node if n.op_type == "If"] == [
        [a.name for a in node.attribute][:2]
    ]


def test_an_attribute_has_one_value():
    document = with_fourth(lambda node: setattr(node.attribute[0], "f", 2.5))
    (problem,) = errors(document.model)
    assert problem.message == "axis of fourth is INT and has a value in the field f too"
    proto = fix(document)
    (attribute,) = next(node for node in proto.graph.node if node.name == "fourth").attribute
    assert not attribute.HasField("f")
    assert attribute.i == 1


def test_the_tensor_of_an_attribute_is_checked():
    proto = builders.proto("""
        g () => (float[2] y) { y = Constant <value: tensor = float[2] {1, 2}> () }
    """)
    proto.graph.node[0].attribute[0].t.float_data.append(3)
    (problem,) = errors(load(proto.SerializeToString()))
    assert (problem.rule, problem.detail) == ("tensor", "12 bytes are stored, but its type and shape need 8")


PLACES = {
    "model": (lambda p: p, lambda m: m),
    "graph": (lambda p: p.graph, lambda m: m.graph),
    "node": (lambda p: p.graph.node[0], lambda m: m.graph.nodes[0]),
    "input": (lambda p: p.graph.input[0], lambda m: m.graph.inputs[0]),
    "output": (lambda p: p.graph.output[0], lambda m: m.graph.outputs[0]),
    "function": (lambda p: p.functions[0], lambda m: m.functions[0]),
    "body": (lambda p: p.graph.node[1].attribute[0].g, lambda m: m.graph.nodes[1].bodies[0]),
    "inner node": (
        lambda p: p.graph.node[1].attribute[0].g.node[0], lambda m: m.graph.nodes[1].bodies[0].nodes[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_key_of_metadata_is_found_twice_until_it_is_edited(name):
    holder, place = PLACES[name]
    proto = builders.proto(builders.BRANCHES)
    for text in ("first", "second"):
        holder(proto).metadata_props.add(key="note", value=text)
    document = Document(load(proto.SerializeToString()))
    where = place(document.model)
    assert [(p.rule, p.place) for p in errors(document.model)] == [("duplicate-metadata", where)]
    builders.one_edit(document, properties.set_metadata, where, "note", "one")
    assert errors(document.model) == []
    document.undo()
    fixed = holder(fix(document))
    assert {e.key: e.value for e in fixed.metadata_props} == {"note_1": "first", "note": "second"}


def test_a_key_of_a_tensors_metadata_is_found_twice():
    proto = builders.proto(builders.BRANCHES)
    for text in ("first", "second"):
        proto.graph.initializer[0].metadata_props.add(key="note", value=text)
    document = Document(load(proto.SerializeToString()))
    where = builders.value(document, "w")
    assert [(p.rule, p.place) for p in errors(document.model)] == [("duplicate-metadata", where)]
    fixed = fix(document).graph.initializer[0]
    assert {e.key: e.value for e in fixed.metadata_props} == {"note_1": "first", "note": "second"}


def test_the_values_of_a_tensor_stand_in_one_field():
    proto = builders.proto(builders.CHAIN)
    proto.graph.initializer[0].raw_data = np.float32([1, 2, 3, 4]).tobytes()
    (problem,) = errors(load(proto.SerializeToString()))
    assert problem.rule == "tensor-fields"
    assert problem.message == "w has its values in float_data and raw_data"


@pytest.mark.parametrize(
    ("indices", "reason"),
    [
        ([0, 3], ""),
        ([[0, 0], [1, 1]], ""),
        ([3, 0], "[0] comes after [3]; they must be in ascending order."),
        ([[1, 1], [1, 1]], "[1, 1] comes after [1, 1]; they must be in ascending order."),
        ([0, 4], "[4] is outside of [4]."),
        ([[0, 0], [0, -1]], "[0, -1] is outside of [2, 2]."),
        ([0, 1, 2], "[3] indices do not fit [2] values of [2, 2]."),
    ],
)
def test_indices_of_sparse_values_ascend_within_the_shape(indices, reason):
    values = onnx.numpy_helper.from_array(np.float32([1, 2]), "s")
    listed = onnx.numpy_helper.from_array(np.int64(indices), "at")
    proto = builders.proto("g (float[2, 2] x) => (float[2, 2] y) { y = Add (x, s) }")
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, listed, [2, 2]))
    found = [(p.rule, p.detail) for p in errors(load(proto.SerializeToString()))]
    assert found == ([("sparse-tensor", reason)] if reason else [])


INPUTS = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xk"]
OUTPUT = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])


def own(*attributes, inputs=("x",), domain="c", op_type="Own", outputs=("y",)):
    """A model of one node of a domain of its own, and what its functions are to be added to."""
    node = onnx.helper.make_node(op_type, inputs, outputs, domain=domain)
    node.attribute.extend(attributes)
    spare = onnx.helper.make_node("Own", ["x"], ["y"], domain="c")
    graph = onnx.helper.make_graph([node] if "y" in outputs else [node, spare], "g", INPUTS, [OUTPUT])
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("c", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=11, domain="org.example")


def attribute(**fields):
    return onnx.AttributeProto(**fields)


def with_function(**fields):
    model = own()
    function = onnx.helper.make_function("c", "F", ["a"], ["b"], [onnx.helper.make_node("Relu", ["a"], ["b"])], [])
    function.opset_import.add(version=21)
    model.functions.add().CopyFrom(function)
    for name, values in fields.items():
        if isinstance(values, str):
            setattr(model.functions[0], name, values)
        else:
            model.functions[0].ClearField(name)
            getattr(model.functions[0], name).extend(values)
    return model


def with_body(body_name="yes", ir_version=11, constant_first=False, listed=True):
    """A Loop whose body has a constant, among its inputs or not."""
    loop = onnx.parser.parse_graph(f"""
        g (float[2] x, int64 n, bool c) => (float[2] y)
        {{ y = Loop (n, c, x) <body: graph = {body_name} (int64 i, bool b, float[2] s) => (bool o, float[2] t)
           {{ o = Identity (b) t = Add (s, w) }}> }}
    """)
    body = loop.node[0].attribute[0].g
    body.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    if listed:
        body.input.insert(0 if constant_first else 3, onnx.helper.make_tensor_value_info("w", 1, [2]))
    opsets = [onnx.helper.make_opsetid("", 8)]
    return onnx.helper.make_model(loop, opset_imports=opsets, ir_version=ir_version, domain="org.example")


def with_annotation(value, key):
    model = own()
    entry = model.graph.quantization_annotation.add(tensor_name="x")
    entry.quant_parameter_tensor_names.add(key=key, value=value)
    return model


def with_sharding(axis):
    model = own()
    model.configuration.add(name="two", num_devices=2)
    used = model.graph.node[0].device_configurations.add(configuration_id="two")
    sharded = used.sharding_spec.add(tensor_name="x").sharded_dim.add(axis=axis)
    sharded.simple_sharding.add(num_shards=2)
    return model


def of_old(version, **changes):
    """What came with later versions than a model says it is of."""
    model = with_function() if "declared" in changes else own()
    model.ir_version = version
    if "declared" in changes:
        model.functions[0].value_info.append(changes["declared"])
    if "kind" in changes:
        model.graph.input[0].type.CopyFrom(changes["kind"])
    if "metadata" in changes:
        model.graph.metadata_props.add(key="k", value=changes["metadata"])
    return model


def with_size(size):
    model = own()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    return model


def changed(**fields):
    model = own()
    for name, value in fields.items():
        setattr(model if name == "domain" else model.graph, name, value)
    return model


INT = onnx.AttributeProto.INT
FLOAT8 = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT8E4M3FN, [2])


@pytest.mark.parametrize(
    ("model", "severity", "rule"),
    [
        (own(attribute(type=INT, i=1)), "error", "attribute-name"),
        (own(attribute(name="k", i=1)), "error", "attribute-type"),
        (own(attribute(name="k")), "error", "attribute-type"),
        (own(attribute(name="k", type=INT, i=1), inputs=["x", "k"]), "info", "attribute-name"),
        (own(attribute(name="a-b", type=INT, i=1)), "info", "identifier"),
        (own(op_type="Relu", domain="", outputs=[""]), "error", "output-missing"),
        (with_function(name=""), "error", "function-name"),
        (with_function(output=["b", "b"]), "error", "duplicate-output"),
        (with_function(attribute=["a"]), "info", "function-attribute"),
        (with_function(attribute=["of course"]), "info", "identifier"),
        (with_body(listed=False, ir_version=3), "error", "initializer-input"),
        (with_body(constant_first=True, ir_version=3), "error", "body-initializer"),
        (with_body(), "error", "body-initializer"),
        (with_body("g", listed=False), "info", "duplicate-graph"),
        (with_annotation("nothing", "SCALE_TENSOR"), "warning", "quantization"),
        (with_annotation("k", "OTHER"), "info", "quantization"),
        (with_sharding(1), "error", "sharding"),
        (with_sharding(-2), "error", "sharding"),
        (with_size(-1), "warning", "negative-size"),
        (changed(name="my graph"), "info", "identifier"),
        (of_old(8, kind=FLOAT8), "warning", "element-type-version"),
        (of_old(7, kind=onnx.helper.make_optional_type_proto(INPUTS[0].type)), "warning", "element-type-version"),
        (of_old(9, metadata="v"), "warning", "ir-version-contents"),
        (of_old(9, declared=INPUTS[0]), "warning", "ir-version-contents"),
        (own(op_type="Own", domain="c", outputs=[]), "warning", "arity"),
        (changed(domain="example"), "info", "model-domain"),
    ],
)
def test_what_the_specification_forbids_is_reported(model, severity, rule):
    found = {(p.rule, p.severity) for p in check_model(load(model.SerializeToString()))}
    assert (rule, severity) in found


@pytest.mark.parametrize(
    "model",
    [
        own(attribute(name="k", type=INT, i=1)),
        with_function(attribute=["k"]),
        with_body(ir_version=3),
        with_body(listed=False),
        with_annotation("k", "SCALE_TENSOR"),
        with_sharding(-1),
        with_size(0),
        changed(),
        of_old(9, kind=FLOAT8),
        of_old(8, kind=onnx.helper.make_optional_type_proto(INPUTS[0].type)),
        of_old(10, metadata="v"),
    ],
)
def test_what_it_allows_is_not(model):
    assert {p.rule for p in check_model(load(model.SerializeToString()))} <= {"dead-node"}


def test_an_attribute_that_lacks_its_type_gets_it():
    document = Document(load(own(attribute(name="k", i=3)).SerializeToString()))
    assert fix(document).graph.node[0].attribute[0].type == INT


def test_an_open_size_is_declared_as_one():
    document = Document(load(with_size(-1).SerializeToString()))
    (problem,) = [p for p in check_model(document.model) if p.rule == "negative-size"]
    with document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    assert "negative-size" not in {p.rule for p in check_model(document.model)}
    assert [value.type.shape.dims for value in document.model.graph.inputs] == [(None,), (2,)]


def test_what_an_unused_initializer_takes_is_counted():
    model = own()
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.int8), "one"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2000, np.int8), "many"))
    found = [p.detail for p in check_model(load(model.SerializeToString())) if p.rule == "unused-initializer"]
    assert found == ["1 byte.", "2,000 bytes."]
