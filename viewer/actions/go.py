"""Go menu: navigation history, subgraphs, neighbours, other tabs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from PySide6.QtCore import Qt

from onnx_workbench.model.analysis import topology
from onnx_workbench.model.analysis.subgraph_ports import origin
from onnx_workbench.model.ir.graph import Function, Graph, Node, TrainingInfo, Value
from onnx_workbench.viewer.actions.action import (
    Menu,
    MenuContext,
    action,
)
from onnx_workbench.viewer.actions.targets import elements, has_element, has_node, has_several_documents
from onnx_workbench.viewer.document.bookmarks import METADATA_KEY
from onnx_workbench.viewer.document.model_signals import is_in_model


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


def _can_go_up(context: MenuContext) -> bool:
    workspace = context.workspace
    return workspace is not None and workspace.graph is not workspace.model.graph


def _neighbours(context: MenuContext, *, upstream: bool) -> Iterator[Node]:
    """Return the direct predecessors or successors of the selected nodes, with repetitions."""
    for item in context.selected_nodes:
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


def _trace(context: MenuContext, *, upstream: bool) -> None:
    """Select everything the selected nodes depend on, or all that depends on them, and dim the rest until Esc."""
    workspace = context.opened
    chosen = elements(context)
    found = topology.upstream(chosen) if upstream else topology.downstream(chosen)
    workspace.selection.set(item for item in found if isinstance(item, Node) and item.graph is workspace.graph)
    workspace.highlights.mark("traced", found)


def _select_neighbours(context: MenuContext, *, upstream: bool) -> None:
    context.opened.navigation.reveal_all(dict.fromkeys(_neighbours(context, upstream=upstream)))


def _training_graphs(context: MenuContext) -> list[Graph]:
    workspace = context.workspace
    if workspace is None:
        return []
    return [graph for graph in workspace.model.root_graphs() if isinstance(graph.owner, TrainingInfo)]


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


def _next_match(step: int, context: MenuContext) -> None:
    """Select the next match without leaving the graph; open Find if there is no query."""
    from onnx_workbench.viewer.panels.find import FindPanel

    panel = context.docks.panel("find")
    if not isinstance(panel, FindPanel) or not panel.box.text().strip():
        context.docks.open("find")
    else:
        panel.step(step)


@action(
    "go.back",
    "&Back",
    Menu.GO.section(1),
    key="Alt+Left",
    when=lambda context: context.workspace is not None and context.workspace.navigation.history.can_go_back,
    icon="back",
    toolbar=31,
    words="previous place history",
)
def _back(context: MenuContext) -> None:
    context.opened.navigation.go_back()


@action(
    "go.forward",
    "&Forward",
    Menu.GO.section(1),
    key="Alt+Right",
    when=lambda context: context.workspace is not None and context.workspace.navigation.history.can_go_forward,
    icon="forward",
    toolbar=32,
    words="next place history",
)
def _forward(context: MenuContext) -> None:
    context.opened.navigation.go_forward()


@action(
    "go.up",
    "Parent Grap&h",
    Menu.GO.section(1),
    key=("Backspace", "Alt+Up"),
    on_graph=True,
    when=_can_go_up,
    icon="up",
    toolbar=33,
    on=("canvas",),
    words="leave function body parent outer",
)
def _up(context: MenuContext) -> None:
    context.opened.navigation.go_up()


@action(
    "go.enter",
    "&Enter Body or Function",
    Menu.GO.section(1),
    key="Alt+Down",
    on_graph=True,
    when=lambda context: _inner_graph(context) is not None,
    on=("node", "function"),
    words="open subgraph if loop scan inside",
)
def _enter(context: MenuContext) -> None:
    graph = _inner_graph(context)
    if graph is not None:
        context.opened.navigation.show(graph)


@action(
    "go.producers",
    "Select &Producers",
    Menu.GO.section(2),
    when=partial(_has_neighbour, upstream=True),
    on=("node",),
    words="inputs before upstream",
)
def _producers(context: MenuContext) -> None:
    _select_neighbours(context, upstream=True)


@action(
    "go.consumers",
    "Select &Consumers",
    Menu.GO.section(2),
    when=partial(_has_neighbour, upstream=False),
    on=("node",),
    words="outputs after downstream users",
)
def _consumers(context: MenuContext) -> None:
    _select_neighbours(context, upstream=False)


@action(
    "go.next_edge",
    "Select Next Edge",
    Menu.GO.section(2),
    key="E",
    on_graph=True,
    when=has_element,
    on=("node", "value"),
    tip="Select the next input or output of the node, as a click on its edge does. The arrow keys continue from there.",
    words="value input output wire tensor keyboard",
)
def _next_edge(context: MenuContext) -> None:
    _step_edge(context, 1)


@action(
    "go.previous_edge",
    "Select Previous Edge",
    Menu.GO.section(2),
    key="Shift+E",
    on_graph=True,
    when=has_element,
    words="value input output wire tensor keyboard",
)
def _previous_edge(context: MenuContext) -> None:
    _step_edge(context, -1)


def _step_edge(context: MenuContext, step: int) -> None:
    tab = context.area.tab
    if tab is not None:
        tab.canvas.navigator.step_edge(step)


@action(
    "go.origin",
    "Go to Pr&oducer",
    Menu.GO.section(2),
    key="F12",
    when=lambda context: _origin(context) is not None,
    on=("value",),
    tip="Go to the node that produces the value. From an input of a body, go to the value passed to it.",
    words="producer definition source outer scope outside declaration",
)
def _go_to_origin(context: MenuContext) -> None:
    found = _origin(context)
    if found is not None:
        context.opened.navigation.reveal(found)


@action(
    "go.trace_up",
    "Trace Up&stream",
    Menu.GO.section(2),
    key="Ctrl+Shift+Up",
    on_graph=True,
    when=has_node,
    on=("node",),
    tip="Select everything the selection depends on, and dim the rest until Esc.",
    words="ancestors dependencies inputs all",
)
def _trace_up(context: MenuContext) -> None:
    _trace(context, upstream=True)


@action(
    "go.trace_down",
    "Trace &Downstream",
    Menu.GO.section(2),
    key="Ctrl+Shift+Down",
    on_graph=True,
    when=has_node,
    on=("node",),
    tip="Select everything that depends on the selection, and dim the rest until Esc.",
    words="descendants outputs all",
)
def _trace_down(context: MenuContext) -> None:
    _trace(context, upstream=False)


@action("go.main_graph", "&Main Graph", Menu.GO.section(3), key="Alt+Home", when=_can_go_up, words="top root")
def _main_graph(context: MenuContext) -> None:
    context.opened.navigation.show(context.opened.model.graph)


@action(
    "go.training",
    "&Training Graph",
    Menu.GO.section(3),
    when=lambda context: bool(_training_graphs(context)),
    words="training_info algorithm initialization",
)
def _show_training(context: MenuContext) -> None:
    graphs = _training_graphs(context)
    if graphs:
        context.opened.navigation.show(graphs[0])


@action(
    "go.properties",
    "Model P&roperties",
    Menu.GO.section(3),
    key="Ctrl+Return",
    icon="info",
    tip="Show the properties of the model in the Inspector.",
    words="inspector information metadata",
)
def _properties(context: MenuContext) -> None:
    context.opened.selection.set([context.opened.model])
    if context.docks.has("inspector"):
        context.docks.open("inspector")


@action(
    "go.next_match",
    "Next Match",
    Menu.GO.section(4),
    key="F3",
    tip="Go to the next result of Find.",
    words="find search again",
)
def _match_after(context: MenuContext) -> None:
    _next_match(1, context)


@action("go.previous_match", "Previous Match", Menu.GO.section(4), key="Shift+F3", words="find search back")
def _previous_match(context: MenuContext) -> None:
    _next_match(-1, context)


@action(
    "go.toggle_bookmark",
    "Toggle Bookmar&k",
    Menu.GO.section(4),
    key="Ctrl+B",
    when=has_element,
    icon="bookmark",
    on=("node", "value"),
    tip="Bookmark the selected nodes and values, or remove their bookmarks. The Bookmarks panel lists them.",
    words="note remember favourite mark",
)
def _toggle_bookmark(context: MenuContext) -> None:
    context.opened.bookmarks.toggle(elements(context))


@action("go.next_bookmark", "Next Bookmark", Menu.GO.section(4), key="Ctrl+F2", when=_has_bookmarks)
def _bookmark_after(context: MenuContext) -> None:
    _next_bookmark(1, context)


@action("go.previous_bookmark", "Previous Bookmark", Menu.GO.section(4), key="Ctrl+Shift+F2", when=_has_bookmarks)
def _previous_bookmark(context: MenuContext) -> None:
    _next_bookmark(-1, context)


@action(
    "go.store_bookmarks",
    "Store Bookmarks in the Model",
    Menu.GO.section(4),
    when=_has_bookmarks,
    tip="Write the bookmarks and notes into the model's metadata, so that they are saved with the file.",
    words="share metadata notes",
)
def _store_bookmarks(context: MenuContext) -> None:
    from onnx_workbench.model.edits.properties import set_metadata

    workspace = context.opened
    with workspace.document.edit("Store bookmarks in the model") as edit:
        set_metadata(edit, workspace.model, METADATA_KEY, json.dumps(workspace.bookmarks.state(), ensure_ascii=False))


@action("go.graph", "Focus Graph", Menu.GO.section(4), key="F7", words="focus canvas leave panel")
def _focus_graph(context: MenuContext) -> None:
    tab = context.area.tab
    if tab is not None:
        tab.canvas.setFocus(Qt.FocusReason.ShortcutFocusReason)


@action("go.next_tab", "&Next Tab", Menu.GO.section(5), key=("Ctrl+Tab", "Ctrl+PgDown"), when=has_several_documents)
def _next_tab(context: MenuContext) -> None:
    context.area.activate_next(1)


@action(
    "go.previous_tab",
    "Pre&vious Tab",
    Menu.GO.section(5),
    key=("Ctrl+Shift+Tab", "Ctrl+PgUp"),
    when=has_several_documents,
)
def _previous_tab(context: MenuContext) -> None:
    context.area.activate_next(-1)
