"""Tools for the whole model in the Model menu."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.actions.action import (
    Menu,
    MenuContext,
    Submenu,
    action,
    with_document,
)
from onnx_workbench.viewer.actions.targets import may_have
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.core.settings import COMPARE_MERGED
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside, show_for
from onnx_workbench.viewer.files.show_beside import show_beside

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.popups.choice_popup import Choice
    from onnx_workbench.viewer.run.compare import ComparisonReference


def _knows_types(context: MenuContext) -> bool:
    return with_document(context) and context.opened.types.inferred is not None


def _knows_selected_types(context: MenuContext) -> bool:
    return _knows_types(context) and bool(context.opened.selection.nodes)


def _custom_nodes(context: MenuContext) -> list[Node]:
    nodes = context.opened.selection.nodes if with_document(context) else ()
    return [node for node in nodes if node.domain]


def _others(context: MenuContext) -> Iterator[Choice]:
    from onnx_workbench.viewer.popups.choice_popup import Choice

    area, files, tab = context.area, context.files, context.area.tab
    assert tab is not None
    open_paths = {other.path for other in area.tabs()}
    for other in area.tabs():
        if other is not tab:
            detail = f"open: {plural(len(other.workspace.model.graph.nodes), 'node')}"
            yield Choice(other.workspace.label, partial(_beside_tab, area, other, tab), detail=detail)
    path = tab.path
    if path is not None and path.exists():

        def as_saved(_shift: bool) -> None:
            title = f"{path.name} as saved"
            files.open_saved(path, title).opened.connect(lambda other: show_beside(area, other, tab))

        yield Choice(f"{path.name} as saved", as_saved, detail="the file without unsaved changes")
    for recent in context.settings.recent_files():
        if recent not in open_paths:
            yield Choice(recent.name, partial(_beside_file, context, recent, tab), detail=str(recent.parent))
    yield Choice("Another file…", partial(_beside_asked, context, tab), detail="choose it in the file dialog")


def _beside_tab(area: DocumentArea, other: DocumentTab, tab: DocumentTab, _shift: bool) -> None:
    show_beside(area, other, tab)


def _beside_file(context: MenuContext, path: Path, tab: DocumentTab, _shift: bool) -> None:
    context.files.open_tab(path).opened.connect(lambda other: show_beside(context.area, other, tab))


def _beside_asked(context: MenuContext, tab: DocumentTab, _shift: bool) -> None:
    from onnx_workbench.viewer.popups.file_dialogs import ask_another

    path = ask_another(context.window, context.settings, "Open beside")
    if path is not None:
        _beside_file(context, path, tab, _shift=False)


def _is_compared(context: MenuContext) -> bool:
    return context.workspace is not None and comparison_of(context.workspace) is not None


def _is_merged(context: MenuContext) -> bool:
    return context.settings.get(COMPARE_MERGED)


def _step(context: MenuContext, by: int) -> None:
    comparing = comparison_of(context.opened)
    if comparing is not None:
        comparing.step(by)


@action(
    "model.simplify",
    "Simplif&y…",
    Menu.MODEL.section(3),
    tip="Fold constants, remove no-op nodes and fuse operators. Outputs before and after are compared.",
    words="optimize optimise onnxsim onnxslim constant folding fuse batch normalization eliminate",
)
def _simplify(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog

    show_aside(context.opened, SimplifyDialog(context.opened, context.window))


@action(
    "model.convert",
    "Con&vert…",
    Menu.MODEL.section(3),
    tip="Change opset, precision or dimensions, with a preview.",
    words="opset version upgrade float16 fp16 bfloat16 bf16 half precision freeze batch dynamic strip",
)
def _convert(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.convert import ConvertDialog

    show_aside(context.opened, ConvertDialog(context.opened, context.window))


@action(
    "model.compare",
    "Compare &with…",
    Submenu.COMPARE,
    icon="compare",
    tip="Show another model beside this one, mark differences, and copy changes between them.",
    words="diff difference versions side by side",
)
def _compare(context: MenuContext) -> None:
    """Choose the other model: an open one, one from a file, or this one as its file has it."""
    from onnx_workbench.viewer.popups.choice_popup import ChoicePopup

    ChoicePopup(context.window, "Model", context.opened.messages.report).open(
        list(_others(context)), caption=f"Compare {display(context.opened.label, 60)} with", placeholder="Model"
    )


@action(
    "model.run_both",
    "&Run Both and Compare Values",
    Submenu.COMPARE,
    when=_is_compared,
    tip="Run both models with the same inputs and list the difference of each value.",
    words="diff error accuracy execute",
)
def _run_both(context: MenuContext) -> None:
    """Run both compared documents with the same inputs, then list the differences of values."""
    from onnx_workbench.viewer.compare.run_both import RunBoth
    from onnx_workbench.viewer.panels.run_comparison import RunComparisonPanel

    area, docks, comparing = context.area, context.docks, comparison_of(context.opened)
    assert comparing is not None

    def compare(reference: ComparisonReference) -> None:
        tab = next((tab for tab in area.tabs() if tab.workspace is comparing.new), None)
        if tab is None:
            return
        area.activate(tab)
        panel = docks.open("compare")
        if isinstance(panel, RunComparisonPanel):
            panel.compare(reference.title, reference.prepare)

    runs = RunBoth(comparing)
    runs.done.connect(compare)
    runs.start()


@action(
    "model.compare_merged",
    "Show Both as One &Graph",
    Submenu.COMPARE,
    when=_is_compared,
    checked=_is_merged,
    tip="Show both graphs as one, with added, removed, changed and moved nodes coloured.",
    words="diff merged union side by side unified",
)
def _toggle_merged(context: MenuContext) -> None:
    settings = context.settings
    settings.set(COMPARE_MERGED, not settings.get(COMPARE_MERGED))


@action(
    "model.next_difference",
    "Next Difference",
    Menu.GO.section(6),
    key="Ctrl+Alt+Down",
    when=_is_compared,
    words="diff compare following change",
)
def _next_difference(context: MenuContext) -> None:
    _step(context, 1)


@action(
    "model.previous_difference",
    "Previous Difference",
    Menu.GO.section(6),
    key="Ctrl+Alt+Up",
    when=_is_compared,
    words="diff compare change before",
)
def _previous_difference(context: MenuContext) -> None:
    _step(context, -1)


@action(
    "model.stop_comparing", "&Stop Comparing", Submenu.COMPARE, when=_is_compared, words="diff end close side by side"
)
def _stop_comparing(context: MenuContext) -> None:
    comparing = comparison_of(context.opened)
    if comparing is not None:
        comparing.close()


@action(
    "model.write_types",
    "Write Inferred &Types into the Model",
    Submenu.TYPES,
    when=_knows_types,
    tip="Declare all inferred types, as one edit. Sizes that have no number or name in the model stay open.",
    words="shape inference infer shapes value_info store",
)
def _write_types(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import write_types

    write_types(context.opened)


@action(
    "model.write_selected_types",
    "Write Inferred Types of the &Selection",
    Submenu.TYPES,
    when=_knows_selected_types,
    tip="Declare the inferred types of the outputs of the selected nodes, as one edit.",
    words="shape inference infer shapes value_info store node",
)
def _write_selected_types(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import write_types

    write_types(context.opened, selected=True)


@action(
    "model.type_rule",
    "Types of an Unknown Operator…",
    Submenu.TYPES,
    when=lambda context: may_have(context.selected_nodes, attrgetter("domain")),
    tip="Define how the output types of the selected custom operator depend on its inputs.",
    words="shape inference infer custom rule same as input",
)
def _set_type_rule(context: MenuContext) -> None:
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.inference.custom_rules import rule_of_text
    from onnx_workbench.viewer.dialogs.text_prompt import PromptField, TextPrompt

    workspace, custom = context.opened, _custom_nodes(context)
    if not custom:
        raise ModelError(
            "No custom operator is selected",
            "Select a node with a custom domain. Types of standard operators are known.",
        )
    node = custom[-1]
    operator = f"{node.domain}::{node.op_type}"

    def set_rule(texts: list[str]) -> None:
        rule = texts[0].strip()
        if rule and rule_of_text(rule) is None:
            raise ModelError(f"{display(rule, 60)!r} is not a rule", "Write it as: same as input 0")
        workspace.types.set_rule(operator, rule)

    dialog = TextPrompt(
        context.window,
        "Types of an unknown operator",
        [
            PromptField(
                "Outputs", workspace.types.rules.get(operator, "same as input 0"), "same as input 0; empty: unknown"
            )
        ],
        set_rule,
        explanation=f"Type and shape rule for all nodes of {display(operator, 80)}, while the document is open.",
        button="Infer",
    )
    show_for(workspace, dialog)
