"""Simplify a model: constant folding, removal of what does nothing, fusions. Inputs and outputs stay as they are.

The result is compared with the original on random inputs before it is written; a difference writes nothing and is
exit status 1.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.simplify.pass_list import DEFAULT_PASSES, PASSES
from onnx_workbench.model.simplify.passes import Pass, SimplifyOptions
from onnx_workbench.model.simplify.pipeline import ModelFigures, chosen_passes
from onnx_workbench.viewer.cli.arguments import add_check_arguments, natural
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, print_json, print_table, progress, read_model
from onnx_workbench.viewer.style.formatting import display
from onnx_workbench.viewer.workflows.simplify import Simplification, SimplifyOutcome, refusal_counts, size_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, which passes, limits, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    names = "\n".join(f"  {p.id}{'' if p.is_default else ' (off)'}: {p.title} – {p.doc}" for p in PASSES)
    parser.epilog = f"passes:\n{names}"
    parser.add_argument("--only", metavar="PASS,…", help="run these passes alone")
    parser.add_argument("--skip", metavar="PASS,…", default="", help="leave these out")
    parser.add_argument("--also", metavar="PASS,…", default="", help="run these too, which are off by default")
    add_nodes_argument(parser, "simplify these alone")
    add_check_arguments(parser, runs=3)
    parser.add_argument(
        "--tensor-limit",
        type=natural,
        default=1024,
        metavar="KIB",
        help="how much larger one folded tensor may be (1024)",
    )
    parser.add_argument(
        "--growth-limit", type=natural, default=1024, metavar="KIB", help="how much larger all of them may be (1024)"
    )
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simplify, compare and write."""
    chosen = _passes(arguments)
    model = read_model(arguments.model)
    work, nodes = Simplification(WorkingCopy(model)), chosen_nodes(arguments.nodes, model)
    options = SimplifyOptions(
        tensor_limit=arguments.tensor_limit << 10,
        growth_limit=arguments.growth_limit << 10,
        nodes=None if nodes is None else work.rehearsal.copies(nodes),
    )
    with progress("Simplifying") as running:
        outcome = work.run(chosen, options=options, checks=arguments.check, progress=running)
    differs = outcome.agreement.agrees is False
    if not differs:
        from onnx_workbench.model.history.document import Document

        outcome.apply(Document(model))
        write_model(model, arguments)
    if arguments.json:
        print_json(_facts(outcome))
    else:
        _print(outcome)
    return EXIT_FOUND if differs else EXIT_OK


def _passes(arguments: argparse.Namespace) -> tuple[Pass, ...]:
    wanted = set(arguments.only.split(",")) if arguments.only else {p.id for p in DEFAULT_PASSES}
    wanted |= {name for name in arguments.also.split(",") if name}
    skipped = {name for name in arguments.skip.split(",") if name}
    try:
        chosen_passes(skipped)
        return chosen_passes(wanted - skipped)
    except KeyError as error:
        raise ModelError(f"There is no pass {error.args[0]!r}", "See onnx-workbench simplify --help.") from None


def _facts(outcome: SimplifyOutcome) -> dict[str, object]:
    report = outcome.report
    return {
        "before": _counts(report.before),
        "after": _counts(report.after),
        "applied": report.applied,
        "refused": [{"pass": r.pass_id, "place": _place(r.place), "reason": r.reason} for r in report.refusals],
        "check": asdict(outcome.agreement),
    }


def _counts(figures: ModelFigures) -> dict[str, object]:
    return {
        "nodes": figures.nodes, "parameters": figures.parameters, "bytes": figures.nbytes,
        "operators": dict(figures.operators),
    }  # fmt: skip


def _place(place: object) -> str:
    return place.title if isinstance(place, Node) else str(getattr(place, "name", ""))


def _print(outcome: SimplifyOutcome) -> None:
    report = outcome.report
    titles = {p.id: p.title for p in PASSES}
    for identifier, count in report.applied.items():
        print(f"{count:6}  {titles[identifier]}  ({identifier})")
    if report.applied:
        print()
    print_table(size_table(report))
    for (identifier, reason), count in refusal_counts(report).items():
        print(display(f"not done: {identifier}: {reason}" + (f" ({count} times)" if count > 1 else ""), 300))
    print(display(str(outcome.agreement), 500))
