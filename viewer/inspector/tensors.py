"""Rows for tensors: facts at once, first values and statistics from a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.edits.tensors import kind_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.mapped_arrays import whole_array
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, element_type_text
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import bytes_text, display, number_text, shape_text
from onnx_workbench.viewer.inspector.common import editing_message, text_row
from onnx_workbench.viewer.property_tree.rows import PropertyRow, RowAction
from onnx_workbench.viewer.style.labels import storage_text

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.distribution import Distribution
    from onnx_workbench.viewer.run.workspace import Workspace
    from onnx_workbench.viewer.tasks.tasks import TaskRunner

_FIRST = 24  # values shown
_BARS_ROWS = 3  # rows are all of one height, so a histogram spans some


class TensorNumbers:
    """First values and statistics of the shown tensors, each computed once; `arrived` is called when they are ready."""

    def __init__(self, tasks: TaskRunner, arrived: Callable[[], object]) -> None:
        self._tasks = tasks
        self._arrived = arrived
        self._found: dict[tuple[str, int], tuple[object, Any]] = {}  # by identity of the tensor, which is stored too

    def forget(self) -> None:
        """Clear the results when another object is shown."""
        self._found.clear()

    def preview(self, tensor: Tensor) -> str | None:
        """Return the first values; None while they are being read."""
        text: str | None = self._once("Reading first values", tensor, lambda _: first_values(tensor))
        return text

    def statistics(self, tensor: Tensor) -> Distribution | str | None:
        """Return the statistics, the reason for their absence, or None while they are being computed."""
        statistics: Distribution | str | None = self._once(
            "Reading statistics",
            tensor,
            lambda progress: spread(tensor, progress),
            lane="count",
            supersede="inspector statistics",
        )
        return statistics

    def _once(self, title: str, tensor: Tensor, work: Callable[[Progress], object], **options: Any) -> Any:
        key = title, id(tensor)
        if key in self._found:
            return self._found[key][1]
        self._found[key] = tensor, None

        def took(found: object) -> None:
            if key in self._found:
                self._found[key] = tensor, found
                self._arrived()

        self._tasks.start(title, work, done=took, failed=lambda error: took(_reason(error)), **options)
        return None


def _reason(error: BaseException) -> str:
    return " – ".join(p for p in (error.title, error.detail) if p) if isinstance(error, ModelError) else str(error)


def tensor_text(tensor: Tensor | SparseTensor) -> str:
    """Format a tensor in short: type, shape and size."""
    sparse = "sparse " if isinstance(tensor, SparseTensor) else ""
    size = f" · {bytes_text(tensor.nbytes)}" if tensor.nbytes else ""
    return f"{sparse}{element_type_text(tensor.element_type)} {shape_text(tuple(tensor.shape))}{size}"


def tensor_rows(
    tensor: Tensor | SparseTensor,
    numbers: TensorNumbers,
    *,
    with_statistics: bool = False,
    opening: tuple[RowAction, ...] = (),
) -> list[PropertyRow]:
    """Return rows for type, shape, size, storage, problems, first values with the action `opening`, optionally
    statistics.
    """
    rows = [
        PropertyRow("dtype", "Element type", element_type_text(tensor.element_type), mono=True),
        PropertyRow("shape", "Shape", shape_text(tuple(tensor.shape)), mono=True),
        PropertyRow("size", "Size", bytes_text(tensor.nbytes) if tensor.nbytes else "–"),
    ]
    problem = tensor.problem
    if problem:
        rows.append(
            PropertyRow("problem", "Not available", display(problem, 300), style="error", tip=display(problem, 1000))
        )
    if isinstance(tensor, SparseTensor):
        rows.append(PropertyRow("stored", "Stored values", number_text(tensor.values.size)))
        return rows
    rows[2].note = number_text(tensor.size) + (" element" if tensor.size == 1 else " elements")
    stored = storage_text(tensor)
    rows.append(PropertyRow("storage", "Stored", stored, tip=stored))
    if problem or not tensor.size:
        return rows
    first = numbers.preview(tensor)
    rows.append(
        PropertyRow("values", "Values", "…" if first is None else first, mono=True, tip=first or "", actions=opening)
    )
    if with_statistics and _has_numbers(tensor):
        rows += statistics_rows(numbers.statistics(tensor))
    return rows


def tensor_texts(workspace: Workspace, tensor: Tensor | SparseTensor, name: str = "") -> list[PropertyRow]:
    """Return a row for the name, description and metadata in the message of a tensor, if it has any.

    The `name` of an initializer is that of its value. Two rows for a sparse tensor, whose parts are tensors themselves.
    """
    if isinstance(tensor, Tensor):
        return _texts(workspace, tensor, "Metadata", name)
    rows = _texts(workspace, tensor.values, "Metadata of values", name)
    return [*rows, *_texts(workspace, tensor.indices, "Metadata of indices", tensor.indices.name)]


def _texts(workspace: Workspace, tensor: Tensor, label: str, name: str) -> list[PropertyRow]:
    entries = (f"{key}: {text}" for key, text in tensor.metadata.items())
    text = " · ".join(filter(None, (name, tensor.doc_string, *entries)))
    row = text_row(label, label, text)
    row.actions = (editing_message(workspace),)
    return [row] if text else []


def _has_numbers(tensor: Tensor) -> bool:
    kind = tensor.element_type
    return isinstance(kind, ElementType) and kind.bits > 0 and not kind.is_complex


def statistics_rows(found: Distribution | str | None) -> list[PropertyRow]:
    """Return rows for statistics with a histogram, for the reason of their absence, or (None) for their computation."""
    if found is None or isinstance(found, str):
        text = "computing…" if found is None else display(found, 300)
        return [PropertyRow("statistics", "Statistics", text, style="muted" if found is None else "error")]
    known = found.statistics
    rows = []
    low, high = known.minimum, known.maximum
    if low is not None and high is not None:
        mean = f"{number_text(known.mean or 0.0)} ± {number_text(known.deviation or 0.0)}"
        rows.append(PropertyRow("range", "Range", f"{number_text(low)} … {number_text(high)}", mono=True))
        rows.append(PropertyRow("mean", "Mean ± σ", mean, mono=True))
    rows.append(PropertyRow("zeros", "Zeros", number_text(known.zeros), f"{known.zeros / known.size:.1%}", mono=True))
    if known.non_finite:
        odd = f"{known.nan:,} NaN, {known.non_finite - known.nan:,} infinite"
        rows.append(PropertyRow("odd", "Non-finite", odd, style="warning", mono=True))
    if found.counts and low != high:
        of = f"{found.sampled:,} sampled of {known.size:,}" if found.sampled else f"{known.size:,}"
        tip = f"Histogram of {of} values from {low:.6g} to {high:.6g}"
        for part in range(_BARS_ROWS):
            row = PropertyRow(f"histogram {part}", "" if part else "Histogram", tip, bars=found.counts, tip=tip)
            row.part = (part, _BARS_ROWS)
            rows.append(row)
    return rows


def first_values(tensor: Tensor) -> str:
    """Format the first few values. Reads them; not on the GUI thread."""
    values = tensor.read(0, min(_FIRST, tensor.size))
    texts = [one_value(v) for v in values.tolist()] if values.dtype.kind in "OSU" else [one_value(v) for v in values]
    more = " …" if tensor.size > _FIRST else ""
    return display(", ".join(texts) + more, 400, elide="end")


def one_value(value: Any) -> str:
    """Format one element."""
    if isinstance(value, str):
        return f'"{display(value, 40)}"'
    if isinstance(value, bytes):
        return repr(value[:40])
    if isinstance(value, (bool, int)) or getattr(getattr(value, "dtype", None), "kind", "") in "biu":
        return str(value.item() if hasattr(value, "item") else value)
    if isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c":
        return f"{complex(value):.6g}"
    return number_text(float(value))


def spread(tensor: Tensor, progress: Progress) -> Distribution:
    """Compute the distribution of the elements, read in slices. Any thread but the GUI's."""
    from onnx_workbench.exec.inspect.distribution import distribution

    ranged = tensor if tensor.reads_ranges else ArrayTensor(whole_array(tensor), kind_of(tensor))
    return distribution(ranged.read, tuple(tensor.shape), tensor.size, progress)
