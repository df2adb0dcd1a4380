import subprocess
import sys
import textwrap

import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.edits.declare_types import declare_all
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.inference import disagreements, infer
from onnx_workbench.model.inference.type_lattice import refined
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.types import ElementType, MapType, SequenceType, Shape, SparseTensorType, TensorType
from onnx_workbench.model.text.types import parse_type
from tests.model import builders


def inferred(body, *, inputs="float[N, 4] x", opset=18, imports="", rules=None, functions=""):
    model = builders.model(f"""
        <ir_version: 10, opset_import: ["" : {opset}{imports}]>
        g ({inputs}) => (float[M] y) {{ {body} }}
        {functions}
    """)
    found = infer(model, rules)
    return lambda name: found.types.get(builders.value(model, name))


def tensor(*dims, kind=ElementType.FLOAT):
    return TensorType(kind, Shape(dims))


def test_a_wrong_declaration_is_not_believed():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2, 4] x) => (float[8, 8] y) <float[3] a> { a = Relu(x) y = Neg(a) }
    """)
    found = infer(model)
    wrong = {
        value.name: (declared.shape.dims, kind.shape.dims) for value, declared, kind in disagreements(model, found)
    }
    assert wrong["y"] == ((8, 8), (2, 4))
    document = Document(model)
    with document.edit("Declare") as edit:
        assert declare_all(edit, found) > 0
    assert list(disagreements(model, found)) == []
    assert builders.value(model, "y").type == tensor(2, 4)


@pytest.mark.parametrize(
    ("found", "declared", "together"),
    [
        ("float[?,3]", "float[n,4]", "float[n,3]"),
        ("float[?,?]", "float[n,3]", "float[n,3]"),
        ("float[2,a]", "float[n,b]", "float[2,a]"),
        ("float[?]", "float[n,3]", "float[?]"),
        ("float[?]", "int64[n]", "float[?]"),
        ("float[?]", "sparse_tensor(float[n])", "float[?]"),
        ("float", "float[n,3]", "float[n,3]"),
        ("float[n,3]", "float", "float[n,3]"),
        ("undefined[?]", "float[n]", "float[n]"),
        ("seq(float[?])", "seq(float[n])", "seq(float[n])"),
        ("optional(seq(float))", "optional(seq(float[2]))", "optional(seq(float[2]))"),
        ("map(int64,float[?])", "map(int64,float[n])", "map(int64,float[n])"),
        ("map(int64,float[?])", "map(string,float[n])", "map(int64,float[?])"),
        ("seq(float[?])", "float[n]", "seq(float[?])"),
    ],
)
def test_what_is_inferred_and_what_is_declared_say_more_together(found, declared, together):
    assert refined(parse_type(found), parse_type(declared)) == parse_type(together)


def test_a_shape_put_together_from_pieces():
    types = inferred(
        """
        s = Shape(x) zero = Constant<value_ints: ints = [0]>() n = Gather(s, zero)
        rest = Constant<value_ints: ints = [2, -1]>() wanted = Concat<axis = 0>(n, rest) y = Reshape(x, wanted)
        """
    )
    assert types("y").shape.rank == 3
    assert types("y").shape.dims[:2] == ("N", 2)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("y = com.microsoft.Gelu(x)", tensor("N", 4)),
        ("a = Constant<value: tensor = int32[1] {1}>() y = com.microsoft.ExpandDims(x, a)", tensor("N", 1, 4)),
        ("a = Constant<value: tensor = int32 {-1}>() y = com.microsoft.ExpandDims(x, a)", tensor("N", 4, 1)),
        ("y = com.microsoft.ExpandDims(x, z)", tensor(None, None, None)),
        ("y = com.microsoft.FusedMatMul<transA = 1>(x, x)", tensor(4, 4)),
        ("y, m = com.microsoft.BiasDropout(x, x)", tensor("N", 4)),
        ("y = com.microsoft.MatMulNBits<K = 4, N = 7, bits = 4, block_size = 16>(x, x, x)", tensor("N", 7)),
        ("y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z)", tensor("N", 4)),
        ("y = com.microsoft.FusedGemm<transB = 1>(x, x)", tensor("N", "N")),
        ("y = com.microsoft.QGemm<transB = 1>(x, s, z, x, s, z)", tensor("N", "N")),
        ("y = com.microsoft.GemmFloat8<transB = 1>(x, x)", tensor("N", "N")),
        ("y = com.microsoft.BiasSplitGelu(x, x)", tensor("N", 2)),
        ("y = com.microsoft.LongformerAttention<num_heads = 1, window = 2>(x, x, x, x, x, x, x)", tensor("N", 4)),
        (
            "k = Constant<value_int = 7>() y = com.microsoft.RelativePositionBias<max_distance = 5>(x, k, k)",
            tensor(1, 4, 7, 7),
        ),
        (
            "l = Constant<value_ints = [0, 1]>() k = Unsqueeze(x, l) y = com.microsoft.NhwcConv(k, k)",
            tensor(1, 1, None, 1),
        ),
        ("i = Constant<value_ints = [1, 2]>() y = com.microsoft.GatherBlockQuantized(x, i, x)", tensor(2, 4)),
        ("y = com.microsoft.GroupQueryAttention<num_heads = 1, kv_num_heads = 1>(x, x, x)", tensor("N", 4)),
    ],
)
def test_operators_of_microsoft(call, expected):
    types = inferred(call, inputs="float[N, 4] x, float s, float z", imports=', "com.microsoft" : 1')
    assert types("y") == expected


def test_casts_name_their_type_before_version_6():
    types = inferred('a = Cast<to = "INT32">(x) y = Abs(a)', opset=5)
    assert types("a") == tensor("N", 4, kind=ElementType.INT32)


def test_a_product_of_integers_has_the_type_of_its_scales():
    types = inferred(
        """
        a = Cast<to = 2>(x) b = Transpose(a) h = Cast<to = 10>(s)
        y = com.microsoft.MatMulIntegerToFloat(a, b, h, h) z = com.microsoft.MatMulIntegerToFloat(a, b, s, s)
        """,
        inputs="float[N, 4] x, float s",
        imports=', "com.microsoft" : 1',
    )
    assert [types(name).element_type for name in "yz"] == [ElementType.FLOAT16, ElementType.FLOAT]


def test_what_follows_an_operator_of_microsoft_is_known_too():
    types = inferred(
        "a = com.microsoft.Gelu(x) b = Transpose(a) c = com.microsoft.FastGelu(b) y = MatMul(x, c)",
        imports=', "com.microsoft" : 1',
    )
    assert types("y") == tensor("N", "N")


@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [
        ("y = ai.onnx.ml.Scaler(x)", "y", tensor("N", 4)),
        ("y, p = ai.onnx.ml.SVMClassifier<classlabels_ints = [1, 2, 3]>(x)", "p", tensor("N", 3)),
        ("y = ai.onnx.ml.LinearRegressor<targets = 2>(x)", "y", tensor("N", 2)),
        (
            'y = ai.onnx.ml.ZipMap<classlabels_strings = ["a"]>(x)',
            "y",
            SequenceType(MapType(ElementType.STRING, tensor())),
        ),
        ("y = ai.onnx.ml.OneHotEncoder<cats_int64s = [1, 2]>(x)", "y", tensor("N", 4, 2)),
        (
            "i = ArgMax<axis = 1>(x) c = Constant<value_ints = [7, 8, 9]>() y = ai.onnx.ml.ArrayFeatureExtractor(c, i)",
            "y",
            tensor(1, "N", kind=ElementType.INT64),
        ),
        ("y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [4, 4]>(x, x)", "y", tensor("N", 8)),
    ],
)  # fmt: skip
def test_operators_of_traditional_machine_learning(call, name, expected):
    assert inferred(call, imports=', "ai.onnx.ml" : 3')(name) == expected


def test_heads_that_reshape_splits_off_are_none_of_size_zero():
    """The -1 is an exact quotient: where x has elements, it is not the 0 that would copy a size."""
    types = inferred(
        "n = Shape<start = 0, end = 2>(x) m = Constant<value_ints = [3, -1]>() to = Concat<axis = 0>(n, m)"
        " a = Reshape(x, to) h = Shape<start = 3>(a) s = Shape<end = 3>(z) all = Concat<axis = 0>(s, h)"
        " y = Reshape(z, all)",
        inputs="float[N, S, D] x, float[N, 3, T, P, ?] z",
    )
    assert types("y").shape.dims == ("N", 3, "T", types("a").shape.dims[3])


def test_what_a_subgraph_learns_from_formulas_reaches_its_node():
    types = inferred(
        "n = Shape<start = 0, end = 2>(x) m = Constant<value_ints = [4, -1]>() to = Concat<axis = 0>(n, m)"
        " k = Reshape(x, to) t = Transpose<perm = [1, 0, 2, 3]>(k) b = Shape<start = 0, end = 1>(x)"
        " l = Shape<start = 2>(x) f = Constant<value_ints = [4]>() d = Div(l, f) zeros = Concat<axis = 0>(b, f, d, d)"
        " state = ConstantOfShape(zeros) y, all = Scan<num_scan_inputs = 1, body = g (float i, float k_t) =>"
        " (float o, float p) { c = Constant<value_ints = [-1]>() u = Unsqueeze(k_t, c)"
        " v = Constant<value_ints = [-2]>() w = Unsqueeze(k_t, v) z = MatMul(u, w) o = Add(i, z)"
        " p = Identity(k_t) }>(state, t)",
        inputs="float[N, S, D] x",
    )
    assert types("y").shape.dims[:2] == ("N", 4)


def test_an_operator_nobody_knows_follows_the_rule_of_the_user():
    body, imports = "a = my.own.Magic(x) y = Transpose(a)", ', "my.own" : 1'
    assert inferred(body, imports=imports)("y") is None
    types = inferred(body, imports=imports, rules={"my.own::Magic": "same as input 0"})
    assert types("y") == tensor(4, "N")


def test_a_missing_import_stops_nothing_else():
    types = inferred("a = Relu(x) b = my.own.Magic(a) y = Transpose(a)")
    assert types("y") == tensor(4, "N")
    assert types("b") is None


def test_inside_bodies_and_functions():
    model = builders.model(builders.BRANCHES)
    found = infer(model)
    for name in ("d", "yes_out", "no_out", "z", "y"):
        assert found.types[builders.value(model, name)] == tensor(4), name
    function = model.functions[0]
    assert found.types[function.body.inputs[0]] == tensor(4)
    assert found.types[builders.value(model, "f")] == tensor()
    assert found.types[function.body.outputs[0]] == tensor(4)


def test_large_weights_play_no_part(tmp_path):
    import numpy as np
    import onnx

    path = tmp_path / "m.onnx"
    big = onnx.helper.make_tensor(
        "w", onnx.TensorProto.FLOAT, (4, 1 << 20), np.zeros(4 << 20, np.float32).tobytes(), raw=True
    )
    proto = builders.proto("""
        <ir_version: 10, opset_import: ["" : 18]> g (float[N, 4] x) => (float[N, M] y) { y = MatMul(x, w) }
    """)
    proto.graph.initializer.append(big)
    path.write_bytes(proto.SerializeToString())
    model = load(path)
    assert infer(model).types[builders.value(model, "y")] == tensor("N", 1 << 20)


def test_functions_that_call_each_other_without_end():
    types = inferred(
        "y = loc.f(x)",
        imports=', "loc" : 1',
        functions='<domain: "loc", opset_import: ["" : 18, "loc" : 1]> f (a) => (b) { b = loc.f(a) }',
    )
    assert types("y") is None


def test_after_an_edit_the_new_values_are_known():
    document = builders.document()
    node = builders.one_edit(document, nodes.insert_on_edge, builders.value(document, "r"), "Transpose")
    assert infer(document.model).types[node.outputs[0]] == tensor(4, "N")


def test_real_models_are_known_almost_everywhere(real_models):
    known = total = 0
    for path in real_models.files():
        model = load(path)
        found = infer(model)
        for graph in model.graphs():
            for value in (v for n in graph.nodes for v in n.outputs if v is not None):
                kind = found.types.get(value)
                total += 1
                known += kind is not None and not (
                    isinstance(kind, (TensorType, SparseTensorType)) and kind.shape is None
                )
    assert known / total >= 0.997


def test_declaring_what_was_inferred_keeps_real_models_legal(real_models):
    document = Document(load(real_models / "bert_mini_ort_extended" / "model.onnx"))
    with document.edit("Declare") as edit:
        assert declare_all(edit, infer(document.model)) > 20
    assert [p for p in check_model(document.model) if p.severity == "error"] == []
    document.undo()
    assert not document.modified


def test_a_declared_type_says_what_a_user_meant():
    document = builders.document()
    with document.edit("Type") as edit:
        values.set_type(edit, builders.value(document, "a"), TensorType(ElementType.FLOAT, Shape((7, 4))))
    found = infer(document.model)
    assert found.types[builders.value(document, "a")] == tensor("N", 4)
    assert list(disagreements(document.model, found)) == []


def loop(body, *, inputs="float[2, 3] x, int64 n"):
    """Types inside and behind a Loop that carries x."""
    text = f"""
        <ir_version: 10, opset_import: ["" : 18]>
        g ({inputs}) => (float[A, B] y) {{
            end = Loop(n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w)
                {{ d = Identity(c) {body} }}>
            y = Identity(end)
        }}
    """
    model = builders.model(text.replace("float v", "float[p, q] v").replace("float w", "float[r, s] w"))
    found = infer(model)
    return lambda name: found.types.get(builders.value(model, name))


def test_what_a_loop_leaves_as_it_is_keeps_its_sizes():
    types = loop("a = Relu(v) w = Neg(a)")
    assert types("end") == tensor(2, 3)


def test_what_a_loop_enlarges_has_no_size_in_that_direction():
    types = loop("a = Relu(v) w = Concat <axis = 0> (a, a)")
    assert types("a").shape.dims[1:] == (3,)
    assert not isinstance(types("a").shape.dims[0], int)
    assert not isinstance(types("end").shape.dims[0], int)


def test_a_size_of_0_that_onnx_leaves_open_is_known():
    model = builders.model("""
        <ir_version: 8, opset_import: ["" : 8]>
        g (float[0, 4] x) => (float[N, 4] y) {
            a = Slice <axes: ints = [0], starts: ints = [1], ends: ints = [2]> (x)
            y = Neg (a)
        }
    """)
    assert infer(model).type_of(builders.value(model, "a")) == tensor(0, 4)


def test_sizes_found_late_reach_what_follows():
    types = inferred(
        "a = my.own.Magic(x) s = Shape(a) k = Constant<value_ints: ints = [0]>() n = Gather(s, k) y = Expand(x, s)",
        imports=', "my.own" : 1',
        rules={"my.own::Magic": "same as input 0"},
    )
    assert types("s") == tensor(2, kind=ElementType.INT64)
    assert types("n") == tensor(1, kind=ElementType.INT64)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("y = Conv <strides = [2], pads = [1, 1]> (x, w)", ("N", 5, "div(T - 1, 2) + 1")),
        ("y = MaxPool <kernel_shape = [3]> (x)", ("N", 4, "T - 2")),
        ("y = ConvTranspose <strides = [2], pads = [1, 1], output_padding = [1]> (x, v)", ("N", 4, "2*T")),
        ("y = Concat <axis = 0> (x, x)", ("2*N", 4, "T")),
        ("y = Resize(x, , f)", ("N", 4, "2*T")),
        ("y = Slice(x, zero, four, one)", ("N", 4, "T")),
        ("y = Reshape(x, flat)", ("4*N*T",)),
        ("y = Tile(x, four3)", ("4*N", 16, "4*T")),
        ("s = Shape(x) y = Tile(x, s)", ("N*N", 16, "T*T")),
        ("y = Tile(x, endless3)", ("9223372036854775807*N", None, "9223372036854775807*T")),
        ("y = Pad(x, gone)", None),  # they are more than there is
        ("y = Pad(x, ends)", ("N", 4, "T + 3")),
        ("y = Pad(x, end, , two)", ("N", 4, "T + 4")),
        ("y = Slice(x, one, endless, two)", ("N", 4, "max(T - 1, 0)")),
        ("y = Slice(x, one, less, two)", ("N", 4, "max(T - 4, 0)")),
        ("y = Slice(x, less, endless, two)", ("N", 4, "min(3, T)")),
        ("y = Slice(x, zero, endless, two, two)", ("N", 4, "div(T + 1, 2)")),
        # What is added fits or is 1, and an even size is not.
        ("r = Resize(x, , f) c = Conv <strides = [2], pads = [1, 1]> (x, v) y = Add(r, c)", ("N", 4, "2*T")),
        ("p = Concat <axis = 2> (x, x) q = Concat <axis = 2> (p, k, k) y = Add(x, q)", ("N", 4, "2*T + 2")),
        ("p = Slice(x, one, four, two) y = Add(x, p)", ("N", 4, None)),
    ],
)
def test_sizes_follow_as_formulas_of_named_ones(call, expected):
    body = (
        "w = Constant <value = float[5, 4, 3] {" + ", ".join(["1.0"] * 60) + "}> () "
        "f = Constant <value_floats = [1.0, 1.0, 2.0]> () flat = Constant <value_ints = [-1]> () "
        "zero = Constant <value_ints = [0]> () four = Constant <value_ints = [4]> () "
        "one = Constant <value_ints = [1]> () two = Constant <value_ints = [2]> () "
        "four3 = Constant <value_ints = [4, 4, 4]> () ends = Constant <value_ints = [0, 0, 1, 0, 0, 2]> () "
        "end = Constant <value_ints = [0, 4]> () less = Constant <value_ints = [-3]> () "
        "endless = Constant <value_ints = [9223372036854775807]> () "
        "endless3 = Concat <axis = 0> (endless, endless, endless) "
        "gone = Constant <value_ints = [0, -3, 0, 0, -3, 0]> () "
        "v = Slice(w, zero, four, zero) k = ReduceSum(x, two) " + call
    )
    found = inferred(body, inputs="float[N, 4, T] x")("y").shape
    assert (None if found is None else found.dims) == expected


@pytest.mark.parametrize("size", ["?", "-1"])
def test_sizes_that_inputs_leave_open_are_named_after_them(size):
    types = inferred("a = Relu(x) y = Concat <axis = 0> (a, a)", inputs="float[?, 4] x".replace("?", size))
    assert types("a") == tensor("x_d0", 4)
    assert types("y") == tensor("2*x_d0", 4)


def test_what_nobody_named_is_open():
    types = inferred("n = NonZero(x) a = Transpose(n) y = Relu(x)")
    assert types("a").shape.dims == (None, 2)


def test_names_of_the_file_stay_even_those_that_look_made_up():
    types = inferred("y = Relu(x)", inputs="float[unk__7, 4] x")
    assert types("y") == tensor("unk__7", 4)


def test_sizes_of_attention_are_inferred_through_functions(real_models):
    model = load(real_models / "bert_mini_functions" / "model.onnx")
    found = infer(model).types
    assert found[builders.value(model, "softmax")].shape.dims == ("batch", 2, "seq", "seq")
    open_sizes = [
        value.name
        for graph in model.graphs()
        for value in graph.values()
        if isinstance(kind := found.get(value), TensorType) and (kind.shape is None or None in kind.shape.dims)
    ]
    assert open_sizes == []


def test_what_is_cut_down_to_the_size_of_another_fits_it():
    types = inferred(
        """
        zero = Constant<value_ints: ints = [0]>() s = Shape(x) n = Gather(s, zero)
        rows = Constant<value_ints: ints = [512, 4]>() table = ConstantOfShape(rows)
        part = Slice(table, zero, n, zero) y = Add(x, part)
        """
    )
    assert types("part") == tensor("min(512, N)", 4)
    assert types("y") == tensor("N", 4)


def test_a_range_between_bounds_that_were_converted():
    types = inferred(
        """
        zero = Constant<value_float: float = 0.0>() one = Constant<value_float: float = 1.0>()
        s = Shape<end = 1>(x) n = Squeeze(s) first = CastLike(zero, n) step = CastLike(one, n)
        y = Range(first, n, step)
        """
    )
    assert types("y") == tensor("N", kind=ElementType.INT64)


def test_a_function_keeps_the_types_of_its_first_call():
    functions = '<opset_import: ["" : 18], domain: "f"> Twice (a) => (b) { c = Neg(a) b = Neg(c) }'
    model = builders.model(f"""
        <ir_version: 10, opset_import: ["" : 18, "f" : 1]>
        g (float[N, 4] x) => (float[M] y) {{ n = NonZero(x) m = Cast<to = 1>(n) o = f.Twice(m) y = f.Twice(x) }}
        {functions}
    """)
    found = infer(model)
    assert found.types[builders.value(model, "y")] == tensor("N", 4)
    inner = next(iter(model.functions)).body.nodes[0].outputs[0]
    assert found.types[inner] == tensor(2, None)


def test_types_in_a_function_follow_what_its_calls_give():
    """The type of a Cast whose `to` the call gives was unknown, and so was all behind it."""
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18, "f" : 1]>
        g (float[N, 4] x) => (double[M] y, float[K] whole, float[L] default) {
            y = f.Outer<kind = 11>(x) o = f.Outer<kind = 7>(x) whole = Cast<to = 1>(o) default = f.Shaped(x)
        }
        <opset_import: ["" : 18, "f" : 1], domain: "f"> Outer <kind> (a) => (b) {
            c = f.Inner<to = @kind>(a) b = Neg(c)
        }
        <opset_import: ["" : 18], domain: "f"> Inner <to> (a) => (b) { c = Cast<to = @to>(a) b = Identity(c) }
        <opset_import: ["" : 18], domain: "f"> Shaped <size: ints = [2, 2]> (a) => (b) {
            s = Constant<value_ints = @size>() b = Reshape(a, s)
        }
    """)
    found = infer(model)
    assert found.types[builders.value(model, "y")] == tensor("N", 4, kind=ElementType.DOUBLE)
    assert found.types[builders.value(model, "o")] == tensor("N", 4, kind=ElementType.INT64)
    assert found.types[builders.value(model, "default")] == tensor(2, 2)
    cast = next(f for f in model.functions if f.name == "Inner").body.nodes[0].outputs[0]
    assert found.types[cast] == tensor("N", 4, kind=ElementType.DOUBLE)  # as of the first call


def test_only_numbers_and_names_of_the_model_are_written():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 4] x, float[?, 4] free) => (float[M] y) {
            twice = Concat<axis = 0>(x, x) n = NonZero(x) kept = Relu(free) both = Concat<axis = 1>(x, x) y = Neg(both)
        }
    """)
    found = infer(model)
    assert found.types[builders.value(model, "twice")] == tensor("2*N", 4)
    document = Document(model)
    builders.one_edit(document, declare_all, found)
    written = {value.name: value.type.shape.dims for value in model.graph.values() if value.type is not None}
    assert written == {
        "x": ("N", 4),
        "free": (None, 4),
        "twice": (None, 4),
        "n": (2, None),
        "kept": (None, 4),
        "both": ("N", 8),
        "y": ("N", 8),
    }
    with document.edit("Declare again") as edit:
        assert declare_all(edit, found) == 0


def test_what_a_user_declared_stays_where_inference_knows_no_more():
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 4] x) => (int64[2, found] y) <int64[two, found] n> { n = NonZero(x) y = Neg(n) }
    """)
    document = Document(model)
    with document.edit("Declare") as edit:
        assert declare_all(edit, infer(model)) == 1
    assert builders.value(model, "n").type.shape.dims == (2, "found")
    assert builders.value(model, "y").type.shape.dims == (2, "found")


def test_an_element_type_nobody_knows_stops_nothing_else(tmp_path):
    import onnx

    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 4] x) => (float[M] y) <float[2] w = {1.0, 2.0}> { y = Relu(x) }
    """)
    proto = onnx.ModelProto.FromString(to_bytes(model))
    proto.graph.initializer[0].data_type = 99
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    model = load(path)
    found = infer(model)
    assert found.types[builders.value(model, "y")] == tensor("N", 4)


@pytest.mark.parametrize("stray", ["beside another value", "of a second name", "of a reference"])
def test_a_graph_where_no_body_is_stops_nothing_else(tmp_path, stray):
    import onnx

    body = onnx.helper.make_graph([], "stray", [], [])
    node = onnx.helper.make_node("If", ["c"], ["z"])
    node.attribute.append(onnx.helper.make_attribute("then_branch", body))
    match stray:
        case "beside another value":
            node.attribute[0].type, node.attribute[0].i = onnx.AttributeProto.INT, 1
        case "of a second name":
            node.attribute.append(node.attribute[0])
        case "of a reference":
            node.attribute[0].ref_attr_name = "other"
    proto = onnx.ModelProto.FromString(to_bytes(builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 4] x, bool c) => (float[M] y) { y = Relu(x) }
    """)))  # fmt: skip
    proto.graph.node.append(node)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    model = load(path)
    found = infer(model)
    assert found.types[builders.value(model, "y")] == tensor("N", 4)


@pytest.mark.parametrize(
    "sizes",
    [
        "u = Unsqueeze (s, one) t = Concat <axis = 1> (u, u) g = Gather <axis = 0> (t, i)",
        "u = Unsqueeze (s, z) t = Concat <axis = 0> (u, u) r = Slice (t, z, one) g = Squeeze (r, z)",
        "u = Unsqueeze (s, one) t = Add (s, u) g = Gather (t, i)",
    ],
)
def test_sizes_taken_from_a_matrix_of_sizes_are_not_those_of_a_list(sizes):
    model = builders.model(f"""
        <ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[3, 4] x) => (y) {{ y = l.F (x) }}
        <domain: "l", opset_import: ["" : 17]>
        F (x) => (y) {{
            z = Constant <value_ints = [0]> ()  one = Constant <value_ints = [1]> ()  i = Constant <value_int = 0> ()
            s = Shape (x)  {sizes}  y = ConstantOfShape (g)
        }}""")
    (result,) = [kind for value, kind in infer(model).types.items() if value.is_output and value.graph is model.graph]
    assert result.shape is None or result.shape.rank == 2


def test_the_library_is_given_to_no_thread_while_another_loads_it():
    """Schemas were asked of a library without functions, and the checks of a model never began."""
    code = """
        import threading
        from importlib.machinery import ExtensionFileLoader
        from onnx_workbench.model.schemas.compiled_library import library

        load, found = ExtensionFileLoader.exec_module, []

        def load_while_another_asks(loader, module):
            if module.__name__.startswith("onnx."):
                thread.start()
                thread.join(0.2)
            load(loader, module)

        thread = threading.Thread(target=lambda: found.append(hasattr(library().defs, "get_schema")))
        ExtensionFileLoader.exec_module = load_while_another_asks
        library()
        thread.join()
        assert found == [True], found
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_sizes_computed_outside_a_body_are_known_inside():
    types = inferred(
        """
        two = Constant <value_ints = [2]> ()
        list = Shape <end = 1> (x)
        shape = Concat <axis = 0> (list, two, two)
        y = If (c) <
            then_branch = t () => (float[A, B, C] o) { o = Reshape(x, shape) },
            else_branch = e () => (float[A, B, C] p) { q = Neg(x) p = Reshape(q, shape) }
        >
        """,
        inputs="float[N, 4] x, bool c",
    )
    assert types("y") == tensor("N", 2, 2)


def test_a_shape_that_refers_to_an_attribute_of_the_call():
    types = inferred(
        "y = f.dims <dims = [2, -1]> (x)",
        inputs="float[3, 4] x",
        imports=', "f" : 1',
        functions="""
        <domain: "f", opset_import: ["" : 18]>
        dims <dims> (x) => (y) {
            given = Constant <value_ints: ints = @dims> ()
            one = Constant <value_ints = [1]> ()
            shape = Concat <axis = 0> (given, one)
            y = Reshape(x, shape)
        }
        """,
    )
    assert types("y") == tensor(2, 6, 1)


def test_a_shape_of_unknown_contents_has_its_number_of_sizes():
    types = inferred("a = Neg(s) y = Reshape(x, a)", inputs="float[N, 4] x, int64[3] s")
    assert types("y") == tensor(None, None, None)


_SIZES_OF_X = "s = Shape(x) shape = Identity(s) a0 = Reshape(x, shape)"


def test_nodes_that_differ_in_a_constant_only():
    types = inferred(f"""
        {_SIZES_OF_X}
        twice = Constant<value = int64[2] {{1, 2}}>()  thrice = Constant<value = int64[2] {{1, 3}}>()
        a = Tile(a0, twice)  y = Tile(a0, thrice)
        b = Transpose<perm = [0, 1]>(a0)  c = Transpose<perm = [1, 0]>(a0)
    """)
    assert types("a") == tensor("N", 8)
    assert types("y") == tensor("N", 12)
    assert types("b") == tensor("N", 4)
    assert types("c") == tensor(4, "N")
