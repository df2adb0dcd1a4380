"""Edit menu: undo, redo, clipboard, delete, rename, select, replace, scripts; preferences."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits import copy_paste, functions, interface, nodes
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, with_selection
from onnx_workbench.viewer.actions.targets import (
    has_node,
    has_several,
    nodes_by_graph,
    select_between,
)
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import first_output
from onnx_workbench.viewer.tasks.readers import read_model
from onnx_workbench.viewer.tasks.tasks import Product
from onnx_workbench.viewer.widgets.busy_cursor import busy_cursor
from onnx_workbench.viewer.workflows.edit_many import CopyOf, change_nodes, edit_many, size_of

_MANY = 10_000  # nodes: fewer are copied at once, in a tenth of a second


def _titled(verb: str, title: str | None) -> str:
    return f"&{verb} {display(title, 60).replace('&', '&&')}" if title else f"&{verb}"


def _names(context: MenuContext) -> Iterator[str]:
    for item in context.selected:
        match item:
            case Node() | Value() | Graph() | Function():
                if item.name:
                    yield item.name
            case Model():
                yield context.workspace.title


def _referred(context: MenuContext) -> str:
    """Return the name by which the last selected node or value is found in its file; empty when it has none."""
    item = None if context.tab.path is None else context.current
    if isinstance(item, Node):
        return item.name or first_output(item)
    return item.name if isinstance(item, Value) else ""


def _put_text(text: str) -> None:
    """Copy text to the clipboard, which takes no surrogates: names have those for bytes that were not UTF-8."""
    QApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))


def _copy_nodes(
    workspace: Workspace, chosen: Sequence[Node], edit: str = "", then: Callable[[], object] = lambda: None
) -> None:
    """Copy nodes to the clipboard, very many in a task; then make the edit of which it is a part."""
    from onnx_workbench.viewer.document import clipboard

    if size_of(chosen) <= _MANY:
        clipboard.copy(chosen)
        then()
        return

    def work(progress: Progress) -> clipboard.Copied:
        return clipboard.prepared(read_model(partial(copy_paste.copy, chosen), progress), progress)

    def done(copied: clipboard.Copied) -> None:
        clipboard.put(copied)
        then()

    QApplication.clipboard().clear()  # what was there before must not be pasted meanwhile
    makes: Product = "edit" if edit else ""
    workspace.tasks.start(edit or f"Copy {_nodes_text(chosen)}", work, done=done, supersede="copy nodes", makes=makes)


def _can_paste(_context: MenuContext) -> bool:
    from onnx_workbench.viewer.document import clipboard

    return clipboard.has_nodes()


def _nodes_text(chosen: Sequence[Node]) -> str:
    """Describe nodes for titles: a single one by its name."""
    return display(chosen[0].title, 60) if len(chosen) == 1 else plural(len(chosen), "node")


def _deleting(chosen: Sequence[Node], values: list[Value], functions_: list[Function]) -> str:
    things: list[Node | Value | Function] = [*chosen, *values, *functions_]
    if len(things) == 1:
        thing = things[0]
        return f"Delete {display(thing.title if isinstance(thing, Node) else thing.name, 60)}"
    return f"Delete {plural(len(things), 'node' if len(things) == len(chosen) else 'thing')}"


@Action(
    "edit.undo",
    "&Undo",
    Menu.EDIT.section(1),
    key="Ctrl+Z",
    when=lambda context: bool(context.workspace.document.undo_title),
    label=lambda context: _titled("Undo", context.workspace.document.undo_title),
    icon="undo",
    toolbar=21,
)
def _undo(context: MenuContext) -> None:
    document = context.workspace.document
    with busy_cursor(len(document.current.steps)):
        document.undo()


@Action(
    "edit.redo",
    "&Redo",
    Menu.EDIT.section(1),
    key=("Ctrl+Shift+Z", "Ctrl+Y"),
    when=lambda context: bool(context.workspace.document.redo_title),
    label=lambda context: _titled("Redo", context.workspace.document.redo_title),
    icon="redo",
    toolbar=22,
)
def _redo(context: MenuContext) -> None:
    document = context.workspace.document
    following = document.current.latest
    with busy_cursor(0 if following is None else len(following.steps)):
        document.redo()


@Action(
    "edit.cut",
    "Cu&t",
    Menu.EDIT.section(2),
    key="Ctrl+X",
    on_graph=True,
    when=has_node,
    on=("node",),
    tip="Copy the selected nodes, then delete them.",
    words="clipboard move",
)
def _cut(context: MenuContext) -> None:
    workspace, chosen = context.workspace, context.selected_nodes
    title = f"Cut {_nodes_text(chosen)}"
    _copy_nodes(workspace, chosen, title, lambda: change_nodes(workspace, title, chosen, nodes.delete))


_copy = Action(
    "edit.copy",
    "&Copy",
    Menu.EDIT.section(2),
    lambda context: _copy_nodes(context.workspace, context.selected_nodes),
    key="Ctrl+C",
    on_graph=True,
    when=has_node,
    icon="copy",
    on=("node",),
    tip="Copy the selected nodes with their initializers and functions. Other programs paste them as text.",
    words="clipboard",
)


@Action(
    "edit.paste",
    "Pa&ste",
    Menu.EDIT.section(2),
    key="Ctrl+V",
    on_graph=True,
    when=_can_paste,
    on=("canvas", "node", "graph"),
    tip="Inputs connect to values of the same name. A number is added to names in use.",
    words="clipboard insert",
)
def _paste(context: MenuContext) -> None:
    from onnx_workbench.viewer.document import clipboard
    from onnx_workbench.viewer.workflows.insert_operator import target_graph

    workspace = context.workspace
    fragment = clipboard.copied()
    graph = target_graph(workspace)
    before = clipboard.paste_target(graph, context.selected)

    def paste(edit: Transaction, copy_of: CopyOf, _progress: Progress) -> list[Node]:
        return copy_paste.paste(edit, copy_of(graph), fragment, before=None if before is None else copy_of(before))

    along = set(fragment.along)
    chosen = [node for node in fragment.graph.nodes if node not in along]
    edit_many(workspace, f"Paste {_nodes_text(chosen)}", size_of(fragment.graph.nodes), paste)


@Action(
    "edit.duplicate",
    "Dup&licate",
    Menu.EDIT.section(2),
    key="Ctrl+Shift+D",
    when=has_node,
    on=("node",),
    tip="Copy the selected nodes in the same graph, with the same inputs.",
    words="copy clone",
)
def _duplicate(context: MenuContext) -> None:
    chosen = context.selected_nodes

    def duplicate(edit: Transaction, copy_of: CopyOf, _progress: Progress) -> list[Node]:
        groups = nodes_by_graph(map(copy_of, chosen))
        return [copy for group in groups for copy in nodes.duplicate(edit, group)]

    edit_many(context.workspace, f"Duplicate {_nodes_text(chosen)}", size_of(chosen), duplicate)


@Action(
    "edit.delete",
    "D&elete",
    Menu.EDIT.section(3),
    key="Del",
    on_graph=True,
    when=lambda context: any(isinstance(item, (Node, Value, Function)) for item in context.selected),
    icon="delete",
    on=("node", "value", "function"),
    tip="Delete nodes, edges, initializers, inputs, outputs or functions. Undo restores them.",
    words="remove",
)
def _delete(context: MenuContext) -> None:
    """Delete nodes with the initializers that only they used; delete other objects as far as possible."""
    chosen = context.selected_nodes
    values = [item for item in context.selected if isinstance(item, Value)]
    functions_ = [item for item in context.selected if isinstance(item, Function)]
    title = _deleting(chosen, values, functions_)
    if not values and not functions_:
        change_nodes(context.workspace, title, chosen, nodes.delete)
        return

    def delete(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Node]:
        if chosen:
            nodes.delete(edit, [copy_of(node) for node in chosen])
        interface.remove_values(edit, [copy_of(value) for value in values], progress)
        functions.remove_functions(edit, [copy_of(function) for function in functions_])
        return ()

    edit_many(context.workspace, title, size_of(chosen) + len(values) + len(functions_), delete)


@Action(
    "edit.delete_and_bridge",
    "Delete and &Bridge",
    Menu.EDIT.section(3),
    key="Shift+Del",
    on_graph=True,
    when=has_node,
    on=("node",),
    tip="Delete the selected nodes and connect their inputs to the consumers of their outputs.",
    words="remove bypass skip",
)
def _delete_and_bridge(context: MenuContext) -> None:
    chosen = context.selected_nodes
    title = display(chosen[0].title, 60) if len(chosen) == 1 else plural(len(chosen), "node")
    change_nodes(context.workspace, f"Delete and bridge {title}", chosen, nodes.delete_and_bridge)


@Action(
    "edit.rename",
    "Rena&me",
    Menu.EDIT.section(3),
    key="F2",
    on_graph=True,
    when=lambda context: isinstance(context.current, (Node, Value)),
    icon="edit",
    on=("node", "value"),
    tip="Edit the name in place. All uses of a value are renamed.",
    words="name",
)
def _rename(context: MenuContext) -> None:
    from onnx_workbench.viewer.canvas.rename_field import rename

    item = context.current
    assert isinstance(item, (Node, Value))
    rename(context.view, item, context.workspace.document, context.tab.drawn(item))


@Action(
    "edit.message",
    "Edit Messa&ge…",
    Menu.EDIT.section(3),
    when=with_selection,
    on=("node", "value", "graph", "function"),
    tip="Edit any field of the selected object's protobuf message as text, fields that no panel shows too.",
    words="protobuf raw text proto field unknown metadata device sharding",
)
def _edit_message(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.edit_message import edit_message

    assert context.current is not None
    edit_message(context.window, context.workspace, context.current)


_copy_names = Action(
    "edit.copy_name",
    "Copy &Name",
    Menu.EDIT.section(2),
    lambda context: _put_text("\n".join(_names(context))),
    key="Ctrl+Alt+C",
    when=lambda context: any(True for _ in _names(context)),
    on=("node", "value", "graph", "function"),
    words="clipboard identifier",
)


@Action(
    "edit.copy_reference",
    "Cop&y Reference",
    Menu.EDIT.section(2),
    when=lambda context: bool(_referred(context)),
    on=("node", "value"),
    tip="Copy the file's name and the node's, as the command line takes them: model.onnx --goto NODE.",
    words="clipboard link permalink share location goto",
)
def _copy_reference(context: MenuContext) -> None:
    assert context.tab.path is not None
    _put_text(shlex.join([context.tab.path.name, "--goto", _referred(context)]))


_select_all = Action(
    "edit.select_all",
    "Select &All",
    Menu.EDIT.section(6),
    lambda context: context.workspace.selection.set(context.workspace.graph.nodes),
    key="Ctrl+A",
    on_graph=True,
)


@Action(
    "edit.invert_selection", "&Invert Selection", Menu.EDIT.section(6), key="Ctrl+Shift+I", words="others complement"
)
def _invert(context: MenuContext) -> None:
    selection = context.workspace.selection
    selection.set(selection.others_of(context.workspace.graph.nodes))


@Action(
    "edit.select_same",
    "Select Same &Operators",
    Menu.EDIT.section(6),
    when=has_node,
    on=("node",),
    tip="Select all nodes of this graph with the same operators as the selected ones.",
    words="similar type all",
)
def _select_same(context: MenuContext) -> None:
    operators = {(node.domain, node.op_type) for node in context.selected_nodes}
    graph = context.workspace.graph
    context.workspace.selection.set(node for node in graph.nodes if (node.domain, node.op_type) in operators)


_select_between = Action(
    "edit.select_between",
    "Select Everything Between",
    Menu.EDIT.section(6),
    select_between,
    when=has_several,
    on=("node", "value"),
    tip="Select all nodes on paths between the selected nodes or values.",
    words="path range",
)


@Action("edit.select_outputs", "Select Output Values", Menu.EDIT.section(6), when=has_node, words="wires edges results")
def _select_values(context: MenuContext) -> None:
    chosen = context.selected_nodes
    context.workspace.selection.set(dict.fromkeys(v for node in chosen for v in node.outputs if v is not None))


SELECTION = (
    Action(
        "edit.clear_selection",
        "&Deselect",
        Menu.EDIT.section(6),
        lambda context: context.workspace.selection.clear(),
        when=with_selection,
        tip="Same as Esc in the graph. Esc again closes the newest message.",
        words="nothing clear selection escape",
    ),
    Action(
        "edit.find",
        "&Find…",
        Menu.EDIT.section(7),
        lambda context: context.docks.open("find"),
        key="Ctrl+F",
        icon="find",
        toolbar=91,
        tip="Find nodes, values and attributes by name, operator, type or shape.",
        words="search look for",
    ),
)


@Action(
    "edit.find_places",
    "Find All Suc&h Places…",
    Menu.EDIT.section(7),
    when=has_node,
    on=("node",),
    tip="Find the places that compute what the selected nodes do, and replace them or make them calls of a function.",
    words="pattern rewrite rule subgraph search replace refactor function everywhere similar",
)
def _find_places(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.find_places import FindPlacesDialog

    show_aside(context.workspace, FindPlacesDialog(context.workspace, context.selected_nodes, context.window))


@Action(
    "edit.replace",
    "Find and Replace…",
    Menu.EDIT.section(7),
    key="Ctrl+H",
    tip="Replace text in names, operator types and attributes, with a preview.",
    words="search substitute rename regular expression",
)
def _find_and_replace(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.find_replace import FindReplaceDialog

    FindReplaceDialog.show_for(context.window, context.workspace)


@Action(
    "edit.preferences",
    "&Preferences…",
    Menu.EDIT.section(9),
    key="Ctrl+,",
    on_start_page=True,
    icon="settings",
    words="options settings configuration",
)
def _preferences(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.preferences import PreferencesDialog

    def operators_changed() -> None:
        for tab in context.area.tabs():
            tab.workspace.types.start()
            tab.workspace.problems.restart()

    dialog = PreferencesDialog(context.settings, context.window)
    dialog.extensions.changed.connect(operators_changed)
    dialog.show()
