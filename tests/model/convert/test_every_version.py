"""Every version of every standard operator, its defaults left out, computes the same in the newest operator set."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_workbench.exec.session import Session
from onnx_workbench.model.checks.models import check_model
from onnx_workbench.model.convert import convert_opset
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.fuzz.generator import ir_version as ir_version_of

NEWEST = onnx.defs.onnx_opset_version()
HISTORY: dict[str, list[int]] = {}
for _schema in onnx.defs.get_all_schemas_with_history():
    if _schema.domain == "" and not _schema.deprecated:
        HISTORY.setdefault(_schema.name, []).append(_schema.since_version)


def floats(*shape, seed=0):
    """Numbers between 0 and 1, for which every function here is defined."""
    return (np.random.default_rng(seed).random(shape) * 0.8 + 0.1).astype(np.float32)


def whole(*numbers, dtype=np.int64):
    return np.array(numbers, dtype)


def recurrent(gates):
    return lambda _version: ([floats(4, 2, 3), floats(1, gates * 3, 3), floats(1, gates * 3, 3)], {"hidden_size": 3}, 2)


def from_version(since, before, after):
    """Inputs and attributes, of which some became inputs with a version."""
    return lambda version: before if version < since else after


def tensor(array):
    return numpy_helper.from_array(array, "t")


def body(text):
    return onnx.parser.parse_graph(text)


def _normalization(version):
    statistics = [floats(3, seed=i) for i in range(4)]
    training = {"is_test": 1} if version < 7 else {}
    return [floats(2, 3, 4, 4), *statistics], training | ({"consumed_inputs": [0, 0, 0, 1, 1]} if version < 6 else {})


def _dropout(version):
    return [floats(2, 3)], {"is_test": 1} if version < 7 else {}


def _upsample(version):
    if version < 7:
        return [floats(1, 2, 3, 4)], {"height_scale": 1.0, "width_scale": 2.0, "mode": "bilinear"}
    scales = np.array([1, 1, 1, 2], np.float32)
    return ([floats(1, 2, 3, 4)], {"scales": scales.tolist()}) if version < 9 else ([floats(1, 2, 3, 4), scales], {})


def _split(version):
    if version < 2:
        return [floats(4, 3), np.array([1, 3], np.float32)], {}, 2
    return [floats(4, 3)], {"num_outputs": 2} if version >= 18 else {}, 2


def _pad(version):
    if version < 2:
        return [floats(2, 3)], {"paddings": [0, 1, 1, 0]}
    return ([floats(2, 3)], {"pads": [0, 1, 1, 0]}) if version < 11 else ([floats(2, 3), whole(0, 1, 1, 0)], {})


def _group_normalization(version):
    size = 2 if version < 21 else 4
    return [floats(1, 4, 3), floats(size), floats(size, seed=1)], {"num_groups": 2}


PICTURE = np.arange(18, dtype=np.uint8).reshape(1, 2, 3, 3)

#: Inputs, required attributes and the number of outputs, where they are not one array of each rank.
SAMPLES = {
    "BatchNormalization": _normalization,
    "Dropout": _dropout,
    "Upsample": _upsample,
    "Split": _split,
    "Pad": _pad,
    "GroupNormalization": _group_normalization,
    "Cast": lambda v: ([floats(2, 3) * 9], {"to": "INT32" if v < 6 else TensorProto.INT32}),
    "CastLike": lambda _v: ([floats(2, 3) * 9, whole(1)], {}),
    "BitCast": lambda _v: ([floats(2, 3)], {"to": TensorProto.INT32}),
    "Constant": lambda _v: ([], {"value": tensor(floats(2, 3))}),
    "ConstantOfShape": lambda _v: ([whole(2, 3)], {}),
    "Concat": lambda v: ([floats(2, 3, 4), floats(2, 3, 4, seed=1)], {"axis": 1} if v >= 4 else {}),
    "Reshape": from_version(5, ([floats(2, 3)], {"shape": [3, 2]}), ([floats(2, 3), whole(3, 2)], {})),
    "Expand": lambda _v: ([floats(1, 3), whole(2, 3)], {}),
    "Tile": from_version(6, ([floats(2, 3), np.float32(2), np.float32(1)], {}), ([floats(2, 3), whole(1, 2)], {})),
    "Slice": from_version(
        10, ([floats(4, 3)], {"starts": [1], "ends": [3]}), ([floats(4, 3), whole(1), whole(3)], {})
    ),
    "TopK": from_version(10, ([floats(2, 5)], {"k": 2}, 2), ([floats(2, 5), whole(2)], {}, 2)),
    "Squeeze": from_version(13, ([floats(1, 3, 1)], {"axes": [0]}), ([floats(1, 3, 1)], {})),
    "Unsqueeze": from_version(13, ([floats(2, 3)], {"axes": [1]}), ([floats(2, 3), whole(1)], {})),
    "Gather": lambda _v: ([floats(3, 4), whole(2, 0)], {}),
    "GatherElements": lambda _v: ([floats(2, 3), np.array([[1, 0, 1]])], {}),
    "GatherND": lambda _v: ([floats(2, 3), np.array([[1, 0]])], {}),
    "Scatter": lambda _v: ([floats(2, 3), np.array([[1, 0, 1]]), floats(1, 3, seed=1)], {}),
    "ScatterElements": lambda _v: ([floats(2, 3), np.array([[1, 0, 1]]), floats(1, 3, seed=1)], {}),
    "ScatterND": lambda _v: ([floats(2, 3), np.array([[1, 0]]), floats(1, seed=1)], {}),
    "TensorScatter": lambda _v: ([floats(2, 4, 3), floats(2, 2, 3, seed=1)], {}),
    "OneHot": lambda _v: ([whole(0, 2), whole(3), np.array([0, 1], np.float32)], {}),
    "EyeLike": lambda _v: ([floats(3, 3)], {}),
    "NonZero": lambda _v: ([floats(2, 3) > 0.5], {}),
    "Compress": lambda _v: ([floats(2, 3), np.array([True, False])], {}),
    "Where": lambda _v: ([floats(2, 3) > 0.5, floats(2, 3), floats(2, 3, seed=1)], {}),
    "Range": lambda _v: ([np.int64(1), np.int64(7), np.int64(2)], {}),
    "CumSum": lambda _v: ([floats(2, 3), np.int64(1)], {}),
    "CumProd": lambda _v: ([floats(2, 3), np.int64(1)], {}),
    "ReverseSequence": lambda _v: ([floats(4, 3), whole(1, 2, 4)], {}),
    "DepthToSpace": lambda _v: ([floats(1, 8, 2, 3)], {"blocksize": 2}),
    "SpaceToDepth": lambda _v: ([floats(1, 2, 4, 6)], {"blocksize": 2}),
    "Trilu": lambda _v: ([floats(3, 4)], {}),
    "Unique": lambda _v: ([whole(3, 1, 3, 2)], {}),
    "CenterCropPad": lambda _v: ([floats(4, 3), whole(2, 5)], {}),
    "Col2Im": lambda _v: ([floats(1, 4, 4), whole(3, 3), whole(2, 2)], {}),
    "Celu": lambda _v: ([floats(2, 3)], {}),  # of a scalar, the body in the specification makes one axis
    "MatMul": lambda _v: ([floats(2, 3), floats(3, 4)], {}),
    "Gemm": lambda _v: ([floats(2, 3), floats(3, 4), floats(2, 4, seed=1)], {}),
    "Einsum": lambda _v: ([floats(2, 3), floats(3, 4)], {"equation": "ij,jk->ik"}),
    "Det": lambda _v: ([floats(2, 3, 3)], {}),
    "MatMulInteger": lambda _v: ([whole(1, 2, dtype=np.uint8)[None], whole(3, 4, dtype=np.uint8)[:, None]], {}),
    "QLinearMatMul": lambda _v: ([
        np.array([[1, 200]], np.uint8), np.float32(0.5), np.uint8(3), np.array([[9], [4]], np.uint8), np.float32(0.25),
        np.uint8(1), np.float32(2), np.uint8(7)], {}),
    "ConvInteger": lambda _v: ([PICTURE, np.ones((1, 2, 2, 2), np.uint8)], {}),
    "QLinearConv": lambda _v: ([
        PICTURE, np.float32(0.5), np.uint8(3), np.ones((1, 2, 2, 2), np.uint8), np.float32(0.25),
        np.uint8(0), np.float32(2), np.uint8(7)], {}),
    "QuantizeLinear": lambda _v: ([floats(2, 3) * 9, np.float32(0.1), np.uint8(2)], {}),
    "DequantizeLinear": lambda _v: ([np.arange(6, dtype=np.uint8).reshape(2, 3), np.float32(0.1), np.uint8(2)], {}),
    "DynamicQuantizeLinear": lambda _v: ([floats(2, 3)], {}, 3),
    "Conv": lambda _v: ([floats(1, 2, 5, 5), floats(3, 2, 3, 3)], {}),
    "ConvTranspose": lambda _v: ([floats(1, 2, 3, 3), floats(2, 3, 3, 3)], {}),
    "DeformConv": lambda _v: ([floats(1, 1, 3, 3), floats(1, 1, 2, 2), floats(1, 8, 2, 2)], {}),
    "AveragePool": lambda _v: ([floats(1, 2, 5, 5)], {"kernel_shape": [2, 3]}),
    "MaxPool": lambda _v: ([floats(1, 2, 5, 5)], {"kernel_shape": [2, 3]}),
    "LpPool": lambda _v: ([floats(1, 2, 5, 5)], {"kernel_shape": [2, 3]}),
    "MaxRoiPool": lambda _v: ([floats(1, 2, 5, 5), np.array([[0, 0, 0, 3, 3]], np.float32)], {"pooled_shape": [2, 2]}),
    "MaxUnpool": lambda _v: ([floats(1, 1, 2, 2), whole(0, 3, 9, 14).reshape(1, 1, 2, 2)], {
        "kernel_shape": [2, 2], "strides": [2, 2]}),
    "GlobalAveragePool": lambda _v: ([floats(1, 2, 5, 5)], {}),
    "GlobalMaxPool": lambda _v: ([floats(1, 2, 5, 5)], {}),
    "GlobalLpPool": lambda _v: ([floats(1, 2, 5, 5)], {}),
    "LRN": lambda _v: ([floats(1, 5, 2, 2)], {"size": 3}),
    "InstanceNormalization": lambda _v: ([floats(2, 3, 4), floats(3), floats(3, seed=1)], {}),
    "MeanVarianceNormalization": lambda _v: ([floats(2, 3, 4, 4)], {}),
    "LayerNormalization": lambda _v: ([floats(2, 3, 4), floats(4)], {}),
    "RMSNormalization": lambda _v: ([floats(2, 3, 4), floats(4)], {}),
    "Attention": lambda _v: ([floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4, seed=1)], {}),
    "LinearAttention": lambda _v: ([floats(1, 3, 8), floats(1, 3, 8), floats(1, 3, 8, seed=1)], {
        "q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}, 2),
    "CausalConvWithState": lambda _v: ([floats(1, 2, 5), floats(2, 1, 3)], {}, 2),
    "RotaryEmbedding": lambda _v: ([floats(1, 2, 3, 4), floats(1, 3, 2), floats(1, 3, 2, seed=1)], {}),
    "PRelu": lambda _v: ([floats(2, 3, 4) - 0.5, floats(1)], {}),
    "RNN": recurrent(1), "GRU": recurrent(3), "LSTM": recurrent(4),
    "Resize": lambda v: ([floats(1, 1, 4, 4), np.array([1, 1, 2, 1.5], np.float32)] if v < 11 else
                         [floats(1, 1, 4, 4), np.zeros(0, np.float32), np.array([1, 1, 2, 1.5], np.float32)], {}),
    "GridSample": lambda _v: ([floats(1, 1, 4, 4), floats(1, 2, 2, 2)], {}),
    "AffineGrid": lambda _v: ([floats(2, 2, 3), whole(2, 1, 3, 4)], {}),
    "RoiAlign": lambda _v: ([floats(1, 2, 6, 6), np.array([[1, 1, 4, 4]], np.float32), whole(0)], {}),
    "NonMaxSuppression": lambda _v: ([floats(1, 4, 4), floats(1, 1, 4), np.int64(3)], {}),
    "BitShift": lambda _v: ([whole(1, 2, dtype=np.uint8), whole(2, 1, dtype=np.uint8)], {"direction": "LEFT"}),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), lambda _v: ([whole(5, 6), whole(3, 12)], {})),
    "BitwiseNot": lambda _v: ([whole(5, 6)], {}),
    **dict.fromkeys(("And", "Or", "Xor"), lambda _v: ([floats(2, 3) > 0.5, floats(2, 3, seed=1) > 0.5], {})),
    "Not": lambda _v: ([floats(2, 3) > 0.5], {}),
    "Equal": lambda _v: ([whole(1, 2), whole(1, 3)], {}),
    "Mod": lambda _v: ([whole(5, -6), whole(3, 4)], {}),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), lambda _v: ([np.int64(8)], {})),
    "MelWeightMatrix": lambda _v: ([np.int64(8), np.int64(16), np.int64(8192), np.float32(0), np.float32(4096)], {}),
    "DFT": lambda _v: ([floats(2, 8, 1)], {}),
    "STFT": lambda _v: ([floats(1, 16, 1), np.int64(4), np.ones(8, np.float32)], {}),
    "NegativeLogLikelihoodLoss": lambda _v: ([floats(3, 4), whole(0, 3, 1)], {}),
    "SoftmaxCrossEntropyLoss": lambda _v: ([floats(3, 4), whole(0, 3, 1)], {}),
    "StringNormalizer": lambda _v: ([np.array(["Ab", "c"], object)], {}),
    "StringConcat": lambda _v: ([np.array(["Ab", "c"], object), np.array(["x"], object)], {}),
    "StringSplit": lambda _v: ([np.array(["a b", "c"], object)], {}, 2),
    "RegexFullMatch": lambda _v: ([np.array(["ab", "c"], object)], {"pattern": "a."}),
    "TfIdfVectorizer": lambda _v: ([whole(1, 2, 3, dtype=np.int32)], {
        "mode": "TF", "ngram_counts": [0], "ngram_indexes": [0, 1], "max_skip_count": 0, "min_gram_length": 1,
        "max_gram_length": 1, "pool_int64s": [1, 3]}),
    "If": lambda _v: ([np.array(True)], {
        "then_branch": body("t () => (float[2] a) { a = Constant <value = float[2] {1.0, 2.0}> () }"),
        "else_branch": body("e () => (float[2] b) { b = Constant <value = float[2] {3.0, 4.0}> () }")}),
}  # fmt: skip
#: Random, of sequences or of files: what they compute is not compared from version to version here.
LEFT_OUT = {
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    "ImageDecoder", "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap",
    "SplitToSequence", "Loop", "Scan", "FlexAttention",
}  # fmt: skip

CASES = [
    (op_type, version)
    for op_type, versions in sorted(HISTORY.items())
    for version in sorted(versions)
    if op_type not in LEFT_OUT and version < NEWEST
]


def samples(op_type, version):
    """Inputs, attributes and number of outputs of nodes without what may be left out; of each rank for most."""
    sample = SAMPLES.get(op_type)
    if sample is not None:
        found = sample(version)
        yield (*found, 1)[:3]
        return
    schema = onnx.defs.get_schema(op_type, version, "")
    count = max(schema.min_input, 1)
    for rank in range(5) if set(schema.attributes) - {"consumed_inputs"} else (2,):
        yield [floats(*(2, 3, 4, 2)[:rank], seed=i) for i in range(count)], {}, 1


def model_of(op_type, version, inputs, attributes, count, results=None):
    """A model of one node, whose outputs are of the types of `results`. The first input is fed, others are constants:

    initializers, or of old models, in which these are inputs too, Constants where they may be.
    """
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(count)], **attributes)
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names, inputs, strict=True)]
    declared = [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    ir_version = ir_version_of(version)
    nodes = [node]
    if ir_version < 4:
        numbers = [t for t in tensors[1:] if t.data_type == TensorProto.FLOAT]
        nodes[:0] = [helper.make_node("Constant", [], [t.name], value=t) for t in numbers]
        tensors = [t for t in tensors if t not in numbers]
    kept = {t.name for t in tensors[: 1 if ir_version >= 4 else None]}
    outputs = [info(name, None if results is None else results[name]) for name in node.output]
    graph = helper.make_graph(nodes, "g", [v for v in declared if v.name in kept], outputs, tensors[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=ir_version)


def info(name, array):
    if array is None:
        return onnx.ValueInfoProto(name=name)
    kind = TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def run(model, feeds):
    result = Session(model).run(feeds, values="outputs")
    assert result.ok, result.failures
    return result.outputs


def results(op_type, version):
    """The bytes of models of one node that run, with feeds and what they compute."""
    for inputs, attributes, count in samples(op_type, version):
        sample = op_type, version, inputs, attributes, count
        feeds = {"x0": np.asarray(inputs[0])} if inputs else {}
        try:
            expected = run(load(model_of(*sample).SerializeToString()), feeds)
        except (AssertionError, ModelError):
            continue  # of a rank that the operator does not take
        data = model_of(*sample, expected).SerializeToString()
        onnx.checker.check_model(data)
        assert not problems(load(data))
        yield data, feeds, expected


def is_sound(data):
    """Whether shape inference agrees with what is declared: the executor takes a little more."""
    try:
        onnx.checker.check_model(data, full_check=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def converted(data, version):
    document = Document(load(data))
    with document.edit("Convert") as edit:
        convert_opset(edit, version)
    content = to_bytes(document.model)
    onnx.checker.check_model(content)
    assert is_sound(content) or not is_sound(data)
    found = load(content)
    assert not problems(found)
    return found


@pytest.mark.parametrize(("op_type", "version"), CASES)
def test_a_node_of_each_version_computes_the_same_in_later_ones(op_type, version):
    checked = 0
    for data, feeds, expected in results(op_type, version):
        for newer in {min(v for v in (*HISTORY[op_type], NEWEST) if v > version), NEWEST}:
            assert_same(run(converted(data, newer), feeds), expected, f"in version {newer}")
            checked += 1
    assert checked


@pytest.mark.parametrize(("op_type", "version"), [case for case in CASES if case[1] > 1])
def test_each_version_converts_down_to_the_same_or_is_refused(op_type, version):
    for data, feeds, expected in results(op_type, version):
        try:
            found = converted(data, version - 1)
        except ModelError:
            continue
        assert_same(run(found, feeds), expected, f"in version {version - 1}")


def problems(model):
    return [problem for problem in check_model(model) if problem.severity != "info"]


def assert_same(found, expected, message):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), message
        if array.dtype.kind == "f":
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=message)
        else:
            np.testing.assert_array_equal(found[name], array, err_msg=message)
