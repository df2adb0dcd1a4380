"""Compare constants in chunks: equality, and measures of their distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onnx_workbench.model.io.reader.payloads import Payload

Constant = Tensor | SparseTensor


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """Distance of two constants of one shape. `cosine` is NaN if one is all zeros; `unequal` counts elements.

    `problem` is the reason why there are no numbers: another shape, or unavailable values.
    """

    problem: str = ""
    size: int = 0
    unequal: int = 0
    max_abs: float = 0.0
    mean_abs: float = 0.0
    cosine: float = math.nan

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        return (
            f"{self.unequal:,} of {self.size:,} elements differ, by {self.max_abs:.3g} at most and "
            f"{self.mean_abs:.3g} on average; cosine {self.cosine:.6f}"
        )


def compare_constants(old: Constant, new: Constant, progress: Progress = SILENT) -> TensorDifference | None:
    """Compare two constants; None if they are equal bit for bit. Reads as little as possible; any thread.

    Constants that are the same range of the same file are equal without being read.
    """
    if old is new:
        return None
    if isinstance(old, SparseTensor) or isinstance(new, SparseTensor):
        return _compare_sparse(old, new, progress)
    if old.element_type != new.element_type or old.shape != new.shape:
        return TensorDifference(_other_form(old, new))
    if _same_range(old, new):
        return None
    try:
        return _compare_values(old, new, progress)
    except ModelError as error:
        if old.problem and old.problem == new.problem:
            return None  # neither can be read
        return TensorDifference(f"the values cannot be compared: {error.detail or error.title}")


def form_text(constant: Constant) -> str:
    """Format element type and shape."""
    kind = constant.element_type
    name = kind.text if isinstance(kind, ElementType) else f"type {kind}"
    shape = "×".join(map(str, constant.shape)) or "scalar"
    return f"{'sparse ' if isinstance(constant, SparseTensor) else ''}{name} {shape}"


def _other_form(old: Constant, new: Constant) -> str:
    return f"{form_text(new)} instead of {form_text(old)}"


def _same_range(old: Tensor, new: Tensor) -> bool:
    from onnx_workbench.model.io.reader.payloads import Payload
    from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor

    if not isinstance(old, ProtoTensor) or not isinstance(new, ProtoTensor):
        return False
    if old.source is new.source:
        return True
    try:
        ours, theirs = old.raw_pieces(), new.raw_pieces()
    except ModelError:
        return False
    if ours is None or theirs is None or len(ours) != len(theirs):
        return False
    return all(
        (_file(a), a.offset, a.length) == (_file(b), b.offset, b.length)
        if isinstance(a, Payload) and isinstance(b, Payload)
        else a == b
        for a, b in zip(ours, theirs, strict=True)
    )


def _file(payload: Payload) -> object:
    from onnx_workbench.model.io.reader.source import FileSource

    return payload.source.identity if isinstance(payload.source, FileSource) else payload.source


def _compare_sparse(old: Constant, new: Constant, progress: Progress) -> TensorDifference | None:
    if not isinstance(old, SparseTensor) or not isinstance(new, SparseTensor):
        return TensorDifference(_other_form(old, new))
    if old.shape != new.shape or old.element_type != new.element_type:
        return TensorDifference(_other_form(old, new))
    return compare_constants(old.indices, new.indices, progress) or compare_constants(old.values, new.values, progress)


def _compare_values(old: Tensor, new: Tensor, progress: Progress) -> TensorDifference | None:
    import numpy as np

    size, unequal, worst = old.size, 0, 0.0
    total = dot = norm_old = norm_new = 0.0
    for a, b in progress.paced(zip(old.pieces(), new.pieces(), strict=True), 1):
        differ = _differ(a, b)
        unequal += int(np.count_nonzero(differ))
        if a.dtype == object:
            continue
        with np.errstate(all="ignore"):
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            x, y = a.astype(wide), b.astype(wide)
            gap = np.abs(x - y)
            gap[~differ] = 0.0
            worst = max(worst, float(np.max(np.where(np.isnan(gap), np.inf, gap), initial=0.0)))
            total += float(gap.sum())
            dot += float(np.vdot(x, y).real)
            norm_old += float(np.vdot(x, x).real)
            norm_new += float(np.vdot(y, y).real)
    if not unequal:
        return None
    length = math.sqrt(norm_old) * math.sqrt(norm_new)
    cosine = dot / length if length else math.nan
    return TensorDifference("", size, unequal, worst, total / size, cosine)


def _differ(a: NDArray[Any], b: NDArray[Any]) -> np.ndarray[Any, Any]:
    """Return where two flat arrays differ bitwise."""
    import numpy as np

    if a.dtype == object:
        return np.array([x != y for x, y in zip(a.tolist(), b.tolist(), strict=True)], bool)
    width = a.dtype.itemsize
    if width == 16:
        ours, theirs = (np.ascontiguousarray(x).view(np.uint64).reshape(-1, 2) for x in (a, b))
        either: np.ndarray[Any, Any] = (ours != theirs).any(1)
        return either
    bits = np.dtype(f"u{width}")
    differ: np.ndarray[Any, Any] = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    return differ
