"""Elements as people type them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.elements import element_text, integer_range, parse_element

E = ElementType
KINDS = [kind for kind in E if kind not in (E.UNDEFINED, E.STRING)]


def all_or_some(kind):
    """Every element of a narrow kind, some of a wide one, in its own dtype."""
    dtype = kind.numpy_dtype
    if kind is E.BOOL:
        return np.array([False, True])
    if kind.is_int:
        low, high = integer_range(kind)
        return np.array([low, high, 0, 1], np.uint64 if kind is E.UINT64 else np.int64).astype(dtype)
    if kind.bits <= 8:
        return np.arange(1 << kind.bits, dtype=np.uint8).view(dtype)
    if kind.is_complex:
        return np.array([0, 1.5 - 2j, 1e-30j, complex(np.inf, 1), complex(0.1, -np.inf)]).astype(dtype)
    return np.array([0, 0.1, -1e-5, 65504, np.inf, -np.inf, np.nan, 1 / 3]).astype(dtype)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.text)
def test_an_element_written_and_read_is_the_same(kind):
    for value in all_or_some(kind):
        again = parse_element(element_text(value), kind)
        assert again.dtype == kind.numpy_dtype
        if value == value:
            assert again == value, element_text(value)
        else:
            assert again != again


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("300", E.UINT8, "0 to 255"), ("-9", E.INT4, "-8 to 7"), ("2", E.INT2, "-2 to 1"), ("1.5", E.INT32, "whole"),
        ("abc", E.FLOAT, "Expected a number"), ("", E.INT64, "whole number"), ("maybe", E.BOOL, "true or false"),
        ("1e40", E.FLOAT, "It reaches"), ("500", E.FLOAT8E4M3FN, "It reaches 448"),
        ("1e400", E.DOUBLE, "reaches 1.797"), ("-1e400", E.FLOAT, "reaches 3.402"), ("1" * 400, E.DOUBLE, "reaches"),
        ("1e400+2i", E.COMPLEX128, "reaches 1.797"), ("inf+1e400i", E.COMPLEX64, "reaches 3.402"),
        ("inf", E.FLOAT4E2M1, "no infinity"),
        ("nan", E.FLOAT6E2M3, "no NaN"), ("-1", E.FLOAT8E8M0, "powers of two"), ("1+", E.COMPLEX64, "such as"),
        ("18446744073709551616", E.UINT64, "holds 0 to"), ("inf", E.INT8, "whole numbers"),
        ("__import__('os')", E.DOUBLE, "Expected a number"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_reason(text, kind, reason):
    with pytest.raises(ModelError, match=reason):
        parse_element(text, kind)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0x1F", E.UINT8, 31), ("-0x8", E.INT4, -8), (" 7 ", E.INT8, 7), ("3.0", E.INT8, 3), ("TRUE", E.BOOL, True),
        ("−2", E.FLOAT, -2), ("∞", E.FLOAT16, np.inf), ("1 + 2i", E.COMPLEX64, 1 + 2j), ("2j", E.COMPLEX128, 2j),
        ("inf+2i", E.COMPLEX64, complex(np.inf, 2)), ("448", E.FLOAT8E4M3FN, 448), (" a\tb", E.STRING, " a\tb"),
    ],
)  # fmt: skip
def test_spellings(text, kind, value):
    assert parse_element(text, kind) == value


@given(st.integers(-(1 << 70), 1 << 70), st.sampled_from([k for k in KINDS if k.is_int]))
def test_integers_fit_exactly_or_are_refused(number, kind):
    low, high = integer_range(kind)
    if low <= number <= high:
        assert int(parse_element(str(number), kind)) == number
    else:
        with pytest.raises(ModelError):
            parse_element(str(number), kind)
