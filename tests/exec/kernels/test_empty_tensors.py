"""Tensors without elements, as models with open dimensions have them, go through as through any other engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError
from tests.exec.kernels.harness import call, check_against, ort_one_node


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 9, shape).astype(np.uint8)


SCALE, ZERO = np.float32(0.5), np.uint8(3)
GRAMS = {
    "max_gram_length": 2, "max_skip_count": 0, "min_gram_length": 2, "mode": "TF", "ngram_counts": (0, 4),
    "ngram_indexes": (0, 1, 2, 3, 4, 5, 6), "pool_int64s": (2, 3, 5, 4, 5, 6, 7, 8, 6, 7),
}  # fmt: skip
ATTENTION = {"q_num_heads": 3, "kv_num_heads": 3}


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes"),
    [
        ("ConvTranspose", 11, [floats(0, 2, 4, 7), floats(2, 2, 2, 4)], {"group": 2}),
        ("ConvTranspose", 11, [floats(3, 0, 3, 3), floats(0, 2, 3, 3)], {}),
        ("ConvInteger", 10, [bytes_(1, 2, 7, 3), bytes_(0, 2, 3, 3), ZERO], {}),
        ("QLinearConv", 10, [bytes_(1, 7, 9, 9), SCALE, ZERO, bytes_(0, 7, 3, 3), SCALE, ZERO, SCALE, ZERO], {}),
        ("TfIdfVectorizer", 9, [np.zeros(0, np.int64)], GRAMS),
        ("TfIdfVectorizer", 9, [np.zeros((2, 0), np.int32)], GRAMS),
        ("ArgMax", 13, [floats(0, 0)], {"axis": 1, "keepdims": 0}),
        ("ArgMin", 13, [floats(3, 0)], {"axis": 0}),
        ("InstanceNormalization", 6, [floats(2, 0, 9), floats(0), floats(0)], {}),
        ("GatherND", 13, [floats(2, 3), np.zeros((4, 0), np.int64)], {}),
        ("GatherND", 13, [floats(2, 3), np.zeros((2, 0), np.int64)], {"batch_dims": 1}),
    ],
)
def test_nothing_goes_through(op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> None:
    check_against(ort_one_node, op_type, inputs, opset=opset, **attributes)


@pytest.mark.parametrize(
    ("op_type", "domain", "opset", "inputs", "attributes", "shape"),
    [
        (
            "LinearAttention", "", 27, [floats(0, 4, 32)] * 3,
            {"q_num_heads": 4, "kv_num_heads": 4, "update_rule": "linear"}, (0, 4, 32),
        ),
        ("Attention", "", 23, [floats(0, 4, 24), floats(0, 6, 24), floats(0, 6, 24)], ATTENTION, (0, 4, 24)),
        ("MultiHeadAttention", "com.microsoft", 1, [floats(0, 4, 8)] * 3, {"num_heads": 2}, (0, 4, 8)),
        ("BatchNormalization", "", 1, [floats(0, 2, 3), *[floats(6)] * 4], {"is_test": 1, "spatial": 0}, (0, 2, 3)),
        (
            "DeformConv", "", 19, [floats(0, 2, 3, 3), floats(4, 2, 2, 2), floats(0, 8, 2, 2)], {}, (0, 4, 2, 2),
        ),
        ("GatedRMSNorm", "com.microsoft", 1, [floats(0, 3, 8), floats(4), floats(0, 3, 8)], {}, (0, 3, 8)),
        (
            "GatherBlockQuantized", "com.microsoft", 1, [bytes_(3, 8), np.zeros((0, 2), np.int64), floats(3, 1)],
            {"block_size": 16}, (0, 2, 16),
        ),
        ("GatherND", "", 13, [floats(0, 3), np.zeros((0, 2, 1), np.int64)], {"batch_dims": 1}, (0, 2)),
        ("MeanVarianceNormalization", "", 13, [floats(0, 2, 3, 3)], {}, (0, 2, 3, 3)),
        ("BatchNormalization", "", 15, [floats(0, 2, 3), *[floats(2)] * 4], {"training_mode": 1}, (0, 2, 3)),
        ("SkipSimplifiedLayerNormalization", "com.microsoft", 1, [*[floats(2, 3, 0)] * 2, floats(0)], {}, (2, 3, 0)),
        ("QLinearGlobalAveragePool", "com.microsoft", 1, [bytes_(2, 3, 0), SCALE, ZERO, SCALE, ZERO], {}, (2, 3, 1)),
    ],
)  # fmt: skip
def test_nothing_keeps_its_shape(
    op_type: str, domain: str, opset: int, inputs: list[Any], attributes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """Without a warning of numpy's, which would be written to the terminal; here warnings are errors."""
    result = call(op_type, inputs, opset=opset, domain=domain, **attributes)
    assert (result[0] if isinstance(result, tuple) else result).shape == shape


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_no_element_can_be_chosen_from_none(op_type: str) -> None:
    with pytest.raises(KernelError, match=r"axis 1 of \[2, 0\] has no elements"):
        call(op_type, [floats(2, 0)], opset=13, axis=1)


def test_scores_of_heads_without_size_are_kept() -> None:
    q = np.zeros((2, 1, 3, 0), np.float32)
    _, _, _, scores = call("Attention", [q, q, q], opset=24, outputs=4, qk_matmul_output_mode=3)
    np.testing.assert_allclose(scores, np.full((2, 1, 3, 3), 1 / 3), rtol=1e-6)
