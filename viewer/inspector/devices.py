"""Rows for the device configurations of a model and for a node's shardings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from onnx_workbench.model.edits import devices, nodes, properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.text.attributes import parse_int
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.canvas.scene.node_text import cut_text
from onnx_workbench.viewer.inspector.common import act, add_row, name_of, section
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction, Suggestion
from onnx_workbench.viewer.run.workspace import Workspace

_STAGES = range(-(1 << 31), 1 << 31)  # pipeline_stage has 32 bits


def devices_section(workspace: Workspace, node: Node) -> list[PropertyRow]:
    """Return the section of a node's device configurations; None where the model has none."""
    known = workspace.model.configurations
    mine = node.device_configurations
    if not known and not mine:
        return []

    def rows() -> Sequence[PropertyRow]:
        return [*(_node_row(workspace, node, i) for i in range(len(mine))), _add_to_node(workspace, node)]

    return [section("devices", "Devices", len(mine), rows, common=False)]


def _node_row(workspace: Workspace, node: Node, index: int) -> PropertyRow:
    configuration = node.device_configurations[index]
    name = configuration.configuration_id
    stage = configuration.pipeline_stage

    def set_stage(edit: Transaction, text: str) -> None:
        number = parse_int(text) if text.strip() else None
        if number is not None and number not in _STAGES:
            raise ModelError(f"{number} cannot be a pipeline stage", "Stages have 32 bits.", node)
        devices.set_device_configuration(edit, node, index, replace(configuration, pipeline_stage=number))

    def set_name(edit: Transaction, text: str) -> None:
        changed = replace(configuration, configuration_id=text.strip())
        devices.set_device_configuration(edit, node, index, changed)

    row = PropertyRow(f"device {name}", display(name, 80), "no stage" if stage is None else f"stage {stage}")
    row.field = PropertyField(
        f"Set pipeline stage of {name_of(node)}",
        lambda: "" if stage is None else str(stage),
        set_stage,
        hint="pipeline stage; empty for none",
    )
    row.label_field = PropertyField(
        f"Set device configuration of {name_of(node)}", lambda: name, set_name, choices=partial(_choices, workspace)
    )
    row.note = plural(len(configuration.sharding), "sharded value") if configuration.sharding else ""
    row.expanded = bool(configuration.sharding)
    row.children = [
        PropertyRow(
            f"sharding {position}", display(spec.tensor_name, 80), _sharding_text(spec), tip=_sharding_text(spec)
        )
        for position, spec in enumerate(configuration.sharding)
    ]
    remove = act(
        workspace,
        f"Remove devices of {name_of(node)}",
        lambda edit: devices.set_device_configuration(edit, node, index, None),
    )
    row.actions = (
        RowAction("Edit Message…", lambda: workspace.trigger("edit.message"), "edit", "message"),
        RowAction("Remove", remove, "delete", "remove"),
    )
    return row


def _sharding_text(spec: ShardingSpec) -> str:
    """Return how a value is sharded: axes with their parts, and devices or groups of devices."""
    where = f"devices {', '.join(map(str, spec.devices))}" if spec.devices else ""
    cut = cut_text(spec) if spec.dimensions or not where else ""
    return display(f"{cut}, {where}" if cut and where else cut or f"on {where}", 300)


def _choices(workspace: Workspace) -> tuple[Suggestion, ...]:
    return tuple(Suggestion(c.name, plural(c.num_devices, "device")) for c in workspace.model.configurations)


def _add_to_node(workspace: Workspace, node: Node) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        configuration = NodeDeviceConfiguration(text.strip())
        nodes.set_device_configurations(edit, node, (*node.device_configurations, configuration))

    title, hint = f"Add devices to {name_of(node)}", "name of a configuration"
    field = PropertyField(title, str, add, choices=partial(_choices, workspace), hint=hint)
    return add_row("Add devices", field)


# -- the model's ----------------------------------------------------------------------------------------------


def configurations_section(workspace: Workspace, model: Model) -> PropertyRow:
    """Return the section of the model's device configurations."""
    configurations = model.configurations

    def rows() -> Sequence[PropertyRow]:
        return [*(_model_row(workspace, model, i) for i in range(len(configurations))), _add_to_model(model)]

    return section("configurations", "Device configurations", len(configurations), rows)


def _model_row(workspace: Workspace, model: Model, index: int) -> PropertyRow:
    configuration = model.configurations[index]
    name = configuration.name

    def set_devices(edit: Transaction, text: str) -> None:
        have = model.configurations
        properties.set_configurations(edit, (*have[:index], _parse(configuration, text), *have[index + 1 :]))

    row = PropertyRow(f"configuration {index}", display(name, 80), display(_text(configuration), 300))
    row.note = plural(configuration.num_devices, "device") if configuration.devices else ""
    row.tip = "Number of devices, or their names."
    row.field = PropertyField(f"Set devices of {display(name, 60)}", lambda: _text(configuration), set_devices)
    row.label_field = PropertyField(
        f"Rename {display(name, 60)}",
        lambda: name,
        lambda edit, text: devices.rename_configuration(edit, configuration, text.strip()),
    )
    removing = act(
        workspace, f"Remove {display(name, 60)}", lambda edit: devices.remove_configuration(edit, configuration)
    )
    row.actions = (RowAction("Remove", removing, "delete", "remove"),)
    return row


def _text(configuration: DeviceConfiguration) -> str:
    return ", ".join(configuration.devices) if configuration.devices else str(configuration.num_devices)


def _parse(before: DeviceConfiguration, text: str) -> DeviceConfiguration:
    """Parse a number of devices, or their names."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(parts) == 1 and parts[0].lstrip("-").isdecimal():
        number = parse_int(parts[0])
        if not 0 < number < 1 << 31:
            raise ModelError(f"{number} devices are not possible", "Write a number of 1 or more.")
        return replace(before, num_devices=number, devices=())
    if not parts:
        raise ModelError("A configuration needs devices", "Write how many there are, or their names.")
    return replace(before, num_devices=len(parts), devices=parts)


def _add_to_model(model: Model) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        name, equals, written = text.partition("=")
        if not name.strip():
            raise ModelError("A configuration needs a name", "Write name = cpu:0, cpu:1 or name = 2.")
        made = _parse(DeviceConfiguration(name.strip(), 1), written if equals else "1")
        properties.set_configurations(edit, (*model.configurations, made))

    return add_row("Add", PropertyField("Add device configuration", str, add, hint="name = devices"))
