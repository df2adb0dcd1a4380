"""Every operator of defs/nn, rnn, image and object detection, and of resampling, on onnx's own node cases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exec.kernels.harness import cases, check_case

OPERATORS = [
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "CausalConvWithState",
    "Col2Im",
    "Conv",
    "ConvInteger",
    "QLinearConv",
    "ConvTranspose",
    "DeformConv",
    "Dropout",
    "Flatten",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GroupNormalization",
    "ImageDecoder",
    "InstanceNormalization",
    "LRN",
    "LayerNormalization",
    "LinearAttention",
    "LpNormalization",
    "LpPool",
    "MaxPool",
    "MaxRoiPool",
    "MaxUnpool",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "RotaryEmbedding",
    "Shrink",
    "TfIdfVectorizer",
    "NonMaxSuppression",
    "RoiAlign",
    "RNN",
    "GRU",
    "LSTM",
    "Resize",
    "Upsample",
    "GridSample",
    "AffineGrid",
]


@pytest.mark.parametrize("case", cases(OPERATORS))
def test_node_case(case: Any) -> None:
    check_case(case)


@pytest.mark.parametrize("case", cases(["FlexAttention"], domain="ai.onnx.preview"))
def test_preview_case(case: Any) -> None:
    check_case(case)
