"""Fields that onnx.proto does not know are changed and removed wherever they are, with undo, journal and script."""

import onnx
import pytest

from model.document import Document
from model.edits import nodes, properties
from model.edits.raw import can_set, set_field
from model.edits.rawchanges import can_remove, remove_field
from model.errors import ModelError
from model.io.rawview import RawField, contents_of, fields, root, source_text
from model.io.read import load
from model.io.save import to_bytes
from model.io.wire import schemas
from model.recording import script
from model.recording.journal import Journal
from model.recording.leftovers import leftovers, recover
from tests.model.edits.test_raw import proto, walk
from tests.model.io.test_write import with_unknown_fields

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
        others = [(other, told) for other, told in found if other != path]
        now = unknown(document)
        assert [pair for pair in now if pair[0] != path] == others
        assert [told for other, told in now if other == path] == ([] if text is None else [text]), source
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
    (number, told), (text, spelled), (real, raw) = at_top(document)
    assert (told, spelled, raw) == ("42", "68 65 6c 6c 6f", "00 00 80 3f")
    edited(document, (number,), "-1")
    edited(document, (text,), "")
    edited(document, (real,), "00000040")
    assert [told for _, told in at_top(document)] == ["-1", "", "00 00 00 40"]
    with pytest.raises(ModelError, match="3 bytes do not fit"):
        edited(document, (real,), "00 00 00")
    with pytest.raises(ModelError, match="not a whole number"):
        edited(document, (number,), "many")
    while document.undo():
        pass
    assert to_bytes(document.model) == small()


def test_fields_of_one_number_are_told_apart():
    document = Document(load(proto().SerializeToString() + NUMBER + NUMBER))
    edited(document, (("field 1007", 1),), "7")
    assert [told for _, told in at_top(document)] == ["42", "7"]
    edited(document, (("field 1007", 0),), None)
    assert [told for _, told in at_top(document)] == ["7"]


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
    assert [told for _, told in unknown(document)] == ["68 65 6c 6c 62", "00"]


def test_a_copied_node_takes_the_change_along():
    made = proto()
    made.graph.node[0].MergeFromString(BYTES)
    document = Document(load(made.SerializeToString()))
    node = document.model.graph.nodes.first
    edited(document, (("graph", 0), ("node", 0), ("field 1007", 0)), "01")
    with document.edit("Duplicate") as edit:
        nodes.duplicate(edit, [node])
    assert [told for _, told in unknown(document)] == ["01", "01"]


def test_journal_and_script_repeat_it(tmp_path, monkeypatch):
    monkeypatch.setattr("model.recording.leftovers.is_running", lambda pid: False)
    data = everything()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    for path, _ in unknown(document)[::3]:
        edited(document, path, None)
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    again = Document(load(data))
    recover(again, leftover)
    assert to_bytes(again.model) == to_bytes(document.model)
    scripted = Document(load(data))
    script.replay(scripted, script.export(document))
    assert to_bytes(scripted.model) == to_bytes(document.model)


def test_a_script_with_bytes_that_are_no_fields_is_refused():
    document = Document(load(small()))
    edited(document, (("field 1007", 0),), None)
    text = script.export(document).replace((BYTES + REAL).hex(), "ff")
    with pytest.raises(ModelError):
        script.replay(Document(load(small())), text)
