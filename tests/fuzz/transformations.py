"""Oracles of transformations: a model computes the same before and after."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

import onnx_workbench as ow
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Model, Value
from onnx_workbench.model.ir.types import TensorType
from tests.fuzz.cases import (
    Case,
    Feeds,
    after_differs,
    difference,
    errors_of,
    refused_by_ort,
    run,
    session_of,
)
from tests.fuzz.generator import NEWEST, OLDEST, SYMBOLS


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
            if is_tensor and (reported := type_differs(kind, array, named)):
                return f"{value.name} of {_maker(value)}: {reported}"
    ow.infer(model)
    return after_differs(case, model)


def _maker(value: Value) -> str:
    return "an input" if value.producer is None else value.producer.op_type


def type_differs(kind: TensorType, array: np.ndarray, named: dict[str, int]) -> str:
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
    if target == 13 and any(node.op_type in COERCED for node in case.proto.graph.node):
        # Reshape-13 has no allowzero, so that their flattening is for other sizes; the conversion warns of it.
        case = case.without_size_0()
    elif any(node.op_type in ("GroupNormalization", "LayerNormalization") for node in case.proto.graph.node):
        # The body in its specification reshapes to -1, or without allowzero, beside a size that may be 0.
        case = case.without_size_0()
        if any(0 in np.shape(value) for _, result in case.results for value in result.values.values()):
            return ""
    reported = after_differs(case, model)
    return f"to {target}: {reported}" if reported else ""


#: Operators that flattened their input to two dimensions before version 13.
COERCED = ("Softmax", "LogSoftmax", "Hardmax")


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
