"""Opening and saving models, and what `copy` and `pickle` do with them."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from onnx_workbench.arguments import known
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.io.writer.save import Saved
    from onnx_workbench.model.ir.tensors import Tensor

StrPath = str | os.PathLike[str]
#: Where a save puts the values of tensors.
External = Literal["keep", "inline", "one-file", "file-per-tensor"]


def load(source: StrPath | bytes | BinaryIO, *, salvage: bool = False, progress: Progress = SILENT) -> Model:
    """Open a model: any form of ONNX, from a path (``-`` is standard input), bytes or a binary stream.

    Weights stay in the file until they are used, so the cost is that of nodes and values: about a second for 100,000.
    Broken rules do not keep a file from opening: they are in `Model.source.problems`, and `check` tells them.

    ModelError: not ONNX, or damaged, with byte and field. A file that ends early is refused unless `salvage` is true;
    then what is left of it is opened, and `Model.source.truncation` says what is missing.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> model.opset_imports
    {'': 18, 'sample.images': 1}
    """
    from onnx_workbench.model.io.reader.any_source import read_source

    return read_source(source, salvage=salvage, progress=progress)


def save(
    model: Model | Document,
    path: StrPath,
    *,
    external: External = "keep",
    threshold: int = 1024,
    tensors: Collection[Tensor] | None = None,
    progress: Progress = SILENT,
) -> Saved:
    """Write a model to a file, atomically: the old file stays as it was until the new one is whole.

    The extension says in which form: .onnx, .onnxtxt, .textproto, .pbtxt or .json; other names are binary. `external`
    says where the values of tensors go, of at least `threshold` bytes: each where it was ("keep"), all into the model
    ("inline"), or into one or many data files beside it ("one-file", "file-per-tensor"); with `tensors`, those alone.
    A model that was not changed is written byte by byte as it was. Cost: copying the file.

    Returns what was written, with warnings. ModelError: the file cannot be written, the form cannot hold the model, or
    the target is a file that the model reads its values from.

    >>> import onnx_workbench as ow
    >>> saved = ow.save(ow.load(sample), folder / "copy.onnxtxt")
    >>> saved.path.name, saved.warnings
    ('copy.onnxtxt', ())
    """
    from onnx_workbench.model.io.writer.save import save as write
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    layouts = {
        "keep": DataLayout.KEEP, "inline": DataLayout.INLINE, "one-file": DataLayout.ONE_FILE,
        "file-per-tensor": DataLayout.FILE_PER_TENSOR,
    }  # fmt: skip
    known("external", [external], layouts)
    return write(model_of(model), path, Storage(layouts[external], threshold, tensors), progress=progress)


def model_of(target: Model | Document | StrPath | bytes) -> Model:
    """The model itself, that of a document, or one from a path, bytes or an onnx.ModelProto."""
    if isinstance(target, Model):
        return target
    from onnx_workbench.model.io.reader.any_source import as_model

    return as_model(target)


def _pickled(model: Model) -> tuple[Any, ...]:
    """How to copy or pickle a model: as a file in memory, with the weights in it."""
    from onnx_workbench.model.io.writer.save import to_bytes
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    return load, (to_bytes(model, Storage(DataLayout.INLINE)),)


def _alone(part: Graph | Node | Value) -> str | tuple[Any, ...]:
    """How to copy or pickle a part that is in no model; TypeError for a part of a model."""
    graph = part if isinstance(part, Graph) else part.graph
    if graph is not None and graph.model is not None:
        raise TypeError(f"{part!r:.200} is part of a model; copy or pickle the model, and find the part by name there")
    return object.__reduce_ex__(part, 4)


copyreg.pickle(Model, _pickled)
copyreg.pickle(Graph, _alone)
copyreg.pickle(Node, _alone)
copyreg.pickle(Value, _alone)
