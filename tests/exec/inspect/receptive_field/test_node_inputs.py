"""What reaches an element, compared with what the kernels do: an element that is NaN shows exactly where it reaches."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.inspect.receptive_field.indices import ElementReach, EvaluatedNode
from onnx_workbench.exec.inspect.receptive_field.node_inputs import reach
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.session import Session
from onnx_workbench.model.history.steps import InsertNode, SetField, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from tests.examples import examples

Case = tuple[str, dict[str, Any], list[Any], int]

F = np.float32


def numbers(*shape: int) -> Any:
    """Different positive numbers."""
    count = int(np.prod(shape))
    return (np.random.default_rng(count).permutation(count).reshape(shape) + 1).astype(F)


def whole(*values: int) -> Any:
    """An int64 tensor."""
    return np.array(values, np.int64)


CASES: list[Case] = [
    ("Add", {}, [numbers(2, 3, 4), numbers(3, 1)], 1),
    ("Where", {}, [np.ones((2, 1), bool), numbers(2, 3), numbers(1, 3)], 1),
    ("Relu", {}, [numbers(3, 4)], 1),
    ("Conv", {"pads": [1, 1, 1, 1], "strides": [2, 2]}, [numbers(1, 2, 7, 6), numbers(3, 2, 3, 3), numbers(3)], 1),
    ("Conv", {"dilations": [2, 1], "group": 2, "pads": [2, 0, 1, 1]}, [numbers(2, 4, 8, 6), numbers(6, 2, 3, 2)], 1),
    ("Conv", {"group": 3, "pads": [1, 1, 1, 1]}, [numbers(1, 3, 8, 6), numbers(3, 1, 3, 3)], 1),
    ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2]}, [numbers(1, 1, 8), numbers(1, 1, 3)], 1),
    ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2]}, [numbers(1, 1, 8), numbers(1, 1, 3)], 1),
    ("ConvTranspose", {"strides": [2, 2], "pads": [1, 1, 1, 1]}, [numbers(1, 2, 4, 4), numbers(2, 3, 3, 3)], 1),
    ("ConvTranspose", {"strides": [3], "group": 2, "output_padding": [1]}, [numbers(1, 4, 3), numbers(4, 2, 2)], 1),
    ("AveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}, [numbers(1, 2, 6, 5)], 1),
    ("GlobalAveragePool", {}, [numbers(2, 3, 4, 4)], 1),
    ("MatMul", {}, [numbers(2, 1, 3, 4), numbers(5, 4, 2)], 1),
    ("MatMul", {}, [numbers(4), numbers(3, 4, 2)], 1),
    ("MatMul", {}, [numbers(3, 4), numbers(4)], 1),
    ("Gemm", {"transA": 1, "transB": 1}, [numbers(4, 3), numbers(5, 4), numbers(5)], 1),
    ("ReduceSum", {"keepdims": 0}, [numbers(2, 3, 4), whole(1)], 1),
    ("ReduceMean", {"axes": [0, 2]}, [numbers(2, 3, 4)], 1),
    ("ReduceMax", {}, [numbers(2, 3)], 1),
    ("Softmax", {"axis": 1}, [numbers(2, 3, 4)], 1),
    ("DequantizeLinear", {"axis": 0}, [np.ones((3, 3), np.int8), numbers(3), np.zeros(3, np.int8)], 1),
    ("DequantizeLinear", {}, [np.ones((3, 3), np.int8), F(2)], 1),
    ("CastLike", {}, [numbers(2, 3), numbers(2, 3)], 1),
    ("LayerNormalization", {"axis": -1}, [numbers(2, 3, 4), numbers(4), numbers(4)], 1),
    ("InstanceNormalization", {}, [numbers(2, 3, 4), numbers(3), numbers(3)], 1),
    ("BatchNormalization", {}, [numbers(2, 3, 4), numbers(3), numbers(3), numbers(3), numbers(3)], 1),
    ("CumSum", {"exclusive": 1, "reverse": 1}, [numbers(2, 4), np.array(1, np.int64)], 1),
    ("CumSum", {}, [numbers(2, 4), np.array(0, np.int64)], 1),
    ("Reshape", {}, [numbers(2, 6), whole(3, -1)], 1),
    ("Transpose", {"perm": [2, 0, 1]}, [numbers(2, 3, 4)], 1),
    ("Concat", {"axis": 1}, [numbers(2, 3), numbers(2, 1), numbers(2, 2)], 1),
    ("Split", {"axis": 1, "num_outputs": 2}, [numbers(2, 5)], 2),
    ("Slice", {}, [numbers(6, 5), whole(-1, 1), whole(-7, 9), whole(0, 1), whole(-2, 2)], 1),
    ("Pad", {"mode": "reflect"}, [numbers(3, 4), whole(1, 2, 1, 2)], 1),
    ("Pad", {"mode": "edge"}, [numbers(3, 4), whole(1, 2, 1, 2)], 1),
    ("Pad", {"mode": "constant"}, [numbers(3, 4), whole(1, 2, 1, 2), F(7)], 1),
    ("Tile", {}, [numbers(2, 3), whole(2, 2)], 1),
    ("Expand", {}, [numbers(3, 1), whole(2, 3, 4)], 1),
    ("Gather", {"axis": 1}, [numbers(2, 5, 3), np.array([[0, -1], [3, 3]], np.int64)], 1),
    ("GatherElements", {"axis": 1}, [numbers(2, 3), np.array([[2, 0], [1, -1]], np.int64)], 1),
    ("GatherND", {}, [numbers(2, 3, 4), np.array([[0, 1], [1, 2]], np.int64)], 1),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, [numbers(1, 8, 2, 3)], 1),
    ("DepthToSpace", {"blocksize": 2}, [numbers(1, 8, 2, 3)], 1),
    ("SpaceToDepth", {"blocksize": 2}, [numbers(1, 2, 4, 6)], 1),
    ("SpaceToDepth", {"blocksize": 2, "mode": "CRD"}, [numbers(1, 3, 4, 6)], 1),
    ("BatchNormalization", {"training_mode": 1}, [numbers(2, 3, 4), numbers(3), numbers(3), numbers(3), numbers(3)], 1),
    ("GroupNormalization", {"num_groups": 2}, [numbers(2, 4, 3), numbers(2), numbers(2)], 1),
    ("MeanVarianceNormalization", {}, [numbers(2, 3, 2, 2)], 1),
    ("LpNormalization", {"axis": 1}, [numbers(2, 3, 2)], 1),
    ("LRN", {"size": 3}, [numbers(1, 6, 2, 2)], 1),
    ("LRN", {"size": 4}, [numbers(1, 6, 2, 2)], 1),
    ("Einsum", {"equation": "bij,bjk->bik"}, [numbers(2, 2, 3), numbers(2, 3, 2)], 1),
    ("Einsum", {"equation": "...ij,kj"}, [numbers(2, 2, 3), numbers(2, 3)], 1),
    ("Einsum", {"equation": "ii->i"}, [numbers(3, 3)], 1),
    ("Trilu", {}, [numbers(2, 4, 4), np.array(1, np.int64)], 1),
    ("Trilu", {"upper": 0}, [numbers(4, 3)], 1),
    ("ReverseSequence", {"time_axis": 0, "batch_axis": 1}, [numbers(4, 3), whole(4, 2, 1)], 1),
    ("Compress", {"axis": 1}, [numbers(2, 4), np.array([False, True, False, True])], 1),
    ("Compress", {}, [numbers(2, 2), np.array([False, True, True])], 1),
    ("OneHot", {"axis": 0}, [whole(2, -1, 0), whole(3), numbers(2)], 1),
    ("ScatterElements", {"axis": 1}, [numbers(2, 4), np.array([[1, -1]], np.int64), numbers(1, 2)], 1),
    ("ScatterElements", {"reduction": "add"}, [numbers(3, 2), np.array([[1, 0], [1, 2]], np.int64), numbers(2, 2)], 1),
    ("ScatterND", {}, [numbers(3, 4), np.array([[2], [-3]], np.int64), numbers(2, 4)], 1),
    ("ScatterND", {"reduction": "mul"}, [numbers(3, 2), np.array([[2, 1], [2, 1]], np.int64), numbers(2)], 1),
    ("Resize", {}, [numbers(1, 2, 3, 4), np.zeros(0, F), np.zeros(0, F), whole(1, 2, 6, 9)], 1),
    ("Resize", {"mode": "linear"}, [numbers(1, 1, 3, 4), np.zeros(0, F), np.zeros(0, F), whole(1, 1, 6, 7)], 1),
]


def run_node(op_type: str, attributes: dict[str, Any], inputs: list[Any], outputs: int, version: int) -> list[Any]:
    """The outputs of one node."""
    result = session_of(op_type, attributes, inputs, outputs, version).run(fed(inputs))
    result.raise_for_failure()
    return [result.values[f"o{i}"] for i in range(outputs)]


def fed(inputs: list[Any]) -> dict[str, Any]:
    """What `session_of` calls its inputs."""
    return {f"i{position}": array for position, array in enumerate(inputs)}


def session_of(
    op_type: str, attributes: dict[str, Any], inputs: list[Any], outputs: int, version: int, domain: str = ""
) -> Session:
    """A model of one node."""
    graph = Graph()
    values = []
    for position, array in enumerate(inputs):
        values.append(Value(f"i{position}", TensorType(ElementType.from_numpy(np.asarray(array).dtype)), graph))
    SetGraphInputs(graph, tuple(values)).apply()
    made = tuple(Value(f"o{i}", None, graph) for i in range(outputs))
    given = {k: make_attribute(k, v) for k, v in attributes.items()}
    InsertNode(graph, Node(op_type, tuple(values), made, domain=domain, attributes=given)).apply()
    SetGraphOutputs(graph, made).apply()
    model = Model(graph, opset=version)
    SetField(model, "opset_imports", {**model.opset_imports, domain: 1 if domain else version}).apply()
    return Session(model)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'-'.join(map(str, c[1].values()))}")
def test_exactly_the_elements_that_reach_an_output_make_it_nan(case: Case) -> None:
    op_type, attributes, inputs, outputs = case
    version = 17 if "axes" in attributes else 28 if op_type == "SpaceToDepth" and "mode" in attributes else 18
    made = run_node(op_type, attributes, inputs, outputs, version)
    shapes = [m.shape for m in made]
    generator = np.random.default_rng(0)
    for which, output in enumerate(made):
        node = EvaluatedNode(op_type, "", attributes, [np.asarray(i) for i in inputs], shapes, which, version)
        for flat in generator.choice(output.size, min(output.size, 3), replace=False):
            index = tuple(int(i) for i in np.unravel_index(int(flat), output.shape))
            assert all(r.exact for r in reach(node, index))
            for position, array in enumerate(inputs):
                if np.asarray(array).dtype == F:
                    for at in np.ndindex(np.shape(array)):
                        changed = [np.array(i) for i in inputs]
                        changed[position][at] = np.nan
                        reached = at in _positions(reach(replace(node, inputs=changed), index), position)
                        became = run_node(op_type, attributes, changed, outputs, version)[which][index]
                        assert reached == bool(np.isnan(became)), (position, at, index)


@pytest.mark.long
@pytest.mark.parametrize(
    ("op_type", "domain", "version", "attributes", "inputs", "outputs"),
    [
        ("Add", "", 6, {"broadcast": 1, "axis": 0}, [numbers(3, 3), numbers(3)], 1),
        ("Mul", "", 6, {"broadcast": 1, "axis": -2}, [numbers(2, 3, 4), numbers(3)], 1),
        ("Pow", "", 6, {"broadcast": 1, "axis": 0}, [numbers(3, 3) + 1, numbers(3)], 1),
        ("Sub", "", 6, {"broadcast": 1, "axis": 0}, [numbers(2, 3), numbers(1)], 1),
        ("PRelu", "", 6, {}, [-numbers(2, 3, 3), numbers(3)], 1),
        ("PRelu", "", 9, {}, [-numbers(2, 3, 3), numbers(3)], 1),
        ("Pad", "", 18, {}, [numbers(3, 4), whole(1, 0, 0, 2), numbers(1)], 1),
        ("Pad", "", 18, {}, [numbers(3, 4), whole(-1, 2, 2, -1), F(7)], 1),
        ("Pad", "", 18, {"mode": "edge"}, [numbers(3, 4), whole(-1, 2, 2, -1)], 1),
        ("Pad", "", 18, {"mode": "reflect"}, [numbers(3, 4), whole(-1, 2, 2, -1)], 1),
        ("Pad", "", 19, {"mode": "wrap"}, [numbers(3, 4), whole(-1, 2, 2, -1)], 1),
        ("Pad", "", 10, {"pads": [1, 0, 0, 2], "value": 5.0}, [numbers(3, 4)], 1),
        ("Pad", "com.microsoft", 1, {}, [numbers(3, 4), whole(1, 0, 0, 2), numbers(1)], 1),
        ("Slice", "", 9, {"starts": [1], "ends": [-1], "axes": [1]}, [numbers(2, 4)], 1),
        ("Transpose", "", 13, {"stray": 1}, [numbers(2, 3)], 1),
        ("Squeeze", "", 11, {"axes": [0]}, [numbers(1, 3)], 1),
        ("Concat", "", 3, {}, [numbers(2, 3), numbers(2, 1)], 1),
        ("Split", "", 11, {"split": [2, 3], "axis": 1}, [numbers(2, 5)], 2),
        ("GatherND", "", 12, {"batch_dims": 1}, [numbers(2, 3, 2), np.array([[2], [-1]], np.int64)], 1),
        ("Scatter", "", 10, {}, [numbers(3, 2), np.array([[2, 0]], np.int64), numbers(1, 2)], 1),
        ("ScatterElements", "", 18, {"reduction": "add", "axis": 1},
         [numbers(2, 3), np.array([[1, 1, 0, 1]], np.int64), numbers(1, 4)], 1),
        ("BatchNormalization", "", 8, {"spatial": 0}, [numbers(2, 3, 2), *[numbers(3, 2)] * 4], 1),
        ("BatchNormalization", "", 8, {}, [numbers(2, 3, 2), *[numbers(3)] * 4], 2),
        ("BatchNormalization", "", 6, {"is_test": 1}, [numbers(2, 3, 2), *[numbers(3)] * 4], 1),
        ("BatchNormalization", "", 15, {}, [numbers(4), *[numbers(1)] * 4], 1),
        ("SkipSimplifiedLayerNormalization", "com.microsoft", 1, {},
         [numbers(1, 2, 3), numbers(1, 2, 3) / F(7), numbers(3), numbers(3)], 1),
        ("SkipLayerNormalization", "com.microsoft", 1, {},
         [numbers(1, 2, 3), numbers(2, 3) / F(7), numbers(3), numbers(3), numbers(3)], 1),
        ("Resize", "", 18, {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
         [numbers(3, 4), np.zeros(0, F), np.array([1, 2], F)], 1),
        ("Resize", "", 18, {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
         [numbers(3, 4), np.zeros(0, F), np.array([1.5, 1], F)], 1),
    ],
)  # fmt: skip
def test_what_makes_an_element_nan_reaches_it_in_each_version(
    op_type: str, domain: str, version: int, attributes: dict[str, Any], inputs: list[Any], outputs: int
) -> None:
    session = session_of(op_type, attributes, inputs, outputs, version, domain)
    made = session.run(fed(inputs)).values["o0"]
    shapes = [made.shape, *[(1,)] * (outputs - 1)]
    given = [np.asarray(i) for i in inputs]
    for position, array in enumerate(given):
        for at in np.ndindex(array.shape) if array.dtype == F and not (op_type == "Resize" and position) else ():
            changed = [i.copy() for i in given]
            changed[position][at] = np.nan
            became = session.run(fed(changed)).values["o0"]
            node = EvaluatedNode(op_type, domain, attributes, changed, shapes, 0, 1 if domain else version)
            for index in np.ndindex(made.shape):
                found = reach(node, index)
                assert all(r.exact for r in found)
                assert (at in _positions(found, position)) == bool(np.isnan(became[index])), (position, at, index)


def test_an_operator_of_another_domain_may_use_everything() -> None:
    """Blocked layouts lie otherwise than their shapes say, and functions of a model do as they like."""
    for domain in ("com.microsoft.nchwc", "local"):
        for op_type in ("Conv", "Relu"):
            found = reach(EvaluatedNode(op_type, domain, {}, [numbers(1, 2, 3, 3)], [(1, 2, 3, 3)]), (0, 0, 1, 1))
            assert [(r.count, r.exact) for r in found] == [(18, False)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("op_type", "version", "attributes", "more"),
    [
        ("Resize", 18, {}, [None, np.array([1, 1.7, 0.6], F)]),
        ("Resize", 19, {"mode": "linear", "axes": [2, 1]}, [None, np.array([0.4, 2.3], F)]),
        ("Resize", 19, {"mode": "cubic", "antialias": 1, "axes": [2]}, [None, None, whole(3)]),
        ("Resize", 11, {"mode": "cubic", "exclude_outside": 1}, [np.zeros(0, F), np.array([1, 2, 2], F)]),
        ("Resize", 10, {"mode": "linear"}, [np.array([1, 1, 1.6], F)]),
        ("Upsample", 9, {}, [np.array([1, 2, 3], F)]),
        ("Upsample", 7, {"scales": [1.0, 2.0, 1.5]}, []),
    ],
)  # fmt: skip
def test_what_changes_a_resized_element_reaches_it(
    op_type: str, version: int, attributes: dict[str, Any], more: list[Any]
) -> None:
    load()
    kernel = find(op_type, version)
    x = numbers(2, 4, 7)
    made = kernel.function(x, *more, **attributes)
    node = EvaluatedNode(op_type, "", attributes, [x, *more], [made.shape], 0, version)
    changed: dict[Any, set[Any]] = {index: set() for index in np.ndindex(made.shape)}
    for at in np.ndindex(x.shape):
        other = x.copy()
        other[at] += 1000
        for index in zip(*np.nonzero(kernel.function(other, *more, **attributes) - made), strict=True):
            changed[tuple(int(i) for i in index)].add(at)
    for index, those in changed.items():
        found = reach(node, index)
        assert found[0].exact
        assert _positions(found, 0) == those


@pytest.mark.long
@pytest.mark.parametrize(
    ("op_type", "gates", "attributes", "output"),
    [("LSTM", 4, {}, 0), ("GRU", 3, {"direction": "reverse"}, 0), ("RNN", 1, {"direction": "bidirectional"}, 0),
     ("LSTM", 4, {"direction": "bidirectional"}, 1)],
)  # fmt: skip
def test_a_recurrent_network_has_read_so_much_of_its_sequence(
    op_type: str, gates: int, attributes: dict[str, Any], output: int
) -> None:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    random = np.random.default_rng(0)
    shapes = (4, 2, 3), (directions, gates * 2, 3), (directions, gates * 2, 2)
    x, w, r = (random.normal(size=shape).astype(F) for shape in shapes)
    attributes = {**attributes, "hidden_size": 2}
    made = run_node(op_type, attributes, [x, w, r], 2, 14)[output]
    node = EvaluatedNode(op_type, "", attributes, [x, w, r], [made.shape] * 2, output, 14)
    for index in np.ndindex(made.shape):
        reached = _positions(reach(node, index), 0)
        for at in np.ndindex(x.shape):
            other = x.copy()
            other[at] = np.nan
            became = run_node(op_type, attributes, [other, w, r], 2, 14)[output][index]
            assert (at in reached) == bool(np.isnan(became)), (at, index)


def _positions(found: list[ElementReach], position: int) -> set[tuple[int, ...]]:
    axes = [r.axes for r in found if r.input == position]
    return {at for product in axes for at in itertools.product(*product)}


def test_unknown_operators_may_use_everything() -> None:
    node = EvaluatedNode("Mystery", "local", {}, [numbers(2, 3), None, numbers(4)], [(5,)])
    found = reach(node, (1,))
    assert [(r.input, r.count, r.exact) for r in found] == [(0, 6, False), (2, 4, False)]


def test_an_index_outside_of_the_output_is_refused() -> None:
    with pytest.raises(IndexError, match=r"index \[2\] of shape \[2\]"):
        reach(EvaluatedNode("Relu", "", {}, [numbers(2)], [(2,)]), (2,))


def test_attributes_that_do_not_fit_make_it_inexact() -> None:
    node = EvaluatedNode("Slice", "", {}, [numbers(4), whole(0, 0), whole(2)], [(2,)])
    assert [(r.input, r.exact) for r in reach(node, (1,))] == [(0, False), (1, False), (2, False)]


def test_elements_that_are_too_many_to_number_make_it_inexact() -> None:
    large = np.broadcast_to(F(1), (1 << 14, 1 << 13))
    rows, updates = np.zeros((1, 1), np.int64), np.broadcast_to(F(1), (1, 1 << 13))
    transposed = EvaluatedNode("Transpose", "", {}, [large], [(1 << 13, 1 << 14)])
    scattered = EvaluatedNode("ScatterND", "", {}, [large, rows, updates], [large.shape])
    for node in (transposed, scattered):
        assert not any(r.exact for r in reach(node, (1, 2)))


def test_a_shape_larger_than_computed_makes_it_inexact() -> None:
    node = EvaluatedNode("Expand", "", {}, [numbers(1), whole(1 << 40)], [(2,)])
    assert not any(r.exact for r in reach(node, (1,)))


def test_older_softmax_runs_over_everything_from_its_axis_on() -> None:
    (found,) = reach(EvaluatedNode("Softmax", "", {}, [numbers(2, 3, 4)], [(2, 3, 4)], version=11), (1, 2, 3))
    assert str(found) == "[1, 0:3, 0:4]"


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("EmbedLayerNormalization", [numbers(2, 3), numbers(2, 3), numbers(3)]),
        ("FusedMatMul", [numbers(3, 3), numbers(3, 3)]),
        ("DynamicQuantizeLinear", [numbers(2, 3)]),
    ],
)
def test_operators_that_mix_elements_are_not_elementwise(op_type: str, inputs: list[Any]) -> None:
    found = reach(
        EvaluatedNode(op_type, "", {}, inputs, [inputs[0].shape]), (1, 1) if inputs[0].ndim == 2 else (0, 1, 1)
    )
    assert [(r.count, r.exact) for r in found] == [(i.size, False) for i in inputs]


def test_a_channels_last_convolution_reads_its_own_windows() -> None:
    x, w, b, z = numbers(1, 5, 4, 2), numbers(3, 2, 3, 3), numbers(3), numbers(1, 3, 2, 3)
    node = EvaluatedNode("NhwcFusedConv", "com.microsoft", {}, [x, w, b, z], [(1, 3, 2, 3)])
    found = [str(r) for r in reach(node, (0, 1, 0, 2))]
    assert found == ["[0, 1:4, 0:3, 0:2]", "[2, 0:2, 0:3, 0:3]", "[2]", "[0, 1, 0, 2]"]


@st.composite
def windows_cases(draw: st.DrawFn) -> Case:
    """A small convolution or pool with attributes that may well not fit each other."""
    op_type = draw(st.sampled_from(["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"]))
    rank = draw(st.integers(1, 2))

    def per_axis(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    sizes, kernel = per_axis(1, 5), per_axis(1, 3)
    attributes: dict[str, Any] = {"strides": per_axis(1, 3), "dilations": per_axis(1, 2)}
    attributes["auto_pad"] = draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if attributes["auto_pad"] == "NOTSET":
        attributes["pads"] = per_axis(0, 2, 2 * rank)
    if "Pool" in op_type:
        attributes |= {"kernel_shape": kernel, "ceil_mode": draw(st.integers(0, 1))}
        return op_type, attributes, [numbers(1, 2, *sizes)], 1
    group = draw(st.integers(1, 2))
    attributes["group"] = group
    if op_type == "Conv":
        return (
            op_type,
            attributes,
            [numbers(1, 2 * group, *sizes), numbers(2 * group, 2, *kernel), numbers(2 * group)],
            1,
        )
    if draw(st.booleans()):
        attributes["output_padding"] = per_axis(0, 1)
    elif draw(st.booleans()):
        attributes["output_shape"] = per_axis(1, 8)
    return op_type, attributes, [numbers(1, 2 * group, *sizes), numbers(2 * group, 2, *kernel), numbers(2 * group)], 1


@pytest.mark.long
@settings(max_examples=examples(150))
@given(case=windows_cases(), data=st.data())
def test_what_changes_an_element_of_a_window_reaches_it(case: Case, data: st.DataObject) -> None:
    op_type, attributes, inputs, outputs = case
    session = session_of(op_type, attributes, inputs, outputs, 22)
    result = session.run(fed(inputs))
    assume(result.ok)
    made = result.values["o0"]
    assume(made.size)
    index = tuple(data.draw(st.integers(0, d - 1)) for d in made.shape)
    found = reach(EvaluatedNode(op_type, "", attributes, inputs, [made.shape], 0, 22), index)
    for position, array in enumerate(inputs):
        changing = set()
        for at in np.ndindex(array.shape):
            changed = [i.copy() for i in inputs]
            changed[position][at] += 4096  # more than any other element: a maximum too becomes another
            after = session.run(fed(changed)).values["o0"]
            if not np.array_equal(after[index], made[index], equal_nan=True):  # a mean of padding is NaN
                changing.add(at)
        assert changing == _positions(found, position), (position, index)


_X, _W = numbers(1, 2, 3, 3).astype(np.uint8), numbers(2, 2, 2, 2).astype(np.uint8)
_A, _B = numbers(3, 4).astype(np.uint8), numbers(4, 2).astype(np.uint8)
_ONE, _PER_ROW, _PER_COLUMN = F(0.1), numbers(3) / F(10), numbers(2) / F(10)
_NO, _NONE_ROW, _NONE_COLUMN = np.uint8(50), np.array([50, 51, 52], np.uint8), np.array([50, 51], np.uint8)


@pytest.mark.long
@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [
        ("QLinearConv", [_X, _ONE, _NO, _W, _PER_COLUMN, _NONE_COLUMN, F(2), _NO]),
        ("QLinearConv", [_X, np.array([0.1], F), _NO, _W, _ONE, _NO, F(2), _NO, np.array([500, 900], np.int32)]),
        ("ConvInteger", [_X, _W, _NO, _NONE_COLUMN]),
        ("QLinearMatMul", [_A, _PER_ROW, _NONE_ROW, _B, _PER_COLUMN, _NONE_COLUMN, F(3), _NO]),
        ("QLinearMatMul", [_A, _PER_ROW.reshape(3, 1), _NO, _B, _PER_COLUMN.reshape(1, 2), _NO, F(3), _NO]),
        ("MatMulInteger", [_A, _B, _NONE_ROW, _NONE_COLUMN]),
        ("MatMulInteger", [_A, _B]),
    ],
)
def test_scales_and_zero_points_of_products_reach_what_they_are_for(op_type: str, inputs: list[Any]) -> None:
    version = 21
    inputs = [np.asarray(i) for i in inputs]
    (made,) = run_node(op_type, {}, inputs, 1, version)
    for index in np.ndindex(made.shape):
        found = reach(EvaluatedNode(op_type, "", {}, inputs, [made.shape], 0, version), index)
        assert all(r.exact for r in found)
        for position, array in enumerate(inputs):
            for at in np.ndindex(array.shape):
                is_another = False
                for other in (array[at] * 3, 250):
                    changed = [i.copy() for i in inputs]
                    changed[position][at] = other
                    is_another |= bool(run_node(op_type, {}, changed, 1, version)[0][index] != made[index])
                assert is_another == (at in _positions(found, position)), (position, at, index)


def test_weights_on_padding_are_listed_if_zero_keeps_them() -> None:
    x, w = numbers(1, 3, 5, 5), numbers(2, 3, 3, 3)
    node = EvaluatedNode("Conv", "", {"pads": [1, 1, 1, 1]}, [x, w], [(1, 2, 5, 5)])
    assert [str(r) for r in reach(node, (0, 1, 0, 4))] == ["[0, 0:3, 0:2, 3:5]", "[1, 0:3, 1:3, 0:2]"]
    w[1, 2, 0, 0] = np.inf
    assert [str(r) for r in reach(node, (0, 1, 0, 4))] == ["[0, 0:3, 0:2, 3:5]", "[1, 0:3, 0:3, 0:3]"]
    assert str(reach(node, (0, 0, 0, 4))[1]) == "[0, 0:3, 1:3, 0:2]"
