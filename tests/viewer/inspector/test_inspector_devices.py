"""Device configurations and sharding through the inspector's widgets."""

from __future__ import annotations

import pytest

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from tests.viewer.inspector.inspector_actions import press, relu, row, write


@pytest.fixture
def spread(panel, workspace):
    """The panel with a node that takes part in a configuration of four devices."""
    with workspace.document.edit("Devices") as edit:
        edit.do(SetField(workspace.model, "configurations", (DeviceConfiguration("four", 4),)))
        edit.do(SetField(relu(workspace), "device_configurations", (NodeDeviceConfiguration("four"),)))
    workspace.selection.set([relu(workspace)])
    return panel


def test_how_values_are_sharded_is_shown_and_edited_as_text(qtbot, spread, workspace):
    asked = []
    workspace.action_requested.connect(asked.append)
    of = ("devices", "device four")
    axes = (ShardedDimension(0, (("batch", 2),)), ShardedDimension(1, ((3, 3),)))
    spec = ShardingSpec("x", (0, -1), ((-1, (2, 3)),), axes)
    with workspace.document.edit("Shard") as edit:
        edit.do(SetField(relu(workspace), "device_configurations", (NodeDeviceConfiguration("four", (spec,)),)))
    qtbot.waitUntil(lambda: row(spread, *of, "sharding 0").text == "axis 0 ÷ 2, axis 1 ÷ 3, devices 0, -1")
    press(qtbot, spread, *of, title="Edit Message…")
    assert asked == ["edit.message"]


def test_devices_are_given_to_a_node_with_a_stage(qtbot, panel, workspace):
    with workspace.document.edit("Devices") as edit:
        edit.do(SetField(workspace.model, "configurations", (DeviceConfiguration("four", 4),)))
    workspace.selection.set([relu(workspace)])
    write(qtbot, panel, "devices", "+", text="four")
    write(qtbot, panel, "devices", "device four", text="2")
    assert [one.pipeline_stage for one in relu(workspace).device_configurations] == [2]


def test_a_stage_has_32_bits(qtbot, spread, workspace):
    write(qtbot, spread, "devices", "device four", text=str(1 << 31))
    assert "32 bits" in spread.tree.fields.error_text


def test_nodes_follow_a_configuration_that_is_renamed_and_removed(qtbot, spread, workspace):
    workspace.selection.set([workspace.model])
    write(qtbot, spread, "configurations", "configuration 0", text="quad", column=0)
    assert relu(workspace).device_configurations[0].configuration_id == "quad"
    write(qtbot, spread, "configurations", "configuration 0", text="gpu:0, gpu:1")
    assert workspace.model.configurations == (DeviceConfiguration("quad", 2, ("gpu:0", "gpu:1")),)
    press(qtbot, spread, "configurations", "configuration 0", title="Remove")
    assert relu(workspace).device_configurations == ()
