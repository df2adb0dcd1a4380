"""Elements of run-time values as text and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.text.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.exec.values.arrays import RuntimeValue

_SHOWN = 1000  # elements that a terminal shows in full


def value_lines(value: RuntimeValue) -> Iterator[str]:
    """Return the elements of a value as lines of text: shortened on a terminal, whole in a file or a pipe."""
    import numpy as np

    if isinstance(value, np.ndarray):
        limit = _SHOWN if sys.stdout.isatty() else sys.maxsize
        text = np.array2string(value, threshold=limit, separator=", ", formatter=_formatter(value))
        yield from text.split("\n")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield f"[{index}]"
            yield from (f"  {line}" for line in value_lines(item))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield display(f"{key!r}: {item!r}", 1000)
    else:
        yield "none" if value is None else repr(value)


def _formatter(array: Any) -> Any:
    """Return a formatter that makes texts safe to print; None for numbers."""
    return {"all": lambda element: f'"{display(str(element))}"'} if array.dtype.kind == "O" else None


def json_value(value: RuntimeValue) -> Any:
    """Return a value for JSON: arrays as nested lists, maps as lists of pairs."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return (value.astype(np.float64) if value.dtype.kind == "V" else value).tolist()
    if isinstance(value, list):
        return [json_value(item) for item in value]
    return list(value.items()) if isinstance(value, dict) else value
