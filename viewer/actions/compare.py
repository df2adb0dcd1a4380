"""Actions that compare: with another model by its structure, with a run, a file or ONNX Runtime by values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import has_results
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup
from onnx_workbench.viewer.popups.file_dialogs import ask_another
from onnx_workbench.viewer.program.settings import COMPARE_MERGED

if TYPE_CHECKING:
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.panels.run_comparison import RunComparisonPanel
    from onnx_workbench.viewer.popups.choice_popup import Choice
    from onnx_workbench.viewer.run.results.compare import ComparisonReference


def _panel(context: MenuContext) -> RunComparisonPanel:
    """Show and return the comparison panel."""
    from onnx_workbench.viewer.panels.run_comparison import RunComparisonPanel

    panel = context.docks.open("compare")
    assert isinstance(panel, RunComparisonPanel)
    return panel


def _other_models(context: MenuContext) -> Iterator[Choice]:
    area, files, tab = context.area, context.files, context.tab
    open_paths = {other.path for other in area.tabs()}
    for other in area.tabs():
        if other is not tab:
            detail = f"open: {plural(len(other.workspace.model.graph.nodes), 'node')}"
            yield Choice(other.workspace.label, partial(_beside_tab, area, other, tab), detail=detail)
    path = tab.path
    if path is not None and path.exists():

        def as_saved(_shift: bool) -> None:
            title = f"{path.name} as saved"
            files.open_saved(path, title).opened.connect(lambda other: area.compare(other, tab))

        yield Choice(f"{path.name} as saved", as_saved, detail="the file without unsaved changes")
    for recent in context.settings.recent_files():
        if recent not in open_paths:
            yield Choice(recent.name, partial(_beside_file, context, recent, tab), detail=str(recent.parent))
    yield Choice("Another model…", partial(_beside_asked, context, tab), detail="choose its file")


def _other_values(context: MenuContext) -> Iterator[Choice]:
    """References for the values of a run."""
    from onnx_workbench.viewer.run.results.compare import references

    def with_reference(reference: ComparisonReference, _shift: bool) -> None:
        _panel(context).compare(reference.title, reference.prepare)

    for reference in references(context.workspace):
        yield Choice(
            f"Values: {reference.title}",
            partial(with_reference, reference),
            detail=reference.detail,
            words="run numeric error difference",
            reason=reference.reason,
        )
    yield Choice(
        "Values: a file…", lambda _shift: _panel(context).choose_file(), detail="arrays by name, or a saved run (.npz)"
    )


def _beside_tab(area: DocumentArea, other: DocumentTab, tab: DocumentTab, _shift: bool) -> None:
    area.compare(other, tab)


def _beside_file(context: MenuContext, path: Path, tab: DocumentTab, _shift: bool) -> None:
    context.files.open_tab(path).opened.connect(lambda other: context.area.compare(other, tab))


def _beside_asked(context: MenuContext, tab: DocumentTab, _shift: bool) -> None:

    path = ask_another(context.window, context.settings, "Open beside")
    if path is not None:
        _beside_file(context, path, tab, _shift=False)


def _is_compared(context: MenuContext) -> bool:
    return comparison_of(context.workspace) is not None


def _comparing(context: MenuContext) -> ModelComparison:
    comparing = comparison_of(context.workspace)
    assert comparing is not None
    return comparing


@Action(
    "model.compare",
    "Compare &With…",
    Submenu.COMPARE,
    icon="compare",
    tip="Compare the structure with another model, or the values of a run with those of another run, a model, a file, "
    "ONNX Runtime or lower precision.",
    words="diff difference versions side by side values reference npz expected output ort onnxruntime "
    "precision quantization fp16 bf16 int8 float16 bfloat16",
)
def _compare(context: MenuContext) -> None:
    """Choose what to compare with: models by their structure come first."""
    ChoicePopup(context.window, "Reference", context.workspace.messages.report).open(
        [*_other_models(context), *_other_values(context)],
        caption=f"Compare {display(context.workspace.label, 60)} with",
        placeholder="Model, or values of a run",
    )


_first_divergence = Action(
    "values.first_divergence",
    "&First Divergence",
    Submenu.COMPARE,
    lambda context: _panel(context).go_to_divergence(),
    when=has_results,
    tip="Go to the first value, in execution order, that is outside the tolerances.",
    words="compare values difference error",
)


@Action(
    "model.run_both",
    "&Run Both and Compare Values",
    Submenu.COMPARE,
    when=_is_compared,
    tip="Run both models with the same inputs and list the difference of each value.",
    words="diff error accuracy execute",
)
def _run_both(context: MenuContext) -> None:
    from onnx_workbench.viewer.compare.run_both import RunBoth

    area, comparing = context.area, _comparing(context)

    def compare(reference: ComparisonReference) -> None:
        tab = next((tab for tab in area.tabs() if tab.workspace is comparing.new), None)
        if tab is None:
            return
        area.activate(tab)
        _panel(context).compare(reference.title, reference.prepare)

    runs = RunBoth(comparing)
    runs.done.connect(compare)
    runs.start()


toggle_merged = Action(
    "model.compare_merged",
    "Show Both as One &Graph",
    Submenu.COMPARE,
    when=_is_compared,
    tip="Show both graphs as one, with added, removed, changed and moved nodes coloured.",
    words="diff merged union side by side unified",
).switching(COMPARE_MERGED)


DIFFERENCES = (
    Action(
        "model.next_difference",
        "Next Difference",
        Menu.GO.section(6),
        lambda context: _comparing(context).step(1),
        key="Ctrl+Alt+Down",
        when=_is_compared,
        words="diff compare following change",
    ),
    Action(
        "model.previous_difference",
        "Previous Difference",
        Menu.GO.section(6),
        lambda context: _comparing(context).step(-1),
        key="Ctrl+Alt+Up",
        when=_is_compared,
        words="diff compare change before",
    ),
    Action(
        "model.stop_comparing",
        "&Stop Comparing",
        Submenu.COMPARE,
        lambda context: _comparing(context).close(),
        when=_is_compared,
        words="diff end close side by side",
    ),
)
