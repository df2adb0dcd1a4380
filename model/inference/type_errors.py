"""Collects type errors of nodes during inference in the child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from onnx_workbench.model.inference.onnx_library import InferenceRefused, infer_node
from onnx_workbench.model.inference.protocol import Spot, TypeFault
from onnx_workbench.model.io.protobuf import TypeProto
from onnx_workbench.model.io.writer.encode import write_type
from onnx_workbench.model.ir.types import TensorType, Type


class TypeErrors:
    """Type errors found so far. A function body with equal argument types is examined once."""

    def __init__(self) -> None:
        self.found: dict[tuple[Spot, tuple[Spot, ...]], TypeFault] = {}
        self._calls: tuple[Spot, ...] = ()
        self._is_sure = True
        self._taken: dict[Any, InferenceRefused | None] = {}  # by operator, version and types of inputs

    def reset(self, found: Mapping[tuple[Spot, tuple[Spot, ...]], TypeFault]) -> None:
        """Discard errors found under a wrong assumption about the same graph."""
        self.found.clear()
        self.found.update(found)

    @contextmanager
    def within(self, graph: Any, node: Any) -> Iterator[dict[tuple[Spot, tuple[Spot, ...]], TypeFault]]:
        """Collect errors in a called function separately; returns them as certain as if the call is executed."""
        outer, before = self.found, (self._calls, self._is_sure)
        self.found = {}
        self._calls, self._is_sure = (*self._calls, (id(graph), _name(node))), True
        yield self.found
        self.found, (self._calls, self._is_sure) = outer, before

    def add_all(self, found: Mapping[tuple[Spot, tuple[Spot, ...]], TypeFault]) -> None:
        """Add the errors of a function for a call, which in a branch may never be executed."""
        for key, fault in found.items():
            known = self.found.get(key)
            if known is None or not known.is_sure:
                self.found[key] = fault if self._is_sure else replace(fault, is_sure=False)

    @contextmanager
    def in_branch(self) -> Iterator[None]:
        """Mark errors in a branch that may never be taken as uncertain."""
        before, self._is_sure = self._is_sure, False
        yield
        self._is_sure = before

    def note(self, graph: Any, node: Any, visible: Mapping[str, Type], refused: InferenceRefused | None) -> None:
        """Record why a node is refused, or clear it."""
        key = (id(graph), _name(node)), self._calls
        if refused is None:
            self.found.pop(key, None)
        # False: an argument that no call gives is missing
        elif key[0][1] and not any(a.ref_attr_name for a in node.attribute):
            types = tuple(visible.get(name) for name in node.input)
            self.found[key] = TypeFault(*key, refused.reason, refused.is_type, self._is_sure, types)

    def note_excess(self, graph: Any, node: Any, visible: Mapping[str, Type], reason: str) -> None:
        """Record excluded inputs that runtimes compute, unless the node is refused."""
        key = (id(graph), _name(node)), self._calls
        if reason and key[0][1] and key not in self.found:
            types = tuple(visible.get(name) for name in node.input)
            self.found[key] = TypeFault(*key, reason, False, self._is_sure, types, is_computed=True)

    def check_types(self, graph: Any, node: Any, domain: str, visible: Mapping[str, Type], imports: Any) -> None:
        """Check the input types of a fully inferred node, which onnx's inference skips."""
        kinds = [_kind(visible.get(name)) for name in node.input]
        key = (domain, node.op_type, imports.get(domain), len(node.output), *kinds)
        if key not in self._taken:
            self._taken[key] = self._try_alone(node, domain, kinds, imports)
        refused = self._taken[key]
        if refused is not None:
            self.note(graph, node, visible, refused)

    @staticmethod
    def _try_alone(node: Any, domain: str, kinds: Sequence[Any], imports: Mapping[str, int]) -> InferenceRefused | None:
        given = {}
        for name, kind in zip(node.input, kinds, strict=True):
            if name and kind is None:
                return None
            if name:
                given[name] = TypeProto()
                write_type(given[name], kind if isinstance(kind, Type) else TensorType(kind))
        try:
            infer_node(node, domain, given, {}, imports)
        except InferenceRefused as refused:
            return refused if refused.is_type else None
        return None


def _name(node: Any) -> str:
    return next(iter(node.output), "")


def _kind(kind: Type | None) -> Any:
    """Return a key of a type's properties that schemas constrain, for fast comparison."""
    return kind.element_type if isinstance(kind, TensorType) else kind
