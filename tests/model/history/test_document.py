import numpy as np
import pytest

from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
)
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot


@pytest.fixture
def document():
    return builders.document()


def rename(document, name, title="Rename", merge=""):
    node = document.model.graph.nodes.first
    with document.edit(title, merge=merge) as edit:
        edit.do(SetField(node, "name", name))


def remove_twice(document):
    node = builders.node(document, "second")
    with document.edit("Half") as edit:
        edit.do(RemoveNode(node))
        edit.do(RemoveNode(node))


def test_an_edit_that_raises_leaves_no_trace(document):
    before, received = snapshot(document.model), []
    document.subscribe(received.append)
    with pytest.raises(ValueError, match="is in no graph"):
        remove_twice(document)
    assert snapshot(document.model) == before
    assert_linked(document.model)
    assert received == []
    assert document.undo_title is None
    assert not document.modified


def test_merged_steps_are_one_edit_and_a_failure_leaves_none(document):
    before = snapshot(document.model)
    third, fourth = builders.node(document, "third"), builders.node(document, "fourth")
    steps = [SetField(third, "name", "new"), SetField(fourth, "doc_string", "text")]
    with pytest.raises(ValueError, match="is in no graph"), document.edit("Fails") as edit:
        edit.repeat([*steps, RemoveNode(fourth), RemoveNode(fourth)])
    assert snapshot(document.model) == before
    with document.edit("Works") as edit:
        edit.repeat(steps)
    assert (third.name, fourth.doc_string) == ("new", "text")
    document.undo()
    assert snapshot(document.model) == before


def test_an_inner_edit_joins_the_outer_one_and_rolls_back_alone(document):
    with document.edit("Outer") as edit:
        edit.do(SetField(document.model, "doc_string", "kept"))
        with pytest.raises(ValueError, match="is in no graph"):
            remove_twice(document)
        assert builders.node(document, "second") is not None
    assert document.model.doc_string == "kept"
    assert [e.title for e in document.entries()][1:] == ["Outer"]


def test_an_edit_that_changes_nothing_is_not_in_the_history(document):
    revision = document.revision
    rename(document, "first")
    assert document.undo_title is None
    assert document.revision == revision


def test_listeners_receive_the_steps_of_edit_undo_and_redo(document):
    received = []
    end = document.subscribe(received.append)
    rename(document, "new")
    document.undo()
    document.redo()
    assert [c.kind for c in received] == ["edit", "undo", "redo"]
    assert [c.steps[0].value for c in received] == ["new", "first", "new"]
    assert [c.revision for c in received] == [1, 2, 3]
    assert received[0].state == received[2].state != received[1].state
    end()
    document.undo()
    assert len(received) == 3


def test_typing_merges_into_one_entry_until_the_gesture_ends(document):
    for text in ("n", "ne", "new"):
        rename(document, text, merge="name")
    assert len(list(document.entries())) == 2
    document.end_gesture()
    rename(document, "newer", merge="name")
    assert len(list(document.entries())) == 3
    document.undo()
    assert document.model.graph.nodes.first.name == "new"
    document.undo()
    assert document.model.graph.nodes.first.name == "first"


def test_a_gesture_that_ends_where_it_began_disappears(document):
    rename(document, "f", merge="name")
    rename(document, "first", merge="name")
    assert document.undo_title is None
    assert not document.modified
    assert document.redo_title is None


def test_a_state_has_an_id_of_its_own_even_while_merging(document):
    states = set()
    document.subscribe(lambda change: states.add(change.state))
    for text in ("n", "ne", "new"):
        rename(document, text, merge="name")
    assert len(states) == 3


def test_modified_follows_the_saved_state(document):
    assert not document.modified
    rename(document, "a")
    document.mark_saved()
    assert not document.modified
    rename(document, "b")
    assert document.modified
    document.undo()
    assert not document.modified
    document.undo()
    assert document.modified


def test_saving_in_the_middle_of_a_gesture_is_remembered(document):
    rename(document, "n", merge="name")
    document.mark_saved()
    rename(document, "ne", merge="name")
    assert document.modified
    document.undo()
    assert not document.modified


def test_abandoned_branches_can_be_visited(document):
    rename(document, "a", "A")
    rename(document, "ab", "B")
    at_b = document.current
    document.undo()
    rename(document, "ac", "C")
    assert [e.title for e in document.entries()][1:] == ["A", "B", "C"]
    document.go_to(at_b)
    assert document.model.graph.nodes.first.name == "ab"
    document.undo()
    assert document.redo_title == "B"
    document.go_to(document.root)
    assert document.model.graph.nodes.first.name == "first"


def test_undo_inside_an_edit_is_a_bug(document):
    rename(document, "a")
    with pytest.raises(RuntimeError, match="inside an edit"), document.edit("Edit"):
        document.undo()


def test_steps_refuse_what_would_break_the_links(document):
    graph = document.model.graph
    with pytest.raises(ValueError, match="already in a graph"):
        InsertNode(graph, builders.node(document, "first")).apply()
    with pytest.raises(ValueError, match="is in no graph"):
        RemoveNode(Node("Relu")).apply()
    with pytest.raises(ValueError, match="has no field 'inputs'"):
        SetField(graph, "inputs", ()).apply()


@pytest.mark.parametrize("order", [1, -1, 7])
def test_many_initializers_leave_and_come_back_in_their_places(document, order):
    graph = document.model.graph
    with document.edit("Add") as edit:
        for number in range(1000):
            edit.do(SetInitializer(graph, Value(f"n{number}"), ArrayTensor(np.zeros(1, np.float32))))
    before = list(graph.initializers)
    leaving = before[::order] if abs(order) == 1 else [before[(i * order) % len(before)] for i in range(len(before))]
    with document.edit("Remove") as edit:
        for value in leaving[:900]:
            edit.do(SetInitializer(graph, value, None))
    assert graph.initializers == [value for value in before if value not in leaving[:900]]
    with document.edit("Replace") as edit:
        for value in leaving[900:]:
            edit.do(SetInitializer(graph, value, ArrayTensor(np.ones(1, np.float32))))
    document.undo()
    document.undo()
    assert graph.initializers == before


def test_a_listener_that_is_being_called_makes_no_edit():
    document = builders.document()
    report = []

    def answer(change):
        report.append(change.title)
        builders.do(document, SetField(document.model.graph, "name", "answer"))

    ending = document.subscribe(answer)
    document.subscribe(lambda change: report.append(change.title))
    with pytest.raises(RuntimeError, match="being called for another"), document.edit("Rename") as edit:
        edit.do(SetField(document.model.graph, "name", "renamed"))
    assert report == ["Rename", "Rename"]
    ending()
    document.undo()
    assert report[2:] == ["Rename"]


def test_undo_gives_the_lists_of_a_graph_back_themselves():
    document = builders.document()
    graph = document.model.graph
    before = graph.inputs, graph.outputs, graph.declared
    new = Value("new")
    with document.edit("Lists") as edit:
        edit.do(SetGraphInputs(graph, (*graph.inputs, new)))
        edit.do(SetGraphOutputs(graph, (new,)))
        edit.do(SetField(graph, "declared", (new,)))
    assert new in graph.inputs
    document.undo()
    assert all(now is then for now, then in zip((graph.inputs, graph.outputs, graph.declared), before, strict=True))
    assert new not in graph.inputs
