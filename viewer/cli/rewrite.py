"""Replace what a model computes by rules: each place of a pattern by a replacement.

A file of rules holds functions in ONNX text. Two of one domain are a rule, which is called as the domain: pattern and
replacement, with the same inputs, outputs and attributes. Inputs stand for any values; constants and attributes must be
equal, and an attribute that is left out must be the default. @name is any attribute, which the replacement may use:

  <domain: "relu_last", opset_import: ["" : 18]>
  pattern <k> (x) => (y) { a = Relu (x)  y = MaxPool <kernel_shape: ints = @k> (a) }
  <domain: "relu_last", opset_import: ["" : 18]>
  replacement <k> (x) => (y) { a = MaxPool <kernel_shape: ints = @k> (x)  y = Relu (a) }

Rules are applied in their order, and again while they find something; none to what it made itself, unless it makes the
model smaller. The result is compared with the original on random inputs before it is written, and loaded by ONNX
Runtime, where that is installed, and onnx.checker. When it differs, nothing is written and the exit status is 1.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.viewer.cli.arguments import add_check_arguments
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.output import add_output_arguments
from onnx_workbench.viewer.cli.simplify import write_simplified
from onnx_workbench.viewer.cli.terminal import load_model, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the rules, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument("--rules", metavar="FILE", required=True, help="patterns and replacements, in ONNX text")
    add_nodes_argument(parser, "rewrite only these")
    add_check_arguments(parser, runs=3)
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Rewrite, compare and write."""
    model = load_model(options)
    with progress("Rewriting") as running:
        nodes = chosen_nodes(options.nodes, model)
        rewritten = api.rewrite(model, options.rules, nodes=nodes, checks=options.check, progress=running)
    return write_simplified(model, rewritten, options)
