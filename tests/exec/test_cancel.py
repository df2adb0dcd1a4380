"""Long kernels of nearly every kind look whether the run was cancelled, not only nodes.

Sorts and Fourier transforms do not: what takes numpy longer than a worker has to answer is ended with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.limits import Limits, set_limits
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.progress import Cancelled, Progress
from tests.exec.kernels.harness import call, one_node_model

RNG = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape, np.float32)


class AtLook(Progress):
    """Cancelled at a look."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def check(self) -> None:
        self.left -= 1
        if not self.left:
            raise Cancelled


@pytest.fixture
def _cancelled() -> Iterator[None]:
    set_limits(Limits(progress=AtLook(2)))
    yield
    set_limits(None)


LONG: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "elementwise": ("Erf", [f(200_000)], {}),
    "float16": ("Gelu", [f(200_000).astype(np.float16)], {"opset": 20}),
    "rows": ("Softmax", [f(400, 500)], {}),
    "normalization": ("LayerNormalization", [f(40_000, 64), f(64)], {}),
    "product": ("MatMul", [np.ones((2600, 2600), np.float32)] * 2, {}),
    "products": ("MatMul", [np.ones((5, 1600, 1600), np.float32)] * 2, {}),
    "convolution": ("Conv", [f(4, 16, 64, 64), f(16, 16, 3, 3)], {}),
    "strided": ("Conv", [f(4, 16, 64, 64), f(16, 16, 3, 3)], {"strides": (2, 2)}),
    "depthwise": ("Conv", [f(4, 64, 64, 64), f(64, 1, 3, 3)], {"group": 64}),
    "transposed": ("ConvTranspose", [f(4, 16, 64, 64), f(16, 16, 3, 3)], {}),
    "pooling": ("MaxPool", [f(4, 64, 64, 64)], {"kernel_shape": (3, 3)}),
    "recurrent": ("LSTM", [f(200, 2, 8), f(1, 32, 8), f(1, 32, 8)], {"hidden_size": 8}),
    "peepholes": ("LSTM", [f(200, 2, 8), f(1, 32, 8), f(1, 32, 8), None, None, None, None, f(1, 24)], {}),
    "attention": ("Attention", [f(2, 8, 300, 64)] * 3, {"opset": 23}),
    "resampling": ("Resize", [f(1, 4, 200, 200), None, None, np.array([1, 4, 300, 300])], {"mode": "cubic"}),
    "sampling": ("GridSample", [f(3, 4, 32, 32), f(3, 32, 32, 2)], {"opset": 20}),
    "regions": ("RoiAlign", [f(1, 4, 32, 32), np.abs(f(50, 4)), np.zeros(50, np.int64)], {"opset": 16}),
    "rows in order": ("TopK", [f(3, 700_000), np.array([100])], {}),
    "window": ("HannWindow", [np.array(200_000)], {}),
    "bands": (
        "MelWeightMatrix",
        [np.array(80), np.array(4096), np.array(16000), np.array(0, np.float32), np.array(8000, np.float32)],
        {},
    ),
    "range": ("Range", [np.array(0), np.array(200_000), np.array(1)], {}),
    "random": ("RandomNormal", [], {"shape": (200_000,)}),
    "grid": ("AffineGrid", [f(2, 2, 3), np.array([2, 1, 400, 400])], {"opset": 20}),
    "scattered": ("ScatterElements", [f(1_200_000), RNG.integers(0, 9, 1_200_000), f(1_200_000)], {}),
    "scattered sums": (
        "ScatterND",
        [f(9), RNG.integers(0, 9, (1_200_000, 1)), f(1_200_000)],
        {"reduction": "add"},
    ),
    "places": ("NonZero", [f(1_200_000)], {}),
    "pieces of texts": ("StringSplit", [np.array(["a b"] * 1_200_000, object)], {"opset": 20}),
    "texts": ("Cast", [f(200_000)], {"to": 8}),
    "numbers of texts": ("Cast", [np.array(["1.5"] * 200_000, object)], {"to": 1}),
    "boxes": (
        "NonMaxSuppression",
        [f(1, 200, 4), f(1, 10, 200), np.array([100]), np.array([0.9], np.float32)],
        {"opset": 11},
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("_cancelled")
@pytest.mark.parametrize("kind", LONG)
def test_a_long_kernel_is_cancelled_in_its_midst(kind: str) -> None:
    op_type, inputs, attributes = LONG[kind]
    with np.errstate(all="ignore"), pytest.raises(Cancelled):
        call(op_type, inputs, **{"opset": 19, **attributes})


def test_a_run_is_cancelled_while_its_trees_are_compiled() -> None:
    count = 1001
    ids = np.arange(count)
    inner = ids < count // 2
    model, _ = one_node_model(
        "TreeEnsembleRegressor", [f(2, 3)], opset=3, domain="ai.onnx.ml", n_targets=1,
        nodes_modes=["BRANCH_LEQ" if is_inner else "LEAF" for is_inner in inner], nodes_treeids=[0] * count,
        nodes_nodeids=ids.tolist(), nodes_truenodeids=np.where(inner, 2 * ids + 1, 0).tolist(),
        nodes_falsenodeids=np.where(inner, 2 * ids + 2, 0).tolist(), nodes_featureids=(ids % 3).tolist(),
        nodes_values=np.linspace(-1, 1, count).tolist(), target_treeids=[0] * (~inner).sum(),
        target_nodeids=ids[~inner].tolist(), target_ids=[0] * (~inner).sum(),
        target_weights=np.linspace(0, 1, (~inner).sum()).tolist(),
    )  # fmt: skip
    feeds = {model.graph.input[0].name: f(2, 3)}
    expected = Session(load(model.SerializeToString())).run(feeds)
    stops = 0
    for look in range(1, 40):
        session = Session(load(model.SerializeToString()))
        result = session.run(feeds, progress=AtLook(look))
        stops += result.stopped == "cancelled"
        again = session.run(feeds)
        assert not again.stopped
        for name in (value.name for value in model.graph.output):
            np.testing.assert_array_equal(again.values[name], expected.values[name])
    assert stops > 10
