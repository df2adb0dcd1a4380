"""Files made to hurt, by category; every choice comes from a random generator, so that a seed makes the same again."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

#: Numbers that counts, sizes and offsets are tried with.
NUMBERS = (-(1 << 63), -(1 << 31), -2, -1, 0, 1, 3, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1)
#: Texts that names are tried with; QQ becomes bytes that are no UTF-8.
TEXTS = ("", " ", "QQ", "a\0b", "\n", "../../x", "<b>x", "x" * 70_000, "\u202eabc", "\U0001f600", "%s%n", "-o")


@dataclass(frozen=True)
class HostileFile:
    """One file with those beside it. `broken`: a check has to find an error in it, and say where."""

    category: str
    content: bytes
    suffix: str = ".onnx"
    beside: dict[str, bytes] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()  # of the command run
    broken: bool = False


def hostile_files(rng: random.Random) -> Iterator[HostileFile]:
    """One file after the other without end, of all categories in turn."""
    while True:
        for make in rng.sample(MAKERS, len(MAKERS)):
            yield make(rng)


# -- parts of models -------------------------------------------------------------------------------------------


def model_of(
    nodes: list[NodeProto] | None = None,
    *,
    inputs: str = "x",
    output: str = "y",
    initializers: list[TensorProto] | None = None,
    functions: list[FunctionProto] | None = None,
) -> ModelProto:
    """A model of these nodes, else of one Neg."""
    nodes = [helper.make_node("Neg", ["x"], ["y"], name="neg")] if nodes is None else nodes
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in inputs.split()]
    made = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", given, made, initializers or [])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports, functions=functions or [])


def written(category: str, model: ModelProto, *, broken: bool = False, **more: object) -> HostileFile:
    """The file of a model, in which QQ becomes bytes that are no UTF-8."""
    content = model.SerializeToString().replace(b"QQ", b"\xff\xfe")
    return HostileFile(category, content, broken=broken, **more)


def ints(name: str, values: list[int]) -> TensorProto:
    """An initializer of int64."""
    return numpy_helper.from_array(np.array(values, np.int64), name)


# -- categories ------------------------------------------------------------------------------------------------


def wire(rng: random.Random) -> HostileFile:
    """Bytes that are no protobuf, or only just."""
    good = model_of().SerializeToString()
    at = rng.randrange(1, len(good))
    made = rng.choice([
        b"", bytes(rng.randrange(1, 64)), rng.randbytes(rng.randrange(1, 4000)), good[:at],
        good[:at] + rng.randbytes(3),
        b"\x3a\xff\xff\xff\xff\x0f" + good, b"\x3a" + b"\xff" * 11, b"\x3b" * 5000, b"\x07" + good, b"\x00" + good,
        b"\x3a\x02\x0a\x7f", good + b"\x3a\x00", b"\x3a\x00",
    ])  # fmt: skip
    return HostileFile("wire format", made)


def fields(rng: random.Random) -> HostileFile:
    """Fields that are missing, unknown, or said twice."""
    model = model_of()
    node = model.graph.node[0]
    change: list[Callable[[], object]] = [
        lambda: node.ClearField("op_type"),
        lambda: setattr(node, "domain", "nowhere"),
        lambda: setattr(node, "op_type", "NoSuchOperator"),
        lambda: node.input.extend(["undefined"]),
        lambda: node.attribute.extend([helper.make_attribute("a", 1), helper.make_attribute("a", 2.0)]),
        lambda: node.attribute.add(name="a", type=99),
        lambda: model.ClearField("opset_import"),
        lambda: setattr(model.opset_import[0], "version", rng.choice([-1, 0])),
        lambda: setattr(model, "ir_version", rng.choice([-1, 0])),
        lambda: model.graph.output.extend([model.graph.output[0]]),
        lambda: setattr(model.graph.output[0], "name", "nobody"),
    ]
    try:
        rng.choice(change)()
    except ValueError:
        node.ClearField("op_type")
    return written("fields", model, broken=True)


def sizes(rng: random.Random) -> HostileFile:
    """Tensors whose size is not that of their content."""
    dims = [rng.choice(NUMBERS) for _ in range(rng.randrange(1, 5))]
    tensor = TensorProto(name="w", data_type=rng.choice([1, 2, 6, 7, 8, 9, 10, 16, 21, 99]), dims=dims)
    tensor.raw_data = rng.randbytes(rng.choice([0, 1, 7, 64]))
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[tensor])
    return written("sizes", model)


def numbers(rng: random.Random) -> HostileFile:
    """Numbers that do not fit their element type, and values in several fields."""
    kind, name = rng.choice([(3, "int32_data"), (2, "int32_data"), (10, "int32_data"), (12, "uint64_data")])
    tensor = TensorProto(name="w", data_type=kind, dims=[2], **{name: [1 << 30, 1]})
    if name == "uint64_data":
        tensor.uint64_data[0] = 1 << 40
    return written("numbers", model_of(initializers=[tensor]), broken=True)


def cycles(rng: random.Random) -> HostileFile:
    """Nodes and functions that need themselves."""
    if rng.random() < 0.5:
        count = rng.choice([1, 2, 500])
        nodes = [helper.make_node("Add", ["x", f"v{(i + 1) % count}"], [f"v{i}"]) for i in range(count)]
        return written("cycles", model_of([*nodes, helper.make_node("Neg", ["v0"], ["y"])]), broken=True)
    count = rng.choice([1, 2, 300])
    functions = [
        function(f"F{i}", [helper.make_node(f"F{(i + 1) % count}", ["a"], ["b"], domain="d")]) for i in range(count)
    ]
    return written(
        "cycles", model_of([helper.make_node("F0", ["x"], ["y"], domain="d")], functions=functions), broken=True
    )


def function(name: str, nodes: list[NodeProto]) -> FunctionProto:
    """A function of one input a and one output b."""
    return helper.make_function(
        "d", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    )


def nesting(rng: random.Random) -> HostileFile:
    """Graphs in graphs and types in types, deep or very many."""
    if rng.random() < 0.3:
        content, tags = b"", rng.choice([(b"\x0a", b"\x22"), (b"\x0a", b"\x2a", b"\x32")])  # of types, of graphs
        for number in range(rng.choice([20, 90, 3000])):
            content = tags[number % len(tags)] + _varint(len(content)) + content
        return HostileFile("nesting", model_of().SerializeToString() + b"\x3a" + _varint(len(content)) + content)
    depth, width = rng.choice([(9, 2), (11, 2), (25, 1)])
    return written("nesting", nested_ifs(depth, width, same=rng.random() < 0.5))


def nested_ifs(depth: int, width: int, *, same: bool) -> ModelProto:
    """Ifs in so many branches of Ifs; `same`: their outputs have the same name."""

    def body(level: int, name: str) -> GraphProto:
        output = helper.make_tensor_value_info("o" if same else f"o{name}", TensorProto.FLOAT, None)
        node = helper.make_node("Neg", ["x"], [output.name]) if not level else nested(level, name, output.name)
        return helper.make_graph([node], "b", [], [output])

    def nested(level: int, name: str, output: str) -> NodeProto:
        branches = [body(level - 1 if number < width else 0, f"{name}{number}") for number in range(2)]
        return helper.make_node("If", ["c"], [output], then_branch=branches[0], else_branch=branches[1])

    nodes = [helper.make_node("Cast", ["x0"], ["c"], to=9), nested(depth, "", "y")]
    return model_of(nodes, inputs="x x0")


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def names(rng: random.Random) -> HostileFile:
    """Names that are empty, very long, no UTF-8, or taken."""
    text = rng.choice(TEXTS)
    model = model_of([helper.make_node("Neg", ["x"], ["m"]), helper.make_node("Abs", ["m"], ["y"])])
    first, second = model.graph.node
    change: list[Callable[[], object]] = [
        lambda: (setattr(first, "name", text), setattr(second, "name", text)),
        lambda: (first.output.__setitem__(0, text), second.input.__setitem__(0, text)),
        lambda: setattr(model.graph, "name", text),
        lambda: setattr(model.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", text),
        lambda: setattr(first, "op_type", text),
        lambda: first.attribute.extend([helper.make_attribute(text or "a", 1)]),
        lambda: model.metadata_props.add(key=text, value=text),
    ]
    rng.choice(change)()
    return written("names", model, broken=text == "QQ")


def external(rng: random.Random) -> HostileFile:
    """Values in other files: outside, missing, or beyond their end."""
    tensor = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    location, offset, length = rng.choice([
        ("/etc/passwd", "0", "8"), ("../../etc/passwd", "0", "8"), ("missing.bin", "0", "8"), ("w.bin", "100", "8"),
        ("w.bin", "-8", "8"), ("w.bin", "0", str(1 << 62)), ("w.bin", "x", "y"), (".", "0", "8"), ("", "0", "8"),
        ("a\0b", "0", "8"), ("w.bin", str(1 << 70), "8"),
    ])  # fmt: skip
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=value)
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[tensor])
    return written("external data", model, broken=True, beside={"w.bin": bytes(16)})


def sparse(rng: random.Random) -> HostileFile:
    """Sparse tensors with impossible sizes and indices."""
    dims, indices = rng.choice([
        ([1 << 40, 1 << 40], [0]), ([-1], [0]), ([4], [9]), ([4], [-1]), ([4, 4], [3, 1]), ([1 << 62], [1 << 62]),
    ])  # fmt: skip
    made = SparseTensorProto(dims=dims)
    made.values.CopyFrom(numpy_helper.from_array(np.ones(len(indices), np.float32), "w"))
    made.indices.CopyFrom(ints("i", indices))
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])])
    model.graph.sparse_initializer.append(made)
    return written("sparse", model, broken=True)


def functions(rng: random.Random) -> HostileFile:
    """Functions that grow without end when they are inlined, and calls that do not fit."""
    levels, width = rng.choice([(9, 10), (40, 2), (3, 3)])
    made = [function("F0", [helper.make_node("Neg", ["a"], ["b"])])]
    for level in range(1, levels):
        steps = [f"v{i}" for i in range(width - 1)]
        pairs = zip(["a", *steps], [*steps, "b"], strict=True)
        made.append(function(f"F{level}", [helper.make_node(f"F{level - 1}", [i], [o], domain="d") for i, o in pairs]))
    call = helper.make_node(f"F{levels - 1}", ["x", *["x"] * rng.choice([0, 0, 5])], ["y"], domain="d", a=1)
    return written("functions", model_of([call], functions=made))


def quantised(rng: random.Random) -> HostileFile:
    """Scales and zero points that do not fit."""
    scale = numpy_helper.from_array(np.array(rng.choice([[np.nan], [0], [1] * 7, 1]), np.float32), "s")
    zero = numpy_helper.from_array(
        np.array(rng.choice([[1], [1] * 3, 0]), rng.choice([np.int8, np.int32, np.float32])), "z"
    )
    axis = rng.choice([-9, -1, 0, 5, 1 << 40])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis),
    ]
    return written("quantised", model_of(nodes, initializers=[scale, zero]))


def texts(rng: random.Random) -> HostileFile:
    """Text forms with garbage and deep nesting."""
    suffix = rng.choice([".onnxtxt", ".json", ".textproto", ".onnxjson"])
    made = rng.choice([
        b"{" * 100_000, b"[" * 100_000, b'{"graph": {"node": 5}}', b"graph { node { input: 1 } }", rng.randbytes(500),
        b"graph {" * 5000, b'{"irVersion": 1e999}', b"<ir_version: 8> g (float[2] x) => (float y) { y = }",
        b"\xff\xfe{}",
        b'{"graph": {"initializer": [{"dims": ["9223372036854775807"], "dataType": 1, "rawData": "AAAA"}]}}',
    ])  # fmt: skip
    return HostileFile("text forms", made, suffix)


def archives(rng: random.Random) -> HostileFile:
    """Archives of inputs that lie about their sizes, or unpack to very much."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        claims = {"descr": rng.choice(["<f4", "|O", "<U9999999"]), "fortran_order": False, "shape": (1 << 40,)}
        head = rng.choice([
            b"\x93NUMPY\x01\x00\x76\x00" + repr(claims).encode().ljust(118),
            b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 118, b"\x93NUMPY\x09\x00", b"garbage",
        ])  # fmt: skip
        archive.writestr(rng.choice(["x.npy", "../x.npy", "QQ.npy"]), head + bytes(rng.choice([0, 8, 120 << 20])))
    content = buffer.getvalue()[: rng.choice([None, -10])]
    return written("npz", model_of(), beside={"in.npz": content}, arguments=("--inputs", "in.npz"))


def bombs(rng: random.Random) -> HostileFile:
    """Models of a few bytes that compute without end, or very much."""
    large = ints("n", [1 << 34])
    grow: list[Callable[[], ModelProto]] = [
        lambda: model_of([helper.make_node("ConstantOfShape", ["n"], ["y"])], initializers=[large]),
        lambda: model_of([helper.make_node("Expand", ["x", "s"], ["y"])], initializers=[ints("s", [1 << 34, 2])]),
        lambda: model_of([helper.make_node("Tile", ["x", "n"], ["y"])], initializers=[large]),
        lambda: model_of([helper.make_node("Pad", ["x", "p"], ["y"])], initializers=[ints("p", [1 << 34, 1 << 34])]),
        lambda: doubled(45),
        lambda: model_of([helper.make_node("Range", ["a", "b", "c"], ["y"])], initializers=[
            numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("a", 0), ("b", 1 << 40), ("c", 1))]),
        squares,
        lambda: endless(rng),
    ]  # fmt: skip
    return written("executor bombs", rng.choice(grow)())


def doubled(times: int) -> ModelProto:
    """A value that is doubled so often."""
    nodes = [helper.make_node("Concat", [f"v{i}"] * 2, [f"v{i + 1}"], axis=0) for i in range(times)]
    return model_of(nodes, inputs="v0", output=f"v{times}")


def squares() -> ModelProto:
    """Sizes that are squared sixty times."""
    nodes = [helper.make_node("Shape", ["x"], ["v0"])]
    nodes += [helper.make_node("Mul", [f"v{i}"] * 2, [f"v{i + 1}"]) for i in range(60)]
    model = model_of([*nodes, helper.make_node("ConstantOfShape", ["v60"], ["y"])])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    return model


def endless(rng: random.Random) -> ModelProto:
    """A Loop that does not end, or grows a sequence."""
    state = helper.make_tensor_value_info("s", TensorProto.FLOAT, None)
    given = [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []), state]
    step = rng.choice([helper.make_node("Neg", ["s"], ["t"]), helper.make_node("Concat", ["s", "s"], ["t"], axis=0)])
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), step], "b", given,
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )  # fmt: skip
    more = numpy_helper.from_array(np.array(True), "more")
    return model_of([helper.make_node("Loop", ["", "more", "x"], ["y"], body=body)], initializers=[more])


def inputs(rng: random.Random) -> HostileFile:
    """Inputs of all the memory there is."""
    model = model_of([helper.make_node("ReduceMax", ["x"], ["y"])])
    for dim in (rng.choice([1 << 20, 1 << 40]), rng.choice([1 << 12, 1 << 30])):
        model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=dim)
    return written("inputs", model)


def lists(rng: random.Random) -> HostileFile:
    """Very many of something."""
    count = rng.choice([20_000, 60_000])
    change: list[Callable[[], ModelProto]] = [
        lambda: model_of([helper.make_node("Sum", [f"u{i}" for i in range(count)], ["y"])]),
        lambda: model_of([helper.make_node("Sum", ["x"] * count, ["y"])]),
        lambda: model_of([helper.make_node("Neg", ["x"], ["y"], **{f"a{i}": i for i in range(count // 10)})]),
        lambda: model_of([helper.make_node("Split", ["x"], ["y", *[f"o{i}" for i in range(count)]])]),
        lambda: model_of([helper.make_node("Neg", ["x"], ["same"]) for _ in range(count // 10)]),
    ]
    return written("lists", rng.choice(change)())


def dense(rng: random.Random) -> HostileFile:
    """Two rows of nodes, each of the second reading all of the first: edges that crowd together."""
    count = rng.choice([20, 60, 120])
    rows = [[f"a{i}" for i in range(count)], [f"b{i}" for i in range(count)]]
    nodes = [helper.make_node("Neg", ["x"], [name]) for name in rows[0]]
    nodes += [helper.make_node("Sum", rows[0], [name]) for name in rows[1]]
    return written("dense", model_of([*nodes, helper.make_node("Sum", rows[1], ["y"])]))


MAKERS = [
    wire, fields, sizes, numbers, cycles, nesting, names, external, sparse, functions, quantised, texts, archives,
    bombs, inputs, lists, dense,
]  # fmt: skip
