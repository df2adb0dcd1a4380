"""Matrix products in pieces give what numpy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.kernels.shared import products
from tests.examples import examples


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


@settings(max_examples=examples(80), deadline=None)
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


def test_a_broadcast_stack_is_not_made_whole() -> None:
    a = np.ones((2, 3, 200, 8), np.float32)
    b = np.broadcast_to(np.ones((1, 1, 8, 700), np.float32), (2, 3, 8, 700))
    out = np.empty((2, 3, 200, 700), np.float32)
    products.matmul_stack(a, b, out)
    np.testing.assert_array_equal(out, 8)
