"""Convert a model: format, opset, precision, IR version, dimensions, names; functions inlined, parts removed.

Changes and warnings are printed; when something cannot be converted, nothing is written. Where results may change,
outputs are compared with those of the original on random inputs. When they differ by more than the new precision
explains, or the model does not run or load any more, nothing is written and the exit status is 1.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onnx_workbench import api
from onnx_workbench.exec.transform.convert import RENAMED, counted
from onnx_workbench.model.analysis.node_subset import tensors_of
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.viewer.cli.arguments import add_check_arguments
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.output import add_output_arguments, print_agreement, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, load_model, print_json, progress, shorten

if TYPE_CHECKING:
    from onnx_workbench.api import Converted


#: What --nodes means for each conversion.
_PART = """\
with --nodes:
  --precision     other nodes keep theirs, with casts between; inputs are converted when all their users are
  --freeze        only names that sizes at these nodes depend on; each is replaced wherever it occurs
  --free          only inputs that these nodes depend on; shapes that depend on them follow
  --functions     inline calls among these nodes; extract blocks that are repeated among them
  --rename        names of these nodes, of their outputs and of the initializers they read
  --strip         from these nodes, their bodies, outputs and initializers; not the producer
  --external      where initializers that these nodes read are stored; others stay where they are
  --opset         refused, as an opset is that of the whole model; lists which of these nodes would change
  --ir-version    refused, as is --sort
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, what to convert, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    _add_meaning_arguments(parser)
    _add_form_arguments(parser)
    add_nodes_argument(parser, "convert only these")
    parser.epilog = _PART
    add_check_arguments(parser, runs=3)
    add_output_arguments(parser)


def _add_meaning_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that change operators and values."""
    parser.add_argument("--opset", type=int, metavar="N", help="convert to this version of ai.onnx")
    parser.add_argument(
        "--ir-version", type=int, metavar="N", help="declare this IR version; newer features of the model are reported"
    )
    parser.add_argument(
        "--precision", choices=("float32", "float16", "bfloat16"), help="precision of weights and computation"
    )
    parser.add_argument(
        "--keep", action="append", default=[], metavar="WHAT",
        help="with --precision: operator or pattern of node names to leave unchanged, or inputs-outputs",
    )  # fmt: skip
    parser.add_argument(
        "--reach", type=float, metavar="DB",
        help="with a lower --precision: keep the fewest nodes in float32 with which outputs reach this ratio of signal "
        "to noise on random inputs",
    )  # fmt: skip
    parser.add_argument(
        "--freeze", action="append", default=[], metavar="NAME=SIZE", help="replace a named dimension by a number"
    )
    parser.add_argument(
        "--free", action="append", default=[], metavar="[INPUT:AXIS=]NAME",
        help="name a dimension of an input, or the first one of all inputs and outputs; dependent shapes follow",
    )  # fmt: skip


def _add_form_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the form of a file but not its meaning."""
    parser.add_argument(
        "--strip", action="append", default=[], metavar="PART",
        help="remove doc, metadata, traces (of Python code), producer, types, inputs (unused ones) or defaults (inputs "
        "become constants)",
    )  # fmt: skip
    parser.add_argument(
        "--functions", choices=("inline", "extract"),
        help="inline all functions, or extract repeated blocks as functions",
    )  # fmt: skip
    parser.add_argument(
        "--rename", action="append", default=[], choices=tuple(RENAMED),
        help="rename nodes, or unnamed ones, by operator and number; values and initializers after their nodes",
    )  # fmt: skip
    parser.add_argument("--sort", action="store_true", help="sort nodes topologically")


def run(options: argparse.Namespace) -> int:
    """Read, convert, compare and write."""
    model = load_model(options)
    with progress("Converting") as converting:
        converted = api.convert(
            model, opset=options.opset, precision=options.precision, keep=options.keep,
            freeze=sizes(options.freeze), free=options.free, functions=options.functions, strip=options.strip,
            rename=options.rename, sort=options.sort, ir_version=options.ir_version, reach=options.reach,
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
    facts: dict[str, Any] = {"output": str(options.output)}
    if options.reach is not None:
        facts["kept"] = converted.kept
    if converted.reports:
        facts["changes"] = [{"what": text, "times": count} for r in converted.reports for text, count in r.summary()]
        facts["warnings"] = [remark.text for report in converted.reports for remark in report.warnings]
        facts["check"] = converted.agreement
    return facts


def _print(converted: Converted) -> None:
    if converted.kept:
        print(shorten(f"  kept in float32: {', '.join(converted.kept)}", 500, elide="end"))
    for report in converted.reports:
        for text, count in report.summary():
            print(shorten(f"  {counted(text, count)}", 300, elide="end"))
    for remark in (remark for report in converted.reports for remark in report.warnings):
        print(shorten(f"warning: {remark.text}", 500, elide="end"))
    if converted.reports and not converted.is_changed:
        print("nothing to change")
    elif converted.is_comparable:
        warns = converted.agreement.agrees is False and converted.is_applied
        print_agreement(converted.agreement, "warning: " if warns else "")
