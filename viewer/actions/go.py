"""Go menu: navigation history, subgraphs, neighbours, other tabs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from PySide6.QtCore import Qt

from onnx_workbench.model.analysis import topology
from onnx_workbench.model.analysis.subgraph_ports import origin
from onnx_workbench.model.ir.graph import Function, Graph, Node, TrainingInfo, Value
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext
from onnx_workbench.viewer.actions.targets import elements, has_element, has_node, has_several_documents
from onnx_workbench.viewer.document.bookmarks import METADATA_KEY
from onnx_workbench.viewer.document.model_signals import is_in_model


def _inner_graph(context: MenuContext) -> Graph | None:
    """Return the graph inside the current object: a subgraph, or the body of a called function."""
    item = context.current
    match item:
        case Node() if item.bodies:
            return item.bodies[0]
        case Node():
            function = context.workspace.model.function(*item.operator)
            return None if function is None else function.body
        case Function():
            return item.body
        case Graph():
            return item
    return None


def _can_go_up(context: MenuContext) -> bool:
    return context.workspace.graph is not context.workspace.model.graph


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
    return origin(context.current) if isinstance(context.current, Value) else None


def _trace(context: MenuContext, *, upstream: bool) -> None:
    """Select everything the selected nodes depend on, or all that depends on them, and dim the rest until Esc."""
    workspace = context.workspace
    chosen = elements(context)
    reached = topology.upstream(chosen) if upstream else topology.downstream(chosen)
    workspace.selection.set(item for item in reached if isinstance(item, Node) and item.graph is workspace.graph)
    workspace.highlights.mark("traced", reached)


def _select_neighbours(context: MenuContext, *, upstream: bool) -> None:
    context.workspace.navigation.reveal_all(dict.fromkeys(_neighbours(context, upstream=upstream)))


def _training_graphs(context: MenuContext) -> list[Graph]:
    return [graph for graph in context.workspace.model.root_graphs() if isinstance(graph.owner, TrainingInfo)]


def _has_bookmarks(context: MenuContext) -> bool:
    return bool(context.workspace.bookmarks.notes)


def _next_bookmark(step: int, context: MenuContext) -> None:
    """Select the next (1) or previous (−1) bookmark, wrapping around; without a selection start at an end."""
    workspace = context.workspace
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


PLACES = (
    Action(
        "go.back",
        "&Back",
        Menu.GO.section(1),
        lambda context: context.workspace.navigation.go_back(),
        key="Alt+Left",
        when=lambda context: context.workspace.navigation.history.can_go_back,
        icon="back",
        toolbar=31,
        words="previous place history",
    ),
    Action(
        "go.forward",
        "&Forward",
        Menu.GO.section(1),
        lambda context: context.workspace.navigation.go_forward(),
        key="Alt+Right",
        when=lambda context: context.workspace.navigation.history.can_go_forward,
        icon="forward",
        toolbar=32,
        words="next place history",
    ),
    Action(
        "go.up",
        "Parent Grap&h",
        Menu.GO.section(1),
        lambda context: context.workspace.navigation.go_up(),
        key=("Backspace", "Alt+Up"),
        on_graph=True,
        when=_can_go_up,
        icon="up",
        toolbar=33,
        on=("canvas",),
        words="leave function body parent outer",
    ),
)


@Action(
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
    assert graph is not None
    context.workspace.navigation.show(graph)


NEIGHBOURS = (
    Action(
        "go.producers",
        "Select &Producers",
        Menu.GO.section(2),
        lambda context: _select_neighbours(context, upstream=True),
        when=partial(_has_neighbour, upstream=True),
        on=("node",),
        words="inputs before upstream",
    ),
    Action(
        "go.consumers",
        "Select &Consumers",
        Menu.GO.section(2),
        lambda context: _select_neighbours(context, upstream=False),
        when=partial(_has_neighbour, upstream=False),
        on=("node",),
        words="outputs after downstream users",
    ),
    Action(
        "go.next_edge",
        "Select Next Edge",
        Menu.GO.section(2),
        lambda context: context.view.navigator.step_edge(1),
        key="E",
        on_graph=True,
        when=has_element,
        on=("node", "value"),
        tip="Select the next input or output of the node, as a click on its edge does. The arrow keys continue from "
        "there.",
        words="value input output wire tensor keyboard",
    ),
    Action(
        "go.previous_edge",
        "Select Previous Edge",
        Menu.GO.section(2),
        lambda context: context.view.navigator.step_edge(-1),
        key="Shift+E",
        on_graph=True,
        when=has_element,
        words="value input output wire tensor keyboard",
    ),
)


@Action(
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
    source = _origin(context)
    assert source is not None
    context.workspace.navigation.reveal(source)


TRACES = (
    Action(
        "go.trace_up",
        "Trace Up&stream",
        Menu.GO.section(2),
        lambda context: _trace(context, upstream=True),
        key="Ctrl+Shift+Up",
        on_graph=True,
        when=has_node,
        on=("node",),
        tip="Select everything the selection depends on, and dim the rest until Esc.",
        words="ancestors dependencies inputs all",
    ),
    Action(
        "go.trace_down",
        "Trace &Downstream",
        Menu.GO.section(2),
        lambda context: _trace(context, upstream=False),
        key="Ctrl+Shift+Down",
        on_graph=True,
        when=has_node,
        on=("node",),
        tip="Select everything that depends on the selection, and dim the rest until Esc.",
        words="descendants outputs all",
    ),
    Action(
        "go.main_graph",
        "&Main Graph",
        Menu.GO.section(3),
        lambda context: context.workspace.navigation.show(context.workspace.model.graph),
        key="Alt+Home",
        when=_can_go_up,
        words="top root",
    ),
    Action(
        "go.training",
        "&Training Graph",
        Menu.GO.section(3),
        lambda context: context.workspace.navigation.show(_training_graphs(context)[0]),
        when=lambda context: bool(_training_graphs(context)),
        words="training_info algorithm initialization",
    ),
)


@Action(
    "go.properties",
    "Model P&roperties",
    Menu.GO.section(3),
    key="Ctrl+Return",
    icon="info",
    tip="Show the properties of the model in the Inspector.",
    words="inspector information metadata",
)
def _properties(context: MenuContext) -> None:
    context.workspace.selection.set([context.workspace.model])
    if context.docks.has("inspector"):
        context.docks.open("inspector")


MARKS = (
    Action(
        "go.next_match",
        "Next Match",
        Menu.GO.section(4),
        lambda context: _next_match(1, context),
        key="F3",
        tip="Go to the next result of Find.",
        words="find search again",
    ),
    Action(
        "go.previous_match",
        "Previous Match",
        Menu.GO.section(4),
        lambda context: _next_match(-1, context),
        key="Shift+F3",
        words="find search back",
    ),
    Action(
        "go.toggle_bookmark",
        "Toggle Bookmar&k",
        Menu.GO.section(4),
        lambda context: context.workspace.bookmarks.toggle(elements(context)),
        key="Ctrl+B",
        when=has_element,
        icon="bookmark",
        on=("node", "value"),
        tip="Bookmark the selected nodes and values, or remove their bookmarks. The Bookmarks panel lists them.",
        words="note remember favourite mark",
    ),
    Action(
        "go.next_bookmark",
        "Next Bookmark",
        Menu.GO.section(4),
        lambda context: _next_bookmark(1, context),
        key="Ctrl+F2",
        when=_has_bookmarks,
    ),
    Action(
        "go.previous_bookmark",
        "Previous Bookmark",
        Menu.GO.section(4),
        lambda context: _next_bookmark(-1, context),
        key="Ctrl+Shift+F2",
        when=_has_bookmarks,
    ),
)


@Action(
    "go.store_bookmarks",
    "Store Bookmarks in the Model",
    Menu.GO.section(4),
    when=_has_bookmarks,
    tip="Write the bookmarks and notes into the model's metadata, so that they are saved with the file.",
    words="share metadata notes",
)
def _store_bookmarks(context: MenuContext) -> None:
    from onnx_workbench.model.edits.properties import set_metadata

    workspace = context.workspace
    with workspace.document.edit("Store bookmarks in the model") as edit:
        set_metadata(edit, workspace.model, METADATA_KEY, json.dumps(workspace.bookmarks.state(), ensure_ascii=False))


TABS = (
    Action(
        "go.graph",
        "Focus Graph",
        Menu.GO.section(4),
        lambda context: context.view.setFocus(Qt.FocusReason.ShortcutFocusReason),
        key="F7",
        words="focus canvas leave panel",
    ),
    Action(
        "go.next_tab",
        "&Next Tab",
        Menu.GO.section(5),
        lambda context: context.area.activate_next(1),
        key=("Ctrl+Tab", "Ctrl+PgDown"),
        when=has_several_documents,
    ),
    Action(
        "go.previous_tab",
        "Pre&vious Tab",
        Menu.GO.section(5),
        lambda context: context.area.activate_next(-1),
        key=("Ctrl+Shift+Tab", "Ctrl+PgUp"),
        when=has_several_documents,
    ),
)
