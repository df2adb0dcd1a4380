"""Fields that onnx.proto does not know are added, changed and removed anywhere, with undo, journal and script."""

import re
from dataclasses import replace

import onnx
import pytest

from onnx_workbench.model.edits import functions, initializers, interface, nodes, properties, values
from onnx_workbench.model.edits.edit_message import MessageEdit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInputs
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.message_text import MessageText
from onnx_workbench.model.io.raw_view import RawField, contents_of, object_at, root
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.unknown_fields import own_unknown
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from onnx_workbench.model.scripts import edit_script
from tests.model import builders
from tests.model.edits.every_message import everything, proto, walk
from tests.model.recovery.crash import abandon
from tests.model.snapshots import snapshot

NUMBER, REAL, BYTES = b"\xf8\x3e\x2a", b"\xfd\x3e\x00\x00\x80\x3f", b"\xfa\x3e\x05hello"


def unknown(document):
    """The path of every unknown field with what it says."""
    contents = contents_of(document.model)
    return [
        (path, contents.read(row.content, row.end - row.content))
        for path, row in walk(contents, root(contents))
        if isinstance(row, RawField) and row.schema is None
    ]


def with_unknown(document, path, data):
    """Give the message at a path these unknown fields instead of its own."""
    target, field = object_at(document.model, path)
    depth = next(n for n in range(len(path) + 1) if object_at(document.model, path[:n]) == (target, field))
    message = MessageEdit(target, field)
    changed = inner = message.read(message.text)
    for name, index in path[depth:]:
        field = getattr(inner, name)
        inner = field[index] if hasattr(field, "add") else field
    inner.ParseFromString(inner.SerializeToString().removesuffix(own_unknown(inner)) + data)
    text = MessageText(changed, [message._codec.table]).text
    builders.one_edit(document, message.apply, text)


def small() -> bytes:
    return proto().SerializeToString() + NUMBER + BYTES + REAL


def test_a_change_follows_its_message_when_others_go():
    made = proto()
    for key in "abc":
        made.metadata_props.add(key=key).MergeFromString(BYTES[:-1] + key.encode())
    document = Document(load(made.SerializeToString()))
    with_unknown(document, (("metadata_props", 2),), BYTES[:2] + b"\x01\0")
    builders.one_edit(document, properties.set_metadata, document.model, "a", None)
    assert [report for _, report in unknown(document)] == [b"hellb", b"\0"]


def test_a_copied_node_takes_the_change_along():
    made = proto()
    made.graph.node[0].MergeFromString(BYTES)
    document = Document(load(made.SerializeToString()))
    node = document.model.graph.nodes.first
    with_unknown(document, (("graph", 0), ("node", 0)), BYTES[:2] + b"\x01\1")
    builders.one_edit(document, nodes.duplicate, [node])
    assert [report for _, report in unknown(document)] == [b"\1", b"\1"]


def test_a_field_with_another_wire_type_than_its_own_is_unknown():
    document = Document(load(proto().SerializeToString() + b"\x0a\x01x"))  # ir_version, as a text
    assert [report for _, report in unknown(document)] == [b"x"]
    with_unknown(document, (), NUMBER)
    assert [report for _, report in unknown(document)] == [b"\x2a"]


def test_a_working_copy_has_the_changes_too():
    document = Document(load(everything()))
    for path, _ in unknown(document):
        with_unknown(document, path[:-1], b"")
    assert unknown(WorkingCopy(document.model).document) == unknown(document)


def test_journal_and_script_repeat_it(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    data = everything()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    for path, _ in unknown(document)[::3]:
        with_unknown(document, path[:-1], b"")
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = Document(load(data))
    recover(again, leftover)
    assert (unknown(again), snapshot(again.model)) == (unknown(document), snapshot(document.model))
    scripted = Document(load(data))
    edit_script.replay(scripted, edit_script.export(document))
    assert (unknown(scripted), snapshot(scripted.model)) == (unknown(document), snapshot(document.model))


def test_a_script_with_bytes_that_are_no_fields_is_refused():
    document = Document(load(small()))
    with_unknown(document, (), BYTES + REAL)
    text = re.sub(r'"ModelProto": "[^"]+"', '"ModelProto": "/w=="', edit_script.export(document))
    with pytest.raises(ModelError, match="damaged"):
        edit_script.replay(Document(load(small())), text)


def test_a_copied_function_takes_the_change_along():
    made = proto()
    made.functions[0].MergeFromString(BYTES)
    document = Document(load(made.SerializeToString()))
    with_unknown(document, (("functions", 0),), BYTES[:2] + b"\x01\1")
    copy = Cloner().function(document.model.functions[0])
    copy.name = "copy"
    builders.do(document, SetField(document.model, "functions", (*document.model.functions, copy)))
    assert [report for _, report in unknown(document)] == [b"\1", b"\1"]


def replayed(document, data, tmp_path):
    """What a journal and a script make of the file again."""
    (leftover,) = find_journals(tmp_path)
    again = Document(load(data))
    recover(again, leftover)
    scripted = Document(load(data))
    edit_script.replay(scripted, edit_script.export(document))
    return again, scripted


def test_what_is_inside_attributes_and_tensors_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    data = everything()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    graph = document.model.graph
    count = len(unknown(document))
    builders.one_edit(document, nodes.duplicate, [node for node in graph.nodes if not node.bodies])
    with document.edit("Set") as edit:
        for node in graph.nodes:
            for attribute in node.attributes.values():
                if not attribute.graphs:
                    edit.do(SetAttribute(node, attribute.name, replace(attribute, doc_string="other")))
    abandon(kept)
    found = unknown(document)
    assert len(found) > count
    for again in replayed(document, data, tmp_path):
        missing = {path for path, _ in found} - {path for path, _ in unknown(again)}
        assert not [path for path in missing if "attribute" in {name for name, _ in path}]


def test_what_is_changed_in_a_new_node_or_function_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    made = proto()
    made.graph.node[0].MergeFromString(BYTES)
    data = made.SerializeToString()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    (copy,) = builders.one_edit(document, nodes.duplicate, [document.model.graph.nodes.first])
    builders.one_edit(document, functions.extract_function, [copy], "block")
    last = ("functions", len(document.model.functions) - 1)
    with_unknown(document, (last,), BYTES[:2] + b"\x015")
    with_unknown(document, (last, ("node", 0)), BYTES[:2] + b"\x016")
    with document.edit("Copy") as edit:
        again = Cloner().function(document.model.functions[-1])
        again.name = "again"
        edit.do(SetField(document.model, "functions", (*document.model.functions, again)))
    abandon(kept)
    report = [text for _, text in unknown(document) if text in (b"5", b"6")]
    assert sorted(report) == [b"5", b"5", b"6", b"6"]
    for again in replayed(document, data, tmp_path):
        assert [text for _, text in unknown(again) if text in (b"5", b"6")] == report


def added(document, *path):
    with_unknown(document, path, NUMBER)


def test_what_was_added_stays_with_its_message_when_others_go():
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> m (float[4] a, float[4] b, float[4] c) => (float[4] y)'
        " <float[4] p = {1, 2, 3, 4}, float[4] q = {1, 2, 3, 4}, float[4] r = {1, 2, 3, 4}>"
        " { s = Sum (a, b, c, p, q, r) y = LeakyRelu <alpha = 0.5> (s) }"
    )
    for key in "abc":
        made.metadata_props.add(key=key, value=key)
    document = Document(load(made.SerializeToString()))
    graph = document.model.graph
    added(document, ("graph", 0), ("input", 1))
    added(document, ("graph", 0), ("initializer", 1))
    added(document, ("metadata_props", 1))
    with document.edit("Remove") as edit:
        properties.set_metadata(edit, document.model, "a", None)
        values.rename_value(edit, graph.initializers[1], "renamed")
        edit.do(SetInputs(graph.nodes.first, (graph.inputs[1], graph.initializers[1])))
        interface.remove_input(edit, graph, graph.inputs[0])
        initializers.remove_initializer(edit, graph.initializers[0])
        values.rename_value(edit, graph.inputs[0], "also")
    kept = [path[:-1] for path, _ in unknown(document)]
    assert kept == [(("graph", 0), ("initializer", 0)), (("graph", 0), ("input", 0)), (("metadata_props", 0),)]
    with document.edit("Remove") as edit:
        properties.set_metadata(edit, document.model, "b", None)
        edit.do(SetInputs(graph.nodes.first, ()))
        interface.remove_input(edit, graph, graph.inputs[0])
        initializers.remove_initializer(edit, graph.initializers[0])
    assert unknown(document) == []
    while document.undo():
        pass
    assert to_bytes(document.model) == made.SerializeToString()


def test_what_was_added_to_a_message_without_a_name_stays_with_it():
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> m (float[2, 3, 4] a) => (float[2, 3, 4] y) { y = Neg (a) }'
    )
    for name in ("first", "second", "third"):
        made.training_info.add().algorithm.CopyFrom(onnx.helper.make_graph([], name, [], []))
    document = Document(load(made.SerializeToString()))
    model, (a,) = document.model, document.model.graph.inputs
    dims = (("graph", 0), ("input", 0), ("type", 0), ("tensor_type", 0), ("shape", 0))
    added(document, *dims, ("dim", 1))
    added(document, ("training_info", 1))

    def change(shape, training):
        with document.edit("Change") as edit:
            values.set_types(edit, {a: TensorType(ElementType.FLOAT, Shape(shape))})
            edit.do(SetField(model, "training_info", training))
        return {path[:-1] for path, _ in unknown(document)}

    one, two, three = model.training_info
    assert change((2, 5), (two, three)) == {(*dims, ("dim", 1)), (("training_info", 0),)}
    assert change((5, 2, 3, 4), (three, one, two)) == {(*dims, ("dim", 1)), (("training_info", 2),)}
    assert change((2,), (one, three)) == set(), "gone"
    assert change((2, 3, 4), (one, two, three)) == {(*dims, ("dim", 1)), (("training_info", 1),)}
    while document.undo():
        pass
    assert to_bytes(document.model) == made.SerializeToString()


def test_what_stands_around_the_parts_of_new_objects_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    data = everything()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    model = document.model
    with document.edit("Copy") as edit:
        edit.do(SetField(model, "configurations", model.configurations[::-1]))
        annotations = model.graph.quantization_annotations
        edit.do(SetField(model.graph, "quantization_annotations", (*annotations, *annotations)))
        for node in list(model.graph.nodes):
            nodes.duplicate(edit, [node])
        for function in list(model.functions):
            copy = Cloner().function(function)
            copy.name = f"{function.name} again"
            edit.do(SetField(model, "functions", (*model.functions, copy)))
    for path in [path for path, _ in unknown(document) if dict(path).keys() & {"input", "value_info"}]:
        with_unknown(document, path[:-1], BYTES)
    abandon(kept)
    found = unknown(document)
    for again in replayed(document, data, tmp_path):
        assert unknown(again) == found


def test_a_script_with_a_damaged_message_is_refused():
    document = Document(load(everything()))
    builders.one_edit(document, nodes.duplicate, [document.model.graph.nodes.first])
    text = re.sub(r'"unknown": "[^"]+"', '"unknown": "/w=="', edit_script.export(document))
    with pytest.raises(ModelError, match="damaged"):
        edit_script.replay(Document(load(everything())), text)
