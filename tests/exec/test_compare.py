"""Comparing values, runs and arrays of other frameworks; finding what is not finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from exec import Session
from exec import compare as c
from exec.reference import available, run_onnxruntime
from model import ModelError
from model.attributes import make_attribute
from model.steps import SetAttribute
from tests.exec.test_session import CHAIN, X
from tests.exec.texts import node, parse

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
        assert c.is_close(a, b, tolerance, tolerance) == np.allclose(x, y, tolerance, tolerance)


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
    assert not c.is_close(np.array(a, kind), np.array(b, kind), 1, 1)


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        (np.zeros(3), np.zeros(4), "shape"),
        (np.zeros(1), np.array(["a"], object), "object"),
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
    rows = c.compare_runs(Session(model).run({"x": X}), before)
    assert [r.name for r in rows] == ["x", "a", "b", "c", "d", "y"]
    first = c.first_divergence(rows)
    assert first is not None
    assert first.name == "a"
    assert first.difference.worst == (1,)
    assert c.first_divergence(rows[:1]) is None


def test_arrays_are_matched_by_name_then_by_shape() -> None:
    model = parse("g (float[3] x, float[2] z) => (float[3] y, float[2] w) { y = Neg(x) w = Exp(z) }")
    result = Session(model).run({"x": X, "z": X[:2]}, values="outputs")
    arrays = {"y": -X, "elsewhere": np.zeros((7,), np.float32)}
    assert [(r.name, r.other) for r in c.compare_with(result, arrays)] == [("y", "y")]
    reshaped = Session(parse("g (float[3] x) => (float[1,3] y) <int64[2] s = {1, 3}> { y = Reshape(x, s) }"))
    rows = c.compare_with(reshaped.run({"x": X}), {"other": X[None]})
    assert [(r.name, r.other) for r in rows] == [("y", "other")]


def test_against_onnx_runtime_every_intermediate(tmp_path: Path) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {CHAIN}').SerializeToString())
    theirs = run_onnxruntime(path, {"x": X})
    assert set(theirs) == {"a", "b", "c", "d", "y"}
    rows = c.compare_with(Session(parse(CHAIN)).run({"x": X}), theirs)
    assert len(rows) == 5
    assert c.first_divergence(rows) is None


def test_what_onnx_runtime_refuses_is_told(tmp_path: Path) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    path = tmp_path / "model.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="ONNX Runtime cannot run"):
        run_onnxruntime(path, {"x": X})
