"""Insertion of a chosen operator at the selected edge, after the selected nodes, or by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.scoping import is_visible
from onnx_workbench.model.edits import nodes
from onnx_workbench.model.edits.values import connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.document.navigation import graph_of
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.popups.operator_palette import OperatorEntry, OperatorPalette
from onnx_workbench.viewer.style.labels import place_text

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

_MOST_INPUTS = 64


def operator_palette(window: QWidget, workspace: DocumentContext, places: Collection[Item] = ()) -> OperatorPalette:
    """A palette over a window, to be opened once; see its `choose_for`. `places`: the targets of the operator."""
    return OperatorPalette(window, workspace.messages.report, partial(_offer_newer, workspace, places))


def _offer_newer(
    workspace: DocumentContext,
    places: Collection[Item],
    operator: OperatorEntry,
    graph: Graph,
    use: Callable[[OperatorEntry], object],
) -> None:
    """Open what raises the version of a domain: never unasked, since other nodes may mean something else there.

    After a conversion the operator is used as it was to be, where that is still there.
    """
    name, domain = display(operator.op_type, 60), display(operator.domain, 60)
    if not operator.domain:
        workspace.conversion_requested.emit(
            operator.needs, f"Use {name}", partial(_use_converted, workspace, places, operator, graph, use)
        )
        return
    workspace.navigation.reveal(graph.importer or workspace.model)
    workspace.messages.show(
        "info",
        f"{name} needs {domain} {operator.needs}",
        "Change the imported version in the inspector.",
    )


def _use_converted(
    workspace: DocumentContext,
    places: Collection[Item],
    operator: OperatorEntry,
    graph: Graph,
    use: Callable[[OperatorEntry], object],
) -> None:
    """Continue with an operator after the model was converted for it; show a message if that failed."""
    name = display(operator.op_type, 60)
    version = graph.opset_imports.get(operator.domain, 0)
    if not all(map(is_in_model, (graph, *places))):
        detail = "The selected node or value was replaced. Select another one and add the operator again."
        workspace.messages.show("warning", f"{name} was not added", detail)
    elif version < operator.needs:
        detail = f"It needs opset {operator.needs}; the model imports {version}."
        workspace.messages.show("warning", f"{name} is not available", detail)
    else:
        try:
            use(replace(operator, schema=schemas.find(operator.op_type, version, operator.domain), needs=0))
        except ModelError as error:
            workspace.messages.report(error)


def target_graph(workspace: DocumentContext) -> Graph:
    """Return the selected graph, or the graph of the selection (also a body drawn in its node); else the shown one."""
    item = workspace.selection.current
    if isinstance(item, Function):
        return item.body
    graph = item if isinstance(item, Graph) else graph_of(item) if isinstance(item, (Node, Value)) else None
    return workspace.graph if graph is None else graph


def caption(workspace: DocumentContext) -> str:
    """Describe where an operator would be inserted."""
    item = workspace.selection.current
    if isinstance(item, Value) and item.uses:
        return f"Enter: on the edge {display(item.name, 40)}. Shift+Enter: beside it, with the same input."
    if isinstance(item, Value):
        return f"Its input is {display(item.name, 40)}."
    if isinstance(item, Node):
        return f"Enter: after {display(item.title, 40)}. Shift+Enter: unconnected."
    return f"Enter: in {place_text(target_graph(workspace))}, unconnected."


def insert(workspace: DocumentContext, operator: OperatorEntry, graph: Graph, *, aside: bool = False) -> Node:
    """Add an operator at the selection (see `caption`), select and show it. `aside`: chosen with Shift.

    `graph` is the target of this selection, or the one that was shown when nothing was selected.
    """
    item = workspace.selection.current
    with workspace.document.edit(f"Add {display(operator.op_type, 60)}") as edit:
        if isinstance(item, Value) and item.uses and not aside and operator.takes(None):
            node = nodes.insert_on_edge(
                edit, item, operator.op_type, domain=operator.domain, overload=operator.overload
            )
        else:
            before = None
            inputs: list[Value | None] = []
            if isinstance(item, Value) and is_visible(item, graph):
                inputs = [item]
            elif isinstance(item, Node) and not aside:
                chosen = [n for n in workspace.selection.nodes if n.graph is graph]
                inputs = _outputs(chosen, operator)
                before = _last(chosen, graph)
            if not operator.takes(None):
                inputs = []
            node = nodes.add_node(
                edit, graph, operator.op_type, inputs, domain=operator.domain, overload=operator.overload, before=before
            )
    workspace.navigation.reveal(node, keeps_zoom=True)
    if operator.schema is not None and any(
        formal.required and name not in node.attributes for name, formal in operator.schema.attributes.items()
    ):
        workspace.trigger("panel.inspector")  # which asks for them
    return node


def _outputs(chosen: list[Node], operator: OperatorEntry) -> list[Value | None]:
    """Return the first output of each chosen node, as many as the operator takes."""
    most = _MOST_INPUTS
    if operator.schema is not None and operator.schema.is_signature_known:
        most = min(most, operator.schema.max_inputs)
    elif operator.function is not None:
        most = len(operator.function.body.inputs)
    made = (node.outputs[0] for node in chosen if node.outputs and node.outputs[0] is not None)
    return list(islice(made, most))


def _last(chosen: list[Node], graph: Graph) -> Node | None:
    """Return the place right after the last of a few chosen nodes, or the end of the graph."""
    if len(chosen) == 1:
        return chosen[0].next
    wanted = set(chosen)
    for node in reversed(graph.nodes):
        if node in wanted:
            return node.next
    return None


def add_fed_by(workspace: DocumentContext, operator: OperatorEntry, value: Value, graph: Graph) -> Node:
    """Add an operator with a value at the first input that accepts its type, for a wire dropped on the canvas."""
    with workspace.document.edit(f"Add {display(operator.op_type, 60)}") as edit:
        node = nodes.add_node(edit, graph, operator.op_type, domain=operator.domain, overload=operator.overload)
        if operator.takes(None):
            connect(edit, node, operator.input_for(workspace.types.type_of(value)), value)
    workspace.navigation.reveal(node, keeps_zoom=True)
    return node
