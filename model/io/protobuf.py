"""The ONNX message classes, obtained without importing the `onnx` package.

`import onnx` takes a fifth of a second (numpy, ml_dtypes and its C++ library); the generated module needs only the
protobuf runtime. It is loaded by path, so the first graph is displayed before `onnx` is needed. A later `import onnx`
finds the same descriptors in protobuf's pool and returns these same classes.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError, Message

from onnx_workbench.model.errors import ModelError

if TYPE_CHECKING:
    from onnx.onnx_ml_pb2 import (
        AttributeProto,
        DeviceConfigurationProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeDeviceConfigurationProto,
        NodeProto,
        OperatorSetIdProto,
        ShardingSpecProto,
        SparseTensorProto,
        StringStringEntryProto,
        TensorAnnotation,
        TensorProto,
        TensorShapeProto,
        TrainingInfoProto,
        TypeProto,
        ValueInfoProto,
    )

__all__ = [
    "AttributeProto",
    "DecodeError",
    "DeviceConfigurationProto",
    "FunctionProto",
    "GraphProto",
    "Message",
    "ModelProto",
    "NodeDeviceConfigurationProto",
    "NodeProto",
    "OperatorSetIdProto",
    "ShardingSpecProto",
    "SparseTensorProto",
    "StringStringEntryProto",
    "TensorAnnotation",
    "TensorProto",
    "TensorShapeProto",
    "TrainingInfoProto",
    "TypeProto",
    "ValueInfoProto",
    "message_class",
    "package_folders",
    "text",
    "utf8",
]

_MODULE = "onnx.onnx_ml_pb2"


def package_folders() -> list[Path]:
    """Return the folders of the `onnx` package, without importing it."""
    package = importlib.util.find_spec("onnx")
    return [] if package is None else [Path(folder) for folder in package.submodule_search_locations or ()]


def _generated_module() -> Any:
    """Return the generated module: the imported one, or the file next to `onnx/__init__.py`, loaded separately."""
    if _MODULE in sys.modules:
        return sys.modules[_MODULE]
    for folder in package_folders():
        path = folder / "onnx_ml_pb2.py"
        if path.is_file():
            spec = importlib.util.spec_from_file_location(_MODULE, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    # A frozen program has no source files: then the ordinary import is needed.
    import onnx.onnx_ml_pb2

    return onnx.onnx_ml_pb2


if not TYPE_CHECKING:
    _generated = _generated_module()
    for _name in __all__:
        if _name[0].isupper() and _name not in globals():
            globals()[_name] = getattr(_generated, _name)


def message_class(name: str) -> type[Message]:
    """Return the class of a message that may be a file's root; imports `onnx` for OperatorSetProto, which is rare."""
    if name == "OperatorSetProto":
        from onnx.onnx_operators_ml_pb2 import OperatorSetProto

        return OperatorSetProto
    found: type[Message] = globals()[name]
    return found


def utf8(value: str) -> bytes:
    """Encode a text that `text` decoded; ModelError for lone surrogates, which no file can store."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ModelError("A string cannot be written", f"{value[:40]!r} has an unpaired surrogate.") from error


def text(value: str | bytes) -> str:
    """Decode a string field. The runtime returns bytes where a file is not valid UTF-8.

    Such bytes become lone surrogates (surrogateescape), and the same bytes when written.
    """
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
