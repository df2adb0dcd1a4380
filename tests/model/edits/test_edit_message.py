"""Editing messages as text: any field of any message is changed, saved, read again and undone."""

import re

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_workbench.model.edits.edit_message import MessageEdit, field_of
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.model import builders
from tests.model.edits.every_message import everything, proto
from tests.model.snapshots import assert_linked


def messages(model):
    """Every object with a message, and the field of its graph that lists it."""
    found = [(target, "") for target in (model, *model.functions, *model.training_info)]
    for graph in model.graphs():
        found += [(graph, ""), *((node, "") for node in graph.nodes)]
        found += [(value, field_of(value)) for value in graph.values()]
    return found


def change(document, target, old, new, field=""):
    """Replace some text of a message."""
    message = MessageEdit(target, field)
    assert old in message.text
    builders.one_edit(document, message.apply, message.text.replace(old, new, 1))


@pytest.fixture
def document():
    return Document(load(proto().SerializeToString()))


def test_the_text_of_every_message_changes_nothing():
    data = everything()
    document = Document(load(data))
    for target, field in messages(document.model):
        message = MessageEdit(target, field)
        builders.one_edit(document, message.apply, message.text)
        assert to_bytes(document.model) == data
    assert not document.modified


SCALAR = re.compile(r'^ *(\w+): (-?[\d.]+|"[^"\\]*")$', re.MULTILINE)
FIXED = {
    # what a number or text here must agree with
    "elem_type", "data_type", "key_type", "configuration_id", "version", "tensor_name", "input", "number", "key",
    "value", "unchanged", "ref_attr_name", "num_devices",
}  # fmt: skip


@pytest.mark.long
def test_every_scalar_is_edited_saved_and_undone(document):
    before = to_bytes(document.model)
    changed = set()
    for target, field in messages(document.model):
        for match in SCALAR.finditer(MessageEdit(target, field).text):
            if match[1] in FIXED:
                continue
            message = MessageEdit(target, field)
            new = '"other"' if match[2].startswith('"') else "3.0" if "." in match[2] else "3"
            text = message.text[: match.start(2)] + new + message.text[match.end(2) :]
            builders.one_edit(document, message.apply, text)
            assert MessageEdit(target, field).text == text
            onnx.ModelProto.FromString(to_bytes(document.model))
            assert_linked(document.model)
            changed.add(match[1])
            document.undo()
            assert to_bytes(document.model) == before
    assert {"name", "op_type", "domain", "output", "f", "i", "ir_version", "pipeline_stage", "dim_param", "num_shards",
            "doc_string", "axis", "producer_name"} - changed <= {"i", "producer_name", "domain"}  # fmt: skip


def node(document, name):
    return builders.node(document.model, name)


@pytest.mark.long
def test_unknown_fields_survive_adding_changing_and_removing():
    data = proto().SerializeToString()
    document = Document(load(data))
    count = 0
    for target, field in messages(document.model):
        if field == "value_info" and target.type is None:
            continue  # has no message
        text = MessageEdit(target, field).text
        places = [0, *(match.end() for match in re.finditer(r"\{\n", text))]
        for place in places[:: 1 if field or len(places) < 6 else 3]:
            message = MessageEdit(target, field)
            added = f"{text[:place]}unknown {{ number: 1007 varint: 7 }}\n{text[place:]}"
            with document.edit("Add") as edit:
                message.apply(edit, added)
            assert b"\xf8\x3e\x07" in to_bytes(document.model)
            for old, new in (("varint: 7", "varint: -1"), ("varint: -1", "bytes: 'x'")):
                change(document, target, old, new.replace("'", '"'), field)
            assert b"\xfa\x3e\x01x" in to_bytes(document.model)
            again = MessageEdit(target, field)
            builders.one_edit(document, again.apply, text)
            assert to_bytes(document.model) == data, (target, place)
            for _ in range(4):
                document.undo()
            count += 1
    assert count > 40
    assert to_bytes(document.model) == data


def test_names_and_wires(document):
    first = document.model.graph.nodes.first
    (output,) = first.outputs
    used = set(output.uses)
    change(document, first, f'output: "{output.name}"', 'output: "renamed"')
    assert (output.name, set(output.uses)) == ("renamed", used)
    with pytest.raises(ModelError, match="There is no value 'nothing' here"):
        change(document, first, 'input: "x"', 'input: "nothing"')
    with pytest.raises(ModelError, match="cannot be connected"):
        change(document, first, 'input: "x"', 'input: "renamed"')
    with pytest.raises(ModelError, match="is used"):
        change(document, first, 'output: "renamed"\n', "")
    assert_linked(document.model)


def test_bodies_stay_the_objects_they_are_and_may_change_places():
    document = builders.document(builders.BRANCHES)
    branch = next(n for n in document.model.graph.nodes if n.op_type == "If")
    before = to_bytes(document.model)
    bodies = {name: attribute.value for name, attribute in branch.attributes.items()}
    message = MessageEdit(branch)
    text = (
        message.text.replace("then_branch", "_").replace("else_branch", "then_branch").replace('"_"', '"else_branch"')
    )
    builders.one_edit(document, message.apply, text)
    assert branch.attributes["then_branch"].value is bodies["else_branch"]
    assert branch.attributes["else_branch"].value is bodies["then_branch"]
    assert_linked(document.model)
    document.undo()
    assert to_bytes(document.model) == before
    assert_linked(document.model)
    with pytest.raises(ModelError, match="A graph is not given as text"):
        change(document, branch, "type: GRAPH\n", 'type: GRAPH\n  g { name: "mine" }\n  #', "")


def test_large_values_are_kept_when_something_beside_them_changes(tmp_path):
    made = builders.proto(builders.CHAIN)
    values = np.arange(10_000, dtype=np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(values, "large"))
    path = tmp_path / "large.onnx"
    path.write_bytes(made.SerializeToString())
    document = Document(load(path), path)
    change(document, builders.value(document, "large"), "dims: [10000]", "dims: [100, 100]")
    value = builders.value(document, "large")
    assert np.array_equal(value.initializer.numpy(), values.reshape(100, 100))
    assert np.array_equal(
        onnx.numpy_helper.to_array(onnx.ModelProto.FromString(to_bytes(document.model)).graph.initializer[-1]),
        values.reshape(100, 100),
    )


def test_a_tensor_in_memory_is_edited_too(document):
    from onnx_workbench.model.edits.initializers import add_initializer

    with document.edit("Add") as edit:
        value = add_initializer(edit, document.model.graph, ArrayTensor(np.arange(2000, dtype=np.int64)), "new")
    change(document, value, 'name: "new"', 'name: "newer"\ndoc_string: "counted"')
    assert (value.name, value.initializer.doc_string) == ("newer", "counted")
    assert value.initializer.numpy()[-1] == 1999


def test_where_external_data_are_is_edited(document):
    odd = builders.value(document.model, "odd")
    change(document, odd, '"nowhere.bin"', '"elsewhere.bin"')
    assert odd.initializer.source.external_data[0].value == "elsewhere.bin"


def test_references_to_a_renamed_device_configuration_follow(document):
    change(document, document.model, 'name: "mesh"', 'name: "grid"')
    first = document.model.graph.nodes.first
    assert [one.configuration_id for one in first.device_configurations] == ["grid"]


def test_the_header_of_a_function(document):
    (function,) = document.model.functions
    change(document, function, 'input: "v"', 'input: "v"\ninput: "second"')
    assert [value.name for value in function.body.inputs] == ["v", "second"]
    change(document, function, 'name: "bias"', 'name: "offset"')
    assert [one.name for one in function.attribute_defaults] == ["offset"]
    while document.undo():
        pass
    assert to_bytes(document.model) == proto().SerializeToString()


def test_training(document):
    (training,) = document.model.training_info
    assert isinstance(training, TrainingInfo)
    with pytest.raises(ModelError, match="No output"):
        change(document, training, 'value: "w1"', 'value: "no"')
    change(document, training, 'value: "w1"', 'value: "w"')
    assert training.update_binding == (("w", "w"),)
    message = MessageEdit(training)
    builders.one_edit(document, message.apply, "")
    assert training.algorithm is None


@pytest.mark.parametrize(
    ("of", "old", "new", "reason"),
    [
        ("model", "ir_version: 11", "ir_version: 0", "not an IR version"),
        ("model", "version: 21", "version: 0", "not an opset version"),
        ("model", "ir_version: 11", "ir_version: 11\ngraph { }", "not part of this text"),
        ("model", 'domain: "local"', 'domain: "ai.onnx"', "is given twice"),
        ("node", 'op_type: "Add"', 'op_type: ""', "needs an operator"),
        ("node", 'op_type: "Add"', 'op_type: "Add"\nmetadata_props { value: "x" }', "without a name"),
        ("node", 'op_type: "Add"', 'op_type: "Add"\nattribute { name: "a" }', "needs a type"),
        ("node", 'op_type: "Add"', 'op_type: "Add"\nattribute { name: "a" i: 1 type: INT f: 2 }', None),
        ("node", 'op_type: "Add"', 'op_type: "Add"\nattribute { i: 1 type: INT }', "without a name"),
        ("node", 'op_type: "Add"', 'op_type: "Add"\ndevice_configurations { configuration_id: "no" }', "No device"),
        ("graph", 'tensor_name: "x"', 'tensor_name: "no"', "There is no value"),
    ],
)
def test_what_the_model_cannot_hold_is_refused(document, of, old, new, reason):
    before = to_bytes(document.model)
    graph = document.model.graph
    target = {"model": document.model, "graph": graph, "node": graph.nodes.first}[of]
    if of == "node":
        old, new = (text.replace("Add", target.op_type) for text in (old, new))
    if reason is None:
        change(document, target, old, new)
        return
    with pytest.raises(ModelError) as caught:
        change(document, target, old, new)
    assert reason in f"{caught.value.title} {caught.value.detail}"
    assert to_bytes(document.model) == before
    assert not document.modified


def test_another_spelling_of_the_same_is_kept():
    document = builders.document()
    node = document.model.graph.nodes.first
    change(document, node, 'domain: ""', 'domain: "ai.onnx"')
    assert node.domain == ""
    assert onnx.load_from_string(to_bytes(document.model)).graph.node[0].domain == "ai.onnx"
    document.undo()
    assert onnx.load_from_string(to_bytes(document.model)).graph.node[0].domain == ""


def test_a_message_that_another_edit_changed_is_not_overwritten():
    document = builders.document()
    first = document.model.graph.nodes.first
    message = MessageEdit(first)
    builders.one_edit(document, rename_node, first, "elsewhere")
    with pytest.raises(ModelError, match="has changed"), document.edit("Edit") as edit:
        message.apply(edit, message.text)


def test_a_value_without_a_declaration_gets_one():
    document = builders.document()
    value = builders.value(document, "a")
    assert isinstance(value, Value)
    with pytest.raises(ModelError, match="not declared"):
        change(document, value, 'name: "a"\n', 'name: "a"\nunknown { number: 1007 varint: 7 }')
    change(
        document,
        value,
        'name: "a"\n',
        'name: "a"\ntype { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } }',
    )
    assert str(value.type.shape) == "[3]" or value.type.shape.dims == (3,)
    assert b"a" in to_bytes(document.model)
