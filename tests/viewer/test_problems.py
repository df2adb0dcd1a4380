"""Declared types that cannot be: found while the window goes on, mended by a fix."""

from __future__ import annotations

import pytest

from model.document import Document
from model.edits.nodes import rename_node
from tests.model import builders
from viewer.workspace import Workspace


@pytest.fixture
def workspace(qapp):
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 4] x) => (float[M] y) <float[7] a> { a = Concat<axis = 0>(x, x) y = Relu(a) }
    """)
    workspace = Workspace(Document(model), title="wrong")
    yield workspace
    workspace.close()


def wrong(workspace):
    return [p for p in workspace.problems.all if p.rule == "declared-type"]


def test_a_wrong_declaration_is_a_problem_and_its_fix_writes_only_what_is_known(workspace, qtbot):
    workspace.problems.start()
    workspace.types.start()
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 2, timeout=30_000)
    problem = next(p for p in wrong(workspace) if p.place.name == "a")
    assert problem.message == "a is declared float [7]"
    with workspace.document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    assert problem.place.type.shape.dims == (None, 4)
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 1, timeout=30_000)


def test_an_edit_while_types_are_compared_begins_it_again(workspace, qtbot):
    node = next(iter(workspace.model.graph.nodes))
    workspace.problems.start()
    workspace.types.start()

    def rename():
        with workspace.document.edit("Rename") as edit:
            rename_node(edit, node, "other")

    workspace.types.changed.connect(rename)
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 2, timeout=30_000)
