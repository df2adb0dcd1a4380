"""Ids of what a journal speaks of: found again in the file, read by another program."""

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
from onnx_workbench.model.io.writer.save import save, to_bytes
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.object_ids import BaseIds, WrittenIds, read_base_ids
from onnx_workbench.model.recovery.recover import find_journals, recover
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.snapshots import assert_linked, snapshot

LONG = 300


def long_document():
    steps = "\n".join(f"v{number + 1} = Relu (v{number})" for number in range(LONG))
    text = f"long (float[4] v0) => (float[4] v{LONG}) {{ {steps} }}"
    return builders.document(text)


def test_edits_of_all_nodes_of_a_long_list_come_back(tmp_path, dead):
    document = long_document()
    kept = Journal(document, tmp_path)
    with document.edit("Rename") as edit:
        for number, node in enumerate(document.model.graph.nodes):
            edit.do(SetField(node, "name", f"node {number}"))
    with document.edit("Type") as edit:
        for node in document.model.graph.nodes:
            edit.do(SetField(node.outputs[0], "doc_string", "report"))
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = Document(load(leftover.baseline))
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


def read_again(model):
    """The ids of a model's objects, and another copy of it as a journal with these finds it."""
    entry = json.loads(json.dumps(BaseIds(model).entry()))
    again = load(to_bytes(model))
    return entry, again, read_base_ids(again, entry)


@pytest.mark.parametrize("text", [builders.CHAIN, builders.BRANCHES])
@given(removed=st.sets(st.integers(0, 20)))
def test_what_is_in_a_file_has_the_ids_of_what_was_written(text, removed):
    model = builders.model(text)
    nodes_there = [node for graph in model.graphs() for node in graph.nodes]
    for place in removed:
        if place < len(nodes_there) and nodes_there[place].graph is not None:
            RemoveNode(nodes_there[place]).apply()
    _, again, found = read_again(model)
    for ours, theirs in zip(model.graphs(), again.graphs(), strict=True):
        assert found[ours.id] is theirs
        for node, same in zip(ours.nodes, theirs.nodes, strict=True):
            assert found[node.id] is same
            assert [value and found[value.id] for value in node.inputs] == list(same.inputs)
            assert [value and found[value.id] for value in node.outputs] == list(same.outputs)
        assert [found[value.id] for value in ours.outputs] == list(theirs.outputs)
        assert {found[value.id] for value in ours.initializers} == set(theirs.initializers)


def test_ids_of_a_file_as_opened_are_a_few_runs():
    assert len(BaseIds(long_document().model).entry()["ids"]) < 10


def test_inputs_beside_one_with_a_default_have_references():
    """One with a default has two places, so its id is written twice."""
    document = builders.document(
        "g (float[1] a, float[1] b = {1.0}, float[1] c) => (float[1] y) { s = Add (a, b) y = Add (s, c) }"
    )
    ids = BaseIds(document.model)
    assert [value.id in ids for value in document.model.graph.inputs] == [True] * 3


def test_what_is_in_no_model_has_no_reference():
    model = builders.document().model
    written = WrittenIds(BaseIds(model), set(), None, lambda _piece: (0, 0))
    inner, graph = Node("Relu", (), (Value("inner"),)), Graph("body")
    InsertNode(graph, inner).apply()
    assert written.of(inner.outputs[0]) is written.of(Function("f", "d")) is None
    number = written.new(graph)
    assert written.of(graph) == number == graph.id


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": []},
        {"ids": [[1, 1 << 60]]},
        {"ids": [[1, 1 << 60], [1, -(1 << 60)]]},
        {"ids": "all"},
        {"names": 0},
        {"undefined": [[1, 2, 3]]},
        {"undefined": [[1 << 70, 1 << 71, 0]]},
        {"declared": [[1 << 70, 1 << 71, ""]]},
        {"declared": [[]]},
        {"declared": None},
    ],
)
def test_ids_that_fit_no_model_are_refused(tmp_path, dead, wrong):
    document = builders.document()
    kept = Journal(document, tmp_path)
    builders.do(document, SetField(document.model.graph, "name", "other"))
    abandon(kept)
    (path,) = tmp_path.glob("*.journal")
    first, *rest = path.read_text().splitlines(keepends=True)
    header = json.loads(first)
    header["objects"] |= wrong
    path.write_text("".join([json.dumps(header) + "\n", *rest]))
    (leftover,) = find_journals(tmp_path)
    again = builders.document()
    with pytest.raises(ModelError, match=r"does not fit|damaged"):
        recover(again, leftover)
    assert again.model.graph.name != "other"


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
    text = """
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


def test_an_input_that_was_a_constant_comes_back_with_its_type(tmp_path, dead):
    document = builders.document("net (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }")
    graph, weight = document.model.graph, builders.value(document, "w")
    builders.do(document, SetInitializer(graph, weight, ArrayTensor(np.float32([1, 2]))))
    kept = Journal(document, tmp_path)
    builders.one_edit(document, interface.input_to_initializer_only, graph, weight)
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


def test_a_value_unseen_within_an_edit_stays_the_same_value(tmp_path, dead):
    document = builders.document(builders.BRANCHES)
    kept = Journal(document, tmp_path)
    d = builders.value(document, "d")
    builders.do(document, RemoveNode(builders.node(document, "double")))
    builders.one_edit(document, functions.extract_function, [builders.node(document, "choose")], "g")
    document.undo()
    builders.one_edit(document, nodes.insert_on_edge, d, "Identity")
    abandon(kept)
    assert snapshot(recovered(tmp_path, document, builders.BRANCHES).model) == snapshot(document.model)


def test_tensors_of_the_base_file_are_written_as_references():
    document = builders.document(builders.BRANCHES)
    w, tensor = builders.value(document, "w"), ArrayTensor(np.zeros(4, np.float32))
    written = WrittenIds(BaseIds(document.model), set(), None, lambda _piece: (0, 0))
    assert written.tensor(w.initializer) == [w.id]
    assert written.tensor(tensor) is None
