"""Child-process side of model.sandbox. Imports little, as every child pays for it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from onnx_workbench.model.errors import ModelError

_GIB = 1 << 30

#: Only functions of this package run in a child, whatever a caller passes.
_PACKAGE = "onnx_workbench."


def child_main(arguments: list[str]) -> None:
    """Entry of the child: function, folder with ``in``, memory and time limit; writes ``out`` or ``error``."""
    function, folder_name, memory, seconds = arguments
    folder = Path(folder_name)
    _limit(int(memory), int(seconds))
    try:
        output = _find(function)((folder / "in").read_bytes())
    except MemoryError:
        _fail(
            folder,
            f"The limit of {int(memory) / _GIB:.1f} GiB was reached",
            "The model needs more memory than allowed.",
        )
    except ModelError as error:
        _fail(folder, error.title, error.detail, str(error.place or ""))
    else:
        (folder / "out").write_bytes(output)


def _find(function: str) -> Callable[[bytes], bytes]:
    module, _, name = function.partition(":")
    if not module.startswith(_PACKAGE):
        msg = f"{function} is not part of this program"
        raise ValueError(msg)
    found: Callable[[bytes], bytes] = getattr(importlib.import_module(module), name)
    return found


def _fail(folder: Path, title: str, detail: str, place: str = "") -> None:
    (folder / "error").write_text(json.dumps({"title": title, "detail": detail, "place": place}), "utf-8")


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no rlimits; the wall-clock limit of the parent still holds
        return
    for what, amount in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds + 1),
        (resource.RLIMIT_FSIZE, memory),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):
            _, hard = resource.getrlimit(what)
            resource.setrlimit(what, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))
