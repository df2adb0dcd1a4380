"""Run menu: the model, parts of it, step by step, live; breakpoints; analysis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import elements, has_element, has_results, in_runs
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup
from onnx_workbench.viewer.popups.file_dialogs import ask_file, ask_files, ask_save
from onnx_workbench.viewer.program.settings import EDGE_NOTES, NAN_ALONE

if TYPE_CHECKING:
    from onnx_workbench.exec.transform.reduce import Reduction
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.run.views.overlays import Overlays


_IS_PAUSED = in_runs(lambda runs: runs.is_paused)


def _target(context: MenuContext) -> Node | None:
    """Return the node to run to: the selected one, or the producer of the selected value."""
    for item in reversed(context.selected):
        node = item.producer if isinstance(item, Value) else item
        if isinstance(node, Node):
            return node
    return None


def _is_stop(item: Item) -> TypeGuard[Node | Value]:
    """Return whether a run can stop there: at nodes, and at computed or fed values."""
    return isinstance(item, Node) or (isinstance(item, Value) and item.initializer is None)


def _go_to_bad(context: MenuContext) -> Callable[[Value, tuple[int, ...]], None]:
    """Show the first value that is not finite in the tensor view, and the elements that caused it."""
    workspace, docks = context.workspace, context.docks

    def found(value: Value, index: tuple[int, ...]) -> None:
        workspace.navigation.reveal(value.producer or value)
        info = workspace.results.info_of(value)
        if info is not None and info.kind != "tensor":
            docks.open("tensor")  # no element of a sequence or map can be traced
            return
        workspace.results.choose_element(value, index)
        docks.open("element")

    return found


def _overlay(kind: str, context: MenuContext) -> None:
    context.workspace.runs.overlays.choose(kind)


def _edge_note(kind: str, title: str) -> Action:
    return Action(
        id=f"run.edges_{kind}",
        title=title,
        place=Submenu.EDGES,
        on_start_page=True,
        tip="Choose what is shown on each edge after a run.",
        words="label statistic sparkline show",
    ).choosing(EDGE_NOTES, kind)


def _colour_by(kind: str, title: str) -> Action:
    return Action(
        id=f"run.colour_{kind}",
        title=f"Colour by {title}",
        place=Submenu.COLOURS,
        run=partial(_overlay, kind),
        when=has_results,
        checked=in_runs(lambda runs: runs.overlays.kind == kind),
        words="overlay heat map legend statistic" + (" macs flops" if kind == "macs" else ""),
    )


#: Titles of the overlays; `viewer.run.views.overlays` has them with their units, but imports numpy.
_OVERLAYS = {
    "time": "Time",
    "memory": "Memory",
    "size": "Output Size",
    "macs": "Multiply-adds",
    "range": "Range",
    "magnitude": "Largest Magnitude",
    "deviation": "Standard Deviation",
    "sparsity": "Share of Zeros",
    "saturation": "Saturation",
    "non_finite": "NaN and Infinities",
}

_EDGE_NOTES = {
    "range": "Edges Show the Range",
    "mean": "Edges Show Mean and Deviation",
    "magnitude": "Edges Show the Largest Magnitude",
    "zeros": "Edges Show the Share of Zeros",
    "histogram": "Edges Show a Histogram",
    "none": "Edges Show Types Only",
}

EDGE_NOTE_ACTIONS = tuple(_edge_note(kind, title) for kind, title in _EDGE_NOTES.items())
COLOUR_ACTIONS = tuple(_colour_by(kind, title) for kind, title in _OVERLAYS.items())


_colour_none = Action(
    "run.colour_none",
    "Colour by Operator Category",
    Submenu.COLOURS,
    lambda context: _overlay("", context),
    checked=in_runs(lambda runs: not runs.overlays.kind),
    words="overlay remove heat map",
)


@Action(
    "run.colour_file",
    "Open Node &Data…",
    Menu.FILE.section(1),
    tip="Colour nodes by numbers or strings from a JSON or CSV file, or a profile of ONNX Runtime or TensorRT.",
    words="overlay heat map import colour numbers profile",
)
def _overlay_file(context: MenuContext) -> None:
    filters = ("Node data (*.json *.csv *.tsv *.txt)", "All files (*)")
    paths = ask_files(context.window, context.settings, "Open Node Data", filters)
    if len(paths) > 2:
        detail = "Choose one file, or two, to show the numbers of the second minus those of the first."
        context.workspace.messages.report(ModelError(f"{len(paths)} files of node data were chosen", detail))
    elif paths:
        context.workspace.runs.overlays.load(*paths)


@Action(
    "run.data_column",
    "Colour by Column of Node Data…",
    Submenu.COLOURS,
    when=in_runs(lambda runs: runs.overlays.data is not None and runs.overlays.data.more),
    words="overlay execution provider",
)
def _choose_column(context: MenuContext) -> None:
    overlays = context.workspace.runs.overlays
    data = overlays.data
    assert data is not None
    popup = ChoicePopup(context.window, "Columns", context.workspace.messages.report)
    choices = [Choice(display(one.title, 60), partial(_show_column, overlays, one.title)) for one in data.columns]
    popup.open(choices, caption="Colour nodes by a column of the node data")


def _show_column(overlays: Overlays, title: str, _shift: bool) -> None:
    if overlays.data is not None:
        overlays.show_data(overlays.data.column(title))


_subtract_data = Action(
    "run.data_difference",
    "Difference of the Last Two Node Data",
    Submenu.COLOURS,
    lambda context: context.workspace.runs.overlays.subtract(),
    when=in_runs(lambda runs: runs.overlays.can_subtract),
    tip="Colour nodes by the difference between the last two node data files.",
    words="overlay subtract compare profile",
)


@Action(
    "run.data_names",
    "Names in the Node Data…",
    Submenu.COLOURS,
    when=in_runs(lambda runs: runs.overlays.data is not None),
    tip="List the names of the node data that are in the model, and those that are not.",
    words="overlay match unknown",
)
def _list_names(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.text_dialog import show_list

    overlays = context.workspace.runs.overlays
    assert overlays.data is not None
    show_list(context.window, "Names in the Node Data", overlays.data.summary(), overlays.data_text())


@Action(
    "run.test",
    "Run Test &Data",
    Menu.RUN.section(6),
    tip="Each test_data_set_* folder beside the model: pass or fail per output.",
    words="expected outputs verify check",
    once_open=True,
)
def _test(context: MenuContext) -> None:
    runs = context.workspace.runs
    runs.test_data.run(runs.inputs.data_sets())
    context.docks.open("run")


@Action(
    "run.inputs",
    "Inputs from &File…",
    Menu.RUN.section(6),
    when=lambda context: bool(context.workspace.model.graph.required_inputs),
    tip="Load inputs from an .npz file, matched by name.",
    words="feeds arrays npz data",
)
def _inputs_from_file(context: MenuContext) -> None:
    from onnx_workbench.viewer.run_panel.panel import ARRAY_FILES, RunPanel

    path = ask_file(context.window, context.settings, "Inputs from file", ARRAY_FILES)
    panel = context.docks.open("run") if path is not None else None
    if path is not None and isinstance(panel, RunPanel):
        panel.take_file(path)


@Action(
    "run.save",
    "Sa&ve Run…",
    Menu.RUN.section(6),
    when=has_results,
    tip="Save inputs, seed and all values as .npz, those of functions and bodies as block > loop.body > name.",
    words="export values arrays",
)
def _save_run(context: MenuContext) -> None:
    from onnx_workbench.viewer.run.results.saved_runs import write_run

    workspace = context.workspace
    suggestion = Path(workspace.title).with_suffix(".npz")
    filters = ("Arrays (*.npz)",)
    path = ask_save(context.window, context.settings, "Save run", suggestion, filters, "run")
    if path is not None:
        write_run(workspace, path)


@Action(
    "run.load",
    "L&oad Run…",
    Menu.RUN.section(6),
    tip="Show the values of a saved run without running. The next run uses its inputs and seed.",
    words="import values arrays",
)
def _load_run(context: MenuContext) -> None:
    from onnx_workbench.viewer.run.results.saved_runs import restore_run

    path = ask_file(context.window, context.settings, "Load run", ("Arrays (*.npz)", "All files (*)"))
    if path is not None:
        restore_run(context.workspace, path)


_run = Action(
    "run.run",
    "&Run",
    Menu.RUN.section(1),
    lambda context: context.workspace.runs.run(),
    key="F6",
    icon="run",
    toolbar=61,
    on=("canvas",),
    tip="Run the model and show the values of all edges.",
    words="execute compute evaluate infer",
    once_open=True,
)


@Action(
    "run.to",
    "Run to &Selected Node",
    Menu.RUN.section(1),
    key="Ctrl+F6",
    when=lambda context: _target(context) is not None,
    on=("node", "value"),
    tip="Compute the selected node and the nodes it depends on.",
    words="execute until partial",
)
def _run_to(context: MenuContext) -> None:
    node = _target(context)
    assert node is not None
    context.workspace.runs.run_to(node)


WHOLE_RUNS = (
    Action(
        "run.fresh",
        "Rerun &All",
        Menu.RUN.section(1),
        lambda context: context.workspace.runs.run(fresh=True),
        key="Ctrl+Shift+F6",
        tip="Compute all nodes again, also unchanged ones, so that times can be compared.",
        words="again clean cache profile",
        once_open=True,
    ),
    Action(
        "run.stop",
        "S&top",
        Menu.RUN.section(1),
        lambda context: context.workspace.runs.stop(),
        key="Shift+F6",
        when=in_runs(lambda runs: runs.is_running or runs.is_paused),
        icon="stop",
        toolbar=62,
        tip="Values computed so far are kept.",
        words="cancel abort end",
    ),
)


@Action(
    "run.live",
    "&Live",
    Menu.RUN.section(2),
    key="Ctrl+Alt+L",
    checked=in_runs(lambda runs: runs.live),
    icon="live",
    toolbar=63,
    tip="After every edit, run the nodes that it affects.",
    words="automatic immediate preview",
    once_open=True,
)
def _toggle_live(context: MenuContext) -> None:
    runs = context.workspace.runs
    runs.set_live(not runs.live)


STEPS = (
    Action(
        "run.step",
        "Ste&p",
        Menu.RUN.section(3),
        lambda context: context.workspace.runs.step(),
        key="F10",
        icon="step",
        tip="Compute the next node, with its bodies. After a breakpoint in a body, compute the next node of that body.",
        words="debug single node over",
        once_open=True,
    ),
    Action(
        "run.step_into",
        "Step Into",
        Menu.RUN.section(3),
        lambda context: context.workspace.runs.step("into"),
        key="Ctrl+Shift+F10",
        tip="Pause before the first node in the body of the next node. If it has no body, compute it.",
        words="debug enter body loop branch function",
        once_open=True,
    ),
    Action(
        "run.step_out",
        "Step Out",
        Menu.RUN.section(3),
        lambda context: context.workspace.runs.step("out"),
        key="Ctrl+F10",
        when=_IS_PAUSED,
        tip="Compute the rest of the body, with all iterations, or of the function in which the run is paused.",
        words="debug leave body loop finish",
    ),
    Action(
        "run.continue",
        "&Continue",
        Menu.RUN.section(3),
        lambda context: context.workspace.runs.resume(),
        key="F8",
        when=_IS_PAUSED,
        tip="Run to the next breakpoint or the end.",
        words="debug resume go on",
    ),
)


@Action(
    "run.breakpoint",
    "Toggle &Breakpoint",
    Menu.RUN.section(4),
    key="F9",
    when=lambda context: any(map(_is_stop, context.selected)),
    icon="breakpoint",
    on=("node", "value"),
    tip="Stop before the node, or after the value is computed.",
    words="debug pause stop",
)
def _toggle_breakpoint(context: MenuContext) -> None:
    for thing in filter(_is_stop, context.selected):
        context.workspace.runs.breakpoints.toggle(thing)


SEARCHES = (
    Action(
        "run.clear_breakpoints",
        "Remove All Breakpoints",
        Menu.RUN.section(4),
        lambda context: context.workspace.runs.breakpoints.set(()),
        when=in_runs(lambda runs: runs.breakpoints.all),
        words="debug",
    ),
    Action(
        "run.first_non_finite",
        "First &Non-finite Value",
        Menu.RUN.section(5),
        lambda context: context.workspace.runs.non_finite_navigator.first(_go_to_bad(context)),
        key="Ctrl+Alt+N",
        when=has_results,
        tip="Go to the node where NaN or infinity appeared first, and the elements that caused it.",
        words="nan inf infinity debug overflow",
    ),
)


@Action(
    "run.reduce",
    "Reduce to t&he Failure…",
    Menu.RUN.section(6),
    when=has_results,
    tip="Find the smallest part of the model that still fails with the inputs of the last run; it opens in a tab.",
    words="minimize bisect bug report nan error crash debug",
)
def _reduce(context: MenuContext) -> None:
    """Choose the failure; that which the last run shows comes first."""
    from onnx_workbench.exec.inspect import reference
    from onnx_workbench.viewer.run.session.reduction import FAILURES, failure_seen, start_reduction

    workspace, files = context.workspace, context.files

    def done(found: Reduction) -> None:
        def show(tab: DocumentTab) -> None:
            tab.workspace.runs.inputs.set_given(found.inputs, workspace.runs.inputs.seed)
            count = plural(found.nodes, "node")
            title = f"Reduced to {count} of {found.before:,}: {found.failure}"
            tab.workspace.messages.show("info", title, "The inputs are the values of the whole model's run.")

        files.add_new(found.model, f"{workspace.title.removesuffix('.onnx')}-failing").opened.connect(show)

    def start(until: str, for_others: bool, _shift: bool) -> None:
        start_reduction(workspace, until, done, for_others=for_others)

    seen = failure_seen(workspace)
    kinds = sorted(FAILURES.items(), key=lambda item: item[0] != seen)
    missing = "" if reference.available() else "ONNX Runtime is not installed (pip install onnxruntime)."
    ChoicePopup(context.window, "Failure", workspace.messages.report).open(
        [
            Choice(
                f"{title}, for a bug report" if for_others else title,
                partial(start, kind, for_others),
                detail="names neutral, weights of one number where it still fails" if for_others else detail,
                rank=2 * number + for_others,
                reason=missing if kind == "differs-from-ort" else "",
            )
            for number, (kind, (title, detail)) in enumerate(kinds)
            for for_others in (False, True)
        ],
        caption="Reduce to the smallest part with",
        placeholder="Failure",
    )


_next_non_finite = Action(
    "run.next_non_finite",
    "Ne&xt Non-finite Value",
    Menu.RUN.section(5),
    lambda context: context.workspace.runs.non_finite_navigator.select_next(_go_to_bad(context)),
    key="Ctrl+Alt+Shift+N",
    when=has_results,
    tip="Go to the next node that produces NaN or infinity from finite inputs.",
    words="nan inf infinity debug overflow hunt",
)


toggle_nan_alone = Action(
    "run.nan_alone",
    "Ignore Infinities",
    Menu.RUN.section(5),
    on_start_page=True,
    tip="Search for NaN only and skip infinities, such as those of an attention mask.",
    words="inf infinity non-finite first next ignore",
).switching(NAN_ALONE)


@Action(
    "run.pin",
    "&Watch Value",
    Menu.RUN.section(5),
    key="Ctrl+Alt+W",
    when=has_element,
    icon="pin",
    on=("node", "value"),
    tip="Add the value to the Watch panel to see how it changes from run to run.",
    words="pin watch list",
)
def _pin(context: MenuContext) -> None:
    values: dict[Value, None] = {}
    for thing in elements(context):
        watched = thing.outputs if isinstance(thing, Node) else (thing,)
        values.update((value, None) for value in watched if value is not None)
    context.workspace.results.pin(values)
    context.docks.open("watch")
