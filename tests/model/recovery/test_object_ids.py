"""Numbers for what a journal speaks of: found again at the same places, in lists of any length."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.edits import functions, interface, nodes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetField, SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.object_ids import ObjectIds
from onnx_workbench.model.recovery.recover import find_journals, recover
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.snapshots import assert_linked, snapshot

LONG = 300


def long_document():
    steps = "\n".join(f"v{number + 1} = Relu (v{number})" for number in range(LONG))
    text = f'<ir_version: 10, opset_import: ["" : 21]> long (float[4] v0) => (float[4] v{LONG}) {{ {steps} }}'
    return builders.document(text)


@given(which=st.lists(st.integers(0, LONG - 1), min_size=1, max_size=40), removed=st.sets(st.integers(0, LONG - 1)))
def test_nodes_are_met_again_where_they_were(which, removed):
    models = [long_document().model, long_document().model]
    writing, reading = map(ObjectIds, models)
    for model in models:
        for node in [node for place, node in enumerate(list(model.graph.nodes)) if place in removed]:
            RemoveNode(node).apply()
    here, there = (list(model.graph.nodes) for model in models)
    for place in which if here else ():
        node = here[place % len(here)]
        number = writing.of(node)
        reading.meet_again(json.loads(json.dumps(writing.take_met())))
        assert reading.find(number, Node) is there[place % len(here)]
        number = writing.of(node.outputs[0])
        reading.meet_again(json.loads(json.dumps(writing.take_met())))
        assert reading.find(number, Value) is there[place % len(here)].outputs[0]


def test_an_edit_of_most_nodes_meets_them_all_at_once(tmp_path, dead):
    document = long_document()
    kept = Journal(document, tmp_path)
    with document.edit("Rename") as edit:
        for number, node in enumerate(document.model.graph.nodes):
            edit.do(SetField(node, "name", f"node {number}"))
    with document.edit("Type") as edit:
        for node in document.model.graph.nodes:
            edit.do(SetField(node.outputs[0], "doc_string", "told"))
    met = [step for line in map(json.loads, kept.path.read_text().splitlines()) for step in line.get("steps", ())]
    assert sum("met" in step for step in met) <= 2
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = Document(load(leftover.beginning))
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


def test_what_comes_with_a_step_has_no_place_yet():
    document = builders.document()
    numbers = ObjectIds(document.model)
    inner, graph = Node("Relu", (), (Value("inner"),)), Graph("body")
    InsertNode(graph, inner).apply()
    numbers.new(graph)
    assert numbers.of(inner.outputs[0]) is None
    assert numbers.of(Function("f", "d")) is None
    assert numbers.take_met() == []


@pytest.mark.parametrize(
    "met",
    [
        [1, 0, "functions", 0, "f"],
        [1, 0, "graph", 0, ""][:4],
        [0, 0, "graph", 0, ""],
        ["1", 0, "graph", 0, ""],
        [1, 7, "graph", 0, ""],
        [1, 0, "__class__", 0, "Model"],
        [1, 0, "some", 0, ""],
    ],
)
def test_places_that_nobody_wrote_are_refused(met):
    with pytest.raises((ModelError, ValueError)):
        ObjectIds(builders.document().model).meet_again([met])


def test_nodes_far_from_one_with_a_number_are_refused():
    numbers = ObjectIds(long_document().model)
    with pytest.raises(ModelError, match="does not fit"):
        numbers.meet_again([[1, 0, "graph", 0, ""], [2, 1, "some", 0, ""], [99, 2, "neighbour", 1 << 40, ""]])


def assert_an_undo_after_saving_comes_back(document, kept, path):
    """Save, take the last edit back, and die; the journals are beside the file."""
    save(document.model, path)
    document.mark_saved(path)
    document.undo()
    abandon(kept)
    (leftover,) = find_journals(path.parent)
    again = Document(load(path), path)
    recover(again, leftover)
    assert snapshot(again.model, saved=True) == snapshot(document.model, saved=True)
    assert_linked(again.model)


def test_a_value_comes_back_that_a_save_left_out(tmp_path, dead):
    """Nothing makes or uses it when the model is saved, so that the file does not declare it any more."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
        net (float[4] x) => (float[4] y) <float[4] b> { a = Abs (x) b = Neg (x) c = Exp (b) y = Relu (a) }"""
    document = builders.document(text)
    path = tmp_path / "model.onnx"
    save(document.model, path)
    document = Document(load(path), path)
    kept = Journal(document, tmp_path)
    with document.edit("Remove") as edit:
        for name in ("c", "b"):
            edit.do(RemoveNode(builders.value(document.model, name).producer))
    assert_an_undo_after_saving_comes_back(document, kept, path)


def test_an_input_comes_back_with_its_type_that_was_a_mere_constant_when_it_was_saved(tmp_path, dead):
    document = builders.document(
        '<ir_version: 10, opset_import: ["" : 21]> net (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }'
    )
    graph, weight = document.model.graph, builders.value(document, "w")
    with document.edit("Give it a default") as edit:
        edit.do(SetInitializer(graph, weight, ArrayTensor(np.float32([1, 2]))))
    kept = Journal(document, tmp_path)
    with document.edit("Constant only") as edit:
        interface.input_to_initializer_only(edit, graph, weight)
    assert_an_undo_after_saving_comes_back(document, kept, tmp_path / "model.onnx")


def test_constants_of_a_long_list_are_found_again_while_it_changes(tmp_path, dead):
    """Many at once, from the front, the back and between, and new ones in their places."""
    document = builders.document()
    graph = document.model.graph
    with document.edit("Fill") as edit:
        for number in range(LONG):
            edit.do(SetInitializer(graph, Value(f"c{number}"), ArrayTensor(np.float32([number]))))
    path = tmp_path / "model.onnx"
    save(document.model, path)
    document = Document(load(path), path)
    graph = document.model.graph
    kept = Journal(document, tmp_path / "journals")
    constants = {value.name: value for value in graph.initializers}
    with document.edit("Change") as edit:
        for number in (*range(40), *range(LONG - 1, LONG - 40, -1), *range(100, 200, 3)):
            edit.do(SetInitializer(graph, constants[f"c{number}"], None))
            used = constants[f"c{50 + number % 40}"]
            edit.do(InsertNode(graph, Node("Neg", (used,), (Value(f"n{number}"),), name=f"n{number}")))
            edit.do(SetInitializer(graph, Value(f"d{number}"), ArrayTensor(np.float32([-number])), number % 7))
    abandon(kept)
    (leftover,) = find_journals(tmp_path / "journals")
    again = Document(load(path), path)
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


def recovered(folder, document, text):
    """The same model with the edits that a killed program left in a journal."""
    again = builders.document(text)
    (leftover,) = find_journals(folder)
    recover(again, leftover)
    assert_linked(again.model)
    return again


def test_what_nothing_tells_within_an_edit_is_the_same_value_afterwards(tmp_path, dead):
    document = builders.document(builders.BRANCHES)
    kept = Journal(document, tmp_path)
    d = builders.value(document, "d")
    with document.edit("Leave d without a node that gives it") as edit:
        edit.do(RemoveNode(builders.node(document, "double")))
    with document.edit("Move what alone uses it") as edit:
        functions.extract_function(edit, [builders.node(document, "choose")], "g")
    document.undo()
    with document.edit("Insert behind it") as edit:
        nodes.insert_on_edge(edit, d, "Identity")
    abandon(kept)
    assert snapshot(recovered(tmp_path, document, builders.BRANCHES).model) == snapshot(document.model)


def test_tensors_of_new_values_are_written_out():
    """Whoever reads the journal gives them to the value only after it has its number."""
    document = builders.document(builders.BRANCHES)
    numbers = ObjectIds(document.model)
    tensor = ArrayTensor(np.zeros(4, np.float32))
    made = Value("made", graph=document.model.graph)
    SetInitializer(document.model.graph, made, tensor).apply()
    numbers.new(made)
    assert numbers.tensor(tensor) is None
    w = builders.value(document, "w")
    number = numbers.of(w)
    assert numbers.tensor(w.initializer) == [number]
