"""What is done to chosen nodes: at once, or where they are very many on a copy, while the window goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from model.document import Transaction
from model.graph import Node
from viewer.workspace import Workspace

if TYPE_CHECKING:
    from model.passes.rehearsal import Rehearsal
    from model.progress import Progress
    from viewer.passes.whole import Outcome

_MANY = 2_000  # nodes that take about a frame


def change_nodes(
    workspace: Workspace, title: str, chosen: Sequence[Node], change: Callable[[Transaction, Sequence[Node]], object]
) -> None:
    """Do something to nodes of the model as one edit."""
    if len(chosen) <= _MANY:
        with workspace.document.edit(title) as edit:
            change(edit, chosen)
        return
    from viewer.passes.whole import Outcome, WholeEdit

    wanted = set(chosen)

    def work(rehearsal: Rehearsal, progress: Progress) -> Outcome:
        graphs = rehearsal.document.model.graphs()
        copies = [node for graph in graphs for node in graph.nodes if rehearsal.original(node) in wanted]
        with rehearsal.document.edit(title) as edit:
            change(edit, copies)
        progress.check()
        return Outcome(rehearsal.steps())

    WholeEdit(workspace, title, work)
