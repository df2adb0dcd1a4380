"""List the problems of a model: rules of the specification, operator signatures, inferred types.

The exit status is 1 when there is an error, 0 when there are only warnings and notes.
"""

from __future__ import annotations

import argparse
from typing import Any

from onnx_workbench import api
from onnx_workbench.model.checks.problem import Problem
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FOUND,
    EXIT_OK,
    load_model,
    print_json,
    print_table,
    progress,
    shorten,
)
from onnx_workbench.viewer.style.labels import name_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, and how much to say."""
    parser.add_argument("model", metavar="MODEL", help="file to read; - reads standard input")
    parser.add_argument("--errors", action="store_true", help="list only errors")
    parser.add_argument("--no-inference", action="store_true", help="check only declared types")


def run(options: argparse.Namespace) -> int:
    """Check and print."""
    model = load_model(options, salvage=True)
    with progress("Checking") as checking:
        problems = api.check(model, infer_types=not options.no_inference, progress=checking)
    if options.errors:
        problems = [p for p in problems if p.severity == "error"]
    if options.json:
        print_json([_facts(p) for p in problems])
    else:
        print_table([_row(p) for p in problems])
        errors = sum(p.severity == "error" for p in problems)
        print(f"{plural(errors, 'error')}, {plural(len(problems) - errors, 'warning or note', 'warnings and notes')}")
    return EXIT_FOUND if any(p.severity == "error" for p in problems) else EXIT_OK


def _row(problem: Problem) -> tuple[str, ...]:
    text = shorten(f"{problem.message.removesuffix('.')}. {problem.detail}".strip(), 400)
    return problem.severity, problem.rule, shorten(where(problem.place), 80), text


def _facts(problem: Problem) -> dict[str, Any]:
    return {
        "severity": problem.severity,
        "rule": problem.rule,
        "place": where(problem.place),
        "message": problem.message,
        "detail": problem.detail,
        "fix": problem.fix.title if problem.fix is not None else None,
    }


def where(place: object) -> str:
    """Return a place as a path: the graph, then the node or value in it."""
    match place:
        case Node() | Value():
            inside = name_of(place.graph) if place.graph is not None else ""
            name = place.name or (f"[{place.op_type}]" if isinstance(place, Node) else "")
            return f"{inside} › {name}"
        case Graph():
            return name_of(place)
        case Function():
            return f"{place.domain}::{place.name}"
        case Model():
            return "model"
        case _:
            return str(place or "")
