"""What is declared otherwise than it was computed: in the graph, in functions and bodies, and other than tensors."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.inspect.overview import actual_type, contradictions
from onnx_workbench.exec.inspect.value_summary import summarize
from onnx_workbench.exec.session import Session
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, MapType, OptionalType, SequenceType, Shape, TensorType, Type
from tests.exec.texts import node, parse

OWN = 'ir_version: 10, opset_import: ["" : 21, "own" : 1]'
X = np.array([1.0, 2.0], np.float32)
FLOAT = ElementType.FLOAT


def test_values_inside_calls_are_compared_with_declarations() -> None:
    model = parse(
        """g (float[2] x) => (float[2] y, float[2] z) <bool yes = {1}, int64 n = {2}> {
          y = own.F(x)
          z = Loop(n, yes, x) <body = b (int64 i, bool k, float[2] v) => (bool j, float[2] w) <int64[N] q> {
            j = Identity(k)
            q = Mul(v, v)
            w = Sqrt(q)
          }>
        }
        <opset_import: ["" : 21], domain: "own">
        F (s) => (t) <float[7] p> { p = Neg(s) t = Abs(p) }""",
        header=OWN,
    )
    result = Session(model).run({"x": X})
    declared = {v.id: v.type for g in model.graphs() for v in g.values() if v.type is not None}
    found = {result.layout.name(one.key[1]): one for one in contradictions(result, declared)}
    assert set(found) == {"p", "q"}
    assert [str(actual_type(result.value(one.key), one.declared)) for one in (found["p"], found["q"])] == [
        "float[2]",
        "float[N]",
    ]


@pytest.mark.parametrize("kind", [FLOAT, ElementType.BFLOAT16, ElementType.FLOAT8E4M3FN, ElementType.INT4])
def test_what_clipping_leaves_is_seen_in_every_type_and_in_bodies(kind: ElementType) -> None:
    cast = f"Cast<to = {int(kind)}>(x)"
    model = parse(
        f"""g (float[8] x, bool c) => ({kind.text}[8] y) {{
          y = If(c) <then_branch = t () => ({kind.text}[8] o) {{ o = {cast} }},
                     else_branch = e () => ({kind.text}[8] p) {{ p = {cast} }}>
        }}"""
    )
    result = Session(model).run({"x": np.array([-1, -1, -1, 0, 1, 2, 2, 2], np.float32), "c": np.array(True)})
    output, inside = result.key("y"), next((path, number) for path, held in result.bodies.items() for number in held)
    assert output is not None
    assert [one.saturated for one in summarize(result, [output, inside]) if one is not None] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("value", "declared", "actual"),
    [
        ([X, X], TensorType(FLOAT), SequenceType(TensorType(FLOAT, Shape((2,))))),
        ([X, X[:1]], TensorType(FLOAT), SequenceType(TensorType(FLOAT))),
        ([{"a": X[0]}], TensorType(FLOAT), SequenceType(MapType(ElementType.STRING, TensorType(FLOAT, Shape())))),
        ({3: np.float32(1)}, TensorType(FLOAT), MapType(ElementType.INT64, TensorType(FLOAT, Shape()))),
        ([], TensorType(FLOAT), None),
        (X, SequenceType(TensorType(FLOAT)), TensorType(FLOAT, Shape((2,)))),
        (X, OptionalType(TensorType(ElementType.INT8)), TensorType(FLOAT, Shape((2,)))),
    ],
)  # fmt: skip
def test_the_type_of_what_is_no_tensor(value: object, declared: Type, actual: Type | None) -> None:
    assert actual_type(value, declared) == actual


def test_negative_sizes_contradict_nothing() -> None:
    model = parse("g (float[2] x) => (float[2] y) { h = Neg(x) y = Abs(h) }")
    hidden = node(model, "h").outputs[0]
    assert hidden is not None
    with Document(model).edit("Declare") as edit:
        edit.do(SetField(hidden, "type", TensorType(FLOAT, Shape((-1,)))))
    session = Session(model)
    result = session.run({"x": X})
    assert contradictions(result, {hidden.id: hidden.type}) == []
    stepper = session.steps({"x": X}, breakpoints=[Breakpoint(condition="shape")])
    assert stepper.resume() == ""


def test_a_sequence_that_is_declared_a_tensor_is_reported() -> None:
    model = parse(
        "g (float[2] x) => (float[2] s, seq(float[2]) t) { s = SequenceConstruct(x) t = SequenceConstruct(x) }"
    )
    result = Session(model).run({"x": X})
    declared = {v.id: v.type for v in model.graph.values() if v.type is not None}
    assert [one.key[1] for one in contradictions(result, declared)] == [node(model, "s").outputs[0].id]
