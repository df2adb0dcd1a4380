"""Runs inference in the child process, and maps the result to the values of the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING

from onnx_workbench.model import extensions
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.budget import HELPER_SECONDS
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.inference import custom_rules
from onnx_workbench.model.inference.protocol import TypeFault, decode
from onnx_workbench.model.inference.type_lattice import refined
from onnx_workbench.model.ir.types import TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import GIB, run_isolated

if TYPE_CHECKING:  # the child process imports this package too, and needs none of them
    from onnx_workbench.model.ir.graph import Graph, Model, Node, Value


#: Size above which tensors are left out: inference reads only sizes and small constants.
_STRIP_FROM = 1024
_BETWEEN_CHECKS = 1024
_OF_PAYLOAD = 64  # bytes of memory per byte of a model, in addition to a fixed amount


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A stripped model for the child, made on the thread that owns the model, and the values in the same order."""

    payload: bytes
    values: tuple[dict[str, Value], ...]


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """A node that does not accept the types of its inputs, or (`is_type` False) their sizes, in onnx's words.

    Inside a function `calls` lead there, outer ones first. Not sure where the node may never run.
    """

    node: Node
    calls: tuple[Node, ...]
    reason: str
    is_type: bool
    is_sure: bool
    types: tuple[Type | None, ...]
    is_computed: bool = False  # runtimes compute it, though the specification excludes it


@dataclass(frozen=True, slots=True)
class InferredTypes:
    """Inference result. `types` holds only known types; `problem` is the reason why there is no result at all.

    `digest` is the hash of the child's reply about the values `asked` for, to detect an unchanged result without
    comparing. `written` is the number of values whose declared type changed, where types were declared too.
    """

    types: dict[Value, Type] = field(default_factory=dict)
    misfits: tuple[TypeMismatch, ...] = ()
    problem: str = ""
    digest: bytes = field(default=b"", repr=False)
    asked: tuple[dict[str, Value], ...] = field(default=(), repr=False)
    written: int = 0

    def type_of(self, value: Value) -> Type | None:
        """Return the inferred type, refined by the declared one or that of the constant."""
        found, declared = self.types.get(value), declared_type(value)
        return declared if found is None else refined(found, declared)


def request(
    model: Model, rules: Mapping[str, str] | None = None, progress: Progress = SILENT, *, formulas: bool = True
) -> InferenceRequest:
    """Prepare inference; `rules` are user rules for unknown operators: ``{"my.domain::Op": "same as input 0"}``.

    `formulas`: allow formulas of symbols as sizes, such as ``2*batch``. About 5 µs a node; checks `progress` every
    millisecond or two.
    """
    from onnx_workbench.model.io.writer.save import to_bytes
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    header = json.dumps({
        "rules": custom_rules.texts() | dict(rules or {}),
        "extensions": extensions.state(for_inference=True),
        "formulas": formulas,
    }).encode()  # fmt: skip
    data = to_bytes(model, Storage(DataLayout.STRIPPED, _STRIP_FROM), progress=progress)
    values = tuple(_by_name(graph, progress) for graph in model.graphs(progress))
    return InferenceRequest(header + b"\n" + data, values)


def _by_name(graph: Graph, progress: Progress) -> dict[str, Value]:
    return {value.name: value for value in _values(graph, progress)}


def _values(graph: Graph, progress: Progress) -> Iterator[Value]:
    """Return the values of a graph, once each, as `Graph.values`, with cancellation checks."""
    seen: set[Value] = set()
    for value in chain(graph.inputs, graph.initializers, _wired(graph, progress), graph.outputs, graph.declared):
        if value not in seen and value.graph is graph:
            seen.add(value)
            yield value


def _wired(graph: Graph, progress: Progress) -> Iterator[Value]:
    for number, node in enumerate(graph.nodes):
        if not number % _BETWEEN_CHECKS:
            progress.check()
        for value in chain(node.outputs, node.inputs):
            if value is not None:
                yield value


def answer(
    asked: InferenceRequest,
    progress: Progress = SILENT,
    before: InferredTypes | None = None,
    *,
    seconds: int = HELPER_SECONDS,
    in_background: bool = False,
) -> InferredTypes:
    """Run the inference of a request; returns `before` itself if the result is the same.

    `in_background` lowers the priority. Any thread; blocks. Never raises because of the model.
    """
    try:
        reply = run_isolated(
            "onnx_workbench.model.inference.child:run",
            asked.payload,
            what="Shape inference",
            memory=GIB + _OF_PAYLOAD * len(asked.payload),
            seconds=seconds,
            progress=progress,
            in_background=in_background,
        )
    except ModelError as error:
        return InferredTypes(problem=str(error))
    digest = sha256(reply).digest()
    if before is not None and (before.digest, before.asked) == (digest, asked.values):
        return before
    found: dict[Value, Type] = {}
    graphs, faults = decode(reply)
    for types, values in zip(graphs, asked.values, strict=True):
        for name, kind in types.items():
            if name in values:
                found[values[name]] = kind
    misfits = tuple(_misfits(faults, asked.values))
    return InferredTypes(found, misfits=misfits, digest=digest, asked=asked.values)


def _misfits(faults: Iterable[TypeFault], values: Sequence[Mapping[str, Value]]) -> Iterator[TypeMismatch]:
    for fault in faults:
        outputs = [values[number].get(name) for number, name in (fault.spot, *fault.calls)]
        node, *calls = (None if value is None else value.producer for value in outputs)
        known = tuple(call for call in calls if call is not None)
        if node is not None and len(known) == len(calls):
            yield TypeMismatch(node, known, fault.reason, fault.is_type, fault.is_sure, fault.types, fault.is_computed)


def infer(model: Model, rules: Mapping[str, str] | None = None, progress: Progress = SILENT) -> InferredTypes:
    """Infer in one call, where the model is not shared: scripts, the command line, a working copy."""
    return answer(request(model, rules, progress), progress)


def disagreements(
    model: Model, inferred: InferredTypes, progress: Progress = SILENT
) -> Iterator[tuple[Value, Type, Type]]:
    """Return values whose declared type contradicts the inferred one: (value, declared, inferred)."""
    for graph in model.graphs(progress):
        for value in _values(graph, progress):
            declared, found = value.type, inferred.types.get(value)
            if declared is not None and found is not None and not compatible(declared, found):
                yield value, declared, found


def compatible(a: Type, b: Type) -> bool:
    """Return whether two types are compatible: equal, or one leaves open what the other states."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return type(a) is type(b)
    if a.element_type != b.element_type and 0 not in (a.element_type, b.element_type):
        return False
    if a.shape is None or b.shape is None:
        return True
    if a.shape.rank != b.shape.rank:
        return False
    return all(
        x == y or not isinstance(x, int) or not isinstance(y, int)
        for x, y in zip(a.shape.dims, b.shape.dims, strict=True)
    )
