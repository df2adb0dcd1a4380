"""The compiled library of the onnx package without the rest of that package.

`import onnx` takes longer than everything else that a child process does for a small model, most of it for numpy and
unused helpers. So the library is loaded by its path, as `model.io.protobuf` does with the message classes; a later
`import onnx` reuses both.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

_NAME = "onnx_cpp2py_export"
_MODULE = f"onnx.{_NAME}"


_lock = threading.Lock()  # else a second thread could get the partly loaded module


def library() -> Any:
    """Return the compiled library; by the ordinary import if it is no file next to `onnx/__init__.py`. Any thread."""
    with _lock:
        return _load()


@cache
def _load() -> Any:
    from onnx_workbench.model.io.protobuf import package_folders

    paths = (folder / f"{_NAME}{suffix}" for folder in package_folders() for suffix in EXTENSION_SUFFIXES)
    path = next((path for path in paths if path.is_file()), None)
    spec = None if path is None else importlib.util.spec_from_file_location(_MODULE, path)
    if _MODULE in sys.modules or spec is None or spec.loader is None:
        return importlib.import_module(_MODULE)
    library = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = library
    spec.loader.exec_module(library)
    return library
