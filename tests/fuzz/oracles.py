"""What must hold for every valid model: each oracle returns what is wrong, or nothing.

What a model computes is compared before and after each transformation at several sizes of its symbols, with
onnx.reference, and with ONNX Runtime where it is installed.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import onnx

from onnx_workbench.model.errors import errors_to
from tests.fuzz.cases import Case
from tests.fuzz.executors import as_onnx_runtime, as_optimised, as_reference
from tests.fuzz.rewriting import (
    changes_some_nodes,
    frees,
    freezes,
    is_read_by_others,
    keeps_unknown_operators,
    replays_scripts,
    strips_and_renames,
)
from tests.fuzz.shrinker import kind_of
from tests.fuzz.transformations import (
    changes_precision,
    converts,
    extracts,
    infers,
    inlines,
    is_valid,
    saves,
    simplifies,
    splits,
    undoes,
)

Oracle = Callable[[Case], str]

ORACLES: dict[str, Oracle] = {
    "valid": is_valid, "simplify": simplifies, "infer": infers, "convert": converts, "precision": changes_precision,
    "extract": extracts, "split": splits, "inline": inlines, "save": saves, "undo": undoes, "reference": as_reference,
    "onnxruntime": as_onnx_runtime, "freeze": freezes, "free": frees, "names": strips_and_renames,
    "nodes": changes_some_nodes, "unknown": keeps_unknown_operators, "scripts": replays_scripts,
    "text": is_read_by_others, "optimised": as_optimised,
}  # fmt: skip


def verdict(name: str, case: Case) -> str:
    """What an oracle finds; an exception is a finding too."""
    errors: list[Exception] = []
    with errors_to(errors.append):
        return ORACLES[name](case)
    last = traceback.extract_tb(errors[0].__traceback__)[-1]
    return f"raised {type(errors[0]).__name__}: {errors[0]} ({Path(last.filename).name}:{last.lineno})"


def shows(name: str, kind: str, proto: onnx.ModelProto, seed: int = 0) -> bool:
    """Whether a smaller model is valid and an oracle finds the same in it."""
    case = Case(proto, seed)
    with suppress(Exception):  # then it is not worth looking at
        return (name == "valid" or not case.errors) and kind_of(verdict(name, case)) == kind
    return False
