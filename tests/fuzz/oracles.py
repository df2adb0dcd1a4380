"""What must hold for every valid model: each oracle returns what is wrong, or nothing.

What a model computes is compared before and after each transformation at several sizes of its symbols, with
onnx.reference, and with ONNX Runtime where it is installed.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_workbench as ow
from onnx_workbench.exec.inspect.compare import compare_values
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Model, Value
from onnx_workbench.model.ir.types import TensorType
from tests.fuzz.child import Child
from tests.fuzz.generator import NEWEST, OLDEST, SYMBOLS, array_of
from tests.fuzz.shrinker import kind_of
from tests.onnx_runtime import make_session, smallest_model_like

Feeds = dict[str, Any]
#: Sizes of the symbols, one run each.
SIZES = ({"N": 7, "M": 2, "K": 3}, {"N": 1, "M": 1, "K": 1}, {"N": 0, "M": 3, "K": 2})


@dataclass
class Case:
    """A model and what it computes."""

    proto: onnx.ModelProto
    seed: int = 0
    sizes: tuple[Mapping[str, int], ...] = SIZES

    def without_size_0(self) -> Case:
        return Case(self.proto, self.seed, tuple(sizes for sizes in self.sizes if all(sizes.values())))

    @cached_property
    def data(self) -> bytes:
        return self.proto.SerializeToString()

    @property
    def rng(self) -> random.Random:
        return random.Random(self.seed)

    def load(self) -> Model:
        return ow.load(self.data)

    @cached_property
    def results(self) -> list[tuple[Feeds, RunResult]]:
        """Feeds and result for each set of sizes on which the model runs."""
        rng, found = self.rng, []
        has_symbols = any(d.dim_param for i in self.proto.graph.input for d in i.type.tensor_type.shape.dim)
        for sizes in self.sizes if has_symbols else self.sizes[:1]:
            feeds = feeds_of(self.proto, sizes, rng)
            result = session_of(self.data).run(feeds, time_limit=20)
            if result.ok and not result.stopped:
                found.append((feeds, result))
        return found

    @cached_property
    def runs(self) -> list[tuple[Feeds, dict[str, Any]]]:
        """Feeds and outputs for each set of sizes on which the model runs."""
        return [(feeds, dict(result.outputs)) for feeds, result in self.results]

    @cached_property
    def errors(self) -> set[str]:
        return errors_of(self.load())

    @cached_property
    def is_loaded_by_ort(self) -> bool:
        return not isinstance(ORT.run(self.data), str)


def feeds_of(proto: onnx.ModelProto, sizes: Mapping[str, int], rng: random.Random) -> Feeds:
    given = {t.name for t in proto.graph.initializer}
    feeds = {}
    for value in proto.graph.input:
        if value.name not in given:
            tensor = value.type.tensor_type
            dims = tuple(sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim)
            feeds[value.name] = array_of(rng, tensor.elem_type, dims)
    return feeds


@lru_cache(maxsize=2)
def session_of(data: bytes) -> Session:
    """A session for all sizes of a model."""
    return Session(ow.load(data))


def run(data: bytes, feeds: Feeds) -> tuple[dict[str, Any] | None, str]:
    """The outputs that our executor computes, or why it does not."""
    result = session_of(data).run(feeds, time_limit=20)
    if result.ok and not result.stopped:
        return dict(result.outputs), ""
    return None, str(result.failures[0]) if result.failures else result.stopped or "not run"


def errors_of(model: Model) -> set[str]:
    return {f"{p.rule}: {p.message} {p.detail}" for p in ow.check(model) if p.severity == "error"}


# -- comparing


def difference(found: Any, expected: Any, tolerance: float = 1e-3) -> str:
    """How a value differs from what was expected; empty where it does not."""
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        are_texts = found.dtype.kind in "UO" and expected.dtype.kind in "UO"
        if found.dtype != expected.dtype and not are_texts:
            return f"{found.dtype} instead of {expected.dtype}"
        if found.shape != expected.shape:
            return f"shape {found.shape} instead of {expected.shape}"
        if expected.dtype.kind in "OUSbiu":
            return "" if np.array_equal(found, expected) else "other elements"
        a, b = found.astype(np.float64), expected.astype(np.float64)
        tolerance = max(tolerance, {2: 0.02, 1: 0.3}.get(expected.dtype.itemsize, 0))
        if expected.dtype.name == "bfloat16":
            tolerance = max(tolerance, 0.1)
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        if np.allclose(a, b, tolerance, 1e-5 + tolerance * scale, equal_nan=True):
            return ""
        off = np.abs(a - b)
        off = off[~np.isnan(off)]
        return f"off by {off.max():.3g} of {scale:.3g}" if off.size else "NaN instead of a number, or the reverse"
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return f"{len(found)} elements instead of {len(expected)}"
        return next(filter(None, map(difference, found, expected)), "")
    reported = compare_values(found, expected)
    return reported.problem or ("" if reported.is_equal else "differs") if found is not expected else ""


def outputs_differ(found: Mapping[str, Any] | None, expected: Mapping[str, Any], why: str = "") -> str:
    if found is None:
        return f"does not run any more: {why}"
    if list(found) != list(expected):
        return f"outputs {list(found)} instead of {list(expected)}"
    for name, value in expected.items():
        if reported := difference(found[name], value):
            return f"output {name}: {reported}"
    return ""


def after_differs(case: Case, after: Model, *, checks: bool = True, interface: bool = True) -> str:
    """What is wrong with a transformed model: results, interface, problems, or that ONNX Runtime refuses it."""
    data = to_bytes(after, Storage(DataLayout.INLINE))
    for feeds, expected in case.runs:
        found, why = run(data, feeds)
        if reported := outputs_differ(found, expected, why):
            return f"{reported} (inputs {[np.shape(v) for v in feeds.values()]})"
    if interface and (reported := interface_differs(case.proto.graph, onnx.load_from_string(data).graph)):
        return reported
    if checks and (new := errors_of(ow.load(data)) - case.errors):
        return f"new problem: {min(new)}"
    return refused_by_ort(case, data)


def refused_by_ort(case: Case, data: bytes) -> str:
    """What ONNX Runtime says against a model, where it took the one before; not what it merely has no kernel for."""
    if not (case.is_loaded_by_ort and ORT.knows_versions_of(data)):
        return ""
    reported = ORT.run(data)
    has_kernels = isinstance(reported, dict) or not any(
        text in reported for text in ("NOT_IMPLEMENTED", "crashed", "support")
    )
    return f"ONNX Runtime refuses it: {reported}" if isinstance(reported, str) and has_kernels else ""


def interface_differs(before: onnx.GraphProto, after: onnx.GraphProto) -> str:
    for what in ("input", "output"):
        pairs = [{v.name: v.type for v in getattr(g, what)} for g in (before, after)]
        given = {t.name for t in before.initializer}
        names = [[n for n in pair if n not in given or what == "output"] for pair in pairs]
        if names[0] != names[1]:
            return f"{what}s {names[1]} instead of {names[0]}"
        for name in names[0]:
            old, new = (pair[name].tensor_type for pair in pairs)
            if old.elem_type != new.elem_type or len(old.shape.dim) != len(new.shape.dim):
                return f"{what} {name} declared as another type"
            for a, b in zip(old.shape.dim, new.shape.dim, strict=True):
                if a.dim_value and b.dim_value and a.dim_value != b.dim_value:
                    return f"{what} {name} declared {b.dim_value} instead of {a.dim_value}"
    return ""


# -- child processes


def _call_helper(question: tuple[str, bytes]) -> bytes:
    module, _, name = question[0].partition(":")
    found: bytes = getattr(import_module(module), name)(question[1])
    return found


def _run_in_ort(question: tuple[bytes, Feeds | None]) -> dict[str, Any]:
    data, feeds = question
    session = make_session(data)
    if feeds is None:
        return {}
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


class OnnxRuntime(Child):
    """ONNX Runtime, where it is installed."""

    def run(self, data: bytes, feeds: Feeds | None = None) -> dict[str, Any] | str:
        """The outputs, or why there are none; without feeds it is only loaded."""
        if find_spec("onnxruntime") is None:
            return "not installed"
        try:
            found: dict[str, Any] = self.ask((data, feeds))
        except ModelError as error:
            return error.title
        return found

    def knows_versions_of(self, data: bytes) -> bool:
        """Whether it knows the operator sets and the IR version of a model; conversions may ask for newer ones."""
        return not isinstance(self.run(smallest_model_like(onnx.load_from_string(data)).SerializeToString()), str)


ORT = OnnxRuntime(_run_in_ort)


@contextmanager
def one_helper_process() -> Iterator[None]:
    """Call onnx's C++ helpers in one process for all models instead of one for each call."""
    child = Child(_call_helper)

    @lru_cache(maxsize=32)  # checks of a model ask for the same types again
    def ask(function: str, payload: bytes) -> bytes:
        found: bytes = child.ask((function, payload))
        return found

    def call(function: str, payload: bytes, **_options: object) -> bytes:
        return ask(function, payload)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("model.inference.onnx_comparison", "model.sandbox"):
            patch.setattr(import_module(f"onnx_workbench.{name}"), "run_isolated", call)
        yield
    child.close()
    ORT.close()


# -- the oracles

Oracle = Callable[[Case], str]


def simplifies(case: Case) -> str:
    model = case.load()
    report = ow.simplify(model, checks=0).report
    if report.failed:
        return f"a rule raised: {report.failed}"
    return after_differs(case, model)


def infers(case: Case) -> str:
    """Types that are inferred are those of a run, and writing them changes nothing."""
    model = case.load()
    inferred = infer(model)
    wrong = [m for m in inferred.misfits if m.is_sure and not m.is_computed]
    if wrong and case.runs:
        return f"{wrong[0].node.op_type} is said not to fit: {wrong[0].reason}"
    for feeds, result in case.results:
        named: dict[str, int] = {}
        declared = {v.name: v.type for v in model.graph.inputs}
        values = [*((v, feeds[v.name]) for v in model.graph.inputs if v.name in feeds)]
        values += [(v, result.values.get(v.name)) for v in model.graph.values() if v.name not in declared]
        for value, array in values:
            kind = inferred.type_of(value)
            is_tensor = isinstance(array, np.ndarray) and isinstance(kind, TensorType)
            if is_tensor and (reported := _type_differs(kind, array, named)):
                return f"{value.name} of {_maker(value)}: {reported}"
    ow.infer(model)
    return after_differs(case, model)


def _maker(value: Value) -> str:
    return "an input" if value.producer is None else value.producer.op_type


def _type_differs(kind: TensorType, array: np.ndarray, named: dict[str, int]) -> str:
    if kind.element_type and kind.element_type.numpy_dtype != array.dtype:
        return f"inferred {kind}, but it is {array.dtype}"
    if kind.shape is None:
        return ""
    if kind.shape.rank != array.ndim:
        return f"inferred {kind}, but it is of shape {array.shape}"
    is_empty = 0 in array.shape  # nothing was computed, so that a runtime may not know the other sizes
    for dim, size in zip(kind.shape.dims, array.shape, strict=True):
        if isinstance(dim, int) and dim != size:
            return f"inferred {kind}, but it is of shape {array.shape}"
        if isinstance(dim, str) and dim in SYMBOLS and not is_empty and named.setdefault(dim, size) != size:
            return f"inferred {kind}, but it is of shape {array.shape} where {dim} is {named[dim]}"
    return ""


def converts(case: Case) -> str:
    """To another operator set: refused, or it computes the same."""
    target = case.rng.randint(OLDEST, NEWEST)
    model = case.load()
    try:
        reports = ow.convert(model, opset=target, checks=0).reports
    except ModelError:
        return ""
    if any(note.text.startswith("OneHot") for report in reports for note in report.warnings):
        # Up from version 9: "The values must be non-negative integers" there; the conversion warns of others.
        return ""
    if target == 13 and any(node.op_type in _COERCED for node in case.proto.graph.node):
        # Reshape-13 has no allowzero, so that their flattening is for other sizes; the conversion warns of it.
        case = case.without_size_0()
    elif any(node.op_type == "GroupNormalization" for node in case.proto.graph.node):
        case = case.without_size_0()  # the body in its specification reshapes to -1 beside a size that may be 0
    reported = after_differs(case, model)
    return f"to {target}: {reported}" if reported else ""


#: Operators that flattened their input to two dimensions before version 13.
_COERCED = ("Softmax", "LogSoftmax", "Hardmax")


def changes_precision(case: Case) -> str:
    """To half precision: valid, and as near to the results in double as 8 or 11 bits allow."""
    to = case.rng.choice(("float16", "bfloat16"))
    model = case.load()
    try:
        ow.convert(model, precision=to, keep=["inputs-outputs"], checks=0)
    except ModelError:
        return ""
    data = to_bytes(model)
    if new := errors_of(ow.load(data)) - case.errors:
        return f"{to}: new problem: {min(new)}"
    for feeds, expected in case.runs:
        found, why = run(data, feeds)
        if found is None:
            return f"{to}: does not run any more: {why}"
        for name, value in expected.items():
            if not isinstance(value, np.ndarray) or not isinstance(found[name], np.ndarray):
                continue
            if (found[name].dtype, found[name].ndim) != (value.dtype, value.ndim):
                return f"{to}: output {name} is {found[name].dtype} of {found[name].ndim} axes"
    if reported := _is_far(case, data, to):
        return f"{to}: {reported}"
    return ""


#: Where a small error of an input becomes a large one of the output, or decides about one. As the only node they take
#: what was given, which has few bits and is exact in half precision.
_JUMPS = frozenset({
    "Floor", "Ceil", "Round", "Sign", "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual", "ArgMax",
    "ArgMin", "TopK", "Hardmax", "Unique", "NonZero", "Cast", "Where", "If", "Loop", "Scan", "CumSum", "Mod", "Not",
    "QuantizeLinear", "DynamicQuantizeLinear", "Reciprocal", "Log", "Pow", "Div", "Sqrt", "ReduceProd",
    "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization",
    "LpNormalization", "MeanVarianceNormalization", "RNN", "LSTM", "GRU", "Attention", "Exp", "Sinh", "Cosh",
    "ReduceLogSumExp", "Shrink", "ThresholdedRelu", "Compress", "TreeEnsembleRegressor", "Binarizer",
    "LinearClassifier", "LabelEncoder", "OneHotEncoder", "Imputer", "Normalizer", "CastLike", "OneHot",
    "SkipLayerNormalization", "Inverse", "IsNaN", "Dropout", "HardSigmoid", "Trilu", "EyeLike", "Scaler",
    "LinearRegressor", "Resize", "Upsample", "Softplus", "Range", "Sin", "Cos", "Celu", "Elu", "Selu", "Mish",
    "Swish",
})  # fmt: skip


def _is_far(case: Case, data: bytes, to: str) -> str:
    """Compare with results in double, for models of operators that do not blow errors up."""
    proto = case.proto
    operators = [node.op_type for node in proto.graph.node if node.op_type != "Constant"]
    if proto.functions or (len(operators) > 1 and not _JUMPS.isdisjoint(operators)):
        return ""
    exact = in_double(proto)
    if exact is None:
        return ""
    bits = 8 if to == "bfloat16" else 11
    depth = len(operators)
    for feeds, _ in case.runs:
        wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in feeds.items()}
        expected, _why = run(exact, wide)
        found, _why = run(data, feeds)
        if expected is None or found is None:
            return ""
        for name, value in expected.items():
            got = found[name]
            if not isinstance(value, np.ndarray) or value.dtype != np.float64 or got.dtype != np.float32:
                continue
            if got.shape != value.shape:
                return f"output {name} has another shape than in double"
            largest = max((np.abs(a).max(initial=0) for a in _floats(exact, wide)), default=0)
            if largest > 3e4 or not np.isfinite(value).all():
                continue
            error = np.abs(got - value).max(initial=0)
            if not error <= 4 * (depth + 2) * 2.0**-bits * (largest + 1):
                return f"output {name} is off by {error:.3g} where the largest value is {largest:.3g}"
    return ""


def _floats(data: bytes, feeds: Feeds) -> Iterator[np.ndarray]:
    session = session_of(data)
    result = session.run(feeds)
    for value in session.model.graph.values():
        array = result.values.get(value.name)
        if isinstance(array, np.ndarray) and array.dtype == np.float64:
            yield array


def in_double(proto: onnx.ModelProto) -> bytes | None:
    """The model with double in place of float; None where it has other floats or subgraphs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    tensors = [*copy.graph.initializer, *(a.t for n in copy.graph.node for a in n.attribute if a.name == "value")]
    for tensor in tensors:
        if tensor.data_type == TensorProto.FLOAT:
            wide = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
            tensor.CopyFrom(wide)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.tensor_type.elem_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
            return None
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return copy.SerializeToString()


def extracts(case: Case) -> str:
    """A part computes from the values at its cut what the whole does."""
    rng, model = case.rng, case.load()
    made = [v.name for n in model.graph.nodes for v in n.outputs if v is not None and v.name]
    if not made or not case.runs:
        return ""
    outputs = rng.sample(made, min(len(made), rng.randint(1, 2)))
    inputs = None
    if rng.random() < 0.6:
        earlier = made[: max(1, made.index(outputs[0]))]
        inputs = [*(v.name for v in model.graph.inputs), *rng.sample(earlier, min(2, len(earlier)))]
        inputs = [name for name in dict.fromkeys(inputs) if name not in outputs]
    try:
        part = ow.extract(model, outputs=outputs, inputs=inputs, checks=0)
    except ModelError:
        return ""
    return _part_differs(case, [part])


def splits(case: Case) -> str:
    """Two parts, run one after the other, compute what the whole does; merged again, too."""
    rng, model = case.rng, case.load()
    made = [v.name for n in model.graph.nodes for v in n.outputs if v is not None and v.name]
    if not made or not case.runs:
        return ""
    try:
        first, second = ow.split(model, at=[rng.choice(made)], checks=0)
    except ModelError:
        return ""
    if reported := _part_differs(case, [first, second]):
        return reported
    ow.merge(first, second, keep_outputs=False)
    new = errors_of(first) - case.errors
    if new:
        return f"merged, new problem: {min(new)}"
    for feeds, expected in case.runs:
        found, why = run(to_bytes(first), feeds)
        if found is None:
            return f"merged, it does not run: {why}"
        if reported := next(filter(None, (difference(found[n], v) for n, v in expected.items() if n in found)), ""):
            return f"merged: {reported}"
    return ""


def _part_differs(case: Case, parts: list[Model]) -> str:
    for part in parts:
        data = to_bytes(part)
        if new := errors_of(ow.load(data)) - case.errors:
            return f"a part has a new problem: {min(new)}"
        for feeds, result in case.results:
            values = result.values
            given = {v.name: feeds.get(v.name, values.get(v.name)) for v in part.graph.required_inputs}
            found, why = run(data, given)
            if found is None:
                return f"a part does not run: {why}"
            for name, value in found.items():
                if reported := difference(value, feeds.get(name, values.get(name))):
                    return f"output {name} of a part: {reported}"
        if reported := refused_by_ort(case, data):
            return f"a part: {reported}"
    return ""


def inlines(case: Case) -> str:
    model = case.load()
    try:
        ow.convert(model, functions=case.rng.choice(("inline", "extract")), checks=0)
    except ModelError:
        return ""
    return after_differs(case, model)


def saves(case: Case) -> str:
    """Every form of file holds the model."""
    model = case.load()
    suffix = case.rng.choice((".onnx", ".onnxtxt", ".textproto", ".json"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{suffix}"
        try:
            if suffix == ".onnx":
                ow.save(model, path, external=case.rng.choice(("one-file", "file-per-tensor", "inline")), threshold=1)
            else:
                ow.save(model, path)
        except ModelError:
            return ""
        again = ow.load(path)
        if changed := ow.diff(case.load(), again).differences:
            return f"{suffix}: {changed[0]}"
        return after_differs(case, again)


def undoes(case: Case) -> str:
    """What edits change, undo takes back byte for byte, and redo does again."""
    model = case.load()
    before = to_bytes(model)
    document = Document(model)
    ow.simplify(document, checks=0)
    try:
        ow.convert(document, opset=case.rng.randint(OLDEST, NEWEST), checks=0)
    except ModelError:
        pass
    after = to_bytes(model)
    edits = 0
    while document.undo():
        edits += 1
    if to_bytes(model) != before:
        return "undone, it is another model"
    for _ in range(edits):
        document.redo()
    return "" if to_bytes(model) == after else "done again, it is another model"


def is_valid(case: Case) -> str:
    """A model that runs has no errors."""
    return f"problem: {min(case.errors)}" if case.errors and case.runs else ""


#: Operators that ONNX Runtime computes otherwise than the specification says. StringSplit: it gives no substring of
#: an empty text although "consecutive delimiters … are deemed to delimit empty strings", and knows no whitespace but
#: the space. MeanVarianceNormalization: equal elements give NaN, as it divides by a deviation of 0 where the function
#: of the specification adds 1e-9 to it ("Processed_STD = Add (STD, Epsilon)").
_ORT_ERRS = frozenset({"StringSplit", "MeanVarianceNormalization"})


def _casts_to_4_bits(node: onnx.NodeProto) -> bool:
    """Whether it casts to 4 bits: "by rounding to the nearest-integer (with ties to even)", as the specification's page
    on these types has it, where ONNX Runtime rounds ties away from zero and onnx.reference towards it.
    """
    four_bits = (TensorProto.UINT4, TensorProto.INT4)
    return node.op_type == "Cast" and any(a.name == "to" and a.i in four_bits for a in node.attribute)


def _gathers_texts(case: Case) -> bool:
    """Whether Gather may move rows of texts, of which ONNX Runtime copies the first text alone."""
    values = (value for _, result in case.results for value in result.values.values())
    has_texts = any(isinstance(value, np.ndarray) and value.dtype.kind == "O" for value in values)
    return has_texts and any(node.op_type == "Gather" for node in _nodes(case.proto))


def _has_integer_logarithm(case: Case) -> bool:
    """Whether a logarithm is rounded to an integer: how, no version says, and 28 takes no integers any more."""
    names = {node.output[0] for node in _nodes(case.proto) if node.op_type.startswith("ReduceLog")}
    values = (result.values.get(name) for _, result in case.results for name in names)
    return any(isinstance(value, np.ndarray) and value.dtype.kind in "iu" for value in values)


def _reduces_nan(case: Case) -> bool:
    """Whether a maximum or minimum is taken of NaN among numbers: the specification is silent, and ONNX Runtime passes
    over some NaNs by their position.
    """
    names = {node.input[0] for node in _nodes(case.proto) if node.op_type in ("ReduceMax", "ReduceMin")}
    values = (result.values.get(name) for _, result in case.results for name in names)
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any() for value in values)


def _are_bits(found: Any, value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "V" and np.asarray(found).dtype == np.uint8


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of bodies and functions too."""
    pending = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while pending:
        node = pending.pop()
        yield node
        pending += [inner for a in node.attribute for inner in a.g.node]


def as_onnx_runtime(case: Case) -> str:
    if any(node.op_type in _ORT_ERRS or _casts_to_4_bits(node) for node in _nodes(case.proto)):
        return ""
    if _gathers_texts(case) or _has_early_one_hot(case.proto) or _has_integer_logarithm(case):
        return ""
    if _reduces_nan(case):
        return ""
    for feeds, result in case.results:
        expected = result.outputs
        if any(0 in np.shape(v) for v in (*feeds.values(), *result.values.values())):
            continue  # what a mean or maximum of nothing is, the specification leaves open
        found = ORT.run(case.data, feeds)
        if isinstance(found, dict):
            for name, value in expected.items():
                if _are_bits(found[name], value):
                    continue  # it gives its 8-bit floats as integers
                if reported := difference(value, found[name]):
                    return f"output {name}: {reported}"
    if not case.runs and not isinstance(ORT.run(case.data, feeds_of(case.proto, SIZES[0], case.rng)), str):
        feeds = feeds_of(case.proto, case.sizes[0], case.rng)
        return f"only ONNX Runtime runs it: {run(case.data, feeds)[1]}"
    return ""


#: Operators that onnx.reference computes otherwise than the specification says. Erf: in single precision whatever the
#: type, in which that of an integer above 3 is 1 and not a little less, which an integer cannot hold.
#: LpNormalization: its norm for odd p is of the numbers themselves, not of their absolute values.
#: OptionalGetElement: it gives a list with the element. LogSoftmax: its logarithm of what underflows is -inf, where the
#: function of the specification subtracts ("X_Sub", "X_Log"). Normalizer: it divides by the largest absolute value; the
#: specification says "Max: Y = X / max(X)".
_REFERENCE_ERRS = frozenset({
    "GlobalMaxPool", "Loop", "AveragePool", "LpPool", "LpNormalization", "Resize", "Hardmax", "Erf",
    "OptionalGetElement", "LogSoftmax", "Normalizer",
})  # fmt: skip


def _has_early_one_hot(proto: onnx.ModelProto) -> bool:
    """Whether OneHot takes a negative index for none, as before version 11: "values outside the range [0, depth) will
    result in one-hot representation with all 'off_value' values"; the others count from the end.
    """
    return _opset(proto) < 11 and any(node.op_type == "OneHot" for node in _nodes(proto))


def _opset(proto: onnx.ModelProto) -> int:
    return next(i.version for i in proto.opset_import if i.domain == "")


def _pads_below_0(node: onnx.NodeProto) -> bool:
    """Whether SAME padding may be below 0 by its formula, as strides are larger than the window: the reference crops
    by that and ONNX Runtime refuses, where padding "can take any value greater than or equal to 0".
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name}
    strides, windows = given.get("strides", []), given.get("kernel_shape", [])
    is_same = given.get("auto_pad", b"").startswith(b"SAME")
    return is_same and any(stride > size for stride, size in zip(strides, windows, strict=False))


def as_reference(case: Case) -> str:
    from onnx.reference import ReferenceEvaluator

    if _has_early_one_hot(case.proto):
        return ""
    for node in _nodes(case.proto):
        if node.op_type in _REFERENCE_ERRS or _casts_to_4_bits(node):
            return ""
        if node.op_type == "BatchNormalization" and _opset(case.proto) < 14:
            return ""  # it takes the statistics of the batch, where one output is "Output case #2: Y (test mode)"
        if node.op_type in _COERCED and _opset(case.proto) < 13:
            return ""  # it takes one axis, where the "input will be coerced into a 2-dimensional tensor"
        if any(a.name in ("activations", "clip") for a in node.attribute):
            return ""  # its recurrent operators do not heed all activations, and no limit of them
        if any(a.name == "ceil_mode" and a.i for a in node.attribute):
            return ""  # its MaxPool takes the padding of one axis for that of another then
        if _pads_below_0(node):
            return ""
    for feeds, expected in case.runs[:2]:
        try:
            evaluator: Any = ReferenceEvaluator(case.proto)
            with np.errstate(all="ignore"):
                found = dict(zip(expected, evaluator.run(None, feeds), strict=True))
        except Exception:  # noqa: BLE001 - it lacks much, and raises whatever numpy does
            return ""
        for name, value in expected.items():
            if reported := difference(value, found[name]):
                other = ORT.run(case.data, feeds)
                if isinstance(other, str) or difference(value, other[name]):  # else it is the reference that errs
                    return f"output {name}: {reported}"
    return ""


ORACLES: dict[str, Oracle] = {
    "valid": is_valid, "simplify": simplifies, "infer": infers, "convert": converts, "precision": changes_precision,
    "extract": extracts, "split": splits, "inline": inlines, "save": saves, "undo": undoes, "reference": as_reference,
    "onnxruntime": as_onnx_runtime,
}  # fmt: skip


def verdict(name: str, case: Case) -> str:
    """What an oracle finds; an exception is a finding too."""
    try:
        return ORACLES[name](case)
    except Exception as error:  # noqa: BLE001 - a traceback is what is looked for
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"raised {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


def shows(name: str, kind: str, proto: onnx.ModelProto, seed: int = 0) -> bool:
    """Whether a smaller model is valid and an oracle finds the same in it."""
    case = Case(proto, seed)
    try:
        is_valid = name == "valid" or not case.errors
    except Exception:  # noqa: BLE001 - then it is not worth looking at
        return False
    return is_valid and kind_of(verdict(name, case)) == kind
