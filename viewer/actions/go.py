"""Go menu: navigation history, subgraphs, neighbours, other tabs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from PySide6.QtCore import Qt

from onnx_workbench.model.analysis import topology
from onnx_workbench.model.analysis.subgraph_ports import origin
from onnx_workbench.model.ir.graph import Function, Graph, Node, TrainingInfo, Value
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, with_document
from onnx_workbench.viewer.actions.targets import has_several_documents
from onnx_workbench.viewer.core.model_signals import is_in_model


def _inner_graph(context: MenuContext) -> Graph | None:
    """Return the graph inside the current object: a subgraph, or the body of a called function."""
    workspace = context.workspace
    item = None if workspace is None else workspace.selection.current
    match item:
        case Node() if item.bodies:
            return item.bodies[0]
        case Node():
            assert workspace is not None
            function = workspace.model.function(*item.operator)
            return None if function is None else function.body
        case Function():
            return item.body
        case Graph():
            return item
    return None


def _enter(context: MenuContext) -> None:
    graph = _inner_graph(context)
    if graph is not None:
        context.opened.navigation.show(graph)


def _can_go_up(context: MenuContext) -> bool:
    workspace = context.workspace
    return workspace is not None and workspace.graph is not workspace.model.graph


def _neighbours(context: MenuContext, *, upstream: bool) -> Iterator[Node]:
    """Return the direct predecessors or successors of the selected nodes, with repetitions."""
    for item in context.selected:
        if not isinstance(item, Node):
            continue
        for value in item.inputs if upstream else item.outputs:
            if value is None:
                continue
            if not upstream:
                yield from value.consumers
            elif value.producer is not None:
                yield value.producer


def _has_neighbour(context: MenuContext, *, upstream: bool) -> bool:
    return any(True for _ in _neighbours(context, upstream=upstream))


def _origin(context: MenuContext) -> Node | Value | None:
    workspace = context.workspace
    item = None if workspace is None else workspace.selection.current
    return origin(item) if isinstance(item, Value) else None


def _go_to_origin(context: MenuContext) -> None:
    found = _origin(context)
    if found is not None:
        context.opened.navigation.reveal(found)


def _trace(context: MenuContext, *, upstream: bool) -> None:
    """Select everything the selected nodes depend on, or all that depends on them, and dim the rest until Esc."""
    workspace = context.opened
    chosen = [item for item in context.selected if isinstance(item, (Node, Value))]
    found = topology.upstream(chosen) if upstream else topology.downstream(chosen)
    workspace.selection.set(item for item in found if isinstance(item, Node) and item.graph is workspace.graph)
    workspace.highlights.mark("traced", found)


def _has_element(context: MenuContext) -> bool:
    return any(isinstance(item, (Node, Value)) for item in context.selected)


def _has_node(context: MenuContext) -> bool:
    return any(isinstance(item, Node) for item in context.selected)


def _select_neighbours(context: MenuContext, *, upstream: bool) -> None:
    context.opened.navigation.reveal_all(dict.fromkeys(_neighbours(context, upstream=upstream)))


def _show_training(context: MenuContext) -> None:
    graphs = _training_graphs(context)
    if graphs:
        context.opened.navigation.show(graphs[0])


def _training_graphs(context: MenuContext) -> list[Graph]:
    workspace = context.workspace
    if workspace is None:
        return []
    return [graph for graph in workspace.model.root_graphs() if isinstance(graph.owner, TrainingInfo)]


def _toggle_bookmark(context: MenuContext) -> None:
    context.opened.bookmarks.toggle(item for item in context.selected if isinstance(item, (Node, Value)))


def _has_bookmarks(context: MenuContext) -> bool:
    return context.workspace is not None and bool(context.workspace.bookmarks.notes)


def _next_bookmark(step: int, context: MenuContext) -> None:
    """Select the next (1) or previous (−1) bookmark, wrapping around; without a selection start at an end."""
    workspace = context.opened
    marked = [element for element in workspace.bookmarks.notes if is_in_model(element)]
    if marked:
        current = workspace.selection.current
        start = marked.index(current) if current in marked else (-1 if step > 0 else 0)
        workspace.navigation.reveal(marked[(start + step) % len(marked)])


def _store_bookmarks(context: MenuContext) -> None:
    from onnx_workbench.model.edits.properties import set_metadata
    from onnx_workbench.viewer.core.bookmarks import METADATA_KEY

    workspace = context.opened
    with workspace.document.edit("Store bookmarks in the model") as edit:
        set_metadata(edit, workspace.model, METADATA_KEY, json.dumps(workspace.bookmarks.state(), ensure_ascii=False))


def _cycle_tab(step: int, context: MenuContext) -> None:
    context.area.activate_next(step)


def _next_match(step: int, context: MenuContext) -> None:
    """Select the next match without leaving the graph; open Find if there is no query."""
    from onnx_workbench.viewer.panels.find import FindPanel

    panel = context.docks.panel("find")
    if not isinstance(panel, FindPanel) or not panel.box.text().strip():
        context.docks.open("find")
    else:
        panel.step(step)


def _focus_graph(context: MenuContext) -> None:
    tab = context.area.tab
    if tab is not None:
        tab.canvas.setFocus(Qt.FocusReason.ShortcutFocusReason)


def _properties(context: MenuContext) -> None:
    """Show the graph first, the model on repetition, as in Netron."""
    workspace = context.opened
    wanted = workspace.model if workspace.selection.current is workspace.graph else workspace.graph
    workspace.selection.set([wanted])
    if context.docks.has("inspector"):
        context.docks.open("inspector")


_NODE = frozenset({"node"})

ACTIONS = (
    Action(
        id="go.back",
        title="&Back",
        run=lambda context: context.opened.navigation.go_back(),
        menu=Menu.GO,
        section=1,
        shortcut=("Alt+Left",),
        enabled=lambda context: context.workspace is not None and context.workspace.navigation.history.can_go_back,
        icon="back",
        toolbar=31,
        words="previous place history",
    ),
    Action(
        id="go.forward",
        title="&Forward",
        run=lambda context: context.opened.navigation.go_forward(),
        menu=Menu.GO,
        section=1,
        shortcut=("Alt+Right",),
        enabled=lambda context: context.workspace is not None and context.workspace.navigation.history.can_go_forward,
        icon="forward",
        toolbar=32,
        words="next place history",
    ),
    Action(
        id="go.up",
        title="Parent Grap&h",
        run=lambda context: context.opened.navigation.go_up(),
        menu=Menu.GO,
        section=1,
        shortcut=("Backspace", "Alt+Up"),
        on_graph=True,
        enabled=_can_go_up,
        icon="up",
        toolbar=33,
        contexts=frozenset({"canvas"}),
        words="leave function body parent outer",
    ),
    Action(
        id="go.enter",
        title="&Enter Body or Function",
        run=_enter,
        menu=Menu.GO,
        section=1,
        shortcut=("Alt+Down",),
        on_graph=True,
        enabled=lambda context: _inner_graph(context) is not None,
        contexts=frozenset({"node", "function"}),
        words="open subgraph if loop scan inside",
    ),
    Action(
        id="go.producers",
        title="Select &Producers",
        run=partial(_select_neighbours, upstream=True),
        menu=Menu.GO,
        section=2,
        enabled=partial(_has_neighbour, upstream=True),
        contexts=_NODE,
        words="inputs before upstream",
    ),
    Action(
        id="go.consumers",
        title="Select &Consumers",
        run=partial(_select_neighbours, upstream=False),
        menu=Menu.GO,
        section=2,
        enabled=partial(_has_neighbour, upstream=False),
        contexts=_NODE,
        words="outputs after downstream users",
    ),
    Action(
        id="go.origin",
        title="Go to Pr&oducer",
        run=_go_to_origin,
        menu=Menu.GO,
        section=2,
        shortcut=("F12",),
        enabled=lambda context: _origin(context) is not None,
        contexts=frozenset({"value"}),
        tip="Go to the node that produces the value. From an input of a body, go to the value passed to it.",
        words="producer definition source outer scope outside declaration",
    ),
    Action(
        id="go.trace_up",
        title="Trace Up&stream",
        run=partial(_trace, upstream=True),
        menu=Menu.GO,
        section=2,
        shortcut=("Ctrl+Shift+Up",),
        on_graph=True,
        enabled=_has_node,
        contexts=_NODE,
        tip="Select everything the selection depends on, and dim the rest until Esc.",
        words="ancestors dependencies inputs all",
    ),
    Action(
        id="go.trace_down",
        title="Trace &Downstream",
        run=partial(_trace, upstream=False),
        menu=Menu.GO,
        section=2,
        shortcut=("Ctrl+Shift+Down",),
        on_graph=True,
        enabled=_has_node,
        contexts=_NODE,
        tip="Select everything that depends on the selection, and dim the rest until Esc.",
        words="descendants outputs all",
    ),
    Action(
        id="go.main_graph",
        title="&Main Graph",
        run=lambda context: context.opened.navigation.show(context.opened.model.graph),
        menu=Menu.GO,
        section=3,
        shortcut=("Alt+Home",),
        enabled=_can_go_up,
        words="top root",
    ),
    Action(
        id="go.training",
        title="&Training Graph",
        run=_show_training,
        menu=Menu.GO,
        section=3,
        enabled=lambda context: bool(_training_graphs(context)),
        words="training_info algorithm initialization",
    ),
    Action(
        id="go.properties",
        title="Model P&roperties",
        run=_properties,
        menu=Menu.GO,
        section=3,
        shortcut=("Ctrl+Return",),
        enabled=with_document,
        icon="info",
        tip="Show the properties of the graph; a second time, those of the model.",
        words="inspector information metadata",
    ),
    Action(
        id="go.next_match",
        title="Next Match",
        run=partial(_next_match, 1),
        menu=Menu.GO,
        section=4,
        shortcut=("F3",),
        tip="Go to the next result of Find.",
        words="find search again",
    ),
    Action(
        id="go.previous_match",
        title="Previous Match",
        run=partial(_next_match, -1),
        menu=Menu.GO,
        section=4,
        shortcut=("Shift+F3",),
        words="find search back",
    ),
    Action(
        id="go.toggle_bookmark",
        title="Toggle Bookmar&k",
        run=_toggle_bookmark,
        menu=Menu.GO,
        section=4,
        shortcut=("Ctrl+B",),
        enabled=_has_element,
        contexts=frozenset({"node", "value"}),
        icon="bookmark",
        tip="Bookmark the selected nodes and values, or remove their bookmarks. The Bookmarks panel lists them.",
        words="note remember favourite mark",
    ),
    Action(
        id="go.next_bookmark",
        title="Next Bookmark",
        run=partial(_next_bookmark, 1),
        menu=Menu.GO,
        section=4,
        shortcut=("Ctrl+F2",),
        enabled=_has_bookmarks,
    ),
    Action(
        id="go.previous_bookmark",
        title="Previous Bookmark",
        run=partial(_next_bookmark, -1),
        menu=Menu.GO,
        section=4,
        shortcut=("Ctrl+Shift+F2",),
        enabled=_has_bookmarks,
    ),
    Action(
        id="go.store_bookmarks",
        title="Store Bookmarks in the Model",
        run=_store_bookmarks,
        menu=Menu.GO,
        section=4,
        enabled=_has_bookmarks,
        tip="Write the bookmarks and notes into the model's metadata, so that they are saved with the file.",
        words="share metadata notes",
    ),
    Action(
        id="go.graph",
        title="Focus Graph",
        run=_focus_graph,
        menu=Menu.GO,
        section=4,
        shortcut=("F7",),
        words="focus canvas leave panel",
    ),
    Action(
        id="go.next_tab",
        title="&Next Tab",
        run=partial(_cycle_tab, 1),
        menu=Menu.GO,
        section=5,
        shortcut=("Ctrl+Tab", "Ctrl+PgDown"),
        enabled=has_several_documents,
    ),
    Action(
        id="go.previous_tab",
        title="Pre&vious Tab",
        run=partial(_cycle_tab, -1),
        menu=Menu.GO,
        section=5,
        shortcut=("Ctrl+Shift+Tab", "Ctrl+PgUp"),
        enabled=has_several_documents,
    ),
)
