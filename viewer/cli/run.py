"""Run a model with the bundled executor: print types and shapes of what it computes, save values with -o.

Inputs that neither --inputs nor --input gives are random with a seed. Keys of the .npz file that is written are
value names.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.targets import check_target
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.viewer.cli.arguments import add_picture_arguments, natural, picture_options, seconds
from onnx_workbench.viewer.cli.terminal import EXIT_FAILED, EXIT_FOUND, EXIT_OK, print_json, progress, read_model
from onnx_workbench.viewer.style.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.images import ImageOptions
    from onnx_workbench.exec.inputs.sources import InputSource
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress

_MOST_NAMES = 12  # in a message
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``run``."""
    parser.add_argument("model", metavar="MODEL", help="the model; - reads standard input")
    parser.add_argument("--inputs", type=Path, metavar="IN.npz", help="values of inputs by name")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=VALUE",
        help="value of one input, whatever --inputs has: a file (.npy .npz .pb .csv .tsv .txt, a picture), "
        "numbers as in [[1, 2.5]], normal, uniform or range",
    )  # fmt: skip
    parser.add_argument("--seed", type=natural, default=0, help="of random inputs and random operators (0)")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=SIZE", help="size of a symbolic dimension")
    parser.add_argument("--values", default="outputs", metavar="all|NAME,…", help="which to list and save (outputs)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.npz", help="write the values to a file")
    parser.add_argument("--stats", action="store_true", help="minimum, maximum, mean, deviation and what is not finite")
    parser.add_argument("--profile", action="store_true", help="time and memory by node and operator")
    parser.add_argument("--memory-limit", type=size, metavar="4G", help="the largest value there may be, in bytes")
    parser.add_argument("--time-limit", type=seconds, metavar="S", help="seconds the run may take")
    add_picture_arguments(parser)


def size(text: str) -> int:
    """Bytes in ``512M`` or ``4G``; ArgumentTypeError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    amount = float(match[1]) * _UNITS[match[2].upper()] if match is not None else math.inf
    if amount >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected bytes, as in 512M or 4G")
    return int(amount)


def run(arguments: argparse.Namespace) -> int:
    """Do it; the exit status says whether every node ran."""
    from onnx_workbench.exec.inspect.overview import contradictions
    from onnx_workbench.exec.session import Session

    model = read_model(arguments)
    if arguments.output is not None:
        check_target(arguments.output, "run", others=[model])
    session = Session(model)
    with progress(f"Running {arguments.model}") as running:
        feeds = _feeds(model, arguments, running)
        result = session.run(
            feeds,
            values=_wanted(arguments.values),
            progress=running,
            seed=arguments.seed,
            memory_limit=arguments.memory_limit,
            time_limit=arguments.time_limit,
        )
    declared = {v.id: v.type for v in (*model.graph.inputs, *model.graph.outputs) if v.type is not None}
    for one in contradictions(result, declared):
        text = f"{result.layout.name(one.key[1])!r} is {one.found}; the model declares {one.declared}"
        print(display(f"note: {text}", 200), file=sys.stderr)
    names = _names(result, arguments.values)
    if arguments.output is not None:
        _write(arguments.output, result, names)
    if arguments.json:
        print_json(_facts(result, names, arguments))
    else:
        _print(result, names, arguments)
    for name, reason in _missing(result, arguments.values).items():
        print(display(f"missing: {name}: {reason}", 2000, elide="end"), file=sys.stderr)
    if not model.graph.outputs:
        print("note: the model has no outputs", file=sys.stderr)
    for failure in result.failures:
        print(display(f"error: {failure}", 2000, elide="end"), file=sys.stderr)
    if result.stopped:
        print(display(f"error: the run did not finish: {result.early_end}", 500), file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK if result.ok else EXIT_FOUND


def _write(output: Path, result: RunResult, names: list[str]) -> None:
    from onnx_workbench.exec.results.npz_files import write_npz

    try:
        write_npz(output, ((n, result.values[n]) for n in names))
    except OSError as error:
        raise ModelError(f"{output} cannot be written", error.strerror or str(error)) from error


def _feeds(model: Model, arguments: argparse.Namespace, running: Progress) -> dict[str, Any]:
    from onnx_workbench.exec.inputs.sources import (
        contradictions,
        input_limit,
        make_feeds,
        make_value,
        read_npz,
    )

    limit = input_limit(arguments.memory_limit)
    given = read_npz(arguments.inputs, limit) if arguments.inputs is not None else {}
    known = {v.name for v in model.graph.inputs} | {v.name for v in model.graph.initializers}
    unknown = [name for name in given if name not in known]
    if unknown:
        required = [v.name for v in model.graph.required_inputs]
        raise ModelError("No such input", f"{arguments.inputs} has {_some(unknown)}; the model takes {_some(required)}")
    names, image = [v.name for v in model.graph.inputs], picture_options(arguments)
    named, sources = _sizes(model, arguments.size), _sources(arguments.input, names, image)
    given = {name: array for name, array in given.items() if name not in sources}
    optional = {v.name: v for v in model.graph.inputs if v.initializer is not None and v.name in sources}
    for name, value in optional.items():
        given[name] = make_value(value, sources[name], named, seed=arguments.seed, limit=limit)
    feeds = make_feeds(
        model.graph, sources=sources, sizes=named, given=given, seed=arguments.seed, limit=limit, progress=running
    )
    for text in contradictions(model.graph, feeds, named):
        print(display(f"note: inputs contradict each other: {text}", 200), file=sys.stderr)
    return feeds


def _sizes(model: Model, texts: Sequence[str]) -> dict[str, int]:
    """Sizes of symbolic dimensions by name; ModelError for one that no input has."""
    from onnx_workbench.exec.inputs.sources import symbol_names

    named, known = sizes(texts), symbol_names(model.graph)
    for name in named:
        if name not in known:
            has = f"The inputs have {_some(known)}." if known else "The inputs have none that is symbolic."
            raise ModelError(f"There is no dimension {name!r}", has)
    return named


def _sources(texts: Sequence[str], names: Sequence[str], image: ImageOptions) -> dict[str, InputSource]:
    """Where the values of inputs come from, by ``name=value`` texts."""
    found = {}
    for text in texts:
        name = max((n for n in names if text.startswith(f"{n}=")), key=len, default=None)
        if name is None and "=" not in text:
            raise ModelError(f"{text!r} gives no input a value", "Write it as NAME=VALUE, such as image=cat.png.")
        if name is None:
            raise ModelError(f"There is no input {text.partition('=')[0]!r}", f"The model takes {_some(names)}.")
        found[name] = _source(text[len(name) + 1 :], image)
    return found


def _some(names: Sequence[str]) -> str:
    """Names for a message: a model may take its thousand weights as inputs."""
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _source(text: str, image: ImageOptions) -> InputSource:
    from onnx_workbench.exec.inputs.sources import Constant, File, Random, Range

    with suppress(OSError):  # numbers may be too many for the name of a file
        if Path(text).is_file():
            return File(Path(text), image=image)
    match text:
        case "normal":
            return Random("normal", 0.0, 1.0)
        case "uniform":
            return Random("uniform")
        case "range":
            return Range()
    try:
        return Constant(json.loads(text))
    except (ValueError, RecursionError):
        detail = "expected a file that there is, numbers as in [[1, 2.5]], normal, uniform or range"
        raise ModelError(f"{text!r} is no value", detail) from None


def _wanted(text: str) -> Any:
    return text if text in ("all", "outputs") else [name for name in text.split(",") if name]


def _names(result: RunResult, text: str) -> list[str]:
    wanted = _wanted(text)
    names = list(result.values) if wanted == "all" else list(result.outputs) if wanted == "outputs" else wanted
    return [name for name in names if result.info(name) is not None]


def _missing(result: RunResult, text: str) -> dict[str, str]:
    """Why values that were asked for, and outputs, are not there."""
    wanted = _wanted(text)
    found = dict(result.missing_outputs)
    for name in () if isinstance(wanted, str) else wanted:
        if result.info(name) is None:
            found.setdefault(name, result.why_missing(name))
    return found


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


def _facts(result: RunResult, names: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    values = {}
    for name in names:
        values[name] = {"type": str(result.info(name))} | (_statistics(result, name) if arguments.stats else {})
    facts: dict[str, Any] = {
        "values": values,
        "missing": _missing(result, arguments.values),
        "failures": [str(f) for f in result.failures],
        "stopped": result.stopped,
        "seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
        "notes": list(result.notes),
    }
    if arguments.profile:
        facts["nodes"] = [
            {"node": n.title, "operator": n.operator, "state": n.state.value, "seconds": n.seconds, "bytes": n.nbytes}
            for n in result.nodes
        ]
        titles = _titles(result)
        facts["inner_nodes"] = [
            {
                "node": n.title, "inside": [titles[number] for number in n.inside], "operator": n.operator,
                "turns": n.runs, "seconds": n.seconds, "bytes": n.nbytes,
            }
            for n in result.inner
        ]  # fmt: skip
    return facts


def _print(result: RunResult, names: list[str], arguments: argparse.Namespace) -> None:
    for name in names:
        line = f"{display(name, 60)}  {result.info(name)}"
        if arguments.stats:
            shown = {k: v for k, v in _statistics(result, name).items() if v is not None}
            line += "  " + "  ".join(f"{k} {v:.6g}" for k, v in shown.items())
        print(line)
    for note in result.notes:
        print(display(f"note: {note}", 200), file=sys.stderr)
    if arguments.profile:
        _print_profile(result)


def _print_profile(result: RunResult) -> None:
    total = sum(n.seconds for n in result.nodes) or 1.0
    by_operator: dict[str, list[float]] = {}
    for node in result.nodes:
        by_operator.setdefault(node.operator, []).append(node.seconds)
    print(f"\n{result.seconds * 1e3:.2f} ms, {result.peak_bytes / 1e6:.1f} MB of values")
    print(f"{'operator':32}{'nodes':>7}{'ms':>10}{'share':>8}")
    for operator, times in sorted(by_operator.items(), key=lambda item: -sum(item[1])):
        print(f"{display(operator, 31):32}{len(times):7}{sum(times) * 1e3:10.2f}{sum(times) / total:8.1%}")
    print(f"\n{'costliest node':42}{'ms':>10}{'MB':>10}")
    titles = _titles(result)
    for node in sorted([*result.nodes, *result.inner], key=lambda n: -n.seconds)[:20]:
        name = " › ".join([*(titles[number] for number in node.inside), node.title])
        turns = f"  in {node.runs:,} turns" if node.runs else ""
        print(f"{display(name, 41):42}{node.seconds * 1e3:10.3f}{node.nbytes / 1e6:10.2f}{turns}")


def _titles(result: RunResult) -> dict[int, str]:
    """What to call the nodes by their numbers."""
    return {n.node: n.title for n in (*result.nodes, *result.inner)}
