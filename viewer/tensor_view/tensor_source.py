"""Source of the tensor panel: resolved from the selection, with everything known without reading values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onnx_workbench.exec.results.node_table import RAN
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import SparseArray
from onnx_workbench.exec.values.statistics import Summary, describe
from onnx_workbench.model.edits.tensors import TensorLocation, tensor_at, tensor_locations
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor, element_count
from onnx_workbench.model.ir.types import ElementType, element_type_text
from onnx_workbench.model.text.formatting import bytes_text, display, plural, shape_text, type_text
from onnx_workbench.viewer.style.labels import storage_text
from onnx_workbench.viewer.tensor_view.readers import ArrayReader, Reader, SparseReader, TensorReader

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

Kind = Literal["tensor", "sparse", "tree", "none"]
_KINDS: dict[str, Kind] = {"tensor": "tensor", "sparse": "sparse", "none": "none"}  # of results; others are trees


@dataclass(frozen=True, eq=False)
class TensorCandidate:
    """A tensor of the model at a location, or a value of a run, that can be shown."""

    title: str
    location: TensorLocation | None = None
    value: Value | None = None

    @property
    def name(self) -> str:
        """Return its own name; the title distinguishes it from the others of a node."""
        owner = self.value if self.location is None or self.location.attribute else self.location.owner
        return owner.name if isinstance(owner, Value) else self.title

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for candidates with the same subject."""
        return (self.location, self.value)


@dataclass(frozen=True, eq=False)
class TensorSource:
    """A resolved candidate. `held` is the Tensor, SparseTensor or run-time value itself.

    `problem` is why there are no values to show; `waiting`: they are being transferred.
    """

    target: TensorCandidate
    kind: Kind
    held: Any = None
    element_type: ElementType | int | None = None
    shape: tuple[int, ...] = ()
    nbytes: int = 0
    storage: str = ""
    problem: str = ""
    waiting: bool = False
    stale: bool = False
    so_far: bool = False  # of a run that continues
    mismatch: str = ""
    other: Any = None  # the value of the previous run, or the reference
    awaits_other: bool = False
    other_storage: str = "of the previous run"
    is_compared: bool = False

    @property
    def editable(self) -> bool:
        """Return whether values can be changed."""
        return self.target.location is not None and self.kind in ("tensor", "sparse") and not self.problem

    @property
    def modes(self) -> int:
        """Return the number of modes: the value, the other one, and their difference."""
        if self.other is None or self.kind == "none" or (self.other is self.held and not self.is_compared):
            return 1
        was = self.as_other()
        kinds = self.element_type, was.element_type
        has_difference = ElementType.STRING not in kinds
        if self.is_compared:  # integers are dequantized to be compared with floats
            has_difference &= len({isinstance(k, ElementType) and k.is_float for k in kinds}) == 1
        return 3 if self.kind == was.kind == "tensor" and self.shape == was.shape and has_difference else 2

    def as_other(self) -> TensorSource:
        """Return the value of the previous run, or the reference value."""
        info = describe(self.other)
        return replace(
            self,
            kind=_KINDS.get(info.kind, "tree"),
            held=self.other,
            element_type=info.element_type,
            shape=info.shape,
            nbytes=info.nbytes,
            storage=self.other_storage,
            stale=False,
            so_far=False,
            mismatch="",
        )

    @property
    def may_be_comparable(self) -> bool:
        """Return whether a comparison may become possible once pending values arrive."""
        return self.waiting or self.awaits_other

    @property
    def likeness(self) -> tuple[object, ...]:
        """Return a key equal for sources that share view settings."""
        producer = self.target.value.producer if self.target.value is not None else None
        operator = None if producer is None else producer.op_type
        return (self.kind, self.target.value is None, len(self.shape), operator)

    @property
    def _stored_bytes(self) -> int:
        """Return the size in a file: a run holds values of packed types unpacked."""
        bits = self.element_type.bits if isinstance(self.element_type, ElementType) else 0
        return (element_count(self.shape) * bits + 7) // 8 if self.kind == "tensor" and 0 < bits < 8 else self.nbytes

    @property
    def type_line(self) -> str:
        """Return type, shape and size in one line."""
        if self.kind == "none":
            return ""
        size = f" · {bytes_text(self._stored_bytes)}" if self.nbytes else ""  # the size of strings is not known
        if self.kind == "tree":
            return f"{describe(self.held)}{size}"
        kind = "" if self.element_type is None else element_type_text(self.element_type)
        count = element_count(self.shape)
        text = f"{kind} {shape_text(self.shape)} · {plural(count, 'element')}"
        return f"{'sparse ' if self.kind == 'sparse' else ''}{text}{size}"

    def reader(self) -> Reader:
        """Return the reader of the values; ModelError when they are not available. Makes no copy, reads nothing."""
        return reader_of(self.held)

    def tensor(self) -> Tensor | SparseTensor:
        """Return the values as a tensor of the model, for export."""
        if isinstance(self.held, (Tensor, SparseTensor)):
            return self.held
        if isinstance(self.held, SparseArray):
            return _sparse_tensor(self.held)
        if isinstance(self.held, np.ndarray):
            return ArrayTensor(self.held, name=self.target.name)
        raise ModelError("Not a tensor", "Only tensors are written into files of their own.")


def reader_of(held: Any) -> Reader:
    """Return a reader of a model's tensor or of a run-time value."""
    if isinstance(held, Tensor):
        return TensorReader(held)
    if isinstance(held, SparseTensor):
        return SparseReader(held)
    if isinstance(held, SparseArray):
        return SparseReader(_sparse_tensor(held))
    if isinstance(held, np.ndarray):
        return ArrayReader(held)
    raise ModelError("There are no values", "The selection has no values.")


def _sparse_tensor(held: SparseArray) -> SparseTensor:
    return SparseTensor(ArrayTensor(held.values), ArrayTensor(held.indices), tuple(held.shape))


_MOST_OFFERED = 500  # tensors, inputs or outputs of a node; each can also be selected itself


def likeliest(workspace: Workspace, item: object) -> list[TensorCandidate]:
    """Return the candidates of a selected object, most likely first.

    Of a node its outputs first, but its inputs where a run waits before it.
    """
    targets = _targets_of(item)
    if isinstance(item, Node) and workspace.has_runs and workspace.runs.paused_at is item:
        value_of = workspace.results.value_of
        targets.sort(key=lambda t: 1 if t.value is None else 0 if value_of(t.value) is not None else 2)
    return targets


def _targets_of(item: object) -> list[TensorCandidate]:
    if isinstance(item, Value):
        return [*_value_targets(item, display(item.name, 80))]
    if not isinstance(item, Node):
        return []
    candidates = []
    for location in islice(tensor_locations(item), _MOST_OFFERED):
        output = item.outputs[0] if item.outputs else None
        name = location.attribute or (output.name if output is not None else item.title)
        part = "" if location.index is None else f"[{location.index}]"
        candidates.append(TensorCandidate(display(name, 80) + part, location))
    if not (candidates and candidates[0].location is not None and not candidates[0].location.attribute):
        for value in _named(item.outputs):
            candidates.extend(_value_targets(value, f"output {display(value.name, 70)}"))
        for value in _named(item.inputs):
            candidates.extend(_value_targets(value, f"input {display(value.name, 70)}"))
    return candidates


def _named(values: Iterable[Value | None]) -> Iterator[Value]:
    return islice(dict.fromkeys(value for value in values if value is not None), _MOST_OFFERED)


def _value_targets(value: Value, title: str) -> Iterator[TensorCandidate]:
    location = next(tensor_locations(value), None)
    yield TensorCandidate(title, location) if location is not None else TensorCandidate(title, None, value)


def resolve(workspace: Workspace, target: TensorCandidate) -> TensorSource:
    """Resolve a candidate. Reads no values; requests those of a run that are elsewhere."""
    if target.location is not None:
        return _of_model(target, tensor_at(target.location))
    assert target.value is not None
    return _of_run(workspace, target, target.value)


def _of_model(target: TensorCandidate, tensor: Tensor | SparseTensor | None) -> TensorSource:
    if tensor is None:
        return TensorSource(target, "none", problem="It no longer exists.")
    kind: Kind = "sparse" if isinstance(tensor, SparseTensor) else "tensor"
    storage = storage_text(tensor.values if isinstance(tensor, SparseTensor) else tensor)
    return TensorSource(
        target, kind, tensor, tensor.element_type, tuple(tensor.shape), tensor.nbytes, storage, tensor.problem
    )


def _of_run(workspace: Workspace, target: TensorCandidate, value: Value) -> TensorSource:
    results = workspace.results
    held = results.value_of(value)
    if held is None:
        return TensorSource(target, "none", problem=_why_nothing(workspace, value))
    stale = bool(results.is_stale(value))
    so_far = results.current is not None and results.current.unfinished
    if isinstance(held, Summary):
        info = held.info
        waiting = results.fetch(value)
        problem = "" if waiting else results.problem_of(value) or "The value was not kept."
        kind: Kind = "tree" if info.kind in ("sequence", "map") else "none" if info.kind == "none" else "tensor"
        return TensorSource(
            target, "none" if kind == "tree" else kind, None, info.element_type, info.shape, info.nbytes, "of the run",
            problem, waiting, stale, so_far,
        )  # fmt: skip
    reference = results.reference
    if reference is not None:
        other = results.other(value)
        awaits_other = other is MISSING and results.fetch(value, reference)
        other = None if other is MISSING else other
        storage = display(reference.title, 60)
    else:
        other, storage = results.before(value), "of the previous run"
        awaits_other = isinstance(other, Summary) and results.fetch(value, results.previous)
        other = None if isinstance(other, Summary) else other
    info = describe(held)
    mismatch = "" if value.type is None or info.fits(value.type) else f"declared {type_text(value.type)}"
    kind = _KINDS.get(info.kind, "tree")
    return TensorSource(
        target, kind, held, info.element_type, info.shape, info.nbytes, "of the run", "", False, stale, so_far,
        mismatch, other, awaits_other, storage, reference is not None,
    )  # fmt: skip


def _why_nothing(workspace: Workspace, value: Value) -> str:
    results = workspace.results
    if results.is_awaited(value):
        return "Not computed yet: the run has not reached it. The numbers appear as soon as it is computed."
    if results.has(value):
        return "The value is an empty optional."
    if results.current is None:
        return "No value yet: press Run (F6)."
    if not value.is_defined:
        return "Nothing defines this value."
    node = None if value.producer is None else results.node_of(value.producer)
    failure = None if value.producer is None else results.failure_of(value.producer)
    if failure is not None:
        return f"Not computed, because its node failed:\n{failure.reason}"
    if node is not None and node.because is not None and not node.because.node:
        return f"Not computed, because {node.because.reason}."
    if node is not None and node.because is not None:
        return f"Not computed, because {node.because.title or node.because.operator} failed, which it needs."
    if value.graph in results.skipped_branches:
        return "Not computed: the other branch was taken."
    if node is not None and node.state in RAN and workspace.runs.inputs.outputs_only:
        return (
            "Computed, but not kept: runs of this model keep outputs and watched values only. Watch it, run to its "
            "node, or turn this off in the Run panel."
        )
    if node is not None and node.state in RAN:
        return "Computed, but not kept: the run kept only what it ran to. Press Run (F6) to keep all values."
    if workspace.runs.is_paused:
        return "Not computed yet: the run waits. Step (F10) or continue it (F8)."
    return "Not computed: the run did not reach it. Press Run (F6)."


def hint_of(subject: TensorSource | None) -> str:
    """Return the notice if there is nothing to show."""
    if subject is None:
        return "Select a value, an initializer or a node to see its numbers."
    return "Loading the value…" if subject.waiting else subject.problem


def shows_same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Return whether the same objects are shown; arrays are compared by identity."""
    return len(a) == len(b) and all(
        x is y or (isinstance(x, (str, int, tuple)) and isinstance(y, (str, int, tuple)) and x == y)
        for x, y in zip(a, b, strict=True)
    )
