"""Gradient and the optimizers: rules against finite differences, and the examples of the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context, Region, RegionNode
from onnx_workbench.exec.kernels.onnx.gradients.tape import differentiable
from onnx_workbench.exec.kernels.registry import find
from tests.exec.kernels.harness import assert_same, attribute_value, call, run_node

TRAINING = "ai.onnx.preview.training"


def runner(nodes: Sequence[Any], opset: int, outer: Mapping[str, Any]) -> Any:
    """What a session offers Gradient, over a list of nodes in run order."""

    def run(given: Mapping[str, Any], target: str) -> Region:
        values: dict[str, Any] = {**outer, **given}
        found = []
        for node in nodes:
            if set(node.output) & set(given):
                continue
            results = run_node(node, [values[i] if i else None for i in node.input], opset)
            values.update(zip(node.output, results, strict=True))
            attributes = {a.name: attribute_value(a, {}, {"": opset}) for a in node.attribute}
            found.append(RegionNode(node.op_type, "", opset, tuple(node.input), tuple(node.output), attributes))
        assert target in values
        return Region(found, values)

    return run


def gradient(run: Any, given: Mapping[str, Any], xs: Sequence[str], y: str = "y") -> tuple[Any, ...]:
    zs = [name for name in given if name not in xs]
    context = Context("Gradient", 1, domain=TRAINING, body_runner=run)
    ordered = [given[name] for name in (*xs, *zs)]
    with np.errstate(all="ignore"):
        result: tuple[Any, ...] = find("Gradient", 1, TRAINING).function(
            context, *ordered, xs=tuple(xs), y=y, zs=tuple(zs) or None
        )
    return result


RNG = np.random.default_rng(0)
A = RNG.uniform(0.2, 0.8, (3, 4))
B = RNG.uniform(0.3, 0.9, (3, 4))
SIGNED = RNG.choice([-1, 1], (3, 4)) * RNG.uniform(0.2, 0.9, (3, 4))
IMAGE = RNG.standard_normal((2, 4, 5, 6))
FILTER = RNG.standard_normal((6, 2, 3, 2))
LABELS = np.array([1, 0, 3])


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


# Operator, inputs (those of floats are differentiated), attributes, operator set.
CASES: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    **{op: (op, [SIGNED], {}, 20) for op in (
        "Abs", "Asin", "Acos", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Elu", "Erf", "Exp", "HardSigmoid",
        "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Sinh",
        "Softplus", "Softsign", "Tan", "Tanh", "Gelu", "Celu", "ThresholdedRelu", "Flatten", "Softmax",
        "LogSoftmax", "Transpose",
    )},
    **{op: (op, [A], {}, 20) for op in ("Log", "Sqrt")},
    **{op: (op, [A, B[:1]], {}, 20) for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean")},
    **{op: (op, [SIGNED, i64(1)], {}, 20) for op in (
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
        "ReduceLogSumExp",
    )},
    "ReduceLogSum": ("ReduceLogSum", [A], {"keepdims": 0}, 20),
    "ReduceSum by attribute": ("ReduceSum", [A], {"axes": [0], "keepdims": 0}, 11),
    "Acosh": ("Acosh", [A + 1.5], {}, 20),
    "Swish": ("Swish", [SIGNED], {"alpha": 1.5}, 24),
    "Gelu tanh": ("Gelu", [SIGNED], {"approximate": "tanh"}, 20),
    "Floor": ("Floor", [SIGNED], {}, 20),
    "Cast": ("Cast", [SIGNED], {"to": 11}, 20),
    "Clip": ("Clip", [SIGNED, np.array(-0.4), np.array(0.5)], {}, 20),
    "PRelu": ("PRelu", [SIGNED, B[0]], {}, 20),
    "Where": ("Where", [SIGNED > 0, A, B[:1]], {}, 20),
    "Softmax over the rest": ("Softmax", [IMAGE], {"axis": 2}, 11),
    "MatMul": ("MatMul", [A, B.T], {}, 20),
    "MatMul in batches": ("MatMul", [RNG.standard_normal((2, 1, 3, 4)), RNG.standard_normal((5, 4, 2))], {}, 20),
    "MatMul of vectors": ("MatMul", [A[0], B[0]], {}, 20),
    "MatMul by a vector": ("MatMul", [A, B[0]], {}, 20),
    "MatMul of a vector": ("MatMul", [A[0], B.T], {}, 20),
    "Gemm": ("Gemm", [A, B, SIGNED[0, :3]], {"transB": 1, "alpha": 0.5, "beta": 2.0}, 20),
    "Gemm transposed": ("Gemm", [A, B[:, :2]], {"transA": 1}, 20),
    "Reshape": ("Reshape", [A, i64(2, 6)], {}, 20),
    "Squeeze": ("Squeeze", [A[:, None], i64(1)], {}, 20),
    "Unsqueeze": ("Unsqueeze", [A, i64(1)], {}, 20),
    "Transpose by perm": ("Transpose", [IMAGE], {"perm": [2, 0, 3, 1]}, 20),
    "Expand": ("Expand", [A[:, :1], i64(2, 3, 4)], {}, 20),
    "Concat": ("Concat", [A, B[:, :2]], {"axis": 1}, 20),
    "Slice": ("Slice", [A, i64(2), i64(0), i64(0), i64(-1)], {}, 20),
    "Gather": ("Gather", [A, np.array([[1, 1], [0, 2]])], {}, 20),
    "GatherElements": ("GatherElements", [A, np.array([[1, 1], [0, 2]])], {}, 20),
    "GatherND": ("GatherND", [A, np.array([[1, 1], [0, 2], [1, 1]])], {}, 20),
    "DepthToSpace": ("DepthToSpace", [IMAGE], {"blocksize": 2}, 20),
    "SpaceToDepth": ("SpaceToDepth", [IMAGE[:, :, :4]], {"blocksize": 2}, 20),
    "Tile": ("Tile", [A, i64(2, 3)], {}, 20),
    "Pad": ("Pad", [A, i64(1, 0, 2, -1), np.array(3.0)], {}, 20),
    "Pad reflected": ("Pad", [A, i64(1, 0, 2, 1)], {"mode": "reflect"}, 20),
    "LayerNormalization": ("LayerNormalization", [A, B[0], SIGNED[0]], {}, 20),
    "BatchNormalization": ("BatchNormalization", [IMAGE, A[0], B[0], A[1], B[1]], {}, 15),
    "Conv": ("Conv", [IMAGE, FILTER, RNG.standard_normal(6)],
             {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}, 20),
    "Conv same": ("Conv", [IMAGE, FILTER[:, :, :, :1].repeat(2, 1)], {"auto_pad": "SAME_LOWER"}, 20),
    "MaxPool": ("MaxPool", [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 20),
    "AveragePool": ("AveragePool", [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 19),
    "AveragePool counting pads": (
        "AveragePool", [IMAGE], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1}, 19),
    "GlobalAveragePool": ("GlobalAveragePool", [IMAGE], {}, 20),
    "SoftmaxCrossEntropyLoss": ("SoftmaxCrossEntropyLoss", [A, LABELS, B[0]], {"ignore_index": 0}, 20),
    "SoftmaxCrossEntropyLoss each": ("SoftmaxCrossEntropyLoss", [A, LABELS], {"reduction": "none"}, 20),
    "NegativeLogLikelihoodLoss": ("NegativeLogLikelihoodLoss", [A, LABELS], {"reduction": "sum"}, 20),
}  # fmt: skip
#: Statistics, bounds and class weights are constants to the rules, as they are to those who train.
CONSTANT = {"Clip": (1, 2), "BatchNormalization": (3, 4), "Pad": (2,), "SoftmaxCrossEntropyLoss": (2,)}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_rules_agree_with_finite_differences(name: str) -> None:
    op_type, inputs, attributes, opset = CASES[name]
    node = helper.make_node(op_type, [f"x{i}" for i in range(len(inputs))], ["t"], **attributes)
    # Unequal weights, so that no two errors cancel out in the sum.
    shape = np.shape(run_node(node, inputs, opset)[0])
    weights = np.random.default_rng(4).uniform(0.5, 1.5, shape)
    nodes = [node, helper.make_node("Mul", ["t", "w"], ["y"])]
    given = {f"x{i}": np.asarray(v) for i, v in enumerate(inputs)} | {"w": weights}
    run = runner(nodes, opset, {})
    floats = [
        f"x{i}" for i, v in enumerate(inputs) if np.asarray(v).dtype.kind == "f" and i not in CONSTANT.get(op_type, ())
    ]
    for x, found in zip(floats, gradient(run, given, floats), strict=True):
        expected = finite_differences(run, given, x)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=f"by {x}")
        assert found.dtype == given[x].dtype


def finite_differences(run: Any, given: Mapping[str, Any], name: str) -> Any:
    result = np.zeros(given[name].shape)
    step = 1e-6
    for place in np.ndindex(result.shape):
        sums = []
        for sign in (1, -1):
            moved = given[name].copy()
            moved[place] += sign * step
            sums.append(run({**given, name: moved}, "y").values["y"].sum())
        result[place] = (sums[0] - sums[1]) / (2 * step)
    return result


def test_every_rule_has_a_case() -> None:
    tested = {op_type for op_type, *_ in CASES.values()}
    # These need more than one output or a second pass to test; see below.
    elsewhere = {"Split", "Dropout", "Ceil", "Round", "Sign", "CastLike"}
    assert set(differentiable()) - tested == elsewhere


def test_split_joins_the_gradients_of_its_parts() -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("Mul", ["a", "a"], ["y"]),
    ]
    (found,) = gradient(runner(nodes, 20, {}), {"x": A}, ["x"])
    assert_same(found, np.hstack([2 * A[:, :2], 0 * A[:, 2:]]))


def test_values_used_twice_get_both_gradients() -> None:
    nodes = [
        helper.make_node("Add", ["x", "z"], ["s"]),
        helper.make_node("Mul", ["s", "x"], ["y"]),
    ]
    given = {"x": np.array([2.0]), "z": np.array([3.0])}
    by_x, by_z = gradient(runner(nodes, 12, {}), given, ["x", "z"])
    assert (by_x, by_z) == (7.0, 2.0)


def test_an_intermediate_value_can_be_the_variable() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["h"]), helper.make_node("Mul", ["h", "h"], ["y"])]
    (found,) = gradient(runner(nodes, 12, {"x": np.array([1.0])}), {"h": np.array([5.0])}, ["h"])
    assert found == 10.0


def test_what_the_target_does_not_depend_on_has_gradient_zero() -> None:
    nodes = [helper.make_node("Neg", ["z"], ["y"])]
    by_x, _ = gradient(runner(nodes, 12, {}), {"x": A, "z": B}, ["x", "z"])
    assert_same(by_x, 0 * A)


def test_no_gradient_flows_through_integers() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Reshape", ["x", "s"], ["y"]),
    ]
    (found,) = gradient(runner(nodes, 20, {}), {"x": A}, ["x"])
    assert_same(found, np.ones_like(A))


def test_dropout_in_training_scales_what_it_kept() -> None:
    nodes = [helper.make_node("Dropout", ["x", "r", "t"], ["y", "m"])]
    outer = {"r": np.array(0.5, np.float32), "t": np.array(True)}
    run = runner(nodes, 13, outer)
    (found,) = gradient(run, {"x": A}, ["x"])
    mask = run({"x": A}, "y").values["m"]
    assert_same(found, 2.0 * mask)


def test_operators_without_a_rule_are_named() -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"])]
    with pytest.raises(KernelError, match="Det has no rule"):
        gradient(runner(nodes, 20, {}), {"x": np.eye(2)}, ["x"])


@pytest.mark.parametrize("change", [{"xs": ("x", "x")}, {"xs": ("x",)}, {"y": "n"}])
def test_what_cannot_be_differentiated_is_refused(change: dict[str, Any]) -> None:
    nodes = [helper.make_node("Mul", ["x", "z"], ["y"]), helper.make_node("Shape", ["y"], ["n"])]
    context = Context("Gradient", 1, domain=TRAINING, body_runner=runner(nodes, 20, {}))
    arguments: dict[str, Any] = {"xs": ("x", "z"), "y": "y"} | change
    with pytest.raises(KernelError):
        find("Gradient", 1, TRAINING).function(context, A, B, **arguments)


def test_optimizers_take_several_tensors_at_once() -> None:
    one = call("Adam", [np.array(0.1, np.float32), np.array(3), *(np.full(2, v, np.float32) for v in (1, 2, 3, 4))],
               opset=1, domain=TRAINING, outputs=3)  # fmt: skip
    two = call(
        "Adam",
        [np.array(0.1, np.float32), np.array(3), *(np.full(2, v, np.float32) for v in (1, 1, 2, 2, 3, 3, 4, 4))],
        opset=1, domain=TRAINING, outputs=6,
    )  # fmt: skip
    assert [v.tolist() for v in two[::2]] == [v.tolist() for v in one]
    with pytest.raises(KernelError):
        call("Adam", [np.array(0.1), np.array(3), A], opset=1, domain=TRAINING)
