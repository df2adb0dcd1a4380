import pytest

from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInput,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Function, Node, Value
from onnx_workbench.viewer.document.model_signals import ModelSignals, is_in_model, touched_by


@pytest.fixture
def signals(qapp, document, received):
    """What each signal sent, by its name."""
    changes = ModelSignals(document)
    names = (
        "removed",
        "structure_changed",
        "nodes_changed",
        "values_changed",
        "model_changed",
        "changed",
        "state_changed",
    )
    heard_by_name = {name: received(getattr(changes, name)) for name in names}
    yield heard_by_name
    changes.close()


def do(document, *steps):
    with document.edit("Edit") as edit:
        for step in steps:
            edit.do(step)


def named(document, name):
    return next(node for node in document.model.graph.nodes if node.name == name)


def test_a_plain_attribute_changes_its_node_and_no_structure(document, signals):
    node = named(document, "Relu_0")
    do(document, SetAttribute(node, "axis", make_attribute("axis", 1)))
    assert signals["nodes_changed"] == [{node}]
    assert not signals["structure_changed"]
    assert not signals["values_changed"]
    assert len(signals["changed"]) == len(signals["state_changed"]) == 1


def test_an_edit_of_attributes_alone_is_inside_of_nodes(document):
    report = []
    document.subscribe(lambda change: report.append(touched_by(change).is_inside))
    node, branch = named(document, "Relu_0"), named(document, "branch")
    plain = SetAttribute(node, "axis", make_attribute("axis", 1))
    do(document, plain)
    document.undo()
    do(document, plain, SetField(node, "name", "other"))
    body = next(name for name, attribute in branch.attributes.items() if attribute.graphs)
    do(document, SetAttribute(branch, body, None))
    assert report == [True, True, False, False]


def test_taking_a_body_away_changes_structure_and_names_the_body(document, signals):
    node = named(document, "branch")
    body = node.bodies[0]
    do(document, SetAttribute(node, "then_branch", None))
    assert signals["structure_changed"] == [{document.model.graph}]
    assert body in signals["removed"][0]
    document.undo()
    assert len(signals["removed"]) == 1, "what comes back was not removed"
    assert is_in_model(body)


def test_a_removed_node_names_its_graph_its_values_and_its_bodies(document, signals):
    node = named(document, "branch")
    inner = next(iter(node.bodies[0].nodes))
    do(document, RemoveNode(node))
    assert signals["structure_changed"] == [{document.model.graph}]
    assert signals["removed"] == [{node, *node.bodies}]
    assert signals["values_changed"] == [{node.inputs[0], node.outputs[0]}]
    assert not is_in_model(inner)
    document.undo()
    assert signals["structure_changed"][1] == {document.model.graph}
    assert is_in_model(inner)


def test_a_node_that_is_moved_within_one_edit_is_not_removed(document, signals):
    node = named(document, "Neg_1")
    do(document, RemoveNode(node), InsertNode(document.model.graph, node))
    assert signals["removed"] == []
    assert node in signals["nodes_changed"][0]


def test_wires_name_the_values_before_and_after(document, signals):
    node = named(document, "Neg_1")
    before, after = node.inputs[0], document.model.graph.inputs[0]
    do(document, SetInput(node, 0, after))
    assert signals["values_changed"] == [{before, after}]
    assert signals["nodes_changed"] == [{node}]
    assert signals["structure_changed"] == [{node.graph}]
    do(document, SetInputs(node, (before, after)))
    assert signals["values_changed"][1] == {before, after}
    fresh = Value("fresh")
    old = node.outputs[0]
    do(document, SetOutputs(node, (fresh,)))
    assert signals["values_changed"][2] == {old, fresh}


def test_moved_uses_name_every_user_and_the_graphs_they_are_in(document, signals):
    body = named(document, "branch").bodies[0]
    inner = next(iter(body.nodes))
    value, other = document.model.graph.inputs[0], Value("other")
    do(document, SetInputs(inner, (value,)), SetGraphOutputs(body, (*body.outputs, value)))
    users = {user for user, _ in value.uses}
    assert {inner, body} < users
    do(document, MoveUses(value, other, tuple(value.uses)))
    assert signals["nodes_changed"][-1] == {user for user in users if isinstance(user, Node)}
    assert signals["structure_changed"][-1] == {document.model.graph, body}
    assert signals["values_changed"][-1] == {value, other}


def test_the_interface_of_a_graph(document, signals):
    graph = document.model.graph
    dropped = graph.inputs[0]
    do(document, SetGraphInputs(graph, graph.inputs[1:]))
    assert dropped in signals["values_changed"][0]
    value = named(document, "Relu_0").outputs[0]
    do(document, SetGraphOutputs(graph, (*graph.outputs, value)))
    assert value in signals["values_changed"][1]
    assert signals["structure_changed"] == [{graph}, {graph}]


def test_an_initializer_changes_structure_only_when_it_comes_or_goes(document, signals):
    import numpy as np

    from onnx_workbench.model.ir.tensors import ArrayTensor

    graph, value = document.model.graph, document.model.graph.inputs[0]
    do(document, SetInitializer(graph, value, ArrayTensor(np.zeros(3, np.float32))))
    assert len(signals["structure_changed"]) == 1
    do(document, SetInitializer(graph, value, ArrayTensor(np.ones(3, np.float32))))
    assert len(signals["structure_changed"]) == 1
    assert signals["values_changed"] == [{value}, {value}]


@pytest.mark.parametrize(
    ("pick", "field", "value", "signal"),
    [
        (lambda m: m.graph.nodes[0], "name", "new", "nodes_changed"),
        (lambda m: m.graph.inputs[0], "name", "new", "values_changed"),
        (lambda m: m.graph, "name", "new", "model_changed"),
        (lambda m: m, "producer_name", "new", "model_changed"),
        (lambda m: m.functions[0], "doc_string", "new", "model_changed"),
        (lambda m: m.training_info[0], "update_binding", (("w", "v"),), "model_changed"),
    ],
)
def test_fields_by_kind_of_object(document, signals, pick, field, value, signal):
    do(document, SetField(pick(document.model), field, value))
    sent = {name for name, calls in signals.items() if calls}
    assert sent == {signal, "changed", "state_changed"}


def test_a_function_that_goes_takes_its_body_along(document, signals):
    function = document.model.functions[0]
    do(document, SetField(document.model, "functions", ()))
    assert signals["removed"] == [{function, function.body}]
    assert not is_in_model(function.body)
    document.undo()
    assert is_in_model(function.body)


def test_a_new_node_is_received_by_undo_and_redo_alike(document, signals):
    node = Node("Abs", (document.model.graph.inputs[0],), (Value("abs"),))
    do(document, InsertNode(document.model.graph, node))
    document.undo()
    document.redo()
    assert [{node} <= nodes for nodes in signals["nodes_changed"]] == [True] * 3
    assert signals["removed"] == [{node}]


def test_many_edits_are_reported_together_as_one(qapp, received, document):
    each = []
    document.subscribe(each.append)
    changes = ModelSignals(document)
    report = received(changes.changed)
    first, second, kept = named(document, "Relu_0"), Node("Abs", (), (Value("a"),)), Node("Abs", (), (Value("b"),))
    with changes.together():
        do(document, SetAttribute(first, "axis", make_attribute("axis", 1)))
        do(document, InsertNode(document.model.graph, second), InsertNode(document.model.graph, kept))
        do(document, RemoveNode(second))
        assert report == []
    (change,) = report
    assert change.state == document.current.id
    assert (change.steps, change.inverses) == tuple(
        tuple(step for one in each for step in getattr(one, side)) for side in ("steps", "inverses")
    )
    assert changes.touched.nodes >= {first, second, kept}
    assert changes.touched.removed == {second}
    with changes.together():
        pass
    assert len(report) == 1
    document.undo()
    assert len(report) == 2
    changes.close()


def test_one_failing_listener_keeps_no_other_from_being_called(qapp, document):
    changes, report = ModelSignals(document), []
    changes.changed.connect(report.append)

    def fail():
        with changes.together():
            do(document, SetField(document.model, "domain", "d"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(report) == 1
    changes.close()


def test_saving_changes_the_state_alone(document, signals):
    do(document, SetField(document.model, "domain", "d"))
    document.mark_saved()
    assert len(signals["state_changed"]) == 2
    assert len(signals["changed"]) == 1


def test_after_close_nothing_is_received(qapp, document, received):
    changes = ModelSignals(document)
    calls = received(changes.changed)
    changes.close()
    changes.close()
    do(document, SetField(document.model, "domain", "d"))
    assert calls == []


def test_many_functions_are_handled_without_a_linear_search(document):
    """Removing or selecting the nodes of very many functions took the square of their number."""

    class Functions(tuple):
        __slots__ = ()

        def __contains__(self, _function):
            raise AssertionError

    model = document.model
    do(document, SetField(model, "functions", (function := Function("F", "d"), Function("F", "d"))))
    model.functions = Functions(model.functions)
    second = model.functions[1]
    assert is_in_model(function)
    assert is_in_model(second), "of the same name"
    assert is_in_model(second.body)
    do(document, SetField(model, "functions", (function,)))
    assert is_in_model(function)
    assert not is_in_model(second)
