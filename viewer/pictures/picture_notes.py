"""Notes for pictures and web pages: values of a run from a file, and differences from another model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from onnx_workbench.exec.inspect.value_summary import ValueSummary, summary_of
from onnx_workbench.exec.results.run_file import load_run
from onnx_workbench.exec.results.value_paths import ValuePaths
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.analysis.topology import Connection
from onnx_workbench.model.diff import compare
from onnx_workbench.model.diff.union import build_union
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.canvas.scene.coloring import Coloring, by_category, by_data, by_key
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.compare.difference_text import WORDS, difference_line
from onnx_workbench.viewer.compare.model_comparison import COLORS, node_kinds, note_kind
from onnx_workbench.viewer.document.edge_notes import EdgeNote
from onnx_workbench.viewer.pictures.web_facts import PageNotes
from onnx_workbench.viewer.program.settings import EDGE_NOTES
from onnx_workbench.viewer.run.views.edge_notes import note_text
from onnx_workbench.viewer.style.theme import Theme
from onnx_workbench.viewer.style.type_texts import edge_text


def notes_from_file(model: Model, path: Path, progress: Progress = SILENT) -> PageNotes:
    """Return notes on the values of a model in an .npz file: a saved run, or arrays by name.

    ModelError if the file cannot be read, or has no value of the model.
    """
    return notes_of_arrays(model, load_run(path).values, path.name, str(path), progress)


def notes_of_arrays(
    model: Model,
    arrays: Mapping[tuple[str, ...], RuntimeValue],
    name: str,
    place: str = "",
    progress: Progress = SILENT,
) -> PageNotes:
    """Return notes on the values of a model with arrays of the same names; ModelError if there are none.

    `name` and `place` describe the source of the arrays in the error.
    """
    array_by_value: dict[Value, RuntimeValue] = {}
    numbers = {value.id: value for graph in model.graphs(progress) for value in graph.values(progress)}
    nodes = {node.id: node for graph in model.graphs(progress) for node in graph.nodes}
    paths = ValuePaths(model.graph, nodes.get, numbers.get)
    for address, array in arrays.items():
        key = paths.find(address)
        if key is not None:
            array_by_value.setdefault(numbers[key[1]], array)
    if not array_by_value:
        raise ModelError(f"{name} has no values of this model", "None of its arrays is named like a value.", place)
    return notes_of_values(array_by_value, progress)


def notes_of_values(arrays: Mapping[Value, RuntimeValue], progress: Progress = SILENT) -> PageNotes:
    """Return notes on values with given arrays. Reads every element."""
    summaries: dict[Value, ValueSummary] = {}
    notes: dict[Value, EdgeNote] = {}
    for value, array in progress.paced(arrays.items(), 1):
        if not isinstance(array, np.ndarray):
            continue
        found, info = summary_of(array), describe(array)
        summaries[value] = found
        note = edge_note(found, info.element_type, info.shape)
        if note is not None:
            notes[value] = note
    return PageNotes(note_of=notes.get, summaries=summaries)


def edge_note(found: ValueSummary, element_type: ElementType | None, shape: tuple[int, ...]) -> EdgeNote | None:
    """Return the note beside an edge with the range of a value and its type."""
    computed = "" if element_type is None else edge_text(TensorType(element_type, Shape(shape)))
    return note_text(EDGE_NOTES.default, found, element_type, type_text=computed)


def union_notes(old: Model, new: Model, values: PageNotes, progress: Progress = SILENT) -> tuple[Model, PageNotes]:
    """Return the merged model of two, and notes on their differences; `values` are notes on the new one."""
    comparison = compare(old, new, progress)
    union = build_union(comparison, progress)
    kinds: dict[Node, str] = {}
    for side in node_kinds(comparison.differences, old, new):
        for node, kind in side.items():
            if node in union.of:
                note_kind(kinds, union.of[node], kind)
    lines: dict[object, list[str]] = {}
    for difference in comparison.differences:
        merged = union.of.get(difference.place)
        if merged is not None:
            lines.setdefault(merged, []).append(difference_line(difference))
    edges: dict[tuple[Value, object], str] = {}
    for kind, items in (("added", union.added), ("removed", union.removed)):
        for item in items:
            edges[(item.value, item.node) if isinstance(item, Connection) else (item, None)] = kind
    newer = {merged: sides[1] for merged, sides in union.sides.items() if isinstance(merged, Value)}

    def note_of(value: Value) -> EdgeNote | None:
        return None if newer.get(value) is None else values.note_of(newer[value])

    summaries = {union.of[value]: found for value, found in values.summaries.items() if value in union.of}
    return union.model, PageNotes(note_of, summaries, kinds, lines, edges)


def coloring_of(notes: PageNotes) -> Callable[[Scene, Theme], Coloring]:
    """Return the colouring of a picture: by data or by differences if there are any, else by categories."""
    if notes.data is not None:
        return partial(by_data, data=notes.data.values, title=notes.data.title)
    if not notes.kinds:
        return by_category
    keys = {node: WORDS[kind] for node, kind in notes.kinds.items()}
    return partial(by_key, keys=keys, title="Compared", own=COLORS)
