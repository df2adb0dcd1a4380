"""What is said of a tensor: facts at once, first values and statistics from a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model.errors import ModelError
from model.progress import Progress
from model.tensors import SparseTensor, Tensor
from model.types import ElementType
from viewer.text import bytes_text, display, element_text, number_text, shape_text
from viewer.widgets.fields.rows import Row

if TYPE_CHECKING:
    import numpy as np

    from viewer.jobs import Jobs

_FIRST = 24  # values shown
_CHUNK = 1 << 18  # elements read at once
_BINS = 48
_BARS_ROWS = 3  # rows are all of one height, so a histogram spans some


@dataclass(frozen=True)
class Statistics:
    """What streaming over the values of a tensor found; numbers are of the finite ones."""

    count: int
    minimum: float
    maximum: float
    mean: float
    deviation: float
    zeros: int
    nans: int
    infinities: int
    bars: tuple[int, ...]


class Numbers:
    """First values and statistics of the tensors shown now, each worked out once; `arrived` is called for news."""

    def __init__(self, jobs: Jobs, arrived: Callable[[], object]) -> None:
        self._jobs = jobs
        self._arrived = arrived
        self._previews: dict[int, tuple[object, str | None]] = {}  # by identity, which the tensor kept beside it holds
        self._statistics: dict[int, tuple[object, Statistics | str | None]] = {}

    def forget(self) -> None:
        """Something else is shown now."""
        self._previews.clear()
        self._statistics.clear()

    def preview(self, tensor: Tensor) -> str | None:
        """The first values; None while they are being read."""
        known = self._previews.get(id(tensor))
        if known is not None:
            return known[1]
        self._previews[id(tensor)] = (tensor, None)

        def took(text: str) -> None:
            if id(tensor) in self._previews:
                self._previews[id(tensor)] = (tensor, text)
                self._arrived()

        self._jobs.start(
            "Reading first values", lambda _: first_values(tensor), done=took, failed=lambda e: took(_reason(e))
        )
        return None

    def statistics(self, tensor: Tensor) -> Statistics | str | None:
        """The statistics, why there are none, or None while they are being worked out."""
        known = self._statistics.get(id(tensor))
        if known is not None:
            return known[1]
        self._statistics[id(tensor)] = (tensor, None)

        def took(found: Statistics | str) -> None:
            if id(tensor) in self._statistics:
                self._statistics[id(tensor)] = (tensor, found)
                self._arrived()

        self._jobs.start(
            "Reading statistics",
            lambda progress: statistics(tensor, progress),
            done=took,
            failed=lambda e: took(_reason(e)),
            supersede="inspector statistics",
        )
        return None


def _reason(error: BaseException) -> str:
    return " – ".join(p for p in (error.title, error.detail) if p) if isinstance(error, ModelError) else str(error)


def tensor_text(tensor: Tensor | SparseTensor) -> str:
    """A tensor in a few words: type, shape and size."""
    sparse = "sparse " if isinstance(tensor, SparseTensor) else ""
    size = f" · {bytes_text(tensor.nbytes)}" if tensor.nbytes else ""
    return f"{sparse}{element_text(tensor.element_type)} {shape_text(tuple(tensor.shape))}{size}"


def tensor_rows(tensor: Tensor | SparseTensor, numbers: Numbers, *, with_statistics: bool = False) -> list[Row]:
    """Type, shape, size, storage, what is wrong, first values and, if asked, statistics with a histogram."""
    rows = [
        Row("dtype", "Element type", element_text(tensor.element_type), mono=True),
        Row("shape", "Shape", shape_text(tuple(tensor.shape)), mono=True),
        Row("size", "Size", bytes_text(tensor.nbytes) if tensor.nbytes else "–"),
    ]
    problem = tensor.problem
    if problem:
        rows.append(Row("problem", "Not available", display(problem, 300), style="error", tip=display(problem, 1000)))
    if isinstance(tensor, SparseTensor):
        rows.append(Row("stored", "Stored values", number_text(tensor.values.size)))
        return rows
    rows[2].note = number_text(tensor.size) + (" element" if tensor.size == 1 else " elements")
    words = {"memory": "in memory", "inline": "in the model", "file": "in the model file", "external": "external file"}
    rows.append(Row("storage", "Stored", words.get(tensor.storage, tensor.storage)))
    if problem or not tensor.size:
        return rows
    first = numbers.preview(tensor)
    rows.append(Row("values", "Values", "…" if first is None else first, mono=True, tip=first or ""))
    if with_statistics and _has_numbers(tensor):
        rows += _statistics_rows(numbers.statistics(tensor))
    return rows


def _has_numbers(tensor: Tensor) -> bool:
    kind = tensor.element_type
    return isinstance(kind, ElementType) and kind.bits > 0 and not kind.is_complex


def _statistics_rows(found: Statistics | str | None) -> list[Row]:
    if not isinstance(found, Statistics):
        text = "being worked out…" if found is None else display(found, 300)
        return [Row("statistics", "Statistics", text, style="muted" if found is None else "error")]
    rows = [
        Row("range", "Range", f"{number_text(found.minimum)} … {number_text(found.maximum)}", mono=True),
        Row("mean", "Mean ± σ", f"{number_text(found.mean)} ± {number_text(found.deviation)}", mono=True),
        Row("zeros", "Zeros", number_text(found.zeros), f"{found.zeros / found.count:.1%}", mono=True),
    ]
    if found.nans or found.infinities:
        rows.append(
            Row("odd", "Not finite", f"{found.nans:,} NaN, {found.infinities:,} infinite", style="warning", mono=True)
        )
    if len(found.bars) > 1:
        tip = f"Histogram of {found.count:,} values from {found.minimum:.6g} to {found.maximum:.6g}"
        for part in range(_BARS_ROWS):
            row = Row(f"histogram {part}", "" if part else "Histogram", tip, bars=found.bars, tip=tip)
            row.part = (part, _BARS_ROWS)
            rows.append(row)
    return rows


def first_values(tensor: Tensor) -> str:
    """The first few values as text. Reads them; not on the GUI thread."""
    values = tensor.read(0, min(_FIRST, tensor.size))
    texts = [one_value(v) for v in values.tolist()] if values.dtype.kind in "OSU" else [one_value(v) for v in values]
    more = " …" if tensor.size > _FIRST else ""
    return display(", ".join(texts) + more, 400, elide="end")


def one_value(value: Any) -> str:
    """One element as text."""
    if isinstance(value, str):
        return repr(display(value, 40))
    if isinstance(value, bytes):
        return repr(value[:40])
    if isinstance(value, (bool, int)) or getattr(getattr(value, "dtype", None), "kind", "") in "biu":
        return str(value.item() if hasattr(value, "item") else value)
    if isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c":
        return f"{complex(value):.6g}"
    return number_text(float(value))


def statistics(tensor: Tensor, progress: Progress) -> Statistics:
    """Count, range, mean, deviation, zeros, NaN and histogram, in two passes over slices. Any thread but the GUI's."""
    import numpy as np

    count, total, squares, zeros, nans, infinities = 0, 0.0, 0.0, 0, 0, 0
    low, high = float("inf"), float("-inf")
    size = tensor.size
    for start in range(0, size, _CHUNK):
        progress.report(start, size * 2)
        values = _floats(tensor, start, min(start + _CHUNK, size))
        finite = values[np.isfinite(values)]
        nans += int(np.count_nonzero(np.isnan(values)))
        infinities += int(values.size - finite.size) - int(np.count_nonzero(np.isnan(values)))
        zeros += int(np.count_nonzero(values == 0))
        if finite.size:
            mean = float(finite.mean())
            part = float(np.square(finite - mean).sum())
            delta = mean - (total / count if count else mean)
            squares += part + delta * delta * count * finite.size / (count + finite.size)
            total += float(finite.sum())
            count += finite.size
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    if not count:
        nothing = float("nan")
        return Statistics(size, nothing, nothing, nothing, nothing, zeros, nans, infinities, ())
    bars = np.zeros(_BINS, np.int64)
    if high > low:
        for start in range(0, size, _CHUNK):
            progress.report(size + start, size * 2)
            values = _floats(tensor, start, min(start + _CHUNK, size))
            bars += np.histogram(values[np.isfinite(values)], bins=_BINS, range=(low, high))[0]
    deviation = float(np.sqrt(squares / count))
    return Statistics(
        size,
        low,
        high,
        total / count,
        deviation,
        zeros,
        nans,
        infinities,
        tuple(int(b) for b in bars) if high > low else (),
    )


def _floats(tensor: Tensor, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    import numpy as np

    return np.asarray(tensor.read(start, stop)).astype(np.float64)
