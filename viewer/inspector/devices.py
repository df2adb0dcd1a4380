"""Rows that show the device configurations of a model and a node's shardings; Edit Message changes them."""

from __future__ import annotations

from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.canvas.scene.node_text import cut_text
from onnx_workbench.viewer.inspector.common import editing_message, section
from onnx_workbench.viewer.property_tree.rows import PropertyRow
from onnx_workbench.viewer.run.workspace import Workspace


def devices_section(workspace: Workspace, node: Node) -> list[PropertyRow]:
    """Return the section of a node's device configurations, if it has any."""
    return _section(workspace, "devices", "Devices", [_node_row(one) for one in node.device_configurations])


def configurations_section(workspace: Workspace, model: Model) -> list[PropertyRow]:
    """Return the section of the model's device configurations, if it has any."""
    rows = [_model_row(index, one) for index, one in enumerate(model.configurations)]
    return _section(workspace, "configurations", "Device configurations", rows)


def _section(workspace: Workspace, key: str, title: str, rows: list[PropertyRow]) -> list[PropertyRow]:
    return [section(key, title, len(rows), rows, actions=[editing_message(workspace)], common=False)] if rows else []


def _node_row(configuration: NodeDeviceConfiguration) -> PropertyRow:
    name, stage = configuration.configuration_id, configuration.pipeline_stage
    row = PropertyRow(f"device {name}", display(name, 80), "no stage" if stage is None else f"stage {stage}")
    row.note = plural(len(configuration.sharding), "sharded value") if configuration.sharding else ""
    row.expanded = bool(configuration.sharding)
    row.children = [
        PropertyRow(
            f"sharding {position}", display(spec.tensor_name, 80), _sharding_text(spec), tip=_sharding_text(spec)
        )
        for position, spec in enumerate(configuration.sharding)
    ]
    return row


def _sharding_text(spec: ShardingSpec) -> str:
    """Return how a value is sharded: axes with their parts, and devices or groups of devices."""
    where = f"devices {', '.join(map(str, spec.devices))}" if spec.devices else ""
    cut = cut_text(spec) if spec.dimensions or not where else ""
    return display(f"{cut}, {where}" if cut and where else cut or f"on {where}", 300)


def _model_row(index: int, configuration: DeviceConfiguration) -> PropertyRow:
    count, names = plural(configuration.num_devices, "device"), ", ".join(configuration.devices)
    row = PropertyRow(f"configuration {index}", display(configuration.name, 80), display(names, 300) or count)
    row.note = count if names else ""
    return row
