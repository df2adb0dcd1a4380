import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
)
from onnx_workbench.model.text.formatting import type_text
from onnx_workbench.model.text.types import parse_type, type_source

elements = st.sampled_from([e for e in ElementType if e])
symbols = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./+*x-]{0,8}", fullmatch=True) | st.text(min_size=1, max_size=8)
shapes = st.none() | st.builds(
    lambda dims: Shape(tuple(dims)), st.lists(st.none() | st.integers(0, 2**63 - 1) | symbols, max_size=5)
)
types = st.recursive(
    st.builds(TensorType, elements, shapes) | st.builds(SparseTensorType, elements, shapes),
    lambda inner: (
        st.builds(SequenceType, st.none() | inner)
        | st.builds(OptionalType, st.none() | inner)
        | st.builds(MapType, elements, st.none() | inner)
    ),
    max_leaves=4,
)


@given(types)
def test_what_is_written_is_read_back(type_):
    assert parse_type(type_source(type_)) == type_


plain_shapes = st.none() | st.builds(
    lambda dims: Shape(tuple(dims)),
    st.lists(st.none() | st.integers(0, 2**63 - 1) | st.sampled_from(["N", "batch", "past + 1"]), max_size=5),
)


@given(st.builds(TensorType, elements, plain_shapes) | st.builds(SparseTensorType, elements, plain_shapes))
def test_what_is_shown_is_read_back(type_):
    assert parse_type(type_text(type_)) == type_
    assert parse_type(type_text(SequenceType(type_))) == SequenceType(type_)


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("float", None),
        ("float[]", ()),
        ("float32[1, 3,224 ,N]", (1, 3, 224, "N")),
        ("float[1×3×?]", (1, 3, None)),
        ("float[1x3x5]", (1, 3, 5)),
        ("float[batch 3 5]", ("batch", 3, 5)),
        (" tensor( float[-1] ) ", (None,)),
        ("float[batch, past_sequence_length + 1]", ("batch", "past_sequence_length + 1")),
        ("float[floor(H/2) - 1,max(a, b)]", ("floor(H/2) - 1", "max(a, b)")),
        ('float["batch size",3]', ("batch size", 3)),
        ("float[3 -1]", (3, None)),
        ("float[3 x N x a1x2]", (3, "N", "a1x2")),
    ],
)
def test_what_people_write(text, dims):
    kind = parse_type(text)
    assert kind == TensorType(ElementType.FLOAT, None if dims is None else Shape(dims))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "floot",
        "float[max(a, b]",
        'float[""]',
        'float["a]',
        "float[1",
        "float[-2]",
        "map(int64)",
        "float[99999999999999999999]",
        "1.5",
    ],
)
def test_what_is_no_type_is_said(text):
    with pytest.raises(ModelError):
        parse_type(text)


def test_deep_nesting_ends():
    with pytest.raises(ModelError, match="too deeply"):
        parse_type("seq(" * 5000 + "float" + ")" * 5000)
