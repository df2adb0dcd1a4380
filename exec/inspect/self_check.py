"""Check a transformed model against the original: interface, outputs, and whether the written file is accepted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from onnx_workbench.exec.inspect import load_child
from onnx_workbench.exec.inspect.equivalence import Equivalence, compare_isolated, weights
from onnx_workbench.exec.inspect.load_child import ONNX_CHECKER, ONNX_RUNTIME
from onnx_workbench.model.budget import COMPARISON_SECONDS
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.ir.types import Dimension, ElementType, TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import run_isolated

#: A change of the interface that is meant: of the precision of floats, of sizes, or unused inputs that are gone.
Change = Literal["precision", "sizes", "unused inputs"]

#: Bytes of weights of the largest model that is loaded elsewhere; its file is made in memory.
_LARGEST = 256 << 20
_LOAD_SECONDS = 30

#: What ONNX Runtime says of operators, types and versions that it lacks: no fault of the model.
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
    """Compare interfaces, then outputs as `compare_isolated` does, then have ONNX Runtime and onnx load the new file.

    A change of the interface that is not `meant`, and a file that is refused where the original's is not, is a
    difference. With `part_of`, `after` was cut out of this graph of `before`. The remarks of the result say what was
    not compared. Cost: two child processes, about 1 s of processor time beside the runs, and the model's file in
    memory, for at most 256 MB of weights. Reads both models: their thread only.
    """
    changed = "" if part_of is not None else next(interface_changes(before, after, meant), "")
    if changed:
        return Equivalence(False, reason=changed, fails=True)
    if part_of in (None, before.graph):
        is_part = part_of is not None
        found = compare_isolated(
            before, after, runs=runs, feeding=feeding, is_part=is_part, time_limit=time_limit, progress=progress
        )
    else:
        found = Equivalence(None, reason="values of bodies and functions are not compared")
    if found.agrees is False:
        return found
    progress.report(0, 0, "Loading the result")
    loaded = _load_both(before, after, progress)
    if loaded.refused:
        return replace(found, agrees=False, reason=loaded.refused, fails=True)
    return replace(found, remarks=(*found.remarks, *loaded.remarks))


def require_defined(model: Model) -> None:
    """Check that everything that a model uses is defined, as nothing can be compared else; ModelError names a value."""
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
    """Check that a comparison found no difference; ModelError says which it found."""
    if agreement.agrees is False:
        raise ModelError("The result does not compute what the model does", f"{agreement.summary}.")


def check_written(model: Model, path: Path, progress: Progress = SILENT) -> None:
    """Check that other programs load the file that a model was written to, with its external data.

    ModelError: one of them refuses the file, though it accepts the model in one piece. Cost: as loading it once or
    twice; nothing is done for weights of more than 256 MB.
    """
    if weights(model) > _LARGEST:
        return
    refusing: dict[str, str] = {}
    with suppress(ModelError):  # no child process, or not in time
        found = _load(load_child.load_file_in_child, os.fsencode(path.absolute()), progress)
        whole = _load_model(model, progress) if any(found.values()) else {}
        refusing = {engine: text for engine, text in found.items() if text and not whole.get(engine)}
    for engine, message in refusing.items():
        raise ModelError(f"{engine} does not accept the written file", message, str(path))


# -- the interface


def interface_changes(before: Model, after: Model, meant: Collection[Change] = ()) -> Iterator[str]:
    """Yield how inputs and outputs differ by name, order, type or shape, except for what is `meant`.

    What only one of them declares is no difference, nor are outputs with more sizes known than before.
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
            if not _is_same_type(value, other, meant, is_input=what == "input"):
                yield f"{what} {value.name} is declared as {other.type or 'unknown'}, and was {value.type}"


def _names(values: Sequence[Value]) -> str:
    return ", ".join(value.name for value in values) or "none"


def _is_same_type(before: Value, after: Value, meant: Collection[Change], *, is_input: bool) -> bool:
    old, new = before.type, after.type
    if old is None or old == new:
        return True
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
class _Loaded:
    """Why a file is refused that was not before, or nothing; and what else there is to say."""

    refused: str = ""
    remarks: tuple[str, ...] = ()


def _load_both(before: Model, after: Model, progress: Progress) -> _Loaded:
    """Load the file of the new model, and where it is refused that of the original."""
    if weights(after) > _LARGEST:
        return _Loaded(
            remarks=(f"not loaded by {ONNX_RUNTIME} and {ONNX_CHECKER}, as weights are over {_LARGEST >> 20} MB",)
        )
    try:
        found = _load_model(after, progress)
    except ModelError as error:
        return _Loaded(remarks=(f"not loaded by {ONNX_RUNTIME} and {ONNX_CHECKER}: {error.title}",))
    remarks, accepted = [], [engine for engine, message in found.items() if message == ""]
    refusing = {engine: message for engine, message in found.items() if message}
    if accepted:
        remarks.append(f"{' and '.join(accepted)} {'accepts' if len(accepted) == 1 else 'accept'} the file")
    if ONNX_RUNTIME not in found:
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
                return _Loaded(f"{engine} does not accept the result ({message})")
    return _Loaded(remarks=tuple(remarks))


def _load_model(model: Model, progress: Progress) -> dict[str, str]:
    """Return why each engine that is installed refuses a model in one file; nothing where it does not."""
    return _load(load_child.load_in_child, to_bytes(model, Storage(DataLayout.INLINE), progress=progress), progress)


def _load(function: Callable[[bytes], bytes], payload: bytes, progress: Progress) -> dict[str, str]:
    reply = run_isolated(
        f"{load_child.__name__}:{function.__name__}",
        payload,
        what="Loading the result",
        seconds=_LOAD_SECONDS,
        progress=progress,
    )
    found: dict[str, str] = json.loads(reply)
    return found
