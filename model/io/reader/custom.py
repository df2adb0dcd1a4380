"""`reader`, the decorator by which scripts and extensions open files of other formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from onnx_workbench.model import extensions
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model

ReadFile = Callable[[Path], Model | bytes]
F = TypeVar("F", bound=ReadFile)

#: Endings of the formats that the program reads itself.
MODEL_SUFFIXES = frozenset({
    ".onnx", ".ort", ".pb", ".onnxtxt", ".textproto", ".pbtxt", ".prototxt", ".txtpb", ".json", ".onnxjson",
    ".onnxopset",
})  # fmt: skip

_readers: dict[str, ReadFile] = {}


def reader(suffix: str) -> Callable[[F], F]:
    """Register a function that reads files whose names end with `suffix`, such as ``".net"``.

    It gets the path and returns a Model, or the bytes of an ONNX file, which must not refer to other files. The window
    opens such a file as a new model, which Save writes to a separate file; `load` and every command read it too. It
    runs off the GUI thread. Raise a `ModelError` for an invalid file. Registering a suffix again replaces its reader.
    ValueError: no suffix, or one of the program's own formats.

    >>> import onnx_workbench as ow
    >>> @ow.reader(".relu")
    ... def read_relu(path):
    ...     text = "<ir_version: 8, opset_import: ['': 18]> g (float[SIZE] x) => (float[SIZE] y) { y = Relu(x) }"
    ...     return text.replace("SIZE", path.read_text()).replace("'", '"').encode()
    >>> _ = (folder / "three.relu").write_text("3")
    >>> ow.load(folder / "three.relu").graph.inputs[0].type.shape.dims
    (3,)
    """
    if not suffix.startswith(".") or suffix == ".":
        msg = f"{suffix!r} is not a suffix; expected for example '.net'"
        raise ValueError(msg)
    if suffix.lower() in MODEL_SUFFIXES:
        msg = f"{suffix!r} is a format of the program"
        raise ValueError(msg)

    def register(function: F) -> F:
        extensions.add("reader", suffix.lower(), _readers, function)
        return function

    return register


def suffixes() -> list[str]:
    """Return the suffixes of files that extensions read."""
    return sorted(_readers)


def is_read_by_extension(path: Path) -> bool:
    """Return whether a reader of an extension opens this file."""
    return path.suffix.lower() in _readers


def read_with_extension(path: Path) -> Model | bytes | None:
    """Return the result of the extension's reader for a file's suffix; None where there is no such reader.

    An exception in the reader becomes a ModelError that names its file.
    """
    function = _readers.get(path.suffix.lower())
    if function is None:
        return None
    owner = Path(extensions.file_of(function)).name
    found = extensions.call(f"The reader of {owner} cannot read {path.name}", function, function, path)
    if not isinstance(found, (Model, bytes)):
        raise ModelError(
            f"The reader of {owner} cannot read {path.name}",
            f"It returned {type(found).__name__}, expected a Model or the bytes of an ONNX file.",
            str(path),
        )
    return found
