"""What simplification must never do: each defect measured in other simplifiers, as a case."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inspect.equivalence import compare_models
from onnx_workbench.exec.session import Session
from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetInputs, SetOutputs
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.simplify.passes import SimplifyOptions
from onnx_workbench.model.simplify.pipeline import SimplifyReport, simplify
from tests.model import builders


class Missing(Tensor):
    """A tensor whose file is gone."""

    @property
    def problem(self) -> str:
        return "the file is gone"

    def numpy(self) -> Any:
        raise ModelError("The file is gone")


def simplified(text: str, **options: Any) -> tuple[Document, SimplifyReport]:
    document = builders.document(text)
    report = simplify(document, evaluate=evaluate, options=SimplifyOptions(**options) if options else None)
    return document, report


def left(document: Document) -> dict[str, int]:
    return dict(Counter(n.op_type for g in document.model.graph.walk() for n in g.nodes))


def graph(body: str, signature: str, constants: str = "", *, opset: int = 17, ir: int = 8) -> str:
    initializers = f"<{constants}>" if constants else ""
    return f'<ir_version: {ir}, opset_import: ["" : {opset}]> g {signature} {initializers} {{ {body} }}'


TWO = "(float[2] x) => (float[2] y)"
STAYS: dict[str, tuple[str, dict[str, int]]] = {
    "RandomNormal": (graph("r = RandomNormal <shape = [2]> () y = Add(x, r)", TWO), {"RandomNormal": 1, "Add": 1}),
    **{
        f"{name} of a constant": (
            graph(f"r = {name}(k) y = Add(x, r)", TWO, "float[2] k = {0.5, 0.5}"), {name: 1, "Add": 1}
        )
        for name in ("RandomUniformLike", "Bernoulli", "RandomNormalLike")
    },
    "equal random operators": (
        graph("a = Bernoulli(x) b = Bernoulli(x) y = Sub(a, b)", TWO), {"Bernoulli": 2, "Sub": 1}
    ),
    "a dropout whose mode is an input": (
        graph("d = Dropout(x, r, t) y = Relu(d)", "(float[9] x, bool t) => (float[9] y)", "float r = {0.5}"),
        {"Dropout": 1, "Relu": 1},
    ),
    "sums of texts, which no operator makes": (
        graph("y = Add(a, a) z = Concat <axis = 0> (y, x)", "(string[1] x) => (string[N] z)", 'string[1] a = {"t"}'),
        {"Add": 1, "Concat": 1},
    ),
    "a product of three dimensions and its bias": (
        graph("a = MatMul(x, w) y = Add(a, b)", "(float[2, 3, 2] x) => (float[2, 3, 2] y)",
              "float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {1.0, 2.0}"),
        {"MatMul": 1, "Add": 1},
    ),
    "a normalization that would become more nodes": (
        graph("a = Conv(x, w) y = BatchNormalization(a, s, s, s, s)",
              "(float[1, 1, 4, 4] x, float[1] s) => (float[1, 1, 4, 4] y)", "float[1, 1, 1, 1] w = {2.0}"),
        {"Conv": 1, "BatchNormalization": 1},
    ),
    "a factor of a weight that others use": (
        graph("a = Conv(x, w) r = Relu(x) b = Conv(r, w) c = Mul(a, two) y = Add(b, c)",
              "(float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y)", "float[1, 1, 1, 1] w = {2.0}, float two = {2.0}"),
        {"Conv": 2, "Relu": 1, "Mul": 1, "Add": 1},
    ),
    "a loop whose condition may say to stop": (
        graph("y = Loop(n, , x) <body = b (int64 i, bool k, float[2] v) => (bool o, float[2] w)"
              " { o = Less(i, i) w = Relu(v) }>", TWO, "int64 n = {2}"),
        {"Loop": 1, "Constant": 1, "Relu": 1},
    ),
    "a loop whose turns would be more nodes": (
        graph("y = Loop(n, , x) <body = b (int64 i, bool k, float[2] v) => (bool o, float[2] w)"
              " { o = Identity(k) a = Relu(v) b = Neg(a) w = Abs(b) }>", TWO, "int64 n = {3}"),
        {"Loop": 1, "Identity": 1, "Relu": 1, "Neg": 1, "Abs": 1},
    ),
    "a loop whose end depends on data": (
        graph("y = Loop(, go, x) <body = b (int64 i, bool k, float v) => (bool o, float w)"
              " { w = Add(v, v) o = Less(w, ten) }>", "(float x) => (float y)", "bool go = {1}, float ten = {10.0}"),
        {"Loop": 1, "Add": 1, "Less": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), STAYS.values(), ids=STAYS)
def test_what_has_to_stay_stays(text: str, expected: dict[str, int]) -> None:
    assert left(simplified(text)[0]) == expected


def test_dropout_in_training_mode_stays() -> None:
    document, report = simplified(
        graph("y = Dropout(x, r, t)", "(float[9] x) => (float[9] y)", "float r = {0.5}, bool t = {1}")
    )
    assert left(document) == {"Dropout": 1}
    assert [r.pass_id for r in report.refusals] == ["eliminate_nop_dropout"]


def test_free_dimensions_stay_free() -> None:
    document, _ = simplified(
        graph("s = Shape(x) e = ConstantOfShape(s) y = Add(x, e)", "(float[batch, seq] x) => (float[batch, seq] y)")
    )
    kind = document.model.graph.inputs[0].type
    assert isinstance(kind, TensorType)
    assert kind.shape == Shape(("batch", "seq"))
    assert left(document) == {"Shape": 1, "ConstantOfShape": 1, "Add": 1}


def test_a_wrong_declared_shape_is_not_trusted() -> None:
    given = graph("a = Reshape(x, s) y = Reshape(a, t)", "(float[2, 6] x) => (float[1, 12] y)",
                  "int64[2] s = {-1, 3}, int64[2] t = {0, -1}")  # fmt: skip
    document, _ = simplified(given)  # y is really [4, 3]
    outcome = compare_models(builders.model(given), document.model)
    assert outcome.agrees, outcome


def test_a_wrong_type_of_an_inner_value_is_not_trusted() -> None:
    document = builders.document(graph("a = Neg(x) b = Cast <to = 1> (a) y = Relu(b)", "(double[2] x) => (float[2] y)"))
    with document.edit("Lie") as edit:
        from onnx_workbench.model.edits.values import set_type

        set_type(edit, builders.value(document, "a"), TensorType(ElementType.FLOAT, Shape((2,))))
    simplify(document, evaluate=evaluate)
    assert left(document) == {"Neg": 1, "Cast": 1, "Relu": 1}


def test_folding_that_makes_the_file_large_is_refused_and_said() -> None:
    given = graph(
        "e = Expand(c, s) y = Add(x, e)", "(float[4000, 5000] x) => (float[4000, 5000] y)",
        "float c = {1.5}, int64[2] s = {4000, 5000}",
    )  # fmt: skip
    document, report = simplified(given)
    assert left(document) == {"Expand": 1, "Add": 1}
    assert report.after.nbytes <= report.before.nbytes
    assert any("larger" in r.reason for r in report.refusals)


def test_many_folded_tensors_together_stay_below_the_limit() -> None:
    nodes = (
        " ".join(f"e{i} = Expand(c{i}, s)" for i in range(6)) + " y = Sum(" + ", ".join(f"e{i}" for i in range(6)) + ")"
    )
    constants = "int64[1] s = {1000}, " + ", ".join(f"float c{i} = {{{i}.5}}" for i in range(6))
    document, report = simplified(graph(nodes, "(float x) => (float[1000] y)", constants), growth_limit=9000)
    assert report.after.nbytes <= report.before.nbytes + 9000
    assert left(document)["Expand"] == 4


def test_narrow_weights_stay_narrow() -> None:
    body = "d = DequantizeLinear(w, s) k = Cast <to = 1> (w) a = MatMul(x, d) b = MatMul(x, k) y = Add(a, b)"
    document, report = simplified(
        graph(body, "(float[2, 2] x) => (float[2, 2] y)", "int8[2, 2] w = {1, 2, 3, 4}, float s = {0.5}")
    )
    assert left(document)["DequantizeLinear"] == 1
    assert left(document)["Cast"] == 1
    assert {r.place.op_type for r in report.refusals if hasattr(r.place, "op_type")} == {"DequantizeLinear", "Cast"}


@pytest.mark.parametrize("body", [
    "a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b)",  # a product and a Split are as many
    "a = MatMul(x, w) b = MatMul(x, w) c = MatMul(z, w) d = Add(a, b) y = Add(c, d)",  # others use the matrix
    "a = MatMul(x, w) b = MatMul(z, v) p = Add(a, i) q = Add(b, i) y = Add(p, q)",  # of different values
])  # fmt: skip
def test_products_are_combined_only_where_nodes_get_fewer(body: str) -> None:
    matrices = "float[2, 2] w = {1.0,2.0,3.0,4.0}, float[2, 2] v = {5.0,6.0,7.0,8.0}, float[2] i = {1.0,2.0}"
    document, report = simplified(graph(body, "(float[3, 2, 2] x, float[3, 2, 2] z) => (float[3, 2, 2] y)", matrices))
    assert "fuse_qkv" not in report.applied
    assert "Split" not in left(document)


def test_a_constant_that_a_caller_may_replace_is_none() -> None:
    given = graph("c = Add(w, w) s = Reshape(x, t) y = Mul(s, c)", "(float[4] x, float w, int64[1] t) => (float[4] y)",
                  "float w = {1.0}, int64[1] t = {4}")  # fmt: skip
    document, _ = simplified(given)
    assert left(document) == {"Add": 1, "Reshape": 1, "Mul": 1}
    assert [v.name for v in document.model.graph.inputs] == ["x", "w", "t"]


def test_old_files_get_no_initializers_that_are_not_inputs() -> None:
    given = graph("k = Constant <value = float {3.0}> () c = Add(k, k) y = Mul(x, c)", "(float[2] x) => (float[2] y)",
                  opset=8, ir=3)  # fmt: skip
    document, _ = simplified(given)
    assert left(document) == {"Constant": 1, "Mul": 1}
    assert not document.model.graph.initializers
    import onnx

    onnx.checker.check_model(to_bytes(document.model))


def test_a_constant_output_imports_the_domain_it_needs() -> None:
    document, _ = simplified("""<ir_version: 8, opset_import: ["ai.onnx.ml" : 1]>
    g (float[1,2] x) => (float[1,2] y) <float[1,2] w = {1.0, 3.0}> { y = ai.onnx.ml.Normalizer<norm = "L1">(w) }""")
    assert left(document) == {"Constant": 1}
    assert document.model.opset_imports == {"ai.onnx.ml": 1, "": 13}


def test_names_order_and_types_of_inputs_and_outputs_stay() -> None:
    given = graph("a = Identity(x) b = Identity(x) c = Relu(x) d = Identity(c) e = Identity(c)",
                  "(float[2] x, float[2] unused) => (float[2] a, float[2] b, float[2] d, float[2] e)")  # fmt: skip
    document = builders.document(given)
    wires = [(v.name, v.type) for v in (*document.model.graph.inputs, *document.model.graph.outputs)]
    simplify(document, evaluate=evaluate)
    assert [(v.name, v.type) for v in (*document.model.graph.inputs, *document.model.graph.outputs)] == wires
    assert compare_models(builders.model(given), document.model).agrees


def test_an_output_that_is_constant_is_still_made_by_a_node() -> None:
    document, _ = simplified(graph("y = Add(c, c)", "(float x) => (float y)", "float c = {2.0}"))
    assert left(document) == {"Constant": 1}
    assert document.model.graph.outputs[0].producer is not None


def test_values_training_sets_are_no_constants() -> None:
    from onnx_workbench.model.ir.graph import TrainingInfo

    document = builders.document(
        graph("c = Add(w, w) y = Mul(x, c)", "(float[2] x) => (float[2] y)", "float w = {1.0}")
    )
    info = TrainingInfo()
    info.update_binding = (("w", "new_w"),)
    document.model.training_info = (info,)
    simplify(document, evaluate=evaluate)
    assert left(document) == {"Add": 1, "Mul": 1}


def test_attributes_a_function_gets_from_its_caller_stay() -> None:
    document, _ = simplified(builders.BRANCHES)
    body = document.model.functions[0].body
    assert [n.op_type for n in body.nodes] == ["Constant", "Mul"]


def test_nodes_inside_functions_are_counted() -> None:
    document = builders.document(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[2] x) => (float[2] y) { y = local.f(x) }'
        '<domain: "local", opset_import: ["" : 17]> f (a) => (b) { c = Identity(a) b = Neg(c) }'
    )
    report = simplify(document, evaluate=evaluate)
    assert report.before.operators == {"local.f": 1, "Identity": 1, "Neg": 1}
    assert report.after.operators == {"local.f": 1, "Neg": 1}


def test_a_loop_body_that_changes_shapes_is_taken_as_it_is() -> None:
    given = graph(
        "y = Loop(n, , x) <body = b (int64 i, bool k, float[2] v) => (bool o, float[2] w)"
        " { o = Identity(k) s = Shape(v) w = Concat <axis = 0> (v, v) }>",
        "(float[2] x) => (float[M] y)",
        "int64 n = {3}",
    )
    document, _ = simplified(given)
    outcome = compare_models(builders.model(given), document.model)
    assert outcome.agrees, outcome


def test_unknown_operators_without_an_import_do_not_stop_it() -> None:
    document, report = simplified(
        '<ir_version: 8, opset_import: ["my.domain" : 1]> g (float[2] x) => (float[2] y)'
        " { a = my.domain.Odd(x) y = my.domain.Odd(a) }"
    )
    assert report.before.nodes == report.after.nodes == 2
    assert left(document) == {"Odd": 2}


def test_weights_whose_data_is_missing_are_left_alone() -> None:
    document = builders.document(
        graph("c = Add(w, w) y = Mul(x, c)", "(float[2] x) => (float[2] y)", "float[2] w = {1.0, 2.0}")
    )
    builders.value(document, "w").initializer = Missing(ElementType.FLOAT, (2,))
    report = simplify(document, evaluate=evaluate)
    assert left(document) == {"Add": 1, "Mul": 1}
    assert any("not available" in r.reason for r in report.refusals)


def test_folded_numbers_are_those_of_the_executor() -> None:
    document, _ = simplified(
        graph("c = Softmax(k) y = Add(x, c)", "(float[2] x) => (float[2] y)", "float[2] k = {1.0, 2.0}")
    )
    constant = document.model.graph.initializers[0].initializer
    assert constant is not None
    expected = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    np.testing.assert_allclose(constant.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "a", "b"),
    [("Mul", 2**62, 4), ("Add", 2**63 - 1, 1), ("Sub", -(2**63), 1), ("Div", 2**62 + 1, 1)],
)
def test_sizes_beyond_what_integers_hold_do_no_harm(op_type: str, a: int, b: int) -> None:
    body = f"s = {op_type}(p, q) c = Concat <axis = 0> (s, q) y = Reshape(x, s) z = Expand(x, c) w = Identity(s)"
    constants = f"int64[1] p = {{{a}}}, int64[1] q = {{{b}}}"
    given = graph(body, "(float[2] x) => (float[a] y, float[b, c] z, int64[1] w)", constants)
    known = infer(builders.model(given))
    assert known is not None
    document, _ = simplified(given)
    assert {"Reshape", "Expand"} <= set(left(document))


def test_a_state_of_zeros_without_other_inputs_does_no_harm() -> None:
    state = "float[1, 2, 3] z = {0, 0, 0, 0, 0, 0}"
    body = "y = Relu(x) h = LSTM(x, x, x, , , z)"
    document = builders.document(graph(body, "(float[2] x) => (float[2] y, float[] h)", state))
    node = document.model.graph.nodes[1]
    builders.do(document, SetInputs(node, (None,) * 5 + node.inputs[5:]))
    simplify(document, evaluate=evaluate)
    assert left(document) == {"Relu": 1, "LSTM": 1}


def test_a_state_filled_with_what_cannot_be_read_stays() -> None:
    body = (
        "t = Shape(x0) z = ConstantOfShape <value = float[1] {0.0}> (t) o, y = GRU <hidden_size = 1> (x, w, r, , , z)"
    )
    document = builders.document(
        graph(
            body,
            "(float[2, 4, 3] x, float[1, N, 1] x0) => (float[1, 4, 1] y)",
            "float[1,3,3] w = {1,2,3,4,5,6,7,8,9}, float[1,3,1] r = {1,2,3}",
        )
    )
    filled = next(n for n in document.model.graph.nodes if n.op_type == "ConstantOfShape")
    builders.one_edit(document, set_attribute, filled, "value", Missing(ElementType.FLOAT, (1,)))
    simplify(document, evaluate=evaluate)
    gru = next(n for n in document.model.graph.nodes if n.op_type == "GRU")
    assert len(gru.inputs) == 6


OPERATORS = (
    "Add Cast Concat Conv Dropout Flatten Gather Gemm Identity If Loop MaxPool Mul Pad ReduceSum Reshape Shape Slice "
    "Split Squeeze Transpose Unsqueeze"
)


@pytest.mark.parametrize("operator", OPERATORS.split())
@pytest.mark.parametrize("lacking", ["inputs", "outputs"])
def test_nodes_that_lack_inputs_or_outputs_are_left_alone(operator, lacking):
    document = builders.document(graph(f"a = Neg(x) b = {operator}() y = Relu(a)", "(float[2] x) => (float[2] y)"))
    if lacking == "outputs":
        node = document.model.graph.nodes[1]
        with document.edit("Take outputs away") as edit:
            edit.do(SetInputs(node, (builders.value(document, "a"),) * 3))
            edit.do(SetOutputs(node, ()))
    simplify(document, evaluate=evaluate)
    assert left(document)["Relu"] == 1


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        ("a = Mul(x, s) y = Mul(a, s)", "float s = {1e-30}"),  # the product would be 0 where the two are not
        ("a = Mul(x, s) y = Mul(a, s)", "float s = {1e30}"),
        ("a = Mul(x, s) y = Mul(a, t)", "float s = {1e25}, float t = {1e-20}"),  # the first may be infinite
        ("a = Mul(x, s) y = Mul(a, t)", "float s = {1e-25}, float t = {1e20}"),  # the first may be 0
        ("a = Mul(x, r) y = Mul(a, c)", "float[2, 1] r = {1, 2}, float[2] c = {3, 4}"),  # a larger constant
        ("a = Mul(x, t) b = Mul(a, t) y = Sub(b, a)", "float t = {2}"),  # the first product is needed
    ],
)
def test_constants_are_not_multiplied_at_a_loss(body: str, constants: str) -> None:
    document, _ = simplified(graph(body, "(float[2, 2] x) => (float[2, 2] y)", constants))
    assert left(document)["Mul"] == 2


@pytest.mark.parametrize("state", ["ConstantOfShape <value = float[1] {0.5}> (t)", "Identity(x0)", "Neg(x0)"])
def test_states_that_are_not_zero_stay(state: str) -> None:
    document, _ = simplified(
        graph(
            f"t = Shape(x0) z = {state} o, h = GRU <hidden_size = 1> (x, w, r, , , z) y = Relu(h)",
            "(float[2, 4, 3] x, float[1, 4, 1] x0) => (float[1, 4, 1] y)",
            "float[1,3,3] w = {1,2,3,4,5,6,7,8,9}, float[1,3,1] r = {1,2,3}",
        )
    )
    gru = next(n for n in document.model.graph.nodes if n.op_type == "GRU")
    assert len(gru.inputs) == 6
    assert gru.inputs[5] is not None


@pytest.mark.parametrize(
    "body",
    [
        "a = Squeeze(s, k)",
        "a = ReduceSum(s, k)",
        "a = Concat <axis = 0> (s, s)",
        "a = Gather(s, k)",
        "b = Squeeze(s, k) a = Squeeze(b, k)",
        "b = ReduceMax <axes = [0], keepdims = 0> (s) a = Unsqueeze(b, k)",
        "b = Softmax(s) a = ArgMax(b)",
        "b = Concat(s, s) a = Concat(b, s)",
        "b = Mul(s, s) c = ReduceMean <axes = [-1]> (b) d = Add(c, s) e = Sqrt(d) f = Div(s, e) a = Mul(f, s)",
    ],
)
def test_axes_of_what_has_none_do_no_harm(body: str) -> None:
    document, report = simplified(graph(f"{body} y = Not(a)", "(float s) => (bool y)", "int64[1] k = {0}"))
    assert left(document)["Not"] == 1
    assert report.rounds >= 1


def test_a_size_of_0_at_run_time_copies_another_size() -> None:
    """Of x [2, 3, 1, 0] and the shape [2, -1, 0], the 0 copies the 1, and -1 becomes 0; [2, 0, -1] gave [2, 3, 0]."""
    document, _ = simplified(
        graph(
            "s = Shape(x) n = Gather(s, last) t = Concat <axis = 0> (two, any, n) y = Reshape(x, t)",
            "(float[2, M, 1, N] x) => (float[A, B, C] y)",
            "int64[1] last = {3}, int64[1] two = {2}, int64[1] any = {-1}",
        )
    )
    for feed, shape in ((np.ones((2, 3, 1, 0), np.float32), (2, 0, 1)), (np.ones((2, 3, 1, 4), np.float32), (2, 3, 4))):
        result = Session(document.model).run({"x": feed})
        assert result.outputs["y"].shape == shape


@pytest.mark.parametrize(("inputs", "shape"), [("s", (1,)), ("s, none", (1,)), ("s, zero", ()), ("s, axes", None)])
def test_a_reduction_without_axes_keeps_its_shape(inputs: str, shape: tuple[int, ...] | None) -> None:
    """ReduceProd-18: with noop_with_empty_axes and no axes "the output tensor would be equivalent to input tensor"."""
    given = graph(
        f"s = Shape(x) y = ReduceProd <keepdims = 0, noop_with_empty_axes = 1> ({inputs})",
        "(float[3] x, int64[K] axes) => (int64 y)",
        "int64[0] none = {}, int64[1] zero = {0}",
        opset=18,
    )
    document, _ = simplified(given)
    for axes in ((), (0,)) if shape is None else ((0,),):
        feeds = {"x": np.ones(3, np.float32), "axes": np.array(axes, np.int64)}
        found = Session(document.model).run(feeds).outputs["y"]
        assert found == 3
        assert found.shape == (((1,), ())[len(axes)] if shape is None else shape)


def test_a_weight_above_the_limit_is_not_read_to_fold_into_it() -> None:
    """What needs its type only is done all the same."""
    text = graph(
        "g = Gemm(x, w, b) t = Add(g, b) m = Mul(t, b) n = Mul(x, w) y = Concat <axis = 0> (m, n)",
        "(float[2,2] x) => (float[4,2] y)", "float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {1.0, 2.0}",
    )  # fmt: skip
    document, _ = simplified(text, work_limit=15)
    assert left(document) == {"Gemm": 1, "Mul": 2, "Concat": 1}, "Add is in the bias, Mul would be in the weight"
    assert left(simplified(text, work_limit=16)[0]) == {"Gemm": 1, "Mul": 2, "Concat": 1}, "which is used twice"
    alone = text.replace("n = Mul(x, w)", "n = Neg(x)")
    assert left(simplified(alone, work_limit=15)[0]) == {"Gemm": 1, "Mul": 1, "Neg": 1, "Concat": 1}
    assert left(simplified(alone, work_limit=16)[0]) == {"Gemm": 1, "Neg": 1, "Concat": 1}


def test_a_size_is_not_inferred_beside_one_that_may_be_0() -> None:
    """Of x [0, 5, 4, 3] and the shape [-1, 5, 2, 2, 3], -1 is 0; of [0, 5, 2, 2, -1] it could be anything."""
    document, _ = simplified(
        graph(
            "s = Shape(x) m = Gather(s, last) t = Concat <axis = 0> (parts, m) y = Reshape(x, t)",
            "(float[N, 5, 4, M] x) => (float[A, B, C, D, E] y)",
            "int64[1] last = {3}, int64[4] parts = {-1, 5, 2, 2}",
        )
    )
    for size in (0, 2):
        result = Session(document.model).run({"x": np.ones((size, 5, 4, 3), np.float32)})
        assert result.outputs["y"].shape == (size, 5, 2, 2, 3)


@pytest.mark.parametrize(
    ("body", "constants", "reasons"),
    [
        ("m = Gemm(x, w) y = Mul(m, s)", "float[2, 2] w = {1, 2, 3, 4}, float s = {3}", {
            ("fuse_mul_into_conv", "w has 0 MiB; weights of at most 0 MiB are computed with"),
        }),
        ("m = Mul(x, s) y = Gemm(m, w)", "float[2, 2] w = {1, 2, 3, 4}, float s = {3}", {
            ("fuse_preceding_mul_into_conv", "w has 0 MiB; weights of at most 0 MiB are computed with"),
        }),
        ("a = MatMul(x, v) b = MatMul(x, w) c = MatMul(x, u) y = Concat<axis = 1>(a, b, c)",
         "float[2, 2] v = {1, 2, 3, 4}, float[2, 2] w = {1, 2, 3, 5}, float[2, 2] u = {1, 2, 3, 6}", {
            ("fuse_qkv", "v has 0 MiB; weights of at most 0 MiB are computed with"),
        }),
    ],
)  # fmt: skip
def test_a_fusion_that_large_weights_prevent_is_said(body: str, constants: str, reasons: set[tuple[str, str]]) -> None:
    text = graph(body, "(float[1, 2] x) => (float[1, n] y)", constants)
    assert {(r.pass_id, r.reason) for r in simplified(text, work_limit=15)[1].refusals} == reasons
    assert not simplified(text, work_limit=48)[1].refusals, "and they are fused"


def test_weights_that_are_too_large_together_are_said() -> None:
    constants = "float[2, 2] v = {1, 2, 3, 4}, float[2, 2] w = {1, 2, 3, 5}, float[2, 2] u = {1, 2, 3, 6}"
    body = "a = MatMul(x, v) b = MatMul(x, w) c = MatMul(x, u) y = Concat<axis = 1>(a, b, c)"
    _, report = simplified(graph(body, "(float[1, 2] x) => (float[1, 6] y)", constants), work_limit=47)
    reason = "its weights have 0 MiB together; at most 0 MiB are merged"
    assert [(r.pass_id, r.reason) for r in report.refusals] == [("fuse_qkv", reason)]
