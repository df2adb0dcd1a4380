"""Convert a model: another form, operator set, precision or IR version; dimensions frozen or freed; parts stripped.

What changed is printed, and what a person should look at; when something cannot be done, nothing is written. Where it
changes what is computed, outputs are compared with those before on random inputs: a difference, but for one that comes
with another precision, or a model that does not run or load any more writes nothing and is exit status 1.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onnx_workbench import api
from onnx_workbench.model.analysis.node_subset import tensors_of
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.viewer.cli.arguments import add_check_arguments
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.output import add_output_arguments, print_agreement, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, print_json, progress, read_model, shorten
from onnx_workbench.viewer.workflows.convert import CONVERTERS, RENAMED, counted

if TYPE_CHECKING:
    from onnx_workbench.api import Converted


#: What --nodes means for each conversion.
_PART = """\
with --nodes:
  --precision     other nodes keep theirs, with casts between; an input of the model turns when all that uses it does
  --freeze        only names that sizes at these nodes depend on; each becomes the number wherever it stands
  --free          only inputs that these nodes are computed from; all that follows from them is freed with them
  --functions     inline calls among these nodes; extract blocks that are repeated among them
  --rename        names of these nodes, of what they make, of initializers they take
  --strip         from these nodes, their bodies, what they make and initializers they take; not the producer
  --external      where initializers that these nodes take go; others stay where they are
  --opset         refused, as an operator set is that of the whole model; says which of these nodes would change
  --ir-version    refused, as is --sort
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, what to convert, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    _add_meaning_arguments(parser)
    _add_form_arguments(parser)
    add_nodes_argument(parser, "convert these alone")
    parser.epilog = _PART
    add_check_arguments(parser, runs=3)
    add_output_arguments(parser)


def _add_meaning_arguments(parser: argparse.ArgumentParser) -> None:
    """What operators and values are to be."""
    parser.add_argument("--opset", type=int, metavar="N", help="convert to this version of ai.onnx")
    parser.add_argument(
        "--converter", choices=tuple(CONVERTERS), default="auto",
        help="with --opset: own adapters and where they cannot onnx's version converter (auto), own adapters alone, or "
        "onnx's converter and own adapters where it fails or is wrong; what is printed says which way nodes went",
    )  # fmt: skip
    parser.add_argument(
        "--ir-version", type=int, metavar="N", help="claim this IR version; what the model has that is newer is told"
    )
    parser.add_argument("--precision", choices=("float32", "float16", "bfloat16"), help="of weights and computing")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="WHAT",
        help="with --precision: an operator, or a pattern of node names, that stays as it is; inputs-outputs for those",
    )  # fmt: skip
    parser.add_argument(
        "--freeze", action="append", default=[], metavar="NAME=SIZE", help="give a named dimension a number"
    )
    parser.add_argument(
        "--free", action="append", default=[], metavar="[INPUT:AXIS=]NAME",
        help="give one dimension of an input this name, or the first one of all inputs and outputs; the rest follows",
    )  # fmt: skip


def _add_form_arguments(parser: argparse.ArgumentParser) -> None:
    """What is written differently and means the same."""
    parser.add_argument(
        "--strip", action="append", default=[], metavar="PART",
        help="take away: doc, metadata, producer, types or inputs (those that nothing uses)",
    )  # fmt: skip
    parser.add_argument(
        "--functions", choices=("inline", "extract"),
        help="replace all calls by what the functions do, or what the model repeats by calls of functions",
    )  # fmt: skip
    parser.add_argument(
        "--rename", action="append", default=[], choices=tuple(RENAMED),
        help="give these new names: nodes, or those without one, by operator and number, values and initializers "
        "after their nodes",
    )  # fmt: skip
    parser.add_argument(
        "--sort", action="store_true", help="bring nodes into an order in which each comes after what it needs"
    )


def run(options: argparse.Namespace) -> int:
    """Read, convert, compare and write."""
    model = read_model(options)
    with progress("Converting") as converting:
        converted = api.convert(
            model, opset=options.opset, converter=options.converter, precision=options.precision, keep=options.keep,
            freeze=sizes(options.freeze), free=options.free, functions=options.functions, strip=options.strip,
            rename=options.rename, sort=options.sort, ir_version=options.ir_version,
            nodes=chosen_nodes(options.nodes, model), checks=options.check, progress=converting,
        )  # fmt: skip
    if converted.is_applied:
        write_model(model, options, None if converted.nodes is None else tensors_of(converted.nodes))
    if options.json:
        print_json(_facts(converted, options))
    else:
        _print(converted)
    return EXIT_OK if converted.is_applied else EXIT_FOUND


def _facts(converted: Converted, options: argparse.Namespace) -> dict[str, Any]:
    told: dict[str, Any] = {"output": str(options.output)}
    if converted.reports:
        told["changes"] = [{"what": text, "times": count} for r in converted.reports for text, count in r.summary()]
        told["warnings"] = [remark.text for report in converted.reports for remark in report.warnings]
        told["check"] = asdict(converted.agreement)
    return told


def _print(converted: Converted) -> None:
    for report in converted.reports:
        for text, count in report.summary():
            print(shorten(f"  {counted(text, count)}", 300, elide="end"))
    for remark in (remark for report in converted.reports for remark in report.warnings):
        print(shorten(f"warning: {remark.text}", 500, elide="end"))
    if converted.reports and not converted.is_changed:
        print("there was nothing to change")
    elif converted.is_comparable:
        warns = converted.agreement.agrees is False and converted.is_applied
        print_agreement(converted.agreement, "warning: " if warns else "")
