"""`render` and `show`, the functions of the Python API that draw, which need Qt; see `api` for the others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onnx_workbench.api import StrPath, model_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.node_data import Matched
    from onnx_workbench.exec.values.arrays import RuntimeValue
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.viewer.pictures.export import Exported
    from onnx_workbench.viewer.pictures.web_facts import PageNotes
    from onnx_workbench.viewer.pictures.web_page import WebPage

#: Numbers or texts by the names of nodes or values, or a file of them; or two, of which the difference is shown.
DataSource = StrPath | Mapping[str, float | str] | Sequence[StrPath | Mapping[str, float | str]]


def render(
    model: Model | Document,
    path: StrPath,
    *,
    graph: str = "",
    direction: Literal["down", "right"] = "down",
    theme: Literal["light", "dark"] = "light",
    groups: bool | None = None,
    unfold: bool = False,
    values: StrPath | Mapping[str, RuntimeValue] | None = None,
    other: Model | Document | None = None,
    data: DataSource | None = None,
    column: str | None = None,
    progress: Progress = SILENT,
) -> Exported:
    """Draw a model into an SVG, PNG or PDF file, or as a web page, by the extension. Needs Qt, but no display.

    `graph` is a body, function or training graph by its name; `direction` is which way it runs, `theme` the colours of
    a picture, and `groups` says whether it is drawn as its groups (None: when it is large). With `unfold` a picture has
    boxes for the nodes that only compute sizes or prepare weights too, as a web page always has. `values`, an .npz
    file or arrays by name as `values` of a run, puts their ranges beside the edges, and `other`, an older model, marks
    what differs from it; with it, the main graph is drawn. `data` colours nodes by numbers or texts, by names of nodes
    or values: ``{"conv1": 3.5}``, or a file, such as a profile of ONNX Runtime (see `render --help`); of two, by
    numbers of the second minus those of the first; `column` is the title of another column than the first. A web page
    (.html) is one file that asks the network for nothing: groups open in it, and it shows facts of nodes and values.
    About a second for 1,000 nodes.

    Returns the size of the drawing, and in `loss` what does not fit into it. ModelError: another extension, no such
    graph, data of another model, or a file cannot be read or written.

    >>> import onnx_workbench as ow
    >>> drawing = ow.render(ow.load(sample), folder / "graph.svg")
    >>> drawing.width > 100, drawing.loss
    (True, '')
    """
    from onnx_workbench.model.io.writer.targets import check_target

    suffixes = (".png", ".svg", ".pdf", ".html")
    target = os.fspath(path)
    if not target.lower().endswith(suffixes):
        raise ModelError(f"Cannot draw into {target}", f"The name must end with one of {', '.join(suffixes)}.")
    model = model_of(model)
    is_page = target.lower().endswith(".html")
    compared = [] if other is None else [model_of(other)]
    check_target(Path(target), "page" if is_page else "picture", others=[model, *compared])
    root, notes = _drawn_graph(model, graph, values, other, data, column, progress)
    from onnx_workbench.viewer.pictures.export import render_graph
    from onnx_workbench.viewer.pictures.picture_notes import coloring_of
    from onnx_workbench.viewer.pictures.web_page import web_page

    if is_page:
        title = _title(model, other)
        page = web_page(root, title=title, direction=direction, groups=groups, notes=notes, progress=progress)
        return page.save(target)
    return render_graph(
        root, target, direction=direction, theme=theme, groups=groups, unfold=unfold, note_of=notes.note_of,
        coloring_of=coloring_of(notes), data=notes.data, progress=progress,
    )  # fmt: skip


def show(
    model: Model | Document,
    *,
    graph: str = "",
    direction: Literal["down", "right"] = "down",
    groups: bool | None = None,
    values: StrPath | Mapping[str, RuntimeValue] | None = None,
    other: Model | Document | None = None,
    data: DataSource | None = None,
    column: str | None = None,
    progress: Progress = SILENT,
) -> WebPage:
    """Draw a model as a web page that a notebook shows: the graph can be moved, zoomed and searched, groups open.

    The rest is as for `render`: `graph` is another graph by its name, `direction` is which way it runs, `groups` says
    whether it is drawn as its groups, `values`, an .npz file or `values` of a run, puts ranges beside the edges, and
    `other`, an older model, marks what differs from it; `data` colours nodes by numbers or texts,
    `column` is which of their columns. What the model says cannot run as a script. About a second for
    1,000 nodes.

    In a notebook, let it be the last line of a cell. Elsewhere `save` it to a file for the browser. ModelError as for
    `render`.

    >>> import onnx_workbench as ow
    >>> import numpy as np
    >>> model = ow.load(sample)
    >>> result = ow.Session(model).run({"image": np.zeros((1, 1, 28, 28), np.uint8)})
    >>> page = ow.show(model, values=result.values)
    >>> page.save(folder / "model.html").path.name
    'model.html'
    """
    model = model_of(model)
    root, notes = _drawn_graph(model, graph, values, other, data, column, progress)
    from onnx_workbench.viewer.pictures.web_page import web_page

    title = _title(model, other)
    return web_page(root, title=title, direction=direction, groups=groups, notes=notes, progress=progress)


def _drawn_graph(
    model: Model,
    name: str,
    values: StrPath | Mapping[str, RuntimeValue] | None,
    other: Model | Document | None,
    data: DataSource | None,
    column: str | None,
    progress: Progress,
) -> tuple[Graph, PageNotes]:
    """The graph to draw, and what a run or another model adds to it. Sets Qt up to work without a display."""
    from onnx_workbench.model.analysis.by_name import graph_named

    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")  # fonts and painting work without a display
    from onnx_workbench.viewer.pictures.picture_notes import notes_from_file, notes_of_arrays, union_notes
    from onnx_workbench.viewer.pictures.web_facts import PageNotes

    root = graph_named(model, name)
    if other is not None and name:
        raise ModelError("A comparison draws the main graph", "Leave out the name of the graph.")
    if values is None:
        notes = PageNotes()
    elif isinstance(values, Mapping):
        arrays: dict[tuple[str, ...], RuntimeValue] = {(value,): array for value, array in values.items()}
        notes = notes_of_arrays(model, arrays, "values", progress=progress)
    else:
        notes = notes_from_file(model, Path(os.fspath(values)), progress)
    if other is not None:
        union, notes = union_notes(model_of(other), model, notes, progress)
        root = union.graph
    if data is not None:
        notes.data = matched_data(root.model or model, data, progress, column)
    return root, notes


def matched_data(model: Model, data: DataSource, progress: Progress = SILENT, column: str | None = None) -> Matched:
    """Numbers or texts of the nodes of a model, from names or files; `column` is the title of another than the first.

    ModelError if no name is one of the model's, or there is no such column.
    """
    from onnx_workbench.exec.inspect.node_data import difference, matched, node_data
    from onnx_workbench.exec.inspect.node_data_files import read_node_data

    def find(source: StrPath | Mapping[str, float | str]) -> Matched:
        read = node_data(source) if isinstance(source, Mapping) else read_node_data(Path(os.fspath(source)))
        return matched(model, read, _name_of_data(source), progress)

    if isinstance(data, (str, os.PathLike, Mapping)):
        found = find(data)
    elif len(data) == 2:
        old, new = map(find, data)
        found = difference(new, old)
    else:
        raise ModelError(f"{len(data)} node data were given", "Expected one, or two whose numbers are subtracted.")
    return found if column is None else found.column(column)


def _name_of_data(source: StrPath | Mapping[str, float | str]) -> str:
    return "The given mapping" if isinstance(source, Mapping) else Path(os.fspath(source)).name


def _title(model: Model, older: Model | Document | None = None) -> str:
    """The name of a model's file, or of its graph where it has none; behind that of what it is compared with."""
    if older is not None:
        return f"{_title(model_of(older))} and {_title(model)}"
    name = Path(model.source.name).name if model.source is not None else ""
    return name or model.graph.name or "model"
