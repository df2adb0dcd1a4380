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

from onnx_workbench.exec.transform.reduce import reduce_model
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import Progress
from tests.fuzz.cases import SIZES, Case, as_text, feeds_of
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


def kind_of(message: str) -> str:
    """What a message says without names and numbers, so that a smaller model counts as the same finding."""
    return "".join(c for c in message.split("(inputs", maxsplit=1)[0] if not c.isdigit())[:60]


def shrunk(name: str, case: Case, message: str) -> str:
    """The text of the smallest part of a model in which an oracle finds the same, else of the whole."""

    def finds(part: Model, _feeds: object, _progress: Progress) -> str:
        smaller = Case(onnx.load_from_string(to_bytes(part)), case.seed)
        if name != "valid" and smaller.errors:
            return ""
        reported = verdict(name, smaller)
        return reported if kind_of(reported) == kind_of(message) else ""

    with suppress(ModelError):  # some models fail as a whole alone, and some do not run
        part = reduce_model(case.load(), feeds_of(case.proto, SIZES[0], case.rng), finds).model
        return as_text(onnx.load_from_string(to_bytes(part)))
    return as_text(case.proto)
