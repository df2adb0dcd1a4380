"""Graphs made to hurt end in a named error, within their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnx_workbench.exec.engine import lowering
from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.engine.input_types import unforeseen
from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.registry import all_kernels
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.numpy_errors import in_plain_words
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import Progress
from tests.examples import examples
from tests.exec.test_backend_suite import node_cases, runtime_value
from tests.exec.texts import parse

LIMITS: dict[str, Any] = {"max_tensor": 64 << 20, "time_limit": 5.0}

load_kernels()
OPERATORS = sorted({(k.domain, k.op_type) for k in all_kernels()})

#: Values of every kind, none of which most operators want.
VALUES = [
    np.ones((2, 3), np.float32),
    np.zeros((0, 3), np.float32),
    np.array(-1, np.int64),
    np.array([2**40, -(2**40)], np.int64),
    np.array([3, 0, 2], np.int32),
    np.array(True),
    np.array(["a", "b"], object),
    np.full((1, 2, 3, 4), np.nan, np.float64),
    np.arange(6, dtype=np.uint8),
    np.ones((1, 1, 2, 2), np.float16),
    np.array([1 + 2j], np.complex64),
    [],
    [np.ones(2, np.float32), np.ones((3, 1), np.float32)],
    {"a": 1.0},
    None,
]
X = np.ones((2, 3), np.float32)
ATTRIBUTES: list[Any] = [0, -1, 2**62, 1.5, "text", [1, -3], [2**40], [0.5], np.ones(2, np.float32)]


def run_one(domain: str, op_type: str, inputs: list[Any], outputs: int, attributes: dict[str, Any]) -> Any:
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    made = {k: onnx.numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
    node = helper.make_node(op_type, names, [f"o{k}" for k in range(outputs)], domain=domain, **made)
    given_ = {n: v for n, v in zip(names, inputs, strict=True) if n}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_empty_tensor_value_info(n) for n in given_],
        [helper.make_empty_tensor_value_info(o) for o in node.output],
    )
    imports = [helper.make_opsetid(d, onnx.defs.onnx_opset_version() if not d else 5) for d in {"", domain}]
    model = load(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())
    return Session(model).run(given_, **LIMITS)


@pytest.mark.long
@settings(max_examples=examples(600))
@given(st.data())
def test_any_operator_with_any_values_ends_in_a_result(data: st.DataObject) -> None:
    """No kernel may crash, hang or take memory beyond the limit, whatever it gets."""
    domain, op_type = data.draw(st.sampled_from(OPERATORS))
    names = next(list(k.attributes) for k in all_kernels() if (k.domain, k.op_type) == (domain, op_type))
    inputs = [VALUES[i] for i in data.draw(st.lists(st.integers(0, len(VALUES) - 1), max_size=5))]
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
    attributes = {n: data.draw(st.sampled_from(ATTRIBUTES)) for n in chosen}
    result = run_one(domain, op_type, inputs, data.draw(st.integers(1, 3)), attributes)
    if not result.ok:
        assert result.stopped or result.failures[0].operator.endswith(op_type)


#: What a mutated case puts in place of a size, an index or a factor.
HOSTILE = [0, -1, 7, 30_000, 10**6, 2**31 - 1, 2**31, 2**33, 2**40, -(2**40), 2**62]


def mutated(data: st.DataObject, case: Any) -> tuple[onnx.ModelProto, list[Any]]:
    """A backend case with a number or two of its attributes and inputs made hostile."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.ClearField("shape") if info.type.HasField("tensor_type") else None
    feeds = [runtime_value(value) for value in case.data_sets[0][0]]
    attributes = [a for node in proto.graph.node for a in node.attribute if a.type in (1, 2, 6, 7)]
    small = [i for i, f in enumerate(feeds) if isinstance(f, np.ndarray) and f.dtype.kind in "iuf" and 0 < f.size <= 64]
    assume(attributes or small)
    for target in data.draw(st.lists(st.integers(0, len(attributes) + len(small) - 1), min_size=1, max_size=3)):
        number = data.draw(st.sampled_from(HOSTILE))
        if target >= len(attributes):
            place = small[target - len(attributes)]
            feeds[place] = feeds[place].copy()
            with np.errstate(all="ignore"):
                made = np.array(number).astype(feeds[place].dtype)
            feeds[place].flat[data.draw(st.integers(0, feeds[place].size - 1))] = made
            continue
        attribute = attributes[target]
        match attribute.type:
            case onnx.AttributeProto.FLOAT:
                attribute.f = number
            case onnx.AttributeProto.INT:
                attribute.i = number
            case onnx.AttributeProto.FLOATS if attribute.floats:
                attribute.floats[data.draw(st.integers(0, len(attribute.floats) - 1))] = number
            case onnx.AttributeProto.INTS if attribute.ints:
                attribute.ints[data.draw(st.integers(0, len(attribute.ints) - 1))] = number
    return proto, feeds


@pytest.mark.long
@settings(max_examples=examples(400))
@given(st.data())
def test_cases_with_hostile_numbers_end_in_a_result(data: st.DataObject) -> None:
    """Sizes, indices and factors beyond all measure end in a value or in an error that names them."""
    cases = node_cases()
    case = cases[data.draw(st.sampled_from(sorted(cases)))]
    try:
        proto, feeds = mutated(data, case)
        model = load(proto.SerializeToString())
        result = Session(model).run({v.name: f for v, f in zip(model.graph.inputs, feeds, strict=False)}, **LIMITS)
    except ModelError:
        return  # a feed of another type than declared
    for failure in result.failures:
        assert failure.operator
        assert failure.reason
        assert failure.kind != "MemoryError", failure
    assert result.ok or result.failures or result.stopped


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "reason"),
    [
        ("Mean", [np.ones(2, np.float32), None], {}, "input 1 (data_0) is left out; expected a value"),
        ("GlobalLpPool", [np.ones((1, 1, 2), np.int32)], {"p": 2**31}, "input 0 (X) is int32; expected"),
        ("ConstantOfShape", [np.array([0, 2**40, 2**40])], {}, "dimensions that no array can have"),
        ("MeanVarianceNormalization", [X], {"axes": [1, -1]}, "name the same axis of rank 2 twice"),
        ("LayerNormalization", [X, X], {"stash_type": 7}, "stash_type is 7 (int64); expected the number of a type"),
        ("RMSNormalization", [X, np.ones((3, 2, 3), np.float32)], {}, "shape [3, 2, 3] cannot be broadcast to [2, 3]"),
        ("LSTM", [np.ones((4, 1, 3), np.float32), np.ones((1, 8, 3), np.float32), np.float32(1)], {}, "R [], expected"),
        ("Exp", [[]], {}, "input 0 (input) is a sequence; expected"),
        ("Add", [X, {"a": 1.0}], {}, "input 1 (B) is a map; expected"),
        ("StringConcat", [np.array(["a", "b"], object), np.empty(0, object)], {}, "[2] and [0] cannot be broadcast"),
        ("ConvTranspose", [np.ones((1, 1, 2, 2), np.float32)] * 2, {"output_shape": [7]}, "expected 2 sizes"),
        (  # padding that strides skip, so that the output is small
            "Conv", [np.ones((1, 1, 2, 2), np.float32)] * 2, {"pads": [2**30, 0, 0, 0], "strides": [2**30, 1]},
            "over the limit of 67,108,864 bytes for a tensor",
        ),
        (
            "RoiAlign", [np.ones((1, 1, 0, 0), np.float32), np.ones((1, 4), np.float32), np.zeros(1, np.int64)], {},
            "expected (N, C, H, W) with H and W from 1",
        ),
        (
            "NonMaxSuppression", [np.ones((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32), np.zeros(0, int)], {},
            "max_output_boxes_per_class is int64[0]; expected one number",
        ),
        (
            "STFT", [np.ones((1, 9, 1), np.float32), np.array(2), np.ones((1, 4), np.float32)], {},
            "window has shape [1, 4]; expected [4]",
        ),
        (
            "RotaryEmbedding", [np.ones((2, 4, 3, 8), np.float32), *[np.ones((0, 3, 4), np.float32)] * 2], {},
            "has shape [0, 3, 4] per position, expected [2, 3, 4]",
        ),
        (
            "BatchNormalization", [np.ones((4, 3, 3), np.float32), *[np.ones(3, np.float32)] * 3, X], {},
            "scale, B, mean and var have shapes [3], [3], [3], [2, 3]; expected the same",
        ),
        (
            "LinearAttention", [np.ones((2, 4, 32), np.float32)] * 3 + [None] * 2 + [np.ones((2, 4, 2), np.float32)],
            {"q_num_heads": 4, "kv_num_heads": 4, "update_rule": "delta"},
            "beta has shape [2, 4, 2], expected [2, 4, 4]",
        ),
        ("ArgMax", [np.ones((2, 0), np.float32)], {"axis": 1}, "has no elements; expected one or more"),
        ("Softmax", [X], {"axis": 1.5}, "attribute 'axis' is FLOAT; expected INT"),
        ("MaxPool", [X], {"kernel_shape": [1.5]}, "attribute 'kernel_shape' is FLOATS; expected INTS"),
        ("Add", [X, np.ones(2, np.float32)], {}, "[2, 3] and [2] cannot be broadcast together; expected equal lengths"),
        ("PRelu", [X, np.ones(2, np.float32)], {}, "[2, 3] and [2] cannot be broadcast together; expected equal"),
        ("MatMul", [X, X], {}, "cannot be multiplied as matrices; expected […, N, K] and […, K, M]"),
        ("Reshape", [X, np.array([4])], {}, "cannot reshape 6 elements of shape [2, 3] to [4]"),
        ("Relu", [X, X], {}, "it has 2 inputs; expected at most 1 (X)"),
        ("RandomNormal", [X], {"shape": [1]}, "it has 1 input; expected none"),
        ("Add", [X], {}, "input 1 (B) is left out; expected a value"),
        (
            "ConvTranspose", [np.ones((1, 1, 4, 4), np.float32)] * 2 + [np.ones(4, np.float32)], {},
            "shape [1, 4, 7, 7] does not fit into [1, 1, 7, 7]; expected X of float, double",
        ),
    ],
)  # fmt: skip
def test_errors_say_what_was_expected(op_type: str, inputs: list[Any], attributes: dict[str, Any], reason: str) -> None:
    (failure,) = run_one("", op_type, inputs, 1, attributes).failures
    assert reason in failure.reason


def test_a_node_with_too_many_outputs_is_reported_with_both_counts() -> None:
    (failure,) = run_one("", "Relu", [X], 2, {}).failures
    assert failure.reason == "the node names 2 outputs; expected 1 at most"


TEXTS, COMPLEX = np.array(["a", "b"], object), np.ones(2, np.complex64)


@pytest.mark.parametrize(
    ("op_type", "inputs", "reason"),
    [
        ("Add", [TEXTS, TEXTS], "input 0 (A) is string; expected "),
        ("Max", [TEXTS, TEXTS], "input 0 (data_0) is string; expected "),
        ("Sum", [TEXTS, TEXTS], "input 0 (data_0) is string; expected float, double, float16 or bfloat16"),
        ("Less", [TEXTS, TEXTS], "input 0 (A) is string; expected "),
        ("Less", [COMPLEX, COMPLEX], "input 0 (A) is complex64; expected "),
        ("And", [COMPLEX, COMPLEX], "input 0 (A) is complex64; expected bool"),
        ("Not", [X], "input 0 (X) is float; expected bool"),
        ("Concat", [X, X > 0], "input 0 (inputs) is float and input 1 (inputs) bool; expected the same type"),
        ("ConcatFromSequence", [[TEXTS, COMPLEX]], "input 0 (input_sequence) is a sequence of several types; expected"),
    ],
)
def test_types_that_an_operator_does_not_take_are_refused(op_type: str, inputs: list[Any], reason: str) -> None:
    """Though numpy would compute something of them."""
    (failure,) = run_one("", op_type, inputs, 1, {"axis": 0} if op_type.startswith("Concat") else {}).failures
    assert reason in failure.reason


def test_errors_name_the_first_types_of_a_sequence() -> None:
    given = [[X, X[0], X[:, 0], X]]
    (failure,) = run_one("", "ConcatFromSequence", given, 1, {"axis": 0}).failures
    assert failure.inputs == ("i0: sequence of 4 (float[2,3], float[3], float[2], …)",)


def test_types_that_a_later_version_takes_are_computed() -> None:
    """Files in the wild have them, and other programs compute them."""
    model = parse("g (int64[2] x) => (int64[2] y) { y = Max(x, x) }", header='ir_version: 4, opset_import: ["": 7]')
    assert Session(model).run({"x": np.array([1, 2])}).values["y"].tolist() == [1, 2]


def test_types_are_looked_at_anew_when_what_is_given_has_others() -> None:
    session = Session(parse("g (x) => (y) { z = Identity (x) y = Add (z, z) }"))
    assert session.run({"x": X}).ok
    assert session.run({"x": X + 1}, fresh=True).ok
    assert session.run({"x": TEXTS}, fresh=True).failures[0].operator == "Add"
    assert session.run({"x": X}, fresh=True).ok


def test_types_are_looked_at_in_runs_with_breakpoints_too() -> None:
    session = Session(parse("g (string[2] x) => (string[2] y) { y = Add(x, x) }"))
    for stops in ([Breakpoint(condition="nan")], []):
        assert "input 0 (A) is string; expected" in session.run({"x": TEXTS}, breakpoints=stops).failures[0].reason


def test_types_are_looked_at_in_each_turn_of_a_loop() -> None:
    text = """g (float[2] x) => (float[2] y) {
      n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
      y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] a) => (bool k, bool[2] r) {
        k = Identity(c) s = Add(a, a) r = Cast <to = 9> (s) }>
    }"""
    inner = Session(parse(text)).run({"x": X[0, :2]}).failures[0].inner
    assert inner is not None
    assert inner.reason.startswith("input 0 (A) is bool; expected ")


def test_branches_of_no_columns_take_no_room() -> None:
    given = [np.zeros((2, 3, 4, 0), np.float32)]
    (failure,) = run_one("com.microsoft", "BranchwiseRMSNorm", given, 1, {"num_branches": 2**31 - 1}).failures
    assert "expected (…, C, H) or (…, C · H)" in failure.reason


def test_an_unforeseen_kernel_error_is_reported_with_attributes() -> None:
    report = unforeseen(ValueError("no room"), {"axis": 1, "pads": (0, 1), "value": X, "text": "a" * 99})
    expected = f"these inputs and attributes (axis 1, pads [0, 1], value float[2,3], text {'a' * 60}…) are"
    assert report == f"{expected} incompatible"
    assert unforeseen(KeyError(3), {}) == "these inputs are incompatible"


def _nothing(shape: tuple[int, ...]) -> Any:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("calculation", "meaning"),
    [
        (lambda: _nothing((2, 3)) + _nothing((4,)), "shapes [2, 3] and [4] do not fit each other"),
        (lambda: np.add(_nothing((2, 3)), 1, out=_nothing((3,))), "shape [2, 3] does not fit into [3]"),
        (lambda: _nothing((2,)).__setitem__(slice(None), _nothing((3,))), "shape [3] does not fit into [2]"),
        (lambda: _nothing((3,)).reshape(()), "3 elements were given where one is expected"),
        (lambda: _nothing((3,)).reshape(2, 2), "3 elements cannot take the shape [2, 2]"),
        (lambda: bool(_nothing((3,))), "several elements, or none, were given where one is expected"),
        (lambda: float(_nothing((3,))), "several elements, or none, were given where one is expected"),
        (lambda: _nothing((3,)).sum(1), "a value of rank 1 has no axis 1"),
        (lambda: _nothing((3,))[7], "index 7 is out of range for 3 elements"),
        (lambda: _nothing((2, 3)) @ _nothing((2, 3)), "the matrices do not fit each other"),
        (lambda: np.concatenate([_nothing((3,)), _nothing((3, 1))]), "shapes do not fit each other"),
        (lambda: np.concatenate([_nothing((3, 2)), _nothing((3, 1))]), "shapes do not fit each other"),
        (lambda: np.stack([_nothing((3, 2)), _nothing((3, 1))]), "shapes do not fit each other"),
        (lambda: len(_nothing(())), "a value has more or fewer axes or elements than expected"),
        (lambda: _nothing((2,))[0, 0], "a value has more or fewer axes or elements than expected"),
        (lambda: _nothing((2,)).shape[1], "a value has more or fewer axes or elements than expected"),
        (lambda: _nothing((2,)).transpose(0, 1), "a value has more or fewer axes or elements than expected"),
        (lambda: _nothing((0,)).max(), "a value has no elements"),
        (lambda: 1 // 0, "a size or a count is 0"),
        (lambda: _nothing((2, 2)).sum((0, 0)), "an axis is named twice"),
    ],
)
def test_what_numpy_says_is_reported_in_plain_words(calculation: Callable[[], Any], meaning: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError, ArithmeticError)) as caught:
        calculation()
    assert in_plain_words(caught.value) == meaning


def test_regions_without_channels_cost_nothing() -> None:
    inputs = [np.ones((1, 0, 4, 4), np.float32), np.ones((2, 4), np.float32), np.zeros(2, np.int64)]
    result = run_one("", "RoiAlign", inputs, 1, {"output_height": 2**33})
    assert result.values["o0"].shape == (2, 0, 2**33, 1)


@pytest.mark.parametrize(
    "text",
    [
        "y = Range(a, b, c)",
        "s = Concat <axis = 0> (b, b) y = ConstantOfShape(s)",
        "s = Concat <axis = 0> (b, b) y = Reshape(b, s)",
        "p = Concat <axis = 0> (b, b) y = Pad(b, p)",
        "r = Cast <to = 1> (b) y = Upsample(b, r)",
        "y = OneHot(b, b, b)",
        "y = Tile(b, b)",
        "y = RandomUniform <shape = [4611686018427387904, 4611686018427387904]> ()",
        "y = EyeLike <k = 4611686018427387904> (b)",
    ],
)
def test_huge_sizes_are_refused_with_the_node(text: str) -> None:
    values = "<int64 a = {0}, int64[1] b = {4611686018427387904}, int64 c = {1}>"
    result = Session(parse(f"g () => (float[N] y) {values} {{ {text} }}")).run(**LIMITS)
    assert not result.ok
    assert result.failures[0].reason


def test_a_loop_that_grows_its_value_ends_at_the_limit() -> None:
    text = """g (float[1000] x) => (float[N] y) {
      t = Constant <value = bool {1}> ()
      y = Loop ("", t, x) <body = b (int64 i, bool c, float[N] a) => (bool k, float[M] r) {
        k = Identity(c) r = Concat <axis = 0> (a, a) }>
    }"""
    result = Session(parse(text)).run({"x": np.ones(1000, np.float32)}, max_tensor=1 << 24, time_limit=20)
    assert result.failures[0].operator == "Loop"
    assert result.failures[0].kind == "LimitError"
    assert result.failures[0].inner is not None
    assert result.failures[0].inner.operator == "Concat"


BIG = np.ones((100, 100), np.float32)


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("Exp", [BIG]),
        ("Add", [BIG, BIG]),
        ("Where", [BIG > 0, BIG, BIG]),
        ("Relu", [BIG]),
        ("CumSum", [BIG, np.array(0)]),
        ("Softmax", [BIG]),
        ("SequenceConstruct", [BIG, BIG + 1]),
    ],
)
def test_results_over_the_limit_are_refused_whatever_makes_them(op_type: str, inputs: list[Any]) -> None:
    """Also those that are no larger than an input, which was over the limit when it came."""
    names = [f"i{k}" for k in range(len(inputs))]
    session = Session(parse(f"g ({', '.join(names)}) => (y) {{ y = {op_type} ({', '.join(names)}) }}"))
    feeds = dict(zip(names, inputs, strict=True))
    result = session.run(feeds, max_tensor=39_999)
    assert result.failures[0].kind == "LimitError"
    assert "over the limit of 39,999 bytes" in result.failures[0].reason
    assert not result.outputs
    assert session.run(feeds, max_tensor=1 << 20).ok


@pytest.mark.parametrize(
    "text", ["y = Identity(x)", "y = Transpose(x)", "s = Constant <value_ints = [-1]> () y = Reshape(x, s)"]
)
def test_views_of_an_input_over_the_limit_take_nothing(text: str) -> None:
    result = Session(parse(f"g (float[100, 100] x) => (float[N] y) {{ {text} }}")).run({"x": BIG}, max_tensor=39_999)
    assert result.ok


def test_results_over_the_limit_are_refused_in_bodies() -> None:
    text = """g (float[100, 100] x) => (float[N] y) {
      t = Constant <value = bool {1}> ()
      y = If (t) <then_branch = a () => (float[N] p) { p = Exp(x) }, else_branch = b () => (float[N] q) { q = Neg(x) }>
    }"""
    inner = Session(parse(text)).run({"x": BIG}, max_tensor=39_999).failures[0].inner
    assert inner is not None
    assert inner.kind == "LimitError"


@pytest.mark.parametrize(
    ("x", "first", "grow", "last"),
    [
        (np.array(["text"], object), "Identity", "r = StringConcat (a, a)", "StringConcat"),
        (BIG[0], "SequenceConstruct", "n = Exp (x) r = SequenceInsert (a, n)", "SequenceInsert"),
    ],
)
def test_loops_that_grow_texts_and_sequences_end_at_the_limit(
    x: np.ndarray[Any, Any], first: str, grow: str, last: str
) -> None:
    text = f"""g (x, t) => (y) {{
      s = {first} (x)
      y = Loop (, t, s) <body = b (i, c, a) => (k, r) {{ k = Identity (c) {grow} }}>
    }}"""
    inner = Session(parse(text)).run({"x": x, "t": np.array(True)}, max_tensor=1 << 16).failures[0].inner
    assert inner is not None
    assert inner.operator == last
    assert "over the limit of 65,536 bytes" in inner.reason


def test_deep_bodies_end_in_a_result() -> None:
    depth = 20  # the protobuf runtime reads hardly more
    body = f"y{depth} = Neg (x)"
    for level in range(depth - 1, -1, -1):
        branches = (
            f"then_branch = b () => (y{level + 1}) {{ {body} }}, else_branch = e () => (e) {{ e = Identity (x) }}"
        )
        body = f"y{level} = If (c) <{branches}>"
    result = Session(parse(f"g (float[1] x, bool c) => (y0) {{ {body} }}")).run(
        {"x": np.ones(1, np.float32), "c": np.array(True)}, **LIMITS
    )
    np.testing.assert_array_equal(result.values["y0"], [-1])


def growing(levels: int, *, in_bodies: bool) -> Model:
    """A model whose function calls another twice, which calls another twice, and so on; perhaps in a branch."""
    imports = 'opset_import: ["" : 21, "d" : 1]'
    bodies = ["y = Neg (x)"]
    for level in range(levels):
        calls = f"a = d.F{level} (x) y = d.F{level} (a)"
        branches = f"then_branch = b () => (y) {{ {calls} }}, else_branch = b () => (y) {{ {calls} }}"
        bodies.append(
            f"c = Constant <value_int = 1> () t = Cast <to = 9> (c) y = If (t) <{branches}>" if in_bodies else calls
        )
    functions = (f'<domain: "d", {imports}> F{n} (x) => (y) {{ {body} }}' for n, body in enumerate(bodies))
    text = f"g (float[1] x) => (float[1] y) {{ y = d.F{levels} (x) }} {' '.join(functions)}"
    return parse(text, header=f"ir_version: 10, {imports}")


@pytest.mark.parametrize("in_bodies", [False, True])
def test_calls_that_grow_without_measure_end_in_a_named_error(in_bodies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "MAX_EXPANDED", 2000)
    result = Session(growing(40, in_bodies=in_bodies)).run({"x": np.ones(1, np.float32)})
    assert not result.ok
    count = 2 * 4**40 - 1 if in_bodies else 2**40
    assert f"calls of functions expand to {count:,} nodes; expected at most 2,000" in str(result.failures[0])


@pytest.mark.long
@pytest.mark.parametrize(("levels", "in_bodies"), [(12, False), (6, True)])
def test_planning_respects_the_time_limit_and_cancellation(levels: int, in_bodies: bool) -> None:
    session, feeds = Session(growing(levels, in_bodies=in_bodies)), {"x": np.ones(1, np.float32)}
    late = session.run(feeds, time_limit=0.0)
    assert late.stopped == "time limit"
    assert not late.outputs
    progress = Progress()
    progress.cancel()
    assert session.run(feeds, progress=progress).stopped == "cancelled"
    assert session.run(feeds).outputs["y"].tolist() == [1.0]


def test_tensors_that_are_not_there_fail_where_they_are_read() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}>'
        " { y = Add(x, w) z = Neg(x) }"
    )
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.append(onnx.StringStringEntryProto(key="location", value="../../etc/passwd"))
    result = Session(load(proto.SerializeToString())).run({"x": np.ones(2, np.float32)})
    assert result.failures[0].operator == "Add"
    assert result.values["z"].tolist() == [-1, -1]
