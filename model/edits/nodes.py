"""Add, remove, duplicate and change nodes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.call_graph import functions_used
from onnx_workbench.model.analysis.scoping import names_taken, node_names, run_order, unique_name
from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.values import ensure_order, update_sharding_names
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetField,
    SetInitializer,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import Attribute, make_attribute
from onnx_workbench.model.ir.devices import NodeDeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.name_index import ancestor_in
from onnx_workbench.model.ir.types import TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas.defaults import schema_of

#: The version of ai.onnx imported by a model that imports none: supported by current programs and those of years ago.
_WIDELY_READ = 13


def add_node(
    edit: Transaction,
    graph: Graph,
    op_type: str,
    inputs: Sequence[Value | None] = (),
    *,
    domain: str = "",
    overload: str = "",
    attributes: Mapping[str, Any] | None = None,
    name: str = "",
    before: Node | None = None,
) -> Node:
    """Add a node with new outputs and as many empty inputs as its schema requires.

    `attributes` are Attributes or plain Python values. A domain that is not imported yet is imported at its newest
    version. `before` None puts the node at the end, or after the producers of its inputs.
    """
    if not op_type:
        raise ModelError("A node needs an operator type", "The operator type is empty.")
    schema = _signature(edit, graph, op_type, domain)
    function = edit.model.function(domain, op_type, overload)
    count = len(function.body.outputs) if function else max(schema.min_outputs, 1) if schema else 1
    needed = len(function.body.inputs) if function else schema.min_inputs if schema else 0
    node_name = unique_name(name or op_type, node_names(graph))
    padded = (*inputs, *([None] * (needed - len(inputs))))
    node = Node(
        op_type,
        padded,
        fresh_outputs(graph, node_name, range(count)),
        name=node_name,
        domain=domain,
        overload=overload,
        attributes={k: v if isinstance(v, Attribute) else make_attribute(k, v) for k, v in (attributes or {}).items()},
    )
    edit.do(InsertNode(graph, node, before))
    refuse_recursion(edit.model, graph, [node])
    for used in inputs:
        if used is not None:
            ensure_order(edit, used, node)
    return node


def fresh_outputs(graph: Graph, title: str, indices: Iterable[int]) -> tuple[Value, ...]:
    """Return new values for outputs of a node, under free names."""
    taken = names_taken(graph)
    values = []
    for index in indices:
        values.append(Value(unique_name(f"{title}_output_{index}", taken)))
        taken.add(values[-1].name)
    return tuple(values)


def _signature(edit: Transaction, graph: Graph, op_type: str, domain: str) -> schemas.Schema | None:
    """Return the operator's schema at the graph's opset, importing its domain first if needed."""
    import_operators(edit, graph, domain, schemas.newest_opset(domain))
    return schemas.find(op_type, graph.opset_imports.get(domain, 1), domain)


def import_operators(edit: Transaction, graph: Graph, domain: str = "", version: int = _WIDELY_READ) -> None:
    """Import a domain for nodes that are added to a model of other ones: of ai.onnx a version that most programs read.

    A version that the graph has already stays.
    """
    import_domains(edit, graph.importer, {domain: version})


def import_domains(edit: Transaction, importer: Model | Function | None, imports: Mapping[str, int]) -> None:
    """Import domains at these versions in a function or the model (None), as far as it does not import them yet."""
    target = importer or edit.model
    missing = {domain: version for domain, version in imports.items() if domain not in target.opset_imports}
    if missing:
        edit.do(SetField(target, "opset_imports", {**target.opset_imports, **missing}))


def delete(edit: Transaction, nodes: Collection[Node], *, with_constants: bool = True) -> None:
    """Remove nodes, and initializers and Constants that only they used. Other consumers keep the then undefined
    names.
    """
    used = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None)
    for node in nodes:
        edit.do(RemoveNode(node))
    if with_constants:
        drop_unused_constants(edit, used)


def drop_unused_constants(edit: Transaction, candidates: Collection[Value]) -> None:
    """Remove constants without users, in the given order, so that the same edit always makes the same steps."""
    for value in candidates:
        if value.uses:
            continue
        if value.initializer is not None and not value.is_input and value.graph is not None:
            edit.do(SetInitializer(value.graph, value, None))
        elif value.producer is not None and value.producer.graph is not None and is_constant(value):
            edit.do(RemoveNode(value.producer))


def is_constant(value: Value) -> bool:
    """Return whether a value is an initializer or the output of a Constant node."""
    producer = value.producer
    return value.initializer is not None or (
        producer is not None and producer.op_type == "Constant" and not producer.domain
    )


def delete_and_bridge(edit: Transaction, nodes: Collection[Node]) -> None:
    """Remove nodes, connecting the first data input of each to the users of its first output.

    Where a body would then return an outer value, which ONNX Runtime refuses, the node becomes Identity instead.
    ModelError if another output of a node is still used.
    """
    for node in nodes:
        source = bridge_source(node)
        if source is None:
            raise ModelError(
                f"{node.title} cannot be bridged",
                "It has no input that could take the place of its output.",
                node,
            )
        returns = bool(node.outputs) and node.outputs[0] is not None and node.outputs[0].is_output
        if returns and source.graph is not node.graph:
            change_operator(edit, node, "Identity")
            edit.do(SetInputs(node, (source,)))
        else:
            bridge(edit, node, source)
    for node in nodes:
        for value in node.outputs[1:]:
            if value is not None and value.uses:
                detail = f"Its output {value.name} is used, and no input can take its place."
                raise ModelError(f"{node.title} cannot be bridged", detail, node)


def bridge(edit: Transaction, node: Node, source: Value) -> None:
    """Remove a node; a value, which may be constant, replaces its first output."""
    target = node.outputs[0] if node.outputs else None
    edit.do(RemoveNode(node))
    if target is not None:
        _replace(edit, target, source)
    drop_unused_constants(edit, dict.fromkeys(v for v in node.inputs if v is not None))


def bridge_source(node: Node) -> Value | None:
    """Return the input that replaces the output of a removed node: the first non-constant one of the same type.

    None if there is none. For an operator with bodies the schema must relate the types: an If's condition is no data.
    """
    schema = schema_of(node) if node.bodies else None
    formal = None if schema is None else schema.output(0)
    candidates = [
        value
        for index, value in enumerate(node.inputs)
        if value is not None
        and not is_constant(value)
        and (schema is None or formal is None or _is_of(schema.input(index), formal))
    ]
    output = node.outputs[0] if node.outputs else None
    wanted = output.type if output is not None else None
    if isinstance(wanted, TensorType):
        for value in candidates:
            if isinstance(value.type, TensorType) and value.type.element_type == wanted.element_type:
                return value
    return candidates[0] if candidates else None


def _is_of(parameter: schemas.Parameter | None, other: schemas.Parameter) -> bool:
    return parameter is not None and parameter.type_name == other.type_name


def _replace(edit: Transaction, old: Value, new: Value) -> None:
    """Replace every use of `old` by `new`; a graph output keeps its name where possible."""
    returns = old.is_output
    replace_uses(edit, old, new)
    internal = new.producer is not None and new.initializer is None
    if returns and internal and sum(isinstance(user, Graph) for user, _ in new.uses) == 1:
        called = new.name
        edit.do(SetField(new, "name", old.name))
        update_sharding_names(edit, {new: called})
        if new.type is None:
            edit.do(SetField(new, "type", old.type))  # an output of the main graph must have one


def replace_uses(edit: Transaction, old: Value, new: Value) -> None:
    """Replace every use of one value by another, graph outputs included."""
    edit.do(MoveUses(old, new, tuple(old.uses)))


def duplicate(edit: Transaction, nodes: Collection[Node]) -> list[Node]:
    """Duplicate nodes behind the last one: same outer inputs, new outputs, same connections among each other."""
    if not nodes:
        return []
    graph = next(iter(nodes)).graph
    assert graph is not None
    ordered = sorted(dict.fromkeys(nodes), key=graph.nodes.place)
    copies = FreshNames().cloner(graph).nodes(ordered)
    after = ordered[-1].next
    for copy in copies:
        edit.do(InsertNode(graph, copy, after))
    return copies


def change_operator(edit: Transaction, node: Node, op_type: str, domain: str = "", overload: str | None = None) -> None:
    """Change a node's operator, keeping the inputs, outputs and attributes that the new schema knows.

    Without an `overload`, a function of the model is called by the node's present overload if it exists, else by any.
    """
    assert node.graph is not None
    if not op_type:
        raise ModelError("A node needs an operator type", "The operator type is empty.", node)
    schema = _signature(edit, node.graph, op_type, domain)
    edit.do(SetField(node, "op_type", op_type))
    edit.do(SetField(node, "domain", domain))
    edit.do(SetField(node, "overload", _overload(edit.model, node, op_type, domain) if overload is None else overload))
    refuse_recursion(edit.model, node.graph, [node])
    if schema is None:
        return
    for name, attribute in list(node.attributes.items()):
        formal = schema.attributes.get(name)
        if formal is None or formal.kind is not attribute.kind:
            edit.do(SetAttribute(node, name, None))
    inputs = node.inputs[: schema.max_inputs]
    edit.do(SetInputs(node, (*inputs, *([None] * (schema.min_inputs - len(inputs))))))
    _fit_outputs(edit, node, schema)


def refuse_recursion(model: Model, graph: Graph, nodes: Collection[Node]) -> None:
    """Check that nodes in the body of a function do not call it, directly or not; ModelError otherwise."""
    owner = graph.root.owner
    if isinstance(owner, Function) and owner in functions_used(model, nodes):
        raise ModelError(f"{owner.name} would call itself", "Functions must not recurse.", owner)


def _overload(model: Model, node: Node, op_type: str, domain: str) -> str:
    for overload in (node.overload, ""):
        if model.function(domain, op_type, overload) is not None:
            return overload
    return next((f.overload for f in model.functions if (f.domain, f.name) == (domain, op_type)), "")


def _fit_outputs(edit: Transaction, node: Node, schema: schemas.Schema) -> None:
    outputs = node.outputs
    while len(outputs) > schema.max_outputs and (outputs[-1] is None or not outputs[-1].uses):
        outputs = outputs[:-1]
    if len(outputs) < schema.min_outputs:
        assert node.graph is not None
        missing = range(len(outputs), schema.min_outputs)
        outputs = (*outputs, *fresh_outputs(node.graph, node.title, missing))
    if outputs != node.outputs:
        edit.do(SetOutputs(node, outputs))


def output_limits(model: Model, node: Node) -> tuple[int, int]:
    """Return the least and the largest number of outputs of a node by its operator, function or bodies."""
    function = model.function(*node.operator)
    if node.bodies or function is not None:  # its bodies decide it
        count = len(node.outputs) if function is None else len(function.body.outputs)
        return (count if node.bodies else 0), count
    schema = schema_of(node)
    return (0, sys.maxsize) if schema is None else (schema.min_outputs, schema.max_outputs)


def set_output_count(edit: Transaction, node: Node, count: int) -> None:
    """Set the number of outputs of a node (Split, optional outputs); ModelError if a dropped one is used."""
    assert node.graph is not None
    _refuse_used(node, node.outputs[count:])
    kept = node.outputs[:count]
    edit.do(SetOutputs(node, (*kept, *fresh_outputs(node.graph, node.title, range(len(kept), count)))))


def _refuse_used(node: Node, leaving: Iterable[Value | None]) -> None:
    for value in leaving:
        if value is not None and value.uses:
            detail = f"{node.title} cannot lose an output that is in use."
            raise ModelError(f"Output {value.name} is used", detail, value)


def produce_output(edit: Transaction, node: Node, index: int) -> Value:
    """Produce an optional output that was left out, under a free name; earlier ones stay left out."""
    assert node.graph is not None
    outputs = [*node.outputs, *([None] * (index + 1 - len(node.outputs)))]
    present = outputs[index]
    if present is not None:
        return present
    (value,) = fresh_outputs(node.graph, node.title, [index])
    outputs[index] = value
    edit.do(SetOutputs(node, tuple(outputs)))
    return value


def drop_output(edit: Transaction, node: Node, index: int) -> None:
    """Leave out an output; ModelError while it is used. A trailing one is removed from the list."""
    _refuse_used(node, node.outputs[index : index + 1])
    outputs = [*node.outputs[:index], None, *node.outputs[index + 1 :]]
    while outputs and outputs[-1] is None:
        outputs.pop()
    edit.do(SetOutputs(node, tuple(outputs)))


def insert_on_edge(
    edit: Transaction,
    value: Value,
    op_type: str,
    *,
    users: Collection[tuple[Node | Graph, int]] | None = None,
    domain: str = "",
    overload: str = "",
) -> Node:
    """Insert a node between a value and its users (all, or the given ones).

    A graph output keeps its name: the value that feeds the new node gets a new one.
    """
    graph = value.graph
    assert graph is not None
    uses = tuple(value.uses if users is None else users)
    holders = (user if isinstance(user, Node) else user.owner for user, _ in uses)
    anchors = [a for a in (ancestor_in(h, graph) for h in holders if isinstance(h, Node)) if a is not None]
    first = min(anchors, key=graph.nodes.place, default=None)
    node = add_node(edit, graph, op_type, [value], domain=domain, overload=overload, before=first)
    output = node.outputs[0] if node.outputs else None
    if output is None:
        raise ModelError(f"{op_type} cannot be placed on an edge", "It has no output.", value)
    edit.do(MoveUses(value, output, uses))
    returned = any(isinstance(user, Graph) and user is graph for user, _ in uses)
    if returned and value.producer is not None:
        name = value.name
        edit.do(SetField(value, "name", unique_name(name, names_taken(graph))))
        edit.do(SetField(output, "name", name))
        update_sharding_names(edit, {value: name})
        edit.do(SetField(output, "type", value.type))
    return node


def rename_node(edit: Transaction, node: Node, name: str) -> None:
    """Rename a node; ModelError when another node in the same tree of graphs has the name."""
    assert node.graph is not None
    if name and name != node.name and name in node_names(node.graph):
        raise ModelError(f"There is a node named {name} already", "Node names are unique in a model.", node)
    edit.do(SetField(node, "name", name))


def set_device_configurations(
    edit: Transaction, node: Node, configurations: tuple[NodeDeviceConfiguration, ...]
) -> None:
    """Set the device configurations of a node; each must name a distinct configuration of the model."""
    names = {c.name for c in edit.model.configurations}
    named = [c.configuration_id for c in configurations]
    for identifier in named:
        if identifier not in names:
            have = ", ".join(sorted(names)) or "none"
            raise ModelError(f"No device configuration {identifier!r}", f"The model has: {have}.", node)
    if len(set(named)) < len(named):
        raise ModelError("A device configuration is given twice", ", ".join(named), node)
    edit.do(SetField(node, "device_configurations", configurations))


def move_before(edit: Transaction, node: Node, before: Node | None) -> None:
    """Move a node in the node list of its graph; execution order follows the edges, not this order."""
    graph = node.graph
    assert graph is not None
    if before is not node and before is not node.next:
        edit.do(RemoveNode(node))
        edit.do(InsertNode(graph, node, before))


def sort_nodes(edit: Transaction, graph: Graph, progress: Progress = SILENT) -> int:
    """Sort the nodes of a graph and its subgraphs topologically (topological sort); returns how many were moved.

    Nodes keep their relative order where they can, so nothing moves in a graph that is in order.
    """
    moved = 0
    for inner in graph.walk():
        order = run_order(inner)
        here = inner.nodes.first
        for node in progress.paced(order, of=len(order)):
            if here is not None and here is not node and here.next is node:
                here = node  # the node formerly at this position comes later
            if node is here:
                here = node.next
            else:
                move_before(edit, node, here)
                moved += 1
    return moved
