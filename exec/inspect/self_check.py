"""Checks of a transformed model against the original: interface, outputs, and whether other programs load the file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from onnx_workbench.exec.engine.lowering import MAX_EXPANDED
from onnx_workbench.exec.inspect import load_child
from onnx_workbench.exec.inspect.equivalence import Equivalence, compare_isolated, weights
from onnx_workbench.exec.inspect.load_child import ONNX_CHECKER, ONNX_RUNTIME
from onnx_workbench.model.budget import COMPARISON_SECONDS
from onnx_workbench.model.edits.functions import inlined_node_count
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import to_file
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.ir.types import Dimension, ElementType, OptionalType, SequenceType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import make_own_folder, run_isolated

#: Intended changes of the interface: precision of floats, sizes, removal of unused inputs.
Change = Literal["precision", "sizes", "unused inputs"]

#: Limit for the bytes of weights of a model that is loaded by other programs.
_LARGEST = 256 << 20
_LOAD_SECONDS = 30

#: Parts of messages of ONNX Runtime about operators, types and versions that it lacks, which is no fault of the model.
_LACKING = ("NOT_IMPLEMENTED", "support", "could not find an implementation")


def check_transformed(
    before: Model,
    after: Model,
    *,
    runs: int = 3,
    feeding: Model | None = None,
    meant: Collection[Change] = (),
    part_of: Graph | None = None,
    time_limit: float = COMPARISON_SECONDS,
    progress: Progress = SILENT,
) -> Equivalence:
    """Compare interfaces, then outputs by `compare_isolated`, then load the new file with ONNX Runtime and onnx.

    A change of the interface that is not `meant` is a difference, and so is a file that is refused although the
    original's is not. `part_of`: the graph of `before` that `after` was extracted from. The remarks of the result list
    what was not compared. Cost: two child processes, about 1 s of processor time besides the runs, and a file of the
    model, of at most 256 MB of weights. Reads both models: their thread only.
    """
    changed = "" if part_of is not None else next(interface_changes(before, after, meant), "")
    if changed:
        return Equivalence(False, reason=changed, fails=True)
    if too_large := next(filter(None, map(_expansion, (before, after))), ""):
        return Equivalence(None, reason=too_large)
    if part_of in (None, before.graph):
        is_part = part_of is not None
        agreement = compare_isolated(
            before, after, runs=runs, feeding=feeding, is_part=is_part, time_limit=time_limit, progress=progress
        )
    else:
        agreement = Equivalence(None, reason="values of bodies and functions are not compared")
    if agreement.agrees is False:
        return agreement
    progress.report(0, 0, "Loading the result")
    loaded = load_both(before, after, progress)
    if loaded.refused:
        return replace(agreement, agrees=False, reason=loaded.refused, fails=True)
    return replace(agreement, remarks=(*agreement.remarks, *loaded.remarks))


def require_defined(model: Model) -> None:
    """Check that all values that a model uses are defined, which a comparison requires; ModelError names a value."""
    for root in (model.graph, *(function.body for function in model.functions)):
        for graph in root.walk():
            used = [(value, f"{node.title} uses") for node in graph.nodes for value in node.inputs]
            used += [(value, f"the graph {graph.name or 'of the model'} returns") for value in graph.outputs]
            for value, user in used:
                if value is not None and not value.is_defined:
                    raise ModelError(
                        f"Nothing defines {value.name}",
                        f"{user} it, so outputs cannot be compared. Write without a comparison (--no-check), or "
                        "add what is missing.",
                        value,
                    )


def require_agreement(agreement: Equivalence) -> None:
    """Check that a comparison found no difference; ModelError with the difference."""
    if agreement.agrees is False:
        raise ModelError("The result does not compute what the model does", f"{agreement.summary}.")


def check_written(model: Model, path: Path, progress: Progress = SILENT) -> None:
    """Check that other programs load the file that a model was written to, with its external data.

    ModelError if a program refuses the file although it accepts the model as a single file. Cost: loading it once or
    twice. Skipped for weights of more than 256 MB, and functions that expand to millions of nodes.
    """
    if weights(model) > _LARGEST or _expansion(model):
        return
    refusing: dict[str, str] = {}
    with suppress(ModelError):  # no child process, or not in time
        messages = _load(path.absolute(), progress)
        whole = _load_model(model, progress) if any(messages.values()) else {}
        refusing = {engine: text for engine, text in messages.items() if text and not whole.get(engine)}
    for engine, message in refusing.items():
        raise ModelError(f"{engine} does not accept the written file", message, str(path))


def _expansion(model: Model) -> str:
    """Say that the functions of a model expand to too many nodes to be run; empty if they do not."""
    with suppress(ModelError):  # recursion, which a run refuses at once
        if (count := inlined_node_count(model)) > MAX_EXPANDED:
            return f"its functions expand to {count:,} nodes; at most {MAX_EXPANDED:,} are run and loaded"
    return ""


# -- the interface


def interface_changes(before: Model, after: Model, meant: Collection[Change] = ()) -> Iterator[str]:
    """Yield descriptions of how inputs and outputs differ by name, order, type or shape, except for what is `meant`.

    A type or shape that only one model declares is no difference, nor are outputs with more known sizes than before.
    """
    for what, old, new in (
        ("input", before.graph.required_inputs, after.graph.required_inputs),
        ("output", list(before.graph.outputs), list(after.graph.outputs)),
    ):
        left = {value.name: value for value in new}
        if what == "input" and "unused inputs" in meant:
            old = [value for value in old if value.name in left or value.uses]
        if [value.name for value in old] != list(left):
            yield f"{what}s are {_names(new)}, and were {_names(old)}"
            continue
        for value in old:
            other = left[value.name]
            if not _is_same_type(value.type, other.type, meant, is_input=what == "input"):
                yield f"{what} {value.name} is declared as {other.type or 'unknown'}, and was {value.type}"


def _names(values: Sequence[Value]) -> str:
    return ", ".join(value.name for value in values) or "none"


def _is_same_type(old: Type | None, new: Type | None, meant: Collection[Change], *, is_input: bool) -> bool:
    if old is None or old == new:
        return True
    for container in (SequenceType, OptionalType):
        if isinstance(old, container) and isinstance(new, container):
            return _is_same_type(old.element, new.element, meant, is_input=is_input)
    if not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return str(old) == str(new)
    floats = [isinstance(kind, ElementType) and kind.is_float for kind in (old.element_type, new.element_type)]
    if old.element_type != new.element_type and not ("precision" in meant and all(floats)):
        return False
    if old.shape is None:
        return True
    if new.shape is None or old.shape.rank != new.shape.rank:
        return False
    pairs = zip(old.shape.dims, new.shape.dims, strict=True)
    return "sizes" in meant or all(_is_same_size(*pair, is_input=is_input) for pair in pairs)


def _is_same_size(before: Dimension, after: Dimension, *, is_input: bool) -> bool:
    if isinstance(before, int) or (is_input and isinstance(after, int)):
        return before == after
    return True


# -- the file


@dataclass(frozen=True, slots=True)
class Loaded:
    """Why the new file is refused although the original's is not, or empty; and remarks."""

    refused: str = ""
    remarks: tuple[str, ...] = ()


def load_both(before: Model, after: Model, progress: Progress) -> Loaded:
    """Load the file of the new model, and if it is refused, that of the original."""
    if weights(after) > _LARGEST:
        return Loaded(
            remarks=(f"not loaded by {ONNX_RUNTIME} and {ONNX_CHECKER}, as weights are over {_LARGEST >> 20} MB",)
        )
    try:
        messages = _load_model(after, progress)
    except ModelError as error:
        return Loaded(remarks=(f"not loaded by {ONNX_RUNTIME} and {ONNX_CHECKER}: {error.title}",))
    remarks, accepted = [], [engine for engine, message in messages.items() if message == ""]
    refusing = {engine: message for engine, message in messages.items() if message}
    if accepted:
        remarks.append(f"{' and '.join(accepted)} {'accepts' if len(accepted) == 1 else 'accept'} the file")
    if ONNX_RUNTIME not in messages:
        remarks.append(f"{ONNX_RUNTIME} is not installed")
    if refusing:
        try:
            earlier = _load_model(before, progress)
        except ModelError as error:
            earlier = dict.fromkeys(refusing, error.title)
        for engine, message in refusing.items():
            if earlier.get(engine):
                remarks.append(f"{engine} accepts neither the original nor the result ({message})")
            elif engine == ONNX_RUNTIME and any(text.lower() in message.lower() for text in _LACKING):
                remarks.append(f"the {ONNX_RUNTIME} that is installed cannot run the result ({message})")
            else:
                return Loaded(f"{engine} does not accept the result ({message})")
    return Loaded(remarks=tuple(remarks))


def _load_model(model: Model, progress: Progress) -> dict[str, str]:
    """Load a model as a single file; return the message of each installed program, empty where it accepts the model."""
    folder = make_own_folder()
    try:
        to_file(model, folder / "model.onnx", Storage(DataLayout.INLINE), progress=progress)
        return _load(folder / "model.onnx", progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _load(path: Path, progress: Progress) -> dict[str, str]:
    reply = run_isolated(
        f"{load_child.__name__}:{load_child.load_file_in_child.__name__}",
        os.fsencode(path),
        what="Loading the result",
        seconds=_LOAD_SECONDS,
        progress=progress,
    )
    messages: dict[str, str] = json.loads(reply)
    return messages
