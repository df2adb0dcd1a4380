"""Fields that onnx.proto does not know are added, changed and removed anywhere, with undo, journal and script."""

import re
from dataclasses import replace

import onnx
import pytest

from onnx_workbench.model.edits import functions, initializers, interface, nodes, properties, values
from onnx_workbench.model.edits.raw_fields import add_unknown_field, can_remove, can_set, remove_field, set_field
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInputs
from onnx_workbench.model.io.raw_view import RawField, contents_of, fields, root, source_text
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.wire import schemas
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from onnx_workbench.model.scripts import edit_script
from tests.model.edits.test_raw_fields import proto, walk
from tests.model.io.writer.test_export_graph import with_unknown_fields
from tests.model.recovery.crash import abandon

NUMBER, REAL, BYTES = b"\xf8\x3e\x2a", b"\xfd\x3e\x00\x00\x80\x3f", b"\xfa\x3e\x05hello"


def everything() -> bytes:
    """A model with everything, its messages with an unknown text each, one tensor too large to go through protobuf."""
    made = proto()
    made.graph.initializer.append(onnx.helper.make_tensor("large", 1, [100, 100], bytes(40_000), raw=True))
    return with_unknown_fields(made.SerializeToString(), schemas()["ModelProto"], [])


def unknown(document):
    """The path of every unknown field with what it says."""
    contents = contents_of(document.model)
    return [
        (path, source_text(contents, row))
        for path, row in walk(contents, root(contents))
        if isinstance(row, RawField) and row.schema is None
    ]


def at_top(document):
    contents = contents_of(document.model)
    return [
        (field.key, source_text(contents, field)) for field in fields(contents, root(contents)) if field.schema is None
    ]


def edited(document, path, text):
    with document.edit("Change") as edit:
        if text is None:
            remove_field(edit, path)
        else:
            set_field(edit, path, text)


@pytest.mark.long
@pytest.mark.parametrize("text", ["ff 00", None])
def test_each_is_changed_alone_and_comes_back(text):
    data = everything()
    document = Document(load(data))
    found = unknown(document)
    assert len(found) > 80
    for path, source in found:
        assert can_set(document.model, path), path
        assert can_remove(document.model, path), path
        edited(document, path, text)
        others = [(other, report) for other, report in found if other != path]
        now = unknown(document)
        assert [pair for pair in now if pair[0] != path] == others
        assert [report for other, report in now if other == path] == ([] if text is None else [text]), source
        document.undo()
        assert to_bytes(document.model) == data


def test_all_are_removed_and_nothing_else():
    document = Document(load(everything()))
    for path, _ in unknown(document):
        edited(document, path, None)
    plain = proto()
    plain.graph.initializer.append(onnx.helper.make_tensor("large", 1, [100, 100], bytes(40_000), raw=True))
    assert to_bytes(document.model) == plain.SerializeToString()


def small() -> bytes:
    return proto().SerializeToString() + NUMBER + BYTES + REAL


def test_numbers_are_edited_as_numbers_and_the_rest_as_bytes():
    document = Document(load(small()))
    (number, report), (text, spelled), (real, raw) = at_top(document)
    assert (report, spelled, raw) == ("42", "68 65 6c 6c 6f", "00 00 80 3f")
    edited(document, (number,), "-1")
    edited(document, (text,), "")
    edited(document, (real,), "00000040")
    assert [report for _, report in at_top(document)] == ["-1", "", "00 00 00 40"]
    with pytest.raises(ModelError, match="3 bytes do not fit"):
        edited(document, (real,), "00 00 00")
    with pytest.raises(ModelError, match="not a whole number"):
        edited(document, (number,), "many")
    while document.undo():
        pass
    assert to_bytes(document.model) == small()


def test_fields_of_one_number_are_reported_apart():
    document = Document(load(proto().SerializeToString() + NUMBER + NUMBER))
    edited(document, (("field 1007", 1),), "7")
    assert [report for _, report in at_top(document)] == ["42", "7"]
    edited(document, (("field 1007", 0),), None)
    assert [report for _, report in at_top(document)] == ["7"]


def test_a_group_stays_whole():
    group = b"\xfb\x3e\x08\x01\xfc\x3e"
    document = Document(load(proto().SerializeToString() + NUMBER + group))
    with pytest.raises(ModelError, match="group"):
        edited(document, (("field 1007", 0),), None)
    assert not document.modified


def test_a_change_follows_its_message_when_others_go():
    made = proto()
    for key in "abc":
        made.metadata_props.add(key=key).MergeFromString(BYTES[:-1] + key.encode())
    document = Document(load(made.SerializeToString()))
    edited(document, (("metadata_props", 2), ("field 1007", 0)), "00")
    with document.edit("Remove") as edit:
        properties.set_metadata(edit, document.model, "a", None)
    assert [report for _, report in unknown(document)] == ["68 65 6c 6c 62", "00"]


def test_a_copied_node_takes_the_change_along():
    made = proto()
    made.graph.node[0].MergeFromString(BYTES)
    document = Document(load(made.SerializeToString()))
    node = document.model.graph.nodes.first
    edited(document, (("graph", 0), ("node", 0), ("field 1007", 0)), "01")
    with document.edit("Duplicate") as edit:
        nodes.duplicate(edit, [node])
    assert [report for _, report in unknown(document)] == ["01", "01"]


def test_journal_and_script_repeat_it(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    data = everything()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    for path, _ in unknown(document)[::3]:
        edited(document, path, None)
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = Document(load(data))
    recover(again, leftover)
    assert to_bytes(again.model) == to_bytes(document.model)
    scripted = Document(load(data))
    edit_script.replay(scripted, edit_script.export(document))
    assert to_bytes(scripted.model) == to_bytes(document.model)


def test_a_script_with_bytes_that_are_no_fields_is_refused():
    document = Document(load(small()))
    edited(document, (("field 1007", 0),), None)
    text = edit_script.export(document).replace((BYTES + REAL).hex(), "ff")
    with pytest.raises(ModelError):
        edit_script.replay(Document(load(small())), text)


@pytest.mark.long
def test_one_is_added_to_any_message():
    document = Document(load(proto().SerializeToString()))
    before = to_bytes(document.model)
    contents = contents_of(document.model)
    messages = [path for path, row in walk(contents, root(contents)) if isinstance(row, RawField) and row.message]
    assert len(messages) > 60
    for path in [(), *messages]:
        for text, report in (("-1", "-1"), ("bytes 0a ff", "0a ff")):
            with document.edit("Add") as edit:
                add_unknown_field(edit, path, "1007", text)
            assert unknown(document) == [((*path, ("field 1007", 0)), report)]
            document.undo()
    assert to_bytes(document.model) == before


def test_one_is_added_beside_others():
    document = Document(load(small()))
    with document.edit("Add") as edit:
        add_unknown_field(edit, (), "1007", "7")
    assert [report for _, report in at_top(document)] == ["42", "68 65 6c 6c 6f", "00 00 80 3f", "7"]


@pytest.mark.parametrize(
    ("number", "text", "said"),
    [
        ("7", "1", "is graph of ModelProto"),
        ("0", "1", "not a field number"),
        ("19500", "1", "not a field number"),
        ("536870912", "1", "not a field number"),
        ("many", "1", "not a whole number"),
        ("1007", "", "not a whole number"),
        ("1007", "bytes 0", "not bytes"),
    ],
)
def test_one_that_cannot_be_is_not_added(number, text, said):
    document = Document(load(small()))
    with pytest.raises(ModelError, match=said), document.edit("Add") as edit:
        add_unknown_field(edit, (), number, text)
    assert not document.modified


def test_a_message_with_a_group_gets_none():
    document = Document(load(proto().SerializeToString() + b"\xfb\x3e\x08\x01\xfc\x3e"))
    with pytest.raises(ModelError, match="group"), document.edit("Add") as edit:
        add_unknown_field(edit, (), "1008", "7")


def test_a_copied_function_takes_the_change_along():
    made = proto()
    made.functions[0].MergeFromString(BYTES)
    document = Document(load(made.SerializeToString()))
    edited(document, (("functions", 0), ("field 1007", 0)), "01")
    copy = Cloner().function(document.model.functions[0])
    copy.name = "copy"
    with document.edit("Copy") as edit:
        edit.do(SetField(document.model, "functions", (*document.model.functions, copy)))
    assert [report for _, report in unknown(document)] == ["01", "01"]


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
    with document.edit("Duplicate") as edit:
        nodes.duplicate(edit, [node for node in graph.nodes if not node.bodies])
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
    with document.edit("Duplicate") as edit:
        (copy,) = nodes.duplicate(edit, [document.model.graph.nodes.first])
    with document.edit("Function") as edit:
        functions.extract_function(edit, [copy], "block")
    with document.edit("Add") as edit:
        add_unknown_field(edit, (("functions", len(document.model.functions) - 1),), "1009", "5")
        add_unknown_field(edit, (("functions", len(document.model.functions) - 1), ("node", 0)), "1009", "6")
    with document.edit("Copy") as edit:
        again = Cloner().function(document.model.functions[-1])
        again.name = "again"
        edit.do(SetField(document.model, "functions", (*document.model.functions, again)))
    abandon(kept)
    report = [text for _, text in unknown(document) if text in "56"]
    assert sorted(report) == ["5", "5", "6", "6"]
    for again in replayed(document, data, tmp_path):
        assert [text for _, text in unknown(again) if text in "56"] == report


def added(document, *path):
    with document.edit("Add") as edit:
        add_unknown_field(edit, path, "1007", "7")


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
    assert change((3, 4), (two, three)) == {(*dims, ("dim", 0)), (("training_info", 0),)}
    assert change((5, 2, 3, 4), (three, one, two)) == {(*dims, ("dim", 2)), (("training_info", 2),)}
    assert change((2, 5, 4), (one, two, three)) == {(*dims, ("dim", 1)), (("training_info", 1),)}, (
        "changed in its place"
    )
    assert change((2, 4), (one, three)) == set(), "gone"
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
        edited(document, path, "0a")
    abandon(kept)
    found = unknown(document)
    for again in replayed(document, data, tmp_path):
        assert unknown(again) == found


def test_a_script_with_a_damaged_message_is_refused():
    document = Document(load(everything()))
    with document.edit("Duplicate") as edit:
        nodes.duplicate(edit, [document.model.graph.nodes.first])
    text = re.sub(r'"unknown": "[^"]+"', '"unknown": "/w=="', edit_script.export(document))
    with pytest.raises(ModelError, match="damaged"):
        edit_script.replay(Document(load(everything())), text)
