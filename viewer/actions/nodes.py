"""Node menu: add from the palette, connect, change the operator, extract and inline functions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.edits import functions, nodes
from onnx_workbench.model.edits.values import disconnect_inputs
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import has_node
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside
from onnx_workbench.viewer.dialogs.text_prompt import PromptField, TextPrompt
from onnx_workbench.viewer.workflows.edit_many import CopyOf, change_each, edit_many, size_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.popups.operator_palette import OperatorEntry


def _disconnect(edit: Transaction, node: Node) -> None:
    wires = [index for index, value in enumerate(node.inputs) if value is not None and value.initializer is None]
    if wires:
        disconnect_inputs(edit, node, wires)


def _may_have_outputs(by: int, context: MenuContext) -> bool:
    """Tell whether the operator allows one output more (1) or fewer (-1)."""
    node = context.current
    if not isinstance(node, Node):
        return False
    least, most = nodes.output_limits(context.workspace.model, node)
    return len(node.outputs) < most if by > 0 else len(node.outputs) > least


def _change_outputs(by: int, context: MenuContext) -> None:
    node = context.selected_nodes[-1]
    name = display(node.title, 60)
    with context.workspace.document.edit(
        f"Add an output to {name}" if by > 0 else f"Remove an output of {name}"
    ) as edit:
        nodes.set_output_count(edit, node, len(node.outputs) + by)


def _common_scope(chosen: Iterable[Node]) -> str:
    """Return the last part of the nodes' common name scope, as a suggested name."""
    scopes = {tuple(node.name.strip("/").split("/")[:-1]) for node in chosen}
    shared = scopes.pop() if len(scopes) == 1 else ()
    word = shared[-1] if shared else ""
    return "".join(c for c in word if c.isalnum() or c == "_")


def _calls_function(context: MenuContext) -> bool:
    keys = {function.key for function in context.workspace.model.functions}
    return bool(keys) and any(node.operator in keys for node in context.selected_nodes)


def _at_once(title: str, context: MenuContext, **what: Any) -> None:
    """Return the action that converts the whole model in one respect."""
    from onnx_workbench.exec.transform.convert import ConvertOptions
    from onnx_workbench.viewer.workflows.background_edit import convert_in_background

    convert_in_background(context.workspace, title, ConvertOptions(**what))


@Action(
    "node.add",
    "&Add Operator…",
    Menu.MODEL.section(1),
    key="Ctrl+Shift+A",
    icon="add",
    toolbar=51,
    on=("canvas", "node", "value", "graph"),
    tip="Add an operator on the selected edge, after the selected node, or unconnected.",
    words="add node insert node new node create node palette",
)
def _add(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.insert_operator import caption, insert, operator_palette, target_graph

    workspace = context.workspace
    graph, places = target_graph(workspace), workspace.selection.items

    def chosen(operator: OperatorEntry, shift: bool) -> None:
        workspace.selection.set(places)  # converting for it may have led elsewhere
        insert(workspace, operator, graph, aside=shift)

    palette = operator_palette(context.window, workspace, places)
    palette.choose_for(graph, chosen, caption=caption(workspace))


@Action(
    "node.connect",
    "&Connect an Input…",
    Menu.MODEL.section(1),
    key="Ctrl+Shift+C",
    when=has_node,
    on=("node",),
    tip="Choose an input of the node and the value to connect. With the mouse, drag from port to port.",
    words="wire edge reconnect link",
)
def _connect(context: MenuContext) -> None:
    from onnx_workbench.viewer.popups.connect import choose_input

    choose_input(context.window, context.workspace, context.selected_nodes[-1])


@Action(
    "node.disconnect",
    "&Disconnect Inputs",
    Menu.MODEL.section(1),
    when=has_node,
    on=("node",),
    tip="Disconnect all inputs of the selected nodes except constants.",
    words="wire edge cut unplug",
)
def _disconnect_inputs(context: MenuContext) -> None:
    chosen = context.selected_nodes
    change_each(context.workspace, f"Disconnect {plural(len(chosen), 'node')}", chosen, _disconnect)


@Action(
    "node.change_operator",
    "Change Ope&rator…",
    Menu.MODEL.section(1),
    when=has_node,
    on=("node",),
    tip="Change the operator of all selected nodes. Inputs and attributes that the new operator has are kept.",
    words="type replace op_type",
)
def _change_operator(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.insert_operator import operator_palette, target_graph

    workspace = context.workspace
    targets = context.selected_nodes
    what = display(targets[0].title, 40) if len(targets) == 1 else plural(len(targets), "node")

    def chosen(operator: OperatorEntry, _shift: bool) -> None:
        def change(edit: Transaction, node: Node) -> None:
            nodes.change_operator(edit, node, operator.op_type, operator.domain, operator.overload)

        change_each(workspace, f"Change {what} to {display(operator.op_type, 60)}", targets, change)

    palette = operator_palette(context.window, workspace, targets)
    palette.choose_for(
        target_graph(workspace), chosen, caption=f"New operator of {what}. Inputs and attributes that it has are kept."
    )


OUTPUTS = (
    Action(
        "node.add_output",
        "Add an Output to the Node",
        Submenu.ENDS,
        partial(_change_outputs, 1),
        when=partial(_may_have_outputs, 1),
        words="split optional more outputs",
    ),
    Action(
        "node.remove_output",
        "Remove the Last Output of the Node",
        Submenu.ENDS,
        partial(_change_outputs, -1),
        when=partial(_may_have_outputs, -1),
        words="split optional fewer outputs",
    ),
)


@Action(
    "node.extract_function",
    "Move into a &Function…",
    Submenu.FUNCTIONS,
    key="Ctrl+Shift+G",
    when=has_node,
    icon="group",
    on=("node",),
    words="extract outline group local subroutine",
)
def _extract_function(context: MenuContext) -> None:

    workspace, chosen = context.workspace, context.selected_nodes

    def extract(texts: list[str]) -> None:
        name, domain = texts

        def change(edit: Transaction, copy_of: CopyOf, _progress: Progress) -> list[Node]:
            return [functions.extract_function(edit, [copy_of(node) for node in chosen], name, domain)]

        title = f"Move {plural(len(chosen), 'node')} into {display(name, 40)}"
        edit_many(workspace, title, size_of(chosen), change)

    TextPrompt(
        context.window,
        context.workspace,
        "Move into a function",
        [PromptField("Name", _common_scope(chosen) or "Block"), PromptField("Domain", "local")],
        extract,
        explanation="Replace the selected nodes by a call of a new function that contains them.",
        button="Move",
    )


@Action(
    "node.inline",
    "&Inline the Call",
    Submenu.FUNCTIONS,
    when=_calls_function,
    on=("node",),
    tip="Replace the call by the nodes of its function.",
    words="function expand ungroup",
)
def _inline(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import inline_calls

    workspace = context.workspace
    keys = {function.key for function in workspace.model.functions}
    inline_calls(workspace, [node for node in context.selected_nodes if node.operator in keys])


_inline_all = Action(
    "model.inline_all",
    "Inline &All Functions",
    Submenu.FUNCTIONS,
    lambda context: _at_once("Inline all functions", context, functions="inline"),
    when=lambda context: bool(context.workspace.model.functions),
    words="function expand",
)


@Action(
    "model.standard_operators",
    "Replace by &Standard Operators…",
    Submenu.FUNCTIONS,
    when=lambda context: "com.microsoft" in context.workspace.model.opset_imports,
    on=("node",),
    tip="Write out operators of com.microsoft, which only ONNX Runtime has, in those of ONNX.",
    words="com.microsoft contrib fused optimized deploy portable expand decompose onnx runtime",
)
def _standard_operators(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.simplify import StandardOperatorsDialog

    show_aside(context.workspace, StandardOperatorsDialog(context.workspace, context.window))


_sort = Action(
    "graph.sort",
    "&Sort Topologically",
    Submenu.NAMES,
    lambda context: _at_once("Sort nodes", context, sort=True),
    tip="Place each node after the nodes it depends on, in all graphs of the model.",
    words="topological order",
)


@Action(
    "model.remove_documentation",
    "Remove Documentation",
    Submenu.NAMES,
    tip="Remove all doc strings, and the metadata of nodes, values and graphs; exporters put stack traces there.",
    words="strip doc_string metadata_props stack trace anonymize smaller",
)
def _remove_documentation(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import remove_documentation_in

    remove_documentation_in(context.workspace)


NAMES = (
    Action(
        "model.node_names",
        "Regenerate Node Names",
        Submenu.NAMES,
        lambda context: _at_once("Regenerate node names", context, rename=["nodes"]),
        tip="Name every node after its operator, with a number.",
        words="rename all",
    ),
    Action(
        "model.missing_names",
        "Name Unnamed Nodes",
        Submenu.NAMES,
        lambda context: _at_once("Name unnamed nodes", context, rename=["unnamed"]),
        words="rename missing",
    ),
    Action(
        "model.value_names",
        "Regenerate Value Names",
        Submenu.NAMES,
        lambda context: _at_once("Regenerate value names", context, rename=["values"]),
        tip="Name node outputs after their node. Graph inputs, outputs and initializers keep their names.",
        words="rename tensor",
    ),
    Action(
        "model.initializer_names",
        "Regenerate Initializer Names",
        Submenu.NAMES,
        lambda context: _at_once("Regenerate initializer names", context, rename=["initializers"]),
        tip="Name initializers after the first node that uses them and its input.",
        words="rename weights constants",
    ),
)
