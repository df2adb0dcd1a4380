"""Element types of values that inference does not know, from the values that must have the same type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.analysis.node_constants import number
from onnx_workbench.model.analysis.subgraph_ports import argument, result
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.convert.function_calls import innermost
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.schemas.defaults import schema_of
from onnx_workbench.model.schemas.schema import Parameter


class SharedTypes:
    """Element types by value. Values are joined where a type variable of a schema, a call or a body gives them one.

    So the result of an operator that nobody knows has the type that its users need beside their other inputs. Where
    nothing tells, no value of a known type depends on it. Cost: one pass over all nodes, at the first question.
    """

    def __init__(self, model: Model, type_of: TypeOf) -> None:
        self._model, self._type_of = model, type_of
        self._joined: dict[Value, Value] = {}
        self._types: dict[Value, set[ElementType]] | None = None

    def of(self, value: Value) -> ElementType | None:
        """Return the element type of a tensor, or of the tensors in a sequence or optional; None if nothing tells."""
        known = self._known(value)
        if known is not None:
            return known
        if self._types is None:
            self._types = self._all()
        kinds = self._types.get(self._root(value), set())
        return next(iter(kinds)) if len(kinds) == 1 else None

    def _known(self, value: Value) -> ElementType | None:
        if value.initializer is not None:
            kind = value.initializer.element_type
        else:
            kind = innermost(self._type_of(value)) or 0
        return kind if isinstance(kind, ElementType) and kind else None

    def _all(self) -> dict[Value, set[ElementType]]:
        for graph in self._model.graphs():
            for node in graph.nodes:
                for values in _of_one_type(node):
                    self._join(values)
        kinds_by_root: dict[Value, set[ElementType]] = {}
        for value in self._joined:
            known = self._known(value)
            if known is not None:
                kinds_by_root.setdefault(self._root(value), set()).add(known)
        return kinds_by_root

    def _root(self, value: Value) -> Value:
        joined = self._joined
        while (above := joined.get(value, value)) is not value:
            joined[value] = joined.get(above, above)
            value = above
        return value

    def _join(self, values: Iterable[Value | None]) -> None:
        first: Value | None = None
        for value in values:
            if value is not None:
                root = self._root(value)
                first = root if first is None else first
                self._joined.setdefault(value, root)
                self._joined[root] = first


def _of_one_type(node: Node) -> Iterator[list[Value | None]]:
    """Yield groups of inputs, outputs and values of bodies that have the same element type."""
    function = called_by(node)
    for graph in node.bodies if function is None else [function.body]:
        yield from _through(node, graph)
    schema = None if function is not None or node.bodies else schema_of(node)
    if schema is None or not schema.is_signature_known:
        return
    formals = [
        *((schema.input(index), value) for index, value in enumerate(node.inputs)),
        *((schema.output(index), value) for index, value in enumerate(node.outputs)),
    ]
    groups: dict[str, list[Value | None]] = {}
    holds_tensors = any(is_container(formal) for formal, _ in formals)
    for formal, value in formals:
        if formal is None or not formal.homogeneous:
            continue
        is_content = holds_tensors and any("(float)" in text for text in formal.types)
        groups.setdefault("" if is_content else formal.type_name, []).append(value)
    yield from groups.values()


def is_container(formal: Parameter | None) -> bool:
    """Return whether a parameter is always a sequence or optional: its tensors have the type of those beside it."""
    return (
        formal is not None
        and bool(formal.types)
        and all(text.startswith(("seq(", "optional(")) for text in formal.types)
    )


def _through(node: Node, graph: Graph) -> Iterator[list[Value | None]]:
    """Yield what enters and leaves a body or function, inside and outside."""
    for position, value in enumerate(graph.inputs):
        yield [value, argument(node, graph, position)]
    for position, value in enumerate(graph.outputs):
        yield [value, result(node, graph, position)]
    if node.operator[:2] == ("", "Loop"):  # what an iteration leaves, the next one takes
        yield from map(list, zip(graph.inputs[2:], graph.outputs[1:], strict=False))
    elif node.operator[:2] == ("", "Scan"):
        states = len(graph.inputs) - number(node, "num_scan_inputs")
        yield from map(list, zip(graph.inputs[: max(states, 0)], graph.outputs, strict=False))
