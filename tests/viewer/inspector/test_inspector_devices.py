"""Device configurations and sharding in the inspector."""

from __future__ import annotations

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from tests.viewer.inspector.inspector_actions import choose, relu, row


def test_how_values_are_sharded_is_shown_and_edited_as_text(panel, workspace, received):
    asked = received(workspace.action_requested)
    axes = (ShardedDimension(0, (("batch", 2),)), ShardedDimension(1, ((3, 3),)))
    spec = ShardingSpec("x", (0, -1), ((-1, (2, 3)),), axes)
    with workspace.document.edit("Shard") as edit:
        edit.do(SetField(relu(workspace), "device_configurations", (NodeDeviceConfiguration("four", (spec,), 2),)))
    workspace.selection.set([relu(workspace)])
    assert row(panel, "devices", "device four").text == "stage 2"
    assert row(panel, "devices", "device four", "sharding 0").text == "axis 0 ÷ 2, axis 1 ÷ 3, devices 0, -1"
    choose(panel, "devices", titles=["Edit Message…"])
    assert asked == ["edit.message"]


def test_the_configurations_of_a_model_are_shown(panel, workspace):
    made = DeviceConfiguration("four", 4), DeviceConfiguration("named", 2, ("gpu:0", "gpu:1"))
    with workspace.document.edit("Devices") as edit:
        edit.do(SetField(workspace.model, "configurations", made))
    workspace.selection.set([workspace.model])
    assert row(panel, "configurations", "configuration 0").text == "4 devices"
    assert row(panel, "configurations", "configuration 1").text == "gpu:0, gpu:1"
