"""Messages as text and back: nothing is lost, whatever fields they have, and errors name their place."""

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.io.message_text import MessageText, MessageTextError
from onnx_workbench.model.io.protobuf import DecodeError
from onnx_workbench.model.io.reader.payloads import Payload, PayloadTable
from onnx_workbench.model.io.reader.source import BytesSource
from onnx_workbench.model.io.wire import schemas
from tests.examples import examples
from tests.model.io.wire_messages import messages

KINDS = ("ModelProto", "GraphProto", "FunctionProto", "NodeProto", "TensorProto", "AttributeProto", "ValueInfoProto",
         "TrainingInfoProto", "SparseTensorProto", "TypeProto")  # fmt: skip


@settings(max_examples=examples(50))
@given(st.sampled_from(KINDS).flatmap(lambda name: st.tuples(st.just(name), messages(schemas()[name]))))
def test_the_text_of_any_message_is_read_as_that_message(drawn):
    name, data = drawn
    kind = getattr(onnx, name)
    try:
        message = kind.FromString(data)
    except DecodeError:
        return
    shown = MessageText(message)
    again = shown.read(shown.text)
    assert MessageText(again).text == shown.text  # unknown numbers may have been written in more bytes than needed
    again.DiscardUnknownFields()
    message.DiscardUnknownFields()
    assert again.SerializeToString() == message.SerializeToString()


NODE = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="n", group=1)


def test_texts_are_readable_and_unknown_fields_are_written_out():
    node = onnx.NodeProto(name="卷积")
    node.MergeFromString(b"\xf8\x3e\x2a" + b"\x22\x03a\xffb" + b"\xfb\x3e\x08\x01\xfc\x3e")
    assert MessageText(node).text == (
        'name: "卷积"\nop_type: "a\\377b"\nunknown {\n  number: 1007\n  varint: 42\n}\n'
        'unknown {\n  number: 1007\n  group: "\\010\\001"\n}\n'
    )


def test_characters_that_cannot_be_seen_are_escaped():
    node = onnx.NodeProto(name="a\u202eb\u00a0c\u2028d")
    shown = MessageText(node)
    assert shown.text == 'name: "a\\342\\200\\256b\\302\\240c\\342\\200\\250d"\n'
    assert shown.read(shown.text) == node


def test_long_contents_are_named_and_stay():
    tensor = onnx.TensorProto(dims=[2000], data_type=1, float_data=[0.5] * 2000)
    shown = MessageText(tensor)
    assert 'unchanged: "#1 float_data, 8,000 bytes"' in shown.text
    changed = shown.read(shown.text.replace("2000", "1000, 2"))
    assert (list(changed.dims), list(changed.float_data)) == ([1000, 2], [0.5] * 2000)
    gone = shown.read("dims: 1\nfloat_data: 2\n")
    assert list(gone.float_data) == [2]


def test_contents_in_a_file_are_named_by_size_and_not_read():
    table = PayloadTable()
    node = onnx.NodeProto(op_type="Constant")
    data = table.add(Payload(BytesSource(b"x" * 5000), 0, 5000))
    node.attribute.add(name="value").t.raw_data = data
    shown = MessageText(node, [table])
    assert 'unchanged: "#1 raw_data, 5,000 bytes"' in shown.text
    (piece,) = shown.table.split(shown.read(shown.text).attribute[0].t.raw_data)
    assert isinstance(piece, Payload)
    assert piece.read() == b"x" * 5000


def test_contents_move_within_a_message():
    node = onnx.NodeProto()
    for name in "ab":
        node.attribute.add(name=name).t.raw_data = name.encode() * 300
    shown = MessageText(node)
    swapped = shown.text.replace("#1", "#0").replace("#2", "#1").replace("#0", "#2")
    assert [one.t.raw_data[:1] for one in shown.read(swapped).attribute] == [b"b", b"a"]


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('name: "n"\nfoo: 1', 2, 1, 'NodeProto" has no field named "foo"'),
        ("name: 3", 1, 7, "Expected string"),
        ('name: "a"\nname: "b"', 2, 7, "multiple"),
        ('attribute {\n  name: "a"', 2, None, "Expected"),
        ('name: "a"\nunchanged: "#7 g"', 2, None, "Nothing in this message is left out"),
        ('unchanged: "raw_data"', 1, None, "names no content"),
        ("unknown {\n  number: 1\n  bytes: 'x'\n}", 2, None, "Field 1 is input of NodeProto"),
        ("unknown {\n  number: 0\n  varint: 1\n}", 2, None, "no number of a field"),
        ("unknown { number: 19500 varint: 1 }", 1, None, "no number of a field"),
        ("unknown { number: 1007 }", 1, None, "needs one content"),
        ("unknown { number: 1007 varint: 1 fixed32: 2 }", 1, None, "needs one content"),
        ("unknown { number: 1007 group: '\\010' }", 1, None, "whole fields"),
        ("attribute { tp { sequence_type { elem_type { " * 400, 1, None, ""),
        ("\ud800", 1, None, ""),
    ],
)
def test_errors_name_their_place(text, line, column, reason):
    with pytest.raises(MessageTextError) as caught:
        MessageText(NODE).read(text)
    error = caught.value
    assert error.line == line
    assert column is None or error.column == column
    assert reason in error.detail


def test_contents_must_fit_their_message_and_be_given_once():
    node = onnx.NodeProto()
    node.attribute.add(name="a").t.raw_data = bytes(300)
    shown = MessageText(node)
    with pytest.raises(MessageTextError, match="Line 1"):
        shown.read('unchanged: "#1 raw_data"')
    with pytest.raises(MessageTextError) as caught:
        shown.read(shown.text.replace("unchanged", 'raw_data: "x"\n    unchanged'))
    assert "also named as unchanged" in caught.value.detail
