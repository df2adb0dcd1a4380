"""Patterns and replacements by example: from nodes of a model, and from what became of one place."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.constants import Constants
from onnx_workbench.model.analysis.scoping import unique_name
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.edits.functions import boundary, function_of, in_graph_order, refuse_detour
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.steps import InsertNode, SetAttribute, SetGraphOutputs
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value, Values
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.text.formatting import display

_DOMAIN, _NAME = "example", "pattern"
_FEW = 16  # elements of integers, as axes and sizes, that are taken to be part of what is computed


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Something about an example that its other places may have to share: an attribute, a constant or a type.

    `is_likely`: it says what is computed, as most attributes and small constants do.
    """

    kind: Literal["attribute", "constant", "shape"]
    text: str
    is_likely: bool
    node: Node | None = None  # of the function, whose attribute it is
    name: str = ""
    value: Value | None = None  # of the function
    tensor: Tensor | None = None
    type: TensorType | None = None


class Example:
    """Nodes of one graph as a pattern. Independent of the model afterwards.

    ModelError: they are of several graphs, or a path leaves them and comes back.
    """

    def __init__(self, model: Model, nodes: Collection[Node], type_of: TypeOf) -> None:
        graph, chosen = in_graph_order([n for n in nodes if n.op_type != "Constant" or n.domain])
        refuse_detour(chosen)
        self.inputs, self.outputs = boundary(chosen)
        self._function = function_of(graph, chosen, self.inputs, self.outputs, (_DOMAIN, _NAME))
        for domain in {node.domain for node in chosen}:
            self._function.opset_imports = {domain: schemas.newest_opset(domain), **self._function.opset_imports}
        _name_plainly(self._function)
        constants = Constants(model)
        body = self._function.body
        self.conditions = (
            *self._attributes(),
            *self._constants([constants.tensor(value) for value in self.inputs]),
            *self._types(list(zip(self.inputs, body.inputs, strict=True)), type_of),
            *self._types(list(zip(self.outputs, body.outputs, strict=True)), type_of),
        )

    def _attributes(self) -> list[Condition]:
        return [
            Condition("attribute", f"{node.op_type}: {name} = {display(str(a.value), 60)}", True, node, name)
            for node in self._function.body.nodes
            for name, a in node.attributes.items()
            if not a.reference and not a.graphs
        ]

    def _constants(self, tensors: Sequence[Tensor | None]) -> list[Condition]:
        pairs = zip(self.inputs, self._function.body.inputs, tensors, strict=True)
        return [
            Condition("constant", f"{display(a.name, 60)}{_content(t)}", _is_likely(t), value=own, tensor=t)
            for a, own, t in pairs
            if t is not None
        ]

    def _types(self, pairs: Sequence[tuple[Value, Value]], type_of: TypeOf) -> list[Condition]:
        shapes = []
        for actual, own in pairs:
            type_ = type_of(actual)
            if isinstance(type_, TensorType):
                shapes.append(Condition("shape", display(f"{actual.name}: {type_}", 80), False, value=own, type=type_))
            own._type = None
        return shapes

    def pattern(self, equal: Collection[Condition]) -> Function:
        """Return a pattern for the places that share these conditions, whatever the others are."""
        cloner = Cloner()
        function = cloner.function(self._function)
        copies = dict(zip(self._function.body.nodes, function.body.nodes, strict=True))
        for value in function.body.values():
            value._type = None
        for condition in self.conditions:
            own = None if condition.value is None else cloner.values[condition.value]
            if condition.kind == "attribute" and condition not in equal and condition.node is not None:
                _capture(function, copies[condition.node], condition.name)
            elif condition.kind == "constant" and condition in equal and own is not None:
                _fix(function, own, condition.tensor)
            elif condition.kind == "shape" and condition in equal and own is not None:
                own._type = condition.type
        return function


def _is_likely(tensor: Tensor) -> bool:
    """Return whether a constant says what is computed, and is no weight."""
    kind = tensor.element_type
    return tensor.size == 1 or (tensor.size <= _FEW and not (isinstance(kind, ElementType) and kind.is_float))


def _content(tensor: Tensor) -> str:
    is_shown = tensor.size <= _FEW and not tensor.problem
    return f" = {display(str(tensor.numpy().tolist()), 60)}" if is_shown else f": {tensor.type}"


def _capture(function: Function, node: Node, name: str) -> None:
    """Let an attribute of a node be that of the function, which gets one of a free name."""
    free = unique_name(name, set(function.attributes))
    SetAttribute(node, name, Attribute(name, node.attributes[name].kind, None, reference=free)).apply()
    function.attributes = (*function.attributes, free)


def _fix(function: Function, value: Value, tensor: Tensor | None) -> None:
    """Make an input a constant."""
    body = function.body
    body.inputs = Values(v for v in body.inputs if v is not value)
    content = {"value": Attribute("value", AttributeKind.TENSOR, tensor)}
    InsertNode(body, Node("Constant", (), (value,), attributes=content), body.nodes.first).apply()
    function.opset_imports = {"": schemas.newest_opset(), **function.opset_imports}


def _name_plainly(function: Function) -> None:
    """Give the values names that ONNX text can hold."""
    taken: set[str] = set()
    for value in function.body.values():
        plain = re.sub(r"\W", "_", value.name.strip("/"), flags=re.ASCII)
        value.name = unique_name(plain if plain[:1].isalpha() else f"v{plain}", taken)
        taken.add(value.name)


def calling(pattern: Function, domain: str, name: str, model: Model) -> Function:
    """Return a replacement that is one node: an operator, or a function of the model, with the pattern's inputs.

    It gets the attributes that the pattern captures and it has. ModelError: there is no such operator.
    """
    imports = {**model.opset_imports, **pattern.opset_imports}
    version = imports.get(domain, schemas.newest_opset(domain))
    schema, own = schemas.find(name, version, domain), model.function(domain, name)
    if own is None and schema is None and (domain in traits.TABLES or not name):
        where = f"{domain or 'ai.onnx'} {version}"
        raise ModelError(f"There is no operator {display(name, 60)}", f"{where} has none of this name.")
    names = set(own.attributes) if own is not None else set(schema.attributes) if schema is not None else None
    kinds = {a.reference: a.kind for n in pattern.body.nodes for a in n.attributes.values() if a.reference}
    passed = {n: Attribute(n, kinds[n], None, reference=n) for n in pattern.attributes if names is None or n in names}

    body = Graph("replacement")
    inputs, outputs = (tuple(Value(v.name, graph=body) for v in ends) for ends in _ends(pattern))
    body.inputs = Values(inputs)
    InsertNode(body, Node(name, inputs, outputs, name=name, domain=domain, attributes=passed)).apply()
    SetGraphOutputs(body, outputs).apply()
    function = Function("replacement", pattern.domain, body=body)
    function.attributes, function.opset_imports = tuple(passed), {domain: version}
    return function


def _ends(function: Function) -> tuple[Values, Values]:
    return function.body.inputs, Values(function.body.outputs)


def text_for(pattern: Function) -> str:
    """Return the beginning of a replacement in ONNX text, with the pattern's operators as comments."""
    inputs, results = (", ".join(value.name for value in ends) for ends in _ends(pattern))
    attributes = f" <{', '.join(pattern.attributes)}>" if pattern.attributes else ""
    imports = ", ".join(f'"{domain}" : {version}' for domain, version in pattern.opset_imports.items())
    lines = [f'<domain: "{pattern.domain}", opset_import: [{imports}]>']
    lines.append(f"replacement{attributes} ({inputs}) => ({results}) {{")
    for node in pattern.body.nodes:
        made, given = (", ".join("" if v is None else v.name for v in ends) for ends in (node.outputs, node.inputs))
        lines.append(f"    # {made} = {node.qualified_op_type} ({given})")
    return "\n".join([*lines, "}"])
