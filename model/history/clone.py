"""Copies of nodes, graphs and functions, for duplicating, pasting, inlining and extracting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from onnx_workbench.model.history.steps import InsertNode, SetGraphOutputs
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.devices import with_names
from onnx_workbench.model.ir.graph import Function, Graph, Node, QuantizationAnnotation, TrainingInfo, Value, Values
from onnx_workbench.model.progress import SILENT, Progress

_SHARED: Mapping[type, tuple[str, ...]] = {
    Function: (
        "doc_string", "attributes", "attribute_defaults", "opset_imports", "metadata", "messages", "_source",
    ),
    TrainingInfo: ("initialization_binding", "update_binding", "messages", "_source"),
}  # fmt: skip


def share_fields(copy: Function | TrainingInfo, original: Function | TrainingInfo) -> None:
    """Give a copy the fields of its original, besides its key and graphs."""
    for field in _SHARED[type(original)]:
        setattr(copy, field, getattr(original, field))


class Cloner:
    """Copies parts of a model; `values` maps each copied (or replaced) value to its copy.

    A value that is not in `values` and not defined inside the copied part is captured from outside: the copy uses the
    same object. `rename` names the copies of values and nodes; `substitute` replaces attributes that refer to
    attributes of an enclosing function (inlining). `progress` is checked at every value and node of a graph.
    """

    def __init__(
        self,
        values: dict[Value, Value | None] | None = None,
        *,
        rename: Callable[[str], str] = str,
        rename_node: Callable[[str], str] = str,
        substitute: Callable[[Attribute], Attribute | None] | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.values: dict[Value, Value | None] = {} if values is None else values
        self._rename = rename
        self._rename_node = rename_node
        self._substitute = substitute
        self._progress = progress

    def value(self, value: Value) -> Value:
        """Return a copy of a value's name, type, texts and constant, without links."""
        copy = Value(self._rename(value.name), value.type)
        copy._details = value.details
        copy._source = value._source
        copy.initializer = value.initializer
        self.values[value] = copy
        return copy

    def nodes(
        self, nodes: Iterable[Node], bodies: Mapping[Node, Mapping[Value, Value | None]] | None = None
    ) -> list[Node]:
        """Return copies of nodes, wired to each other as the originals are; in no graph yet.

        `bodies` maps nodes to replacements of values that their bodies capture; these take precedence over `values`.
        """
        nodes = list(nodes)
        for node in self._progress.paced(nodes):
            for output in node.outputs:
                if output is not None and output not in self.values:
                    self.value(output)
        paced = self._progress.paced(nodes)
        return [self._knowing(bodies.get(node) if bodies else None)._node(node) for node in paced]

    def graph(self, graph: Graph) -> Graph:
        """Return a copy of a whole graph."""
        copy = Graph(graph.name)
        copy.doc_string, copy.metadata, copy._source = graph.doc_string, graph.metadata, graph._source
        copy.messages = graph.messages
        for value in graph.values(self._progress):
            if value not in self.values:
                self.value(value)
        copy.inputs = Values(self._cloned(v) for v in graph.inputs)
        copy.initializers = [self._cloned(v) for v in graph.initializers]
        copy.declared = Values(self._cloned(v) for v in graph.declared)
        for value in (*copy.inputs, *copy.initializers, *copy.declared):
            value.graph = copy
        copy.quantization_annotations = tuple(
            QuantizationAnnotation(
                self._cloned(a.value), tuple((key, self._cloned(v)) for key, v in a.parameters), a.source
            )
            for a in graph.quantization_annotations
        )
        for node in graph.nodes:
            self._progress.check()
            InsertNode(copy, self._node(node)).apply()
        SetGraphOutputs(copy, tuple(self._returned(v) for v in graph.outputs)).apply()
        return copy

    def function(self, function: Function) -> Function:
        """Return a copy of a function."""
        copy = Function(function.name, function.domain, function.overload, self.graph(function.body))
        share_fields(copy, function)
        return copy

    def _returned(self, value: Value) -> Value:
        """Return an output of a copied graph; a removed one becomes an undefined name, as outputs cannot be None."""
        copy = self.values.get(value, value)
        return Value(value.name, value.type) if copy is None else copy

    def _cloned(self, value: Value) -> Value:
        copy = self.values.get(value, value)
        return value if copy is None else copy

    def _node(self, node: Node) -> Node:
        copy = Node(
            node.op_type,
            tuple(None if v is None else self.values.get(v, v) for v in node.inputs),
            tuple(None if v is None else self.values[v] for v in node.outputs),
            name=self._rename_node(node.name),
            domain=node.domain,
            overload=node.overload,
        )
        if node._attributes is None and self._substitute is None:
            copy._attributes = None
        else:
            copy._attributes = self._attributes(node)
            for body in copy.bodies:
                body.owner = copy
        copy._details, copy._source, copy._decoder = node._details, node._source, node._decoder
        if node.is_spread:
            _name_spread(node, copy)
        return copy

    def _attributes(self, node: Node) -> dict[str, Attribute]:
        copies = {}
        for name, attribute in node.attributes.items():
            kept: Attribute | None = attribute
            if attribute.reference and self._substitute is not None:
                kept = self._substitute(attribute)
                if kept is not None and kept.graphs:
                    kept = replace(kept, value=self._for_one_place()._bodies(kept))
            elif attribute.graphs:
                kept = replace(attribute, value=self._bodies(attribute))
            if kept is not None:
                copies[name] = kept
        return copies

    def _knowing(self, more: Mapping[Value, Value | None] | None) -> Cloner:
        if not more:
            return self
        return Cloner(
            {**self.values, **more},
            rename=self._rename,
            rename_node=self._rename_node,
            substitute=self._substitute,
            progress=self._progress,
        )

    def _for_one_place(self) -> Cloner:
        """Return a cloner for a body that may be copied to several places: each copy gets its own values."""
        return Cloner(dict(self.values), rename=self._rename, rename_node=self._rename_node, progress=self._progress)

    def _bodies(self, attribute: Attribute) -> Any:
        graphs = tuple(self.graph(body) for body in attribute.graphs)
        return graphs[0] if attribute.kind is AttributeKind.GRAPH else graphs


def _name_spread(node: Node, copy: Node) -> None:
    """Rename the tensors in the device configurations of a copy to the names of its own inputs and outputs."""
    pairs = (*zip(node.inputs, copy.inputs, strict=True), *zip(node.outputs, copy.outputs, strict=True))
    names = {old.name: None if new is None else new.name for old, new in pairs if old is not None}
    copy._details = replace(node.details, device_configurations=with_names(node.device_configurations, names))
