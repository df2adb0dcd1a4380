"""The nodes that a whole-model tool is limited to, by name: what --nodes says."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from onnx_workbench.model.analysis.by_name import all_nodes_named
from onnx_workbench.model.ir.graph import Model, Node


def add_nodes_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option that limits a command to some nodes."""
    parser.add_argument(
        "--nodes", nargs="+", default=None, metavar="NODE",
        help=f"{what} nodes, by name, with their bodies and constants; nodes in bodies and functions too",
    )  # fmt: skip


def chosen_nodes(names: Sequence[str] | None, *models: Model) -> list[Node] | None:
    """Return all nodes of these names, in any graph; None for whole models. ModelError for unknown names."""
    if names is None:
        return None
    return all_nodes_named(models, names)
