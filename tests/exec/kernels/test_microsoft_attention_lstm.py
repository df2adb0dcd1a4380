"""AttnLSTM against ONNX Runtime, in double precision against itself, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError
from tests.exec.kernels.harness import assert_same
from tests.exec.kernels.test_microsoft import MS, F, f, i32, onnxruntime, ours

#: Sizes: steps, batch, inputs, hidden, places of the memory, its depth, what attention compares, attention layer.
T, N, G, H, S, M, A, W = 4, 2, 3, 5, 6, 4, 3, 7


def inputs(directions: int = 1, layer: int = W) -> list[Any]:
    d, read = directions, layer or M
    weights = [f(d, 4 * H, G + read), f(d, 4 * H, H), f(d, 8 * H)]
    memory = [f(d, H, A), f(d, M, A), f(d, A), f(N, S, M)]
    return [f(T, N, G), *weights, None, None, None, None, *memory, None, f(d, M + H, layer) if layer else None]


def trimmed(given: list[Any]) -> list[Any]:
    while given[-1] is None:
        given = given[:-1]
    return given


@pytest.mark.parametrize(
    ("directions", "layer", "more", "attributes"),
    [
        (1, W, {}, {}),
        (1, 0, {}, {}),
        (1, W, {12: i32(6, 2)}, {}),
        (1, W, {4: i32(2, 4), 12: i32(6, 1)}, {}),
        (1, W, {4: i32(2, 4)}, {"direction": "reverse"}),
        (2, W, {4: i32(2, 4), 5: f(2, N, H), 6: f(2, N, H), 12: i32(3, 4)}, {"direction": "bidirectional"}),
        (1, W, {3: None, 7: f(1, 3 * H)}, {"clip": 0.7}),
        (1, 0, {}, {"input_forget": 1, "activations": ["HardSigmoid", "Relu", "Softsign"]}),
    ],
    ids=["layer", "no layer", "memory", "lengths", "reverse", "both", "peepholes", "coupled"],
)
def test_attending_layers_agree_with_onnxruntime(
    directions: int, layer: int, more: dict[int, Any], attributes: dict[str, Any]
) -> None:
    given = inputs(directions, layer)
    for place, value in more.items():
        given[place] = value
    given, attributes = trimmed(given), {"hidden_size": H, **attributes}
    expected = onnxruntime("AttnLSTM", given, [F, F, F], MS, attributes)
    before = [None if x is None else x.copy() for x in given]
    for found, reference in zip(ours("AttnLSTM", given, 3, **attributes), expected, strict=True):
        assert_same(found, reference, rtol=1e-4, atol=1e-5)
    for value, was in zip(given, before, strict=True):
        np.testing.assert_array_equal(value, was)
    doubles = [x if x is None or x.dtype != np.float32 else x.astype(np.float64) for x in given]
    for found, reference in zip(ours("AttnLSTM", doubles, 3, **attributes), expected, strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("place", "value", "report"),
    [
        (1, f(1, 4 * H, G), "W has shape"),
        (2, f(4 * H, H), "rank"),
        (8, f(1, H, A + 1), "QW has shape"),
        (9, f(1, M + 1, A), "MW has shape"),
        (11, f(N + 1, S, M), "M has shape"),
        (13, f(1, M, W), "AW has shape"),
        (4, i32(2, T + 1), "sequence_lens"),
        (12, i32(2, S + 1), "lens is"),
    ],
)
def test_what_does_not_fit_together_is_refused(place: int, value: Any, report: str) -> None:
    given = inputs()
    given[place] = value
    with pytest.raises(KernelError, match=report):
        ours("AttnLSTM", given, 3)


@pytest.mark.parametrize("attributes", [{"direction": "sideways"}, {"hidden_size": H + 1}, {"activations": ["Tanh"]}])
def test_attributes_that_do_not_fit_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError, match="expected"):
        ours("AttnLSTM", inputs(), 3, **attributes)
