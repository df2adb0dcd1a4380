import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from onnx_workbench.model.text.formatting import (
    bytes_text,
    count_text,
    digits_apart,
    display,
    duration_text,
    number_text,
    plural,
    shape_text,
    type_text,
)

FLOAT = ElementType.FLOAT


@given(st.text(st.characters(), max_size=400), st.integers(1, 50))
def test_display_shows_nothing_invisible_and_never_more_than_asked(text, limit):
    shown = display(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit * len("\\U0010ffff")
    shown.encode("utf-8")  # a lone surrogate would raise


@given(st.text(st.characters(categories=("L", "N", "P")), max_size=40))
def test_display_leaves_readable_text_alone(text):
    assert display(text, 40) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u202eevil"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udc80", "\\x80"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
    ],
)
def test_display_escapes(text, shown):
    assert display(text) == shown


def test_display_elides_names_in_the_middle_and_values_at_the_end():
    assert display("/encoder/layer.0/attention/MatMul", 11) == "/enco…atMul"
    assert display("1, 2, 3, 4, 5", 6, elide="end") == "1, 2,…"
    assert display("abc", 1) == "…"


def test_display_keeps_lines_only_when_asked():
    assert display("a\n\tb\r", keep_lines=True) == "a\n\tb\\r"


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (None, ""),
        ((), "scalar"),
        (Shape((1, 3, 224, 224)), "1×3×224×224"),
        (Shape(("batch", None, 0)), "batch×?×0"),
        ([2, ""], "2×?"),
        (Shape((4,)), "[4]"),
        ([1] * 99, "1" + "×1" * 23 + "×… (99 dimensions)"),
    ],
)
def test_shapes(shape, text):
    assert shape_text(shape) == text


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (None, "?"),
        (TensorType(FLOAT, Shape((1, "N"))), "float 1×N"),
        (TensorType(FLOAT), "float"),
        (TensorType(FLOAT, Shape()), "float scalar"),
        (TensorType(99), "type 99"),
        (SparseTensorType(FLOAT, Shape((2,))), "sparse float [2]"),
        (SequenceType(TensorType(FLOAT)), "seq(float)"),
        (MapType(ElementType.INT64, TensorType(FLOAT)), "map(int64, float)"),
        (OptionalType(None), "optional(?)"),
        (OpaqueType("d", "n\n"), "opaque(d.n\\n)"),
    ],
)
def test_types(type_, text):
    assert type_text(type_) == text


def test_a_type_nested_a_thousand_deep_is_cut_short():
    type_ = TensorType(FLOAT)
    for _ in range(1000):
        type_ = SequenceType(type_)
    assert type_text(type_).endswith("…)))))))")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (999_499, "999 kB"),
        (999_999, "1.00 MB"),
        (1_930_000_000, "1.93 GB"),
        (10**20, "100000 PB"),
    ],
)
def test_bytes(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(("count", "text"), [(812, "812"), (9999, "9,999"), (25_557_032, "25.6 M"), (10_000, "10.0 k")])
def test_counts(count, text):
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1234567, "1,234,567"), (0.1, "0.1"), (1e-9, "1e-09"), (float("nan"), "NaN"), (float("-inf"), "−inf"), (3.0, "3")],
)
def test_numbers(number, text):
    assert number_text(number) == text


def test_plurals_and_durations():
    assert plural(1, "node") == "1 node"
    assert plural(1204, "node") == "1,204 nodes"
    assert plural(0, "entry", "entries") == "0 entries"
    assert [duration_text(t) for t in (3.4e-4, 0.0123, 2.5, 125)] == ["340 µs", "12.3 ms", "2.5 s", "2 min 5 s"]


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(0, 1, 3), (0.9, 1, 4), (-5, 5, 3), (1_700_000_000, 1_700_000_064, 10), (-1.7e308, 1.7e308, 3), (7, 7, 3)],
)
def test_numbers_that_differ_little_have_more_digits(low, high, digits):
    assert digits_apart(low, high, 3) == digits
