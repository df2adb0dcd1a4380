"""Statistics and outlines of values as an edge shows them, against plain numpy."""

import gc

import numpy as np
import pytest

from onnx_workbench.exec.inspect import value_summary
from onnx_workbench.exec.inspect.value_summary import BARS, summarize
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.statistics import statistics
from tests.exec.texts import parse


def run(text, feeds):
    return Session(parse(text)).run(feeds)


@pytest.fixture
def result():
    text = """net (float[4,5] x, string[2] words) => (float[4,5] y, string[2] same)
    { y = Neg (x)
      same = Identity (words) }"""
    x = np.linspace(-2, 3, 20, dtype=np.float32).reshape(4, 5)
    return run(text, {"x": x, "words": np.array(["a", "b"], object)})


def test_a_summary_is_the_statistics_and_a_histogram(result):
    y, nothing = summarize(result, [result.key("y"), ((), 987_654)])
    assert nothing is None
    assert y.statistics == statistics(result.values["y"])
    assert y.counts == tuple(np.histogram(result.values["y"].astype(np.float64), BARS)[0])


def test_texts_have_no_outline(result):
    (same,) = summarize(result, [result.key("same")])
    assert same.counts == ()
    assert same.statistics.size == 2


@pytest.mark.parametrize(
    ("numbers", "bars"),
    [
        ([7.0, 7.0, 7.0], {BARS // 2: 3}),
        ([np.nan, 0.0, 1.0, np.inf], {0: 1, BARS - 1: 1}),
        ([np.nan, np.nan], {}),
        ([-3e38, 3e38], {0: 1, BARS - 1: 1}),
        ([], {}),
    ],
)
def test_borders_of_outlines(numbers, bars):
    text = f"""net (float[{len(numbers)}] x) => (float[{len(numbers)}] y) {{ y = Identity (x) }}"""
    result = run(text, {"x": np.array(numbers, np.float32)})
    (found,) = summarize(result, [result.key("y")])
    assert {bar: count for bar, count in enumerate(found.counts) if count} == bars


@pytest.mark.long
def test_an_array_is_looked_at_once_and_forgotten_with_it(result, monkeypatch):
    key = result.key("y")
    first = summarize(result, [key])
    monkeypatch.setattr(value_summary, "statistics", lambda _array: pytest.fail("looked at again"))
    assert summarize(result, [key]) == first
    known = len(value_summary._known)
    result.slots.clear()
    del result
    gc.collect()
    assert len(value_summary._known) <= known
