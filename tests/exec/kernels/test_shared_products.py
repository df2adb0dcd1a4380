"""Matrix products in pieces give what numpy gives."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exec.errors import KernelError
from exec.kernels.onnx.math.matrix import gemm_11, matmul_1, prepare_gemm, prepare_matmul
from exec.kernels.shared import products


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two stacks of matrices whose leading axes broadcast, each of them perhaps a transposed view."""
    rank = draw(st.integers(0, 2))
    sizes = [draw(st.integers(1, 3)) for _ in range(rank)]
    rows, depth, columns = (draw(st.integers(1, 70)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))

    def stack(inner: tuple[int, int]) -> Any:
        lead = [1 if draw(st.booleans()) else size for size in sizes[draw(st.integers(0, rank)) :]]
        if draw(st.booleans()):
            return rng.standard_normal((*lead, *inner[::-1]), np.float32).swapaxes(-1, -2)
        return rng.standard_normal((*lead, *inner), np.float32)

    return stack((rows, depth)), stack((depth, columns))


@settings(max_examples=80, deadline=None)
@given(stacks(), st.integers(1, 200_000))
def test_stacks_in_pieces_of_rows(case: tuple[Any, Any], unpacked: int) -> None:
    a, b = case
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    out = np.full(expected.shape, np.nan, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "UNPACKED", unpacked)
        patch.setattr(products.blas, "multiplies_unpacked", lambda: True)
        products.matmul_stack(a, b, out)
    np.testing.assert_allclose(out, expected, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100), st.integers(1, 64), st.integers(1, 1400), st.integers(0, 1 << 30))
def test_shallow_products_in_tiles(rows: int, depth: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((rows, depth), np.float32), rng.standard_normal((depth, columns + 9), np.float32)
    whole = np.full((rows, columns + 5), np.nan, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "UNPACKED", 1)
        patch.setattr(products.blas, "multiplies_unpacked", lambda: True)
        products.matmul_columns(a, b[:, 4:-5], whole[:, :-5])
    np.testing.assert_allclose(whole[:, :-5], a @ b[:, 4:-5], atol=1e-4)
    assert np.isnan(whole[:, -5:]).all(), "written beyond the result"


def test_products_in_pieces_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products.blas, "multiplies_unpacked", lambda: True)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 300), np.float32), rng.standard_normal((300, 1000), np.float32)
    assert products.columns_unpacked(16, 300) == 192
    out = np.empty((16, 1000), np.float32)
    products.matmul_columns(a, b, out)
    np.testing.assert_allclose(out, a @ b, atol=1e-4)
    monkeypatch.setattr(products.blas, "multiplies_unpacked", lambda: False)
    assert products.columns_unpacked(16, 300) == 0, "where BLAS packs every piece, pieces only cost"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), st.integers(1, 120), st.integers(1, 64), st.integers(1, 40_000))
def test_products_of_few_columns(rows: int, depth: int, columns: int, unpacked: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, depth), np.float32), rng.standard_normal((depth, columns), np.float32)
    whole = np.full((rows, 100), np.nan, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "UNPACKED", unpacked)
        patch.setattr(products.blas, "multiplies_unpacked", lambda: True)
        products.matmul_columns(a, b, whole[:, :columns])
    np.testing.assert_allclose(whole[:, :columns], a.astype(np.float64) @ b, atol=1e-4)
    assert np.isnan(whole[:, columns:]).all()


def test_a_broadcast_stack_is_not_made_whole() -> None:
    a = np.ones((2, 3, 200, 8), np.float32)
    b = np.broadcast_to(np.ones((1, 1, 8, 700), np.float32), (2, 3, 8, 700))
    out = np.empty((2, 3, 200, 700), np.float32)
    products.matmul_stack(a, b, out)
    np.testing.assert_array_equal(out, 8)


@st.composite
def weighted(draw: st.DrawFn) -> tuple[Any, Any]:
    """Rows and a constant matrix, of any size around those of panels, each perhaps a view of another order."""
    shape = [*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 40))]
    depth = draw(st.sampled_from([1, 63, 768, 769, 1537, 2400]))
    columns = draw(st.sampled_from([1, 63, 64, 65, 384, 385, 450]))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = rng.standard_normal((*shape, depth), np.float32)
    matrix = rng.standard_normal((depth, columns), np.float32)
    if draw(st.booleans()):
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)
    return x, np.asfortranarray(matrix) if draw(st.booleans()) else matrix


@settings(max_examples=60, deadline=None)
@given(weighted())
def test_products_with_panels_of_a_weight(case: tuple[Any, Any]) -> None:
    x, matrix = case
    given_x, given_matrix = x.copy(), matrix.copy()
    result = products.Weight(matrix).product(x)
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
        result = products.Weight(matrix).product(x)
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
    assert products.pays(np.zeros(shape, np.float32), weight) is expected
    assert not products.pays(np.zeros(shape), weight)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_weight_in_the_graph_is_multiplied_whatever_it_is_given(transposed: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((512, 1000), np.float32)
    run = prepare_matmul((None, matrix)) or matmul_1  # None where BLAS has no use for panels
    for shape in ((512,), (40, 512), (2, 30, 512), (3, 512), (0, 512), (300, 512)):
        x = rng.standard_normal(shape, np.float32)
        np.testing.assert_allclose(run(x, matrix), x @ matrix, atol=1e-3)
    b = np.ascontiguousarray(matrix.T) if transposed else matrix
    attributes = {"alpha": 0.5, "beta": 2.0, "transB": transposed}
    c = rng.standard_normal(1000).astype(np.float32)
    for turned in (0, 1):
        attributes["transA"] = turned
        gemm = prepare_gemm((None, b, None), **attributes) or partial(gemm_11, **attributes)
        for rows in (1, 5, 40, 300):
            x = rng.standard_normal((rows, 512), np.float32)
            expected = 0.5 * (x @ matrix) + 2 * c
            np.testing.assert_allclose(gemm(x.T if turned else x, b, c), expected, atol=1e-3)
            np.testing.assert_allclose(gemm(x.T if turned else x, b), expected - 2 * c, atol=1e-3)
    with pytest.raises(KernelError, match="cannot be multiplied"):
        run(np.ones((4, 511), np.float32), matrix)


def test_laid_out_weights_take_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = np.ones((600, 512), np.float32), np.ones((2, 600), np.float32)
    monkeypatch.setattr(products, "_kept", products._Allowance(matrix.nbytes))
    monkeypatch.setattr(products.blas, "multiplies_unpacked", lambda: True)
    first = products.LaidOut(matrix)
    assert first.product(x[:1]) is None, "a single row reads the matrix once as it is"
    assert first.product(x) is not None
    assert products.LaidOut(matrix).product(x) is None
    del first
    assert products.LaidOut(matrix).product(x) is not None
    monkeypatch.setattr(products.blas, "multiplies_unpacked", lambda: False)
    assert products.LaidOut(matrix).product(x) is None


def test_a_weight_there_is_no_memory_for_is_multiplied_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Any:
        raise MemoryError

    matrix, x = np.ones((600, 512), np.float32), np.ones((2, 600), np.float32)
    monkeypatch.setattr(products, "_kept", products._Allowance(matrix.nbytes))
    monkeypatch.setattr(products.blas, "multiplies_unpacked", lambda: True)
    with monkeypatch.context() as patch:
        patch.setattr(products, "aligned", full)
        run = prepare_matmul((None, matrix))
        assert run is not None
        np.testing.assert_array_equal(run(x, matrix), np.full((2, 512), 600))
    assert products.LaidOut(matrix).product(x) is not None, "what it did not take is still there"
