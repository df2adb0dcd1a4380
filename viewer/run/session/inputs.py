"""Inputs of a run: a source for each input, sizes of symbols, seed and limits; saved for each model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PySide6.QtCore import QObject, Signal

from onnx_workbench.exec.errors import WorkerUnavailable
from onnx_workbench.exec.inputs.images import ImageOptions
from onnx_workbench.exec.inputs.recipe import Recipe, interface_of
from onnx_workbench.exec.inputs.sources import (
    Constant,
    File,
    InputSource,
    Random,
    Range,
    settle,
    sizes_of,
    symbols,
)
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.budget import input_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField, SetGraphInputs
from onnx_workbench.model.io.tensors.array_files import npz_members
from onnx_workbench.model.ir.graph import Graph, Value, Values
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.program.settings import Option

if TYPE_CHECKING:
    from onnx_workbench.exec.session import Session
    from onnx_workbench.exec.worker.client import WorkerSession
    from onnx_workbench.model.history.document import Change
    from onnx_workbench.viewer.run.workspace import Workspace

_MOST_LISTED = 8  # names in a message

#: Kinds of sources in the panel; a data set is one source for all inputs.
SourceKind = Literal["random", "constant", "range", "file"]


class RunInputs(QObject):
    """The choices of the inputs of one document. GUI thread only."""

    changed = Signal()
    sizes_known = Signal()  # values were made, which determine sizes that were not chosen

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.sources: dict[str, InputSource] = {}
        self.sizes: dict[str, int] = {}
        self.seed = 0
        self.max_tensor = 0  # bytes of a single value; 0: half of the machine's memory
        self.time_limit = 0.0  # seconds; 0: none
        self.outputs_only = False  # other values are freed after their last use
        self.data_set: Path | None = None
        self.given: dict[str, Any] = {}  # values of a saved run, by name; they take precedence over sources
        self._given_stamp = 0
        self._made: dict[str, int] = {}  # sizes of symbols in the values made last; cleared by a choice
        self._read()
        workspace.changes.changed.connect(self._keep_renamed)

    @property
    def graph(self) -> Graph:
        """The graph that is run."""
        return self._workspace.model.graph

    def inputs(self) -> list[Value]:
        """Return the inputs that need a value."""
        return self.graph.required_inputs

    def source(self, name: str) -> InputSource:
        """Return the source of an input's value."""
        return self.sources.get(name, Random())

    def symbols(self) -> dict[str, int]:
        """Return the symbolic dimensions of the inputs with their sizes: chosen ones, else those of the last values."""
        sizes = symbols(self.graph)
        return sizes | {n: size for n, size in (self._made | self.sizes).items() if n in sizes}

    @property
    def folder(self) -> Path | None:
        """Return the folder of the model; None if it has no file."""
        path = self._workspace.document.path
        return None if path is None else path.parent

    def data_sets(self) -> list[Path]:
        """Return the folders of test data next to the model."""
        if self.folder is None:
            return []
        folders = [folder for folder in self.folder.glob("test_data_set_*") if folder.is_dir()]
        return sorted(folders, key=lambda folder: (len(folder.name), folder.name))

    # -- choosing --------------------------------------------------------------------------------------------

    def set_source(self, name: str, source: InputSource) -> None:
        """Set the source of an input's value."""
        if self.source(name) != source or name in self.given:
            self.sources[name] = source
            self.given.pop(name, None)
            self._notify()

    def set_file(self, path: Path) -> None:
        """Use an archive for all inputs it has arrays for: matched by name, or else all in order.

        ModelError if the archive cannot be read, or has no matching array.
        """
        arrays, wanted = npz_members(path), [value.name for value in self.inputs()]
        array_names = {name: name for name in wanted if name in arrays}
        if not array_names and len(arrays) == len(wanted):
            array_names = dict(zip(wanted, arrays, strict=True))
        if not array_names:
            detail = f"Arrays: {_listed(arrays)}. Inputs: {_listed(wanted)}."
            raise ModelError(f"{display(path.name, 60)} has no array for an input", detail)
        self.sources |= {name: File(path, array) for name, array in array_names.items()}
        self.given = {name: value for name, value in self.given.items() if name not in array_names}
        self.data_set = None
        self._notify()

    def set_size(self, symbol: str, size: int) -> None:
        """Set the size of a symbolic dimension."""
        if self.sizes.get(symbol) != size:
            self.sizes[symbol] = size
            self._notify()

    def set_seed(self, seed: int) -> None:
        """Set the seed of random inputs and operators."""
        if seed != self.seed:
            self.seed = seed
            self._notify()

    def set_limits(self, *, memory: int | None = None, time: float | None = None) -> None:
        """Set the limits; 0 for none."""
        self.max_tensor = self.max_tensor if memory is None else memory
        self.time_limit = self.time_limit if time is None else time
        self._notify()

    def set_outputs_only(self, outputs_only: bool) -> None:
        """Set whether a run keeps only the outputs, or all values."""
        if outputs_only != self.outputs_only:
            self.outputs_only = outputs_only
            self._notify()

    def set_data_set(self, folder: Path | None) -> None:
        """Set all inputs from a folder of test data, or reset them to their sources."""
        if folder != self.data_set:
            self.data_set = folder
            self.given = {}
            self._notify()

    def set_given(self, feeds: Mapping[str, Any], seed: int) -> None:
        """Set inputs from a saved run."""
        types = {v.name: v.type for v in self.inputs()}
        self.given = {name: _as_declared(value, types.get(name)) for name, value in feeds.items()}
        self._given_stamp += 1
        self.data_set = None
        self.seed = seed
        self._notify()

    def _keep_renamed(self, change: Change) -> None:
        if not any(isinstance(step, SetField) and step.field == "name" for step in change.steps):
            return
        inputs = set(self.inputs())  # and the previous ones: several undo steps at once may rename and then delete one
        inputs.update(*(i.inputs for i in change.inverses if isinstance(i, SetGraphInputs) and i.graph is self.graph))
        before = {
            i.target: i.value
            for i in reversed(change.inverses)
            if isinstance(i, SetField) and i.field == "name" and i.target in inputs
        }
        renamed = {name: value.name for value, name in before.items()}
        if renamed:
            self.sources |= {new: self.sources[old] for old, new in renamed.items() if old in self.sources}
            self.given = {renamed.get(name, name): value for name, value in self.given.items()}
            self._write()

    def set_sizes_from(self, feeds: Mapping[str, Any]) -> None:
        """Take the sizes of symbolic dimensions from generated values, where none was chosen."""
        self._made = sizes_of(self.graph, feeds)
        self.sizes_known.emit()

    def _notify(self) -> None:
        self._made = {}
        self._write()
        self.changed.emit()

    # -- inputs of a run -------------------------------------------------------------------------------------

    def recipe(self) -> Recipe:
        """The recipe of the current input values."""
        graph = interface_of(self.graph)
        if self.data_set is None:
            graph.inputs = Values(v for v in graph.inputs if v.initializer is None or v.name in self.given)
        needed = [v for v in self.inputs() if v.name not in self.given]
        sources = {v.name: settle(v, self.source(v.name)) for v in needed}
        sizes = {name: size for name, size in self.sizes.items() if name in symbols(self.graph)}
        signature = (
            tuple((v.name, v.type, repr(sources.get(v.name)), _stamp(sources.get(v.name))) for v in graph.inputs),
            tuple(sizes.items()),
            self.seed,
            str(self.data_set or ""),
            (self._given_stamp, tuple(self.given)) if self.given else None,
        )
        limit = input_limit(self.max_tensor)
        return Recipe(graph, sources, sizes, self.seed, self.data_set, dict(self.given), signature, limit)

    # -- remembering -----------------------------------------------------------------------------------------

    def _option(self) -> Option[str] | None:
        path = self._workspace.document.path
        if path is None:
            return None
        name = hashlib.sha256(str(path.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return Option(f"run/{name}", "")

    def _write(self) -> None:
        option = self._option()
        if option is None:
            return
        content = {
            "sources": {name: as_json(source) for name, source in self.sources.items()},
            "sizes": self.sizes,
            "seed": self.seed,
            "memory": self.max_tensor,
            "time": self.time_limit,
            "outputs only": self.outputs_only,
            "data set": str(self.data_set or ""),
        }
        self._workspace.settings.set(option, json.dumps(content))

    def _read(self) -> None:
        option = self._option()
        text = "" if option is None else self._workspace.settings.get(option)
        try:
            content = json.loads(text) if text else {}
            self.sources = {str(n): from_json(s) for n, s in dict(content.get("sources", {})).items()}
            self.sizes = {str(n): max(0, int(s)) for n, s in dict(content.get("sizes", {})).items()}
            self.seed = int(content.get("seed", 0))
            self.max_tensor = max(0, int(content.get("memory", 0)))
            self.time_limit = max(0.0, float(content.get("time", 0.0)))
            self.outputs_only = bool(content.get("outputs only", False))
            folder = Path(content.get("data set") or "")
            self.data_set = folder if content.get("data set") and folder.is_dir() else None
        except (ValueError, TypeError, AttributeError, KeyError):
            self.sources, self.sizes = {}, {}  # written by another version, or by hand


def make_inputs(session: Session | WorkerSession, recipe: Recipe, progress: Progress) -> dict[str, Any]:
    """Return values or handles of inputs, made in the session's process; in this one if no worker can be started.

    ModelError if one cannot be made. Off the GUI thread.
    """
    try:
        return session.make_inputs(recipe, progress)
    except WorkerUnavailable:
        return recipe.make(progress)


def _as_declared(value: Any, declared: Type | None) -> Any:
    """Convert a value to the declared type: floats to other floats, and integers to other integers if they fit.

    Others are unchanged: the run reports that they do not fit.
    """
    kind = declared.element_type if isinstance(declared, TensorType) else None
    own_kind = describe(value).element_type
    if not isinstance(kind, ElementType) or own_kind is None or not isinstance(value, np.ndarray):
        return value
    if not ((kind.is_float and own_kind.is_float) or (kind.is_int and own_kind.is_int)):
        return value
    with np.errstate(all="ignore"):
        converted = value.astype(kind.numpy_dtype, copy=False)
    is_lost = kind.is_int and not np.array_equal(converted.astype(value.dtype), value)
    return value if is_lost else converted


def _listed(names: Sequence[str]) -> str:
    return ", ".join(display(name, 60) for name in names[:_MOST_LISTED]) + (", …" if names[_MOST_LISTED:] else "")


def _stamp(source: InputSource | None) -> Hashable:
    """Return a value that changes when the file of a source is written."""
    if not isinstance(source, File):
        return None
    try:
        status = source.path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


_KINDS: dict[str, type[Any]] = {"random": Random, "constant": Constant, "range": Range, "file": File}


def kind_of(source: InputSource) -> SourceKind:
    """Return the panel's name for a kind of source."""
    match source:
        case Random():
            return "random"
        case Constant():
            return "constant"
        case Range():
            return "range"
        case File():
            return "file"


def as_json(source: InputSource) -> dict[str, Any]:
    """Return a source in the form that is stored."""
    fields = {f.name: getattr(source, f.name) for f in dataclasses.fields(source)}
    if isinstance(source, File):
        fields["path"] = str(source.path)
        fields["image"] = dataclasses.asdict(source.image) if source.image is not None else None
    return {"kind": kind_of(source), **fields}


def from_json(content: Mapping[str, Any]) -> InputSource:
    """Read a stored source; ValueError, TypeError or KeyError if it is invalid."""
    fields = dict(content)
    kind = _KINDS[str(fields.pop("kind"))]
    if kind is File:
        image = fields.get("image")
        if image is not None:
            options: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(image).items()}
            fields["image"] = ImageOptions(**options)
        fields["path"] = Path(str(fields["path"]))
    source: InputSource = kind(**fields)
    return source
