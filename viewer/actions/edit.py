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
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, always, with_document, with_selection
from onnx_workbench.viewer.actions.targets import (
    has_node,
    has_several,
    nodes_by_graph,
    select_between,
    selected_nodes,
)
from onnx_workbench.viewer.core.busy_cursor import busy_cursor
from onnx_workbench.viewer.core.readers import read_model
from onnx_workbench.viewer.core.tasks import Product
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.formatting import display, plural
from onnx_workbench.viewer.style.labels import first_output
from onnx_workbench.viewer.workflows.edit_many import CopyOf, change_nodes, edit_many, size_of

_MANY = 10_000  # nodes: fewer are copied at once, in a tenth of a second


def _undo_title(context: MenuContext) -> str | None:
    return None if context.workspace is None else context.workspace.document.undo_title


def _redo_title(context: MenuContext) -> str | None:
    return None if context.workspace is None else context.workspace.document.redo_title


def _titled(verb: str, title: str | None) -> str:
    return f"&{verb} {display(title, 60).replace('&', '&&')}" if title else f"&{verb}"


def _undo(context: MenuContext) -> None:
    document = context.opened.document
    with busy_cursor(len(document.current.steps)):
        document.undo()


def _redo(context: MenuContext) -> None:
    document = context.opened.document
    following = document.current.latest
    with busy_cursor(0 if following is None else len(following.steps)):
        document.redo()


def _select_all(context: MenuContext) -> None:
    context.opened.selection.set(context.opened.graph.nodes)


def _clear_selection(context: MenuContext) -> None:
    context.opened.selection.clear()


def _names(context: MenuContext) -> Iterator[str]:
    for item in context.selected:
        match item:
            case Node() | Value() | Graph() | Function():
                if item.name:
                    yield item.name
            case Model():
                yield context.opened.title


def _copy_names(context: MenuContext) -> None:
    # Bytes that were not UTF-8 are surrogates in names; no clipboard takes those.
    text = "\n".join(_names(context))
    QApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))


def _referred(context: MenuContext) -> str:
    """Return the name by which the last selected node or value is found in its file; empty when it has none."""
    tab = context.area.tab
    item = context.selected[-1] if context.selected and tab is not None and tab.path is not None else None
    if isinstance(item, Node):
        return item.name or first_output(item)
    return item.name if isinstance(item, Value) else ""


def _copy_reference(context: MenuContext) -> None:
    tab, name = context.area.tab, _referred(context)
    if tab is not None and tab.path is not None:
        text = shlex.join([tab.path.name, "--goto", name])
        QApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))


def _copy(context: MenuContext) -> None:
    _copy_nodes(context.opened, selected_nodes(context))


def _cut(context: MenuContext) -> None:
    workspace, chosen = context.opened, selected_nodes(context)
    title = f"Cut {_nodes_text(chosen)}"
    _copy_nodes(workspace, chosen, title, lambda: change_nodes(workspace, title, chosen, nodes.delete))


def _copy_nodes(
    workspace: Workspace, chosen: Sequence[Node], edit: str = "", then: Callable[[], object] = lambda: None
) -> None:
    """Copy nodes to the clipboard, very many in a task; then make the edit of which it is a part."""
    from onnx_workbench.viewer.core import clipboard

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


def _can_paste(context: MenuContext) -> bool:
    if not context.document_open:
        return False
    from onnx_workbench.viewer.core import clipboard

    return clipboard.has_nodes()


def _paste(context: MenuContext) -> None:
    from onnx_workbench.viewer.core import clipboard
    from onnx_workbench.viewer.workflows.insert_operator import target_graph

    workspace = context.opened
    fragment = clipboard.copied()
    graph = target_graph(workspace)
    before = clipboard.paste_target(graph, context.selected)

    def paste(edit: Transaction, copy_of: CopyOf, _progress: Progress) -> list[Node]:
        return copy_paste.paste(edit, copy_of(graph), fragment, before=None if before is None else copy_of(before))

    along = set(fragment.along)
    chosen = [node for node in fragment.graph.nodes if node not in along]
    edit_many(workspace, f"Paste {_nodes_text(chosen)}", size_of(fragment.graph.nodes), paste)


def _nodes_text(chosen: Sequence[Node]) -> str:
    """Describe nodes for titles: a single one by its name."""
    return display(chosen[0].title, 60) if len(chosen) == 1 else plural(len(chosen), "node")


def _duplicate(context: MenuContext) -> None:
    chosen = selected_nodes(context)

    def duplicate(edit: Transaction, copy_of: CopyOf, _progress: Progress) -> list[Node]:
        groups = nodes_by_graph(map(copy_of, chosen))
        return [copy for group in groups for copy in nodes.duplicate(edit, group)]

    edit_many(context.opened, f"Duplicate {_nodes_text(chosen)}", size_of(chosen), duplicate)


def _delete(context: MenuContext) -> None:
    """Delete nodes with the initializers that only they used; delete other objects as far as possible."""
    chosen = selected_nodes(context)
    values = [item for item in context.selected if isinstance(item, Value)]
    functions_ = [item for item in context.selected if isinstance(item, Function)]
    title = _deleting(chosen, values, functions_)
    if not values and not functions_:
        change_nodes(context.opened, title, chosen, nodes.delete)
        return

    def delete(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Node]:
        if chosen:
            nodes.delete(edit, [copy_of(node) for node in chosen])
        interface.remove_values(edit, [copy_of(value) for value in values], progress)
        functions.remove_functions(edit, [copy_of(function) for function in functions_])
        return ()

    edit_many(context.opened, title, size_of(chosen) + len(values) + len(functions_), delete)


def _deleting(chosen: list[Node], values: list[Value], functions_: list[Function]) -> str:
    things: list[Node | Value | Function] = [*chosen, *values, *functions_]
    if len(things) == 1:
        thing = things[0]
        return f"Delete {display(thing.title if isinstance(thing, Node) else thing.name, 60)}"
    return f"Delete {plural(len(things), 'node' if len(things) == len(chosen) else 'thing')}"


def _can_delete(context: MenuContext) -> bool:
    return any(isinstance(item, (Node, Value, Function)) for item in context.selected)


def _delete_and_bridge(context: MenuContext) -> None:
    chosen = selected_nodes(context)
    title = display(chosen[0].title, 60) if len(chosen) == 1 else plural(len(chosen), "node")
    change_nodes(context.opened, f"Delete and bridge {title}", chosen, nodes.delete_and_bridge)


def _can_rename(context: MenuContext) -> bool:
    return len(context.selected) > 0 and isinstance(context.selected[-1], (Node, Value))


def _rename(context: MenuContext) -> None:
    from onnx_workbench.viewer.canvas.rename_field import rename

    workspace, tab = context.opened, context.area.tab
    item = workspace.selection.current
    if tab is not None and isinstance(item, (Node, Value)):
        rename(tab.canvas, item, workspace.document, tab.drawn(item))


def _select_values(context: MenuContext) -> None:
    chosen = selected_nodes(context)
    context.opened.selection.set(dict.fromkeys(v for node in chosen for v in node.outputs if v is not None))


def _select_same(context: MenuContext) -> None:
    operators = {(node.domain, node.op_type) for node in selected_nodes(context)}
    graph = context.opened.graph
    context.opened.selection.set(node for node in graph.nodes if (node.domain, node.op_type) in operators)


def _invert(context: MenuContext) -> None:
    selection = context.opened.selection
    selection.set(selection.others_of(context.opened.graph.nodes))


def _find_and_replace(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.find_replace import FindReplaceDialog

    FindReplaceDialog.show_for(context.window, context.opened)


def _preferences(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.preferences import PreferencesDialog

    def operators_changed() -> None:
        for tab in context.area.tabs():
            tab.workspace.types.start()
            tab.workspace.problems.restart()

    dialog = PreferencesDialog(context.settings, context.window)
    dialog.extensions.changed.connect(operators_changed)
    dialog.show()


ACTIONS = (
    Action(
        id="edit.undo",
        title="&Undo",
        label=lambda context: _titled("Undo", _undo_title(context)),
        run=_undo,
        menu=Menu.EDIT,
        section=1,
        shortcut=("Ctrl+Z",),
        enabled=lambda context: bool(_undo_title(context)),
        icon="undo",
        toolbar=21,
    ),
    Action(
        id="edit.redo",
        title="&Redo",
        label=lambda context: _titled("Redo", _redo_title(context)),
        run=_redo,
        menu=Menu.EDIT,
        section=1,
        shortcut=("Ctrl+Shift+Z", "Ctrl+Y"),
        enabled=lambda context: bool(_redo_title(context)),
        icon="redo",
        toolbar=22,
    ),
    Action(
        id="edit.cut",
        title="Cu&t",
        run=_cut,
        menu=Menu.EDIT,
        section=2,
        shortcut=("Ctrl+X",),
        on_graph=True,
        enabled=has_node,
        contexts=frozenset({"node"}),
        tip="Copy the selected nodes, then delete them.",
        words="clipboard move",
    ),
    Action(
        id="edit.copy",
        title="&Copy",
        run=_copy,
        menu=Menu.EDIT,
        section=2,
        shortcut=("Ctrl+C",),
        on_graph=True,
        enabled=has_node,
        icon="copy",
        contexts=frozenset({"node"}),
        tip="Copy the selected nodes with their initializers and functions. Other programs paste them as text.",
        words="clipboard",
    ),
    Action(
        id="edit.paste",
        title="Pa&ste",
        run=_paste,
        menu=Menu.EDIT,
        section=2,
        shortcut=("Ctrl+V",),
        on_graph=True,
        enabled=_can_paste,
        contexts=frozenset({"node", "canvas", "graph"}),
        tip="Inputs connect to values of the same name. A number is added to names in use.",
        words="clipboard insert",
    ),
    Action(
        id="edit.duplicate",
        title="Dup&licate",
        run=_duplicate,
        menu=Menu.EDIT,
        section=2,
        shortcut=("Ctrl+Shift+D",),
        enabled=has_node,
        contexts=frozenset({"node"}),
        tip="Copy the selected nodes in the same graph, with the same inputs.",
        words="copy clone",
    ),
    Action(
        id="edit.delete",
        title="D&elete",
        run=_delete,
        menu=Menu.EDIT,
        section=3,
        shortcut=("Del",),
        on_graph=True,
        enabled=_can_delete,
        icon="delete",
        contexts=frozenset({"node", "value", "function"}),
        tip="Delete nodes, edges, initializers, inputs, outputs or functions. Undo restores them.",
        words="remove",
    ),
    Action(
        id="edit.delete_and_bridge",
        title="Delete and &Bridge",
        run=_delete_and_bridge,
        menu=Menu.EDIT,
        section=3,
        shortcut=("Shift+Del",),
        on_graph=True,
        enabled=has_node,
        contexts=frozenset({"node"}),
        tip="Delete the selected nodes and connect their inputs to the consumers of their outputs.",
        words="remove bypass skip",
    ),
    Action(
        id="edit.rename",
        title="Rena&me",
        run=_rename,
        menu=Menu.EDIT,
        section=3,
        shortcut=("F2",),
        on_graph=True,
        enabled=_can_rename,
        icon="edit",
        contexts=frozenset({"node", "value"}),
        tip="Edit the name in place. All uses of a value are renamed.",
        words="name",
    ),
    Action(
        id="edit.copy_name",
        title="Copy &Name",
        run=_copy_names,
        menu=Menu.EDIT,
        section=2,
        shortcut=("Ctrl+Alt+C",),
        enabled=lambda context: any(True for _ in _names(context)),
        contexts=frozenset({"node", "value", "graph", "function"}),
        words="clipboard identifier",
    ),
    Action(
        id="edit.copy_reference",
        title="Cop&y Reference",
        run=_copy_reference,
        menu=Menu.EDIT,
        section=2,
        enabled=lambda context: bool(_referred(context)),
        contexts=frozenset({"node", "value"}),
        tip="Copy the file's name and the node's, as the command line takes them: model.onnx --goto NODE.",
        words="clipboard link permalink share location goto",
    ),
    Action(
        id="edit.select_all",
        title="Select &All",
        run=_select_all,
        menu=Menu.EDIT,
        section=6,
        shortcut=("Ctrl+A",),
        on_graph=True,
        enabled=with_document,
    ),
    Action(
        id="edit.invert_selection",
        title="&Invert Selection",
        run=_invert,
        menu=Menu.EDIT,
        section=6,
        shortcut=("Ctrl+Shift+I",),
        enabled=with_document,
        words="others complement",
    ),
    Action(
        id="edit.select_same",
        title="Select Same &Operators",
        run=_select_same,
        menu=Menu.EDIT,
        section=6,
        enabled=has_node,
        contexts=frozenset({"node"}),
        tip="Select all nodes of this graph with the same operators as the selected ones.",
        words="similar type all",
    ),
    Action(
        id="edit.select_between",
        title="Select Everything Between",
        run=select_between,
        menu=Menu.EDIT,
        section=6,
        enabled=has_several,
        contexts=frozenset({"node", "value"}),
        tip="Select all nodes on paths between the selected nodes or values.",
        words="path range",
    ),
    Action(
        id="edit.select_outputs",
        title="Select Output Values",
        run=_select_values,
        menu=Menu.EDIT,
        section=6,
        enabled=has_node,
        words="wires edges results",
    ),
    Action(
        id="edit.clear_selection",
        title="&Deselect",
        run=_clear_selection,
        menu=Menu.EDIT,
        section=6,
        enabled=with_selection,
        tip="Esc in the graph does the same; Esc again closes the newest message.",
        words="nothing clear selection escape",
    ),
    Action(
        id="edit.find",
        title="&Find…",
        run=lambda context: context.docks.open("find"),
        menu=Menu.EDIT,
        section=7,
        shortcut=("Ctrl+F",),
        enabled=with_document,
        icon="find",
        toolbar=91,
        tip="Find nodes, values and attributes by name, operator, type or shape.",
        words="search look for",
    ),
    Action(
        id="edit.replace",
        title="Find and Replace…",
        run=_find_and_replace,
        menu=Menu.EDIT,
        section=7,
        shortcut=("Ctrl+H",),
        enabled=with_document,
        tip="Replace text in names, operator types and attributes, with a preview.",
        words="search substitute rename regular expression",
    ),
    Action(
        id="edit.preferences",
        title="&Preferences…",
        run=_preferences,
        menu=Menu.EDIT,
        section=9,
        shortcut=("Ctrl+,",),
        enabled=always,
        icon="settings",
        words="options settings configuration",
    ),
)
