import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader import read
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Graph, Node
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
from onnx_workbench.model.progress import Cancelled, Progress
from tests.examples import examples
from tests.model.io.wire_messages import models

F = TensorProto.FLOAT


def info(name, shape=("N",), kind=F):
    return helper.make_tensor_value_info(name, kind, list(shape))


def graph(nodes, inputs=("x",), outputs=("y",), initializers=(), **more):
    return helper.make_graph(
        nodes, "g", [info(n) for n in inputs], [info(n) for n in outputs], list(initializers), **more
    )


def with_function(domain, imported):
    """A call of a function whose node is in a domain, and which imports one."""
    relu = helper.make_node("Relu", ["a"], ["b"], domain=domain)
    function = helper.make_function("f", "Relus", ["a"], ["b"], [relu], [helper.make_opsetid(imported, 18)])
    called = graph([helper.make_node("Relus", ["x"], ["y"], domain="f")])
    imports = [helper.make_opsetid("ai.onnx", 18), helper.make_opsetid("f", 1)]
    return helper.make_model(called, functions=[function], opset_imports=imports, ir_version=10)


def model_of(*args, ir_version=10, opset=21, **more):
    return helper.make_model(
        graph(*args, **more), ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)]
    )


def opened(proto):
    return load(proto.SerializeToString())


def touch(model):
    """Look at everything there is, as a user would who opens every panel."""
    for body in model.graphs():
        for node in body.nodes:
            _ = node.attributes, node.details, node.bodies
        for value in body.values():
            _ = value.type, value.doc_string, value.metadata
            if value.initializer is not None:
                _ = value.initializer.nbytes, repr(value.initializer)
                if (
                    not value.initializer.problem
                    and hasattr(value.initializer, "numpy")
                    and value.initializer.size < 10**6
                ):
                    value.initializer.numpy()


def assert_linked(model):
    """Every use is known to the value, and nothing else is."""
    uses = {}
    for body in model.graphs():
        for node in body.nodes:
            assert node.graph is body
            for index, value in enumerate(node.inputs):
                if value is not None:
                    uses.setdefault(value, set()).add((node, index))
            for index, value in enumerate(node.outputs):
                if value is not None:
                    assert (value.producer, value.index, value.graph) == (node, index, body)
        for index, value in enumerate(body.outputs):
            uses.setdefault(value, set()).add((body, index))
    for body in model.graphs():
        for value in body.values():
            assert set(value.uses) == uses.get(value, set())


def test_nodes_and_values_are_linked():
    model = opened(
        model_of([helper.make_node("Relu", ["x"], ["a"], "first"), helper.make_node("Add", ["a", "a"], ["y"])])
    )
    first, second = model.graph.nodes
    assert isinstance(first, Node)
    assert second.inputs == (first.outputs[0], first.outputs[0])
    assert set(first.outputs[0].uses) == {(second, 0), (second, 1)}
    assert model.graph.outputs == second.outputs
    assert (model.ir_version, dict(model.opset_imports)) == (10, {"": 21})
    assert model.source.problems == ()
    assert_linked(model)


def test_what_is_left_out_is_nothing_that_has_no_name():
    tensors = [helper.make_tensor(name, 1, [], [1.0]) for name in ("", "high", "")]
    info = [helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y")]
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    proto = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:], tensors))
    model = load(proto.SerializeToString())
    assert [v and v.name for v in model.graph.nodes[0].inputs] == ["x", None, "high"]
    assert [v.name for v in model.graph.initializers] == ["", "high", ""]
    assert "Initializer of graph 'g' has no name" in model.source.problems
    assert to_bytes(model) == proto.SerializeToString()


def test_a_lone_tensor_needs_no_name():
    model = load(helper.make_tensor("", 1, [1], [1.0]).SerializeToString())
    assert not model.source.problems


@pytest.mark.long
def test_all_test_models_open_linked_and_without_problems(onnx_models):
    for path in onnx_models:
        model = load(path)
        assert_linked(model)
        touch(model)
        assert not [p for p in model.source.problems if "initializers are not graph inputs" not in p], path


@pytest.mark.long
def test_real_models_open_linked(real_models):
    for path in real_models.files():
        model = load(path)
        touch(model)
        assert_linked(model)
        assert not [v.initializer.problem for v in model.graph.initializers if v.initializer.problem], path


def test_bodies_see_the_values_around_them_even_later_ones():
    body = helper.make_graph([helper.make_node("Add", ["x", "late"], ["r"])], "body", [], [info("r")])
    proto = model_of(
        [
            helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
            helper.make_node("Relu", ["x"], ["late"]),
        ],
        inputs=("x", "c"),
    )
    model = opened(proto)
    branch, relu = model.graph.nodes
    inner = [b.nodes.first for b in branch.bodies]
    assert len(inner) == 2
    assert all(node.inputs == (model.graph.inputs[0], relu.outputs[0]) for node in inner)
    assert branch.bodies[0].parent is model.graph
    assert_linked(model)


def test_an_inner_name_comes_before_an_outer_one():
    body = helper.make_graph(
        [helper.make_node("Neg", ["v"], ["r"]), helper.make_node("Relu", ["x"], ["v"])], "b", [], [info("r")]
    )
    model = opened(
        model_of([helper.make_node("Abs", ["x"], ["v"]), helper.make_node("If", ["v"], ["y"], then_branch=body)])
    )
    inner = model.graph.nodes[1].bodies[0]
    assert inner.nodes[0].inputs[0] is inner.nodes[1].outputs[0]


def test_what_nothing_defines_is_one_value_for_all_bodies():
    body = helper.make_graph([helper.make_node("Neg", ["ghost"], ["r"])], "b", [], [info("r")])
    model = opened(model_of([helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)]))
    first, second = (b.nodes.first.inputs[0] for b in model.graph.nodes.first.bodies)
    assert first is second
    assert not first.is_defined
    assert any("'ghost'" in problem for problem in model.source.problems)
    assert_linked(model)


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        (
            model_of([helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]),
            "not in order: 1 input is used before the node that makes it",
        ),
        (
            model_of([helper.make_node("Add", ["a", "a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]),
            "not in order: 2 inputs are used before the nodes that make them",
        ),
        (model_of([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]), "second time"),
        (model_of([helper.make_node("Relu", ["nobody"], ["y"])]), "defines the value 'nobody'"),
        (
            helper.make_model(graph([helper.make_node("Relu", ["x"], ["y"])]), ir_version=10, opset_imports=[]),
            "no operator set",
        ),
        (onnx.ModelProto(graph=graph([helper.make_node("Relu", ["x"], ["y"])])), "IR version"),
        (onnx.ModelProto(ir_version=8, producer_name="p"), "no graph"),
        (
            model_of(
                [helper.make_node("Add", ["x", "w"], ["y"])],
                initializers=[helper.make_tensor("w", F, [1], [1.0])],
                ir_version=3,
            ),
            "not graph inputs",
        ),
        (
            onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 1), helper.make_opsetid("ai.onnx", 2)]),
            "two versions",
        ),
        (model_of([helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")]), "Nodes name the domain 'ai.onnx'"),
        (with_function("ai.onnx", imported=""), "Function Relus names the domain 'ai.onnx'"),
        (with_function("", imported="ai.onnx"), "Function Relus names the domain 'ai.onnx'"),
    ],
)
def test_broken_rules_are_listed_and_the_model_opens(proto, words):
    model = opened(proto)
    touch(model)
    assert_linked(model)
    assert any(words in problem for problem in model.source.problems), model.source.problems


def test_the_first_of_two_definitions_is_used_and_both_stay():
    twice = [helper.make_tensor("w", F, [1], [1.0]), helper.make_tensor("w", F, [1], [2.0])]
    nodes = [
        helper.make_node("Relu", ["w"], ["a"]),
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Abs", ["a"], ["y"]),
    ]
    model = opened(model_of(nodes, initializers=twice))
    first, second = model.graph.initializers
    assert first.name == second.name == "w"
    assert [list(v.initializer.numpy()) for v in (first, second)] == [[1.0], [2.0]]
    assert model.graph.nodes[0].inputs == (first,)
    assert model.graph.nodes[2].inputs == model.graph.nodes[0].outputs


def test_broken_rules_are_not_listed_without_end():
    model = opened(model_of([helper.make_node("Relu", [f"ghost{i}"], [""]) for i in range(1000)]))
    assert len(model.source.problems) < 300


def test_attributes_of_every_kind():
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", F, [2], [1.0, 2.0]), helper.make_tensor("i", TensorProto.INT64, [2], [0, 3]), [4]
    )
    tensor = helper.make_tensor("t", F, [2], [1.0, 2.0])
    node = helper.make_node(
        "Anything", [], ["y"], domain="ai.example",
        f=1.5, i=-3, s="text", t=tensor, sp=sparse, floats=[1.0, 2.5], ints=[1, -2], strings=["a", b"\xff"],
        tensors=[tensor], tp=info("v").type, tps=[info("v").type], sps=[sparse],
        g=graph([]), gs=[graph([]), graph([])],
    )  # fmt: skip
    node.attribute.add(name="ref", type=onnx.AttributeProto.INT, ref_attr_name="outer")
    attributes = opened(model_of([node])).graph.nodes.first.attributes
    assert attributes["f"].value == 1.5
    assert attributes["i"].value == -3
    assert attributes["s"].value == "text"
    assert list(attributes["t"].value.numpy()) == [1.0, 2.0]
    assert attributes["sp"].value.shape == (4,)
    assert attributes["floats"].value == (1.0, 2.5)
    assert attributes["ints"].value == (1, -2)
    assert attributes["strings"].value == ("a", "\udcff")
    assert attributes["tp"].value == TensorType(ElementType.FLOAT, Shape(("N",)))
    assert attributes["tps"].value == (attributes["tp"].value,)
    assert isinstance(attributes["g"].value, Graph)
    assert len(attributes["gs"].graphs) == 2
    assert (attributes["ref"].reference, attributes["ref"].value) == ("outer", None)
    assert {a.kind for a in attributes.values()} == set(AttributeKind) - {AttributeKind.UNDEFINED}


def test_kinds_that_old_files_do_not_say():
    node = onnx.NodeProto(op_type="If", output=["y"])
    node.attribute.add(name="axis", i=2)
    node.attribute.add(name="scales", floats=[1.0])
    node.attribute.add(name="body").g.CopyFrom(graph([helper.make_node("Relu", ["x"], ["r"])]))
    attributes = opened(onnx.ModelProto(ir_version=1, graph=graph([node]))).graph.nodes.first.attributes
    assert [a.kind.name for a in attributes.values()] == ["INT", "FLOATS", "GRAPH"]
    assert attributes["body"].value.nodes.first.op_type == "Relu"


def test_types_of_every_kind():
    tensor = helper.make_tensor_type_proto(F, ["N", 3, None])
    tensor.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    kinds = {
        "tensor": tensor,
        "sparse": helper.make_sparse_tensor_type_proto(F, [2]),
        "seq": helper.make_sequence_type_proto(tensor),
        "map": helper.make_map_type_proto(TensorProto.STRING, tensor),
        "opt": helper.make_optional_type_proto(tensor),
        "opaque": onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n")),
        "strange": helper.make_tensor_type_proto(99, None),
        "none": onnx.TypeProto(denotation="d"),
    }
    proto = onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)])
    for name, type_proto in kinds.items():
        proto.graph.input.add(name=name).type.CopyFrom(type_proto)
    types = [value.type for value in opened(proto).graph.inputs]
    whole = TensorType(ElementType.FLOAT, Shape(("N", 3, None), ("DATA_BATCH", "", "")))
    assert types == [
        whole, SparseTensorType(ElementType.FLOAT, Shape((2,))), SequenceType(whole),
        MapType(ElementType.STRING, whole), OptionalType(whole), OpaqueType("d", "n"), TensorType(99), None,
    ]  # fmt: skip


def test_names_that_are_no_utf8_are_text_and_stay_different():
    data = model_of(
        [helper.make_node("Relu", ["nameA"], ["nameB"])], inputs=("nameA",), outputs=("nameB",)
    ).SerializeToString()
    data = data.replace(b"nameA", b"nam\xffA").replace(b"nameB", b"nam\xfeB")
    model = load(data)
    assert [v.name for v in model.graph.nodes.first.inputs + model.graph.outputs] == ["nam\udcffA", "nam\udcfeB"]
    assert_linked(model)
    assert not model.source.problems


def test_training_graphs_see_the_weights_of_the_main_graph():
    proto = model_of(
        [helper.make_node("Add", ["x", "w"], ["y"])], initializers=[helper.make_tensor("w", F, [1], [1.0])]
    )
    info_proto = proto.training_info.add()
    info_proto.algorithm.CopyFrom(helper.make_graph([helper.make_node("Neg", ["w"], ["w2"])], "a", [], [info("w2")]))
    info_proto.update_binding.add(key="w", value="w2")
    model = opened(proto)
    assert model.training_info[0].algorithm.nodes.first.inputs == tuple(model.graph.initializers)
    assert model.training_info[0].initialization is None
    assert model.training_info[0].update_binding == (("w", "w2"),)
    assert_linked(model)


def test_functions_have_scopes_of_their_own():
    function = helper.make_function(
        "d", "f", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 20)], ["alpha"]
    )
    proto = model_of([helper.make_node("f", ["x"], ["y"], domain="d")])
    proto.functions.append(function)
    model = opened(proto)
    (found,) = model.functions
    assert found.body.inputs[0] is not model.graph.inputs[0]
    assert (found.key, found.attributes, dict(found.opset_imports)) == (("d", "f", ""), ("alpha",), {"": 20})
    assert model.function("d", "f") is found
    assert found.model is model
    assert_linked(model)


@pytest.mark.long
def test_a_truncated_file_opens_as_far_as_it_goes(tmp_path):
    weights = helper.make_tensor("w", F, [64], np.arange(64, dtype=np.float32).tobytes(), raw=True)
    nodes = [helper.make_node("Relu", ["x"] if i == 0 else [f"v{i - 1}"], [f"v{i}"], f"n{i}") for i in range(10)]
    data = model_of([*nodes, helper.make_node("Add", ["v9", "w"], ["y"])], initializers=[weights]).SerializeToString()
    path = tmp_path / "cut.onnx"
    counts = set()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        try:
            model = load(path)
        except ModelError:
            assert end < 60
            continue
        touch(model)
        assert_linked(model)
        assert model.source.truncation in model.source.problems or not model.source.truncation
        counts.add(len(model.graph.nodes))
    assert counts == set(range(12))


def test_a_truncated_weight_says_that_it_is_missing():
    weights = helper.make_tensor("w", F, [4096], bytes(4096 * 4), raw=True)
    proto = onnx.ModelProto(
        ir_version=10, graph=graph([helper.make_node("Relu", ["x"], ["y"])], initializers=[weights])
    )
    data = proto.SerializeToString()
    model = load(data[: data.index(bytes(100)) + 500])
    assert "ends at byte" in model.source.truncation
    (value,) = model.graph.initializers
    assert "0 bytes are stored" in value.initializer.problem
    with pytest.raises(ModelError, match="not available"):
        value.initializer.numpy()


def test_a_damaged_file_is_refused_with_byte_and_path():
    data = bytearray(model_of([helper.make_node("Relu", ["x"], ["y"], "name of the node")] * 3).SerializeToString())
    at = data.rindex(b"name of the node") - 1
    data[at] = 100
    with pytest.raises(ModelError, match="Name claims 100 bytes") as caught:
        load(bytes(data))
    assert caught.value.place == f"byte {at - 1} in model.graph.node[2]"


@pytest.mark.parametrize("whole", [0, 1 << 30])
@settings(max_examples=examples(60))
@given(st.data())
def test_mutations_of_real_files_end_in_a_model_or_an_error(onnx_models, whole, data):
    """Whatever a byte becomes, and whether the file is parsed whole or scanned."""
    small = [p for p in onnx_models if p.stat().st_size < 3000]
    content = bytearray(data.draw(st.sampled_from(small)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.integers(0, 2))
        if kind == 0:
            content[at] = data.draw(st.integers(0, 255))
        elif kind == 1:
            content[at:at] = data.draw(st.binary(max_size=5))
        else:
            del content[at : at + data.draw(st.integers(1, 20))]
    before, read.PARSED_WHOLE = read.PARSED_WHOLE, whole
    try:
        model = load(bytes(content))
    except ModelError:
        return
    finally:
        read.PARSED_WHOLE = before
    touch(model)
    assert_linked(model)


@given(models())
def test_any_message_of_the_format_opens_or_is_refused(data):
    try:
        model = load(data)
    except ModelError:
        return
    touch(model)
    assert_linked(model)


def test_opening_reports_and_can_be_cancelled(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], [f"v{i}"]) for i in range(10_000)]
    data = model_of(nodes, outputs=()).SerializeToString()
    received = []
    load(data, Progress(lambda *what: received.append(what)))
    assert received[0][2] == "Linking nodes"
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        load(data, progress)


def test_paths_streams_and_standard_input_are_read(tmp_path, monkeypatch):
    proto = model_of([helper.make_node("Relu", ["x"], ["y"])])
    path = tmp_path / "m.bin"
    path.write_bytes(proto.SerializeToString())
    assert load(str(path)).source.path == path
    with open(path, "rb") as stream:
        assert load(stream).source.path is None
    with open(path) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert load("-").source.name == "standard input"
    assert load(path).source.identity.size == path.stat().st_size
    assert load(proto.SerializeToString()).source.identity is None


def test_a_model_with_too_many_parts_is_refused(monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.io.reader.import_graph.MOST_ELEMENTS", 100)
    with pytest.raises(ModelError, match="too many parts"):
        opened(model_of([onnx.NodeProto()] * 101))


@pytest.mark.long
@pytest.mark.parametrize("part", [b"\x0a\x00", b"\x2a\x00", b"\x6a\x00", b"\x82\x01\x00"])
def test_millions_of_empty_parts_are_refused_before_reading(part):
    with pytest.raises(ModelError, match="too many parts"):
        load(b"\x08\x0a" + tagged(7, part * 3_100_000))


def test_weights_of_zeros_are_no_such_parts():
    zeros = helper.make_tensor("w", F, [500_000], bytes(2_000_000), raw=True)
    model = opened(model_of([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[zeros]))
    assert model.graph.initializers[0].initializer.storage == "file"


@pytest.mark.parametrize("depth", [3, 20, 60, 1000])
def test_deep_nesting_opens_or_is_refused(depth):
    body = b"\x12\x01b"
    for _ in range(depth):
        attribute = b"\x0a\x01b\xa0\x01\x05" + tagged(6, body)
        body = tagged(1, b"\x22\x02If" + tagged(5, attribute))
    data = b"\x08\x0a" + tagged(7, body)
    if depth > 32:
        with pytest.raises(ModelError, match="damaged"):
            load(data)
    else:
        assert len(list(load(data).graphs())) == depth + 1


def tagged(number, content):
    from onnx_workbench.model.io.wire import encode_tag, encode_varint

    return encode_tag(number, 2) + encode_varint(len(content)) + content


def test_opening_imports_no_onnx():
    """The package is a fifth of a second and a C++ library that a viewer does not need to draw."""
    program = (
        "import sys; from onnx_workbench.model.io.reader.read import load; load(bytes.fromhex('080a3a03120167')); "
        "print('onnx' in sys.modules, 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=Path.cwd(), capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


@pytest.mark.long
def test_a_later_import_of_onnx_has_the_same_classes():
    program = (
        "from onnx_workbench.model.io.protobuf import ModelProto; import onnx; "
        "print(onnx.ModelProto is ModelProto, onnx.load)"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=Path.cwd(), capture_output=True, text=True, check=True)
    assert found.stdout.startswith("True")
