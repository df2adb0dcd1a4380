"""Writing the graph in front as a picture: all of it, what is in view, or what is selected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onnx_workbench.viewer.popups.file_dialogs import ask_save
from onnx_workbench.viewer.style.formatting import number_text

if TYPE_CHECKING:
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


def _suggestion(tab: DocumentTab) -> Path:
    """Return the suggested path of a picture of a document: beside its file."""
    name = Path(tab.workspace.title).with_suffix(".png")
    return name if tab.path is None else tab.path.with_name(name.name)
