"""Kernels of the usual types call little besides numpy: for small tensors the calls are what takes the time."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.exec.kernels.harness import call, find

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def own_calls(op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> list[str]:
    """The functions of ours that a kernel enters at its second call; the first one fills caches."""
    call(op_type, inputs, opset=opset, **attributes)
    kernel = find(op_type, opset)
    found: list[str] = []

    def note(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and "onnx_workbench" in frame.f_globals.get("__name__", ""):
            found.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        kernel.function(*inputs, **attributes)
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes", "most"),
    [
        ("Relu", 14, [floats(4, 16)], {}, 2),
        ("Tanh", 14, [floats(4, 16)], {}, 2),
        ("Sigmoid", 14, [floats(4, 16)], {}, 3),
        ("Add", 14, [floats(4, 16), floats(16)], {}, 1),
        ("MatMul", 13, [floats(4, 16), floats(16, 8)], {}, 2),
        ("Gemm", 13, [floats(4, 16), floats(8, 16), floats(8)], {"transB": 1}, 5),
        ("MatMul", 13, [floats(1, 4, 16), floats(16, 8)], {}, 2),
        ("MatMul", 13, [floats(1, 2, 4, 16), floats(1, 2, 16, 8)], {}, 5),
        ("ReduceMean", 18, [floats(1, 4, 16), np.array([-1])], {}, 7),
        ("Softmax", 13, [floats(4, 16)], {}, 8),
        ("LayerNormalization", 17, [floats(4, 16), floats(16), floats(16)], {}, 17),
        ("Transpose", 13, [floats(4, 16)], {"perm": (1, 0)}, 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_small_tensors_take_few_calls(
    op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any], most: int
) -> None:
    calls = own_calls(op_type, opset, inputs, attributes)
    assert len(calls) <= most, calls
