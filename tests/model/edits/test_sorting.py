"""Nodes put into running order: right whatever order they stood in, and moving few."""

from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.analysis.scoping import run_order
from onnx_workbench.model.edits.nodes import sort_nodes
from onnx_workbench.model.history.steps import InsertNode
from tests.examples import examples
from tests.model import builders
from tests.model.snapshots import snapshot


@given(st.permutations(range(7)), st.data())
@settings(max_examples=examples(60))
def test_sorting_gives_the_order_that_nodes_run_in(places, data):
    """Each node takes one or two that come before it in some order; in the file they stand in another."""
    lines = []
    for index in range(7):
        source = data.draw(st.integers(0, index))
        lines.append(f"v{index + 1} = Neg (v{source})" if index % 2 else f"v{index + 1} = Add (v{index}, v{source})")
    body = " ".join(lines[place] for place in places)
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] v0) => (float[2] v7)'
    document = builders.document(f"{head} {{ {body} }}")
    graph, before = document.model.graph, snapshot(document.model)
    expected = run_order(graph)
    moved = builders.one_edit(document, sort_nodes, graph)
    assert list(graph.nodes) == expected
    assert moved == len([step for step in document.current.steps if isinstance(step, InsertNode)])
    document.undo()
    assert snapshot(document.model) == before


def test_sorting_moves_what_stands_wrong_alone():
    lines = ["y = Neg (v5)", *(f"v{i + 1} = Abs (v{i})" for i in range(5))]
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] v0) => (float[2] y) {{ {" ".join(lines)} }}'
    document = builders.document(text)
    with document.edit("Sort") as edit:
        assert sort_nodes(edit, document.model.graph) == 1
