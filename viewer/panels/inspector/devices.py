"""Rows for device configurations: those of a model, and a node's part in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.attributetext import parse_int
from model.document import Transaction
from model.edits import nodes, properties
from model.errors import ModelError
from model.graph import DeviceConfiguration, Model, Node, NodeDeviceConfiguration, ShardingSpec
from viewer.panels.inspector.common import act, add_row, name_of, section
from viewer.text import display, plural
from viewer.widgets.fields.rows import Field, Row, RowAction, Suggestion
from viewer.workspace import Workspace


def devices_section(workspace: Workspace, node: Node) -> list[Row]:
    """A node's device configurations; no section where the model has none."""
    known = workspace.model.configurations
    mine = node.device_configurations
    if not known and not mine:
        return []

    def rows() -> Sequence[Row]:
        return [*(_node_row(workspace, node, i) for i in range(len(mine))), _add_to_node(workspace, node)]

    return [section("devices", "Devices", len(mine), rows, common=False)]


def _node_row(workspace: Workspace, node: Node, index: int) -> Row:
    mine = node.device_configurations
    configuration = mine[index]
    name = configuration.configuration_id
    stage = configuration.pipeline_stage

    def apply(edit: Transaction, text: str) -> None:
        stage = parse_int(text) if text.strip() else None
        _set(edit, node, index, replace(configuration, pipeline_stage=stage))

    title = f"Set pipeline stage of {name_of(node)}"
    row = Row(f"device {name}", display(name, 80), "no stage" if stage is None else f"stage {stage}")
    row.field = Field(title, lambda: "" if stage is None else str(stage), apply, hint="pipeline stage; empty for none")
    row.note = plural(len(configuration.sharding), "sharded value") if configuration.sharding else ""
    row.children = [_sharding_row(spec, i) for i, spec in enumerate(configuration.sharding)] or None
    row.actions = (
        RowAction(
            "Remove",
            act(workspace, f"Remove devices of {name_of(node)}", lambda edit: _set(edit, node, index, None)),
            "delete",
            "remove",
        ),
    )
    return row


def _set(edit: Transaction, node: Node, index: int, configuration: NodeDeviceConfiguration | None) -> None:
    mine = node.device_configurations
    middle = () if configuration is None else (configuration,)
    nodes.set_device_configurations(edit, node, (*mine[:index], *middle, *mine[index + 1 :]))


def _sharding_row(spec: ShardingSpec, index: int) -> Row:
    parts = [f"devices {', '.join(map(str, spec.devices[:16]))}"] if spec.devices else []
    for dimension in spec.dimensions[:8]:
        shards = ", ".join(f"{'?' if size is None else size} in {count}" for size, count in dimension.shards[:8])
        parts.append(f"axis {dimension.axis}: {shards}")
    return Row(f"sharding {index}", display(spec.tensor_name, 80), display("; ".join(parts), 300))


def _add_to_node(workspace: Workspace, node: Node) -> Row:
    def add(edit: Transaction, text: str) -> None:
        configuration = NodeDeviceConfiguration(text.strip())
        nodes.set_device_configurations(edit, node, (*node.device_configurations, configuration))

    choices = tuple(Suggestion(c.name) for c in workspace.model.configurations)
    hint = "name of a configuration"
    return add_row("Add devices", Field(f"Add devices to {name_of(node)}", str, add, choices=choices, hint=hint))


def configurations_section(workspace: Workspace, model: Model) -> Row:
    """The model's device configurations."""
    configurations = model.configurations

    def rows() -> Sequence[Row]:
        return [*(_model_row(workspace, model, i) for i in range(len(configurations))), _add_to_model(model)]

    return section("configurations", "Device configurations", len(configurations), rows)


def _model_row(workspace: Workspace, model: Model, index: int) -> Row:
    configuration = model.configurations[index]
    name = configuration.name

    def set_devices(edit: Transaction, text: str) -> None:
        _replace(edit, model, index, _parse(name, text))

    def rename(edit: Transaction, text: str) -> None:
        _replace(edit, model, index, replace(configuration, name=text.strip()))

    row = Row(f"configuration {index}", display(name, 80), display(_text(configuration), 300))
    row.field = Field(f"Set devices of {display(name, 60)}", lambda: _text(configuration), set_devices)
    row.label_field = Field(f"Rename {display(name, 60)}", lambda: name, rename)
    row.actions = (
        RowAction(
            "Remove",
            act(workspace, f"Remove {display(name, 60)}", lambda edit: _replace(edit, model, index, None)),
            "delete",
            "remove",
        ),
    )
    return row


def _text(configuration: DeviceConfiguration) -> str:
    return ", ".join(configuration.devices) if configuration.devices else str(configuration.num_devices)


def _parse(name: str, text: str) -> DeviceConfiguration:
    """A number of devices, or their names."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) == 1 and parts[0].lstrip("-").isdecimal():
        number = parse_int(parts[0])
        if not 0 < number < 1 << 31:
            raise ModelError(f"{number} devices are not possible", "Write a number from 1 on.")
        return DeviceConfiguration(name, number)
    if not parts:
        raise ModelError("A configuration needs devices", "Write how many there are, or their names.")
    return DeviceConfiguration(name, len(parts), tuple(parts))


def _replace(edit: Transaction, model: Model, index: int, configuration: DeviceConfiguration | None) -> None:
    have = model.configurations
    middle = () if configuration is None else (configuration,)
    properties.set_configurations(edit, (*have[:index], *middle, *have[index + 1 :]))


def _add_to_model(model: Model) -> Row:
    def add(edit: Transaction, text: str) -> None:
        name, equals, devices = text.partition("=")
        if not name.strip():
            raise ModelError("A configuration needs a name", "Write name = cpu:0, cpu:1 or name = 2.")
        made = _parse(name.strip(), devices if equals else "1")
        properties.set_configurations(edit, (*model.configurations, made))

    return add_row("Add", Field("Add device configuration", str, add, hint="name = devices"))
