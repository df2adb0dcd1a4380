"""Products with laid-out weights give what numpy gives, in the memory they may take."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.math.matrix import gemm_11, matmul_1, prepare_gemm, prepare_matmul
from onnx_workbench.exec.kernels.shared import weights
from onnx_workbench.exec.kernels.shared.scratch import copy_transposed
from onnx_workbench.exec.kernels.shared.weights import LaidOut, Panels, pays
from tests.examples import examples


@st.composite
def weighted(draw: st.DrawFn) -> tuple[Any, Any]:
    """Up to 64 rows and a constant matrix of any size around those of panels, each perhaps a view of another order."""
    lead = draw(st.lists(st.integers(1, 3), max_size=2))
    shape = [*lead, draw(st.integers(1, 64 // prod(lead)))]
    depth = draw(st.sampled_from([1, 63, 768, 769, 1537, 2400]))
    columns = draw(st.sampled_from([1, 63, 64, 65, 384, 385, 450]))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = rng.standard_normal((*shape, depth), np.float32)
    matrix = rng.standard_normal((depth, columns), np.float32)
    if draw(st.booleans()):
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)
    return x, np.asfortranarray(matrix) if draw(st.booleans()) else matrix


@settings(max_examples=examples(60), deadline=None)
@given(case=weighted())
def test_products_with_a_weight(case: tuple[Any, Any]) -> None:
    x, matrix = case
    given_x, given_matrix = x.copy(), matrix.copy()
    result = Panels(matrix).product(x)
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result, x.astype(np.float64) @ matrix, atol=1e-3)
    np.testing.assert_array_equal(x, given_x)
    np.testing.assert_array_equal(matrix, given_matrix)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_row(value: float) -> None:
    rng = np.random.default_rng(0)
    x, matrix = rng.standard_normal((21, 800), np.float32), rng.standard_normal((800, 70), np.float32)
    x[20, 799] = value
    with np.errstate(all="ignore"):
        result = Panels(matrix).product(x)
        expected = x @ matrix
    assert np.isfinite(result[:20]).all()
    np.testing.assert_array_equal(np.isnan(result[20]), np.isnan(expected[20]))
    assert not np.isfinite(result[20]).any()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), False), ((768,), False), ((1, 768), False), ((2, 768), True), ((1, 5, 768), True), ((0, 768), False),
     ((4, 5, 64, 768), False), ((3, 0), False)],
)  # fmt: skip
def test_a_layout_pays_for_a_few_rows(shape: tuple[int, ...], *, expected: bool) -> None:
    weight = np.zeros((768, 512), np.float32)
    assert pays(np.zeros(shape, np.float32), weight) is expected
    assert not pays(np.zeros(shape), weight)


@pytest.mark.long
@pytest.mark.parametrize("transposed", [0, 1])
def test_a_weight_in_the_graph_is_multiplied_whatever_it_is_given(transposed: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((512, 1000), np.float32)
    run = prepare_matmul((None, matrix)) or matmul_1  # None where BLAS has no use for panels
    for shape in ((512,), (40, 512), (2, 30, 512), (3, 512), (0, 512), (100, 512), (300, 512)):
        x = rng.standard_normal(shape, np.float32)
        np.testing.assert_allclose(run(x, matrix), x @ matrix, atol=1e-3)
    b = np.ascontiguousarray(matrix.T) if transposed else matrix
    attributes = {"alpha": 0.5, "beta": 2.0, "transB": transposed}
    c = rng.standard_normal(1000).astype(np.float32)
    for turned in (0, 1):
        attributes["transA"] = turned
        gemm = prepare_gemm((None, b, None), **attributes) or partial(gemm_11, **attributes)
        for rows in (1, 5, 40, 60, 300):
            x = rng.standard_normal((rows, 512), np.float32)
            expected = 0.5 * (x @ matrix) + 2 * c
            np.testing.assert_allclose(gemm(x.T if turned else x, b, c), expected, atol=1e-3)
            np.testing.assert_allclose(gemm(x.T if turned else x, b), expected - 2 * c, atol=1e-3)
    with pytest.raises(KernelError, match="cannot be multiplied"):
        run(np.ones((4, 511), np.float32), matrix)


def test_laid_out_weights_take_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = np.ones((600, 512), np.float32), np.ones((2, 600), np.float32)
    monkeypatch.setattr(weights, "_kept", weights._Allowance(matrix.nbytes))
    monkeypatch.setattr(weights.blas, "multiplies_unpacked", lambda: True)
    first = LaidOut(matrix)
    assert first.product(x[:1]) is None, "a single row reads the matrix once as it is"
    assert first.product(x) is not None
    assert LaidOut(matrix).product(x) is None
    del first
    assert LaidOut(matrix).product(x) is not None
    monkeypatch.setattr(weights.blas, "multiplies_unpacked", lambda: False)
    assert LaidOut(matrix).product(x) is None


def test_a_weight_there_is_no_memory_for_is_multiplied_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Any:
        raise MemoryError

    matrix, x = np.ones((600, 512), np.float32), np.ones((2, 600), np.float32)
    monkeypatch.setattr(weights, "_kept", weights._Allowance(matrix.nbytes))
    monkeypatch.setattr(weights.blas, "multiplies_unpacked", lambda: True)
    with monkeypatch.context() as patch:
        patch.setattr(weights, "aligned", full)
        run = prepare_matmul((None, matrix))
        assert run is not None
        np.testing.assert_array_equal(run(x, matrix), np.full((2, 512), 600))
    assert LaidOut(matrix).product(x) is not None, "what it did not take is still there"


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (70, 200), (1500, 65)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_transposed_copy_is_the_transpose(shape: tuple[int, int], dtype: type) -> None:
    matrix = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    out = np.zeros((shape[1], shape[0] + 3), dtype)
    copy_transposed(matrix, out[:, : shape[0]])
    np.testing.assert_array_equal(out[:, : shape[0]], matrix.T)
    assert not out[:, shape[0] :].any()
