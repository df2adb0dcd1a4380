"""Hypothesis strategies for ONNX messages as bytes, with every liberty the wire format allows."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from onnx_workbench.model.io.wire import (
    END_GROUP,
    FIXED32,
    FIXED64,
    LENGTH,
    START_GROUP,
    VARINT,
    FieldSchema,
    MessageSchema,
    WireField,
    encode_tag,
    encode_varint,
    read_field,
    schemas,
)


def fields_of(data: bytes) -> Iterator[WireField]:
    """The fields of one message, in the order of the file, unknown ones included."""
    start = 0
    while start < len(data):
        field = read_field(data, start)
        yield field
        start = field.end


@st.composite
def varints(draw: st.DrawFn, values: st.SearchStrategy[int] | None = None, longest: int = 10) -> bytes:
    """A varint, now and then longer than it need be."""
    data = bytearray(encode_varint(draw(st.integers(0, (1 << 64) - 1) if values is None else values)))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 3)))):
        if len(data) < longest:
            data[-1] |= 0x80
            data.append(0)
    return bytes(data)


def delimited(number: int, content: bytes) -> st.SearchStrategy[bytes]:
    """A length-delimited field whose length may be written in more bytes than needed."""
    return varints(st.just(len(content)), 5).map(lambda length: encode_tag(number, LENGTH) + length + content)


@st.composite
def groups(draw: st.DrawFn, depth: int = 3) -> bytes:
    """A group, which is an unknown field in every ONNX message."""
    number = draw(st.integers(1, 60))
    inner = b"".join(
        draw(st.lists(st.one_of(scalars(number), groups(depth - 1)) if depth else scalars(number), max_size=3))
    )
    return encode_tag(number, START_GROUP) + inner + encode_tag(number, END_GROUP)


def scalars(number: int) -> st.SearchStrategy[bytes]:
    """A field that is no message, of any wire type."""
    return st.one_of(
        varints().map(lambda v: encode_tag(number, VARINT) + v),
        st.binary(min_size=4, max_size=4).map(lambda v: encode_tag(number, FIXED32) + v),
        st.binary(min_size=8, max_size=8).map(lambda v: encode_tag(number, FIXED64) + v),
        st.binary(max_size=40).flatmap(lambda v: delimited(number, v)),
    )


@st.composite
def known_field(draw: st.DrawFn, field: FieldSchema, depth: int) -> bytes:
    """A field as onnx.proto declares it; numbers packed or not."""
    number = field.number
    if field.message is not None:
        return draw(delimited(number, draw(messages(field.message, depth - 1)) if depth else b""))
    if field.is_text:
        return draw(delimited(number, draw(st.text(max_size=20)).encode()))
    if field.wire_type == LENGTH:
        return draw(delimited(number, draw(st.binary(max_size=120))))
    width = {FIXED32: 4, FIXED64: 8}.get(field.wire_type, 0)
    one = st.binary(min_size=width, max_size=width) if width else varints()
    if field.repeated and draw(st.booleans()):
        return draw(delimited(number, b"".join(draw(st.lists(one, max_size=12)))))
    return encode_tag(number, field.wire_type) + draw(one)


@st.composite
def messages(draw: st.DrawFn, schema: MessageSchema, depth: int = 5) -> bytes:
    """A message with known fields in any order and number, and unknown ones between them."""
    fields = list(schema.fields.values())
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            parts.append(draw(st.integers(1, 600).flatmap(scalars)))
        elif kind == 1:
            parts.append(draw(groups()))
        else:
            parts.append(draw(known_field(draw(st.sampled_from(fields)), depth)))
    return b"".join(parts)


def models() -> st.SearchStrategy[bytes]:
    """A ModelProto as bytes."""
    return messages(schemas()["ModelProto"], 7)
