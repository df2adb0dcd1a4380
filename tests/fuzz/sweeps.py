"""Cases of single operators: drawn with random inputs, and onnx's own cases with other attributes, types and versions.

Attributes come from the schemas: every one an operator has is left out, changed, or given another of its choices.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper
from onnx.reference import ReferenceEvaluator

from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import all_kernels
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.schemas import registry as schemas
from onnx_workbench.model.schemas.schema import AttributeSchema
from tests.exec.test_backend_suite import node_cases, runtime_value
from tests.fuzz.cases import ORT, Case, as_text, difference, feeds_of, run
from tests.fuzz.generator import MICROSOFT, NEWEST, OLDEST, Builder, dtype_of, finished, with_extremes
from tests.fuzz.operators.registry import all_operators, apply, usable
from tests.fuzz.transformations import changes_precision

#: Operators whose results are drawn at random, and Constant, of which exactly one attribute may be given.
_LEFT_OUT = frozenset(
    [
        "Constant",
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ]
)


@dataclass(frozen=True)
class Finding:
    """A case on which we disagree with the two other executors."""

    seed: str
    operator: str
    message: str
    text: str

    @property
    def kind(self) -> str:
        return f"{self.operator}: {''.join(c for c in self.message if not c.isdigit())[:50]}"

    def __str__(self) -> str:
        return f"--- {self.seed} {self.operator}: {self.message}\n{self.text}"


def sweep(seed: int | str, numbers: Iterable[int]) -> Iterator[Finding]:
    """Try the cases of these numbers; half of them drawn, half of them onnx's own, changed.

    Those that are drawn are computed in half precision too.
    """
    for number in numbers:
        rng = random.Random(f"{seed}:{number}")
        made = drawn_case(rng) if number % 2 else changed_case(rng)
        if made is None:
            continue
        proto, feeds = made
        if message := disagreement(proto, feeds) or (changes_precision(Case(proto, number)) if number % 2 else ""):
            name = proto.graph.node[-1].op_type
            shapes = {k: (str(v.dtype), v.shape, v.tolist() if v.size < 9 else "…") for k, v in feeds.items()
                      if isinstance(v, np.ndarray)}  # fmt: skip
            yield Finding(f"{seed}:{number}", name, message, f"{as_text(proto)}\n{shapes}")


def drawn_case(rng: random.Random) -> tuple[onnx.ModelProto, dict[str, Any]] | None:
    """A model of one operator as the generator draws it."""
    builder = Builder(rng, rng.randint(OLDEST, NEWEST))
    operator = rng.choice([o for o in all_operators() if usable(builder, o) and not o.nests])
    if not apply(builder, operator):
        return None
    proto = finished(builder)
    if not proto.graph.output:
        return None
    feeds = feeds_of(proto, rng.choice(Case(proto).sizes), rng)
    if rng.random() < 0.2:
        _elements(rng, proto, proto.graph.node[0], feeds)
    return proto, feeds


@cache
def _cases() -> list[Any]:
    load()
    operators = {(k.domain, k.op_type) for k in all_kernels()}
    found = [case for case in node_cases().values() if len(case.model.graph.node) == 1]
    first = [case.model.graph.node[0] for case in found]
    return [
        case for case, node in zip(found, first, strict=True)
        if (node.domain, node.op_type) in operators and node.op_type not in _LEFT_OUT
        and not any(a.type == AttributeProto.GRAPH for a in node.attribute)
    ]  # fmt: skip


@cache
def _by_operator() -> list[list[Any]]:
    groups: dict[str, list[Any]] = {}
    for case in _cases():
        groups.setdefault(case.model.graph.node[0].op_type, []).append(case)
    return list(groups.values())


def changed_case(rng: random.Random) -> tuple[onnx.ModelProto, dict[str, Any]] | None:
    """One of onnx's cases with an attribute, an optional input, the types or the version changed."""
    case = rng.choice(rng.choice(_by_operator()))
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    node = proto.graph.node[0]
    inputs, _ = case.data_sets[0]
    feeds = {i.name: runtime_value(v) for i, v in zip(proto.graph.input, inputs, strict=True)}
    for output in proto.graph.output:
        output.type.Clear()
    for change in rng.sample((_attribute, _attribute, _left_out, _types, _version, _elements), rng.randint(1, 3)):
        change(rng, proto, node, feeds)
    version = next(i.version for i in proto.opset_import if i.domain == node.domain)
    found = schemas.find(node.op_type, version, node.domain)
    if found is None or any(a.name not in found.attributes for a in node.attribute):
        return None
    return proto, feeds


def _version_of(proto: onnx.ModelProto, domain: str) -> int:
    return next(i.version for i in proto.opset_import if i.domain == domain)


def _attribute(rng: random.Random, proto: onnx.ModelProto, node: onnx.NodeProto, _feeds: dict[str, Any]) -> None:
    """Change an attribute, add one, or leave it out."""
    schema = schemas.find(node.op_type, _version_of(proto, node.domain), node.domain)
    if schema is None or not schema.attributes:
        return
    formal = rng.choice(list(schema.attributes.values()))
    have = next((a for a in node.attribute if a.name == formal.name), None)
    value = _attribute_value(rng, formal, None if have is None else helper.get_attribute_value(have))
    if have is not None:
        node.attribute.remove(have)
    if value is not None and (formal.required or rng.random() < 0.85):
        node.attribute.append(helper.make_attribute(formal.name, value))
    elif formal.required and have is not None:
        node.attribute.append(have)


def _attribute_value(rng: random.Random, formal: AttributeSchema, have: Any) -> Any:
    if formal.choices:
        return rng.choice(formal.choices)
    match formal.kind:
        case AttributeKind.INT:
            return rng.choice((0, 1, 2, 3, -1, -2, *([have + 1, have - 1] if have is not None else [])))
        case AttributeKind.FLOAT:
            return rng.choice((0.0, 0.1, 0.5, 1.0, 2.0, -0.5))
        case AttributeKind.INTS if have:
            return [v if rng.random() < 0.5 else max(v + rng.choice((-1, 0, 1)), -3) for v in have]
        case AttributeKind.FLOATS if have:
            return [v * rng.choice((1.0, 0.5, -1.0)) for v in have]
    return have


def _left_out(rng: random.Random, proto: onnx.ModelProto, node: onnx.NodeProto, feeds: dict[str, Any]) -> None:
    """Leave out an optional input."""
    schema = schemas.find(node.op_type, _version_of(proto, node.domain), node.domain)
    optional = [i for i, name in enumerate(node.input) if name and i < len(schema.inputs)
                and schema.inputs[i].option == "optional"] if schema else []  # fmt: skip
    if optional:
        i = rng.choice(optional)
        feeds.pop(node.input[i], None)
        inputs = [v for v in proto.graph.input if v.name != node.input[i]]
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)
        node.input[i] = ""
        while node.input and not node.input[-1]:
            del node.input[-1]


def _types(rng: random.Random, proto: onnx.ModelProto, node: onnx.NodeProto, feeds: dict[str, Any]) -> None:
    """Give the inputs of one type variable another type."""
    schema = schemas.find(node.op_type, _version_of(proto, node.domain), node.domain)
    formal = schema.input(0) if schema is not None else None
    if schema is None or formal is None:
        return
    texts = {"float": 1, "double": 11, "float16": 10, "bfloat16": 16, "int64": 7, "int32": 6, "uint8": 2, "int8": 3}
    kinds = [kind for text, kind in texts.items() if f"tensor({text})" in formal.types]
    if not kinds:
        return
    to = rng.choice(kinds)
    for i, name in enumerate(node.input):
        own = schema.input(i)
        array = feeds.get(name)
        if own is None or own.type_name != formal.type_name or not isinstance(array, np.ndarray):
            continue
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            return
        feeds[name] = np.clip(array, 0 if to == 2 else -100, 100).astype(dtype_of(to))
        declared = next(v for v in proto.graph.input if v.name == name)
        declared.type.tensor_type.elem_type = to


def _version(rng: random.Random, proto: onnx.ModelProto, node: onnx.NodeProto, _feeds: dict[str, Any]) -> None:
    """Another version of the operator set, in which inputs and attributes are the same."""
    now = _version_of(proto, node.domain)
    known = schemas.versions(node.op_type, node.domain)
    to = rng.choice(known) if node.domain else rng.randint(max(OLDEST, known[0]), NEWEST)
    old, new = (schemas.find(node.op_type, v, node.domain) for v in (now, to))
    if new is None or old is None or [p.name for p in new.inputs] != [p.name for p in old.inputs]:
        return
    for entry in proto.opset_import:
        if entry.domain == node.domain:
            entry.version = to


def _elements(rng: random.Random, _proto: onnx.ModelProto, _node: onnx.NodeProto, feeds: dict[str, Any]) -> None:
    """Other elements of an input: shuffled, or with the largest, smallest and special numbers among them."""
    arrays = [n for n, v in feeds.items() if isinstance(v, np.ndarray) and v.size and v.dtype.kind == "f"]
    if arrays:
        name = rng.choice(arrays)
        array = feeds[name].copy()
        np.random.default_rng(rng.getrandbits(32)).shuffle(array.reshape(-1))
        feeds[name] = with_extremes(rng, array) if rng.random() < 0.4 else array


def disagreement(proto: onnx.ModelProto, feeds: dict[str, Any]) -> str:
    """How our result differs from that of ONNX Runtime and onnx.reference, where these two agree."""
    data = proto.SerializeToString()
    ort = ORT.run(data, {k: v for k, v in feeds.items() if v is not None})
    if isinstance(ort, str):
        return ""
    if not any(node.domain == MICROSOFT for node in proto.graph.node):  # of these ONNX Runtime is the only judge
        reference = _reference(proto, feeds)
        if reference is None or _differ(ort, reference):
            return ""
    if _both_err(proto, feeds):
        return ""
    ours, why = run(data, feeds)
    return f"does not run: {why}" if ours is None else _differ(ours, ort)


def _both_err(proto: onnx.ModelProto, feeds: dict[str, Any]) -> bool:
    """Whether both other executors are known to contradict the specification in a case, or it says nothing of it.

    OneHot before 11: indices outside of [0, depth) "will result in one-hot representation with all 'off_value'", where
    they count negative ones from the end. PRelu: "f(x) = x for x >= 0", where they multiply 0 by an infinite slope.
    SoftmaxCrossEntropyLoss: labels that are neither classes nor ignored index the scores from the end.
    DynamicQuantizeLinear of what is not finite has no scale. Pads of Col2Im "can take any value greater than or equal
    to 0". An id of TreeEnsemble "can be used to index into a nodes_* entry", which one beyond the nodes cannot. MaxPool
    "computing the max on all values": whether NaN is above or passed over is left open, as with DeformConv whether an
    infinity beside a sample counts, of which it has no share. DFT: a spectrum of a real
    signal "satisfies the conjugate symmetry", with which an infinite imaginary part of its first element disagrees.
    Normalizations of numbers whose squares are beyond float32: whether sums are wider than that is left open.
    LinearAttention of such numbers: "o_t = scale * q_t^T S_t" is finite where only q_t^T S_t overflows.
    """
    node = proto.graph.node[-1]
    arrays = [feeds[name] for name in node.input if isinstance(feeds.get(name), np.ndarray)]
    has_negative = any(array.dtype.kind == "i" and (array < 0).any() for array in arrays)
    are_finite = all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
    if node.op_type.endswith("Normalization") or node.op_type == "LinearAttention":
        return any(np.any(np.abs(array) > 1e18) for array in arrays if array.dtype == np.float32)
    match node.op_type:
        case "OneHot":
            return _version_of(proto, "") < 11 and has_negative
        case "SoftmaxCrossEntropyLoss" | "NegativeLogLikelihoodLoss":
            return has_negative
        case "TreeEnsemble":
            given = {a.name: a.ints for a in node.attribute}
            sides = [zip(given[f"nodes_{s}nodeids"], given[f"nodes_{s}leafs"], strict=False) for s in ("true", "false")]
            return any(i >= len(given["nodes_featureids"]) for side in sides for i, is_leaf in side if not is_leaf)
        case "Col2Im":
            return any(a.name == "pads" and min(a.ints, default=0) < 0 for a in node.attribute)
        case "PRelu" | "DynamicQuantizeLinear" | "MaxPool" | "DeformConv":
            return not are_finite
        case "DFT":
            flags = {a.name: a.i for a in node.attribute}
            return bool(flags.get("inverse") and flags.get("onesided")) and not are_finite
    return False


def _reference(proto: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | None:
    with suppress(Exception), np.errstate(all="ignore"):  # it lacks much, and raises whatever numpy does
        evaluator: Any = ReferenceEvaluator(proto)
        return dict(zip([o.name for o in proto.graph.output], evaluator.run(None, feeds), strict=True))
    return None


def _differ(ours: dict[str, Any], other: dict[str, Any]) -> str:
    for name, value in ours.items():
        theirs = other.get(name)
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind in "UO":
            theirs = theirs.astype(object)
        are_tensors = isinstance(value, np.ndarray) and isinstance(theirs, np.ndarray | np.generic)
        if are_tensors and (report := difference(value, np.asarray(theirs))):
            return f"output {name}: {report}"
    return ""
