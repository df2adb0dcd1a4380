"""Tracing of one element of a value back to the elements it was computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_workbench.exec.inspect.receptive_field.indices import ElementReach, EvaluatedNode, at_index
from onnx_workbench.exec.inspect.receptive_field.node_inputs import reach
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Node, Value

#: Limit for the listed elements of an input.
_TOLD = 256


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A node with the keys of its values, picklable. `op_type` is empty for a call of a model function."""

    op_type: str
    domain: str
    version: int
    attributes: Mapping[str, Any]
    inputs: tuple[ValueKey | None, ...]
    outputs: tuple[ValueKey | None, ...]


def call_of(
    value: Value, key_of: Callable[[Value], ValueKey | None], node_of: Callable[[int], Node | None]
) -> TracedCall | None:
    """Return the current producer of a value; None for inputs and constants of a graph.

    `node_of` maps numbers to nodes: attribute references are resolved by the call of the enclosing function.
    """
    node = value.producer
    if node is None or node.graph is None:
        return None
    key = key_of(value)
    callers = [] if key is None else [node_of(number) for number in key[0]]
    attributes: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        given = _resolve(attribute, callers)
        if given is not None and isinstance(given.value, (int, float, str, tuple)):
            attributes[name] = given.value
    version = node.graph.opset_imports.get(node.domain, 0)
    inputs = tuple([None if v is None else key_of(v) for v in node.inputs])
    outputs = tuple([None if v is None else key_of(v) for v in node.outputs])
    op_type = node.op_type if called_by(node) is None else ""  # a function may have the name of an operator
    return TracedCall(op_type, node.domain, version, attributes, inputs, outputs)


def _resolve(attribute: Attribute | None, callers: Sequence[Node | None]) -> Attribute | None:
    """Resolve an attribute reference through calls of functions, outermost first; None if it is omitted."""
    for caller in reversed(callers):
        if attribute is None or not attribute.reference:
            return attribute
        function = None if caller is None else called_by(caller)
        if caller is None or function is None:
            return None
        defaults = {default.name: default for default in function.attribute_defaults}
        attribute = caller.attributes.get(attribute.reference) or defaults.get(attribute.reference)
    return attribute


@dataclass(frozen=True, slots=True)
class TraceOrigin:
    """The elements of one input that reach an output element.

    `suspect` is the element to follow next: the first non-finite one, else the largest. `examples` are pairs of index
    and value of the first few.
    """

    key: ValueKey
    reach: ElementReach
    suspect: tuple[int, ...]
    suspect_value: Any
    non_finite: int
    low: float | None
    high: float | None
    examples: tuple[tuple[tuple[int, ...], Any], ...]


@dataclass(frozen=True, slots=True)
class ElementTrace:
    """An element of a value and its origins. `value` is None if there is no such element."""

    value: Any
    shape: tuple[int, ...]
    origins: tuple[TraceOrigin, ...]
    problem: str = ""


def trace(
    result: RunResult, call: TracedCall | None, key: ValueKey, index: Sequence[int], links: Sequence[ValueKey] = ()
) -> ElementTrace:
    """Trace an element; `call` is None for inputs and constants of the graph, which have no origin.

    `links` are values identical to this one, such as the output of the subgraph that returned it; they are the first
    origins, unless they belong to another iteration. Values that were not kept are recomputed. LookupError if a value
    is unavailable.
    """
    array = result.value(key)
    if not isinstance(array, np.ndarray):
        return ElementTrace(None, (), (), f"it is a {describe(array).kind}, not a tensor")
    at = tuple(int(i) for i in index)
    if len(at) != array.ndim or any(not 0 <= i < d for i, d in zip(at, array.shape, strict=True)):
        return ElementTrace(None, array.shape, (), f"index {list(at)} is outside of shape {list(array.shape)}")
    value = plain(array[at])
    same = [
        _origin(link, at_index(-1, at), there)
        for link in links
        if (there := _alike(result, link, array, at)) is not None
    ]
    if call is None:
        return ElementTrace(value, array.shape, tuple(same))
    inputs = [None if k is None else _tensor(result, k) for k in call.inputs]
    position = call.outputs.index(key)
    shapes = [array.shape if k == key else _shape(result, k) for k in call.outputs]
    node = EvaluatedNode(call.op_type, call.domain, call.attributes, inputs, shapes, position, call.version)
    origins = same
    for reached in reach(node, at):
        source = inputs[reached.input]
        where = call.inputs[reached.input]
        if source is not None and where is not None and source.size:
            origins.append(_origin(where, reached, source))
    return ElementTrace(value, array.shape, tuple(origins))


def _tensor(result: RunResult, key: ValueKey) -> Array | None:
    value = result.value(key)
    return value if isinstance(value, np.ndarray) else None


def _alike(result: RunResult, key: ValueKey, array: Array, at: tuple[int, ...]) -> Array | None:
    """Return the tensor if it has the same element at an index; None if not, as in another iteration."""
    there = _tensor(result, key)
    if there is None or there.shape != array.shape:
        return None
    here, other = plain(array[at]), plain(there[at])
    return there if here == other or (here != here and other != other) else None


def _shape(result: RunResult, key: ValueKey | None) -> tuple[int, ...]:
    info = None if key is None else result.info(key)
    return () if info is None else info.shape


def _origin(key: ValueKey, found: ElementReach, source: Array) -> TraceOrigin:
    taken = found.take(source)
    flat = taken.reshape(-1)
    numbers = _numbers(flat)
    suspect, bad, low, high = 0, 0, None, None
    if numbers is not None and numbers.size:
        finite = np.isfinite(numbers)
        bad = int(numbers.size - np.count_nonzero(finite))
        suspect = int(np.argmin(finite)) if bad else _largest(numbers)
        if bad < numbers.size and numbers.dtype.kind != "c":
            low, high = float(numbers[finite].min()), float(numbers[finite].max())

    def index_of(position: int) -> tuple[int, ...]:
        return found.index([int(i) for i in np.unravel_index(position, taken.shape)]) if taken.ndim else ()

    examples = tuple((tuple(map(int, index_of(i))), plain(flat[i])) for i in range(min(flat.size, _TOLD)))
    at = tuple(map(int, index_of(suspect)))
    return TraceOrigin(key, found, at, plain(flat[suspect]), bad, low, high, examples)


def _largest(numbers: Array) -> int:
    """Return the position of the largest magnitude, without overflow of -128 in int8 and of complex numbers."""
    with np.errstate(over="ignore"):
        return int(np.argmax(np.abs(numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.float64))))


def _numbers(flat: Array) -> Array | None:
    if flat.dtype.kind in "fiuc":
        return flat
    if flat.dtype.kind == "b":
        return flat.view(np.uint8)
    return flat.astype(np.float32) if flat.dtype.kind == "V" else None


def plain(element: Any) -> Any:
    """Return an element as a plain Python object."""
    if isinstance(element, np.generic):
        kind = element.dtype.kind
        return float(element) if kind == "V" else element.item()
    return element
