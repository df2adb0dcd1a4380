"""Run a model and compare its values with another model, a file of values, or ONNX Runtime.

Both get the same inputs. Values are matched by name, in functions and bodies too, and listed in the order in which the
first model computes them; a quantized model is matched with the float model it was made of. Without --rtol and --atol,
the tolerance of each value follows from the precision it was computed in and the scale of its tensor.

The exit status is 0 when all values are close, 1 when one is not or could not be compared, 2 when a model does not run.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_workbench import api
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.arguments import seconds, tolerance
from onnx_workbench.viewer.cli.inputs import add_input_arguments, make_inputs
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FAILED,
    EXIT_FOUND,
    EXIT_OK,
    colored,
    load_model,
    print_json,
    print_message,
    print_table,
    progress,
    shorten,
)

if TYPE_CHECKING:
    from onnx_workbench.api import NumericComparison
    from onnx_workbench.exec.inspect.compare import ComparedValue, ValueDifference
    from onnx_workbench.model.ir.graph import Model

_MOST_NAMES = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the reference, inputs and tolerances."""
    parser.add_argument("model", metavar="A", help="model to compare; - reads standard input")
    parser.add_argument(
        "reference", metavar="B|FILE.npz|ort", help="the reference: a model, values by name, or ONNX Runtime"
    )
    add_input_arguments(parser)
    parser.add_argument("--rtol", type=tolerance, help="relative tolerance (by element type; 0 with --atol)")
    parser.add_argument("--atol", type=tolerance, help="absolute tolerance (by element type and scale; 0 with --rtol)")
    parser.add_argument("--outputs", action="store_true", help="compare only the outputs of the model")
    parser.add_argument(
        "--local", action="store_true", help="of a quantized model, also show the loss of each layer on float inputs"
    )
    parser.add_argument("--differing", action="store_true", help="list only values that differ")
    parser.add_argument("--time-limit", type=seconds, metavar="S", help="time limit of each run in seconds")


def run(options: argparse.Namespace) -> int:
    """Run, compare and print."""
    model = load_model(options)
    is_file = options.reference.lower().endswith(".npz")
    is_model = not is_file and options.reference != "ort"
    reference = load_model(options, options.reference) if is_model else options.reference
    with progress("Comparing") as comparing:
        feeds = make_inputs(model, options, comparing, known=_inputs_in(options.reference, model) if is_file else None)
        found = api.compare(
            model, reference, inputs=feeds, seed=options.seed, rtol=options.rtol, atol=options.atol,
            local=options.local, time_limit=options.time_limit, progress=comparing,
        )  # fmt: skip
    if options.outputs:
        names = {value.name for value in model.graph.outputs}
        found = replace(found, values=tuple(row for row in found.values if row.name in names))
    listed = [row for row in found.values if not (options.differing and row.is_close)]
    if options.json:
        first = found.first_divergence
        print_json(
            {
                "model": options.model,
                "reference": options.reference,
                "agrees": found.agrees,
                "first_divergence": None if first is None else _facts(found, first),
                "values": [_facts(found, row) for row in listed],
                "missing": found.missing,
            }
        )
    else:
        _print(found, listed)
    for text in found.missing:
        print_message("error", text)
    if not found.values:
        _explain(model, reference if not isinstance(reference, str) else None)
        if found.missing:
            return EXIT_FAILED
    return EXIT_OK if found.agrees else EXIT_FOUND


def _inputs_in(path: str, model: Model) -> dict[str, Any]:
    """Return the values in a file that are called as inputs of the model."""
    from onnx_workbench.exec.results.run_file import load_run

    names = {value.name for value in model.graph.inputs}
    return {at[0]: value for at, value in load_run(Path(path)).values.items() if len(at) == 1 and at[0] in names}


def _print(found: NumericComparison, listed: list[ComparedValue]) -> None:
    if listed:
        lines = [("", "value", "operator", "max error", "of scale", "SNR", *_local(found, "alone"), "allowed")]
        print_table([*lines, *(_cells(found, row) for row in listed)])
        print()
    first = found.first_divergence
    if first is not None:
        operator, node = found.operators.get(first.key, ("", ""))
        made = f" ({operator} {node!r})" if node and node != operator else f" ({operator})" if operator else ""
        title = colored("first divergence", 1, sys.stdout)
        print(f"{title}: {shorten(f'{first.name}{made}: {difference_text(first)}', 500)}")
    different = sum(not row.is_close for row in found.values)
    print(f"{plural(len(found.values), 'value')} compared, {different or 'none'} of them different")


def _cells(found: NumericComparison, row: ComparedValue) -> tuple[str, ...]:
    difference, allowed = row.difference, row.tolerance
    name = row.name if row.other == row.name else f"{row.name} = {row.other}"
    operator = shorten(found.operators.get(row.key, ("", ""))[0], 40)
    verdict = "ok" if row.is_close else "DIFFERS"
    if difference.problem:
        return verdict, shorten(name, 60), operator, shorten(difference.problem, 100), "", "", *_local(found, ""), ""
    part = f"{difference.max_abs / difference.scale:.2g}" if difference.scale else ""
    snr = "exact" if not difference.unequal else f"{difference.snr:.0f} dB"
    limit = f"{allowed.rtol:g}·|b| + {allowed.atol:.2g}" if allowed.rtol else f"{allowed.atol:g}"
    if allowed.snr < math.inf:
        limit += f" or {allowed.snr:.0f} dB"
    loss = _loss_of(found, row)
    alone = _local(found, "" if loss is None else f"{loss.snr:.0f} dB")
    return verdict, shorten(name, 60), operator, f"{difference.max_abs:.3g}", part, snr, *alone, limit


def _local(found: NumericComparison, text: str) -> tuple[str, ...]:
    """Return the cell of the layer's own loss, where there is such a column."""
    return (text,) if found.local else ()


def _loss_of(found: NumericComparison, row: ComparedValue) -> ValueDifference | None:
    return found.local.get(row.name) or found.local.get(row.other)


def difference_text(row: ComparedValue) -> str:
    """Describe in words how a value differs from its reference."""
    difference = row.difference
    if difference.problem:
        return difference.problem
    got, expected = (_number(element) for element in difference.worst_pair)
    part = f" ({difference.max_abs / difference.scale:.2g} of its scale)" if difference.scale else ""
    return (
        f"at {list(difference.worst)} got {got}, expected {expected}; largest error {difference.max_abs:.3g}{part}, "
        f"{difference.unequal:,} of {plural(difference.size, 'element')} not equal"
    )


def _number(element: object) -> str:
    return f"{element:.7g}" if isinstance(element, float) else str(element)


def facts(row: ComparedValue) -> dict[str, Any]:
    """Return a compared value as plain data."""
    difference, allowed = row.difference, row.tolerance
    return {
        "name": row.name,
        "reference": row.other,
        "close": row.is_close,
        "problem": difference.problem,
        "max_abs": difference.max_abs,
        "max_rel": difference.max_rel,
        "mean_abs": difference.mean_abs,
        "scale": difference.scale,
        "snr": difference.snr,
        "cosine": difference.cosine,
        "unequal": difference.unequal,
        "size": difference.size,
        "worst": difference.worst,
        "got": difference.worst_pair[0],
        "expected": difference.worst_pair[1],
        "rtol": allowed.rtol,
        "atol": allowed.atol,
        "least_snr": allowed.snr,
    }


def _facts(found: NumericComparison, row: ComparedValue) -> dict[str, Any]:
    operator, node = found.operators.get(row.key, ("", ""))
    loss = _loss_of(found, row)
    local = {} if loss is None else {"local_snr": loss.snr, "local_max_abs": loss.max_abs}
    return facts(row) | {"operator": operator, "node": node} | local


def _explain(model: Model, reference: Model | None) -> None:
    """Explain why nothing was compared: print the names on both sides."""
    print_message("error", "No value has a counterpart in the reference")
    for title, one in (("the model", model), ("the reference", reference)):
        if one is not None:
            names = [value.name for value in one.graph.outputs][:_MOST_NAMES]
            print_message("note", f"outputs of {title}: {', '.join(names) or 'none'}")
