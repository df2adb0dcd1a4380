"""Checks of a run's outputs against test data in the layout of ONNX's backend tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.inputs.sources import DataSet, read_data_set
from onnx_workbench.exec.inspect.compare import compare_values, elements_outside
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph

#: The most names of models that a message lists.
_MOST_NAMED = 10

#: The tolerances of onnx's own runner of these folders.
RTOL, ATOL = 1e-3, 1e-7
_OF_SCALE = 1e-4  # of the root mean square: small elements of float32 are rounded like large ones


@dataclass(frozen=True)
class OutputCheck:
    """Check of one output of one data set. `problem` is empty if it is as expected; `error`: largest absolute error."""

    data_set: str
    output: str
    problem: str = ""
    error: float = 0.0


def check_run(result: RunResult, data_set: DataSet, rtol: float = RTOL, atol: float | None = ATOL) -> list[OutputCheck]:
    """Compare every output of a run with the expected one; `atol` None: ATOL plus a part of its scale. Any thread."""
    if not data_set.outputs:
        return [OutputCheck(data_set.name, "", "it has no expected outputs")]
    verdicts = []
    for name, expected in data_set.outputs.items():
        try:
            value = result.value(name)
        except LookupError:
            verdicts.append(OutputCheck(data_set.name, name, result.why_missing(name)))
        else:
            verdicts.append(check_output(data_set.name, name, value, expected, rtol, atol))
    return verdicts


def check_folder(result: RunResult, folder: Path, graph: Graph) -> list[OutputCheck]:
    """Compare every output of a run of `graph` with the expected one in a folder of test data. Any thread."""
    return check_run(result, read_data_set(folder, graph))


def outputs_in_folder(_result: RunResult, folder: Path, graph: Graph) -> dict[str, RuntimeValue]:
    """Return the expected outputs of `graph` by name from a folder of test data; for `RunResult.apply`."""
    return dict(read_data_set(folder, graph).outputs)


def check_output(
    data_set: str, name: str, found: Any, expected: Any, rtol: float = RTOL, atol: float | None = ATOL
) -> OutputCheck:
    """Compare one output: an array of the same type within the tolerances, or an equal value."""
    difference = compare_values(found, expected)
    problem = difference.problem
    if atol is None:
        atol = ATOL + _OF_SCALE * difference.scale
    if not problem and isinstance(found, np.ndarray) and found.dtype != expected.dtype:
        problem = f"{found.dtype.name}; expected {expected.dtype.name}"
    elif not problem and not difference.within(rtol, atol):
        at, (ours, theirs), count = difference.worst, difference.worst_pair, difference.unequal
        if isinstance(found, np.ndarray) and found.dtype.kind not in "OUS":
            count, at = elements_outside(found, expected, rtol, atol)
            ours, theirs = found[at].item(), expected[at].item()
        place = f"at {list(at)} got {_number(ours)}, expected {_number(theirs)}"
        problem = f"{count} of {difference.size} elements differ, {place}"
    return OutputCheck(data_set, name, problem, difference.max_abs)


def _number(element: object) -> str:
    """Format a number with enough digits to show a difference outside the tolerance."""
    return f"{element:.7g}" if isinstance(element, (float, np.floating)) else str(element)


def model_in(folder: Path) -> Path:
    """Return the model in a folder: model.onnx, or the only .onnx file. ModelError if there is none or several."""
    named = folder / "model.onnx"
    found = [named] if named.is_file() else sorted(folder.glob("*.onnx"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:_MOST_NAMED]) + (", …" if found[_MOST_NAMED:] else "")
        raise ModelError(f"{len(found)} models in this folder", f"Choose one of: {names}" if found else "", str(folder))
    return found[0]
