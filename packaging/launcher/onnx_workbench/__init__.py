"""See, edit, run and debug ONNX models: the Python API of ONNX Workbench.

    import onnx_workbench as ow

    model = ow.load("model.onnx")
    result = ow.Session(model).run({"image": image})
    result.values["hidden"]

Each name below is imported when it is first used, so that importing the package costs nothing. What `__all__` lists
stays as it is from version to version; modules below `model`, `exec` and `viewer` may change.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench import edits as edits
    from onnx_workbench.api import (
        check,
        compare,
        convert,
        diff,
        extract,
        find,
        infer,
        load,
        merge,
        quantize,
        reduce,
        rewrite,
        save,
        simplify,
        split,
        statistics,
    )
    from onnx_workbench.exec.kernels.custom import kernel
    from onnx_workbench.exec.session import Session
    from onnx_workbench.exec.training import Trainer
    from onnx_workbench.model.checks.custom import node_check
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.io.reader.custom import reader
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.simplify.custom import simplify_pass
    from onnx_workbench.model.simplify.passes import Match
    from onnx_workbench.pictures import render, show
    from onnx_workbench.viewer.extensions.custom_actions import action
    from onnx_workbench.viewer.extensions.custom_views import value_view

__all__ = [
    "Document",
    "Match",
    "Model",
    "ModelError",
    "Session",
    "Trainer",
    "action",
    "check",
    "compare",
    "convert",
    "diff",
    "edits",
    "extract",
    "find",
    "infer",
    "kernel",
    "load",
    "merge",
    "node_check",
    "quantize",
    "reader",
    "reduce",
    "render",
    "rewrite",
    "save",
    "show",
    "simplify",
    "simplify_pass",
    "split",
    "statistics",
    "value_view",
]

_FOLDER = Path(__file__).parent

if not (_FOLDER / "model").is_dir():  # a checkout, where model, exec, viewer and resources lie at the root
    __path__.append(str(_FOLDER.resolve().parents[2]))

if "ONNX_WORKBENCH_LANGUAGE" in os.environ:  # a process of a window in another language
    import_module("onnx_workbench.viewer.program.language").use_inherited()

#: Modules of the names that are not in `api`.
_MODULES = {
    "Document": "onnx_workbench.model.history.document",
    "Match": "onnx_workbench.model.simplify.passes",
    "Model": "onnx_workbench.model.ir.graph",
    "ModelError": "onnx_workbench.model.errors",
    "Session": "onnx_workbench.exec.session",
    "Trainer": "onnx_workbench.exec.training",
    "action": "onnx_workbench.viewer.extensions.custom_actions",
    "kernel": "onnx_workbench.exec.kernels.custom",
    "node_check": "onnx_workbench.model.checks.custom",
    "reader": "onnx_workbench.model.io.reader.custom",
    "render": "onnx_workbench.pictures",
    "show": "onnx_workbench.pictures",
    "simplify_pass": "onnx_workbench.model.simplify.custom",
    "value_view": "onnx_workbench.viewer.extensions.custom_views",
}


if not TYPE_CHECKING:  # a type checker would take every misspelt name for one that this finds

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "edits":
            return import_module("onnx_workbench.edits")
        found = getattr(import_module(_MODULES.get(name, "onnx_workbench.api")), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
