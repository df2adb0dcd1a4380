"""Each pass on its smallest case: what is left, and that it still computes the same."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inspect.equivalence import compare_models
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetGraphOutputs
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.simplify.pass_list import PASSES
from onnx_workbench.model.simplify.passes import Match, Pass
from onnx_workbench.model.simplify.pipeline import chosen_passes, simplify, survey
from tests.model import builders


def text(
    body: str,
    signature: str = "(float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y)",
    constants: str = "",
    opset: int = 17,
    ir: int = 8,
) -> str:
    """A model in ONNX text around the nodes of its graph."""
    initializers = f"<{constants}>" if constants else ""
    return f'<ir_version: {ir}, opset_import: ["" : {opset}]> g {signature} {initializers} {{ {body} }}'


def left(document: Document) -> dict[str, int]:
    """Operators of all graphs and how often each is there."""
    return dict(Counter(n.op_type for g in document.model.graph.walk() for n in g.nodes))


MATRIX = "(float[4, 3] x) => (float[4, 5] y)"
IMAGE = "(float[1, 2, 6, 6] x) => (float[1, c, h, w] y)"
WEIGHTS = (
    "float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2] s = {2.0, 0.5}, float[2] b = {1.0, -1.0}, "
    "float[2] m = {0.5, 0.25}, float[2] v = {1.0, 4.0}, float[1, 2, 1, 1] c = {2.0, 3.0}, float two = {2.0}"
)
GEMM = (
    "float[3, 5] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,2.0,3.0,4.0,5.0,6.0}, float[5] b = {1.0,2.0,3.0,4.0,5.0}"
)

CASES = [
    ("eliminate_deadend", text("y = Relu(x) z = Neg(x) u = Abs(z)"), {"Relu": 1}),
    ("eliminate_identity", text("a = Identity(x) y = Relu(a)"), {"Relu": 1}),
    ("eliminate_identity", text("a = Relu(x) y = Identity(a)"), {"Relu": 1}),
    ("eliminate_nop_dropout", text("a = Dropout(x) y = Relu(a)"), {"Relu": 1}),
    ("eliminate_nop_cast", text("a = Cast <to = 1> (x) y = Relu(a)"), {"Relu": 1}),
    ("eliminate_nop_pad", text("a = Pad(x, p) y = Relu(a)", constants="int64[8] p = {0,0,0,0,0,0,0,0}"), {"Relu": 1}),
    ("eliminate_nop_transpose", text("a = Transpose <perm = [0,1,2,3]> (x) y = Relu(a)"), {"Relu": 1}),
    (
        "eliminate_nop_flatten",
        text("a = Flatten(x) y = Relu(a)", "(float[N, 3] x) => (float[N, 3] y)"),
        {"Relu": 1},
    ),
    (
        "eliminate_nop_reshape",
        text("a = Reshape(x, s) y = Relu(a)", "(float[N, 3] x) => (float[N, 3] y)", "int64[2] s = {-1, 3}"),
        {"Relu": 1},
    ),
    ("eliminate_nop_expand", text("a = Expand(x, s) y = Relu(a)", constants="int64[2] s = {1, 1}"), {"Relu": 1}),
    ("eliminate_nop_concat", text("a = Concat <axis = 0> (x) y = Relu(a)"), {"Relu": 1}),
    ("eliminate_nop_split", text("a = Split <axis = 0> (x) y = Relu(a)", opset=13), {"Relu": 1}),
    (
        "eliminate_nop_slice",
        text("a = Slice(x, s, e, d) y = Relu(a)", constants="int64[1] s={0}, int64[1] e={99}, int64[1] d={2}"),
        {"Relu": 1},
    ),
    ("eliminate_nop_with_unit", text("a = Mul(x, o) y = Relu(a)", constants="float o = {1.0}"), {"Relu": 1}),
    (
        "fuse_consecutive_mul",
        text("a = Mul(x, o) b = Mul(two, a) y = Mul(b, o)", constants="float[5] o = {1.5,2,3,-1,0}, float two = {2.0}"),
        {"Mul": 1},
    ),
    (
        "eliminate_zero_state",
        text(
            "s = Shape(x) n = Gather(s, k) t = Concat<axis=0>(k, n, k) z = ConstantOfShape(t) "
            "o, h = LSTM <hidden_size = 1> (x, w, r, , , z, z) y = Relu(h)",
            "(float[2, N, 3] x) => (float[1, N, 1] y)",
            "float[1,4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, float[1,4,1] r = {1,2,3,4}, int64[1] k = {1}",
        ),
        {"LSTM": 1, "Relu": 1},
    ),
    ("eliminate_nop_with_unit", text("a = Add(o, x) y = Relu(a)", constants="float[1, 1] o = {0.0}"), {"Relu": 1}),
    (
        "eliminate_nop_reduce",
        text("a = ReduceMean <axes = [1]> (x) y = Relu(a)", "(float[2, 1] x) => (float[2, 1] y)"),
        {"Relu": 1},
    ),
    (
        "eliminate_nop_resize",
        text("a = Resize(x, , s) y = Relu(a)", constants="float[4] s = {1.0, 1.0, 1.0, 1.0}"),
        {"Relu": 1},
    ),
    (
        "eliminate_nop_monotone_argmax",
        text("a = Softmax <axis = 1> (x) y = ArgMax <axis = 1> (a)", "(float[2, 9] x) => (int64[2, 1] y)"),
        {"ArgMax": 1},
    ),
    ("eliminate_consecutive_idempotent_ops", text("a = Relu(x) y = Relu(a)"), {"Relu": 1}),
    (
        "eliminate_squeeze_unsqueeze",
        text("a = Unsqueeze(x, d) b = Squeeze(a, d) y = Relu(b)", constants="int64[1] d = {1}"),
        {"Relu": 1},
    ),
    (
        "eliminate_shape_gather",
        text("a = Shape(x) y = Gather(a, i)", "(float[N, 3] x) => (int64[1] y)", "int64[1] i = {0}"),
        {"Shape": 1},
    ),
    (
        "rewrite_where",
        text("n = Not(c) y = Where(n, x, x2)", "(bool[3] c, float[3] x, float[3] x2) => (float[3] y)"),
        {"Where": 1},
    ),
    ("fold_shape_values", text("s = Shape(x) t = Reshape(x, s) y = Relu(t)"), {"Reshape": 1, "Relu": 1}),
    ("fold_constants", text("c = Add(a, a) y = Mul(x, c)", constants="float a = {3.0}"), {"Mul": 1}),
    ("extract_constant_to_initializer", text("c = Constant <value_float = 2.0> () y = Mul(x, c)"), {"Mul": 1}),
    ("eliminate_common_subexpression", text("a = Neg(x) b = Neg(x) y = Add(a, b)"), {"Neg": 1, "Add": 1}),
    (
        "eliminate_equal_sizes",
        text(
            "r = Relu(x) a = Shape(x) b = Shape(r) y = Add(a, b) z = Relu(r)",
            "(float[N, M] x) => (int64[2] y, float[N, M] z)",
        ),
        {"Relu": 2, "Shape": 1, "Add": 1},
    ),
    (
        "eliminate_if_with_const_cond",
        text(
            "y = If(c) <then_branch = t () => (float[2] a) { a = Relu(x) },"
            " else_branch = e () => (float[2] b) { n = Neg(x) b = Abs(n) }>",
            "(float[2] x) => (float[2] y)",
            "bool c = {0}",
        ),
        {"Neg": 1, "Abs": 1},
    ),
    (
        "eliminate_loop_with_const_trip_count",
        text(
            "y = Loop(n, , x) <body = b (int64 i, bool k, float[2] v) => (bool o, float[2] w)"
            " { o = Identity(k) w = Relu(v) }>",
            "(float[2] x) => (float[2] y)",
            "int64 n = {1}",
        ),
        {"Relu": 1},
    ),
    (
        "eliminate_loop_with_const_trip_count",  # two turns of what is one node beside counting
        text(
            "y = Loop(n, , x, zero) <body = b (int64 i, bool k, float[2] v, int64 s) => (bool o, float[2] w, int64 t)"
            " { t = Add(s, i) o = Less(t, nine) w = Relu(v) }>",
            "(float[2] x) => (float[2] y)",
            "int64 n = {2}, int64 zero = {0}, int64 nine = {9}",
        ).replace("y = Loop", "y, last = Loop"),
        {"Relu": 2},
    ),
    (
        "unroll_loop_with_const_trip_count",  # the condition ends it after three turns
        text(
            "y, all = Loop(, yes, x, zero)"
            " <body = b (int64 i, bool k, float[2] v, int64 s) => (bool o, float[2] w, int64 t, float[2] u)"
            " { t = Add(s, one) o = Less(t, three) c = Cast <to = 1> (t) w = Mul(v, c) u = Neg(w) }>"
            " z = Identity(all)",
            "(float[2] x) => (float[2] y, float[3, 2] z)",
            "bool yes = {1}, int64 zero = {0}, int64 one = {1}, int64 three = {3}",
        ).replace("y, all = Loop", "y, last, all = Loop"),
        {"Mul": 3, "Neg": 3, "Unsqueeze": 3, "Concat": 1, "Identity": 1},
    ),
    (
        "fuse_consecutive_transposes",
        text("a = Transpose <perm = [0,2,3,1]> (x) b = Transpose <perm = [0,3,1,2]> (a) y = Relu(b)"),
        {"Relu": 1},
    ),
    (
        "fuse_transpose_around_elementwise",
        text("a = Transpose <perm = [0,2,3,1]> (x) b = Relu(a) y = Transpose <perm = [0,3,1,2]> (b)"),
        {"Relu": 1},
    ),
    (
        "fuse_consecutive_reshapes",
        text(
            "a = Reshape(x, s) y = Reshape(a, t)",
            "(float[2, 6] x) => (float[4, 3] y)",
            "int64[1] s = {12}, int64[2] t = {4, 3}",
        ),
        {"Reshape": 1},
    ),
    (
        "fuse_consecutive_concats",
        text("a = Concat <axis = 0> (x, x) y = Concat <axis = 0> (x, a)", "(float[2] x) => (float[6] y)"),
        {"Concat": 1},
    ),
    (
        "fuse_consecutive_squeezes",
        text(
            "a = Squeeze(x, d) y = Squeeze(a, e)",
            "(float[1, 3, 1, 2] x) => (float[3, 2] y)",
            "int64[1] d = {0}, int64[1] e = {1}",
        ),
        {"Squeeze": 1},
    ),
    (
        "fuse_consecutive_unsqueezes",
        text(
            "a = Unsqueeze(x, d) y = Unsqueeze(a, e)",
            "(float[3, 2] x) => (float[1, 3, 1, 2] y)",
            "int64[1] d = {1}, int64[1] e = {0}",
        ),
        {"Unsqueeze": 1},
    ),
    (
        "fuse_consecutive_slices",
        text(
            "a = Slice(x, one, five, zero) y = Slice(a, one, three, zero)",
            "(float[9] x) => (float[2] y)",
            "int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] five = {5}",
        ),
        {"Slice": 1},
    ),
    (
        "fuse_consecutive_slices",
        text(
            "a = Slice(x, zero, five, zero) b = Slice(a, zero, five, one) c = Slice(a, one, three, one)"
            " y = Concat <axis = 1> (b, c)",
            "(float[6, 6] x) => (float[5, 7] y)",
            "int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] five = {5}",
        ),
        {"Slice": 2, "Concat": 1},
    ),
    (
        "fuse_consecutive_reduce_unsqueeze",
        text(
            "a = ReduceMax <axes = [1], keepdims = 0> (x) y = Unsqueeze(a, d)",
            "(float[2, 3] x) => (float[2, 1] y)",
            "int64[1] d = {1}",
        ),
        {"ReduceMax": 1},
    ),
    ("fuse_consecutive_log_softmax", text("a = Softmax <axis = 1> (x) y = Log(a)"), {"LogSoftmax": 1}),
    (
        "fuse_bn_into_conv",
        text("a = Conv(x, w, b) y = BatchNormalization(a, s, b, m, v)", IMAGE, WEIGHTS),
        {"Conv": 1},
    ),
    (
        "fuse_bn_into_conv",
        text("a = ConvTranspose(x, w) y = BatchNormalization(a, s, b, m, v)", IMAGE, WEIGHTS),
        {"ConvTranspose": 1},
    ),
    ("fuse_add_bias_into_conv", text("a = Conv(x, w) y = Add(a, c)", IMAGE, WEIGHTS), {"Conv": 1}),
    ("fuse_mul_into_conv", text("a = Conv(x, w, b) y = Mul(c, a)", IMAGE, WEIGHTS), {"Conv": 1}),
    ("fuse_preceding_mul_into_conv", text("a = Mul(x, two) y = Conv(a, w, b)", IMAGE, WEIGHTS), {"Conv": 1}),
    (
        "fuse_pad_into_conv",
        text("a = Pad(x, p) y = Conv(a, w)", IMAGE, WEIGHTS + ", int64[8] p = {0,0,1,2,0,0,3,1}"),
        {"Conv": 1},
    ),
    (
        "fuse_pad_into_pool",
        text(
            "a = Pad(x, p) y = AveragePool <kernel_shape = [3,3], count_include_pad = 1> (a)",
            IMAGE,
            "int64[8] p = {0,0,1,1,0,0,1,1}",
        ),
        {"AveragePool": 1},
    ),
    ("fuse_matmul_add_bias_into_gemm", text("a = MatMul(x, w) y = Add(a, b)", MATRIX, GEMM), {"Gemm": 1}),
    (
        "fuse_transpose_into_gemm",
        text("t = Transpose(x) y = Gemm(t, w, b)", "(float[3, 4] x) => (float[4, 5] y)", GEMM),
        {"Gemm": 1},
    ),
    (
        "fuse_bn_into_gemm",
        text("a = Gemm(x, w, b) y = BatchNormalization(a, b, b, b, b)", MATRIX, GEMM),
        {"Gemm": 1},
    ),
    (
        "fuse_qkv",
        text(
            "a = MatMul(x, w) b = MatMul(x, v) p = Add(a, i) q = Add(j, b) r = Softmax(q) y = Concat <axis = 2> (p, r)",
            "(float[2, N, 2] x) => (float[2, N, 5] y)",
            "float[2, 2] w = {1.0,2.0,3.0,4.0}, float[2, 3] v = {5.0,6.0,7.0,8.0,9.0,1.0}, float[2] i = {1.0,2.0}, "
            "float[3] j = {3.0,4.0,5.0}",
        ),
        {"MatMul": 1, "Add": 1, "Split": 1, "Softmax": 1, "Concat": 1},
    ),
    (
        "fuse_qkv",
        text(
            "a = MatMul(x, w) b = MatMul(x, v) c = MatMul(x, u) d = Add(a, b) y = Sub(d, c)",
            "(float[2, 2] x) => (float[2, 2] y)",
            "float[2, 2] w = {1.0,2.0,3.0,4.0}, float[2, 2] v = {5.0,6.0,7.0,8.0}, float[2, 2] u = {1.0,0.0,0.5,1.0}",
            opset=12,
            ir=6,
        ),
        {"MatMul": 1, "Split": 1, "Add": 1, "Sub": 1},
    ),
    ("fuse_add_into_gemm", text("a = Gemm(x, w) y = Add(a, b)", MATRIX, GEMM), {"Gemm": 1}),
]


@pytest.mark.long
@pytest.mark.parametrize(("identifier", "before", "after"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_a_pass_reaches_the_smallest_form(identifier: str, before: str, after: dict[str, int]) -> None:
    document = builders.document(before)
    original = builders.model(before)
    report = simplify(document, chosen_passes([identifier]), evaluate=evaluate)
    assert left(document) == after
    assert list(report.applied) == [identifier]
    agreement = compare_models(original, document.model, runs=2)
    assert agreement.agrees, str(agreement)


@pytest.mark.parametrize(("identifier", "before", "after"), CASES[::3], ids=[c[0] for c in CASES[::3]])
def test_a_pass_is_taken_back_by_undo(identifier: str, before: str, after: dict[str, int]) -> None:
    document = builders.document(before)
    earlier = left(document)
    simplify(document, chosen_passes([identifier]), evaluate=evaluate)
    while document.undo():
        pass
    assert left(document) == earlier != after


def test_a_survey_finds_the_match_and_changes_nothing() -> None:
    document = builders.document(CASES[1][1])
    found = survey(document.model, evaluate=evaluate).found
    assert [[n.op_type for n in m.nodes] for m in found["eliminate_identity"]] == [["Identity"]]
    assert left(document) == {"Identity": 1, "Relu": 1}


@pytest.mark.long
def test_a_survey_finds_every_match() -> None:
    """It ended at 10,000, of which the dialog said that they were all."""
    document = builders.document(text("y = Relu(x)"))
    graph = document.model.graph
    with document.edit("Add") as edit:
        end = graph.outputs[0]
        for number in range(12_000):
            end, given = Value(f"v{number + 1}"), end
            edit.do(InsertNode(graph, Node("Identity", (given,), (end,))))
        edit.do(SetGraphOutputs(graph, (end,)))
    found = survey(document.model, chosen_passes(["eliminate_identity"])).found
    assert len(found["eliminate_identity"]) == 12_000


def test_every_pass_has_words_for_people() -> None:
    assert len({p.id for p in PASSES}) == len(PASSES)
    assert all(p.title and p.doc.endswith(".") for p in PASSES)


VIEW = """
    s0 = Shape(x) a = Gather(s0, i0) s1 = Shape(x) b = Gather(s1, i1) s2 = Shape(x) c = Gather(s2, i3)
    s3 = Shape(x) d = Gather(s3, i2) ua = Unsqueeze(a, z) ub = Unsqueeze(b, z) uc = Unsqueeze(c, z) ud = Unsqueeze(d, z)
    t = Concat <axis = 0> (ua, ub, uc, ud) y = Reshape(x, t)
"""
INDICES = "int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}, int64 i3 = {3}, int64[1] z = {0}"


@pytest.mark.parametrize("dims", ["2, 3, 4, 5", "N, 3, 4, 5", "N, 3, H, 5", "N, C, 4, 5", "2, 3, 4, W"])
def test_the_exported_view_becomes_one_reshape(dims: str) -> None:
    given = text(VIEW, f"(float[{dims}] x) => (float[a, b, c, d] y)", INDICES)
    document = builders.document(given)
    simplify(document, evaluate=evaluate)
    assert left(document) == {"Reshape": 1}
    assert compare_models(builders.model(given), document.model).agrees


def test_bodies_are_simplified_too() -> None:
    document = builders.document(
        text(
            "y = If(c) <then_branch = t () => (float[2] a) { i = Identity(x) k = Add(o, o) a = Mul(i, k) },"
            " else_branch = e () => (float[2] b) { b = Neg(x) }>",
            "(float[2] x, bool c) => (float[2] y)",
            "float o = {1.0}",
        )
    )
    simplify(document, evaluate=evaluate)
    assert left(document) == {"If": 1, "Mul": 1, "Neg": 1}


def test_only_chosen_nodes_are_touched() -> None:
    from onnx_workbench.model.simplify.passes import SimplifyOptions

    document = builders.document(text("[one] a = Identity(x) [two] b = Identity(a) y = Relu(b)"))
    options = SimplifyOptions(nodes=frozenset({builders.node(document, "two")}))
    simplify(document, evaluate=evaluate, options=options)
    assert [n.name for n in document.model.graph.nodes][:1] == ["one"]
    assert left(document) == {"Identity": 1, "Relu": 1}


def test_a_pass_that_raises_is_taken_back_and_skipped():
    def find(context):
        for node in context.nodes("Relu"):
            yield Match("half done", (node,), partial(break_off, node))

    def break_off(node, rewriter):
        rewriter.set_attribute(node, "alpha", 1.0)
        raise AttributeError("no such thing")

    broken = Pass("broken", "Broken", "Raises in the middle.", find)
    document = Document(builders.model(text("a = Identity(x) b = Relu(a) y = Identity(b)")))
    report = simplify(document, [broken, *chosen_passes(["eliminate_identity"])], evaluate=evaluate)
    assert report.failed == {"broken": "AttributeError: no such thing"}
    assert left(document) == {"Relu": 1}
    assert all(not node.attributes for node in document.model.graph.nodes)


def test_a_pass_that_raises_while_it_looks_is_skipped_in_a_survey():
    def find(context):
        raise ValueError(context)
        yield

    broken = Pass("broken", "Broken", "Raises.", find)
    looked = survey(builders.model(text("a = Identity(x) y = Relu(a)")), [broken])
    assert looked.found == {"broken": []}
    assert looked.failed["broken"].startswith("ValueError: ")
