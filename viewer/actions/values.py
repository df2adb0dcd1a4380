"""Values menu: display in the tensor panel, conditional breakpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import has_results, in_runs, may_have
from onnx_workbench.viewer.dialogs.text_prompt import PromptField, TextPrompt

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.session.breakpoints import Condition
    from onnx_workbench.viewer.tensor_view.panel import TensorPanel
    from onnx_workbench.viewer.tensor_view.view_kinds import View


def _tensor(context: MenuContext) -> TensorPanel:
    """Show and return the tensor panel."""
    from onnx_workbench.viewer.tensor_view.panel import TensorPanel

    panel = context.docks.open("tensor")
    assert isinstance(panel, TensorPanel)
    return panel


def _view_action(
    name: str,
    title: str,
    run: Callable[[TensorPanel], object],
    tip: str,
    words: str,
    when: Callable[[MenuContext], bool] = lambda _context: True,
) -> Action:
    return Action(
        id=f"values.{name}",
        title=title,
        place=Submenu.LOOK,
        run=lambda context: run(_tensor(context)),
        when=when,
        tip=tip,
        words=words,
    )


def _view(view: View, title: str) -> Action:
    def run(panel: TensorPanel) -> None:
        pane = panel.pane
        pane.choose_view(view)
        if pane.subject is None:
            detail = "Select a value, an initializer or a node."
            pane.workspace.messages.show("info", "No tensor is selected", detail)
        elif pane.view != view:
            detail = "The available views depend on the type and the number of axes."
            pane.workspace.messages.show("info", f"{view} cannot show this value", detail)

    name = view.lower().replace(" ", "_")
    return _view_action(name, title, run, "If the shape allows it.", "tensor panel show preview")


def _mode(number: int, name: str, title: str) -> Action:
    tip, words = (
        "While a comparison is loaded, the values that it compares with.",
        "tensor before after other difference delta",
    )
    return _view_action(name, title, lambda panel: panel.pane.choose_mode(number), tip, words, has_results)


def _may_hold_values(context: MenuContext) -> bool:
    """Return whether there is a constant that can be set: an initializer, or a tensor attribute."""
    return bool(context.selected_nodes) or may_have(context.selected_values, _is_constant)


def _is_constant(value: Value) -> bool:
    is_made = value.producer is not None and value.producer.op_type == "Constant"
    return is_made or value.initializer is not None


def _watched(context: MenuContext) -> list[Value]:
    if context.runs is None:
        return []
    selection = context.workspace.selection
    return [v for v in context.workspace.results.pinned if v in selection or v.producer in selection]


def _toggle_condition(condition: Condition, context: MenuContext) -> None:
    breakpoints = context.workspace.runs.breakpoints
    breakpoints.set_condition(condition, on=not breakpoints.has(condition))


def _break_above(context: MenuContext) -> None:
    """Ask for the threshold, or remove the breakpoint."""
    breakpoints = context.workspace.runs.breakpoints
    if breakpoints.has("above"):
        breakpoints.set_condition("above", on=False)
        return

    def apply(texts: list[str]) -> None:
        try:
            limit = float(texts[0])
        except ValueError:
            limit = -1.0
        if not 0 <= limit < inf:
            raise ModelError("Invalid limit", f"{texts[0] or 'nothing'} was given, a number of at least 0 expected")
        breakpoints.set_condition("above", on=True, limit=limit)

    TextPrompt(
        context.window,
        context.workspace,
        "Break on Large Values",
        [PromptField("Stop when |x| is above", "10000")],
        apply,
    )


def _break(condition: Condition, title: str, run: Callable[[MenuContext], None] | None = None) -> Action:
    return Action(
        id=f"values.break_{condition.replace('-', '_')}",
        title=title,
        place=Submenu.BREAK,
        run=run or partial(_toggle_condition, condition),
        checked=in_runs(lambda runs: runs.breakpoints.has(condition)),
        words="breakpoint condition stop debug pause nan inf infinity large shape differs mismatch",
    )


INSPECT_ACTIONS = (
    _break("non-finite", "Break When a Value Is Not Finite"),
    _break("above", "Break When |x| Is Above…", _break_above),
    _break("shape", "Break When a Shape Differs From the Declared One"),
    _view("Table", "Values as Table"),
    _view("Heat map", "Values as Heat Map"),
    _view("Feature maps", "Values as Feature Maps"),
    _view("Attention", "Values as Attention"),
    _view("Image", "Values as Image"),
    _view("Lines", "Values as Lines"),
    _view("Text", "Values as Text"),
    _mode(0, "now", "Values of This Run"),
    _mode(1, "before", "Values of the Previous Run"),
    _mode(2, "difference", "Difference From the Previous Run"),
    _view_action(
        "pin",
        "Pin Tensor",
        lambda panel: panel.pin(),
        "Keep a copy of the Tensor panel beside it, to compare.",
        "copy link side by side",
    ),
    _view_action(
        "export",
        "Export Values…",
        lambda panel: panel.pane.menu.ask_export(),
        "Export the values in the Tensor panel as .npy, .npz, .pb, raw bytes, .csv or .png.",
        "save tensor array",
    ),
    _view_action(
        "copy_text",
        "Copy Values as Text",
        lambda panel: panel.pane.menu.copy_text(),
        "Copy the plane shown in the Tensor panel.",
        "clipboard tensor numbers",
    ),
    _view_action(
        "copy_picture",
        "Copy Picture of Values",
        lambda panel: panel.pane.menu.copy_picture(),
        "Copy the picture in the colours of the Tensor panel.",
        "clipboard image heat map feature maps",
    ),
    _view_action(
        "save_picture",
        "Save Picture of Values…",
        lambda panel: panel.pane.menu.ask_save_picture(),
        "Save the picture in the colours of the Tensor panel, as .png.",
        "export image heat map feature maps",
    ),
    _view_action(
        "save_view",
        "Save View of Values…",
        lambda panel: panel.pane.menu.ask_save_view(),
        "Save the view of the Tensor panel with numbers and legend, as .png.",
        "export image picture heat map line plot legend screenshot",
    ),
    _view_action(
        "save_histogram",
        "Save Histogram of Values…",
        lambda panel: panel.pane.menu.ask_save_histogram(),
        "Save the histogram of the Tensor panel, as .png.",
        "export picture distribution",
    ),
)


VALUES = (
    Action(
        "values.import",
        "Import Values…",
        Submenu.LOOK,
        lambda context: _tensor(context).pane.menu.ask_import(),
        when=_may_hold_values,
        on=("value",),
        tip="Import .npy, .npz, .pb, CSV or PNG into the initializer or constant in the Tensor panel.",
        words="load tensor array weights",
    ),
    Action(
        "run.trace_element",
        "Trace Element",
        Submenu.LOOK,
        lambda context: context.docks.open("element"),
        key="Ctrl+Alt+F",
        tip="Show which input elements affect the element clicked in the Tensor panel.",
        words="provenance origin receptive field where from",
    ),
    Action(
        "values.unwatch",
        "Stop Watching Value",
        run=lambda context: context.workspace.results.unpin(_watched(context)),
        when=lambda context: bool(_watched(context)),
        on=("node", "value"),
        words="unpin watch list",
    ),
)


@Action(
    "values.correct_types",
    "Correct Declared Types",
    Menu.RUN.section(5),
    when=has_results,
    tip="Replace declared types and shapes that differ from those of the last run.",
    words="declaration mismatch contradiction shape fix",
)
def _correct_types(context: MenuContext) -> None:
    from onnx_workbench.viewer.run_panel.panel import RunPanel

    panel = context.docks.open("run")
    assert isinstance(panel, RunPanel)
    panel.outcome.correct_declarations()
