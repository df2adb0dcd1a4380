"""Writing the graph in front as a picture, all of it, what is in view, or what is selected; or as a web page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onnx_workbench.viewer.core.readers import read_model
from onnx_workbench.viewer.popups.file_dialogs import ask_save
from onnx_workbench.viewer.style.formatting import number_text

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.canvas.paint.export import Exported
    from onnx_workbench.viewer.core.edge_notes import NoteOf
    from onnx_workbench.viewer.files.document_tab import DocumentTab

Part = Literal["graph", "view", "selection"]

_FILTERS = ("Image (*.png)", "Scalable image (*.svg)", "PDF page (*.pdf)")


def export_picture(tab: DocumentTab, part: Part) -> None:
    """Show a file dialog and export a part of the graph as it is drawn now, in a task."""
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.viewer.canvas.paint.export import export_scene, part_of
    from onnx_workbench.viewer.core.edge_notes import no_note
    from onnx_workbench.viewer.style.theme import theme

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
        # Types and notes are read here, on the thread of the model; the task sees only these tables.
        types = {value: tab.canvas.type_of(value) for value in scene.drawing.values}
        notes = {value: note for value in types if (note := note_of(value)) is not None}

        def work(progress: Progress) -> Exported:
            return export_scene(
                scene, path, colors, area=area, colouring=colouring,
                type_of=types.get, note_of=notes.get, progress=progress,
            )  # fmt: skip

        tab.workspace.tasks.start(f"Writing {path.name}", work, done=done, makes="file")

    def done(written: Exported) -> None:
        size = f"{number_text(written.width)} × {number_text(written.height)}"
        tab.workspace.messages.show("info", f"{path.name} is written, {size}.", written.loss)

    if tab.canvas is tab.view and tab.workspace.has_runs:
        tab.workspace.runs.edge_notes.gather(scene.drawing.values, write)
    else:
        write(no_note)


def export_page(tab: DocumentTab) -> None:
    """Show a file dialog and write the graph as a web page, with the last run and what is compared, in a task."""
    from onnx_workbench.viewer.canvas.paint.web_facts import PageNotes
    from onnx_workbench.viewer.canvas.paint.web_page import WebPage, web_page
    from onnx_workbench.viewer.core.edge_notes import no_note

    workspace, scene = tab.workspace, tab.view.scene
    if scene is None:
        return
    path = ask_save(
        tab, workspace.settings, "Export web page", _suggestion(tab, ".html"), ("Web page (*.html)",), "page"
    )
    if path is None:
        return
    graph, options = workspace.graph, scene.drawing.options
    kinds, lines = _differences(tab)
    notes = PageNotes(kinds=kinds, differences=lines)

    def write(note_of: NoteOf) -> None:
        if note_of is not no_note:
            # Read here, on the thread of the model; the task sees only these tables.
            known = {value: note for value in values if (note := note_of(value)) is not None}
            found = {value: one for value in values if (one := workspace.runs.edge_notes.glimpse_of(value)) is not None}
            notes.note_of, notes.summaries = known.get, found

        def make(progress: Progress) -> WebPage:
            return web_page(
                graph, title=workspace.title, direction=options.direction, groups=options.groups,
                type_of=workspace.types.type_of, notes=notes, progress=progress,
            )  # fmt: skip

        def work(progress: Progress) -> Exported:
            return read_model(make, progress).save(path)

        workspace.tasks.start(f"Writing {path.name}", work, done=done, makes="file")

    def done(_written: Exported) -> None:
        workspace.messages.show("info", f"{path.name} is written.", "Any browser shows it, without a network.")

    values = [value for inner in graph.walk() for value in inner.values()]
    if workspace.has_runs and workspace.results.current is not None:
        workspace.runs.edge_notes.gather(values, write)
    else:
        write(no_note)


def _differences(tab: DocumentTab) -> tuple[dict[Node, str], dict[object, list[str]]]:
    """How nodes of a document differ from the one that it is compared with, and in which words."""
    from onnx_workbench.viewer.compare.difference_text import difference_line
    from onnx_workbench.viewer.compare.registry import comparison_of

    comparing = comparison_of(tab.workspace)
    if comparing is None:
        return {}, {}
    is_new = comparing.side(tab.workspace) == "new"
    lines: dict[object, list[str]] = {}
    for difference in comparing.shown:
        place = difference.new if is_new else difference.old
        if place is not None:
            lines.setdefault(place, []).append(difference_line(difference))
    return comparing.kinds[is_new], lines


def _suggestion(tab: DocumentTab, suffix: str = ".png") -> Path:
    """Return the suggested path of a picture of a document: beside its file."""
    name = Path(tab.workspace.title).with_suffix(suffix)
    return name if tab.path is None else tab.path.with_name(name.name)
