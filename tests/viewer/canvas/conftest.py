"""Graphs to draw, and a canvas to show them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Function, Model
from onnx_workbench.viewer.canvas.graph_view import GraphView
from onnx_workbench.viewer.run.workspace import Workspace
from tests.viewer.canvas.graphs import Graphs, settle


@pytest.fixture
def small() -> Graphs:
    """x → Conv(w, b) → Relu → Add(Relu, Conv) → y, with names in scopes."""
    g = Graphs()
    g.input("x", 1, 3, 8, 8)
    g.constant("w", np.zeros((8, 3, 3, 3), np.float32))
    g.constant("b", np.zeros(8, np.float32))
    g.node("Conv", ["x", "w", "b"], ["c"], name="/block/conv", kernel_shape=[3, 3], group=1)
    g.node("Relu", ["c"], ["r"], name="/block/relu")
    g.node("Add", ["r", "c"], ["y"], name="/head/add")
    g.outputs("y")
    return g


@pytest.fixture
def branching() -> Graphs:
    """An If whose bodies use an outer value, and a call of a function."""
    g = Graphs()
    g.input("x", 2)
    g.input("flag")
    g.node("Relu", ["x"], ["r"])
    bodies = {}
    for name in ("then_branch", "else_branch"):
        body = Graphs(name, outer=g)
        body.node("Neg" if name == "then_branch" else "Abs", ["r"], [f"{name}_out"])
        body.outputs(f"{name}_out")
        bodies[name] = body.graph
    g.node("If", ["flag"], ["chosen"], name="branch", **bodies)
    g.node("Twice", ["chosen"], ["z"], name="call", domain="local")
    g.outputs("z")
    return g


@pytest.fixture
def branching_model(branching: Graphs) -> Model:
    inner = Graphs("Twice")
    inner.input("a")
    inner.node("Add", ["a", "a"], ["b"])
    inner.outputs("b")
    return branching.model(Function("Twice", "local", body=inner.graph))


@pytest.fixture
def show(qtbot: QtBot) -> Iterator[Callable[..., GraphView]]:
    """`show(model)` is a canvas of 800×600 with the model's main graph laid out and painted."""
    workspaces = []

    def show_model(model: Model, width: int = 800, height: int = 600) -> GraphView:
        workspace = Workspace(Document(model), title="test")
        workspaces.append(workspace)
        view = GraphView(workspace)
        qtbot.addWidget(view)
        view.resize(width, height)
        view.show()
        qtbot.waitUntil(lambda: view.scene is not None and not view.scenes.is_busy)
        settle(view)
        return view

    yield show_model
    for workspace in workspaces:
        workspace.close()
