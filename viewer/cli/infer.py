"""Infer types and shapes and write them into a model: of all values, or of the outputs of some nodes."""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.model.checks.models import check_properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.inference.onnx_comparison import compare_with_onnx
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.text.formatting import display, plural, type_text
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, load_model, print_json, print_message, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, rules for unknown operators, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument(
        "--rule", action="append", default=[], metavar="DOMAIN::OP=RULE",
        help='output types of an unknown operator, such as "my.domain::Quant=same as input 0"',
    )  # fmt: skip
    parser.add_argument(
        "--compare-with-onnx",
        action="store_true",
        help="list values of which onnx's own inference says something else, or more",
    )
    add_nodes_argument(parser, "write only types of the outputs of these")
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Infer and write."""
    model = load_model(options)
    nodes = chosen_nodes(options.nodes, model)
    with progress("Inferring types") as inferring:
        inferred = api.infer(model, rules=_rules(options.rule), nodes=nodes, progress=inferring)
    differences = compare_with_onnx(model, inferred) if options.compare_with_onnx else []
    write_model(model, options)
    endless = [problem for problem in check_properties(model) if problem.rule == "recursion"]
    if options.json:
        facts = {"output": str(options.output), "known": len(inferred.types), "written": inferred.written}
        told = [{"value": d.value.name, "type": _text(d.ours), "onnx": _text(d.theirs)} for d in differences]
        facts |= {"onnx": told} if options.compare_with_onnx else {}
        print_json(facts | {"recursive": [problem.place.name for problem in endless]})
    else:
        print(f"{plural(len(inferred.types), 'type')} known, {plural(inferred.written, 'declaration')} written")
        for found in differences:
            print(f"{display(found.value.name, 80)} is {_text(found.ours)}, in onnx's inference {_text(found.theirs)}")
        if options.compare_with_onnx and not differences:
            print("onnx's inference says nothing else")
    for problem in endless:
        print_message("error", f"{problem.message}, so the types of its results are unknown")
    return EXIT_FOUND if endless else EXIT_OK


def _text(kind: Type | None) -> str:
    return "unknown" if kind is None else type_text(kind)


def _rules(given: list[str]) -> dict[str, str]:
    rules = {}
    for text in given:
        operator, equals, rule = text.partition("=")
        if not equals:
            raise ModelError(f"{text!r} is not a rule", 'Write it as "my.domain::Operator=same as input 0".')
        rules[operator] = rule
    return rules
