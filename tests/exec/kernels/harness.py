"""Direct kernel calls, tolerances and other engines, for all kernel tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.values.arrays import SparseArray
from onnx_workbench.model.ir import types
from onnx_workbench.model.ir.types import ElementType
from tests.onnx_runtime import session_or_skip

load()

SAME_DOMAIN = {"ai.onnx": ""}


# --- calling kernels -------------------------------------------------------------------------------------------


def call(
    op_type: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    domain: str = "",
    outputs: int = 1,
    seed: int = 0,
    node_name: str = "",
    **attributes: Any,
) -> Any:
    """Call the kernel that serves an operator at an opset with arrays and plain attribute values.

    The result is what the kernel returns: a tuple where the operator has several outputs.
    """
    kernel = find(op_type, opset, domain)
    context = Context(
        op_type, opset, domain=domain, wanted=(True,) * outputs, seed=seed, node_name=node_name,
        opset_imports={"": opset, domain: opset},
    )  # fmt: skip
    leading = (context,) if kernel.takes_context else ()
    with np.errstate(all="ignore"):
        return kernel.function(*leading, *inputs, **attributes)


def run_node(node: NodeProto, inputs: Sequence[Any], opset: int) -> list[Any]:
    """Call the kernel of one node; inputs[i] belongs to node.input[i] (None where it is omitted)."""
    values = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    _run_node(node, values, {SAME_DOMAIN.get(node.domain, node.domain): opset})
    return [values.get(name) for name in node.output]


def run_model(model: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Evaluate a model in the order of its nodes, kernel by kernel; the graph's outputs in order."""
    opsets = {SAME_DOMAIN.get(o.domain, o.domain): o.version for o in model.opset_import}
    return _run_graph(model.graph, dict(inputs), opsets)


def _run_graph(graph: GraphProto, values: dict[str, Any], opsets: Mapping[str, int]) -> list[Any]:
    for tensor in graph.initializer:
        values.setdefault(tensor.name, to_array(tensor))
    for node in graph.node:
        _run_node(node, values, opsets)
    return [values[o.name] for o in graph.output]


def _run_node(node: NodeProto, values: dict[str, Any], opsets: Mapping[str, int]) -> None:
    domain = SAME_DOMAIN.get(node.domain, node.domain)
    kernel = find(node.op_type, opsets[domain], domain)
    context = Context(
        node.op_type,
        opsets[domain],
        domain=domain,
        wanted=[bool(o) for o in node.output],
        node_name=node.name,
        opset_imports=dict(opsets),
        body_runner=lambda graph, feeds: _run_graph(graph, values | dict(feeds), opsets),
    )
    attributes = {a.name: attribute_value(a, values, opsets) for a in node.attribute if a.name != "consumed_inputs"}
    leading = (context,) if kernel.takes_context else ()
    arguments = [values[name] if name else None for name in node.input]
    with np.errstate(all="ignore"):
        result = kernel.function(*leading, *arguments, **attributes)
    results = result if isinstance(result, tuple) else (result,)
    assert len(results) >= sum(map(bool, node.output)), f"{kernel} gave {len(results)} outputs"
    values.update({name: value for name, value in zip(node.output, results, strict=False) if name})


class _Body:
    """A subgraph with the values around it."""

    def __init__(self, graph: GraphProto, outer: dict[str, Any], opsets: Mapping[str, int]) -> None:
        self._graph, self._outer, self._opsets = graph, outer, opsets

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(i.name for i in self._graph.input)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(o.name for o in self._graph.output)

    @property
    def output_types(self) -> tuple[types.Type | None, ...]:
        return tuple(to_type(o.type) if o.type.WhichOneof("value") else None for o in self._graph.output)

    def loop(self, state: Any) -> AbstractContextManager[Any]:
        return nullcontext(state)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = self._outer | dict(zip(self.input_names, inputs, strict=False))
        return _run_graph(self._graph, values, self._opsets)


def attribute_value(attribute: AttributeProto, outer: dict[str, Any], opsets: Mapping[str, int]) -> Any:
    """What a kernel gets for an attribute of a NodeProto."""
    match attribute.type:
        case AttributeProto.FLOAT | AttributeProto.INT:
            return helper.get_attribute_value(attribute)
        case AttributeProto.STRING:
            return attribute.s.decode()
        case AttributeProto.INTS | AttributeProto.FLOATS:
            return tuple(helper.get_attribute_value(attribute))
        case AttributeProto.STRINGS:
            return tuple(s.decode() for s in attribute.strings)
        case AttributeProto.TENSOR:
            return to_array(attribute.t)
        case AttributeProto.SPARSE_TENSOR:
            sparse = attribute.sparse_tensor
            return SparseArray(to_array(sparse.values), to_array(sparse.indices), tuple(sparse.dims))
        case AttributeProto.GRAPH:
            return _Body(attribute.g, outer, opsets)
        case AttributeProto.TYPE_PROTO:
            return to_type(attribute.tp)
    raise AssertionError(f"attribute {attribute.name} has type {attribute.type}")


def to_type(proto: TypeProto) -> types.Type:
    """A TypeProto as a kernel gets it."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            shape = types.Shape(tuple(d.dim_value for d in proto.tensor_type.shape.dim))
            return types.TensorType(types.element_type(proto.tensor_type.elem_type), shape)
        case "sequence_type":
            return types.SequenceType(to_type(proto.sequence_type.elem_type))
        case "optional_type":
            return types.OptionalType(to_type(proto.optional_type.elem_type))
        case "map_type":
            return types.MapType(proto.map_type.key_type, to_type(proto.map_type.value_type))
    raise AssertionError(f"unexpected type {proto}")


def to_array(value: Any) -> Any:
    """A TensorProto, array, sequence or map as a run-time value: strings become objects of str."""
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, SparseTensorProto):
        return SparseArray(to_array(value.values), to_array(value.indices), tuple(value.dims))
    if isinstance(value, list | tuple):
        return [to_array(v) for v in value]
    if isinstance(value, dict) or value is None:
        return value
    value = np.asarray(value)
    if value.dtype.kind in "OSUT":
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in value.reshape(-1).tolist()]
        flat = np.empty(len(texts), object)
        flat[:] = texts
        return flat.reshape(value.shape)
    return value


# --- comparing -------------------------------------------------------------------------------------------------


def assert_same(actual: Any, expected: Any, *, rtol: float = 1e-3, atol: float = 1e-7, where: str = "result") -> None:
    """Equal kind, element type and shape, and values within the tolerances onnx's own tests use."""
    if expected is None or isinstance(expected, str | int | float):
        assert actual == expected, where
    elif isinstance(expected, dict):
        assert isinstance(actual, dict), f"{where}: {type(actual)}"
        assert list(actual) == list(expected), where
        for key, value in expected.items():
            np.testing.assert_allclose(actual[key], value, rtol=rtol, atol=atol, err_msg=f"{where}[{key!r}]")
    elif isinstance(expected, list):
        assert isinstance(actual, list), f"{where}: {type(actual)}"
        assert len(actual) == len(expected), where
        for index, pair in enumerate(zip(actual, expected, strict=True)):
            assert_same(*pair, rtol=rtol, atol=atol, where=f"{where}[{index}]")
    elif isinstance(expected, SparseArray):
        assert_same(actual.dense(), expected.dense(), rtol=rtol, atol=atol, where=where)
    else:
        _assert_same_array(actual, np.asarray(expected), rtol, atol, where)


def _assert_same_array(actual: Any, expected: Any, rtol: float, atol: float, where: str) -> None:
    assert isinstance(actual, np.ndarray), f"{where}: {type(actual)} instead of an array"
    assert actual.dtype == expected.dtype, f"{where}: {actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{where}: {actual.shape} instead of {expected.shape}"
    if expected.dtype.kind == "O":
        assert actual.tolist() == expected.tolist(), where
        assert all(isinstance(v, str) for v in actual.reshape(-1).tolist()), where
        return
    if expected.dtype.name == "bfloat16" and rtol:
        rtol = max(rtol, 2.0**-6)
    if expected.dtype.kind == "V" or expected.dtype.name == "float8_e5m2":
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=where)


# --- other engines ---------------------------------------------------------------------------------------------


def one_node_model(
    op_type: str, inputs: Sequence[Any], *, opset: int, domain: str = "", outputs: int = 1, **attributes: Any
) -> tuple[ModelProto, dict[str, Any]]:
    """A model of one node whose graph inputs have the arrays' types, and its feeds; None omits an input."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    made = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], domain=domain, **made)
    feeds = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if name}
    graph = helper.make_graph(
        [node],
        "one_node",
        [
            helper.make_tensor_value_info(name, int(ElementType.from_numpy(value.dtype)), value.shape)
            for name, value in feeds.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    imports = [helper.make_opsetid(domain, opset)]
    if domain:
        imports.append(helper.make_opsetid("", 21))
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def ort_one_node(
    op_type: str, inputs: Sequence[Any], *, opset: int, outputs: int = 1, domain: str = "", **attributes: Any
) -> list[Any]:
    """What ONNX Runtime gives for one node, without optimisations; skips the test where it has no kernel."""
    model, feeds = one_node_model(op_type, inputs, opset=opset, outputs=outputs, domain=domain, **attributes)
    # ONNX Runtime wants every output to have a type.
    model = onnx.shape_inference.infer_shapes(model)
    try:
        session = session_or_skip(model)
    except Exception as error:
        # Its exception classes are not public; only a missing kernel is a reason to skip.
        if "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__:
            pytest.skip(f"ONNX Runtime has no kernel: {error}")
        raise
    return [to_array(v) for v in session.run(None, feeds)]


def reference_one_node(
    op_type: str, inputs: Sequence[Any], *, opset: int, outputs: int = 1, domain: str = "", **attributes: Any
) -> list[Any]:
    """What onnx.reference gives for one node; not a safe oracle for versions before opset 13."""
    from onnx.reference import ReferenceEvaluator

    model, feeds = one_node_model(op_type, inputs, opset=opset, outputs=outputs, domain=domain, **attributes)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [to_array(v) for v in ReferenceEvaluator(model).run(None, feeds)]


def check_against(
    engine: Callable[..., list[Any]],
    op_type: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    outputs: int = 1,
    domain: str = "",
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **attributes: Any,
) -> None:
    """Hold our kernel against `ort_one_node` or `reference_one_node`."""
    expected = engine(op_type, inputs, opset=opset, outputs=outputs, domain=domain, **attributes)
    result = call(op_type, inputs, opset=opset, outputs=outputs, domain=domain, **attributes)
    results = result if isinstance(result, tuple) else (result,)
    for index, (ours, theirs) in enumerate(zip(results, expected, strict=False)):
        assert_same(ours, theirs, rtol=rtol, atol=atol, where=f"output {index}")
