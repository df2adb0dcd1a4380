"""Show what is in a model: format, opsets, inputs and outputs, operators, number and size of parameters.

Weights are not read, so it is quick for files of any size. The exit status is 1 when the file ends early.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onnx_workbench import api
from onnx_workbench.model.analysis.name_scopes import AT_A_GLANCE
from onnx_workbench.model.analysis.node_constants import constant_size
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.tensors import element_count
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.model.text.formatting import bytes_text, number_text, plural, type_text
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FOUND,
    EXIT_OK,
    load_model,
    print_json,
    print_table,
    progress,
    shorten,
)

if TYPE_CHECKING:
    from onnx_workbench.model.analysis.name_scopes import Scope
    from onnx_workbench.model.analysis.statistics import Total
    from onnx_workbench.model.analysis.symbolic import AnySize


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, and whether to list everything."""
    parser.add_argument("model", metavar="MODEL", help="file to read; - reads standard input")
    parser.add_argument("--all", action="store_true", help="list all operators and initializers")
    parser.add_argument(
        "--groups",
        action="store_true",
        help=f"print the groups of nodes as the window draws them (up to {AT_A_GLANCE} nodes: with View › Group Nodes)",
    )
    parser.add_argument("--statistics", action="store_true", help="print multiply-adds, activations and parameters too")
    parser.add_argument("--csv", action="store_true", help="with --statistics: print only these, as CSV")
    parser.add_argument(
        "--by",
        choices=("operator", "scope", "node"),
        default="operator",
        help="with --statistics: sum up by operator, scope or node (operator)",
    )
    parser.add_argument(
        "--levels",
        type=int,
        default=1,
        metavar="N",
        help="with --by scope: number of name levels (1)",
    )
    parser.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="with --statistics: size of a named dimension",
    )
    add_nodes_argument(parser, "with --statistics: sum up only these")


def run(options: argparse.Namespace) -> int:
    """Print the facts."""
    if options.nodes is not None and not options.statistics:
        raise ModelError("--nodes cannot be used alone", "It goes with --statistics.")
    if options.csv and (options.json or not options.statistics):
        raise ModelError("--csv cannot be used like this", "It goes with --statistics and without --json.")
    model = load_model(options, salvage=True)
    facts = collect_facts(model, everything=options.all)
    if options.groups:
        facts |= groups(model)
    if options.statistics:
        nodes = chosen_nodes(options.nodes, model)
        facts["statistics"] = costs(model, options.bind, by=options.by, levels=options.levels, nodes=nodes)
    if options.csv:
        _write_csv(facts["statistics"], options.by)
    elif options.json:
        print_json(facts)
    else:
        _print(facts)
        if options.groups:
            _print_groups(facts["groups"], facts["groups_left_out"])
        if options.statistics:
            _print_costs(facts["statistics"], options.by)
    return EXIT_FOUND if model.source is not None and model.source.truncation else EXIT_OK


def collect_facts(model: Model, *, everything: bool = False) -> dict[str, Any]:
    """Return the facts as plain data; texts are as in the file."""
    graphs = list(model.graphs())
    operators = Counter(node.qualified_op_type for graph in graphs for node in graph.nodes)
    initializers = [value for graph in graphs for value in graph.initializers]
    constants = [size for graph in graphs for node in graph.nodes if (size := constant_size(node)) is not None]
    problems = list(model.source.problems) if model.source is not None else []
    facts: dict[str, Any] = {
        "format": str(model.source.format) if model.source is not None else "",
        "ir_version": model.ir_version,
        "opset_imports": {domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))),
        "domain": model.domain,
        "model_version": model.model_version,
        "doc_string": model.doc_string,
        "metadata": dict(model.metadata),
        "graph": model.graph.name,
        "inputs": [_value(value) for value in model.graph.required_inputs],
        "inputs_with_defaults": [_value(value) for value in _overridable(model)],
        "outputs": [_value(value) for value in model.graph.outputs],
        "nodes": sum(len(graph.nodes) for graph in graphs),
        "graphs": len(graphs),
        "operators": dict(operators.most_common()),
        "initializers": len(initializers),
        "parameters": sum(element_count(v.initializer.shape) for v in initializers if v.initializer is not None),
        "initializer_bytes": sum(v.initializer.nbytes for v in initializers if v.initializer is not None),
        "constants": len(constants),
        "constant_parameters": sum(elements for elements, _ in constants),
        "constant_bytes": sum(size for _, size in constants),
        "functions": [{"domain": f.domain, "name": f.name, "overload": f.overload} for f in model.functions],
        "training_graphs": sum(
            graph is not None for t in model.training_info for graph in (t.initialization, t.algorithm)
        ),
        "device_configurations": [configuration.name for configuration in model.configurations],
        "problems": problems,
    }
    if everything:
        facts["all_initializers"] = [_initializer(value) for value in initializers]
    return facts


def groups(model: Model) -> dict[str, Any]:
    """Return the groups of the main graph, each with the indices of its own nodes and the groups in it.

    And the names of scopes that are no groups, as a path leaves them and comes back.
    """
    from onnx_workbench.model.analysis.groups import groups_of

    with progress("Finding groups") as finding:
        tree = groups_of(model.graph, finding)
    index = {node: number for number, node in enumerate(model.graph.nodes)}
    found: dict[Scope, dict[str, Any]] = {
        scope: {"name": scope.name, "nodes": [index[node] for node in scope.nodes], "groups": []}
        for scope in tree.root.walk()
    }
    for scope, facts in found.items():
        facts["groups"] = [found[child] for child in scope.children]
    return {"groups": found[tree.root]["groups"], "groups_left_out": ["/".join(path) for path in tree.left_out]}


def _print_groups(found: Sequence[dict[str, Any]], left_out: Sequence[str]) -> None:
    print("\ngroups")
    if left_out:
        names = shorten(", ".join(left_out), 300)
        print(f"  {plural(len(left_out), 'group')} left out, because a path leaves and re-enters each: {names}")
    elif not found:
        print("  none: no names with scopes, and no blocks that repeat")
    pending = [(group, 1) for group in reversed(found)]
    while pending:
        group, depth = pending.pop()
        print(f"{'  ' * depth}{shorten(group['name'], 100)}  {plural(_count(group), 'node')}")
        pending += [(inner, depth + 1) for inner in reversed(group["groups"])]


def _count(group: dict[str, Any]) -> int:
    return len(group["nodes"]) + sum(_count(inner) for inner in group["groups"])


def costs(
    model: Model,
    bindings: Sequence[str] = (),
    *,
    by: str = "operator",
    levels: int = 1,
    nodes: Sequence[Node] | None = None,
) -> dict[str, Any]:
    """Statistics as plain data: the model, and each operator, scope or node. Formulas where dimensions are not bound.

    Nodes of the same title are summed up; with `nodes` those alone, with their bodies.
    """
    from onnx_workbench.model.analysis.node_subset import part_of
    from onnx_workbench.model.analysis.statistics import scope_of

    with progress("Inferring types") as inferring:
        found = api.statistics(model, sizes=sizes(bindings), progress=inferring)
    if nodes is not None:
        found = found.among(part_of(nodes))
    keys = {
        "operator": lambda node: node.qualified_op_type,
        "scope": lambda node: scope_of(node, levels),
        "node": _node_title,
    }
    groups = sorted(found.by(keys[by]).items(), key=lambda item: -item[1].macs if isinstance(item[1].macs, int) else 0)
    return {"model": _total(found.total()), f"{by}s": {name: _total(total) for name, total in groups}}


def _node_title(node: Node) -> str:
    return node.name or next((f"{node.op_type} of {v.name}" for v in node.outputs if v is not None), node.op_type)


def _total(total: Total) -> dict[str, Any]:
    names = ("macs", "flops", "activations", "activation_bytes")
    return {
        "nodes": total.nodes,
        "parameters": total.parameters,
        "parameter_bytes": total.parameter_bytes,
        **{name: _number(getattr(total, name)) for name in names},
        "unknown": total.unknown,
        "counted_once": total.unsure,
    }


def _number(amount: AnySize) -> int | str:
    from onnx_workbench.model.analysis.symbolic import readable

    return amount if isinstance(amount, int) else readable(amount)


def _print_costs(totals: dict[str, Any], by: str) -> None:
    print("\nstatistics")
    keys = ("nodes", "parameters", "macs", "activations", "unknown")
    header = (by, "nodes", "parameters", "multiply-adds", "activations", "unknown")
    lines = [*totals[f"{by}s"].items(), ("all", totals["model"])]
    rows = [(shorten(name, 60) or "(no scope)", *(_cell(total[key]) for key in keys)) for name, total in lines]
    print_table([header, *rows], indent="  ")


def _write_csv(totals: dict[str, Any], by: str) -> None:
    """A row for each operator, scope or node, numbers in full. Sums are left to its reader."""
    from onnx_workbench.model.analysis.symbolic import ungrouped
    from onnx_workbench.viewer.tables.csv_file import as_cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow((by, *totals["model"]))
    for name, total in totals[f"{by}s"].items():
        writer.writerow((as_cell(name), *(ungrouped(amount) for amount in total.values())))


def _cell(amount: int | str) -> str:
    return number_text(amount) if isinstance(amount, int) else shorten(amount, 60, elide="end")


def _value(value: Value) -> dict[str, str]:
    return {"name": value.name, "type": type_text(value.type)}


def _initializer(value: Value) -> dict[str, Any]:
    tensor = value.initializer
    assert tensor is not None
    return {
        "name": value.name,
        "element_type": getattr(tensor.element_type, "text", str(tensor.element_type)),
        "shape": list(tensor.shape),
        "bytes": tensor.nbytes,
        "problem": tensor.problem,
    }


_MOST_OPERATORS = 15


def _overridable(model: Model) -> list[Value]:
    """Return the inputs with a default; before IR version 4 every initializer is one, which says nothing."""
    return [value for value in model.graph.inputs if value.initializer is not None and model.ir_version >= 4]


def _print(facts: dict[str, Any]) -> None:
    rows = [
        ("format", facts["format"]),
        ("IR version", str(facts["ir_version"])),
        ("opsets", ", ".join(f"{domain} {version}" for domain, version in facts["opset_imports"].items())),
        ("producer", facts["producer"]),
        ("domain", facts["domain"]),
        ("model version", str(facts["model_version"] or "")),
        ("graph", facts["graph"]),
        ("nodes", _node_text(facts)),
        ("initializers", _weight_text(facts, "initializers", "parameters", "initializer_bytes")),
        ("constants", _weight_text(facts, "constants", "constant_parameters", "constant_bytes")),
        ("functions", ", ".join(f"{f['domain']}::{f['name']}" for f in facts["functions"])),
        ("training", plural(facts["training_graphs"], "graph") if facts["training_graphs"] else ""),
        ("devices", ", ".join(facts["device_configurations"])),
        ("description", facts["doc_string"]),
        *((shorten(f"metadata {key}", 100), value) for key, value in facts["metadata"].items()),
    ]
    print_table([(name, shorten(text, 300, elide="end")) for name, text in rows if text])
    for title in ("inputs", "inputs with defaults", "outputs"):
        values = facts[title.replace(" ", "_")]
        if values or title != "inputs with defaults":
            print(f"\n{title}")
            print_table([(shorten(v["name"], 100), v["type"]) for v in values], indent="  ")
    if facts["operators"]:
        print("\noperators")
        listed = list(facts["operators"].items())
        shown = listed if "all_initializers" in facts else listed[:_MOST_OPERATORS]
        print_table([(f"{number_text(count):>7}", shorten(name, 100)) for name, count in shown], indent="  ")
        if len(shown) < len(listed):
            print(f"  … and {len(listed) - len(shown)} more kinds (--all lists them)")
    _print_initializers(facts.get("all_initializers", ()))
    for problem in facts["problems"]:
        print(f"\nwarning: {shorten(problem, 500, elide='end')}")


def _print_initializers(initializers: Sequence[dict[str, Any]]) -> None:
    if initializers:
        print("\ninitializers")
    for one in initializers:
        shape = "×".join(map(str, one["shape"])) or "scalar"
        cells = (shorten(one["name"], 100), one["element_type"], shape, bytes_text(one["bytes"]))
        print(("  " + "  ".join(cells) + f"  {shorten(one['problem'], 300)}").rstrip())


def _node_text(facts: dict[str, Any]) -> str:
    text = number_text(facts["nodes"])
    return f"{text} in {plural(facts['graphs'], 'graph')}" if facts["graphs"] > 1 else text


def _weight_text(facts: dict[str, Any], count: str, parameters: str, size: str) -> str:
    """Return the number of initializers or Constant nodes, and of their elements."""
    if not facts[count]:
        return ""
    return f"{number_text(facts[count])} with {plural(facts[parameters], 'parameter')}, {bytes_text(facts[size])}"
