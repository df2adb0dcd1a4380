import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.types import ElementType, MapType, SequenceType, Shape, TensorType
from onnx_workbench.model.text.attributes import (
    attribute_source,
    convert_value,
    has_text,
    parse_any,
    parse_attribute,
    parse_float,
    parse_int,
    plainest,
)

K = AttributeKind


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", K.INT, 3),
        (" -1 ", K.INT, -1),
        ("0x10", K.INT, 16),
        ("1_000", K.INT, 1000),
        ("−2", K.INT, -2),
        ("1", K.FLOAT, 1.0),
        ("0.1", K.FLOAT, 0.10000000149011612),
        ("inf", K.FLOAT, math.inf),
        ("1, 2,3", K.INTS, (1, 2, 3)),
        ("[1, 2, 3]", K.INTS, (1, 2, 3)),
        ("(1,)", K.INTS, (1,)),
        ("1 2 3", K.INTS, (1, 2, 3)),
        ("", K.INTS, ()),
        ("[]", K.FLOATS, ()),
        ("[0.5, -inf]", K.FLOATS, (0.5, -math.inf)),
        ("a, b", K.STRINGS, ("a", "b")),
        ('["a, b", "c"]', K.STRINGS, ("a, b", "c")),
        ("'it\\'s', x", K.STRINGS, ("it's", "x")),
        (" kept as it is ", K.STRING, " kept as it is "),
        ("float[N,3]", K.TYPE_PROTO, TensorType(ElementType.FLOAT, Shape(("N", 3)))),
    ],
)
def test_what_people_type(text, kind, value):
    assert parse_attribute(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("x", K.INT, "not a whole number"),
        ("1.5", K.INT, "not a whole number"),
        ("", K.INT, "not a whole number"),
        (str(1 << 63), K.INT, "too large"),
        ("9" * 5000, K.INT, "not a whole number"),
        ("1e400", K.FLOAT, "too large"),
        ("-1e400", K.FLOAT, "too large"),
        ("x", K.FLOAT, "not a number"),
        ("1e39", K.FLOAT, "too large"),
        ("[1, 2", K.INTS, "bracket is missing"),
        ("1, x", K.INTS, "not a whole number"),
        ("flot[3]", K.TYPE_PROTO, "not an element type"),
        ("1", K.TENSOR, "not written as text"),
    ],
)
def test_what_is_refused_and_why(text, kind, message):
    with pytest.raises(ModelError, match=message):
        parse_attribute(text, kind)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1", 1, K.INT),
        ("1.5", 1.5, K.FLOAT),
        ("[1, 2]", (1, 2), K.INTS),
        ("1, 2.5", (1.0, 2.5), K.FLOATS),
        ("[a, b]", ("a", "b"), K.STRINGS),
        ('"1"', "1", K.STRING),
        ('"a", "b"', ("a", "b"), K.STRINGS),
        ('""', "", K.STRING),
        ("SAME_UPPER", "SAME_UPPER", K.STRING),
        ("a, b", "a, b", K.STRING),
    ],
)
def test_kinds_are_guessed(text, value, kind):
    assert parse_any(text) == (value, kind)


@pytest.mark.parametrize("text", ["99999999999999999999", "1e50", "-1e400", "[1, 99999999999999999999]", "0.5, 1e39"])
def test_a_number_that_does_not_fit_is_no_text(text):
    with pytest.raises(ModelError, match="is too large"):
        parse_any(text)


ints = st.integers(-(1 << 63), (1 << 63) - 1)
floats = st.floats(width=32, allow_nan=False)
texts = st.text(max_size=12)


@given(
    st.one_of(
        ints.map(lambda v: make_attribute("a", v, K.INT)),
        floats.map(lambda v: make_attribute("a", v, K.FLOAT)),
        texts.map(lambda v: make_attribute("a", v, K.STRING)),
        st.lists(ints, max_size=5).map(lambda v: make_attribute("a", v, K.INTS)),
        st.lists(floats, max_size=5).map(lambda v: make_attribute("a", v, K.FLOATS)),
        st.lists(texts, max_size=5).map(lambda v: make_attribute("a", v, K.STRINGS)),
    )
)
def test_what_is_written_reads_back(attribute):
    assert parse_attribute(attribute_source(attribute), attribute.kind) == attribute.value


def test_floats_are_written_short():
    tenth = make_attribute("a", 0.10000000149011612)
    assert attribute_source(tenth) == "0.1"
    assert attribute_source(make_attribute("a", 3.0)) == "3.0"


def test_long_lists_are_cut():
    assert attribute_source(make_attribute("a", tuple(range(10))), 3) == "0, 1, 2, …"


@given(texts)
def test_nothing_typed_breaks_the_parsers(text):
    for kind in K:
        if has_text(kind):
            try:
                parse_attribute(text, kind)
            except ModelError:
                continue
    with suppress(ModelError):
        parse_any(text)


def test_kinds_are_changed_keeping_what_can_be_kept():
    assert convert_value(make_attribute("a", 3), K.FLOAT) == 3.0
    assert convert_value(make_attribute("a", 3), K.INTS) == (3,)
    assert convert_value(make_attribute("a", (4, 5)), K.INT) == 4
    assert convert_value(make_attribute("a", "7"), K.INT) == 7
    assert convert_value(make_attribute("a", "seven"), K.INT) == 0
    assert convert_value(make_attribute("a", 0.1), K.STRING) == "0.1"
    assert convert_value(make_attribute("a", (1.9, -2.9)), K.INTS) == (1, -2)
    assert convert_value(make_attribute("a", "float[N]"), K.TYPE_PROTOS) == (
        TensorType(ElementType.FLOAT, Shape(("N",))),
    )
    assert plainest(K.TENSOR).shape == ()


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("a", K.INT, None, reference="b"),
        Attribute("a", K.INTS, ()),
        make_attribute("a", plainest(K.TENSOR)),
        make_attribute("a", math.inf),
        make_attribute("a", 1e30),
        make_attribute("a", "9" * 30),
    ],
    ids=["reference", "empty list", "tensor", "infinity", "large float", "digits"],
)
@pytest.mark.parametrize("kind", [K.INT, K.INTS, K.FLOAT, K.STRING, K.STRINGS, K.TENSORS], ids=lambda k: k.name)
def test_whatever_becomes_of_a_value_is_one_of_its_new_kind(attribute, kind):
    value = convert_value(attribute, kind)
    assert make_attribute("a", value, kind).value == value
    assert value not in ("None", ("None",))
    if kind in (K.INT, K.INTS):
        assert value in (0, ())


def test_a_tensor_is_no_text():
    tensor = make_attribute("a", plainest(K.TENSOR))
    assert convert_value(tensor, K.STRING) == ""
    assert convert_value(tensor, K.STRINGS) == ()
    assert convert_value(tensor, K.TENSORS) == (tensor.value,)


@pytest.mark.parametrize(("value", "kind"), [(1 << 63, K.INT), ([-(1 << 63) - 1], K.INTS), (1e39, K.FLOAT)])
def test_numbers_that_no_file_can_hold_are_refused(value, kind):
    with pytest.raises(ValueError, match="too large"):
        make_attribute("a", value, kind)


def test_floats_have_the_bits_that_a_file_keeps():
    assert make_attribute("a", 0.1).value == 0.10000000149011612
    assert make_attribute("a", [1, 0.1]).value == (1.0, 0.10000000149011612)
    assert make_attribute("a", math.inf).value == math.inf


def test_single_numbers():
    assert parse_int("+5") == 5
    assert parse_float("∞") == math.inf


def test_a_list_of_types_is_written_with_commas_of_its_own():
    types = (
        TensorType(ElementType.FLOAT, Shape((1, "N", None))),
        MapType(ElementType.INT64, SequenceType(TensorType(ElementType.STRING, Shape(())))),
    )
    attribute = Attribute("types", AttributeKind.TYPE_PROTOS, types)
    text = attribute_source(attribute)
    assert parse_attribute(text, AttributeKind.TYPE_PROTOS) == types
    assert parse_attribute(f"[{text}]", AttributeKind.TYPE_PROTOS) == types
    assert parse_attribute("", AttributeKind.TYPE_PROTOS) == ()
    with pytest.raises(ModelError, match="not an element type"):
        parse_attribute("float[1], flaot[2]", AttributeKind.TYPE_PROTOS)
