"""The inspector, over the small model of every kind and over one of Conv, Cast and Concat."""

from __future__ import annotations

import pytest

from onnx_workbench.model import schemas
from tests.viewer.inspector.inspector_actions import conv_workspace, shown


@pytest.fixture(autouse=True)
def _signatures():
    schemas.preload()


@pytest.fixture
def panel(qtbot, workspace):
    return shown(qtbot, workspace)


@pytest.fixture
def net(qtbot):
    workspace, conv, cast, concat = conv_workspace()
    panel = shown(qtbot, workspace)
    yield panel, workspace, conv, cast, concat
    workspace.close()
