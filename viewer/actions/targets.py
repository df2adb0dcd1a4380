"""Targets of actions: the selected nodes and values, in the forms edits need. Cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from onnx_workbench.model.analysis import topology
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.viewer.actions.action import MenuContext

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.session.controller import RunController

_Kind = TypeVar("_Kind")
#: Larger selections are not searched for a suitable object: the action itself reports when there is none.
_MOST_LOOKED_AT = 1000


def may_have(things: Sequence[_Kind], is_one: Callable[[_Kind], object]) -> bool:
    """Return whether one of the selected objects is suitable, as far as that is cheap."""
    return len(things) > _MOST_LOOKED_AT or any(map(is_one, things))


def has_node(context: MenuContext) -> bool:
    """Enabled while a node is selected."""
    return bool(context.selected_nodes)


def has_value(context: MenuContext) -> bool:
    """Enabled while a value is selected."""
    return bool(context.selected_values)


def has_element(context: MenuContext) -> bool:
    """Enabled while a node or value is selected."""
    return bool(context.selected_nodes or context.selected_values)


def has_several(context: MenuContext) -> bool:
    """Enabled while at least two nodes or values are selected."""
    chosen = (item for item in context.selected if isinstance(item, (Node, Value)))
    return len(list(islice(chosen, 2))) == 2


def has_results(context: MenuContext) -> bool:
    """Enabled while values of a run are shown."""
    return context.runs is not None and context.workspace.results.current is not None


def in_runs(holds: Callable[[RunController], object]) -> Callable[[MenuContext], bool]:
    """Return the condition that something holds of the runs of the document; it does not before the first."""
    return lambda context: context.runs is not None and bool(holds(context.runs))


def has_several_documents(context: MenuContext) -> bool:
    """Enabled while at least two documents are open."""
    return len(context.area.tabs()) > 1


def elements(context: MenuContext) -> list[Node | Value]:
    """Return the selected nodes and values, in the order they were selected."""
    return [item for item in context.selected if isinstance(item, (Node, Value))]


def nodes_by_graph(nodes: Iterable[Node]) -> list[list[Node]]:
    """Group nodes by graph."""
    groups: dict[Graph | None, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.graph, []).append(node)
    return list(groups.values())


def graph_in_view(context: MenuContext) -> Graph:
    """Return the graph that "the graph" means: a selected one, else the one shown."""
    item = context.selected[-1] if context.selected else None
    if isinstance(item, Graph):
        return item
    return item.body if isinstance(item, Function) else context.workspace.graph


def select_between(context: MenuContext) -> None:
    """Select everything between the selected objects, in addition to them."""
    between = topology.between(context.selected)
    if not between:
        raise ModelError("No nodes in between", "There is no path between the selected nodes or values.")
    context.workspace.navigation.reveal_all(dict.fromkeys([*context.selected_nodes, *between]))
