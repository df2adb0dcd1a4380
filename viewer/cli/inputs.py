"""The inputs of a run on the command line: from files, numbers and pictures, else random."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.viewer.cli.arguments import add_picture_arguments, natural, picture_options
from onnx_workbench.viewer.cli.terminal import print_message

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.images import ImageOptions
    from onnx_workbench.exec.inputs.sources import InputSource
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress

_MOST_NAMES = 12  # in a message


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the values of inputs."""
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help="values of inputs by name, from an .npz or .json file",
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=VALUE",
        help="value of one input, overrides --inputs: a file (.npy .npz .pb .json .csv .tsv .txt or an image), "
        "numbers such as [[1, 2.5]], or normal, uniform or range",
    )  # fmt: skip
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of random inputs and operators (0)")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=SIZE", help="size of a named dimension")
    add_picture_arguments(parser)


def make_inputs(
    model: Model,
    options: argparse.Namespace,
    running: Progress,
    *,
    max_tensor: int | None = None,
    memory_limit: int | None = None,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make the values of all inputs by name: from the options, else from `known`, else random.

    Arrays that the model does not take are left out with a warning. ModelError: a value cannot be read or does not fit.
    """
    from onnx_workbench.exec.inputs.sources import contradictions, make_feeds, make_value, read_inputs
    from onnx_workbench.model.budget import input_limit

    graph, limit = model.graph, input_limit(max_tensor)
    if memory_limit is not None:
        limit = min(limit, memory_limit)
    taken = {v.name for v in graph.inputs} | {v.name for v in graph.initializers}
    given = {name: value for name, value in (known or {}).items() if name in taken}
    ignored = [name for name in known or {} if name not in taken]
    if options.inputs is not None:
        read, others = read_inputs(options.inputs, graph, limit, running)
        given |= read
        ignored += others
    if ignored:
        required = [v.name for v in graph.required_inputs]
        if not given and required:
            detail = f"{options.inputs} has {_some(ignored)}; the model takes {_some(required)}"
            raise ModelError("No such input", detail)
        print_message("warning", f"{options.inputs} has values that are not inputs and are ignored: {_some(ignored)}")
    names, image = [v.name for v in graph.inputs], picture_options(options)
    named, sources = _sizes(model, options.size), _sources(options.input, names, image)
    given = {name: array for name, array in given.items() if name not in sources}
    optional = {v.name: v for v in graph.inputs if v.initializer is not None and v.name in sources}
    for name, value in optional.items():
        given[name] = make_value(value, sources[name], named, seed=options.seed, limit=limit)
    feeds = make_feeds(
        graph, sources=sources, sizes=named, given=given, seed=options.seed, limit=limit, progress=running
    )
    for text in contradictions(graph, feeds, named):
        print_message("note", f"inputs contradict each other: {text}")
    return feeds


def _sizes(model: Model, texts: Sequence[str]) -> dict[str, int]:
    """Sizes of named dimensions; ModelError for one that no input has."""
    from onnx_workbench.exec.inputs.sources import symbol_names

    named, known = sizes(texts), symbol_names(model.graph)
    for name in named:
        if name not in known:
            has = f"The inputs have {_some(known)}." if known else "All dimensions of the inputs are numbers."
            raise ModelError(f"There is no dimension {name!r}", has)
    return named


def _sources(texts: Sequence[str], names: Sequence[str], image: ImageOptions) -> dict[str, InputSource]:
    """Return the sources of input values, from ``name=value`` texts."""
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
    from onnx_workbench.model.io.reader.source import require_regular

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
        with suppress(OSError):
            require_regular(Path(text))
        detail = "Expected an existing file, numbers such as [[1, 2.5]], or normal, uniform or range."
        raise ModelError(f"{text!r} is not a value", detail) from None
