"""What a model can get wrong: shapes, ranks, attributes and sizes end in a message, never in a crash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.exec.kernels.harness import call

F = np.float32


def zeros(*shape: int, dtype: Any = F) -> Any:
    return np.zeros(shape, dtype)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


REFUSED: dict[str, tuple[str, int, list[Any], dict[str, Any], str]] = {
    "Add of shapes": ("Add", 14, [zeros(2, 3), zeros(4)], {}, r"\[2, 3\].*\[4\]"),
    "Add-6 axis": ("Add", 6, [zeros(2, 3), zeros(3)], {"broadcast": 1, "axis": 5}, r"axis 5"),
    "Max of nothing": ("Max", 13, [], {}, "no input"),
    "Mod fmod": ("Mod", 13, [zeros(2), zeros(2)], {"fmod": 3}, "fmod is 3"),
    "Clip bound": ("Clip", 13, [zeros(2), zeros(3)], {}, r"min.*\[3\]"),
    "PRelu slope": ("PRelu", 16, [zeros(2, 3), zeros(5, 2, 4)], {}, r"\[5, 2, 4\]"),
    "SwiGLU shapes": ("SwiGLU", 28, [zeros(2, 3), zeros(3)], {}, "differ in shape"),
    "Gelu approximate": ("Gelu", 20, [zeros(2)], {"approximate": "cubic"}, "cubic"),
    "Softmax axis": ("Softmax", 13, [zeros(2, 3)], {"axis": 2}, "axis is 2"),
    "MatMul depth": ("MatMul", 13, [zeros(2, 3), zeros(4, 2)], {}, r"\[2, 3\].*\[4, 2\]"),
    "MatMul scalar": ("MatMul", 13, [zeros(), zeros(4, 2)], {}, "cannot be multiplied"),
    "MatMul stacks": ("MatMul", 13, [zeros(2, 3, 3), zeros(4, 3, 3)], {}, "cannot be multiplied"),
    "Gemm rank": ("Gemm", 13, [zeros(2, 3, 3), zeros(3, 3)], {}, "two matrices"),
    "Gemm C": ("Gemm", 13, [zeros(2, 3), zeros(3, 3), zeros(5)], {}, r"\[5\]"),
    "Einsum terms": ("Einsum", 12, [zeros(2, 3)], {"equation": "ij,jk->ik"}, "2 terms for 1"),
    "Einsum rank": ("Einsum", 12, [zeros(2, 3)], {"equation": "ijk->i"}, "does not fit"),
    "Einsum letters": ("Einsum", 12, [zeros(2, 3)], {"equation": "ij->q"}, "ij->q"),
    "Einsum sizes": ("Einsum", 12, [zeros(2, 3), zeros(4, 5)], {"equation": "ij,jk->ik"}, "ij,jk"),
    "Einsum nonsense": ("Einsum", 12, [zeros(2)], {"equation": "\0->"}, "equation"),
    "Det of a rectangle": ("Det", 22, [zeros(2, 3)], {}, "square"),
    "TopK too many": ("TopK", 11, [zeros(3), ints(4)], {}, "K is 4"),
    "TopK negative": ("TopK", 11, [zeros(3), ints(-1)], {}, "K is -1"),
    "TopK of a scalar": ("TopK", 11, [zeros(), ints(0)], {}, "axis"),
    "CumSum axis": ("CumSum", 14, [zeros(3), ints(1)], {}, "axis is 1"),
    "CumSum two axes": ("CumSum", 14, [zeros(3), ints(0, 0)], {}, "axis"),
    "DFT last axis": ("DFT", 20, [zeros(2, 3, 1), None, ints(-1)], {}, "axis -1"),
    "DFT parts": ("DFT", 20, [zeros(2, 3, 5)], {}, "last axis"),
    "DFT length": ("DFT", 20, [zeros(2, 3, 1), ints(0)], {}, "dft_length is 0"),
    "STFT rank": ("STFT", 17, [zeros(5), ints(1), zeros(2)], {}, r"\[5\]"),
    "STFT no frame": ("STFT", 17, [zeros(1, 5, 1), ints(1)], {}, "window"),
    "STFT step": ("STFT", 17, [zeros(1, 5, 1), ints(0), zeros(2)], {}, "every 0"),
    "HannWindow size": ("HannWindow", 17, [ints(-1)], {}, "size is -1"),
    "MelWeightMatrix": ("MelWeightMatrix", 17, [ints(0), ints(8), ints(8), zeros(), zeros()], {}, "num_mel_bins 0"),
    "Loss labels": ("NegativeLogLikelihoodLoss", 13, [zeros(2, 3), ints(0, 3)], {}, r"\[0, 3\]"),
    "Loss shapes": ("NegativeLogLikelihoodLoss", 13, [zeros(2, 3), ints(0)], {}, "labels"),
    "Loss reduction": ("NegativeLogLikelihoodLoss", 13, [zeros(2, 3), ints(0, 1)], {"reduction": "max"}, "max"),
    "Loss weights": ("NegativeLogLikelihoodLoss", 13, [zeros(2, 3), ints(0, 1), zeros(2)], {}, "weights"),
    "BitShift direction": ("BitShift", 11, [ints(1), ints(1)], {"direction": "UP"}, "UP"),
    "Reduce axis": ("ReduceSum", 13, [zeros(2), ints(1)], {}, "axes is 1"),
    "Reduce axis twice": ("ReduceSum", 13, [zeros(2), ints(0, -1)], {}, "twice"),
    "Reduce float axes": ("ReduceSum", 13, [zeros(2), zeros(1)], {}, "expected integers"),
    "ArgMax axis": ("ArgMax", 13, [zeros(2)], {"axis": -2}, "axis is -2"),
    "Quantize axis": ("QuantizeLinear", 13, [zeros(2, 3), zeros(2)], {"axis": 1}, "y_scale has 2"),
    "Quantize blocks": ("QuantizeLinear", 21, [zeros(2, 3), zeros(2, 2)], {"axis": 1, "block_size": 9}, "block"),
    "Quantize no blocks": ("QuantizeLinear", 21, [zeros(2, 3), zeros(2, 2)], {"axis": 1}, "block"),
    "Dequantize zero": ("DequantizeLinear", 13, [zeros(2, 3, dtype=np.int8), zeros(3), zeros(2)], {}, "x_zero_point"),
    "ConstantOfShape": ("ConstantOfShape", 9, [ints(2, -1)], {}, "negative"),
    "ConstantOfShape value": ("ConstantOfShape", 9, [ints(2)], {"value": zeros(2)}, "one element"),
    "Constant without value": ("Constant", 13, [], {}, "0 attributes"),
    "Constant with two values": ("Constant", 13, [], {"value_int": 1, "value_float": 1.0}, "2 attributes"),
    "EyeLike rank": ("EyeLike", 22, [zeros(2)], {}, "matrix"),
    "Range step": ("Range", 11, [ints(1), ints(2), ints(0)], {}, "delta"),
    "Range shape": ("Range", 11, [ints(1, 2), ints(2), ints(1)], {}, "start"),
    "Range endless": ("Range", 11, [F(0), F(np.inf), F(1)], {}, "finite"),
    "RandomNormal shape": ("RandomNormal", 22, [], {"shape": (2, -3)}, "negative"),
    "RandomNormal type": ("RandomNormal", 22, [], {"shape": (2,), "dtype": 99}, "99"),
    "Multinomial rank": ("Multinomial", 22, [zeros(3)], {}, "batch"),
    "Multinomial size": ("Multinomial", 22, [zeros(3, 2)], {"sample_size": -1}, "negative"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_message(name: str) -> None:
    op_type, opset, inputs, attributes, message = REFUSED[name]
    inputs = [np.asarray(x) if x is not None else None for x in inputs]
    with pytest.raises(KernelError, match=message):
        call(op_type, inputs, opset=opset, **attributes)


HUGE = 1 << 40
TOO_LARGE: dict[str, tuple[str, int, list[Any], dict[str, Any]]] = {
    "Add": ("Add", 14, [zeros(1 << 14, 1), zeros(1 << 14)], {}),
    "Less": ("Less", 13, [zeros(1 << 15, 1), zeros(1 << 15)], {}),
    "Max": ("Max", 13, [zeros(1 << 14, 1), zeros(1, 1 << 14), zeros(1)], {}),
    "Add of one shape": ("Add", 14, [np.broadcast_to(zeros(1), (1 << 27,))] * 2, {}),
    "Less of one shape": ("Less", 13, [np.broadcast_to(zeros(1), (1 << 29,))] * 2, {}),
    "MatMul": ("MatMul", 13, [zeros(1 << 14, 1), zeros(1, 1 << 14)], {}),
    "MatMul of integers": ("MatMul", 13, [zeros(1 << 14, 1, dtype=np.int64), zeros(1, 1 << 14, dtype=np.int64)], {}),
    "Einsum": ("Einsum", 12, [zeros(1 << 14), zeros(1 << 14)], {"equation": "i,j->ij"}),
    "DFT": ("DFT", 20, [zeros(1, 2, 1), ints(HUGE)], {}),
    "HannWindow": ("HannWindow", 17, [ints(HUGE)], {}),
    "MelWeightMatrix": ("MelWeightMatrix", 17, [ints(8), ints(HUGE), ints(8), zeros(), zeros()], {}),
    "ConstantOfShape": ("ConstantOfShape", 9, [ints(HUGE, HUGE)], {}),
    "Range": ("Range", 11, [ints(0), ints(HUGE), ints(1)], {}),
    "Range of fractions": ("Range", 11, [np.array(0.0), np.array(1e300), np.array(1e-300)], {}),
    "RandomNormal": ("RandomNormal", 22, [], {"shape": (HUGE,)}),
    "RandomUniform": ("RandomUniform", 22, [], {"shape": (HUGE, HUGE)}),
    "Multinomial": ("Multinomial", 22, [zeros(1, 2)], {"sample_size": HUGE}),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_compared_with_the_memory_limit(name: str) -> None:
    op_type, opset, inputs, attributes = TOO_LARGE[name]
    inputs = [x.reshape(()) if x.size == 1 and op_type in ("Range", "DFT") else x for x in inputs]
    set_limits(Limits(max_bytes=1 << 28))
    try:
        with pytest.raises(LimitError):
            call(op_type, inputs, opset=opset, **attributes)
    finally:
        set_limits(None)


@pytest.mark.parametrize(
    "op_type", ["Add", "MatMul", "Softmax", "ReduceSum", "TopK", "QuantizeLinear", "Cast", "Einsum"]
)
@pytest.mark.parametrize("wrong", [[1, 2], {"a": 1}, None, "text", [zeros(2)]])
def test_values_that_are_no_tensors(op_type: str, wrong: Any) -> None:
    attributes: dict[str, Any] = {"Cast": {"to": 1}, "Einsum": {"equation": "i->i"}}.get(op_type, {})
    count = {"Add": 2, "MatMul": 2, "TopK": 2, "QuantizeLinear": 2}.get(op_type, 1)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        call(op_type, [wrong] * count, opset=18, **attributes)


MIXED = {
    "Add": [np.ones(3, np.float32), np.ones(3, np.int64)],
    "Mul": [np.ones(3, np.int64), np.ones(3, np.float32)],
    "Div": [np.ones(3, np.float16), np.ones(3, np.float32)],
    "Less": [np.ones(3, np.float32), np.ones(3)],
    "Max": [np.ones(3, np.float32), np.ones(3, np.uint8)],
    "PRelu": [np.ones(3, np.float32), np.ones(3)],
    "MatMul": [np.ones((3, 3), np.float16), np.ones((3, 3), np.float32)],
    "Gemm": [np.ones((3, 3), np.float32), np.ones((3, 3))],
    "Conv": [np.ones((1, 1, 3), np.float32), np.ones((1, 1, 3), np.int64)],
}


@pytest.mark.parametrize("op_type", MIXED)
def test_inputs_of_several_types_are_refused_and_not_brought_to_one(op_type: str) -> None:
    with pytest.raises(KernelError, match="expected the same type"):
        call(op_type, MIXED[op_type], opset=17)


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm", "Conv"])
def test_prepared_weights_of_another_type_are_refused(op_type: str) -> None:
    x, w = MIXED[op_type]
    for first, second in ((x, w), (w, x)):
        kernel = find(op_type, 17)
        assert kernel.prepare is not None
        run = kernel.prepare((None, second)) or kernel.function
        with pytest.raises(KernelError, match="expected the same type"):
            run(first, second)
