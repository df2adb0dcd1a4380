"""Export of the current graph as a picture (the whole graph, the visible part or the selection) or as a web page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.document.edge_notes import no_note
from onnx_workbench.viewer.popups.file_dialogs import ask_save
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tasks.readers import read_model

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Graph
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.document.edge_notes import NoteOf
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.pictures.export import Exported
    from onnx_workbench.viewer.pictures.web_facts import PageNotes

Part = Literal["graph", "view", "selection"]

_FILTERS = ("Image (*.png)", "Scalable image (*.svg)", "PDF page (*.pdf)")


def export_picture(tab: DocumentTab, part: Part) -> None:
    """Show a file dialog and export a part of the graph as currently drawn, in a task."""
    from onnx_workbench.viewer.pictures.export import export_scene, in_columns, part_of

    try:
        which: Literal["all", "view", "selection"] = "all" if part == "graph" else part
        scene, area, colouring = part_of(tab.canvas, which, tab.canvas.workspace.selection.items)
    except ModelError as error:
        tab.workspace.messages.report(error)
        return
    path = ask_save(tab, tab.workspace.settings, "Export picture", _suggestion(tab), _FILTERS, "picture")
    if path is None:
        return
    colors = theme()

    def write(note_of: NoteOf) -> None:
        # Types and notes are read here, on the thread of the model; the task uses only these tables.
        types = {value: tab.canvas.type_of(value) for value in scene.drawing.values}
        notes = {value: note for value in types if (note := note_of(value)) is not None}

        def work(progress: Progress) -> Exported:
            drawn = in_columns(scene, progress) if which == "all" else scene
            return export_scene(
                drawn, path, colors, area=area, colouring=colouring,
                type_of=types.get, note_of=notes.get, progress=progress,
            )  # fmt: skip

        tab.workspace.tasks.start(f"Writing {path.name}", work, done=done, makes="file")

    def done(written: Exported) -> None:
        size = f"{number_text(written.width)} × {number_text(written.height)}"
        tab.workspace.messages.show("info", f"{path.name} is written, {size}.", written.loss)

    if tab.canvas is tab.view and tab.workspace.has_runs:
        tab.workspace.runs.presenter.notes.read_all(scene.drawing.values, write)
    else:
        write(no_note)


def export_page(tab: DocumentTab) -> None:
    """Show a file dialog and write the graph as a web page, with the last run, in a task.

    Two compared documents become one page, with the run of the newer one.
    """
    from onnx_workbench.viewer.pictures.web_facts import PageNotes
    from onnx_workbench.viewer.pictures.web_page import WebPage, web_page

    scene, comparing = tab.view.scene, comparison_of(tab.workspace)
    if scene is None:
        return
    path = ask_save(
        tab, tab.workspace.settings, "Export web page", _suggestion(tab, ".html"), ("Web page (*.html)",), "page"
    )
    if path is None:
        return
    options = scene.drawing.options
    workspace = tab.workspace if comparing is None else comparing.new
    graph = workspace.graph if comparing is None else workspace.model.graph
    notes = PageNotes()

    def write(note_of: NoteOf) -> None:
        if note_of is not no_note:
            # Read here, on the thread of the model; the task uses only these tables.
            note_by_value = {value: note for value in values if (note := note_of(value)) is not None}
            summaries = {value: one for value in values if (one := workspace.results.summaries.of(value)) is not None}
            notes.note_of, notes.summaries = note_by_value.get, summaries

        def make(progress: Progress) -> WebPage:
            return web_page(
                graph, title=workspace.title, direction=options.direction, groups=options.groups,
                type_of=workspace.types.type_of, notes=notes, progress=progress,
            )  # fmt: skip

        def work(progress: Progress) -> Exported:
            if comparing is None:
                return read_model(make, progress).save(path)
            title = f"{comparing.old.label} and {comparing.new.label}"
            union, marked = _merged(comparing, notes, progress)
            return web_page(
                union, title=title, direction=options.direction, groups=options.groups, notes=marked, progress=progress
            ).save(path)

        tab.workspace.tasks.start(f"Writing {path.name}", work, done=done, makes="file")

    def done(_written: Exported) -> None:
        tab.workspace.messages.show("info", f"{path.name} is written.", "It opens in any browser, also offline.")

    values = [value for inner in graph.walk() for value in inner.values()]
    if workspace.has_runs and workspace.results.current is not None:
        workspace.runs.presenter.notes.read_all(values, write)
    else:
        write(no_note)


def _merged(comparing: ModelComparison, notes: PageNotes, progress: Progress) -> tuple[Graph, PageNotes]:
    """Return the merged graph of copies of compared documents, and its notes; `notes` are those on the new one."""
    from onnx_workbench.viewer.pictures.picture_notes import union_notes
    from onnx_workbench.viewer.pictures.web_facts import PageNotes
    from onnx_workbench.viewer.workflows.working_copies import copy_model

    old, new = (copy_model(side, progress)[0] for side in (comparing.old, comparing.new))
    of_copies = PageNotes(
        note_of=lambda value: notes.note_of(new.original(value)), summaries=new.of_copies(notes.summaries)
    )
    union, marked = union_notes(old.document.model, new.document.model, of_copies, progress)
    return union.graph, marked


def _suggestion(tab: DocumentTab, suffix: str = ".png") -> Path:
    """Return the suggested path of a picture of a document: next to its file."""
    name = Path(tab.workspace.title).with_suffix(suffix)
    return name if tab.path is None else tab.path.with_name(name.name)
