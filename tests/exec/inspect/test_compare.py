"""Comparing values, runs and arrays of other frameworks; finding what is not finite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_workbench.exec.inspect import compare as c
from onnx_workbench.exec.inspect import reference
from onnx_workbench.exec.inspect.reference import available, run_onnxruntime
from onnx_workbench.exec.inspect.run_comparison import compare, named_arrays, same_values
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import make_attribute
from tests.exec.test_session import CHAIN, X
from tests.exec.texts import node, parse
from tests.model import builders

PAIRS = hnp.array_shapes(max_dims=3, max_side=5).flatmap(
    lambda s: st.tuples(*[hnp.arrays(np.float32, s, elements=st.floats(-100, 100, width=16))] * 2)
)


@given(PAIRS)
def test_differences_against_numpy(pair: tuple[Any, Any]) -> None:
    a, b = pair
    found = c.compare_values(a, b)
    far = np.abs(a.astype(np.float64) - b)
    assert found.max_abs == far.max()
    assert far[found.worst] == far.max()
    assert found.mean_abs == pytest.approx(far.mean())
    assert found.unequal == (a != b).sum()
    with np.errstate(all="ignore"):
        assert found.max_rel == np.where(far == 0, 0, far / np.abs(b)).max()
    if np.any(a) and np.any(b):
        wide = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        expected = wide[0] @ wide[1] / np.linalg.norm(wide[0]) / np.linalg.norm(wide[1])
        assert found.cosine == pytest.approx(expected, abs=1e-12)
    x, y, enough = a.astype(np.float64), b.astype(np.float64), found.tolerance * (1 + 1e-9)
    assert np.allclose(x, y, enough, enough)
    assert not found.tolerance or not np.allclose(x, y, enough * 0.999, enough * 0.999)
    for tolerance in (1e-3, 0.5):
        assert c.elements_outside(a, b, tolerance, tolerance)[0] == (~np.isclose(x, y, tolerance, tolerance)).sum()


@given(PAIRS)
def test_tolerances_are_applied_as_by_numpy(pair: tuple[Any, Any]) -> None:
    a, b = pair
    found = c.compare_values(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    for rtol, atol in ((0.5, 1e-3), (0, 0.25), (0.125, 0), (1e-3, 0.5), (2, 30)):
        assert found.within(rtol, atol) == np.allclose(x, y, rtol, atol)


def test_the_elements_that_decide_are_found_among_many() -> None:
    generator = np.random.default_rng(3)
    b = generator.normal(size=700_000) * 10.0 ** generator.integers(-6, 6, 700_000)
    a = b * (1 + 1e-4 * generator.normal(size=b.size)) + 1e-5 * generator.normal(size=b.size)
    found = c.compare_values(a, b)
    assert len(found.frontier) < 100
    for rtol in (0, 1e-5, 1e-4, 1e-3, 1e-2):
        least = (np.abs(a - b) - rtol * np.abs(b)).max()
        assert found.within(rtol, least * 1.0001)
        assert not found.within(rtol, least * 0.9999)


def test_one_element_among_many_is_enough() -> None:
    a, b = np.zeros(600_000), np.zeros(600_000)
    a[500_001] = 1
    assert c.compare_values(a, b).frontier == ((0, 1),)
    assert c.compare_values(b, b).frontier == ()


def test_of_a_sequence_every_element_counts() -> None:
    found = c.compare_values([np.array([1001.0]), np.array([0.5])], [np.array([1000.0]), np.array([0.0])])
    assert found.max_abs == 1
    assert not found.within(1e-2, 1e-3)
    assert found.within(1e-2, 0.5)


@pytest.mark.parametrize("ours", [None, [np.ones(2)], {1: 2.0}])
def test_what_is_of_another_kind_is_not_close(ours: Any) -> None:
    assert not c.compare_values(ours, np.ones(2)).within(1, 1)
    assert not c.compare_values(np.ones(2), ours).within(1, 1)


def test_large_whole_numbers_are_compared_exactly() -> None:
    a = np.array([1 << 60, -(1 << 63), 5])
    found = c.compare_values(a, np.array([(1 << 60) + 1, (1 << 63) - 1, 5]))
    assert (found.unequal, found.max_abs, found.worst) == (2, 2.0**64, (1,))


@pytest.mark.parametrize(
    ("a", "b"),
    [([np.nan, 1], [np.nan, 1]), ([np.inf], [np.inf]), (["a"], ["a"]), ([], []), ([True], [True])],
)
def test_equal_values_differ_in_nothing(a: Any, b: Any) -> None:
    kind = object if a and isinstance(a[0], str) else None
    found = c.compare_values(np.array(a, kind), np.array(b, kind))
    assert (found.max_abs, found.unequal, found.problem) == (0, 0, "")


@pytest.mark.parametrize(("a", "b"), [([np.nan], [1.0]), ([np.inf], [1.0]), ([-np.inf], [np.inf]), (["a"], ["b"])])
def test_what_is_not_finite_is_infinitely_far(a: Any, b: Any) -> None:
    kind = object if isinstance(a[0], str) else None
    found = c.compare_values(np.array(a, kind), np.array(b, kind))
    assert found.max_abs == np.inf
    assert np.isnan(found.cosine)
    assert found.snr == -np.inf
    assert not c.compare_values(np.array(a, kind), np.array(b, kind)).within(1, 1)


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        (np.zeros(3), np.zeros(4), "shape"),
        (np.zeros(1), np.array(["a"], object), "string"),
        ([np.zeros(1)], [], "elements"),
        ({1: 2}, {2: 2}, "keys"),
        (np.zeros(1), None, "nothing"),
    ],
)
def test_what_cannot_be_compared_says_why(a: Any, b: Any, problem: str) -> None:
    assert problem in c.compare_values(a, b).problem


def test_two_runs_and_the_first_divergence() -> None:
    model = parse(CHAIN)
    before = Session(model).run({"x": X})
    SetAttribute(node(model, "d"), "alpha", make_attribute("alpha", 0.75)).apply()
    SetAttribute(node(model, "a"), "alpha", make_attribute("alpha", 0.25)).apply()
    after = Session(model).run({"x": X})
    rows = compare(after, same_values(after, before), before)
    assert [r.name for r in rows] == ["x", "a", "b", "c", "d", "y"]
    first = next(row for row in rows if not row.is_close)
    assert first.name == "a"
    assert first.difference.worst == (1,)
    assert rows[0].is_close


def test_arrays_are_matched_by_name_then_by_shape() -> None:
    model = parse("g (float[3] x, float[2] z) => (float[3] y, float[2] w) { y = Neg(x) w = Exp(z) }")
    result = Session(model).run({"x": X, "z": X[:2]}, values="outputs")
    arrays = {"y": -X, "elsewhere": np.zeros((7,), np.float32)}
    assert [(r.name, r.other) for r in compare(result, named_arrays(result, arrays))] == [("y", "y")]
    reshaped = Session(parse("g (float[3] x) => (float[1,3] y) <int64[2] s = {1, 3}> { y = Reshape(x, s) }"))
    result = reshaped.run({"x": X})
    rows = compare(result, named_arrays(result, {"other": X[None]}))
    assert [(r.name, r.other) for r in rows] == [("y", "other")]
    two = {"other": X[None], "another": X[None]}
    assert named_arrays(result, two) == [], "either may be it"


@pytest.mark.long
def test_against_onnx_runtime_every_intermediate(tmp_path: Path) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    path = builders.model_file(tmp_path / "model.onnx", CHAIN)
    theirs = run_onnxruntime(path, {"x": X})
    assert set(theirs) == {"a", "b", "c", "d", "y"}
    result = Session(parse(CHAIN)).run({"x": X})
    rows = compare(result, named_arrays(result, theirs))
    assert len(rows) == 5
    assert all(row.is_close for row in rows)


@pytest.mark.long
def test_what_onnx_runtime_refuses_is_reported(tmp_path: Path) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    path = tmp_path / "model.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="ONNX Runtime cannot run"):
        run_onnxruntime(path, {"x": X})


@pytest.mark.long
def test_onnx_runtime_has_a_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    if sys.platform != "linux":
        pytest.skip("address space is limited on Linux only")
    text = "large (uint8[1] x, int64[1] n) => (uint8[m] y) { a = Expand (x, n) y = ReduceMax (a) }"
    path = builders.model_file(tmp_path / "model.onnx", text)
    feeds = {"x": np.ones(1, np.uint8), "n": np.array([1 << 20])}
    assert run_onnxruntime(path, feeds)["y"].item() == 1
    monkeypatch.setattr(reference, "value_limit", lambda: 0)  # which leaves the address space of its libraries
    with pytest.raises(ModelError, match="ONNX Runtime cannot run"):
        run_onnxruntime(path, feeds | {"n": np.array([reference.OVERHEAD])})


@pytest.mark.long
def test_onnx_runtime_gives_types_that_numpy_lacks(tmp_path: Path) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    text = """few (float[3] x) => (bfloat16[3] b, float[3] y) {
        b = Cast <to = 16> (x)
        e = Cast <to = 17> (x)
        i = Cast <to = 22> (x)
        y = Cast <to = 1> (e)
    }"""
    path = builders.model_file(tmp_path / "few.onnx", text)
    x = np.float32([1.26, -2.0, 3.3])
    theirs = run_onnxruntime(path, {"x": x})
    result = Session(parse(text)).run({"x": x})
    assert theirs.keys() == {*"beiy"}
    assert {r.name: r.difference.max_abs for r in compare(result, named_arrays(result, theirs))} == dict.fromkeys(
        "beiy", 0
    )


def test_what_is_equal_points_the_same_way_however_large_it_is() -> None:
    huge = np.float64([1e300, -2e300])
    assert c.compare_values(huge, huge.copy()).cosine == 1


@pytest.mark.parametrize("reference", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("ours", [np.nan, 1.0, np.inf, -np.inf])
def test_what_is_not_finite_is_within_no_tolerance_of_anything_else(ours: float, reference: float) -> None:
    a, b = (np.tile(np.float32([2.0, one]), 4000) for one in (ours, reference))
    same = bool(np.isclose(ours, reference, equal_nan=True))
    assert c.compare_values(a, b).within(1e-3, 1e-5) is same
    assert c.elements_outside(a, b, 1e-3, 1e-5)[0] == (0 if same else 4000)
