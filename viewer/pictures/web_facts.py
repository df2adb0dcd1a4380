"""Facts of the nodes, values and groups of a graph as plain data, for the side panel of a web page.

All texts are limited in length and free of invisible characters (`display`); objects refer to each other by
index, so that each is written once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from onnx_workbench.exec.inspect.node_data import Matched
from onnx_workbench.exec.inspect.value_summary import ValueSummary
from onnx_workbench.exec.values.statistics import Statistics, statistics
from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.schemas import find
from onnx_workbench.model.text.attributes import attribute_source, has_text
from onnx_workbench.model.text.formatting import bytes_text, display, number_text, plural, type_text
from onnx_workbench.viewer.canvas.scene.drawing import Box, Kind
from onnx_workbench.viewer.canvas.scene.node_text import attribute_text, tensor_text
from onnx_workbench.viewer.document.edge_notes import NoteOf, no_note
from onnx_workbench.viewer.style.labels import name_of, trail

#: Limits for the bytes of weights read for statistics: of each, and in total.
SMALL_WEIGHT = 16 << 20
ALL_WEIGHTS = 256 << 20

_NAME = 200
_TEXT = 2000
_MOST_LISTED = 200  # limit for the inputs, outputs, attributes of one node
_MOST_METADATA = 40
_FEW = 8  # limit for elements that are written out

Fact = list[str]  # label and text


@dataclass(slots=True)
class PageNotes:
    """Facts of a run and of a comparison to add to a page; empty by default.

    `note_of` returns the note beside an edge, `summaries` has statistics of values of a run. `kinds` has the kind of
    difference of nodes ("added", "removed", "changed", "moved", "renamed"), `differences` its description, and `edges`
    the edges that only one side has, by value and consumer. `data` has numbers or texts of nodes, which colour them.
    """

    note_of: NoteOf = no_note
    summaries: Mapping[Value, ValueSummary] = field(default_factory=dict)
    kinds: Mapping[Node, str] = field(default_factory=dict)
    differences: Mapping[object, Sequence[str]] = field(default_factory=dict)
    edges: Mapping[tuple[Value, object], str] = field(default_factory=dict)
    data: Matched | None = None

    def edge_kind(self, value: Value, consumer: object) -> str:
        """Return "added" or "removed" for an edge that only one side has, else empty."""
        return self.edges.get((value, consumer), "")


class Facts:
    """Collects facts in lists: `nodes`, `values`, `groups` and `graphs`. Reads the model and small weights."""

    def __init__(self, type_of: TypeOf, notes: PageNotes, progress: Progress) -> None:
        self.type_of = type_of
        self._notes = notes
        self._progress = progress
        self._weights_left = ALL_WEIGHTS
        self._indexes: dict[object, int] = {}
        self.nodes: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.graphs: list[dict[str, Any]] = []

    def add_graph(self, graph: Graph) -> None:
        """Add all nodes of a graph, including those inside closed groups, so that they can be searched."""
        if graph in self._indexes:
            return
        self.graph(graph)
        for node in self._progress.paced(graph.nodes):
            self.node(node)

    # Each method returns the index of the object in its list.

    def node(self, node: Node) -> int:
        """Return the index of a node; adds its operator, name, inputs, outputs, attributes and texts."""
        earlier = self._indexes.get(node)
        if earlier is not None:
            return earlier
        number = self._indexes[node] = len(self.nodes)
        facts: dict[str, Any] = {"op": display(node.op_type, _NAME), "name": display(node.name, _NAME)}
        self.nodes.append(facts)
        graph = node.graph
        schema = None
        if graph is not None:
            schema = find(node.op_type, graph.opset_imports.get(node.domain, 1), node.domain)
            facts["graph"] = self.graph(graph)
        if node.domain:
            facts["domain"] = display(node.domain, _NAME)
        parameters = (schema.input, schema.output) if schema is not None else (None, None)
        for key, values, parameter in zip(("in", "out"), (node.inputs, node.outputs), parameters, strict=True):
            facts[key] = [
                [
                    -1 if value is None else self.value(value),
                    formal.name if parameter is not None and (formal := parameter(index)) is not None else "",
                ]
                for index, value in enumerate(values[:_MOST_LISTED])
            ]
        attributes = [_attribute(one) for one in islice(node.attributes.values(), _MOST_LISTED)]
        facts |= _present(attributes=attributes, doc=_document(node.doc_string), metadata=_metadata(node.metadata))
        facts |= _present(data=self._data([node]))
        facts |= _present(kind=self._notes.kinds.get(node, ""), differences=self._differences(node))
        return number

    def value(self, value: Value) -> int:
        """Return the index of a value; adds its name, type, constant and result of a run."""
        earlier = self._indexes.get(value)
        if earlier is not None:
            return earlier
        number = self._indexes[value] = len(self.values)
        type_ = self.type_of(value)
        tensor = value.initializer
        if tensor is not None and type_ is None:
            type_ = tensor.type
        summary = self._notes.summaries.get(value)
        facts: dict[str, Any] = {"name": display(value.name, _NAME)}
        self.values.append(facts)
        facts |= _present(
            type="" if type_ is None else type_text(type_),
            constant=[] if tensor is None else self._constant(tensor),
            run=[] if summary is None else statistics_facts(summary.statistics),
            bars=list(summary.counts) if summary is not None else [],
            role="input" if value.is_input else "output" if value.is_output else "",
            doc=_document(value.doc_string),
            differences=self._differences(value),
        )
        return number

    def scope(self, scope: Scope) -> int:
        """Return the index of a group; adds its name and operators."""
        number = self._indexes.get(scope)
        if number is None:
            number = self._indexes[scope] = len(self.groups)
            operators = [[display(op, _NAME), count] for op, count in scope.operators()[:_MOST_LISTED]]
            path = display(" › ".join(scope.path), _TEXT)
            self.groups.append(
                {"name": display(scope.name, _NAME), "path": path, "count": scope.count, "ops": operators}
                | _present(data=self._data(list(scope.all_nodes())))
            )
        return number

    def graph(self, graph: Graph) -> int:
        """Return the index of a graph; adds its name with the enclosing objects."""
        number = self._indexes.get(graph)
        if number is None:
            number = self._indexes[graph] = len(self.graphs)
            self.graphs.append({"name": name_of(graph), "path": trail(graph), "count": len(graph.nodes)})
        return number

    def of_model(self, graph: Graph) -> dict[str, Any]:
        """Return facts of the model of a graph, and the graph's inputs and outputs."""
        model = graph.model
        facts: list[Fact] = [["Nodes", number_text(len(graph.nodes))]]
        if model is not None:
            facts += _model_facts(model)
        if self._notes.data is not None:
            facts += _data_facts(self._notes.data)
        return {
            "facts": facts,
            "in": [self.value(value) for value in graph.required_inputs[:_MOST_LISTED]],
            "out": [self.value(value) for value in graph.outputs[:_MOST_LISTED]],
            "doc": _document(model.doc_string if model is not None else graph.doc_string),
            "differences": self._differences(model) + self._differences(graph),
        }

    def kind_of(self, box: Box) -> str:
        """Return the kind of difference of a box's object; of a closed group, that of its first different node."""
        kinds = self._notes.kinds
        if not kinds:
            return ""
        match box.subject:
            case Node():
                return kinds.get(box.subject, "")
            case Scope() if box.kind is Kind.GROUP:
                inside = {kinds[node] for node in box.subject.all_nodes() if node in kinds}
                # even if all its nodes are new, the group exists on both sides
                return "" if not inside else "changed" if len(inside) > 1 else inside.pop()
            case Value():
                return self._notes.edge_kind(box.subject, None)
            case _:
                return ""

    def _data(self, nodes: Sequence[Node]) -> list[Fact]:
        """Return the number or text of nodes: of several the sum, or how many have which text."""
        columns = () if self._notes.data is None else self._notes.data.columns
        return [list(found) for found in (column.of(nodes) for column in columns) if found is not None]

    def _differences(self, item: object) -> list[str]:
        return [display(line, 400, elide="end") for line in self._notes.differences.get(item, ())[:_MOST_LISTED]]

    def _constant(self, tensor: Tensor | SparseTensor) -> list[Fact]:
        """Return the size and, for small readable weights, statistics and the first elements."""
        facts = [["Size", bytes_text(tensor.nbytes)]]
        if isinstance(tensor, SparseTensor):
            return [["Sparse", tensor_text(tensor)], *facts]
        if tensor.problem:
            return [*facts, ["Not available", display(tensor.problem, _TEXT)]]
        if not 0 < tensor.nbytes <= min(SMALL_WEIGHT, self._weights_left):
            return facts
        self._weights_left -= tensor.nbytes
        self._progress.check()
        try:
            array = tensor.numpy()
        except ModelError as error:
            return [*facts, ["Not available", display(str(error), _TEXT)]]
        if array.size > 1:
            facts += statistics_facts(statistics(array))
        first = [_element(one) for one in array.reshape(-1)[:_FEW].tolist()]
        text = ", ".join(first) + (", …" if array.size > _FEW else "")
        return [*facts, ["Elements" if array.size > 1 else "Value", display(text, 300, elide="end")]]


def statistics_facts(found: Statistics) -> list[Fact]:
    """Return the statistics of a tensor as labels and texts."""
    facts: list[Fact] = []
    numbers = (("Minimum", found.minimum), ("Maximum", found.maximum), ("Mean", found.mean), ("Std", found.deviation))
    facts += [[label, number_text(number)] for label, number in numbers if number is not None]
    counts = (
        ("Zeros", found.zeros), ("NaN", found.nan), ("inf", found.positive_infinity), ("−inf", found.negative_infinity),
    )  # fmt: skip
    facts += [[label, number_text(count)] for label, count in counts if count]
    return facts or [["Elements", number_text(found.size)]]


def _element(element: object) -> str:
    match element:
        case bool() | int():
            return str(element)
        case float():
            return number_text(element) if math.isfinite(element) else str(element)
        case _:
            return display(str(element), 60)


def _present(**facts: Any) -> dict[str, Any]:
    return {key: fact for key, fact in facts.items() if fact}


def _attribute(attribute: Attribute) -> Fact:
    if attribute.graphs:
        text = ", ".join(name_of(graph) for graph in attribute.graphs[:_FEW])
    elif not attribute.reference and has_text(attribute.kind):
        text = display(attribute_source(attribute, 64), _TEXT, elide="end")
    else:
        text = attribute_text(attribute)
    return [display(attribute.name, _NAME), text]


def _metadata(metadata: Mapping[str, str]) -> list[Fact]:
    listed = islice(metadata.items(), _MOST_METADATA)
    return [[display(key, _NAME), display(text, _TEXT, elide="end")] for key, text in listed]


def _data_facts(found: Matched) -> list[Fact]:
    """Return the range or the texts of node data, and how many names matched."""
    return [[display(found.title, _NAME), scale_text(found)], ["Data", display(found.summary(), _TEXT, elide="end")]]


def scale_text(found: Matched) -> str:
    """Return the range of numbers, or the different texts."""
    texts = list(dict.fromkeys(value for value in found.values.values() if isinstance(value, str)))
    if texts:
        return display(", ".join(texts[:_FEW]) + (", …" if len(texts) > _FEW else ""), _NAME)
    numbers = [value for value in found.values.values() if not isinstance(value, str)]
    return f"{number_text(min(numbers))} to {number_text(max(numbers))}"


def _document(text: str) -> str:
    return display(text, _TEXT, elide="end", keep_lines=True)


def _model_facts(model: Model) -> list[Fact]:
    producer = display(f"{model.producer_name} {model.producer_version}".strip(), _NAME)
    opsets = [f"{display(domain, _NAME) or 'ai.onnx'} {version}" for domain, version in model.opset_imports.items()]
    weights = [value.initializer for graph in model.graphs() for value in graph.initializers]
    size = sum(tensor.nbytes for tensor in weights if tensor is not None)
    facts = [
        ["Weights", f"{plural(len(weights), 'tensor')}, {bytes_text(size)}" if weights else ""],
        ["Functions", number_text(len(model.functions)) if model.functions else ""],
        ["Opset", ", ".join(opsets[:_FEW])],
        ["IR version", str(model.ir_version)],
        ["Producer", producer],
        *_metadata(model.metadata),
    ]
    return [fact for fact in facts if fact[1]]
