"""Outputs that come and go one by one, and functions that get another name."""

import pytest

from onnx_workbench.model.edits import functions, interface, nodes, properties
from onnx_workbench.model.errors import ModelError
from tests.model import builders
from tests.model.snapshots import on_rollback


@pytest.fixture
def document():
    return builders.document(builders.BRANCHES)


@pytest.fixture(autouse=True)
def _undone_at_the_end(document):
    with on_rollback(document):
        yield


def test_outputs_come_and_go_one_by_one(document):
    node = builders.node(document, "double")
    with document.edit("Produce") as edit:
        third = nodes.produce_output(edit, node, 2)
        assert nodes.produce_output(edit, node, 2) is third
    assert node.outputs[1] is None
    assert third.producer is node
    builders.one_edit(document, nodes.drop_output, node, 2)
    assert len(node.outputs) == 1


def test_an_output_in_use_stays(document):
    node = builders.node(document, "double")
    with pytest.raises(ModelError, match="Output d is used"), document.edit("Drop") as edit:
        nodes.drop_output(edit, node, 0)


def test_calls_follow_a_function_to_its_new_name_and_domain(document):
    function, call = document.model.functions[0], builders.node(document, "call")
    builders.one_edit(document, functions.rename_function, function, name="times", domain="other")
    assert function.key == ("other", "times", "")
    assert (call.domain, call.op_type) == ("other", "times")
    assert "other" in document.model.opset_imports
    assert function.body.name == "times"  # which texts about values in it are written with


def test_a_function_keeps_its_name_if_the_new_one_is_invalid(document):
    function = document.model.functions[0]
    builders.one_edit(document, functions.add_function, "second")
    for name in ("", "second"):
        with pytest.raises(ModelError), document.edit("Rename") as edit:
            functions.rename_function(edit, function, name=name)
    assert function.name == "scale"


def test_calls_follow_inputs_and_outputs_whoever_changes_them(document):
    function, call = document.model.functions[0], builders.node(document, "call")
    body, passed, result = function.body, call.inputs[0], call.outputs[0]
    with document.edit("Change") as edit:
        added = interface.add_input(edit, body, "bias")
        interface.reorder_inputs(edit, body, body.inputs[::-1])
        interface.add_output(edit, body, builders.value(document, "f"))
        interface.reorder_outputs(edit, body, body.outputs[::-1])
    assert body.inputs == (added, builders.value(document, "v"))
    assert call.inputs == (None, passed)
    assert call.outputs[1] is result
    with document.edit("Back") as edit:
        interface.remove_output(edit, body, builders.value(document, "f"))
        interface.remove_input(edit, body, added)
    assert (call.inputs, call.outputs) == ((passed,), (result,))


def test_the_body_of_a_function_has_no_texts_that_would_be_lost(document):
    body = document.model.functions[0].body
    with document.edit("Describe") as edit:
        for act in (
            lambda: properties.set_text(edit, body, "doc_string", "lost"),
            lambda: properties.set_metadata(edit, body, "key", "lost"),
            lambda: properties.set_quantization_annotations(edit, body, ()),
        ):
            with pytest.raises(ModelError, match="body of a function has no properties"):
                act()


def test_a_function_keeps_an_output_that_a_call_passes_on(document):
    function, call = document.model.functions[0], builders.node(document, "call")
    formal = function.body.outputs[0]
    with pytest.raises(ModelError, match=f"Output {formal.name} is used") as caught, document.edit("Remove") as edit:
        interface.remove_output(edit, function.body, formal)
    assert caught.value.place is call.outputs[0]
    with document.edit("Free") as edit:
        for graph in {user for user, _ in call.outputs[0].uses}:
            interface.remove_output(edit, graph, call.outputs[0])
        interface.remove_output(edit, function.body, formal)
    assert (function.body.outputs, call.outputs) == ((), ())
