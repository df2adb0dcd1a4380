"""Operators on strings, and the regular expressions they use."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.kernels.shared import regex
from onnx_workbench.exec.kernels.shared.regex import Pattern
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.examples import examples
from tests.exec.kernels.harness import call

needs_re2 = pytest.mark.skipif(regex.re2 is None, reason="there is no google-re2 for this Python")


def texts(*values: str) -> Any:
    return np.array(values, object)


@needs_re2
@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("a{2,3}?", ["aa", "aaa"], ["a", "aaaa"]),
        (".", ["a", "é", "\ud800"], ["\n", "", "\ud800\ud800"]),
        (r"^a$", ["a"], ["a\n"]),
        (r"(?P<year>\d{4})-(?<month>\d\d)", ["2026-11"], ["26-11", "١٢٣٤-11"]),
        ("|a", ["", "a"], ["b"]),
    ],
)
def test_patterns_match_as_in_re2(pattern: str, matches: list[str], others: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [t for t in matches if not compiled.full_match(t)] == []
    assert [t for t in others if compiled.full_match(t)] == []


@needs_re2
@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", r"\y", "(((a{1000}){1000}){1000})", "\ud800"])
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(KernelError):
        Pattern(pattern)


def test_a_pattern_names_google_re2_where_it_is_missing(monkeypatch) -> None:
    monkeypatch.setattr(regex, "re2", None)
    with pytest.raises(KernelError, match="google-re2"):
        Pattern("a")


SIMPLE = st.recursive(
    st.sampled_from(["a", "b", "c", "[ab]", "[^a]", "."]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        inner.map(lambda p: f"(?:{p})*"),
        inner.map(lambda p: f"(?:{p})?"),
        inner.map(lambda p: f"(?:{p}){{1,2}}"),
    ),
    max_leaves=6,
)


@needs_re2
@settings(max_examples=examples(150), deadline=None)
@given(SIMPLE, st.lists(st.text("abc", max_size=6), max_size=5))
def test_patterns_agree_with_pythons(pattern: str, words: list[str]) -> None:
    compiled = Pattern(pattern)
    for word in words:
        assert compiled.full_match(word) == bool(re.fullmatch(pattern, word))


@needs_re2
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "a?" * 30 + "a" * 30 + "b", "(.*)*x"])
def test_no_pattern_backtracks(pattern: str) -> None:
    """A backtracking engine would need longer than the age of the universe."""
    assert not Pattern(pattern).full_match("a" * 100_000)
    assert list(Pattern(pattern).matches("a" * 100)) == []


@needs_re2
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a|ab", "xabyab", [(1, 3), (4, 6)]),
        (r"\bb", "ab b", [(3, 4)]),
        ("b*", "éabb\ud800b", [(2, 4), (5, 6)]),
        ("c", "ab", []),
    ],
)
def test_matches_are_the_leftmost_and_longest(pattern: str, text: str, found: list[tuple[int, int]]) -> None:
    assert list(Pattern(pattern).matches(text)) == found


@needs_re2
def test_a_long_search_can_be_cancelled() -> None:
    set_limits(Limits(deadline=0.0))
    try:
        with pytest.raises(LimitError):
            list(Pattern("[a-z]").matches("a" * 10_000))
    finally:
        set_limits(None)


def test_normalizer_ignores_the_locale() -> None:
    result = call(
        "StringNormalizer", [texts("İstanbul", "the", "Élan")], opset=10, stopwords=("THE",),
        case_change_action="UPPER", locale="no_SUCH",
    )  # fmt: skip
    assert result.tolist() == ["İSTANBUL", "ÉLAN"]


def test_strings_keep_their_array_type_as_scalars() -> None:
    result = call("StringConcat", [np.array("a", object), np.array("b", object)], opset=20)
    assert (result.dtype, result.shape, result[()]) == (np.dtype(object), (), "ab")


@pytest.mark.parametrize(
    ("delimiter", "maxsplit", "pieces"),
    [(None, 1, ["a", "b  c"]), (None, 0, ["a b  c"]), ("", 2, ["a", "b", "c"]), (" ", 2, ["", "a", "b  c "])],
)
def test_split_at_whitespace_leaves_none_at_the_ends(delimiter: str | None, maxsplit: int, pieces: list[str]) -> None:
    given = {} if delimiter is None else {"delimiter": delimiter}
    found, count = call("StringSplit", [texts(" a b  c ")], opset=20, outputs=2, maxsplit=maxsplit, **given)
    assert (found.tolist(), count.tolist()) == ([pieces], [len(pieces)])


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("StringConcat", [np.zeros(2), texts("a")], {}),
        ("StringSplit", [np.zeros(2)], {}),
        ("StringNormalizer", [texts("a").reshape(1, 1, 1)], {}),
        ("StringNormalizer", [texts("a")], {"case_change_action": "TITLE"}),
        ("RegexFullMatch", [texts("a")], {}),
        ("RegexFullMatch", [np.zeros(2)], {"pattern": "a"}),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: Any) -> None:
    with pytest.raises(KernelError):
        call(op_type, inputs, opset=20, **attributes)
