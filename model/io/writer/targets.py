"""Checks before a file is written: never replace a file that an open model reads, nor a file of another kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import text
from onnx_workbench.model.io.reader.custom import MODEL_SUFFIXES
from onnx_workbench.model.io.reader.read import ModelSource
from onnx_workbench.model.io.reader.sniff import HEAD_BYTES, sniff
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.tensors import ConvertedTensor
from onnx_workbench.model.progress import SILENT, Progress

#: Kinds of files: a model, values of a run or a tensor, a picture of a graph or plot, a page, a table, an edit script.
Kind = Literal["model", "run", "values", "picture", "plot", "page", "table", "script"]

_SUFFIXES: Final[dict[Kind, frozenset[str]]] = {
    "model": MODEL_SUFFIXES,
    "run": frozenset({".npz"}),
    "values": frozenset({".npz", ".npy", ".pb", ".csv", ".tsv", ".txt", ".raw", ".png"}),
    "picture": frozenset({".png", ".svg", ".pdf"}),
    "plot": frozenset({".png"}),
    "page": frozenset({".html"}),
    "table": frozenset({".csv", ".tsv"}),
    "script": frozenset({".jsonl", ".json"}),
}  # fmt: skip

_NAMES: Final[dict[Kind, str]] = {
    "model": "a model", "run": "an array file", "values": "a file of values", "picture": "a picture",
    "plot": "a .png picture", "page": "a web page", "table": "a table", "script": "an edit script",
}  # fmt: skip

#: Suffixes that say nothing about the content.
_AMBIGUOUS: Final = frozenset({".txt", ".raw", ".json"})

_EXTERNAL: Final = 1


def check_target(
    path: Path, kind: Kind, *, own: Model | None = None, others: Iterable[Model] = (), progress: Progress = SILENT
) -> None:
    """Raise ModelError when writing a file of this kind would destroy something else.

    Refused are a suffix of another kind (``run -o model.onnx``), a file that holds tensors of a model, the file of one
    of the `others` that are open, and an existing file of other content under an ambiguous suffix. `own` is the model
    to write, which may replace its own file unless its tensors are in it. Reads the head of an existing file, and walks
    over the nodes of `own`, and of the `others` if the file is not that of `own`.
    """
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES[kind]:
        for other, suffixes in _SUFFIXES.items():
            if suffix in suffixes - _AMBIGUOUS:
                raise ModelError(
                    f"{path.name} is a name for {_NAMES[other]}",
                    f"What would be written is {_NAMES[kind]}. Choose a name that ends with "
                    f"{' or '.join(sorted(_SUFFIXES[kind]))}.",
                    str(path),
                )
    try:
        if not os.path.isfile(path) or not path.stat().st_size:  # noqa: PTH113 - Path raises for names that are too long
            return
    except OSError as error:
        raise ModelError(f"{path.name} cannot be replaced", f"{error.strerror or error}.", str(path)) from error
    if own is not None:
        _check_read_by(own, path, progress, is_own=True)
        if _is_file_of(own, path):
            return
    for model in others:
        if model is not own:
            _check_read_by(model, path, progress, is_own=False)
    message = _message_in(path)
    if kind != "model" and message == "ModelProto":
        raise ModelError(
            f"{path.name} holds a model",
            f"What would be written is {_NAMES[kind]}. Choose another name, or remove it first.",
            str(path),
        )
    is_unclear = suffix not in _SUFFIXES[kind] or (kind == "model" and suffix == ".json")
    if is_unclear and not (kind == "model" and message):
        raise ModelError(
            f"{path.name} is not {_NAMES[kind]}",
            "Writing there would replace a file that holds something else. Choose another name, or remove it first.",
            str(path),
        )


def _check_read_by(model: Model, path: Path, progress: Progress, *, is_own: bool) -> None:
    source = model.source if isinstance(model.source, ModelSource) else None
    name = Path(source.name).name if source is not None else "the model"
    if not is_own and _is_file_of(model, path):
        raise ModelError(
            f"{path.name} is open" if path.name == name else f"{path.name} is a link to {name}, which is open",
            "Writing there would replace it. Choose another name, or close it first.",
            str(path),
        )
    if any(is_same_file(path, file) for file in data_files(model, progress)):
        raise ModelError(
            f"{path.name} holds weights of {name}",
            f"Writing there would destroy them. Choose another name, or first save {name} with its weights elsewhere.",
            str(path),
        )


def _is_file_of(model: Model, path: Path) -> bool:
    source = model.source if isinstance(model.source, ModelSource) else None
    return source is not None and source.path is not None and is_same_file(path, source.path)


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether both paths lead to the same existing file."""
    with suppress(OSError, ValueError):  # missing, or an invalid name
        return path.samefile(other)
    return False


def _message_in(path: Path) -> str:
    """Return the ONNX message type that the head of a file has, in any format; "" if it is something else."""
    with suppress(OSError, ModelError), path.open("rb") as file:
        return sniff(file.read(HEAD_BYTES), path.stat().st_size).message
    return ""


def data_files(model: Model, progress: Progress = SILENT) -> set[Path]:
    """Return the external data files that a model refers to, existing or not.

    Takes about 1 µs per node of the message that was read, and per initializer of the model.
    """
    files: set[Path] = set()
    source = model.source if isinstance(model.source, ModelSource) else None
    if source is not None:
        folders = source.files.folders
        files |= {folder / name for name in set(_locations(source.proto, progress)) for folder in folders}
    for graph in model.graphs(progress):
        for value in progress.paced(graph.initializers):  # a model that was merged into this one has its own folder
            tensor = value.initializer
            if isinstance(tensor, ConvertedTensor):
                tensor = tensor.original
            if isinstance(tensor, ProtoTensor) and tensor.source.data_location == _EXTERNAL:
                files |= {folder / name for name in _location(tensor.source) for folder in tensor.files.folders}
    return files


def _locations(root: Any, progress: Progress) -> Iterator[str]:
    """Yield the locations of all external tensors in an ONNX message, at any depth."""
    waiting = [root]
    while waiting:
        progress.check()
        message = waiting.pop()
        match message.DESCRIPTOR.name if message is not None else "":
            case "ModelProto":
                waiting += [message.graph, *message.functions]
                for training in message.training_info:
                    waiting += [training.initialization, training.algorithm]
            case "GraphProto":
                waiting += [*progress.paced(message.initializer), *message.sparse_initializer]
                waiting += (node for node in progress.paced(message.node) if node.attribute)
            case "FunctionProto":
                waiting += [*message.node, *message.attribute_proto]
            case "NodeProto":
                waiting += (attribute for attribute in message.attribute if attribute.type not in _PLAIN)
            case "AttributeProto":
                waiting += [*message.tensors, *message.graphs, *message.sparse_tensors]
                waiting += (getattr(message, name) for name in ("t", "g", "sparse_tensor") if message.HasField(name))
            case "SparseTensorProto":
                waiting += [message.values, message.indices]
            case "TensorProto" if message.data_location == _EXTERNAL:
                yield from _location(message)


#: Attribute types that contain neither tensors nor graphs: numbers, texts, types.
_PLAIN: Final = frozenset({1, 2, 3, 6, 7, 8, 13, 14})


def _location(tensor: Any) -> Iterator[str]:
    return (name for entry in tensor.external_data if text(entry.key) == "location" and (name := text(entry.value)))
