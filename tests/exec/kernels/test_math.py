"""Operators of the specification's folder math."""

from __future__ import annotations

from typing import Any

import pytest
from tests.exec.kernels.harness import cases, check_case

OPERATORS = """Abs Acos Acosh Add Asin Asinh Atan Atanh BlackmanWindow Ceil Celu Clip Cos Cosh CumProd CumSum DFT Det Div
Einsum Elu Erf Exp Floor Gelu Gemm HammingWindow HannWindow HardSigmoid HardSwish Hardmax LeakyRelu Log LogSoftmax
MatMul MatMulInteger Max Mean MelWeightMatrix Min Mish Mod Mul Neg NegativeLogLikelihoodLoss PRelu Pow QLinearMatMul
Reciprocal Relu Round STFT Selu Sigmoid Sign Sin Sinh Softmax SoftmaxCrossEntropyLoss Softplus Softsign Sqrt Sub Sum
SwiGLU Swish Tan Tanh ThresholdedRelu TopK""".split()


@pytest.mark.parametrize("case", cases(OPERATORS))
def test_onnx_case(case: Any) -> None:
    check_case(case)
