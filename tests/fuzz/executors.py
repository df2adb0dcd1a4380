"""Other executors as oracles, and where they err."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import onnx_workbench as ow
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import to_bytes
from tests.fuzz.cases import (
    ITS_INLINED,
    ITS_OWN_CAST,
    OPTIMISER,
    ORT,
    SIZES,
    Case,
    difference,
    errors_of,
    feeds_of,
    outputs_differ,
    run,
)
from tests.fuzz.transformations import COERCED

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


def _has_sum_of_integer_squares(case: Case) -> bool:
    """Whether integers are squared and summed, of which onnx.reference makes int64: numpy's sum does."""
    names = {node.output[0] for node in _nodes(case.proto) if node.op_type == "ReduceSumSquare"}
    values = (result.values.get(name) for _, result in case.results for name in names)
    return any(isinstance(value, np.ndarray) and value.dtype.kind in "iu" for value in values)


def _reduces_nan(case: Case) -> bool:
    """Whether a maximum or minimum is taken of NaN among numbers: the specification is silent, and ONNX Runtime passes
    over some NaNs by their position.
    """
    names = {node.input[0] for node in _nodes(case.proto) if node.op_type in ("ReduceMax", "ReduceMin")}
    values = (result.values.get(name) for _, result in case.results for name in names)
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any() for value in values)


def _clips_infinity(case: Case) -> bool:
    """Whether Clip gets an infinity: limits "default to numeric_limits::lowest() and numeric_limits::max()", to which
    ONNX Runtime brings it; onnx.reference leaves it, as there is no limit.
    """
    names = {node.input[0] for node in _nodes(case.proto) if node.op_type == "Clip"}
    values = [feeds.get(name, result.values.get(name)) for feeds, result in case.results for name in names]
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isinf(value).any() for value in values)


def _has_trees_it_misreads(case: Case) -> bool:
    """Whether an ensemble gives two classes, of which ONNX Runtime writes 0 and 1 in place of their labels, or a base
    value, which it drops where no tree votes: it is "added to final prediction after applying aggregate function".
    """
    for node in _nodes(case.proto):
        given = {a.name: a for a in node.attribute}
        labels = [len(a.ints) + len(a.strings) for name, a in given.items() if name.startswith("classlabels_")]
        if node.op_type.startswith("TreeEnsemble") and (labels == [2] or "base_values" in given):
            return True
    return False


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
    if _reduces_nan(case) or _has_trees_it_misreads(case):
        return ""
    if _clips_infinity(case):
        return ""
    data = case.data
    if _opset(case.proto) <= 6:
        try:
            data = _upgraded(case)
        except ModelError:  # what an input that may be given, or of unknown rank, becomes is not known
            return ""
    for feeds, result in case.results:
        expected = result.outputs
        if any(0 in np.shape(v) for v in (*feeds.values(), *result.values.values())):
            continue  # what a mean or maximum of nothing is, the specification leaves open
        found = ORT.run(data, feeds)
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


def _upgraded(case: Case) -> bytes:
    """The model for the oldest operator set that ONNX Runtime promises to run."""
    model = case.load()
    ow.convert(model, opset=case.rng.randint(7, 13), checks=0)
    return to_bytes(model)


def as_optimised(case: Case) -> str:
    """What ONNX Runtime's optimiser makes of a model has no errors here and computes the same, simplified, too."""
    if not case.is_loaded_by_ort or as_onnx_runtime(case):
        return ""
    try:
        data = OPTIMISER.ask(case.data)
    except ModelError:
        return ""
    new = errors_of(ow.load(data)) - case.errors
    # Below IR version 4 it writes initializers that are no inputs, which the version demands.
    # Its casts, and values of functions that it inlines, have the same names in bodies as around them, where "a node
    # output name MUST be distinct from the names from the outer scopes that are visible in the nested subgraph".
    its_own = ("initializer-input", f"shadowing: {ITS_OWN_CAST}", f"shadowing: {ITS_INLINED}")
    if new := {p for p in new if not p.startswith(its_own)}:
        return f"new problem: {min(new)}"
    simplified = ow.load(data)
    ow.simplify(simplified, checks=0)
    for feeds, expected in case.runs:
        if isinstance(ORT.run(case.data, feeds), str):
            continue
        for how, model in (("", data), ("simplified, ", to_bytes(simplified))):
            found, why = run(model, feeds)
            if reported := outputs_differ(found, expected, why):
                return f"{how}{reported} (inputs {[np.shape(v) for v in feeds.values()]})"
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

    if _has_early_one_hot(case.proto) or _has_sum_of_integer_squares(case):
        return ""
    for node in _nodes(case.proto):
        if node.op_type in _REFERENCE_ERRS or _casts_to_4_bits(node):
            return ""
        if node.op_type == "BatchNormalization" and _opset(case.proto) < 14:
            return ""  # it takes the statistics of the batch, where one output is "Output case #2: Y (test mode)"
        if node.op_type in COERCED and _opset(case.proto) < 13:
            return ""  # it takes one axis, where the "input will be coerced into a 2-dimensional tensor"
        if node.op_type == "Unique" and any(a.name == "sorted" and not a.i for a in node.attribute):
            return ""  # it sorts them all the same
        if any(a.name in ("activations", "clip") for a in node.attribute):
            return ""  # its recurrent operators do not heed all activations, and no limit of them
        if any(a.name == "ceil_mode" and a.i for a in node.attribute):
            return ""  # its MaxPool takes the padding of one axis for that of another then
        if _pads_below_0(node):
            return ""
    for feeds, expected in case.runs[:2]:
        found = None
        with suppress(Exception), np.errstate(all="ignore"):  # it lacks much, and raises whatever numpy does
            evaluator: Any = ReferenceEvaluator(case.proto)
            found = dict(zip(expected, evaluator.run(None, feeds), strict=True))
        if found is None:
            return ""
        for name, value in expected.items():
            if reported := difference(value, found[name]):
                other = ORT.run(case.data, feeds)
                if isinstance(other, str) or difference(value, other[name]):  # else it is the reference that errs
                    return f"output {name}: {reported}"
    return ""
