"""A run of a model with many nodes: read a little at a time, and lit up as its nodes finish."""

from itertools import pairwise

import onnx
import pytest

from tests.viewer.runs.driving import edit, idle, opened, value

COUNT = 4000


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    names = ["x", *(f"v{number}" for number in range(COUNT))]
    nodes = [onnx.helper.make_node("LeakyRelu", [given], [made], made, alpha=0.5) for given, made in pairwise(names)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in (names[0], names[-1])]
    graph = onnx.helper.make_graph(nodes, "long", ends[:1], ends[1:])
    path = tmp_path / "long.onnx"
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return opened(window, qtbot, path)


def test_the_model_is_read_while_the_window_goes_on(qtbot, workspace):
    turns = []
    workspace.runs.run()
    while not workspace.results.is_running:
        assert workspace.runs.is_running
        qtbot.wait(1)
        turns.append(1)
    assert len(turns) > 1
    idle(qtbot, workspace)
    assert workspace.run_state.startswith(f"Ran {COUNT:,} nodes")


def test_an_edit_while_the_model_is_read_is_in_the_run(qtbot, workspace):
    workspace.runs.run()
    qtbot.wait(1)
    assert not workspace.results.is_running
    edit(workspace, f"v{COUNT - 1}", "alpha", 3.0)
    qtbot.waitUntil(lambda: workspace.results.current is not None, timeout=30_000)
    idle(qtbot, workspace)
    assert workspace.results.is_current
    assert workspace.results.has(value(workspace, "v5"))


def test_a_run_can_be_stopped_while_the_model_is_read(qtbot, workspace):
    workspace.runs.run()
    qtbot.wait(1)
    assert not workspace.results.is_running
    workspace.runs.stop()
    idle(qtbot, workspace)
    qtbot.wait(100)
    assert workspace.results.current is None


def test_nodes_that_finish_light_up_and_the_others_wait(workspace):
    marks = workspace.parent().canvas.marks
    nodes = list(workspace.model.graph.nodes)
    workspace.mark("stale", nodes)
    workspace.unmark("stale", nodes[:1500])
    drawing = marks.scene.drawing
    assert set(marks.boxes["stale"].tolist()) == {box for node in nodes[1500:] for box in drawing.boxes_of(node)}
    workspace.unmark("stale", nodes)
    assert not len(marks.boxes["stale"])
