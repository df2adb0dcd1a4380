"""Declared types that cannot be: found while the window goes on, mended by a fix."""

from __future__ import annotations

import pytest

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.opening import added


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


def test_the_fix_of_a_wrong_declaration_writes_only_facts(workspace, qtbot):
    workspace.problems.start()
    workspace.types.start()
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 2)
    problem = next(p for p in wrong(workspace) if p.place.name == "a")
    assert problem.message == "a is declared float [7]"
    with workspace.document.edit(problem.fix.title) as edit:
        problem.fix.apply(edit)
    assert problem.place.type.shape.dims == (None, 4)
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 1)


def test_a_wrong_size_is_a_warning_and_a_wrong_element_type_an_error(qapp, qtbot):
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[4] x) => (float[4] y, float[5] z) { y = Cast<to = 7>(x) z = Cast<to = 1>(x) }
    """)
    workspace = Workspace(Document(model), title="declared")
    try:
        workspace.problems.start()
        workspace.types.start()
        qtbot.waitUntil(lambda: len(wrong(workspace)) == 2)
        assert {p.place.name: p.severity for p in wrong(workspace)} == {"y": "error", "z": "warning"}
    finally:
        workspace.close()


def test_an_edit_while_types_are_compared_begins_it_again(workspace, qtbot):
    node = next(iter(workspace.model.graph.nodes))
    workspace.problems.start()
    workspace.types.start()

    def rename():
        builders.one_edit(workspace.document, rename_node, node, "other")

    workspace.types.changed.connect(rename)
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 2)


def test_only_edits_that_change_types_or_problems_report_them(workspace, qtbot):
    """All labels of the graph are written anew for it, and the graph painted."""
    workspace.problems.start()
    workspace.types.start()
    qtbot.waitUntil(lambda: len(wrong(workspace)) == 2)
    report = []
    workspace.types.changed.connect(lambda: report.append("types"))
    workspace.problems.changed.connect(lambda: report.append("problems"))
    node = next(iter(workspace.model.graph.nodes))
    with qtbot.waitSignal(workspace.types.known), workspace.document.edit("Describe") as edit:
        edit.do(SetAttribute(node, "measured", make_attribute("measured", 1)))
    qtbot.waitUntil(lambda: workspace.problems.finished)
    assert report in ([], ["problems"] * len(report))  # an attribute of no meaning is one
    report.clear()
    with qtbot.waitSignal(workspace.types.known), workspace.document.edit("Describe") as edit:
        edit.do(SetAttribute(node, "measured", make_attribute("measured", 2)))
    assert report == []
    with qtbot.waitSignal(workspace.types.known), workspace.document.edit("Turn") as edit:
        edit.do(SetAttribute(node, "axis", make_attribute("axis", 1)))
    assert "types" in report


def test_nodes_in_whose_closed_bodies_something_is_wrong_are_marked(window, qtbot):
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (bool c, float[N] x) => (float[N] z)
        {
            y = If (c) <then_branch = t () => (float[N] a) { a = Relu(x) },
                        else_branch = e () => (float[N] b) {
                            b = If (c) <then_branch = i () => (float[N] d) { d = Missing(x) },
                                        else_branch = j () => (float[N] f) { f = Relu(x) }> }>
            z = Relu(y)
        }
    """)
    tab = added(window, qtbot, model)
    outer = next(iter(model.graph.nodes))

    def marked():
        return () if tab.view.marks is None else list(tab.view.marks.boxes.get("errors", ()))

    qtbot.waitUntil(lambda: len(marked()) == 1)
    assert marked() == tab.view.scene.drawing.boxes_of_nodes([outer])


WRONG_INSIDE = """
    <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    g (float[2] x, bool c) => (float[2] y)
    {
        [call] u = l.outer (x) [fine] v = Relu (u)
        [choice] y = If (c) <
            then_branch: graph = yes () => (p) { [b] p = l.inner (v) },
            else_branch: graph = no () => (q) { [other] q = Neg (v) }
        >
    }
    <domain: "l", opset_import: ["" : 21, "l" : 1]> outer (s) => (t) { [c] t = l.inner (s) }
    <domain: "l", opset_import: ["" : 21]> inner (s) => (t) { [wrong] t = NoSuch (s) }
"""


def test_problems_inside_show_at_the_nodes_around(window, qtbot, tmp_path):
    path = tmp_path / "wrong.onnx"
    path.write_bytes(to_bytes(builders.model(WRONG_INSIDE)))
    window.files.open([path])
    qtbot.waitUntil(lambda: bool(window.tabs()) and window.tabs()[-1].view.scene is not None)
    tab = window.tabs()[-1]

    def marked():
        view = tab.view
        return {view.scene.boxes[box].subject.name for box in view.marks.boxes.get("errors", ())}

    qtbot.waitUntil(lambda: marked() == {"call", "choice"})
    wrong = next(node for graph in tab.workspace.model.graphs() for node in graph.nodes if node.name == "wrong")
    builders.do(tab.workspace.document, SetField(wrong, "op_type", "Abs"))
    qtbot.waitUntil(lambda: not marked())


def test_a_call_that_a_function_does_not_fit_is_a_problem(qapp, qtbot):
    model = builders.model("""
        <ir_version: 10, opset_import: ["" : 18, "f" : 1]>
        g (float[3] x) => (float[3] y) { a = Cast<to = 7>(x) [good] b = f.Sum(x, x) [bad] c = f.Sum(x, a) y = Relu(b) }
        <domain: "f", opset_import: ["" : 18]> Sum (p, q) => (r) { r = Add(p, q) }
    """)
    workspace = Workspace(Document(model), title="calls")
    workspace.problems.start()
    workspace.types.start()

    def misfits():
        return [p.message for p in workspace.problems.all if p.rule == "type"]

    try:
        qtbot.waitUntil(lambda: len(misfits()) == 1)
        assert misfits() == ["q of Add is tensor(int64), p is tensor(float) in the call bad"]
        builders.do(workspace.document, SetAttribute(model.graph.nodes[0], "to", make_attribute("to", 1)))
        qtbot.waitUntil(lambda: not misfits())
        workspace.document.undo()
        qtbot.waitUntil(lambda: len(misfits()) == 1)
    finally:
        workspace.close()


def test_a_large_change_without_problems_is_not_reported(workspace, qtbot):
    """With thousands of problems, listing and marking all of them takes longer than a frame."""
    problems, node = workspace.problems, next(iter(workspace.model.graph.nodes))
    problems.start()
    qtbot.waitUntil(lambda: problems.finished)
    known, report = list(problems.all), []
    problems.changed.connect(lambda: report.append("changed"))
    with workspace.document.edit("Rename") as edit:
        edit.repeat(SetField(node, "name", f"n{number}") for number in range(6_000))
    assert not problems.finished
    qtbot.waitUntil(lambda: problems.finished and not problems.checking)
    assert report == []
    assert problems.all == known
