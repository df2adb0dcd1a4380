"""Model menu: new, save with options, extract, split and merge, edit scripts, opsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QFileDialog

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.model.text.formatting import display, left_out_text, plural
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import graph_in_view, has_node, has_several, has_several_documents
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside, show_for
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup
from onnx_workbench.viewer.popups.file_dialogs import ask_another, ask_file, ask_save
from onnx_workbench.viewer.program.settings import LAST_FOLDER

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from onnx_workbench.model.convert import ConversionReport
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.dialogs.extract import Way
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.run.workspace import Workspace

_SCRIPTS = "Edit scripts (*.jsonl);;All files (*)"
_LONGEST_SCRIPT = 256 << 20


# -- cutting ---------------------------------------------------------------------------------------------------


def _extract(way: Way, context: MenuContext) -> None:
    """Open the extraction preview; the parts open in new tabs, the source model does not change."""
    from onnx_workbench.viewer.dialogs.extract import ExtractDialog

    window, origin = context.window, context.workspace

    def done(parts: Sequence[tuple[Model, str]], lost: Sequence[str]) -> None:
        def warn(tab: DocumentTab) -> None:
            tab.workspace.messages.show("warning", "Not everything is in a part", left_out_text(lost))

        title = origin.title.removesuffix(".onnx")
        requests = [context.files.add_new(part, f"{title}-{suffix}") for part, suffix in parts]
        if lost:
            requests[-1].opened.connect(warn)

    show_aside(origin, ExtractDialog(origin, way, done, window))


def merge_file(context: MenuContext, path: Path) -> None:
    """Read a model and open the merge dialog."""
    from onnx_workbench.model.io.reader.read import load

    workspace, graph = context.workspace, graph_in_view(context)

    def show_dialog(other: Model) -> None:
        _ask_how(context.window, workspace, graph, other, path.name)

    workspace.tasks.start(f"Reading {path.name}", lambda progress: load(path, progress), done=show_dialog)


def _ask_how(window: QWidget, workspace: Workspace, graph: Graph, other: Model, title: str) -> None:
    """Open the merge dialog; a model with other opsets is converted on a copy."""
    from onnx_workbench.exec.transform.convert import report_lines
    from onnx_workbench.model.convert.align_for_merge import align, clashing_functions
    from onnx_workbench.model.edits.copy_paste import nodes_of_other_meaning
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.viewer.dialogs.merge import MergeDialog

    imports, clashes = dict(graph.opset_imports), clashing_functions(workspace.model, other)
    if not clashes and not any(nodes_of_other_meaning(other, imports)):
        show_for(workspace, MergeDialog(window, workspace, graph, other, title))
        return

    def work(progress: Progress) -> tuple[Model, ConversionReport]:
        copy = WorkingCopy(other, progress).document
        return copy.model, align(copy, imports, clashes, progress)

    def done(fitted: tuple[Model, ConversionReport]) -> None:
        model, report = fitted
        workspace.messages.show("info", f"{display(title, 60)} was converted to match", "\n".join(report_lines(report)))
        show_for(workspace, MergeDialog(window, workspace, graph, model, title))

    workspace.tasks.start(f"Converting {title}", work, done=done)


# -- edit scripts ----------------------------------------------------------------------------------------------


def export_script(context: MenuContext, path: Path) -> None:
    """Export the edits from the opened model to its current state, to be replayed on a newer export of it."""
    from onnx_workbench.model.io.writer.atomic_file import replacing
    from onnx_workbench.model.scripts.edit_script import export

    text = export(context.workspace.document)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    context.workspace.messages.show("info", f"{plural(text.count(chr(10)) - 1, 'edit')} written to {path.name}.")


def replay_script(context: MenuContext, path: Path) -> None:
    """Replay the edits of a script, each as one history entry; all or nothing."""
    from onnx_workbench.model.io.reader.source import require_regular
    from onnx_workbench.model.scripts.edit_script import replay, text_of

    require_regular(path)
    try:
        if path.stat().st_size > _LONGEST_SCRIPT:
            raise ModelError(f"{path.name} is too long for an edit script", f"At most {_LONGEST_SCRIPT:,} bytes.")
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path.name} could not be read", error.strerror or str(error)) from error
    count = replay(context.workspace.document, text_of(content))
    context.workspace.messages.show("info", f"{plural(count, 'edit')} replayed from {path.name}.")


def _ask_how_to_save(context: MenuContext, *, copy: bool = False) -> None:
    from onnx_workbench.model.analysis.node_subset import part_of, tensors_of
    from onnx_workbench.viewer.dialogs.save_options import SaveOptionsDialog

    window, tab = context.window, context.tab
    path = tab.path or Path(context.settings.get(LAST_FOLDER), f"{tab.workspace.title}.onnx").absolute()
    suggestion = path.with_name(f"{path.stem}-copy{path.suffix}") if copy else path
    save = partial(context.files.saver.save_with, tab)
    selection = tab.workspace.selection
    selected = tensors_of(part_of(selection.nodes), selection.values)
    workspace = tab.workspace
    dialog = SaveOptionsDialog(window, context.settings, workspace, suggestion, save, copy=copy, selected=selected)
    show_for(workspace, dialog)


@Action(
    "file.new",
    "&New…",
    Menu.FILE.section(1),
    key="Ctrl+N",
    on_start_page=True,
    icon="new",
    tip="Create a model with opsets, inputs and outputs.",
    words="create empty model",
)
def _new(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.new_model import NewModelDialog

    dialog = NewModelDialog(context.window)
    dialog.created.connect(lambda model: context.files.add_new(model, model.graph.name))
    dialog.show()


SAVING_AND_CUTTING = (
    Action(
        "file.save_options",
        "Save &with Options…",
        Menu.FILE.section(2),
        _ask_how_to_save,
        key="Ctrl+Alt+S",
        tip="Choose the file format, and whether weights are stored in the model or in data files.",
        words="external data text json format inline",
    ),
    Action(
        "file.save_copy",
        "Save a Cop&y…",
        Menu.FILE.section(2),
        lambda context: _ask_how_to_save(context, copy=True),
        tip="Save to another file and keep working on the one that is open.",
        words="duplicate backup",
    ),
    Action(
        "model.extract",
        "&Extract Selection as New Model…",
        Submenu.CUT,
        lambda context: _extract("selection", context),
        key="Ctrl+Shift+X",
        when=has_node,
        on=("node",),
        tip="Open the selected nodes as a model in a new tab. Values from outside become inputs.",
        words="subgraph cut part submodel",
    ),
    Action(
        "model.extract_between",
        "Extract Everything &Between as New Model…",
        Submenu.CUT,
        lambda context: _extract("between", context),
        when=has_several,
        on=("node", "value"),
        tip="Open all nodes on paths between the selected nodes or values as a model. Other inputs become its inputs.",
        words="subgraph cut part submodel",
    ),
    Action(
        "model.extract_ends",
        "Extract by &Inputs and Outputs as New Model…",
        Submenu.CUT,
        lambda context: _extract("ends", context),
        when=has_several,
        on=("value",),
        tip="Open the nodes that compute the last of the selected values from the first of them.",
        words="subgraph cut part submodel",
    ),
    Action(
        "model.split",
        "&Split the Model Here…",
        Submenu.CUT,
        lambda context: _extract("split", context),
        when=lambda context: has_node(context) or any(v.producer is not None for v in context.selected_values),
        on=("value",),
        tip="Open two new models: one computes the selected values, the other takes them as inputs.",
        words="cut two parts",
    ),
)


@Action(
    "model.merge",
    "&Merge a Model from File…",
    Submenu.CUT,
    tip="Add the nodes of another model and connect its inputs to values of this one.",
    words="join append combine compose",
)
def _merge(context: MenuContext) -> None:

    path = ask_another(context.window, context.settings, "Merge a model")
    if path is not None:
        merge_file(context, path)


@Action(
    "model.import_weights",
    "Import &Weights…",
    Submenu.CONSTANTS,
    tip="Replace initializers by arrays of their names in a .safetensors, .gguf or .npz file, with a preview.",
    words="load replace parameters checkpoint safetensors gguf npz",
)
def _import_weights(context: MenuContext) -> None:
    """Ask for a weight file, read its header, and open the dialog that lists what matches."""
    from onnx_workbench.model.io.tensors.weight_files import SUFFIXES, WeightFile, open_weights
    from onnx_workbench.viewer.dialogs.import_weights import ImportWeightsDialog

    window, workspace = context.window, context.workspace
    filters = (f"Weights ({' '.join(f'*{suffix}' for suffix in SUFFIXES)})", "All files (*)")
    path = ask_file(window, context.settings, "Import Weights", filters)
    if path is None:
        return

    def done(weights: WeightFile) -> None:
        show_for(workspace, ImportWeightsDialog(workspace, weights, window))

    workspace.tasks.start(f"Reading {path.name}", lambda _progress: open_weights(path), done=done)


@Action(
    "model.merge_tab",
    "Merge an &Open Model…",
    Submenu.CUT,
    when=has_several_documents,
    words="join append combine compose tab",
)
def _merge_tab(context: MenuContext) -> None:
    """Merge the document of another tab: the one to the left, or the first other one."""
    from onnx_workbench.viewer.workflows.working_copies import copy_model

    window, workspace, graph = context.window, context.workspace, graph_in_view(context)
    choices = []
    for tab in context.area.tabs():
        if tab is context.tab:
            continue
        other = tab.workspace

        def chosen(_shift: bool, other: Workspace = other) -> None:
            title = other.title

            def show_dialog(copied: tuple[WorkingCopy, int]) -> None:  # the dialog does not change the copy
                _ask_how(window, workspace, graph, copied[0].document.model, title)

            workspace.tasks.start("", partial(copy_model, other), done=show_dialog)

        choices.append(
            Choice(
                title=display(other.label, 80),
                detail=plural(len(other.model.graph.nodes), "node"),
                run=chosen,
            )
        )
    ChoicePopup(window, "Model", workspace.messages.report).open(
        choices, caption="Merge which open model into this one?", placeholder="Model"
    )


@Action(
    "edit.export_script",
    "Export Edit Script…",
    Menu.EDIT.section(8),
    when=lambda context: context.workspace.document.current.parent is not None,
    tip="Save all edits since the file was opened, to replay them on a newer export of the model.",
    words="record macro history save",
)
def _export_script(context: MenuContext) -> None:

    suggestion = Path(f"{context.workspace.title.removesuffix('.onnx')}-edits.jsonl")
    filters = tuple(_SCRIPTS.split(";;"))
    path = ask_save(context.window, context.settings, "Export edit script", suggestion, filters, "script")
    if path is not None:
        export_script(context, path)


@Action(
    "edit.replay_script",
    "Replay Edit Script…",
    Menu.EDIT.section(8),
    tip="Apply recorded edits to this model. Objects are found by name; either all edits are applied or none.",
    words="macro history apply",
)
def _replay_script(context: MenuContext) -> None:
    name, _ = QFileDialog.getOpenFileName(context.window, "Replay edit script", "", _SCRIPTS)
    if name:
        replay_script(context, Path(name))


@Action(
    "model.operator_sets",
    "C&ustom Operators…",
    Menu.MODEL.section(3),
    on_start_page=True,
    tip="Load documents that declare operators (ONNXOPSET), for the palette and the checks.",
    words="schema custom operators onnxopset register",
)
def _operator_sets(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.custom_operators import CustomOperatorsDialog

    CustomOperatorsDialog.show_for(context.window)
