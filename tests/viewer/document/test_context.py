import numpy as np
import pytest

from onnx_workbench.model.edits.nodes import delete_and_bridge
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import RemoveNode, SetField, SetInitializer
from onnx_workbench.model.ir.graph import Function, Model, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.document.navigation import graph_of
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders


def named(workspace, name):
    return next(node for node in workspace.model.graph.nodes if node.name == name)


def test_showing_graphs_keeps_the_way_back_and_forward(workspace, received):
    shown = received(workspace.navigation.graph_shown)
    main, function = workspace.graph, workspace.model.functions[0].body
    body = named(workspace, "branch").bodies[0]
    workspace.navigation.show(function)
    workspace.navigation.show(body)
    workspace.navigation.go_back()
    assert workspace.graph is function
    assert workspace.navigation.history.can_go_forward
    workspace.navigation.go_forward()
    workspace.navigation.go_back()
    workspace.navigation.go_back()
    assert workspace.graph is main
    assert not workspace.navigation.history.can_go_back
    workspace.navigation.show(body)
    assert not workspace.navigation.history.can_go_forward, "a new place ends what could be gone forward to"
    assert shown == [function, body, function, body, function, main, body]


def test_showing_the_graph_shown_adds_no_place(workspace):
    workspace.navigation.show(workspace.graph)
    assert not workspace.navigation.history.can_go_back


def test_up_leads_from_a_body_to_its_node_and_from_a_function_out(workspace):
    branch = named(workspace, "branch")
    workspace.navigation.show(branch.bodies[0])
    workspace.navigation.go_up()
    assert workspace.graph is workspace.model.graph
    assert workspace.selection.items == (branch,)
    workspace.navigation.show(workspace.model.functions[0].body)
    workspace.navigation.go_up()
    assert workspace.graph is workspace.model.graph
    before = workspace.navigation.history.can_go_forward
    workspace.navigation.go_up()
    assert (workspace.graph, workspace.navigation.history.can_go_forward) == (workspace.model.graph, before)


def test_reveal_shows_the_graph_selects_and_asks_for_the_view(workspace, received):
    asked = received(workspace.navigation.reveal_requested)
    inner = next(iter(named(workspace, "branch").bodies[1].nodes))
    workspace.navigation.reveal(inner)
    assert workspace.graph is inner.graph
    assert workspace.selection.items == (inner,)
    assert asked == [inner]
    workspace.navigation.reveal_all([])
    assert asked == [inner]


def test_what_is_gone_is_not_revealed(workspace, received):
    asked = received(workspace.navigation.reveal_requested)
    last = next(node for node in workspace.model.graph.nodes if any(v is not None for v in node.outputs))
    gone = next(v for v in last.outputs if v is not None)
    builders.one_edit(workspace.document, delete_and_bridge, [last])
    assert not is_in_model(gone)
    workspace.navigation.reveal_all([last, gone])
    assert asked == []
    assert workspace.selection.items == ()
    workspace.document.undo()
    workspace.navigation.reveal(gone)
    assert asked == [gone]


def test_a_place_that_leaves_the_model_is_left(workspace):
    branch = named(workspace, "branch")
    inner = next(iter(branch.bodies[0].nodes))
    workspace.navigation.show(branch.bodies[1])
    workspace.navigation.reveal(inner)
    builders.do(workspace.document, RemoveNode(branch))
    assert workspace.graph is workspace.model.graph
    assert workspace.selection.items == ()
    assert not workspace.navigation.history.can_go_forward
    workspace.document.undo()
    workspace.navigation.show(branch.bodies[0])
    assert workspace.graph is branch.bodies[0]


def test_a_function_that_is_removed_is_left(workspace):
    workspace.navigation.show(workspace.model.functions[0].body)
    builders.do(workspace.document, SetField(workspace.model, "functions", ()))
    assert workspace.graph is workspace.model.graph


def test_errors_and_task_errors_become_messages(workspace, received, qtbot):
    reported = received(workspace.messages.shown)
    node = named(workspace, "branch")
    workspace.messages.report(ModelError("Cannot do it", "since", node))

    def work(_progress):
        raise ModelError("Cannot read it")

    workspace.tasks.start("Read", work)
    qtbot.waitUntil(lambda: len(reported) == 2)
    assert [(m.severity, m.title, m.place) for m in reported] == [
        ("error", "Cannot do it", node),
        ("error", "Cannot read it", None),
    ]


def test_run_state_is_reported_when_it_changes(workspace, received):
    reported = received(workspace.runs_changed)
    workspace.set_run_state("ran in 3 ms")
    workspace.set_run_state("ran in 3 ms")
    assert len(reported) == 1


@pytest.mark.parametrize("kind", ["node", "value", "graph", "function", "model"])
def test_every_kind_of_object_has_a_graph_to_be_seen_in(workspace, kind):
    model = workspace.model
    function = model.functions[0]
    item = {
        "node": named(workspace, "call"),
        "value": named(workspace, "call").outputs[0],
        "graph": model.graph,
        "function": function,
        "model": model,
    }[kind]
    assert graph_of(item) is (function.body if kind == "function" else model.graph)


def test_a_function_alone_in_its_file_is_shown_at_once(qapp):
    model = Model()
    model.functions = (Function(domain="my", name="Twice"),)
    workspace = Workspace(Document(model), title="function")
    assert workspace.graph is model.functions[0].body
    assert not workspace.navigation.history.can_go_back
    workspace.close()


def test_a_tensor_alone_in_its_file_is_selected_at_once(qapp):
    model = Model()
    tensor = Value("weights")
    SetInitializer(model.graph, tensor, ArrayTensor(np.zeros(2, np.float32))).apply()
    workspace = Workspace(Document(model), title="tensor")
    assert workspace.selection.items == (tensor,)
    workspace.close()
