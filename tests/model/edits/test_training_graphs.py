"""Graphs of training: what they see of the model, which is theirs too while a step runs."""

import pytest

from onnx_workbench.model.checks.checker import Checker
from onnx_workbench.model.edits import interface, nodes, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model import builders
from tests.model.snapshots import assert_known, on_rollback


@pytest.fixture
def document():
    return builders.document(trained=True)


@pytest.fixture(autouse=True)
def _undone_at_the_end(document):
    with on_rollback(document):
        yield


def graph(document):
    return document.model.training_info[0].algorithm


def errors(document):
    return [problem for problem in Checker(document).run() if problem.severity == "error"]


def test_what_the_model_computes_is_used_and_no_problem(document):
    assert builders.node(document, "loss").inputs[0] is document.model.graph.outputs[0]
    assert not errors(document)


def test_renaming_follows_into_training_and_its_bindings(document):
    with document.edit("Rename") as edit:
        values.rename_value(edit, builders.value(document, "y"), "result")
        values.rename_value(edit, builders.value(document, "w"), "weight")
        values.rename_value(edit, builders.value(document, "w_new"), "updated")
    assert_known(document.model)
    again = Document(load(to_bytes(document.model)))
    assert builders.node(again, "loss").inputs == (again.model.graph.outputs[0],)
    assert again.model.training_info[0].update_binding == (("weight", "updated"),)
    assert not errors(again)


@pytest.mark.parametrize(("old", "new"), [("r", "t"), ("t", "r"), ("x", "rate"), ("w_new", "w")])
def test_a_name_stands_for_one_value_in_both(document, old, new):
    with pytest.raises(ModelError, match=f"value named {new} already"), document.edit("Rename") as edit:
        values.rename_value(edit, builders.value(document, old), new)


def test_fresh_names_differ_from_those_of_the_other_graph(document):
    with document.edit("Add") as edit:
        assert interface.add_input(edit, document.model.graph, "t").name == "t_1"
        assert interface.add_input(edit, graph(document), "r").name == "r_1"


def test_a_node_of_training_takes_constants_and_results_of_the_model(document):
    update = builders.node(document, "update")
    with document.edit("Connect") as edit:
        values.connect(edit, update, 1, builders.value(document, "b"))
        values.connect(edit, builders.node(document, "scaled"), 0, builders.value(document, "r"))
        nodes.add_node(edit, graph(document), "Neg", [builders.value(document, "x")])
    again = Document(load(to_bytes(document.model)))
    assert builders.node(again, "update").inputs[1] is builders.value(again, "b")
    assert not errors(again)


def test_the_model_takes_nothing_from_training(document):
    with pytest.raises(ModelError, match="cannot be connected"), document.edit("Connect") as edit:
        values.connect(edit, builders.node(document, "second"), 0, builders.value(document, "t"))


def test_an_initialization_sees_constants_alone(document):
    from onnx_workbench.model.edits import properties
    from onnx_workbench.model.ir.graph import Graph

    info = document.model.training_info[0]
    with document.edit("Add") as edit:
        properties.set_training_graph(edit, info, "initialization", Graph("start"))
        node = nodes.add_node(edit, info.initialization, "Neg", [builders.value(document, "w")])
        with pytest.raises(ModelError, match="not visible"):
            values.connect(edit, node, 0, builders.value(document, "r"))


def test_what_only_training_uses_is_alive(document):
    checker = Checker(document)
    with document.edit("Use") as edit:
        node = nodes.add_node(edit, document.model.graph, "Neg", [builders.value(document, "r")])
        values.connect(edit, builders.node(document, "loss"), 0, node.outputs[0])
    for fresh in (checker, Checker(document)):
        assert "dead-node" not in {problem.rule for problem in fresh.run()}
    builders.one_edit(document, values.connect, builders.node(document, "loss"), 0, builders.value(document, "y"))
    for fresh in (checker, Checker(document)):
        assert [problem.place for problem in fresh.run() if problem.rule == "dead-node"] == [node]
    checker.close()
