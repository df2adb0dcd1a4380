import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import DecodeError, ModelProto
from onnx_workbench.model.io.reader.payloads import Payload, restore
from onnx_workbench.model.io.reader.scan import diagnose, scan
from onnx_workbench.model.io.reader.source import BytesSource
from onnx_workbench.model.io.wire import encode_tag, encode_varint, schemas
from onnx_workbench.model.progress import Cancelled, Progress
from tests.model.io.wire_messages import models

MODEL = schemas()["ModelProto"]


def join(pieces):
    return b"".join(piece if isinstance(piece, bytes) else piece.read() for piece in pieces)


def field(number, content):
    return encode_tag(number, 2) + encode_varint(len(content)) + content


def parsed(data):
    """What the protobuf runtime makes of bytes; None when it refuses them."""
    try:
        return ModelProto.FromString(data).SerializeToString()
    except DecodeError:
        return None


def through_scan(data, threshold):
    """What comes out when the payloads are left in place and put back."""
    skeleton = scan(BytesSource(data), MODEL, threshold=threshold)
    small = ModelProto.FromString(skeleton.data).SerializeToString()
    return join(restore(small, MODEL, [skeleton.table])), skeleton


def initializer_model(*, raw=b"", name=b"w", extra=b""):
    tensor = encode_tag(1, 0) + b"\x04" + encode_tag(2, 0) + b"\x01" + field(8, name) + field(9, raw) + extra
    return encode_tag(1, 0) + b"\x0a" + field(7, field(2, b"g") + field(5, tensor))


@given(models(), st.sampled_from((1, 8, 24, 64)))
def test_scan_reads_exactly_what_the_runtime_reads(data, threshold):
    wanted = parsed(data)
    assume(wanted is not None)
    found, skeleton = through_scan(data, threshold)
    assert ModelProto.FromString(found).SerializeToString() == wanted
    assert not skeleton.truncation


@pytest.mark.long
@given(models(), st.data())
def test_what_the_runtime_refuses_is_reported_or_opened_in_part(data, draws):
    at = draws.draw(st.integers(0, max(len(data) - 1, 0)))
    broken = data[:at] + draws.draw(st.binary(max_size=3)) + data[at + draws.draw(st.integers(0, 3)) :]
    if parsed(broken) is not None:
        diagnose(BytesSource(broken), MODEL)
        return
    error = None
    try:
        skeleton = scan(BytesSource(broken), MODEL, threshold=24)
        if parsed(skeleton.data) is not None:
            assert skeleton.truncation or skeleton.table.payloads
            return
        diagnose(BytesSource(broken if not skeleton.truncation else skeleton.data), MODEL)
    except ModelError as caught:
        error = caught
    assert error is not None, "a message the runtime refuses has no fault that was found"
    assert error.place.startswith("byte ")
    assert "in model" in error.place


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_skeleton_or_an_error(data):
    place = "byte"
    try:
        scan(BytesSource(data), MODEL, threshold=8)
    except ModelError as error:
        place = error.place
    assert place


def test_payloads_stay_where_they_are():
    raw = os.urandom(5000)
    data = initializer_model(raw=raw)
    skeleton = scan(BytesSource(data), MODEL)
    assert len(skeleton.data) < 100
    (payload,) = skeleton.table.payloads
    assert payload.read() == raw
    assert join(restore(skeleton.data, MODEL, [skeleton.table])) == data


def test_a_placeholder_passes_through_every_packed_field():
    values = {4: b"\0\0\x80\x3f" * 2000, 5: b"\x01" * 5000, 7: b"\x7f" * 5000, 10: bytes(8000), 11: b"\x02" * 5000}
    for number, content in values.items():
        data = initializer_model(extra=field(number, content))
        found, skeleton = through_scan(data, 4096)
        assert found == parsed(data)
        assert len(skeleton.table.payloads) == 1


def test_the_last_of_two_raw_data_counts_and_packed_parts_are_joined():
    first, second = bytes(5000), b"\x01" * 6000
    data = initializer_model(
        raw=first, extra=field(9, second) + field(4, bytes(4800)) + field(4, b"\0\0\x80\x3f" * 1500)
    )
    found, _ = through_scan(data, 4096)
    tensor = ModelProto.FromString(found).graph.initializer[0]
    assert tensor.raw_data == second
    assert len(tensor.float_data) == 1200 + 1500
    assert tensor.float_data[-1] == 1.0


def test_singular_messages_given_twice_are_merged():
    data = initializer_model(raw=bytes(5000)) + field(
        7, field(10, b"more") + field(5, field(8, b"v") + field(9, b"x" * 5000))
    )
    found, _ = through_scan(data, 4096)
    graph = ModelProto.FromString(found).graph
    assert (graph.name, graph.doc_string, len(graph.initializer)) == ("g", "more", 2)
    assert graph.initializer[1].raw_data == b"x" * 5000


def test_a_length_beyond_the_message_is_refused_with_byte_and_path():
    tensor = field(8, b"w") + encode_tag(9, 2) + encode_varint(10**15) + bytes(50)
    data = field(7, field(5, field(8, b"v")) + field(5, tensor)) + field(2, b"somebody")
    with pytest.raises(ModelError, match=r"claims 1,000,000,000,000,000 bytes, 50 remain") as caught:
        diagnose(BytesSource(data), MODEL)
    assert caught.value.place == f"byte {data.index(bytes(50)) - 9} in model.graph.initializer[1]"


def test_a_cut_file_gives_what_comes_before_the_cut():
    data = initializer_model(raw=bytes(5000)) + field(2, b"somebody")
    for end in range(20, len(data), 97):
        skeleton = scan(BytesSource(data[:end]), MODEL)
        assert ModelProto.FromString(skeleton.data).graph.name == "g"
        assert f"ends at byte {end:,}" in skeleton.truncation


@pytest.mark.parametrize("depth", [30, 97, 98, 99, 100, 101, 102, 150, 5000])
def test_the_depth_limit_is_that_of_the_runtime(depth):
    type_proto, sequence = b"", 4
    for level in range(depth):  # TypeProto.sequence_type, Sequence.elem_type, and so on
        type_proto = field(1 if level % 2 else sequence, type_proto)
    if depth % 2:
        type_proto = field(6, b"") + type_proto
    data = field(7, field(11, field(2, type_proto)))
    accepted = parsed(data) is not None
    if accepted:
        diagnose(BytesSource(data), MODEL)
    else:
        with pytest.raises(ModelError, match="deeper than"):
            diagnose(BytesSource(data), MODEL)


def test_a_list_of_millions_does_not_keep_the_scanner():
    ints = b"".join(encode_tag(8, 0) + b"\x07" for _ in range(200_000))
    node = field(5, field(1, b"values") + ints)
    data = field(7, field(1, node) + field(2, b"g"))
    skeleton = scan(BytesSource(data), MODEL)
    assert len(ModelProto.FromString(skeleton.data).graph.node[0].attribute[0].ints) == 200_000


@pytest.mark.parametrize(
    "data",
    [
        field(7, field(1, field(4, b"Relu")) * 100_000),
        encode_tag(90, 3) + (encode_tag(1, 0) + b"\x07") * 100_000 + encode_tag(90, 4),
    ],
    ids=["nodes", "an unknown group"],
)
def test_a_scan_can_be_cancelled(data):
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        scan(BytesSource(data), MODEL, progress)


def test_only_a_window_around_the_headers_is_read():
    class Counting(BytesSource):
        total = 0

        def read(self, offset, length):
            self.total += length
            return super().read(offset, length)

    data = b"".join((encode_tag(1, 0), b"\x0a", field(7, field(5, field(9, bytes(2_000_000))) * 20)))
    source = Counting(data)
    assert len(scan(source, MODEL).table.payloads) == 20
    assert source.total < 800_000


def test_placeholders_of_another_table_are_not_taken_for_ours():
    first = scan(BytesSource(initializer_model(raw=b"a" * 5000)), MODEL)
    second = scan(BytesSource(initializer_model(raw=b"b" * 5000)), MODEL)
    assert join(restore(first.data, MODEL, [second.table])) == first.data
    assert all(isinstance(p, bytes) for p in restore(first.data, MODEL, [second.table]))
    assert any(isinstance(p, Payload) for p in restore(first.data, MODEL, [first.table, second.table]))
