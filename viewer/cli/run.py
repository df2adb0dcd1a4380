"""Run a model and print the types and shapes of its outputs or of other values.

Inputs that are not given are random, with a seed. The exit status is 1 when a node fails, an output is missing,
--expect finds a difference, or --fail-on-nonfinite finds NaN or an infinity; 2 when the run does not finish.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.targets import check_target, is_same_file
from onnx_workbench.model.progress import Cancelled, Deadline
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.arguments import seconds, tolerance
from onnx_workbench.viewer.cli.inputs import add_input_arguments, make_inputs
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FAILED,
    EXIT_FOUND,
    EXIT_OK,
    load_model,
    print_json,
    print_message,
    print_table,
    progress,
    shorten,
)
from onnx_workbench.viewer.cli.value_text import json_value, value_lines

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.compare import ComparedValue
    from onnx_workbench.exec.results.node_table import NodeResult
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


STANDARD_OUTPUT = "values.npz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``run``."""
    parser.add_argument("model", metavar="MODEL", help="file to read; - reads standard input")
    add_input_arguments(parser)
    parser.add_argument("--values", default="outputs", metavar="all|NAME,…", help="values to list and save (outputs)")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT.npz", help="write the values to a file; - is standard output"
    )
    parser.add_argument("--print", action="store_true", help="print the elements of the values")
    parser.add_argument("--stats", action="store_true", help="print minimum, maximum, mean, deviation and zeros")
    parser.add_argument("--expect", type=Path, metavar="FILE.npz", help="compare values with those in a file")
    parser.add_argument("--rtol", type=tolerance, help="with --expect: relative tolerance, as in compare")
    parser.add_argument("--atol", type=tolerance, help="with --expect: absolute tolerance, as in compare")
    parser.add_argument(
        "--fail-on-nonfinite", action="store_true", help="fail where a node makes NaN or infinities; name the first one"
    )
    parser.add_argument("--profile", action="store_true", help="print time and memory by node and operator")
    parser.add_argument(
        "--max-tensor", type=size, metavar="SIZE", help="memory limit of each tensor, such as 512M or 4G"
    )
    parser.add_argument(
        "--memory-limit", type=size, metavar="SIZE",
        help="memory limit of inputs, weights, values and buffers, such as 2G; weights that do not fit are read when "
        "needed; a node's temporary arrays are not counted",
    )  # fmt: skip
    parser.add_argument(
        "--time-limit", type=seconds, metavar="S",
        help="time limit in seconds, reading the model and inputs included; writing may take as long again",
    )  # fmt: skip


def size(text: str) -> int:
    """Bytes in ``512M`` or ``4G``; ArgumentTypeError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    amount = float(match[1]) * _UNITS[match[2].upper()] if match is not None else math.inf
    if amount >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; expected bytes, such as 512M or 4G")
    return int(amount)


def run(options: argparse.Namespace) -> int:
    """Run the model; the exit status says whether every node ran and every check passed."""
    from onnx_workbench.exec.inputs.sources import read_values
    from onnx_workbench.exec.inspect.overview import contradictions
    from onnx_workbench.exec.session import Session
    from onnx_workbench.model.budget import OVERHEAD, limit_memory, process_budget

    begun = time.monotonic()
    if options.expect is None and (options.rtol is not None or options.atol is not None):
        raise ModelError("--rtol and --atol cannot be used like this", "They go with --expect.")
    if options.memory_limit is not None:
        limit_memory(min(options.memory_limit, process_budget()) + OVERHEAD)
    model = load_model(options)
    if options.output is not None:
        check_target(options.output, "run", others=[model])
        _check_not_read(options.output, options)
    expected = read_values(options.expect, model.graph.values()) if options.expect is not None else None
    session = Session(model, memory_limit=options.memory_limit)
    with progress(f"Running {options.model}") as running:
        feeds = _inputs_in_time(model, options, running, begun)
        time_left = _time_left(options.time_limit, begun)
        result = session.run(
            feeds,
            values=_values_to_keep(options),
            progress=running,
            seed=options.seed,
            max_tensor=options.max_tensor,
            time_limit=time_left,
        )
    names = _names(result, options.values)
    missing = _missing(result, options.values)
    compared, unmatched = _compared(result, expected, options)
    bad = _first_non_finite(result) if options.fail_on_nonfinite else None
    if options.output is not None:
        _write(options.output, result, names, options.time_limit)
    if options.json:
        facts = _facts(result, names, missing, options)
        if expected is not None:
            from onnx_workbench.viewer.cli.compare import facts as facts_of

            facts["expected"] = [facts_of(row) for row in compared]
            facts["expected"] += [{"name": name, "close": False, "problem": "missing"} for name in unmatched]
        if options.fail_on_nonfinite:
            facts["non_finite"] = bad
        print_json(facts)
    else:
        _print(result, names, options)
    declared = {v.id: v.type for v in (*model.graph.inputs, *model.graph.outputs) if v.type is not None}
    for one in contradictions(result, declared):
        print_message("note", f"{result.layout.name(one.key[1])!r} is {one.found}; the model declares {one.declared}")
    for note in result.notes:
        print_message("note", note)
    if not model.graph.outputs:
        print_message("note", "the model has no outputs")
    for name, reason in missing.items():
        print_message("missing", f"{name}: {reason}")
    for failure in result.failures:
        print_message("error", str(failure))
    has_difference = _report_expected(compared, unmatched, options)
    if bad is not None:
        print_message("error", _non_finite_text(bad))
    if result.stopped:
        print_message("error", f"the run did not finish: {result.early_end}")
        return EXIT_FAILED
    return EXIT_OK if result.ok and not has_difference and bad is None else EXIT_FOUND


def _inputs_in_time(model: Model, options: argparse.Namespace, running: Progress, begun: float) -> dict[str, Any]:
    """Make the inputs; ModelError if the time limit or the memory limit does not allow it."""
    limit = options.time_limit
    making = Deadline(_time_left(limit, begun), running.report)
    try:
        return make_inputs(model, options, making, max_tensor=options.max_tensor, memory_limit=options.memory_limit)
    except Cancelled:
        running.check()  # else the time was up
        raise _out_of_time(limit) from None


def _out_of_time(limit: float) -> ModelError:
    detail = f"The time limit of {limit:g} s was reached while the model and its inputs were read."
    return ModelError("The run did not finish", detail)


def _time_left(limit: float | None, begun: float) -> float | None:
    """Seconds that are left for the run; ModelError when there are none."""
    left = None if limit is None else limit - (time.monotonic() - begun)
    if limit is not None and left is not None and left <= 0:
        raise _out_of_time(limit)
    return left


def _values_to_keep(options: argparse.Namespace) -> Any:
    """Values that the run is to keep: where NaN begins can be seen only where all are kept."""
    return "all" if options.fail_on_nonfinite or options.expect is not None else _values_option(options.values)


def _check_not_read(output: Path, options: argparse.Namespace) -> None:
    """Refuse to write over a file that values are read from."""
    texts = [text.partition("=")[2] for text in options.input]
    for name in filter(None, [options.inputs, options.expect, *texts]):
        if is_same_file(output, Path(name)):
            detail = "Writing there would replace it. Choose another name."
            raise ModelError(f"{output.name} is read by this run", detail, str(output))


def _write(output: Path, result: RunResult, names: list[str], seconds: float | None) -> None:
    from onnx_workbench.exec.values.npz_files import write_npz

    try:
        write_npz(output, ((name, result.values[name]) for name in names), Deadline(seconds))
    except Cancelled:
        detail = f"Writing them took longer than the time limit of {seconds} s."
        raise ModelError("The values were not written", detail, str(output)) from None
    except OSError as error:
        raise ModelError(f"{output} cannot be written", error.strerror or str(error)) from error


def _compared(
    result: RunResult, expected: dict[str, Any] | None, options: argparse.Namespace
) -> tuple[list[ComparedValue], list[str]]:
    """Compare values with those expected: a row for each, and the names of what is not there."""
    if not expected:
        return [], []
    from onnx_workbench.exec.inspect.run_comparison import compare, named_arrays, with_tolerance

    rows = with_tolerance(compare(result, named_arrays(result, expected)), options.rtol, options.atol)
    compared_names = {row.other for row in rows}
    return rows, [name for name in expected if name not in compared_names]


def _report_expected(rows: list[ComparedValue], unmatched: list[str], options: argparse.Namespace) -> bool:
    """Print the values that differ from the expected ones; return whether any does."""
    if options.expect is None:
        return False
    from onnx_workbench.viewer.cli.compare import difference_text

    different = [row for row in rows if not row.is_close]
    for row in different:
        print_message("error", f"{row.name} is not as expected: {difference_text(row)}")
    for name in unmatched:
        print_message("missing", f"{name}: {options.expect} has it, but the run has no such value")
    if not rows and not unmatched:
        print_message("error", f"{options.expect} has no values")
    print(f"{len(rows) - len(different)} of {plural(len(rows) + len(unmatched), 'value')} as expected", file=sys.stderr)
    return bool(different or unmatched or not rows)


def _first_non_finite(result: RunResult) -> dict[str, Any] | None:
    """Return the first value, in run order, in which NaN or infinities begin; else the first output that has any."""
    from onnx_workbench.exec.inspect.nonfinite import first_of, non_finite_values

    search = non_finite_values(result, 1, "origins")
    if search.unkept:
        print_message("note", f"{plural(search.unkept, 'value')} did not fit into memory and were not examined")
    found = search.found[0] if search.found else first_of(result, result.output_keys(), "all")
    if found is None:
        return None
    slot = result.layout.slots.get(found.key)
    step = next((step for step in result.layout.steps if slot is not None and slot in step.outs), None)
    node = next((n for n in result.nodes if step is not None and (n.path, n.node) == (step.path, step.node)), None)
    return {
        "value": result.layout.name(found.key[1]),
        "node": node.title if node is not None else "",
        "operator": found.operator,
        "index": list(found.index),
        "found": str(found.value),
        "count": found.count,
        "cause": found.cause,
    }


def _non_finite_text(bad: dict[str, Any]) -> str:
    what = "NaN" if bad["found"] == "nan" else "an infinity"
    node = f", made by {bad['operator']} {bad['node']!r}" if bad["operator"] else ""
    cause = f": {bad['cause']}" if bad["cause"] else ""
    return f"{what} in {bad['value']!r} at {bad['index']}{node}{cause} ({plural(bad['count'], 'element')})"


def _values_option(text: str) -> Any:
    return text if text in ("all", "outputs") else [name for name in text.split(",") if name]


def _names(result: RunResult, text: str) -> list[str]:
    wanted = _values_option(text)
    names = list(result.values) if wanted == "all" else list(result.outputs) if wanted == "outputs" else wanted
    return [name for name in names if result.info(name) is not None]


def _missing(result: RunResult, text: str) -> dict[str, str]:
    """Return why outputs and requested values are missing."""
    wanted = _values_option(text)
    reasons = dict(result.missing_outputs)
    for name in () if isinstance(wanted, str) else wanted:
        if result.info(name) is None:
            reasons.setdefault(name, result.why_missing(name))
    return reasons


def _statistics(result: RunResult, name: str) -> dict[str, Any]:
    found = result.statistics(name)
    if found is None:
        return {}
    return {
        "minimum": found.minimum,
        "maximum": found.maximum,
        "mean": found.mean,
        "deviation": found.deviation,
        "zeros": found.zeros,
        "non_finite": found.non_finite,
    }


def _facts(result: RunResult, names: list[str], missing: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    values = {}
    for name in names:
        values[name] = {"type": str(result.info(name))} | (_statistics(result, name) if options.stats else {})
        if options.print:
            values[name]["value"] = json_value(result.values[name])
    facts: dict[str, Any] = {
        "values": values,
        "missing": missing,
        "failures": [str(f) for f in result.failures],
        "stopped": result.stopped,
        "seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
        "memory": result.memory._asdict() | {"values": result.peak_bytes},
        "notes": list(result.notes),
    }
    if options.profile:
        titles = _titles(result)
        facts["nodes"] = [_node_facts(node) | {"state": node.state.value} for node in result.nodes]
        facts["inner_nodes"] = [
            _node_facts(node) | {"inside": [titles[number] for number in node.inside], "runs": node.runs}
            for node in result.inner
        ]
    return facts


def _node_facts(node: NodeResult) -> dict[str, Any]:
    return {"node": node.title, "operator": node.operator, "seconds": node.seconds, "bytes": node.nbytes}


def _print(result: RunResult, names: list[str], options: argparse.Namespace) -> None:
    for name in names:
        line = f"{shorten(name, 60)}  {result.info(name)}"
        if options.stats:
            statistics = {k: v for k, v in _statistics(result, name).items() if v is not None}
            line += "  " + "  ".join(f"{k} {v:.6g}" for k, v in statistics.items())
        print(line)
        if options.print:
            for text in value_lines(result.values[name]):
                print(f"  {text}")
    if options.profile:
        _print_profile(result)


def _print_profile(result: RunResult) -> None:
    total = sum(n.seconds for n in result.nodes) or 1.0
    by_operator: dict[str, list[float]] = {}
    for node in result.nodes:
        by_operator.setdefault(node.operator, []).append(node.seconds)
    memory = result.memory
    held = f"{memory.inputs / 1e6:.1f} MB of inputs, {memory.weights / 1e6:.1f} MB of weights"
    held += f", {memory.buffers / 1e6:.1f} MB of buffers"
    print(f"\n{result.seconds * 1e3:.2f} ms, {result.peak_bytes / 1e6:.1f} MB of values, {held}")
    rows = [("operator", "  nodes", "      ms", "  share")]
    for operator, times in sorted(by_operator.items(), key=lambda item: -sum(item[1])):
        cells = f"{len(times):7}", f"{sum(times) * 1e3:8.2f}", f"{sum(times) / total:7.1%}"
        rows.append((shorten(operator, 31), *cells))
    print_table(rows)
    print()
    rows = [("node", "       ms", "      MB", "")]
    titles = _titles(result)
    for node in sorted([*result.nodes, *result.inner], key=lambda n: -n.seconds)[:20]:
        name = " › ".join([*(titles[number] for number in node.inside), node.title])
        runs = f"{node.runs:,} runs" if node.runs else ""
        rows.append((shorten(name, 41), f"{node.seconds * 1e3:9.3f}", f"{node.nbytes / 1e6:8.2f}", runs))
    print_table(rows)


def _titles(result: RunResult) -> dict[int, str]:
    """Return titles of the nodes by their numbers."""
    return {n.node: n.title for n in (*result.nodes, *result.inner)}
