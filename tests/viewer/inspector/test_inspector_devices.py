"""Device configurations and sharding through the inspector's widgets."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.devices import (
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardedDimension,
    ShardingSpec,
)
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.viewer.inspector.inspector_actions import press, relu, row, write


@pytest.fixture
def spread(panel, workspace):
    """The panel with a node that takes part in a configuration of four devices."""
    with workspace.document.edit("Devices") as edit:
        edit.do(SetField(workspace.model, "configurations", (DeviceConfiguration("four", 4),)))
        edit.do(SetField(relu(workspace), "device_configurations", (NodeDeviceConfiguration("four"),)))
    workspace.selection.set([relu(workspace)])
    return panel


def sharding(workspace):
    return relu(workspace).device_configurations[0].sharding


def test_a_value_is_spread_over_devices_and_groups(qtbot, spread, workspace):
    of = ("devices", "device four")
    write(qtbot, spread, *of, "+", text="x")
    write(qtbot, spread, *of, "sharding 0", "groups", text="-1 = 2, 3")
    write(qtbot, spread, *of, "sharding 0", "devices", text="0, -1")
    assert (row(spread, *of, "sharding 0").text, row(spread, *of, "sharding 0").expanded) == ("on devices 0, -1", True)
    write(qtbot, spread, *of, "sharding 0", "axes", text="0: batch in 2; 1: 3 in 3")
    axes = (ShardedDimension(0, (("batch", 2),)), ShardedDimension(1, ((3, 3),)))
    assert sharding(workspace) == (ShardingSpec("x", (0, -1), ((-1, (2, 3)),), axes),)
    assert row(spread, *of, "sharding 0").text == "axis 0 ÷ 2, axis 1 ÷ 3, devices 0, -1"
    press(qtbot, spread, *of, "sharding 0", title="Remove")
    assert sharding(workspace) == ()
    workspace.document.undo()
    assert sharding(workspace)[0].tensor_name == "x"


def test_devices_just_given_to_a_node_are_open_for_its_values(qtbot, panel, workspace):
    with workspace.document.edit("Devices") as edit:
        edit.do(SetField(workspace.model, "configurations", (DeviceConfiguration("four", 4),)))
    workspace.selection.set([relu(workspace)])
    write(qtbot, panel, "devices", "+", text="four")
    assert row(panel, "devices", "device four").expanded
    write(qtbot, panel, "devices", "device four", text="2")
    assert not row(panel, "devices", "device four").expanded


def test_what_does_not_fit_is_refused_at_its_field(qtbot, spread, workspace):
    of = ("devices", "device four")
    write(qtbot, spread, *of, "+", text="nobody")
    assert "no input or output 'nobody'" in spread.tree.fields.error_text
    qtbot.keyClick(spread.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, spread, *of, "+", text="x")
    for key, text, said in (
        ("devices", "0, 9", "no device 9"),
        ("groups", "0, 1", "not a device group"),
        ("axes", "2: N in 2", "no axis 2"),
        ("axes", "rows in 2", "not understood"),
    ):
        write(qtbot, spread, *of, "sharding 0", key, text=text)
        assert said in spread.tree.fields.error_text, text
        qtbot.keyClick(spread.tree.editor, Qt.Key.Key_Escape)
    assert sharding(workspace) == (ShardingSpec("x"),)


def test_axes_of_a_value_whose_type_is_only_inferred_are_known(qtbot, spread, workspace, monkeypatch):
    of = ("devices", "device four")
    value = relu(workspace).outputs[0]
    monkeypatch.setattr(workspace.types, "type_of", lambda _: TensorType(ElementType.FLOAT, Shape((2, 3))))
    assert value.type is None
    write(qtbot, spread, *of, "+", text=value.name)
    write(qtbot, spread, *of, "sharding 0", "axes", text="9: 4 in 2")
    assert "no axis 9" in spread.tree.fields.error_text


def test_a_sharding_moves_to_another_value(qtbot, spread, workspace):
    of = ("devices", "device four")
    write(qtbot, spread, *of, "+", text="x")
    write(qtbot, spread, *of, "sharding 0", text="v0", column=0)
    assert sharding(workspace) == (ShardingSpec("v0"),)


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
