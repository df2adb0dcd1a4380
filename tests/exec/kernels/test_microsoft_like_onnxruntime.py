"""Choices that the descriptions of com.microsoft leave open are made as ONNX Runtime makes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.exec.kernels.harness import call, ort_one_node

onnxruntime = pytest.importorskip("onnxruntime")
MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


#: Every activation of the standard's that FusedGemm may name, and its parameters.
ACTIVATIONS = [
    ("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("Softplus", {}), ("Softsign", {}), ("Elu", {"alpha": 0.3}),
    ("LeakyRelu", {"alpha": 0.2}), ("ThresholdedRelu", {"alpha": 0.4}), ("Selu", {"alpha": 1.2, "gamma": 0.7}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Celu", {"alpha": 0.5}), ("Gelu", {}), ("HardSwish", {}),
    ("Mish", {}),
]  # fmt: skip
#: Those that ONNX Runtime computes in this node.
KNOWN = {
    "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu",
}  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), ACTIVATIONS, ids=[name for name, _ in ACTIVATIONS])
def test_fused_activations_are_the_standard_operators(name: str, parameters: dict[str, float]) -> None:
    a, b = floats(4, 5), floats(5, 6)
    attributes = {f"activation_{key}": value for key, value in parameters.items()}
    found = call("FusedGemm", [a, b], opset=1, domain=MICROSOFT, activation=name, **attributes)
    opset = 20 if name in ("Gelu", "HardSwish", "Mish") else 12
    np.testing.assert_allclose(found, call(name, [a @ b], opset=opset, **parameters), rtol=1e-5, atol=1e-6)
    if name in KNOWN:
        (expected,) = ort_one_node("FusedGemm", [a, b], opset=1, domain=MICROSOFT, activation=name, **attributes)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    product = call("FusedMatMulActivation", [a, b], opset=1, domain=MICROSOFT, activation=name, **attributes)
    np.testing.assert_allclose(product, found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("Relu", ()), ("LeakyRelu", (0.2,)), ("HardSigmoid", (0.3, 0.4)), ("Clip", (-0.1, 0.6)), ("Tanh", ())],
)
def test_fused_convolutions_take_parameters_in_order(name: str, parameters: tuple[float, ...]) -> None:
    x, w = floats(1, 2, 5, 5), floats(3, 2, 3, 3)
    attributes: dict[str, Any] = {"activation": name} | ({"activation_params": parameters} if parameters else {})
    (expected,) = ort_one_node("FusedConv", [x, w], opset=1, domain=MICROSOFT, **attributes)
    found = call("FusedConv", [x, w], opset=1, domain=MICROSOFT, **attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_an_unknown_activation_is_refused_with_what_there_is() -> None:
    with pytest.raises(KernelError, match=r"'Foo'; expected one of Celu, Clip, Elu"):
        call("FusedGemm", [floats(2, 2), floats(2, 2)], opset=1, domain=MICROSOFT, activation="Foo")


@pytest.mark.parametrize("zeros", [False, True])
def test_blocks_may_be_gathered_along_their_own_axis(zeros: bool) -> None:
    data = RNG.integers(0, 16, (3, 40)).astype(ml_dtypes.uint4)
    indices, scales = np.array([[0, 20, 39], [-1, 16, 15]], np.int64), np.abs(floats(3, 3))
    more = [RNG.integers(0, 16, (3, 3)).astype(ml_dtypes.uint4)] if zeros else []
    attributes = {"gather_axis": 1, "quantize_axis": 1, "block_size": 16}
    given = {"d": data, "s": scales} | ({"z": more[0]} if zeros else {})
    names = ["d", "i", "s", *(["z"] if zeros else [])]
    expected, found = of_constants("GatherBlockQuantized", names, given, {"i": indices}, **attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads"),
    [((1, 1, 5), (2,), (2,), (0, 0)), ((1, 2, 6, 6), (4, 4), (3, 3), (1, 1, 2, 2)), ((1, 1, 9), (3,), (4,), (1, 1))],
)
def test_quantized_means_of_windows_that_reach_beyond_the_padding(
    shape: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...], include: int
) -> None:
    inputs = [RNG.integers(0, 256, shape).astype(np.uint8), np.float32(0.5), np.uint8(3), np.float32(0.5), np.uint8(3)]
    attributes = {
        "ceil_mode": 1, "count_include_pad": include, "kernel_shape": kernel, "strides": strides, "pads": pads,
    }  # fmt: skip
    (expected,) = ort_one_node("QLinearAveragePool", inputs, opset=1, domain=MICROSOFT, **attributes)
    found = call("QLinearAveragePool", inputs, opset=1, domain=MICROSOFT, **attributes)
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= 1, "but for the rounding of ties"


def of_constants(
    op_type: str, names: list[str], given: dict[str, Any], feeds: dict[str, Any], **attributes: Any
) -> Any:
    """What ONNX Runtime and ours give for one node of com.microsoft with constant inputs; both, where equal."""
    node = helper.make_node(op_type, names, ["y"], domain=MICROSOFT, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(x, name) for name, x in given.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    return expected, Session(load(model)).run(feeds).values["y"]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("depth", "block"), [(64, 32), (80, 16)])
def test_rows_are_rounded_to_bytes_where_less_accuracy_is_allowed(
    depth: int, block: int, bits: int, zeros: bool
) -> None:
    blocks = -(-depth // block)
    given = {
        "b": RNG.integers(0, 256, (8, blocks, block * bits // 8)).astype(np.uint8),
        "s": RNG.random((8, blocks)).astype(np.float32),
    }
    if zeros:
        given["z"] = RNG.integers(0, 256, (8, -(-blocks * bits // 8))).astype(np.uint8)
    a = floats(3, depth)
    a[1, :block] = 0
    attributes = {"K": depth, "N": 8, "bits": bits, "block_size": block}
    names = ["a", *given]
    expected, found = of_constants("MatMulNBits", names, given, {"a": a}, accuracy_level=4, **attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    _, exact = of_constants("MatMulNBits", names, given, {"a": a}, **attributes)
    assert np.abs(exact - found).max() > 0.01, "the plain product is another"


@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul", "QLinearAveragePool"])
def test_halves_are_rounded_after_the_zero_point_is_added(op: str, zero: int) -> None:
    """(10 + 21) / 2 + 1 is 16.5: to even it is 16, where 15.5 rounded first would give 17."""
    x, other = (RNG.integers(0, 100, (1, 2, 3, 4)).astype(np.uint8) for _ in range(2))
    one, two = np.float32([1, 2])
    z, y = np.uint8([0, zero])
    inputs, given = [x, one, z, other, np.float32(0.5), z, two, y], {}
    if op == "QLinearAveragePool":
        inputs, given = [x, one, z, one, y], {"kernel_shape": [1, 2]}
    (expected,) = ort_one_node(op, inputs, opset=1, domain=MICROSOFT, **given)
    np.testing.assert_array_equal(call(op, inputs, opset=1, domain=MICROSOFT, **given), expected)
