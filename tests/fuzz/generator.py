"""Random models that are valid by construction: a seed gives one, typed and shaped, of any operator set.

A `Builder` holds the values in scope; operators (tests/fuzz/operators/) draw their inputs from it and add nodes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dim = int | str
Dims = tuple[Dim, ...]
Form = Literal["tensor", "sequence", "optional"]

FLOAT, DOUBLE, HALF, BFLOAT16 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
I64, I32, I8, U8, BOOL, STRING = (
    TensorProto.INT64, TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL, TensorProto.STRING,
)  # fmt: skip
FLOATS, INTEGERS = (FLOAT, DOUBLE, HALF, BFLOAT16), (I64, I32, I8, U8)
NUMBERS = (*FLOATS, *INTEGERS)
#: How often each element type is drawn.
_WEIGHTS = {FLOAT: 30, DOUBLE: 3, HALF: 4, BFLOAT16: 2, I64: 8, I32: 4, I8: 2, U8: 2, BOOL: 4, STRING: 2}
_TEXT = {FLOAT: "float", DOUBLE: "double", HALF: "float16", BFLOAT16: "bfloat16", I64: "int64", I32: "int32",
         I8: "int8", U8: "uint8", BOOL: "bool", STRING: "string"}  # fmt: skip

OLDEST, NEWEST = 1, onnx.defs.onnx_opset_version()
SYMBOLS = ("N", "M", "K")
MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"


@dataclass(frozen=True, slots=True)
class Value:
    """A value in scope. A dimension is a number, a symbol, a formula of symbols, or ``?3`` where it depends on data.

    `sizes`: what an int64 vector or scalar holds, where these are sizes. `is_exact`: computed without rounding, so
    that comparing and rounding it gives the same everywhere.
    """

    name: str
    kind: int
    dims: Dims
    sizes: Dims | None = None
    form: Form = "tensor"
    is_exact: bool = True
    array: np.ndarray | None = None  # of a constant

    @property
    def rank(self) -> int:
        return len(self.dims)


Draw = Callable[["Builder"], object]


class Impossible(Exception):
    """An operator found nothing that it could be given."""


@cache
def schema(op_type: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    if domain == MICROSOFT:
        return None
    try:
        found = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    return None if found.deprecated else found


@cache
def allowed(op_type: str, opset: int, index: int = 0, domain: str = "") -> tuple[int, ...]:
    """Element types that an input accepts by its schema, of those that are drawn."""
    found = schema(op_type, opset, domain)
    if found is None:
        return ()
    formal = found.inputs[min(index, len(found.inputs) - 1)]
    return tuple(kind for kind, text in _TEXT.items() if f"tensor({text})" in formal.types)


class Builder:
    """A graph in the making."""

    def __init__(self, rng: random.Random, opset: int, parent: Builder | None = None, *, is_function: bool = False):
        self.rng, self.opset, self.parent, self.is_function = rng, opset, parent, is_function
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[Value] = []
        self.initializers: list[onnx.TensorProto] = []
        self.values: list[Value] = []
        self.root: Builder = self if parent is None else parent.root
        if parent is None:
            self.counter = 0
            self.functions: list[onnx.FunctionProto] = []
            self.domains: dict[str, int] = {}

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def name(self, prefix: str = "v") -> str:
        self.root.counter += 1
        return f"{prefix}{self.root.counter}"

    def scope(self) -> list[Value]:
        around = [] if self.parent is None or self.is_function else self.parent.scope()
        return [*around, *self.values]

    # -- choosing

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def has(self, op_type: str, domain: str = "") -> bool:
        return schema(op_type, self.version(domain), domain) is not None

    def version(self, domain: str = "") -> int:
        """The version of a domain that the model imports."""
        if not domain:
            return self.opset
        newest = {ML: 3 if self.opset < 22 else 4 if self.opset < 23 else 5, MICROSOFT: 1}.get(domain, 1)
        if domain == ML and self.opset < 15:
            newest = 2 if self.opset > 10 else 1
        return newest

    def takes(self, op_type: str, attribute: str) -> bool:
        """Whether the version of an operator has an attribute."""
        found = schema(op_type, self.opset)
        return found is not None and attribute in found.attributes

    def kinds(self, op_type: str, index: int = 0, domain: str = "") -> tuple[int, ...]:
        return allowed(op_type, self.version(domain), index, domain)

    def kind(self, among: Collection[int] = tuple(_WEIGHTS)) -> int:
        usable = [k for k in among if k in _WEIGHTS]
        if not usable:
            raise Impossible
        return self.rng.choices(usable, [_WEIGHTS[k] for k in usable])[0]

    def dims(self, rank: int | None = None) -> Dims:
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
        return tuple(
            self.rng.choice(SYMBOLS) if self.chance(0.35) and not self.is_function else self.rng.choice((1, 2, 3, 4, 5))
            for _ in range(rank)
        )

    def pick(
        self,
        kinds: Collection[int] = NUMBERS,
        rank: int | Collection[int] | None = None,
        *,
        exact: bool = False,
        form: Form = "tensor",
        test: Callable[[Value], bool] | None = None,
    ) -> Value:
        """A value of these types and ranks: one in scope, or else a new input or constant."""
        ranks = (rank,) if isinstance(rank, int) else rank
        if self.opset < 13:
            kinds = [kind for kind in kinds if kind != BFLOAT16]
        fits = [
            v
            for v in self.scope()
            if v.form == form and v.kind in kinds and (ranks is None or v.rank in ranks)
            and (v.is_exact or not exact) and (test is None or test(v))
        ]  # fmt: skip
        if fits and not self.chance(0.12):
            return fits[min(int(self.rng.expovariate(0.25)), len(fits) - 1) * -1 - 1]
        if form != "tensor":
            raise Impossible
        for _ in range(8):
            dims = self.dims(None if ranks is None else self.rng.choice(sorted(ranks)))
            made = self.fresh(self.kind(kinds), dims)
            if test is None or test(made):
                return made
        raise Impossible

    def fresh(self, kind: int, dims: Dims) -> Value:
        """A new input, or a constant."""
        if self.depth or (self.chance(0.4) and not any(isinstance(d, str) for d in dims)):
            return self.constant(self.array(kind, tuple(d if isinstance(d, int) else 1 for d in dims)))
        return self.input(kind, dims)

    def like(self, kind: int, dims: Dims) -> Value:
        """A value that can be broadcast to a shape without changing it."""
        fits = [v for v in self.scope() if v.form == "tensor" and v.kind == kind and broadcast(v.dims, dims) == dims]
        if fits and not self.chance(0.3):
            return self.rng.choice(fits)
        own = tuple(d if isinstance(d, int) and self.chance(0.7) else 1 for d in dims)
        return self.constant(self.array(kind, own[self.rng.randint(0, len(own)) :] if self.chance(0.3) else own))

    # -- making

    def array(self, kind: int, shape: tuple[int, ...]) -> np.ndarray:
        return array_of(self.rng, kind, shape)

    def input(self, kind: int, dims: Dims) -> Value:
        value = Value(self.name("x"), kind, dims)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: np.ndarray | Sequence[int] | int | float, kind: int | None = None) -> Value:
        """A constant: an initializer or the output of a Constant, or one that there is already."""
        given = np.asarray(array, np.int64) if not isinstance(array, np.ndarray) else array
        for value in self.scope():
            same = value.array is not None and value.array.dtype == given.dtype and value.array.shape == given.shape
            if same and np.array_equal(value.array, given) and self.chance(0.7):
                return value
        tensor = tensor_of(given, self.name("c"), kind)
        sizes = tuple(given.reshape(-1).tolist()) if given.dtype == np.int64 and given.ndim < 2 else None
        value = Value(tensor.name, tensor.data_type, given.shape, sizes, array=given)
        is_early = self.opset < 9 and tensor.data_type not in FLOATS[:3]  # Constant held floats alone
        as_node = self.is_function or (self.chance(0.4) and not is_early)
        if as_node:
            self.nodes.append(helper.make_node("Constant", [], [tensor.name], value=tensor))
        else:
            self.initializers.append(tensor)
        self.values.append(value)
        return value

    def add(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        *outputs: tuple[int, Dims],
        domain: str = "",
        exact: bool = True,
        sizes: Dims | None = None,
        form: Form = "tensor",
        overload: str | None = None,
        **attributes: object,
    ) -> Value:
        """Add a node; returns its first output."""
        if domain:
            self.root.domains.setdefault(domain, self.version(domain))
        is_exact = exact and all(v is None or v.is_exact for v in inputs)
        made = [Value(self.name(), kind, dims, sizes, form, is_exact) for kind, dims in outputs]
        names = ["" if v is None else v.name for v in inputs]
        while names and not names[-1]:
            names.pop()
        given = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(op_type, names, [v.name for v in made], domain=domain, overload=overload, **given)
        if self.chance(0.5):
            node.name = self.name("node_")
        self.nodes.append(node)
        self.values.extend(made)
        return made[0]

    def forget(self, value: Value) -> None:
        """Keep a value from being used any further."""
        self.values.remove(value)

    def remember(self, value: Value, **changes: object) -> Value:
        """Say more of a value that was added."""
        changed = replace(value, **changes)
        self.values[self.values.index(value)] = changed
        return changed

    def unknown(self) -> str:
        """A dimension that depends on data."""
        return self.name("?")

    def subgraph(self, inputs: Sequence[tuple[int, Dims]] = ()) -> Builder:
        inner = Builder(self.rng, self.opset, self)
        for kind, dims in inputs:
            inner.input(kind, dims)
        return inner

    def graph(self, outputs: Sequence[Value], name: str = "body") -> onnx.GraphProto:
        """The graph that computes these values."""
        return helper.make_graph(
            self.nodes, name, [info(v) for v in self.inputs], [info(v) for v in outputs], self.initializers
        )


def broadcast(a: Dims, b: Dims) -> Dims | None:
    """The common shape, where it is sure that there is one."""
    rank = max(len(a), len(b))
    found: list[Dim] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x != y and x != 1 and y != 1:
            return None
        found.append(y if x == 1 else x)
    return tuple(found)


def product(dims: Dims) -> Dim:
    """The formula of a product."""
    number = math.prod(d for d in dims if isinstance(d, int))
    names = [d for d in dims if isinstance(d, str)]
    if not names or not number:
        return number
    return "*".join([*names, *([str(number)] if number != 1 else [])])


def total(parts: list[Dim]) -> Dim:
    names = [d for d in parts if isinstance(d, str)]
    number = sum(d for d in parts if isinstance(d, int))
    return number if not names else f"({'+'.join([*names, *([str(number)] if number else [])])})"


def axis_of(g: Builder, x: Value, since: int = 11) -> tuple[int, int]:
    """An axis, and as the attribute says it: counted from the end where the version knows that."""
    if not x.rank:
        raise Impossible
    axis = g.rng.randrange(x.rank)
    return axis, axis - x.rank if g.opset >= since and g.chance(0.4) else axis


def is_doubtful(v: Value) -> bool:
    """Whether an axis may be empty although no symbol is."""
    return any(isinstance(d, str) and ("?" in d or "//" in d) for d in v.dims)


def array_of(rng: random.Random, kind: int, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers of few bits, of which sums and products are exact."""
    draws = np.random.default_rng(rng.getrandbits(32))
    if kind == STRING:
        words = np.array(["a", "B", "", "ab c", "x,y", "ß", "10", "1.5"], object)
        return np.asarray(words[draws.integers(0, len(words), shape)], object).reshape(shape)
    if kind == BOOL:
        return np.asarray(draws.integers(0, 2, shape)).astype(bool)
    if kind in FLOATS:
        numbers = draws.integers(-8, 9, shape) / 4 if rng.random() < 0.8 else draws.integers(1, 5, shape)
        return np.asarray(numbers).astype(dtype_of(kind))
    low = 0 if kind == U8 else -4
    return np.asarray(draws.integers(low, 5, shape)).astype(dtype_of(kind))


def with_extremes(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """A copy with the largest, smallest and special numbers of its type among the elements."""
    changed = array.copy()
    flat, kind = changed.reshape(-1), array.dtype
    if not flat.size or kind.kind not in "iufV":
        return changed
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        numbers: list[Any] = [ends.min, ends.max, 0]
    else:
        limits = ml_dtypes.finfo(kind)
        numbers = [limits.min, limits.max, limits.tiny, -limits.smallest_subnormal, 0.0, -0.0, np.nan, np.inf, -np.inf]
    for _ in range(rng.randint(1, 3)):
        flat[rng.randrange(flat.size)] = rng.choice(numbers)
    return changed


@cache
def dtype_of(kind: int) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if kind == BFLOAT16 else helper.tensor_dtype_to_np_dtype(kind)


def tensor_of(array: np.ndarray, name: str, kind: int | None = None) -> onnx.TensorProto:
    if array.dtype == object:
        return helper.make_tensor(name, STRING, array.shape, [t.encode() for t in array.reshape(-1)])
    return numpy_helper.from_array(array, name)


def info(value: Value) -> onnx.ValueInfoProto:
    """The declaration of a value: formulas and sizes that depend on data are left open."""
    dims = [d if isinstance(d, int) or d in SYMBOLS else None for d in value.dims]
    kind = helper.make_tensor_type_proto(value.kind, dims)
    if value.form == "sequence":
        kind = helper.make_sequence_type_proto(kind)
    elif value.form == "optional":
        kind = helper.make_optional_type_proto(kind)
    return helper.make_value_info(value.name, kind)


def ir_version(opset: int) -> int:
    """The IR version that came with an operator set."""
    return helper.find_min_ir_version_for([helper.make_opsetid("", opset)], ignore_unknown=True)


def random_model(seed: int | str, *, nodes: int | None = None, opset: int | None = None) -> onnx.ModelProto:
    """A model of 4 to 30 nodes."""
    from tests.fuzz.operators.registry import draw_node

    rng = random.Random(seed)
    opset = rng.randint(OLDEST, NEWEST) if opset is None else opset
    builder = Builder(rng, opset)
    for _ in range(rng.randint(1, 3)):
        builder.input(builder.kind((FLOAT, FLOAT, DOUBLE, HALF, I64, BOOL, STRING)), builder.dims())
    wanted = rng.randint(4, 30) if nodes is None else nodes
    for _ in range(wanted * 3):
        if len(builder.nodes) >= wanted:
            break
        draw_node(builder)
    return finished(builder)


def _bodies(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    return [a.g for node in graph.node for a in node.attribute if a.HasField("g")]


def _has_initializers(graph: onnx.GraphProto) -> bool:
    """Whether a graph or a body in it has some."""
    return bool(graph.initializer) or any(map(_has_initializers, _bodies(graph)))


def finished(builder: Builder) -> onnx.ModelProto:
    """The model of a builder: what nothing uses is an output, and some of the rest."""
    rng, opset = builder.rng, builder.opset
    used = {name for node in builder.nodes for name in node.input}
    made = {name for node in builder.nodes for name in node.output}
    results = [v for v in builder.values if v.name in made and v.array is None]
    ends = [v for v in results if v.name not in used]
    outputs = rng.sample(ends, min(len(ends), rng.randint(1, 5)))
    outputs += [v for v in results if v.name in used and rng.random() < 0.06]
    if rng.random() < 0.15:  # what no node of the graph computes may be an output, too
        given = {v.name for v in builder.inputs} | {t.name for t in builder.initializers}
        there = [v for v in builder.values if v.name in given]
        outputs += rng.sample(there, min(1, len(there)))
    graph = builder.graph(outputs, "fuzz")
    needed = 10 if any(f.overload for f in builder.functions) else 8 if builder.functions else 0
    version = max(ir_version(opset), needed, rng.choice((0, 8, 10)))
    if any(_has_initializers(body) for body in _bodies(graph)):
        version = max(version, 4)  # before, an initializer of a subgraph had to be an input of it
    if version < 4:
        graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in graph.initializer)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in builder.domains.items())]
    model = helper.make_model(
        graph, opset_imports=imports, ir_version=version, functions=builder.functions, producer_name="tests.fuzz"
    )
    model.domain = "test"
    return model
