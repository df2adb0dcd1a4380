"""Simplify a model: fold constants, remove what has no effect, fuse operators. Inputs and outputs stay unchanged.

The result is compared with the original on random inputs before it is written, and loaded by ONNX Runtime, where that
is installed, and onnx.checker. When it differs, nothing is written and the exit status is 1.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.api import Simplified
from onnx_workbench.exec.transform.simplify import refusal_counts, size_table
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.simplify.pass_list import all_passes
from onnx_workbench.model.simplify.pipeline import ModelFigures
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.cli.arguments import add_check_arguments, natural
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.output import add_output_arguments, print_agreement, write_model
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FOUND,
    EXIT_OK,
    load_model,
    print_json,
    print_table,
    progress,
    shorten,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, which passes, limits, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    names = "\n".join(f"  {p.id}{'' if p.is_default else ' (off)'}: {p.title} – {p.doc}" for p in all_passes())
    parser.epilog = f"passes:\n{names}"
    parser.add_argument("--only", metavar="PASS,…", help="run only these passes")
    parser.add_argument("--skip", metavar="PASS,…", default="", help="do not run these passes")
    parser.add_argument("--also", metavar="PASS,…", default="", help="also run these passes, which are off by default")
    parser.add_argument("--rules", metavar="FILE", help="also apply the rules of a file, as rewrite does")
    add_nodes_argument(parser, "simplify only these")
    add_check_arguments(parser, runs=3)
    parser.add_argument(
        "--tensor-limit",
        type=natural,
        default=1024,
        metavar="KIB",
        help="largest growth by one folded tensor (1024)",
    )
    parser.add_argument(
        "--growth-limit", type=natural, default=1024, metavar="KIB", help="largest growth by all folded tensors (1024)"
    )
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Simplify, compare and write."""
    model = load_model(options)
    with progress("Simplifying") as running:
        simplified = api.simplify(
            model, only=_listed(options.only) if options.only else None, skip=_listed(options.skip),
            also=_listed(options.also), nodes=chosen_nodes(options.nodes, model), rules=options.rules,
            tensor_limit=options.tensor_limit << 10, growth_limit=options.growth_limit << 10, checks=options.check,
            progress=running,
        )  # fmt: skip
    return write_simplified(model, simplified, options)


def write_simplified(model: Model, simplified: Simplified, options: argparse.Namespace) -> int:
    """Write the model unless it was left as it was, and print what was done; returns the exit status."""
    if simplified.is_applied:
        write_model(model, options)
    if options.json:
        print_json(_facts(simplified))
    else:
        _print(simplified)
    return EXIT_OK if simplified.is_applied else EXIT_FOUND


def _listed(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _facts(simplified: Simplified) -> dict[str, object]:
    report = simplified.report
    return {
        "before": _counts(report.before),
        "after": _counts(report.after),
        "applied": report.applied,
        "refused": [{"pass": r.pass_id, "place": _place_name(r.place), "reason": r.reason} for r in report.refusals],
        "failed": report.failed,
        "check": simplified.agreement,
    }


def _counts(figures: ModelFigures) -> dict[str, object]:
    return {
        "nodes": figures.nodes, "parameters": figures.parameters, "bytes": figures.nbytes,
        "operators": dict(figures.operators),
    }  # fmt: skip


def _place_name(place: object) -> str:
    return place.title if isinstance(place, Node) else str(getattr(place, "name", ""))


def _print(simplified: Simplified) -> None:
    report = simplified.report
    titles = {p.id: p.title for p in all_passes()}
    for identifier, count in report.applied.items():
        name = display(identifier, 60)
        print(f"{count:6}  {titles[identifier]}  ({name})" if identifier in titles else f"{count:6}  {name}")
    if report.applied:
        print()
    print_table(size_table(report))
    for (identifier, reason), count in refusal_counts(report).items():
        print(shorten(f"not done: {identifier}: {reason}" + (f" ({count} times)" if count > 1 else ""), 300))
    for identifier, reason in report.failed.items():
        print(shorten(f"warning: {identifier} failed and was skipped ({reason})", 300))
    print_agreement(simplified.agreement)
