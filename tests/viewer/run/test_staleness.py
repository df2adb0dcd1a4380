"""Which results a change makes out of date, without a window."""

import pytest

from onnx_workbench.model.edits import functions, nodes, properties, tensor_metadata, tensors
from onnx_workbench.model.edits.tensors import TensorLocation
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.run.results.staleness import outdated, rewires, sources
from tests.model import builders


@pytest.fixture
def received():
    """A document, and the last change it reported."""
    document = builders.document(builders.BRANCHES)
    changes = []
    document.subscribe(changes.append)
    return document, changes


def test_moved_uses_make_out_of_date_what_uses_the_other_value_now(received):
    document, changes = received
    doubled, x = builders.value(document, "d"), builders.value(document, "x")
    builders.one_edit(document, nodes.replace_uses, doubled, x)
    assert rewires(changes[-1])
    assert sources(changes[-1]) == {builders.node(document, "inner")}
    assert {"inner", "choose", "call"} <= {getattr(thing, "name", "") for thing in outdated(sources(changes[-1]))}


def test_another_result_of_a_body_makes_its_node_out_of_date(received):
    document, changes = received
    returned, x = builders.value(document, "yes_out"), builders.value(document, "x")
    builders.one_edit(document, nodes.replace_uses, returned, x)
    assert sources(changes[-1]) == {builders.node(document, "choose")}
    document.undo()
    assert sources(changes[-1]) == {builders.node(document, "choose")}


CONSTANTS = """
g (float[2] x) => (float[2] y) <float[2] w = {3, 4}>
{
    [k] k = Constant <value = float[2] {3, 4}> ()
    [a] a = Add (x, k) [y] y = Mul (a, w)
}
"""


def places():
    document = builders.document(CONSTANTS)
    constant = builders.node(document, "k")
    return document, [TensorLocation(builders.value(document, "w")), TensorLocation(constant, "value")]


@pytest.mark.parametrize("which", [0, 1])
def test_texts_of_a_tensor_leave_results_as_they_are(which):
    document, found = places()
    changes = []
    document.subscribe(changes.append)
    for text in ("first", "second"):
        builders.one_edit(document, tensor_metadata.describe_tensor, found[which], text)
    document.undo()
    assert len(changes) == 3
    assert not any(sources(change) for change in changes)
    with document.edit("Change") as edit:
        tensors.set_tensor_at(edit, found[which], tensors.set_element(tensors.tensor_at(found[which]), (0,), "7"))
    assert sources(changes[-1]) == {found[which].owner}
    builders.one_edit(document, tensor_metadata.describe_tensor, found[which], "of values in memory")
    assert not sources(changes[-1])


def test_texts_of_functions_and_models_leave_results_as_they_are(received):
    document, changes = received
    function = document.model.functions[0]
    with document.edit("Describe") as edit:
        properties.set_text(edit, function, "doc_string", "what it does")
        properties.set_text(edit, document.model, "doc_string", "all of it")
        functions.add_function(edit, "uncalled", "new")
    assert not sources(changes[-1])


def test_other_functions_and_opsets_make_their_users_stale(received):
    document, changes = received
    call, function = builders.node(document, "call"), document.model.functions[0]
    builders.do(document, SetField(document.model, "functions", (Cloner().function(function),)))
    assert sources(changes[-1]) == {call}
    builders.one_edit(document, properties.set_opset, document.model, "", 20)
    assert call not in sources(changes[-1])
    assert builders.node(document, "inner") in sources(changes[-1])


@pytest.mark.parametrize(("attributes", "is_stale"), [("", True), ("<seed: float = 1.0>", False)])
def test_another_name_makes_random_numbers_out_of_date_that_go_by_it(attributes, is_stale):
    document = builders.document(f"""
    g (float[2] x) => (float[2] y) {{ [noise] r = RandomNormalLike {attributes} (x) [sum] y = Add (x, r) }}""")
    changes = []
    document.subscribe(changes.append)
    noise = builders.node(document, "noise")
    with document.edit("Rename") as edit:
        nodes.rename_node(edit, noise, "dice")
        nodes.rename_node(edit, builders.node(document, "sum"), "total")
    assert sources(changes[-1]) == ({noise} if is_stale else set())
