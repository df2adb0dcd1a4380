"""What onnx's own inference says of a model, beside ours. In a child process, as it crashes on some files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.inference.infer import InferredTypes
from onnx_workbench.model.ir.graph import Model, Value
from onnx_workbench.model.ir.types import Dimension, SparseTensorType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import GIB, run_isolated

_STRIP_FROM = 1024  # bytes from which tensors are left out: inference reads only small constants
_OF_PAYLOAD = 64  # bytes of memory per byte of a model, in addition to a fixed amount
_MADE_UP = "unk__"  # how onnx's inference begins the names of sizes that it does not know


@dataclass(frozen=True, slots=True)
class TypeDifference:
    """A value of whose type onnx says something else, or more; `ours` is None where nothing is known here."""

    value: Value
    ours: Type | None
    theirs: Type
    contradicts: bool


def run(payload: bytes) -> bytes:
    """Infer in the child; empty for a model that onnx refuses."""
    from onnx_workbench.model.schemas.compiled_library import library

    with suppress(Exception):  # its own errors and plain RuntimeErrors
        found: bytes = library().shape_inference.infer_shapes(payload, False, False, True)
        return found
    return b""


def compare_with_onnx(model: Model, inferred: InferredTypes, progress: Progress = SILENT) -> list[TypeDifference]:
    """Return the values of which onnx's inference, with propagation of data, says something else or more.

    Declarations of inner values are not shown to it. Blocks; ModelError where onnx cannot process the model.
    """
    from onnx_workbench.model.io.protobuf import ModelProto
    from onnx_workbench.model.io.reader.decode import bodies, read_type
    from onnx_workbench.model.io.writer.save import to_bytes
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    message = ModelProto.FromString(to_bytes(model, Storage(DataLayout.STRIPPED, _STRIP_FROM), progress=progress))
    pending = [message.graph]
    while pending:
        graph = pending.pop()
        del graph.value_info[:]
        for output in graph.output:
            output.ClearField("type")
        pending += [body for node in graph.node for body in bodies(node)]
    payload = message.SerializeToString()
    memory = GIB + _OF_PAYLOAD * len(payload)
    what = "onnx's shape inference"
    reply = run_isolated(f"{__name__}:run", payload, what=what, memory=memory, progress=progress)
    if not reply and payload:
        raise ModelError("onnx cannot infer the types of this model", "Its shape inference refuses the model.", model)
    graph = ModelProto.FromString(reply).graph
    theirs = {info.name: kind for info in (*graph.value_info, *graph.output) if (kind := read_type(info.type))}
    return list(_differences(model, inferred, theirs, progress))


def _differences(
    model: Model, inferred: InferredTypes, theirs: dict[str, Type], progress: Progress
) -> Iterator[TypeDifference]:
    for value in progress.paced(model.graph.values()):
        kind = theirs.get(value.name)
        if kind is None or value.producer is None:
            continue
        ours = inferred.types.get(value)
        contradiction = None if ours is None else _contradicts(ours, kind)
        if contradiction is not False:
            yield TypeDifference(value, ours, kind, bool(contradiction))


def _contradicts(ours: Type, theirs: Type) -> bool | None:
    """Return whether types contradict each other; None where theirs says more, False where ours is as good."""
    if not isinstance(ours, TensorType) or not isinstance(theirs, TensorType):
        return type(ours) is not type(theirs) or (isinstance(ours, SparseTensorType) and ours != theirs)
    if theirs.element_type and ours.element_type != theirs.element_type:
        return True
    if ours.shape is None or theirs.shape is None:
        return None if ours.shape is None and theirs.shape is not None else False
    if ours.shape.rank != theirs.shape.rank:
        return True
    sides = [_side(a, b) for a, b in zip(ours.shape.dims, theirs.shape.dims, strict=True)]
    return True if True in sides else None if None in sides else False


def _side(ours: Dimension, theirs: Dimension) -> bool | None:
    if isinstance(theirs, int) and theirs < 0:  # some exporters write -1 for what is open
        theirs = None
    if isinstance(ours, int) and isinstance(theirs, int):
        return ours != theirs
    is_told = theirs is not None and not (isinstance(theirs, str) and theirs.startswith(_MADE_UP))
    return None if is_told and (ours is None or isinstance(theirs, int)) else False
