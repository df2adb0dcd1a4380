"""What the specification excludes and ONNX Runtime runs to the same result each time, which kernels run likewise.

Values stand in the tests, and are compared with ONNX Runtime's where it is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.model.ir.types import ElementType
from tests.exec.kernels.harness import assert_same, call
from tests.onnx_runtime import session_or_skip


def f(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, object)


def run_by_ort(op_type: str, inputs: list[Any], opset: int, attributes: dict[str, Any], kind: int) -> Any:
    """Give what ONNX Runtime computes where no size is declared."""
    feeds = {f"i{k}": v for k, v in enumerate(inputs) if v is not None}
    declared = [
        helper.make_tensor_value_info(
            name, int(ElementType.from_numpy(v.dtype)), [f"{name}_{axis}" for axis in range(v.ndim)]
        )
        for name, v in feeds.items()
    ]
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", declared, [helper.make_tensor_value_info("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return session_or_skip(model).run(None, feeds)[0]


RAMP = np.arange(4, dtype=np.float32).reshape(1, 4)
CUBE = np.array([1, 2, 4, 8, 16, 32, 3, 5], np.float32).reshape(2, 2, 2)
ROWS = np.array([[1, 2], [4, 8]], np.float32)
LINE = f(1, 2, 3, 4).reshape(1, 1, 4)
EMPTY = np.zeros((0, 5), np.float32)
# Over axes 0 and 2: each of the two middle indices has its four numbers.
_A, _B = f(1, 2, 16, 32), f(4, 8, 3, 5)
NORMALIZED = np.stack([((v - v.mean()) / v.std()).reshape(2, 2) for v in (_A, _B)], axis=1)

CASES: dict[str, tuple[str, list[Any], int, dict[str, Any], Any]] = {
    "STFT of [batch, length]": (
        "STFT", [RAMP, np.array(2), None, np.array(2)], 17, {}, [[[[1, 0], [-1, 0]], [[5, 0], [-1, 0]]]],
    ),
    "PRelu with a slope of more dimensions": (
        "PRelu", [f(-1, 2), f(1, 2, 3, 4).reshape(2, 2)], 16, {}, [[-1, 2], [-3, 2]],
    ),
    "PRelu of 7, each broadcast": (
        "PRelu", [f(-1, -2).reshape(1, 2), f(1, 3).reshape(2, 1)], 7, {}, [[-1, -2], [-3, -6]],
    ),
    "MeanVarianceNormalization of rank 3": ("MeanVarianceNormalization", [CUBE], 13, {}, NORMALIZED),
    "MeanVarianceNormalization of rank 2": (
        "MeanVarianceNormalization", [f(1, 2, 3, 6).reshape(2, 2)], 9, {}, [[-1, -1], [1, 1]],
    ),
    "MeanVarianceNormalization with an axis too many": (
        "MeanVarianceNormalization", [CUBE], 13, {"axes": [1, 4]}, [[[-1, -1], [1, 1]], [[1, 1], [-1, -1]]],
    ),
    "Compress with a longer condition": ("Compress", [ROWS, np.array([0, 1, 1, 1], bool)], 13, {"axis": 0}, [[4, 8]]),
    "Compress flat with a longer condition": ("Compress", [ROWS, np.array([0, 1, 1, 0, 0, 1], bool)], 9, {}, [2, 4]),
    "Concat with nothing of other sizes": ("Concat", [ROWS, EMPTY], 13, {"axis": 0}, ROWS),
    "Concat that begins with nothing": ("Concat", [EMPTY, ROWS], 13, {"axis": 0}, ROWS),
    "Concat of nothing alone": ("Concat", [np.zeros((0, 3), np.float32), EMPTY], 13, {"axis": 0}, np.zeros((0, 3))),
    "Concat with nothing that has other lengths": (
        "Concat", [np.zeros((4, 0), np.float32), EMPTY], 13, {"axis": 0}, np.zeros((4, 0)),
    ),
    **{
        f"{name} of a larger window, strides {stride}": (
            name, [LINE], 14, {"kernel_shape": [5], "strides": [stride]}, np.full((1, 1, count), value),
        )
        for name, value in (("MaxPool", 4), ("AveragePool", 2.5), ("LpPool", 30**0.5))
        for stride, count in ((1, 0), (2, 1), (9, 1))
    },
}  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "opset", "attributes", "expected"), CASES.values(), ids=CASES)
def test_result(op_type: str, inputs: list[Any], opset: int, attributes: dict[str, Any], expected: Any) -> None:
    result = call(op_type, inputs, opset=opset, **attributes)
    first = result[0] if isinstance(result, tuple) else result
    assert_same(first, np.asarray(expected, np.float32), rtol=1e-5, atol=1e-5)
    assert_same(first, run_by_ort(op_type, inputs, opset, attributes, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("opset", [14, 22])
def test_windows_around_the_size_of_the_input(name: str, ceil_mode: int, opset: int) -> None:
    """A window too large by more than a stride is refused by both."""
    pytest.importorskip("onnxruntime")
    if name == "LpPool" and ceil_mode:
        pytest.skip("LpPool has no ceil_mode before 18, and ONNX Runtime no kernel of 22")
    for size in range(1, 5):
        x = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size)
        for window in range(size, size + 4):
            for stride in (1, 2, 3, 9):
                attributes: dict[str, Any] = {"kernel_shape": [window], "strides": [stride]}
                if ceil_mode:
                    attributes["ceil_mode"] = 1
                if window > size + stride:
                    with pytest.raises(KernelError, match="does not fit an axis"):
                        call(name, [x], opset=opset, **attributes)
                    continue
                result = call(name, [x], opset=opset, **attributes)
                first = result[0] if isinstance(result, tuple) else result
                assert_same(first, run_by_ort(name, [x], opset, attributes, 1), rtol=1e-5, atol=1e-5)


READ: dict[ElementType, dict[str, float]] = {
    ElementType.FLOAT: {
        "0x10": 16, "1.0f": 1, "1_000": 1, "1.0": 1, "1e2": 100, " 7": 7, "7 ": 7, "-0x10": -16, "1.5abc": 1.5,
        "1e": 1, "0x1p4": 16, "0x": 0, "1,5": 1, ".5": 0.5, "0x1.8": 1.5, "1e+": 1, "-inf": -np.inf,
        "Infinity": np.inf, "\t7": 7, "010": 10,
    },
    ElementType.INT64: {
        "0x10": 0, "1.0f": 1, "1_000": 1, "1.0": 1, " 7": 7, "7 ": 7, "1.5abc": 1, "-3.9": -3, "010": 10, "0x": 0,
        "9007199254740993": 2**53 + 1, "1e": 1,
    },
    ElementType.BOOL: {"0x10": 0, "1.0f": 1, "1_000": 1, "1.0": 1, "0": 0, "-1": 1},
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_texts_that_begin_with_a_number(kind: ElementType) -> None:
    given = texts(*READ[kind])
    result = call("Cast", [given], opset=13, to=int(kind))
    np.testing.assert_array_equal(result, np.array(list(READ[kind].values())).astype(kind.numpy_dtype))
    np.testing.assert_array_equal(result, run_by_ort("Cast", [given], 13, {"to": int(kind)}, int(kind)))


def test_a_decimal_text_is_truncated_as_the_specification_says() -> None:
    """ONNX Runtime stops before the exponent and refuses a point at the beginning."""
    assert call("Cast", [texts("1e2", ".5", "-2.5E1")], opset=13, to=7).tolist() == [100, 0, -25]


@pytest.mark.parametrize("to", [1, 7, 9])
@pytest.mark.parametrize("text", ["abc", "", "- 7", "\u0661", "_1", "True", "."])
def test_texts_that_begin_with_no_number_are_refused(text: str, to: int) -> None:
    with pytest.raises(KernelError, match="cannot be read as"):
        call("Cast", [texts(text)], opset=13, to=to)


def test_sizes_that_would_leave_memory_unwritten_are_refused() -> None:
    """ONNX Runtime leaves five rows of whatever was there."""
    with pytest.raises(KernelError, match="differ in more than axis 0"):
        call("Concat", [np.zeros((5, 0), np.float32), ROWS], opset=13, axis=0)


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_a_normalization_with_five_outputs_uses_batch_statistics(opset: int) -> None:
    """The running statistics follow; ONNX Runtime saves one over the deviation as the last, the variance here."""
    inputs = [f(1, 2, 3, 5).reshape(2, 2, 1), f(1, 2), f(0, 1), f(0.5, 1), f(1, 2)]
    results = call("BatchNormalization", inputs, opset=opset, outputs=5, epsilon=0.0)
    expected = [[[[-1], [-1]], [[1], [3]]], f(0.5, 1) * 0.9 + f(0.2, 0.35), f(0.9, 1.8) + f(0.1, 0.225), f(2, 3.5)]
    for ours, value in zip(results, [*expected, f(1, 2.25)], strict=True):
        assert_same(ours, np.asarray(value, np.float32), rtol=1e-5, atol=1e-5)
