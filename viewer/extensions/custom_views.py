"""`value_view`, the decorator with which scripts and extensions add views of values. No Qt: workers load it too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onnx_workbench.model import extensions
from onnx_workbench.model.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[[Any], Any])

_MOST_ROWS, _MOST_COLUMNS = 2000, 100
_MOST_PIXELS = 2048  # of one side of an image
_MOST_TEXT = 1_000_000  # characters


@dataclass(frozen=True, slots=True)
class Table:
    """Headings, rows of texts, and whether the table was truncated."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_cut: bool = False


_views: dict[str, Callable[[Any], Any]] = {}


def value_view(title: str) -> Callable[[F], F]:
    """Register a function as a custom view of values in the tensor panel.

    It gets the whole value as a read-only array and returns a text; an image, as an array of [height, width],
    [height, width, 3] (red, green, blue) or [height, width, 4] (and opacity), of uint8 or of numbers from 0 to 1; a
    table, as a list of rows of which the first has the headings; or None if the view is not applicable. It runs
    off the GUI thread. Errors should be raised as `ModelError`. Registering a view again replaces it.

    >>> import onnx_workbench as ow
    >>> @ow.value_view("Signs")
    ... def signs(array):
    ...     "How many elements are negative, zero and positive."
    ...     counts = [int(test.sum()) for test in (array < 0, array == 0, array > 0)]
    ...     return [("negative", "zero", "positive"), counts]
    >>> import numpy as np
    >>> signs(np.array([-1.0, 2.0, 3.0]))
    [('negative', 'zero', 'positive'), [1, 0, 2]]
    """

    def register(function: F) -> F:
        extensions.add("view", title, _views, function)
        return function

    return register


def titles() -> tuple[str, ...]:
    """Return the titles of the registered views."""
    return tuple(_views)


def show_value(title: str, array: NDArray[Any]) -> str | Table | NDArray[np.uint8]:
    """Return the result of a view for a value: a text, a table, or [H, W, 4] bytes of RGBA.

    ModelError if the view fails, with its file, or is not applicable. Any thread.
    """
    function = _views.get(title)
    if function is None:
        raise ModelError("The view no longer exists", "Its extension is not loaded.")
    failed = f"The view {title} of {Path(extensions.file_of(function)).name} failed"
    given = array.view()
    given.flags.writeable = False
    found = extensions.call(failed, function, function, given)
    if found is None:
        raise ModelError("This view does not fit", f"{title} cannot show this value.")
    if isinstance(found, str):
        return found[:_MOST_TEXT]
    if isinstance(found, np.ndarray):
        return _picture(found, failed)
    return extensions.call(failed, function, _table, found)


def _picture(found: NDArray[Any], failed: str) -> NDArray[np.uint8]:
    is_image = found.ndim == 2 or (found.ndim == 3 and found.shape[2] in (3, 4))
    if not is_image or not found.size or found.dtype.kind not in "biuf":
        expected = "expected [height, width], [height, width, 3] or [height, width, 4] of numbers"
        raise ModelError(failed, f"It returned an array {found.dtype} {list(found.shape)}; {expected}.")
    found = found[:: ceil(found.shape[0] / _MOST_PIXELS), :: ceil(found.shape[1] / _MOST_PIXELS)]
    if found.dtype != np.uint8:
        scale = 255.0 if found.dtype.kind in "bf" else 1.0
        with np.errstate(all="ignore"):
            found = np.nan_to_num(np.clip(found.astype(np.float64) * scale, 0, 255)).round().astype(np.uint8)
    pixels = np.full((*found.shape[:2], 4), 255, np.uint8)
    if found.ndim == 2:
        pixels[..., :3] = found[..., None]
    else:
        pixels[..., : found.shape[2]] = found
    return pixels


def _table(found: Iterable[Iterable[object]]) -> Table:
    headings, *rows = [tuple(map(str, islice(row, _MOST_COLUMNS))) for row in islice(found, _MOST_ROWS + 2)]
    return Table(headings, tuple(rows[:_MOST_ROWS]), len(rows) > _MOST_ROWS)
