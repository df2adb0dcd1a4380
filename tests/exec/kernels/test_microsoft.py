"""Operators of com.microsoft against ONNX Runtime on random data, and by hand where it has no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.session import Session
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.simplify.pipeline import simplify
from onnx_workbench.model.simplify.rules.standard_operators import STANDARD
from tests.exec.kernels.harness import assert_same, call, to_array
from tests.onnx_runtime import session_or_skip

MS = "com.microsoft"
RNG = np.random.default_rng(0)
F, U8, I8, I32, I64 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32, TensorProto.INT64


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Any:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def s(value: float) -> Any:
    return np.array(value, np.float32)


def z(value: int) -> Any:
    return np.array(value, np.uint8)


def zi(value: int) -> Any:
    return np.array(value, np.int8)


def texts(*values: Any) -> Any:
    return np.array(values, object)


def one_node(
    op_type: str, inputs: list[Any], types: list[int], domain: str, attributes: dict[str, Any], opset: int = 17
) -> tuple[ModelProto, dict[str, Any]]:
    """A model of one node and its feeds; a type of 0 leaves the output out."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    feeds = {n: v for n, v in zip(names, inputs, strict=True) if n}
    node = helper.make_node(op_type, names, [f"y{i}" if t else "" for i, t in enumerate(types)], domain=domain,
                            **attributes)  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, int(ElementType.from_numpy(v.dtype)), v.shape) for n, v in feeds.items()],
        [helper.make_tensor_value_info(f"y{i}", t, None) for i, t in enumerate(types) if t],
    )
    imports = (
        [helper.make_opsetid(domain, 1), helper.make_opsetid("", opset)] if domain else [helper.make_opsetid("", 1)]
    )
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def onnxruntime(op_type: str, inputs: list[Any], types: list[int], domain: str, attributes: dict[str, Any]) -> Any:
    """Outputs of one node."""
    model, feeds = one_node(op_type, inputs, types, domain, attributes)
    return [to_array(v) for v in session_or_skip(model).run(None, feeds)]


def ours(op_type: str, inputs: list[Any], outputs: int = 1, domain: str = MS, **attributes: Any) -> list[Any]:
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in attributes.items()}
    kernel = find(op_type, 1, domain)
    assert not kernel.takes_context
    with np.errstate(all="ignore"):
        result = kernel.function(*inputs, **given)
    found = list(result) if isinstance(result, tuple) else [result]
    assert len(found) >= outputs
    return found


X, ONES = f(2, 3, 8), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
IDS = RNG.integers(0, 5, (2, 3)).astype(np.int32)
PLACES = np.array([[0, 1, 2], [3, 4, 5]])
W, B = f(8, 24), f(24)
TEXTS = texts(["ab cd,ef", "x"], ["hello  world", ""])

# Operator, inputs, types of the outputs, attributes.
CASES: list[tuple[str, list[Any], list[int], dict[str, Any]]] = [
    ("Gelu", [X], [F], {}),
    ("FastGelu", [X, f(8)], [F], {}),
    ("FastGelu", [X], [F], {}),
    ("QuickGelu", [X], [F], {"alpha": 1.5}),
    ("BiasGelu", [X, f(8)], [F], {}),
    ("SkipLayerNormalization", [X, f(2, 3, 8), f(8), f(8), f(8)], [F, 0, 0, F], {}),
    ("SkipLayerNormalization", [X, f(3, 8), f(8)], [F], {"epsilon": 1e-5}),
    ("SkipSimplifiedLayerNormalization", [X, X, f(8)], [F, 0, 0, F], {"epsilon": 1e-5}),
    ("EmbedLayerNormalization", [IDS, IDS % 2, f(5, 8), f(6, 8), f(2, 8), f(8), f(8), ONES], [F, I32], {}),
    ("EmbedLayerNormalization", [IDS, None, f(5, 8), f(6, 8), None, f(8), f(8), None], [F, I32, F], {}),
    ("FusedMatMul", [f(2, 4, 3), f(2, 4, 5)], [F], {"transA": 1, "alpha": 0.5}),
    ("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], [F], {"transBatchA": 1}),
    ("FusedMatMul", [f(4, 2, 3), f(5, 2, 4)], [F], {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
    ("TransposeMatMul", [f(4, 3), f(4, 5)], [F], {"transA": 1}),
    ("FusedGemm", [f(3, 4), f(4, 5), f(5)], [F], {"activation": "Relu"}),
    ("FusedGemm", [f(3, 4), f(4, 5), f(5)], [F], {"activation": "LeakyRelu", "activation_alpha": 0.1}),
    ("FusedGemm", [f(3, 4), f(4, 5)], [F], {"activation": "Tanh"}),
    ("FusedConv", [f(1, 3, 5, 5), f(4, 3, 3, 3), f(4), f(1, 4, 5, 5)], [F], {"activation": "Relu", "pads": [1] * 4}),
    ("FusedConv", [f(1, 3, 5, 5), f(4, 3, 3, 3)], [F], {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    ("NhwcMaxPool", [u8(1, 5, 5, 3)], [U8], {"kernel_shape": [2, 2]}),
    ("ConvTransposeWithDynamicPads", [f(1, 3, 5, 5), f(3, 4, 3, 3), np.array([1, 1, 1, 1])], [F], {}),
    ("CDist", [f(4, 3), f(5, 3)], [F], {"metric": "euclidean"}),
    ("Attention", [X, W, B], [F], {"num_heads": 2}),
    ("Attention", [X, W, B], [F], {"num_heads": 2, "unidirectional": 1}),
    ("Attention", [X, W, B, ONES], [F], {"num_heads": 2, "scale": 0.3, "mask_filter_value": -1e4}),
    ("Attention", [X, W, B, i32(2, 3)], [F], {"num_heads": 2}),
    ("Attention", [X, W, B, i32(2, 3, 0, 1)], [F], {"num_heads": 2}),
    ("Attention", [X, W, B, RNG.integers(0, 2, (2, 3, 3)).astype(np.int32)], [F], {"num_heads": 2}),
    ("Attention", [X, W, B, None, f(2, 2, 2, 5, 4)], [F, F], {"num_heads": 2, "unidirectional": 1}),
    ("Attention", [X, f(8, 20), f(20)], [F], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]}),
    ("MultiHeadAttention", [X, f(2, 5, 8), f(2, 5, 8), B], [F], {"num_heads": 2}),
    ("MultiHeadAttention", [X, f(2, 5, 8), f(2, 5, 6)], [F], {"num_heads": 2}),
    ("MultiHeadAttention", [X, f(2, 3, 8), f(2, 3, 8), None, ONES], [F], {"num_heads": 2}),
    ("MultiHeadAttention", [X, X, X], [F], {"num_heads": 2, "unidirectional": 1}),
    ("MultiHeadAttention", [X, f(2, 2, 5, 4), f(2, 2, 5, 4)], [F], {"num_heads": 2}),
    (
        "MultiHeadAttention",
        [X, f(2, 3, 8), f(2, 3, 8), B, None, f(2, 2, 3, 7), f(2, 2, 4, 4), f(2, 2, 4, 4)],
        [F, F, F],
        {"num_heads": 2},
    ),
    *[
        ("RotaryEmbedding", [x, places, f(10, half), f(10, half)], [F], {"interleaved": interleaved, **more})
        for interleaved in (0, 1)
        for x, places, half, more in (
            (X, PLACES, 2, {}),
            (X, np.array([2]), 2, {}),
            (f(2, 2, 3, 4), PLACES, 2, {}),
            (X, PLACES, 1, {"num_heads": 2, "rotary_embedding_dim": 2}),
        )
    ],
    ("MatMulInteger16", [RNG.integers(-300, 300, n).astype(np.int16) for n in ((3, 4), (4, 5))], [I32], {}),
    ("MatMulIntegerToFloat", [u8(3, 4), i8(4, 5), s(0.1), f(5), z(100), i8(5), f(5)], [F], {}),
    ("DynamicQuantizeMatMul", [f(3, 4), i8(4, 5), s(0.1), zi(3), f(5)], [F], {}),
    ("QGemm", [u8(3, 4), s(0.1), z(100), i8(5, 4), s(0.1), zi(0), i32(1, -90, 3, 4, 5)], [F], {"transB": 1}),
    ("MatMulBnb4", [f(2, 32), u8(96), f(12)], [F], {"K": 32, "N": 6, "block_size": 16, "quant_type": 0}),
    ("MatMulBnb4", [f(2, 32), u8(96), f(12)], [F], {"K": 32, "N": 6, "block_size": 16, "quant_type": 1}),
    ("GatherBlockQuantized", [u8(5, 16), np.array([[1, 3]]), f(5, 2)], [F], {"block_size": 16}),
    ("GatherBlockQuantized", [u8(5, 16), np.array([[1, 3]]), f(5, 2), u8(5, 1)], [F], {"block_size": 16}),
    ("GatherBlockQuantized", [u8(5, 32), np.array([[1, 3]]), f(5, 2), u8(5, 2)], [F], {"block_size": 16, "bits": 8}),
    ("DequantizeLinear", [RNG.integers(0, 60000, (3, 4)).astype(np.uint16), s(0.02), np.uint16(100)], [F], {}),
    ("Pad", [f(2, 3), np.array([[0, 1, 2, 0]]), np.array([3.0], np.float32)], [F], {}),
    ("Unique", [np.array([3, 1, 3, 2], np.float32)], [F, I64, I64], {}),
    ("Trilu", [f(3, 4), np.array(1)], [F], {"upper": 0}),
    ("GatherND", [f(3, 4), np.array([[1, 2], [0, 0]])], [F], {}),
    ("ExpandDims", [f(3, 4), np.array(1, np.int32)], [F], {}),
    ("Range", [s(1), s(5)], [F], {}),
    ("UnfoldTensor", [f(3, 7)], [F], {"size": 3, "step": 2}),
    ("GridSample", [f(1, 2, 4, 4), f(1, 3, 3, 2)], [F], {}),
    *[
        (
            "CropAndResize",
            [f(2, 3, 6, 7), np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1.2, 1]], np.float32), i32(1, 0), i32(3, 4)],
            [F],
            {"mode": mode, "extrapolation_value": 7.0},
        )
        for mode in ("bilinear", "nearest")
    ],
    ("NGramRepeatBlock", [np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]), f(2, 6)], [F], {"ngram_size": 3}),
    *[
        ("MurmurHash3", [x], [I32], {"positive": 0, "seed": 42})
        for x in (i32(1, -5), np.array([1, -5]), s(1.5), texts("abc", "hello", "", "né"))
    ],
    *[
        ("Tokenizer", [TEXTS], [TensorProto.STRING], {"mark": mark, "mincharnum": 1, "pad_value": "#", **how})
        for mark in (0, 1)
        for how in (
            {"separators": [" "]},
            {"separators": [" ", ","]},
            {"separators": [""]},
            {"tokenexp": "[a-z]+"},
            {"tokenexp": "[a-z][a-z]+|,"},
        )
    ],
    (
        "Tokenizer",
        [TEXTS[0]],
        [TensorProto.STRING],
        {"mark": 0, "mincharnum": 2, "pad_value": "#", "separators": [" "]},
    ),
]


def label(value: Any) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.long
@pytest.mark.parametrize(("op_type", "inputs", "types", "attributes"), CASES, ids=label)
def test_agrees_with_onnxruntime(op_type: str, inputs: list[Any], types: list[int], attributes: Any) -> None:
    inputs = [None if v is None else np.asarray(v) for v in inputs]
    expected = onnxruntime(op_type, inputs, types, MS, attributes)
    found = [v for v, t in zip(ours(op_type, inputs, len(types), **attributes), types, strict=False) if t]
    for result, want in zip(found, expected, strict=True):
        assert_same(result, want, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("more", [[], [u8(6 * 3)], [f(18), None, f(6)], [None, np.repeat([2, 0, 1], 16)[:40]]])
def test_weights_of_few_bits_agree_with_onnxruntime(bits: int, more: list[Any]) -> None:
    codes = u8(6, 3, 16 * bits // 8)
    extra = [None if v is None else v.astype(np.int32) if v.dtype == np.int64 else v for v in more]
    if extra and extra[0] is not None and extra[0].dtype == np.uint8:
        extra[0] = extra[0][: 6 * -(-3 * bits // 8)]
    if bits == 8 and extra and (extra[0] is None or extra[0].dtype == np.float32):
        pytest.skip("ONNX Runtime takes neither real zero points nor groups with 8 bits")
    inputs = [f(2, 40), codes, f(18), *extra]
    sizes = {"K": 40, "N": 6, "bits": bits, "block_size": 16}
    (expected,) = onnxruntime("MatMulNBits", inputs, [F], MS, sizes)
    assert_same(ours("MatMulNBits", inputs, **sizes)[0], expected, rtol=1e-3, atol=1e-2)
    prepare = find("MatMulNBits", 1, MS).prepare
    assert prepare is not None
    run = prepare([None, *inputs[1:]], **sizes)
    assert run is not None
    assert_same(run(*inputs), ours("MatMulNBits", inputs, **sizes)[0])


A8, B8 = u8(3, 4), u8(3, 4)
QUANTIZED: list[tuple[str, list[Any], int, dict[str, Any]]] = [
    ("QLinearAdd", [A8, s(0.1), z(100), B8, s(0.05), z(30), s(0.2), z(20)], U8, {}),
    ("QLinearMul", [A8, s(0.1), z(100), B8, s(0.05), z(30), s(0.2), z(20)], U8, {}),
    ("QLinearSigmoid", [A8, s(0.1), z(100), s(1 / 256), z(0)], U8, {}),
    ("QLinearLeakyRelu", [i8(3, 4), s(0.1), zi(10), s(0.1), zi(1)], I8, {"alpha": 0.2}),
    ("QLinearSoftmax", [A8, s(0.1), z(100), s(1 / 256), z(0)], U8, {"opset": 13}),
    ("QLinearWhere", [A8 > 99, A8, s(0.1), z(100), B8, s(0.05), z(0), s(0.1), z(5)], U8, {}),
    ("QLinearConcat", [s(0.2), z(10), A8, s(0.1), z(100), B8, s(0.2), z(10)], U8, {"axis": 1}),
    ("QLinearGlobalAveragePool", [u8(2, 3, 4, 4), s(0.1), z(100), s(0.08), z(5)], U8, {}),
    ("QLinearGlobalAveragePool", [u8(2, 4, 4, 3), s(0.1), z(100), s(0.08), z(5)], U8, {"channels_last": 1}),
    ("QLinearAveragePool", [u8(2, 3, 4, 4), s(0.1), z(100), s(0.08), z(5)], U8,
     {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
    ("QLinearAveragePool", [u8(2, 4, 4, 3), s(0.1), z(100), s(0.08), z(5)], U8,
     {"kernel_shape": [2, 2], "channels_last": 1}),
    ("QLinearConv", [u8(2, 6, 6, 3), s(0.1), z(100), i8(4, 3, 3, 3), s(0.02), zi(0), s(0.3), z(5), i32(5, -9, 40, 0)],
     U8, {"channels_last": 1}),
    ("QGemm", [A8, s(0.1), z(100), i8(4, 3), s(0.1), zi(0), i32(1, 2, -300), s(0.5), z(100)], U8, {}),
    ("QuantizeLinear", [f(3, 4), np.array([0.1, 0.2, 0.3], np.float32), i8(3)], I8, {"axis": 0}),
    ("QuantizeLinear", [f(3, 4), s(0.02), np.uint16(100)], TensorProto.UINT16, {}),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "type_", "attributes"), QUANTIZED, ids=label)
def test_quantized_results_are_within_one_step(op_type: str, inputs: list[Any], type_: int, attributes: Any) -> None:
    inputs = [np.asarray(v) for v in inputs]
    (expected,) = onnxruntime(op_type, inputs, [type_], MS, attributes)
    (found,) = ours(op_type, inputs, **attributes)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


#: What there are rules for besides.
FUSED: list[tuple[str, list[Any], list[int], dict[str, Any]]] = [
    ("BiasSplitGelu", [X, f(8)], [F], {}),
    ("GemmFastGelu", [X, f(8, 4), f(4)], [F], {}),
    ("GemmFastGelu", [X, f(8, 4)], [F], {}),
    *[
        (name, [X, X, f(8), *[f(8) for _ in range(beta + bias)]], [F, 0, 0, F][:outputs], {})
        for name, beta in (("SkipLayerNormalization", 1), ("SkipSimplifiedLayerNormalization", 0))
        for bias in (0, 1)
        for outputs in (1, 4)
    ],
    ("EmbedLayerNormalization", [IDS, IDS % 2, f(5, 8), f(6, 8), f(2, 8), f(8), f(8)], [F, 0], {}),
    ("EmbedLayerNormalization", [IDS, None, f(5, 8), f(6, 8), None, f(8), f(8)], [F, 0], {}),
    *[
        ("FusedConv", [f(1, 3, 5, 5), f(4, 3, 3, 3), *more], [F], {"activation": name, "strides": [2, 2], **parameters})
        for more in ([], [f(4)])
        for name, parameters in (
            ("Relu", {}), ("Sigmoid", {}), ("Tanh", {}),
            ("HardSigmoid", {"activation_params": [0.2, 0.5]}),
            ("HardSigmoid", {"activation_params": [0.16666670143604279, 0.5]}),
            ("Clip", {"activation_params": [0.0, 6.0]}),
        )
    ],
    ("FusedGemm", [f(3, 4), f(4, 5), f(5)], [F], {"activation": "Sigmoid", "alpha": 0.5}),
    ("FusedMatMul", [f(3, 4), f(4, 5)], [F], {}),
    ("FusedMatMul", [f(2, 3, 4), f(4, 5)], [F], {"alpha": 0.5}),
    *[("FusedMatMul", [f(3, 4), f(*batch, 5, 4)], [F], {"alpha": 0.5, "transB": 1}) for batch in ((), (2,), (2, 3))],
    ("MultiHeadAttention", [X, X, X, None, None, f(2, 2, 3, 3)], [F], {"num_heads": 2}),
    ("MatMulIntegerToFloat", [u8(3, 4), i8(4, 5), s(0.1), f(5), z(100), i8(5)], [F], {}),
    ("DynamicQuantizeMatMul", [f(3, 4), i8(4, 5), s(0.1), zi(3)], [F], {}),
    ("GatedAdd", [X, X, f(2, 3, 1)], [F], {}),
    ("BiasAdd", [X, f(8), X], [F], {}),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("opset", "cases", "count"),
    [
        (23, [*CASES, *((name, inputs, [kind], attributes) for name, inputs, kind, attributes in QUANTIZED)], 33),
        (23, FUSED, len(FUSED)),
        (15, [case for case in CASES if "Gelu" in case[0]], 5),
    ],
    ids=["operators", "fused", "before Gelu"],
)
def test_standard_operators_compute_what_they_replace(opset: int, cases: list[Any], count: int) -> None:
    replaced = []
    for op_type, given, types, attributes in cases:
        inputs = [None if v is None else np.asarray(v) for v in given]
        proto, feeds = one_node(op_type, inputs, types, MS, attributes, opset)
        model = load(proto.SerializeToString())
        report = simplify(Document(model), [STANDARD])
        assert not report.failed
        if not report.applied:
            assert [refusal.place for refusal in report.refusals] == [*model.graph.nodes], op_type
            continue
        replaced.append(op_type)
        assert not [node for node in model.graph.nodes if node.domain], op_type
        expected = Session(load(proto.SerializeToString())).run(feeds)
        found = session_or_skip(to_bytes(model)).run(None, feeds)
        for result, want in zip(found, expected.outputs.values(), strict=True):
            step = float(want.dtype.kind in "iu")  # what is halfway between two codes may be rounded to the other
            assert (result.dtype, result.shape) == (want.dtype, want.shape), op_type
            np.testing.assert_allclose(result.astype(float), want.astype(float), 1e-4, max(1e-5, step), err_msg=op_type)
    assert len(replaced) == count, replaced


def test_quantized_attention_agrees_with_onnxruntime() -> None:
    inputs = [u8(2, 3, 8), i8(8, 24), f(24), s(0.02), s(0.02), None, z(128), zi(0)]
    (expected,) = onnxruntime("QAttention", inputs, [F], MS, {"num_heads": 2})
    assert_same(ours("QAttention", inputs, num_heads=2)[0], expected, rtol=1e-3, atol=1e-3)


def grouped(
    batch: int, steps: int, *, past: int = 0, lengths: tuple[int, ...], total: int, rotary: bool = False,
    packed: bool = False, extra: tuple[Any, ...] = (),
) -> list[Any]:  # fmt: skip
    """Inputs of GroupQueryAttention with 4 heads of 16 numbers over 2."""
    query = (
        [f(batch, steps, 128), None, None]
        if packed
        else [f(batch, steps, 64), f(batch, steps, 32), f(batch, steps, 32)]
    )
    cache = [f(batch, 2, past, 16), f(batch, 2, past, 16)] if past else [None, None]
    angles = [f(40, 8), f(40, 8)] if rotary else [None, None]
    inputs = [*query, *cache, i32(*(n - 1 for n in lengths)), i32(total), *angles, *extra]
    while inputs[-1] is None:
        inputs.pop()
    return inputs


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ({"batch": 2, "steps": 3, "lengths": (3, 3), "total": 3}, {}),
        ({"batch": 2, "steps": 3, "lengths": (3, 3), "total": 3, "rotary": True}, {"do_rotary": 1}),
        (
            {"batch": 2, "steps": 3, "lengths": (3, 3), "total": 3, "rotary": True, "packed": True},
            {"do_rotary": 1, "rotary_interleaved": 1},
        ),
        ({"batch": 2, "steps": 1, "past": 5, "lengths": (6, 6), "total": 6, "rotary": True}, {"do_rotary": 1}),
        ({"batch": 2, "steps": 1, "past": 5, "lengths": (4, 6), "total": 6, "rotary": True}, {"do_rotary": 1}),
        ({"batch": 2, "steps": 1, "past": 12, "lengths": (6, 6), "total": 6}, {}),
        ({"batch": 1, "steps": 3, "past": 5, "lengths": (8,), "total": 8, "rotary": True}, {"do_rotary": 1}),
        ({"batch": 1, "steps": 5, "lengths": (5,), "total": 5}, {"local_window_size": 2, "softcap": 5.0}),
        ({"batch": 1, "steps": 1, "past": 5, "lengths": (6,), "total": 6}, {"local_window_size": 2}),
        ({"batch": 1, "steps": 5, "lengths": (5,), "total": 5}, {"smooth_softmax": 1, "scale": 0.3}),
        ({"batch": 1, "steps": 5, "lengths": (5,), "total": 5, "extra": (None, None, f(4))}, {}),
        ({"batch": 1, "steps": 5, "lengths": (5,), "total": 5, "extra": (None, f(1, 4, 5, 5))}, {}),
    ],
)
def test_grouped_queries_agree_with_onnxruntime(given: dict[str, Any], attributes: dict[str, Any]) -> None:
    inputs = grouped(**given)
    sizes = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    expected = onnxruntime("GroupQueryAttention", inputs, [F, F, F], MS, sizes)
    for result, want in zip(ours("GroupQueryAttention", inputs, 3, **sizes), expected, strict=True):
        assert_same(result, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("reverse", 1), ("bidirectional", 2)])
@pytest.mark.parametrize("per_column", [False, True])
def test_quantized_lstm_agrees_with_onnxruntime(direction: str, count: int, per_column: bool) -> None:
    scales = (count, 12) if per_column else (count,)
    inputs = [
        f(4, 1, 5), i8(count, 5, 12), i8(count, 3, 12), f(count, 24), i32(3), f(count, 1, 3), f(count, 1, 3),
        f(count, 9), abs(f(*scales)) * 0.002, np.zeros(scales, np.int8), abs(f(*scales)) * 0.002,
        np.zeros(scales, np.int8),
    ]  # fmt: skip
    attributes = {"direction": direction, "hidden_size": 3}
    expected = onnxruntime("DynamicQuantizeLSTM", inputs, [F, F, F], MS, attributes)
    # A hidden state next to the border between two codes may fall to either side.
    for result, want in zip(ours("DynamicQuantizeLSTM", inputs, 3, **attributes), expected, strict=True):
        assert_same(result, want, rtol=5e-3, atol=5e-3)


@pytest.mark.long
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("batch", "hidden", "columns"), [(1, 3, 1), (1, 200, 800), (8, 256, 1), (8, 256, 1024)])
@pytest.mark.parametrize(("input_forget", "zero_point"), [(0, 0), (1, 3)])  # less 3, weights do not fit 8 bits
def test_the_fast_quantized_lstm_equals_the_plain_one(
    direction: str, batch: int, hidden: int, columns: int, input_forget: int, zero_point: int
) -> None:
    count = 2 if direction == "bidirectional" else 1
    scales = [np.full(count, 0.004, np.float32) if columns == 1 else 0.004 + abs(f(count, columns)) / 999] * 2
    zero = np.full(scales[0].shape, zero_point, np.int8)
    inputs = [
        f(5, batch, 7), i8(count, 7, 4 * hidden), i8(count, hidden, 4 * hidden), f(count, 8 * hidden), None,
        f(count, batch, hidden), f(count, batch, hidden), None, scales[0], zero, scales[1], zero,
    ]  # fmt: skip
    attributes = {"direction": direction, "hidden_size": hidden, "input_forget": input_forget}
    plain = ours("DynamicQuantizeLSTM", inputs, 3, **attributes, clip=1e9)
    prepare = find("DynamicQuantizeLSTM", 1, MS).prepare
    assert prepare is not None
    prepared = prepare((None, *inputs[1:]), **attributes)
    assert prepared is not None
    for results in (ours("DynamicQuantizeLSTM", inputs, 3, **attributes), prepared(*inputs)):
        for result, want in zip(results, plain, strict=True):
            assert_same(result, want, rtol=1e-5, atol=1e-6)


def test_the_quantized_lstm_equals_the_plain_one_on_nan_and_inf() -> None:
    x = f(5, 2, 7)
    x[2, 1, 3] = np.nan
    scale, zero = np.full(1, 0.004, np.float32), np.full(1, 3, np.int8)
    inputs = [x, i8(1, 7, 32), i8(1, 8, 32), f(1, 64), None, None, None, None, scale, zero, scale, zero]
    plain = ours("DynamicQuantizeLSTM", inputs, 3, clip=1e9)
    for result, want in zip(ours("DynamicQuantizeLSTM", inputs, 3), plain, strict=True):
        assert_same(result, want, rtol=1e-5, atol=1e-6)


PICTURE = f(1, 3, 6, 6)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("SimplifiedLayerNormalization", [X, f(8)], {}),
        ("LayerNormalization", [X, f(8), f(8)], {}),
        ("Affine", [PICTURE], {"alpha": 2.0, "beta": 1.0}),
        ("ScaledTanh", [PICTURE], {"alpha": 2.0, "beta": 0.5}),
        ("ParametricSoftplus", [PICTURE], {"alpha": 2.0, "beta": 0.5}),
        ("ThresholdedRelu", [PICTURE], {"alpha": 0.3}),
        ("ImageScaler", [PICTURE], {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
        ("Crop", [PICTURE], {"border": [1, 2, 0, 1]}),
        ("Crop", [PICTURE], {"border": [1, 2, 0, 0], "scale": [2, 3]}),
        ("Scale", [PICTURE], {"scale": 3.0}),
        ("DynamicSlice", [PICTURE, np.array([1]), np.array([3]), np.array([1])], {}),
    ],
    ids=label,
)
def test_operators_of_the_default_domain_agree_with_onnxruntime(
    op_type: str, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    expected = onnxruntime(op_type, inputs, [F], "", attributes)
    assert_same(ours(op_type, inputs, domain="", **attributes)[0], expected[0], rtol=1e-4, atol=1e-5)


def test_optional_inputs_before_required_ones_may_be_omitted() -> None:
    inputs = {"x": A8, "s": s(0.5), "y": s(0.25)}
    node = helper.make_node("QLinearSigmoid", ["x", "s", "", "y"], ["out"], domain=MS)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, int(ElementType.from_numpy(v.dtype)), v.shape) for n, v in inputs.items()],
        [helper.make_tensor_value_info("out", U8, None)],
    )
    imports = [helper.make_opsetid(MS, 1), helper.make_opsetid("", 17)]
    result = Session(load(helper.make_model(graph, opset_imports=imports).SerializeToString())).run(inputs)
    assert_same(result.values["out"], ours("QLinearSigmoid", [A8, s(0.5), None, s(0.25)])[0])
    graph.node[0].input[1] = ""
    result = Session(load(helper.make_model(graph, opset_imports=imports).SerializeToString())).run(inputs)
    assert not result.ok


# --- what ONNX Runtime runs on a GPU alone ---------------------------------------------------------------------


def test_packed_heads_are_the_same_attention() -> None:
    parts = [f(2, 3, 2, 4) for _ in range(3)]
    flat = [p.reshape(2, 3, 8) for p in parts]
    expected = ours("MultiHeadAttention", flat, num_heads=2)[0]
    assert_same(ours("MultiHeadAttention", [np.stack(parts, 3)], num_heads=2)[0], expected)
    assert_same(ours("MultiHeadAttention", [flat[0], np.stack(parts[1:], 3)], num_heads=2)[0], expected)


def test_packed_tokens_attend_within_their_sequence() -> None:
    q, k, v = (f(5, 8) for _ in range(3))
    offsets, ends = np.array([[0, 1, 2], [3, 4, 5]], np.int32), i32(0, 2, 5)
    bias = f(24)
    found = ours("PackedMultiHeadAttention", [q, k, v, bias, offsets, ends], num_heads=2)[0]
    for rows in (slice(0, 2), slice(2, 5)):
        alone = ours("MultiHeadAttention", [q[None, rows], k[None, rows], v[None, rows], bias], num_heads=2)[0]
        assert_same(found[rows], alone[0], rtol=1e-4, atol=1e-5)
    one = np.stack([x.reshape(5, 2, 4) for x in (q, k, v)], 2)
    assert_same(ours("PackedMultiHeadAttention", [one, None, None, bias, offsets, ends], num_heads=2)[0], found)
    x = f(5, 8)
    found = ours("PackedAttention", [x, W, B, offsets, ends], num_heads=2)[0]
    assert_same(found[2:], ours("Attention", [x[None, 2:], W, B], num_heads=2)[0][0], rtol=1e-4, atol=1e-5)
    with pytest.raises(KernelError):
        ours("PackedAttention", [x, W, B, offsets, i32(0, 2, 9)], num_heads=2)


@pytest.mark.parametrize(
    ("activation", "more"),
    [
        ("relu", {}),
        ("gelu", {"k": 2}),
        ("silu", {"k": 2, "normalize_routing_weights": 1}),
        ("identity", {"k": 4}),
        ("swiglu", {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}),
    ],
)
def test_mixtures_of_experts_agree_with_onnxruntime(activation: str, more: dict[str, Any]) -> None:
    width = 32 if activation == "swiglu" else 16
    inputs = [f(2, 3, 8), f(6, 4), f(4, width, 8), f(4, width), f(4, 8, 16), f(4, 8)]
    attributes = {"activation_type": activation, **more}
    (expected,) = onnxruntime("MoE", inputs, [F], MS, attributes)
    assert_same(ours("MoE", inputs, **attributes)[0], expected, rtol=1e-4, atol=1e-4)


def test_separate_gates_are_the_fused_ones() -> None:
    x, router, gate, linear, out = f(6, 8), f(6, 4), f(4, 16, 8), f(4, 16, 8), f(4, 8, 16)
    swiglu = {"activation_type": "swiglu", "activation_alpha": 1.5, "activation_beta": 0.5}
    separate = ours("MoE", [x, router, gate, None, out, None, linear], **swiglu)[0]
    joined = np.concatenate([gate, linear], 1)
    assert_same(ours("MoE", [x, router, joined, None, out], swiglu_fusion=2, **swiglu)[0], separate, atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [None, 16])
def test_quantized_experts_agree_with_onnxruntime(bits: int, block: int | None) -> None:
    blocks = (2,) if block else ()
    inputs = [
        f(6, 32), f(6, 4), u8(4, 32, 4 * bits), abs(f(4, 32, *blocks)) * 0.01, None, u8(4, 32, 4 * bits),
        abs(f(4, 32, *blocks)) * 0.01,
    ]  # fmt: skip
    attributes = {"k": 2, "activation_type": "silu", "expert_weight_bits": bits}
    if block:
        attributes["block_size"] = block
    (expected,) = onnxruntime("QMoE", inputs, [F], MS, attributes)
    assert_same(ours("QMoE", inputs, **attributes)[0], expected, rtol=2e-3, atol=2e-3)


def test_group_norm_is_that_of_the_standard_with_channels_last() -> None:
    x, gamma, beta = f(2, 4, 4, 8), f(8), f(8)
    expected = call("GroupNormalization", [x.transpose(0, 3, 1, 2), gamma, beta], opset=21, num_groups=2)
    assert_same(ours("GroupNorm", [x, gamma, beta], groups=2, activation=0)[0], expected.transpose(0, 2, 3, 1))
    with_skip = ours("SkipGroupNorm", [x, gamma, beta, x], 2, groups=2, activation=1)
    total = ours("GroupNorm", [2 * x, gamma, beta], groups=2, activation=1)[0]
    assert_same(with_skip[0], total)
    assert_same(with_skip[1], 2 * x)


def test_fourier_transforms_invert_each_other() -> None:
    x = f(3, 8)
    transformed = ours("Rfft", [x])[0]
    assert_same(transformed[..., 0], np.fft.rfft(x).real.astype(np.float32), atol=1e-5)
    assert_same(ours("Irfft", [transformed], signal_ndim=1)[0], x, atol=1e-5)


def test_complex_products() -> None:
    a, b = f(3, 2), f(3, 2)
    product = (a[:, 0] + 1j * a[:, 1]) * (b[:, 0] - 1j * b[:, 1])
    assert_same(ours("ComplexMulConj", [a, b])[0], np.stack([product.real, product.imag], 1), atol=1e-5)


def test_padding_removed_can_be_restored() -> None:
    x = f(3, 4, 2)
    x[0, 2:] = x[2, 1:] = 0
    tokens, offsets, ends, largest = ours("RemovePadding", [x, i32(2, 4, 1)], 4)
    assert (len(tokens), ends.tolist(), largest.tolist()) == (7, [0, 2, 6, 7], [4])
    assert_same(ours("RestorePadding", [tokens, offsets])[0], x)


def test_relative_positions_fall_into_the_buckets_of_t5() -> None:
    table = np.arange(32, dtype=np.float32)[:, None]
    bias = ours("RelativePositionBias", [table, np.array([1]), np.array([200])], max_distance=128, is_bidirectional=1)
    row = bias[0][0, 0, 0].tolist()
    assert row[:9] == [0, 17, 18, 19, 20, 21, 22, 23, 24]  # keys ahead: the upper half
    assert row[-1] == 31
    assert row == sorted(row)


def test_inverse_and_integers() -> None:
    x = f(2, 3, 3)
    np.testing.assert_allclose(x @ ours("Inverse", [x])[0], np.broadcast_to(np.eye(3), x.shape), atol=1e-4)
    assert ours("ReduceSumInteger", [np.full((2, 300), 255, np.uint8)], axes=[1], keepdims=0)[0].tolist() == [76500] * 2
    assert ours("MulInteger", [u8(1) * 0 + 9, z(10), u8(1) * 0 + 250, z(0)])[0].tolist() == [-250]
    assert not ours("IsAllFinite", [s(1), s(np.nan)])[0]
    assert ours("IsAllFinite", [s(1), s(np.nan)], isinf_only=1)[0]


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("Attention", [X, W, B], {"num_heads": 7}),
        ("Attention", [X, W[:, :20], B[:20]], {"num_heads": 2}),
        ("Attention", [X, W, B, i32(1)], {"num_heads": 2}),
        ("Attention", [X, W, B], {"num_heads": 0}),
        ("MultiHeadAttention", [X], {"num_heads": 2}),
        ("GroupQueryAttention", [X, X, X, None, None, i32(-1, 2), i32(3)], {"num_heads": 2, "kv_num_heads": 2}),
        ("GroupQueryAttention", [X, X, X, None, None, i32(9, 9), i32(4)], {"num_heads": 2, "kv_num_heads": 2}),
        ("GroupQueryAttention", [X, X, X], {"num_heads": 2, "kv_num_heads": 2}),
        ("RotaryEmbedding", [X, PLACES + 9, f(10, 2), f(10, 2)], {}),
        ("RotaryEmbedding", [X, PLACES, f(10, 9), f(10, 9)], {}),
        ("FusedGemm", [f(2, 2), f(2, 2)], {"activation": "Boom"}),
        ("MatMulNBits", [f(2, 40), u8(3), f(18)], {"K": 40, "N": 6, "block_size": 16}),
        ("MatMulNBits", [f(2, 40), u8(6, 3, 8), f(18)], {"K": 2**40, "N": 6, "block_size": 16}),
        ("MatMulNBits", [f(2, 40), u8(6, 3, 8), f(18)], {"K": 40, "N": 6, "block_size": 0}),
        ("MatMulBnb4", [f(2, 32), u8(9), f(12)], {"K": 32, "N": 6, "block_size": 16, "quant_type": 0}),
        ("MatMulBnb4", [f(2, 32), u8(96), f(12)], {"K": 32, "N": 6, "block_size": 16, "quant_type": 5}),
        ("BiasSplitGelu", [f(2, 3), f(3)], {}),
        ("CropAndResize", [f(2, 3, 6, 7), f(2, 4), i32(9, 9), i32(3, 4)], {}),
        ("NGramRepeatBlock", [np.array([[9, 9, 9]]), f(1, 3)], {"ngram_size": 2}),
        ("Irfft", [f(3)], {"signal_ndim": 1}),
        ("Rfft", [f(3)], {"signal_ndim": 2}),
        ("Inverse", [np.zeros((2, 2), np.float32)], {}),
        ("MurmurHash3", [np.zeros(2, np.int8)], {}),
        ("Tokenizer", [TEXTS], {"mark": 0, "mincharnum": 1, "pad_value": ""}),
        ("Tokenizer", [f(2)], {"mark": 0, "mincharnum": 1, "pad_value": "", "separators": (" ",)}),
        ("Tokenizer", [TEXTS], {"mark": 0, "mincharnum": 1, "pad_value": "", "tokenexp": "(?=a)"}),
        ("QLinearConcat", [s(1), z(1), A8], {"axis": 0}),
        ("MoE", [f(6, 8), f(6, 4), f(4, 16, 9), None, f(4, 8, 16)], {}),
        ("MoE", [f(6, 8), f(6, 4), f(4, 16, 8), None, f(4, 8, 16)], {"k": 5}),
        ("QMoE", [f(6, 8), f(6, 4), u8(4, 16, 4), f(4, 16), None, u8(4, 8, 8), f(4, 8)], {"expert_weight_bits": 3}),
        ("UnfoldTensor", [f(3)], {"size": 9}),
    ],
    ids=label,
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        ours(op_type, inputs, 0, **attributes)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("depth", "columns"), [(64, 3), (40, 5), (100, 33), (5, 2)])
def test_four_bit_blobs_multiply_like_onnxruntime(kind: int, depth: int, columns: int) -> None:
    blocks = RNG.integers(0, 256, (columns, -(-depth // 32), 20 + kind)).astype(np.uint8)
    blocks[..., :4] = f(*blocks.shape[:2], 1).view(np.uint8)
    blocks[..., 4 : 4 + kind] &= 15
    a, sizes = f(2, 7, depth), np.array([depth, columns])
    expected = fp_q4_of_onnxruntime(a, blocks.reshape(-1), sizes, kind)
    found = ours("MatMulFpQ4", [a, blocks.reshape(-1), sizes], blk_quant_type=kind)[0]
    assert_same(found, expected, rtol=1e-4, atol=1e-4)


def fp_q4_of_onnxruntime(a: Any, blob: Any, sizes: Any, kind: int) -> Any:
    """What ONNX Runtime gives, which wants the matrix as a constant."""
    node = helper.make_node("MatMulFpQ4", ["a", "b", "s"], ["y"], domain=MS, blk_quant_type=kind)
    constants = [helper.make_tensor("b", U8, blob.shape, blob), helper.make_tensor("s", I64, [2], sizes)]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("a", F, a.shape)], [helper.make_tensor_value_info("y", F, None)],
        constants,
    )  # fmt: skip
    imports = [helper.make_opsetid(MS, 1), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return session_or_skip(model).run(None, {"a": a})[0]


@pytest.mark.parametrize(
    ("blob", "sizes", "kind"),
    [(u8(40), [64, 1], 1), (u8(42), [64, 1], 0), (u8(42), [1 << 40, 1 << 20], 1), (u8(0), [0, 4], 1),
     (u8(42), [64], 1), (u8(72), [64, 1], 2)],
)  # fmt: skip
def test_a_blob_of_another_size_is_refused(blob: Any, sizes: list[int], kind: int) -> None:
    with pytest.raises(KernelError, match="expected"):
        ours("MatMulFpQ4", [f(1, 64), blob, np.array(sizes)], blk_quant_type=kind)


@pytest.mark.parametrize("matrices", [np.ones((2, 3), np.float32), np.ones((2, 2), np.float32), np.ones(2, np.float32)])
def test_what_has_no_inverse_is_refused_with_what_is_expected(matrices: Any) -> None:
    with pytest.raises(KernelError, match="expected square matrices in the last two axes, none of them singular"):
        ours("Inverse", [matrices])
