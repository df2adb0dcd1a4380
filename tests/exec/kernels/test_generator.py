"""Operators of the specification's folder generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.values.arrays import SparseArray
from onnx_workbench.model.ir.types import ElementType
from tests.examples import examples
from tests.exec.kernels.harness import assert_same, call


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": (1.0, 2.0)}, np.array([1, 2], np.float32)),
        ({"value_int": -3}, np.array(-3, np.int64)),
        ({"value_ints": ()}, np.zeros(0, np.int64)),
        ({"value_string": "é"}, np.array("é", object)),
        ({"value_strings": ("a", "b")}, np.array(["a", "b"], object)),
        ({"value": np.eye(2)}, np.eye(2)),
    ],
)
def test_constants(attributes: dict[str, Any], expected: Any) -> None:
    assert_same(call("Constant", [], opset=13, **attributes), expected, rtol=0, atol=0)


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_constants_become_dense(indices: Any) -> None:
    sparse = SparseArray(np.array([7.0, 8.0], np.float32), indices, (2, 3))
    result = call("Constant", [], opset=11, sparse_value=sparse)
    assert_same(result, np.array([[0, 7, 0], [0, 0, 8]], np.float32), rtol=0, atol=0)


@pytest.mark.parametrize("element_type", [ElementType.STRING, ElementType.INT4, ElementType.BOOL, ElementType.BFLOAT16])
def test_constant_of_shape_of_any_type(element_type: ElementType) -> None:
    dtype = element_type.numpy_dtype
    value = np.array(["x" if element_type is ElementType.STRING else 1], object).astype(dtype)
    result = call("ConstantOfShape", [np.array([2, 1])], opset=21, value=value)
    assert result.dtype == dtype
    assert result.shape == (2, 1)
    assert all(v == value[0] for v in result.reshape(-1))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-9, 9).filter(bool))
def test_ranges_of_integers(start: int, limit: int, step: int) -> None:
    for dtype in (np.int16, np.int32, np.int64):
        result = call("Range", [np.array(v, dtype) for v in (start, limit, step)], opset=11)
        assert_same(result, np.array(range(start, limit, step), dtype), rtol=0, atol=0)


def test_ranges_of_short_floats_are_computed_in_float32() -> None:
    dtype = ElementType.FLOAT16.numpy_dtype
    ends = [np.array(v).astype(dtype) for v in (2040, 2060, 1)]
    result = call("Range", ends, opset=27)
    assert_same(result, np.arange(2040, 2060).astype(dtype), rtol=0, atol=0)


def test_ranges_do_not_sum_up_rounding_errors() -> None:
    result = call("Range", [np.array(v, np.float32) for v in (0, 1000, 0.1)], opset=11)
    np.testing.assert_allclose(result, np.arange(len(result)) * 0.1, rtol=1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(-9, 9))
def test_eye_like(rows: int, columns: int, k: int) -> None:
    result = call("EyeLike", [np.zeros((rows, columns), np.int32)], opset=22, k=k)
    assert_same(result, np.eye(rows, columns, k, dtype=np.int32), rtol=0, atol=0)


RANDOM: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "RandomNormal": ([], {"shape": (4, 5)}),
    "RandomUniform": ([], {"shape": (4, 5)}),
    "RandomNormalLike": ([np.zeros((4, 5), np.float32)], {}),
    "RandomUniformLike": ([np.zeros((4, 5), np.float32)], {}),
    "Bernoulli": ([np.full((4, 5), 0.5, np.float32)], {}),
    "Multinomial": ([np.zeros((4, 5), np.float32)], {"sample_size": 5}),
}


@pytest.mark.parametrize("op_type", RANDOM)
def test_random_numbers_repeat_for_a_seed(op_type: str) -> None:
    inputs, attributes = RANDOM[op_type]

    def draw(name: str) -> Any:
        return call(op_type, inputs, opset=22, node_name=name, **attributes).tolist()

    assert draw("a") == draw("a")
    assert draw("a") != draw("b")


@pytest.mark.parametrize("op_type", RANDOM)
def test_the_nodes_own_seed_wins(op_type: str) -> None:
    from onnx_workbench.exec.kernels.context import Context
    from onnx_workbench.exec.kernels.registry import find

    inputs, attributes = RANDOM[op_type]
    function = find(op_type, 22).function

    def draw(run_seed: int, node_name: str, seed: float) -> Any:
        return function(
            Context(op_type, 22, seed=run_seed, node_name=node_name), *inputs, seed=seed, **attributes
        ).tolist()

    assert draw(1, "a", 0.5) == draw(2, "b", 0.5)
    assert draw(1, "a", 0.5) != draw(1, "a", 0.75)


def test_distributions() -> None:
    normal = call("RandomNormal", [], opset=22, shape=(100_000,), mean=3.0, scale=2.0, dtype=11)
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 3) < 0.05
    assert abs(normal.std() - 2) < 0.05
    uniform = call("RandomUniform", [], opset=22, shape=(100_000,), low=-1.0, high=3.0)
    assert uniform.dtype == np.float32
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() <= 3
    coin = call("Bernoulli", [np.full(100_000, 0.25)], opset=22, dtype=int(ElementType.BOOL))
    assert abs(coin.mean() - 0.25) < 0.02
    weights = np.log(np.array([[1, 2, 5], [4, 4, 1e-9]], np.float64))
    classes = call("Multinomial", [weights], opset=22, sample_size=50_000, dtype=int(ElementType.INT64))
    assert classes.dtype == np.int64
    for row, chances in zip(classes, ([0.125, 0.25, 0.625], [0.5, 0.5, 0]), strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 50_000, chances, atol=0.02)


@pytest.mark.parametrize("dtype", [ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.DOUBLE])
def test_random_numbers_of_other_types(dtype: ElementType) -> None:
    x = np.zeros((3, 4), dtype.numpy_dtype)
    for op_type in ("RandomNormalLike", "RandomUniformLike", "Bernoulli"):
        result = call(op_type, [x], opset=22)
        assert (result.dtype, result.shape) == (x.dtype, x.shape)
        assert call(op_type, [x], opset=22, dtype=1).dtype == np.float32
