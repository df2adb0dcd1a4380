"""Regenerate the names of nodes, values or initializers in bulk."""

from __future__ import annotations

from collections.abc import Collection

from onnx_workbench.model.analysis.node_subset import is_used
from onnx_workbench.model.analysis.scoping import TakenNames, names_taken, node_names, unique_name
from onnx_workbench.model.edits.values import update_name_references
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas.defaults import schema_of


def regenerate_node_names(
    edit: Transaction,
    model: Model,
    *,
    only_missing: bool = False,
    among: Collection[Node] | None = None,
    progress: Progress = SILENT,
) -> int:
    """Name nodes by operator type and number; with `only_missing` only unnamed ones and duplicates.

    `among` restricts it to these nodes. Returns the number of changed names.
    """
    count = 0
    for root in model.root_graphs():
        seen: set[str] = set()
        taken: TakenNames | set[str] = node_names(root) if only_missing else _names_of_others(root, among)
        for graph in root.walk():
            for node in progress.paced(graph.nodes, of=len(graph.nodes)):
                if among is not None and node not in among:
                    continue
                if only_missing and node.name and node.name not in seen:
                    seen.add(node.name)
                    continue
                name = unique_name(f"{node.op_type}_0", taken)
                taken.add(name)
                seen.add(name)
                if name != node.name:
                    edit.do(SetField(node, "name", name))
                    count += 1
    return count


def _names_of_others(root: Graph, among: Collection[Node] | None) -> set[str]:
    """Return the names of nodes that are not to be renamed."""
    nodes = (node for graph in root.walk() for node in graph.nodes) if among is not None else ()
    return {node.name for node in nodes if among is not None and node not in among}


def regenerate_value_names(
    edit: Transaction, model: Model, *, among: Collection[Node] | None = None, progress: Progress = SILENT
) -> int:
    """Name node outputs after their node, optionally only those of `among`.

    Inputs, outputs and initializers of graphs keep their names.
    """
    before: dict[Value, str] = {}
    for root in model.root_graphs():
        taken = names_taken(root)
        for graph in root.walk():
            for node in progress.paced(graph.nodes, of=len(graph.nodes)):
                if among is not None and node not in among:
                    continue
                for index, value in enumerate(node.outputs):
                    if value is None or value.is_output:
                        continue
                    wanted = f"{node.title}_output_{index}"
                    if value.name != wanted and wanted not in taken:
                        before[value] = value.name
                        edit.do(SetField(value, "name", wanted))
    update_name_references(edit, before)
    return len(before)


def regenerate_initializer_names(
    edit: Transaction, model: Model, *, among: Collection[Node] | None = None, progress: Progress = SILENT
) -> int:
    """Name initializers after their first user and their role there; those that are inputs keep their names.

    `among` restricts it to initializers that one of these nodes uses. Returns the number of changed names.
    """
    before: dict[Value, str] = {}
    for root in model.root_graphs():
        taken = names_taken(root)
        for graph in root.walk():
            for value in progress.paced(list(graph.initializers), of=len(graph.initializers)):
                use = next(((user, index) for user, index in value.uses if isinstance(user, Node)), None)
                if use is None or value.is_input or value.is_output or not (among is None or is_used(value, among)):
                    continue
                wanted = f"{use[0].title}_{_part(*use)}"
                if value.name == wanted:
                    continue
                name = unique_name(wanted, taken)
                taken.add(name)
                before[value] = value.name
                edit.do(SetField(value, "name", name))
    update_name_references(edit, before)
    return len(before)


def _part(node: Node, index: int) -> str:
    """Return the formal name of an input in the operator's schema."""
    assert node.graph is not None
    schema = schema_of(node)
    formal = schema.input(index) if schema is not None else None
    if formal is None or not formal.name:
        return f"input_{index}"
    return f"{formal.name}_{index}" if formal.option == "variadic" else formal.name
