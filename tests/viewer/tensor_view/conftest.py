"""A small chain of nodes, and the tensor panel on it."""

import pytest

from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.tensor_view.tensor_actions import opened


@pytest.fixture
def chain(qapp):
    workspace = Workspace(builders.document(), title="chain")
    yield workspace
    workspace.close()


@pytest.fixture
def panel(qtbot, chain):
    return opened(qtbot, chain)
